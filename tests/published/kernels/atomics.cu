/* Atomic additions to few and to many addresses; a histogram of 256 bins. Rows: ../atomics.tsv. */

/* n additions a thread to one word: of the grid, its block's, its warp's (warps stride words apart), its own (threads
 * stride bytes apart, in 256 MB) */
extern "C" __global__ void add_grid(unsigned *p, int n)
{
#pragma unroll 4
    for (int i = 0; i < n; i++)
        atomicAdd(p, 1);
}
extern "C" __global__ void add_block(unsigned *p, int n)
{
#pragma unroll 4
    for (int i = 0; i < n; i++)
        atomicAdd(p + blockIdx.x, 1);
}
extern "C" __global__ void add_warp(unsigned *p, int n, int stride)
{
    unsigned *mine = p + (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * stride;
#pragma unroll 4
    for (int i = 0; i < n; i++)
        atomicAdd(mine, 1);
}
extern "C" __global__ void add_thread(unsigned *p, int n, int stride)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned *mine = p + (size_t)(t * stride) % (256u << 20) / 4;
#pragma unroll 1
    for (int i = 0; i < n; i++)
        atomicAdd(mine, 1);
}

/* lanes share m words: lane modulo m, or the thread's number in the grid modulo m */
template <int M> __device__ __forceinline__ void by_lane(unsigned *p, int n)
{
    unsigned *mine = p + (threadIdx.x & 31) % M;
#pragma unroll 4
    for (int i = 0; i < n; i++)
        atomicAdd(mine, 1);
}
extern "C" __global__ void add_lane1(unsigned *p, int n) { by_lane<1>(p, n); }
extern "C" __global__ void add_lane4(unsigned *p, int n) { by_lane<4>(p, n); }
extern "C" __global__ void add_lane8(unsigned *p, int n) { by_lane<8>(p, n); }
extern "C" __global__ void add_lane16(unsigned *p, int n) { by_lane<16>(p, n); }
extern "C" __global__ void add_lane32(unsigned *p, int n) { by_lane<32>(p, n); }
template <int M> __device__ __forceinline__ void by_number(unsigned *p, int n)
{
    unsigned *mine = p + (blockIdx.x * blockDim.x + threadIdx.x) % M;
#pragma unroll 4
    for (int i = 0; i < n; i++)
        atomicAdd(mine, 1);
}
#define MODULO(M) \
    extern "C" __global__ void add_modulo##M(unsigned *p, int n) { by_number<M>(p, n); }
MODULO(1)
MODULO(2)
MODULO(4)
MODULO(8)
MODULO(16)
MODULO(32)
MODULO(64)
MODULO(256)

/* each turn: sixteen words of each thread's own, `stride` words from the next thread's, one grid of threads from each other */
extern "C" __global__ void add_wide16(unsigned *p, int n, int stride)
{
    size_t t = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
#pragma unroll 1
    for (int i = 0; i < n; i++)
#pragma unroll
        for (int j = 0; j < 16; j++)
            atomicAdd(p + (t + j * all) * stride, 1);
}

/* one warp: each addition waits for the last one's result */
extern "C" __global__ void chain_global(unsigned *p, int n)
{
    unsigned v = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < n; i++)
        asm volatile("atom.global.relaxed.gpu.add.u32 %0, [%1], %0;" : "+r"(v) : "l"(p + threadIdx.x) : "memory");
    p[threadIdx.x] = v;
}
extern "C" __global__ void chain_shared(unsigned *p, int n)
{
    __shared__ unsigned s[32];
    s[threadIdx.x] = 0;
    unsigned v = threadIdx.x, at = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);
#pragma unroll 1
    for (int i = 0; i < n; i++)
        asm volatile("atom.shared.add.u32 %0, [%1], %0;" : "+r"(v) : "r"(at) : "memory");
    p[threadIdx.x] = v;
}

/* Histogram of the exponents of uniform random bf16 in [-1, 1]: half fall in bin 126, a quarter in 125 and so on. The
 * buffer is zero here, so the bin comes of a hash of the number's place, added to what was read. */
__device__ __forceinline__ unsigned bin(unsigned read, unsigned place)
{
    place *= 0x9e3779b1u;
    place ^= place >> 15;
    place *= 0x85ebca6bu;
    return (126 - __clz(place | 1) + read) & 0xff;
}
extern "C" __global__ void __launch_bounds__(256, 4) hist_global(const unsigned short *x, unsigned *bins, int n)
{
    int all = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all)
        atomicAdd(bins + bin(x[i], i), 1);
}
template <int COPIES> __device__ __forceinline__ void hist(const uint4 *x, unsigned *bins, int n)
{
    __shared__ unsigned s[256 * COPIES];
    for (int i = threadIdx.x; i < 256 * COPIES; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    int all = gridDim.x * blockDim.x, copy = threadIdx.x & (COPIES - 1);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 8; i += all) {
        uint4 v = x[i];
        unsigned w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 8; j++)
            atomicAdd(s + bin(w[j / 2] >> (j & 1) * 16 & 0xffff, 8 * i + j) * COPIES + copy, 1);
    }
    __syncthreads();
    unsigned sum = 0;
    for (int k = 0; k < COPIES; k++)
        sum += s[threadIdx.x * COPIES + k];
    atomicAdd(bins + threadIdx.x, sum);
}
extern "C" __global__ void __launch_bounds__(256, 4) hist_shared(const uint4 *x, unsigned *bins, int n)
{
    hist<1>(x, bins, n);
}
extern "C" __global__ void __launch_bounds__(256, 4) hist_copies(const uint4 *x, unsigned *bins, int n)
{
    hist<32>(x, bins, n);
}
