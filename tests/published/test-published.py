"""The time model gets no worse against what others measured: every family of tests/published/ is at least as near, has
at most as many rows off by more than a factor of 2, and tells the faster variant at least as often as baseline.tsv
says. And at most one of the model's constants is fitted for ten rows that are not held.

No doubt of softgpu/model/doubts.def is smaller than the median error of the families that it names.

Most of the time goes into grid-sync, whose blocks wait for each other: without --whole its rows of the least size
count, as grid-sync-some, and what is asked of all rows together is not asked. ./dev nightly has them all.

`test-published.py --write` writes baseline.tsv anew, for a change that is an improvement on the whole; its message says
by how much. docs/TIMING.md says what the figures mean.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../bench"))
import importlib  # noqa: E402

bench = importlib.import_module("bench-model")

BASELINE = os.path.join(HERE, "baseline.tsv")
# NVRTC gives the same source other PTX now and then (seen with 13.0: loads of shared memory joined or not)
SLACK, ROOM = 0.01, {"median": 0, "worst": 0, "off": 0.002, "false": 3, "missed": 3}
SLOW, SLOW_WORK = "grid-sync", "sync-4096"
COLUMNS = ("rows", "median", "worst", "off", "order", "false", "missed")


def doubts():
    """The terms of the model's doubts: name, factor, families."""
    with open(os.path.join(HERE, "../../softgpu/model/doubts.def"), encoding="utf-8") as f:
        found = re.finditer(r'^TERM\((\w+), ([\d.]+), "(.*)"\)', f.read(), re.M)
        return [(m[1], float(m[2]), m[3].split()) for m in found]


def some(rows):
    """Of the rows of grid-sync those that count when not all do."""
    return [r for r in rows if r["family"] == SLOW and r["work"] == SLOW_WORK]


def without(folder):
    """A file with these rows alone, under the family's name."""
    path = os.path.join(folder, SLOW + ".tsv")
    with open(os.path.join(HERE, SLOW + ".tsv"), encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        out.writelines(l for l in f if l.startswith(("#", "name\t")) or l.split("\t")[2] == SLOW_WORK)
    return path


def main():
    whole = "--whole" in sys.argv or "--write" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        found = bench.rows(os.environ["DOVETAIL_BUILD"], instead={} if whole else {SLOW: without(folder)})
    now = {**bench.by(found, "family"), SLOW + "-some": bench.summary(some(found))}
    if whole:
        now["all"] = bench.summary(found)
    else:
        del now[SLOW]
    if "--write" in sys.argv:
        with open(BASELINE, "w", encoding="utf-8") as f:
            print("family", *COLUMNS, sep="\t", file=f)
            for name, s in now.items():
                print(name, *(round(s[c], 4) for c in COLUMNS), sep="\t", file=f)
        return 0
    wrong = []
    with open(BASELINE, encoding="utf-8") as f:
        next(f)
        base = {l.split("\t")[0]: dict(zip(COLUMNS, map(float, l.split("\t")[1:]))) for l in f}
    for name, s in now.items():
        print(f"{name:14}{s['rows']:5} rows, median factor {s['median']:.3f}, worst {s['worst']:.2f}, "
              f"{s['off']:.1%} off by 2, order {s['order']:.1%}")
        b = base.get(name)
        if b is None:
            wrong.append(f"{name}: is not in baseline.tsv")
        elif s["rows"] < b["rows"]:
            wrong.append(f"{name}: {s['rows']} rows, {b['rows']:.0f} before")
        else:
            wrong += [f"{name}: {c} is {s[c]:.4f}, was {b[c]:.4f}"
                      for c in ("median", "worst", "off", "false", "missed") if s[c] > b[c] * (1 + SLACK) + ROOM[c]]
            if s["order"] < b["order"] - SLACK:
                wrong.append(f"{name}: order is {s['order']:.4f}, was {b['order']:.4f}")
    listed = subprocess.run([os.path.join(os.environ["DOVETAIL_BUILD"], "tests/published/published-model"),
                             "--constants"], stdout=subprocess.PIPE, text=True, check=True).stdout
    fitted = sum(c["values"] for c in map(json.loads, listed.splitlines()) if c["high"] > 0)
    if whole and not 0 < fitted * 10 <= now["all"]["rows"] - now["all"]["held"]:
        wrong.append(f"{fitted} fitted constants for {now['all']['rows'] - now['all']['held']} rows")
    wrong += [f"doubts.def: {term} {size}, but {f} is off by {now[f]['median']:.3f}"
              for term, size, families in doubts() for f in families
              if (whole or f != SLOW) and now[f]["median"] > size * (1 + SLACK)]
    wrong += [f"{name}: has gone" for name in base if name not in now and (whole or name not in (SLOW, "all"))]
    print("\n".join(wrong) or f"{len(now)} lines: none got worse")
    return 1 if wrong else 0


sys.exit(main())
