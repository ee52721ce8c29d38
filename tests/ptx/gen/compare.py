"""Comparisons and selections: setp set selp slct, predicates, redux of f32."""
from fractions import Fraction as F

from casefile import File, floats, ints, main, pairs, rng
from exact import EDGE, NAN, decode, flush, minmax, num, signed


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


def make():
    f = File("compare")
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


if __name__ == "__main__":
    main(make)
