/* The gate: nothing passes that does not compute what the posted graph computes.
 *
 *   original      what the posted launches do wrong by themselves
 *   reference     what the posted graph computes: every plan is compared with it
 *   trial         S and T of one edit alone, on the same memory
 *   machine code  the arithmetic of changed kernels against that of the posted ones
 *   verify        the plan as a whole, on all inputs and block orders
 *   waits         does the order of a plan hold every hazard (rw_waits_check, in rewrite.h)
 *
 * rw_gate_init begins, rw_gate_done releases everything. plan/ runs the steps, in the order above, and puts the results
 * of the first two into struct rw_gate.
 */
#ifndef DT_REWRITE_GATE_H
#define DT_REWRITE_GATE_H

#include "base/aside.h"
#include "rewrite/kinds/kinds.h"

struct rw_reference; /* what the original leaves in the outputs on each input (verify.c) */
struct rw_snaps;     /* what each launch of the original leaves in memory, for trials (snaps.c) */
struct rw_sample;
struct rw_once;    /* gate-priv.h */
struct rw_special; /* special.h */

/* ---- the gate of one planning (gate.c) --------------------------------------------------------------------------- */

/* What the posted launches do wrong by themselves (original.c). */
struct rw_original {
    bool *racy, races; /* by launch: it races inside; any does */
    struct dt_warnings warn;
    bool seen; /* launches ran under the checks, `blocks` of their blocks, of how many */
    uint64_t blocks, of;
};
struct rw_tried { /* an edit that passed its trial */
    char key[DT_SHA256_TEXT];
    unsigned orders;       /* block orders that T passed, beside the plain one */
    struct dev_cost *cost; /* of each launch of T */
};
struct rw_piece {            /* a posted kernel, assembled by itself with the lines of its text */
    const char *ptx, *entry; /* borrowed; equal pointers are the same text */
    size_t ptx_len;
    char file[32]; /* as emitted text names it */
    void *cubin;   /* NULL: not yet asked for */
    size_t len;
    struct dt_str crosses; /* not empty: its cubin need not be what runs (rw_calls_cross) */
};
struct rw_regions {             /* special values region by region (regions.c) */
    unsigned n, distinct;       /* regions with new code; those that ran, equal ones once */
    unsigned spared;            /* runs without some of the values, which the posted launches do not take */
    unsigned parts;             /* inputs of a region on which some of its blocks ran */
    struct rw_special *special; /* what was put where; NULL: nothing was */
};
struct rw_gate { /* what one planning knows of the posted graph, and of what was tried against it */
    struct dev_device *dev;
    const struct rw_options *opt;
    const struct dev_prog *posted; /* borrowed, as the two above */
    const struct dev_prog *texts;  /* the same launches with the kernels as posted, for machine code; borrowed */
    struct rw_original original;
    struct rw_reference *ref;
    struct rw_snaps *snaps;                        /* NULL: not the software device, or the graph is too large for it */
    struct rw_sample *sample;                      /* what runs of a graph that is too large; else NULL */
    struct dev_cost *sampled_cost;                 /* by launch of the original */
    struct dt_vec(struct rw_tried) tried, glanced; /* trials that passed; costs by a glance */
    struct rw_regions regions;
    unsigned orders; /* that new launches pass alone: RW_TRIAL_ORDERS in a trial, the others at the end (orders.c) */
    unsigned orders_run; /* at the end, of all launches */
    bool from_library;   /* some trial was not run, because the library knew it */
    bool no_library;     /* the library was wrong once: it is not asked any more */
    bool lines_checked;  /* line tables change no code (machine-code.c) */
    struct dt_vec(struct rw_piece *) piece;
};
void rw_gate_init(struct rw_gate *g, struct dev_device *dev, const struct rw_options *opt,
                  const struct dev_prog *posted);
void rw_gate_done(struct rw_gate *g);
bool rw_fatal(int r); /* an error that ends the planning; any other one of a candidate only refuses it */
size_t rw_member_words(const struct rw_gate *g); /* how many words rw_state.member has for a launch */

