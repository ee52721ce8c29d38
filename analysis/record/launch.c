/* One kernel launch, run and recorded.
 *
 * Instrumented recorder: builds a table of the buffers that the arguments and module variables name, and bitmaps of
 * blocks × planes × granules; launches, waits, and reads the bitmaps back as intervals. Bitmaps larger than the limit
 * are cut into windows of blocks: the launch is run once for each window, on buffers restored from a snapshot. Native
 * recorder: the software device hands out the intervals of each block as it ends (softgpu/record.h).
 *
 * An access outside every buffer is an error with launch, block, thread and the PTX line of the graph's own module. A
 * write to a weight or constant buffer is refused, also where the write is only widened but can go nowhere else. A
 * fault of the device is looked up again by a plain run in a new context, whose message has the graph's own PTX lines.
 */
#include "analysis/record/record-priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/subject.h"

#define WHOLE (UINT64_C(128) << 20) /* bitmaps over this are paged */
#define LOG (UINT64_C(32) << 20)    /* of entries of spans, at most */

struct snapshot {
    uint8_t **copy; /* per buffer of the job, NULL: not written */
};

struct job {
    const struct dt_launch *l;
    const struct dev_step *step;
    struct ana_variant *v;
    struct ana_foot *foot;
    uint32_t *buffer, nbuffer;  /* distinct buffers that the launch can name */
    uint64_t *bit, plane_bytes; /* first bit of each of them in a plane */
    struct ana_tab *tab;
    uint32_t *tab_buffer, ntab; /* buffer of each entry, UINT32_MAX: none */
    uint8_t *params;
    struct snapshot snap;
    uint8_t **held; /* by buffer of the graph: its content before the run, or NULL */
    uint32_t passes;
    uint32_t over; /* ANA_OVER_GHOST: what ghosts record is widened; ANA_OVER_UNWRITTEN: everything is */
};

static bool has_buffer(const struct job *j, uint32_t b)
{
    for (uint32_t i = 0; i < j->nbuffer; i++)
        if (j->buffer[i] == b)
            return true;
    return false;
}

static void job_buffer(struct job *j, uint32_t b)
{
    if (has_buffer(j, b))
        return;
    j->buffer[j->nbuffer++] = b;
}

static void tab_entry(struct ana_rec *s, struct job *j, uint32_t b)
{
    for (uint32_t i = 0; i < j->nbuffer; i++)
        if (j->buffer[i] == b) {
            j->tab_buffer[j->ntab] = b;
            j->tab[j->ntab++] = (struct ana_tab){
                s->addr[b], s->bytes[b], j->bit[i], (uint32_t)(s->addr[b] % 32), protected_buffer(s, b), 0, 0};
        }
}

/* The buffers that the launch can name; how many table entries they may need. */
static size_t list_buffers(struct ana_rec *s, struct job *j, struct dt_arena *a)
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
static int make_table(struct ana_rec *s, struct job *j, struct dt_arena *a)
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
static int make_params(struct ana_rec *s, struct job *j, uint32_t launch)
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
    return rc ? dt_err_set(s->e, rc, "launch %s: no parameters", j->l->name) : 0;
}

/* "; its address comes from argument 2 (buffer x)" */
static void origin_of(struct ana_rec *s, struct job *j, const struct ana_site *x, struct dt_str *out)
{
    dt_str_add(out, "; its address comes from ");
    for (uint32_t k = 0; k < x->nparams; k++) {
        const struct dt_arg *a = x->params[k] < j->l->narg ? &j->l->arg[x->params[k]] : NULL;
        dt_str_addf(out, "%sargument %u", k ? " or " : "", x->params[k]);
        for (uint32_t q = 0; a && q < arg_buffers(a, NULL, 0); q++)
            dt_str_addf(out, "%s" DT_BUFFER, q ? ", " : " (", s->g->buffer[arg_buffer(a, q)].name);
        dt_str_add(out, a && arg_buffers(a, NULL, 0) ? ")" : "");
    }
    for (uint32_t k = 0; k < x->nvars; k++)
        dt_str_addf(out, "%svariable %s", k || x->nparams ? " or " : "", x->vars[k]->name);
    if (!x->nparams && !x->nvars)
        dt_str_add(out, x->address == ANA_PROVED ? "no argument that is a buffer" : "data");
}

