"""The file that one benchmark run leaves: docs/CONTRACT.md §7, bench/results/NAME-DATE-TIME.json."""
import datetime
import json
import os
import platform
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


STDOUT = None  # where --json wants the file


def options(parser):
    """The options that all benchmarks have, and the parsed command line. With --json the table goes to stderr."""
    global STDOUT
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--json", action="store_true", help="print the results file; the table goes to stderr")
    o = parser.parse_args()
    if o.json:
        STDOUT, sys.stdout = sys.stdout, sys.stderr
    return o


def cpu():
    try:
        return next(l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8")
                    if l.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def commit():
    """The short hash; of a tree without git, what ./dev gpu --pack wrote beside the libraries."""
    try:
        git = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                             check=False).stdout.strip()
    except OSError:
        git = ""
    if not git and os.path.exists(f"{ROOT}/.gpu/COMMIT"):
        git = open(f"{ROOT}/.gpu/COMMIT", encoding="utf-8").read().strip()
    return git


def new_file(out, name, now):
    """NAME-DATE-TIME.json, which no other run has: where two end in one second, the later one has the next second."""
    while True:
        try:
            return open(os.path.join(out, f"{name}-{now:%Y%m%d-%H%M%S}.json"), "x", encoding="utf-8")
        except FileExistsError:
            now += datetime.timedelta(seconds=1)


def document(now, device, plans, maps, model, figures):
    return {"date": f"{now:%Y-%m-%d}", "commit": commit(), "host": {"cpu": cpu(), "cores": os.cpu_count()},
            "gpu": device["name"] if device and device["kind"] == "cuda" else None, "plans": list(plans),
            "maps": list(maps), "model": list(model), "figures": list(figures)}


def write(out, name, device=None, plans=(), maps=(), model=(), figures=()):
    now = datetime.datetime.now()
    os.makedirs(out, exist_ok=True)
    run = document(now, device, plans, maps, model, figures)
    with new_file(out, name, now) as f:
        json.dump(run, f, indent=1)
        f.write("\n")
        print(f"written: {f.name}")
    if STDOUT:
        print(json.dumps(run, indent=1), file=STDOUT)


class Growing:
    """The file of a run that takes hours: there from the first row on, whole after each, so that a run that is cut off
    leaves what it has. Date and commit are those of the beginning."""

    def __init__(self, out, name):
        now = datetime.datetime.now()
        os.makedirs(out, exist_ok=True)
        self.run = document(now, None, (), (), (), ())
        with new_file(out, name, now) as f:
            self.path = f.name
        self.keep()

    def keep(self):
        with open(f"{self.path}.part", "w", encoding="utf-8") as f:
            json.dump(self.run, f, indent=1)
            f.write("\n")
        os.replace(f"{self.path}.part", self.path)

    def plan(self, row):
        self.run["plans"].append(row)
        self.keep()

    def end(self):
        """Of a run without a row nothing stays."""
        if self.run["plans"]:
            print(f"written: {self.path}")
        else:
            os.remove(self.path)
        if STDOUT:
            print(json.dumps(self.run, indent=1), file=STDOUT)
