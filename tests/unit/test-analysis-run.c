/* ana_run() end to end on the software device: footprints of kernels against a byte-by-byte account of what they do.
 *
 * A case is a module, launches, and a function that walks blocks and threads as the kernel does and marks each byte
 * that it touches (`mark`). The footprints must be equal, byte by byte, with their evidence. How pairs and classes
 * follow from footprints is test-analysis-maps; whole graphs are tests/corpus.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/hash.h"

enum { R, M, Y, KINDS }; /* read, must-write, may-write */
enum { MAX_BYTES = 16384, MAX_BLOCK = 64 };

static struct dev_device *device;

static uint8_t *marks; /* [block][buffer][byte]: bits 1 << (kind * 3 + evidence) */
static uint32_t nbuf;
static void mark(uint32_t block, uint32_t buffer, int kind, int ev, uint64_t lo, uint64_t n)
{
    assert_true(block < MAX_BLOCK && lo + n <= MAX_BYTES);
    for (uint64_t i = lo; i < lo + n; i++)
        ((uint16_t *)marks)[((size_t)block * nbuf + buffer) * MAX_BYTES + i] |= (uint16_t)(1u << (kind * 3 + ev));
}

struct graph {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *r;
    struct dt_err e;
};

static enum ana_way way; /* every test runs with each recorder */

static int analyse_with(struct graph *x, const char *json, const struct ana_options *o)
{
    struct ana_options mine = o ? *o : (struct ana_options){0};
    mine.way = mine.way ? mine.way : way;
    memset(x, 0, sizeof *x);
    int rc = dt_graph_parse(json, strlen(json), &x->g, &x->e);
    if (!rc)
        rc = dev_prog_new(device, x->g, NULL, NULL, &x->p, &x->e);
    if (!rc)
        rc = ana_run(device, x->p, &mine, &x->r, &x->e);
    return rc;
}

static void analyse(struct graph *x, const char *json, const struct ana_options *o)
{
    if (analyse_with(x, json, o))
        fail_msg("%s: %s%s%s", dt_err_code(x->e.num), x->e.detail ? x->e.detail : "", x->e.log ? "\n" : "",
                 x->e.log ? x->e.log : "");
    nbuf = x->g->nbuffer;
    free(marks);
    marks = calloc((size_t)MAX_BLOCK * nbuf * MAX_BYTES, 2);
}

static void release(struct graph *x)
{
    ana_free(x->r);
    dev_prog_free(x->p);
    dt_graph_free(x->g);
    dt_err_done(&x->e);
}

static bool in_set(struct ana_set s, uint64_t i)
{
    for (uint32_t k = 0; k < s.n; k++)
        if (s.iv[k].lo <= i && i < s.iv[k].hi)
            return true;
    return false;
}

/* Compare launch l with the marks, exactly; marks are cleared. */
static void compare(struct graph *x, uint32_t l)
{
    const struct ana_launch *a = &x->r->launch[l];
    const uint16_t *m = (const uint16_t *)marks;
    static const char *const what[] = {"read", "must-write", "may-write"};
    for (uint32_t b = 0; b < nbuf; b++) {
        const struct ana_access *acc = NULL;
        for (uint32_t k = 0; k < a->naccess; k++)
            if (a->access[k].buffer == b)
                acc = &a->access[k];
        uint16_t *all = calloc(MAX_BYTES, 2);
        for (uint32_t k = 0; k < a->nblock; k++) {
            struct ana_touch t = {0};
            for (uint32_t q = 0; q < a->block[k].ntouch; q++)
                if (a->block[k].touch[q].buffer == b)
                    t = a->block[k].touch[q];
            const struct ana_set got[KINDS] = {t.read, t.must_write, t.may_write};
            for (uint64_t i = 0; i < x->g->buffer[b].bytes; i++) {
                unsigned w = m[((size_t)k * nbuf + b) * MAX_BYTES + i];
                all[i] |= w;
                for (int q = 0; q < KINDS; q++)
                    if (in_set(got[q], i) != ((w >> q * 3 & 7) != 0))
                        fail_msg("launch %s, block %u, %s, byte %lu: %s is %d", x->g->launch[l].name, k,
                                 x->g->buffer[b].name, (unsigned long)i, what[q], in_set(got[q], i));
            }
        }
        for (uint64_t i = 0; i < x->g->buffer[b].bytes; i++)
            for (int ev = 0; ev < 3; ev++) {
                bool rd = all[i] >> ev & 1, wr = (all[i] >> 3 | all[i] >> 6) >> ev & 1;
                if ((acc && in_set(acc->read_by[ev], i)) != rd || (acc && in_set(acc->write_by[ev], i)) != wr)
                    fail_msg("launch %s, %s, byte %lu: evidence %s: read %d, written %d expected", x->g->launch[l].name,
                             x->g->buffer[b].name, (unsigned long)i, ana_evidence_text(ev), rd, wr);
            }
        free(all);
    }
    memset(marks, 0, (size_t)MAX_BLOCK * nbuf * MAX_BYTES * 2);
}

