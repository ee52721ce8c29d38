/* Measured comparisons, kept in the performance library. On a real device a candidate is not measured again if an
 * earlier interval decides.
 *
 * An entry has what a measurement of two states found (compare.c). One part is by how many microseconds a pass of the
 * newer state is shorter: a median with its 95 % interval, from pairs of passes in turns, made wider where CUPTI's
 * times of the passes differ. The other part is the own time of each launch that only the newer state has. An
 * entry is found, in any graph, by what it depends on:
 *
 *   * the launches that only one of the two states has, in order: kernels (canonical text of the entry), geometry,
 *     arguments, sizes of buffers, which buffers are the same one, streams, programmatic edges
 *   * whether all buffers that the graph's launches use fit in the L2, since a launch then finds there what the one
 *     before it left
 *   * chip, driver, toolkits, versions of dovetail and rewriter: the planner's stamp
 *
 * What this machine has not measured, another one with the same device may have (ana_memo.far): its interval decides as
 * one of this machine does.
 *
 * So repeated layers are measured once, and another planning, of this graph or another one, measures only what is new.
 * Launches that are not steady (analysis/taint/steady.c) are measured each time.
 *
 * An interval decides if its distance from zero is at least half its width: the confidence in the sign is then four
 * nines instead of 95 %. It also decides, against the newer state, if its upper end is less than a hundredth of the
 * time that these launches take; levels of a fusion often differ as little as that. Any other interval counts as
 * missing: the two states are measured, and the new interval replaces the old one. In another graph the launches around
 * may still make a difference. So the plan is always measured beside the posted launches at the end. If it is not
 * faster although the library said so, planning starts over without the library (choose.c).
 *
 * An entry (rw_kept_get) has the head "dovetail times 1\n" and, as 8-byte numbers, the number of launches, then median,
 * lower and upper end, and each launch's time, as IEEE doubles. An entry is invalid if it has numbers that are not
 * finite, ends in the wrong order, negative times or times beyond MOST_US.
 */
#include "rewrite/plan/plan-priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD RW_TIMES_HEAD
#define MOST_US 1e9
#define APART 0.5  /* least distance from zero, in widths of the interval */
#define WORTH 0.01 /* a gain below this part of the launches' own time is none */

