#!/usr/bin/env python3
"""Everything that needs a real GPU, in sections; ./dev gpu runs it. The software device stands in with --device soft,
in modelled times.

usage: gpu.py --build DIR --out DIR [--device SPEC] [--seconds N] [--short] [SECTION…]

The results file OUT/GPU-DATE.json (docs/CONTRACT.md §7) is written anew after every section and every graph, so that a
run which is cut off still tells. `sections` says of each how it went: done, cut (its time was up: what is missing is
named), failed. Noisy measurements stand under `refused`, never under `plans`. Sections, the most important first; each
has a share of the time and leaves what it does not use to the later ones:

  smoke    driver, memory, JIT, a fault, a hang, CUPTI, counters, NVML
  costs    launch, event, block start, bandwidths, rates, conflicts, atomics, copies, misses, fences: the model's
           figures, fitted, and what programmatic launch and flags cost (dovetail devices --calibrate)
  graphs   each corpus graph planned on the device; original against plan bitwise with delayed blocks; streams, CUDA
           graph, plan; warm and cold
  maps     block maps by instrumented PTX on the device against the software device's
  model    modelled against measured times of kernels and passes, with the stock figures and the fitted ones
  cases    every case of tests/ptx against the software device
  onoff    plans without prefetch, without programmatic launch; and graphs made for it, by blocks per SM (sweep.py)
  capture  a program on this driver, captured: the graph's run has the bytes that the program got
  torch    the same mathematics by PyTorch, where it is installed
"""
import argparse
import datetime
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import cases
import process
import results
import sweep

ROOT = results.ROOT
SHARE = {"smoke": 0.08, "costs": 0.06, "graphs": 0.34, "maps": 0.10, "model": 0.08, "cases": 0.16, "onoff": 0.10,
         "capture": 0.02, "torch": 0.06}
SHORT = ["pointwise", "mlp", "rows"]


class Cut(Exception):
    pass


def valid(text):
    try:
        json.loads(text)
        return True
    except ValueError:
        return False


