// BERT's feed-forward network: y = gelu(x w1 + b1) w2 + b2 + x, for T = 128 tokens, H = 128 hidden, F = 512 inner elements.
//
// GEMM: a block of 8 x 8 threads makes a tile of 32 x 32, 4 x 4 results a thread, 16 of the inner dimension at a time through shared
// memory, all loads and stores of 16 bytes. The pointwise kernels take 4 elements a thread.
enum { T = 128, H = 128, F = 512 };

template <int N, int K>
static __device__ __forceinline__ void tile(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float as[16][36]; // transposed: as[k][row]
    __shared__ __align__(16) float bs[16][32];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 8 + tx;
    const int row = blockIdx.y * 32, col = blockIdx.x * 32;
    float sum[4][4] = {};
    for (int k = 0; k < K; k += 16) {
#pragma unroll
        for (int i = t; i < 128; i += 64) {
            const float4 v = *(const float4 *)&a[(row + i / 4) * K + k + i % 4 * 4];
            as[i % 4 * 4 + 0][i / 4] = v.x;
            as[i % 4 * 4 + 1][i / 4] = v.y;
            as[i % 4 * 4 + 2][i / 4] = v.z;
            as[i % 4 * 4 + 3][i / 4] = v.w;
            *(float4 *)&bs[i / 8][i % 8 * 4] = *(const float4 *)&b[(k + i / 8) * N + col + i % 8 * 4];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++) {
            float x[4], w[4];
            for (int i = 0; i < 4; i++)
                x[i] = as[j][ty * 4 + i], w[i] = bs[j][tx * 4 + i];
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < 4; s++)
                    sum[r][s] += x[r] * w[s];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
        *(float4 *)&c[(row + ty * 4 + r) * N + col + tx * 4] = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

extern "C" __global__ void up(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h)
{
    tile<F, H>(x, w, h);
}

static __device__ __forceinline__ float gelu(float v)
{
    return 0.5f * v * (1.0f + erff(v * 0.70710678f));
}

extern "C" __global__ void bias_gelu(const float4 *__restrict__ h, const float4 *__restrict__ b, float4 *__restrict__ u)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 v = h[i], a = b[i % (F / 4)];
    u[i] = make_float4(gelu(v.x + a.x), gelu(v.y + a.y), gelu(v.z + a.z), gelu(v.w + a.w));
}

extern "C" __global__ void down(const float *__restrict__ u, const float *__restrict__ w, float *__restrict__ d)
{
    tile<H, F>(u, w, d);
}

extern "C" __global__ void bias_residual(const float4 *__restrict__ d, const float4 *__restrict__ b, const float4 *__restrict__ x,
                                         float4 *__restrict__ y)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float4 v = d[i], a = b[i % (H / 4)], r = x[i];
    y[i] = make_float4(v.x + a.x + r.x, v.y + a.y + r.y, v.z + a.z + r.z, v.w + a.w + r.w);
}
