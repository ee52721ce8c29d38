/* Launches whose footprints are found without a device (summary/), before anything is loaded, allocated or run.
 *
 * Only launches that would run as their slices are tried: nobody needs what they write (plan.c). This file puts
 * together what a summary needs to know: memory by number (the graph's buffers, then the module's other variables),
 * parameters with the addresses named instead of filled in, and the content of what no launch changes (constant
 * buffers, tables). Buffers lie at multiples of 256 bytes (device/run.c), variables where they say.
 *
 * Launches alike (same entry, geometry and numbers, buffers of the same sizes in the same pattern) are walked once; the
 * others get its footprints with their own buffers in them. So all layers of a model cost as much as one. Launches that
 * differ are walked side by side, each with its own memory, and put into the result in program order: the result is the
 * same for any number of threads.
 *
 * A launch without a summary, or with a mistake in it, is left to the device, which says what is wrong.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/record/record-priv.h"
#include "analysis/summary/summary.h"
#include "base/alloc.h"
#include "base/parallel.h"

#define ALIGN 256 /* of buffers */

struct shared { /* by all walks */
    struct ana_rec *s;
    uint8_t **fill; /* by buffer of the graph: content of constant ones; once made it stays */
    pthread_mutex_t lock;
    uint32_t *todo;      /* launches to be walked */
    struct walked *done; /* of each of them */
};

struct walked {
    struct dt_arena arena;
    struct ana_launch launch;
    struct dt_err e;
    int rc;
};

struct offline { /* one walk */
    struct ana_rec *s;
    struct shared *all;
    const uint8_t **seen;        /* of all->fill */
    const struct ptx_module *ir; /* the clone that the variant's code is in */
    struct ana_mem *mem;
    const uint8_t **data; /* by number in mem */
    struct dt_arena a;
};

static const uint8_t *offline_content(void *user, uint32_t mem)
{
    struct offline *o = user;
    const struct dt_graph *g = o->s->g;
    if (mem >= g->nbuffer)
        return o->data[mem];
    if (!g->buffer[mem].constant)
        return NULL;
    if (o->seen[mem])
        return o->seen[mem];
    pthread_mutex_lock(&o->all->lock);
    uint8_t **to = &o->all->fill[mem];
    if (!*to && (*to = dt_malloc(g->buffer[mem].bytes + 8)))
        dt_fill_bytes(&g->buffer[mem], 0, *to);
    o->seen[mem] = *to;
    pthread_mutex_unlock(&o->all->lock);
    return o->seen[mem];
}

/* Memory, and which of it the module's variables are. */
static int list_memory(struct offline *o, uint32_t module, struct ana_summary_in *in)
{
    const struct dt_graph *g = o->s->g;
    const struct ana_mod *m = &o->s->mod[module];
    const struct ptx_module *ir = o->s->p->module[module].ir;
    uint32_t n = g->nbuffer, *of = dt_new_array(&o->a, uint32_t, (size_t)o->ir->nvar + 1);
    o->mem = dt_new_array(&o->a, struct ana_mem, (size_t)g->nbuffer + o->ir->nvar + 1);
    o->data = (const uint8_t **)dt_new_array(&o->a, uint8_t *, (size_t)g->nbuffer + o->ir->nvar + 1);
    if (!of || !o->mem || !o->data)
        return DT_E_NOMEM;
    for (uint32_t b = 0; b < g->nbuffer; b++)
        o->mem[b] = (struct ana_mem){g->buffer[b].bytes, b, ALIGN, protected_buffer(o->s, b)};
    for (uint32_t v = 0; v < o->ir->nvar; v++) {
        const struct ptx_var *x = o->ir->var[v];
        uint32_t k = 0;
        of[v] = UINT32_MAX;
        while (k < ir->nvar && strcmp(ir->var[k]->name, x->name))
            k++;
        if (k == ir->nvar || (x->space != PTX_GLOBAL && x->space != PTX_CONST) || x->is_extern)
            continue;
        if (m->buffer[k] != UINT32_MAX) {
            of[v] = m->buffer[k];
            o->mem[of[v]].align = x->align;
            if (o->mem[of[v]].bytes > x->bytes)
                return DT_E_GRAPH;
            continue;
        }
        of[v] = n;
        o->mem[n] = (struct ana_mem){x->bytes, UINT32_MAX, x->align, true};
        if (m->var[k] == ANA_VAR_FIXED && !x->nreloc) {
            o->data[n] = x->init;
            if (!x->init && x->bytes < 1u << 20) /* zeros */
                o->data[n] = dt_new_array(&o->a, uint8_t, x->bytes + 8);
        }
        n++;
    }
    in->mem = o->mem;
    in->var_mem = of;
    in->nvar = o->ir->nvar;
    return o->a.failed ? DT_E_NOMEM : 0;
}

