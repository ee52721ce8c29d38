/* Sliced launches (analysis/instrument/slice.c): the same result as whole launches, for far fewer instructions.
 *
 * Every corpus graph and random graphs are analysed twice, sliced and with `no_slice`; footprints, block by block, and
 * the analysis documents with their maps must be equal. The random kernels mix what a slice drops, keeps, and must
 * refuse: tiles and index tables in shared memory, shuffles, loops, guards and indices on data and on constant content,
 * atomics, local arrays. Instructions are counted by the software device.
 */
#include "analysis-fixture.h"
#include "tests/skip.h"

/* ---- the corpus -------------------------------------------------------------------------------------------------- */
static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *s = calloc((size_t)n + 1, 1);
    size_t got = fread(s, 1, (size_t)n, f);
    fclose(f);
    assert_int_equal(got, n);
    return s;
}

static void corpus(void **state)
{
    static const char *const name[] = {"pointwise",  "mlp",       "rows",    "gather-constant", "gather-data",
                                       "guard-data", "histogram", "stencil", "transpose",       "reduce",
                                       "inplace",    "ptx-only",  "encoder"};
    const char *root = getenv("DOVETAIL_SOURCE");
    if (!root)
        SKIP("DOVETAIL_SOURCE, the source folder, is not set");
    for (unsigned i = 0; i < sizeof name / sizeof *name; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/tests/corpus/%s/graph.json", root, name[i]);
        json_t *g = json_load_file(path, 0, NULL), *m;
        const char *key;
        assert_non_null(g);
        json_object_foreach (json_object_get(g, "modules"), key, m) /* as the client does */
        {
            const char *file = json_string_value(json_object_get(m, "file"));
            if (!file)
                continue;
            bool ptx = strlen(file) > 4 && !strcmp(file + strlen(file) - 4, ".ptx");
            snprintf(path, sizeof path, "%s/tests/corpus/%s/%s", root, name[i], file);
            char *s = slurp(path);
            assert_non_null(s);
            json_object_del(m, "file");
            json_object_set_new(m, ptx ? "ptx" : "cuda", json_string(s));
            free(s);
        }
        char *s = json_dumps(g, 0);
        twice(name[i], s);
        free(s);
        json_decref(g);
    }
}

/* ---- random graphs ------------------------------------------------------------------------------------------------
 */
static uint64_t seed_;
static unsigned rnd(unsigned n)
{
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed_ >> 33) % n;
}

enum { N = 1024 }; /* words of a buffer; each index is taken modulo N */

static void statement(struct dt_str *s, bool barriers)
{
    char a = (char)('A' + rnd(3)), b = (char)('A' + rnd(3));
    switch (rnd(8) ? rnd(barriers ? 15 : 9) : 15) {
    case 0: dt_str_addf(s, "acc += %c[(g * %u + %u) %% %d];\n", a, 1 + rnd(5), rnd(99), N); break;
    case 1: dt_str_addf(s, "%c[(g * %u + %u) %% %d] = acc;\n", a, 1 + rnd(5), rnd(99), N); break;
    case 2:
        dt_str_addf(s, "for (unsigned i = 0; i < %uu; i++) acc += %c[(g + i * %u) %% %d] * %u;\n", 1 + rnd(9), a,
                    rnd(70), N, rnd(9));
        break;
    case 15: { /* a pointer that a loop moves, either way */
        static const int step[] = {1, -1, 3, 16, -16, 32, -32, 33, 64, 0};
        int by = step[rnd(10)];
        dt_str_addf(s,
                    "{ unsigned *p = %c + 460 + g %% 64; unsigned m = n %% 6 + 1;\n#pragma unroll 1\n"
                    "for (unsigned i = 0; i < m; i++, p += %d) { acc ^= *p; %s } }\n",
                    a, by, rnd(2) ? "p[1] = i;" : "");
        break;
    }
    case 3: dt_str_addf(s, "for (unsigned i = t; i < n; i += 32) { acc ^= %c[i]; %c[i] = acc; }\n", a, b); break;
    case 4: dt_str_addf(s, "if (g %% %u < %u) %c[g] = acc;\n", 2 + rnd(4), 1 + rnd(2), a); break;
    case 5: dt_str_addf(s, "acc += %c[IX[(g * 3) %% 64]];\n", a); break;
    case 6:
        if (rnd(3))
            dt_str_addf(s, "acc = acc * 3 + (acc >> 3); acc ^= acc << 5;\n");
        else
            dt_str_addf(s, "if (%c[g] & 1) %c[(g + 7) %% %d] = acc; \n", a, b, N);
        break;
    case 7:
        if (rnd(3))
            dt_str_addf(s, "atomicAdd(&%c[(g / %u) %% %d], acc);\n", a, 1 + rnd(40), N);
        else
            dt_str_addf(s, "%c[%c[g] %% %d] = 1; acc += atomicAdd(&%c[0], 1u);\n", a, b, N, a);
        break;
    case 8: /* data steers, but nothing is touched */
        dt_str_addf(s, "for (unsigned i = 0; i < (acc & %u); i++) acc = acc * 5 + i;\n", 1 + rnd(15));
        break;
    case 9: /* a tile of data */
        dt_str_addf(s, "tile[t] = %c[g]; __syncthreads(); acc += tile[(t + %u) %% 64]; __syncthreads();\n", a, rnd(64));
        break;
    case 10: /* an index table in shared memory */
        dt_str_addf(s,
                    "table[t] = t * %u + blockIdx.x; __syncthreads(); %c[table[(t + %u) %% 64] %% %d] = acc; "
                    "__syncthreads();\n",
                    rnd(9), a, rnd(64), N);
        break;
    case 11: /* a table of constant content, or of data */
        dt_str_addf(s, "table[t] = %s[g %% 64]; __syncthreads(); acc += %c[table[63 - t] %% %d]; __syncthreads();\n",
                    rnd(4) ? "IX" : "A", a, N);
        break;
    case 12: dt_str_addf(s, "acc += %c[__shfl_xor_sync(~0u, g, %u) %% %d];\n", a, 1 + rnd(31), N); break;
    case 13: /* local memory, addressed dynamically */
        dt_str_addf(
            s,
            "{ unsigned w[8]; for (unsigned i = 0; i < 8; i++) w[i] = g * i + %u; for (unsigned i = 0; i < n %% 8 + 2; "
            "i++) acc += %c[w[(i * t) %% 8] %% %d]; }\n",
            rnd(50), a, N);
        break;
    case 14: dt_str_addf(s, "if (__any_sync(~0u, t == %u)) %c[(g + 1) %% %d] = acc;\n", rnd(64), a, N); break;
    }
}

