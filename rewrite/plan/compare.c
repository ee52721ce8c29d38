/* Which of two states is faster?
 *
 * On the software device times are modelled and have no noise, but the model may be wrong. So both states are timed
 * under every doubt (softgpu/model/doubts.def): with each term of the model longer, and shorter, than it says, by what
 * it was off against published measurements, and with what is doubtful in its structure. The newer state is faster if
 * it takes less in all of them, by more than a thousandth of what the launches take that differ (stake); where the
 * doubt is that something gains nothing, if it takes no more, but for that thousandth. Both states are under the same
 * doubt, since what is wrong with both alike decides nothing. Equal edits, as layers have them, are asked once
 * (sure_again). Or it is faster because it cannot be slower (dominates): it has fewer launches, and asks for no more of
 * anything.
 *
 * On several streams a rewrite on one of them gains nothing while the work beside it takes as long, and nor does the
 * same rewrite there, alone; both together do. So there a state that takes no more under any doubt is taken as well
 * where its launches, each from the end of what it waits for, take less together (idle). Where nothing comes of that in
 * the end, the posted launches are the plan (whole.c).
 *
 * On a real device the two states are measured together (device/measure.h): both as CUDA graphs, with the same fills,
 * in passes that take turns, so that changes of clocks and temperature affect both. Times come from CUPTI or from
 * events, as medians with 95 % intervals. The newer state is faster if the whole 95 % interval of the ratio, pass by
 * pass, is above 1, and its median is the smaller one. A measurement that was disturbed (clocks, heat, other processes,
 * a wide interval) decides nothing: the newer state does not count as faster, and `why` names the disturbance.
 *
 * Both states get the times of that one measurement, so that their times can be compared.
 *
 * If an earlier measurement of the same launches decides (times.c), nothing is measured. The newer state's time is then
 * the older state's time less the gain of that measurement, and `why` says so. The final comparison of the plan with
 * the posted launches is always measured.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/measure.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#define NOISE 0.001
#define SAME 1e-9

bool rw_measures(const struct rw_planner *p) { return !dev_info(p->dev)->soft; }

static void compare_take(struct rw_state *s, const struct dev_measured *m)
{
    s->time = (struct dev_time){
        .time_us = m->time.median, .ci95_us = (m->time.hi - m->time.lo) / 2, .launches = s->graph->nlaunch};
    snprintf(s->time.method, sizeof s->time.method, "%s", m->method);
}

/* Set the times of the steps, one after the other: CUPTI's if there are some, else by events in a run of its own. */
static int steps(struct rw_state *s, struct dev_run *run, const struct dev_measured *m, struct dt_err *e)
{
    uint32_t n = s->graph->nlaunch;
    struct dev_time ignored;
    if (!s->step_us)
        s->step_us = dt_calloc(n + 1, sizeof *s->step_us);
    if (!s->begin_us)
        s->begin_us = dt_calloc(n + 1, sizeof *s->begin_us);
    if (!s->end_us)
        s->end_us = dt_calloc(n + 1, sizeof *s->end_us);
    if (!s->step_us || !s->begin_us || !s->end_us)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = 0;
    if (m->step_us)
        memcpy(s->step_us, m->step_us, n * sizeof *s->step_us);
    else
        r = dev_run_time(run, 10, &ignored, s->step_us, e);
    for (uint32_t k = 0; k < n; k++) {
        s->begin_us[k] = k ? s->end_us[k - 1] : 0;
        s->end_us[k] = s->begin_us[k] + s->step_us[k];
    }
    return r;
}

