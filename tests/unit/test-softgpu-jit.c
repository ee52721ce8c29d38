/* softgpu/jit: the same launches interpreted and compiled: every byte of memory, every counter and every fault's text
 * is the same. The program runs itself twice, in two processes, since one process has one tier;
 * DOVETAIL_SOFTGPU_JIT=always compiles every region at its first use.
 *
 * Kernels: bench/softgpu/kernels.ptx (what nvcc makes of products, reductions, element-wise, gathers), and small ones
 * here for what breaks a region: lanes that part and meet, blocks that are not whole warps, loops whose rounds differ
 * by lane, predicates, accesses of every shape, faults in the middle of a loop, an instruction limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/hash.h"
#include "softgpu/jit/jit.h"
#include "softgpu/jit/llvm.h"
#include "softgpu/sg.h"
#include "tests/skip.h"

static const char *self;
static struct sg_device *dev;

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define ENTRY(NAME)                                                                                                    \
    ".visible .entry " NAME "(.param .u64 p, .param .u32 n)\n{\n"                                                      \
    ".reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<20>; .reg .f64 %fd<8>; .reg .pred %p<10>; .reg .b16 %h<8>;\n"   \
    ".shared .align 16 .b8 tile[4096];\n"                                                                              \
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r30, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, "        \
    "%ntid.x;\n"                                                                                                       \
    "mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2;\n"

static const char small[] = HEAD
    /* lanes leave the loop one by one; inside, an if of three ways */
    ENTRY(
        "part") "mov.u32 %r5, %r4; mov.u32 %r6, 0;\n"
                "L: and.b32 %r7, %r5, 1; setp.eq.u32 %p1, %r7, 0; @%p1 bra E; mad.lo.u32 %r5, %r5, 3, 1; bra J;\n"
                "E: setp.gt.u32 %p2, %r5, 100; @%p2 bra B; shr.u32 %r5, %r5, 1; bra J;\n"
                "B: shr.u32 %r5, %r5, 2;\n"
                "J: add.u32 %r6, %r6, 1; setp.gt.u32 %p3, %r5, 1; setp.lt.and.u32 %p4|%p5, %r6, 200, %p3; @%p4 bra L;\n"
                "st.global.u32 [%rd3], %r6; ret; }\n"
    /* every shape of shared memory, between barriers; the address wanders with the round */
    ENTRY("shapes") "mov.u32 %r9, tile; shl.b32 %r5, %r1, 2; and.b32 %r5, %r5, 4095; add.u32 %r10, %r9, %r5; mov.u32 "
                    "%r6, 0; mov.u32 %r11, 0;\n"
                    "st.shared.u32 [%r10], %r4; bar.sync 0;\n"
                    "L: mad.lo.u32 %r7, %r1, %r6, 0; shl.b32 %r7, %r7, 2; and.b32 %r7, %r7, 1020; add.u32 %r7, %r7, "
                    "%r9; ld.shared.u32 %r8, [%r7]; add.u32 %r11, %r11, %r8;\n"
                    "shr.u32 %r12, %r1, 4; shl.b32 %r12, %r12, 4; add.u32 %r12, %r12, %r9; ld.shared.v4.u32 "
                    "{%r13,%r14,%r15,%r16}, [%r12]; xor.b32 %r11, %r11, %r14;\n"
                    "and.b32 %r12, %r1, 31; shl.b32 %r12, %r12, 3; add.u32 %r12, %r12, %r9; ld.shared.v2.u32 "
                    "{%r13,%r14}, [%r12+16]; add.u32 %r11, %r11, %r13; sub.u32 %r11, %r11, %r14;\n"
                    "bar.sync 0; xor.b32 %r17, %r5, 64; add.u32 %r17, %r17, %r9; st.shared.u32 [%r17], %r11; bar.sync "
                    "0;\n"
                    "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r30; @%p1 bra L; st.global.u32 [%rd3], %r11; ret; }\n"
    /* floats: chains whose NaNs are only looked at in the end; predicates; conversions; half precision */
    ENTRY("floats") "ld.global.f32 %f1, [%rd3]; mov.f32 %f2, %f1; mov.f32 %f9, 0f00000000; mov.u32 %r6, 0;\n"
                    "L: fma.rn.f32 %f2, %f2, %f1, %f9; sub.f32 %f3, %f2, %f2; div.rn.f32 %f4, %f3, %f9; add.f32 %f5, "
                    "%f4, %f2; min.f32 %f6, %f5, %f1; max.f32 %f7, %f6, %f4;\n"
                    "setp.nan.f32 %p1, %f5, %f5; @%p1 add.f32 %f9, %f9, 0f3F800000; @!%p1 mov.f32 %f9, %f5; neg.f32 "
                    "%f8, %f4; abs.f32 %f10, %f8; ex2.approx.f32 %f11, %f6; fma.rz.f32 %f12, %f11, %f10, %f2;\n"
                    "cvt.rn.f16.f32 %h1, %f2; cvt.f32.f16 %f13, %h1; cvt.rzi.s32.f32 %r7, %f2; cvt.rn.f32.s32 %f14, "
                    "%r7; cvt.f64.f32 %fd1, %f2; sqrt.rn.f64 %fd2, %fd1; cvt.rn.f32.f64 %f15, %fd2;\n"
                    "mov.b32 %r8, %f4; mov.b32 %r9, %f12; xor.b32 %r10, %r8, %r9; mov.b32 %r11, %f13; xor.b32 %r10, "
                    "%r10, %r11; mov.b32 %r11, %f15; xor.b32 %r10, %r10, %r11; mov.b32 %r11, %f10; add.u32 %r10, %r10, "
                    "%r11;\n"
                    "mov.b32 %r11, %f7; xor.b32 %r10, %r10, %r11; mov.b32 %r11, %f14; xor.b32 %r10, %r10, %r11; "
                    "add.u32 %r12, %r12, %r10;\n"
                    "add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, %r30; @%p2 bra L; st.global.f32 [%rd3], %f2; "
                    "mul.wide.u32 %rd5, %r4, 4; st.global.u32 [%rd3+65536], %r12; ret; }\n"
    /* global accesses under a predicate, of vectors, of bytes; whole warps leave early */
    ENTRY("global") "setp.ge.u32 %p1, %r4, %r30; @%p1 exit; mov.u32 %r6, 0; mul.wide.u32 %rd4, %r4, 16; add.u64 %rd5, "
                    "%rd1, %rd4; cvt.u64.u32 %rd6, %r4; add.u64 %rd7, %rd1, %rd6; mul.wide.u32 %rd8, %r4, 8; add.u64 "
                    "%rd8, %rd8, %rd1;\n"
                    "L: ld.global.v4.u32 {%r7,%r8,%r9,%r10}, [%rd5]; and.b32 %r11, %r7, 3; setp.eq.u32 %p2, %r11, %r6; "
                    "@%p2 ld.global.u32 %r12, [%rd3+4096]; ld.global.u8 %r13, [%rd7+128]; add.u64 %rd10, %rd6, %rd7; "
                    "ld.global.u16 %r14, [%rd10+130];\n"
                    "ld.global.u64 %rd9, [%rd8+1024]; cvt.u32.u64 %r15, %rd9; add.u32 %r16, %r16, %r15; add.u32 %r16, "
                    "%r16, %r12; add.u32 %r16, %r16, %r13; add.u32 %r16, %r16, %r14; setp.ne.u32 %p3, %r11, %r6; @%p3 "
                    "st.global.u32 [%rd3+131072], %r16;\n"
                    "st.global.v4.u32 [%rd5+262144], {%r16,%r8,%r9,%r10}; st.global.u64 [%rd8+524288], %rd9; "
                    "st.global.u8 [%rd7+700000], %r16; shfl.sync.bfly.b32 %r17, %r16, 8, 31, -1; add.u32 %r16, %r16, "
                    "%r17; shfl.sync.up.b32 %r18|%p4, %r16, 3, 0, -1; selp.u32 %r19, %r18, 7, %p4; xor.b32 %r16, %r16, "
                    "%r19;\n"
                    "add.u32 %r6, %r6, 1; setp.lt.u32 %p5, %r6, 6; @%p5 bra L; st.global.u32 [%rd3+800000], %r16; ret; "
                    "}\n"
    /* shared memory by 64-bit addresses, global memory in no shape: words, vectors, bytes, signs; lanes that store to
     * one place; all of it behind a predicate as well */
    ENTRY(
        "wide") "mov.u64 %rd4, tile; mul.wide.u32 %rd5, %r1, 16; and.b64 %rd5, %rd5, 4080; add.u64 %rd5, %rd5, %rd4; "
                "mov.u32 %r6, 0; mov.u32 %r20, 7; mul.lo.u32 %r7, %r4, 17; cvt.u64.u32 %rd11, %r30;\n"
                "st.shared.v4.u32 [%rd5], {%r4, %r7, %r4, %r1}; bar.sync 0;\n"
                "L: mul.lo.u32 %r8, %r1, 52; mad.lo.u32 %r8, %r6, 36, %r8; and.b32 %r8, %r8, 2044; cvt.u64.u32 %rd6, "
                "%r8; add.u64 %rd7, %rd4, %rd6; ld.shared.u32 %r9, [%rd7+4]; ld.shared.u16 %r10, [%rd7+2]; "
                "ld.shared.s8 %r11, [%rd7+1]; ld.shared.s16 %rd8, [%rd7+6]; cvt.u32.u64 %r12, %rd8; xor.b32 %r20, "
                "%r20, %r9; add.u32 %r20, %r20, %r10; mad.lo.u32 %r20, %r11, %r12, %r20;\n"
                "shr.u32 %r13, %r1, 4; add.u32 %r13, %r13, %r6; mul.wide.u32 %rd6, %r13, 32; and.b64 %rd6, %rd6, 1023; "
                "add.u64 %rd7, %rd4, %rd6; ld.shared.v4.u32 {%r14,%r15,%r16,%r17}, [%rd7+16]; ld.shared.v2.u32 "
                "{%r18,%r19}, [%rd7+8]; ld.shared.u32 %r9, [%rd7]; add.u32 %r20, %r20, %r14; xor.b32 %r20, %r20, %r15; "
                "sub.u32 %r20, %r20, %r16; add.u32 %r20, %r20, %r17; xor.b32 %r20, %r20, %r18; add.u32 %r20, %r20, "
                "%r19; sub.u32 %r20, %r20, %r9;\n"
                "and.b32 %r13, %r1, 15; mul.wide.u32 %rd6, %r13, 16; add.u64 %rd7, %rd4, %rd6; ld.shared.v4.u32 "
                "{%r14,%r15,%r16,%r17}, [%rd7+1024]; ld.shared.u64 %rd8, [%rd7+8]; cvt.u32.u64 %r18, %rd8; add.u32 "
                "%r20, %r20, %r17; xor.b32 %r20, %r20, %r14; add.u32 %r20, %r20, %r18; and.b32 %r13, %r1, 7; "
                "mul.wide.u32 %rd6, %r13, 4; add.u64 %rd7, %rd4, %rd6; ld.shared.u32 %r9, [%rd7+64]; add.u32 %r20, "
                "%r20, %r9; bar.sync 0;\n"
                "setp.ne.u32 %p1, %r13, 3; shr.u32 %r14, %r1, 1; and.b32 %r15, %r1, 1; mad.lo.u32 %r14, %r15, 260, "
                "%r14; mul.wide.u32 %rd6, %r14, 4; and.b64 %rd6, %rd6, 2047; add.u64 %rd7, %rd4, %rd6; @%p1 "
                "st.shared.u32 [%rd7], %r20; st.shared.u8 [%rd7+2048], %r20; st.shared.u16 [%rd7+2050], %r9;\n"
                "mul.wide.u32 %rd6, %r13, 8; add.u64 %rd7, %rd4, %rd6; setp.lt.u32 %p2, %r1, 32; @%p2 st.shared.u64 "
                "[%rd7+3072], %rd11; @%p2 st.shared.v2.u32 [%rd7+3200], {%r6, %r1}; bar.sync 0;\n"
                "mad.lo.u32 %r8, %r20, 64, %r4; and.b32 %r8, %r8, 65535; mul.wide.u32 %rd6, %r8, 16; add.u64 %rd7, "
                "%rd1, %rd6; ld.global.v4.u32 {%r14,%r15,%r16,%r17}, [%rd7]; ld.global.u32 %r9, [%rd7+8]; @%p1 "
                "ld.global.u8 %r10, [%rd7+5]; ld.global.s8 %rd8, [%rd7+6]; ld.global.v2.u64 {%rd9,%rd10}, [%rd7]; "
                "@!%p1 ld.global.v2.u32 {%r18,%r19}, [%rd7+8]; ld.global.v4.u16 {%h1,%h2,%h3,%h4}, [%rd7+8]; "
                "cvt.u32.u16 %r12, %h3; add.u32 %r20, %r20, %r12; cvt.u32.u64 %r12, %rd8; add.u32 %r20, %r20, %r12; "
                "cvt.u32.u64 %r12, %rd10; xor.b32 %r20, %r20, %r12; add.u32 %r20, %r20, %r14; xor.b32 %r20, %r20, "
                "%r17; add.u32 %r20, %r20, %r9; sub.u32 %r20, %r20, %r10; add.u32 %r20, %r20, %r18;\n"
                "xor.b32 %r21, %r4, 5; mul.wide.u32 %rd6, %r21, 16; add.u64 %rd7, %rd1, %rd6; @%p1 st.global.v4.u32 "
                "[%rd7+1048576], {%r20,%r9,%r16,%r6}; st.global.u32 [%rd7+1310720], %r20; st.global.v2.u64 "
                "[%rd7+1572864], {%rd9,%rd11}; st.global.u8 [%rd7+1835008], %r20; st.global.v2.u16 [%rd7+1835016], "
                "{%h1,%h4};\n"
                "add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, %r30; @%p3 bra L; st.global.u32 [%rd3+2097152], %r20; ret; "
                "}\n"
    /* lanes that a guard leaves out keep their bits, NaNs with a payload, too */
    ENTRY("payload") "ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd3+4096]; ld.global.f64 %fd1, [%rd1+8192]; "
                     "and.b32 %r5, %r1, 3; mov.u32 %r6, 0;\n"
                     "L: setp.eq.u32 %p1, %r5, %r6; @%p1 add.f32 %f1, %f1, %f2; @%p1 fma.rn.f32 %f2, %f2, %f1, %f1; "
                     "@!%p1 mul.f64 %fd1, %fd1, %fd1; setp.eq.u32 %p2, %r5, 2; @%p2 max.f32 %f2, %f2, %f1;\n"
                     "add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 2; @%p3 bra L; st.global.f32 [%rd3+1048576], %f1; "
                     "st.global.f32 [%rd3+2097152], %f2; cvt.u64.u32 %rd4, %r4; shl.b64 %rd4, %rd4, 3; add.u64 %rd4, "
                     "%rd4, %rd1; st.global.f64 [%rd4+3145728], %fd1; ret; }\n"
    /* a lane of shared memory is off, in some round: over the end, not aligned, in another window */
    ENTRY(
        "over") "mov.u64 %rd4, tile; mov.u32 %r6, 0; mul.wide.u32 %rd5, %r1, 68; add.u64 %rd5, %rd5, %rd4;\n"
                "L: st.shared.u32 [%rd5], %r6; ld.shared.u32 %r7, [%rd5]; add.u64 %rd5, %rd5, 4; add.u32 %r6, %r6, 1; "
                "setp.lt.u32 %p1, %r6, 2000; @%p1 bra L; st.global.u32 [%rd3], %r7; ret; }\n" ENTRY(
                    "window") "mov.u64 %rd4, tile; mov.u32 %r6, 0; setp.eq.u32 %p2, %r1, 5; mov.u64 %rd6, "
                              "0x100000000;\n"
                              "L: setp.eq.and.u32 %p3, %r6, %r30, %p2; @%p3 add.u64 %rd4, %rd4, %rd6; ld.shared.u32 "
                              "%r7, [%rd4+64]; "
                              "ld.shared.v2.u32 {%r8,%r9}, [%rd4+64]; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 100; "
                              "@%p1 bra L; "
                              "st.global.u32 [%rd3], %r7; ret; }\n"
    /* the address walks out of the allocation in some round */
    ENTRY("walks") "mov.u32 %r6, 0;\nL: ld.global.u32 %r7, [%rd3]; add.u32 %r8, %r8, %r7; st.global.u32 [%rd3+32], "
                   "%r8; add.u64 %rd3, %rd3, 4096; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 100000; @%p1 bra L; ret; "
                   "}\n" ENTRY("crooked") "mov.u32 %r6, 0; mov.u32 %r9, tile;\nL: st.shared.u32 [%r9], %r6; "
                                          "ld.shared.u32 %r7, [%r9]; add.u32 %r8, %r6, 1; shr.u32 %r10, %r8, 7; "
                                          "add.u32 %r9, %r9, %r10; mov.u32 %r6, %r8; setp.lt.u32 %p1, %r6, 400; @%p1 "
                                          "bra L; st.global.u32 [%rd3], %r7; ret; }\n" ENTRY(
                                              "forever") "L: add.u32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 0; @%p1 bra L; "
                                                         "bra L; }\n";

