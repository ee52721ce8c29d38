/* A pointwise kernel (the guest) inlined where another (the host) stores or loads the element that the two share: inline-map.c finds
 * out what holds, inline.c emits. */
#ifndef DT_REWRITE_INLINE_PRIV_H
#define DT_REWRITE_INLINE_PRIV_H

#include "rewrite/rewrite-priv.h"

struct rw_digit { /* offset = origin + sum of step * number: one thread or block number of the guest */
    bool block;    /* of ctaid, else of tid */
    int comp;      /* x, y, z */
    uint64_t step; /* bytes; 0: it is always 0 */
    bool down;     /* it counts down as the offset goes up */
    uint32_t n;    /* numbers below n occur */
};

enum rw_inline_no {
#define INLINE(NAME, text) RW_NO_##NAME,
#include "rewrite/legal.def"
    RW_NO_COUNT
};

struct rw_inline {
    int host, guest; /* sides; host 0: the guest is an epilogue, at stores, host 1: a prologue, at loads */
    uint32_t buffer; /* the one that the element is in */
    uint64_t args[2];
    uint32_t elem, comps; /* bytes of one component of the guest's access, how many: what one thread has */
    int64_t origin;       /* byte offset where every digit is 0; there need be no such thread */
    struct rw_digit digit[6]; /* largest step first */
    unsigned ndigit;
    bool partial;    /* the host stores elements that no thread of the guest has, too */
    bool in_place;   /* the guest writes the element back where it was */
    bool keep_store; /* the host's store stays */
    bool drop_arg;   /* no access to the buffer remains */
    char *no[RW_NO_COUNT]; /* why not, one sentence; NULL: it holds */
};

/* Everything but the text: fills c->in. A condition that does not hold is in no[], those after it may be missing. */
int rw_inline_look(struct rw_cand *c, int host, struct dt_err *e);
/* Is this instruction of the body one of those that the element passes through? */
bool rw_inline_joint(const struct rw_cand *c, int side, const struct ptx_inst *i);
/* The kernel, into c->ptx. */
int rw_inline_join(struct rw_cand *c, struct dt_err *e);

#endif
