// math.ptx is what
//     nvcc -ptx -arch=sm_75 -o math.ptx math.cu
// makes of this file.
#define FN(name, lo, hi)                                                                                               \
    extern "C" __global__ void f32_##name(const float *x, float *y) { y[threadIdx.x] = name##f(x[threadIdx.x]); }      \
    extern "C" __global__ void f64_##name(const double *x, double *y) { y[threadIdx.x] = name(x[threadIdx.x]); }
#include "functions.def"
