/* One candidate: built, tried, timed against the newest state, verified, and kept if it is faster.
 *
 *   open: facts, legality, a bound
 *   for each level: build; what its kernels' machine code computes; a glance at what it costs (gate/glance.c), and if
 *     that leaves hope, S and T alone (gate/trial.c), its time, more block orders, its analysis
 *   the fastest level is kept if it is faster than the newest state by more than the noise, and its rival is not
 *
 * Where a glance tells what the levels cost, only the fastest of them runs whole. It is built once more if another was
 * built after it. Where all blocks do equally much, a glance is as good as a whole run: what is not faster for sure by
 * it does not run.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/subject.h"

/* Parts of the time of what is replaced: what costs by a few blocks may be wrong about, and by how much two levels that
 * are may be in the wrong order; both where blocks differ and where all do equally much. */
static const double glance_off[2] = {0.05, 0.002}, glance_close[2] = {0.015, 0.002};
#define LEVELS_MOST 16 /* of a kind */

/* ---- names of modules -------------------------------------------------------------------------------------------- */

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

static bool same_text(const struct dt_str *s, const char *text, size_t len)
{
    return s->len == len && !memcmp(s->s, text, len);
}

/* Name the modules of T: after a module with the same text in the newest state or in an earlier part, else with a new
 * name. Returns how many names are new. */
static unsigned name_modules(struct rw_planner *p, struct rw_edit *x)
{
    const struct dt_graph *g = x->now->graph;
    unsigned fresh = 0;
    for (size_t i = 0; i < x->part.n; i++) {
        struct rw_part *t = &x->part.p[i];
        const char *have = NULL;
        t->fresh = false;
        if (!t->ptx.len)
            continue;
        for (uint32_t k = 0; k < g->nmodule && !have; k++)
            if (g->module[k].is_ptx && strlen(g->module[k].name) < sizeof t->module &&
                same_text(&t->ptx, g->module[k].source, g->module[k].len))
                have = g->module[k].name;
        for (size_t k = 0; k < i && !have; k++)
            if (x->part.p[k].ptx.len && same_text(&t->ptx, x->part.p[k].ptx.s, x->part.p[k].ptx.len))
                have = x->part.p[k].module;
        if (have) {
            snprintf(t->module, sizeof t->module, "%s", have);
            continue;
        }
        do
            snprintf(t->module, sizeof t->module, "f%u", p->nname++);
        while (name_taken(p, t->module));
        t->fresh = true;
        fresh++;
    }
    return fresh;
}

/* ---- one candidate ----------------------------------------------------------------------------------------------- */

static const char *how(const struct rw_state *s)
{
    bool modeled = strncmp(s->time.method, "modeled", 7) == 0;
    return s->glanced ? "modeled from some of its blocks" : modeled ? "modeled" : "measured";
}

/* May a block map, or the absence of a hazard, depend on what a constant buffer holds? A pair's own hazards are not all
 * that counts: hazards that are absent count too, and so does an access under a data-dependent guard at an address from
 * a table. */
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

int rw_state_push(struct rw_planner *p, struct rw_state *next, size_t entry, struct dt_err *e)
{
    next->evidence = rests_on_constants(p->state.p[0].ana) ? ANA_OBSERVED : ANA_PROVED;
    next->entry = entry;
    if (!dt_push(&p->state, *next))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(next, 0, sizeof *next);
    return 0;
}

/* If the error concerns the candidate alone: add it to `why` and return 1. Otherwise return the error. */
static int as_refusal(int r, const char *what, struct dt_err *mine, const char *otherwise, struct dt_str *why,
                      struct dt_err *e)
{
    if (r < 0 && !rw_fatal(r)) {
        dt_str_addf(why, "%s%s: %s", why->len ? "; " : "", what,
                    mine->detail ? dt_err_words(mine)
                    : otherwise  ? otherwise
                                 : dt_err_text(r));
        r = 1;
    }
    if (r < 0)
        dt_err_move(e, mine);
    dt_err_done(mine);
    return r;
}

