/* Inside rewrite/: edits, bodies, components, redirections, joins, the predicates, and the state of one planning.
 *
 * Ownership: an edit (rw_edit) and a join (rw_cand) own an arena each, everything that hangs off them lives there, and
 * they borrow the program and the analysis they were made from. A state (rw_state) owns graph, program and analysis.
 */
#ifndef DT_REWRITE_PRIV_H
#define DT_REWRITE_PRIV_H

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "base/vec.h"
#include "rewrite/rewrite.h"

struct rw_edit;
struct rw_state;
struct rw_flow;
struct rw_planner;
struct rw_rewrite;

/* ---- facts read off one entry (body.c, vary.c) ------------------------------------------------------------------- */
/* Things an entry may have that some predicate of legal.def refuses. The first place where each occurs is kept. */
enum rw_fact {
    RW_OPAQUE,        /* an instruction that ops.def does not know */
    RW_INDIRECT_CALL, /* call through a register, or a function's address taken */
    RW_RECURSION,     /* a function that reaches itself */
    RW_EXTERN_CALL,   /* vprintf, malloc, device-side launch, an unresolved name */
    RW_EXIT_IN_FUNC,  /* exit inside a .func */
    /* a .func that has barriers, shared variables or reads geometry: it would need the caller's block */
    RW_FUNC_CONTEXT,
    RW_SIDE,          /* trap, brkpt, stores that are volatile or at .sys scope … */
    RW_ORDERED,       /* volatile, relaxed, acquire, release, fence: talk between blocks of one launch */
    RW_MACHINE,       /* machine registers */
    RW_LANE,          /* the number of the lane, or masks made of it: which thread number it is modulo 32 */
    RW_ACTIVEMASK,    /* activemask: depends on which lanes happen to be together */
    RW_BARRIER_REG,   /* a barrier number, or count, in a register */
    RW_BARRIER_SPLIT, /* bar.arrive: an arrival may be left over at the end of a phase */
    /* a barrier reachable on one side only of a branch, or after an exit, that differs between threads */
    RW_BARRIER_VARYING,
    RW_COLLECTIVE_VARYING, /* a warp collective for all lanes, where some of them may have left */
    RW_ASYNC,              /* mbarrier, bulk and tensor copies, wgmma, tcgen05, griddepcontrol … */
    RW_CLUSTER,            /* its thread-block cluster: a barrier, shared memory of other blocks, a number */
    RW_GLOBAL_VAR,         /* a module variable that something may write, or that holds addresses */
    RW_PARAM_ADDRESS,      /* the address of a parameter is taken */
    RW_LDU,                /* ldu: no plain form of it is known to be the same */
    RW_FACT_COUNT
};

struct rw_find {
    bool set;
    uint32_t line;    /* in the PTX */
    const char *what; /* mnemonic, register or variable */
};

struct rw_body {
    const struct ptx_function *f;
    const struct dev_step *step;
    uint32_t grid[3], block[3], threads;
    struct rw_find find[RW_FACT_COUNT];
    uint32_t barrier_ids; /* bit set of barrier numbers used */
    uint32_t counted_ids; /* of those, the ones used with a thread count: by some of the threads only, perhaps */
    bool barriers;        /* any barrier of the block */
    bool convergent;      /* any warp collective */
    bool func_convergent; /* one in a function that it calls */
    bool cp_async;        /* non-bulk cp.async: drained at the end of the phase */
    bool calls;
    bool sets_carry;  /* an instruction with .cc, or a call, across which the carry flag is lost */
    bool reads_carry; /* addc, subc, madc in the entry */
    bool shared_used;
    /* shared memory as the joined kernel lays it out: offset of every static array (by place in shared_var), then
     * dynamic */
    struct ptx_var **shared_var;
    uint32_t *shared_at, nshared;
    uint32_t static_bytes, dynamic_at, shared_bytes, shared_align;
    /* it uses its cluster, which is of so many blocks; ranks 0: it is launched without, or does not use it */
    uint32_t cluster[3], ranks;
    /* barriers of the cluster that each thread of it passes; -1: `apart` says why nobody can tell */
    int meets;
    const char *apart;
    struct ptx_var **const_var; /* tables in constant memory that it names */
    uint32_t nconst;
    /* prov.c: which buffer arguments each register's value may point into; bit i: argument i (63: others, 62: not a
     * buffer) */
    uint64_t *prov;
    uint64_t stored_prov; /* union of what is stored to memory or handed to functions */
};

#define RW_PROV_OTHER (UINT64_C(1) << 63) /* arguments from 62 on, or unknown */
#define RW_PROV_LOCAL (UINT64_C(1) << 62) /* module variables, shared or local memory */
#define RW_PROV_ARGS (RW_PROV_LOCAL - 1)

/* Everything about the launch's entry, or about `f` in its stead; `a` owns what is allocated. */
int rw_body_init(struct dt_arena *a, const struct dev_prog *p, uint32_t launch, const struct ptx_function *f,
                 struct rw_body *ret, struct dt_err *e);
/* vary.c: find barriers that not all threads of a block need reach; sets RW_BARRIER_VARYING. */
int rw_vary(struct rw_body *b, struct dt_err *e);
/* Set region[] for the basic blocks between `from` and its post-dominator; true if one was not set yet. mark, stack:
 * scratch, by block. */
