/* Errors of the posted launches themselves: races, and reads of uninitialised memory.
 *
 * Each posted launch runs once more, on the gate's first input, under the race and uninitialised-read checks
 * (docs/CHECKING.md); findings do not end the run. They become warnings of the plan. A launch that races is left alone
 * (`racy` in legal.def), since there are no bits of it to keep, and the plan says that the original races
 * (plan/plan.c).
 *
 *   whole      all blocks of a launch run under the checks, while there is room for its work. If the gate's run met a
 *              conflict between blocks, every launch with one runs so: only this tells a race from flags and fences
 *   in part    otherwise some of its blocks, spread over the grid, run under the checks first, and then all blocks run
 *              as usual. Buffers that it reads and writes are put back between the two. One block is enough to find
 *              races between its threads, and uninitialised shared memory
 *   once       a launch that is equal to one before, which was clean, is not looked at again (once.c). Where from it on
 *              nothing that is touched hangs on data, it does not even run, and the few behind it that are to be looked
 *              at run on buffers of zeros; so do those behind one of which some blocks ran under the checks. Which of
 *              their bytes nothing has written, the footprints say
 *   not        a block that is too large by itself; clusters, and blocks that talk, if there is no room for all of them
 *
 * The room is counted in instructions (CHECK_WORK), never in time, and handed out launch by launch, so the same graph
 * gives the same warnings. The footprints give warnings too (analysis/report/warnings.c). If both give a warning for
 * the same launch and code, only the one that was seen in a run is kept.
 *
 * Software device only: on a real one there are only the footprints. A launch that faults under the checks ends them
 * (it may need an intermediate's fill, or the race detector may have no memory): later launches are not checked, and
 * this is no error.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

/* most thread-instructions under the checks, without launches that must run whole */
#define CHECK_WORK (UINT64_C(1) << 26)
/* most bytes that a launch touches under the checks: the race detector needs 16 times as many */
#define TOUCH_MOST (UINT64_C(1) << 25)
#define KEEP_MOST (UINT64_C(1) << 30) /* bytes that are put back */
#define MERGE_MOST 4096               /* most warnings of the two lists together, before duplicates go */
#define MODES "race,uninit,tell"

struct checker {
    struct dev_device *d;
    const struct dev_prog *p;
    const struct ana_result *a;
    const struct rw_sample *sample;
    struct rw_original *out;
    struct dt_warnings seen; /* by launch */
    struct dev_run *run;
    struct dev_some *some;      /* by launch: the blocks that run, if it runs in part */
    uint64_t left;              /* of CHECK_WORK */
    bool conflict;              /* the gate's run met one between blocks */
    const struct rw_once *once; /* equal launches; NULL: none */
    bool *found;                /* by launch: it has a finding */
    bool blind;                 /* launches are left out from here on, since data does not matter */
    uint32_t fresh;             /* launches from here on that are equal to none before */
};

/* ---- words ------------------------------------------------------------------------------------------------------- */

static uint32_t buffer_at(const struct checker *c, dev_ptr at)
{
    for (uint32_t b = 0; b < c->p->graph->nbuffer; b++) {
        dev_ptr lo;
        if (dev_run_buffer(c->run, b, &lo) == 0 && at >= lo && at - lo < c->p->graph->buffer[b].bytes)
            return b;
    }
    return UINT32_MAX;
}

static const struct ptx_inst *inst_at(const struct checker *c, uint32_t launch, uint32_t line,
                                      const struct ptx_function **ret)
{
    const struct ptx_module *m = c->p->module[c->p->graph->launch[launch].module].ir;
    for (uint32_t k = 0; k <= m->nfunc; k++) {
        const struct ptx_function *f = k ? m->func[k - 1] : c->p->step[launch].posted;
        for (uint32_t i = 0; i < f->ninst; i++)
            if (f->inst[i].line == line && f->inst[i].op != PTX_OP_LABEL) {
                *ret = f;
                return &f->inst[i];
            }
    }
    return NULL;
}

static void thread(struct dt_str *s, const uint32_t t[3]) { dt_str_addf(s, "thread (%u,%u,%u)", t[0], t[1], t[2]); }
static void block(struct dt_str *s, const uint32_t b[3]) { dt_str_addf(s, " of block (%u,%u,%u)", b[0], b[1], b[2]); }

