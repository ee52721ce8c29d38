/* Fused in thread-block clusters against the original, on the software device: pairs of every shape that a component
 * may have, in clusters of several sizes, whether it brings anything or not. Each result is held to the original byte
 * by byte under several inputs and block orders, with the check that no two blocks touch a byte unless a barrier of
 * their cluster lies between (SG_CHECK_BLOCKS). What goes to shared memory, and how many ranks own a part of it, is
 * written beside each, worked out by hand. A device without clusters refuses by name.
 */
#include "base/subject.h"
#include "graphs.h"

/* clang-format off */
static const char source[] =
    K_GEMM
    "extern \"C\" __global__ void bias(const float *h, const float *b, float *y, int n, int cols) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = h[i] + b[i % cols]; }\n"
    K_GELU
    "extern \"C\" __global__ void rows(const float *x, float *y, int cols) {\n" /* one block a row; in place too */
    "  __shared__ float s[32]; int r = blockIdx.x, t = threadIdx.x; float v = 0;\n"
    "  for (int i = t; i < cols; i += 32) v += x[r * cols + i];\n"
    "  s[t] = v; __syncthreads();\n"
    "  for (int k = 16; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }\n"
    "  v = s[0];\n"
    "  for (int i = t; i < cols; i += 32) y[r * cols + i] = x[r * cols + i] / (1.0f + v * v); }\n"
    "extern \"C\" __global__ void columns(const float *x, float *y, int rows, int cols) {\n" /* one block 16 columns */
    "  int c = blockIdx.x * 16 + threadIdx.x; float v = 0;\n"
    "  for (int r = 0; r < rows; r++) v = v * 0.5f + x[r * cols + c];\n"
    "  y[c] = v; }\n"
    K_VEC4
    /* an image of n x n in tiles of 16 x 16, a border of 1 */
    "extern \"C\" __global__ void blur(const float *x, float *y, int n) {\n"
    "  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x; float v = x[r * n + c];\n"
    "  if (r) v += x[(r - 1) * n + c]; if (c) v += x[r * n + c - 1]; if (r < n - 1) v += x[(r + 1) * n + c]; if (c < n "
    "- 1) v += x[r * n + c + 1];\n"
    "  y[r * n + c] = v * 0.2f; }\n"
    /* a sum of four, four words apart: reads it all, writes one block's part */
    "extern \"C\" __global__ void sums(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; float v = 0; for (int k = 0; k < n; k += 64) v += x[(i % 64) + "
    "k]; y[i] = v; }\n"
    "extern \"C\" __global__ void back(const float *h, float *x, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = h[n - 1 - i] * 0.25f; }\n"
    "extern \"C\" __global__ void swizzle(const float *x, float *y, int n) {\n" /* block numbers in another order */
    "  int b = (int)((blockIdx.x * 5 + 3) % gridDim.x), i = b * (int)blockDim.x + (int)threadIdx.x; if (i < n) y[i] = "
    "x[i] * 3.0f; }\n"
    /* an address from the intermediate */
    "extern \"C\" __global__ void pick(const float *h, const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; int k = ((int)(h[i] * 1000.0f)) & (n - 1); y[i] = x[k]; }\n";
/* clang-format on */

struct graph {
    const char *name, *buffers, *launches;
    uint32_t size[4];    /* of clusters; 0: no more */
    const char *note[4]; /* what goes to shared memory, by size */
};

