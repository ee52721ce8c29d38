/* Programmatic dependent launch: chains and pairs of kernels with and without it. Needs sm_90. Rows: ../pdl.tsv. */
#define WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#define GO() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")

/* n dependent multiply-adds, one a turn of the loop */
__device__ __forceinline__ float turn(float a, int n)
{
#pragma unroll 1
    for (int i = 0; i < n; i++)
        asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(a) : "f"(1.0001f), "f"(0.0001f));
    return a;
}

enum { NOTHING, BY_BLOCK, TILE, DEPENDENT };

/* wait, n1 turns, trigger, n2 turns, then what the source's kernel stores: nothing (a test that never holds), a float a
 * block, four floats a thread, or one a thread after reading one that the kernel before has written */
template <int OUT, bool EARLY>
__device__ __forceinline__ void chain(const float *in, float *out, int n1, int n2)
{
    if (EARLY)
        WAIT();
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = OUT == DEPENDENT ? in[t] : 1.0f + (threadIdx.x & 31) * 0.001f;
    a = turn(a, n1);
    if (EARLY) {
        GO();
        a = turn(a, n2);
    }
    if (OUT == NOTHING && a == -42.0f)
        out[t] = a;
    if (OUT == BY_BLOCK && threadIdx.x == 0)
        out[blockIdx.x] = a;
    if (OUT == DEPENDENT)
        out[t] = a;
    if (OUT == TILE)
        for (int j = 0; j < 4; j++)
            out[4 * t + j] = a + j * 0.01f;
}
extern "C" __global__ void fma_none(float *out, int n) { chain<NOTHING, false>(nullptr, out, n, 0); }
extern "C" __global__ void fma_none_pdl(float *out, int n1, int n2) { chain<NOTHING, true>(nullptr, out, n1, n2); }
extern "C" __global__ void fma_block(float *out, int n) { chain<BY_BLOCK, false>(nullptr, out, n, 0); }
extern "C" __global__ void fma_block_pdl(float *out, int n1, int n2) { chain<BY_BLOCK, true>(nullptr, out, n1, n2); }
extern "C" __global__ void fma_tile(float *out, int n) { chain<TILE, false>(nullptr, out, n, 0); }
extern "C" __global__ void fma_tile_pdl(float *out, int n1, int n2) { chain<TILE, true>(nullptr, out, n1, n2); }
extern "C" __global__ void fma_dep(const float *in, float *out, int n) { chain<DEPENDENT, false>(in, out, n, 0); }
extern "C" __global__ void fma_dep_pdl(const float *in, float *out, int n1, int n2)
{
    chain<DEPENDENT, true>(in, out, n1, n2);
}

/* 256 reads of a row of 1 KB, sixteen different rows in all (the source's index wraps so), one store */
__device__ __forceinline__ float row(const float *in, int t, float a, int from, int to)
{
    int base = (t & 15) << 20;
#pragma unroll 1
    for (int k = from; k < to; k++)
        a += in[(base + k) & 0xffffff] * 1.0001f;
    return a;
}
extern "C" __global__ void rows(const float *in, float *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    out[t] = row(in, t, 0, 0, 256);
}
extern "C" __global__ void rows_pdl(const float *in, float *out)
{
    WAIT();
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = row(in, t, 0, 0, 253);
    GO();
    out[t] = row(in, t, a, 253, 256);
}

/* a pair: the first triggers at once, the second waits at once; the loop is left to the compiler's unrolling */
__device__ __forceinline__ void short_loop(int *out, int n)
{
    float a = threadIdx.x * 0.1f;
    for (int i = 0; i < n; i++)
        a = a * 0.5f + 0.001f;
    if (a == 3e9f && n < 0)
        out[threadIdx.x] = (int)a;
}
extern "C" __global__ void short_plain(int *out, int n) { short_loop(out, n); }
extern "C" __global__ void short_first(int *out, int n)
{
    GO();
    short_loop(out, n);
}
extern "C" __global__ void short_second(int *out, int n)
{
    WAIT();
    short_loop(out, n);
}

