#!/usr/bin/env python3
"""check.py DOVETAIL FOLDER [analyze|plan|plan-once|plan-short|clean|clean-once]: a corpus graph through the command
line, without a service.

  analyze    every ordered pair of launches, with maps, equals what oracle.py works out, and what expected.json says
  plan       the plan computes the same bytes as the graph, for two seeds; it is not slower by its own method; it is the
             same plan when made again; where FOLDER/reference.c was built (REFERENCE names it), the results are right
             as well; its kernels are clean in all checking modes
  plan-once  plan, without making it again: for graphs that take long (./dev nightly makes those again)
  plan-short plan-once with one seed, and without the checking modes: for sanitizers, that see how it is made
  clean      the graph's own kernels are clean in all checking modes, in several orders, and compute the same
  clean-once clean in one order: for graphs that take long
"""
import filecmp
import json
import os
import subprocess
import sys
import tempfile

import oracle

DEVICE = os.environ.get("DOVETAIL_DEVICE", "soft")


def run(tool, *args, cache=None):
    command = [tool, *args, "--local", "--device", DEVICE] + (["--cache", cache] if cache else [])
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}{done.stdout[:2000]}")
    return done.stdout


def analyze(tool, folder, tmp):
    document = json.loads(run(tool, "analyze", f"{folder}/graph.json", "--json", "--all-edges", "--maps",
                              cache=f"{tmp}/c.db"))
    got = {(e["producer"], e["consumer"]): e for e in document["edges"]}
    expected = json.load(open(f"{folder}/expected.json", encoding="utf-8"))["edges"]
    bad = []
    for source, edges in (("oracle", oracle.document(oracle.load(folder))), ("expected.json", expected)):
        if len(edges) != len(document["edges"]):
            bad.append(f"{len(document['edges'])} edges, {source} has {len(edges)}")
        for want in edges:
            name = f"{want['producer']} -> {want['consumer']}"
            have = got.get((want["producer"], want["consumer"]))
            if have is None:
                bad.append(f"{name}: missing")
                continue
            for key, value in want.items():
                if key.endswith(("_per_consumer", "_per_producer")) and not want["pairs"]:
                    continue  # no block has a pair: no degree to speak of
                mine = have.get(key)
                if key in ("buffers", "hazards", "classes") and mine is not None:
                    mine, value = sorted(mine), sorted(value)
                if key == "map":
                    mine = {h: (mine or {}).get(h, []) for h in ("raw", "war", "waw")}
                if mine != value:
                    bad.append(f"{name}: {key}: {source} has {str(value)[:300]}, analyze says {str(mine)[:300]}")
    if bad:
        sys.exit(f"{folder}: {len(bad)} differences\n" + "\n".join(dict.fromkeys(bad)))
    print(f"{folder}: {len(got)} edges as expected")


def check_bounds(plan):
    """What is left: nothing is faster than its bound, by the same model."""
    if not 0 <= plan["baseline"]["bound_us"] <= plan["optimized"]["time_us"]:
        sys.exit(f"the bound is over the time: {plan['baseline']}, {plan['optimized']}")
    for which, bounds in plan["timeline"]["bound_us"].items():
        spans = plan["timeline"][which]
        if len(bounds) != len(spans):
            sys.exit(f"{which}: {len(bounds)} bounds of {len(spans)} launches")
        for i, (bound, (begin, end)) in enumerate(zip(bounds, spans)):
            if not 0 <= bound <= end - begin + 2e-3:
                sys.exit(f"{which}: launch {i} takes {end - begin} us, its bound is {bound}")


def check_plan(plan, graph):
    need = {"signature", "device", "baseline", "optimized", "rewrites", "verified", "launches", "buffers"}
    if need - plan.keys():
        sys.exit(f"the plan lacks {sorted(need - plan.keys())}")
    if plan["optimized"]["time_us"] > plan["baseline"]["time_us"]:
        sys.exit(f"the plan is slower: {plan['optimized']} against {plan['baseline']}")
    if not plan["verified"]["bitwise"]:
        sys.exit("the plan is not verified")
    check_bounds(plan)
    for r in plan["rewrites"]:
        if r["verdict"] not in ("kept", "refused", "dropped") or (r["verdict"] == "refused" and not r.get("reason")):
            sys.exit(f"rewrite without a verdict or a reason: {r}")
    if plan["baseline"]["launches"] != len(graph["launches"]):
        sys.exit(f"baseline of {plan['baseline']['launches']} launches, the graph has {len(graph['launches'])}")


