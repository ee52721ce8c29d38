/* Original and plan on the same inputs, compared byte by byte.
 *
 *   1. The original runs once under the fast race detector, which calls every conflict of two blocks a race (on all
 *      inputs, where a pass is short). If it finds one, the detector that knows flags and fences (docs/CHECKING.md)
 *      decides in original.c, and is also used for plans from then on.
 *   2. For each seed, buffers are filled, and outputs and intermediates poisoned with the seed's own byte; original
 *      and plan run, and every output and inout buffer is compared. The first input is as the document says. The last
 *      one has all sorts of special values in it, NaNs and infinities too; the one before it has only the sorts that do
 *      not spread (special.c). Values with which the original faults or hangs are left out. If it faults all the same,
 *      the whole input is left out. Of a large graph inputs but the first run only if asked for (rw_reference_rest):
 *      regions.c puts such values into each region of the plan instead.
 *   3. The plan runs under `schedules` shuffled block orders with the race detector (software device), and is compared
 *      each time. Of a large graph whose new launches have passed it alone, the first order is the first input's run,
 *      without it. Launches that streams and programmatic edges do not order run side by side then (dev_run_once); of
 *      a large graph those that repeat no neighbourhood (beside.c).
 *      On a real GPU the plan runs as often with blocks that sleep at random before they begin (device/delay.c).
 *
 * The original's outputs are kept (rw_reference), so a planning runs it at most once for each input. Both programs live
 * on the device one after the other, so the memory of one is enough. Outputs are found by name: a plan has the graph's
 * buffers. Of a graph that is too large for the software device a sample runs (sample.c), and the bytes that it makes
 * are compared.
 */
#include "rewrite/emit/flow.h"
#include "rewrite/gate/gate-priv.h"
#include "rewrite/gate/special.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "base/subject.h"

static bool is_output(const struct dt_buffer *b) { return b->role == DT_OUTPUT || b->role == DT_INOUT; }

bool rw_has_outputs(const struct dt_graph *g)
{
    bool any = false;
    for (uint32_t k = 0; k < g->nbuffer; k++)
        any |= is_output(&g->buffer[k]);
    return any;
}

struct outputs {
    uint8_t **p; /* by buffer of its graph; NULL: it is no output */
    uint32_t n;
};

static void outputs_done(struct outputs *o)
{
    for (uint32_t k = 0; o->p && k < o->n; k++)
        dt_large_put(o->p[k]);
    free(o->p);
    memset(o, 0, sizeof *o);
}

uint64_t rw_input_seed(unsigned input) { return (uint64_t)input * 7919; }

unsigned rw_input_sorts(unsigned inputs, unsigned input)
{
    return !input ? 0 : input + 1 == inputs ? RW_SPECIAL_ALL : input + 2 == inputs ? RW_SPECIAL_SMALL : 0;
}

static int verify_fill(struct dev_run *r, const struct rw_special *s, const struct dt_graph *g, unsigned inputs,
                       unsigned input, struct dt_err *e)
{
    static const int poison[] = {0xFF, 0xA5, 0x00, 0x5A};
    int x = dev_run_fill(r, rw_input_seed(input), poison[input % 4], e);
    return x < 0 || !s || !rw_input_sorts(inputs, input)
               ? x
               : rw_special_upload(s, r, g, rw_input_seed(input), rw_input_sorts(inputs, input), e);
}

