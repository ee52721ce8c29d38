/* What diff-fusion.c, diff-inline.c and diff-cluster.c share: kernels, graphs written in a line each, made into
 * programs with their analysis, two launches joined, and the result held to the original. Each of the three says in a
 * table what its graphs must give. */
#ifndef DT_TESTS_DIFF_GRAPHS_H
#define DT_TESTS_DIFF_GRAPHS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/subject.h"
#include "rewrite/kinds/kinds-priv.h"

/* Kernels, text of a module. */
#define K_GEMM                                                                                                         \
    "extern \"C\" __global__ void gemm(const float *a, const float *b, float *c, int n, int k) {\n"                    \
    "  __shared__ float as[16][17], bs[16][16];\n"                                                                     \
    "  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx; float acc = "   \
    "0;\n"                                                                                                             \
    "  for (int t = 0; t < k; t += 16) {\n"                                                                            \
    "    as[ty][tx] = a[row * k + t + tx]; bs[ty][tx] = b[(t + ty) * n + col]; __syncthreads();\n"                     \
    "    for (int i = 0; i < 16; i++) acc += as[ty][i] * bs[i][tx];\n"                                                 \
    "    __syncthreads(); }\n"                                                                                         \
    "  c[row * n + col] = acc; }\n"
#define K_BIAS                                                                                                         \
    "extern \"C\" __global__ void bias(const float *h, const float *__restrict__ b, float *y, int n, int cols) {\n"    \
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = h[i] + b[i % cols]; }\n"
#define K_GELU                                                                                                         \
    "extern \"C\" __global__ void gelu(const float *__restrict__ h, float *y, int n) {\n"                              \
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float v = h[i];\n"                           \
    "  y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); }\n"
#define K_SCALE                                                                                                        \
    "extern \"C\" __global__ void scale(float *x, float f, int n) {\n"                                                 \
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * f; }\n"
#define K_SOFTMAX                                                                                                      \
    "extern \"C\" __global__ void softmax(const float *x, float *y, int cols) {\n"                                     \
    "  extern __shared__ float s[]; int r = blockIdx.x, t = threadIdx.x; float m = -1e30f;\n"                          \
    "  for (int i = t; i < cols; i += blockDim.x) m = fmaxf(m, x[r * cols + i]);\n"                                    \
    "  s[t] = m; __syncthreads();\n"                                                                                   \
    "  for (int k = blockDim.x / 2; k; k >>= 1) { if (t < k) s[t] = fmaxf(s[t], s[t + k]); __syncthreads(); }\n"       \
    "  m = s[0]; __syncthreads(); float z = 0;\n"                                                                      \
    "  for (int i = t; i < cols; i += blockDim.x) z += expf(x[r * cols + i] - m);\n"                                   \
    "  s[t] = z; __syncthreads();\n"                                                                                   \
    "  for (int k = blockDim.x / 2; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }\n"                   \
    "  z = s[0];\n"                                                                                                    \
    "  for (int i = t; i < cols; i += blockDim.x) y[r * cols + i] = expf(x[r * cols + i] - m) / z; }\n"
#define K_FLIP                                                                                                         \
    "extern \"C\" __global__ void flip(const float *x, float *y, int cols) {\n"                                        \
    "  int r = blockIdx.y * 16, c = blockIdx.x * 16, tx = threadIdx.x, ty = threadIdx.y;\n"                            \
    "  y[(r + ty) * cols + c + tx] = x[(r + tx) * cols + c + ty] - 3.0f; }\n"
#define K_CUBE                                                                                                         \
    "extern \"C\" __global__ void cube(const float *x, float *y) {\n"                                                  \
    "  int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"                                 \
    "  int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"                                      \
    "  int n = blockDim.x * blockDim.y * blockDim.z; y[b * n + i] = x[b * n + i] * (float)(blockIdx.y + 1) + "         \
    "(float)threadIdx.z; }\n"
#define K_VEC4                                                                                                         \
    "extern \"C\" __global__ void vec4(const float4 *x, float4 *y) {\n"                                                \
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; float4 v = x[i]; v.x += 1; v.y *= 2; v.z -= 3; v.w *= v.w; "     \
    "y[i] = v; }\n"
