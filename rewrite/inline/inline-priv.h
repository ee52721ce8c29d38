/* Inside inline/: a pointwise kernel (the guest) inlined where another (the host) stores or loads the shared element.
 *
 * rw_inline_look (map.c) makes a struct rw_inline from the facts of the two launches and fills it in, step by step:
 * threads.c says which thread has which element, loop.c and slice.c which part of the guest's text each element needs,
 * merge.c which of these parts are one text. What does not hold goes into a struct rw_refusals beside it (refusals.c).
 * inline.c reads struct rw_inline and emits the kernel.
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
/* Of each condition (INLINE row) that does not hold, the first sentence that was found. It is there while
 * rw_inline_look runs. */
struct rw_refusals {
    struct dt_arena *arena;
    char *row[RW_NO_COUNT]; /* NULL: it holds */
    bool any;
};
struct rw_uses { /* of one buffer by one launch, over all its blocks */
    struct ana_set read, write, must;
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

struct rw_carry { /* of a register, from one round of the loop to the next */
    bool on;      /* a round may read what the round before has set */
    bool steady;  /* each round adds the same amount to it, an induction: */
    uint32_t add; /* by this instruction */
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

/* Of the elements' offsets in the buffer (inline/places.c): item is what an access moves at once. Offset - origin is
 * the sum of step * number, the place that of weight * number, for numbers below n. */
struct rw_places {
    int64_t origin;
    uint32_t item;
    unsigned n;
    struct rw_place {
        uint32_t step, n;
        uint64_t weight;
    } digit[RW_DIGITS]; /* largest step first */
};

/* A copy of a tensor by which the host stores elements that lie in shared memory (inline/staged.c). */
#define RW_STAGED_GUARDS 4
#define RW_STAGED_WAYS 6
#define RW_STAGED_BEFORE 16
struct rw_staged {
    uint32_t inst;
    const struct dt_tensor_map *map;
    uint64_t offset;  /* of the tensor in the buffer */
    uint32_t barrier; /* the instruction: the barrier right before */
    /* `group` threads come to it together, from one of these numbers on, and they make the copy. Of several, each is a
     * multiple of `group`, which is a power of two */
    uint32_t group, start[16];
    unsigned ngroup;
    uint32_t before[RW_STAGED_BEFORE]; /* branches before the barrier of which all of a group go the same way */
    unsigned nbefore;
    uint8_t swizzle;       /* as the map has it */
    bool whole;            /* a box is inside the tensor or outside of it */
    uint32_t warps;        /* the first ones of a group, a power of two of them, make it, each once */
    struct rw_staged_way { /* branches between barrier and copy, the way to the copy being `taken` or the other */
        uint32_t inst;
        bool taken;
        bool out; /* it is left out: all threads of the group go on */
    } way[RW_STAGED_WAYS];
    unsigned nway;
    struct rw_staged_guard { /* where these predicates hold, which all threads of the group have alike: */
        uint32_t inst;
        unsigned opnd; /* of this instruction; 0: what it is guarded by */
    } guard[RW_STAGED_GUARDS];
    unsigned nguard;
    uint32_t bytes, row, pitch, rows; /* of an element; of a row, in shared memory to the next one; in the box */
};

struct rw_inline {
    /* the two launches, by side; their texts, names, and what both are part of */
    const struct rw_facts *facts;
    const struct dt_graph *graph;
    const struct rw_body *body[2];
    const char *name[2];
    struct dt_arena *arena; /* of what hangs off it */
    /* why not, as rw_legal_rows gives reasons: what is below may not be complete; NULL: it may be inlined */
    char *refusal;
    struct rw_uses *uses[2]; /* by side and buffer; only while rw_inline_look runs */
    int host, guest;         /* sides; host 0: the guest is an epilogue, at stores, host 1: a prologue, at loads */
    uint32_t buffer;         /* the one that the element is in */
    uint64_t args[2];
    bool *joins[2];           /* by side and instruction: the element passes through it */
    struct rw_staged *staged; /* the host's instructions that it passes through, where they are copies of tensors */
    unsigned nstaged;
    uint32_t elem, unit; /* bytes of an element; elements of a unit */
    struct rw_joint *joint;
    unsigned njoint;
    unsigned nslot;
    /* what stands for offsets in all that follows; NULL: they do themselves */
    const struct rw_places *places;
    int64_t at[RW_SLOTS];           /* what each slot's offsets begin at; ascending */
    uint32_t loop;                  /* that the elements are in: 1 + the first instruction of its header; 0: none */
    bool *in_loop;                  /* per instruction of the guest */
    bool *again;                    /* per instruction of the guest: it is a branch to the next round */
    struct rw_carry *carry;         /* per register of the guest */
    struct rw_induction *induction; /* those that the slices need */
    unsigned ninduction;
    /* per slot: per instruction of the guest, which components stay (inline/slice.c); NULL: all of it */
    uint8_t **slice;
    struct rw_group *group;
    unsigned ngroup;
    uint8_t slot_group[RW_SLOTS];
    int64_t step[6];                  /* what one more of tid.x y z, ctaid.x y z adds to the offset, in bytes */
    int64_t by;                       /* what a round adds */
    int64_t origin;                   /* byte offset where every digit is 0; there need be no such thread */
    struct rw_digit digit[RW_DIGITS]; /* largest step first */
    unsigned ndigit;
    bool partial;    /* the host has elements that no thread of the guest has, too */
    bool in_place;   /* the guest writes the element back where it was */
    bool keep_store; /* the host's store stays, or its load, of elements that are not the guest's */
    bool drop_arg;   /* no access to the buffer remains */
};

/* Find out everything but the text of the two launches' kernel: *ret, in `keep`. The first condition that does not hold
 * is in (*ret)->refusal. *ret points to `facts`. */
int rw_inline_look(const struct rw_facts *facts, int host, struct dt_arena *keep, struct rw_inline **ret,
                   struct dt_err *e);

/* ---- refusals (refusals.c) --------------------------------------------------------------------------------------- */

/* Note that condition `row` does not hold; its first sentence stays. Does nothing if the condition is switched off. */
void rw_no(struct rw_refusals *no, enum rw_inline_no row, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The first in the order of the rows, as rw_legal_rows gives reasons; nothing where there is none. */
void rw_tell_refusal(const struct rw_refusals *no, struct dt_str *why);

/* ---- staged.c: hosts that store by copies of tensors ------------------------------------------------------------- */

bool rw_inline_has_maps(const struct rw_inline *n); /* of the buffer, in an epilogue's host */
void rw_inline_staged_sites(struct rw_inline *n, struct rw_refusals *no);
void rw_inline_staged_units(struct rw_inline *n, struct rw_refusals *no);
/* Who copies what, and when. */
int rw_inline_staged(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e);
bool rw_staged_is_store(const struct ptx_inst *i); /* a copy of a box from shared to global memory */

/* staged-way.c: how control comes to a copy */
struct ptx_cfg;
struct rw_warps;
/* The barrier right before it, and the branches between. */
void rw_staged_find_barrier(const struct rw_inline *n, const struct ptx_cfg *cfg, struct rw_staged *s,
                            struct rw_refusals *no);
/* Which threads come to that barrier together. */
void rw_staged_find_group(const struct rw_inline *n, const struct ptx_cfg *cfg, const struct rw_warps *w,
                          struct rw_staged *s, struct rw_refusals *no);
/* And that no other branch parts them. */
void rw_staged_check_group(const struct rw_inline *n, const struct ptx_cfg *cfg, const struct rw_warps *w,
                           const struct rw_staged *s, struct rw_refusals *no);
/* Bits in which the numbers of a group's threads differ. */
uint32_t rw_staged_apart(const struct rw_staged *s);
/* One lane of each warp has the register as `*ret_sense`, the others as its opposite. */
bool rw_staged_elected(const struct rw_inline *n, const struct rw_warps *w, uint32_t reg, bool *ret_sense);
/* Nothing comes of it where all threads go the ways that are left out. */
int rw_staged_check_ways(const struct rw_inline *n, const struct ptx_cfg *cfg, struct rw_refusals *no,
                         struct dt_err *e);
/* The host's branch `inst` is left out; NULL: it is not. */
const struct rw_staged_way *rw_staged_way_out(const struct rw_inline *n, uint32_t inst);

/* ---- the steps of rw_inline_look, in order; `a`: memory that is there while it runs ------------------------------ */

/* threads.c: slots and digits */
int rw_inline_threads(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e);
/* ana_trace_launch, of the guest through its places; if there is no trace, `row` says so. */
int rw_inline_trace(const struct rw_inline *n, int side, ana_trace_fn fn, void *user, enum rw_inline_no row,
                    struct rw_refusals *no, struct dt_err *e);
/* The number of a joint instruction that the access is at; UINT32_MAX: it is at none. */
uint32_t rw_inline_joint_of(const struct rw_inline *n, const struct ana_trace *t);
/* What a step of the box's block number d adds to the offset of lane k; what the numbers of thread x add up to in the
 * box's first block. */
int64_t rw_inline_step(const struct ana_trace *t, unsigned d, uint32_t k);
int64_t rw_inline_sum(const struct rw_inline *n, const struct ana_trace_box *b, const uint32_t x[3]);
/* tid of the guest's thread of this linear number */
void rw_inline_coords(const struct rw_inline *n, uint32_t thread, uint32_t at[3]);
/* places.c: n->places, if there are any */
int rw_inline_places(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e);
/* The place of an offset; below 0: it has none. */
int64_t rw_inline_place(const struct rw_places *p, int64_t offset);
/* What rw_inline_on_view, an ana_trace_fn, hands the trace on to: accesses to the buffer at places, blocks and rounds
 * one by one. */
struct rw_inline_view {
    const struct rw_inline *n;
    ana_trace_fn fn;
    void *user;
    struct dt_arena arena;
    bool lost; /* some access has no place */
};
int rw_inline_on_view(const struct ana_trace_box *b, void *view);
/* loop.c: the loop's text (in_loop, again, carry) */
int rw_inline_loop(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e);
/* slice.c: slices, and the inductions that they need; none where a thread has one element and its text is not sliced */
int rw_inline_slices(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e);
/* ways.c: branches, by instruction, that no thread takes on its way to the slot's element */
int rw_inline_ways(const struct rw_inline *n, unsigned slot, bool *ret_not_taken, struct dt_arena *a, struct dt_err *e);
/* merge.c: groups */
int rw_inline_merge(struct rw_inline *n, struct dt_arena *a, struct dt_err *e);
/* later.c: stores of guests that wait, at most so many: registers are few */
#define RW_LATER 8
struct rw_later {
    struct ptx_inst inst[RW_LATER];
    unsigned n;
};
/* Of the instructions from number `start` on, an instance of a guest, the stores wait, if they may. */
int rw_later_take(struct rw_join *j, struct rw_later *l, uint32_t start);
int rw_later_flush(struct rw_join *j, struct rw_later *l); /* append what waits */
bool rw_later_may_wait_for(const struct ptx_inst *i);      /* may stores wait behind the host's instruction? */
/* tidy.c: of a kernel with a guest in it, leave out labels from number `from` on that nothing leads to, and branches
 * to what comes next */
int rw_inline_tidy(struct ptx_function *f, uint32_t from, struct dt_arena *a);
/* check.c: every access of the guest against its slots and digits */
int rw_inline_check(const struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e);

#endif