static char *random_graph(uint64_t seed)
{
    struct dt_str src = {0};
    seed_ = seed * 2654435761u + 12345;
    json_t *g =
        json_pack("{s:i,s:s,s:{},s:{},s:[]}", "dovetail", 1, "name", "random", "modules", "buffers", "launches");
    json_t *buf = json_object_get(g, "buffers"), *run = json_object_get(g, "launches");
    json_object_set_new(buf, "ix",
                        json_pack("{s:i,s:s,s:b,s:{s:[i,i],s:s,s:i}}", "bytes", 256, "role", "input", "constant", 1,
                                  "fill", "uniform", 0, N, "dtype", "u32", "seed", (int)seed));
    for (unsigned i = 0; i < 4; i++) {
        char n[8];
        snprintf(n, sizeof n, "b%u", i);
        json_object_set_new(buf, n,
                            json_pack("{s:i,s:s,s:{s:[i,i],s:s,s:i}}", "bytes", N * 4, "role", "inout", "fill",
                                      "uniform", 0, 1 << 20, "dtype", "u32", "seed", (int)(seed + i)));
    }
    unsigned kernels = 2 + rnd(3);
    for (unsigned k = 0; k < kernels; k++) {
        dt_str_addf(
            &src,
            "extern \"C\" __global__ void k%u(unsigned *A, unsigned *B, unsigned *C, const unsigned *IX, unsigned n) "
            "{\n"
            "__shared__ unsigned tile[64], table[64]; unsigned t = threadIdx.x, g = blockIdx.x * 64 + t, acc = g;\n"
            "tile[t] = table[t] = 0; __syncthreads();\n",
            k);
        unsigned count = 1 + rnd(4);
        for (unsigned i = 0; i < count; i++)
            statement(&src, true);
        if (!rnd(4)) {
            dt_str_addf(&src, "if (t < %u) {\n", 1 + rnd(63));
            statement(&src, false);
            dt_str_addf(&src, "}\n");
        }
        dt_str_addf(&src, "C[g] = acc; }\n");
        char name[3][8], entry[8], copy[8];
        for (unsigned i = 0; i < 3; i++)
            snprintf(name[i], sizeof name[i], "b%u", rnd(4));
        snprintf(entry, sizeof entry, "k%u", k);
        snprintf(copy, sizeof copy, "c%u", k);
        json_array_append_new(run, json_pack("{s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:[{s:s},{s:s},{s:s},{s:s},{s:i}]}",
                                             "name", entry, "module", "m", "entry", entry, "grid", (int)(1 + rnd(8)), 1,
                                             1, "block", 64, 1, 1, "args", "buffer", name[0], "buffer", name[1],
                                             "buffer", name[2], "buffer", "ix", "i32", (int)rnd(N)));
        if (!rnd(4))
            json_array_append_new(run,
                                  json_pack("{s:s,s:{s:{s:s},s:{s:s},s:i}}", "name", copy, "copy", "from", "buffer",
                                            "b0", "to", "buffer", "b1", "bytes", 256 * (int)(1 + rnd(9))));
    }
    json_object_set_new(json_object_get(g, "modules"), "m", json_pack("{s:s}", "cuda", src.s));
    dt_str_done(&src);
    char *s = json_dumps(g, 0);
    json_decref(g);
    return s;
}

