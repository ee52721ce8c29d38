"""mma, wmma, ldmatrix, stmatrix, movmatrix. Where elements lie is written here as the figures of the PTX manual have
it, shape by shape; the executor has one formula.
"""
from fractions import Fraction as F

from casefile import File, main, move_regs, rng, vec, warp_case
from exact import EDGE, FMT, add, decode, encode, mul, num, signed

FMT["e5m2"] = (3, 5, 8)

# ---- fragments of mma: PTX ISA 9.0 §9.7.14.5, one entry for each subsection and type. i: number of the element in the
# lane's vector (register i / elements in a register), g: groupID = %laneid >> 2, q: threadID_in_group = %laneid % 4.
# Each gives (row, column). Checked element by element against the layouts of CUTLASS 4 (cute/atom/mma_traits_sm70, 75,
# 80, 89, 90); see docs/CHOICES.md.


def manual_a(shape, t, i, g, q):
    if shape == "m8n8k4":  # .2, f64
        return g, q
    if shape == "m8n8k16":  # .3, s8 u8
        return g, q * 4 + i
    if shape == "m8n8k32":  # .4, s4 u4
        return g, q * 8 + i
    if shape == "m8n8k128":  # .5, b1
        return g, q * 32 + i
    if shape == "m16n8k4":  # .6, tf32 f64
        return g + 8 * i, q
    if shape == "m16n8k8" and t in ("f16", "bf16"):  # .7
        return g + (0 if i < 2 else 8), q * 2 + (i & 1)
    if shape == "m16n8k8":  # .7, tf32 f64
        return g + (0 if i in (0, 2) else 8), q + (0 if i in (0, 1) else 4)
    if shape == "m16n8k16" and t in ("f16", "bf16"):  # .8
        return g + (0 if i < 2 or 4 <= i < 6 else 8), q * 2 + (i & 1) + (8 if i >= 4 else 0)
    if shape == "m16n8k16" and t == "f64":  # .8
        return g + (0 if i % 2 == 0 else 8), i * 2 + q if i % 2 == 0 else i * 2 - 2 + q
    if shape == "m16n8k16":  # .9, s8 u8 e4m3 e5m2
        return g + (0 if i < 4 else 8), q * 4 + (i & 3)
    if shape == "m16n8k32" and t in ("s8", "u8", "e5m2", "e4m3"):  # .10
        return g + (0 if i < 4 or 8 <= i < 12 else 8), q * 4 + (i & 3) + (0 if i < 8 else 16)
    if shape == "m16n8k32":  # .10, s4 u4
        return g + (0 if i < 8 else 8), q * 8 + (i & 7)
    if shape == "m16n8k64":  # .11, s4 u4
        return g + (0 if i < 8 or 16 <= i < 24 else 8), q * 8 + (i & 7) + (0 if i < 16 else 32)
    if shape == "m16n8k128":  # .12, b1
        return g + (0 if i < 32 else 8), q * 32 + (i & 31)
    assert shape == "m16n8k256"  # .13, b1
    return g + (0 if i < 32 or 64 <= i < 96 else 8), q * 32 + (i & 31) + (0 if i < 64 else 128)


def manual_b(shape, t, i, g, q):
    if t in ("f16", "bf16"):  # .7, .8
        return q * 2 + (i & 1) + (0 if i < 2 else 8), g
    if t in ("tf32", "f64"):  # .2, .6, .7, .8
        return q + 4 * i, g
    if t in ("s8", "u8", "e5m2", "e4m3"):  # .3, .9, .10
        return q * 4 + (i & 3) + (0 if i < 4 else 16), g
    if t in ("s4", "u4"):  # .4, .10, .11
        return q * 8 + (i & 7) + (0 if i < 8 else 32), g
    return q * 32 + (i & 31) + (0 if i < 32 else 128), g  # .5, .12, .13


def manual_c(shape, t, i, g, q):
    return g + (0 if i < 2 else 8), q * 2 + (i & 1)


