/* Plans many graphs in one process: what plans.py and mutants.py drive. Linked with a build of rewrite/ that has
 * switches (RW_TEST_HOOKS).
 *
 * A line of stdin is a JSON object, a line of stdout its answer, in order:
 *
 *   {"graph": {…}, "allow": […], "deny": […], "off": "order,async", "force": true, "inputs": 3, "schedules": 8,
 *   "seeds": [11, 12]}
 *   {"plan": {…, modules left out, unless "modules": true}, "equal": "" | "y differs at byte 12 with seed 11",
 *   "compile_ms": 1, "analyze_ms": 2, "plan_ms": 3, "run_ms": 4}
 *   {"error": "code: words"}
 *
 *   {"list": true}  ->  {"kinds": [["block-fusion", "register"], …, ["split", ""]], "off": ["dataflow-fusion"]}: the
 *                       registry, with the levels of each, and which kinds are off unless they are allowed
 *
 * "off" switches predicates of legal.def off, "force" keeps what is legal whether it is faster or not, "levels":
 * "shared,global" leaves the other levels of block fusion out, "cluster" says of how many blocks clusters are,
 * "propose": "kind: a b" has a candidate looked at that nobody proposes, "spoil" makes wrong what a rewrite has just
 * made (rw_hooks). "equal" is found here and not by rewrite/gate/verify.c: graph and plan run on the same fills with
 * poisoned buffers, every output is compared byte by byte. "refill": {"f": {fill}, …} gives buffers other fills for
 * that, which the planner never saw: what data decides may then go the other way. An input with which the graph itself
 * faults is passed over ("skipped": how often); with "schedules" they are held to each other in other orders of blocks,
 * too, by rw_verify. A graph that is not even equal to itself so is an error, "unfit".
 *
 * CUDA texts are compiled once, and modules with the text of the graph before are not assembled again. One device for
 * all; after a fault it is reset. Device: argv[1], else "soft".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate.h"

enum { TEXTS = 16, WORDS = 16, POISON = 0x5C /* what nobody writes is the same in both */ };

static struct dev_device *device;
static struct {
    char *cuda, *ptx;
} text[TEXTS];
static unsigned ntext;

/* Every module in CUDA becomes one in PTX. */
static int compile(json_t *modules, struct dt_err *e)
{
    const char *name;
    json_t *m;
    json_object_foreach (modules, name, m) {
        const char *cuda = json_string_value(json_object_get(m, "cuda"));
        unsigned k = 0;
        if (!cuda)
            continue;
        while (k < ntext && strcmp(text[k].cuda, cuda))
            k++;
        if (k == ntext) {
            char *ptx = NULL;
            size_t len = 0;
            int r = dev_compile_cuda(cuda, strlen(cuda), NULL, 0, dev_info(device)->arch, 60000, &ptx, &len, e);
            if (r < 0)
                return r;
            if (ntext == TEXTS) {
                free(text[--ntext].cuda);
                free(text[ntext].ptx);
                k = ntext;
            }
            text[ntext].cuda = strdup(cuda);
            text[ntext++].ptx = ptx;
        }
        json_object_del(m, "cuda");
        json_object_set_new(m, "ptx", json_string(text[k].ptx));
    }
    return 0;
}

static unsigned words(const json_t *list, const char **ret)
{
    unsigned n = 0;
    const json_t *v;
    size_t i;
    json_array_foreach (list, i, v) {
        if (n < WORDS && json_is_string(v))
            ret[n++] = json_string_value(v);
    }
    return n;
}

/* Run the program on the seed's inputs; ret[b] is what output b holds. */
static int outputs(const struct dev_prog *p, uint64_t seed, int poison, uint8_t **ret, struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    struct dev_run *run = NULL;
    int r = dev_run_new(device, p, &run, e);
    if (r == 0)
        r = dev_run_fill(run, seed, poison, e);
    if (r == 0)
        r = dev_run_once(run, e);
    for (uint32_t b = 0; b < g->nbuffer && r == 0; b++)
        if (g->buffer[b].role == DT_OUTPUT || g->buffer[b].role == DT_INOUT) {
            ret[b] = dt_calloc(1, g->buffer[b].bytes + 1);
            r = ret[b] ? dev_run_download(run, b, ret[b], e) : DT_E_NOMEM;
        }
    dev_run_free(run);
    return r;
}

