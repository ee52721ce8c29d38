/* Accesses of more than one piece: which bytes a bulk copy, a copy of a tensor, or a matrix load touches.
 *
 *   BULK     cp.async.bulk, cp.reduce.async.bulk, discard: as many bytes from the address on as an operand says
 *   TENSOR   cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, tiled: the box at the coordinates, clipped at the
 *            tensor's ends, of the map that is one of the launch's arguments. A map from anywhere else is followed no
 *            further: it may name any memory
 *   MATRIX   wmma.load, wmma.store: `lines` lines (rows, or columns) of `line` bytes, a stride apart
 *
 * What BULK and TENSOR touch is known where the numbers are: the instrumented entry logs these (struct ana_logged),
 * log.c reads them. Of a MATRIX each lane records its part, pieces of at most 16 bytes.
 *
 * Prefetches touch nothing. Not followed: .cp_mask, im2col, gather4 and scatter4, interleaved layouts (log.c),
 * fragments whose shape is not known.
 */
#include <stddef.h>
#include <stdlib.h>

#include "analysis/instrument-priv.h"
#include "analysis/taint-priv.h"

unsigned ana_span_operands(const struct ptx_inst *i, const struct ana_site *x, const struct ptx_opnd **ret)
{
    unsigned n = 0;
    switch (x->span) {
    case ANA_SPAN_BULK: ret[n++] = &i->opnd[i->op == PTX_OP_DISCARD ? 1 : 2]; break;
    case ANA_SPAN_TENSOR:
        for (; n < i->opnd[x->opnd].n && n < ANA_LOG_VALUES; n++)
            ret[n] = &i->opnd[x->opnd].elem[n];
        break;
    case ANA_SPAN_MATRIX:
        if (i->nopnd > 2)
            ret[n++] = &i->opnd[2];
        break;
    case ANA_SPAN_NONE: break;
    }
    return n;
}

/* Lines of a fragment in memory and their bytes. */
static bool matrix(const struct ptx_inst *i, struct ana_site *x)
{
    enum ptx_mod shape = ptx_mod_of(i, PTX_MC_SHAPE), layout = ptx_mod_of(i, PTX_MC_LAYOUT);
    const char *p = shape == PTX_M_NONE ? "" : ptx_mod_text(shape);
    unsigned size[3], bits = ptx_type_bytes(i->type[0]) * 8;
    for (unsigned k = 0; k < 3; k++) {
        char *end;
        if (*p != "mnk"[k])
            return false;
        size[k] = (unsigned)strtoul(p + 1, &end, 10);
        p = end;
    }
    if (*p || (layout != PTX_M_ROW && layout != PTX_M_COL))
        return false;
    if (i->type[0] == PTX_S4 || i->type[0] == PTX_U4)
        bits = 4;
    else if (i->type[0] == PTX_B1)
        bits = 1;
    unsigned rows = i->op == PTX_OP_WMMA_LOAD_B ? size[2] : size[0],
             cols = i->op == PTX_OP_WMMA_LOAD_A ? size[2] : size[1];
    x->lines = layout == PTX_M_ROW ? rows : cols;
    x->line = (layout == PTX_M_ROW ? cols : rows) * bits / 8;
    x->element_bits = bits;
    x->bytes = bits == 64 ? 8 : x->line < 16 ? x->line : 16;
    return x->bytes && !(x->bytes & (x->bytes - 1)) && x->line % x->bytes == 0 && x->lines * x->line / x->bytes <= 128;
}

/* The argument that is the tensor map at `prov`, or UINT32_MAX. */
static uint32_t map_of(const struct ana_taint_state *s, const struct ptx_opnd *o, const uint64_t *prov)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t b = 0; b <= s->unknown; b++)
        if (has_bit(prov, b)) {
            if (found != UINT32_MAX || b >= s->f->nparam || b >= s->in->nparam || !s->in->arg ||
                s->in->arg[b].kind != DT_ARG_TENSOR_MAP)
                return UINT32_MAX;
            found = b;
        }
    return o->off ? UINT32_MAX : found;
}

static bool is_number(const struct ana_taint_state *s, const struct ptx_opnd *o)
{
    return o->kind == PTX_O_IMM || (o->kind == PTX_O_REG && !o->neg && s->f->reg[o->reg].type != PTX_PRED &&
                                    ptx_type_bytes(s->f->reg[o->reg].type) == 4);
}

