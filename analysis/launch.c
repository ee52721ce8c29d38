/* One kernel launch, recorded.
 *
 * A table of the buffers that its arguments and module variables name, a bitmap arena of blocks × planes × granules,
 * launch, wait, read the bitmaps back into foot.c. An arena larger than the limit is cut into windows of blocks: the
 * launch is run once per window, on buffers restored from a snapshot.
 *
 * An access outside every buffer is an error with launch, block, thread and the PTX line of the graph's own module. A
 * write to a weight or constant buffer is refused, also when the write is only widened but can go nowhere else. A fault
 * of the device is looked up again by a plain run, whose message has the graph's own PTX lines.
 */
#include "analysis/record-priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

struct job {
    const struct dt_launch *l;
    const struct dev_step *step;
    struct ana_variant *v;
    struct ana_foot *foot;
    uint32_t *buffer, nbuffer;  /* distinct buffers that the launch can name */
    uint64_t *bit, plane_bytes; /* first bit of each of them in a plane */
    struct ana_tab *tab;
    uint32_t ntab;
    uint8_t *params;
    bool over; /* a ghost ran too long: what ghosts record is widened */
};

static void job_buffer(struct job *j, uint32_t b)
{
    for (uint32_t i = 0; i < j->nbuffer; i++)
        if (j->buffer[i] == b)
            return;
    j->buffer[j->nbuffer++] = b;
}

static void tab_entry(struct ana_rec *s, struct job *j, uint32_t b)
{
    for (uint32_t i = 0; i < j->nbuffer; i++)
        if (j->buffer[i] == b)
            j->tab[j->ntab++] = (struct ana_tab){s->addr[b], s->bytes[b], j->bit[i], s->addr[b] % 32};
}

/* Buffers, their places in the bitmaps, and the table. */
static int make_table(struct ana_rec *s, struct job *j, struct dt_arena *a)
{
    const struct ana_mod *m = &s->mod[j->l->module];
    const struct ptx_module *ir = s->p->module[j->l->module].ir;
    size_t n = (size_t)ir->nvar + 1;
    for (uint32_t i = 0; i < j->l->narg; i++)
        n += arg_buffers(&j->l->arg[i], NULL, 0);
    j->buffer = dt_new_array(a, uint32_t, n);
    j->bit = dt_new_array(a, uint64_t, n);
    j->tab = dt_new_array(a, struct ana_tab, 2 * n);
    j->params = dt_arena_alloc(a, (size_t)j->step->param_total + 8);
    if (a->failed)
        return DT_E_NOMEM;
    for (uint32_t i = 0; i < j->l->narg; i++)
        for (uint32_t k = 0; k < arg_buffers(&j->l->arg[i], NULL, 0); k++)
            job_buffer(j, arg_buffer(&j->l->arg[i], k));
    for (uint32_t v = 0; v < ir->nvar; v++)
        if (m->buffer[v] != UINT32_MAX)
            job_buffer(j, m->buffer[v]);
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
            j->tab[j->ntab++] = (struct ana_tab){at, bytes, UINT64_MAX, 0};
        dt_err_done(&none);
    }
    if (!j->ntab)
        j->tab[j->ntab++] = (struct ana_tab){0};
    memcpy(j->tab + j->ntab, j->tab, j->ntab * sizeof *j->tab);
    return 0;
}

/* The parameter block; addresses of module variables are those of the instrumented modules. */
static int make_params(struct ana_rec *s, struct job *j, uint32_t launch)
{
    int rc = dev_run_params(s->run, launch, j->params);
    for (uint32_t i = 0; i < j->l->narg && !rc; i++) {
        const struct dt_arg *a = &j->l->arg[i];
        uint32_t n = a->kind == DT_ARG_BUFFER ? 1 : a->kind == DT_ARG_BYTES ? a->npointer : 0;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t b = arg_buffer(a, k);
            uint64_t at = j->step->param_offset[i] + (a->kind == DT_ARG_BYTES ? a->pointer[k].at : 0);
            dev_ptr to = s->addr[b] + (a->kind == DT_ARG_BYTES ? a->pointer[k].offset : a->offset);
            if (s->g->buffer[b].module >= 0 && at + sizeof to <= j->step->param_total)
                memcpy(j->params + at, &to, sizeof to);
        }
    }
    return rc ? dt_err_set(s->e, rc, "launch %s: no parameters", j->l->name) : 0;
}

