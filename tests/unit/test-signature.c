/* What changes a signature and what does not, with real PTX through ptx/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/str.h"
#include "cache/signature/signature.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
/* y[i] = x[i] * c, with a helper kernel beside it */
static const char kernel[] =
    HEAD ".visible .entry scale(.param .u64 scale_0, .param .u64 scale_1, .param .f32 scale_2)\n{\n"
         "\t.reg .pred %p<2>;\n\t.reg .f32 %f<4>;\n\t.reg .b32 %r<3>;\n\t.reg .b64 %rd<6>;\n"
         "\tld.param.u64 %rd1, [scale_0];\n\tld.param.u64 %rd2, [scale_1];\n\tld.param.f32 %f1, [scale_2];\n"
         "\tcvta.to.global.u64 %rd1, %rd1;\n\tcvta.to.global.u64 %rd2, %rd2;\n"
         "\tmov.u32 %r1, %tid.x;\n\tmul.wide.u32 %rd3, %r1, 4;\n\tadd.s64 %rd4, %rd1, %rd3;\n"
         "\tld.global.f32 %f2, [%rd4];\n\tmul.f32 %f3, %f2, %f1;\n\tadd.s64 %rd5, %rd2, %rd3;\n"
         "\tsetp.gt.u32 %p1, %r1, 15;\n\t@%p1 bra DONE;\n\tst.global.f32 [%rd5], %f3;\nDONE:\n\tret;\n}\n";
/* The same with other names of entry, parameters, registers, label, other white space, and a comment. */
static const char reformatted[] =
    HEAD "// made by another compiler\n.visible .entry times(.param .u64 in, .param .u64 out,\n  .param .f32 c) {\n"
         ".reg .b64 %a, %b, %off, %from, %to; .reg .b32 %t; .reg .f32 %c, %v, %w; .reg .pred %q;\n"
         "ld.param.u64 %a,[in]; ld.param.u64   %b,[out]; ld.param.f32 %c,[c];\n"
         "cvta.to.global.u64 %a,%a; cvta.to.global.u64 %b,%b; mov.u32 %t,%tid.x; mul.wide.u32 %off,%t,4;\n"
         "add.s64 %from,%a,%off; ld.global.f32 %v,[%from]; mul.f32 %w,%v,%c; add.s64 %to,%b,%off;\n"
         "setp.gt.u32 %q,%t,15; @%q bra $L__end; st.global.f32 [%to],%w;\n$L__end: ret; }\n";

struct spec { /* what a graph is made of */
    const char *ptx, *entry, *module, *x, *h, *y, *ix, *l0, *l1, *grid, *scalar, *bytes, *role, *constant, *arch,
        *offset, *last;
    bool turned; /* members of the document in another order, and things nothing uses */
    int seed;
};
static const struct spec plain = {
    kernel, "scale",        "m",        "x",     "h", "y", "ix",  "first", "second", "[4, 1, 1]", "{\"f32\": 1.5}",
    "1024", "intermediate", "AQIDBA==", "sm_90", "0", "h", false, 7};

static json_t *document(const struct spec *s)
{
    json_t *modules = json_object(), *buffers = json_object(), *launches = json_array(), *doc = json_object();
    json_t *b[4];
    const char *name[4] = {s->x, s->h, s->y, s->ix};
    json_error_t e;
    json_int_t bytes = atoll(s->bytes);
    b[0] = json_pack("{s:I, s:s, s:{s:[i,i], s:s, s:i}}", "bytes", bytes, "role", "input", "fill", "uniform", -1, 1,
                     "dtype", "f32", "seed", s->seed);
    b[1] = json_pack("{s:I, s:s}", "bytes", bytes, "role", s->role);
    b[2] = json_pack("{s:I, s:s}", "bytes", bytes, "role", "output");
    b[3] = json_pack("{s:i, s:s, s:b, s:s}", "bytes", 4, "role", "input", "constant", 1, "data", s->constant);
    if (s->turned) {
        json_object_set_new(modules, "spare", json_pack("{s:s}", "ptx", HEAD));
        json_object_set_new(buffers, "spare", json_pack("{s:i, s:s}", "bytes", 99, "role", "input"));
    }
    json_object_set_new(modules, s->module, json_pack("{s:s}", "ptx", s->ptx));
    for (int i = 0; i < 4; i++)
        json_object_set_new(buffers, name[s->turned ? 3 - i : i], b[s->turned ? 3 - i : i]);
    json_t *grid = json_loads(s->grid, 0, &e), *scalar = json_loads(s->scalar, 0, &e);
    json_array_append_new(launches,
                          json_pack("{s:s, s:s, s:s, s:O, s:[i,i,i], s:[{s:s, s:i}, {s:s}, O]}", "name", s->l0,
                                    "module", s->module, "entry", s->entry, "grid", grid, "block", 64, 1, 1, "args",
                                    "buffer", s->x, "offset", atoi(s->offset), "buffer", s->h, scalar));
    json_array_append_new(launches,
                          json_pack("{s:s, s:s, s:s, s:O, s:[i,i,i], s:[{s:s}, {s:s}, {s:f}]}", "name", s->l1, "module",
                                    s->module, "entry", s->entry, "grid", grid, "block", 64, 1, 1, "args", "buffer",
                                    !strcmp(s->last, "h") ? s->h : s->x, "buffer", s->y, "f32", 2.0));
    json_array_append_new(launches, json_pack("{s:{s:{s:s}, s:{s:s}, s:i}}", "copy", "from", "buffer", s->ix, "to",
                                              "buffer", s->y, "bytes", 4));
    json_decref(grid);
    json_decref(scalar);
    if (s->turned)
        json_object_set_new(doc, "launches", launches);
    json_object_set_new(doc, "dovetail", json_integer(1));
    json_object_set_new(doc, "modules", modules);
    json_object_set_new(doc, "buffers", buffers);
    if (!s->turned)
        json_object_set_new(doc, "launches", launches);
    return doc;
}

