/* One block of 256 threads an SM reads the same buffer over and over (gpu-cache, te42kyfo/gpu-benches): per thread
 * `elements` / 256 loads a round. `zero` is 0: no round can be left out. Rounds of up to 32 loads are unrolled as a
 * whole, longer ones by 32. */
enum { THREADS = 256 };

template <typename T, int COUNT>
static __device__ void few(T *__restrict__ out, const T *__restrict__ in, int rounds, int zero)
{
    T sum = 0;
    in += threadIdx.x;
#pragma unroll(sizeof(T) == 4 ? 32 / COUNT : COUNT > 16 ? 1 : COUNT > 8 ? 2 : 4)
    for (int r = 0; r < rounds; r++) {
        in += zero;
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            sum += in[k * THREADS];
        sum *= (T)1.3;
    }
    if (sum == (T)1233)
        out[threadIdx.x] += sum;
}

template <typename T>
static __device__ void many(T *__restrict__ out, const T *__restrict__ in, int elements, int rounds, int zero)
{
    T sum = 0;
    in += threadIdx.x;
#pragma unroll 1
    for (int r = 0; r < rounds; r++) {
        in += zero;
#pragma unroll 32
        for (int k = 0; k < elements; k += THREADS)
            sum += in[k];
        sum *= (T)1.3;
    }
    if (sum == (T)1233)
        out[threadIdx.x] += sum;
}

#define FEW(name, type, count)                                                                                         \
    extern "C" __global__ void name(type *__restrict__ out, const type *__restrict__ in, int rounds, int zero)         \
    {                                                                                                                  \
        few<type, count>(out, in, rounds, zero);                                                                       \
    }

/* doubles (commit a7dc559): 4, 16, 32, 64 kB */
FEW(l1_f64_4k, double, 2)
FEW(l1_f64_16k, double, 8)
FEW(l1_f64_32k, double, 16)
FEW(l1_f64_64k, double, 32)
/* floats (commit 71a3611): 4, 16, 32 kB */
FEW(l1_f32_4k, float, 4)
FEW(l1_f32_16k, float, 16)
FEW(l1_f32_32k, float, 32)

extern "C" __global__ void l1_f64(double *__restrict__ out, const double *__restrict__ in, int elements, int rounds,
                                  int zero)
{
    many<double>(out, in, elements, rounds, zero);
}

extern "C" __global__ void l1_f32(float *__restrict__ out, const float *__restrict__ in, int elements, int rounds,
                                  int zero)
{
    many<float>(out, in, elements, rounds, zero);
}
