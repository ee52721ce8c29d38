/* Instrumentation: an entry becomes one that records which bytes each block touches, and does its work besides.
 *
 * Before every site (taint/sites.c) code is put in that finds the buffer (a table of address ranges, searched from the
 * argument that the address most likely comes from), checks that the whole access lies inside, and sets one bit for
 * each granule in the bitmap of (block, plane) by `red.global.or`. A plane is a kind of access with an evidence; only
 * planes that occur have bitmaps. A module variable (struct ana_ctl) says where to write, so the parameters stay as
 * they are. An access outside every buffer leaves its place in the error slot and ends the thread.
 *
 *   clean address, clean guard        recorded where it happens, under its own predicate: a certain access
 *   clean address, data in the guard  recorded as if it happened, before the branch (hoist.c, else ghost.c). Threads
 *                                     for which it would lie outside, and which never do it, are passed over. Where it
 *                                     happens, only its bounds are checked
 *   anything else                     widened: record/launch.c counts every byte of the buffers that it may point to.
 *                                     Where it happens, only its bounds are checked
 *
 * The granule is the narrowest access that is recorded, so that a bit never stands for a byte that was not touched.
 * `cp.async` with a source size or ignore operand is recorded where the size is not 0 (a shorter read counts whole:
 * superset).
 *
 * The original instructions, or those of its slice (slice.c), are kept, in order, with the same registers. A slice does
 * not do the accesses, so there the recorder reports a misaligned one.
 */
#include "analysis/instrument/instrument-priv.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- what to record ---------------------------------------------------------------------------------------------- */
static bool commutes(const struct ptx_inst *i)
{
    return ptx_has(i, PTX_M_ADD) || ptx_has(i, PTX_M_MIN) || ptx_has(i, PTX_M_MAX) || ptx_has(i, PTX_M_AND) ||
           ptx_has(i, PTX_M_OR) || ptx_has(i, PTX_M_XOR);
}

static bool same_operation(const struct ptx_inst *x, const struct ptx_inst *y)
{
    static const enum ptx_mod m[] = {PTX_M_ADD, PTX_M_MIN, PTX_M_MAX, PTX_M_AND, PTX_M_OR, PTX_M_XOR};
    for (unsigned k = 0; k < sizeof m / sizeof *m; k++)
        if (ptx_has(x, m[k]) != ptx_has(y, m[k]))
            return false;
    return x->type[0] == y->type[0];
}

/* Kinds of every site; reductions that do not all commute with each other are reads and writes. */
static void kinds(struct ana_instr *s)
{
    const struct ana_sites *v = &s->code->sites;
    const struct ptx_inst *first = NULL;
    bool mixed = false;
    for (uint32_t k = 0; k < v->nsite; k++) {
        const struct ana_site *x = &v->site[k];
        const struct ptx_inst *i = &s->f->inst[x->inst];
        bool red = x->atomic && !x->fp_atomic && !x->result_used && commutes(i) && (x->bytes || x->span);
        s->code->kinds[k] = red ? 1u << ANA_RED : (x->reads ? 1u << ANA_READ : 0) | (x->writes ? 1u << ANA_WRITE : 0);
        if (!red)
            continue;
        mixed |= first && !same_operation(first, i);
        first = i;
    }
    for (uint32_t k = 0; k < v->nsite && mixed; k++)
        if (s->code->kinds[k] == 1u << ANA_RED)
            s->code->kinds[k] = 1u << ANA_READ | 1u << ANA_WRITE;
}

/* Of what site k does as kind q. Whether a compare-and-swap writes depends on what it finds. */
enum ana_evidence ana_evidence_of(const struct ana_instr *s, uint32_t k, unsigned q)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = s->old ? &s->old[x->inst] : &s->f->inst[x->inst];
    if (q == ANA_WRITE && x->atomic && ptx_has(i, PTX_M_CAS))
        return ANA_DATA_DEPENDENT;
    return x->address > x->guard ? x->address : x->guard;
}

