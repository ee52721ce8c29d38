/* Special values of large graphs, region by region.
 *
 * One pass of a large graph takes seconds, and one NaN in its first layer hides what all later layers do. So the inputs
 * with special values (special.c) are not run through the whole. Instead every region of the plan that has new code
 * runs on what the original has in memory there (the snaps of trial.c), with special values put into whatever the
 * region reads, once as S, the posted launches, and once as T. That is stricter than the whole: values that hardly any
 * input of the graph would bring there come there, and what a region leaves hangs on what it reads alone. Equal
 * regions, as layers have them, run once.
 *
 *   region    launches of the plan that stand for the same posted ones, or use the same scratch, and the posted
 *             launches that they stand for
 *   S         with the kernels as posted, on the buffers of normal form: so calls that were written out are held
 *             against the functions that were called
 *   compared  what T may write, and what S writes and a launch outside reads later or the caller gets
 *
 * Of a large region in which nothing that blocks touch hangs on data, some blocks run (region_some): those of T spread
 * over its grids, others for each input, and those of S that make the same bytes.
 *
 * Where a region cannot run so (a snap is missing, a module's variable, launches outside that write in between), or
 * where it leaves something else, nothing is decided here: the whole runs on all inputs, as a small graph's does. What
 * is dead after a region, and so may differ, is known to this file roughly, and to the whole exactly.
 *
 * The plan's own input always runs whole (verify.c), on the final layout, in another block order, with launches side by
 * side. Software device only.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"
#include "rewrite/gate/special.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

#define LARGE (UINT64_C(1) << 28) /* thread-instructions of S from which on some blocks run */
#define SHARE 8                   /* one of so many */
#define LEAST 16
#define WORTH 0.5 /* more of all blocks than this: all */

struct regions {
    struct rw_gate *g;
    const struct rw_state *plan;
    const struct ana_result *normal; /* of the graph whose snaps there are */
    struct dt_graph graph;           /* that graph with the posted kernels: S is of this */
    struct dev_prog *plain;
    uint32_t *root; /* by launch of the plan: the first launch of its region */
    bool *stays;    /* by launch of normal form: the plan has one that stands for it */
    unsigned inputs;
};
struct region {
    uint32_t *s, ns, *t, nt; /* launches, ascending */
    bool *touched;           /* by buffer of normal form */
    const uint8_t **before;  /* by buffer: what is in it before; NULL: not touched */
    uint8_t **made;          /* where that is no version of a snap */
    uint8_t **left;          /* what S leaves there */
    struct ana_set *compare; /* by buffer */
    struct dt_arena arena;
    uint64_t limit, work; /* work: thread-instructions of S */
    bool steady;          /* what its blocks touch hangs on no data */
};
struct part {               /* what runs of a region */
    struct dev_some *s, *t; /* by launch; NULL: all */
    struct ana_set *compare;
};

void rw_regions_done(struct rw_regions *x)
{
    rw_special_free(x->special);
    memset(x, 0, sizeof *x);
}

/* ---- which launches ---------------------------------------------------------------------------------------------- */

static uint32_t root_of(const struct regions *x, uint32_t l)
{
    while (x->root[l] != l)
        l = x->root[l];
    return l;
}

static void regions_join(struct regions *x, uint32_t a, uint32_t b)
{
    a = root_of(x, a);
    b = root_of(x, b);
    x->root[a < b ? b : a] = a < b ? a : b;
}

static bool region_member(const struct regions *x, uint32_t l, uint32_t posted)
{
    return x->plan->member[l * rw_member_words(x->g) + posted / 64] >> posted % 64 & 1;
}