/* a producer: a store, trigger, long tail; a consumer: long head, wait, dependent read and store */
__device__ __forceinline__ float mixed(float a, int n)
{
#pragma unroll 1
    for (int i = 0; i < n; i++)
        a = fmaf(a, 1.0001f, float(i & 255));
    return a;
}
extern "C" __global__ void tail(float *out, int n, int times)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        out[t] = 1.0f;
    GO();
    float a = mixed(__int_as_float(t), times);
    if (a == 1.25e30f && t < n)
        out[t] = a;
}
extern "C" __global__ void head(const float *in, float *out, int n, int times)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = mixed(__int_as_float(t ^ 0x1234567), times);
    WAIT();
    if (t < n)
        out[t] = in[t] + a;
}

/* a stage of a chain of tiny kernels: `pre` steps by all threads, wait, trigger or not, `work` steps by the first
 * thread, which then copies a word of the stage before. The source spins on a clock; here a step is a dependent
 * multiply-add, 16 a turn. */
__device__ __forceinline__ float steps(float a, int n)
{
    for (int i = 0; i < n; i += 16)
#pragma unroll
        for (int k = 0; k < 16; k++)
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(a) : "f"(0.5f), "f"(0.25f));
    return a;
}
template <bool EARLY, bool TRIGGER> __device__ __forceinline__ void stage(long long *words, int i, int work, int pre)
{
    float a = steps(1.0f, pre);
    if (EARLY)
        WAIT();
    if (TRIGGER)
        GO();
    if (threadIdx.x)
        return;
    a = steps(a, work);
    if (blockIdx.x == 0)
        words[i] = (i ? words[i - 1] : words[0] + 1) + (a > 1e9f);
}
extern "C" __global__ void stage_plain(long long *words, int i, int work, int pre)
{
    stage<false, false>(words, i, work, pre);
}
extern "C" __global__ void stage_wait(long long *words, int i, int work, int pre)
{
    stage<true, false>(words, i, work, pre);
}
extern "C" __global__ void stage_early(long long *words, int i, int work, int pre)
{
    stage<true, true>(words, i, work, pre);
}

/* reads a part [from, to) of every chunk, 16 bytes a load, folded; chunks by a table of pointers (zeros here) */
template <bool FIRST, bool SECOND>
__device__ __forceinline__ void chunks(const char *data, const long long *table, int n, long long chunk, long long from,
                                       long long to, unsigned *sink)
{
    if (SECOND)
        WAIT();
    long long span = to - from, total = span * n;
    unsigned a = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < total;
         i += (long long)gridDim.x * blockDim.x) {
        long long c = i / span, off = from + (i - c * span);
        uint4 v = __ldcs((const uint4 *)(data + table[c] + c * chunk * 16) + off);
        a ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (a == 0x12345u)
        sink[0] = a;
    if (FIRST)
        GO();
}
extern "C" __global__ void chunks_once(const char *data, const long long *table, int n, long long chunk, long long from,
                                       long long to, unsigned *sink)
{
    chunks<false, false>(data, table, n, chunk, from, to, sink);
}
extern "C" __global__ void chunks_first(const char *data, const long long *table, int n, long long chunk, long long from,
                                        long long to, unsigned *sink)
{
    chunks<true, false>(data, table, n, chunk, from, to, sink);
}
extern "C" __global__ void chunks_second(const char *data, const long long *table, int n, long long chunk,
                                         long long from, long long to, unsigned *sink)
{
    chunks<false, true>(data, table, n, chunk, from, to, sink);
}

/* a small kernel: sums a slice of floats; with it the trigger and the wait come first */
__device__ __forceinline__ void slice(const float *in, float *out, int n)
{
    float a = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a += in[i];
    if (a == 12345.0f)
        out[0] = a;
}
extern "C" __global__ void slice_plain(const float *in, float *out, int n) { slice(in, out, n); }
extern "C" __global__ void slice_pdl(const float *in, float *out, int n)
{
    GO();
    WAIT();
    slice(in, out, n);
}
