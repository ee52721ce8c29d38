/* Contraction made explicit (device/contract.c): what ptxas contracts is written out, and a program then has the bits
 * of the hardware. Most cases need nvJitLink; without it nothing is changed. Expected bits are the host's fmaf, and
 * float sums and products that are rounded apart. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "device/device.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define START(e)                                                                                                       \
    ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<16>;\n"       \
    ".reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n"                                                                           \
    "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\nmov.u32 %r3, %tid.x;\nmul.wide.s32 %rd3, %r3, 8;\n" \
    "add.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\n"
#define LOADS "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f3, [%rd1+4];\n"

static void test_identity(void **state)
{
    static const char open[] = HEAD START("p") LOADS "mul.f32 %f2, %f1, %f3;\n"
                                                     "add.f32 %f4, %f2, %f3;\nst.global.f32 [%rd2], %f4;\nret;\n}\n";
    static const char closed[] =
        HEAD START("p") LOADS "fma.rn.f32 %f2, %f1, %f3, %f3;\nmul.f32 %f5, %f2, %f2;\nst.global.f32 [%rd2+8], %f5;\n"
                              "add.f32 %f4, %f2, %f3;\nst.global.f32 [%rd2], %f4;\nret;\n}\n";
    struct ptx_module *m = NULL;
    struct dt_err e = {0};
    bool link = dev_nvjitlink_version() != NULL;
    static const char apart[] =
        HEAD START("p") LOADS "mul.f32 %f2, %f1, %f3;\n"
                              "setp.gt.f32 %p1, %f1, %f3;\n@%p1 bra A;\nadd.f32 %f2, %f2, %f3;\nA:\n"
                              "st.global.f32 [%rd2], %f2;\nret;\n}\n";
    if (ptx_parse(open, strlen(open), &m, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(dev_identity(m, "p", "sm_90"), link ? DEV_CONTRACTED : DEV_UNKNOWN);
    if (link) { /* the contraction written out is the same code */
        struct ptx_module *x = dev_explicit(m, "p", "sm_90");
        struct dt_str text = {0};
        assert_non_null(x);
        assert_int_equal(ptx_print(x, &text), 0);
        assert_non_null(strstr(text.s, "fma.rn.f32"));
        assert_int_equal(dev_identity(x, "p", "sm_90"), DEV_OPEN);
        dt_str_done(&text);
        ptx_module_free(x);
    }
    ptx_module_free(m);
    assert_int_equal(ptx_parse(closed, strlen(closed), &m, &e), 0);
    assert_int_equal(dev_identity(m, "p", "sm_90"), DEV_OPEN); /* the product goes where no sum is */
    assert_int_equal(dev_round_muls(m->func[0]), 1);
    assert_int_equal(dev_round_muls(m->func[0]), 0);
    ptx_module_free(m);
    /* a product reaches a sum, or does not; half of one is FMUL.D2, which .rn would undo */
    static const struct {
        const char *body;
        enum dev_identity want, without; /* without: nvJitLink */
    } way[] = {
        {"mul.f32 %f2, %f1, %f3;\nmul.f32 %f4, %f2, 0f3F000000;\nadd.f32 %f5, %f1, %f3;\nst.global.f32 [%rd2+4], "
         "%f5;\n",
         DEV_OPEN, DEV_OPEN},
        {"mul.f32 %f2, %f1, %f3;\nmul.f32 %f5, %f2, 0f3F000000;\nadd.f32 %f4, %f5, %f3;\n", DEV_CONTRACTED,
         DEV_UNKNOWN},
        {"mul.f32 %f2, %f1, %f3;\nneg.f32 %f5, %f2;\nadd.f32 %f4, %f5, %f3;\n", DEV_CONTRACTED, DEV_UNKNOWN},
        {"mul.f32 %f2, %f1, %f3;\nst.global.f32 [%rd2+8], %f2;\nadd.f32 %f4, %f2, %f3;\n", DEV_IDENTICAL, DEV_UNKNOWN},
        {"mul.f32 %f2, %f1, %f3;\nmax.f32 %f5, %f2, %f1;\nadd.f32 %f4, %f5, %f3;\n", DEV_OPEN, DEV_OPEN},
        {"mul.f32 %f2, %f1, %f3;\n.local .b8 l[4];\nst.local.f32 [l], %f2;\nld.local.f32 %f5, [l];\nadd.f32 %f4, %f5, "
         "%f3;\n",
         DEV_CONTRACTED, DEV_UNKNOWN},
        {"mul.f32 %f2, %f1, %f3;\n.reg .b32 %z<4>;\nmov.b32 %z0, %f2;\nxor.b32 %z1, %z0, %z2;\nmov.b32 %f5, "
         "%z1;\nadd.f32 %f4, %f5, %f3;\n",
         DEV_OPEN, DEV_OPEN},
        {"mul.f32 %f2, %f1, %f3;\nmul.f32 %f5, %f2, 0f3F000000;\nst.global.f32 [%rd2+8], %f5;\nmul.f32 %f6, %f1, "
         "%f1;\nadd.f32 %f4, %f6, %f3;\n",
         DEV_CONTRACTED,
         DEV_UNKNOWN}, /* a contraction, and an FMUL.D2 elsewhere: no form has both, so nobody may touch it */
    };
    for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
        char text[2000];
        snprintf(text, sizeof text, "%s%s%s%sst.global.f32 [%%rd2], %%f4;\nret;\n}\n", HEAD, START("p"), LOADS,
                 way[k].body);
        if (ptx_parse(text, strlen(text), &m, &e) < 0)
            fail_msg("%s", e.detail);
        assert_int_equal(dev_identity(m, "p", "sm_90"), link ? way[k].want : way[k].without);
        if (k + 1 == sizeof way / sizeof *way)
            assert_null(dev_explicit(m, "p", "sm_90"));
        ptx_module_free(m);
    }
    assert_int_equal(ptx_parse(apart, strlen(apart), &m, &e), 0);
    if (dev_identity(m, "p", "sm_90") == DEV_CONTRACTED)
        assert_null(dev_explicit(m, "p", "sm_90"));
    ptx_module_free(m);
    assert_false(dev_same_code("x", 1, "x", 1));
}