/* More sums than the CPU has registers, NaNs among them, over one block: each step makes 48 of the 48 before, so that
 * some take the place of what they add to and others do not; between, bits of some are looked at, some are added to
 * behind a predicate, stored and loaded in a shape that only running shows. Values are written again unread, too. */
static size_t many_sums(char *text, size_t room)
{
    enum { SUMS = 48, STEPS = 4 };
    FILE *f = fmemopen(text, room, "w");
    if (!f)
        return 0;
    fputs(HEAD ENTRY("many"), f);
    fprintf(f,
            ".reg .f32 %%s<%d>; and.b32 %%r5, %%r1, 3; setp.eq.u32 %%p1, %%r5, 1;\n"
            "mov.u32 %%r9, tile; mul.lo.u32 %%r8, %%r1, 52; and.b32 %%r8, %%r8, 2044; add.u32 "
            "%%r9, %%r9, %%r8; mov.u32 %%r6, 0; mov.u32 %%r20, 0;\nL:\n",
            SUMS * (STEPS + 1));
    for (int i = 0; i < SUMS; i++)
        fprintf(f, "ld.global.f32 %%s%d, [%%rd3+%d];\n", i, 388 * i);
    for (int r = 0; r < STEPS; r++)
        for (int i = 0; i < SUMS; i++) {
            int a = SUMS * r + i, to = a + SUMS, x = SUMS * r + (i * 7 + r) % SUMS, y = SUMS * r + (i * 5 + 3) % SUMS;
            if (i % 3)
                x = SUMS * r, y = to - 1; /* so that many end with the sum that they go into */
            fprintf(f, "fma.rn.f32 %%s%d, %%s%d, %%s%d, %%s%d;\n", to, x, y, a);
            if (i % 5 == 0)
                fprintf(f, "mov.b32 %%r7, %%s%d; xor.b32 %%r20, %%r20, %%r7;\n", to);
            if (i % 7 == 0)
                fprintf(f, "@%%p1 add.f32 %%s%d, %%s%d, %%s%d;\n", to, to, x);
            if (i % 11 == 0)
                fprintf(f, "mul.f32 %%f1, %%s%d, %%s%d; add.f32 %%f1, %%s%d, %%s%d; max.f32 %%s%d, %%f1, %%s%d;\n", a,
                        to, to, x, to, to);
            if (i % 13 == 0)
                fprintf(f, "st.shared.f32 [%%r9], %%s%d; ld.shared.f32 %%s%d, [%%r9];\n", to, to);
            if (i % 17 == 0)
                fprintf(f, "sub.f32 %%f2, %%s%d, %%s%d; sub.f32 %%f2, %%f2, %%f2; selp.f32 %%s%d, %%f2, %%s%d, %%p1;\n",
                        to, to, to, to);
        }
    for (int i = 0; i < SUMS; i++)
        fprintf(f, "st.global.f32 [%%rd3+%d], %%s%d;\n", 2097152 + 16384 * i, SUMS * STEPS + i);
    fprintf(f, "add.u32 %%r6, %%r6, 1; setp.lt.u32 %%p2, %%r6, 3; @%%p2 bra L; st.global.u32 [%%rd3+1048576], %%r20; "
               "ret; }\n");
    long n = ftell(f);
    return fclose(f) == 0 && n > 0 ? (size_t)n : 0;
}

