/* Conditions on asynchronous work beside other blocks, and on tensor maps among the parameters: broken on purpose, as
 * in test-rewrite-legal.c, which has the rows that every pair is asked.
 */
#include "rewrite-fixture.h"

#include "rewrite/emit/emit-priv.h"
#include "rewrite/facts/legal.h"

#include "base/subject.h"

#define PARAMS(e) ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n" REGS
#define REGS ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n.reg .b16 %h<4>;\n"
#define START(e)                                                                                                       \
    "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\ncvta.to.global.u64 %rd1, %rd1;\n"                   \
    "cvta.to.global.u64 %rd2, %rd2;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"            \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %rd3, %r4, 4;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, "      \
    "%rd3;\n"
#define END "ld.global.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, 0f3F800000;\nst.global.f32 [%rd2], %f2;\nret;\n}\n"
#define PLAIN(e) PARAMS(e) START(e) END

static const struct fix_spec plain = {
    .ptx = HEAD PLAIN("p") PLAIN("c"), .gp = 8, .bp = 128, .gc = 8, .bc = 128, .hp = 512, .hc = 512};

/* Beside other blocks, a block's own asynchronous work is as it was; not what concerns more than the block. */
static void test_beside_async(void **state)
{
    static const struct rw_legal row[] = {RW_LEGAL_ROW(beside_async)};
    static const struct {
        const char *text;
        bool ok;
    } cases[] = {
        {"mbarrier.init.shared.b64 [bar], 128;\nfence.proxy.async;\n", true},
        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bar], [%rd1], 16, [bar];\n", true},
        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [bar], [%rd1], 16, "
         "[bar], %h1;\n",
         false},
        {"griddepcontrol.wait;\n", false},
        {"griddepcontrol.launch_dependents;\n", false},
        {"setmaxnreg.inc.sync.aligned.u32 232;\n", false},
        {"tensormap.replace.tile.rank.shared::cta.b1024.b32 [bar], 1;\n", false},
        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r5], %r1, [%r6];\n", false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct fix_spec s = plain;
        struct dt_str why = {0}, other = {0}, text = {0};
        dt_str_addf(&text, "%s%s%s%s", HEAD PARAMS("p") ".shared .align 128 .b64 bar[16];\n" START("p"), cases[k].text,
                    END, PLAIN("c"));
        s.ptx = text.s;
        fix_open(&f, &s);
        fix_cand(&f);
        if (rw_legal_rows(row, 1, &f.c, &why) != cases[k].ok)
            fail_msg("case %zu: %s", k, dt_plain(why.s));
        if (rw_legal_async(&f.c.facts, &other)) /* behind others it is another matter */
            fail_msg("case %zu: async did not refuse", k);
        dt_str_done(&other);
        dt_str_done(&why);
        dt_str_done(&text);
        fix_close(&f);
    }
}

/* A tensor map's address is in registers, for copies of tensors; nothing else may be made of it. */
static void test_tensor_maps(void **state)
{
    static const struct {
        const char *use;
        bool ok;
    } cases[] = {
        {"", true},
        {"prefetch.param.tensormap [%rd5];\n", true},
        {"add.s64 %rd6, %rd5, 64;\n", false},
        {"cvt.u32.u64 %r5, %rd5;\nadd.u32 %r6, %r5, 1;\n", false},
        {"ld.u32 %r5, [%rd5];\n", false},
        {"st.global.u64 [%rd2], %rd5;\n", false},
        {"setp.eq.u64 %p1, %rd5, 0;\n", false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int map = 0; map < 2; map++) {
            struct fix f;
            struct fix_spec s = plain;
            struct dt_str why = {0}, text = {0};
            dt_str_addf(&text, "%s%s%s%s",
                        HEAD PARAMS("p") "ld.param.u64 %rd1, [p_1];\nmov.u64 %rd2, %rd1;\n"
                                         "mov.b64 %rd4, p_0;\ncvta.param.u64 %rd5, %rd4;\n",
                        cases[k].use, END, PLAIN("c"));
            s.ptx = text.s;
            fix_open(&f, &s);
            if (map) /* and not of any other parameter */
                f.g->launch[0].arg[0].kind = DT_ARG_TENSOR_MAP;
            fix_cand(&f);
            if (rw_legal_parameters(&f.c.facts, &why) != (map && cases[k].ok))
                fail_msg("case %zu, %d: %s", k, map, dt_plain(why.s));
            if (map && cases[k].ok && !rw_legal_plain_launches(&f.c.facts, &why))
                fail_msg("case %zu: %s", k, dt_plain(why.s));
            dt_str_done(&why);
            dt_str_done(&text);
            fix_close(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_async), cmocka_unit_test(test_tensor_maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
