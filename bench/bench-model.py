#!/usr/bin/env python3
"""The time model against what others measured: tests/published/, by family.

    rows     measurements; held: of these, so many that nothing was fitted to
    factor   modelled over measured or the other way round, whichever is above 1: median, and the worst
    off      share of rows wrong by more than a factor of 2
    order    pairs of variants of the same work on one device: share whose faster one the model tells
    kept     by the planner's rule (rewrite/plan/compare.c: faster under every doubt of softgpu/model/doubts.def, or
             asking for no more of anything): false: of the pairs, so many where it would keep what was measured
             slower; missed: of measured gains above 5 %, so many that it would not keep. In the last line families
             count alike, with an upper bound of 95 % (Wilson)

usage: bench-model.py [--json] [--rows] [--held] [--fitted] [--quick] [--machine] [FAMILY…]
       bench-model.py --fit [--leave-out] [--quick]
"""
import argparse
import glob
import itertools
import json
import os
import statistics
import subprocess
import sys

import results

SAME = 1.02  # two measurements nearer to each other than this have no order
GAIN = 1.05  # what a planner must not miss
WRITTEN = ("family", "name", "device", "work", "source", "held", "measured_us", "modeled_us", "range_us")
NOISE = 0.001  # of rewrite/plan/compare.c
Z = 1.645  # one-sided, 95 %


