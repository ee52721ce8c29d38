#!/usr/bin/env python3
"""What the planner gains on whole models as tensor compilers emit them (tests/models), and what it costs to find out:
one `dovetail optimize --local` with an empty cache for each model and device. --sizes: parts of models at the sizes
that they have in use, in small tiles and in register tiles of 128 x 128. Writes one file as docs/CONTRACT.md section 7
says, after every plan, so that whatever ends it leaves what it has so far. A planning that fails is told, the others
go on, and the exit status is 1.

plans    launches and times before and after by the plan's own method (modeled on the software device, and then named
         so) with their ranges, wall and CPU seconds of the command with all that it started, the memory of its greatest
         process, which is the worker; how many candidates were kept, dropped and refused, by the reason's first word;
         of a graph that is verified by samples, blocks that ran and of how many; what was not tried; the machine's load
         when planning began; what was kept, and block slots that stay empty. The last line is the geometric mean of the
         gains for each device. --keep DIR: the plans themselves, too

usage: bench-models.py --build DIR --out DIR [OPTION…] [--layers N] [MODEL…]
       bench-models.py --build DIR --out DIR [OPTION…] --sizes [NAME…]
options: --json, --device SPEC,…, --budget SECONDS, --allow KIND,…, --keep DIR
"""
import argparse
import collections
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time

import results

ROOT = results.ROOT
DEVICES = "soft:h200,soft:a100"
MODELS = ["bert", "gpt2", "resnet"]

# --sizes: what tests/models/generate.py is asked for
SIZES = {
    "ffn-128": "ffn --tokens 128", "ffn-128-vector": "ffn --tokens 128 --tiles vector",
    "ffn-512": "ffn --tokens 512", "ffn-512-scalar": "ffn --tokens 512 --tiles scalar",
    "ffn-512-vector": "ffn --tokens 512 --tiles vector", "ffn-2048-vector": "ffn --tokens 2048 --tiles vector",
    "ffn-large-128-vector": "ffn --large --tokens 128 --tiles vector",
    "ffn-large-512-vector": "ffn --large --tokens 512 --tiles vector",
    "attention-128": "attention --tokens 128", "attention-128-vector": "attention --tokens 128 --tiles vector",
    "attention-512": "attention --tokens 512", "attention-512-vector": "attention --tokens 512 --tiles vector",
    "gpt2-medium-512-vector": "gpt2 --large --tokens 512 --tiles vector",
    "experts-8": "experts --tokens 8", "experts-64": "experts --tokens 64",
    "experts-64-vector": "experts --tokens 64 --tiles vector",
    "resnet-stage1": "resnet --stage 1", "resnet-stage2": "resnet --stage 2", "resnet-stage3": "resnet --stage 3",
    "resnet-stage4": "resnet --stage 4",
    "ffn-2048": "ffn --tokens 2048", "ffn-large-2048-vector": "ffn --large --tokens 2048 --tiles vector",
    "attention-2048-vector": "attention --tokens 2048 --tiles vector",
    "attention-large-512-vector": "attention --large --tokens 512 --tiles vector",
    "gpt2-medium-512": "gpt2 --large --tokens 512",
    "h2o-512": "h2o --tokens 512", "h2o-512-vector": "h2o --tokens 512 --tiles vector",
    "h2o-2048-vector": "h2o --tokens 2048 --tiles vector",
    "ffn-large-128": "ffn --large --tokens 128", "ffn-large-512": "ffn --large --tokens 512",
    "ffn-large-2048": "ffn --large --tokens 2048",
    "attention-large-128": "attention --large --tokens 128",
    "attention-large-128-vector": "attention --large --tokens 128 --tiles vector",
    "attention-large-512": "attention --large --tokens 512",
    "attention-2048": "attention --tokens 2048",
    "attention-large-2048-vector": "attention --large --tokens 2048 --tiles vector",
}
# parts of a Llama-like layer in Triton's kernels (tests/models/llama): graphs that are there, for one architecture each
LLAMA = {f"llama-{part}-{tokens}": f"{ROOT}/tests/models/llama/{part}-{tokens}.json" for part, also in
         (("attention", ["512-tma"]), ("mlp", ["512-tma"]), ("norm", []))
         for tokens in ["1", "16", "512", *also, "16-80"]}
