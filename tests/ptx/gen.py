#!/usr/bin/env python3
"""Writes RUN cases for single instructions, with results worked out here in exact arithmetic (integers and fractions), which
shares nothing with the executor. One entry and one case per form; one lane per row of operands.

    gen.py OUTPUT-FOLDER
"""
import math
import os
import random
import sys
from fractions import Fraction as F

rng = random.Random(20260101)

# ---- number formats: (bits of mantissa with the hidden one, exponent bits, width)
FMT = {"f16": (11, 5, 16), "bf16": (8, 8, 16), "f32": (24, 8, 32), "f64": (53, 11, 64)}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}


def decode(bits, t):
    """('nan',) ('inf', sign) ('num', sign, Fraction)"""
    p, eb, w = FMT[t]
    s, e, m = bits >> (w - 1) & 1, bits >> (p - 1) & ((1 << eb) - 1), bits & ((1 << (p - 1)) - 1)
    bias = (1 << (eb - 1)) - 1
    if e == (1 << eb) - 1:
        return ("nan",) if m else ("inf", s)
    v = F(m + (1 << (p - 1) if e else 0)) * F(2) ** ((e if e else 1) - bias - (p - 1))
    return ("num", s, -v if s else v)


def floor_log2(v):
    n = v.numerator.bit_length() - v.denominator.bit_length()
    return n if F(2) ** n <= v else n - 1


def encode(x, t, mode="rn"):
    p, eb, w = FMT[t]
    top, bias = (1 << eb) - 1, (1 << (eb - 1)) - 1
    if x[0] == "nan":
        return NAN[t]
    s = x[1]
    sign = s << (w - 1)
    inf = top << (p - 1)
    if x[0] == "inf":
        return sign | inf
    v = abs(x[2])
    if v == 0:
        return sign
    e = max(floor_log2(v), 1 - bias)
    q = v / F(2) ** (e - (p - 1))
    n = q.numerator // q.denominator
    rest = q - n
    up = {"rn": rest > F(1, 2) or (rest == F(1, 2) and n & 1), "rz": False, "rm": s == 1 and rest > 0,
          "rp": s == 0 and rest > 0, "rna": rest >= F(1, 2)}[mode]
    n += up
    if n >> p:
        n, e = n >> 1, e + 1
    if e > bias:
        return sign | (inf if mode in ("rn", "rna") or mode == ("rm" if s else "rp") else inf - 1)
    return sign | (n if n < 1 << (p - 1) else (e + bias) << (p - 1) | n & ((1 << (p - 1)) - 1))


def flush(bits, t):
    p, eb, w = FMT[t]
    return bits if bits >> (p - 1) & ((1 << eb) - 1) else bits & (1 << (w - 1))


def num(v, s=None):
    return ("num", (1 if v < 0 else 0) if s is None else s, v)


def add(x, y, mode):
    if "nan" in (x[0], y[0]):
        return ("nan",)
    if x[0] == "inf" or y[0] == "inf":
        if x[0] == y[0] and x[1] != y[1]:
            return ("nan",)
        return x if x[0] == "inf" else y
    v = x[2] + y[2]
    if v == 0:
        s = x[1] if x[1] == y[1] and x[2] == 0 and y[2] == 0 else int(mode == "rm")
        return num(v, s)
    return num(v)


def neg(x):
    return x if x[0] == "nan" else (x[0], 1 - x[1]) if x[0] == "inf" else ("num", 1 - x[1], -x[2])


def mul(x, y, mode="rn"):
    if "nan" in (x[0], y[0]):
        return ("nan",)
    s = x[1] ^ y[1]
    if x[0] == "inf" or y[0] == "inf":
        other = y if x[0] == "inf" else x
        return ("nan",) if other[0] == "num" and other[2] == 0 else ("inf", s)
    return num(x[2] * y[2], s)


def div(x, y, mode="rn"):
    if "nan" in (x[0], y[0]):
        return ("nan",)
    s = x[1] ^ y[1]
    if x[0] == "inf":
        return ("nan",) if y[0] == "inf" else ("inf", s)
    if y[0] == "inf":
        return num(F(0), s)
    if y[2] == 0:
        return ("nan",) if x[2] == 0 else ("inf", s)
    return num(x[2] / y[2], s)


