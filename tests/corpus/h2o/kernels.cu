// H2O attention ("heavy hitter oracle"): causal attention that also gives, for every key, the sum of its attention over all queries.
// 4 heads, 128 tokens, 32 elements a head. The softmax reduces along rows, the score of a key along columns.
//
//   scores   s = q k^T / sqrt(32), every tile of 32 x 32, those above the diagonal too; nobody reads those
//   softmax  p = softmax of row i over j <= i, 0 beyond; a warp a row, 8 rows a block
//   attend   o = p v, 32 rows a block
//   heavy    acc[j] = sum over i of p[i][j], 32 columns a block
enum { HEADS = 4, T = 128, D = 32 };
#define NONE __int_as_float(0xff800000) // minus infinity, without a header

extern "C" __global__ void scores(const float *__restrict__ q, const float *__restrict__ k, float *__restrict__ s)
{
    __shared__ float qs[32][33], ks[32][33];
    const int tx = threadIdx.x, ty = threadIdx.y, head = blockIdx.z, row = blockIdx.y * 32, col = blockIdx.x * 32;
    for (int i = ty; i < 32; i += 8) {
        qs[i][tx] = q[(head * T + row + i) * D + tx];
        ks[i][tx] = k[(head * T + col + i) * D + tx];
    }
    __syncthreads();
    for (int i = ty; i < 32; i += 8) {
        float sum = 0.0f;
        for (int d = 0; d < D; d++)
            sum += qs[i][d] * ks[tx][d];
        s[(head * T + row + i) * T + col + tx] = sum * 0.17677669f;
    }
}

extern "C" __global__ void softmax(const float *__restrict__ s, float *__restrict__ p)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, last = row % T;
    float v[4], top = NONE, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = i * 32 + lane <= last ? s[row * T + i * 32 + lane] : NONE;
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
        p[row * T + i * 32 + lane] = v[i] / sum;
}

extern "C" __global__ void attend(const float *__restrict__ p, const float *__restrict__ v, float *__restrict__ o)
{
    __shared__ float ps[32][33], vs[32][33];
    const int tx = threadIdx.x, ty = threadIdx.y, head = blockIdx.y, row = head * T + blockIdx.x * 32;
    float sum[4] = {};
    for (int j = 0; j < T; j += 32) {
        for (int i = ty; i < 32; i += 8) {
            ps[i][tx] = p[(row + i) * T + j + tx];
            vs[i][tx] = v[(head * T + j + i) * D + tx];
        }
        __syncthreads();
        for (int k = 0; k < 32; k++)
            for (int i = 0; i < 4; i++)
                sum[i] += ps[ty + i * 8][k] * vs[k][tx];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        o[(row + ty + i * 8) * D + tx] = sum[i];
}

extern "C" __global__ void heavy(const float *__restrict__ p, float *__restrict__ acc)
{
    __shared__ float part[8][32];
    const int tx = threadIdx.x, ty = threadIdx.y, head = blockIdx.y, col = blockIdx.x * 32 + tx;
    float sum = 0.0f;
    for (int i = ty; i < T; i += 8)
        sum += p[(head * T + i) * T + col];
    part[ty][tx] = sum;
    __syncthreads();
    for (int k = 4; k; k /= 2) {
        if (ty < k)
            part[ty][tx] += part[ty + k][tx];
        __syncthreads();
    }
    if (ty == 0)
        acc[head * T + col] = part[0][tx];
}