static void random_graphs(void **state)
{
    if (!dev_nvrtc_version())
        SKIP("NVRTC is not installed");
    unsigned count = getenv("COUNT") ? (unsigned)atoi(getenv("COUNT")) : 25;
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        char *s = random_graph(i);
        assert_non_null(s);
        snprintf(name, sizeof name, "random graph %u", i);
        if (getenv("SHOW"))
            fprintf(stderr, "%s\n", s);
        twice(name, s);
        free(s);
    }
}

/* ---- cost ---------------------------------------------------------------------------------------------------------
 */
static const char gemm[] =
    "extern \"C\" __global__ void __launch_bounds__(256) gemm(const float *__restrict__ a, const float *__restrict__ "
    "b, float *c) {\n"
    "  __shared__ float as[16][33], bs[16][32]; const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;\n"
    "  const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32; float p = 0, q = 0, r = 0, s = 0;\n"
    "  for (int k0 = 0; k0 < 256; k0 += 16) {\n"
    "    for (int i = 0; i < 2; i++) { const int e = threadIdx.x + i * 256;\n"
    "      as[e & 15][e >> 4] = a[(row0 + (e >> 4)) * 256 + k0 + (e & 15)];\n"
    "      bs[e >> 5][e & 31] = b[(k0 + (e >> 5)) * 128 + col0 + (e & 31)]; }\n"
    "    __syncthreads();\n"
    "    for (int k = 0; k < 16; k++) { const float a0 = as[k][ty * 2], a1 = as[k][ty * 2 + 1], b0 = bs[k][tx], b1 = "
    "bs[k][tx + 16];\n"
    "      p += a0 * b0; q += a0 * b1; r += a1 * b0; s += a1 * b1; }\n"
    "    __syncthreads(); }\n"
    "  float *o = c + (row0 + ty * 2) * 128 + col0 + tx; o[0] = p; o[16] = q; o[128] = r; o[144] = s; }\n";

/* Four blocks of `called`: is the slice cheaper than the whole kernel, or is there none? */
static void counted(const char *what, const char *text, bool cheap)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dt_err e = {0};
    uint64_t count[2];
    json_t *j =
        json_pack("{s:i,s:s,s:{s:{s:s}},s:{s:{s:i,s:s},s:{s:i,s:s}},s:[{s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:[{"
                  "s:s},{s:s}]}]}",
                  "dovetail", 1, "name", "called", "modules", "m", "cuda", text, "buffers", "a", "bytes", 1024, "role",
                  "input", "c", "bytes", 1024, "role", "output", "launches", "name", "called", "module", "m", "entry",
                  "called", "grid", 4, 1, 1, "block", 64, 1, 1, "args", "buffer", "a", "buffer", "c");
    char *s = json_dumps(j, 0);
    assert_non_null(s);
    twice("called", s);
    assert_int_equal(dt_graph_parse(s, strlen(s), &g, &e), 0);
    assert_int_equal(dev_prog_new(device, g, NULL, NULL, &p, &e), 0);
    for (unsigned whole = 0; whole < 2; whole++) {
        struct ana_options o = {.no_slice = whole, .no_summary = true};
        struct ana_result *r;
        assert_int_equal(ana_run(device, p, &o, &r, &e), 0);
        count[whole] = last_instructions();
        ana_free(r);
    }
    print_message("%s: slice %llu, whole %llu\n", what, (unsigned long long)count[0], (unsigned long long)count[1]);
    assert_true(cheap ? count[0] < count[1] : count[0] == count[1]);
    dev_prog_free(p);
    dt_graph_free(g);
    json_decref(j);
    free(s);
}

/* A call does not make a kernel run whole where its result is only stored; where it is an address, or what it does
 * could be seen, it does. The maps are the same in any case. */
