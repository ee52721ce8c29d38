"""Integers and bits: arithmetic, division by zero, saturation, shifts and fields past the width, permutations, dot
products.

Division by zero is what GPUs give: all ones, the remainder a; the least number over -1 is itself. The manual leaves
these open.
"""
from casefile import File, ints, main, rng, table, width
from exact import signed, tdiv

SHIFTS = {w: [0, 1, 5, w // 2, w - 1, w, w + 1, 64, 200, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
          for w in (16, 32, 64)}
FIELDS = {w: [0, 1, 7, w // 2, w - 1, w, w + 5, 255, 256, 0xFFFFFFFF] for w in (32, 64)}
LIM = (1 << 31) - 1


def clamp(x, lo=-LIM - 1, hi=LIM):
    return max(lo, min(hi, x))


def divide(a, b, w, rest):
    if b == 0:
        return a if rest else -1
    return a - b * tdiv(a, b) if rest else tdiv(a, b)


def bfe(a, pos, n, w, sg):
    pos, n = pos & 255, n & 255
    if not sg or n == 0:
        return a >> pos & ((1 << n) - 1)
    sign = a >> min(pos + n - 1, w - 1) & 1
    return sum(((a >> (pos + i) & 1) if i < n and pos + i < w else sign) << i for i in range(w))


def bfi(a, b, pos, n, w):
    for i in range(n & 255):
        if (pos & 255) + i < w:
            b = b & ~(1 << ((pos & 255) + i)) | (a >> i & 1) << ((pos & 255) + i)
    return b


def fns(mask, base, n):
    n = signed(n, 32)
    if n == 0:
        return base if mask >> base & 1 else -1
    at = range(base, 32) if n > 0 else range(base, -1, -1)
    found = [p for p in at if mask >> p & 1]
    return found[abs(n) - 1] if abs(n) <= len(found) else -1


def prmt(mode, a, b, c):
    by = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    if mode:
        c = c & 3
        pick = {"f4e": lambda i: (c + i) & 7, "b4e": lambda i: (c - i) & 7, "rc8": lambda i: c,
                "ecl": lambda i: max(c, i),
                "ecr": lambda i: min(c, i), "rc16": lambda i: 2 * (c & 1) + (i & 1)}[mode]
        return sum(by[pick(i)] << 8 * i for i in range(4))
    return sum((255 * (by[c >> 4 * i & 7] >> 7) if c >> 4 * i & 8 else by[c >> 4 * i & 7]) << 8 * i for i in range(4))


def dot(form, a, b, c):
    sa, sb = [t[0] == "s" for t in form.types]
    n, m, at = (4, 8, 0) if form.op == "dp4a" else (2, 16, 2 * ("hi" in form.mods))
    part = lambda v, i, n, s: signed(v >> n * i, n) if s else v >> n * i & ((1 << n) - 1)
    return c + sum(part(a, i, m, sa) * part(b, i + at, 8, sb) for i in range(n))


def half(form, x, w):
    return x >> w if "hi" in form.mods else x


def meaning(form, w):
    """what a form makes of its operands, as numbers (signed where the type is)"""
    op, mods = form.op, form.mods
    sat = (lambda x: clamp(x)) if "sat" in mods else (lambda x: x)
    g = (lambda a: signed(a, 24)) if form.t[0] == "s" else (lambda a: a & 0xFFFFFF)
    bits24 = 16 if "hi" in mods else 0
    return {
        "add": lambda a, b: sat(a + b), "sub": lambda a, b: sat(a - b), "mul": lambda a, b: half(form, a * b, w),
        "mad": lambda a, b, c: sat(half(form, a * b, w) + c), "mul24": lambda a, b: g(a) * g(b) >> bits24,
        "mad24": lambda a, b, c: sat((g(a) * g(b) >> bits24) + c), "sad": lambda a, b, c: c + abs(a - b),
        "div": lambda a, b: divide(a, b, w, False), "rem": lambda a, b: divide(a, b, w, True),
        "abs": lambda a: abs(a), "neg": lambda a: -a,
        "min": lambda a, b: max(0, min(a, b)) if form.relu else min(a, b), "max": lambda a,
        b: max(0, a, b) if form.relu else max(a, b),
        "popc": lambda a: bin(a).count("1"), "clz": lambda a: w - a.bit_length(),
        "bfind": lambda a: find(a, w, "shiftamt" in mods), "fns": fns,
        "brev": lambda a: int(format(a, "0%db" % w)[::-1], 2),
        "bfe": lambda a, p, n: bfe(a & ((1 << w) - 1), p, n, w, form.t[0] == "s"),
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: ~a,
        "cnot": lambda a: int(not a),
        "shl": lambda a, b: a << b if b < w else 0, "shr": lambda a, b: a >> min(b, w), "prmt": lambda a, b,
        c: prmt(mods[0] if mods else "", a, b, c),
        "bmsk": lambda a, b: ((1 << (b & 31)) - 1) << (a & 31) if "wrap" in mods
        else ((1 << min(b, 32)) - 1) << min(a, 32),
        "szext": lambda a, n: extend(a, n & 31 if "wrap" in mods else min(n, 32), form.t[0] == "s"),
        "dp4a": lambda a, b, c: dot(form, a, b, c), "dp2a": lambda a, b, c: dot(form, a, b, c),
    }[op]


def find(a, w, amount):
    top = (~a if a < 0 else a).bit_length() - 1
    return (w - 1 - top if top >= 0 else -1) if amount else top


def extend(a, n, sg):
    a &= (1 << n) - 1
    return signed(a, n) if sg and n else a


def rows_of(form, w):
    """operands (as bits), their types, the type of the result"""
    e, t = ints(w), form.t
    u = "u%d" % w
    two = [(a, b) for a in e for b in rng.sample(e, 8)]
    three = [(rng.choice(e), rng.choice(e), rng.choice(e)) for _ in range(160)]
    op = form.op
    if op in ("mul", "mad") and "wide" in form.mods:
        wide = "%s%d" % (t[0], 2 * w)
        return ([(a, b, rng.choice(ints(2 * w))) for a, b in two], [t, t, wide], wide) if op == "mad" else (two, [t, t],
            wide)
    if op in ("div", "rem"):
        return [(a, b) for a in e for b in e], [t, t], t
    if op in ("mad", "mad24", "sad"):
        return three, [t] * 3, t
    if op in ("abs", "neg", "not", "cnot", "brev"):
        return [(a,) for a in e], [t], t
    if op in ("popc", "clz", "bfind"):
        return [(a,) for a in e], [t], "u32"
    if op in ("shl", "shr"):
        return [(a, b) for a in e for b in SHIFTS[w]], [t, "u32"], t
    if op == "bfe":
        return [(a, rng.choice(FIELDS[w]), rng.choice(FIELDS[w])) for a in e for _ in range(14)], [t, "u32", "u32"], t
    if op == "fns":
        return [(rng.choice((0, 1, 1 << 31, rng.getrandbits(32), 0xFFFFFFFF)),
                 rng.choice((0, 1, 15, 30, 31, rng.randrange(32))),
                 rng.choice((0, 1, 2, 7, 32, 33, -1, -2, -32, -33, 0x7FFFFFFF, -1 << 31)))
                for _ in range(160)], ["u32"] * 3, "u32"
    if op == "prmt":
        return [(rng.getrandbits(32), rng.getrandbits(32), c) for c in list(range(16)) * 2
                + [rng.getrandbits(32) for _ in range(96)]], ["u32"] * 3, "u32"
    if op == "bmsk":
        return [(a, b) for a in (0, 1, 5, 31, 32, 40, 255, 1 << 31)
                for b in (0, 1, 5, 31, 32, 40, 255, 1 << 31)], ["u32"] * 2, "u32"
    if op == "szext":
        return [(a, b) for a in e for b in (0, 1, 5, 31, 32, 33, 40, 255, 1 << 31)], ["u32"] * 2, "u32"
    if op in ("dp4a", "dp2a"):
        x = lambda: rng.choice((0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x80007FFF, rng.getrandbits(32),
                                rng.getrandbits(32)))
        return [(x(), x(), rng.choice((x(), 0x7FFFFFFF))) for _ in range(96)], ["u32"] * 3, "u32"
    return two, [u if t[0] == "b" else t] * 2, t


def signed_operands(form):
    return form.t[0] == "s" and form.op not in ("szext", "dp4a", "dp2a")


def plain(f):
    for form in table("add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max",
                      "popc", "clz", "bfind", "fns",
                      "brev", "bfe", "and", "or", "xor", "not", "cnot", "shl", "shr", "prmt", "bmsk", "szext", "dp4a",
                      "dp2a"):
        t = form.t
        if t in ("pred", "b128") or t[0] not in "usb" or t.startswith("bf") or "cc" in form.mods:
            continue
        if t.endswith("x2"):
            packed(f, form)
            continue
        w = width(t)
        rows, tin, tout = rows_of(form, w)
        tin = ["u" + x[1:] if x[0] == "b" else x for x in tin]
        fn = meaning(form, w)
        sg = signed_operands(form)
        want = [fn(*[signed(v, width(ty)) if sg and ty[0] == "s" else v for v, ty in zip(r, tin)]) for r in rows]
        f.case("%s %%d, %s;" % (form.text, ", ".join(["%a", "%b", "%c"][:len(tin)])), "u" + tout[1:], tin, rows, want)


def packed(f, form):
    """two halves of 16 bits"""
    e = ints(16)
    rows = [(rng.choice(e) | rng.choice(e) << 16, rng.choice(e) | rng.choice(e) << 16) for _ in range(160)]
    fn, n = meaning(form, 16), (lambda v: signed(v, 16)) if form.t[0] == "s" else (lambda v: v & 0xFFFF)
    want = [(fn(n(a), n(b)) & 0xFFFF) | (fn(n(a >> 16), n(b >> 16)) & 0xFFFF) << 16 for a, b in rows]
    f.case("%s %%d, %%a, %%b;" % form.text, "u32", ["u32"] * 2, rows, want)


def others(f):
    for w in (32, 64):
        u, e = "u%d" % w, ints(w)
        rows = [(a, b, rng.choice(FIELDS[w][:8]) | rng.choice(FIELDS[w][:8]) << 16) for a in e
                for b in rng.sample(e, 8)]
        f.case("and.b32 %%z, %%c, 65535;\nshr.u32 %%n, %%c, 16;\nbfi.b%d %%d, %%a, %%b, %%z, %%n;" % w, u,
               [u, u, "u32"], rows,
               [bfi(a, b, c & 0xFFFF, c >> 16, w) for a, b, c in rows])
    e = ints(32)
    rows = [(rng.choice(e), rng.choice(e), rng.choice([0, 1, 8, 31, 32, 33, 63, 64, 200, 0xFFFFFFFF]))
            for _ in range(160)]
    for form in table("shf"):
        amount = (lambda c: c & 31) if "wrap" in form.mods else (lambda c: min(c, 32))
        fn = (lambda a, b, c: (b << 32 | a) << amount(c) >> 32) if "l" in form.mods else (lambda a, b,
            c: (b << 32 | a) >> amount(c))
        f.case("%s %%d, %%a, %%b, %%c;" % form.text, "u32", ["u32"] * 3, rows, [fn(*r) for r in rows])
    rows = [(rng.getrandbits(32), rng.getrandbits(32), rng.getrandbits(32))
            for _ in range(31)] + [(0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA)]
    lut3 = lambda lut, a, b, c: sum((lut >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i
                                    for i in range(32))
    for lut in range(256):
        if lut % 8 == 1 or lut in (0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0, 255, 0xF0, 0xCC, 0xAA):
            f.case("lop3.b32 %%d, %%a, %%b, %%c, %#x;" % lut, "u32", ["u32"] * 3, rows[:12] + rows[-1:],
                   [lut3(lut, *r) for r in rows[:12] + rows[-1:]])
    rows = [(a, b, c) for a in (0, 1, 6) for b in (0, 3, 4) for c in (0, 1)]
    for form in table("lop3"):  # p = (result != 0) op q
        if form.shape:
            both = lambda r, q: int((r != 0 and q) if "and" in form.mods else (r != 0 or q))
            for no in (0, 1):
                f.case("setp.ne.u32 %%y, %%c, 0;\n%s %%z|%%x, %%a, %%b, %%c, 0xC0, %s%%y;\nselp.b32 %%d, 1, 0, "
                       "%%x;\nmad.lo.u32 %%d, %%z, 2, %%d;" % (form.text, "!" * no), "u32", ["u32"] * 3, rows,
                       [2 * lut3(0xC0, a, b, c) + both(lut3(0xC0, a, b, c), bool(c) != bool(no)) for a, b, c in rows])
                f.case("setp.ne.u32 %%y, %%c, 0;\n%s _|%%x, %%a, %%b, %%c, 0xC0, %s%%y;\nselp.b32 %%d, 1, 0, %%x;"
                       % (form.text, "!" * no), "u32", ["u32"] * 3, rows,
                       [both(lut3(0xC0, a, b, c), bool(c) != bool(no)) for a, b, c in rows])


def make():
    f = File("ints")
    plain(f)
    others(f)
    return f


if __name__ == "__main__":
    main(make)
