#!/usr/bin/env python3
"""Speed of the software device's executor on one core (bench/softgpu.c), kept as figures. usage: bench-softgpu.py --build DIR --out DIR"""
import argparse
import json
import os
import subprocess

import results

p = argparse.ArgumentParser()
p.add_argument("--build", default="build")
p.add_argument("--out", default="bench/results")
o = p.parse_args()
done = subprocess.run([os.path.join(o.build, "bench/bench-softgpu")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                      check=True, env={**os.environ, "DOVETAIL_SOURCE": results.ROOT})
figures = [json.loads(line) for line in done.stdout.splitlines()]
for f in figures:
    print(f"{f['name']:44} {f['value']:8.3f}   ({f['min']} to {f['max']}, {f['runs']} runs)")
results.write(o.out, "softgpu", figures=figures)
