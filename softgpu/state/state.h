/* The state of a running launch: threads of the CPU, clusters, blocks, warps, and faults.
 *
 *     sg_run      the launch; its CPU threads share it
 *     sg_worker   a CPU thread: counters, the fault, the clusters that are resident on it
 *     sg_cluster  blocks that run together; without clusters, one block
 *     sg_block    barriers, shared memory, warps
 *     sg_warp     registers and local memory of 32 threads
 *
 * Divergence. A warp runs one fragment (operation, mask) at a time; the others wait in w->frag: runnable, at a barrier,
 * or at a collective for lanes that are still missing. The lowest position runs first, equal ones are merged.
 *
 * check/, the recorder (exec/record.c) and the talker (exec/talk.c) keep their state in structs of their own. The
 * pointers to these are NULL where the launch does not ask for them.
 */
#ifndef DT_SOFTGPU_STATE_H
#define DT_SOFTGPU_STATE_H

#include "softgpu/state/code.h"
#include "softgpu/memory/memory.h"

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
struct sg_map { /* sectors of 32 bytes that were touched; exec/track.c */
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
    uint32_t met;      /* a bit each: barriers that somebody came to since the block began; all others are as new */
    bool fresh;        /* nothing is in `konst` yet */
    uint32_t next;     /* warp to run next */
    uint64_t executed; /* thread-instructions so far */
    /* instructions before griddepcontrol.wait of the last warp, before .launch_dependents of the first */
    uint64_t waited, triggered;
    bool waits, triggers;
    bool live;
    struct sg_profiler *follow; /* NULL: the block is not followed */
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
    struct sg_times { /* per basic block: executions by lanes, and by warps for some of their lanes */
        uint64_t lanes, warps;
    } * bb;
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
    uint64_t span[2][64];   /* of these blocks: the first one's number, the last one's */
    uint64_t longest;       /* sum over blocks: issued by the busiest warp */
    uint64_t before_wait, before_trigger; /* of them */
    bool held;                            /* a block stopped at griddepcontrol.wait in this turn */
    bool track, race;
    uint32_t *touched, stray_site; /* recorder: the range that each site last met; the site of a stray + 1 */
    struct sg_runs runs;           /* what a block touched, at its end */
    struct sg_check *check;        /* NULL: not checked */
    struct sg_talker *talk;        /* NULL: nobody wants to know */
    struct sg_profiler *profile;   /* of the blocks that were followed (exec/profile.c) */
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
    bool follow;               /* some blocks: exec/profile.c */
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

static inline uint32_t sg_count(uint32_t mask)
{
    return mask == SG_ALL ? SG_LANES : (uint32_t)__builtin_popcount(mask);
}

enum sg_access { SG_READ, SG_WRITE, SG_ATOMIC };

/* End the launch with a fault of this lane at `op`, and its instruction's text before `what`. The first fault of a CPU
 * thread stays. Returns NULL, so that a handler can return it. */
const struct sg_op *sg_fault_at(struct sg_warp *w, const struct sg_op *op, int num, unsigned lane, uint64_t addr,
                                uint32_t bytes, const char *what, ...) __attribute__((format(printf, 7, 8)));
/* n lanes went through the basic block: count what its instructions add. */
void sg_count_bb(struct sg_stats *s, const struct sg_bb *bb, uint64_t n);

#endif
