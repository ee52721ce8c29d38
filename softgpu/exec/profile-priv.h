/* What blocks that are followed are made of: profile.c follows them, profile-sum.c puts them together. */
#ifndef DT_SOFTGPU_PROFILE_PRIV_H
#define DT_SOFTGPU_PROFILE_PRIV_H

#include "softgpu/exec/costs.h"
#include "softgpu/exec/profile.h"

enum { NEAR, FAR, CLOCKS };
enum { READ, WRITTEN };
enum {
    SPIN = 8,           /* rounds of a loop that only looks at memory: the others wait, and are not counted */
    PAGE_SECTORS = 128, /* of DRAM, over its channels */
    LINE = 128,
    LINES = 2048, /* of an L1, at most */
    SEEN_FIRST = 256,
    SEEN = 1 << 16,     /* sectors of a block, twice */
    MEET = 4096,        /* lines of a block in which there are atomics */
    GROUPS = 8,         /* of copies under way */
    MAX_STEPS = 4 << 20 /* of a block: what comes then is taken to be like what came before */
};

struct line { /* of the L1, in the order of use */
    uint64_t tag;
    uint32_t sectors, newer, older, chain; /* chain: the next one with the same hash */
    int64_t there[CLOCKS];                 /* when what was read last has come */
};

struct meet {             /* atomics in a line */
    uint64_t line, count; /* clocks of the L2 */
};

struct warp_time {
    int64_t clock[CLOCKS], last[CLOCKS]; /* the basic block's begin, and its last instruction's */
    int64_t global_store[CLOCKS], shared_store[CLOCKS];
    int64_t copy[CLOCKS], group[GROUPS][CLOCKS]; /* copies of this group; groups */
    uint32_t ngroup, slots, rounds, bb, generation[SG_BARRIERS];
    int64_t branch[CLOCKS]; /* where control goes on is known */
    uint32_t same;          /* rounds of this basic block in a row, of those that look at memory past the L1 */
    uint64_t look;          /* the last one's address */
    bool looks;
    uint32_t waits;              /* at barrier waits - 1 */
    int64_t far[CLOCKS];         /* the next access to another SM's shared memory may begin */
    const struct sg_op *stopped; /* where it waits for the cluster: the operation comes again */
    bool fixed;                  /* the basic block has a store or the like: it is not unrolled */
    int64_t fences;              /* clocks in them */
    uint32_t fenced;             /* its last fence was after all had met so often, and once more */
};

struct sg_profiler {          /* of one block */
    struct sg_profiler *next; /* of the worker */
    uint64_t block;
    const struct sg_costs *costs;
    sg_fn bb;
    unsigned l2_clocks, dram_clocks, lines, l1_bytes_clock;
    unsigned turns;                   /* clocks in which the lanes of a warp go to memory */
    unsigned home_clocks;             /* of the L2, where a sector has one place: a mean of both halves */
    unsigned far_clocks, meet_clocks; /* another SM's shared memory, a cluster's barrier */
    struct warp_time *warp;
    int64_t *ready; /* by warp, register and clock */
    struct {
        uint32_t generation, warps; /* that are there */
        int64_t at[CLOCKS];
    } barrier[SG_BARRIERS][2];
    struct {
        struct sg_profile sum;
        int64_t at[CLOCKS], fp64[CLOCKS], store[CLOCKS]; /* the first since then */
        uint32_t times, fences;
        uint64_t first; /* sectors of loads that began before an answer could be there */
    } met; /* when all warps met last, what they had asked of the SM until then; warps with a fence since then */
    const struct sg_model *model;
    uint32_t nwarp;
    struct line *l1;
    struct {
        uint32_t line[2 * SG_LANES], n;
        bool missed[2 * SG_LANES];
    } touched;                               /* by the load that is followed */
    uint32_t *chains, nline, newest, oldest; /* chains: by hash, LINES */
    struct sectors {
        uint64_t *at; /* a table, 0: free; at the end the sectors in order */
        uint32_t n, cap;
    } seen[2]; /* that were read past the L1, and written */
    uint32_t nmeet;
    struct meet *meet;        /* NULL: no atomics yet */
    uint64_t steps, executed; /* thread-instructions that were followed */
    struct sg_profile sum;
    bool spun, ended;
};

/* The place of a line among those in which the block's atomics met; count 0: it is free. p->meet is there. */
struct meet *sg_profile_meeting(const struct sg_profiler *p, uint64_t line);

#endif
