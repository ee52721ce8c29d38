/* Shared-memory bank conflicts by stride. Rows: ../banks.tsv. */

/* each turn four reads at threads S words apart and one write, of 8 KB; S from the argument by its power, as templates */
template <int S> __device__ __forceinline__ void strided(int *out, int n)
{
    __shared__ int s[2048];
    int t = threadIdx.x;
    s[t] = t;
    s[t + 1024] = t + 1024;
    __syncthreads();
    int a = 0, b = 0, c = 0, d = 0;
    for (int i = 0; i < n; i++) {
        int at = (t * S + i) & 2047;
        a += s[at];
        b += s[at + 4 & 2047];
        c += s[at + 8 & 2047];
        d += s[at + 12 & 2047];
        s[at + t & 2047] = a + b + c + d;
    }
    if (a + b + c + d == 0xdeadbeef)
        out[blockIdx.x] = a;
}
extern "C" __global__ void strided1(int *out, int n) { strided<1>(out, n); }
extern "C" __global__ void strided2(int *out, int n) { strided<2>(out, n); }
extern "C" __global__ void strided4(int *out, int n) { strided<4>(out, n); }
extern "C" __global__ void strided8(int *out, int n) { strided<8>(out, n); }
extern "C" __global__ void strided16(int *out, int n) { strided<16>(out, n); }
extern "C" __global__ void strided32(int *out, int n) { strided<32>(out, n); }
extern "C" __global__ void strided33(int *out, int n) { strided<33>(out, n); }

/* one warp: each read's address comes of the last read, lanes `stride` words apart */
extern "C" __global__ void chase(unsigned *out, int n, int stride)
{
    __shared__ unsigned s[32 * 65];
    for (int i = threadIdx.x; i < 32 * 65; i += 32)
        s[i] = 0;
    __syncwarp();
    unsigned at = threadIdx.x * stride;
#pragma unroll 8
    for (int i = 0; i < n; i++)
        at = threadIdx.x * stride ^ s[at];
    out[threadIdx.x] = at;
}
/* one warp: each read's value is added, and the next address depends on the sum */
extern "C" __global__ void chase_add(float *out, int n, int stride)
{
    __shared__ float s[32 * 65];
    for (int i = threadIdx.x; i < 32 * 65; i += 32)
        s[i] = 0;
    __syncwarp();
    unsigned at = threadIdx.x * stride;
    float a = 0;
#pragma unroll 8
    for (int i = 0; i < n; i++) {
        a += s[at];
        at = threadIdx.x * stride ^ __float_as_uint(a);
    }
    out[threadIdx.x] = a;
}