SIZES.update(LLAMA)


class Failed(Exception):
    """A command's exit status and the end of what it said."""


def measured(command):
    """(standard output, wall seconds, CPU seconds, peak bytes); the last two over the command and all that it waited
    for."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            _, status, use = os.wait4(p.pid, 0)
        except KeyboardInterrupt:
            p.kill()
            raise
        wall = time.monotonic() - start
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if p.returncode:
            raise Failed(f"{' '.join(command)}: exit status {p.returncode}\n"
                         f"{err.read().decode(errors='replace')[-2000:]}")
        return out.read().decode(), wall, use.ru_utime + use.ru_stime, use.ru_maxrss * 1024


def verdicts(plan):
    """{"refused": {"block-fusion order": 12, …}, …}: a reason begins with the name of its condition."""
    found = collections.defaultdict(collections.Counter)
    for r in plan["rewrites"]:
        why = f" {r.get('reason', '-').split(':')[0]}" if r["verdict"] == "refused" else ""
        found[r["verdict"]][r["kind"] + why] += 1
    return {verdict: dict(names.most_common()) for verdict, names in found.items()}


def idle(launches, slots, spans, sms):
    """[share of block slots that stay empty in the waves of all launches, as `dovetail analyze` has it; the same with
    each launch counted as long as it runs]. slots: blocks that an SM holds; spans: [begin, end]; both by launch."""
    blocks = there = empty = whole = 0
    for launch, each, (begin, end) in zip(launches, slots, spans):
        n = math.prod(launch.get("grid", [0]))
        if not n or not each:
            continue  # no kernel
        wave = each * sms
        room = -(-n // wave) * wave
        blocks += n
        there += room
        empty += (end - begin) * (1 - n / room)
        whole += end - begin
    return [round(1 - blocks / there, 4) if there else 0, round(empty / whole, 4) if whole else 0]


def slots(plan):
    """Of graph and plan."""
    times, sms = plan["timeline"], plan["device"]["sms"]
    each = times.get("sms", {}).get("slots")
    return {} if not each else {
        "idle": idle(plan.get("original", plan)["launches"], each["baseline"], times["baseline"], sms),
        "plan_idle": idle(plan["launches"], each["optimized"], times["optimized"], sms)}


def some(members, name):
    return {name: members[name]} if name in members else {}


def row(tool, model, graph, spec, options, keep):
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as tmp:
        text, wall, cpu, peak = measured([tool, "optimize", graph, "--local", "--json", "--device", spec,
                                          "--cache", f"{tmp}/c.db", *options])
    plan = json.loads(text)
    if keep:
        with open(f"{keep}/{model}-{spec.replace(':', '-')}.json", "w", encoding="utf-8") as f:
            f.write(text)
    a, b = plan["baseline"], plan["optimized"]
    ranges = {"baseline_range_us": a.get("range_us"), "plan_range_us": b.get("range_us"),
              "gain_range": plan.get("gain_range")}
    return {"graph": model, "device": spec, "method": b["method"],
            "baseline_us": a["time_us"], "plan_us": b["time_us"],
            **{k: v for k, v in ranges.items() if v}, "launches": a["launches"], "plan_launches": b["launches"],
            "bitwise": plan["verified"]["bitwise"], **some(plan["verified"], "sampled"), **some(plan, "stopped"),
            "load": round(load, 2), "planning_s": round(wall, 3), "planning_cpu_s": round(cpu, 3),
            "peak_bytes": peak, "verdicts": verdicts(plan), "kept": kept(plan), **slots(plan)}


def kept(plan):
    """What the plan's launches are made of, by kind and level: {"slice quarters": 2, "prefetch": 1, …}."""
    return dict(collections.Counter(f"{r['kind']} {r['level']}" if r.get("level") else r["kind"]
                                    for r in plan["rewrites"] if r["verdict"] == "kept"))


