/* Rounds of outer loops that are divided among blocks (rewrite/emit/rounds.c, rounds-shared.c): what a round that is
 * left out makes, and what refuses a loop. Each case breaks one thing of a kernel that goes over elements a grid apart.
 */
#include "rewrite-fixture.h"

#include "rewrite/emit/rounds.h"

#define BEGIN(e)                                                                                                       \
    ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n.reg .pred %p<6>;\n.reg .b32 %r<24>;\n"       \
    ".reg .b64 %rd<16>;\n.reg .f32 %f<9>;\n"                                                                           \
    "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\ncvta.to.global.u64 %rd1, %rd1;\n"                   \
    "cvta.to.global.u64 %rd2, %rd2;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r3, %tid.x;\n"
#define PLAIN(e) BEGIN(e) "ld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd2], %f1;\nret;\n}\n"
#define FIRST "mov.u32 %r5, %r1;\nmov.f32 %f3, 0f00000000;\nmov.u32 %r8, 7;\n"
#define HEAD_OF(l) l ": mad.lo.s32 %r6, %r5, 64, %r3;\nmul.wide.u32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd1, %rd3;\n"
#define LOAD "add.s64 %rd5, %rd2, %rd3;\nld.global.f32 %f1, [%rd4];\n"
#define STORE "st.global.f32 [%rd5], %f1;\n"
#define NEXT(l) "add.s32 %r5, %r5, 8;\nsetp.lt.s32 %p1, %r5, 64;\n@%p1 bra " l ";\n"
#define DONE "ret;\n}\n" PLAIN("c")
#define INNER                                                                                                          \
    "mov.u32 %r7, 0;\nI: add.rn.f32 %f1, %f1, %f1;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p2, %r7, 5;\n@%p2 bra I;\n"
#define ROUND(before, inside, end) HEAD BEGIN("p") before FIRST HEAD_OF("L") LOAD inside STORE end NEXT("L") DONE

static const struct fix_spec plain = {.gp = 8, .bp = 64, .gc = 8, .bc = 64, .hp = 256, .hc = 256};

static void open_one(struct fix *f, const char *ptx)
{
    struct fix_spec s = plain;
    struct dt_err e = {0};
    const uint32_t p = 0;
    s.ptx = ptx;
    fix_open(f, &s);
    assert_int_equal(rw_cand_open(&f->c, &f->dev, &f->prog, &f->ana, &f->opt, &p, 1, &e), 0);
}

