/* Sets of bytes as intervals, and the footprints of a launch that are made of them. Results are in the caller's arena.
 * Sets report failed allocations by the arena's `failed` flag; the rest returns DT_E_NOMEM. One object is used by one
 * thread at a time. */
#ifndef DT_ANALYSIS_FOOTPRINT_H
#define DT_ANALYSIS_FOOTPRINT_H

#include "analysis/analysis.h"

/* ---- sets.c ------------------------------------------------------------------------------------------------------ */
/* Sort intervals and join those that touch, in place. Returns how many are left. */
uint32_t ana_intervals_normalise(struct ana_interval *iv, size_t n);
/* The set of all bytes of any list of intervals; of bytes [lo, hi). */
struct ana_set ana_set_from(struct dt_arena *a, const struct ana_interval *iv, size_t n);
struct ana_set ana_set_range(struct dt_arena *a, uint64_t lo, uint64_t hi);

/* ---- strips.c: who touches which byte, of one launch and buffer -------------------------------------------------- */
struct ana_strip { /* bytes [lo, hi) are touched by exactly the blocks of set `set` */
    uint64_t lo, hi;
    uint32_t set;
};
struct ana_strips { /* ascending, disjoint; adjacent strips differ in their set */
    struct ana_strip *strip;
    uint32_t nstrip;
    /* nset + 1 offsets: the blocks of set s are block[off[s]] … block[off[s + 1] - 1], ascending, at least one */
    uint32_t *off;
    uint32_t *block;
    uint32_t nset;
};
/* touch[b]: what block b touches. Results in `a`. */
int ana_strips_build(struct dt_arena *a, const struct ana_set *touch, uint32_t nblock, struct ana_strips *ret,
                     struct dt_err *e);

/* ---- footprint.c: from what was recorded to struct ana_launch ---------------------------------------------------- */
enum ana_kind { ANA_READ, ANA_WRITE, ANA_RED /* integer reduction, result unused: reads and writes */, ANA_KINDS };

struct ana_foot; /* builds one ana_launch */
/* bytes[i]: size of buffer i; results (the launch's arrays) in `a`. */
struct ana_foot *ana_foot_new(struct dt_arena *a, uint32_t nblock, uint32_t nbuffer, const uint64_t *bytes);
void ana_foot_free(struct ana_foot *f);
/* Block `block` touches iv[0..n) of `buffer`: n ascending, disjoint, non-touching intervals, which are copied. At most
 * one call for each (block, buffer, kind, evidence). Writes with evidence data-dependent are may-writes. */
int ana_foot_add(struct ana_foot *f, uint32_t block, uint32_t buffer, enum ana_kind k, enum ana_evidence ev,
                 const struct ana_interval *iv, uint32_t n);
/* The same in two steps, for a set that many blocks have: keep it once, add it to each. */
int ana_foot_keep(struct ana_foot *f, const struct ana_interval *iv, uint32_t n, struct ana_set *ret);
int ana_foot_add_set(struct ana_foot *f, uint32_t block, uint32_t buffer, enum ana_kind k, enum ana_evidence ev,
                     struct ana_set set);
/* Forget data-dependent accesses that were added where a widened one of the same kind covers them. */
void ana_foot_clear_widened(struct ana_foot *f);
/* Forget what was added. */
void ana_foot_clear(struct ana_foot *f);
/* Every block may touch every byte of the buffer. */
int ana_foot_widen(struct ana_foot *f, uint32_t buffer, enum ana_kind k);
/* The access record of a buffer, to set what intervals do not say (atomics, widths, result_used). NULL: memory. */
struct ana_access *ana_foot_access(struct ana_foot *f, uint32_t buffer);
int ana_foot_finish(struct ana_foot *f, struct ana_launch *ret, struct dt_err *e);
/* By buffer, ascending: the order that struct ana_block and struct ana_launch want. */
void ana_touch_sort(struct ana_touch *t, uint32_t n);
void ana_access_sort(struct ana_access *x, uint32_t n);

#endif