static int fault(struct ana_rec *s, struct job *j, const struct ana_fault *f)
{
    const uint32_t *g = j->l->grid;
    const struct ana_site *x = f->site <= j->v->code.sites.nsite ? &j->v->code.sites.site[f->site - 1] : NULL;
    const struct ptx_inst *i = x && x->inst < j->v->entry->ninst ? &j->v->entry->inst[x->inst] : NULL;
    struct dt_str text = {0};
    s->found = true;
    for (uint32_t k = 0; k < j->ntab; k++) {
        const struct ana_tab *t = &j->tab[k];
        if (!x || !x->writes || !t->fixed || f->address - t->base >= t->bytes ||
            t->bytes - (f->address - t->base) < x->bytes)
            continue;
        for (uint32_t b = 0; b < s->g->nbuffer; b++)
            if (s->addr[b] == t->base && protected_buffer(s, b))
                return refuse_write(s, j->l, b);
        return dt_err_set(s->e, DT_E_UNSUPPORTED,
                          "launch %s: kernel %s, PTX line %u writes a module variable that is not declared as a buffer",
                          j->l->name, j->v->entry->name, i ? i->line : 0);
    }
    dt_str_addf(&text, "launch %s: kernel %s, block (%u,%u,%u), thread (%u,%u,%u), PTX line %u: ", j->l->name,
                j->v->entry->name, f->block % g[0], f->block / g[0] % g[1], f->block / g[0] / g[1], f->tid[0],
                f->tid[1], f->tid[2], i ? i->line : 0);
    struct dt_str inst = {0};
    if (i)
        ptx_print_inst(j->v->entry, i, &inst);
    size_t n = inst.s ? inst.len - (inst.len && inst.s[inst.len - 1] == ';') : 0;
    dt_str_addn(&text, inst.s ? inst.s : "", n);
    dt_str_done(&inst);
    uint32_t bytes = x && x->bytes ? x->bytes : 1;
    if (x && !x->bytes)
        dt_str_add(&text, ": its first or last byte is outside every buffer of the launch: ");
    else
        dt_str_addf(&text, ": %u bytes %s: ", bytes,
                    f->address % bytes ? "at a misaligned address" : "outside every buffer of the launch");
    dev_where(s->g, s->addr, f->address, bytes, &text);
    for (uint32_t b = 0; b < s->g->nbuffer; b++)
        if (f->address - s->addr[b] < s->bytes[b] && !has_buffer(j, b))
            dt_str_add(&text, ", which is not one of its arguments");
    if (x)
        origin_of(s, j, x, &text);
    int rc = dt_err_set(s->e, DT_E_BOUNDS, "%s", text.s && !text.failed ? text.s : "an access outside every buffer");
    dt_str_done(&text);
    return rc;
}

/* ---- bitmaps to intervals ---------------------------------------------------------------------------------------- */
struct runs { /* of set bits, by number in the plane */
    struct ana_interval *iv;
    size_t n, cap;
};

/* Append the runs of set bits in [from, to); w[0] holds bit `base` (a multiple of 32) and the next. */
static int scan(struct runs *r, const uint32_t *w, uint64_t base, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to;) {
        uint32_t v = w[(at - base) / 32] >> at % 32;
        if (!v) {
            at = (at / 32 + 1) * 32;
            continue;
        }
        at += (uint64_t)__builtin_ctz(v);
        uint64_t first = at;
        while (at < to) {
            v = ~(w[(at - base) / 32] >> at % 32);
            unsigned run = v ? (unsigned)__builtin_ctz(v) : 32, left = 32 - at % 32;
            if (run < left) {
                at += run;
                break;
            }
            at += left;
        }
        if (at > to)
            at = to;
        if (first >= to)
            break;
        if (r->n && r->iv[r->n - 1].hi == first) { /* from the page before */
            r->iv[r->n - 1].hi = at;
            continue;
        }
        if (!dt_vec_grow_((void **)&r->iv, &r->cap, r->n + 1, sizeof *r->iv))
            return DT_E_NOMEM;
        r->iv[r->n++] = (struct ana_interval){first, at};
    }
    return 0;
}

