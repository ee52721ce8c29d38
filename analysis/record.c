/* Run the graph, instrumented, and read the footprints of every launch.
 *
 * One instrumented module per module of the graph holds all variants of its entries (an entry is instrumented once per way of
 * arguments: which point where, which point to constant content), so that module variables stay one instance. Launches run in
 * program order on real fills: what a launch reads is what it would read, which matters for constant content.
 *
 * Per kernel launch: a table of the buffers that its arguments and module variables name, a bitmap arena of
 * blocks × planes × granules, launch, wait, read bitmaps back into foot.c. An arena larger than the limit is cut into windows of
 * blocks: the launch is run once per window, on buffers restored from a snapshot. A memset or copy step is one block, exact.
 *
 * A write to a weight or constant buffer is refused, naming launch and buffer, also when the write is only widened but can go
 * nowhere else. A fault of the device is looked up again by a plain run, whose message has the graph's own PTX lines.
 */
#include "analysis/analysis-priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/vec.h"

#define DEFAULT_BYTES (UINT64_C(4) << 30)
#define DEFAULT_SOFT_BYTES (UINT64_C(1) << 30) /* there, device memory is the host's */
#define CHUNK (UINT64_C(64) << 20)

struct variant {
    uint32_t module;
    const struct ptx_function *entry;
    bool *constant, *pointer; /* per argument */
    uint32_t *hint, narg, threads;
    char *name;
    struct ana_code code;
};

struct mod {
    bool used;
    uint8_t *var;    /* enum ana_var by place in ir->var */
    uint32_t *buffer; /* buffer of each variable, or UINT32_MAX */
    struct dev_module_handle *handle;
    dev_ptr ctl;
};

struct rec {
    struct dev_device *d;
    const struct dev_prog *p;
    const struct dt_graph *g;
    const struct ana_options *o;
    struct ana_result *r;
    struct dt_arena tmp;
    struct dev_run *run;
    struct mod *mod;
    struct dt_vec(struct variant) variant;
    uint32_t *of;    /* variant of each launch */
    dev_ptr *addr;   /* of each buffer */
    uint64_t *bytes; /* of each buffer */
    dev_ptr arena, tab, err;
    uint64_t arena_bytes, tab_bytes, limit;
    struct dt_err *e;
};

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* Buffers that argument `a` points to: fn for each, with the place in the parameter of 8 bytes (UINT32_MAX: none). */
static uint32_t arg_buffers(const struct dt_arg *a, uint32_t *out, uint32_t cap)
{
    if (a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP) {
        if (cap)
            out[0] = a->buffer;
        return 1;
    }
    if (a->kind != DT_ARG_BYTES)
        return 0;
    for (uint32_t k = 0; k < a->npointer && k < cap; k++)
        out[k] = a->pointer[k].buffer;
    return a->npointer;
}

static uint32_t arg_buffer(const struct dt_arg *a, uint32_t k)
{
    return a->kind == DT_ARG_BYTES ? a->pointer[k].buffer : a->buffer;
}

static bool protected_buffer(const struct rec *s, uint32_t b) { return s->g->buffer[b].role == DT_WEIGHT || s->g->buffer[b].constant; }

static int refuse_write(struct rec *s, const struct dt_launch *l, uint32_t b)
{
    return dt_err_set(s->e, DT_E_WEIGHT, "launch %s writes buffer %s, which is %s", l->name, s->g->buffer[b].name,
                      s->g->buffer[b].role == DT_WEIGHT ? "a weight" : "constant");
}

