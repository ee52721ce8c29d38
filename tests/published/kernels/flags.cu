/* Barriers of a grid, of up to 64 blocks. Rows: ../flags.tsv. */

/* n barriers of all blocks: each block adds one to a counter, and its first thread spins until all have */
extern "C" __global__ void sync_grid(unsigned *count, int n)
{
#pragma unroll 1
    for (int i = 1; i <= n; i++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned now;
            asm volatile("atom.add.release.gpu.global.u32 %0, [%1], 1;" : "=r"(now) : "l"(count) : "memory");
            do
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
            while (now < i * gridDim.x);
        }
        __syncthreads();
    }
}
