// Kernels of the software device's bench and tests. kernels.ptx is what
//     nvcc -ptx -arch=sm_75 -o kernels.ptx kernels.cu
// makes of this file; it is kept so that neither needs a CUDA toolkit.

// C[m][n] = A[m][k] B[k][n], 16 x 16 tiles, one element a thread.
extern "C" __global__ void gemm16(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float a[16][16], b[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0;
    for (int t = 0; t < k; t += 16) {
        a[ty][tx] = row < m && t + tx < k ? A[row * k + t + tx] : 0;
        b[ty][tx] = col < n && t + ty < k ? B[(t + ty) * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < 16; i++)
            acc += a[ty][i] * b[i][tx];
        __syncthreads();
    }
    if (row < m && col < n)
        C[row * n + col] = acc;
}

// 64 x 64 tiles, 256 threads, 4 x 4 elements a thread; sizes are multiples of 64 and 16.
extern "C" __global__ void __launch_bounds__(256) gemm64(const float *A, const float *B, float *C, int n, int k)
{
    __shared__ float a[16][64], b[16][64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    float acc[4][4] = {};
    for (int p = 0; p < k; p += 16) {
        for (int i = t; i < 1024; i += 256) {
            a[i % 16][i / 16] = A[(blockIdx.y * 64 + i / 16) * k + p + i % 16];
            b[i / 64][i % 64] = B[(p + i / 64) * n + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float x[4], y[4];
            for (int j = 0; j < 4; j++)
                x[j] = a[i][ty * 4 + j], y[j] = b[i][tx + 16 * j];
            for (int u = 0; u < 4; u++)
                for (int v = 0; v < 4; v++)
                    acc[u][v] += x[u] * y[v];
        }
        __syncthreads();
    }
    for (int u = 0; u < 4; u++)
        for (int v = 0; v < 4; v++)
            C[(blockIdx.y * 64 + ty * 4 + u) * n + blockIdx.x * 64 + tx + 16 * v] = acc[u][v];
}

__device__ float warp_sum(float x)
{
    for (int d = 16; d; d /= 2)
        x += __shfl_xor_sync(~0u, x, d);
    return x;
}
__device__ float warp_max(float x)
{
    for (int d = 16; d; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

// One row a block.
extern "C" __global__ void softmax(const float *x, float *y, int n)
{
    __shared__ float part[32];
    int t = threadIdx.x, warps = blockDim.x / 32;
    const float *row = x + (size_t)blockIdx.x * n;
    float m = -INFINITY;
    for (int i = t; i < n; i += blockDim.x)
        m = fmaxf(m, row[i]);
    m = warp_max(m);
    if (t % 32 == 0)
        part[t / 32] = m;
    __syncthreads();
    m = part[0];
    for (int i = 1; i < warps; i++)
        m = fmaxf(m, part[i]);
    __syncthreads();
    float s = 0;
    for (int i = t; i < n; i += blockDim.x)
        s += expf(row[i] - m);
    s = warp_sum(s);
    if (t % 32 == 0)
        part[t / 32] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < warps; i++)
        s += part[i];
    for (int i = t; i < n; i += blockDim.x)
        y[(size_t)blockIdx.x * n + i] = expf(row[i] - m) / s;
}

extern "C" __global__ void gelu(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

extern "C" __global__ void saxpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

// Every block adds its sum to *out; the order of blocks shows in the last bits.
extern "C" __global__ void sum(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = warp_sum(i < n ? x[i] : 0);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, s);
}

// Collatz steps: long divergent loops.
extern "C" __global__ void collatz(const unsigned *x, unsigned *steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long v = x[i];
    unsigned s = 0;
    while (v > 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        s++;
    }
    steps[i] = s;
}
