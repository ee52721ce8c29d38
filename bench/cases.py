"""tests/ptx on a device: reads the RUN cases (directives as in the head of tests/ptx/run.c), has bench-gpu run them,
compares.

A case's result on the device is `equal` to the software device's, or `within` the bounds that its OUT lines give round
the manual's result, or it `differs`. Faults are left out (on a GPU they end the context), so are cases with a limit of
instructions. What the driver's compiler refuses for this architecture is counted as `refused`.
"""
import json
import math
import os
import re
import struct
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import process

CHUNK = 150  # entries a module: one process compiles it
SIZE = {"8": 1, "6": 2, "2": 4, "4": 8}


def width(t):
    return 2 if t[0] == "x" or t.startswith("b") else int(t[1:]) // 8


def number(t, v):
    """bits of a value as the directives write it"""
    n = width(t)
    if t == "f32" and "0x" not in v:
        return 0x7FFFFFFF if v == "nan" else struct.unpack("<I", struct.pack("<f", to_f32(v)))[0]
    if t == "f64" and "0x" not in v:
        return 0xFFF8000000000000 if v == "nan" else struct.unpack("<Q", struct.pack("<d", float(v)))[0]
    return int(v, 0) & ((1 << 8 * n) - 1)


def to_f32(v):
    x = float(v)
    return math.copysign(math.inf, x) if abs(x) > 3.4028235677973366e38 else x


def values(t, words):
    out = []
    for w in words:
        v, _, times = w.partition("*")
        k = int(times, 0) if times else 1
        if v == "iota":
            out += [x & ((1 << 8 * width(t)) - 1) for x in range(k)]
        else:
            out += [number(t, v)] * k
    n = width(t)
    return b"".join(x.to_bytes(n, "little") for x in out)


def as_float(t, raw):
    if t == "f64":
        return struct.unpack("<d", raw)[0]
    if t == "f32":
        return struct.unpack("<f", raw)[0]
    if width(t) == 2:
        return struct.unpack("<e", raw)[0] if t[0] != "b" else struct.unpack("<f", b"\0\0" + raw)[0]
    return float(int.from_bytes(raw, "little"))


def three(s):
    v = [int(x) for x in s.split(",")]
    return v + [1] * (3 - len(v))


def read(path):
    """(text, cases)"""
    text = open(path, encoding="utf-8").read()
    lines, cases, case, skip, i = text.split("\n"), [], None, False, 0
    while i < len(lines):
        line = lines[i].lstrip()
        i += 1
        if not line.startswith("//"):
            continue
        line = line[2:].strip()
        while line.endswith("\\") and i < len(lines) and lines[i].lstrip().startswith("//"):
            line = line[:-1] + " " + lines[i].lstrip()[2:].strip()
            i += 1
        word, _, rest = line.partition(" ")
        w = rest.split()
        if word == "RUN" and w:
            case = {"entry": w[0], "grid": [1, 1, 1], "block": [1, 1, 1], "cluster": [0, 0, 0], "shared": 0, "args": [],
                    "outs": [], "names": {}, "skip": False}
            for o in w[1:]:
                key, _, v = o.partition("=")
                if key in ("grid", "block", "cluster"):
                    case[key] = three(v)
                elif key == "shared":
                    case["shared"] = int(v, 0)
                elif key in ("max", "race", "check"):
                    case["skip"] = True
            cases.append(case)
        elif case and word in ("BUF", "RAW", "ARG") and w:
            if word == "BUF":
                case["names"][w[0]] = len(case["args"])
                case["args"].append("b:" + values(w[1], w[2:]).hex())
            elif word == "RAW":
                case["names"][w[0]] = len(case["args"])
                case["args"].append("r:" + w[1])
            else:
                case["args"].append("a:" + values(w[0], w[1:]).hex())
        elif case and word == "OUT" and len(w) > 1:
            tol = None
            if len(w) > 2 and w[2].startswith("~"):
                tol = w.pop(2)[1:]
            if w[0] in case["names"]:
                case["outs"].append((case["names"][w[0]], w[0], w[1], tol, values(w[1], w[2:])))
        elif case and word == "FAULT":
            case["skip"] = True
    return text, [c for c in cases if not c["skip"] and c["outs"]]


def entries(text):
    """name -> (first line, last line), from 0"""
    found, lines = {}, text.split("\n")
    code = [re.sub(r"//.*", "", l) for l in lines]
    at = 0
    while at < len(lines):
        m = re.search(r"\.entry\s+([\w$%]+)", code[at])
        if not m:
            at += 1
            continue
        depth, k, opened = 0, at, False
        while k < len(lines):
            depth += code[k].count("{") - code[k].count("}")
            opened = opened or "{" in code[k]
            if opened and depth == 0:
                break
            k += 1
        found[m[1]] = (at, min(k, len(lines) - 1))
        at = k + 1
    return found


