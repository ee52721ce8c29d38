/* Tables in constant memory of the bodies of a fused kernel: how much there will be, and which of them go to global
 * memory where that is too much.
 *
 *   p  reads tab, 40 KB           joined: one copy where the bytes are the same, whatever module they came from; else
 *   c  reads its own tab, 40 KB   both in global memory, as the 64 KB of constant memory hold but one
 *
 *   ld.const.f32 %f, [tab+8]                     after:  ld.global.f32 %f, [tab+8]
 *   mov.u64 %a, tab; add.s64 %a, %a, %b          the same text
 *   ld.const.u16 %x, [%a]                        ld.global.u16 %x, [%a]
 *
 * A table that nobody writes is read alike in either memory; lists of blocks that do not fit are put into global memory
 * by data.c anyway, and such lists of kernels that were fused before are tables of their bodies here. Where too much
 * comes together, all tables of a body go, or none: `may_move` walks its instructions, and what is made of a table's
 * address may only be added to, moved and loaded from, by ld.const, in 64 bits. Then no address of another memory comes
 * to these loads, and no such address goes elsewhere. A table that two bodies name stays if one of them has to have it.
 *
 * Moving costs time: a warp's lanes read one word of constant memory in a cycle. The planner sees the time of what was
 * made. What still is too much is refused, as `constant-space`. Not here: tables of functions that are called.
 */
#include "rewrite/emit/emit-priv.h"

#include <stdlib.h>
#include <string.h>

bool rw_same_table(const struct ptx_var *v, const struct ptx_var *w)
{
    return v == w || (v->space == PTX_CONST && w->space == PTX_CONST && !v->is_extern && !w->is_extern && !v->nreloc &&
                      !w->nreloc && v->bytes == w->bytes && v->align == w->align && v->init && w->init &&
                      !memcmp(v->init, w->init, v->bytes));
}

/* ---- may a body's tables be moved? ------------------------------------------------------------------------------- */

struct walk {
    const struct ptx_function *f;
    bool *of; /* by register: made of a table's address */
    bool any, give, changed;
};

static void tables_on_reg(uint32_t reg, bool write, void *user)
{
    struct walk *w = user;
    if (reg >= w->f->nreg)
        return;
    if (!w->give && !write)
        w->any |= w->of[reg];
    if (w->give && write && !w->of[reg])
        w->of[reg] = w->changed = true;
}

static bool names_table(const struct ptx_opnd *o)
{
    return (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) && o->var->space == PTX_CONST;
}

static bool only_counts(unsigned op)
{
    return op == PTX_OP_MOV || op == PTX_OP_ADD || op == PTX_OP_SUB || op == PTX_OP_MUL || op == PTX_OP_MAD ||
           op == PTX_OP_SHL || op == PTX_OP_SELP;
}

/* A load of constant memory whose address is a table's. */
static bool loads_table(const struct walk *w, const struct ptx_inst *i)
{
    const struct ptx_opnd *a = i->nopnd > 1 ? &i->opnd[1] : NULL;
    if (i->op != PTX_OP_LD || i->space != PTX_CONST || !a || a->kind != PTX_O_ADDR)
        return false;
    if (a->base_kind == PTX_O_VAR)
        return a->var->space == PTX_CONST;
    return a->base_kind == PTX_O_REG && a->reg < w->f->nreg && w->of[a->reg] &&
           ptx_type_bytes(w->f->reg[a->reg].type) == 8;
}

/* One instruction; false: with it the tables have to stay. */
static bool tables_step(struct walk *w, const struct ptx_inst *i)
{
    bool named = false;
    for (unsigned k = 0; k < i->nopnd; k++)
        named |= names_table(&i->opnd[k]);
    w->any = w->give = false;
    ptx_inst_regs(i, tables_on_reg, w);
    if (i->op == PTX_OP_LD && i->space == PTX_CONST)
        return true; /* asked when all registers are known */
    if (!named && !w->any)
        return true;
    if (!only_counts(i->op))
        return false;
    w->give = true;
    ptx_inst_regs(i, tables_on_reg, w);
    return true;
}

static bool may_move(const struct rw_body *b)
{
    struct walk w = {.f = b->f, .of = dt_calloc((size_t)b->f->nreg + 1, sizeof *w.of)};
    bool ok = w.of && !b->calls;
    do {
        w.changed = false;
        for (uint32_t n = 0; ok && n < b->f->ninst; n++)
            ok = tables_step(&w, &b->f->inst[n]);
    } while (ok && w.changed);
    for (uint32_t n = 0; ok && n < b->f->ninst; n++)
        ok = b->f->inst[n].op != PTX_OP_LD || b->f->inst[n].space != PTX_CONST || loads_table(&w, &b->f->inst[n]);
    free(w.of);
    return ok;
}

/* ---- all bodies together ----------------------------------------------------------------------------------------- */

static bool has_table(const struct rw_body *b, const struct ptx_var *v)
{
    for (uint32_t k = 0; k < b->nconst; k++)
        if (rw_same_table(b->const_var[k], v))
            return true;
    return false;
}

static bool share_one(const struct rw_body *a, const struct rw_body *b)
{
    for (uint32_t k = 0; k < a->nconst; k++)
        if (has_table(b, a->const_var[k]))
            return true;
    return false;
}

/* Bytes of constant memory of the bodies whose tables do not go; far = NULL: of all. */
static uint64_t tables_bytes(const struct rw_cand *c, const bool *far)
{
    uint64_t all = 0;
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        for (uint32_t k = 0; k < c->facts.body[s].nconst && !(far && far[s]); k++) {
            const struct ptx_var *v = c->facts.body[s].const_var[k];
            uint64_t align = v->align ? v->align : 1;
            bool counted = false;
            for (uint32_t t = 0; t < s && !counted; t++)
                counted = !(far && far[t]) && has_table(&c->facts.body[t], v);
            for (uint32_t i = 0; i < k && !counted; i++)
                counted = rw_same_table(c->facts.body[s].const_var[i], v);
            if (!counted)
                all = (all + align - 1) / align * align + v->bytes;
        }
    return all;
}

uint64_t rw_far_tables(const struct rw_cand *c, bool far[RW_BODIES])
{
    memset(far, 0, RW_BODIES * sizeof *far);
    uint64_t all = tables_bytes(c, NULL);
    if (all <= RW_CONST_SPACE)
        return all;
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        far[s] = c->facts.body[s].nconst && may_move(&c->facts.body[s]);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = 0; s < c->facts.nbody; s++)
            for (uint32_t t = 0; t < c->facts.nbody && far[s]; t++)
                if (!far[t] && share_one(&c->facts.body[s], &c->facts.body[t])) {
                    far[s] = false;
                    changed = true;
                }
    }
    return tables_bytes(c, far);
}

bool rw_is_far(const struct rw_cand *c, const bool far[RW_BODIES], const struct ptx_var *v)
{
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        if (far[s] && has_table(&c->facts.body[s], v))
            return true;
    return false;
}
