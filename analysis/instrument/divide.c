/* Divisions that a compiler has made multiplications of.
 *
 * x / D by a constant is compiled to the high part of x * M, shifted right by k (for signed x, plus the sign bit of
 * that product). Row and column of a thread's element are such quotients, and a summary can take a quotient apart
 * (form.c) but not a product's high part. In the copy that is instrumented, the last instruction of such a row becomes
 * a division again where the numbers prove that it is one for every x (Granlund, Montgomery: "Division by invariant
 * integers using multiplication", 1994), with p = 32 + k, e = M * D - 2^p:
 *     unsigned   mul.hi.u32 a, x, M; shr.u32 q, a, k        0 <= e <= 2^k
 *                mul.wide.u32 a, x, M; shr.u64 b, a, p; cvt.u32.u64 q, b
 *     signed     mul.hi.s32 a, x, M; shr.u32 s, a, 31; shr.s32 b, a, k; add.s32 q, b, s     M > 0, 0 < e <= 2^(k+1)
 * All in one straight run, nothing of it predicated, x not written between.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/instrument/instrument-priv.h"
#include "base/alloc.h"

struct look {
    struct ptx_function *f;
    uint32_t *def; /* per register: instruction + 1 of this run that wrote it last */
    uint32_t at;
};

static void write_reg(uint32_t r, bool write, void *user)
{
    struct look *k = user;
    if (write)
        k->def[r] = k->at + 1;
}

/* The instruction of this run that defines register operand o, if it is `op` on `bytes` bytes with `mod` (or none). */
static const struct ptx_inst *made_by(const struct look *k, const struct ptx_opnd *o, enum ptx_op op, enum ptx_mod mod,
                                      unsigned bytes)
{
    if (o->kind != PTX_O_REG || o->neg || !k->def[o->reg])
        return NULL;
    const struct ptx_inst *i = &k->f->inst[k->def[o->reg] - 1];
    bool mods = mod ? i->nmod == 1 && ptx_has(i, mod) : !i->nmod;
    return i->op == op && mods && i->pred == PTX_NO_REG && i->nopnd == 3 && ptx_type_bytes(i->type[0]) == bytes &&
                   i->opnd[1].kind == PTX_O_REG && !i->opnd[1].neg && i->opnd[2].kind == PTX_O_IMM && !i->opnd[2].neg
               ? i
               : NULL;
}

/* Was register r last written before instruction i, and is `i` the last to write what it writes? */
static bool still(const struct look *k, uint32_t r, const struct ptx_inst *i)
{
    return k->def[r] <= (uint32_t)(i - k->f->inst);
}

/* The divisor, 0: it is no division. */
static uint64_t divisor(uint64_t m, unsigned p, bool sign)
{
    if (m < 3 || p < 32 || p > 62 || m >> (sign ? 31 : 32))
        return 0;
    uint64_t two = UINT64_C(1) << p, d = (two + m - 1) / m, e = m * d - two;
    bool good = sign ? e > 0 && e <= UINT64_C(1) << (p - 31) : e <= UINT64_C(1) << (p - 32);
    return good && d >= 2 && d <= INT32_MAX ? d : 0;
}

static bool become(struct look *k, struct ptx_inst *i, const struct ptx_opnd *x, uint64_t d, bool sign)
{
    struct ptx_opnd *o = dt_new_array(&k->f->module->arena, struct ptx_opnd, 3);
    if (!o)
        return false;
    o[0] = i->opnd[0];
    o[1] = *x;
    o[2] = (struct ptx_opnd){.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64, .bits = d};
    i->op = PTX_OP_DIV;
    i->nopnd = 3;
    i->nmod = 0;
    i->ntype = 1;
    i->type[0] = sign ? PTX_S32 : PTX_U32;
    i->opnd = o;
    return true;
}

static bool try(struct look *k, struct ptx_inst *i)
{
    const struct ptx_inst *m, *b, *s;
    uint64_t d = 0;
    if (i->pred != PTX_NO_REG || i->nmod || i->nopnd < 2 || i->opnd[0].kind != PTX_O_REG)
        return true;
    if (i->op == PTX_OP_SHR && i->ntype == 1 && i->type[0] == PTX_U32 && i->opnd[2].kind == PTX_O_IMM) {
        m = made_by(k, &i->opnd[1], PTX_OP_MUL, PTX_M_HI, 4);
        if (m && m->type[0] == PTX_U32 && i->opnd[2].bits < 31 && still(k, m->opnd[1].reg, m) &&
            (d = divisor((uint32_t)m->opnd[2].bits, 32 + (unsigned)i->opnd[2].bits, false)))
            return become(k, i, &m->opnd[1], d, false);
    } else if (i->op == PTX_OP_CVT && i->ntype == 2 && i->type[0] == PTX_U32 && i->type[1] == PTX_U64) {
        b = made_by(k, &i->opnd[1], PTX_OP_SHR, PTX_M_NONE, 8);
        m = b && b->type[0] == PTX_U64 ? made_by(k, &b->opnd[1], PTX_OP_MUL, PTX_M_WIDE, 4) : NULL;
        if (m && m < b && m->type[0] == PTX_U32 && b->opnd[2].bits < 63 && still(k, m->opnd[1].reg, m) &&
            (d = divisor((uint32_t)m->opnd[2].bits, (unsigned)b->opnd[2].bits, false)))
            return become(k, i, &m->opnd[1], d, false);
    } else if (i->op == PTX_OP_ADD && i->ntype == 1 && ptx_type_bytes(i->type[0]) == 4 &&
               !ptx_type_is_float(i->type[0])) {
        for (unsigned q = 1; q < 3; q++) {
            const struct ptx_opnd *x = &i->opnd[q], *y = &i->opnd[3 - q];
            unsigned by = 0;
            s = made_by(k, x, PTX_OP_SHR, PTX_M_NONE, 4);
            if (!s || s->type[0] != PTX_U32 || s->opnd[2].bits != 31 || y->kind != PTX_O_REG || y->neg)
                continue;
            b = made_by(k, y, PTX_OP_SHR, PTX_M_NONE, 4);
            if (b && b->type[0] == PTX_S32 && b->opnd[2].bits < 30 && b->opnd[1].reg == s->opnd[1].reg)
                by = (unsigned)b->opnd[2].bits;
            else if (y->reg == s->opnd[1].reg)
                b = NULL;
            else
                continue;
            m = made_by(k, &s->opnd[1], PTX_OP_MUL, PTX_M_HI, 4);
            if (m && m < s && (!b || m < b) && m->type[0] == PTX_S32 && still(k, m->opnd[1].reg, m) &&
                (int64_t)m->opnd[2].bits > 0 && (d = divisor(m->opnd[2].bits, 32 + by, true)))
                return become(k, i, &m->opnd[1], d, true);
        }
    }
    return true;
}

int ana_divide(struct ptx_function *f)
{
    struct look k = {f, dt_calloc((size_t)f->nreg + 1, sizeof *k.def), 0};
    bool ok = k.def != NULL;
    for (; ok && k.at < f->ninst; k.at++) {
        struct ptx_inst *i = &f->inst[k.at];
        if (i->op < PTX_OP_OPAQUE) {
            memset(k.def, 0, f->nreg * sizeof *k.def);
            continue;
        }
        ok = try(&k, i);
        ptx_inst_regs(i, write_reg, &k);
    }
    free(k.def);
    return ok ? 0 : DT_E_NOMEM;
}
