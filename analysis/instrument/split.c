/* A register that holds one value after another becomes several registers.
 *
 * The taint pass knows one taint, one provenance and one kind of each register, wherever it is read. People write
 *     mul.wide.u32 %d, %r, 4; add.s64 %d, %p, %d;
 * and %d is a number first, then an address. Seen as one register it is neither. In the copy that is instrumented each
 * value that is dead before its block ends gets a register of its own: from an unpredicated definition to the next one
 * in the same block that overwrites all of it. Values that live on, that are written under a predicate, or that a call
 * or an unknown instruction touches, stay where they are.
 *
 * Backward through each block: which definitions have such a next one. Forward: the new names.
 */
#include <stdlib.h>

#include "analysis/instrument/instrument-priv.h"
#include "base/alloc.h"

#define MAX_NEW 65536

struct splitter {
    struct ptx_function *f;
    uint32_t *stamp; /* per register: the entry beside counts only if this is the block at hand */
    uint32_t *name;  /* backward: 1: it is overwritten; forward: its new name + 1 */
    bool *begins;    /* per instruction: what it defines gets a name */
    uint32_t block, nreg;
    const struct ptx_inst *i;
};

/* Does i overwrite all of its first operand, a register, and nothing else? */
static bool overwrites(const struct ptx_inst *i)
{
    bool plain = ana_copyable(i) || i->op == PTX_OP_LD || i->op == PTX_OP_LDU;
    return plain && i->pred == PTX_NO_REG && i->nopnd > 1 && i->opnd[0].kind == PTX_O_REG && !i->dst2 &&
           !(ptx_op_info(i->op)->flags & (PTX_F_NODST | PTX_F_DST_READ));
}

static void look_back(uint32_t r, bool write, void *user)
{
    struct splitter *s = user;
    bool call = ptx_op_info(s->i->op)->flags & PTX_F_CALL;
    if (!write && !call)
        return;
    s->stamp[r] = s->block;
    s->name[r] = !call && overwrites(s->i) && s->i->opnd[0].reg == r;
}

static void split_forget(uint32_t r, bool write, void *user)
{
    struct splitter *s = user;
    if (write)
        s->stamp[r] = 0;
}

static uint32_t renamed(const struct splitter *s, uint32_t r)
{
    return r < s->nreg && s->stamp[r] == s->block && s->name[r] ? s->name[r] - 1 : r;
}

static void rename_operand(const struct splitter *s, struct ptx_opnd *o)
{
    if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        o->reg = renamed(s, o->reg);
    for (unsigned k = 0; (o->kind == PTX_O_VEC || o->kind == PTX_O_ADDR) && k < o->n; k++)
        rename_operand(s, &o->elem[k]);
}

static bool backward(struct splitter *s, const struct ptx_block *b)
{
    bool some = false;
    for (uint32_t at = b->last + 1; at-- > b->first;) {
        const struct ptx_inst *i = s->i = &s->f->inst[at];
        if (i->op == PTX_OP_OPAQUE)
            return false;
        if (i->op < PTX_OP_OPAQUE)
            continue;
        uint32_t r = overwrites(i) ? i->opnd[0].reg : 0;
        s->begins[at] = overwrites(i) && s->stamp[r] == s->block && s->name[r];
        some |= s->begins[at];
        ptx_inst_regs(i, look_back, s);
    }
    return some;
}

static bool forward(struct splitter *s, const struct ptx_block *b)
{
    for (uint32_t at = b->first; at <= b->last; at++) {
        struct ptx_inst *i = &s->f->inst[at];
        if (i->op < PTX_OP_OPAQUE)
            continue;
        unsigned first = ptx_op_info(i->op)->flags & PTX_F_NODST ? 0 : i->dst2 ? 2 : 1;
        for (unsigned k = first; k < i->nopnd; k++)
            rename_operand(s, &i->opnd[k]);
        if (i->pred != PTX_NO_REG)
            i->pred = renamed(s, i->pred);
        ptx_inst_regs(i, split_forget, s);
        if (!s->begins[at] || s->f->nreg - s->nreg >= MAX_NEW)
            continue;
        uint32_t r = i->opnd[0].reg, fresh = ptx_reg_new(s->f, s->f->reg[r].type, "split");
        if (fresh == PTX_NO_REG)
            return false;
        i = &s->f->inst[at];
        i->opnd[0].reg = fresh;
        s->stamp[r] = s->block;
        s->name[r] = fresh + 1;
    }
    return true;
}

int ana_split(struct ptx_function *f, struct dt_err *e)
{
    struct ptx_cfg cfg;
    struct splitter s = {.f = f, .nreg = f->nreg};
    int rc = ptx_cfg_build(f, &cfg, e);
    if (rc)
        return rc;
    s.stamp = dt_calloc((size_t)f->nreg + 1, sizeof *s.stamp);
    s.name = dt_calloc((size_t)f->nreg + 1, sizeof *s.name);
    s.begins = dt_calloc((size_t)f->ninst + 1, sizeof *s.begins);
    rc = s.stamp && s.name && s.begins ? 0 : DT_E_NOMEM;
    for (uint32_t b = 0; b < cfg.nblock && !rc; b++) {
        const struct ptx_block *k = &cfg.block[b];
        if (k->last >= f->ninst || k->first > k->last)
            continue;
        s.block = 2 * b + 1;
        bool some = backward(&s, k);
        s.block = 2 * b + 2;
        if (some && !forward(&s, k))
            rc = DT_E_NOMEM;
    }
    free(s.stamp);
    free(s.name);
    free(s.begins);
    ptx_cfg_done(&cfg);
    return rc;
}
