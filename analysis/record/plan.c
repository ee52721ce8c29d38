/* Which launches run as their slice, and the instrumented code of each.
 *
 * An entry is instrumented once for each way of arguments (which of them point where, which point to constant content):
 * a variant. A launch runs as its slice (instrument/slice.c) if its variant has one and nobody needs what it would have
 * written. A slice reads constant buffers and parameters only, so only launches that run whole need data. Going
 * backward through the program, `need` holds the buffers that a later whole launch may read. A launch that may write
 * one of them runs whole too, and what it may read joins them. Nothing leaves `need` again, because a later write may
 * be partial; so it is a superset. Copies hand the need on, memsets end nothing. Example: launch 1 writes a, launch 2
 * loops as often as a says. Launch 2 runs whole and needs a, so launch 1 runs whole; every launch that leads to neither
 * runs as its slice.
 */
#include "analysis/record/record-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"

#define INSTRUMENTED 100 /* an instruction that is analysed takes as long as so many that are walked */

static int find_variant(struct ana_rec *s, uint32_t launch, bool whole)
{
    const struct dt_launch *l = &s->g->launch[launch];
    const struct dev_step *step = &s->p->step[launch];
    struct ana_variant v = {.module = l->module,
                            .entry = step->entry,
                            .narg = l->narg,
                            .threads = step->threads,
                            .whole = whole,
                            .arg = l->arg};
    v.constant = dt_new_array(&s->tmp, bool, (size_t)l->narg + 1);
    v.pointer = dt_new_array(&s->tmp, bool, (size_t)l->narg + 1);
    v.hint = dt_new_array(&s->tmp, uint32_t, (size_t)l->narg + 1);
    if (!v.constant || !v.pointer || !v.hint)
        return DT_E_NOMEM;
    uint32_t at = 0, copies = 0;
    ana_arg_kinds(s->g, l, v.pointer, v.constant);
    for (uint32_t i = 0; i < l->narg; i++) {
        v.hint[i] = at;
        at += arg_buffers(&l->arg[i], NULL, 0);
    }
    for (uint32_t i = 0; i < s->variant.n; i++) {
        struct ana_variant *w = &s->variant.p[i];
        if (w->module != v.module || w->entry != v.entry)
            continue;
        if (w->whole == whole && w->narg == v.narg && !memcmp(w->constant, v.constant, v.narg * sizeof(bool)) &&
            !memcmp(w->pointer, v.pointer, v.narg * sizeof(bool)) &&
            !memcmp(w->hint, v.hint, v.narg * sizeof *v.hint) && ana_same_places(w->arg, v.arg, v.narg)) {
            if (v.threads > w->threads)
                w->threads = v.threads;
            s->of[launch] = i;
            return 0;
        }
        copies++;
    }
    v.name = copies ? dt_arena_printf(&s->tmp, "%s__dovetail%u", v.entry->name, copies)
                    : dt_arena_strdup(&s->tmp, v.entry->name);
    s->of[launch] = (uint32_t)s->variant.n;
    s->mod[l->module].used = true;
    return v.name && dt_push(&s->variant, v) ? 0 : DT_E_NOMEM;
}

static int module_vars(struct ana_rec *s, uint32_t i)
{
    const struct ptx_module *m = s->p->module[i].ir;
    struct ana_mod *k = &s->mod[i];
    k->var = dt_new_array(&s->tmp, uint8_t, (size_t)m->nvar + 1);
    k->buffer = dt_new_array(&s->tmp, uint32_t, (size_t)m->nvar + 1);
    if (!k->var || !k->buffer)
        return DT_E_NOMEM;
    return ana_graph_vars(s->g, i, m, k->var, k->buffer, s->e);
}

