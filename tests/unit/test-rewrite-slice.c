/* Slice and tails (rewrite/kinds/slice.c, tails.c, parts.c): what a part of a kernel needs (rewrite/emit/reach.c,
 * faint.c), the conditions that kernels are asked, and which launches have a tail. Each case breaks one thing of a
 * kernel with two accumulators, each with a tile in shared memory.
 */
#include "rewrite-fixture.h"

#include "rewrite/emit/part.h"
#include "rewrite/kinds/kinds-priv.h"
#include "rewrite/kinds/parts.h"

#include "base/subject.h"

#define BEGIN(e)                                                                                                       \
    ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<16>;\n"       \
    ".reg .b64 %rd<16>;\n.reg .f32 %f<9>;\n"                                                                           \
    "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\ncvta.to.global.u64 %rd1, %rd1;\n"                   \
    "cvta.to.global.u64 %rd2, %rd2;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r3, %tid.x;\n"
#define PLAIN(e) BEGIN(e) "ld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd2], %f1;\nret;\n}\n"
#define TILES                                                                                                          \
    ".shared .align 4 .b8 s[512];\nshl.b32 %r4, %r3, 2;\nmov.u32 %r5, s;\nadd.s32 %r6, %r5, %r4;\nmov.u32 %r8, %r6;\n" \
    "mov.f32 %f1, 0f00000000;\nmov.f32 %f2, %f1;\nmov.u32 %r7, 0;\n"
#define LOOP                                                                                                           \
    "L: ld.global.f32 %f3, [%rd1];\nld.global.f32 %f4, [%rd1+4];\nst.shared.f32 [%r8], %f3;\n"                         \
    "st.shared.f32 [%r6+256], %f4;\nbar.sync 0;\nld.shared.f32 %f5, [%r6];\nfma.rn.f32 %f1, %f5, %f5, %f1;\n"
#define SECOND "ld.shared.f32 %f6, [%r6+256];\n"
#define REST                                                                                                           \
    "fma.rn.f32 %f2, %f6, %f6, %f2;\nbar.sync 0;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 4;\n@%p1 bra L;\n"       \
    "st.global.f32 [%rd2], %f1;\nst.global.f32 [%rd2+4096], %f2;\nret;\n}\n"
#define TWO(before, second) HEAD BEGIN("p") TILES before LOOP second REST PLAIN("c")

static const struct fix_spec plain = {.gp = 8, .bp = 64, .gc = 8, .bc = 64, .hp = 256, .hc = 256};

static unsigned count(const struct ptx_function *f, const uint8_t *keep, unsigned op, unsigned space)
{
    unsigned n = 0;
    for (uint32_t k = 0; k < f->ninst; k++)
        n += keep[k] && f->inst[k].op == op && (!space || f->inst[k].space == space);
    return n;
}

static void open_one(struct fix *f, const char *ptx, uint32_t threads)
{
    struct fix_spec s = plain;
    struct dt_err e = {0};
    const uint32_t p = 0;
    s.ptx = ptx;
    s.bp = threads;
    fix_open(f, &s);
    assert_int_equal(rw_cand_open(&f->c, &f->dev, &f->prog, &f->ana, &f->opt, &p, 1, &e), 0);
}

