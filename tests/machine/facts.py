#!/usr/bin/env python3
"""What lets ptxas see a value across a boundary, and what does not: the ways in which one posted kernel's value reaches
another's code in one kernel.

Each row is a kernel in which q = -a and q + c meet in some way. Where ptxas sees through it, the sum takes the sign
(FADD -R, R); where not, there are a sign and a sum as in kernels of their own. Two rows have q = a / b (div.approx),
which becomes a multiply-add with the sum as long as it has no other use. Rows with `apart` are what the rewrites count
on and are asserted; the others say why there are rules (docs/BITS.md), and are printed: an assembler that no longer
combines them breaks nothing.

`forwarded`: the load is gone and its value comes from a register, though the two did not combine here.

    facts.py [--arch sm_90,…]        exit status 1 if a row that must be apart combines; 77 without the tools
"""
import argparse
import re
import sys

import shapes

A = "neg.f32 %q, %a;"
QUOTIENT = "div.approx.f32 %q, %a, %b;"
B = "add.f32 %r, %h, %c;"
JOIN = "mov.f32 %h, %q;"
STORE = "st.global.f32 [%o+4], %q;"
SHARED = "mov.u32 %s, sm; mad.lo.u32 %s, %t, 4, %s;"
FUNCS = {
    "": "",
    "id": ".func (.reg .f32 out) id(.reg .f32 in) { mov.f32 out, in; ret; }",
    "plus": ".func (.reg .f32 out) plus(.reg .f32 a, .reg .f32 b) { add.f32 out, a, b; ret; }",
    "reg": ".func (.reg .f32 out) minus(.reg .f32 in) { neg.f32 out, in; ret; }",
    "minus": ".func (.param .f32 out) minus(.param .f32 a) { .reg .f32 %f<4>; ld.param.f32 %f1, [a]; neg.f32 %f3, "
             "%f1; st.param.f32 [out], %f3; ret; }",
}
CALL = "{ .param .f32 p0, ret0; st.param.f32 [p0], %a; call.uni (ret0), minus, (p0); ld.param.f32 %q, [ret0]; }"


def memory(space, between, st="st", ld="ld"):
    at = {"shared": "%s", "global": "%o+8", "local": "lm"}[space]
    return A + " %s.%s.f32 [%s], %%q; %s %s.%s.f32 %%h, [%s];" % (st, space, at, between, ld, space, at) + B


def rows():
    """(name, text, functions, must be apart)"""
    yield ("kept apart by two kernels' stores and loads",
           A + "st.global.f32 [%o], %q; bar.sync 0; ld.global.f32 %h, [%d];" + B, "", True)
    yield "a register", A + JOIN + B, "", False
    yield "a register, stored too", A + STORE + JOIN + B, "", False
    yield "a quotient in a register", QUOTIENT + JOIN + B, "", False
    yield "a quotient in a register, stored too", QUOTIENT + STORE + JOIN + B, "", False
    yield ("a quotient in a register, stored too, hidden",
           QUOTIENT + STORE + "mov.b32 %i, %q; xor.b32 %i, %i, %z; mov.b32 %h, %i;" + B, "", True)
    yield ("a quotient hidden, its store gone", QUOTIENT + "mov.b32 %i, %q; xor.b32 %i, %i, %z; mov.b32 %h, %i;" + B,
           "", True)
    yield "two uses: added twice", A + JOIN + B + "add.f32 %x, %q, %a; st.global.f32 [%o+4], %x;", "", False
    yield "a guarded move", A + "mov.f32 %h, %a; @%p mov.f32 %h, %q;" + B, "", False
    yield "a choice (selp)", A + "selp.f32 %h, %q, %a, %p;" + B, "", False
    yield "a guarded sum", A + JOIN + "mov.f32 %r, %a; @%p add.f32 %r, %h, %c;", "", False
    yield "a branch between", A + JOIN + "mov.f32 %r, %a; @%p bra L;" + B + "L:", "", False
    yield ("a loop between", "mov.u32 %k, 0; mov.f32 %r, 0f00000000; L: " + A + JOIN
           + "add.f32 %r, %h, %r; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, %t; @%p bra L;", "", False)
    yield "bits in a b32 register", A + "mov.b32 %i, %q; mov.b32 %h, %i;" + B, "", False
    yield "half of a pair (mov.b64)", A + "mov.b64 %w, {%q, %a}; mov.b64 {%h, %x}, %w;" + B, "", False
    yield "or with 0", A + "mov.b32 %i, %q; or.b32 %i, %i, 0; mov.b32 %h, %i;" + B, "", False
    yield "xor with a launch parameter", A + "mov.b32 %i, %q; xor.b32 %i, %i, %z; mov.b32 %h, %i;" + B, "", True
    yield ("xor with one parameter twice",
           A + "mov.b32 %i, %q; xor.b32 %i, %i, %z; xor.b32 %i, %i, %z; mov.b32 %h, %i;" + B, "", False)
    yield "xor, guarded", A + "mov.b32 %i, %q; @%p xor.b32 %i, %i, %z; mov.b32 %h, %i;" + B, "", True
    yield ("xor, of a guarded move",
           A + "mov.f32 %h, %a; @%p mov.f32 %h, %q; mov.b32 %i, %h; xor.b32 %i, %i, %z; mov.b32 %h, %i;" + B, "", True)
    yield "xor, in a loop", ("mov.u32 %k, 0; mov.f32 %r, 0f00000000; L: " + A
                             + "mov.b32 %i, %q; xor.b32 %i, %i, %z; mov.b32 %h, %i; add.f32 %r, %h, %r;"
                             "add.u32 %k, %k, 1; setp.lt.u32 %p, %k, %t; @%p bra L;"), "", True
    for space in ("shared", "global", "local"):
        yield "%s memory, no barrier" % space, memory(space, ""), "", False
        if space != "local":
            for barrier in ("bar.sync 0;", "barrier.sync 0;", "barrier.sync 1, 128;", "bar.red.popc.u32 %k, 0, %p;"):
                yield "%s memory, %s" % (space, barrier), memory(space, barrier), "", True
            for fence in ("bar.warp.sync -1;", "membar.cta;", "fence.acq_rel.cta;", "fence.acq_rel.gpu;",
                          "fence.sc.sys;"):
                yield "%s memory, %s" % (space, fence), memory(space, fence), "", False
            yield "%s memory, volatile both" % space, memory(space, "", "st.volatile", "ld.volatile"), "", True
            yield "%s memory, volatile load" % space, memory(space, "", "st", "ld.volatile"), "", False
            yield "%s memory, volatile store" % space, memory(space, "", "st.volatile", "ld"), "", False
            yield "%s memory, relaxed both" % space, memory(space, "", "st.relaxed.gpu", "ld.relaxed.gpu"), "", False
            at = "%s" if space == "shared" else "%o+8"
            moved = "mov.f32 %%h, %%a; @%%p st.%s.f32 [%s], %%q; @%%p ld.%s.f32 %%h, [%s];" % (space, at, space, at)
            yield "%s memory, guarded both" % space, A + moved + B, "", False
    yield "global memory, ld.global.nc", memory("global", "", "st", "ld").replace("ld.global.f32 %h",
        "ld.global.nc.f32 %h"), "", False
    yield "global memory, a call between", memory("global",
                                                  "call.uni (%x), id, (%a);") + "st.global.f32 [%o+4], %x;", "id", False
    yield "a function's result", CALL + JOIN + B, "minus", False
    yield "a function's result, by registers", "call (%q), minus, (%a);" + JOIN + B, "reg", False
    yield "the sum in a function", A + JOIN + "call (%r), plus, (%h, %c);", "plus", False
    yield "a function's result, hidden", CALL + "mov.b32 %i, %q; xor.b32 %i, %i, %z; mov.b32 %h, %i;" + B, "minus", True
    yield "a shuffle", A + "mov.b32 %i, %q; shfl.sync.idx.b32 %i, %i, 0, 31, -1; mov.b32 %h, %i;" + B, "", True


