/* Chains: where each launch of T stands for one of S and nothing moves between launches (programmatic launches), they
 * are tried one by one, on what each finds in memory. So of a chain of all layers, what repeats runs once, and a large
 * launch is glanced at where the small ones beside it run whole.
 */
#include "rewrite/gate/gate-priv.h"

bool rw_chain(const struct rw_edit *x)
{
    bool one = x->part.n == x->nlaunch;
    for (size_t k = 0; k < x->part.n && one; k++)
        one = x->part.p[k].of == k + 1;
    return one;
}

/* Launch k of a chain in which each stands for one of S. */
static struct rw_edit edit_of(const struct rw_edit *x, uint32_t k, struct rw_part *part)
{
    struct rw_edit one = *x;
    *part = x->part.p[k];
    part->of = 1;
    one.launch += k;
    one.nlaunch = 1;
    one.part.p = part;
    one.part.n = 1;
    return one;
}

int rw_chain_begin(struct rw_trial *t, struct dt_err *e)
{
    int r = 1;
    t->known = t->repeated = true;
    for (uint32_t k = 0; k < t->n && r == 1; k++) {
        struct rw_part part;
        struct rw_edit one = edit_of(t->x, k, &part);
        struct rw_trial alone = {0};
        if (t->next->from[t->first + k] != UINT32_MAX)
            continue;
        r = rw_trial_begin(&alone, t->gate, &one, t->next, t->first + k, e);
        t->known = t->known && alone.known;
        t->repeated = t->repeated && alone.repeated;
        t->work += alone.work;
        rw_trial_done(&alone);
    }
    return r;
}

int rw_chain_glance(struct rw_trial *t, const struct rw_judge *judge, struct dt_err *e)
{
    int r = judge ? 1 : 0;
    for (uint32_t k = 0; k < t->n && r == 1; k++) {
        struct rw_part part;
        struct rw_edit one = edit_of(t->x, k, &part);
        struct rw_trial alone = {
            .gate = t->gate, .x = &one, .now = t->now, .next = t->next, .first = t->first + k, .n = 1};
        if (t->next->from[t->first + k] != UINT32_MAX)
            continue;
        if (rw_trial_key(&alone, alone.key) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        struct rw_tried *known = rw_trial_find(t->gate, alone.key);
        if (known)
            t->next->cost[t->first + k] = known->cost[0];
        else if (rw_orders_from(&t->now->cost[one.launch[0]])) /* a small one may as well run whole */
            r = rw_trial_begin(&alone, t->gate, &one, t->next, t->first + k, e);
        else if ((r = rw_trial_touch(&alone, e)) == 1)
            r = rw_trial_glance_once(&alone, e);
        t->work += alone.work;
        rw_trial_done(&alone);
    }
    if (r == 1)
        r = judge->hopeless(judge->user, t->next, e);
    t->glanced = r == 1;
    for (uint32_t k = 0; r == 0 && k < t->n; k++)
        if (t->next->from[t->first + k] == UINT32_MAX)
            t->next->cost[t->first + k].known = false;
    return r;
}

int rw_chain_waits(const struct rw_trial *t, struct dt_err *e)
{
    bool any = false;
    int r = t->x->kind->same_code && t->gate->orders > RW_TRIAL_ORDERS;
    for (uint32_t k = 0; k < t->n && r == 1; k++)
        if (t->next->from[t->first + k] == UINT32_MAX && rw_orders_from(&t->next->cost[t->first + k]) == 0) {
            any = true;
            r = rw_settled(t->now->prog, t->now->ana, t->x->launch[k], e);
        }
    return r == 1 ? any : r;
}

int rw_chain_finish(struct rw_trial *t, struct dt_err *e)
{
    int r = 0;
    for (uint32_t k = 0; k < t->n && r >= 0; k++) {
        struct rw_part part;
        struct rw_edit one = edit_of(t->x, k, &part);
        struct rw_trial alone = {0};
        struct dev_cost cost = t->next->cost[t->first + k];
        if (t->next->from[t->first + k] != UINT32_MAX)
            continue;
        r = rw_trial_begin(&alone, t->gate, &one, t->next, t->first + k, e); /* it was tried: nothing runs */
        t->next->cost[t->first + k] = cost;
        alone.repeated = t->repeated;
        if (r == 1 && (r = rw_trial_finish(&alone, e)) == 0)
            rw_trial_keep(&alone);
        t->order_work += alone.order_work;
        rw_trial_done(&alone);
    }
    return r < 0 ? r : 0;
}
