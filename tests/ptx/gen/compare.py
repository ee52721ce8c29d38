"""Comparisons and selections: setp with and without a second destination and a boolean, set, selp, slct; predicates;
redux of f32."""
from casefile import File, floats, halves, ints, main, rng, table, width
from exact import EDGE, NAN, decode, flush, minmax, signed

ORDERED = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
           "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
BOOL = {"and": lambda p, q: p & q, "or": lambda p, q: p | q, "xor": lambda p, q: p ^ q}
ONE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


def order(bits, t):
    """floats as integers in their order, both zeros 0; None for NaN"""
    w = width(t)
    mag = bits & ((1 << (w - 1)) - 1)
    if decode(bits, t)[0] == "nan":
        return None
    return -mag if bits >> (w - 1) else mag


def compared(name, a, b, t, ftz=False):
    name = UNSIGNED.get(name, name)
    if t[0] in "usb" and t[:2] != "bf":
        w = width(t)
        x, y = (signed(a, w), signed(b, w)) if t[0] == "s" else (a, b)
        return int(ORDERED[name](x, y))
    x, y = [order(flush(v, t) if ftz else v, t) for v in (a, b)]
    un = x is None or y is None
    if name in ("num", "nan"):
        return int(un == (name == "nan"))
    return int(len(name) == 3) if un else int(ORDERED[name[:2]](x, y))


def operands(t, n):
    """pairs of edges, equal ones and, of floats, any"""
    h = halves(t)
    if h:
        return [(a | c << 16, b | d << 16) for (a, b), (c, d) in zip(operands(h, n), operands(h, n))]
    is_float = t[0] == "f" or t[:2] == "bf"
    e = EDGE[t] if is_float else ints(width(t))
    rows = [(rng.choice(e), rng.choice(e)) for _ in range(n)] + [(a, a) for a in rng.sample(e, 6)]
    return rows + list(zip(floats(t, 10), floats(t, 10))) if is_float else rows


def cmp_of(form):
    return next(m for m in form.mods if m in ORDERED or m in UNSIGNED or m in ("num", "nan") or m[:2] in ORDERED
                and m[2:] == "u")


def reg(t):
    return "u32" if halves(t) else "u%d" % width(t)


def draw(form, t, pool={}):
    """a few lists of operands a type, used in turn: drawing them anew for each of thousands of forms takes long"""
    lists = pool.setdefault(t, [operands(t, 34) for _ in range(8)])
    return lists[rng.randrange(8)]


def setp_cases(f, want_second):
    for form in table("setp"):
        t = form.t
        h, name = halves(t), cmp_of(form)
        op = next((m for m in form.mods if m in BOOL), "")
        rows = draw(form, t)
        no = rng.randrange(2)
        third = [k & 1 for k in range(len(rows))]  # the boolean operand: odd lanes
        fn = BOOL.get(op, lambda p, q: p)
        if (h and not want_second) or (t in ("f16", "bf16") and want_second):
            continue
        if h:
            two = [[compared(name, a >> s & 0xFFFF, b >> s & 0xFFFF, h, form.ftz) for s in (0, 16)] for a, b in rows]
            want = [fn(p, c ^ no) | fn(q, c ^ no) << 1 for (p, q), c in zip(two, third)]
        else:
            one = [compared(name, a, b, t, form.ftz) for a, b in rows]
            want = [fn(p, c ^ no) | (fn(1 - p, c ^ no) << 1 if want_second else 0) for p, c in zip(one, third)]
        third_text, setup = "", ""
        if op:
            # the third predicate may be one of the destinations
            who = rng.choice(["%out", "%x", "%y"] if want_second else ["%out", "%x"])
            third_text, setup = ", %s%s" % ("!" * no, who), "and.b32 %%z, %%j, 1;\nsetp.ne.u32 %s, %%z, 0;\n" % who
        dst = "%x|%y" if want_second else "%x"
        read = "\nselp.b32 %d, 1, 0, %x;" + ("\n@%y add.u32 %d, %d, 2;" if want_second else "")
        f.case("%s %s, %%a, %%b%s;%s" % (form.text, dst, third_text, read), "u32", [reg(t)] * 2, rows, want,
               setup=setup)


