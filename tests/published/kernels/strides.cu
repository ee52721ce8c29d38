/* One block of 1,024 threads on one SM reads a few kilobytes over and over, 8 loads and 4 multiply-adds a step
 * (gpu-strides, te42kyfo/gpu-benches 1c36d50). `zero` is 0: no step can be left out. */
template <typename T> static __device__ void steps(const T *p, T *out, int zero, int loads, int at)
{
    T sum = 0;
#pragma unroll 1
    for (int n = 0; n < loads; n += 8) {
        p += zero;
        sum += p[0] * p[4];
        sum += p[8] * p[12];
        sum += p[20] * p[16];
        sum += p[24] * p[28];
    }
    if (sum == (T)123123.23)
        out[at] = sum;
}

/* thread k reads from element k mod 64 times `stride` */
extern "C" __global__ void stride_f32(float *in, float *out, int zero, int stride, int loads)
{
    steps<float>(in + threadIdx.x % 64 * stride, out, zero, loads, threadIdx.x);
}

extern "C" __global__ void stride_f64(double *in, double *out, int zero, int stride, int loads)
{
    steps<double>(in + threadIdx.x % 64 * stride, out, zero, loads, threadIdx.x);
}

/* two-dimensional blocks: thread (x, y) reads from element x mod 64 of row y mod 32 + 1, rows are `pitch` apart */
extern "C" __global__ void __launch_bounds__(1024) block_f32(float *in, float *out, int zero, int pitch, int loads)
{
    steps<float>(in + threadIdx.x % 64 + (threadIdx.y % 32 + 1) * pitch, out, zero, loads, threadIdx.x % 64);
}

extern "C" __global__ void __launch_bounds__(1024) block_f64(double *in, double *out, int zero, int pitch, int loads)
{
    steps<double>(in + threadIdx.x % 64 + (threadIdx.y % 32 + 1) * pitch, out, zero, loads, threadIdx.x % 64);
}
