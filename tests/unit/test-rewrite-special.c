/* Special values (rewrite/gate/contents.c, special.c). A plan that is wrong for one value alone is found out. Posted
 * kernels that trap, hang or go astray on some values are run on the others, and the result says which were left out.
 * Integers that are addresses or trip counts keep to the document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/gate/special.h"

#define N 8192 /* elements, one a thread */
/* x and y at this thread's element of 1 << shift bytes: %d1, %d2. */
#define ENTRY(name, shift, body)                                                                                       \
    ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n.reg .pred %p<4>;\n.reg .b16 "          \
    "%h<8>;\n.reg .b32 %r<16>;\n.reg .b64 %d<16>;\n"                                                                   \
    ".reg .f32 %f<8>;\n.reg .f64 %g<8>;\nld.param.u64 %d1, [a];\nld.param.u64 %d2, [b];\nld.param.u64 %d9, "           \
    "[c];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"                                                            \
    "mov.u32 %r3, %tid.x;\nmad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %d3, %r4, " shift                              \
    ";\nadd.s64 %d1, %d1, %d3;\nadd.s64 %d2, %d2, %d3;\n" body "\nret;\n}\n"
#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define FILL(v) "{\"uniform\": [-1, 1], \"dtype\": \"" v "\", \"seed\": 3}"
#define DOUBLE ENTRY("second", "4", "ld.global.f32 %f1, [%d1];\nadd.rn.f32 %f2, %f1, %f1;\nst.global.f32 [%d2], %f2;")

static struct dev_device *device;

struct made {
    json_t *doc;
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};

static void must(int r, const struct dt_err *e)
{
    if (r < 0)
        fail_msg("%s: %s", dt_err_text(r), e->detail ? e->detail : "");
}

static json_t *launch(const char *name, const char *entry, const char *a, const char *b, const char *c)
{
    return json_pack("{s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:[{s:s},{s:s},{s:s}]}", "name", name, "module", "m", "entry",
                     entry, "grid", N / 128, 1, 1, "block", 128, 1, 1, "args", "buffer", a, "buffer", b, "buffer", c);
}

/* x (role, fill: JSON or NULL), z likewise, h intermediate, y output; `first` from x to h or y, `second`, where there
 * is one, from h to y. */
static void make(const char *ptx, unsigned bytes, const char *role, const char *fill, const char *zfill, bool two,
                 struct made *m)
{
    struct dt_err e = {0};
    struct ana_options o = {0};
    memset(m, 0, sizeof *m);
    json_int_t n = (json_int_t)N * bytes;
    m->doc = json_pack("{s:i,s:{s:{s:s}},s:{s:{s:I,s:s},s:{s:I,s:s},s:{s:I,s:s},s:{s:I,s:s}},s:[]}", "dovetail", 1,
                       "modules", "m", "ptx", ptx, "buffers", "x", "bytes", n, "role", role, "z", "bytes", n, "role",
                       "input", "h", "bytes", n, "role", "intermediate", "y", "bytes", n, "role", "output", "launches");
    json_t *b = json_object_get(m->doc, "buffers"), *list = json_object_get(m->doc, "launches");
    if (fill)
        json_object_set_new(json_object_get(b, "x"), "fill", json_loads(fill, 0, NULL));
    if (zfill)
        json_object_set_new(json_object_get(b, "z"), "fill", json_loads(zfill, 0, NULL));
    json_array_append_new(list, launch("one", "first", "x", two ? "h" : "y", "z"));
    if (two)
        json_array_append_new(list, launch("two", "second", "h", "y", "z"));
    must(dt_graph_from_json(m->doc, &m->g, &e), &e);
    must(dev_prog_new(device, m->g, NULL, NULL, &m->p, &e), &e);
    must(ana_run(device, m->p, &o, &m->a, &e), &e);
}

static void done(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
    json_decref(m->doc);
}

/* `right` and `wrong` differ for one value alone. */
static void seen(const char *what, const char *right, const char *wrong, unsigned bytes, const char *role,
                 const char *fill)
{
    struct made a, b;
    struct dt_err e = {0};
    make(right, bytes, role, fill, NULL, false, &a);
    make(wrong, bytes, role, fill, NULL, false, &b);
    must(rw_verify(device, a.p, a.p, 3, 1, &e), &e);
    must(rw_verify(device, a.p, b.p, 1, 0, &e), &e); /* on the posted input alone nobody sees it */
    if (rw_verify(device, a.p, b.p, 3, 0, &e) != DT_E_INTERNAL)
        fail_msg("%s: not seen", what);
    dt_err_done(&e);
    done(&a);
    done(&b);
}

