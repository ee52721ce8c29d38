// A convolution 3 x 3 with padding 1 (16 channels to 16, 32 x 32 pixels), ReLU, max pool 3 x 3 with stride 2 and padding 1.
//
// conv: a block makes 16 x 16 pixels of one output channel; of each input channel a tile of 18 x 18 goes through shared memory.
// pool: a block makes 8 x 8 results of one channel, from 17 x 17 pixels: its windows reach one row and column into the tiles before.
enum { C = 16, O = 16, P = 32, Q = 16 };
#define NONE __int_as_float(0xff800000) // minus infinity, without a header

extern "C" __global__ void conv(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y)
{
    __shared__ float tile[18][19], weight[9];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, o = blockIdx.z;
    const int left = blockIdx.x * 16 - 1, top = blockIdx.y * 16 - 1;
    float sum = 0.0f;
    for (int c = 0; c < C; c++) {
        for (int i = t; i < 18 * 18; i += 256) {
            const int r = top + i / 18, q = left + i % 18;
            tile[i / 18][i % 18] = r >= 0 && r < P && q >= 0 && q < P ? x[(c * P + r) * P + q] : 0.0f;
        }
        if (t < 9)
            weight[t] = w[(o * C + c) * 9 + t];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 9; i++)
            sum += tile[ty + i / 3][tx + i % 3] * weight[i];
        __syncthreads();
    }
    y[(o * P + blockIdx.y * 16 + ty) * P + blockIdx.x * 16 + tx] = sum;
}

extern "C" __global__ void relu(const float *__restrict__ y, float *__restrict__ z)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    z[i] = fmaxf(y[i], 0.0f);
}

extern "C" __global__ void pool(const float *__restrict__ z, float *__restrict__ out)
{
    const int c = blockIdx.z, row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    float top = NONE;
    for (int i = -1; i < 2; i++)
        for (int j = -1; j < 2; j++)
            if (row * 2 + i >= 0 && col * 2 + j >= 0) // never past the far side: 2 * 15 + 1 = 31
                top = fmaxf(top, z[(c * P + row * 2 + i) * P + col * 2 + j]);
    out[(c * Q + row) * Q + col] = top;
}
