/* What blocks that are followed are made of: profile.c follows them, with profile-time.c and profile-memory.c;
 * profile-sum.c puts them together. */
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
    PATTERNS = 512,     /* that are kept, by the operations' sites */
    MAX_STEPS = 4 << 20 /* of a block: what comes then is taken to be like what came before */
};

#define NO_LINE UINT32_MAX
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
    struct meet *meet; /* NULL: no atomics yet */
    struct pattern {   /* of an operation's addresses, when it came last */
        const struct sg_op *op;
        uint32_t bytes, passes, words, at[SG_LANES]; /* at: how far behind the first */
    } * pattern;
    uint32_t npattern;
    uint64_t steps, executed; /* thread-instructions that were followed */
    struct sg_profile sum;
    bool spun, ended;
};

/* ---- profile-time.c ---------------------------------------------------------------------------------------------- */

/* The warp's basic block ends; it comes to block bb. */
void sg_profile_close(struct warp_time *t);
void sg_profile_enter(const struct sg_costs *c, struct warp_time *t, uint32_t bb);
/* When the SM can have done what the block has asked of it since its warps met: FP64 and stores from when their first
 * operands were there, all else from when the warps met. */
int64_t sg_profile_asked(const struct sg_profiler *p, unsigned k);
/* How much later than alone the last warp has what its first loads asked for: those of the others come before it, as
 * the SM's way from the L2 carries them. Later loads find the warps apart. */
int64_t sg_profile_queued(const struct sg_profiler *p);
/* All warps of the block have met now. */
void sg_profile_met(struct sg_profiler *p);
/* The warp is at barrier n; it goes on behind the one that it waits for. */
void sg_profile_arrive(struct sg_profiler *p, struct warp_time *t, uint32_t n);
void sg_profile_leave(struct sg_profiler *p, struct warp_time *t);

/* The clocks of the warp's registers. */
static inline int64_t *sg_profile_ready(struct sg_profiler *p, uint32_t warp)
{
    return &p->ready[(size_t)warp * (p->costs->nreg + 1) * CLOCKS];
}
/* n operations of costs->plain from number `from` on: their time and their slots. */
void sg_profile_plain(struct sg_profiler *p, struct warp_time *t, const struct sg_code *code, uint32_t warp,
                      uint32_t from, uint32_t n);

/* ---- profile-memory.c -------------------------------------------------------------------------------------------- */

/* Passes that an access of all these lanes makes over the 32 banks of shared memory; in words, how many it takes. */
unsigned sg_profile_banks(const uint64_t *addr, uint32_t mask, unsigned bytes, unsigned *words);
/* The same; addresses as far from each other as those of the operation before are not looked at again. op: or NULL. */
unsigned sg_profile_passes(struct sg_profiler *p, const struct sg_op *op, const uint64_t *addr, uint32_t mask,
                           unsigned bytes, unsigned *words);
/* A load, store or atomic of global memory: what the L1 and the L2 see of it. True: a load that the L1 had. */
bool sg_profile_global(struct sg_profiler *p, const struct sg_cost *c, const struct sg_op *op, const uint64_t *addr,
                       uint32_t mask, unsigned bytes, unsigned *ret_passes);
/* The first n sectors of the table by their numbers. */
void sg_profile_sort(struct sectors *s, uint32_t n);
/* A load is there when the lines that it found are: one that an earlier miss asked for is on its way. A warp that comes
 * to it sooner than the one that was followed first would have asked for it itself. */
void sg_profile_under_way(struct sg_profiler *p, const int64_t at[CLOCKS], int64_t latency[CLOCKS]);
/* The L2 does a request's atomics by sectors, one after the other, and so those of one address. How long a line is at
 * it is counted by line, in clocks of the L2. */
void sg_profile_atomics(struct sg_profiler *p, const struct sg_cost *c, const struct sg_op *op, const uint64_t *addr,
                        uint32_t mask);
/* The place of a line among those in which the block's atomics met; count 0: it is free. p->meet is there. */
struct meet *sg_profile_meeting(const struct sg_profiler *p, uint64_t line);

#endif
