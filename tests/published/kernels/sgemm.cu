/* Kernels of sgemm.tsv: C = alpha A B + beta C in f32, row major, A is M x lda, B and C have N columns. K is the length
 * of the inner loop, lda the row length of A: rows that shorten the loop keep A's stride. Written after the geometry
 * and access pattern of the sources named in sgemm.tsv. */
typedef unsigned int u32;
#define ARGS int M, int N, int K, int lda, float alpha, const float *A, const float *B, float beta, float *C
#define PASS M, N, K, lda, alpha, A, B, beta, C

/* One thread an element, neighbours in x down a column: A and C uncoalesced. */
extern "C" __global__ void sgemm_naive_x(ARGS)
{
    const int r = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= M || c >= N)
        return;
    float s = 0;
    for (int k = 0; k < K; k++)
        s += A[r * lda + k] * B[k * N + c];
    C[r * N + c] = alpha * s + beta * C[r * N + c];
}

/* One thread an element, a warp along a row; block of 1,024 in one dimension, grid x down the rows. */
extern "C" __global__ void sgemm_coalesced(ARGS)
{
    const int r = blockIdx.x * 32 + threadIdx.x / 32, c = blockIdx.y * 32 + threadIdx.x % 32;
    if (r >= M || c >= N)
        return;
    float s = 0;
    for (int k = 0; k < K; k++)
        s += A[r * lda + k] * B[k * N + c];
    C[r * N + c] = alpha * s + beta * C[r * N + c];
}

/* The same with a block of 32 x 32, grid x along the rows, no bounds. */
extern "C" __global__ void __launch_bounds__(1024) sgemm_naive_y(ARGS)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    float s = 0;
    for (int k = 0; k < K; k++)
        s += A[r * lda + k] * B[k * N + c];
    C[r * N + c] = alpha * s + beta * C[r * N + c];
}

/* The same with a block of 32 x 32 whose y runs down the rows, grid x down the rows. */
extern "C" __global__ void sgemm_coalesced_2d(ARGS)
{
    const int r = blockIdx.x * blockDim.x + threadIdx.y, c = blockIdx.y * blockDim.y + threadIdx.x;
    if (r >= M || c >= N)
        return;
    float s = 0;
    for (int k = 0; k < K; k++)
        s += A[r * lda + k] * B[k * N + c];
    C[r * N + c] = alpha * s + beta * C[r * N + c];
}

/* 32 x 32 tiles of A and B in shared memory, one element a thread. ROWS_X: grid x down the rows. */
template <bool ROWS_X> static __device__ __forceinline__ void smem32(ARGS)
{
    __shared__ float a[32 * 32], b[32 * 32];
    const u32 br = ROWS_X ? blockIdx.x : blockIdx.y, bc = ROWS_X ? blockIdx.y : blockIdx.x;
    const u32 tc = threadIdx.x % 32, tr = threadIdx.x / 32;
    A += br * 32 * lda;
    B += bc * 32;
    C += br * 32 * N + bc * 32;
    float s = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        a[tr * 32 + tc] = A[tr * lda + tc];
        b[tr * 32 + tc] = B[tr * N + tc];
        __syncthreads();
        A += 32;
        B += 32 * N;
        for (int k = 0; k < 32; k++)
            s += a[tr * 32 + k] * b[k * 32 + tc];
        __syncthreads();
    }
    C[tr * N + tc] = alpha * s + beta * C[tr * N + tc];
}
extern "C" __global__ void sgemm_smem_x(ARGS) { smem32<true>(PASS); }
extern "C" __global__ void sgemm_smem_y(ARGS) { smem32<false>(PASS); }

