/* A block's stores divided among several blocks (parts.c), for the kinds `slice` and `tails`. */
#ifndef DT_REWRITE_KINDS_PARTS_H
#define DT_REWRITE_KINDS_PARTS_H

#include "rewrite/emit/part.h"
#include "rewrite/emit/solo.h"
#include "rewrite/kinds/kinds-priv.h"

enum { RW_PART_LEVELS = 4, RW_PARTS = 1 << RW_PART_LEVELS };
extern const char *const rw_part_levels[]; /* level l: 2 << l parts */

struct rw_parts {
    struct rw_cand one, all; /* the launch as it is; its parts side by side */
    struct rw_reach reach;
    uint32_t *store, nstore;                /* instructions that are divided */
    double whole, heaviest[RW_PART_LEVELS]; /* what a block has to do, rw_part_weight */
    bool by_thread;                         /* threads may have parts of a store; shares say who makes what */
    uint32_t bits[RW_PART_LEVELS];          /* of a store's number and a thread's: which part the store is in there */
    struct rw_share part[RW_PART_LEVELS][RW_PARTS]; /* keep NULL: there are no such parts */
    bool legal;                                     /* the rows hold, and its arithmetic can be kept */
    bool by_rounds; /* of slice.c: rounds of a loop are divided, not stores; and the kernel, to be changed */
    struct rw_solo solo;
    uint32_t heavy; /* blocks of the larger parts, if there are two sizes; else 0 */
    unsigned best;  /* of tails.c: the level that divides all blocks; 0: none */
};

/* Has the kernel two stores that could be divided, or one of a tile that threads have parts of? */
bool rw_parts_divisible(const struct ptx_function *f);
/* Facts, legality and the division of x's launch. share: of its time, what the parts can shorten. As open() of a kind;
 * m is all zero before. */
int rw_parts_open(struct rw_edit *x, struct rw_parts *m, double share, enum rw_verdict *ret_verdict, struct dt_str *why,
                  struct dt_err *e);
/* Is the level worth making for so many blocks, and does each store belong to one part? False: `why`. */
bool rw_parts_level(const struct rw_parts *m, unsigned level, uint32_t blocks, struct dt_str *why);
/* m->all: all blocks in 1 << main parts, which makes them so many times as many; the first `whole` of these stay, the
 * others are in the smaller parts of `level`, one part after the other. main = 0: in no parts. */
int rw_parts_beside(struct rw_edit *x, struct rw_parts *m, unsigned main, unsigned level, uint32_t whole,
                    struct dt_err *e);
/* Its kernel, named WORD_…, as a part of x under the launch's name. 1: refused, `why` says so. */
int rw_parts_text(struct rw_edit *x, struct rw_parts *m, const char *word, struct dt_str *why, struct dt_err *e);
/* made_well() of a kind: no two blocks of the new launch touch a byte in conflict. */
bool rw_parts_apart(const struct rw_edit *x, const struct rw_state *next, struct dt_str *why);
void rw_parts_close(struct rw_edit *x); /* x->mine is a struct rw_parts, or NULL */

#endif
