"""The file that one benchmark run leaves: contract.md section 7, bench/results/NAME-DATE-TIME.json."""
import datetime
import json
import os
import platform
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def cpu():
    try:
        return next(l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def write(out, name, device=None, plans=(), maps=(), model=(), figures=()):
    git = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    now = datetime.datetime.now()
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"{name}-{now:%Y%m%d-%H%M%S}.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"date": f"{now:%Y-%m-%d}", "commit": git.stdout.strip(), "host": {"cpu": cpu(), "cores": os.cpu_count()},
                   "gpu": device["name"] if device and device["kind"] == "cuda" else None, "plans": list(plans),
                   "maps": list(maps), "model": list(model), "figures": list(figures)}, f, indent=1)
        f.write("\n")
    print(f"written: {path}")
