/* Fills bit for bit, against values computed by an independent program (Python, IEEE rounding by its struct module),
 * and the half conversions against an exhaustive oracle that rounds by comparing distances in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "graph/graph.h"

static const struct {
    const char *type, *ends, *seed;
    uint64_t at[4]; /* elements 0, 1, 2, 1000 */
} cases[] = {
    {"f32", "[-1, 1]", "7", {0xbe61a0f8, 0xbf776788, 0x3f4d3080, 0x3f1e371a}},
    {"f32", "[0.1, 0.7]", "12345678901234567890", {0x3f2f35e5, 0x3edeac15, 0x3e9ab7b0, 0x3e9b623c}},
    {"f64", "[-3.3, 9.1]", "1", {0x400dcd8b6541e41a, 0x4017ca703dabad49, 0x40217b1a2f26bc12, 0x4003db99b09733b6}},
    {"f16", "[-2, 2]", "8", {0x3796, 0x372a, 0x3a0d, 0xbaf1}},
    {"bf16", "[-1, 1]", "9", {0x3ebb, 0x3f00, 0xbef0, 0xbf50}},
    {"i8", "[-128, 128]", "3", {0x9d, 0x33, 0x1c, 0xbf}},
    {"u8", "[0, 256]", "3", {0x1d, 0xb3, 0x9c, 0x3f}},
    {"i32", "[-100000, 100000]", "4", {0xffffca73, 0x13291, 0x1188f, 0xd98}},
    {"u64",
     "[0, 1.8446744073709552e+19]",
     "5",
     {0x63033b0000000000, 0xc097310000000000, 0x3b92d30000000000, 0xa5d7170000000000}},
    {"i64",
     "[-9.223372036854776e+18, 9.223372036854776e+18]",
     "6",
     {0x3d64a50000000000, 0xf2419d0000000000, 0x8e6c7d0000000000, 0xa58d930000000000}},
    {"u16", "[5, 5]", "1", {0x5, 0x5, 0x5, 0x5}},
    {"i16", "[-7, 9]", "2", {0x2, 0x4, 0x2, 0xfffa}},
    {"u32", "[0, 4294967296]", "10", {0x8871200, 0xbbff7c00, 0x21876e00, 0x817b7900}},
};

static struct dt_graph *graph_of(const char *buffer)
{
    char text[1024];
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    int n = snprintf(text, sizeof text,
                     "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {\"x\": %s},"
                     "\"launches\": [{\"memset\": {\"buffer\": \"x\", \"bytes\": 1, \"value\": 0}}]}",
                     buffer);
    if (dt_graph_parse(text, (size_t)n, &g, &e) < 0)
        fail_msg("%s: %s", e.pointer, e.detail);
    return g;
}

static void test_uniform(void **state)
{
    static const unsigned where[4] = {0, 1, 2, 1000};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"bytes\": 8192, \"role\": \"input\", \"fill\": {\"uniform\": %s, \"dtype\": \"%s\", \"seed\": %s}}",
                 cases[i].ends, cases[i].type, cases[i].seed);
        /* role input is written by the memset, which is fine */
        struct dt_graph *g = graph_of(text);
        unsigned size = dt_dtype_bytes(g->buffer[0].fill.dtype);
        uint8_t *all = malloc(8192), *part = malloc(8192);
        dt_fill_bytes(&g->buffer[0], 0, all);
        for (int k = 0; k < 4; k++) {
            uint64_t v = 0;
            memcpy(&v, all + where[k] * size, size);
            if (v != cases[i].at[k])
                fail_msg("%s %s seed %s, element %u: 0x%llx, expected 0x%llx", cases[i].type, cases[i].ends,
                         cases[i].seed, where[k], (unsigned long long)v, (unsigned long long)cases[i].at[k]);
        }
        dt_fill_range(&g->buffer[0], 0, 4096, 2048, part);
        assert_memory_equal(part, all + 4096, 2048);
        free(all);
        free(part);
        dt_graph_free(g);
    }
}

/* Long fills are made in pieces, as vectors: halves are those of the f32 with the same seed, subnormals, infinities and
 * NaNs among them, and any range is a piece of the whole. */
