"""atom and red: every operation, type, space, order and scope, vectors among them; old values and new ones. Each lane
has a place of its own, so that both are known; then all lanes at one place.

f32 sums flush subnormals in global memory and keep them in shared memory (manual, atom); halves keep them (.noftz).
"""
import functools

from casefile import File, floats, halves, ints, main, rng, table, width
from exact import EDGE, add, decode, encode, flush, minmax, signed
from memory import entry, words



def operands(t):
    if t == "b128":
        return [rng.getrandbits(128) for _ in range(16)]
    return EDGE[t] + floats(t, 20) if t[0] == "f" or t[:2] == "bf" else ints(width(t))


def one(op, t, old, b, c, is_global):
    """the new value"""
    h = halves(t)
    if h:
        return one(op, h, old & 0xFFFF, b & 0xFFFF, 0, is_global) | one(op, h, old >> 16, b >> 16, 0, is_global) << 16
    w = 128 if t == "b128" else width(t)
    m = (1 << w) - 1
    if t[0] == "f" or t[:2] == "bf":
        if op in ("min", "max"):
            return minmax(old, b, t, op == "max", False)
        if op == "add":
            ftz = t == "f32" and is_global
            x, y = [decode(flush(v, t) if ftz else v, t) for v in (old, b)]
            r = encode(add(x, y, "rn"), t)
            return flush(r, t) if ftz else r
    n = (lambda v: signed(v, w)) if t[0] == "s" else (lambda v: v)
    return {"add": lambda: old + b, "and": lambda: old & b, "or": lambda: old | b, "xor": lambda: old ^ b,
            "exch": lambda: b,
            "min": lambda: min(n(old), n(b)), "max": lambda: max(n(old), n(b)),
            "inc": lambda: 0 if old >= b else old + 1,
            "dec": lambda: b if old == 0 or old > b else old - 1, "cas": lambda: c if old == b else old}[op]() & m


OPS = ("add", "and", "or", "xor", "exch", "min", "max", "inc", "dec", "cas")