bool rw_mark_region(const struct ptx_cfg *cfg, uint32_t from, bool *mark, uint32_t *stack, bool *region);
/* lanes.c: find warp collectives that some lanes of a warp need not reach; sets RW_COLLECTIVE_VARYING. */
int rw_lanes(struct rw_body *b, struct dt_err *e);
bool rw_is_block_barrier(unsigned op);
/* Components of a global load or store of a vector, which may be left out one by one; 1: of anything else. */
unsigned rw_access_parts(const struct ptx_inst *i);
/* prov.c */
int rw_prov(struct dt_arena *a, struct rw_body *b, struct dt_err *e);
/* of the global address(es) of a memory access */
uint64_t rw_prov_of(const struct rw_body *b, const struct ptx_inst *i);
bool rw_is_global_access(const struct ptx_inst *i); /* may touch global memory */
/* Arguments of the launch that are bound to `buffer`, as bits. */
uint64_t rw_args_of(const struct dt_launch *l, uint32_t buffer);
/* The one address that the argument is or has in it: its place in the parameter and where it points in the buffer,
 * bytes. False: none, or several. */
bool rw_arg_address(const struct dt_arg *a, uint64_t *at, uint64_t *offset);
bool rw_readonly_variable(const struct ptx_module *m, const struct ptx_var *v); /* its address reaches only loads */

#define RW_BODIES 24 /* of one joined launch */

/* ---- components (comps.c) ---------------------------------------------------------------------------------------- */
struct rw_list {         /* the blocks of one phase, by component; at level `cluster` by rank, k * cluster + r */
    uint32_t *row, *col; /* CSR: row[n + 1], col: linear block numbers */
    bool affine;         /* col(k, j) = a + b * k + c * j, j < m */
    uint32_t a, b, c;    /* modulo 2^32 */
    /* level `cluster`: col(k, r, j) = a + b * k + d * r + c * j for ranks r < ranks, others have none; 0: not of this
     * form */
    uint32_t ranks, d;
    uint32_t m;           /* blocks per component where all have the same number, else UINT32_MAX */
    uint32_t max;         /* most blocks of one component */
    bool narrow;          /* table entries are 16 bits wide */
    uint64_t table_bytes; /* constant memory taken; 0 where affine */
};
struct rw_comps {
    uint32_t n;
    struct rw_list list[RW_BODIES]; /* producer, consumer; or by body */
};
/* Fill in the form of a list (affine or a table) whose row and col are there. */
void rw_list_fit(struct rw_list *l, uint32_t n);
/* body: NULL, or producer and consumer: blocks of a cluster that one of them uses are never parted. */
int rw_comps_build(struct dt_arena *a, const struct ana_rows *any, uint32_t producers, uint32_t consumers,
                   const struct rw_body *body, struct rw_comps *ret, struct dt_err *e);

/* ---- order (order.c) --------------------------------------------------------------------------------------------- */
/* Launches by hazards: can the n launches (ascending) stand side by side? *ret_between: a launch on a path between two
 * of them if not. On success `order` (nlaunch - n + 1 numbers) is the new sequence, in which the first one's number
 * stands for all. */
bool rw_order(const struct ana_result *r, const uint32_t *launch, uint32_t n, uint32_t *order, uint32_t *ret_between);