/* 64 x 64 tile a block of 512, inner tile 8, a column of 8 results a thread. */
extern "C" __global__ void sgemm_tile1d(ARGS)
{
    const int BM = 64, BN = 64, BK = 8, TM = 8;
    __shared__ float a[BM * BK], b[BK * BN];
    const u32 tc = threadIdx.x % BN, tr = threadIdx.x / BN;
    const u32 ac = threadIdx.x % BK, ar = threadIdx.x / BK, bc = threadIdx.x % BN, br = threadIdx.x / BN;
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float s[TM] = {0};
    for (int k0 = 0; k0 < K; k0 += BK) {
        a[ar * BK + ac] = A[ar * lda + ac];
        b[br * BN + bc] = B[br * N + bc];
        __syncthreads();
        A += BK;
        B += BK * N;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            const float t = b[k * BN + tc];
#pragma unroll
            for (int i = 0; i < TM; i++)
                s[i] += a[(tr * TM + i) * BK + k] * t;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; i++) {
        float *p = C + (tr * TM + i) * N + tc;
        *p = alpha * s[i] + beta * *p;
    }
}

/* BM x BN tile a block, inner tile 8, 8 x 8 results a thread, scalar copies. CACHE: operands in registers first.
 * ROWS_X: grid x down the rows. */
template <int BM, int BN, bool CACHE, bool ROWS_X> static __device__ __forceinline__ void tile2d(ARGS)
{
    const int BK = 8, TM = 8, TN = 8, NT = BM * BN / (TM * TN);
    __shared__ float a[BM * BK], b[BK * BN];
    const u32 brow = ROWS_X ? blockIdx.x : blockIdx.y, bcol = ROWS_X ? blockIdx.y : blockIdx.x;
    const u32 tc = threadIdx.x % (BN / TN), tr = threadIdx.x / (BN / TN);
    const u32 ac = threadIdx.x % BK, ar = threadIdx.x / BK, bc = threadIdx.x % BN, br = threadIdx.x / BN;
    A += brow * BM * lda;
    B += bcol * BN;
    C += brow * BM * N + bcol * BN;
    float s[TM][TN] = {{0}};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int o = 0; o < BM; o += NT / BK)
            a[(ar + o) * BK + ac] = A[(ar + o) * lda + ac];
#pragma unroll
        for (int o = 0; o < BK; o += (NT / BN > 0 ? NT / BN : 1))
            b[(br + o) * BN + bc] = B[(br + o) * N + bc];
        __syncthreads();
        A += BK;
        B += BK * N;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            if (CACHE) {
                float x[TM], y[TN];
#pragma unroll
                for (int i = 0; i < TM; i++)
                    x[i] = a[(tr * TM + i) * BK + k];
#pragma unroll
                for (int j = 0; j < TN; j++)
                    y[j] = b[k * BN + tc * TN + j];
#pragma unroll
                for (int i = 0; i < TM; i++)
#pragma unroll
                    for (int j = 0; j < TN; j++)
                        s[i][j] += x[i] * y[j];
            } else {
#pragma unroll
                for (int i = 0; i < TM; i++)
#pragma unroll
                    for (int j = 0; j < TN; j++)
                        s[i][j] += a[(tr * TM + i) * BK + k] * b[k * BN + tc * TN + j];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) {
            float *p = C + (tr * TM + i) * N + tc * TN + j;
            *p = alpha * s[i][j] + beta * *p;
        }
}
extern "C" __global__ void __launch_bounds__(256, 1) sgemm_tile2d(ARGS) { tile2d<128, 128, true, false>(PASS); }
extern "C" __global__ void __launch_bounds__(64, 1) sgemm_tile2d_64(ARGS) { tile2d<64, 64, true, false>(PASS); }
extern "C" __global__ void sgemm_tile2d_64_x(ARGS) { tile2d<64, 64, true, true>(PASS); }
extern "C" __global__ void sgemm_tile2d_direct(ARGS) { tile2d<128, 128, false, false>(PASS); }
extern "C" __global__ void sgemm_tile2d_cached(ARGS) { tile2d<128, 128, true, false>(PASS); }