/* The parameter block. False: it has something else than numbers and addresses. */
static bool list_params(struct offline *o, uint32_t launch, struct ana_summary_in *in)
{
    const struct dt_launch *l = &o->s->g->launch[launch];
    const struct dev_step *step = &o->s->p->step[launch];
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->narg; i++)
        n += arg_buffers(&l->arg[i], NULL, 0);
    uint8_t *param = dt_arena_alloc(&o->a, (size_t)step->param_total + 8);
    struct ana_pointer *p = dt_new_array(&o->a, struct ana_pointer, (size_t)n + 1);
    if (!param || !p)
        return false;
    for (uint32_t i = 0; i < l->narg; i++) {
        const struct dt_arg *a = &l->arg[i];
        uint32_t at = step->param_offset[i];
        switch (a->kind) {
        case DT_ARG_BUFFER: p[in->npointer++] = (struct ana_pointer){at, a->buffer, a->offset}; break;
        case DT_ARG_SCALAR: memcpy(param + at, &a->bits, dt_dtype_bytes(a->dtype)); break;
        case DT_ARG_BYTES:
            memcpy(param + at, a->bytes, a->nbytes);
            for (uint32_t k = 0; k < a->npointer; k++)
                p[in->npointer++] =
                    (struct ana_pointer){at + a->pointer[k].at, a->pointer[k].buffer, a->pointer[k].offset};
            break;
        default: return false;
        }
    }
    in->param = param;
    in->param_bytes = step->param_total;
    in->param_offset = step->param_offset;
    in->nparam = l->narg;
    in->pointer = p;
    return true;
}

static int summarise(struct offline *o, uint32_t launch, struct walked *to, ana_trace_fn fn, void *user,
                     const char **ret_why)
{
    struct ana_rec *s = o->s;
    const struct dt_launch *l = &s->g->launch[launch];
    struct ana_variant *v = &s->variant.p[s->of[launch]];
    struct ana_summary_in in = {.code = &v->code,
                                .grid = l->grid,
                                .block = l->block,
                                .content = offline_content,
                                .user = o,
                                .trace = fn,
                                .trace_user = user};
    struct dt_err none = {0};
    uint64_t work = 0;
    const char *why = "its arguments";
    o->ir = v->code.copy;
    o->seen = (const uint8_t **)dt_new_array(&o->a, uint8_t *, (size_t)s->g->nbuffer + 1);
    int rc = o->seen ? list_memory(o, l->module, &in) : DT_E_NOMEM;
    bool found =
        !rc && list_params(o, launch, &in) &&
        !ana_check_kernel(
            &(struct ana_rec){.p = s->p, .g = s->g, .mod = s->mod, .variant = s->variant, .of = s->of, .e = &none},
            launch);
    struct ana_foot *foot = NULL;
    dt_err_done(&none);
    *ret_why = why;
    if (rc == DT_E_GRAPH)
        return 0;
    if (fn) {
        found = found && !rc;
        rc = found ? ana_summarise(&in, NULL, &work, ret_why, s->e) : rc;
        return rc;
    }
    if (!rc && found) {
        foot = ana_foot_new(&to->arena, s->p->step[launch].blocks, s->g->nbuffer, s->bytes);
        rc = foot ? ana_summarise(&in, foot, &work, &why, &to->e) : DT_E_NOMEM;
        found = rc > 0;
    }
    if (found)
        rc = ana_note_kernel(s, launch, foot);
    if (found && !rc)
        rc = ana_foot_finish(foot, &to->launch, &to->e);
    ana_foot_free(foot);
    if (rc < 0)
        return rc;
    to->launch.summarised = found;
    to->launch.walked = work;
    to->launch.unsummarised = found ? NULL : why;
    return 0;
}

static void offline_walk(void *user, size_t i)
{
    struct shared *all = user;
    struct offline o = {.s = all->s, .all = all};
    const char *why;
    all->done[i].rc = summarise(&o, all->todo[i], &all->done[i], NULL, NULL, &why);
    dt_arena_done(&o.a);
}