def module(text, where, keep, target):
    """The text with only the entries `keep`; the others' lines stay, empty, so that the compiler's line numbers
    hold."""
    lines = text.split("\n")
    for name, (a, b) in where.items():
        if name not in keep:
            for k in range(a, b + 1):
                lines[k] = ""
    out = "\n".join(lines)
    return re.sub(r"(?m)^\s*\.target\s+[^\n]*", ".target " + target, out, count=1) if target else out


def run(build, spec, text, cases, target, tmp, tag, deadline):
    """results by number: hex strings, or an error's (code, detail); names that the compiler refused"""
    where, got, refused, n = entries(text), {}, {}, 0
    left = [dict(c, i=k) for k, c in enumerate(cases)]
    while left and n < 40 and time.monotonic() < deadline:
        n += 1
        keep = {c["entry"] for c in left}
        doc = {"ptx": module(text, where, keep, target),
               "cases": [{k: c[k] for k in ("i", "entry", "grid", "block", "cluster", "shared", "args")} |
                                                                   {"out": [o[0] for o in c["outs"]]} for c in left]}
        path = os.path.join(tmp, f"{tag}.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(doc) + "\n")
        _, out, _ = process.run([os.path.join(build, "bench/bench-gpu"), "cases", spec, path],
                                max(5, min(90, deadline - time.monotonic())))
        whole, before = None, len(got)
        for line in out.splitlines():
            try:
                r = json.loads(line)
            except ValueError:
                continue
            if "i" in r:
                got[r["i"]] = r["out"] if "out" in r else (r["error"], r["detail"])
            else:
                whole = r
        if whole:
            log = whole.get("log") or whole.get("detail", "")
            bad = {name for name, (a, b) in where.items() if name in keep
                   for line in re.findall(r"line (\d+)", log) if a + 1 <= int(line) <= b + 1}
            if not bad:
                bad = keep  # the module as a whole
            for name in bad:
                refused[name] = log[:200]
            left = [c for c in left if c["entry"] not in bad]
        else:
            if len(got) == before and left:  # nothing came: the first one hangs or kills the process
                got[left[0]["i"]] = ("lost", "the process ended or hung")
            left = [c for c in left if c["i"] not in got]
    for c in left:
        got.setdefault(c["i"], ("cut", "no time left"))
    return got, refused


def within(out, hexes):
    _, _, t, tol, want = out
    raw, n = bytes.fromhex(hexes), width(out[2])
    if raw == want:
        return True
    if not tol or len(raw) != len(want):
        return False
    relative, bound = tol.endswith(":"), float(tol.rstrip(":"))
    for k in range(0, len(raw), n):
        if raw[k:k + n] != want[k:k + n]:
            x, y = as_float(t, raw[k:k + n]), as_float(t, want[k:k + n])
            if not abs(x - y) <= bound * (abs(y) if relative else max(1.0, abs(y))):
                return False
    return True


def compare(build, spec, files, seconds, arch=None, jobs=None):
    """Everything in `files`; arch: the GPU's target, None where the software device is compared with the cases' own
    results."""
    deadline = time.monotonic() + seconds
    sums = {"cases": 0, "equal": 0, "within": 0, "differs": 0, "refused": 0, "error": 0, "cut": 0}
    wrong, work = [], []
    for path in files:
        text, cases = read(path)
        for k in range(0, len(cases), CHUNK):
            work.append((path, text, cases[k:k + CHUNK], k // CHUNK))
    with tempfile.TemporaryDirectory() as tmp:
        def one(item):
            path, text, cases, k = item
            tag = f"{os.path.basename(path)}-{k}"
            # one that takes this target
            model = "soft:b200" if re.search(r"(?m)^\s*\.target\s+sm_1", text) else "soft:h200"
            soft, unknown = run(build, model, text, cases, None, tmp, tag + "-soft", deadline)
            real, refused = run(build, spec, text, cases, arch, tmp, tag, deadline) if arch else (soft, unknown)
            return path, cases, soft, real, refused
        with ThreadPoolExecutor(jobs or max(1, (os.cpu_count() or 2) // 2)) as pool:
            for path, cases, soft, real, refused in pool.map(one, work):
                for k, c in enumerate(cases):
                    sums["cases"] += 1
                    r, s = real.get(k), soft.get(k)
                    if c["entry"] in refused:
                        state = "refused"
                    elif r is None or isinstance(r, tuple):
                        state = "cut" if r and r[0] == "cut" else "error"
                    elif arch and r == s:
                        state = "equal"
                    elif all(within(o, h) for o, h in zip(c["outs"], r)):
                        state = "within" if arch else "equal"
                    else:
                        state = "differs"
                    sums[state] += 1
                    if state in ("differs", "error") and len(wrong) < 100:
                        what = list(r) if isinstance(r, tuple) else next((f"{o[1]}: {h[:96]} not {o[4].hex()[:96]}"
                            for o, h in zip(c["outs"], r or []) if not within(o, h)), "")
                        wrong.append({"file": os.path.basename(path), "entry": c["entry"], "state": state,
                                      "what": what})
    return sums, wrong
