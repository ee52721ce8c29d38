/* A launch's trace, thread by thread: added up it is the launch's footprints as running its slice records them, each
 * access counts as often as the kernel makes it, and what has no summary has no trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/analysis.h"
#include "base/str.h"

#define BYTES 65536
#define HEAD                                                                                                           \
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 "      \
    "n)\n{\n"                                                                                                          \
    ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<12>;\n.reg .f32 %f<8>;\n"                                     \
    "ld.param.u64 %rd1, [x];\nld.param.u64 %rd2, [y];\nld.param.u32 %r1, [n];\n"                                       \
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n"

struct kernel {
    const char *name, *body;
    uint32_t grid[3], block[3], n;
    uint64_t reads, writes; /* bytes, every time counted: worked out by hand */
    bool loop[2];           /* are reads in one, are writes? */
};

static const struct kernel kernels[] = {
    {"one element a thread, a tail", /* 100 threads of 128 */
     "setp.ge.s32 %p1, %r5, %r1;\n@%p1 ret;\nmul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, "
     "%rd2, %rd3;\n"
     "ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\nret;\n}\n",
     {4, 1, 1},
     {32, 1, 1},
     100,
     400,
     400,
     {false, false}},
    {"vectors, predicated, blocks in two dimensions", /* half of 3 x 2 x 64 threads */
     "mov.u32 %r6, %ctaid.y;\nmul.lo.s32 %r7, %r6, 192;\nadd.s32 %r5, %r5, %r7;\nsetp.lt.s32 %p1, %r4, "
     "32;\nmul.wide.s32 %rd3, %r5, 16;\n"
     "add.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\n@%p1 ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];\n"
     "@%p1 st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4};\nret;\n}\n",
     {3, 2, 1},
     {64, 1, 1},
     0,
     3072,
     3072,
     {false, false}},
    {"the same place in every round", /* 64 threads, 7 rounds */
     "mul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\nmov.u32 %r6, 0;\n"
     "L:\nld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\nadd.s32 %r6, %r6, 1;\nsetp.lt.s32 %p1, %r6, "
     "%r1;\n@%p1 bra L;\nret;\n}\n",
     {2, 1, 1},
     {32, 1, 1},
     7,
     1792,
     1792,
     {true, true}},
    {"another place in every round, only the last stored", /* 64 threads, 5 rounds */
     "mul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\nmov.u32 %r6, 0;\n"
     "L:\nld.global.f32 %f1, [%rd4];\nadd.s64 %rd4, %rd4, 1024;\nadd.s32 %r6, %r6, 1;\nsetp.lt.s32 %p1, %r6, "
     "%r1;\n@%p1 bra L;\n"
     "st.global.f32 [%rd5], %f1;\nret;\n}\n",
     {2, 1, 1},
     {32, 1, 1},
     5,
     1280,
     256,
     {true, false}},
    {"a grid stride, with a round less in some threads", /* 500 elements by 64 threads */
     "mov.u32 %r6, %nctaid.x;\nmul.lo.s32 %r7, %r6, %r3;\nsetp.ge.s32 %p1, %r5, %r1;\n@%p1 ret;\n"
     "L:\nmul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\nld.global.f32 %f1, "
     "[%rd4];\nst.global.f32 [%rd5], %f1;\n"
     "add.s32 %r5, %r5, %r7;\nsetp.lt.s32 %p2, %r5, %r1;\n@%p2 bra L;\nret;\n}\n",
     {2, 1, 1},
     {32, 1, 1},
     500,
     2000,
     2000,
     {true, true}},
};

static struct dev_device *device;

struct sum {
    const struct kernel *k;
    uint8_t *touched[2]; /* reads, writes: by block, by byte of the buffer */
    uint64_t bytes[2], blocks;
};

static int on_box(const struct ana_trace_box *b, void *user)
{
    struct sum *s = user;
    int64_t next[2][1024] = {{0}};
    s->blocks += (uint64_t)b->ext[0] * b->ext[1] * b->ext[2];
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        assert_true(t->reads != t->writes && !t->atomic && t->evidence == ANA_PROVED);
        assert_true((t->loop != 0) == (t->round != NULL) && t->loop != UINT32_MAX &&
                    (t->writes ? s->k->loop[1] : s->k->loop[0]) == (t->round != NULL));
        for (uint32_t k = 0; k < t->n; k++) {
            assert_int_equal(t->buffer[k], t->writes ? 1 : 0);
            if (t->round) { /* one after the other */
                assert_int_equal(t->round[k], next[t->writes][t->thread[k]]);
                next[t->writes][t->thread[k]] += t->times[k];
            }
            for (uint32_t z = 0; z < b->ext[2]; z++)
                for (uint32_t y = 0; y < b->ext[1]; y++)
                    for (uint32_t x = 0; x < b->ext[0]; x++) {
                        const uint32_t at[3] = {x, y, z};
                        int64_t off = t->base[k];
                        uint32_t block = b->lo[0] + x * b->stride[0] +
                                         s->k->grid[0] * (b->lo[1] + y * b->stride[1] +
                                                          s->k->grid[1] * (b->lo[2] + z * b->stride[2]));
                        for (unsigned d = 0; d < 3; d++)
                            off += t->step[d] ? t->step[d][k] * at[d] : 0;
                        for (int64_t r = 0; r < t->times[k]; r++, off += t->by ? t->by[k] : 0) {
                            assert_true(off >= 0 && off + t->bytes <= BYTES);
                            memset(s->touched[t->writes] + (size_t)block * BYTES + off, 1, t->bytes);
                        }
                        s->bytes[t->writes] += t->bytes * (uint64_t)t->times[k];
                    }
        }
    }
    return 0;
}

