/* What each instruction of a decoded kernel costs on the machine; costs.c. */
#ifndef DT_SOFTGPU_COSTS_H
#define DT_SOFTGPU_COSTS_H

#include "softgpu/state/state.h"

/* How profile.c follows an instruction. COPY: cp.async; COMMIT: a group of copies; WAIT: for groups; MATRIX: ldmatrix,
 * stmatrix; FRAGMENT: wmma.load, wmma.store; PRODUCT: mma, wmma.mma; ARRIVE, MEET: at a cluster's barrier. */
enum sg_cost_kind {
    SG_COST_PLAIN,
    SG_COST_LOAD,
    SG_COST_STORE,
    SG_COST_ATOM,
    SG_COST_RED,
    SG_COST_COPY,
    SG_COST_COMMIT,
    SG_COST_WAIT,
    SG_COST_MATRIX,
    SG_COST_FRAGMENT,
    SG_COST_PRODUCT,
    SG_COST_ARRIVE,
    SG_COST_MEET,
    SG_COST_BARRIER,
    SG_COST_FENCE,
    SG_COST_BRANCH
};

struct sg_cost {
    uint8_t slots[SG_PIPES], total; /* machine instructions, by pipe */
    uint8_t kind, reads, writes, vec;
    bool uniform; /* every thread of a block computes the same, as the assembler can see */
    bool strong;  /* volatile, relaxed or acquire */
    bool release, acquire, relaxed;
    bool bypass;   /* the L1 */
    bool branches; /* to a slow path: it does not overlap with others */
    /* of a load that the assembler joins with others: bytes of all, from `back` bytes before its own on; that it is
     * done by another one (joins.c) */
    uint8_t joined, back;
    bool absorbed;
    unsigned latency;   /* clocks until the result is there; of loads: profile.c */
    uint32_t reg, dest; /* where its `reads` and `writes` begin in sg_costs.reg */
};

struct sg_costs {
    const struct sg_constants *k;
    struct sg_cost *inst; /* by code->src */
    uint8_t *first;       /* by operation: it is the first one of its instruction */
    uint8_t *plain; /* by operation: how many there are from it on, in a row, of which only time and slots count */
    uint16_t (*slots)[SG_PIPES]; /* by operation: of the plain ones from it on; at 0 where there are none */
    uint8_t *rolled;             /* by basic block: a loop that ptxas is told not to unroll begins here */
    struct dt_vec(uint32_t) reg;
    uint32_t nreg;
    bool atomics; /* the code has some */
};

/* bb: the handler that begins basic blocks; k stays the caller's. NULL: memory is out. */
struct sg_costs *sg_costs_new(const struct sg_code *code, sg_fn bb, const struct sg_constants *k);
struct sg_costs *sg_costs_free(struct sg_costs *c);
/* joins.c: loads that the assembler makes one. False: memory is out. */
bool sg_costs_join(struct sg_costs *c, const struct sg_code *code);

#endif
