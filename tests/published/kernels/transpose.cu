/* Kernels of transpose.tsv, f32. */

/* ayush-os: width from the grid, 32 x 32 tiles with a block of 32 x 8, no bounds. */
#define XY const int x = 32 * blockIdx.x + threadIdx.x, y = 32 * blockIdx.y + threadIdx.y, w = gridDim.x * 32
extern "C" __global__ void ay_copy(float *out, const float *in)
{
    XY;
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * w + x] = in[(y + j) * w + x];
}
extern "C" __global__ void ay_naive(float *out, const float *in)
{
    XY;
    for (int j = 0; j < 32; j += 8)
        out[x * w + y + j] = in[(y + j) * w + x];
}
template <int P> static __device__ __forceinline__ void ay_tile(float *out, const float *in)
{
    __shared__ float t[32][32 + P];
    XY;
    for (int j = 0; j < 32; j += 8)
        t[threadIdx.y + j][threadIdx.x] = in[(y + j) * w + x];
    __syncthreads();
    const int u = 32 * blockIdx.y + threadIdx.x, v = 32 * blockIdx.x + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(v + j) * w + u] = t[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void ay_smem(float *out, const float *in) { ay_tile<0>(out, in); }
extern "C" __global__ void ay_smem_pad(float *out, const float *in) { ay_tile<1>(out, in); }
extern "C" __global__ void ay_smem_copy(float *out, const float *in)
{
    __shared__ float t[32 * 32];
    XY;
    for (int j = 0; j < 32; j += 8)
        t[(threadIdx.y + j) * 32 + threadIdx.x] = in[(y + j) * w + x];
    __syncthreads();
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * w + x] = t[(threadIdx.y + j) * 32 + threadIdx.x];
}
/* Its first version: an element a thread, block of 16 x 16; neighbours read along rows. */
extern "C" __global__ void ay_first(float *out, const float *in, int n)
{
    const int x = blockDim.x * blockIdx.x + threadIdx.x, y = blockDim.y * blockIdx.y + threadIdx.y;
    if (x >= n || y >= n)
        return;
    out[y + n * x] = in[x + n * y];
}

/* The ladder of the 4060 Ti: M x N to N x M. */
extern "C" __global__ void tr_row(const float *A, float *B, int M, int N)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y < M && x < N)
        B[x * M + y] = A[y * N + x];
}
extern "C" __global__ void tr_col(const float *A, float *B, int M, int N)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y < N && x < M)
        B[y * M + x] = A[x * N + y];
}
template <int H, int W> static __device__ __forceinline__ void tr_many(const float *A, float *B, int M, int N)
{
    const int r0 = blockIdx.x * H, c0 = blockIdx.y * W;
#pragma unroll
    for (int x = threadIdx.x; x < H; x += blockDim.x) {
        if (r0 + x >= M)
            break;
#pragma unroll
        for (int y = threadIdx.y; y < W; y += blockDim.y)
            if (c0 + y < N)
                B[(c0 + y) * M + r0 + x] = A[(r0 + x) * N + c0 + y];
    }
}
extern "C" __global__ void tr_many_16_64(const float *A, float *B, int M, int N) { tr_many<16, 64>(A, B, M, N); }
extern "C" __global__ void tr_many_32_32(const float *A, float *B, int M, int N) { tr_many<32, 32>(A, B, M, N); }
/* 32 x 32 tile. HOW 0: as it is; 1: padded; 2: columns by exclusive or with the row. */
template <int HOW> static __device__ __forceinline__ void tr_tile(const float *A, float *B, int M, int N)
{
    __shared__ float t[32][HOW == 1 ? 33 : 32];
    const int r0 = blockIdx.y * 32, c0 = blockIdx.x * 32;
#pragma unroll
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        if (r0 + y >= M)
            break;
#pragma unroll
        for (int x = threadIdx.x; x < 32; x += blockDim.x)
            if (c0 + x < N)
                t[y][HOW == 2 ? x ^ y : x] = A[(r0 + y) * N + c0 + x];
    }
    __syncthreads();
#pragma unroll
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        if (c0 + y >= N)
            break;
