/* Summaries (analysis/summary/summary.c): footprints found without running a kernel are those of the kernel run whole.
 *
 * The recorder, which sets a bit for every access that the software device executes, is the reference. Kernels by hand
 * aim at where a summary could be wrong: arithmetic that wraps, rounds that do not divide, guards of every kind, loops
 * in loops whose bounds depend on each other, counters that do not move evenly, jumps into and out of loops; most must
 * have a summary all the same, and the table says which. Random nests of loops follow; then what summaries are for:
 * work that does not grow with the rounds of a loop.
 */
#include "analysis-fixture.h"
#include "analysis/instrument/instrument-priv.h"
#include "tests/skip.h"

/* ---- by hand
 * ---------------------------------------------------------------------------------------------------------- %t thread,
 * %b %c block, %n the number 100; %A %B buffers of 64 KB; %r %d %h %p registers. */
static const struct {
    const char *name, *body;
    bool summary; /* it must have one */
    int grid;     /* x; 0: 5 */
} kernel[] = {
    {"plain",
     "mad.lo.u32 %r0,%b,64,%t; mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; ld.global.u32 %r1,[%e0]; st.global.u32 "
     "[%e0+16384],%r1;",
     true},
    {"wrap-before",
     "shl.b32 %r0,%t,2; add.u32 %r0,%r0,-16; cvt.u64.u32 %d0,%r0; add.s64 %e0,%d0,%A; setp.ge.u32 %p0,%t,4; @%p0 "
     "ld.global.u32 %r1,[%e0];",
     true},
    {"wrap-in-loop",
     "mov.u32 %r0,-16; L: cvt.u64.u32 %d0,%r0; add.s64 %e0,%d0,%A; setp.lt.u32 %p0,%r0,4096; @%p0 ld.global.u32 "
     "%r1,[%e0]; add.u32 %r0,%r0,4; setp.ne.u32 %p1,%r0,64; @%p1 bra L;",
     true},
    {"wrap-signed",
     "mov.u32 %r0,2147483640; mov.u32 %r3,0; L: shr.s32 %r1,%r0,31; and.b32 %r1,%r1,64; add.u32 %r1,%r1,%r3; "
     "mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r1; add.u32 %r0,%r0,1; add.u32 %r3,%r3,1; "
     "setp.lt.u32 %p1,%r3,16; @%p1 bra L;",
     true},
    {"wrap-wide",
     "mov.u32 %r0,0; L: mul.lo.u32 %r1,%r0,1073741824; shr.u32 %r1,%r1,20; cvt.u64.u32 %d0,%r1; add.s64 %e0,%d0,%A; "
     "st.global.u32 [%e0],%r1; add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,9; @%p1 bra L;",
     true},
    {"wrap-short",
     "mov.u16 %h0,0; mov.u32 %r3,0; L: cvt.u32.u16 %r0,%h0; shr.u32 %r0,%r0,2; and.b32 %r0,%r0,-4; cvt.u64.u32 "
     "%d0,%r0; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r0; add.u16 %h0,%h0,5000; add.u32 %r3,%r3,1; setp.lt.u32 "
     "%p1,%r3,40; @%p1 bra L;",
     true},
    {"backwards",
     "cvt.u64.u32 %d1,%t; shl.b64 %d1,%d1,2; add.s64 %e0,%A,%d1; add.s64 %e0,%e0,8192; mov.u32 %r0,20; L: "
     "ld.global.u32 %r1,[%e0]; add.s64 %e0,%e0,-256; add.s32 %r0,%r0,-1; setp.ne.s32 %p0,%r0,0; @%p0 bra L;",
     true},
    {"not-dividing",
     "mov.u32 %r0,%t; L: setp.ge.u32 %p0,%r0,%n; @%p0 bra D; mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; st.global.u32 "
     "[%e0],%r0; add.u32 %r0,%r0,24; bra L; D:",
     true},
    {"grid-stride",
     "mad.lo.u32 %r0,%b,64,%t; L: setp.ge.u32 %p0,%r0,1000; @%p0 bra D; mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; "
     "st.global.u32 [%e0],%r0; add.u32 %r0,%r0,320; bra L; D:",
     true},
    {"early-exit",
     "mov.u32 %r0,0; L: mul.lo.u32 %r1,%r0,3; setp.gt.u32 %p0,%r1,%t; @%p0 ret; mad.lo.u32 %r2,%r0,64,%t; mul.wide.u32 "
     "%d0,%r2,4; add.s64 %e0,%d0,%A; ld.global.u32 %r3,[%e0]; add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,16; @%p1 bra L; "
     "st.global.u32 [%B],%r0;",
     true},
    {"guards",
     "setp.lt.u32 %p0,%t,40; setp.gt.u32 %p1,%b,1; setp.eq.u32 %p2,%c,0; and.pred %p3,%p0,%p1; or.pred %p3,%p3,%p2; "
     "xor.pred %p4,%p3,%p0; setp.lt.xor.u32 %p5|%p6,%t,9,%p4; mad.lo.u32 %r0,%b,64,%t; mul.wide.u32 %d0,%r0,4; add.s64 "
     "%e1,%d0,%B; add.s64 %e0,%d0,%A; @%p3 st.global.u32 [%e0],%r0; @!%p4 st.global.u32 [%e1],%r0; @%p5 ld.global.u32 "
     "%r1,[%e0+8192]; @%p6 ld.global.u32 %r1,[%e1+8192];",
     true},
    {"own-trips",
     "and.b32 %r1,%t,7; mov.u32 %r0,0; setp.eq.u32 %p0,%r1,0; @%p0 bra D; L: mad.lo.u32 %r2,%r0,64,%t; mul.wide.u32 "
     "%d0,%r2,4; add.s64 %e0,%d0,%A; ld.global.u32 %r3,[%e0]; add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,%r1; @%p1 bra L; "
     "D:",
     true},
    {"digits",
     "mov.u32 %r0,%t; L: div.u32 %r1,%r0,7; rem.u32 %r2,%r0,7; mad.lo.u32 %r3,%r1,32,%r2; mul.wide.u32 %d0,%r3,4; "
     "add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r0; add.u32 %r0,%r0,14; setp.lt.u32 %p0,%r0,700; @%p0 bra L;",
     true},
    {"odd-digits",
     "mov.u32 %r0,%t; L: div.s32 %r1,%r0,7; rem.s32 %r2,%r0,7; mad.lo.u32 %r3,%r1,32,%r2; mul.wide.u32 %d0,%r3,4; "
     "add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r0; add.u32 %r0,%r0,13; setp.lt.u32 %p0,%r0,500; @%p0 bra L;",
     true},
    {"bits",
     "mov.u32 %r0,%t; L: shr.u32 %r1,%r0,5; and.b32 %r2,%r0,31; shl.b32 %r3,%r1,6; or.b32 %r3,%r3,%r2; xor.b32 "
     "%r3,%r3,32; and.b32 %r4,%r3,-8; add.u32 %r3,%r3,%r4; mul.wide.u32 %d0,%r3,4; add.s64 %e0,%d0,%A; st.global.u32 "
     "[%e0],%r0; add.u32 %r0,%r0,64; setp.lt.u32 %p0,%r0,640; @%p0 bra L;",
     true},
    {"triangle",
     "mov.u32 %r0,0; L: mov.u32 %r1,0; M: setp.gt.u32 %p0,%r1,%r0; @%p0 bra D; mad.lo.u32 %r2,%r0,64,%r1; mul.wide.u32 "
     "%d0,%r2,4; add.s64 %e0,%d0,%A; ld.global.u32 %r3,[%e0]; add.u32 %r1,%r1,1; bra M; D: add.u32 %r0,%r0,1; "
     "setp.lt.u32 %p1,%r0,20; @%p1 bra L;",
     true},
    {"block-triangle",
     "mov.u32 %r1,0; M: setp.gt.u32 %p0,%r1,%b; @%p0 bra D; mad.lo.u32 %r2,%b,64,%r1; mul.wide.u32 %d0,%r2,4; add.s64 "
     "%e0,%d0,%A; st.global.u32 [%e0],%r3; add.u32 %r1,%r1,1; bra M; D:",
     true},
    {"no-round",
     "mov.u32 %r0,100; L: setp.ge.u32 %p0,%r0,%n; @%p0 bra D; mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; "
     "ld.global.u32 %r3,[%e0]; add.u32 %r0,%r0,1; bra L; D: st.global.u32 [%B],%r0;",
     true},
    {"far-stride",
     "mov.u64 %d0,0; mov.u32 %r0,0; L: and.b64 %d1,%d0,65535; add.s64 %e1,%d1,%A; ld.global.u32 %r1,[%e1]; shr.u64 "
     "%d2,%d0,31; shl.b64 %d2,%d2,2; add.s64 %e2,%d2,%B; st.global.u32 [%e2],%r0; add.s64 %d0,%d0,2147483648; add.u32 "
     "%r0,%r0,1; setp.lt.u32 %p0,%r0,50; @%p0 bra L;",
     true},
    {"parity",
     "mov.u32 %r0,0; L: shl.b32 %r1,%r0,31; shr.u32 %r1,%r1,29; cvt.u64.u32 %d0,%r1; add.s64 %e0,%d0,%A; st.global.u32 "
     "[%e0],%r0; add.u32 %r0,%r0,1; setp.lt.u32 %p0,%r0,11; @%p0 bra L;",
     true},
    {"widths",
     "cvt.u64.u32 %d1,%t; mov.u32 %r0,0; add.s64 %e0,%A,%d1; L: ld.global.u8 %r1,[%e0]; and.b64 %d2,%e0,0; add.s64 "
     "%e0,%e0,96; add.u32 %r0,%r0,1; setp.lt.u32 %p0,%r0,30; @%p0 bra L;",
     false},
    {"narrow",
     "cvt.u64.u32 %d1,%t; mov.u32 %r0,0; add.s64 %e0,%A,%d1; shl.b64 %d2,%d1,4; add.s64 %e2,%d2,%B; L: ld.global.u8 "
     "%r1,[%e0]; st.global.u16 [%e2+6],%h0; st.global.v4.u32 [%e2+4096],{%r1,%r1,%r1,%r1}; ld.global.v2.u16 "
     "{%h0,%h1},[%e2+2048]; add.s64 %e0,%e0,96; add.s64 %e2,%e2,1024; add.u32 %r0,%r0,1; setp.lt.u32 %p0,%r0,30; @%p0 "
     "bra L;",
     true},
    {"ahead",
     "mov.u32 %r0,0; mul.wide.u32 %d0,%t,4; add.s64 %e0,%d0,%A; L: add.u32 %r1,%r0,1; setp.lt.u32 %p0,%r1,12; @%p0 "
     "ld.global.u32 %r2,[%e0+256]; st.global.u32 [%e0+32768],%r2; add.s64 %e0,%e0,256; mov.u32 %r0,%r1; @%p0 bra L;",
     true},
    {"swizzle",
     "rem.u32 %r0,%b,3; div.u32 %r1,%b,3; shr.u32 %r2,%b,1; xor.b32 %r2,%r2,%b; mad.lo.u32 %r3,%r0,16,%r1; mad.lo.u32 "
     "%r3,%r3,64,%t; mul.wide.u32 %d0,%r3,4; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r0; mad.lo.u32 %r3,%r2,64,%t; "
     "mul.wide.u32 %d0,%r3,4; add.s64 %e0,%d0,%B; st.global.u32 [%e0],%r0;",
     true},
    {"clamped",
     "sub.s32 %r0,%b,3; shr.s32 %r0,%r0,1; max.s32 %r0,%r0,0; add.u32 %r1,%b,%t; min.u32 %r1,%r1,50; mad.lo.u32 "
     "%r2,%r0,64,%r1; mul.wide.s32 %d0,%r2,4; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r0; mov.u32 %r3,0; L: min.u32 "
     "%r4,%r3,17; mad.lo.u32 %r4,%r4,64,%t; mul.wide.u32 %d0,%r4,4; add.s64 %e0,%d0,%B; ld.global.u32 %r5,[%e0]; "
     "add.u32 %r3,%r3,1; setp.le.u32 %p0,%r3,30; @%p0 bra L;",
     true},
    {"choose-pointer",
     "and.b32 %r0,%t,1; setp.eq.u32 %p0,%r0,0; selp.b64 %e0,%A,%B,%p0; cvt.u64.u32 %d1,%t; shl.b64 %d1,%d1,2; add.s64 "
     "%e0,%e0,%d1; mov.u32 %r1,0; L: st.global.u32 [%e0],%r1; add.s64 %e0,%e0,512; add.u32 %r1,%r1,1; setp.lt.u32 "
     "%p1,%r1,30; @%p1 bra L;",
     true},
    {"pointer-bound",
     "mov.u64 %d0,%A; add.s64 %e1,%A,4096; L: ld.global.u32 %r1,[%d0]; add.s64 %d0,%d0,16; setp.ne.s64 %p0,%d0,%e1; "
     "@%p0 bra L; sub.s64 %d2,%e1,%A; add.s64 %e2,%d2,%B; st.global.u32 [%e2],%r1;",
     false},
    {"pointer-below",
     "add.s64 %d0,%A,-64; L: setp.ge.u64 %p1,%d0,%A; @%p1 ld.global.u32 %r1,[%d0]; add.s64 %d0,%d0,16; add.s64 "
     "%e1,%A,1024; setp.lt.u64 %p0,%d0,%e1; @%p0 bra L;",
     false},
    {"null", "setp.eq.s64 %p0,%A,0; @%p0 bra D; st.global.u32 [%A],%t; D:", true},
    {"alternating",
     "mov.u32 %r0,0; setp.ne.u32 %p0,%t,5; mul.wide.u32 %d0,%t,4; add.s64 %e0,%d0,%A; L: @%p0 ld.global.u32 %r1,[%e0]; "
     "not.pred %p0,%p0; add.s64 %e0,%e0,256; add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,13; @%p1 bra L;",
     true},
    {"congruence",
     "mov.u32 %r0,0; mov.u32 %r2,%t; L: and.b32 %r1,%r2,1023; mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%A; "
     "ld.global.u32 %r3,[%e0]; mad.lo.u32 %r2,%r2,5,3; add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,40; @%p1 bra L;",
     true},
    {"square",
     "mov.u32 %r0,0; L: mul.lo.u32 %r1,%r0,%r0; mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r1; "
     "add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,40; @%p1 bra L;",
     true},
    {"quadratic",
     "mov.u32 %r0,1; mov.u32 %r1,0; L: mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r1; add.u32 "
     "%r1,%r1,%r0; add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,50; @%p1 bra L;",
     true},
    {"uneven-blocks",
     "add.u32 %r2,%b,1; mov.u32 %r0,%t; L: mad.lo.u32 %r1,%b,256,%r0; mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%A; "
     "st.global.u32 [%e0],%r1; add.u32 %r0,%r0,%r2; setp.lt.u32 %p1,%r0,90; @%p1 bra L;",
     true},
    {"outer-step",
     "mov.u32 %r0,1; L: mov.u32 %r1,0; M: mad.lo.u32 %r2,%r0,128,%r1; mul.wide.u32 %d0,%r2,4; add.s64 %e0,%d0,%A; "
     "ld.global.u32 %r3,[%e0]; add.u32 %r1,%r1,%r0; setp.lt.u32 %p0,%r1,60; @%p0 bra M; add.u32 %r0,%r0,1; setp.lt.u32 "
     "%p1,%r0,9; @%p1 bra L;",
     true},
    {"deep",
     "mov.u32 %r1,0; L1: mov.u32 %r2,0; L2: mov.u32 %r3,0; L3: mov.u32 %r4,0; L4: mov.u32 %r5,0; L5: mov.u32 %r6,0; "
     "L6: mov.u32 %r7,0; L7:"
     "mad.lo.u32 %r8,%r1,3,%r2; mad.lo.u32 %r8,%r8,3,%r3; mad.lo.u32 %r8,%r8,3,%r4; mad.lo.u32 %r8,%r8,3,%r5; "
     "mad.lo.u32 %r8,%r8,3,%r6; mad.lo.u32 %r8,%r8,5,%r7; mul.wide.u32 %d0,%r8,4; add.s64 %e0,%d0,%A; st.global.u32 "
     "[%e0],%r8;"
     "add.u32 %r7,%r7,1; setp.lt.u32 %p0,%r7,4; @%p0 bra L7; add.u32 %r6,%r6,1; setp.lt.u32 %p0,%r6,3; @%p0 bra L6; "
     "add.u32 %r5,%r5,1; setp.lt.u32 %p0,%r5,3; @%p0 bra L5; add.u32 %r4,%r4,1; setp.lt.u32 %p0,%r4,2; @%p0 bra L4;"
     "add.u32 %r3,%r3,1; setp.lt.u32 %p0,%r3,3; @%p0 bra L3; add.u32 %r2,%r2,1; setp.lt.u32 %p0,%r2,3; @%p0 bra L2; "
     "add.u32 %r1,%r1,1; setp.lt.u32 %p0,%r1,3; @%p0 bra L1;",
     true},
    {"into-the-middle",
     "mov.u32 %r0,0; setp.gt.u32 %p0,%t,31; @%p0 bra M; L: mad.lo.u32 %r1,%r0,64,%t; mul.wide.u32 %d0,%r1,4; add.s64 "
     "%e0,%d0,%A; ld.global.u32 %r2,[%e0]; M: mad.lo.u32 %r1,%r0,64,%t; mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%B; "
     "st.global.u32 [%e0],%r0; add.u32 %r0,%r0,1; setp.lt.u32 %p1,%r0,10; @%p1 bra L;",
     true},
    {"out-of-two",
     "mov.u32 %r0,0; L: mov.u32 %r1,0; M: mad.lo.u32 %r2,%r0,16,%r1; mul.wide.u32 %d0,%r2,4; add.s64 %e0,%d0,%A; "
     "ld.global.u32 %r3,[%e0]; setp.eq.u32 %p0,%r2,%t; @%p0 bra D; add.u32 %r1,%r1,1; setp.lt.u32 %p1,%r1,12; @%p1 bra "
     "M; add.u32 %r0,%r0,1; setp.lt.u32 %p2,%r0,6; @%p2 bra L; D: mad.lo.u32 %r2,%r0,16,%r1; mul.wide.u32 %d0,%r2,4; "
     "add.s64 %e0,%d0,%B; st.global.u32 [%e0],%r2;",
     true},
    {"continue",
     "mov.u32 %r0,0; L: add.u32 %r0,%r0,1; setp.gt.u32 %p2,%r0,30; @%p2 bra D; and.b32 %r1,%r0,3; setp.eq.u32 "
     "%p0,%r1,2; @%p0 bra L; mad.lo.u32 %r1,%r0,64,%t; mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%A; ld.global.u32 "
     "%r3,[%e0]; bra L; D:",
     true},
    {"odd-ones",
     "bfe.u32 %r0,%t,2,3; bfi.b32 %r1,%r0,%b,4,3; prmt.b32 %r2,%r1,%t,0x5140; and.b32 %r2,%r2,1023; lop3.b32 "
     "%r3,%t,%r1,%r2,0x96; and.b32 %r3,%r3,1023; mul.hi.u32 %r4,%t,-1431655765; shr.u32 %r4,%r4,1; shf.l.wrap.b32 "
     "%r5,%t,%b,30; popc.b32 %r6,%t; clz.b32 %r7,%t; brev.b32 %r8,%t; shr.u32 %r8,%r8,26; and.b32 %r5,%r5,255;"
     "add.u32 %r9,%r3,%r4; add.u32 %r9,%r9,%r5; add.u32 %r9,%r9,%r6; add.u32 %r9,%r9,%r7; add.u32 %r9,%r9,%r8; "
     "mul.wide.u32 %d0,%r9,4; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r2;",
     true},
    {"byte-below",
     "shl.b32 %r1,%b,2; shr.u32 %r2,%t,5; add.s32 %r1,%r1,%r2; and.b32 %r3,%t,31; prmt.b32 %r0,%r1,%r3,8452; "
     "mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; ld.global.u32 %r9,[%e0]; add.s64 %e1,%d0,%B; st.global.u32 "
     "[%e1+128],%r9;",
     true},
    {"byte-below-second",
     "shl.b32 %r1,%b,2; shr.u32 %r2,%t,5; add.s32 %r1,%r1,%r2; and.b32 %r3,%t,31; prmt.b32 %r0,%r3,%r1,0x6540; "
     "mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; ld.global.u32 %r9,[%e0]; add.s64 %e1,%d0,%B; st.global.u32 "
     "[%e1+128],%r9;",
     true},
    {"bytes-below",
     "shl.b32 %r1,%b,2; shr.u32 %r2,%t,5; add.s32 %r1,%r1,%r2; and.b32 %r3,%t,31; prmt.b32 %r4,%r3,%r1,0x5410; shr.u32 "
     "%r0,%r4,10; or.b32 %r0,%r0,%r3; mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; ld.global.u32 %r9,[%e0]; add.s64 "
     "%e1,%d0,%B; st.global.u32 [%e1+128],%r9;",
     true},
    {"byte-below-itself",
     "shl.b32 %r1,%b,2; shr.u32 %r2,%t,5; add.s32 %r1,%r1,%r2; and.b32 %r3,%t,31; prmt.b32 %r0,%r1,%r3,0x2100; "
     "mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; ld.global.u32 %r9,[%e0]; add.s64 %e1,%d0,%B; st.global.u32 "
     "[%e1+128],%r9;",
     true},
    {"bytes-in-place",
     "shl.b32 %r1,%b,2; shr.u32 %r2,%t,5; add.s32 %r1,%r1,%r2; and.b32 %r3,%t,31; prmt.b32 %r0,%r1,%r3,0x3210; "
     "mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; ld.global.u32 %r9,[%e0]; add.s64 %e1,%d0,%B; st.global.u32 "
     "[%e1+128],%r9;",
     true},
    {"odd-negative",
     "sub.s32 %r0,%t,32; bfe.s32 %r1,%r0,0,5; abs.s32 %r2,%r0; div.s32 %r3,%r0,3; rem.s32 %r4,%r0,3; mul.hi.s32 "
     "%r5,%r0,1431655766; prmt.b32 %r6,%r0,0,0xba98; add.s32 %r7,%r1,%r2; add.s32 %r7,%r7,%r3; add.s32 %r7,%r7,%r4; "
     "add.s32 %r7,%r7,%r5; add.s32 %r7,%r7,%r6; add.s32 %r7,%r7,200; mul.wide.s32 %d0,%r7,4; add.s64 %e0,%d0,%A; "
     "st.global.u32 [%e0],%r0;",
     true},
    {"atomics",
     "mul.wide.u32 %d0,%t,4; add.s64 %e0,%d0,%A; mov.u32 %r0,0; L: red.global.add.u32 [%e0],1; atom.global.cas.b32 "
     "%r1,[%e0+16384],0,1; atom.global.add.f32 %f0,[%e0+32768],0f3F800000; add.s64 %e0,%e0,256; add.u32 %r0,%r0,1; "
     "setp.lt.u32 %p0,%r0,9; @%p0 bra L;",
     false},
    {"long-signed",
     "mov.u64 %d1,-500; cvt.s64.s32 %d3,%t; L: setp.lt.s64 %p0,%d1,%d3; @!%p0 bra D; max.s64 %d2,%d1,0; shl.b64 "
     "%d2,%d2,2; add.s64 %e2,%d2,%A; st.global.u32 [%e2],%t; add.s64 %d1,%d1,7; bra L; D:",
     true},
    {"kept-by-some",
     "mov.u32 %r0,7; setp.lt.u32 %p0,%t,10; @%p0 mov.u32 %r0,%t; mov.u32 %r1,0; L: @%p0 add.u32 %r0,%r0,3; mad.lo.u32 "
     "%r2,%r1,64,%r0; mul.wide.u32 %d0,%r2,4; add.s64 %e0,%d0,%A; ld.global.u32 %r3,[%e0]; add.u32 %r1,%r1,1; "
     "setp.lt.u32 %p1,%r1,20; @%p1 bra L;",
     true},
    {"rows-of-three",
     "mad.lo.u32 %r0,%b,64,%t; mul.hi.s32 %r1,%r0,715827883; shr.u32 %r2,%r1,31; shr.s32 %r3,%r1,5; add.s32 "
     "%r4,%r3,%r2; mul.lo.s32 %r5,%r4,192; sub.s32 %r6,%r0,%r5; mad.lo.s32 %r7,%r4,256,%r6; mul.wide.s32 %d0,%r7,4; "
     "add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r0; shl.b32 %r8,%r6,2; cvt.u64.u32 %d1,%r8; add.s64 %e1,%d1,%B; "
     "ld.global.u32 %r9,[%e1];",
     true, 60},
    {"rows-by-mask",
     "mad.lo.u32 %r0,%b,64,%t; shl.b32 %r1,%r0,2; cvt.u64.u32 %d0,%r1; and.b64 %d1,%d0,1020; add.s64 %e1,%d1,%B; "
     "ld.global.u32 %r9,[%e1]; shr.u32 %r2,%r0,8; mad.lo.u32 %r3,%r2,300,%t; mul.wide.u32 %d2,%r3,4; add.s64 "
     "%e2,%d2,%A; st.global.u32 [%e2],%r3;",
     true, 50},
    {"rows-in-rows",
     "mad.lo.u32 %r0,%b,64,%t; rem.u32 %r1,%r0,192; div.u32 %r2,%r0,192; rem.u32 %r3,%r2,5; div.u32 %r4,%r2,5; "
     "mad.lo.u32 %r5,%r3,7,%r4; mad.lo.u32 %r5,%r5,192,%r1; mul.wide.u32 %d2,%r5,4; add.s64 %e2,%d2,%A; st.global.u32 "
     "[%e2],%r3;",
     true, 90},
    {"rows-not-quite",
     "mad.lo.u32 %r0,%b,64,%t; div.u32 %r1,%r0,100; rem.u32 %r2,%r0,100; mad.lo.u32 %r3,%r1,128,%r2; mul.wide.u32 "
     "%d2,%r3,4; add.s64 %e2,%d2,%A; st.global.u32 [%e2],%r3;",
     true, 70},
    {"pieces", "mov.b64 {%r0,%r1},%A; mov.b64 %d0,{%r0,%r1}; ld.global.u32 %r2,[%d0];", false},
    {"packed",
     "mov.b64 %d0,{%t,%b}; mov.b64 {%r0,%r1},%d0; mad.lo.u32 %r2,%r1,64,%r0; mul.wide.u32 %d0,%r2,4; add.s64 "
     "%e0,%d0,%A; st.global.u32 [%e0],%r2;",
     true},
    {"two-steps",
     "mul.wide.u32 %d0,%b,256; add.s64 %e0,%d0,%A; mul.wide.u32 %d1,%b,512; add.s64 %e1,%d1,%A; mul.wide.u32 %d2,%t,4; "
     "add.s64 %e0,%e0,%d2; add.s64 %e1,%e1,%d2; add.s64 %e3,%A,%d2; ld.global.u32 %r0,[%e0]; ld.global.u32 %r0,[%e1]; "
     "ld.global.u32 %r0,[%e3];",
     true},
    {"lane-steps",
     "mad.lo.u32 %r0,%b,%t,%t; mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; ld.global.u32 %r5,[%e0]; and.b32 %r1,%t,3; "
     "mul.lo.u32 %r1,%r1,%b; mul.wide.u32 %d0,%r1,4; add.s64 %e0,%d0,%B; st.global.u32 [%e0],%r0;",
     true},
    /* what only the block sees; and what others do */
    {"volatile-shared",
     ".shared .b32 sh[64]; mov.u32 %r2,sh; mad.lo.u32 %r2,%t,4,%r2; mad.lo.u32 %r0,%b,64,%t; mul.wide.u32 %d0,%r0,4; "
     "add.s64 %e0,%d0,%A; ld.global.u32 %r1,[%e0]; st.volatile.shared.u32 [%r2],%r1; ld.volatile.shared.u32 %r3,[%r2]; "
     "add.u32 %r3,%r3,%r1; st.volatile.shared.u32 [%r2],%r3; setp.lt.u32 %p0,%t,3; @%p0 st.global.u32 [%e0],%r3;",
     true},
    {"seen-volatile",
     "mad.lo.u32 %r0,%b,64,%t; mul.wide.u32 %d0,%r0,4; add.s64 %e0,%d0,%A; st.volatile.global.u32 [%e0],%r0;", false},
    {"other-last",
     "mov.u32 %r0,0; L: setp.eq.u32 %p0,%r0,19; selp.u32 %r1,1000,%r0,%p0; mad.lo.u32 %r1,%r1,8,%b; mul.wide.u32 "
     "%d0,%r1,4; add.s64 %e0,%d0,%A; st.global.u32 [%e0],%r0; add.u32 %r0,%r0,1; setp.le.u32 %p1,%r0,19; @%p1 bra L;",
     true},
};