/* ---- launches alike ---------------------------------------------------------------------------------------------- */
/* Buffer a of one launch stands where b of the other does. False: it cannot. */
static bool pair(const struct ana_rec *s, uint32_t *to, uint32_t *from, uint32_t a, uint32_t b)
{
    const struct dt_buffer *x = &s->g->buffer[a], *y = &s->g->buffer[b];
    /* a variable, or content that counts */
    bool fixed = x->module >= 0 || y->module >= 0 || x->constant || y->constant;
    if ((fixed && a != b) || x->bytes != y->bytes || protected_buffer(s, a) != protected_buffer(s, b))
        return false;
    if (to[a] != UINT32_MAX || from[b] != UINT32_MAX)
        return to[a] == b && from[b] == a;
    to[a] = b;
    from[b] = a;
    return true;
}

static bool same_arg(const struct ana_rec *s, const struct dt_arg *x, const struct dt_arg *y, uint32_t *to,
                     uint32_t *from)
{
    if (x->kind != y->kind)
        return false;
    switch (x->kind) {
    case DT_ARG_BUFFER: return x->offset == y->offset && pair(s, to, from, x->buffer, y->buffer);
    case DT_ARG_SCALAR: return x->dtype == y->dtype && x->bits == y->bits;
    case DT_ARG_BYTES:
        if (x->nbytes != y->nbytes || x->npointer != y->npointer || memcmp(x->bytes, y->bytes, x->nbytes))
            return false;
        for (uint32_t k = 0; k < x->npointer; k++)
            if (x->pointer[k].at != y->pointer[k].at || x->pointer[k].offset != y->pointer[k].offset ||
                !pair(s, to, from, x->pointer[k].buffer, y->pointer[k].buffer))
                return false;
        return true;
    default: return false;
    }
}

/* Is launch i like launch j? to[b]: the buffer of i that stands for buffer b of j. */
static bool offline_alike(const struct ana_rec *s, uint32_t j, uint32_t i, uint32_t *to, uint32_t *from)
{
    const struct dt_launch *x = &s->g->launch[j], *y = &s->g->launch[i];
    const struct ana_mod *m = &s->mod[x->module];
    if (s->of[i] != s->of[j] || memcmp(x->grid, y->grid, sizeof x->grid) ||
        memcmp(x->block, y->block, sizeof x->block) || memcmp(x->cluster, y->cluster, sizeof x->cluster) ||
        x->shared != y->shared || x->narg != y->narg)
        return false;
    memset(to, 0xff, s->g->nbuffer * sizeof *to);
    memset(from, 0xff, s->g->nbuffer * sizeof *from);
    bool same = true;
    for (uint32_t v = 0; v < s->p->module[x->module].ir->nvar && same; v++)
        same = m->buffer[v] == UINT32_MAX || pair(s, to, from, m->buffer[v], m->buffer[v]);
    for (uint32_t k = 0; k < x->narg && same; k++)
        same = same_arg(s, &x->arg[k], &y->arg[k], to, from);
    return same;
}

/* x with other buffers; intervals are shared. */
static int renamed(struct dt_arena *a, const struct ana_launch *x, const uint32_t *to, struct ana_launch *ret)
{
    struct ana_launch l = *x;
    size_t n = 0;
    for (uint32_t b = 0; b < x->nblock; b++)
        n += x->block[b].ntouch;
    l.block = dt_new_array(a, struct ana_block, (size_t)x->nblock + 1);
    l.access = dt_new_array(a, struct ana_access, (size_t)x->naccess + 1);
    struct ana_touch *t = dt_new_array(a, struct ana_touch, n + 1);
    if (!l.block || !l.access || !t)
        return DT_E_NOMEM;
    for (uint32_t b = 0; b < x->nblock; b++) {
        uint32_t k = x->block[b].ntouch;
        l.block[b] = (struct ana_block){t, k};
        for (uint32_t q = 0; q < k; q++) {
            t[q] = x->block[b].touch[q];
            t[q].buffer = to[t[q].buffer];
        }
        ana_touch_sort(t, k);
        t += k;
    }
    for (uint32_t q = 0; q < x->naccess; q++) {
        l.access[q] = x->access[q];
        l.access[q].buffer = to[l.access[q].buffer];
    }
    ana_access_sort(l.access, l.naccess);
    l.walked = 0;
    *ret = l;
    return 0;
}

/* The launch before i that is walked and that i is like, UINT32_MAX: none. head, next: launches of a variant that are
 * walked, last first, + 1. */
static uint32_t like_another(const struct ana_rec *s, uint32_t i, const uint32_t *head, const uint32_t *next,
                             uint32_t *to)
{
    for (uint32_t j = head[s->of[i]], tries = 0; j && tries < 64; j = next[j - 1], tries++)
        if (offline_alike(s, j - 1, i, to, to + s->g->nbuffer))
            return j - 1;
    return UINT32_MAX;
}

