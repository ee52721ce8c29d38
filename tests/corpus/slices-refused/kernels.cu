// Blocks that are too few, and may not be divided: a product that also counts, and a sum over rows in which the warps
// of a block talk.
extern "C" __global__ void __launch_bounds__(64) counted(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, unsigned *__restrict__ n)
{
    __shared__ float at[8][32], bt[8][32];
    const int t = threadIdx.x, tx = t % 8, ty = t / 8, row = blockIdx.x * 32;
    float acc[4][4] = {};
    for (int k = 0; k < 256; k += 8) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            at[tx][ty + 8 * j] = a[(row + ty + 8 * j) * 256 + k + tx];
            bt[ty][tx + 8 * j] = b[(k + ty) * 32 + tx + 8 * j];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 8; q++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    acc[i][j] += at[q][ty + 8 * i] * bt[q][tx + 8 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            c[(row + ty + 8 * i) * 32 + tx + 8 * j] = acc[i][j];
    if (t == 0)
        atomicAdd(n + blockIdx.x, 1u);
}

extern "C" __global__ void sums(const float *__restrict__ c, float *__restrict__ s)
{
    __shared__ float part[128];
    const int t = threadIdx.x;
    float v = 0;
    for (int k = 0; k < 256; k++)
        v += c[(t + k * 128) % 2048];
    part[t] = v;
    __syncthreads();
    s[t] = part[t] - part[127 - t];
}
