// Blocks that are too few for any device: a product in tiles of 64 x 64, 8 x 8 elements a thread, and the largest
// element of each row of it, a row a thread.
extern "C" __global__ void __launch_bounds__(64) product(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float at[8][64], bt[8][64];
    const int t = threadIdx.x, tx = t % 8, ty = t / 8, row = blockIdx.y * 64, col = blockIdx.x * 64;
    float acc[8][8] = {};
    for (int k = 0; k < 256; k += 8) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            at[tx][ty + 8 * j] = a[(row + ty + 8 * j) * 256 + k + tx];
            bt[ty][tx + 8 * j] = b[(k + ty) * 128 + col + tx + 8 * j];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 8; q++)
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += at[q][ty + 8 * i] * bt[q][tx + 8 * j];
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            c[(row + ty + 8 * i) * 128 + col + tx + 8 * j] = acc[i][j];
}

extern "C" __global__ void largest(const float *__restrict__ c, float *__restrict__ m)
{
    float v = -3.402823e+38f;
    for (int k = 0; k < 128; k++)
        v = fmaxf(v, c[threadIdx.x * 128 + k]);
    m[threadIdx.x] = v;
}