static void sign(const struct spec *s, char signature[DT_SHA256_TEXT], char digest[DT_SHA256_TEXT], json_t **factors)
{
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    struct ptx_module *m = NULL;
    json_t *doc = document(s);
    if (dt_graph_from_json(doc, &g, &e) < 0 || ptx_parse(s->ptx, strlen(s->ptx), &m, &e) < 0)
        fail_msg("%s: %s", e.pointer ? e.pointer : "", e.detail);
    const struct ptx_function *f = ptx_find_function(m, s->entry), *entry[3] = {f, f, NULL};
    assert_non_null(f);
    if (cache_signature(g, entry, s->arch, signature, factors, &e) < 0 || dt_graph_digest(g, digest, &e) < 0)
        fail_msg("%s", e.detail);
    ptx_module_free(m);
    dt_graph_free(g);
    json_decref(doc);
}

static struct spec other_names(void)
{
    struct spec s = plain;
    s.module = "kernels";
    s.x = "zz";
    s.h = "b0";
    s.y = "a";
    s.ix = "m";
    s.l0 = "l1";
    s.l1 = "l0";
    s.turned = true;
    s.seed = 99;
    return s;
}

/* Names, order of buffers, unused things, the fill of an input: neither digest nor signature. */
static void test_names(void **state)
{
    struct spec s = other_names();
    char a[DT_SHA256_TEXT], b[DT_SHA256_TEXT], da[DT_SHA256_TEXT], db[DT_SHA256_TEXT];
    sign(&plain, a, da, NULL);
    sign(&s, b, db, NULL);
    assert_string_equal(a, b);
    assert_string_equal(da, db);
    assert_true(!strncmp(a, "sha256:", 7) && strlen(a) == 71 && strcmp(a, da));
}

/* Kernel text that means the same: another digest, the same signature. */
static void test_reformatted(void **state)
{
    struct spec s = other_names();
    char a[DT_SHA256_TEXT], b[DT_SHA256_TEXT], da[DT_SHA256_TEXT], db[DT_SHA256_TEXT];
    s.ptx = reformatted;
    s.entry = "times";
    sign(&plain, a, da, NULL);
    sign(&s, b, db, NULL);
    assert_string_equal(a, b);
    assert_string_not_equal(da, db);
}

/* Each change is another signature, and exactly the named factor differs. */
static void test_changes(void **state)
{
    char *mul = strdup(kernel);
    memcpy(strstr(mul, "mul.f32"), "add.f32", 7);
    char *bound = strdup(kernel);
    memcpy(strstr(bound, ", 15;"), ", 14;", 5);
#define CHANGE(member, value, factor)                                                                                  \
    {                                                                                                                  \
        .s = {.member = value}, .at = offsetof(struct spec, member), .what = factor                                    \
    }
    const struct {
        struct spec s;
        size_t at;
        const char *what;
    } changes[] = {
        CHANGE(ptx, mul, "l0.kernel"),
        CHANGE(ptx, bound, "l1.kernel"),
        CHANGE(grid, "[5, 1, 1]", "l0.geometry"),
        CHANGE(scalar, "{\"f32\": 1.25}", "l0.arguments"),
        CHANGE(scalar, "{\"i32\": 1069547520}", "l0.arguments"),
        CHANGE(bytes, "2048", "b0.shape"),
        CHANGE(role, "output", "b1.shape"),
        CHANGE(constant, "AQIDBQ==", "b3.content"),
        CHANGE(arch, "sm_100", "arch"),
        CHANGE(offset, "4", "l0.arguments"),
        CHANGE(last, "x", "l1.arguments"),
    };
    char a[DT_SHA256_TEXT], b[DT_SHA256_TEXT], d[DT_SHA256_TEXT];
    json_t *fa = NULL;
    sign(&plain, a, d, &fa);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct spec s = plain;
        json_t *fb = NULL, *v;
        const char *key, *given, *kind;
        *(const char **)((char *)&s + changes[i].at) =
            *(const char *const *)((const char *)&changes[i].s + changes[i].at);
        sign(&s, b, d, &fb);
        if (!strcmp(a, b))
            fail_msg("%s does not change the signature", changes[i].what);
        assert_false(json_equal(json_object_get(fa, changes[i].what), json_object_get(fb, changes[i].what)));
        given = strchr(changes[i].what, '.');
        json_object_foreach (fa, key, v) {
            kind = strchr(key, '.');
            if (!json_equal(v, json_object_get(fb, key)) && strcmp(kind ? kind : key, given ? given : changes[i].what))
                fail_msg("%s changes %s too", changes[i].what, key);
        }
        json_decref(fb);
    }
    json_decref(fa);
    free(mul);
    free(bound);
}