static __device__ __forceinline__ float4 ld4(const float *p) { return *reinterpret_cast<const float4 *>(p); }
static __device__ __forceinline__ void st4(float *p, float4 v) { *reinterpret_cast<float4 *>(p) = v; }
static __device__ __forceinline__ void out4(float *p, float alpha, float beta, const float *s)
{
    float4 t = ld4(p);
    t.x = alpha * s[0] + beta * t.x;
    t.y = alpha * s[1] + beta * t.y;
    t.z = alpha * s[2] + beta * t.z;
    t.w = alpha * s[3] + beta * t.w;
    st4(p, t);
}

/* 128 x 128 x 8, float4 copies, A turned in shared memory, 8 x 8 a thread. LAYOUT of B in shared memory: 0 rows,
 * 1 the eight columns of a thread 16 apart, 2 rows of 133. */
template <int LAYOUT> static __device__ __forceinline__ void vec2d(ARGS)
{
    const int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8, BP = LAYOUT == 2 ? BN + 5 : BN;
    __shared__ __align__(16) float a[BM * BK];
    __shared__ __align__(16) float b[BK * BP];
    const u32 tc = threadIdx.x % (BN / TN), tr = threadIdx.x / (BN / TN);
    const u32 ar = threadIdx.x / (BK / 4), ac = threadIdx.x % (BK / 4);
    const u32 br = threadIdx.x / (BN / 4), bc = threadIdx.x % (BN / 4);
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float s[TM * TN] = {0};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4 t = ld4(A + ar * lda + ac * 4);
        a[(ac * 4 + 0) * BM + ar] = t.x;
        a[(ac * 4 + 1) * BM + ar] = t.y;
        a[(ac * 4 + 2) * BM + ar] = t.z;
        a[(ac * 4 + 3) * BM + ar] = t.w;
        t = ld4(B + br * N + bc * 4);
        if (LAYOUT == 0) {
            st4(b + br * BN + bc * 4, t);
        } else if (LAYOUT == 1) {
            float *q = b + ((bc % 2) * 4 + br * 8) * 16 + bc / 2;
            q[0] = t.x;
            q[16] = t.y;
            q[32] = t.z;
            q[48] = t.w;
        } else {
            float *q = b + br * BP + bc * 4;
            q[0] = t.x;
            q[1] = t.y;
            q[2] = t.z;
            q[3] = t.w;
        }
        __syncthreads();
        A += BK;
        B += BK * N;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[TM], y[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const float4 v = ld4(a + k * BM + tr * TM + i);
                x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
            }
            if (LAYOUT == 0) {
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    const float4 v = ld4(b + k * BN + tc * TN + j);
                    y[j] = v.x, y[j + 1] = v.y, y[j + 2] = v.z, y[j + 3] = v.w;
                }
            } else {
#pragma unroll
                for (int j = 0; j < TN; j++)
                    y[j] = LAYOUT == 1 ? b[(k * 8 + j) * 16 + tc] : b[k * BP + tc * TN + j];
            }
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    s[i * TN + j] += x[i] * y[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            out4(C + (tr * TM + i) * N + tc * TN + j, alpha, beta, s + i * TN + j);
}
extern "C" __global__ void sgemm_vec(ARGS) { vec2d<0>(PASS); }
extern "C" __global__ void sgemm_bank_linear(ARGS) { vec2d<1>(PASS); }
extern "C" __global__ void sgemm_bank_pad(ARGS) { vec2d<2>(PASS); }

/* 128 x 128 x 16 with 256 threads, two float4 of A and of B a thread and step, else as sgemm_vec. */
extern "C" __global__ void __launch_bounds__(256) sgemm_autotuned(ARGS)
{
    const int BM = 128, BN = 128, BK = 16, TM = 8, TN = 8;
    __shared__ __align__(16) float a[BM * BK];
    __shared__ __align__(16) float b[BK * BN];
    const u32 tc = threadIdx.x % 16, tr = threadIdx.x / 16;
    const u32 ar = threadIdx.x / 4, ac = threadIdx.x % 4, br = threadIdx.x / 32, bc = threadIdx.x % 32;
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float s[TM * TN] = {0};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int o = 0; o < BM; o += 64) {
            const float4 t = ld4(A + (ar + o) * lda + ac * 4);
            a[(ac * 4 + 0) * BM + ar + o] = t.x;
            a[(ac * 4 + 1) * BM + ar + o] = t.y;
            a[(ac * 4 + 2) * BM + ar + o] = t.z;
            a[(ac * 4 + 3) * BM + ar + o] = t.w;
        }