def kernel(n, body, funcs):
    """Row n's kernel, k<n>; its function is m<n>, so that each kernel has its own."""
    return "\n".join([
        FUNCS[funcs].replace("minus", "m%d" % n).replace("plus", "m%d" % n).replace(" id(", " m%d(" % n),
        ".visible .entry k%d(.param .u64 i, .param .u64 o, .param .u32 z, .param .u64 d)" % n,
        "{ .reg .b64 %i0, %o, %d, %w; .reg .f32 %a, %b, %c, %q, %h, %r, %x; .reg .b32 %i, %z, %s, %t, %k; .reg .pred "
        "%p;",
        ".shared .align 4 .b8 sm[4096]; .local .align 4 .b8 lm[16];",
        "ld.param.u64 %i0, [i]; ld.param.u64 %o, [o]; ld.param.u64 %d, [d]; ld.param.u32 %z, [z];",
        "cvta.to.global.u64 %i0, %i0; cvta.to.global.u64 %o, %o; cvta.to.global.u64 %d, %d;",
        "mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 5;" + SHARED,
        "ld.global.f32 %a, [%i0]; ld.global.f32 %b, [%i0+16]; ld.global.f32 %c, [%i0+32];",
        re.sub(r"\b(minus|plus|id), ", "m%d, " % n, body), "st.global.f32 [%o], %r; ret; }"])


def verdict(body, lines):
    own = shapes.Shapes(lines).own
    if "FADD -R, R" in own or any(s.startswith("FFMA") for s in own):
        return "combines"
    loads = sum(" LDG." in line or " LDS " in line or " LDS." in line or " LDL" in line for line in lines)
    again = re.search(r"\bld\.[a-z.]*(shared|global|local)", body)
    return "forwarded" if again and loads == 2 else "apart"  # of a and c alone


def look(tools, arch, table):
    """Verdicts by row."""
    cubin, wrong = shapes.assemble(tools[0], ".version 8.8\n.target %s\n.address_size 64\n" % arch +
                                 "\n".join(kernel(n, body, funcs) for n, (_, body, funcs, _) in enumerate(table)), arch)
    if not cubin:
        sys.exit("%s: %s" % (arch, wrong))
    code = shapes.disassemble(tools[1], cubin)
    return [verdict(body, code["k%d" % n]) for n, (_, body, _, _) in enumerate(table)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--arch", default="sm_90")
    o = p.parse_args()
    tools, table, archs = shapes.tools(), list(rows()), o.arch.split(",")
    print("ptxas %s" % shapes.version(tools[0]))
    seen = {a: look(tools, a, table) for a in archs}
    failed = 0
    for n, (name, _, _, apart) in enumerate(table):
        failed += apart and any(seen[a][n] != "apart" for a in archs)
        print("%-56s %-14s %s" % (name, "must be apart" if apart else "",
                                  ", ".join("%s %s" % (a, seen[a][n]) for a in archs)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
