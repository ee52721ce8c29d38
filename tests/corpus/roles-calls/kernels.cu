// A merged kernel whose roles are functions that the compiler did not inline, and which share a block's shared memory:
//
//   merged<<<48>>>   block < 16: h = x w by tiles, in product()       16 … 31: p = sums of 8 rows of s, in sums()
//                    else: q = 2 s, in twice()
//   bias<<<64>>>     y = max(h + bias, 0): it needs the first role alone
//   total<<<1>>>     o = the sum of p: it needs the second one alone
//
// Nobody reads q.
enum { M = 128, N = 128, K = 64 };

__device__ __noinline__ void product(int block, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h,
                                     float *room)
{
    float *xs = room, *ws = room + 32 * K;
    const int t = threadIdx.x, tx = t % 32, ty = t / 32, row = block / 4 * 32, col = block % 4 * 32;
    for (int k = t; k < 32 * K; k += 256) {
        xs[k] = x[(row + k / K) * K + k % K];
        ws[k] = w[k / 32 * N + col + k % 32];
    }
    __syncthreads();
    float sum[4] = {};
#pragma unroll 4
    for (int k = 0; k < K; k++)
        for (int r = 0; r < 4; r++)
            sum[r] += xs[(ty * 4 + r) * K + k] * ws[k * 32 + tx];
    for (int r = 0; r < 4; r++)
        h[(row + ty * 4 + r) * N + col + tx] = sum[r];
}

__device__ __noinline__ void sums(int block, const float *__restrict__ s, float *__restrict__ p, float *room)
{
    const int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 4; k++)
        sum += s[block * 8 * N + k * 256 + t];
    room[t] = sum;
    __syncthreads();
    for (int k = 128; k; k /= 2) {
        if (t < k)
            room[t] += room[t + k];
        __syncthreads();
    }
    if (t == 0)
        p[block] = room[0];
}

__device__ __noinline__ void twice(int block, const float *__restrict__ s, float *__restrict__ q)
{
    for (int k = 0; k < 4; k++)
        q[block * 8 * N + k * 256 + threadIdx.x] = 2 * s[block * 8 * N + k * 256 + threadIdx.x];
}

extern "C" __global__ void merged(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h,
                                  const float *__restrict__ s, float *__restrict__ p, float *__restrict__ q, int first,
                                  int second)
{
    __shared__ float room[64 * K];
    const int block = blockIdx.x;
    if (block < first)
        product(block, x, w, h, room);
    else if (block < first + second)
        sums(block - first, s, p, room);
    else
        twice(block - first - second, s, q);
}

extern "C" __global__ void bias(const float *__restrict__ h, const float *__restrict__ b, float *__restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(h[i] + b[i % N], 0.0f);
}

extern "C" __global__ void total(const float *__restrict__ p, float *__restrict__ o)
{
    float sum = 0;
    for (int k = 0; k < 16; k++)
        sum += p[k];
    if (threadIdx.x == 0)
        o[0] = sum;
}