/* Set the times of the two states from what the library knows. 1: done; 0: it does not fit them; negative: error. */
static int known(struct rw_state *now, struct rw_state *next, const struct rw_times *t, struct dt_str *why,
                 struct dt_err *e)
{
    bool timed = now->time.launches > 0;
    const struct dev_time *of = timed ? &now->time : &next->time;
    double us = of->time_us + (timed ? -t->gain : t->gain), half = (t->hi - t->lo) / 2;
    if (!of->launches || us <= 0 || (t->lo > 0 && !now->step_us && !next->step_us))
        return 0;
    struct rw_state *s = timed ? next : now;
    s->time = (struct dev_time){
        .time_us = us, .ci95_us = sqrt(of->ci95_us * of->ci95_us + half * half), .launches = s->graph->nlaunch};
    snprintf(s->time.method, sizeof s->time.method, "%s", of->method);
    dt_str_addf(why, "from the performance library: a gain of %.2f us, 95 %% interval %.2f to %.2f", t->gain, t->lo,
                t->hi);
    if (t->lo <= 0 || next->step_us)
        return 1;
    uint32_t n = next->graph->nlaunch, at = 0;
    double *step = dt_calloc((size_t)n + 1, sizeof *step), *begin = dt_calloc((size_t)n + 1, sizeof *begin),
           *end = dt_calloc((size_t)n + 1, sizeof *end);
    if (!step || !begin || !end) {
        free(step);
        free(begin);
        free(end);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t was = at < t->n && t->launch[at] == k ? DT_NAME_NONE
                                                       : dt_graph_find_launch(now->graph, next->graph->launch[k].name);
        step[k] = was != DT_NAME_NONE ? now->step_us[was] : at < t->n ? t->us[at++] : 0;
        begin[k] = k ? end[k - 1] : 0;
        end[k] = begin[k] + step[k];
    }
    free(next->step_us);
    free(next->begin_us);
    free(next->end_us);
    next->step_us = step;
    next->begin_us = begin;
    next->end_us = end;
    return 1;
}

static int measured(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct rw_times *keep,
                    struct dt_str *why, struct dt_err *e)
{
    struct rw_state *s[2] = {now, next};
    struct dev_arm arm[2] = {{0}};
    struct dev_measured m[2] = {{{0}}};
    struct dev_measure_options o = {0};
    struct dev_verdict v;
    int r = 0;
    for (int k = 0; k < 2 && r == 0; k++)
        if ((r = dev_run_new(p->dev, s[k]->prog, &arm[k].run, e)) == 0 && (r = dev_run_fill(arm[k].run, 0, -1, e)) == 0)
            r = dev_run_once(arm[k].run, e);
    if (r == 0)
        r = dev_measure(p->dev, arm, 2, &o, m, &v, e);
    p->measured += r == 0;
    p->noisy = r == 0 && !v.publish;
    bool faster = r == 0 && v.publish && m[1].ratio.lo > 1 && m[1].time.median < m[0].time.median;
    if (r == 0 && !v.publish)
        dt_str_addf(why, "the measurement was noisy: %s", v.why);
    else if (r == 0 && !faster && m[1].time.median < m[0].time.median)
        dt_str_addf(why, "inside the noise: the 95 %% interval of the ratio is %.4f to %.4f", m[1].ratio.lo,
                    m[1].ratio.hi);
    for (int k = 0; k < 2 && r == 0; k++) {
        compare_take(s[k], &m[k]);
        if (k && faster)
            r = steps(s[k], arm[k].run, &m[k], e);
    }
    /* the interval covers the gain by both methods: if they disagree, it decides nothing */
    if (r == 0 && v.publish && keep) {
        double by_time = m[0].time.median - m[1].time.median;
        keep->gain = m[1].gain.median;
        keep->lo = fmin(m[1].gain.lo, by_time);
        keep->hi = fmax(m[1].gain.hi, by_time);
        for (uint32_t k = 0; k < keep->n; k++)
            keep->us[k] = faster ? next->step_us[keep->launch[k]] : 0;
        rw_times_put(p, keep);
    }
    for (int k = 0; k < 2; k++) {
        dev_measured_done(&m[k]);
        dev_run_free(arm[k].run);
    }
    return r < 0 ? rw_recover(p->dev, r, e) : faster;
}

/* ---- modelled ---------------------------------------------------------------------------------------------------- */
static bool less(double was, double is, double stake) { return is < was - NOISE * stake; }

/* What the noise is a part of: the time of the launches that an edit changes, since the others take what they took.
 * What a rewrite gains must not look smaller in a larger graph. Two states that are not of one edit: all their time. */
static double stake(const struct rw_state *now, const struct rw_state *next)
{
    bool step = next->of && next->of == now->graph, rivals = next->of && next->of == now->of;
    double most = next->stake_us > now->stake_us && rivals ? next->stake_us : now->stake_us;
    return step ? next->stake_us : rivals ? most : now->time.time_us;
}

/* What these launches ask for, each number added over them; *ret_least, *ret_most: threads in flight. */
static int burden(struct rw_planner *p, const struct rw_state *s, const uint32_t *launch, uint32_t n,
                  double ret[DEV_BURDENS], double *ret_least, double *ret_most, struct dt_err *e)
{
    int r = 0;
    for (uint32_t k = 0; k < n && r == 0; k++) {
        double one[DEV_BURDENS], flight;
        r = dev_burden(p->dev, s->prog, s->cost, launch[k], one, &flight, e);
        for (unsigned i = 0; i < DEV_BURDENS && r == 0; i++)
            ret[i] += one[i];
        if (r == 0 && flight > 0) {
            *ret_least = *ret_least == 0 || flight < *ret_least ? flight : *ret_least;
            *ret_most = flight > *ret_most ? flight : *ret_most;
        }
    }
    return r;
}

