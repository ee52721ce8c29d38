"""Exact arithmetic on number formats: bits to fractions, one rounding back. Shares nothing with the executor.

A decoded value is ("nan",), ("inf", sign) or ("num", sign, Fraction).
"""
import math
from fractions import Fraction as F

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
    "f32": [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x80800000, 0x3F800000, 0xBF800000, 0x3F800001,
            0x3F7FFFFF,
            0x40490FDB, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x33800000,
            0x34000000, 0x4B800000, 0x4F000000, 0xCF000000, 0x5F000000, 0x3EAAAAAB, 0x40A00000, 0xC0200000],
    "f64": [0, 1 << 63, 1, 0x8000000000000001, 0xFFFFFFFFFFFFF, 0x10000000000000, 0x3FF0000000000000,
            0xBFF0000000000000,
            0x3FF0000000000001, 0x3FEFFFFFFFFFFFFF, 0x400921FB54442D18, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
            0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000012345, 0x7FF0000000000001,
            0x3CA0000000000000, 0x3CB0000000000000, 0x4340000000000000, 0x43E0000000000000, 0xC3E0000000000000,
            0x41E0000000000000,
            0x3FD5555555555555, 0x4014000000000000, 0xC004000000000000, 0x381FFFFFF0000000, 0x47EFFFFFF0000000],
    "f16": [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x3C01, 0x3BFF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
            0x7E00,
            0xFE12, 0x7C01, 0x1000, 0x1400, 0x3555, 0x4500, 0xC100, 0x4248],
    "bf16": [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x8080, 0x3F80, 0xBF80, 0x3F81, 0x3F7F, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80,
             0x7FC0,
             0xFFC1, 0x7F81, 0x3B80, 0x3C00, 0x3EAB, 0x40A0, 0xC020, 0x4049],
}


def finish(bits, t, ftz, sat, relu=False):
    x = decode(bits, t)
    if sat:
        if x[0] == "nan" or x[1]:
            bits = 0
        elif x[0] == "inf" or x[2] > 1:
            bits = encode(num(F(1)), t)
    if relu and x[0] != "nan" and x[1]:
        bits = 0
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


def signed(v, w):
    v &= (1 << w) - 1
    return v - (1 << w) if v >> (w - 1) else v


def tdiv(a, b):
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def integral(v, mode):
    fl = math.floor(v)
    if mode == "rmi":
        return fl
    if mode == "rpi":
        return math.ceil(v)
    if mode == "rzi":
        return int(v)
    return round(v)  # of a Fraction: half to even
