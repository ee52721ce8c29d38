/* Kernels of histogram.tsv: counts of 32-bit values. All values are 0, as in the source: one bin gets all additions. */
typedef unsigned int u32;

/* Atomic additions in global memory; the first threads clear the bins. */
extern "C" __global__ void hist_global(const u32 *in, u32 *bins, u32 n, u32 nbins)
{
    const u32 t = blockIdx.x * blockDim.x + threadIdx.x, all = blockDim.x * gridDim.x;
    for (u32 i = t; i < nbins; i += all)
        bins[i] = 0;
    __syncthreads();
    for (u32 i = t; i < n; i += all)
        atomicAdd(&bins[in[i]], 1u);
}

/* Bins of each block in shared memory, added to the global ones at the end. */
extern "C" __global__ void hist_shared(const u32 *in, u32 *bins, u32 n, u32 nbins)
{
    extern __shared__ u32 mine[];
    const u32 t = blockIdx.x * blockDim.x + threadIdx.x, all = blockDim.x * gridDim.x;
    for (u32 i = threadIdx.x; i < nbins; i += blockDim.x)
        mine[i] = 0;
    __syncthreads();
    for (u32 i = t; i < n; i += all)
        atomicAdd(&mine[in[i]], 1u);
    __syncthreads();
    for (u32 i = threadIdx.x; i < nbins; i += blockDim.x)
        atomicAdd(&bins[i], mine[i]);
}
