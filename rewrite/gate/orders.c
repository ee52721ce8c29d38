/* Block orders of what is left in the plan.
 *
 * A graph that is too large to be verified in all block orders under the race detector has its new launches tried in
 * them alone, on what each finds in memory. Most of what a search makes does not stay: an epilogue is fused, then the
 * kernel is sliced, in halves and in quarters, and joined with another. So a trial tries RW_TRIAL_ORDERS of them
 * (trial.c), of large launches none, and the others are for what the plan has in the end: once for equal launches, as
 * layers have them. What is compared is what the posted launches left there; where that differs, since nobody reads it
 * any more, the launch against itself: in order it leaves what S left.
 *
 * A launch with scratch or a module's variable does not run alone, as another launch may prepare them; its trial tries
 * all orders at once, or those that fit RW_ORDERS_WORK if its blocks wait for each other (dataflow fusion). Of a large
 * launch in which nothing can hang on the order (settled.c) two orders run, and some blocks under the detector that
 * finds races whatever the order. Launches side by side are no matter of blocks: waits.c, and the last verification.
 *
 * Under the detectors a launch runs on one CPU thread. So of a large graph the orders run in a copy of this process
 * (base/aside.h), beside the last verification. A copy can only say that all is well, as it is for nearly every plan;
 * if it says anything else, or nothing, the orders run here, and what they find is told from here.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "rewrite/facts/hooks.h"

#define SETTLED_ORDERS 2          /* of a launch of which one tells what all leave (settled.c): one more than that */
#define LATER (UINT64_C(1) << 28) /* thread-instructions of a launch whose orders are all left to the end */

static bool own_buffer(const struct rw_gate *g, const struct dt_graph *now, uint32_t b)
{
    return b < g->posted->graph->nbuffer && now->buffer[b].module < 0;
}

bool rw_orders_can(const struct rw_gate *g, const struct rw_state *s, uint32_t first, uint32_t n)
{
    for (uint32_t l = first; l < first + n; l++) {
        const struct dt_launch *x = &s->graph->launch[l];
        if (x->kind != DT_KERNEL)
            return false;
        for (uint32_t k = 0; k < x->narg; k++) {
            const struct dt_arg *a = &x->arg[k];
            if ((a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP) && !own_buffer(g, s->graph, a->buffer))
                return false;
            for (uint32_t i = 0; a->kind == DT_ARG_BYTES && i < a->npointer; i++)
                if (!own_buffer(g, s->graph, a->pointer[i].buffer))
                    return false;
        }
        const struct ptx_module *ir = s->prog->module[x->module].ir;
        for (uint32_t k = 0; k < ir->nvar; k++)
            if (ir->var[k]->space == PTX_GLOBAL)
                return false;
    }
    return g->snaps != NULL;
}

unsigned rw_orders_from(const struct dev_cost *c)
{
    return c->known && c->instructions >= RW_GLANCE(LATER) ? 0 : RW_TRIAL_ORDERS;
}

