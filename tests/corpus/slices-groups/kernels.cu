// A product x w^T by wgmma, in tiles of 128 x 16 by two warp groups, 64 rows each, as Triton makes them: operands by cp.async, in lines of 128
// bytes whose pieces are permuted, the group's number uniform by a shuffle, and the tile out by way of shared memory that x was in: rows 8 i to
// 8 i + 7 are store i of each group's half. Blocks are too few for any device.
//
// It is sliced: half of the rows are one group's products, and half of the copies of x. wgmma is not in NVRTC's default architecture, so the graph has
// kernels.ptx: this file by nvcc -ptx -arch=sm_90a, without comments.
typedef unsigned short half_bits;
enum { N = 256, K = 512 };

static __device__ __forceinline__ void copy16(unsigned to, const half_bits *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

static __device__ __forceinline__ unsigned long long descriptor(unsigned at)
{
    return (unsigned long long)(at >> 4 & 0x3fff) | 0x4000004000010000ull; // lines of 128 bytes, groups of eight rows 1024 bytes apart
}

static __device__ __forceinline__ void wgmma(float (&d)[8], unsigned long long a, unsigned long long b)
{
    asm volatile("{ .reg .pred p; mov.pred p, -1; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, "
                 "1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(256) product(const half_bits *__restrict__ x, const half_bits *__restrict__ w, float *c)
{
    extern __shared__ __align__(1024) unsigned char s[]; // 128 rows of x, 16 of w, 64 deep
    const int t = threadIdx.x, row = t / 8, at = row * 128 + ((t % 8) ^ (row % 8)) * 16;
    const unsigned sx = (unsigned)__cvta_generic_to_shared(s), sw = sx + 16384;
    const unsigned group = __shfl_sync(~0u, t >> 5, 0) << 11 & 8192; // 64 rows on, for warps 4 to 7
    float d[8] = {};
    for (int k = 0; k < K; k += 64) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            copy16(sx + i * 4096 + at, &x[(i * 32 + row) * K + k + t % 8 * 8]);
        if (t < 128)
            copy16(sw + at, &w[(blockIdx.x * 16 + row) * K + k + t % 8 * 8]);
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        asm volatile("fence.proxy.async.shared::cta; wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int q = 0; q < 4; q++)
            wgmma(d, descriptor(sx + group) + q * 2, descriptor(sw) + q * 2);
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        __syncthreads();
    }
    float *out = (float *)s + (t / 32 * 16 + t % 32 / 4) * 16 + t % 4 * 2;
    *(float2 *)out = make_float2(d[0], d[1]);
    *(float2 *)(out + 128) = make_float2(d[2], d[3]);
    *(float2 *)(out + 8) = make_float2(d[4], d[5]);
    *(float2 *)(out + 136) = make_float2(d[6], d[7]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int at = i * 256 + t;
        c[at / 16 * N + blockIdx.x * 16 + at % 16] = ((float *)s)[at];
    }
}
