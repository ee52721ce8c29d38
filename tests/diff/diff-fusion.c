/* Fused against original, on the software device: every edge of every graph below is joined at three levels, whether it
 * brings anything or not, and the result is held to the original byte by byte under several inputs and block orders
 * with the race detector. What each case must give (joined or refused, and why) is written beside it. Last, each graph
 * is joined until nothing is left to join: chains.
 */
#include "base/subject.h"
#include "graphs.h"
#include "tests/skip.h"

static const char source[] = K_GEMM K_BIAS K_GELU K_SCALE K_SOFTMAX
    "extern \"C\" __global__ void rowsum(const float *x, float *y, int cols) {\n"
    "  int lane = threadIdx.x % 32, r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; float v = 0;\n"
    "  for (int i = lane; i < cols; i += 32) v += x[r * cols + i];\n"
    "  for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);\n"
    "  if (lane == 0) y[r] = v; }\n"
    "extern \"C\" __global__ void tile(const float *x, float *y, int cols) {\n"
    "  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x; y[r * cols + c] = x[r * cols + c] * "
    "2.0f + 1.0f; }\n" K_FLIP "extern \"C\" __global__ void flip8(const float *x, float *y, int cols) {\n"
    "  int r = blockIdx.y * 16, c = blockIdx.x * 16, tx = threadIdx.x, ty = threadIdx.y;\n"
    "  for (int k = 0; k < 2; k++) y[(r + ty + 8 * k) * cols + c + tx] = x[(r + tx) * cols + c + ty + 8 * k] - 3.0f; "
    "}\n" K_CUBE K_VEC4 "extern \"C\" __global__ void half_guard(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (x[i] > 0) y[i] = x[i]; }\n" K_SHIFT
    "extern \"C\" __global__ void many(const float *x, float *y, int n) {\n"
    "  int b = (int)((blockIdx.x * 5 + 3) % gridDim.x), i = b * (int)blockDim.x + (int)threadIdx.x; y[i] = x[i] * "
    "3.0f; }\n"
    "extern \"C\" __global__ void leave(const float *x, float *y, int n) {\n"
    "  __shared__ float s[128]; if (blockIdx.x == 3) return; int i = blockIdx.x * 128 + threadIdx.x; s[threadIdx.x] = "
    "x[i];\n"
    "  __syncthreads(); y[i] = s[127 - threadIdx.x]; }\n"
    "extern \"C\" __global__ void slab(const float *x, float *y, int n) {\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] * 1.25f - 0.5f; "
    "}\n"
    /* blocks that are no whole warps: a product of 3 by 16 tiles; a tree of sums in place; a number that a thread adds
     * to until it is there; a loop as long as a value says that another thread writes over */
    "extern \"C\" __global__ void product(const float *a, const float *b, float *c, int n, int k) {\n"
    "  __shared__ float s[3][16], t[16][16]; int x = threadIdx.x, y = threadIdx.y, r = blockIdx.y * 3 + y, q = "
    "blockIdx.x * 16 + x;\n"
    "  float v = 0; for (int i = 0; i < k; i += 16) { s[y][x] = a[r * k + i + x]; for (int j = y; j < 16; j += 3) "
    "t[j][x] = b[(i + j) * n + q];\n"
    "    __syncthreads(); for (int j = 0; j < 16; j++) v += s[y][j] * t[j][x]; __syncthreads(); }\n"
    "  c[r * n + q] = v; }\n"
    "extern \"C\" __global__ void tree(const float *x, float *y, int n) {\n"
    "  __shared__ float s[256]; int t = threadIdx.x, b = blockDim.x; s[t] = x[blockIdx.x * b + t]; __syncthreads();\n"
    "  for (int k = 128; k; k /= 2) { if (t < k && t + k < b) s[t] += s[t + k]; __syncthreads(); s[t] "
    "*= 0.75f; __syncthreads(); }\n"
    "  y[blockIdx.x * b + t] = s[t] + s[0]; }\n"
    "extern \"C\" __global__ void folds(const float *x, float *y, int n) {\n"
    "  __shared__ float s[256]; volatile float *v = s; int t = threadIdx.x, b = blockDim.x, w = t & ~31, e = b - w < "
    "32 ? "
    "b : w + 32;\n"
    "  s[t] = x[blockIdx.x * b + t]; __syncthreads(); if (e - w < 32 || w == 0) for (int k = 1; k < 32; k *= 2) if (t "
    "+ k "
    "< e) v[t] += v[t + k];\n"
    "  __syncthreads(); y[blockIdx.x * b + t] = s[t] + s[w]; }\n"
    "extern \"C\" __global__ void climbs(float *x, float *y, int n) {\n"
    "  __shared__ float s[64]; int t = threadIdx.x, i = blockIdx.x * blockDim.x + t; x[i] = x[i] * 0.5f; s[t] = x[i];\n"
    "  __syncthreads(); y[i] = s[blockDim.x - 1 - t]; }\n"
    "extern \"C\" __global__ void until(float *x, float *y, int n) {\n"
    "  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t; float v = x[i]; x[i] = 1; while (v > 0) v -= 0.25f;\n"
    "  __syncthreads(); y[i] = v; }\n"
    "extern \"C\" __global__ void votes(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = __syncthreads_count(x[i] > 0); }\n"
    "extern \"C\" __global__ void lanes(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = __shfl_xor_sync(0xffffffffu, x[i], 1); }\n";

