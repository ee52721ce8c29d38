/* Which rewrites are kept: pairs in order of promise, each built, timed against what there is, verified, and taken when faster.
 *
 *   state 0 = the posted graph; repeat:
 *     for every hazard edge of the newest state, most promising first (smallest components, then most bytes between the two):
 *       legality for the pair; a bound from the launches' own times; level shared, then global: build, try the pair alone (trial.c), time
 *       faster than the newest state by more than the noise -> try more block orders -> analyse the new launch, push the newest state, start over
 *   until nothing is left or the budget, less the time of the last verification, is spent. Then the newest state is verified in full
 *   against the original; while that fails, states are popped, so what is returned has always passed.
 *
 * Every pair that was looked at has one entry in `rewrites`. A fused launch is a launch: chains and trees come from the same loop.
 * Names of launches identify a pair across states: one that was dropped or refused for what its kernels are is not tried
 * again; one that stood in the wrong order is, since another fusion may have cleared the way.
 * Deterministic on the software device, where times are modelled. On a real one the order of tries is the same, verdicts follow the times.
 *
 * The bound: a fused block runs its component's blocks one after the other. With per-block times from the launches themselves (divided by
 * how many blocks share an SM) the fused launch takes about the longest component, and about all components over all SMs. A block
 * that follows another in the same fused block starts sooner than one that is launched, so this overestimates; only where it is over
 * 4 times what both take now, the gap between launches included, the candidate is not built.
 */
#include "rewrite/rewrite-priv.h"

#include <stdlib.h>
#include <string.h>

#define NOISE 0.001
#define BOUND 4.0

void rw_say(const struct rw_options *o, const char *message, unsigned done, unsigned of)
{
    if (o->progress)
        o->progress("rewrite", message, done, of, o->user);
}

/* ---- entries --------------------------------------------------------------------------------------------------------- */

static const char *name_of(const struct rw_state *s, uint32_t launch) { return s->graph->launch[launch].name; }

static struct rw_entry *find_entry(struct rw_planner *p, const char *kind, const char *first, const char *second)
{
    for (size_t k = 0; k < p->entry.n; k++)
        if (!strcmp(p->entry.p[k].kind, kind) && !strcmp(p->entry.p[k].first, first) && !strcmp(p->entry.p[k].second, second))
            return &p->entry.p[k];
    return NULL;
}

/* Faults name addresses of this process, " at 0x7f…"; a plan is the same in every one, so they go. */
static char *steady(char *text)
{
    for (char *at = text; at && (at = strstr(at, " at 0x")) != NULL;) {
        size_t n = 6 + strspn(at + 6, "0123456789abcdef");
        memmove(at, at + n, strlen(at + n) + 1);
    }
    return text;
}

