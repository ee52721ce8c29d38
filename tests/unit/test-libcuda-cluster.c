/* Clusters through the driver API: launch attributes, function attributes, graph nodes, occupancy, error codes. */
#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "softgpu/libcuda/extension.h"

static void *lib;
static CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *sym(const char *name)
{
    void *p = NULL;
    if (get(name, &p, CUDA_VERSION, 0, NULL) != CUDA_SUCCESS || !p)
        fail_msg("no %s", name);
    return p;
}
#define F(name) ((__typeof__(&name))sym(#name))
#define X(name) ((name##_t)sym(#name))
#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

/* y[block] = cluster size * 100 + the number of the block whose shared memory it read: the next one of its cluster */
#define BODY                                                                                                                       \
    "{\n.reg .b64 %a; .reg .b32 %r<8>; .reg .pred %p; .shared .b32 v;\n"                                                           \
    "ld.param.u64 %a, [y]; mov.u32 %r0, %ctaid.x; st.shared.u32 [v], %r0;\n"                                                       \
    "barrier.cluster.arrive; barrier.cluster.wait;\n"                                                                              \
    "mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; add.u32 %r3, %r1, 1; rem.u32 %r3, %r3, %r2;\n"                 \
    "mapa.shared::cluster.u32 %r4, v, %r3; ld.shared::cluster.u32 %r5, [%r4]; mad.lo.u32 %r5, %r2, 100, %r5;\n"                    \
    "mad.wide.u32 %a, %r0, 4, %a; st.global.u32 [%a], %r5; barrier.cluster.arrive; barrier.cluster.wait; ret;\n}\n"
static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry any(.param .u64 y)\n" BODY
                          ".visible .entry fixed(.param .u64 y) .explicitcluster .reqnctapercluster 4, 1, 1\n" BODY
                          ".visible .entry must(.param .u64 y) .explicitcluster .maxclusterrank 4\n" BODY;

static CUmodule module;
static CUdeviceptr y;

static CUfunction begin(const char *entry)
{
    CUcontext c;
    CUfunction f;
    OK(F(cuInit)(0));
    OK(F(cuDevicePrimaryCtxRetain)(&c, 0));
    OK(F(cuCtxSetCurrent)(c));
    OK(F(cuModuleLoadData)(&module, ptx));
    OK(F(cuModuleGetFunction)(&f, module, entry));
    OK(F(cuMemAlloc)(&y, 48 * 4));
    return f;
}

static void end(void)
{
    OK(F(cuDevicePrimaryCtxRelease)(0));
    OK(F(cuCtxSetCurrent)(NULL));
}

static CUresult launch(CUfunction f, unsigned grid, unsigned cluster)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    a.value.clusterDim.x = cluster;
    a.value.clusterDim.y = a.value.clusterDim.z = 1;
    CUlaunchConfig cfg = {.gridDimX = grid, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1,
                          .attrs = &a, .numAttrs = cluster != 0};
    void *args[] = {&y};
    return F(cuLaunchKernelEx)(&cfg, f, args, NULL);
}

static void is(unsigned grid, unsigned cluster)
{
    unsigned got[48];
    OK(F(cuMemcpyDtoH)(got, y, sizeof got));
    for (unsigned i = 0; i < grid; i++)
        assert_int_equal(got[i], cluster * 100 + i / cluster * cluster + (i + 1) % cluster);
}

static void sizes(void **state)
{
    CUfunction f = begin("any");
    static const unsigned good[] = {0, 1, 2, 3, 4, 6, 8};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        OK(launch(f, 48, good[i]));
        is(48, good[i] ? good[i] : 1);
    }
    assert_int_equal(launch(f, 48, 12), CUDA_ERROR_INVALID_CLUSTER_SIZE); /* more than 8 is not portable */
    assert_int_equal(launch(f, 48, 16), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    OK(launch(f, 48, 12));
    is(48, 12);
    OK(launch(f, 48, 16));
    is(48, 16);
    assert_int_equal(launch(f, 48, 24), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch(f, 46, 4), CUDA_ERROR_INVALID_CLUSTER_SIZE); /* does not divide the grid */
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION}; /* 0, 0, 0 */
    CUlaunchConfig cfg = {.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1, .attrs = &a, .numAttrs = 1};
    void *args[] = {&y};
    assert_int_equal(F(cuLaunchKernelEx)(&cfg, f, args, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    end();
}

static void compiled(void **state)
{
    int v;
    CUfunction f = begin("fixed"), must;
    OK(launch(f, 8, 0));
    is(8, 4);
    OK(launch(f, 8, 4));
    is(8, 4);
    assert_int_equal(launch(f, 8, 2), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch(f, 6, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK(F(cuFuncGetAttribute)(&v, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, f));
    assert_int_equal(v, 4);
    OK(F(cuFuncGetAttribute)(&v, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, f));
    assert_int_equal(v, 1);
    assert_int_equal(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2), CUDA_ERROR_NOT_PERMITTED);

    OK(F(cuModuleGetFunction)(&must, module, "must"));
    OK(F(cuFuncGetAttribute)(&v, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, must));
    assert_int_equal(v, 1);
    assert_int_equal(launch(must, 8, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(launch(must, 8, 8), CUDA_ERROR_INVALID_CLUSTER_SIZE); /* .maxclusterrank */
    OK(launch(must, 8, 2));
    is(8, 2);

    OK(F(cuModuleGetFunction)(&f, module, "any")); /* the size as a function attribute */
    assert_int_equal(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, -1), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2));
    assert_int_equal(launch(f, 8, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE); /* all three or none */
    OK(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1));
    OK(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1));
    OK(launch(f, 8, 0));
    is(8, 2);
    end();
}

static void nodes(void **state)
{
    CUgraph g;
    CUgraphNode n;
    CUgraphExec x;
    CUfunction f = begin("any");
    void *args[] = {&y};
    CUDA_KERNEL_NODE_PARAMS p = {.func = f, .gridDimX = 12, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1,
                                 .kernelParams = args};
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddKernelNode)(&n, g, NULL, 0, &p));
    CUkernelNodeAttrValue v = {.clusterDim = {3, 1, 1}};
    OK(F(cuGraphKernelNodeSetAttribute)(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v));
    v.clusterDim.x = 5;
    assert_int_equal(F(cuGraphKernelNodeSetAttribute)(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    memset(&v, 0, sizeof v);
    OK(F(cuGraphKernelNodeGetAttribute)(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v));
    assert_int_equal(v.clusterDim.x, 3);
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, NULL));
    is(12, 3);
    p.gridDimX = 24; /* new parameters keep the cluster */
    OK(F(cuGraphExecKernelNodeSetParams)(x, n, &p));
    OK(F(cuGraphLaunch)(x, NULL));
    is(24, 3);
    p.gridDimX = 25;
    assert_int_equal(F(cuGraphExecKernelNodeSetParams)(x, n, &p), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    assert_int_equal(F(cuGraphKernelNodeSetParams)(n, &p), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphDestroy)(g));

    CUstream s; /* captured */
    OK(F(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    a.value.clusterDim.x = 6;
    a.value.clusterDim.y = a.value.clusterDim.z = 1;
    CUlaunchConfig cfg = {.gridDimX = 12, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1, .hStream = s,
                          .attrs = &a, .numAttrs = 1};
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(F(cuLaunchKernelEx)(&cfg, f, args, NULL));
    OK(F(cuStreamEndCapture)(s, &g));
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, s));
    is(12, 6);
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphDestroy)(g));
    end();
}