enum { BYTES = 1 << 20 };

/* ---- the child: one line a launch -------------------------------------------------------------------------------- */
static uint8_t *memory;

static void launch(struct sg_module *m, const char *name, const uint32_t grid[2], uint32_t x, uint32_t y,
                   const uint64_t *args, uint64_t seed, uint64_t limit, bool unfollowed)
{
    static uint8_t params[256];
    struct sg_launch l = {.kernel = sg_module_kernel(m, name),
                          .grid = {grid[0], grid[1], 1},
                          .block = {x, y, 1},
                          .params = params,
                          .seed = seed,
                          .max_instructions = limit,
                          .unfollowed = unfollowed};
    if (!l.kernel) {
        printf("%s is not there\n", name);
        return;
    }
    const struct sg_kernel_info *i = sg_kernel_info(l.kernel);
    for (unsigned p = 0; p < i->nparam; p++)
        memcpy(params + i->param_offset[p], &args[p], i->param_bytes[p]);
    uint32_t s = 7;
    for (uint32_t k = 0; k < 4 * BYTES / 4; k++) {
        s = s * 1664525u + 1013904223u;
        float f = (float)(int)(s >> 8) * 1e-5f - 80; /* some bits of NaN among them */
        uint32_t u = k % 97 ? 0 : 0x7F800001u + s % 7;
        memcpy(memory + 4 * k, u ? (void *)&u : (void *)&f, 4);
    }
    struct sg_stats stats = {0};
    struct sg_fault fault;
    int r = sg_execute(dev, &l, &stats, &fault);
    char hash[DT_SHA256_TEXT], of[DT_SHA256_TEXT], text[700] = "";
    dt_sha256_text(memory, 4 * BYTES, hash);
    dt_sha256_text(&stats, sizeof stats, of);
    if (r < 0)
        sg_fault_text(&fault, text, sizeof text);
    for (char *at = text; (at = strstr(at, "0x"));) /* memory lies elsewhere in another process */
        for (at += 2; *at && strchr("0123456789abcdef", *at); at++)
            *at = '-';
    printf("%s block %u,%u seed %llu: %d, memory %.20s, %llu instructions, counters %.20s %s\n", name, x, y,
           (unsigned long long)seed, r, hash + 7, (unsigned long long)stats.instructions, r < 0 ? "-" : of + 7, text);
}

