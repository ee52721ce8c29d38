/* What the files of the summary share: forms, the state of a walk over a slice, and what it has found (summary.c's head
 * says how it works). */
#ifndef DT_ANALYSIS_SUMMARY_PRIV_H
#define DT_ANALYSIS_SUMMARY_PRIV_H

#include "analysis/summary/summary.h"
#include "base/vec.h"

/* ---- forms (form.c) ---------------------------------------------------------------------------------------------- */
/* Dimensions: the block number's x, y and z, then one for each loop that is being walked, outermost first. */
enum { ANA_BLOCK_DIMS = 3, ANA_DIMS = 8 };

/* A register of all threads of a block: base + sum of step[d] * k[d] in lane l, modulo two to the register's width, for
 * all k[d] in [0, count of d in lane l). Numbers are held sign-extended. */
struct ana_form {
    int64_t *base, *step[ANA_DIMS]; /* per lane; a step is there, and read, where `dims` says so */
    /* bits, read where `dims` has them: the step is the same in all lanes, and step[d][0] is it */
    uint8_t flat;
    uint32_t *mem; /* per lane: memory (ana_summary_in.mem) + 1 that it is an offset in, 0: a number */
    uint8_t dims;  /* bits */
    bool points;   /* mem is there and read */
};

struct ana_access_rec { /* a site, done once: by some lanes, at an address each */
    uint32_t site, n;
    int64_t *base;
    uint32_t *mem;
    uint16_t *lane;
    uint8_t dims;
    int64_t *step[ANA_DIMS];  /* per lane of the record */
    int64_t *count[ANA_DIMS]; /* loops only: set where the loop's walk ends */
    int64_t *times;           /* when traced: rounds of all loops together, moving or not */
    int64_t *round;           /* when traced, in one loop that is in none: rounds before */
    /* when traced: 0: in none, else 1 + the first instruction of that loop's header, UINT32_MAX: in several */
    uint32_t loop;
};

struct ana_frame { /* a loop being walked */
    struct ana_frame *up;
    uint32_t loop;
    int dim;       /* -1: too deep, one round at a time */
    uint8_t *back; /* per lane: has come to the end of its round */
    int64_t *done; /* per lane, when traced: rounds before this walk */
};

struct ana_plane {       /* part of a plane: the bytes of block 0 of the box, and how they move with the block number */
    uint32_t mem, width; /* width: of the widest access */
    uint8_t kind, ev;
    int64_t step[ANA_BLOCK_DIMS];
    struct dt_vec(struct ana_interval) iv; /* shape.c's head says how */
    size_t tidy;                           /* intervals that are known to be sorted and disjoint */
};

struct ana_loop_info {
    uint32_t header;
    bool *in;                  /* per basic block */
    uint32_t *reg, n;          /* registers that a round hands to the next */
    struct ana_round {         /* each of them, while the loop is walked */
        struct ana_form start; /* at the begin of a walk */
        int64_t *by;           /* what a round adds, per lane */
    } * round;
};

struct ana_sum {
    const struct ana_summary_in *in;
    const struct ana_code *code;
    struct dt_arena a, rec_arena;
    uint32_t n;    /* lanes */
    uint8_t *bits; /* of each register */
    struct ana_form *reg, tmp[8];
    uint8_t *pred;   /* scratch mask */
    int64_t *tid[3]; /* of each lane */
    /* where the walk is */
    const uint8_t *mask; /* lanes of the instruction at hand */
    bool full;           /* all of them */
    /* the box: lo, lo + stride …, ext of them */
    uint32_t lo[ANA_BLOCK_DIMS], ext[ANA_BLOCK_DIMS], stride[ANA_BLOCK_DIMS];
    uint32_t every[ANA_BLOCK_DIMS]; /* with `again`: walk blocks that are so many apart (0: as it is) */
    bool again;
    int64_t *count[ANA_DIMS]; /* of loops, per lane */
    struct ana_frame *frame;
    struct ana_loop_info *loop;
    uint32_t nloop, *loop_of; /* loop whose header a block is, + 1 */
    uint32_t *label;          /* basic block of each label */
    uint8_t **wait;           /* per basic block: lanes that are to run it, or NULL */
    bool *waiting;
    uint32_t *first_site; /* per basic block */
    struct dt_vec(struct ana_access_rec) rec;
    size_t flushed; /* when traced, records stay: so many are in planes */
    struct dt_vec(struct ana_plane) plane;
    uint64_t work, most; /* thread instructions done, allowed */
    const char *no;      /* why there is no summary */
    bool oom;
};