/* It is if it is proved or rests on constant buffers. */
bool rw_stands_alone(const struct ana_result *a, uint32_t launch)
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

/* Make next->ana. What is known about the launches that stay is reused. offline: the device is in use. */
static int analyse(struct rw_planner *p, const struct rw_edit *x, bool offline, struct rw_state *next, struct dt_err *e)
{
    const struct rw_state *now = &p->state.p[p->state.n - 1];
    struct ana_options o = {.memo = p->opt->footprints, .offline = offline};
    bool alone = same_buffers(now->graph, next->graph);
    for (uint32_t k = 0; k < x->nlaunch; k++)
        alone = alone && rw_stands_alone(now->ana, x->launch[k]);
    if (alone) {
        o.base = now->ana;
        o.same = next->from;
    }
    return ana_run(p->dev, next->prog, &o, &next->ana, e);
}

/* What a glance at a level is held against. */
struct hope {
    struct rw_planner *p;
    struct rw_state *now, *best; /* best: the fastest level that ran whole, if it has a graph */
    bool several;                /* there are more levels: the fastest of those that cost by a glance waits */
    bool sure;                   /* the newest of them is surely faster than what there is */
    bool close;                  /* another one was so near that it ran whole, and so has the one that waits to */
    bool waits;                  /* one does: which one, and its time */
    unsigned level;
    double us;
    struct dt_str noise; /* why the newest of them is not surely faster */
};

/* Do the blocks of each of its new launches do equally much? */
static bool even(const struct rw_planner *p, const struct rw_state *s)
{
    bool all = true;
    for (uint32_t l = 0; l < s->graph->nlaunch && all; l++)
        all = s->from[l] != UINT32_MAX || s->graph->launch[l].kind != DT_KERNEL || dev_cost_even(p->dev, &s->cost[l]);
    return all;
}

/* 1: the state need not run whole: it is slower than what there is, by more than some of its blocks can be wrong about,
 * or than the level that waits; or it is the one that waits now. */
static int hopeless(void *user, struct rw_state *next, struct dt_err *e)
{
    struct hope *h = user;
    int r = RW_FORCED ? 0 : rw_state_time(h->p, next, e);
    h->sure = false;
    dt_str_done(&h->noise);
    if (r < 0 || RW_FORCED)
        return r;
    bool good = even(h->p, next);
    double least = h->best->graph ? h->best->time.time_us : h->now->time.time_us, us = next->time.time_us,
           close = glance_close[good] * next->stake_us;
    if (us > least + glance_off[good] * next->stake_us || (h->waits && us >= h->us + close))
        return 1;
    bool near = h->waits && us > h->us - close;
    h->close |= near;
    if (!good && (!h->several || near))
        return 0;
    r = h->best->graph ? rw_better(h->p, h->best, next, &h->noise, e) : 1;
    if (r == 1)
        r = rw_faster(h->p, h->now, next, &h->noise, e);
    if (r < 0)
        return r;
    h->sure = r == 1 && h->several && !near;
    return r == 1 ? h->sure : good;
}

/* Build, try and time the candidate at one level. 0: *next is there; 1: refused, `why` says so; negative: error.
 * *ret_fresh: how many module names are new. *ret_wrong: the trial failed. hope: NULL: it is tried however slow it
 * is. */
