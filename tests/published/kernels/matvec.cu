/* Kernels of matvec.tsv: m x n matrix of 32-bit integers times a vector, a thread a row. */
typedef unsigned int u32;

/* The vector from global memory. */
extern "C" __global__ void imv_simple(u32 *out, const u32 *mat, const u32 *vec, int m, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    u32 s = 0;
    for (int k = 0; k < n; k++)
        s += mat[i * n + k] * vec[k];
    out[i] = s;
}

/* The vector by pieces of a block's size through shared memory. */
extern "C" __global__ void imv_tiles(u32 *out, const u32 *mat, const u32 *vec, int m, int n)
{
    extern __shared__ u32 piece[];
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x, w = blockDim.x;
    u32 s = 0;
    for (u32 p = 0; p < (n + w - 1) / w; p++) {
        const u32 e = p * w + threadIdx.x;
        piece[threadIdx.x] = e < n ? vec[e] : 0;
        __syncthreads();
        if (i < m)
            for (u32 k = 0; k < w && p * w + k < n; k++)
                s += mat[i * n + p * w + k] * piece[k];
        __syncthreads();
    }
    out[i] = s;
}
