// C = A B, row major fp32, in tiles of TM x TN by 256 threads.
template <int TM, int TN>
static __device__ __forceinline__ void product(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int k)
{
    __shared__ float at[8][TM], bt[8][TN];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * TM, col = blockIdx.x * TN;
    float acc[TM / 16][TN / 16] = {};
    for (int q = 0; q < k; q += 8) {
#pragma unroll
        for (int j = 0; j < TM / 32; j++)
            at[t % 8][t / 8 + 32 * j] = a[(row + t / 8 + 32 * j) * k + q + t % 8];
#pragma unroll
        for (int j = 0; j < TN / 32; j++)
            bt[(t + 256 * j) / TN][(t + 256 * j) % TN] = b[(q + (t + 256 * j) / TN) * n + col + (t + 256 * j) % TN];
        __syncthreads();
#pragma unroll
        for (int p = 0; p < 8; p++)
#pragma unroll
            for (int i = 0; i < TM / 16; i++)
#pragma unroll
                for (int j = 0; j < TN / 16; j++)
                    acc[i][j] += at[p][ty + 16 * i] * bt[p][tx + 16 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM / 16; i++)
#pragma unroll
        for (int j = 0; j < TN / 16; j++)
            c[(row + ty + 16 * i) * n + col + tx + 16 * j] = acc[i][j];
}

extern "C" __global__ void __launch_bounds__(256) t128x128(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int k)
{
    product<128, 128>(a, b, c, n, k);
}

extern "C" __global__ void __launch_bounds__(256) t128x64(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int k)
{
    product<128, 64>(a, b, c, n, k);
}
