/* A scaled copy of doubles, one element a thread, as queued thousands of times by gpu-small-kernels
 * (te42kyfo/gpu-benches 1c36d50). Grid: n / block + 1. */
extern "C" __global__ void chain_scale(double *__restrict__ to, const double *__restrict__ from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = 0.25 * from[i];
}
