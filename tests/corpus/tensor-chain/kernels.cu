// Two fp16 GEMMs on tensor cores with a ReLU between them: y = relu(a b) c; a is 128 x 64, b 64 x 128, c 128 x 64, sums in fp32.
//
// A block of 4 warps makes a tile of 32 x 32, a warp 16 x 16: two mma.m16n8k16 for each 16 of the inner dimension. Tiles come into shared
// memory by cp.async (16 bytes a thread), 32 of the inner dimension at a time, and into fragments by ldmatrix. Rows in shared memory are
// 40 halves apart, so that ldmatrix meets no bank twice. Halves are handled as bits: no header is needed.
typedef unsigned short half_bits;
enum { M = 128, PITCH = 40 };

static __device__ __forceinline__ unsigned pack(float lo, float hi)
{
    unsigned v;
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }" : "=r"(v) : "f"(lo), "f"(hi));
    return v;
}

template <int N, int K>
static __device__ __forceinline__ void tile(const half_bits *__restrict__ a, const half_bits *__restrict__ b, half_bits *__restrict__ c)
{
    __shared__ __align__(16) half_bits as[32 * PITCH], bs[32 * PITCH];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * 32, col = blockIdx.x * 32;
    const int wr = warp / 2 * 16, wc = warp % 2 * 16;
    const unsigned sa = (unsigned)__cvta_generic_to_shared(as), sb = (unsigned)__cvta_generic_to_shared(bs);
    float d[2][4] = {};
    for (int k = 0; k < K; k += 32) {
        const int r = t / 4, q = t % 4 * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sa + (r * PITCH + q) * 2), "l"(&a[(row + r) * K + k + q]) : "memory");
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(sb + (r * PITCH + q) * 2), "l"(&b[(k + r) * N + col + q]) : "memory");
        asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int s = 0; s < 32; s += 16) {
            unsigned fa[4], fb[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                         : "r"(sa + ((wr + lane % 16) * PITCH + s + lane / 16 * 8) * 2) : "memory");
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                         : "r"(sb + ((s + lane % 16) * PITCH + wc + lane / 16 * 8) * 2) : "memory");
#pragma unroll
            for (int n = 0; n < 2; n++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                             "{%0, %1, %2, %3};"
                             : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
                             : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[n * 2]), "r"(fb[n * 2 + 1]));
        }
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
        half_bits *to = &c[(row + wr + lane / 4) * N + col + wc + n * 8 + lane % 4 * 2];
        *(unsigned *)to = pack(d[n][0], d[n][1]);
        *(unsigned *)(to + 8 * N) = pack(d[n][2], d[n][3]);
    }
}

extern "C" __global__ void first(const half_bits *__restrict__ a, const half_bits *__restrict__ b, half_bits *__restrict__ h)
{
    tile<128, 64>(a, b, h);
}

extern "C" __global__ void relu(const unsigned *__restrict__ h, unsigned *__restrict__ r) // two halves a thread
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    unsigned v = h[i];
    asm("max.f16x2 %0, %0, %1;" : "+r"(v) : "r"(0));
    r[i] = v;
}

extern "C" __global__ void second(const half_bits *__restrict__ r, const half_bits *__restrict__ c, half_bits *__restrict__ y)
{
    tile<64, 128>(r, c, y);
}