#define K_SHIFT                                                                                                        \
    "extern \"C\" __global__ void shift(const float *x, float *y, int n) {\n"                                          \
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] + (i ? x[i - 1] : 0.0f); }\n"

/* Parts of a graph document: buffers (an input or weight with a fill, an intermediate, an output, an inout of zeros),
 * launches, arguments. */
#define F(n, bytes, role)                                                                                              \
    "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"" role                                                             \
    "\", \"fill\": {\"uniform\": [-2, 2], \"dtype\": \"f32\", \"seed\": 5}}"
#define I(n, bytes) "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"intermediate\"}"
#define O(n, bytes) "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"output\"}"
#define Z(n, bytes) "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"inout\", \"fill\": {\"zero\": true}}"
#define LM(m, name, entry, grid, block, shared, args)                                                                  \
    "{\"name\": \"" name "\", \"module\": \"" m "\", \"entry\": \"" entry "\", \"grid\": " grid ", \"block\": " block  \
    ", \"shared\": " #shared ", \"args\": [" args "]}"
#define L(name, entry, grid, block, args) LM("m", name, entry, grid, block, 0, args)
#define LS(name, entry, grid, block, shared, args) LM("m", name, entry, grid, block, shared, args)
#define B(n) "{\"buffer\": \"" n "\"}"
#define BO(n, o) "{\"buffer\": \"" n "\", \"offset\": " #o "}"
#define N(v) "{\"i32\": " #v "}"

static struct dev_device *device;

/* The document: module "m" is this CUDA text, "t" this PTX (NULL: there is none). */
static inline char *graph_text(const char *cuda, const char *ptx, const char *buffers, const char *launches)
{
    json_t *m = ptx ? json_pack("{s:{s:s},s:{s:s}}", "m", "cuda", cuda, "t", "ptx", ptx)
                    : json_pack("{s:{s:s}}", "m", "cuda", cuda);
    struct dt_str s = {0};
    char *q = json_dumps(m, 0);
    dt_str_addf(&s, "{\"dovetail\": 1, \"name\": \"t\", \"modules\": %s, \"buffers\": {%s}, \"launches\": [%s]}", q,
                buffers, launches);
    free(q);
    json_decref(m);
    return dt_str_take(&s);
}

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};

static inline void made_done(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
    memset(m, 0, sizeof *m);
}

static inline void make(const char *text, json_t *doc, struct made *m)
{
    struct dt_err e = {0};
    int r = text ? dt_graph_parse(text, strlen(text), &m->g, &e) : dt_graph_from_json(doc, &m->g, &e);
    if (r < 0 || dev_prog_new(device, m->g, NULL, NULL, &m->p, &e) < 0 || ana_run(device, m->p, NULL, &m->a, &e) < 0)
        fail_msg("%s\n%s", e.detail ? e.detail : "?", e.log ? e.log : "");
}

static uint32_t join_size;  /* blocks of a cluster at level `cluster`; 0: what is best where all blocks take as long */
static char join_note[256]; /* of what was joined in clusters: per intermediate "h: 4 owners, columns" … */

