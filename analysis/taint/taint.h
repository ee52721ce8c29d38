/* Taint of one entry: what of it depends on data (taint.c says how), with all that instrumentation and explanations
 * need to know beside the sites of analysis.h. */
#ifndef DT_ANALYSIS_TAINT_H
#define DT_ANALYSIS_TAINT_H

#include "analysis/analysis.h"

/* ---- what a launch is bound to ----------------------------------------------------------------------------------- */
/* How many buffers argument `a` points to; the first `cap` of them into out. */
static inline uint32_t arg_buffers(const struct dt_arg *a, uint32_t *out, uint32_t cap)
{
    if (a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP) {
        if (cap)
            out[0] = a->buffer;
        return 1;
    }
    if (a->kind != DT_ARG_BYTES)
        return 0;
    for (uint32_t k = 0; k < a->npointer && k < cap; k++)
        out[k] = a->pointer[k].buffer;
    return a->npointer;
}

/* The k-th of them. */
static inline uint32_t arg_buffer(const struct dt_arg *a, uint32_t k)
{
    return a->kind == DT_ARG_BYTES ? a->pointer[k].buffer : a->buffer;
}
/* args.c. Which arguments of the launch hold addresses, and which of them addresses of constant buffers alone. */
void ana_arg_kinds(const struct dt_graph *g, const struct dt_launch *l, bool *pointer, bool *constant);
/* Do arguments of bytes hold pointers in the same places? */
bool ana_same_places(const struct dt_arg *a, const struct dt_arg *b, uint32_t n);
/* By place in m->var, m being the IR of module `module`: enum ana_var, and the graph's buffer that the variable is, or
 * UINT32_MAX. */
int ana_graph_vars(const struct dt_graph *g, uint32_t module, const struct ptx_module *m, uint8_t *var,
                   uint32_t *buffer, struct dt_err *e);

/* callee.c. Does the call nothing but compute its result: memory of its own frame and parameters, tables, no barrier,
 * no end? 1; 0; negative: out of memory. */
int ana_only_computes(const struct ptx_inst *call);

/* ---- the pass (taint.c) ------------------------------------------------------------------------------------------ */
enum ana_var {
    ANA_VAR_FIXED /* never written */,
    ANA_VAR_MUTABLE,
    ANA_VAR_CONSTANT /* a buffer with constant content */
};
struct ana_taint_in {
    const bool *constant_param; /* or NULL */
    const bool *pointer_param;  /* arguments that are or hold addresses; NULL: any may */
    uint32_t nparam;
    const struct dt_arg *arg; /* [nparam], where pointers lie in arguments of bytes; NULL: anywhere */
    /* enum ana_var by place in module->var, or NULL: .const variables are fixed, .global ones mutable */
    const uint8_t *var;
};
#define ANA_POISON 0xB5 /* every byte of shared and local variables that must not be read before they are written */
struct ana_tainted {    /* the result of the pass; ana_tainted_done() frees it */
    struct ana_sites sites;
    struct ptx_cfg cfg;
    uint8_t *reg, *block; /* enum ana_evidence: taint of registers, of the reaching of basic blocks; in sites.arena */
    bool *escapes;        /* by place in module->var: its address is stored, or passed to a call */
    bool param_address;   /* a generic address of a parameter is taken */
    uint8_t *watch;       /* per instruction: a load that must not meet ANA_POISON, in pieces of so many bytes; or 0 */
    const struct ptx_var **fill; /* shared and local variables that must begin as ANA_POISON */
    uint32_t nfill;
};
/* fold.c: from[at] is the instruction + 1 whose immediate instruction `at` copies by way of a register, or 0. */
int ana_fold(const struct ptx_function *f, uint32_t *from);
/* The pass over entry `f`. Errors: DT_E_NOMEM, those of ptx_cfg_build() and ptx_live_build(). */
int ana_taint_run(const struct ptx_function *f, const struct ana_taint_in *in, struct ana_tainted *ret,
                  struct dt_err *e);
void ana_tainted_done(struct ana_tainted *t);
/* Which module variables can change while entries of the module run: out[i] for module->var[i], enum ana_var. */
int ana_module_vars(const struct ptx_module *m, uint8_t *out, struct dt_err *e);

/* ---- about what it found ----------------------------------------------------------------------------------------- */
#define ANA_LOG_VALUES 5 /* operands of a span, at most */
/* span.c. The operands, beside the address, that say what a span touches, into ret[ANA_LOG_VALUES]. Returns how
 * many. */
unsigned ana_span_operands(const struct ptx_inst *i, const struct ana_site *x, const struct ptx_opnd **ret);
/* origin.c. The instruction from which the address of site `x` of `f` (or, with `guard`, whether it happens at all) got
 * a taint of `level` or worse; UINT32_MAX: not found. */
uint32_t ana_origin(const struct ptx_function *f, const struct ana_tainted *t, const struct ana_site *x, bool guard,
                    uint8_t level);

#endif