/* Another graph of the same launches, whose buffers are bytes of the posted ones: by buffer of it, which one, and from
 * which byte on (snaps.c). Release with rw_placed_done. */
struct rw_placed {
    const struct ana_result *ana; /* borrowed */
    uint32_t *buffer;
    uint64_t *lo;
};
void rw_placed_done(struct rw_placed *at);

/* ---- the posted graph (original.c, verify.c) --------------------------------------------------------------------- */

/* Run the posted launches under the device's checks. sample (borrowed): only that runs; NULL: all. cost: by launch;
 * NULL: it is measured here. once: a launch that is equal to one which was clean is not looked at again; NULL: all are
 * looked at. conflict: two blocks were seen to touch a byte. */
int rw_original_check(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a,
                      const struct rw_sample *sample, const struct dev_cost *cost, const struct rw_once *once,
                      bool conflict, struct rw_original *ret, struct dt_err *e);
/* Run the original on `inputs` inputs, under the race detector. DT_E_RACE: it races itself. With `ret_snaps`
 * (NULL: not wanted) what trials need is kept of the first input (software device). sample (borrowed): only that runs;
 * NULL: all. */
int rw_reference_new(struct dev_device *d, const struct dev_prog *original, unsigned inputs, const struct ana_result *a,
                     const struct rw_sample *sample, struct rw_reference **ret, struct rw_snaps **ret_snaps,
                     struct dt_err *e);
/* The same, but a race is no error: *checked is what original.c found, and if the original races, no run looks for
 * races any more. cost: by launch; NULL: not known. placed: the snaps are of that graph; NULL: of the original. */
int rw_reference_checked(struct dev_device *d, const struct dev_prog *original, unsigned inputs,
                         const struct ana_result *a, const struct rw_sample *sample, const struct dev_cost *cost,
                         struct rw_original *checked, const struct rw_placed *placed, struct rw_reference **ret,
                         struct rw_snaps **ret_snaps, struct dt_err *e);
/* Of a large graph only the first input has run: are there others, and run them. DT_E_BOUNDS and its like: a fault of
 * the posted launches. */
bool rw_reference_later(const struct rw_reference *ref);
int rw_reference_rest(struct rw_reference *ref, struct dt_err *e);
/* Run another program that is to leave the same, launch by launch, on the first input, and keep what trials need.
 * DT_E_INTERNAL: it leaves something else. */
int rw_reference_snaps(struct dev_device *d, const struct rw_reference *ref, const struct dev_prog *p,
                       const struct ana_result *a, struct rw_snaps **ret, struct dt_err *e);
/* About how many microseconds it takes to verify a plan: what the original took. */
uint64_t rw_reference_us(const struct rw_reference *ref, unsigned inputs, unsigned schedules);
const struct rw_special *rw_reference_special(const struct rw_reference *ref); /* special.h; NULL: one input only */
unsigned rw_reference_inputs(const struct rw_reference *ref); /* how many of them the original takes without a fault */
/* By launch, as posted; NULL: not known, or snaps were made and have it. */
const struct dev_cost *rw_reference_cost(const struct rw_reference *ref);
struct rw_reference *rw_reference_free(struct rw_reference *ref);
/* Does each launch of the placed graph, alone on what the posted run had there, leave what the posted one left? Equal
 * ones once. other: by launch, whether its kernel is not the posted one; then its cost is found here. 1; 0: it leaves
 * something else, or that cannot be said this way; negative: error, or a fault of a launch. */
int rw_snaps_check(struct rw_gate *g, const bool *other, struct dt_err *e);
const struct dev_cost *rw_snaps_cost(const struct rw_snaps *s);  /* by launch */
const struct ana_result *rw_snaps_ana(const struct rw_snaps *s); /* of the graph that left them */
struct rw_snaps *rw_snaps_free(struct rw_snaps *s);
bool rw_has_outputs(const struct dt_graph *g); /* is there anything to compare (verify.c)? */

/* ---- samples of graphs that are too large to run whole (sample.c) ------------------------------------------------ */

