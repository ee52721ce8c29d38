// Separate compilation: this unit calls a device function of the other one and reads its variable.
#include <cstdio>
#include <cuda_runtime.h>

extern __device__ int offset;
__device__ int twice(int x);
void set_offset(int v);

static __device__ int own = 1;
__global__ void both(int *x) { *x = twice(*x) + offset + own; }

int main()
{
    int *x, h = 20;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, &h, sizeof h, cudaMemcpyHostToDevice);
    set_offset(1000);
    both<<<1, 1>>>(x);
    cudaMemcpy(&h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("parts %d %s\n", h, cudaGetErrorString(cudaGetLastError()));
    return 0;
}
