/* The runtime library without nvcc: what a compiled program does is done by hand, on a fat binary that is made here.
 *
 * Registration, launches by stub and by configuration, variables, copies of every shape, streams, events, graphs,
 * errors of calls and of kernels, a device that is reset, entries that are refused. tests/programs/ has programs that
 * nvcc compiled.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device, const char *name, int limit, void *tid,
                            void *bid, void *block, void *grid, int *warp);
void __cudaRegisterVar(void **handle, char *shadow, char *device, const char *name, int ext, size_t size, int constant,
                       int global);
void __cudaRegisterManagedVar(void **handle, void **shadow, char *device, const char *name, int ext, size_t size,
                              int constant, int global);
char __cudaInitModule(void **handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t cudaArrayGetPlane(cudaArray_t *plane, cudaArray_t array, unsigned index);
cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s);

static const char ptx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 factor = 3;\n"
    ".visible .global .attribute(.managed) .align 4 .u32 shared_count = 5;\n"
    /* x[i] = x[i] * factor + add */
    ".visible .entry scale(.param .u64 x, .param .u32 add)\n{\n"
    ".reg .b64 %x, %o; .reg .b32 %t, %v, %f, %c, %n;\n"
    "ld.param.u64 %x, [x]; ld.param.u32 %v, [add]; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x;\n"
    "mad.lo.u32 %t, %c, %n, %t; mul.wide.u32 %o, %t, 4; add.u64 %x, %x, %o; ld.global.u32 %f, [factor];\n"
    "ld.global.u32 %t, [%x]; mad.lo.u32 %t, %t, %f, %v; st.global.u32 [%x], %t; ret;\n}\n"
    ".visible .entry count()\n{\n.reg .b32 %v;\n"
    "ld.global.u32 %v, [shared_count]; add.u32 %v, %v, 1; st.global.u32 [shared_count], %v; ret;\n}\n";

static struct {
    uint32_t magic, version;
    const void *data, *file;
} wrapper = {0x466243b1, 1, NULL, NULL}, sass = {0x466243b1, 1, NULL, NULL};
static void **handle, **no_handle;
static char scale, count, unknown, only_sass, factor; /* their addresses stand for stubs and shadows */
static uint32_t *managed;

/* A fat binary with one entry: its kind (1 PTX, 2 machine code) and payload. */
static void *container(uint16_t kind, const char *payload, size_t n)
{
    size_t padded = (n + 7) / 8 * 8;
    unsigned char *p = calloc(1, 16 + 64 + padded);
    assert_non_null(p);
    uint32_t magic = 0xBA55ED50, header = 64, arch = 75;
    uint16_t version = 1, size = 16;
    uint64_t rest = 64 + padded, bytes = padded;
    memcpy(p, &magic, 4), memcpy(p + 4, &version, 2), memcpy(p + 6, &size, 2), memcpy(p + 8, &rest, 8);
    memcpy(p + 16, &kind, 2), memcpy(p + 20, &header, 4), memcpy(p + 24, &bytes, 8), memcpy(p + 44, &arch, 4);
    memcpy(p + 80, payload, n);
    return p;
}

static int start(void **state)
{
    wrapper.data = container(1, ptx, sizeof ptx);
    sass.data = container(2, "machine code", 12);
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &scale, &scale, "scale", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFunction(handle, &count, &count, "count", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(handle, &factor, &factor, "factor", 0, 4, 0, 0);
    __cudaRegisterManagedVar(handle, (void **)&managed, (char *)"m", "shared_count", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    no_handle = __cudaRegisterFatBinary(&sass);
    __cudaRegisterFunction(no_handle, &only_sass, &only_sass, "k", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(no_handle);
    return 0;
}

static int stop(void **state)
{
    free((void *)(uintptr_t)wrapper.data);
    free((void *)(uintptr_t)sass.data);
    return cudaDeviceReset();
}

static cudaError_t run_scale(void *x, unsigned add, unsigned threads, cudaStream_t s)
{
    void *args[] = {&x, &add};
    return cudaLaunchKernel(&scale, (dim3){1, 1, 1}, (dim3){threads, 1, 1}, args, 0, s);
}

#define OK(call) assert_int_equal(call, cudaSuccess)

static void test_launch(void **state)
{
    uint32_t h[64], *d;
    dim3 grid, block;
    size_t shared;
    cudaStream_t s = NULL, got;
    OK(cudaMalloc((void **)&d, sizeof h));
    for (unsigned i = 0; i < 64; i++)
        h[i] = i;
    OK(cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice));
    OK(run_scale(d, 7, 64, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDefault));
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(h[i], 3 * i + 7);
    /* configurations nest */
    assert_int_equal(__cudaPushCallConfiguration((dim3){1, 2, 3}, (dim3){4, 5, 6}, 7, s), 0);
    assert_int_equal(__cudaPushCallConfiguration((dim3){9, 1, 1}, (dim3){1, 1, 1}, 0, s), 0);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &got));
    assert_int_equal(grid.x, 9);
    OK(__cudaPopCallConfiguration(&grid, &block, &shared, &got));
    assert_int_equal(grid.z + block.z + shared, 16);
    assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &got), cudaErrorMissingConfiguration);
    cudaGetLastError();
    OK(cudaFree(d));
}

