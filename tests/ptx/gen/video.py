"""Video instructions on two half-words or four bytes, after the manual's pseudocode (PTX ISA, "Video Instructions").

Each form has operands with lanes at the ends of their ranges, in all eight places that a selector may name. Masks are
taken in turn, so that every one of them occurs with every instruction; selectors and which of them are left out are
drawn.
"""
from itertools import combinations

from casefile import File, main, rng, table

EDGES = {8: (0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF),
         16: (0, 1, 2, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF)}


def lanes_of(word, width, signed):
    out = []
    for k in range(32 // width):
        x = (word >> width * k) % 2 ** width
        out.append(x - 2 ** width if signed and x >= 2 ** (width - 1) else x)
    return out


def extract(a, b, chosen, width, signed):
    """chosen: digits of a selector as written, the highest lane's first"""
    both = lanes_of(a, width, signed) + lanes_of(b, width, signed)
    return [both[k] for k in reversed(chosen)]


def average(s):
    return (s + 1) // 2 if s >= 0 else -((1 - s) // 2)  # halves away from zero


OPERATION = {
    "vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vavrg": lambda x, y: average(x + y), "vabsdiff": lambda x,
    y: abs(x - y),
    "vmin": min, "vmax": max,
}
COMPARE = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
           "gt": lambda x, y: x > y,
           "ge": lambda x, y: x >= y}


def meaning(form, a, b, c, mask, asel, bsel):
    n = int(form.op[-1])
    w = 32 // n
    *d, ta, tb = form.types
    va, vb = extract(a, b, asel, w, ta == "s32"), extract(a, b, bsel, w, tb == "s32")
    if form.op[:-1] == "vset":
        fn = COMPARE[form.mods[0]]
        t = [int(fn(x, y)) for x, y in zip(va, vb)]
    else:
        t = [OPERATION[form.op[:-1]](x, y) for x, y in zip(va, vb)]
    if form.sat:
        low, high = (-2 ** (w - 1), 2 ** (w - 1) - 1) if d[0] == "s32" else (0, 2 ** w - 1)
        t = [min(max(x, low), high) for x in t]
    if "add" in form.mods:
        return c + sum(t[k] for k in mask)
    vc = lanes_of(c, w, False)
    return sum((t[k] if k in mask else vc[k]) % 2 ** w << w * k for k in range(n))


def word(w):
    if rng.random() < 0.2:
        return rng.getrandbits(32)
    return sum(rng.choice(EDGES[w]) << w * k for k in range(32 // w))


def digits(letter, chosen):
    return ".%s%s" % (letter, "".join(map(str, chosen)))


def make():
    f = File("video")
    turn = {}
    for form in table(*(o + n for o in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset") for n in "24")):
        n = int(form.op[-1])
        letter, w, places = "h" if n == 2 else "b", 32 // n, range(2 * n)
        masks = [m for size in range(n, 0, -1) for m in combinations(range(n - 1, -1, -1), size)]  # the first: all
        k = turn.get(form.op, 0)
        turn[form.op] = k + 1
        plain = k % 4 == 0
        mask = masks[0] if plain else masks[(k - (k + 3) // 4) % len(masks)]
        asel, bsel = tuple(range(n - 1, -1, -1)), tuple(range(2 * n - 1, n - 1, -1))
        text = ["%d", "%a", "%b", "%c"]
        if not plain:
            text[0] += digits(letter, mask)
            if rng.random() < 0.8:
                asel = tuple(rng.choice(places) for _ in range(n))
                text[1] += digits(letter, asel)
            if rng.random() < 0.8:
                bsel = tuple(rng.choice(places) for _ in range(n))
                text[2] += digits(letter, bsel)
        rows = [(word(w), word(w), rng.choice((0, 0xFFFFFFFF, rng.getrandbits(32)))) for _ in range(64)]
        f.case("%s %s;" % (form.text, ", ".join(text)), "u32", ["u32"] * 3, rows,
               [meaning(form, *r, mask, asel, bsel) for r in rows])
    return f


if __name__ == "__main__":
    main(make)
