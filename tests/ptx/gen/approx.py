"""Approximations: near the true value, and exact at the special ones."""
import math
from fractions import Fraction as F

from casefile import File, main, rng
from exact import NAN, decode, div, encode, flush, num, sqrt


def make():
    f = File("approx")
    nan, inf, ninf, one = NAN["f32"], 0x7F800000, 0xFF800000, 0x3F800000
    val = [encode(num(F(rng.randint(1, 1 << 24)) * F(2) ** rng.randint(-30, -18) * rng.choice((1, -1))), "f32")
           for _ in range(96)]
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
        f.case("%s.f32 %%d, %%a, %%b;" % op, "f32", ["f32"] * 2, rows,
               [encode(div(decode(a, "f32"), decode(b, "f32")), "f32") for a, b in rows], tol="3e-7")
    f.case("div.approx.f32 %d, %a, %b;", "f32", ["f32"] * 2,
           [(one, 0x7E800001), (inf, 0x7E800001), (one, 0), (0, 0), (one, inf)], [0, nan, inf, nan, 0])
    f.case("ex2.approx.f32 %d, %a;", "f32", ["f32"], [(encode(num(F(k)), "f32"),) for k in range(-152, 130)],
           [encode(num(F(2) ** k), "f32") for k in range(-152, 130)])
    f.case("ex2.approx.ftz.f32 %d, %a;", "f32", ["f32"], [(encode(num(F(k)), "f32"),) for k in range(-152, 130)],
           [flush(encode(num(F(2) ** k), "f32"), "f32") for k in range(-152, 130)])
    for z in ("", ".ftz"):  # subnormals
        small, big = [1, 0x80000001, 0x7FFFFF, 0x807FFFFF], [0, 0x80000000] * 2
        low = [flush(v, "f32") if z else v for v in small]
        rows = [(v,) for v in small]
        f.case("sin.approx%s.f32 %%d, %%a;" % z, "f32", ["f32"], rows, low)
        f.case("cos.approx%s.f32 %%d, %%a;" % z, "f32", ["f32"], rows, [one] * 4)
        f.case("ex2.approx%s.f32 %%d, %%a;" % z, "f32", ["f32"], rows, [one] * 4)
        f.case("rcp.approx%s.f32 %%d, %%a;" % z, "f32", ["f32"], rows,
               [inf, ninf] * 2 if z else [inf, ninf] + [encode(div(num(F(1)), decode(v, "f32")), "f32")
                                                        for v in small[2:]])
        f.case("lg2.approx%s.f32 %%d, %%a;" % z, "f32", ["f32"], rows,
               [ninf] * 4 if z else [encode(num(F(-149)), "f32"), nan,
                                     encode(num(F(math.log2(8388607 / 8388608) - 126)), "f32"), nan],
               tol="" if z else "3e-7")
        root = lambda v: encode(sqrt(decode(v, "f32")), "f32")
        f.case("sqrt.approx%s.f32 %%d, %%a;" % z, "f32", ["f32"], rows,
               big if z else [root(1), nan, root(0x7FFFFF), nan], tol="" if z else "2e-7")
        f.case("rsqrt.approx%s.f32 %%d, %%a;" % z, "f32", ["f32"], rows,
               [inf, ninf] * 2 if z else [encode(div(num(F(1)), sqrt(decode(v, "f32"))), "f32") if v < 1 << 31 else nan
                                          for v in small], tol="" if z else "3e-7")
    halves_and_f64(f)
    return f


def halves_and_f64(f):
    for t, tol_ex2, tol_tanh in (("f16", "1e-3", "5e-4"), ("bf16", "7.8e-3", "4e-3")):
        vals = [encode(num(F(rng.randint(1, 4096)) * F(2) ** rng.randint(-16, -9) * rng.choice((1, -1))), t)
                for _ in range(64)]
        one, inf = encode(num(F(1)), t), encode(("inf", 0), t)
        top = 0x8000
        for op, fn, tol, special in (("ex2.approx" + (".ftz" if t == "bf16" else ""), lambda x: 2.0 ** x, tol_ex2,
                                      [one, one, one, inf, 0, NAN[t]]),
                                     ("tanh.approx", math.tanh, tol_tanh, [0, top, 1, one, one | top, NAN[t]])):
            if op == "tanh.approx" and t == "bf16" or op == "ex2.approx.ftz":
                special[2] = one if op[0] == "e" else 1
            edge = [0, top, 1, inf, inf | top, inf | 1]
            want = [encode(num(F(fn(float(decode(v, t)[2])))), t) for v in vals]
            f.case("%s.%s %%d, %%a;" % (op, t), t, [t], [(v,) for v in vals], want, tol=tol)
            f.case("%s.%s %%d, %%a;" % (op, t), t, [t], [(v,) for v in edge], special)
            rows = [(a | b << 16,) for a, b in zip(edge, edge[::-1])]
            f.case("%s.%sx2 %%d, %%a;" % (op, t), "u32", ["u32"], rows,
                   [a | b << 16 for a, b in zip(special, special[::-1])])
    # f64: of rcp.approx.ftz and rsqrt.approx.ftz only the upper 32 bits go in and come out
    vals = [encode(num(F(rng.getrandbits(53) + 1) * F(2) ** rng.randint(-300, 200)), "f64") for _ in range(64)]
    up = [v & ~0xFFFFFFFF for v in vals]
    inf, top, nan = 0x7FF << 52, 1 << 63, 0x7FFFFFFF00000000
    high = lambda v: v & ~0xFFFFFFFF
    inverse = lambda v: encode(div(num(F(1)), decode(v, "f64")), "f64")
    isqrt = lambda v: encode(div(num(F(1)), sqrt(decode(v, "f64"))), "f64")
    f.case("rcp.approx.ftz.f64 %d, %a;", "f64", ["f64"], [(v,) for v in vals + [v | top for v in vals]],
           [inverse(v) for v in up + [v | top for v in up]], tol="1e-6:")
    f.case("rsqrt.approx.ftz.f64 %d, %a;", "f64", ["f64"], [(v,) for v in vals], [isqrt(v) for v in up], tol="1e-6:")
    f.case("rsqrt.approx.f64 %d, %a;", "f64", ["f64"], [(v,) for v in vals + [1, (1 << 52) - 1]],
           [isqrt(v) for v in vals + [1, (1 << 52) - 1]], tol="1e-12:")
    edge = [0, top, inf, inf | top, inf | 1 << 51, 1, 1 | top, 0x3FF0000000000000]
    one = 0x3FF0000000000000
    f.case("rcp.approx.ftz.f64 %d, %a;", "u64", ["f64"], [(v,) for v in edge],
           [inf, inf | top, 0, top, nan, inf, inf | top, one])
    f.case("rsqrt.approx.ftz.f64 %d, %a;", "u64", ["f64"], [(v,) for v in edge + [one | top]],
           [inf, inf | top, 0, nan, nan, inf, inf | top, one, nan])
    assert high(one) == one


if __name__ == "__main__":
    main(make)
