// Very many small blocks that may not be packed: of 48 threads, whose second warp is half of one.
extern "C" __global__ void __launch_bounds__(48) turned(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float s[48];
    const int t = threadIdx.x, b = blockIdx.x;
    s[t] = x[b % 64 * 48 + t] * (float)b;
    __syncthreads();
    if (t < 2)
        y[b * 2 + t] = s[47 - t] - s[t];
}

extern "C" __global__ void some(const float *__restrict__ y, float *__restrict__ z) { z[threadIdx.x] = y[threadIdx.x * 78]; }