def plan(tool, folder, tmp, twice=True, short=False):
    graph = json.load(open(f"{folder}/graph.json", encoding="utf-8"))
    run(tool, "optimize", f"{folder}/graph.json", "-o", f"{tmp}/plan", cache=f"{tmp}/a.db")
    made = json.load(open(f"{tmp}/plan/plan.json", encoding="utf-8"))
    check_plan(made, graph)
    if twice:
        again = json.loads(run(tool, "optimize", f"{folder}/graph.json", "--json", cache=f"{tmp}/b.db"))
        for member in ("signature", "launches", "modules", "rewrites"):
            if again.get(member) != made.get(member):
                sys.exit(f"{folder}: made twice, the plans differ in {member}")
    kept = [f"{r['kind']}/{r.get('level', '')} of {'+'.join(r['launches'])}" for r in made["rewrites"]
            if r["verdict"] == "kept"]
    print(f"{folder}: {len(graph['launches'])} -> {len(made['launches'])} launches; kept: {', '.join(kept) or 'none'}")
    want = json.load(open(f"{folder}/expected.json", encoding="utf-8")).get("plan", {})
    if len(made["launches"]) > want.get("launches_at_most", len(graph["launches"])):
        sys.exit(f"{folder}: {len(made['launches'])} launches, expected at most {want['launches_at_most']}")
    for kind, launches, reason in want.get("verdicts", []):  # reason "": it is kept
        told = next((r for r in made["rewrites"] if [r["kind"], r["launches"]] == [kind, launches]), {"verdict": "no"})
        if told["verdict"] != ("refused" if reason else "kept") or reason not in told.get("reason", ""):
            sys.exit(f"{folder}: {kind} of {launches}: expected {reason or 'kept'}, got {told}")
    outputs = [n for n, b in graph["buffers"].items() if b["role"] in ("output", "inout")]
    seeds = ("0",) if short else ("0", "5")
    for seed in seeds:
        for what, document in (("graph", f"{folder}/graph.json"), ("plan", f"{tmp}/plan/plan.json")):
            run(tool, "run", document, "--seed", seed, "--dump", f"{tmp}/{what}{seed}")
            if os.environ.get("REFERENCE"):
                subprocess.run([os.environ["REFERENCE"], f"{tmp}/{what}{seed}", seed], check=True)
        for name in outputs:
            a, b = f"{tmp}/graph{seed}/{name}.bin", f"{tmp}/plan{seed}/{name}.bin"
            if os.path.getsize(a) != graph["buffers"][name]["bytes"] or not filecmp.cmp(a, b, shallow=False):
                sys.exit(f"{folder}: seed {seed}: {name} differs between graph and plan")
    if not short and all(filecmp.cmp(f"{tmp}/graph0/{n}.bin", f"{tmp}/graph5/{n}.bin", shallow=False) for n in outputs):
        sys.exit(f"{folder}: --seed changed nothing")
    if DEVICE.startswith("soft") and not short:
        run(tool, "run", f"{tmp}/plan/plan.json", "--check", "all", "--schedule", "1")
    print(f"{folder}: graph and plan agree byte by byte in {', '.join(outputs)}")


def clean(tool, folder, tmp, once=False):
    if not DEVICE.startswith("soft"):
        return
    hashes = lambda *more: [o["sha256"] for o in json.loads(run(tool, "run", f"{folder}/graph.json", "--json",
                                                                *more))["outputs"]]
    want = hashes()
    orders = range(1 if once or folder.endswith("encoder") else 4)
    for n in orders:
        if hashes("--check", "all", "--schedule", str(n)) != want:
            sys.exit(f"{folder}: other results in order {n}")
    print(f"{folder}: clean in all checking modes, {len(orders)} orders")


def main():
    tool, folder = sys.argv[1], sys.argv[2].rstrip("/")
    with tempfile.TemporaryDirectory() as tmp:
        for name in sys.argv[3:] or ["analyze", "plan", "clean"]:
            {"analyze": analyze, "plan": plan, "plan-once": lambda *a: plan(*a, twice=False),
             "plan-short": lambda *a: plan(*a, twice=False, short=True), "clean": clean,
             "clean-once": lambda *a: clean(*a, once=True)}[name](tool, folder, tmp)


if __name__ == "__main__":
    main()
