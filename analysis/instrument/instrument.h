/* An entry that records what it touches (instrument.c says how): its code, and the memory by which it and record/
 * exchange what was recorded. ana_instrument() may run on several threads, each with an ana_code of its own. */
#ifndef DT_ANALYSIS_INSTRUMENT_H
#define DT_ANALYSIS_INSTRUMENT_H

#include "analysis/footprint/footprint.h"
#include "analysis/taint/taint.h"

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
    /* 0: nothing is logged. Else the address of two numbers (how many entries there are, and room for how many), and of
     * the entries behind them (struct ana_logged) */
    uint64_t log;
};
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

#endif
