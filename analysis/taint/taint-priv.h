/* The state of the taint pass (taint.c), which sites.c reads when it is done. */
#ifndef DT_ANALYSIS_TAINT_PRIV_H
#define DT_ANALYSIS_TAINT_PRIV_H

#include <string.h>

#include "analysis/taint/taint.h"

#define NONE ANA_PROVED
#define CONSTANT ANA_OBSERVED
#define DATA ANA_DATA_DEPENDENT
#define NO_CELL UINT32_MAX

enum { /* what a device function and its callees do */
       ANA_CALL_READS = 1,
       ANA_CALL_WRITES = 2,
       ANA_CALL_UNKNOWN = 4,
       ANA_CALL_VARS = 8,   /* names module variables that change */
       ANA_CALL_EXITS = 16, /* threads may not come back */
       ANA_CALL_ATOMICS = 32,
       ANA_CALL_FP_ATOMICS = 64,
       ANA_CALL_ANYTHING = ANA_CALL_READS | ANA_CALL_WRITES | ANA_CALL_UNKNOWN | ANA_CALL_EXITS | ANA_CALL_ATOMICS |
                           ANA_CALL_FP_ATOMICS,
};

struct ana_cell {
    uint8_t taint;
    bool stored, raced /* shared: a store and a load without a barrier between */;
};

struct ana_taint_state {
    const struct ptx_function *f;
    const struct ana_taint_in *in;
    struct dt_arena a; /* scratch */
    struct ptx_cfg cfg;
    struct ptx_live live;
    /* provenance bits: parameters, then the function's variables, then the module's */
    uint32_t nown, nmod, nbit, words;
    uint8_t *reg, *block;
    uint32_t *folded;             /* per instruction: it copies a number (fold.c) */
    uint64_t *prov;               /* words per register */
    struct ana_cell *cell;        /* per bit */
    uint64_t *cellprov;           /* words per bit */
    const struct ptx_var **known; /* sorted by address */
    uint32_t *known_bit;
    uint64_t *shared_bits, *local_bits, *dynamic_bits /* extern shared: all at one address */; /* masks */
    uint32_t unknown;    /* a provenance bit: addresses that were loaded from global memory, or came from a call */
    bool loaded_unknown; /* by the load at hand */
    uint8_t carry;       /* taint of the carry flag */
    /* per instruction: it reads the flag where it may never have been set, or been lost in a call */
    bool *no_carry;
    uint16_t *effect;      /* per function of the module: ANA_CALL_* + 1 */
    struct dt_arena *keep; /* for the whole pass */
    bool *escapes;
    bool opaque, changed, param_address;
    /* generic addresses may be of other blocks of the cluster; a cluster barrier may order nothing */
    bool mapa, relaxed;
    uint8_t *branch; /* per block: level its branch was applied at */
    uint8_t *kind;   /* per register: number, base, bits (binding.c) */
    uint32_t *align; /* per parameter: what its buffers must be aligned to, 0: nothing */
    /* lanes.c: ANA_LANE, ANA_CHOICE of registers and basic blocks; per instruction, ANA_CHOOSES_*, and whether it is an
     * elect.sync of all lanes */
    uint8_t *lane_reg, *lane_block, *choosy;
    bool *elects;
    /* of the instruction at hand */
    uint8_t src;
    uint64_t *src_prov;
};
/* ---- provenance sets --------------------------------------------------------------------------------------------- */
static inline uint64_t *reg_prov(struct ana_taint_state *s, uint32_t r) { return s->prov + (size_t)r * s->words; }
static inline uint64_t *cell_prov(struct ana_taint_state *s, uint32_t c) { return s->cellprov + (size_t)c * s->words; }

static inline void quiet_join(struct ana_taint_state *s, uint64_t *to, const uint64_t *from)
{
    for (uint32_t i = 0; i < s->words; i++)
        to[i] |= from[i];
}

static inline bool has_bit(const uint64_t *x, uint32_t bit) { return x[bit / 64] >> bit % 64 & 1; }
static inline void set_bit(uint64_t *x, uint32_t bit) { x[bit / 64] |= UINT64_C(1) << bit % 64; }