/* Record what became of a pair; takes over *reason. */
static int record(struct rw_planner *p, const struct rw_rewrite *w, const char *first, const char *second, const char *level,
                  enum rw_verdict v, struct dt_str *reason, double before, double after, struct dt_err *e)
{
    struct rw_entry *x = find_entry(p, w->name, first, second);
    struct rw_entry n = {.kind = w->name, .verdict = v, .before_us = before, .after_us = after};
    if (!x) {
        n.first = dt_strdup(first);
        n.second = dt_strdup(second);
        if (!n.first || !n.second || !dt_push(&p->entry, n)) {
            free(n.first);
            free(n.second);
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
        x = &p->entry.p[p->entry.n - 1];
    } else {
        free(x->level);
        free(x->reason);
        x->verdict = v;
        x->before_us = before;
        x->after_us = after;
    }
    x->level = level ? dt_strdup(level) : NULL;
    x->reason = reason && reason->len ? steady(dt_str_take(reason)) : NULL;
    return 0;
}

static bool name_taken(const struct rw_planner *p, const char *name)
{
    for (size_t s = 0; s < p->state.n; s++) {
        const struct dt_graph *g = p->state.p[s].graph;
        for (uint32_t k = 0; k < g->nmodule; k++)
            if (!strcmp(g->module[k].name, name))
                return true;
    }
    return false;
}

/* A module of the newest state that has the candidate's text, else a new name. True: a new one. */
static bool name_module(struct rw_planner *p, struct rw_cand *c, const struct rw_state *now)
{
    for (uint32_t k = 0; k < now->graph->nmodule; k++) {
        const struct dt_module *m = &now->graph->module[k];
        if (m->is_ptx && m->len == c->ptx.len && strlen(m->name) < sizeof c->name && !memcmp(m->source, c->ptx.s, m->len)) {
            snprintf(c->name, sizeof c->name, "%s", m->name);
            return false;
        }
    }
    do
        snprintf(c->name, sizeof c->name, "f%u", p->nname++);
    while (name_taken(p, c->name));
    return true;
}

/* ---- one pair ---------------------------------------------------------------------------------------------------------- */

/* A rough time of the fused launch from the times of the two; *ret_now: what both take now, with the gap that fusion saves. */
static double bound_us(const struct rw_cand *c, const struct rw_state *s, double *ret_now)
{
    double block[2], longest = 0, total = 0;
    unsigned per_sm = UINT32_MAX;
    *ret_now = 0;
    for (int k = 0; k < 2; k++) {
        const struct dev_step *st = &s->prog->step[c->launch[k]];
        unsigned sms = c->dev->sms ? c->dev->sms : 1, bps = st->blocks_per_sm ? st->blocks_per_sm : 1;
        unsigned waves = (unsigned)(((uint64_t)st->blocks + (uint64_t)sms * bps - 1) / ((uint64_t)sms * bps));
        unsigned resident = (st->blocks + sms - 1) / sms;
        if (resident > bps)
            resident = bps;
        block[k] = s->step_us[c->launch[k]] / waves / resident;
        *ret_now += s->step_us[c->launch[k]];
        if (bps < per_sm)
            per_sm = bps;
    }
    for (uint32_t k = 0; k < c->comps.n; k++) {
        double t = 0;
        for (int i = 0; i < 2; i++)
            t += block[i] * (c->comps.list[i].row[k + 1] - c->comps.list[i].row[k]);
        total += t;
        if (t > longest)
            longest = t;
    }
    total /= (double)(c->dev->sms ? c->dev->sms : 1);
    double gap = s->time.time_us;
    for (uint32_t k = 0; k < s->graph->nlaunch; k++)
        gap -= s->step_us[k];
    if (gap > 0)
        *ret_now += gap / s->graph->nlaunch;
    return total > longest ? total : longest;
}

static bool faster(const struct rw_state *now, const struct rw_state *next)
{
    double noise = now->time.time_us * NOISE;
    if (now->time.ci95_us + next->time.ci95_us > noise)
        noise = now->time.ci95_us + next->time.ci95_us;
    return next->time.time_us < now->time.time_us - noise;
}

static const char *how(const struct rw_state *s)
{
    return strncmp(s->time.method, "modeled", 7) ? "measured" : "modeled";
}

/* May a map, or that there is no hazard somewhere, rest on what a constant buffer holds? Not only a pair's own hazards count: a hazard that
 * is not there, and an access under a data-dependent guard at an address from a table, do as well. */
static bool rests_on_constants(const struct ana_result *r)
{
    bool constant = false, open = false;
    for (uint32_t l = 0; l < r->prog->graph->nlaunch; l++)
        for (uint32_t k = 0; k < r->launch[l].naccess; k++) {
            const struct ana_access *a = &r->launch[l].access[k];
            constant |= a->reads && r->prog->graph->buffer[a->buffer].constant;
            open |= (a->reads && a->read != ANA_PROVED) || (a->writes && a->write != ANA_PROVED);
        }
    return constant && open;
}

/* Push the state; it is empty afterwards. */
static int keep(struct rw_planner *p, struct rw_state *next, size_t entry, struct dt_err *e)
{
    next->evidence = rests_on_constants(p->state.p[0].ana) ? ANA_OBSERVED : ANA_PROVED;
    next->entry = entry;
    if (!dt_push(&p->state, *next))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(next, 0, sizeof *next);
    return 0;
}

/* Errors that end the planning; any other one of a candidate only refuses it. */
static bool fatal(int r)
{
    return r == DT_E_NOMEM || r == DT_E_DEVICE || r == DT_E_NO_DEVICE || r == DT_E_CANCELLED || r == DT_E_WORKER_LOST;
}

/* Is it only the candidate that failed? Then `why` gets the words, and the result is 1. */
static int refused(int r, const char *what, struct dt_err *mine, const char *otherwise, struct dt_str *why, struct dt_err *e)
{
    if (r < 0 && !fatal(r)) {
        dt_str_addf(why, "%s: %s", what, mine->detail ? mine->detail : otherwise ? otherwise : dt_err_text(r));
        r = 1;
    }
    if (r < 0)
        dt_err_move(e, mine);
    dt_err_done(mine);
    return r;
}

/* Build, try and time the candidate at one level. 0: *next is there; 1: refused, `why` says so; negative: error. *ret_new: its module's name
 * is a new one. *ret_wrong: it was its trial that failed. */
static int build(struct rw_planner *p, const struct rw_rewrite *w, struct rw_cand *c, enum rw_level level, struct rw_trial *trial,
                 struct rw_state *next, bool *ret_new, bool *ret_wrong, struct dt_str *why, struct dt_err *e)
{
    struct rw_state *now = &p->state.p[p->state.n - 1];
    struct dt_err mine = {0};
    uint32_t fused = 0;
    *ret_new = *ret_wrong = false;
    int r = w->apply(c, level, why, &mine);
    if (r == 0) {
        *ret_new = name_module(p, c, now);
        r = rw_state_make(p, c, now, next, &fused, &mine);
    }
    if (r == 0) {
        r = rw_trial_begin(trial, p, c, now, next, fused, &mine);
        if (r < 0 && !fatal(r)) {
            *ret_wrong = true;
            r = refused(rw_recover(p->dev, r, &mine), "verification", &mine, "the results differ", why, e);
            rw_bundle(p->state.p[0].prog, next->prog, why->s ? why->s : "");
            return r;
        }
        r = r < 0 ? r : rw_state_time(p, next, &mine);
    }
    return r == 1 ? 1 : refused(r, "building", &mine, NULL, why, e);
}

/* Only what is proved, or rests on constant buffers, is the same without the launches before it. */
static bool stands_alone(const struct ana_result *a, uint32_t launch)
{
    for (uint32_t k = 0; k < a->launch[launch].naccess; k++) {
        const struct ana_access *x = &a->launch[launch].access[k];
        if ((x->reads && x->read > ANA_OBSERVED) || (x->writes && x->write > ANA_OBSERVED))
            return false;
    }
    return true;
}

static bool same_buffers(const struct dt_graph *x, const struct dt_graph *y)
{
    bool same = x->nbuffer == y->nbuffer;
    for (uint32_t b = 0; same && b < x->nbuffer; b++)
        same = !strcmp(x->buffer[b].name, y->buffer[b].name);
    return same;
}

/* Verify the state quickly and analyse it. 0, 1: refused, negative: error. */
static int accept(struct rw_planner *p, const struct rw_cand *c, struct rw_trial *trial, struct rw_state *next, struct dt_str *why,
                  struct dt_err *e)
{
    const struct rw_state *now = &p->state.p[p->state.n - 1];
    struct ana_options o = {0};
    struct dt_err bad = {0};
    int r = trial->want || trial->known ? rw_trial_finish(trial, &bad) : rw_verify_plan(p->dev, p->ref, next->prog, 1, 2, &bad);
    bool verified = r == 0;
    if (verified) {
        if (stands_alone(now->ana, c->launch[0]) && stands_alone(now->ana, c->launch[1]) && same_buffers(now->graph, next->graph)) {
            o.base = now->ana;
            o.same = next->from;
        }
        r = ana_run(p->dev, next->prog, &o, &next->ana, &bad);
    }
    r = refused(rw_recover(p->dev, r, &bad), verified ? "analysis of the fused launch" : "verification", &bad,
                verified ? NULL : "the results differ", why, e);
    if (r == 1)
        rw_bundle(p->state.p[0].prog, next->prog, why->s ? why->s : "");
    return r;
}

/* 1 kept, 0 not, negative error. */
static int try_pair(struct rw_planner *p, const struct rw_rewrite *w, const struct ana_edge *edge, struct dt_err *e)
{
    struct rw_state *now = &p->state.p[p->state.n - 1], next = {0};
    const struct dev_info *dev = dev_info(p->dev);
    const char *first = name_of(now, edge->producer), *second = name_of(now, edge->consumer);
    struct rw_cand c;
    struct rw_trial trial = {0};
    struct dt_str why = {0}, note = {0};
    double before = 0, after = 0, bound, both;
    const char *level = NULL;
    int r, out = 0;
    enum rw_verdict verdict = RW_REFUSED;

    if ((r = rw_cand_init(&c, dev, now->prog, now->ana, p->opt, edge->producer, edge->consumer, e)) < 0)
        goto done;
    if (!rw_legal_check(&c, &why)) {
        r = record(p, w, first, second, NULL, RW_REFUSED, &why, 0, 0, e);
        goto done;
    }
    bound = bound_us(&c, now, &both);
    if (bound > both * BOUND) {
        uint32_t np = c.comps.list[0].max, nc = c.comps.list[1].max;
        dt_str_addf(&why,
                    "%s %.2f → about %.2f us for the two: %u components, of up to %u producer and %u consumer blocks one after "
                    "the other, on %u SMs (estimated from the launches' own times, not built)",
                    how(now), both, bound, c.comps.n, np, nc, dev->sms);
        r = record(p, w, first, second, NULL, RW_DROPPED, &why, both, bound, e);
        goto done;
    }
    for (int l = RW_LEVEL_SHARED; l <= RW_LEVEL_GLOBAL && !out; l++) {
        struct dt_str reason = {0};
        bool fresh, wrong;
        rw_trial_done(&trial);
        r = build(p, w, &c, (enum rw_level)l, &trial, &next, &fresh, &wrong, &reason, e);
        p->nname -= fresh; /* until it is kept */
        if (r < 0) {
            dt_str_done(&reason);
            break;
        }
        if (r == 1 && !wrong) { /* refused at this level */
            if (l == RW_LEVEL_SHARED)
                dt_str_addf(&note, "%s", reason.s ? reason.s : "");
            else if (verdict == RW_REFUSED)
                dt_str_addf(&why, "%s", reason.s ? reason.s : "");
            dt_str_done(&reason);
            r = 0;
            continue;
        }
        before = now->time.time_us;
        if (r == 0 && !faster(now, &next)) {
            if (verdict == RW_REFUSED || next.time.time_us < after) {
                after = next.time.time_us;
                level = rw_level_text((enum rw_level)l);
            }
            verdict = RW_DROPPED;
            dt_str_addf(&why, "%slevel %s %s %.2f → %.2f us", why.len ? "; " : "", rw_level_text((enum rw_level)l), how(&next),
                        before, next.time.time_us);
            rw_state_done(&next);
            continue;
        }
        after = next.time.time_us;
        level = rw_level_text((enum rw_level)l);
        dt_str_done(&why);
        if (r == 1)
            why = reason;
        else
            r = accept(p, &c, &trial, &next, &why, e);
        if (r < 0)
            break;
        if (r == 1) {
            verdict = RW_REFUSED;
            before = after = 0;
            level = NULL;
            for (int s = 0; s < 2; s++)
                if (c.own[s] && !strcmp(dev->kind, "soft"))
                    dt_str_addf(&why, " ('%s' leaves multiply-adds for ptxas to contract, which the software device does not do)",
                                name_of(now, c.launch[s]));
            rw_state_done(&next);
            r = 0;
            break;
        }
        out = 1;
        p->nname += fresh;
        verdict = RW_KEPT;
        if (note.len)
            dt_str_addf(&why, "%s", note.s);
        if ((r = record(p, w, first, second, level, verdict, &why, before, after, e)) < 0)
            break;
        r = keep(p, &next, (size_t)(find_entry(p, w->name, first, second) - p->entry.p), e);
    }
    if (r == 0 && !out) {
        if (!why.len && note.len)
            dt_str_addf(&why, "%s", note.s);
        r = record(p, w, first, second, level, verdict, &why, before, after, e);
    }
done:
    rw_trial_done(&trial);
    rw_state_done(&next);
    dt_str_done(&why);
    dt_str_done(&note);
    rw_cand_done(&c);
    return r < 0 ? r : out;
}

/* ---- the order of tries -------------------------------------------------------------------------------------------------- */

struct promise {
    const struct ana_edge *edge;
    uint32_t size;  /* blocks of the largest component */
    uint64_t bytes; /* of the buffers between the two */
};

static int by_promise(const void *x, const void *y)
{
    const struct promise *a = x, *b = y;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->edge->consumer != b->edge->consumer)
        return a->edge->consumer < b->edge->consumer ? -1 : 1;
    return a->edge->producer < b->edge->producer ? -1 : a->edge->producer > b->edge->producer;
}