static int orders_key(const struct rw_state *s, uint32_t launch, char key[DT_SHA256_TEXT], struct dt_err *e)
{
    struct dt_sha256 h;
    uint32_t n = 0;
    dt_free_ uint32_t *number = dt_malloc((s->graph->nbuffer + 1) * sizeof *number);
    if (!number || dt_sha256_init(&h) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(number, 0xFF, s->graph->nbuffer * sizeof *number);
    dt_sha256_addstr(&h, "orders");
    rw_add_launch(&h, s->prog, launch, false, number, &n);
    dt_sha256_final(&h, key);
    return 0;
}

/* 0; 1: the launch cannot run alone where it stands now; negative: error. */
static int orders_of(struct rw_gate *g, struct rw_state *s, uint32_t launch, struct dt_err *e)
{
    struct rw_edit x = {.now = s, .launch = &launch, .nlaunch = 1};
    struct rw_trial t = {.gate = g, .x = &x, .now = s, .next = s, .first = launch, .n = 1};
    struct rw_tried passed = {.orders = g->orders};
    unsigned from = rw_orders_from(&s->cost[launch]), to = g->orders;
    int r = orders_key(s, launch, passed.key, e);
    if (r < 0 || rw_trial_find(g, passed.key))
        return r;
    r = rw_trial_possible(&t) ? rw_trial_touch(&t, e) : 0;
    bool can = r == 1;
    if (r == 0)
        return 1;
    r = can ? rw_settled(s->prog, s->ana, launch, e) : r;
    if (can && r == 1 && (r = rw_settled_look(&t, e)) == 1)
        to = to < SETTLED_ORDERS ? to : SETTLED_ORDERS;
    bool settled = can && r == 1;
    bool kept = can && r >= 0 && rw_trial_want(&t);
    r = can && r >= 0 ? kept ? 0 : rw_trial_before(&t, e) : r;
    for (unsigned o = from; can && r == 0 && o < to; o++) {
        r = settled ? rw_settled_order(&t, o + 1, e) : rw_trial_after(&t, o + 1, NULL, e);
        if (r == DT_E_INTERNAL && kept) { /* what differs, nobody may read */
            dt_err_done(e);
            kept = false;
            if ((r = rw_trial_before(&t, e)) == 0)
                r = rw_trial_after(&t, o + 1, NULL, e);
        }
        g->orders_run += r == 0;
    }
    rw_trial_done(&t);
    return r == 0 && can && !dt_push(&g->tried, passed) ? dt_err_set(e, DT_E_NOMEM, "out of memory") : r;
}

uint64_t rw_orders_work(const struct rw_gate *g, const struct rw_state *first)
{
    uint64_t all = 0;
    size_t n = 0;
    dt_free_ char(*seen)[DT_SHA256_TEXT] = dt_calloc((size_t)first->graph->nlaunch + 1, sizeof *seen);
    for (uint32_t l = 0; seen && first->cost && l < first->graph->nlaunch; l++) {
        struct dt_err none = {0};
        size_t k = 0;
        if (orders_key(first, l, seen[n], &none) < 0)
            break;
        while (k < n && strcmp(seen[k], seen[n]))
            k++;
        if (k == n) {
            n++;
            all += first->cost[l].instructions;
        }
    }
    return g->orders > RW_TRIAL_ORDERS ? all * (g->orders - RW_TRIAL_ORDERS) : 0;
}

int rw_orders_rest(struct rw_gate *g, struct rw_state *s, struct dt_err *e)
{
    int r = 0;
    bool unseen = false;
    for (uint32_t l = 0; l < s->graph->nlaunch && r == 0; l++)
        if (s->made && s->made[l] && rw_orders_can(g, s, l, 1)) {
            r = orders_of(g, s, l, e);
            unseen |= r == 1;
            r = r < 0 ? r : 0;
        }
    return r < 0 ? r : unseen;
}

/* ---- beside what comes after them -------------------------------------------------------------------------------- */

struct orders_answer {
    int unseen;
    unsigned run;
};

static bool orders_in_copy(void *user, void *ret)
{
    struct rw_orders_aside *a = user;
    struct dt_err e = {0};
    unsigned before = a->gate->orders_run;
    int r = dev_aside_begun(a->gate->dev, &e);
    r = r < 0 ? r : rw_orders_rest(a->gate, a->state, &e);
    struct orders_answer x = {.unseen = r, .run = a->gate->orders_run - before};
    memcpy(ret, &x, sizeof x);
    return r >= 0;
}

bool rw_orders_aside(struct rw_gate *g, struct rw_state *s, struct rw_orders_aside *ret)
{
    *ret = (struct rw_orders_aside){.gate = g, .state = s};
    if (!dev_info(g->dev)->soft || !RW_ASIDE(rw_reference_later(g->ref) && dt_cores() > 1))
        return false;
    dev_aside(g->dev);
    return dt_aside_start(&ret->copy, orders_in_copy, ret, sizeof(struct orders_answer));
}

int rw_orders_joined(struct rw_orders_aside *a, struct dt_err *e)
{
    struct orders_answer x;
    if (!dt_aside_wait(&a->copy, &x, sizeof x))
        return rw_orders_rest(a->gate, a->state, e);
    a->gate->orders_run += x.run;
    return x.unseen;
}