#pragma unroll
        for (int x = threadIdx.x; x < 32; x += blockDim.x)
            if (r0 + x < M)
                B[(c0 + y) * M + r0 + x] = t[x][HOW == 2 ? x ^ y : y];
    }
}
extern "C" __global__ void tr_smem(const float *A, float *B, int M, int N) { tr_tile<0>(A, B, M, N); }
extern "C" __global__ void tr_smem_pad(const float *A, float *B, int M, int N) { tr_tile<1>(A, B, M, N); }
extern "C" __global__ void tr_smem_swizzle(const float *A, float *B, int M, int N) { tr_tile<2>(A, B, M, N); }

/* leimao's CuTe kernels: 256 threads, tiles of 32 rows, M x N to N x M, bounds for every element. */
template <bool READ> static __device__ __forceinline__ void cu_naive(const float *in, float *out, int M, int N)
{
    const int t = threadIdx.x, R = READ ? 8 : 32, Q = READ ? 32 : 8;
    const int r0 = READ ? t / 32 : t % 32, c0 = READ ? t % 32 : t / 32;
    float v[32 / R][64 / Q];
#pragma unroll
    for (int i = 0; i < 32 / R; i++)
#pragma unroll
        for (int j = 0; j < 64 / Q; j++) {
            const int r = blockIdx.y * 32 + r0 + i * R, c = blockIdx.x * 64 + c0 + j * Q;
            if (r < M && c < N)
                v[i][j] = in[r * N + c];
        }
#pragma unroll
    for (int i = 0; i < 32 / R; i++)
#pragma unroll
        for (int j = 0; j < 64 / Q; j++) {
            const int r = blockIdx.y * 32 + r0 + i * R, c = blockIdx.x * 64 + c0 + j * Q;
            if (r < M && c < N)
                out[c * M + r] = v[i][j];
        }
}
extern "C" __global__ void cu_naive_read(const float *in, float *out, int M, int N) { cu_naive<true>(in, out, M, N); }
extern "C" __global__ void cu_naive_write(const float *in, float *out, int M, int N) { cu_naive<false>(in, out, M, N); }

/* Where element (r, c) of a tile with W columns lies. HOW 0: by rows; 1: by columns; 2: rows of W + pad; 3: columns by
 * exclusive or with the row (with vectors: in units of four, low three bits). */
template <int W, int HOW, bool VEC> static __device__ __forceinline__ int at(int r, int c)
{
    if (HOW == 0)
        return r * W + c;
    if (HOW == 1)
        return c * 32 + r;
    if (HOW == 2)
        return r * (W + (VEC ? 4 : 1)) + c;
    return r * W + (VEC ? c ^ ((r & 7) << 2) : c ^ r);
}
template <int W, int HOW, bool VEC>
static __device__ __forceinline__ void cu_tile(const float *in, float *out, int M, int N)
{
    __shared__ __align__(16) float sh[32 * (W + 4)];
    const int t = threadIdx.x;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < W / (VEC ? 128 : 32); j++) {
            const int r = t / 32 + i * 8, c = VEC ? t % 32 * 4 + j * 128 : t % 32 + j * 32;
            const int gr = blockIdx.y * 32 + r, gc = blockIdx.x * W + c;
            if (gr < M && gc < N) {
                if (VEC)
                    *reinterpret_cast<float4 *>(sh + at<W, HOW, VEC>(r, c)) =
                        *reinterpret_cast<const float4 *>(in + gr * N + gc);
                else
                    sh[at<W, HOW, VEC>(r, c)] = in[gr * N + gc];
            }
        }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < W / 8; j++) {
        const int r = t % 32, c = t / 32 + j * 8;
        const int gr = blockIdx.y * 32 + r, gc = blockIdx.x * W + c;
        if (gr < M && gc < N)
            out[gc * M + gr] = sh[at<W, HOW, VEC>(r, c)];
    }
}
#define CU(name, W, HOW, VEC)                                                                                          \
    extern "C" __global__ void name(const float *in, float *out, int M, int N) { cu_tile<W, HOW, VEC>(in, out, M, N); }
CU(cu_smem_read, 128, 0, false)
CU(cu_smem_read_vec, 128, 0, true)
CU(cu_smem_write, 128, 1, false)
CU(cu_smem_pad, 64, 2, false)
CU(cu_smem_pad_vec, 128, 2, true)
CU(cu_smem_swizzle, 64, 3, false)
CU(cu_smem_swizzle_vec, 128, 3, true)
