/* Slice and tails (rewrite/kinds/slice.c, tails.c, parts.c): what a part of a kernel needs (rewrite/emit/reach.c,
 * faint.c, faint-threads.c, part-zero.c), the conditions that kernels are asked, and which launches have a tail. Each
 * case breaks one thing of a kernel with two accumulators, each with a tile in shared memory.
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

/* ---- by thread --------------------------------------------------------------------------------------------------- */

/* Two warps; each makes two products, the first by matrices 0 and 1 of the tile, which copy A brings, the second by 2
 * and 3, of copy B. They go out by way of the same memory: 32 threads each. */
#define MMA(d, b)                                                                                                      \
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%a" #d "0, %a" #d "1, %a" #d "2, %a" #d                      \
    "3}, {%r1, %r1, %r1, %r1}, {" b "}, {%a" #d "0, %a" #d "1, %a" #d "2, %a" #d "3};\n"
#define TILE                                                                                                           \
    HEAD BEGIN("p") ".shared .align 16 .b8 s[2048];\n.reg .f32 %a00, %a01, %a02, %a03, %a10, %a11, %a12, %a13;\n.reg " \
                    ".b32 %m<4>;\n.reg .b32 %v<4>;\n"                                                                  \
                    "mov.u32 %r5, s;\nshl.b32 %r4, %r3, 4;\nadd.s32 %r6, %r5, %r4;\nbfe.u32 %r8, %r3, 4, 1;\n"         \
                    "shl.b32 %r8, %r8, 10;\nand.b32 %r9, %r3, 31;\nshl.b32 %r9, %r9, 4;\nadd.s32 %r8, %r8, %r9;\n"     \
                    "add.s32 %r8, %r8, %r5;\nshl.b32 %r10, %r3, 3;\nadd.s32 %r10, %r10, %r5;\nmov.u32 %r7, 0;\n"       \
                    "setp.lt.u32 %p2, %r3, 32;\nmov.f32 %a00, 0f00000000;\nmov.f32 %a01, %a00;\nmov.f32 %a02, %a00;\n" \
                    "mov.f32 %a03, %a00;\nmov.f32 %a10, %a00;\nmov.f32 %a11, %a00;\nmov.f32 %a12, %a00;\n"             \
                    "mov.f32 %a13, %a00;\n"
#define ROUND(first, last)                                                                                             \
    "L: cp.async.cg.shared.global [%r6], [%rd1], 16;\ncp.async.cg.shared.global [%r6+1024], [%rd1], 16;\n"             \
    "cp.async.wait_all;\n" first                                                                                       \
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%m0, %m1, %m2, %m3}, [%r8];\n" MMA(0, "%m0, %m1") MMA(1, "%m2, %m3")    \
        last "add.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 4;\n@%p1 bra L;\n"
#define STAGE "st.shared.v2.f32 [%r10], {%a10, %a11};\nst.shared.v2.f32 [%r10+512], {%a00, %a01};\n"
#define OUT                                                                                                            \
    "ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%r6];\nst.global.v4.b32 [%rd2], {%v0, %v1, %v2, %v3};\nret;\n}\n" PLAIN(  \
        "c")
#define BAR "bar.sync 0;\n"
#define PACKED                                                                                                         \
    "mov.b32 %m0, %a10;\nmov.b32 %m1, %a11;\nmov.b32 %m2, %a00;\nmov.b32 %m3, %a01;\n"                                 \
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r11], {%m0, %m1, %m2, %m3};\n"
/* lanes 0 to 15 of a warp to its 256 bytes of the first 512, the others to those of the second */
#define PLACES                                                                                                         \
    "and.b32 %r11, %r3, 15;\nshl.b32 %r11, %r11, 4;\nbfe.s32 %r12, %r3, 4, 1;\nand.b32 %r12, %r12, 512;\n"             \
    "add.s32 %r11, %r11, %r12;\nand.b32 %r12, %r3, 32;\nshl.b32 %r12, %r12, 3;\nadd.s32 %r11, %r11, %r12;\n"           \
    "add.s32 %r11, %r11, %r5;\n"

