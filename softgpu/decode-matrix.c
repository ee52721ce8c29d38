/* Decoding of matrix instructions: mma, wmma, ldmatrix, stmatrix, movmatrix. exec-matrix.c has the layouts and the arithmetic.
 *
 * A warp's lanes meet first (a bar.warp.sync of all 32 in front), as these instructions are collectives of the whole warp. What an
 * instruction is made of stands in code->mma: fragments with type, size and registers.
 *
 * Not here: f16 in m8n8k4 (its own layout), fragments of less than a byte in wmma, directed rounding of f64, sparse and block-scaled mma.
 */
#include "softgpu/decode.h"

#include <stdlib.h>

static const struct ptx_opnd *element(const struct ptx_opnd *o, unsigned e) { return o->kind == PTX_O_VEC ? &o->elem[e] : o; }
static unsigned elements(const struct ptx_opnd *o) { return o->kind == PTX_O_VEC ? o->n : 1; }

static void meet(struct sg_dec *d)
{
    uint32_t all = sg_konst(d, SG_ALL, false), x = sg_ext(d, all);
    sg_ext(d, SG_NONE);
    struct sg_op *op = sg_emit(d, sg_collective);
    op->sub = SG_SYNC;
    op->d = SG_NONE;
    op->x = x;
    d->need_bb = true;
}

static int refuse(struct sg_dec *d)
{
    return sg_dec_error(d, DT_E_UNSUPPORTED, "the software device cannot run this form of `%s`", ptx_op_info((enum ptx_op)d->i->op)->mnemonic);
}

/* "m16n8k16" */
static bool shape(const struct ptx_inst *i, unsigned *m, unsigned *n, unsigned *k)
{
    enum ptx_mod s = ptx_mod_of(i, PTX_MC_SHAPE);
    const char *p = s == PTX_M_NONE ? "" : ptx_mod_text(s);
    unsigned *to[3] = {m, n, k};
    for (unsigned x = 0; x < 3; x++) {
        if (*p != "mnk"[x])
            return false;
        char *end;
        *to[x] = (unsigned)strtoul(p + 1, &end, 10);
        p = end;
    }
    return *p == 0;
}

static enum ptx_type reg_type(const struct sg_fragment *f) { return f->type == PTX_F64 ? PTX_B64 : f->type == PTX_F32 ? PTX_F32 : PTX_B32; }

static int take(struct sg_dec *d, const struct ptx_opnd *o, const struct sg_fragment *f, bool write, uint32_t *ref)
{
    if (elements(o) != f->regs)
        return sg_dec_error(d, DT_E_PTX, "a fragment of %u registers where %u are wanted", elements(o), f->regs);
    for (unsigned r = 0; r < f->regs; r++)
        ref[r] = write ? sg_dest(d, element(o, r), reg_type(f)) : sg_source(d, element(o, r), reg_type(f));
    return 0;
}

static bool same_fragment(const struct sg_fragment *a, const struct sg_fragment *b)
{
    return a->role == b->role && a->type == b->type && a->rows == b->rows && a->cols == b->cols && a->regs == b->regs;
}

/* The number of `s` in d->mma: a kernel has few different ones, however many instructions. */
static uint32_t intern(struct sg_dec *d, struct sg_mma s)
{
    for (size_t x = 0; x < d->mma.n; x++) {
        const struct sg_mma *o = &d->mma.p[x];
        if (same_fragment(&o->a, &s.a) && same_fragment(&o->b, &s.b) && same_fragment(&o->c, &s.c) && same_fragment(&o->d, &s.d) &&
            o->bits == s.bits && o->saturate == s.saturate && o->by_column == s.by_column)
            return (uint32_t)x;
    }
    struct sg_fragment *f[4] = {&s.a, &s.b, &s.c, &s.d};
    for (unsigned x = 0; x < 4; x++)
        if (f[x]->regs && !sg_fragment_table(&d->c->arena, f[x]))
            d->nomem = true;
    if (!dt_push(&d->mma, s)) {
        d->nomem = true;
        return 0;
    }
    return (uint32_t)d->mma.n - 1;
}

static bool is_integer(enum ptx_type t) { return t == PTX_S8 || t == PTX_U8 || t == PTX_S4 || t == PTX_U4 || t == PTX_B1; }

