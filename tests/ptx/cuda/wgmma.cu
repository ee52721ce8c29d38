// wgmma.ptx is what
//     nvcc -ptx -arch=sm_90a -o wgmma.ptx wgmma.cu
// makes of this file: C = A * B with wgmma.mma_async, one 64 x N tile of C a block of 128 threads, as a Hopper GEMM does it but for TMA: plain stores
// put the tiles into shared memory in the 128-byte swizzle. A is row-major, B comes transposed (rows of N, K-major) or not (N-major).
// tests/unit/test-softgpu-gemm.c compares with plain C.
#include <cuda_fp16.h>
#include <stdint.h>

enum { TM = 64, TN = 64, TK = 64 };

__device__ static uint64_t descriptor(const void *p, uint32_t lead, uint32_t stride)
{
    uint64_t at = (uint64_t)__cvta_generic_to_shared(p);
    return (at & 0x3FFFF) >> 4 | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | 1ull << 62;
}

// 128-byte rows: 8 halves at row r, column 8 * x lie in chunk x ^ (r % 8)
__device__ static uint4 *chunk(half *tile, int r, int x) { return (uint4 *)tile + r * 8 + (x ^ (r & 7)); }

template <int TRANS_B> __device__ static void mma(float (&d)[32], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, %35;\n"
                 "}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
                   "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                   "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(add), "n"(TRANS_B));
}

template <int TRANS_B> __device__ static void gemm(const half *a, const half *b, float *c, int n, int k, float scale)
{
    __shared__ __align__(1024) half sa[TM * TK], sb[TN * TK];
    int t = threadIdx.x, i0 = blockIdx.y * TM, j0 = blockIdx.x * TN;
    float d[32];
    for (int x = 0; x < k; x += TK) {
        __syncthreads();
        for (int e = t; e < TM * TK / 8; e += 128) {
            int r = e / 8, s = e % 8;
            *chunk(sa, r, s) = *(const uint4 *)(a + (i0 + r) * k + x + 8 * s);
            // K-major: row r of B^T, columns x …; N-major: row x + r of B, columns j0 …
            *chunk(sb, r, s) = TRANS_B ? *(const uint4 *)(b + (x + r) * n + j0 + 8 * s) : *(const uint4 *)(b + (j0 + r) * k + x + 8 * s);
        }
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int s = 0; s < TK / 16; s++)
            mma<TRANS_B>(d, descriptor(sa + 16 * s, 0, 1024), TRANS_B ? descriptor(sb + 16 * s * TN, 0, 1024) : descriptor(sb + 16 * s, 0, 1024),
                         x + s > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int i = 0; i < 32; i++) {
        int row = i0 + t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8, col = j0 + i / 4 * 8 + t % 4 * 2 + i % 2;
        c[row * n + col] = scale * d[i];
    }
}

extern "C" __global__ void __launch_bounds__(128) gemm_wgmma(const half *a, const half *b, float *c, int m, int n, int k, float scale)
{
    gemm<1>(a, b, c, n, k, scale);
}

extern "C" __global__ void __launch_bounds__(128) gemm_wgmma_nt(const half *a, const half *b, float *c, int m, int n, int k, float scale)
{
    gemm<0>(a, b, c, n, k, scale);
}
