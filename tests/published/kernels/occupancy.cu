/* Streams of doubles, one element a thread, with shared memory that lets two blocks into an SM
 * (gpu-stream, te42kyfo/gpu-benches 1c36d50). `never` is 0: the shared memory must look used. Grid: n / block + 1. */
extern __shared__ double hold[];

#define BEGIN                                                                                                          \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                                                     \
    if (i >= n)                                                                                                        \
        return;                                                                                                        \
    if (never)                                                                                                         \
        hold[threadIdx.x] = b[threadIdx.x];
#define END                                                                                                            \
    if (never)                                                                                                         \
        a[i] = hold[i];

/* one store */
extern "C" __global__ void stream_init(double *a, const double *__restrict__ b, unsigned long long n, int never)
{
    BEGIN
    a[i] = 0.23;
    END
}

/* one load */
extern "C" __global__ void stream_read(double *a, const double *__restrict__ b, unsigned long long n, int never)
{
    BEGIN
    double v = b[i];
    if (never || v == 123.0)
        a[i] = v + hold[i];
}

/* one load, one store */
extern "C" __global__ void stream_scale(double *a, const double *__restrict__ b, unsigned long long n, int never)
{
    BEGIN
    a[i] = 1.2 * b[i];
    END
}

/* two loads, one store */
extern "C" __global__ void stream_triad(double *a, const double *__restrict__ b, const double *__restrict__ c,
                                        unsigned long long n, int never)
{
    BEGIN
    a[i] = 1.2 * b[i] + c[i];
    END
}

/* three loads of neighbours, one store */
extern "C" __global__ void stream_3pt(double *a, const double *__restrict__ b, unsigned long long n, int never)
{
    if (blockIdx.x + threadIdx.x == 0)
        return;
    n--;
    BEGIN
    a[i] = 0.5 * b[i - 1] - b[i] + 0.5 * b[i + 1];
    END
}

/* five loads of neighbours, one store */
extern "C" __global__ void stream_5pt(double *a, const double *__restrict__ b, unsigned long long n, int never)
{
    if (blockIdx.x == 0 && threadIdx.x < 2)
        return;
    n -= 2;
    BEGIN
    a[i] = 0.25 * b[i - 2] + 0.25 * b[i - 1] - b[i] + 0.5 * b[i + 1] + 0.5 * b[i + 2];
    END
}
