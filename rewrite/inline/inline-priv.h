/* Inside inline/: a pointwise kernel (the guest) inlined where another (the host) stores or loads the shared element.
 *
 * map.c finds out what holds and fills in struct rw_inline. threads.c says which thread has which element, loop.c and
 * slice.c which part of the guest's text each element needs, merge.c which of these parts are one text. inline.c reads
 * struct rw_inline and emits the kernel.
 */
#ifndef DT_REWRITE_INLINE_PRIV_H
#define DT_REWRITE_INLINE_PRIV_H

#include "rewrite/emit/join.h"
#include "rewrite/inline/inline.h"

/* A number of the guest: thread, block, which of a thread's elements, which round of its loop. */
enum rw_number { RW_TID, RW_CTAID, RW_SLOT, RW_ROUND };
struct rw_digit { /* offset = origin + sum of step * number */
    enum rw_number of;
    int comp;        /* x, y, z */
    unsigned weight; /* RW_SLOT: the slot's number is the sum of weight * number */
    uint64_t step;   /* bytes; 0: it is always 0 */
    bool down;       /* it counts down as the offset goes up */
    uint32_t n;      /* numbers below n occur */
};

enum rw_inline_no {
#define INLINE(NAME, text) RW_NO_##NAME,
#include "rewrite/legal.def"
    RW_NO_COUNT
};

/* The shared buffer is passed on in units: so many elements of `elem` bytes side by side. What a thread of the guest
 * has is one or more slots of a unit each. */
#define RW_SLOTS 64
#define RW_DIGITS 12
struct rw_joint { /* an instruction of the guest that the units pass through */
    uint32_t inst;
    uint8_t comps;   /* elements it moves */
    uint8_t slot[8]; /* of each unit of it */
};

struct rw_induction {  /* a register of the loop that each round adds something to */
    uint32_t reg, add; /* the add: [reg or a copy of it], reg, what */
};
/* a constant of a slice that is its group's template: operand `opnd` (an address: its offset) of instruction `inst` */
struct rw_param {
    uint32_t inst;
    unsigned opnd;
    int64_t base, by[RW_DIGITS]; /* base + sum of by * digit */
};
struct rw_group {  /* slots whose slices are one text (inline/merge.c) */
    unsigned slot; /* whose slice stands for them */
    uint64_t members;
    struct rw_param *param;
    unsigned nparam;
};

struct rw_inline {
    int host, guest; /* sides; host 0: the guest is an epilogue, at stores, host 1: a prologue, at loads */
    uint32_t buffer; /* the one that the element is in */
    uint64_t args[2];
    uint32_t elem, unit; /* bytes of an element; elements of a unit */
    struct rw_joint *joint;
    unsigned njoint;
    unsigned nslot;
    int64_t at[RW_SLOTS]; /* what each slot's offsets begin at; ascending */
    uint32_t loop;        /* that the elements are in: 1 + the first instruction of its header; 0: none */
    bool *in_loop;        /* per instruction of the guest */
    struct rw_induction *induction;
    unsigned ninduction;
    /* per slot: per instruction of the guest, which components stay (inline/slice.c); NULL: all of it */
    uint8_t **slice;
    struct rw_group *group;
    unsigned ngroup;
    uint8_t slot_group[RW_SLOTS];
    int64_t origin;                   /* byte offset where every digit is 0; there need be no such thread */
    struct rw_digit digit[RW_DIGITS]; /* largest step first */
    unsigned ndigit;
    bool partial;          /* the host stores elements that no thread of the guest has, too */
    bool in_place;         /* the guest writes the element back where it was */
    bool keep_store;       /* the host's store stays */
    bool drop_arg;         /* no access to the buffer remains */
    char *no[RW_NO_COUNT]; /* why not, one sentence; NULL: it holds */
};

/* Find out everything but the text: fills c->in. A condition that does not hold is in no[]; conditions behind it may
 * not have been looked at. */
int rw_inline_look(struct rw_cand *c, int host, struct dt_err *e);
/* Is this instruction of the body one of those that the element passes through? */
bool rw_inline_joint(const struct rw_cand *c, int side, const struct ptx_inst *i);

/* ---- between the files of inline/map.c --------------------------------------------------------------------------- */
struct rw_uses { /* of one buffer by one launch */
    struct ana_set read, write, must;
};
struct rw_uses rw_inline_uses(const struct rw_cand *c, int side, uint32_t buffer, struct dt_arena *a);
/* Note that condition k does not hold; the first sentence stays. Does nothing if the condition is switched off. */
void rw_no(struct rw_cand *c, enum rw_inline_no k, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool rw_refused(const struct rw_inline *n);
const char *rw_launch_name(const struct rw_cand *c, int side);
/* ana_trace_launch; if there is no trace, row `k` says so. */
int rw_inline_trace(struct rw_cand *c, int side, enum rw_inline_no k, ana_trace_fn fn, void *user, struct dt_err *e);
int rw_inline_threads(struct rw_cand *c, struct dt_arena *a, struct dt_err *e); /* slots, digits, slices */
int rw_inline_slices(struct rw_cand *c, struct dt_arena *a, struct dt_err *e);
int rw_inline_loop(struct rw_cand *c, struct dt_arena *a, struct dt_err *e); /* the loop's text: in_loop, induction */
/* Is the instruction a branch to the next round? */
bool rw_inline_again(const struct rw_inline *n, const struct ptx_function *f, uint32_t inst);
/* Is all that a slice carries from round to round an induction? `need`: registers that it reads. */
int rw_inline_carried(struct rw_cand *c, const bool *need, struct dt_err *e);
int rw_inline_merge(struct rw_cand *c, struct dt_arena *a, struct dt_err *e);

#endif