static int rank(const struct rw_state *s, const struct rw_rewrite *w, struct promise **ret, size_t *ret_n, struct dt_err *e)
{
    struct promise *v = dt_calloc(s->ana->nedge + 1, sizeof *v);
    size_t n = 0;
    if (!v)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < s->ana->nedge; k++) {
        const struct ana_edge *x = &s->ana->edge[k];
        struct dt_arena a = {0};
        struct rw_comps comps = {0};
        if (!w->match(s->ana, x))
            continue;
        v[n].edge = x;
        v[n].size = UINT32_MAX;
        if (ana_rows_kept(&x->any)) {
            int r = rw_comps_build(&a, &x->any, s->prog->step[x->producer].blocks, s->prog->step[x->consumer].blocks, &comps, e);
            if (r < 0) {
                dt_arena_done(&a);
                free(v);
                return r;
            }
            v[n].size = comps.list[0].max + comps.list[1].max;
        }
        for (uint32_t j = 0; j < x->nbuffer; j++)
            v[n].bytes += s->graph->buffer[x->buffer[j]].bytes;
        n++;
        dt_arena_done(&a);
    }
    qsort(v, n, sizeof *v, by_promise);
    *ret = v;
    *ret_n = n;
    return 0;
}

/* Is there nothing new to say about the pair? */
static bool settled(struct rw_planner *p, const struct rw_rewrite *w, const struct rw_state *s, const struct ana_edge *x)
{
    const struct rw_entry *n = find_entry(p, w->name, name_of(s, x->producer), name_of(s, x->consumer));
    return n && !(n->verdict == RW_REFUSED && n->reason && !strncmp(n->reason, "order:", 6));
}