static int build_level(struct rw_planner *p, struct rw_edit *x, unsigned level, struct hope *hope,
                       struct rw_trial *trial, struct rw_state *next, unsigned *ret_fresh, bool *ret_wrong,
                       struct dt_str *why, struct dt_err *e)
{
    struct dt_err mine = {0};
    uint32_t first = 0;
    *ret_fresh = 0;
    *ret_wrong = false;
    rw_edit_clear(x);
    int r = x->kind->build(x, level, why, &mine);
    if (r == 0 && !rw_memory_allows(p, x, why))
        r = 1;
    if (r == 0) {
        *ret_fresh = name_modules(p, x);
        r = rw_state_make(p, x, next, &first, &mine);
        r = r ? r : rw_machine_code(&p->gate, x, next, first, why, &mine);
    }
    if (r == 0 && p->gate.sample) { /* the graph is too large for trials on what launches leave in memory */
        if ((r = analyse(p, x, false, next, &mine)) == 0 &&
            (r = rw_verify_plan(p->dev, p->gate.ref, next->prog, next->ana, 1, 0, false, next->cost, &mine)) < 0 &&
            !rw_fatal(r)) {
            *ret_wrong = true;
            dt_str_done(why);
            r = as_refusal(r, "verification", &mine, "the results differ", why, e);
            rw_bundle(p->state.p[0].prog, next->prog, why->s ? why->s : "");
            return r;
        }
        r = r < 0 || rw_measures(p) ? r : rw_state_time(p, next, &mine); /* measured beside what there is: rw_faster */
    } else if (r == 0) {
        struct rw_judge judge = {hopeless, hope};
        r = rw_trial_judged(trial, &p->gate, x, next, first, hope ? &judge : NULL, &mine);
        memcpy(next->key, trial->key, sizeof next->key);
        if (r < 0 && !rw_fatal(r)) {
            *ret_wrong = true;
            dt_str_done(why);
            r = as_refusal(rw_recover(p->dev, r, &mine), "verification", &mine, "the results differ", why, e);
            rw_bundle(p->state.p[0].prog, next->prog, why->s ? why->s : "");
            return r;
        }
        next->glanced = r == 1 && trial->glanced;
        if (r >= 0) /* a glance has set the time */
            r = rw_measures(p) || next->glanced ? 0 : rw_state_time(p, next, &mine);
    }
    if (r == 0)
        rw_budget_built(p, trial, *ret_fresh);
    return r == 1 ? 1 : as_refusal(r, "building", &mine, NULL, why, e);
}

/* What the kind asks of its own launches' block maps. 0: it holds; 1: refused; negative: error. */
static int well_made(struct rw_planner *p, const struct rw_edit *x, struct rw_state *next, struct dt_str *why,
                     struct dt_err *e)
{
    struct dt_err bad = {0};
    if (!x->kind->made_well)
        return 0;
    int r = next->ana ? 0 : analyse(p, x, false, next, &bad);
    r = as_refusal(rw_recover(p->dev, r, &bad), "analysis of the new launch", &bad, NULL, why, e);
    return r ? r : !x->kind->made_well(x, next, why);
}

struct accept { /* what is done side by side for a candidate that is faster */
    struct rw_planner *p;
    const struct rw_edit *x;
    struct rw_trial *trial;
    struct rw_state *next;
    struct dt_err *bad; /* of the block orders */
    int r;
};

static void accept_half(void *user, size_t k)
{
    struct accept *a = user;
    struct dt_err none = {0};
    if (k == 0)
        a->r = rw_trial_finish(a->trial, a->bad);
    else if (!a->next->ana)
        analyse(a->p, a->x, true, a->next, &none); /* what does not come out is done again, and then says why */
    dt_err_done(&none);
}

