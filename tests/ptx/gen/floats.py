"""Correctly rounded arithmetic of f32, f64, f16, bf16 and their pairs: every rounding mode, .ftz, .sat, .relu of
add sub mul mad fma div rcp sqrt; abs neg min max copysign testp.
"""
from fractions import Fraction as F

from casefile import File, floats, halves, main, pairs, rng, table, triples, width
from exact import EDGE, NAN, add, decode, div, encode, finish, flush, minmax, mul, neg, num, sqrt

TESTP = {"finite": lambda x, b, t: x[0] == "num", "infinite": lambda x, b, t: x[0] == "inf", "number": lambda x, b,
         t: x[0] != "nan",
         "notanumber": lambda x, b, t: x[0] == "nan", "normal": lambda x, b, t: x[0] == "num" and flush(b, t) == b
         and x[2] != 0,
         "subnormal": lambda x, b, t: x[0] == "num" and flush(b, t) != b}


def exactly(op, v, mode):
    """the value of one operation on decoded operands"""
    if op in ("add", "sub"):
        return add(v[0], neg(v[1]) if op == "sub" else v[1], mode)
    if op in ("mad", "fma"):
        return add(mul(v[0], v[1]), v[2], mode)
    return {"mul": lambda: mul(*v), "div": lambda: div(*v), "rcp": lambda: div(num(F(1)), v[0]),
            "sqrt": lambda: sqrt(v[0])}[op]()


def extreme(form, v, t):
    """min and max of two or three"""
    mx, top = form.op == "max", 1 << (width(t) - 1)
    sign = (v[0] ^ v[1]) & top
    if "abs" in form.mods:
        v = [x & ~top for x in v]
    r = minmax(v[0], v[1], t, mx, "NaN" in form.mods)
    if len(v) == 3:
        r = minmax(r, v[2], t, mx, "NaN" in form.mods)
    return r & ~top | sign if "xorsign" in form.mods and r != NAN[t] else r


def one(form, v, t):
    if form.ftz:
        v = [flush(x, t) for x in v]
    top = 1 << (width(t) - 1)
    if form.op in ("min", "max"):
        return extreme(form, v, t)
    if form.op in ("abs", "neg"):
        return v[0] & ~top if form.op == "abs" else v[0] ^ top
    if form.op == "copysign":
        return v[0] & top | v[1] & ~top
    mode = form.mode or "rn"
    return finish(encode(exactly(form.op, [decode(x, t) for x in v], mode), t, mode), t, form.ftz, form.sat, form.relu)


def mixed(f, form):
    """all sources but the last are halves"""
    h, n = form.types[1], 3 if form.op == "fma" else 2
    a, c, mode = EDGE[h] + floats(h, 30), EDGE["f32"] + floats("f32", 60), form.mode or "rn"
    rows = [tuple(rng.choice(a) for _ in range(n - 1)) + (rng.choice(c),) for _ in range(200)]
    want = [finish(encode(exactly(form.op, [decode(x, h) for x in r[:-1]] + [decode(r[-1], "f32")], mode), "f32", mode),
                   "f32", False, form.sat) for r in rows]
    f.case("%s %%d, %s;" % (form.text, ", ".join(["%a", "%b", "%c"][:n])), "f32", [h] * (n - 1) + ["f32"], rows, want)


def make():
    f = File("floats", "sm_100a")
    for form in table("add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt", "abs", "neg", "min", "max", "copysign",
                      "testp"):
        t = form.t
        if t[0] in "us" or t == "f32x2" or "approx" in form.mods or "full" in form.mods or "oob" in form.mods:
            continue  # other scripts have these
        h = halves(t)
        e = h or t
        if form.op == "testp":
            f.case("%s %%x, %%a;\nselp.b32 %%d, 1, 0, %%x;" % form.text, "u32", [t], [(v,) for v in EDGE[t]],
                   [int(TESTP[form.mods[0]](decode(a, t), a, t)) for a in EDGE[t]])
            continue
        if len(form.types) > 1:
            mixed(f, form)
            continue
        n = {"mad": 3, "fma": 3, "rcp": 1, "sqrt": 1, "abs": 1, "neg": 1}.get(form.op,
            int(form.shape or 3) - 1 if form.op in ("min", "max") else 2)
        draw = lambda: [(v,) for v in EDGE[e] + floats(e, 60)] if n == 1 else pairs(e) if n == 2 else triples(e)
        rows = draw()
        if form.op in ("abs", "neg"):  # which NaN they make of one is left open
            rows = [r for r in rows if decode(r[0], e)[0] != "nan"]
        want = [one(form, r, e) for r in rows]
        if h:
            high = rng.sample(range(len(rows)), len(rows))
            want = [w | want[k] << 16 for w, k in zip(want, high)]
            rows = [tuple(a | b << 16 for a, b in zip(r, rows[k])) for r, k in zip(rows, high)]
        k = "u32" if h else t
        f.case("%s %%d, %s;" % (form.text, ", ".join(["%a", "%b", "%c"][:n])), k, [k] * n, rows, want)
        if form.op in ("abs", "neg"):
            nans = [v for v in EDGE[e] if decode(v, e)[0] == "nan"]
            rows = [(v | v << 16 if h else v,) for v in nans]
            # a NaN it stays: above infinity with the sign gone
            inf, w = EDGE[e][[decode(v, e)[0] for v in EDGE[e]].index("inf")], width(e)
            clear = "and.b%d %%d, %%d, %d;\n" % (w, (1 << (w - 1)) - 1) if not h else "and.b32 %d, %d, 0x7FFF;\n"
            size = "u32" if h else "u%d" % w
            f.case("%s %%d, %%a;\n%ssetp.gt.%s %%x, %%d, %d;\nselp.b%d %%d, 1, 0, %%x;"
                   % (form.text, clear, size, inf, width(size)), size, [k], rows, [1] * len(rows))
    return f


if __name__ == "__main__":
    main(make)
