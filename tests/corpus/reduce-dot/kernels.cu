// Two reductions, two element-wise kernels and a batched dot: softmax by rows as a framework emits it, operator by operator, times v.
// 8 batches, 32 rows, 64 columns; v is 64 x 32 in each batch.
//
// Reductions: a warp a row, 8 rows a block. Element-wise: an element a thread. Dot: 16 rows of a batch a block, 2 results a thread.
enum { BATCH = 8, R = 32, C = 64, D = 32 };

extern "C" __global__ void row_max(const float *__restrict__ x, float *__restrict__ m)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float v = fmaxf(x[row * C + lane], x[row * C + 32 + lane]);
    for (int k = 16; k; k /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, k));
    if (lane == 0)
        m[row] = v;
}

extern "C" __global__ void shift_exp(const float *__restrict__ x, const float *__restrict__ m, float *__restrict__ e)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    e[i] = expf(x[i] - m[i / C]);
}

extern "C" __global__ void row_sum(const float *__restrict__ e, float *__restrict__ s)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float v = e[row * C + lane] + e[row * C + 32 + lane];
    for (int k = 16; k; k /= 2)
        v += __shfl_xor_sync(~0u, v, k);
    if (lane == 0)
        s[row] = v;
}

extern "C" __global__ void divide(const float *__restrict__ e, const float *__restrict__ s, float *__restrict__ p)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    p[i] = e[i] / s[i / C];
}

extern "C" __global__ void dot(const float *__restrict__ p, const float *__restrict__ v, float *__restrict__ o)
{
    __shared__ float ps[16][C], vs[C][D + 1];
    const int tx = threadIdx.x, ty = threadIdx.y, batch = blockIdx.y, row = batch * R + blockIdx.x * 16;
    for (int i = ty * 32 + tx; i < 16 * C; i += 256)
        ps[i / C][i % C] = p[row * C + i];
    for (int i = ty * 32 + tx; i < C * D; i += 256)
        vs[i / D][i % D] = v[batch * C * D + i];
    __syncthreads();
    float sum[2] = {};
    for (int k = 0; k < C; k++)
        for (int i = 0; i < 2; i++)
            sum[i] += ps[ty + i * 8][k] * vs[k][tx];
    for (int i = 0; i < 2; i++)
        o[(row + ty + i * 8) * D + tx] = sum[i];
}