static bool goes_together(enum ptx_type a, enum ptx_type b, enum ptx_type c, enum ptx_type dt)
{
    if (is_integer(a))
        return c == PTX_S32 && dt == PTX_S32 && is_integer(b) && sg_matrix_bits(a) == sg_matrix_bits(b);
    if (a == PTX_F64)
        return b == PTX_F64 && c == PTX_F64 && dt == PTX_F64;
    bool fp8 = a == PTX_E4M3 || a == PTX_E5M2, half = a == PTX_F16 || fp8;
    if (a != b && !(fp8 && (b == PTX_E4M3 || b == PTX_E5M2)))
        return false;
    if (!half && a != PTX_BF16 && a != PTX_TF32)
        return false;
    return (c == PTX_F32 || (half && c == PTX_F16)) && (dt == PTX_F32 || (half && dt == PTX_F16));
}

/* Fragment of A or B; wmma keeps f16 in 8 registers whatever its size. Regs 0: it does not divide into tiles. */
static struct sg_fragment factor(enum sg_mat_role role, enum ptx_type t, unsigned rows, unsigned cols, bool wmma)
{
    struct sg_fragment f = sg_fragment(role, t, rows, cols);
    unsigned outer = role == SG_MAT_A ? rows : cols, inner = role == SG_MAT_A ? cols : rows;
    if (outer % 8 || inner % (4 * f.per))
        f.regs = 0;
    else if (wmma && t == PTX_F16)
        f.regs = 8;
    return f;
}

static int mma(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    bool wmma = i->op == PTX_OP_WMMA_MMA;
    unsigned m, n, k;
    if (!shape(i, &m, &n, &k) || (i->ntype != 4 && !(wmma && i->ntype == 2)) || i->nopnd != 4)
        return refuse(d);
    enum ptx_type td = (enum ptx_type)i->type[0], tc = (enum ptx_type)i->type[i->ntype - 1];
    enum ptx_type ta = i->ntype == 2 ? PTX_F16 : (enum ptx_type)i->type[1], tb = i->ntype == 2 ? PTX_F16 : (enum ptx_type)i->type[2];
    enum ptx_mod rnd = ptx_mod_of(i, PTX_MC_RND);
    if (!goes_together(ta, tb, tc, td) || (!wmma && (td == PTX_F16) != (tc == PTX_F16)) || (rnd != PTX_M_NONE && rnd != PTX_M_RN) || m > 32 || n > 32 || k > 256 ||
        (ta == PTX_F64 && (m > 16 || n > 8 || k > 16)))
        return refuse(d);
    if (!wmma && ptx_mod_of(i, PTX_MC_LAYOUT) != PTX_M_ROW_COL)
        return refuse(d);
    struct sg_mma s = {.a = factor(SG_MAT_A, ta, m, k, wmma), .b = factor(SG_MAT_B, tb, k, n, wmma), .c = sg_fragment(SG_MAT_C, tc, m, n),
                       .d = sg_fragment(SG_MAT_C, td, m, n), .saturate = ptx_has(i, PTX_M_SATFINITE)};
    if (ta == PTX_B1) {
        s.bits = ptx_has(i, PTX_M_XOR) ? SG_MAT_XOR : ptx_has(i, PTX_M_AND) ? SG_MAT_AND : SG_MAT_MUL;
        if (s.bits == SG_MAT_MUL)
            return refuse(d);
    }
    if (!s.a.regs || !s.b.regs)
        return refuse(d);
    uint32_t ref[64];
    s.at_a = s.d.regs;
    s.at_b = s.at_a + s.a.regs;
    s.at_c = s.at_b + s.b.regs;
    unsigned total = s.at_c + s.c.regs;
    if (total > sizeof ref / sizeof *ref)
        return refuse(d);
    meet(d);
    int r;
    if ((r = take(d, &i->opnd[1], &s.a, false, ref + s.at_a)) < 0 || (r = take(d, &i->opnd[2], &s.b, false, ref + s.at_b)) < 0 ||
        (r = take(d, &i->opnd[3], &s.c, false, ref + s.at_c)) < 0 || (r = take(d, &i->opnd[0], &s.d, true, ref)) < 0)
        return r;
    uint32_t x = (uint32_t)d->ext.n;
    for (unsigned e = 0; e < total; e++)
        sg_ext(d, ref[e]);
    uint32_t spec = intern(d, s);
    struct sg_op *op = sg_emit(d, sg_mma);
    op->x = spec;
    op->imm = x;
    if (d->bb.n)
        d->bb.p[d->bb.n - 1].count[SG_C_TENSOR] += 2 * m * n * k / SG_LANES;
    return 0;
}

