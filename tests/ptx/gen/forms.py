"""The table ../forms.txt read, expanded and compared with what the RUN cases run.

    forms.py FORMS OPS.DEF RUN-PTX FILES…      runs the cases and asks the runner which forms they have

Errors: a form of the table that no case runs; a form that a case runs and the table does not have; an instruction of
ops.def without a line; an `unrun` or `open` line that no longer holds. "Runs" means: stands, reachable, in a function
that an entry uses whose case passed.
"""
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile


class Line:
    def __init__(self, number, kind, text, sets, why=""):
        self.number, self.kind, self.why = number, kind, why
        head, _, shape = text.partition(" /")
        self.text, self.shapes = text, [s for s in shape.strip().split(",") if s]
        while "$" in head:  # `.$set` inside brackets: the dot holds for each word
            head = re.sub(r"([\[(][^\])]*?)\.\$(\w+)",
                          lambda m: m[1] + "|".join("." + w for w in sets[m[2]].split("|")), head)
            head = re.sub(r"([\[(][^\])]*?)\$(\w+)", lambda m: m[1] + sets[m[2]], head)
            head = re.sub(r"^([^\[(]*|.*[\])][^\[(]*)\$(\w+)", lambda m: m[1] + "(" + sets[m[2]] + ")", head)
        self.groups = []  # alternatives, "" where there may be none
        for m in re.finditer(r"\[([^\]]*)\]|\(([^)]*)\)|([^\[(]+)", head):
            self.groups.append([m[3]] if m[3] else [""] + m[1].split("|") if m[1] else m[2].split("|"))
        self.regex = re.compile("".join("(%s)" % "|".join(re.escape(a) for a in sorted(g, key=len, reverse=True))
                                        for g in self.groups) + r"$")

    def heads(self):
        return ["".join(x) for x in itertools.product(*self.groups)]

    def wanted(self):
        """every combination with every shape, as (head, shape or "")"""
        return [(h, s) for h in self.heads() for s in self.shapes or [""]]

    def pairs(self):
        n = len(self.groups)
        return {(i, a, j, b) for i in range(n) for j in range(i + 1, n) for a in self.groups[i]
                for b in self.groups[j]} or {
            (i, a, i, a) for i in range(n) for a in self.groups[i]}

    def pairs_of(self, head):
        m = self.regex.match(head)
        if not m:
            return set()
        g = m.groups()
        return {(i, g[i], j, g[j]) for i in range(len(g)) for j in range(i + 1, len(g))} or {(0, g[0], 0, g[0])}

    def sample(self):
        """few heads that have every pair of words between them"""
        left, out = self.pairs(), []
        while left:
            row = [None] * len(self.groups)
            for i, a, j, b in sorted(left):  # greedily, in a fixed order
                if row[i] in (None, a) and row[j] in (None, b):
                    row[i], row[j] = a, b
            row = [g[len(out) % len(g)] if r is None else r for r, g in zip(row, self.groups)]
            head = "".join(row)
            left -= {(i, row[i], j, row[j]) for i in range(len(row)) for j in range(len(row))}
            out.append(head)
        return out

    def allows(self, head, shape):
        return bool(self.regex.match(head)) and (not self.shapes or any(fits(s, shape) for s in self.shapes))


def fits(want, shape):
    """shape: kinds of the operands, as rrV2i; want: the same, or a number of them, or nothing"""
    return not want or (len(re.findall(r"[a-zL_]|V\d+", shape)) == int(want) if want.isdigit() else want == shape)


def read(path):
    lines, sets = [], {}
    for number, text in enumerate(open(path, encoding="utf-8"), 1):
        text = text.split("#")[0].strip()
        m = re.match(r"(\w+) = (.*)$", text)
        if m:
            sets[m[1]] = m[2]
        elif text:
            kind, _, rest = text.partition(" ") if text.startswith(("pairs ", "open ", "unrun ", "may ")) else ("all",
                "", text)
            rest, why = (rest.split(": ", 1) + [""])[:2] if kind in ("open", "unrun") else (rest, "")
            if kind in ("open", "unrun") and not why:
                sys.exit("%s:%d: without a reason" % (path, number))
            lines.append(Line(number, kind, rest, sets, why))
    return lines


def mnemonics(path):
    return re.findall(r'^OP\(\w+,\s*"([^"]+)"', open(path, encoding="utf-8").read(), re.M)


def row_of(head, names):
    """the longest mnemonic that opens head"""
    return max((n for n in names if head == n or head.startswith(n + ".")), key=len, default=None)


