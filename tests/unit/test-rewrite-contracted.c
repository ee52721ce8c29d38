/* A kernel that leans on the assembler's contraction, and whose contraction no policy of device/contract.c explains: a
 * product and its sum stand in two basic blocks. What is joined with it would get other arithmetic, which the software
 * device cannot see. So every pair with it is refused by name, in every rewrite that joins or copies bodies, also with
 * all that is legal forced; the same pair with the product and the sum in one block is joined. A kernel that is only
 * changed by itself is refused, or keeps product and sum as they were posted.
 */
#include "rewrite-plans.h"

#define KERNEL(name, at, body)                                                                                         \
    ".visible .entry " name                                                                                            \
    "(.param .u64 x, .param .u64 h)\n{\n.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n"       \
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [h];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; shl.b32 %r4, %r1, "  \
    "5; add.u32 %r4, %r4, %r2;\n" at                                                                                   \
    "mul.wide.u32 %rd3, %r4, 4; mul.wide.u32 %rd4, %r3, 4; add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd3;\n"      \
    "ld.global.f32 %f1, [%rd1]; cvt.rn.f32.u32 %f4, %r2;\n" body "\nst.global.f32 [%rd2], %f3;\nret;\n}\n"
#define OWN "mov.u32 %r3, %r4;\n"
#define THIRD "mad.lo.u32 %r3, %r1, 96, %r2;\n" /* reads every third block */
static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n" KERNEL(
    "apart", OWN, "mul.f32 %f2, %f1, %f4;\nbra X;\nX: add.f32 %f3, %f2, %f1;")
    KERNEL("round", OWN,
           "mul.f32 %f2, %f1, %f4; mov.f32 %f3, %f1; mov.u32 %r5, 0;\n"
           "L: add.f32 %f3, %f3, %f2; mul.f32 %f3, %f3, %f4; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 9; @%p1 bra L;")
        KERNEL("together", OWN, "mul.f32 %f2, %f1, %f4; add.f32 %f3, %f2, %f1;")
            KERNEL("plain", OWN, "max.f32 %f3, %f1, %f4;") KERNEL("thirds", THIRD, "max.f32 %f3, %f1, %f4;")
    /* and the next block's */
    KERNEL("ring", OWN,
           "add.u32 %r5, %r4, 32; and.b32 %r5, %r5, 1023; mul.wide.u32 %rd5, %r5, 4; ld.param.u64 %rd6, [x]; add.u64 "
           "%rd6, %rd6, %rd5;\n"
           "ld.global.f32 %f5, [%rd6]; max.f32 %f3, %f1, %f5;")
    /* tells its grid: what is left of its blocks needs a copy that is told */
    KERNEL(
        "sized", OWN,
        "mov.u32 %r6, %nctaid.x; cvt.rn.f32.u32 %f5, %r6; mul.f32 %f2, %f1, %f4;\nbra X;\nX: add.f32 %f3, %f2, %f5;");

static bool link_;

/* The entry that begins with this launch is refused, because nobody can say that its arithmetic stays. */
static void refused(const json_t *p, const char *kind, const char *name)
{
    json_t *r;
    size_t i;
    unsigned found = 0;
    json_array_foreach (json_object_get(p, "rewrites"), i, r) {
        const char *why = json_string_value(json_object_get(r, "reason")),
                   *is = json_string_value(json_object_get(r, "verdict"));
        if (strcmp(json_string_value(json_array_get(json_object_get(r, "launches"), 0)), name))
            continue;
        found++;
        if (strcmp(is, "refused") || !why || (!strstr(why, "arithmetic-identity") && !strstr(why, "machine-code")))
            fail_msg("%s of '%s' is %s: %s", kind, name, is, why ? why : "");
    }
    if (!found)
        fail_msg("no %s of '%s' was looked at", kind, name);
}

static void test_pairs(void **state)
{
    static const struct {
        const struct rw_rewrite *kind;
        const char *launches, *control; /* control: the same with a kernel that has an explicit form */
        const char *levels;
    } row[] = {
        {&rw_block_fusion,
         RUN("a", "apart", "32,1", B("x") "," B("h")) "," RUN("b", "plain", "32,1", B("h") "," B("y")),
         RUN("a", "together", "32,1", B("x") "," B("h")) "," RUN("b", "plain", "32,1", B("h") "," B("y")), NULL},
        {&rw_block_fusion,
         RUN("a", "plain", "32,1", B("x") "," B("h")) "," RUN("b", "apart", "32,1", B("h") "," B("y")),
         RUN("a", "plain", "32,1", B("x") "," B("h")) "," RUN("b", "together", "32,1", B("h") "," B("y")), NULL},
        {&rw_block_fusion,
         RUN("a", "round", "32,1", B("x") "," B("h")) "," RUN("b", "plain", "32,1", B("h") "," B("y")), NULL, "shared"},
        {&rw_block_fusion,
         RUN("a", "plain", "32,1", B("x") "," B("h")) "," RUN("b", "round", "32,1", B("h") "," B("y")), NULL, "global"},
        {&rw_block_fusion,
         RUN("a", "round", "32,1", B("x") "," B("h")) "," RUN("b", "apart", "32,1", B("h") "," B("y")), NULL,
         "register"},
        {&rw_parallel_fusion,
         RUN("a", "apart", "32,1", B("x") "," B("g")) "," RUN("b", "plain", "32,1", B("x") "," B("y")),
         RUN("a", "together", "32,1", B("x") "," B("y")) "," RUN("b", "plain", "32,1", B("x") "," B("at")), NULL},
        {&rw_dead_blocks,
         RUN("a", "sized", "32,1", B("x") "," B("h")) "," RUN("b", "thirds", "11,1", B("h") "," B("y")), NULL, NULL},
        {&rw_recompute, RUN("a", "apart", "32,1", B("x") "," B("h")) "," RUN("b", "ring", "32,1", B("h") "," B("y")),
         RUN("a", "together", "32,1", B("x") "," B("h")) "," RUN("b", "ring", "32,1", B("h") "," B("y")), NULL},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        rw_hooks.levels = row[k].levels;
        json_t *p = plan_of(row[k].kind, row[k].launches, true);
        refused(p, row[k].kind->name, "a");
        json_decref(p);
        if (row[k].control && link_) {
            p = plan_of(row[k].kind, row[k].control, true);
            verdict(p, "a", "kept", NULL);
            json_decref(p);
        }
    }
    rw_hooks.levels = NULL;
}

/* Changed alone: refused by name, or with product and sum as they were posted. */
static void test_alone(void **state)
{
    json_t *p = plan_of(&rw_programmatic,
                        RUN("a", "apart", "32,1", B("x") "," B("h")) "," RUN("b", "apart", "32,1", B("h") "," B("y")),
                        true),
           *m;
    json_t *r = json_array_get(json_object_get(p, "rewrites"), 0);
    const char *name;
    assert_non_null(r);
    if (strcmp(json_string_value(json_object_get(r, "verdict")), "kept"))
        refused(p, "programmatic-launch", "a");
    json_object_foreach (json_object_get(p, "modules"), name, m) {
        const char *made = json_string_value(json_object_get(m, "ptx"));
        assert_non_null(strstr(made, "mul.f32"));
        assert_non_null(strstr(made, "add.f32"));
        assert_null(strstr(made, "mul.rn.f32"));
    }
    json_decref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_alone)};
    struct dt_err e = {0};
    if (dev_open("soft:h200", &device, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "?");
        return 1;
    }
    link_ = dev_nvjitlink_version() != NULL;
    ptx = (char *)(uintptr_t)text;
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(device);
    return r;
}
