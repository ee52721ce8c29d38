"""Approximations: near the true value, and exact at the special ones."""
import math
from fractions import Fraction as F

from casefile import File, main, rng
from exact import NAN, decode, div, encode, flush, num, sqrt


def make():
    f = File("approx")
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


if __name__ == "__main__":
    main(make)