static bool late(struct rw_planner *p)
{
    if (p->deadline_us && dt_now_us() > p->deadline_us)
        p->budget_spent = true;
    return p->budget_spent;
}

/* 1: something was kept; 0: nothing left. */
static int one_round(struct rw_planner *p, const struct rw_rewrite *w, struct dt_err *e)
{
    const struct rw_state *s = &p->state.p[p->state.n - 1];
    struct promise *v = NULL;
    size_t n = 0;
    int r = rank(s, w, &v, &n, e);
    for (size_t k = 0; r == 0 && k < n; k++) {
        if (settled(p, w, s, v[k].edge))
            continue;
        if (late(p)) {
            struct dt_str why = {0};
            dt_str_add(&why, "budget: the time for planning was over before this pair was tried");
            r = record(p, w, name_of(s, v[k].edge->producer), name_of(s, v[k].edge->consumer), NULL, RW_REFUSED, &why, 0, 0, e);
            dt_str_done(&why);
            continue;
        }
        struct dt_str say = {0};
        dt_str_addf(&say, "%s + %s", name_of(s, v[k].edge->producer), name_of(s, v[k].edge->consumer));
        rw_say(p->opt, say.s ? say.s : w->name, (unsigned)k, (unsigned)n);
        dt_str_done(&say);
        r = try_pair(p, w, v[k].edge, e);
        s = &p->state.p[p->state.n - 1]; /* the array may have moved */
        if (r == 1)
            break;
    }
    free(v);
    return r;
}

