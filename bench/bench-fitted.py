#!/usr/bin/env python3
"""What the kinds that fit a kernel to the device gain where they are meant to, at real sizes: `pack`, of 100,000 and a
million small blocks; `tails`, of products in register tiles whose last wave is partly filled. One `dovetail optimize
--local` with an empty cache for each graph and device. Writes one file as docs/CONTRACT.md section 7 says; rows as
those of bench-models.py.

usage: bench-fitted.py --build DIR --out DIR [--json] [--device SPEC,…] [NAME…]
"""
import argparse
import importlib
import json
import os
import tempfile

import results

models = importlib.import_module("bench-models")
HERE = os.path.join(results.ROOT, "bench/fitted")


def small(entry, threads, blocks):
    size = 4 * threads * blocks
    return {"modules": {"k": {"file": f"{HERE}/small.cu"}},
            "buffers": {"x": {"bytes": size, "role": "input", "fill": {"uniform": [0.5, 1], "dtype": "f32", "seed": 1}},
                        "y": {"bytes": size, "role": "output"}},
            "launches": [{"name": entry, "module": "k", "entry": entry, "grid": [blocks, 1, 1],
                          "block": [threads, 1, 1], "args": [{"buffer": "x"}, {"buffer": "y"}]}]}


def product(rows, cols, wide, tall, inner=512):
    n, m = cols * wide, rows * tall
    fill = {"uniform": [-1, 1], "dtype": "f32"}
    return {"modules": {"k": {"file": f"{HERE}/products.cu"}},
            "buffers": {"a": {"bytes": 4 * m * inner, "role": "input", "fill": fill | {"seed": 1}},
                        "b": {"bytes": 4 * inner * n, "role": "weight", "fill": fill | {"seed": 2}},
                        "c": {"bytes": 4 * m * n, "role": "output"}},
            "launches": [{"name": "product", "module": "k", "entry": f"t{rows}x{cols}", "grid": [wide, tall, 1],
                          "block": [256, 1, 1], "args": [{"buffer": "a"}, {"buffer": "b"}, {"buffer": "c"}, {"i32": n},
                                                         {"i32": inner}]}]}


GRAPHS = {
    "scaled-1e5": small("scaled", 32, 100000),
    "scaled-1e6": small("scaled", 32, 1000000),
    "shares-1e5": small("shares", 32, 100000),
    "products8-1e5": small("products8", 64, 100000),
    "128x128-120": product(128, 128, 8, 15),
    "128x128-152": product(128, 128, 8, 19),
    "128x128-304": product(128, 128, 16, 19),
    "128x64-128": product(128, 64, 8, 16),
    "128x64-152": product(128, 64, 8, 19),
}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default=os.environ.get("DOVETAIL_DEVICE", models.DEVICES))
    p.add_argument("name", nargs="*", default=list(GRAPHS))
    o = results.options(p)
    tool = os.path.join(o.build, "client/dovetail")
    plans = []
    print(f"{'graph':14} {'device':10} {'baseline us':>12} {'plan us':>10} {'gain':>6} {'range':>13} {'wall':>8}  kept")
    for name in o.name:
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "graph.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"dovetail": 1, "name": name} | GRAPHS[name], f)
            for spec in o.device.split(","):
                r = models.row(tool, name, path, spec, [])
                plans.append(r)
                print(f"{name:14} {spec:10} {r['baseline_us']:12.2f} {r['plan_us']:10.2f} "
                      f"{r['baseline_us'] / r['plan_us']:5.2f}x "
                      f"{' to '.join(f'{g:.2f}' for g in r.get('gain_range', [])):>13} {r['planning_s']:6.1f} s  "
                      f"{', '.join(r['verdicts'].get('kept', {})) or '-'}", flush=True)
    results.write(o.out, "fitted", plans=plans)


if __name__ == "__main__":
    main()
