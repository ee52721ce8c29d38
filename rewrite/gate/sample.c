/* Samples: how a graph that is too large to run whole on the software device is verified. Some blocks of every launch
 * run, of the graph and of the plan, and what they leave in the outputs is compared byte by byte.
 *
 *   want     the bytes of the outputs that are compared: what some blocks write, taken here and there from every launch
 *            that writes outputs
 *   blocks   the blocks that run: every block that writes a byte of `want`, and, going backwards over the launches,
 *            every block that writes what one of these blocks reads (the raw maps). No other block writes a byte that
 *            is compared or that a chosen block reads, so the others can be left out
 *
 * A map that is a superset (`data-dependent`) only makes more blocks run. Blocks of one launch that conflict with each
 * other all run, or none does; the same holds for launches with clusters. The plan's blocks are found from the same
 * bytes with the plan's own analysis. So the comparison is exact for the part that it covers; the plan says how large
 * that part is (`verified.sampled`).
 *
 * What the other blocks write is compared without running them (rw_sample_writes). The analyses know all blocks of
 * both: a plan may not surely write an output byte that the graph never writes, and must possibly write every output
 * byte that the graph surely writes. This says nothing about values; only the sample does.
 *
 * To find whether a graph is too large, the smallest sample is run, and its instructions are scaled up to all blocks.
 * The bytes in the footprints are a bound that spares most graphs this run; a few blocks of each sort of launch, where
 * nothing that they do hangs on data, are one that spares most others the sample, which may be a third of the graph.
 * Counts of instructions decide, never the clock.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define SOME 4       /* a sample may have 1 / SOME of the work that a whole run may have */
#define PER_BYTE 100 /* instructions per byte of the footprints: kernels run fewer */
#define FEW 8        /* blocks of a launch for a guess at what it takes */
#define FAR 4        /* a guess of 1 / FAR of what may run whole is far from it */
#define SEEDS 64     /* most blocks of one launch that a sample starts from */

static int sample_nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory"); }

static bool is_output(const struct dt_graph *g, uint32_t buffer)
{
    return g->buffer[buffer].role == DT_OUTPUT || g->buffer[buffer].role == DT_INOUT;
}

struct marks { /* by launch and block: the block runs */
    bool **on;
    uint32_t *n; /* by launch: how many blocks run */
};

static void sample_mark(const struct ana_result *a, struct marks *m, uint32_t l, uint32_t b)
{
    const struct dt_launch *x = &a->prog->graph->launch[l];
    if (m->on[l][b])
        return;
    m->on[l][b] = true;
    m->n[l]++;
    if (a->launch[l].self_conflict || x->cluster[0])
        for (uint32_t k = 0; k < a->launch[l].nblock; k++)
            if (!m->on[l][k]) {
                m->on[l][k] = true;
                m->n[l]++;
            }
}

static int marks_new(struct dt_arena *arena, const struct ana_result *a, struct marks *m, struct dt_err *e)
{
    uint32_t n = a->prog->graph->nlaunch;
    m->on = dt_new_array(arena, bool *, n + 1);
    m->n = dt_new_array(arena, uint32_t, n + 1);
    for (uint32_t l = 0; m->on && m->n && l < n; l++)
        if (!(m->on[l] = dt_new_array(arena, bool, a->launch[l].nblock + 1)))
            return sample_nomem(e);
    return m->on && m->n ? 0 : sample_nomem(e);
}

/* Does the block write a byte of `want` (by buffer)? */
static bool writes(const struct ana_block *b, const struct ana_set *want)
{
    for (uint32_t k = 0; k < b->ntouch; k++) {
        const struct ana_touch *t = &b->touch[k];
        if (want[t->buffer].n &&
            (ana_set_overlaps(t->must_write, want[t->buffer]) || ana_set_overlaps(t->may_write, want[t->buffer])))
            return true;
    }
    return false;
}

/* Mark all blocks that `want` and the blocks marked so far need. only: of these launches (NULL: of all). */
static void close_over(const struct ana_result *a, const bool *only, const struct ana_set *want, struct marks *m)
{
    for (uint32_t l = a->prog->graph->nlaunch; l-- > 0;) {
        if (only && !only[l])
            continue;
        for (uint32_t b = 0; b < a->launch[l].nblock; b++)
            if (!m->on[l][b] && writes(&a->launch[l].block[b], want))
                sample_mark(a, m, l, b);
        for (uint32_t k = 0; m->n[l] && k < a->nedge; k++) {
            const struct ana_edge *x = &a->edge[k];
            if (x->consumer != l || !x->raw.npairs || (only && !only[x->producer]))
                continue;
            if (!x->raw.row) { /* the map has too many pairs to be kept: all blocks */
                for (uint32_t b = 0; b < a->launch[x->producer].nblock; b++)
                    sample_mark(a, m, x->producer, b);
                continue;
            }
            for (uint32_t c = 0; c < x->raw.nrow; c++)
                for (uint32_t i = x->raw.row[c]; m->on[l][c] && i < x->raw.row[c + 1]; i++)
                    sample_mark(a, m, x->producer, x->raw.col[i]);
        }
    }
}

