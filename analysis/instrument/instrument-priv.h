/* What the files of this room share: an entry while recording code is put into it. */
#ifndef DT_ANALYSIS_INSTRUMENT_PRIV_H
#define DT_ANALYSIS_INSTRUMENT_PRIV_H

#include "analysis/instrument/instrument.h"

enum ana_mode { ANA_EXACT, ANA_BOUNDS /* check only */, ANA_AHEAD /* record, but outside is no error */ };

struct ana_slice {
    bool *keep;    /* per instruction: it is in the slice; NULL: all */
    uint32_t *cut; /* per instruction: a jump to the begin of block cut - 1 stands for it; 0: no */
};

/* hoist.c: where and under what condition to record an access that data may skip */
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

struct ana_instr {
    struct ptx_function *f; /* being rebuilt */
    const struct ana_tainted *t;
    struct ana_code *code;
    struct ana_hoist *hoist; /* per site */
    bool *ahead;             /* per site: hoisted */
    uint32_t *ghost_at;      /* per instruction: block + 1 whose ghost is put before it */
    bool ghosts;             /* some */
    bool clusters;           /* generic addresses may be of another block's shared memory */
    bool native;             /* the device records: what is put in are calls of DOVETAIL_TOUCH */
    const uint32_t *hint;
    uint32_t nhint;
    struct ana_slice slice;
    struct ana_group { /* accesses of one width that most likely go to one table entry */
        uint32_t at, bytes;
    } group[16];
    uint32_t ngroup;
    struct ana_slow { /* what the fast way leaves, put behind the entry's end */
        uint32_t site, label;
    } * slow;
    uint32_t nslow;
    struct ana_walk {  /* per site: walked by a loop */
        uint32_t loop; /* block + 1; 0: it is not */
        int64_t off;   /* address at the begin of a round: its register there + off */
        int64_t step;  /* bytes a round */
    } * walk;
    uint32_t *loop;       /* per block: sites walked by it */
    uint32_t label;       /* numbers of labels made */
    struct ptx_inst *old; /* the original instructions */
    uint32_t nold;
    struct dt_err *e;
};

#define EMIT(s, ...)                                                                                                   \
    do {                                                                                                               \
        int rc_ = ptx_append_text((s)->f, (s)->e, __VA_ARGS__);                                                        \
        if (rc_)                                                                                                       \
            return rc_;                                                                                                \
    } while (0)

struct ana_copy {
    struct ana_instr *s;
    uint32_t *to; /* per register of the original: its copy, or PTX_NO_REG */
};
/* emit.c. Append a copy of instruction `at` with registers renamed; a register that it writes gets a fresh name where
 * it has none. */
int ana_emit_copy(struct ana_instr *s, struct ana_copy *c, uint32_t at);
/* %ana_a = the address of site k, as its own operand has it. */
int ana_emit_address(struct ana_instr *s, uint32_t k);
/* Record site k, whose address is in %ana_a; skip: number of the label behind. */
int ana_emit_record(struct ana_instr *s, uint32_t k, enum ana_mode mode, uint32_t skip);
/* The same where misaligned is a fault too (of a slice). */
int ana_record_slow(struct ana_instr *s, uint32_t k, enum ana_mode mode, uint32_t skip);
/* Record site k of group g, where it happens. */
int ana_record_fast(struct ana_instr *s, uint32_t k, uint32_t g, uint32_t skip);
/* Native: record site k, whose address is register `reg` + off, under predicate `pred` (PTX_NO_REG: none). */
int ana_emit_touch(struct ana_instr *s, uint32_t k, enum ana_mode mode, uint32_t pred, bool neg, const char *reg,
                   int64_t off);
/* What only the search of the table needs of the recorder's numbers. */
int ana_emit_slow_prologue(struct ana_instr *s);
/* Is site k recorded where it happens? Its group, or ngroup; s->group for all sites. */
bool ana_is_exact(const struct ana_instr *s, uint32_t k);
uint32_t ana_group_of(const struct ana_instr *s, uint32_t k);
void ana_group_sites(struct ana_instr *s);

/* rebuild.c: s->f gets its instructions anew, with recording between them. */
int ana_rebuild(struct ana_instr *s);

/* instrument.c: evidence of what site k does as kind q */
enum ana_evidence ana_evidence_of(const struct ana_instr *s, uint32_t k, unsigned q);

/* walk.c. Emit: what is to stand before original instruction `at`; slow: what stands behind the end. */
int ana_walk_plan(struct ana_instr *s);
int ana_walk_emit(struct ana_instr *s, uint32_t at);
int ana_walk_slow(struct ana_instr *s);

/* span.c: record site k, a span, its registers renamed by c (may be NULL). */
int ana_span_emit(struct ana_instr *s, uint32_t k, const struct ana_copy *c, enum ana_mode mode, uint32_t skip);

/* split.c: values that die in their block get registers of their own. */
int ana_split(struct ptx_function *f, struct dt_err *e);

/* divide.c: products that stand for divisions by constants become these. */
int ana_divide(struct ptx_function *f);
bool ana_copyable(const struct ptx_inst *i); /* hoist.c: plain arithmetic or a kernel parameter, predicate aside */

/* slice.c. 1: there is a slice (arrays in `a`), 0: there is none, negative: error. */
int ana_slice(struct dt_arena *a, const struct ptx_function *f, const struct ana_tainted *t, struct ana_slice *ret);

/* ghost.c. Plan: hoist (s->ahead, s->hoist) or ghost (code->ghost) for every site under a data-dependent guard. Emit:
 * what is to stand before original instruction `at`. */
int ana_ghost_plan(struct ana_instr *s);
int ana_ghost_emit(struct ana_instr *s, uint32_t at);

#endif
