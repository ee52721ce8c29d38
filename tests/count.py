#!/usr/bin/env python3
"""count.py LOG EXPECTED: how many tests of a meson run (its testlog.json) passed, failed and were skipped, "N N N" on
stdout; what was skipped, and why, on stderr.

A test is a program as meson runs it. One that left no result counts as failed. A case that a program skips inside
(cmocka's skip() by tests/skip.h, unittest's skipTest) counts as skipped too, beside the program, which passed with its
other cases: nothing that did not run looks as if it had.
"""
import json
import re
import sys


def cases(text):
    """(case, why) of what the program skipped inside."""
    found, why = {}, ""
    for line in text.splitlines():
        m = re.match(r"\[ +(BECAUSE|SKIPPED|RUN) +\] (.*)", line)
        if m and m[1] == "RUN":
            why = ""
        elif m and m[1] == "BECAUSE":
            why = m[2]
        elif m and not re.match(r"\d+ test\(s\)", m[2]):
            found.setdefault(m[2], why)
        m = re.match(r"(\S+) \(.*\) \.\.\. skipped ['\"](.*)['\"]$", line)
        if m:
            found[m[1]] = m[2]
    return sorted(found.items())


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        tests = [json.loads(line) for line in f]
    results = [t["result"] for t in tests]
    good, skipped = results.count("OK") + results.count("EXPECTEDFAIL"), results.count("SKIP")
    lost = max(0, int(sys.argv[2]) - len(results))
    failed = len(results) - good - skipped + lost
    for t in tests:
        name = t["name"].split(" / ")[-1]
        if t["result"] == "SKIP":
            said = [line for line in (t.get("stdout", "") + t.get("stderr", "")).splitlines() if line.strip()]
            print("skipped: %s%s" % (name, ": " + said[-1].strip() if said else ""), file=sys.stderr)
            continue
        for case, why in cases(t.get("stdout", "") + "\n" + t.get("stderr", "")):
            print("skipped: %s, case %s%s" % (name, case, ": " + why if why else ""), file=sys.stderr)
            skipped += 1
    print(good, failed, skipped)


if __name__ == "__main__":
    main()
