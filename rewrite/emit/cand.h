/* A candidate: launches that may become one, from their facts to the kernel. */
#ifndef DT_REWRITE_CAND_H
#define DT_REWRITE_CAND_H

#include "rewrite/emit/part.h"
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

struct rw_redirect { /* an intermediate that lives in shared memory (fit.c), or is passed on in registers (inline/) */
    uint32_t buffer;
    bool keep_global;    /* the producer's store to global memory stays: another reader, or live-out */
    struct ana_set gone; /* or the buffer does, without these bytes: the producer's, where others left the rest */
    bool drop_arg;       /* no access to the buffer remains: its addresses are computed from 0 */
    uint64_t args[2];    /* argument bits per body */
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

/* Three parts, filled from left to right; what a part says is not changed by those behind it:
 *
 *   facts    what is read off the posted graph: rw_cand_open, rw_cand_init; rw_identity puts in explicit forms
 *   a level  how the launches are to be joined. A kind says which (level, size) and, where it has no pair, which blocks
 *            run (lists, beside, flow); rw_inline_may fills in `in`, rw_cluster_lists `cluster` and `lists`, rw_fit the
 *            redirections, rw_abreast and rw_layout threads and shared memory. Trying another level writes it again
 *   made     the kernel: rw_join or rw_inline_apply, and rw_resources. Read by those who make a launch of it
 */
struct rw_made {
    struct dt_str ptx;
    char entry[128];              /* "fused_gemm_gelu": the same for equal pairs, so that equal pairs give equal text */
    uint64_t arg_keep[RW_BODIES]; /* arguments of each body that the fused entry takes (bit i; those past 63 always) */
    bool *arg_same[RW_BODIES];    /* by argument: an earlier body has the same one */
    bool zero_word;               /* and one more at the end: the zero word of the joint (inline/cross.c) */
    struct dev_resources res;
};

struct rw_cand {
    struct dt_arena arena; /* of all that hangs off it */
    struct rw_facts facts;

    enum rw_level level;
    /* which blocks of each body a fused block runs: facts.comps, or at level `cluster` by rank, or what the kind
     * says */
    struct rw_comps lists;
    /* bodies side by side, each in blocks of its own: where body s begins, nbody + 1 numbers; NULL: one after the
     * other */
    uint32_t *beside;
    const struct rw_share *shares;  /* by body: what is left of it (part.h), keep NULL: all; NULL: all of all bodies */
    struct rw_flow *flow;           /* bodies side by side that wait for each other (flow.h); NULL: they do not */
    uint32_t size;                  /* what level `cluster` is to take; 0: it is not for this pair */
    uint32_t cluster;               /* so many blocks run a component, `lists` is by rank; else 0 */
    struct rw_inline *in, *seen[2]; /* levels `register`: inline-priv.h; by host, what was found out */
    struct rw_redirect *redirect;
    uint32_t nredirect;
    struct dt_str no_redirect;   /* why intermediates stay in global memory */
    uint32_t threads;            /* of the fused block */
    uint32_t abreast[RW_BODIES]; /* how many of its blocks a phase runs at once */
    bool narrow;                 /* no more threads than the largest body has */
    /* so many blocks of the one body side by side in one, each with barriers and shared memory of its own; 0: not so */
    uint32_t pack, pack_step; /* pack_step: bytes from one's shared memory to the next one's */
    uint32_t resident;        /* so many blocks are to fit an SM: ptxas is told; 0: as many as do */
    uint32_t shared_bytes, shared_align;
    bool shared_dynamic;

    struct rw_made made;
};
/* Do intermediates live in shared memory, by c->redirect? */
static inline bool rw_in_shared(const struct rw_cand *c)
{
    return c->level == RW_LEVEL_SHARED || c->level == RW_LEVEL_CLUSTER;
}

#endif