static int fault(struct ana_rec *s, struct job *j, const struct ana_fault *f)
{
    const uint32_t *g = j->l->grid;
    const struct ana_site *x = f->site <= j->v->code.sites.nsite ? &j->v->code.sites.site[f->site - 1] : NULL;
    const struct ptx_inst *i = x && x->inst < j->v->entry->ninst ? &j->v->entry->inst[x->inst] : NULL;
    struct dt_str text = {0};
    if (i)
        ptx_print_inst(j->v->entry, i, &text);
    int rc = dt_err_set(
        s->e, DT_E_BOUNDS,
        "launch %s: kernel %s, block (%u,%u,%u), thread (%u,%u,%u), PTX line %u: %s: %u bytes at 0x%" PRIx64
        " are outside every buffer",
        j->l->name, j->v->entry->name, f->block % g[0], f->block / g[0] % g[1], f->block / g[0] / g[1], f->tid[0],
        f->tid[1], f->tid[2], i ? i->line : 0, text.s ? text.s : "?", x ? x->bytes : 0, f->address);
    dt_str_done(&text);
    return rc;
}

/* Intervals of one bitmap of one buffer. */
static int intervals(struct ana_rec *s, struct job *j, uint32_t i, const uint32_t *word, uint32_t block,
                     enum ana_kind k, enum ana_evidence ev, struct ana_interval **iv, size_t *cap)
{
    uint32_t b = j->buffer[i];
    uint64_t bytes = s->bytes[b], pad = s->addr[b] % 32;
    unsigned shift = j->v->code.shift;
    uint64_t nbit = ((bytes + pad) >> shift) + 1, at = 0;
    size_t n = 0;
    const uint32_t *w = word + j->bit[i] / 32;
    while (at < nbit) {
        uint32_t v = w[at / 32] >> at % 32;
        if (!v) {
            at = (at / 32 + 1) * 32;
            continue;
        }
        at += (uint64_t)__builtin_ctz(v);
        uint64_t from = at;
        while (at < nbit) {
            v = ~(w[at / 32] >> at % 32);
            unsigned run = v ? (unsigned)__builtin_ctz(v) : 32, left = 32 - at % 32;
            if (run < left) {
                at += run;
                break;
            }
            at += left;
        }
        uint64_t lo = (from << shift) < pad ? 0 : (from << shift) - pad, hi = (at << shift) - pad;
        if (hi > bytes)
            hi = bytes;
        if (lo >= hi)
            continue;
        if (!dt_vec_grow_((void **)iv, cap, n + 1, sizeof **iv))
            return DT_E_NOMEM;
        (*iv)[n++] = (struct ana_interval){lo, hi};
    }
    if (n && k != ANA_READ && protected_buffer(s, b))
        return refuse_write(s, j->l, b);
    return n ? ana_foot_add(j->foot, block, b, k, ev, *iv, (uint32_t)n) : 0;
}

static int read_bitmaps(struct ana_rec *s, struct job *j, uint32_t first, uint32_t count)
{
    const struct ana_code *c = &j->v->code;
    uint64_t stride = c->nplane * j->plane_bytes;
    uint32_t per = stride < ANA_CHUNK ? (uint32_t)(ANA_CHUNK / stride) : 1;
    if (per > count)
        per = count;
    uint8_t *buf = dt_malloc(per * stride);
    struct ana_interval *iv = NULL;
    size_t cap = 0;
    int rc = buf ? 0 : DT_E_NOMEM;
    for (uint32_t at = 0; at < count && !rc; at += per) {
        uint32_t n = count - at < per ? count - at : per;
        rc = dev_download(s->d, buf, s->arena + at * stride, n * stride, s->e);
        for (uint32_t b = 0; b < n && !rc; b++)
            for (unsigned k = 0; k < ANA_KINDS; k++)
                for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++) {
                    if (c->plane[k][ev] < 0)
                        continue;
                    const uint32_t *w =
                        (const uint32_t *)(buf + b * stride + (unsigned)c->plane[k][ev] * j->plane_bytes);
                    for (uint32_t i = 0; i < j->nbuffer && !rc; i++)
                        rc = intervals(s, j, i, w, first + at + b, k, ev, &iv, &cap);
                }
    }
    free(buf);
    free(iv);
    return rc;
}