/* clang-format off */
static const struct graph graphs[] = {
    {"a row panel of tiles, then its rows: owners beside each other",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," I("h", 16384) "," O("y", 16384),
     L("p", "gemm", "[4,4,1]", "[16,16,1]", B("a") "," B("w") "," B("h") "," N(64) "," N(64)) ","
     L("c", "rows", "[64,1,1]", "[32,1,1]", B("h") "," B("y") "," N(64)),
     {4, 2, 8, 16}, {"h: 4 columns", "h: 2 columns", "h: 4 columns", "h: 4 columns"}},
    {"the same in place, and the intermediate leaves the graph",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," O("h", 16384),
     L("p", "gemm", "[4,4,1]", "[16,16,1]", B("a") "," B("w") "," B("h") "," N(64) "," N(64)) ","
     L("c", "rows", "[64,1,1]", "[32,1,1]", B("h") "," B("h") "," N(64)),
     {4, 3, 16}, {"h: 4 columns", "h: 2 columns", "h: 4 columns"}},
    {"a panel whose width is no power of two, in clusters that do not divide it",
     F("a", 5120, "input") "," F("w", 5120, "weight") "," I("h", 25600) "," O("y", 25600),
     L("p", "gemm", "[5,5,1]", "[16,16,1]", B("a") "," B("w") "," B("h") "," N(80) "," N(16)) ","
     L("c", "rows", "[80,1,1]", "[32,1,1]", B("h") "," B("y") "," N(80)),
     {5, 3, 4, 7}, {"h: 5 columns", "h: 3 columns", "h: 3 columns", "h: 5 columns"}},
    {"a column of tiles, then its columns: owners one below another",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," I("h", 16384) "," O("y", 256),
     L("p", "gemm", "[4,4,1]", "[16,16,1]", B("a") "," B("w") "," B("h") "," N(64) "," N(64)) ","
     L("c", "columns", "[4,1,1]", "[16,1,1]", B("h") "," B("y") "," N(64) "," N(64)),
     {4, 2, 3}, {"h: 4 rows", "h: 2 rows", "h: 2 rows"}},
    {"runs of bytes: four producers of 128 for a consumer of 512",
     F("x", 16384, "input") "," F("b", 512, "weight") "," I("h", 16384) "," O("y", 16384),
     L("p", "bias", "[32,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(4096) "," N(128)) ","
     L("c", "gelu", "[8,1,1]", "[512,1,1]", B("h") "," B("y") "," N(4096)),
     {4, 2, 3}, {"h: 4 runs", "h: 2 runs", "h: 2 runs"}},
    {"one producer for four consumers, vectors",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     L("p", "vec4", "[4,1,1]", "[256,1,1]", B("x") "," B("h")) "," L("c", "vec4", "[16,1,1]", "[64,1,1]", B("h") ","
     B("y")),
     {4, 2, 8}, {"h: 1 owner", "h: 1 owner", "h: 1 owner"}},
    {"the last component is smaller: lists from tables",
     F("x", 5120, "input") "," F("b", 512, "weight") "," I("h", 5120) "," O("y", 5120),
     L("p", "bias", "[10,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(1280) "," N(128)) ","
     L("c", "gelu", "[3,1,1]", "[512,1,1]", B("h") "," B("y") "," N(1280)),
     {4, 2}, {"h: 4 runs", "h: 2 runs"}},
    {"blocks in another order: the parts do not follow each other, and it stays in global memory",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     L("p", "swizzle", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "gelu", "[8,1,1]", "[512,1,1]", B("h") "," B("y") "," N(4096)),
     {4}, {""}},
    {"one component of all blocks: tiles with borders stay in global memory",
     F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     L("p", "blur", "[2,2,1]", "[16,16,1]", B("x") "," B("h") "," N(32)) ","
     L("c", "blur", "[2,2,1]", "[16,16,1]", B("h") "," B("y") "," N(32)),
     {4, 2}, {"", "h: 2 runs"}},
    {"a further reader, and an offset",
     F("x", 8192, "input") "," F("b", 512, "weight") "," I("h", 16384) "," O("y", 8192) "," O("z", 8192),
     L("p", "bias", "[16,1,1]", "[128,1,1]", B("x") "," B("b") "," BO("h", 8192) "," N(2048) "," N(128)) ","
     L("c", "gelu", "[4,1,1]", "[512,1,1]", BO("h", 8192) "," B("y") "," N(2048))
     "," L("d", "back", "[16,1,1]", "[128,1,1]", BO("h", 8192) "," B("z") "," N(2048)),
     {4, 2}, {"h: 4 runs", "h: 2 runs"}},
    {"what the producer reads is written by consumers of other ranks",
     F("x", 4096, "inout") "," I("h", 4096),
     L("p", "sums", "[8,1,1]", "[128,1,1]", B("x") "," B("h") "," N(1024)) ","
     L("c", "back", "[8,1,1]", "[128,1,1]", B("h") "," B("x") "," N(1024)),
     {8, 4, 16}, {"h: 8 runs", "h: 4 runs", "h: 8 runs"}},
    {"an address that comes from the intermediate",
     F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     L("p", "gelu", "[8,1,1]", "[128,1,1]", B("x") "," B("h") "," N(1024)) ","
     L("c", "pick", "[4,1,1]", "[256,1,1]", B("h") "," B("x") "," B("y") "," N(1024)),
     {2}, {"h: 2 runs"}},
};
/* clang-format on */

static void run_one(void **state)
{
    const struct graph *g = *state;
    struct made m = {0};
    char *text = graph_text(source, NULL, g->buffers, g->launches);
    make(text, NULL, &m);
    for (unsigned k = 0; k < 4 && g->size[k]; k++) {
        struct dt_str why = {0};
        struct made n = {0};
        json_t *doc = NULL;
        join_size = g->size[k];
        if (!join(&m, 0, 1, RW_LEVEL_CLUSTER, &doc, &why, 0))
            fail_msg("%s, clusters of %u: refused: %s", g->name, g->size[k], dt_plain(why.s));
        if (strcmp(join_note, g->note[k]))
            fail_msg("%s, clusters of %u: wanted '%s', got '%s' %s", g->name, g->size[k], g->note[k], join_note,
                     why.s ? dt_plain(why.s) : "");
        if (!*join_note && !(why.s && strstr(dt_plain(why.s), "stays in global memory")))
            fail_msg("%s: no word on why it stays in global memory: %s", g->name, why.s ? dt_plain(why.s) : "");
        make(NULL, doc, &n);
        assert_int_equal(n.g->nlaunch + 1, m.g->nlaunch);
        assert_int_equal(n.g->launch[0].cluster[0], g->size[k]);
        hold(&m, &n, g->name);
        made_done(&n);
        json_decref(doc);
        dt_str_done(&why);
    }
    join_size = 0;
    made_done(&m);
    free(text);
}

/* ---- what is in clusters already --------------------------------------------------------------------------------- */

#define SYNC "asm volatile(\"barrier.cluster.arrive.aligned;\\n\\tbarrier.cluster.wait.aligned;\" ::: \"memory\");"
#define RANK(r) "asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(" r "));"
/* clang-format off */
#define REMOTE(v, p, rank)                                                                                             \
    "{ unsigned at; asm(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(at) : "                                      \
    "\"r\"((unsigned)__cvta_generic_to_shared(" p ")), \"r\"(" rank ")); "                                             \
    "asm volatile(\"ld.shared::cluster.f32 %0, [%1];\" : \"=f\"(" v ") : \"r\"(at) : \"memory\"); }"
static const char posted[] =
    /* a block takes what the next one of its cluster has */
    "extern \"C\" __global__ void __cluster_dims__(4, 1, 1) turn(const float *x, float *y) {\n"
    "  __shared__ float s[64]; unsigned t = threadIdx.x, rank; float v; " RANK("rank") "\n"
    "  s[t] = x[blockIdx.x * 64 + t] * 2.0f; " SYNC "\n"
    "  " REMOTE("v", "&s[63 - t]", "(rank + 1) % 4") " " SYNC "\n"
    "  y[blockIdx.x * 64 + t] = v + rank; }\n"
    /* 2 x 2 blocks of 8 x 8 of an image: its numbers in the cluster, and the cluster's */
    "extern \"C\" __global__ void pairs(const float *x, float *y, int n) {\n"
    "  __shared__ float s[64]; unsigned cx, cy, qx, qy, nx, ny, mx, r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * "
    "8 + threadIdx.x, t = threadIdx.y * 8 + threadIdx.x; float v;\n"
    "  asm(\"mov.u32 %0, %%cluster_ctaid.x;\" : \"=r\"(cx)); asm(\"mov.u32 %0, %%cluster_ctaid.y;\" : \"=r\"(cy)); "
    "asm(\"mov.u32 %0, %%clusterid.x;\" : \"=r\"(qx));\n"
    "  asm(\"mov.u32 %0, %%clusterid.y;\" : \"=r\"(qy)); asm(\"mov.u32 %0, %%cluster_nctaid.x;\" : \"=r\"(nx)); "
    "asm(\"mov.u32 %0, %%nclusterid.y;\" : \"=r\"(ny));\n"
    "  asm(\"mov.u32 %0, %%cluster_nctarank;\" : \"=r\"(mx));\n"
    "  s[t] = x[r * n + c]; " SYNC "\n"
    "  " REMOTE("v", "&s[t]", "(1 - cy) * 2 + cx") " " SYNC "\n"
    "  y[r * n + c] = v + cx + 2 * cy + 4 * qx + 8 * qy + 16 * nx + 32 * ny + 64 * mx; }\n"
    "extern \"C\" __global__ void part(const float *x, float *y) {\n" /* half of the cluster does nothing but meet */
    "  __shared__ float s[96]; unsigned t = threadIdx.x, rank; float v = 0; " RANK("rank") "\n"
    "  if (rank < 2) s[t] = x[blockIdx.x * 96 + t]; " SYNC "\n"
    "  if (rank >= 2) " REMOTE("v", "&s[t]", "rank - 2") " " SYNC "\n"
    "  y[blockIdx.x * 96 + t] = rank < 2 ? 1.0f : v; }\n"
    "extern \"C\" __global__ void loops(const float *x, float *y, int n) {\n" /* meets in a loop */
    "  __shared__ float s[64]; unsigned t = threadIdx.x, rank; float v, a = 0; " RANK("rank") "\n"
    "  for (int k = 0; k < n; k++) { s[t] = x[blockIdx.x * 64 + t] + k; " SYNC " " REMOTE("v", "&s[t]",
    "(rank + k) % 4") " " SYNC " a += v; }\n"
    "  y[blockIdx.x * 64 + t] = a; }\n"
    "extern \"C\" __global__ void plain(const float *x, float *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; "
    "y[i] = x[i] * 3.0f; }\n";
/* clang-format on */
#define LC(name, entry, grid, block, cluster, args)                                                                    \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry "\", \"grid\": " grid ", \"block\": " block      \
    ", \"cluster\": " cluster ", \"args\": [" args "]}"

/* Launch 0 with the next one, and again with the one behind, until all are one launch. */
/* clang-format off */
static const struct chain_case {
    const char *name, *buffers, *launches;
    uint32_t size;       /* of the first; then it stays */
    const char *note[6]; /* what goes to shared memory, of each join; '>', '<': inlined,
    as epilogue or prologue; '!' behind that: refused for this; NULL: no more */
    unsigned barriers;   /* of the cluster in the last text; 0: however many */
} chains[] = {
    {"five in a row: tiles, rows, elements, rows, tiles",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," I("h0", 16384) "," I("h1", 16384) "," I("h2", 16384) ","
     I("h3", 16384) "," O("y", 16384),
     L("p", "gemm", "[4,4,1]", "[16,16,1]", B("a") "," B("w") "," B("h0") "," N(64) "," N(64)) ","
     L("q", "rows", "[64,1,1]", "[32,1,1]", B("h0") "," B("h1") "," N(64)) ","
     L("r", "gelu", "[32,1,1]", "[128,1,1]", B("h1") "," B("h2") "," N(4096)) ","
     L("s", "rows", "[64,1,1]", "[32,1,1]", B("h2") "," B("h3") "," N(64)) ","
     L("t", "gemm", "[4,4,1]", "[16,16,1]", B("h3") "," B("w") "," B("y") "," N(64) "," N(64)),
     4, {"h0: 4 columns", "h1: own", "h2: own", "h3: 4 runs"}, .barriers = 4},
    {"intermediates that leave, or stay in global memory, and writes to what was read",
     F("x", 4096, "inout") "," I("h0", 4096) "," I("h1", 4096) "," O("h2", 4096),
     L("p", "blur", "[2,2,1]", "[16,16,1]", B("x") "," B("h0") "," N(32)) ","
     L("q", "blur", "[2,2,1]", "[16,16,1]", B("h0") "," B("h1") "," N(32)) ","
     L("r", "gelu", "[4,1,1]", "[256,1,1]", B("h1") "," B("h2") "," N(1024)) ","
     L("s", "back", "[8,1,1]", "[128,1,1]", B("h2") "," B("x") "," N(1024)),
     4, {"", "", "h2: 4 runs"}},
    {"elements inlined behind a cluster, and it goes on",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," I("h0", 16384) "," I("h1", 16384) "," I("h2", 16384) ","
     I("h3", 16384) "," O("y", 16384),
     L("p", "gemm", "[4,4,1]", "[16,16,1]", B("a") "," B("w") "," B("h0") "," N(64) "," N(64)) ","
     L("q", "rows", "[64,1,1]", "[32,1,1]", B("h0") "," B("h1") "," N(64)) ","
     L("r", "gelu", "[32,1,1]", "[128,1,1]", B("h1") "," B("h2") "," N(4096)) ","
     L("s", "bias", "[16,1,1]", "[256,1,1]", B("h2") "," B("w") "," B("h3") "," N(4096) "," N(64)) ","
     L("t", "gemm", "[4,4,1]", "[16,16,1]", B("h3") "," B("w") "," B("y") "," N(64) "," N(64)),
     4, {"h0: 4 columns", ">", ">", "h3: 4 runs"}},
    {"lists from tables, the last component smaller",
     F("x", 5120, "input") "," F("b", 512, "weight") "," I("h", 5120) "," I("g", 5120) "," I("f", 5120) ","
     O("y", 5120),
     L("p", "bias", "[10,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(1280) "," N(128)) ","
     L("q", "gelu", "[3,1,1]", "[512,1,1]", B("h") "," B("g") "," N(1280)) ","
     L("r", "bias", "[5,1,1]", "[256,1,1]", B("g") "," B("b") "," B("f") "," N(1280) "," N(128)) ","
     L("s", "gelu", "[10,1,1]", "[128,1,1]", B("f") "," B("y") "," N(1280)),
     4, {"h: 4 runs", "g: 1 owner", "f: 2 runs"}},
};
/* clang-format on */
/* clang-format off */
static const struct chain_case posts[] = {
    {"a posted cluster, then its elements", F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     L("p", "turn", "[16,1,1]", "[64,1,1]", B("x") "," B("h")) "," L("c", "plain", "[8,1,1]", "[128,1,1]", B("h") ","
     B("y")), 0, {"h: 4 runs"}},
    {"a posted cluster, then elements each of which a rank has itself", F("x", 4096, "input") "," I("h", 4096) ","
    O("g", 4096) "," O("y", 4096),
     L("p", "turn", "[16,1,1]", "[64,1,1]", B("x") "," B("h")) "," L("q", "plain", "[16,1,1]", "[64,1,1]", B("h") ","
     B("g")) "," L("r", "plain", "[32,1,1]", "[32,1,1]", B("g") "," B("y")), 0,
     {"h: own", "g: own"}, .barriers = 2 /* those of `turn` */},
    {"elements, then a posted cluster with fewer threads", F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     L("p", "plain", "[4,1,1]", "[256,1,1]", B("x") "," B("h")) "," L("c", "turn", "[16,1,1]", "[64,1,1]", B("h") ","
     B("y")), 0, {"h: 1 owner"}},
    {"posted, posted, posted, and elements", F("x", 4096, "input") "," I("f", 4096) "," I("g", 4096) ","
    I("h", 4096) "," O("y", 4096),
     L("p", "turn", "[16,1,1]", "[64,1,1]", B("x") "," B("f")) "," L("q", "turn", "[16,1,1]", "[64,1,1]", B("f") ","
     B("g")) ","
     L("r", "turn", "[16,1,1]", "[64,1,1]", B("g") "," B("h")) "," L("s", "plain", "[8,1,1]", "[128,1,1]", B("h") ","
     B("y")), 0, {"f: own", "g: own", "h: 4 runs"}},
    {"elements inlined before a posted cluster, and behind", F("x", 4096, "input") "," I("f", 4096) ","
    I("h", 4096) "," I("g", 4096) "," O("y", 4096),
     L("p", "plain", "[4,1,1]", "[256,1,1]", B("x") "," B("f")) "," L("q", "turn", "[16,1,1]", "[64,1,1]", B("f") ","
     B("h")) ","
     L("r", "plain", "[8,1,1]", "[128,1,1]", B("h") "," B("g")) "," L("s", "turn", "[16,1,1]", "[64,1,1]", B("g") ","
     B("y")), 0, {"<", ">", "g: own"}},
    {"elements behind barriers in a loop", F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     LC("p", "loops", "[16,1,1]", "[64,1,1]", "[4,1,1]", B("x") "," B("h") "," N(3)) ","
     L("c", "plain", "[16,1,1]", "[64,1,1]", B("h") "," B("y")), 0,
     {">!clusters: 'p' need not meet"}},
    {"a square of blocks", F("x", 4096, "input") "," I("h", 4096) "," I("g", 4096) "," O("y", 4096),
     LC("p", "pairs", "[4,4,1]", "[8,8,1]", "[2,2,1]", B("x") "," B("h") "," N(32)) ","
     LC("q", "pairs", "[4,4,1]", "[8,8,1]", "[2,2,1]", B("h") "," B("g") "," N(32)) ","
     LC("r", "pairs", "[4,4,1]", "[8,8,1]", "[2,2,1]", B("g") "," B("y") "," N(32)), 0, {"h: own", "g: own"}},
    {"threads that are no power of two, and ranks that only meet", F("x", 3072, "input") "," I("h", 3072) ","
    I("g", 3072) "," O("y", 3072),
     LC("p", "part", "[8,1,1]", "[96,1,1]", "[4,1,1]", B("x") "," B("h")) ","
     L("q", "plain", "[6,1,1]", "[128,1,1]", B("h") "," B("g")) ","
     LC("r", "part", "[8,1,1]", "[96,1,1]", "[4,1,1]", B("g") "," B("y")), 0, {"h: 4 runs", "g: 3 runs"}},
    {"a component of two clusters", F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     L("p", "turn", "[16,1,1]", "[64,1,1]", B("x") "," B("h")) "," L("c", "plain", "[2,1,1]", "[512,1,1]", B("h") ","
     B("y")), 0,
     {"!clusters: a component has up to 8 blocks of 'p', which runs in clusters of 4"}},
    {"clusters of different sizes", F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     L("p", "turn", "[16,1,1]", "[64,1,1]", B("x") "," B("h")) ","
     LC("c", "pairs", "[4,4,1]", "[8,8,1]", "[2,1,1]", B("h") "," B("y") "," N(32)), 0,
     {"!clusters: 'p' runs in clusters of 4 blocks, 'c' of 2"}},
    {"barriers in a loop", F("x", 4096, "input") "," I("h", 4096) "," O("y", 4096),
     LC("p", "loops", "[16,1,1]", "[64,1,1]", "[4,1,1]", B("x") "," B("h") "," N(3)) ","
     L("c", "plain", "[16,1,1]", "[64,1,1]", B("h") "," B("y")), 0,
     {"!clusters: 'p' need not meet"}},
};
/* clang-format on */

/* The static check has nothing against it. */
static void hold_waits(const struct made *m, const struct made *now, const char *name)
{
    struct dt_err e = {0};
    if (rw_waits_check(device, now->p, now->a, m->p, &e) < 0)
        fail_msg("%s: %s", name, e.detail ? e.detail : "?");
}

static void run_chain(void **state)
{
    const struct chain_case *g = *state;
    bool ours = g >= chains && g < chains + sizeof chains / sizeof *chains;
    struct made m = {0}, now = {0};
    char *text = graph_text(ours ? source : posted, NULL, g->buffers, g->launches);
    make(text, NULL, &m);
    make(text, NULL, &now);
    for (unsigned k = 0; k < 6 && g->note[k]; k++) {
        struct dt_str why = {0};
        json_t *doc = NULL;
        join_size = g->size;
        const char *want = g->note[k] + strspn(g->note[k], "<>");
        bool ok = join(&now, 0, 1,
                       *g->note[k] == '>'   ? RW_LEVEL_EPILOGUE
                       : *g->note[k] == '<' ? RW_LEVEL_PROLOGUE
                                            : RW_LEVEL_CLUSTER,
                       &doc, &why, k);
        if (*want == '!') {
            if (ok || strncmp(dt_plain(why.s), want + 1, strlen(want + 1)))
                fail_msg("%s, join %u: wanted '%s', got '%s'", g->name, k, want, ok ? "joined" : why.s);
            json_decref(doc);
            dt_str_done(&why);
            break;
        }
        if (!ok)
            fail_msg("%s, join %u: refused: %s", g->name, k, dt_plain(why.s));
        if (strcmp(join_note, want))
            fail_msg("%s, join %u: wanted '%s', got '%s' %s", g->name, k, want, join_note,
                     why.s ? dt_plain(why.s) : "");
        made_done(&now);
        make(NULL, doc, &now);
        assert_int_equal(now.g->nlaunch + 1 + k, m.g->nlaunch);
        assert_true(rw_cluster_shape(&now.g->launch[0], now.p->step[0].entry, (uint32_t[3]){0}) ==
                    (g->size ? g->size : 4));
        hold(&m, &now, g->name);
        hold_waits(&m, &now, g->name);
        json_decref(doc);
        dt_str_done(&why);
    }
    unsigned n = 0;
    for (const char *at = now.p->module[now.g->launch[0].module].ptx; (at = strstr(at, "barrier.cluster.arrive")); at++)
        n++;
    if (g->barriers && n != g->barriers)
        fail_msg("%s: %u barriers of the cluster, not %u", g->name, n, g->barriers);
    join_size = 0;
    made_done(&m);
    made_done(&now);
    free(text);
}

/* sm_80: refused, and by this name. */
static void test_old_device(void **state)
{
    struct dev_device *new = device;
    struct dt_err e = {0};
    struct dt_str why = {0};
    struct made m = {0};
    json_t *doc = NULL;
    char *text = graph_text(source, NULL, graphs[0].buffers, graphs[0].launches);
    (void)state;
    assert_int_equal(dev_open("soft:a100", &device, &e), 0);
    make(text, NULL, &m);
    assert_false(join(&m, 0, 1, RW_LEVEL_CLUSTER, &doc, &why, 0));
    assert_int_equal(strncmp(dt_plain(why.s), "cluster-device: ", 16), 0);
    assert_non_null(strstr(dt_plain(why.s), "A100"));
    made_done(&m);
    free(text);
    dt_str_done(&why);
    dev_close(device);
    device = new;
}

int main(void)
{
    enum { N_GRAPHS = sizeof graphs / sizeof graphs[0] };
    enum { N_CHAINS = sizeof chains / sizeof chains[0], N_POSTS = sizeof posts / sizeof posts[0] };
    struct CMUnitTest tests[N_GRAPHS + N_CHAINS + N_POSTS + 1];
    for (size_t k = 0; k < N_GRAPHS; k++)
        tests[k] =
            (struct CMUnitTest){.name = graphs[k].name, .test_func = run_one, .initial_state = (void *)&graphs[k]};
    for (size_t k = 0; k < N_CHAINS + N_POSTS; k++) {
        const struct chain_case *c = k < N_CHAINS ? &chains[k] : &posts[k - N_CHAINS];
        tests[N_GRAPHS + k] = (struct CMUnitTest){.name = c->name, .test_func = run_chain, .initial_state = (void *)c};
    }
    tests[N_GRAPHS + N_CHAINS + N_POSTS] = (struct CMUnitTest)cmocka_unit_test(test_old_device);
    return run_all("cluster", tests, N_GRAPHS + N_CHAINS + N_POSTS + 1);
}