def case(f, form):
    t, red = form.t, form.op == "red"
    op = next(m for m in form.mods if m in OPS)
    named = next((m for m in form.mods if m in ("global", "shared")), None)
    space = named or rng.choice(("global", "shared") if not any(m[0] == "v" and m[1:].isdigit() for m in form.mods)
                                else ("global",))
    vec = next((int(m[1]) for m in form.mods if m in ("v2", "v4", "v8")), 1)
    w = 128 if t == "b128" else width(t)
    size = w // 8
    pool, h = operands(halves(t) or t), halves(t)
    draw = lambda: rng.choice(pool) | rng.choice(pool) << 16 if h else rng.choice(pool)
    n = 32 * vec
    old = [draw() for _ in range(n)]
    b = [draw() for _ in range(n)]
    c = [draw() for _ in range(n)]
    if op == "cas":
        b = [o if rng.random() < 0.5 else v for o, v in zip(old, b)]
    new = [one(op, t, o, x, y, space == "global") for o, x, y in zip(old, b, c)]
    r = t if t in ("f32", "f64") else "b%d" % w
    regs = " ".join(".reg .%s %s;" % (r, ", ".join("%%%s%d" % (x, k) for k in range(vec))) for x in "obc")
    name = lambda x: "%%%s0" % x if vec == 1 else "{%s}" % ", ".join("%%%s%d" % (x, k) for k in range(vec))
    step = size * vec

    def load(x):
        return ["ld.param.u64 %%p, [%s];" % x, "mad.wide.u32 %%p, %%i, %d, %%p;"
                % step] + ["ld.global.b%d %%%s%d, [%%p+%d];" % (w, x, k, k * size) for k in range(vec)]
    body = load("b") + (load("c") if op == "cas" else [])
    if space == "global":
        body += ["ld.param.u64 %g, [t];", "mad.wide.u32 %%g, %%i, %d, %%g;" % step]
    else:
        body += ["mov.u64 %g, sh;", "mad.wide.u32 %%g, %%i, %d, %%g;" % step, "ld.param.u64 %p, [t];",
                 "mad.wide.u32 %%p, %%i, %d, %%p;" % step]
        body += ["ld.global.b%d %%o0, [%%p];" % w, "st.shared.b%d [%%g], %%o0;" % w] + ([] if named
            else ["cvta.shared.u64 %g, %g;"])
    text = form.text.replace(".shared", ".shared::cta") if rng.random() < 0.3 else form.text
    hint = "L2::cache_hint" in form.mods
    if hint:
        body.append("createpolicy.fractional.L2::evict_last.b64 %pol, 0.5;")
    sources = ", ".join([name("b")] + ([name("c")] if op == "cas" else []) + (["%pol"] if hint else []))
    body.append("%s %s[%%g], %s;" % (text, "" if red else name("o") + ", ", sources))
    if not red:
        body += ["ld.param.u64 %p, [d];", "mad.wide.u32 %%p, %%i, %d, %%p;" % step] + ["st.global.b%d [%%p+%d], %%o%d;"
            % (w, k * size, k) for k in range(vec)]
    if space == "shared":
        body += ["ld.%sb%d %%o0, [%%g];" % ("shared." if named else "", w), "ld.param.u64 %p, [t];",
                 "mad.wide.u32 %%p, %%i, %d, %%p;" % step, "st.global.b%d [%%p], %%o0;" % w]
    as_words = lambda v: words([x >> 8 * k & 255 for x in v for k in range(size)], 8)
    buffers = [("b", as_words(b))] + ([("c", as_words(c))] if op == "cas" else []) + [("t", as_words(old))]
    outs = [("t", "u64", as_words(new))]
    if not red:
        buffers.append(("d", n * size // 8))
        outs.append(("d", "u64", as_words(old)))
    entry(f, form.text, buffers, regs, body, outs)


def contended(f):
    """32 threads at four places, by the thread's number mod 4: sums and extremes do not depend on the order"""
    for space in ("global", "shared"):
        for op, t, fold in (("add", "u32", lambda v, z: z + sum(v)), ("add", "u64", lambda v, z: z + sum(v)),
                            ("min", "s32", lambda v, z: min(signed(x, 32) for x in v + [z])),
                            ("max", "u32", lambda v, z: max(v + [z])),
                            ("xor", "b32", lambda v, z: functools.reduce(lambda a, b: a ^ b, v, z)),
                            ("inc", "u32", lambda v, z: (z + len(v)) % 0x10000)):
            w = width(t)
            vals = [rng.getrandbits(w) if op != "inc" else 0xFFFF for _ in range(32)]
            start = [rng.getrandbits(15) for _ in range(4)]
            body = ["ld.param.u64 %p, [b];", "mad.wide.u32 %%p, %%i, %d, %%p;" % (w // 8),
                    "ld.global.b%d %%v, [%%p];" % w, "and.b32 %x0, %i, 3;", "ld.param.u64 %g, [t];",
                    "mad.wide.u32 %%g, %%x0, %d, %%g;" % (w // 8)]
            if space == "shared":
                body += ["ld.global.b%d %%u, [%%g];" % w, "mov.u64 %q, sh;",
                         "mad.wide.u32 %%q, %%x0, %d, %%q;" % (w // 8), "st.shared.b%d [%%q], %%u;" % w, "bar.sync 0;"]
            body += ["red.%s.%s.%s [%%%s], %%v;" % (space, op, t, "q" if space == "shared" else "g")]
            if space == "shared":
                body += ["bar.sync 0;", "ld.shared.b%d %%u, [%%q];" % w, "st.global.b%d [%%g], %%u;" % w]
            want = [fold([v for k, v in enumerate(vals) if k % 4 == j], start[j]) & ((1 << w) - 1) for j in range(4)]
            as_words = lambda v: words([x >> 8 * k & 255 for x in v for k in range(w // 8)], 8)
            entry(f, "red.%s.%s.%s at four places" % (space, op, t), [("b", as_words(vals)), ("t", as_words(start))],
                  ".reg .b%d %%v, %%u;" % w, body, [("t", "u64", as_words(want))])


def make():
    f = File("atomics", "sm_100a")
    for form in table("atom", "red"):
        case(f, form)
    contended(f)
    return f


if __name__ == "__main__":
    main(make)
