/* One launch that does what a chain of launches does: rounds of a scaled copy, all blocks wait for each other after
 * each (gpu-small-kernels -pta and -pt-gsync, te42kyfo/gpu-benches 1c36d50). Every round reads and writes the same
 * elements. */
static __device__ void copy(double *__restrict__ to, const double *__restrict__ from, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = 0.25 * from[i];
}

/* -pta: a flag a round, counted up by an atomic, polled by a volatile load. flag: one int a round, 0 at first. */
extern "C" __global__ void sync_flags(int *flag, double *__restrict__ to, const double *__restrict__ from, int n,
                                      int rounds)
{
    for (int r = 0; r < rounds; r++) {
        copy(to, from, n);
        __syncthreads();
        __threadfence();
        if (threadIdx.x == 0) {
            atomicAdd(&flag[r], 1);
            while (*(volatile int *)&flag[r] != (int)gridDim.x)
                ;
        }
        __syncthreads();
    }
}

/* -pt-gsync: a grid barrier as the toolkit's cooperative groups have it since sm_70: an atomic add with release, polled
 * by a load with acquire. count: 0 at first. */
extern "C" __global__ void sync_grid(unsigned *count, double *__restrict__ to, const double *__restrict__ from, int n,
                                     int rounds)
{
    for (int r = 1; r <= rounds; r++) {
        copy(to, from, n);
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned now;
            asm volatile("atom.add.release.gpu.global.u32 %0, [%1], 1;" : "=r"(now) : "l"(count) : "memory");
            do
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
            while (now < r * gridDim.x);
        }
        __syncthreads();
    }
}
