#!/usr/bin/env python3
"""What an analysis costs (bench/analysis.c): for the corpus, and for GEMMs, normalisations, convolution, attention and
transposes of bench/analysis/, time against one plain run on the same device in the same run, and instructions against
the kernels themselves; for graphs too large to run, the analysis alone. usage: bench-analysis.py --build DIR --out
DIR"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import results

sys.path.insert(0, os.path.join(results.ROOT, "bench/analysis"))
import graphs  # noqa: E402  (found through the line above)


def run(build, folders, *options):
    done = subprocess.run([os.path.join(build, "bench/bench-analysis"), *options, *folders], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def write(folder, documents):
    for d in documents:
        os.makedirs(os.path.join(folder, d["name"]))
        with open(os.path.join(folder, d["name"], "graph.json"), "w", encoding="utf-8") as f:
            json.dump(d, f)
    return [os.path.join(folder, d["name"]) for d in documents]


def figure(name, value):
    return {"name": name, "value": value, "runs": 1, "min": value, "max": value}


p = argparse.ArgumentParser()
p.add_argument("--build", default="build")
p.add_argument("--out", default="bench/results")
o = p.parse_args()
corpus = sorted(os.path.dirname(f) for f in glob.glob(os.path.join(results.ROOT, "tests/corpus/*/graph.json")))
with tempfile.TemporaryDirectory() as tmp:
    measured = run(o.build, corpus + write(tmp, graphs.graphs() + graphs.data_dependent()))
    # a process each, for its peak of memory
    large = [run(o.build, [f], "--only")[0] for f in write(tmp, graphs.large())]
figures = []
print(f"{'graph':20} {'analysis us':>12} {'plain run us':>13} {'ratio':>7}")
for g in measured:
    ratio = g["analysis_us"] / g["plain_run_us"]
    print(f"{g['graph']:20} {g['analysis_us']:12.0f} {g['plain_run_us']:13.0f} {ratio:7.3f}")
    figures.append(figure(f"analysis.{g['graph']}.time_of_plain", round(ratio, 4)))
print(f"\n{'recorded, of plain run':32} {'slices: native':>15} {'instrumented':>13} {'whole: native':>14} "
      f"{'instrumented':>13}")
for g in measured:
    row = f"{g['graph']:32}"
    for how, widths in (("slices", (15, 13)), ("whole", (14, 13))):
        for recorder, width in zip(("native", "instrumented"), widths):
            if recorder in g["ways"][how]:
                share = g["ways"][how][recorder] / g["plain_run_us"]
                row += f" {share:{width}.2f}"
                figures.append(figure(f"analysis.{g['graph']}.{how}.{recorder}.time_of_plain", round(share, 4)))
            else:
                row += " " * width + "-"
    print(row)
print(f"\n{'thread instructions':32} {'as analysed':>12} {'how':>8} {'slice':>12} {'whole':>12} {'plain':>12} "
      f"{'of plain':>9}")
for g in measured:
    for l in g["launches"]:
        if l["plain"]:
            share = l["analysed"] / l["plain"]
            print(f"{g['graph'] + '.' + l['name']:32} {l['analysed']:12} {l['how']:>8} {l['slice']:12} "
                  f"{l['whole']:12} {l['plain']:12} "
                  f"{share:9.2%}")
            figures.append(figure(f"analysis.{g['graph']}.{l['name']}.instructions_of_plain", round(share, 4)))
by = {g["graph"]: g for g in measured}
print()
for kind in ("gemm", "gemm32"):
    times = [by[f"{kind}-k{k}"]["analysis_us"] for k in (256, 1024, 4096)]
    print(f"{kind}, K = 256, 1024, 4096: {times[0]:.0f}, {times[1]:.0f}, {times[2]:.0f} us: {times[2] / times[0]:.2f} "
          f"from first to last")
    figures.append(figure(f"analysis.{kind}.growth_k256_k4096", round(times[2] / times[0], 3)))
print(f"\n{'too large to run':20} {'compile s':>10} {'analysis s':>11} {'again s':>8} {'peak MB':>8}")
for g in large:
    print(f"{g['graph']:20} {g['compile_us'] / 1e6:10.2f} {g['first_us'] / 1e6:11.2f} {g['analysis_us'] / 1e6:8.2f} "
          f"{g['peak_bytes'] / 1e6:8.0f}")
    figures += [figure(f"analysis.{g['graph']}.seconds", round(g["first_us"] / 1e6, 3)),
                figure(f"analysis.{g['graph']}.compile_seconds", round(g["compile_us"] / 1e6, 3)),
                figure(f"analysis.{g['graph']}.peak_mb", round(g["peak_bytes"] / 1e6, 1))]
maps = [{k: g[k] for k in ("graph", "device", "analysis_us", "plain_run_us")} for g in measured]
results.write(o.out, "analysis", maps=maps, figures=figures)
