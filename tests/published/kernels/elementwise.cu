/* Kernels of elementwise.tsv. */

/* c = a + b on an m x n matrix with a block of 16 x 16: x runs down the columns, or along the rows. */
extern "C" __global__ void add2d_down(const float *a, const float *b, float *c, int m, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < n && j < m)
        c[i * m + j] = a[i * m + j] + b[i * m + j];
}
extern "C" __global__ void add2d_along(const float *a, const float *b, float *c, int m, int n)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && j < m)
        c[i * m + j] = a[i * m + j] + b[i * m + j];
}

/* Three bytes of a pixel to one. */
extern "C" __global__ void gray(const unsigned char *in, unsigned char *out, int w, int h)
{
    const int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (y < 0 || y >= h || x < 0 || x >= w)
        return;
    const unsigned char *p = in + (y * w + x) * 3;
    out[y * w + x] = (unsigned char)(0.21f * p[0] + 0.71f * p[1] + 0.07f * p[2]);
}

/* c = a + b on a line: an element a thread; a loop over the grid; four elements a thread. */
extern "C" __global__ void add_one(const float *a, const float *b, float *c, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}
extern "C" __global__ void add_loop(const float *a, const float *b, float *c, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        c[i] = a[i] + b[i];
}
extern "C" __global__ void add_four(const float *a, const float *b, float *c, int n)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i + 3 >= n)
        return;
    const float4 x = *reinterpret_cast<const float4 *>(a + i), y = *reinterpret_cast<const float4 *>(b + i);
    *reinterpret_cast<float4 *>(c + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}
