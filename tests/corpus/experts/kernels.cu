// A mixture of experts, after routing: 128 tokens of 64 numbers, sorted by expert; expert e has its own tokens and its own inner size,
// z = relu(x w1_e) w2_e, and y = gate * z. Experts 0 and 1 are cut into tiles of 16 rows, experts 2 and 3, with 40 and 8 tokens, into tiles of 8.
//
// multiply<R>: a block of 16 x R threads makes R x 16 results, 16 of the inner dimension at a time through shared memory.
template <int R> static __device__ __forceinline__ float multiply(const float *__restrict__ a, const float *__restrict__ b, int n, int k)
{
    __shared__ float as[R][16], bs[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    a += (blockIdx.y * R + ty) * k;
    b += blockIdx.x * 16 + tx;
    float sum = 0;
    for (int t = 0; t < k; t += 16) {
        as[ty][tx] = a[t + tx];
        for (int i = ty; i < 16; i += R)
            bs[i][tx] = b[(t + i) * n];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    return sum;
}

template <int R> static __device__ __forceinline__ void store(float *c, int n, float v)
{
    c[(blockIdx.y * R + threadIdx.y) * n + blockIdx.x * 16 + threadIdx.x] = v;
}

extern "C" __global__ void up16(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h, int n, int k)
{
    store<16>(h, n, fmaxf(multiply<16>(x, w, n, k), 0.0f));
}

extern "C" __global__ void up8(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h, int n, int k)
{
    store<8>(h, n, fmaxf(multiply<8>(x, w, n, k), 0.0f));
}

extern "C" __global__ void down16(const float *__restrict__ h, const float *__restrict__ w, float *__restrict__ z, int n, int k)
{
    store<16>(z, n, multiply<16>(h, w, n, k));
}

extern "C" __global__ void down8(const float *__restrict__ h, const float *__restrict__ w, float *__restrict__ z, int n, int k)
{
    store<8>(z, n, multiply<8>(h, w, n, k));
}

extern "C" __global__ void combine(const float *__restrict__ z, const float *__restrict__ gate, float *__restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = gate[i / 64] * z[i];
}
