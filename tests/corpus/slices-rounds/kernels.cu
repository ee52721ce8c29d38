// Blocks that go over rows, a grid apart, as kernels do whose grid is as large as some device: too few here, and each has 32 rounds.
//
// `shares` divides each row by its sum, which it makes in shared memory. Its rounds do not need each other, and are divided among blocks. Those of
// `running` add up, and `passed` finds in shared memory what the round before has left there: their blocks stay whole.
enum { ROWS = 256, WIDE = 256, THREADS = 128 };

static __device__ __forceinline__ float sum(float *s, float v)
{
    const int t = threadIdx.x;
    s[t] = v;
    __syncthreads();
#pragma unroll 1
    for (int n = THREADS / 2; n > 0; n /= 2) {
        if (t < n)
            s[t] += s[t + n];
        __syncthreads();
    }
    v = s[0];
    __syncthreads();
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS) shares(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float s[THREADS];
#pragma unroll 1
    for (int row = blockIdx.x; row < ROWS; row += gridDim.x) {
        const float a = x[row * WIDE + threadIdx.x], b = x[row * WIDE + THREADS + threadIdx.x];
        const float all = sum(s, a + b);
        y[row * WIDE + threadIdx.x] = a / all;
        y[row * WIDE + THREADS + threadIdx.x] = b / all;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) running(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float s[THREADS];
    float all = 0;
#pragma unroll 1
    for (int row = blockIdx.x; row < ROWS; row += gridDim.x) {
        all += sum(s, x[row * WIDE + threadIdx.x]);
        ((float2 *)y)[row * WIDE / 2 + threadIdx.x] = make_float2(all, all + x[row * WIDE + THREADS + threadIdx.x]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) passed(const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ float s[THREADS];
    const int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
#pragma unroll 1
    for (int row = blockIdx.x; row < ROWS; row += gridDim.x) {
        const float before = s[THREADS - 1 - t];
        __syncthreads();
        s[t] = x[row * WIDE + t];
        __syncthreads();
        ((float2 *)y)[row * WIDE / 2 + t] = make_float2(before, before * x[row * WIDE + THREADS + t]);
    }
}
