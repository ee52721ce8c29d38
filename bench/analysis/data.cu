// Kernels whose addresses or guards depend on data: what bench-analysis.py times the recorders with. n and rows are powers of two.
extern "C" __global__ void gather(const int *ix, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[ix[i] & (n - 1)];
}

extern "C" __global__ void bins(const unsigned *ix, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&y[ix[i] & 1023], 1);
}

extern "C" __global__ void masked(const int *ix, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && ix[i] & 1)
        y[i] = x[i] * 2;
}

extern "C" __global__ void embedding(const int *ix, const float *x, float *y, int rows, int width)
{
    int r = ix[blockIdx.x] & (rows - 1);
    for (int k = threadIdx.x; k < width; k += blockDim.x)
        y[blockIdx.x * width + k] = x[r * width + k];
}

// Rows of 16 entries from a place in 32 that data decides.
extern "C" __global__ void sparse(const int *row, const int *ix, const float *v, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float s = 0;
    for (int k = row[i] & 15; k < (row[i] & 15) + 16; k++)
        s += v[i * 32 + k] * x[ix[i * 32 + k] & (n - 1)];
    y[i] = s;
}