/* By buffer: the bytes of outputs that the launches write, either surely or possibly. */
static int output_writes(struct dt_arena *arena, const struct ana_result *a, bool surely, struct ana_set **ret,
                         struct dt_err *e)
{
    const struct dt_graph *g = a->prog->graph;
    struct ana_set *set = dt_new_array(arena, struct ana_set, g->nbuffer + 1);
    for (uint32_t l = 0; set && l < g->nlaunch; l++)
        for (uint32_t k = 0; k < a->launch[l].naccess; k++) {
            const struct ana_access *x = &a->launch[l].access[k];
            for (int v = 0; x->writes && is_output(g, x->buffer) && v < (surely ? 1 : ANA_EVIDENCES); v++)
                set[x->buffer] = ana_set_union(arena, set[x->buffer], surely ? x->must : x->write_by[v]);
        }
    *ret = set;
    return dt_arena_failed(arena) ? sample_nomem(e) : 0;
}

int rw_sample_writes(const struct rw_sample *original, const struct dt_graph *go, const struct ana_result *a,
                     struct dt_err *e)
{
    const struct dt_graph *g = a->prog->graph;
    struct dt_arena arena = {0};
    struct ana_set *sure = NULL, *may = NULL;
    int r = output_writes(&arena, a, true, &sure, e);
    if (r == 0)
        r = output_writes(&arena, a, false, &may, e);
    for (uint32_t k = 0; r == 0 && k < go->nbuffer; k++) {
        uint32_t i = dt_graph_find_buffer(g, go->buffer[k].name);
        struct ana_set none = {0};
        struct ana_set lost = ana_set_minus(&arena, original->sure[k], i == DT_NAME_NONE ? none : may[i]);
        struct ana_set more = i == DT_NAME_NONE ? none : ana_set_minus(&arena, sure[i], original->may[k]);
        if (dt_arena_failed(&arena))
            r = sample_nomem(e);
        else if (lost.n || more.n)
            r = dt_err_set(e, DT_E_INTERNAL, DT_BUFFER ", byte %llu: %s", go->buffer[k].name,
                           (unsigned long long)(lost.n ? lost.iv[0].lo : more.iv[0].lo),
                           lost.n ? "the graph writes it, the plan does not"
                                  : "the plan writes it, the graph does not");
    }
    dt_arena_done(&arena);
    return r;
}

/* The list of marked blocks of a launch. */
static int marked(struct dt_arena *arena, const struct ana_result *a, const struct marks *m, uint32_t l,
                  struct dev_some *ret, struct dt_err *e)
{
    if (a->prog->graph->launch[l].kind != DT_KERNEL || m->n[l] == a->launch[l].nblock)
        return 0;
    uint32_t *list = dt_new_array(arena, uint32_t, m->n[l] + 1);
    if (!list)
        return sample_nomem(e);
    for (uint32_t b = 0; b < a->launch[l].nblock; b++)
        if (m->on[l][b])
            list[ret->n++] = b;
    ret->block = list;
    return 0;
}

/* Make the lists of marked blocks for the device. */
static int sample_lists(struct rw_sample *s, const struct ana_result *a, const struct marks *m, struct dt_err *e)
{
    uint32_t n = a->prog->graph->nlaunch;
    s->blocks = s->of = 0;
    s->some = dt_new_array(&s->arena, struct dev_some, n + 1);
    if (!s->some)
        return sample_nomem(e);
    for (uint32_t l = 0; l < n; l++) {
        struct dev_some *x = &s->some[l];
        s->blocks += m->n[l];
        s->of += a->launch[l].nblock;
        int r = marked(&s->arena, a, m, l, x, e);
        if (r < 0)
            return r;
        for (uint32_t k = 0; x->block && k < a->launch[l].naccess; k++) {
            const struct ana_access *y = &a->launch[l].access[k];
            struct dt_arena tmp = {0};
            struct ana_set read = {0}, write = {0};
            for (int v = 0; v < ANA_EVIDENCES; v++) {
                read = ana_set_union(&tmp, read, y->read_by[v]);
                write = ana_set_union(&tmp, write, y->write_by[v]);
            }
            x->unique_read_bytes += ana_set_bytes(read);
            x->unique_write_bytes += ana_set_bytes(write);
            dt_arena_done(&tmp);
        }
    }
    return 0;
}

