"""ld, ldu and st: every space with every type and vector, order and scope, and what they ask of caches; mov in all its
shapes.

A lane has 32 bytes of its own. A load puts its registers, 64 bits each, into d; a store goes over bytes 0xEE, which are
then copied to d.
"""
from casefile import File, main, rng, table, width

SLOT = 32
DATA = [rng.choice((0, 0xFF, 0x80, 0x7F, rng.getrandbits(8), rng.getrandbits(8))) for _ in range(32 * SLOT)]
SPACES = ("global", "const", "local", "shared")


def words(data, n):
    return [sum(b << 8 * k for k, b in enumerate(data[i:i + n])) for i in range(0, len(data), n)]


def hexes(v):
    return " ".join("%#x" % x for x in v)


def entry(f, note, buffers, regs, body, outs):
    """buffers: (name, u64 values or a count); outs: (name, type, values)"""
    name = "t%d" % f.n
    f.n += 1
    f.head.append("// RUN %s block=32" % name)
    for b, v in buffers:
        f.head.append("// BUF %s u64 %s" % (b, "0xEEEEEEEEEEEEEEEE*%d" % v if isinstance(v, int) else hexes(v)))
    f.head += ["// OUT %s %s %s" % (b, t, hexes(v)) for b, t, v in outs]
    f.body.append("\n".join(["// " + note, ".visible .entry %s(%s)"
                             % (name, ", ".join(".param .u64 %s" % b for b, _ in buffers)), "{",
                             "    .reg .b64 %p, %q, %g, %pol; .reg .b32 %i, %x<8>; " + regs,
                             "    .shared .align 32 .b8 sh[1024]; .local .align 32 .b8 lo[32];",
                             "    mov.u32 %i, %tid.x;"] +
                            ["    " + x for x in body] + ["    ret;", "}"]))


def slot(space, how):
    """code that leaves the address of the lane's bytes in %g; how: the space is named, or the address is generic"""
    if space == "global":
        return ["ld.param.u64 %g, [a];", "mad.wide.u32 %%g, %%i, %d, %%g;" % SLOT]
    code = ["mov.u64 %g, lo;"] if space == "local" else ["mov.u64 %%g, %s;" % ("sh" if space == "shared" else "co"),
                                                         "mad.wide.u32 %%g, %%i, %d, %%g;" % SLOT]
    return code + ([] if how else ["cvta.%s.u64 %%g, %%g;" % space])


def fill(space):
    """shared and local bytes get those of a"""
    if space in ("global", "const"):
        return []
    at = "[%%q+%d]" if space == "shared" else "[lo+%d]"
    code = ["ld.param.u64 %p, [a];", "mad.wide.u32 %%p, %%i, %d, %%p;"
            % SLOT] + (["mov.u64 %q, sh;", "mad.wide.u32 %%q, %%i, %d, %%q;" % SLOT] if space == "shared" else [])
    for k in (0, 16):
        code += ["ld.global.v4.b32 {%%x0, %%x1, %%x2, %%x3}, [%%p+%d];" % k,
                 "st.%s.v4.b32 %s, {%%x0, %%x1, %%x2, %%x3};" % (space, at % k)]
    return code


def parts(form):
    named = next((m for m in form.mods if m in SPACES), None)
    vec = next((int(m[1]) for m in form.mods if m in ("v2", "v4", "v8")), 1)
    writes = form.op == "st"
    space = named or rng.choice(("global", "shared", "local") if writes or "acquire" not in form.mods
                                else ("global", "shared"))
    if any(m in ("relaxed", "acquire", "release", "mmio", "cg") for m in form.mods) and space == "local":
        space = "global"
    if "mmio" in form.mods:
        space = "global"
    return named, space, vec


def braces(names):
    return names[0] if len(names) == 1 else "{%s}" % ", ".join(names)


def policy(form):
    hint = "L2::cache_hint" in form.mods
    return (["createpolicy.fractional.L2::evict_first.b64 %pol;"], ", %pol") if hint else ([], "")


