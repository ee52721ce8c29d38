/* The entry again, with recording in it: what stands at its begin, before and after each of its instructions, and
 * behind its end.
 *
 * begin     numbers of this block, addresses of bitmaps and table; memory that must not be read unwritten is filled
 *           with ANA_POISON
 * before    accesses that are recorded ahead (hoist.c), loops that are walked (walk.c), ghosts (ghost.c), the access of
 *           the instruction itself (emit.c), or a check of its bounds
 * after     of a load that is watched: whether it met ANA_POISON
 * end       the slow ways, and the place where a fault is written down
 */
#include "analysis/instrument/instrument-priv.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/alloc.h"

static int group_prologue(struct ana_instr *s)
{
    for (uint32_t g = 0; g < s->ngroup; g++) {
        unsigned at = s->group[g].at * (unsigned)sizeof(struct ana_tab);
        EMIT(s,
             ".reg .b64 %%ana_gb%u, %%ana_gl%u, %%ana_gk%u; ld.global.u64 %%ana_gb%u, [%%ana_tab+%u];"
             "ld.global.u64 %%ana_gl%u, [%%ana_tab+%u]; ld.global.u64 %%ana_gk%u, [%%ana_tab+%u];"
             "sub.s64 %%ana_gl%u, %%ana_gl%u, %u; max.s64 %%ana_gl%u, %%ana_gl%u, 0;",
             g, g, g, g, at, g, at + (unsigned)offsetof(struct ana_tab, fast), g,
             at + (unsigned)offsetof(struct ana_tab, key), g, g, s->group[g].bytes - 1, g, g);
    }
    for (unsigned q = 0; q < s->code->nplane && s->ngroup; q++)
        EMIT(s, ".reg .b64 %%ana_r%u; mad.lo.s64 %%ana_r%u, %%ana_pl, %u, %%ana_rec;", q, q, q);
    return 0;
}

static int prologue(struct ana_instr *s)
{
    EMIT(s, ".reg .b64 %%ana_rec, %%ana_tab, %%ana_err, %%ana_pl, %%ana_a, %%ana_b, %%ana_s, %%ana_e, %%ana_o, "
            "%%ana_w, %%ana_pg;"
            ".reg .b32 %%ana_left, %%ana_n0, %%ana_n, %%ana_blk, %%ana_x, %%ana_y, %%ana_m, %%ana_k, %%ana_site, "
            "%%ana_cs, %%ana_mk, %%ana_ps;"
            ".reg .pred %%ana_in, %%ana_p, %%ana_paged;");
    if (s->ghosts)
        EMIT(s,
             "mov.u32 %%ana_x, %%ntid.x; mov.u32 %%ana_y, %%ntid.y; mul.lo.s32 %%ana_x, %%ana_x, %%ana_y;"
             "mov.u32 %%ana_y, %%ntid.z; mul.lo.s32 %%ana_x, %%ana_x, %%ana_y; cvt.u64.u32 %%ana_o, %%ana_x;"
             "mov.u32 %%ana_x, %%nctaid.x; mov.u32 %%ana_y, %%nctaid.y; mul.wide.u32 %%ana_w, %%ana_x, %%ana_y;"
             "mov.u32 %%ana_y, %%nctaid.z; cvt.u64.u32 %%ana_e, %%ana_y; mul.lo.s64 %%ana_w, %%ana_w, %%ana_e;"
             "mul.lo.s64 %%ana_o, %%ana_o, %%ana_w; mov.u64 %%ana_w, %u; div.u64 %%ana_w, %%ana_w, %%ana_o;"
             "max.u64 %%ana_w, %%ana_w, %u; min.u64 %%ana_w, %%ana_w, %u; cvt.u32.u64 %%ana_left, %%ana_w;",
             1u << 25, 1u << 12, 1u << 20);
    if (s->native && !s->code->logs) { /* only ghosts and loads that are watched have something to say by memory */
        if (s->code->talks)
            EMIT(s, "ld.global.u64 %%ana_err, [" ANA_CTL "+16];");
        return 0;
    }
    EMIT(s, "mov.u32 %%ana_x, %%nctaid.y; mov.u32 %%ana_y, %%ctaid.z; mov.u32 %%ana_k, %%ctaid.y;"
            "mad.lo.s32 %%ana_blk, %%ana_y, %%ana_x, %%ana_k;"
            "mov.u32 %%ana_x, %%nctaid.x; mov.u32 %%ana_y, %%ctaid.x;"
            "mad.lo.s32 %%ana_blk, %%ana_blk, %%ana_x, %%ana_y;");
    EMIT(s, "ld.global.u64 %%ana_rec, [" ANA_CTL "]; ld.global.u64 %%ana_tab, [" ANA_CTL "+8];"
            "ld.global.u64 %%ana_err, [" ANA_CTL "+16]; ld.global.u64 %%ana_a, [" ANA_CTL "+24];"
            "ld.global.u64 %%ana_pl, [" ANA_CTL "+32]; ld.global.u32 %%ana_x, [" ANA_CTL "+40];");
    EMIT(s, "sub.s32 %%ana_y, %%ana_blk, %%ana_x; cvt.u64.u32 %%ana_b, %%ana_y;"
            "mad.lo.s64 %%ana_rec, %%ana_b, %%ana_a, %%ana_rec;");
    if (!s->slice.keep && ana_emit_slow_prologue(s))
        return DT_E_NOMEM;
    return group_prologue(s);
}