/* Put the plan's launches into regions. */
static int divide(struct regions *x, struct dt_err *e)
{
    const struct ana_result *a = x->plan->ana;
    uint32_t n = x->plan->graph->nlaunch, m = x->normal->prog->graph->nlaunch;
    uint32_t nb = x->normal->prog->graph->nbuffer, all = x->plan->graph->nbuffer;
    dt_free_ uint32_t *first = dt_malloc(((size_t)m + all + 1) * sizeof *first);
    uint32_t *user = first ? first + m : NULL; /* by buffer */
    x->root = dt_calloc((size_t)n + 1, sizeof *x->root);
    x->stays = dt_calloc((size_t)m + 1, sizeof *x->stays);
    if (!first || !x->root || !x->stays)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(first, 0xFF, ((size_t)m + all + 1) * sizeof *first);
    for (uint32_t l = 0; l < n; l++) {
        x->root[l] = l;
        for (uint32_t o = 0; o < m; o++)
            if (region_member(x, l, o)) {
                if (first[o] != UINT32_MAX)
                    regions_join(x, first[o], l);
                first[o] = l;
                x->stays[o] = true;
            }
        for (uint32_t k = 0; k < a->launch[l].naccess; k++) {
            uint32_t b = a->launch[l].access[k].buffer;
            if (b < nb)
                continue;
            if (user[b] != UINT32_MAX)
                regions_join(x, user[b], l);
            user[b] = l;
        }
    }
    return 0;
}

static void region_done(struct region *q, uint32_t nbuffer)
{
    for (uint32_t b = 0; b < nbuffer; b++) {
        if (q->made)
            dt_large_put(q->made[b]);
        if (q->left)
            dt_large_put(q->left[b]);
    }
    free(q->before);
    free(q->made);
    free(q->left);
    dt_arena_done(&q->arena);
    memset(q, 0, sizeof *q);
}

static int region_of(const struct regions *x, uint32_t root, struct region *q, struct dt_err *e)
{
    uint32_t n = x->plan->graph->nlaunch, m = x->normal->prog->graph->nlaunch, nb = x->plan->graph->nbuffer;
    *q = (struct region){.limit = RW_HANG};
    q->s = dt_new_array(&q->arena, uint32_t, m + 1);
    q->t = dt_new_array(&q->arena, uint32_t, n + 1);
    q->touched = dt_new_array(&q->arena, bool, nb + 1);
    q->compare = dt_new_array(&q->arena, struct ana_set, nb + 1);
    q->before = dt_calloc((size_t)nb + 1, sizeof *q->before);
    q->made = dt_calloc((size_t)nb + 1, sizeof *q->made);
    q->left = dt_calloc((size_t)nb + 1, sizeof *q->left);
    if (!q->s || !q->t || !q->touched || !q->compare || !q->before || !q->made || !q->left)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t l = 0; l < n; l++)
        if (root_of(x, l) == root)
            q->t[q->nt++] = l;
    for (uint32_t o = 0; o < m; o++)
        for (uint32_t k = 0; k < q->nt; k++)
            if (region_member(x, q->t[k], o)) {
                q->s[q->ns++] = o;
                break;
            }
    return 0;
}

