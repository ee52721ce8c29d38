#!/usr/bin/env python3
"""What ptxas makes of calls of functions that were not inlined, and of kernels in which they are written out
(rewrite/normal/calls.c). ptxas is given the posted module as a whole, as for a program that is loaded, and may combine
across a call: a product is moved into the function that halves it, and is one FMUL.D2. dovetail's own assembler
(nvJitLink) never does. So a kernel in which that may happen is left as it is by every rewrite; one in which it cannot
has the float instructions of the posted program, as often, mnemonic with modifiers, signs and immediates.

    calls.py DOVETAIL PLANNER       exit status 1 if one is otherwise; 77 without DOVETAIL_PTXAS and DOVETAIL_NVDISASM

A row: name, nvcc's options, what the function makes of v, what the kernel stores, of p and q, which it loads; may
arithmetic meet arithmetic across the call?
"""
import json
import os
import sys
import tempfile

import joints

ROWS = [
    ("product-half", [], "v * 0.5f", "f(p * q)", True),
    ("quotient-sum", joints.FAST, "v / 3.0f", "f(p) + q", True),
    ("largest-smallest", [], "fminf(v, 1.0f)", "f(fmaxf(p + q, 0.0f))", True),
    ("open-sum", [], "v * v", "f(p) + q", True),
    ("loaded", [], "v * 0.5f + v", "f(p)", False),
    ("relu", [], "fmaxf(v, 0.0f)", "f(p)", False),
    ("root", [], "rsqrtf(v) * v", "f(q)", False),
]
N = 2048


def graph():
    doc = {"dovetail": 1, "name": "calls", "modules": {}, "buffers": {}, "launches": []}
    for name, options, function, value, _ in ROWS:
        entry = name.replace("-", "_")
        doc["modules"]["m_" + entry] = {"options": options, "cuda": (
            "__device__ __noinline__ float f(float v) { return %s; }\n"
            'extern "C" __global__ void %s(const float *__restrict__ a, const float *__restrict__ b, '
            "float *__restrict__ y) { int i = blockIdx.x * blockDim.x + threadIdx.x; float p = a[i], q = b[i]; "
            "y[i] = %s; }\n" % (function, entry, value))}
        for k, buffer in enumerate("aby"):
            doc["buffers"]["%s_%s" % (entry, buffer)] = (
                {"bytes": 4 * N, "role": "output"} if buffer == "y" else
                {"bytes": 4 * N, "role": "input", "fill": {"uniform": [0.5, 4], "dtype": "f32", "seed": k + 1}})
        doc["launches"].append({"name": entry, "module": "m_" + entry, "entry": entry, "grid": [N // 128, 1, 1],
                                "block": [128, 1, 1], "args": [{"buffer": "%s_%s" % (entry, b)} for b in "aby"]})
    return doc


def asked(planner, doc, kind):
    line = {"graph": doc, "deny": [k for k in ["block-fusion"] + joints.OTHERS if k != kind], "force": True,
            "inputs": 1, "schedules": 1, "seeds": [7], "modules": True}
    said = json.loads(joints.run(planner, input=json.dumps(line) + "\n"))
    if said.get("equal") != "":
        sys.exit(said.get("error") or said.get("equal"))
    return said["plan"]


def verdict_of(plan, kind, entry):
    return next(("%s: %s" % (x["verdict"], x.get("reason", "")) for x in plan["rewrites"]
                 if x["kind"] == kind and entry in x["launches"]), "not looked at")


def check(row, plan, other, posted, planned):
    entry, crosses = row[0].replace("-", "_"), row[4]
    told, also = verdict_of(plan, "calls", entry), verdict_of(other, "narrow-blocks", entry)
    if crosses:
        good = told.startswith("refused: calls-apart: ") and also.startswith("refused: machine-code: ")
        return "" if good else told + "; " + also
    made = next(x["entry"] for x in plan["launches"] if x["name"] == entry)
    if not told.startswith("kept: ") or not also.startswith("kept: "):
        return told + "; " + also
    return "" if posted[entry] and planned[made] == posted[entry] else "only posted: %s; only written out: %s" % (
        posted[entry] - planned[made], planned[made] - posted[entry])


def main():
    cli, planner = sys.argv[1:3]
    if not os.environ.get("DOVETAIL_PTXAS") or not os.environ.get("DOVETAIL_NVDISASM"):
        print("no ptxas or nvdisasm")
        return 77
    bad = 0
    with tempfile.TemporaryDirectory(prefix="dt-calls-") as where:
        doc = graph()
        doc["modules"] = joints.posted_modules(cli, doc, where)
        posted = joints.machine_code(doc["modules"], where)
        plan, other = asked(planner, doc, "calls"), asked(planner, doc, "narrow-blocks")
        planned = joints.machine_code(plan["modules"], where)
        for row in ROWS:
            why = check(row, plan, other, posted, planned)
            bad += bool(why)
            print("%-18s %s" % (row[0], why or ("refused" if row[4] else "the same")))
        combined = posted["product_half"]
        if len(combined) != 1 or not next(iter(combined)).startswith("FMUL.D2"):
            print("ptxas does not combine across a call any more: %s" % dict(combined))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