static char *by_hand(unsigned k)
{
    struct dt_str s = {0};
    dt_str_addf(&s,
                ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param "
                ".u32 n) {\n"
                ".reg .b32 %%r<32>; .reg .b64 %%d<16>, %%e<16>; .reg .b16 %%h<4>; .reg .f32 %%f<4>; .reg .pred %%p<8>; "
                ".reg .b32 %%t, %%b, "
                "%%c, %%n; .reg .b64 %%A, %%B, %%a, %%b64;\n"
                "ld.param.u64 %%a,[a]; ld.param.u64 %%b64,[b]; ld.param.u32 %%n,[n]; cvta.to.global.u64 %%A,%%a; "
                "cvta.to.global.u64 "
                "%%B,%%b64; mov.u32 %%t,%%tid.x; mov.u32 %%b,%%ctaid.x; mov.u32 %%c,%%ctaid.y;\n%s\nret; }\n",
                kernel[k].body);
    json_t *g = json_pack(
        "{s:i,s:s,s:{s:{s:s}},s:{s:{s:i,s:s,s:{s:b}},s:{s:i,s:s,s:{s:b}}},s:[{s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:[{s:"
        "s},{s:s},{s:i}]},{s:s,s:{s:{s:s},s:{s:s},s:i}}]}",
        "dovetail", 1, "name", kernel[k].name, "modules", "m", "ptx", s.s, "buffers", "a", "bytes", 65536, "role",
        "inout", "fill", "zero", 1, "b", "bytes", 65536, "role", "inout", "fill", "zero", 1, "launches", "name", "k",
        "module", "m", "entry", "k", "grid", kernel[k].grid ? kernel[k].grid : 5, 2, 1, "block", 64, 1, 1, "args",
        "buffer", "a", "buffer", "b", "i32", 100, "name", "copy", "copy", "from", "buffer", "a", "to", "buffer", "b",
        "bytes", 65536);
    dt_str_done(&s);
    char *text = json_dumps(g, 0);
    json_decref(g);
    return text;
}

