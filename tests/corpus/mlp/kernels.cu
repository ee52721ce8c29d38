// y = gelu(x w1 + b1) w2: x is 64 x 64, w1 64 x 128, w2 128 x 64. One result a thread, tiles of 16 x 16 in shared memory.
template <int N, int K>
static __device__ __forceinline__ void tile(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float as[16][17], bs[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        as[threadIdx.y][threadIdx.x] = a[row * K + k + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * N + col];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++)
            sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
        __syncthreads();
    }
    c[row * N + col] = sum;
}

extern "C" __global__ void gemm1(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h)
{
    tile<128, 64>(x, w, h);
}

extern "C" __global__ void bias(const float *__restrict__ h, const float *__restrict__ b, float *__restrict__ g)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    g[i] = h[i] + b[i & 127];
}

extern "C" __global__ void gelu(const float *__restrict__ g, float *__restrict__ u)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float v = g[i];
    u[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

extern "C" __global__ void gemm2(const float *__restrict__ u, const float *__restrict__ w, float *__restrict__ y)
{
    tile<64, 128>(u, w, y);
}