/* What is kept of a round that is left out, or what refuses it. */
static void test_alone(void **state)
{
    static const struct {
        const char *ptx, *what;
        unsigned loops, kept;
    } cases[] = {
        {ROUND("", "", ""), NULL, 1, 2},
        {ROUND("", INNER, ""), NULL, 1, 2},
        /* what counts on is made, of whatever integers it is made; what a round makes for itself is not */
        {ROUND("", "mad.lo.s32 %r8, %r8, 5, %r5;\nand.b32 %r9, %r8, 3;\n", ""), NULL, 1, 3},
        {ROUND("", "@%p1 add.s32 %r8, %r8, 5;\n", "add.s32 %r10, %r8, 1;\n"), NULL, 1, 3},
        /* a value of the round that comes behind the loop; a load, a float, a lane's, of an inner loop, of a branch */
        {HEAD BEGIN("p") FIRST HEAD_OF("L") LOAD "add.s32 %r8, %r6, 1;\n" STORE NEXT("L") "mov.u32 %r9, %r8;\n" DONE,
         NULL, 1, 4},
        {ROUND("", "add.rn.f32 %f3, %f3, %f1;\nmov.f32 %f1, %f3;\n", ""), "takes", 1, 0},
        {ROUND("", "add.rn.f32 %f3, %f3, 0f3F800000;\nadd.rn.f32 %f1, %f1, %f3;\n", ""), "takes", 1, 0},
        {ROUND("", "cvt.rzi.s32.f32 %r9, %f1;\nadd.s32 %r5, %r5, %r9;\n", ""), "takes", 1, 0},
        {ROUND("", "shfl.sync.idx.b32 %r8, %r8, 0, 31, -1;\n", ""), "takes", 1, 0}, /* though nobody else does */
        {ROUND("", "shfl.sync.idx.b32 %r8, %r8, 0, 31, -1;\nadd.s32 %r5, %r5, %r8;\n", ""), "takes", 1, 0},
        {ROUND(
             "",
             "mov.u32 %r7, 0;\nI: add.s32 %r5, %r5, 1;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p2, %r7, 5;\n@%p2 bra I;\n",
             ""),
         "takes", 1, 0},
        {ROUND("", "setp.eq.s32 %p2, %r5, 9;\n@%p2 bra B;\nadd.s32 %r5, %r5, 1;\nB:\n", ""), "takes", 1, 0},
        /* a store outside, a way out or an end amid the round, another way to the next, two ways into it */
        {HEAD BEGIN("p") FIRST "st.global.f32 [%rd2], %f3;\n" HEAD_OF("L") LOAD STORE NEXT("L") DONE, "in no loop", 0,
         0},
        {HEAD BEGIN("p") FIRST HEAD_OF("L") LOAD "setp.eq.s32 %p2, %r5, 9;\n@%p2 bra E;\n" STORE NEXT("L") "E:\n" DONE,
         NULL, 1, 3}, /* out of the head it may */
        {HEAD BEGIN("p") FIRST HEAD_OF("L") LOAD INNER
         "setp.eq.s32 %p2, %r5, 9;\n@%p2 bra E;\n" STORE NEXT("L") "E:\n" DONE,
         "a way out", 0, 0},
        {ROUND("", "setp.eq.s32 %p2, %r5, 9;\n@%p2 ret;\n", ""), "an end", 0, 0},
        {ROUND("", "setp.eq.s32 %p2, %r5, 9;\n@!%p2 bra B;\nadd.s32 %r5, %r5, 8;\nbra L;\nB:\n", ""), "another way", 0,
         0},
        {HEAD BEGIN("p") FIRST
         "mov.f32 %f1, 0f00000000;\nmov.u64 %rd5, %rd2;\nsetp.eq.s32 %p2, %r1, 3;\n@%p2 bra M;\n" HEAD_OF("L") LOAD
         "M:\n" STORE NEXT("L") DONE,
         "two ways", 0, 0},
        {HEAD BEGIN("p") FIRST LOAD STORE DONE, "no loop", 0, 0},
        {ROUND(".local .align 4 .b8 d[16];\n", "", ""), "local memory", 1, 0},
        {ROUND("", "addc.u32 %r9, %r3, 1;\n", ""), "a carry", 1, 0},
        {ROUND("", "add.cc.u32 %r9, %r3, 1;\naddc.u32 %r10, %r3, 1;\n", ""), NULL, 1, 2},
        /* two loops with a barrier: threads that made other numbers of rounds in the first would part in the second */
        {HEAD BEGIN("p") FIRST HEAD_OF("L") LOAD STORE NEXT("L") "mov.u32 %r5, %r1;\n" HEAD_OF("K") LOAD
         "bar.sync 0;\n" STORE NEXT("K") DONE,
         "threads meet", 0, 0},
        /* two loops, one after the other; one in another: the outer one's rounds */
        {HEAD BEGIN("p") FIRST HEAD_OF("L") LOAD STORE NEXT("L") "mov.u32 %r5, %r1;\n" HEAD_OF("K") LOAD STORE NEXT("K")
             DONE,
         NULL, 2, 4},
        {HEAD BEGIN("p") FIRST "mov.u32 %r12, 0;\nO: mov.u32 %r5, %r1;\n" HEAD_OF("L")
             LOAD STORE NEXT("L") "add.s32 %r12, %r12, 1;\nsetp.lt.s32 %p3, %r12, 3;\n@%p3 bra O;\n" DONE,
         NULL, 1, 2},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct rw_rounds r;
        struct dt_err e = {0};
        unsigned kept = 0;
        open_one(&f, cases[k].ptx);
        const struct ptx_function *fn = f.c.facts.body[0].f;
        assert_int_equal(rw_rounds_of(&f.c.arena, fn, &r, &e), 0);
        for (uint32_t n = 0; n < fn->ninst; n++)
            kept += r.keep[n] && fn->inst[n].op != PTX_OP_BRA;
        if (cases[k].what ? !r.what || !strstr(r.what, cases[k].what)
                          : r.what || r.nloop != cases[k].loops || kept != cases[k].kept)
            fail_msg("case %zu: %u loops, %u kept, %s", k, r.nloop, kept, r.what ? r.what : "");
        if (!r.what)
            assert_true(rw_rounds_plausible(fn));
        rw_rounds_done(&r);
        fix_close(&f);
    }
}