static void kernels_by_hand(void **state)
{
    unsigned missing = 0;
    for (unsigned k = 0; k < sizeof kernel / sizeof *kernel; k++) {
        unsigned before = summarised_;
        char *s = by_hand(k);
        assert_non_null(s);
        twice(kernel[k].name, s);
        if (kernel[k].summary && summarised_ == before)
            print_message("%s has no summary\n", kernel[k].name), missing++;
        if (!strncmp(kernel[k].name, "seen-", 5) && summarised_ != before)
            print_message("%s has a summary\n", kernel[k].name), missing++;
        free(s);
    }
    assert_int_equal(missing, 0);
}

static uint64_t seed_;
static unsigned rnd(unsigned n)
{
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed_ >> 33) % n;
}

/* ---- divisions
 * ------------------------------------------------------------------------------------------------------------- Where
 * divide.c sees a division, the multiplication is one: for x near multiples, at the ends, and anywhere. */
static uint64_t divisor_seen(bool sign, bool wide, uint64_t m, unsigned k)
{
    char text[1024];
    struct ptx_module *p = NULL;
    struct dt_err e = {0};
    uint64_t d = 0;
    int n = snprintf(text, sizeof text,
                     ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u32 n) {\n.reg .b32 "
                     "%%r<9>; .reg .b64 %%d<4>; ld.param.u32 %%r0,[n];\n");
    if (sign && k)
        snprintf(
            text + n, sizeof text - (size_t)n,
            "mul.hi.s32 %%r1,%%r0,%llu; shr.u32 %%r2,%%r1,31; shr.s32 %%r3,%%r1,%u; add.s32 %%r4,%%r3,%%r2; ret; }\n",
            (unsigned long long)m, k);
    else if (sign)
        snprintf(text + n, sizeof text - (size_t)n,
                 "mul.hi.s32 %%r1,%%r0,%llu; shr.u32 %%r2,%%r1,31; add.s32 %%r4,%%r1,%%r2; ret; }\n",
                 (unsigned long long)m);
    else if (wide)
        snprintf(text + n, sizeof text - (size_t)n,
                 "mul.wide.u32 %%d1,%%r0,%llu; shr.u64 %%d2,%%d1,%u; cvt.u32.u64 %%r4,%%d2; ret; }\n",
                 (unsigned long long)m, 32 + k);
    else
        snprintf(text + n, sizeof text - (size_t)n, "mul.hi.u32 %%r1,%%r0,%llu; shr.u32 %%r4,%%r1,%u; ret; }\n",
                 (unsigned long long)m, k);
    if (ptx_parse(text, strlen(text), &p, &e))
        fail_msg("%s", e.detail ? e.detail : text);
    assert_int_equal(ana_divide(p->func[0]), 0);
    for (uint32_t i = 0; i < p->func[0]->ninst; i++)
        if (p->func[0]->inst[i].op == PTX_OP_DIV)
            d = p->func[0]->inst[i].opnd[2].bits;
    ptx_module_free(p);
    return d;
}

