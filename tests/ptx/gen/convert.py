"""The matrix of cvt: every pair of types, every rounding, saturation."""
import math
from fractions import Fraction as F

from casefile import File, floats, ints, main, pairs, rng, width
from exact import EDGE, FMT, decode, encode, finish, floor_log2, flush, integral, num, signed


def make():
    f = File("convert")
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


if __name__ == "__main__":
    main(make)