struct rw_sample *rw_sample_free(struct rw_sample *s)
{
    if (s)
        dt_arena_done(&s->arena);
    free(s);
    return NULL;
}

int rw_sample_of(const struct rw_sample *original, const struct dt_graph *go, const struct ana_result *a,
                 struct rw_sample **ret, struct dt_err *e)
{
    const struct dt_graph *g = a->prog->graph;
    struct rw_sample *s = dt_calloc(1, sizeof *s);
    struct marks m;
    int r = s ? 0 : sample_nomem(e);
    if (r == 0 && !(s->want = dt_new_array(&s->arena, struct ana_set, g->nbuffer + 1)))
        r = sample_nomem(e);
    for (uint32_t k = 0; r == 0 && k < g->nbuffer; k++) {
        uint32_t i = dt_graph_find_buffer(go, g->buffer[k].name);
        if (i != DT_NAME_NONE)
            s->want[k] = original->want[i];
    }
    if (r == 0 && (r = marks_new(&s->arena, a, &m, e)) == 0) {
        close_over(a, NULL, s->want, &m);
        r = sample_lists(s, a, &m, e);
    }
    if (r < 0)
        rw_sample_free(s);
    else
        *ret = s;
    return r;
}

int rw_sample_part(struct dt_arena *arena, const struct ana_result *a, const bool *only, const struct ana_set *want,
                   struct dev_some **ret_some, double *ret_share, struct dt_err *e)
{
    struct marks m;
    uint64_t some = 0, all = 0;
    int r = marks_new(arena, a, &m, e);
    uint32_t n = a->prog->graph->nlaunch;
    struct dev_some *x = r == 0 ? dt_new_array(arena, struct dev_some, n + 1) : NULL;
    if (r == 0 && !x)
        return sample_nomem(e);
    if (r == 0)
        close_over(a, only, want, &m);
    for (uint32_t l = 0; r == 0 && l < n; l++) {
        if (!only[l])
            continue;
        some += m.n[l];
        all += a->launch[l].nblock;
        r = marked(arena, a, &m, l, &x[l], e);
    }
    *ret_some = x;
    *ret_share = all ? (double)some / (double)all : 1;
    return r;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Bytes in the footprints of all blocks. */
static uint64_t sample_footprint(const struct ana_result *a)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < a->prog->graph->nlaunch; l++)
        for (uint32_t b = 0; b < a->launch[l].nblock; b++)
            for (uint32_t k = 0; k < a->launch[l].block[b].ntouch; k++) {
                const struct ana_touch *t = &a->launch[l].block[b].touch[k];
                const struct ana_set *set[] = {&t->read, &t->must_write, &t->may_write};
                for (int i = 0; i < 3; i++)
                    sum += ana_set_bytes(*set[i]);
            }
    return sum;
}

/* The k-th block that a sample starts from: both ends, the middle, then anywhere. */
static uint32_t seed_block(uint32_t launch, uint32_t nblock, uint32_t k)
{
    return k == 0 ? 0 : k == 1 ? nblock - 1 : k == 2 ? nblock / 2 : (uint32_t)(dt_splitmix64(launch + 1, k) % nblock);
}

/* Add what the block writes in outputs to s->want. */
static void want_block(struct rw_sample *s, const struct ana_result *a, uint32_t l, uint32_t b)
{
    const struct ana_block *x = &a->launch[l].block[b];
    for (uint32_t k = 0; k < x->ntouch; k++)
        if (is_output(a->prog->graph, x->touch[k].buffer)) {
            struct ana_set *w = &s->want[x->touch[k].buffer];
            *w = ana_set_union(&s->arena, *w, ana_set_union(&s->arena, x->touch[k].must_write, x->touch[k].may_write));
        }
}

/* The sample that starts from the first `seeds` blocks (seed_block) of every launch. A launch that no output needs gets
 * one block all the same, so that its cost is known. */