/* Is there a pair that some rewrite may speak about? */
static bool anything(struct rw_planner *p)
{
    const struct ana_result *a = p->state.p[0].ana;
    for (unsigned i = 0; i < rw_nregistry; i++)
        for (uint32_t k = 0; rw_kind_allowed(p->opt, rw_registry[i]) && k < a->nedge; k++)
            if (rw_registry[i]->match(a, &a->edge[k]))
                return true;
    return false;
}

/* Refuse every pair of the original with one reason. */
static int refuse_all(struct rw_planner *p, const char *text, struct dt_err *e)
{
    const struct rw_state *s = &p->state.p[0];
    int r = 0;
    for (unsigned i = 0; i < rw_nregistry; i++)
        for (uint32_t k = 0; k < s->ana->nedge && r == 0; k++) {
            const struct ana_edge *x = &s->ana->edge[k];
            struct dt_str why = {0};
            if (!rw_registry[i]->match(s->ana, x))
                continue;
            dt_str_add(&why, text);
            r = record(p, rw_registry[i], name_of(s, x->producer), name_of(s, x->consumer), NULL, RW_REFUSED, &why, 0, 0, e);
            dt_str_done(&why);
        }
    return r;
}

static int verify_final(struct rw_planner *p, unsigned inputs, unsigned schedules, struct dt_err *e)
{
    while (p->state.n > 1) {
        struct rw_state *top = &p->state.p[p->state.n - 1];
        struct dt_err bad = {0};
        rw_say(p->opt, "verify", 0, 1);
        int r = rw_waits_check(p->dev, top->prog, top->ana, p->state.p[0].prog, &bad);
        if (r == 0)
            r = rw_verify_plan(p->dev, p->ref, top->prog, inputs, schedules, &bad);
        if (r == 0) {
            p->verified_inputs = rw_reference_inputs(p->ref);
            p->verified_schedules = schedules;
            return 0;
        }
        if (fatal(r)) {
            dt_err_move(e, &bad);
            return r;
        }
        /* the newest rewrite goes, and what was decided after it with it */
        struct rw_entry *x = &p->entry.p[top->entry];
        rw_bundle(p->state.p[0].prog, top->prog, bad.detail ? bad.detail : "");
        free(x->reason);
        struct dt_str why = {0};
        dt_str_addf(&why, "verification: %s", bad.detail ? bad.detail : "the results differ");
        x->reason = steady(dt_str_take(&why));
        x->verdict = RW_REFUSED;
        dt_err_done(&bad);
        rw_state_done(top);
        p->state.n--;
    }
    return 0; /* no change: the plan is the original */
}

