/* Inside plan/: one planning, from the posted graph to the plan document. The room's contract is rewrite/rewrite.h.
 *
 * A state (rw_state) owns graph, program and analysis; the planner owns the states, and the gate.
 */
#ifndef DT_REWRITE_PLAN_PRIV_H
#define DT_REWRITE_PLAN_PRIV_H

#include "rewrite/emit/emit.h"
#include "rewrite/gate/gate.h"
#include "rewrite/normal/normal.h"

struct rw_entry { /* one row of the plan's `rewrites` */
    const char *kind;
    char *level;      /* NULL: none */
    json_t *launches; /* names */
    uint64_t hash;    /* of kind and names (entries.c) */
    enum rw_verdict verdict;
    char *reason;               /* NULL where kept */
    double before_us, after_us; /* 0: not timed */
    double gain[2];             /* before over after, at least and at most; 0: not known */
    uint32_t tried;             /* bits by place in the registry: block fusion has two passes */
    size_t states;              /* how many there were when it was looked at last */
    /* `reason` is bookkeeping: it says what the search did with these launches before, and nothing of what was posted.
     * `fact` is the reason before that, NULL: none, and then the entry is no row of the plan */
    bool book;
    char *fact;
};
struct rw_entries { /* as dt_vec */
    struct rw_entry *p;
    size_t n, cap;
};
struct rw_sure { /* an edit that gained under every doubt */
    char key[DT_SHA256_TEXT];
    double *gain_us; /* by doubt */
};
struct rw_ban { /* a candidate that is not taken: the whole plan is faster without it */
    const char *kind;
    json_t *launches;
};
struct rw_alike {                                      /* a candidate that came to nothing, for equal ones (alike.c) */
    char key[DT_SHA256_TEXT], *first, *level, *reason; /* first: its first launch's name */
    enum rw_verdict verdict;
    double before_us, after_us;
};
struct rw_planner {
    struct dev_device *dev;
    const struct rw_options *opt;
    const char *signature;
    const json_t *recipe;  /* only what it says is tried (recipe.c); NULL: everything is */
    struct dt_str strayed; /* why the recipe does not lead to a plan; empty: it does */
    /* The budget (budget.c): seconds of an idle machine, and how many of them the tries took by what they ran and
     * assembled; a wall clock, for devices whose work nobody counts, and for safety */
    bool bounded;
    double budget_s, given_s, work_s;
    uint64_t deadline_us; /* 0: none */
    unsigned tried, untried;
    struct dt_vec(struct rw_state) state; /* [0] is the original */
    struct rw_entries entry;
    struct dt_vec(struct rw_ban) ban;
    struct dt_vec(struct rw_sure) sure;
    struct dt_vec(struct rw_alike) alike;
    unsigned nname; /* next fN */
    unsigned verified_inputs, verified_schedules;
    bool by_region;             /* but for the first of these inputs, region by region (gate/regions.c) */
    bool budget_spent, hurried; /* hurried: by the clock */
    struct rw_gate gate;
    uint64_t sampled[2]; /* of the plan: blocks that ran when it was verified, of how many */
    bool again;          /* the library was wrong: plan anew without it */
    bool unseen;         /* something that was kept has not been seen by the race detector alone */
    /* normal form (normal.c): calls written out, versions, copies; their states until they are the second one and so
     * on, and why there are none */
    struct rw_calls calls;
    struct rw_versions versions;
    struct rw_copies copies;
    struct rw_state called, apart, moved;
    struct dt_str no_calls, no_versions, no_copies;
    double apart_us; /* what the plan with them took, where it was planned anew since that gained nothing */
    bool as_posted;  /* there is to be no normal form */
    bool laid;       /* the newest state is the one before it, laid out */
    /* comparisons that were measured on the device, and that the library decided (times.c) */
    unsigned measured, known;
    bool marked; /* reasons are written with their subjects marked */
    bool noisy;  /* the last one measured: too noisy to say anything */
};

/* ---- entries (entries.c) ----------------------------------------------------------------------------------------- */

