/* Inside check: what is known of a checked launch, and what the files of check use of each other.
 *
 *     check.c    setting up, uninitialised reads, what a report says
 *     race.c     last accesses to each byte
 *     clock.c    what each thread knows of the others: barriers, fences, mbarriers, asynchronous copies
 *     barrier.c  barrier misuse
 */
#ifndef DT_SOFTGPU_CHECK_PRIV_H
#define DT_SOFTGPU_CHECK_PRIV_H

#include "softgpu/check/check.h"

/* ---- knowledge. A vector has two entries a thread of a block: the thread, and what copies asynchronously for it
 * (thread number + threads); behind them one a warpgroup, its wgmma (sg_vec_group()). The value is a stamp: all
 * accesses of that thread up to it happened before. Stamps come from one counter, sg_check.now. ------ */
struct sg_vec {
    uint32_t refs;
    struct sg_vec *next; /* of the free list */
    uint32_t v[];
};
struct sg_far { /* knowledge of other blocks, sorted by block */
    uint32_t refs, n;
    struct sg_far_entry {
        uint32_t block;
        struct sg_vec *vec;
    } e[];
};
struct sg_clock {
    struct sg_vec *vec; /* NULL: nothing */
    struct sg_far *far; /* NULL: nothing */
};

struct sg_check_thread {
    struct sg_clock known;
    /* for threads of the block [0], of all blocks [1]: what it knew at its last fence, and when that was (0: none);
     * what strong reads met since */
    struct sg_clock fence[2], pending[2];
    uint32_t fence_at[2];
    uint32_t async;                                 /* its own copies up to here are done */
    uint32_t group;                                 /* and its warpgroup's wgmma up to here */
    uint32_t commit[3][SG_COPY_GROUPS], ncommit[3]; /* enum sg_copies: stamps of the last groups */
};

struct sg_sync { /* a memory location that carried a release, or an mbarrier */
    uint64_t addr;
    struct sg_clock clock, next; /* next: of the phase that is not over (mbarrier) */
    /* under SG_CHECK_PHASES: what `clock` was a phase ago; when each thread saw that the last phase is over */
    struct sg_clock before;
    struct sg_vec *passed;
};
struct sg_syncs {
    struct sg_sync *slot;
    uint32_t n, cap;
};

struct sg_check_bar {
    struct sg_clock clock;
    uint32_t *mask;          /* per warp: lanes that arrived */
    const struct sg_op **op; /* per warp: with which instruction */
    const struct sg_op *first;
    uint32_t first_thread, count; /* of the first to arrive */
    bool open;
};

/* Last accesses to the bytes of a cell. */
struct sg_entry {
    uint32_t block; /* linear + 1; 0: none */
    uint32_t stamp;
    uint16_t thread; /* index into vectors */
    uint16_t flags;  /* SG_SEM_* */
    uint32_t src;    /* of the operation */
};
enum { SG_READERS = 3 };
struct sg_cell {
    struct sg_entry w, r[SG_READERS];
};
enum { SG_CELL_PAGE = 10, SG_CELL_WORD = 2 }; /* log2 of the bytes of a page, and of a cell at most */
struct sg_cells {                             /* of a range of memory; pages come as they are touched */
    struct sg_page {
        unsigned shift; /* log2 of the bytes of a cell */
        struct sg_cell cell[];
    } * *page;
    uint64_t base;
    size_t npage;
};

struct sg_check_block {
    uint32_t id; /* linear + 1 */
    struct sg_check_thread *thread;
    struct sg_clock exited;
    struct sg_sync cluster; /* of the first block: the cluster's barrier */
    struct sg_check_bar bar[SG_BARRIERS];
    struct sg_cells cells; /* of shared memory, by offset */
    struct sg_syncs sync;
    uint64_t *init; /* of shared memory, a bit a byte */
    uint32_t *mask_room;
    const struct sg_op **op_room;
};

struct sg_check {
    unsigned modes;
    uint32_t now;
    uint32_t threads, nwarp, shared_bytes;
    struct sg_vec *idle;
    struct sg_cells *cells; /* per range of the run */
    struct sg_syncs sync;
    uint64_t used; /* bytes of pages */
};

/* In vectors: the wgmma of thread t's warpgroup. */
static inline uint32_t sg_vec_group(const struct sg_check *k, uint32_t t)
{
    return 2 * k->threads + t / (4 * SG_LANES);
}

/* ---- check.c ----------------------------------------------------------------------------------------------------- */
bool sg_check_nomem(struct sg_warp *w, const struct sg_op *op);
/* A finding: the fault of the launch, with its kind, and the other thread if there is one. Returns false. */
struct sg_finding {
    const char *kind; /* "race", "uninit", "barrier" */
    int num;
    /* "WHAT of 4 bytes at PLACE THEN block (…), thread (…), PTX line N": then NULL: ends at PLACE */
    const char *what, *then;
    const uint8_t *at; /* NULL: no place, WHAT alone */
    uint32_t bytes;
    const struct sg_entry *other;
};
bool sg_check_report(struct sg_warp *w, const struct sg_op *op, unsigned lane, const struct sg_finding *f);

/* ---- race.c ------------------------------------------------------------------------------------------------------ */
bool sg_race_access(struct sg_warp *w, const struct sg_op *op, unsigned lane, struct sg_cells *c, const uint8_t *at,
                    uint64_t addr, unsigned bytes, enum sg_access how, unsigned sem);
int sg_cells_init(struct sg_cells *c, uint64_t base, uint64_t end);
void sg_cells_forget(struct sg_cells *c, uint64_t addr, uint64_t bytes);
void sg_cells_clear(struct sg_cells *c); /* forget all accesses */
void sg_cells_done(struct sg_check *k, struct sg_cells *c);

/* ---- clock.c ----------------------------------------------------------------------------------------------------- */
/* Did the access of `e` happen before what thread `t` of b does now? */
bool sg_ordered(const struct sg_check *k, const struct sg_check_block *b, uint32_t t, const struct sg_entry *e);
void sg_clock_drop(struct sg_check *k, struct sg_clock *c);
void sg_syncs_done(struct sg_check *k, struct sg_syncs *s);
void sg_thread_done(struct sg_check *k, struct sg_check_thread *t);
/* Barriers: `mask` of w arrives at n; the barrier is complete, w's lanes `mask` go on; lanes leave the kernel. */
bool sg_clock_arrive(struct sg_warp *w, const struct sg_op *op, unsigned n, uint32_t mask);
bool sg_clock_complete(struct sg_block *b, unsigned n);
void sg_clock_go_on(struct sg_warp *w, unsigned n, uint32_t mask);
bool sg_clock_exit(struct sg_warp *w, uint32_t mask);
/* A strong access at `key`, which is in shared memory that only w's block reaches, or not. Before the access itself. */
bool sg_clock_strong(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t key, bool shared,
                     enum sg_access how, unsigned sem);
/* The block of w's cluster in whose shared memory a host address is; NULL: none. */
struct sg_block *sg_check_owner(const struct sg_warp *w, const uint8_t *at);

/* ---- barrier.c --------------------------------------------------------------------------------------------------- */
bool sg_barrier_arrive(struct sg_warp *w, const struct sg_op *op, unsigned n, uint32_t mask, uint32_t count);
bool sg_barrier_complete(struct sg_block *b, unsigned n);

#endif
