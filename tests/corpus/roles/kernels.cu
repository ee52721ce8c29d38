// What a horizontal fuser leaves of four kernels: two launches, in each of which a block's number says which of two
// kernels it belongs to.
//
//   level1<<<32>>>   block < 16: h = x w, 128 x 128 of 64, tiles of 32 x 32      else: r = s / rms(s), a row a warp
//   level2<<<96>>>   block < 64: y = gelu(h + bias), an element a thread          else: z = r * g, two elements a thread
//
// y needs only h and z only r, but every block of level2 waits for all of level1.
enum { M = 128, N = 128, K = 64 };

static __device__ void product(int block, const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h)
{
    __shared__ float xs[32][K + 1], ws[K][32];
    const int t = threadIdx.x, tx = t % 32, ty = t / 32, row = block / 4 * 32, col = block % 4 * 32;
    for (int k = t; k < 32 * K; k += 256) {
        xs[k / K][k % K] = x[(row + k / K) * K + k % K];
        ws[k / 32][k % 32] = w[k / 32 * N + col + k % 32];
    }
    __syncthreads();
    float sum[4] = {};
#pragma unroll 4
    for (int k = 0; k < K; k++)
        for (int r = 0; r < 4; r++)
            sum[r] += xs[ty * 4 + r][k] * ws[k][tx];
    for (int r = 0; r < 4; r++)
        h[(row + ty * 4 + r) * N + col + tx] = sum[r];
}

static __device__ void norm(int block, const float *__restrict__ s, float *__restrict__ r)
{
    const int lane = threadIdx.x % 32, row = block * 8 + threadIdx.x / 32;
    float v[4], sum = 0;
    for (int k = 0; k < 4; k++) {
        v[k] = s[row * N + k * 32 + lane];
        sum += v[k] * v[k];
    }
    for (int k = 16; k; k /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, k);
    const float by = rsqrtf(sum / N + 1e-5f);
    for (int k = 0; k < 4; k++)
        r[row * N + k * 32 + lane] = v[k] * by;
}

extern "C" __global__ void level1(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ h,
                                  const float *__restrict__ s, float *__restrict__ r)
{
    if (blockIdx.x < 16)
        product(blockIdx.x, x, w, h);
    else
        norm(blockIdx.x - 16, s, r);
}

extern "C" __global__ void level2(const float *__restrict__ h, const float *__restrict__ bias, float *__restrict__ y,
                                  const float *__restrict__ r, const float *__restrict__ g, float *__restrict__ z)
{
    if (blockIdx.x < 64) {
        const int i = blockIdx.x * 256 + threadIdx.x;
        const float v = h[i] + bias[i % N];
        y[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    } else {
        const int i = (blockIdx.x - 64) * 512 + threadIdx.x;
        z[i] = r[i] * g[i % N];
        z[i + 256] = r[i + 256] * g[(i + 256) % N];
    }
}