def check(path, ops, ran):
    lines, names, errors = read(path), mnemonics(ops), []
    heads = {}
    for head, shape in ran:
        heads.setdefault(head, set()).add(shape)
    opened, listed, by_row = {}, set(), {}
    for x in lines:
        first = x.heads()[0]
        row = row_of(first, names)
        if row is None:
            errors.append((x, "no row of ops.def has %s" % first))
            continue
        for r in {row_of(h, names) for h in x.heads()}:
            listed.add(r)
            by_row.setdefault(r, []).append(x)
        if x.kind == "open":
            opened[row] = x
        elif x.kind == "may":
            pass
        elif x.kind == "unrun":
            for h, s in x.wanted():
                if any(fits(s, y) for y in heads.get(h, ())) or (h == row
                                                                 and any(row_of(y, names) == row for y in heads)):
                    errors.append((x, "a case runs %s%s: the line must go" % (h, " /" + s if s else "")))
        elif x.kind == "pairs":
            left = x.pairs()
            for h in heads:
                left -= x.pairs_of(h)
            for i, a, j, b in sorted(left):
                errors.append((x, "no case has %s together with %s in %s" % (a or "nothing in place %d" % i,
                    b or "nothing in place %d" % j, x.text.split("[")[0].split("(")[0])))
        else:
            for h, s in x.wanted():
                if not any(fits(s, y) for y in heads.get(h, ())):
                    errors.append((x, "no case runs %s%s" % (h, " /" + s if s else "")))
    rows = {}
    for head in heads:
        rows.setdefault(row_of(head, names), []).append(head)
    for row, hs in sorted(rows.items(), key=str):
        if row in opened:
            continue
        for h in sorted(hs):
            for s in sorted(heads[h]):
                if not any(x.allows(h, s) for x in by_row.get(row, ())):
                    errors.append((None, "a case runs %s /%s, which no line allows" % (h, s)))
    for row, x in opened.items():
        if row not in rows:
            errors.append((x, "no case runs %s" % row))
    for n in names:
        if n not in listed:
            errors.append((None, "no line for %s" % n))
    return errors, sum(len(x.wanted()) for x in lines if x.kind == "all"), sum(x.kind == "pairs" for x in lines)


def self_test():
    """each kind of error is found, and nothing else"""
    folder = tempfile.mkdtemp()
    table, ops = os.path.join(folder, "forms"), os.path.join(folder, "ops")
    open(ops, "w").write('OP(A, "add", "dss")\nOP(S, "sub.x", "dss")\nOP(C, "cvt", "ds")\nOP(Z, "zip", "ds")\n')

    def errors(text, ran):
        open(table, "w").write(text)
        return sorted(e for _, e in check(table, ops, ran)[0])
    rest = "\nopen sub.x: w\nunrun zip: w\ncvt.u8 /2,ri"
    have = [("sub.x.u8", "rr"), ("cvt.u8", "ri")]
    both = have + [("add.u32", "rrr"), ("add.sat.u32", "rrr")]
    assert errors("t = u32\nadd[.sat].$t" + rest, both) == []
    assert errors("add[.sat].u32" + rest, have + [("add.u32", "rrr")]) == ["no case runs add.sat.u32"]
    assert errors("add.u32" + rest, both) == ["a case runs add.sat.u32 /rrr, which no line allows"]
    assert errors("add[.sat].u32" + rest, [x for x in both if x[0] != "cvt.u8"]
                  + [("cvt.u8", "rr")]) == ["no case runs cvt.u8 /ri"]
    assert errors("add[.sat].u32" + rest, both[1:]) == ["no case runs sub.x"]
    assert errors("add[.sat].u32" + rest, both + [("zip", "rr")]) == ["a case runs zip: the line must go"]
    assert errors("add[.sat].u32" + rest.replace("unrun zip: w", ""), both) == ["no line for zip"]
    assert errors("pairs add[.sat](.a|.b)[.v2].u32" + rest,
                  have + [("add.a.u32", ""), ("add.sat.b.u32", ""), ("add.b.v2.u32", ""),
                          ("add.sat.a.v2.u32", "")]) == []
    assert len(errors("pairs add[.sat](.a|.b)[.v2].u32" + rest,
                      have + [("add.a.u32", ""), ("add.sat.b.u32", ""), ("add.b.v2.u32", "")])) == 3
    shutil.rmtree(folder)


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    table, ops, runner = sys.argv[1:4]
    with tempfile.NamedTemporaryFile("r", suffix=".forms") as f:
        if subprocess.run([runner, "--forms", f.name] + sys.argv[4:]).returncode:
            sys.exit("a case fails: what runs is not known")
        ran = {tuple((line.rstrip("\n") + " ").split(" ")[:2]) for line in f}
    errors, n, pairs = check(table, ops, ran)
    for x, text in errors:
        print("%s:%d: %s" % (table, x.number, text) if x else text)
    print("%d forms run; the table has %d, and %d products covered by pairs; %d errors"
          % (len({h for h, _ in ran}), n, pairs, len(errors)))
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
