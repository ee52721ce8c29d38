#!/usr/bin/env python3
"""What the planner gains on the corpus graphs, on several device models, and what it costs to find out. Writes one file
as docs/CONTRACT.md section 7 says.

plans    baseline and plan times by the plan's own method (modeled on the software device, and then named so), launches,
         what was kept, refused and dropped, the median of the planning times
figures wall-clock seconds of whole `dovetail … --local` commands with an empty cache: start, compile, analyse, rewrite,
verify;
         median of RUNS runs with the least and the most

usage: bench-plans.py --build DIR --out DIR [--json] [--device SPEC,…] [--runs N] [GRAPH…]
"""
import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import results

ROOT = results.ROOT
MODELS = "soft:a100,soft:h100,soft:h200"


def timed(*command):
    start = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return time.monotonic() - start, done.stdout


def repeat(tool, verb, graph, device, runs, name, figures):
    walls = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as tmp:
            wall, text = timed(tool, verb, graph, "--local", "--json", "--device", device, "--cache", f"{tmp}/c.db")
            walls.append(wall)
    figures.append({"name": f"cli.{verb}.{name}.{device}.wall_s", "value": round(statistics.median(walls), 4),
                    "runs": runs,
                    "min": round(min(walls), 4), "max": round(max(walls), 4)})
    return json.loads(text), statistics.median(walls)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default=os.environ.get("DOVETAIL_DEVICE", MODELS))
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("graph", nargs="*")
    o = results.options(p)
    tool = os.path.join(o.build, "client/dovetail")
    graphs = o.graph or [os.path.basename(os.path.dirname(g))
                         for g in sorted(glob.glob(f"{ROOT}/tests/corpus/*/graph.json"))]
    plans, figures, device = [], [], {}
    print(f"{'graph':18} {'device':10} {'launches':>10} {'baseline us':>12} {'plan us':>10} {'gain':>6} "
          f"{'range':>13} {'planned in':>11}  method")
    for name in graphs:
        graph = f"{ROOT}/tests/corpus/{name}/graph.json"
        for k, spec in enumerate(o.device.split(",")):
            if not k:
                repeat(tool, "analyze", graph, spec, o.runs, name, figures)
            plan, wall = repeat(tool, "optimize", graph, spec, o.runs, name, figures)
            device, a, b = plan["device"], plan["baseline"], plan["optimized"]
            plans.append({"graph": name, "device": spec, "method": b["method"], "baseline_us": a["time_us"],
                          "plan_us": b["time_us"],
                          **{k: v for k, v in (("baseline_range_us", a.get("range_us")),
                                               ("plan_range_us", b.get("range_us")),
                                               ("gain_range", plan.get("gain_range"))) if v},
                          "launches": a["launches"], "plan_launches": b["launches"],
                          "bitwise": plan["verified"]["bitwise"],
                          "planning_s": round(wall, 3), "rewrites": plan["rewrites"]})
            print(f"{name:18} {spec:10} {a['launches']:>4} -> {b['launches']:<3} {a['time_us']:12.2f} "
                  f"{b['time_us']:10.2f} "
                  f"{a['time_us'] / b['time_us'] if b['time_us'] else 1:5.2f}x "
                  f"{' to '.join(f'{g:.2f}' for g in plan.get('gain_range', [])):>13} {wall:9.2f} s  {b['method']}")
    for spec in o.device.split(","):
        mine = [x for x in plans if x["device"] == spec]
        none = [x["graph"] for x in mine if x["plan_us"] >= x["baseline_us"]]
        mean = math.exp(statistics.fmean(math.log(x["baseline_us"] / x["plan_us"]) for x in mine))
        print(f"{spec}: geometric mean {mean:.3f}x ({mine[0]['method']}); nothing gained on {len(none)} of "
              f"{len(mine)}: {', '.join(none) or '-'}")
    results.write(o.out, "plans", device=device, plans=plans, figures=figures)


if __name__ == "__main__":
    main()
