/* Code that records one access, whose address is in %ana_a or in a register of the entry.
 *
 * There are three ways. Native: a call of __dovetail_touch. Slow: a search of the table of buffers, bounds, then the
 * bit in a whole or paged bitmap. Fast: for sites of one width that most likely go to the same table entry (a group),
 * the entry's limits and key are in registers; an access inside sets its bit with a subtraction and a shift, and any
 * other goes the slow way, which stands behind the end of the entry (rebuild.c).
 */
#include "analysis/instrument/instrument-priv.h"

#include <stdio.h>
#include <string.h>

/* Where the table search for a site begins. */
static uint32_t emit_start(const struct ana_instr *s, const struct ana_site *x)
{
    return x->nparams && s->hint && x->params[0] < s->nhint ? s->hint[x->params[0]] : 0;
}

bool ana_is_exact(const struct ana_instr *s, uint32_t k)
{
    return !s->code->wide[k] && !s->ahead[k] && !s->code->ghost[k] && !s->code->sites.site[k].span;
}

/* Group of site k, or ngroup. */
uint32_t ana_group_of(const struct ana_instr *s, uint32_t k)
{
    const struct ana_site *x = &s->code->sites.site[k];
    uint32_t g = 0;
    while (g < s->ngroup && (s->group[g].at != emit_start(s, x) || s->group[g].bytes != x->bytes))
        g++;
    return ana_is_exact(s, k) ? g : s->ngroup;
}

void ana_group_sites(struct ana_instr *s)
{
    const uint32_t most = sizeof s->group / sizeof *s->group;
    for (uint32_t k = 0; k < s->code->sites.nsite; k++)
        if (ana_is_exact(s, k) && ana_group_of(s, k) == s->ngroup && s->ngroup < most)
            s->group[s->ngroup++] =
                (struct ana_group){emit_start(s, &s->code->sites.site[k]), s->code->sites.site[k].bytes};
}

/* What only the table search needs: a slice, which seldom comes to that, loads it there. */
int ana_emit_slow_prologue(struct ana_instr *s)
{
    EMIT(s, "ld.global.u32 %%ana_k, [" ANA_CTL "+40]; sub.s32 %%ana_y, %%ana_blk, %%ana_k;"
            "ld.global.u32 %%ana_k, [" ANA_CTL "+44]; setp.lt.u32 %%ana_in, %%ana_y, %%ana_k;"
            "ld.global.u32 %%ana_n0, [" ANA_CTL "+48]; ld.global.u32 %%ana_cs, [" ANA_CTL "+52];"
            "ld.global.u32 %%ana_mk, [" ANA_CTL "+56]; ld.global.u32 %%ana_ps, [" ANA_CTL "+60];"
            "ld.global.u64 %%ana_pg, [" ANA_CTL "+64]; setp.ne.u64 %%ana_paged, %%ana_pg, 0;");
    return 0;
}

