// Rows of 96. Softmax writes rows 0 to 63 of `cat`; layer norm then takes all 96 rows of it, so its last 32 blocks wait for nothing.
// Softmax: a warp a row, two rows a block. Layer norm: a block of 96 threads a row.
extern "C" __global__ void softmax(const float *__restrict__ x, float *__restrict__ cat)
{
    const int lane = threadIdx.x & 31, row = blockIdx.x * 2 + (threadIdx.x >> 5);
    const float a = x[row * 96 + lane], b = x[row * 96 + lane + 32], c = x[row * 96 + lane + 64];
    float top = fmaxf(fmaxf(a, b), c);
    for (int m = 16; m > 0; m >>= 1)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, m));
    const float ea = expf(a - top), eb = expf(b - top), ec = expf(c - top);
    float sum = ea + eb + ec;
    for (int m = 16; m > 0; m >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, m);
    cat[row * 96 + lane] = ea / sum;
    cat[row * 96 + lane + 32] = eb / sum;
    cat[row * 96 + lane + 64] = ec / sum;
}

extern "C" __global__ void layernorm(const float *__restrict__ cat, const float *__restrict__ gamma, float *__restrict__ y)
{
    __shared__ float part[2][3];
    const int t = threadIdx.x;
    const float v = cat[blockIdx.x * 96 + t];
    float sum = v, square = v * v;
    for (int m = 16; m > 0; m >>= 1) {
        sum += __shfl_down_sync(0xffffffffu, sum, m);
        square += __shfl_down_sync(0xffffffffu, square, m);
    }
    if ((t & 31) == 0) {
        part[0][t >> 5] = sum;
        part[1][t >> 5] = square;
    }
    __syncthreads();
    const float mean = (part[0][0] + part[0][1] + part[0][2]) / 96.0f;
    const float var = (part[1][0] + part[1][1] + part[1][2]) / 96.0f - mean * mean;
    y[blockIdx.x * 96 + t] = (v - mean) * rsqrtf(var + 1e-5f) * gamma[t];
}
