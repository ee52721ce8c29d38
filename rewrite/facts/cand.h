/* A candidate: launches that may become one, from their facts to the kernel. */
#ifndef DT_REWRITE_CAND_H
#define DT_REWRITE_CAND_H

#include "rewrite/facts/facts.h"

struct rw_flow;
struct rw_inline;

enum rw_level {                    /* nearest first */
                RW_LEVEL_EPILOGUE, /* `register`: the consumer inlined where the producer stores */
                RW_LEVEL_PROLOGUE, /* `register`: the producer inlined where the consumer loads */
                RW_LEVEL_SHARED,
                RW_LEVEL_CLUSTER, /* in the shared memory of the blocks of a cluster */
                RW_LEVEL_GLOBAL,
};
const char *rw_level_text(enum rw_level l);
#define RW_CLUSTER_MAX 16 /* more than 8 blocks are not portable: their launch has an attribute for it */

struct rw_redirect {
    uint32_t buffer;
    bool keep_global;            /* the producer's store to global memory stays: another reader, or live-out */
    bool drop_arg;               /* no access to the buffer remains: its addresses are computed from 0 */
    uint64_t args[2];            /* argument bits per body */
    uint32_t width, pitch, rows; /* bytes; pitch 0: contiguous */
    uint32_t bytes;              /* of shared memory */
    uint32_t at;                 /* offset in the block's shared memory */
    bool base_affine;
    uint32_t base_a, base_b; /* base(k) = a + b * k, modulo 2^32 */
    uint32_t *base;          /* per component (level `cluster`: per rank), low 32 bits */
    /* level `cluster`: rank r < owners has what lies at base(k) + r * step; step is less than the pitch, or some of it
     * (by_rows) */
    uint32_t owners, step;
    bool by_rows;
    bool own; /* each rank's consumers keep to what its own producers wrote: plain shared memory */
};

struct rw_cand {
    struct dt_arena arena;
    const struct dev_info *dev;
    const struct dev_prog *prog;
    const struct ana_result *ana;
    const struct rw_options *opt;
    const struct ana_edge *edge;
    /* other launches whose reads do not keep an intermediate in global memory (recompute), NULL: none */
    const uint32_t *set;
    uint32_t nset;
    uint32_t nbody; /* 2 where there is an edge */
    /* bodies side by side, each in blocks of its own: where body s begins, nbody + 1 numbers; NULL: one after the
     * other */
    uint32_t *beside;
    struct rw_flow *flow;       /* bodies side by side that wait for each other (flow.h); NULL: they do not */
    uint32_t launch[RW_BODIES]; /* producer, consumer; or what runs side by side */
    struct rw_body body[RW_BODIES];
    struct ptx_module *own[RW_BODIES]; /* where the body is not the program's entry but its explicit form */
    bool open[RW_BODIES];              /* its products stay without .rn: no sum can meet them (device/identity.c) */
    struct rw_comps comps;
    /* level `cluster`: so many blocks run a component, `comps` is by rank and `whole` by component; else 0 */
    uint32_t cluster;
    struct rw_comps whole;
    uint32_t size; /* what level `cluster` is to take; 0: it is not for this pair */
    enum rw_level level;
    struct rw_inline *in, *seen[2]; /* levels `register`: inline-priv.h; by host, what was found out */
    struct rw_redirect *redirect;
    uint32_t nredirect;
    struct dt_str no_redirect;   /* why intermediates stay in global memory */
    uint32_t threads;            /* of the fused block */
    uint32_t abreast[RW_BODIES]; /* how many of its blocks a phase runs at once */
    bool narrow;                 /* no more threads than the largest body has */
    uint32_t shared_bytes, shared_align;
    bool shared_dynamic;
    /* the result */
    struct dt_str ptx;
    char entry[128];              /* "fused_gemm_gelu": the same for equal pairs, so that equal pairs give equal text */
    uint64_t arg_keep[RW_BODIES]; /* arguments of each body that the fused entry takes (bit i; those past 63 always) */
    bool *arg_same[RW_BODIES];    /* by argument: an earlier body has the same one */
    bool zero_word;               /* and one more at the end: the zero word of the joint (inline.c) */
    struct dev_resources res;
};
/* Do intermediates live in shared memory, by c->redirect? */
static inline bool rw_in_shared(const struct rw_cand *c)
{
    return c->level == RW_LEVEL_SHARED || c->level == RW_LEVEL_CLUSTER;
}

/* the arguments, by side, are addresses and nothing else */
bool rw_args_whole(const struct rw_cand *c, const uint64_t args[2]);
/* The size of the clusters that a body uses itself; 0: none does. */
uint32_t rw_cluster_own(const struct rw_cand *c);
/* Do blocks of two clusters of body s touch a byte in conflict? */
bool rw_cluster_conflict(const struct rw_cand *c, uint32_t s);

#endif
