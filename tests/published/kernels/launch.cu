/* Empty kernels. Rows: ../launch.tsv. */

extern "C" __global__ void nothing(void)
{
}
/* a barrier of the block and no more */
extern "C" __global__ void only_barrier(void)
{
    __syncthreads();
}
