// Four pointwise kernels in a row over n = 4000 elements, in blocks of 256, 256, 128 and 512: the last block of each is partly idle.
extern "C" __global__ void scale(const float *__restrict__ x, float *__restrict__ a, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = x[i] * 1.5f;
}

extern "C" __global__ void shift(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        b[i] = a[i] - 0.25f;
}

extern "C" __global__ void relu(const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = fmaxf(b[i], 0.0f);
}

extern "C" __global__ void square(const float *__restrict__ c, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = c[i] * c[i];
}
