/* What the files of analysis/ share and others do not need. */
#ifndef DT_ANALYSIS_PRIV_H
#define DT_ANALYSIS_PRIV_H

#include "analysis/analysis.h"

/* ---- sets.c ---------------------------------------------------------------------------------------------------- */
uint32_t ana_intervals_normalise(struct ana_interval *iv, size_t n); /* in place; returns how many are left */
struct ana_set ana_set_from(struct dt_arena *a, const struct ana_interval *iv, size_t n);
struct ana_set ana_set_range(struct dt_arena *a, uint64_t lo, uint64_t hi);

/* ---- strips.c: who touches which byte, of one launch and buffer ------------------------------------------------- */
struct ana_strip { /* bytes [lo, hi) are touched by exactly the blocks of set `set` */
    uint64_t lo, hi;
    uint32_t set;
};
struct ana_strips { /* ascending, disjoint; adjacent strips differ in their set */
    struct ana_strip *strip;
    uint32_t nstrip;
    uint32_t
        *off; /* nset + 1: the blocks of set s are block[off[s]] … block[off[s + 1] - 1], ascending, at least one */
    uint32_t *block;
    uint32_t nset;
};
/* touch[b]: what block b touches. Results in `a`. */
int ana_strips_build(struct dt_arena *a, const struct ana_set *touch, uint32_t nblock, struct ana_strips *ret,
                     struct dt_err *e);
/* The strips as one set of bytes. */
struct ana_set ana_strips_bytes(struct dt_arena *a, const struct ana_strips *s);

/* ---- foot.c: from what was recorded to ana_launch ---------------------------------------------------------------- */
enum ana_kind { ANA_READ, ANA_WRITE, ANA_RED /* integer reduction, result unused: reads and writes */, ANA_KINDS };

struct ana_foot; /* builds one ana_launch */
/* bytes[i]: size of buffer i; results (the launch's arrays) in `a`. */
struct ana_foot *ana_foot_new(struct dt_arena *a, uint32_t nblock, uint32_t nbuffer, const uint64_t *bytes);
void ana_foot_free(struct ana_foot *f);
/* Block `block` touches iv[0..n) of `buffer`: n ascending, disjoint, non-touching intervals. Copies. At most one call
 * per (block, buffer, kind, evidence). Writes with evidence data-dependent are may-writes. */
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

/* ---- maps.c, classify.c ------------------------------------------------------------------------------------------ */
/* Edges of r->launch[0..nlaunch) into r->edge. */
int ana_maps(struct ana_result *r, uint32_t nlaunch, uint32_t nbuffer, bool all_edges, struct dt_err *e);

struct ana_link { /* one buffer's part of a hazard between two launches: sets of the two sides that share a live byte */
    const struct ana_strips *p, *c;
    struct ana_link_pair {
        uint32_t c, p; /* sets */
    } * pair;          /* ascending, distinct */
    uint32_t npair;
};
struct ana_degree { /* of one relation */
    uint64_t pairs;
    uint32_t components, consumers, producers; /* blocks that have a pair */
    uint32_t ppc_min, ppc_max, cpp_min, cpp_max;
};
/* Pairs of blocks from links. rows may be NULL. Rows in `a`. */
int ana_relation(struct dt_arena *a, const struct ana_link *link, uint32_t nlink, uint32_t nconsumer,
                 uint32_t nproducer, struct ana_rows *rows, struct ana_degree *ret, struct dt_err *e);
void ana_classify(struct ana_edge *edge, const struct ana_degree *raw, uint32_t nconsumer);