def measure(o, tool, options, graphs, file):
    """Returns how many plannings failed."""
    failed = 0
    for model, what in graphs.items():
        with tempfile.TemporaryDirectory() as tmp:
            if o.sizes and model in LLAMA:
                name, layers, graph = model, 1, LLAMA[model]
            else:
                made = subprocess.run([sys.executable, f"{ROOT}/tests/models/generate.py", *what, "-o", tmp],
                                      check=True, capture_output=True, text=True)
                name, layers = made.stdout.split()
                name, graph = model if o.sizes else name, f"{tmp}/graph.json"
            for spec in o.device.split(","):
                if model in LLAMA and model.endswith("-80") != ("a100" in spec):
                    continue  # kernels of another architecture
                try:
                    r = row(tool, name, graph, spec, options, o.keep)
                except Failed as e:
                    print(f"{name:26} {spec:10} failed: {e}", flush=True)
                    failed += 1
                    continue
                r["layers"] = int(layers)
                file.plan(r)
                print(f"{name:26} {spec:10} {r['launches']:5} -> {r['plan_launches']:<3} "
                      f"{r['launches'] / r['layers']:5.1f} -> {r['plan_launches'] / r['layers']:<4.1f} "
                      f"{r['baseline_us']:12.2f} {r['plan_us']:10.2f} {r['baseline_us'] / r['plan_us']:5.2f}x "
                      f"{' to '.join(f'{g:.2f}' for g in r.get('gain_range', [])):>13} "
                      f"{r['planning_s']:6.0f} s {r['planning_cpu_s']:6.0f} s {r['peak_bytes'] / 1e6:5.0f} MB  "
                      f"{r['method']}", flush=True)
                refused = ", ".join(f"{n} {why}" for why, n in list(r["verdicts"].get("refused", {}).items())[:6])
                print(f"{'':26} refused most: {refused or '-'}", flush=True)
    return failed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default=os.environ.get("DOVETAIL_DEVICE", DEVICES))
    p.add_argument("--budget", help="seconds of planning, as dovetail's")
    p.add_argument("--allow", help="kinds that are off by themselves, as dovetail's")
    p.add_argument("--layers", type=int, help="of each model; default: what tests/models/generate.py takes")
    p.add_argument("--keep", metavar="DIR")
    p.add_argument("--sizes", action="store_true")
    p.add_argument("model", nargs="*")
    o = results.options(p)
    graphs = {n: SIZES[n].split() for n in o.model or SIZES} if o.sizes else \
        {m: [m] + (["--layers", str(o.layers)] if o.layers else []) for m in o.model or MODELS}
    tool = os.path.join(o.build, "client/dovetail")
    options = ["--budget", o.budget, "--timeout", str(int(float(o.budget)) * 4)] if o.budget else []
    options += ["--allow", o.allow] if o.allow else []
    if o.keep:
        os.makedirs(o.keep, exist_ok=True)
    file = results.Growing(o.out, "models")
    plans, failed = file.run["plans"], 0
    print(f"{'model':26} {'device':10} {'launches':>12} {'a layer':>13} {'baseline us':>12} {'plan us':>10} "
          f"{'gain':>6} {'range':>13} {'wall':>8} {'CPU':>8} {'peak':>8}  method")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        failed = measure(o, tool, options, graphs, file)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    for spec in o.device.split(","):
        gains = [r["baseline_us"] / r["plan_us"] for r in plans if r["device"] == spec] or [1]
        print(f"{spec}: geometric mean of {len(gains)} gains {math.exp(sum(map(math.log, gains)) / len(gains)):.3f}, "
              f"least {min(gains):.3f}", flush=True)
    file.end()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