static void original_told(struct checker *c, uint32_t launch, const char *code, const struct dev_finding *f)
{
    uint32_t buffer = buffer_at(c, f->address);
    const struct ptx_function *in = NULL;
    const struct ptx_inst *i = inst_at(c, launch, f->line, &in);
    /* other places would be addresses of this process */
    bool shared = buffer == UINT32_MAX && !strncmp(f->place, "shared ", 7);
    struct dt_str s = {0};
    dev_ptr lo = 0;
    thread(&s, f->thread);
    if (f->has_other) {
        if (memcmp(f->block, f->other_block, sizeof f->block))
            block(&s, f->block);
        dt_str_add(&s, " and ");
        thread(&s, f->other_thread);
        block(&s, f->other_block);
        dt_str_add(&s, " touch, one of them writing, ");
    } else {
        block(&s, f->block);
        dt_str_add(&s, " reads ");
    }
    if (buffer != UINT32_MAX && dev_run_buffer(c->run, buffer, &lo) == 0)
        dt_str_addf(&s, "byte %llu of the buffer", (unsigned long long)(f->address - lo));
    else
        dt_str_addf(&s, "%s%s", f->has_other ? "the same " : "",
                    shared ? "shared memory" : "memory outside the buffers");
    dt_str_add(&s, f->has_other ? ", and nothing orders them: what the launch leaves is a matter of luck"
                                : ", which nothing has written");
    json_t *w = s.failed ? NULL : ana_warning(c->p, launch, code, buffer, in, i, s.s);
    dt_str_done(&s);
    if (w && shared && json_object_set_new(w, "place", json_string(f->place)) < 0) {
        json_decref(w);
        w = NULL;
    }
    json_t *text = w ? json_object_get(w, "instruction") : NULL;
    if (text && f->has_other && f->other_line != f->line &&
        json_object_set_new(w, "instruction",
                            json_sprintf("%s; and PTX line %u", json_string_value(text), f->other_line)) < 0) {
        json_decref(w);
        w = NULL;
    }
    dt_warn(&c->seen, w);
}

/* Take the findings about the last launch. */
static int original_take(struct checker *c, uint32_t launch, struct dt_err *e)
{
    struct dev_finding race, uninit;
    int r = dev_findings(c->d, &race, &uninit, e);
    if (r < 0)
        return r;
    c->found[launch] = race.is || uninit.is;
    if (race.is) {
        original_told(c, launch, "race", &race);
        c->out->racy[launch] = true;
    }
    if (uninit.is)
        original_told(c, launch, "uninitialised", &uninit);
    return 0;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* The blocks of the launch that run at all: those of the sample, or all. */
static uint32_t base(const struct checker *c, uint32_t launch, const uint32_t **ret)
{
    const struct dev_some *s = c->sample ? &c->sample->some[launch] : NULL;
    *ret = s ? s->block : NULL;
    return *ret ? s->n : c->a->launch[launch].nblock;
}

/* Put n of the m blocks, evenly spread, into `to`. */
static void spread(const uint32_t *from, uint32_t m, uint32_t n, uint32_t *to)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = n > 1 ? (uint32_t)((uint64_t)k * (m - 1) / (n - 1)) : 0;
        to[k] = from ? from[at] : at;
    }
}

/* How many of the launch's blocks the race detector has memory for. */
static uint64_t fit(const struct ana_launch *l)
{
    uint64_t all = 0, most = 1;
    for (uint32_t k = 0; k < l->naccess; k++)
        for (int v = 0; v < ANA_EVIDENCES; v++)
            all += ana_set_bytes(l->access[k].read_by[v]) + ana_set_bytes(l->access[k].write_by[v]);
    for (uint32_t b = 0; all > TOUCH_MOST && b < l->nblock; b++) {
        uint64_t n = 0;
        for (uint32_t k = 0; k < l->block[b].ntouch; k++)
            n += ana_set_bytes(l->block[b].touch[k].read) + ana_set_bytes(l->block[b].touch[k].must_write) +
                 ana_set_bytes(l->block[b].touch[k].may_write);
        most = n > most ? n : most;
    }
    return all > TOUCH_MOST ? TOUCH_MOST / most : UINT64_MAX;
}