#define LOAD32 "ld.global.f32 %f1, [%d1];\nmov.b32 %r5, %f1;\n"
#define STORE32 "st.global.u32 [%d2], %r5;"
#define SEEN32(what, test)                                                                                             \
    seen(what, HEAD ENTRY("first", "4", LOAD32 STORE32), HEAD ENTRY("first", "4", LOAD32 test "\n" STORE32), 4,        \
         "input", FILL("f32"))

static void test_f32(void **state)
{
    SEEN32("a signalling NaN", "and.b32 %r6, %r5, 0x7fc00000;\nand.b32 %r7, %r5, 0x3fffff;\nsetp.eq.u32 %p1, %r6, "
                               "0x7f800000;\nsetp.ne.and.u32 %p1, %r7, 0, %p1;\n"
                               "@%p1 or.b32 %r5, %r5, 0x400000;");
    SEEN32("the payload of a NaN",
           "and.b32 %r6, %r5, 0x7fc00000;\nsetp.eq.u32 %p1, %r6, 0x7fc00000;\n@%p1 mov.b32 %r5, 0x7fffffff;");
    SEEN32("-0", "setp.eq.u32 %p1, %r5, 0x80000000;\n@%p1 mov.b32 %r5, 0;");
    SEEN32("subnormals", "and.b32 %r6, %r5, 0x7f800000;\nsetp.eq.u32 %p1, %r6, 0;\n@%p1 and.b32 %r5, %r5, 0x80000000;");
    SEEN32("-infinity", "setp.eq.u32 %p1, %r5, 0xff800000;\n@%p1 mov.b32 %r5, 0xff7fffff;");
    SEEN32("the largest", "setp.eq.u32 %p1, %r5, 0x7f7fffff;\n@%p1 mov.b32 %r5, 0x7f7ffffe;");
}

static void test_other_types(void **state)
{
    const char *ints = "{\"uniform\": [-100, 100], \"dtype\": \"i32\", \"seed\": 3}";
    seen("infinity of f16",
         HEAD ENTRY("first", "2", "ld.global.b16 %h1, [%d1];\nadd.rn.f16 %h2, %h1, %h1;\nst.global.b16 [%d2], %h2;"),
         HEAD ENTRY("first", "2",
                    "ld.global.b16 %h1, [%d1];\nadd.rn.f16 %h2, %h1, %h1;\nsetp.eq.u16 %p1, %h1, 0x7c00;\n@%p1 mov.u16 "
                    "%h2, 0x7bff;\nst.global.b16 [%d2], %h2;"),
         2, "input", NULL);
    seen("a NaN of bf16",
         HEAD ENTRY("first", "2",
                    "ld.global.u16 %h1, [%d1];\nmov.u16 %h2, 0;\nmov.b32 %r5, {%h2, %h1};\nmov.b32 %f1, %r5;\nneg.f32 "
                    "%f2, %f1;\nst.global.u16 [%d2], %h1;"),
         HEAD ENTRY("first", "2",
                    "ld.global.u16 %h1, [%d1];\nmov.u16 %h2, 0;\nmov.b32 %r5, {%h2, %h1};\nmov.b32 %f1, %r5;\nneg.f32 "
                    "%f2, %f1;\nsetp.eq.u16 %p1, %h1, 0x7f81;\n"
                    "@%p1 mov.u16 %h1, 0x7fc1;\nst.global.u16 [%d2], %h1;"),
         2, "weight", FILL("bf16"));
    seen("a NaN of f64", HEAD ENTRY("first", "8", "ld.global.f64 %g1, [%d1];\nst.global.f64 [%d2], %g1;"),
         HEAD ENTRY("first", "8",
                    "ld.global.f64 %g1, [%d1];\nmov.b64 %d5, %g1;\nsetp.eq.u64 %p1, %d5, 0x7ff0000000000001;\n@%p1 "
                    "mov.b64 %d5, 0;\nst.global.u64 [%d2], %d5;"),
         8, "input", FILL("f64"));
    seen("INT_MIN", HEAD ENTRY("first", "4", "ld.global.s32 %r5, [%d1];\nst.global.u32 [%d2], %r5;"),
         HEAD ENTRY("first", "4",
                    "ld.global.s32 %r5, [%d1];\nsetp.eq.s32 %p1, %r5, 0x80000000;\n@%p1 mov.b32 %r5, "
                    "0x7fffffff;\nst.global.u32 [%d2], %r5;"),
         4, "input", ints);
    seen("the smallest i8",
         HEAD ENTRY("first", "1", "ld.global.s8 %h1, [%d1];\nadd.s16 %h2, %h1, %h1;\nst.global.u8 [%d2], %h2;"),
         HEAD ENTRY("first", "1",
                    "ld.global.s8 %h1, [%d1];\nsetp.eq.s16 %p1, %h1, -128;\n@%p1 mov.u16 %h1, -1;\nadd.s16 %h2, %h1, "
                    "%h1;\nst.global.u8 [%d2], %h2;"),
         1, "input", "{\"uniform\": [0, 100], \"dtype\": \"i8\", \"seed\": 3}");
}

