/* Narrow blocks (rewrite/kinds/narrow.c): launches made of them hold the original's bytes under any order, whatever the
 * shape of grid and block and whatever the kernel reads of them; the conditions; what the planner proposes and keeps.
 */
#include "rewrite-device.h"

#include "rewrite/emit/solo.h"

#include "base/subject.h"

#define REGS ".reg .pred %p; .reg .b32 %r<24>; .reg .b64 %a<9>; .reg .f32 %f<5>;\n"
#define HEAD(name, directives)                                                                                         \
    ".visible .entry " name "(.param .u64 x, .param .u64 y)" directives "\n{\n" REGS                                   \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a3, [y];\n"
/* linear number of the thread in %r3 */
#define FLAT "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r3, %r1, %r2, %r4;\n"
#define CUBE                                                                                                           \
    "mov.u32 %r5, %ntid.x; mov.u32 %r6, %ntid.y; mov.u32 %r7, %ntid.z; mov.u32 %r8, %nctaid.x; mov.u32 %r9, "          \
    "%nctaid.y;\n"                                                                                                     \
    "mov.u32 %r10, %tid.z; mov.u32 %r11, %tid.y; mad.lo.u32 %r10, %r10, %r6, %r11; mov.u32 %r11, %tid.x; mad.lo.u32 "  \
    "%r10, %r10, %r5, %r11;\n"                                                                                         \
    "mov.u32 %r12, %ctaid.z; mov.u32 %r13, %ctaid.y; mad.lo.u32 %r12, %r12, %r9, %r13; mov.u32 %r13, %ctaid.x; "       \
    "mad.lo.u32 %r12, %r12, %r8, %r13;\n"                                                                              \
    "mul.lo.u32 %r14, %r5, %r6; mul.lo.u32 %r14, %r14, %r7; mad.lo.u32 %r3, %r12, %r14, %r10;\n"
#define PLACE "mul.wide.u32 %a4, %r3, 4; add.u64 %a5, %a1, %a4; add.u64 %a7, %a3, %a4;\n"
static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
    /* a row of 64 a thread */
    HEAD("fold", "") FLAT
    "mul.lo.u32 %r5, %r3, 256; cvt.u64.u32 %a4, %r5; add.u64 %a5, %a1, %a4; mul.wide.u32 %a4, %r3, "
    "4; add.u64 %a7, %a3, %a4;\n"
    "mov.f32 %f1, 0f00000000; mov.u32 %r6, 0;\n"
    "L: ld.global.f32 %f2, [%a5]; add.rn.f32 %f1, %f1, %f2; add.u64 %a5, %a5, 4; add.u32 %r6, %r6, "
    "1; setp.lt.u32 %p, %r6, 64; @%p bra L;\nst.global.f32 [%a7], %f1;\nret;\n}\n"
    /* a value of another lane, the lane's number */
    HEAD("lanes", ".reqntid 128, 1, 1\n.minnctapersm 2") FLAT PLACE
    "ld.global.f32 %f1, [%a5]; mov.b32 %r5, %f1; shfl.sync.bfly.b32 %r6, %r5, 3, 31, 0xffffffff; mov.u32 %r7, "
    "%laneid;\n"
    "xor.b32 %r6, %r6, %r7; st.global.b32 [%a7], %r6;\nret;\n}\n" HEAD("cube", ".maxntid 8, 4, 4") CUBE PLACE
    "ld.global.f32 %f1, [%a5]; cvt.rn.f32.u32 %f2, %r11; add.rn.f32 %f1, %f1, "
    "%f2; st.global.f32 [%a7], %f1;\nret;\n}\n" HEAD("meets", "") FLAT PLACE
    "ld.global.f32 %f1, [%a5]; bar.sync 0; st.global.f32 [%a7], %f1;\nret;\n}\n" HEAD(
        "both",
        "") "mov.v4.u32 {%r5, %r6, %r7, %r8}, %tid; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r3, %r1, 128, %r5;\n" PLACE
            "ld.global.f32 %f1, [%a5]; st.global.f32 [%a7], %f1;\nret;\n}\n" HEAD("counts", "") FLAT PLACE
    "ld.global.f32 %f1, [%a5]; red.global.add.u32 [%a7], 1;\nret;\n}\n" HEAD("hands", "") FLAT PLACE
    ".shared .b32 s[128]; mov.u32 %r5, s; mad.lo.u32 %r5, %r4, 4, %r5; ld.global.f32 %f1, "
    "[%a5]; st.shared.f32 [%r5], %f1; ld.shared.f32 %f2, [%r5]; st.global.f32 [%a7], "
    "%f2;\nret;\n}\n";

#define ONE(entry, grid, block)                                                                                        \
    "{\"name\": \"k\", \"module\": \"m\", \"entry\": \"" entry "\", \"grid\": " grid ", \"block\": " block             \
    ", \"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"y\"}]}"

