#!/usr/bin/env python3
"""Do all lists of kinds of rewrites say what the registry says (rewrite/kinds/registry.c, through planner.c)?

The service never links the rewriter, and pages and schemas cannot include it, so its kinds are listed more than once.
Each list is read from its file and compared, as a set, with the kinds of the registry:

  schema/plan.schema.json     the enums of rewrites[].kind and level
  daemon/shared/options.c     what allow and deny take; also "reorder-atomics", which is no kind
  docs/CONTRACT.md §4         rewrites[].kind, with the levels in brackets
  docs/CONTRACT.md §5         --allow: the kinds that are off by default, and "reorder-atomics"
  client/table.c              the help of --allow: the same
  docs/REWRITES.md            a section for each kind ("## Dead blocks"), and for each level of block fusion the word
  rewrite/README.md           the table of kinds, with their files
  tests/machine/joints.py     OTHERS: all kinds that are on, but block fusion
  tests/unit/test-rewrite-{prefetch,split}.c    deny: all kinds that are on, but the one that the test is about
  tests/diff/mutants.py       the kind of each of its cases: every kind has one

    registry.py PLANNER ROOT    exit status 1 if a list differs
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plans import Planner  # noqa: E402

PERMISSION = {"reorder-atomics"}  # --allow takes it, and no rewrite has this name


def part(text, begin, end):
    """What stands between two patterns; "" if it is not there, so that the list differs."""
    m = re.search(begin + r"(.*?)" + end, text, re.S)
    return m[1] if m else ""


def words(text, quote):
    return set(re.findall(quote + r"([a-z][a-z0-9-]*)" + quote, text))


def main():
    planner, root = Planner(sys.argv[1]), sys.argv[2]
    listed = planner.ask({"list": True})
    if planner.close():
        sys.exit("the planner ended with an error")
    kinds, off = {k for k, _ in listed["kinds"]}, set(listed["off"])
    levels = {level for _, level in listed["kinds"] if level}

    def read(path):
        with open(os.path.join(root, path), encoding="utf-8") as f:
            return f.read()

    contract, rewrites = read("docs/CONTRACT.md"), read("docs/REWRITES.md")
    names = part(contract, r"\* \*\*`rewrites\[\]\.kind`\*\*:", r"`verdict`")
    sections = re.findall(r"^## (.*)$", rewrites, re.M)
    lists = [
        ("schema/plan.schema.json, kind", kinds,
         set(json.loads(read("schema/plan.schema.json"))["$defs"]["rewrite"]["properties"]["kind"]["enum"])),
        ("schema/plan.schema.json, level", levels,
         set(json.loads(read("schema/plan.schema.json"))["$defs"]["rewrite"]["properties"]["level"]["enum"])),
        ("daemon/shared/options.c, known_kind()", kinds | PERMISSION,
         words(part(read("daemon/shared/options.c"), r"\bkind\[\] = \{", r"\}"), '"')),
        ("docs/CONTRACT.md §4, rewrites[].kind", kinds, words(re.sub(r"\([^)]*\)", "", names), "`")),
        ("docs/CONTRACT.md §4, levels", levels,
         set().union(*(words(m, "`") for m in re.findall(r"\blevels?:?( `.*?)\)", names, re.S)))),
        ("docs/CONTRACT.md §5, --allow", off | PERMISSION,
         words(part(contract, r"\* `--allow` switches on", r";"), "`")),
        ("client/table.c, help of --allow", off | PERMISSION,
         set(re.findall(r"[a-z-]+", part(read("client/table.c"), r'"allow what is off by itself: ', r'"')))),
        ("docs/REWRITES.md, sections", kinds,
         {k for k in kinds for s in sections if s.lower().replace(" ", "-").startswith(k)}),
        ("docs/REWRITES.md, levels", levels, {level for level in levels if re.search(rf"\b{level}\b", rewrites)}),
        ("rewrite/README.md, table", kinds, set(re.findall(r"^\| `([a-z-]+)` \| `\w+\.c`", read("rewrite/README.md"),
                                                           re.M))),
        ("tests/machine/joints.py, OTHERS", kinds - off - {"block-fusion"},
         words(part(read("tests/machine/joints.py"), r"\nOTHERS = \[", r"\]"), '"')),
        *(("tests/unit/test-rewrite-%s.c, deny" % own, kinds - off - {own},
           words(part(read("tests/unit/test-rewrite-%s.c" % own), r"\bdeny\[\] = \{", r"\}"), '"'))
          for own in ("prefetch", "split")),
        ("tests/diff/mutants.py, kinds of cases", kinds, kinds & words(read("tests/diff/mutants.py"), '"')),
    ]
    wrong = 0
    for where, want, have in lists:
        for what, names in (("lacks", want - have), ("has what is no such kind:", have - want)):
            if names:
                wrong += 1
                print("%s %s %s" % (where, what, ", ".join(sorted(names))))
    print("%d kinds, %d lists, %d differences" % (len(kinds), len(lists), wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
