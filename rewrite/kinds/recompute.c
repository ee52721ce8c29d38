/* Recompute: a cheap producer's blocks run again in every consumer block that needs them, and their own launch is gone.
 *
 *   before                                  after
 *   norm<<<128, 256>>>(x, n)  a row each    norm+gemm<<<(16, 8), 256>>>(x, w, y)    block (i, j): the 16 rows of its
 *   gemm<<<(16, 8), 256>>>(n, w, y)                                                 tile, a barrier, the tile
 *   gate<<<128, 128>>>(n, g)                norm+gate<<<128, 128>>>(x, g)           block k: row k again, a barrier,
 *                                                                                   gate's block k
 *
 * Block fusion would put all consumer blocks that share a producer block, directly or not, into one block; here each
 * has producers of its own. The intermediate is in the block's shared memory only, so nothing is written twice. Apart
 * from the lists of blocks (for each consumer block the producers of its RAW row) this is block fusion at level
 * `shared`: emit/fit.c, emit/join.c. There is one launch for each consumer, in their order, where the producer stood.
 *
 * Legal when the LEGAL and LEVEL rows hold for the producer with each consumer (but for `order`, which is asked of all
 * of them together), and:
 *   repeatable    the producer has no atomics and writes nothing that it reads, so running a block twice gives the same
 *   inputs_stay   no consumer writes what the producer reads or writes: it is read again while consumers run, and after
 *                 the first of them
 *   all_readers   all that it writes goes to these consumers, through shared memory
 * What could break it: as for block fusion. A producer that costs more than it saves is dropped, by a bound before it
 * is built.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define MOST 8 /* consumers */
#define BOUND 4.0

/* The levels, nearest first. */
enum { REGISTER, SHARED, LEVELS };
static const char *const levels[] = {"register", "shared", NULL};

struct mine {
    struct rw_cand *c; /* by consumer */
    uint32_t n;
    bool may[LEVELS];
    struct dt_str why[LEVELS];
    struct rw_filled *filled; /* the producer is a memset; then there is nothing else */
};

bool rw_legal_all_readers(const struct rw_cand *c, struct dt_str *why)
{
    const struct ana_launch *p = &c->facts.ana->launch[c->facts.launch[0]];
    for (uint32_t k = 0; k < p->naccess; k++) {
        const char *name = c->facts.prog->graph->buffer[p->access[k].buffer].name;
        const struct rw_redirect *r = NULL;
        if (!p->access[k].writes)
            continue;
        for (uint32_t i = 0; i < c->nredirect; i++)
            if (c->redirect[i].buffer == p->access[k].buffer)
                r = &c->redirect[i];
        if (!r)
            dt_str_addf(why, DT_LAUNCH " does not go through shared memory%s%s", name, c->no_redirect.len ? ": " : "",
                        c->no_redirect.s ? c->no_redirect.s : "");
        else if (r->keep_global)
            dt_str_addf(why, DT_LAUNCH " leaves the graph, or somebody else reads it", name);
        if (!r || r->keep_global)
            return false;
    }
    return true;
}

static const struct rw_legal more[] = {RW_LEGAL_ROW(repeatable), RW_LEGAL_ROW(inputs_stay)};
static const struct rw_legal fitted[] = {RW_LEGAL_ROW(all_readers)};

static bool legal(const struct rw_cand *c, struct dt_str *why)
{
    unsigned at = 0;
    while (at < rw_nlegal && rw_legal[at].facts != rw_legal_order)
        at++;
    return rw_legal_rows(rw_legal, at, c, why) &&
           (at == rw_nlegal || rw_legal_rows(rw_legal + at + 1, rw_nlegal - at - 1, c, why)) &&
           rw_legal_rows(more, 2, c, why);
}

/* Level `register`: can the producer be inlined into each of its readers? Of one reader alone block fusion asks. */
static int inlinable(struct mine *m, struct dt_err *e)
{
    struct dt_str *why = &m->why[REGISTER];
    if (m->n < 2)
        return dt_str_add(why, "level register: it has one reader"), 0;
    for (uint32_t k = 0; k < m->n; k++) {
        int r = rw_legal_rows(more, 2, &m->c[k], why) ? rw_inline_may(&m->c[k], RW_LEVEL_PROLOGUE, why, e) : 1;
        if (r)
            return r < 0 ? r : 0;
    }
    m->may[REGISTER] = RW_LEVEL_NAMED("register");
    return 0;
}

/* A memset of what the launch adds to, or fills: what most memsets are for. */
static bool begins_with(const struct rw_state *s, uint32_t memset_at, uint32_t launch)
{
    const struct ana_launch *l = &s->ana->launch[launch];
    bool writes = false;
    for (uint32_t k = 0; k < l->naccess; k++)
        writes |=
            l->access[k].buffer == s->graph->launch[memset_at].dst && (l->access[k].writes || l->access[k].atomics);
    return s->graph->launch[memset_at].kind == DT_MEMSET && writes;
}

/* Every kernel whose blocks are read by several blocks, of one launch or of more, and every memset; all readers are
 * kernels. */
