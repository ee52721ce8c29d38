/* Pack (rewrite/kinds/pack.c, rewrite/emit/pack.c): the conditions that kernels are asked, and what becomes of barriers
 * and shared memory.
 */
#include "rewrite-fixture.h"

#include "rewrite/emit/emit.h"

#include "base/subject.h"

#define BEGIN(e)                                                                                                       \
    ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<16>;\n"       \
    ".reg .b64 %rd<16>;\n.reg .f32 %f<9>;\n"                                                                           \
    "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\ncvta.to.global.u64 %rd1, %rd1;\n"                   \
    "cvta.to.global.u64 %rd2, %rd2;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r3, %tid.x;\n"
#define PLAIN(e) BEGIN(e) "ld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd2], %f1;\nret;\n}\n"
#define WITH(text)                                                                                                     \
    HEAD BEGIN("p") ".shared .align 8 .b8 s[36];\n" text                                                               \
                    "ld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd2], %f1;\nret;\n}\n" PLAIN("c")
#define BAR(n) "bar.sync " #n ";\n"

static const struct fix_spec plain = {.gp = 7, .bp = 64, .gc = 8, .bc = 64, .hp = 256, .hc = 256};

/* A candidate of `pack` blocks in one. */
static void open_pack(struct fix *f, const char *ptx, uint32_t threads, uint32_t pack)
{
    struct fix_spec s = plain;
    struct dt_err e = {0};
    const uint32_t p = 0;
    s.ptx = ptx;
    s.bp = threads;
    fix_open(f, &s);
    assert_int_equal(rw_cand_open(&f->c, &f->dev, &f->prog, &f->ana, &f->opt, &p, 1, &e), 0);
    f->c.pack = pack;
    f->c.lists.n = (7 + pack - 1) / pack;
    f->c.lists.list[0] = (struct rw_list){.affine = true, .b = pack, .c = 1, .m = pack, .max = pack};
}

static void test_rows(void **state)
{
    static const struct rw_legal warps[] = {RW_LEGAL_ROW(whole_warps)}, barriers[] = {RW_LEGAL_ROW(subblock_barriers)},
                                 memory[] = {RW_LEGAL_ROW(subblock_memory)},
                                 numbers[] = {RW_LEGAL_ROW(barrier_numbers)};
    static const struct {
        const char *ptx;
        uint32_t threads, pack;
        const struct rw_legal *of;
        const char *want;
    } cases[] = {
        {WITH(""), 64, 4, warps, NULL},
        {WITH(""), 48, 4, warps, "whole-warps: 'p' has 48 threads"},
        {WITH(BAR(0) BAR(1) BAR(2) BAR(3)), 64, 4, barriers, NULL},
        {WITH(BAR(0) BAR(1) BAR(2) BAR(3) BAR(9)), 64, 4, barriers,
         "subblock-barriers: 4 blocks of 'p' with 5 barriers each: a block has 16"},
        /* of a warp they are barriers of the warp, but for those that count */
        {WITH(BAR(0) BAR(1) BAR(2) BAR(3) BAR(9)), 32, 4, barriers, NULL},
        {WITH("setp.eq.u32 %p1, %r3, 0;\nbar.red.popc.u32 %r5, 0, %p1;\n"), 32, 16, barriers, NULL},
        {WITH("setp.eq.u32 %p1, %r3, 0;\nbar.red.popc.u32 %r5, 0, %p1;\nbar.red.popc.u32 %r5, 1, %p1;\n"), 32, 16,
         barriers, "subblock-barriers: 16 blocks"},
        {WITH("mov.u32 %r4, 2;\nbar.sync %r4;\n"), 64, 2, numbers, "barrier-numbers: "},
        {WITH("mov.u32 %r4, s;\nmov.u64 %rd4, s;\ncvta.shared.u64 %rd5, s;\nadd.s32 %r5, %r4, s;\n"
              "ld.shared.f32 %f2, [s+8];\nst.shared.f32 [s], %f2;\n"),
         64, 2, memory, NULL},
        {WITH("mov.b64 %rd4, {s, 0};\n"), 64, 2, memory, "subblock-memory: 'p', PTX line"},
        {WITH("xor.b32 %r4, %r3, s;\n"), 64, 2, memory, "subblock-memory: 'p', PTX line"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct dt_str why = {0};
        const char *want = cases[k].want;
        open_pack(&f, cases[k].ptx, cases[k].threads, cases[k].pack);
        bool ok = rw_legal_rows(cases[k].of, 1, &f.c, &why);
        if (ok ? want != NULL : !want || strncmp(dt_plain(why.s), want, strlen(want)))
            fail_msg("case %zu: wanted '%s', got '%s'", k, want ? want : "", ok ? "" : dt_plain(why.s));
        dt_str_done(&why);
        fix_close(&f);
    }
}

/* What the text has, and what it has not. */
static void test_text(void **state)
{
    static const struct {
        const char *ptx;
        uint32_t threads, pack;
        const char *has[4], *lacks[3];
    } cases[] = {
        /* three packs of two and one block: the last one's second subblock leaves */
        {WITH(BAR(0) "ld.shared.f32 %f2, [s+8];\n" BAR(5)),
         64,
         2,
         {".maxntid 128, 1, 1", "_smem[96]", ", 2, 1;\n", ", 7;\n"},
         {"bar.sync", "barrier.sync 0"}},
        {WITH(BAR(0) BAR(0)), 32, 8, {".maxntid 256, 1, 1", "bar.warp.sync"}, {"bar.sync", "barrier.sync"}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct dt_str why = {0};
        struct dt_err e = {0};
        open_pack(&f, cases[k].ptx, cases[k].threads, cases[k].pack);
        assert_true(rw_layout(&f.c, &why));
        assert_int_equal(f.c.threads, cases[k].threads * cases[k].pack);
        rw_name_entry(&f.c);
        assert_int_equal(rw_join(&f.c, &e), 0);
        for (size_t i = 0; i < 4 && cases[k].has[i]; i++)
            if (!strstr(f.c.made.ptx.s, cases[k].has[i]))
                fail_msg("case %zu lacks '%s':\n%s", k, cases[k].has[i], f.c.made.ptx.s);
        for (size_t i = 0; i < 3 && cases[k].lacks[i]; i++)
            if (strstr(f.c.made.ptx.s, cases[k].lacks[i]))
                fail_msg("case %zu has '%s':\n%s", k, cases[k].lacks[i], f.c.made.ptx.s);
        dt_str_done(&why);
        fix_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
