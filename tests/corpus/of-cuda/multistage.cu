/* C = A B', f16 with f32 sums, in the manner of CUTLASS for sm_80: a ring of stages filled by cp.async, fragments by
 * ldmatrix, products by mma.m16n8k16, and a tile that goes out through shared memory by vectors of 16 bytes.
 *
 * A is M x K, B is N x K, C is M x N, all row-major; M, N and K are multiples of the tile's sides. Block (m, n) makes
 * tile (m, n); 2 x 2 warps, each a quarter of the tile. Rows of the ring are BK = 32 halves, four chunks of 16 bytes:
 * chunk c of row r lies at c ^ (r >> 1 & 3), so that eight rows of one chunk lie in 32 different banks.
 */
#include <cuda_fp16.h>

#define BK 32
#define THREADS 128
#define PITCH (BN + 8) /* of the tile on its way out, in halves */

static __device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

/* rows x BK halves of a row-major matrix into a stage, 16 bytes a thread and round */
template <int ROWS> static __device__ void load(unsigned to, const __half *from, int pitch, int t)
{
#pragma unroll
    for (int i = 0; i < ROWS * 4 / THREADS; i++) {
        int row = t / 4 + i * (THREADS / 4), chunk = t % 4;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + row * 64 + ((chunk ^ (row >> 1 & 3)) * 16)),
                     "l"(from + (size_t)row * pitch + chunk * 8));
    }
}

static __device__ void fragments(unsigned (&r)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from));
}

static __device__ void product(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(THREADS) multistage(const __half *a, const __half *b, __half *c, int n, int k)
{
    constexpr int STAGE = (BM + BN) * BK * 2, MI = BM / 32, NI = BN / 32; /* bytes; tiles of a warp: 16 down, 16 across */
    extern __shared__ __align__(128) unsigned char memory[];
    unsigned ring = shared_address(memory);
    int t = threadIdx.x, lane = t % 32, warp = t / 32, wm = warp % 2 * (BM / 2), wn = warp / 2 * (BN / 2);
    const __half *rows = a + (size_t)blockIdx.x * BM * k, *columns = b + (size_t)blockIdx.y * BN * k;
    int rounds = k / BK;

    float sum[MI][NI * 2][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < rounds) {
            load<BM>(ring + s * STAGE, rows + s * BK, k, t);
            load<BN>(ring + s * STAGE + BM * BK * 2, columns + s * BK, k, t);
        }
        asm volatile("cp.async.commit_group;");
    }
    int full = 0, empty = STAGES - 1; /* the stage to compute on, and the one to fill */
    for (int i = 0; i < rounds; i++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        if (i + STAGES - 1 < rounds) {
            load<BM>(ring + empty * STAGE, rows + (i + STAGES - 1) * BK, k, t);
            load<BN>(ring + empty * STAGE + BM * BK * 2, columns + (i + STAGES - 1) * BK, k, t);
        }
        asm volatile("cp.async.commit_group;");
        unsigned at = ring + full * STAGE, bt = at + BM * BK * 2;
#pragma unroll
        for (int kk = 0; kk < 2; kk++) { /* 16 deep each */
            unsigned fa[MI][4], fb[NI][4];
            int chunk = kk * 2 + lane / 16;
#pragma unroll
            for (int m = 0; m < MI; m++) {
                int row = wm + m * 16 + lane % 16;
                fragments(fa[m], at + row * 64 + ((chunk ^ (row >> 1 & 3)) * 16));
            }
#pragma unroll
            for (int j = 0; j < NI; j++) {
                int row = wn + j * 16 + lane % 16;
                fragments(fb[j], bt + row * 64 + ((chunk ^ (row >> 1 & 3)) * 16));
            }
#pragma unroll
            for (int m = 0; m < MI; m++)
#pragma unroll
                for (int j = 0; j < NI; j++) {
                    product(sum[m][j * 2], fa[m], fb[j][0], fb[j][2]);
                    product(sum[m][j * 2 + 1], fa[m], fb[j][1], fb[j][3]);
                }
        }
        full = full + 1 == STAGES ? 0 : full + 1;
        empty = empty + 1 == STAGES ? 0 : empty + 1;
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();

    __half *tile = (__half *)memory;
#pragma unroll
    for (int m = 0; m < MI; m++)
#pragma unroll
        for (int j = 0; j < NI * 2; j++) {
            int row = wm + m * 16 + lane / 4, column = wn + j * 8 + lane % 4 * 2;
            *(__half2 *)(tile + row * PITCH + column) = __floats2half2_rn(sum[m][j][0], sum[m][j][1]);
            *(__half2 *)(tile + (row + 8) * PITCH + column) = __floats2half2_rn(sum[m][j][2], sum[m][j][3]);
        }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < BM * BN / 8 / THREADS; i++) {
        int v = t + i * THREADS, row = v / (BN / 8), column = v % (BN / 8) * 8;
        uint4 value = *(const uint4 *)(tile + row * PITCH + column);
        *(uint4 *)(c + ((size_t)blockIdx.x * BM + row) * n + (size_t)blockIdx.y * BN + column) = value;
    }
}
