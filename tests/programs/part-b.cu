// Separate compilation: the other unit.
#include <cuda_runtime.h>

__device__ int offset;
static __device__ int own = 2;
__device__ int twice(int x) { return own * x; }

void set_offset(int v) { cudaMemcpyToSymbol(offset, &v, sizeof v); }
