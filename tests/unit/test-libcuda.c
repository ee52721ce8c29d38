/* A program that uses the driver API through dlopen, as any program would, on build/softgpu/libcuda.so.1. */
#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
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

#define GRAPH_LAUNCH 0.85 /* us: graph_launch_us of h200 in softgpu/model/models.def */

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

static const char head[] = ".version 7.8\n.target sm_80\n.address_size 64\n";
/* c[i] = a[i] + b[i] */
static const char vadd[] =
    ".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
    ".reg .pred %p1; .reg .b32 %r<6>; .reg .b64 %rd<8>; .reg .f32 %f<4>;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r1, [n];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra DONE;\n"
    "mul.wide.s32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4; ld.global.f32 %f1, [%rd5];\n"
    "add.s64 %rd6, %rd2, %rd4; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f1, %f2;\n"
    "add.s64 %rd7, %rd3, %rd4; st.global.f32 [%rd7], %f3;\nDONE: ret;\n}\n";
static const char spin[] = ".visible .entry spin()\n{\nL: bra L;\n}\n";
static const char traps[] = ".visible .entry traps()\n{\ntrap;\n}\n";
static const char misaligned[] = ".visible .entry mis(.param .u64 a)\n{\n.reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
                                 "ld.param.u64 %rd1, [a]; add.s64 %rd2, %rd1, 2; ld.global.u32 %r1, [%rd2];\n"
                                 "st.global.u32 [%rd1], %r1; ret;\n}\n";
static const char dynamic[] =
    ".extern .shared .align 4 .b8 sh[];\n.global .u32 counter = 7;\n"
    ".visible .entry dyn(.param .u64 a)\n{\n.reg .b64 %rd<3>; .reg .b32 %r<5>;\n"
    "ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, sh; add.s32 %r3, %r3, %r2;\n"
    "st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r4, [%r3]; cvt.u64.u32 %rd2, %r2;\n"
    "add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r4; ret;\n}\n";
static const char says[] = /* "%d %d\n": block and thread */
    ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 words[7] = {37, 100, 32, 37, 100, 10, 0};\n"
    ".visible .entry says(.param .u64 x)\n"
    "{\n"
    ".local .align 8 .b8 depot[8]; .reg .b64 %rd<4>; .reg .b32 %r<4>;\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; st.local.v2.u32 [depot], {%r1, %r2};\n"
    "mov.u64 %rd1, depot; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, words; cvta.global.u64 %rd2, %rd2;\n"
    "{ .param .b64 f; .param .b64 a; .param .b32 n; st.param.b64 [f], %rd2; st.param.b64 [a], %rd1;\n"
    "call.uni (n), vprintf, (f, a); ld.param.b32 %r3, [n]; }\n"
    "ld.param.u64 %rd3, [x]; cvta.to.global.u64 %rd3, %rd3; st.global.u32 [%rd3], %r3;\n"
    "ret;\n"
    "}\n";
static char ptx[16384];

static CUcontext fresh(void)
{
    CUcontext c;
    OK(F(cuInit)(0));
    OK(F(cuDevicePrimaryCtxRetain)(&c, 0));
    OK(F(cuCtxSetCurrent)(c));
    return c;
}

static void drop(void)
{
    OK(F(cuDevicePrimaryCtxRelease)(0));
    OK(F(cuCtxSetCurrent)(NULL));
}