/* ---- variants and modules ---------------------------------------------------------------------------------------- */
static int find_variant(struct rec *s, uint32_t launch)
{
    const struct dt_launch *l = &s->g->launch[launch];
    const struct dev_step *step = &s->p->step[launch];
    struct variant v = {.module = l->module, .entry = step->entry, .narg = l->narg, .threads = step->threads};
    v.constant = dt_new_array(&s->tmp, bool, (size_t)l->narg + 1);
    v.pointer = dt_new_array(&s->tmp, bool, (size_t)l->narg + 1);
    v.hint = dt_new_array(&s->tmp, uint32_t, (size_t)l->narg + 1);
    if (!v.constant || !v.pointer || !v.hint)
        return DT_E_NOMEM;
    uint32_t at = 0, copies = 0;
    for (uint32_t i = 0; i < l->narg; i++) {
        uint32_t n = arg_buffers(&l->arg[i], NULL, 0);
        v.pointer[i] = n > 0;
        v.constant[i] = n > 0;
        v.hint[i] = at;
        for (uint32_t k = 0; k < n; k++)
            v.constant[i] &= s->g->buffer[arg_buffer(&l->arg[i], k)].constant;
        at += n;
    }
    for (uint32_t i = 0; i < s->variant.n; i++) {
        struct variant *w = &s->variant.p[i];
        if (w->module != v.module || w->entry != v.entry)
            continue;
        if (w->narg == v.narg && !memcmp(w->constant, v.constant, v.narg * sizeof(bool)) &&
            !memcmp(w->pointer, v.pointer, v.narg * sizeof(bool)) && !memcmp(w->hint, v.hint, v.narg * sizeof *v.hint)) {
            if (v.threads > w->threads)
                w->threads = v.threads;
            s->of[launch] = i;
            return 0;
        }
        copies++;
    }
    v.name = copies ? dt_arena_printf(&s->tmp, "%s__dovetail%u", v.entry->name, copies) : dt_arena_strdup(&s->tmp, v.entry->name);
    s->of[launch] = (uint32_t)s->variant.n;
    s->mod[l->module].used = true;
    return v.name && dt_push(&s->variant, v) ? 0 : DT_E_NOMEM;
}

static int module_vars(struct rec *s, uint32_t i)
{
    const struct ptx_module *m = s->p->module[i].ir;
    struct mod *k = &s->mod[i];
    k->var = dt_new_array(&s->tmp, uint8_t, (size_t)m->nvar + 1);
    k->buffer = dt_new_array(&s->tmp, uint32_t, (size_t)m->nvar + 1);
    if (!k->var || !k->buffer)
        return DT_E_NOMEM;
    int rc = ana_module_vars(m, k->var, s->e);
    for (uint32_t v = 0; v < m->nvar && !rc; v++) {
        k->buffer[v] = UINT32_MAX;
        for (uint32_t b = 0; b < s->g->nbuffer; b++)
            if (s->g->buffer[b].module == (int)i && !strcmp(s->g->buffer[b].variable, m->var[v]->name)) {
                k->buffer[v] = b;
                k->var[v] = s->g->buffer[b].constant ? ANA_VAR_CONSTANT : ANA_VAR_MUTABLE;
            }
    }
    return rc;
}

/* The module's text without entries, with the recorder's variable, and the variants. */
static int load_module(struct rec *s, uint32_t i)
{
    struct ptx_module *m = NULL;
    struct dt_str text = {0};
    int rc = ptx_clone(s->p->module[i].ir, NULL, &m, s->e);
    if (rc)
        return rc;
    uint32_t n = 0;
    for (uint32_t k = 0; k < m->nfunc; k++)
        if (!m->func[k]->is_entry)
            m->func[n++] = m->func[k];
    m->nfunc = n;
    if (!ptx_var_new(m, NULL, ANA_CTL, PTX_GLOBAL, PTX_B64, sizeof(struct ana_ctl) / 8, 8))
        rc = DT_E_NOMEM;
    if (!rc)
        rc = ptx_print(m, &text);
    for (uint32_t k = 0; k < s->variant.n && !rc; k++) {
        struct variant *v = &s->variant.p[k];
        if (v->module != i)
            continue;
        struct ana_taint_in in = {v->constant, v->pointer, v->narg, s->mod[i].var};
        rc = ana_instrument(s->p->module[i].ir, v->entry->name, v->name, &in, v->hint, v->threads, &v->code, s->e);
        if (!rc) {
            dt_str_addc(&text, '\n');
            dt_str_add(&text, v->code.text);
        }
    }
    if (!rc && text.failed)
        rc = DT_E_NOMEM;
    uint64_t bytes;
    if (!rc)
        rc = dev_module_load(s->d, text.s, text.len, &s->mod[i].handle, s->e);
    if (!rc)
        rc = dev_module_variable(s->d, s->mod[i].handle, ANA_CTL, &s->mod[i].ctl, &bytes, s->e);
    dt_str_done(&text);
    ptx_module_free(m);
    return rc;
}

