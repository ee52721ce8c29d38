/* Trials: the launches S of an edit, and the launches T in their place, run alone and are compared. So a candidate is
 * checked and timed without running the other launches.
 *
 * Of the reference run it is known what every launch left in the buffers that it writes (snaps.c). So for each buffer
 * it is known what S finds in memory where T will stand: what the last launch before that place left there.
 * T runs on that content, in order and under a shuffled block order with the race detector, and everything that S
 * writes is compared with what the launches that S stands for left. Where that differs, S runs on the content as well
 * and decides: bytes that nobody reads may be other ones by then. Left out are bytes of which the edit says that no
 * later launch reads them (intermediates that moved to shared memory, blocks that are not launched). The other block
 * orders are for what stays (orders.c); those of a long chain that is most of the graph, for the verification of the
 * plan.
 *
 * Where each launch of T stands for one of S (programmatic launches), they are tried one by one (chain.c).
 *
 * A trial is a sieve: the plan as a whole is verified at the end, on all inputs (plan/whole.c). Equal edits are tried
 * once. The layers of a model repeat, and a candidate whose texts, geometry and arguments were tried before passes, or
 * is too slow, at once. The performance library (library.c) remembers trials from one planning to the next.
 *
 * Software device only: a real one measures whole graphs. If a trial is impossible (a module's variable is involved, a
 * snapshot is missing, buffers are numbered otherwise), the caller runs the whole graph.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "base/subject.h"

#define CHAIN 16 /* launches */

/* ---- members: which launches of the original a launch stands for, as bits ---------------------------------------- */

size_t rw_member_words(const struct rw_gate *g) { return g->posted->graph->nlaunch / 64 + 1; }

static const uint64_t *trial_members(const struct rw_gate *g, const struct rw_state *s, uint32_t launch)
{
    return s->member + launch * rw_member_words(g);
}

/* ---- the runs ---------------------------------------------------------------------------------------------------- */

static bool begins_alike(const struct dt_graph *x, const struct dt_graph *y)
{
    bool same = x->nbuffer <= y->nbuffer;
    for (uint32_t b = 0; same && b < y->nbuffer; b++)
        same = b < x->nbuffer ? !strcmp(x->buffer[b].name, y->buffer[b].name) : y->buffer[b].role == DT_SCRATCH;
    return same;
}

bool rw_trial_possible(const struct rw_trial *t)
{
    const struct dt_graph *g = t->now->graph, *o = t->gate->posted->graph, *n = t->next->graph;
    if (!t->gate->snaps || !t->now->cost || !begins_alike(o, g) || !begins_alike(g, n))
        return false;
    for (uint32_t s = 0; s < t->x->nlaunch; s++) {
        const struct ana_launch *l = &t->now->ana->launch[t->x->launch[s]];
        for (uint32_t k = 0; k < l->naccess; k++)
            if (g->buffer[l->access[k].buffer].module >= 0 || l->access[k].buffer >= o->nbuffer)
                return false;
    }
    return true;
}

/* What the buffer holds when the first `n` launches have run. 1: *ret; 0: its fill; negative: it was not kept. */
static int content_after(const struct rw_trial *t, uint32_t n, uint32_t buffer, const uint8_t **ret)
{
    const struct rw_snaps *s = t->gate->snaps;
    const struct ana_result *a = rw_snaps_ana(s);
    uint32_t last = a->prog->graph->nlaunch;
    while (last-- > 0) { /* the last writer of all that these launches stand for */
        bool ran = false;
        for (uint32_t l = 0; rw_writes(&a->launch[last], buffer) && l < n && !ran; l++)
            ran = trial_members(t->gate, t->next, l)[last / 64] >> last % 64 & 1;
        if (ran)
            break;
    }
    return last == UINT32_MAX ? 0 : rw_snaps_left(s, last, buffer, ret);
}

int rw_trial_content(const struct rw_trial *t, uint32_t buffer, const uint8_t **ret)
{
    return content_after(t, t->first, buffer, ret);
}

