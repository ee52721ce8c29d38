"""Integers and bits, with carries, shifts past the width and saturation."""
from casefile import File, ints, main, rng, width
from exact import signed, tdiv


def make():
    f = File("ints")

    def two(text, t, fn, n=6, dt=None, bt=None, brange=None):
        w = width(t)
        e = ints(w)
        rows = [(a, b) for a in e for b in (rng.sample(e, n) if brange is None else brange)]
        sg = t[0] == "s"
        val = [(signed(a, w) if sg else a, signed(b, w) if sg and brange is None else b) for a, b in rows]
        f.case(text + " %d, %a, %b;", dt or t, [t, bt or t], rows, [fn(a, b) for a, b in val])

    def three(text, t, fn, dt=None, ct=None):
        w = width(t)
        e, e2 = ints(w), ints(width(ct or t))
        rows = [(rng.choice(e), rng.choice(e), rng.choice(e2)) for _ in range(128)]
        sg = t[0] == "s"
        val = [tuple(signed(v, width(ty)) if sg else v for v, ty in zip(r, (t, t, ct or t))) for r in rows]
        f.case(text + " %d, %a, %b, %c;", dt or t, [t, t, ct or t], rows, [fn(*r) for r in val])

    for w in (16, 32, 64):
        for t in ("u%d" % w, "s%d" % w):
            two("add.%s" % t, t, lambda a, b: a + b)
            two("sub.%s" % t, t, lambda a, b: a - b)
            two("mul.lo.%s" % t, t, lambda a, b: a * b)
            two("mul.hi.%s" % t, t, lambda a, b: a * b >> w)
            two("min.%s" % t, t, min)
            two("max.%s" % t, t, max)
            three("mad.lo.%s" % t, t, lambda a, b, c: a * b + c)
            three("mad.hi.%s" % t, t, lambda a, b, c: (a * b >> w) + c)
            three("sad.%s" % t, t, lambda a, b, c: c + abs(a - b))
            e = ints(w)
            sg = t[0] == "s"
            rows = [(a, b) for a in e for b in e if b]
            val = [(signed(a, w), signed(b, w)) if sg else (a, b) for a, b in rows]
            f.case("div.%s %%d, %%a, %%b;" % t, t, [t, t], rows, [tdiv(a, b) for a, b in val])
            f.case("rem.%s %%d, %%a, %%b;" % t, t, [t, t], rows, [a - b * tdiv(a, b) for a, b in val])
            if w < 64:
                wide = "%s%d" % (t[0], 2 * w)
                two("mul.wide.%s" % t, t, lambda a, b: a * b, dt=wide)
                three("mad.wide.%s" % t, t, lambda a, b, c: a * b + c, dt=wide, ct=wide)
            sh = [0, 1, 5, w - 1, w, w + 1, 64, 200, 0xFFFFFFFF]
            two("shr.%s" % t, t, lambda a, b: a >> min(b, w), bt="u32", brange=sh)
        two("shl.b%d" % w, "u%d" % w, lambda a, b: a << b if b < w else 0, bt="u32", brange=[0, 1, 5, w - 1, w, w + 1, 64, 200, 0xFFFFFFFF])
        for op, fn in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
            two("%s.b%d" % (op, w), "u%d" % w, fn)
        rows = [(a,) for a in ints(w)]
        u, s = "u%d" % w, "s%d" % w
        f.case("not.b%d %%d, %%a;" % w, u, [u], rows, [~a for a, in rows])
        f.case("cnot.b%d %%d, %%a;" % w, u, [u], rows, [int(not a) for a, in rows])
        f.case("abs.%s %%d, %%a;" % s, s, [s], rows, [abs(signed(a, w)) for a, in rows])
        f.case("neg.%s %%d, %%a;" % s, s, [s], rows, [-a for a, in rows])
        if w > 16:
            f.case("popc.b%d %%d, %%a;" % w, "u32", [u], rows, [bin(a).count("1") for a, in rows])
            f.case("clz.b%d %%d, %%a;" % w, "u32", [u], rows, [w - a.bit_length() for a, in rows])
            f.case("brev.b%d %%d, %%a;" % w, u, [u], rows, [int(format(a, "0%db" % w)[::-1], 2) for a, in rows])
            f.case("bfind.u%d %%d, %%a;" % w, "u32", [u], rows, [a.bit_length() - 1 for a, in rows])
            f.case("bfind.shiftamt.u%d %%d, %%a;" % w, "u32", [u], rows, [w - a.bit_length() if a else -1 for a, in rows])
            f.case("bfind.s%d %%d, %%a;" % w, "u32", [u], rows, [(~signed(a, w) if signed(a, w) < 0 else a).bit_length() - 1 for a, in rows])
            prs = [(a, rng.choice([0, 1, 7, w - 1, w, w + 5, 255]), rng.choice([0, 1, 8, w - 1, w, w + 3, 255])) for a in ints(w) for _ in range(10)]
            f.case("bfe.u%d %%d, %%a, %%b, %%c;" % w, u, [u, "u32", "u32"], prs, [a >> p & ((1 << n) - 1) for a, p, n in prs])
            f.case("bfe.s%d %%d, %%a, %%b, %%c;" % w, u, [u, "u32", "u32"], prs, [bfe_s(a, p, n, w) for a, p, n in prs])
            prs = [(a, b, rng.choice([0, 1, 7, w - 1, w, w + 5, 255]) | rng.choice([0, 1, 8, w - 1, w, w + 3, 255]) << 16) for a in ints(w)
                   for b in rng.sample(ints(w), 5)]
            f.case("and.b32 %%i, %%c, 65535;\nshr.u32 %%z, %%c, 16;\nbfi.b%d %%d, %%a, %%b, %%i, %%z;\nmov.u32 %%i, %%ctaid.x;\nmad.lo.u32 %%i, %%i, 32, %%j;" % w, u, [u, u, "u32"], prs,
                   [bfi(a, b, c & 0xFFFF, c >> 16, w) for a, b, c in prs])
    lim = (1 << 31) - 1
    two("add.sat.s32", "s32", lambda a, b: max(-lim - 1, min(lim, a + b)))
    two("sub.sat.s32", "s32", lambda a, b: max(-lim - 1, min(lim, a - b)))
    three("mad.hi.sat.s32", "s32", lambda a, b, c: max(-lim - 1, min(lim, (a * b >> 32) + c)))
    u24, s24 = (lambda a: a & 0xFFFFFF), (lambda a: signed(a, 24))
    for t, g in (("u32", u24), ("s32", s24)):
        two("mul24.lo.%s" % t, t, lambda a, b: g(a) * g(b))
        two("mul24.hi.%s" % t, t, lambda a, b: g(a) * g(b) >> 16)
        three("mad24.lo.%s" % t, t, lambda a, b, c: g(a) * g(b) + c)
        three("mad24.hi.%s" % t, t, lambda a, b, c: (g(a) * g(b) >> 16) + c)
    e = ints(32)
    rows = [(rng.choice(e), rng.choice(e), rng.choice([0, 1, 8, 31, 32, 33, 63, 64, 200])) for _ in range(128)]
    for mode, cl in (("wrap", lambda c: c & 31), ("clamp", lambda c: min(c, 32))):
        f.case("shf.l.%s.b32 %%d, %%a, %%b, %%c;" % mode, "u32", ["u32"] * 3, rows, [((b << 32 | a) << cl(c)) >> 32 for a, b, c in rows])
        f.case("shf.r.%s.b32 %%d, %%a, %%b, %%c;" % mode, "u32", ["u32"] * 3, rows, [(b << 32 | a) >> cl(c) for a, b, c in rows])
    rows = [(rng.getrandbits(32), rng.getrandbits(32), rng.getrandbits(32)) for _ in range(64)]
    for lut in (0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0, 255):
        f.case("lop3.b32 %%d, %%a, %%b, %%c, %#x;" % lut, "u32", ["u32"] * 3, rows,
               [sum((lut >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32)) for a, b, c in rows])
    rows = [(a, b, rng.getrandbits(16)) for a, b, _ in rows] + [(a, b, k) for a, b, _ in rows[:4] for k in range(16)]

    def prmt(a, b, c):
        by = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
        return sum((255 * (by[c >> 4 * i & 7] >> 7) if c >> 4 * i & 8 else by[c >> 4 * i & 7]) << 8 * i for i in range(4))
    f.case("prmt.b32 %d, %a, %b, %c;", "u32", ["u32"] * 3, rows, [prmt(*r) for r in rows])
    modes = {"f4e": lambda c, i: (c + i) & 7, "b4e": lambda c, i: (c - i) & 7, "rc8": lambda c, i: c, "ecl": lambda c, i: max(c, i),
             "ecr": lambda c, i: min(c, i), "rc16": lambda c, i: 2 * (c & 1) + (i & 1)}
    for m, fn in modes.items():
        f.case("prmt.b32.%s %%d, %%a, %%b, %%c;" % m, "u32", ["u32"] * 3, rows,
               [sum(((b << 32 | a) >> 8 * fn(c & 3, i) & 255) << 8 * i for i in range(4)) for a, b, c in rows])
    rows = [(rng.choice([0, 1, 5, 31, 32, 40]), rng.choice([0, 1, 5, 31, 32, 40])) for _ in range(64)]
    f.case("bmsk.clamp.b32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [((1 << min(b, 32)) - 1) << min(a, 32) for a, b in rows])
    f.case("bmsk.wrap.b32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [((1 << (b & 31)) - 1) << (a & 31) for a, b in rows])
    rows = [(a, b) for a in e for b in (0, 1, 5, 31, 32, 40)]
    f.case("szext.clamp.u32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [a & ((1 << min(b, 32)) - 1) for a, b in rows])
    f.case("szext.clamp.s32 %d, %a, %b;", "u32", ["u32"] * 2, rows, [a if b > 31 else signed(a, b) if b else 0 for a, b in rows])
    rows = [(rng.getrandbits(32), rng.getrandbits(32), rng.getrandbits(32)) for _ in range(64)]
    for ta in "us":
        for tb in "us":
            def part(v, i, n, t):
                x = v >> n * i & ((1 << n) - 1)
                return signed(x, n) if t == "s" else x
            f.case("dp4a.%s32.%s32 %%d, %%a, %%b, %%c;" % (ta, tb), "u32", ["u32"] * 3, rows,
                   [c + sum(part(a, i, 8, ta) * part(b, i, 8, tb) for i in range(4)) for a, b, c in rows])
            for hi in (0, 1):
                f.case("dp2a.%s.%s32.%s32 %%d, %%a, %%b, %%c;" % ("lohi"[2 * hi:2 * hi + 2], ta, tb), "u32", ["u32"] * 3, rows,
                       [c + sum(part(a, i, 16, ta) * part(b, i + 2 * hi, 8, tb) for i in range(2)) for a, b, c in rows])
    # carries: 64-bit sums, differences and products from 32-bit halves
    e = ints(64)
    rows = [(a, b) for a in e for b in rng.sample(e, 6)]
    split = "mov.b64 {%x0, %x1}, %a;\nmov.b64 {%y0, %y1}, %b;\n"
    regs = ".reg .b32 %x0, %x1, %y0, %y1, %z0, %z1, %z2;"
    f.case("add.cc.u32 %z0, %x0, %y0;\naddc.u32 %z1, %x1, %y1;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows, [a + b for a, b in rows], split, regs)
    f.case("sub.cc.u32 %z0, %x0, %y0;\nsubc.u32 %z1, %x1, %y1;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows, [a - b for a, b in rows], split, regs)
    f.case("add.cc.u32 %z0, %x0, %y0;\naddc.cc.u32 %z1, %x1, %y1;\naddc.u32 %z2, 0, 0;\nmov.b64 %d, {%z1, %z2};", "u64", ["u64"] * 2, rows,
           [a + b >> 32 for a, b in rows], split, regs)
    f.case("mul.lo.u32 %z0, %x0, %y0;\nmul.hi.u32 %z1, %x0, %y0;\nmad.lo.cc.u32 %z1, %x0, %y1, %z1;\nmadc.hi.u32 %z2, %x0, %y1, 0;\n"
           "mad.lo.cc.u32 %z1, %x1, %y0, %z1;\nmadc.hi.u32 %z2, %x1, %y0, %z2;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows,
           [a * b for a, b in rows], split, regs)
    rows = [(a, b, c) for a, b in rows for c in (5,)]
    f.case("add.cc.u64 %w, %a, %b;\naddc.u64 %d, %c, 0;", "u64", ["u64"] * 3, rows, [(a + b >> 64) + c for a, b, c in rows])
    return f


def bfe_s(a, pos, n, w):
    v = signed(a, w)
    if n == 0:
        return 0
    sign = a >> min(pos + n - 1, w - 1) & 1
    return sum(((a >> (pos + i) & 1) if i < n and pos + i < w else sign) << i for i in range(w))


def bfi(a, b, pos, n, w):
    for i in range(n):
        if pos + i < w:
            b = b & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
    return b


if __name__ == "__main__":
    main(make)