static void test_symbols(void **state)
{
    uint32_t v = 0;
    size_t n = 0;
    void *p;
    OK(cudaMemcpyFromSymbol(&v, &factor, 4, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(v, 3);
    v = 11;
    OK(cudaMemcpyToSymbol(&factor, &v, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaGetSymbolAddress(&p, &factor));
    OK(cudaGetSymbolSize(&n, &factor));
    assert_int_equal(n, 4);
    v = 0;
    OK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(v, 11);
    assert_int_equal(cudaMemcpyToSymbol(&factor, &v, 4, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaGetSymbolAddress(&p, &unknown), cudaErrorInvalidSymbol);
    assert_int_equal(cudaGetSymbolAddress(&p, &scale), cudaErrorInvalidSymbol); /* a kernel */
    v = 3;
    OK(cudaMemcpyToSymbol(&factor, &v, 4, 0, cudaMemcpyHostToDevice));
    cudaGetLastError();
}

static void test_managed(void **state)
{
    assert_true(__cudaInitModule(handle));
    assert_non_null(managed);
    assert_int_equal(*managed, 5);
    OK(cudaLaunchKernel(&count, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
    OK(cudaDeviceSynchronize());
    assert_int_equal(*managed, 6);
    assert_false(__cudaInitModule(no_handle));
}

static void test_errors(void **state)
{
    uint32_t *d;
    OK(cudaMalloc((void **)&d, 256));
    assert_int_equal(run_scale(d, 0, 2048, NULL), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaLaunchKernel(&unknown, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL),
                     cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaLaunchKernel(&only_sass, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL),
                     cudaErrorNoKernelImageForDevice);
    assert_int_equal(cudaMemcpy(d, d, 4, (enum cudaMemcpyKind)17), cudaErrorInvalidMemcpyDirection);
    assert_int_equal(cudaMemcpy2D(d, 4, d, 4, 8, 1, cudaMemcpyDeviceToDevice), cudaErrorInvalidPitchValue);
    assert_int_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    assert_int_equal(cudaFree((char *)d + 4), cudaErrorInvalidValue);
    cudaArray_t a;
    assert_int_equal(cudaArrayGetPlane(&a, NULL, 0), cudaErrorNotSupported);
    assert_int_equal(cudaGetLastError(), cudaErrorNotSupported);
    assert_string_equal(cudaGetErrorName(cudaErrorInvalidConfiguration), "cudaErrorInvalidConfiguration");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidConfiguration), "invalid configuration argument");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorString((cudaError_t)12345), "unrecognized error code");
    OK(cudaFree(d));
}

/* A kernel's error comes back from every call until the device is reset; then everything works again. */
static void test_reset(void **state)
{
    uint32_t *d, v = 1;
    OK(cudaMalloc((void **)&d, 4));
    OK(run_scale(d, 0, 64, NULL)); /* 63 words past its end */
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_int_equal(cudaMalloc((void **)&d, 4), cudaErrorIllegalAddress);
    OK(cudaDeviceReset());
    OK(cudaGetLastError());
    OK(cudaMalloc((void **)&d, 4));
    OK(cudaMemcpy(d, &v, 4, cudaMemcpyHostToDevice));
    OK(run_scale(d, 1, 1, NULL));
    OK(cudaMemcpy(&v, d, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(v, 4);
    OK(cudaFree(d));
}

static void test_copies(void **state)
{
    unsigned char h[6 * 10], back[6 * 10] = {0};
    void *d;
    size_t pitch;
    struct cudaPitchedPtr box;
    struct cudaExtent e = {.width = 5, .height = 3, .depth = 4};
    for (unsigned i = 0; i < sizeof h; i++)
        h[i] = (unsigned char)(i + 1);
    OK(cudaMallocPitch(&d, &pitch, 10, 6));
    assert_true(pitch >= 10);
    OK(cudaMemcpy2D(d, pitch, h, 10, 10, 6, cudaMemcpyHostToDevice));
    OK(cudaMemset2D((char *)d + 2 * pitch, pitch, 0xEE, 3, 1));
    OK(cudaMemcpy2D(back, 10, d, pitch, 10, 6, cudaMemcpyDeviceToHost));
    memset(h + 20, 0xEE, 3);
    assert_memory_equal(h, back, sizeof h);
    OK(cudaFree(d));
    OK(cudaMalloc3D(&box, e));
    struct cudaMemcpy3DParms p = {.srcPtr = {.ptr = h, .pitch = 5, .xsize = 5, .ysize = 3},
                                  .dstPtr = box,
                                  .extent = e,
                                  .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&p));
    OK(cudaMemset3D((struct cudaPitchedPtr){(char *)box.ptr + 2 * box.pitch * box.ysize, box.pitch, 5, 3}, 9,
                    (struct cudaExtent){2, 2, 1}));
    struct cudaMemcpy3DParms q = {.srcPtr = box,
                                  .dstPtr = {.ptr = back, .pitch = 5, .xsize = 5, .ysize = 3},
                                  .extent = e,
                                  .kind = cudaMemcpyDefault};
    OK(cudaMemcpy3D(&q));
    h[30] = h[31] = h[35] = h[36] = 9;
    assert_memory_equal(h, back, 60);
    OK(cudaFree(box.ptr));
}

static void set_flag(void *flag) { *(int *)flag = 1; }

static void test_streams(void **state)
{
    uint32_t *d, h[2] = {1, 2};
    cudaStream_t s;
    cudaEvent_t a, b;
    float ms = -1;
    int flag = 0;
    OK(cudaMallocAsync((void **)&d, 8, NULL));
    OK(cudaStreamCreate(&s));
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    OK(cudaEventRecord(a, s));
    OK(cudaMemcpyAsync_ptsz(d, h, 8, cudaMemcpyHostToDevice, NULL));
    OK(run_scale(d, 0, 2, s));
    OK(cudaLaunchHostFunc(s, set_flag, &flag));
    OK(cudaEventRecord(b, s));
    OK(cudaMemcpyAsync(h, d, 8, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaEventElapsedTime(&ms, a, b));
    assert_true(ms > 0);
    assert_int_equal(h[1], 6);
    assert_int_equal(flag, 1);
    OK(cudaStreamDestroy(s));
    assert_int_equal(cudaStreamQuery(s), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
    OK(cudaFreeAsync(d, NULL));
}

static void test_graphs(void **state)
{
    uint32_t *d, h = 1;
    unsigned add = 4;
    void *args[] = {&d, &add};
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphNode_t node[3], again;
    size_t n = 3;
    cudaGraphExec_t e;
    enum cudaGraphNodeType type;
    struct cudaKernelNodeParams p;
    OK(cudaMalloc((void **)&d, 4));
    OK(cudaStreamCreate(&s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpyAsync(d, &h, 4, cudaMemcpyHostToDevice, s));
    OK(cudaLaunchKernel(&scale, (dim3){1, 1, 1}, (dim3){1, 1, 1}, args, 0, s));
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphGetNodes(g, node, &n));
    assert_int_equal(n, 2);
    unsigned k = 0;
    OK(cudaGraphNodeGetType(node[1], &type));
    k = type == cudaGraphNodeTypeKernel;
    OK(cudaGraphKernelNodeGetParams(node[k], &p));
    assert_ptr_equal(p.func, &scale); /* the stub, not the driver's handle */
    assert_int_equal(*(unsigned *)p.kernelParams[1], 4);
    add = 9;
    p.kernelParams = args;
    OK(cudaGraphAddKernelNode(&again, g, &node[k], 1, &p));
    OK(cudaGraphInstantiate(&e, g, 0));
    OK(cudaGraphLaunch(e, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(h, (1 * 3 + 4) * 3 + 9);
    OK(cudaGraphExecDestroy(e));
    OK(cudaGraphDestroy(g));
    OK(cudaStreamDestroy(s));
    OK(cudaFree(d));
}

static void test_device(void **state)
{
    struct cudaDeviceProp p;
    struct cudaFuncAttributes a;
    struct cudaPointerAttributes at;
    int n, v, blocks;
    void *d;
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 1);
    OK(cudaGetDeviceProperties(&p, 0));
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0));
    assert_int_equal(p.multiProcessorCount, v);
    assert_int_equal(p.warpSize, 32);
    assert_non_null(strstr(p.name, "modeled"));
    assert_int_equal(cudaGetDeviceProperties(&p, 1), cudaErrorInvalidDevice);
    OK(cudaFuncGetAttributes(&a, &scale));
    assert_int_equal(a.maxThreadsPerBlock, 1024);
    assert_int_equal(a.ptxVersion, 80);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &scale, 256, 0));
    assert_true(blocks > 1);
    OK(cudaMalloc(&d, 64));
    OK(cudaPointerGetAttributes(&at, d));
    assert_int_equal(at.type, cudaMemoryTypeDevice);
    OK(cudaPointerGetAttributes(&at, &v));
    assert_int_equal(at.type, cudaMemoryTypeUnregistered);
    OK(cudaFree(d));
    OK(cudaRuntimeGetVersion(&v));
    assert_int_equal(v, CUDART_VERSION);
}

static void *other_thread(void *result)
{
    *(cudaError_t *)result = cudaPeekAtLastError(); /* a thread's own */
    int device = -1;
    if (cudaGetDevice(&device) != cudaSuccess || device)
        *(cudaError_t *)result = cudaErrorUnknown;
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t t;
    cudaError_t e = cudaErrorUnknown;
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    assert_int_equal(pthread_create(&t, NULL, other_thread, &e), 0);
    pthread_join(t, NULL);
    assert_int_equal(e, cudaSuccess);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_launch),  cmocka_unit_test(test_symbols),
                                       cmocka_unit_test(test_managed), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_reset),   cmocka_unit_test(test_copies),
                                       cmocka_unit_test(test_streams), cmocka_unit_test(test_graphs),
                                       cmocka_unit_test(test_device),  cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, start, stop);
}