#pragma unroll
        for (int o = 0; o < BK; o += 8)
            st4(b + (br + o) * BN + bc * 4, ld4(B + (br + o) * N + bc * 4));
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[TM], y[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const float4 v = ld4(a + k * BM + tr * TM + i);
                x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const float4 v = ld4(b + k * BN + tc * TN + j);
                y[j] = v.x, y[j + 1] = v.y, y[j + 2] = v.z, y[j + 3] = v.w;
            }
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    s[i * TN + j] += x[i] * y[j];
        }
        __syncthreads();
        A += BK;
        B += BK * N;
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            out4(C + (tr * TM + i) * N + tc * TN + j, alpha, beta, s + i * TN + j);
}

/* 128 x 128 x 16 with 128 threads; a warp 64 x 64 as four pieces of 64 x 16, a thread 8 x 4 of each piece. */
extern "C" __global__ void __launch_bounds__(128) sgemm_warptile(ARGS)
{
    const int BM = 128, BN = 128, BK = 16, WM = 64, WN = 64, WNI = 4, TM = 8, TN = 4, SN = WN / WNI;
    __shared__ __align__(16) float a[BM * BK];
    __shared__ __align__(16) float b[BK * BN];
    const u32 w = threadIdx.x / 32, wc = w % (BN / WN), wr = w / (BN / WN), l = threadIdx.x % 32;
    const u32 lc = l % (SN / TN), lr = l / (SN / TN);
    const u32 ar = threadIdx.x / 4, ac = threadIdx.x % 4, br = threadIdx.x / 32, bc = threadIdx.x % 32;
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += (blockIdx.y * BM + wr * WM) * N + blockIdx.x * BN + wc * WN;
    float s[TM * WNI * TN] = {0};
    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int o = 0; o < BM; o += 32) {
            const float4 t = ld4(A + (ar + o) * lda + ac * 4);
            a[(ac * 4 + 0) * BM + ar + o] = t.x;
            a[(ac * 4 + 1) * BM + ar + o] = t.y;
            a[(ac * 4 + 2) * BM + ar + o] = t.z;
            a[(ac * 4 + 3) * BM + ar + o] = t.w;
        }
#pragma unroll
        for (int o = 0; o < BK; o += 4)
            st4(b + (br + o) * BN + bc * 4, ld4(B + (br + o) * N + bc * 4));
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            float x[TM], y[WNI * TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const float4 v = ld4(a + k * BM + wr * WM + lr * TM + i);
                x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
            }
#pragma unroll
            for (int p = 0; p < WNI; p++) {
                const float4 v = ld4(b + k * BN + wc * WN + p * SN + lc * TN);
                y[p * 4] = v.x, y[p * 4 + 1] = v.y, y[p * 4 + 2] = v.z, y[p * 4 + 3] = v.w;
            }
#pragma unroll
            for (int p = 0; p < WNI; p++)
#pragma unroll
                for (int i = 0; i < TM; i++)
#pragma unroll
                    for (int j = 0; j < TN; j++)
                        s[i * WNI * TN + p * TN + j] += x[i] * y[p * TN + j];
        }
        A += BK;
        B += BK * N;
        __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < WNI; p++)
#pragma unroll
        for (int i = 0; i < TM; i++)
            out4(C + (lr * TM + i) * N + p * SN + lc * TN, alpha, beta, s + i * WNI * TN + p * TN);
}