def sqrt(x, mode="rn"):
    if x[0] == "nan" or (x[1] and (x[0] == "inf" or x[2] != 0)):
        return ("nan",)
    if x[0] == "inf" or x[2] == 0:
        return x
    k = 700  # enough bits below the last place, with a sticky bit
    v = x[2] * F(4) ** k
    r = math.isqrt(v.numerator // v.denominator)
    exact = F(r) * r == v
    return num(F(2 * r + (0 if exact else 1), 2) / F(2) ** k)


EDGE = {
    "f32": [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x80800000, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF,
            0x40490FDB, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x33800000,
            0x34000000, 0x4B800000, 0x4F000000, 0xCF000000, 0x5F000000, 0x3EAAAAAB, 0x40A00000, 0xC0200000],
    "f64": [0, 1 << 63, 1, 0x8000000000000001, 0xFFFFFFFFFFFFF, 0x10000000000000, 0x3FF0000000000000, 0xBFF0000000000000,
            0x3FF0000000000001, 0x3FEFFFFFFFFFFFFF, 0x400921FB54442D18, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
            0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000012345, 0x7FF0000000000001,
            0x3CA0000000000000, 0x3CB0000000000000, 0x4340000000000000, 0x43E0000000000000, 0xC3E0000000000000, 0x41E0000000000000,
            0x3FD5555555555555, 0x4014000000000000, 0xC004000000000000, 0x381FFFFFF0000000, 0x47EFFFFFF0000000],
    "f16": [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00,
            0xFE12, 0x7C01, 0x1000, 0x1400, 0x3555, 0x4500, 0xC100, 0x4248],
    "bf16": [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x8080, 0x3F80, 0xBF80, 0x3F81, 0x3F7F, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0,
             0xFFC1, 0x7F81, 0x3B80, 0x3C00, 0x3EAB, 0x40A0, 0xC020, 0x4049],
}


def floats(t, n):
    w = FMT[t][2]
    out = []
    for _ in range(n):
        k = rng.random()
        if k < 0.3:
            out.append(rng.choice(EDGE[t]))
        elif k < 0.5:
            out.append(rng.getrandbits(w))
        else:
            out.append(encode(num(F(rng.getrandbits(40) - (1 << 39)) * F(2) ** rng.randint(-60, -20)), t, "rz"))
    return out


def pairs(t):
    e = EDGE[t]
    rows = [(a, b) for a in e for b in rng.sample(e, 6)]
    return rows + list(zip(floats(t, 60), floats(t, 60)))


def triples(t):
    e = EDGE[t]
    rows = [(a, rng.choice(e), rng.choice(e)) for a in e for _ in range(5)]
    for a, b in zip(floats(t, 60), floats(t, 60)):  # nearly cancelling
        c = encode(neg(mul(decode(a, t), decode(b, t))), t)
        rows += [(a, b, c), (a, b, rng.choice(e)), (a, b, floats(t, 1)[0])]
    return rows


# ---- writing
REG = {8: "b16", 16: "b16", 32: "b32", 64: "b64"}


def width(t):
    return int("".join(c for c in t if c.isdigit())[-2:]) if t not in ("u8", "s8", "b8", "f16x2", "bf16x2", "pred") else (
        {"u8": 8, "s8": 8, "b8": 8, "f16x2": 32, "bf16x2": 32}[t])


class File:
    def __init__(self, name):
        self.name, self.head, self.body, self.n = name, [], [], 0

    def case(self, text, din, tin, rows, want, setup="", regs="", tol=""):
        """`text` uses %d %a %b %c; din: type of d; tin: types of the sources; rows: tuples of bits; want: bits of d."""
        entry = "t%d" % self.n
        self.n += 1
        n = len(rows)
        names = "abc"[:len(tin)]
        self.head.append("// RUN %s grid=%d block=32" % (entry, (n + 31) // 32))
        for k, t in enumerate(tin):
            vals = [r[k] for r in rows] + [0] * (-n % 32)
            self.head.append("// BUF %s u%d %s" % (names[k], width(t), " ".join("%#x" % (v & ((1 << width(t)) - 1)) for v in vals)))
        self.head.append("// BUF d u%d 0*%d" % (width(din), n))
        self.head.append("// ARG u32 %d" % n)
        self.head.append("// OUT d %s %s" % ("%s ~%s" % (din, tol) if tol else "u%d" % width(din), " ".join("%#x" % (v & ((1 << width(din)) - 1)) for v in want)))
        b = [".visible .entry %s(%s .param .u64 d, .param .u32 n)" % (entry, "".join(".param .u64 %s, " % c for c in names)), "{",
             "    .reg .b64 %p, %q, %w; .reg .b32 %i, %j, %n, %z; .reg .pred %out, %x, %y; " + regs]
        b += ["    .reg .%s %%%s;" % (REG[width(t)], c) for c, t in list(zip(names, tin)) + [("d", din)]]
        b += ["    mov.u32 %i, %ctaid.x;", "    mov.u32 %j, %tid.x;", "    mad.lo.u32 %i, %i, 32, %j;", "    ld.param.u32 %n, [n];",
              "    setp.ge.u32 %out, %i, %n;", "    @%out bra END;"]
        for c, t in zip(names, tin):
            b += ["    ld.param.u64 %%p, [%s];" % c, "    mad.wide.u32 %%p, %%i, %d, %%p;" % (width(t) // 8),
                  "    ld.global.b%d %%%s, [%%p];" % (width(t), c)]
        b += ["    %s" % x.strip() for x in (setup + text).split("\n")]
        b += ["    ld.param.u64 %p, [d];", "    mad.wide.u32 %%p, %%i, %d, %%p;" % (width(din) // 8),
              "    st.global.b%d [%%p], %%d;" % width(din), "END:", "    ret;", "}"]
        self.body.append("\n".join(["// " + text.replace("\n", " ")] + b))

    def write(self, folder):
        with open(os.path.join(folder, self.name), "w") as f:
            f.write("// Made by tests/ptx/gen.py.\n" + "\n".join(self.head) + "\n.version 9.0\n.target sm_90\n.address_size 64\n\n")
            f.write("\n\n".join(self.body) + "\n")


# ---- floating point
def float_file():
    f = File("float.ptx")
    two = {"add": add, "sub": lambda x, y, m: add(x, neg(y), m), "mul": mul, "div": div}
    for t in ("f32", "f64", "f16", "bf16"):
        modes = ["rn", "rz", "rm", "rp"] if t in ("f32", "f64") else ["rn"]
        for op, fn in two.items():
            if op == "div" and t in ("f16", "bf16"):
                continue
            for mode in modes:
                for ftz in ([0, 1] if t == "f32" or (t == "f16" and op != "div") else [0]):
                    for sat in ([0, 1] if t in ("f32", "f16") and op != "div" else [0]):
                        rows = pairs(t)
                        want = []
                        for a, b in rows:
                            if ftz:
                                a, b = flush(a, t), flush(b, t)
                            want.append(finish(encode(fn(decode(a, t), decode(b, t), mode), t, mode), t, ftz, sat))
                        f.case("%s.%s%s%s.%s %%d, %%a, %%b;" % (op, mode, ".ftz" * ftz, ".sat" * sat, t), t, [t, t], rows, want)
        for mode in modes:
            for ftz in ([0, 1] if t in ("f32", "f16") else [0]):
                for sat in ([0, 1] if t in ("f32", "f16") else [0]):
                    rows, want = triples(t), []
                    for r in rows:
                        x, y, z = [decode(flush(v, t) if ftz else v, t) for v in r]
                        want.append(finish(encode(add(mul(x, y), z, mode), t, mode), t, ftz, sat))
                    f.case("fma.%s%s%s.%s %%d, %%a, %%b, %%c;" % (mode, ".ftz" * ftz, ".sat" * sat, t), t, [t] * 3, rows, want)
            if t in ("f32", "f64"):
                for ftz in ([0, 1] if t == "f32" else [0]):
                    rows = [(v,) for v in EDGE[t] + floats(t, 60)]
                    for op, fn in (("sqrt", sqrt), ("rcp", lambda x, m: div(num(F(1)), x))):
                        want = [finish(encode(fn(decode(flush(a, t) if ftz else a, t), mode), t, mode), t, ftz, 0) for a, in rows]
                        f.case("%s.%s%s.%s %%d, %%a;" % (op, mode, ".ftz" * ftz, t), t, [t], rows, want)
        for op in ("min", "max"):
            for nan in ([0, 1] if t != "f64" else [0]):
                for ftz in ([0, 1] if t == "f32" else [0]):
                    rows, want = pairs(t), []
                    for a, b in rows:
                        if ftz:
                            a, b = flush(a, t), flush(b, t)
                        want.append(minmax(a, b, t, op == "max", nan))
                    f.case("%s%s%s.%s %%d, %%a, %%b;" % (op, ".ftz" * ftz, ".NaN" * nan, t), t, [t, t], rows, want)
        rows = [(v,) for v in EDGE[t] if decode(v, t)[0] != "nan"]
        top = 1 << (width(t) - 1)
        f.case("abs.%s %%d, %%a;" % t, t, [t], rows, [a & ~top for a, in rows])
        f.case("neg.%s %%d, %%a;" % t, t, [t], rows, [a ^ top for a, in rows])
    for t in ("f32", "f64"):
        top = 1 << (width(t) - 1)
        rows = pairs(t)
        f.case("copysign.%s %%d, %%a, %%b;" % t, t, [t, t], rows, [a & top | b & (top - 1) for a, b in rows])
        tests = {"finite": lambda x, b: x[0] == "num", "infinite": lambda x, b: x[0] == "inf", "number": lambda x, b: x[0] != "nan",
                 "notanumber": lambda x, b: x[0] == "nan", "normal": lambda x, b: x[0] == "num" and flush(b, t) == b and x[2] != 0,
                 "subnormal": lambda x, b: x[0] == "num" and flush(b, t) != b}
        rows = [(v,) for v in EDGE[t]]
        for name, fn in tests.items():
            f.case("testp.%s.%s %%x, %%a;\nselp.b32 %%d, 1, 0, %%x;" % (name, t), "u32", [t], rows, [int(fn(decode(a, t), a)) for a, in rows])
    # two halves at once
    for t in ("f16", "bf16"):
        lo, hi = pairs(t), pairs(t)
        rows = [(a | c << 16, b | d << 16) for (a, b), (c, d) in zip(lo, hi)]
        for op in ("add", "mul", "sub"):
            fn = two[op]
            want = [encode(fn(decode(a & 0xFFFF, t), decode(b & 0xFFFF, t), "rn"), t) | encode(fn(decode(a >> 16, t), decode(b >> 16, t), "rn"), t) << 16
                    for a, b in rows]
            f.case("%s.rn.%sx2 %%d, %%a, %%b;" % (op, t), "u32", ["u32", "u32"], rows, want)
    return f


def finish(bits, t, ftz, sat):
    if sat:
        x = decode(bits, t)
        if x[0] == "nan" or x[1]:
            bits = 0
        elif x[0] == "inf" or x[2] > 1:
            bits = encode(num(F(1)), t)
    return flush(bits, t) if ftz else bits


def minmax(a, b, t, mx, nan):
    x, y = decode(a, t), decode(b, t)
    if x[0] == "nan" or y[0] == "nan":
        if nan or x[0] == y[0]:
            return NAN[t]
        return b if x[0] == "nan" else a

    def key(v, bits):
        return (float("-inf") if v[1] else float("inf"), 0) if v[0] == "inf" else (v[2], -v[1])
    less = key(x, a) < key(y, b)
    return a if less != mx else b


# ---- comparison
ORDERED = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
           "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}


def compared(name, a, b, t, ftz):
    x, y = [decode(flush(v, t) if ftz else v, t) for v in (a, b)]
    un = "nan" in (x[0], y[0])
    if name in ("num", "nan"):
        return int(un == (name == "nan"))
    if un:
        return int(len(name) == 3)
    big = F(2) ** 3000
    v = [(-big if z[1] else big) if z[0] == "inf" else z[2] for z in (x, y)]
    return int(ORDERED[name[:2]](*v))


def compare_file():
    f = File("compare.ptx")
    names = list(ORDERED)
    for t in ("f32", "f64", "f16", "bf16"):
        for ftz in ([0, 1] if t in ("f32", "f16") else [0]):
            for name in names + [k + "u" for k in names] + ["num", "nan"]:
                rows, want = pairs(t), []
                rows += [(a, a) for a in EDGE[t]]
                for a, b in rows:
                    want.append(compared(name, a, b, t, ftz))
                f.case("setp.%s%s.%s %%x, %%a, %%b;\nselp.b32 %%d, 1, 0, %%x;" % (name, ".ftz" * ftz, t), "u32", [t, t], rows, want)
    for t in ("f16", "bf16"):
        rows = [(a | c << 16, b | d << 16) for (a, b), (c, d) in zip(pairs(t), pairs(t))]
        for name in names + [k + "u" for k in names] + ["num", "nan"]:
            for ftz in ([0, 1] if t == "f16" else [0]):
                two = [(compared(name, a & 0xFFFF, b & 0xFFFF, t, ftz), compared(name, a >> 16, b >> 16, t, ftz)) for a, b in rows]
                read = "\nselp.b32 %d, 1, 0, %x;\n@%y add.u32 %d, %d, 2;"
                f.case("setp.%s%s.%sx2 %%x|%%y, %%a, %%b;" % (name, ".ftz" * ftz, t) + read, "u32", ["u32", "u32"], rows, [p | q << 1 for p, q in two])
                for c in "xy":  # the third predicate may be one of the first two
                    f.case("setp.%s.xor%s.%sx2 %%x|%%y, %%a, %%b, !%%%s;" % (name, ".ftz" * ftz, t, c) + read, "u32", ["u32", "u32"], rows,
                           [(p | q << 1) ^ (0 if n & 1 else 3) for n, (p, q) in enumerate(two)],
                           setup="and.b32 %%z, %%i, 1;\nsetp.ne.u32 %%%s, %%z, 0;\n" % c)
    for t, one in (("f16", 0x3C00), ("bf16", 0x3F80)):
        rows = [(a | c << 16, b | d << 16) for (a, b), (c, d) in zip(pairs(t), pairs(t))]

        def half(a, b):
            x, y = decode(a, t), decode(b, t)
            if "nan" in (x[0], y[0]):
                return 0
            v = [(F(-1) if z[1] else F(1)) * F(2) ** 300 if z[0] == "inf" else z[2] for z in (x, y)]
            return int(v[0] > v[1])
        for to, k in (("%sx2" % t, one), ("u32", 0xFFFF)):
            f.case("set.gt.%s.%sx2 %%d, %%a, %%b;" % (to, t), "u32", ["u32"] * 2, rows,
                   [k * half(a & 0xFFFF, b & 0xFFFF) | k * half(a >> 16, b >> 16) << 16 for a, b in rows])
    for w in (16, 32, 64):
        e = ints(w)
        for t, fn in (("u%d" % w, lambda v: v), ("s%d" % w, lambda v: signed(v, w))):
            rows = [(a, b) for a in e for b in rng.sample(e, 5)] + [(a, a) for a in e]
            for name, cmp in ORDERED.items():
                f.case("setp.%s.%s %%x, %%a, %%b;\nselp.b32 %%d, 1, 0, %%x;" % (name, t), "u32", [t, t], rows, [int(cmp(fn(a), fn(b))) for a, b in rows])
    e = ints(32)
    rows = [(a, b, rng.getrandbits(1)) for a in e for b in rng.sample(e, 5)]
    for name, fn in (("and", lambda p, q: p & q), ("or", lambda p, q: p | q), ("xor", lambda p, q: p ^ q)):
        for n in (0, 1):
            want = [int(fn(int(a < b), c ^ n)) + 2 * int(fn(1 - int(a < b), c ^ n)) for a, b, c in rows]
            f.case("setp.ne.u32 %%out, %%c, 0;\nsetp.lt.%s.u32 %%x|%%y, %%a, %%b, %s%%out;\nselp.b32 %%d, 1, 0, %%x;\n@%%y or.b32 %%d, %%d, 2;" % (name, "!" * n),
                   "u32", ["u32"] * 3, rows, want)
    rows = [(a, b) for a in e for b in rng.sample(e, 5)]
    f.case("set.lt.u32.s32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [-int(signed(a, 32) < signed(b, 32)) for a, b in rows])
    f.case("set.ge.f32.u32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [0x3F800000 * int(a >= b) for a, b in rows])
    rows = [(a, b, c) for a in e[:6] for b in e[:4] for c in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)]
    f.case("slct.u32.s32 %d, %a, %b, %c;", "u32", ["u32"] * 3, rows, [a if signed(c, 32) >= 0 else b for a, b, c in rows])
    rows = [(1, 2, c) for c in EDGE["f32"]]
    f.case("slct.u32.f32 %d, %a, %b, %c;", "u32", ["u32"] * 3, rows,
           [a if decode(c, "f32")[0] != "nan" and not (decode(c, "f32")[1] and c != 0x80000000) else b for a, b, c in rows])
    rows = [(p,) for p in range(16)]
    f.case("setp.ge.u32 %x, %a, 8;\nand.b32 %j, %a, 4;\nsetp.ne.u32 %y, %j, 0;\nxor.pred %out, %x, %y;\nand.pred %x, %out, %y;\n"
           "or.pred %y, %x, %out;\nnot.pred %out, %y;\nmov.pred %x, %out;\nselp.b32 %d, 1, 0, %x;", "u32", ["u32"], rows,
           [1 - int((p >= 8) != bool(p & 4)) for p, in rows])
    for op in ("min", "max"):
        for ab in (0, 1):
            for nan in (0, 1):
                for kind in range(4):
                    v = [rng.choice(EDGE["f32"]) for _ in range(32)] if kind == 0 else [0x7FC00001] * 32 if kind == 1 else [x for x in floats("f32", 200) if decode(x, "f32")[0] != "nan"][:32]
                    if kind == 3:
                        v[rng.randrange(32)] = 0xFFC12345
                    r = None
                    for x in v:
                        x = x & 0x7FFFFFFF if ab else x
                        r = (NAN["f32"] if decode(x, "f32")[0] == "nan" else x) if r is None else minmax(r, x, "f32", op == "max", nan)
                    f.case("redux.sync.%s%s%s.f32 %%d, %%a, -1;" % (op, ".abs" * ab, ".NaN" * nan), "u32", ["u32"], [(x,) for x in v], [r] * 32)
    return f


# ---- integers
def ints(w):
    m = (1 << w) - 1
    return sorted({0, 1, 2, 3, 7, 31, 32, 33, 100, m, m - 1, m >> 1, (m >> 1) + 1, (m >> 1) + 2, 0x5555555555555555 & m, 0xFFFF0000 & m, 0x80 & m,
                   rng.getrandbits(w), rng.getrandbits(w)})


def signed(v, w):
    v &= (1 << w) - 1
    return v - (1 << w) if v >> (w - 1) else v


def tdiv(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def int_file():
    f = File("int.ptx")

    def two(text, t, fn, n=6, dt=None, bt=None, brange=None):
        w = width(t)
        e = ints(w)
        rows = [(a, b) for a in e for b in (rng.sample(e, n) if brange is None else brange)]
        sg = t[0] == "s"
        val = [(signed(a, w) if sg else a, signed(b, w) if sg and brange is None else b) for a, b in rows]
        f.case(text + " %d, %a, %b;", dt or t, [t, bt or t], rows, [fn(a, b) for a, b in val])

    def three(text, t, fn, dt=None, ct=None):
        w = width(t)
        e, e2 = ints(w), ints(width(ct or t))
        rows = [(rng.choice(e), rng.choice(e), rng.choice(e2)) for _ in range(128)]
        sg = t[0] == "s"
        val = [tuple(signed(v, width(ty)) if sg else v for v, ty in zip(r, (t, t, ct or t))) for r in rows]
        f.case(text + " %d, %a, %b, %c;", dt or t, [t, t, ct or t], rows, [fn(*r) for r in val])

    for w in (16, 32, 64):
        for t in ("u%d" % w, "s%d" % w):
            two("add.%s" % t, t, lambda a, b: a + b)
            two("sub.%s" % t, t, lambda a, b: a - b)
            two("mul.lo.%s" % t, t, lambda a, b: a * b)
            two("mul.hi.%s" % t, t, lambda a, b: a * b >> w)
            two("min.%s" % t, t, min)
            two("max.%s" % t, t, max)
            three("mad.lo.%s" % t, t, lambda a, b, c: a * b + c)
            three("mad.hi.%s" % t, t, lambda a, b, c: (a * b >> w) + c)
            three("sad.%s" % t, t, lambda a, b, c: c + abs(a - b))
            e = ints(w)
            sg = t[0] == "s"
            rows = [(a, b) for a in e for b in e if b]
            val = [(signed(a, w), signed(b, w)) if sg else (a, b) for a, b in rows]
            f.case("div.%s %%d, %%a, %%b;" % t, t, [t, t], rows, [tdiv(a, b) for a, b in val])
            f.case("rem.%s %%d, %%a, %%b;" % t, t, [t, t], rows, [a - b * tdiv(a, b) for a, b in val])
            if w < 64:
                wide = "%s%d" % (t[0], 2 * w)
                two("mul.wide.%s" % t, t, lambda a, b: a * b, dt=wide)
                three("mad.wide.%s" % t, t, lambda a, b, c: a * b + c, dt=wide, ct=wide)
            sh = [0, 1, 5, w - 1, w, w + 1, 64, 200, 0xFFFFFFFF]
            two("shr.%s" % t, t, lambda a, b: a >> min(b, w), bt="u32", brange=sh)
        two("shl.b%d" % w, "u%d" % w, lambda a, b: a << b if b < w else 0, bt="u32", brange=[0, 1, 5, w - 1, w, w + 1, 64, 200, 0xFFFFFFFF])
        for op, fn in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
            two("%s.b%d" % (op, w), "u%d" % w, fn)
        rows = [(a,) for a in ints(w)]
        u, s = "u%d" % w, "s%d" % w
        f.case("not.b%d %%d, %%a;" % w, u, [u], rows, [~a for a, in rows])
        f.case("cnot.b%d %%d, %%a;" % w, u, [u], rows, [int(not a) for a, in rows])
        f.case("abs.%s %%d, %%a;" % s, s, [s], rows, [abs(signed(a, w)) for a, in rows])
        f.case("neg.%s %%d, %%a;" % s, s, [s], rows, [-a for a, in rows])
        if w > 16:
            f.case("popc.b%d %%d, %%a;" % w, "u32", [u], rows, [bin(a).count("1") for a, in rows])
            f.case("clz.b%d %%d, %%a;" % w, "u32", [u], rows, [w - a.bit_length() for a, in rows])
            f.case("brev.b%d %%d, %%a;" % w, u, [u], rows, [int(format(a, "0%db" % w)[::-1], 2) for a, in rows])
            f.case("bfind.u%d %%d, %%a;" % w, "u32", [u], rows, [a.bit_length() - 1 for a, in rows])
            f.case("bfind.shiftamt.u%d %%d, %%a;" % w, "u32", [u], rows, [w - a.bit_length() if a else -1 for a, in rows])
            f.case("bfind.s%d %%d, %%a;" % w, "u32", [u], rows, [(~signed(a, w) if signed(a, w) < 0 else a).bit_length() - 1 for a, in rows])
            prs = [(a, rng.choice([0, 1, 7, w - 1, w, w + 5, 255]), rng.choice([0, 1, 8, w - 1, w, w + 3, 255])) for a in ints(w) for _ in range(10)]
            f.case("bfe.u%d %%d, %%a, %%b, %%c;" % w, u, [u, "u32", "u32"], prs, [a >> p & ((1 << n) - 1) for a, p, n in prs])
            f.case("bfe.s%d %%d, %%a, %%b, %%c;" % w, u, [u, "u32", "u32"], prs, [bfe_s(a, p, n, w) for a, p, n in prs])
            prs = [(a, b, rng.choice([0, 1, 7, w - 1, w, w + 5, 255]) | rng.choice([0, 1, 8, w - 1, w, w + 3, 255]) << 16) for a in ints(w)
                   for b in rng.sample(ints(w), 5)]
            f.case("and.b32 %%i, %%c, 65535;\nshr.u32 %%z, %%c, 16;\nbfi.b%d %%d, %%a, %%b, %%i, %%z;\nmov.u32 %%i, %%ctaid.x;\nmad.lo.u32 %%i, %%i, 32, %%j;" % w, u, [u, u, "u32"], prs,
                   [bfi(a, b, c & 0xFFFF, c >> 16, w) for a, b, c in prs])
    lim = (1 << 31) - 1
    two("add.sat.s32", "s32", lambda a, b: max(-lim - 1, min(lim, a + b)))
    two("sub.sat.s32", "s32", lambda a, b: max(-lim - 1, min(lim, a - b)))
    three("mad.hi.sat.s32", "s32", lambda a, b, c: max(-lim - 1, min(lim, (a * b >> 32) + c)))
    u24, s24 = (lambda a: a & 0xFFFFFF), (lambda a: signed(a, 24))
    for t, g in (("u32", u24), ("s32", s24)):
        two("mul24.lo.%s" % t, t, lambda a, b: g(a) * g(b))
        two("mul24.hi.%s" % t, t, lambda a, b: g(a) * g(b) >> 16)
        three("mad24.lo.%s" % t, t, lambda a, b, c: g(a) * g(b) + c)
        three("mad24.hi.%s" % t, t, lambda a, b, c: (g(a) * g(b) >> 16) + c)
    e = ints(32)
    rows = [(rng.choice(e), rng.choice(e), rng.choice([0, 1, 8, 31, 32, 33, 63, 64, 200])) for _ in range(128)]
    for mode, cl in (("wrap", lambda c: c & 31), ("clamp", lambda c: min(c, 32))):
        f.case("shf.l.%s.b32 %%d, %%a, %%b, %%c;" % mode, "u32", ["u32"] * 3, rows, [((b << 32 | a) << cl(c)) >> 32 for a, b, c in rows])
        f.case("shf.r.%s.b32 %%d, %%a, %%b, %%c;" % mode, "u32", ["u32"] * 3, rows, [(b << 32 | a) >> cl(c) for a, b, c in rows])
    rows = [(rng.getrandbits(32), rng.getrandbits(32), rng.getrandbits(32)) for _ in range(64)]
    for lut in (0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0, 255):
        f.case("lop3.b32 %%d, %%a, %%b, %%c, %#x;" % lut, "u32", ["u32"] * 3, rows,
               [sum((lut >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32)) for a, b, c in rows])
    rows = [(a, b, rng.getrandbits(16)) for a, b, _ in rows] + [(a, b, k) for a, b, _ in rows[:4] for k in range(16)]

    def prmt(a, b, c):
        by = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
        return sum((255 * (by[c >> 4 * i & 7] >> 7) if c >> 4 * i & 8 else by[c >> 4 * i & 7]) << 8 * i for i in range(4))
    f.case("prmt.b32 %d, %a, %b, %c;", "u32", ["u32"] * 3, rows, [prmt(*r) for r in rows])
    modes = {"f4e": lambda c, i: (c + i) & 7, "b4e": lambda c, i: (c - i) & 7, "rc8": lambda c, i: c, "ecl": lambda c, i: max(c, i),
             "ecr": lambda c, i: min(c, i), "rc16": lambda c, i: 2 * (c & 1) + (i & 1)}
    for m, fn in modes.items():
        f.case("prmt.b32.%s %%d, %%a, %%b, %%c;" % m, "u32", ["u32"] * 3, rows,
               [sum(((b << 32 | a) >> 8 * fn(c & 3, i) & 255) << 8 * i for i in range(4)) for a, b, c in rows])
    rows = [(rng.choice([0, 1, 5, 31, 32, 40]), rng.choice([0, 1, 5, 31, 32, 40])) for _ in range(64)]
    f.case("bmsk.clamp.b32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [((1 << min(b, 32)) - 1) << min(a, 32) for a, b in rows])
    f.case("bmsk.wrap.b32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [((1 << (b & 31)) - 1) << (a & 31) for a, b in rows])
    rows = [(a, b) for a in e for b in (0, 1, 5, 31, 32, 40)]
    f.case("szext.clamp.u32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [a & ((1 << min(b, 32)) - 1) for a, b in rows])
    f.case("szext.clamp.s32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [a if b > 31 else signed(a, b) if b else 0 for a, b in rows])
    rows = [(rng.getrandbits(32), rng.getrandbits(32), rng.getrandbits(32)) for _ in range(64)]
    for ta in "us":
        for tb in "us":
            def part(v, i, n, t):
                x = v >> n * i & ((1 << n) - 1)
                return signed(x, n) if t == "s" else x
            f.case("dp4a.%s32.%s32 %%d, %%a, %%b, %%c;" % (ta, tb), "u32", ["u32"] * 3, rows,
                   [c + sum(part(a, i, 8, ta) * part(b, i, 8, tb) for i in range(4)) for a, b, c in rows])
            for hi in (0, 1):
                f.case("dp2a.%s.%s32.%s32 %%d, %%a, %%b, %%c;" % ("lohi"[2 * hi:2 * hi + 2], ta, tb), "u32", ["u32"] * 3, rows,
                       [c + sum(part(a, i, 16, ta) * part(b, i + 2 * hi, 8, tb) for i in range(2)) for a, b, c in rows])
    # carries: 64-bit sums, differences and products from 32-bit halves
    e = ints(64)
    rows = [(a, b) for a in e for b in rng.sample(e, 6)]
    split = "mov.b64 {%x0, %x1}, %a;\nmov.b64 {%y0, %y1}, %b;\n"
    regs = ".reg .b32 %x0, %x1, %y0, %y1, %z0, %z1, %z2;"
    f.case("add.cc.u32 %z0, %x0, %y0;\naddc.u32 %z1, %x1, %y1;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows, [a + b for a, b in rows], split, regs)
    f.case("sub.cc.u32 %z0, %x0, %y0;\nsubc.u32 %z1, %x1, %y1;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows, [a - b for a, b in rows], split, regs)
    f.case("add.cc.u32 %z0, %x0, %y0;\naddc.cc.u32 %z1, %x1, %y1;\naddc.u32 %z2, 0, 0;\nmov.b64 %d, {%z1, %z2};", "u64", ["u64"] * 2, rows,
           [a + b >> 32 for a, b in rows], split, regs)
    f.case("mul.lo.u32 %z0, %x0, %y0;\nmul.hi.u32 %z1, %x0, %y0;\nmad.lo.cc.u32 %z1, %x0, %y1, %z1;\nmadc.hi.u32 %z2, %x0, %y1, 0;\n"
           "mad.lo.cc.u32 %z1, %x1, %y0, %z1;\nmadc.hi.u32 %z2, %x1, %y0, %z2;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows,
           [a * b for a, b in rows], split, regs)
    rows = [(a, b, c) for a, b in rows for c in (5,)]
    f.case("add.cc.u64 %w, %a, %b;\naddc.u64 %d, %c, 0;", "u64", ["u64"] * 3, rows, [(a + b >> 64) + c for a, b, c in rows])
    return f


def bfe_s(a, pos, n, w):
    v = signed(a, w)
    if n == 0:
        return 0
    sign = a >> min(pos + n - 1, w - 1) & 1
    return sum(((a >> (pos + i) & 1) if i < n and pos + i < w else sign) << i for i in range(w))


def bfi(a, b, pos, n, w):
    for i in range(n):
        if pos + i < w:
            b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
    return b


# ---- conversions
def cvt_file():
    f = File("cvt.ptx")
    fl, it = ["f16", "bf16", "f32", "f64"], ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]

    def limits(t):
        w = width(t)
        return (-(1 << (w - 1)), (1 << (w - 1)) - 1) if t[0] == "s" else (0, (1 << w) - 1)

    def from_reg(t, r):  # the value that cvt reads out of a register
        return signed(r, width(t)) if t[0] == "s" else r & ((1 << width(t)) - 1)

    for a in it:
        w = max(width(a), 16)
        rows = [(v,) for v in ints(w)]
        ta = "u%d" % w
        for d in it:
            td = "u%d" % max(width(d), 16)
            lo, hi = limits(d)

            def widen(v):  # narrow results are extended to the register
                v &= (1 << width(d)) - 1
                return signed(v, width(d)) if d[0] == "s" else v
            if a != d or width(a) < 16:
                f.case("cvt.%s.%s %%d, %%a;" % (d, a), td, [ta], rows, [widen(from_reg(a, r)) for r, in rows])
            f.case("cvt.sat.%s.%s %%d, %%a;" % (d, a), td, [ta], rows, [max(lo, min(hi, from_reg(a, r))) for r, in rows])
        for d in fl:
            for mode in ("rn", "rz", "rm", "rp"):
                if d == "bf16" and mode != "rn" and False:
                    continue
                f.case("cvt.%s.%s.%s %%d, %%a;" % (mode, d, a), d, [ta], rows, [encode(num(F(from_reg(a, r))), d, mode) for r, in rows])
    for a in fl:
        w = width(a)
        base = EDGE[a] + floats(a, 40)
        for k in (F(1, 2), F(3, 2), F(5, 2), F(-1, 2), F(-3, 2), F(-5, 2), F(127), F(128), F(255), F(256), F(-128), F(-129), F(32767), F(65535), F(99, 10)):
            base.append(encode(num(k), a))
        rows = [(v,) for v in base]
        for d in it:
            td = "u%d" % max(width(d), 16)
            lo, hi = limits(d)
            for mode in ("rni", "rzi", "rmi", "rpi"):
                for ftz in ([0, 1] if a == "f32" else [0]):
                    want = []
                    for r, in rows:
                        x = decode(flush(r, a) if ftz else r, a)
                        if x[0] == "nan":
                            v = 1 << (width(d) - 1) if a == "f64" or width(d) == 64 else 0
                            if d[0] == "s" and v:
                                v = -v
                        elif x[0] == "inf":
                            v = lo if x[1] else hi
                        else:
                            v = max(lo, min(hi, integral(x[2], mode)))
                        want.append(v)
                    f.case("cvt.%s%s.%s.%s %%d, %%a;" % (mode, ".ftz" * ftz, d, a), td, [a], rows, want)
        for d in fl:
            if FMT[d][2] > w or (a, d) == ("f32", "f64"):
                if (a, d) == ("bf16", "f16") or (a, d) == ("f16", "bf16"):
                    continue
                for ftz in ([0, 1] if "f32" in (a, d) and "f64" in (a, d) else [0]):
                    for sat in ([0, 1] if "bf16" != a else [0]):
                        want = []
                        for r, in rows:
                            b = encode(decode(flush(r, a) if ftz and a == "f32" else r, a), d)
                            want.append(finish(b, d, 0, sat))
                        f.case("cvt%s%s.%s.%s %%d, %%a;" % (".ftz" * ftz, ".sat" * sat, d, a), d, [a], rows, want)
            elif FMT[d][2] < w:
                for mode in ("rn", "rz") if d == "bf16" else ("rn", "rz", "rm", "rp"):
                    for sat in ([0, 1] if d != "bf16" else [0]):
                        want = [finish(encode(decode(r, a), d, mode), d, 0, sat) for r, in rows]
                        f.case("cvt.%s%s.%s.%s %%d, %%a;" % (mode, ".sat" * sat, d, a), d, [a], rows, want)
            elif d == a and a != "bf16":
                for mode in ("rni", "rzi", "rmi", "rpi"):
                    want = []
                    for r, in rows:
                        x = decode(r, a)
                        want.append(encode(num(F(integral(x[2], mode)), x[1]) if x[0] == "num" else x, d))
                    f.case("cvt.%s.%s.%s %%d, %%a;" % (mode, d, a), d, [a], rows, want)
    rows = [(a, b) for a, b in pairs("f32")]
    for d in ("f16", "bf16"):
        for relu in (0, 1):
            def one(v):
                x = decode(v, "f32")
                return 0 if relu and x[0] != "nan" and x[1] else encode(x, d)
            f.case("cvt.rn%s.%sx2.f32 %%d, %%a, %%b;" % (".relu" * relu, d), "u32", ["f32", "f32"], rows, [one(a) << 16 | one(b) for a, b in rows])
    rows = [(v,) for v in EDGE["f32"] + floats("f32", 60)]

    def tf32(v):
        x = decode(v, "f32")
        if x[0] != "num" or x[2] == 0:
            return encode(x, "f32")
        e = max(floor_log2(abs(x[2])), -126)
        q = abs(x[2]) / F(2) ** (e - 10)
        return encode(num((-1 if x[1] else 1) * F(math.floor(q + F(1, 2))) * F(2) ** (e - 10), x[1]), "f32")
    f.case("cvt.rna.tf32.f32 %d, %a;", "u32", ["f32"], rows, [tf32(v) for v, in rows])
    rows = [(a, b) for a in ints(32) for b in rng.sample(ints(32), 4)]
    for d, w in (("s16", 16), ("u16", 16)):
        lo, hi = limits(d)
        f.case("cvt.pack.sat.%s.s32 %%d, %%a, %%b;" % d, "u32", ["u32"] * 2, rows,
               [(max(lo, min(hi, signed(a, 32))) & 0xFFFF) << 16 | max(lo, min(hi, signed(b, 32))) & 0xFFFF for a, b in rows])
    return f


# ---- approximations: near the true value, and exact at the special ones
def approx_file():
    f = File("approx.ptx")
    nan, inf, ninf, one = NAN["f32"], 0x7F800000, 0xFF800000, 0x3F800000
    val = [encode(num(F(rng.randint(1, 1 << 24)) * F(2) ** rng.randint(-30, -18) * rng.choice((1, -1))), "f32") for _ in range(96)]
    special = [0, 0x80000000, inf, ninf, 0x7FC00001]

    def go(op, fn, rows, sp, tol):
        want = [encode(num(F(fn(float(decode(v, "f32")[2])))), "f32") for v in rows]
        f.case("%s.f32 %%d, %%a;" % op, "f32", ["f32"], [(v,) for v in rows], want, tol=tol)
        f.case("%s.f32 %%d, %%a;" % op, "f32", ["f32"], [(v,) for v in special], sp)
    pos = [v & 0x7FFFFFFF for v in val]
    for z in ("", ".ftz"):
        go("ex2.approx" + z, lambda x: 2.0 ** x, val, [one, one, inf, 0, nan], "3e-7")
        go("lg2.approx" + z, math.log2, pos, [ninf, ninf, inf, nan, nan], "3e-7")
        go("sin.approx" + z, math.sin, val, [0, 0x80000000, nan, nan, nan], "5e-7")
        go("cos.approx" + z, math.cos, val, [one, one, nan, nan, nan], "5e-7")
        go("rcp.approx" + z, lambda x: 1 / x, val, [inf, ninf, 0, 0x80000000, nan], "2e-7")
        go("sqrt.approx" + z, math.sqrt, pos, [0, 0x80000000, inf, nan, nan], "2e-7")
        go("rsqrt.approx" + z, lambda x: x ** -0.5, pos, [inf, ninf, 0, nan, nan], "3e-7")
    go("tanh.approx", math.tanh, val, [0, 0x80000000, one, 0xBF800000, nan], "5e-7")
    rows = [(a, b) for a in val for b in rng.sample(val, 2)]
    for op in ("div.approx", "div.full", "div.approx.ftz", "div.full.ftz"):
        f.case("%s.f32 %%d, %%a, %%b;" % op, "f32", ["f32"] * 2, rows, [encode(div(decode(a, "f32"), decode(b, "f32")), "f32") for a, b in rows], tol="3e-7")
    f.case("div.approx.f32 %d, %a, %b;", "f32", ["f32"] * 2, [(one, 0x7E800001), (inf, 0x7E800001), (one, 0), (0, 0), (one, inf)], [0, nan, inf, nan, 0])
    f.case("ex2.approx.f32 %d, %a;", "f32", ["f32"], [(encode(num(F(k)), "f32"),) for k in range(-152, 130)], [encode(num(F(2) ** k), "f32") for k in range(-152, 130)])
    f.case("ex2.approx.ftz.f32 %d, %a;", "f32", ["f32"], [(encode(num(F(k)), "f32"),) for k in range(-152, 130)],
           [flush(encode(num(F(2) ** k), "f32"), "f32") for k in range(-152, 130)])
    return f


# ---- matrices. Where elements lie is written here as the figures of the PTX manual have it, shape by shape; the executor has one formula.
FMT["e5m2"] = (3, 5, 8)


def manual_a(shape, t, i, g, q):
    """(row, column) of element i of A in the lane with groupID g and threadID_in_group q"""
    if (shape, t) in (("m16n8k16", "f16"), ("m16n8k16", "bf16")):
        return g + (0 if i < 2 or 4 <= i < 6 else 8), q * 2 + (i & 1) + (8 if i >= 4 else 0)
    if (shape, t) in (("m16n8k8", "f16"), ("m16n8k8", "bf16")):
        return g + (0 if i < 2 else 8), q * 2 + (i & 1)
    if shape == "m16n8k4":
        return g + 8 * i, q
    if (shape, t) in (("m16n8k8", "tf32"), ("m16n8k8", "f64")):
        return g + (0 if i in (0, 2) else 8), q + (0 if i in (0, 1) else 4)
    if (shape, t) == ("m16n8k16", "f64"):
        return g + (0 if i % 2 == 0 else 8), i * 2 + q if i % 2 == 0 else i * 2 - 2 + q
    if shape == "m8n8k4":
        return g, q
    if (shape, t) in (("m16n8k16", "s8"), ("m16n8k16", "u8"), ("m16n8k16", "e5m2")):
        return g + (0 if i < 4 else 8), q * 4 + (i & 3)
    if shape == "m16n8k32" and t in ("s8", "u8", "e5m2", "e4m3"):
        return g + (0 if i < 4 or 8 <= i < 12 else 8), q * 4 + (i & 3) + (0 if i < 8 else 16)
    if shape == "m8n8k16":
        return g, q * 4 + i
    if shape == "m8n8k32":
        return g, q * 8 + i
    if shape == "m16n8k32":
        return g + (0 if i < 8 else 8), q * 8 + (i & 7)
    if shape == "m16n8k64":
        return g + (0 if i < 8 or 16 <= i < 24 else 8), q * 8 + (i & 7) + (0 if i < 16 else 32)
    if shape == "m8n8k128":
        return g, q * 32 + i
    if shape == "m16n8k128":
        return g + (0 if i < 32 else 8), q * 32 + (i & 31)
    assert shape == "m16n8k256"
    return g + (0 if i < 32 or 64 <= i < 96 else 8), q * 32 + (i & 31) + (0 if i < 64 else 128)


def manual_b(shape, t, i, g, q):
    if t in ("f16", "bf16"):
        return q * 2 + (i & 1) + (0 if i < 2 else 8), g
    if t in ("tf32", "f64"):
        return q + 4 * i, g
    if t in ("s8", "u8", "e5m2", "e4m3"):
        return q * 4 + (i & 3) + (0 if i < 4 else 16), g
    if t in ("s4", "u4"):
        return q * 8 + (i & 7) + (0 if i < 8 else 32), g
    return q * 32 + (i & 31) + (0 if i < 32 else 128), g


def manual_c(shape, t, i, g, q):
    return g + (0 if i < 2 else 8), q * 2 + (i & 1)


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4, "b1": 1}


def fragment(m, t, rows, cols, shape, where):
    """registers [r][lane] of matrix m (m[row][column]: bits)"""
    bits = BITS[t]
    per = max(1, 32 // bits)
    regs = rows * cols // 32 // per
    out = [[0] * 32 for _ in range(regs)]
    for lane in range(32):
        for i in range(regs * per):
            r, c = where(shape, t, i, lane // 4, lane % 4)
            out[i // per][lane] |= (m[r][c] & ((1 << bits) - 1)) << (i % per * bits)
    return out


def sizes(shape):
    return [int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k", " ").split()]


def value_of(v, t):
    if t == "tf32":
        x = decode(v, "f32")
        return x if x[0] == "nan" else decode(v & ~0x1FFF, "f32")
    if t == "e4m3":
        s, e, m = v >> 7, v >> 3 & 15, v & 7
        if e == 15 and m == 7:
            return ("nan",)
        x = F(8 + m if e else m) * F(2) ** ((e or 1) - 10)
        return num(-x if s else x, s)
    return decode(v, t)


def product(a, b, c, ta, tb, tc, td, sat=False, bits=""):
    """D as bits: exact sums of integers; floats rounded as docs/CHOICES.md says"""
    n = len(b[0])
    out = []
    for i in range(len(a)):
        row = []
        for j in range(n):
            if ta in ("s8", "u8", "s4", "u4", "b1"):
                w = BITS[ta]
                x = [signed(v, w) if ta[0] == "s" else v for v in a[i]]
                y = [signed(r[j], w) if tb[0] == "s" else r[j] for r in b]
                s = signed(c[i][j], 32) + sum(p ^ q if bits == "xor" else p & q if bits == "and" else p * q for p, q in zip(x, y))
                row.append((max(-1 << 31, min((1 << 31) - 1, s)) if sat else s) & 0xFFFFFFFF)
                continue
            s = decode(c[i][j], tc)
            for k in range(len(b)):
                s = add(s, mul(value_of(a[i][k], ta), value_of(b[k][j], tb)), "rn")
                s = decode(encode(s, "f64"), "f64")
                if ta != "f64":
                    s = decode(encode(s, "f32"), "f32")
            row.append(encode(s, td))
        out.append(row)
    return out


def random_matrix(rows, cols, t, kind):
    def one():
        if t in ("s8", "u8", "s4", "u4", "b1"):
            w = BITS[t]
            return rng.choice((0, (1 << w) - 1, 1 << (w - 1), (1 << (w - 1)) - 1)) if kind == "edge" else rng.getrandbits(w)
        if t == "s32":
            return rng.choice((0x7FFFFFFF, 0x80000000, 0x7FFFFFF0, 0)) if kind == "edge" else rng.getrandbits(20)
        if t in ("e4m3", "e5m2"):
            return rng.choice((0x38, 0xB8, 0x3C, 0, 0x80, 0x41, 1)) if kind == "whole" else rng.getrandbits(8)
        f = "f32" if t == "tf32" else t
        if kind == "whole":
            return encode(num(F(rng.randint(-8, 8))), f)
        if kind == "edge":
            return rng.choice(EDGE[f]) if rng.random() < 0.05 else encode(num(F(rng.randint(-64, 64), 8)), f)
        return encode(num(F(rng.getrandbits(30) - (1 << 29)) * F(2) ** rng.randint(-36, -22)), f)
    return [[one() for _ in range(cols)] for _ in range(rows)]


def warp_case(f, body, args, outs, note, shared=0):
    """args: (name, width, values); outs: (name, width, expected)"""
    entry = "t%d" % f.n
    f.n += 1
    f.head.append("// RUN %s block=32" % entry)
    hexes = lambda w, v: " ".join("%#x" % (x & ((1 << w) - 1)) for x in v)
    for name, w, v in args:
        f.head.append("// BUF %s u%d %s" % (name, w, hexes(w, v)))
    for name, w, v in outs:
        f.head.append("// BUF %s u%d 0*%d" % (name, w, len(v)))
    for name, w, v in outs:
        f.head.append("// OUT %s u%d %s" % (name, w, hexes(w, v)))
    names = [x[0] for x in args] + [x[0] for x in outs]
    b = ["// " + note, ".visible .entry %s(%s)" % (entry, ", ".join(".param .u64 %s" % n for n in names)), "{",
         "    .reg .b64 %p, %l; .reg .b32 %i, %x, %y, %z, %a<32>, %b<32>, %c<32>, %d<32>; .reg .b64 %A<8>, %B<8>, %C<8>, %D<8>;"]
    if shared:
        b.append("    .shared .align 16 .b8 s[%d];" % shared)
    b += ["    mov.u32 %i, %tid.x;"] + ["    " + x for x in body] + ["    ret;", "}"]
    f.body.append("\n".join(b))


def move_regs(op, name, reg, n, w):
    """load or store registers reg0 … of a fragment, [r][lane]"""
    out = ["ld.param.u64 %%p, [%s];" % name, "mad.wide.u32 %%p, %%i, %d, %%p;" % (w // 8)]
    for r in range(n):
        at = "[%%p+%d]" % (r * 32 * w // 8)
        out.append("ld.global.b%d %%%s%d, %s;" % (w, reg, r, at) if op == "ld" else "st.global.b%d %s, %%%s%d;" % (w, at, reg, r))
    return out


def vec(reg, n):
    return "{" + ", ".join("%%%s%d" % (reg, r) for r in range(n)) + "}"


def matrix_file():
    f = File("matrix.ptx")
    forms = []
    for t in ("f16", "bf16"):
        for s in ("m16n8k8", "m16n8k16"):
            forms += [(s, "f32", t, t, "f32", "")] + ([(s, "f16", t, t, "f16", "")] if t == "f16" else [])
    forms += [("m16n8k4", "f32", "tf32", "tf32", "f32", ""), ("m16n8k8", "f32", "tf32", "tf32", "f32", "")]
    for s in ("m8n8k16", "m16n8k16", "m16n8k32"):
        for a, b in (("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")):
            forms += [(s, "s32", a, b, "s32", z) for z in ("", ".satfinite")]
    for s in ("m8n8k32", "m16n8k32", "m16n8k64"):
        forms += [(s, "s32", "s4", "u4", "s32", ""), (s, "s32", "u4", "u4", "s32", ".satfinite")]
    for s in ("m8n8k128", "m16n8k128", "m16n8k256"):
        forms += [(s, "s32", "b1", "b1", "s32", z) for z in (".xor.popc", ".and.popc")]
    forms += [(s, "f64", "f64", "f64", "f64", "") for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")]
    forms += [("m16n8k32", "f32", a, b, "f32", "") for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e5m2", "e5m2"))]
    for s, td, ta, tb, tc, extra in forms:
        m, n, k = sizes(s)
        text = "mma.sync.aligned.%s.row.col%s.%s.%s.%s.%s%s" % (s, ".satfinite" if extra == ".satfinite" else "", td, ta, tb, tc, "")
        if "popc" in extra:
            text = "mma.sync.aligned.%s.row.col.%s.%s.%s.%s%s" % (s, td, ta, tb, tc, extra)
        for kind in ("whole", "any", "edge"):
            a, b, c = random_matrix(m, k, ta, kind), random_matrix(k, n, tb, kind), random_matrix(m, n, tc, kind)
            d = product(a, b, c, ta, tb, tc, td, extra == ".satfinite", extra[1:4])
            fa, fb, fc, fd = (fragment(a, ta, m, k, s, manual_a), fragment(b, tb, k, n, s, manual_b), fragment(c, tc, m, n, s, manual_c),
                              fragment(d, td, m, n, s, manual_c))
            w = 64 if ta == "f64" else 32
            names = "ABCD" if ta == "f64" else "abcd"
            body = []
            for x, frag, reg in zip("abc", (fa, fb, fc), names):
                body += move_regs("ld", x, reg, len(frag), w)
            body.append("%s %s, %s, %s, %s;" % (text, vec(names[3], len(fd)), vec(names[0], len(fa)), vec(names[1], len(fb)), vec(names[2], len(fc))))
            body += move_regs("st", "d", names[3], len(fd), w)
            flat = lambda fr: [v for r in fr for v in r]
            warp_case(f, body, [("a", w, flat(fa)), ("b", w, flat(fb)), ("c", w, flat(fc))], [("d", w, flat(fd))], text + " " + kind)
    # ldmatrix, stmatrix, movmatrix: row i of matrix j at 16 * (8 * j + i) bytes of a permutation
    for n in (1, 2, 4):
        for trans in (0, 1):
            words = [rng.getrandbits(16) for _ in range(8 * 32)]
            perm = rng.sample(range(32), 32)
            row = lambda j, i: words[8 * perm[8 * j + i]:8 * perm[8 * j + i] + 8]
            get = lambda j, r, c: row(j, c)[r] if trans else row(j, r)[c]
            want = [get(j, l // 4, l % 4 * 2) | get(j, l // 4, l % 4 * 2 + 1) << 16 for j in range(n) for l in range(32)]
            fill = ["ld.param.u64 %p, [w];", "mad.wide.u32 %p, %i, 16, %p;", "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%p];",
                    "mov.u32 %x, s;", "mad.lo.u32 %x, %i, 16, %x;"]
            where = ["ld.param.u64 %p, [q];", "mad.wide.u32 %p, %i, 4, %p;", "ld.global.b32 %y, [%p];"]
            text = ".sync.aligned.m8n8.x%d%s.shared.b16" % (n, ".trans" * trans)
            # lanes whose address is not read get a bad one
            at = [16 * perm[l] if l < 8 * n else 0x7FFFFFF0 for l in range(32)]
            warp_case(f, fill + ["st.shared.v4.b32 [%x], {%a0, %a1, %a2, %a3};", "bar.sync 0;"] + where +
                      ["ldmatrix%s %s, [%%y];" % (text, vec("d", n))] + move_regs("st", "d", "d", n, 32),
                      [("w", 16, words), ("q", 32, at)], [("d", 32, want)], "ldmatrix" + text, 512)
            regs = [rng.getrandbits(32) for _ in range(32 * n)]
            mem = [0] * 256
            for j in range(n):
                for l in range(32):
                    for e in range(2):
                        r, c = (l % 4 * 2 + e, l // 4) if trans else (l // 4, l % 4 * 2 + e)
                        mem[8 * perm[8 * j + r] + c] = regs[32 * j + l] >> 16 * e & 0xFFFF
            warp_case(f, ["mov.u32 %x, s;", "mad.lo.u32 %x, %i, 16, %x;", "mov.u32 %z, 0;", "st.shared.v4.b32 [%x], {%z, %z, %z, %z};", "bar.sync 0;"] +
                      where + move_regs("ld", "v", "a", n, 32) + ["cvt.u64.u32 %l, %y;", "cvta.shared.u64 %l, %l;"] +
                      ["stmatrix%s [%%l], %s;" % (text.replace(".shared", ""), vec("a", n)), "bar.sync 0;", "ld.shared.v4.b32 {%a0, %a1, %a2, %a3}, [%x];",
                       "ld.param.u64 %p, [d];", "mad.wide.u32 %p, %i, 16, %p;", "st.global.v4.b32 [%p], {%a0, %a1, %a2, %a3};"],
                      [("q", 32, at), ("v", 32, regs)], [("d", 16, mem)], "stmatrix" + text, 512)
    x = [[rng.getrandbits(16) for _ in range(8)] for _ in range(8)]
    pack = lambda m: [m[l // 4][l % 4 * 2] | m[l // 4][l % 4 * 2 + 1] << 16 for l in range(32)]
    warp_case(f, move_regs("ld", "a", "a", 1, 32) + ["movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;"] + move_regs("st", "d", "d", 1, 32),
              [("a", 32, pack(x))], [("d", 32, pack(list(zip(*x))))], "movmatrix")
    wmma_cases(f)
    return f


def wmma_cases(f):
    """load, operate on all elements (A doubled where it is f16), multiply, store: what matters is the memory before and after"""
    regs = {("f16", "A"): 8, ("f16", "B"): 8}
    forms = [(s, td, "f16", tc, "") for s in ("m16n16k16", "m32n8k16", "m8n32k16") for td, tc in (("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f16"))]
    forms += [(s, "f32", "bf16", "f32", "") for s in ("m16n16k16", "m32n8k16", "m8n32k16")]
    forms += [(s, "s32", t, "s32", z) for s in ("m16n16k16", "m32n8k16", "m8n32k16") for t in ("s8", "u8") for z in ("", ".satfinite")]
    forms += [("m16n16k8", "f32", "tf32", "f32", ""), ("m8n8k4", "f64", "f64", "f64", "")]
    for number, (s, td, ta, tc, sat) in enumerate(forms):
        m, n, k = sizes(s)
        for la in ("row", "col"):
            for lb in ("row", "col"):
                if number % 2 == (la == lb):
                    continue
                kind = ("whole", "any", "edge")[(number + (la == "row") + (lb == "row")) % 3]
                lc, ld = ("row", "col") if (number + (la == lb)) % 2 else ("col", "row")
                a, b, c = random_matrix(m, k, ta, kind), random_matrix(k, n, ta, kind), random_matrix(m, n, tc, kind)
                doubled = a
                if ta == "f16":
                    doubled = [[encode(add(decode(v, "f16"), decode(v, "f16"), "rn"), "f16") for v in r] for r in a]
                d = product(doubled, b, c, ta, ta, tc, td, sat)

                def memory(mat, layout, stride, w, fill=0):
                    rows = mat if layout == "row" else list(zip(*mat))
                    return [v for r in rows for v in list(r) + [fill] * (stride - len(r))]
                pad = rng.choice((0, 16))
                lead = lambda layout, r, c: (c if layout == "row" else r) + pad
                sa, sb, sc, sd = lead(la, m, k), lead(lb, k, n), lead(lc, m, n), lead(ld, m, n)
                R = {x: regs.get((t, x)) or rows * cols * BITS[t] // 1024 if t != "f64" else rows * cols // 32
                     for x, t, rows, cols in (("A", ta, m, k), ("B", ta, k, n), ("C", tc, m, n), ("D", td, m, n))}
                names = {x: x if ta == "f64" else x.lower() for x in "ABCD"}
                body = []
                for x, layout, t, stride in (("A", la, ta, sa), ("B", lb, ta, sb), ("C", lc, tc, sc)):
                    tail = ", %d" % stride if pad else ""
                    body += ["ld.param.u64 %%p, [%s];" % x.lower(),
                             "wmma.load.%s.sync.aligned.%s.%s.global.%s %s, [%%p]%s;" % (x.lower(), layout, s, t, vec(names[x], R[x]), tail)]
                if ta == "f16":
                    body += ["add.rn.f16x2 %%a%d, %%a%d, %%a%d;" % (r, r, r) for r in range(8)]
                types = "%s.%s" % (td, tc) if ta == "f16" else "%s.%s.%s.%s" % (td, ta, ta, tc)
                text = "wmma.mma.sync.aligned.%s.%s.%s.%s%s" % (la, lb, s, types, sat)
                if ta == "f64":
                    text = text.replace(s + ".", s + ".rn.")
                body += ["%s %s, %s, %s, %s;" % (text, vec(names["D"], R["D"]), vec(names["A"], R["A"]), vec(names["B"], R["B"]), vec(names["C"], R["C"])),
                         "ld.param.u64 %p, [d];", "mov.u32 %%x, %d;" % sd,
                         "wmma.store.d.sync.aligned.%s.%s.global.%s [%%p], %s, %%x;" % (ld, s, td, vec(names["D"], R["D"]))]
                wa, wc, wd = BITS[ta], BITS[tc], BITS[td]
                warp_case(f, body, [("a", wa, memory(a, la, sa, wa)), ("b", wa, memory(b, lb, sb, wa)), ("c", wc, memory(c, lc, sc, wc))],
                          [("d", wd, memory(d, ld, sd, wd))], text + " " + kind)


def integral(v, mode):
    fl = math.floor(v)
    if mode == "rmi":
        return fl
    if mode == "rpi":
        return math.ceil(v)
    if mode == "rzi":
        return int(v)
    return round(v)  # of a Fraction: half to even


if __name__ == "__main__":
    for make in (int_file, float_file, compare_file, cvt_file, approx_file, matrix_file):
        make().write(sys.argv[1])
