/* Clusters, tensor maps and programmatic launches through the driver API: launch attributes, function attributes, graph
 * nodes, occupancy, encoding, error codes. */
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

static void *sym(const char *symbol)
{
    void *p = dlsym(lib, symbol);
    if (!p && get(symbol, &p, CUDA_VERSION, 0, NULL) != CUDA_SUCCESS) /* extensions are not exported */
        fail_msg("no %s", symbol);
    return p;
}
#define TEXT(x) #x
#define SYMBOL(name) TEXT(name) /* as cuda.h's macros spell it: cuMemAlloc_v2 */
#define F(name) ((__typeof__(&name))sym(SYMBOL(name)))
#define X(name) ((name##_t)sym(#name))
#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

/* y[block] = cluster size * 100 + the number of the block whose shared memory it read: the next one of its cluster */
#define BODY                                                                                                           \
    "{\n.reg .b64 %a; .reg .b32 %r<8>; .reg .pred %p; .shared .b32 v;\n"                                               \
    "ld.param.u64 %a, [y]; mov.u32 %r0, %ctaid.x; st.shared.u32 [v], %r0;\n"                                           \
    "barrier.cluster.arrive; barrier.cluster.wait;\n"                                                                  \
    "mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; add.u32 %r3, %r1, 1; rem.u32 %r3, %r3, %r2;\n"     \
    "mapa.shared::cluster.u32 %r4, v, %r3; ld.shared::cluster.u32 %r5, [%r4]; mad.lo.u32 %r5, %r2, 100, %r5;\n"        \
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
    CUlaunchConfig cfg = {.gridDimX = grid,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 32,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .attrs = &a,
                          .numAttrs = cluster != 0};
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
    CUlaunchConfig cfg = {.gridDimX = 4,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 32,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .attrs = &a,
                          .numAttrs = 1};
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
    CUDA_KERNEL_NODE_PARAMS p = {.func = f,
                                 .gridDimX = 12,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 32,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = args};
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddKernelNode)(&n, g, NULL, 0, &p));
    CUkernelNodeAttrValue v = {.clusterDim = {3, 1, 1}};
    OK(F(cuGraphKernelNodeSetAttribute)(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v));
    v.clusterDim.x = 5;
    assert_int_equal(F(cuGraphKernelNodeSetAttribute)(n, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v),
                     CUDA_ERROR_INVALID_CLUSTER_SIZE);
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
    CUlaunchConfig cfg = {.gridDimX = 12,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 32,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .hStream = s,
                          .attrs = &a,
                          .numAttrs = 1};
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
    CUlaunchConfig cfg = {.gridDimX = cluster,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = threads,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .sharedMemBytes = shared,
                          .attrs = &a,
                          .numAttrs = cluster != 0};
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
    CUlaunchConfig cfg = {.gridDimX = 1,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 32,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .sharedMemBytes = big};
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
    /* two blocks an SM */
    assert_int_equal(active(fixed, 0, 1024, 0, CUDA_SUCCESS), 2 * (2 * 18 / 4) + 6 * (2 * 16 / 4));
    active(fixed, 2, 1024, 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    end();
}

/* A block loads a box of a matrix in global memory by a map in the place that `way` says, and stores it elsewhere by
 * another one. */