static int plan(struct ana_instr *s)
{
    struct ana_code *c = s->code;
    uint32_t n = c->sites.nsite, narrow = 16;
    c->kinds = dt_new_array(&c->arena, uint8_t, (size_t)n + 1);
    c->wide = dt_new_array(&c->arena, bool, (size_t)n + 1);
    c->ghost = dt_new_array(&c->arena, bool, (size_t)n + 1);
    s->hoist = dt_new_array(&c->arena, struct ana_hoist, (size_t)n + 1);
    s->ahead = dt_new_array(&c->arena, bool, (size_t)n + 1);
    if (!c->kinds || !c->wide || !c->ghost || !s->hoist || !s->ahead)
        return DT_E_NOMEM;
    kinds(s);
    int rc = ana_ghost_plan(s);
    if (rc)
        return rc;
    for (unsigned k = 0; k < ANA_KINDS; k++)
        for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++)
            c->plane[k][ev] = -1;
    for (uint32_t k = 0; k < n; k++) {
        const struct ana_site *x = &c->sites.site[k];
        c->wide[k] = x->address == ANA_DATA_DEPENDENT || (!x->bytes && !x->span);
        if (!c->wide[k] && x->guard == ANA_DATA_DEPENDENT) {
            c->wide[k] = !s->ahead[k] && !c->ghost[k];
        }
        if (c->wide[k])
            continue;
        if (!x->bytes) { /* logged */
            c->logs = true;
            continue;
        }
        if (x->bytes < narrow)
            narrow = x->bytes;
        for (unsigned q = 0; q < ANA_KINDS; q++)
            if (c->kinds[k] >> q & 1 && c->plane[q][ana_evidence_of(s, k, q)] < 0)
                c->plane[q][ana_evidence_of(s, k, q)] = (int)c->nplane++;
    }
    while ((1u << c->shift) < narrow)
        c->shift++;
    return 0;
}

/* ---- the fast way ------------------------------------------------------------------------------------------------ */
/* Where the table search for a site begins. */
static uint32_t start(const struct ana_instr *s, const struct ana_site *x)
{
    return x->nparams && s->hint && x->params[0] < s->nhint ? s->hint[x->params[0]] : 0;
}

static bool exact(const struct ana_instr *s, uint32_t k)
{
    return !s->code->wide[k] && !s->ahead[k] && !s->code->ghost[k] && !s->code->sites.site[k].span;
}

/* Group of site k, or ngroup. */
uint32_t ana_group_of(const struct ana_instr *s, uint32_t k)
{
    const struct ana_site *x = &s->code->sites.site[k];
    uint32_t g = 0;
    while (g < s->ngroup && (s->group[g].at != start(s, x) || s->group[g].bytes != x->bytes))
        g++;
    return exact(s, k) ? g : s->ngroup;
}

static void group_sites(struct ana_instr *s)
{
    const uint32_t most = sizeof s->group / sizeof *s->group;
    for (uint32_t k = 0; k < s->code->sites.nsite; k++)
        if (exact(s, k) && ana_group_of(s, k) == s->ngroup && s->ngroup < most)
            s->group[s->ngroup++] = (struct ana_group){start(s, &s->code->sites.site[k]), s->code->sites.site[k].bytes};
}

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

/* ---- code -------------------------------------------------------------------------------------------------------- */
/* What only the table search needs: a slice, which seldom comes to that, loads it there. */
static int slow_prologue(struct ana_instr *s)
{
    EMIT(s, "ld.global.u32 %%ana_k, [" ANA_CTL "+40]; sub.s32 %%ana_y, %%ana_blk, %%ana_k;"
            "ld.global.u32 %%ana_k, [" ANA_CTL "+44]; setp.lt.u32 %%ana_in, %%ana_y, %%ana_k;"
            "ld.global.u32 %%ana_n0, [" ANA_CTL "+48]; ld.global.u32 %%ana_cs, [" ANA_CTL "+52];"
            "ld.global.u32 %%ana_mk, [" ANA_CTL "+56]; ld.global.u32 %%ana_ps, [" ANA_CTL "+60];"
            "ld.global.u64 %%ana_pg, [" ANA_CTL "+64]; setp.ne.u64 %%ana_paged, %%ana_pg, 0;");
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
    if (!s->slice.keep && slow_prologue(s))
        return DT_E_NOMEM;
    return group_prologue(s);
}