void ana_span_find(struct ana_taint_state *s, const struct ptx_inst *i, struct ana_site *x, uint64_t *prov)
{
    const struct ptx_opnd *o = &i->opnd[x->opnd], *v[ANA_LOG_VALUES];
    switch (i->op) {
    case PTX_OP_CP_ASYNC_BULK:
    case PTX_OP_CP_REDUCE_ASYNC_BULK:
        x->span = i->nopnd > 2 && !ptx_has(i, PTX_M_CP_MASK) ? ANA_SPAN_BULK : ANA_SPAN_NONE;
        break;
    case PTX_OP_DISCARD: x->span = i->nopnd > 1 ? ANA_SPAN_BULK : ANA_SPAN_NONE; break;
    case PTX_OP_CP_ASYNC_BULK_TENSOR:
    case PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR: {
        enum ptx_mod mode = ptx_mod_of(i, PTX_MC_TILE);
        x->fp_atomic |= x->atomic; /* the type is the map's */
        if (map_of(s, o, prov) == UINT32_MAX) {
            memset(prov, 0, s->words * sizeof *prov); /* it may be any memory, and the map itself is read */
            x->reads = true;
        } else if (mode == PTX_M_NONE || mode == PTX_M_TILE) {
            x->span = ANA_SPAN_TENSOR;
        }
        break;
    }
    case PTX_OP_WMMA_LOAD_A:
    case PTX_OP_WMMA_LOAD_B:
    case PTX_OP_WMMA_LOAD_C:
    case PTX_OP_WMMA_STORE_D: x->span = matrix(i, x) ? ANA_SPAN_MATRIX : ANA_SPAN_NONE; break;
    default: return;
    }
    bool ok =
        x->span != ANA_SPAN_NONE && o->kind == PTX_O_ADDR && (o->base_kind == PTX_O_REG || o->base_kind == PTX_O_VAR);
    unsigned n = ok ? ana_span_operands(i, x, v) : 0;
    for (unsigned k = 0; k < n; k++) {
        ok &= is_number(s, v[k]);
        if (v[k]->kind == PTX_O_REG && s->reg[v[k]->reg] > x->address)
            x->address = s->reg[v[k]->reg];
        if (ana_binding_bits(s, v[k]))
            x->address = DATA;
    }
    if (!ok) {
        x->span = ANA_SPAN_NONE;
        x->bytes = 0;
    }
}

/* ---- recording --------------------------------------------------------------------------------------------------- */
static const char *name(const struct ana_instr *s, const struct ana_copy *c, uint32_t r)
{
    return s->f->reg[c && c->to[r] != PTX_NO_REG ? c->to[r] : r].name;
}

/* %ana_x = a number. */
static int number(struct ana_instr *s, const struct ana_copy *c, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_IMM)
        EMIT(s, "mov.u32 %%ana_x, %d;", (int)(int32_t)(uint32_t)o->bits);
    else
        EMIT(s, "mov.b32 %%ana_x, %s;", name(s, c, o->reg));
    return 0;
}

/* %ana_a = the address of the operand. */
static int address_of_operand(struct ana_instr *s, const struct ana_copy *c, const struct ptx_opnd *o)
{
    if (o->base_kind == PTX_O_REG)
        EMIT(s, "add.s64 %%ana_a, %s, %lld;", name(s, c, o->reg), (long long)o->off);
    else
        EMIT(s, "mov.u64 %%ana_a, %s; add.s64 %%ana_a, %%ana_a, %lld;", o->var->name, (long long)o->off);
    return 0;
}

