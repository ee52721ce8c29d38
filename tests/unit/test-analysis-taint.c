/* analysis/taint/taint.c: what may be called proved, on small kernels in PTX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/taint/taint.h"

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n"
#define THREAD                                                                                                         \
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;"                 \
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r9, [n];"                                           \
    "cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2; mul.wide.s32 %rd5, %r4, 4;"                         \
    "add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;"
#define KERNEL(vars, body)                                                                                             \
    HEAD vars ".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) {"                                       \
              ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %rd<40>;" THREAD body "ret; }"

enum { P = ANA_PROVED, O = ANA_OBSERVED, D = ANA_DATA_DEPENDENT };

struct want {
    int address, guard, param;
    bool reads, writes;
};

static void check(const char *ptx, bool x_constant, unsigned n, const struct want *want)
{
    struct ptx_module *m = NULL;
    struct dt_err e = {0};
    if (ptx_parse(ptx, strlen(ptx), &m, &e))
        fail_msg("%s", e.detail);
    const bool constant[3] = {x_constant, false, false}, pointer[3] = {true, true, false};
    uint8_t var[16];
    assert_true(m->nvar <= 16);
    assert_int_equal(ana_module_vars(m, var, &e), 0);
    struct ana_taint_in in = {constant, pointer, 3, NULL, var};
    struct ana_tainted t;
    assert_int_equal(ana_taint_run(ptx_find_function(m, "k"), &in, &t, &e), 0);
    if (t.sites.nsite != n)
        for (uint32_t i = 0; i < t.sites.nsite; i++)
            print_message("site at line %u\n", ptx_find_function(m, "k")->inst[t.sites.site[i].inst].line);
    assert_int_equal(t.sites.nsite, n);
    for (unsigned i = 0; i < n; i++) {
        const struct ana_site *s = &t.sites.site[i];
        if ((int)s->address != want[i].address || (int)s->guard != want[i].guard || s->param != want[i].param)
            fail_msg("site %u: address %s, guard %s, argument %d, of %s", i, ana_evidence_text(s->address),
                     ana_evidence_text(s->guard), s->param, ptx);
        assert_int_equal(s->reads, want[i].reads);
        assert_int_equal(s->writes, want[i].writes);
    }
    ana_tainted_done(&t);
    ptx_module_free(m);
    dt_err_done(&e);
}
#define SITES(...)                                                                                                     \
    (sizeof((struct want[]){__VA_ARGS__}) / sizeof(struct want)), (const struct want[]) { __VA_ARGS__ }
#define READ(a, g, p)                                                                                                  \
    {                                                                                                                  \
        a, g, p, true, false                                                                                           \
    }
#define WRITE(a, g, p)                                                                                                 \
    {                                                                                                                  \
        a, g, p, false, true                                                                                           \
    }
#define BOTH(a, g, p)                                                                                                  \
    {                                                                                                                  \
        a, g, p, true, true                                                                                            \
    }

static void straight_code_is_proved(void **state)
{
    check(KERNEL("", "setp.ge.s32 %p1, %r4, %r9; @%p1 bra E; ld.global.f32 %f1, [%rd6]; add.f32 %f2, %f1, %f1;"
                     "st.global.f32 [%rd7], %f2; E:"),
          false, SITES(READ(P, P, 0), WRITE(P, P, 1)));
}

static void gathers(void **state)
{
    const char *k = KERNEL("", "ld.global.nc.u32 %r10, [%rd6]; mul.wide.s32 %rd10, %r10, 4; add.s64 %rd11, %rd4, %rd10;"
                               "ld.global.f32 %f1, [%rd11]; st.global.f32 [%rd7], %f1;");
    check(k, false, SITES(READ(P, P, 0), READ(D, P, 1), WRITE(P, P, 1)));
    check(k, true, SITES(READ(P, P, 0), READ(O, P, 1), WRITE(P, P, 1)));
}

/* Video instructions are arithmetic: the result is what the operands are, c under a mask and behind .add too. */
static void video(void **state)
{
#define STORE "mul.wide.u32 %rd10, %r11, 4; add.s64 %rd11, %rd4, %rd10; st.global.f32 [%rd11], 0f00000000;"
    check(KERNEL("", "vadd4.u32.u32.u32 %r11.b0, %r4.b0000, %r9, %r3;" STORE), false, SITES(WRITE(P, P, 1)));
    check(KERNEL("", "ld.global.u32 %r10, [%rd6]; vmin4.s32.s32.s32 %r11, %r10, %r4, %r9;" STORE), false,
          SITES(READ(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("", "ld.global.u32 %r10, [%rd6]; vset2.lt.u32.u32 %r11.h0, %r4, %r10, %r9;" STORE), false,
          SITES(READ(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("", "ld.global.u32 %r10, [%rd6]; vabsdiff4.add.u32.u32.u32 %r11, %r4, %r9, %r10;" STORE), false,
          SITES(READ(P, P, 0), WRITE(D, P, 1)));
    /* bits of a pointer */
    check(KERNEL("", "cvt.u32.u64 %r10, %rd6; vavrg2.u32.u32.u32 %r11, %r4, %r10, %r9;" STORE), false,
          SITES(WRITE(D, P, -1)));
#undef STORE
}

static void guards(void **state)
{
    /* by predicate */
    check(KERNEL("", "ld.global.f32 %f1, [%rd6]; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 st.global.f32 [%rd7], %f1;"),
          false, SITES(READ(P, P, 0), WRITE(P, D, 1)));
    /* by branch, the address made behind it; the store after the meeting point is certain again */
    check(KERNEL("", "ld.global.f32 %f1, [%rd6]; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra E;"
                     "add.s64 %rd20, %rd7, 4; st.global.f32 [%rd20], %f1; E: st.global.f32 [%rd7+8], %f1;"),
          false, SITES(READ(P, P, 0), WRITE(P, D, 1), WRITE(P, P, 1)));
    /* early exit: everything after it */
    check(
        KERNEL("", "ld.global.f32 %f1, [%rd6]; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 ret; st.global.f32 [%rd7], %f1;"),
        false, SITES(READ(P, P, 0), WRITE(P, D, 1)));
    check(KERNEL("", "ld.global.f32 %f1, [%rd6]; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra T; bra F; T: trap;"
                     "F: st.global.f32 [%rd7], %f1;"),
          false, SITES(READ(P, P, 0), WRITE(P, D, 1)));
}

static void merges(void **state)
{
    /* an address chosen by data */
    check(
        KERNEL("",
               "ld.global.f32 %f1, [%rd6]; setp.gt.f32 %p1, %f1, 0f00000000; mov.u32 %r20, 4; @%p1 bra E;"
               "mov.u32 %r20, 8; E: cvt.u64.u32 %rd20, %r20; add.s64 %rd21, %rd7, %rd20; st.global.f32 [%rd21], %f1;"),
        false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("", "ld.global.f32 %f1, [%rd6]; setp.gt.f32 %p1, %f1, 0f00000000; selp.b32 %r20, 4, 8, %p1;"
                     "cvt.u64.u32 %rd20, %r20; add.s64 %rd21, %rd7, %rd20; st.global.f32 [%rd21], %f1;"),
          false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("",
                 "ld.global.f32 %f1, [%rd6]; setp.gt.f32 %p1, %f1, 0f00000000; mov.u32 %r20, 4; @%p1 mov.u32 %r20, 8;"
                 "cvt.u64.u32 %rd20, %r20; add.s64 %rd21, %rd7, %rd20; st.global.f32 [%rd21], %f1;"),
          false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
    /* a loop that data ends: what it counted is data behind it (and, registers being one cell each, in it) */
    check(KERNEL("", "mov.u32 %r20, 0; L: mul.wide.u32 %rd20, %r20, 4; add.s64 %rd21, %rd6, %rd20;"
                     "ld.global.f32 %f1, [%rd21]; add.s32 %r20, %r20, 1; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra L;"
                     "mul.wide.u32 %rd22, %r20, 4; add.s64 %rd23, %rd7, %rd22; st.global.f32 [%rd23], %f1;"
                     "st.global.f32 [%rd7], %f1;"),
          false, SITES(READ(D, D, 0), WRITE(D, P, 1), WRITE(P, P, 1)));
    /* a loop with a clean count that looks at data inside stays clean */
    check(KERNEL("",
                 "mov.u32 %r20, 0; mov.f32 %f2, 0f00000000; L: mul.wide.u32 %rd20, %r20, 4; add.s64 %rd21, %rd6, %rd20;"
                 "ld.global.f32 %f1, [%rd21]; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra S; add.f32 %f2, %f2, %f1;"
                 "S: add.s32 %r20, %r20, 1; setp.lt.u32 %p2, %r20, %r9; @%p2 bra L; st.global.f32 [%rd7], %f2;"),
          false, SITES(READ(P, P, 0), WRITE(P, P, 1)));
}

static void shared_memory(void **state)
{
    /* staging of data: addresses stay clean */
    check(KERNEL(".shared .align 4 .b8 t[128];",
                 "mov.u32 %r20, t; shl.b32 %r21, %r3, 2; add.s32 %r22, %r20, %r21; ld.global.f32 %f1, [%rd6];"
                 "st.shared.f32 [%r22], %f1; bar.sync 0; ld.shared.f32 %f2, [%r22]; st.global.f32 [%rd7], %f2;"),
          false, SITES(READ(P, P, 0), WRITE(P, P, 1)));
    /* an index through shared memory: clean only if what was stored is, and if a barrier is between */
    check(KERNEL(".shared .align 4 .b8 t[4];",
                 "st.shared.u32 [t], %r1; bar.sync 0; ld.shared.u32 %r20, [t]; mul.wide.u32 %rd20, %r20, 4;"
                 "add.s64 %rd21, %rd4, %rd20; st.global.u32 [%rd21], %r1;"),
          false, SITES(WRITE(P, P, 1)));
    check(KERNEL(".shared .align 4 .b8 t[4];",
                 "ld.shared.u32 %r20, [t]; mul.wide.u32 %rd20, %r20, 4; add.s64 %rd21, %rd4, %rd20;"
                 "st.global.u32 [%rd21], %r1;"),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL(".shared .align 4 .b8 t[4];",
                 "ld.global.u32 %r10, [%rd6]; st.shared.u32 [t], %r10; bar.sync 0; ld.shared.u32 %r20, [t];"
                 "mul.wide.u32 %rd20, %r20, 4; add.s64 %rd21, %rd4, %rd20; st.global.u32 [%rd21], %r1;"),
          false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
    /* what is written to memory by way of the index does not come back to the cell it was loaded from */
    check(KERNEL(".shared .align 4 .b8 t[4];",
                 "setp.ne.s32 %p1, %r3, 0; @%p1 bra E; st.shared.u32 [t], %r1; E: bar.sync 0; ld.shared.u32 %r20, [t];"
                 "mul.wide.u32 %rd20, %r20, 4; add.s64 %rd22, %rd3, %rd20; ld.global.u32 %r21, [%rd22];"
                 "add.s64 %rd21, %rd4, %rd20; st.global.u32 [%rd21], %r21;"),
          false, SITES(READ(P, P, 0), WRITE(P, P, 1)));
    /* a store that data may skip */
    check(
        KERNEL(".shared .align 4 .b8 t[4];",
               "ld.global.u32 %r10, [%rd6]; setp.eq.s32 %p1, %r10, 0; st.shared.u32 [t], 0; @%p1 st.shared.u32 [t], 1;"
               "bar.sync 0; ld.shared.u32 %r20, [t]; mul.wide.u32 %rd20, %r20, 4; add.s64 %rd21, %rd4, %rd20;"
               "st.global.u32 [%rd21], %r1;"),
        false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
}

#define AT20 "mul.wide.u32 %rd20, %r20, 4; add.s64 %rd21, %rd4, %rd20; st.global.u32 [%rd21], %r1;"

/* Who stored last, and whether it is done, may be a matter of time. */
static void shared_memory_races(void **state)
{
#define OWN "mov.u32 %r22, t; shl.b32 %r21, %r3, 2; add.s32 %r22, %r22, %r21; st.shared.u32 [%r22], %r3;"
    /* a second store without a barrier; a barrier of one warp, of some threads, one that nobody waits at */
    static const char *const bad[] = {
        OWN "bar.sync 0; st.shared.u32 [%r22], 5; ld.shared.u32 %r20, [t+12];" AT20,
        OWN "bar.sync 0; ld.shared.u32 %r20, [t+12]; st.shared.u32 [%r22], 5;" AT20,
        OWN "bar.warp.sync -1; ld.shared.u32 %r20, [t+12];" AT20,
        OWN "bar.sync 1, 64; ld.shared.u32 %r20, [t+12];" AT20,
        OWN "bar.arrive 1, 64; ld.shared.u32 %r20, [t+12];" AT20,
        OWN "setp.lt.s32 %p1, %r3, 64; @%p1 bar.sync 0; ld.shared.u32 %r20, [t+12];" AT20,
        "mov.u32 %r30, 0; L:" OWN "bar.sync 0; ld.shared.u32 %r20, [t+12]; add.s32 %r30, %r30, 1;"
        "setp.lt.s32 %p1, %r30, 4; @%p1 bra L;" AT20,
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        static const char frame[] = KERNEL(".shared .align 4 .b8 t[1024];", "\1");
        const char *cut = strchr(frame, '\1');
        char text[4096];
        snprintf(text, sizeof text, "%.*s%s%s", (int)(cut - frame), frame, bad[i], cut + 1);
        check(text, false, SITES(WRITE(D, P, 1)));
    }
    check(KERNEL(".shared .align 4 .b8 t[1024];",
                 "mov.u32 %r30, 0; L:" OWN "bar.sync 0; ld.shared.u32 %r20, [t+12]; bar.sync 0; add.s32 %r30, %r30, 1;"
                 "setp.lt.s32 %p1, %r30, 4; @%p1 bra L;" AT20),
          false, SITES(WRITE(P, P, 1)));
    /* arrays of dynamic shared memory are the same memory */
    check(KERNEL(".extern .shared .align 4 .b8 a[]; .extern .shared .align 4 .b8 b[];",
                 "st.shared.u32 [a], 7; bar.sync 0; ld.global.u32 %r10, [%rd6]; st.shared.u32 [b], %r10; bar.sync 0;"
                 "ld.shared.u32 %r20, [a];" AT20),
          false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
    /* asynchronous copies: constant, but not yet there without a wait */
    check(KERNEL(".shared .align 4 .b8 t[1024];",
                 "cp.async.ca.shared.global [t], [%rd6], 4; cp.async.wait_all; bar.sync 0;"
                 "ld.shared.u32 %r20, [t];" AT20),
          true, SITES(READ(P, P, 0), WRITE(O, P, 1)));
    check(KERNEL(".shared .align 4 .b8 t[1024];",
                 "cp.async.ca.shared.global [t], [%rd6], 4; bar.sync 0; ld.shared.u32 %r20, [t];" AT20),
          true, SITES(READ(P, P, 0), WRITE(D, P, 1)));
#undef OWN
}

/* The carry flag is a register that no operand names. */
static void carry(void **state)
{
    check(KERNEL("", "ld.global.u32 %r10, [%rd6]; add.cc.u32 %r11, %r10, -500; addc.u32 %r20, 0, 0;" AT20), false,
          SITES(READ(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("", "add.cc.u32 %r11, %r4, -500; addc.u32 %r20, 0, 0;" AT20), false, SITES(WRITE(P, P, 1)));
    check(KERNEL("", "addc.u32 %r20, 0, 0;" AT20), false, SITES(WRITE(D, P, 1))); /* nothing set it */
    check(KERNEL("", "setp.ge.s32 %p1, %r4, %r9; @%p1 bra C; add.cc.u32 %r11, %r4, -500; C: addc.u32 %r20, 0, 0;" AT20),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL("", "setp.ge.s32 %p1, %r4, %r9; @%p1 add.cc.u32 %r11, %r4, -500; addc.u32 %r20, 0, 0;" AT20), false,
          SITES(WRITE(D, P, 1)));
}

/* Results whose bits PTX leaves open: what one device makes of them proves nothing of another. */
static void open_results(void **state)
{
    static const char *const open[] = {
        "div.approx.f32 %f2, %f1, 0f42240000;",
        "div.approx.ftz.f32 %f2, %f1, 0f42240000;",
        "div.full.f32 %f2, %f1, 0f42240000;",
        "rcp.approx.f32 %f2, %f1;",
        "rcp.approx.ftz.f32 %f2, %f1;",
        "sqrt.approx.f32 %f2, %f1;",
        "rsqrt.approx.f32 %f2, %f1;",
        "sin.approx.f32 %f2, %f1;",
        "cos.approx.ftz.f32 %f2, %f1;",
        "ex2.approx.f32 %f2, %f1;",
        "lg2.approx.f32 %f2, %f1;",
        "tanh.approx.f32 %f2, %f1;",
        "cvt.rna.tf32.f32 %r10, %f1; mov.b32 %f2, %r10;",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r4, %r4}, {%r4}, {%f1, %f1, %f1, "
        "%f1};",
    };
    static const char *const closed[] = {
        "div.rn.f32 %f2, %f1, 0f42240000;",
        "div.rz.ftz.f32 %f2, %f1, 0f42240000;",
        "rcp.rn.f32 %f2, %f1;",
        "sqrt.rn.f32 %f2, %f1;",
        "fma.rn.f32 %f2, %f1, %f1, %f1;",
        "add.ftz.f32 %f2, %f1, %f1;",
        "div.u32 %r10, %r4, 41; cvt.rn.f32.u32 %f2, %r10;",
        "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r10, %r11}, {%r4}, {%r4}, {%r4, %r4}; cvt.rn.f32.s32 %f2, "
        "%r10;",
    };
    static const char whole[] = KERNEL("", "cvt.rn.f32.u32 %f1, %r4; @ cvt.rzi.u32.f32 %r20, %f2;" AT20);
    static const char guard[] =
        KERNEL("", "cvt.rn.f32.u32 %f1, %r4; @ setp.gt.f32 %p1, %f2, 0f3F800000; @%p1 st.global.u32 [%rd7], %r1;");
    for (size_t k = 0; k < sizeof open / sizeof *open + sizeof closed / sizeof *closed; k++) {
        bool o = k < sizeof open / sizeof *open;
        for (int way = 0; way < 2; way++) {
            const char *text = way ? guard : whole, *at = strchr(text, '@');
            struct dt_str s = {0};
            dt_str_addn(&s, text, (size_t)(at - text));
            dt_str_addf(&s, "%s%s", o ? open[k] : closed[k - sizeof open / sizeof *open], at + 1);
            if (way)
                check(s.s, false, SITES(WRITE(P, o ? D : P, 1)));
            else
                check(s.s, false, SITES(WRITE(o ? D : P, P, 1)));
            dt_str_done(&s);
        }
    }
}

static void other_sources(void **state)
{
    check(KERNEL("", "atom.global.add.u32 %r10, [%rd6], 1; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd21, %rd4, %rd20;"
                     "st.global.u32 [%rd21], %r1;"),
          false, SITES(BOTH(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("", "mov.u32 %r10, %smid; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd21, %rd4, %rd20; st.global.u32 "
                     "[%rd21], %r1;"),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL("", "mul.wide.u32 %rd20, %r33, 4; add.s64 %rd21, %rd4, %rd20; st.global.u32 [%rd21], %r1;"), false,
          SITES(WRITE(D, P, 1))); /* %r33 is never written */
    check(KERNEL("", "shfl.sync.idx.b32 %r10, %r3, 0, 31, -1; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd21, %rd4, %rd20;"
                     "st.global.u32 [%rd21], %r1;"),
          false, SITES(WRITE(P, P, 1)));
    check(KERNEL("", "ld.global.u32 %r11, [%rd6]; shfl.sync.idx.b32 %r10, %r11, 0, 31, -1; mul.wide.u32 %rd20, %r10, 4;"
                     "add.s64 %rd21, %rd4, %rd20; st.global.u32 [%rd21], %r1;"),
          false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("", "activemask.b32 %r10; mul.wide.u32 %rd20, %r10, 4; add.s64 %rd21, %rd4, %rd20; st.global.u32 "
                     "[%rd21], %r1;"),
          false, SITES(WRITE(D, P, 1)));
}

static void tables(void **state)
{
    /* never written: content is part of the module */
    check(KERNEL(".const .align 4 .b32 t[4] = {3, 2, 1, 0};",
                 "mov.u64 %rd19, t; and.b32 %r20, %r3, 3; mul.wide.u32 %rd20, %r20, 4; add.s64 %rd21, %rd19, %rd20;"
                 "ld.const.u32 %r21, [%rd21]; mul.wide.u32 %rd22, %r21, 4; add.s64 %rd23, %rd4, %rd22;"
                 "st.global.u32 [%rd23], %r1;"),
          false, SITES(WRITE(P, P, 1)));
    check(KERNEL(".global .align 4 .u32 t = 7;", "ld.global.u32 %r21, [t]; mul.wide.u32 %rd22, %r21, 4; add.s64 %rd23, "
                                                 "%rd4, %rd22; st.global.u32 [%rd23], %r1;"),
          false, SITES(WRITE(P, P, 1)));
    /* written by another entry of the module */
    check(KERNEL(".global .align 4 .u32 t = 7; .visible .entry other() { st.global.u32 [t], 1; ret; }",
                 "ld.global.u32 %r21, [t]; mul.wide.u32 %rd22, %r21, 4; add.s64 %rd23, %rd4, %rd22; st.global.u32 "
                 "[%rd23], %r1;"),
          false, SITES(READ(P, P, -1), WRITE(D, P, 1)));
}

/* A device function that looks a table up and writes what its argument points to (here the caller's own memory). */
static void calls(void **state)
{
    check(KERNEL(".global .align 4 .b32 t[4] = {3, 2, 1, 0};"
                 ".func (.param .b32 out) look(.param .b32 in, .param .b64 at) { .reg .b32 %a<4>; .reg .b64 %b<5>;"
                 " ld.param.u32 %a1, [in]; ld.param.u64 %b1, [at]; mov.u64 %b2, t; mul.wide.u32 %b3, %a1, 4;"
                 " add.s64 %b4, %b2, %b3; ld.global.u32 %a2, [%b4]; st.u32 [%b1], %a2; st.param.b32 [out], %a2; ret; }",
                 ".local .align 4 .b8 mine[4]; mov.u64 %rd20, mine; cvta.local.u64 %rd21, %rd20;"
                 "{ .param .b32 p; .param .b64 q; .param .b32 o; st.param.b32 [p], %r3; st.param.b64 [q], %rd21;"
                 " call (o), look, (p, q); ld.param.b32 %r20, [o]; } st.global.u32 [%rd7], %r20;"),
          false, SITES(WRITE(P, P, 1)));
    check(KERNEL(".func put(.param .b64 at) { .reg .b64 %b<5>; ld.param.u64 %b1, [at]; st.u32 [%b1], 1; ret; }",
                 "{ .param .b64 q; st.param.b64 [q], %rd2; call put, (q); } st.global.u32 [%rd6], %r1;"),
          false, SITES(WRITE(D, P, 1), WRITE(P, P, 0)));
}

/* What a device function can reach by way of memory, and threads that do not come back from one. */
static void calls_through_memory(void **state)
{
#define PUT                                                                                                            \
    ".func put(.param .b64 at) { .reg .b64 %b<5>; ld.param.u64 %b1, [at]; ld.u64 %b2, [%b1]; st.u32 [%b2], 1; ret; }"
    check(KERNEL(PUT, ".local .align 8 .b8 mine[8]; mov.u64 %rd20, mine; st.local.u64 [mine], %rd2;"
                      "cvta.local.u64 %rd21, %rd20; { .param .b64 q; st.param.b64 [q], %rd21; call put, (q); }"),
          false, SITES(BOTH(D, P, 1)));
    check(KERNEL(".shared .align 8 .b8 t[8]; .func put() { .reg .b64 %b<5>; ld.shared.u64 %b2, [t]; st.u32 [%b2], 1; "
                 "ret; }",
                 "st.shared.u64 [t], %rd2; bar.sync 0; call put;"),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL(".func leave(.param .b32 v) { .reg .pred %a; .reg .b32 %b; ld.param.u32 %b, [v]; setp.eq.s32 %a, %b, "
                 "0; @%a exit; ret; }",
                 "ld.global.u32 %r10, [%rd6]; { .param .b32 q; st.param.b32 [q], %r10; call leave, (q); }"
                 "st.global.u32 [%rd7], %r1; bar.sync 0; st.global.u32 [%rd7+4], %r1;"),
          false, SITES(READ(P, D, 0), WRITE(P, D, 1), WRITE(P, D, 1)));
#undef PUT
}

/* What a function that is called does by atomics is done by the call. */
static void atomics_of_callees(void **state)
{
    static const char text[] = KERNEL(".func add(.param .b64 p) { .reg .b64 %rd<3>; ld.param.u64 %rd1, [p]; "
                                      "red.global.add.f32 [%rd1], 0f3F800000; ret; }"
                                      ".func deep(.param .b64 p) { .reg .b64 %rd<3>; ld.param.u64 %rd1, [p]; { .param "
                                      ".b64 q; st.param.b64 [q], %rd1; call add, (q); } ret; }\n",
                                      "{ .param .b64 q; st.param.b64 [q], %rd2; call deep, (q); }");
    struct ptx_module *m = NULL;
    struct dt_err e = {0};
    struct ana_sites sites;
    if (ptx_parse(text, strlen(text), &m, &e) < 0 || ana_taint(ptx_find_function(m, "k"), NULL, 0, &sites, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(sites.nsite, 1);
    assert_true(sites.site[0].writes && sites.site[0].atomic && sites.site[0].fp_atomic && sites.site[0].result_used);
    ana_sites_done(&sites);
    ptx_module_free(m);
}

/* Every function calls the next one twice: a walk that is not shared takes 2^40 steps. */
static void wide_call_graph(void **state)
{
    char *text = malloc(1 << 16);
    size_t n = 0;
    for (int i = 40; i >= 0; i--)
        n += (size_t)sprintf(text + n, i == 40 ? ".func f%d() { ret; }" : ".func f%d() { call f%d; call f%d; ret; }", i,
                             i + 1, i + 1);
    char *k = malloc(1 << 17);
    sprintf(k,
            HEAD "%s .visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) { .reg .b64 %%a; call f0;"
                 "ld.param.u64 %%a, [y]; st.u32 [%%a], 1; ret; }",
            text);
    check(k, false, SITES(WRITE(P, P, 1)));
    free(k);
    free(text);
}

static void provenance(void **state)
{
    /* an address from memory or that of an argument: anything */
    check(KERNEL("", "ld.global.u64 %rd20, [%rd6]; setp.eq.s64 %p1, %rd20, 0; selp.b64 %rd20, %rd7, %rd20, %p1;"
                     "st.global.u32 [%rd20], %r1;"),
          false, SITES(READ(P, P, 0), WRITE(D, P, -1)));
    /* but not a 64-bit index */
    check(KERNEL("", "ld.global.u64 %rd20, [%rd6]; shl.b64 %rd21, %rd20, 2; add.s64 %rd22, %rd7, %rd21;"
                     "st.global.u32 [%rd22], %r1;"),
          false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
    check(KERNEL("", "setp.lt.s32 %p1, %r4, %r9; selp.b64 %rd20, %rd6, %rd7, %p1; st.global.u32 [%rd20], %r1;"), false,
          SITES(WRITE(P, P, -1)));
    check(KERNEL("", "ld.global.u64 %rd20, [%rd6]; st.global.u32 [%rd20], %r1;"), false,
          SITES(READ(P, P, 0), WRITE(D, P, -1)));
}

/* Everything that the kernel touches is unknown. */
static void all_unknown(const char *k, bool called)
{
    struct ptx_module *m = NULL;
    struct ana_sites s;
    struct dt_err e = {0};
    if (ptx_parse(k, strlen(k), &m, &e))
        fail_msg("%s", e.detail);
    assert_int_equal(ana_taint(ptx_find_function(m, "k"), NULL, 3, &s, &e), 0);
    assert_true(s.opaque);
    for (uint32_t i = 0; i < s.nsite; i++)
        assert_int_equal(s.site[i].address, called && i ? ANA_PROVED : ANA_DATA_DEPENDENT);
    assert_true(s.nsite >= 2);
    assert_true(s.side_effects || called);
    ana_sites_done(&s);
    ptx_module_free(m);
}

static void unknown_instructions(void **state)
{
    all_unknown(KERNEL("", "frobnicate.b32 %r10, %r4; st.global.u32 [%rd7], %r1;"), false);
    /* no operand says what memory they touch */
    all_unknown(KERNEL("", "tex.1d.v4.u32.s32 {%r10, %r11, %r12, %r13}, [%rd1, {%r4}]; st.global.u32 [%rd7], %r1;"),
                false);
    all_unknown(KERNEL("", "sust.b.1d.b32.trap [%rd1, {%r4}], {%r1}; st.global.u32 [%rd7], %r1;"), false);
    all_unknown(KERNEL(".func f() { .reg .b32 %r<9>; .reg .b64 %rd<9>; suld.b.1d.b32.trap {%r1}, [%rd1, {%r2}]; ret; }",
                       "call.uni f; st.global.u32 [%rd7], %r1;"),
                true);
    all_unknown(KERNEL("", "txq.width.b32 %r10, [%rd1]; st.global.u32 [%rd7], %r1;"), false);
}

/* Where a buffer lies is not the same in another binding (binding.c). %rd6 is x and this thread's element. */
static void pointer_bits(void **state)
{
    static const struct {
        const char *body;
        int guard;
        uint32_t align;
    } test[] = {
        {"and.b64 %rd10, %rd6, 15; setp.eq.s64 %p1, %rd10, 0;", P, 16},
        {"cvt.u32.u64 %r10, %rd6; and.b32 %r11, %r10, 12; setp.ne.u32 %p1, %r11, 0;", P, 16},
        {"or.b64 %rd10, %rd6, %rd7; and.b64 %rd11, %rd10, 7; setp.eq.s64 %p1, %rd11, 0;", P, 8},
        {"and.b64 %rd10, %rd6, 4095; setp.eq.s64 %p1, %rd10, 0;", D, 0}, /* nobody promises that */
        {"shr.u64 %rd10, %rd6, 4; and.b64 %rd11, %rd10, 1; setp.eq.s64 %p1, %rd11, 0;", D, 0},
        {"mov.b64 {%r10, %r11}, %rd6; and.b32 %r12, %r11, 3; setp.eq.s32 %p1, %r12, 0;", D, 0}, /* bits from 32 on */
        {"setp.ne.s64 %p1, %rd6, 0;", P, 0},
        {"setp.lt.u64 %p1, %rd6, %rd7;", D, 0},
        {"setp.eq.s64 %p1, %rd6, %rd7;", D, 0},
        {"add.s64 %rd10, %rd6, 64; setp.ne.s64 %p1, %rd10, %rd6;", P, 0}, /* a loop that ends at a pointer */
        {"rem.u64 %rd10, %rd6, 3; setp.eq.s64 %p1, %rd10, 0;", D, 0},
    };
    for (size_t k = 0; k < sizeof test / sizeof *test; k++) {
        struct ptx_module *m = NULL;
        struct dt_err e = {0};
        struct ana_tainted t;
        static const bool constant[3], pointer[3] = {true, true, false};
        struct ana_taint_in in = {constant, pointer, 3, NULL, NULL};
        struct dt_str s = {0};
        const char *whole = KERNEL("", "HERE @%p1 st.global.f32 [%rd7], 0f00000000;"), *at = strstr(whole, "HERE");
        dt_str_addn(&s, whole, (size_t)(at - whole));
        dt_str_add(&s, test[k].body);
        dt_str_add(&s, at + 4);
        if (ptx_parse(s.s, s.len, &m, &e) < 0)
            fail_msg("%s: %s", test[k].body, e.detail);
        assert_int_equal(ana_taint_run(ptx_find_function(m, "k"), &in, &t, &e), 0);
        assert_int_equal(t.sites.nsite, 1);
        if ((int)t.sites.site[0].guard != test[k].guard || t.sites.align[0] != test[k].align)
            fail_msg("%s: guard %s, alignment %u", test[k].body, ana_evidence_text(t.sites.site[0].guard),
                     t.sites.align[0]);
        ana_tainted_done(&t);
        ptx_module_free(m);
        dt_str_done(&s);
    }
    /* as an address: a pointer and a number made of one */
    check(
        KERNEL("",
               "cvt.u32.u64 %r10, %rd6; and.b32 %r11, %r10, 4092; cvt.u64.u32 %rd10, %r11; add.s64 %rd11, %rd7, %rd10;"
               "st.global.f32 [%rd11], 0f00000000;"),
        false, SITES(WRITE(D, P, -1)));
    /* low bits of an aligned address are no way to its buffer */
    check(KERNEL("",
                 "cvt.u32.u64 %r10, %rd6; and.b32 %r11, %r10, 12; cvt.u64.u32 %rd10, %r11; add.s64 %rd11, %rd7, %rd10;"
                 "st.global.f32 [%rd11], 0f00000000;"),
          false, SITES(WRITE(P, P, 1)));
    /* as what a table of branches is asked for, or a copy for its size */
    check(KERNEL("", "cvt.u32.u64 %r10, %rd6; and.b32 %r11, %r10, 4092; T: .branchtargets A, B; brx.idx %r11, T;"
                     "A: bra.uni E; B: st.global.f32 [%rd7], 0f00000000; E:"),
          false, SITES(WRITE(P, D, 1)));
    check(KERNEL(".shared .align 16 .b8 s[512];", "cvt.u32.u64 %r10, %rd6; and.b32 %r11, %r10, 256;"
                                                  "cp.async.bulk.global.shared::cta.bulk_group [%rd4], [s], %r11;"),
          false, SITES(WRITE(D, P, 1)));
}

/* One lane of a warp is elected, and which, nobody knows: what is touched must be the same for any choice. */
#define ROW(n, body)                                                                                                   \
    HEAD ".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) .reqntid " n                                  \
         " {.shared .b32 s[64]; .reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %rd<40>;" THREAD body  \
         "ret; }"
#define ELECT "elect.sync _|%p1, -1;"
#define PUT "@%p1 st.global.u32 [%rd4], %r3;"
static void elected_lanes(void **state)
{
    check(ROW("256", ELECT PUT), false, SITES(WRITE(P, P, 1)));
    check(ROW("256", "mov.b32 %r10, -1; elect.sync %r11|%p1, %r10;" PUT), false, SITES(WRITE(P, P, 1)));
    /* not the same in every lane: the address, another part of the guard */
    check(ROW("256", ELECT "@%p1 st.global.u32 [%rd7], %r9;"), false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "setp.eq.s32 %p2, %r3, 0; and.pred %p1, %p1, %p2;" PUT), false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "setp.eq.s32 %p2, %r3, 0; @!%p2 bra E;" PUT "E:"), false, SITES(WRITE(D, P, 1)));
    /* whole warps are */
    check(ROW("256", ELECT "setp.lt.u32 %p2, %r3, 64; and.pred %p1, %p1, %p2;" PUT), false, SITES(WRITE(P, P, 1)));
    check(ROW("256", ELECT "and.b32 %r10, %r3, 127; setp.gt.u32 %p2, %r10, 95; @!%p2 bra E;" PUT "E:"), false,
          SITES(WRITE(P, P, 1)));
    check(ROW("256", ELECT "shr.u32 %r10, %r3, 5; setp.eq.s32 %p2, %r10, 0; and.pred %p1, %p1, %p2;" PUT), false,
          SITES(WRITE(P, P, 1)));
    check(ROW("256", ELECT "shr.u32 %r10, %r3, 4; setp.eq.s32 %p2, %r10, 0; and.pred %p1, %p1, %p2;" PUT), false,
          SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "setp.lt.u32 %p2, %r3, 63; and.pred %p1, %p1, %p2;" PUT), false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "and.b32 %r10, %r3, 248; setp.lt.u32 %p2, %r10, 64; and.pred %p1, %p1, %p2;" PUT), false,
          SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "mov.b32 %r12, %r3; @%p3 mov.b32 %r12, 7; setp.lt.u32 %p2, %r12, 64;"
                           "and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(D, D, 1)));
    /* rows of 16: thread 32 has x = 0, y = 2 */
    check(ROW("16, 16, 1", ELECT "shr.u32 %r10, %r3, 5; setp.eq.s32 %p2, %r10, 0; and.pred %p1, %p1, %p2;" PUT), false,
          SITES(WRITE(D, P, 1)));
    check(KERNEL("", ELECT "shr.u32 %r10, %r3, 5; setp.eq.s32 %p2, %r10, 0; and.pred %p1, %p1, %p2;" PUT), false,
          SITES(WRITE(D, P, 1)));
    /* thread number / 32 of one lane, for all */
    check(KERNEL("", ELECT "shr.u32 %r10, %r3, 5; shfl.sync.idx.b32 %r11, %r10, 0, 31, -1; setp.eq.s32 %p2, %r11, 0;"
                           "and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(P, P, 1)));
    /* the same as nvcc has it: with a second result, and by a mask that is another number elsewhere */
    check(KERNEL("", "mov.b32 %r13, 0; mov.b32 %r14, 31; mov.b32 %r12, -1;" ELECT "shr.u32 %r10, %r3, 5;"
                     "shfl.sync.idx.b32 %r11|%p3, %r10, %r13, %r14, %r12; setp.eq.s32 %p2, %r11, 0;"
                     "and.pred %p1, %p1, %p2;" PUT "mov.b32 %r12, %r3;"),
          false, SITES(WRITE(P, P, 1)));
    check(KERNEL("",
                 "mov.b32 %r12, -1; setp.eq.s32 %p2, %r1, 0; @%p2 bra A; bra B; A: bra B; B:"
                 "mov.b32 %r12, -1;" ELECT "bra C; C: shr.u32 %r10, %r3, 5; shfl.sync.idx.b32 %r11, %r10, 0, 31, %r12;"
                 "setp.eq.s32 %p2, %r11, 0; and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(P, P, 1)));
    /* not so: one of two masks, by the way that was taken; what a guard may leave */
    check(KERNEL("", "mov.b32 %r12, -1; setp.eq.s32 %p2, %r1, 0; @%p2 bra A; mov.b32 %r12, 15; A:" ELECT
                     "shr.u32 %r10, %r3, 5; shfl.sync.idx.b32 %r11, %r10, 0, 31, %r12;"
                     "setp.eq.s32 %p2, %r11, 0; and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL("", "mov.b32 %r12, 15; setp.eq.s32 %p2, %r1, 0; @%p2 mov.b32 %r12, -1;" ELECT
                     "shr.u32 %r10, %r3, 5; shfl.sync.idx.b32 %r11, %r10, 0, 31, %r12;"
                     "setp.eq.s32 %p2, %r11, 0; and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL("", "mov.b32 %r13, 0; mov.b32 %r14, 15;" ELECT "shr.u32 %r10, %r3, 5;" /* halves of a warp */
                     "shfl.sync.idx.b32 %r11|%p3, %r10, %r13, %r14, -1; setp.eq.s32 %p2, %r11, 0;"
                     "and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL("", ELECT "shfl.sync.bfly.b32 %r10, %r3, 1, 31, -1; setp.eq.s32 %p2, %r10, 0;"
                           "and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(D, P, 1)));
    check(KERNEL("", ELECT "shfl.sync.idx.b32 %r10, %r3, 0, 4127, -1; setp.eq.s32 %p2, %r10, 0;" /* halves of a warp */
                           "and.pred %p1, %p1, %p2;" PUT),
          false, SITES(WRITE(D, P, 1)));
}

/* Elections that not all lanes come to, or that say more than that there is one. */
static void doubtful_elections(void **state)
{
    check(ROW("256", "elect.sync _|%p1, 65535;" PUT), false, SITES(WRITE(P, D, 1)));
    check(ROW("256", "elect.sync _|%p1, %r9;" PUT), false, SITES(WRITE(P, D, 1)));
    check(ROW("256", "setp.lt.u32 %p2, %r3, 5; @%p2 bra E;" ELECT PUT "E:"), false, SITES(WRITE(P, D, 1)));
    check(ROW("256", "setp.lt.u32 %p2, %r3, 5; @%p2 ret;" ELECT PUT), false, SITES(WRITE(P, D, 1)));
    check(ROW("256", "setp.lt.u32 %p2, %r3, 64; @%p2 ret;" ELECT PUT), false, SITES(WRITE(P, P, 1)));
    check(ROW("256", "setp.lt.u32 %p2, %r3, 5; @%p2 " ELECT PUT), false, SITES(WRITE(P, D, 1)));
    check(ROW("256", "ld.global.u32 %r10, [%rd3]; setp.eq.s32 %p2, %r10, 0; @%p2 bra E;" ELECT PUT "E:"), false,
          SITES(READ(P, P, 0), WRITE(P, D, 1)));
    /* its number; what a lane has because it was elected, by exchange, vote, memory, merge */
#define AT "mul.wide.u32 %rd10, %r10, 4; add.s64 %rd11, %rd4, %rd10; st.global.u32 [%rd11], %r9;"
    check(ROW("256", "elect.sync %r10|%p1, -1;" AT), false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "selp.b32 %r10, 1, 0, %p1; shfl.sync.idx.b32 %r10, %r10, 0, 31, -1;" AT), false,
          SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "vote.sync.ballot.b32 %r10, %p1, -1;" AT), false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "selp.b32 %r10, 1, 0, %p1;" AT), false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "mov.b32 %r10, 1; @%p1 mov.b32 %r10, 2;" AT), false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "mov.b32 %r10, 1; @%p1 bra E; mov.b32 %r10, 2; E:" AT), false, SITES(WRITE(D, P, 1)));
    check(
        ROW("256", ELECT "mov.b32 %r11, 0; @%p1 mov.b32 %r11, -1; add.cc.u32 %r12, %r11, 1; addc.u32 %r10, %r9, 0;" AT),
        false, SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "@%p1 st.shared.u32 [s], %r3; bar.sync 0; ld.shared.u32 %r10, [s];" AT), false,
          SITES(WRITE(D, P, 1)));
    check(ROW("256", ELECT "@%p1 st.shared.u32 [s], %r1; bar.sync 0; ld.shared.u32 %r10, [s];" AT), false,
          SITES(WRITE(P, P, 1)));
    check(ROW("256", ELECT "@%p1 ret; st.global.u32 [%rd7], %r9;"), false, SITES(WRITE(D, P, 1)));
    /* all that one lane does: a loop of its own, but not what it counted */
#define LOOP                                                                                                           \
    "mov.b32 %r10, 0;" ELECT "@!%p1 bra E; mov.b32 %r12, 0; L: mul.wide.u32 %rd20, %r12, 64; add.s64 %rd21, %rd3, "    \
    "%rd20; ld.global.u32 %r11, [%rd21]; add.u32 %r12, %r12, 1; setp.lt.u32 %p2, %r12, %r9; @%p2 bra L;"
    check(ROW("256", LOOP "E:"), false, SITES(READ(P, P, 0)));
    check(ROW("256", LOOP "mov.b32 %r10, %r12; E:" AT), false, SITES(READ(P, P, 0), WRITE(D, P, 1)));
#undef LOOP
#undef AT
}

/* Descriptors of wgmma name shared memory of the block, whatever they hold; what it gives is no number. */
static void warp_group_matrices(void **state)
{
#define MMA(d)                                                                                                         \
    "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, " d ", " d      \
    ", 0, 1, 1, 0, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    check(ROW("128", MMA("%rd3") "st.global.f32 [%rd7], %f1;"), false, SITES(WRITE(P, P, 1)));
    check(ROW("128", "ld.global.u64 %rd10, [%rd3];" MMA("%rd10") "st.global.f32 [%rd7], %f1;"), false,
          SITES(READ(P, P, 0), WRITE(P, P, 1)));
    check(ROW("128", MMA("%rd3") "cvt.rni.s32.f32 %r10, %f1; mul.wide.u32 %rd10, %r10, 4; add.s64 %rd11, %rd4, %rd10;"
                                 "st.global.u32 [%rd11], %r9;"),
          false, SITES(WRITE(D, P, 1)));
    /* shared memory beside it is what it was */
    check(ROW("128",
              "st.shared.u32 [s], %r1; bar.sync 0;" MMA(
                  "%rd3") "ld.shared.u32 %r10, [s]; bar.sync 0;"
                          "mul.wide.u32 %rd10, %r10, 4; add.s64 %rd11, %rd4, %rd10; st.global.u32 [%rd11], %r9;"),
          false, SITES(WRITE(P, P, 1)));
#undef MMA
}

/* A tensor map that lies in memory names any memory, whoever wrote it there: another launch, or the kernel itself. */
static void maps_in_memory(void **state)
{
#define COPY                                                                                                           \
    "mov.b32 %r20, s; cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], "            \
    "[%rd3, {%r1}], [%r20];"
    check(ROW("128", COPY), false, SITES(READ(D, P, -1)));
    check(ROW("128", COPY), true, SITES(READ(D, P, -1))); /* constant content is no map of this launch */
    check(ROW("128", "mov.b32 %r21, s; tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r21], %rd4;"
                     "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], "
                     "[%r21], 128;" COPY),
          false, SITES(WRITE(D, P, 0), READ(D, P, -1)));
#undef COPY
}

/* What an mbarrier orders, the pass does not know: of memory that only it orders, nothing is believed. */
static void mbarriers_order_nothing(void **state)
{
#define WAIT                                                                                                           \
    "mov.b32 %r20, bar; mbarrier.arrive.shared.b64 _, [%r20]; W: mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0; " \
    "@!%p3 bra W;"
#define LOADED                                                                                                         \
    "ld.shared.u32 %r10, [s]; mul.wide.u32 %rd10, %r10, 4; add.s64 %rd11, %rd4, %rd10; st.global.u32 [%rd11], %r9;"
#define SHARED_ROW(body)                                                                                               \
    HEAD ".shared .align 8 .b64 bar; .visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) .reqntid 128 "     \
         "{.shared .b32 s[64]; .reg .pred %p<9>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %rd<40>;" THREAD body   \
         "ret; }"
    check(SHARED_ROW("st.shared.u32 [s], %r1;" WAIT LOADED), false, SITES(WRITE(D, P, 1)));
    check(SHARED_ROW("st.shared.u32 [s], %r1;" WAIT "bar.sync 0;" LOADED), false, SITES(WRITE(P, P, 1)));
    /* one elected lane of each warp at a barrier, whoever is elected: no barrier of the block */
    check(SHARED_ROW("st.shared.u32 [s], %r1; elect.sync _|%p1, -1; @!%p1 bra E; barrier.sync 0; E:" LOADED), false,
          SITES(WRITE(D, P, 1)));
#undef SHARED_ROW
#undef LOADED
#undef WAIT
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(straight_code_is_proved),
        cmocka_unit_test(elected_lanes),
        cmocka_unit_test(doubtful_elections),
        cmocka_unit_test(warp_group_matrices),
        cmocka_unit_test(maps_in_memory),
        cmocka_unit_test(mbarriers_order_nothing),
        cmocka_unit_test(gathers),
        cmocka_unit_test(video),
        cmocka_unit_test(guards),
        cmocka_unit_test(merges),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(shared_memory_races),
        cmocka_unit_test(carry),
        cmocka_unit_test(calls_through_memory),
        cmocka_unit_test(wide_call_graph),
        cmocka_unit_test(open_results),
        cmocka_unit_test(atomics_of_callees),
        cmocka_unit_test(other_sources),
        cmocka_unit_test(calls),
        cmocka_unit_test(tables),
        cmocka_unit_test(provenance),
        cmocka_unit_test(pointer_bits),
        cmocka_unit_test(unknown_instructions),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
