/* A program for the section `capture` of gpu.py: a chain of kernels on two streams, a memset of a pattern, pinned
 * memory, a CUDA graph that is launched twice, and three equal steps on a state. It uses the driver API alone, so that
 * no runtime need be there. Usage: captured FILE, to which goes what the device gave back.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 16 };
static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 by, .param .u32 n) {\n"
    ".reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [by]; ld.param.u32 %r1, [n];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.u32 %p, %r5, %r1; @%p ret; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, "
    "%rd3;\n"
    "ld.global.f32 %f2, [%rd1]; mul.rn.f32 %f3, %f2, %f1; st.global.f32 [%rd2], %f3; ret; }\n"
    ".visible .entry add(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n) {\n"
    ".reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .pred %p;\n"
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd4, [z]; ld.param.u32 %r1, [n];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.u32 %p, %r5, %r1; @%p ret; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, "
    "%rd3;\n"
    "add.s64 %rd4, %rd4, %rd3; ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd2]; add.rn.f32 %f3, %f1, %f2;\n"
    "st.global.f32 [%rd4], %f3; ret; }\n";

static CUfunction scale, add;
static FILE *out;

static void try(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: error %d\n", what, (int)r);
    exit(1);
}
#define TRY(call) try(call, #call)

static void run_scale(CUdeviceptr x, CUdeviceptr y, float by, CUstream s)
{
    unsigned n = N;
    void *a[] = {&x, &y, &by, &n};
    TRY(cuLaunchKernel(scale, N / 256, 1, 1, 256, 1, 1, 0, s, a, NULL));
}

static void run_add(CUdeviceptr x, CUdeviceptr y, CUdeviceptr z, CUstream s)
{
    unsigned n = N;
    void *a[] = {&x, &y, &z, &n};
    TRY(cuLaunchKernel(add, N / 256, 1, 1, 256, 1, 1, 0, s, a, NULL));
}

static void give(CUdeviceptr p)
{
    static float v[N];
    TRY(cuMemcpyDtoH(v, p, sizeof v));
    fwrite(v, sizeof v, 1, out);
}

int main(int argc, char **argv)
{
    CUdevice dev;
    CUcontext ctx;
    CUmodule m;
    CUstream s, t;
    CUevent e;
    CUgraph g;
    CUgraphExec x;
    CUdeviceptr p; /* one allocation for everything, as frameworks have it */
    float *pinned;
    const size_t bytes = N * sizeof(float);
    out = argc == 2 ? fopen(argv[1], "wb") : NULL;
    if (!out)
        return 2;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&dev, 0));
    TRY(cuDevicePrimaryCtxRetain(&ctx, dev));
    TRY(cuCtxSetCurrent(ctx));
    TRY(cuModuleLoadData(&m, ptx));
    TRY(cuModuleGetFunction(&scale, m, "scale"));
    TRY(cuModuleGetFunction(&add, m, "add"));
    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    TRY(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    TRY(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    TRY(cuMemAlloc(&p, 6 * bytes));
    TRY(cuMemHostAlloc((void **)&pinned, bytes, 0));
    for (int i = 0; i < N; i++)
        pinned[i] = (float)(i * 7919 % 2001) / 1000 - 1;
    CUdeviceptr a = p, b = p + bytes, c = p + 2 * bytes, state = p + 3 * bytes, h = p + 4 * bytes, y = p + 5 * bytes;
    TRY(cuMemcpyHtoDAsync(a, pinned, bytes, s));
    TRY(cuMemsetD32Async(b, 0x3fc00000, N, t)); /* 1.5 */
    run_scale(b, b, 0.5f, t);
    TRY(cuEventRecord(e, t));
    run_scale(a, c, 2, s);
    TRY(cuStreamWaitEvent(s, e, 0));
    run_add(b, c, state, s);
    TRY(cuStreamSynchronize(s));
    give(state);
    TRY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    run_scale(state, h, 0.25f, s);
    run_add(h, a, c, s);
    TRY(cuMemcpyDtoDAsync(state, c, bytes, s));
    TRY(cuStreamEndCapture(s, &g));
    TRY(cuGraphInstantiate(&x, g, 0));
    TRY(cuGraphLaunch(x, s));
    TRY(cuGraphLaunch(x, s));
    TRY(cuStreamSynchronize(s));
    for (int i = 0; i < 3; i++) {
        run_scale(state, h, 0.25f, s);
        run_add(h, a, state, s);
        run_scale(state, y, 8, s);
        TRY(cuStreamSynchronize(s));
        give(y);
    }
    return fclose(out);
}
