// The sum of 8,192 numbers in two steps, and a division of all of them by it.
extern "C" __global__ void partial(const float *__restrict__ x, float *__restrict__ part)
{
    __shared__ float red[128];
    const int t = threadIdx.x;
    red[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int n = 64; n > 0; n >>= 1) {
        if (t < n)
            red[t] += red[t + n];
        __syncthreads();
    }
    if (t == 0)
        part[blockIdx.x] = red[0];
}

extern "C" __global__ void total(const float *__restrict__ part, float *__restrict__ sum)
{
    __shared__ float half;
    float v = part[threadIdx.x];
    for (int m = 16; m > 0; m >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, m);
    if (threadIdx.x == 32)
        half = v;
    __syncthreads();
    if (threadIdx.x == 0)
        *sum = v + half;
}

extern "C" __global__ void divide(const float *__restrict__ x, const float *__restrict__ sum, float *__restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = x[i] / *sum;
}
