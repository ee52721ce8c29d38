/* Original and plan on the same inputs, byte by byte.
 *
 *   1. The original runs once under the race detector: if it races itself there is nothing to hold the plan to. The fast detector calls every
 *      conflict of two blocks a race; where it finds one, the one that knows flags and fences (docs/CHECKING.md) has the last word.
 *   2. For each seed: buffers filled, outputs and intermediates poisoned with the seed's own byte, original and plan run, every output and
 *      inout buffer compared. The last input is an edge case: zeros, infinities' neighbours, denormals and signs scattered over every
 *      floating-point input.
 *      An input with which the original faults (an index made of data) is not for these kernels, and is left out.
 *   3. The plan runs under `schedules` shuffled block orders with the race detector (software device), compared each time. What streams and programmatic
 *      edges do not order runs side by side then (dev_run_once). On a real GPU it runs as often with blocks that sleep at random before they begin (device/delay.c).
 *
 * The original's outputs are kept (rw_reference), so a planning runs it once an input. Both programs live on the device one after the other,
 * so the memory of one is enough. Outputs are found by name: a plan has the graph's
 * buffers. Of graphs that are too large for the software device a sample runs (sample.c), and the bytes that it makes are compared.
 */
#include "rewrite/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_output(const struct dt_buffer *b) { return b->role == DT_OUTPUT || b->role == DT_INOUT; }

static void edge_value(uint8_t *p, enum dt_dtype t, uint64_t which)
{
    static const uint32_t f32[] = {0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x3F800000,
                                   0xBF800000, 0x7149F2CA /* 1e30 */, 0x3F800001, 0xC2C80000 /* -100 */};
    static const uint16_t f16[] = {0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0x3C01, 0xD640};
    static const uint16_t bf16[] = {0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xBF80, 0x714A, 0x3F81, 0xC2C8};
    static const uint64_t f64[] = {0, UINT64_C(1) << 63, 1, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000,
                                   0xBFF0000000000000, 0x7E37E43C8800759C, 0x3FF0000000000001, 0xC059000000000000};
    which %= 10;
    switch (t) {
    case DT_F16:
        memcpy(p, &f16[which], 2);
        break;
    case DT_BF16:
        memcpy(p, &bf16[which], 2);
        break;
    case DT_F32:
        memcpy(p, &f32[which], 4);
        break;
    case DT_F64:
        memcpy(p, &f64[which], 8);
        break;
    default:
        break;
    }
}

/* Every 37th element or so of a floating-point input becomes an edge value. */
static int upload_edges(struct dev_run *r, const struct dt_graph *g, struct dt_err *e)
{
    for (uint32_t k = 0; k < g->nbuffer; k++) {
        const struct dt_buffer *b = &g->buffer[k];
        unsigned size = dt_dtype_bytes(b->fill.dtype);
        if ((b->role != DT_INPUT && b->role != DT_INOUT) || b->constant || b->fill.kind != DT_FILL_UNIFORM ||
            b->fill.dtype < DT_F16)
            continue;
        uint8_t *p = dt_malloc(b->bytes + 1);
        if (!p)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        dt_fill_bytes(b, 0, p);
        for (uint64_t i = 0; (i + 1) * size <= b->bytes; i++) {
            uint64_t z = dt_splitmix64(k + 1, i);
            if (z % 37 == 0)
                edge_value(p + i * size, b->fill.dtype, z >> 32);
        }
        int x = dev_run_upload(r, k, p, e);
        free(p);
        if (x < 0)
            return x;
    }
    return 0;
}

struct outputs {
    uint8_t **p; /* by buffer of its graph; NULL where no output */
    uint32_t n;
};

static void outputs_done(struct outputs *o)
{
    for (uint32_t k = 0; o->p && k < o->n; k++)
        free(o->p[k]);
    free(o->p);
    memset(o, 0, sizeof *o);
}

static int fill(struct dev_run *r, const struct dt_graph *g, unsigned input, bool edges, struct dt_err *e)
{
    static const int poison[] = {0xFF, 0xA5, 0x00, 0x5A};
    int x = dev_run_fill(r, (uint64_t)input * 7919, poison[input % 4], e);
    return x < 0 || !edges ? x : upload_edges(r, g, e);
}

