/* Blocks of one launch that wait for each other by flags (dataflow.c): who signals what, who waits for what; as
 * numbers, as text, as a table in a plan.
 *
 * The scratch buffer: the ticket in its first word, from RW_FLOW_STRIDE on a word a flag, each in a sector of its own.
 * All zero when a run begins.
 *
 * The table, constant (or, if it is too large, global) memory ENTRY_flow, little-endian, without gaps:
 *   u32 n, nflag, nwait, 0
 *   u16 signal[n]       the flag that block v signals when it is through, RW_FLOW_NONE: none
 *   u16 wait_at[n + 1]  where its part of `wait` begins
 *   u16 wait[nwait]     flags
 *   u16 count[nflag]    signals that a flag gets
 */
#ifndef DT_REWRITE_FLOW_H
#define DT_REWRITE_FLOW_H

#include "rewrite/emit/join.h"

#define RW_FLOW_NONE 0xFFFFu
#define RW_FLOW_STRIDE 32u
#define RW_FLOW_SPARE 320u /* constant memory for what a flag that does not come says */
/* of one flag: with its latency and 200 ns between, seconds; then the launch ends with an assertion */
#define RW_FLOW_POLLS (1u << 22)

struct rw_flow { /* blocks by ticket */
    uint32_t n, nflag;
    uint32_t *signal;              /* by block: its flag, UINT32_MAX: none */
    uint32_t *wait_at, *wait;      /* rows of flags; wait_at[n + 1] */
    uint32_t *count;               /* by flag */
    uint32_t slot_at;              /* in the block's shared memory: its ticket */
    const struct ptx_var *scratch; /* the parameter */
    struct ptx_var *table;
    uint32_t tail, fail;        /* labels: after a body; a flag that does not come */
    uint32_t base, words, flag; /* registers: scratch, table, the flag at hand */
};
uint64_t rw_flow_scratch_bytes(const struct rw_flow *f);
/* Is every wait met? Flags exist, get just as many signals as are waited for, from blocks before. False with `why`. */
bool rw_flow_sound(const struct rw_flow *f, struct dt_str *why);
/* The table of an entry of a plan. 0: *ret is filled, arrays in `a`; 1: it has none; DT_E_GRAPH: it has one that is no
 * table. */
int rw_flow_read(struct dt_arena *a, const struct ptx_function *entry, struct rw_flow *ret);

/* The text, in order: before the entry; parameter and table; ticket and waits; (the bodies, each of which goes on to
 * f->tail or ends;) the signal. */
int rw_flow_module(struct rw_join *j);
int rw_flow_declare(struct rw_join *j);
int rw_flow_begin(struct rw_join *j, unsigned barrier);
int rw_flow_end(struct rw_join *j, unsigned barrier);
bool rw_flow_signals(const struct rw_cand *c, uint32_t body); /* does a block of it? */

#endif
