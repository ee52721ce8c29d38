// Kernels of the software device's bench and tests. kernels.ptx is what
//     nvcc -ptx -arch=sm_80 -o kernels.ptx kernels.cu
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

// 128 x 128 tiles, 256 threads, 8 x 8 elements a thread, vector loads; sizes are multiples of 128 and 8.
extern "C" __global__ void __launch_bounds__(256) gemm128(const float *A, const float *B, float *C, int n, int k)
{
    __shared__ float4 a[8][32], b[8][32];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    float acc[8][8] = {};
    for (int p = 0; p < k; p += 8) {
        float4 r = *(const float4 *)&A[(blockIdx.y * 128 + t / 2) * k + p + t % 2 * 4];
        float *to = (float *)a[t % 2 * 4] + t / 2;
        to[0] = r.x, to[128] = r.y, to[256] = r.z, to[384] = r.w;
        b[t / 32][t % 32] = *(const float4 *)&B[(p + t / 32) * n + blockIdx.x * 128 + t % 32 * 4];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 x0 = a[i][ty], x1 = a[i][ty + 16], y0 = b[i][tx], y1 = b[i][tx + 16];
            float x[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w}, y[8] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
#pragma unroll
            for (int u = 0; u < 8; u++)
#pragma unroll
                for (int v = 0; v < 8; v++)
                    acc[u][v] += x[u] * y[v];
        }
        __syncthreads();
    }
#pragma unroll
    for (int u = 0; u < 8; u++)
#pragma unroll
        for (int v = 0; v < 8; v += 4)
            *(float4 *)&C[(blockIdx.y * 128 + ty * 4 + u % 4 + u / 4 * 64) * n + blockIdx.x * 128 + tx * 4 + v / 4 * 64] =
                make_float4(acc[u][v], acc[u][v + 1], acc[u][v + 2], acc[u][v + 3]);
}

// C = A B of f16 with f32 sums on the matrix unit: 64 x 64 tiles, 4 warps of 32 x 32; sizes are multiples of 64 and 32.
extern "C" __global__ void __launch_bounds__(128) hgemm(const unsigned short *A, const unsigned short *B, float *C, int n, int k)
{
    __shared__ uint4 a[64][5], b[32][9]; // rows of 8 halves a uint4, one more to spread the banks
    int t = threadIdx.x, lane = t % 32, wm = t / 32 % 2 * 32, wn = t / 64 * 32;
    float acc[2][4][4] = {};
    for (int p = 0; p < k; p += 32) {
        for (int i = t; i < 256; i += 128) {
            a[i / 4][i % 4] = *(const uint4 *)&A[(blockIdx.y * 64 + i / 4) * k + p + i % 4 * 8];
            b[i / 8][i % 8] = *(const uint4 *)&B[(p + i / 8) * n + blockIdx.x * 64 + i % 8 * 8];
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < 32; s += 16) {
            unsigned x[2][4], y[2][4];
#pragma unroll
            for (int u = 0; u < 2; u++) {
                unsigned at = (unsigned)__cvta_generic_to_shared(&a[wm + u * 16 + lane % 16][s / 8 + lane / 16]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(x[u][0]), "=r"(x[u][1]), "=r"(x[u][2]), "=r"(x[u][3]) : "r"(at));
                at = (unsigned)__cvta_generic_to_shared(&b[s + lane % 16][wn / 8 + u * 2 + lane / 16]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(y[u][0]), "=r"(y[u][1]), "=r"(y[u][2]), "=r"(y[u][3]) : "r"(at));
            }
#pragma unroll
            for (int u = 0; u < 2; u++)
#pragma unroll
                for (int v = 0; v < 4; v++) {
                    float *c = acc[u][v];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                                 "{%0, %1, %2, %3};"
                                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                                 : "r"(x[u][0]), "r"(x[u][1]), "r"(x[u][2]), "r"(x[u][3]), "r"(y[v / 2][v % 2 * 2]),
                                   "r"(y[v / 2][v % 2 * 2 + 1]));
                }
        }
        __syncthreads();
    }
#pragma unroll
    for (int u = 0; u < 2; u++)
#pragma unroll
        for (int v = 0; v < 4; v++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(float2 *)&C[(blockIdx.y * 64 + wm + u * 16 + lane / 4 + h * 8) * n + blockIdx.x * 64 + wn + v * 8 + lane % 4 * 2] =
                    make_float2(acc[u][v][h * 2], acc[u][v][h * 2 + 1]);
}

// The sum of s over the block; every thread gets it. `part` may be used again after the next barrier.
__device__ float block_sum(float s, float *part)
{
    s = warp_sum(s);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0;
    for (int i = 0; i < blockDim.x / 32; i++)
        s += part[i];
    return s;
}

// One row a block.
extern "C" __global__ void layernorm(const float *x, const float *gain, const float *bias, float *y, int n)
{
    __shared__ float part[2][32];
    const float *row = x + (size_t)blockIdx.x * n;
    float s = 0, v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        s += row[i];
    float mean = block_sum(s, part[0]) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float d = row[i] - mean;
        v += d * d;
    }
    float r = rsqrtf(block_sum(v, part[1]) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[(size_t)blockIdx.x * n + i] = (row[i] - mean) * r * gain[i] + bias[i];
}

extern "C" __global__ void gather(const float *x, const unsigned *at, float *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[at[i]];
}

// y = transposed x of n x n, by tiles of 32 x 32, 32 x 8 threads.
extern "C" __global__ void transpose(const float *x, float *y, int n)
{
    __shared__ float tile[32][33];
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        tile[threadIdx.y + k][threadIdx.x] = x[(j + k) * n + i];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x, j = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        y[(j + k) * n + i] = tile[threadIdx.x][threadIdx.y + k];
}

// Counts of bytes modulo 256: atomic additions whose results nobody uses.
extern "C" __global__ void histogram(const unsigned *x, unsigned *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&count[x[i] & 255], 1);
}