static int region_key(const struct regions *x, const struct region *q, char key[DT_SHA256_TEXT], struct dt_err *e)
{
    struct dt_sha256 h;
    uint32_t n = 0;
    dt_free_ uint32_t *number = dt_malloc(((size_t)x->plan->graph->nbuffer + 1) * sizeof *number);
    if (!number || dt_sha256_init(&h) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(number, 0xFF, x->plan->graph->nbuffer * sizeof *number);
    dt_sha256_addstr(&h, "region");
    dt_sha256_addu64(&h, q->ns);
    for (uint32_t k = 0; k < q->ns; k++)
        rw_add_launch(&h, x->plain, q->s[k], false, number, &n);
    for (uint32_t k = 0; k < q->nt; k++)
        rw_add_launch(&h, x->plan->prog, q->t[k], false, number, &n);
    dt_sha256_final(&h, key);
    return 0;
}

/* ---- what is touched, and what of it is compared ----------------------------------------------------------------- */

static bool in_s(const struct region *q, uint32_t launch)
{
    for (uint32_t k = 0; k < q->ns; k++)
        if (q->s[k] == launch)
            return true;
    return false;
}

static bool region_touch(const struct ana_result *a, uint32_t launch, uint32_t buffer, bool *writes)
{
    const struct ana_launch *l = &a->launch[launch];
    bool any = false;
    for (uint32_t k = 0; k < l->naccess; k++)
        if (l->access[k].buffer == buffer) {
            *writes |= l->access[k].writes;
            any = true;
        }
    return any;
}

/* What launches outside read of the buffer behind the region's first launch, or the caller gets. */
static struct ana_set wanted_outside(const struct regions *x, struct region *q, uint32_t buffer)
{
    const struct ana_result *a = x->normal;
    const struct dt_buffer *b = &a->prog->graph->buffer[buffer];
    struct ana_interval *whole = dt_new_array(&q->arena, struct ana_interval, 1);
    struct ana_set all = {0};
    if (whole && (b->role == DT_OUTPUT || b->role == DT_INOUT)) {
        *whole = (struct ana_interval){0, b->bytes};
        return (struct ana_set){whole, 1};
    }
    for (uint32_t l = q->s[0] + 1; l < a->prog->graph->nlaunch; l++)
        if (x->stays[l] && !in_s(q, l))
            all = ana_set_union(&q->arena, all, rw_launch_bytes(&q->arena, a, l, buffer, false));
    return all;
}

/* 1; 0: the region cannot run alone; negative: memory. */
static int region_touches(const struct regions *x, struct region *q, struct dt_err *e)
{
    const struct dt_graph *g = x->normal->prog->graph;
    for (uint32_t b = 0; b < x->plan->graph->nbuffer; b++) {
        struct ana_set s = {0}, t = {0};
        bool in_region = false, s_writes = false, t_writes = false, others = false;
        uint32_t last = 0;
        for (uint32_t k = 0; k < q->ns && b < g->nbuffer; k++)
            if (region_touch(x->normal, q->s[k], b, &s_writes)) {
                in_region = true;
                last = q->s[k];
                s = ana_set_union(&q->arena, s, rw_launch_bytes(&q->arena, x->normal, q->s[k], b, true));
            }
        for (uint32_t k = 0; k < q->nt; k++)
            if (region_touch(x->plan->ana, q->t[k], b, &t_writes)) {
                in_region = true;
                t = ana_set_union(&q->arena, t, rw_launch_bytes(&q->arena, x->plan->ana, q->t[k], b, true));
            }
        q->touched[b] = in_region;
        if (!in_region)
            continue;
        if (x->plan->graph->buffer[b].module >= 0)
            return 0;
        if (b >= g->nbuffer)
            continue;
        for (uint32_t l = q->s[0]; l < last; l++)
            if (!in_s(q, l))
                region_touch(x->normal, l, b, &others); /* writes between the region's launches */
        if ((t_writes && !s_writes) || (others && s_writes))
            return 0;
        struct ana_set out = ana_set_minus(&q->arena, s, wanted_outside(x, q, b)); /* dead behind the region */
        q->compare[b] = ana_set_union(&q->arena, t, ana_set_minus(&q->arena, s, out));
    }
    return dt_arena_failed(&q->arena) ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 1;
}

/* ---- the runs ---------------------------------------------------------------------------------------------------- */

/* What the region finds in memory, without special values. 1; 0: it was not kept; negative: error. */
static int region_contents(const struct regions *x, struct region *q, struct dev_run *run, struct dt_err *e)
{
    const struct dt_graph *g = x->normal->prog->graph;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        const uint8_t *from = NULL;
        bool any = false;
        uint32_t first = q->s[0];
        if (!q->touched[b])
            continue;
        for (uint32_t k = 0; k < q->ns && !any; k++)
            if (region_touch(x->normal, q->s[k], b, &(bool){false})) {
                any = true;
                first = q->s[k];
            }
        int have = rw_snaps_before(x->g->snaps, first, b, &from), r = 0;
        if (have < 0)
            return 0;
        if (!have && !(from = q->made[b] = dt_large_get(g->buffer[b].bytes + 8)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        if (!have &&
            ((r = dev_run_fill_buffer(run, b, 0, 0xA5, e)) < 0 || (r = dev_run_download(run, b, q->made[b], e)) < 0))
            return r;
        q->before[b] = from;
    }
    return 1;
}

/* Fill the buffers of a run: what the region finds, with special values of these sorts. */
static int region_fill(const struct regions *x, const struct region *q, struct dev_run *run, const struct dt_graph *g,
                       uint64_t seed, unsigned sorts, struct dt_err *e)
{
    int r = 0;
    for (uint32_t b = 0; b < g->nbuffer && r == 0; b++) {
        if (!q->touched[b])
            continue;
        if (b >= x->normal->prog->graph->nbuffer) { /* scratch: T prepares it */
            r = dev_run_fill_buffer(run, b, 0, 0xA5, e);
            continue;
        }
        dt_large_ uint8_t *p = dt_large_get(g->buffer[b].bytes + 8);
        if (!p)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        memcpy(p, q->before[b], g->buffer[b].bytes);
        rw_special_put(x->g->regions.special, b, p, seed, sorts);
        r = dev_run_upload(run, b, p, e);
    }
    return r;
}

/* Keep what S has left in what is compared. */
static int keep_left(const struct region *q, struct dev_run *run, const struct dt_graph *g, uint32_t n,
                     struct dt_err *e)
{
    int r = 0;
    for (uint32_t b = 0; b < n && r == 0; b++) {
        const struct ana_set *c = &q->compare[b];
        if (c->n && !q->left[b] && !(q->left[b] = dt_large_get(g->buffer[b].bytes + 1)))
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        for (uint32_t k = 0; k < c->n && r == 0; k++)
            r = dev_run_download_part(run, b, c->iv[k].lo, c->iv[k].hi - c->iv[k].lo, q->left[b] + c->iv[k].lo, e);
    }
    return r;
}

/* Has T left the same there? By pieces: buffers are large, and are looked at once. 1; 0; negative: error. */
static int same_left(const struct region *q, const struct ana_set *compare, struct dev_run *run, uint32_t n,
                     struct dt_err *e)
{
    dt_free_ uint8_t *piece = dt_malloc(RW_PIECE);
    int r = piece ? 1 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t b = 0; b < n; b++)
        for (uint32_t k = 0; k < compare[b].n; k++)
            for (uint64_t lo = compare[b].iv[k].lo, hi = compare[b].iv[k].hi, m; lo < hi && r == 1; lo += m) {
                m = hi - lo < RW_PIECE ? hi - lo : RW_PIECE;
                r = dev_run_download_part(run, b, lo, m, piece, e);
                r = r < 0 ? r : memcmp(q->left[b] + lo, piece, m) == 0;
            }
    return r;
}

/* Run launches of a program on that. compare: NULL: what they leave is kept, 0; else: is it the same as what was kept,
 * in these bytes? 1; 0; negative: error. */
static int region_run(const struct regions *x, const struct region *q, const struct dev_prog *p, const uint32_t *launch,
                      uint32_t n, const struct dev_some *some, uint64_t seed, unsigned sorts,
                      const struct ana_set *compare, struct dt_err *e)
{
    struct dev_run *run = NULL;
    dt_free_ bool *wanted = dt_calloc((size_t)p->graph->nlaunch + 1, sizeof *wanted);
    uint32_t nb = x->normal->prog->graph->nbuffer;
    int r = wanted ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; r == 0 && k < n; k++)
        wanted[launch[k]] = true;
    if (r == 0)
        r = dev_run_new_for(x->g->dev, p, wanted, &run, e);
    if (r == 0)
        r = region_fill(x, q, run, p->graph, seed, sorts, e);
    if (r == 0 && some)
        r = dev_run_select(run, some, e);
    dev_set_follow(x->g->dev, false);
    dev_set_limit(x->g->dev, q->limit);
    for (uint32_t k = 0; k < n && r == 0; k++)
        r = dev_run_step(run, launch[k], e);
    dev_set_limit(x->g->dev, 0);
    dev_set_follow(x->g->dev, true);
    if (r == 0)
        r = compare ? same_left(q, compare, run, nb, e) : keep_left(q, run, p->graph, nb, e);
    dev_run_free(run);
    return r;
}

