/* Kernels of reduction.tsv: sums of f32. */
#define FULL 0xffffffffu
extern __shared__ float sh[];

/* MasterSkepticista: one atomic addition a block at the end; here one a thread, of four elements. */
extern "C" __global__ void sum_atomics(float *out, const float4 *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float4 v = in[i];
        atomicAdd(out, v.x + v.y + v.z + v.w);
    }
}

/* STEP 0: every second thread, then every fourth, by remainder; 1: the first threads, elements apart; 2: halves.
 * PAIR: a thread loads two. WARP: the last warp without barriers. */
template <int STEP, bool PAIR, bool WARP> static __device__ __forceinline__ void sum(float *out, const float *in, int n)
{
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x * (PAIR ? 2 : 1) + t;
    if (i >= n)
        return;
    sh[t] = PAIR ? in[i] + in[i + blockDim.x] : in[i];
    __syncthreads();
    if (STEP < 2) {
        for (int s = 1; s < blockDim.x; s *= 2) {
            if (STEP == 0) {
                if (t % (2 * s) == 0)
                    sh[t] += sh[t + s];
            } else {
                const int k = 2 * s * t;
                if (k < blockDim.x)
                    sh[k] += sh[k + s];
            }
            __syncthreads();
        }
    } else {
        for (int s = blockDim.x / 2; s > (WARP ? 32 : 0); s /= 2) {
            if (t < s)
                sh[t] += sh[t + s];
            __syncthreads();
        }
        if (WARP && t < 32) {
            volatile float *v = sh;
            v[t] += v[t + 32];
            v[t] += v[t + 16];
            v[t] += v[t + 8];
            v[t] += v[t + 4];
            v[t] += v[t + 2];
            v[t] += v[t + 1];
        }
    }
    if (t == 0)
        atomicAdd(out, sh[0]);
}
extern "C" __global__ void sum_remainder(float *out, const float *in, int n) { sum<0, false, false>(out, in, n); }
extern "C" __global__ void sum_strided(float *out, const float *in, int n) { sum<1, false, false>(out, in, n); }
extern "C" __global__ void sum_halves(float *out, const float *in, int n) { sum<2, false, false>(out, in, n); }
extern "C" __global__ void sum_pairs(float *out, const float *in, int n) { sum<2, true, false>(out, in, n); }
extern "C" __global__ void sum_warp(float *out, const float *in, int n) { sum<2, true, true>(out, in, n); }

/* The ladder of the 4060 Ti: in place, a block writes its sum to d[block]. */
static __device__ __forceinline__ float warpsum(float v, int width)
{
#pragma unroll
    for (int o = 16; o >= 1; o >>= 1)
        if (o < width)
            v += __shfl_xor_sync(FULL, v, o);
    return v;
}
template <int STEP, bool PAIR, bool SHFL> static __device__ __forceinline__ void red(float *d, int n)
{
    const int t = threadIdx.x, i = (PAIR ? 2 : 1) * blockDim.x * blockIdx.x + t;
    float s = i < n ? d[i] : 0;
    if (PAIR && i + blockDim.x < n)
        s += d[i + blockDim.x];
    sh[t] = s;
    __syncthreads();
    if (STEP < 3) {
        for (int o = 1; o < blockDim.x; o <<= 1) {
            const int k = t * o * 2;
            if (STEP == 0 && t % (o * 2) == 0)
                sh[t] += sh[t + o];
            if (STEP == 1 && (t & (o * 2 - 1)) == 0)
                sh[t] += sh[t + o];
            if (STEP == 2 && k < blockDim.x)
                sh[k] += sh[k + o];
            __syncthreads();
        }
    } else {
        for (int o = blockDim.x >> 1; o >= (SHFL ? 32 : 1); o >>= 1) {
            if (t < o)
                sh[t] = s = (SHFL ? s : sh[t]) + sh[t + o];
            __syncthreads();
        }
    }
    if (SHFL && t < 32)
        s = warpsum(s, 32);
    if (t == 0)
        d[blockIdx.x] = SHFL ? s : sh[0];
}
extern "C" __global__ void red_0(float *d, int n) { red<0, false, false>(d, n); }
extern "C" __global__ void red_05(float *d, int n) { red<1, false, false>(d, n); }
extern "C" __global__ void red_1(float *d, int n) { red<2, false, false>(d, n); }
extern "C" __global__ void red_2(float *d, int n) { red<3, false, false>(d, n); }
extern "C" __global__ void red_3(float *d, int n) { red<3, true, false>(d, n); }
extern "C" __global__ void red_4(float *d, int n) { red<3, true, true>(d, n); }

/* Unrolled for 256 threads. LOAD 0: a pair; 1: a loop over the grid; 2: four in one load. */
template <int LOAD> static __device__ __forceinline__ void red_unrolled(float *d, int n)
{
    const int t = threadIdx.x;
    float s = 0;
    if (LOAD == 0) {
        const int i = 2 * 256 * blockIdx.x + t;
        s = i < n ? d[i] : 0;
        if (i + 256 < n)
            s += d[i + 256];
    } else if (LOAD == 1) {
        for (int i = 256 * blockIdx.x + t; i < n; i += 256 * gridDim.x)
            s += d[i];
    } else {
        const int i = 4 * (256 * blockIdx.x + t);
        if (i < n - 4) {
            const float4 v = *reinterpret_cast<const float4 *>(d + i);
            s = v.x + v.y + v.z + v.w;
        } else {
            for (int j = i; j < n; j++)
                s += d[j];
        }
    }
    sh[t] = s;
    __syncthreads();
    __syncthreads();
    __syncthreads();
    if (t < 128)
        sh[t] = s = s + sh[t + 128];
    __syncthreads();
    if (t < 64)
        sh[t] = s = s + sh[t + 64];
    __syncthreads();
    if (t < 32)
        sh[t] = s = s + sh[t + 32];
    __syncthreads();
    if (t < 32)
        s = warpsum(s, 32);
    if (t == 0)
        d[blockIdx.x] = s;
}
extern "C" __global__ void red_5(float *d, int n) { red_unrolled<0>(d, n); }
extern "C" __global__ void red_6(float *d, int n) { red_unrolled<1>(d, n); }
extern "C" __global__ void red_6v(float *d, int n) { red_unrolled<2>(d, n); }

/* Two rounds of shuffles. */
extern "C" __global__ void red_7(float *d, int n)
{
    const int t = threadIdx.x;
    float s = 0;
    for (int i = 256 * blockIdx.x + t; i < n; i += 256 * gridDim.x)
        s += d[i];
    s = warpsum(s, 32);
    if ((t & 31) == 0)
        sh[t / 32] = s;
    __syncthreads();
    if (t < 32) {
        s = t < 8 ? sh[t] : 0;
        s = warpsum(s, 8);
    }
    if (t == 0)
        d[blockIdx.x] = s;
}