/* What a part takes of a kernel, before it is looked for. */
struct taken {
    struct rw_reach r;
    struct rw_share part;
    uint8_t *mine; /* all its global stores */
};

static void share_open(struct fix *f, const char *ptx, uint32_t threads, struct taken *ret, struct dt_err *e)
{
    open_one(f, ptx, threads);
    const struct rw_body *b = &f->c.facts.body[0];
    size_t n = b->f->ninst, words = rw_thread_words(b);
    *ret = (struct taken){.mine = test_calloc(n, 1)};
    ret->part = (struct rw_share){.keep = test_calloc(n, 1),
                                  .only = test_calloc(n, sizeof *ret->part.only),
                                  .run = test_calloc(n, sizeof *ret->part.run),
                                  .reads = test_calloc(n * words, 8),
                                  .zero = test_calloc(RW_ZEROS, sizeof *ret->part.zero)};
    for (uint32_t i = 0; i < n; i++)
        ret->mine[i] = rw_is_part_store(&b->f->inst[i]);
    assert_int_equal(rw_reach_of(&f->c.arena, b, true, &ret->r, e), 0);
}

static void share_close(struct fix *f, struct taken *t)
{
    test_free(t->mine);
    test_free(t->part.keep);
    test_free(t->part.only);
    test_free(t->part.run);
    test_free(t->part.reads);
    test_free(t->part.zero);
    fix_close(f);
}

/* What the part needs whose threads have that value of bit 5: 0, the second product; 32, the first, whose tile lies
 * where the second is staged. */
