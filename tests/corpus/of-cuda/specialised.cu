/* C = A B', f16 with f32 sums, in the manner of CUTLASS for sm_90a: warps with roles. Warp group 0 produces: one lane
 * fills a ring of stages by copies of tensors. Groups 1 and 2 consume: each takes 64 of the 128 rows of the tile, by
 * wgmma (cooperative). Stages pass between them by two mbarriers each, `full` and `empty`; registers go from the
 * producer to the consumers by setmaxnreg.
 *
 * A is M x K, B is N x K, C is M x N, all row-major, with tensor maps of boxes of 64 columns (128 bytes, swizzled so):
 * A's has 128 rows, B's BN, C's 64. Tile number i is (i % down, i / down). Each block makes the tile of its number, or,
 * with PERSISTENT, the tiles from its number on, in steps of the grid; the ring goes on from tile to tile.
 *
 * With CLUSTER, that many blocks that lie one below the other share their part of B: each loads a share of it for all of
 * them (its map has boxes of so many rows), and a stage is free when all of them have read it.
 *
 * The tile goes out by stmatrix into shared memory (beside the ring, 64 rows a group), fence.proxy.async, a barrier of
 * the group's 128 threads, and copies of tensors by one elected lane of the group.
 */
#include <cuda.h>
#include <cuda_fp16.h>

#define BM 128
#define BK 64
#define THREADS 384
#define A_BYTES (BM * BK * 2)
#define STAGE (A_BYTES + BN * BK * 2)
#ifdef CLUSTER
#define BLOCKS CLUSTER
#else
#define BLOCKS 1
#endif
#define OUT (64 * BN * 2) /* bytes of a group's part of the tile on its way out */

struct ring {
    unsigned long long full[STAGES], empty[STAGES];
};

static __device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

static __device__ bool elect()
{
    unsigned is;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(is));
    return is;
}

static __device__ void wait(const unsigned long long *barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra DONE;\n"
                 "bra WAIT;\n"
                 "DONE:\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

static __device__ void arrive(const unsigned long long *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

#ifdef CLUSTER /* the same in each block of the cluster */
static __device__ void arrive_at(const unsigned long long *barrier, unsigned block)
{
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(barrier)),
                 "r"(block)
                 : "memory");
}

static __device__ void copy_to_all(unsigned to, const CUtensorMap *map, int x, int y, const unsigned long long *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"((unsigned short)((1 << CLUSTER) - 1))
                 : "memory");
}

static __device__ unsigned rank()
{
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

static __device__ void together()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
#endif

static __device__ void copy_in(unsigned to, const CUtensorMap *map, int x, int y, const unsigned long long *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                     "r"(to), "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
                 : "memory");
}

/* rows of 128 bytes, swizzled so, eight of them 1024 bytes apart from the next eight */
static __device__ unsigned long long matrix(unsigned address)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (address & 0x3FFFF) >> 4;
}

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)

static __device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b, int more)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, p, 1, 1, 0, 0;\n}"
                 : D16(0), D16(16)
                 : "l"(a), "l"(b), "r"(more));
}

static __device__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b, int more)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
                 "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0;\n}"
                 : D16(0), D16(16), D16(32), D16(48)
                 : "l"(a), "l"(b), "r"(more));
}

static __device__ void produce(const CUtensorMap *a, const CUtensorMap *b, int down, int tiles, int rounds, unsigned stages,
                               struct ring *ring)
{
    int s = 0;
    unsigned parity = 1; /* the first round of a new ring is empty */
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int m = tile % down * BM, n = tile / down * BN;
        for (int i = 0; i < rounds; i++) {
            wait(&ring->empty[s], parity);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&ring->full[s])),
                         "r"(STAGE)
                         : "memory");
            copy_in(stages + s * STAGE, a, i * BK, m, &ring->full[s]);
#ifdef CLUSTER
            int part = rank() * (BN / CLUSTER);
            copy_to_all(stages + s * STAGE + A_BYTES + part * BK * 2, b, i * BK, n + part, &ring->full[s]);
#else
            copy_in(stages + s * STAGE + A_BYTES, b, i * BK, n, &ring->full[s]);
