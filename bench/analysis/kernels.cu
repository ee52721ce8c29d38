// Kernels whose analysis is timed: as a generator or a careful person writes them. All sizes are arguments, so that one module serves all.

// C[m, n] = A[m, k] * B[k, n]: 128 x 128 tiles, 256 threads, 8 x 8 values each; k in steps of 8, the next tile loaded ahead.
extern "C" __global__ void __launch_bounds__(256) gemm128(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                                                          int n, int k)
{
    __shared__ float as[2][8][128], bs[2][8][128];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 128, col = blockIdx.x * 128;
    const float *pa = a + (size_t)(row + t / 2) * k + t % 2 * 4, *pb = b + (size_t)(t / 32) * n + col + t % 32 * 4;
    float sum[8][8] = {};
    float4 va = *(const float4 *)pa, vb = *(const float4 *)pb;
    int at = 0;
    for (int k0 = 0; k0 < k; k0 += 8) {
        as[at][t % 2 * 4 + 0][t / 2] = va.x, as[at][t % 2 * 4 + 1][t / 2] = va.y;
        as[at][t % 2 * 4 + 2][t / 2] = va.z, as[at][t % 2 * 4 + 3][t / 2] = va.w;
        *(float4 *)&bs[at][t / 32][t % 32 * 4] = vb;
        __syncthreads();
        if (k0 + 8 < k) {
            pa += 8, pb += (size_t)8 * n;
            va = *(const float4 *)pa, vb = *(const float4 *)pb;
        }
        for (int q = 0; q < 8; q++)
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    sum[i][j] += as[at][q][ty * 8 + i] * bs[at][q][tx * 8 + j];
        at ^= 1;
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 4)
            *(float4 *)&c[(size_t)(row + ty * 8 + i) * n + col + tx * 8 + j] =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
}

// The same with 32 x 32 tiles and index arithmetic in the loop.
extern "C" __global__ void __launch_bounds__(256) gemm32(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float as[32][33], bs[32][33];
    const int tx = threadIdx.x % 32, ty = threadIdx.x / 32, col = blockIdx.x * 32 + tx;
    float sum[4] = {};
    for (int k0 = 0; k0 < k; k0 += 32) {
        for (int i = 0; i < 4; i++) {
            const int r = blockIdx.y * 32 + ty + 8 * i, q = k0 + ty + 8 * i;
            as[ty + 8 * i][tx] = r < m && k0 + tx < k ? a[r * k + k0 + tx] : 0.f;
            bs[ty + 8 * i][tx] = q < k && col < n ? b[q * n + col] : 0.f;
        }
        __syncthreads();
        for (int q = 0; q < 32; q++)
            for (int i = 0; i < 4; i++)
                sum[i] += as[ty + 8 * i][q] * bs[q][tx];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        if (blockIdx.y * 32 + ty + 8 * i < m && col < n)
            c[(blockIdx.y * 32 + ty + 8 * i) * n + col] = sum[i];
}

// One block a row; the row is read twice.
extern "C" __global__ void layernorm(const float *x, const float *g, float *y, int n)
{
    __shared__ float part[256];
    float sum = 0, square = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float v = x[(size_t)blockIdx.x * n + i];
        sum += v, square += v * v;
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s; s /= 2) {
        if (threadIdx.x < s)
            part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    const float mean = part[0] / n, scale = rsqrtf(square / n - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[(size_t)blockIdx.x * n + i] = (x[(size_t)blockIdx.x * n + i] - mean) * scale * g[i];
}

// One warp a row.
extern "C" __global__ void softmax(const float *x, float *y, int rows, int n)
{
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float most = -1e30f, sum = 0;
    for (int i = lane; i < n; i += 32)
        most = fmaxf(most, x[(size_t)row * n + i]);
    for (int d = 16; d; d /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    for (int i = lane; i < n; i += 32)
        sum += __expf(x[(size_t)row * n + i] - most);
    for (int d = 16; d; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    for (int i = lane; i < n; i += 32)
        y[(size_t)row * n + i] = __expf(x[(size_t)row * n + i] - most) / sum;
}

// 3 x 3, padding 1, NCHW; a block makes 16 x 16 values of one output channel.
extern "C" __global__ void conv2d(const float *x, const float *w, float *y, int c, int h, int wd)
{
    const int ox = blockIdx.x * 16 + threadIdx.x, oy = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int i = 0; i < c; i++)
        for (int dy = 0; dy < 3; dy++)
            for (int dx = 0; dx < 3; dx++) {
                const int iy = oy + dy - 1, ix = ox + dx - 1;
                if (iy >= 0 && iy < h && ix >= 0 && ix < wd)
                    sum += x[(i * h + iy) * wd + ix] * w[((blockIdx.z * c + i) * 3 + dy) * 3 + dx];
            }
    if (ox < wd && oy < h)
        y[(blockIdx.z * h + oy) * wd + ox] = sum;
}

// Causal attention of one head a z, 64 queries a block, keys in tiles of 64, head size 64.
extern "C" __global__ void __launch_bounds__(64) attention(const float *q, const float *k, const float *v, float *o, int n)
{
    __shared__ float ks[64][64], vs[64][64];
    const size_t head = (size_t)blockIdx.y * n * 64;
    const int row = blockIdx.x * 64 + threadIdx.x;
    float acc[64] = {}, most = -1e30f, sum = 0, mine[64];
    for (int i = 0; i < 64; i++)
        mine[i] = q[head + (size_t)row * 64 + i];
    for (int t0 = 0; t0 <= blockIdx.x * 64; t0 += 64) {
        for (int i = 0; i < 64; i++) {
            ks[i][threadIdx.x] = k[head + (size_t)(t0 + i) * 64 + threadIdx.x];
            vs[i][threadIdx.x] = v[head + (size_t)(t0 + i) * 64 + threadIdx.x];
        }
        __syncthreads();
        for (int j = 0; j < 64 && t0 + j <= row; j++) {
            float s = 0;
            for (int i = 0; i < 64; i++)
                s += mine[i] * ks[j][i];
            const float m = fmaxf(most, s), f = __expf(most - m), e = __expf(s - m);
            sum = sum * f + e, most = m;
            for (int i = 0; i < 64; i++)
                acc[i] = acc[i] * f + e * vs[j][i];
        }
        __syncthreads();
    }
    for (int i = 0; i < 64; i++)
        o[head + (size_t)row * 64 + i] = acc[i] / sum;
}

extern "C" __global__ void transpose(const float *x, float *y, int rows, int cols)
{
    __shared__ float tile[32][33];
    for (int i = threadIdx.y; i < 32; i += 8)
        if (blockIdx.x * 32 + threadIdx.x < cols && blockIdx.y * 32 + i < rows)
            tile[i][threadIdx.x] = x[(size_t)(blockIdx.y * 32 + i) * cols + blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8)
        if (blockIdx.y * 32 + threadIdx.x < rows && blockIdx.x * 32 + i < cols)
            y[(size_t)(blockIdx.x * 32 + i) * rows + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][i];
}

// One thread a value; `reach` values to either side.
extern "C" __global__ void band(const float *x, float *y, int n, int reach)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int d = -reach; d <= reach; d++)
        if (i + d >= 0 && i + d < n)
            sum += x[i + d];
    if (i < n)
        y[i] = sum;
}

extern "C" __global__ void gelu(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * (1.f / (1.f + __expf(-1.702f * x[i])));
}

extern "C" __global__ void add(const float *x, const float *r, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + r[i];
}