def rows(build, names=(), options=(), instead=None):
    """Every published row with its modelled time. instead: files that stand for those of families."""
    folder = os.path.join(results.ROOT, "tests/published")
    files = [(instead or {}).get(os.path.basename(f)[:-4], f) for f in sorted(glob.glob(f"{folder}/*.tsv"))
             if os.path.basename(f) != "devices.tsv" and not os.path.basename(f).startswith("baseline") and
             (not names or os.path.basename(f)[:-4] in names)]
    done = subprocess.run([os.path.join(build, "tests/published/published-model"), *options, f"{folder}/devices.tsv",
                           f"{folder}/kernels", *files], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        sys.exit("bench-model: published-model failed")
    return [json.loads(line) for line in done.stdout.splitlines()]


def factor(row):
    return max(row["modeled_us"] / row["measured_us"], row["measured_us"] / row["modeled_us"])


def pairs(found):
    """Two variants of the same work on one device whose measured times differ: the slower, the faster."""
    groups = {}
    for r in found:
        if r["work"] != "-":
            groups.setdefault((r["family"], r["work"], r["device"]), []).append(r)
    for group in groups.values():
        for a, b in itertools.combinations(group, 2):
            a, b = sorted((a, b), key=lambda r: -r["measured_us"])
            if a["measured_us"] > b["measured_us"] * SAME:
                yield a, b


def less(was, now):
    return now < was * (1 - NOISE)


def dominates(old, new):
    """Fewer launches (the first of the burdens), no more of anything, no fewer threads in flight."""
    return (new["burden"][0] < old["burden"][0] and new["in_flight"] >= old["in_flight"] and
            all(n <= o for o, n in zip(old["burden"], new["burden"])))


def keeps(old, new):
    """Would the planner replace `old` by `new`?"""
    sure = (all(less(o, n) for o, n in zip(old["doubt_us"], new["doubt_us"])) and
            not less(new["moot_us"], old["moot_us"]) and
            (new["kernel"] == old["kernel"] or less(old["doubt_us"][0], new["made_us"])))
    return less(old["doubt_us"][0], new["doubt_us"][0]) and (sure or dominates(old, new))


def summary(found):
    f = [factor(r) for r in found]
    ordered = list(pairs(found))
    gains = [(a, b) for a, b in ordered if a["measured_us"] > b["measured_us"] * GAIN]
    return {"rows": len(found), "held": sum(r["held"] for r in found), "median": statistics.median(f), "worst": max(f),
            "off": sum(x > 2 for x in f) / len(f), "pairs": len(ordered),
            "order": sum(b["modeled_us"] < a["modeled_us"] for a, b in ordered) / max(1, len(ordered)),
            "false": sum(keeps(b, a) for a, b in ordered), "gains": len(gains),
            "missed": sum(not keeps(a, b) for a, b in gains)}


def alike(families):
    """Of the summaries of families, which count alike: the rate of false keeps with its bound, that of missed gains."""
    with_pairs = [s for s in families.values() if s["pairs"]]
    with_gains = [s for s in families.values() if s["gains"]]
    if not with_pairs or not with_gains:
        return None
    false = statistics.mean(s["false"] / s["pairs"] for s in with_pairs)
    # the variance of such a mean is that of so many pairs of one family
    n = len(with_pairs) ** 2 / sum(1 / s["pairs"] for s in with_pairs)
    bound = (false + Z * Z / (2 * n) + Z * ((false * (1 - false) + Z * Z / (4 * n)) / n) ** 0.5) / (1 + Z * Z / n)
    return {"false_rate": false, "false_bound": bound, "missed_rate": statistics.mean(s["missed"] / s["gains"]
                                                                                    for s in with_gains)}


def by(found, key):
    groups = {}
    for r in found:
        groups.setdefault(r[key], []).append(r)
    return {k: summary(groups[k]) for k in sorted(groups)}


def show(name, s):
    order = f"{s['order']:6.0%} of {s['pairs']:4}" if s["pairs"] else f"{'':14}"
    print(f"{name:14}{s['rows']:5}{s['held']:6}{s['median']:8.2f}{s['worst']:9.2f}{s['off']:7.0%} {order}"
          f"{s['false']:7}{s['missed']:8} of {s['gains']}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", action="store_true", help="every row")
    p.add_argument("--held", action="store_true", help="only rows that nothing was fitted to")
    p.add_argument("--fitted", action="store_true", help="only the others")
    p.add_argument("--quick", action="store_true", help="nothing written")
    p.add_argument("--machine", action="store_true", help="slots by machine code (docs/TIMING.md); nothing written")
    p.add_argument("--fit", action="store_true", help="fit constants, print them; nothing written")
    p.add_argument("--leave-out", action="store_true")
    p.add_argument("family", nargs="*")
    o = results.options(p)
    if o.fit:
        script = os.path.join(results.ROOT, "bench/fit-model.py")
        options = ["--leave-out"] * o.leave_out + ["--quick"] * o.quick
        sys.exit(subprocess.run([sys.executable, script, "--build", o.build, *options], check=False).returncode)
    found = [r for r in rows(o.build, o.family, ["--machine"] * o.machine)
             if not (o.held and not r["held"] or o.fitted and r["held"])]
    if not found:
        sys.exit("bench-model: no rows")
    if o.rows:
        for r in found:
            print(f"{r['family']:12}{r['device']:11}{r['name']:34}{r['measured_us']:12.3f}{r['modeled_us']:12.3f}"
                  f"{r['modeled_us'] / r['measured_us']:8.2f}{' held' if r['held'] else ''}")
    for key in ("family", "device"):
        print(f"{key:14}{'rows':>5}{'held':>6}{'median':>8}{'worst':>9}{'off':>7}{'order':>15}{'false':>7}"
              f"{'missed':>8}")
        for name, s in by(found, key).items():
            show(name, s)
    s = summary(found)
    show("all", s)
    rates = alike(by(found, "family"))
    if rates:
        print(f"families alike: {rates['false_rate']:.2%} false keeps (95 %: at most {rates['false_bound']:.2%}), "
              f"{rates['missed_rate']:.1%} of gains missed")
    figures = [{"name": f"model.{name}.{k}", "value": round(v, 4)}
               for name, f in {**by(found, "family"), "all": s}.items() for k, v in f.items()]
    figures += [{"name": "model.false_keeps", "value": s["false"]},
                {"name": "model.missed_gains", "value": s["missed"]}, {"name": "model.pairs", "value": s["pairs"]}]
    figures += [{"name": f"model.{k}", "value": round(v, 5)} for k, v in (rates or {}).items()]
    if not o.quick and not o.machine and not o.family:
        results.write(o.out, "model", model=[{k: r[k] for k in WRITTEN} for r in found], figures=figures)


if __name__ == "__main__":
    main()
