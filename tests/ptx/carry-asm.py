"""What ptxas makes of the carry flag, by the tools that DOVETAIL_PTXAS and DOVETAIL_NVDISASM name

Each pair of gen/carry.py (a writer of the flag, then a reader) is assembled for sm_75, sm_80 and sm_90, on registers,
on one register three times and with 0 and 7 in an operand's place. The machine code is walked here, instruction by
instruction, and must give what meaning() says: so the software device, which the cases of gen/carry.py hold to the same
meaning(), does what hardware does.

Machine code as nvdisasm prints it. P of IADD3 and IMAD behind the destination takes the carry; behind the sources it is
added (.X). `-R` is + ~R + 1 with its carry, whatever R holds, so 1 where R is 0: so 64-bit negation is made (IADD3 lo,
P, RZ, -lo; IADD3.X hi, RZ, ~hi, P). `~R` is the complement alone. A negative constant is a constant, of 32 bits.
IMAD.HI and .WIDE have a third source of 64 bits. An instruction that is not here fails the test.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.path[0] + "/gen")
import carry  # noqa: E402
from casefile import width  # noqa: E402

M = (1 << 32) - 1
ROWS = carry.chosen(6)
PLACES = ["abcdef", "aaabbb", "a0cd0f", "0bc0ef", "ab0de0", "a7cd7f"]  # a to f: registers; digits: constants


def ptx(target):
    """one entry a pair; places in turns, all of them for the pairs of add and sub. It loads a to f and the flag, and
    stores both results and the flag"""
    out, want = [".version 7.8\n.target %s\n.address_size 64" % target], []
    for n, (p, q) in enumerate(carry.pairs()):
        simple = not (p.op + q.op).count("mad")
        for k, place in enumerate(PLACES):
            if not simple and k != n % len(PLACES):
                continue
            wp, wq = width(p.t), width(q.t)
            names = [c if c.isdigit() else "%%%s%d" % (c, w) for c, w in zip(place, [wp] * 3 + [wq] * 3)]
            b = [".visible .entry k%d(.param .u64 m)" % len(want), "{",
                 ".reg .b64 %m, %u64, %v64, " + ", ".join("%%%s64" % c for c in "abcdef") + ";",
                 ".reg .b32 %s, %z, %u32, %v32, " + ", ".join("%%%s32" % c for c in "abcdef") + ";",
                 "ld.param.u64 %m, [m];", "cvta.to.global.u64 %m, %m;"]
            for j, c in enumerate("abcdef"):
                b += ["ld.global.u64 %%%s64, [%%m+%d];" % (c, 8 * j), "cvt.u32.u64 %%%s32, %%%s64;" % (c, c)]
            b += ["ld.global.u32 %s, [%m+48];", "add.cc.u32 %s, %s, -1;", carry.text(p, "%%u%d" % wp, names[:3]),
                  carry.text(q, "%%v%d" % wq, names[3:]),
                  "addc.u32 %z, 0, 0;", "st.global.u%d [%%m+64], %%u%d;" % (wp, wp),
                  "st.global.u%d [%%m+72], %%v%d;" % (wq, wq), "st.global.u32 [%m+80], %z;",
                  "ret;", "}"]
            rows = [[int(c) if c.isdigit() else r["abcdef".index(c)] for c in place] + [r[6]] for r in ROWS]
            want.append(("%s; %s on %s" % (p.text, q.text, place), carry.steps(p, q, rows), wp, wq))
            out.append("\n".join(b))
    return "\n".join(out) + "\n", want


class Machine:
    """Registers of one thread. Memory is by offset: every access has the one parameter as its base."""

    def __init__(self, memory):
        self.r, self.p, self.memory = {}, {}, memory

    def get(self, x, n=0):
        """source x, the n-th register of it"""
        x = x.replace(".reuse", "")
        if x[0] == "~":
            return ~self.get(x[1:], n) & M
        m = re.fullmatch(r"(U?R)(\d+)(\.64)?", x)
        if m:
            return self.r.get((m[1], int(m[2]) + n), 0)
        if x in ("RZ", "URZ"):
            return 0
        if x.startswith("c["):
            return 0
        if re.fullmatch(r"-?0x[0-9a-f]+", x):
            return int(x, 16) & M if not n else 0
        raise SystemExit("carry-asm: source %s" % x)

    def put(self, x, value, n=0):
        m = re.fullmatch(r"(U?R)(\d+)", x)
        if m:
            self.r[(m[1], int(m[2]) + n)] = value & M

    def pred(self, x):
        if x[0] == "!":
            return not self.pred(x[1:])
        return x == "PT" or bool(self.p.get(x, 0))

    def sources(self, a, x):
        """the value of a sum of three sources, a `-R` being ~R + 1"""
        return sum((self.get("~" + s[1:]) + 1) if s[0] == "-" and s[1] in "RU" else self.get(s)
                   for s in a[:3]) + sum(self.pred(s) for s in a[3:] if x)

    def step(self, op, a):
        name, *mods = op.split(".")
        d = a.pop(0)
        out = []
        while a and re.fullmatch(r"P\d|PT", a[0]) and name in ("IADD3", "IMAD", "ISETP"):
            out.append(a.pop(0))
        if name in ("LDC", "ULDC", "S2R", "S2UR", "UMOV") or (name == "MOV") or mods[:1] == ["MOV"] or name == "HFMA2":
            if name == "HFMA2" and a[-1] != "0":
                raise SystemExit("carry-asm: a constant by HFMA2")
            x = a[-1] if name != "HFMA2" else "RZ"
            self.put(d, -self.get(x[1:]) if x[0] == "-" and x[1] in "RU" else self.get(x))
        elif name == "LDG":
            at = int(re.search(r"\+(0x[0-9a-f]+)\]", a[-1])[1], 16) if "+" in a[-1] else 0
            for n in range(2 if "64" in mods else 1):
                self.put(d, self.memory.get(at + 4 * n, 0), n)
        elif name == "STG":
            at = int(re.search(r"\+(0x[0-9a-f]+)\]", d)[1], 16) if "+" in d else 0
            for n in range(2 if "64" in mods else 1):
                self.memory[at + 4 * n] = self.get(a[-1], n)
        elif name == "LOP3":
            x, lut = [self.get(v) for v in a[:3]], int(a[3], 16)
            self.put(d, sum((lut >> ((x[0] >> i & 1) * 4 + (x[1] >> i & 1) * 2 + (x[2] >> i & 1)) & 1) << i
                            for i in range(32)))
        elif name == "SEL":
            self.put(d, self.get(a[0]) if self.pred(a[2]) else self.get(a[1]))
        elif name == "ISETP" and mods == ["LT", "AND"]:
            s = [v - (v >> 31 << 32) for v in (self.get(a[0]), self.get(a[1]))]
            self.p[d] = s[0] < s[1] and self.pred(a[2])
        elif name == "IADD3":
            if len(out) > 1:
                raise SystemExit("carry-asm: two carries out")
            self.carry(d, out, self.sources(a, "X" in mods), 32)
        elif name == "IMAD":
            self.imad(mods, d, out, a)
        else:
            raise SystemExit("carry-asm: %s" % op)

    def carry(self, d, out, value, bits):
        self.put(d, value)
        if bits == 64:
            self.put(d, value >> 32, 1)
        for p in out:
            self.p[p] = value >> bits & 1

    def imad(self, mods, d, out, a):
        x, y = self.get(a[0]), self.get(a[1])
        if "HI" in mods and "U32" not in mods:
            x, y = x - (x >> 31 << 32), y - (y >> 31 << 32)
        more = self.pred(a[3]) if "X" in mods else 0
        if "HI" in mods or "WIDE" in mods:
            value = (x * y & (1 << 64) - 1) + self.get(a[2]) + (self.get(a[2], 1) << 32) + more
            if "HI" in mods:
                self.carry(d, out, value >> 32, 32)
            else:
                self.carry(d, out, value, 64)
        elif set(mods) <= {"X", "IADD"}:
            if out:
                raise SystemExit("carry-asm: the carry of a low product")
            self.put(d, x * y + self.sources([a[2]], False) + more)
        else:
            raise SystemExit("carry-asm: IMAD.%s" % ".".join(mods))


def code(text):
    """entry -> its instructions up to EXIT"""
    out, now = {}, None
    for line in text.splitlines():
        m = re.match(r"\s*\.section\s+\.text\.(\w+)", line)
        if m:
            now = out.setdefault(m[1], [])
        m = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)\s*(.*?)\s*;", line)
        if m and now is not None and not (now and now[-1][0] == "EXIT"):
            if "@" in line:
                raise SystemExit("carry-asm: predicated: " + line)
            now.append((m[1], [x.strip() for x in m[2].split(",")] if m[2] else []))
    return out


def check(ptxas, nvdisasm, target, scratch):
    text, want = ptx(target)
    with open(scratch + "/t.ptx", "w") as f:
        f.write(text)
    subprocess.run([ptxas, "-arch=" + target, scratch + "/t.ptx", "-o", scratch + "/t.cubin"], check=True)
    bodies = code(subprocess.run([nvdisasm, "-c", scratch + "/t.cubin"], check=True, capture_output=True,
                                 text=True).stdout)
    wrong = 0
    for n, (name, rows, wp, wq) in enumerate(want):
        for r, (u, v, z) in zip(ROWS, rows):
            memory = {8 * j + 4 * h: r[j] >> 32 * h & M for j in range(6) for h in (0, 1)}
            memory[48] = r[6]
            t = Machine(memory)
            for op, a in bodies["k%d" % n]:
                if op == "EXIT":
                    break
                t.step(op, list(a))
            wide = lambda at, w: memory[at] | (memory[at + 4] << 32 if w == 64 else 0)
            if (wide(64, wp), wide(72, wq), memory[80]) != (u, v, z):
                wrong += 1
                print("%s: %s: of %s: %x %x %x, machine code %x %x %x" % (target, name, " ".join("%x" % x for x in r),
                    u, v, z, wide(64, wp), wide(72, wq), memory[80]))
                break
    print("%s: %d pairs, %d differ" % (target, len(want), wrong))
    return wrong


PTXAS, NVDISASM = os.environ.get("DOVETAIL_PTXAS"), os.environ.get("DOVETAIL_NVDISASM")
if not PTXAS or not NVDISASM:
    print("no ptxas, or no nvdisasm: DOVETAIL_PTXAS, DOVETAIL_NVDISASM")
    sys.exit(77)
with tempfile.TemporaryDirectory() as scratch:
    sys.exit(sum(check(PTXAS, NVDISASM, t, scratch) for t in ("sm_75", "sm_80", "sm_90")) != 0)