static double times_number(const uint8_t *p)
{
    uint64_t bits = rw_number(p);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void put_double(uint8_t *p, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    rw_put_number(p, bits);
}

/* ---- which launches differ --------------------------------------------------------------------------------------- */
static bool same_kernel(const struct dev_prog *p, uint32_t i, const struct dev_prog *q, uint32_t k)
{
    const struct dt_launch *a = &p->graph->launch[i], *b = &q->graph->launch[k];
    if (a->kind != DT_KERNEL || b->kind != DT_KERNEL)
        return a->kind == b->kind;
    const struct dev_module *x = &p->module[a->module], *y = &q->module[b->module];
    return x->len == y->len && (x->ptx == y->ptx || !memcmp(x->ptx, y->ptx, x->len));
}

/* Does the other state have this launch too? 1, 0; negative: out of memory. */
static int in_both(const struct rw_state *s, uint32_t i, const struct rw_state *o)
{
    const struct dt_graph *g = s->graph, *h = o->graph;
    uint32_t k = dt_graph_find_launch(h, g->launch[i].name);
    if (k == DT_NAME_NONE || !same_kernel(s->prog, i, o->prog, k))
        return 0;
    json_t *a = dt_launch_to_json(g, &g->launch[i]), *b = dt_launch_to_json(h, &h->launch[k]);
    int r = a && b ? 1 : DT_E_NOMEM;
    if (r == 1) { /* module names do not count; edges count by stream and flag */
        static const char *const no[] = {"module", "after"};
        for (int j = 0; j < 2; j++) {
            json_object_del(a, no[j]);
            json_object_del(b, no[j]);
        }
        r = g->launch[i].nafter == h->launch[k].nafter && json_equal(a, b);
    }
    json_decref(a);
    json_decref(b);
    return r;
}

int rw_only_in(const struct rw_state *s, const struct rw_state *o, uint32_t **ret, uint32_t *ret_n, struct dt_err *e)
{
    uint32_t n = 0, *v = dt_calloc(s->graph->nlaunch + 1, sizeof *v);
    if (!v)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < s->graph->nlaunch; i++) {
        int both = in_both(s, i, o);
        if (both < 0) {
            free(v);
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
        if (!both)
            v[n++] = i;
    }
    *ret = v;
    *ret_n = n;
    return 0;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */
static bool fits_l2(const struct rw_state *s)
{
    const struct dt_graph *g = s->graph;
    uint64_t all = 0;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        bool used = false;
        for (uint32_t l = 0; s->ana && l < g->nlaunch && !used; l++)
            for (uint32_t k = 0; k < s->ana->launch[l].naccess && !used; k++)
                used = s->ana->launch[l].access[k].buffer == b;
        all += used ? g->buffer[b].bytes : 0;
    }
    return all <= s->prog->l2_bytes;
}

/* Add launches to the key. 1: done; 0: these launches can have no key. */
static int add_launches(struct dt_sha256 *h, const struct rw_state *s, const uint32_t *launch, uint32_t n,
                        uint32_t *buffer, uint32_t *nbuffer, struct dt_err *e)
{
    dt_sha256_addu64(h, n);
    for (uint32_t k = 0; k < n; k++) {
        const struct dt_launch *l = &s->graph->launch[launch[k]];
        bool steady;
        int r = ana_steady(s->prog, launch[k], &steady, NULL, e);
        if (r < 0 || !steady)
            return r;
        rw_add_launch(h, s->prog, launch[k], true, buffer, nbuffer);
        dt_sha256_addu64(h, l->stream);
        dt_sha256_addu64(h, l->programmatic);
        /* its place among these launches; any other launch counts only as "another" */
        for (uint32_t i = 0; i < l->nafter; i++) {
            uint32_t at = 0;
            while (at < n && launch[at] != l->after_at[i])
                at++;
            dt_sha256_addu64(h, at);
        }
        dt_sha256_addu64(h, l->nafter);
    }
    return 1;
}

static int times_make_key(struct rw_planner *p, const struct rw_state *now, const struct rw_state *next,
                          const uint32_t *gone, uint32_t ngone, struct rw_times *t, struct dt_err *e)
{
    struct dt_sha256 h;
    uint32_t nbuffer = 0,
             most = now->graph->nbuffer > next->graph->nbuffer ? now->graph->nbuffer : next->graph->nbuffer;
    /* buffers have the same numbers in all states, scratch behind */
    uint32_t *buffer = dt_calloc((size_t)most + 1, sizeof *buffer);
    if (!buffer || dt_sha256_init(&h) < 0) {
        free(buffer);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    memset(buffer, 0xFF, most * sizeof *buffer);
    dt_sha256_addstr(&h, HEAD);
    dt_sha256_addstr(&h, p->opt->stamp ? p->opt->stamp : "");
    dt_sha256_addu64(&h, fits_l2(&p->state.p[0]));
    int r = add_launches(&h, now, gone, ngone, buffer, &nbuffer, e);
    if (r == 1)
        r = add_launches(&h, next, t->launch, t->n, buffer, &nbuffer, e);
    if (r == 1)
        dt_sha256_final(&h, t->key);
    else
        dt_sha256_done(&h);
    free(buffer);
    return r < 0 ? r : 0;
}

/* The sum of the launches' own times, on the side that takes more, as far as they are known. */
static double own_us(const struct rw_state *now, const uint32_t *gone, uint32_t ngone, const struct rw_state *next,
                     const struct rw_times *t)
{
    double before = 0, after = 0;
    for (uint32_t k = 0; now->step_us && k < ngone; k++)
        before += now->step_us[gone[k]];
    for (uint32_t k = 0; next->step_us && k < t->n; k++)
        after += next->step_us[t->launch[k]];
    return before > after ? before : after;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */
/* Of this machine, else of another one. */
static uint8_t *times_kept(const struct ana_memo *m, const char *key, size_t bytes)
{
    uint8_t *body = rw_kept_get(m, HEAD, key, bytes);
    struct ana_memo far = *m;
    far.get = m->far;
    return body || !m->far ? body : rw_kept_get(&far, HEAD, key, bytes);
}

static size_t length(const struct rw_times *t) { return 8 * (4 + (size_t)t->n); }

static bool is_time(double v) { return isfinite(v) && v >= 0 && v <= MOST_US; }

static bool times_decode(const uint8_t *p, struct rw_times *t)
{
    t->gain = times_number(p + 8);
    t->lo = times_number(p + 16);
    t->hi = times_number(p + 24);
    bool ok = rw_number(p) == t->n && is_time(fabs(t->gain)) && is_time(fabs(t->lo)) && is_time(fabs(t->hi)) &&
              t->lo <= t->gain && t->gain <= t->hi;
    for (uint32_t k = 0; k < t->n && ok; k++)
        ok = is_time(t->us[k] = times_number(p + 32 + 8 * (size_t)k));
    return ok;
}

int rw_times_get(struct rw_planner *p, const struct rw_state *now, const struct rw_state *next, struct rw_times *ret,
                 struct dt_err *e)
{
    const struct ana_memo *m = p->opt->library;
    uint32_t *gone = NULL, ngone = 0;
    struct rw_times t = {0};
    int r = 0;
    if (m && !((r = rw_only_in(now, next, &gone, &ngone, e)) < 0) &&
        !((r = rw_only_in(next, now, &t.launch, &t.n, e)) < 0))
        r = (t.us = dt_calloc((size_t)t.n + 1, sizeof *t.us)) ? times_make_key(p, now, next, gone, ngone, &t, e)
                                                              : dt_err_set(e, DT_E_NOMEM, "out of memory");
    double own = r == 0 && gone ? own_us(now, gone, ngone, next, &t) : 0;
    free(gone);
    if (r < 0) {
        rw_times_done(&t);
        return r;
    }
    uint8_t *body = *t.key && !p->gate.no_library ? times_kept(m, t.key, length(&t)) : NULL;
    bool there = body && times_decode(body, &t);
    if (body && !there && m->bad)
        m->bad(m->user, t.key, "it has numbers that are no times");
    free(body);
    *ret = t;
    double nearest = t.lo > 0 ? t.lo : t.hi < 0 ? -t.hi : 0;
    return there && ((nearest > 0 && nearest >= APART * (t.hi - t.lo)) || t.hi < WORTH * own);
}

void rw_times_put(const struct rw_planner *p, const struct rw_times *t)
{
    uint8_t *body = *t->key ? dt_malloc(length(t)) : NULL;
    if (!body)
        return;
    rw_put_number(body, t->n);
    put_double(body + 8, t->gain);
    put_double(body + 16, t->lo);
    put_double(body + 24, t->hi);
    for (uint32_t k = 0; k < t->n; k++)
        put_double(body + 32 + 8 * (size_t)k, t->us[k]);
    if (times_decode(body, &(struct rw_times){.n = t->n, .us = t->us})) /* else it would count as invalid */
        rw_kept_put(p->opt->library, HEAD, t->key, body, length(t));
    free(body);
}

void rw_times_done(struct rw_times *t)
{
    free(t->launch);
    free(t->us);
    memset(t, 0, sizeof *t);
}