static inline uint32_t bit_of(const struct ana_taint_state *s, const struct ptx_var *v)
{
    uint32_t lo = 0, hi = s->nbit;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (s->known[mid] == v)
            return s->known_bit[mid];
        if ((uintptr_t)s->known[mid] < (uintptr_t)v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NO_CELL;
}

/* Module variable of a bit, or NULL. */
static inline struct ptx_var *module_var(const struct ana_taint_state *s, uint32_t bit)
{
    return bit >= s->f->nparam + s->nown ? s->f->module->var[bit - s->f->nparam - s->nown] : NULL;
}

static inline uint8_t var_kind(const struct ana_taint_state *s, uint32_t bit)
{
    uint32_t i = bit - s->f->nparam - s->nown;
    if (s->in->var)
        return s->in->var[i];
    return s->f->module->var[i]->space == PTX_CONST ? ANA_VAR_FIXED : ANA_VAR_MUTABLE;
}

/* May argument `bit` be, or hold, an address? */
static inline bool may_point(const struct ana_taint_state *s, uint32_t bit)
{
    return !s->in->pointer_param || bit >= s->in->nparam || s->in->pointer_param[bit];
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */
static inline void read_reg(uint32_t r, bool write, void *user)
{
    struct ana_taint_state *s = user;
    if (write)
        return;
    if (s->reg[r] > s->src)
        s->src = s->reg[r];
    if (s->f->reg[r].type != PTX_PRED)
        quiet_join(s, s->src_prov, reg_prov(s, r));
}

static inline void read_special(struct ana_taint_state *s, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_SREG) {
        /* the launch says */
        bool cluster = o->sreg >= PTX_SR_IS_EXPLICIT_CLUSTER && o->sreg <= PTX_SR_CLUSTER_NCTARANK;
        if (!(ptx_sreg_flags(o->sreg) & PTX_SRF_GEOMETRY) && !cluster)
            s->src = DATA;
    } else if (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) {
        uint32_t b = bit_of(s, o->var);
        if (b != NO_CELL)
            set_bit(s->src_prov, b);
    } else if (o->kind == PTX_O_VEC) {
        for (unsigned i = 0; i < o->n; i++)
            read_special(s, &o->elem[i]);
    }
}

/* The provenance of a memory operand; its taint. */
static inline uint8_t taint_address(struct ana_taint_state *s, const struct ptx_opnd *o, uint64_t *prov)
{
    memset(prov, 0, s->words * sizeof *prov);
    if (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG) {
        memcpy(prov, reg_prov(s, o->reg), s->words * sizeof *prov);
        return s->reg[o->reg];
    }
    if (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR) {
        uint32_t b = bit_of(s, o->var);
        if (b != NO_CELL)
            set_bit(prov, b);
    }
    return NONE;
}

/* taint.c: the variables that a store at `prov` may change, joined to `mask`; and those at the same address. */
void ana_store_targets(struct ana_taint_state *s, uint8_t space, const uint64_t *prov, uint64_t *mask);
void ana_alias(const struct ana_taint_state *s, uint64_t *mask);

/* binding.c: the kind of what an instruction, a load of value provenance `out`, assigns. DATA: it makes a number of
 * pointer bits. */
uint8_t ana_binding(struct ana_taint_state *s, const struct ptx_inst *i);
uint8_t ana_binding_load(struct ana_taint_state *s, const struct ptx_inst *i, const uint64_t *from,
                         const uint64_t *out);
/* Is `and` i a number although it takes pointer bits: the low ones of an aligned address? */
bool ana_binding_low(struct ana_taint_state *s, const struct ptx_inst *i);
/* Is the operand, or the base of the address, a number made of pointer bits? */
bool ana_binding_bits(const struct ana_taint_state *s, const struct ptx_opnd *o);

/* control.c: `block` is called for each basic block that the branch at the end of block b decides about, `merge` for
 * each register whose value it chooses. */
void ana_branch(struct dt_arena *a, const struct ptx_function *f, const struct ptx_cfg *cfg,
                const struct ptx_live *live, uint32_t b, void (*block)(uint32_t x, void *user),
                void (*merge)(uint32_t r, void *user), void *user);

/* lanes.c: does another lane make another value; would another choice of elect.sync? */
enum { ANA_LANE = 1, ANA_CHOICE = 2 };
/* What the choice may change of an instruction: where it goes; anything about it. */
enum { ANA_CHOOSES_PLACE = 1, ANA_CHOOSES_ALL = 2 };
bool ana_lanes(struct ana_taint_state *s); /* false: memory */
/* Instruction `at` elects one lane of each warp that comes to it, and whole warps come. */
bool ana_elects(const struct ana_taint_state *s, uint32_t at);

/* callee.c */
unsigned ana_call_effect(struct ana_taint_state *s, const struct ptx_inst *call);
void ana_call_reach(struct ana_taint_state *s, uint64_t *out);

/* cells.c */
void ana_races(struct ana_taint_state *s);
bool ana_watch(struct ana_taint_state *s, struct ana_tainted *t);

/* span.c: what kind of span site x, at operand x->opnd, is; its address joins what else says what is touched. It may
 * forget `prov`: anywhere. */
void ana_span_find(struct ana_taint_state *s, const struct ptx_inst *i, struct ana_site *x, uint64_t *prov);

/* sites.c: the accesses of instruction `at`, appended to `out`. False: memory. */
bool ana_is_float_atomic(const struct ptx_inst *i);
bool ana_sites_add(struct ana_taint_state *s, struct ana_sites *out, size_t *cap, uint32_t at);

#endif