static void instrument_one(void *user, size_t k)
{
    struct ana_rec *s = user;
    struct ana_variant *v = &s->variant.p[k];
    struct ana_taint_in in = {v->constant, v->pointer, v->narg, v->arg, s->mod[v->module].var};
    if (v->made)
        return;
    v->rc = ana_instrument(s->p->module[v->module].ir, v->entry->name, &in, v->hint, !v->whole && !s->o->no_slice,
                           &v->code, &v->e);
    v->made = !v->rc;
}

/* Every variant that is not yet made; the first that fails, in order of the program, says why. */
static int instrument(struct ana_rec *s)
{
    uint64_t work = 0;
    int rc = 0;
    for (uint32_t k = 0; k < s->variant.n; k++)
        work += s->variant.p[k].made ? 0 : (uint64_t)s->variant.p[k].entry->ninst * INSTRUMENTED;
    dt_parallel(ana_threads(s->o, work), s->variant.n, instrument_one, s);
    for (uint32_t k = 0; k < s->variant.n; k++) {
        struct ana_variant *v = &s->variant.p[k];
        if (!rc && v->rc) {
            rc = v->rc;
            dt_err_move(s->e, &v->e);
        }
        dt_err_done(&v->e);
    }
    return rc;
}

/* Does launch `l` read or write (as `writes` says) a buffer of `need`, by what its sites may point to? With `add`:
 * these buffers join `need`. */
static bool plan_meets(struct ana_rec *s, uint32_t launch, bool writes, bool *need, bool add)
{
    const struct dt_launch *l = &s->g->launch[launch];
    const struct ana_sites *v = &s->variant.p[s->of[launch]].code.sites;
    const struct ana_mod *m = &s->mod[l->module];
    const struct ptx_module *ir = s->p->module[l->module].ir;
    bool hit = false;
    for (uint32_t k = 0; k < v->nsite; k++) {
        const struct ana_site *x = &v->site[k];
        if (!(writes ? x->writes : x->reads || x->atomic))
            continue;
        bool any = !x->nparams && !x->nvars;
        for (uint32_t i = 0; i < l->narg; i++) {
            bool mine = any;
            for (uint32_t q = 0; q < x->nparams; q++)
                mine |= x->params[q] == i;
            for (uint32_t q = 0; mine && q < arg_buffers(&l->arg[i], NULL, 0); q++) {
                hit |= need[arg_buffer(&l->arg[i], q)];
                need[arg_buffer(&l->arg[i], q)] |= add;
            }
        }
        for (uint32_t i = 0; i < ir->nvar; i++) {
            bool mine = any;
            for (uint32_t q = 0; q < x->nvars; q++)
                mine |= x->vars[q] == ir->var[i];
            if (mine && m->buffer[i] != UINT32_MAX) {
                hit |= need[m->buffer[i]];
                need[m->buffer[i]] |= add;
            }
        }
    }
    return hit;
}

int ana_plan_variants(struct ana_rec *s)
{
    const struct dt_graph *g = s->g;
    bool *need = dt_new_array(&s->tmp, bool, (size_t)g->nbuffer + 1);
    int rc = need ? 0 : DT_E_NOMEM;
    for (uint32_t i = 0; i < g->nlaunch && !rc; i++)
        if (g->launch[i].kind == DT_KERNEL && !reused(s, i))
            rc = find_variant(s, i, false);
    for (uint32_t i = 0; i < g->nmodule && !rc; i++)
        if (s->mod[i].used)
            rc = module_vars(s, i);
    if (!rc)
        rc = instrument(s);
    for (uint32_t i = g->nlaunch; i-- > 0 && !rc;) {
        const struct dt_launch *l = &g->launch[i];
        if (reused(s, i))
            continue;
        if (l->kind == DT_COPY)
            need[l->src] |= need[l->dst];
        if (l->kind != DT_KERNEL)
            continue;
        bool sliced = s->variant.p[s->of[i]].code.sliced;
        if (sliced && !plan_meets(s, i, true, need, false))
            continue;
        plan_meets(s, i, false, need, true);
        if (sliced)
            rc = find_variant(s, i, true);
    }
    return rc ? rc : instrument(s);
}
