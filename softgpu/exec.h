/* Inside softgpu: decoded kernels and the state of running blocks.
 *
 * Registers. A register of up to 32 bits is a row of 32 lanes of uint32_t (128 bytes), a 64-bit one 32 lanes of
 * uint64_t, a 128-bit one two such rows (low, high), a predicate one uint32_t with a bit per lane. 8- and 16-bit values
 * are kept zero-extended. An operand is a `ref`: a byte offset with the number of its base in the low two bits: 0 the
 * warp's registers, 1 the launch's constants (immediates, parameters, broadcast to 32 lanes), 2 the block's constants
 * (%ctaid).
 *
 * Code. A decoded kernel is one array of struct sg_op, device functions inlined. `fn` does the operation for all lanes
 * of `w->mask` and returns the next operation, or NULL when the warp has to stop (w->stop says why). Each basic block
 * starts with a BB operation, which counts, looks for other diverged threads of the warp, and gives way when the warp's
 * fuel is spent: branch targets, and places where diverged threads meet, are always BB operations.
 *
 * Divergence. A warp runs one fragment (op, mask) at a time; the others wait in w->frag: runnable, at a barrier, or at
 * a collective for lanes that are still missing. Lowest position first, equal ones merged; see exec-warp.c.
 *
 * Three copies of the lane loops (lanes.inc) are compiled, for x86-64 of levels 1, 3 and 4; sg_isa() picks one.
 */
#ifndef DT_SOFTGPU_EXEC_H
#define DT_SOFTGPU_EXEC_H

#include <pthread.h>

#include "base/vec.h"
#include "softgpu/mem.h"

#define SG_LANES 32
#define SG_ALL 0xFFFFFFFFu

/* Windows of the generic address space. No user-space address of the host has bits above 56. */
#define SG_WINDOW_SHIFT 56
#define SG_WINDOW_SHARED (1ull << SG_WINDOW_SHIFT)
#define SG_WINDOW_LOCAL (2ull << SG_WINDOW_SHIFT)
#define SG_WINDOW_PARAM (3ull << SG_WINDOW_SHIFT)
/* Inside the shared window, bits 24 and up are 0 for the block's own memory, or 1 + the rank of a block of the cluster
 * (exec-cluster.c). */
#define SG_RANK_SHIFT 24
#define SG_MAX_CLUSTER 16
#define SG_MAX_LOCAL (512u << 10) /* bytes per thread, as CUDA */
#define SG_IN_FRAME (1u << 31)    /* of a place in local memory: from the thread's frame on */
#define SG_MAX_OPS (1u << 20)     /* of a decoded kernel */
#define SG_BARRIERS 16
#define SG_GROUPS 8 /* warpgroups in a block; their meeting places are barriers SG_BARRIERS … */

struct sg_warp;
struct sg_op;
typedef const struct sg_op *(*sg_fn)(struct sg_warp *w, const struct sg_op *op);

enum sg_op_flags {
    SG_GUARD_NOT = 1,  /* the guard predicate is negated */
    SG_A64 = 2,        /* the address operand has 64-bit lanes */
    SG_SIGNED = 4,     /* sign-extend what is loaded */
    SG_D64 = 8,        /* the destination has 64-bit lanes */
    SG_C_NOT = 16,     /* predicate operand c is negated */
    SG_NO_RESULT = 32, /* red: no destination */
    SG_HAS_Q = 64,     /* second destination */
};

struct sg_op {
    sg_fn fn;
    sg_fn inner;         /* behind the guard, when fn is sg_guarded */
    uint32_t d, a, b, c; /* refs */
    uint32_t guard;      /* ref of the guard predicate */
    uint32_t x;          /* more: second destination, number of a basic block, index into code->ext, memory site */
    int64_t imm;         /* address offset, branch target, sub-operation */
    uint32_t src;        /* index into code->src */
    uint32_t site;       /* memory operations: index into the worker's range cache */
    uint8_t size, n;     /* memory: bytes of an element, elements */
    uint8_t space, flags;
    uint8_t sub, type; /* sub-operation, enum ptx_type */
    uint16_t rnd;      /* SG_RN… | SG_FTZ | SG_SAT */
};

enum sg_rnd {
    SG_RN,
    SG_RZ,
    SG_RM,
    SG_RP,
    SG_RNA,
    SG_RND_MASK = 7,
    SG_FTZ = 8,
    SG_SAT = 16,
    SG_RELU = 32,
    SG_INTEGRAL = 64,
    SG_SATFINITE = 128,
    SG_NANP = 256,
    SG_XORSIGN = 512,
    SG_ABS = 1024
};