static int sample_take(const struct ana_result *a, uint32_t seeds, struct rw_sample **ret, struct marks *m,
                       struct dt_err *e)
{
    const struct dt_graph *g = a->prog->graph;
    struct rw_sample *s = dt_calloc(1, sizeof *s);
    int r = s ? 0 : sample_nomem(e);
    if (r == 0 && !(s->want = dt_new_array(&s->arena, struct ana_set, g->nbuffer + 1)))
        r = sample_nomem(e);
    for (uint32_t l = 0; r == 0 && l < g->nlaunch; l++)
        for (uint32_t k = 0; k < seeds && k < a->launch[l].nblock; k++)
            want_block(s, a, l, seed_block(l, a->launch[l].nblock, k));
    if (r == 0 && (r = marks_new(&s->arena, a, m, e)) == 0) {
        close_over(a, NULL, s->want, m);
        for (uint32_t l = g->nlaunch; l-- > 0;)
            if (!m->n[l] && a->launch[l].nblock) {
                sample_mark(a, m, l, 0);
                close_over(a, NULL, s->want, m);
            }
        r = sample_lists(s, a, m, e);
    }
    if (r == 0 && (r = output_writes(&s->arena, a, true, &s->sure, e)) == 0)
        r = output_writes(&s->arena, a, false, &s->may, e);
    if (r < 0)
        rw_sample_free(s);
    else
        *ret = s;
    return r;
}

/* Is the work of the two launches about the same? Equal kernels, geometry and numbers; whatever their buffers hold. */
static bool alike(const struct dt_launch *x, const struct dt_launch *y)
{
    bool same = x->kind == y->kind && x->bytes == y->bytes && x->narg == y->narg && x->shared == y->shared;
    if (same && x->kind == DT_KERNEL)
        same = x->module == y->module && !strcmp(x->entry, y->entry) && !memcmp(x->grid, y->grid, sizeof x->grid) &&
               !memcmp(x->block, y->block, sizeof x->block);
    for (uint32_t k = 0; k < x->narg && same; k++)
        same = x->arg[k].kind == y->arg[k].kind && x->arg[k].kind != DT_ARG_BYTES &&
               (x->arg[k].kind != DT_ARG_SCALAR || x->arg[k].bits == y->arg[k].bits);
    return same;
}

/* By launch the first one that is like it. *ret_last: behind it there are no others any more. free(); NULL: memory. */
static uint32_t *firsts(const struct dt_graph *g, uint32_t *ret_last)
{
    uint32_t *first = dt_calloc((size_t)g->nlaunch + 1, sizeof *first);
    *ret_last = 0;
    for (uint32_t l = 0; first && l < g->nlaunch; l++) {
        while (first[l] < l && (first[first[l]] != first[l] || !alike(&g->launch[first[l]], &g->launch[l])))
            first[l]++;
        *ret_last = first[l] == l ? l : *ret_last;
    }
    return first;
}

/* Does what a launch does, one of each sort, hang on what is in memory? touches: only what it touches counts. 1, 0. */
static int sample_by_data(const struct dev_prog *p, const uint32_t *first, bool touches, struct dt_err *e)
{
    bool steady = true, same = true;
    int r = 0;
    for (uint32_t l = 0; l < p->graph->nlaunch && (touches ? same : steady) && r == 0; l++)
        if (first[l] == l && p->graph->launch[l].kind == DT_KERNEL)
            r = ana_steady(p, l, &steady, &same, e);
    return r < 0 ? r : !(touches ? same : steady);
}

/* Run the sample once, on the first input, for the costs of its launches; only until one of each sort has run, if they
 * say that all together are far from `most` (then only the instructions of the others are there). */
static int costs(struct dev_device *d, const struct dev_prog *p, const struct rw_sample *s, uint64_t most,
                 struct dev_cost *cost, struct dt_err *e)
{
    struct dev_run *run = NULL;
    uint32_t last, n = p->graph->nlaunch;
    dt_free_ uint32_t *first = firsts(p->graph, &last);
    int r = first ? dev_run_new(d, p, &run, e) : sample_nomem(e);
    if (r == 0 &&
        (r = sample_by_data(p, first, false, e)) > 0) /* filling memory would take longer than what runs here */
        r = dev_run_fill(run, 0, -1, e);
    if (r == 0)
        r = dev_run_select(run, s->some, e);
    for (uint32_t l = 0; r == 0 && l < n; l++) {
        uint64_t all = 0;
        if ((r = dev_run_step(run, l, e)) == 0)
            r = dev_run_cost(run, l, &cost[l], e);
        for (uint32_t k = 0; k < n && l == last; k++)
            all += cost[first[k]].instructions;
        if (r < 0 || l != last || all >= most / 2)
            continue;
        for (uint32_t k = l + 1; k < n; k++)
            cost[k].instructions = cost[first[k]].instructions;
        break;
    }
    dev_run_free(run);
    return r < 0 ? rw_recover(d, r, e) : 0;
}

