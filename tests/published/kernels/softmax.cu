/* Kernels of softmax.tsv: softmax of each row, maximum and sum in one pass (online), f32. */
typedef unsigned long long u64;
#define FULL 0xffffffffu

/* A thread a row. */
extern "C" __global__ void sm_thread(const float *in, float *out, u64 cols, u64 n)
{
    const u64 at = (u64)(blockIdx.x * blockDim.x + threadIdx.x) * cols;
    if (at >= n)
        return;
    float m = in[at], s = 1;
    for (int i = 1; i < cols; i++) {
        const float k = fmaxf(m, in[at + i]);
        s = s * expf(m - k) + expf(in[at + i] - k);
        m = k;
    }
    for (int i = 0; i < cols; i++)
        out[at + i] = expf(in[at + i] - m) / s;
}

static __device__ __forceinline__ void part(const float *in, u64 cols, float &m, float &s)
{
    const u64 row = blockIdx.x, t = threadIdx.x, w = blockDim.x, range = (cols + w - 1) / w;
    m = in[row * cols + t];
    s = 1;
    for (int i = 1; i < range; i++) {
        const int k = row * cols + i * w + t;
        if (k < (row + 1) * cols) {
            const float x = fmaxf(m, in[k]);
            s = s * expf(m - x) + expf(in[k] - x);
            m = x;
        }
    }
}
static __device__ __forceinline__ void finish(const float *in, float *out, u64 cols, float m, float s)
{
    const u64 row = blockIdx.x, t = threadIdx.x, w = blockDim.x, range = (cols + w - 1) / w;
    for (int i = 0; i < range; i++) {
        const int k = row * cols + i * w + t;
        if (k < (row + 1) * cols)
            out[k] = expf(in[k] - m) / s;
    }
}

/* A block a row, halves folded in shared memory. */
extern "C" __global__ void sm_shared(const float *in, float *out, u64 cols, u64 n)
{
    extern __shared__ float sh[];
    const int t = threadIdx.x, w = blockDim.x;
    float m, s;
    part(in, cols, m, s);
    sh[t] = m;
    sh[t + w] = s;
    __syncthreads();
    for (int len = w < cols ? w : (int)cols; len > 1;) {
        const int old = len;
        len = (len + 1) / 2;
        const int o = old - t - 1;
        if (t < len && o > t) {
            const float x = fmaxf(sh[t], sh[o]);
            sh[t + w] = sh[t + w] * expf(sh[t] - x) + sh[o + w] * expf(sh[o] - x);
            sh[t] = x;
        }
        __syncthreads();
    }
    finish(in, out, cols, sh[0], sh[w]);
}

static __device__ __forceinline__ void fold(float &m, float &s)
{
    for (int o = 16; o > 0; o >>= 1) {
        const float m2 = __shfl_down_sync(FULL, m, o), s2 = __shfl_down_sync(FULL, s, o), x = fmaxf(m, m2);
        s = s * expf(m - x) + s2 * expf(m2 - x);
        m = x;
    }
}

/* A block a row, folded by shuffles. */
extern "C" __global__ void sm_shuffle(const float *in, float *out, u64 cols, u64 n)
{
    extern __shared__ float sh[];
    const int t = threadIdx.x, l = t % 32;
    float m, s;
    part(in, cols, m, s);
    fold(m, s);
    if (l == 0) {
        sh[2 * (t / 32)] = m;
        sh[2 * (t / 32) + 1] = s;
    }
    __syncthreads();
    m = -3.402823466e38f;
    s = 0;
    if (l < blockDim.x / 32) {
        m = sh[2 * l];
        s = sh[2 * l + 1];
    }
    fold(m, s);
    m = __shfl_sync(FULL, m, 0);
    s = __shfl_sync(FULL, s, 0);
    finish(in, out, cols, m, s);
}