/* Runs of buffer i of the job, as bytes of the buffer, into the footprint. */
static int flush(struct ana_rec *s, struct job *j, struct runs *r, uint32_t i, uint32_t block, unsigned k, unsigned ev)
{
    uint32_t b = j->buffer[i];
    uint64_t bytes = s->bytes[b], pad = s->addr[b] % 32;
    unsigned shift = j->v->code.shift;
    size_t n = 0;
    for (size_t q = 0; q < r->n; q++) {
        uint64_t lo = (r->iv[q].lo - j->bit[i]) << shift, hi = ((r->iv[q].hi - j->bit[i]) << shift) - pad;
        lo = lo < pad ? 0 : lo - pad;
        hi = hi > bytes ? bytes : hi;
        if (lo < hi)
            r->iv[n++] = (struct ana_interval){lo, hi};
    }
    r->n = 0;
    if (n && k != ANA_READ && protected_buffer(s, b))
        return refuse_write(s, j->l, b);
    return n ? ana_foot_add(j->foot, block, b, k, ev, r->iv, (uint32_t)n) : 0;
}

static uint64_t bits_of(const struct ana_rec *s, const struct job *j, uint32_t i)
{
    return ((s->bytes[j->buffer[i]] + s->addr[j->buffer[i]] % 32) >> j->v->code.shift) + 1;
}

/* One plane of one block. Whole: `word` is the plane. Paged: dir[p] is the number of page p among the pages at `word`,
 * 0: none. */
static int read_plane(struct ana_rec *s, struct job *j, struct runs *r, const uint32_t *word, const uint32_t *dir,
                      unsigned page_shift, uint32_t block, unsigned k, unsigned ev)
{
    int rc = 0;
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++) {
        uint64_t lo = j->bit[i], hi = lo + bits_of(s, j, i);
        if (!dir)
            rc = scan(r, word, 0, lo, hi);
        for (uint64_t p = lo >> page_shift; dir && p << page_shift < hi && !rc; p++) {
            uint64_t from = p << page_shift, to = (p + 1) << page_shift;
            if (dir[p])
                rc = scan(r, word + ((uint64_t)dir[p] << page_shift) / 32, from, lo > from ? lo : from,
                          hi < to ? hi : to);
        }
        if (!rc)
            rc = flush(s, j, r, i, block, k, ev);
    }
    return rc;
}

/* All planes of `count` blocks whose bitmaps lie one after the other at `word`, or are paged through `dir`. */
static int read_blocks(struct ana_rec *s, struct job *j, const uint32_t *word, const uint32_t *dir, uint64_t pages,
                       unsigned page_shift, uint32_t first, uint32_t count)
{
    const struct ana_code *c = &j->v->code;
    struct runs r = {0};
    int rc = 0;
    for (uint64_t b = 0; b < count && !rc; b++)
        for (unsigned k = 0; k < ANA_KINDS; k++)
            for (unsigned ev = 0; ev < ANA_EVIDENCES && !rc; ev++) {
                if (c->plane[k][ev] < 0)
                    continue;
                uint64_t plane = b * c->nplane + (unsigned)c->plane[k][ev];
                rc = read_plane(s, j, &r, dir ? word : word + plane * j->plane_bytes / 4,
                                dir ? dir + plane * pages : NULL, page_shift, first + (uint32_t)b, k, ev);
            }
    free(r.iv);
    return rc;
}

/* ---- memory on the device ---------------------------------------------------------------------------------------- */
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

/* The instrumented launch has faulted on the software device: the plain launches, in a context of their own, say it
 * with the graph's own PTX lines. */