/* Copied as eight bytes by a kernel that says no more. */
static void test_unknown(void **state)
{
    static const char *const test[] = {"and.b64 %d6, %d5, 0xffff;\nsetp.eq.u64 %p1, %d6, 0x7c00;",
                                       "and.b64 %d6, %d5, 0xffffffff;\nsetp.eq.u64 %p1, %d6, 0x7f800001;",
                                       "setp.eq.u64 %p1, %d5, 0x7ff0000000000001;"};
    for (int k = 0; k < 3; k++) {
        char wrong[4096],
            *body = strstr(
                strcpy(wrong, HEAD ENTRY("first", "8", "ld.global.b64 %d5, [%d1];\n@@@\nst.global.b64 [%d2], %d5;")),
                "@@@");
        char rest[512];
        strcpy(rest, body + 3);
        sprintf(body, "%s\n@%%p1 mov.b64 %%d5, 0;%s", test[k], rest);
        seen("a pattern", HEAD ENTRY("first", "8", "ld.global.b64 %d5, [%d1];\nst.global.b64 [%d2], %d5;"), wrong, 8,
             "input", NULL);
    }
}

/* The plan of `first` and `second`: on three inputs, and what it says of special values. */
static json_t *planned(struct made *m)
{
    struct dt_err e = {0};
    json_t *plan = NULL;
    must(rw_plan(device, m->p, m->a, NULL, NULL, &plan, &e), &e);
    const json_t *v = json_object_get(plan, "verified");
    assert_true(json_is_true(json_object_get(v, "bitwise")));
    assert_int_equal(json_integer_value(json_object_get(v, "inputs")), 3);
    assert_non_null(json_object_get(v, "special"));
    return plan;
}

static void expect(struct made *m, const char *buffer, const char *dropped, const char *range)
{
    json_t *plan = planned(m), *s = json_object_get(json_object_get(plan, "verified"), "special"),
           *list = json_object_get(s, "range");
    const char *why = json_string_value(json_object_get(json_object_get(s, "dropped"), buffer));
    if ((why != NULL) != (dropped != NULL) || (why && strcmp(why, dropped)))
        fail_msg("%s: %s, not %s", buffer, why ? why : "nothing dropped", dropped ? dropped : "nothing");
    assert_int_equal(json_array_size(list), range != NULL);
    if (range)
        assert_string_equal(json_string_value(json_array_get(list, 0)), range);
    json_t *again = planned(m);
    assert_true(json_equal(json_object_get(plan, "verified"), json_object_get(again, "verified")));
    json_decref(again);
    json_decref(plan);
    done(m);
}

static void test_dropped(void **state)
{
    struct made m;
    make(HEAD ENTRY("first", "4",
                    "ld.global.f32 %f1, [%d1];\nsetp.nan.f32 %p1, %f1, %f1;\n@%p1 trap;\nst.global.f32 [%d2], %f1;")
             DOUBLE,
         4, "input", FILL("f32"), FILL("f32"), true, &m);
    expect(&m, "x", "trap: nan", NULL);
    /* halved until it is small: never */
    make(HEAD ENTRY("first", "4",
                    "ld.global.f32 %f1, [%d1];\nAGAIN:\nmul.rn.f32 %f1, %f1, 0f3F000000;\nsetp.gt.f32 %p1, %f1, "
                    "0f3F800000;\n@%p1 bra AGAIN;\nst.global.f32 [%d2], %f1;") DOUBLE,
         4, "input", FILL("f32"), FILL("f32"), true, &m);
    expect(&m, "x", "hang: infinite", NULL);
    /* a float that is an index: what is large leaves the buffer */
    make(HEAD ENTRY("first", "4",
                    "ld.global.f32 %f1, [%d1];\nabs.f32 %f2, %f1;\ncvt.rzi.s32.f32 %r5, %f2;\nmul.wide.s32 %d5, %r5, "
                    "4;\nadd.s64 %d9, %d9, %d5;\nld.global.f32 %f3, [%d9];\n"
                    "st.global.f32 [%d2], %f3;") DOUBLE,
         4, "input", FILL("f32"), FILL("f32"), true, &m);
    expect(&m, "x", "fault: large, infinite", NULL);
}

#define INDEX "{\"uniform\": [0, 100], \"dtype\": \"i32\", \"seed\": 3}"