/* Addresses of all buffers; variables of instrumented modules get what the run's have. */
static int place_buffers(struct rec *s)
{
    int rc = 0;
    for (uint32_t b = 0; b < s->g->nbuffer && !rc; b++) {
        const struct dt_buffer *x = &s->g->buffer[b];
        s->bytes[b] = x->bytes;
        if (x->module < 0 || !s->mod[x->module].handle) {
            rc = dev_run_buffer(s->run, b, &s->addr[b]);
            if (rc)
                dt_err_set(s->e, rc, "buffer %s has no memory", x->name);
            continue;
        }
        uint64_t bytes;
        rc = dev_module_variable(s->d, s->mod[x->module].handle, x->variable, &s->addr[b], &bytes, s->e);
        if (!rc && bytes < x->bytes)
            rc = dt_err_set(s->e, DT_E_GRAPH, "buffer %s is larger than its variable", x->name);
        void *p = rc ? NULL : dt_malloc(x->bytes ? x->bytes : 1);
        if (!rc)
            rc = p ? dev_run_download(s->run, b, p, s->e) : DT_E_NOMEM;
        if (!rc)
            rc = dev_upload(s->d, s->addr[b], p, x->bytes, s->e);
        free(p);
    }
    return rc;
}

/* ---- one kernel launch --------------------------------------------------------------------------------------------- */
struct job {
    const struct dt_launch *l;
    const struct dev_step *step;
    struct variant *v;
    struct ana_foot *foot;
    uint32_t *buffer, nbuffer; /* distinct buffers that the launch can name */
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

static void tab_entry(struct rec *s, struct job *j, uint32_t b)
{
    for (uint32_t i = 0; i < j->nbuffer; i++)
        if (j->buffer[i] == b)
            j->tab[j->ntab++] = (struct ana_tab){s->addr[b], s->bytes[b], j->bit[i], s->addr[b] % 32};
}

/* Buffers, their places in the bitmaps, and the table. */
static int make_table(struct rec *s, struct job *j, struct dt_arena *a)
{
    const struct mod *m = &s->mod[j->l->module];
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
static int make_params(struct rec *s, struct job *j, uint32_t launch)
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

static int fault(struct rec *s, struct job *j, const struct ana_fault *f)
{
    const uint32_t *g = j->l->grid;
    const struct ana_site *x = f->site <= j->v->code.sites.nsite ? &j->v->code.sites.site[f->site - 1] : NULL;
    const struct ptx_inst *i = x && x->inst < j->v->entry->ninst ? &j->v->entry->inst[x->inst] : NULL;
    struct dt_str text = {0};
    if (i)
        ptx_print_inst(j->v->entry, i, &text);
    int rc = dt_err_set(s->e, DT_E_BOUNDS,
                        "launch %s: kernel %s, block (%u,%u,%u), thread (%u,%u,%u), PTX line %u: %s: %u bytes at 0x%" PRIx64
                        " are outside every buffer",
                        j->l->name, j->v->entry->name, f->block % g[0], f->block / g[0] % g[1], f->block / g[0] / g[1],
                        f->tid[0], f->tid[1], f->tid[2], i ? i->line : 0, text.s ? text.s : "?", x ? x->bytes : 0,
                        f->address);
    dt_str_done(&text);
    return rc;
}

/* Intervals of one bitmap of one buffer. */
static int intervals(struct rec *s, struct job *j, uint32_t i, const uint32_t *word, uint32_t block, enum ana_kind k,
                     enum ana_evidence ev, struct ana_interval **iv, size_t *cap)
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

static int read_bitmaps(struct rec *s, struct job *j, uint32_t first, uint32_t count)
{
    const struct ana_code *c = &j->v->code;
    uint64_t stride = c->nplane * j->plane_bytes;
    uint32_t per = stride < CHUNK ? (uint32_t)(CHUNK / stride) : 1;
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
                    const uint32_t *w = (const uint32_t *)(buf + b * stride + (unsigned)c->plane[k][ev] * j->plane_bytes);
                    for (uint32_t i = 0; i < j->nbuffer && !rc; i++)
                        rc = intervals(s, j, i, w, first + at + b, k, ev, &iv, &cap);
                }
    }
    free(buf);
    free(iv);
    return rc;
}

static int need_device(struct rec *s, dev_ptr *p, uint64_t *have, uint64_t bytes)
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
static int need_arena(struct rec *s, uint64_t stride, uint32_t blocks, uint32_t *ret)
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

static int take(struct rec *s, struct job *j, struct snapshot *k)
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

static int put_back(struct rec *s, struct job *j, const struct snapshot *k)
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
static int explain(struct rec *s, int rc, struct dt_err *mine)
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