static const char tiles[] =
    ".version 8.3\n.target sm_90a\n.address_size 64\n.const .align 64 .b8 table[128];\n.global .align 128 .b8 "
    "changed[128];\n"
    ".visible .entry tile(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u32 way, .param .u64 "
    "y)\n{\n"
    ".reg .b64 %m, %n, %y; .reg .b32 %r<6>; .reg .pred %p; .shared .align 128 .b8 box[1024]; .shared .align 128 .b8 "
    "map[128]; .shared .align 8 .b64 bar;\n"
    "ld.param.u32 %r0, [way]; ld.param.u64 %y, [y]; mov.b64 %m, from; cvta.param.u64 %m, %m; mov.b64 %n, to; "
    "cvta.param.u64 %n, %n;\n"
    "setp.eq.u32 %p, %r0, 1; @%p mov.u64 %m, table; @%p cvta.const.u64 %m, %m;\n"
    "setp.ne.u32 %p, %r0, 2; @%p bra COPY;\n"
    /* a copy in shared memory, with another address, box and swizzle, published in global memory */
    "mov.u32 %r1, 0; LOOP: cvt.u64.u32 %n, %r1; add.u64 %n, %n, %m; ld.u32 %r2, [%n]; mov.u32 %r3, map; add.u32 %r3, "
    "%r3, %r1; st.shared.u32 [%r3], %r2;\n"
    "add.u32 %r1, %r1, 4; setp.lt.u32 %p, %r1, 128; @%p bra LOOP; mov.b64 %n, to; cvta.param.u64 %n, %n;\n"
    "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %y;\n"
    "tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;\n"
    "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 0, 16;\n"
    "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 1, 16;\n"
    "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 0, 10;\n"
    "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 0, 128;\n"
    "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 1, 1;\n"
    "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [map], 2;\n"
    "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [map], 0;\n"
    "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [map], 0;\n"
    "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [map], 0;\n"
    "mov.u64 %m, changed; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%m], "
    "[map], 128;\n"
    "cvta.global.u64 %m, %m; fence.proxy.tensormap::generic.acquire.gpu [%m], 128;\n"
    "COPY: mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n"
    "prefetch.tensormap [%m];\n"
    "cp.async.bulk.prefetch.tensor.2d.L2.global [%m, {4, -2}];\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%m, {4, -2}], [bar];\n"
    "WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;\n"
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%n, {0, 0}], [box];\n"
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;\n}\n";