static int need_device(struct ana_rec *s, dev_ptr *p, uint64_t *have, uint64_t bytes)
{
    if (*p && *have >= bytes)
        return 0;
    if (*p)
        dev_free(s->d, *p);
    *p = 0;
    *have = 0;
    int rc = dev_alloc(s->d, bytes, p, s->e);
    if (!rc)
        *have = bytes;
    return rc;
}

/* The bitmap arena for as many of `blocks` blocks as there is room for. */
static int need_arena(struct ana_rec *s, uint64_t stride, uint32_t blocks, uint32_t *ret)
{
    uint64_t n = stride ? s->limit / stride : blocks;
    n = n < 1 ? 1 : n > blocks ? blocks : n;
    for (;; n = (n + 1) / 2) {
        struct dt_err none = {0}, *keep = s->e;
        s->e = n > 1 ? &none : keep;
        int rc = need_device(s, &s->arena, &s->arena_bytes, n * stride + 16);
        s->e = keep;
        dt_err_done(&none);
        *ret = (uint32_t)n;
        if (!rc || n == 1)
            return rc;
    }
}

struct snapshot {
    uint8_t **copy; /* per buffer of the job, NULL: not written */
};

static int take(struct ana_rec *s, struct job *j, struct snapshot *k)
{
    k->copy = dt_calloc((size_t)j->nbuffer + 1, sizeof *k->copy);
    int rc = k->copy ? 0 : DT_E_NOMEM;
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++) {
        uint32_t b = j->buffer[i];
        if (protected_buffer(s, b))
            continue;
        k->copy[i] = dt_malloc(s->bytes[b] ? s->bytes[b] : 1);
        rc = k->copy[i] ? dev_download(s->d, k->copy[i], s->addr[b], s->bytes[b], s->e) : DT_E_NOMEM;
    }
    return rc;
}

static int put_back(struct ana_rec *s, struct job *j, const struct snapshot *k)
{
    int rc = 0;
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++)
        if (k->copy[i])
            rc = dev_upload(s->d, s->addr[j->buffer[i]], k->copy[i], s->bytes[j->buffer[i]], s->e);
    return rc;
}

static void drop(struct job *j, struct snapshot *k)
{
    for (uint32_t i = 0; k->copy && i < j->nbuffer; i++)
        free(k->copy[i]);
    free(k->copy);
}

/* The instrumented launch has faulted: the plain one says it better. */
static int explain(struct ana_rec *s, int rc, struct dt_err *mine)
{
    struct dt_err plain = {0};
    int r = 0;
    if (rc == DT_E_TRAP || rc == DT_E_BOUNDS || rc == DT_E_DEADLOCK || rc == DT_E_UNSUPPORTED) {
        r = dev_run_fill(s->run, 0, -1, &plain);
        if (!r)
            r = dev_run_once(s->run, &plain);
    }
    if (r == rc) {
        dt_err_move(s->e, &plain);
        dt_err_done(mine);
    } else {
        dt_err_done(&plain);
        dt_err_move(s->e, mine);
    }
    return rc;
}