/* Does what its blocks touch hang on no data, neither as posted nor as planned? */
static int region_steady(const struct regions *x, struct region *q, struct dt_err *e)
{
    int r = 0;
    q->steady = q->work >= RW_GLANCE(LARGE);
    for (uint32_t k = 0; k < q->ns + q->nt && q->steady && r >= 0; k++) {
        bool t = k >= q->ns, steady = false, same = false;
        const struct ana_result *a = t ? x->plan->ana : x->normal;
        uint32_t l = t ? q->t[k - q->ns] : q->s[k];
        r = ana_steady(t ? x->plan->prog : x->plain, l, &steady, &same, e);
        q->steady = r >= 0 && same && rw_proved(&a->launch[l]);
    }
    return r < 0 ? r : 0;
}

/* Which blocks run on an input. */
static int region_some(const struct regions *x, struct region *q, unsigned input, struct part *ret, struct dt_err *e)
{
    const struct ana_result *a = x->plan->ana;
    uint32_t nb = x->normal->prog->graph->nbuffer;
    bool *only[2] = {dt_new_array(&q->arena, bool, x->normal->prog->graph->nlaunch + 1),
                     dt_new_array(&q->arena, bool, a->prog->graph->nlaunch + 1)};
    struct ana_set *want = dt_new_array(&q->arena, struct ana_set, x->plan->graph->nbuffer + 1);
    double share[2];
    *ret = (struct part){.compare = q->compare};
    if (!only[0] || !only[1] || !want)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < q->ns; k++)
        only[0][q->s[k]] = true;
    for (uint32_t k = 0; k < q->nt; k++) {
        const struct ana_launch *l = &a->launch[q->t[k]];
        uint32_t step = l->nblock / LEAST < SHARE ? l->nblock / LEAST : SHARE;
        only[1][q->t[k]] = true;
        for (uint32_t b = step ? input % step : 0; b < l->nblock; b += step ? step : 1)
            for (uint32_t i = 0; i < l->block[b].ntouch; i++) {
                const struct ana_touch *w = &l->block[b].touch[i];
                if (w->buffer < nb)
                    want[w->buffer] = ana_set_union(&q->arena, want[w->buffer],
                                                    ana_set_union(&q->arena, w->must_write, w->may_write));
            }
    }
    for (uint32_t b = 0; b < nb; b++) /* of that, what is compared */
        want[b] = ana_set_minus(&q->arena, want[b], ana_set_minus(&q->arena, want[b], q->compare[b]));
    struct dev_some *some[2] = {NULL, NULL};
    int r = rw_sample_part(&q->arena, x->normal, only[0], want, &some[0], &share[0], e);
    if (r == 0)
        r = rw_sample_part(&q->arena, a, only[1], want, &some[1], &share[1], e);
    if (r == 0 && dt_arena_failed(&q->arena))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && (share[0] <= WORTH || share[1] <= WORTH)) /* where a block of S reads of all, S runs whole */
        *ret = (struct part){share[0] <= WORTH ? some[0] : NULL, share[1] <= WORTH ? some[1] : NULL, want};
    return r;
}