static void divisions(void **state)
{
    unsigned seen = 0, tried = 0;
    seed_ = 7;
    for (unsigned i = 0; i < 3000; i++) {
        bool sign = rnd(2), wide = rnd(2);
        uint64_t want = 2 + (rnd(2) ? rnd(1000) : rnd(1u << 20));
        unsigned k = rnd(20), p = 32 + k;
        uint64_t m = ((UINT64_C(1) << p) + want - 1) / want + (rnd(4) ? 0 : rnd(5)) - (rnd(8) ? 0 : 1);
        if (m >> (sign ? 31 : 32) || m < 2)
            continue;
        uint64_t d = divisor_seen(sign, wide, m, k);
        tried++;
        seen += d != 0;
        for (unsigned q = 0; d && q < 300; q++) {
            static const int64_t end[] = {0, 1, -1, INT32_MAX, INT32_MIN, UINT32_MAX};
            int64_t x = q < 6     ? end[q]
                        : q < 150 ? (int64_t)(d * rnd((unsigned)(UINT32_MAX / d / 2 + 1))) - (int64_t)rnd(3) + 1
                                  : (int64_t)rnd(1u << 31) << rnd(2);
            x = sign ? (int32_t)(rnd(2) ? x : -x) : (int64_t)(uint32_t)x;
            int64_t product = sign ? (x * (int64_t)m) >> p : (int64_t)(uint32_t)(((unsigned __int128)x * m) >> p);
            int64_t got = sign ? product + (x * (int64_t)m < 0) : product;
            if (got != x / (int64_t)d)
                fail_msg("%lld * %llu >> %u is %lld, not a division by %llu", (long long)x, (unsigned long long)m, p,
                         (long long)got, (unsigned long long)d);
        }
    }
    print_message("%u of %u are divisions\n", seen, tried);
    assert_true(seen > 50 && seen < tried);
    assert_int_equal(divisor_seen(true, false, 715827883, 7), 768);
    assert_int_equal(divisor_seen(true, false, 1431655766, 0), 3);
    assert_int_equal(divisor_seen(false, false, 2863311531, 7), 192);
    assert_int_equal(divisor_seen(false, true, 2863311531, 7), 192);
    assert_int_equal(divisor_seen(false, false, 613566757, 0), 0); /* 2^32 / 7, too coarse: 2^32 - 1 comes out wrong */
}

