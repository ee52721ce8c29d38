#!/usr/bin/env python3
"""What ptxas makes of a joint: graphs of kernels that are fused at level `register`, each with a pair of operations
that ptxas combines when they meet. Planned without a service; the posted modules and the plan's are assembled, and for
each posted kernel the float instructions of its machine code, mnemonic with modifiers, signs and immediates, must be
among the fused kernel's as often as in the posted ones, no more and no fewer.

    joints.py DOVETAIL PLANNER [NAME…]      exit status 1 if one differs or is not fused; 77 without DOVETAIL_PTXAS and
                                            DOVETAIL_NVDISASM

A row: name, element type, nvcc's options, what the kernels compute of x, which they read, and b, another input, in the
order of their launches; "asm:" is one instruction of PTX, "keep:" stores to an output, "if:" under a guard, "four:"
float4, "part:" the same and each of its components inlined alone, "two:" uses the value once more, "rows:" can be a
host only. Constants made by HFMA2 and copies are no arithmetic.
"""
import collections
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

N = 2048
SIZE = {"float": 4, "double": 8, "__half": 2, "__half2": 4, "__nv_bfloat16": 2}
FILL = {"float": "f32", "double": "f64", "__nv_bfloat16": "bf16"}
REGISTER = {"float": "f", "double": "d", "__half2": "r"}  # of inline PTX, elsewhere h
FAST, DIV, NONE = ["--use_fast_math"], ["--prec-div=false"], []
ROWS = [
    # the 16 of which 11 had other arithmetic
    ("fdividef-add", "float", NONE, ["__fdividef(x, b)", "x + b"]),
    ("fast-div-add", "float", FAST, ["x / b", "x + b"]),
    ("prec-div-sub", "float", DIV, ["x / b", "b - x"]),
    ("exp-div", "float", FAST, ["__expf(x)", "1.0f / x"]),
    ("rcp-rcp", "float", FAST, ["1.0f / x", "1.0f / x"]),
    ("min-max", "float", NONE, ["fminf(x + b, 1.0f)", "fmaxf(x, 0.0f)"]),
    ("neg-neg", "float", NONE, ["asm:neg.f32", "asm:neg.f32"]),
    ("neg-abs", "float", NONE, ["asm:neg.f32", "asm:abs.f32"]),
    ("abs-neg", "float", NONE, ["asm:abs.f32", "asm:neg.f32"]),
    ("mul-half", "float", NONE, ["x * b", "x * 0.5f"]),
    ("mul-twice", "float", NONE, ["x * b", "x * 2.0f"]),
    ("div-kept-add", "float", FAST, ["keep:x / b", "x + b"]),
    ("mul-add-f16", "__half", NONE, ["asm:mul.f16", "asm:add.f16"]),
    ("mul-add-f16x2", "__half2", NONE, ["asm:mul.f16x2", "asm:add.f16x2"]),
    ("neg-neg-bf16", "__nv_bfloat16", NONE, ["asm:neg.bf16", "asm:neg.bf16"]),
    ("mul-add-f64", "double", NONE, ["asm:mul.f64", "asm:add.f64"]),
    # other ways of a value from body to body
    ("neg-neg-f16x2", "__half2", NONE, ["asm:neg.f16x2", "asm:neg.f16x2"]),
    ("neg-neg-f64", "double", NONE, ["asm:neg.f64", "asm:neg.f64"]),
    ("prologue", "float", FAST, ["x / b", "rows:x + b"]),
    ("vectors", "float", FAST, ["four:x / b", "four:x + b"]),
    ("part-of-vector", "float", FAST, ["part:x / b", "x + b"]),
    ("guarded", "float", FAST, ["if:x / b", "if:x + b"]),
    ("used-twice", "float", FAST, ["two:x / b", "x + b"]),
    ("used-guarded", "float", FAST, ["pred:x / b", "x + b"]),
    ("used-vectors", "float", FAST, ["both:x / b", "four:x + b"]),
    ("half-product", "float", NONE, ["x * b * 0.5f", "x + b"]),
    ("half-chain", "float", NONE, ["x * b * 0.5f", "x + b", "x * b * 2.0f"]),
    ("convert", "float", FAST, ["x / b", "(float)(int)(x + b)"]),
    ("fast-chain", "float", FAST, ["x / b", "x + b", "x / b", "x + b"]),
    ("neg-chain", "float", NONE, ["asm:neg.f32", "asm:neg.f32", "asm:neg.f32"]),
]
OTHERS = ["dead-blocks", "recompute", "parallel-fusion", "split", "prefetch", "programmatic-launch", "versions",
          "calls", "copies", "narrow-blocks", "slice", "tails", "pack", "roles"]
