"""wgmma.mma_async: a warpgroup's product, with A and B in shared memory under every layout that a descriptor can say.

Fragments are written as PTX ISA 9.0 §9.7.15.5.1.1 has them. Shared memory is filled by the canonical layouts in the
notation of CUTLASS (make_gmma_desc in cute/atom/mma_traits_sm90_gmma.hpp), which are the manual's (§9.7.15.5.1.2) in
closed form: nested shapes and strides in elements, T elements to 16 bytes, then the swizzle as an exchange of address
bits. The executor computes addresses of 16-byte chunks instead.
"""
from fractions import Fraction as F

from casefile import File, main, rng
from exact import encode, num, signed
from matrix import BITS, product, random_matrix, sizes, value_of

WIDE = {"none": 1, "32": 2, "64": 4, "128": 8}
CODE = {"none": 0, "128": 1, "64": 2, "32": 3}


def swizzle(byte, mode):
    """Swizzle<b, 4, 3>: bits 4 … 4 + b - 1 are exclusive-ored with bits 7 … 7 + b - 1"""
    b = WIDE[mode].bit_length() - 1
    return byte ^ (byte >> 7 & (1 << b) - 1) << 4


def at(coord, shape, stride):
    total = 0
    for s, d in zip(shape, stride):
        total += coord % s * d
        coord //= s
    return total


def place(mode, major, bits, outer, k, lead, stride):
    """bit address of element (outer, k), before the swizzle; lead and stride in bytes"""
    T, W = 128 // bits, WIDE[mode]
    L, S = lead * 8 // bits, stride * 8 // bits
    if major == "k":
        e = at(outer, (8, 1 << 20), (W * T, S)) + at(k, (T, 2), (1, L if mode == "none" else T))
    elif mode == "none":
        e = at(outer, (T, 1 << 20), (1, S)) + at(k, (8, 1 << 20), (T, L))
    else:
        e = at(outer, (T, W, 1 << 20), (1, T, L)) + at(k, (8, 1 << 20), (W * T, S))
    return e * bits


