/* Spans in an instrumented entry (span.c says what they are): code that logs a bulk copy or a copy of a tensor, whose
 * numbers are known only there, as a struct ana_logged; and code with which each lane of a matrix load records its part
 * of the lines, in pieces of at most 16 bytes.
 */
#include <stddef.h>

#include "analysis/instrument/instrument-priv.h"

static const char *span_name(const struct ana_instr *s, const struct ana_copy *c, uint32_t r)
{
    return s->f->reg[c && c->to[r] != PTX_NO_REG ? c->to[r] : r].name;
}

/* %ana_x = a number. */
static int span_number(struct ana_instr *s, const struct ana_copy *c, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_IMM)
        EMIT(s, "mov.u32 %%ana_x, %d;", (int)(int32_t)(uint32_t)o->bits);
    else
        EMIT(s, "mov.b32 %%ana_x, %s;", span_name(s, c, o->reg));
    return 0;
}

/* %ana_a = the address of the operand. */
static int address_of_operand(struct ana_instr *s, const struct ana_copy *c, const struct ptx_opnd *o)
{
    if (o->base_kind == PTX_O_REG)
        EMIT(s, "add.s64 %%ana_a, %s, %lld;", span_name(s, c, o->reg), (long long)o->off);
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
                 s->f->param[x->params[0]]->name, span_name(s, c, o->reg));
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
        int rc = q < n ? span_number(s, c, v[q]) : ptx_append_text(s->f, s->e, "mov.u32 %%ana_x, 0;");
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
            rc = span_number(s, c, v[0]);
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
