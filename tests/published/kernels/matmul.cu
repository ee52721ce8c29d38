/* Kernels of matmul.tsv: products of 32-bit integers, row major, n x n (one size argument a side, as the source has).
 * The side of a tile is the side of the block. */
typedef unsigned int u32;
#define ARGS const u32 *a, const u32 *b, u32 *c, int rows, int inner, int inner2, int cols

/* One thread an element. */
extern "C" __global__ void imm_simple(ARGS)
{
    const int r = blockIdx.y * blockDim.y + threadIdx.y, q = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows || q >= cols)
        return;
    u32 s = 0;
    for (int k = 0; k < inner; k++)
        s += a[r * inner + k] * b[k * cols + q];
    c[r * cols + q] = s;
}

/* Square tiles of both matrices in shared memory. */
extern "C" __global__ void imm_tiles(ARGS)
{
    extern __shared__ u32 sh[];
    const int w = blockDim.x, x = threadIdx.x, y = threadIdx.y;
    u32 *sa = sh, *sb = sh + w * w;
    const int r = blockIdx.y * w + y, q = blockIdx.x * w + x;
    u32 s = 0;
    for (int p = 0; p < (inner + w - 1) / w; p++) {
        sa[y * w + x] = r < rows && p * w + x < inner ? a[r * inner + p * w + x] : 0;
        sb[y * w + x] = p * w + y < inner2 && q < cols ? b[(p * w + y) * cols + q] : 0;
        __syncthreads();
        for (int k = 0; k < w; k++)
            s += sa[y * w + k] * sb[k * w + x];
        __syncthreads();
    }
    if (r < rows && q < cols)
        c[r * cols + q] = s;
}

/* Two elements a thread, a tile width apart; as in the source, the two tiles of b overlap in shared memory and the grid
 * is four times as wide as needed: blocks outside run the loop without loads. */
extern "C" __global__ void imm_rect(ARGS)
{
    extern __shared__ u32 sh[];
    const int w = blockDim.x, x = threadIdx.x, y = threadIdx.y;
    u32 *sa = sh, *sb = sh + w * w;
    const int r = blockIdx.y * w + y, q = blockIdx.x * w * 2 + x;
    u32 s = 0, t = 0;
    for (int p = 0; p < (inner + w - 1) / w; p++) {
        sa[y * w + x] = r < rows && p * w + x < inner ? a[r * inner + p * w + x] : 0;
        sb[y * w + x] = p * w + y < inner2 && q < cols ? b[(p * w + y) * cols + q] : 0;
        sb[y * w + w + x] = p * w + y < inner2 && w + q < cols ? b[(p * w + y) * cols + w + q] : 0;
        __syncthreads();
        for (int k = 0; k < w; k++) {
            s += sa[y * w + k] * sb[k * w + x];
            t += sa[y * w + k] * sb[k * w + w + x];
        }
        __syncthreads();
    }
    if (r < rows && q < cols)
        c[r * cols + q] = s;
    if (r < rows && w + q < cols)
        c[r * cols + w + q] = t;
}