static int set_bits(struct ana_instr *s, uint32_t k, uint32_t skip)
{
    const struct ana_code *c = s->code;
    const struct ana_site *x = &c->sites.site[k];
    uint64_t mask = (UINT64_C(1) << (x->bytes >> c->shift)) - 1;
    uint32_t id = s->label++;
    EMIT(s,
         "add.s64 %%ana_o, %%ana_o, %%ana_s; shr.u64 %%ana_o, %%ana_o, %u; add.s64 %%ana_o, %%ana_o, %%ana_b;"
         "shr.u64 %%ana_o, %%ana_o, %%ana_cs; cvt.u32.u64 %%ana_k, %%ana_o; and.b32 %%ana_k, %%ana_k, 31;"
         "and.b32 %%ana_m, %%ana_mk, %u; shl.b32 %%ana_m, %%ana_m, %%ana_k; @%%ana_paged bra $ana_p%u;"
         "shr.u64 %%ana_o, %%ana_o, 5; shl.b64 %%ana_o, %%ana_o, 2; add.s64 %%ana_o, %%ana_o, %%ana_rec;",
         c->shift, (unsigned)(uint32_t)mask, id);
    for (unsigned paged = 0; paged < 2; paged++) {
        if (paged) /* e: place in the directory; o: offset in the page; n: bytes of a page */
            EMIT(s,
                 "bra $ana_s%u; $ana_p%u: shr.u64 %%ana_e, %%ana_o, %%ana_ps; shl.b64 %%ana_w, %%ana_e, %%ana_ps;"
                 "sub.s64 %%ana_o, %%ana_o, %%ana_w; shr.u64 %%ana_o, %%ana_o, 5; shl.b64 %%ana_o, %%ana_o, 2;"
                 "add.s64 %%ana_o, %%ana_o, %%ana_pg; shl.b64 %%ana_e, %%ana_e, 2; add.s64 %%ana_e, %%ana_e, %%ana_rec;"
                 "mov.u32 %%ana_n, 1; shl.b32 %%ana_n, %%ana_n, %%ana_ps; shr.u32 %%ana_n, %%ana_n, 3;",
                 skip, id);
        for (unsigned q = 0; q < ANA_KINDS; q++) {
            int plane = c->plane[q][ana_evidence_of(s, k, q)];
            if (!(c->kinds[k] >> q & 1))
                continue;
            EMIT(s, "mul.lo.s64 %%ana_w, %%ana_pl, %d; add.s64 %%ana_w, %%ana_w, %s;", plane,
                 paged ? "%ana_e" : "%ana_o");
            if (paged)
                EMIT(s, "ld.global.u32 %%ana_x, [%%ana_w]; mul.wide.u32 %%ana_w, %%ana_x, %%ana_n;"
                        "add.s64 %%ana_w, %%ana_w, %%ana_o;");
            EMIT(s, "red.global.or.b32 [%%ana_w], %%ana_m;");
        }
    }
    return 0;
}

static const unsigned touch_how[] = {
    [ANA_EXACT] = DOVETAIL_TOUCH_RECORD, [ANA_BOUNDS] = DOVETAIL_TOUCH_BOUNDS, [ANA_AHEAD] = DOVETAIL_TOUCH_AHEAD};

/* Site k, whose address is in register `reg` + off, by the device's own recorder, where predicate `pred` of the
 * function or PTX_NO_REG holds. */
int ana_emit_touch(struct ana_instr *s, uint32_t k, enum ana_mode mode, uint32_t pred, bool neg, const char *reg,
                   int64_t off)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = &s->old[x->inst];
    bool generic = i->space == PTX_GENERIC && x->opnd == (uint8_t)ptx_op_info(i->op)->addr_opnd;
    bool aligned = s->slice.keep && x->bytes > 1;
    const char *at = pred == PTX_NO_REG ? ""
                     : neg              ? "@!"
                                        : "@",
               *guard = pred == PTX_NO_REG ? "" : s->f->reg[pred].name;
    EMIT(s, "%s%s call " DOVETAIL_TOUCH ", (%s, %lld, %u, %u);", at, guard, reg, (long long)off, k,
         touch_how[mode] + (generic ? DOVETAIL_TOUCH_GENERIC : 0) + (aligned ? DOVETAIL_TOUCH_ALIGNED : 0));
    return 0;
}

