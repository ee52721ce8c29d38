/* Kinds of rewrites: what every rewrite is asked, and what it makes.
 *
 * A rewrite is a descriptor (struct rw_rewrite). What it makes is an edit: a set S of launches of a state, and the
 * launches T that stand in their place. A state is a graph on its way to the plan; kinds read it, plan/ makes it. An
 * edit owns an arena, everything that hangs off it lives there, and it borrows the state.
 */
#ifndef DT_REWRITE_KINDS_H
#define DT_REWRITE_KINDS_H

#include "rewrite/facts/facts.h"

struct rw_rewrite;

/* ---- states ------------------------------------------------------------------------------------------------------ */

enum { RW_MADE = 1, RW_WRITTEN_OUT = 2 };
struct rw_state { /* a graph on its way to the plan */
    json_t *doc;
    struct dt_graph *graph;
    struct dev_prog *prog;
    struct ana_result *ana;
    struct dev_time time;
    double *step_us;
    struct dev_cost *cost; /* by launch; NULL: this device has none */
    /* by launch: which of the state before it is, UINT32_MAX: a new one; NULL: the first state */
    uint32_t *from;
    bool *racy; /* by launch: it races inside; NULL: none does */
    /* by launch: its code is other than what was posted, bits RW_MADE (a rewrite of the search made it) and
     * RW_WRITTEN_OUT (its calls are written out); NULL: none is */
    uint8_t *made;
    double *doubt_us;          /* the modelled time under each doubt (dev_doubt); NULL: not asked yet */
    const struct dt_graph *of; /* the state that an edit made it of, as a name; NULL: none did */
    bool idle;                 /* it gains nothing yet: what runs beside what was made takes as long (compare.c) */
    bool glanced;    /* its times are from costs of a few blocks (gate/glance.c): it is no candidate any more */
    double stake_us; /* what the launches that the edit took away took in that one */
    char key[DT_SHA256_TEXT];  /* of the edit's trial (gate/trial.c); "": it has none */
    bool guessed;              /* doubt_us follows from what an equal edit did (compare.c) */
    uint64_t *member;          /* by launch: which launches of the original it stands for (gate/trial.c) */
    double *begin_us, *end_us; /* modelled: of each launch; measured: of its steps laid in a row */
    bool borrowed;             /* the first one: prog and ana are the caller's */
    size_t entry;              /* the rewrite that made it, in rw_planner.entry */
    json_t *step;              /* that rewrite as a step of a recipe; NULL: memory, and the first state */
    enum ana_evidence evidence;
};
/* Up to so many thread-instructions of one pass a graph runs whole, if no option says otherwise: a pass of some ten
 * seconds. */
#define RW_WHOLE UINT64_C(60000000000)
/* Passes of the whole graph that verification may take for block orders, as thread-instructions. A graph that is too
 * large for all of them has at least one; what was kept has passed the others alone, region by region. */
#define RW_ORDERS_WORK UINT64_C(10000000000)
/* Does the launch race inside? Such a launch is left alone. */
bool rw_is_racy(const struct rw_state *s, uint32_t launch);

/* ---- edits (edit.c, document.c) ---------------------------------------------------------------------------------- */

/* What every rewrite makes: a set S of launches of the newest state, and the launches T that stand in their place, in
 * order. The planner (plan/choose.c) does the rest: the new graph as a document that is read back, S and T alone on the
 * same memory, time, acceptance, analysis, one entry in `rewrites`. */
struct rw_part { /* a launch of T */
    /* its document, "stream", "after" and "programmatic" too where they are meant; owned. "name" is a wish: made unique
     * among the launches that stay. Kernels: without "module" where `ptx` is there */
    json_t *launch;
    struct dt_str ptx; /* the module made for it, else empty; parts may have equal ones */
    /* that module's name, set by the planner: one that is there already where it has the same text */
    char module[32];
    bool fresh;       /* the name is new */
    uint32_t follows; /* a part before it that it is `after`: its number + 1; 0: none */
    /* a launch of S that it is but for stream, after and programmatic: its cost and footprint are known; UINT32_MAX:
     * none */
    uint32_t same;
    /* the one launch of S in whose place it stands, in the same order: its place in S + 1; 0: it stands for all of S */
    uint32_t of;
    uint32_t
        cut; /* the one launch of S of whose blocks it runs some, as they were: its place in S + 1; 0: it does not */
    uint32_t heavy; /* the first so many blocks differ from all others, which are alike; 0: all are alike */
    /* bytes that it prefetches and no launch of S did; of a launch that is `same`, bytes that it reads of these */
    uint64_t prefetches, fetched;
};
struct rw_unread { /* bytes that S writes, T perhaps not, and nobody reads */
    uint32_t buffer;
    struct ana_set bytes;
};
struct rw_scratch { /* a scratch buffer that T needs and the graph has not */
    char name[16];
    uint64_t bytes;
};
struct rw_edit {
    struct dt_arena arena;
    const struct rw_rewrite *kind;
    const struct dev_info *dev;
    const struct rw_options *opt;
    const struct rw_state *now;               /* the newest state, borrowed: graph, prog, ana, step_us … */
    uint32_t *launch, nlaunch;                /* S, ascending */
    uint32_t size;                            /* blocks of a cluster that a recipe asks for; 0: what is best */
    void *mine;                               /* the rewrite's, from open() to close() */
    struct dt_vec(struct rw_part) part;       /* T, from build(); may stay empty */
    struct dt_vec(struct rw_unread) unread;   /* from build() */
    struct dt_vec(struct rw_scratch) scratch; /* from build() */
    struct dt_str hint;                       /* from build(): added to the reason if the result differs */
    double before_us, after_us;               /* from open() where it says RW_DROPPED: both estimated */
};
int rw_edit_init(struct rw_edit *x, const struct rw_rewrite *w, const struct dev_info *dev, const struct rw_options *o,
                 const struct rw_state *now, const uint32_t *launch, uint32_t n, struct dt_err *e);
