"""Pairs of narrow floats (8, 6, 4 bits, ue8m0) from and to wider ones, f32x2 arithmetic, fma.oob: from the formats of
PTX §5.2.3."""
from fractions import Fraction as F

from casefile import File, floats, main, rng
from exact import EDGE, add, decode, encode, finish, floor_log2, flush, mul, neg, num

# mantissa bits, exponent bits, bias, width, largest code, code of NaN, infinity
NARROW = {"e4m3": (3, 4, 7, 8, 0x7E, 0x7F, None), "e5m2": (2, 5, 15, 8, 0x7B, 0x7F, 0x7C),
          "e2m3": (3, 2, 1, 6, 0x1F, None, None),
          "e3m2": (2, 3, 3, 6, 0x1F, None, None), "e2m1": (1, 2, 1, 4, 0x7, None, None)}


def value(code, t):
    mb, eb, bias, w, top, nan, inf = NARROW[t]
    s, e, m = code >> (w - 1) & 1, code >> mb & ((1 << eb) - 1), code & ((1 << mb) - 1)
    mag = code & ((1 << (w - 1)) - 1)
    if inf is not None and mag == inf:
        return ("inf", s)
    if nan is not None and mag > top:
        return ("nan",)
    v = F(m + (1 << mb if e else 0), 1 << mb) * F(2) ** ((e if e else 1) - bias)
    return ("num", s, -v if s else v)


def nearest(x, t, relu):
    """The code of the value closest to x, ties to the even code, by looking at all of them; the largest for what is
    larger."""
    mb, eb, bias, w, top, nan, inf = NARROW[t]
    if x[0] == "nan":
        return top if nan is None else nan
    if relu and x[1]:
        return 0
    sign = x[1] << (w - 1)
    if x[0] == "inf":
        return sign | top
    v = abs(x[2])
    best = min(range(top + 1), key=lambda c: (abs(value(c, t)[2] - v), c & 1))
    return sign | best


def e8(x, mode, finite):
    if x[0] == "nan":
        return 0xFF
    if x[0] == "inf":
        return 0xFE if finite else 0xFF
    v = abs(x[2])
    if v == 0:
        return 0
    k = floor_log2(v)
    if mode == "rp" and F(2) ** k != v:
        k += 1
    k = max(k + 127, 0)
    return k if k < 0xFF else 0xFE if finite else 0xFF


def operands(t, w):
    out = [v for v in EDGE[t]]
    for c in range(0, 1 << NARROW[t_now][3], 3):  # exact values, halves between neighbours, and a little off them
        a, b = value(c, t_now), value(c + 1 if c + 1 < 1 << NARROW[t_now][3] else 0, t_now)
        if a[0] != "num" or b[0] != "num":
            continue
        mid = (a[2] + b[2]) / 2
        for v in (a[2], mid, mid * F(4097, 4096), mid * F(4095, 4096)):
            out.append(encode(num(v), t))
    return out + floats(t, 20)


