/* The table of modelled GPUs, and occupancy.
 *
 * The numbers are models.def's; here are the constants that all of them share (register file, 48 KB of shared memory without opt-in,
 * allocation units: CUDA occupancy calculator). Occupancy follows NVIDIA's calculator:
 *   - registers are given to a warp in units of 256, and a warp lives in one of four quarters of the SM;
 *   - shared memory of a block is rounded up to 128 bytes, 1 KB more is the system's;
 *   - threads are counted in whole warps.
 *
 * Clusters: SMs come in pairs (TPCs), shared out over 8 GPCs as evenly as goes (H100 white paper: 8 GPCs of up to 9 TPCs, 66 TPCs enabled;
 * which GPCs lack some differs from chip to chip).
 * Not modelled: carve-outs between L1 and shared memory (the largest is taken); clusters in the timing model.
 */
#include <string.h>

#include "softgpu/sg.h"

static const struct sg_model models[] = {
#define MODEL(id_, name_, maj, min, sms_, clk, mclk, bus, dram, l2, dgb, lgb, thr, blk, shsm, shopt, fp32, fp64, int_, sfu, lsu,   \
              tensor, launch, glaunch, event, bstart, dlat, llat, mcpy)                                                            \
    {.id = id_, .name = name_ " (modeled)", .cc_major = maj, .cc_minor = min, .sms = sms_, .clock_khz = clk,                       \
     .mem_clock_khz = mclk, .bus_bits = bus, .dram_bytes = dram, .l2_bytes = l2, .dram_gbps = dgb, .l2_gbps = lgb,                 \
     .max_threads_sm = thr, .max_blocks_sm = blk, .regs_sm = 65536, .regs_block = 65536, .max_regs_thread = 255,                   \
     .shared_sm = shsm, .shared_block = 48 * 1024, .shared_block_optin = shopt, .shared_reserved = 1024, .reg_unit = 256,          \
     .shared_unit = 128, .fp32_lanes = fp32, .fp64_lanes = fp64, .int_lanes = int_, .sfu_lanes = sfu, .lsu_lanes = lsu,            \
     .tensor_flops = tensor, .launch_us = launch, .graph_launch_us = glaunch, .event_us = event, .block_start_ns = bstart,         \
     .dram_latency_ns = dlat, .l2_latency_ns = llat, .memcpy_gbps = mcpy},
#include "softgpu/models.def"
#undef MODEL
};

const struct sg_model *sg_model_at(size_t i)
{
    return i < sizeof models / sizeof *models ? &models[i] : NULL;
}

const struct sg_model *sg_model_find(const char *id)
{
    if (!id || !*id)
        id = "h200";
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(models[i].id, id))
            return &models[i];
    return NULL;
}

static uint64_t round_up(uint64_t v, uint64_t unit)
{
    return unit ? (v + unit - 1) / unit * unit : v;
}

struct sg_occupancy sg_occupancy(const struct sg_model *m, uint32_t threads, uint32_t registers, uint32_t shared_bytes)
{
    struct sg_occupancy o = {0, "threads"};
    if (!threads || threads > 1024)
        return o;
    uint64_t warps = (threads + 31) / 32;
    uint64_t best = m->max_blocks_sm;
    o.limit = "blocks";

    uint64_t by_threads = m->max_threads_sm / (warps * 32);
    if (by_threads < best)
        best = by_threads, o.limit = "threads";

    if (registers) {
        uint64_t per_warp = round_up((uint64_t)registers * 32, m->reg_unit);
        uint64_t warps_fit = m->regs_sm / 4 / per_warp * 4; /* a warp's registers are in its own quarter */
        uint64_t by_regs = registers > m->max_regs_thread || per_warp * warps > m->regs_block ? 0 : warps_fit / warps;
        if (by_regs < best)
            best = by_regs, o.limit = "registers";
    }
    uint64_t shared = round_up((uint64_t)shared_bytes + m->shared_reserved, m->shared_unit);
    uint64_t by_shared = shared_bytes > m->shared_block_optin ? 0 : m->shared_sm / shared;
    if (by_shared < best)
        best = by_shared, o.limit = "shared";
    o.blocks_per_sm = (unsigned)best;
    return o;
}

unsigned sg_clusters(const struct sg_model *m, unsigned per_sm, unsigned size)
{
    enum { GPCS = 8 };
    unsigned pairs = m->sms / 2, n = 0;
    for (unsigned g = 0; g < GPCS && size; g++)
        n += 2 * (pairs / GPCS + (g < pairs % GPCS)) * per_sm / size;
    return n;
}
