/* Inside gate/: what its files ask of each other. */
#ifndef DT_REWRITE_GATE_PRIV_H
#define DT_REWRITE_GATE_PRIV_H

#include "rewrite/emit/emit.h"
#include "rewrite/gate/gate.h"

/* A launch hangs that takes so many thread-instructions more than four times what it, or what it stands for, took. */
#define RW_PIECE (1U << 20) /* bytes that are compared at a time */
#define RW_HANG (UINT64_C(1) << 24)

uint64_t rw_input_seed(unsigned input); /* of the first input 0 */
/* Which sorts of special values (special.h) an input has, of so many. */
unsigned rw_input_sorts(unsigned inputs, unsigned input);
void rw_original_done(struct rw_original *o);
void rw_pieces_done(struct rw_gate *g); /* machine-code.c */
struct rw_once {                        /* which launches of a program are equal to an earlier one (once.c) */
    struct dev_device *dev;
    /* by launch: the first one that it is equal to, if they touch the same bytes; itself: none. NULL: nobody asked */
    uint32_t *like;
    bool *same, *steady;          /* by launch: as ana_steady says */
    bool races;                   /* the run is under the race detector, but for those that are equal to one before */
    const struct ana_result *ana; /* of the program, borrowed; NULL: not known */
};
int rw_once_new(struct dev_device *d, const struct dev_prog *p, struct rw_once *ret, struct dt_err *e);
void rw_once_done(struct rw_once *o);
bool rw_again(const struct rw_once *o, uint32_t launch); /* o may be NULL */
/* Run step `launch`, and get its cost if it is not known: from the one that it is equal to, without looking for races
 * again, or from this run. */
int rw_once_step(const struct rw_once *o, struct dev_run *run, uint32_t launch, struct dev_cost *cost,
                 struct dt_err *e);
/* beside.c. By launch: its neighbourhood was there before. *ret: free(). */
int rw_beside_seen(const struct dev_prog *p, bool **ret, struct dt_err *e);
/* Run all steps on what `run` holds: those that have not been seen side by side, in the seed's order of blocks. */
int rw_beside_run(struct dev_device *d, struct dev_run *run, const struct dev_prog *p, uint64_t seed, struct dt_err *e);
/* Run the steps on what `run` holds, but not further than to where NaNs flood it for good (flood.c): *ret_flood. */
int rw_flood_run(struct dev_device *d, struct dev_run *run, const struct ana_result *a, bool *ret_flood,
                 struct dt_err *e);
/* snaps.c. Run all steps on what `run` holds, keep what they write and what they cost. `a`: the analysis of its
 * program, borrowed; placed (NULL: not wanted): the snaps are of that graph's buffers. */
int rw_snaps_new(struct dev_run *run, const struct ana_result *a, const struct rw_placed *placed,
                 const struct rw_once *once, struct rw_snaps **ret, struct dt_err *e);
/* What the buffer held in that run before this launch, or behind it, if it writes it. 1: *ret; 0: its fill; negative:
 * it was not kept. */
int rw_snaps_before(const struct rw_snaps *s, uint32_t launch, uint32_t buffer, const uint8_t **ret);
int rw_snaps_left(const struct rw_snaps *s, uint32_t launch, uint32_t buffer, const uint8_t **ret);
bool rw_writes(const struct ana_launch *l, uint32_t buffer);
void rw_regions_done(struct rw_regions *x);
/* The order of blocks of later launches, and whether races are looked for: any conflict of two blocks, or, of launches
 * whose blocks talk, those that nothing orders (docs/CHECKING.md). */
int rw_watch(struct dev_device *d, bool talks, uint64_t seed, bool races, struct dt_err *e);
bool rw_talks(const struct dev_prog *p); /* has it a launch that dataflow fusion made? */
/* library.c. 1: the library knows the trial: its costs are in cost[t->n], t->orders is set. 0: it does not. t->library
 * is its key there for rw_library_put. */
int rw_library_get(struct rw_trial *t, struct dev_cost *cost, struct dt_err *e);
void rw_library_put(const struct rw_trial *t, const struct dev_cost *cost, unsigned orders);
/* trial.c. May S be tried alone? Buffers must have the same numbers in all states, with scratch behind them, and no
 * buffer of S may be a module variable or scratch. */
bool rw_trial_possible(const struct rw_trial *t);
/* What S touches, and what of it is compared. 1; 0: what is in it was not kept, and the trial is done with; negative:
 * error. */