/* Is `next` no slower, however wrong the figures are? Fewer launches, nothing that the new ones ask for is more than
 * the old ones did, and no fewer threads are in flight. Only where launches follow each other one by one: beside
 * others, less work may still come later. 1, 0; negative: error. */
static int dominates(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_err *e)
{
    uint32_t *gone = NULL, *made = NULL, ngone = 0, nmade = 0;
    double was[DEV_BURDENS] = {0}, is[DEV_BURDENS] = {0}, least = 0, most = 0, ignored = 0;
    if (next->graph->nlaunch >= now->graph->nlaunch)
        return 0;
    for (uint32_t k = 1; k < now->graph->nlaunch; k++)
        if (now->begin_us[k] < now->end_us[k - 1])
            return 0;
    int r = rw_only_in(now, next, &gone, &ngone, e);
    if (r == 0)
        r = rw_only_in(next, now, &made, &nmade, e);
    if (r == 0)
        r = burden(p, now, gone, ngone, was, &ignored, &most, e);
    if (r == 0)
        r = burden(p, next, made, nmade, is, &least, &ignored, e);
    bool no_more = nmade == 0 || least >= most;
    for (unsigned i = 0; i < DEV_BURDENS; i++)
        no_more = no_more && is[i] <= was[i];
    free(gone);
    free(made);
    return r < 0 ? r : no_more;
}

/* ---- equal edits, as layers have them ---------------------------------------------------------------------------- */

static unsigned doubts(const struct rw_planner *p)
{
    unsigned n = 0;
    while (dev_doubt(p->dev, n, &(bool){false}))
        n++;
    return n;
}

/* Did an equal edit gain just as much by the model as it is, and under every doubt? Then so does this one, and its
 * times under the doubts follow: each takes a run of the model over all launches. Not beside other streams, where what
 * runs meanwhile counts as well. */
static bool sure_again(struct rw_planner *p, const struct rw_state *now, struct rw_state *next)
{
    double gain = now->time.time_us - next->time.time_us;
    const struct rw_sure *s = NULL;
    if (!*next->key || next->of != now->graph || now->graph->streams || !now->doubt_us || next->doubt_us)
        return false;
    for (size_t k = 0; k < p->sure.n && !s; k++)
        if (!strcmp(p->sure.p[k].key, next->key) && fabs(p->sure.p[k].gain_us[0] - gain) <= SAME * now->time.time_us)
            s = &p->sure.p[k];
    unsigned n = s ? doubts(p) : 0;
    if (!s || !(next->doubt_us = dt_calloc((size_t)n + 1, sizeof *next->doubt_us)))
        return false;
    next->doubt_us[0] = next->time.time_us;
    for (unsigned k = 1; k < n; k++)
        next->doubt_us[k] = now->doubt_us[k] - s->gain_us[k];
    next->guessed = true;
    return true;
}

/* Without memory it is only not known again. */
static void keep_sure(struct rw_planner *p, const struct rw_state *now, const struct rw_state *next)
{
    unsigned n = doubts(p);
    struct rw_sure s = {.gain_us = dt_calloc((size_t)n + 1, sizeof(double))};
    for (unsigned k = 0; s.gain_us && k < n; k++)
        s.gain_us[k] = now->doubt_us[k] - next->doubt_us[k];
    memcpy(s.key, next->key, sizeof s.key);
    if (!s.gain_us || !dt_push(&p->sure, s))
        free(s.gain_us);
}

void rw_not_guessed(struct rw_state *s)
{
    if (!s->guessed)
        return;
    free(s->doubt_us);
    s->doubt_us = NULL;
    s->guessed = false;
}

void rw_sure_done(struct rw_planner *p)
{
    for (size_t k = 0; k < p->sure.n; k++)
        free(p->sure.p[k].gain_us);
    free(p->sure.p);
}

/* What its launches take together, each from when all that it waits for has ended. Negative: error. */
static double row_us(const struct rw_state *s, struct dt_err *e)
{
    struct dev_order o = {0};
    double sum = 0;
    if (dev_order_new(s->graph, &o) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < s->graph->nlaunch; i++) {
        double from = 0;
        for (uint32_t k = o.at[i]; k < o.at[i + 1]; k++)
            from = fmax(from, s->end_us[o.after[k]]);
        sum += s->end_us[i] - from;
    }
    dev_order_done(&o);
    return sum;
}

