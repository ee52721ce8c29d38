/* CUDA C++ for sm_90, compiled by NVRTC, run on the software device: what cooperative groups and libcu++ make of
 * clusters, mbarriers and bulk copies, against plain C. Skips (77) without NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "tests/skip.h"

static struct dev_device *dev;

static struct dev_module_handle *build(const char *src)
{
    static const char *const option[] = {"--std=c++17"};
    struct dt_err e = {0};
    struct dev_module_handle *m;
    char *ptx;
    size_t len;
    if (dev_compile_cuda(src, strlen(src), option, 1, "sm_90a", 60000, &ptx, &len, &e) < 0 ||
        dev_module_load(dev, ptx, len, &m, &e) < 0)
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

static void launch(struct dev_module_handle *m, const char *entry, uint32_t grid, uint32_t block, uint32_t cluster,
                   uint32_t shared, const void *params, size_t n)
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
    "  if (threadIdx.x == 0) *cluster.map_shared_rank(&v, cluster.block_rank() ^ 1) = blockIdx.x + "
    "cluster.num_blocks() * 10;\n"
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

/* libcu++: a bulk copy in, counted by a cuda::barrier, work in shared memory, a bulk copy or reduction out; and a copy
 * into the other block. */
static const char bulk_src[] =
    "#include <cooperative_groups.h>\n#include <cuda/barrier>\n#include <cuda/ptx>\n"
    "namespace ptx = cuda::ptx; namespace cg = cooperative_groups;\n"
    "using barrier = cuda::barrier<cuda::thread_scope_block>;\n"
    "extern \"C\" __global__ void plus_one(const int *x, int *y, int *sum) {\n"
    "  __shared__ alignas(16) int s[512];\n"
    "  #pragma nv_diag_suppress static_var_with_dynamic_init\n"
    "  __shared__ barrier bar;\n"
    "  if (threadIdx.x == 0) { init(&bar, blockDim.x); ptx::fence_proxy_async(ptx::space_shared); }\n"
    "  __syncthreads();\n"
    "  barrier::arrival_token t;\n"
    "  if (threadIdx.x == 0) {\n"
    "    cuda::memcpy_async(s, x + blockIdx.x * 512, cuda::aligned_size_t<16>(sizeof s), bar);\n"
    "    t = cuda::device::barrier_arrive_tx(bar, 1, 0);\n"
    "  } else t = bar.arrive();\n"
    "  bar.wait(static_cast<barrier::arrival_token &&>(t));\n"
    "  for (int i = threadIdx.x; i < 512; i += blockDim.x) s[i] += 1;\n"
    "  ptx::fence_proxy_async(ptx::space_shared);\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x == 0) {\n"
    "    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + blockIdx.x * 512, s, sizeof s);\n"
    "    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sum, s, sizeof s);\n"
    "    ptx::cp_async_bulk_commit_group();\n"
    "    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());\n"
    "  }\n"
    "}\n"
    "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) swap(const int *x, int *y) {\n"
    "  __shared__ alignas(16) int mine[64], theirs[64];\n"
    "  __shared__ uint64_t bar;\n"
    "  cg::cluster_group c = cg::this_cluster();\n"
    "  mine[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];\n"
    "  if (threadIdx.x == 0) {\n"
    "    ptx::mbarrier_init(&bar, 1);\n"
    "    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof mine);\n"
    "    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);\n"
    "  }\n"
    "  ptx::fence_proxy_async(ptx::space_shared);\n"
    "  c.sync();\n"
    "  unsigned other = c.block_rank() ^ 1;\n"
    "  if (threadIdx.x == 0)\n"
    "    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, c.map_shared_rank(theirs, other), mine, sizeof "
    "mine, c.map_shared_rank(&bar, other));\n"
    "  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, 0)) ;\n"
    "  y[blockIdx.x * 64 + threadIdx.x] = theirs[threadIdx.x];\n"
    "  c.sync();\n"
    "}\n";

static void bulk(void **state)
{
    static const char probe[] = "#if !__has_include(<cuda/barrier>)\n#error without libcu++\n#endif\n";
    static const char *const option[] = {"--std=c++17"};
    char *ptx = NULL;
    size_t len;
    if (dev_compile_cuda(probe, strlen(probe), option, 1, "sm_90a", 60000, &ptx, &len, NULL) < 0)
        SKIP("the toolkit has no libcu++");
    free(ptx);
    enum { BLOCKS = 5, EACH = 512 };
    static int x[BLOCKS * EACH], y[BLOCKS * EACH], sum[EACH];
    struct dev_module_handle *m = build(bulk_src);
    for (int i = 0; i < BLOCKS * EACH; i++)
        x[i] = i * 7 % 1000;
    uint64_t p[3] = {give(x, sizeof x), give(y, sizeof y), give(sum, sizeof sum)};
    launch(m, "plus_one", BLOCKS, 96, 0, 0, p, sizeof p);
    take(y, p[1], sizeof y);
    take(sum, p[2], sizeof sum);
    for (int i = 0; i < BLOCKS * EACH; i++)
        assert_int_equal(y[i], x[i] + 1);
    for (int i = 0; i < EACH; i++) {
        int want = 0;
        for (int b = 0; b < BLOCKS; b++)
            want += x[b * EACH + i] + 1;
        assert_int_equal(sum[i], want);
    }
    memset(y, 0, sizeof y);
    p[1] = give(y, sizeof y);
    launch(m, "swap", 8, 64, 0, 0, p, 16);
    take(y, p[1], sizeof y);
    for (int i = 0; i < 512; i++)
        assert_int_equal(y[i], x[i ^ 64]);
    dev_free(dev, p[0]);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(histogram), cmocka_unit_test(bulk)};
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(dev);
    return r;
}
