#!/usr/bin/env python3
"""The part of docs/RESULTS.md that tells what was measured on GPUs, written from bench/results/*.json. usage:
results_page.py [--check]

Files whose `gpu` is not null count; of each GPU the newest. Between the two markers everything is replaced. --check:
exit status 1 where the page is not what the files say.
"""
import glob
import json
import os
import sys

import results

PAGE = os.path.join(results.ROOT, "docs/RESULTS.md")
BEGIN, END = "<!-- gpu: written by bench/results_page.py -->", "<!-- gpu: end -->"


def us(v):
    return f"{v:.2f}" if v is not None else "–"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(r) + " |"
        for r in rows] + [""]


def one(path):
    d = json.load(open(path, encoding="utf-8"))
    g, out = d["gpu"], []
    name = g["name"] if isinstance(g, dict) else g
    out += [f"### {name}, {d['date']}", "", f"`{os.path.basename(path)}`, commit {d['commit']}"
            + (f", driver {g['driver'] // 1000}.{g['driver'] % 1000 // 10}" if isinstance(g, dict) else "") + ".", ""]
    if d.get("sections"):
        out += ["Sections: " + "; ".join(f"{k} {s['state']}" + (f" ({s['why']})" if s.get("why") else "")
                                         for k, s in d["sections"].items()) + ".", ""]
    if d["plans"]:
        rows = [[p["graph"], us(p.get("streams_us")), us(p["baseline_us"]), us(p["plan_us"]),
                 f"{p.get('speedup') or p['baseline_us'] / p['plan_us']:.2f}x", us(p.get("cold_baseline_us")),
                 us(p.get("cold_plan_us")), us(p.get("torch_us")),
                 f"{p.get('launches', '')} → {p.get('plan_launches', '')}", "yes" if p.get("bitwise") else "NO",
                 p["method"]] for p in d["plans"]]
        out += table(["graph", "streams, us", "CUDA graph", "plan", "faster", "cold: graph", "cold: plan",
                      "PyTorch's best", "launches", "same bytes", "method"], rows)
    over = [p["tracing_overhead"] for p in d["plans"] if p.get("tracing_overhead")]
    if over:
        out += [f"Passes under CUPTI's tracing took {min(over):.3f} to {max(over):.3f} times as long.", ""]
    for r in d.get("refused", []):
        out += [f"Not published, {r['graph']}: {r['why']}", ""]
    if d["maps"]:
        rows = [[m["graph"], m["device"], f"{m['analysis_us']:.0f}", us(m.get("summary_us")),
                 f"{m['plain_run_us']:.0f}", "yes" if m.get("equal") else "NO"] for m in d["maps"]]
        out += table(["maps of", "device", "recorded, us", "by summary", "one plain run", "equal"], rows)
    m = d.get("sections", {}).get("model", {})
    rows = [[k.replace("_", ", "), str(v["n"]), f"{100 * v['median_error']:.1f} %", f"{v['rank_correlation']:.3f}",
             f"{v['median_ratio']:.2f}"] for k, v in m.items() if isinstance(v, dict)]
    if rows:
        out += table(["modeled against measured", "n", "median error", "rank correlation", "modeled / measured"], rows)
    rows = [[r["kind"], str(r["blocks_per_sm"][0])]
            + [us(r.get(k)) for k in ("off_us", "on_us", "cold_off_us", "cold_on_us")]
            for r in d.get("sections", {}).get("onoff", {}).get("rows", []) if r["graph"] == "sweep" and "off_us" in r]
    if rows:
        out += table(["bench/sweep.py", "blocks per SM", "without, us", "with", "cold: without", "cold: with"], rows)
    c = d.get("sections", {}).get("cases", {}).get("sums")
    if c:
        out += ["tests/ptx: " + ", ".join(f"{v} {k}" for k, v in c.items()) + ".", ""]
    rows = [[f["name"].split(".", 1)[1], f"{f['value']:.4g}", f"{f.get('min', f['value']):.4g}",
             f"{f.get('max', f['value']):.4g}"] for f in d["figures"] if f["name"].startswith("device.")]
    if rows:
        out += table(["figure of the model, fitted", "median", "least", "most"], rows)
    return out


def part(folder):
    newest = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        d = json.load(open(path, encoding="utf-8"))
        if d.get("gpu"):
            name = d["gpu"]["name"] if isinstance(d["gpu"], dict) else d["gpu"]
            if name not in newest or d["date"] >= newest[name][0]:
                newest[name] = (d["date"], path)
    if not newest:
        return ["No GPU has been measured yet: every time on this page is modeled or of the software device itself.",
                "`./dev gpu` measures one (docs/GPU.md).", ""]
    return [line for _, (_, path) in sorted(newest.items()) for line in one(path)]


def page(text, folder):
    a, b = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:a] + "\n\n" + "\n".join(part(folder)) + text[b:]


def main():
    text = open(PAGE, encoding="utf-8").read()
    new = page(text, os.path.join(results.ROOT, "bench/results"))
    if "--check" in sys.argv:
        sys.exit(0 if new == text else "docs/RESULTS.md is not what bench/results says: run bench/results_page.py")
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(new)


if __name__ == "__main__":
    main()