static int active(CUfunction f, unsigned cluster, unsigned threads, unsigned shared, CUresult want)
{
    int n = -1;
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    a.value.clusterDim.x = cluster;
    a.value.clusterDim.y = a.value.clusterDim.z = 1;
    CUlaunchConfig cfg = {.gridDimX = cluster, .gridDimY = 1, .gridDimZ = 1, .blockDimX = threads, .blockDimY = 1, .blockDimZ = 1,
                          .sharedMemBytes = shared, .attrs = &a, .numAttrs = cluster != 0};
    assert_int_equal(F(cuOccupancyMaxActiveClusters)(&n, f, &cfg), want);
    return n;
}

/* An H200 has 132 SMs: 66 pairs over 8 GPCs, two GPCs with 9 pairs and six with 8. */
static void occupancy(void **state)
{
    int n;
    CUfunction f = begin("any"), fixed;
    const unsigned big = 200 << 10; /* one block an SM */
    OK(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, big));
    assert_int_equal(active(f, 1, 32, big, CUDA_SUCCESS), 132);
    assert_int_equal(active(f, 2, 32, big, CUDA_SUCCESS), 66);
    assert_int_equal(active(f, 4, 32, big, CUDA_SUCCESS), 2 * 4 + 6 * 4);
    assert_int_equal(active(f, 8, 32, big, CUDA_SUCCESS), 8 * 2);
    active(f, 16, 32, big, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    active(f, 0, 32, big, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    active(f, 2, 2048, 0, CUDA_ERROR_INVALID_VALUE);
    active(f, 2, 32, big + 1, CUDA_ERROR_INVALID_VALUE);
    CUlaunchConfig cfg = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1, .sharedMemBytes = big};
    OK(F(cuOccupancyMaxPotentialClusterSize)(&n, f, &cfg));
    assert_int_equal(n, 8);
    OK(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    OK(F(cuOccupancyMaxPotentialClusterSize)(&n, f, &cfg));
    assert_int_equal(n, 16);
    assert_int_equal(active(f, 16, 32, big, CUDA_SUCCESS), 8);
    OK(F(cuModuleGetFunction)(&fixed, module, "fixed"));
    cfg.sharedMemBytes = 0;
    OK(F(cuOccupancyMaxPotentialClusterSize)(&n, fixed, &cfg));
    assert_int_equal(n, 4);
    assert_int_equal(active(fixed, 0, 1024, 0, CUDA_SUCCESS), 2 * (2 * 18 / 4) + 6 * (2 * 16 / 4)); /* two blocks an SM */
    active(fixed, 2, 1024, 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    end();
}

static void older(void **state)
{
    CUdevice l4;
    CUcontext c;
    CUfunction f;
    OK(F(cuInit)(0));
    OK(X(dovetailDeviceByModel)(&l4, "l4"));
    OK(F(cuCtxCreate)(&c, NULL, 0, l4));
    OK(F(cuModuleLoadData)(&module, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 y)\n{\nret;\n}\n"));
    OK(F(cuModuleGetFunction)(&f, module, "k"));
    OK(F(cuMemAlloc)(&y, 64));
    OK(launch(f, 4, 0));
    assert_int_equal(launch(f, 4, 2), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    OK(F(cuCtxDestroy)(c));
}

int main(void)
{
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    for (int i = 0; i < 3 && strrchr(self, '/'); i++)
        *strrchr(self, '/') = 0;
    snprintf(path, sizeof path, "%s/softgpu/libcuda.so.1", self);
    lib = dlopen(getenv("DOVETAIL_SOFTGPU") ? getenv("DOVETAIL_SOFTGPU") : path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        printf("%s\n", dlerror());
        return 1;
    }
    unsetenv("DOVETAIL_SOFTGPU_MODEL");
    get = (__typeof__(get))dlsym(lib, "cuGetProcAddress_v2");
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(compiled), cmocka_unit_test(nodes),
                                       cmocka_unit_test(occupancy), cmocka_unit_test(older)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
