"""What lanes of a warp do together: shfl with segments and clamps, vote, match, redux, elect, activemask; all lanes,
and some with the others elsewhere.
"""
from casefile import File, ints, main, rng, table
from exact import signed

MASKS = (0xFFFFFFFF, 0x0000FFFF, 0x80000001, 0x55555555, 0x00000100, 0x7FFFFFF0)


def case(f, text, mask, rows, want, tin=("u32", "u32")):
    """`text` by the lanes of mask, d (64 bits) stays 0xEE of the others"""
    f.case("mov.u64 %%d, 0xEE;\nshr.u32 %%z, %#x, %%j;\nand.b32 %%z, %%z, 1;\nsetp.eq.u32 %%x, %%z, 0;\n@%%x bra "
           "SKIP;\n%s\nSKIP:" % (mask, text), "u64", list(tin), rows,
           [w if mask >> k & 1 else 0xEE for k, w in enumerate(want)], regs=".reg .b32 %r, %s; .reg .pred %u, %v;")


def shuffled(mode, lane, b, c):
    """(source lane, predicate)"""
    seg, clamp, b = c >> 8 & 31, c & 31, b & 31
    top, low = lane & seg | clamp & ~seg & 31, lane & seg
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | b & ~seg & 31}[mode]
    p = j >= top if mode == "up" else j <= top
    return (j if p else lane), int(p)


def shuffles(f):
    for form in table("shfl"):
        mode = next(m for m in form.mods if m in ("up", "down", "bfly", "idx"))
        second = form.shape == "6"
        clamps = [0, 0x0800, 0x1000, 0x1E00, 0x0305] if mode == "up" else [0x1F, 0x181F, 0x101F, 0x1C1F, 0x1E1F, 0x0007,
            0x1803, 0x1F1F]
        for c in clamps:
            for mask in MASKS if c in (0, 0x1F) else MASKS[:1]:
                vals = [rng.getrandbits(32) for _ in range(32)]
                for step in (0, 1, 3, 16, 31, 32, None):
                    b = [rng.choice((0, 1, 2, 5, 16, 31, 33, rng.getrandbits(32))) if step is None else step
                         for _ in range(32)]
                    src = [shuffled(mode, k, b[k], c) for k in range(32)]
                    if any(mask >> k & 1 and not mask >> src[k][0] & 1 for k in range(32)):
                        continue  # a value from a lane that takes no part is undefined
                    want = [vals[j] | (p << 32 if second else 0) for j, p in src]
                    by = "%b" if step is None else "%d" % step
                    tail = "selp.b32 %s, 1, 0, %u;" if second else "mov.u32 %s, 0;"
                    case(f, "%s %%r%s, %%a, %s, %#x, %#x;\n%s\nmov.b64 %%d, {%%r, %%s};"
                         % (form.text, "|%u" * second, by, c, mask, tail), mask, list(zip(vals, b)), want)


def votes(f):
    for form in table("vote"):
        for mask in MASKS:
            for kind in range(5):
                a = [0] * 32 if kind == 0 else [1] * 32 if kind == 1 else [rng.randrange(2)
                    for _ in range(32)] if kind < 4 else [int(k == 8) for k in range(32)]
                no = kind == 3
                p = [x ^ no for k, x in enumerate(a) if mask >> k & 1]
                ballot = sum((x ^ no) << k for k, x in enumerate(a) if mask >> k & 1)
                r = {"any": int(any(p)), "all": int(all(p)), "uni": int(len(set(p)) == 1),
                     "ballot": ballot}[next(m for m in form.mods if m != "sync")]
                text = "setp.ne.u32 %%u, %%a, 0;\n%s %s, %s%%u, %#x;\n" % (form.text, "%r" if form.t == "b32" else "%v",
                    "!" * no, mask)
                case(f, text + ("" if form.t == "b32" else "selp.b32 %r, 1, 0, %v;\n") + "cvt.u64.u32 %d, %r;", mask,
                     list(zip(a, a)), [r] * 32)


def matches(f):
    for form in table("match"):
        w = int(form.t[1:])
        every = "all" in form.mods
        for mask in MASKS:
            for kind in range(3):
                few = [rng.getrandbits(w) for _ in range(3)] + [1 << (w - 1)]
                a = [few[0]] * 32 if kind == 0 else [rng.choice(few)
                                                     for _ in range(32)] if kind == 1 else [(few[0] ^ (1 << (w - 1))
                                                         * (k == 31)) for k in range(32)]
                inside = [k for k in range(32) if mask >> k & 1]
                same = len({a[k] for k in inside}) == 1
                want = [(mask if same else 0) if every else sum(1 << j for j in inside if a[j] == a[k])
                        for k in range(32)]
                second = form.shape == "4"
                if second:
                    want = [v | int(same) << 32 for v in want]
                text = "%s %%r%s, %%a, %#x;\n%s\nmov.b64 %%d, {%%r, %%s};" % (form.text, "|%u" * second, mask,
                    "selp.b32 %s, 1, 0, %u;" if second else "mov.u32 %s, 0;")
                case(f, text, mask, list(zip(a, a)), want, ("u%d" % w, "u%d" % w))


def reductions(f):
    for form in table("redux"):
        if form.t == "f32":
            continue
        op = next(m for m in form.mods if m != "sync")
        for mask in MASKS:
            a = [rng.choice(ints(32) + [rng.getrandbits(32)]) for _ in range(32)]
            v = [signed(x, 32) if form.t == "s32" else x for k, x in enumerate(a) if mask >> k & 1]
            r = v[0]
            for x in v[1:]:
                r = {"add": r + x, "min": min(r, x), "max": max(r, x), "and": r & x, "or": r | x, "xor": r ^ x}[op]
            case(f, "%s %%r, %%a, %#x;\ncvt.u64.u32 %%d, %%r;" % (form.text, mask), mask, list(zip(a, a)),
                 [r & 0xFFFFFFFF] * 32)


def others(f):
    for mask in MASKS:
        rows = [(k, k) for k in range(32)]
        case(f, "activemask.b32 %r;\ncvt.u64.u32 %d, %r;", mask, rows, [mask] * 32)
        # one lane is elected, a member, and all know it
        text = ("elect.sync %%r|%%u, %#x;\nvote.ballot.sync.b32 %%s, %%u, %#x;\nmov.u32 %%z, 1;\nshl.b32 %%z, %%z, "
                "%%r;\nsetp.eq.u32 %%v, %%z, %%s;\nselp.u64 %%d, 1, 0, %%v;\n")
        case(f, text % (mask, mask) + "and.b32 %%z, %%z, %#x;\nsetp.eq.u32 %%v, %%z, 0;\n@%%v mov.u64 %%d, 2;" % mask,
             mask, rows, [1] * 32)


def make():
    f = File("warps", "sm_90")
    shuffles(f)
    votes(f)
    matches(f)
    reductions(f)
    others(f)
    return f


if __name__ == "__main__":
    main(make)