/* Record site k; its address is in %ana_a. skip: number of the label behind. */
int ana_emit_record(struct ana_instr *s, uint32_t k, enum ana_mode mode, uint32_t skip)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = &s->old[x->inst];
    uint32_t id = s->label++, at = emit_start(s, x);
    char out[32];
    if (s->native)
        return ana_emit_touch(s, k, mode, PTX_NO_REG, false, "%ana_a", 0);
    if (s->slice.keep && ana_emit_slow_prologue(s))
        return DT_E_NOMEM;
    snprintf(out, sizeof out, mode == ANA_AHEAD ? "$ana_s%u" : "$ana_fault", skip);
    if (i->space == PTX_GENERIC && x->opnd == (uint8_t)ptx_op_info(i->op)->addr_opnd) {
        EMIT(s,
             "isspacep.shared%s %%ana_p, %%ana_a; @%%ana_p bra $ana_s%u; isspacep.local %%ana_p, %%ana_a; @%%ana_p bra "
             "$ana_s%u;",
             s->clusters ? "::cluster" : "", skip, skip);
        if (s->t->param_address)
            EMIT(s, "isspacep.param %%ana_p, %%ana_a; @%%ana_p bra $ana_s%u;", skip);
    }
    if (at)
        EMIT(s, "add.s64 %%ana_e, %%ana_tab, %u;", at * (unsigned)sizeof(struct ana_tab));
    else
        EMIT(s, "mov.u64 %%ana_e, %%ana_tab;");
    EMIT(s,
         "mov.u32 %%ana_site, %u; mov.u32 %%ana_n, %%ana_n0; $ana_l%u: ld.global.u64 %%ana_b, [%%ana_e];"
         "ld.global.u64 %%ana_s, [%%ana_e+8]; sub.s64 %%ana_o, %%ana_a, %%ana_b; setp.lt.u64 %%ana_p, %%ana_o, %%ana_s;"
         "@%%ana_p bra $ana_f%u; add.s64 %%ana_e, %%ana_e, %u; add.s32 %%ana_n, %%ana_n, -1;"
         "setp.ne.u32 %%ana_p, %%ana_n, 0; @%%ana_p bra $ana_l%u; bra %s;",
         k + 1, id, id, (unsigned)sizeof(struct ana_tab), id, out);
    EMIT(s, "$ana_f%u: add.s64 %%ana_w, %%ana_o, %u; setp.gt.u64 %%ana_p, %%ana_w, %%ana_s; @%%ana_p bra %s;", id,
         x->bytes ? x->bytes : 1, out);
    if (mode == ANA_BOUNDS && x->writes) /* a recorded write is looked at when it is read back */
        EMIT(s, "ld.global.u32 %%ana_x, [%%ana_e+28]; setp.ne.u32 %%ana_p, %%ana_x, 0; @%%ana_p bra $ana_fault;");
    if (mode == ANA_BOUNDS)
        return 0;
    EMIT(s,
         "@!%%ana_in bra $ana_s%u; ld.global.u64 %%ana_b, [%%ana_e+16]; ld.global.u32 %%ana_x, [%%ana_e+24];"
         "cvt.u64.u32 %%ana_s, %%ana_x;"
         "setp.eq.u64 %%ana_p, %%ana_b, -1; @%%ana_p bra $ana_s%u;",
         skip, skip);
    return set_bits(s, k, skip);
}

/* %ana_a = the address of site k. */
int ana_emit_address(struct ana_instr *s, uint32_t k)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_opnd *o = &s->old[x->inst].opnd[x->opnd];
    if (o->base_kind == PTX_O_REG)
        EMIT(s, "add.s64 %%ana_a, %s, %lld;", s->f->reg[o->reg].name, (long long)o->off);
    else
        EMIT(s, "mov.u64 %%ana_a, %s; add.s64 %%ana_a, %%ana_a, %lld;", o->var->name, (long long)o->off);
    return 0;
}

/* Record site k, whose address is in %ana_a, by the table; in a slice, misaligned ones are faults. */
int ana_record_slow(struct ana_instr *s, uint32_t k, enum ana_mode mode, uint32_t skip)
{
    uint32_t bytes = s->code->sites.site[k].bytes;
    if (s->slice.keep && bytes > 1 && !s->native)
        EMIT(s,
             "mov.u32 %%ana_site, %u; and.b64 %%ana_w, %%ana_a, %u; setp.ne.u64 %%ana_p, %%ana_w, 0;"
             "@%%ana_p bra $ana_fault;",
             k + 1, bytes - 1);
    return ana_emit_record(s, k, mode, skip);
}

/* The same where the bitmaps are whole and the buffer is the one that the argument points to; else it goes to a slow
 * way of its own. Group g. */