int rw_trial_fill(const struct rw_trial *t, struct dev_run *run, struct dt_err *e)
{
    int r = 0;
    for (uint32_t b = 0; b < t->now->graph->nbuffer && r == 0; b++) {
        const uint8_t *from = NULL;
        if (!t->touched[b])
            continue;
        int have = rw_trial_content(t, b, &from);
        r = have == 1 ? dev_run_upload(run, b, from, e) : dev_run_fill_buffer(run, b, 0, 0xA5, e);
    }
    return r;
}

/* S writes none of these buffers, so T may not either, and the race detector need not follow them. */
static int only_reads(const struct rw_trial *t, struct dev_run *run, struct dt_err *e)
{
    int r = 0;
    for (uint32_t b = 0; b < t->now->graph->nbuffer && r == 0; b++) {
        bool written = false;
        for (uint32_t k = 0; k < t->x->nlaunch && !written; k++)
            written = rw_writes(&t->now->ana->launch[t->x->launch[k]], b);
        if (t->touched[b] && !written)
            r = dev_run_protect(run, b, true, e);
    }
    return r;
}

/* Keep what S has left. */
static int trial_fetch(struct rw_trial *t, struct dev_run *run, struct dt_err *e)
{
    int r = 0;
    for (uint32_t b = 0; b < t->now->graph->nbuffer && r == 0; b++) {
        if (!t->compared[b])
            continue;
        if (!t->own[b] && !(t->own[b] = dt_large_get(t->now->graph->buffer[b].bytes + 1)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        r = dev_run_download(run, b, t->own[b], e);
        t->want[b] = t->own[b];
    }
    return r;
}

/* What S leaves is what the launches that it stands for left, where nothing else comes between: no run is needed to
 * know it. False: it was not kept. */
bool rw_trial_want(struct rw_trial *t)
{
    bool kept = true;
    for (uint32_t b = 0; b < t->now->graph->nbuffer && kept; b++)
        kept = !t->compared[b] || content_after(t, t->first + t->n, b, &t->want[b]) == 1;
    return kept;
}

int rw_trial_before(struct rw_trial *t, struct dt_err *e)
{
    uint32_t n = t->now->graph->nlaunch;
    bool *wanted = dt_calloc(n + 1, sizeof *wanted);
    struct dev_run *run = NULL;
    if (!wanted)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < t->x->nlaunch; k++)
        wanted[t->x->launch[k]] = true;
    dev_set_schedule(t->gate->dev, 0, false);
    dev_set_follow(t->gate->dev, false);
    int r = dev_run_new_for(t->gate->dev, t->now->prog, wanted, &run, e);
    if (r == 0)
        r = rw_trial_fill(t, run, e);
    for (uint32_t k = 0; k < t->x->nlaunch && r == 0; k++)
        r = dev_run_step(run, t->x->launch[k], e);
    dev_set_follow(t->gate->dev, true);
    if (r == 0)
        r = trial_fetch(t, run, e);
    dev_run_free(run);
    free(wanted);
    return r;
}

/* Compare the buffer with what S leaves, piece by piece: it may be large, and is looked at once. */
static int trial_compare(const struct rw_trial *t, struct dev_run *run, uint32_t b, uint8_t *piece, uint64_t order,
                         struct dt_err *e)
{
    const struct dt_buffer *q = &t->now->graph->buffer[b];
    struct dt_arena a = {0};
    struct ana_interval all = {0, q->bytes};
    struct ana_set look = t->only ? t->only[b] : (struct ana_set){&all, 1};
    int r = 0;
    for (size_t k = 0; k < t->x->unread.n; k++)
        if (t->x->unread.p[k].buffer == b)
            look = ana_set_minus(&a, look, t->x->unread.p[k].bytes);
    if (dt_arena_failed(&a))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < look.n && r == 0; k++)
        for (uint64_t lo = look.iv[k].lo, n; lo < look.iv[k].hi && r == 0; lo += n) {
            const uint8_t *want = t->want[b] + lo;
            n = look.iv[k].hi - lo < RW_PIECE ? look.iv[k].hi - lo : RW_PIECE;
            if ((r = dev_run_download_part(run, b, lo, n, piece, e)) < 0 || !memcmp(piece, want, n))
                continue;
            uint64_t i = 0;
            while (piece[i] == want[i])
                i++;
            r = dt_err_set(e, DT_E_INTERNAL, "%s %llu, " DT_BUFFER " differs at byte %llu: %02x became %02x",
                           order ? "alone, block order" : "alone, input", (unsigned long long)order, q->name,
                           (unsigned long long)(lo + i), want[i], piece[i]);
        }
    dt_arena_done(&a);
    return r;
}