class Run:
    def __init__(self, o):
        self.o, self.start = o, time.monotonic()
        self.end = self.start + o.seconds
        self.tmp = tempfile.mkdtemp(prefix="dovetail-gpu.")
        self.planned, self.until, self.budget = {}, self.end, 3
        self.doc = {"date": f"{datetime.date.today()}", "commit": results.commit(),
                    "host": {"cpu": results.cpu(), "cores": os.cpu_count()}, "gpu": None,
                    "plans": [], "maps": [], "model": [], "figures": [], "refused": [], "sections": {}}
        self.kind, self.arch, self.counters = "", "", False
        self.path = os.path.join(o.out, f"no-gpu-{datetime.date.today()}.json")  # until smoke knows its name

    def write_cases(self):
        """A build without tests has no generated cases: the scripts write them while the other sections run."""
        self.writers = []
        folder = f"{self.o.build}/tests/ptx"
        if os.path.isdir(folder):
            return
        os.makedirs(folder)
        for script in sorted(glob.glob(f"{ROOT}/tests/ptx/gen/*.py")):
            if re.search(r"from casefile import .*\bmain\b", open(script, encoding="utf-8").read()):
                self.writers.append(subprocess.Popen([sys.executable, "-B", script,
                                                      f"{folder}/{os.path.basename(script)[:-3]}.ptx"],
                                                     stdin=subprocess.DEVNULL))

    # -- running things ------------------------------------------------------------------------------------------------
    def left(self):
        return self.until - time.monotonic()

    def call(self, *command, env=None, most=120):
        """(the last JSON document that it printed, "") or (None, why)"""
        if self.left() < 1:
            raise Cut
        status, out, err = process.run(command, min(most, self.left() + 5), env)
        docs = [out] if valid(out) else [line for line in out.splitlines() if line.startswith("{") and valid(line)]
        doc = json.loads(docs[-1]) if docs else None
        if status is None and self.left() < 1 and not doc:
            raise Cut
        if not isinstance(doc, dict):
            return (None, f"no answer in {most} s" if status is None
                    else f"killed by signal {-status}: {err.strip()[-300:]}" if status < 0
                    else f"exit status {status}: {err.strip()[-300:]}")
        if "error" in doc or (status and "code" in doc):
            return None, json.dumps(doc)[:400]
        return doc, ""

    def tool(self, *args, env=None, most=120):
        return self.call(os.path.join(self.o.build, "bench/bench-gpu"), *args, env=env, most=most)

    def dovetail(self, *args, device=None, env=None, most=120):
        return self.call(os.path.join(self.o.build, "client/dovetail"), *args, "--local", "--json", "--device",
                         device or self.o.device, "--cache",
                         os.path.join(self.tmp, "cache.db"), env=env, most=most)

    # -- results -------------------------------------------------------------------------------------------------------
    def write(self):
        if not self.kind:  # no device: no file
            return
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump(self.doc, f, indent=1)
            f.write("\n")
        os.replace(self.path + ".new", self.path)

    def figure(self, name, value, unit="", lo=None, hi=None, runs=1):
        f = {"name": name, "value": value, "runs": runs}
        if unit:
            f["unit"] = unit
        if lo is not None:
            f["min"], f["max"] = lo, hi
        self.doc["figures"].append(f)

    def section(self, name):
        self.until = min(self.end, max(time.monotonic(),
                                       self.start + self.o.seconds * sum(v for k, v in SHARE.items()
                                         if list(SHARE).index(k) <= list(SHARE).index(name))))
        s = {"state": "done"}
        self.doc["sections"][name] = s
        start = time.monotonic()
        print(f"== {name} ({self.left():.0f} s)", flush=True)
        try:
            getattr(self, name)(s)
        except Cut:
            s["state"] = "cut"
        except Exception as e:  # one section's bug must not cost the others
            s["state"], s["why"] = "failed", f"{type(e).__name__}: {e}"
        s["seconds"] = round(time.monotonic() - start, 1)
        self.write()
        print(f"   {s['state']}{': ' + s['why'] if 'why' in s else ''}, {s['seconds']} s", flush=True)

    # -- sections ------------------------------------------------------------------------------------------------------
    def smoke(self, s):
        doc, why = self.tool("smoke", self.o.device, most=90)
        bad = [] if doc else [why]
        if not doc:  # the rest may still tell something
            doc, why = self.tool("about", self.o.device, most=30)
        if not doc:
            s["state"], s["why"] = "failed", why
            return
        s.update({k: doc[k] for k in ("device", "modules", "nvrtc", "nvjitlink", "tests") if k in doc})
        s["gpu_state"] = doc["state"]
        d = doc["device"]
        self.kind, self.arch, self.about = d["kind"], d["arch"], d
        self.doc["device"] = {k: d[k] for k in ("name", "kind", "arch", "sms")}
        devices, why = self.dovetail("devices")
        if devices and "confinement" in devices:
            self.doc["confinement"] = devices["confinement"]
        if self.kind == "cuda":
            self.doc["gpu"] = {"name": d["name"], "driver": d["driver"], "sharing": d["sharing"], "state": doc["state"],
                               "nvrtc": doc["nvrtc"]}
        slug = re.sub(r"[^a-z0-9]+", "-", d["name"].lower()).strip("-")
        self.path = os.path.join(self.o.out, f"{slug}-{datetime.date.today()}.json")
        self.write()
        for t in doc.get("tests", []):
            print(f"   {'ok  ' if t['ok'] else 'FAIL'} {t['name']}: {t['detail'][:150]}")
            if not t["ok"]:
                bad.append(t["name"])
        for what, args in (("cupti", ["trace", self.o.device]), ("counters", ["counters", self.o.device, "-"])):
            r, why = self.tool(*args, most=60)
            s[what] = r or {"reason": why}
            print(f"   {what}: {json.dumps(s[what])[:150]}")
        self.counters = "reason" not in s["counters"]
        # what does not work in one launch is not tried again in each measurement
        if "reason" in s["cupti"] and self.kind == "cuda":
            os.environ["DOVETAIL_CUPTI"] = "off"
            bad.append("CUPTI traces no launch")
        if bad:
            s["state"], s["why"] = "failed", "; ".join(bad)

    def costs(self, s):
        doc, why = self.dovetail("devices", "--calibrate")
        if not doc:
            s["state"], s["why"] = "failed", why
            return
        s["figures"], s["method"] = doc["figures"], doc["method"]
        for field, v in doc["calibration"].items():
            self.figure(f"device.{field}", v["value"], lo=v["min"], hi=v["max"], runs=doc["repeats"])
        print("   " + doc["figures"])
        print("   beside them: " + ", ".join(f"{field} {v['value']:.4g}" for field, v in doc["calibration"].items()
                                           if not v["figure"]))

    def corpus(self):
        names = SHORT if self.o.short else [os.path.basename(os.path.dirname(g))
                                            for g in sorted(glob.glob(f"{ROOT}/tests/corpus/*/graph.json"))]
        return [(n, f"{ROOT}/tests/corpus/{n}/graph.json") for n in names
                if os.path.exists(f"{ROOT}/tests/corpus/{n}/graph.json")]

    def plan(self, name, graph, *options, env=None):
        out = os.path.join(self.tmp, name)
        doc, why = self.dovetail("optimize", graph, "-o", out, "--budget", str(self.budget), *options, env=env)
        return (out + "/plan.json", doc, why) if doc else (None, None, why)

    def graphs_rows(self, s, name, path, plan, rounds):
        r, why = self.tool("graph", self.o.device, path, plan, str(rounds), most=90)
        if not r and why.startswith("killed"):  # by tracing, perhaps: bytes and times by events can be had without
            s["wrong"].append({"graph": name, "why": why + "; tried again without CUPTI"})
            r, why = self.tool("graph", self.o.device, path, plan, str(rounds), env={"DOVETAIL_CUPTI": "off"}, most=90)
        if not r:
            s["wrong"].append({"graph": name, "why": why})
            return None
        if not r["bitwise"]:
            s["wrong"].append({"graph": name, "why": r["differs"]})
        warm = r["warm"]
        row = {"graph": name, "method": warm["plan"]["method"], "baseline_us": warm["baseline"]["time_us"]["median"],
               "plan_us": warm["plan"]["time_us"]["median"],
               "launches": r["launches"], "plan_launches": r["plan_launches"], "bitwise": r["bitwise"],
               "streams_us": warm["streams"]["time_us"]["median"],
               "baseline_ci_us": [warm["baseline"]["time_us"]["lo"], warm["baseline"]["time_us"]["hi"]],
               "plan_ci_us": [warm["plan"]["time_us"]["lo"], warm["plan"]["time_us"]["hi"]],
               "speedup": warm["baseline"]["time_us"]["median"] / max(warm["plan"]["time_us"]["median"], 1e-9),
               "events_ratio": warm["plan"]["ratio"]["median"],
               "tracing_overhead": warm["plan"]["tracing_overhead"]}
        if "cold" in r:
            row["cold_baseline_us"], row["cold_plan_us"] = (r["cold"][k]["time_us"]["median"]
                                                            for k in ("baseline", "plan"))
        for key, document in (("counters", path), ("plan_counters", plan)) if self.counters else ():
            c, why = self.tool("counters", self.o.device, document, most=30)
            row[key] = c or {"reason": why}
        if warm["publish"]:
            self.doc["plans"].append(row)
        else:
            self.doc["refused"].append({**row, "why": warm["why"]})
        note = "" if warm["publish"] else f"  NOISY: {warm['why']}"
        print(f"   {name:20} {row['launches']:2} -> {row['plan_launches']:<2} streams {row['streams_us']:8.2f}  graph "
              f"{row['baseline_us']:8.2f}  plan {row['plan_us']:8.2f} us "
              f"{row['speedup']:5.2f}x  {row['method']}  "
              f"{'same bytes' if r['bitwise'] else 'DIFFERS: ' + r['differs']}{note}", flush=True)
        return r

    def graphs(self, s):
        s["wrong"], s["missing"], s["traces"] = [], [], {}
        todo = self.corpus()
        for k, (name, path) in enumerate(todo):
            try:  # planning gets about half of what is there for each
                self.budget = 3 if self.o.short else max(2, min(10, int(self.left() / (len(todo) - k) / 2)))
                plan, doc, why = self.plan(name, path)
                if not plan:
                    s["wrong"].append({"graph": name, "why": why})
                    if '"worker-lost"' not in why:
                        continue
                    plan, doc, why = self.plan(name, path, env={"DOVETAIL_CUPTI": "off"})  # by tracing, perhaps
                if not plan:
                    continue
                r = self.graphs_rows(s, name, path, plan, 4 if self.o.short else 20)
            except Cut:
                s["missing"] = [n for n, _ in todo[k:]]
                raise
            if r:
                self.planned[name] = (path, plan, r, doc)
                if r["warm"]["trace"]:
                    s["traces"][name] = r["warm"]["trace"]
            self.write()
        speed = [p["speedup"] for p in self.doc["plans"] if p["speedup"] > 0]
        if speed:
            s["geomean"] = statistics.geometric_mean(speed)
            self.figure("plans.speedup.geomean", round(s["geomean"], 4), runs=len(speed), lo=min(speed), hi=max(speed))
        if s["wrong"]:
            s["state"], s["why"] = "failed", ", ".join(w["graph"] for w in s["wrong"])

    def maps(self, s):
        s["wrong"] = []
        for name, path in self.corpus():
            real, why = self.tool("maps", self.o.device, path, most=60)
            soft, why2 = self.tool("maps", "soft:h200", path, most=60) if real else (None, "")
            if not real or not soft:
                s["wrong"].append({"graph": name, "why": why or why2})
                continue
            if real["edges"] != soft["edges"]:
                s["wrong"].append({"graph": name, "why": "other maps than the software device's"})
            for r, device in ((real, self.kind), (soft, "soft")):
                if r is real or self.kind == "cuda":
                    self.doc["maps"].append({"graph": name, "device": device, "analysis_us": r["analysis_us"],
                                             "plain_run_us": r["plain_run_us"], "summary_us": r["summary_us"],
                                             "equal": real["edges"] == soft["edges"]})
            self.write()
        if s["wrong"]:
            s["state"], s["why"] = "failed", ", ".join(w["graph"] for w in s["wrong"])

    def model(self, s):
        fitted = self.doc["sections"].get("costs", {}).get("figures", "")
        model = ("soft:h200" if self.kind == "cuda" else self.o.device if self.o.device.startswith("soft:")
                 else "soft:h200")
        pairs = {"stock": [], "fitted": []}
        passes = {"stock": [], "fitted": []}
        rows = {}
        for name, (path, plan, measured, _) in self.planned.items():
            for which, env in (("stock", {}), ("fitted", {"DOVETAIL_SOFTGPU_FIGURES": fitted})):
                if which == "fitted" and not fitted:
                    continue
                m, why = self.tool("graph", model, path, plan, "0", env=env, most=60)
                if not m:
                    s.setdefault("wrong", []).append({"graph": name, "why": why})
                    continue
                for arm in ("baseline", "plan"):
                    a, b = measured["warm"][arm], m["warm"][arm]
                    passes[which].append((a["time_us"]["median"], b["time_us"]["median"]))
                    for x, y in zip(a["steps"], b["steps"]):
                        pairs[which].append((x["us"], y["us"]))
                        row = rows.setdefault((name, arm, x["name"]),
                                              {"name": f"{name}.{arm}.{x['name']}", "measured_us": x["us"],
                                               "modeled_us": y["us"]})
                        row["modeled_us" if which == "stock" else "fitted_us"] = y["us"]
            self.doc["model"] = list(rows.values())
        for which in pairs:
            for what, p in (("kernels", pairs[which]), ("passes", passes[which])):
                p = [(a, b) for a, b in p if a > 0]
                if len(p) < 3:
                    continue
                error = statistics.median(abs(b - a) / a for a, b in p)
                rho = spearman([a for a, _ in p], [b for _, b in p])
                s[f"{which}_{what}"] = {"n": len(p), "median_error": error, "rank_correlation": rho,
                                        "median_ratio": statistics.median(b / a for a, b in p)}
                self.figure(f"model.{which}.{what}.median_error", round(error, 4), runs=len(p))
                self.figure(f"model.{which}.{what}.rank_correlation", round(rho, 4), runs=len(p))
                print(f"   {which} figures, {what}: median error {100 * error:.1f} %, rank correlation {rho:.3f} "
                      f"({len(p)})")
        if s.get("wrong"):
            s["state"], s["why"] = "failed", ", ".join(w["graph"] for w in s["wrong"])

    def cases(self, s):
        for writer in self.writers:
            try:
                writer.wait(max(0.1, self.left()))
            except subprocess.TimeoutExpired:
                raise Cut from None
        files = sorted(glob.glob(f"{ROOT}/tests/ptx/*.ptx")) + sorted(glob.glob(f"{self.o.build}/tests/ptx/*.ptx"))
        if self.o.short:
            files = [f for f in files if os.path.basename(f) in ("warp.ptx", "cluster.ptx", "approx.ptx", "integer.ptx",
                                                                 "sm100.ptx")]
        target = self.arch + ("a" if self.arch in ("sm_90", "sm_100", "sm_103", "sm_120")
                              else "") if self.kind == "cuda" else None
        s["sums"], s["wrong"] = cases.compare(self.o.build, self.o.device, files, max(5, self.left() - 3), target)
        print("   " + ", ".join(f"{v} {k}" for k, v in s["sums"].items()))
        for w in s["wrong"][:10]:
            print(f"   {w['file']} {w['entry']}: {w['what']}")
        if s["sums"]["differs"] or s["sums"]["error"]:
            s["state"], s["why"] = "failed", f"{s['sums']['differs']} differ, {s['sums']['error']} end with an error"
        elif s["sums"]["cut"]:
            s["state"] = "cut"

    def onoff(self, s):
        s["rows"] = []
        for kind in ("prefetch", "programmatic-launch"):
            for name, (path, plan, r, doc) in self.planned.items():
                kept = [x for x in doc.get("rewrites", []) if x["kind"] == kind and x["verdict"] == "kept"]
                if not kept:
                    continue
                other, _, why = self.plan(f"{name}-{kind}", path, "--deny", kind)
                off = self.tool("graph", self.o.device, path, other, "0", most=60)[0] if other else None
                if off:
                    occupancy = [x["blocks_per_sm"] for x in r["warm"]["plan"]["steps"]]
                    s["rows"].append({"graph": name, "kind": kind, "on_us": r["warm"]["plan"]["time_us"]["median"],
                                      "off_us": off["warm"]["plan"]["time_us"]["median"],
                                      "publish": r["warm"]["publish"] and off["warm"]["publish"],
                                      "blocks_per_sm": occupancy})
                    print(f"   {kind} in {name}: on {s['rows'][-1]['on_us']:.2f}, off {s['rows'][-1]['off_us']:.2f} "
                          f"us; blocks per SM {occupancy}")
        self.sweep(s)

    def sweep(self, s):
        """Graphs made for it: the same work with and without, by blocks per SM."""
        d = self.about
        for kind in ("programmatic-launch", "prefetch"):
            if kind == "programmatic-launch" and int(re.sub(r"\D", "", d["arch"])) < 90:
                continue
            for per_sm in (1, 4) if self.o.short else (1, 2, 4, 8):
                off, on = sweep.write(self.tmp, kind, d["arch"], d["sms"], d["shared_sm"], d["shared_reserved"], per_sm)
                r, why = self.tool("graph", self.o.device, off, on, "4", most=60)
                row = {"graph": "sweep", "kind": kind}
                if r:
                    row |= {"blocks_per_sm": [x["blocks_per_sm"] for x in r["warm"]["plan"]["steps"]] or [per_sm],
                            "bitwise": r["bitwise"]}
                    for state in ("warm", "cold"):
                        if state in r:
                            cold = "cold_" if state == "cold" else ""
                            row |= {f"{cold}off_us": r[state]["baseline"]["time_us"]["median"],
                                    f"{cold}on_us": r[state]["plan"]["time_us"]["median"],
                                    f"{cold}publish": r[state]["publish"]}
                    print(f"   {kind}, {per_sm} blocks per SM: "
                          + ", ".join(f"{k[:-3].replace('_', ' ')} {v:.2f} us" for k, v in row.items()
                                      if k.endswith("_us")))
                    if not r["bitwise"]:
                        s.setdefault("wrong", []).append({"graph": f"{kind}, {per_sm}", "why": r["differs"]})
                else:
                    s.setdefault("wrong", []).append({"graph": f"{kind}, {per_sm}", "why": why})
                s["rows"].append(row)
                self.write()
        if s.get("wrong"):
            s["state"], s["why"] = "failed", ", ".join(w["graph"] for w in s["wrong"])

    def capture(self, s):
        prog, lib = os.path.join(self.tmp, "captured"), os.path.join(self.o.build, "softgpu/libcuda.so.1")
        with open(os.path.join(self.o.build, "meson-info/intro-buildoptions.json"), encoding="utf-8") as f:
            cuda = next(x["value"] for x in json.load(f) if x["name"] == "cuda")
        # linked with the software device's for the names: which driver it finds is told by where it is run
        subprocess.run(["cc", "-O1", os.path.join(ROOT, "bench/captured.c"), "-isystem", cuda + "/include", lib, "-o",
                        prog], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        s["rows"] = []
        # alone: the library comes by CUDA_INJECTION64_PATH, without the preload
        for name, step, before in ("whole", [], []), ("step", ["--step", "2"], []), \
                ("alone", [], ["env", "-u", "LD_PRELOAD"]):
            doc, why = self.call(os.path.join(self.o.build, "client/dovetail"), "capture", "--local", "--json",
                                 "--device", self.o.device, "--data", "all", *step, "-o",
                                 os.path.join(self.tmp, "captured.json"), "--", *before, prog,
                                 os.path.join(self.tmp, "captured.bin"))
            row = {"name": name, **({"why": why} if doc is None else {
                **{k: doc[k] for k in ("launches", "buffers", "unknown", "cut")},
                **{k: doc.get("checked", {}).get(k) for k in ("of", "same")}})}
            print(f"   {row}")
            s["rows"].append(row)
        if any(not r.get("of") or r["of"] != r["same"] or r["cut"] for r in s["rows"]):
            s["state"], s["why"] = "failed", "the graph's run has other bytes than the program, or there is no graph"

    def torch(self, s):
        if self.kind != "cuda":
            s["state"], s["why"] = "done", "for a real GPU only"
            return
        for name in ("mlp", "ffn", "gemm-softmax", "layernorm-gemm"):
            if name not in self.planned:
                continue
            dump = os.path.join(self.tmp, name + "-dump")
            self.dovetail("run", self.planned[name][0], "--dump", dump)
            doc, why = self.call(sys.executable, os.path.join(ROOT, "bench/torch_graphs.py"), name, dump, most=60)
            s[name] = doc or {"why": why}
            print(f"   {name}: {s[name]}")
            for p in self.doc["plans"]:
                if doc and doc["right"] and p["graph"] == name:
                    p["torch_us"] = min(v for v in (doc["eager_us"], doc["compile_us"], doc["graph_us"]) if v)
                    p["torch"] = {k: doc[k] for k in ("eager_us", "compile_us", "graph_us", "version")}
            self.write()


def spearman(x, y):
    def ranks(v):
        order, r, i = sorted(range(len(v)), key=lambda k: v[k]), [0.0] * len(v), 0
        while i < len(order):
            j = i
            while j < len(order) and v[order[j]] == v[order[i]]:
                j += 1
            for k in range(i, j):
                r[order[k]] = (i + j - 1) / 2
            i = j
        return r
    a, b = ranks(x), ranks(y)
    m = (len(a) - 1) / 2
    top, one, two = sum((p - m) * (q - m) for p, q in zip(a, b)), sum((p - m) ** 2 for p in a), sum((q - m) ** 2
        for q in b)
    return top / (one * two) ** 0.5 if one and two else 0.0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--out", default="bench/results")
    p.add_argument("--device", default="cuda")
    p.add_argument("--seconds", type=float, default=440)
    p.add_argument("--short", action="store_true", help="three graphs, a few cases: for a test of this script")
    p.add_argument("section", nargs="*")
    o = p.parse_args()
    o.build = os.path.abspath(o.build)
    os.makedirs(o.out, exist_ok=True)
    r = Run(o)
    r.write_cases()
    r.section("smoke")
    if not r.kind:
        sys.exit(1)
    for name in SHARE:
        if name != "smoke" and (not o.section or name in o.section):
            r.section(name)
    print(f"written: {r.path}; {time.monotonic() - r.start:.0f} s")
    bad = [k for k, s in r.doc["sections"].items() if s["state"] == "failed"]
    if bad:
        sys.exit("failed: " + ", ".join(bad))


if __name__ == "__main__":
    main()
