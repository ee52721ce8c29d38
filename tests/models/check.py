#!/usr/bin/env python3
"""check.py DOVETAIL REFERENCE MODEL run|plan|detour [OPTION…]: a generated model through the command line, without a
service; options as generate.py has them.

  run     a layer of real size: every block map is proved, and the results are those of reference.c
  plan    a layer of small size: the plan computes the same bytes as the graph, for two seeds, and they are right; it is
          not slower by its own method
  detour  on an A100 model, the plan of a feed-forward network has a slice that gains nothing for sure by itself, and
          ends clearly faster than without it
"""
import filecmp
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus"))
from check import check_bounds  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def run(tool, *args, cache, device="soft:h200"):
    command = [tool, *args, "--local", "--device", device, "--cache", cache]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}{done.stdout[:2000]}")
    return done.stdout


def detour(tool, graph, out, cache):
    run(tool, "optimize", graph, "-o", out, cache=cache, device="soft:a100")
    plan = json.load(open(f"{out}/plan.json", encoding="utf-8"))
    kept = [r for r in plan["rewrites"] if r["verdict"] == "kept" and "by itself it is not faster for sure" in
            r.get("reason", "")]
    if [r["kind"] for r in kept] != ["slice"] or not plan["verified"]["bitwise"]:
        sys.exit(f"{kept}, {plan['verified']}")
    # a kept step of any other plan gains at once, under every doubt
    if not plan["gain_range"][0] > 1.5:
        sys.exit(f"{plan['gain_range']}")


def main():
    tool, reference, model, what, *options = sys.argv[1:]
    size = "small" if what == "plan" else "full"
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([sys.executable, f"{HERE}/generate.py", model, "--layers", "1", "-o", tmp]
                       + (["--small"] if what == "plan" else []) + options, check=True)
        graph, cache = f"{tmp}/graph.json", f"{tmp}/c.db"

        def results(document, seed):
            out = f"{tmp}/{'plan' if 'plan' in document else 'graph'}{seed}"
            run(tool, "run", document, "--seed", seed, "--dump", out, cache=cache)
            if what != "detour":
                subprocess.run([reference, model, "1", size, out, seed], check=True)
            return f"{out}/out.bin"

        if what == "run":
            edges = json.loads(run(tool, "analyze", graph, "--json", cache=cache))["edges"]
            guessed = [f"{e['producer']} -> {e['consumer']}" for e in edges if e["evidence"] != "proved"]
            if guessed or not edges:
                sys.exit(f"of {len(edges)} edges, not proved: {', '.join(guessed)}")
            results(graph, "0")
            return
        if what == "detour":
            detour(tool, graph, f"{tmp}/plan", cache)
            if not filecmp.cmp(results(graph, "5"), results(f"{tmp}/plan/plan.json", "5"), shallow=False):
                sys.exit("graph and plan differ")
            return
        run(tool, "optimize", graph, "-o", f"{tmp}/plan", cache=cache)
        plan = json.load(open(f"{tmp}/plan/plan.json", encoding="utf-8"))
        if not plan["verified"]["bitwise"] or plan["optimized"]["time_us"] > plan["baseline"]["time_us"]:
            sys.exit(f"{plan['verified']}, {plan['baseline']}, {plan['optimized']}")
        check_bounds(plan)
        if not plan["baseline"]["bound_us"] > 0:
            sys.exit("the model has no bound")
        if len(plan["launches"]) >= plan["baseline"]["launches"]:
            sys.exit(f"of {plan['baseline']['launches']} launches, {len(plan['launches'])} are left")
        for seed in ("0", "5"):
            if not filecmp.cmp(results(graph, seed), results(f"{tmp}/plan/plan.json", seed), shallow=False):
                sys.exit(f"seed {seed}: graph and plan differ")
        print(f"{plan['baseline']['launches']} -> {len(plan['launches'])} launches, the same bytes")


if __name__ == "__main__":
    main()
