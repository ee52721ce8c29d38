"""Writes device/weights.def: what ptxas makes of single instructions of PTX, in instructions of the machine by pipe.
One kernel an instruction, less the same kernel without it; every line runs once, so the paths for odd operands of
floats count nothing, and loops count one turn.

  weights.py WEIGH [--write]

WEIGH is the program of weigh.c. Without --write: does the file say what this ptxas makes? A test; other versions than
that in the file's head are not compared (exit status 77).
"""
import os
import subprocess
import sys
import tempfile

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../device/weights.def")
ARCHS = ("sm_80", "sm_86", "sm_90")
LETTER = {"f32": "f", "f64": "d", "f16": "h", "bf16": "h", "b16": "h", "s16": "h", "u16": "h", "f16x2": "r", "s32": "r",
          "u32": "r", "b32": "r", "s64": "l", "u64": "l", "b64": "l", "bf16x2": "r", "s8": "r", "u8": "r"}
STORE = {"f": "f32", "d": "f64", "h": "b16", "r": "b32", "l": "b64"}


def ops():
    """(mnemonic, modifier that tells apart, types, PTX with %x3 of the first type's registers written)"""
    def of(op, mod, types, n, more=""):
        regs = ",".join([f"%{LETTER[types[0]]}3"] + [f"%{LETTER[types[-1]]}{k}" for k in (1, 2, 4)[:n]])
        return op, mod, types, f"{op}{mod}{more}.{'.'.join(types)} {regs};"
    for t in ("s32", "u32", "s64", "u64", "s16", "u16"):
        yield from (of(o, "", [t], 2) for o in ("add", "sub", "div", "rem", "min", "max"))
        yield from (of("mul", m, [t], 2) for m in (".lo", ".hi"))
        yield from (of("mad", m, [t], 3) for m in (".lo", ".hi"))
    for t, w in (("s32", "l"), ("u32", "l"), ("s16", "r"), ("u16", "r")):
        yield "mul", ".wide", [t], f"mul.wide.{t} %{w}3,%{LETTER[t]}1,%{LETTER[t]}2;"
        yield "mad", ".wide", [t], f"mad.wide.{t} %{w}3,%{LETTER[t]}1,%{LETTER[t]}2,%{w}4;"
    yield from (of(o, "", [t], 1) for o in ("abs", "neg") for t in ("s32", "s64", "f32", "f64", "f16"))
    yield from (of(o, "", ["b" + b], 2) for o in ("and", "or", "xor") for b in ("16", "32", "64"))
    yield from (of("not", "", ["b" + b], 1) for b in ("32", "64"))
    for o, t in (("shl", "b32"), ("shr", "u32"), ("shr", "s32"), ("shl", "b64"), ("shr", "u64"), ("shr", "s64")):
        yield o, "", [t], f"{o}.{t} %{LETTER[t]}3,%{LETTER[t]}1,%r2;"
    yield from (of(o, "", [t], 3) for o, t in (("prmt", "b32"), ("bfe", "u32"), ("bfe", "s32")))
    yield "shf", "", ["b32"], "shf.l.wrap.b32 %r3,%r1,%r2,%r4;"
    yield "bfi", "", ["b32"], "bfi.b32 %r3,%r1,%r2,%r4,5;"
    yield "lop3", "", ["b32"], "lop3.b32 %r3,%r1,%r2,%r4,0x96;"
    yield "dp4a", "", ["s32"], "dp4a.s32.s32 %r3,%r1,%r2,%r4;"
    for o in ("popc", "clz", "brev"):
        yield of(o, "", ["b32"], 1)
        yield o, "", ["b64"], f"{o}.b64 %{'l' if o == 'brev' else 'r'}3,%l1;"
    for t in ("f32", "f64"):
        yield from (of(o, "", [t], 2) for o in ("add", "sub", "mul", "min", "max"))
        yield from (of(o, m, [t], 2 if o == "div" else 1) for o in ("div", "rcp", "sqrt") for m in (".rn",))
        yield of("fma", ".rn", [t], 3)
    yield from (of(o, ".approx", ["f32"], 2 if o == "div" else 1) for o in ("div", "rcp", "sqrt", "rsqrt", "sin", "cos",
                                                                         "lg2", "ex2", "tanh"))
    yield of("div", ".full", ["f32"], 2)
    yield of("rsqrt", ".approx", ["f64"], 1)
    for t in ("f16", "f16x2", "bf16", "bf16x2"):
        yield from (of(o, "", [t], 2) for o in ("add", "sub", "mul", "min", "max"))
        yield of("fma", ".rn", [t], 3)
    for t in ("s32", "u32", "s64", "u64", "f32", "f64"):
        yield "setp", "", [t], f"setp.lt.{t} %p2,%{LETTER[t]}1,%{LETTER[t]}2;selp.b32 %r3,%r1,%r2,%p2;"
    yield "selp", "", ["b32"], "setp.ne.s32 %p2,%r4,0;selp.b32 %r3,%r1,%r2,%p2;"
    ints = ("s32", "u32", "s64", "u64", "s16", "u16")
    for a in ints:
        for b in ("f32", "f64", "f16"):
            yield of("cvt", "", [b, a], 1, ".rn")
            yield of("cvt", "", [a, b], 1, ".rzi")
    yield from (of("cvt", "", t, 1, ".rn" if t[0] in ("f16", "bf16") or t == ["f32", "f64"] else "")
                for t in (["f16", "f32"], ["f32", "f16"], ["f32", "f64"], ["f64", "f32"], ["bf16", "f32"],
                          ["s64", "s32"], ["u64", "u32"],
                          ["s32", "s64"], ["s32", "s16"], ["u32", "u16"], ["u16", "u32"]))
    yield "shfl", "", ["b32"], "shfl.sync.bfly.b32 %r3,%r1,1,31,0xffffffff;"
    yield "vote", "", ["b32"], "setp.ne.s32 %p2,%r1,0;vote.sync.ballot.b32 %r3,%p2,0xffffffff;"
    for space, at in (("global", "%l9"), ("shared", "sh")):
        for v in ("", ".v2", ".v4"):
            regs = "%r3" if not v else "{" + ",".join(f"%r{k}" for k in (3, 5, 6, 7)[:int(v[2])]) + "}"
            yield "ld", "." + space + v, ["b32"], f"ld.volatile.{space}{v}.b32 {regs},[{at}+96];"
            yield "st", "." + space + v, ["b32"], f"st.volatile.{space}{v}.b32 [{at}+96],{regs.replace('%r3', '%r1')};"
        yield from (("atom", "." + space, [t], f"atom.{space}.add.{t} %{LETTER[t]}3,[{at}+96],%{LETTER[t]}1;")
                    for t in ("u32", "f32", "f64", "u64"))
        yield from (("red", "." + space, [t], f"red.{space}.add.{t} [{at}+96],%{LETTER[t]}1;") for t in ("u32", "f32"))
    yield "bar.sync", "", [], "bar.sync 0;"
    yield ("mma", "", ["f32"], "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f3,%f5,%f6,%f7},{%r1,%r2,%r4,%r1},"
           "{%r4,%r2},{%f1,%f2,%f4,%f1};")


