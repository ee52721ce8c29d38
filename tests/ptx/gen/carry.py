"""The extended-precision family: every writer of the carry flag before every reader, 32 and 64 bits wide, both ways.

The flag is one bit and always a carry: a - b is a + ~b + 1, and subc is a + ~b + flag, so a subtraction sets it where
it borrows nothing. ../carry-asm.py holds the same meaning() against what ptxas makes of the same pairs.
"""
from casefile import File, ints, main, rng, table, width
from exact import signed

SCALE = 0x9E3779B97F4A7C15  # odd: the three results of a pair are told apart in one number


def meaning(form, a, b, c, flag):
    """what a form makes of its operands (bits) and the flag: the result, and the carry it gives if it has .cc"""
    w = width(form.t)
    m = (1 << w) - 1
    if form.op.startswith("sub"):
        x, y, flag = a, ~b & m, flag if form.op == "subc" else 1
    elif form.op.startswith("mad"):
        a, b = (signed(a, w), signed(b, w)) if form.t[0] == "s" else (a, b)
        x, y, flag = a * b >> (w if "hi" in form.mods else 0) & m, c, flag if form.op == "madc" else 0
    else:
        x, y, flag = a, b, flag if form.op == "addc" else 0
    return x + y + flag & m, x + y + flag >> w


def writers():
    return [f for f in table("add", "addc", "sub", "subc", "mad", "madc") if "cc" in f.mods]


def readers():
    return [f for f in table("addc", "subc", "madc")]


def pairs():
    """every writer before every reader; where the sign means nothing one of both stands for the pair, in turns"""
    full = lambda f: "hi" in f.mods
    alike, second = {}, readers()
    for p in writers():
        for q in second:
            key = [(f.text[:-3] if not full(f) else f.text, f.text[-2:]) for f in (p, q)]
            alike.setdefault(str(key), []).append((p, q))
    return [v[(k + k // len(second)) % len(v)] for k, v in enumerate(alike.values())]


def steps(p, q, rows):
    """of each row of six numbers and a flag: what p gives, what q gives, and the flag after both"""
    out = []
    for *x, flag in rows:
        first, carry = meaning(p, *[v & (1 << width(p.t)) - 1 for v in x[:3]], flag)
        second, after = meaning(q, *[v & (1 << width(q.t)) - 1 for v in x[3:]], carry)
        out.append((first, second, after if "cc" in q.mods else carry))
    return out


def text(form, d, x):
    return "%s %s, %s;" % (form.text, d, ", ".join(x[:3 if form.op.startswith("mad") else 2]))


def chosen(n):
    e = ints(64) + [0, 1, (1 << 32) - 1, (1 << 64) - 1, 1 << 32]
    return [(*[rng.choice(e) for _ in range(6)], k & 1) for k in range(n)]


def make():
    f = File("carry")
    for p, q in pairs():
        wp, wq = width(p.t), width(q.t)
        rows = [(a, b, c, b, c, a, k & 1) for k, (a, b, c, *_) in enumerate(chosen(32))]
        m = (1 << 64) - 1
        want = [(x * SCALE + y) * SCALE + z & m for x, y, z in steps(p, q, rows)]
        reg = lambda n, w: "%%%s%d" % (n, w)
        regs = ".reg .b32 %s, %a32, %b32, %c32, %u32, %v32; .reg .b64 %u64, %v64, %f;"
        body = ["cvt.u32.u64 %%%s32, %%%s;" % (c, c) for c in "abc"]
        src = lambda w, names: ["%%%s32" % n if w == 32 else "%" + n for n in names]
        body += ["and.b32 %s, %j, 1;", "add.cc.u32 %s, %s, -1;", text(p, reg("u", wp), src(wp, "abc")),
                 text(q, reg("v", wq), src(wq, "bca")),
                 "addc.u64 %f, 0, 0;"]
        body += ["cvt.u64.u32 %u64, %u32;"] * (wp == 32) + ["cvt.u64.u32 %v64, %v32;"] * (wq == 32)
        body += ["mad.lo.u64 %%d, %%u64, %d, %%v64;" % SCALE, "mad.lo.u64 %%d, %%d, %d, %%f;" % SCALE]
        f.case("\n".join(body), "u64", ["u64"] * 3, [r[:3] for r in rows], want, "", regs)
    wide(f)
    return f


def wide(f):
    """64-bit and wider sums, differences and products from halves"""
    e = ints(64)
    rows = [(a, b) for a in e for b in rng.sample(e, 6)]
    split = "mov.b64 {%x0, %x1}, %a;\nmov.b64 {%y0, %y1}, %b;\n"
    regs = ".reg .b32 %x0, %x1, %y0, %y1, %z0, %z1, %z2;"
    f.case("add.cc.u32 %z0, %x0, %y0;\naddc.u32 %z1, %x1, %y1;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows,
           [a + b for a, b in rows], split, regs)
    f.case("sub.cc.u32 %z0, %x0, %y0;\nsubc.u32 %z1, %x1, %y1;\nmov.b64 %d, {%z0, %z1};", "u64", ["u64"] * 2, rows,
           [a - b for a, b in rows], split, regs)
    f.case("add.cc.u32 %z0, %x0, %y0;\naddc.cc.u32 %z1, %x1, %y1;\naddc.u32 %z2, 0, 0;\nmov.b64 %d, {%z1, %z2};", "u64",
           ["u64"] * 2, rows,
           [a + b >> 32 for a, b in rows], split, regs)
    f.case("mul.lo.u32 %z0, %x0, %y0;\nmul.hi.u32 %z1, %x0, %y0;\nmad.lo.cc.u32 %z1, %x0, %y1, %z1;\nmadc.hi.u32 %z2, "
           "%x0, %y1, 0;\n"
           "mad.lo.cc.u32 %z1, %x1, %y0, %z1;\nmadc.hi.u32 %z2, %x1, %y0, %z2;\nmov.b64 %d, {%z0, %z1};", "u64",
           ["u64"] * 2, rows,
           [a * b for a, b in rows], split, regs)


if __name__ == "__main__":
    main(make)