static int explain(struct ana_rec *s, int rc, struct dt_err *mine)
{
    struct dt_err plain = {0};
    struct dev_run *run = NULL;
    int r = 0;
    if (dev_info(s->d)->soft &&
        (rc == DT_E_TRAP || rc == DT_E_BOUNDS || rc == DT_E_DEADLOCK || rc == DT_E_UNSUPPORTED)) {
        r = dev_reset(s->d, &plain);
        if (!r)
            r = dev_run_new(s->d, s->p, &run, &plain);
        if (!r)
            r = dev_run_fill(run, 0, -1, &plain);
        if (!r)
            r = dev_run_once(run, &plain);
        dev_run_free(run);
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

/* ---- the log of spans -------------------------------------------------------------------------------------------- */
/* Room for it, empty. */
static int clear_log(struct ana_rec *s)
{
    uint64_t bytes = LOG < s->limit ? LOG : s->limit, head[2] = {0, (bytes - 16) / sizeof(struct ana_logged)};
    int rc = need_device(s, &s->log, &s->log_bytes, bytes);
    return rc ? rc : dev_upload(s->d, s->log, head, sizeof head, s->e);
}

static int read_log(struct ana_rec *s, struct job *j)
{
    uint64_t head[2];
    int rc = dev_download(s->d, head, s->log, sizeof head, s->e);
    if (rc)
        return rc;
    if (head[0] > head[1]) { /* which of them found room is chance */
        j->over |= ANA_OVER_LOG;
        return 0;
    }
    struct ana_logged *e = dt_reallocarray(NULL, head[0] + 1, sizeof *e);
    const struct ana_logged *outside = NULL;
    struct ana_log_in in = {&j->v->code, j->l, j->tab, j->tab_buffer, j->ntab, s->bytes, j->foot};
    bool over = false;
    rc = e ? dev_download(s->d, e, s->log + 16, head[0] * sizeof *e, s->e) : DT_E_NOMEM;
    if (!rc)
        rc = ana_log_read(&in, e, head[0], &over, &outside);
    j->over |= over ? ANA_OVER_LOG : 0;
    if (!rc && outside) {
        struct ana_fault f = {.site = outside->site + 1, .block = outside->block, .address = outside->address};
        memcpy(f.tid, outside->tid, sizeof f.tid);
        rc = fault(s, j, &f);
    }
    free(e);
    return rc;
}

/* ---- passes
 * ---------------------------------------------------------------------------------------------------------- */
/* Run the launch once, recording as ctl says, into `bytes` zeroed bytes at `zero`. stray: what the device's own
 * recorder says; NULL: the error slot does. */
static int pass(struct ana_rec *s, struct job *j, struct ana_ctl ctl, dev_ptr zero, uint64_t bytes,
                const struct dovetail_stray *stray)
{
    struct ana_fault f = {.over = j->over & ANA_OVER_GHOST}; /* ghosts that were given up stay so */
    struct dt_err mine = {0};
    int rc = j->passes++ ? put_back(s, j, &j->snap) : 0;
    ctl.tab = s->tab;
    ctl.err = s->err;
    ctl.entries = j->ntab;
    if (!rc && bytes)
        rc = dev_set(s->d, zero, 0, bytes, s->e);
    dev_ptr to = s->mod[j->l->module].ctl;
    if (!rc && to)
        rc = dev_upload(s->d, s->err, &f, sizeof f, s->e);
    if (!rc && to)
        rc = dev_upload(s->d, to, &ctl, sizeof ctl, s->e);
    if (rc)
        return rc;
    rc = dev_launch(s->d, s->mod[j->l->module].handle, j->v->name, j->l->grid, j->l->block, j->l->cluster, j->l->shared,
                    j->params, j->step->param_total, &mine);
    if (!rc)
        rc = dev_sync(s->d, &mine);
    if (rc)
        return explain(s, rc, &mine);
    rc = to ? dev_download(s->d, &f, s->err, sizeof f, s->e) : 0;
    j->over |= f.over;
    if (stray && stray->found)
        f = (struct ana_fault){stray->site + 1,
                               (uint32_t)stray->block,
                               stray->address,
                               {stray->thread[0], stray->thread[1], stray->thread[2]},
                               f.over};
    if (!rc && f.site)
        rc = fault(s, j, &f);
    return !rc && ctl.log ? read_log(s, j) : rc;
}

/* All blocks at once, whole bitmaps. */
static int whole(struct ana_rec *s, struct job *j, uint64_t stride)
{
    uint32_t blocks = j->step->blocks;
    uint64_t bytes = stride * blocks;
    int rc = need_device(s, &s->arena, &s->arena_bytes, bytes + 16);
    bool logs = j->v->code.logs;
    if (!rc && logs)
        rc = clear_log(s);
    struct ana_ctl ctl = {.rec = s->arena,
                          .stride = stride,
                          .plane = j->plane_bytes,
                          .count = bytes || logs ? blocks : 0,
                          .mask = ~0u,
                          .log = logs ? s->log : 0};
    if (!rc)
        rc = pass(s, j, ctl, s->arena, bytes, NULL);
    uint32_t *word = rc || !bytes ? NULL : dt_malloc(bytes);
    if (!rc && bytes)
        rc = word ? dev_download(s->d, word, s->arena, bytes, s->e) : DT_E_NOMEM;
    if (!rc && bytes)
        rc = read_blocks(s, j, word, NULL, 0, 0, 0, blocks);
    free(word);
    return rc;
}

/* Blocks [first, first + count) with the pages that coarse bits (of these blocks, one after the other) say they touch.
 */
static int fine(struct ana_rec *s, struct job *j, const uint32_t *coarse, uint64_t coarse_words, uint64_t pages,
                unsigned ps, uint32_t first, uint32_t count, uint64_t npage)
{
    unsigned nplane = j->v->code.nplane;
    uint64_t dir_bytes = count * nplane * pages * 4, page_bytes = (UINT64_C(1) << ps) / 8,
             at = (dir_bytes + 511) / 512 * 512;
    uint64_t bytes = (npage + 1) * page_bytes;
    uint32_t *dir = dt_calloc(dir_bytes ? dir_bytes : 1, 1), *word = dt_malloc(bytes), number = 0;
    int rc = dir && word && npage < UINT32_MAX ? 0 : DT_E_NOMEM;
    for (uint64_t q = 0; q < (uint64_t)count * nplane && !rc; q++)
        for (uint64_t w = 0; w < coarse_words; w++)
            for (uint32_t v = coarse[q * coarse_words + w]; v; v &= v - 1)
                dir[q * pages + w * 32 + (unsigned)__builtin_ctz(v)] = ++number;
    if (!rc)
        rc = need_device(s, &s->arena, &s->arena_bytes, at + bytes);
    if (!rc)
        rc = dev_upload(s->d, s->arena, dir, dir_bytes, s->e);
    if (!rc && j->v->code.logs)
        rc = clear_log(s);
    struct ana_ctl ctl = {.rec = s->arena,
                          .log = j->v->code.logs ? s->log : 0,
                          .stride = nplane * pages * 4,
                          .plane = pages * 4,
                          .first = first,
                          .count = count,
                          .mask = ~0u,
                          .page_shift = ps,
                          .pages = s->arena + at};
    if (!rc)
        rc = pass(s, j, ctl, s->arena + at, bytes, NULL);
    if (!rc)
        rc = dev_download(s->d, word, s->arena + at, bytes, s->e);
    /* page 0 catches what the first pass did not see; what is widened in the end may differ */
    for (uint64_t k = 0; k < page_bytes / 4 && !rc && !j->over; k++)
        if (word[k])
            rc = dt_err_set(s->e, DT_E_RACE, "launch %s touches other bytes when it is run again on the same data",
                            j->l->name);
    if (!rc)
        rc = read_blocks(s, j, word, dir, pages, ps, first, count);
    free(dir);
    free(word);
    return rc;
}

/* Two passes over windows of blocks: which pages each block touches, then these pages. */
static int paged(struct ana_rec *s, struct job *j)
{
    unsigned ps = 5, nplane = j->v->code.nplane;
    uint64_t bits = j->plane_bytes * 8, blocks = j->step->blocks;
    while (ps < 20 && (UINT64_C(1) << 2 * ps) < 32 * bits) /* directory and one page of about the same size */
        ps++;
    uint64_t pages = (bits >> ps) + 1, words = (pages + 31) / 32, stride = nplane * words * 4;
    uint64_t per = s->limit / stride < 1 ? 1 : s->limit / stride < blocks ? s->limit / stride : blocks;
    uint64_t page_bytes = (UINT64_C(1) << ps) / 8, dir = nplane * pages * 4;
    uint32_t *coarse = dt_malloc(per * stride);
    int rc = coarse ? take(s, j, &j->snap) : DT_E_NOMEM;
    for (uint64_t first = 0; first < blocks && !rc; first += per) {
        uint64_t n = blocks - first < per ? blocks - first : per;
        rc = need_device(s, &s->arena, &s->arena_bytes, n * stride);
        struct ana_ctl ctl = {.rec = s->arena,
                              .stride = stride,
                              .plane = words * 4,
                              .first = (uint32_t)first,
                              .count = (uint32_t)n,
                              .coarse = ps,
                              .mask = 1};
        if (!rc)
            rc = pass(s, j, ctl, s->arena, n * stride, NULL);
        if (!rc)
            rc = dev_download(s->d, coarse, s->arena, n * stride, s->e);
        for (uint64_t b = 0, from = 0, held = 0; b < n && !rc; b++) {
            uint64_t mine = 0;
            for (uint64_t w = 0; w < nplane * words; w++)
                mine += (unsigned)__builtin_popcount(coarse[b * nplane * words + w]);
            if (b > from && (b + 1 - from) * dir + (held + mine + 1) * page_bytes > s->limit) {
                rc = fine(s, j, coarse + from * nplane * words, words, pages, ps, (uint32_t)(first + from),
                          (uint32_t)(b - from), held);
                from = b;
                held = 0;
            }
            held += mine;
            if (b + 1 == n && !rc)
                rc = fine(s, j, coarse + from * nplane * words, words, pages, ps, (uint32_t)(first + from),
                          (uint32_t)(n - from), held);
        }
    }
    free(coarse);
    drop(j, &j->snap);
    return rc;
}

/* ---- by the device's own recorder -------------------------------------------------------------------------------- */
struct native {
    struct ana_rec *s;
    struct job *j;
    struct runs r;
    uint64_t refused; /* the first block that writes what nobody may, + 1 */
    uint32_t buffer;
    int rc;
};

static void touched(void *user, uint64_t block, uint32_t range, uint32_t plane, const uint64_t (*run)[2], size_t n)
{
    struct native *x = user;
    const struct ana_code *c = &x->j->v->code;
    uint32_t b = x->j->buffer[range];
    for (unsigned k = 0; k < ANA_KINDS; k++)
        for (unsigned ev = 0; ev < ANA_EVIDENCES && !x->rc; ev++) {
            if (c->plane[k][ev] != (int)plane)
                continue;
            if (k != ANA_READ && protected_buffer(x->s, b)) {
                if (!x->refused || block < x->refused - 1)
                    x->refused = block + 1, x->buffer = b;
            } else if (n > UINT32_MAX || !dt_vec_grow_((void **)&x->r.iv, &x->r.cap, n, sizeof *x->r.iv)) {
                x->rc = DT_E_NOMEM;
            } else {
                for (size_t i = 0; i < n; i++)
                    x->r.iv[i] = (struct ana_interval){run[i][0], run[i][1]};
                x->rc = ana_foot_add(x->j->foot, (uint32_t)block, b, k, ev, x->r.iv, (uint32_t)n);
            }
        }
}

/* One pass: the device says what each block has touched. */
static int native(struct ana_rec *s, struct job *j)
{
    const struct ana_code *c = &j->v->code;
    struct dt_arena a = {0};
    struct native x = {.s = s, .j = j};
    struct dovetail_touch_site *site = dt_new_array(&a, struct dovetail_touch_site, (size_t)c->sites.nsite + 1);
    struct dovetail_touch_range *range =
        dt_new_array(&a, struct dovetail_touch_range, (size_t)j->nbuffer + j->ntab + 1);
    struct dovetail_recorder rec = {.site = site,
                                    .range = range,
                                    .nsite = c->sites.nsite,
                                    .nrange = j->nbuffer,
                                    .nplane = c->nplane,
                                    .shift = c->shift,
                                    .touched = touched,
                                    .user = &x};
    int rc = a.failed ? DT_E_NOMEM : 0;
    for (uint32_t k = 0; k < c->sites.nsite && !rc; k++) {
        const struct ana_site *y = &c->sites.site[k];
        site[k] = (struct dovetail_touch_site){.bytes = y->bytes ? y->bytes : 1, .writes = y->writes};
        for (unsigned q = 0; q < ANA_KINDS && !c->wide[k] && y->bytes; q++)
            if (c->kinds[k] >> q & 1)
                site[k].planes |= 1u << c->plane[q][c->evidence[k * ANA_KINDS + q]];
    }
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++)
        range[i] = (struct dovetail_touch_range){s->addr[j->buffer[i]], s->bytes[j->buffer[i]], 1,
                                                 protected_buffer(s, j->buffer[i])};
    for (uint32_t i = 0; i < j->ntab && !rc; i++)
        if (j->tab[i].bit == UINT64_MAX)
            range[rec.nrange++] = (struct dovetail_touch_range){j->tab[i].base, j->tab[i].bytes, 0, j->tab[i].fixed};
    if (!rc && c->logs)
        rc = clear_log(s);
    struct ana_ctl ctl = {.count = j->step->blocks, .log = c->logs ? s->log : 0};
    if (!rc)
        rc = dev_record(s->d, &rec, s->e);
    if (!rc)
        rc = pass(s, j, ctl, 0, 0, &rec.stray);
    dev_record(s->d, NULL, NULL);
    if (!rc)
        rc = x.rc ? x.rc : x.refused ? refuse_write(s, j->l, x.buffer) : 0;
    free(x.r.iv);
    dt_arena_done(&a);
    return rc;
}

static int run(struct ana_rec *s, struct job *j)
{
    if (s->native)
        return native(s, j);
    uint64_t stride = j->v->code.nplane * j->plane_bytes, most = s->limit < WHOLE ? s->limit : WHOLE;
    bool once = !stride || stride <= most / j->step->blocks;
    for (uint32_t i = 0; i < 2 * j->ntab; i++) {
        struct ana_tab *t = &j->tab[i];
        t->fast = once && t->bit != UINT64_MAX ? t->bytes : 0;
        t->key = t->base - t->pad - (t->bit << j->v->code.shift);
    }
    int rc = need_device(s, &s->tab, &s->tab_bytes, 2 * j->ntab * sizeof *j->tab);
    if (!rc)
        rc = dev_upload(s->d, s->tab, j->tab, 2 * j->ntab * sizeof *j->tab, s->e);
    if (rc)
        return rc;
    return once ? whole(s, j, stride) : paged(s, j);
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
        if (j->v->code.kinds[site] >> k & 1 && s->bytes[b]) {
            if (k != ANA_WRITE || !protected_buffer(s, b)) /* a write there is refused where it happens */
                rc = ana_foot_widen(j->foot, b, k == ANA_RED && protected_buffer(s, b) ? ANA_READ : (enum ana_kind)k);
        }
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
    uint32_t width = x->span == ANA_SPAN_MATRIX || x->span == ANA_SPAN_TENSOR ? 32 : x->span ? 16 : x->bytes;
    if (width > a->max_width)
        a->max_width = width;
    return 0;
}

/* What the entry tests of its pointers' alignment, its buffers must have. */
static int note_alignment(struct ana_rec *s, struct job *j)
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
    return j->v->code.wide[site] && n && n == bad && !x->elsewhere ? refuse_write(s, j->l, one) : 0;
}