/* S and T on one input. 1: they agree; 0: they do not, or S takes no such values; negative: error. */
static int on_input(const struct regions *x, struct region *q, unsigned input, struct dt_err *e)
{
    unsigned all = rw_input_sorts(x->inputs, input), sorts = all ? all : RW_SPECIAL_SMALL;
    uint64_t seed = rw_input_seed(input);
    struct dt_err mine = {0};
    struct part part = {.compare = q->compare};
    int r = q->steady ? region_some(x, q, input, &part, e) : 0;
    if (r < 0)
        return r;
    x->g->regions.parts += part.compare != q->compare;
    while ((r = region_run(x, q, x->plain, q->s, q->ns, part.s, seed, sorts, NULL, &mine)) < 0) {
        r = rw_recover(x->g->dev, r, &mine);
        if (!sorts || rw_fatal(r))
            break;
        dt_err_done(&mine);
        sorts = sorts == RW_SPECIAL_SMALL ? 0 : RW_SPECIAL_SMALL; /* fewer, as the posted launches do not take these */
    }
    x->g->regions.spared += sorts != (all ? all : RW_SPECIAL_SMALL);
    if (r == 0) {
        r = region_run(x, q, x->plan->prog, q->t, q->nt, part.t, seed, sorts, part.compare, &mine);
        r = r < 0 ? rw_recover(x->g->dev, r, &mine) : r;
    }
    if (rw_fatal(r))
        dt_err_move(e, &mine);
    dt_err_done(&mine);
    return r == 1 || rw_fatal(r) ? r : 0;
}

