/* Tensor cores by mma.sync and WMMA: chains of multiplications alone, and matrix multiplications in steps from naive to
 * good. C (m x n) = A (m x k) B; rows of C by blockIdx.y. Rows: ../tensor.tsv. */
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__device__ __forceinline__ void mma(float *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_half(unsigned *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_tf32(float *d, const unsigned *a, const unsigned *b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* n turns of CHAINS independent multiplications a warp, with sums in f32 or f16, or of tf32 */
enum { F32, F16, TF32 };
template <int KIND, int CHAINS> __device__ __forceinline__ void rate(float *out, int n)
{
    unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {threadIdx.x, 1}, h[CHAINS][2] = {};
    float d[CHAINS][4] = {};
#pragma unroll 1
    for (int i = 0; i < n; i++)
#pragma unroll
        for (int j = 0; j < CHAINS; j++) {
            if (KIND == F32)
                mma(d[j], a, b);
            if (KIND == F16)
                mma_half(h[j], a, b);
            if (KIND == TF32)
                mma_tf32(d[j], a, b);
        }
    float sum = 0;
    for (int j = 0; j < CHAINS; j++)
        sum += d[j][0] + d[j][1] + d[j][2] + d[j][3] + (h[j][0] ^ h[j][1]);
    if (sum == -42.0f)
        out[threadIdx.x] = sum;
}
extern "C" __global__ void rate16_f32(float *out, int n) { rate<F32, 16>(out, n); }
extern "C" __global__ void rate16_f16(float *out, int n) { rate<F16, 16>(out, n); }
extern "C" __global__ void rate16_tf32(float *out, int n) { rate<TF32, 16>(out, n); }
extern "C" __global__ void rate8_f32(float *out, int n) { rate<F32, 8>(out, n); }
extern "C" __global__ void rate8_f16(float *out, int n) { rate<F16, 8>(out, n); }

/* shared tiles are rows of CPR pieces of 16 bytes; where a piece lies, without or with permutation */
template <int CPR, bool PERM> __device__ __forceinline__ int place(int row, int piece)
{
    return row * CPR + (PERM ? piece ^ (CPR == 4 ? row >> 1 & 3 : row & 7) : piece);
}
__device__ __forceinline__ unsigned shared_at(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void ldm4(unsigned *r, const uint4 *p)
{
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_at(p)) : "memory");
}
__device__ __forceinline__ void ldm2(unsigned *r, const uint4 *p)
{
    asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(shared_at(p)) : "memory");
}
__device__ __forceinline__ void ldm4t(unsigned *r, const uint4 *p)
{
    asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_at(p)) : "memory");
}
__device__ __forceinline__ void copy16(uint4 *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_at(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ __forceinline__ void await(void)
{
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

/* ---- spatters/mma-matmul: blocks of 16 x 16 threads, eight warps, 2 x 4 ---- */

/* steps 1.0 (T 1) and 1.1 (T 2): tile 32 T x 32 T, 16 deep, all loads and stores of single halves */
template <int T>
__device__ __forceinline__ void single(const half *a, const half *b, float *c, int n, int k)
{
    __shared__ half as[32 * T][16], bs[16][32 * T];
    int tx = threadIdx.x, ty = threadIdx.y, id = ty * 16 + tx, warp = id / 32, lane = id % 32;
    int row0 = blockIdx.y * 32 * T, col0 = blockIdx.x * 32 * T, g = lane / 4, q = lane % 4 * 2;
    int wr = 16 * (warp / 4), wc = 8 * (warp % 4);
    float d[T][T][4] = {};
    for (int k0 = 0; k0 < k; k0 += 16) {
#pragma unroll
        for (int i = 0; i < 2 * T; i++) {
            as[ty + 16 * i][tx] = a[(row0 + ty + 16 * i) * k + k0 + tx];
            bs[ty][tx + 16 * i] = b[(k0 + ty) * n + col0 + tx + 16 * i];
        }
        __syncthreads();
        unsigned af[T][4], bf[T][2];
#pragma unroll
        for (int i = 0; i < T; i++) {
            half *ah = (half *)af[i], *bh = (half *)bf[i];
#pragma unroll
            for (int j = 0; j < 8; j++)
                ah[j] = as[32 * i + wr + g + (j & 2) * 4][q + (j & 1) + (j & 4) * 2];
#pragma unroll
            for (int j = 0; j < 4; j++)
                bh[j] = bs[q + (j & 1) + (j & 2) * 4][32 * i + wc + g];
        }
#pragma unroll
        for (int i = 0; i < T; i++)
#pragma unroll
            for (int j = 0; j < T; j++)
                mma(d[i][j], af[i], bf[j]);
        __syncthreads();
    }
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++)
            for (int e = 0; e < 4; e++)
                c[(row0 + 32 * i + wr + g + (e & 2) * 4) * n + col0 + 32 * j + wc + q + (e & 1)] = d[i][j][e];
}
extern "C" __global__ void __launch_bounds__(256) step10(const half *a, const half *b, float *c, int n, int k)
{
    single<1>(a, b, c, n, k);
}
extern "C" __global__ void __launch_bounds__(256) step11(const half *a, const half *b, float *c, int n, int k)
{
    single<2>(a, b, c, n, k);
}

/* steps 2.0, 2.1 (STAGES 1) and 3.0, 3.1: tile 32 T x 32 T, 32 deep, B transposed, pieces of 16 bytes, permuted, ldmatrix.
 * REUSE: a fragment of A is loaded once for all columns; from step 3 on all fragments come before the multiplications */
template <int T, int STAGES, bool REUSE>
__device__ __forceinline__ void permuted(const half *a, const half *bt, float *c, int n, int k)
{
    __shared__ uint4 as[STAGES][32 * T * 4], bs[STAGES][32 * T * 4];
    int id = threadIdx.y * 16 + threadIdx.x, warp = id / 32, lane = id % 32;
    int row0 = blockIdx.y * 32 * T, col0 = blockIdx.x * 32 * T;
    int wr = 16 * (warp / 4), wc = 8 * (warp % 4), steps = k / 32;
    float d[T][T][4] = {};
    auto load = [&](int stage, int step) {
#pragma unroll
        for (int i = 0; i < T / 2; i++) {
            int r = i * 64 + id / 4, p = id % 4, at = place<4, true>(r, p);
            const half *ga = a + (size_t)(row0 + r) * k + step * 32 + p * 8;
            const half *gb = bt + (size_t)(col0 + r) * k + step * 32 + p * 8;
            if (STAGES == 1) {
                as[stage][at] = *(const uint4 *)ga;
                bs[stage][at] = *(const uint4 *)gb;
            } else {
                copy16(&as[stage][at], ga);
                copy16(&bs[stage][at], gb);
            }
        }
        if (STAGES > 1)
            commit();
    };
    auto load_a = [&](unsigned *f, int s, int i, int kk) {
        ldm4(f, &as[s][place<4, true>(32 * i + wr + lane % 16, kk * 2 + lane / 16)]);
    };
    auto load_b = [&](unsigned *f, int s, int j, int kk) {
        ldm2(f, &bs[s][place<4, true>(32 * j + wc + lane % 8, kk * 2 + lane / 8 % 2)]);
    };
    for (int s = 0; s < STAGES - 1; s++)
        load(s, s);
    for (int t = 0; t < steps; t++) {
        int s = t % STAGES;
        if (STAGES == 1) {
            load(0, t);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < T; i++) {
                unsigned af[2][4];
                if (REUSE)
                    for (int kk = 0; kk < 2; kk++)
                        load_a(af[kk], 0, i, kk);
#pragma unroll
                for (int j = 0; j < T; j++)
#pragma unroll
                    for (int kk = 0; kk < 2; kk++) {
                        unsigned bf[2];
                        if (!REUSE)
                            load_a(af[kk], 0, i, kk);
                        load_b(bf, 0, j, kk);
                        mma(d[i][j], af[kk], bf);
                    }
            }
            __syncthreads();
        } else {
            await<STAGES - 2>();
            __syncthreads();
            unsigned af[T][2][4], bf[T][2][2];
#pragma unroll
            for (int i = 0; i < T; i++)
#pragma unroll
                for (int kk = 0; kk < 2; kk++) {
                    load_a(af[i][kk], s, i, kk);
                    load_b(bf[i][kk], s, i, kk);
                }
            int next = t + STAGES - 1;
            load(next % STAGES, next < steps ? next : steps - 1);
#pragma unroll
            for (int i = 0; i < T; i++)
#pragma unroll
                for (int j = 0; j < T; j++)
#pragma unroll
                    for (int kk = 0; kk < 2; kk++)
                        mma(d[i][j], af[i][kk], bf[j][kk]);
        }
    }
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++)
            for (int e = 0; e < 4; e += 2)
                *(float2 *)&c[(row0 + 32 * i + wr + lane / 4 + e * 4) * n + col0 + 32 * j + wc + lane % 4 * 2] =
                    make_float2(d[i][j][e], d[i][j][e + 1]);
}
#define STEP(name, T, STAGES, REUSE) \
    extern "C" __global__ void __launch_bounds__(256) name(const half *a, const half *bt, float *c, int n, int k) \
    { \
        permuted<T, STAGES, REUSE>(a, bt, c, n, k); \
    }