#define BAR "bar.sync 0;\n"
#define SMEM ".shared .align 4 .b8 s[1024];\nmov.u32 %r14, s;\nmad.lo.s32 %r15, %r3, 4, %r14;\n"
#define PUT "st.shared.f32 [%r15], %f1;\n"
#define GET "mad.lo.s32 %r16, %r3, -4, %r14;\nld.shared.f32 %f1, [%r16+252];\n"

/* What rounds find in shared memory. */
static void test_shared(void **state)
{
    static const struct {
        const char *ptx, *why;
    } cases[] = {
        {ROUND(SMEM, PUT BAR GET BAR, ""), NULL},
        {ROUND(SMEM, PUT BAR GET, BAR), NULL},
        {ROUND(SMEM "st.shared.f32 [%r15+512], %f3;\n" BAR, "ld.shared.f32 %f4, [%r15+512];\n" PUT BAR GET BAR, ""),
         NULL},
        /* it loads before it stores, or where another round has stored; not all threads do; with no barrier between */
        {ROUND(SMEM, GET BAR PUT BAR, ""), "may load what an earlier round"},
        {ROUND(SMEM, PUT BAR "ld.shared.f32 %f1, [%r15+4];\n" BAR, ""), NULL},
        {ROUND(SMEM, PUT BAR "ld.shared.f32 %f1, [%r15+8];\n" BAR "st.shared.f32 [%r15+256], %f1;\n" BAR, ""),
         "may load what an earlier round"},
        {ROUND(SMEM, "setp.lt.u32 %p3, %r3, 32;\n@%p3 " PUT BAR GET BAR, ""), "may load what an earlier round"},
        {ROUND(SMEM, PUT GET BAR, ""), "may load what an earlier round"},
        /* places that go on from round to round, or that nobody knows */
        {ROUND(SMEM, "and.b32 %r17, %r5, 8;\nmad.lo.s32 %r15, %r17, 4, %r15;\n" PUT BAR GET BAR, ""), "not the same"},
        {ROUND(SMEM, "ld.global.u32 %r17, [%rd4];\nadd.s32 %r18, %r17, %r15;\nst.shared.f32 [%r18], %f1;\n" BAR GET BAR,
               ""),
         "not known"},
        {ROUND(SMEM, PUT BAR "ld.global.u32 %r17, [%rd4];\nadd.s32 %r18, %r17, %r15;\nld.shared.f32 %f1, [%r18];\n" BAR,
               ""),
         "not known"},
        {ROUND(SMEM, "atom.shared.add.f32 %f1, [%r14], %f1;\n" BAR, ""), "no plain store"},
        {ROUND(SMEM, PUT BAR "atom.shared.add.f32 %f1, [%r14], %f1;\n" BAR, ""), "not known"},
        /* a barrier behind the load in some rounds alone: others may come to the store before it */
        {ROUND(SMEM, PUT BAR GET, ""), "no barrier"},
        {ROUND(SMEM, PUT BAR GET, "setp.eq.s32 %p4, %r5, 8;\n@%p4 bra B;\n" BAR "B:\n"), "no barrier"},
        /* what is loaded behind the loop, or before it */
        {HEAD BEGIN("p") SMEM FIRST HEAD_OF("L") LOAD PUT BAR GET BAR STORE NEXT("L") GET "mov.f32 %f4, %f1;\n" DONE,
         "may load what an earlier round"},
        {HEAD BEGIN("p") SMEM FIRST "st.shared.f32 [%r15], %f3;\n" HEAD_OF("L") LOAD PUT BAR GET BAR STORE NEXT("L")
             DONE,
         "no barrier"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct rw_rounds r;
        struct rw_reach reach;
        struct dt_err e = {0};
        struct dt_str why = {0};
        open_one(&f, cases[k].ptx);
        const struct rw_body *b = &f.c.facts.body[0];
        assert_int_equal(rw_rounds_of(&f.c.arena, b->f, &r, &e), 0);
        assert_int_equal(rw_reach_of(&f.c.arena, b, true, &reach, &e), 0);
        bool good = rw_rounds_shared(b, &r, &reach, &why);
        if (r.what || good != !cases[k].why || (!good && !strstr(why.s, cases[k].why)))
            fail_msg("case %zu: %s%s", k, r.what ? r.what : "", why.s ? why.s : "good");
        dt_str_done(&why);
        rw_rounds_done(&r);
        fix_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
