// y = x + f * (gelu(x w1 + b1) w2), for T = 128 tokens, H = 64, F = 256: products by single elements, what follows by vectors, in unrolled loops and in
// grid strides, as kernels of different authors meet in one graph.
enum { T = 128, H = 64, F = 256 };

// Tiles of 32 x 32 by 256 threads, 2 x 2 results a thread, stored one by one.
template <int N, int K>
static __device__ __forceinline__ void tile(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float as[16][33], bs[16][32];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row = blockIdx.y * 32, col = blockIdx.x * 32;
    float sum[2][2] = {};
    for (int k = 0; k < K; k += 16) {
        for (int e = threadIdx.x; e < 512; e += 256) {
            as[e % 16][e / 16] = a[(row + e / 16) * K + k + e % 16];
            bs[e / 32][e % 32] = b[(k + e / 32) * N + col + e % 32];
        }
        __syncthreads();
        for (int q = 0; q < 16; q++)
            for (int r = 0; r < 2; r++)
                for (int s = 0; s < 2; s++)
                    sum[r][s] += as[q][ty + 16 * r] * bs[q][tx + 16 * s];
        __syncthreads();
    }
    for (int r = 0; r < 2; r++)
        for (int s = 0; s < 2; s++)
            c[(row + ty + 16 * r) * N + col + tx + 16 * s] = sum[r][s];
}

extern "C" __global__ void up(const float *x, const float *w, float *h)
{
    tile<F, H>(x, w, h);
}

static __device__ __forceinline__ float gelu(float v)
{
    return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}

// Four elements a thread, side by side.
extern "C" __global__ void bias_gelu(const float4 *h, const float4 *b, float4 *u, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float4 v = h[i], a = b[i % (F / 4)];
    u[i] = make_float4(gelu(v.x + a.x), gelu(v.y + a.y), gelu(v.z + a.z), gelu(v.w + a.w));
}

extern "C" __global__ void down(const float *u, const float *w, float *d)
{
    tile<H, F>(u, w, d);
}

// Four elements a thread, a block's threads apart, masked.
extern "C" __global__ void scale(const float *d, float *e, float f, int n)
{
    const int first = blockIdx.x * 512 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (first + 128 * k < n)
            e[first + 128 * k] = d[first + 128 * k] * f;
}

// As many elements a thread as the grid leaves it.
extern "C" __global__ void residual(const float *x, const float *e, float *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] + e[i];
}