/* What the part with the second store needs. */
static void test_needs(void **state)
{
    static const struct {
        const char *ptx;
        unsigned stored, loaded, fma; /* stores to shared memory, loads of global memory, sums */
    } cases[] = {
        {TWO("", SECOND), 1, 1, 1},
        /* where the first tile goes depends on data, or on the block's number: it may be where the second is */
        {TWO("ld.global.u32 %r9, [%rd1];\nadd.s32 %r8, %r8, %r9;\n", SECOND), 2, 3, 1},
        {TWO("and.b32 %r9, %r1, 1;\nadd.s32 %r8, %r8, %r9;\n", SECOND), 2, 2, 1},
        /* a branch by the block's number: over what does not matter; over what changes the place */
        {TWO("setp.eq.u32 %p2, %r1, 0;\n@%p2 bra M;\nst.shared.f32 [%r6], %f1;\nM:\n", SECOND), 1, 1, 1},
        {TWO("setp.eq.u32 %p2, %r1, 0;\n@%p2 bra M;\nxor.b32 %r8, %r8, 4;\nM:\n", SECOND), 2, 2, 1},
        {TWO("setp.eq.u32 %p2, %r1, 0;\n@%p2 add.s32 %r8, %r8, 256;\n", SECOND), 2, 2, 1},
        /* a load that reaches into the first tile, at one thread; at all by a place that is not known */
        {TWO("", "ld.shared.f32 %f6, [%r6+252];\n"), 2, 2, 1},
        {TWO("", "ld.shared.f32 %f6, [%r6+256];\nld.f32 %f6, [%rd1];\n"), 2, 2, 1},
        /* an atomic is done whoever needs it, and reads */
        {TWO("", SECOND "atom.shared.add.u32 %r10, [%r6+256], 1;\n"), 2, 2, 1},
        /* a way out of the loop that the walk cannot count: all rounds touch the same */
        {TWO("", SECOND "ld.global.u32 %r11, [%rd1];\nsetp.ne.u32 %p3, %r11, 7;\n@%p3 bra L;\n"), 1, 2, 1},
        /* but where a place goes on from round to round, nothing is known */
        {TWO("", SECOND "xor.b32 %r8, %r8, 4;\nadd.s32 %r6, %r6, %r7;\nld.global.u32 %r11, [%rd1];\n"
                        "setp.ne.u32 %p3, %r11, 7;\n@%p3 bra L;\n"),
         2, 3, 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct rw_reach r;
        struct dt_err e = {0};
        uint32_t load, store, second = 0;
        open_one(&f, cases[k].ptx, 64);
        const struct rw_body *b = &f.c.facts.body[0];
        uint8_t *mine = test_calloc(b->f->ninst, 1), *keep = test_calloc(b->f->ninst, 1);
        const struct rw_share part = {.keep = keep};
        assert_int_equal(rw_reach_of(&f.c.arena, b, false, &r, &e), 0);
        for (uint32_t n = 0; n < b->f->ninst; n++)
            if (rw_is_part_store(&b->f->inst[n]))
                second = n;
        mine[second] = 1;
        assert_int_equal(rw_faint(b, &r, mine, keep, &e), 0);
        if (count(b->f, keep, PTX_OP_ST, PTX_SHARED) != cases[k].stored ||
            count(b->f, keep, PTX_OP_LD, PTX_GLOBAL) != cases[k].loaded ||
            count(b->f, keep, PTX_OP_FMA, 0) != cases[k].fma)
            fail_msg("case %zu: %u stores to shared memory, %u loads, %u sums", k,
                     count(b->f, keep, PTX_OP_ST, PTX_SHARED), count(b->f, keep, PTX_OP_LD, PTX_GLOBAL),
                     count(b->f, keep, PTX_OP_FMA, 0));
        assert_int_equal(count(b->f, keep, PTX_OP_ST, PTX_GLOBAL), 1);
        assert_int_equal(count(b->f, keep, PTX_OP_BAR_SYNC, 0), 2);
        assert_true(rw_part_reach(b, &r, &part, &store, &load));
        for (uint32_t n = 0; n < b->f->ninst; n++) /* without what it stores for itself it is not right */
            keep[n] = keep[n] && !(b->f->inst[n].op == PTX_OP_ST && b->f->inst[n].space == PTX_SHARED);
        assert_false(rw_part_reach(b, &r, &part, &store, &load));
        test_free(mine);
        test_free(keep);
        fix_close(&f);
    }
}

/* Rounds of a loop are walked: the addresses of a column that a thread goes down. */
static void test_rounds(void **state)
{
    static const char ptx[] =
        HEAD BEGIN("p") ".shared .align 4 .b8 s[512];\nshl.b32 %r4, %r3, 2;\nmov.u32 %r5, s;\nadd.s32 %r6, %r5, %r4;\n"
                        "mov.u32 %r7, 0;\nmov.f32 %f1, 0f00000000;\n"
                        "L: ld.shared.f32 %f2, [%r6];\nadd.rn.f32 %f1, %f1, %f2;\nadd.s32 %r6, %r6, 128;\n"
                        "add.u32 %r7, %r7, 1;\nsetp.ne.u32 %p1, %r7, 3;\n@%p1 bra L;\n"
                        "st.global.f32 [%rd2], %f1;\nret;\n}\n" PLAIN("c");
    struct fix f;
    struct rw_reach r;
    struct dt_err e = {0};
    open_one(&f, ptx, 32);
    const struct rw_body *b = &f.c.facts.body[0];
    assert_int_equal(rw_reach_of(&f.c.arena, b, false, &r, &e), 0);
    assert_true(r.known);
    for (uint32_t n = 0; n < b->f->ninst; n++)
        for (uint32_t k = 0; b->f->inst[n].op == PTX_OP_LD && b->f->inst[n].space == PTX_SHARED && k < 512; k++)
            assert_int_equal(r.touched[n][k / 8] >> (k % 8) & 1, k < 3 * 128);
    fix_close(&f);
}

/* Loops of very many rounds: what they touch is known if their rounds touch the same, in turns too, and by whatever way
 * a round goes. What changes in one round alone is found in it. */
static void test_many_rounds(void **state)
{
#define MANY(n, inner)                                                                                                 \
    HEAD BEGIN("p") ".shared .align 4 .b8 s[512];\nshl.b32 %r4, %r3, 2;\nmov.u32 %r5, s;\nadd.s32 %r6, %r5, %r4;\n"    \
                    "mov.u32 %r7, 0;\nmov.u32 %r8, 0;\n"                                                               \
                    "L: add.s32 %r9, %r6, %r8;\nld.shared.f32 %f2, [%r9];\n" inner                                     \
                    "add.u32 %r7, %r7, 1;\nsetp.ne.u32 %p1, %r7, " #n ";\n@%p1 bra L;\n"                               \
                    "st.global.f32 [%rd2], %f2;\nst.global.f32 [%rd2+4096], %f2;\nret;\n}\n" PLAIN("c")
    static const struct {
        const char *ptx;
        unsigned known, touched; /* bytes */
    } cases[] = {
        {MANY(100000000, ""), 1, 128},
        {MANY(100000000, "xor.b32 %r8, %r8, 128;\n"), 1, 256},
        {MANY(100000000, "setp.eq.u32 %p2, %r7, 5;\n@%p2 bra M;\nmov.f32 %f2, %f2;\nM:\n"), 1, 128},
        {MANY(1000, "setp.eq.u32 %p2, %r7, 5;\n@!%p2 bra M;\nadd.s32 %r8, %r8, 256;\nM:\n"), 1, 256},
        {MANY(1000, "setp.ne.u32 %p2, %r7, 500;\n@%p2 bra M;\nmov.u32 %r8, 384;\nM:\n"), 1, 256},
        {MANY(100000000, "setp.eq.u32 %p2, %r7, 5;\n@!%p2 bra M;\nadd.s32 %r8, %r8, 256;\nM:\n"), 0, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fix f;
        struct rw_reach r;
        struct dt_err e = {0};
        unsigned touched = 0;
        open_one(&f, cases[c].ptx, 32);
        const struct rw_body *b = &f.c.facts.body[0];
        assert_int_equal(rw_reach_of(&f.c.arena, b, false, &r, &e), 0);
        for (uint32_t n = 0; n < b->f->ninst; n++)
            for (uint32_t k = 0; b->f->inst[n].op == PTX_OP_LD && b->f->inst[n].space == PTX_SHARED && k < 512; k++)
                touched += r.touched[n][k / 8] >> (k % 8) & 1;
        if (r.known != cases[c].known || (r.known && touched != cases[c].touched))
            fail_msg("case %zu: known %d, %u bytes", c, r.known, touched);
        fix_close(&f);
    }
}

static void row(const char *ptx, uint32_t threads, const struct rw_legal *of, const char *want)
{
    struct fix f;
    struct dt_str why = {0};
    open_one(&f, ptx, threads);
    bool ok = rw_legal_rows(of, 1, &f.c, &why);
    if (ok ? want != NULL : !want || strncmp(dt_plain(why.s), want, strlen(want)))
        fail_msg("wanted '%s', got '%s'", want ? want : "", ok ? "" : dt_plain(why.s));
    dt_str_done(&why);
    fix_close(&f);
}

#define WITH(text)                                                                                                     \
    HEAD BEGIN("p") text "ld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd2], %f1;\nst.global.f32 [%rd2+4096], %f1;\n"   \
                         "ret;\n}\n" PLAIN("c")

static void test_plain_effects(void **state)
{
    static const struct rw_legal of[] = {RW_LEGAL_ROW(plain_effects)};
    row(WITH(""), 64, of, NULL);
    row(WITH("red.global.add.u32 [%rd1], 1;\n"), 64, of, "plain-effects: 'p', PTX line");
    row(WITH("atom.add.u32 %r5, [%rd1], 1;\n"), 64, of, "plain-effects: 'p', PTX line");
    row(WITH(".shared .b32 n;\natom.shared.add.u32 %r5, [n], 1;\n"), 64, of, NULL);
}

/* ---- tails ------------------------------------------------------------------------------------------------------- */

/* Which blocks stay whole, by what an SM holds, of 132 SMs: as proposed or not. */
static void test_tails(void **state)
{
    static const struct {
        uint32_t blocks, per_sm;
        bool proposed;
    } cases[] = {
        {152, 1, true},          {152, 2, true},
        {132, 1, false},         {131, 1, false},
        {264, 1, false},         {396, 2, true},            /* whole rounds, and a wave and a half */
        {132 + 110, 1, true},    {132 + 131, 1, false},     /* nearly full; not so in halves, and so there, too */
        {152, 8, true},                                     /* less than a wave of small blocks: 20 SMs have two */
        {80, 1, true},           {33, 2, false},            /* 160 halves; 132 quarters: no tail of either */
        {44, 1, true},           {8, 1, false},             /* 176 quarters; too few */
        {132 * 8 + 20, 8, true}, {132 * 12 + 20, 1, false}, /* a tail of little */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct dt_err e = {0};
        struct rw_proposals got = {0};
        open_one(&f, TWO("", SECOND), 64);
        struct rw_state s = {.graph = f.g, .prog = &f.prog, .ana = &f.ana};
        for (uint32_t l = 0; l < f.g->nlaunch; l++) {
            f.prog.step[l].blocks = l ? 132 : cases[k].blocks;
            f.prog.step[l].blocks_per_sm = cases[k].per_sm;
            f.prog.step[l].wave = 132 * cases[k].per_sm;
        }
        assert_int_equal(rw_tails.propose(&s, &f.opt, &got, &e), 0);
        if (got.v.n != (cases[k].proposed ? 1 : 0))
            fail_msg("case %zu: %zu proposals", k, got.v.n);
        free(got.v.p);
        dt_arena_done(&got.arena);
        fix_close(&f);
    }
}

/* Fewer blocks on an SM than before: refused, whatever the model would say of it. */
static void test_residency(void **state)
{
    struct fix f;
    struct dt_str why = {0};
    uint32_t from[] = {UINT32_MAX, 1}, launch[] = {0};
    open_one(&f, TWO("", SECOND), 64);
    struct dev_step two[2] = {f.prog.step[0], f.prog.step[1]};
    struct dev_prog prog = f.prog;
    prog.step = two;
    struct rw_state now = {.graph = f.g, .prog = &f.prog, .ana = &f.ana},
                    next = {.graph = f.g, .prog = &prog, .ana = &f.ana, .from = from};
    struct rw_parts m = {.all.resident = 2}; /* whole blocks that an SM is to hold */
    struct rw_edit x = {.now = &now, .launch = launch, .nlaunch = 1, .mine = &m};
    two[0].blocks_per_sm = 2;
    two[1].blocks_per_sm = 1; /* one that was there */
    assert_true(rw_tails.made_well(&x, &next, &why));
    two[0].blocks_per_sm = 1;
    assert_false(rw_tails.made_well(&x, &next, &why));
    assert_string_equal(dt_plain(why.s), "residency: an SM holds 1 blocks of 'p', and had 2 whole ones");
    m.all.resident = 1;
    assert_true(rw_tails.made_well(&x, &next, &why));
    dt_str_done(&why);
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_needs),         cmocka_unit_test(test_rounds), cmocka_unit_test(test_many_rounds),
        cmocka_unit_test(test_plain_effects), cmocka_unit_test(test_tails),  cmocka_unit_test(test_residency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
