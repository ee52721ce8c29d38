/* Chains of dependent arithmetic, few to many, and few to many warps. Rows: ../ilp.tsv. */
#include <cuda_fp16.h>

/* M chains of f64 multiply-adds, 1,024 in all a turn; started anew each turn */
template <int M> __device__ __forceinline__ void dfma(double *out, double p, int n)
{
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        double t[M];
#pragma unroll
        for (int m = 0; m < M; m++)
            t[m] = p + threadIdx.x + i + m;
#pragma unroll
        for (int j = 0; j < 1024 / M; j++)
#pragma unroll
            for (int m = 0; m < M; m++)
                t[m] = fma(t[m], 0.9, 0.5);
#pragma unroll
        for (int m = 0; m < M; m++)
            if (t[m] > 22313.0)
                out[0] = t[m];
    }
}
extern "C" __global__ void dfma1(double *out, double p, int n) { dfma<1>(out, p, n); }
extern "C" __global__ void dfma2(double *out, double p, int n) { dfma<2>(out, p, n); }
extern "C" __global__ void dfma3(double *out, double p, int n) { dfma<3>(out, p, n); }
extern "C" __global__ void dfma4(double *out, double p, int n) { dfma<4>(out, p, n); }
extern "C" __global__ void dfma8(double *out, double p, int n) { dfma<8>(out, p, n); }

/* one chain of f64 divisions, each with an addition before */
extern "C" __global__ void ddiv1(double *out, double p, int n)
{
    double t = p + threadIdx.x;
#pragma unroll 8
    for (int i = 0; i < n; i++)
        t = 0.1 / (t + 0.2);
    if (t > 22313.0)
        out[0] = t;
}

/* n times sixteen dependent instructions of one kind */
#define CHAIN(name, TYPE, LETTER, ...) \
    extern "C" __global__ void chain_##name(TYPE *out, int n) \
    { \
        TYPE t = out[threadIdx.x]; \
        _Pragma("unroll 1") for (int i = 0; i < n; i++) \
            _Pragma("unroll") for (int j = 0; j < 16; j++) asm volatile(__VA_ARGS__ : "+" LETTER(t)); \
        out[threadIdx.x] = t; \
    }
CHAIN(ffma, float, "f", "fma.rn.f32 %0, %0, %0, %0;")
CHAIN(fmul, float, "f", "mul.rn.f32 %0, %0, %0;")
CHAIN(fadd, float, "f", "add.rn.f32 %0, %0, %0;")
CHAIN(hfma2, unsigned, "r", "fma.rn.f16x2 %0, %0, %0, %0;")
CHAIN(imad, unsigned, "r", "mad.lo.u32 %0, %0, %0, %0;")
CHAIN(prmt, unsigned, "r", "prmt.b32 %0, %0, %0, 0x3210;")
CHAIN(add64, unsigned long long, "l", "add.u64 %0, %0, %0;")
CHAIN(ex2, float, "f", "ex2.approx.ftz.f32 %0, %0;")
CHAIN(rsqrt, float, "f", "rsqrt.approx.ftz.f32 %0, %0;")
CHAIN(rcp, float, "f", "rcp.approx.ftz.f32 %0, %0;")
CHAIN(redux, unsigned, "r", "redux.sync.min.u32 %0, %0, 0xffffffff;")
CHAIN(dfma, double, "d", "fma.rn.f64 %0, %0, %0, %0;")

/* C chains of mma.sync m16n8k16 a warp */
template <int C> __device__ __forceinline__ void hmma(float *out, int n)
{
    unsigned a = threadIdx.x;
    float d[C][4] = {};
#pragma unroll 1
    for (int i = 0; i < n; i++)
#pragma unroll
        for (int j = 0; j < 16 / C; j++)
#pragma unroll
            for (int c = 0; c < C; c++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, "
                             "{%0,%1,%2,%3};"
                             : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3]) : "r"(a));
    for (int c = 0; c < C; c++)
        out[threadIdx.x] += d[c][0] + d[c][1] + d[c][2] + d[c][3];
}
extern "C" __global__ void hmma1(float *out, int n) { hmma<1>(out, n); }
extern "C" __global__ void hmma8(float *out, int n) { hmma<8>(out, n); }

/* four chains a thread, one function a turn and chain */
#define FOUR(name, ...) \
    extern "C" __global__ void four_##name(float *out, int n) \
    { \
        float t[4]; \
        for (int c = 0; c < 4; c++) \
            t[c] = threadIdx.x + c; \
        _Pragma("unroll 8") for (int i = 0; i < n; i++) \
            _Pragma("unroll") for (int c = 0; c < 4; c++) t[c] = __VA_ARGS__; \
        if (t[0] + t[1] + t[2] + t[3] == -42.0f) \
            out[threadIdx.x] = t[0]; \
    }
FOUR(fma, fmaf(t[c], 1.0001f, 0.0001f))
FOUR(ex2, exp2f(t[c]))
FOUR(sin, __sinf(t[c]))
FOUR(sqrt, sqrtf(t[c]))
FOUR(inverse, 1.0f / t[c])