/* ---- launches alike
 * ------------------------------------------------------------------------------------------------------ One entry,
 * launched on other buffers: walked once for each pattern of buffers, and what is taken over is what the device
 * records. */
static void launches_alike(void **state)
{
    static const struct {
        const char *a, *b;
        int at, n;
        bool walked;
    } launch[] = {
        {"p", "q", 0, 100, true},   {"q", "p", 0, 100, false},   {"q", "r", 0, 100, false},
        {"p", "p", 0, 100, true},   {"r", "r", 0, 100, false},   {"p", "small", 0, 100, true},
        {"p", "q", 256, 100, true}, {"r", "p", 256, 100, false}, {"p", "q", 0, 90, true},
        {"ro", "q", 0, 100, true},  {"r", "q", 0, 100, false},
    };
    static const char body[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) "
        "{\n"
        ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>; ld.param.u64 %d0,[a]; ld.param.u64 %d1,[b]; ld.param.u32 "
        "%r0,[n];\n"
        "mov.u32 %r1,%tid.x; mov.u32 %r2,%ctaid.x; mad.lo.u32 %r3,%r2,64,%r1; setp.ge.u32 %p0,%r3,%r0; @%p0 ret;\n"
        "mul.wide.u32 %d2,%r3,4; add.s64 %d3,%d0,%d2; ld.global.u32 %r4,[%d3]; add.s64 %d4,%d1,%d2; st.global.u32 "
        "[%d4+64],%r4; ret; }\n";
    enum { N = sizeof launch / sizeof *launch };
    json_t *run = json_array(), *buf = json_object();
    static const char *const name[] = {"p", "q", "r", "small", "ro"};
    for (unsigned k = 0; k < 5; k++)
        json_object_set_new(buf, name[k],
                            json_pack("{s:i,s:s,s:{s:b}}", "bytes", k == 3 ? 1024 : 4096, "role",
                                      k == 4 ? "weight" : "inout", "fill", "zero", 1));
    for (unsigned k = 0; k < N; k++)
        json_array_append_new(run, json_pack("{s:s+,s:s,s:s,s:[i,i,i],s:[i,i,i],s:[{s:s,s:i},{s:s},{s:i}]}", "name",
                                             "l", (const char[]){(char)('a' + (int)k), 0}, "module", "m", "entry", "k",
                                             "grid", 3, 1, 1, "block", 64, 1, 1, "args", "buffer", launch[k].a,
                                             "offset", launch[k].at, "buffer", launch[k].b, "i32", launch[k].n));
    json_t *j = json_pack("{s:i,s:s,s:{s:{s:s}},s:o,s:o}", "dovetail", 1, "name", "alike", "modules", "m", "ptx", body,
                          "buffers", buf, "launches", run);
    char *s = json_dumps(j, 0);
    assert_non_null(s);
    twice("alike", s);
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *r = NULL;
    struct dt_err e = {0};
    assert_int_equal(dt_graph_parse(s, strlen(s), &g, &e), 0);
    assert_int_equal(dev_prog_new(device, g, NULL, NULL, &p, &e), 0);
    assert_int_equal(ana_run(device, p, NULL, &r, &e), 0);
    for (unsigned k = 0; k < N; k++) {
        assert_true(r->launch[k].summarised);
        if ((r->launch[k].walked > 0) != launch[k].walked)
            fail_msg("launch %u was %swalked", k, r->launch[k].walked ? "" : "not ");
    }
    ana_free(r);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_err_done(&e);
    json_decref(j);
    free(s);
}