static CUresult encode(CUtensorMap *m, CUdeviceptr at, cuuint64_t width, cuuint64_t height, cuuint64_t pitch,
                       CUtensorMapSwizzle s)
{
    cuuint64_t dim[2] = {width, height}, stride[1] = {pitch};
    cuuint32_t box[2] = {16, 16}, step[2] = {1, 1};
    return F(cuTensorMapEncodeTiled)(m, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, (void *)(uintptr_t)at, dim, stride, box, step,
                                     CU_TENSOR_MAP_INTERLEAVE_NONE, s, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void tensor_maps(void **state)
{
    static int x[2][32 * 20], out[16 * 16];
    CUdeviceptr d, e, o, table;
    size_t n;
    CUfunction f = begin("any");
    OK(F(cuModuleLoadData)(&module, tiles));
    OK(F(cuModuleGetFunction)(&f, module, "tile"));
    OK(F(cuMemAlloc)(&d, sizeof x[0]));
    OK(F(cuMemAlloc)(&e, sizeof x[0]));
    OK(F(cuMemAlloc)(&o, sizeof out));
    for (int i = 0; i < 32 * 20; i++)
        x[0][i] = 1000 + i, x[1][i] = 5000 + i;
    OK(F(cuMemcpyHtoD)(d, x[0], sizeof x[0]));
    OK(F(cuMemcpyHtoD)(e, x[1], sizeof x[1]));
    CUtensorMap from, to;
    OK(encode(&from, d, 30, 20, 128, CU_TENSOR_MAP_SWIZZLE_64B));
    OK(encode(&to, o, 16, 16, 64, CU_TENSOR_MAP_SWIZZLE_64B));
    OK(F(cuModuleGetGlobal)(&table, &n, module, "table"));
    assert_int_equal(n, 128);
    OK(F(cuMemcpyHtoD)(table, &from, sizeof from));
    for (int way = 0; way < 3; way++) {
        if (way == 2)
            OK(encode(&to, o, 16, 16, 64, CU_TENSOR_MAP_SWIZZLE_NONE));
        void *args[] = {&from, &to, &way, &e};
        OK(F(cuMemsetD8)(o, 0xAA, sizeof out));
        OK(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        OK(F(cuMemcpyDtoH)(out, o, sizeof out));
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < 16; c++) {
                int row = r - 2, col = c + 4, width = way == 2 ? 10 : 30;
                assert_int_equal(out[r * 16 + c], row >= 0 && col < width ? x[way == 2][row * 32 + col] : 0);
            }
    }
    OK(F(cuTensorMapReplaceAddress)(&from, (void *)(uintptr_t)e));
    int way = 0;
    OK(encode(&to, o, 16, 16, 64, CU_TENSOR_MAP_SWIZZLE_64B));
    void *args[] = {&from, &to, &way, &e};
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(F(cuMemcpyDtoH)(out, o, sizeof out));
    assert_int_equal(out[2 * 16], 5004);

    assert_int_equal(F(cuTensorMapReplaceAddress)(&from, (void *)(uintptr_t)(e + 8)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(&from, d + 4, 30, 20, 128, CU_TENSOR_MAP_SWIZZLE_64B), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(&from, d, 0, 20, 128, CU_TENSOR_MAP_SWIZZLE_64B), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(&from, d, 30, 20, 120, CU_TENSOR_MAP_SWIZZLE_64B), CUDA_ERROR_INVALID_VALUE);
    /* 64 bytes a row */
    assert_int_equal(encode(&from, d, 30, 20, 128, CU_TENSOR_MAP_SWIZZLE_32B), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode(&from, d, 30, 20, 128, (CUtensorMapSwizzle)7), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(encode((CUtensorMap *)((char *)&from + 16), d, 30, 20, 128, CU_TENSOR_MAP_SWIZZLE_NONE),
                     CUDA_ERROR_INVALID_VALUE);
    for (int a = CU_TENSOR_MAP_SWIZZLE_128B; a <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B; a++)
        OK(encode(&from, d, 30, 20, 128, (CUtensorMapSwizzle)a));
    end();
}

/* Two kernels: the first triggers at once and works on, the second works, waits, and works on. */
static const char grids[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry first(.param .u64 y)\n{\n.reg .b32 %r; .reg .pred %p; .reg .b64 %a; "
    "griddepcontrol.launch_dependents; mov.u32 %r, 0;\n"
    "L: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 4000; @%p bra L; ld.param.u64 %a, [y]; st.global.u32 [%a], %r; ret;\n}\n"
    ".visible .entry second(.param .u64 y)\n{\n.reg .b32 %r, %s; .reg .pred %p; .reg .b64 %a; mov.u32 %r, 0;\n"
    "L: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 2000; @%p bra L; griddepcontrol.wait; ld.param.u64 %a, [y]; "
    "ld.global.u32 %s, [%a];\n"
    "M: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 4000; @%p bra M; add.u32 %s, %s, %r; st.global.u32 [%a+4], %s; "
    "ret;\n}\n";

static void programmatic(void **state)
{
    CUgraph g;
    CUgraphExec x;
    CUgraphNode a, b, from[2], to[2];
    CUgraphEdgeData edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                            .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC},
                    got[2];
    CUfunction f = begin("any"), first, second;
    CUevent e0, e1;
    float ms[2];
    unsigned out[2];
    size_t n = 2;
    double t[2], s[2][2];
    OK(F(cuModuleLoadData)(&module, grids));
    OK(F(cuModuleGetFunction)(&first, module, "first"));
    OK(F(cuModuleGetFunction)(&second, module, "second"));
    OK(F(cuEventCreate)(&e0, 0));
    OK(F(cuEventCreate)(&e1, 0));
    void *args[] = {&y};
    for (int early = 0; early < 2; early++) { /* a stream */
        CUlaunchAttribute at = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
        at.value.programmaticStreamSerializationAllowed = early;
        CUlaunchConfig cfg = {.gridDimX = 1,
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = 32,
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .attrs = &at,
                              .numAttrs = 1};
        OK(F(cuEventRecord)(e0, NULL));
        OK(F(cuLaunchKernelEx)(&cfg, first, args, NULL));
        OK(F(cuLaunchKernelEx)(&cfg, second, args, NULL));
        OK(F(cuEventRecord)(e1, NULL));
        OK(F(cuEventSynchronize)(e1));
        OK(F(cuEventElapsedTime)(&ms[early], e0, e1));
        OK(F(cuMemcpyDtoH)(out, y, sizeof out));
        assert_int_equal(out[1], 8000);
    }
    assert_true(ms[1] < 0.8 * ms[0] && ms[1] > 0.6 * ms[0]); /* a half of the second of two equal kernels is hidden */

    CUgraphNodeParams k = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    k.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = first,
                                            .gridDimX = 1,
                                            .gridDimY = 1,
                                            .gridDimZ = 1,
                                            .blockDimX = 32,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .kernelParams = args};
    for (int early = 0; early < 2; early++) { /* a graph */
        OK(F(cuGraphCreate)(&g, 0));
        k.kernel.func = first;
        OK(F(cuGraphAddNode)(&a, g, NULL, NULL, 0, &k));
        k.kernel.func = second;
        OK(F(cuGraphAddNode)(&b, g, &a, early ? &edge : NULL, 1, &k));
        OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
        OK(F(cuGraphLaunch)(x, NULL));
        OK(F(cuCtxSynchronize)());
        OK(X(dovetailGraphNodeTime)(x, a, &t[0], &t[1]));
        OK(X(dovetailGraphNodeTime)(x, b, &s[early][0], &s[early][1]));
        assert_true((s[early][0] < t[1]) == early);
        n = 2;
        OK(F(cuGraphGetEdges)(g, from, to, got, &n));
        assert_int_equal(n, 1);
        assert_int_equal(got[0].from_port, early ? CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC : 0);
        OK(F(cuGraphExecDestroy)(x));
        if (early) {
            CUgraphEdgeData bad = edge;
            CUgraphNode empty, c;
            OK(F(cuGraphAddEmptyNode)(&empty, g, NULL, 0));
            /* no kernel */
            assert_int_equal(F(cuGraphAddDependencies)(g, &empty, &b, &edge, 1), CUDA_ERROR_INVALID_VALUE);
            bad.from_port = 7;
            assert_int_equal(F(cuGraphAddNode)(&c, g, &a, &bad, 1, &k), CUDA_ERROR_INVALID_VALUE);
            OK(F(cuGraphGetNodes)(g, NULL, &n));
            assert_int_equal(n, 3);
            OK(F(cuGraphRemoveDependencies)(g, &a, &b, &edge, 1));
            OK(F(cuGraphGetEdges)(g, NULL, NULL, NULL, &n));
            assert_int_equal(n, 0);
        }
        OK(F(cuGraphDestroy)(g));
    }
    assert_true(s[1][1] < s[0][1]);
    (void)f;
    end();
}

/* 300 live registers and 512 threads: ptxas would spill, so the launch fits. */
static void many_registers(void **state)
{
    CUfunction f = begin("any");
    static char text[40000];
    int n = snprintf(
            text, sizeof text,
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry many(.param .u64 y) .maxntid 512, 1, 1\n{\n"
            ".reg .b32 %%r<301>; .reg .b64 %%a; ld.param.u64 %%a, [y]; mov.u32 %%r0, %%tid.x;\n"),
        regs;
    for (int i = 1; i <= 300; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "add.u32 %%r%d, %%r%d, %d;\n", i, i - 1, i);
    for (int i = 1; i < 300; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "xor.b32 %%r300, %%r300, %%r%d;\n", i);
    snprintf(text + n, sizeof text - (size_t)n, "st.global.u32 [%%a], %%r300; ret;\n}\n");
    OK(F(cuModuleLoadData)(&module, text));
    OK(F(cuModuleGetFunction)(&f, module, "many"));
    OK(F(cuFuncGetAttribute)(&regs, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    assert_int_equal(regs, 128); /* 65536 / 512 */
    void *args[] = {&y};
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 512, 1, 1, 0, NULL, args, NULL));
    OK(F(cuCtxSynchronize)());
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
    OK(F(cuModuleLoadData)(
        &module, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 y)\n{\nret;\n}\n"));
    OK(F(cuModuleGetFunction)(&f, module, "k"));
    OK(F(cuMemAlloc)(&y, 64));
    OK(launch(f, 4, 0));
    assert_int_equal(launch(f, 4, 2), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CUtensorMap map;
    assert_int_equal(encode(&map, 1 << 20, 30, 20, 128, CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_ERROR_NOT_SUPPORTED);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes),          cmocka_unit_test(compiled),
                                       cmocka_unit_test(nodes),          cmocka_unit_test(occupancy),
                                       cmocka_unit_test(tensor_maps),    cmocka_unit_test(programmatic),
                                       cmocka_unit_test(many_registers), cmocka_unit_test(older)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
