// Very many small blocks: 32 numbers scaled; 32 numbers divided by their sum; products of 8 x 8 matrices, two warps each.
extern "C" __global__ void __launch_bounds__(32) scaled(const float *__restrict__ x, float *__restrict__ y)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    y[i] = x[i] * 2.f + 1.f;
}

extern "C" __global__ void __launch_bounds__(32) shares(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float s[32];
    const int t = threadIdx.x, i = blockIdx.x * 32 + t;
    s[t] = x[i];
    __syncthreads();
    for (int d = 16; d; d /= 2) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    y[i] = x[i] / s[0];
}

extern "C" __global__ void __launch_bounds__(64) products8(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = x[i];
    __syncthreads();
    float v = 0;
#pragma unroll
    for (int k = 0; k < 8; k++)
        v += s[t / 8 * 8 + k] * s[k * 8 + t % 8];
    y[i] = v;
}