/* Thread-instructions of a launch of T whose blocks wait for each other, in another order of blocks: they poll as often
 * as that order makes them. */
static uint64_t order_limit(const struct rw_trial *t)
{
    uint64_t most = 0;
    for (uint32_t k = t->first; k < t->first + t->n; k++)
        most = t->next->cost[k].instructions > most ? t->next->cost[k].instructions : most;
    return 4 * most + RW_HANG;
}

/* Run T under one block order. */
int rw_trial_after(struct rw_trial *t, uint64_t order, struct dev_cost *ret_cost, struct dt_err *e)
{
    const struct dt_graph *g = t->now->graph;
    bool *wanted = dt_calloc(t->next->graph->nlaunch + 1, sizeof *wanted);
    uint8_t *piece = dt_malloc(RW_PIECE);
    struct dev_run *run = NULL;
    int r = wanted && piece ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0) {
        for (uint32_t k = 0; k < t->n; k++)
            wanted[t->first + k] = true;
        r = dev_run_new_for(t->gate->dev, t->next->prog, wanted, &run, e);
    }
    if (r == 0)
        r = rw_trial_fill(t, run, e);
    bool talks = rw_talks(t->next->prog);
    if (r == 0 && order)
        r = only_reads(t, run, e);
    if (r == 0)
        r = rw_watch(t->gate->dev, talks, order, order != 0, e);
    dev_set_follow(t->gate->dev, !order && ret_cost);
    dev_set_limit(t->gate->dev, order && talks ? order_limit(t) : 0);
    if (r == 0 && t->some)
        r = dev_run_select(run, t->some, e);
    if (r == 0 && order && !t->some)
        r = dev_run_part(run, t->first, t->n, e); /* launches run side by side where the order allows it */
    for (uint32_t k = t->first; k < t->first + t->n && r == 0 && (!order || t->some); k++)
        if ((r = dev_run_step(run, k, e)) == 0 && ret_cost)
            r = dev_run_cost(run, k, &ret_cost[k - t->first], e);
    dev_set_follow(t->gate->dev, true);
    dev_set_limit(t->gate->dev, 0);
    rw_watch(t->gate->dev, talks, 0, false, NULL);
    for (uint32_t b = 0; b < g->nbuffer && r == 0; b++)
        if (t->compared[b])
            r = trial_compare(t, run, b, piece, order, e);
    free(piece);
    free(wanted);
    dev_run_free(run);
    return r;
}

struct rw_tried *rw_trial_find(const struct rw_gate *g, const char *key)
{
    for (size_t k = 0; k < g->tried.n; k++)
        if (!strcmp(g->tried.p[k].key, key))
            return &g->tried.p[k];
    return NULL;
}

/* What the trial has found, for equal edits; its costs are released with the gate. 0; negative: out of memory. */
static int tried(const struct rw_trial *t, struct rw_tried *ret, struct dt_err *e)
{
    *ret = (struct rw_tried){.orders = t->orders, .cost = dt_calloc(t->n + 1, sizeof *ret->cost)};
    if (!ret->cost)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(ret->key, t->key, sizeof ret->key);
    memcpy(ret->cost, &t->next->cost[t->first], t->n * sizeof *ret->cost);
    return 0;
}