/* Memory whose content is believed, but that may be read before it is written, begins as ANA_POISON. */
static int rebuild_fill(struct ana_instr *s)
{
    bool shared = false;
    if (!s->t->nfill)
        return 0;
    EMIT(s, "mov.u32 %%ana_x, %%tid.z; mov.u32 %%ana_y, %%ntid.y; mov.u32 %%ana_m, %%tid.y;"
            "mad.lo.s32 %%ana_x, %%ana_x, %%ana_y, %%ana_m; mov.u32 %%ana_site, %%ntid.x; mov.u32 %%ana_m, %%tid.x;"
            "mad.lo.s32 %%ana_x, %%ana_x, %%ana_site, %%ana_m; mul.lo.s32 %%ana_y, %%ana_y, %%ana_site;"
            "mov.u32 %%ana_m, %%ntid.z; mul.lo.s32 %%ana_y, %%ana_y, %%ana_m;");
    for (uint32_t k = 0; k < s->t->nfill; k++) {
        const struct ptx_var *v = s->t->fill[k];
        bool mine = v->space == PTX_LOCAL;
        uint32_t id = s->label++;
        shared |= !mine;
        EMIT(s, "mov.u64 %%ana_a, %s;", v->name);
        if (v->bytes)
            EMIT(s, "mov.u32 %%ana_k, %u;", (unsigned)v->bytes);
        else
            EMIT(s, "mov.u32 %%ana_k, %%dynamic_smem_size;");
        EMIT(s,
             "mov.u32 %%ana_site, %u; mov.u32 %%ana_m, %s; $ana_i%u: setp.ge.u32 %%ana_p, %%ana_m, %%ana_k;"
             "@%%ana_p bra $ana_j%u; cvt.u64.u32 %%ana_o, %%ana_m; add.s64 %%ana_o, %%ana_o, %%ana_a;"
             "st.%s.u8 [%%ana_o], %%ana_site; add.s32 %%ana_m, %%ana_m, %s; bra $ana_i%u; $ana_j%u:",
             ANA_POISON, mine ? "0" : "%ana_x", id, id, mine ? "local" : "shared", mine ? "1" : "%ana_y", id, id);
    }
    if (shared)
        EMIT(s, "bar.sync 0;");
    return 0;
}