LEVELS = ["register", "shared", "global"]
MEMORY = ["fast-div-add", "rcp-rcp", "min-max", "neg-neg", "neg-neg-bf16", "div-kept-add", "vectors", "half-product"]
FLOAT = re.compile(r"F(ADD|MUL|FMA|MNMX|SET|SETP|SEL|CHK|RND|2)|H(ADD|MUL|FMA|SET|MNMX)|D(ADD|MUL|FMA|SET|MNMX)|"
                   r"MUFU|I2F|F2|.MMA")


WIDE, TWICE = ("four", "part", "both"), ("two", "pred", "both")


def raw(kind):
    return {"__half2": "unsigned", "__half": "unsigned short", "__nv_bfloat16": "unsigned short"}.get(kind, kind)


def statements(kind, text, x, b):
    """r = what the kernel computes of x and b: a C++ expression, or one instruction of PTX."""
    head = "%s x = %s, b = %s, r; " % (raw(kind), x, b)
    if not text.startswith("asm:"):
        return head + "r = %s; " % text
    letter, two = REGISTER.get(kind, "h"), text[4:].split(".")[0] in ("mul", "add", "sub")
    return head + 'asm("%s %%0, %%1%s;" : "=%s"(r) : "%s"(x)%s); ' % (text[4:], ", %2" if two else "", letter, letter,
                                                                      ', "%s"(b)' % letter if two else "")


def kernel(name, kind, text):
    form, colon, rest = text.partition(":")
    if not colon or form == "asm":
        form, rest = "", text
    code = statements(kind, rest, "px[i]", "pb[i]")
    if form in WIDE:
        code = "float4 u = ((const float4 *)px)[i], w = ((const float4 *)pb)[i], v; " + "".join(
            "{ %sv.%s = r; }" % (statements(kind, rest, "u." + c, "w." + c), c)
            for c in "xyzw") + " ((float4 *)py)[i] = v;" + (
                " v.x += u.x; v.y += u.y; v.z += u.z; v.w += u.w; ((float4 *)po)[i] = v;" if form == "both" else "")
    elif form == "if":
        code = "if (i < n) { %spy[i] = r; }" % code
    elif form == "rows":  # its neighbour's value too: it can only be a host
        code = ("__shared__ float s[256]; %ss[threadIdx.x] = r; __syncthreads(); py[i] = fmaxf(s[threadIdx.x], "
                "s[threadIdx.x ^ 1]);" % code)
    elif form == "two":  # the value is used once more than it is stored
        code += "py[i] = r; po[i] = r + x;"
    elif form == "pred":  # the same, where the store has a guard of its own
        code += ('asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, %1; @p st.global.f32 [%2], %3; }" :: "r"(i), '
                 '"r"(n), "l"(__cvta_generic_to_global(py + i)), "f"(r) : "memory"); po[i] = r + x;')
    else:
        code += "py[i] = r;"
    t = raw(kind)
    return ('extern "C" __global__ void %s(const %s *px, const %s *pb, %s *py, %s *po, int n) '
            '{ int i = blockIdx.x * blockDim.x + threadIdx.x; %s }\n') % (
        name, t, t, t, t, code)


def launches_of(row):
    return [row[0].replace("-", "_") + "_%d" % k for k in range(len(row[3]))]


