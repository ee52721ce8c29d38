/* A pair against its fused launch, alone: what a candidate is worth is found without running the other launches.
 *
 * The reference run (verify.c) keeps, as far as SNAP_BYTES goes, what every launch left in the buffers that it writes. From it comes what the pair
 * finds in memory where the fused launch will stand: for each buffer what the last of the launches before it left there. On that
 * content both launches of the pair run, and the fused one in their stead, in order and under shuffled block orders with the race
 * detector. All that either writes is compared, but for intermediates that moved to shared memory and that nobody reads any more.
 *
 * This is a sieve, not the gate: the plan as a whole is verified at the end, on all inputs (choose.c). It is enough to try equal fusions once:
 * the layers of a model repeat, and a candidate whose fused text, geometry and arguments were tried passes at once.
 *
 * Software device only: a real one measures whole graphs. Where a trial is impossible (a module's variable is involved, a snapshot is
 * missing, buffers are numbered otherwise) the caller runs the whole graph.
 */
#include "rewrite/rewrite-priv.h"

#include <stdlib.h>
#include <string.h>

#define SNAP_BYTES (UINT64_C(1) << 30)
#define ORDERS 2

struct rw_version { /* of a buffer: what `launch` of the original left in it */
    uint32_t launch, buffer;
    uint8_t *bytes;
};

struct rw_snaps {
    const struct ana_result *ana; /* of the original, borrowed */
    struct dt_vec(struct rw_version) version; /* by launch */
    struct dev_cost *cost;        /* by launch */
    uint64_t bytes;
};

struct rw_snaps *rw_snaps_free(struct rw_snaps *s)
{
    for (size_t k = 0; s && k < s->version.n; k++)
        free(s->version.p[k].bytes);
    if (s) {
        free(s->version.p);
        free(s->cost);
    }
    free(s);
    return NULL;
}

const struct dev_cost *rw_snaps_cost(const struct rw_snaps *s) { return s->cost; }

