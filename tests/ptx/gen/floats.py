"""Arithmetic of f32, f64, f16, bf16 and their pairs in every rounding mode, with .ftz and .sat: add sub mul fma div sqrt rcp min max …"""
from fractions import Fraction as F

from casefile import File, floats, main, pairs, triples, width
from exact import EDGE, add, decode, div, encode, finish, flush, minmax, mul, neg, num, sqrt


def make():
    f = File("floats")
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


if __name__ == "__main__":
    main(make)