int rw_trial_touch(struct rw_trial *t, struct dt_err *e);
/* Run S: what it leaves is what T must leave. Run T under an order of blocks, 0: their own, and compare; ret_cost
 * (NULL: not wanted) is by launch of T. */
bool rw_trial_want(struct rw_trial *t); /* without running S, from what the posted launches left; false: not kept */
int rw_trial_before(struct rw_trial *t, struct dt_err *e);
int rw_trial_after(struct rw_trial *t, uint64_t order, struct dev_cost *ret_cost, struct dt_err *e);
/* glance.c. About what T costs, by a few blocks of it. 1: next->cost of T is set; 0: T is not for that. */
int rw_trial_glance(struct rw_trial *t, struct dt_err *e);
/* Put into `run` what T finds in memory. */
int rw_trial_fill(const struct rw_trial *t, struct dev_run *run, struct dt_err *e);
struct rw_tried *rw_trial_find(const struct rw_gate *g, const char *key);
/* What equal trials share. */
int rw_trial_key(const struct rw_trial *t, char key[DT_SHA256_TEXT]);
/* A glance at T, once for equal ones (glance.c). 1: the costs of T are set; 0: none; negative: error. */
int rw_trial_glance_once(struct rw_trial *t, struct dt_err *e);
/* chain.c: does every launch of T stand for one of S, in their order? */
bool rw_chain(const struct rw_edit *x);
/* Launch by launch: as rw_trial_begin; a glance at what is large, and 1 if the judge says that T is hopeless; as
 * rw_trial_finish, where some are large and the orders of these wait for the end (rw_chain_waits: 1, 0, negative).
 * Which run side by side, the last run of the whole looks at. */
int rw_chain_begin(struct rw_trial *t, struct dt_err *e);
int rw_chain_glance(struct rw_trial *t, const struct rw_judge *judge, struct dt_err *e);
int rw_chain_waits(const struct rw_trial *t, struct dt_err *e);
int rw_chain_finish(struct rw_trial *t, struct dt_err *e);
/* orders.c: can these launches of the state run alone at the end, so that a trial need not try all orders? */
bool rw_orders_can(const struct rw_gate *g, const struct rw_state *s, uint32_t first, uint32_t n);
/* settled.c: is all that its blocks read and write proved, and none of it by atomics? */
bool rw_proved(const struct ana_launch *l);
/* Does one order of the launch's blocks tell what all leave? Only large launches are asked. 1, 0; negative:
 * error. Of T, one such launch of an analysed state: are its first, its last and some other blocks free of races? */
int rw_settled(const struct dev_prog *p, const struct ana_result *a, uint32_t launch, struct dt_err *e);
int rw_settled_look(struct rw_trial *t, struct dt_err *e);
/* rw_settled of a launch of any size. */
int rw_settled_small(const struct dev_prog *p, const struct ana_result *a, uint32_t launch, struct dt_err *e);
/* Run some of its blocks in this order, which is not 0, and compare what they write. Errors as of rw_trial_after. */
int rw_settled_order(struct rw_trial *t, uint64_t order, struct dt_err *e);
/* From which order on they are left to the end, of a launch that is one of a plan's: all, of large ones. */
unsigned rw_orders_from(const struct dev_cost *c);
/* Of the buffer where T stands. 1: *ret is what is in it; 0: its fill; negative: not kept (trial.c). */
int rw_trial_content(const struct rw_trial *t, uint32_t buffer, const uint8_t **ret);
/* Of launches `only` (by launch), the blocks that make the bytes `want` (by buffer), where nothing outside writes
 * between them; *ret_share: of all their blocks. In the arena. */
int rw_sample_part(struct dt_arena *arena, const struct ana_result *a, const bool *only, const struct ana_set *want,
                   struct dev_some **ret_some, double *ret_share, struct dt_err *e);
/* Do all blocks of the other program, by its analysis, write the outputs' bytes that the original's write?
 * DT_E_INTERNAL: not. */
int rw_sample_writes(const struct rw_sample *original, const struct dt_graph *go, const struct ana_result *a,
                     struct dt_err *e);

/* What can happen in an entry on paths that have not passed griddepcontrol.wait yet: a thread exits, or dependents are
 * let go. */
struct rw_paths {
    bool exits, triggers;
};
int rw_paths_without_wait(const struct ptx_function *f, struct rw_paths *ret, struct dt_err *e);
/* The module's text with the entries ending at griddepcontrol.wait; meet: only behind the barriers of the cluster that
 * are still to come. */
int rw_cut_at_wait(const char *ptx, size_t len, const char *const *entry, uint32_t nentry, bool meet,
                   struct dt_str *out, struct dt_err *e);

#endif
