/* Slices that are almost alike (rewrite/inline/merge.c): two elements of a thread are one text only if each of their
 * steps is guarded alike. A kernel of two lanes is inlined; its lanes do the same but for one thing: whether a step has
 * a predicate, its sign, which predicate it is, how that came about, a predicate as an operand. The step must then
 * stand there twice, and the plan must be right; where nothing differs it stands there once.
 */
#include "rewrite-plans.h"

#define HEAD_OF(name)                                                                                                  \
    ".visible .entry " name                                                                                            \
    "(.param .u64 x, .param .u64 h)\n{\n.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n"       \
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [h];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; shl.b32 %r3, %r1, "  \
    "5; add.u32 %r4, %r3, %r2;\n"                                                                                      \
    "mul.wide.u32 %rd3, %r4, 8; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;\nld.global.v2.f32 {%f1, %f2}, "    \
    "[%rd4];\n"                                                                                                        \
    "setp.lt.u32 %p1, %r2, 16; setp.lt.u32 %p2, %r2, 8; setp.ge.u32 %p3, %r2, 16; mov.f32 %f3, %f1; mov.f32 %f4, "     \
    "%f2;\n"
#define KERNEL(name, body) HEAD_OF(name) body "st.global.v2.f32 [%rd5], {%f3, %f4};\nret;\n}\n"
#define STEP(f, g) "add.rn.f32 " f ", " f ", " g ";\n" /* g: the same constant */
#define ONE "0f3F800000"
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry host(.param .u64 x, .param .u64 h)\n{\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 "
    "%f<9>;\nld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [h];\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; shl.b32 %r3, %r1, 5; add.u32 %r3, %r3, %r2; mul.wide.u32 %rd3, %r3, "
    "4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;\n"
    "ld.global.f32 %f1, [%rd1]; max.f32 %f1, %f1, 0fBF800000; st.global.f32 [%rd2], %f1;\nret;\n}\n" KERNEL(
        "none", STEP("%f3", ONE) STEP("%f4", ONE)) KERNEL("same", "@%p1 " STEP("%f3", ONE) "@%p1 " STEP("%f4", ONE))
        KERNEL("equal", "setp.lt.u32 %p4, %r2, 16;\n@%p1 " STEP("%f3", ONE) "@%p4 " STEP("%f4", ONE))
            KERNEL("sign", "@%p1 " STEP("%f3", ONE) "@!%p1 " STEP("%f4", ONE))
                KERNEL("other", "@%p1 " STEP("%f3", ONE) "@%p2 " STEP("%f4", ONE))
                    KERNEL("compared", "@%p1 " STEP("%f3", ONE) "@%p3 " STEP("%f4", ONE)) KERNEL(
                        "first", "@%p1 " STEP("%f3", ONE)
                                     STEP("%f4", ONE)) KERNEL("second", STEP("%f3", ONE) "@%p1 " STEP("%f4", ONE))
                        KERNEL("order", "@%p1 " STEP("%f3", ONE) "@%p2 add.rn.f32 %f3, %f3, 0f40000000;\n@%p2 " STEP(
                                            "%f4", ONE) "@%p1 add.rn.f32 %f4, %f4, 0f40000000;\n")
                            KERNEL("swap", "@%p1 " STEP("%f3", ONE) "@%p2 add.rn.f32 %f3, %f3, 0f40000000;\n@%p2 " STEP(
                                               "%f4", ONE) "@%p2 add.rn.f32 %f4, %f4, 0f40000000;\n")
                                KERNEL("made",
                                       "@%p2 setp.ne.u32 %p1, %r2, 3;\nsetp.lt.u32 %p4, %r2, 16;\n@%p3 setp.ne.u32 "
                                       "%p4, %r2, 3;\n@%p1 " STEP("%f3", ONE) "@%p4 " STEP("%f4", ONE))
                                    KERNEL("operand", "selp.f32 %f5, " ONE
                                                      ", 0f40000000, %p1; add.rn.f32 %f3, %f3, %f5; selp.f32 %f6, " ONE
                                                      ", 0f40000000, %p2; add.rn.f32 %f4, %f4, %f6;\n")
                                        KERNEL(
                                            "not",
                                            "setp.lt.and.f32 %p4, %f3, " ONE
                                            ", %p1; selp.f32 %f3, %f3, 0f40000000, %p4;\nsetp.lt.and.f32 %p5, %f4, " ONE
                                            ", !%p1; selp.f32 %f4, %f4, 0f40000000, %p5;\n")
                                            KERNEL("branch", "@%p1 bra A;\n" STEP("%f3", ONE) "A:\n@!%p1 bra B;\n" STEP(
                                                                 "%f4", ONE) "B:\n");

static unsigned count(const char *s, const char *word)
{
    unsigned n = 0;
    for (const char *at = s; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

#define TWO(guest) RUN("a", "host", "32,1", B("x") "," B("h")) "," RUN("b", guest, "16,1", B("h") "," B("y"))
static const struct {
    const char *guest, *launches;
    unsigned times; /* that the constant stands in the plan */
} row[] = {{"none", TWO("none"), 1},   {"same", TWO("same"), 1},     {"equal", TWO("equal"), 1},
           {"sign", TWO("sign"), 2},   {"other", TWO("other"), 2},   {"compared", TWO("compared"), 2},
           {"first", TWO("first"), 2}, {"second", TWO("second"), 2}, {"order", TWO("order"), 2},
           {"swap", TWO("swap"), 2},   {"made", TWO("made"), 2},     {"operand", TWO("operand"), 2},
           {"not", TWO("not"), 2},     {"branch", TWO("branch"), 2}};

static void test_lanes(void **state)
{
    rw_hooks.levels = "register";
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        json_t *p = plan_of(&rw_block_fusion, row[k].launches, true), *m;
        const char *name;
        verdict(p, "a", "kept", NULL);
        assert_int_equal(json_object_size(json_object_get(p, "modules")), 1);
        json_object_foreach (json_object_get(p, "modules"), name, m) {
            unsigned n = count(json_string_value(json_object_get(m, "ptx")), ONE);
            if (n != row[k].times)
                fail_msg("%s: its step stands there %u times, not %u", row[k].guest, n, row[k].times);
        }
        json_decref(p);
    }
    rw_hooks.levels = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lanes)};
    struct dt_err e = {0};
    if (dev_open("soft:h200", &device, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "?");
        return 1;
    }
    ptx = (char *)(uintptr_t)text;
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(device);
    return r;
}
