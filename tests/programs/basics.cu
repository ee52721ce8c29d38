// What ordinary programs do with the runtime: templates, shared memory, variables of every kind, copies, streams, printf.
// Prints one line per thing; test-programs.py compares with basics.out.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>

namespace cg = cooperative_groups;

__constant__ float weight[4];
__device__ int total;
__managed__ int seen = 40;

template <typename T> __global__ void scale(T *x, T by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= by;
}

__global__ void sum(const int *x, int n)
{
    extern __shared__ int part[];
    part[threadIdx.x] = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        part[threadIdx.x] += x[i];
    __syncthreads();
    for (int k = blockDim.x / 2; k; k /= 2) {
        if (threadIdx.x < k)
            part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x) {
        atomicAdd(&total, part[0]);
        seen += 2;
    }
}

__global__ void weigh(float *y) { y[threadIdx.x] = weight[threadIdx.x] * 2; }
__global__ void hello() { printf("hello from thread %d\n", threadIdx.x); }
__global__ void all_blocks(int *x)
{
    x[blockIdx.x] = blockIdx.x;
    cg::this_grid().sync();
    if (!threadIdx.x)
        x[blockIdx.x + gridDim.x] = x[gridDim.x - 1 - blockIdx.x];
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                        \
        if (error_ != cudaSuccess) {                                                                                       \
            printf("%s: %s\n", #call, cudaGetErrorString(error_));                                                        \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

int main()
{
    double *d, hd[5] = {1, 2, 3, 4, 5};
    OK(cudaMalloc(&d, sizeof hd));
    OK(cudaMemcpy(d, hd, sizeof hd, cudaMemcpyHostToDevice));
    scale<<<2, 4>>>(d, 1.5, 5);
    OK(cudaMemcpy(hd, d, sizeof hd, cudaMemcpyDeviceToHost));
    printf("scale %g %g\n", hd[0], hd[4]);
    OK(cudaFree(d));

    int *x, zero = 0, got;
    OK(cudaMallocManaged(&x, 1000 * sizeof *x));
    for (int i = 0; i < 1000; i++)
        x[i] = i;
    OK(cudaMemcpyToSymbol(total, &zero, sizeof zero));
    sum<<<1, 128, 128 * sizeof(int)>>>(x, 1000);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpyFromSymbol(&got, total, sizeof got));
    printf("sum %d seen %d\n", got, seen);

    float w[4] = {1, 2, 3, 4}, *y;
    cudaStream_t s;
    cudaEvent_t from, to;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaEventCreate(&from));
    OK(cudaEventCreate(&to));
    OK(cudaMemcpyToSymbolAsync(weight, w, sizeof w, 0, cudaMemcpyHostToDevice, s));
    OK(cudaMallocHost(&y, sizeof w));
    OK(cudaEventRecord(from, s));
    weigh<<<1, 4, 0, s>>>(y);
    OK(cudaEventRecord(to, s));
    OK(cudaStreamSynchronize(s));
    float ms = -1;
    OK(cudaEventElapsedTime(&ms, from, to));
    printf("weigh %g timed %d\n", y[3], ms > 0);
    OK(cudaFreeHost(y));
    OK(cudaStreamDestroy(s));

    int *g, blocks = 200, h[400]; // more than a CPU thread would keep by itself
    OK(cudaMalloc(&g, sizeof h));
    void *args[] = {&g};
    OK(cudaLaunchCooperativeKernel(all_blocks, blocks, 32, args));
    OK(cudaMemcpy(h, g, sizeof h, cudaMemcpyDeviceToHost));
    printf("grid %d %d\n", h[200], h[399]);

    int size, least;
    OK(cudaOccupancyMaxPotentialBlockSize(&least, &size, hello));
    printf("occupancy %d\n", size);
    hello<<<1, 2>>>();
    OK(cudaDeviceSynchronize());

    hello<<<1, 4096>>>();
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    cudaError_t there = cudaErrorUnknown;
    std::thread([&] {
        hello<<<1, 0>>>();
        there = cudaPeekAtLastError();
    }).join();
    printf("%s, here %s\n", cudaGetErrorName(there), cudaGetErrorName(cudaGetLastError()));
    return 0;
}