/* What nobody may write, where a write that cannot be looked at (in a device function, a bulk copy) could go: a copy to
 * compare with afterwards. */
static int hold(struct ana_rec *s, struct job *j, uint32_t site, uint32_t b)
{
    (void)site;
    if (!protected_buffer(s, b) || j->held[b] || !s->bytes[b])
        return 0;
    j->held[b] = dt_malloc(s->bytes[b]);
    return j->held[b] ? dev_download(s->d, j->held[b], s->addr[b], s->bytes[b], s->e) : DT_E_NOMEM;
}

static int compare(struct ana_rec *s, struct job *j, uint32_t b)
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
    struct job j = {.l = &s->g->launch[launch], .step = &s->p->step[launch], .v = &s->variant.p[s->of[launch]]};
    const struct ana_sites *v = &j.v->code.sites;
    int rc = 0;
    for (uint32_t k = 0; k < v->nsite && !rc; k++)
        rc = check_site(s, &j, &v->site[k], k);
    return rc;
}

int ana_note_kernel(struct ana_rec *s, uint32_t launch, struct ana_foot *foot)
{
    struct job j = {
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
    struct job j = {
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
        rc = run(s, &j);
    for (uint32_t b = 0; b < s->g->nbuffer && j.held; b++) {
        if (!rc && j.held[b])
            rc = compare(s, &j, b);
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
