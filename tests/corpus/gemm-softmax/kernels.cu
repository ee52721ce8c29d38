// p = softmax(a b) by rows: a is 256 x 64, b 64 x 128.
//
// GEMM: a block of 16 x 8 threads makes a tile of 16 x 64, 2 x 4 results a thread (rows ty and ty + 8, columns tx * 4 .. + 3).
// Softmax: a warp a row, 4 elements a lane, 4 rows a block; maximum and sum by shuffles.
enum { M = 256, N = 128, K = 64 };
#define NONE __int_as_float(0xff800000) // minus infinity, without a header

extern "C" __global__ void gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ s)
{
    __shared__ float as[16][17];
    __shared__ __align__(16) float bs[16][64];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    const int row = blockIdx.y * 16, col = blockIdx.x * 64;
    float sum[2][4] = {};
    for (int k = 0; k < K; k += 16) {
        for (int i = t; i < 256; i += 128) {
            as[i / 16][i % 16] = a[(row + i / 16) * K + k + i % 16];
            *(float4 *)&bs[i / 16][i % 16 * 4] = *(const float4 *)&b[(k + i / 16) * N + col + i % 16 * 4];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++)
            for (int r = 0; r < 2; r++)
                for (int c = 0; c < 4; c++)
                    sum[r][c] += as[ty + r * 8][j] * bs[j][tx * 4 + c];
        __syncthreads();
    }
    for (int r = 0; r < 2; r++)
        *(float4 *)&s[(row + ty + r * 8) * N + col + tx * 4] = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

extern "C" __global__ void softmax(const float *__restrict__ s, float *__restrict__ p)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float v[4], top = NONE, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = s[row * N + i * 32 + lane];
        top = fmaxf(top, v[i]);
    }
    for (int k = 16; k; k /= 2)
        top = fmaxf(top, __shfl_xor_sync(~0u, top, k));
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = expf(v[i] - top);
        sum += v[i];
    }
    for (int k = 16; k; k /= 2)
        sum += __shfl_xor_sync(~0u, sum, k);
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[row * N + i * 32 + lane] = v[i] / sum;
}