/* ---- taint.c, with what the recorder knows beside -----------------------------------------------------------------
 */
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
    const uint8_t
        *var; /* enum ana_var by place in module->var, or NULL: .const variables are fixed, .global ones mutable */
};
/* Do arguments of bytes hold pointers in the same places? (binding.c) */
bool ana_same_places(const struct dt_arg *a, const struct dt_arg *b, uint32_t n);
#define ANA_POISON 0xB5 /* every byte */
struct ana_tainted {
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
/* split.c: values that die in their block get registers of their own. */
int ana_split(struct ptx_function *f, struct dt_err *e);
/* divide.c: products that stand for divisions by constants become these. */
int ana_divide(struct ptx_function *f);
int ana_taint_run(const struct ptx_function *f, const struct ana_taint_in *in, struct ana_tainted *ret,
                  struct dt_err *e);
void ana_tainted_done(struct ana_tainted *t);
/* Which module variables can change while entries of the module run: out[i] for module->var[i], enum ana_var. */
int ana_module_vars(const struct ptx_module *m, uint8_t *out, struct dt_err *e);

/* ---- hoist.c: where and under what condition to record an access that data may skip --------------------------------
 */
struct ana_hoist {
    uint32_t at;     /* record before this instruction (entry->ninst: at the end) */
    uint32_t *slice; /* instructions to compute the address (and conditions) from, in order, before that place */
    uint32_t nslice;
    struct ana_cond { /* record only where all hold: `reg` is its copy by the slice where the slice defines it */
        uint32_t reg;
        bool neg;
    } * cond;
    uint32_t ncond;
};
/* 1: found (arrays in `a`), 0: no such place, negative: error. */
int ana_hoist(struct dt_arena *a, const struct ptx_function *f, const struct ana_tainted *t,
              const struct ana_site *site, struct ana_hoist *ret);

/* ---- span.c ------------------------------------------------------------------------------------------------------ */
/* Operands, beside the address, that say what a span touches. How many. */
unsigned ana_span_operands(const struct ptx_inst *i, const struct ana_site *x, const struct ptx_opnd **ret);

/* ---- instrument.c: an entry that records ------------------------------------------------------------------------- */
#define ANA_CTL "__dovetail_ctl" /* the module variable through which the recorder is told where to write */
struct ana_ctl {                 /* its content */
    uint64_t rec, tab, err;      /* device addresses: bitmaps (paged: page directory), buffer table, error slot */
    uint64_t stride, plane;      /* bytes of `rec` per block, per plane of a block */
    uint32_t first, count;       /* blocks to record: [first, first + count) */
    uint32_t entries;            /* of the table; it is there twice, so that a search may begin anywhere */
    uint32_t coarse;             /* a bit stands for 1 << coarse granules; then `mask` is 1 */
    uint32_t mask;               /* bits of an access that are set: all ones, or 1 */
    uint32_t page_shift;         /* paged: granules of a page, as a power of two, at least 5 */
    uint64_t pages; /* 0: bitmaps are whole. Else the page arena: `rec` holds a page number for each page of a plane */
    /* 0: nothing is logged. Else two numbers, entries that there are and that there is room for, and these (struct
     * ana_logged) */
    uint64_t log;
};
#define ANA_LOG_VALUES 5
/* one bulk copy or copy of a tensor: BULK: address, size; TENSOR: 0 (how far the map is from its argument),
 * coordinates */
struct ana_logged {
    uint32_t site, block;
    uint64_t address;
    uint32_t value[ANA_LOG_VALUES], tid[3];
};
struct ana_tab { /* one entry: a buffer, or memory that is none and may be touched */
    uint64_t base, bytes;
    uint64_t bit;   /* of granule 0 in a plane, a multiple of 32; ~0: not recorded */
    uint32_t pad;   /* base % 32: granules count from base - pad */
    uint32_t fixed; /* 1: nothing may write it */
    /* The fast way: an access of n bytes at `a` with a - base + n <= fast sets bits from (a - key) >> shift. fast is 0
     * where bitmaps are not whole. */
    uint64_t fast, key;
};
enum {
    ANA_OVER_GHOST = 1 /* a ghost ran too long */,
    ANA_OVER_UNWRITTEN = 2 /* a believed load met memory that nothing wrote */,
    ANA_OVER_LOG = 4 /* what spans touch is not all known */
};
struct ana_fault { /* the error slot */
    uint32_t site; /* + 1; 0: none */
    uint32_t block;
    uint64_t address;
    uint32_t tid[3];
    uint32_t over; /* ANA_OVER_* */
};
struct ana_instr;
struct ana_code {
    struct dt_arena arena;
    struct ptx_module *copy; /* a clone, and the entry in it, which ana_instrument_text() rewrites */
    struct ptx_function *f;
    struct ana_instr *instr;
    const struct ptx_inst *inst; /* the entry before that, its registers and flow graph */
    uint32_t ninst, nreg;
    struct ptx_cfg *cfg;
    bool *keep; /* its slice, as slice.c has it; NULL where there is none */
    uint32_t *cut;
    char *text;                          /* the instrumented function; free(). NULL: not yet made */
    bool sliced;                         /* it records, and does not do its work */
    struct ana_sites sites;              /* of the original */
    uint8_t *kinds;                      /* per site: bits 1 << enum ana_kind */
    uint8_t *evidence;                   /* per site and kind */
    bool *wide;                          /* per site: not recorded, counts as every byte */
    bool *ghost;                         /* per site: recorded by a ghost; widened if ana_fault.over */
    bool *ahead;                         /* per site: recorded before the branch that data decides */
    unsigned shift;                      /* granule: 1 << shift bytes */
    int plane[ANA_KINDS][ANA_EVIDENCES]; /* number, -1: not there */
    unsigned nplane;
    bool logs; /* some sites are logged */
    /* native text, too, has something to say by way of ANA_CTL: of spans, ghosts, or loads that are watched */
    bool talks;
};
/* What is to be recorded of `entry` of `m`. var: as ana_taint_in, by place in m->var. hint[i]: table entry where the
 * search for what argument i points to begins; must outlive ret. slice: only its slice, if it has one (ret->sliced). */
int ana_instrument(const struct ptx_module *m, const char *entry, const struct ana_taint_in *in, const uint32_t *hint,
                   bool slice, struct ana_code *ret, struct dt_err *e);
/* Its text, under the name `name`. threads: of the largest block it is launched with. native: for a device that records
 * (softgpu/record.h). */
int ana_instrument_text(struct ana_code *c, const char *name, uint32_t threads, bool native, struct dt_err *e);
void ana_code_done(struct ana_code *c);

/* ---- summary.c: footprints without a device ---------------------------------------------------------------------- */
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
