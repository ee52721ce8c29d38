"""Video instructions on one value, after the manual's pseudocode (PTX ISA, "Scalar Video Instructions").

Selectors are drawn, and whether a result that is not combined otherwise goes into a part of c; constants stand for
operands now and then.
"""
from casefile import File, main, rng, table

EDGES = (0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001,
         0xFFFFFFFE, 0xFFFFFFFF)
PARTS = [("", 0, 32)] + [(".b%d" % k, 8 * k, 8) for k in range(4)] + [(".h%d" % k, 16 * k, 16) for k in range(2)]
COMPARE = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
           "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}
PLAIN = {"vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vabsdiff": lambda x, y: abs(x - y), "vmin": min,
         "vmax": max}


def signed(x, bits):
    x %= 2 ** bits
    return x - 2 ** bits if x >> (bits - 1) else x


def part(x, sel, t):
    v = x >> sel[1] & (2 ** sel[2] - 1)
    return signed(v, sel[2]) if t == "s32" else v


def clamp(x, is_signed, bits):
    return min(max(x, -2 ** (bits - 1) if is_signed else 0), 2 ** (bits - is_signed) - 1)


def mad(form, x, y, c, neg, neg_c):
    sign = "s32" in form.types[1:] or neg or neg_c
    t, lsb = x * y, 0
    if "po" in form.mods:
        lsb = 1
    elif neg:
        t, lsb = ~t, 1
    elif neg_c:
        c, lsb = ~c % 2 ** 32, 1
    t += (signed(c, 32) if sign else c) + lsb
    t >>= 7 if "shr7" in form.mods else 15 if "shr15" in form.mods else 0
    return clamp(t, sign, 32) if form.sat else t


def meaning(form, a, b, c, dsel, asel, bsel):
    *d, ta, tb = form.types
    is_signed = bool(d) and d[0] == "s32"
    x, y = part(a, asel, ta), part(b, bsel, tb)
    if form.op == "vset":
        t = int(COMPARE[form.mods[0]](x, y))
    elif form.op in ("vshl", "vshr"):
        n = y & 31 if "wrap" in form.mods else min(y, 32)
        t = x << n if form.op == "vshl" else x >> n
    else:
        t = PLAIN[form.op](x, y)
    if form.sat:
        t = clamp(t, is_signed, dsel[2])
    for name, fn in (("add", lambda p, q: p + q), ("min", min), ("max", max)):
        if name in form.mods:
            return fn(signed(t, 32), signed(c, 32)) if is_signed else fn(t % 2 ** 32, c)
    mask = (2 ** dsel[2] - 1) << dsel[1]
    return (c & ~mask) | (t << dsel[1] & mask)


def word():
    return rng.choice(EDGES) if rng.random() < 0.7 else rng.getrandbits(32)


def make():
    f = File("video1")
    for k, form in enumerate(table("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset")):
        second = bool({"add", "min", "max"} & set(form.mods))
        asel, bsel = rng.choice(PARTS), rng.choice(PARTS)
        dsel = PARTS[0] if second or form.op == "vmad" or k % 3 == 0 else rng.choice(PARTS)
        rows = [(word(), rng.randrange(40) if form.op in ("vshl", "vshr") and rng.random() < 0.5 else word(), word())
                for _ in range(64)]
        text = ["%d" + dsel[0], "%a" + asel[0], "%b" + bsel[0], "%c"]
        if k % 7 == 1:  # a constant has no selector
            bsel, n = PARTS[0], rng.randrange(40)
            text[2], rows = str(n), [(a, n, c) for a, _, c in rows]
        if form.op == "vmad":
            minus = (0, 0, 0) if "po" in form.mods else rng.choice([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1),
                                                                    (1, 1, 0)])
            text[1:] = ["-" * m + t if t[0] == "%" else t for m, t in zip(minus, text[1:])]
            minus = [m and t[0] == "-" for m, t in zip(minus, text[1:])]
            want = [mad(form, part(a, asel, form.types[1]), part(b, bsel, form.types[2]), c, minus[0] != minus[1],
                        minus[2]) for a, b, c in rows]
        else:
            if not second and not dsel[0] and k % 2:
                text.pop()
                rows = [(a, b, 0) for a, b, _ in rows]
            want = [meaning(form, *r, dsel, asel, bsel) for r in rows]
        f.case("%s %s;" % (form.text, ", ".join(text)), "u32", ["u32"] * 3, rows, want)
    return f


if __name__ == "__main__":
    main(make)