def graph(rows):
    """One graph of all rows, a module by options; rows share nothing."""
    doc = {"dovetail": 1, "name": "joints", "modules": {}, "buffers": {}, "launches": []}
    for row in rows:
        kind, options, texts = row[1:]
        module = "m" + "".join(c for c in "".join(options) if c.isalpha())
        doc["modules"].setdefault(module, {"cuda": "", "options": options})
        size, base = N * SIZE[kind], row[0].replace("-", "_")
        fill = {"uniform": [0.5, 4], "dtype": FILL.get(kind, "f16"), "seed": 1}
        doc["buffers"][base + "_t0"] = {"bytes": size, "role": "input", "fill": fill}
        for k, (name, text) in enumerate(zip(launches_of(row), texts)):
            out = k + 1 == len(texts) or text.startswith("keep:")
            doc["buffers"]["%s_b%d" % (base, k)] = {"bytes": size, "role": "weight", "fill": dict(fill, seed=k + 2)}
            doc["buffers"]["%s_t%d" % (base, k + 1)] = {"bytes": size, "role": "output" if out else "intermediate"}
            if text.split(":")[0] in TWICE:
                doc["buffers"][base + "_o"] = {"bytes": size, "role": "output"}
            doc["modules"][module]["cuda"] += kernel(name, kind, text)
            threads = N // (4 if text.split(":")[0] in WIDE else 1)
            block = 256 if k % 2 else 128  # none has the other's blocks
            buffers = ["t%d" % k, "b%d" % k, "t%d" % (k + 1), "o" if text.split(":")[0] in TWICE else "b%d" % k]
            doc["launches"].append({"name": name, "module": module, "entry": name, "grid": [threads // block, 1, 1],
                                    "block": [block, 1, 1],
                                    "args": [{"buffer": "%s_%s" % (base, b)} for b in buffers] + [{"i32": threads}]})
    return doc


def run(*args, **more):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if p.returncode:
        sys.exit("%s: %s" % (" ".join(args[:4]), (p.stderr or p.stdout).strip()[-2000:]))
    return p.stdout


def machine_code(modules, where):
    """By entry: how often each float instruction stands in its machine code; registers and constant banks are all one,
    sources in no order."""
    found = {}
    for name, module in modules.items():
        path = os.path.join(where, name)
        with open(path + ".ptx", "w") as f:
            f.write(module["ptx"])
        run(os.environ["DOVETAIL_PTXAS"], "-arch=sm_90", path + ".ptx", "-o", path + ".cubin")
        for line in run(os.environ["DOVETAIL_NVDISASM"], "-c", path + ".cubin").split("\n"):
            if line.startswith(".text."):
                count = found.setdefault(line.strip()[6:-1], collections.Counter())
            m = re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\S+)\s*(.*?)\s*;", line)
            if not m or not FLOAT.match(m.group(1)) or (m.group(1).startswith("HFMA2") and "-RZ, RZ," in m.group(2)):
                continue  # no arithmetic, or a constant
            operands = re.sub(r"(\bU?R(\d+|Z)|\bU?P(\d+|T)|c\[[^]]*\]\[[^]]*\])(\.(reuse|64|H\d_H\d|F32))*", "r",
                              m.group(2).replace(".reuse", "")).split(", ")
            shape = " ".join([m.group(1)] + sorted(operands[1:]))
            count[re.sub(r"^HFMA2(\.MMA)? 1 1 r r$", "HADD2 r r", shape)] += 1  # the same, on the unit that is free
    return found


def posted_modules(cli, doc, where):
    """As PTX: a plan in which nothing is rewritten has them."""
    path, out = os.path.join(where, "graph.json"), os.path.join(where, "plan")
    with open(path, "w") as f:
        json.dump(doc, f)
    run(cli, "optimize", path, "--local", "--cache", os.path.join(where, "cache"), "-o", out, "--deny",
        ",".join(["block-fusion"] + OTHERS))
    with open(os.path.join(out, "plan.json")) as f:
        return json.load(f)["modules"]