/* What one instruction of a basic block adds to the counters, per active lane. */
enum sg_count {
    SG_C_FP32,
    SG_C_FP64,
    SG_C_INT,
    SG_C_SFU,
    SG_C_MEMORY,
    SG_C_BARRIER,
    SG_C_TENSOR,
    SG_C_SHARED,
    SG_C_CLUSTER,
    SG_C_CLUSTER_BYTES,
    SG_C_CLUSTER_SYNC,
    SG_C_COUNT
};

struct sg_bb {
    uint32_t instructions; /* of PTX */
    uint32_t ops;          /* decoded: fuel */
    uint32_t count[SG_C_COUNT];
};

/* A matrix spread over the registers of a warp, and an instruction on matrices; see exec-matrix.c. */
enum sg_mat_role { SG_MAT_A, SG_MAT_B, SG_MAT_C };
struct sg_fragment {
    enum sg_mat_role role;
    enum ptx_type type;
    unsigned rows, cols, regs, per; /* per: elements in a register */
    const uint16_t *at;             /* where each element lies, for loads and stores: sg_fragment_table() */
};
enum sg_mat_bits { SG_MAT_MUL, SG_MAT_XOR, SG_MAT_AND }; /* of b1 */
struct sg_tiles {                                        /* a product as matrix.inc does it */
    enum ptx_type a, b;
    /* tiles of 8 rows of A, of 8 columns of B; registers along K; elements in a register (b1: one word) */
    unsigned high, wide, steps, per;
    enum sg_mat_bits bits;
    bool negate_a, negate_b;
};
struct sg_mma {
    struct sg_fragment a, b, c, d;
    struct sg_tiles tiles;
    unsigned at_a, at_b, at_c; /* where their refs begin, behind those of d */
    bool sparse, ordered;      /* A has half its elements; behind C a row of metadata */
    unsigned selector;         /* which lanes of four have the metadata */
    unsigned copies;           /* wmma.load: registers from here on are copies */
    unsigned rnd;              /* f64: SG_RN … SG_RP */
    bool saturate, by_column;
    bool quads, col_a, col_b; /* m8n8k4 of f16; the layouts of A and B there. wgmma: M- and N-major */
};
#define SG_MMA_REGS 64 /* of all operands, at most */
#define SG_WGMMA_REGS 136
#define SG_TILE_A 2048 /* elements of A in a product, at most */
#define SG_TILE_B 8192
struct sg_products { /* matrix.inc, per instruction set; `lay` is what lay_f or lay_i make of B */
    void (*lay_f)(const struct sg_tiles *s, const uint32_t *const *b, void *lay);
    void (*lay_i)(const struct sg_tiles *s, const uint32_t *const *b, void *lay);
    void (*product_f)(const struct sg_tiles *s, const uint32_t *const *a, const float *lay, float *acc);
    void (*product_i)(const struct sg_tiles *s, const uint32_t *const *a, const int32_t *lay, int32_t *acc);
    void (*product_d)(const struct sg_tiles *s, const uint64_t *const *a, const uint64_t *const *b, double *acc);
    void (*take_f)(bool half, unsigned tiles, const uint32_t *const *c, float *acc);
    void (*give_f)(bool half, unsigned tiles, const float *acc, uint32_t *const *d);
};

struct sg_src {
    const struct ptx_function *f;
    uint32_t inst;
};

struct sg_shared_name { /* a shared variable, for reports */
    const char *name;
    uint64_t offset, bytes;
    bool dynamic;
};

struct sg_param_copy { /* a kernel parameter (or a piece of one) as a launch constant */
    uint32_t from, bytes, to;
    bool sign, wide, narrow; /* wide: 64-bit lanes; narrow: a 16-bit register */
};

struct sg_code {
    struct dt_arena arena;
    struct sg_op *op;
    struct sg_src *src;
    uint32_t *ext; /* extra refs and branch tables */
    struct sg_bb *bb;
    struct sg_mma *mma;
    uint8_t *konst; /* image of the launch constants */
    struct sg_param_copy *param;
    struct sg_clear {
        uint32_t at, bytes;
    } * clear; /* registers that may be read before they are written: 0 */
    struct sg_shared_name *shared;
    uint32_t nshared;
    uint32_t nop, nsrc, next, nbb, nkonst, nparam, nsite, nclear;
    uint32_t konst_bytes, reg_bytes;
    uint32_t local_bytes, shared_static, shared_dynamic_at, param_total;
    uint32_t fp;     /* row: where a thread's frame lies in its local memory; 0: no function needs one */
    bool heap;       /* uses malloc or free */
    bool prefetches; /* into the L2 */
    bool ordered;    /* blocks may talk to each other (atomics, fences, volatile): run them in order, on one thread */
    bool talks, acquires, releases; /* global acquires and releases wider than the block: both of them */
    int error;                      /* decoding failed: DT_E_* and why */
    uint32_t error_line;
    char error_text[256];
};