KERNEL = """.version 8.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 a,.param .u64 o)
{{
.reg .pred %p<4>;.reg .b16 %h<8>;.reg .b32 %r<16>;.reg .b64 %l<16>;.reg .f32 %f<8>;.reg .f64 %d<8>;
.shared .align 16 .b8 sh[512];
ld.param.u64 %l9,[a];
ld.param.u64 %l8,[o];
cvta.to.global.u64 %l9,%l9;
cvta.to.global.u64 %l8,%l8;
{loads}
{body}
{store}
ret;
}}
"""
LOADS = "\n".join(f"ld.volatile.global.{STORE[c]} %{c}{k},[%l9+{64 * i + 8 * k}];"
                  for i, c in enumerate("fdrlh") for k in (1, 2, 4))


def kernels(arch, text):
    """With the instruction, and without it: what it would have written is something else then."""
    written = [c for c in "fdrlh" if f"%{c}3" in text]
    for body, n in ((text, 3), ("", 1)):
        store = "".join(f"st.global.{STORE[c]} [%l8],%{c}{n};" for c in written)
        yield KERNEL.format(arch=arch, loads=LOADS, body=body, store=store) + "//\n"


def weigh(program, arch, some):
    given = "".join(k for _, _, _, text in some for k in kernels(arch, text))
    out = subprocess.run([program, arch], input=given, capture_output=True, text=True, check=False)
    if out.returncode == 77:
        sys.exit(77)
    rows = [dict(zip(w[::2], map(int, w[1::2]))) if "refused" not in w else None
            for w in map(str.split, out.stdout.rstrip("\n").split("\n"))]
    assert len(rows) == 2 * len(some), out.stderr
    for k in range(len(some)):
        one, none = rows[2 * k], rows[2 * k + 1]
        yield None if one is None or none is None else " ".join(f"{p} {n}" for p, n in less(one, none).items() if n > 0)


