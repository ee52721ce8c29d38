#!/usr/bin/env python3
"""What an analysis costs (bench/analysis.c) for each corpus graph: time against one plain run, instructions against the kernels
themselves. usage: bench-analysis.py --build DIR --out DIR [--json]"""
import argparse
import glob
import json
import os
import subprocess

import results

p = argparse.ArgumentParser()
o = results.options(p)
folders = sorted(os.path.dirname(f) for f in glob.glob(os.path.join(results.ROOT, "tests/corpus/*/graph.json")))
done = subprocess.run([os.path.join(o.build, "bench/bench-analysis"), *folders], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                      text=True, check=True)
graphs = [json.loads(line) for line in done.stdout.splitlines()]
print(f"{'graph':20} {'analysis us':>12} {'plain run us':>13} {'ratio':>7}")
for g in graphs:
    print(f"{g['graph']:20} {g['analysis_us']:12.0f} {g['plain_run_us']:13.0f} {g['analysis_us'] / g['plain_run_us']:7.2f}")
print(f"\n{'thread instructions':32} {'as analysed':>12} {'whole':>12} {'plain':>12} {'of plain':>9}")
figures = []
for g in graphs:
    for l in g["launches"]:
        if l["plain"]:
            share = l["slice"] / l["plain"]
            print(f"{g['graph'] + '.' + l['name']:32} {l['slice']:12} {l['whole']:12} {l['plain']:12} {share:9.0%}")
            figures.append({"name": f"analysis.{g['graph']}.{l['name']}.instructions_of_plain", "value": round(share, 4), "runs": 1,
                            "min": round(share, 4), "max": round(share, 4)})
maps = [{k: g[k] for k in ("graph", "device", "analysis_us", "plain_run_us")} for g in graphs]
results.write(o.out, "analysis", maps=maps, figures=figures)