/* 1 joined, 0 refused; the fused graph in *ret, its new module called f`n`. */
static inline int join(const struct made *m, uint32_t p, uint32_t c, enum rw_level level, json_t **ret,
                       struct dt_str *why, unsigned n)
{
    const struct rw_state now = {.graph = m->g, .prog = m->p, .ana = m->a};
    const uint32_t pair[2] = {p, c};
    struct rw_edit x;
    struct rw_cand cand;
    struct dt_err e = {0};
    if (rw_edit_init(&x, &rw_block_fusion, dev_info(device), NULL, &now, pair, 2, &e) < 0 ||
        rw_cand_init(&cand, dev_info(device), m->p, m->a, NULL, p, c, &e) < 0)
        fail_msg("%s", e.detail);
    double alike[2] = {1, 1}, us;
    cand.size = cand.lists.n && join_size ? join_size : rw_cluster_size(&cand, alike, &us);
    int r = rw_fuse(&cand, level, why, &e);
    for (uint32_t k = 0, at = (uint32_t)(join_note[0] = 0);
         r == 0 && level == RW_LEVEL_CLUSTER && k < cand.nredirect && at < sizeof join_note; k++)
        at += cand.redirect[k].own
                  ? (uint32_t)snprintf(join_note + at, sizeof join_note - at, "%s%s: own", k ? ", " : "",
                                       m->g->buffer[cand.redirect[k].buffer].name)
                  : (uint32_t)snprintf(join_note + at, sizeof join_note - at, "%s%s: %u %s", k ? ", " : "",
                                       m->g->buffer[cand.redirect[k].buffer].name, cand.redirect[k].owners,
                                       cand.redirect[k].owners == 1 ? "owner"
                                       : cand.redirect[k].by_rows   ? "rows"
                                       : cand.redirect[k].pitch     ? "columns"
                                                                    : "runs");
    if (r == 0)
        r = rw_fuse_part(&cand, &x, &e);
    if (r < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    if (r == 0) {
        snprintf(x.part.p[0].module, sizeof x.part.p[0].module, "f%u", n);
        *ret = rw_edit_graph(&x);
        assert_non_null(*ret);
    }
    rw_cand_done(&cand);
    rw_edit_done(&x);
    return r == 0;
}

/* The same bytes, under 3 inputs and 4 block orders. SHOW in the environment prints what they came from. */
static inline void hold(const struct made *original, const struct made *now, const char *what)
{
    struct dt_err e = {0};
    if (rw_verify(device, original->p, now->p, 3, 4, &e) == 0)
        return;
    if (getenv("SHOW"))
        puts(now->p->module[now->g->nmodule - 1].ptx);
    fail_msg("%s: %s", what, e.detail ? e.detail : "?");
}

/* A fused graph of one launch less, held to the original. */
static inline void hold_joined(const struct made *m, json_t *doc, const char *what)
{
    struct made n = {0};
    make(NULL, doc, &n);
    assert_int_equal(n.g->nlaunch + 1, m->g->nlaunch);
    hold(m, &n, what);
    made_done(&n);
}

/* Join the first edge that can be at the first level that it can be, and again, until `left` launches are left; held to
 * the original. */
static inline void chain(const char *name, const char *text, enum rw_level from, enum rw_level to, unsigned left)
{
    struct made m = {0}, now = {0};
    unsigned n = 0;
    make(text, NULL, &m);
    make(text, NULL, &now);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t k = 0; k < now.a->nedge && !more; k++)
            /* clusters end a chain */
            for (int l = (int)from; l <= (int)to && !more;
                 l += l == RW_LEVEL_SHARED ? RW_LEVEL_GLOBAL - RW_LEVEL_SHARED : 1) {
                const struct ana_edge *x = &now.a->edge[k];
                struct dt_str why = {0};
                json_t *doc = NULL;
                if (join(&now, x->producer, x->consumer, (enum rw_level)l, &doc, &why, n)) {
                    n++;
                    made_done(&now);
                    make(NULL, doc, &now);
                    more = true;
                } else if (getenv("SHOW")) {
                    printf("chain: %s -> %s, %s: %s\n", now.g->launch[x->producer].name,
                           now.g->launch[x->consumer].name, rw_level_text((enum rw_level)l), dt_plain(why.s));
                }
                json_decref(doc);
                dt_str_done(&why);
            }
    }
    if (now.g->nlaunch != left)
        fail_msg("%s: %u launches are left, wanted %u", name, now.g->nlaunch, left);
    hold(&m, &now, name);
    made_done(&m);
    made_done(&now);
}

/* main: on the software device, each of `tests`. */
static inline int run_all(const char *name, const struct CMUnitTest *tests, size_t n)
{
    struct dt_err e = {0};
    if (dev_open("soft", &device, &e) < 0) {
        fprintf(stderr, "no software device: %s\n", e.detail ? e.detail : "?");
        return 1;
    }
    if (!dev_nvrtc_version()) {
        printf("no NVRTC: skipped\n");
        return 77;
    }
    int r = _cmocka_run_group_tests(name, tests, n, NULL, NULL);
    dev_close(device);
    return r;
}

#endif