int rw_snaps_new(struct dev_run *run, const struct ana_result *a, struct rw_snaps **ret, struct dt_err *e)
{
    const struct dt_graph *g = a->prog->graph;
    struct rw_snaps *s = dt_calloc(1, sizeof *s);
    int r = 0;
    if (!s || !(s->cost = dt_calloc(g->nlaunch + 1, sizeof *s->cost))) {
        free(s);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    s->ana = a;
    for (uint32_t l = 0; l < g->nlaunch && r == 0; l++) {
        if ((r = dev_run_step(run, l, e)) < 0 || (r = dev_run_cost(run, l, &s->cost[l], e)) < 0)
            break;
        for (uint32_t k = 0; k < a->launch[l].naccess && r == 0; k++) {
            const struct ana_access *x = &a->launch[l].access[k];
            uint64_t n = g->buffer[x->buffer].bytes;
            struct rw_version v = {.launch = l, .buffer = x->buffer};
            if (!x->writes || n > SNAP_BYTES - s->bytes)
                continue;
            if (!(v.bytes = dt_malloc(n + 1)) || !dt_push(&s->version, v)) {
                free(v.bytes);
                r = dt_err_set(e, DT_E_NOMEM, "out of memory");
                break;
            }
            s->bytes += n;
            r = dev_run_download(run, x->buffer, v.bytes, e);
        }
    }
    if (r < 0)
        rw_snaps_free(s);
    else
        *ret = s;
    return r;
}

/* ---- members: which launches of the original a launch stands for, as bits ------------------------------------------- */

size_t rw_member_words(const struct rw_planner *p) { return p->state.p[0].graph->nlaunch / 64 + 1; }

static const uint64_t *members(const struct rw_planner *p, const struct rw_state *s, uint32_t launch)
{
    return s->member + launch * rw_member_words(p);
}

/* ---- equal candidates ------------------------------------------------------------------------------------------------ */

/* The launch with its buffers numbered by first use. */
static void add_launch(struct dt_sha256 *h, const struct dev_prog *p, uint32_t launch, uint32_t *number, uint32_t *n)
{
    const struct dt_graph *g = p->graph;
    const struct dt_launch *l = &g->launch[launch];
    const struct dev_module *m = &p->module[l->module];
    char text[DT_SHA256_TEXT];
    dt_sha256_addstr(h, dt_sha256_text(m->ptx, m->len, text) == 0 ? text : m->ptx);
    dt_sha256_addstr(h, l->entry);
    for (int i = 0; i < 3; i++) {
        dt_sha256_addu64(h, l->grid[i]);
        dt_sha256_addu64(h, l->block[i]);
        dt_sha256_addu64(h, l->cluster[i]);
    }
    dt_sha256_addu64(h, l->shared);
    for (uint32_t k = 0; k < l->narg; k++) {
        const struct dt_arg *a = &l->arg[k];
        uint32_t count = a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP ? 1 : a->kind == DT_ARG_BYTES ? a->npointer : 0;
        dt_sha256_addu64(h, a->kind);
        if (a->kind == DT_ARG_SCALAR)
            dt_sha256_addu64(h, a->bits);
        if (a->kind == DT_ARG_BYTES) {
            dt_sha256_addu64(h, a->nbytes);
            dt_sha256_add(h, a->bytes, a->nbytes);
        }
        for (uint32_t q = 0; q < count; q++) {
            uint32_t b = a->kind == DT_ARG_BYTES ? a->pointer[q].buffer : a->buffer;
            if (number[b] == UINT32_MAX)
                number[b] = (*n)++;
            dt_sha256_addu64(h, number[b]);
            dt_sha256_addu64(h, a->kind == DT_ARG_BYTES ? a->pointer[q].offset : a->offset);
            dt_sha256_addu64(h, a->kind == DT_ARG_BYTES ? a->pointer[q].at : 0);
            dt_sha256_addu64(h, g->buffer[b].bytes);
            dt_sha256_addu64(h, g->buffer[b].constant);
        }
    }
}

static int key_of(const struct rw_trial *t, char key[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    uint32_t n = 0, *number = dt_calloc(t->next->graph->nbuffer + 1, sizeof *number);
    int r = number ? dt_sha256_init(&h) : DT_E_NOMEM;
    if (r == 0) {
        memset(number, 0xFF, t->next->graph->nbuffer * sizeof *number);
        for (int s = 0; s < 2; s++)
            add_launch(&h, t->now->prog, t->c->launch[s], number, &n);
        add_launch(&h, t->next->prog, t->fused, number, &n);
        dt_sha256_final(&h, key);
    }
    free(number);
    return r;
}

/* ---- the runs -------------------------------------------------------------------------------------------------------- */

/* May the pair be tried alone? Buffers have the same numbers in all states, and none of the pair's lies in a module. */
static bool possible(const struct rw_trial *t)
{
    const struct dt_graph *g = t->now->graph, *o = t->p->state.p[0].graph, *n = t->next->graph;
    if (!t->p->snaps || !t->now->cost || g->nbuffer != o->nbuffer || n->nbuffer != o->nbuffer)
        return false;
    for (uint32_t b = 0; b < g->nbuffer; b++)
        if (strcmp(g->buffer[b].name, o->buffer[b].name) || strcmp(n->buffer[b].name, o->buffer[b].name))
            return false;
    for (int s = 0; s < 2; s++)
        for (uint32_t k = 0; k < t->now->ana->launch[t->c->launch[s]].naccess; k++)
            if (g->buffer[t->now->ana->launch[t->c->launch[s]].access[k].buffer].module >= 0)
                return false;
    return true;
}

/* What is in the buffer where the fused launch stands. 1: *ret is it; 0: its fill; negative: not kept. */
static int content(const struct rw_trial *t, uint32_t buffer, const uint8_t **ret)
{
    const struct rw_snaps *s = t->p->snaps;
    const struct ana_result *a = s->ana;
    uint32_t last = UINT32_MAX;
    for (uint32_t l = 0; l < t->fused; l++)
        for (uint32_t o = 0; o < a->prog->graph->nlaunch; o++) {
            if (!((members(t->p, t->next, l)[o / 64] >> o % 64) & 1) || (last != UINT32_MAX && o < last))
                continue;
            for (uint32_t k = 0; k < a->launch[o].naccess; k++)
                if (a->launch[o].access[k].buffer == buffer && a->launch[o].access[k].writes)
                    last = o;
        }
    if (last == UINT32_MAX)
        return 0;
    for (size_t k = 0; k < s->version.n; k++)
        if (s->version.p[k].launch == last && s->version.p[k].buffer == buffer) {
            *ret = s->version.p[k].bytes;
            return 1;
        }
    return DT_E_NOMEM;
}

static int fill(const struct rw_trial *t, struct dev_run *run, struct dt_err *e)
{
    int r = 0;
    for (uint32_t b = 0; b < t->now->graph->nbuffer && r == 0; b++) {
        const uint8_t *from = NULL;
        if (!t->touched[b])
            continue;
        int have = content(t, b, &from);
        r = have == 1 ? dev_run_upload(run, b, from, e) : dev_run_fill_buffer(run, b, 0, 0xA5, e);
    }
    return r;
}

static int fetch(const struct rw_trial *t, struct dev_run *run, uint8_t **out, struct dt_err *e)
{
    int r = 0;
    for (uint32_t b = 0; b < t->now->graph->nbuffer && r == 0; b++) {
        if (!t->compared[b])
            continue;
        if (!out[b] && !(out[b] = dt_malloc(t->now->graph->buffer[b].bytes + 1)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        r = dev_run_download(run, b, out[b], e);
    }
    return r;
}

static int run_pair(struct rw_trial *t, struct dt_err *e)
{
    uint32_t n = t->now->graph->nlaunch;
    bool *wanted = dt_calloc(n + 1, sizeof *wanted);
    struct dev_run *run = NULL;
    if (!wanted)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    wanted[t->c->launch[0]] = wanted[t->c->launch[1]] = true;
    dev_set_schedule(t->p->dev, 0, false);
    int r = dev_run_new_for(t->p->dev, t->now->prog, wanted, &run, e);
    if (r == 0)
        r = fill(t, run, e);
    for (int s = 0; s < 2 && r == 0; s++)
        r = dev_run_step(run, t->c->launch[s], e);
    if (r == 0)
        r = fetch(t, run, t->want, e);
    dev_run_free(run);
    free(wanted);
    return r;
}

/* The fused launch under one block order. */
static int run_fused(struct rw_trial *t, uint64_t order, struct dev_cost *ret_cost, struct dt_err *e)
{
    const struct dt_graph *g = t->now->graph;
    bool *wanted = dt_calloc(t->next->graph->nlaunch + 1, sizeof *wanted);
    uint8_t **got = dt_calloc(g->nbuffer + 1, sizeof *got);
    struct dev_run *run = NULL;
    int r = wanted && got ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0) {
        wanted[t->fused] = true;
        r = dev_run_new_for(t->p->dev, t->next->prog, wanted, &run, e);
    }
    if (r == 0)
        r = fill(t, run, e);
    dev_set_schedule(t->p->dev, order, order != 0);
    if (r == 0 && (r = dev_run_step(run, t->fused, e)) == 0 && ret_cost)
        r = dev_run_cost(run, t->fused, ret_cost, e);
    dev_set_schedule(t->p->dev, 0, false);
    if (r == 0)
        r = fetch(t, run, got, e);
    for (uint32_t b = 0; b < g->nbuffer && r == 0; b++)
        for (uint64_t i = 0; t->compared[b] && i < g->buffer[b].bytes && r == 0; i++)
            if (got[b][i] != t->want[b][i])
                r = dt_err_set(e, DT_E_INTERNAL, "%s %llu, '%s' differs at byte %llu: %02x became %02x",
                               order ? "alone, block order" : "alone, input", (unsigned long long)order, g->buffer[b].name,
                               (unsigned long long)i, t->want[b][i], got[b][i]);
    for (uint32_t b = 0; got && b < g->nbuffer; b++)
        free(got[b]);
    free(got);
    free(wanted);
    dev_run_free(run);
    return r;
}

int rw_trial_begin(struct rw_trial *t, struct rw_planner *p, const struct rw_cand *c, const struct rw_state *now, struct rw_state *next,
                   uint32_t fused, struct dt_err *e)
{
    *t = (struct rw_trial){.p = p, .c = c, .now = now, .next = next, .fused = fused};
    if (!possible(t))
        return 0;
    uint32_t n = now->graph->nbuffer;
    t->touched = dt_calloc(n + 1, 1);
    t->compared = dt_calloc(n + 1, 1);
    t->want = dt_calloc(n + 1, sizeof *t->want);
    if (!t->touched || !t->compared || !t->want || key_of(t, t->key) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (int s = 0; s < 2; s++)
        for (uint32_t k = 0; k < now->ana->launch[c->launch[s]].naccess; k++) {
            const struct ana_access *x = &now->ana->launch[c->launch[s]].access[k];
            const uint8_t *from;
            t->touched[x->buffer] = true;
            t->compared[x->buffer] |= x->writes;
            if (content(t, x->buffer, &from) < 0)
                return 0;
        }
    for (uint32_t k = 0; k < c->nredirect; k++)
        if (!c->redirect[k].keep_global)
            t->compared[c->redirect[k].buffer] = false;
    for (size_t k = 0; k < p->tried.n; k++)
        if (!strcmp(p->tried.p[k].key, t->key)) {
            next->cost[fused] = p->tried.p[k].cost;
            t->known = true;
            return 1;
        }
    int r = run_pair(t, e);
    if (r == 0)
        r = run_fused(t, 0, &next->cost[fused], e);
    return r < 0 ? r : 1;
}

int rw_trial_finish(struct rw_trial *t, struct dt_err *e)
{
    int r = 0;
    for (unsigned k = 1; k <= ORDERS && !t->known && r == 0; k++)
        r = run_fused(t, k, NULL, e);
    if (r < 0 || t->known)
        return r;
    struct rw_tried x = {.cost = t->next->cost[t->fused]};
    memcpy(x.key, t->key, sizeof x.key);
    return dt_push(&t->p->tried, x) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

void rw_trial_done(struct rw_trial *t)
{
    for (uint32_t b = 0; t->want && b < t->now->graph->nbuffer; b++)
        free(t->want[b]);
    free(t->want);
    free(t->touched);
    free(t->compared);
    memset(t, 0, sizeof *t);
}