/* Names of the launches, as an entry has them. NULL: memory. */
json_t *rw_entry_names(const struct rw_state *s, const uint32_t *launch, uint32_t n);
/* The entry of a candidate; NULL: there is none. */
struct rw_entry *rw_entry_find(struct rw_planner *p, const char *kind, const json_t *launches);
/* Are these launches a part of a longer run with which the kind came to nothing? */
bool rw_entry_within(const struct rw_planner *p, const char *kind, const json_t *launches);
/* Record what became of the candidate with these launches; takes over *reason. *ret_at (may be NULL): its place in
 * p->entry. */
int rw_entry_record(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t nlaunch,
                    const char *level, enum rw_verdict v, struct dt_str *reason, double before, double after,
                    size_t *ret_at, struct dt_err *e);
/* The text without addresses. Faults name addresses of this process, " at 0x7f…"; a plan is the same in every one. */
char *rw_entry_reason(char *text);
void rw_entries_free(struct rw_entries *v);

/* ---- equal candidates (alike.c) ---------------------------------------------------------------------------------- */

/* What equal candidates of the newest state have in common. False: nothing is shared of this one. */
bool rw_alike_key(const struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
                  char key[DT_SHA256_TEXT]);
/* 1: an equal one came to nothing, and so does this one: it has its entry. 0: none is known. */
int rw_alike_record(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
                    const char key[DT_SHA256_TEXT], struct dt_err *e);
/* Keep the verdict of a candidate that was tried and not kept, if it can be shared. */
int rw_alike_keep(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
                  const char key[DT_SHA256_TEXT], struct dt_err *e);
void rw_alike_done(struct rw_planner *p);

/* ---- states (state.c) -------------------------------------------------------------------------------------------- */

void rw_state_done(struct rw_state *s);
/* Fill time, step_us, begin_us, end_us. */
int rw_state_time(struct rw_planner *p, struct rw_state *s, struct dt_err *e);
/* Fill doubt_us, if it is not there yet. Only where times are modelled; it stays NULL where costs are not known. */
int rw_state_doubts(struct rw_planner *p, struct rw_state *s, struct dt_err *e);
/* Members, costs and time of the original. */
int rw_state_first(struct rw_planner *p, struct rw_state *s, struct dt_err *e);
/* The state that an edit makes: its graph, read back and compiled. *ret_first: the first launch of T. What the newest
 * state knows of the other launches is carried over. */
int rw_state_make(struct rw_planner *p, const struct rw_edit *x, struct rw_state *ret, uint32_t *ret_first,
                  struct dt_err *e);

/* ---- the budget (budget.c) --------------------------------------------------------------------------------------- */

void rw_budget_begin(struct rw_planner *p, double seconds, uint64_t began_us); /* seconds 0: there is none */
/* What comes after the tries, the plan's verification, is part of the budget. */
void rw_budget_reserve(struct rw_planner *p, unsigned inputs, unsigned schedules);
/* A candidate was built: S and T ran once, `fresh` modules were assembled. */
void rw_budget_built(struct rw_planner *p, const struct rw_trial *t, unsigned fresh);
/* It was accepted: T ran under the block orders, and the new launches were analysed. */
void rw_budget_accepted(struct rw_planner *p, const struct rw_trial *t, const struct rw_state *next);
bool rw_late(struct rw_planner *p);    /* the budget is spent */
bool rw_hurried(struct rw_planner *p); /* by the clock, where it is not the budget */
/* The plan's `stopped`; *ret NULL: the budget was enough. */
int rw_budget_json(const struct rw_planner *p, json_t **ret, struct dt_err *e);
/* In how many block orders the plan is verified whole, of so many. */
unsigned rw_budget_orders(const struct rw_planner *p, unsigned schedules);

/* ---- normal form (normal.c) -------------------------------------------------------------------------------------- */

/* Write out the calls of the posted graph, find its versions and copies; make p->called, apart and moved of them if
 * there are any. Before the reference runs. */
