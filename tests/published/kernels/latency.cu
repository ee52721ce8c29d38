/* A pointer chase by one block of 64 threads, all with the same addresses (gpu-latency, te42kyfo/gpu-benches 1c36d50):
 * one load of 8 bytes in every 64, each line once in a round. The source's buffer holds a random cycle of addresses;
 * here the memory is 0, and the next address is the loaded word plus one that is known before: lines of a group of 32
 * (2 kB) in a fixed order, groups in strides of `step`, which has no common divisor with `groups`. That costs one
 * addition a load more than the source's, and a few instructions in 32 loads. */
extern "C" __global__ void chase(const unsigned long long *base, unsigned long long *out, unsigned groups,
                                 unsigned step, unsigned loads)
{
    unsigned long long got = 0;
    unsigned group = 0;
#pragma unroll 1
    for (unsigned n = 0; n < loads; n += 32) {
        const char *p = (const char *)base + (unsigned long long)group * 2048;
#pragma unroll
        for (unsigned k = 0; k < 32; k++)
            got = *(const unsigned long long *)(p + got + (k * 13 + 5) % 32 * 64);
        group += step;
        group -= group >= groups ? groups : 0;
    }
    if (threadIdx.x > 12313)
        out[0] = got;
}
