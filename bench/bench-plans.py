#!/usr/bin/env python3
"""What the planner gains on the corpus graphs, and what it costs to find out. Writes one file as contract.md section 7 says.

plans    baseline and plan times by the plan's own method (modeled on the software device, and then named so)
figures  wall-clock seconds of whole `dovetail … --local` commands with an empty cache: start, compile, analyse, rewrite, verify;
         median of RUNS runs with the least and the most

usage: bench-plans.py --build DIR --out DIR [--json] [--device SPEC] [GRAPH…]
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import results

RUNS = 3
ROOT = results.ROOT


def timed(*command):
    start = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return time.monotonic() - start, done.stdout


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default=os.environ.get("DOVETAIL_DEVICE", "soft"))
    p.add_argument("graph", nargs="*")
    o = results.options(p)
    tool = os.path.join(o.build, "client/dovetail")
    graphs = o.graph or [os.path.basename(os.path.dirname(g)) for g in sorted(glob.glob(f"{ROOT}/tests/corpus/*/graph.json"))]
    plans, figures, device = [], [], {}
    print(f"{'graph':18} {'launches':>10} {'baseline us':>12} {'plan us':>10} {'gain':>6}  method")
    for name in graphs:
        graph = f"{ROOT}/tests/corpus/{name}/graph.json"
        for verb in ("analyze", "optimize"):
            walls = []
            for _ in range(RUNS):
                with tempfile.TemporaryDirectory() as tmp:
                    wall, text = timed(tool, verb, graph, "--local", "--json", "--device", o.device, "--cache", f"{tmp}/c.db")
                    walls.append(wall)
            figures.append({"name": f"cli.{verb}.{name}.wall_s", "value": round(statistics.median(walls), 4), "runs": RUNS,
                            "min": round(min(walls), 4), "max": round(max(walls), 4)})
        plan = json.loads(text)
        device, a, b = plan["device"], plan["baseline"], plan["optimized"]
        plans.append({"graph": name, "method": b["method"], "baseline_us": a["time_us"], "plan_us": b["time_us"],
                      "launches": a["launches"], "plan_launches": b["launches"], "bitwise": plan["verified"]["bitwise"]})
        print(f"{name:18} {a['launches']:>4} -> {b['launches']:<3} {a['time_us']:12.2f} {b['time_us']:10.2f} "
              f"{a['time_us'] / b['time_us'] if b['time_us'] else 1:5.2f}x  {b['method']}")
    results.write(o.out, "plans", device=device, plans=plans, figures=figures)


if __name__ == "__main__":
    main()
