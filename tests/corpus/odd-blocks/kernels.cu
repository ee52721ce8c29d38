// Blocks of 48 threads, with barriers: rows of a product, three a block, from which blocks of 64 threads then take
// their largest element; and the same blocks of 48 once more, which count their positive elements at a barrier.
extern "C" __global__ void tiles(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ h)
{
    __shared__ float s[3][16], t[16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.x * 3 + y;
    float v = 0;
    for (int k = 0; k < 64; k += 16) {
        s[y][x] = a[row * 64 + k + x];
        for (int j = y; j < 16; j += 3)
            t[j][x] = b[(k + j) * 16 + x];
        __syncthreads();
        for (int j = 0; j < 16; j++)
            v += s[y][j] * t[j][x];
        __syncthreads();
    }
    h[row * 16 + x] = v;
}

extern "C" __global__ void finish(const float *__restrict__ h, float *__restrict__ y)
{
    __shared__ float s[48];
    const int t = threadIdx.x;
    if (t < 48)
        s[t] = h[blockIdx.x * 48 + t];
    __syncthreads();
    if (t < 48) {
        float most = s[t / 16 * 16];
        for (int k = 1; k < 16; k++)
            most = fmaxf(most, s[t / 16 * 16 + k]);
        y[blockIdx.x * 48 + t] = s[t] - most;
    }
}

extern "C" __global__ void count(const float *__restrict__ a, float *__restrict__ c)
{
    const int i = blockIdx.x * 48 + threadIdx.x;
    c[i] = a[i] * __syncthreads_count(a[i] > 0);
}

extern "C" __global__ void turn(const float *__restrict__ c, float *__restrict__ z) // eight of its blocks
{
    __shared__ float s[384];
    const int t = threadIdx.x;
    s[t] = c[blockIdx.x * 384 + t];
    __syncthreads();
    z[blockIdx.x * 384 + t] = s[383 - t];
}