/* Keep the trial for equal edits. 1; negative: out of memory. */
static int remember(struct rw_trial *t, struct dt_err *e)
{
    struct rw_tried x;
    int r = tried(t, &x, e);
    if (r == 0 && !dt_push(&t->gate->tried, x)) {
        free(x.cost);
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return r < 0 ? r : 1;
}

static uint64_t instructions(const struct rw_trial *t)
{
    uint64_t all = 0;
    for (uint32_t k = 0; k < t->x->nlaunch; k++)
        all += t->now->cost[t->x->launch[k]].instructions;
    for (uint32_t k = 0; k < t->n; k++)
        all += t->next->cost[t->first + k].instructions;
    return all;
}

int rw_trial_touch(struct rw_trial *t, struct dt_err *e)
{
    uint32_t n = t->now->graph->nbuffer;
    t->touched = dt_calloc(n + 1, 1);
    t->compared = dt_calloc(n + 1, 1);
    t->want = dt_calloc(n + 1, sizeof *t->want);
    t->own = dt_calloc(n + 1, sizeof *t->own);
    if (!t->touched || !t->compared || !t->want || !t->own)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t s = 0; s < t->x->nlaunch; s++) {
        const struct ana_launch *l = &t->now->ana->launch[t->x->launch[s]];
        for (uint32_t k = 0; k < l->naccess; k++) {
            t->touched[l->access[k].buffer] = true;
            t->compared[l->access[k].buffer] |= l->access[k].writes;
        }
    }
    for (uint32_t b = 0; b < n; b++) {
        const uint8_t *from;
        if (t->touched[b] && rw_trial_content(t, b, &from) < 0) {
            rw_trial_done(t);
            return 0;
        }
    }
    return 1;
}

int rw_trial_begin(struct rw_trial *t, struct rw_gate *g, const struct rw_edit *x, struct rw_state *next,
                   uint32_t first, struct dt_err *e)
{
    return rw_trial_judged(t, g, x, next, first, NULL, e);
}

