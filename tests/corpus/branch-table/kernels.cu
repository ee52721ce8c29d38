/* Five roles in one launch, told apart by a switch, of which the assembler makes a table of branches (BRX); and what
 * reads two of the five results. */
#define ROLE(x, y, value)                                                                                              \
    {                                                                                                                  \
        __shared__ float s[256];                                                                                       \
        s[t] = x[i];                                                                                                   \
        __syncthreads();                                                                                               \
        float v = s[255 - t];                                                                                          \
        y[i] = value;                                                                                                  \
        break;                                                                                                         \
    }

extern "C" __global__ void merged(const float *x0, float *y0, const float *x1, float *y1, const float *x2, float *y2,
                                  const float *x3, float *y3, const float *x4, float *y4)
{
    int t = threadIdx.x, i = (blockIdx.x % 16) * 256 + t;
    switch (blockIdx.x / 16) {
    case 0: ROLE(x0, y0, v * 2.0f + 1.0f)
    case 1: ROLE(x1, y1, sqrtf(v))
    case 2: ROLE(x2, y2, v * v - 3.0f)
    case 3: ROLE(x3, y3, v / (1.0f + v))
    case 4: ROLE(x4, y4, fminf(v, 1.5f) * 0.3f)
    }
}

extern "C" __global__ void after(const float *y, float *z)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    z[i] = y[i] * 1.25f - y[i] * y[i];
}