/* How many blocks of the launch, of m, are run under the checks. */
static uint32_t share(struct checker *c, uint32_t launch, uint32_t m, const struct dev_cost *cost)
{
    const struct ana_launch *l = &c->a->launch[launch];
    uint32_t rest = c->fresh ? c->fresh : 1;
    uint64_t one = cost->instructions / (l->nblock ? l->nblock : 1) + 1, mine = c->left / rest;
    bool together = l->self_conflict || c->p->graph->launch[launch].cluster[0] ||
                    (c->p->step[launch].posted && c->p->step[launch].posted->reqnctapercluster[0]);
    if (c->conflict && l->self_conflict)
        return m;
    uint64_t n = mine / one ? mine / one : one <= c->left, room = fit(l);
    n = n < room ? n : room;
    if (n >= m || (together && c->left / one >= m && room >= m))
        n = m;
    else if (together)
        n = 0;
    c->left -= n * one;
    return (uint32_t)n;
}

/* Select what runs next: the blocks in `some`, or the usual ones. */
static int select_some(struct checker *c, bool part, struct dt_err *e)
{
    return dev_run_select(c->run, part ? c->some : c->sample ? c->sample->some : NULL, e);
}

/* Keep the buffers that the launch reads and writes, before it runs in part, or put them back afterwards. */
static int in_place(struct checker *c, uint32_t launch, uint8_t **kept, bool back, struct dt_err *e)
{
    const struct ana_launch *l = &c->a->launch[launch];
    int r = 0;
    for (uint32_t k = 0; k < l->naccess && r == 0; k++) {
        const struct ana_access *x = &l->access[k];
        if (!x->writes || !(x->reads || x->atomics))
            continue;
        if (!back && !(kept[x->buffer] = dt_large_get(c->p->graph->buffer[x->buffer].bytes + 1)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        r = back ? dev_run_upload(c->run, x->buffer, kept[x->buffer], e)
                 : dev_run_download(c->run, x->buffer, kept[x->buffer], e);
    }
    return r;
}

static uint64_t in_place_bytes(const struct checker *c, uint32_t launch)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < c->a->launch[launch].naccess; k++) {
        const struct ana_access *x = &c->a->launch[launch].access[k];
        n += x->writes && (x->reads || x->atomics) ? c->p->graph->buffer[x->buffer].bytes : 0;
    }
    return n;
}

/* Run n of the launch's m blocks under the checks, and undo what they did. */
static int in_part(struct checker *c, uint32_t launch, const uint32_t *from, uint32_t m, uint32_t n, struct dt_err *e)
{
    const struct dt_graph *g = c->p->graph;
    dt_free_ uint32_t *list = dt_calloc((size_t)n + 1, sizeof *list);
    uint8_t **kept = dt_calloc(g->nbuffer + 1, sizeof *kept);
    int r = list && kept ? in_place(c, launch, kept, false, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0) {
        spread(from, m, n, list);
        c->some[launch] = (struct dev_some){.block = list, .n = n};
        r = select_some(c, true, e);
    }
    if (r == 0 && (r = dev_run_step(c->run, launch, e)) == 0)
        r = original_take(c, launch, e);
    if (r == 0)
        r = in_place(c, launch, kept, true, e);
    c->some[launch] = (struct dev_some){0};
    for (uint32_t b = 0; kept && b < g->nbuffer; b++)
        dt_large_put(kept[b]);
    free(kept);
    return r;
}

/* Is it equal to one that was clean? */
static bool clean_before(const struct checker *c, uint32_t launch)
{
    return rw_again(c->once, launch) && !c->found[c->once->like[launch]];
}

/* Do this launch and all kernels behind it touch the same bytes whatever memory holds? */
static bool all_steady(const struct checker *c, uint32_t launch)
{
    bool all = c->once && c->once->same;
    for (uint32_t l = launch; all && l < c->p->graph->nlaunch; l++)
        all = c->once->same[l] || c->p->graph->launch[l].kind != DT_KERNEL;
    return all;
}

