/* The least time that works can take on a GPU: what they must move once, and what they must compute, at the rates that
 * nothing exceeds. What is between this and their modelled time is launches, latency, idle places, what is moved twice,
 * index arithmetic, shared memory and barriers.
 *
 *   traffic      bytes / what the L2 gives, and what of them the L2 cannot hold / what DRAM gives for long: the larger
 *   arithmetic   of FMA and FP64 pipes and of tensor cores the one that is busiest, on all SMs
 *
 * A warm L2 is assumed, as in all modelled times of graphs. Arithmetic is that of floating-point numbers: a rewrite may
 * save integers, conversions and whatever else addresses are made of. Works that ran in part have their counts scaled.
 */
#include "softgpu/sg.h"

static double bound_more(double a, double b) { return a > b ? a : b; }

static double traffic(const struct sg_model *m, double bytes)
{
    double l2 = bytes / (m->l2_gbps * 1000),
           dram = (bytes - (double)m->l2_bytes) / (m->dram_gbps * m->dram_sustained * 1000);
    return bound_more(l2, dram);
}

double sg_bound(const struct sg_model *m, const struct sg_work *w, uint32_t n, double bytes)
{
    double fma = 0, fp64 = 0, tensor = 0, sum = 0, clocks = (double)m->sms * m->clock_khz / 1000;
    for (uint32_t i = 0; i < n; i++) {
        const struct sg_stats *st = &w[i].stats;
        const struct sg_profile *p = &st->profile;
        if (w[i].kind != SG_WORK_KERNEL) {
            sum += (double)w[i].bytes;
            continue;
        }
        bool followed = p->alone_near > 0;
        fma += followed ? (double)p->slots[SG_PIPE_FMA] * 32 : (double)st->fp32;
        fp64 += followed ? (double)p->slots[SG_PIPE_FP64] * 32 : (double)st->fp64;
        tensor += p->tensor ? (double)p->tensor : (double)st->tensor_flops;
        sum += (double)st->unique_read_bytes + (double)st->unique_write_bytes;
    }
    double us = traffic(m, bytes < 0 ? sum : bytes);
    if (m->fp32_lanes > 0)
        us = bound_more(us, fma / m->fp32_lanes / clocks);
    if (m->fp64_lanes > 0)
        us = bound_more(us, fp64 / m->fp64_lanes / clocks);
    if (m->tensor_flops > 0)
        us = bound_more(us, tensor / m->tensor_flops / clocks);
    return us;
}
