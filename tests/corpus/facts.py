#!/usr/bin/env python3
"""facts.py FOLDER…: does the oracle agree with expected.json? facts.py --write FOLDER…: make expected.json from the
oracle.

expected.json holds the members of docs/CONTRACT.md §3 for every ordered pair of launches, without the maps: what a
person checks by eye, and what a change of oracle.py or footprints.py must show in a diff. Its member "plan", written by
hand, says what the planner must at least achieve ("launches_at_most"; "verdicts": kind, launches, reason, "" for what
must be kept).
"""
import json
import os
import sys

import oracle


def facts(folder):
    return [{k: v for k, v in e.items() if k != "map"} for e in oracle.document(oracle.load(folder))]


def main():
    write = sys.argv[1:2] == ["--write"]
    bad = 0
    for folder in sys.argv[1 + write:]:
        path = os.path.join(folder, "expected.json")
        found = facts(folder)
        if write:
            plan = json.load(open(path, encoding="utf-8")).get("plan") if os.path.exists(path) else None
            with open(path, "w", encoding="utf-8") as f:
                f.write('{"edges": [\n' + ",\n".join("  " + json.dumps(e) for e in found) + "\n]")
                f.write((',\n "plan": ' + json.dumps(plan) if plan else "") + "}\n")
            continue
        want = json.load(open(path, encoding="utf-8"))["edges"]
        for w, e in zip(want, found):
            for k in w:
                if w[k] != e[k]:
                    print(f"{folder}: {e['producer']} -> {e['consumer']}: {k}: expected {w[k]}, the oracle has {e[k]}")
                    bad += 1
        if len(want) != len(found):
            print(f"{folder}: {len(want)} edges expected, the oracle has {len(found)}")
            bad += 1
        print(f"{folder}: {len(found)} edges")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
