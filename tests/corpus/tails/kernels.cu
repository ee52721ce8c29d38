// 152 blocks on 132 SMs: a product in tiles of 128 x 128, 8 x 8 elements a thread; tile by tile in memory.
extern "C" __global__ void __launch_bounds__(256) product(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float at[8][128], bt[8][128];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 128, col = blockIdx.x * 128;
    float acc[8][8] = {};
    c += (blockIdx.y * gridDim.x + blockIdx.x) * 16384;
    for (int q = 0; q < 32; q += 8) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            at[t % 8][t / 8 + 32 * j] = a[(row + t / 8 + 32 * j) * 32 + q + t % 8];
            bt[t / 128 + 2 * j][t % 128] = b[(q + t / 128 + 2 * j) * 1024 + col + t % 128];
        }
        __syncthreads();
#pragma unroll
        for (int p = 0; p < 8; p++)
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += at[p][ty + 16 * i] * bt[p][tx + 16 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            c[(ty + 16 * i) * 128 + tx + 16 * j] = acc[i][j];
}
