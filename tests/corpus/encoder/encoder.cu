// One transformer encoder layer, fp32, in the style of generated kernels: every shape is a constant, one kernel per operator,
// blocks numbered as a schedule template would. 128 tokens, 256 hidden, 4 heads of 64, feed-forward 1024. Row-major everywhere.
//
//   x -> qkv_gemm -> qkv_bias_split -> scores -> scale -> position_bias -> softmax -> context -> proj_gemm
//     -> proj_bias_residual -> layernorm_rows -> ffn1_gemm -> ffn1_bias -> gelu -> ffn2_gemm -> ffn2_bias -> residual
//     -> layernorm_warps -> out

#define TOKENS 128
#define HIDDEN 256
#define HEADS 4
#define HEAD 64
#define FFN 1024

// C[M,N] = A[M,K] * B[K,N], tiles of 32 x 32, K in steps of 16, 256 threads, 2 x 2 results a thread.
template <int N, int K>
static __device__ __forceinline__ void gemm_tile(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float as[16][33];
    __shared__ float bs[16][32];
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float acc00 = 0.0f, acc01 = 0.0f, acc10 = 0.0f, acc11 = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int e = threadIdx.x + i * 256;
            as[e & 15][e >> 4] = a[(row0 + (e >> 4)) * K + k0 + (e & 15)];
            bs[e >> 5][e & 31] = b[(k0 + (e >> 5)) * N + col0 + (e & 31)];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            const float a0 = as[k][ty * 2], a1 = as[k][ty * 2 + 1];
            const float b0 = bs[k][tx], b1 = bs[k][tx + 16];
            acc00 += a0 * b0;
            acc01 += a0 * b1;
            acc10 += a1 * b0;
            acc11 += a1 * b1;
        }
        __syncthreads();
    }
    c[(row0 + ty * 2) * N + col0 + tx] = acc00;
    c[(row0 + ty * 2) * N + col0 + tx + 16] = acc01;
    c[(row0 + ty * 2 + 1) * N + col0 + tx] = acc10;
    c[(row0 + ty * 2 + 1) * N + col0 + tx + 16] = acc11;
}

// grid 24 x 4, block 256: qkv[128,768] = x[128,256] * wqkv[256,768]
extern "C" __global__ void __launch_bounds__(256)
qkv_gemm(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ qkv)
{
    gemm_tile<3 * HIDDEN, HIDDEN>(x, w, qkv);
}

// grid 384, block 256: qkv + bias, laid out by head: q, k, v are [4][128][64]
extern "C" __global__ void __launch_bounds__(256)
qkv_bias_split(const float *__restrict__ qkv, const float *__restrict__ bias, float *__restrict__ q, float *__restrict__ k,
               float *__restrict__ v)
{
    const int e = blockIdx.x * 256 + threadIdx.x;
    const int token = e / 768, col = e % 768;
    const int part = col / HIDDEN, head = (col % HIDDEN) / HEAD, d = col % HEAD;
    float *out = part == 0 ? q : part == 1 ? k : v;
    out[(head * TOKENS + token) * HEAD + d] = qkv[e] + bias[col];
}

// grid 4 x 4 x 4 (key tile, query tile, head), block 256: s[h] = q[h] * k[h]^T
extern "C" __global__ void __launch_bounds__(256)
scores(const float *__restrict__ q, const float *__restrict__ k, float *__restrict__ s)
{
    __shared__ float qs[HEAD][33];
    __shared__ float ks[HEAD][33];
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32, head = blockIdx.z;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int e = threadIdx.x + i * 256;
        qs[e & 63][e >> 6] = q[(head * TOKENS + row0 + (e >> 6)) * HEAD + (e & 63)];
        ks[e & 63][e >> 6] = k[(head * TOKENS + col0 + (e >> 6)) * HEAD + (e & 63)];
    }
    __syncthreads();
    float acc00 = 0.0f, acc01 = 0.0f, acc10 = 0.0f, acc11 = 0.0f;