/* Refs with a fixed place. */
enum { SG_REG_TIDX = 0, SG_REG_TIDY = 128, SG_REG_TIDZ = 256, SG_REG_WARPID = 384, SG_REG_FIXED = 512 };
enum {
    SG_BLOCK_CTAIDX = 0,
    SG_BLOCK_CTAIDY = 128,
    SG_BLOCK_CTAIDZ = 256,
    SG_BLOCK_SMID = 384,
    SG_BLOCK_CLUSTERID = 512,
    SG_BLOCK_CLUSTER_CTAID = 896,
    SG_BLOCK_CLUSTER_RANK = 1280,
    SG_BLOCK_BYTES = 1408
};
/* Launch constants filled in by sg_execute. */
enum {
    SG_K_FALSE = 0,
    SG_K_TRUE = 4,
    SG_K_EXPLICIT_CLUSTER = 8,
    SG_K_LANEID = 128,
    SG_K_LANEMASK = 256 /* eq le lt ge gt */,
    SG_K_NTID = 896,
    SG_K_NCTAID = 1280,
    SG_K_NWARPID = 1664,
    SG_K_NSMID = 1792,
    SG_K_DYNSMEM = 1920,
    SG_K_TOTSMEM = 2048,
    SG_K_ZERO64 = 2176,
    SG_K_NCLUSTERID = 2432,
    SG_K_CLUSTER_NCTAID = 2816,
    SG_K_CLUSTER_SIZE = 3200,
    SG_K_FIXED = 3328
};

struct sg_kernel {
    struct sg_module *module;
    struct ptx_function *f;
    struct sg_kernel_info info;
    struct sg_code *code, *checked; /* NULL until first use; `checked`: for the checking modes (check.h) */
};

struct sg_module {
    struct sg_device *device;
    struct ptx_module *ptx;
    uint64_t *var_addr; /* per module variable, 0: shared, or not allocated */
    struct sg_kernel *kernel;
    unsigned nkernel;
    uint64_t workspace;   /* grid barrier of cooperative groups, 0: no kernel asked for it */
    pthread_mutex_t lock; /* decoding */
};
/* Where %envreg1 (high half) and %envreg2 (low half) say that a grid's barrier lies: 64 zeroed bytes a module. 0: no
 * memory. Under its lock. */
uint64_t sg_grid_workspace(struct sg_module *m);
/* fails only with DT_E_NOMEM; other errors are in the code */
int sg_decode(struct sg_kernel *k, bool checked, struct sg_code **ret);
void sg_code_free(struct sg_code *c);
struct sg_code *sg_kernel_code(struct sg_kernel *k, bool checked);
/* What a function's address is: no memory (window 0x7F), so that only a call can use it. 0: it has no body. */
uint64_t sg_function_address(const struct ptx_module *m, const struct ptx_function *f);
uint64_t sg_module_var(const struct sg_module *m, const struct ptx_var *v);

/* ---- running ------------------------------------------------------------------------------------------------- */
enum sg_frag_state { SG_F_RUN, SG_F_BAR, SG_F_WARP, SG_F_CLUSTER }; /* CLUSTER: at barrier.cluster.wait */
struct sg_frag {
    const struct sg_op *op;
    uint32_t mask;
    uint8_t state, bar; /* enum sg_frag_state; barrier number */
    uint32_t tick;      /* when it was parked */
};

enum sg_stop { SG_GO, SG_YIELD, SG_BLOCKED, SG_DONE, SG_FAULT };

struct sg_range { /* an allocation, as a launch sees it */
    uint64_t base, end;
    uint32_t index; /* in run->range */
    bool read_only;
    /* one per word of 4 bytes; one per byte, for words that are split. Made by the first access under
     * SG_CHECK_BLOCKS */
    struct sg_shadow *shadow, *bytes;
};
struct sg_map { /* sectors of 32 bytes that were touched; exec-track.c */
    uint64_t *bits;
    uint8_t *dirty;
};
struct sg_shadow {
    /* block number + 1, counted by clusters; SHADOW_MANY readers or atomics, or SHADOW_CLUSTER + the number of a block
     * of their cluster + 1 */
    uint32_t writer, reader;
    uint8_t atomic;         /* the writer's accesses were atomic */
    uint8_t wphase, rphase; /* the cluster's barriers before which they happened: number 1 for 0; 255: unknown */
    uint8_t split;          /* of a word: its bytes have their own */
};

struct sg_calls { /* of a lane: what its calls saved */
    uint8_t *p;
    size_t n, cap;
};