/* ---- intermediates in shared memory (fit.c) ---------------------------------------------------------------------- */
struct rw_redirect {
    uint32_t buffer;
    bool keep_global;            /* the producer's store to global memory stays: another reader, or live-out */
    bool drop_arg;               /* no access to the buffer remains: its addresses are computed from 0 */
    uint64_t args[2];            /* argument bits per body */
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

/* ---- a candidate ------------------------------------------------------------------------------------------------- */
enum rw_level {                    /* nearest first */
                RW_LEVEL_EPILOGUE, /* `register`: the consumer inlined where the producer stores */
                RW_LEVEL_PROLOGUE, /* `register`: the producer inlined where the consumer loads */
                RW_LEVEL_SHARED,
                RW_LEVEL_CLUSTER, /* in the shared memory of the blocks of a cluster */
                RW_LEVEL_GLOBAL,
};
const char *rw_level_text(enum rw_level l);
#define RW_CLUSTER_MAX 16 /* more than 8 blocks are not portable: their launch has an attribute for it */

struct rw_cand {
    struct dt_arena arena;
    const struct dev_info *dev;
    const struct dev_prog *prog;
    const struct ana_result *ana;
    const struct rw_options *opt;
    const struct ana_edge *edge;
    /* other launches whose reads do not keep an intermediate in global memory (recompute), NULL: none */
    const uint32_t *set;
    uint32_t nset;
    uint32_t nbody; /* 2 where there is an edge */
    /* bodies side by side, each in blocks of its own: where body s begins, nbody + 1 numbers; NULL: one after the
     * other */
    uint32_t *beside;
    struct rw_flow *flow;       /* bodies side by side that wait for each other (flow.h); NULL: they do not */
    uint32_t launch[RW_BODIES]; /* producer, consumer; or what runs side by side */
    struct rw_body body[RW_BODIES];
    struct ptx_module *own[RW_BODIES]; /* where the body is not the program's entry but its explicit form */
    bool open[RW_BODIES];              /* its products stay without .rn: no sum can meet them (device/identity.c) */
    struct rw_comps comps;
    /* level `cluster`: so many blocks run a component, `comps` is by rank and `whole` by component; else 0 */
    uint32_t cluster;
    struct rw_comps whole;
    uint32_t size; /* what level `cluster` is to take; 0: it is not for this pair */
    enum rw_level level;
    struct rw_inline *in, *seen[2]; /* levels `register`: inline-priv.h; by host, what was found out */
    struct rw_redirect *redirect;
    uint32_t nredirect;
    struct dt_str no_redirect;   /* why intermediates stay in global memory */
    uint32_t threads;            /* of the fused block */
    uint32_t abreast[RW_BODIES]; /* how many of its blocks a phase runs at once */
    bool narrow;                 /* no more threads than the largest body has */
    uint32_t shared_bytes, shared_align;
    bool shared_dynamic;
    /* the result */
    struct dt_str ptx;
    char entry[128];              /* "fused_gemm_gelu": the same for equal pairs, so that equal pairs give equal text */
    uint64_t arg_keep[RW_BODIES]; /* arguments of each body that the fused entry takes (bit i; those past 63 always) */
    bool *arg_same[RW_BODIES];    /* by argument: an earlier body has the same one */
    bool zero_word;               /* and one more at the end: the zero word of the joint (inline.c) */
    struct dev_resources res;
};
/* Do intermediates live in shared memory, by c->redirect? */
static inline bool rw_in_shared(const struct rw_cand *c)
{
    return c->level == RW_LEVEL_SHARED || c->level == RW_LEVEL_CLUSTER;
}
/* Bodies of the launches alone. */
int rw_cand_open(struct rw_cand *c, const struct dev_info *dev, const struct dev_prog *p, const struct ana_result *a,
                 const struct rw_options *o, const uint32_t *launch, uint32_t n, struct dt_err *e);
/* Facts, components, order of the pair. Cheap; needs no compiler. `edge` from ana_find_edge. */
int rw_cand_init(struct rw_cand *c, const struct dev_info *dev, const struct dev_prog *p, const struct ana_result *a,
                 const struct rw_options *o, uint32_t producer, uint32_t consumer, struct dt_err *e);
void rw_cand_done(struct rw_cand *c);

/* ---- several blocks of a phase at once (abreast.c) --------------------------------------------------------------- */
/* threads and abreast[], from bodies and lists. */
void rw_abreast(struct rw_cand *c);
/* The same without more threads than the largest body has. False: there were none. */
bool rw_narrow(struct rw_cand *c);

/* ---- legality (legal.c, legal-body.c, legal-memory.c): rows of legal.def ----------------------------------------- */
typedef bool (*rw_predicate)(const struct rw_cand *c, struct dt_str *why);
struct rw_legal {
    const char *name; /* "machine-registers" */
    rw_predicate fn;  /* true: holds; false: `why` is one sentence */
};
extern const struct rw_legal rw_legal[];
extern const unsigned rw_nlegal;
extern const struct rw_legal rw_cluster_legal[]; /* CLUSTER rows: asked besides at level `cluster` */
extern const unsigned rw_ncluster_legal;
extern const struct rw_legal rw_inline_legal[]; /* ALSO and INLINE rows */
extern const unsigned rw_ninline_legal;
/* The number of the barrier between virtual blocks, -1: none is left. */
int rw_phase_barrier(const struct rw_cand *c);
/* All predicates of LEGAL rows in order; false at the first that does not hold, `why` filled as "NAME: sentence". */
bool rw_legal_check(const struct rw_cand *c, struct dt_str *why);
/* The same with other rows. */
bool rw_legal_rows(const struct rw_legal *rows, unsigned n, const struct rw_cand *c, struct dt_str *why);
#define RW_LEGAL_ROW(NAME)                                                                                             \
    {                                                                                                                  \
#NAME, rw_legal_##NAME                                                                                         \
    }
#define LEGAL(NAME, text) bool rw_legal_##NAME(const struct rw_cand *c, struct dt_str *why);
#define OTHER(NAME, text) LEGAL(NAME, text)
#define INLINE(NAME, text) LEGAL(NAME, text)
#define CLUSTER(NAME, text) LEGAL(NAME, text)
#define EDIT(NAME, text) bool rw_edit_##NAME(const struct rw_edit *x, struct dt_str *why);
#include "rewrite/legal.def"
/* The EDIT rows. */
bool rw_edit_legal(const struct rw_edit *x, struct dt_str *why);
/* The same with the rows that inlining asks for; those of INLINE hold before rw_inline_look(). */
bool rw_legal_inline_check(const struct rw_cand *c, struct dt_str *why);

/* ---- inlining (inline/map.c, inline.c) --------------------------------------------------------------------------- */
/* Legality alone, then all of it, for the levels `register`. 0, 1: refused, `why`; negative: error. */
int rw_inline_may(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
int rw_inline_apply(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
/* The launch whose geometry the fused one has: the host; NULL where blocks are listed by component. */
const struct dt_launch *rw_inline_host(const struct rw_cand *c);

/* Switches of a build for tests (tests/diff/planner.c); what is installed has none. */
#ifdef RW_TEST_HOOKS
extern struct rw_hooks {
    const char *off;     /* predicates not asked, "order,async"; NULL: all are */
    bool force;          /* keep what is legal and right, faster or not */
    const char *levels;  /* of block fusion that are tried; NULL: all */
    uint32_t cluster;    /* blocks of a cluster; 0: what is best */
    const char *propose; /* "parallel-fusion: a b": launches proposed to this kind besides; NULL: none */
    /* what a rewrite has just made is made wrong, so that the predicate that looks at it again has something to find:
     * "wait", "count" or "late" (flags of dataflow fusion), "live" (a live block is dead), "written" (a plan that
     * changes something loses each `after`); NULL: nothing */
    const char *spoil;
} rw_hooks;
#define RW_FORCED rw_hooks.force
#define RW_LEVEL_ON(level) (!rw_hooks.levels || strstr(rw_hooks.levels, rw_level_text(level)))
bool rw_off(const char *name); /* legal.c: is this predicate switched off? */
#define RW_SPOILT(what) (rw_hooks.spoil && !strcmp(rw_hooks.spoil, what))
#else
#define RW_FORCED false
#define rw_off(name) false
#define RW_SPOILT(what) false
#define RW_LEVEL_ON(level) true
#endif

/* fit.c: decide what of the intermediates goes to shared memory. Fills c->redirect; zero of them is a result, and
 * c->no_redirect then says why. */
int rw_fit(struct rw_cand *c, struct dt_err *e);
/* cluster.c: how many blocks of a cluster run a component best, from times of a producer and a consumer block; *ret_us:
 * about how long all take. */
uint32_t rw_cluster_size(const struct rw_cand *c, const double block_us[2], double *ret_us);
/* The size of the clusters that a body uses itself; 0: none does. */
uint32_t rw_cluster_own(const struct rw_cand *c);
/* The shape of the launch's clusters, by its own word or its kernel's; the number of blocks, 0: none. */
uint32_t rw_cluster_shape(const struct dt_launch *l, const struct ptx_function *f, uint32_t ret[3]);
/* Do blocks of two clusters of body s touch a byte in conflict? */
bool rw_cluster_conflict(const struct rw_cand *c, uint32_t s);
/* Hand the components out to clusters of that size, 0: take that back. */
int rw_cluster_lists(struct rw_cand *c, uint32_t size, struct dt_err *e);
/* Is everything that the two phases have to do with each other between blocks of one rank? Then a barrier of the block
 * is enough between them. */
bool rw_cluster_own_pairs(const struct rw_cand *c);
/* Fill in the owners: can a byte's rank and place be worked out from its offset? box, by rank: what its producer blocks
 * write; base: where it begins. */
bool rw_cluster_owners(const struct rw_cand *c, struct rw_redirect *r, const struct ana_set *box, const uint64_t *base,
                       uint32_t align, struct dt_str *why);

/* Every site of the body that may touch the arguments' buffer is plain and touches it alone (a producer's: a store).
 * *width: the widest, if that is more. */
bool rw_sites_alone(const struct rw_body *b, uint64_t args, bool producer, uint32_t *width, struct dt_str *why);
/* the arguments, by side, are addresses and nothing else */
bool rw_args_whole(const struct rw_cand *c, const uint64_t args[2]);
/* Does the pointer only go through additions into addresses of its own sites? Then it may be computed from 0. */
bool rw_only_addresses(const struct rw_body *b, uint64_t args);
/* Lay out the fused block's shared memory and threads for c->level. False with `why` where it does not fit the
 * device. */
bool rw_layout(struct rw_cand *c, struct dt_str *why);

/* ---- making the kernel (join.c, phase.c, copy.c) ----------------------------------------------------------------- */
/* Emit the fused kernel as PTX text into c->ptx, entry c->name; verified by ptx_verify and print-parse equality. */
int rw_join(struct rw_cand *c, struct dt_err *e);
/* Before and after it: arithmetic that nobody contracts otherwise, in all bodies (1: refused); the entry's name;
 * registers and spills (1: refused). */
int rw_identity(struct rw_cand *c, struct dt_str *why, struct dt_err *e);
void rw_name_entry(struct rw_cand *c);
int rw_resources(struct rw_cand *c, struct dt_str *why, struct dt_err *e);
/* parallel.c: bodies side by side in one grid (c->beside): its text and what a block takes, where the rows hold. 1:
 * they do not, or it does not fit. */
int rw_join_beside(struct rw_cand *c, const struct rw_legal *of, unsigned n, struct dt_str *why, struct dt_err *e);

/* ---- one kernel, changed (solo.c, legal-solo.c) ------------------------------------------------------------------ */
struct rw_solo {
    struct dt_arena arena;
    const struct dev_info *dev;
    const struct dev_prog *prog;
    uint32_t launch;
    bool behind;            /* there is a launch before it that it is to wait for */
    bool self_conflict;     /* of its analysis */
    struct rw_body body;    /* facts of the launch's kernel; body.f NULL: it has none */
    struct ptx_module *own; /* its explicit form, where it needs one */
    struct ptx_module *m;   /* the copy */
    struct ptx_function *f; /* and its entry, under the same name */
    /* how often text was put into it by rewrites before: names of another time are left alone */
    unsigned again;
};
enum rw_solo_kind {
    RW_SOLO_WAITS = 1,
    RW_SOLO_TRIGGERS = 2,
    RW_SOLO_MOVES = 4 /* its blocks are numbered anew */,
    RW_SOLO_FETCHES = 8 /* it prefetches for the next one */,
    RW_SOLO_SPARES = 16 /* in more blocks, which do nothing else */,
    RW_SOLO_ALL = 31
};
int rw_solo_init(struct rw_solo *s, const struct dev_info *dev, const struct dev_prog *p, uint32_t launch,
                 struct dt_err *e);
void rw_solo_done(struct rw_solo *s);
/* False with the first condition that does not hold, of those that the kinds ask for. */
bool rw_solo_legal(const struct rw_solo *s, unsigned kinds, struct dt_str *why);
/* A fresh copy. 1: its arithmetic cannot be kept, `why` says so. */
int rw_solo_copy(struct rw_solo *s, struct dt_str *why, struct dt_err *e);
/* Put instructions before instruction `at` of the copy. How many. Registers %dt_… and labels $dt_… of the text are new
 * ones, whatever was put in before. */
int rw_solo_insert(struct rw_solo *s, uint32_t at, const char *text, struct dt_err *e);
/* the same in any function, names as they are */
int rw_insert(struct ptx_function *f, uint32_t at, const char *text, struct dt_err *e);
/* the register that a text called so, "%dt_n"; PTX_NO_REG */
uint32_t rw_solo_reg(const struct rw_solo *s, const char *name);
/* The copy's blocks are `block[0..n)` of the launch's grid, linear numbers: launched on a grid of n blocks, it sees the
 * old numbers and grid. */
int rw_solo_renumber(struct rw_solo *s, const uint32_t *block, uint32_t n, struct dt_err *e);
void rw_solo_needs(struct rw_solo *s, unsigned version, unsigned sm); /* 708: .version 7.8 at least */
/* 90 of "sm_90a"; 0: none. Below RW_PARTING the threads of a warp stay together where they can, and kernels may count
 * on it. */
unsigned rw_target_number(const char *target);
#define RW_PARTING 70
/* The copy as text; verified, and printed and parsed to itself. */
int rw_solo_text(struct rw_solo *s, struct dt_str *out, struct dt_err *e);
#define SOLO(NAME, kinds, text) bool rw_solo_##NAME(const struct rw_solo *s, struct dt_str *why);
#include "rewrite/legal-solo.def"
#undef SOLO
void rw_drop_hints(struct ptx_inst *i); /* copy.c: a load, or store, without .nc, cache operators and hints */

/* ---- waits (waits.c) --------------------------------------------------------------------------------------------- */
/* What can happen in an entry on paths that have not passed griddepcontrol.wait yet: a thread exits, or dependents are
 * let go. */
struct rw_paths {
    bool exits, triggers;
};
int rw_paths_without_wait(const struct ptx_function *f, struct rw_paths *ret, struct dt_err *e);
/* Bytes of the buffer that the launch may read, or write, over all blocks and whatever its data. In `arena`. */
struct ana_set rw_launch_bytes(struct dt_arena *arena, const struct ana_result *r, uint32_t launch, uint32_t buffer,
                               bool writes);
/* facts/meets.c: do the threads of a cluster meet at each of its barriers, and is shared memory of other blocks there
 * while it is used? *ret_wrong: what is wrong, NULL: nothing. *ret_barriers (NULL: not wanted): how many each thread
 * passes. at (NULL: not wanted): by instruction, the state in front of it; left as it is
 * where no path leads, and everywhere where nothing uses the cluster. */
struct rw_arrivals { /* of a thread at its cluster's barriers */
    int done;        /* barriers that it has waited for; RW_UNSEEN: no thread gets there */
    bool arrived;    /* at the next one */
};
#define RW_UNSEEN (-1)
int rw_cluster_meets(const struct ptx_function *f, struct rw_arrivals *at, int *ret_barriers, const char **ret_wrong,
                     struct dt_err *e);
/* The module's text with the entries ending at griddepcontrol.wait; meet: behind the barriers of the cluster that are
 * still to come. */
int rw_cut_at_wait(const char *ptx, size_t len, const char *const *entry, uint32_t nentry, bool meet,
                   struct dt_str *out, struct dt_err *e);

/* ---- edits (registry.c, document.c) ------------------------------------------------------------------------------ */
/* What every rewrite makes: a set S of launches of the newest state, and the launches T that stand in their place, in
 * order. The planner (choose.c) does the rest: the new graph as a document that is read back, S and T alone on the same
 * memory, time, acceptance, analysis, one entry in `rewrites`. */
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
/* A scratch buffer of T; what is in it before T is of no use. `name` is one that no buffer has. */
int rw_edit_scratch(struct rw_edit *x, const char *name, uint64_t bytes);

struct rw_promise { /* a candidate, not yet looked at: most promising is smallest `size`, then most `bytes` */
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
    const char *name;  /* kind of contract.md §4 */
    const char *needs; /* one line for `explain` */
    const char *keeps;
    bool on;                        /* by default */
    const struct rw_rewrite *rival; /* of which the launches must not do better than with this one; NULL: none */
    /* tried in this order, the fastest is kept, of equal ones the first; NULL at the end; no levels: NULL */
    const char *const *levels;
    /* Every candidate of the state, legal or not, as far as this rewrite speaks about it at all. */
    int (*propose)(const struct rw_state *now, const struct rw_options *o, struct rw_proposals *ret, struct dt_err *e);
    /* Facts and legality, before anything is made. 0: go on; 1: not, *ret_verdict RW_REFUSED or RW_DROPPED with the
     * reason; negative: error. */
    int (*open)(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e);
    /* T at a level (0 without levels). 0: x->part is there; 1: refused or not applicable, `why` says so; negative:
     * error. May leave a note in `why` with 0. */
    int (*build)(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e);
    void (*close)(struct rw_edit *x); /* after open(), whatever it said */
};
extern const struct rw_rewrite *const rw_registry[];
extern const unsigned rw_nregistry;
extern const struct rw_rewrite rw_dead_blocks, rw_block_fusion, rw_cluster_fusion, rw_recompute, rw_parallel_fusion,
    rw_split, rw_prefetch, rw_programmatic, rw_dataflow_fusion;
const struct rw_rewrite *rw_find_rewrite(const char *name); /* the first of that name */
uint32_t rw_rewrite_bit(const struct rw_rewrite *r);        /* 1 << its place in the registry */
/* prefetch.c: does the kernel pull anything into the L2 (NULL: no)? */
bool rw_prefetches(const struct ptx_function *f);
bool rw_kind_allowed(const struct rw_options *o, const struct rw_rewrite *r);
/* The kernel of what is decided and legal: c->ptx, c->res. 0; 1: the assembler or the resources refuse it, `why`;
 * negative: error. */
int rw_make(struct rw_cand *c, struct dt_str *why, struct dt_err *e);
/* Block fusion of a join that rw_cand_init made, at a level. 0: c->ptx is there; 1: refused, `why`; negative: error. */
int rw_fuse(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
/* A rough time of the fused launch from the times of the two; *ret_now: what both take now, with the gap that fusion
 * saves. */
double rw_bound_us(const struct rw_cand *c, const struct rw_state *s, double *ret_now);
/* Of a block of each, from the launches' own times. */
void rw_block_us(const struct rw_cand *c, const struct rw_state *s, double ret[2]);
/* A joined launch as a part of x; its text moves there. */
int rw_fuse_part(struct rw_cand *c, struct rw_edit *x, struct dt_err *e);

/* The graph document with S replaced by T; modules are PTX, only those used. New reference. */
json_t *rw_edit_graph(const struct rw_edit *x);
/* The program's graph, every module as PTX, unused ones left out. New reference. */
json_t *rw_graph_ptx(const struct dev_prog *p);
/* The same without launches. gone, by launch (NULL: none): it does not count as a user; also, by module (NULL: none): it
 * stays, used or not. */
json_t *rw_graph_frame(const struct dev_prog *p, const bool *gone, const bool *also);

/* ---- planning (choose.c, plan.c, verify.c) ----------------------------------------------------------------------- */
struct rw_entry { /* one row of the plan's `rewrites` */
    const char *kind;
    char *level;      /* NULL: none */
    json_t *launches; /* names */
    enum rw_verdict verdict;
    char *reason;               /* NULL where kept */
    double before_us, after_us; /* 0: not timed */
    uint32_t tried;             /* bits by place in the registry: block fusion has two passes */
};
struct rw_entries { /* as dt_vec */
    struct rw_entry *p;
    size_t n, cap;
};
struct rw_ban { /* a candidate that is not taken: the whole plan is faster without it */
    const char *kind;
    json_t *launches;
};
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
    bool *racy;                /* by launch: it races inside; NULL: none does */
    uint64_t *member;          /* by launch: which launches of the original it stands for (trial.c) */
    double *begin_us, *end_us; /* modelled: of each launch; measured: of its steps laid in a row */
    bool borrowed;             /* the first one: prog and ana are the caller's */
    size_t entry;              /* the rewrite that made it, in rw_planner.entry */
    json_t *step;              /* that rewrite as a step of a recipe; NULL: memory, and the first state */
    enum ana_evidence evidence;
};
struct rw_sample;
struct rw_tried { /* an edit that passed its trial */
    char key[DT_SHA256_TEXT];
    unsigned orders;       /* block orders that T passed, beside the plain one */
    struct dev_cost *cost; /* of each launch of T */
};
/* What the posted launches do wrong by themselves (original.c). */
struct rw_original {
    bool *racy, races; /* by launch: it races inside; any does */
    struct dt_warnings warn;
    bool seen; /* launches ran under the checks, `blocks` of their blocks, of how many */
    uint64_t blocks, of;
};
/* sample (borrowed): only that runs; NULL: all. cost, by launch, NULL: found out. conflict: two blocks were seen to
 * touch a byte. */
int rw_original_check(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a,
                      const struct rw_sample *sample, const struct dev_cost *cost, bool conflict,
                      struct rw_original *ret, struct dt_err *e);
void rw_original_done(struct rw_original *o);
bool rw_is_racy(const struct rw_state *s, uint32_t launch);

struct rw_gate { /* what one planning knows of the posted graph, and of what was tried against it */
    struct dev_device *dev;
    const struct rw_options *opt;
    const struct dev_prog *posted; /* borrowed, as the two above */
    struct rw_original original;
    struct rw_reference *ref;
    struct rw_snaps *snaps;        /* NULL: not the software device, or the graph is too large for it */
    struct rw_sample *sample;      /* then: what runs of the original; else NULL */
    struct dev_cost *sampled_cost; /* by launch of the original */
    struct dt_vec(struct rw_tried) tried;
    bool from_library;  /* some trial was not run: the library knew it */
    bool no_library;    /* it was wrong once: nothing of it is believed any more */
    bool lines_checked; /* line tables change no code (machine-code.c) */
};
void rw_gate_init(struct rw_gate *g, struct dev_device *dev, const struct rw_options *opt,
                  const struct dev_prog *posted);
void rw_gate_done(struct rw_gate *g);

struct rw_planner {
    struct dev_device *dev;
    const struct rw_options *opt;
    const char *signature;
    const json_t *recipe;                 /* only what it says is tried (recipe.c); NULL: everything */
    struct dt_str strayed;                /* then: why it does not lead to a plan */
    uint64_t deadline_us;                 /* 0: none */
    struct dt_vec(struct rw_state) state; /* [0] is the original */
    struct rw_entries entry;
    struct dt_vec(struct rw_ban) ban;
    unsigned nname; /* next fN */
    unsigned verified_inputs, verified_schedules;
    bool budget_spent;
    struct rw_gate gate;
    uint64_t sampled[2]; /* of the plan: blocks that ran when it was verified, of how many */
    bool again;          /* the library was wrong: plan anew without it */
    /* comparisons that were measured on the device, and that the library decided (times.c) */
    unsigned measured, known;
};

#define RW_TRIAL_ORDERS 2 /* shuffled block orders of a trial */

/* ---- S and T alone (trial.c) ------------------------------------------------------------------------------------- */
struct rw_snaps;
/* Run all steps on what `run` holds, keep what they write and what they cost. `a`: the analysis of its program,
 * borrowed. */
int rw_snaps_new(struct dev_run *run, const struct ana_result *a, struct rw_snaps **ret, struct dt_err *e);
struct rw_snaps *rw_snaps_free(struct rw_snaps *s);
const struct dev_cost *rw_snaps_cost(const struct rw_snaps *s); /* by launch */
size_t rw_member_words(const struct rw_gate *g);                /* of a launch's members */

struct rw_trial {
    struct rw_gate *gate;
    const struct rw_edit *x;
    const struct rw_state *now;
    struct rw_state *next;
    uint32_t first, n; /* T, in next */
    char key[DT_SHA256_TEXT];
    unsigned orders;                 /* that it passed; ran or known */
    bool known, *touched, *compared; /* T's costs are known from an equal one that passed; by buffer */
    char library[DT_SHA256_TEXT];    /* its key there, "": none */
    uint8_t **want;                  /* by buffer: what S leaves */
};
/* 1: S and T agree on what S finds there, next->cost of T is set. 0: it cannot be tried alone.
 * DT_E_INTERNAL with what differs; a fault of either; pair with rw_trial_done in every case. */
int rw_trial_begin(struct rw_trial *t, struct rw_gate *g, const struct rw_edit *x, struct rw_state *next,
                   uint32_t first, struct dt_err *e);
/* The same under shuffled block orders with the race detector. Call only after a 1. */
int rw_trial_finish(struct rw_trial *t, struct dt_err *e);
void rw_trial_done(struct rw_trial *t);
/* library.c. 1: the library knows the trial: its costs are in cost[t->n], t->orders is set. 0: it does not. t->library
 * is its key there for rw_library_put. */
int rw_library_get(struct rw_trial *t, struct dev_cost *cost, struct dt_err *e);
void rw_library_put(const struct rw_trial *t, const struct dev_cost *cost, unsigned orders);
/* Entries of the library: `head` with its newline, the SHA-256 of key and body as text, a newline, the body.
 * rw_kept_get: the body (free()), if there is one of that length and right; NULL: none. Numbers are eight bytes, lowest
 * first. */
uint8_t *rw_kept_get(const struct ana_memo *m, const char *head, const char *key, size_t bytes);
void rw_kept_put(const struct ana_memo *m, const char *head, const char *key, const uint8_t *body, size_t bytes);
void rw_put_number(uint8_t *p, uint64_t v);
uint64_t rw_number(const uint8_t *p);
/* trial.c: a launch as part of a key, buffers by first use: number[] of every buffer is UINT32_MAX at first.
 * entry_alone: without the rest of its module. */
void rw_add_launch(struct dt_sha256 *h, const struct dev_prog *p, uint32_t launch, bool entry_alone, uint32_t *number,
                   uint32_t *n);
/* Of the buffer where T stands. 1: *ret is what is in it; 0: its fill; negative: not kept (trial.c). */
int rw_trial_content(const struct rw_trial *t, uint32_t buffer, const uint8_t **ret);
/* state.c */
void rw_state_done(struct rw_state *s);
/* Fill time, step_us, begin_us, end_us. */
int rw_state_time(struct rw_planner *p, struct rw_state *s, struct dt_err *e);
/* Members, costs and time of the original. */
int rw_state_first(struct rw_planner *p, struct rw_state *s, struct dt_err *e);
/* The edit's graph made ready. *ret_first: the first launch of T. What the newest state knows of the other launches is
 * carried over. */
int rw_state_make(struct rw_planner *p, const struct rw_edit *x, struct rw_state *ret, uint32_t *ret_first,
                  struct dt_err *e);
int rw_choose(struct rw_planner *p, struct dt_err *e);
struct rw_way { /* how a recipe wants a candidate: at one of its kind's levels */
    unsigned level;
    uint32_t size, module; /* rw_edit.size; number of the next module's name */
};
/* Try a candidate of the newest state as any other, but in one way. 1: it is kept, 0: not, `why` says so; negative:
 * error. */
int rw_try(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
           const struct rw_way *way, struct dt_str *why, struct dt_err *e);
bool rw_late(struct rw_planner *p); /* the budget is spent */
/* recipe.c. A kept rewrite as a step: `next` is what it made, its first module was named by the number. NULL:
 * memory. */
json_t *rw_step_json(const struct rw_rewrite *w, unsigned level, const uint32_t *launch, uint32_t n, unsigned module,
                     const struct rw_state *next);
json_t *rw_recipe_json(const struct rw_planner *p);
/* Do what p->recipe says, from the first state. Where it cannot be done p->strayed says why, and the result is 0 all
 * the same. */
int rw_follow(struct rw_planner *p, struct dt_err *e);
/* after rw_choose: p->strayed where the newest state is not the recipe's last */
void rw_followed(struct rw_planner *p);
/* All kinds in order from the newest state, until none of them finds anything in what the others made. */
int rw_all_rounds(struct rw_planner *p, struct dt_err *e);
/* compare.c: times are measured, not modelled. */
bool rw_measures(const struct rw_planner *p);
/* Is `next` faster by more than the noise? (Or forced.) 1, 0, negative: error. Measured: both get their times from
 * this, and `why` what noise there was. */
int rw_faster(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why, struct dt_err *e);
/* The same, whatever the library knows. */
int rw_faster_now(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why,
                  struct dt_err *e);
/* times.c: measured comparisons, kept. Two states, by the launches that only one of them has. */
struct rw_times {
    char key[DT_SHA256_TEXT]; /* "": such a comparison is not kept */
    double gain, lo, hi;      /* microseconds of one pass that `next` takes less, and the 95 % interval */
    uint32_t n, *launch;      /* launches of `next` that `now` has not */
    double *us;               /* of each, what it takes alone; 0: not known */
};
/* 1: the library knows which is the faster: gain, lo, hi and us are set; lo > 0: `next` is, else it is not. 0: it does
 * not. Release with rw_times_done. */
int rw_times_get(struct rw_planner *p, const struct rw_state *now, const struct rw_state *next, struct rw_times *ret,
                 struct dt_err *e);
void rw_times_put(const struct rw_planner *p, const struct rw_times *t);
void rw_times_done(struct rw_times *t);
/* rivals.c: take back kept rewrites without which the whole plan is faster. */
int rw_rivals(struct rw_planner *p, struct dt_err *e);
bool rw_banned(const struct rw_planner *p, const char *kind, const json_t *launches);
void rw_entries_free(struct rw_entries *v);
json_t *rw_plan_json(struct rw_planner *p, struct dt_err *e);
/* written.c: does the document, read back, say what the state is? 1; 0: `why` says what differs; negative: memory. */
int rw_written(json_t *doc, const struct rw_state *state, struct dt_str *why, struct dt_err *e);
bool rw_has_outputs(const struct dt_graph *g); /* is there anything to compare (verify.c)? */
void rw_say(const struct rw_options *o, const char *message, unsigned done, unsigned of);
/* machine-code.c: is the float arithmetic of the new kernels of T, launches `first` … of next, that of the posted ones?
 * 0; 1: refused, `why`; negative: error. */
int rw_machine_code(struct rw_gate *g, const struct rw_edit *x, const struct rw_state *next, uint32_t first,
                    struct dt_str *why, struct dt_err *e);
/* verify.c: what the original gives on `inputs` inputs, under the race detector (DT_E_RACE: the original itself
 * races). */
struct rw_reference;
/* `a` and `ret_snaps` NULL, or what trials need is kept of the first input (software device). sample (borrowed): only
 * that runs; NULL: all. */
int rw_reference_new(struct dev_device *d, const struct dev_prog *original, unsigned inputs, const struct ana_result *a,
                     const struct rw_sample *sample, struct rw_reference **ret, struct rw_snaps **ret_snaps,
                     struct dt_err *e);
/* The same, where a race is no error: *checked is what original.c says, and where the original races nobody looks for
 * races any more. cost: by launch, NULL: not known. */
int rw_reference_checked(struct dev_device *d, const struct dev_prog *original, unsigned inputs,
                         const struct ana_result *a, const struct rw_sample *sample, const struct dev_cost *cost,
                         struct rw_original *checked, struct rw_reference **ret, struct rw_snaps **ret_snaps,
                         struct dt_err *e);
/* The order of blocks of later launches, and whether races are looked for: any conflict of two blocks, or, of launches
 * whose blocks talk, those that nothing orders (docs/CHECKING.md). */
int rw_watch(struct dev_device *d, bool talks, uint64_t seed, bool races, struct dt_err *e);
bool rw_talks(const struct dev_prog *p); /* has it a launch that dataflow fusion made? */
/* Roughly how long verifying a plan takes, microseconds: what the original took. */
uint64_t rw_reference_us(const struct rw_reference *ref, unsigned inputs, unsigned schedules);
struct rw_special;
const struct rw_special *rw_reference_special(const struct rw_reference *ref); /* special.h; NULL: one input only */
unsigned rw_reference_inputs(const struct rw_reference *ref); /* how many of them the original takes without a fault */
struct rw_reference *rw_reference_free(struct rw_reference *ref);
/* The plan against it, on the first `inputs` inputs and under `schedules` block orders. `a`: the plan's analysis,
 * needed where the original was sampled. cost (by launch; NULL: not wanted): filled where not known. DT_E_INTERNAL with
 * what differs, where. */
int rw_verify_plan(struct dev_device *d, const struct rw_reference *ref, const struct dev_prog *plan,
                   const struct ana_result *a, unsigned inputs, unsigned schedules, struct dev_cost *cost,
                   struct dt_err *e);

/* thread-instructions of one pass that are run whole, where no option says: seconds */
#define RW_WHOLE UINT64_C(10000000000)

/* ---- samples of graphs that are too large to run whole (sample.c) ------------------------------------------------ */
struct rw_sample {
    struct dt_arena arena;
    struct dev_some *some; /* by launch: the blocks that run */
    struct ana_set *want;  /* by buffer: bytes of the outputs that are then as in a whole run */
    /* of the original: bytes of the outputs that all its blocks write, surely, and perhaps */
    struct ana_set *sure, *may;
    uint64_t blocks, of; /* how many run, of how many */
};
/* *ret NULL: the graph runs fewer than `most` thread-instructions (0: 10^10) and needs no sample. *ret_cost: of each
 * launch, free(). */
int rw_sample_choose(struct dev_device *d, const struct dev_prog *original, const struct ana_result *a, uint64_t most,
                     struct rw_sample **ret, struct dev_cost **ret_cost, struct dt_err *e);
/* What of another program, with this analysis, makes the same bytes. go: the original's graph. */
int rw_sample_of(const struct rw_sample *original, const struct dt_graph *go, const struct ana_result *a,
                 struct rw_sample **ret, struct dt_err *e);
/* Do all blocks of the other program, by its analysis, write the outputs' bytes that the original's write?
 * DT_E_INTERNAL: not. */
int rw_sample_writes(const struct rw_sample *original, const struct dt_graph *go, const struct ana_result *a,
                     struct dt_err *e);
struct rw_sample *rw_sample_free(struct rw_sample *s);

/* After a kernel's fault every call on the device fails: make it usable again. Gives `r` back, or the error of the
 * reset. */
int rw_recover(struct dev_device *d, int r, struct dt_err *e);
/* Leave what is needed to reproduce a failure under $DOVETAIL_BUNDLES, if that is set (bundle.c): with the plan as a
 * program, as a document, or only a kernel that does not get so far. */
bool rw_bundle_wanted(void); /* is there a place for them? */
void rw_bundle(const struct dev_prog *original, const struct dev_prog *plan, const char *what);
void rw_bundle_document(const struct dev_prog *original, json_t *plan, const char *what);
void rw_bundle_kernel(const struct dev_prog *original, const char *ptx, const char *what);
/* A kernel that was put together for a launch of `of`, as text: verified, and printed and parsed to itself. A failure
 * leaves a bundle. */
int rw_text(struct ptx_module *m, const struct dev_prog *of, struct dt_str *out, struct dt_err *e);

#endif