#pragma unroll 8
    for (int d = 0; d < HEAD; d++) {
        const float a0 = qs[d][ty], a1 = qs[d][ty + 16];
        const float b0 = ks[d][tx], b1 = ks[d][tx + 16];
        acc00 += a0 * b0;
        acc01 += a0 * b1;
        acc10 += a1 * b0;
        acc11 += a1 * b1;
    }
    float *out = s + head * TOKENS * TOKENS;
    out[(row0 + ty) * TOKENS + col0 + tx] = acc00;
    out[(row0 + ty) * TOKENS + col0 + tx + 16] = acc01;
    out[(row0 + ty + 16) * TOKENS + col0 + tx] = acc10;
    out[(row0 + ty + 16) * TOKENS + col0 + tx + 16] = acc11;
}

// grid 256, block 256: two rows a block
extern "C" __global__ void __launch_bounds__(256) scale(const float *__restrict__ s, float *__restrict__ t)
{
    const int e = blockIdx.x * 256 + threadIdx.x;
    t[e] = s[e] * 0.125f;
}

// grid 512 (head, query), block 128: one row a block; the bias [128][128] is shared by the heads
extern "C" __global__ void __launch_bounds__(128)
position_bias(const float *__restrict__ t, const float *__restrict__ bias, float *__restrict__ a)
{
    const int e = blockIdx.x * 128 + threadIdx.x;
    a[e] = t[e] + bias[e & (TOKENS * TOKENS - 1)];
}

// grid 512 (head, query), block 128: one row a block, reductions in shared memory
extern "C" __global__ void __launch_bounds__(128) softmax(const float *__restrict__ a, float *__restrict__ p)
{
    __shared__ float red[128];
    const int t = threadIdx.x;
    const float value = a[blockIdx.x * TOKENS + t];
    red[t] = value;
    __syncthreads();
    for (int n = 64; n > 0; n >>= 1) {
        if (t < n)
            red[t] = fmaxf(red[t], red[t + n]);
        __syncthreads();
    }
    const float top = red[0];
    __syncthreads();
    const float e = expf(value - top);
    red[t] = e;
    __syncthreads();
    for (int n = 64; n > 0; n >>= 1) {
        if (t < n)
            red[t] += red[t + n];
        __syncthreads();
    }
    p[blockIdx.x * TOKENS + t] = e / red[0];
}

// grid 2 x 4 x 4 (half a head, query tile, head), block 256: o[token][head * 64 + d] = p[h] * v[h]
extern "C" __global__ void __launch_bounds__(256)
context(const float *__restrict__ p, const float *__restrict__ v, float *__restrict__ o)
{
    __shared__ float ps[16][33];
    __shared__ float vs[16][32];
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32, head = blockIdx.z;
    float acc00 = 0.0f, acc01 = 0.0f, acc10 = 0.0f, acc11 = 0.0f;
    for (int k0 = 0; k0 < TOKENS; k0 += 16) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int e = threadIdx.x + i * 256;
            ps[e & 15][e >> 4] = p[(head * TOKENS + row0 + (e >> 4)) * TOKENS + k0 + (e & 15)];
            vs[e >> 5][e & 31] = v[(head * TOKENS + k0 + (e >> 5)) * HEAD + col0 + (e & 31)];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            const float a0 = ps[k][ty * 2], a1 = ps[k][ty * 2 + 1];
            const float b0 = vs[k][tx], b1 = vs[k][tx + 16];
            acc00 += a0 * b0;
            acc01 += a0 * b1;
            acc10 += a1 * b0;
            acc11 += a1 * b1;
        }
        __syncthreads();
    }
    float *out = o + head * HEAD + col0;
    out[(row0 + ty * 2) * HIDDEN + tx] = acc00;
    out[(row0 + ty * 2) * HIDDEN + tx + 16] = acc01;
    out[(row0 + ty * 2 + 1) * HIDDEN + tx] = acc10;
    out[(row0 + ty * 2 + 1) * HIDDEN + tx + 16] = acc11;
}

// grid 8 x 4, block 256
extern "C" __global__ void __launch_bounds__(256)
proj_gemm(const float *__restrict__ o, const float *__restrict__ w, float *__restrict__ r)
{
    gemm_tile<HIDDEN, HIDDEN>(o, w, r);
}

// grid 128, block 256: one row a block
extern "C" __global__ void __launch_bounds__(256)
proj_bias_residual(const float *__restrict__ r, const float *__restrict__ bias, const float *__restrict__ x, float *__restrict__ h)
{
    const int e = blockIdx.x * 256 + threadIdx.x;
    h[e] = r[e] + bias[threadIdx.x] + x[e];
}