def make():
    global t_now
    f = File("narrow", target="sm_100a")
    for t_now, (mb, eb, bias, w, top, nan, inf) in NARROW.items():
        step = 4 if w == 4 else 8
        td = "u8" if w == 4 else "u16"
        small = "b8" if w == 4 else "b16"
        mask = (1 << step) - 1
        for relu in (0, 1):
            r = ".relu" * relu
            xs = operands("f32", 32)
            ys = xs[:]
            rng.shuffle(ys)
            rows = list(zip(xs, ys))
            want = [nearest(decode(a, "f32"), t_now, relu) << step | nearest(decode(b, "f32"), t_now, relu)
                    for a, b in rows]
            text = "cvt.rn.satfinite%s.%sx2.f32 %%%s, %%a, %%b;" % (r, t_now, "s" if w == 4 else "d")
            regs = " .reg .b8 %s; .reg .b16 %g;"
            if w == 4:  # through a register of 8 bits, as PTX wants it
                text = text + "\ncvt.u16.u8 %d, %s;"
                td = "u16"
            f.case(text, td, ["f32", "f32"], rows, want, regs=regs)
            hs = operands("f16", 16)
            gs = hs[:]
            rng.shuffle(gs)
            rows = [(a << 16 | b,) for a, b in zip(hs, gs)]
            want = [nearest(decode(a >> 16, "f16"), t_now, relu) << step | nearest(decode(a & 0xFFFF, "f16"), t_now,
                relu) for a, in rows]
            text = "cvt.rn.satfinite%s.%sx2.f16x2 %%%s, %%a;" % (r, t_now,
                                                                 "s" if w == 4 else "d") + ("\ncvt.u16.u8 %d, %s;"
                                                                     if w == 4 else "")
            if w == 8:
                f.case(text, td, ["u32"], rows, want, regs=regs)
            codes = list(range(1 << w))
            rows = [(c << step | codes[(c * 37 + 11) % len(codes)],) for c in codes]
            want = []
            for v, in rows:
                h = []
                for c in (v >> step & mask, v & mask):
                    x = value(c, t_now)
                    h.append(0 if relu and x[0] != "nan" and x[1] else encode(x, "f16"))
                want.append(h[0] << 16 | h[1])
            if w == 4:
                f.case("cvt.u8.u16 %%s, %%a;\ncvt.rn%s.f16x2.%sx2 %%d, %%s;" % (r, t_now), "u32", ["u16"], rows, want,
                       regs=regs)
            else:
                f.case("cvt.rn%s.f16x2.%sx2 %%d, %%a;" % (r, t_now), "u32", ["u16"], rows, want, regs=regs)
    powers = [encode(num(s * F(2) ** k * m), "f32") for k in (-149, -130, -127, -126, -1, 0, 1, 100, 127)
              for m in (F(1), F(3, 2), F(8388609, 8388608)) for s in (1, -1)
              if F(2) ** k * m < F(2) ** 128]
    xs = EDGE["f32"] + powers + floats("f32", 40)
    ys = xs[::-1]
    for mode in ("rz", "rp"):
        for sat in (0, 1):
            f.case("cvt.%s%s.ue8m0x2.f32 %%d, %%a, %%b;" % (mode, ".satfinite" * sat), "u16", ["f32", "f32"],
                   list(zip(xs, ys)),
                   [e8(decode(a, "f32"), mode, sat) << 8 | e8(decode(b, "f32"), mode, sat) for a, b in zip(xs, ys)])
            hs = EDGE["bf16"] + floats("bf16", 40)
            rows = [(a << 16 | b,) for a, b in zip(hs, hs[::-1])]
            f.case("cvt.%s%s.ue8m0x2.bf16x2 %%d, %%a;" % (mode, ".satfinite" * sat), "u16", ["u32"], rows,
                   [e8(decode(a >> 16, "bf16"), mode, sat) << 8 | e8(decode(a & 0xFFFF, "bf16"), mode, sat)
                    for a, in rows])
    rows = [(c << 8 | (c * 7 + 3) % 256,) for c in range(256)]
    up = lambda c: encode(("nan",) if c == 0xFF else num(F(2) ** (c - 127)), "bf16")
    f.case("cvt.rn.bf16x2.ue8m0x2 %d, %a;", "u32", ["u16"], rows, [up(v >> 8) << 16 | up(v & 255) for v, in rows])

    def both(op, n, mode, ftz):
        rows, want = [], []
        for _ in range(96):
            lanes = [[rng.choice(EDGE["f32"]) if rng.random() < .4 else floats("f32", 1)[0] for _ in range(n)]
                     for _ in range(2)]
            res = []
            for v in lanes:
                x = [decode(flush(a, "f32") if ftz else a, "f32") for a in v]
                y = add(x[0], x[1], mode) if op == "add" else add(x[0], neg(x[1]), mode) if op == "sub" else mul(x[0],
                    x[1]) if op == "mul" else add(mul(x[0], x[1]), x[2], mode)
                res.append(finish(encode(y, "f32", mode), "f32", ftz, 0))
            rows.append(tuple(lanes[0][k] << 32 | lanes[1][k] for k in range(n)))
            want.append(res[0] << 32 | res[1])
        f.case("%s.%s%s.f32x2 %%d, %s;" % (op, mode, ".ftz" * ftz, ", ".join("%" + c for c in "abc"[:n])), "u64",
               ["u64"] * n, rows, want)
    for op, n in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        for mode in ("rn", "rz", "rm", "rp"):
            for ftz in (0, 1):
                both(op, n, mode, ftz)
    for t in ("f16", "bf16"):
        for relu in (0, 1):
            one, two = encode(num(F(1)), t), encode(num(F(2)), t)
            rows = [(0x7FF7, one, one), (one, 0x7FF7, one), (one, two, one), (0x7FFF, one, one), (one, two, 0x7FF7),
                    (one | 0x8000, two, 0)]
            nan = encode(("nan",), t)
            want = [0, 0, encode(num(F(3)), t), nan, nan, 0 if relu else two | 0x8000]
            f.case("fma.rn%s.oob.%s %%d, %%a, %%b, %%c;" % (".relu" * relu, t), "u16", ["u16"] * 3, rows, want)
            f.case("fma.rn%s.oob.%sx2 %%d, %%a, %%b, %%c;" % (".relu" * relu, t), "u32", ["u32"] * 3,
                   [tuple(x << 16 | y for x, y in zip(p, q)) for p, q in zip(rows, rows[1:])],
                   [a << 16 | b for a, b in zip(want, want[1:])])
    return f


if __name__ == "__main__":
    main(make)