static int verify_fetch(struct dev_run *r, const struct dt_graph *g, struct outputs *o, struct dt_err *e)
{
    o->n = g->nbuffer;
    if (!(o->p = dt_calloc(o->n + 1, sizeof *o->p)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < g->nbuffer; k++) {
        if (!is_output(&g->buffer[k]))
            continue;
        if (!(o->p[k] = dt_large_get(g->buffer[k].bytes + 1)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        int x = dev_run_download(r, k, o->p[k], e);
        if (x < 0)
            return x;
    }
    return 0;
}

/* Compare the outputs of the two. only: by buffer of the original, the bytes to compare; NULL: all. */
static int verify_compare(const struct dt_graph *go, const struct outputs *o, const struct dt_graph *gp,
                          const struct outputs *p, const struct ana_set *only, const char *what, struct dt_err *e)
{
    for (uint32_t k = 0; k < go->nbuffer; k++) {
        if (!is_output(&go->buffer[k]))
            continue;
        uint32_t n = dt_graph_find_buffer(gp, go->buffer[k].name);
        if (n == DT_NAME_NONE || !p->p[n] || gp->buffer[n].bytes != go->buffer[k].bytes)
            return dt_err_set(e, DT_E_INTERNAL, "the plan has no buffer " DT_BUFFER " of its size", go->buffer[k].name);
        struct ana_interval all = {0, go->buffer[k].bytes};
        struct ana_set set = only ? only[k] : (struct ana_set){&all, 1};
        for (uint32_t j = 0; j < set.n; j++)
            for (uint64_t i = set.iv[j].lo; i < set.iv[j].hi; i++)
                if (o->p[k][i] != p->p[n][i])
                    return dt_err_set(e, DT_E_INTERNAL, "with %s, " DT_BUFFER " differs at byte %llu: %02x became %02x",
                                      what, go->buffer[k].name, (unsigned long long)i, o->p[k][i], p->p[n][i]);
    }
    return 0;
}

int rw_recover(struct dev_device *d, int r, struct dt_err *e)
{
    struct dt_err mine = {0};
    if (r != DT_E_BOUNDS && r != DT_E_TRAP && r != DT_E_DEADLOCK && r != DT_E_RACE && r != DT_E_UNINIT &&
        r != DT_E_BARRIER && r != DT_E_TIMEOUT)
        return r;
    if (r == DT_E_TIMEOUT && !dev_info(d)->soft)
        return DT_E_DEVICE; /* the kernel still runs; only the end of the process stops it */
    int x = dev_reset(d, &mine);
    if (x < 0) {
        dt_err_done(e);
        dt_err_move(e, &mine);
        r = DT_E_DEVICE;
    }
    dt_err_done(&mine);
    return r;
}

struct rw_reference {
    const struct dt_graph *graph; /* borrowed, of the original */
    unsigned inputs;
    struct outputs *want;
    const struct rw_sample *sample; /* of the original, borrowed; NULL: it ran whole */
    struct rw_special *special;     /* NULL: there is one input only */
    bool talks;                     /* blocks of a launch are in conflict: the fast detector cannot be used */
    bool races;                     /* nothing orders them, or threads of a block: no detector can be used */
    bool large;                     /* a pass is long: the race detector sees region by region, not the whole */
    uint64_t work;                  /* thread-instructions of a pass */
    bool later;                     /* only the first input has run: rw_reference_rest runs the others */
    struct dev_device *dev;         /* these three are for that; borrowed */
    const struct dev_prog *original;
    const struct ana_result *ana;
    uint64_t limit;
    /* by buffer, NULL: all is compared; empty where what is in it in the end hangs on a race, all bytes elsewhere */
    struct ana_set *only;
    struct ana_interval *whole; /* what those point to */
    struct dev_cost *cost;      /* by launch, of the first input; NULL: not known, or snaps have it */
    uint64_t race_us, plain_us; /* how long the original took, under the race detector and without */
};

struct rw_reference *rw_reference_free(struct rw_reference *ref)
{
    for (unsigned k = 0; ref && ref->want && k < ref->inputs; k++)
        outputs_done(&ref->want[k]);
    if (ref) {
        rw_special_free(ref->special);
        free(ref->only);
        free(ref->whole);
        free(ref->cost);
        free(ref->want);
    }
    free(ref);
    return NULL;
}

uint64_t rw_reference_us(const struct rw_reference *ref, unsigned inputs, unsigned schedules)
{
    return ref->race_us * schedules + (ref->plain_us ? ref->plain_us : ref->race_us) * inputs;
}

int rw_watch(struct dev_device *d, bool talks, uint64_t seed, bool races, struct dt_err *e)
{
    dev_set_schedule(d, seed, races && !talks);
    return talks ? dev_set_checks(d, races ? "race" : NULL, e) : 0;
}

bool rw_talks(const struct dev_prog *p)
{
    struct dt_arena a = {0};
    struct rw_flow f;
    bool talks = false;
    for (uint32_t k = 0; k < p->graph->nlaunch && !talks; k++)
        talks = p->step[k].entry && rw_flow_read(&a, p->step[k].entry, &f) == 0;
    dt_arena_done(&a);
    return talks;
}

/* Run all launches, one after the other, and get the costs that are not known yet. */
static int once_with_costs(struct dev_run *run, const struct dt_graph *g, const struct rw_once *once,
                           struct dev_cost *cost, struct dt_err *e)
{
    int r = 0;
    for (uint32_t l = 0; l < g->nlaunch && r == 0; l++)
        r = rw_once_step(once, run, l, cost, e);
    return r;
}

/* The runs of the original. */
struct runs {
    struct rw_reference *ref;
    struct dev_device *dev;
    const struct dev_prog *original;
    struct dev_run *run; /* NULL: a fault ended it */
    bool soft;
    /* gets what original.c finds; NULL: it is not asked, and a race is an error */
    struct rw_original *checked;
    const struct rw_placed *placed; /* the graph that the snaps are of; NULL: the original */
    const struct dev_cost *cost;    /* by launch, NULL: not known */
    struct dev_cost *mine;          /* from the first input, where no snaps of the original have them */
    struct rw_once once;            /* of the original, for the first input */
    const struct ana_result *ana;
    bool flood, whole; /* the run was ended, as NaNs flood it; the next one is not to be */
    unsigned input;
    uint64_t limit; /* thread-instructions of a launch: more is a launch that hangs */
};

static int ready(struct runs *x, struct dt_err *e)
{
    int r = x->run ? 0 : dev_run_new(x->dev, x->original, &x->run, e);
    return r == 0 && x->ref->sample ? dev_run_select(x->run, x->ref->sample->some, e) : r;
}

/* Run the posted input under the race detector (only the fast one if original.c is asked as well), and get the most
 * that the launches need. */
static int first_input(struct runs *x, const struct ana_result *a, struct rw_snaps **ret_snaps, struct dt_err *e)
{
    struct rw_reference *ref = x->ref;
    const struct dt_graph *g = ref->graph;
    const struct dev_cost *cost = NULL;
    uint64_t most = 0, all = 0, began = dt_now_us();
    bool fast = x->soft && !ref->talks; /* the fast detector */
    free(x->mine);
    x->mine = dt_calloc(g->nlaunch + 1, sizeof *x->mine);
    int r = x->mine ? ready(x, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && x->soft && !x->once.like)
        r = rw_once_new(x->dev, x->original, &x->once, e);
    x->once.races = fast;
    x->once.ana = a;
    if (r < 0 || (r = rw_watch(x->dev, ref->talks, 0, x->soft && !(ref->talks && x->checked), e)) < 0 ||
        (r = verify_fill(x->run, NULL, g, ref->inputs, 0, e)) < 0)
        return r;
    if (x->soft && ret_snaps && !ref->sample) {
        if ((r = rw_snaps_new(x->run, a, x->placed, ref->talks ? NULL : &x->once, ret_snaps, e)) == 0)
            x->cost = cost = rw_snaps_cost(*ret_snaps);
        if (r == 0 && x->placed) { /* some of theirs will be of other kernels */
            memcpy(x->mine, cost, g->nlaunch * sizeof *cost);
            x->cost = cost = x->mine;
        }
    } else if (x->soft) {
        r = once_with_costs(x->run, g, ref->talks ? NULL : &x->once, x->mine, e);
        cost = x->mine;
        if (r == 0 && !ref->sample)
            x->cost = cost;
    } else {
        r = dev_run_once(x->run, e);
    }
    ref->race_us = dt_now_us() - began;
    for (uint32_t l = 0; r == 0 && cost && l < g->nlaunch; l++) {
        most = cost[l].instructions > most ? cost[l].instructions : most;
        all += cost[l].instructions;
    }
    x->limit = x->soft ? 4 * most + RW_HANG : 0;
    ref->large = 8 * all > RW_ORDERS_WORK;
    ref->work = all;
    if (r == 0 && ref->special)
        rw_special_work(ref->special, all);
    return r < 0 ? r : verify_fetch(x->run, g, &ref->want[0], e);
}

/* Is an output flooded with NaNs or infinities that is not flooded on the posted input? */
static bool flooded(const struct rw_reference *ref, const struct outputs *o)
{
    for (uint32_t k = 0; !ref->sample && k < ref->graph->nbuffer; k++)
        if (o->p[k] && rw_special_flooded(ref->special, k, o->p[k]) &&
            !rw_special_flooded(ref->special, k, ref->want[0].p[k]))
            return true;
    return false;
}

static int other_input(void *user, bool *ret_flooded, struct dt_err *e)
{
    struct runs *x = user;
    struct rw_reference *ref = x->ref;
    int r = ready(x, e);
    outputs_done(&ref->want[x->input]);
    uint64_t began = dt_now_us();
    if (r == 0 && (r = rw_watch(x->dev, ref->talks, 0, x->soft && !ref->races && !ref->large, e)) == 0 &&
        (r = verify_fill(x->run, ref->special, ref->graph, ref->inputs, x->input, e)) == 0) {
        dev_set_limit(x->dev, x->limit);
        dev_set_follow(x->dev, false);
        bool last = !ref->large || ref->sample || !x->ana || !ref->special->tries || x->whole;
        r = last ? dev_run_once(x->run, e) : rw_flood_run(x->dev, x->run, x->ana, &x->flood, e);
        dev_set_follow(x->dev, true);
        dev_set_limit(x->dev, 0);
        if (r == 0 && !last && x->flood) {
            *ret_flooded = true;
            return 0;
        }
    }
    if (r == 0 && (r = verify_fetch(x->run, ref->graph, &ref->want[x->input], e)) == 0)
        *ret_flooded = flooded(ref, &ref->want[x->input]);
    ref->plain_us = dt_now_us() - began;
    if (r == 0)
        return 0;
    outputs_done(&ref->want[x->input]);
    x->run = dev_run_free(x->run);
    return rw_recover(x->dev, r, e);
}

/* Run the inputs with special values. */
static int other_inputs(struct runs *x, struct dt_err *e)
{
    struct rw_reference *ref = x->ref;
    int r = 0;
    for (x->input = 1; x->input < ref->inputs && r == 0; x->input++) {
        unsigned s = rw_input_sorts(ref->inputs, x->input);
        x->flood = x->whole = false;
        r = rw_special_search(ref->special, s, other_input, x, e);
        if (r == 0 && !ref->want[x->input].p) { /* the last run was not to the end */
            x->whole = true;
            r = other_input(x, &(bool){false}, e);
        }
        /* the posted input works and this one does not suit the kernels: an index made from data, for example */
        if (r == DT_E_BOUNDS) {
            dt_err_done(e);
            r = 0;
        }
    }
    return r;
}

/* Run the posted input, once more if blocks talk to each other; then run the others. */
static int all_inputs(struct runs *x, const struct ana_result *a, struct rw_snaps **ret_snaps, struct dt_err *e)
{
    struct rw_reference *ref = x->ref;
    x->ana = a;
    int r = first_input(x, a, ret_snaps, e);
    if (r == DT_E_RACE && !ref->talks) { /* two blocks touch a byte; flags and fences may order them */
        x->run = dev_run_free(x->run);
        if ((r = rw_recover(x->dev, r, e)) != DT_E_RACE)
            return r;
        dt_err_done(e);
        outputs_done(&ref->want[0]);
        ref->talks = true;
        r = first_input(x, a, ret_snaps, e);
    }
    if (r == 0 && x->checked) {
        x->run = dev_run_free(x->run);
        rw_watch(x->dev, ref->talks, 0, false, NULL);
        if ((r = rw_original_check(x->dev, x->original, a, ref->sample, x->cost, ref->large ? &x->once : NULL,
                                   ref->talks, x->checked, e)) == 0)
            ref->races = x->checked->races;
    }
    ref->later = r == 0 && x->checked && x->soft && ref->large && !ref->sample;
    return r < 0 || ref->later ? r : other_inputs(x, e);
}

/* Whatever a launch writes that races, or that reads what hangs on a race, is another thing in every run: it is not
 * compared. Buffer by buffer; no launch that races is ever changed. */
static int leave_races_out(struct rw_reference *ref, const struct ana_result *a, const bool *racy, struct dt_err *e)
{
    const struct dt_graph *g = ref->graph;
    dt_free_ bool *loose = dt_calloc((size_t)g->nbuffer + 1, sizeof *loose);
    ref->only = dt_calloc((size_t)g->nbuffer + 1, sizeof *ref->only);
    ref->whole = dt_calloc((size_t)g->nbuffer + 1, sizeof *ref->whole);
    if (!loose || !ref->only || !ref->whole)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t l = 0; l < g->nlaunch; l++) {
        const struct ana_launch *x = &a->launch[l];
        bool hangs = racy[l];
        for (uint32_t k = 0; k < x->naccess; k++)
            hangs |= x->access[k].reads && loose[x->access[k].buffer];
        for (uint32_t k = 0; k < x->naccess; k++)
            loose[x->access[k].buffer] |= hangs && x->access[k].writes;
    }
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        ref->whole[b] = (struct ana_interval){0, g->buffer[b].bytes};
        ref->only[b] = ref->sample ? ref->sample->want[b] : (struct ana_set){&ref->whole[b], g->buffer[b].bytes != 0};
        ref->only[b].n = loose[b] ? 0 : ref->only[b].n;
    }
    return 0;
}

/* By buffer, the bytes that are compared; NULL: all. */
static const struct ana_set *compared(const struct rw_reference *ref)
{
    return ref->only ? ref->only : ref->sample ? ref->sample->want : NULL;
}

int rw_reference_new(struct dev_device *d, const struct dev_prog *original, unsigned inputs, const struct ana_result *a,
                     const struct rw_sample *sample, struct rw_reference **ret, struct rw_snaps **ret_snaps,
                     struct dt_err *e)
{
    return rw_reference_checked(d, original, inputs, a, sample, NULL, NULL, NULL, ret, ret_snaps, e);
}

int rw_reference_checked(struct dev_device *d, const struct dev_prog *original, unsigned inputs,
                         const struct ana_result *a, const struct rw_sample *sample, const struct dev_cost *cost,
                         struct rw_original *checked, const struct rw_placed *placed, struct rw_reference **ret,
                         struct rw_snaps **ret_snaps, struct dt_err *e)
{
    struct rw_reference *ref = dt_calloc(1, sizeof *ref);
    struct runs x = {.ref = ref,
                     .dev = d,
                     .original = original,
                     .checked = checked,
                     .placed = placed,
                     .cost = cost,
                     .soft = dev_info(d)->soft};
    if (!ref || !(ref->want = dt_calloc(inputs ? inputs : 1, sizeof *ref->want))) {
        free(ref);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    ref->graph = original->graph;
    ref->inputs = inputs ? inputs : 1;
    ref->sample = sample;
    ref->dev = d;
    ref->original = original;
    ref->ana = a;
    int r = ref->inputs > 1 ? rw_special_new(original, x.soft, false, &ref->special, e) : 0;
    if (r == 0)
        r = all_inputs(&x, a, ret_snaps, e);
    if (r == 0 && checked && checked->races && a)
        r = leave_races_out(ref, a, checked->racy, e);
    ref->limit = x.limit;
    rw_watch(d, ref->talks, 0, false, NULL);
    dev_run_free(x.run);
    if (x.cost == x.mine)
        ref->cost = x.mine;
    else
        free(x.mine);
    rw_once_done(&x.once);
    if (r < 0) {
        r = rw_recover(d, r, e);
        rw_reference_free(ref);
        return r;
    }
    *ret = ref;
    return 0;
}

bool rw_reference_later(const struct rw_reference *ref) { return ref->later; }

int rw_reference_rest(struct rw_reference *ref, struct dt_err *e)
{
    struct runs x = {
        .ref = ref, .dev = ref->dev, .original = ref->original, .soft = true, .ana = ref->ana, .limit = ref->limit};
    if (!ref->later)
        return 0;
    ref->later = false;
    int r = other_inputs(&x, e);
    rw_watch(x.dev, ref->talks, 0, false, NULL);
    dev_run_free(x.run);
    return r < 0 ? rw_recover(x.dev, r, e) : 0;
}

int rw_reference_snaps(struct dev_device *d, const struct rw_reference *ref, const struct dev_prog *p,
                       const struct ana_result *a, struct rw_snaps **ret, struct dt_err *e)
{
    struct dev_run *run = NULL;
    struct outputs got = {0};
    struct rw_once once = {0};
    int r = rw_watch(d, ref->talks, 0, false, e);
    if (r == 0)
        r = rw_once_new(d, p, &once, e);
    if (r == 0)
        r = dev_run_new(d, p, &run, e);
    if (r == 0)
        r = verify_fill(run, ref->special, p->graph, ref->inputs, 0, e);
    if (r == 0)
        r = rw_snaps_new(run, a, NULL, &once, ret, e);
    if (r == 0)
        r = verify_fetch(run, p->graph, &got, e);
    if (r == 0)
        r = verify_compare(ref->graph, &ref->want[0], p->graph, &got, compared(ref),
                           "its kernels or pointers in normal form", e);
    outputs_done(&got);
    rw_once_done(&once);
    dev_run_free(run);
    return r < 0 ? rw_recover(d, r, e) : 0;
}

const struct dev_cost *rw_reference_cost(const struct rw_reference *ref) { return ref->cost; }

const struct rw_special *rw_reference_special(const struct rw_reference *ref) { return ref->special; }

unsigned rw_reference_inputs(const struct rw_reference *ref)
{
    unsigned n = 0;
    for (unsigned k = 0; k < ref->inputs; k++)
        n += ref->want[k].p != NULL;
    return n;
}

/* The plan with delays in every entry, for a real GPU. `g` and `text` must outlive it. */
static int delayed_new(struct dev_device *d, const struct dev_prog *plan, struct dt_graph *g, char ***ret_text,
                       struct dev_prog **ret, struct dt_err *e)
{
    *g = *plan->graph;
    g->module = dt_calloc(g->nmodule + 1, sizeof *g->module);
    char **text = *ret_text = dt_calloc(g->nmodule + 1, sizeof *text);
    if (!g->module || !text)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < g->nmodule; i++) {
        if (!(text[i] = dev_delayed_ptx(plan->module[i].ptx)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        g->module[i] = plan->graph->module[i];
        g->module[i].source = text[i];
        g->module[i].len = strlen(text[i]);
        g->module[i].is_ptx = true;
        g->module[i].cubin = NULL; /* it was made from the text without delays */
        g->module[i].cubin_len = 0;
    }
    return dev_prog_derive(d, g, plan, NULL, NULL, ret, e);
}

static void delayed_done(struct dt_graph *g, char **text, struct dev_prog *p)
{
    dev_prog_free(p);
    for (uint32_t i = 0; text && i < g->nmodule; i++)
        free(text[i]);
    free(text);
    free(g->module);
}

/* Nobody asks what it costs. */
static int uncounted(struct dev_device *d, struct dev_run *run, struct dt_err *e)
{
    dev_set_follow(d, false);
    int r = dev_run_once(run, e);
    dev_set_follow(d, true);
    return r;
}

int rw_verify_plan(struct dev_device *d, const struct rw_reference *ref, const struct dev_prog *plan,
                   const struct ana_result *a, unsigned inputs, unsigned schedules, bool seen, struct dev_cost *cost,
                   struct dt_err *e)
{
    struct rw_sample *sample = NULL;
    struct dev_run *run = NULL;
    struct outputs got = {0};
    struct dt_graph late = {0};
    struct dev_prog *slow = NULL;
    char what[64], **text = NULL;
    bool soft = dev_info(d)->soft, talks = ref->talks || rw_talks(plan);
    if (inputs > ref->inputs)
        inputs = ref->inputs;
    seen = seen && soft && ref->large && schedules;
    int r = ref->sample ? rw_sample_writes(ref->sample, ref->graph, a, e) : 0;
    if (r == 0 && ref->sample)
        r = rw_sample_of(ref->sample, ref->graph, a, &sample, e);
    if (r == 0)
        r = dev_run_new(d, plan, &run, e);
    if (r == 0 && sample)
        r = dev_run_select(run, sample->some, e);
    for (unsigned k = 0; k < inputs + schedules && r == 0; k++) {
        unsigned input = k < inputs ? k : 0;
        if (!ref->want[input].p || (!k && seen && !cost)) /* the first block order has this input, too */
            continue;
        if (k >= inputs && !soft && !slow) { /* from here on */
            run = dev_run_free(run);
            if ((r = delayed_new(d, plan, &late, &text, &slow, e)) < 0 || (r = dev_run_new(d, slow, &run, e)) < 0)
                break;
        }
        r = rw_watch(d, talks, k < inputs ? 0 : k - inputs + 1, soft && k >= inputs && !ref->races && !seen, e);
        dev_set_limit(d, talks && ref->work ? 4 * ref->work + RW_HANG : 0); /* of one launch that may be all */
        if (k < inputs)
            snprintf(what, sizeof what, "input %u", k);
        else
            snprintf(what, sizeof what, soft ? "block order %u" : "run %u with delayed blocks", k - inputs + 1);
        if (r == 0 && (r = verify_fill(run, ref->special, plan->graph, ref->inputs, input, e)) == 0)
            r = !k && cost                      ? once_with_costs(run, plan->graph, NULL, cost, e)
                : k >= inputs && seen && !talks ? rw_beside_run(d, run, plan, k - inputs + 1, e)
                                                : uncounted(d, run, e);
        if (r == 0 && (r = verify_fetch(run, plan->graph, &got, e)) == 0)
            r = verify_compare(ref->graph, &ref->want[input], plan->graph, &got, compared(ref), what, e);
        outputs_done(&got);
    }
    dev_set_limit(d, 0);
    rw_watch(d, talks, 0, false, NULL);
    dev_run_free(run);
    delayed_done(&late, text, slow);
    rw_sample_free(sample);
    return r < 0 ? rw_recover(d, r, e) : 0;
}

int rw_verify(struct dev_device *d, const struct dev_prog *original, const struct dev_prog *plan, unsigned inputs,
              unsigned schedules, struct dt_err *e)
{
    struct rw_reference *ref = NULL;
    int r = rw_reference_new(d, original, inputs, NULL, NULL, &ref, NULL, e);
    if (r == 0)
        r = rw_verify_plan(d, ref, plan, NULL, inputs ? inputs : 1, schedules, false, NULL, e);
    rw_reference_free(ref);
    return r;
}