/* ---- random nests ------------------------------------------------------------------------------------------------ */
enum { WORDS = 8192 };
static const char *const vars[] = {"t", "b", "c", "n", "i", "j", "k"};

/* An unsigned expression of what is in scope: the first `scope` of vars. */
static void expression(struct dt_str *s, unsigned scope, unsigned depth)
{
    switch (depth ? rnd(14) : rnd(3)) {
    case 0: dt_str_addf(s, "%uu", rnd(3) ? rnd(20) : rnd(3) ? rnd(700) : 4294967295u - rnd(9)); return;
    case 1:
    case 2: dt_str_addf(s, "%s", vars[rnd(scope)]); return;
    case 3:
    case 4:
    case 5:
        dt_str_addf(s, "(%s * %uu + ", vars[rnd(scope)], 1 + rnd(70));
        expression(s, scope, depth - 1);
        dt_str_addf(s, ")");
        return;
    case 6:
        dt_str_addf(s, "(");
        expression(s, scope, depth - 1);
        dt_str_addf(s, " %s %uu)", rnd(2) ? "/" : "%", 1u << rnd(7) | (rnd(3) ? 0 : 3));
        return;
    case 7:
        dt_str_addf(s, "(");
        expression(s, scope, depth - 1);
        dt_str_addf(s, " %s %uu)", rnd(2) ? ">>" : "<<", rnd(7));
        return;
    case 8:
        dt_str_addf(s, "(");
        expression(s, scope, depth - 1);
        dt_str_addf(s, " %s %uu)", rnd(3) ? "&" : rnd(2) ? "|" : "^", rnd(2) ? (1u << rnd(8)) - 1 : rnd(300));
        return;
    case 9:
        dt_str_addf(s, "%s(", rnd(2) ? "min" : "max");
        expression(s, scope, depth - 1);
        dt_str_addf(s, ", ");
        expression(s, scope, depth - 1);
        dt_str_addf(s, ")");
        return;
    case 10:
        dt_str_addf(s, "(u32)((int)(");
        expression(s, scope, depth - 1);
        dt_str_addf(s, ") %s %d)", rnd(2) ? "/" : ">>", 1 + (int)rnd(9));
        return;
    case 11:
        dt_str_addf(s, "((");
        expression(s, scope, depth - 1);
        dt_str_addf(s, " %s ", rnd(3) ? "<" : "==");
        expression(s, scope, depth - 1);
        dt_str_addf(s, ") ? ");
        expression(s, scope, depth - 1);
        dt_str_addf(s, " : %uu)", rnd(99));
        return;
    default:
        dt_str_addf(s, "(");
        expression(s, scope, depth - 1);
        dt_str_addf(s, " %s ", rnd(3) ? "+" : rnd(3) ? "-" : "*");
        expression(s, scope, depth - 1);
        dt_str_addf(s, ")");
    }
}