static void calls(void **state)
{
    static const struct {
        const char *body, *before, *use;
        bool cheap;
    } k[] = {
        {"x * 2.0f + 1.0f", "", "c[i] = f(v);", true},
        {"x > 3.0f ? expf(x) : sqrtf(x) / 7.0f", "", "c[i] = f(v);", true},
        {"x * 2.0f", "", "c[((unsigned)f((float)(i & 63))) & 255] = v;", false},
        {"x * 2.0f", "", "if (f((float)i) > 3.0f) c[i] = v;", false},
        {"x + g", "__device__ float g = 2.0f;\n", "c[i] = f(v);", false},
        {"(__syncthreads(), x)", "", "c[i] = f(v);", false},
    };
    if (!dev_nvrtc_version())
        SKIP("NVRTC is not installed");
    for (size_t n = 0; n < sizeof k / sizeof *k; n++) {
        struct dt_str text = {0}, what = {0};
        dt_str_addf(&text,
                    "%s__device__ __noinline__ float f(float x) { return %s; }\n"
                    "extern \"C\" __global__ void __launch_bounds__(64) called(const float *a, float *c) {\n"
                    "  const int i = blockIdx.x * 64 + threadIdx.x; float v = 0;\n"
                    "  for (int q = 0; q < 64; q++) v = v * 1.5f + a[(i + q * 7) & 255];\n  %s }\n",
                    k[n].before, k[n].body, k[n].use);
        dt_str_addf(&what, "%s / %s", k[n].body, k[n].use);
        counted(what.s, text.s, k[n].cheap);
        dt_str_done(&text);
        dt_str_done(&what);
    }
}

/* Warps whose role a shuffle tells, in clusters: their barriers stay. What is loaded behind one may be another block's,
 * and then the kernel runs whole. */
static void clusters(void **state)
{
    static const char *const at[] = {"i", "(i & ~63) + s[threadIdx.x]"};
    if (!dev_nvrtc_version())
        SKIP("NVRTC is not installed");
    for (unsigned n = 0; n < 2; n++) {
        struct dt_str text = {0};
        dt_str_addf(&text,
                    "#define MEET asm volatile(\"barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\" ::: "
                    "\"memory\")\n"
                    "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)\n"
                    "called(const float *a, float *c) {\n"
                    "  __shared__ int s[64]; const int w = __shfl_sync(~0u, threadIdx.x / 32, 0);\n"
                    "  s[threadIdx.x] = threadIdx.x ^ 1; MEET; float v = 0;\n"
                    "  const int i = blockIdx.x * 64 + w * 32 + threadIdx.x %% 32;\n"
                    "  for (int q = 0; q < 64; q++) v = v * 1.5f + a[(i + q * 7) & 255];\n"
                    "  c[%s] = v; MEET; }\n",
                    at[n]);
        counted(at[n], text.s, n == 0);
        dt_str_done(&text);
    }
}

static void a_tiled_gemm_is_cheap(void **state)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dev_run *run = NULL;
    struct dt_err e = {0};
    uint64_t count[3];
    if (!dev_nvrtc_version())
        SKIP("NVRTC is not installed");
    json_t *j = json_pack(
        "{s:i,s:s,s:{s:{s:s}},s:{s:{s:i,s:s},s:{s:i,s:s},s:{s:i,s:s}},s:[{s:s,s:s,s:s,s:[i,i,i],s:[i,i,i],s:[{s:s},"
        "{s:s},{s:s}]}]}",
        "dovetail", 1, "name", "gemm", "modules", "m", "cuda", gemm, "buffers", "a", "bytes", 64 * 256 * 4, "role",
        "input", "b", "bytes", 256 * 128 * 4, "role", "weight", "c", "bytes", 64 * 128 * 4, "role", "output",
        "launches", "name", "gemm", "module", "m", "entry", "gemm", "grid", 4, 2, 1, "block", 256, 1, 1, "args",
        "buffer", "a", "buffer", "b", "buffer", "c");
    char *s = json_dumps(j, 0);
    assert_non_null(s);
    twice("gemm", s);
    assert_int_equal(dt_graph_parse(s, strlen(s), &g, &e), 0);
    assert_int_equal(dev_prog_new(device, g, NULL, NULL, &p, &e), 0);
    for (unsigned k = 0; k < 2; k++) {
        struct ana_options o = {.no_slice = k};
        struct ana_result *r;
        assert_int_equal(ana_run(device, p, &o, &r, &e), 0);
        count[k] = last_instructions();
        ana_free(r);
    }
    assert_int_equal(dev_run_new(device, p, &run, &e), 0);
    assert_int_equal(dev_run_once(run, &e), 0);
    count[2] = last_instructions();
    print_message("instructions: slice %llu, recorded whole %llu, plain %llu\n", (unsigned long long)count[0],
                  (unsigned long long)count[1], (unsigned long long)count[2]);
    assert_true(count[0] * 4 < count[1]);
    assert_true(count[0] * 4 < count[2]);
    dev_run_free(run);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_err_done(&e);
    json_decref(j);
    free(s);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(corpus),   cmocka_unit_test(random_graphs),
        cmocka_unit_test(clusters), cmocka_unit_test(a_tiled_gemm_is_cheap),
        cmocka_unit_test(calls),
    };
    return cmocka_run_group_tests(t, open_device, close_device);
}
