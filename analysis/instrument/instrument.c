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

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- what to record ---------------------------------------------------------------------------------------------- */
static bool instrument_commutes(const struct ptx_inst *i)
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
        bool red = x->atomic && !x->fp_atomic && !x->result_used && instrument_commutes(i) && (x->bytes || x->span);
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

static int instrument_plan(struct ana_instr *s)
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
        rc = instrument_plan(s);
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
        rc = ana_rebuild(s);
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