/* Same bytes? The answer is in `say`, empty when they are. */
static int compare(const struct dev_prog *graph, const struct dev_prog *plan, uint64_t seed, struct dt_str *say,
                   struct dt_err *e)
{
    uint8_t **a = dt_calloc(graph->graph->nbuffer + 1, sizeof *a), **b = dt_calloc(plan->graph->nbuffer + 1, sizeof *b);
    int r = outputs(graph, seed, POISON, a, e);
    if (r == 0)
        r = outputs(plan, seed, POISON, b, e);
    for (uint32_t k = 0; k < graph->graph->nbuffer && r == 0 && !say->len; k++) {
        const struct dt_buffer *x = &graph->graph->buffer[k];
        uint32_t n = a[k] ? dt_graph_find_buffer(plan->graph, x->name) : 0;
        if (!a[k])
            continue;
        if (n == DT_NAME_NONE || !b[n] || plan->graph->buffer[n].bytes != x->bytes) {
            dt_str_addf(say, "the plan has no output '%s'", x->name);
            break;
        }
        for (uint64_t i = 0; i < x->bytes && !say->len; i++)
            if (a[k][i] != b[n][i])
                dt_str_addf(say, "'%s' differs at byte %llu with seed %llu", x->name, (unsigned long long)i,
                            (unsigned long long)seed);
    }
    for (uint32_t k = 0; k < graph->graph->nbuffer; k++)
        free(a[k]);
    for (uint32_t k = 0; k < plan->graph->nbuffer; k++)
        free(b[k]);
    free(a);
    free(b);
    return r;
}

/* The program with other fills. */
static int refilled(const struct dev_prog *p, const json_t *doc, const json_t *fills, struct dt_graph **ret_g,
                    struct dev_prog **ret, struct dt_err *e)
{
    json_t *mine = json_deep_copy(doc), *buffers = json_object_get(mine, "buffers"), *f;
    const char *name;
    json_object_foreach ((json_t *)fills, name, f) {
        if (json_object_get(buffers, name))
            json_object_set(json_object_get(buffers, name), "fill", f);
    }
    int r = dt_graph_from_json(mine, ret_g, e);
    if (r == 0)
        r = dev_prog_derive(device, *ret_g, p, NULL, NULL, ret, e);
    json_decref(mine);
    return r;
}

/* Graph and plan on what the planner never saw. */
static int on_others(const struct dev_prog *p, const json_t *doc, const struct dev_prog *pp, const json_t *plan,
                     const json_t *line, json_t *out, struct dt_str *say, struct dt_err *e)
{
    const json_t *fills = json_object_get(line, "refill");
    struct dt_graph *g = NULL, *gp = NULL;
    struct dev_prog *a = NULL, *b = NULL;
    int r = refilled(p, doc, fills, &g, &a, e);
    if (r == 0)
        r = refilled(pp, plan, fills, &gp, &b, e);
    if (r == 0 && (r = rw_verify(device, a, a, 2, 2, e)) < 0) { /* the graph itself does not do with it */
        json_object_set_new(out, "skipped", json_string(e->detail ? e->detail : ""));
        dt_err_done(e);
        r = 0;
    } else if (r == 0 && (r = rw_verify(device, a, b, 3,
                                        (unsigned)json_integer_value(json_object_get(line, "schedules")), e)) < 0) {
        dt_str_addf(say, "on other content: %s", e->detail ? e->detail : "?");
        dt_err_done(e);
        r = 0;
    }
    dev_prog_free(a);
    dev_prog_free(b);
    dt_graph_free(g);
    dt_graph_free(gp);
    return r;
}

static json_int_t ms(uint64_t *since)
{
    uint64_t now = dt_now_us(), d = now - *since;
    *since = now;
    return (json_int_t)(d / 1000);
}

/* The program and the graph of the line before, which lend their modules. */
static struct dev_prog *last_prog;
static struct dt_graph *last_graph;

