/* What stands behind the products: element by element, in vectors of eight halves or in pairs, and by rows, a block of
 * 128 threads each. Element types are f16, sums f32. */
#include <cuda_fp16.h>

/* y = max(x + bias, 0); n columns, eight halves a thread */
extern "C" __global__ void bias_relu(const uint4 *x, const float *bias, uint4 *y, int count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    uint4 v = x[i];
    const float *b = bias + i * 8 % n;
    __half2 *h = (__half2 *)&v;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float2 f = __half22float2(h[j]);
        h[j] = __floats2half2_rn(fmaxf(f.x + b[2 * j], 0.f), fmaxf(f.y + b[2 * j + 1], 0.f));
    }
    y[i] = v;
}

/* z = x * scale + y, in pairs */
extern "C" __global__ void residual(const __half2 *x, const __half2 *y, __half2 *z, float scale, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float2 p = __half22float2(x[i]), q = __half22float2(y[i]);
    z[i] = __floats2half2_rn(__fadd_rn(__fmul_rn(p.x, scale), q.x), __fadd_rn(__fmul_rn(p.y, scale), q.y));
}

static __device__ float across(float v, bool highest, float *part)
{
    for (int d = 16; d; d /= 2) {
        float o = __shfl_xor_sync(0xffffffff, v, d);
        v = highest ? fmaxf(v, o) : v + o;
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int i = 1; i < 4; i++)
        v = highest ? fmaxf(v, part[i]) : v + part[i];
    __syncthreads();
    return v;
}

/* s[row] = sum of row */
extern "C" __global__ void row_sum(const __half2 *x, float *s, int n)
{
    __shared__ float part[4];
    float v = 0;
    for (int i = threadIdx.x; i < n / 2; i += 128) {
        float2 p = __half22float2(x[(size_t)blockIdx.x * (n / 2) + i]);
        v += p.x + p.y;
    }
    v = across(v, false, part);
    if (threadIdx.x == 0)
        s[blockIdx.x] = v;
}

extern "C" __global__ void softmax(const __half2 *x, __half2 *y, int n)
{
    __shared__ float part[4];
    const __half2 *row = x + (size_t)blockIdx.x * (n / 2);
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n / 2; i += 128) {
        float2 p = __half22float2(row[i]);
        top = fmaxf(top, fmaxf(p.x, p.y));
    }
    top = across(top, true, part);
    for (int i = threadIdx.x; i < n / 2; i += 128) {
        float2 p = __half22float2(row[i]);
        sum += expf(p.x - top) + expf(p.y - top);
    }
    sum = across(sum, false, part);
    for (int i = threadIdx.x; i < n / 2; i += 128) {
        float2 p = __half22float2(row[i]);
        y[(size_t)blockIdx.x * (n / 2) + i] = __floats2half2_rn(expf(p.x - top) / sum, expf(p.y - top) / sum);
    }
}
