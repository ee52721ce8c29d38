/* Many blocks of little or no work. Rows: ../blocks.tsv. */

extern "C" __global__ void nothing(void)
{
}

/* `turns` turns of eight independent multiply-adds a thread; no store happens */
extern "C" __global__ void eight(float *out, int turns)
{
    float a[8];
    for (int j = 0; j < 8; j++)
        a[j] = threadIdx.x + j;
#pragma unroll 1
    for (int i = 0; i < turns; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(a[j]) : "f"(1.0001f), "f"(0.0001f));
    float s = 0;
    for (int j = 0; j < 8; j++)
        s += a[j];
    if (s == -42.0f)
        out[blockIdx.x] = s;
}

/* the same with four chains, the loop unrolled as compilers do by themselves */
extern "C" __global__ void four(float *out, int turns)
{
    float a[4];
    for (int j = 0; j < 4; j++)
        a[j] = threadIdx.x + j;
#pragma unroll 4
    for (int i = 0; i < turns; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(a[j]) : "f"(1.0001f), "f"(0.0001f));
    float s = a[0] + a[1] + a[2] + a[3];
    if (s == -42.0f)
        out[blockIdx.x] = s;
}
