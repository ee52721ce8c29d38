// An element-wise prologue, a GEMM with double buffering, an element-wise epilogue that also transposes.
//
//   prologue  xs[i][k] = min(max(x[i][k] * g[k] + b[k], 0), 6)      128 x 64, an element a thread
//   gemm      c = xs w, w is 64 x 128                              tiles of 32 x 32, 64 threads, 4 x 4 results a thread
//   epilogue  y[j][i] = max(c[i][j] + bias[j], 0)                   each element of c becomes one of y
//
// The GEMM loads the next 8 of the inner dimension into registers while it computes from one of two buffers in shared memory, then
// stores them into the other: one barrier a step.
enum { M = 128, N = 128, K = 64 };

extern "C" __global__ void prologue(const float *__restrict__ x, const float *__restrict__ g, const float *__restrict__ b,
                                    float *__restrict__ xs)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    xs[i] = fminf(fmaxf(x[i] * g[i % K] + b[i % K], 0.0f), 6.0f);
}

extern "C" __global__ void gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float as[2][8][36];
    __shared__ __align__(16) float bs[2][8][32];
    const int t = threadIdx.x, tx = t % 8, ty = t / 8, row = blockIdx.y * 32, col = blockIdx.x * 32;
    const float *pa = a + (row + t / 2) * K + t % 2 * 4, *pb = b + t / 8 * N + col + t % 8 * 4;
    float4 va = *(const float4 *)pa, vb = *(const float4 *)pb;
    float sum[4][4] = {};
#pragma unroll 1
    for (int step = 0; step < K / 8; step++) {
        const int now = step % 2;
        as[now][t % 2 * 4 + 0][t / 2] = va.x;
        as[now][t % 2 * 4 + 1][t / 2] = va.y;
        as[now][t % 2 * 4 + 2][t / 2] = va.z;
        as[now][t % 2 * 4 + 3][t / 2] = va.w;
        *(float4 *)&bs[now][t / 8][t % 8 * 4] = vb;
        __syncthreads();
        if (step + 1 < K / 8) {
            va = *(const float4 *)(pa + (step + 1) * 8);
            vb = *(const float4 *)(pb + (step + 1) * 8 * N);
        }
#pragma unroll
        for (int k = 0; k < 8; k++)
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < 4; s++)
                    sum[r][s] += as[now][k][ty * 4 + r] * bs[now][k][tx * 4 + s];
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
        *(float4 *)&c[(row + ty * 4 + r) * N + col + tx * 4] = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

extern "C" __global__ void epilogue(const float *__restrict__ c, const float *__restrict__ bias, float *__restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i % N * M + i / N] = fmaxf(c[i] + bias[i % N], 0.0f);
}
