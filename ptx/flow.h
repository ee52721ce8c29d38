/* How control and values flow through a function: basic blocks (cfg.c), dominance and loops (dominance.c), the
 * registers of an instruction (regs.c), live registers (flow.c), registers that hold one thing each (webs.c).
 *
 * A graph and live sets describe the function as it was when they were built: whoever changes its instructions builds
 * them again. Errors: DT_E_NOMEM; DT_E_PTX for a branch to a label that is not there; DT_E_TOO_LARGE for a function
 * whose live sets would take more than a gigabyte. */
#ifndef DT_PTX_FLOW_H
#define DT_PTX_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct ptx_function;
struct ptx_inst;

struct ptx_block { /* basic block: instructions [first, last] */
    uint32_t first, last;
    uint32_t nsucc, npred;
    uint32_t *succ, *pred;
    uint32_t ipdom; /* immediate post-dominator, UINT32_MAX: the exit */
    uint32_t idom;  /* immediate dominator, UINT32_MAX for the entry block and unreachable ones */
    bool reachable;
};
struct ptx_cfg {
    struct dt_arena arena;
    struct ptx_block *block;
    uint32_t nblock;
    uint32_t *block_of; /* per instruction */
};
int ptx_cfg_build(const struct ptx_function *f, struct ptx_cfg *cfg, struct dt_err *e);
void ptx_cfg_done(struct ptx_cfg *cfg);

/* ---- questions about it (dominance.c). mark: of nblock blocks; stack: room for nblock numbers -------------------- */
/* Does every way from the entry to block b lead through block a? A block dominates itself. */
bool ptx_dominates(const struct ptx_cfg *c, uint32_t a, uint32_t b);
/* Does every way from the entry to instruction b lead through instruction a first? Not for a == b. */
bool ptx_inst_dominates(const struct ptx_cfg *c, uint32_t a, uint32_t b);
/* The nearest block that dominates both. They are reachable. */
uint32_t ptx_common_dominator(const struct ptx_cfg *c, uint32_t a, uint32_t b);
/* Mark `from` and what control reaches from it without block `stop` (UINT32_MAX: there is none). What is marked before
 * is not looked at again. */
void ptx_mark_reached(const struct ptx_cfg *c, uint32_t from, uint32_t stop, bool *mark, uint32_t *stack);
/* The same backward: `to` and what control comes from to it. */
void ptx_mark_reaching(const struct ptx_cfg *c, uint32_t to, uint32_t stop, bool *mark, uint32_t *stack);
/* Mark what lies between the branch at the end of block b and the block where its ways meet, b's post-dominator:
 * `if (p) A else B; C` marks A and B. */
void ptx_mark_region(const struct ptx_cfg *c, uint32_t b, bool *mark, uint32_t *stack);
/* Mark the loop of an edge from block `back` to `header`, which dominates it: the header, and what reaches `back`
 * without it. */
void ptx_mark_loop(const struct ptx_cfg *c, uint32_t header, uint32_t back, bool *mark, uint32_t *stack);
/* Can control that has left block b come back to it? Clears mark first. */
bool ptx_in_cycle(const struct ptx_cfg *c, uint32_t b, bool *mark, uint32_t *stack);

/* ---- registers (regs.c, flow.c) ---------------------------------------------------------------------------------- */

/* Registers an instruction reads and writes (predicate included in reads). Calls `fn(reg, is_write, user)`. A
 * predicated write is both a write and a read (the old value may survive). */
void ptx_inst_regs(const struct ptx_inst *i, void (*fn)(uint32_t reg, bool write, void *user), void *user);

/* The integer constant that register `reg` holds before instruction `at`, though it may hold others elsewhere: the last
 * that wrote it is a move of a constant, in `at`'s run of instructions or in one that alone leads there. */
bool ptx_constant_before(const struct ptx_function *f, const struct ptx_cfg *cfg, uint32_t at, uint32_t reg,
                         uint64_t *ret);

/* Live registers before each block as bit sets of nreg bits. */
struct ptx_live {
    struct dt_arena arena;
    uint32_t words; /* 64-bit words per set */
    uint64_t **in, **out;
    uint32_t max_pressure_bytes; /* most bytes live at once: the estimate of registers is this / 4 */
};
int ptx_live_build(const struct ptx_function *f, const struct ptx_cfg *cfg, struct ptx_live *l, struct dt_err *e);
void ptx_live_done(struct ptx_live *l);

struct ptx_module;
/* Give each value that shares no use with the others of its register a register of its own, `%a$1`, in all functions.
 * What the text does stays the same; a function that cannot be looked at stays as it is. DT_E_NOMEM. */
int ptx_split_registers(struct ptx_module *m, struct dt_err *e);

#endif