/* 128 x 128 x 8 with 256 threads, two buffers in shared memory and in registers, the next tile in flight. */
extern "C" __global__ void sgemm_prefetch(ARGS)
{
    const int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
    __shared__ __align__(16) float a[2][BK * BM];
    __shared__ __align__(16) float b[2][BK * BN];
    const u32 tc = threadIdx.x % 16 * TN, tr = threadIdx.x / 16 * TM;
    const u32 ar = threadIdx.x / 2, ac = threadIdx.x % 2 * 4, br = threadIdx.x / 32, bc = threadIdx.x % 32 * 4;
    A += blockIdx.y * BM * lda;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float s[TM * TN] = {0}, x[2][TM], y[2][TN];
    float4 ra = ld4(A + ar * lda + ac), rb = ld4(B + br * N + bc);
    int cur = 0;
    a[0][(ac + 0) * BM + ar] = ra.x;
    a[0][(ac + 1) * BM + ar] = ra.y;
    a[0][(ac + 2) * BM + ar] = ra.z;
    a[0][(ac + 3) * BM + ar] = ra.w;
    st4(&b[0][br * BN + bc], rb);
    __syncthreads();
#define FRAG(to, from, k)                                                                                              \
    do {                                                                                                               \
        float4 v_ = ld4(&a[from][(k)*BM + tr]), w_ = ld4(&a[from][(k)*BM + tr + 4]);                                   \
        x[to][0] = v_.x, x[to][1] = v_.y, x[to][2] = v_.z, x[to][3] = v_.w;                                            \
        x[to][4] = w_.x, x[to][5] = w_.y, x[to][6] = w_.z, x[to][7] = w_.w;                                            \
        v_ = ld4(&b[from][(k)*BN + tc]), w_ = ld4(&b[from][(k)*BN + tc + 4]);                                          \
        y[to][0] = v_.x, y[to][1] = v_.y, y[to][2] = v_.z, y[to][3] = v_.w;                                            \
        y[to][4] = w_.x, y[to][5] = w_.y, y[to][6] = w_.z, y[to][7] = w_.w;                                            \
    } while (0)
    FRAG(0, 0, 0);
    for (int k0 = BK;; k0 += BK) {
        if (k0 < K) {
            ra = ld4(A + ar * lda + k0 + ac);
            rb = ld4(B + (k0 + br) * N + bc);
        }
#pragma unroll
        for (int k = 0; k < BK - 1; k++) {
            FRAG((k + 1) % 2, cur, k + 1);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    s[i * TN + j] += x[k % 2][i] * y[k % 2][j];
        }
        if (k0 < K) {
            const int nxt = cur ^ 1;
            a[nxt][(ac + 0) * BM + ar] = ra.x;
            a[nxt][(ac + 1) * BM + ar] = ra.y;
            a[nxt][(ac + 2) * BM + ar] = ra.z;
            a[nxt][(ac + 3) * BM + ar] = ra.w;
            st4(&b[nxt][br * BN + bc], rb);
            __syncthreads();
            FRAG(0, nxt, 0);
            cur = nxt;
        }
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++)
                s[i * TN + j] += x[1][i] * y[1][j];
        if (k0 >= K)
            break;
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            out4(C + (tr + i) * N + tc + j, alpha, beta, s + i * TN + j);
}

/* The kernels with bounds checks and 64-bit indices (leimao). Shared tiles of BM x BK and BK x BN. */
#define LARGS                                                                                                          \
    unsigned long long m, unsigned long long n, unsigned long long k, float alpha, const float *A,                     \
        unsigned long long lda, const float *B, unsigned long long ldb, float beta, float *C, unsigned long long ldc
#define LPASS m, n, k, alpha, A, lda, B, ldb, beta, C, ldc
typedef unsigned long long u64;

template <bool COAL> static __device__ __forceinline__ void lnaive(LARGS)
{
    const u64 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const u64 r = COAL ? y : x, c = COAL ? x : y;
    if (r >= m || c >= n)
        return;
    float s = 0;
    for (u64 i = 0; i < k; i++)
        s += A[r * lda + i] * B[i * ldb + c];
    C[r * ldc + c] = alpha * s + beta * C[r * ldc + c];
}
extern "C" __global__ void lgemm_v00(LARGS) { lnaive<false>(LPASS); }
extern "C" __global__ void lgemm_v01(LARGS) { lnaive<true>(LPASS); }