static void test_long(void **state)
{
    static const char *const ends[] = {"[-1, 1]",    "[-1e-5, 1e-5]", "[-1e-7, 1e-7]",
                                       "[0, 65504]", "[-65504, 0]",   "[6e-5, 6.2e-5]"};
    enum { COUNT = 3000 };
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        struct dt_graph *g[3];
        static const char *const type[] = {"f32", "f16", "bf16"};
        for (int t = 0; t < 3; t++) {
            char text[512];
            snprintf(text, sizeof text,
                     "{\"bytes\": %d, \"role\": \"input\", \"fill\": {\"uniform\": %s, \"dtype\": \"%s\", \"seed\": "
                     "9}}",
                     COUNT * (t ? 2 : 4), ends[k], type[t]);
            g[t] = graph_of(text);
        }
        static float f[COUNT];
        static uint16_t h[COUNT], e[COUNT], part[COUNT];
        for (int t = 0; t < 3; t++) /* as if it were any float: the range that a reader would refuse, too */
            g[t]->buffer[0].fill.hi *= k == 3 ? 1.5 : 1;
        dt_fill_bytes(&g[0]->buffer[0], 0, (uint8_t *)f);
        dt_fill_bytes(&g[1]->buffer[0], 0, (uint8_t *)h);
        dt_fill_bytes(&g[2]->buffer[0], 0, (uint8_t *)e);
        for (unsigned i = 0; i < COUNT; i++)
            if (h[i] != dt_f32_to_f16(f[i]) || e[i] != dt_f32_to_bf16(f[i]))
                fail_msg("%s, element %u: %a, 0x%04x, 0x%04x", ends[k], i, (double)f[i], h[i], e[i]);
        dt_fill_range(&g[1]->buffer[0], 0, 2 * 77, 2 * 2000, (uint8_t *)part);
        assert_memory_equal(part, h + 77, 2 * 2000);
        for (int t = 0; t < 2; t++) { /* of infinite width: NaNs and infinities */
            g[t]->buffer[0].fill.lo = -3e38;
            g[t]->buffer[0].fill.hi = 3e38;
        }
        dt_fill_bytes(&g[0]->buffer[0], 0, (uint8_t *)f);
        dt_fill_bytes(&g[1]->buffer[0], 0, (uint8_t *)h);
        for (unsigned i = 0; i < COUNT; i++)
            assert_int_equal(h[i], dt_f32_to_f16(f[i]));
        for (int t = 0; t < 3; t++)
            dt_graph_free(g[t]);
    }
}

static void test_other_fills(void **state)
{
    uint8_t out[8], want[8];
    struct dt_graph *g = graph_of("{\"bytes\": 8, \"role\": \"output\"}");
    dt_fill_bytes(&g->buffer[0], 3, out);
    assert_memory_equal(out, memset(want, 0xff, 8), 8);
    dt_graph_free(g);
    g = graph_of("{\"bytes\": 8, \"role\": \"output\", \"fill\": {\"zero\": true}}");
    dt_fill_bytes(&g->buffer[0], 3, out);
    assert_memory_equal(out, memset(want, 0, 8), 8);
    dt_graph_free(g);
    g = graph_of("{\"bytes\": 8, \"role\": \"input\", \"data\": \"AAECAwQF/v8=\"}");
    dt_fill_bytes(&g->buffer[0], 3, out);
    assert_memory_equal(out, "\x00\x01\x02\x03\x04\x05\xfe\xff", 8);
    dt_graph_free(g);
}