static int child(void)
{
    struct dt_err e = {0};
    uint64_t at;
    struct sg_module *m, *bench;
    if (sg_device_new(sg_model_find(NULL), &dev) < 0 || sg_mem_alloc(dev, 4 * BYTES, &at) < 0)
        return 2;
    memory = (uint8_t *)(uintptr_t)at; // NOLINT
    if (sg_module_load(dev, small, sizeof small - 1, &m, &e) < 0) {
        printf("%s\n", e.detail ? e.detail : "does not load");
        return 2;
    }
    static const char *const name[] = {"part",    "shapes", "floats", "global", "walks",
                                       "crooked", "wide",   "over",   "window", "payload"};
    static const uint32_t threads[] = {32, 256, 80, 7};
    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
            for (uint64_t seed = 0; seed < 3 && !(k == 3 && threads[t] < 32);
                 seed++) /* shfl from lanes that never were */
                launch(m, name[k], (uint32_t[]){9, 1}, threads[t], 1, (uint64_t[]){at, k == 3 ? 1500 : 20}, seed, 0,
                       seed == 2);
    static char sums[1 << 17];
    struct sg_module *many;
    if (sg_module_load(dev, sums, many_sums(sums, sizeof sums), &many, &e) < 0) {
        printf("%s\n", e.detail ? e.detail : "does not load");
        return 2;
    }
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        launch(many, "many", (uint32_t[]){9, 1}, threads[t], 1, (uint64_t[]){at, 0}, 0, 0, true);
    sg_module_free(many);
    launch(m, "forever", (uint32_t[]){3, 1}, 64, 1, (uint64_t[]){at, 0}, 0, 2000000, false);
    char path[4096];
    snprintf(path, sizeof path, "%s/bench/softgpu/kernels.ptx", getenv("DOVETAIL_SOURCE"));
    FILE *f = fopen(path, "rb");
    static char text[1 << 20];
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f)
        fclose(f);
    if (sg_module_load(dev, text, n, &bench, &e) < 0)
        return 2;
    uint64_t a = at, b = at + BYTES, c = at + 2ull * BYTES;
    launch(bench, "gemm16", (uint32_t[]){5, 4}, 16, 16, (uint64_t[]){a, b, c, 64, 70, 50}, 0, 0, false);
    launch(bench, "gemm64", (uint32_t[]){2, 2}, 256, 1, (uint64_t[]){a, b, c, 128, 64}, 0, 0, false);
    launch(bench, "gemm128", (uint32_t[]){1, 2}, 256, 1, (uint64_t[]){a, b, c, 128, 64}, 0, 0, false);
    launch(bench, "softmax", (uint32_t[]){9, 1}, 256, 1, (uint64_t[]){a, c, 700}, 0, 0, false);
    launch(bench, "layernorm", (uint32_t[]){9, 1}, 256, 1, (uint64_t[]){a, b, b + 8192, c, 1000}, 0, 0, false);
    launch(bench, "saxpy", (uint32_t[]){9, 1}, 256, 1, (uint64_t[]){a, c, 0x3FC00000, 2200}, 0, 0, false);
    launch(bench, "gelu", (uint32_t[]){9, 1}, 256, 1, (uint64_t[]){a, c, 2200}, 0, 0, false);
    launch(bench, "transpose", (uint32_t[]){4, 4}, 32, 8, (uint64_t[]){a, c, 128}, 0, 0, false);
    launch(bench, "collatz", (uint32_t[]){9, 1}, 256, 1, (uint64_t[]){a, c, 2200}, 0, 0, false);
    launch(bench, "collatz", (uint32_t[]){9, 1}, 256, 1, (uint64_t[]){a, c, 2200}, 5, 0, true);
    launch(bench, "hgemm", (uint32_t[]){2, 2}, 128, 1, (uint64_t[]){a, b, c, 128, 64}, 0, 0, true);
    launch(bench, "sum", (uint32_t[]){9, 1}, 256, 1, (uint64_t[]){a, c, 2200}, 0, 0, false);
    sg_module_free(bench);
    sg_module_free(m);
    sg_device_free(dev);
    struct sg_jit_figures fig;
    sg_jit_figures(&fig);
    struct sg_template_sums sum;
    sg_template_sums(&sum);
    fprintf(stderr,
            "%llu regions compiled, %llu refused; templates: %llu units, %llu blocks, %llu operations, %llu bytes, "
            "%.0f us\n",
            (unsigned long long)fig.compiled, (unsigned long long)fig.refused, (unsigned long long)sum.units,
            (unsigned long long)sum.blocks, (unsigned long long)sum.ops, (unsigned long long)sum.bytes,
            sum.seconds * 1e6);
    if ((sg_jit_mode() == SG_JIT_TEMPLATES_ALWAYS || sg_jit_mode() == SG_JIT_TEMPLATES_MASKED) && !sum.ops)
        return 4;
    return fig.refused ? 3 : sg_jit_mode() == SG_JIT_ALWAYS && !fig.compiled ? 4 : 0;
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */
static char *run(const char *mode)
{
    char command[4500];
    snprintf(command, sizeof command, "DOVETAIL_SOFTGPU_THREADS=1 DOVETAIL_SOFTGPU_JIT=%s '%s' child", mode, self);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    char *s = calloc(1, 1 << 20);
    assert_non_null(s);
    size_t n = fread(s, 1, (1 << 20) - 1, p);
    int status = pclose(p);
    if (status)
        print_error("%s: status %d\n%s\n", mode, status, s);
    assert_int_equal(status, 0);
    assert_true(n > 1000);
    return s;
}