static int answer(json_t *line, json_t *out, struct dt_err *e)
{
    json_t *doc = json_object_get(line, "graph"), *plan = NULL, *v;
    struct dt_graph *g = NULL, *gp = NULL;
    struct dev_prog *p = NULL, *pp = NULL;
    struct ana_result *a = NULL;
    struct dt_str say = {0};
    const char *allow[WORDS], *deny[WORDS];
    struct rw_options o = {.inputs = (unsigned)json_integer_value(json_object_get(line, "inputs")),
                           .schedules = (unsigned)json_integer_value(json_object_get(line, "schedules"))};
    uint64_t t = dt_now_us();
    size_t i;
    o.nallow = words(json_object_get(line, "allow"), allow);
    o.allow = o.nallow ? allow : NULL;
    o.ndeny = words(json_object_get(line, "deny"), deny);
    o.deny = deny;
    rw_hooks.off = json_string_value(json_object_get(line, "off"));
    rw_hooks.levels = json_string_value(json_object_get(line, "levels"));
    rw_hooks.cluster = (uint32_t)json_integer_value(json_object_get(line, "cluster"));
    rw_hooks.far_tables = json_is_true(json_object_get(line, "far_tables"));
    rw_hooks.force = json_is_true(json_object_get(line, "force"));
    rw_hooks.propose = json_string_value(json_object_get(line, "propose"));
    rw_hooks.spoil = json_string_value(json_object_get(line, "spoil"));
    int r = compile(json_object_get(doc, "modules"), e);
    if (r == 0)
        r = dt_graph_from_json(doc, &g, e);
    if (r == 0)
        r = dev_prog_derive(device, g, last_prog, NULL, NULL, &p, e);
    json_object_set_new(out, "compile_ms", json_integer(ms(&t)));
    if (r == 0 && json_object_get(line, "refill") && (r = rw_verify(device, p, p, 1, 2, e)) < 0)
        /* what the graph leaves is the order of its blocks, or a fault */
        json_object_set_new(out, "unfit", json_true());
    if (r == 0)
        r = ana_run(device, p, NULL, &a, e);
    json_object_set_new(out, "analyze_ms", json_integer(ms(&t)));
    if (r == 0)
        r = rw_plan(device, p, a, &o, "sha256:none", &plan, e);
    json_object_set_new(out, "plan_ms", json_integer(ms(&t)));
    if (r == 0)
        r = dt_graph_from_json(plan, &gp, e);
    if (r == 0)
        r = dev_prog_derive(device, gp, p, NULL, NULL, &pp, e);
    json_array_foreach (json_object_get(line, "seeds"), i, v) {
        if (r == 0)
            r = compare(p, pp, (uint64_t)json_integer_value(v), &say, e);
    }
    if (r == 0 && !say.len && json_object_get(line, "refill"))
        r = on_others(p, doc, pp, plan, line, out, &say, e);
    if (r == 0) {
        if (!json_is_true(json_object_get(line, "modules")))
            json_object_del(plan, "modules");
        json_object_set(out, "plan", plan);
        json_object_set_new(out, "equal", json_string(say.s ? say.s : ""));
    }
    json_object_set_new(out, "run_ms", json_integer(ms(&t)));
    dt_str_done(&say);
    json_decref(plan);
    ana_free(a);
    dev_prog_free(pp);
    dt_graph_free(gp);
    if (p) {
        dev_prog_free(last_prog);
        dt_graph_free(last_graph);
        last_prog = p;
        last_graph = g;
    } else {
        dt_graph_free(g);
    }
    return r < 0 ? rw_recover(device, r, e) : 0;
}

/* Every kind there is, once for each of its levels. */
static void list(json_t *out)
{
    json_t *all = json_array(), *off = json_array();
    for (unsigned k = 0; k < rw_nregistry; k++) {
        const char *const *level = rw_registry[k]->levels, *before = NULL;
        do {
            if (!level || !before || strcmp(*level, before))
                json_array_append_new(all, json_pack("[s,s]", rw_registry[k]->name, level ? *level : ""));
            before = level ? *level : NULL;
        } while (level && *++level);
        if (!rw_registry[k]->on)
            json_array_append_new(off, json_string(rw_registry[k]->name));
    }
    json_object_set_new(out, "off", off);
    json_object_set_new(out, "kinds", all);
}

int main(int argc, char **argv)
{
    struct dt_err e = {0};
    char *line = NULL;
    size_t cap = 0;
    if (dev_open(argc > 1 ? argv[1] : "soft", &device, &e) < 0) {
        fprintf(stderr, "planner: %s\n", e.detail ? e.detail : "no device");
        return 1;
    }
    while (getline(&line, &cap, stdin) > 0) {
        json_t *in = json_loads(line, 0, NULL), *out = json_object();
        bool listed = json_is_true(json_object_get(in, "list"));
        if (listed)
            list(out);
        int r = listed ? 0 : in ? answer(in, out, &e) : dt_err_set(&e, DT_E_USAGE, "no JSON");
        if (r < 0) {
            dt_free_ char *say = NULL;
            if (asprintf(&say, "%s: %s", dt_err_code(r), e.detail ? e.detail : "") < 0)
                say = NULL;
            json_object_set_new(out, "error", json_string(say ? say : "?"));
            dt_err_done(&e);
        }
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(out);
        json_decref(in);
    }
    free(line);
    dev_prog_free(last_prog);
    dt_graph_free(last_graph);
    while (ntext) {
        free(text[--ntext].cuda);
        free(text[ntext].ptx);
    }
    dev_close(device);
    return 0;
}
