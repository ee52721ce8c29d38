/* One kernel launch, recorded: what it can name, whether it may write there, and what comes of its sites.
 *
 * Builds a table of the buffers that the arguments and module variables name, and the parameters; has the launch run
 * and its accesses recorded (bitmap.c by instrumented PTX, native.c by the software device); then widens the sites that
 * were not recorded, and notes for each buffer what intervals do not say (atomics, widths, alignment).
 *
 * A write to a weight or constant buffer is refused, also where the write is only widened but can go nowhere else.
 * Errors of the launch itself are fault.c's.
 */
#include "analysis/record/launch-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/subject.h"

static void job_buffer(struct ana_job *j, uint32_t b)
{
    if (ana_job_has(j, b))
        return;
    j->buffer[j->nbuffer++] = b;
}

static void tab_entry(struct ana_rec *s, struct ana_job *j, uint32_t b)
{
    for (uint32_t i = 0; i < j->nbuffer; i++)
        if (j->buffer[i] == b) {
            j->tab_buffer[j->ntab] = b;
            j->tab[j->ntab++] = (struct ana_tab){
                s->addr[b], s->bytes[b], j->bit[i], (uint32_t)(s->addr[b] % 32), protected_buffer(s, b), 0, 0};
        }
}

/* The buffers that the launch can name; how many table entries they may need. */
static size_t list_buffers(struct ana_rec *s, struct ana_job *j, struct dt_arena *a)
{
    const struct ana_mod *m = &s->mod[j->l->module];
    const struct ptx_module *ir = s->p->module[j->l->module].ir;
    size_t n = (size_t)ir->nvar + 1;
    for (uint32_t i = 0; i < j->l->narg; i++)
        n += arg_buffers(&j->l->arg[i], NULL, 0);
    j->buffer = dt_new_array(a, uint32_t, n);
    for (uint32_t i = 0; i < j->l->narg && j->buffer; i++)
        for (uint32_t k = 0; k < arg_buffers(&j->l->arg[i], NULL, 0); k++)
            job_buffer(j, arg_buffer(&j->l->arg[i], k));
    for (uint32_t v = 0; v < ir->nvar && j->buffer; v++)
        if (m->buffer[v] != UINT32_MAX)
            job_buffer(j, m->buffer[v]);
    return n;
}

/* Buffers, their places in the bitmaps, and the table. */
static int make_table(struct ana_rec *s, struct ana_job *j, struct dt_arena *a)
{
    const struct ana_mod *m = &s->mod[j->l->module];
    const struct ptx_module *ir = s->p->module[j->l->module].ir;
    size_t n = list_buffers(s, j, a);
    j->bit = dt_new_array(a, uint64_t, n);
    j->tab = dt_new_array(a, struct ana_tab, 2 * n);
    j->tab_buffer = dt_new_array(a, uint32_t, n + 1);
    j->params = dt_arena_alloc(a, (size_t)j->step->param_total + 8);
    if (a->failed)
        return DT_E_NOMEM;
    uint64_t bit = 0;
    for (uint32_t i = 0; i < j->nbuffer; i++) {
        j->bit[i] = bit;
        bit += (((s->bytes[j->buffer[i]] + 31) >> j->v->code.shift) + 1 + 31) / 32 * 32;
    }
    j->plane_bytes = bit / 8;
    for (uint32_t i = 0; i < j->l->narg; i++)
        for (uint32_t k = 0; k < arg_buffers(&j->l->arg[i], NULL, 0); k++)
            tab_entry(s, j, arg_buffer(&j->l->arg[i], k));
    for (uint32_t v = 0; v < ir->nvar; v++) {
        dev_ptr at;
        uint64_t bytes;
        struct dt_err none = {0};
        if (m->buffer[v] != UINT32_MAX)
            tab_entry(s, j, m->buffer[v]);
        else if ((ir->var[v]->space == PTX_GLOBAL || ir->var[v]->space == PTX_CONST) && !ir->var[v]->is_extern &&
                 !dev_module_variable(s->d, m->handle, ir->var[v]->name, &at, &bytes, &none))
            j->tab_buffer[j->ntab] = UINT32_MAX,
            j->tab[j->ntab++] = (struct ana_tab){at, bytes, UINT64_MAX, 0, 1, 0, 0};
        dt_err_done(&none);
    }
    if (!j->ntab)
        j->tab_buffer[0] = UINT32_MAX, j->tab[j->ntab++] = (struct ana_tab){0};
    memcpy(j->tab + j->ntab, j->tab, j->ntab * sizeof *j->tab);
    return 0;
}

