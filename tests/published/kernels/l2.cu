/* Blocks of 1,024 threads read 64 doubles a thread; block k reads what block k mod `parts` reads, so that the launch's
 * footprint is parts x 512 kB (gpu-l2-cache, te42kyfo/gpu-benches). What a block reads lies in pieces, parts x 8 kB
 * (or 16 kB) apart. */
enum { THREADS = 1024, EACH = 64 };

/* as of commit 3088b33: two loads and one multiply-add a step */
extern "C" __global__ void l2_fma(double *__restrict__ out, const double *__restrict__ in, int parts)
{
    double sum = 0;
    for (int k = 0; k < EACH / 2; k++) {
        int i = 2 * (blockDim.x * parts * k + blockIdx.x % parts * THREADS) + threadIdx.x;
        sum += in[i] * in[i + THREADS];
    }
    sum *= 1.3;
    if (threadIdx.x > 1233 || sum == 23.12)
        out[threadIdx.x] += sum;
}

/* as of commit f54baaa, before that: one load and one add a step */
extern "C" __global__ void l2_add(double *__restrict__ out, const double *__restrict__ in, int parts)
{
    double sum = 0;
    for (int k = 0; k < EACH; k++)
        sum += in[blockDim.x * parts * k + blockIdx.x % parts * THREADS + threadIdx.x];
    sum *= 1.3;
    if (threadIdx.x > 1233 || sum == 23.12)
        out[threadIdx.x] += sum;
}
