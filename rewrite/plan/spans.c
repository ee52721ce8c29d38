/* `timeline.sms` of the plan document: on which SMs the blocks of each launch run, and when, by the device's model.
 *
 *   {"slots": {"baseline": [4, …], "optimized": […]},
 *    "baseline": [[launch, first SM, last SM, blocks, at once, begin, end], …], "optimized": […]}
 *
 * slots: how many blocks of each launch an SM has room for; 0: it is a memset or copy, whose bytes move without SMs. A
 * row is of neighbouring SMs on which it is the same: blocks on all of them together, and how many at once on one of
 * them, the mean between begin and end (microseconds). Where the model cannot say it in few rows, there are none.
 *
 * Nothing is decided by it. It is there for who looks at a plan (report/).
 */
#include "rewrite/plan/plan-priv.h"

#include <math.h>
#include <stdlib.h>

static json_t *spans_slots(const struct rw_state *s)
{
    json_t *list = json_array();
    bool ok = list;
    for (uint32_t k = 0; ok && k < s->graph->nlaunch; k++) {
        bool kernel = s->graph->launch[k].kind == DT_KERNEL;
        ok = json_array_append_new(list, json_integer(kernel ? s->prog->step[k].blocks_per_sm : 0)) == 0;
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *spans_rows(const struct dev_place *span, size_t n)
{
    json_t *list = json_array();
    bool ok = list;
    for (size_t k = 0; ok && k < n; k++) {
        const struct dev_place *p = &span[k];
        json_t *row = json_pack("[I, I, I, I, f, f, f]", (json_int_t)p->launch, (json_int_t)p->first_sm,
                                (json_int_t)p->last_sm, (json_int_t)p->blocks, round(p->mean * 100) / 100,
                                round(p->begin_us * 1000) / 1000, round(p->end_us * 1000) / 1000);
        ok = json_array_append_new(list, row) == 0;
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *spans_side(struct rw_planner *p, const struct rw_state *s, struct dt_err *e)
{
    struct dev_place *span = NULL;
    size_t n = 0;
    if (dev_model_spans(p->dev, s->prog, s->cost, &span, &n, e) < 0)
        return NULL;
    json_t *list = spans_rows(span, n);
    free(span);
    if (!list)
        dt_err_set(e, DT_E_NOMEM, "out of memory");
    return list;
}

json_t *rw_spans_json(struct rw_planner *p, const struct rw_state *first, const struct rw_state *last, struct dt_err *e)
{
    json_t *before = spans_side(p, first, e), *after = before ? spans_side(p, last, e) : NULL, *a = spans_slots(first),
           *b = spans_slots(last);
    json_t *o = json_pack("{s:{s:o, s:o}, s:o, s:o}", "slots", "baseline", a, "optimized", b, "baseline", before,
                          "optimized", after); /* takes all of them, and is NULL where one is missing */
    if (!o && before && after)
        dt_err_set(e, DT_E_NOMEM, "out of memory");
    return o;
}