/* A graph document of one CUDA module; `buffers` and `launches` are JSON text with ' for ". */
static char *document(const char *kind, const char *source, const char *buffers, const char *launches)
{
    json_error_t err;
    char *b = strdup(buffers), *l = strdup(launches);
    for (char *p = b; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    for (char *p = l; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *bj = json_loads(b, 0, &err), *lj = json_loads(l, 0, &err);
    if (!bj || !lj)
        fail_msg("%s", err.text);
    json_t *d = json_pack("{s:i, s:s, s:{s:{s:s}}, s:o, s:o}", "dovetail", 1, "name", "t", "modules", "m", kind, source,
                          "buffers", bj, "launches", lj);
    char *text = json_dumps(d, 0);
    json_decref(d);
    free(b), free(l);
    return text;
}

#define XY                                                                                                             \
    "{'x': {'bytes': 4096, 'role': 'input', 'fill': {'uniform': [-1, 1], 'dtype': 'f32', 'seed': 1}},"                 \
    " 'y': {'bytes': 4096, 'role': 'output'}, 'z': {'bytes': 4096, 'role': 'output'}}"

static void guarded_tail(void **state)
{
    char *d = document("cuda",
                       "extern \"C\" __global__ void k(const float *x, float *y, int n)\n"
                       "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * 2; }",
                       XY,
                       "[{'name': 'a', 'module': 'm', 'entry': 'k', 'grid': [9, 1, 1], 'block': [64, 1, 1], 'args':"
                       "[{'buffer': 'x', 'offset': 256}, {'buffer': 'y'}, {'i32': 531}]}]");
    struct graph g;
    analyse(&g, d, NULL);
    for (uint32_t i = 0; i < 9 * 64; i++)
        if (i < 531) {
            mark(i / 64, 0, R, 0, 256 + i * 4, 4);
            mark(i / 64, 1, M, 0, i * 4, 4);
        }
    compare(&g, 0);
    assert_false(g.r->launch[0].self_conflict);
    release(&g);
    free(d);
}

static void guards_that_look_at_data(void **state)
{
    static const char source[] =
        "#define I int i = blockIdx.x * blockDim.x + threadIdx.x\n"
        /* predicated or branched, as NVRTC likes */
        "extern \"C\" __global__ void simple(const float *x, float *y, float *z, int n) { I; if (x[i] > 0) y[i] = "
        "x[i]; }\n"
        "extern \"C\" __global__ void both(const float *x, float *y, float *z, int n) { I; if (x[i] > 0) y[i] = "
        "sqrtf(x[i]) / 3; else z[i] = logf(-x[i]); }\n"
        /* a branch that stays one: barriers cannot be predicated, nor can calls of volatile assembly */
        "extern \"C\" __global__ void branch(const float *x, float *y, float *z, int n) { I; if (x[i] > 0) { asm "
        "volatile(\"nanosleep.u32 1;\"); y[i + 1] = 1; z[2 * i] = 2; } z[i] = 3; }\n"
        "extern \"C\" __global__ void early(const float *x, float *y, float *z, int n) { I; if (x[i] < 0) return; asm "
        "volatile(\"nanosleep.u32 1;\"); if (i < n) y[i] = 1; }\n"
        "extern \"C\" __global__ void either(const float *x, float *y, float *z, int n) { I; if (x[i] > 0 || x[i + "
        "512] > 0) { asm volatile(\"nanosleep.u32 1;\"); y[i] = 1; } }\n"
        "extern \"C\" __global__ void nested(const float *x, float *y, float *z, int n) { I; if (i < n) { if (x[i] > "
        "0) { asm volatile(\"nanosleep.u32 1;\"); if (x[i + 512] > 0) { asm volatile(\"nanosleep.u32 1;\"); y[i] = 1; "
        "} z[i] = 2; } } }\n";
    static const char *const name[] = {"simple", "both", "branch", "early", "either", "nested"};
    char launches[2048] = "[";
    for (unsigned k = 0; k < 6; k++)
        snprintf(launches + strlen(launches), sizeof launches - strlen(launches),
                 "%s{'name': '%s', 'module': 'm', 'entry': '%s', 'grid': [8, 1, 1], 'block': [64, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}, {'i32': 500}]}%s",
                 k ? "," : "", name[k], name[k], k == 5 ? "]" : "");
    char *d = document("cuda", source, XY, launches);
    struct graph g;
    analyse(&g, d, NULL);
    const int D = ANA_DATA_DEPENDENT;
    for (uint32_t k = 0; k < 6; k++) {
        for (uint32_t i = 0; i < 512; i++) {
            uint32_t b = i / 64;
            if (k != 5 || i < 500)
                mark(b, 0, R, 0, i * 4, 4);
            switch (k) {
            case 0: mark(b, 1, Y, D, i * 4, 4); break;
            case 1: mark(b, 1, Y, D, i * 4, 4), mark(b, 2, Y, D, i * 4, 4); break;
            case 2: mark(b, 1, Y, D, i * 4 + 4, 4), mark(b, 2, Y, D, i * 8, 4), mark(b, 2, M, 0, i * 4, 4); break;
            case 3:
                if (i < 500)
                    mark(b, 1, Y, D, i * 4, 4);
                break;
            case 4: mark(b, 0, R, D, (i + 512) * 4, 4), mark(b, 1, Y, D, i * 4, 4); break;
            case 5:
                if (i < 500)
                    mark(b, 0, R, D, (i + 512) * 4, 4), mark(b, 1, Y, D, i * 4, 4), mark(b, 2, Y, D, i * 4, 4);
            }
        }
        compare(&g, k);
    }
    release(&g);
    free(d);
}

/* Loops inside what data decides: still at their own addresses. */
static void loops_that_data_may_skip(void **state)
{
    static const char source[] =
        "extern \"C\" __global__ void rows(const float *x, float *y, float *z, int n)\n"
        "{ if (x[blockIdx.x] <= 0) return; for (int j = threadIdx.x; j < n; j += blockDim.x) y[blockIdx.x * n + j] = "
        "z[blockIdx.x * n + j]; }\n"
        "extern \"C\" __global__ void loop(const float *x, float *y, float *z, int n)\n"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (x[i] > 0) for (int j = 0; j < n; j++) { if (x[512 + j] > "
        "0.5f) z[2 * j] = i;"
        "  y[j * 8 + (i & 7)] = j; } x[i] > 0.9f ? z[2 * i + 1] = 1 : 0; }\n"
        "extern \"C\" __global__ void pick(const float *x, float *y, float *z, int n)\n"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; float s = 0; if (x[i] > 0) { for (int j = 0; j < n; j++) s "
        "+= x[512 + 3 * j]; y[i] = s; }"
        "  else if (x[i] > -0.5f) { for (int j = n; j > 0; j -= 2) z[i + j] = s; } else { y[i + 512] = 2; } }\n";
    char *d =
        document("cuda", source, XY,
                 "[{'name': 'rows', 'module': 'm', 'entry': 'rows', 'grid': [10, 1, 1], 'block': [32, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}, {'i32': 77}]},"
                 "{'name': 'loop', 'module': 'm', 'entry': 'loop', 'grid': [5, 1, 1], 'block': [50, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}, {'i32': 39}]},"
                 "{'name': 'pick', 'module': 'm', 'entry': 'pick', 'grid': [5, 1, 1], 'block': [50, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}, {'i32': 13}]}]");
    struct graph g;
    const int D = ANA_DATA_DEPENDENT;
    analyse(&g, d, NULL);
    for (uint32_t b = 0; b < 10; b++) {
        mark(b, 0, R, 0, b * 4, 4);
        mark(b, 1, Y, D, b * 77 * 4, 77 * 4), mark(b, 2, R, D, b * 77 * 4, 77 * 4);
    }
    compare(&g, 0);
    for (uint32_t i = 0; i < 250; i++) {
        uint32_t b = i / 50;
        mark(b, 0, R, 0, i * 4, 4);
        mark(b, 2, Y, D, (2 * i + 1) * 4, 4);
        for (uint32_t j = 0; j < 39; j++) {
            mark(b, 0, R, D, (512 + j) * 4, 4);
            mark(b, 2, Y, D, 2 * j * 4, 4);
            mark(b, 1, Y, D, (j * 8 + (i & 7)) * 4, 4);
        }
    }
    compare(&g, 1);
    for (uint32_t i = 0; i < 250; i++) {
        uint32_t b = i / 50;
        mark(b, 0, R, 0, i * 4, 4);
        mark(b, 1, Y, D, i * 4, 4), mark(b, 1, Y, D, (i + 512) * 4, 4);
        for (uint32_t j = 0; j < 13; j++)
            mark(b, 0, R, D, (512 + 3 * j) * 4, 4);
        for (uint32_t j = 13; (int)j > 0; j -= 2)
            mark(b, 2, Y, D, (i + j) * 4, 4);
    }
    compare(&g, 2);
    release(&g);
    free(d);
}

/* A loop that runs on for threads that data keeps out of it: the ghost gives up, and the access is widened. */
static void a_ghost_that_does_not_end(void **state)
{
    char *d = document(
        "cuda",
        "extern \"C\" __global__ void k(const float *x, float *y, float *z, int n)\n"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (x[i] > 2.0f)\n"
        "  for (int j = i; j != n; j += 4) { asm volatile(\"nanosleep.u32 1;\"); y[j & 255] = 1; } z[i] = 1; }",
        XY,
        "[{'name': 'a', 'module': 'm', 'entry': 'k', 'grid': [1, 1, 1], 'block': [4, 1, 1], 'args':"
        "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}, {'i32': 256}]}]");
    struct graph g;
    analyse(&g, d, NULL);
    mark(0, 0, R, 0, 0, 16), mark(0, 2, M, 0, 0, 16), mark(0, 1, Y, ANA_DATA_DEPENDENT, 0, 4096);
    compare(&g, 0);
    release(&g);
    free(d);
    /* one that takes 2^30 rounds, by threads that give up in any order, in several passes */
    d = document("cuda",
                 "extern \"C\" __global__ void k(const float *x, float *y, float *z, int n)\n"
                 "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (x[i] > 2.0f)\n"
                 "  for (int j = 0; j < n; j++) y[(i + j * 3) & 1023] = x[(i + j) & 1023]; z[i] = 1; }",
                 XY,
                 "[{'name': 'a', 'module': 'm', 'entry': 'k', 'grid': [16, 1, 1], 'block': [32, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}, {'i32': 1073741824}]}]");
    struct ana_options o = {.max_bytes = 4096};
    analyse(&g, d, &o);
    for (uint32_t b = 0; b < 16; b++) {
        mark(b, 0, R, 0, b * 128, 128), mark(b, 2, M, 0, b * 128, 128);
        mark(b, 0, R, 2, 0, 4096), mark(b, 1, Y, 2, 0, 4096);
    }
    compare(&g, 0);
    release(&g);
    free(d);
}

/* PTX that no compiler would write: generic addresses, vectors, asynchronous copies with a size, devices functions. */
static void hand_written(void **state)
{
    static const char source[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".shared .align 16 .b8 tile[512];\n"
        ".func fill(.param .u64 to) { .reg .b64 %rd<3>; .reg .b32 %r<3>; ld.param.u64 %rd1, [to]; mov.u32 %r1, 1; "
        "st.u32 [%rd1], %r1; ret; }\n"
        ".func (.param .b32 out) twice(.param .b32 in) { .reg .b32 %r<3>; ld.param.u32 %r1, [in]; add.s32 %r2, %r1, "
        "%r1;"
        " st.param.b32 [out], %r2; ret; }\n"
        ".visible .entry copy(.param .u64 x, .param .u64 y, .param .u64 z) { .reg .b64 %rd<20>; .reg .b32 %r<20>; .reg "
        ".pred %p<4>;"
        " .reg .b32 %f<9>; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 32, %r2; ld.param.u64 "
        "%rd1, [x];"
        " ld.param.u64 %rd2, [y]; ld.param.u64 %rd9, [z]; mul.wide.u32 %rd3, %r3, 16; add.s64 %rd4, %rd1, %rd3;"
        " add.s64 %rd5, %rd2, %rd3; mov.u32 %r4, tile; shl.b32 %r5, %r2, 4; add.s32 %r6, %r4, %r5; setp.lt.u32 %p1, "
        "%r3, 50;"
        " selp.b32 %r7, 16, 0, %p1; cp.async.cg.shared.global [%r6], [%rd4], 16, %r7; cp.async.commit_group; "
        "cp.async.wait_group 0;"
        " bar.sync 0; ld.shared.v4.b32 {%f1, %f2, %f3, %f4}, [%r6]; @%p1 st.global.v2.b32 [%rd5+8], {%f1, %f2};"
        /* generic: to shared memory, then to global */
        " cvt.u64.u32 %rd6, %r6; cvta.shared.u64 %rd7, %rd6; st.b32 [%rd7], %r3; ld.b32 %f5, [%rd7];"
        " @!%p1 st.b32 [%rd5], %f5; ret; }\n"
        /* a cache policy is no size, even where its low half is 0; behind a size, the size counts */
        ".visible .entry hints(.param .u64 x, .param .u64 y, .param .u64 z) { .reg .b64 %rd<20>; .reg .b32 %r<20>; "
        ".reg "
        ".pred %p<4>; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 32, %r2; ld.param.u64 %rd1, [x];"
        " ld.param.u64 %rd2, [y]; mul.wide.u32 %rd3, %r3, 16; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;"
        " mov.u32 %r4, tile; shl.b32 %r5, %r2, 4; add.s32 %r6, %r4, %r5; setp.lt.u32 %p1, %r3, 50; selp.b32 %r7, 16, "
        "0, %p1;"
        " mov.b64 %rd10, 0x12F0000000000000; cp.async.cg.shared.global.L2::cache_hint [%r6], [%rd4], 16, %rd10;"
        " { .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0;"
        " cp.async.cg.shared.global.L2::cache_hint [%r6], [%rd5], 16, %r7, p; } cp.async.wait_all; ret; }\n"
        ".visible .entry calls(.param .u64 x, .param .u64 y, .param .u64 z) { .reg .b64 %rd<9>; .reg .b32 %r<9>; "
        "ld.param.u64 %rd1, [z];"
        " ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 "
        "%rd5, %rd2, %rd3;"
        " { .param .b64 a; st.param.b64 [a], %rd4; call fill, (a); }"
        " { .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), twice, (p); ld.param.b32 %r2, [q]; }"
        " st.global.u32 [%rd5], %r2; ret; }\n";
    char *d =
        document("ptx", source, XY,
                 "[{'name': 'copy', 'module': 'm', 'entry': 'copy', 'grid': [2, 1, 1], 'block': [32, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}]},"
                 "{'name': 'calls', 'module': 'm', 'entry': 'calls', 'grid': [1, 1, 1], 'block': [32, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}]},"
                 "{'name': 'hints', 'module': 'm', 'entry': 'hints', 'grid': [2, 1, 1], 'block': [32, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}]}]");
    struct graph g;
    analyse(&g, d, NULL);
    for (uint32_t i = 0; i < 64; i++) {
        if (i < 50)
            mark(i / 32, 0, R, 0, i * 16, 16), mark(i / 32, 1, M, 0, i * 16 + 8, 8);
        else
            mark(i / 32, 1, M, 0, i * 16, 4);
    }
    compare(&g, 0);
    mark(0, 1, M, 0, 0, 128);                   /* the second function touches nothing */
    mark(0, 2, Y, ANA_DATA_DEPENDENT, 0, 4096); /* the first may write where its argument points */
    compare(&g, 1);
    for (uint32_t i = 0; i < 64; i++) {
        mark(i / 32, 0, R, 0, i * 16, 16);
        if (i < 50)
            mark(i / 32, 1, R, 0, i * 16, 16);
    }
    compare(&g, 2);
    release(&g);
    free(d);
}

static void addresses_that_look_at_data(void **state)
{
    static const char source[] = "extern \"C\" __global__ void gather(const int *ix, const float *x, float *y)\n"
                                 "{ int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[ix[i]]; }\n"
                                 "extern \"C\" __global__ void count(const int *ix, unsigned *bins)\n"
                                 "{ int i = blockIdx.x * blockDim.x + threadIdx.x; atomicAdd(&bins[ix[i]], 1u); }\n"
                                 "extern \"C\" __global__ void find(const int *ix, const float *x, float *y)\n"
                                 "{ int i = blockIdx.x * blockDim.x + threadIdx.x; int k = 0; while (k < 7 && x[i + k] "
                                 "< 0.5f) { y[i + k] = k; k++; } }\n"
                                 "extern \"C\" __global__ void tickets(const int *ix, unsigned *next, float *y)\n"
                                 "{ __shared__ unsigned t; if (threadIdx.x == 0) t = atomicAdd(next, 1u); "
                                 "__syncthreads(); y[t * 64 + threadIdx.x] = 1; }\n";
    for (int constant = 0; constant < 2; constant++) {
        char buffers[1024];
        snprintf(buffers, sizeof buffers,
                 "{'ix': {'bytes': 1024, 'role': 'input', 'constant': %s, 'fill': {'uniform': [0, 256], 'dtype': "
                 "'i32', 'seed': 4}},"
                 " 'x': {'bytes': 2048, 'role': 'input', 'fill': {'uniform': [-1, 1], 'dtype': 'f32', 'seed': 1}},"
                 " 'y': {'bytes': 2048, 'role': 'output'}, 'bins': {'bytes': 1024, 'role': 'inout', 'fill': {'zero': "
                 "true}}}",
                 constant ? "true" : "false");
        char *d = document(
            "cuda", source, buffers,
            "[{'name': 'gather', 'module': 'm', 'entry': 'gather', 'grid': [4, 1, 1], 'block': [64, 1, 1], 'args':"
            "[{'buffer': 'ix'}, {'buffer': 'x'}, {'buffer': 'y'}]},"
            "{'name': 'count', 'module': 'm', 'entry': 'count', 'grid': [4, 1, 1], 'block': [64, 1, 1], 'args':"
            "[{'buffer': 'ix'}, {'buffer': 'bins'}]},"
            "{'name': 'find', 'module': 'm', 'entry': 'find', 'grid': [4, 1, 1], 'block': [64, 1, 1], 'args':"
            "[{'buffer': 'ix'}, {'buffer': 'x'}, {'buffer': 'y'}]},"
            "{'memset': {'buffer': 'bins', 'offset': 0, 'bytes': 4, 'value': 0}, 'name': 'zero'},"
            "{'name': 'tickets', 'module': 'm', 'entry': 'tickets', 'grid': [4, 1, 1], 'block': [64, 1, 1], 'args':"
            "[{'buffer': 'ix'}, {'buffer': 'bins'}, {'buffer': 'y'}]}]");
        struct graph g;
        analyse(&g, d, NULL);
        int32_t ix[256];
        dt_fill_bytes(&g.g->buffer[0], 0, (uint8_t *)ix);
        const int E = constant ? ANA_OBSERVED : ANA_DATA_DEPENDENT;
        for (uint32_t i = 0; i < 256; i++) {
            mark(i / 64, 0, R, 0, i * 4, 4);
            mark(i / 64, 2, M, 0, i * 4, 4);
            if (constant)
                mark(i / 64, 1, R, E, (uint64_t)ix[i] * 4, 4);
            else
                mark(i / 64, 1, R, E, 0, 2048);
        }
        compare(&g, 0);
        assert_false(g.r->launch[0].self_conflict);
        for (uint32_t i = 0; i < 256; i++) {
            mark(i / 64, 0, R, 0, i * 4, 4);
            for (int k = 0; k < 2; k++)
                if (constant)
                    mark(i / 64, 3, k ? M : R, E, (uint64_t)ix[i] * 4, 4);
                else
                    mark(i / 64, 3, k ? Y : R, E, 0, 1024);
        }
        compare(&g, 1);
        assert_false(g.r->launch[1].self_conflict); /* integer sums whose result nobody uses */
        /* data decides how long it runs: at least what it did, nothing for certain but the first read */
        const struct ana_launch *l = &g.r->launch[2];
        for (uint32_t k = 0; k < l->nblock; k++)
            for (uint32_t t = 0; t < l->block[k].ntouch; t++) {
                assert_int_equal(l->block[k].touch[t].must_write.n, 0);
                for (uint32_t i = k * 64; i < k * 64 + 70 && l->block[k].touch[t].buffer == 2; i++)
                    assert_true(in_set(l->block[k].touch[t].may_write, i * 4));
                for (uint32_t i = k * 64; i < k * 64 + 70 && l->block[k].touch[t].buffer == 1; i++)
                    assert_true(in_set(l->block[k].touch[t].read, i * 4));
            }
        mark(0, 3, M, 0, 0, 4);
        compare(&g, 3);
        for (uint32_t k = 0; k < 4; k++) {
            mark(k, 3, R, 0, 0, 4), mark(k, 3, M, 0, 0, 4);
            mark(k, 2, Y, ANA_DATA_DEPENDENT, 0, 2048);
        }
        compare(&g, 4);
        assert_true(g.r->launch[4].self_conflict);
        release(&g);
        free(d);
    }
}

static void widths_offsets_and_structs(void **state)
{
    static const char source[] =
        "struct two { const float4 *x; char *y; int n; };\n"
        "extern \"C\" __global__ void mixed(two a, short *z)\n"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; float4 v = a.x[i]; a.y[3 * i + 1] = (char)v.x;"
        "  z[i] = (short)v.y; *(double *)(a.y + 2048 + 8 * i) = v.z; }\n"
        "extern \"C\" __global__ void alias(const float *p, float *q) /* one buffer */\n"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; q[i] = p[i] + p[i + 1]; }\n";
    char *d =
        document("cuda", source, XY,
                 "[{'name': 'mixed', 'module': 'm', 'entry': 'mixed', 'grid': [4, 1, 1], 'block': [32, 1, 1], 'args':"
                 "[{'bytes': '000000000000000000000000000000000000000000000000', 'pointers': [{'at': 0, 'buffer': 'x',"
                 "'offset': 16}, {'at': 8, 'buffer': 'y', 'offset': 0}]}, {'buffer': 'z', 'offset': 2}]},"
                 "{'name': 'alias', 'module': 'm', 'entry': 'alias', 'grid': [2, 1, 1], 'block': [64, 1, 1], 'args':"
                 "[{'buffer': 'y', 'offset': 4}, {'buffer': 'y', 'offset': 2048}]}]");
    struct graph g;
    analyse(&g, d, NULL);
    for (uint32_t i = 0; i < 128; i++) {
        mark(i / 32, 0, R, 0, 16 + i * 16, 16);
        mark(i / 32, 1, M, 0, 3 * i + 1, 1);
        mark(i / 32, 1, M, 0, 2048 + 8 * i, 8);
        mark(i / 32, 2, M, 0, 2 + 2 * i, 2);
    }
    compare(&g, 0);
    for (uint32_t i = 0; i < 128; i++) {
        mark(i / 64, 1, R, 0, 4 + i * 4, 8);
        mark(i / 64, 1, M, 0, 2048 + i * 4, 4);
    }
    compare(&g, 1);
    release(&g);
    free(d);
}

static void grids_loops_and_shared_memory(void **state)
{
    static const char source[] =
        "extern \"C\" __global__ void cube(const float *x, float *y)\n"
        "{ int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
        "  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
        "  y[b * 24 + t] = x[(23 - b) * 24 + t]; }\n"
        "extern \"C\" __global__ void tiles(const float *x, float *y, int n) /* y = transpose of x, 32 by 32, by 8 by "
        "8 tiles */\n"
        "{ __shared__ float t[8][9]; int r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * 8 + threadIdx.x;\n"
        "  t[threadIdx.y][threadIdx.x] = x[r * n + c]; __syncthreads();\n"
        "  y[(blockIdx.x * 8 + threadIdx.y) * n + blockIdx.y * 8 + threadIdx.x] = t[threadIdx.x][threadIdx.y]; }\n"
        "extern \"C\" __global__ void sums(const float *x, float *y, int n)\n"
        "{ __shared__ float part[32]; float s = 0; for (int i = threadIdx.x; i < n; i += 32) s += x[blockIdx.x * n + "
        "i];\n"
        "  part[threadIdx.x] = s; __syncthreads();\n"
        "  for (int k = 16; k; k >>= 1) { if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k]; "
        "__syncthreads(); }\n"
        "  if (threadIdx.x == 0) y[blockIdx.x] = part[0]; }\n";
    char *d =
        document("cuda", source, XY,
                 "[{'name': 'cube', 'module': 'm', 'entry': 'cube', 'grid': [2, 3, 4], 'block': [2, 3, 4], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}]},"
                 "{'name': 'tiles', 'module': 'm', 'entry': 'tiles', 'grid': [4, 4, 1], 'block': [8, 8, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'z'}, {'i32': 32}]},"
                 "{'name': 'sums', 'module': 'm', 'entry': 'sums', 'grid': [10, 1, 1], 'block': [32, 1, 1], 'args':"
                 "[{'buffer': 'x'}, {'buffer': 'y'}, {'i32': 100}]}]");
    struct graph g;
    analyse(&g, d, NULL);
    for (uint32_t b = 0; b < 24; b++)
        mark(b, 1, M, 0, b * 96, 96), mark(b, 0, R, 0, (23 - b) * 96, 96);
    compare(&g, 0);
    for (uint32_t b = 0; b < 16; b++)
        for (uint32_t k = 0; k < 8; k++) {
            mark(b, 0, R, 0, ((b / 4 * 8 + k) * 32 + b % 4 * 8) * 4, 32);
            mark(b, 2, M, 0, ((b % 4 * 8 + k) * 32 + b / 4 * 8) * 4, 32);
        }
    compare(&g, 1);
    for (uint32_t b = 0; b < 10; b++)
        mark(b, 0, R, 0, b * 400, 400), mark(b, 1, M, 0, b * 4, 4);
    compare(&g, 2);
    release(&g);
    free(d);
}

static void module_variables_are_buffers(void **state)
{
    static const char source[] =
        "__device__ float table[64]; __constant__ int shift = 3;\n"
        "extern \"C\" __global__ void put(const float *x) { int i = blockIdx.x * 32 + threadIdx.x; table[i] = x[i]; }\n"
        "extern \"C\" __global__ void get(float *y) { int i = blockIdx.x * 16 + threadIdx.x; y[i + shift] = table[i]; "
        "}\n";
    static const char launches[] =
        "[{'name': 'put', 'module': 'm', 'entry': 'put', 'grid': [2, 1, 1], 'block': [32, 1, 1], 'args':"
        "[{'buffer': 'x'}]},"
        "{'name': 'get', 'module': 'm', 'entry': 'get', 'grid': [4, 1, 1], 'block': [16, 1, 1], 'args':"
        "[{'buffer': 'y'}]}]";
    char *d =
        document("cuda", source,
                 "{'x': {'bytes': 4096, 'role': 'input', 'fill': {'uniform': [-1, 1], 'dtype': 'f32', 'seed': 1}},"
                 " 'y': {'bytes': 4096, 'role': 'output'}, 'm::table': {'bytes': 256, 'role': 'intermediate'}}",
                 launches);
    struct graph g;
    analyse(&g, d, NULL);
    for (uint32_t i = 0; i < 64; i++)
        mark(i / 32, 0, R, 0, i * 4, 4), mark(i / 32, 2, M, 0, i * 4, 4);
    compare(&g, 0);
    for (uint32_t i = 0; i < 64; i++)
        mark(i / 16, 2, R, 0, i * 4, 4), mark(i / 16, 1, M, 0, i * 4 + 12, 4);
    compare(&g, 1);
    const struct ana_edge *e = ana_find_edge(g.r, 0, 1);
    assert_non_null(e);
    assert_int_equal(e->fan, ANA_FAN_ONE_TO_MANY);
    assert_int_equal(e->evidence, ANA_PROVED);
    release(&g);
    free(d);
    d = document("cuda", source, XY, launches);
    assert_int_not_equal(analyse_with(&g, d, NULL), 0); /* written, and not declared */
    assert_non_null(strstr(g.e.detail, "table"));
    release(&g);
    free(d);
}

/* One kernel, many strides: what it touches is worked out from the same integers. */
static void random_strides(void **state)
{
    static const char source[] = "template <class T> __device__ void body(const T *x, T *y, int n, int a, int b, int "
                                 "c, int d, int k, int mx, int my)\n"
                                 "{ int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                 "  for (int t = 0; t < k; t++) if ((i * 7 + t) % 5 < n) y[(unsigned)(i * c + t * d) % "
                                 "my] = x[(unsigned)(i * a + t * b) % mx]; }\n"
                                 "#define K(T) extern \"C\" __global__ void k_##T(const T *x, T *y, int n, int a, int "
                                 "b, int c, int d, int k, int mx, int my)\\\n"
                                 "{ body<T>(x, y, n, a, b, c, d, k, mx, my); }\n"
                                 "K(char) K(short) K(float) K(double) K(float4)\n";
    static const struct {
        const char *name;
        unsigned bytes;
    } type[] = {{"char", 1}, {"short", 2}, {"float", 4}, {"double", 8}, {"float4", 16}};
    enum { N = 40 };
    struct {
        uint32_t type, grid, block, n, a, b, c, d, k, mx, my, offset;
    } v[N];
    size_t size = 65536;
    char *launches = malloc(size);
    strcpy(launches, "[");
    uint64_t c = 0;
#define RND(n) ((uint32_t)(dt_splitmix64(99, c++) >> 33) % (n))
    for (unsigned i = 0; i < N; i++) {
        v[i].type = RND(5), v[i].grid = 1 + RND(12), v[i].block = 1 + RND(70), v[i].n = RND(6);
        v[i].a = RND(5), v[i].b = RND(40), v[i].c = RND(5), v[i].d = RND(40), v[i].k = RND(4);
        uint32_t max = 4096 / type[v[i].type].bytes;
        v[i].offset = RND(3) * 16;
        v[i].mx = 1 + RND(max - 4), v[i].my = 1 + RND(max - 4 - v[i].offset / type[v[i].type].bytes);
        snprintf(launches + strlen(launches), size - strlen(launches),
                 "%s{'name': 'l%u', 'module': 'm', 'entry': 'k_%s', 'grid': [%u, 1, 1], 'block': [%u, 1, 1], 'args': "
                 "[{'buffer': 'x'},"
                 "{'buffer': 'y', 'offset': %u}, {'i32': %u}, {'i32': %u}, {'i32': %u}, {'i32': %u}, {'i32': %u}, "
                 "{'i32': %u},"
                 "{'i32': %u}, {'i32': %u}]}",
                 i ? "," : "", i, type[v[i].type].name, v[i].grid, v[i].block, v[i].offset, v[i].n, v[i].a, v[i].b,
                 v[i].c, v[i].d, v[i].k, v[i].mx, v[i].my);
    }
    strcat(launches, "]");
    char *d = document("cuda", source, XY, launches);
    struct graph g;
    analyse(&g, d, NULL);
    for (uint32_t l = 0; l < N; l++) {
        uint32_t w = type[v[l].type].bytes;
        for (uint32_t i = 0; i < v[l].grid * v[l].block; i++)
            for (uint32_t t = 0; t < v[l].k; t++)
                if ((i * 7 + t) % 5 < v[l].n) {
                    mark(i / v[l].block, 0, R, 0, (uint64_t)((i * v[l].a + t * v[l].b) % v[l].mx) * w, w);
                    mark(i / v[l].block, 1, M, 0, v[l].offset + (uint64_t)((i * v[l].c + t * v[l].d) % v[l].my) * w, w);
                }
        compare(&g, l);
    }
    /* with bitmaps in pages, and in windows of a block or two, the same */
    json_t *one = ana_to_json(g.r, dev_info(device), NULL, true);
    struct graph h;
    analyse(&h, d, &(struct ana_options){.max_bytes = 700});
    json_t *two = ana_to_json(h.r, dev_info(device), NULL, true);
    assert_true(json_equal(one, two));
    json_decref(one);
    json_decref(two);
    release(&g);
    release(&h);
    free(d);
    free(launches);
}

/* Memory that is believed, but that nothing has written: no claim holds. */
static void unwritten_memory(void **state)
{
    static const char source[] =
        "extern \"C\" __global__ void part(const int *x, int *y, int n)\n"
        "{ __shared__ int s[64]; int t = threadIdx.x; if (t < n) s[t] = t; __syncthreads();\n"
        "  y[blockIdx.x * 64 + (s[t ^ 1] & 63)] = x[t]; }\n"
        "extern \"C\" __global__ void tail(const int *x, int *y, int n)\n"
        "{ extern __shared__ short h[]; int t = threadIdx.x; if (t < n) h[t] = t; __syncthreads();\n"
        "  y[blockIdx.x * 64 + (h[t ^ 1] & 63)] = x[t]; }\n"
        "extern \"C\" __global__ void mine(const int *x, int *y, int n)\n"
        "{ int a[8], t = threadIdx.x; for (int k = 0; k < n; k++) a[k] = k;\n"
        "  y[blockIdx.x * 64 + t / 8 * 8 + (a[t & 7] & 7)] = x[t]; }\n";
    static const char *const entry[] = {"part", "tail", "mine"};
    static const int whole[] = {64, 64, 8};
    for (unsigned i = 0; i < 6; i++) {
        char launches[512];
        snprintf(launches, sizeof launches,
                 "[{'name': 'k', 'module': 'm', 'entry': '%s', 'grid': [3, 1, 1], 'block': [64, 1, 1], 'shared': 128,"
                 "'args': [{'buffer': 'x'}, {'buffer': 'y'}, {'i32': %d}]}]",
                 entry[i / 2], whole[i / 2] - (int)(i % 2));
        char *d = document("cuda", source, XY, launches);
        struct graph g;
        analyse(&g, d, NULL);
        for (uint32_t b = 0; b < 3; b++)
            if (i % 2)
                mark(b, 0, R, 2, 0, 4096), mark(b, 1, Y, 2, 0, 4096);
            else
                mark(b, 0, R, 0, 0, 256), mark(b, 1, M, 0, b * 256, 256);
        compare(&g, 0);
        release(&g);
        free(d);
    }
}

/* Atomics write for certain, but not a compare-and-swap. */
static void compare_and_swap(void **state)
{
    char *d = document("cuda",
                       "extern \"C\" __global__ void swap(int *y, int *z)\n"
                       "{ atomicCAS(y + threadIdx.x, 0, 1); z[threadIdx.x] = atomicExch(y + 64 + threadIdx.x, 1); }\n",
                       XY,
                       "[{'name': 'k', 'module': 'm', 'entry': 'swap', 'grid': [1, 1, 1], 'block': [32, 1, 1],"
                       "'args': [{'buffer': 'y'}, {'buffer': 'z'}]}]");
    struct graph g;
    analyse(&g, d, NULL);
    mark(0, 1, R, 0, 0, 128), mark(0, 1, Y, 2, 0, 128);
    mark(0, 1, R, 0, 256, 128), mark(0, 1, M, 0, 256, 128), mark(0, 2, M, 0, 0, 128);
    compare(&g, 0);
    release(&g);
    free(d);
}

static void refusals(void **state)
{
    static const char source[] =
        "extern \"C\" __global__ void far(const float *x, float *y, int n)\n"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }\n"
        "extern \"C\" __global__ void any(const int *x, float *y) { y[x[threadIdx.x] & 15] = 1; }\n"
        "extern \"C\" __global__ void either(const int *x, float *y, float *w)\n"
        "{ float *p = x[threadIdx.x] == 0 ? w : y; p[threadIdx.x] = 1; }\n"
        "__device__ __noinline__ void put(float *p, float *q) { *p = *q + 1; }\n"
        "extern \"C\" __global__ void inside(float *y, float *w) { put(w + threadIdx.x, y + threadIdx.x); }\n"
        "extern \"C\" __global__ void by_data(const int *x, float *y)\n" /* x is 0: word -1 - 64 * block */
        "{ if (threadIdx.x == 7) y[x[threadIdx.x] - 1 - (int)blockIdx.x * 64] = 1; }\n"
        "extern \"C\" __global__ void guarded(const int *x, float *y, int n) { if (x[threadIdx.x] == 0) y[threadIdx.x "
        "+ n] = 1; }\n"
        "extern \"C\" __global__ void crooked(const char *x, float *y) { y[threadIdx.x] = *(const float *)(x + "
        "threadIdx.x * 4 + 2); }\n";
    static const struct {
        const char *launch;
        int num;
        const char *say[3];
    } c[] = {
        {"{'name': 'a', 'module': 'm', 'entry': 'far', 'grid': [17, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'x'}, {'buffer': 'y'}, {'i32': 1025}]}",
         DT_E_BOUNDS,
         {"far", "block (16,0,0)", "PTX line"}},
        {"{'name': 'b', 'module': 'm', 'entry': 'far', 'grid': [1, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'x'}, {'buffer': 'w'}, {'i32': 4}]}",
         DT_E_WEIGHT,
         {"launch b", "w", "weight"}},
        {"{'name': 'c', 'module': 'm', 'entry': 'any', 'grid': [1, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'x'}, {'buffer': 'k'}]}",
         DT_E_WEIGHT,
         {"launch c", "k", "constant"}},
        {"{'name': 'd', 'module': 'm', 'entry': 'either', 'grid': [1, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'x'}, {'buffer': 'y'}, {'buffer': 'w'}]}",
         DT_E_WEIGHT,
         {"launch d", "w", "weight"}},
        {"{'name': 'e', 'module': 'm', 'entry': 'inside', 'grid': [1, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'y'}, {'buffer': 'w'}]}",
         DT_E_WEIGHT,
         {"launch e", "w", "weight"}},
        {"{'name': 'f', 'module': 'm', 'entry': 'by_data', 'grid': [3, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'x'}, {'buffer': 'y'}]}",
         DT_E_BOUNDS,
         {"launch f: kernel by_data, block (0,0,0), thread (7,0,0), PTX line", "outside every buffer of the launch",
          "4 bytes before buffer 'y'"}},
        {"{'name': 'g', 'module': 'm', 'entry': 'guarded', 'grid': [1, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'x'}, {'buffer': 'y'}, {'i32': 1020}]}",
         DT_E_BOUNDS,
         {"launch g: kernel guarded, block (0,0,0), thread (4,0,0), PTX line", "outside every buffer of the launch",
          "buffer 'y' of 4096 bytes"}},
        {"{'name': 'h', 'module': 'm', 'entry': 'crooked', 'grid': [1, 1, 1], 'block': [64, 1, 1], 'args': [{'buffer': "
         "'x'}, {'buffer': 'y'}]}",
         DT_E_BOUNDS,
         {"crooked, block (0,0,0), thread (0,0,0), PTX line", "misaligned", "4 bytes"}},
    };
    for (unsigned i = 0; i < sizeof c / sizeof *c; i++) {
        char launches[1024];
        snprintf(launches, sizeof launches, "[%s]", c[i].launch);
        char *d = document(
            "cuda", source,
            "{'x': {'bytes': 4096, 'role': 'input', 'fill': {'zero': true}}, 'y': {'bytes': 4096, 'role': 'output'},"
            " 'w': {'bytes': 4096, 'role': 'weight', 'fill': {'zero': true}},"
            " 'k': {'bytes': 4096, 'role': 'input', 'constant': true, 'fill': {'zero': true}}}",
            launches);
        struct graph g;
        int rc = analyse_with(&g, d, NULL);
        if (rc != c[i].num)
            fail_msg("case %u: %s: %s", i, dt_err_code(rc), g.e.detail ? g.e.detail : "");
        for (unsigned k = 0; k < 3; k++)
            if (!strstr(g.e.detail, c[i].say[k]))
                fail_msg("case %u: \"%s\" lacks \"%s\"", i, g.e.detail, c[i].say[k]);
        assert_int_equal(dev_reset(device, NULL), 0); /* a fault may be the device's own */
        struct graph h;                               /* the other recorder says it in the same words */
        assert_int_equal(
            analyse_with(&h, d,
                         &(struct ana_options){.way = way == ANA_WAY_NATIVE ? ANA_WAY_INSTRUMENTED : ANA_WAY_NATIVE}),
            rc);
        assert_string_equal(g.e.detail, h.e.detail);
        assert_int_equal(dev_reset(device, NULL), 0);
        release(&h);
        release(&g);
        free(d);
    }
}

/* A kernel may not speak to the recorder itself, and so claim what it does not do. */
static void the_recorders_names(void **state)
{
    static const char *const ptx[] = {
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".extern .func __dovetail_touch (.param .b64 a, .param .b64 o, .param .b32 s, .param .b32 h);\n"
        ".visible .entry k(.param .u64 x, .param .u64 y)\n{\n.reg .b64 %a; ld.param.u64 %a, [y]; call "
        "__dovetail_touch, (%a, 64, 0, 0);\n"
        "st.global.u32 [%a], 1; ret;\n}\n",
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .b64 __dovetail_ctl[16];\n"
        ".visible .entry k(.param .u64 x, .param .u64 y)\n{\n.reg .b64 %a, %b; .reg .b32 %r; .reg .pred %p;\n"
        "ld.param.u64 %b, [x]; ld.param.u64 %a, [y]; ld.global.u32 %r, [%b]; setp.eq.u32 %p, %r, 0; @!%p st.global.u32 "
        "[%a], 1; ret;\n}\n"};
    for (unsigned i = 0; i < 2; i++) {
        char *d = document("ptx", ptx[i], XY,
                           "[{'name': 'a', 'module': 'm', 'entry': 'k', 'grid': [1, 1, 1], 'block': [1, 1, 1], 'args': "
                           "[{'buffer': 'x'}, {'buffer': 'y'}]}]");
        struct graph g;
        assert_int_equal(analyse_with(&g, d, NULL), DT_E_UNSUPPORTED);
        assert_non_null(strstr(g.e.detail, i ? "__dovetail_ctl" : "__dovetail_touch"));
        assert_int_equal(dev_reset(device, NULL), 0);
        release(&g);
        free(d);
    }
}

/* Whichever allocation fails, the answer is "out of memory" or the right one. */
static void memory_runs_out(void **state)
{
    char *d = document("cuda",
                       "__device__ int table[4];"
                       "extern \"C\" __global__ void k(const float *x, float *y, float *z, int n)\n"
                       "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (x[i] > 0) for (int j = i; j < n; j += 4) "
                       "  { y[j & 255] = 1; if (x[j] > 0.5f) z[j] = table[i & 3]; } atomicAdd(&z[512], 1.0f); }",
                       XY,
                       "[{'name': 'a', 'module': 'm', 'entry': 'k', 'grid': [3, 1, 1], 'block': [4, 1, 1], 'args':"
                       "[{'buffer': 'x'}, {'buffer': 'y'}, {'buffer': 'z'}, {'i32': 99}]},"
                       "{'name': 'b', 'module': 'm', 'entry': 'k', 'grid': [3, 1, 1], 'block': [4, 1, 1], 'args':"
                       "[{'buffer': 'y'}, {'buffer': 'y', 'offset': 64}, {'buffer': 'z'}, {'i32': 99}]}]");
    struct graph g;
    analyse(&g, d, NULL);
    json_t *right = ana_to_json(g.r, dev_info(device), NULL, true);
    for (long n = 1, failed = 1; failed; n += n < 300 ? 1 : 7) {
        struct ana_result *r = NULL;
        struct dt_err e = {0};
        long before = dt_alloc_count();
        dt_alloc_fail_after(n);
        int rc = ana_run(device, g.p, &(struct ana_options){.way = way}, &r, &e);
        dt_alloc_fail_after(0);
        failed = dt_alloc_count() - before >= n;
        if (rc && rc != DT_E_NOMEM && rc != DT_E_DEVICE)
            fail_msg("allocation %ld: %s: %s", n, dt_err_code(rc), e.detail);
        if (!rc) {
            json_t *j = ana_to_json(r, dev_info(device), NULL, true);
            assert_true(json_equal(j, right));
            json_decref(j);
        }
        ana_free(r);
        dt_err_done(&e);
    }
    json_decref(right);
    release(&g);
    free(d);
}

static int open_device(void **state)
{
    struct dt_err e = {0};
    if (dev_open("soft", &device, &e)) {
        print_message("%s\n", e.detail ? e.detail : "no device");
        return -1;
    }
    return 0;
}

static int close_device(void **state)
{
    device = dev_close(device);
    free(marks);
    marks = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(guarded_tail),
        cmocka_unit_test(guards_that_look_at_data),
        cmocka_unit_test(loops_that_data_may_skip),
        cmocka_unit_test(a_ghost_that_does_not_end),
        cmocka_unit_test(hand_written),
        cmocka_unit_test(addresses_that_look_at_data),
        cmocka_unit_test(widths_offsets_and_structs),
        cmocka_unit_test(grids_loops_and_shared_memory),
        cmocka_unit_test(module_variables_are_buffers),
        cmocka_unit_test(random_strides),
        cmocka_unit_test(unwritten_memory),
        cmocka_unit_test(compare_and_swap),
        cmocka_unit_test(refusals),
        cmocka_unit_test(the_recorders_names),
        cmocka_unit_test(memory_runs_out),
    };
    way = ANA_WAY_INSTRUMENTED;
    int failed = cmocka_run_group_tests_name("instrumented", t, open_device, close_device);
    way = ANA_WAY_NATIVE;
    return failed + cmocka_run_group_tests_name("native", t, open_device, close_device);
}
