/* What reach.c and reach-values.c share: a walk through a kernel, and the values that its registers have. */
#ifndef DT_REWRITE_REACH_PRIV_H
#define DT_REWRITE_REACH_PRIV_H

#include "rewrite/emit/part.h"

#define RW_REACH_PATHS 64
#define RW_REACH_ROUNDS 4 /* of a loop that are remembered: buffers of a pipeline take turns */
#define RW_REACH_UNKNOWN UINT32_MAX

struct rw_value {
    uint64_t v;   /* the low bits of its register count */
    uint32_t mem; /* 0: a number; k + 1: an offset in shared_var[k]; RW_REACH_UNKNOWN */
};
struct rw_path {
    uint32_t at;
    struct rw_value *reg; /* by slot */
};
struct rw_rounds {        /* a thread's last states at a branch back */
    struct rw_value *reg; /* RW_REACH_ROUNDS times all slots */
    unsigned seen;
};
struct rw_spans { /* of one instruction */
    struct dt_vec(struct rw_span) v;
    bool many;
};
struct rw_walk {
    const struct rw_body *b;
    const struct ptx_function *f;
    struct rw_reach *ret;
    uint32_t *slot;           /* by register: + 1; 0: it does not matter */
    uint32_t nslot, naddress; /* the first ones are what addresses are made of; the others say where the walk goes */
    uint32_t *back, nback;    /* by instruction: number of the branch back that it is, + 1 */
    struct rw_rounds *rounds; /* by that number */
    bool every;               /* all rounds of loops are walked */
    uint8_t *event;           /* by instruction: what it is to the walk */
    uint32_t *next;           /* by instruction: the first one from here on at which something happens */
    uint32_t *target;         /* by label: its place */
    struct rw_spans *spans;   /* by instruction; NULL: they are not asked for */
    uint32_t thread, tid[3];
    bool whole;            /* it is the walk of a whole block (uniform.c): thread numbers are not known */
    const uint32_t *ctaid; /* and its numbers are; NULL: they are not */
    struct rw_path path[RW_REACH_PATHS];
    struct rw_value *room; /* of all paths */
    unsigned npath;
    uint64_t steps;
    bool lost;
};

static inline uint64_t rw_low_bits(uint64_t v, unsigned bits)
{
    return bits >= 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}
static inline struct rw_value rw_value_unknown(void) { return (struct rw_value){0, RW_REACH_UNKNOWN}; }
/* The address of a shared variable, and so many bytes on. */
struct rw_value rw_value_of_var(const struct rw_walk *w, const struct ptx_var *v, int64_t off);
/* What the instruction puts into its only destination. */
struct rw_value rw_value_of(const struct rw_walk *w, const struct rw_path *p, const struct ptx_inst *i);

#endif