struct sg_warp {
    uint8_t *base[4];
    uint32_t mask;  /* active lanes */
    uint32_t full;  /* no lane that still lives is inactive: operations may compute all 32 */
    uint32_t alive; /* lanes that exist and have not exited */
    uint32_t nfrag; /* waiting fragments */
    int64_t fuel;
    uint64_t issued; /* instructions, whatever number of lanes took part */
    struct sg_worker *wk;
    struct sg_block *blk;
    const struct sg_code *code;
    uint8_t *shared, *local;
    uint64_t shared_bytes, local_bytes;
    struct sg_calls *calls; /* per lane; NULL: none made yet */
    uint32_t cc;            /* carry flags */
    uint32_t index;         /* in the block */
    uint32_t tick, stick;
    uint32_t stop;  /* enum sg_stop */
    uint32_t ready; /* some fragment can run */
    /* lanes that arrived at the cluster's barrier and have not waited yet; those of them that need not wait */
    uint32_t arrived, passed;
    bool waited; /* executed griddepcontrol.wait */
    bool spin;   /* did an atomic since it last gave way to another fragment */
    struct sg_frag frag[2 * SG_LANES];
};

struct sg_barrier {
    uint32_t arrived, expected; /* expected 0: all threads of the block */
    uint32_t blocked;           /* of `arrived`, those that wait */
    uint32_t any, all, count;   /* bar.red */
    const struct sg_op *op;     /* of a warpgroup: where its warps meet */
};

struct sg_block {
    struct sg_worker *wk;
    uint64_t linear;
    uint32_t id[3];
    uint32_t nwarp, alive; /* threads */
    struct sg_warp *warp;
    uint8_t *regs, *shared, *local, *konst;
    void *memory; /* all of these */
    size_t bytes;
    struct sg_barrier bar[SG_BARRIERS + SG_GROUPS];
    uint32_t next;     /* warp to run next */
    uint64_t executed; /* thread-instructions so far */
    /* instructions before griddepcontrol.wait of the last warp, before .launch_dependents of the first */
    uint64_t waited, triggered;
    bool waits, triggers;
    bool live;
    struct sg_cluster *cl;
    uint32_t rank;                /* in the cluster */
    struct sg_check_block *check; /* NULL: not checked */
    struct sg_touch_map *touched; /* by range and plane of the recorder; NULL: nothing yet */
};

/* Blocks that run together. A launch without clusters has clusters of one block. */
struct sg_cluster {
    struct sg_block *block; /* `size` of them, by rank */
    uint32_t size, live;    /* blocks; those that still run */
    uint32_t alive;         /* threads that have not exited */
    uint32_t arrived;       /* of them, those that arrived at the barrier in this phase */
    uint32_t next;          /* rank that runs first in the next turn */
    uint32_t passes;        /* turns so far */
    uint64_t place;         /* in the order of clusters */
    uint64_t index;         /* its number; of one block, that block's */
    uint32_t phase;         /* barriers that are over and order memory */
    bool relaxed;           /* somebody arrived at the next one without .release */
};

struct sg_interval {
    uint64_t run[2];
};
struct sg_runs dt_vec(struct sg_interval);

struct sg_run;
struct sg_worker {
    struct sg_run *run;
    uint64_t *bb;                 /* lane executions per basic block */
    const struct sg_range **site; /* last allocation, per memory operation */
    uint64_t executed, flushed;   /* thread-instructions; what of them the run knows */
    uint64_t ticks;               /* reads of a clock */
    uint64_t sectors[2];          /* read, written */
    uint64_t fetched;             /* sectors prefetched that were not yet */
    struct sg_map *map;           /* two an allocation: read, written; NULL without counters */
    uint32_t generation;
    struct {
        uint32_t generation;
        uint64_t sector;
    } met[256]; /* sectors of the access at hand */
    uint64_t heaviest;
    uint64_t weight[2][64]; /* blocks that executed 2^k to 2^(k+1) - 1 thread-instructions; what they executed */
    uint64_t longest;       /* sum over blocks: issued by the busiest warp */
    uint64_t before_wait, before_trigger; /* of them */
    bool held;                            /* a block stopped at griddepcontrol.wait in this turn */
    bool track, race;
    uint32_t *touched, stray_site; /* recorder: the range that each site last met; the site of a stray + 1 */
    struct sg_runs runs;           /* what a block touched, at its end */
    struct sg_check *check;        /* NULL: not checked */
    struct sg_talker *talk;        /* NULL: nobody wants to know */
    struct sg_cluster *cluster;    /* resident ones */
    uint32_t ncluster;
    uint64_t place, place_end; /* clusters that it has taken and not begun */
    uint64_t rng;
    int fault;
    uint64_t fault_place; /* of the faulting cluster in their order */
    struct sg_fault f;
    pthread_t thread;
    bool started;
};