def origins(text, modules, some):
    """What is wrong with the .loc of an emitted text: each arithmetic instruction is that of the posted line that it
    names; all of them say one."""
    lines = {"posted-" + hashlib.sha256(m["ptx"].encode()).hexdigest()[:12]: m["ptx"].split("\n")
             for m in modules.values()}
    files = dict(re.findall(r'^\.file (\d+) "(.*)"$', text, re.M))
    at = ("", 0)
    for line in text.split("\n"):
        loc = re.match(r"\t\.loc (\d+) (\d+) 0$", line)
        at = (files[loc.group(1)], int(loc.group(2))) if loc else at
        op = re.match(r"\t(?:@!?%\w+ "
                      r")?((?:add|sub|mul|div|rcp|ex2|neg|abs|min|max|cvt)\.[\w.]*(?:f16|f16x2|bf16|f32|f64))\b", line)
        # of a module whose launches are not all there some functions are left out: another text, with its lines where
        # they were
        where = [lines[at[0]]] if at[0] in lines else [t for t in lines.values()
                                                       if len(t)
                                                       >= at[1]] if at[0].startswith("posted-") and some else []
        if op and not any(op.group(1).replace(".rn", "") in t[at[1] - 1].replace(".rn", "") for t in where):
            return "%s is not line %d of %s" % (line.strip(), at[1], at[0])
    return "" if at[1] else "no .loc"


def zero_words(launch, text):
    """Parameters that are 0 at run time, as the launch has them."""
    names = re.findall(r"^\t\.param \S+(?: \S+)* (\w+),?$", text[text.index(launch["entry"] + "("):].split(")")[0],
                       re.M)
    return [n for n, a in zip(names, launch["args"]) if n.startswith("dt_zero_") and a == {"u32": 0}]


def check(row, level, doc, modules, posted, planned):
    names = launches_of(row)
    # one of four components in the other, or the other four times
    if row[3][0].startswith("part:") and level == "register":
        wants = [collections.Counter({w: n // 4 for w, n in posted[names[0]].items()}) + posted[names[1]]]
        wants.append(posted[names[0]] + collections.Counter({w: n * 4 for w, n in posted[names[1]].items()}))
    else:
        wants = [sum((posted[name] for name in names), collections.Counter())]
    have = [x for x in doc["launches"] if set(x["name"].split("+")) & set(names)]
    rows = [x for x in doc["rewrites"] if set("+".join(x["launches"]).split("+")) & set(names)]
    if len(have) != 1 or {x["level"] for x in rows if x["verdict"] == "kept"} != {level}:
        return "not fused: %s" % [(x["kind"], x.get("level"), x["verdict"], x.get("reason")) for x in rows]
    text = doc["modules"][have[0]["module"]]["ptx"]
    wrong = origins(text, modules, level != "register")
    if wrong or len(set(zero_words(have[0], text))) != (len(names) - 1 if level == "register" else 0):
        return wrong or "zero words: %s" % zero_words(have[0], text)
    got = planned[have[0]["entry"]]
    return "" if got in wants else "posted: %s; fused: %s" % (dict(wants[0] - got), dict(got - wants[0]))


def main():
    cli, planner, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    rows = [r for r in ROWS if not names or r[0] in names]
    if not os.environ.get("DOVETAIL_PTXAS") or not os.environ.get("DOVETAIL_NVDISASM"):
        print("no ptxas or nvdisasm")
        return 77
    bad = 0
    with tempfile.TemporaryDirectory(prefix="dt-joints-") as where:
        modules = posted_modules(cli, graph(rows), where)
        posted = machine_code(modules, where)
        for level in LEVELS:
            some = [r for r in rows if level == "register" or r[0] in MEMORY]
            if not some:
                continue
            doc = graph(some)
            doc["modules"] = {n: modules[n] for n in doc["modules"]}
            line = {"graph": doc, "deny": OTHERS, "levels": level, "force": True, "inputs": 1, "schedules": 1,
                    "seeds": [7], "modules": True}
            said = json.loads(run(planner, input=json.dumps(line) + "\n"))
            if said.get("equal") != "":
                sys.exit("%s: %s" % (level, said.get("error") or said.get("equal")))
            planned = machine_code(said["plan"]["modules"], where)
            for row in some:
                why = check(row, level, said["plan"], modules, posted, planned)
                bad += bool(why)
                print("%-8s %-16s %s" % (level, row[0], why or "the same"))
    print("%d have other arithmetic" % bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