static void test_range(void **state)
{
    struct made m;
    make(HEAD ENTRY("first", "4",
                    "ld.global.u32 %r5, [%d1];\nmul.wide.s32 %d5, %r5, 4;\nadd.s64 %d9, %d9, %d5;\nld.global.f32 %f3, "
                    "[%d9];\nst.global.f32 [%d2], %f3;") DOUBLE,
         4, "input", INDEX, FILL("f32"), true, &m);
    expect(&m, "x", NULL, "x");
    /* through the graph: `second` takes an address from what `first` made of x */
    make(HEAD ENTRY("first", "4", "ld.global.u32 %r5, [%d1];\nadd.s32 %r5, %r5, 1;\nst.global.u32 [%d2], %r5;")
             ENTRY("second", "4",
                   "ld.global.u32 %r5, [%d1];\nmul.wide.s32 %d5, %r5, 4;\nadd.s64 %d9, %d9, %d5;\nld.global.f32 %f3, "
                   "[%d9];\nst.global.f32 [%d2], %f3;"),
         4, "input", INDEX, FILL("f32"), true, &m);
    expect(&m, "x", NULL, "x");
    /* a trip count */
    make(HEAD ENTRY("first", "4",
                    "ld.global.u32 %r5, [%d1];\nmov.f32 %f1, 0f00000000;\nAGAIN:\nadd.rn.f32 %f1, %f1, "
                    "0f3F800000;\nadd.s32 %r5, %r5, -1;\nsetp.gt.s32 %p1, %r5, 0;\n@%p1 bra AGAIN;\n"
                    "st.global.f32 [%d2], %f1;") DOUBLE,
         4, "input", INDEX, FILL("f32"), true, &m);
    expect(&m, "x", NULL, "x");
    /* a number */
    make(HEAD ENTRY("first", "4", "ld.global.u32 %r5, [%d1];\ncvt.rn.f32.s32 %f1, %r5;\nst.global.f32 [%d2], %f1;")
             DOUBLE,
         4, "input", INDEX, FILL("f32"), true, &m);
    expect(&m, "x", NULL, NULL);
}

/* One NaN among every eighth of z makes all of y NaN: z goes without, x keeps its own. */
static void test_thinned(void **state)
{
    struct made m;
    make(HEAD ENTRY("first", "4",
                    "ld.global.f32 %f1, [%d1];\nmov.u32 %r5, 1024;\nmov.f32 %f3, 0f00000000;\nAGAIN:\nld.global.f32 "
                    "%f2, [%d9];\nadd.rn.f32 %f3, %f3, %f2;\nadd.s64 %d9, %d9, 32;\n"
                    "add.s32 %r5, %r5, -1;\nsetp.ne.s32 %p1, %r5, 0;\n@%p1 bra AGAIN;\nadd.rn.f32 %f1, %f1, "
                    "%f3;\nst.global.f32 [%d2], %f1;") DOUBLE,
         4, "input", FILL("f32"), FILL("f32"), true, &m);
    json_t *plan = planned(&m), *s = json_object_get(json_object_get(plan, "verified"), "special");
    assert_string_equal(json_string_value(json_object_get(json_object_get(s, "dropped"), "z")),
                        "spreads: large, infinite, nan");
    assert_int_equal(json_integer_value(json_object_get(s, "buffers")), 2);
    json_decref(plan);
    done(&m);
}

static void test_contents(void **state)
{
    struct made m;
    struct rw_contents c[8];
    struct dt_err e = {0};
    make(HEAD ENTRY(
             "first", "4",
             "ld.global.u32 %r5, [%d1];\nmov.b32 {%h1, %h2}, %r5;\nadd.rn.f16 %h1, %h1, %h2;\nmov.b32 %r6, {%h1, "
             "%h2};\nst.global.u32 [%d2], %r6;\n"
             "ld.global.b32 %r7, [%d9];\nsetp.gt.s32 %p1, %r7, 0;\n@%p1 bra OUT;\nst.global.u32 [%d2], %r7;\nOUT:\n"),
         4, "input", NULL, NULL, false, &m);
    must(rw_contents(m.p, c, &e), &e);
    uint32_t x = dt_graph_find_buffer(m.g, "x"), z = dt_graph_find_buffer(m.g, "z");
    assert_int_equal(c[x].kind, RW_KIND_F16);
    assert_false(c[x].branches);
    assert_int_equal(c[z].kind, RW_KIND_I32);
    assert_true(c[z].branches && !c[z].trips && !c[z].addresses);
    done(&m);
}

static int open_device(void **state)
{
    struct dt_err e = {0};
    must(dev_open("soft:h200", &device, &e), &e);
    return 0;
}

static int close_device(void **state)
{
    dev_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32),     cmocka_unit_test(test_other_types),
                                       cmocka_unit_test(test_unknown), cmocka_unit_test(test_dropped),
                                       cmocka_unit_test(test_range),   cmocka_unit_test(test_thinned),
                                       cmocka_unit_test(test_contents)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
