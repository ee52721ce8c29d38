/* Names and types of parameters, from the debug information that NVRTC writes (ptx/dwarf.c); texts that are damaged.
 * Skips (77) without NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "device/device.h"
#include "ptx/dwarf.h"

static const char source[] =
    "struct Inner { short s; float *deep; }; struct P { const float *a; int n; Inner in; };\n"
    "typedef unsigned long long word; enum E { ONE };\n"
    "extern \"C\" __global__ void k(const float *__restrict__ x, P p, word w, bool b, double d, E e, char *const *q) "
    "{ x[0]; }\n"
    "template <class T> __global__ void t(T *o) { *o = 1; } template __global__ void t<int>(int *);\n";

static char *text;
static size_t length;

static void check(const struct ptx_c_value *v, const char *name, const char *type, enum ptx_c_kind kind, uint64_t bytes)
{
    assert_string_equal(v->name, name);
    assert_string_equal(v->type.text, type);
    assert_int_equal(v->type.kind, kind);
    assert_int_equal(v->type.bytes, bytes);
}

static void names_and_types(void **state)
{
    struct ptx_c_source s;
    struct dt_err e = {0};
    assert_int_equal(ptx_c_read(text, length, &s, &e), 0);
    const struct ptx_c_function *k = ptx_c_find(&s, "k"), *t = ptx_c_find(&s, "_Z1tIiEvPT_");
    assert_non_null(k);
    assert_int_equal(k->nparam, 7);
    check(&k->param[0].value, "x", "const float *", PTX_C_POINTER, 8);
    assert_true(k->param[0].value.to.is_const);
    assert_int_equal(k->param[0].value.to.kind, PTX_C_FLOAT);
    check(&k->param[1].value, "p", "P", PTX_C_STRUCT, 32);
    assert_int_equal(k->param[1].nmember, 4);
    check(&k->param[1].member[0], "p.a", "const float *", PTX_C_POINTER, 8);
    check(&k->param[1].member[1], "p.n", "int", PTX_C_SIGNED, 4);
    check(&k->param[1].member[2], "p.in.s", "short", PTX_C_SIGNED, 2);
    check(&k->param[1].member[3], "p.in.deep", "float *", PTX_C_POINTER, 8);
    assert_int_equal(k->param[1].member[3].at, 24);
    check(&k->param[2].value, "w", "word", PTX_C_UNSIGNED, 8);
    check(&k->param[3].value, "b", "bool", PTX_C_UNSIGNED, 1);
    check(&k->param[4].value, "d", "double", PTX_C_FLOAT, 8);
    check(&k->param[5].value, "e", "E", PTX_C_SIGNED, 4);
    check(&k->param[6].value, "q", "char *const *", PTX_C_POINTER, 8);
    assert_non_null(t);
    assert_string_equal(t->name, "t<int>");
    check(&t->param[0].value, "o", "int *", PTX_C_POINTER, 8);
    assert_null(ptx_c_find(&s, "none"));
    ptx_c_done(&s);
    assert_int_equal(ptx_c_read("", 0, &s, &e), 0);
    assert_int_equal(s.nfunction, 0);
    ptx_c_done(&s);
}

/* Anything may stand there: other numbers, less, more. Nothing is said of what comes out but that it comes. */
static void damaged(void **state)
{
    const char *info = strstr(text, ".debug_info"), *abbrev = strstr(text, ".debug_abbrev");
    assert_true(info && abbrev);
    for (uint64_t seed = 0; seed < 4000; seed++) {
        char *s = malloc(length + 1);
        assert_non_null(s);
        memcpy(s, text, length + 1);
        size_t from = (size_t)((seed & 1 ? info : abbrev) - text), n = length - from;
        for (uint64_t k = 0; k <= seed % 5; k++) {
            char *at = s + from + dt_splitmix64(seed, 2 * k) % n;
            if (*at >= '0' && *at <= '9')
                *at = (char)('0' + dt_splitmix64(seed, 2 * k + 1) % 10);
            else if (seed % 7 == 0)
                *at = "{},.: \n-"[dt_splitmix64(seed, 2 * k + 1) % 8];
        }
        size_t len = seed % 3 ? length : from + dt_splitmix64(seed, 99) % n;
        s[len] = 0;
        struct ptx_c_source r;
        struct dt_err e = {0};
        assert_int_equal(ptx_c_read(s, len, &r, &e), 0);
        for (uint32_t i = 0; i < r.nfunction; i++)
            assert_true(r.function[i].name && r.function[i].symbol);
        ptx_c_done(&r);
        free(s);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_types), cmocka_unit_test(damaged)};
    struct dt_err e = {0};
    if (!dev_nvrtc_version())
        return 77;
    if (dev_compile_debug(source, strlen(source), NULL, 0, "sm_90", 60000, &text, &length, &e) < 0)
        return 1;
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    free(text);
    return r;
}
