/* Thread block clusters: barriers, reads of a neighbour's shared memory. Needs sm_90. Rows: ../cluster.tsv. */
#define ARRIVE() asm volatile("barrier.cluster.arrive.aligned;" ::: "memory")
#define ARRIVE_RELAXED() asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.aligned;" ::: "memory")

__device__ __forceinline__ unsigned rank_in_cluster(void)
{
    unsigned r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
/* the address of the same shared variable in the next block of the cluster */
__device__ __forceinline__ unsigned neighbour(const void *here, unsigned size)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(here), r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"((rank_in_cluster() + 1) % size));
    return r;
}
__device__ __forceinline__ unsigned far(unsigned at)
{
    unsigned v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
}

/* n barriers of the cluster */
template <bool RELAXED> __device__ __forceinline__ void barriers(int n)
{
#pragma unroll 4
    for (int i = 0; i < n; i++) {
        if (RELAXED)
            ARRIVE_RELAXED();
        else
            ARRIVE();
        CLUSTER_WAIT();
    }
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) sync2(int n) { barriers<false>(n); }
extern "C" __global__ void __cluster_dims__(8, 1, 1) sync8(int n) { barriers<false>(n); }
extern "C" __global__ void __cluster_dims__(2, 1, 1) sync2_relaxed(int n) { barriers<true>(n); }

/* every thread adds to one counter, then the cluster's barrier */
extern "C" __global__ void __cluster_dims__(4, 1, 1) count4(unsigned *counter, int n)
{
    for (int i = 0; i < n; i++) {
        atomicAdd(counter, 1);
        ARRIVE();
        CLUSTER_WAIT();
    }
}

/* each turn eight reads of the next block's 4 KB, 128 words apart */
template <int SIZE> __device__ __forceinline__ void read_far(unsigned *out, int n)
{
    extern __shared__ unsigned s[];
    for (int i = 0; i < 8; i++)
        s[threadIdx.x + i * 256] = threadIdx.x ^ i;
    ARRIVE();
    CLUSTER_WAIT();
    unsigned there = neighbour(s, SIZE), sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        unsigned from = (i * 7 & 255) + threadIdx.x, v[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = far(there + (from + 128 * j & 1023) * 4);
        sum ^= v[0] ^ v[1] ^ v[2] ^ v[3] ^ v[4] ^ v[5] ^ v[6] ^ v[7];
    }
    ARRIVE();
    CLUSTER_WAIT();
    if (sum == 0xdeadbeef)
        out[blockIdx.x] = sum;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) read2(unsigned *out, int n) { read_far<2>(out, n); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) read4(unsigned *out, int n) { read_far<4>(out, n); }
extern "C" __global__ void __cluster_dims__(8, 1, 1) read8(unsigned *out, int n) { read_far<8>(out, n); }
extern "C" __global__ void __cluster_dims__(16, 1, 1) read16(unsigned *out, int n) { read_far<16>(out, n); }

/* one warp of the first block chases through its own (SIZE 1) or the next block's shared memory, in CHAINS chains; every
 * word holds its own address */
template <int SIZE, int CHAINS> __device__ __forceinline__ void chase(unsigned *out, int n)
{
    __shared__ unsigned s[1024];
    unsigned own = (unsigned)__cvta_generic_to_shared(s), first = own;
    if (SIZE > 1) {
        first = neighbour(s, SIZE);
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(own) : "r"(own), "r"(rank_in_cluster()));
    }
    for (int i = threadIdx.x; i < 1024; i += 32)
        s[i] = own + 4 * i;
    if (SIZE > 1) {
        ARRIVE();
        CLUSTER_WAIT();
    } else
        __syncthreads();
    if (blockIdx.x == 0) {
        unsigned at[CHAINS];
        for (int j = 0; j < CHAINS; j++)
            at[j] = first + (threadIdx.x + 32 * j) * 4;
#pragma unroll 10
        for (int i = 0; i < n; i++)
#pragma unroll
            for (int j = 0; j < CHAINS; j++) {
                if (SIZE > 1)
                    asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(at[j]));
                else
                    asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at[j]));
            }
        unsigned sum = 0;
        for (int j = 0; j < CHAINS; j++)
            sum += at[j];
        out[threadIdx.x] = sum;
    }
    if (SIZE > 1) {
        ARRIVE();
        CLUSTER_WAIT();
    }
}
extern "C" __global__ void chase1(unsigned *out, int n) { chase<1, 1>(out, n); }
extern "C" __global__ void __cluster_dims__(2, 1, 1) chase2(unsigned *out, int n) { chase<2, 1>(out, n); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) chase4(unsigned *out, int n) { chase<4, 1>(out, n); }
extern "C" __global__ void __cluster_dims__(8, 1, 1) chase8(unsigned *out, int n) { chase<8, 1>(out, n); }
extern "C" __global__ void chase1_by4(unsigned *out, int n) { chase<1, 4>(out, n); }
extern "C" __global__ void __cluster_dims__(2, 1, 1) chase2_by4(unsigned *out, int n) { chase<2, 4>(out, n); }
