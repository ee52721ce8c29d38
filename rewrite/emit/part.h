/* A part of a kernel: what is left of a body if it makes only some of its global stores (kinds/slice.c divides them).
 *
 *   reach.c           which bytes of shared memory each instruction touches, by walking the kernel thread by thread
 *   reach-groups.c    the same of products of warp groups
 *   reach-order.c     which stores to it a load can see, by their order
 *   faint.c           which instructions a part needs: those whose effect or value somebody can still see
 *   faint-threads.c   the same thread by thread, for parts whose stores are made by some of the threads
 */
#ifndef DT_REWRITE_PART_H
#define DT_REWRITE_PART_H

#include "rewrite/facts/facts.h"

struct rw_threads { /* those whose number has `value` in these bits; none: all threads */
    uint16_t bits, value;
};
static inline bool rw_is_among(struct rw_threads s, uint32_t thread) { return (thread & s.bits) == s.value; }

struct rw_span { /* bytes of shared memory that a thread may touch */
    uint32_t at;
    uint16_t thread, width;
};
enum rw_sight { RW_SEES_NOTHING, RW_SEES_REST, RW_SEES_ALL }; /* REST: but for the bytes that are covered */
enum { RW_REACH_CLASSES = 8 };

struct rw_reach {          /* of one body; in an arena */
    bool known;            /* the walk came to its end; else every access may touch everything */
    uint32_t size;         /* bytes of shared memory, as the body's layout has it (rw_body.shared_at) */
    uint8_t **touched;     /* by instruction: a bit for each byte that some thread may touch; NULL: see `anywhere` */
    bool *anywhere;        /* by instruction: it touches shared memory, and nobody knows where */
    uint32_t *deep;        /* by instruction: how many loops it is in, as far as branches back tell */
    struct rw_span **span; /* by instruction, by threads in their order; of one that has none, or if this is NULL, any
                            * thread may touch what is in `touched` */
    uint32_t *nspan;
    /* With spans: loads by what they see (reach-order.c). */
    uint8_t *class_of;                  /* by instruction */
    uint8_t *sight[RW_REACH_CLASSES];   /* by class and instruction: enum rw_sight, of stores to shared memory */
    uint8_t *covered[RW_REACH_CLASSES]; /* by class, bytes as bits: others wrote them, after all stores of which it sees
                                         * the rest */
    uint32_t nclass;
    bool *first; /* by instruction: it may be made before a barrier */
};
/* by_thread: with spans and classes. */
int rw_reach_of(struct dt_arena *a, const struct rw_body *b, bool by_thread, struct rw_reach *ret, struct dt_err *e);

struct rw_zero { /* a range of shared memory */
    uint32_t at, bytes;
};
enum { RW_ZEROS = 48 };
/* As how wide words it is written. Shared memory begins at a multiple of 16. */
static inline uint32_t rw_zero_width(const struct rw_zero *z)
{
    uint32_t odd = z->at | z->bytes;
    return odd % 16 == 0 ? 16 : odd % 4 == 0 ? 4 : 1;
}

struct rw_share {            /* what a part needs; all by instruction */
    uint8_t *keep;           /* 0 or 1 */
    struct rw_threads *only; /* who makes it, of what is kept. NULL: all do, and the next is NULL, too */
    uint32_t *run;           /* with `only`: where it is not 0, `only` of these threads make all from here to before
                              * instruction run[n], and others branch over it */
    uint64_t *reads;      /* the threads in which somebody needs what it reads there, rw_thread_words(b) words each */
    struct rw_zero *zero; /* with `only`: what is zeroed before, room for RW_ZEROS */
    uint32_t nzero;
};
static inline size_t rw_thread_words(const struct rw_body *b) { return b->threads / 64 + 1; }

/* A product of a warp group, and what says where such products begin and end (reach-groups.c). */
bool rw_is_group_product(const struct ptx_inst *i);
bool rw_is_group_order(const struct ptx_inst *i);
/* May the instruction be left to one of several parts? A plain store to global memory, whole. */
bool rw_is_part_store(const struct ptx_inst *i);
/* The instructions that are needed if of the stores above only those with mine[n] are made: keep[n] is 0 or 1. Both are
 * by instruction. */
int rw_faint(const struct rw_body *b, const struct rw_reach *r, const uint8_t *mine, uint8_t *keep, struct dt_err *e);
/* The same by threads, where rw_faint_can: of those stores only the threads `among` make theirs. *ret has room for all
 * that it has. */
int rw_faint_threads(const struct rw_body *b, const struct rw_reach *r, const uint8_t *mine, struct rw_threads among,
                     const struct rw_share *ret, struct dt_err *e);
/* What is to be zeroed of a part that is made so. 1: that cannot be. */
int rw_part_zero(const struct rw_body *b, const struct rw_reach *r, struct rw_share *part, struct dt_err *e);
bool rw_faint_can(const struct rw_body *b); /* it is not too large */
/* Can no instruction that is kept read a byte of shared memory that one that is not kept writes? False: the two. */
bool rw_part_reach(const struct rw_body *b, const struct rw_reach *r, const struct rw_share *part, uint32_t *ret_store,
                   uint32_t *ret_load);
/* About how long those instructions keep a thread busy, in no unit. */
double rw_part_weight(const struct rw_body *b, const struct rw_reach *r, const struct rw_share *part);

#endif