static const struct {
    const char *launch, *why; /* why: NULL: it is made */
    uint32_t blocks, threads; /* of the new launch */
    bool proposed;            /* also where nothing is forced */
} cases[] = {
    {ONE("fold", "[6,1,1]", "[256,1,1]"), NULL, 48, 32, true},
    {ONE("fold", "[50,1,1]", "[192,1,1]"), NULL, 150, 64, true},
    {ONE("lanes", "[5,1,1]", "[128,1,1]"), NULL, 20, 32, false},
    {ONE("cube", "[3,2,5]", "[8,4,4]"), NULL, 120, 32, false},
    {ONE("fold", "[132,1,1]", "[64,1,1]"), NULL, 264, 32, false},
    {ONE("cube", "[3,2,5]", "[5,4,4]"), "warps-apart: 'k' has 80 threads", 0, 0, false},
    {ONE("meets", "[6,1,1]", "[128,1,1]"), "warps-apart: 'k' has barriers", 0, 0, false},
    {ONE("both", "[6,1,1]", "[128,1,1]"), NULL, 24, 32, false},
    {ONE("counts", "[6,1,1]", "[128,1,1]"), "warps-apart: 'k' has atomics", 0, 0, false},
    {ONE("hands", "[6,1,1]", "[128,1,1]"), "warps-apart: 'k' has shared memory", 0, 0, false},
};

static void make(const char *launch, struct dt_graph **g, struct dev_prog **p, struct ana_result **a)
{
    struct dt_str s = {0};
    document_begin(&s, text);
    dt_str_addf(
        &s,
        "\"x\": {\"bytes\": 2457600, \"role\": \"input\", \"fill\": {\"uniform\": [-1, 1], "
        "\"dtype\": \"f32\", \"seed\": 3}}, \"y\": {\"bytes\": 65536, \"role\": \"inout\", \"fill\": {\"zero\": "
        "true}}}, \"launches\": [%s]}",
        launch);
    document_end(&s, g, p, a);
}

static void narrows(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct dt_graph *g, *h;
        struct dev_prog *p, *q;
        struct ana_result *a;
        struct dt_err e = {0};
        struct dt_str why = {0};
        struct rw_proposals l = {0};
        struct rw_edit x;
        enum rw_verdict v;
        const uint32_t zero = 0;
        make(cases[k].launch, &g, &p, &a);
        double us = time_of(p);
        const struct rw_state now = {.graph = g, .prog = p, .ana = a, .step_us = &us};
        must(rw_narrow_blocks.propose(&now, NULL, &l, &e), &e);
        if (cases[k].proposed != (l.v.n == 1) && !cases[k].why)
            fail_msg("%zu: %zu proposals, at %.2f us", k, l.v.n, us);
        must(rw_edit_init(&x, &rw_narrow_blocks, dev_info(dev), NULL, &now, &zero, 1, &e), &e);
        int r = rw_narrow_blocks.open(&x, &v, &why, &e);
        if (r == 0)
            r = rw_narrow_blocks.build(&x, 0, &why, &e);
        must(r, &e);
        if (cases[k].why && (r != 1 || strncmp(dt_plain(why.s), cases[k].why, strlen(cases[k].why))))
            fail_msg("%zu: %d %s", k, r, why.s ? dt_plain(why.s) : "");
        if (!cases[k].why && r)
            fail_msg("%zu: %s", k, dt_plain(why.s));
        if (r == 0) {
            snprintf(x.part.p[0].module, sizeof x.part.p[0].module, "f0");
            json_t *doc = rw_edit_graph(&x);
            must(dt_graph_from_json(doc, &h, &e), &e);
            assert_int_equal(h->launch[0].grid[0], cases[k].blocks);
            assert_int_equal(h->launch[0].block[0], cases[k].threads);
            must(dev_prog_new(dev, h, NULL, NULL, &q, &e), &e);
            must(rw_verify(dev, p, q, 2, 4, &e), &e);
            if (cases[k].proposed && !(time_of(q) < us))
                fail_msg("%zu: %.2f -> %.2f us", k, us, time_of(q));
            dev_prog_free(q);
            dt_graph_free(h);
            json_decref(doc);
        }
        rw_narrow_blocks.close(&x);
        rw_edit_done(&x);
        free(l.v.p);
        dt_arena_done(&l.arena);
        dt_str_done(&why);
        ana_free(a);
        dev_prog_free(p);
        dt_graph_free(g);
    }
}

/* The planner keeps it where six SMs of 132 had a block. */
static void planned(void **state)
{
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
    struct dt_err e = {0};
    json_t *doc, *row;
    size_t i, kept = 0;
    make(cases[0].launch, &g, &p, &a);
    must(rw_plan(dev, p, a, &(struct rw_options){.inputs = 1, .schedules = 2}, NULL, &doc, &e), &e);
    json_array_foreach (json_object_get(doc, "rewrites"), i, row)
        kept += !strcmp(json_string_value(json_object_get(row, "verdict")), "kept") &&
                !strcmp(json_string_value(json_object_get(row, "kind")), "narrow-blocks");
    assert_int_equal(kept, 1);
    json_t *launch = json_array_get(json_object_get(doc, "launches"), 0);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(launch, "grid"), 0)), 48);
    json_decref(doc);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(narrows), cmocka_unit_test(planned)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
