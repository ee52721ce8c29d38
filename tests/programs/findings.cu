// One finding of each kind, by argument: test-programs.py looks for the lines marked by their names.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__device__ void put(int *p, int i)
{
    p[i] = i; // bounds
}
__global__ void bounds(int *p) { put(p, threadIdx.x * 3); }
__global__ void race(int *p)
{
    __shared__ int s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    s[threadIdx.x] = threadIdx.x; // race
    p[threadIdx.x] = s[63 - threadIdx.x]; // earlier
}
__global__ void uninit(int *p)
{
    __shared__ int s[64];
    p[threadIdx.x] = s[threadIdx.x]; // uninit
}

int main(int argc, char **argv)
{
    int *p;
    cudaMalloc(&p, 64 * sizeof *p);
    if (argc > 1 && !strcmp(argv[1], "bounds"))
        bounds<<<1, 64>>>(p);
    if (argc > 1 && !strcmp(argv[1], "race"))
        race<<<1, 64>>>(p);
    if (argc > 1 && !strcmp(argv[1], "uninit"))
        uninit<<<1, 64>>>(p);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