/* The factors are what is hashed, and they name no names. */
static void test_factors(void **state)
{
    char a[DT_SHA256_TEXT], d[DT_SHA256_TEXT], again[DT_SHA256_TEXT];
    struct dt_sha256 h;
    const char *key;
    json_t *f = NULL, *v;
    struct spec s = plain;
    s.x = "GIVENNAME";
    s.module = "GIVENMODULE";
    s.l0 = "GIVENLAUNCH";
    sign(&s, a, d, &f);
    assert_int_equal(dt_sha256_init(&h), 0);
    json_object_foreach (f, key, v) {
        assert_true(json_is_string(v));
        dt_sha256_addstr(&h, key);
        dt_sha256_addstr(&h, json_string_value(v));
    }
    dt_sha256_final(&h, again);
    assert_string_equal(a, again);
    char *text = json_dumps(f, 0);
    assert_null(strstr(text, "GIVEN"));
    assert_string_equal(json_string_value(json_object_get(f, "l2.kernel")), "copy");
    assert_string_equal(json_string_value(json_object_get(f, "b3.shape")), "bytes 4 role input constant");
    assert_null(json_object_get(f, "b4.shape"));
    free(text);
    json_decref(f);
}

/* Two mutable variables of a module, bound as buffers: exchanging them in the kernel is another signature, although the
 * canonical text, which has no names, is the same. */
static void test_module_variables(void **state)
{
    static const char format[] =
        HEAD ".visible .global .align 4 .u32 p;\n.visible .global .align 4 .u32 q;\n"
             ".visible .entry k()\n{\n.reg .b32 %%r;\nld.global.u32 %%r, [%s];\nst.global.u32 [%s], %%r;\nret;\n}\n";
    char text[2][512], sum[2][DT_SHA256_TEXT];
    snprintf(text[0], sizeof text[0], format, "p", "q");
    snprintf(text[1], sizeof text[1], format, "q", "p");
    for (int i = 0; i < 2; i++) {
        struct ptx_module *m = NULL;
        struct dt_graph *g = NULL;
        struct dt_err e = {0};
        json_t *doc =
            json_pack("{s:i, s:{s:{s:s}}, s:{s:{s:i, s:s}, s:{s:i, s:s}}, s:[{s:s, s:s, s:[i,i,i], s:[i,i,i], s:[]}]}",
                      "dovetail", 1, "modules", "m", "ptx", text[i], "buffers", "m::p", "bytes", 4, "role", "inout",
                      "m::q", "bytes", 4, "role", "inout", "launches", "module", "m", "entry", "k", "grid", 1, 1, 1,
                      "block", 1, 1, 1, "args");
        assert_non_null(doc);
        if (dt_graph_from_json(doc, &g, &e) < 0 || ptx_parse(text[i], strlen(text[i]), &m, &e) < 0)
            fail_msg("%s: %s", e.pointer ? e.pointer : "", e.detail);
        const struct ptx_function *entry = ptx_find_function(m, "k");
        assert_int_equal(cache_signature(g, &entry, "sm_90", sum[i], NULL, &e), 0);
        ptx_module_free(m);
        dt_graph_free(g);
        json_decref(doc);
    }
    assert_string_not_equal(sum[0], sum[1]);
}

static void test_missing_entry(void **state)
{
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    const struct ptx_function *entry[3] = {NULL, NULL, NULL};
    char a[DT_SHA256_TEXT] = "untouched";
    json_t *doc = document(&plain), *f = NULL;
    assert_int_equal(dt_graph_from_json(doc, &g, &e), 0);
    assert_int_equal(cache_signature(g, entry, "sm_90", a, &f, &e), DT_E_INTERNAL);
    assert_string_equal(a, "untouched");
    assert_null(f);
    dt_err_done(&e);
    dt_graph_free(g);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_reformatted),      cmocka_unit_test(test_changes),
        cmocka_unit_test(test_factors), cmocka_unit_test(test_module_variables), cmocka_unit_test(test_missing_entry)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
