#!/usr/bin/env python3
"""What ptxas makes of slices (rewrite/kinds/slice.c). A part that does not store a value may still use it, and then the
last use of it is one that ptxas combines with what made it: a product that is stored, and halved, becomes one FMUL.D2
where only its half is stored. Each kernel is sliced by force. It is refused as `machine-code` where that happens, and
must be; elsewhere all its parts have the float instructions of the posted kernel, mnemonic with modifiers, signs and
immediates, and no others.

    slices.py DOVETAIL PLANNER      exit status 1 if one is otherwise; 77 without DOVETAIL_PTXAS and DOVETAIL_NVDISASM

And where a part leaves products of a warp group (wgmma) to one of two groups, ptxas still lets them overlap: it says so
if it waits for each of them (tests/corpus/slices-groups).

A row: name, nvcc's options, what a thread stores to y and to o, computed of p = a[i] and q = b[i]; is it refused?
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import joints

ROWS = [
    ("product-half", [], "p * q", "r * 0.5f", True),
    ("largest-smallest", [], "fmaxf(p + q, 0.0f)", "fminf(r, 1.0f)", True),
    ("quotient-sum", joints.FAST, "p / q", "r + q", True),
    ("negated", [], "-p", "q - r", False),  # ptxas has combined them in the posted kernel, too
    ("apart", [], "p * q + p", "p / q", False),
    ("sums", [], "p + q", "fmaf(p, q, q)", False),
]
N = 2048
GROUPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus", "slices-groups")
# of the posted block's number, by which the parts find theirs: a division of integers
NUMBERS = re.compile(r"MUFU\.RCP |I2F|F2I")


def graph():
    doc = {"dovetail": 1, "name": "slices", "modules": {}, "buffers": {}, "launches": []}
    for name, options, y, o, _ in ROWS:
        entry = name.replace("-", "_")
        module = "m" + "".join(c for c in "".join(options) if c.isalpha())
        doc["modules"].setdefault(module, {"cuda": "", "options": options})
        doc["modules"][module]["cuda"] += (
            'extern "C" __global__ void %s(const float *__restrict__ a, const float *__restrict__ b, '
            "float *__restrict__ y, float *__restrict__ o) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
            "float p = a[i], q = b[i], r = %s; y[i] = r; o[i] = %s; }\n" % (entry, y, o))
        for k, buffer in enumerate("abyo"):
            doc["buffers"]["%s_%s" % (entry, buffer)] = (
                {"bytes": 4 * N, "role": "output"} if buffer in "yo" else
                {"bytes": 4 * N, "role": "input", "fill": {"uniform": [0.5, 4], "dtype": "f32", "seed": k + 1}})
        doc["launches"].append({"name": entry, "module": module, "entry": entry, "grid": [N // 128, 1, 1],
                                "block": [128, 1, 1], "args": [{"buffer": "%s_%s" % (entry, b)} for b in "abyo"]})
    return doc


def check(row, plan, posted, planned):
    entry, refused = row[0].replace("-", "_"), row[4]
    found = [x for x in plan["rewrites"] if x["kind"] == "slice" and x["launches"] == [entry]]
    if len(found) != 1:
        return "looked at %d times" % len(found)
    verdict, reason = found[0]["verdict"], found[0].get("reason", "")
    if refused:
        return "" if verdict == "refused" and reason.startswith("machine-code: ") else "%s: %s" % (verdict, reason)
    if verdict != "kept":
        return "%s: %s" % (verdict, reason)
    made = next(x["entry"] for x in plan["launches"] if x["name"] == entry)
    have = {x for x in planned[made] if not NUMBERS.match(x)}
    want = {x for x in posted[entry] if not NUMBERS.match(x)}
    return "" if have == want and want else "only posted: %s; only sliced: %s" % (want - have, have - want)


def groups(planner, where):
    """What ptxas says of the parts of a product by two warp groups."""
    doc = json.load(open(os.path.join(GROUPS, "graph.json"), encoding="utf-8"))
    doc["modules"]["k"] = {"ptx": open(os.path.join(GROUPS, "kernels.ptx"), encoding="utf-8").read()}
    line = {"graph": doc, "deny": [k for k in joints.OTHERS if k != "slice"], "levels": "halves", "force": True,
            "inputs": 1, "schedules": 1, "seeds": [7], "modules": True}
    said = json.loads(joints.run(planner, input=json.dumps(line) + "\n"))
    ptx = next((m["ptx"] for m in said.get("plan", {}).get("modules", {}).values() if "sliced" in m.get("ptx", "")), "")
    file = os.path.join(where, "groups.ptx")
    with open(file, "w", encoding="utf-8") as f:
        f.write(ptx)
    if said.get("equal") != "" or ptx.count("wgmma.mma_async") < 2:
        return said.get("error") or said.get("equal") or "it is not sliced"
    made = subprocess.run([os.environ["DOVETAIL_PTXAS"], "-v", "-arch", "sm_90a", file, "-o", file + ".cubin"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False)
    return "" if made.returncode == 0 and "serialized" not in made.stdout else made.stdout


def main():
    cli, planner = sys.argv[1:3]
    if not os.environ.get("DOVETAIL_PTXAS") or not os.environ.get("DOVETAIL_NVDISASM"):
        print("no ptxas or nvdisasm")
        return 77
    bad = 0
    with tempfile.TemporaryDirectory(prefix="dt-slices-") as where:
        doc = graph()
        doc["modules"] = joints.posted_modules(cli, doc, where)
        posted = joints.machine_code(doc["modules"], where)
        line = {"graph": doc, "deny": ["block-fusion"] + [k for k in joints.OTHERS if k != "slice"],
                "levels": "halves", "force": True, "inputs": 1, "schedules": 1, "seeds": [7], "modules": True}
        said = json.loads(joints.run(planner, input=json.dumps(line) + "\n"))
        if said.get("equal") != "":
            sys.exit(said.get("error") or said.get("equal"))
        planned = joints.machine_code(said["plan"]["modules"], where)
        for row in ROWS:
            why = check(row, said["plan"], posted, planned)
            bad += bool(why)
            print("%-18s %s" % (row[0], why or ("refused" if row[4] else "the same")))
        why = groups(planner, where)
        bad += bool(why)
        print("%-18s %s" % ("warp-groups", why or "they overlap"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
