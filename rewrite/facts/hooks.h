/* What a build for tests (RW_TEST_HOOKS, tests/diff/planner.c) can switch; what is installed has none of it. */
#ifndef DT_REWRITE_HOOKS_H
#define DT_REWRITE_HOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef RW_TEST_HOOKS
extern struct rw_hooks {
    const char *off;     /* predicates not asked, "order,async"; NULL: all are */
    bool force;          /* keep what is legal and right, faster or not */
    const char *levels;  /* of block fusion and slice that are tried; NULL: all */
    uint32_t cluster;    /* blocks of a cluster; 0: what is best */
    bool far_tables;     /* tables are in global memory although constant memory has room */
    uint64_t glance;     /* thread-instructions from which a glance is worth it (gate/glance.c); 0: as always */
    bool aside;          /* block orders run in a copy of the process also of small graphs (gate/orders.c) */
    const char *propose; /* "parallel-fusion: a b": launches proposed to this kind besides; NULL: none */
    /* what a rewrite has just made is made wrong, so that the predicate that looks at it again has something to find:
     * "wait", "count" or "late" (flags of dataflow fusion), "live" (a live block is dead), "calls" (a kernel with its
     * functions in it stores four bytes further on), "copies" (what was copied is read 256 bytes further on), "moves"
     * (a launch that is no copy is said to be none), "written" (a plan that changes something loses each `after`),
     * "roles" (the first role of a launch stores four bytes further on);
     * NULL: nothing */
    const char *spoil;
} rw_hooks;
#define RW_FORCED rw_hooks.force
#define RW_LEVEL_NAMED(text) (!rw_hooks.levels || strstr(rw_hooks.levels, text))
#define RW_LEVEL_ON(level) RW_LEVEL_NAMED(rw_level_text(level))
bool rw_off(const char *name); /* is this predicate switched off? */
#define RW_FAR_TABLES rw_hooks.far_tables
#define RW_GLANCE(from) (rw_hooks.glance ? rw_hooks.glance : (from))
#define RW_ASIDE(large) (rw_hooks.aside || (large))
#define RW_SPOILT(what) (rw_hooks.spoil && !strcmp(rw_hooks.spoil, what))
#else
#define RW_FORCED false
#define rw_off(name) false
#define RW_ASIDE(large) (large)
#define RW_SPOILT(what) false
#define RW_FAR_TABLES false
#define RW_GLANCE(from) (from)
#define RW_LEVEL_ON(level) true
#define RW_LEVEL_NAMED(text) true
#endif

#endif