/* After load `at`: has it met memory that nothing wrote? Then say so. */
static int watch(struct ana_instr *s, uint32_t at)
{
    const struct ptx_inst *i = &s->old[at];
    unsigned piece = s->t->watch[at], bytes = ptx_type_bytes(i->type[0]);
    uint64_t poison = ANA_POISON * UINT64_C(0x0101010101010101) >> (64 - 8 * piece);
    uint32_t skip = s->label++;
    if (i->pred != PTX_NO_REG)
        EMIT(s, "@%s%s bra $ana_s%u;", i->pred_neg ? "" : "!", s->f->reg[i->pred].name, skip);
    const struct ptx_opnd *o = i->opnd[0].kind == PTX_O_VEC ? i->opnd[0].elem : i->opnd;
    for (unsigned k = 0; k < (i->opnd[0].kind == PTX_O_VEC ? i->opnd[0].n : 1u); k++) {
        if (o[k].kind != PTX_O_REG || s->t->reg[o[k].reg] == ANA_DATA_DEPENDENT)
            continue;
        const struct ptx_reg *r = &s->f->reg[o[k].reg];
        switch (ptx_type_bytes(r->type)) {
        case 2: EMIT(s, "mov.b32 %%ana_k, {%s, %s}; cvt.u64.u32 %%ana_o, %%ana_k;", r->name, r->name); break;
        case 4: EMIT(s, "mov.b32 %%ana_k, %s; cvt.u64.u32 %%ana_o, %%ana_k;", r->name); break;
        default: EMIT(s, "mov.b64 %%ana_o, %s;", r->name);
        }
        for (unsigned q = 0; q < bytes; q += piece) {
            EMIT(s, "shr.u64 %%ana_w, %%ana_o, %u; and.b64 %%ana_w, %%ana_w, %lld; setp.eq.u64 %%ana_p, %%ana_w, %lld;",
                 8 * q, (long long)(UINT64_MAX >> (64 - 8 * piece)), (long long)poison);
            EMIT(s, "@%%ana_p red.global.or.b32 [%%ana_err+28], %u;", ANA_OVER_UNWRITTEN);
        }
    }
    EMIT(s, "$ana_s%u:", skip);
    return 0;
}

static int epilogue(struct ana_instr *s)
{
    if (s->native)
        return 0;
    EMIT(s, "ret; $ana_fault: atom.global.cas.b32 %%ana_k, [%%ana_err], 0, %%ana_site;"
            "setp.ne.u32 %%ana_p, %%ana_k, 0; @%%ana_p bra $ana_quit;"
            "st.global.u32 [%%ana_err+4], %%ana_blk; st.global.u64 [%%ana_err+8], %%ana_a;"
            "mov.u32 %%ana_x, %%tid.x; st.global.u32 [%%ana_err+16], %%ana_x;"
            "mov.u32 %%ana_x, %%tid.y; st.global.u32 [%%ana_err+20], %%ana_x;"
            "mov.u32 %%ana_x, %%tid.z; st.global.u32 [%%ana_err+24], %%ana_x;"
            "$ana_quit: exit;");
    return 0;
}

/* The slow ways. */
static int slow(struct ana_instr *s)
{
    EMIT(s, "ret;");
    for (uint32_t i = 0; i < s->nslow; i++) {
        uint32_t k = s->slow[i].site, skip = s->slow[i].label;
        EMIT(s, "$ana_w%u:", skip);
        int rc = ana_emit_address(s, k);
        if (!rc)
            rc = ana_record_slow(s, k, ANA_EXACT, skip);
        if (rc)
            return rc;
        EMIT(s, "bra $ana_s%u;", skip);
    }
    return 0;
}

static const char *reg_name(const struct ana_instr *s, uint32_t r) { return s->f->reg[r].name; }

/* Site k has no width that is followed: a bulk copy is checked at its first and last byte, so that it does not go to a
 * buffer that is none of this launch's; the rest of it, and anything else, is the device's to check. */
static int bounds_of_copy(struct ana_instr *s, uint32_t k)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = &s->old[x->inst];
    const struct ptx_opnd *o = &i->opnd[x->opnd], *size = i->nopnd > 2 ? &i->opnd[2] : NULL;
    uint32_t skip = s->label++;
    if ((i->op != PTX_OP_CP_ASYNC_BULK && i->op != PTX_OP_CP_REDUCE_ASYNC_BULK) || o->kind != PTX_O_ADDR || !size ||
        (o->base_kind != PTX_O_REG && o->base_kind != PTX_O_VAR) ||
        (size->kind != PTX_O_REG && size->kind != PTX_O_IMM) || s->slice.keep)
        return 0;
    if (i->pred != PTX_NO_REG)
        EMIT(s, "@%s%s bra $ana_s%u;", i->pred_neg ? "" : "!", reg_name(s, i->pred), skip);
    if (size->kind == PTX_O_REG)
        EMIT(s, "setp.eq.u32 %%ana_p, %s, 0; @%%ana_p bra $ana_s%u;", reg_name(s, size->reg), skip);
    int rc = ana_emit_address(s, k);
    if (!rc)
        rc = ana_emit_record(s, k, ANA_BOUNDS, skip);
    if (!rc)
        rc = ana_emit_address(s, k);
    if (!rc && size->kind == PTX_O_REG)
        rc = ptx_append_text(s->f, s->e, "cvt.u64.u32 %%ana_w, %s; add.s64 %%ana_a, %%ana_a, %%ana_w;",
                             reg_name(s, size->reg));
    else if (!rc)
        rc = ptx_append_text(s->f, s->e, "add.s64 %%ana_a, %%ana_a, %u;", (unsigned)(uint32_t)size->bits);
    if (!rc)
        rc = ptx_append_text(s->f, s->e, "add.s64 %%ana_a, %%ana_a, -1;");
    if (!rc)
        rc = ana_emit_record(s, k, ANA_BOUNDS, skip);
    if (!rc)
        rc = ptx_append_text(s->f, s->e, "$ana_s%u:", skip);
    return rc;
}