/* Memory whose content is believed, but that may be read before it is written, begins as ANA_POISON. */
static int fill(struct ana_instr *s)
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
static int touch(struct ana_instr *s, uint32_t k, enum ana_mode mode, uint32_t pred, bool neg, const char *reg,
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
    uint32_t id = s->label++, at = start(s, x);
    char out[32];
    if (s->native)
        return touch(s, k, mode, PTX_NO_REG, false, "%ana_a", 0);
    if (s->slice.keep && slow_prologue(s))
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
static int address_of(struct ana_instr *s, uint32_t k)
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
static int record_fast(struct ana_instr *s, uint32_t k, uint32_t g, uint32_t skip)
{
    const struct ptx_opnd *o = &s->old[s->code->sites.site[k].inst].opnd[s->code->sites.site[k].opnd];
    bool plain = o->base_kind == PTX_O_REG && !o->off;
    const char *a = plain ? s->f->reg[o->reg].name : "%ana_a";
    const struct ana_code *c = s->code;
    const struct ana_site *x = &c->sites.site[k];
    uint64_t mask = (UINT64_C(1) << (x->bytes >> c->shift)) - 1;
    s->slow[s->nslow++] = (struct ana_slow){k, skip};
    if (!plain) {
        int rc = address_of(s, k);
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

/* The slow ways. */
static int slow(struct ana_instr *s)
{
    EMIT(s, "ret;");
    for (uint32_t i = 0; i < s->nslow; i++) {
        uint32_t k = s->slow[i].site, skip = s->slow[i].label;
        EMIT(s, "$ana_w%u:", skip);
        int rc = address_of(s, k);
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
    int rc = address_of(s, k);
    if (!rc)
        rc = ana_emit_record(s, k, ANA_BOUNDS, skip);
    if (!rc)
        rc = address_of(s, k);
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
    if (s->slice.keep && slow_prologue(s))
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
    enum ana_mode mode = exact(s, k) ? ANA_EXACT : ANA_BOUNDS;
    uint32_t skip = s->label++;
    if (o->kind != PTX_O_ADDR || o->base_kind == PTX_O_NONE)
        return dt_err_set(s->e, DT_E_UNSUPPORTED, "%s, PTX line %u: an absolute address", s->f->name, i->line);
    if (s->native && o->base_kind == PTX_O_REG && !source)
        return touch(s, k, mode, i->pred, i->pred_neg, reg_name(s, o->reg), o->off);
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
    int rc = g < s->ngroup ? record_fast(s, k, g, skip) : address_of(s, k);
    if (!rc && g >= s->ngroup)
        rc = ana_record_slow(s, k, mode, skip);
    if (rc)
        return rc;
    EMIT(s, "$ana_s%u:", skip);
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
static int rebuild(struct ana_instr *s)
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
        group_sites(s);
    int rc = head && next && s->slow ? ana_walk_plan(s) : DT_E_NOMEM;
    if (!rc)
        rc = prologue(s);
    if (!rc)
        rc = fill(s);
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

static int map_vars(const struct ptx_module *m, const struct ptx_module *copy, const uint8_t *var, uint8_t *out)
{
    for (uint32_t i = 0; i < copy->nvar; i++) {
        out[i] = copy->var[i]->space == PTX_GLOBAL ? ANA_VAR_MUTABLE : ANA_VAR_FIXED;
        for (uint32_t k = 0; var && k < m->nvar; k++)
            if (!strcmp(m->var[k]->name, copy->var[i]->name))
                out[i] = var[k];
    }
    return 0;
}

/* Copies of registers that hold a number become that number (fold.c). */
static int fold_copies(struct ptx_function *f)
{
    uint32_t *from = dt_calloc((size_t)f->ninst + 1, sizeof *from);
    int rc = from ? ana_fold(f, from) : DT_E_NOMEM;
    for (uint32_t at = 0; at < f->ninst && !rc; at++)
        if (from[at])
            f->inst[at].opnd[1] = f->inst[from[at] - 1].opnd[1];
    free(from);
    return rc;
}

/* Names of variables in sites, which must outlive the clone. */
static void name_vars(const struct ptx_module *m, struct ana_sites *v)
{
    for (uint32_t k = 0; k < v->nsite; k++)
        for (uint32_t q = 0; q < v->site[k].nvars; q++) {
            const char *n = v->site[k].vars[q]->name;
            v->site[k].vars[q] = NULL;
            for (uint32_t i = 0; i < m->nvar; i++)
                if (!strcmp(m->var[i]->name, n))
                    v->site[k].vars[q] = m->var[i];
        }
}

int ana_instrument(const struct ptx_module *m, const char *entry, const struct ana_taint_in *in, const uint32_t *hint,
                   bool slice, struct ana_code *ret, struct dt_err *e)
{
    struct ana_code code = {0};
    int rc = ptx_clone(m, entry, &code.copy, e);
    if (rc)
        return rc;
    struct ana_instr *s = dt_new(&code.arena, struct ana_instr);
    struct ana_tainted *t = dt_new(&code.arena, struct ana_tainted);
    code.f = ptx_find_function(code.copy, entry);
    uint8_t *var = dt_calloc((size_t)code.copy->nvar + 1, 1);
    struct ana_taint_in mine = *in;
    mine.var = var;
    rc = !code.f ? DT_E_INTERNAL : !s || !t || !var ? DT_E_NOMEM : map_vars(m, code.copy, in->var, var);
    if (!rc)
        rc = ana_split(code.f, e);
    if (!rc)
        rc = fold_copies(code.f);
    if (!rc)
        rc = ana_divide(code.f);
    if (!rc) {
        *s = (struct ana_instr){.f = code.f, .t = t, .code = &code, .hint = hint, .nhint = in->nparam, .e = e};
        s->clusters = m->target && !strncmp(m->target, "sm_", 3) && strtoul(m->target + 3, NULL, 10) >= 90;
        code.inst = code.f->inst;
        code.ninst = code.f->ninst;
        code.nreg = code.f->nreg;
        rc = ana_taint_run(s->f, &mine, t, e);
    }
    if (!rc) {
        code.sites = t->sites;
        rc = plan(s);
        name_vars(m, &code.sites);
    }
    if (!rc && slice) {
        rc = ana_slice(&code.arena, s->f, t, &s->slice);
        code.sliced = rc > 0;
        rc = rc < 0 ? rc : 0;
    }
    for (uint32_t at = 0; at < code.ninst && !rc; at++)
        code.talks |= t->watch[at] != 0;
    for (uint32_t k = 0; k < code.sites.nsite && !rc; k++)
        code.talks |= code.sites.site[k].span != ANA_SPAN_NONE;
    if (!rc) {
        code.talks |= s->ghosts;
        code.keep = s->slice.keep;
        code.cut = s->slice.cut;
        code.evidence = dt_new_array(&code.arena, uint8_t, (size_t)code.sites.nsite * ANA_KINDS + 1);
        for (uint32_t k = 0; k < code.sites.nsite && code.evidence; k++)
            for (unsigned q = 0; q < ANA_KINDS; q++)
                code.evidence[k * ANA_KINDS + q] = (uint8_t)ana_evidence_of(s, k, q);
        rc = code.evidence ? 0 : DT_E_NOMEM;
    }
    code.instr = s;
    code.ahead = s ? s->ahead : NULL;
    if (t) {
        struct dt_arena keep = t->sites.arena; /* owned by code.sites, with the taint arrays */
        t->sites.arena = (struct dt_arena){0};
        code.sites.arena = keep;
        code.cfg = &t->cfg;
    }
    free(var);
    if (rc) {
        ana_code_done(&code);
        return dt_err_set(e, rc, "no memory to instrument %s", entry);
    }
    *ret = code;
    return 0;
}

/* What native text calls; record/record.c writes it into the module that is loaded. */
static int declare_touch(struct ptx_module *m)
{
    struct ptx_function *f = ptx_function_new(m, DOVETAIL_TOUCH, false);
    bool ok = f && ptx_param_new(f, "address", PTX_B64, 8, 0) && ptx_param_new(f, "offset", PTX_B64, 8, 0) &&
              ptx_param_new(f, "site", PTX_B32, 4, 0) && ptx_param_new(f, "how", PTX_B32, 4, 0);
    if (ok) {
        f->has_body = false;
        f->is_extern = true;
    }
    return ok ? 0 : DT_E_NOMEM;
}

int ana_instrument_text(struct ana_code *c, const char *name, uint32_t threads, bool native, struct dt_err *e)
{
    struct ana_instr *s = c->instr;
    struct dt_str text = {0};
    if (c->text)
        return 0;
    s->code = c;
    s->e = e;
    s->native = native;
    int rc = ptx_var_new(c->copy, NULL, ANA_CTL, PTX_GLOBAL, PTX_B64, sizeof(struct ana_ctl) / 8, 8) ? 0 : DT_E_NOMEM;
    if (!rc && native)
        rc = declare_touch(c->copy);
    if (!rc && threads && !s->f->maxntid[0] && !s->f->reqntid[0])
        s->f->maxntid[0] = threads, s->f->maxntid[1] = s->f->maxntid[2] = 1;
    if (!rc)
        rc = rebuild(s);
    if (!rc) {
        s->f->name = name;
        rc = ptx_print_function(s->f, &text);
        c->text = dt_str_take(&text);
        if (!rc && !c->text)
            rc = DT_E_NOMEM;
    }
    dt_str_done(&text);
    return rc ? dt_err_set(e, rc, "no memory to instrument %s", name) : 0;
}

void ana_code_done(struct ana_code *c)
{
    if (c->cfg)
        ptx_cfg_done(c->cfg);
    ptx_module_free(c->copy);
    ana_sites_done(&c->sites);
    dt_arena_done(&c->arena);
    free(c->text);
    *c = (struct ana_code){0};
}