static int recompute_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                             struct dt_err *e)
{
    int r = 0;
    (void)o;
    for (uint32_t p = 0; p < s->graph->nlaunch && r == 0; p++) {
        uint32_t set[MOST + 1] = {p}, n = 1, size = 0;
        uint64_t bytes = 0;
        bool fill = s->graph->launch[p].kind == DT_MEMSET, ok = fill || s->graph->launch[p].kind == DT_KERNEL;
        bool shared = false;
        for (uint32_t k = 0; k < s->ana->nedge && ok; k++) { /* by consumer: ascending */
            const struct ana_edge *x = &s->ana->edge[k];
            if (x->producer != p || !ana_rows_pairs(&x->raw))
                continue;
            ok = n <= MOST && s->graph->launch[x->consumer].kind == DT_KERNEL &&
                 (RW_FORCED || !begins_with(s, p, x->consumer));
            if (ok)
                set[n++] = x->consumer;
            shared |= fill || x->cpp_max > 1 || n > 2;
            size = x->ppc_max > size ? x->ppc_max : size;
            for (uint32_t j = 0; j < x->nbuffer; j++)
                bytes += s->graph->buffer[x->buffer[j]].bytes;
        }
        /* a producer whose results stay in global memory is no candidate */
        for (uint32_t k = 0; ok && k < s->ana->launch[p].naccess; k++) {
            const struct ana_access *x = &s->ana->launch[p].access[k];
            ok = !x->writes || rw_passing(&s->graph->buffer[x->buffer]);
        }
        if (ok && shared && rw_propose(ret, set, n, size, bytes) < 0)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return r;
}

/* Lists: a component for each consumer block, its producers are those of its row. */
static int recompute_lists(struct rw_cand *c, struct dt_err *e)
{
    const struct ana_rows *raw = &c->facts.edge->raw;
    uint32_t n = c->facts.body[1].step->blocks;
    struct rw_list *p = &c->lists.list[0], *q = &c->lists.list[1];
    p->row = dt_new_array(&c->arena, uint32_t, n + 2);
    p->col = dt_new_array(&c->arena, uint32_t, (size_t)raw->npairs + 1);
    q->row = dt_new_array(&c->arena, uint32_t, n + 2);
    q->col = dt_new_array(&c->arena, uint32_t, n + 1);
    if (!p->row || !p->col || !q->row || !q->col)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = k < raw->nrow ? raw->row[k] : 0, to = k < raw->nrow ? raw->row[k + 1] : 0;
        for (uint32_t i = from; i < to; i++)
            p->col[p->row[k] + i - from] = raw->col[i];
        p->row[k + 1] = p->row[k] + to - from;
        q->col[k] = k;
        q->row[k + 1] = k + 1;
    }
    c->lists.n = n;
    rw_list_fit(p, n);
    rw_list_fit(q, n);
    rw_abreast(c);
    return 0;
}

/* About how long the new launches take, and how long the old ones take now. */
static double bound(const struct mine *m, const struct rw_state *s, double *ret_now)
{
    double all = 0;
    *ret_now = 0;
    for (uint32_t k = 0; k < m->n; k++) {
        double now;
        all += rw_bound_us(&m->c[k], s, &now);
        *ret_now += k ? now - s->step_us[m->c[k].facts.launch[0]] : now; /* the producer ran once */
    }
    return all;
}

/* Level `shared`: do the rows hold, and is it not far too slow by the estimate? */
static int joinable(struct rw_edit *x, struct mine *m, enum rw_verdict *ret_verdict, struct dt_err *e)
{
    struct dt_str *why = &m->why[SHARED];
    for (uint32_t k = 0; k < m->n; k++) {
        struct rw_cand *c = &m->c[k];
        if (!c->facts.edge || !ana_rows_kept(&c->facts.edge->raw))
            return dt_str_add(why, DT_ROW("block-map") ": it has too many pairs to keep"), 0;
        int r = recompute_lists(c, e);
        if (r < 0)
            return r;
        c->level = RW_LEVEL_GLOBAL;
        c->nredirect = 0;
        if (!legal(c, why))
            return 0;
    }
    x->after_us = bound(m, x->now, &x->before_us);
    m->may[SHARED] = (x->after_us <= x->before_us * BOUND || RW_FORCED) && RW_LEVEL_NAMED("shared");
    if (m->may[SHARED])
        return 0;
    *ret_verdict = RW_DROPPED;
    dt_str_addf(why,
                "%s %.2f → about %.2f us for all of them: up to %u producer blocks again in each consumer block "
                "(estimated from the "
                "launches' own times, not built)",
                strncmp(x->now->time.method, "modeled", 7) ? "measured" : "modeled", x->before_us, x->after_us,
                m->c[0].lists.list[0].max);
    return 0;
}