static void same_as(const char *mode)
{
    char *interpreted = run("0"), *compiled = run(mode), *a = interpreted, *b = compiled;
    unsigned lines = 0, wrong = 0;
    while (*a && *b) {
        size_t n = strcspn(a, "\n"), k = strcspn(b, "\n");
        if (n != k || memcmp(a, b, n)) {
            print_error("interpreted: %.*s\ncompiled:    %.*s\n", (int)n, a, (int)k, b);
            wrong++;
        }
        lines++;
        a += n + (a[n] != 0);
        b += k + (b[k] != 0);
    }
    assert_int_equal(wrong, 0);
    assert_string_equal(a, b);
    assert_true(lines > 70);
    free(interpreted);
    free(compiled);
}

static void same_by_llvm(void **state)
{
    (void)state;
    if (!sg_llvm_ready() || !__builtin_cpu_supports("x86-64-v4"))
        SKIP(sg_llvm_ready() ? "this CPU has no AVX-512" : sg_llvm_why());
    same_as("always");
}

static void same_by_templates(void **state)
{
    (void)state;
    if (!__builtin_cpu_supports("x86-64-v4"))
        SKIP("this CPU has no AVX-512");
    same_as("templates-always");
    same_as("templates-masked");
    same_as("templates");
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "child"))
        return child();
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_by_llvm), cmocka_unit_test(same_by_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
