// y = layer_norm(x) w + b: x is 128 x 128, w 128 x 256.
//
// layer_norm: a warp a row, 4 rows a block; mean and variance by shuffles. gemm: a block of 16 x 8 threads makes a tile of 32 x 64, 4 x 4
// results a thread, and adds the bias before it stores.
enum { T = 128, H = 128, N = 256 };

static __device__ __forceinline__ float warp_sum(float v)
{
    for (int k = 16; k; k /= 2)
        v += __shfl_xor_sync(~0u, v, k);
    return v;
}

extern "C" __global__ void layer_norm(const float *__restrict__ x, const float *__restrict__ gamma, const float *__restrict__ beta,
                                      float *__restrict__ n)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float4 v = *(const float4 *)&x[row * H + lane * 4];
    const float mean = warp_sum(v.x + v.y + v.z + v.w) * (1.0f / H);
    const float4 d = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
    const float scale = rsqrtf(warp_sum(d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w) * (1.0f / H) + 1e-5f);
    const float4 g = *(const float4 *)&gamma[lane * 4], b = *(const float4 *)&beta[lane * 4];
    *(float4 *)&n[row * H + lane * 4] = make_float4(d.x * scale * g.x + b.x, d.y * scale * g.y + b.y, d.z * scale * g.z + b.z,
                                                    d.w * scale * g.w + b.w);
}

extern "C" __global__ void gemm(const float *__restrict__ n, const float *__restrict__ w, const float *__restrict__ bias,
                                float *__restrict__ y)
{
    __shared__ float as[32][17];
    __shared__ __align__(16) float bs[16][64];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    const int row = blockIdx.y * 32, col = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < H; k += 16) {
        for (int i = t; i < 32 * 16; i += 128)
            as[i / 16][i % 16] = n[(row + i / 16) * H + k + i % 16];
        for (int i = t; i < 16 * 16; i += 128)
            *(float4 *)&bs[i / 16][i % 16 * 4] = *(const float4 *)&w[(k + i / 16) * N + col + i % 16 * 4];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sum[r][c] += as[ty * 4 + r][j] * bs[j][tx * 4 + c];
        __syncthreads();
    }
    const float4 b = *(const float4 *)&bias[col + tx * 4];
    for (int r = 0; r < 4; r++)
        *(float4 *)&y[(row + ty * 4 + r) * N + col + tx * 4] =
            make_float4(sum[r][0] + b.x, sum[r][1] + b.y, sum[r][2] + b.z, sum[r][3] + b.w);
}