static int wmma_memory(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    bool store = i->op == PTX_OP_WMMA_STORE_D;
    enum sg_mat_role role = i->op == PTX_OP_WMMA_LOAD_A ? SG_MAT_A : i->op == PTX_OP_WMMA_LOAD_B ? SG_MAT_B : SG_MAT_C;
    const struct ptx_opnd *mem = &i->opnd[store ? 0 : 1], *regs = &i->opnd[store ? 1 : 0];
    enum ptx_type t = (enum ptx_type)i->type[0];
    enum ptx_mod layout = ptx_mod_of(i, PTX_MC_LAYOUT);
    unsigned m, n, k, bits = sg_matrix_bits(t);
    if (!shape(i, &m, &n, &k) || bits < 8 || m > 32 || n > 32 || k > 16 || (layout != PTX_M_ROW && layout != PTX_M_COL))
        return refuse(d);
    bool sum = t == PTX_F16 || t == PTX_F32 || t == PTX_S32 || t == PTX_F64;
    struct sg_mma s = {.by_column = layout == PTX_M_COL};
    if (role == SG_MAT_C ? !sum : t == PTX_F32 || t == PTX_S32)
        return refuse(d);
    s.d = role == SG_MAT_C ? sg_fragment(role, t, m, n) : role == SG_MAT_A ? factor(role, t, m, k, true) : factor(role, t, k, n, true);
    s.tiles = s.d.rows * s.d.cols / SG_LANES / s.d.per;
    if (!s.d.regs || s.d.regs > 16)
        return refuse(d);
    meet(d);
    struct sg_address ad;
    uint32_t ref[16];
    int r = sg_decode_address(d, mem, &ad);
    if (r < 0)
        return r;
    uint32_t stride = i->nopnd > 2 ? sg_source(d, &i->opnd[2], PTX_U32) : SG_NONE;
    if ((r = take(d, regs, &s.d, !store, ref)) < 0)
        return r;
    uint32_t x = (uint32_t)d->ext.n;
    for (unsigned e = 0; e < s.d.regs; e++)
        sg_ext(d, ref[e]);
    uint32_t spec = intern(d, s);
    struct sg_op *op = sg_emit(d, store ? sg_wmma_store : sg_wmma_load);
    op->a = ad.a;
    op->imm = ad.imm;
    op->flags |= ad.flags;
    op->b = x;
    op->c = stride;
    op->x = spec;
    op->site = d->nsite++;
    op->size = (uint8_t)(bits / 8);
    op->space = (uint8_t)sg_real_space(d, mem, i->space);
    return 0;
}

static int ldst_matrix(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    bool store = i->op == PTX_OP_STMATRIX;
    const struct ptx_opnd *mem = &i->opnd[store ? 0 : 1], *regs = &i->opnd[store ? 1 : 0];
    unsigned n = ptx_has(i, PTX_M_X4) ? 4 : ptx_has(i, PTX_M_X2) ? 2 : ptx_has(i, PTX_M_X1) ? 1 : 0;
    unsigned space = sg_real_space(d, mem, i->space);
    if (!n || !ptx_has(i, PTX_M_M8N8) || i->ntype != 1 || i->type[0] != PTX_B16 || (space != PTX_SHARED && space != PTX_GENERIC))
        return refuse(d);
    if (elements(regs) != n)
        return sg_dec_error(d, DT_E_PTX, "%u registers for %u matrices", elements(regs), n);
    meet(d);
    struct sg_address ad;
    uint32_t ref[4];
    int r = sg_decode_address(d, mem, &ad);
    if (r < 0)
        return r;
    for (unsigned e = 0; e < n; e++)
        ref[e] = store ? sg_source(d, element(regs, e), PTX_B32) : sg_dest(d, element(regs, e), PTX_B32);
    uint32_t x = (uint32_t)d->ext.n;
    for (unsigned e = 0; e < n; e++)
        sg_ext(d, ref[e]);
    struct sg_op *op = sg_emit(d, store ? sg_stmatrix : sg_ldmatrix);
    op->a = ad.a;
    op->imm = ad.imm;
    op->flags |= ad.flags;
    op->x = x;
    op->site = d->nsite++;
    op->n = (uint8_t)n;
    op->sub = ptx_has(i, PTX_M_TRANS);
    op->space = (uint8_t)space;
    return 0;
}

int sg_decode_matrix(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    switch (i->op) {
    case PTX_OP_MMA:
    case PTX_OP_WMMA_MMA: return mma(d);
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX: return ldst_matrix(d);
    case PTX_OP_MOVMATRIX: {
        if (!ptx_has(i, PTX_M_M8N8) || !ptx_has(i, PTX_M_TRANS))
            return refuse(d);
        meet(d);
        uint32_t a = sg_source(d, &i->opnd[1], PTX_B32), t = sg_dest(d, &i->opnd[0], PTX_B32);
        struct sg_op *op = sg_emit(d, sg_movmatrix);
        op->d = t;
        op->a = a;
        return 0;
    }
    default: return wmma_memory(d);
    }
}
