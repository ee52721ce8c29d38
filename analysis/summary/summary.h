/* The footprints of a launch without a device: its slice walked once for many blocks and rounds (summary.c). Several
 * launches may be summarised on several threads. */
#ifndef DT_ANALYSIS_SUMMARY_H
#define DT_ANALYSIS_SUMMARY_H

#include "analysis/footprint/footprint.h"
#include "analysis/instrument/instrument.h"

struct ana_mem { /* memory that a launch can name: a buffer, or a module variable that is none */
    uint64_t bytes;
    uint32_t buffer; /* UINT32_MAX: not recorded */
    uint32_t align;  /* its address is a multiple of this */
    bool fixed;      /* nothing may write it */
};
struct ana_pointer { /* 8 bytes of the parameters at `at` are the address of mem + offset */
    uint32_t at, mem;
    uint64_t offset;
};
struct ana_summary_in {
    const struct ana_code *code;
    const uint32_t *grid, *block;
    const uint8_t *param; /* bytes, addresses left out */
    uint32_t param_bytes, nparam;
    const uint32_t *param_offset; /* nparam of them */
    const struct ana_pointer *pointer;
    uint32_t npointer;
    const struct ana_mem *mem;
    const uint32_t *var_mem; /* by place in code->f->module->var: number in `mem`, or UINT32_MAX */
    uint32_t nvar;
    const uint8_t *(*content)(void *user, uint32_t mem); /* what loads of it see; NULL: not known */
    void *user;
    ana_trace_fn trace; /* or NULL */
    void *trace_user;
};
/* 1: `foot` (unless NULL) holds what the blocks of the launch touch; 0: there is no summary, *ret_why says why, nothing
 * is in `foot`. *ret_work: thread instructions that were walked. Errors: DT_E_NOMEM. */
int ana_summarise(const struct ana_summary_in *in, struct ana_foot *foot, uint64_t *ret_work, const char **ret_why,
                  struct dt_err *e);

#endif