/* Walk all->todo[0..n), side by side where there is enough to do; the results into s->r in program order. */
static int walk_all(struct shared *all, uint32_t n)
{
    struct ana_rec *s = all->s;
    uint64_t work = 0; /* thread instructions, were there no loops */
    int rc = 0;
    for (uint32_t k = 0; k < n; k++)
        work += (uint64_t)s->p->step[all->todo[k]].threads * s->variant.p[s->of[all->todo[k]]].code.ninst;
    dt_parallel(ana_threads(s->o, work), n, offline_walk, all);
    for (uint32_t k = 0; k < n; k++) {
        struct walked *w = &all->done[k];
        if (!rc && w->rc) {
            rc = w->rc;
            dt_err_move(s->e, &w->e);
        }
        s->r->launch[all->todo[k]] = w->launch;
        s->summed[all->todo[k]] = !rc && w->launch.summarised;
        dt_arena_adopt(&s->r->arena, &w->arena);
        if (s->summed[all->todo[k]] && s->memo.key)
            ana_memo_keep(s, all->todo[k]);
        dt_err_done(&w->e);
    }
    return rc;
}

int ana_take_like(struct ana_rec *s, uint32_t i)
{
    uint32_t *to = dt_new_array(&s->tmp, uint32_t, 2 * (size_t)s->g->nbuffer + 1);
    if (!to)
        return DT_E_NOMEM;
    offline_alike(s, s->like[i], i, to, to + s->g->nbuffer);
    return renamed(&s->r->arena, &s->r->launch[s->like[i]], to, &s->r->launch[i]);
}

int ana_record_offline(struct ana_rec *s)
{
    const uint32_t nlaunch = s->g->nlaunch;
    struct shared all = {
        .s = s, .fill = dt_calloc((size_t)s->g->nbuffer + 1, sizeof *all.fill), .lock = PTHREAD_MUTEX_INITIALIZER};
    uint32_t *head = dt_new_array(&s->tmp, uint32_t, s->variant.n + 1),
             *next = dt_new_array(&s->tmp, uint32_t, (size_t)nlaunch + 1);
    uint32_t *to = dt_new_array(&s->tmp, uint32_t, 2 * (size_t)s->g->nbuffer + 1), n = 0;
    all.todo = dt_new_array(&s->tmp, uint32_t, (size_t)nlaunch + 1);
    all.done = dt_new_array(&s->tmp, struct walked, (size_t)nlaunch + 1);
    int rc = all.fill && head && next && to && all.todo && all.done ? 0 : DT_E_NOMEM;
    for (uint32_t i = 0; i < nlaunch && !rc; i++) {
        if (s->g->launch[i].kind != DT_KERNEL || reused(s, i) || !s->variant.p[s->of[i]].code.sliced)
            continue;
        s->like[i] = like_another(s, i, head, next, to);
        if (s->like[i] != UINT32_MAX)
            continue;
        next[i] = head[s->of[i]];
        head[s->of[i]] = i + 1;
        rc = ana_memo_find(s, i);
        if (!rc)
            all.todo[n++] = i;
        rc = rc < 0 ? rc : 0;
    }
    if (!rc)
        rc = walk_all(&all, n);
    for (uint32_t i = 0; i < nlaunch && !rc; i++) {
        if (s->like[i] == UINT32_MAX)
            continue;
        s->r->launch[i].unsummarised = s->r->launch[s->like[i]].unsummarised;
        if (s->summed[s->like[i]] && !(rc = ana_take_like(s, i)))
            s->summed[i] = true;
    }
    for (uint32_t b = 0; all.fill && b < s->g->nbuffer; b++)
        free(all.fill[b]);
    free(all.fill);
    return rc;
}

int ana_trace_offline(struct ana_rec *s, uint32_t launch, ana_trace_fn fn, void *user, const char **ret_why)
{
    struct shared all = {
        .s = s, .fill = dt_calloc((size_t)s->g->nbuffer + 1, sizeof *all.fill), .lock = PTHREAD_MUTEX_INITIALIZER};
    struct offline o = {.s = s, .all = &all};
    int rc = all.fill ? summarise(&o, launch, NULL, fn, user, ret_why) : DT_E_NOMEM;
    for (uint32_t b = 0; all.fill && b < s->g->nbuffer; b++)
        free(all.fill[b]);
    free(all.fill);
    dt_arena_done(&o.a);
    return rc;
}