#endif
            if (++s == STAGES) {
                s = 0;
                parity ^= 1;
            }
        }
#ifndef PERSISTENT
        break;
#endif
    }
}

/* Thread t of a group: a stage may be filled again, in all blocks that fill this one's. */
static __device__ void release(const struct ring *ring, int s, int t)
{
#ifdef CLUSTER
    if (t < CLUSTER)
        arrive_at(&ring->empty[s], t);
#else
    if (t == 0)
        arrive(&ring->empty[s]);
#endif
}

static __device__ void consume(const CUtensorMap *c, int down, int tiles, int rounds, unsigned stages, unsigned out,
                               struct ring *ring, int group)
{
    int t = threadIdx.x % 128, warp = __shfl_sync(0xffffffff, t / 32, 0), lane = t % 32, s = 0;
    unsigned parity = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float sum[BN / 2];
#pragma unroll
        for (int i = 0; i < BN / 2; i++)
            sum[i] = 0;
        int last = -1;
        for (int i = 0; i < rounds; i++) {
            wait(&ring->full[s], parity);
            unsigned at = stages + s * STAGE + group * 64 * BK * 2, bt = stages + s * STAGE + A_BYTES;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int kk = 0; kk < BK / 16; kk++)
                multiply(sum, matrix(at + kk * 32), matrix(bt + kk * 32), i > 0 || kk > 0);
            asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (last >= 0) /* the round before has been read */
                release(ring, last, t);
            last = s;
            if (++s == STAGES) {
                s = 0;
                parity ^= 1;
            }
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        release(ring, last, t);

#ifdef PERSISTENT /* the tile before has left shared memory */
        if (warp == 0 && elect())
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
#endif
        /* lane l gives row l % 8 of matrix l / 8: of 16 rows and 16 columns, rows first */
        int row = warp * 16 + lane % 16;
#pragma unroll
        for (int j = 0; j < BN / 16; j++) {
            __half2 h[4];
#pragma unroll
            for (int q = 0; q < 4; q++)
                h[q] = __floats2half2_rn(sum[j * 8 + q * 2], sum[j * 8 + q * 2 + 1]);
            unsigned chunk = (j % 4 * 2 + lane / 16) ^ (row % 8);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             out + j / 4 * 8192 + row * 128 + chunk * 16),
                         "r"(*(unsigned *)&h[0]), "r"(*(unsigned *)&h[1]), "r"(*(unsigned *)&h[2]), "r"(*(unsigned *)&h[3])
                         : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;\nbar.sync %0, 128;" ::"r"(group + 1) : "memory");
        if (warp == 0 && elect()) {
            int m = tile % down * BM + group * 64, n = tile / down * BN;
#pragma unroll
            for (int j = 0; j < BN / 64; j++)
                asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(c),
                             "r"(n + j * 64), "r"(m), "r"(out + j * 8192)
                             : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
#ifndef PERSISTENT
        break;
#endif
    }
    if (warp == 0 && elect())
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
#ifdef CLUSTER
    __cluster_dims__(CLUSTER, 1, 1)
#endif
    specialised(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                const __grid_constant__ CUtensorMap c, int down, int tiles, int rounds)
{
    extern __shared__ __align__(1024) unsigned char memory[]; /* the stages, the tile on its way out, the ring */
    unsigned stages = shared_address(memory);
    struct ring *ring = (struct ring *)(memory + STAGES * STAGE + 2 * OUT);
    int group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);

    if (warp == 0 && elect()) {
        asm volatile("prefetch.tensormap [%0];\nprefetch.tensormap [%1];\nprefetch.tensormap [%2];" ::"l"(&a), "l"(&b), "l"(&c));
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&ring->full[s])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&ring->empty[s])), "n"(2 * BLOCKS) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
#ifdef CLUSTER
    together();
#else
    __syncthreads();
#endif

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp == 0 && elect())
            produce(&a, &b, down, tiles, rounds, stages, ring);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(&c, down, tiles, rounds, stages, stages + STAGES * STAGE + (group - 1) * OUT, ring, group - 1);
    }
#ifdef CLUSTER /* nobody leaves while another block's copies and arrivals may still come */
    together();
#endif
}