STEP(step20, 2, 1, false)
STEP(step21, 2, 1, true)
STEP(step30, 2, 3, true)
STEP(step31, 4, 3, true)

/* ---- waynehacking8/blackwell-tensorcore-kernels ---- */

/* the ladder: tile 128 x 128, 32 deep, in dynamic shared memory; WT: a warp's tile is WT x WT; loads of single halves or
 * cp.async of 16 bytes */
template <int WT, int STAGES, bool VEC, bool PERM>
__device__ __forceinline__ void ladder(const half *a, const half *b, float *c, int n, int k)
{
    constexpr int WN = 128 / WT, THREADS = WN * WN * 32, SLAB = 128 * 32 * 2 / 8, MI = WT / 16, NI = WT / 8;
    extern __shared__ uint4 pieces[];
    int id = threadIdx.x, warp = id / 32, lane = id % 32, wr = warp / WN * WT, wc = warp % WN * WT;
    int row0 = blockIdx.y * 128, col0 = blockIdx.x * 128, steps = k / 32;
    float d[MI][NI][4] = {};
    auto load = [&](int stage, int step) {
        uint4 *as = pieces + stage * SLAB, *bs = as + SLAB / 2;
        if (VEC) {
#pragma unroll
            for (int i = id; i < 512; i += THREADS) {
                copy16(as + place<4, PERM>(i / 4, i % 4), a + (size_t)(row0 + i / 4) * k + step * 32 + i % 4 * 8);
                copy16(bs + place<16, PERM>(i / 16, i % 16), b + (size_t)(step * 32 + i / 16) * n + col0 + i % 16 * 8);
            }
        } else {
#pragma unroll 1
            for (int i = id; i < 4096; i += THREADS)
                ((half *)(as + place<4, PERM>(i / 32, i % 32 / 8)))[i % 8] = a[(size_t)(row0 + i / 32) * k + step * 32 + i % 32];
#pragma unroll 1
            for (int i = id; i < 4096; i += THREADS)
                ((half *)(bs + place<16, PERM>(i / 128, i % 128 / 8)))[i % 8] =
                    b[(size_t)(step * 32 + i / 128) * n + col0 + i % 128];
        }
    };
    for (int s = 0; s < STAGES - 1; s++) {
        load(s, s);
        if (VEC)
            commit();
    }
    for (int t = 0; t < steps; t++) {
        if (t + STAGES - 1 < steps)
            load((t + STAGES - 1) % STAGES, t + STAGES - 1);
        if (VEC) {
            commit();
            await<STAGES - 1>();
        }
        __syncthreads();
        const uint4 *as = pieces + t % STAGES * SLAB, *bs = as + SLAB / 2;
#pragma unroll
        for (int kk = 0; kk < 2; kk++) {
            unsigned af[MI][4], bf[NI / 2][4];
#pragma unroll
            for (int i = 0; i < MI; i++)
                ldm4(af[i], as + place<4, PERM>(wr + 16 * i + lane % 16, kk * 2 + lane / 16));
#pragma unroll
            for (int j = 0; j < NI / 2; j++)
                ldm4t(bf[j], bs + place<16, PERM>(kk * 16 + lane % 16, wc / 8 + 2 * j + lane / 16));
#pragma unroll
            for (int i = 0; i < MI; i++)
#pragma unroll
                for (int j = 0; j < NI; j++)
                    mma(d[i][j], af[i], bf[j / 2] + j % 2 * 2);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < MI; i++)
#pragma unroll
        for (int j = 0; j < NI; j++)
#pragma unroll
            for (int e = 0; e < 4; e += 2)
                *(float2 *)&c[(size_t)(row0 + wr + 16 * i + lane / 4 + e * 4) * n + col0 + wc + 8 * j + lane % 4 * 2] =
                    make_float2(d[i][j][e], d[i][j][e + 1]);
}
#define RUNG(name, THREADS, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS) name(const half *a, const half *b, float *c, int n, int k) \
    { \
        ladder<__VA_ARGS__>(a, b, c, n, k); \
    }
RUNG(rung_base, 512, 32, 1, false, false)
RUNG(rung_swizzle, 512, 32, 1, false, true)
RUNG(rung_vec, 512, 32, 1, true, true)
RUNG(rung_pipe, 512, 32, 2, true, true)
RUNG(rung_warptile, 128, 64, 2, true, true)

/* WMMA with 16 warps, 4 x 4: tile T x T, 32 deep, STAGES by cp.async, no permutation */
template <int T, int STAGES>
__device__ __forceinline__ void by_wmma(const half *a, const half *b, float *c, int n, int k)
{
    constexpr int I = T / 64, SLAB = T * 32 * 2;
    extern __shared__ uint4 pieces[];
    half *s = (half *)pieces;
    int id = threadIdx.x, warp = id / 32, row0 = blockIdx.y * T, col0 = blockIdx.x * T, steps = k / 32;
    int wr = warp / 4 * 16 * I, wc = warp % 4 * 16 * I;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> d[I][I];
    for (int i = 0; i < I; i++)
        for (int j = 0; j < I; j++)
            wmma::fill_fragment(d[i][j], 0.0f);
    auto load = [&](int stage, int step) {
        half *as = s + stage * SLAB, *bs = as + SLAB / 2;
#pragma unroll
        for (int i = id; i < T * 4; i += 512) {
            copy16((uint4 *)as + i, a + (size_t)(row0 + i / 4) * k + step * 32 + i % 4 * 8);
            copy16((uint4 *)bs + i, b + (size_t)(step * 32 + i / (T / 8)) * n + col0 + i % (T / 8) * 8);
        }
    };
    for (int i = 0; i < STAGES - 1; i++) {
        load(i, i);
        commit();
    }
    for (int t = 0; t < steps; t++) {
        if (t + STAGES - 1 < steps) {
            load((t + STAGES - 1) % STAGES, t + STAGES - 1);
            commit();
        }
        await<STAGES - 1>();
        __syncthreads();
        const half *as = s + t % STAGES * SLAB, *bs = as + SLAB / 2;
#pragma unroll
        for (int kk = 0; kk < 32; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> af[I];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bf[I];
#pragma unroll
            for (int i = 0; i < I; i++) {
                wmma::load_matrix_sync(af[i], as + (wr + 16 * i) * 32 + kk, 32);
                wmma::load_matrix_sync(bf[i], bs + kk * T + wc + 16 * i, T);
            }
#pragma unroll
            for (int i = 0; i < I; i++)
#pragma unroll
                for (int j = 0; j < I; j++)
                    wmma::mma_sync(d[i][j], af[i], bf[j], d[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < I; i++)
        for (int j = 0; j < I; j++)
            wmma::store_matrix_sync(c + (size_t)(row0 + wr + 16 * i) * n + col0 + wc + 16 * j, d[i][j], n,
                                    wmma::mem_row_major);
}
extern "C" __global__ void __launch_bounds__(512) wmma128(const half *a, const half *b, float *c, int n, int k)
{
    by_wmma<128, 3>(a, b, c, n, k);
}
extern "C" __global__ void __launch_bounds__(512) wmma64(const half *a, const half *b, float *c, int n, int k)
{
    by_wmma<64, 2>(a, b, c, n, k);
}

/* ---- DefTruth/CUDA-Learn-Notes: WMMA with sums in f16; 16 deep ---- */

/* one warp a block, fragments straight from global memory */
extern "C" __global__ void half_naive(const half *a, const half *b, half *c, int n, int k)
{
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> d;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> af;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bf;
    wmma::fill_fragment(d, (half)0.0f);
#pragma unroll
    for (int i = 0; i < k / 16; i++) {
        wmma::load_matrix_sync(af, a + row * k + i * 16, k);
        wmma::load_matrix_sync(bf, b + i * 16 * n + col, n);
        wmma::mma_sync(d, af, bf, d);
    }
    wmma::store_matrix_sync(c + row * n + col, d, n, wmma::mem_row_major);
}
/* eight warps, 4 x 2, each MI x NI fragments, through shared memory */
template <int MI, int NI, class PA, class PB>
__device__ __forceinline__ void half_tiles(const half *a, const half *b, half *c, int n, int k)
{
    constexpr int BM = 64 * MI, BN = 32 * NI, EA = sizeof(PA) / 2, EB = sizeof(PB) / 2;
    __shared__ __align__(16) half as[BM * 16], bs[16 * BN];
    int id = threadIdx.x, warp = id / 32, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int wr = warp / 2 * 16 * MI, wc = warp % 2 * 16 * NI;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> d[MI][NI];
    for (int i = 0; i < MI; i++)
        for (int j = 0; j < NI; j++)
            wmma::fill_fragment(d[i][j], (half)0.0f);
    int ra = id * EA / 16, ca = id * EA % 16, rb = id * EB / BN, cb = id * EB % BN;
    for (int k0 = 0; k0 < k; k0 += 16) {
        *(PA *)(as + ra * 16 + ca) = *(const PA *)(a + (row0 + ra) * k + k0 + ca);
        *(PB *)(bs + rb * BN + cb) = *(const PB *)(b + (k0 + rb) * n + col0 + cb);
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> af[MI];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bf[NI];
#pragma unroll
        for (int i = 0; i < MI; i++)
            wmma::load_matrix_sync(af[i], as + (wr + 16 * i) * 16, 16);
#pragma unroll
        for (int j = 0; j < NI; j++)
            wmma::load_matrix_sync(bf[j], bs + wc + 16 * j, BN);
#pragma unroll
        for (int i = 0; i < MI; i++)
#pragma unroll
            for (int j = 0; j < NI; j++)
                wmma::mma_sync(d[i][j], af[i], bf[j], d[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < MI; i++)
        for (int j = 0; j < NI; j++)
            wmma::store_matrix_sync(c + (row0 + wr + 16 * i) * n + col0 + wc + 16 * j, d[i][j], n, wmma::mem_row_major);
}
extern "C" __global__ void __launch_bounds__(256) half_4x2(const half *a, const half *b, half *c, int n, int k)
{
    half_tiles<1, 1, uint2, unsigned>(a, b, c, n, k);
}
extern "C" __global__ void __launch_bounds__(256) half_4x2_2x4(const half *a, const half *b, half *c, int n, int k)
{
    half_tiles<2, 4, uint4, uint4>(a, b, c, n, k);
}
