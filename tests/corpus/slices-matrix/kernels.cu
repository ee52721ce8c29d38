// Products x w^T of 16 rows by tensor cores, in tiles of 16 x 64, as Triton makes them: operands by cp.async and ldmatrix, a warp has columns
// 8 w to 8 w + 7 and 32 + 8 w to 32 + 8 w + 7, and the tile goes out by way of shared memory that the weights were in, 16 bytes a thread: one
// store in the text. Blocks are too few for any device.
//
// `product` is sliced: half of the columns are the threads with bit 2 of their number clear. `renewed` is not: the threads of those columns change
// what they store by what the other half of the row held, which other threads overwrite. So a part would read what another part writes.
typedef unsigned short half_bits;
enum { N = 512 };

static __device__ __forceinline__ void copy16(unsigned to, const half_bits *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

static __device__ __forceinline__ void fragments(unsigned (&d)[4], unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void store2(unsigned to, float lo, float hi)
{
    asm volatile("{ .reg .b16 l, h; cvt.rn.bf16.f32 l, %1; cvt.rn.bf16.f32 h, %2; st.shared.v2.b16 [%0], {l, h}; }" ::"r"(to), "f"(lo), "f"(hi)
                 : "memory");
}

// The thread's piece of the tile: row t / 8, columns t % 8 * 8 to + 7.
template <int K> static __device__ __forceinline__ uint4 tile(const half_bits *__restrict__ x, const half_bits *__restrict__ w)
{
    __shared__ __align__(16) unsigned char s[10240]; // 64 rows of the weights, 16 of x, 64 deep; 16-byte pieces of a row are permuted
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, row = t / 8, at = row * 128 + ((t % 8) ^ (row % 8)) * 16;
    const unsigned sw = (unsigned)__cvta_generic_to_shared(s), sx = sw + 8192;
    float lo[4] = {}, hi[4] = {};
    for (int k = 0; k < K; k += 64) {
        copy16(sx + at, &x[row * K + k + t % 8 * 8]);
#pragma unroll
        for (int i = 0; i < 4; i++)
            copy16(sw + i * 2048 + at, &w[(blockIdx.x * 64 + i * 16 + row) * K + k + t % 8 * 8]);
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 8; q += 2) {
            unsigned a[4], b[4];
            fragments(a, sx + lane % 16 * 128 + ((q + lane / 16) ^ (lane % 8)) * 16);
            fragments(b, sw + (warp * 8 + lane % 8 + lane / 16 * 32) * 128 + ((q + lane / 8 % 2) ^ (lane % 8)) * 16);
            mma(lo, a, b[0], b[1]);
            mma(hi, a, b[2], b[3]);
        }
        __syncthreads();
    }
    const unsigned out = sw + lane / 4 * 128 + warp * 16 + lane % 4 * 4;
    store2(out, lo[0], lo[1]);
    store2(out + 1024, lo[2], lo[3]);
    store2(out + 64, hi[0], hi[1]);
    store2(out + 1088, hi[2], hi[3]);
    __syncthreads();
    return *(const uint4 *)(s + row * 128 + t % 8 * 16);
}

extern "C" __global__ void __launch_bounds__(128) product(const half_bits *__restrict__ x, const half_bits *__restrict__ w, half_bits *__restrict__ c)
{
    const uint4 v = tile<1024>(x, w);
    *(uint4 *)&c[threadIdx.x / 8 * N + blockIdx.x * 64 + threadIdx.x % 8 * 8] = v;
}

extern "C" __global__ void __launch_bounds__(128) renewed(const half_bits *__restrict__ x, const half_bits *__restrict__ w, half_bits *c)
{
    half_bits *row = &c[threadIdx.x / 8 * N + blockIdx.x * 64];
    uint4 old = {};
    if (!(threadIdx.x & 4))
        old = *(const uint4 *)&row[(7 - threadIdx.x % 8) * 8];
    uint4 v = tile<N>(x, w);
    v.x ^= old.x;
    v.y ^= old.y;
    v.z ^= old.z;
    v.w ^= old.w;
    *(uint4 *)&row[threadIdx.x % 8 * 8] = v;
}