struct want {
    const char *first, *second;
    /* "shared": joined everywhere; "global": not there; NULL: refused. In clusters: where there is something to share
     * out */
    const char *level;
    const char *reason; /* of what is not joined */
};
struct graph {
    const char *name, *buffers, *launches;
    struct want want[6];
    unsigned left; /* launches after all has been joined */
};

/* clang-format off */
static const struct graph graphs[] = {
    {"gemm-bias-gelu: tiles, then rows of other thread counts",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," F("b", 256, "weight") "," I("h", 16384) ","
     I("g", 16384) "," O("y", 16384),
     L("gemm", "gemm", "[4,4,1]", "[16,16,1]", B("a") "," B("w") "," B("h") "," N(64) "," N(64)) ","
     L("bias", "bias", "[32,1,1]", "[128,1,1]", B("h") "," B("b") "," B("g") "," N(4096) "," N(64)) ","
     L("gelu", "gelu", "[8,1,1]", "[512,1,1]", B("g") "," B("y") "," N(4096)),
     {{"gemm", "bias", "shared", NULL}, {"bias", "gelu", "shared", NULL}},
     1},
    {"one producer feeds three consumers",
     F("x", 18432, "input") "," F("b", 1536, "weight") "," I("h", 18432) "," O("y", 18432),
     L("p", "bias", "[12,1,1]", "[384,1,1]", B("x") "," B("b") "," B("h") "," N(4608) "," N(384)) ","
     L("c", "gelu", "[36,1,1]", "[128,1,1]", B("h") "," B("y") "," N(4608)),
     {{"p", "c", "shared", NULL}},
     1},
    {"two producers of 128 for a consumer of 256, read by .nc",
     F("x", 16384, "input") "," F("b", 512, "weight") "," I("h", 16384) "," O("y", 16384),
     L("p", "bias", "[32,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(4096) "," N(128)) ","
     L("c", "gelu", "[16,1,1]", "[256,1,1]", B("h") "," B("y") "," N(4096)),
     {{"p", "c", "shared", NULL}},
     1},
    {"tiles at a constant pitch, transposed inside",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     L("p", "tile", "[4,4,1]", "[16,16,1]", B("x") "," B("h") "," N(64)) ","
     L("c", "flip", "[4,4,1]", "[16,16,1]", B("h") "," B("y") "," N(64)),
     {{"p", "c", "shared", NULL}},
     1},
    {"tiles at a pitch that is no power of two, fewer threads in the consumer",
     F("x", 30720, "input") "," I("h", 30720) "," O("y", 30720),
     L("p", "tile", "[5,6,1]", "[16,16,1]", B("x") "," B("h") "," N(80)) ","
     L("c", "flip8", "[5,6,1]", "[16,8,1]", B("h") "," B("y") "," N(80)),
     {{"p", "c", "shared", NULL}},
     1},
    {"in place: the consumer reads and writes the intermediate",
     F("x", 8192, "input") "," F("b", 512, "weight") "," I("h", 8192) "," O("y", 8192),
     L("p", "bias", "[16,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(2048) "," N(128)) ","
     L("s", "scale", "[8,1,1]", "[256,1,1]", B("h") ",{\"f32\": 1.5}," N(2048)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)),
     {{"p", "s", "shared", NULL}, {"s", "c", "global", "producer reads it"}},
     1},
    {"in place on an inout buffer",
     F("x", 8192, "inout") "," O("y", 8192),
     L("s", "scale", "[8,1,1]", "[256,1,1]", B("x") ",{\"f32\": 1.5}," N(2048)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("y") "," N(2048)),
     {{"s", "c", "global", "producer reads it"}},
     1},
    {"a further reader keeps the global store",
     F("x", 8192, "input") "," F("b", 512, "weight") "," I("h", 8192) "," O("y", 8192) "," O("z", 8192),
     L("p", "bias", "[16,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(2048) "," N(128)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)) ","
     L("d", "shift", "[16,1,1]", "[128,1,1]", B("h") "," B("z") "," N(2048)),
     {{"p", "c", "shared", NULL}, {"p", "d", "shared", NULL}},
     1},
    {"the intermediate is an output, and lies at an offset",
     F("x", 8192, "input") "," F("b", 512, "weight") "," O("h", 16384) "," O("y", 8192),
     L("p", "bias", "[16,1,1]", "[128,1,1]", B("x") "," B("b") "," BO("h", 8192) "," N(2048) "," N(128)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", BO("h", 8192) "," B("y") "," N(2048)),
     {{"p", "c", "shared", NULL}},
     1},
    {"the same view at an offset, as an intermediate",
     F("x", 8192, "input") "," F("b", 512, "weight") "," I("h", 16384) "," O("y", 8192),
     L("p", "bias", "[16,1,1]", "[128,1,1]", B("x") "," B("b") "," BO("h", 8192) "," N(2048) "," N(128)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", BO("h", 8192) "," B("y") "," N(2048)),
     {{"p", "c", "shared", NULL}},
     1},
    {"three-dimensional grids and blocks",
     F("x", 24576, "input") "," I("h", 24576) "," O("y", 24576),
     L("p", "cube", "[2,3,4]", "[8,4,8]", B("x") "," B("h")) ","
     L("c", "cube", "[4,3,2]", "[4,8,8]", B("h") "," B("y")),
     {{"p", "c", "shared", NULL}},
     1},
    {"dynamic shared memory on both sides; over 48 KB together",
     F("x", 32768, "input") "," I("h", 32768) "," I("g", 32768) "," O("y", 32768),
     LS("p", "softmax", "[16,1,1]", "[128,1,1]", 50000, B("x") "," B("h") "," N(512)) ","
     LS("c", "softmax", "[16,1,1]", "[64,1,1]", 256, B("h") "," B("g") "," N(512)) ","
     L("d", "gelu", "[32,1,1]", "[256,1,1]", B("g") "," B("y") "," N(8192)),
     {{"p", "c", "shared", NULL}, {"c", "d", "shared", NULL}},
     1},
    {"softmax rows, then warp reductions of several rows a block",
     F("x", 32768, "input") "," I("h", 32768) "," O("y", 256),
     LS("p", "softmax", "[64,1,1]", "[64,1,1]", 256, B("x") "," B("h") "," N(128)) ","
     L("c", "rowsum", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(128)),
     {{"p", "c", "shared", NULL}},
     1},
    {"vector accesses",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     L("p", "vec4", "[8,1,1]", "[128,1,1]", B("x") "," B("h")) ","
     L("c", "gelu", "[32,1,1]", "[128,1,1]", B("h") "," B("y") "," N(4096)),
     {{"p", "c", "shared", NULL}},
     1},
    {"block numbers permuted: lists from a table",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     L("p", "many", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "gelu", "[32,1,1]", "[128,1,1]", B("h") "," B("y") "," N(4096)),
     {{"p", "c", "shared", NULL}},
     1},
    {"five blocks of a component, three abreast and then two",
     F("x", 51200, "input") "," I("h", 51200) "," O("y", 51200),
     L("p", "slab", "[8,1,1]", "[256,1,1]", B("x") "," B("h") "," N(1600)) ","
     L("c", "gelu", "[40,1,1]", "[320,1,1]", B("h") "," B("y") "," N(12800)),
     {{"p", "c", "shared", NULL}},
     1},
    {"six, block numbers from a table",
     F("x", 61440, "input") "," I("h", 61440) "," O("y", 61440),
     L("p", "slab", "[8,1,1]", "[256,1,1]", B("x") "," B("h") "," N(1920)) ","
     L("c", "many", "[48,1,1]", "[320,1,1]", B("h") "," B("y") "," N(15360)),
     {{"p", "c", "shared", NULL}},
     1},
    {"five from a table, the last component smaller",
     F("x", 51200, "input") "," I("h", 51200) "," O("y", 51200),
     L("p", "slab", "[8,1,1]", "[256,1,1]", B("x") "," B("h") "," N(1600)) ","
     L("c", "many", "[37,1,1]", "[320,1,1]", B("h") "," B("y") "," N(11840)),
     {{"p", "c", "shared", NULL}},
     1},
    {"warp reductions abreast, eight and then one, in a kernel that is joined again",
     F("x", 36864, "input") "," I("h", 36864) "," I("g", 576) "," O("y", 576) "," O("z", 36864),
     L("p", "slab", "[4,1,1]", "[256,1,1]", B("x") "," B("h") "," N(2304)) ","
     L("c", "rowsum", "[36,1,1]", "[128,1,1]", B("h") "," B("g") "," N(64)) ","
     L("d", "slab", "[4,1,1]", "[64,1,1]", B("g") "," B("y") "," N(36)) ","
     L("e", "gelu", "[36,1,1]", "[256,1,1]", B("h") "," B("z") "," N(9216)),
     {{"p", "c", "shared", NULL}, {"c", "d", "shared", NULL}, {"p", "e", "shared", NULL}},
     1},
    {"many blocks on either side, in two dimensions",
     F("x", 65536, "input") "," I("h", 65536) "," O("y", 65536),
     L("p", "cube", "[8,16,1]", "[8,4,4]", B("x") "," B("h")) ","
     L("c", "slab", "[4,1,1]", "[64,1,1]", B("h") "," B("y") "," N(4096)),
     {{"p", "c", "shared", NULL}},
     1},
    {"a whole block leaves before a barrier; its consumer would read what is not written",
     F("x", 8192, "input") "," F("b", 512, "weight") "," I("h", 8192) "," I("g", 8192) "," O("y", 8192),
     L("q", "bias", "[16,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(2048) "," N(128)) ","
     L("p", "leave", "[16,1,1]", "[128,1,1]", B("h") "," B("g") "," N(2048)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("g") "," B("y") "," N(2048)),
     {{"q", "p", "shared", NULL}, {"p", "c", "global", "do not write for certain"}},
     1},
    {"a guard on data: written perhaps",
     F("x", 8192, "input") "," F("b", 512, "weight") "," I("h", 8192) "," O("y", 8192),
     L("q", "bias", "[16,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(2048) "," N(128)) ","
     L("p", "half_guard", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)),
     {{"q", "p", "global", "no data flows"}, {"p", "c", "global", "do not write for certain"}},
     1},
    {"surplus lanes: tiles of 48 threads with barriers, in blocks of 96 and of 128",
     F("a", 9216, "input") "," F("w", 12288, "weight") "," I("h", 9216) "," I("g", 9216) "," O("y", 9216),
     L("p", "product", "[3,16,1]", "[16,3,1]", B("a") "," B("w") "," B("h") "," N(48) "," N(48)) ","
     L("c", "gelu", "[24,1,1]", "[96,1,1]", B("h") "," B("g") "," N(2304)) ","
     L("d", "slab", "[6,1,1]", "[128,1,1]", B("g") "," B("y") "," N(384)),
     {{"p", "c", "shared", NULL}, {"c", "d", "shared", NULL}},
     1},
    {"surplus lanes: sums in place, of 200 threads, between kernels of 256 and of 48",
     F("x", 19200, "input") "," I("h", 19200) "," I("g", 19200) "," O("y", 19200),
     L("p", "slab", "[24,1,1]", "[256,1,1]", B("x") "," B("h") "," N(200)) ","
     L("c", "tree", "[24,1,1]", "[200,1,1]", B("h") "," B("g") "," N(4800)) ","
     L("d", "tree", "[100,1,1]", "[48,1,1]", B("g") "," B("y") "," N(4800)),
     {{"p", "c", "shared", NULL}, {"c", "d", "shared", NULL}},
     1},
    {"surplus lanes: warps that work together by volatile shared memory, of 48 and of 200 threads",
     F("x", 19200, "input") "," I("h", 19200) "," I("g", 19200) "," O("y", 19200),
     L("p", "folds", "[24,1,1]", "[200,1,1]", B("x") "," B("h") "," N(4800)) ","
     L("c", "slab", "[24,1,1]", "[256,1,1]", B("h") "," B("g") "," N(200)) ","
     L("d", "folds", "[100,1,1]", "[48,1,1]", B("g") "," B("y") "," N(4800)),
     {{"p", "c", "shared", NULL}, {"c", "d", "shared", NULL}},
     1},
    {"surplus lanes: what the last thread reads in place is left out",
     F("x", 9216, "inout") "," I("h", 9216) "," O("y", 9216),
     L("p", "climbs", "[48,1,1]", "[48,1,1]", B("x") "," B("h") "," N(2304)) ","
     L("c", "gelu", "[24,1,1]", "[96,1,1]", B("h") "," B("y") "," N(2304)),
     {{"p", "c", "shared", NULL}},
     1},
    {"surplus lanes: a way that depends on it; a count of threads; collectives",
     F("x", 9216, "inout") "," I("h", 9216) "," I("g", 9216) "," I("f", 9216) "," O("y", 9216),
     L("p", "until", "[48,1,1]", "[48,1,1]", B("x") "," B("h") "," N(2304)) ","
     L("c", "slab", "[12,1,1]", "[96,1,1]", B("h") "," B("g") "," N(192)) ","
     L("d", "votes", "[48,1,1]", "[48,1,1]", B("g") "," B("f") "," N(2304)) ","
     L("e", "lanes", "[24,1,1]", "[80,1,1]", B("f") "," B("y") "," N(1920)),
     {{"p", "c", NULL, "surplus-paths: 'p' has 48 threads"},
      {"c", "d", NULL, "surplus-lanes: 'd' has 48 threads, not whole warps, and reduces over a barrier"},
      {"d", "e", NULL, "thread-counts: 'e' has 80 threads, not whole warps, and warp collectives"}},
     4},
};
/* clang-format on */

static char *document(const struct graph *g) { return graph_text(source, NULL, g->buffers, g->launches); }

static const struct want *wanted(const struct graph *g, const char *p, const char *c)
{
    for (unsigned k = 0; k < 6 && g->want[k].first; k++)
        if (!strcmp(g->want[k].first, p) && !strcmp(g->want[k].second, c))
            return &g->want[k];
    return NULL;
}

static void every_edge(const struct graph *g)
{
    struct made m = {0};
    char *text = document(g);
    make(text, NULL, &m);
    unsigned seen = 0, want = 0;
    while (want < 6 && g->want[want].first)
        want++;
    for (uint32_t k = 0; k < m.a->nedge; k++) {
        const struct ana_edge *x = &m.a->edge[k];
        const char *p = m.g->launch[x->producer].name, *c = m.g->launch[x->consumer].name;
        const struct want *w = wanted(g, p, c);
        seen += w != NULL;
        for (int l = RW_LEVEL_SHARED; l <= RW_LEVEL_GLOBAL; l++) {
            struct dt_str why = {0};
            json_t *doc = NULL;
            int joined = join(&m, x->producer, x->consumer, (enum rw_level)l, &doc, &why, 0);
            bool may = l == RW_LEVEL_CLUSTER ? x->cpp_max > 1 || x->ppc_max > 1
                                             : w && (l == RW_LEVEL_GLOBAL || (w->level && !strcmp(w->level, "shared")));
            if (w && joined != (w->level && may))
                fail_msg("%s: %s -> %s at %s: %s %s", g->name, p, c, rw_level_text((enum rw_level)l),
                         joined ? "joined" : "refused", why.s ? dt_plain(why.s) : "");
            if (w && !joined && w->reason && l != RW_LEVEL_CLUSTER && !strstr(dt_plain(why.s), w->reason))
                fail_msg("%s: %s -> %s: wanted '%s', got '%s'", g->name, p, c, w->reason, dt_plain(why.s));
            if (joined)
                hold_joined(&m, doc, g->name);
            json_decref(doc);
            dt_str_done(&why);
        }
    }
    assert_int_equal(seen, want);
    made_done(&m);
    free(text);
}

static void run_one(void **state)
{
    const struct graph *g = *state;
    char *text = document(g);
    every_edge(g);
    chain(g->name, text, RW_LEVEL_SHARED, RW_LEVEL_GLOBAL, g->left);
    free(text);
}

/* ---- whole plans ------------------------------------------------------------------------------------------------- */

static json_t *plan(const struct made *m, const struct rw_options *o)
{
    struct dt_err e = {0};
    json_t *doc = NULL;
    if (rw_plan(device, m->p, m->a, o, "sha256:0", &doc, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    return doc;
}

static double number(json_t *doc, const char *a, const char *b)
{
    return json_number_value(json_object_get(json_object_get(doc, a), b));
}

static unsigned verdicts(json_t *doc, const char *verdict)
{
    json_t *x;
    size_t i;
    unsigned n = 0;
    json_array_foreach (json_object_get(doc, "rewrites"), i, x)
        n += !strcmp(json_string_value(json_object_get(x, "verdict")), verdict);
    return n;
}

/* The plan is faster, the same twice, reads back, gives the same bytes, and does what it is told. */
static void test_plan(void **state)
{
    static const char *const programs[] = {"programmatic-launch"};
    const char *deny[32];
    unsigned ndeny = 0;
    while (ndeny < rw_nregistry && ndeny < 32) {
        deny[ndeny] = rw_registry[ndeny]->name;
        ndeny++;
    }
    struct rw_options fuse = {.deny = programs, .ndeny = 1};
    struct made m = {0}, now = {0};
    char *text = document(&graphs[0]);
    make(text, NULL, &m);
    json_t *doc = plan(&m, &fuse), *again = plan(&m, &fuse), *denied;
    assert_true(json_equal(doc, again));
    if (getenv("SHOW"))
        json_dumpf(json_object_get(doc, "rewrites"), stdout, JSON_INDENT(1));
    assert_true(number(doc, "optimized", "time_us") < number(doc, "baseline", "time_us"));
    assert_true(verdicts(doc, "kept") >= 1);
    assert_int_equal(number(doc, "optimized", "launches") + verdicts(doc, "kept"), number(doc, "baseline", "launches"));
    assert_true(json_is_true(json_object_get(json_object_get(doc, "verified"), "bitwise")));
    assert_int_equal(number(doc, "verified", "inputs"), 3);
    assert_int_equal(number(doc, "verified", "schedules"), 8);
    make(NULL, doc, &now);
    assert_true(now.g->is_plan);
    hold(&m, &now, "the plan");
    struct rw_options o = {.deny = deny, .ndeny = ndeny};
    denied = plan(&m, &o);
    assert_int_equal(json_array_size(json_object_get(denied, "rewrites")), 0);
    assert_int_equal(number(denied, "optimized", "launches"), 3);
    assert_true(number(denied, "optimized", "time_us") == number(denied, "baseline", "time_us"));
    struct rw_options hurry = {.budget_s = 1e-6};
    json_t *late = plan(&m, &hurry);
    assert_int_equal(verdicts(late, "kept"), 0);
    assert_true(verdicts(late, "refused") >= 2);
    json_decref(late);
    json_decref(denied);
    json_decref(doc);
    json_decref(again);
    made_done(&m);
    made_done(&now);
    free(text);
}

/* A plan that computes something else is caught, with the place. */
static void test_caught(void **state)
{
    struct made m = {0}, wrong = {0};
    struct dt_err e = {0};
    char *text = document(&graphs[0]), *at = strstr(text, "0.044715f");
    make(text, NULL, &m);
    at[7] = '6';
    make(text, NULL, &wrong);
    assert_int_equal(rw_verify(device, m.p, wrong.p, 1, 0, &e), DT_E_INTERNAL);
    assert_non_null(strstr(e.detail, "'y' differs at byte"));
    dt_err_done(&e);
    made_done(&m);
    made_done(&wrong);
    free(text);
}

/* Launches that race themselves are left as they are, with that reason. */
static void test_racing(void **state)
{
    static const char doc[] = "{\"dovetail\": 1, \"modules\": {\"m\": {\"cuda\": \"extern \\\"C\\\" __global__ void "
                              "p(const float *x, float *h) "
                              "{ int i = blockIdx.x * blockDim.x + threadIdx.x; h[i] = x[i] * 2; if (threadIdx.x == 0) "
                              "h[4096] = blockIdx.x; }\\n"
                              "extern \\\"C\\\" __global__ void c(const float *h, float *y) { int i = blockIdx.x * "
                              "blockDim.x + threadIdx.x; y[i] = h[i]; }\"}},"
                              "\"buffers\": {\"x\": {\"bytes\": 16384, \"role\": \"input\"}, \"h\": {\"bytes\": 16388, "
                              "\"role\": \"intermediate\"},"
                              "\"y\": {\"bytes\": 16384, \"role\": \"output\"}}, \"launches\": ["
                              "{\"name\": \"p\", \"module\": \"m\", \"entry\": \"p\", \"grid\": [32,1,1], \"block\": "
                              "[128,1,1], \"args\": [{\"buffer\": \"x\"}, "
                              "{\"buffer\": \"h\"}]},"
                              "{\"name\": \"c\", \"module\": \"m\", \"entry\": \"c\", \"grid\": [32,1,1], \"block\": "
                              "[128,1,1], \"args\": [{\"buffer\": \"h\"}, "
                              "{\"buffer\": \"y\"}]}]}";
    struct made m = {0};
    make(doc, NULL, &m);
    assert_true(m.a->launch[0].self_conflict);
    json_t *d = plan(&m, NULL);
    assert_int_equal(verdicts(d, "refused"), json_array_size(json_object_get(d, "rewrites")));
    assert_true(verdicts(d, "refused") >= 1);
    const char *why = json_string_value(json_object_get(json_array_get(json_object_get(d, "rewrites"), 0), "reason"));
    assert_true(!strncmp(why, "racy:", 5));
    assert_null(strstr(why, " at 0x")); /* plans are the same in every process */
    json_decref(d);
    made_done(&m);
}

/* A kernel of which NVRTC leaves a contraction to ptxas: the program has it written out, so that it fuses, and the
 * fused launch has the same bits. */
static void test_contracted(void **state)
{
    static const char doc[] =
        "{\"dovetail\": 1, \"modules\": {\"m\": {\"cuda\": \"extern \\\"C\\\" __global__ void p(const float *x, float "
        "*h) "
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; h[i] = x[i] + 0.1f; }\\n"
        "extern \\\"C\\\" __global__ void c(const float *h, float *y, float *z) { int i = blockIdx.x * blockDim.x + "
        "threadIdx.x; "
        "float m = h[i] * 0.3f; y[i] = h[i] - m; z[i] = 7.0f - m; }\"}},"
        "\"buffers\": {\"x\": {\"bytes\": 16384, \"role\": \"input\", \"fill\": {\"uniform\": [-1, 1], \"dtype\": "
        "\"f32\", \"seed\": 3}}, "
        "\"h\": {\"bytes\": 16384, \"role\": \"intermediate\"}, \"y\": {\"bytes\": 16384, \"role\": \"output\"}, "
        "\"z\": {\"bytes\": 16384, \"role\": \"output\"}}, \"launches\": ["
        "{\"name\": \"p\", \"module\": \"m\", \"entry\": \"p\", \"grid\": [32,1,1], \"block\": [128,1,1], \"args\": "
        "[{\"buffer\": \"x\"}, "
        "{\"buffer\": \"h\"}]},"
        "{\"name\": \"c\", \"module\": \"m\", \"entry\": \"c\", \"grid\": [32,1,1], \"block\": [128,1,1], \"args\": "
        "[{\"buffer\": \"h\"}, "
        "{\"buffer\": \"y\"}, {\"buffer\": \"z\"}]}]}";
    struct made m = {0};
    if (!dev_nvjitlink_version())
        SKIP("nvJitLink is not installed");
    make(doc, NULL, &m);
    assert_true(m.p->step[1].entry != m.p->step[1].posted);
    json_t *d = plan(&m, NULL);
    assert_int_equal(number(d, "optimized", "launches"), 1);
    assert_int_equal(verdicts(d, "kept"), 1);
    json_decref(d);
    made_done(&m);
}

int main(void)
{
    enum { N = sizeof graphs / sizeof graphs[0] };
    struct CMUnitTest tests[N + 4];
    for (size_t k = 0; k < N; k++)
        tests[k] = (struct CMUnitTest){graphs[k].name, run_one, NULL, NULL, (void *)&graphs[k]};
    tests[N] = (struct CMUnitTest)cmocka_unit_test(test_plan);
    tests[N + 1] = (struct CMUnitTest)cmocka_unit_test(test_caught);
    tests[N + 2] = (struct CMUnitTest)cmocka_unit_test(test_racing);
    tests[N + 3] = (struct CMUnitTest)cmocka_unit_test(test_contracted);
    return run_all("fusion", tests, N + 4);
}