static void device(void **state)
{
    int n, v;
    char name[64];
    CUdevice d;
    CUcontext c;
    const char *s;
    assert_int_equal(F(cuDeviceGetCount)(&n), CUDA_ERROR_NOT_INITIALIZED);
    OK(F(cuInit)(0));
    OK(F(cuDeviceGetCount)(&n));
    assert_int_equal(n, 1);
    OK(F(cuDeviceGet)(&d, 0));
    assert_int_equal(F(cuDeviceGet)(&d, 1), CUDA_ERROR_INVALID_DEVICE);
    OK(F(cuDeviceGetName)(name, sizeof name, 0));
    assert_string_equal(name, "NVIDIA H200 (modeled)");
    OK(F(cuDeviceGetAttribute)(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    assert_int_equal(v, 132);
    OK(F(cuDeviceGetAttribute)(&v, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    assert_int_equal(v, 227 * 1024);
    assert_int_equal(F(cuCtxGetDevice)(&d), CUDA_ERROR_INVALID_CONTEXT);
    OK(F(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &s));
    assert_string_equal(s, "CUDA_ERROR_ILLEGAL_ADDRESS");
    OK(F(cuGetErrorString)(CUDA_ERROR_ILLEGAL_ADDRESS, &s));
    assert_string_equal(s, "an illegal memory access was encountered");
    assert_int_equal(F(cuGetErrorName)((CUresult)12345, &s), CUDA_ERROR_INVALID_VALUE);

    CUdevice l4;
    assert_int_equal(X(dovetailSetFigures)("launch_us=3"), CUDA_ERROR_NOT_PERMITTED);
    OK(X(dovetailDeviceByModel)(&l4, "l4"));
    OK(F(cuDeviceGetAttribute)(&v, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, l4));
    assert_int_equal(v, 9);
    assert_int_equal(X(dovetailDeviceByModel)(&l4, "voodoo"), CUDA_ERROR_NOT_FOUND);

    OK(F(cuCtxCreate)(&c, NULL, 0, 0));
    OK(F(cuCtxGetDevice)(&d));
    OK(F(cuCtxDestroy)(c));
    assert_int_equal(F(cuCtxSynchronize)(), CUDA_ERROR_INVALID_CONTEXT);
}

/* Compute capability 12.0: what the driver says of a GeForce RTX 5090, and which PTX runs there. */
static void rtx5090(void **state)
{
    static const struct {
        CUdevice_attribute at;
        int want;
    } row[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 12},
               {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
               {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 170},
               {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 1536},
               {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 24},
               {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 100 * 1024},
               {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 99 * 1024},
               {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 96 << 20},
               {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 512},
               {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 14001000},
               {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1}};
    static const struct {
        const char *target;
        CUresult want;
    } text[] = {{"sm_120", CUDA_SUCCESS},
                {"sm_120a", CUDA_SUCCESS},
                {"sm_120f", CUDA_SUCCESS},
                {"sm_90", CUDA_SUCCESS},
                {"sm_100", CUDA_SUCCESS},
                {"sm_90a", CUDA_ERROR_NO_BINARY_FOR_GPU},
                {"sm_121", CUDA_ERROR_NO_BINARY_FOR_GPU},
                {"sm_100a", CUDA_ERROR_NO_BINARY_FOR_GPU}};
    CUdevice d;
    CUcontext c;
    CUmodule m;
    int v;
    OK(X(dovetailDeviceByModel)(&d, "rtx5090"));
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        OK(F(cuDeviceGetAttribute)(&v, row[k].at, d));
        assert_int_equal(v, row[k].want);
    }
    OK(F(cuCtxCreate)(&c, NULL, 0, d));
    for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
        char ptx[160];
        snprintf(ptx, sizeof ptx, ".version 9.0\n.target %s\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n",
                 text[k].target);
        CUresult r = F(cuModuleLoadData)(&m, ptx);
        if ((r == CUDA_SUCCESS) != (text[k].want == CUDA_SUCCESS))
            fail_msg("%s: %d", text[k].target, (int)r);
        if (!r)
            OK(F(cuModuleUnload)(m));
    }
    OK(F(cuCtxDestroy)(c));
}

static void procs(void **state)
{
    void *p, *q;
    CUdriverProcAddressQueryResult st;
    assert_int_equal(get("cuNoSuchThing", &p, CUDA_VERSION, 0, &st), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(st, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(dlsym(lib, "dovetailGetFault")); /* only through cuGetProcAddress */
    assert_null(dlsym(lib, "sg_execute"));
    assert_null(dlsym(lib, "ptx_parse"));
    OK(get("cuMemAlloc", &p, CUDA_VERSION, 0, &st));
    assert_ptr_equal(p, dlsym(lib, "cuMemAlloc_v2"));
    OK(get("cuGetProcAddress", &p, 11030, 0, &st));
    OK(get("cuGetProcAddress", &q, 12000, 0, &st));
    assert_ptr_equal(q, dlsym(lib, "cuGetProcAddress_v2"));
    assert_ptr_equal(p, dlsym(lib, "cuGetProcAddress"));
    assert_ptr_not_equal(p, q);
}

enum { N = 100000 };

static CUfunction load(const char *name, CUmodule *m)
{
    CUfunction f;
    OK(F(cuModuleLoadData)(m, ptx));
    OK(F(cuModuleGetFunction)(&f, *m, name));
    return f;
}

static void vector_add(void **state)
{
    CUmodule m;
    CUdeviceptr a, b, c;
    static float x[N], y[N], z[N];
    int n = N, regs;
    size_t free0, free1, total, off, size;
    fresh();
    OK(F(cuMemGetInfo)(&free0, &total));
    assert_true(total == (size_t)141 << 30);
    OK(F(cuMemAlloc)(&a, sizeof x));
    OK(F(cuMemAlloc)(&b, sizeof x));
    OK(F(cuMemAlloc)(&c, sizeof x));
    OK(F(cuMemGetInfo)(&free1, &total));
    assert_true(free0 - free1 >= 3 * sizeof x);
    for (int i = 0; i < N; i++)
        x[i] = (float)i, y[i] = 0.5f * (float)i;
    OK(F(cuMemcpyHtoD)(a, x, sizeof x));
    OK(F(cuMemcpyHtoD)(b, y, sizeof y));
    CUfunction f = load("vadd", &m);
    OK(F(cuFuncGetParamInfo)(f, 3, &off, &size));
    assert_int_equal(off, 24);
    assert_int_equal(size, 4);
    assert_int_equal(F(cuFuncGetParamInfo)(f, 4, &off, &size), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuFuncGetAttribute)(&regs, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    assert_in_range(regs, 1, 255);
    void *args[] = {&a, &b, &c, &n};
    OK(F(cuLaunchKernel)(f, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
    OK(F(cuMemcpyDtoH)(z, c, sizeof z));
    for (int i = 0; i < N; i++)
        assert_true(z[i] == 1.5f * (float)i);
    struct dovetail_launch_stats st;
    OK(X(dovetailLastStats)(&st));
    assert_int_equal(st.unique_write_bytes, sizeof z);
    assert_int_equal(st.fp32, N);
    uint64_t instructions = st.instructions;
    OK(X(dovetailSetFollow)(0)); /* then it counts what ran, and no more */
    OK(F(cuLaunchKernel)(f, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
    OK(X(dovetailLastStats)(&st));
    assert_int_equal(st.instructions, instructions);
    assert_int_equal(st.unique_write_bytes, 0);
    OK(X(dovetailSetFollow)(1));
    int blocks;
    OK(F(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, f, 256, 0));
    assert_int_equal(blocks, 8);
    OK(X(dovetailFuncSetResources)(f, 128));
    OK(F(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, f, 256, 0));
    assert_int_equal(blocks, 2);

    /* what a launch may not ask for */
    assert_int_equal(F(cuLaunchKernel)(f, 0, 1, 1, 256, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(F(cuLaunchKernel)(f, 1, 1, 1, 2048, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 50000, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(F(cuLaunchKernel)(f, 1, 1, 1, 1024, 1, 1, 0, NULL, args, NULL),
                     CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    assert_int_equal(F(cuMemcpyHtoD)(a, x, sizeof x + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(F(cuMemFree)(a + 4), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemFree)(a));
    assert_int_equal(F(cuMemFree)(a), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuModuleUnload)(m));
    drop();
}

static void modules(void **state)
{
    CUmodule m;
    CUfunction f;
    CUlibrary l;
    CUkernel k;
    CUdeviceptr p;
    size_t n;
    unsigned v = 0;
    char log[512] = "", bad[512];
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {log, (void *)sizeof log};
    fresh();
    snprintf(bad, sizeof bad, "%s.visible .entry e()\n{\n  add.s32 %%r1, 2;\n}\n", head);
    assert_int_equal(F(cuModuleLoadDataEx)(&m, bad, 2, opt, val), CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "line 6"));
    assert_int_equal(F(cuModuleLoadData)(&m, "\177ELF..."), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(F(cuModuleLoadData)(&m, ".version 8.7\n.target sm_100\n.address_size 64\n"),
                     CUDA_ERROR_NO_BINARY_FOR_GPU);
    OK(F(cuModuleLoadData)(&m, ptx));
    assert_int_equal(F(cuModuleGetFunction)(&f, m, "nope"), CUDA_ERROR_NOT_FOUND);
    OK(F(cuModuleGetGlobal)(&p, &n, m, "counter"));
    assert_int_equal(n, 4);
    OK(F(cuMemcpyDtoH)(&v, p, 4));
    assert_int_equal(v, 7);
    OK(F(cuModuleUnload)(m));
    OK(F(cuLibraryLoadData)(&l, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(F(cuLibraryGetKernel)(&k, l, "dyn"));
    OK(F(cuKernelGetFunction)(&f, k));

    /* dynamic shared memory: over the default only after opting in */
    OK(F(cuMemAlloc)(&p, 4096));
    void *args[] = {&p};
    assert_int_equal(F(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 1024, 1, 1, 100 * 1024, NULL, args, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    OK(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 * 1024));
    assert_int_equal(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300 * 1024),
                     CUDA_ERROR_INVALID_VALUE);
    OK(F(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 1024, 1, 1, 100 * 1024, NULL, args, NULL));
    unsigned out[1024];
    OK(F(cuMemcpyDtoH)(out, p, sizeof out));
    for (unsigned i = 0; i < 1024; i++)
        assert_int_equal(out[i], i);
    OK(F(cuLibraryUnload)(l));
    drop();
}

static void events_and_streams(void **state)
{
    CUmodule m;
    CUevent e0, e1;
    CUstream s, t;
    CUdeviceptr a;
    float ms, again;
    int n = N;
    fresh();
    OK(F(cuMemAlloc)(&a, N * 4));
    OK(F(cuMemsetD8)(a, 0, N * 4));
    CUfunction f = load("vadd", &m);
    void *args[] = {&a, &a, &a, &n};
    OK(F(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
    OK(F(cuStreamCreate)(&t, CU_STREAM_NON_BLOCKING));
    OK(F(cuEventCreate)(&e0, 0));
    OK(F(cuEventCreate)(&e1, 0));
    assert_int_equal(F(cuEventElapsedTime)(&ms, e0, e1), CUDA_ERROR_INVALID_HANDLE);
    for (int pass = 0; pass < 2; pass++) {
        OK(F(cuStreamSynchronize)(s));
        OK(F(cuEventRecord)(e0, s));
        for (int i = 0; i < 10; i++)
            OK(F(cuLaunchKernel)(f, (N + 255) / 256, 1, 1, 256, 1, 1, 0, s, args, NULL));
        OK(F(cuEventRecord)(e1, s));
        OK(F(cuEventSynchronize)(e1));
        OK(F(cuEventElapsedTime)(pass ? &again : &ms, e0, e1));
    }
    assert_true(ms == again);              /* modelled: always the same */
    assert_true(ms > 0.020f && ms < 0.2f); /* ten launches of at least the host's 2.2 us */
    OK(F(cuStreamWaitEvent)(t, e1, 0));
    OK(F(cuStreamDestroy)(s));
    OK(F(cuStreamDestroy)(t));
    OK(F(cuEventDestroy)(e0));
    OK(F(cuEventDestroy)(e1));
    drop();
}

static int calls;
static void host_fn(void *user) { calls += *(int *)user; }

static void graphs(void **state)
{
    CUmodule m;
    CUgraph g, copy;
    CUgraphExec x, y;
    CUgraphNode set, k1, k2, host, nodes[8];
    CUdeviceptr a, b;
    int n = 1000, five = 5;
    float out[1000];
    size_t count;
    fresh();
    OK(F(cuMemAlloc)(&a, 4000));
    OK(F(cuMemAlloc)(&b, 4000));
    CUfunction f = load("vadd", &m);
    void *args1[] = {&a, &a, &b, &n}, *args2[] = {&b, &b, &b, &n};
    OK(F(cuGraphCreate)(&g, 0));
    float one = 1;
    unsigned bits;
    memcpy(&bits, &one, 4);
    CUDA_MEMSET_NODE_PARAMS sp = {.dst = a, .value = bits, .elementSize = 4, .width = 1000, .height = 1};
    OK(F(cuGraphAddMemsetNode)(&set, g, NULL, 0, &sp, NULL));
    CUDA_KERNEL_NODE_PARAMS kp = {.func = f,
                                  .gridDimX = 4,
                                  .gridDimY = 1,
                                  .gridDimZ = 1,
                                  .blockDimX = 256,
                                  .blockDimY = 1,
                                  .blockDimZ = 1,
                                  .kernelParams = args2};
    OK(F(cuGraphAddKernelNode)(&k2, g, NULL, 0, &kp)); /* added before the node it follows */
    kp.kernelParams = args1;
    OK(F(cuGraphAddKernelNode)(&k1, g, &set, 1, &kp));
    OK(F(cuGraphAddDependencies)(g, &k1, &k2, NULL, 1));
    CUDA_HOST_NODE_PARAMS hp = {host_fn, &five};
    OK(F(cuGraphAddHostNode)(&host, g, &k2, 1, &hp));
    OK(F(cuGraphGetNodes)(g, NULL, &count));
    assert_int_equal(count, 4);
    count = 8;
    OK(F(cuGraphGetRootNodes)(g, nodes, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(nodes[0], set);
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    n = -1; /* parameters were copied */
    OK(F(cuGraphLaunch)(x, NULL));
    OK(F(cuCtxSynchronize)());
    OK(F(cuMemcpyDtoH)(out, b, sizeof out));
    for (int i = 0; i < 1000; i++)
        assert_true(out[i] == 4.0f);
    assert_int_equal(calls, 5);
    double s1, t1, s2, t2;
    OK(X(dovetailGraphNodeTime)(x, k1, &s1, &t1));
    OK(X(dovetailGraphNodeTime)(x, k2, &s2, &t2));
    assert_true(t1 > s1 && s2 > t1 && t2 > s2);
    /* a node of a graph costs that much */
    assert_true(s2 - t1 > (GRAPH_LAUNCH - 0.01) && s2 - t1 < (GRAPH_LAUNCH + 0.01));
    n = 1;
    OK(F(cuGraphExecKernelNodeSetParams)(x, k2, &kp)); /* args1 again, for one element */
    OK(F(cuGraphLaunch)(x, NULL));
    OK(F(cuMemcpyDtoH)(out, b, sizeof out));
    assert_true(out[0] == 2.0f && out[1] == 2.0f);
    OK(F(cuGraphClone)(&copy, g));
    OK(F(cuGraphInstantiateWithFlags)(&y, copy, 0));
    OK(F(cuGraphLaunch)(y, NULL));
    OK(F(cuMemcpyDtoH)(out, b, sizeof out));
    assert_true(out[999] == 4.0f);
    OK(F(cuGraphAddDependencies)(g, &host, &set, NULL, 1)); /* a circle */
    CUgraphExec z;
    assert_int_equal(F(cuGraphInstantiateWithFlags)(&z, g, 0), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphExecDestroy)(y));
    OK(F(cuGraphDestroy)(copy));
    OK(F(cuGraphDestroy)(g));
    drop();
}

static void capture(void **state)
{
    CUmodule m;
    CUgraph g;
    CUgraphExec x;
    CUstream s, t;
    CUevent fork_, join;
    CUdeviceptr a, b, c;
    CUgraphNode from[8], to[8];
    int n = 256;
    float out[256];
    size_t count = 8;
    fresh();
    OK(F(cuMemAlloc)(&a, 1024));
    OK(F(cuMemAlloc)(&b, 1024));
    OK(F(cuMemAlloc)(&c, 1024));
    CUfunction f = load("vadd", &m);
    void *ab[] = {&a, &a, &b, &n}, *ac[] = {&a, &a, &c, &n}, *bc[] = {&b, &c, &a, &n};
    OK(F(cuStreamCreate)(&s, 0));
    OK(F(cuStreamCreate)(&t, 0));
    OK(F(cuEventCreate)(&fork_, 0));
    OK(F(cuEventCreate)(&join, 0));
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(F(cuMemsetD32Async)(a, 0x3f800000, 256, s));
    OK(F(cuEventRecord)(fork_, s));
    OK(F(cuStreamWaitEvent)(t, fork_, 0));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 256, 1, 1, 0, s, ab, NULL));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 256, 1, 1, 0, t, ac, NULL));
    OK(F(cuEventRecord)(join, t));
    OK(F(cuStreamWaitEvent)(s, join, 0));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 256, 1, 1, 0, s, bc, NULL));
    OK(F(cuStreamEndCapture)(s, &g));
    OK(F(cuGraphGetEdges)(g, from, to, NULL, &count));
    assert_int_equal(count, 4); /* set to both, both to the last */
    OK(F(cuMemsetD8)(a, 0, 1024));
    OK(F(cuMemcpyDtoH)(out, a, 1024));
    assert_true(out[0] == 0); /* nothing ran while capturing */
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, s));
    OK(F(cuStreamSynchronize)(s));
    OK(F(cuMemcpyDtoH)(out, a, 1024));
    assert_true(out[0] == 4.0f && out[255] == 4.0f);
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphDestroy)(g));
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(F(cuEventRecord)(fork_, s));
    OK(F(cuStreamWaitEvent)(t, fork_, 0));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 256, 1, 1, 0, t, ac, NULL));
    assert_int_equal(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    OK(F(cuEventDestroy)(fork_));
    OK(F(cuEventDestroy)(join));
    drop();
}

/* The fault shows at the wait, sticks, is told in full, and a reset starts over. */
static void faulty(const char *entry, void **args, CUresult want, int num, const char *text)
{
    CUmodule m;
    struct dovetail_fault fault;
    CUdeviceptr p;
    CUfunction f = load(entry, &m);
    OK(F(cuLaunchKernel)(f, 2, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    assert_int_equal(F(cuCtxSynchronize)(), want);
    assert_int_equal(F(cuCtxSynchronize)(), want);
    assert_int_equal(F(cuMemAlloc)(&p, 16), want);
    OK(X(dovetailGetFault)(&fault));
    assert_int_equal(fault.num, num);
    assert_string_equal(fault.kernel, entry);
    if (!strstr(fault.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, fault.text);
    OK(F(cuDevicePrimaryCtxReset)(0));
    drop();
}

static void faults(void **state)
{
    CUdeviceptr a;
    int n = 128;
    fresh();
    OK(F(cuMemAlloc)(&a, 400)); /* of 512 bytes that are read */
    void *args[] = {&a, &a, &a, &n};
    faulty("vadd", args, CUDA_ERROR_ILLEGAL_ADDRESS, DT_E_BOUNDS, "block (1,0,0), thread (36,0,0)");
    fresh();
    OK(F(cuMemAlloc)(&a, 400));
    void *one[] = {&a};
    faulty("mis", one, CUDA_ERROR_MISALIGNED_ADDRESS, DT_E_BOUNDS, "ld.global");
    fresh();
    faulty("traps", NULL, CUDA_ERROR_LAUNCH_FAILED, DT_E_TRAP, "trap");
    fresh();
    OK(X(dovetailSetDeadline)(200));
    faulty("spin", NULL, CUDA_ERROR_LAUNCH_TIMEOUT, DT_E_TIMEOUT, "spin");
    fresh();
    OK(X(dovetailSetLimit)(100000));
    faulty("spin", NULL, CUDA_ERROR_LAUNCH_TIMEOUT, DT_E_TIMEOUT, "over the limit of 100000 thread-instructions");
    fresh();
    OK(F(cuMemAlloc)(&a, 4000)); /* a new context works */
    drop();
}

/* One launch of `says`, and what stdout got until the context was synchronised. */
static void printed(CUfunction f, unsigned blocks, void **args, char *ret, size_t n)
{
    FILE *to = tmpfile();
    int was = dup(1);
    assert_non_null(to);
    fflush(stdout);
    assert_int_equal(dup2(fileno(to), 1), 1);
    CUresult r = F(cuLaunchKernel)(f, blocks, 1, 1, 2, 1, 1, 0, NULL, args, NULL);
    r = r == CUDA_SUCCESS ? F(cuCtxSynchronize)() : r;
    assert_int_equal(dup2(was, 1), 1);
    close(was);
    rewind(to);
    ret[fread(ret, 1, n - 1, to)] = 0;
    fclose(to);
    OK(r);
}

/* printf of kernels: on stdout at the synchronisation, block after block; of more than the buffer holds, the last. */
static void kernels_print(void **state)
{
    CUdeviceptr x;
    CUmodule m;
    char text[256];
    uint32_t n = 0;
    fresh();
    CUfunction f = load("says", &m);
    OK(F(cuMemAlloc)(&x, 4));
    printed(f, 3, (void *[]){&x}, text, sizeof text);
    assert_string_equal(text, "0 0\n0 1\n1 0\n1 1\n2 0\n2 1\n");
    OK(F(cuMemcpyDtoH)(&n, x, 4));
    assert_int_equal(n, 2); /* vprintf's result */
    OK(F(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 8));
    printed(f, 5, (void *[]){&x}, text, sizeof text);
    assert_string_equal(text, "4 0\n4 1\n");
    OK(F(cuCtxSetLimit)(CU_LIMIT_PRINTF_FIFO_SIZE, 0));
    printed(f, 5, (void *[]){&x}, text, sizeof text);
    assert_string_equal(text, "");
    drop();
}

static void arena(void **state)
{
    CUdeviceptr base;
    CUmodule m;
    int n = 100;
    fresh();
    OK(X(dovetailArenaAlloc)(&base, 65536));
    assert_int_equal(F(cuMemsetD8)(base, 0, 16), CUDA_ERROR_INVALID_VALUE); /* nothing is allowed yet */
    OK(X(dovetailArenaAllow)(base + 512, 400));
    OK(X(dovetailArenaAllow)(base + 2048, 400));
    assert_int_equal(X(dovetailArenaAllow)(base + 65000, 1000), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemsetD8)(base + 512, 0, 400));
    OK(F(cuMemsetD8)(base + 2048, 0, 400));
    assert_int_equal(F(cuMemsetD8)(base + 512, 0, 401), CUDA_ERROR_INVALID_VALUE);
    CUfunction f = load("vadd", &m);
    CUdeviceptr p = base + 512, q = base + 2048;
    void *args[] = {&p, &p, &q, &n};
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    OK(F(cuCtxSynchronize)());
    n = 101;
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    assert_int_equal(F(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(F(cuDevicePrimaryCtxReset)(0));
    drop();
    fresh();
    OK(X(dovetailArenaAlloc)(&base, 65536));
    OK(X(dovetailArenaAllow)(base, 65536));
    OK(X(dovetailArenaFree)(base));
    assert_int_equal(F(cuMemsetD8)(base, 0, 16), CUDA_ERROR_INVALID_VALUE);
    /* its pages serve the next one, which knows nothing of what was allowed, and one that is larger has its own */
    OK(X(dovetailArenaAlloc)(&p, 4096));
    assert_int_equal(p, base);
    assert_int_equal(F(cuMemsetD8)(p, 0, 16), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(X(dovetailArenaAllow)(p, 4097), CUDA_ERROR_INVALID_VALUE);
    OK(X(dovetailArenaAllow)(p, 4096));
    OK(F(cuMemsetD8)(p, 1, 4096));
    OK(X(dovetailArenaAlloc)(&q, 1 << 20));
    assert_true(q >= p + 65536 || q + (1 << 20) <= p);
    OK(X(dovetailArenaAllow)(q, 1 << 20));
    OK(F(cuMemsetD8)(q, 2, 1 << 20));
    assert_int_equal(*(uint8_t *)(uintptr_t)(p + 4095), 1);
    OK(X(dovetailArenaFree)(q));
    OK(X(dovetailArenaFree)(p));
    /* both are kept: the smaller one serves what it has room for, and one of them grows for what neither has */
    OK(X(dovetailArenaAlloc)(&p, 4096));
    assert_int_equal(p, base);
    CUdeviceptr grown, again;
    OK(X(dovetailArenaAlloc)(&grown, 8 << 20));
    OK(X(dovetailArenaAllow)(grown, 8 << 20));
    OK(F(cuMemsetD8)(grown, 3, 8 << 20));
    assert_int_equal(*(uint8_t *)(uintptr_t)(grown + (8 << 20) - 1), 3);
    OK(X(dovetailArenaFree)(grown));
    OK(X(dovetailArenaAlloc)(&again, 8 << 20));
    assert_int_equal(again, grown);
    OK(X(dovetailArenaFree)(again));
    OK(X(dovetailArenaFree)(p));
    drop();
}

static void host_memory(void **state)
{
    CUmodule m;
    float *h;
    CUdeviceptr managed, dev;
    unsigned type;
    int n = 64;
    fresh();
    OK(F(cuMemHostAlloc)((void **)&h, 256, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(F(cuMemHostGetDevicePointer)(&dev, h, 0));
    OK(F(cuMemAllocManaged)(&managed, 256, CU_MEM_ATTACH_GLOBAL));
    float *mg = (float *)(uintptr_t)managed;
    for (int i = 0; i < 64; i++)
        h[i] = (float)i;
    CUfunction f = load("vadd", &m);
    void *args[] = {&dev, &dev, &managed, &n};
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    OK(F(cuCtxSynchronize)());
    for (int i = 0; i < 64; i++)
        assert_true(mg[i] == 2.0f * (float)i);
    OK(F(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dev));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(F(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    assert_int_equal(type, 1);
    assert_int_equal(F(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&type),
                     CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemFreeHost)(h));
    OK(F(cuMemFree)(managed));
    drop();
}

static void *worker(void *arg)
{
    CUmodule m;
    CUdeviceptr a;
    int n = 1000;
    float out[1000];
    OK(F(cuCtxSetCurrent)(arg));
    OK(F(cuMemAlloc)(&a, 4000));
    CUfunction f = load("vadd", &m);
    void *args[] = {&a, &a, &a, &n};
    for (int i = 0; i < 20; i++) {
        OK(F(cuMemsetD32)(a, 0x3f800000, 1000));
        OK(F(cuLaunchKernel)(f, 4, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
        OK(F(cuMemcpyDtoH)(out, a, 4000));
        assert_true(out[0] == 2.0f && out[999] == 2.0f);
    }
    OK(F(cuMemFree)(a));
    return arg;
}

static void threads(void **state)
{
    CUcontext c = fresh();
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, worker, c);
    for (int i = 0; i < 4; i++) {
        void *ret = NULL;
        pthread_join(t[i], &ret);
        assert_ptr_equal(ret, c);
    }
    drop();
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
    snprintf(ptx, sizeof ptx, "%s%s%s%s%s%s%s", head, vadd, spin, traps, misaligned, dynamic, says);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device),     cmocka_unit_test(rtx5090),       cmocka_unit_test(procs),
        cmocka_unit_test(vector_add), cmocka_unit_test(modules),       cmocka_unit_test(events_and_streams),
        cmocka_unit_test(graphs),     cmocka_unit_test(capture),       cmocka_unit_test(faults),
        cmocka_unit_test(arena),      cmocka_unit_test(kernels_print), cmocka_unit_test(host_memory),
        cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