/* Something for the launch to read. */
static int give_zeros(struct checker *c, uint32_t launch, struct dt_err *e)
{
    const struct ana_launch *l = &c->a->launch[launch];
    int r = 0;
    for (uint32_t k = 0; k < l->naccess && r == 0; k++) {
        dev_ptr at;
        uint32_t b = l->access[k].buffer;
        if (l->access[k].reads && (r = dev_run_buffer(c->run, b, &at)) == 0)
            r = dev_set(c->d, at, 0, c->p->graph->buffer[b].bytes, e);
    }
    return r;
}

/* All blocks of the launch, under the checks or as usual. */
static int in_whole(struct checker *c, uint32_t launch, bool checked, struct dt_err *e)
{
    bool kernel = c->p->graph->launch[launch].kind == DT_KERNEL;
    int r = kernel && !checked ? dev_set_checks(c->d, "none", e) : 0;
    if (r == 0 && (r = select_some(c, false, e)) == 0 && (r = dev_run_step(c->run, launch, e)) == 0 && checked)
        r = original_take(c, launch, e);
    return r == 0 && kernel && !checked ? dev_set_checks(c->d, MODES, e) : r;
}

static int original_one(struct checker *c, uint32_t launch, const struct dev_cost *cost, struct dt_err *e)
{
    bool kernel = c->p->graph->launch[launch].kind == DT_KERNEL, look = kernel && !clean_before(c, launch);
    const uint32_t *from;
    uint32_t m = base(c, launch, &from), n = look ? share(c, launch, m, cost) : 0;
    c->fresh -= kernel && !rw_again(c->once, launch);
    c->blind |= kernel && !look && all_steady(c, launch);
    if (c->blind && !look)
        return 0;
    int r = c->blind ? give_zeros(c, launch, e) : 0;
    if (n < m && in_place_bytes(c, launch) > KEEP_MOST)
        n = 0;
    if (r == 0 && n && n < m)
        r = in_part(c, launch, from, m, n, e);
    c->blind |= kernel && n < m && all_steady(c, launch); /* what all its blocks leave, nobody looks at */
    if (r == 0 && (!c->blind || n == m))
        r = in_whole(c, launch, n && n == m, e);
    c->out->blocks += r == 0 ? n : 0;
    return r;
}

/* Fill the buffers before the first launch. What comes from outside is written even without a fill, so that it counts
 * as initialised. */
static int given(struct checker *c, struct dt_err *e)
{
    const struct dt_graph *g = c->p->graph;
    int r = dev_run_fill(c->run, 0, 0xFF, e);
    for (uint32_t b = 0; b < g->nbuffer && r == 0; b++) {
        bool outside = g->buffer[b].role == DT_INPUT || g->buffer[b].role == DT_INOUT || g->buffer[b].role == DT_WEIGHT;
        dev_ptr at;
        if (outside && g->buffer[b].fill.kind == DT_FILL_NONE && (r = dev_run_buffer(c->run, b, &at)) == 0)
            r = dev_set(c->d, at, 0xFF, g->buffer[b].bytes, e);
    }
    return r;
}

/* Get the cost of every launch by running them as usual. */
static int costs(struct checker *c, struct dev_cost *cost, struct dt_err *e)
{
    int r = dev_run_new(c->d, c->p, &c->run, e);
    if (r == 0 && (r = select_some(c, false, e)) == 0)
        r = dev_run_fill(c->run, 0, 0xFF, e);
    for (uint32_t l = 0; l < c->p->graph->nlaunch && r == 0; l++)
        if ((r = dev_run_step(c->run, l, e)) == 0)
            r = dev_run_cost(c->run, l, &cost[l], e);
    c->run = dev_run_free(c->run);
    return r;
}

