// Graphs: capture over two streams, nodes by hand, update of parameters, memory nodes, per-thread default streams.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(int *x, int n) { atomicAdd(x, n); }

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
    int *x, h = -1, n = 5;
    cudaStream_t s, t;
    cudaEvent_t fork, join;
    cudaGraph_t g;
    cudaGraphExec_t e;
    cudaGraphNode_t set, kernel, copy;
    OK(cudaMalloc(&x, sizeof *x));
    OK(cudaStreamCreate(&s));
    OK(cudaStreamCreate(&t));
    OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemsetAsync(x, 0, sizeof *x, s));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(t, fork, 0));
    add<<<1, 32, 0, s>>>(x, 1);
    add<<<2, 32, 0, t>>>(x, 10);
    OK(cudaEventRecord(join, t));
    OK(cudaStreamWaitEvent(s, join, 0));
    OK(cudaMemcpyAsync(&h, x, sizeof h, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamEndCapture(s, &g));
    OK(cudaGraphInstantiate(&e, g, 0));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(e, s));
    OK(cudaStreamSynchronize(s));
    printf("captured %d\n", h);
    OK(cudaGraphExecDestroy(e));
    OK(cudaGraphDestroy(g));

    void *args[] = {&x, &n};
    cudaMemsetParams m = {};
    m.dst = x, m.elementSize = 4, m.width = 1, m.height = 1, m.value = 100;
    cudaKernelNodeParams k = {};
    k.func = (void *)add, k.gridDim = dim3(1), k.blockDim = dim3(4), k.kernelParams = args;
    OK(cudaGraphCreate(&g, 0));
    OK(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &m));
    OK(cudaGraphAddKernelNode(&kernel, g, &set, 1, &k));
    OK(cudaGraphAddMemcpyNode1D(&copy, g, &kernel, 1, &h, x, sizeof h, cudaMemcpyDeviceToHost));
    OK(cudaGraphInstantiate(&e, g, 0));
    OK(cudaGraphLaunch(e, 0));
    OK(cudaDeviceSynchronize());
    printf("by hand %d\n", h);
    n = 7;
    OK(cudaGraphExecKernelNodeSetParams(e, kernel, &k));
    OK(cudaGraphLaunch(e, 0));
    OK(cudaDeviceSynchronize());
    printf("updated %d\n", h);

    int *p;
    OK(cudaMallocAsync(&p, 64, s));
    OK(cudaMemsetAsync(p, 0, 64, s));
    add<<<1, 1, 0, s>>>(p, 3);
    OK(cudaMemcpyAsync(&h, p, sizeof h, cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
    printf("pool %d\n", h);
    return 0;
}