int rw_take_apart(struct rw_planner *p, struct dt_err *e);
struct rw_state *rw_newest_normal(struct rw_planner *p); /* of p->called, apart and moved the last one; NULL: none */
/* Where the posted graph has the bytes of the newest one's buffers. Release with rw_placed_done, in every case. */
int rw_place(struct rw_planner *p, struct rw_placed *ret, struct dt_err *e);
/* p->called, apart and moved, as far as they are there, become states. */
int rw_apart(struct rw_planner *p, struct dt_err *e);
bool rw_is_called(const struct rw_planner *p); /* is there a state with calls written out? */
bool rw_is_apart(const struct rw_planner *p);  /* is there a state with versions? */
bool rw_is_moved(const struct rw_planner *p);  /* is there a state with readers of copies moved? */
void rw_together(struct rw_planner *p);        /* if nothing was kept after the normal form, it is undone */
/* The number of the state of normal form that this kind made, 0: there is none; -1: it is another kind. */
int rw_normal_at(const struct rw_planner *p, const char *kind);
/* Does a posted launch have another kernel in normal form? */
bool rw_other_kernel(const struct rw_planner *p, uint32_t launch);
/* The newest state with storage shared again becomes the newest one, p->laid, if it can. */
int rw_lay_out(struct rw_planner *p, struct dt_err *e);

/* ---- the whole (whole.c), the search (choose.c), doing it again by a recipe (recipe.c) --------------------------- */

int rw_choose(struct rw_planner *p, struct dt_err *e);
struct rw_way { /* how a recipe wants a candidate: at one of its kind's levels */
    unsigned level;
    uint32_t size, module; /* rw_edit.size; number of the next module's name */
    bool detour;           /* it need not be faster: what comes after it will make up for it (detours.c) */
};
/* Try a candidate of the newest state like any other, but at one level. 1: it is kept; 0: it is not, `why` says so;
 * negative: error. */
int rw_try(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
           const struct rw_way *way, struct dt_str *why, struct dt_err *e);
/* The same of one that was proposed and tried in this state before. */
int rw_try_anyway(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
                  const struct rw_way *way, struct dt_err *e);
/* Is the launch's footprint the same without the launches before it? */
bool rw_stands_alone(const struct ana_result *a, uint32_t launch);
/* Push *next as the newest state, made by the entry; *next is empty afterwards. */
int rw_state_push(struct rw_planner *p, struct rw_state *next, size_t entry, struct dt_err *e);
void rw_say(const struct rw_options *o, const char *message, unsigned done, unsigned of);
/* Try all kinds in order, from the newest state on, until none of them finds anything in what the others made. */
int rw_all_rounds(struct rw_planner *p, struct dt_err *e);
/* Is there a candidate of some kind? 1, 0. Refuse every candidate of the original with one reason. */
int rw_any_candidate(struct rw_planner *p, struct dt_err *e);
int rw_refuse_all(struct rw_planner *p, const char *text, struct dt_err *e);

/* A kept rewrite as a step of a recipe: `next` is the state it made, `module` the number in the name of its first
 * module. NULL: memory. */
json_t *rw_step_json(const struct rw_rewrite *w, unsigned level, const uint32_t *launch, uint32_t n, unsigned module,
                     const struct rw_state *next);
json_t *rw_recipe_json(const struct rw_planner *p);
/* Do what p->recipe says, from the first state. If a step cannot be done, p->strayed says why, and the result is 0 all
 * the same. */
int rw_follow(struct rw_planner *p, struct dt_err *e);
/* After rw_choose: sets p->strayed if the newest state is not the one that the recipe's last step made. */
void rw_followed(struct rw_planner *p);

/* ---- which of two states is faster (compare.c, times.c, rivals.c) ------------------------------------------------ */

/* Are times measured, not modelled? */
bool rw_measures(const struct rw_planner *p);
/* Is `next` faster for sure: by more than the noise, and where times are modelled, in whichever way the model is wrong?
 * 1: it is, or it is forced; 0: it is not; negative: error. If times are measured, both states get theirs from this
 * comparison, and `why` says what noise there was. */
int rw_faster(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why, struct dt_err *e);
/* What is known of the state's times under the doubts is what the model says, not what equal edits did. */
void rw_not_guessed(struct rw_state *s);
void rw_sure_done(struct rw_planner *p);
/* Is `next` the better one of two that are both sure? By the model as it is; measured, as rw_faster. */
int rw_better(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why, struct dt_err *e);
/* By how many times `next` is faster, at least and at most, over all doubts; zeros where that is not known. */
int rw_gain(struct rw_planner *p, struct rw_state *now, struct rw_state *next, double ret[2], struct dt_err *e);
/* As rw_faster, without asking the library. */
int rw_faster_now(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why,
                  struct dt_err *e);

