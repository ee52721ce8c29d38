#!/usr/bin/env python3
"""Fits the time model's constants that softgpu/constants.def marks so (FIT) to the published rows that are not held.

What is made small is the mean over families of the mean |log(modelled / measured)| of a family's rows: families weigh
alike, however many rows they have. Every constant has a grid between its limits (log scale; powers: 1, 2, 4, 8), and
the fit begins in its middle, whatever softgpu/constants.def has now. A sweep asks the model for the rows' times at each
point of each constant's grid, the others as they are, then walks the coordinates as if those factors multiplied; sweeps
go on until the point stays. The kernels are executed once (published-model --sets). Nothing is random.

--leave-out: the same without each family and each device in turn, walked on the factors of the last sweep from the
middle of the grids, and the times of the rows that were left out at the point it comes to. A constant that no row is
left for stays in the middle.

    factor   modelled over measured or the other way round, whichever is above 1: median
    off      share of rows wrong by more than a factor of 2
    fitted   with those rows among the fitted ones (but held ones); left out: fitted without them

usage: ./dev bench model --fit [--leave-out]
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

import results

POINTS = 25
SWEEPS = 3  # at most
BETTER = 1e-6  # of the mean |log|: less is nothing


class Model:
    """published-model --sets: rows, constants to be fitted, and times of rows for values of the constants."""

    def __init__(self, build):
        folder = os.path.join(results.ROOT, "tests/published")
        program = os.path.join(build, "tests/published/published-model")
        listed = subprocess.run([program, "--constants"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.constants = [c for c in map(json.loads, listed.splitlines()) if c["high"] > 0]
        files = sorted(f"{folder}/{f}" for f in os.listdir(folder)
                       if f.endswith(".tsv") and f not in ("devices.tsv", "baseline.tsv"))
        rows = sum(sum(not l.startswith("#") for l in open(f, encoding="utf-8")) - 1 for f in files)
        self.process = subprocess.Popen([program, "--sets", f"{folder}/devices.tsv", f"{folder}/kernels", *files],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rows = [json.loads(self.process.stdout.readline() or "null") for _ in range(rows)]
        if None in self.rows:
            sys.exit("fit-model: published-model failed")
        self.grid = [grid(c) for c in self.constants]

    def logs(self, point, which=None):
        """log(modelled / measured) of the rows `which`, all without."""
        which = range(len(self.rows)) if which is None else which
        if not which:  # no numbers: the program would take all rows
            return {}
        values = ",".join(f"{c['name']}={self.grid[i][k]}" for i, (c, k) in enumerate(zip(self.constants, point)))
        self.process.stdin.write(" ".join(map(str, which)) + ";" + values + "\n")
        self.process.stdin.flush()
        return {r: math.log(t / self.rows[r]["measured_us"])
                for r, t in zip(which, json.loads(self.process.stdout.readline()))}


def grid(c):
    if c["unit"] == "power":
        return [1, 2, 4, 8]
    step = math.log(c["high"] / c["low"]) / (POINTS - 1)
    return [float(f"{c['low'] * math.exp(step * i):.3g}") for i in range(POINTS)]


def middle(model):
    return [(len(g) - 1) // 2 for g in model.grid]


def sweep(model, point, moved):
    """At `point`: all rows, and by constant and place in its grid the rows that it moves. `moved` has which these are;
    at first, what moves at either end of the grid."""
    base = model.logs(point)
    table = []
    for i, g in enumerate(model.grid):
        ends = {k: model.logs(point[:i] + [k] + point[i + 1:]) for k in (0, len(g) - 1)} if i not in moved else {}
        if ends:
            moved[i] = [r for r in base if any(abs(t[r] - base[r]) > 1e-9 for t in ends.values())]
        table.append([{r: (ends[k] if k in ends else base)[r] for r in moved[i]} if k in ends or k == point[i] else
                      model.logs(point[:i] + [k] + point[i + 1:], moved[i]) for k in range(len(g))])
    return base, table


def weights(model, rows):
    """Of each row, so that families weigh alike."""
    count = {}
    for r in rows:
        count[model.rows[r]["family"]] = count.get(model.rows[r]["family"], 0) + 1
    return {r: 1 / count[model.rows[r]["family"]] / len(count) for r in rows}


def walk(model, at, base, table, rows):
    """The point that is best for `rows`, by coordinates from the middle on; base and table: a sweep at `at`."""
    weight, point, now = weights(model, rows), middle(model), dict(base)
    for i, (here, k) in enumerate(zip(at, point)):
        for r, v in table[i][k].items():
            now[r] += v - table[i][here][r]
    more = True
    while more:
        more = False
        for i, places in enumerate(table):
            mine = [r for r in places[0] if r in weight]

            def error(k):
                return sum(weight[r] * abs(now[r] + places[k][r] - places[point[i]][r]) for r in mine)
            best = min(range(len(places)), key=lambda k: (error(k), abs(k - point[i])))
            if error(best) < error(point[i]) - BETTER:
                for r in places[0]:
                    now[r] += places[best][r] - places[point[i]][r]
                point[i], more = best, True
    return point


def mean(model, logs, rows):
    return sum(w * abs(logs[r]) for r, w in weights(model, rows).items())


def line(logs):
    factors = [math.exp(abs(x)) for x in logs]
    return f"{statistics.median(factors):8.3f}{sum(f > 2 for f in factors) / len(factors):7.1%}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--leave-out", action="store_true")
    p.add_argument("--quick", action="store_true", help="one sweep")
    o = results.options(p)
    model = Model(o.build)
    fitted = [r for r, x in enumerate(model.rows) if not x["held"]]
    held = [r for r, x in enumerate(model.rows) if x["held"]]
    before = {r: math.log(x["modeled_us"] / x["measured_us"]) for r, x in enumerate(model.rows)}
    point, moved = middle(model), {}
    for _ in range(1 if o.quick else SWEEPS):
        at = point
        base, table = sweep(model, at, moved)
        print(f"mean |log| {mean(model, base, fitted):.4f} at",
              ", ".join(f"{c['name']} {g[k]}" for c, g, k in zip(model.constants, model.grid, at)), flush=True)
        point = walk(model, at, base, table, fitted)
        if point == at:
            break
    logs = model.logs(point)
    print(f"{'constant':16}{'low':>8}{'high':>8}{'was':>8}{'fitted':>8}  fitted rows that it moves, by family")
    for i, (c, g) in enumerate(zip(model.constants, model.grid)):
        mine = [r for r in moved[i] if not model.rows[r]["held"]]
        count = {}
        for r in mine:
            count[model.rows[r]["family"]] = count.get(model.rows[r]["family"], 0) + 1
        print(f"{c['name']:16}{c['low']:8.3g}{c['high']:8.3g}{c['value']:8.3g}{g[point[i]]:8.3g}  {len(mine)};",
              ", ".join(f"{f} {n}" for f, n in sorted(count.items(), key=lambda x: (-x[1], x[0]))))
    print(f"{'':16}{'rows':>6}  {'was: mean |log|, factor, off':30}fitted: the same")
    for name, rows in (("fitted rows", fitted), ("held rows", held)):
        print(f"{name:16}{len(rows):6}  {mean(model, before, rows):8.4f}{line(before[r] for r in rows):22}"
              f"{mean(model, logs, rows):8.4f}{line(logs[r] for r in rows)}")
    for key in ("family", "device") if o.leave_out else ():
        print(f"{key:14}{'rows':>6}{'fitted: factor, off':>20}{'left out: factor, off':>24}")
        whole = {"fitted": [], "out": []}
        for name in sorted({x[key] for x in model.rows}):
            out = [r for r, x in enumerate(model.rows) if x[key] == name]
            rest = [r for r in fitted if model.rows[r][key] != name]
            other = model.logs(walk(model, at, base, table, rest), out)
            whole["fitted"] += [logs[r] for r in out]
            whole["out"] += other.values()
            print(f"{name:14}{len(out):6}{line(logs[r] for r in out):>20}{line(other.values()):>24}", flush=True)
        print(f"{'all':14}{len(model.rows):6}{line(whole['fitted']):>20}{line(whole['out']):>24}")


if __name__ == "__main__":
    main()
