/* The budget of a planning is work, not time: the same graph and options give the same plan on an idle machine, on a
 * busy one, and on another one.
 *
 * A second of the budget is what an idle machine of two cores does in one: RATE thread-instructions of the software
 * device, or MODULES modules through the assembler. A candidate costs what its launches S and T have to run, what
 * was assembled for it, and, if it is accepted, its block orders under the race detector and the analysis of what is
 * new. It costs that also where the performance library knew the result: a plan must not depend on what a machine
 * has seen. What an equal candidate of this planning has shown, as layers repeat, is not done again and costs next
 * to nothing. The last verification of the whole plan is taken off first. What comes before the search (compiling,
 * the analysis, the reference runs) is not counted: it has to be done for any plan.
 *
 * Where the budget ends, the plan is the best so far, and says `stopped`: what was not tried, and which budget would
 * have done. A clock is there for safety alone: at PATIENCE times the budget the search ends by it, the plan says so,
 * and is not kept. So it does where the time limit of the job comes first, so early that the plan may be verified
 * before; as the clock it is asked between the levels of a candidate, too. On a real device nobody counts instructions;
 * there the clock is the budget.
 *
 * The same measure decides how many block orders the whole plan is verified in: all that are asked for, up to
 * RW_ORDERS_WORK thread-instructions, and one at least. What the whole has not, each kept rewrite has had alone.
 */
#include "rewrite/plan/plan-priv.h"

#include <math.h>

#define RATE 4e9
#define MODULES 12
#define RACES 2       /* so many times as long under the race detector */
#define PATIENCE 3    /* the clock's times the budget */
#define LEAST 20      /* seconds that the clock gives any budget */
#define REPEATED 0.02 /* seconds of a candidate of which an equal one was tried: the layers of a model repeat */
#define LAUNCH 2e-5   /* seconds of an analysis for each launch of the graph: the maps of what is new */

static uint64_t instructions(const struct dev_cost *cost, uint32_t first, uint32_t n)
{
    uint64_t all = 0;
    for (uint32_t k = first; cost && k < first + n; k++)
        all += cost[k].known ? cost[k].instructions : 0;
    return all;
}

static uint64_t of_graph(const struct rw_planner *p)
{
    const struct rw_state *s = &p->state.p[0];
    return instructions(s->cost, 0, s->graph->nlaunch);
}

/* Thread-instructions of one pass of the sample, where the graph is too large to run whole. */
static double sampled(const struct rw_planner *p)
{
    const struct rw_sample *s = p->gate.sample;
    return s && s->of ? (double)of_graph(p) * (double)s->blocks / (double)s->of : 0;
}

void rw_budget_begin(struct rw_planner *p, double seconds, uint64_t began_us)
{
    bool soft = dev_info(p->dev)->soft;
    double clock = !soft ? seconds : seconds * PATIENCE > LEAST ? seconds * PATIENCE : LEAST;
    p->deadline_us = p->opt->until_us;
    if (!(seconds > 0))
        return;
    p->bounded = true;
    p->budget_s = p->given_s = seconds;
    uint64_t end = began_us + (uint64_t)(clock * 1e6);
    p->deadline_us = p->deadline_us && p->deadline_us < end ? p->deadline_us : end;
}

void rw_budget_reserve(struct rw_planner *p, unsigned inputs, unsigned schedules)
{
    double pass = p->gate.sample ? sampled(p) : (double)of_graph(p);
    if (p->bounded)
        p->budget_s -=
            (pass * (inputs + RACES * schedules) + RACES * (double)rw_orders_work(&p->gate, &p->state.p[0])) / RATE;
    if (!p->deadline_us)
        return;
    uint64_t last = rw_reference_us(p->gate.ref, inputs, schedules), now = dt_now_us();
    p->deadline_us = p->deadline_us > now + last ? p->deadline_us - last : now;
}

void rw_budget_built(struct rw_planner *p, const struct rw_trial *t, unsigned fresh)
{
    double ran = p->gate.sample ? sampled(p) : t->want ? (double)t->work : (double)of_graph(p);
    p->work_s += t->repeated ? REPEATED : (double)fresh / MODULES + ran / RATE;
    p->tried++;
}

void rw_budget_accepted(struct rw_planner *p, const struct rw_trial *t, const struct rw_state *next)
{
    double whole = p->gate.sample || t->want ? 0 : (double)of_graph(p) * (1 + 2 * RACES); /* it cannot be tried alone */
    p->work_s += LAUNCH * next->graph->nlaunch + ((double)t->order_work * RACES + whole) / RATE;
}

bool rw_hurried(struct rw_planner *p)
{
    if (p->deadline_us && !p->budget_spent && dt_now_us() >= p->deadline_us) {
        p->budget_spent = true;
        p->hurried = dev_info(p->dev)->soft;
    }
    return p->hurried;
}

bool rw_late(struct rw_planner *p)
{
    if (p->bounded && dev_info(p->dev)->soft && p->work_s >= p->budget_s)
        p->budget_spent = true;
    rw_hurried(p);
    return p->budget_spent;
}

int rw_budget_json(const struct rw_planner *p, json_t **ret, struct dt_err *e)
{
    /* What was tried tells what the rest takes; what is kept of it makes new candidates, and a second look comes after
     * them: as much again */
    double each = p->tried ? p->work_s / p->tried : 1,
           rest = p->given_s - p->budget_s + 2 * (p->work_s + each * p->untried);
    *ret = NULL;
    if (!p->budget_spent)
        return 0;
    *ret = json_pack("{s:s,s:f,s:i,s:f}", "by", p->hurried ? "clock" : "budget", "budget_s", p->given_s, "not_tried",
                     (int)p->untried, "would_do_s", ceil(rest));
    return *ret ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

unsigned rw_budget_orders(const struct rw_planner *p, unsigned schedules)
{
    uint64_t pass = p->gate.sample ? (uint64_t)sampled(p) : of_graph(p);
    unsigned most = pass ? (unsigned)(RW_ORDERS_WORK / pass) : schedules;
    return most >= schedules || !schedules ? schedules : most ? most : 1;
}