int rw_choose(struct rw_planner *p, struct dt_err *e)
{
    unsigned inputs = p->opt->inputs ? p->opt->inputs : 3, schedules = p->opt->schedules ? p->opt->schedules : 8;
    struct rw_state *first = &p->state.p[0];
    int r = 0;
    if (!anything(p))
        return rw_state_time(p, first, e);
    struct dt_err race = {0};
    r = rw_reference_new(p->dev, first->prog, inputs, first->ana, &p->ref, &p->snaps, &race);
    if (r == DT_E_RACE) {
        struct dt_str why = {0};
        dt_str_addf(&why, "race: the posted launches themselves race: %s", race.detail ? race.detail : "");
        r = refuse_all(p, why.s ? why.s : "race", e);
        dt_str_done(&why);
        dt_err_done(&race);
        return r < 0 ? r : rw_state_time(p, first, e);
    }
    if (r < 0) {
        dt_err_move(e, &race);
        return r;
    }
    if ((r = rw_state_first(p, first, e)) < 0)
        return r;
    if (p->deadline_us) { /* the whole plan's verification comes after the tries, and is part of the time */
        uint64_t last = rw_reference_us(p->ref, inputs, schedules), now = dt_now_us();
        p->deadline_us = p->deadline_us > now + last ? p->deadline_us - last : now;
    }
    for (unsigned k = 0; k < rw_nregistry; k++) {
        if (!rw_kind_allowed(p->opt, rw_registry[k]))
            continue;
        do
            r = one_round(p, rw_registry[k], e);
        while (r == 1);
        if (r < 0)
            return r;
    }
    return verify_final(p, inputs, schedules, e);
}