static char *document(const struct kernel *k, const char *ptx)
{
    struct dt_str s = {0};
    json_t *text = json_string(ptx);
    char *q = json_dumps(text, JSON_ENCODE_ANY);
    dt_str_addf(&s,
                "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": %s}}, \"buffers\": {\"x\": {\"bytes\": %d, \"role\": "
                "\"input\"}, "
                "\"y\": {\"bytes\": %d, \"role\": \"output\"}}, \"launches\": [{\"name\": \"k\", \"module\": \"m\", "
                "\"entry\": \"k\", "
                "\"grid\": [%u,%u,%u], \"block\": [%u,%u,%u], \"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"y\"}, "
                "{\"i32\": %u}]}]}",
                q, BYTES, BYTES, k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2], k->n);
    free(q);
    json_decref(text);
    return dt_str_take(&s);
}

static void one(const struct kernel *k, const char *ptx, int want)
{
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *a = NULL;
    struct ana_options o = {.no_summary = true};
    const char *why = NULL;
    char *text = document(k, ptx);
    if (dt_graph_parse(text, strlen(text), &g, &e) < 0 || dev_prog_new(device, g, NULL, NULL, &p, &e) < 0 ||
        ana_run(device, p, &o, &a, &e) < 0)
        fail_msg("%s: %s", k->name, e.detail);
    uint32_t n = p->step[0].blocks;
    struct sum s = {.k = k, .touched = {calloc(n, BYTES), calloc(n, BYTES)}};
    assert_int_equal(ana_trace_launch(p, 0, on_box, &s, &why, &e), want);
    if (!want)
        assert_non_null(why);
    if (want && !(s.blocks == n && s.bytes[0] == k->reads && s.bytes[1] == k->writes))
        fail_msg("%s: %llu blocks, %llu bytes read, %llu written", k->name, (unsigned long long)s.blocks,
                 (unsigned long long)s.bytes[0], (unsigned long long)s.bytes[1]);
    for (uint32_t b = 0; want && b < n; b++)
        for (uint32_t i = 0; i < a->launch[0].block[b].ntouch; i++) {
            const struct ana_touch *t = &a->launch[0].block[b].touch[i];
            const struct ana_set set = t->buffer ? t->must_write : t->read;
            const uint8_t *have = s.touched[t->buffer] + (size_t)b * BYTES;
            for (uint64_t at = 0, iv = 0; at < BYTES; at++) {
                while (iv < set.n && at >= set.iv[iv].hi)
                    iv++;
                if (have[at] != (iv < set.n && at >= set.iv[iv].lo))
                    fail_msg("%s: block %u, buffer %u, byte %llu", k->name, b, t->buffer, (unsigned long long)at);
            }
        }
    free(s.touched[0]);
    free(s.touched[1]);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    free(text);
}

static void test_kernels(void **state)
{
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        char ptx[4096];
        snprintf(ptx, sizeof ptx, "%s%s", HEAD, kernels[k].body);
        one(&kernels[k], ptx, 1);
    }
}

/* Whether an element is stored depends on what it is. */
static void test_data(void **state)
{
    static const struct kernel k = {"guard on data", NULL, {2, 1, 1}, {32, 1, 1}, 64, 0, 0, {false, false}};
    one(&k,
        HEAD
        "mul.wide.s32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\nld.global.f32 %f1, [%rd4];\n"
        "setp.gt.f32 %p1, %f1, 0f00000000;\n@%p1 st.global.f32 [%rd5], %f1;\nret;\n}\n",
        0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels), cmocka_unit_test(test_data)};
    struct dt_err e = {0};
    if (dev_open("soft", &device, &e) < 0) {
        fprintf(stderr, "no software device: %s\n", e.detail ? e.detail : "?");
        return 1;
    }
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(device);
    return r;
}