static void access(struct dt_str *s, unsigned scope)
{
    static const unsigned width[] = {1, 2, 4, 4, 4, 8, 16};
    unsigned w = width[rnd(7)], in = rnd(8), n = WORDS * 4 / w;
    dt_str_addf(s, "%s%u(%s + (u64)(", rnd(2) ? "acc += ld" : "st", w, rnd(2) ? "A" : "B");
    if (in)
        dt_str_addf(s, "min(");
    expression(s, scope, 2);
    if (in > 3)
        dt_str_addf(s, ", %uu)", n - 1);
    else if (in)
        dt_str_addf(s, " & %uu, %uu)", n - 1, n - 1);
    else
        dt_str_addf(s, " %% %uu", n);
    dt_str_addf(s, ") * %u);\n", w);
}

static void nest(struct dt_str *s, unsigned scope, unsigned depth)
{
    for (unsigned m = 1 + rnd(3); m--;)
        switch (rnd(depth ? 6 : 2)) {
        case 0:
        case 1: access(s, scope); break;
        case 2:
            dt_str_addf(s, "if (");
            expression(s, scope, 1);
            dt_str_addf(s, " %s ", rnd(2) ? "<" : rnd(2) ? ">=" : "!=");
            expression(s, scope, 1);
            dt_str_addf(s, ") {\n");
            nest(s, scope, depth - 1);
            dt_str_addf(s, "}%s\n",
                        scope > 4 && !rnd(6)   ? " else break;"
                        : scope > 4 && !rnd(6) ? " else continue;"
                                               : "");
            break;
        default: {
            const char *v = vars[scope];
            dt_str_addf(s, "%sfor (u32 %s = ", rnd(3) ? "\n#pragma unroll 1\n" : "", v);
            unsigned fuel = rnd(1000);
            if (rnd(2))
                dt_str_addf(s, "%uu", rnd(5));
            else
                expression(s, scope, 1);
            dt_str_addf(s, ", f%u = 0; %s ", fuel, v);
            dt_str_addf(s, "%s ", rnd(4) ? "<" : "!=");
            if (rnd(2))
                dt_str_addf(s, "%uu", rnd(60));
            else
                expression(s, scope, 1);
            dt_str_addf(s, " && f%u < %uu; %s %s %uu, f%u++) {\n", fuel, 4 + rnd(30), v,
                        rnd(6)   ? "+="
                        : rnd(2) ? "-="
                                 : "*=",
                        1 + rnd(rnd(3) ? 4 : 40), fuel);
            nest(s, scope + 1, scope + 1 < 7 ? depth - 1 : 0);
            dt_str_addf(s, "}\n");
        }
        }
}

static const char prelude[] =
    "typedef unsigned int u32; typedef unsigned long long u64;\n"
    "#define LD(N, T, C, W) __device__ __forceinline__ u32 ld##N(const char *p) { T v; asm volatile(\"ld.global.\" W "
    "\" %0, [%1];\" "
    ": C(v) : \"l\"(p) : \"memory\"); return (u32)v; }\n"
    "#define ST(N, T, C, W) __device__ __forceinline__ void st##N(char *p) { T v = 1; asm volatile(\"st.global.\" W \" "
    "[%0], %1;\" "
    ":: \"l\"(p), C(v) : \"memory\"); }\n"
    "LD(1, unsigned short, \"=h\", \"u8\") LD(2, unsigned short, \"=h\", \"u16\") LD(4, u32, \"=r\", \"u32\") LD(8, "
    "u64, \"=l\", "
    "\"u64\")\n"
    "ST(1, unsigned short, \"h\", \"u8\") ST(2, unsigned short, \"h\", \"u16\") ST(4, u32, \"r\", \"u32\") ST(8, u64, "
    "\"l\", "
    "\"u64\")\n"
    "__device__ __forceinline__ u32 ld16(const char *p) { u32 a, b, c, d; asm volatile(\"ld.global.v4.u32 "
    "{%0,%1,%2,%3}, [%4];\" : "
    "\"=r\"(a), \"=r\"(b), \"=r\"(c), \"=r\"(d) : \"l\"(p) : \"memory\"); return a ^ b ^ c ^ d; }\n"
    "__device__ __forceinline__ void st16(char *p) { u32 x = 1; asm volatile(\"st.global.v4.u32 [%0], {%1,%1,%1,%1};\" "
    ":: \"l\"(p), "
    "\"r\"(x) : \"memory\"); }\n";

static char *random_nests(unsigned seed)
{
    enum { KERNELS = 10 };
    struct dt_str s = {0};
    seed_ = seed * 2654435761u + 99;
    dt_str_add(&s, prelude);
    json_t *run = json_array();
    for (unsigned k = 0; k < KERNELS; k++) {
        char name[16];
        snprintf(name, sizeof name, "k%u", k);
        dt_str_addf(&s,
                    "extern \"C\" __global__ void %s(char *A, char *B, u32 *S, u32 n) { u32 t = threadIdx.x, b = "
                    "blockIdx.x, c = "
                    "blockIdx.y, acc = 0;\n",
                    name);
        nest(&s, 4, 3);
        dt_str_addf(&s, "S[(b + gridDim.x * c) * blockDim.x + t] = acc; }\n");
        json_array_append_new(run, json_pack("{s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:[{s:s},{s:s},{s:s},{s:i}]}", "name",
                                             name, "module", "m", "entry", name, "grid", 1 + (int)rnd(9),
                                             1 + (int)rnd(3), 1, "block", rnd(4) ? 32 : 40, 1, 1, "args", "buffer", "a",
                                             "buffer", "b", "buffer", "s", "i32", (int)rnd(99)));
    }
    json_t *g = json_pack("{s:i,s:s,s:{s:{s:s}},s:{s:{s:i,s:s,s:{s:b}},s:{s:i,s:s,s:{s:b}},s:{s:i,s:s}},s:o}",
                          "dovetail", 1, "name", "random", "modules", "m", "cuda", s.s, "buffers", "a", "bytes",
                          WORDS * 4, "role", "inout", "fill", "zero", 1, "b", "bytes", WORDS * 4, "role", "inout",
                          "fill", "zero", 1, "s", "bytes", 4 * 40 * 27, "role", "output", "launches", run);
    if (getenv("SHOW"))
        fprintf(stderr, "%s\n", s.s);
    dt_str_done(&s);
    char *text = json_dumps(g, 0);
    json_decref(g);
    return text;
}

static void nests(void **state)
{
    unsigned count = getenv("COUNT") ? (unsigned)atoi(getenv("COUNT")) : 3,
             first = getenv("FIRST") ? (unsigned)atoi(getenv("FIRST")) : 0;
    if (!dev_nvrtc_version())
        SKIP("NVRTC is not installed");
    kernels_ = summarised_ = 0;
    for (unsigned i = first; i < first + count; i++) {
        char name[32], *s = random_nests(i);
        assert_non_null(s);
        snprintf(name, sizeof name, "random nests %u", i);
        twice(name, s);
        free(s);
    }
    print_message("%u of %u kernels have a summary\n", summarised_, kernels_);
    assert_true(summarised_ * 10 >= kernels_ * 9);
}

/* ---- what it costs
 * ------------------------------------------------------------------------------------------------------ Kernels of
 * bench/analysis/kernels.cu: thread instructions walked, against those of the kernel itself as the device counts
 * them. */