struct rw_sample {
    struct dt_arena arena;
    struct dev_some *some; /* by launch: the blocks that run */
    struct ana_set *want;  /* by buffer: bytes of the outputs that are then as in a whole run */
    /* of the original: bytes of the outputs that all its blocks write, surely, and perhaps */
    struct ana_set *sure, *may;
    uint64_t blocks, of; /* how many run, of how many */
};
/* *ret NULL: the graph runs fewer than `most` thread-instructions (0: RW_WHOLE) and needs no sample. *ret_cost: of each
 * launch, free(). */
int rw_sample_choose(struct dev_device *d, const struct dev_prog *original, const struct ana_result *a, uint64_t most,
                     struct rw_sample **ret, struct dev_cost **ret_cost, struct dt_err *e);
/* The sample of another program that makes the same bytes. `a`: its analysis; go: the original's graph. */
int rw_sample_of(const struct rw_sample *original, const struct dt_graph *go, const struct ana_result *a,
                 struct rw_sample **ret, struct dt_err *e);
struct rw_sample *rw_sample_free(struct rw_sample *s);

/* ---- S and T alone (trial.c), remembered (library.c) ------------------------------------------------------------- */

#define RW_TRIAL_ORDERS 1 /* shuffled block orders of a trial: what stays passes the others at the end */
struct rw_trial {
    struct rw_gate *gate;
    const struct rw_edit *x;
    const struct rw_state *now;
    struct rw_state *next;
    uint32_t first, n; /* T, in next */
    char key[DT_SHA256_TEXT];
    unsigned orders; /* that it passed; ran or known */
    bool repeated;   /* an equal one passed in this planning */
    /* thread-instructions of S and T, and of T under the block orders, but of what is repeated; ran or known */
    uint64_t work, order_work;
    bool glanced;                    /* T is hopeless: its costs are those of a few blocks, and nothing was compared */
    bool ran;                        /* block orders did, here */
    bool unseen;                     /* block orders and race detector are left to the verification of the plan */
    bool known, *touched, *compared; /* T's costs are known from an equal one that passed; by buffer */
    char library[DT_SHA256_TEXT];    /* its key there, "": none */
    const uint8_t **want;            /* by buffer: what S leaves, kept by the snaps or in own */
    uint8_t **own;
    /* Where not NULL: of T, one launch, these blocks run alone, and these bytes are compared, by buffer. Borrowed */
    const struct dev_some *some;
    const struct ana_set *only;
};
/* Run S and T on what S finds in memory. 1: they agree, and next->cost of T is set. 0: they cannot be tried alone.
 * Negative: DT_E_INTERNAL with what differs, or a fault of either. Call rw_trial_done in every case. */
int rw_trial_begin(struct rw_trial *t, struct rw_gate *g, const struct rw_edit *x, struct rw_state *next,
                   uint32_t first, struct dt_err *e);
/* The same, but where a few blocks of T tell about what it costs (glance.c), `hopeless` is asked first (NULL: nobody).
 * Its 1: T does not run whole, and *t is `glanced`. next->cost of T is set when it is asked. */
struct rw_judge {
    int (*hopeless)(void *user, struct rw_state *next, struct dt_err *e); /* 1, 0, negative: error */
    void *user;
};
int rw_trial_judged(struct rw_trial *t, struct rw_gate *g, const struct rw_edit *x, struct rw_state *next,
                    uint32_t first, const struct rw_judge *judge, struct dt_err *e);
/* The same under shuffled block orders with the race detector. Only after one of these
 * gave 1, and not of one that is glanced. */
int rw_trial_finish(struct rw_trial *t, struct dt_err *e);
/* Tell the library. Apart from rw_trial_finish, during which another thread may ask it. */
void rw_trial_keep(const struct rw_trial *t);
void rw_trial_done(struct rw_trial *t);
/* The orders that trials left to the end, of all new launches of the state, which is analysed (orders.c). 1: some
 * launch cannot run alone any more, so that they have not run; 0; errors as above. The state before its layout, as
 * trials know its buffers. */
int rw_orders_rest(struct rw_gate *g, struct rw_state *s, struct dt_err *e);
/* The same in a copy of the process, beside what the caller does until rw_orders_joined, which gives the same answer:
 * where the copy says anything but that all is well, it does the work itself. Only of a large graph, and where there is
 * another core; false: not here. */
