/* Decoding of matrix instructions: mma, wmma, ldmatrix, stmatrix, movmatrix. exec/matrix.c has the layouts and the
 * arithmetic.
 *
 * A warp's lanes meet first (a bar.warp.sync of all 32 in front), as these instructions are collectives of the whole
 * warp; once for those of a basic block, which runs with the lanes that it began with. The fragments of an
 * instruction (type, size, registers) are in code->mma.
 *
 * Not here: sparse wgmma, block-scaled mma.
 */
#include "softgpu/decode/decode-priv.h"

#include <stdlib.h>

static const struct ptx_opnd *element(const struct ptx_opnd *o, unsigned e)
{
    return o->kind == PTX_O_VEC ? &o->elem[e] : o;
}
static unsigned elements(const struct ptx_opnd *o) { return o->kind == PTX_O_VEC ? o->n : 1; }

static void meet(struct sg_dec *d)
{
    if (d->met && d->met == d->bb.n && !d->need_bb)
        return;
    uint32_t all = sg_konst(d, SG_ALL, false), x = sg_ext(d, all);
    sg_ext(d, SG_NONE);
    struct sg_op *op = sg_emit(d, sg_collective);
    op->sub = SG_SYNC;
    op->d = SG_NONE;
    op->x = x;
    d->need_bb = true;
    d->met = d->i->pred == PTX_NO_REG ? d->bb.n + 1 : 0;
}

static int matrix_refuse(struct sg_dec *d)
{
    return sg_dec_error(d, DT_E_UNSUPPORTED, "the software device cannot run this form of `%s`",
                        ptx_op_info((enum ptx_op)d->i->op)->mnemonic);
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

static enum ptx_type reg_type(const struct sg_fragment *f)
{
    return f->type == PTX_F64 ? PTX_B64 : f->type == PTX_F32 ? PTX_F32 : PTX_B32;
}

static int matrix_take(struct sg_dec *d, const struct ptx_opnd *o, const struct sg_fragment *f, bool write,
                       uint32_t *ref)
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
        if (same_fragment(&o->a, &s.a) && same_fragment(&o->b, &s.b) && same_fragment(&o->c, &s.c) &&
            same_fragment(&o->d, &s.d) && o->tiles.bits == s.tiles.bits && o->saturate == s.saturate &&
            o->by_column == s.by_column && o->tiles.negate_a == s.tiles.negate_a &&
            o->tiles.negate_b == s.tiles.negate_b && o->sparse == s.sparse && o->ordered == s.ordered &&
            o->selector == s.selector && o->rnd == s.rnd && o->quads == s.quads && o->col_a == s.col_a &&
            o->col_b == s.col_b)
            return (uint32_t)x;
    }
    if (!s.b.regs && !sg_fragment_table(&d->c->arena, &s.d)) /* a load or store */
        d->nomem = true;
    if (!dt_push(&d->mma, s)) {
        d->nomem = true;
        return 0;
    }
    return (uint32_t)d->mma.n - 1;
}

static bool is_integer(enum ptx_type t)
{
    return t == PTX_S8 || t == PTX_U8 || t == PTX_S4 || t == PTX_U4 || t == PTX_B1;
}

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

/* The shapes of §9.7.14.2: A has 128 or 256 bits in a row, but for f64; wmma has its own. */
static bool shape_exists(bool wmma, enum ptx_type t, unsigned m, unsigned n, unsigned k)
{
    unsigned bits = k * sg_matrix_bits(t);
    if (!bits || t == PTX_F32 || t == PTX_S32)
        return false;
    bool small = t == PTX_S4 || t == PTX_U4 || t == PTX_B1;
    if (t == PTX_F64)
        return n == 8 && ((m == 8 && k == 4) || (!wmma && m == 16 && (k == 4 || k == 8 || k == 16)));
    if (!wmma)
        return n == 8 && ((m == 16 && (bits == 128 || bits == 256)) || (m == 8 && is_integer(t) && bits == 128));
    if (small)
        return m == 8 && n == 8 && bits == 128;
    if (t == PTX_TF32)
        return m == 16 && n == 16 && k == 8;
    return t != PTX_E4M3 && t != PTX_E5M2 && k == 16 && m * n == 256 && (m == 8 || m == 16 || m == 32);
}

