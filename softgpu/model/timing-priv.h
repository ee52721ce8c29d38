/* Inside the simulation of modelled time: its state, for timing.c (events), cost.c (what a kernel costs) and place.c
 * (which blocks run where).
 */
#ifndef DT_SOFTGPU_TIMING_PRIV_H
#define DT_SOFTGPU_TIMING_PRIV_H

#include "base/vec.h"
#include "softgpu/sg.h"

#define SG_NO_INDEX UINT32_MAX

struct sg_spans;

struct sg_sim_kern { /* a kernel that runs, or a part of one */
    uint32_t work;
    const struct sg_talk *talk; /* whose blocks wait for each other, or are of two kinds; NULL: neither */
    uint32_t part, next;        /* of `talk`; the block that is placed next */
    bool each;                  /* they are followed one by one */
    uint64_t to_place, live;
    double issue, floor, l2, dram; /* per block: us, us, bytes, bytes */
    double dram_write;             /* of dram */
    double least;                  /* us of a block whose SM has nothing else to do */
    bool steady;                   /* nothing to wait for but arithmetic: no queues form */
    double dispatch;               /* us of what hands out blocks */
    double open_us;                /* when its first blocks begin */
    double hot;                    /* us of the L2 line in which most atomics meet */
    /* work of an ordinary block, of the heaviest, of one that leaves at once, 1 = the mean */
    double length, heavy, light;
    uint64_t nlight; /* how many of the last ones to place */
    /* parts of a block's work before it waits for prerequisites, before it lets dependents start */
    double prologue, trigger;
    bool heavy_placed, held;      /* held: it waits for prerequisites, as of the last step */
    uint64_t warps, regs, shared; /* what a block occupies */
    uint32_t cluster;             /* blocks that start together in one GPC */
};

struct sg_sim_group { /* blocks of one kernel that started together on one SM */
    uint32_t sm, kern, count, next;
    double left, rate, length;
    bool live;
    /* followed by itself: its number; of its waits, how many are over, and signals of the next one */
    uint32_t block, wait, met;
    double alone; /* its rate if nothing were short */
    double begin_us;
};

struct sg_sim_sm {
    uint64_t warps, regs, shared;
    uint32_t blocks, first;
};

struct sg_sim {
    const struct sg_model *m;
    struct sg_work *w;
    uint32_t n;
    double now, clocks_us, miss;
    bool followed; /* kernels have profiles; else costs are closed forms, and no limit is rounded off */
    double far;    /* 1: what is read may lie in the other half of the L2 */
    const struct sg_doubt *d;
    double l2_bytes; /* as the doubt has it */
    struct sg_sim_sm *sm;
    struct dt_vec(struct sg_sim_kern) kern;   /* running, in program order; finished ones stay until compacted */
    struct dt_vec(struct sg_sim_group) group; /* free ones are chained through next from free_group */
    uint32_t free_group, ngroup;
    uint32_t *waits, *out, *out_at; /* open dependencies; dependents in rows */
    uint8_t *state;                 /* enum state of timing.c */
    struct dt_vec(uint32_t) ready;  /* may start at w.start_us; or run until w.end_us (copies) */
    double *issue_at;               /* when the host has issued it */
    double *trigger_us;             /* when all its blocks had triggered; negative: not yet */
    uint8_t **ended;                /* by work, of those whose blocks are followed: by block */
    uint32_t done;
    struct sg_spans *spans; /* where blocks ran, for who wants to see it; NULL: nobody does */
};

static inline double max2(double a, double b) { return a > b ? a : b; }

/* timing.c: the part of accesses that misses the L2, of a footprint of so many L2 sizes. */
double sg_sim_miss(const struct sg_model *m, double x);
/* timing.c: is the dependency of work w on its `after[k]` a programmatic one? */
bool sg_sim_early(const struct sg_sim *s, const struct sg_work *w, uint32_t k);
/* cost.c: work i, a kernel, begins: its blocks are there to be placed. DT_E_LAUNCH: none of them fits an SM. */
int sg_sim_start(struct sg_sim *s, uint32_t i);
/* place.c: give every SM what fits, the emptiest first, kernels in program order. */
int sg_sim_place(struct sg_sim *s);
/* timing.c: sg_timeline_of; spans: NULL, or what sg_sim_ended fills. */
int sg_sim_run(const struct sg_model *m, struct sg_work *w, uint32_t n, double distinct, const struct sg_doubt *d,
               struct sg_spans *spans);
/* spans.c: the blocks of a group are through now. */
void sg_sim_ended(struct sg_sim *s, uint32_t work, const struct sg_sim_group *g);

#endif