static int fetch(struct dev_run *r, const struct dt_graph *g, struct outputs *o, struct dt_err *e)
{
    o->n = g->nbuffer;
    if (!(o->p = dt_calloc(o->n + 1, sizeof *o->p)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < g->nbuffer; k++) {
        if (!is_output(&g->buffer[k]))
            continue;
        if (!(o->p[k] = dt_malloc(g->buffer[k].bytes + 1)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        int x = dev_run_download(r, k, o->p[k], e);
        if (x < 0)
            return x;
    }
    return 0;
}

/* only: by buffer of the original, the bytes to compare; NULL: all. */
static int compare(const struct dt_graph *go, const struct outputs *o, const struct dt_graph *gp, const struct outputs *p,
                   const struct ana_set *only, const char *what, struct dt_err *e)
{
    for (uint32_t k = 0; k < go->nbuffer; k++) {
        if (!is_output(&go->buffer[k]))
            continue;
        uint32_t n = dt_graph_find_buffer(gp, go->buffer[k].name);
        if (n == DT_NAME_NONE || !p->p[n] || gp->buffer[n].bytes != go->buffer[k].bytes)
            return dt_err_set(e, DT_E_INTERNAL, "the plan has no buffer '%s' of its size", go->buffer[k].name);
        struct ana_interval all = {0, go->buffer[k].bytes};
        struct ana_set set = only ? only[k] : (struct ana_set){&all, 1};
        for (uint32_t j = 0; j < set.n; j++)
            for (uint64_t i = set.iv[j].lo; i < set.iv[j].hi; i++)
                if (o->p[k][i] != p->p[n][i])
                    return dt_err_set(e, DT_E_INTERNAL, "with %s, '%s' differs at byte %llu: %02x became %02x", what,
                                      go->buffer[k].name, (unsigned long long)i, o->p[k][i], p->p[n][i]);
    }
    return 0;
}

int rw_recover(struct dev_device *d, int r, struct dt_err *e)
{
    struct dt_err mine = {0};
    if (r != DT_E_BOUNDS && r != DT_E_TRAP && r != DT_E_DEADLOCK && r != DT_E_RACE && r != DT_E_UNINIT && r != DT_E_BARRIER && r != DT_E_TIMEOUT)
        return r;
    if (r == DT_E_TIMEOUT && strcmp(dev_info(d)->kind, "soft"))
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
    bool talks; /* blocks of a launch are in conflict, but in order: the fast detector will not do */
    uint64_t race_us, plain_us; /* how long the original took, under the race detector and without */
};

static bool with_edges(const struct rw_reference *ref, unsigned input) { return ref->inputs > 1 && input + 1 == ref->inputs; }

struct rw_reference *rw_reference_free(struct rw_reference *ref)
{
    for (unsigned k = 0; ref && ref->want && k < ref->inputs; k++)
        outputs_done(&ref->want[k]);
    if (ref)
        free(ref->want);
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

int rw_reference_new(struct dev_device *d, const struct dev_prog *original, unsigned inputs, const struct ana_result *a,
                     const struct rw_sample *sample, struct rw_reference **ret, struct rw_snaps **ret_snaps, struct dt_err *e)
{
    struct rw_reference *ref = dt_calloc(1, sizeof *ref);
    struct dev_run *run = NULL;
    bool soft = !strcmp(dev_info(d)->kind, "soft");
    int r;
    if (!ref || !(ref->want = dt_calloc(inputs ? inputs : 1, sizeof *ref->want))) {
        free(ref);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    ref->graph = original->graph;
    ref->inputs = inputs ? inputs : 1;
    ref->sample = sample;
    if ((r = dev_run_new(d, original, &run, e)) == 0 && sample)
        r = dev_run_select(run, sample->some, e);
    for (unsigned k = 0; k < ref->inputs && r == 0; k++) {
        uint64_t began = dt_now_us();
        if ((r = rw_watch(d, ref->talks, 0, soft && k == 0, e)) == 0 && (r = fill(run, ref->graph, k, with_edges(ref, k), e)) == 0)
            r = soft && !k && ret_snaps && !sample ? rw_snaps_new(run, a, ret_snaps, e) : dev_run_once(run, e);
        if (r == 0)
            r = fetch(run, ref->graph, &ref->want[k], e);
        *(k ? &ref->plain_us : &ref->race_us) = dt_now_us() - began;
        /* two blocks touch a byte; are they perhaps in order, by flags and fences? */
        bool talk = r == DT_E_RACE && !k && !ref->talks;
        if (!talk && (r == 0 || !k || (r != DT_E_BOUNDS && r != DT_E_TRAP && r != DT_E_DEADLOCK)))
            continue;
        /* else: the posted input is fine, this one is not for these kernels: an index made of data, say */
        int was = r;
        run = dev_run_free(run);
        if ((r = rw_recover(d, r, e)) != was)
            break;
        dt_err_done(e);
        outputs_done(&ref->want[k]);
        if (talk) {
            ref->talks = true;
            k--; /* once more */
        }
        if ((r = dev_run_new(d, original, &run, e)) == 0 && sample)
            r = dev_run_select(run, sample->some, e);
    }
    rw_watch(d, ref->talks, 0, false, NULL);
    dev_run_free(run);
    if (r < 0) {
        r = rw_recover(d, r, e);
        rw_reference_free(ref);
        return r;
    }
    *ret = ref;
    return 0;
}

unsigned rw_reference_inputs(const struct rw_reference *ref)
{
    unsigned n = 0;
    for (unsigned k = 0; k < ref->inputs; k++)
        n += ref->want[k].p != NULL;
    return n;
}

/* All launches, one after the other; what the ones that are not known yet cost. */
static int once_with_costs(struct dev_run *run, const struct dt_graph *g, struct dev_cost *cost, struct dt_err *e)
{
    int r = 0;
    for (uint32_t l = 0; l < g->nlaunch && r == 0; l++)
        if ((r = dev_run_step(run, l, e)) == 0 && !cost[l].known)
            r = dev_run_cost(run, l, &cost[l], e);
    return r;
}

/* The plan with delays in every entry, for a real GPU. `g` and `text` outlive it. */
static int delayed_new(struct dev_device *d, const struct dev_prog *plan, struct dt_graph *g, char ***ret_text, struct dev_prog **ret, struct dt_err *e)
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

int rw_verify_plan(struct dev_device *d, const struct rw_reference *ref, const struct dev_prog *plan, const struct ana_result *a, unsigned inputs,
                   unsigned schedules, struct dev_cost *cost, struct dt_err *e)
{
    struct rw_sample *sample = NULL;
    struct dev_run *run = NULL;
    struct outputs got = {0};
    struct dt_graph late = {0};
    struct dev_prog *slow = NULL;
    char what[64], **text = NULL;
    bool soft = !strcmp(dev_info(d)->kind, "soft"), talks = ref->talks || rw_talks(plan);
    if (inputs > ref->inputs)
        inputs = ref->inputs;
    int r = ref->sample ? rw_sample_of(ref->sample, ref->graph, a, &sample, e) : 0;
    if (r == 0)
        r = dev_run_new(d, plan, &run, e);
    if (r == 0 && sample)
        r = dev_run_select(run, sample->some, e);
    for (unsigned k = 0; k < inputs + schedules && r == 0; k++) {
        unsigned input = k < inputs ? k : 0;
        if (!ref->want[input].p)
            continue;
        if (k >= inputs && !soft && !slow) { /* from here on */
            run = dev_run_free(run);
            if ((r = delayed_new(d, plan, &late, &text, &slow, e)) < 0 || (r = dev_run_new(d, slow, &run, e)) < 0)
                break;
        }
        r = rw_watch(d, talks, k < inputs ? 0 : k - inputs + 1, soft && k >= inputs, e);
        if (k < inputs)
            snprintf(what, sizeof what, "input %u", k);
        else
            snprintf(what, sizeof what, soft ? "block order %u" : "run %u with delayed blocks", k - inputs + 1);
        if (r == 0 && (r = fill(run, plan->graph, input, with_edges(ref, input), e)) == 0)
            r = !k && cost ? once_with_costs(run, plan->graph, cost, e) : dev_run_once(run, e);
        if (r == 0 && (r = fetch(run, plan->graph, &got, e)) == 0)
            r = compare(ref->graph, &ref->want[input], plan->graph, &got, ref->sample ? ref->sample->want : NULL, what, e);
        outputs_done(&got);
    }
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
        r = rw_verify_plan(d, ref, plan, NULL, inputs ? inputs : 1, schedules, NULL, e);
    rw_reference_free(ref);
    return r;
}