// grid 128, block 128: one row a block, two columns a thread, reductions in shared memory
extern "C" __global__ void __launch_bounds__(128)
layernorm_rows(const float *__restrict__ h, const float *__restrict__ gamma, const float *__restrict__ beta, float *__restrict__ n)
{
    __shared__ float red[128];
    __shared__ float mean_buf[1];
    const int t = threadIdx.x;
    const float *row = h + blockIdx.x * HIDDEN;
    const float a = row[t], b = row[t + 128];
    red[t] = a + b;
    __syncthreads();
    for (int m = 64; m > 0; m >>= 1) {
        if (t < m)
            red[t] += red[t + m];
        __syncthreads();
    }
    if (t == 0)
        mean_buf[0] = red[0] * (1.0f / HIDDEN);
    __syncthreads();
    const float mean = mean_buf[0];
    const float da = a - mean, db = b - mean;
    red[t] = da * da + db * db;
    __syncthreads();
    for (int m = 64; m > 0; m >>= 1) {
        if (t < m)
            red[t] += red[t + m];
        __syncthreads();
    }
    const float scale = rsqrtf(red[0] * (1.0f / HIDDEN) + 1e-5f);
    n[blockIdx.x * HIDDEN + t] = da * scale * gamma[t] + beta[t];
    n[blockIdx.x * HIDDEN + t + 128] = db * scale * gamma[t + 128] + beta[t + 128];
}

// grid 32 x 4, block 256
extern "C" __global__ void __launch_bounds__(256)
ffn1_gemm(const float *__restrict__ n, const float *__restrict__ w, float *__restrict__ f)
{
    gemm_tile<FFN, HIDDEN>(n, w, f);
}

// grid 512, block 256
extern "C" __global__ void __launch_bounds__(256)
ffn1_bias(const float *__restrict__ f, const float *__restrict__ bias, float *__restrict__ g)
{
    const int e = blockIdx.x * 256 + threadIdx.x;
    g[e] = f[e] + bias[e & (FFN - 1)];
}

// grid 512, block 256
extern "C" __global__ void __launch_bounds__(256) gelu(const float *__restrict__ g, float *__restrict__ u)
{
    const int e = blockIdx.x * 256 + threadIdx.x;
    const float v = g[e];
    u[e] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
}

// grid 8 x 4, block 256
extern "C" __global__ void __launch_bounds__(256)
ffn2_gemm(const float *__restrict__ u, const float *__restrict__ w, float *__restrict__ m)
{
    gemm_tile<HIDDEN, FFN>(u, w, m);
}

// grid 256, block 128: half a row a block
extern "C" __global__ void __launch_bounds__(128)
ffn2_bias(const float *__restrict__ m, const float *__restrict__ bias, float *__restrict__ z)
{
    const int e = blockIdx.x * 128 + threadIdx.x;
    z[e] = m[e] + bias[e & (HIDDEN - 1)];
}

// grid 128, block 256
extern "C" __global__ void __launch_bounds__(256)
residual(const float *__restrict__ z, const float *__restrict__ n, float *__restrict__ y)
{
    const int e = blockIdx.x * 256 + threadIdx.x;
    y[e] = z[e] + n[e];
}

// grid 32, block 128: one row a warp, eight columns a lane, reductions by shuffles
extern "C" __global__ void __launch_bounds__(128)
layernorm_warps(const float *__restrict__ y, const float *__restrict__ gamma, const float *__restrict__ beta, float *__restrict__ out)
{
    const int lane = threadIdx.x & 31;
    const int row = blockIdx.x * 4 + (threadIdx.x >> 5);
    float v[8];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = y[row * HIDDEN + i * 32 + lane];
        sum += v[i];
    }
#pragma unroll
    for (int m = 16; m > 0; m >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, m);
    const float mean = sum * (1.0f / HIDDEN);
    float square = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] -= mean;
        square += v[i] * v[i];
    }
#pragma unroll
    for (int m = 16; m > 0; m >>= 1)
        square += __shfl_xor_sync(0xffffffffu, square, m);
    const float scale = rsqrtf(square * (1.0f / HIDDEN) + 1e-5f);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int col = i * 32 + lane;
        out[row * HIDDEN + col] = v[i] * scale * gamma[col] + beta[col];
    }
}