/* 1: it passed, now or an equal one before; 0: it did not, or cannot be run alone; negative: error. */
static int one_region(const struct regions *x, uint32_t root, struct dt_err *e)
{
    struct region q;
    struct rw_tried passed = {0};
    struct dev_run *run = NULL;
    int r = region_of(x, root, &q, e);
    if (r == 0)
        r = region_key(x, &q, passed.key, e);
    if (r < 0 || !q.ns || rw_trial_find(x->g, passed.key)) {
        region_done(&q, x->plan->graph->nbuffer);
        return r < 0 ? r : 1;
    }
    for (uint32_t k = 0; k < q.ns; k++)
        q.work += rw_snaps_cost(x->g->snaps)[q.s[k]].instructions;
    q.limit += 4 * q.work;
    if ((r = region_steady(x, &q, e)) == 0)
        r = region_touches(x, &q, e);
    if (r == 1 && (r = dev_run_new(x->g->dev, x->plain, &run, e)) == 0)
        r = region_contents(x, &q, run, e);
    dev_run_free(run);
    for (unsigned i = 1; i < x->inputs && r == 1; i++)
        r = on_input(x, &q, i, e);
    region_done(&q, x->plan->graph->nbuffer);
    x->g->regions.distinct += r == 1;
    return r == 1 && !dt_push(&x->g->tried, passed) ? dt_err_set(e, DT_E_NOMEM, "out of memory") : r;
}

/* The graph of normal form with the posted kernels. `posted` has the same launches. */
static int plain_graph(struct regions *x, const struct dev_prog *posted, struct dt_err *e)
{
    const struct dt_graph *n = x->normal->prog->graph, *o = posted->graph;
    x->graph = *n;
    x->graph.module = dt_calloc((size_t)n->nmodule + o->nmodule + 1, sizeof *x->graph.module);
    x->graph.launch = dt_calloc((size_t)n->nlaunch + 1, sizeof *x->graph.launch);
    if (!x->graph.module || !x->graph.launch)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(x->graph.module, o->module, o->nmodule * sizeof *o->module);
    memcpy(x->graph.module + o->nmodule, n->module, n->nmodule * sizeof *n->module);
    x->graph.nmodule = o->nmodule + n->nmodule;
    for (uint32_t l = 0; l < n->nlaunch; l++) {
        x->graph.launch[l] = n->launch[l];
        x->graph.launch[l].module = o->launch[l].module;
        x->graph.launch[l].entry = o->launch[l].entry;
        x->graph.launch[l].narg = o->launch[l].narg; /* calls may have added one behind them */
    }
    return dev_prog_derive(x->g->dev, &x->graph, posted, NULL, NULL, &x->plain, e);
}

static void all_done(struct regions *x)
{
    dev_prog_free(x->plain);
    free(x->graph.module);
    free(x->graph.launch);
    free(x->root);
    free(x->stays);
}

int rw_regions_check(struct rw_gate *g, const struct dev_prog *posted, const struct rw_state *plan, unsigned inputs,
                     bool *ret_pass, struct dt_err *e)
{
    const struct ana_result *normal = g->snaps ? rw_snaps_ana(g->snaps) : NULL;
    struct regions x = {.g = g, .plan = plan, .normal = normal, .inputs = inputs};
    uint32_t nb = normal ? normal->prog->graph->nbuffer : 0;
    *ret_pass = false;
    g->regions.n = 0;
    if (!normal || g->original.races || plan->graph->nbuffer < nb ||
        normal->prog->graph->nlaunch != posted->graph->nlaunch)
        return 0;
    for (uint32_t b = 0; b < nb; b++)
        if (strcmp(normal->prog->graph->buffer[b].name, plan->graph->buffer[b].name) != 0)
            return 0;
    int r = divide(&x, e);
    if (r == 0)
        r = plain_graph(&x, posted, e);
    if (r == 0 && !g->regions.special)
        r = rw_special_new(normal->prog, true, true, &g->regions.special, e);
    bool pass = r == 0;
    for (uint32_t l = 0; l < plan->graph->nlaunch && r >= 0 && pass; l++) {
        bool made = false;
        for (uint32_t k = l; x.root[l] == l && plan->made && k < plan->graph->nlaunch; k++)
            made |= plan->made[k] && root_of(&x, k) == l;
        if (!made)
            continue;
        g->regions.n++;
        r = one_region(&x, l, e);
        pass = r == 1;
    }
    all_done(&x);
    *ret_pass = r >= 0 && pass;
    return r < 0 ? r : 0;
}