/* Site k, a span, where it happens. */
static int span_here(struct ana_instr *s, uint32_t k)
{
    const struct ptx_inst *i = &s->old[s->code->sites.site[k].inst];
    int rc = bounds_of_copy(s, k);
    if (rc || s->code->wide[k] || s->ahead[k])
        return rc;
    uint32_t skip = s->label++;
    if (i->pred != PTX_NO_REG)
        EMIT(s, "@%s%s bra $ana_s%u;", i->pred_neg ? "" : "!", reg_name(s, i->pred), skip);
    if (s->slice.keep && ana_emit_slow_prologue(s))
        return DT_E_NOMEM;
    rc = ana_span_emit(s, k, NULL, ANA_EXACT, skip);
    return rc ? rc : ptx_append_text(s->f, s->e, "$ana_s%u:", skip);
}

/* Site k, where it happens. */
static int record_here(struct ana_instr *s, uint32_t k)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = &s->old[x->inst];
    if (x->opnd == 0xFF)
        return 0; /* widened; the device checks it */
    if (x->span)
        return span_here(s, k);
    if (!x->bytes)
        return bounds_of_copy(s, k);
    const struct ptx_opnd *o = &i->opnd[x->opnd], *source = ptx_cp_async_source(i);
    enum ana_mode mode = ana_is_exact(s, k) ? ANA_EXACT : ANA_BOUNDS;
    uint32_t skip = s->label++;
    if (o->kind != PTX_O_ADDR || o->base_kind == PTX_O_NONE)
        return dt_err_set(s->e, DT_E_UNSUPPORTED, "%s, PTX line %u: an absolute address", s->f->name, i->line);
    if (s->native && o->base_kind == PTX_O_REG && !source)
        return ana_emit_touch(s, k, mode, i->pred, i->pred_neg, reg_name(s, o->reg), o->off);
    if (i->pred != PTX_NO_REG)
        EMIT(s, "@%s%s bra $ana_s%u;", i->pred_neg ? "" : "!", reg_name(s, i->pred), skip);
    if (source && source->kind == PTX_O_REG) { /* size, or ignore */
        if (s->f->reg[source->reg].type == PTX_PRED)
            EMIT(s, "@%s%s bra $ana_s%u;", source->neg ? "!" : "", reg_name(s, source->reg), skip);
        else
            EMIT(s, "setp.eq.u32 %%ana_p, %s, 0; @%%ana_p bra $ana_s%u;", reg_name(s, source->reg), skip);
    } else if (source && source->kind == PTX_O_IMM && !source->bits) {
        EMIT(s, "bra $ana_s%u;", skip);
    }
    uint32_t g = ana_group_of(s, k);
    int rc = g < s->ngroup ? ana_record_fast(s, k, g, skip) : ana_emit_address(s, k);
    if (!rc && g >= s->ngroup)
        rc = ana_record_slow(s, k, mode, skip);
    if (rc)
        return rc;
    EMIT(s, "$ana_s%u:", skip);
    return 0;
}

