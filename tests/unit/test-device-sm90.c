/* CUDA C++ for sm_90, compiled by NVRTC, run on the software device: what cooperative groups and libcu++ make of clusters, mbarriers and bulk
 * copies, against plain C. Skips (77) without NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"

static struct dev_device *dev;

static struct dev_module_handle *build(const char *src)
{
    static const char *const option[] = {"--std=c++17"};
    struct dt_err e = {0};
    struct dev_module_handle *m;
    char *ptx;
    size_t len;
    if (dev_compile_cuda(src, strlen(src), option, 1, "sm_90a", 60000, &ptx, &len, &e) < 0 || dev_module_load(dev, ptx, len, &m, &e) < 0)
        fail_msg("%s\n%s", e.detail, e.log ? e.log : "");
    free(ptx);
    return m;
}

static dev_ptr give(const void *p, size_t n)
{
    dev_ptr d;
    struct dt_err e = {0};
    if (dev_alloc(dev, n, &d, &e) < 0 || dev_upload(dev, d, p, n, &e) < 0)
        fail_msg("%s", e.detail);
    return d;
}

static void launch(struct dev_module_handle *m, const char *entry, uint32_t grid, uint32_t block, uint32_t cluster, uint32_t shared, const void *params,
                   size_t n)
{
    struct dt_err e = {0};
    const uint32_t g[3] = {grid, 1, 1}, b[3] = {block, 1, 1}, c[3] = {cluster, 1, 1};
    if (dev_launch(dev, m, entry, g, b, cluster ? c : NULL, shared, params, n, &e) < 0 || dev_sync(dev, &e) < 0)
        fail_msg("%s", e.detail);
}

static void take(void *p, dev_ptr d, size_t n)
{
    struct dt_err e = {0};
    if (dev_download(dev, p, d, n, &e) < 0)
        fail_msg("%s", e.detail);
    dev_free(dev, d);
}

/* A histogram whose bins are spread over the blocks of a cluster, as the CUDA programming guide suggests it. */
static const char histogram_src[] =
    "#include <cooperative_groups.h>\n"
    "namespace cg = cooperative_groups;\n"
    "extern \"C\" __global__ void histogram(unsigned *bins, int nbins, int per_block, const int *x, int n) {\n"
    "  extern __shared__ unsigned mine[];\n"
    "  cg::cluster_group cluster = cg::this_cluster();\n"
    "  for (int i = threadIdx.x; i < per_block; i += blockDim.x) mine[i] = 0;\n"
    "  cluster.sync();\n"
    "  for (int i = cg::this_grid().thread_rank(); i < n; i += blockDim.x * gridDim.x) {\n"
    "    int b = x[i] < 0 ? 0 : x[i] >= nbins ? nbins - 1 : x[i];\n"
    "    unsigned *theirs = cluster.map_shared_rank(mine, b / per_block);\n"
    "    if (cluster.query_shared_rank(theirs) != b / per_block) __trap();\n"
    "    atomicAdd(theirs + b % per_block, 1);\n"
    "  }\n"
    "  cluster.sync();\n"
    "  for (int i = threadIdx.x; i < per_block; i += blockDim.x)\n"
    "    atomicAdd(&bins[cluster.block_rank() * per_block + i], mine[i]);\n"
    "}\n"
    "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) pairs(int *y) {\n"
    "  __shared__ int v;\n"
    "  cg::cluster_group cluster = cg::this_cluster();\n"
    "  auto token = cluster.barrier_arrive();\n"
    "  cluster.barrier_wait(static_cast<decltype(token) &&>(token));\n"
    "  if (threadIdx.x == 0) *cluster.map_shared_rank(&v, cluster.block_rank() ^ 1) = blockIdx.x + cluster.num_blocks() * 10;\n"
    "  cluster.sync();\n"
    "  if (threadIdx.x == 0) y[blockIdx.x] = v;\n"
    "}\n";

static void histogram(void **state)
{
    enum { N = 5000, BINS = 256, CLUSTER = 4 };
    static int x[N];
    static unsigned want[BINS], got[BINS];
    uint32_t r = 1;
    for (int i = 0; i < N; i++) {
        r = r * 1664525 + 1013904223;
        x[i] = (int)(r >> 16) % (BINS + 20) - 10;
        want[x[i] < 0 ? 0 : x[i] >= BINS ? BINS - 1 : x[i]]++;
    }
    struct dev_module_handle *m = build(histogram_src);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct {
            uint64_t bins;
            int nbins, per_block;
            uint64_t x;
            int n;
        } p = {0, BINS, BINS / CLUSTER, give(x, sizeof x), N};
        memset(got, 0, sizeof got);
        p.bins = give(got, sizeof got);
        dev_set_schedule(dev, seed, false);
        launch(m, "histogram", 8, 96, CLUSTER, BINS / CLUSTER * 4, &p, 28);
        take(got, p.bins, sizeof got);
        assert_memory_equal(got, want, sizeof want);
        dev_free(dev, p.x);
    }
    int y[6] = {0};
    dev_ptr d = give(y, sizeof y);
    launch(m, "pairs", 6, 64, 0, 0, &d, 8);
    take(y, d, sizeof y);
    for (int i = 0; i < 6; i++)
        assert_int_equal(y[i], (i ^ 1) + 20);
    dev_set_schedule(dev, 0, false);
    dev_module_unload(dev, m);
}

int main(void)
{
    struct dt_err e = {0};
    if (!dev_nvrtc_version()) {
        printf("no NVRTC\n");
        return 77;
    }
    if (dev_open("soft", &dev, &e) < 0) {
        printf("%s\n", e.detail);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(histogram)};
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(dev);
    return r;
}