/* The parameter block; addresses of module variables are those of the instrumented modules. */
static int make_params(struct ana_rec *s, struct ana_job *j, uint32_t launch)
{
    int rc = dev_run_params(s->run, launch, j->params);
    for (uint32_t i = 0; i < j->l->narg && !rc; i++) {
        const struct dt_arg *a = &j->l->arg[i];
        uint32_t n = a->kind == DT_ARG_BUFFER ? 1 : a->kind == DT_ARG_BYTES ? a->npointer : 0;
        if (a->kind == DT_ARG_TENSOR_MAP && s->g->buffer[a->buffer].module >= 0)
            rc = dev_tensor_map_encode(s->d, a, s->addr[a->buffer], j->params + j->step->param_offset[i], s->e);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t b = arg_buffer(a, k);
            uint64_t at = j->step->param_offset[i] + (a->kind == DT_ARG_BYTES ? a->pointer[k].at : 0);
            dev_ptr to = s->addr[b] + (a->kind == DT_ARG_BYTES ? a->pointer[k].offset : a->offset);
            if (s->g->buffer[b].module >= 0 && at + sizeof to <= j->step->param_total)
                memcpy(j->params + at, &to, sizeof to);
        }
    }
    return rc ? dt_err_set(s->e, rc, "launch " DT_LAUNCH_BARE ": no parameters", j->l->name) : 0;
}

/* fn for every buffer that a site may touch. */
static int site_buffers(struct ana_rec *s, struct ana_job *j, const struct ana_site *x,
                        int (*fn)(struct ana_rec *, struct ana_job *, uint32_t, uint32_t), uint32_t site)
{
    bool some = false;
    int rc = 0;
    for (uint32_t k = 0; k < x->nparams && !rc; k++)
        for (uint32_t q = 0; x->params[k] < j->l->narg && q < arg_buffers(&j->l->arg[x->params[k]], NULL, 0) && !rc;
             q++) {
            rc = fn(s, j, site, arg_buffer(&j->l->arg[x->params[k]], q));
            some = true;
        }
    const struct ptx_module *ir = s->p->module[j->l->module].ir;
    for (uint32_t k = 0; k < x->nvars && !rc; k++)
        for (uint32_t v = 0; v < ir->nvar && !rc; v++)
            if (ir->var[v] == x->vars[k] && s->mod[j->l->module].buffer[v] != UINT32_MAX) {
                rc = fn(s, j, site, s->mod[j->l->module].buffer[v]);
                some = true;
            }
    for (uint32_t k = 0; k < j->nbuffer && !some && !rc; k++)
        rc = fn(s, j, site, j->buffer[k]);
    return rc;
}

static int widen(struct ana_rec *s, struct ana_job *j, uint32_t site, uint32_t b)
{
    int rc = 0;
    for (unsigned k = 0; k < ANA_KINDS && !rc; k++)
        if (j->v->code.kinds[site] >> k & 1 && s->bytes[b]) {
            if (k != ANA_WRITE || !protected_buffer(s, b)) /* a write there is refused where it happens */
                rc = ana_foot_widen(j->foot, b, k == ANA_RED && protected_buffer(s, b) ? ANA_READ : (enum ana_kind)k);
        }
    return rc;
}

static int note(struct ana_rec *s, struct ana_job *j, uint32_t site, uint32_t b)
{
    const struct ana_site *x = &j->v->code.sites.site[site];
    struct ana_access *a = ana_foot_access(j->foot, b);
    if (!a)
        return DT_E_NOMEM;
    a->atomics |= x->atomic;
    a->fp_atomics |= x->fp_atomic;
    a->result_used |= x->result_used;
    uint32_t width = x->span == ANA_SPAN_MATRIX || x->span == ANA_SPAN_TENSOR ? 32 : x->span ? 16 : x->bytes;
    if (width > a->max_width)
        a->max_width = width;
    return 0;
}

/* What the entry tests of its pointers' alignment, its buffers must have. */
static int note_alignment(struct ana_rec *s, struct ana_job *j)
{
    const struct ana_sites *v = &j->v->code.sites;
    for (uint32_t i = 0; i < j->l->narg && i < v->nalign; i++)
        for (uint32_t k = 0; v->align[i] && k < arg_buffers(&j->l->arg[i], NULL, 0); k++) {
            struct ana_access *a = ana_foot_access(j->foot, arg_buffer(&j->l->arg[i], k));
            if (!a)
                return DT_E_NOMEM;
            a->max_width = v->align[i] > a->max_width ? v->align[i] : a->max_width;
        }
    return 0;
}

/* Writes that are not recorded: may they go only where nothing may be written? Module variables that are no buffers? */
static int check_site(struct ana_rec *s, struct ana_job *j, const struct ana_site *x, uint32_t site)
{
    const struct ptx_module *ir = s->p->module[j->l->module].ir;
    uint32_t n = 0, bad = 0, one = 0;
    if (!x->writes)
        return 0;
    for (uint32_t k = 0; k < x->nvars; k++)
        for (uint32_t v = 0; v < ir->nvar; v++)
            if (ir->var[v] == x->vars[k] && s->mod[j->l->module].buffer[v] == UINT32_MAX)
                return dt_err_set(
                    s->e, DT_E_UNSUPPORTED,
                    "launch " DT_LAUNCH_BARE
                    ": kernel %s writes the module variable %s, which is not declared as a buffer \"%s::%s\"",
                    j->l->name, j->v->entry->name, ir->var[v]->name, s->g->module[j->l->module].name, ir->var[v]->name);
    for (uint32_t k = 0; k < x->nparams; k++)
        for (uint32_t q = 0; x->params[k] < j->l->narg && q < arg_buffers(&j->l->arg[x->params[k]], NULL, 0); q++) {
            uint32_t b = arg_buffer(&j->l->arg[x->params[k]], q);
            n++;
            if (protected_buffer(s, b))
                bad++, one = b;
        }
    return j->v->code.wide[site] && n && n == bad && !x->elsewhere ? refuse_write(s, j->l, one) : 0;
}