/* Run the launches under the checks. *ret_late: without any checks they took too long. */
static int original_checked(struct checker *c, const struct dev_cost *cost, bool *ret_late, struct dt_err *e)
{
    struct dev_cost *own = cost ? NULL : dt_calloc(c->p->graph->nlaunch + 1, sizeof *own);
    c->some = dt_calloc(c->p->graph->nlaunch + 1, sizeof *c->some);
    c->found = dt_calloc(c->p->graph->nlaunch + 1, sizeof *c->found);
    int r = !c->some || !c->found || (!cost && !own) ? dt_err_set(e, DT_E_NOMEM, "out of memory")
            : cost                                   ? 0
                                                     : costs(c, own, e);
    *ret_late = r == DT_E_TIMEOUT;
    dev_set_schedule(c->d, 0, false);
    if (r == 0 && (r = dev_set_checks(c->d, MODES, e)) == 0 && (r = dev_run_new(c->d, c->p, &c->run, e)) == 0)
        r = given(c, e);
    for (uint32_t l = 0; l < c->p->graph->nlaunch; l++)
        c->fresh += c->p->graph->launch[l].kind == DT_KERNEL && !rw_again(c->once, l);
    for (uint32_t l = 0; l < c->p->graph->nlaunch && r == 0; l++)
        r = original_one(c, l, &(cost ? cost : own)[l], e);
    dev_run_free(c->run);
    dev_set_checks(c->d, NULL, NULL);
    free(c->some);
    free(c->found);
    free(own);
    return r;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static bool is(const json_t *w, const char *key, const char *text)
{
    const char *s = json_string_value(json_object_get(w, key));
    return s && !strcmp(s, text);
}

static bool original_has(const json_t *list, const char *launch, const char *code)
{
    size_t i;
    const json_t *v;
    json_array_foreach (list, i, v)
        if (is(v, "launch", launch) && is(v, "code", code))
            return true;
    return false;
}

/* Merge the two lists of warnings, launch by launch. */
static void original_merge(struct rw_original *o, const struct dt_graph *g, struct dt_warnings *seen,
                           struct dt_warnings *shown)
{
    size_t i;
    json_t *v;
    for (uint32_t l = 0; l < g->nlaunch; l++) {
        json_array_foreach (seen->list, i, v)
            if (is(v, "launch", g->launch[l].name))
                dt_warn(&o->warn, json_incref(v));
        json_array_foreach (shown->list, i, v)
            if (is(v, "launch", g->launch[l].name) &&
                !original_has(seen->list, g->launch[l].name, json_string_value(json_object_get(v, "code"))))
                dt_warn(&o->warn, json_incref(v));
    }
    o->warn.left_out += seen->left_out + shown->left_out;
    o->warn.failed |= seen->failed || shown->failed;
    json_decref(seen->list);
    json_decref(shown->list);
}

int rw_original_check(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a,
                      const struct rw_sample *sample, const struct dev_cost *cost, const struct rw_once *once,
                      bool conflict, struct rw_original *ret, struct dt_err *e)
{
    struct rw_original o = {.racy = dt_calloc(p->graph->nlaunch + 1, 1), .seen = dev_info(d)->soft};
    struct checker c = {.d = d,
                        .p = p,
                        .a = a,
                        .sample = sample,
                        .out = &o,
                        .left = CHECK_WORK,
                        .conflict = conflict,
                        .once = conflict ? NULL : once,
                        .seen.most = MERGE_MOST};
    struct dt_warnings shown = {.most = MERGE_MOST};
    struct dt_err mine = {0};
    if (!o.racy)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    bool late = false;
    for (uint32_t l = 0; l < p->graph->nlaunch; l++)
        o.of += p->graph->launch[l].kind == DT_KERNEL ? a->launch[l].nblock : 0;
    int r = o.seen ? original_checked(&c, cost, &late, &mine) : 0;
    if (r < 0 && !late) { /* a fault: the gate does not need the checks */
        dt_err_done(&mine);
        r = dev_reset(d, &mine);
    }
    bool fatal = r < 0;
    ana_warnings(a, &shown, o.racy);
    original_merge(&o, p->graph, &c.seen, &shown);
    for (uint32_t l = 0; l < p->graph->nlaunch; l++)
        o.races |= o.racy[l];
    if (fatal || o.warn.failed) {
        rw_original_done(&o);
        r = fatal ? rw_recover(d, r, &mine) : dt_err_set(&mine, DT_E_NOMEM, "out of memory");
        dt_err_move(e, &mine);
        return r;
    }
    dt_err_done(&mine);
    *ret = o;
    return 0;
}

void rw_original_done(struct rw_original *o)
{
    free(o->racy);
    json_decref(o->warn.list);
    memset(o, 0, sizeof *o);
}
