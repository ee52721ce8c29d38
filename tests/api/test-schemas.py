#!/usr/bin/env python3
"""The schemas against documents: samples of every kind fit, each wrong edit of one does not and is found where it is;
the graphs of tests/corpus fit; the schemas agree with base/err.def and the routes of the service."""
import copy
import glob
import json
import os
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, HERE)
import check  # noqa: E402

SHA = "sha256:" + "0123456789abcdef" * 4
DEVICE = {"name": "NVIDIA H200 (modeled)", "kind": "soft", "arch": "sm_90", "sms": 132}
WARNINGS = [{"code": "unknown-member", "message": "a launch has no member \"smem\"", "pointer": "/launches/0/smem",
             "launch": "gemm0"},
            {"code": "race", "message": "blocks 0 and 1 both write", "pointer": "/launches/0", "launch": "gemm0",
             "kernel": "gemm", "buffer": "h", "line": "k.cu:12",
             "instruction": "PTX line 9: st.global.f32 [%rd1], %f1", "place": "shared tile + 4"}]
BUFFERS = {
    "x": {"bytes": 64, "role": "input", "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 7}},
    "ix": {"bytes": 4, "role": "input", "constant": True, "data": "AQIDBA=="},
    "h": {"bytes": 64, "role": "intermediate"},
    "y": {"bytes": 64, "role": "output", "fill": {"zero": True}},
}
KERNEL = {"name": "gemm0", "module": "m", "entry": "gemm", "grid": [12, 2, 1], "block": [256, 1, 1], "shared": 0,
          "args": [{"buffer": "x"}, {"buffer": "h", "offset": 4}, {"i32": -128}, {"f32": 1.5}, {"f32": "0x7fc00000"},
                   {"u64": 18446744073709551615},
                   {"bytes": "0011223344556677", "pointers": [{"at": 0, "buffer": "ix"}]},
                   {"tensor_map": {"buffer": "x", "tensorDataType": 7, "tensorRank": 1, "globalDim": [4],
                                   "globalStrides": [], "boxDim": [4]}}]}
SAMPLES = {
    "graph": {"dovetail": 1, "name": "ffn", "modules": {"m": {"cuda": "x", "options": ["--std=c++17"]},
                                                        "p": {"ptx": ".version 9.0"}},
              "buffers": BUFFERS, "unknown": 1,
              "captured": {"program": "p", "data": "all", "step": {"begin": 4, "operations": 4, "passes": 5},
                           "ended": True, "cut_off": 1, "cut": [{"why": "a host function on a stream", "times": 1}],
                           "unknown": ["x"], "taken": [{"buffer": "y", "offset": 0, "bytes": 64, "sha256": SHA}],
                           "streams": [0, 1, 0], "after": [[], [], [1]],
                           "checked": {"of": 1, "same": 1, "differ": [], "device": DEVICE}},
              "launches": [KERNEL, {"memset": {"buffer": "h", "offset": 0, "bytes": 4, "value": 0}},
                           {"copy": {"from": {"buffer": "h"}, "to": {"buffer": "y"}, "bytes": 64}}]},
    "analysis": {"signature": SHA, "device": DEVICE,
                 "launches": [{"name": "gemm0", "blocks": 24, "threads": 256, "registers": 64, "shared_bytes": 8448,
                               "blocks_per_sm": 4, "waves": 1, "idle_slots": 0.95,
                               "footprints": [{"buffer": "h", "read": [],
                                               "write": [[0, [[0, 64], [128, 192, 512, 16]]]], "may_write": []}]}],
                 "edges": [{"producer": "gemm0", "consumer": "gemm1", "buffers": ["h"], "hazards": ["raw"],
                            "classes": ["many-to-many", "partial-independence"], "fan": "many-to-many",
                            "evidence": "proved",
                            "pairs": 288, "components": 2, "producers_per_consumer": {"min": 12, "max": 12},
                            "consumers_per_producer": {"min": 12, "max": 12}, "independent_blocks": 0,
                            "independent_bytes": {"w2": 65536}, "reasons_left_out": 0,
                            "reasons": [{"of": "evidence", "side": "consumer", "access": "read", "buffer": "h",
                                         "kernel": "gemm", "ptx_line": 7,
                                         "instruction": "ld.global.f32 %f1, [%rd1];",
                                         "source": {"module": "m", "line": 3}, "loop": False,
                                         "why": "address", "from": {"ptx_line": 5}}],
                            "map": {"raw": [[0, [0, 1]]], "war": [], "waw": None}, "picture": 0}],
                 "pictures": ["iVBORw0KGgo="],
                 "warnings": WARNINGS, "warnings_left_out": 3, "warnings_of": SHA},
    "plan": {"signature": SHA, "device": DEVICE, "toolchain": {"dovetail": "0.1.0", "nvrtc": "13.0",
                                                               "driver": "soft 13.0"},
             "baseline": {"time_us": 41.2, "method": "modeled:h200", "launches": 6, "ci95_us": 0.0, "bound_us": 2.5},
             "timeline": {"baseline": [[0, 41.2]], "optimized": [[0, 27.9]],
                          "bound_us": {"baseline": [2.5], "optimized": [2.5]},
                          "sms": {"slots": {"baseline": [4], "optimized": [0]}, "optimized": [],
                                  "baseline": [[0, 0, 131, 528, 4.0, 0, 41.2]]}},
             "text_of_other": True,
             "optimized": {"time_us": 27.9, "method": "modeled", "launches": 3, "ci95_us": 0.2},
             "rewrites": [{"kind": "block-fusion", "level": "shared", "launches": ["gemm0", "bias"], "verdict": "kept"},
                          {"kind": "split", "launches": ["gemm1"], "verdict": "refused", "reason": "order: x"},
                          {"kind": "prefetch", "launches": ["gemm1"], "verdict": "dropped", "before_us": 1.0,
                           "after_us": 2.0}],
             "assumes": {"align": {"x": 16}, "constant": {"ix": SHA}, "evidence": "observed",
                         "memory": {"posted": 4096, "more": 1024}},
             "verified": {"bitwise": True, "inputs": 3, "schedules": 8, "device": "soft",
                          "reverified": "2026-01-01T00:00:00Z"}, "warnings": WARNINGS,
             "checked": {"modes": ["race", "uninit"], "blocks": 4, "of": 24},
             "modules": {"f0": {"ptx": "x"}}, "scratch": {"t0": {"bytes": 1024, "fill": {"zero": True}}},
             "buffers": BUFFERS,
             "launches": [dict(KERNEL, module="f0", cluster=[2, 1, 1], stream=0, after=[], programmatic=False)]},
    "problem": {"type": "about:blank", "title": "the graph document is wrong", "status": 422, "code": "bad-graph",
                "detail": "member 'bytes' is missing", "pointer": "/buffers/a~1b~0/bytes"},
    "job": {"id": "1", "state": "done", "want": "plan", "device": "soft:h200", "posts": 1,
            "created": "2026-01-01T00:00:00.000Z",
            "finished": "2026-01-01T00:00:01.000Z", "events": 4, "cache": "miss", "signature": SHA, "digest": SHA,
            "progress": {"stage": "compile", "message": "m", "done": 1, "of": 2},
            "links": {"self": "/v1/jobs/1", "events": "/v1/jobs/1/events", "result": "/v1/jobs/1/result"}},
    "event": {"event": "progress", "seq": 2, "time": "2026-01-01T00:00:00.000Z", "stage": "compile", "message": "m",
              "done": 1, "of": 2},
    "results": {"date": "2026-12-01", "commit": "abc", "host": {"cpu": "c", "cores": 2}, "gpu": None,
                "plans": [{"graph": "ffn", "method": "measured:cupti", "baseline_us": 41.2, "plan_us": 27.9,
                           "torch_us": 33.0, "bitwise": True},
                          {"graph": "bert-12", "method": "modeled:h200", "baseline_us": 9065.7, "plan_us": 8000.1,
                           "launches": 408, "plan_launches": 300, "layers": 12, "planning_s": 400.5,
                           "planning_cpu_s": 700.1, "peak_bytes": 500000000, "bitwise": True,
                           "verdicts": {"refused": {"block-fusion order": 12}, "kept": {"block-fusion": 3}}}],
                "maps": [{"graph": "ffn", "device": "soft", "analysis_us": 900, "plain_run_us": 15000}],
                "model": [{"name": "gemm0", "measured_us": 10.1, "modeled_us": 9.2}],
                "figures": [{"name": "softgpu.gemm.ginstr_per_s_core", "value": 2.4, "runs": 5, "min": 2.2,
                             "max": 2.5}]},
    "cache": {"entries": 1, "bytes": 2, "hits": 3, "misses": 4, "damaged": 0, "graphs": 1, "path": "/x",
              "footprints": {"rows": 1, "bytes": 2}, "trials": {"rows": 0, "bytes": 0},
              "by_want": {"plan": {"entries": 1, "bytes": 2, "hits": 3, "misses": 4, "damaged": 0}}},
}
GONE = object()
# kind, place, new value (GONE: removed); the first fault must be at the place, or above it when a member is missing or
# too many
WRONG = [
    ("graph", "/dovetail", 2), ("graph", "/dovetail", GONE), ("graph", "/modules", GONE), ("graph", "/launches", []),
    ("graph", "/modules/m/cuda", GONE), ("graph", "/modules/m/cuda", 5), ("graph", "/modules/p/options", ["-x"]),
    ("graph", "/modules/a::b", {"ptx": "x"}), ("graph", "/buffers/x/bytes", -1), ("graph", "/buffers/x/bytes", 10**15),
    ("graph", "/buffers/x/bytes", 1.5), ("graph", "/buffers/x/bytes", GONE), ("graph", "/buffers/x/role", "scratch"),
    ("graph", "/buffers/ix/fill", {"zero": True}), ("graph", "/buffers/ix/role", "output"),
    ("graph", "/buffers/x/fill/dtype", "f31"), ("graph", "/buffers/ix/data", {"file": ""}),
    ("graph", "/buffers/ix/data", {"file": "x.npy", "dtype": "f31"}), ("graph", "/buffers/ix/data", {"path": "x.npy"}),
    ("graph", "/buffers/ix/data", {"file": "x.npy", "at": 1}), ("graph", "/modules/m/file", "k.cu"),
    ("graph", "/buffers/x/fill/seed", -1), ("graph", "/buffers/y/fill", {}), ("graph", "/launches/0/grid", [1, 1]),
    ("graph", "/launches/0/grid/0", 0), ("graph", "/launches/0/entry", GONE),
    ("graph", "/launches/0/memset", {"buffer": "x", "bytes": 1, "value": 0}),
    ("graph", "/launches/0/args/0/i32", 1), ("graph", "/launches/0/args/1/offset", -1),
    ("graph", "/launches/0/args/2/i32", 1.5),
    ("graph", "/launches/0/args/4/f32", "7fc0"), ("graph", "/launches/0/args/6/bytes", "001"),
    ("graph", "/launches/1/memset/value", 256),
    ("graph", "/launches/2/copy/from", GONE), ("graph", "/launches/0/cooperative", True),
    ("graph", "/buffers/a\nb", {"bytes": 1, "role": "input"}),
    ("analysis", "/edges/0/classes", ["partial-independence"]), ("analysis", "/edges/0/fan", "all"),
    ("analysis", "/edges/0/independent_bytes", GONE),
    ("analysis", "/edges/0/evidence", "sure"), ("analysis", "/edges/0/map/raw/0", [0]),
    ("analysis", "/edges/0/hazards", ["raw", "raw"]),
    ("analysis", "/launches/0/footprints/0/write/0/1", [[1]]), ("analysis", "/launches/0/footprints/0/read", GONE),
    ("analysis", "/edges/0/reasons/0/why", "guess"), ("analysis", "/edges/0/reasons/0/buffer", GONE),
    ("analysis", "/device/kind", "gpu"), ("analysis", "/edges/0/extra", 1), ("analysis", "/launches/0/waves", GONE),
    ("analysis", "/warnings/0/code", "Race"), ("analysis", "/warnings/0/pointer", "launches/0"),
    ("analysis", "/warnings/0/message", GONE),
    ("analysis", "/warnings/1/extra", 1), ("plan", "/warnings/1/line", 12), ("plan", "/checked/modes", ["all"]),
    ("plan", "/verified/unchanged", False),
    ("plan", "/baseline/bound_us", -1), ("plan", "/timeline/bound_us/baseline", GONE),
    ("plan", "/verified/inputs", 0), ("plan", "/verified/inputs", GONE),
    ("plan", "/baseline/method", "guessed"), ("plan", "/rewrites/1/reason", GONE),
    ("plan", "/rewrites/2/after_us", GONE),
    ("plan", "/rewrites/0/level", GONE), ("plan", "/rewrites/0/verdict", "maybe"),
    ("plan", "/assumes/constant/ix", "x"), ("plan", "/assumes/memory/more", GONE),
    ("plan", "/assumes/evidence", "data-dependent"), ("plan", "/launches/0/extra", 1),
    ("plan", "/launches/0/after", GONE),
    ("plan", "/launches/0/stream", -1), ("plan", "/extra", 1), ("plan", "/scratch/t0/bytes", 0),
    ("plan", "/verified", GONE),
    ("problem", "/code", "oops"), ("problem", "/status", 200), ("problem", "/pointer", "buffers"),
    ("problem", "/extra", 1),
    ("job", "/state", "lost"), ("job", "/links/result", GONE), ("job", "/state", "failed"),
    ("job", "/problem", {"code": "io"}),
    ("event", "/event", "ping"), ("event", "/seq", 0), ("event", "/stage", GONE), ("event", "/extra", 1),
    ("results", "/plans/0/method", "fast"), ("results", "/date", "today"), ("results", "/host/cores", 0),
    ("results", "/plans/1/peak_bytes", "much"), ("results", "/figures/0/value", "1"),
    ("cache", "/entries", -1), ("cache", "/trials/rows", -1), ("cache", "/by_want/plan/extra", 1),
]

failed = []


def expect(ok, what):
    if not ok:
        failed.append(what)
        print(f"FAIL: {what}")


def edited(document, place, value):
    document = copy.deepcopy(document)
    *up, last = [p.replace("~1", "/").replace("~0", "~") for p in place.split("/")[1:]]
    at = document
    for p in up:
        at = at[int(p) if isinstance(at, list) else p]
    if value is GONE:
        del at[last]
    else:
        at[int(last) if isinstance(at, list) else last] = value
    return document


def refs(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for v in node.values():
            yield from refs(v)
    elif isinstance(node, list):
        for v in node:
            yield from refs(v)


def corpus_graph(path):
    """As the command line sends it: files inline."""
    with open(path, encoding="utf-8") as f:
        graph = json.load(f)
    for name, m in graph["modules"].items():
        if "file" in m:
            with open(os.path.join(os.path.dirname(path), m["file"]), encoding="utf-8") as f:
                text = f.read()
            graph["modules"][name] = {"ptx" if m["file"].endswith(".ptx") else "cuda": text,
                                      **{k: v for k, v in m.items() if k != "file"}}
    return graph


for kind, document in SAMPLES.items():
    found = check.faults(document, kind)
    expect(not found, f"the {kind} sample fits: {found}")
for kind, place, value in WRONG:
    found = check.faults(edited(SAMPLES[kind], place, value), kind)
    above = place.rsplit("/", 1)[0] or "(document)"
    expect(found, f"{kind} {place} = {value!r} is refused")
    expect(any(f.startswith((place + ":", place + "/", above + ":")) for f in found),
           f"{kind} {place}: found at {found}")

# as they lie in a file: names of files, comments
for place, value in (("/buffers/ix/data", {"file": "x.npy", "dtype": "u8"}), ("/modules/m", {"file": "k.cu"}),
                     ("/modules/m/cuda", {"file": "k.txt"}), ("/comment", ["a", "b"]),
                     ("/buffers/x/comment", "TODO bytes"), ("/launches/0/comment", "c"),
                     ("/launches/0/args/2/comment", "int n")):
    found = check.faults(edited(SAMPLES["graph"], place, value), "graph")
    expect(not found, f"{place} = {value!r} fits: {found}")

graphs = sorted(glob.glob(os.path.join(ROOT, "tests", "corpus", "*", "graph.json")))
expect(len(graphs) > 20, f"there are graphs in tests/corpus: {len(graphs)}")
for file in graphs:
    found = check.faults(corpus_graph(file), "graph")
    expect(not found, f"{file}: {found}")

for closed in (False, True):
    everything = check.bundle(closed)
    for name in check.KINDS:
        jsonschema.Draft202012Validator.check_schema(everything["$defs"][name])
    for r in set(refs(everything)):
        node = everything
        try:
            for part in r[2:].split("/"):
                node = node[part.replace("~1", "/").replace("~0", "~")]
        except KeyError:
            expect(False, f"{r} leads nowhere")

with open(os.path.join(ROOT, "base", "err.def"), encoding="utf-8") as f:
    codes = re.findall(r'^ERR\(\w+,\s*\d+, "([a-z-]+)"', f.read(), re.M)
with open(os.path.join(ROOT, "schema", "problem.schema.json"), encoding="utf-8") as f:
    expect(json.load(f)["properties"]["code"]["enum"] == codes,
           "problem.schema.json lists the codes of base/err.def, in order")

API = os.path.join(ROOT, "schema", "api", "make.py")
made = subprocess.run([sys.executable, API, "page"], capture_output=True, text=True, check=True).stdout
with open(os.path.join(ROOT, "docs", "API.md"), encoding="utf-8") as f:
    expect(f.read() == made, "docs/API.md is what schema/api/make.py page docs/API.md writes")
made = subprocess.run([sys.executable, API, "routes"], capture_output=True, text=True, check=True).stdout
served = set(re.findall(r'\{HTTP_(\w+), "([^"]+)"', made))
expect(len(served) > 20, f"the table of endpoints has rows: {len(served)}")
api = check.bundle(False)["$defs"]["openapi"]
for status, response in [(s, r) for item in api["paths"].values() for op in item.values() if isinstance(op, dict)
                         for s, r in op["responses"].items()]:
    expect(status[0] in "23" or response.get("$ref", "").endswith("/problem"), f"{status} is a problem document")

# docs/CONTRACT.md names what outsiders script against: every route, verb, option, kind of rewrite and variable.
with open(os.path.join(ROOT, "docs", "CONTRACT.md"), encoding="utf-8") as f:
    contract = f.read()
said = {part[0]: part for part in re.split(r"^## (?=\d)", contract, flags=re.M)[1:]}
for method, path in served:
    words = [w for w in path.split("/") if w not in ("", "*", "v1")]
    expect(all(w in said["6"] for w in words), f"docs/CONTRACT.md §6 has {method} {path}")
with open(os.path.join(ROOT, "client", "table.c"), encoding="utf-8") as f:
    text = f.read()
verbs = re.findall(r'^    \{"(\w+)", "[^"]*", \d, (?:\d|INT_MAX),', text, re.M)
expect(len(verbs) > 15, f"the table of verbs has rows: {verbs}")
for verb in verbs:
    expect(re.search(rf"\b{verb}\b", said["5"]), f"docs/CONTRACT.md §5 has the verb {verb}")
for option in re.findall(r'^    \{"([\w-]+)", (?:NULL|"[^"]+"), O_', text, re.M):
    expect(option in ("help", "output") or "--" + option in said["5"], f"docs/CONTRACT.md §5 has --{option}")
kinds = check.bundle(False)["$defs"]["plan"]["$defs"]["rewrite"]["properties"]["kind"]["enum"]
expect(all(f"`{k}`" in said["4"] for k in kinds), "docs/CONTRACT.md §4 has every kind of rewrite")
for folder in ("base", "ptx", "graph", "softgpu", "capture", "device", "analysis", "rewrite", "cache", "daemon",
               "client"):
    for file in glob.glob(os.path.join(ROOT, folder, "**", "*.c"), recursive=True):
        with open(file, encoding="utf-8") as f:
            for name in re.findall(r'"(DOVETAIL_[A-Z_]+)"', f.read()):
                expect(f"`{name}`" in said["8"], f"docs/CONTRACT.md §8 has {name} of {os.path.basename(file)}")

expect(check.faults(SAMPLES["job"], "GET /v1/jobs/{id}", status=200) == [], "a job is what GET /v1/jobs/ID answers")
expect(check.faults(SAMPLES["problem"], "GET /v1/jobs/{id}", status=404) == [], "a problem is what it answers with 404")
JOB = json.dumps(SAMPLES["job"]).encode()
PROBLEM = json.dumps(SAMPLES["problem"]).encode()
JSON = {"Content-Type": "application/json", "Server": "d", "Cache-Control": "no-store"}
REFUSED = dict(JSON, **{"Content-Type": "application/problem+json"})
for why, wrong, *answer in [
        ("right", False, "GET", "/v1/jobs/7?wait=1", 200, JSON, JOB),
        ("right, of HEAD", False, "HEAD", "/v1/jobs/7", 200, JSON, b""),
        ("a refusal that any call may have", False, "GET", "/v1/jobs/7", 414, REFUSED, PROBLEM),
        ("a path that there is not", False, "GET", "/v2", 404, REFUSED, PROBLEM),
        ("200 at a path that there is not", True, "GET", "/v2", 200, JSON, JOB),
        ("a status that is not declared", True, "GET", "/v1/jobs/7", 202, JSON, JOB),
        ("a body that is not its", True, "GET", "/v1/jobs/7", 200, JSON, PROBLEM),
        ("another type", True, "GET", "/v1/jobs/7", 200, dict(JSON, **{"Content-Type": "text/plain"}), JOB),
        ("a refusal without a document", True, "GET", "/v1/jobs/7", 404, JSON, JOB),
        ("no Retry-After", True, "GET", "/v1/jobs/7", 429, REFUSED, PROBLEM),
        ("no Allow", True, "PUT", "/v1/jobs", 405, REFUSED, PROBLEM),
        ("a field that is not declared", True, "GET", "/v1/jobs/7", 200, dict(JSON, **{"Dovetail-X": "1"}), JOB),
        ("no Location", True, "POST", "/v1/jobs", 202, dict(JSON, **{"Dovetail-Cache": "miss"}), JOB),
        ("a hit that says miss", True, "GET", "/v1/jobs/7", 200, dict(JSON, **{"Dovetail-Cache": "maybe"}), JOB)]:
    found = check.reply_faults(*answer)
    expect(bool(found) == wrong, f"an answer: {why}: {found}")
expect(check.faults(SAMPLES["job"], "GET /v1/jobs/{id}", status=404), "a job is not what it answers with 404")
expect("declares no status 418" in check.faults({}, "GET /v1/jobs/{id}", status=418)[0], "an undeclared status fails")

print(f"{len(SAMPLES)} samples, {len(WRONG)} wrong ones, {len(failed)} failures")
sys.exit(1 if failed else 0)
