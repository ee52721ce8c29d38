#!/usr/bin/env python3
"""What the planner gains on whole models as tensor compilers emit them (tests/models), and what it costs to find out:
one `dovetail optimize --local` with an empty cache for each model and device. Writes one file as docs/CONTRACT.md
section 7 says.

plans    launches and times before and after by the plan's own method (modeled on the software device, and then named
         so) with their ranges, wall and CPU seconds of the command with all that it started, the memory of its greatest
         process, which is the worker; how many candidates were kept, dropped and refused, by the reason's first word

usage: bench-models.py --build DIR --out DIR [--json] [--device SPEC,…] [--budget SECONDS] [--layers N] [MODEL…]
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

import results

ROOT = results.ROOT
DEVICES = "soft:h200,soft:a100"
MODELS = ["bert", "gpt2", "resnet"]


def measured(command):
    """(standard output, wall seconds, CPU seconds, peak bytes); the last two over the command and all that it waited
    for."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, use = os.wait4(p.pid, 0)
        wall = time.monotonic() - start
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if p.returncode:
            sys.exit(f"{' '.join(command)}: exit status {p.returncode}\n{err.read().decode(errors='replace')[-2000:]}")
        return out.read().decode(), wall, use.ru_utime + use.ru_stime, use.ru_maxrss * 1024


def verdicts(plan):
    """{"refused": {"block-fusion order": 12, …}, …}: a reason begins with the name of its condition."""
    found = collections.defaultdict(collections.Counter)
    for r in plan["rewrites"]:
        why = f" {r['reason'].split(':')[0]}" if r["verdict"] == "refused" else ""
        found[r["verdict"]][r["kind"] + why] += 1
    return {verdict: dict(names.most_common()) for verdict, names in found.items()}


def row(tool, model, graph, spec, options):
    with tempfile.TemporaryDirectory() as tmp:
        text, wall, cpu, peak = measured([tool, "optimize", graph, "--local", "--json", "--device", spec,
                                          "--cache", f"{tmp}/c.db", *options])
    plan = json.loads(text)
    a, b = plan["baseline"], plan["optimized"]
    ranges = {"baseline_range_us": a.get("range_us"), "plan_range_us": b.get("range_us"),
              "gain_range": plan.get("gain_range")}
    return {"graph": model, "device": spec, "method": b["method"],
            "baseline_us": a["time_us"], "plan_us": b["time_us"],
            **{k: v for k, v in ranges.items() if v}, "launches": a["launches"], "plan_launches": b["launches"],
            "bitwise": plan["verified"]["bitwise"], "planning_s": round(wall, 3), "planning_cpu_s": round(cpu, 3),
            "peak_bytes": peak, "verdicts": verdicts(plan)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default=os.environ.get("DOVETAIL_DEVICE", DEVICES))
    p.add_argument("--budget", help="seconds of planning, as dovetail's")
    p.add_argument("--layers", type=int, help="of each model; default: what tests/models/generate.py takes")
    p.add_argument("model", nargs="*", default=MODELS)
    o = results.options(p)
    tool = os.path.join(o.build, "client/dovetail")
    options = ["--budget", o.budget] if o.budget else []
    plans = []
    print(f"{'model':10} {'device':10} {'launches':>12} {'a layer':>13} {'baseline us':>12} {'plan us':>10} "
          f"{'gain':>6} {'range':>13} {'wall':>8} {'CPU':>8} {'peak':>8}  method")
    for model in o.model:
        with tempfile.TemporaryDirectory() as tmp:
            made = subprocess.run([sys.executable, f"{ROOT}/tests/models/generate.py", model, "-o", tmp]
                                  + (["--layers", str(o.layers)] if o.layers else []),
                                  check=True, capture_output=True, text=True)
            name, layers = made.stdout.split()
            for spec in o.device.split(","):
                r = row(tool, name, f"{tmp}/graph.json", spec, options)
                r["layers"] = int(layers)
                plans.append(r)
                print(f"{name:10} {spec:10} {r['launches']:5} -> {r['plan_launches']:<3} "
                      f"{r['launches'] / r['layers']:5.1f} -> {r['plan_launches'] / r['layers']:<4.1f} "
                      f"{r['baseline_us']:12.2f} {r['plan_us']:10.2f} {r['baseline_us'] / r['plan_us']:5.2f}x "
                      f"{' to '.join(f'{g:.2f}' for g in r.get('gain_range', [])):>13} "
                      f"{r['planning_s']:6.0f} s {r['planning_cpu_s']:6.0f} s {r['peak_bytes'] / 1e6:5.0f} MB  "
                      f"{r['method']}", flush=True)
                refused = ", ".join(f"{n} {why}" for why, n in list(r["verdicts"].get("refused", {}).items())[:6])
                print(f"{'':10} refused most: {refused or '-'}", flush=True)
    results.write(o.out, "models", plans=plans)


if __name__ == "__main__":
    main()