/* Beside others: do the launches of `next` take less, and the whole no more? 1, 0; negative: error. */
static int idles(const struct rw_state *now, const struct rw_state *next, double part, double *ret_us, struct dt_err *e)
{
    if (!now->graph->streams || next->time.time_us > now->time.time_us * (1 + SAME))
        return 0;
    double was = row_us(now, e), is = was < 0 ? was : row_us(next, e);
    if (is < 0)
        return (int)is;
    *ret_us = was - is;
    return less(was, is, part);
}

static int compare_modelled(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why,
                            struct dt_err *e)
{
    const char *name;
    bool moot;
    double part = stake(now, next), us = 0;
    bool gains = less(now->time.time_us, next->time.time_us, part);
    int idle = gains || next->of != now->graph ? 0 : idles(now, next, part, &us, e);
    next->idle = idle > 0;
    if (!gains && idle <= 0)
        return idle;
    int r = rw_state_doubts(p, now, e);
    if (r == 0 && gains && sure_again(p, now, next))
        return 1;
    rw_not_guessed(now); /* what equal edits did adds up; one that is new is held against the model */
    if (r == 0)
        r = rw_state_doubts(p, now, e);
    if (r == 0)
        r = rw_state_doubts(p, next, e);
    for (unsigned k = 1; r == 0 && now->doubt_us && next->doubt_us && (name = dev_doubt(p->dev, k, &moot)); k++) {
        double was = now->doubt_us[k], is = next->doubt_us[k];
        if (idle ? is <= was * (1 + SAME) : moot ? !less(is, was, part) : less(was, is, part))
            continue;
        r = idle ? 0 : dominates(p, now, next, e);
        if (r == 0)
            dt_str_addf(why, "not for sure: under doubt '%s' modeled %.2f → %.2f us", name, was, is);
        return r;
    }
    if (r == 0 && idle)
        dt_str_addf(why, "what runs beside it takes as long; in a row the launches take %.2f us less", us);
    if (r == 0 && gains && *next->key && next->of == now->graph && now->doubt_us && next->doubt_us)
        keep_sure(p, now, next);
    return r < 0 ? r : 1;
}

int rw_gain(struct rw_planner *p, struct rw_state *now, struct rw_state *next, double ret[2], struct dt_err *e)
{
    ret[0] = ret[1] = 0;
    if (rw_measures(p))
        return 0;
    int r = rw_state_doubts(p, now, e);
    if (r == 0)
        r = rw_state_doubts(p, next, e);
    for (unsigned k = 0; r == 0 && dev_doubt(p->dev, k, &(bool){false}); k++) {
        if (!now->doubt_us || !next->doubt_us)
            break;
        double gain = next->doubt_us[k] > 0 ? now->doubt_us[k] / next->doubt_us[k] : 0;
        ret[0] = !k || gain < ret[0] ? gain : ret[0];
        ret[1] = !k || gain > ret[1] ? gain : ret[1];
    }
    return r;
}

int rw_better(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why, struct dt_err *e)
{
    double ignored;
    if (rw_measures(p))
        return rw_faster(p, now, next, why, e);
    return RW_FORCED || less(now->time.time_us, next->time.time_us, stake(now, next)) ? 1
           : next->of && next->of == now->of ? idles(now, next, stake(now, next), &ignored, e)
                                             : 0;
}

int rw_faster_now(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why,
                  struct dt_err *e)
{
    int r = rw_measures(p) ? measured(p, now, next, NULL, why, e)
            : RW_FORCED    ? 1
                           : compare_modelled(p, now, next, why, e);
    return r < 0 ? r : RW_FORCED ? 1 : r;
}

int rw_faster(struct rw_planner *p, struct rw_state *now, struct rw_state *next, struct dt_str *why, struct dt_err *e)
{
    struct rw_times t = {0};
    if (!rw_measures(p))
        return rw_faster_now(p, now, next, why, e);
    int r = rw_times_get(p, now, next, &t, e);
    if (r == 1)
        r = known(now, next, &t, why, e);
    if (r == 1) {
        p->known++;
        r = t.lo > 0;
    } else if (r == 0) {
        r = measured(p, now, next, &t, why, e);
    }
    rw_times_done(&t);
    return r < 0 ? r : RW_FORCED ? 1 : r;
}