class Shared:
    """an operand in shared memory: where, how, its descriptor"""

    def __init__(self, mem, mode, major, t, m, start, base=0, pad=0):
        """m: [outer][k]. base: number of 128-byte rows by which the start misses the pattern's."""
        bits, W = BITS[t], WIDE[mode]
        outer, k = len(m), len(m[0])
        atom = 128 * W  # bytes of 8 rows of W chunks
        if major == "k":
            lead, stride = (outer * 16 + pad, 128) if mode == "none" else (0, atom + (1024 if pad else 0))
        elif mode == "none":
            lead, stride = (outer // 8) * 128 + pad, 128
        else:
            lead, stride = 2 * atom + (1024 if pad else 0), atom
        self.desc = start >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | base << 49 | CODE[mode] << 62
        self.end = 0
        for o in range(outer):
            for x in range(k):
                b = place(mode, major, bits, o, x, lead, stride)
                byte = b // 8
                byte = start + swizzle(byte, mode) if base else swizzle(start + byte, mode)
                v = m[o][x] & ((1 << bits) - 1)
                for i in range(max(1, bits // 8)):
                    a = byte + i
                    while len(mem) <= a:
                        mem.append(0)
                    mem[a] |= v >> 8 * i & 0xFF if bits >= 8 else v << b % 8
                self.end = max(self.end, byte + max(1, bits // 8))


def d_place(i, lane, warp):
    return 16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2


def a_place(t, i, lane, warp):
    g, q, per = lane // 4, lane % 4, max(1, 32 // BITS[t])
    return 16 * warp + g + 8 * (i // per % 2), q * per + i % per + 4 * per * (i // (2 * per))


def registers(m, t, where):
    bits = BITS[t]
    per = 32 // bits
    n = len(m) * len(m[0]) // 128 // per
    out = [[0] * 128 for _ in range(n)]
    for thread in range(128):
        for i in range(n * per):
            r, c = where(i, thread % 32, thread // 32)
            out[i // per][thread] |= (m[r][c] & ((1 << bits) - 1)) << i % per * bits
    return out


SMALL = {"e4m3": {}, "e5m2": {}}
for t, table in SMALL.items():
    for v in range(256):
        x = value_of(v, t)
        if x[0] == "num" and x[2].denominator == 1 and abs(x[2]) <= 4 and not (x[2] == 0 and x[1]):
            table[int(x[2])] = v


def whole(rows, cols, t):
    """small integers, as integers and as bits"""
    low, high = {"b1": (0, 1), "u8": (0, 9)}.get(t, (-4, 4))
    v = [[rng.randint(low, high) for _ in range(cols)] for _ in range(rows)]
    if t in SMALL:
        return v, [[SMALL[t][x] for x in r] for r in v]
    if t in ("s8", "u8", "b1", "s32"):
        return v, [[x & (1 << BITS[t]) - 1 for x in r] for r in v]
    f = "f32" if t == "tf32" else t
    code = {x: encode(num(F(x)), f) for x in range(-4, 10)}
    return v, [[code[x] for x in r] for r in v]


def case(f, shape, td, ta, tb, ma, mb, mode_a="128", mode_b="128", in_regs=False, add=True, signs=(1, 1), kind="whole",
         extra="", start=(1024, 0),
         base=0, pad=0, compare=True):
    m, n, k = sizes(shape)
    fl = ta not in ("s8", "u8", "b1")
    sa, sb = signs
    if kind == "whole":
        (va, a), (vb, b), (vc, c) = whole(m, k, ta), whole(k, n, tb), whole(m, n, td)
        cols = list(zip(*vb))
        s = [[sa * sb * sum(map(int.__mul__, r, col)) + (vc[i][j] if add else 0) for j, col in enumerate(cols)]
             for i, r in enumerate(va)]
        if fl:
            code = {x: encode(num(F(x)), td) for r in s for x in r}
            d = [[code[x] for x in r] for r in s]
        else:
            d = [[x & 0xFFFFFFFF for x in r] for r in s]
    else:
        a, b, c = random_matrix(m, k, ta, kind), random_matrix(k, n, tb, kind), random_matrix(m, n, td, kind)
        flip = lambda x, sign, t: [[v ^ (1 << BITS[t] - 1) if sign < 0 else v for v in r] for r in x]
        d = product(flip(a, sa, ta), flip(b, sb, tb), c if add else [[0] * n] * m, ta, tb, td, td,
                    ".satfinite" in extra, extra[1:4])
    mem = []
    A = None if in_regs else Shared(mem, mode_a, ma, ta, a, start[0], base, pad)
    first = (len(mem) + 1023) // 1024 * 1024 + start[1]
    B = Shared(mem, mode_b, mb, tb, list(zip(*b)), first + 128 * base, base, pad)
    mem += [0] * (-len(mem) % 16)
    entry = "t%d" % f.n
    f.n += 1
    D, C = registers(d, td, d_place), registers(c, td, d_place)
    words = [sum(mem[i + j] << 8 * j for j in range(4)) for i in range(0, len(mem), 4)]
    flat = lambda r: " ".join("%#x" % x for y in r for x in y)
    f.head.append("// RUN %s block=128" % entry)
    f.head.append("// BUF m u32 " + flat([words]))
    names = ["m"]
    if in_regs:
        RA = registers(a, ta, lambda i, lane, warp: a_place(ta, i, lane, warp))
        f.head.append("// BUF a u32 " + flat(RA))
        names.append("a")
    f.head.append("// BUF d u32 " + flat(C))
    names.append("d")
    f.head.append("// OUT d u32 " + flat(D))
    nd = len(D)
    text = "wgmma.mma_async.sync.aligned.%s.%s.%s.%s%s" % (shape, td, ta, tb, extra)
    ops = ["{%s}" % ", ".join("%%d%d" % r for r in range(nd)), "{%a0, %a1, %a2, %a3}" if in_regs else "%da", "%db",
           "%scale"]
    if fl:
        ops += [str(sa), str(sb)]
    if ta in ("f16", "bf16"):
        ops += ([] if in_regs else [str(int(ma == "mn"))]) + [str(int(mb == "mn"))]
    b_ = ["// %s A %s B %s-%s %s" % (text, "registers" if in_regs else ma + "-" + mode_a, mb, mode_b, kind),
          ".visible .entry %s(%s)" % (entry, ", ".join(".param .u64 %s" % x for x in names)), "{",
          "    .reg .b64 %p, %q, %da, %db; .reg .b32 %t, %i, %x, %z<4>, %a<4>, %d<" + str(nd)
          + ">; .reg .pred %more, %scale;",
          "    .shared .align 1024 .b8 s[%d];" % len(mem),
          "    mov.u32 %t, %tid.x;", "    ld.param.u64 %p, [m];", "    shl.b32 %i, %t, 4;", "COPY:",
          "    setp.lt.u32 %%more, %%i, %d;" % len(mem), "    @!%more bra DONE;", "    cvt.u64.u32 %q, %i;",
          "    add.u64 %q, %q, %p;",
          "    ld.global.v4.b32 {%z0, %z1, %z2, %z3}, [%q];", "    mov.u32 %x, s;", "    add.u32 %x, %x, %i;",
          "    st.shared.v4.b32 [%x], {%z0, %z1, %z2, %z3};", "    add.u32 %i, %i, 2048;", "    bra COPY;", "DONE:",
          "    fence.proxy.async;", "    bar.sync 0;"]
    if in_regs:
        b_ += ["    ld.param.u64 %p, [a];", "    mad.wide.u32 %p, %t, 4, %p;"] + ["    ld.global.b32 %%a%d, [%%p+%d];"
            % (r, 512 * r) for r in range(4)]
    else:
        b_.append("    mov.u64 %%da, %#x;" % A.desc)
    b_ += ["    mov.u64 %%db, %#x;" % B.desc, "    ld.param.u64 %p, [d];", "    mad.wide.u32 %p, %t, 4, %p;"]
    b_ += ["    ld.global.b32 %%d%d, [%%p+%d];" % (r, 512 * r) for r in range(nd)]
    b_ += ["    setp.eq.u32 %%scale, %d, 1;" % add, "    wgmma.fence.sync.aligned;",
           "    %s %s;" % (text, ", ".join(ops)),
           "    wgmma.commit_group.sync.aligned;", "    wgmma.wait_group.sync.aligned 0;"]
    b_ += ["    st.global.b32 [%%p+%d], %%d%d;" % (512 * r, r) for r in range(nd)] + ["    ret;", "}"]
    f.body.append("\n".join(b_))


def make():
    f = File("wgmma", "sm_90a")
    for n in range(8, 257, 8):  # each N, with the layouts in turn
        modes = list(WIDE)
        case(f, "m64n%dk16" % n, "f16", "f16", "f16", "k", ("k", "mn")[n // 8 % 2], modes[n // 8 % 4],
             modes[n // 16 % 4] if n // 8 % 2 == 0 else "none",
             in_regs=n % 3 == 0, add=n % 16 == 0)
    # each layout of each operand
    for mode in WIDE:
        for ma, mb in (("k", "k"), ("mn", "k"), ("k", "mn"), ("mn", "mn")):
            n = max(64, 8 * WIDE[mode]) if mb == "mn" else 24
            case(f, "m64n%dk16" % n, "f32", ("f16", "bf16")[ma == mb], ("f16", "bf16")[ma == mb], ma, mb, mode, mode,
                 pad=(ma == "k") * 256)
    for mode_a, mode_b in (("128", "none"), ("64", "32"), ("32", "128")):
        case(f, "m64n16k16", "f32", "f16", "f16", "k", "k", mode_a, mode_b)
    # a step along K inside a swizzled row; a pattern that does not start at its boundary
    for mode in ("128", "64"):
        case(f, "m64n32k16", "f32", "bf16", "bf16", "k", "k", mode, mode, start=(1024 + 32, 32), signs=(-1, 1))
    case(f, "m64n16k16", "f32", "f16", "f16", "k", "k", start=(1024 + 96, 64))
    for mode, base in (("128", 3), ("128", 6), ("64", 1)):
        case(f, "m64n16k16", "f32", "f16", "f16", "k", "k", mode, mode, start=(1024 + 128 * base, 0), base=base)
    # types, signs, scale-d, odd values
    for kind in ("whole", "any", "edge"):
        case(f, "m64n8k16", "f32", "f16", "f16", "mn", "k", "none", "32", kind=kind, signs=(-1, 1))
        case(f, "m64n8k16", "f16", "f16", "f16", "k", "k", in_regs=True, kind=kind, signs=(1, -1))
        case(f, "m64n8k16", "f32", "bf16", "bf16", "k", "k", "64", "64", in_regs=kind == "edge", kind=kind,
             add=kind != "any")
        case(f, "m64n8k8", "f32", "tf32", "tf32", "k", "k", "128", "none", in_regs=kind != "any", kind=kind,
             signs=(-1, -1))
        case(f, "m64n8k32", "f32", "e4m3", "e5m2", "k", "k", "32", "64", kind=kind, in_regs=kind == "any")
        case(f, "m64n8k32", "f16", "e5m2", "e5m2", "k", "k", "none", "128", kind=kind)
        case(f, "m64n8k32", "s32", "s8", "u8", "k", "k", "128", "128", kind=kind, extra=".satfinite" if kind == "edge"
             else "")
        case(f, "m64n24k32", "s32", "u8", "s8", "k", "k", "64", "none", kind=kind, in_regs=True, add=kind != "any")
        case(f, "m64n8k256", "s32", "b1", "b1", "k", "k", "128", "32", kind=kind, extra=".and.popc",
             in_regs=kind == "any")
    case(f, "m64n256k8", "f32", "tf32", "tf32", "k", "k")
    case(f, "m64n256k32", "s32", "s8", "s8", "k", "k", "64", "64")
    return f


if __name__ == "__main__":
    main(make)
