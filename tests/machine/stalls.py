"""What the decoder says of stalls, barriers and pipes (device/sass-control.c), against what ptxas writes: in thousands
of kernels every result of fixed latency is read only after so many clocks as it takes, counted by the stalls between,
and every other one only after a wait for its barrier.

  stalls.py SASS-PRINT PTX…

PTX: files with many entries; those that an architecture does not take are left out. Needs DOVETAIL_PTXAS and
DOVETAIL_NVDISASM. What an instruction reads comes from nvdisasm's text, all else from the decoder. Looked at is
straight code: on behind a branch that may not be taken, never behind one that is always.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import forms
from sass import disassembled

# The least clocks from an instruction to one that reads its result, as seen in 25,000 kernels by ptxas 13.0; else 4.
LEAST = {"HADD2": 5, "HFMA2": 5, "HMUL2": 5, "HMNMX2": 5, "HSET2": 5, "HSETP2": 5, "F2FP": 5, "FSET": 5, "FMNMX": 5,
         "HMMA": 15, "IMMA": 12, "DADD": 6, "DMUL": 6, "DFMA": 6, "DSETP": 6, "IMAD.WIDE": 3, "LEPC": 7, "R2UR": 8,
         "ULDC": 2, "UMOV": 2, "VOTEU": 1, "VOTE": 2, "ELECT": 2}
GUARD = 13  # from a vector instruction that sets a predicate to one under it
TOKEN = re.compile(r"(?<![\w.])(U?[RP])(\d+)(?!\w)")
WORD = re.compile(r"\.(reuse|H0_H0|H1_H1|U32|X\d+|X|COL|ROW|F32|B\d|H1|INV)\b")
ENDS = ("EXIT", "BRA", "RET", "BRX", "JMP", "CALL", "BRXU", "JMXU")


def assemble(ptx, sm, out):
    """Entries that ptxas takes; those that it refuses are left out, a few times."""
    arch = "sm_90a" if sm == 90 else f"sm_{sm}"
    ptx = re.sub(r"\.target\s+sm_\w+", f".target {arch}", ptx)
    for _ in range(6):
        with open(out + ".ptx", "w", encoding="utf-8") as f:
            f.write(ptx)
        r = subprocess.run([os.environ["DOVETAIL_PTXAS"], f"-arch={arch}", "-O3", out + ".ptx", "-o", out],
                           capture_output=True, text=True, check=False)
        if not r.returncode:
            return ptx.count(".entry")
        lines = ptx.split("\n")
        starts = [k for k, line in enumerate(lines, 1) if ".entry" in line or ".func" in line]
        said = re.findall(r"line (\d+)", r.stdout + r.stderr)
        bad = {max((s for s in starts if s <= int(n)), default=0) for n in said}
        if not bad:
            return 0
        kept, skip = [], False
        for k, line in enumerate(lines, 1):
            skip = k in bad if k in starts else skip
            if not skip:
                kept.append(line)
        ptx = "\n".join(kept)
    return 0


def opcode(text):
    plain = re.sub(r"^@!?U?P\w+ ", "", text)
    op = plain.split(" ", 1)[0]
    base = op.split(".")[0]
    return base, "IMAD.WIDE" if base == "IMAD" and ".WIDE" in op else base


def reads(text, written):
    """Registers and predicates in the text, without those in front that are written."""
    guard = re.match(r"@!?(U?P)(\d) ", text)
    plain = re.sub(r"^@!?U?P\w+ ", "", text)
    operands = plain.split(" ", 1)[1].split(", ") if " " in plain else []
    dst, preds = [w for w in written if w[0].endswith("R")], sum(w[0].endswith("P") for w in written)
    got = False
    while operands:
        m = re.match(r"(U?[RP])(\d+|Z|T)(\.64|\.F32)?$", operands[0])
        if m and m[1].endswith("P") and (m[2] == "T" or ((m[1], int(m[2])) in written and preds)):
            preds -= m[2] != "T"
        elif m and m[1].endswith("R") and not got and m[2] != "Z" and dst and (m[1], int(m[2])) == dst[0]:
            got = True
        else:
            break
        operands.pop(0)
    out = {(guard[1], int(guard[2]), True)} if guard else set()
    for o in operands:
        o = WORD.sub("", o)
        for m in TOKEN.finditer(o):
            out.add((m[1], int(m[2]), False))
            if o[m.end():m.end() + 3] == ".64":
                out.add((m[1], int(m[2]) + 1, False))
    return out


class Made:
    """A result: what made it, when, and whether it has been waited for."""

    def __init__(self, key, row, clock, number):
        self.key, self.clock, self.number = key, clock, number
        self.barrier, self.pipe, self.fixed, self.waited = int(row[1]), row[4], row[5] == "0", False


def least(made, kind, guard):
    if guard and kind == "P" and made.key not in ("VOTEU", "VOTE", "R2UR"):
        return GUARD
    if kind.startswith("U") and made.key[0] == "U" and made.key not in LEAST:
        return 4
    return LEAST.get(made.key, 4)


def written_by(row):
    kind, reg, width = row[6], int(row[7]), int(row[8])
    uniform = row[4] == "uniform"
    out = [] if kind == "-" else [("UR" if kind == "U" else "R", reg + k) for k in range(width)]
    return out + [("UP" if uniform else "P", int(p)) for p in row[9:11] if p != "7"]


def wait(open_results, barriers):
    """Barriers that were waited for: their results, and earlier ones of the same part without a barrier, are there."""
    for made in open_results:
        if made.barrier < 7 and barriers >> made.barrier & 1 and not made.waited:
            made.waited = True
            for other in open_results:
                other.waited |= other.barrier == 7 and other.pipe == made.pipe and other.number < made.number


def check(cubin, sm, printer):
    rows = list(disassembled(cubin))
    given = "\n".join(f"{at:x} {low:x} {high:x}" for at, _, low, high in rows)
    out = subprocess.run([printer, str(sm), "control"], input=given, capture_output=True, text=True, check=True).stdout
    fixed = other = clock = 0
    bad, at_last = [], -1
    regs, results = {}, []
    for n, ((at, text, _, _), line) in enumerate(zip(rows, out.split("\n"))):
        row = line.split()
        base, key = opcode(text)
        if at <= at_last:
            regs, results, clock = {}, [], 0
        at_last = at
        sb = re.search(r"SB(\d), 0x\d+", text) if base == "DEPBAR" else None
        wait(results, int(row[3]) | (1 << int(sb[1]) if sb else 0))
        written = written_by(row)
        for kind, reg, guard in reads(text, written) if row[4] != "?" else ():
            made = regs.get((kind, reg))
            if not made or (base == "BMMA" and made.key == "BMMA"): # sums one after the other: there sooner
                continue
            fixed, other = fixed + made.fixed, other + (not made.fixed)
            # a generic ATOM says at once whether its address is one of shared memory
            if not made.fixed and not made.waited and not (made.key == "ATOM" and kind == "P"):
                bad.append(f"sm_{sm} {at:x}: {text}: {kind}{reg} of a {made.key} is not waited for")
            elif made.fixed and clock - made.clock < least(made, kind, guard):
                bad.append(f"sm_{sm} {at:x}: {text}: {kind}{reg} of a {made.key} {clock - made.clock} clocks before")
        made = Made(key, row, clock, n)
        if made.fixed and made.barrier < 7 and row[4] != "?":
            bad.append(f"sm_{sm} {at:x}: {text}: is said to need no barrier, and has one")
        if row[4] == "?": # the decoder does not know it: nothing is said of what comes behind
            regs = {}
            written = []
        if written:
            results = [r for r in results if not r.waited and not r.fixed][-64:]
            if not made.fixed:
                results.append(made)
        regs.update(dict.fromkeys(written, made))
        clock += int(row[0])
        if base in ENDS and (base == "CALL" or not text.startswith("@")):
            regs, results = {}, []
    return fixed, other, bad


def main():
    printer, files = sys.argv[1], sys.argv[2:]
    if not os.environ.get("DOVETAIL_PTXAS") or not os.environ.get("DOVETAIL_NVDISASM"):
        return 77
    sms = (80, 86, 90)
    with tempfile.TemporaryDirectory() as d, ThreadPoolExecutor(2) as pool:
        jobs = []
        for sm in sms:
            for forms.TOGETHER in (4, 12):
                jobs.append((forms.text(sm, forms.forms(sm)), sm, f"{d}/forms-{sm}-{forms.TOGETHER}"))
            for f in files:
                with open(f, encoding="utf-8") as ptx:
                    jobs.append((ptx.read(), sm, f"{d}/{os.path.basename(f)}-{sm}"))
        kernels = list(pool.map(lambda j: assemble(*j), jobs))
        done = list(pool.map(lambda j: check(j[2], j[1], printer), [j for j, n in zip(jobs, kernels) if n]))
    n = collections.Counter()
    for (_, sm, _), k in zip(jobs, kernels):
        n[sm] += k
    bad = [b for _, _, some in done for b in some]
    print("\n".join(bad[:20]))
    print(f"kernels {dict(n)}: {sum(f for f, _, _ in done)} results of fixed latency and {sum(o for _, o, _ in done)} "
          f"others are read; {len(bad)} too soon")
    assert all(n[sm] >= 1000 for sm in sms)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
