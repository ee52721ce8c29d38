/* Facts: what is read off the posted graph, its analysis and its PTX, before anything is changed.
 *
 * A body is one launch's entry: what it contains that some rewrite must know (body.c). Beside it: the components of a
 * pair of launches, the order of launches, clusters. All of it is allocated in the arena that is handed in, borrows the
 * program and the analysis, and changes neither.
 */
#ifndef DT_REWRITE_FACTS_H
#define DT_REWRITE_FACTS_H

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "base/vec.h"
#include "rewrite/rewrite.h"

/* ---- facts of one entry (body.c) --------------------------------------------------------------------------------- */

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
    RW_ASYNC_FAR,          /* of these, what concerns more than its block: griddepcontrol, setmaxnreg, tcgen05 … */
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
    bool lockstep;        /* volatile accesses to shared memory: it may count on how lanes of a warp run together */
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
bool rw_is_block_barrier(unsigned op);
bool rw_is_async(const struct ptx_inst *i); /* its effects outlive its place, as RW_ASYNC says */
/* By instruction: a branch that may differ between the threads of a block (vary.c); ret is all false before. */
int rw_varying_branches(const struct rw_body *b, bool *ret, struct dt_err *e);
/* Of these, what RW_ASYNC_FAR says, but for copies in clusters; and griddepcontrol. */
bool rw_is_async_far(const struct ptx_inst *i);
bool rw_is_launch_control(const struct ptx_inst *i);
/* A volatile load or store of shared memory. */
bool rw_is_lockstep(const struct ptx_inst *i);
/* Components of a global load or store of a vector, which may be left out one by one; 1: of anything else. */
unsigned rw_access_parts(const struct ptx_inst *i);
bool rw_is_global_access(const struct ptx_inst *i); /* may touch global memory */
/* 90 of "sm_90a"; 0: none. Below RW_PARTING the threads of a warp stay together where they can, and kernels may count
 * on it. */
unsigned rw_target_number(const char *target);
#define RW_PARTING 70

/* ---- which buffers an address may be in (prov.c) ----------------------------------------------------------------- */

/* Fill in b->prov and b->stored_prov; rw_body_init does. */
int rw_prov(struct dt_arena *a, struct rw_body *b, struct dt_err *e);
/* What the global address(es) of a memory access may point into. */
uint64_t rw_prov_of(const struct rw_body *b, const struct ptx_inst *i);

/* ---- where a body touches a buffer (sites.c) --------------------------------------------------------------------- */

/* Arguments of the launch that are bound to `buffer`, as bits. */
uint64_t rw_args_of(const struct dt_launch *l, uint32_t buffer);
/* The one address that the argument is, or has in it: its place in the parameter, and where in the buffer it points, in
 * bytes. False: there is none, or there are several. */
bool rw_arg_address(const struct dt_arg *a, uint64_t *at, uint64_t *offset);
/* Every site of the body that may touch the arguments' buffer is plain and touches it alone (a producer's: a store).
 * *width: the widest, if that is more. */
bool rw_sites_alone(const struct rw_body *b, uint64_t args, bool producer, uint32_t *width, struct dt_str *why);
/* Does the pointer only go through additions into addresses of its own sites? Then it may be computed from 0. */
bool rw_only_addresses(const struct rw_body *b, uint64_t args);

/* Is what is in the buffer nobody's after the last launch that reads it? Intermediates, and a plan's own scratch. */
bool rw_passing(const struct dt_buffer *b);

/* ---- bytes of one launch (bytes.c) ------------------------------------------------------------------------------- */

/* Bytes of the buffer that the launch may read, or write: of all blocks, for any data. In `arena`. */
struct ana_set rw_launch_bytes(struct dt_arena *arena, const struct ana_result *r, uint32_t launch, uint32_t buffer,
                               bool writes);

/* ---- components of a pair (comps.c) ------------------------------------------------------------------------------ */

#define RW_BODIES 24     /* of one joined launch */
struct rw_list {         /* the blocks of one phase, by component; at level `cluster` by rank, k * cluster + r */
    uint32_t *row, *col; /* CSR: row[n + 1], col: linear block numbers */
    bool affine;         /* col(k, j) = a + b * k + c * j, j < m */
    uint32_t a, b, c;    /* modulo 2^32 */
    /* level `cluster`: col(k, r, j) = a + b * k + d * r + c * j for ranks r < ranks, others have none; 0: not of this
     * form */
    uint32_t ranks, d;
    uint32_t m;   /* blocks per component where all have the same number, else UINT32_MAX */
    uint32_t max; /* most blocks of one component */
    bool narrow;  /* table entries are 16 bits wide */
};
struct rw_comps {
    uint32_t n;
    struct rw_list list[RW_BODIES]; /* producer, consumer; or by body */
};
/* Fill in the form of a list (affine or a table) whose row and col are there. */
void rw_list_fit(struct rw_list *l, uint32_t n);
/* Components of a pair whose block map is `any`. body: NULL, or producer and consumer; blocks of a cluster that one of
 * them uses stay together. */