struct rw_orders_aside {
    struct rw_gate *gate; /* borrowed, as is the state */
    struct rw_state *state;
    struct dt_aside copy;
};
bool rw_orders_aside(struct rw_gate *g, struct rw_state *s, struct rw_orders_aside *ret);
int rw_orders_joined(struct rw_orders_aside *a, struct dt_err *e);
/* About how many thread-instructions that will be: those of the posted launches in their place. */
uint64_t rw_orders_work(const struct rw_gate *g, const struct rw_state *first);
/* The inputs with special values for a plan of a large graph: each region of it on what the original has in memory
 * there (regions.c). posted: the posted kernels; plan: before its layout, analysed. *ret_pass false: a region cannot
 * run alone, or leaves something else, and the whole is to be run. */
int rw_regions_check(struct rw_gate *g, const struct dev_prog *posted, const struct rw_state *plan, unsigned inputs,
                     bool *ret_pass, struct dt_err *e);
/* Add a launch to a key. Buffers are numbered by first use: number[] of every buffer is UINT32_MAX at first, *n is 0.
 * entry_alone: without the rest of its module. */
void rw_add_launch(struct dt_sha256 *h, const struct dev_prog *p, uint32_t launch, bool entry_alone, uint32_t *number,
                   uint32_t *n);
/* Entries of the library: `head` with its newline, the SHA-256 of key and body as text, a newline, the body.
 * rw_kept_get: the body (free()), if there is one of that length and right; NULL: none. Numbers are eight bytes, lowest
 * first. */
uint8_t *rw_kept_get(const struct ana_memo *m, const char *head, const char *key, size_t bytes);
void rw_kept_put(const struct ana_memo *m, const char *head, const char *key, const uint8_t *body, size_t bytes);
void rw_put_number(uint8_t *p, uint64_t v);
uint64_t rw_number(const uint8_t *p);

/* ---- machine code (machine-code.c), the plan as a whole (verify.c) ----------------------------------------------- */

/* Can no kernel that is made of these launches of `now` be compared, whatever it is? 1: so it is, `why` says so. Asked
 * before it is made. */
int rw_machine_code_closed(struct rw_gate *g, const struct rw_state *now, const uint32_t *launch, uint32_t nlaunch,
                           struct dt_str *why, struct dt_err *e);
/* Is the float arithmetic of the new kernels of T, launches `first` … of next, that of the posted ones? 0: it is; 1: it
 * is not, `why` says what differs; negative: error. */
int rw_machine_code(struct rw_gate *g, const struct rw_edit *x, const struct rw_state *next, uint32_t first,
                    struct dt_str *why, struct dt_err *e);
/* The same of one launch of `next`, whose members are known. */
int rw_machine_code_of(struct rw_gate *g, const char *arch, const struct rw_state *next, uint32_t at,
                       struct dt_str *why, struct dt_err *e);
/* Compare the plan with the reference, on the first `inputs` inputs and under `schedules` block orders. `a`: the plan's
 * analysis, needed if the original was sampled. seen: the race detector has seen what is new alone, so that of a graph
 * in which a pass is long it need not see the whole; then the first block order is the first input's run. cost (by
 * launch; NULL: not wanted): filled in for launches whose cost is not known. DT_E_INTERNAL: with what differs, and
 * where. */
int rw_verify_plan(struct dev_device *d, const struct rw_reference *ref, const struct dev_prog *plan,
                   const struct ana_result *a, unsigned inputs, unsigned schedules, bool seen, struct dev_cost *cost,
                   struct dt_err *e);
/* By launch, as bits, *ret_words words each: the launches that have ended when it begins, by streams, `after` and
 * programmatic edges (waits.c). *ret: free(). */
int rw_waits_before(const struct dev_prog *plan, uint64_t **ret, size_t *ret_words, struct dt_err *e);
/* Make the device usable again after a kernel's fault, behind which every call fails. Gives `r` back, or the error of
 * the reset. */
int rw_recover(struct dev_device *d, int r, struct dt_err *e);

#endif