/* Site k, before the branch that data decides. */
static int record_ahead(struct ana_instr *s, uint32_t k)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ana_hoist *h = &s->hoist[k];
    const struct ptx_opnd *o = &s->old[x->inst].opnd[x->opnd];
    uint32_t nreg = s->f->nreg, skip = s->label++;
    struct ana_copy c = {s, dt_reallocarray(NULL, (size_t)nreg + 1, sizeof *c.to)};
    int rc = c.to ? 0 : DT_E_NOMEM;
    for (uint32_t r = 0; r < nreg && c.to; r++)
        c.to[r] = PTX_NO_REG;
    for (uint32_t q = 0; q < h->nslice && !rc; q++)
        rc = ana_emit_copy(s, &c, h->slice[q]);
    for (uint32_t q = 0; q < h->ncond && !rc; q++) {
        uint32_t r = c.to[h->cond[q].reg] != PTX_NO_REG ? c.to[h->cond[q].reg] : h->cond[q].reg;
        rc = ptx_append_text(s->f, s->e, "@%s%s bra $ana_s%u;", h->cond[q].neg ? "" : "!", reg_name(s, r), skip);
    }
    if (!rc && x->span) {
        rc = ana_span_emit(s, k, &c, ANA_AHEAD, skip);
        free(c.to);
        return rc ? rc : ptx_append_text(s->f, s->e, "$ana_s%u:", skip);
    }
    if (!rc && o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG) {
        uint32_t r = c.to[o->reg] != PTX_NO_REG ? c.to[o->reg] : o->reg;
        rc = ptx_append_text(s->f, s->e, "add.s64 %%ana_a, %s, %lld;", reg_name(s, r), (long long)o->off);
    } else if (!rc && o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR) {
        rc = ptx_append_text(s->f, s->e, "mov.u64 %%ana_a, %s; add.s64 %%ana_a, %%ana_a, %lld;", o->var->name,
                             (long long)o->off);
    }
    free(c.to);
    if (!rc)
        rc = ana_emit_record(s, k, ANA_AHEAD, skip);
    if (!rc)
        rc = ptx_append_text(s->f, s->e, "$ana_s%u:", skip);
    return rc;
}

/* The function again, with recording in it. */
int ana_rebuild(struct ana_instr *s)
{
    const struct ana_sites *v = &s->code->sites;
    s->old = s->f->inst;
    s->nold = s->f->ninst;
    s->f->inst = NULL;
    s->f->ninst = s->f->inst_cap = 0;
    /* sites to record before each instruction: a list through `next`, by site number + 1 */
    uint32_t *head = dt_new_array(&s->code->arena, uint32_t, (size_t)s->nold + 1);
    uint32_t *next = dt_new_array(&s->code->arena, uint32_t, (size_t)v->nsite + 1);
    s->slow = dt_new_array(&s->code->arena, struct ana_slow, (size_t)v->nsite + 1);
    if (!s->native)
        ana_group_sites(s);
    int rc = head && next && s->slow ? ana_walk_plan(s) : DT_E_NOMEM;
    if (!rc)
        rc = prologue(s);
    if (!rc)
        rc = rebuild_fill(s);
    for (uint32_t k = v->nsite; k-- > 0 && !rc;)
        if (s->ahead[k]) {
            next[k] = head[s->hoist[k].at];
            head[s->hoist[k].at] = k + 1;
        }
    for (uint32_t i = 0, here = 0; i <= s->nold && !rc; i++) {
        for (uint32_t k = head[i]; k && !rc; k = next[k - 1])
            rc = record_ahead(s, k - 1);
        if (i == s->nold)
            break;
        if (!rc && s->slice.keep && s->t->cfg.block[s->t->cfg.block_of[i]].first == i)
            rc = ptx_append_text(s->f, s->e, "$ana_c%u:", s->t->cfg.block_of[i]);
        if (!rc)
            rc = ana_walk_emit(s, i);
        if (!rc)
            rc = ana_ghost_emit(s, i);
        for (; here < v->nsite && v->site[here].inst == i && !rc; here++)
            if (!s->walk[here].loop)
                rc = record_here(s, here);
        if (!rc && s->slice.keep && s->slice.cut[i])
            rc = ptx_append_text(s->f, s->e, "bra $ana_c%u;", s->slice.cut[i] - 1);
        else if (!rc && (!s->slice.keep || s->slice.keep[i]) && !ptx_append(s->f, s->old[i]))
            rc = DT_E_NOMEM;
        if (!rc && s->t->watch[i] && (!s->slice.keep || s->slice.keep[i]))
            rc = watch(s, i);
    }
    if (!rc)
        rc = slow(s);
    if (!rc)
        rc = ana_walk_slow(s);
    return rc ? rc : epilogue(s);
}