static int log_it(struct ana_instr *s, uint32_t k, const struct ana_copy *c, uint32_t skip)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = &s->old[x->inst];
    const struct ptx_opnd *o = &i->opnd[x->opnd], *v[ANA_LOG_VALUES];
    unsigned n = ana_span_operands(i, x, v);
    EMIT(s,
         "@!%%ana_in bra $ana_s%u; ld.global.u64 %%ana_w, [" ANA_CTL
         "+%u]; setp.eq.u64 %%ana_p, %%ana_w, 0; @%%ana_p bra $ana_s%u;",
         skip, (unsigned)offsetof(struct ana_ctl, log), skip);
    if (x->span == ANA_SPAN_TENSOR) { /* how far it is from the argument that it should be */
        EMIT(s, "mov.u64 %%ana_a, 0;");
        if (o->base_kind == PTX_O_REG)
            EMIT(s, "mov.b64 %%ana_b, %s; cvta.param.u64 %%ana_b, %%ana_b; sub.s64 %%ana_a, %s, %%ana_b;",
                 s->f->param[x->params[0]]->name, name(s, c, o->reg));
    } else {
        int rc = address_of_operand(s, c, o);
        if (rc)
            return rc;
    }
    EMIT(s,
         "atom.global.add.u64 %%ana_o, [%%ana_w], 1; ld.global.u64 %%ana_e, [%%ana_w+8]; setp.ge.u64 %%ana_p, %%ana_o, "
         "%%ana_e;"
         "@%%ana_p bra $ana_s%u; mad.lo.s64 %%ana_w, %%ana_o, %u, %%ana_w; st.global.u32 [%%ana_w+16], %u; "
         "st.global.u32 [%%ana_w+20], %%ana_blk;"
         "st.global.u64 [%%ana_w+24], %%ana_a;",
         skip, (unsigned)sizeof(struct ana_logged), k);
    for (unsigned q = 0; q < ANA_LOG_VALUES; q++) {
        int rc = q < n ? number(s, c, v[q]) : ptx_append_text(s->f, s->e, "mov.u32 %%ana_x, 0;");
        if (rc)
            return rc;
        EMIT(s, "st.global.u32 [%%ana_w+%u], %%ana_x;", 32 + 4 * q);
    }
    for (unsigned q = 0; q < 3; q++)
        EMIT(s, "mov.u32 %%ana_x, %%tid.%c; st.global.u32 [%%ana_w+%u], %%ana_x;", "xyz"[q],
             32 + 4 * (ANA_LOG_VALUES + q));
    return 0;
}

/* Each lane's pieces: number lane, lane + 32, … of all; lines from 0 on, in each from its beginning on. */
static int pieces(struct ana_instr *s, uint32_t k, const struct ana_copy *c, enum ana_mode mode, uint32_t skip)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = &s->old[x->inst];
    const struct ptx_opnd *v[ANA_LOG_VALUES];
    unsigned n = ana_span_operands(i, x, v), per = x->line / x->bytes, all = x->lines * per;
    for (unsigned at = 0; at < all; at += 32) {
        uint32_t next = s->label++;
        int rc = 0;
        if (n)
            rc = number(s, c, v[0]);
        else
            EMIT(s, "mov.u32 %%ana_x, %u;", x->line * 8 / x->element_bits);
        if (rc)
            return rc;
        EMIT(s,
             "mov.u32 %%ana_y, %%laneid; add.u32 %%ana_y, %%ana_y, %u; setp.ge.u32 %%ana_p, %%ana_y, %u; @%%ana_p bra "
             "$ana_s%u;"
             "div.u32 %%ana_m, %%ana_y, %u; mul.lo.u32 %%ana_k, %%ana_m, %u; sub.u32 %%ana_k, %%ana_y, %%ana_k;"
             "mul.wide.u32 %%ana_o, %%ana_x, %u; shr.u64 %%ana_o, %%ana_o, 3; cvt.u64.u32 %%ana_w, %%ana_m; mul.lo.u64 "
             "%%ana_o, %%ana_o, %%ana_w;"
             "mul.wide.u32 %%ana_w, %%ana_k, %u; add.u64 %%ana_o, %%ana_o, %%ana_w;",
             at, all, next, per, per, x->element_bits, x->bytes);
        rc = address_of_operand(s, c, &i->opnd[x->opnd]);
        if (rc)
            return rc;
        EMIT(s,
             "add.u64 %%ana_a, %%ana_a, %%ana_o; and.b64 %%ana_w, %%ana_a, %u; setp.eq.u64 %%ana_p, %%ana_w, 0; "
             "@%%ana_p bra $ana_q%u;"
             "red.global.or.b32 [%%ana_err+28], %u; bra $ana_s%u; $ana_q%u:",
             x->bytes - 1, next, ANA_OVER_LOG, skip, next);
        rc = ana_emit_record(s, k, mode, next);
        if (rc)
            return rc;
        EMIT(s, "$ana_s%u:", next);
    }
    return 0;
}

int ana_span_emit(struct ana_instr *s, uint32_t k, const struct ana_copy *c, enum ana_mode mode, uint32_t skip)
{
    return s->code->sites.site[k].span == ANA_SPAN_MATRIX ? pieces(s, k, c, mode, skip) : log_it(s, k, c, skip);
}
