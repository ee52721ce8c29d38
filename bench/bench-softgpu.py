#!/usr/bin/env python3
"""Speed of the software device's executor: every kernel of bench/workloads.h as whole processes, on one thread and on
two, on each instruction set this CPU has, beside the same arithmetic as plain C loops (bench/plain.c). Medians of RUNS
processes.

    G/s      10^9 thread-instructions over CPU seconds of the whole process: start, loading, inputs, launches; one
             thread
    2nd      what the second thread brings: CPU seconds of one thread over those of the busier of two. CPU seconds,
             because a machine that does other work as well would hide it; the same by the clock on the wall is in the
             file as ….second_core_wall
    plain    one thread of the device over plain C, time for the same work
    check    the sums of the results agree with plain C's
    tiers    one thread, no blocks followed for modelled time, start and compiling left out (a long run less a short
             one): interpreted, by templates, by LLVM (softgpu/jit), by LLVM over plain C

usage: bench-softgpu.py --build DIR --out DIR [--json] [--quick] [KERNEL…]
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

import results

RUNS = 5
FLAGS = {"v3": "avx2", "v4": "avx512f"}

p = argparse.ArgumentParser()
p.add_argument("--quick", action="store_true", help="one process each, best instruction set only, nothing written")
p.add_argument("kernel", nargs="*")
o = results.options(p)


def process(program, *args, **env):
    """One process: what it printed, and its CPU seconds and wall-clock seconds."""
    before, start = os.times(), time.monotonic()
    done = subprocess.run([os.path.join(o.build, "bench", program), *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True,
                          check=True, env={**os.environ, "DOVETAIL_SOURCE": results.ROOT, **env})
    wall, after = time.monotonic() - start, os.times()
    return (done.stdout, after.children_user + after.children_system - before.children_user - before.children_system,
            wall)


def measure(name, isa, threads, scale, runs):
    """Rates of `runs` processes, and of the last: the object it printed, CPU seconds of its busier thread, wall
    seconds."""
    rates, busiest, walls = [], [], []
    for _ in range(runs):
        text, cpu, _ = process("bench-softgpu", name, str(scale), DOVETAIL_SOFTGPU_ISA=isa,
                               DOVETAIL_SOFTGPU_THREADS=str(threads))
        r = json.loads(text)
        rates.append(r["instructions"] / cpu * 1e-9)
        busiest.append(max(r["cpu"]) / r["times"])
        walls.append(r["seconds"] / r["times"])
    return r, rates, statistics.median(busiest), statistics.median(walls)


def tier(name, jit, runs):
    """Rates and seconds a time of launches alone, in one tier; the last result."""
    rates, seconds = [], []
    for _ in range(runs):
        env = {"DOVETAIL_SOFTGPU_JIT": jit, "BENCH_UNFOLLOWED": "1", "DOVETAIL_SOFTGPU_THREADS": "1"}
        short, long = (json.loads(process("bench-softgpu", name, scale, **env)[0]) for scale in ("1", "6"))
        cpu = sum(long["cpu"]) - sum(short["cpu"])
        rates.append((long["instructions"] - short["instructions"]) / cpu * 1e-9)
        seconds.append(cpu / (long["times"] - short["times"]))
    return rates, statistics.median(seconds), short


def agree(name, device, plain):
    over = [r["times"] if name in ("saxpy", "histogram") else 1 for r in (device, plain)]  # these two add up
    return all(abs(a / over[0] - b / over[1]) <= 1e-4 * max(1, abs(b / over[1]))
               for a, b in zip(device["sum"], plain["sum"]))


def figure(name, values):
    figures.append({"name": f"softgpu.{name}", "value": round(statistics.median(values), 4), "runs": len(values),
                    "min": round(min(values), 4), "max": round(max(values), 4)})


with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
    flags = re.search(r"^flags\s*:(.*)$", f.read(), re.M)
flags = flags.group(1).split() if flags else []
isas = [i for i in ("v4", "v3", "v1") if i == "v1" or FLAGS[i] in flags]
if o.quick:
    isas = isas[:1]
runs = 1 if o.quick else RUNS
source = open(os.path.join(results.ROOT, "bench/workloads.h"), encoding="utf-8").read()
names = o.kernel or re.findall(r"X\((\w+), \d+, \d+\)", source)
figures, wrong = [], []
print(f"{results.cpu()}, load {os.getloadavg()[0]:.1f}; G/s: 10^9 thread-instructions a second and core, medians of "
      f"{runs} processes")
print(f"{'kernel':11}{'Ginstr':>8}" + "".join(f"{i + ' G/s':>9}" for i in isas) +
      f"{'2nd':>8}{'plain':>8}  check{'tiers':>10}")
for name in names:
    plain = [json.loads(process("bench-plain", name, "1")[0]) for _ in range(runs)]
    plain_s = statistics.median(r["seconds"] / r["times"] for r in plain)
    columns = []
    for isa in isas:
        r, rates, busy, _ = measure(name, isa, 1, 0.25 if isa == "v1" else 1, runs)
        columns.append(statistics.median(rates))
        figure(f"{name}.{isa}.ginstr_per_s_core", rates)
        if isa == isas[0]:
            one, one_s, one_wall = r, busy, measure(name, isa, 1, 1, 1)[3]
    two, _, two_s, two_wall = measure(name, isas[0], 2, 1, runs)
    ok = agree(name, one, plain[0]) and agree(name, two, plain[0])
    interpreted, _, _ = tier(name, "0", runs)
    templates, templates_s, last = tier(name, "templates", runs)
    ok = ok and agree(name, last, plain[0])
    compiled, compiled_s, last = tier(name, "always", runs)
    ok = ok and agree(name, last, plain[0])
    figure(f"{name}.templates.ginstr_per_s_core", templates)
    figure(f"{name}.templates.over_plain_c", [templates_s / plain_s])
    figure(f"{name}.interpreted.ginstr_per_s_core", interpreted)
    figure(f"{name}.compiled.ginstr_per_s_core", compiled)
    figure(f"{name}.compiled.over_plain_c", [compiled_s / plain_s])
    figure(f"{name}.ginstr", [one["instructions"] * 1e-9])
    figure(f"{name}.second_core", [one_s / two_s])
    figure(f"{name}.second_core_wall", [one_wall / two_wall])
    figure(f"{name}.over_plain_c", [one_s / plain_s])
    print(f"{name:11}{one['instructions'] * 1e-9:8.2f}" + "".join(f"{c:9.2f}" for c in columns) +
        f"{one_s / two_s:7.2f}x{one_s / plain_s:7.1f}x  {'ok' if ok else 'WRONG'}"
        f"{statistics.median(interpreted):9.2f}{statistics.median(templates):8.2f}"
        f"{statistics.median(compiled):8.2f}{compiled_s / plain_s:7.1f}x")
    if not ok:
        wrong.append(name)
if not o.kernel:
    for line in process("bench-softgpu", "--launches", DOVETAIL_SOFTGPU_THREADS="1")[0].splitlines():
        r = json.loads(line)
        figures.append({**r, "runs": 1, "min": r["value"], "max": r["value"]})
        print(f"{r['name'].replace('softgpu.', ''):40}{r['value']:10.2f} us")
if wrong:
    sys.exit(f"results differ from plain C's: {', '.join(wrong)}")
if not o.quick:
    results.write(o.out, "softgpu", figures=figures)
