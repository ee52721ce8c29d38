/* Two streams of floats, and N multiply-adds on each pair (gpu-roofline, te42kyfo/gpu-benches 1c36d50): as many blocks
 * of 256 threads as fit the GPU at once; a thread takes `each` pairs, two a step. The kernel's name says N. */
enum { THREADS = 256 };

template <int N>
static __device__ void work(const float *__restrict__ a, const float *__restrict__ b, float *out, int each)
{
    const float *pa = a + threadIdx.x + blockIdx.x * THREADS * each,
                *pb = b + threadIdx.x + blockIdx.x * THREADS * each;
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < each; k += 2) {
        float a0 = pa[k * THREADS], b0 = pb[k * THREADS], v0 = a0 - b0;
        float a1 = pa[(k + 1) * THREADS], b1 = pb[(k + 1) * THREADS], v1 = a1 - b1;
        for (int n = 0; n < N; n++) {
            v0 = fmaf(v0, a0, -b0);
            v1 = fmaf(v1, a1, -b1);
        }
        sum += v0 + v1;
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

#define ROOF(n)                                                                                                        \
    extern "C" __global__ void roof_##n(const float *__restrict__ a, const float *__restrict__ b, float *out,          \
                                        int each)                                                                      \
    {                                                                                                                  \
        work<n>(a, b, out, each);                                                                                      \
    }

ROOF(0)
ROOF(1)
ROOF(4)
ROOF(8)
ROOF(16)
ROOF(24)
ROOF(32)
ROOF(40)
ROOF(48)
ROOF(56)
ROOF(64)
ROOF(72)
ROOF(80)
ROOF(96)
ROOF(128)
ROOF(160)
ROOF(256)
ROOF(400)
ROOF(512)