/* Verify the state quickly and analyse it. 0, 1: refused, negative: error. */
static int accept_level(struct rw_planner *p, const struct rw_edit *x, struct rw_trial *trial, struct rw_state *next,
                        struct dt_str *why, struct dt_err *e)
{
    struct dt_err bad = {0};
    int r = well_made(p, x, next, why, e);
    if (r)
        return r;
    if (trial->want || trial->known) { /* the device is busy with one thing and one thread */
        struct accept a = {p, x, trial, next, &bad, 0};
        dt_parallel(2, 2, accept_half, &a);
        r = a.r;
        rw_trial_keep(trial);
    } else {
        r = rw_verify_plan(p->dev, p->gate.ref, next->prog, next->ana, p->gate.sample ? 0 : 1, 2, false, NULL, &bad);
    }
    bool verified = r == 0;
    p->unseen |= trial->unseen;
    if (verified) {
        r = next->ana ? 0 : analyse(p, x, false, next, &bad);
    }
    bool analysed = verified && r == 0;
    if (analysed)
        r = rw_waits_check(p->dev, next->prog, next->ana, p->state.p[0].prog, &bad);
    const char *what = !verified         ? "verification"
                       : !analysed       ? "analysis of the new launch"
                       : r == DT_E_GRAPH ? "stream-order"
                                         : "analysis before griddepcontrol.wait";
    r = as_refusal(rw_recover(p->dev, r, &bad), what, &bad, verified ? NULL : "the results differ", why, e);
    rw_budget_accepted(p, trial, next);
    if (r == 1)
        rw_bundle(p->state.p[0].prog, next->prog, why->s ? why->s : "");
    return r;
}

/* Append `more` to `why`. */
static void add_reason(struct dt_str *why, const char *more)
{
    if (more && *more)
        dt_str_addf(why, "%s%s", why->len ? "; " : "", more);
}

/* Why levels were refused; not of the one that is kept: a kind may name two so, and the other has nothing to say then
 * (`register` has two sides). */
static void add_refusals(struct dt_str *why, const struct dt_str *refusal, const char *const *levels, const char *kept)
{
    for (unsigned l = 0; l < LEVELS_MOST && levels[l]; l++)
        if (!kept || strcmp(levels[l], kept))
            add_reason(why, refusal[l].s);
}

/* Add to `why` how the level's time compares with that of the newest state. */
static void loses_by(struct dt_str *why, const char *level, const struct rw_state *now, const char *how, double us)
{
    dt_str_addf(why, "%s%s%s%s%s %.2f → %.2f us", why->len ? "; " : "", level ? "level " : "", level ? level : "",
                level ? " " : "", how, now->time.time_us, us);
}

static void loses(struct dt_str *why, const char *level, const struct rw_state *now, const struct rw_state *next)
{
    loses_by(why, level, now, how(next), next->time.time_us);
}

/* Build what the rival kind makes of the same launches: is it at least as fast? 1: it is, `why` says so. */
static int beaten(struct rw_planner *p, const struct rw_rewrite *rival, const uint32_t *launch, uint32_t nlaunch,
                  struct rw_state *best, struct dt_str *why, struct dt_err *e)
{
    const struct rw_state *now = &p->state.p[p->state.n - 1];
    struct rw_state other = {0};
    struct rw_trial trial = {0};
    struct rw_edit x;
    struct dt_str no = {0};
    enum rw_verdict verdict;
    struct hope hope = {.p = p, .now = &p->state.p[p->state.n - 1], .best = best};
    unsigned fresh = 0;
    bool wrong;
    if (!rival || !rw_kind_allowed(p->opt, rival) || RW_FORCED)
        return 0;
    int r = rw_edit_init(&x, rival, dev_info(p->dev), p->opt, now, launch, nlaunch, e);
    if (r < 0)
        return r;
    r = rival->open(&x, &verdict, &no, e);
    if (r == 0)
        r = build_level(p, &x, 0, &hope, &trial, &other, &fresh, &wrong, &no, e);
    p->nname -= fresh;
    int still = 1;
    if (r == 0) {
        struct dt_err mine = {0};
        still = rw_better(p, &other, best, &no, &mine);
        if (still == 0 && !rw_measures(p)) { /* the rival has to be sure, too */
            int sure = rw_faster(p, &p->state.p[p->state.n - 1], &other, &no, &mine);
            still = sure < 0 ? sure : !sure;
        }
        r = as_refusal(still < 0 ? still : 0, "measuring", &mine, NULL, &no, e);
    }
    if (r == 0 && !still) {
        dt_str_addf(why, "%sby %s instead %s %.2f us", why->len ? "; " : "", rival->name, how(&other),
                    other.time.time_us);
        r = 1;
    } else {
        r = r == 1 ? 0 : r;
    }
    rw_trial_done(&trial);
    rw_state_done(&other);
    dt_str_done(&hope.noise);
    dt_str_done(&no);
    rival->close(&x);
    rw_edit_done(&x);
    return r;
}