/* The launches of s that o does not have, ascending; *ret is the caller's. */
int rw_only_in(const struct rw_state *s, const struct rw_state *o, uint32_t **ret, uint32_t *ret_n, struct dt_err *e);

/* A measured comparison of two states, as it is kept: by the launches that only one of them has. */
struct rw_times {
    char key[DT_SHA256_TEXT]; /* "": such a comparison is not kept */
    double gain, lo, hi;      /* microseconds of one pass that `next` takes less, and the 95 % interval */
    uint32_t n, *launch;      /* launches of `next` that `now` has not */
    double *us;               /* of each, what it takes alone; 0: not known */
};
/* 1: the library knows which state is faster; gain, lo, hi and us are set, and `next` is the faster one if lo > 0. 0:
 * it does not know. Release with rw_times_done. */
int rw_times_get(struct rw_planner *p, const struct rw_state *now, const struct rw_state *next, struct rw_times *ret,
                 struct dt_err *e);
void rw_times_put(const struct rw_planner *p, const struct rw_times *t);
void rw_times_done(struct rw_times *t);

/* Take back kept rewrites without which the whole plan is faster. */
int rw_rivals(struct rw_planner *p, struct dt_err *e);
/* What a second look takes back; it is put back if that is not faster. */
struct rw_saved {
    struct rw_entries entry;
    struct dt_vec(struct rw_state) state; /* the states from `from` on */
    size_t from, *at;                     /* `entry` of the states before `from` */
    unsigned nname;
};
/* Take back state `from` and all later ones, if there are any. The entries that stay are those that made the states
 * before it, and entries of other verdicts that were recorded before its own. False: memory. */
bool rw_take_back(struct rw_planner *p, size_t from, struct rw_saved *s);
void rw_put_back(struct rw_planner *p, struct rw_saved *s);
void rw_saved_done(struct rw_saved *s); /* what it holds is gone for good */
/* Keep rewrites that gain nothing alone, where what comes after them does (detours.c). */
int rw_detours(struct rw_planner *p, struct dt_err *e);
/* Go on once more with launches taken apart by roles, if that is better (roles.c). */
int rw_by_roles(struct rw_planner *p, struct dt_err *e);
bool rw_banned(const struct rw_planner *p, const char *kind, const json_t *launches);

/* ---- memory (memory.c) ------------------------------------------------------------------------------------------- */

json_t *rw_memory_json(const struct rw_planner *p); /* `assumes.memory` of the newest state */
/* Are the scratch buffers of the edit within what is allowed? False: `why`. */
bool rw_memory_allows(const struct rw_planner *p, const struct rw_edit *x, struct dt_str *why);
/* Are those of the newest state? False: it is planned anew without versions. */
bool rw_memory_fits(struct rw_planner *p);

/* ---- what is left (bound.c) -------------------------------------------------------------------------------------- */

/* The least time of the state's graph; of each of its launches, a list. Only where costs are known. */
int rw_bound(struct rw_planner *p, const struct rw_state *s, double *ret_us, struct dt_err *e);
/* spans.c: where the blocks of both run, by the model. NULL: e says why. */
json_t *rw_spans_json(struct rw_planner *p, const struct rw_state *first, const struct rw_state *last,
                      struct dt_err *e);
json_t *rw_bounds_json(struct rw_planner *p, const struct rw_state *s, struct dt_err *e);

/* ---- the document (plan.c, written.c) ---------------------------------------------------------------------------- */

/* A warning of each posted launch that counts on lanes that run together and has surplus lanes now (lockstep.c). */
void rw_warn_lockstep(struct rw_planner *p);
json_t *rw_plan_json(struct rw_planner *p, struct dt_err *e);
/* Assemble the newest state's modules, so that rw_plan_json need not wait for them. */
void rw_assemble_ahead(struct rw_planner *p);
/* Does the document, read back, say what the state is? 1: it does; 0: `why` says what differs; negative: memory. */
int rw_written(json_t *doc, const struct rw_state *state, struct dt_str *why, struct dt_err *e);

#endif
