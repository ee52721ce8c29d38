// Very many small blocks: each of two warps adds up 64 numbers in shared memory. Then one block looks at a few of the
// sums.
extern "C" __global__ void __launch_bounds__(64) sums(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, b = blockIdx.x;
    s[t] = x[b % 64 * 64 + t] * (float)b;
    __syncthreads();
    for (int d = 32; d; d /= 2) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0)
        y[b] = s[0];
}

extern "C" __global__ void some(const float *__restrict__ y, float *__restrict__ z) { z[threadIdx.x] = y[threadIdx.x * 78]; }
