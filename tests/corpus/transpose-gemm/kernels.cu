// Transposes between GEMMs, as in multi-head attention: 64 tokens, 128 hidden elements, 4 heads of 32.
//
//   project   qk[t][256] = x[t][128] w               tiles of 32 x 32
//   split     q[h][t][d], kt[h][d][t] from qk        q is copied, k is transposed through shared memory
//   scores    s[h][i][j] = q[h][i] kt[h][.][j]       one GEMM a head
//   merge     m[j][h * 64 + i] = s[h][i][j]          transposed again: row j holds the column j of every head
//   mix       y[j] = m[j] w2                         64 x 256 by 256 x 64
enum { T = 64, D = 32, HEADS = 4, HIDDEN = 128 };

// A block of 32 x 8 threads makes a tile of 32 x 32, 4 results a thread.
template <int N, int K>
static __device__ __forceinline__ void tile(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float as[32][33], bs[32][33];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32;
    float sum[4] = {};
    for (int k = 0; k < K; k += 32) {
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            as[ty + i][tx] = a[(row + ty + i) * K + k + tx];
            bs[ty + i][tx] = b[(k + ty + i) * N + col + tx];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 32; j++)
            for (int i = 0; i < 4; i++)
                sum[i] += as[ty + i * 8][j] * bs[j][tx];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[(row + ty + i * 8) * N + col + tx] = sum[i];
}

extern "C" __global__ void project(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ qk)
{
    tile<2 * HIDDEN, HIDDEN>(x, w, qk);
}

extern "C" __global__ void split(const float *__restrict__ qk, float *__restrict__ q, float *__restrict__ kt)
{
    __shared__ float part[32][33];
    const int tx = threadIdx.x, token = blockIdx.x * 32, head = blockIdx.y;
    for (int i = threadIdx.y; i < 32; i += 8)
        part[i][tx] = qk[(token + i) * 2 * HIDDEN + blockIdx.z * HIDDEN + head * D + tx];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8)
        if (blockIdx.z == 0)
            q[(head * T + token + i) * D + tx] = part[i][tx];
        else
            kt[(head * D + i) * T + token + tx] = part[tx][i];
}

extern "C" __global__ void scores(const float *__restrict__ q, const float *__restrict__ kt, float *__restrict__ s)
{
    tile<T, D>(q + blockIdx.z * T * D, kt + blockIdx.z * T * D, s + blockIdx.z * T * T);
}

extern "C" __global__ void merge(const float *__restrict__ s, float *__restrict__ m)
{
    __shared__ float part[32][33];
    const int tx = threadIdx.x, i0 = blockIdx.x * 32, j0 = blockIdx.y * 32, head = blockIdx.z;
    for (int i = threadIdx.y; i < 32; i += 8)
        part[i][tx] = s[(head * T + i0 + i) * T + j0 + tx];
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += 8)
        m[(j0 + j) * HEADS * T + head * T + i0 + tx] = part[tx][j];
}

extern "C" __global__ void mix(const float *__restrict__ m, const float *__restrict__ w2, float *__restrict__ y)
{
    tile<T, HEADS * T>(m, w2, y);
}
