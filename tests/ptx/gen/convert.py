"""cvt: every pair of types, every rounding, .ftz, .sat, .relu, .satfinite; registers wider than the types; cvt.pack."""
from fractions import Fraction as F

from casefile import File, floats, halves, ints, main, pairs, rng, table, width
from exact import EDGE, FMT, NAN, decode, encode, finish, flush, integral, num, signed

FMT["tf32"], NAN["tf32"] = (11, 8, 19), 0x3FFFF  # as its upper bits stand in an f32
SIZE = {"s16": 16, "u16": 16, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "s2": 2, "u2": 2}


def is_float(t):
    return t[0] == "f" or t[:2] in ("bf", "tf")


def limits(t):
    w = SIZE.get(t) or width(t)
    return (-(1 << (w - 1)), (1 << (w - 1)) - 1) if t[0] == "s" else (0, (1 << w) - 1)


def number(bits, t):
    """the value that cvt reads out of a register"""
    return signed(bits, width(t)) if t[0] == "s" else bits & ((1 << width(t)) - 1)


def widen(v, t):
    """narrow results are extended to the register"""
    v &= (1 << width(t)) - 1
    return signed(v, width(t)) if t[0] == "s" else v


def to_float(x, form, d):
    if form.mode[-1:] == "i" and x[0] == "num":
        x = num(F(integral(x[2], form.mode)), x[1])
    bits = encode(x, d, form.mode if form.mode in ("rn", "rz", "rm", "rp", "rna") else "rn")
    if "satfinite" in form.mods and decode(bits, d)[0] == "inf":
        bits -= 1
    bits = finish(bits, d, form.ftz and d == "f32", form.sat, form.relu)
    if d == "tf32":
        return 0x7FFFFFFF if x[0] == "nan" else bits << 13
    return bits


def to_int(x, form, a, d):
    w = width(d)
    lo, hi = limits(d)
    if x[0] == "nan":
        return (lo or 1 << (w - 1)) if a == "f64" or w == 64 else 0
    if x[0] == "inf":
        return lo if x[1] else hi
    return max(lo, min(hi, integral(x[2], form.mode)))


def converted(bits, form, a, d):
    if is_float(a):
        x = decode(flush(bits, a) if form.ftz and a == "f32" else bits, a)
        return to_float(x, form, d) if is_float(d) else to_int(x, form, a, d)
    v = number(bits, a)
    if is_float(d):
        return to_float(num(F(v)), form, d)
    lo, hi = limits(d)
    return widen(max(lo, min(hi, v)) if form.sat else v, d)


def rows_of(a, pool={}):
    if a not in pool:
        if is_float(a):
            pool[a] = EDGE[a] + floats(a, 40)
            for k in (F(1, 2), F(3, 2), F(5, 2), F(7, 2), F(127), F(128), F(255, 2), F(511, 2), F(255), F(256), F(129),
                      F(32767), F(65535), F(65535, 2), F(99, 10), F(1, 3),
                      F(2) ** 31, F(2) ** 31 - F(1, 2), F(2) ** 32, F(2) ** 63, F(2) ** 64, F(65504), F(65519),
                      F(65520)):
                pool[a] += [encode(num(k), a), encode(num(-k), a)]
        else:
            w = width(a)
            pool[a] = [v & ((1 << max(w, 16)) - 1) for v in ints(max(w, 16)) + ints(w)
                       + [(1 << k) + j for k in (7, 8, 10, 11, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63)
                          for j in (-1, 0, 1)]]
    return [(v,) for v in pool[a]]


def plain(f):
    for form in table("cvt"):
        d, a = form.types
        if halves(d) or any(t[0] == "e" or t[:2] == "ue" for t in form.types):
            continue
        rows = rows_of(a)
        tin = a if is_float(a) else "u%d" % max(width(a), 16)
        tout = ("u32" if d == "tf32" else d) if is_float(d) else "u%d" % max(width(d), 16)
        f.case("%s %%d, %%a;" % form.text, tout, [tin], rows, [converted(v, form, a, d) for v, in rows])
        if not is_float(d) and width(d) < 64 and a != "bf16" and rng.random() < 0.5:  # into a wider register
            wide = rng.choice([w for w in (32, 64) if w > width(d)])
            f.case("%s %%d, %%a;" % form.text, "u%d" % wide, [tin], rows,
                   [widen(converted(v, form, a, d), d) for v, in rows])
        # out of a wider register, whose upper bits do not count
        if not is_float(a) and width(a) < 64 and d != "bf16" and rng.random() < 0.5:
            wide = rng.choice([w for w in (32, 64) if w > width(a)])
            rows = [(v & ((1 << width(a)) - 1) | rng.getrandbits(wide - width(a)) << width(a),) for v, in rows]
            f.case("%s %%d, %%a;" % form.text, tout, ["u%d" % wide], rows, [converted(v, form, a, d) for v, in rows])


def packs(f):
    rows = pairs("f32") + [(encode(num(k), "f32"), encode(num(-k), "f32"))
                           for k in (F(65504), F(65519), F(65520), F(2) ** 127 * F(511, 256), F(2) ** -24, F(2) ** -25,
                                     F(2) ** -134)]
    for form in table("cvt"):
        h = halves(form.t)
        if h and form.types[1] == "f32" and form.shape == "3":
            f.case("%s %%d, %%a, %%b;" % form.text, "u32", ["f32", "f32"], rows,
                   [to_float(decode(a, "f32"), form, h) << 16 | to_float(decode(b, "f32"), form, h) for a, b in rows])
    e = ints(32) + [signed(v, 32) for v in (1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536)]
    for form in table("cvt.pack"):
        lo, hi = limits(form.t)
        w = SIZE[form.t]
        one = lambda v: max(lo, min(hi, signed(v, 32))) & ((1 << w) - 1)
        three = len(form.types) > 2
        rows = [(rng.choice(e), rng.choice(e), rng.getrandbits(32)) for _ in range(160)]
        f.case("%s %%d, %%a, %%b%s;" % (form.text, ", %c" * three), "u32", ["u32"] * 3, rows,
               [one(a) << w | one(b) | (c << 2 * w if three else 0) for a, b, c in rows])


def make():
    f = File("convert", "sm_100a")
    plain(f)
    packs(f)
    return f


if __name__ == "__main__":
    main(make)
