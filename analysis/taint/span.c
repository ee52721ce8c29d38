/* Spans: sites that touch more than one piece of memory, or a number of bytes that is not in the instruction.
 *
 *   BULK     cp.async.bulk, cp.reduce.async.bulk, discard: as many bytes from the address on as an operand says.
 *            Example: cp.async.bulk … [%dst], [%src], 4096, … reads 4096 bytes
 *   TENSOR   cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, tiled: the box at the coordinates, clipped at the ends
 *            of the tensor, whose map is one of the launch's arguments. A map from anywhere else is not followed: it
 *            may name any memory
 *   MATRIX   wmma.load, wmma.store: `lines` lines (rows or columns) of `line` bytes, a stride apart
 *
 * This file recognises spans and says which operands their size depends on; a size that depends on data makes the
 * address depend on data. How many bytes a BULK or TENSOR site touches is known only while the entry runs:
 * instrument/span.c logs the numbers, record/log.c makes bytes of them.
 *
 * Prefetches touch nothing. Not followed: .cp_mask, im2col, gather4 and scatter4, interleaved layouts (record/log.c),
 * fragments whose shape is not known.
 */
#include <stdlib.h>

#include "analysis/taint/taint-priv.h"

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
static uint32_t span_map_of(const struct ana_taint_state *s, const struct ptx_opnd *o, const uint64_t *prov)
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
        if (span_map_of(s, o, prov) == UINT32_MAX) {
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