void rw_edit_done(struct rw_edit *x);
void rw_edit_clear(struct rw_edit *x); /* forget what build() left */
/* Add a launch to T; takes the document over. The part, NULL: memory. */
struct rw_part *rw_edit_add(struct rw_edit *x, json_t *launch);
/* Add a scratch buffer to T, with a name that no buffer has. What is in it before T does not matter. */
int rw_edit_scratch(struct rw_edit *x, const char *name, uint64_t bytes);
/* Do the EDIT rows of legal.def hold? False: `why` is "NAME: sentence". */
bool rw_edit_legal(const struct rw_edit *x, struct dt_str *why);
/* The graph document with S replaced by T; modules are PTX, only those used. New reference. */
json_t *rw_edit_graph(const struct rw_edit *x);

/* ---- rewrites (registry.c) --------------------------------------------------------------------------------------- */

struct rw_promise { /* a candidate, not yet opened. The smallest `size` promises most, then the most `bytes` */
    uint32_t *launch, nlaunch;
    uint32_t size;
    uint64_t bytes;
};
struct rw_proposals {
    struct dt_arena arena;
    struct dt_vec(struct rw_promise) v;
};
int rw_propose(struct rw_proposals *l, const uint32_t *launch, uint32_t n, uint32_t size, uint64_t bytes);

struct rw_rewrite {
    const char *name;  /* the kind, as the plan's `rewrites` say */
    const char *needs; /* one line for `explain` */
    const char *keeps;
    bool on;                        /* by default */
    const struct rw_rewrite *rival; /* kept only if the rival does no better on these launches; NULL: none */
    /* Names of levels, tried in this order; the fastest is kept, of equal ones the first. NULL at the end. NULL: it has
     * no levels. */
    const char *const *levels;
    bool falling; /* levels are tried only while each is faster than the one before */
    /* A candidate is a run of launches. Of one that came to nothing pairs are tried, and no shorter runs: of a chain
     * through a model there are as many as it has launches */
    bool runs;
    bool same_code; /* its kernels are those that were there but for what stands around them */
    /* List every candidate of the state that this rewrite has anything to say about, legal or not. */
    int (*propose)(const struct rw_state *now, const struct rw_options *o, struct rw_proposals *ret, struct dt_err *e);
    /* Facts and legality, before anything is made. 0: go on; 1: do not, *ret_verdict is RW_REFUSED or RW_DROPPED, and
     * `why` the reason; negative: error. */
    int (*open)(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e);
    /* T at a level (0 without levels). 0: x->part is there; 1: refused or not applicable, `why` says so; negative:
     * error. May leave a note in `why` with 0. */
    int (*build)(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e);
    /* NULL, or asked when T was analysed, before it is tried in other orders: is it legal, by its own block map? False:
     * `why`. */
    bool (*made_well)(const struct rw_edit *x, const struct rw_state *next, struct dt_str *why);
    void (*close)(struct rw_edit *x); /* after open(), whatever it said */
};

extern const struct rw_rewrite *const rw_registry[];
extern const unsigned rw_nregistry;
extern const struct rw_rewrite rw_calls, rw_copies, rw_versions, rw_dead_blocks, rw_block_fusion, rw_cluster_fusion,
    rw_recompute, rw_parallel_fusion, rw_split, rw_prefetch, rw_programmatic, rw_dataflow_fusion, rw_narrow_blocks,
    rw_slice, rw_pack, rw_tails, rw_roles;
const struct rw_rewrite *rw_find_rewrite(const char *name); /* the first of that name */
uint32_t rw_rewrite_bit(const struct rw_rewrite *r);        /* 1 << its place in the registry */
/* Do the options allow this kind? */
bool rw_kind_allowed(const struct rw_options *o, const struct rw_rewrite *r);

#endif