/* The costs of T by a glance, once for equal edits. 1; 0: none; negative: error. */
int rw_trial_glance_once(struct rw_trial *t, struct dt_err *e)
{
    struct rw_tried x;
    for (size_t k = 0; k < t->gate->glanced.n; k++)
        if (!strcmp(t->gate->glanced.p[k].key, t->key)) {
            memcpy(&t->next->cost[t->first], t->gate->glanced.p[k].cost, t->n * sizeof *t->next->cost);
            t->repeated = true;
            return 1;
        }
    int r = rw_trial_glance(t, e);
    if (r == 1 && (r = tried(t, &x, e)) == 0) {
        r = 1;
        if (!dt_push(&t->gate->glanced, x)) {
            free(x.cost);
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
    }
    return r;
}

/* Is a glance enough? 1: T is hopeless; 0: not; negative: error. */
static int glance(struct rw_trial *t, const struct rw_judge *judge, struct dt_err *e)
{
    int r = judge ? rw_trial_glance_once(t, e) : 0;
    if (r == 1)
        r = judge->hopeless(judge->user, t->next, e);
    t->glanced = r == 1;
    t->repeated = t->repeated && t->glanced;
    for (uint32_t k = 0; r == 0 && k < t->n; k++)
        if (t->next->from[t->first + k] == UINT32_MAX)
            t->next->cost[t->first + k].known = false;
    return r;
}

static int trial_judged(struct rw_trial *t, struct rw_gate *g, const struct rw_edit *x, struct rw_state *next,
                        uint32_t first, const struct rw_judge *judge, struct dt_err *e)
{
    const struct rw_state *now = x->now;
    *t = (struct rw_trial){.gate = g, .x = x, .now = now, .next = next, .first = first, .n = (uint32_t)x->part.n};
    if (!rw_trial_possible(t))
        return 0;
    if (rw_trial_key(t, t->key) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(next->key, t->key, sizeof next->key); /* by it equal ones gained as much (compare.c) */
    int may = rw_trial_touch(t, e);
    if (may <= 0)
        return may;                            /* 0: rw_trial_finish has nothing to go on with */
    for (size_t k = 0; k < x->unread.n; k++) { /* all of a buffer need not even be fetched */
        const struct ana_set *u = &x->unread.p[k].bytes;
        if (u->n == 1 && !u->iv[0].lo && u->iv[0].hi >= now->graph->buffer[x->unread.p[k].buffer].bytes)
            t->compared[x->unread.p[k].buffer] = false;
    }
    struct rw_tried *known = rw_trial_find(t->gate, t->key);
    if (known) {
        memcpy(&next->cost[first], known->cost, t->n * sizeof *next->cost);
        t->orders = known->orders;
        t->known = t->repeated = true;
        return 1;
    }
    if (t->n > 1 && rw_chain(x)) {
        int each = rw_chain_glance(t, judge, e);
        if (each)
            return each;
        each = rw_chain_begin(t, e);
        return each == 1 ? remember(t, e) : each;
    }
    int r = rw_library_get(t, &next->cost[first], e);
    t->known = r == 1;
    if (r == 0 && (r = glance(t, judge, e)))
        return r;
    bool kept = !t->known && rw_trial_want(t);
    if (kept)
        r = rw_trial_after(t, 0, &next->cost[first], e);
    if (r == DT_E_INTERNAL && kept) { /* what S leaves otherwise, nobody may read: T is as S, or it is wrong */
        dt_err_done(e);
        kept = false;
        r = 0;
    }
    if (r == 0 && !kept && (r = rw_trial_before(t, e)) == 0)
        r = rw_trial_after(t, 0, &next->cost[first], e);
    if (r < 0)
        return r;
    t->work += instructions(t);
    if (!t->known)
        rw_library_put(t, &next->cost[first], 0);
    return remember(t, e);
}

/* Of what S reads, launches before it prefetched some, which have not run here. */
static int carry_fetched(const struct rw_trial *t, struct dt_err *e)
{
    int r = 0;
    for (uint32_t k = 0; k < t->n && r == 0; k++) {
        const struct rw_part *part = &t->x->part.p[k];
        struct dev_cost *c = &t->next->cost[t->first + k];
        struct dev_fetched f;
        uint64_t read = 0;
        if (t->next->from[t->first + k] != UINT32_MAX || !c->known || (!part->of && t->n > 1))
            continue;
        for (uint32_t s = 0; s < t->x->nlaunch && r == 0; s++)
            if ((!part->of || part->of == s + 1) && t->now->cost[t->x->launch[s]].known &&
                (r = dev_cost_fetched(t->gate->dev, &t->now->cost[t->x->launch[s]], &f, e)) == 0)
                read += f.read;
        if (r == 0 && read && (r = dev_cost_fetched(t->gate->dev, c, &f, e)) == 0 && f.read < read) {
            f.read = read;
            r = dev_cost_set_fetched(t->gate->dev, c, f, e);
        }
    }
    return r;
}

int rw_trial_judged(struct rw_trial *t, struct rw_gate *g, const struct rw_edit *x, struct rw_state *next,
                    uint32_t first, const struct rw_judge *judge, struct dt_err *e)
{
    int r = trial_judged(t, g, x, next, first, judge, e), carried = r == 1 ? carry_fetched(t, e) : 0;
    return carried < 0 ? carried : r;
}

/* Is it a long chain that is most of the graph's work? Then its block orders would be tried twice, here and by the
 * gate, and no smaller work depends on the answer. */
static bool is_all(const struct rw_trial *t)
{
    uint64_t mine = 0, all = 0;
    for (uint32_t l = 0; l < t->next->graph->nlaunch; l++) {
        all += t->next->cost[l].instructions;
        mine += l >= t->first && l < t->first + t->n ? t->next->cost[l].instructions : 0;
    }
    return t->n > CHAIN && mine > all / 2;
}

/* Of `orders`, as many as RW_ORDERS_WORK allows, and two at least: blocks that wait for each other run under the
 * detector that knows flags, which takes 20 times as long as they do. */
static unsigned some_orders(const struct rw_trial *t, unsigned orders)
{
    uint64_t work = 0;
    for (uint32_t k = t->first; k < t->first + t->n; k++)
        work += t->next->cost[k].instructions;
    uint64_t most = work ? RW_ORDERS_WORK / work : orders;
    most = most > 2 ? most : 2;
    return most < orders ? (unsigned)most : orders;
}

/* Are all orders left to the end? What large launches leave behind is mostly replaced by then. Blocks whose code stays
 * as it was leave what they left in every order, if they did so before (settled.c); what is new is which launches run
 * at the same time, and that the last run of the whole looks at. One large launch makes them all wait, as they run
 * together or not at all. 1, 0; negative: error. */
static int orders_wait(const struct rw_trial *t, struct dt_err *e)
{
    int wait =
        t->gate->orders > RW_TRIAL_ORDERS && (t->x->kind->same_code || rw_orders_can(t->gate, t->next, t->first, t->n));
    bool same = t->x->kind->same_code, large = false, small = false;
    for (uint32_t k = t->first; k < t->first + t->n; k++) {
        bool later = rw_orders_from(&t->next->cost[k]) == 0;
        large |= t->next->from[k] == UINT32_MAX && later;
        small |= t->next->from[k] == UINT32_MAX && !later;
    }
    wait = wait && (!small || (same && large));
    for (uint32_t s = 0; s < t->x->nlaunch && same && wait == 1; s++)
        wait = rw_settled_small(t->now->prog, t->now->ana, t->x->launch[s], e);
    return wait;
}

int rw_trial_finish(struct rw_trial *t, struct dt_err *e)
{
    int r = 0;
    /* if the original races, the gate tries no orders */
    bool later = is_all(t) && !t->gate->original.races, same = rw_chain(t->x) && t->x->kind->same_code;
    /* blocks of the posted code: what is new is which launches run at the same time */
    unsigned orders = same || rw_orders_can(t->gate, t->next, t->first, t->n) ? RW_TRIAL_ORDERS : t->gate->orders;
    orders = orders < t->gate->orders ? orders : t->gate->orders;
    int each = t->n > 1 && rw_chain(t->x) && !later ? rw_chain_waits(t, e) : 0;
    if (each)
        return each < 0 ? each : rw_chain_finish(t, e);
    int wait = orders_wait(t, e);
    if (wait < 0)
        return wait;
    orders = wait ? 0 : orders;
    orders = rw_talks(t->next->prog) ? some_orders(t, orders) : orders;
    for (uint32_t k = 0; k < t->n && !t->repeated && !later; k++)
        if (t->next->from[t->first + k] == UINT32_MAX)
            t->order_work += t->next->cost[t->first + k].instructions * orders;
    t->unseen = later && !same;
    if (t->orders >= orders || later)
        return 0;
    bool own = !(t->known || rw_chain(t->x)); /* else its costs were known, and S has not run */
    bool kept = !own && rw_trial_want(t);
    if (!own && !kept)
        r = rw_trial_before(t, e);
    while (r == 0 && t->orders < orders) {
        r = rw_trial_after(t, t->orders + 1, NULL, e);
        if (r == 0) {
            t->orders++;
        } else if (r == DT_E_INTERNAL && kept) { /* as in rw_trial_begin */
            dt_err_done(e);
            kept = false;
            r = rw_trial_before(t, e);
        }
    }
    if (r < 0)
        return r;
    struct rw_tried *x = rw_trial_find(t->gate, t->key);
    if (x)
        x->orders = t->orders;
    t->ran = true;
    return 0;
}

void rw_trial_keep(const struct rw_trial *t)
{
    if (t->ran)
        rw_library_put(t, &t->next->cost[t->first], t->orders);
}

void rw_trial_done(struct rw_trial *t)
{
    for (uint32_t b = 0; t->own && b < t->now->graph->nbuffer; b++)
        dt_large_put(t->own[b]);
    free(t->own);
    free(t->want);
    free(t->touched);
    free(t->compared);
    memset(t, 0, sizeof *t);
}