/* Of a level that did not run whole: is it the fastest so far, and waits for the others? The one that waited before is
 * slower. */
static bool waits_now(struct hope *h, const struct rw_state *next, unsigned level, struct dt_str *why,
                      const char *const *levels)
{
    if (!h->sure || (h->waits && next->time.time_us >= h->us))
        return false;
    if (h->waits)
        loses_by(why, levels[h->level], h->now, how(next), h->us);
    h->waits = true;
    h->close = false;
    h->level = level;
    h->us = next->time.time_us;
    return true;
}

/* At all its levels, and keep the fastest, of equal ones the nearest; with `way`, only at its level. */
int rw_try_anyway(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t nlaunch,
                  const struct rw_way *way, struct dt_err *e)
{
    static const char *const no_levels[] = {NULL, NULL};
    const char *const *levels = w->levels ? w->levels : no_levels, *level = NULL;
    struct rw_state *now = &p->state.p[p->state.n - 1], next = {0}, best = {0};
    struct rw_edit x;
    struct rw_trial trial = {0};
    struct dt_str why = {0}, note = {0}, noise = {0}, refusal[LEVELS_MOST] = {0};
    double before = 0, after = 0;
    enum rw_verdict verdict = RW_REFUSED;
    unsigned l = way ? way->level : 0, place = 0, names = 0; /* the best one's level; its count of new module names */
    size_t at = 0;
    bool wrong = false, opened = false, slower = false, again = false, go_on;
    struct hope hope = {.p = p, .now = now, .best = &best, .several = levels[0] && levels[1]};
    int r = rw_edit_init(&x, w, dev_info(p->dev), p->opt, now, launch, nlaunch, e);
    if (r < 0)
        return r;
    x.size = way ? way->size : 0;
    p->nname = way ? way->module : p->nname;
    bool legal = rw_edit_legal(&x, &why);
    if (legal && !w->same_code) { /* all that it makes is made of all of them */
        if ((r = rw_machine_code_closed(&p->gate, now, launch, nlaunch, &why, e)) < 0)
            goto done;
        legal = r == 0;
    }
    if (!legal) {
        r = rw_entry_record(p, w, launch, nlaunch, NULL, RW_REFUSED, &why, 0, 0, NULL, e);
        goto done;
    }
    opened = true;
    if ((r = w->open(&x, &verdict, &why, e)) < 0)
        goto done;
    if (r == 1) {
        bool timed = verdict == RW_DROPPED;
        r = rw_entry_record(p, w, launch, nlaunch, NULL, verdict, &why, timed ? x.before_us : 0, timed ? x.after_us : 0,
                            NULL, e);
        goto done;
    }
    verdict = RW_REFUSED;
    do {
        struct dt_str reason = {0};
        unsigned fresh;
        rw_trial_done(&trial);
        rw_state_done(&next);
        r = build_level(p, &x, l, way || again ? NULL : &hope, &trial, &next, &fresh, &wrong, &reason, e);
        p->nname -= fresh; /* until it is kept */
        int faster = 0;
        bool waits = r == 0 && next.glanced && waits_now(&hope, &next, l, &why, levels);
        if (next.glanced)
            add_reason(&noise, hope.noise.s);
        if (r == 0 && !next.glanced) { /* what is glanced and does not wait is slower */
            struct dt_err mine = {0};
            faster = best.graph ? rw_better(p, &best, &next, &noise, &mine) : 1;
            if (faster == 1 && (!best.graph || !rw_measures(p)) && !(way && way->detour))
                faster = rw_faster(p, now, &next, &noise, &mine);
            r = as_refusal(faster < 0 ? faster : 0, "measuring", &mine, NULL, &reason, e);
        }
        if (waits) {
        } else if (r == 1 && !wrong) { /* refused at this level */
            if (levels[l] && levels[l + 1] && l < LEVELS_MOST)
                add_reason(&refusal[l], reason.s);
            else if (verdict == RW_REFUSED)
                add_reason(&why, reason.s);
            r = 0;
        } else if (r == 0 && !faster) {
            slower = w->falling;
            if (verdict == RW_REFUSED || (verdict == RW_DROPPED && next.time.time_us < after)) {
                after = next.time.time_us;
                level = levels[l];
                verdict = RW_DROPPED;
            }
            add_reason(&why, reason.s);
            loses(&why, levels[l], now, &next);
            add_reason(&why, noise.s);
        } else if (r >= 0) {
            if (r == 0)
                r = accept_level(p, &x, &trial, &next, &reason, e);
            wrong = r == 1;
            if (wrong) { /* then nothing that this rewrite made of these launches is trusted */
                dt_str_done(&why);
                add_reason(&why, reason.s);
                if (x.hint.len)
                    dt_str_addf(&why, "%s", x.hint.s);
            } else if (r == 0) {
                if (best.graph)
                    loses(&why, level, now, &best);
                add_reason(&note, reason.s);
                add_reason(&note, noise.s); /* what the library knew */
                rw_state_done(&best);
                best = next;
                memset(&next, 0, sizeof next);
                names = fresh;
                verdict = RW_KEPT;
                after = best.time.time_us;
                level = levels[l];
                place = l;
            }
        }
        dt_str_done(&reason);
        dt_str_done(&noise);
        bool more = r == 0 && !way && !again && !slower && !(RW_FORCED && best.graph) && levels[l] && levels[l + 1] &&
                    !rw_hurried(p);
        again = r == 0 && !more && !again && hope.waits && (!best.graph || hope.close || hope.us < best.time.time_us);
        go_on = more || again;
        l = again ? hope.level : l + more;
    } while (go_on);
    if (r < 0)
        goto done;
    before = now->time.time_us;
    if (wrong || verdict == RW_REFUSED) {
        verdict = RW_REFUSED;
        before = after = 0;
        level = NULL;
    }
    if (verdict == RW_KEPT && !way) {
        struct dt_str better = {0};
        r = beaten(p, w->rival, launch, nlaunch, &best, &better, e);
        if (r == 1) {
            verdict = RW_DROPPED;
            loses(&why, level, now, &best);
            add_reason(&why, better.s);
        }
        dt_str_done(&better);
        if (r < 0)
            goto done;
    }
    if (!wrong) {
        add_refusals(&why, refusal, levels, verdict == RW_KEPT ? level : NULL);
        add_reason(&why, note.s);
    }
    r = rw_entry_record(p, w, launch, nlaunch, level, verdict, &why, before, after, &at, e);
    if (r == 0 && verdict == RW_KEPT)
        r = rw_gain(p, now, &best, p->entry.p[at].gain, e);
    if (r == 0 && verdict == RW_KEPT) {
        rw_trial_done(&trial); /* it points into the states, which may be moved */
        best.step = rw_step_json(w, place, launch, nlaunch, p->nname, &best);
        if (best.step && way && way->detour)
            json_object_set_new(best.step, "detour", json_true());
        p->nname += names;
        r = rw_state_push(p, &best, at, e);
        r = r < 0 ? r : 1;
    }
done:
    rw_trial_done(&trial);
    rw_state_done(&next);
    rw_state_done(&best);
    dt_str_done(&why);
    dt_str_done(&note);
    dt_str_done(&noise);
    dt_str_done(&hope.noise);
    for (l = 0; l < LEVELS_MOST; l++)
        dt_str_done(&refusal[l]);
    if (opened)
        w->close(&x);
    rw_edit_done(&x);
    return r;
}