#define TWO                                                                                                            \
    HEAD START("open") LOADS                                                                                           \
        "mul.f32 %f2, %f1, %f3;\nadd.f32 %f4, %f2, %f1;\nst.global.f32 [%rd2], %f4;\nret;\n}\n" START("apart") LOADS   \
        "mul.rn.f32 %f2, %f1, %f3;\nadd.rn.f32 %f4, %f2, %f1;\nst.global.f32 [%rd2+4], %f4;\nret;\n}\n"

static void document(struct dt_str *s, const char *ptx)
{
    dt_str_add(s, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (; *ptx; ptx++)
        dt_str_addf(s, *ptx == '\n' ? "\\n" : "%c", *ptx);
    dt_str_add(s, "\"}}, \"buffers\": {\"x\": {\"bytes\": 2048, \"role\": \"input\", \"fill\": {\"uniform\": [-1, 1], "
                  "\"dtype\": \"f32\", "
                  "\"seed\": 5}}, \"y\": {\"bytes\": 2048, \"role\": \"output\"}}, \"launches\": [");
    for (int k = 0; k < 2; k++)
        dt_str_addf(
            s,
            "%s{\"name\": \"%s\", \"module\": \"m\", \"entry\": \"%s\", \"grid\": [1,1,1], \"block\": [256,1,1],"
            "\"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"y\"}]}",
            k ? "," : "", k ? "b" : "a", k ? "apart" : "open");
    dt_str_add(s, "]}");
}

static void test_program(void **state)
{
    struct dt_err e = {0};
    struct dt_str doc = {0};
    struct dt_graph *g;
    struct dev_device *d;
    struct dev_prog *p, *q;
    struct dev_run *r;
    float x[512], y[512];
    bool link = dev_nvjitlink_version() != NULL;
    unsigned differ = 0;
    document(&doc, TWO);
    if (dt_graph_parse(doc.s, doc.len, &g, &e) < 0 || dev_open("soft:h200", &d, &e) < 0 ||
        dev_prog_new(d, g, NULL, NULL, &p, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    assert_string_equal(g->module[0].source, TWO); /* the document stays as it was posted */
    assert_true(!!strstr(p->module[0].ptx, "fma.rn.f32") == link);
    for (int k = 0; k < 2; k++) {
        unsigned fma = 0, sums = 0;
        for (uint32_t i = 0; i < p->step[k].posted->ninst; i++) {
            fma += p->step[k].posted->inst[i].op == PTX_OP_FMA;
            sums += p->step[k].posted->inst[i].op == PTX_OP_ADD && p->step[k].posted->inst[i].type[0] == PTX_F32;
        }
        assert_int_equal(fma, 0);
        assert_int_equal(sums, 1);
        assert_true((p->step[k].posted == p->step[k].entry) == !link);
    }
    if (dev_prog_derive(d, g, p, NULL, NULL, &q, &e) < 0 || dev_run_new(d, q, &r, &e) < 0 ||
        dev_run_fill(r, 0, -1, &e) < 0 || dev_run_once(r, &e) < 0 || dev_run_download(r, 0, x, &e) < 0 ||
        dev_run_download(r, 1, y, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    for (int i = 0; i < 256; i++) {
        volatile float product = x[2 * i] * x[2 * i + 1], sum = product + x[2 * i];
        float fused = fmaf(x[2 * i], x[2 * i + 1], x[2 * i]), apart = sum;
        differ += fused != apart;
        assert_memory_equal(&y[2 * i], link ? &fused : &apart, 4);
        assert_memory_equal(&y[2 * i + 1], &apart, 4);
    }
    assert_true(differ > 16); /* the two differ at all */
    dev_run_free(r);
    dev_prog_free(q);
    dev_prog_free(p);
    dev_close(d);
    dt_graph_free(g);
    dt_str_done(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_identity), cmocka_unit_test(test_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