static void test_by_thread(void **state)
{
    static const struct {
        const char *ptx;
        uint16_t value;
        unsigned mma, copies, stored;
    } cases[] = {
        {TILE ROUND(BAR, BAR) STAGE BAR OUT, 0, 1, 1, 1},
        {TILE ROUND(BAR, BAR) STAGE BAR OUT, 32, 1, 1, 1},
        {TILE ROUND(BAR, "") BAR STAGE BAR OUT, 32, 1, 1, 1},
        {TILE PLACES ROUND(BAR, BAR) PACKED BAR OUT, 0, 1, 1, 1},
        {TILE PLACES ROUND(BAR, BAR) PACKED BAR OUT, 32, 1, 1, 1},
        /* with no barrier behind the rounds, a thread may still load what another one stages */
        {TILE ROUND(BAR, "") STAGE BAR OUT, 32, 2, 2, 2},
        /* nor with one that leads back to them, or that some threads pass alone */
        {TILE ROUND(BAR, BAR) STAGE BAR "setp.eq.u32 %p3, %r1, 1;\n@%p3 bra L;\n" OUT, 32, 2, 2, 2},
        {TILE "@%p2 bra M;\nbar.sync 0;\nM:\n" ROUND(BAR, BAR) STAGE BAR OUT, 32, 2, 2, 2},
        /* and where threads leave the rounds apart from each other */
        {TILE ROUND(BAR, BAR "@%p2 bra N;\n") "N:\n" STAGE BAR OUT, 32, 2, 2, 2},
        /* what a thread loads may be what was copied: with no barrier before it, or where not all threads store */
        {TILE ROUND(BAR, BAR) STAGE OUT, 0, 1, 2, 1},
        {TILE ROUND(BAR, BAR) "@%p2 st.shared.v2.f32 [%r10], {%a10, %a11};\n"
                              "@!%p2 st.shared.v2.f32 [%r10], {%a12, %a13};\n" BAR OUT,
         0, 1, 2, 2},
        /* or where some threads go another way than others before the barrier */
        {TILE ROUND(BAR, BAR "@%p2 bra N;\nmov.u32 %r13, 1;\nN:\n") STAGE BAR OUT, 0, 1, 2, 1},
        /* a lane that is named by what a warp need not know has to be known */
        {TILE ROUND(BAR, "shfl.sync.idx.b32 %a10, %a10, %m0, 31, -1;\n" BAR) STAGE BAR OUT, 0, 1, 2, 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct taken t;
        struct dt_err e = {0};
        uint32_t store, load;
        share_open(&f, cases[k].ptx, 64, &t, &e);
        const struct rw_body *b = &f.c.facts.body[0];
        size_t n = b->f->ninst;
        assert_true(t.r.known && rw_faint_can(b));
        assert_int_equal(rw_faint_threads(b, &t.r, t.mine, (struct rw_threads){32, cases[k].value}, &t.part, &e), 0);
        unsigned mma = count(b->f, t.part.keep, PTX_OP_MMA, 0), copies = count(b->f, t.part.keep, PTX_OP_CP_ASYNC, 0),
                 stored =
                     count(b->f, t.part.keep, PTX_OP_ST, PTX_SHARED) + count(b->f, t.part.keep, PTX_OP_STMATRIX, 0);
        if (mma != cases[k].mma || copies != cases[k].copies || stored != cases[k].stored)
            fail_msg("case %zu: %u products, %u copies, %u stores to shared memory", k, mma, copies, stored);
        assert_int_equal(count(b->f, t.part.keep, PTX_OP_LDMATRIX, 0), 1);
        assert_true(rw_part_reach(b, &t.r, &t.part, &store, &load));
        assert_int_equal(rw_part_zero(b, &t.r, &t.part, &e), 0);
        if (k < 5) { /* the tile of the other product, which the other matrices of each ldmatrix are */
            assert_int_equal(t.part.nzero, 1);
            assert_int_equal(t.part.zero[0].at, cases[k].value ? 1280 : 0);
            assert_int_equal(t.part.zero[0].bytes, 256);
        }
        for (uint32_t i = 0; i < n; i++) {
            if (t.mine[i])
                assert_true(t.part.only[i].bits == 32 && t.part.only[i].value == cases[k].value);
            else if (k == 0 && b->f->inst[i].op == PTX_OP_CP_ASYNC && t.part.keep[i]) /* lanes 16 to 31, of one warp */
                assert_true(t.part.only[i].bits == 48 && t.part.only[i].value == 16);
        }
        for (uint32_t i = 0; i < n; i++) /* by the threads that do not need it */
            if (b->f->inst[i].op == PTX_OP_CP_ASYNC)
                t.part.only[i] = (struct rw_threads){63, 0};
        assert_false(rw_part_reach(b, &t.r, &t.part, &store, &load));
        share_close(&f, &t);
    }
}

/* What nobody writes any more is zeroed before the body: not where it is loaded, or written, before a barrier. */
static void test_zeros(void **state)
{
    static const struct {
        const char *ptx;
        int can;
    } cases[] = {
        {TILE ROUND(BAR, BAR) STAGE BAR OUT, 0},
        {TILE ROUND("bar.warp.sync -1;\n", BAR) STAGE BAR OUT, 1},
        {TILE "st.shared.u32 [s+2040], 0;\n" ROUND(BAR, BAR) STAGE BAR OUT, 0},
        {TILE "st.volatile.shared.u32 [s+4], 0;\n" ROUND(BAR, BAR) STAGE BAR OUT, 1},
        {TILE "st.f32 [%rd1], %a00;\n" ROUND(BAR, BAR) STAGE BAR OUT, 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct taken t;
        struct dt_err e = {0};
        share_open(&f, cases[k].ptx, 64, &t, &e);
        const struct rw_body *b = &f.c.facts.body[0];
        assert_int_equal(rw_faint_threads(b, &t.r, t.mine, (struct rw_threads){32, 0}, &t.part, &e), 0);
        if (rw_part_zero(b, &t.r, &t.part, &e) != cases[k].can)
            fail_msg("case %zu", k);
        share_close(&f, &t);
    }
}

/* Two warp groups, each with a product of its 64 lines of 128 bytes, which copies 0 and 1 bring, or 2 and 3, and of the
 * eight lines of copy 4. Their sums go out by way of the first 4096 bytes. */
#define GROUPS(place)                                                                                                  \
    ".version 8.0\n.target sm_90a\n.address_size 64\n" BEGIN(                                                          \
        "p") ".shared .align 1024 .b8 s[17408];\n.reg .f32 %a<4>;\n.reg .b32 %v<4>;\nmov.u32 %r5, s;\n"                \
             "shl.b32 %r4, %r3, 4;\nadd.s32 %r6, %r5, %r4;\nmov.u32 %r7, 0;\nsetp.lt.u32 %p2, %r3, 64;\n"              \
             "shr.u32 %r8, %r3, 5;\nmov.u32 %r14, 0;\n" place                                                          \
             "mov.f32 %a0, 0f00000000;\nmov.f32 %a1, %a0;\nmov.f32 %a2, %a0;\nmov.f32 %a3, %a0;\nmov.pred %p3, -1;\n"
#define PLACE_OF(shuffle)                                                                                              \
    shuffle "shl.b32 %r9, %r9, 7;\nand.b32 %r9, %r9, 512;\nshr.u32 %r10, %r5, 4;\nadd.s32 %r10, %r10, %r9;\n"          \
            "and.b32 %r10, %r10, 16383;\nadd.s32 %r11, %r5, 16384;\nbfe.u32 %r11, %r11, 4, 14;\n"                      \
            "cvt.u64.u32 %rd3, %r10;\nor.b64 %rd3, %rd3, 4611686293305294848;\ncvt.u64.u32 %rd4, %r11;\n"              \
            "or.b64 %rd4, %rd4, 4611686293305294848;\n"
#define FIRST "shfl.sync.idx.b32 %r9, %r8, 0, 31, -1;\n"
#define COPIES                                                                                                         \
    "L: cp.async.cg.shared.global [%r6], [%rd1], 16;\ncp.async.cg.shared.global [%r6+4096], [%rd1], 16;\n"             \
    "cp.async.cg.shared.global [%r6+8192], [%rd1], 16;\ncp.async.cg.shared.global [%r6+12288], [%rd1], 16;\n"          \
    "@%p2 cp.async.cg.shared.global [%r6+16384], [%rd1], 16;\ncp.async.wait_all;\nbar.sync 0;\n"
#define MULTIPLY                                                                                                       \
    "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%a0, %a1, %a2, %a3}, %rd3, %rd4, "  \
    "%p3, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n"
#define LANDS(n) "wgmma.wait_group.sync.aligned " #n ";\n"
#define AGAIN "bar.sync 0;\nadd.u32 %r7, %r7, 1;\nsetp.lt.u32 %p1, %r7, 4;\n@%p1 bra L;\n"
#define SUMS                                                                                                           \
    "st.shared.v4.f32 [%r6], {%a0, %a1, %a2, %a3};\nbar.sync 0;\nld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%r6];\n"      \
    "st.global.v4.b32 [%rd2], {%v0, %v1, %v2, %v3};\nret;\n}\n" PLAIN("c")

/* What the part of the threads needs whose number has that value of bit 7. */
static void test_groups(void **state)
{
    static const struct {
        const char *ptx;
        uint16_t value;
        unsigned copies, bits; /* of who makes the product */
    } cases[] = {
        {GROUPS(PLACE_OF(FIRST)) COPIES MULTIPLY LANDS(0) AGAIN SUMS, 0, 3, 128},
        {GROUPS(PLACE_OF(FIRST)) COPIES MULTIPLY LANDS(0) AGAIN SUMS, 128, 3, 128},
        {GROUPS(PLACE_OF(FIRST)) COPIES MULTIPLY LANDS(1) AGAIN LANDS(0) BAR SUMS, 0, 3, 128},
        {GROUPS(PLACE_OF("shfl.sync.idx.b32 %r9|%p2, %r8, %r14, 31, -1;\nsetp.lt.u32 %p2, %r3, 64;\n"))
             COPIES MULTIPLY LANDS(0) AGAIN SUMS,
         0, 3, 128},
        /* a product may be reading where the other group's sums go: the last is over behind the barrier, or never */
        {GROUPS(PLACE_OF(FIRST)) COPIES MULTIPLY LANDS(1) AGAIN LANDS(0) SUMS, 0, 5, 0},
        {GROUPS(PLACE_OF(FIRST)) COPIES MULTIPLY LANDS(1) AGAIN LANDS(1) BAR SUMS, 0, 5, 0},
        {GROUPS(PLACE_OF(FIRST)) COPIES MULTIPLY "@%p3 " LANDS(0) AGAIN SUMS, 0, 5, 0},
        /* another lane's number; some lanes of it; a place that data decides; lines of another base; all of that is not
         * known, and so nothing is of what it reads */
        {GROUPS(PLACE_OF("shfl.sync.idx.b32 %r9, %r8, 1, 31, -1;\n")) COPIES MULTIPLY LANDS(0) AGAIN SUMS, 0, 5, 0},
        {GROUPS(PLACE_OF("shfl.sync.idx.b32 %r9, %r8, 0, 7183, -1;\n")) COPIES MULTIPLY LANDS(0) AGAIN SUMS, 0, 5, 0},
        {GROUPS(PLACE_OF("ld.global.u32 %r9, [%rd1];\n")) COPIES MULTIPLY LANDS(0) AGAIN SUMS, 0, 5, 0},
        {GROUPS(PLACE_OF(FIRST) "or.b64 %rd3, %rd3, 562949953421312;\n") COPIES MULTIPLY LANDS(0) AGAIN SUMS, 0, 5, 0},
        {GROUPS(PLACE_OF(FIRST) "add.s64 %rd3, %rd3, 4096;\n") COPIES MULTIPLY LANDS(0) AGAIN SUMS, 0, 5, 0},
        /* a place that goes on from round to round; the second: both groups' lines */
        {GROUPS(PLACE_OF(FIRST)) COPIES MULTIPLY LANDS(0) "xor.b64 %rd3, %rd3, 512;\n" AGAIN SUMS, 0, 5, 0},
        {GROUPS(PLACE_OF("mov.u32 %r9, 0;\n") "mov.b64 %rd5, %rd3;\n")
             COPIES MULTIPLY LANDS(0) "and.b32 %r9, %r7, 1;\nshl.b32 %r9, %r9, 9;\ncvt.u64.u32 %rd3, %r9;\n"
                                      "add.s64 %rd3, %rd3, %rd5;\n" AGAIN SUMS,
         0, 5, 128},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct taken t;
        struct dt_err e = {0};
        uint32_t store, load;
        unsigned runs = 0;
        share_open(&f, cases[k].ptx, 256, &t, &e);
        const struct rw_body *b = &f.c.facts.body[0];
        assert_true(t.r.known && rw_faint_can(b));
        assert_int_equal(rw_faint_threads(b, &t.r, t.mine, (struct rw_threads){128, cases[k].value}, &t.part, &e), 0);
        unsigned copies = count(b->f, t.part.keep, PTX_OP_CP_ASYNC, 0);
        for (uint32_t n = 0; n < b->f->ninst; n++) {
            struct rw_threads who = t.part.only[n];
            bool waits = b->f->inst[n].op == PTX_OP_WGMMA_FENCE || b->f->inst[n].op == PTX_OP_WGMMA_COMMIT;
            if ((rw_is_group_product(&b->f->inst[n]) || waits) &&
                (who.bits != cases[k].bits || (who.bits && who.value != cases[k].value)))
                fail_msg("case %zu: line %u by threads with %u in %u", k, b->f->inst[n].line, who.value, who.bits);
            runs += t.part.run[n] != 0;
        }
        if (copies != cases[k].copies || runs != (cases[k].bits != 0))
            fail_msg("case %zu: %u copies, %u runs", k, copies, runs);
        assert_int_equal(count(b->f, t.part.keep, PTX_OP_WGMMA_MMA_ASYNC, 0), 1);
        assert_true(rw_part_reach(b, &t.r, &t.part, &store, &load));
        for (uint32_t n = 0; n < b->f->ninst; n++) /* without copies it is not right */
            t.part.keep[n] = t.part.keep[n] && b->f->inst[n].op != PTX_OP_CP_ASYNC;
        assert_false(rw_part_reach(b, &t.r, &t.part, &store, &load));
        share_close(&f, &t);
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
        cmocka_unit_test(test_needs),     cmocka_unit_test(test_rounds),        cmocka_unit_test(test_many_rounds),
        cmocka_unit_test(test_groups),    cmocka_unit_test(test_plain_effects), cmocka_unit_test(test_tails),
        cmocka_unit_test(test_residency), cmocka_unit_test(test_by_thread),     cmocka_unit_test(test_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
