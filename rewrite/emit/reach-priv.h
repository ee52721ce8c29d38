/* What reach.c and reach-values.c share: a walk through a kernel, and the values that its registers have. */
#ifndef DT_REWRITE_REACH_PRIV_H
#define DT_REWRITE_REACH_PRIV_H

#include "rewrite/emit/part.h"

#define RW_REACH_PATHS 64
#define RW_REACH_ROUNDS 4 /* of a loop that are remembered: buffers of a pipeline take turns */
#define RW_REACH_UNKNOWN UINT32_MAX
#define RW_REACH_SIXTEENTHS (UINT32_C(1) << 30)

struct rw_value {
    uint64_t v;   /* the low bits of its register count */
    uint32_t mem; /* 0: a number; k + 1: an offset in shared_var[k]; the same with RW_REACH_SIXTEENTHS: 16 bytes are 1,
                   * and v may have a multiple of 2^14 more (reach-groups.c); RW_REACH_UNKNOWN */
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
struct rw_told { /* a value that a warp's first lane gives the others, the same whenever it does */
    struct rw_value v;
    bool some;
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
    struct rw_told *told;     /* by instruction */
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
uint64_t rw_value_room(const struct rw_walk *w, uint32_t mem);
/* The thread touches those bytes, too. */
void rw_reach_span(struct rw_walk *w, uint32_t n, uint32_t at, uint32_t width);
/* reach-groups.c: what a product of a warp group reads; false: it may be anything. */
bool rw_groups_touch(struct rw_walk *w, const struct rw_path *p, uint32_t n);
/* A place in sixteenths; that without some bits, or with some above it. */
struct rw_value rw_value_sixteenths(const struct rw_walk *w, struct rw_value x);
struct rw_value rw_value_masked(const struct rw_walk *w, struct rw_value x, uint64_t mask, unsigned bits);
struct rw_value rw_value_topped(const struct rw_walk *w, struct rw_value x, uint64_t top, unsigned bits);
/* What a shuffle gives, if it gives all lanes of a warp what the first one has. */
struct rw_value rw_value_of_first_lane(struct rw_walk *w, const struct rw_path *p, uint32_t n);
/* What the instruction puts into its only destination. */
struct rw_value rw_value_of(const struct rw_walk *w, const struct rw_path *p, const struct ptx_inst *i);

#endif