static inline int64_t ana_canon(uint64_t v, unsigned bits)
{
    return bits >= 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* A canonical number as the integer that an instruction of this width and sign takes it for. */
static inline __int128 ana_value(int64_t v, unsigned bits, bool sign)
{
    if (sign)
        return v;
    return bits >= 64 ? (__int128)(uint64_t)v : (__int128)((uint64_t)v & ((UINT64_C(1) << bits) - 1));
}

static inline int64_t ana_count(const struct ana_sum *s, unsigned d, uint32_t l)
{
    return d < ANA_BLOCK_DIMS ? (int64_t)s->ext[d] : s->count[d][l];
}

/* Its step in a dimension that it has. */
static inline int64_t ana_step(const struct ana_form *f, unsigned d, uint32_t l)
{
    return f->step[d][f->flat >> d & 1 ? 0 : l];
}

/* Is v the same in all lanes? */
static inline bool ana_uniform(const struct ana_sum *s, const int64_t *v)
{
    int64_t differ = 0;
    for (uint32_t l = 0, n = s->n; l < n; l++)
        differ |= v[l] ^ v[0];
    return !differ;
}

void ana_form_init(struct ana_sum *s, struct ana_form *f);
/* Its steps in dimension d, of all lanes, zero where they were not there. */
int64_t *ana_form_step(struct ana_sum *s, struct ana_form *f, unsigned d);
/* It moves by v in dimension d, in all lanes. */
void ana_form_flat(struct ana_sum *s, struct ana_form *f, unsigned d, int64_t v);
uint32_t *ana_form_mem(struct ana_sum *s, struct ana_form *f);
void ana_form_number(struct ana_form *f); /* no steps, no memory */
void ana_form_copy(struct ana_sum *s, struct ana_form *to, const struct ana_form *x);
/* to = from, in the lanes of the mask; numbers are made canonical for `bits`. */
void ana_form_put(struct ana_sum *s, struct ana_form *to, const struct ana_form *from, unsigned bits);
/* Lower counts so that b + sum of step * k stays in [lo, hi] in lane l; b itself does. */
void ana_bound(struct ana_sum *s, uint32_t l, __int128 b, const int64_t *step, unsigned dims, __int128 lo, __int128 hi);
/* ... so that x, taken as an integer of `bits` bits, does not wrap. */
void ana_fit(struct ana_sum *s, const struct ana_form *x, unsigned bits, bool sign);
bool ana_moves(struct ana_sum *s, const struct ana_form *x); /* does it depend on any dimension? */
/* ... so that x does not depend on any dimension. */
void ana_hold(struct ana_sum *s, const struct ana_form *x);
/* ret[l] = is x < y (or x == y, with `equal`): counts are lowered so that this is so throughout. */
void ana_compare(struct ana_sum *s, const struct ana_form *x, const struct ana_form *y, unsigned bits, bool sign,
                 bool equal, uint8_t *ret);
/* Quotient and rest of x >= 0 by c[l] > 0; either may be NULL. False: x may be negative. */
bool ana_digits(struct ana_sum *s, const struct ana_form *x, const int64_t *c, unsigned bits, bool sign,
                struct ana_form *quot, struct ana_form *rest);

static inline void ana_cannot(struct ana_sum *s, const char *why)
{
    if (!s->no)
        s->no = why;
}

/* ---- form-inst.c ------------------------------------------------------------------------------------------------- */
bool ana_inst_known(const struct ana_sum *s, const struct ptx_inst *i); /* can it be walked at all? */
void ana_inst_run(struct ana_sum *s, const struct ptx_inst *i);         /* in the lanes of the mask; no control flow */
/* Operand o as a form: of a register its own, else in tmp[slot]. */
const struct ana_form *ana_operand(struct ana_sum *s, const struct ptx_opnd *o, unsigned bits, unsigned slot);

/* ---- shape.c ----------------------------------------------------------------------------------------------------- */
void ana_rec_add(struct ana_sum *s, uint32_t site, const struct ana_form *address, int64_t off);
void ana_rec_close(struct ana_sum *s, size_t from, unsigned dim); /* a loop's walk ends */
void ana_rec_flush(struct ana_sum *s);                            /* records into planes */
int ana_planes_add(struct ana_sum *s, struct ana_foot *foot);     /* planes of the box into the footprint */
void ana_planes_drop(struct ana_sum *s);

/* ---- trace.c ----------------------------------------------------------------------------------------------------- */
int ana_trace_give(struct ana_sum *s); /* the records of a box that is done, to in->trace */

#endif