int rw_comps_build(struct dt_arena *a, const struct ana_rows *any, uint32_t producers, uint32_t consumers,
                   const struct rw_body *body, struct rw_comps *ret, struct dt_err *e);

/* ---- order of launches (order.c) --------------------------------------------------------------------------------- */

/* Can the n launches (ascending) stand side by side? If not, *ret_between is a launch on a path between two of them
 * (UINT32_MAX: no memory). If so, `order` (nlaunch - n + 1 numbers) is the new sequence of all launches, in which the
 * number of the first stands for all n. */
bool rw_order(const struct ana_result *r, const uint32_t *launch, uint32_t n, uint32_t *order, uint32_t *ret_between);

/* ---- graphs on several streams (streams.c) ------------------------------------------------------------------------
 * */

/* Did a rewrite place the launch among streams? Of a graph that was posted on several the kinds that do are not tried,
 * and stream and `after` of all launches follow from what was posted (kinds/place.c). */
static inline bool rw_is_placed(const struct dt_graph *g, uint32_t launch)
{
    return !g->streams && (g->launch[launch].stream || g->launch[launch].nafter);
}

/* What has ended when a launch begins. Launches by number, ascending. */
struct rw_streams {
    size_t words;
    uint64_t *ended;           /* by launch, bits by launch */
    uint32_t last[DT_STREAMS]; /* by stream: the launch that came last, + 1 */
};
bool rw_streams_open(struct rw_streams *s, uint32_t n); /* false: memory */
void rw_streams_done(struct rw_streams *s);
void rw_streams_begin(struct rw_streams *s, uint32_t b, uint32_t stream); /* b comes next on the stream */
void rw_streams_take(struct rw_streams *s, uint32_t b, uint32_t a);       /* b waits for a, an earlier one */
bool rw_streams_has(const struct rw_streams *s, uint32_t b, uint32_t a);

/* ---- clusters (clusters.c) and their barriers (meets.c) ---------------------------------------------------------- */

/* The shape of the launch's clusters, as the launch or its kernel says. The number of blocks; 0: no clusters. */
uint32_t rw_cluster_shape(const struct dt_launch *l, const struct ptx_function *f, uint32_t ret[3]);

struct rw_arrivals { /* of a thread at its cluster's barriers */
    int done;        /* barriers that it has waited for; RW_UNSEEN: no thread gets there */
    bool arrived;    /* at the next one */
};
#define RW_UNSEEN (-1)
/* Do the threads of a cluster meet at each of its barriers, and is shared memory of other blocks there while it is
 * used? *ret_wrong: what is wrong; NULL: nothing. *ret_barriers (NULL: not wanted): how many barriers each thread
 * passes. at (NULL: not wanted): by instruction, the state before it; left as it is where no path leads, and everywhere
 * if nothing uses the cluster. */
int rw_cluster_meets(const struct ptx_function *f, struct rw_arrivals *at, int *ret_barriers, const char **ret_wrong,
                     struct dt_err *e);

/* ---- launches that may become one -------------------------------------------------------------------------------- */

/* Facts of a candidate's launches. rw_cand_open and rw_cand_init (emit/cand.c) fill it in, a kind may add `set`, and
 * rw_identity puts a body's explicit form in its place; everybody else reads. Arrays are in the candidate's arena. */
struct rw_facts {
    const struct dev_info *dev;
    const struct dev_prog *prog;
    const struct ana_result *ana;
    const struct rw_options *opt;
    uint32_t nbody;             /* 2 where there is an edge */
    uint32_t launch[RW_BODIES]; /* producer, consumer; or what runs side by side */
    struct rw_body body[RW_BODIES];
    struct ptx_module *own[RW_BODIES]; /* where the body is not the program's entry but its explicit form */
    bool open[RW_BODIES];              /* its products stay without .rn: no sum can meet them (device/identity.c) */
    /* of a pair with a hazard, else NULL and empty: */
    const struct ana_edge *edge;
    struct rw_comps comps;
    /* other launches whose reads do not keep an intermediate in global memory (recompute), NULL: none */
    const uint32_t *set;
    uint32_t nset;
};
/* The arguments, by side, are addresses and nothing else. */
bool rw_args_whole(const struct rw_facts *facts, const uint64_t args[2]);
/* The size of the clusters that a body uses itself; 0: none does. */
uint32_t rw_cluster_own(const struct rw_facts *facts);
/* Do blocks of two clusters of body s touch a byte in conflict? */
bool rw_cluster_conflict(const struct rw_facts *facts, uint32_t s);

#endif
