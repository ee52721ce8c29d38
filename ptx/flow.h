/* How control and values flow through a function: basic blocks with dominators (cfg.c), the registers of an
 * instruction (regs.c), live registers (flow.c). A graph and live sets are of the function as it was when they were built: whoever
 * changes its instructions builds them again. Errors: DT_E_NOMEM; DT_E_PTX for a branch to a label that is not there;
 * DT_E_TOO_LARGE. */
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

/* Registers an instruction reads and writes (predicate included in reads). Calls `fn(reg, is_write, user)`. A
 * predicated write is both a write and a read (the old value may survive). */
void ptx_inst_regs(const struct ptx_inst *i, void (*fn)(uint32_t reg, bool write, void *user), void *user);

/* Live registers before each block as bit sets of nreg bits. */
struct ptx_live {
    struct dt_arena arena;
    uint32_t words; /* 64-bit words per set */
    uint64_t **in, **out;
    uint32_t max_pressure_bytes; /* most bytes live at once: the estimate of registers is this / 4 */
};
int ptx_live_build(const struct ptx_function *f, const struct ptx_cfg *cfg, struct ptx_live *l, struct dt_err *e);
void ptx_live_done(struct ptx_live *l);

#endif