int ana_record_fast(struct ana_instr *s, uint32_t k, uint32_t g, uint32_t skip)
{
    const struct ptx_opnd *o = &s->old[s->code->sites.site[k].inst].opnd[s->code->sites.site[k].opnd];
    bool plain = o->base_kind == PTX_O_REG && !o->off;
    const char *a = plain ? s->f->reg[o->reg].name : "%ana_a";
    const struct ana_code *c = s->code;
    const struct ana_site *x = &c->sites.site[k];
    uint64_t mask = (UINT64_C(1) << (x->bytes >> c->shift)) - 1;
    s->slow[s->nslow++] = (struct ana_slow){k, skip};
    if (!plain) {
        int rc = ana_emit_address(s, k);
        if (rc)
            return rc;
    }
    EMIT(s, "sub.s64 %%ana_o, %s, %%ana_gb%u; setp.ge.u64 %%ana_p, %%ana_o, %%ana_gl%u;", a, g, g);
    if (s->slice.keep && x->bytes > 1)
        EMIT(s, "and.b64 %%ana_w, %s, %u; setp.ne.or.u64 %%ana_p, %%ana_w, 0, %%ana_p;", a, x->bytes - 1);
    EMIT(s,
         "@%%ana_p bra $ana_w%u; sub.s64 %%ana_o, %s, %%ana_gk%u; shr.u64 %%ana_o, %%ana_o, %u;"
         "cvt.u32.u64 %%ana_k, %%ana_o; shf.l.wrap.b32 %%ana_m, 0, %u, %%ana_k;"
         "shr.u32 %%ana_k, %%ana_k, 5;",
         skip, a, g, c->shift, (unsigned)(uint32_t)mask);
    for (unsigned q = 0; q < ANA_KINDS; q++)
        if (c->kinds[k] >> q & 1)
            EMIT(s, "mad.wide.u32 %%ana_w, %%ana_k, 4, %%ana_r%d; red.global.or.b32 [%%ana_w], %%ana_m;",
                 c->plane[q][ana_evidence_of(s, k, q)]);
    return 0;
}

static void rename_operand(struct ana_copy *c, struct ptx_opnd *o)
{
    if ((o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG)) && c->to[o->reg] != PTX_NO_REG)
        o->reg = c->to[o->reg];
    for (unsigned k = 0; o->kind == PTX_O_VEC && k < o->n; k++)
        rename_operand(c, &o->elem[k]);
}

static void fresh_copy(uint32_t r, bool write, void *user)
{
    struct ana_copy *c = user;
    if (write && c->to[r] == PTX_NO_REG)
        c->to[r] = ptx_reg_new(c->s->f, c->s->f->reg[r].type, "ana_h");
}

int ana_emit_copy(struct ana_instr *s, struct ana_copy *c, uint32_t at)
{
    struct ptx_inst i = s->old[at];
    struct dt_arena *a = &s->code->arena;
    struct ptx_opnd *o = dt_new_array(a, struct ptx_opnd, (size_t)i.nopnd + 1);
    if (!o)
        return DT_E_NOMEM;
    memcpy(o, i.opnd, i.nopnd * sizeof *o);
    for (unsigned k = 0; k < i.nopnd; k++)
        if (o[k].kind == PTX_O_VEC && o[k].n) {
            struct ptx_opnd *v = dt_new_array(a, struct ptx_opnd, o[k].n);
            if (!v)
                return DT_E_NOMEM;
            memcpy(v, o[k].elem, o[k].n * sizeof *v);
            o[k].elem = v;
        }
    i.opnd = o;
    if (i.pred != PTX_NO_REG && c->to[i.pred] != PTX_NO_REG)
        i.pred = c->to[i.pred];
    ptx_inst_regs(&s->old[at], fresh_copy, c);
    for (unsigned k = 0; k < i.nopnd; k++)
        rename_operand(c, &o[k]);
    return ptx_append(s->f, i) ? 0 : DT_E_NOMEM;
}