/* Copies of a step. VEC: four floats at a time. TURN: A is stored by columns. */
template <int BM, int BN, int BK, int NT, bool VEC, bool TURN>
static __device__ __forceinline__ void lcopy(const float *A, u64 lda, const float *B, u64 ldb, float *a, float *b,
                                             u64 step, u64 t, u64 m, u64 n, u64 k)
{
    const int V = VEC ? 4 : 1, KV = BK / V, NV = BN / V;
#pragma unroll
    for (int o = 0; o < (BM * KV + NT - 1) / NT; o++) {
        const u64 r = (t + (u64)o * NT) / KV, c = (t + (u64)o * NT) % KV * V;
        const u64 gr = (u64)blockIdx.y * BM + r, gc = step * BK + c;
        float v[4] = {0, 0, 0, 0};
        if (gr < m && gc < k) {
            if (VEC) {
                const float4 q = ld4(A + gr * lda + gc);
                v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
            } else
                v[0] = A[gr * lda + gc];
        }
        if (!VEC) {
            a[TURN ? c * BM + r : r * BK + c] = v[0];
        } else {
            if (gc + 4 > k)
                for (u64 i = 0; i < gc + 4 - k && i < 4; i++)
                    v[3 - i] = 0;
            if (r < BM && c < BK) {
                if (TURN) {
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        a[(c + i) * BM + r] = v[i];
                } else
                    st4(a + r * BK + c, make_float4(v[0], v[1], v[2], v[3]));
            }
        }
    }
#pragma unroll
    for (int o = 0; o < (BK * NV + NT - 1) / NT; o++) {
        const u64 r = (t + (u64)o * NT) / NV, c = (t + (u64)o * NT) % NV * V;
        const u64 gr = step * BK + r, gc = (u64)blockIdx.x * BN + c;
        float v[4] = {0, 0, 0, 0};
        if (gr < k && gc < n) {
            if (VEC) {
                const float4 q = ld4(B + gr * ldb + gc);
                v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
            } else
                v[0] = B[gr * ldb + gc];
        }
        if (!VEC) {
            b[r * BN + c] = v[0];
        } else {
            if (gc + 4 > n)
                for (u64 i = 0; i < gc + 4 - n && i < 4; i++)
                    v[3 - i] = 0;
            if (r < BK && c < BN)
                st4(b + r * BN + c, make_float4(v[0], v[1], v[2], v[3]));
        }
    }
}

/* 32 x 32 x 32, one element a thread. */
template <bool VEC> static __device__ __forceinline__ void lsmem(LARGS)
{
    __shared__ __align__(16) float a[32 * 32];
    __shared__ __align__(16) float b[32 * 32];
    const u64 t = threadIdx.y * blockDim.x + threadIdx.x;
    const u64 c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    float s = 0;
    for (u64 step = 0; step < (k + 31) / 32; step++) {
        lcopy<32, 32, 32, 1024, VEC, false>(A, lda, B, ldb, a, b, step, t, m, n, k);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; i++)
            s += a[threadIdx.y * 32 + i] * b[i * 32 + threadIdx.x];
        __syncthreads();
    }
    if (r < m && c < n)
        C[r * ldc + c] = alpha * s + beta * C[r * ldc + c];
}
extern "C" __global__ void lgemm_v02(LARGS) { lsmem<false>(LPASS); }
extern "C" __global__ void lgemm_v02v(LARGS) { lsmem<true>(LPASS); }