static int run_windows(struct ana_rec *s, struct job *j)
{
    const struct ana_code *c = &j->v->code;
    uint32_t blocks = j->step->blocks, count = blocks;
    uint64_t stride = c->nplane * j->plane_bytes;
    struct snapshot snap = {0};
    int rc = need_arena(s, stride, blocks, &count);
    if (!rc)
        rc = need_device(s, &s->tab, &s->tab_bytes, 2 * j->ntab * sizeof *j->tab);
    if (!rc)
        rc = dev_upload(s->d, s->tab, j->tab, 2 * j->ntab * sizeof *j->tab, s->e);
    if (!rc && count < blocks)
        rc = take(s, j, &snap);
    for (uint32_t first = 0; first < blocks && !rc; first += count) {
        struct ana_ctl ctl = {s->arena, s->tab, s->err, stride, j->plane_bytes, first, stride ? count : 0, j->ntab, 0};
        struct ana_fault f = {0};
        if (count > blocks - first)
            ctl.count = blocks - first;
        if (first)
            rc = put_back(s, j, &snap);
        if (!rc && stride)
            rc = dev_set(s->d, s->arena, 0, ctl.count * stride, s->e);
        if (!rc)
            rc = dev_set(s->d, s->err, 0, sizeof f, s->e);
        if (!rc)
            rc = dev_upload(s->d, s->mod[j->l->module].ctl, &ctl, sizeof ctl, s->e);
        if (rc)
            break;
        struct dt_err mine = {0};
        rc = dev_launch(s->d, s->mod[j->l->module].handle, j->v->name, j->l->grid, j->l->block, j->l->cluster,
                        j->l->shared, j->params, j->step->param_total, &mine);
        if (!rc)
            rc = dev_sync(s->d, &mine);
        if (rc) {
            rc = explain(s, rc, &mine);
            break;
        }
        rc = dev_download(s->d, &f, s->err, sizeof f, s->e);
        if (!rc && f.site)
            rc = fault(s, j, &f);
        j->over |= f.over;
        if (!rc && ctl.count && stride)
            rc = read_bitmaps(s, j, first, ctl.count);
    }
    drop(j, &snap);
    return rc;
}

/* fn for every buffer that a site may touch. */
static int site_buffers(struct ana_rec *s, struct job *j, const struct ana_site *x,
                        int (*fn)(struct ana_rec *, struct job *, uint32_t, uint32_t), uint32_t site)
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

static int widen(struct ana_rec *s, struct job *j, uint32_t site, uint32_t b)
{
    int rc = 0;
    for (unsigned k = 0; k < ANA_KINDS && !rc; k++)
        if (j->v->code.kinds[site] >> k & 1 && s->bytes[b])
            rc = ana_foot_widen(j->foot, b, k);
    return rc;
}

static int note(struct ana_rec *s, struct job *j, uint32_t site, uint32_t b)
{
    const struct ana_site *x = &j->v->code.sites.site[site];
    struct ana_access *a = ana_foot_access(j->foot, b);
    if (!a)
        return DT_E_NOMEM;
    a->atomics |= x->atomic;
    a->fp_atomics |= x->fp_atomic;
    a->result_used |= x->result_used;
    if (x->bytes > a->max_width)
        a->max_width = x->bytes;
    return 0;
}

/* Writes that are not recorded: may they go only where nothing may be written? Module variables that are no buffers? */
static int check_site(struct ana_rec *s, struct job *j, const struct ana_site *x, uint32_t site)
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
                    "launch %s: kernel %s writes the module variable %s, which is not declared as a buffer \"%s::%s\"",
                    j->l->name, j->v->entry->name, ir->var[v]->name, s->g->module[j->l->module].name, ir->var[v]->name);
    for (uint32_t k = 0; k < x->nparams; k++)
        for (uint32_t q = 0; x->params[k] < j->l->narg && q < arg_buffers(&j->l->arg[x->params[k]], NULL, 0); q++) {
            uint32_t b = arg_buffer(&j->l->arg[x->params[k]], q);
            n++;
            if (protected_buffer(s, b))
                bad++, one = b;
        }
    return j->v->code.wide[site] && n && n == bad ? refuse_write(s, j->l, one) : 0;
}

int ana_record_kernel(struct ana_rec *s, uint32_t launch, struct ana_foot *foot)
{
    struct job j = {
        .l = &s->g->launch[launch], .step = &s->p->step[launch], .v = &s->variant.p[s->of[launch]], .foot = foot};
    struct dt_arena a = {0};
    const struct ana_sites *v = &j.v->code.sites;
    int rc = make_table(s, &j, &a);
    for (uint32_t k = 0; k < v->nsite && !rc; k++)
        rc = check_site(s, &j, &v->site[k], k);
    if (!rc)
        rc = make_params(s, &j, launch);
    if (!rc)
        rc = run_windows(s, &j);
    for (uint32_t k = 0; k < v->nsite && !rc; k++) {
        if (j.v->code.wide[k] || (j.over && j.v->code.ghost[k]))
            rc = site_buffers(s, &j, &v->site[k], widen, k);
        if (!rc)
            rc = site_buffers(s, &j, &v->site[k], note, k);
    }
    dt_arena_done(&a);
    return rc;
}