/* About how many thread-instructions the graph takes, by a few blocks of one launch of each sort, on whatever is in
 * memory (an error function may go another way there). 1: *ret; 0: what launches touch hangs on data, or their blocks
 * do not run alone; negative: error. */
static int sample_guess(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a, double *ret,
                        struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    struct dev_run *run = NULL;
    uint32_t last;
    dt_free_ uint32_t *first = firsts(g, &last), *list = dt_calloc((size_t)g->nlaunch * FEW + 1, sizeof *list);
    dt_free_ double *cost = dt_calloc((size_t)g->nlaunch + 1, sizeof *cost);
    dt_free_ struct dev_some *some = dt_calloc((size_t)g->nlaunch + 1, sizeof *some);
    bool may = true;
    int r = first && list && cost && some ? sample_by_data(p, first, true, e) : sample_nomem(e);
    if (r != 0)
        return r < 0 ? r : 0;
    for (uint32_t l = 0; l < g->nlaunch && may; l++) {
        uint32_t n = a->launch[l].nblock;
        may = g->launch[l].kind != DT_KERNEL || !(a->launch[l].self_conflict || g->launch[l].cluster[0]);
        if (g->launch[l].kind != DT_KERNEL || n <= FEW)
            continue;
        some[l] = (struct dev_some){.block = list + (size_t)l * FEW, .n = FEW};
        for (uint32_t k = 0; k < FEW; k++)
            list[(size_t)l * FEW + k] = (uint32_t)((uint64_t)k * (n - 1) / (FEW - 1));
    }
    if (!may)
        return 0;
    r = dev_run_new(d, p, &run, e);
    if (r == 0)
        r = dev_run_select(run, some, e);
    for (uint32_t l = 0; r == 0 && l <= last && l < g->nlaunch; l++) {
        struct dev_cost one = {0};
        if (first[l] != l || g->launch[l].kind != DT_KERNEL)
            continue;
        if ((r = dev_run_step(run, l, e)) == 0 && (r = dev_run_cost(run, l, &one, e)) == 0)
            cost[l] = (double)one.instructions;
    }
    dev_run_free(run);
    *ret = 0;
    for (uint32_t l = 0; r == 0 && l < g->nlaunch; l++)
        *ret += cost[first[l]];
    return r < 0 ? rw_recover(d, r, e) : 1;
}

int rw_sample_choose(struct dev_device *d, const struct dev_prog *original, const struct ana_result *a, uint64_t most,
                     struct rw_sample **ret, struct dev_cost **ret_cost, struct dt_err *e)
{
    const struct dt_graph *g = original->graph;
    struct rw_sample *s = NULL;
    struct marks m;
    *ret = NULL;
    most = most ? most : RW_WHOLE;
    if (!dev_info(d)->soft || sample_footprint(a) < most / PER_BYTE)
        return 0;
    double about = 0;
    int r = sample_guess(d, original, a, &about, e);
    if (r < 0 || (r == 1 && about < (double)most / FAR))
        return r < 0 ? r : 0;
    r = sample_take(a, 1, &s, &m, e);
    struct dev_cost *cost = dt_calloc(g->nlaunch + 1, sizeof *cost);
    if (r == 0 && !cost)
        r = sample_nomem(e);
    if (r == 0)
        r = costs(d, original, s, most, cost, e);
    uint64_t all = 0;
    for (uint32_t l = 0; r == 0 && l < g->nlaunch; l++)
        all += cost[l].instructions;
    bool large = r == 0 && all > most && s->blocks < s->of;
    for (uint32_t seeds = 2; large && seeds <= SEEDS; seeds++) { /* as many seeds as fit */
        struct rw_sample *more = NULL;
        double work = 0;
        if ((r = sample_take(a, seeds, &more, &m, e)) < 0)
            break;
        for (uint32_t l = 0; l < g->nlaunch; l++)
            work += a->launch[l].nblock ? (double)cost[l].instructions / a->launch[l].nblock * m.n[l] : 0;
        if (work > (double)most / SOME) {
            rw_sample_free(more);
            break;
        }
        rw_sample_free(s);
        s = more;
    }
    if (r < 0 || !large) {
        rw_sample_free(s);
        free(cost);
        return r;
    }
    *ret = s;
    *ret_cost = cost;
    return 0;
}