def register(t, load):
    """its class; loads of narrow integers may go to a wider one, which is extended by the type's sign"""
    if t[0] == "f":
        return t
    w = max(width(t), 16)
    return "b%d" % (rng.choice([x for x in (16, 32, 64) if x >= w]) if load
                    else rng.choice([x for x in (16, 32, 64) if x >= w]))


def loads(f):
    for form in table("ld", "ldu"):
        t = form.t
        if "param" in form.mods or "param::func" in form.mods or t == "b128":
            continue
        named, space, vec = parts(form)
        w, r = width(t), register(t, True)
        rw = int(r[1:])
        pre, pol = policy(form)
        names = ["%%v%d" % k for k in range(vec)]
        body = fill(space) + pre + slot(space, named) + ["%s %s, [%%g]%s;" % (form.text, braces(names), pol),
                                                          "ld.param.u64 %p, [d];",
                                                         "mad.wide.u32 %%p, %%i, %d, %%p;" % (8 * vec)]
        for k in range(vec):
            size = "b%d" % rw
            body += ["mov.u64 %q, 0;", "st.global.b64 [%%p+%d], %%q;" % (8 * k),
                     "st.global.%s [%%p+%d], %%v%d;" % (size, 8 * k, k)]
        want = []
        for lane in range(32):
            for v in words(DATA[lane * SLOT:lane * SLOT + vec * w // 8], w // 8):
                if t[0] == "s" and v >> (w - 1):
                    v |= ((1 << rw) - 1) & ~((1 << w) - 1)
                want.append(v)
        entry(f, form.text, [("a", words(DATA, 8)), ("d", 32 * vec)], ".reg .%s %s;" % (r, ", ".join(names)), body,
              [("d", "u64", want)])


def stores(f):
    for form in table("st"):
        t = form.t
        if "param" in form.mods or "param::func" in form.mods or t == "b128":
            continue
        named, space, vec = parts(form)
        w, r = width(t), register(t, False)
        rw = int(r[1:])
        pre, pol = policy(form)
        names = ["%%v%d" % k for k in range(vec)]
        values = [rng.choice((0, (1 << 64) - 1, 1 << 63, rng.getrandbits(64), rng.getrandbits(64)))
                  for _ in range(32 * vec)]
        body = ["ld.param.u64 %p, [v];", "mad.wide.u32 %%p, %%i, %d, %%p;"
                % (8 * vec)] + ["ld.global.b%d %s, [%%p+%d];" % (rw, n, 8 * k) for k, n in enumerate(names)]
        body += fill(space) + pre + slot(space, named) + ["%s [%%g], %s%s;" % (form.text, braces(names), pol)]
        if space != "global":
            body += ["ld.param.u64 %p, [a];", "mad.wide.u32 %%p, %%i, %d, %%p;" % SLOT]
            for k in (0, 16):
                body += ["ld.v4.b32 {%%x0, %%x1, %%x2, %%x3}, [%%g+%d];" % k if not named
                         else "ld.%s.v4.b32 {%%x0, %%x1, %%x2, %%x3}, [%%g+%d];" % (space, k),
                         "st.global.v4.b32 [%%p+%d], {%%x0, %%x1, %%x2, %%x3};" % k]
        want = []
        for lane in range(32):
            b = [0xEE] * SLOT
            for k in range(vec):
                b[k * w // 8:(k + 1) * w // 8] = [values[lane * vec + k] >> 8 * j & 255 for j in range(w // 8)]
            want += b
        entry(f, form.text, [("v", values), ("a", 4 * 32)], ".reg .%s %s;" % (r, ", ".join(names)), body,
              [("a", "u64", words(want, 8))])


def wide(f):
    """128 bits"""
    for space in ("global", "shared", "local", "const"):
        for generic in (0, 1):
            ld = "ld.b128" if generic and space != "const" else "ld.%s.b128" % space
            body = fill(space) + slot(space, not generic or space == "const") + ["%s %%w, [%%g+16];" % ld,
                "mov.b128 %u, %w;", "mov.b128 {%p, %q}, %u;", "mov.b128 %w, {%q, %p};"]
            if space != "const":  # swapped into the other half, and read back
                st = ld.replace("ld", "st", 1)
                body += ["%s [%%g], %%w;" % st, "%s %%w, [%%g];" % ld]
            body += ["ld.param.u64 %p, [d];", "mad.wide.u32 %p, %i, 16, %p;", "st.global.b128 [%p], %w;"]
            want = [v for lane in range(32) for v in words(DATA[lane * SLOT + 16:lane * SLOT + 32], 8)[::-1]]
            entry(f, ld, [("a", words(DATA, 8)), ("d", 64)], ".reg .b128 %w, %u;", body, [("d", "u64", want)])


def moves(f):
    for form in table("mov"):
        t, kinds = form.t, form.shape
        if t in ("pred", "b128") or kinds in ("rs", "rv", "rf", "V2i"):
            continue
        w = width(t)
        r = t if t[0] == "f" else "b%d" % w
        n = int(kinds.strip("r")[1:]) if "V" in kinds else 0
        values = [rng.choice((0, (1 << 64) - 1, 1 << 63, rng.getrandbits(64))) & ((1 << w) - 1) for _ in range(32)]
        body = ["ld.param.u64 %p, [v];", "mad.wide.u32 %p, %i, 8, %p;", "ld.global.b%d %%v, [%%p];" % w]
        each = w // n if n else 0
        pieces = ["%%e%d" % k for k in range(n)]
        regs = ".reg .%s %%v, %%u; " % r
        want = values
        if kinds == "rr":
            body += ["%s %%u, %%v;" % form.text]
        elif kinds == "ri":
            k = {"f32": "0fBF800001", "f64": "0dC000000000000001"}.get(t, "-2")
            bits = {"f32": 0xBF800001, "f64": 0xC000000000000001}.get(t, -2 & ((1 << w) - 1))
            want = [bits] * 32
            body += ["%s %%u, %s;" % (form.text, k)]
        elif each >= 16:
            regs += ".reg .b%d %s;" % (each, ", ".join(pieces))
            body += ["mov.b%d {%s}, %%v;" % (w, ", ".join(pieces)), "mov.b%d %%u, {%s};" % (w, ", ".join(pieces[::-1]))]
            want = [sum((v >> each * k & ((1 << each) - 1)) << each * (n - 1 - k) for k in range(n)) for v in values]
            if n == 2:  # one half into the sink
                body += ["mov.b%d {_, %%e0}, %%u;" % w, "mov.b%d {%%e1, _}, %%u;" % w, "mov.b%d %%u, {%%e1, %%e0};" % w]
        else:  # bytes: registers of 8 bits
            regs += ".reg .b8 %s;" % ", ".join(pieces)
            body += ["mov.b%d {%s}, %%v;" % (w, ", ".join(pieces)), "mov.b%d %%u, {%s};" % (w, ", ".join(pieces[::-1]))]
            want = [sum((v >> 8 * k & 255) << 8 * (n - 1 - k) for k in range(n)) for v in values]
        body += ["ld.param.u64 %p, [d];", "mad.wide.u32 %p, %i, 8, %p;", "mov.u64 %q, 0;", "st.global.b64 [%p], %q;",
                 "st.global.b%d [%%p], %%u;" % w]
        entry(f, form.text + " " + kinds, [("v", values), ("d", 32)], regs, body, [("d", "u64", want)])


def make():
    f = File("memory", "sm_100a")
    f.body.append(".const .align 32 .b8 co[1024] = {%s};" % ", ".join(str(b) for b in DATA))
    loads(f)
    stores(f)
    wide(f)
    moves(f)
    return f


if __name__ == "__main__":
    main(make)