static int run_windows(struct rec *s, struct job *j)
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
        rc = dev_launch(s->d, s->mod[j->l->module].handle, j->v->name, j->l->grid, j->l->block, j->l->cluster, j->l->shared,
                        j->params, j->step->param_total, &mine);
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
static int site_buffers(struct rec *s, struct job *j, const struct ana_site *x, int (*fn)(struct rec *, struct job *,
                        uint32_t, uint32_t), uint32_t site)
{
    bool some = false;
    int rc = 0;
    for (uint32_t k = 0; k < x->nparams && !rc; k++)
        for (uint32_t q = 0; x->params[k] < j->l->narg && q < arg_buffers(&j->l->arg[x->params[k]], NULL, 0) && !rc; q++) {
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

static int widen(struct rec *s, struct job *j, uint32_t site, uint32_t b)
{
    int rc = 0;
    for (unsigned k = 0; k < ANA_KINDS && !rc; k++)
        if (j->v->code.kinds[site] >> k & 1 && s->bytes[b])
            rc = ana_foot_widen(j->foot, b, k);
    return rc;
}

static int note(struct rec *s, struct job *j, uint32_t site, uint32_t b)
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
static int check_site(struct rec *s, struct job *j, const struct ana_site *x, uint32_t site)
{
    const struct ptx_module *ir = s->p->module[j->l->module].ir;
    uint32_t n = 0, bad = 0, one = 0;
    if (!x->writes)
        return 0;
    for (uint32_t k = 0; k < x->nvars; k++)
        for (uint32_t v = 0; v < ir->nvar; v++)
            if (ir->var[v] == x->vars[k] && s->mod[j->l->module].buffer[v] == UINT32_MAX)
                return dt_err_set(s->e, DT_E_UNSUPPORTED,
                                  "launch %s: kernel %s writes the module variable %s, which is not declared as a buffer \"%s::%s\"",
                                  j->l->name, j->v->entry->name, ir->var[v]->name, s->g->module[j->l->module].name,
                                  ir->var[v]->name);
    for (uint32_t k = 0; k < x->nparams; k++)
        for (uint32_t q = 0; x->params[k] < j->l->narg && q < arg_buffers(&j->l->arg[x->params[k]], NULL, 0); q++) {
            uint32_t b = arg_buffer(&j->l->arg[x->params[k]], q);
            n++;
            if (protected_buffer(s, b))
                bad++, one = b;
        }
    return j->v->code.wide[site] && n && n == bad ? refuse_write(s, j->l, one) : 0;
}

static int kernel(struct rec *s, uint32_t launch, struct ana_foot *foot)
{
    struct job j = {.l = &s->g->launch[launch], .step = &s->p->step[launch], .v = &s->variant.p[s->of[launch]], .foot = foot};
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

/* ---- memset and copy ------------------------------------------------------------------------------------------------ */
static int copy_bytes(struct rec *s, const struct dt_launch *l)
{
    bool whole = l->src == l->dst; /* may overlap */
    uint64_t n = whole || l->bytes < CHUNK ? l->bytes : CHUNK;
    uint8_t *buf = dt_malloc(n ? n : 1);
    int rc = buf ? 0 : DT_E_NOMEM;
    for (uint64_t at = 0; at < l->bytes && !rc; at += n) {
        uint64_t k = l->bytes - at < n ? l->bytes - at : n;
        rc = dev_download(s->d, buf, s->addr[l->src] + l->src_offset + at, k, s->e);
        if (!rc)
            rc = dev_upload(s->d, s->addr[l->dst] + l->dst_offset + at, buf, k, s->e);
    }
    free(buf);
    return rc;
}

static int step(struct rec *s, uint32_t launch, struct ana_foot *foot)
{
    const struct dt_launch *l = &s->g->launch[launch];
    if (protected_buffer(s, l->dst))
        return refuse_write(s, l, l->dst);
    struct ana_interval to = {l->dst_offset, l->dst_offset + l->bytes}, from = {l->src_offset, l->src_offset + l->bytes};
    uint32_t n = l->bytes ? 1 : 0;
    int rc = ana_foot_add(foot, 0, l->dst, ANA_WRITE, ANA_PROVED, &to, n);
    if (!rc && l->kind == DT_COPY)
        rc = ana_foot_add(foot, 0, l->src, ANA_READ, ANA_PROVED, &from, n);
    if (rc || !n)
        return rc;
    return l->kind == DT_COPY ? copy_bytes(s, l) : dev_set(s->d, s->addr[l->dst] + l->dst_offset, l->value, l->bytes, s->e);
}

/* ---- the whole graph ------------------------------------------------------------------------------------------------ */
static int prepare(struct rec *s)
{
    const struct dt_graph *g = s->g;
    s->mod = dt_new_array(&s->tmp, struct mod, (size_t)g->nmodule + 1);
    s->of = dt_new_array(&s->tmp, uint32_t, (size_t)g->nlaunch + 1);
    s->addr = dt_new_array(&s->tmp, dev_ptr, (size_t)g->nbuffer + 1);
    s->bytes = dt_new_array(&s->tmp, uint64_t, (size_t)g->nbuffer + 1);
    s->r->launch = dt_new_array(&s->r->arena, struct ana_launch, (size_t)g->nlaunch + 1);
    int rc = s->tmp.failed || !s->r->launch ? DT_E_NOMEM : dev_run_new(s->d, s->p, &s->run, s->e);
    if (!rc)
        rc = dev_run_fill(s->run, 0, -1, s->e);
    for (uint32_t i = 0; i < g->nlaunch && !rc; i++)
        if (g->launch[i].kind == DT_KERNEL)
            rc = find_variant(s, i);
    for (uint32_t i = 0; i < g->nmodule && !rc; i++) {
        if (!s->mod[i].used)
            continue;
        rc = module_vars(s, i);
        if (!rc)
            rc = load_module(s, i);
    }
    if (!rc)
        rc = place_buffers(s);
    if (!rc)
        rc = dev_alloc(s->d, sizeof(struct ana_fault), &s->err, s->e);
    return rc;
}

static int record(struct rec *s)
{
    const struct dt_graph *g = s->g;
    int rc = prepare(s);
    for (uint32_t i = 0; i < g->nlaunch && !rc; i++) {
        bool is_kernel = g->launch[i].kind == DT_KERNEL;
        if (s->o->progress)
            s->o->progress("analyze", g->launch[i].name, i, g->nlaunch, s->o->user);
        struct ana_foot *foot = ana_foot_new(&s->r->arena, is_kernel ? s->p->step[i].blocks : 1, g->nbuffer, s->bytes);
        rc = !foot ? DT_E_NOMEM : is_kernel ? kernel(s, i, foot) : step(s, i, foot);
        if (!rc)
            rc = ana_foot_finish(foot, &s->r->launch[i], s->e);
        ana_foot_free(foot);
    }
    return rc;
}

static void done(struct rec *s)
{
    for (uint32_t i = 0; s->mod && i < s->g->nmodule; i++)
        if (s->mod[i].handle)
            dev_module_unload(s->d, s->mod[i].handle);
    for (uint32_t i = 0; i < s->variant.n; i++)
        ana_code_done(&s->variant.p[i].code);
    free(s->variant.p);
    if (s->arena)
        dev_free(s->d, s->arena);
    if (s->tab)
        dev_free(s->d, s->tab);
    if (s->err)
        dev_free(s->d, s->err);
    dev_run_free(s->run);
    dt_arena_done(&s->tmp);
}

int ana_run(struct dev_device *d, const struct dev_prog *p, const struct ana_options *o, struct ana_result **ret,
            struct dt_err *e)
{
    static const struct ana_options none;
    struct ana_result *r = dt_calloc(1, sizeof *r);
    if (!r)
        return dt_err_set(e, DT_E_NOMEM, "no memory for an analysis");
    r->prog = p;
    struct rec s = {.d = d, .p = p, .g = p->graph, .o = o ? o : &none, .r = r, .e = e};
    s.limit = s.o->max_bytes ? s.o->max_bytes : strcmp(dev_info(d)->kind, "soft") ? DEFAULT_BYTES : DEFAULT_SOFT_BYTES;
    int rc = record(&s);
    done(&s);
    if (!rc && s.o->progress)
        s.o->progress("maps", "", p->graph->nlaunch, p->graph->nlaunch, s.o->user);
    if (!rc)
        rc = ana_maps(r, p->graph->nlaunch, p->graph->nbuffer, s.o->all_edges, e);
    if (rc) {
        ana_free(r);
        return dt_err_set(e, rc, "the analysis failed");
    }
    *ret = r;
    return 0;
}

struct ana_result *ana_free(struct ana_result *r)
{
    if (r)
        dt_arena_done(&r->arena);
    free(r);
    return NULL;
}