struct sg_run {
    struct sg_device *device;
    const struct sg_launch *l;
    const struct sg_code *code;
    struct sg_range *range;
    size_t nrange;
    struct sg_alloc *alloc; /* the pinned table, for messages */
    uint8_t *konst;
    uint32_t local_bytes; /* per thread: static, and the stack */
    uint32_t threads, nwarp, shared_bytes;
    uint32_t cluster[3], cluster_size; /* blocks */
    bool explicit_cluster;
    uint64_t nblocks, nclusters;
    uint64_t next, fault_cluster; /* atomics, in the order of clusters */
    uint64_t executed;            /* atomic */
    int stop;                     /* atomic: 1 instruction limit, 2 cancelled, 3 out of memory */
    struct sg_worker *first;      /* nworker of them; the first is the caller's thread */
    uint32_t nworker;
    bool helping;              /* the other threads have been started, or are not wanted */
    pthread_mutex_t recording; /* held while the recorder's function runs */
};

static inline void *sg_ref(const struct sg_warp *w, uint32_t ref) { return w->base[ref & 3] + (ref & ~3u); }
#define SG_P(T, ref) ((T *)sg_ref(w, ref))

static inline void sg_set_mask(struct sg_warp *w, uint32_t mask)
{
    w->mask = mask;
    w->full = (mask | ~w->alive) == SG_ALL;
}