/* What nobody may write, where a write that cannot be looked at (in a device function, a bulk copy) could go: a copy to
 * compare with afterwards. */
static int hold(struct ana_rec *s, struct ana_job *j, uint32_t site, uint32_t b)
{
    (void)site;
    if (!protected_buffer(s, b) || j->held[b] || !s->bytes[b])
        return 0;
    j->held[b] = dt_malloc(s->bytes[b]);
    return j->held[b] ? dev_download(s->d, j->held[b], s->addr[b], s->bytes[b], s->e) : DT_E_NOMEM;
}

static int launch_compare(struct ana_rec *s, struct ana_job *j, uint32_t b)
{
    uint8_t *now = dt_malloc(s->bytes[b]);
    int rc = now ? dev_download(s->d, now, s->addr[b], s->bytes[b], s->e) : DT_E_NOMEM;
    if (!rc && memcmp(now, j->held[b], s->bytes[b]))
        rc = refuse_write(s, j->l, b);
    free(now);
    return rc;
}

int ana_check_kernel(struct ana_rec *s, uint32_t launch)
{
    struct ana_job j = {.l = &s->g->launch[launch], .step = &s->p->step[launch], .v = &s->variant.p[s->of[launch]]};
    const struct ana_sites *v = &j.v->code.sites;
    int rc = 0;
    for (uint32_t k = 0; k < v->nsite && !rc; k++)
        rc = check_site(s, &j, &v->site[k], k);
    return rc;
}

int ana_note_kernel(struct ana_rec *s, uint32_t launch, struct ana_foot *foot)
{
    struct ana_job j = {
        .l = &s->g->launch[launch], .step = &s->p->step[launch], .v = &s->variant.p[s->of[launch]], .foot = foot};
    const struct ana_sites *v = &j.v->code.sites;
    struct dt_arena a = {0};
    list_buffers(s, &j, &a);
    int rc = a.failed ? DT_E_NOMEM : 0;
    for (uint32_t k = 0; k < v->nsite && !rc; k++)
        rc = site_buffers(s, &j, &v->site[k], note, k);
    if (!rc)
        rc = note_alignment(s, &j);
    dt_arena_done(&a);
    return rc;
}

int ana_record_kernel(struct ana_rec *s, uint32_t launch, struct ana_foot *foot)
{
    struct ana_job j = {
        .l = &s->g->launch[launch], .step = &s->p->step[launch], .v = &s->variant.p[s->of[launch]], .foot = foot};
    struct dt_arena a = {0};
    const struct ana_sites *v = &j.v->code.sites;
    int rc = make_table(s, &j, &a);
    if (!rc)
        rc = ana_check_kernel(s, launch);
    if (!rc)
        rc = make_params(s, &j, launch);
    j.held = dt_new_array(&a, uint8_t *, (size_t)s->g->nbuffer + 1);
    rc = rc || j.held ? rc : DT_E_NOMEM;
    for (uint32_t k = 0; k < v->nsite && !rc; k++)
        if (v->site[k].writes && !v->site[k].bytes)
            rc = site_buffers(s, &j, &v->site[k], hold, k);
    if (!rc)
        rc = s->native ? ana_job_native(s, &j) : ana_job_bitmaps(s, &j);
    for (uint32_t b = 0; b < s->g->nbuffer && j.held; b++) {
        if (!rc && j.held[b])
            rc = launch_compare(s, &j, b);
        free(j.held[b]);
    }
    if (!rc && j.over & ANA_OVER_UNWRITTEN)
        ana_foot_clear(foot);
    for (uint32_t k = 0; k < v->nsite && !rc; k++) {
        if (j.v->code.wide[k] || (j.over & ANA_OVER_GHOST && j.v->code.ghost[k]) || j.over & ANA_OVER_UNWRITTEN ||
            (j.over & ANA_OVER_LOG && v->site[k].span))
            rc = site_buffers(s, &j, &v->site[k], widen, k);
        if (!rc)
            rc = site_buffers(s, &j, &v->site[k], note, k);
    }
    if (!rc)
        rc = note_alignment(s, &j);
    s->over = j.over;
    if (!rc && j.over & ANA_OVER_GHOST) /* how far ghosts came is chance */
        ana_foot_clear_widened(foot);
    dt_arena_done(&a);
    return rc;
}