/* C or D of a wmma of this shape */
static bool sum_exists(enum ptx_type t, unsigned m, unsigned n, unsigned k)
{
    static const enum ptx_type of[][2] = {{PTX_F16, PTX_F16}, {PTX_F32, PTX_F16}, {PTX_F32, PTX_TF32},
                                          {PTX_S32, PTX_S8},  {PTX_S32, PTX_S4},  {PTX_S32, PTX_B1},
                                          {PTX_F64, PTX_F64}};
    for (unsigned x = 0; x < sizeof of / sizeof *of; x++)
        if (of[x][0] == t && shape_exists(true, of[x][1], m, n, k))
            return true;
    return false;
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

/* Sparse: some types only, and as many selectors as there are places for the metadata of a row. */
static bool sparse_exists(const struct ptx_inst *i, enum ptx_type t, unsigned m, unsigned k)
{
    unsigned bits = sg_matrix_bits(t), half = k / 2 * bits; /* 128 or 256 */
    unsigned places = bits >= 16 ? (half == 128 ? 4 : 2) : (half == 128 ? 2 : 1);
    bool fp8 = t == PTX_E4M3 || t == PTX_E5M2;
    return m == 16 && t != PTX_F64 && t != PTX_B1 && !(fp8 && half == 128) && i->opnd[5].kind == PTX_O_IMM &&
           i->opnd[5].bits < places;
}

/* The rest of what an mma of this shape is; false: there is none such. */
static bool mma_form(const struct ptx_inst *i, bool wmma, struct sg_mma *ret)
{
    unsigned m, n, k;
    bool sparse = i->op == PTX_OP_MMA_SP || i->op == PTX_OP_MMA_SP_ORDERED;
    if (!shape(i, &m, &n, &k) || (i->ntype != 4 && !(wmma && i->ntype == 2)) || i->nopnd != (sparse ? 6 : 4))
        return false;
    enum ptx_type td = (enum ptx_type)i->type[0], tc = (enum ptx_type)i->type[i->ntype - 1];
    enum ptx_type ta = i->ntype == 2 ? PTX_F16 : (enum ptx_type)i->type[1],
                  tb = i->ntype == 2 ? PTX_F16 : (enum ptx_type)i->type[2];
    enum ptx_mod rnd = ptx_mod_of(i, PTX_MC_RND), layout = ptx_mod_of(i, PTX_MC_LAYOUT);
    struct sg_mma s = {.saturate = ptx_has(i, PTX_M_SATFINITE),
                       .tiles = {.a = ta, .b = tb, .high = m / 8, .wide = n / 8}};
    s.sparse = sparse;
    s.ordered = i->op == PTX_OP_MMA_SP_ORDERED;
    s.quads = !wmma && !sparse && ta == PTX_F16 && ptx_has(i, PTX_M_M8N8K4);
    if (!goes_together(ta, tb, tc, td) || (!s.quads && !shape_exists(wmma, ta, m, n, sparse ? k / 2 : k)) ||
        (sparse && !sparse_exists(i, ta, m, k)) || (!wmma && !s.quads && layout != PTX_M_ROW_COL) ||
        layout == PTX_M_NONE || (!wmma && !s.quads && td != tc) || (wmma && ta != tb))
        return false;
    if (rnd != PTX_M_NONE) {
        if (ta != PTX_F64)
            return false;
        s.rnd = rnd == PTX_M_RN ? SG_RN : rnd == PTX_M_RZ ? SG_RZ : rnd == PTX_M_RM ? SG_RM : SG_RP;
    }
    s.c = sg_fragment(SG_MAT_C, tc, m, n);
    s.d = sg_fragment(SG_MAT_C, td, m, n);
    if (s.quads) {
        s.a = s.b = (struct sg_fragment){.type = PTX_F16, .per = 2, .regs = 2};
        s.c.regs = tc == PTX_F16 ? 4 : 8;
        s.d.regs = td == PTX_F16 ? 4 : 8;
        s.col_a = layout == PTX_M_COL_ROW || layout == PTX_M_COL_COL;
        s.col_b = layout == PTX_M_ROW_COL || layout == PTX_M_COL_COL;
        *ret = s;
        return true;
    }
    s.a = factor(SG_MAT_A, ta, m, sparse ? k / 2 : k, wmma);
    s.selector = sparse ? (unsigned)i->opnd[5].bits : 0;
    s.b = factor(SG_MAT_B, tb, k, n, wmma);
    if (ta == PTX_B1) {
        s.tiles.bits = ptx_has(i, PTX_M_XOR) ? SG_MAT_XOR : ptx_has(i, PTX_M_AND) ? SG_MAT_AND : SG_MAT_MUL;
        if (s.tiles.bits == SG_MAT_MUL || !ptx_has(i, PTX_M_POPC))
            return false;
    }
    s.tiles.steps = k / (4 * s.b.per);
    s.tiles.per = ta == PTX_B1 ? 1 : s.a.per;
    *ret = s;
    return s.a.regs && s.b.regs;
}

static int mma(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    struct sg_mma s;
    if (!mma_form(i, i->op == PTX_OP_WMMA_MMA, &s))
        return matrix_refuse(d);
    uint32_t ref[SG_MMA_REGS];
    s.at_a = s.d.regs;
    s.at_b = s.at_a + s.a.regs;
    s.at_c = s.at_b + s.b.regs;
    unsigned total = s.at_c + s.c.regs;
    if (total > sizeof ref / sizeof *ref)
        return matrix_refuse(d);
    meet(d);
    int r;
    if ((r = matrix_take(d, &i->opnd[1], &s.a, false, ref + s.at_a)) < 0 ||
        (r = matrix_take(d, &i->opnd[2], &s.b, false, ref + s.at_b)) < 0 ||
        (r = matrix_take(d, &i->opnd[3], &s.c, false, ref + s.at_c)) < 0 ||
        (r = matrix_take(d, &i->opnd[0], &s.d, true, ref)) < 0)
        return r;
    if (s.sparse)
        ref[total++] = sg_source(d, &i->opnd[4], PTX_B32);
    uint32_t x = (uint32_t)d->ext.n;
    for (unsigned e = 0; e < total; e++)
        sg_ext(d, ref[e]);
    uint32_t spec = intern(d, s);
    struct sg_op *op = sg_emit(d, sg_mma);
    op->x = spec;
    op->imm = x;
    if (d->bb.n)
        d->bb.p[d->bb.n - 1].count[SG_C_TENSOR] += s.quads ? 64 : 2 * s.a.rows * s.a.cols * s.b.cols / SG_LANES;
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
    bool c = role == SG_MAT_C, by_column = layout == PTX_M_COL;
    if (!shape(i, &m, &n, &k) || (layout != PTX_M_ROW && !by_column) ||
        !(c ? sum_exists(t, m, n, k) : shape_exists(true, t, m, n, k)) || (bits < 8 && by_column != (role == SG_MAT_B)))
        return matrix_refuse(d);
    /* elements of less than a byte lie along K, and count as words of 32 bits here */
    struct sg_mma s = {.by_column = by_column};
    unsigned pack = bits < 8 ? 32 / bits : 1;
    if (bits < 8)
        t = PTX_S32;
    s.d = c                  ? sg_fragment(role, t, m, n)
          : role == SG_MAT_A ? factor(role, t, m, k / pack, true)
                             : factor(role, t, k / pack, n, true);
    s.copies = s.d.rows * s.d.cols / SG_LANES / s.d.per;
    if (!s.d.regs || s.d.regs > 16)
        return matrix_refuse(d);
    meet(d);
    struct sg_address ad;
    uint32_t ref[16];
    int r = sg_decode_address(d, mem, &ad);
    if (r < 0)
        return r;
    uint32_t stride = i->nopnd > 2 ? sg_source(d, &i->opnd[2], PTX_U32) : SG_NONE;
    if ((r = matrix_take(d, regs, &s.d, !store, ref)) < 0)
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
    op->size = (uint8_t)(pack > 1 ? 4 : bits / 8);
    op->n = (uint8_t)pack;
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
    if (!n || !ptx_has(i, PTX_M_M8N8) || i->ntype != 1 || i->type[0] != PTX_B16 ||
        (space != PTX_SHARED && space != PTX_GENERIC))
        return matrix_refuse(d);
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

/* ---- wgmma (§9.7.15). The warps of a warpgroup meet in the operation itself. */
static bool wgmma_shape_exists(enum ptx_type t, unsigned m, unsigned n, unsigned k)
{
    bool f = t == PTX_F16 || t == PTX_BF16 || t == PTX_TF32 || t == PTX_E4M3 || t == PTX_E5M2,
         i = t == PTX_S8 || t == PTX_U8 || t == PTX_B1;
    return m == 64 && n >= 8 && n <= 256 && n % 8 == 0 && k * sg_matrix_bits(t) == 256 &&
           (f || (i && (n <= 32 || n % 16 == 0)));
}

static bool sign_of(const struct ptx_opnd *o, bool *ret_minus)
{
    *ret_minus = (int64_t)o->bits == -1;
    return o->bits == 1 || *ret_minus;
}

/* d, a or a-desc, b-desc, scale-d [, sign of A, sign of B [, trans-a where A is in memory, trans-b]] */
static bool wgmma_form(const struct ptx_inst *i, struct sg_mma *ret)
{
    unsigned m, n, k;
    if (!shape(i, &m, &n, &k) || i->ntype != 3 || i->nopnd < 4)
        return false;
    enum ptx_type td = (enum ptx_type)i->type[0], ta = (enum ptx_type)i->type[1], tb = (enum ptx_type)i->type[2];
    struct sg_mma s = {.saturate = ptx_has(i, PTX_M_SATFINITE),
                       .tiles = {.a = ta, .b = tb, .high = 2, .wide = n / 8, .steps = 2}};
    bool memory = i->opnd[1].kind != PTX_O_VEC, half = ta == PTX_F16 || ta == PTX_BF16;
    if (!goes_together(ta, tb, td, td) || !wgmma_shape_exists(ta, m, n, k) ||
        (is_integer(ta) && ta != PTX_B1 && tb != PTX_S8 && tb != PTX_U8))
        return false;
    unsigned want = 4;
    if (!is_integer(ta)) {
        want = half ? 7 + memory : 6;
        if (i->nopnd != want || !sign_of(&i->opnd[4], &s.tiles.negate_a) || !sign_of(&i->opnd[5], &s.tiles.negate_b))
            return false;
        for (unsigned o = 6; o < want; o++)
            if (i->opnd[o].bits > 1)
                return false;
        s.col_a = half && memory && i->opnd[6].bits;
        s.col_b = half && i->opnd[want - 1].bits;
    }
    if (ta == PTX_B1) {
        s.tiles.bits = SG_MAT_AND;
        if (!ptx_has(i, PTX_M_AND) || !ptx_has(i, PTX_M_POPC))
            return false;
    }
    s.a = sg_fragment(SG_MAT_A, ta, 16, k);
    s.b = sg_fragment(SG_MAT_B, tb, k, n);
    s.c = s.d = sg_fragment(SG_MAT_C, td, 16, n);
    s.tiles.per = ta == PTX_B1 ? 1 : s.a.per;
    if (memory)
        s.a.regs = 0;
    *ret = s;
    return i->nopnd == want;
}

static int wgmma(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    struct sg_mma s;
    if (!wgmma_form(i, &s))
        return matrix_refuse(d);
    const struct ptx_opnd *from = &i->opnd[1];
    if (from->kind != PTX_O_VEC &&
        (from->kind != PTX_O_REG || ptx_type_bytes((enum ptx_type)d->f->reg[from->reg].type) != 8))
        return sg_dec_error(d, DT_E_PTX, "A of wgmma is neither a vector nor a 64-bit matrix descriptor");
    uint32_t ref[SG_WGMMA_REGS], a = SG_NONE;
    bool neg = false;
    int r;
    s.at_a = s.d.regs;
    meet(d);
    if (i->opnd[1].kind == PTX_O_VEC) {
        if ((r = matrix_take(d, &i->opnd[1], &s.a, false, ref + s.at_a)) < 0)
            return r;
    } else {
        a = sg_source(d, &i->opnd[1], PTX_B64);
    }
    uint32_t b = sg_source(d, &i->opnd[2], PTX_B64), p = sg_pred(d, &i->opnd[3], &neg);
    if ((r = matrix_take(d, &i->opnd[0], &s.d, true, ref)) < 0)
        return r;
    uint32_t x = (uint32_t)d->ext.n;
    for (unsigned e = 0; e < s.at_a + s.a.regs; e++)
        sg_ext(d, ref[e]);
    uint32_t spec = intern(d, s);
    struct sg_op *op = sg_emit(d, sg_wgmma);
    op->x = spec;
    op->imm = x;
    op->a = a;
    op->b = b;
    op->c = p;
    op->flags = neg ? SG_C_NOT : 0;
    op->space = PTX_SHARED;
    d->need_bb = true;
    if (d->bb.n) {
        struct sg_bb *bb = &d->bb.p[d->bb.n - 1];
        bb->count[SG_C_TENSOR] += 2 * 64 * s.b.rows * s.b.cols / 128;
        bb->count[SG_C_SHARED] += (s.b.cols + (a == SG_NONE ? 0 : 64)) * 32 / 128;
    }
    return 0;
}

int sg_decode_matrix(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    switch (i->op) {
    case PTX_OP_MMA:
    case PTX_OP_MMA_SP:
    case PTX_OP_MMA_SP_ORDERED:
    case PTX_OP_WMMA_MMA: return mma(d);
    case PTX_OP_WGMMA_MMA_ASYNC: return wgmma(d);
    case PTX_OP_WGMMA_FENCE: /* products are done at once: these only make the warp meet */ meet(d); return 0;
    case PTX_OP_WGMMA_COMMIT: meet(d); return sg_decode_check(d, SG_CO_COMMIT, SG_BY_WGMMA, 0);
    case PTX_OP_WGMMA_WAIT:
        meet(d);
        return sg_decode_check(d, SG_CO_WAIT, SG_BY_WGMMA, i->opnd[0].kind == PTX_O_IMM ? i->opnd[0].bits : 0);
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX: return ldst_matrix(d);
    case PTX_OP_MOVMATRIX: {
        if (!ptx_has(i, PTX_M_M8N8) || !ptx_has(i, PTX_M_TRANS))
            return matrix_refuse(d);
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