struct sample {
    const char *entry;
    int grid[3], block[3];
    unsigned buffer[4]; /* values of each */
    int number[3], nnumber;
    unsigned share; /* of the kernel's own instructions, at most so many hundredths of a per cent */
};

static uint64_t sample_cost(const char *source, const struct sample *x, uint64_t *plain)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dev_run *run = NULL;
    struct ana_result *r = NULL;
    struct dt_err e = {0};
    json_t *args = json_array(), *buf = json_object();
    for (unsigned k = 0; k < 4 && x->buffer[k]; k++) {
        char n[2] = {(char)('a' + k), 0};
        json_object_set_new(
            buf, n,
            json_pack("{s:I,s:s,s:{s:b}}", "bytes", (json_int_t)x->buffer[k] * 4, "role", "inout", "fill", "zero", 1));
        json_array_append_new(args, json_pack("{s:s}", "buffer", n));
    }
    for (int k = 0; k < x->nnumber; k++)
        json_array_append_new(args, json_pack("{s:i}", "i32", x->number[k]));
    json_t *j = json_pack("{s:i,s:s,s:{s:{s:s}},s:o,s:[{s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:o}]}", "dovetail", 1, "name",
                          x->entry, "modules", "m", "ptx", source, "buffers", buf, "launches", "name", "k", "module",
                          "m", "entry", x->entry, "grid", x->grid[0], x->grid[1], x->grid[2], "block", x->block[0],
                          x->block[1], x->block[2], "args", args);
    char *s = json_dumps(j, 0);
    assert_non_null(s);
    int rc = dt_graph_parse(s, strlen(s), &g, &e);
    if (!rc)
        rc = dev_prog_new(device, g, NULL, NULL, &p, &e);
    if (!rc)
        rc = ana_run(device, p, NULL, &r, &e);
    if (!rc && plain)
        rc = dev_run_new(device, p, &run, &e);
    if (!rc && plain)
        rc = dev_run_fill(run, 0, -1, &e);
    if (!rc && plain)
        rc = dev_run_once(run, &e);
    if (rc)
        fail_msg("%s: %s: %s", x->entry, dt_err_code(e.num), e.detail ? e.detail : "");
    if (plain)
        *plain = last_instructions();
    if (!r->launch[0].summarised)
        fail_msg("%s: %s", x->entry, r->launch[0].unsummarised ? r->launch[0].unsummarised : "-");
    uint64_t walked = r->launch[0].walked;
    ana_free(r);
    dev_run_free(run);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_err_done(&e);
    json_decref(j);
    free(s);
    return walked;
}

static char *sample_ptx(void)
{
    char path[1024], *text = NULL, *ptx = NULL;
    size_t len;
    struct dt_err e = {0};
    snprintf(path, sizeof path, "%s/bench/analysis/kernels.cu",
             getenv("DOVETAIL_SOURCE") ? getenv("DOVETAIL_SOURCE") : ".");
    if (!dev_nvrtc_version())
        return NULL;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text = calloc(1, 1 << 16);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    if (dev_compile_cuda(text, strlen(text), NULL, 0, "sm_90", 60000, &ptx, &len, &e))
        fail_msg("%s", e.log ? e.log : "no PTX");
    free(text);
    return ptx;
}

static void samples(void **state)
{
    static const struct sample sample[] = {
        {"gemm128", {2, 2, 1}, {256, 1, 1}, {256 * 64, 64 * 256, 256 * 256}, {256, 64}, 2, 1500},
        {"gemm128", {2, 2, 1}, {256, 1, 1}, {256 * 256, 256 * 256, 256 * 256}, {256, 256}, 2, 100},
        {"gemm32", {4, 4, 1}, {256, 1, 1}, {128 * 256, 256 * 128, 128 * 128}, {128, 128, 256}, 3, 500},
        {"gemm32", {4, 4, 1}, {256, 1, 1}, {100 * 250, 250 * 100, 100 * 100}, {100, 100, 250}, 3, 1500},
        {"layernorm", {64, 1, 1}, {256, 1, 1}, {64 * 1024, 1024, 64 * 1024}, {1024}, 1, 500},
        {"softmax", {16, 1, 1}, {256, 1, 1}, {128 * 512, 128 * 512}, {128, 512}, 2, 1500},
        {"conv2d", {2, 2, 8}, {16, 16, 1}, {16 * 28 * 28, 8 * 16 * 9, 8 * 28 * 28}, {16, 28, 28}, 3, 3000},
        {"attention", {2, 2, 1}, {64, 1, 1}, {2 * 128 * 64, 2 * 128 * 64, 2 * 128 * 64, 2 * 128 * 64}, {128}, 1, 3000},
        {"transpose", {8, 8, 1}, {32, 8, 1}, {65536, 65536}, {256, 256}, 2, 1500},
        {"gelu", {64, 1, 1}, {256, 1, 1}, {16384, 16384}, {16384}, 1, 1500},
        {"band", {64, 1, 1}, {64, 1, 1}, {4096, 4096}, {4096, 9}, 2, 3000},
    };
    char *ptx = sample_ptx();
    if (!ptx)
        SKIP("NVRTC is not installed");
    for (unsigned i = 0; i < sizeof sample / sizeof *sample; i++) {
        uint64_t plain, walked = sample_cost(ptx, &sample[i], &plain);
        print_message("%s: %llu of %llu thread instructions, %.2f %%\n", sample[i].entry, (unsigned long long)walked,
                      (unsigned long long)plain, 100.0 * (double)walked / (double)plain);
        if (walked * 10000 > plain * sample[i].share)
            fail_msg("%s takes more than %u.%02u %%", sample[i].entry, sample[i].share / 100, sample[i].share % 100);
    }
    free(ptx);
}

/* Rounds of a loop are not walked one by one. */
static void rounds(void **state)
{
    struct sample x[2] = {{"gemm128", {4, 2, 1}, {256, 1, 1}, {256, 512, 256 * 512}, {512, 0}, 2, 0},
                          {"gemm32", {7, 7, 1}, {256, 1, 1}, {200, 200, 200 * 200}, {200, 200, 0}, 3, 0}};
    char *ptx = sample_ptx();
    if (!ptx)
        SKIP("NVRTC is not installed");
    for (unsigned i = 0; i < 2; i++) {
        uint64_t walked[3];
        for (unsigned q = 0; q < 3; q++) {
            struct sample y = x[i];
            y.buffer[0] *= 256u << 2 * q;
            y.buffer[1] *= 256u << 2 * q;
            y.number[y.nnumber - 1] = 256 << 2 * q;
            walked[q] = sample_cost(ptx, &y, NULL);
        }
        print_message("%s: %llu, %llu, %llu\n", x[i].entry, (unsigned long long)walked[0],
                      (unsigned long long)walked[1], (unsigned long long)walked[2]);
        assert_true(walked[2] * 10 <= walked[0] * 13);
    }
    free(ptx);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(kernels_by_hand), cmocka_unit_test(divisions), cmocka_unit_test(launches_alike),
        cmocka_unit_test(nests),           cmocka_unit_test(samples),   cmocka_unit_test(rounds),
    };
    return cmocka_run_group_tests(t, open_device, close_device);
}
