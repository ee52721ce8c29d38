// One buffer written, changed in place, read, and written again: RAW, WAR and WAW all occur, and each later write hides an earlier one.
extern "C" __global__ void set(const float *__restrict__ x, float *__restrict__ h)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    h[i] = x[i] * 2.0f;
}

extern "C" __global__ void increment(float *h)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    h[i] = h[i] + 1.0f;
}

extern "C" __global__ void read(const float *__restrict__ h, float *__restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = h[i] * h[i];
}

extern "C" __global__ void again(const float *__restrict__ x, float *__restrict__ h)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    h[i] = x[i] * 3.0f;
}