/* The seed is raised for inputs, not for weights or constants; SHA-256 is of the content at seed_add 0. */
static void test_seed_add(void **state)
{
    static const char *const roles[3] = {"\"input\"", "\"weight\"", "\"input\", \"constant\": true"};
    uint8_t base[64], moved[64], seed9[64];
    char text[512], sha[DT_SHA256_TEXT], want[DT_SHA256_TEXT];
    struct dt_graph *g9 = graph_of(
        "{\"bytes\": 64, \"role\": \"input\", \"fill\": {\"uniform\": [0, 1], \"dtype\": \"f32\", \"seed\": 9}}");
    dt_fill_bytes(&g9->buffer[0], 0, seed9);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text,
                 "{\"bytes\": 64, \"role\": %s, \"fill\": {\"uniform\": [0, 1], \"dtype\": \"f32\", \"seed\": 7}}",
                 roles[i]);
        struct dt_graph *g = NULL;
        char doc[1024];
        int n = snprintf(
            doc, sizeof doc,
            "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {\"x\": %s, \"y\": {\"bytes\": 64, \"role\": \"output\"}},"
            "\"launches\": [{\"copy\": {\"from\": {\"buffer\": \"x\"}, \"to\": {\"buffer\": \"y\"}, \"bytes\": 1}}]}",
            text);
        assert_int_equal(dt_graph_parse(doc, (size_t)n, &g, NULL), 0);
        dt_fill_bytes(&g->buffer[0], 0, base);
        dt_fill_bytes(&g->buffer[0], 2, moved);
        assert_true((memcmp(base, moved, 64) != 0) == (i == 0));
        if (i == 0)
            assert_memory_equal(moved, seed9, 64);
        assert_int_equal(dt_fill_sha256(&g->buffer[0], sha), 0);
        dt_sha256_text(base, 64, want);
        assert_string_equal(sha, want);
        dt_graph_free(g);
    }
    dt_graph_free(g9);
}

static double f16_value(unsigned h)
{
    return ldexp((h >> 10 & 31) ? 1024 + (h & 1023) : (h & 1023), (int)((h >> 10 & 31) ? (h >> 10 & 31) : 1) - 25);
}

/* Nearest of all non-negative finite halves, infinity standing for 2^16; ties go to the even one. */
static unsigned f16_oracle(double v)
{
    unsigned best = 0;
    for (unsigned h = 0, lo = 0, hi = 0x7c00; h < 40 && lo <= hi; h++) { /* binary search for the largest <= v */
        unsigned mid = (lo + hi) / 2;
        if (f16_value(mid) <= v) {
            best = mid;
            lo = mid + 1;
        } else {
            if (!mid)
                break;
            hi = mid - 1;
        }
    }
    if (best == 0x7c00)
        return best;
    double down = v - f16_value(best), up = f16_value(best + 1) - v;
    return down < up || (down == up && !(best & 1)) ? best : best + 1;
}

static void test_half(void **state)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = dt_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) {
            assert_true(isnan(f) && isnan(dt_f16_to_f32(dt_f32_to_f16(f))));
            continue;
        }
        assert_int_equal(dt_f32_to_f16(f), h);
        if ((h & 0x7fff) < 0x7c00)
            assert_true(fabs((double)f) == f16_value(h & 0x7fff) && !signbit(f) == !(h & 0x8000));
    }
    for (uint64_t i = 0; i < 200000; i++) {
        uint32_t u = (uint32_t)dt_splitmix64(1, i) & 0x7fffffff;
        if (i % 4) /* mostly in the range where it matters: 2^-26 … 2^17 */
            u = (u & 0x7fffff) | (101 + (u >> 23) % 44) << 23;
        if (i % 8 == 1)
            u &= ~0xfffu; /* ties */
        float f;
        memcpy(&f, &u, 4);
        if (isnan(f))
            continue;
        unsigned want = isinf(f) ? 0x7c00 : f16_oracle((double)f);
        if (dt_f32_to_f16(f) != want || dt_f32_to_f16(-f) != (want | 0x8000))
            fail_msg("%a gives 0x%04x, expected 0x%04x", (double)f, dt_f32_to_f16(f), want);
    }
    assert_int_equal(dt_f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(dt_f32_to_bf16(0x1.01p0f), 0x3f80); /* tie to even */
    assert_int_equal(dt_f32_to_bf16(0x1.03p0f), 0x3f82); /* tie to even */
    assert_int_equal(dt_f32_to_bf16(0x1.0101p0f), 0x3f81);
    assert_int_equal(dt_f32_to_bf16(0x1.fffffep127f), 0x7f80);
    assert_true((dt_f32_to_bf16(NAN) & 0x7fff) > 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_uniform), cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_other_fills), cmocka_unit_test(test_seed_add),
                                       cmocka_unit_test(test_half)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