def quad_place(role, t, layout, i, lane):
    """.1, m8n8k4 of f16: four products, of the lanes 4p … 4p + 3 and 16 + 4p … 16 + 4p + 3"""
    high = 4 if lane >= 16 else 0
    if role in "AB":
        across, along = (i % 4 + high, lane % 4) if layout == ("col" if role == "A" else "row") else (lane % 4 + high,
            i)
        return (across, along) if role == "A" else (along, across)
    if t == "f16":
        return lane % 4 + high, i
    return (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8,
        "s4": 4, "u4": 4, "b1": 1}


def fragment(m, t, rows, cols, shape, where):
    """registers [r][lane] of matrix m (m[row][column]: bits)"""
    bits = BITS[t]
    per = max(1, 32 // bits)
    regs = rows * cols // 32 // per
    out = [[0] * 32 for _ in range(regs)]
    for lane in range(32):
        for i in range(regs * per):
            r, c = where(shape, t, i, lane // 4, lane % 4)
            out[i // per][lane] |= (m[r][c] & ((1 << bits) - 1)) << (i % per * bits)
    return out


def sizes(shape):
    return [int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k", " ").split()]


def value_of(v, t):
    if t == "tf32":
        x = decode(v, "f32")
        return x if x[0] == "nan" else decode(v & ~0x1FFF, "f32")
    if t == "e4m3":
        s, e, m = v >> 7, v >> 3 & 15, v & 7
        if e == 15 and m == 7:
            return ("nan",)
        x = F(8 + m if e else m) * F(2) ** ((e or 1) - 10)
        return num(-x if s else x, s)
    return decode(v, t)


def product(a, b, c, ta, tb, tc, td, sat=False, bits="", mode="rn"):
    """D as bits: exact sums of integers; floats rounded as docs/CHOICES.md says"""
    n = len(b[0])
    out = []
    for i in range(len(a)):
        row = []
        for j in range(n):
            if ta in ("s8", "u8", "s4", "u4", "b1"):
                w = BITS[ta]
                x = [signed(v, w) if ta[0] == "s" else v for v in a[i]]
                y = [signed(r[j], w) if tb[0] == "s" else r[j] for r in b]
                s = signed(c[i][j], 32) + sum(p ^ q if bits == "xor" else p & q if bits == "and" else p * q
                                              for p, q in zip(x, y))
                row.append((max(-1 << 31, min((1 << 31) - 1, s)) if sat else s) & 0xFFFFFFFF)
                continue
            s = decode(c[i][j], tc)
            for k in range(len(b)):
                if a[i][k] is None:  # not there
                    continue
                s = add(s, mul(value_of(a[i][k], ta), value_of(b[k][j], tb)), mode)
                acc = "f64" if ta == "f64" else "f32"
                s = decode(encode(s, acc, mode), acc)
            row.append(encode(s, td))
        out.append(row)
    return out


def random_matrix(rows, cols, t, kind):
    def one():
        if t in ("s8", "u8", "s4", "u4", "b1"):
            w = BITS[t]
            return rng.choice((0, (1 << w) - 1, 1 << (w - 1),
                               (1 << (w - 1)) - 1)) if kind == "edge" else rng.getrandbits(w)
        if t == "s32":
            return rng.choice((0x7FFFFFFF, 0x80000000, 0x7FFFFFF0, 0)) if kind == "edge" else rng.getrandbits(20)
        if t in ("e4m3", "e5m2"):
            return rng.choice((0x38, 0xB8, 0x3C, 0, 0x80, 0x41, 1)) if kind == "whole" else rng.getrandbits(8)
        f = "f32" if t == "tf32" else t
        if kind == "whole":
            return encode(num(F(rng.randint(-8, 8))), f)
        if kind == "edge":
            return rng.choice(EDGE[f]) if rng.random() < 0.05 else encode(num(F(rng.randint(-64, 64), 8)), f)
        return encode(num(F(rng.getrandbits(30) - (1 << 29)) * F(2) ** rng.randint(-36, -22)), f)
    return [[one() for _ in range(cols)] for _ in range(rows)]


def make():
    f = File("matrix")
    forms = []
    for t in ("f16", "bf16"):
        for s in ("m16n8k8", "m16n8k16"):
            forms += [(s, "f32", t, t, "f32", "")] + ([(s, "f16", t, t, "f16", "")] if t == "f16" else [])
    forms += [("m16n8k4", "f32", "tf32", "tf32", "f32", ""), ("m16n8k8", "f32", "tf32", "tf32", "f32", "")]
    for s in ("m8n8k16", "m16n8k16", "m16n8k32"):
        for a, b in (("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")):
            forms += [(s, "s32", a, b, "s32", z) for z in ("", ".satfinite")]
    for s in ("m8n8k32", "m16n8k32", "m16n8k64"):
        forms += [(s, "s32", "s4", "u4", "s32", ""), (s, "s32", "u4", "u4", "s32", ".satfinite")]
    for s in ("m8n8k128", "m16n8k128", "m16n8k256"):
        forms += [(s, "s32", "b1", "b1", "s32", z) for z in (".xor.popc", ".and.popc")]
    forms += [(s, "f64", "f64", "f64", "f64", "") for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")]
    forms += [(s, t, a, b, t, "") for s, t, a, b in (("m16n8k32", "f32", "e4m3", "e4m3"),
                                                     ("m16n8k32", "f32", "e5m2", "e4m3"),
              ("m16n8k32", "f16", "e5m2", "e5m2"), ("m16n8k32", "f16", "e4m3", "e5m2"),
                                                     ("m16n8k16", "f32", "e4m3", "e5m2"),
                                                     ("m16n8k16", "f16", "e5m2", "e4m3"))]
    for s, td, ta, tb, tc, extra in forms:
        m, n, k = sizes(s)
        text = "mma.sync.aligned.%s.row.col%s.%s.%s.%s.%s%s" % (s, ".satfinite" if extra == ".satfinite" else "", td,
                                                                ta, tb, tc, "")
        if "popc" in extra:
            text = "mma.sync.aligned.%s.row.col.%s.%s.%s.%s%s" % (s, td, ta, tb, tc, extra)
        for kind in ("whole", "any", "edge"):
            a, b, c = random_matrix(m, k, ta, kind), random_matrix(k, n, tb, kind), random_matrix(m, n, tc, kind)
            d = product(a, b, c, ta, tb, tc, td, extra == ".satfinite", extra[1:4])
            fa, fb, fc, fd = (fragment(a, ta, m, k, s, manual_a), fragment(b, tb, k, n, s, manual_b),
                              fragment(c, tc, m, n, s, manual_c),
                              fragment(d, td, m, n, s, manual_c))
            w = 64 if ta == "f64" else 32
            names = "ABCD" if ta == "f64" else "abcd"
            body = []
            for x, frag, reg in zip("abc", (fa, fb, fc), names):
                body += move_regs("ld", x, reg, len(frag), w)
            body.append("%s %s, %s, %s, %s;" % (text, vec(names[3], len(fd)), vec(names[0], len(fa)),
                                                vec(names[1], len(fb)), vec(names[2], len(fc))))
            body += move_regs("st", "d", names[3], len(fd), w)
            flat = lambda fr: [v for r in fr for v in r]
            warp_case(f, body, [("a", w, flat(fa)), ("b", w, flat(fb)), ("c", w, flat(fc))], [("d", w, flat(fd))],
                      text + " " + kind)
    quad_cases(f)
    # ldmatrix, stmatrix, movmatrix: row i of matrix j at 16 * (8 * j + i) bytes of a permutation
    for n in (1, 2, 4):
        for trans in (0, 1):
            words = [rng.getrandbits(16) for _ in range(8 * 32)]
            perm = rng.sample(range(32), 32)
            row = lambda j, i: words[8 * perm[8 * j + i]:8 * perm[8 * j + i] + 8]
            get = lambda j, r, c: row(j, c)[r] if trans else row(j, r)[c]
            want = [get(j, l // 4, l % 4 * 2) | get(j, l // 4, l % 4 * 2 + 1) << 16 for j in range(n)
                    for l in range(32)]
            fill = ["ld.param.u64 %p, [w];", "mad.wide.u32 %p, %i, 16, %p;",
                    "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%p];",
                    "mov.u32 %x, s;", "mad.lo.u32 %x, %i, 16, %x;"]
            where = ["ld.param.u64 %p, [q];", "mad.wide.u32 %p, %i, 4, %p;", "ld.global.b32 %y, [%p];"]
            text = ".sync.aligned.m8n8.x%d%s.shared.b16" % (n, ".trans" * trans)
            # lanes whose address is not read get a bad one
            at = [16 * perm[l] if l < 8 * n else 0x7FFFFFF0 for l in range(32)]
            warp_case(f, fill + ["st.shared.v4.b32 [%x], {%a0, %a1, %a2, %a3};", "bar.sync 0;"] + where +
                      ["ldmatrix%s %s, [%%y];" % (text, vec("d", n))] + move_regs("st", "d", "d", n, 32),
                      [("w", 16, words), ("q", 32, at)], [("d", 32, want)], "ldmatrix" + text, 512)
            regs = [rng.getrandbits(32) for _ in range(32 * n)]
            mem = [0] * 256
            for j in range(n):
                for l in range(32):
                    for e in range(2):
                        r, c = (l % 4 * 2 + e, l // 4) if trans else (l // 4, l % 4 * 2 + e)
                        mem[8 * perm[8 * j + r] + c] = regs[32 * j + l] >> 16 * e & 0xFFFF
            warp_case(f, ["mov.u32 %x, s;", "mad.lo.u32 %x, %i, 16, %x;", "mov.u32 %z, 0;",
                          "st.shared.v4.b32 [%x], {%z, %z, %z, %z};", "bar.sync 0;"] +
                      where + move_regs("ld", "v", "a", n, 32) + ["cvt.u64.u32 %l, %y;", "cvta.shared.u64 %l, %l;"] +
                      ["stmatrix%s [%%l], %s;" % (text.replace(".shared", ""), vec("a", n)), "bar.sync 0;",
                       "ld.shared.v4.b32 {%a0, %a1, %a2, %a3}, [%x];",
                       "ld.param.u64 %p, [d];", "mad.wide.u32 %p, %i, 16, %p;",
                       "st.global.v4.b32 [%p], {%a0, %a1, %a2, %a3};"],
                      [("q", 32, at), ("v", 32, regs)], [("d", 16, mem)], "stmatrix" + text, 512)
    x = [[rng.getrandbits(16) for _ in range(8)] for _ in range(8)]
    pack = lambda m: [m[l // 4][l % 4 * 2] | m[l // 4][l % 4 * 2 + 1] << 16 for l in range(32)]
    warp_case(f, move_regs("ld", "a", "a", 1, 32) + ["movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;"]
              + move_regs("st", "d", "d", 1, 32),
              [("a", 32, pack(x))], [("d", 32, pack(list(zip(*x))))], "movmatrix")
    wmma_cases(f)
    sub_byte_cases(f)
    sparse_cases(f)
    return f


def quad_cases(f):
    for la in ("row", "col"):
        for lb in ("row", "col"):
            for td, tc in (("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("f16", "f32")):
                if td == "f16" and tc == "f32":
                    continue
                kind = ("whole", "any", "edge")[len(f.body) % 3]
                text = "mma.sync.aligned.m8n8k4.%s.%s.%s.f16.f16.%s" % (la, lb, td, tc)
                regs = {x: [[0] * 32 for _ in range(n)] for x, n in (("a", 2), ("b", 2), ("c", 8 if tc == "f32" else 4),
                                                                     ("d", 8 if td == "f32" else 4))}
                for pair in range(4):
                    m = {"a": random_matrix(8, 4, "f16", kind), "b": random_matrix(4, 8, "f16", kind),
                         "c": random_matrix(8, 8, tc, kind)}
                    m["d"] = product(m["a"], m["b"], m["c"], "f16", "f16", tc, td)
                    for x, t, layout in (("a", "f16", la), ("b", "f16", lb), ("c", tc, ""), ("d", td, "")):
                        per = 32 // BITS[t]
                        for lane in list(range(4 * pair, 4 * pair + 4)) + list(range(16 + 4 * pair, 20 + 4 * pair)):
                            for i in range(len(regs[x]) * per):
                                r, c = quad_place(x.upper(), t, layout, i, lane)
                                regs[x][i // per][lane] |= m[x][r][c] << (i % per * BITS[t])
                flat = {x: [v for r in regs[x] for v in r] for x in "abcd"}
                body = [line for x in "abc" for line in move_regs("ld", x, x, len(regs[x]), 32)]
                body += ["%s %s;" % (text, ", ".join(vec(x, len(regs[x])) for x in "dabc"))] + move_regs("st", "d", "d",
                    len(regs["d"]), 32)
                warp_case(f, body, [(x, 32, flat[x]) for x in "abc"], [("d", 32, flat["d"])], text + " " + kind)


def sparse_cases(f):
    """mma.sp (§9.7.14.6): A by halves, with the places of what is there in the metadata. A's registers are those of the
    dense mma of half the K; where metadata lies: f16, bf16, tf32 and 64 columns of 8 bits as CUTLASS has it (ELayout in
    cute/atom/mma_traits_sm90_gmma_sparse and _sm120_sparse), the others like those; what the bits mean: uncompress() of
    its reference code."""
    forms = [(s, t, "f32", n) for t in ("f16", "bf16") for s, n in (("m16n8k16", 4), ("m16n8k32", 2))] + [("m16n8k16",
        "f16", "f16", 4), ("m16n8k32", "f16", "f16", 2)]
    forms += [("m16n8k8", "tf32", "f32", 4), ("m16n8k16", "tf32", "f32", 2), ("m16n8k64", "e4m3", "f32", 1),
              ("m16n8k64", "e5m2", "f32", 1)]
    forms += [("m16n8k32", "s8", "s32", 2), ("m16n8k64", "u8", "s32", 1), ("m16n8k64", "s4", "s32", 2),
              ("m16n8k128", "u4", "s32", 1)]
    for s, ta, td, places in forms:
        for selector in range(places):
            m, n, k = sizes(s)
            bits = BITS[ta]
            per = 32 // bits
            kind = ("whole", "any", "edge")[(len(f.body) + selector) % 3]
            ordered = len(f.body) % 2
            half, b, c = random_matrix(m, k // 2, ta, kind), random_matrix(k, n, ta, kind), random_matrix(m, n, td,
                kind)
            chunk = {32: 2, 16: 4, 8: 4, 4: 8}[bits]
            dense = [[0 if td == "s32" else None] * k for _ in range(m)]
            meta = [rng.getrandbits(32) for _ in range(32)]  # of lanes that are not asked, anything
            for r in range(m):
                for ch in range(k // chunk):
                    if bits == 32:
                        one = rng.randrange(2)
                        nibble, cols = (4, 14)[one], [one]
                    else:
                        x = rng.sample(range(4), 2)
                        x = sorted(x) if ordered else x
                        nibble = x[0] | x[1] << 2
                        cols = x if bits != 4 else [2 * y + z for y in x for z in (0, 1)]
                    for i, col in enumerate(cols):
                        dense[r][ch * chunk + col] = half[r][ch * chunk // 2 + i]
                    if bits >= 16:  # bits of the row from 16 * (r // 8); 4 chunks a lane
                        lane, at = (selector if k // chunk == 4 else 2 * selector + ch // 4), 16 * (r // 8) + ch % 4 * 4
                    else:  # 8 chunks a lane
                        lane, at = 2 * selector + r // 8 + 2 * (ch // 8), ch % 8 * 4
                    lane += r % 8 * 4
                    meta[lane] = meta[lane] & ~(15 << at) | nibble << at
            d = product(dense, b, c, ta, ta, td, td)
            fa = fragment(half, ta, m, k // 2, "m16n8k%d" % (k // 2), manual_a)
            fb = fragment(b, ta, k, n, s, lambda shape, t, i, g, q: (q * per + i % per + 4 * per * (i // per), g))
            fc, fd = fragment(c, td, m, n, s, manual_c), fragment(d, td, m, n, s, manual_c)
            flat = lambda fr: [v for r in fr for v in r]
            text = "mma.sp%s.sync.aligned.%s.row.col.%s.%s.%s.%s" % ("::ordered_metadata" * ordered, s, td, ta, ta, td)
            body = [line for x, fr in (("a", fa), ("b", fb), ("c", fc))
                    for line in move_regs("ld", x, x, len(fr), 32)] + move_regs("ld", "e", "z", 1, 32)
            body = [line.replace("%z0", "%z") for line in body]
            body.append("%s %s, %%z, %d;"
                        % (text, ", ".join(vec(x, len(fr)) for x, fr in (("d", fd), ("a", fa), ("b", fb), ("c", fc))),
                           selector))
            body += move_regs("st", "d", "d", len(fd), 32)
            warp_case(f, body, [("a", 32, flat(fa)), ("b", 32, flat(fb)), ("c", 32, flat(fc)), ("e", 32, meta)],
                      [("d", 32, flat(fd))], text + " " + kind)


def wmma_cases(f):
    """load, operate on all elements (A doubled where it is f16), multiply, store: what matters is the memory before and
    after"""
    regs = {("f16", "A"): 8, ("f16", "B"): 8}
    forms = [(s, td, "f16", tc, "") for s in ("m16n16k16", "m32n8k16", "m8n32k16")
             for td, tc in (("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f16"))]
    forms += [(s, "f32", "bf16", "f32", "") for s in ("m16n16k16", "m32n8k16", "m8n32k16")]
    forms += [(s, "s32", t, "s32", z) for s in ("m16n16k16", "m32n8k16", "m8n32k16") for t in ("s8", "u8")
              for z in ("", ".satfinite")]
    forms += [("m16n16k8", "f32", "tf32", "f32", "")] + [("m8n8k4", "f64", "f64", "f64", z)
                                                         for z in (".rn", ".rz", ".rm", ".rp", "")]
    for number, (s, td, ta, tc, sat) in enumerate(forms):
        m, n, k = sizes(s)
        for la in ("row", "col"):
            for lb in ("row", "col"):
                if number % 2 == (la == lb):
                    continue
                kind = ("whole", "any", "edge")[(number + (la == "row") + (lb == "row")) % 3]
                lc, ld = ("row", "col") if (number + (la == lb)) % 2 else ("col", "row")
                a, b, c = random_matrix(m, k, ta, kind), random_matrix(k, n, ta, kind), random_matrix(m, n, tc, kind)
                doubled = a
                if ta == "f16":
                    doubled = [[encode(add(decode(v, "f16"), decode(v, "f16"), "rn"), "f16") for v in r] for r in a]
                d = product(doubled, b, c, ta, ta, tc, td, sat == ".satfinite", mode=sat[1:] if sat[:2] == ".r"
                            else "rn")

                def memory(mat, layout, stride, w, fill=0):
                    rows = mat if layout == "row" else list(zip(*mat))
                    return [v for r in rows for v in list(r) + [fill] * (stride - len(r))]
                pad = rng.choice((0, 16))
                lead = lambda layout, r, c: (c if layout == "row" else r) + pad
                sa, sb, sc, sd = lead(la, m, k), lead(lb, k, n), lead(lc, m, n), lead(ld, m, n)
                R = {x: regs.get((t, x)) or rows * cols * BITS[t] // 1024 if t != "f64" else rows * cols // 32
                     for x, t, rows, cols in (("A", ta, m, k), ("B", ta, k, n), ("C", tc, m, n), ("D", td, m, n))}
                names = {x: x if ta == "f64" else x.lower() for x in "ABCD"}
                body = []
                for x, layout, t, stride in (("A", la, ta, sa), ("B", lb, ta, sb), ("C", lc, tc, sc)):
                    tail = ", %d" % stride if pad else ""
                    body += ["ld.param.u64 %%p, [%s];" % x.lower(),
                             "wmma.load.%s.sync.aligned.%s.%s.global.%s %s, [%%p]%s;"
                             % (x.lower(), layout, s, t, vec(names[x], R[x]), tail)]
                if ta == "f16":
                    body += ["add.rn.f16x2 %%a%d, %%a%d, %%a%d;" % (r, r, r) for r in range(8)]
                types = "%s.%s" % (td, tc) if ta == "f16" else "%s.%s.%s.%s" % (td, ta, ta, tc)
                text = "wmma.mma.sync.aligned.%s.%s.%s%s.%s%s" % (la, lb, s, sat if ta == "f64" else "", types,
                                                                  sat if ta != "f64" else "")
                body += ["%s %s, %s, %s, %s;" % (text, vec(names["D"], R["D"]), vec(names["A"], R["A"]),
                                                 vec(names["B"], R["B"]), vec(names["C"], R["C"])),
                         "ld.param.u64 %p, [d];", "mov.u32 %%x, %d;" % sd,
                         "wmma.store.d.sync.aligned.%s.%s.global.%s [%%p], %s, %%x;"
                         % (ld, s, td, vec(names["D"], R["D"]))]
                wa, wc, wd = BITS[ta], BITS[tc], BITS[td]
                warp_case(f, body, [("a", wa, memory(a, la, sa, wa)), ("b", wa, memory(b, lb, sb, wa)),
                                    ("c", wc, memory(c, lc, sc, wc))],
                          [("d", wd, memory(d, ld, sd, wd))], text + " " + kind)


def sub_byte_cases(f):
    """wmma of s4, u4 and b1: rows of A and columns of B packed along K"""
    for s, ta, tb, op in (("m8n8k32", "s4", "s4", ""), ("m8n8k32", "u4", "u4", ".satfinite"),
                          ("m8n8k128", "b1", "b1", ".xor"), ("m8n8k128", "b1", "b1", ".and")):
        for kind in ("any", "edge"):
            m, n, k = sizes(s)
            a, b, c = random_matrix(m, k, ta, kind), random_matrix(k, n, tb, kind), random_matrix(m, n, "s32", kind)
            d = product(a, b, c, ta, tb, "s32", "s32", op == ".satfinite", op[1:])
            w = BITS[ta]
            per = 32 // w
            stride = k + (128 if kind == "any" else 0)
            words = lambda rows: [x for r in rows for x in [sum(r[i * per + j] << j * w for j in range(per))
                                                            for i in range(k // per)]
                                  + [0xABCD] * ((stride - k) // per)]
            flat = lambda rows: [v for r in rows for v in r]
            tail = ", %d" % stride if stride != k else ""
            body = []
            for x, layout in (("a", "row"), ("b", "col")):
                body += ["ld.param.u64 %%p, [%s];" % x, "wmma.load.%s.sync.aligned.%s.%s.global.%s {%%%s0}, [%%p]%s;"
                         % (x, layout, s, ta if x == "a" else tb, x, tail)]
            text = ("wmma.mma%s.popc" % op if w == 1 else "wmma.mma") + ".sync.aligned.row.col.%s.s32.%s.%s.s32%s" % (s,
                ta, tb, op if w == 4 else "")
            body += ["ld.param.u64 %p, [c];", "wmma.load.c.sync.aligned.col.%s.global.s32 {%%c0, %%c1}, [%%p];" % s,
                     text + " {%d0, %d1}, {%a0}, {%b0}, {%c0, %c1};",
                     "ld.param.u64 %p, [d];", "wmma.store.d.sync.aligned.row.%s.global.s32 [%%p], {%%d0, %%d1};" % s]
            warp_case(f, body, [("a", 32, words(a)), ("b", 32, words(zip(*b))), ("c", 32, flat(zip(*c)))],
                      [("d", 32, flat(d))], text + " " + kind)


if __name__ == "__main__":
    main(make)