def set_cases(f):
    for form in table("set"):
        to, t = form.types
        h, name, op = halves(t), cmp_of(form), next((m for m in form.mods if m in BOOL), "")
        rows, no = draw(form, t), rng.randrange(2)
        fn = BOOL.get(op, lambda p, q: p)
        third = [(k & 1) ^ no for k in range(len(rows))]
        if h:
            k = ONE[halves(to)] if halves(to) else 0xFFFF
            bits = [[fn(compared(name, a >> s & 0xFFFF, b >> s & 0xFFFF, h, form.ftz), c) for s in (0, 16)]
                    for (a, b), c in zip(rows, third)]
            want = [k * p | k * q << 16 for p, q in bits]
        else:
            k = ONE.get(to, (1 << width(to)) - 1)
            want = [k * fn(compared(name, a, b, t, form.ftz), c) for (a, b), c in zip(rows, third)]
        setup = "and.b32 %z, %j, 1;\nsetp.ne.u32 %x, %z, 0;\n" if op else ""
        f.case("%s %%d, %%a, %%b%s;" % (form.text, ", %s%%x" % ("!" * no) if op else ""), reg(to), [reg(t)] * 2, rows,
               want, setup=setup)


def choices(f):
    for form in table("selp"):
        u, e = "u%d" % width(form.t), ints(width(form.t))
        rows = [(rng.choice(e), rng.choice(e), rng.choice((0, 1))) for _ in range(64)]
        for no in (0, 1):
            f.case("setp.ne.u32 %%x, %%c, 0;\n%s %%d, %%a, %%b, %s%%x;" % (form.text, "!" * no), u, [u, u, "u32"], rows,
                   [a if c != no else b for a, b, c in rows])
    for form in table("slct"):
        u, e = "u%d" % width(form.t), ints(width(form.t))
        sign = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF) if form.types[1] == "s32" else EDGE["f32"]
        rows = [(rng.choice(e), rng.choice(e), c) for c in sign for _ in range(4)]

        def first(c):
            if form.types[1] == "s32":
                return signed(c, 32) >= 0
            x = order(flush(c, "f32") if form.ftz else c, "f32")
            return x is not None and x >= 0
        f.case("%s %%d, %%a, %%b, %%c;" % form.text, u, [u, u, "u32"], rows, [a if first(c) else b for a, b, c in rows])
    rows = [(p,) for p in range(16)]
    f.case("setp.ge.u32 %x, %a, 8;\nand.b32 %j, %a, 4;\nsetp.ne.u32 %y, %j, 0;\nxor.pred %out, %x, %y;\nand.pred %x, "
           "%out, %y;\n"
           "or.pred %y, %x, %out;\nnot.pred %out, %y;\nmov.pred %x, %out;\nselp.b32 %d, 1, 0, %x;", "u32", ["u32"],
           rows,
           [1 - int((p >= 8) != bool(p & 4)) for p, in rows])


def redux(f):
    for form in table("redux"):
        if form.t != "f32":
            continue
        for kind in range(4):
            v = [rng.choice(EDGE["f32"]) for _ in range(32)] if kind == 0 else [0x7FC00001] * 32 if kind == 1 else [x
                for x in floats("f32", 200) if decode(x, "f32")[0] != "nan"][:32]
            if kind == 3:
                v[rng.randrange(32)] = 0xFFC12345
            r = None
            for x in v:
                x = x & 0x7FFFFFFF if "abs" in form.mods else x
                r = (NAN["f32"] if decode(x, "f32")[0] == "nan" else x) if r is None else minmax(r, x, "f32",
                    "max" in form.mods, "NaN" in form.mods)
            f.case("%s %%d, %%a, -1;" % form.text, "u32", ["u32"], [(x,) for x in v], [r] * 32)


def make():
    f = File("compare", "sm_100a")
    setp_cases(f, False)
    setp_cases(f, True)
    choices(f)
    redux(f)
    return f


if __name__ == "__main__":
    main(make)