/* 64 x 64 x 8, a column of 8 a thread, 512 threads. */
template <bool VEC> static __device__ __forceinline__ void ltile1d(LARGS)
{
    __shared__ __align__(16) float a[64 * 8];
    __shared__ __align__(16) float b[8 * 64];
    const u64 t = threadIdx.x;
    const u64 tc = t % 64, tr = t / 64 * 8;
    float s[8] = {0};
    for (u64 step = 0; step < (k + 7) / 8; step++) {
        lcopy<64, 64, 8, 512, VEC, false>(A, lda, B, ldb, a, b, step, t, m, n, k);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float y = b[i * 64 + tc];
#pragma unroll
            for (int j = 0; j < 8; j++)
                s[j] += a[(tr + j) * 8 + i] * y;
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const u64 r = (u64)blockIdx.y * 64 + tr + j, c = (u64)blockIdx.x * 64 + tc;
        if (r < m && c < n)
            C[r * ldc + c] = alpha * s[j] + beta * C[r * ldc + c];
    }
}
extern "C" __global__ void lgemm_v03(LARGS) { ltile1d<false>(LPASS); }
extern "C" __global__ void lgemm_v03v(LARGS) { ltile1d<true>(LPASS); }

/* 128 x 128 x 16, 8 x 8 a thread, 256 threads. VG: vector copies; VS: vector reads of shared memory and of C;
 * TURN: A by columns; WARP: a warp makes 64 x 32. */
template <bool VG, bool VS, bool TURN, bool WARP> static __device__ __forceinline__ void ltile2d(LARGS)
{
    __shared__ __align__(16) float a[128 * 16];
    __shared__ __align__(16) float b[16 * 128];
    const u64 t = threadIdx.x;
    const u64 w = t / 32, l = t % 32;
    const u64 tr = WARP ? w / 4 * 64 + l / 4 * 8 : t / 16 * 8, tc = WARP ? w % 4 * 32 + l % 4 * 8 : t % 16 * 8;
    float s[64] = {0};
    for (u64 step = 0; step < (k + 15) / 16; step++) {
        lcopy<128, 128, 16, 256, VG, TURN>(A, lda, B, ldb, a, b, step, t, m, n, k);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float x[8], y[8];
            if (VS && TURN) {
#pragma unroll
                for (int j = 0; j < 8; j += 4) {
                    const float4 v = ld4(a + i * 128 + tr + j);
                    x[j] = v.x, x[j + 1] = v.y, x[j + 2] = v.z, x[j + 3] = v.w;
                }
            } else {
#pragma unroll
                for (int j = 0; j < 8; j++)
                    x[j] = TURN ? a[i * 128 + tr + j] : a[(tr + j) * 16 + i];
            }
            if (VS) {
#pragma unroll
                for (int j = 0; j < 8; j += 4) {
                    const float4 v = ld4(b + i * 128 + tc + j);
                    y[j] = v.x, y[j + 1] = v.y, y[j + 2] = v.z, y[j + 3] = v.w;
                }
            } else {
#pragma unroll
                for (int j = 0; j < 8; j++)
                    y[j] = b[i * 128 + tc + j];
            }
#pragma unroll
            for (int p = 0; p < 8; p++)
#pragma unroll
                for (int q = 0; q < 8; q++)
                    s[p * 8 + q] += x[p] * y[q];
        }
        __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < 8; p++) {
        const u64 r = (u64)blockIdx.y * 128 + tr + p;
#pragma unroll
        for (int q = 0; q < 8; q += VS ? 4 : 1) {
            const u64 c = (u64)blockIdx.x * 128 + tc + q;
            if (r < m && c < n) {
                if (VS)
                    out4(C + r * ldc + c, alpha, beta, s + p * 8 + q);
                else
                    C[r * ldc + c] = alpha * s[p * 8 + q] + beta * C[r * ldc + c];
            }
        }
    }
}
extern "C" __global__ void lgemm_v04(LARGS) { ltile2d<false, false, false, false>(LPASS); }
extern "C" __global__ void lgemm_v04v(LARGS) { ltile2d<false, true, false, false>(LPASS); }
extern "C" __global__ void lgemm_v05(LARGS) { ltile2d<false, false, true, false>(LPASS); }
extern "C" __global__ void lgemm_v05v(LARGS) { ltile2d<true, true, true, false>(LPASS); }
extern "C" __global__ void lgemm_v06(LARGS) { ltile2d<false, false, true, true>(LPASS); }
extern "C" __global__ void lgemm_v06v(LARGS) { ltile2d<true, true, true, true>(LPASS); }