def less(one, none):
    """By pipe. A move is a MOV, an IMAD or an HFMA2: the assembler takes the pipe that has less to do. What one of
    these lost another has, and the instruction is one of the pipe that lost them."""
    diff = {p: one[p] - none[p] for p in one}
    moves = ("alu", "fmaheavy", "half")
    for lost in moves:
        for more in moves:
            n = min(-diff[lost], diff[more])
            if n > 0:
                also = min(n, diff[more] - n)
                diff[lost] += n + also
                diff[more] -= n + also
    return diff


def version():
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/k.ptx", "w", encoding="ascii") as f:
            f.write(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n")
        ptxas = os.environ.get("DOVETAIL_PTXAS")
        out = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False).stdout if ptxas else ""
        return out.rsplit("V", 1)[-1].split()[0] if "V" in out else ""


def main():
    third = "--third" in sys.argv  # of the rows
    some = list(dict.fromkeys((o, m, tuple(t), text) for o, m, t, text in ops()))[::3 if third else 1]
    found = [list(weigh(sys.argv[1], arch, some)) for arch in ARCHS]
    rows = []
    for k, (op, mod, types, _) in enumerate(some):
        cells = [f[k] for f in found]
        if any(c is None for c in cells):
            cells = [c or "" for c in cells]
        if any(cells):
            t = list(types) + ["", ""]
            head, tail = f'W("{op}", "{mod}", "{t[0]}", "{t[1]}",', ", ".join(f'"{c}"' for c in cells) + ")"
            rows.append(head + (" " if len(head + tail) < 118 else "\n  ") + tail)
    with open(PATH, encoding="utf-8") as f:
        old = f.read()
    new = HEAD + "\n".join(rows) + "\n"
    if "--write" in sys.argv:
        with open(PATH, "w", encoding="utf-8") as f:
            f.write(new)
        print(f"{len(rows)} rows")
        return 0
    made_by = old.split("ptxas ", 1)[-1].split(",")[0].split(":")[0].strip() if "ptxas " in old else ""
    if version() != made_by:
        print(f"the table is of ptxas {made_by}, here is {version() or 'none'}")
        return 77
    if third:
        differ = sorted(set(new.split("\n")) - set(old.split("\n")))
    else:
        differ = sorted(set(old.split("\n")) ^ set(new.split("\n")))
    print("\n".join(differ[:20]) or f"{len(rows)} rows, as ptxas {made_by} has them")
    return 1 if differ else 0


HEAD = f"""/* What instructions of PTX are in machine code: an estimate, for where no assembler is. Written by
 * tests/machine/weights.py with ptxas {version()}, one kernel an instruction; a test compares.
 *
 * W(instruction, modifiers, type, second type, sm_80, sm_86, sm_90): machine instructions by pipe (sass-pipes.def), ""
 * where there is none or where it takes none. Slow paths count nothing, loops one turn; where a division of 64 bits has
 * a way of its own for small numbers, both count for half. Moves may be on other pipes than elsewhere.
 */
"""

if __name__ == "__main__":
    sys.exit(main())