/* Why no level is tried; that a producer is not pointwise, as most are not, only if there is nothing else to say. */
static void recompute_tell(const struct mine *m, struct dt_str *why)
{
    const char *near = m->why[REGISTER].s;
    dt_str_addf(why, "%s", m->why[SHARED].s ? m->why[SHARED].s : "");
    if (near && m->n > 1 && !dt_has_row(near, "pointwise") && !strstr(why->s ? why->s : "", near))
        dt_str_addf(why, "%slevel register: %s", why->len ? "; " : "", near);
}

static int recompute_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine = dt_calloc(1, sizeof *m);
    const struct dt_graph *g = x->now->graph;
    uint32_t between, *order = dt_calloc(g->nlaunch + 1, sizeof *order);
    *ret_verdict = RW_REFUSED;
    if (!m || !order || !(m->c = dt_calloc(x->nlaunch, sizeof *m->c))) {
        free(order);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    bool ok = rw_order(x->now->ana, x->launch, x->nlaunch, order, &between);
    free(order);
    if (!ok)
        return dt_str_addf(why, DT_ROW("order") ": " DT_LAUNCH " depends on one of them, and another on it",
                           between < g->nlaunch ? g->launch[between].name : "?"),
               1;
    if (g->launch[x->launch[0]].kind == DT_MEMSET)
        return rw_filled_open(x, &m->filled, why, e);
    for (uint32_t k = 1; k < x->nlaunch; k++) {
        struct rw_cand *c = &m->c[k - 1];
        const uint32_t pair[2] = {x->launch[0], x->launch[k]};
        m->n = k;
        int r = rw_cand_open(c, x->dev, x->now->prog, x->now->ana, x->opt, pair, 2, e);
        if (r < 0)
            return r;
        c->facts.set = x->launch;
        c->facts.nset = x->nlaunch;
        c->facts.edge = ana_find_edge(x->now->ana, pair[0], pair[1]);
    }
    int r = inlinable(m, e);
    if (r == 0)
        r = joinable(x, m, ret_verdict, e);
    if (r < 0 || m->may[REGISTER] || m->may[SHARED])
        return r;
    recompute_tell(m, why);
    return 1;
}

/* The producer inlined into each consumer, at its loads. */
static int build_inlined(struct rw_edit *x, struct mine *m, struct dt_str *why, struct dt_err *e)
{
    for (uint32_t k = 0; k < m->n; k++) {
        int r = rw_inline_apply(&m->c[k], RW_LEVEL_PROLOGUE, why, e);
        if (r || (r = rw_fuse_part(&m->c[k], x, e)) < 0)
            return r;
    }
    return 0;
}

static int build_joined(struct rw_edit *x, struct mine *m, struct dt_str *why, struct dt_err *e)
{
    for (uint32_t k = 0; k < m->n; k++) {
        struct rw_cand *c = &m->c[k];
        struct dt_str room = {0};
        c->level = RW_LEVEL_GLOBAL; /* what another level left is of no account */
        c->nredirect = 0;
        c->in = NULL;
        rw_abreast(c);
        int r = rw_fit(c, e);
        if (r < 0)
            return r;
        c->level = RW_LEVEL_SHARED;
        if (!rw_legal_rows(fitted, 1, c, why))
            return 1;
        bool ok = rw_layout(c, &room);
        if (!ok)
            dt_str_addf(why, DT_ROW("shared-space") ": %s", room.s ? room.s : "it does not fit");
        dt_str_done(&room);
        if (!ok || !legal(c, why))
            return 1;
        if ((r = rw_identity(c, why, e)))
            return r;
        if ((r = rw_make(c, why, e)) != 0 || (r = rw_fuse_part(c, x, e)) < 0)
            return r;
    }
    return 0;
}

static int recompute_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine;
    if (m->filled)
        return level == REGISTER && RW_LEVEL_NAMED("register") ? rw_filled_build(x, m->filled, why, e) : 1;
    if (!m->may[level]) {
        if (level == SHARED && m->why[SHARED].len)
            dt_str_addf(why, "level shared: %s", m->why[SHARED].s);
        else if (level == REGISTER && m->n > 1 && m->why[REGISTER].s && !dt_has_row(m->why[REGISTER].s, "pointwise"))
            dt_str_addf(why, "level register: %s", m->why[REGISTER].s);
        return 1;
    }
    return level == REGISTER ? build_inlined(x, m, why, e) : build_joined(x, m, why, e);
}

static void recompute_close(struct rw_edit *x)
{
    struct mine *m = x->mine;
    for (uint32_t k = 0; m && m->c && k < m->n; k++)
        rw_cand_done(&m->c[k]);
    for (unsigned l = 0; m && l < LEVELS; l++)
        dt_str_done(&m->why[l]);
    if (m) {
        free(m->c);
        rw_filled_close(m->filled);
    }
    free(m);
    x->mine = NULL;
}

const struct rw_rewrite rw_recompute = {
    .name = "recompute",
    .needs = "a producer without atomics, all of whose results its readers get in registers or through shared memory; "
             "rows of rewrite/legal.def",
    .keeps = "what every consumer block computes",
    .on = true,
    .levels = levels,
    .propose = recompute_propose,
    .open = recompute_open,
    .build = recompute_build,
    .close = recompute_close,
};