/* ---- exec-warp.c: control -------------------------------------------------------------------------------------- */
#define SG_NONE UINT32_MAX /* no such operand */
const struct sg_op *sg_guarded(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_bra(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_brx(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_exit(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_trap(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_assertfail(struct sg_warp *w, const struct sg_op *op);
/* Parameter `k` of an extern call, results behind arguments: where it lies in the lane's local memory. */
uint8_t *sg_call_param(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned k);
const struct sg_op *sg_malloc(struct sg_warp *w, const struct sg_op *op); /* heap.c */
const struct sg_op *sg_free(struct sg_warp *w, const struct sg_op *op);
/* exec-call.c */
const struct sg_op *sg_call(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_return(struct sg_warp *w, const struct sg_op *op);
void sg_calls_reset(struct sg_warp *w);
void sg_calls_free(struct sg_warp *w);
const struct sg_op *sg_vprintf(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_bar(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_bar_result(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_collective(struct sg_warp *w, const struct sg_op *op);
/* exec-track.c: bytes that a bulk prefetch names; false: they are not in one allocation. */
bool sg_fetch_bulk(struct sg_worker *wk, uint64_t at, uint32_t bytes);
const struct sg_op *sg_prefetch(struct sg_warp *w, const struct sg_op *op);       /* of a line into the L2 */
const struct sg_op *sg_griddepcontrol(struct sg_warp *w, const struct sg_op *op); /* sub: 0 wait, 1 launch_dependents */
const struct sg_op *sg_setmaxnreg(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_activemask(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_clock(struct sg_warp *w, const struct sg_op *op);
enum sg_collective {
    SG_SYNC,
    SG_SHFL_UP,
    SG_SHFL_DOWN,
    SG_SHFL_BFLY,
    SG_SHFL_IDX,
    SG_VOTE_ALL,
    SG_VOTE_ANY,
    SG_VOTE_UNI,
    SG_VOTE_BALLOT,
    SG_MATCH_ANY,
    SG_MATCH_ALL,
    SG_REDUX_ADD,
    SG_REDUX_MIN,
    SG_REDUX_MAX,
    SG_REDUX_AND,
    SG_REDUX_OR,
    SG_REDUX_XOR,
    SG_REDUX_FMIN,
    SG_REDUX_FMAX,
    SG_ELECT
};
enum { SG_REDUX_ABS = 1 }; /* in op->rnd, with SG_NANP */
enum sg_bar_kind { SG_BAR_SYNC, SG_BAR_ARRIVE, SG_BAR_POPC, SG_BAR_AND, SG_BAR_OR };
/* The warp waits for the others of its warpgroup at `op`, to go on behind it. *ret_last: it is the last one, and works
 * for all. If not, return what this returns. A fault if they meet at different instructions. */
const struct sg_op *sg_meet_group(struct sg_warp *w, const struct sg_op *op, bool *ret_last);
/* the next fragment to run; NULL: stop is set */
const struct sg_op *sg_pick(struct sg_warp *w);
const struct sg_op *sg_switch(struct sg_warp *w, const struct sg_op *bb); /* at a BB, with other fragments waiting */
const struct sg_op *sg_out_of_fuel(struct sg_warp *w, const struct sg_op *bb);
/* Where printf of kernels goes; NULL: nowhere. Nobody sets it yet. */
extern void (*sg_print)(const char *text, size_t n);

/* ---- exec-mem.c ------------------------------------------------------------------------------------------------- */
/* The host address of `bytes` at `addr` in `space` for one lane; NULL with the fault set. */
uint8_t *sg_resolve(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, unsigned bytes,
                    bool write);
/* The fault of an access to "shared memory" or the like that is misaligned or outside its `limit` bytes; NULL. */
void *sg_stray(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t at, unsigned bytes, const char *space,
               uint64_t limit);
/* As above, for global memory only; *ret_range gets the allocation. NULL without a fault when it is not accessible. */
const struct sg_range *sg_find_range(struct sg_warp *w, const struct sg_op *op, uint64_t lo, uint64_t bytes);
enum sg_access { SG_READ, SG_WRITE, SG_ATOMIC };
void sg_race_check(struct sg_warp *w, const struct sg_op *op, const struct sg_range *range, unsigned lane, uint64_t lo,
                   uint64_t bytes, enum sg_access how);
void sg_shadow_done(struct sg_range *r);

/* ---- exec-track.c ---- */
void sg_track_range(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t lo, uint64_t bytes,
                    enum sg_access how);
void sg_track_lanes(struct sg_warp *w, const struct sg_op *op, const uint64_t *addr, uint32_t mask, unsigned bytes,
                    enum sg_access how);
/* All 32 lanes at base + at[l] within r, aligned elements of at most 32 bytes; those of inactive lanes repeat one of
 * the others. */
void sg_track_offsets(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t base,
                      const uint32_t *at, unsigned bytes, enum sg_access how);
/* The same, where each half of the warp is one element, or 16 in a line. */
void sg_track_halves(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t base,
                     const uint32_t *at, unsigned bytes, bool line0, bool line1, enum sg_access how);
int sg_track_init(struct sg_worker *wk);
void sg_track_done(struct sg_worker *wk);
/* distinct bytes read, written */
void sg_track_sum(const struct sg_run *run, uint64_t ret_bytes[2], uint64_t *ret_fetched);

const struct sg_op *sg_load_slow(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_store_slow(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_atomic(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_cp_async(struct sg_warp *w, const struct sg_op *op);
uint64_t sg_address(const struct sg_warp *w, const struct sg_op *op, unsigned lane);
/* One atomic operation (op->sub, op->type, op->size) on `old`; c: compare-and-swap's new value. */
uint64_t sg_atomic_value(const struct sg_op *op, uint64_t old, uint64_t b, uint64_t c, bool global);

/* ---- exec-record.c: calls of DOVETAIL_TOUCH (record.h). Offset in imm, site in x, how in sub ---- */
const struct sg_op *sg_touch(struct sg_warp *w, const struct sg_op *op);
int sg_record_start(struct sg_worker *wk); /* nothing without a recorder, so below */
void sg_record_block(struct sg_block *b);  /* it has ended: give out what it touched */
void sg_record_free(struct sg_block *b);
void sg_record_end(struct sg_worker *wk);
void sg_record_stray(const struct sg_launch *l, const struct sg_worker *wk); /* its fault is one: tell the recorder */

/* ---- talk.c: who waits for whom (only where wk->talk is there) ---- */
int sg_talk_start(struct sg_worker *wk);
void sg_talk_free(struct sg_worker *wk);
void sg_talk_block_start(struct sg_worker *wk, bool alone); /* alone: no other block is resident */
void sg_talk_block_end(struct sg_worker *wk, uint64_t longest);
/* sem: enum sg_sem */
void sg_talk_access(struct sg_warp *w, unsigned sem, const uint64_t *addr, uint32_t mask, enum sg_access how);
uint32_t sg_talk_finish(const struct sg_worker *wk, const struct sg_stats *all); /* the record's number, or 0 */
/* fault.c: n lanes went through the basic block */
void sg_count_bb(struct sg_stats *s, const struct sg_bb *bb, uint64_t n);

/* ---- exec-cluster.c: blocks of a cluster ---- */
/* Where the launch's cluster size is (0,0,0): the kernel's, else one block. NULL: it fits; else why not. */
const char *sg_cluster_shape(const struct sg_launch *l, uint32_t ret[3], bool *ret_explicit);
void sg_cluster_konst(const struct sg_run *run, uint8_t *konst);
/* Linear number of block `rank` of cluster `i`; its constants. */
uint64_t sg_cluster_block(const struct sg_run *run, uint64_t i, uint32_t rank);
void sg_cluster_block_konst(const struct sg_block *b);
/* sg_resolve for an offset in the shared window that names a block. */
uint8_t *sg_cluster_resolve(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t at, unsigned bytes);
void sg_cluster_leave(struct sg_warp *w, uint32_t lanes); /* they have exited */
const struct sg_op *sg_cluster_arrive(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_cluster_wait(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_mapa(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_getctarank(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_isspacep_cta(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_same_block(struct sg_warp *w, const struct sg_op *op);
/* exec-warp.c */
void sg_park(struct sg_warp *w, const struct sg_op *op, uint32_t mask, enum sg_frag_state state, unsigned bar);

/* ---- exec-slow.c: lane by lane, all types and rounding modes; op->sub says what ---------------------------------- */
enum sg_slow {
    SG_S_ADD,
    SG_S_SUB,
    SG_S_MUL,
    SG_S_FMA,
    SG_S_DIV,
    SG_S_RCP,
    SG_S_SQRT,
    SG_S_RSQRT,
    SG_S_SIN,
    SG_S_COS,
    SG_S_LG2,
    SG_S_EX2,
    SG_S_TANH,
    SG_S_MIN,
    SG_S_MAX,
    SG_S_ABS,
    SG_S_NEG,
    SG_S_MIN3,
    SG_S_MAX3
};
const struct sg_op *sg_slow_float(struct sg_warp *w, const struct sg_op *op);
enum sg_testp { SG_T_FINITE, SG_T_INFINITE, SG_T_NUMBER, SG_T_NAN, SG_T_NORMAL, SG_T_SUBNORMAL };
const struct sg_op *sg_testp(struct sg_warp *w, const struct sg_op *op);
/* Integers that the lane loops do not have. carry: a op b (op c), with w->cc in (SG_CC_IN) and out (SG_CC_OUT), in
 * op->imm. */
enum sg_int { SG_I_ADD, SG_I_SUB, SG_I_MADLO, SG_I_MADHI, SG_I_FNS, SG_I_DP2A, SG_I_CVT_PACK, SG_I_X2 };
enum { SG_CC_IN = 1, SG_CC_OUT = 2 };
const struct sg_op *sg_carry(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_odd_int(struct sg_warp *w, const struct sg_op *op);
/* exec-cvt.c: op->type from, op->sub to, op->rnd */
const struct sg_op *sg_cvt(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_cvt_x2(struct sg_warp *w, const struct sg_op *op);
/* exec-narrow.c: op->type from, op->sub to; arithmetic as sg_slow_float */
#define SG_OOB_NAN 0x7FF7u /* what tensor copies fill with, in every 16 bits */
const struct sg_op *sg_cvt_narrow(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_f32x2(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_fma_oob(struct sg_warp *w, const struct sg_op *op);
/* one f32, f16 or bf16 of sg_slow_float */
uint64_t sg_slow_one(const struct sg_op *op, uint64_t a, uint64_t b, uint64_t c, enum ptx_type t);
/* value = (-1)^sign * mant * 2^exp, plus something smaller than the last place if `sticky`; rounded into a float type's
 * bits */
struct sg_parts {
    bool sign, nan, inf, sticky;
    uint64_t mant;
    int exp;
};
struct sg_parts sg_parts_of(uint64_t bits, enum ptx_type t);
uint64_t sg_parts_round(struct sg_parts p, enum ptx_type t, unsigned rnd);
uint64_t sg_get_lane(const struct sg_warp *w, uint32_t ref, enum ptx_type t, unsigned lane);
void sg_put_lane(const struct sg_warp *w, uint32_t ref, enum ptx_type t, unsigned lane, uint64_t v);

/* ---- exec-matrix.c ---- */
unsigned sg_matrix_bits(enum ptx_type t); /* of an element; 0: no type of matrices */
struct sg_fragment sg_fragment(enum sg_mat_role role, enum ptx_type t, unsigned rows, unsigned cols);
bool sg_fragment_table(struct dt_arena *arena, struct sg_fragment *f);
bool sg_whole_warp(struct sg_warp *w, const struct sg_op *op); /* false with a fault: lanes are missing */
/* a register from 8 rows of 8 elements of 16 bits, transposed */
void sg_turn(const uint8_t *const row[8], uint32_t *out);
void sg_sum_i(bool saturate, const uint32_t *c, int32_t *acc); /* one register: acc += c */
const struct sg_op *sg_mma(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_wmma_load(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_wmma_store(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_ldmatrix(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_stmatrix(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_movmatrix(struct sg_warp *w, const struct sg_op *op);

/* ---- exec-wgmma.c ---- */
const struct sg_op *sg_wgmma(struct sg_warp *w, const struct sg_op *op);

/* ---- exec-video.c: op->sub says what a lane computes, op->imm where the lanes are ---- */
enum sg_video_kind {
    SG_V_ADD,
    SG_V_SUB,
    SG_V_AVRG,
    SG_V_ABSDIFF,
    SG_V_MIN,
    SG_V_MAX,
    SG_V_EQ,
    SG_V_NE,
    SG_V_LT,
    SG_V_LE,
    SG_V_GT,
    SG_V_GE
};
/* First bits: of the write mask (0), of three bits for the place of each of four lanes of a and of b, of the number of
 * lanes, of the signs of d, a, b, of .add, of .sat. */
enum sg_video_imm {
    SG_VIDEO_FROM_AT = 4,
    SG_VIDEO_LANES_AT = 28,
    SG_VIDEO_SIGN_AT = 32,
    SG_VIDEO_ADD_AT = 35,
    SG_VIDEO_SAT_AT = 36
};
const struct sg_op *sg_video(struct sg_warp *w, const struct sg_op *op);

/* ---- exec-mbarrier.c ---- */
enum sg_mbarrier {
    SG_MB_INIT,
    SG_MB_INVAL,
    SG_MB_ARRIVE,
    SG_MB_DROP,
    SG_MB_ARRIVE_TX,
    SG_MB_DROP_TX,
    SG_MB_EXPECT_TX,
    SG_MB_COMPLETE_TX,
    SG_MB_WAIT,
    SG_MB_PARITY,
    SG_MB_NOTHING
};
const struct sg_op *sg_mbarrier(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_mbarrier_count(struct sg_warp *w, const struct sg_op *op);
/* `bytes` less to come on the object at `addr` in op->space; false: fault. */
bool sg_mbarrier_complete(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, uint32_t bytes);

/* ---- exec-bulk.c, exec-tensor.c: operands in code->ext from op->x on ---- */
enum sg_bulk_ext {                   /* an address is three words: ref, SG_A64 or 0, offset */
                   SG_BULK_TO = 0,   /* stores of tensors: the source; tensormap.*: the map */
                   SG_BULK_FROM = 3, /* copies of tensors: the map */
                   SG_BULK_BAR = 6,  /* SG_NONE: a bulk group */
                   SG_BULK_SIZE = 9, /* ref; tensormap.replace: the value */
                   SG_BULK_CTAS,     /* ref of the mask of multicast, or SG_NONE */
                   SG_BULK_BYTES,    /* ref of the byte mask, or SG_NONE */
                   SG_BULK_OP,       /* enum ptx_mod: the reduction, or 0; the field of tensormap.replace */
                   SG_BULK_TYPE,     /* enum ptx_type; the ordinal of tensormap.replace */
                   SG_BULK_COORDS,   /* number of coordinates; tensormap.replace: the value has 64 bits */
                   SG_BULK_COORD,    /* refs */
                   SG_BULK_EXT = SG_BULK_COORD + 5
};
/* one address as an operation */
struct sg_op sg_bulk_part(const struct sg_warp *w, const struct sg_op *op, unsigned which, unsigned space);
uint8_t *sg_bulk_reach(struct sg_warp *w, const struct sg_op *part, unsigned lane, uint64_t addr, uint32_t n,
                       enum sg_access how);
/* Where a copy to shared memory goes, and what it signals: as given, or in each block of the multicast mask. -1:
 * fault. */
int sg_bulk_targets(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t to, uint64_t bar,
                    uint64_t ret_to[SG_MAX_CLUSTER], uint64_t ret_bar[SG_MAX_CLUSTER]);
bool sg_bulk_reduces(enum ptx_mod m, enum ptx_type t, bool global); /* PTX has this reduction */
void sg_bulk_reduce(const struct sg_warp *w, const struct sg_op *op, uint8_t *to, const uint8_t *from, uint32_t n,
                    enum ptx_type t, bool global);
const struct sg_op *sg_bulk_copy(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_bulk_prefetch(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_tensor_load(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_tensor_store(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_tensor_prefetch(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_tensormap_replace(struct sg_warp *w, const struct sg_op *op);
const struct sg_op *sg_tensormap_copy(struct sg_warp *w, const struct sg_op *op);

/* ---- faults (fault.c). All return NULL, so that a handler can `return sg_fault_at(…)`. --------------------------- */
const struct sg_op *sg_fault_at(struct sg_warp *w, const struct sg_op *op, int num, unsigned lane, uint64_t addr,
                                uint32_t bytes, const char *what, ...) __attribute__((format(printf, 7, 8)));

/* ---- handlers ------------------------------------------------------------------------------------------------ */
enum sg_lane_op { /* lanes.inc; one table per instruction set */
#define A1(NAME, ...) SG_H_##NAME,
#define A2(NAME, ...) SG_H_##NAME,
#define A3(NAME, ...) SG_H_##NAME,
#define C2(NAME, ...) SG_H_##NAME,
#define M(NAME, ...) SG_H_##NAME,
#include "softgpu/lanes.def"
#undef A1
#undef A2
#undef A3
#undef C2
#undef M
                  SG_H_COUNT
};
const sg_fn *sg_isa(void); /* the table for this CPU */
const struct sg_products *sg_isa_products(void);
extern const sg_fn sg_lanes_v1[SG_H_COUNT], sg_lanes_v3[SG_H_COUNT], sg_lanes_v4[SG_H_COUNT];
extern const struct sg_products sg_products_v1, sg_products_v3, sg_products_v4;

#endif
