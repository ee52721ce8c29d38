/* Samples of graphs, as planning runs them where the whole is too large, held against whole runs: sample GRAPH.json…
 *
 * The limit is set to 1 instruction, so that every graph is too large. For each: the bytes that a sample says it makes
 * right are right; it ran fewer blocks; what its launches are said to cost is what they cost; the plan found that way
 * is, run whole, the graph's; and a plan with a wrong constant in it is found out, and one in which a block that the
 * sample leaves out writes nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/gate/gate.h"

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            printf("FAIL %s: %s: %s\n", name, #call, e.detail ? e.detail : "");                                        \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            printf("FAIL %s: line %d: %s\n", name, __LINE__, #what);                                                   \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The graph with the files that its modules name in it. */
static struct dt_graph *read_graph(const char *path)
{
    const char *name = path, *key;
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    char *text = NULL;
    size_t len;
    json_t *doc = json_load_file(path, 0, NULL), *m;
    EXPECT(doc);
    json_object_foreach (json_object_get(doc, "modules"), key, m) {
        struct dt_str file = {0};
        const char *f = json_string_value(json_object_get(m, "file"));
        if (!f)
            continue;
        dt_str_addf(&file, "%.*s/%s", (int)(strrchr(path, '/') - path), path, f);
        MUST(dt_read_file(file.s, 1 << 24, &text, &len, &e));
        json_object_set_new(m, strstr(f, ".ptx") ? "ptx" : "cuda", json_stringn(text, len));
        json_object_del(m, "file");
        free(text);
        dt_str_done(&file);
    }
    MUST(dt_graph_from_json(doc, &g, &e));
    json_decref(doc);
    return g;
}

static void run(const char *name, struct dev_device *d, const struct dev_prog *p, const struct dev_some *some,
                uint8_t **out, struct dev_cost *cost)
{
    struct dt_err e = {0};
    struct dev_run *r = NULL;
    MUST(dev_run_new(d, p, &r, &e));
    MUST(dev_run_fill(r, 0, some ? 0xA5 : -1, &e));
    MUST(dev_run_select(r, some, &e));
    for (uint32_t l = 0; l < p->graph->nlaunch; l++) {
        MUST(dev_run_step(r, l, &e));
        MUST(dev_run_cost(r, l, &cost[l], &e));
    }
    for (uint32_t k = 0; k < p->graph->nbuffer; k++) {
        out[k] = calloc(p->graph->buffer[k].bytes + 1, 1);
        MUST(dev_run_download(r, k, out[k], &e));
    }
    dev_run_free(r);
}

static bool near(uint64_t x, uint64_t y, double part)
{
    return (double)(x > y ? x - y : y - x) <= part * (double)y + 64;
}

/* Make a sum of one of the plan's own modules (f0, f1 …) a difference. False: none has one. */
static bool tamper(json_t *plan)
{
    const char *key;
    json_t *m;
    json_object_foreach (json_object_get(plan, "modules"), key, m) {
        const char *text = json_string_value(json_object_get(m, "ptx"));
        char *copy = text && key[0] == 'f' ? strdup(text) : NULL, *at = copy ? strstr(copy, "add.rn.f32") : NULL;
        if (!at && copy)
            at = strstr(copy, "add.f32");
        if (at) {
            memcpy(at, "sub", 3);
            json_object_set_new(m, "ptx", json_string(copy));
        }
        free(copy);
        if (at)
            return true;
    }
    return false;
}

static bool makes_output(const struct ana_result *a, uint32_t l)
{
    for (uint32_t k = 0; k < a->launch[l].naccess; k++)
        if (a->launch[l].access[k].writes && a->prog->graph->buffer[a->launch[l].access[k].buffer].role == DT_OUTPUT)
            return true;
    return false;
}

/* A block of one of the plan's own kernels, not among those that ran, does nothing. False: there is none. */
static bool idle(json_t *plan, const struct ana_result *a, const struct rw_sample *s)
{
    const struct dt_graph *g = a->prog->graph;
    for (uint32_t l = 0; l < g->nlaunch; l++) {
        json_t *x = json_array_get(json_object_get(plan, "launches"), l), *m;
        const char *module = json_string_value(json_object_get(x, "module")),
                   *entry = json_string_value(json_object_get(x, "entry"));
        uint32_t block = 1; /* of the sample's own: both ends, the middle, some more */
        for (uint32_t k = 0; k < s->some[l].n; k++)
            block += s->some[l].block[k] == block;
        if (!module || !entry || !s->some[l].n || !makes_output(a, l) || block >= g->launch[l].grid[0] ||
            !(m = json_object_get(json_object_get(plan, "modules"), module)))
            continue;
        const char *text = json_string_value(json_object_get(m, "ptx")), *at = text ? strstr(text, entry) : NULL;
        if (!at || module[0] != 'f' || !(at = strstr(at, "\n{")) || !(at = strstr(at, "ld.param")))
            continue;
        while (at[-1] != '\n')
            at--;
        struct dt_str other = {0};
        dt_str_addf(&other,
                    "%.*s.reg .b32 %%zz;\n.reg .pred %%zp;\nmov.u32 %%zz, %%ctaid.x;\nsetp.eq.u32 %%zp, %%zz, "
                    "%u;\n@%%zp ret;\n%s",
                    (int)(at - text), text, block, at);
        json_object_set_new(m, "ptx", json_string(other.s));
        dt_str_done(&other);
        return true;
    }
    return false;
}

static unsigned smaller, untouched, planned, caught, idled;

static unsigned found_out(struct dev_device *d, const char *name, const struct dev_prog *p, const struct ana_result *a,
                          const struct rw_sample *s, json_t *plan, const char *how)
{
    struct dt_err e = {0};
    struct rw_reference *ref = NULL;
    struct dt_graph *g = NULL;
    struct dev_prog *pp = NULL;
    struct ana_result *pa = NULL;
    MUST(rw_reference_new(d, p, 1, a, s, &ref, NULL, &e));
    MUST(dt_graph_from_json(plan, &g, &e));
    MUST(dev_prog_new(d, g, NULL, NULL, &pp, &e));
    MUST(ana_run(d, pp, NULL, &pa, &e));
    EXPECT(rw_verify_plan(d, ref, pp, pa, 1, 0, false, NULL, &e) == DT_E_INTERNAL && strstr(e.detail, how));
    dt_err_done(&e);
    ana_free(pa);
    dev_prog_free(pp);
    dt_graph_free(g);
    rw_reference_free(ref);
    return 1;
}

static void one(struct dev_device *d, const char *name)
{
    struct dt_err e = {0};
    struct dt_graph *g = read_graph(name), *pg = NULL;
    struct dev_prog *p = NULL, *pp = NULL;
    struct ana_result *a = NULL, *pa = NULL;
    struct rw_sample *s = NULL;
    struct dev_cost *cost = NULL;
    struct rw_options o = {.inputs = 2, .schedules = 2, .whole = 1};
    json_t *plan = NULL, *hollow = NULL;
    MUST(dev_prog_new(d, g, NULL, NULL, &p, &e));
    MUST(ana_run(d, p, NULL, &a, &e));
    MUST(rw_sample_choose(d, p, a, 1, &s, &cost, &e));
    if (s) {
        struct dev_cost *whole_cost = calloc(g->nlaunch, sizeof *whole_cost),
                        *some_cost = calloc(g->nlaunch, sizeof *some_cost);
        uint8_t **whole = calloc(g->nbuffer, sizeof *whole), **some = calloc(g->nbuffer, sizeof *some);
        uint64_t compared = 0, poison = 0, all = 0;
        run(name, d, p, NULL, whole, whole_cost);
        run(name, d, p, s->some, some, some_cost);
        EXPECT(s->blocks < s->of);
        for (uint32_t k = 0; k < g->nbuffer; k++) {
            bool out = g->buffer[k].role == DT_OUTPUT || g->buffer[k].role == DT_INOUT;
            EXPECT(out || !s->want[k].n);
            for (uint32_t i = 0; i < s->want[k].n; i++) {
                struct ana_interval v = s->want[k].iv[i];
                EXPECT(!memcmp(whole[k] + v.lo, some[k] + v.lo, v.hi - v.lo));
                compared += v.hi - v.lo;
            }
            for (uint64_t i = 0; g->buffer[k].role == DT_OUTPUT && i < g->buffer[k].bytes; i++)
                poison += some[k][i] == 0xA5;
            all += out ? g->buffer[k].bytes : 0;
        }
        EXPECT(compared > 0);
        smaller += compared < all;
        untouched += poison > 64;                   /* of the outputs: blocks that were left out did not run */
        for (uint32_t l = 0; l < g->nlaunch; l++) { /* blocks are not all alike: at edges, and under guards */
            EXPECT(near(some_cost[l].instructions, whole_cost[l].instructions, 0.35));
            EXPECT(near(cost[l].instructions, whole_cost[l].instructions, 0.35));
        }
        printf("%s: %llu of %llu blocks, %llu of %llu bytes compared\n", name, (unsigned long long)s->blocks,
               (unsigned long long)s->of, (unsigned long long)compared, (unsigned long long)all);
        for (uint32_t k = 0; k < g->nbuffer; k++) {
            free(whole[k]);
            free(some[k]);
        }
        free(whole);
        free(some);
        free(whole_cost);
        free(some_cost);
    }
    MUST(rw_plan(d, p, a, &o, NULL, &plan, &e));
    MUST(dt_graph_from_json(plan, &pg, &e));
    MUST(dev_prog_new(d, pg, NULL, NULL, &pp, &e));
    MUST(rw_verify(d, p, pp, 2, 2, &e)); /* whole */
    json_t *part = json_object_get(json_object_get(plan, "verified"), "sampled");
    EXPECT(!part == !(s && json_object_get(plan, "original"))); /* some rewrite was kept */
    if (part) {
        struct rw_sample *ps = NULL;
        planned++;
        EXPECT(json_integer_value(json_object_get(part, "blocks")) > 0);
        MUST(ana_run(d, pp, NULL, &pa, &e));
        MUST(rw_sample_of(s, g, pa, &ps, &e));
        hollow = json_deep_copy(plan);
        if (!idle(hollow, pa, ps)) {
            json_decref(hollow);
            hollow = NULL;
        }
        rw_sample_free(ps);
        ana_free(pa);
        dev_prog_free(pp);
        dt_graph_free(pg);
        if (tamper(plan))
            caught += found_out(d, name, p, a, s, plan, "differs at byte");
    } else {
        dev_prog_free(pp);
        dt_graph_free(pg);
    }
    if (s && hollow)
        idled += found_out(d, name, p, a, s, hollow, "the plan does not");
    json_decref(hollow);
    json_decref(plan);
    rw_sample_free(s);
    free(cost);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
}

int main(int argc, char **argv)
{
    struct dt_err e = {0};
    struct dev_device *d = NULL;
    const char *name = "device";
    MUST(dev_open("soft:h200", &d, &e));
    for (int k = 1; k < argc; k++)
        one(d, argv[k]);
    dev_close(d);
    printf("%d graphs, %u with a true part, %u with blocks left out of their outputs, %u plans, %u wrong plans found "
           "out, %u with a block that does nothing\n",
           argc - 1, smaller, untouched, planned, caught, idled);
    return argc > 1 && smaller && untouched && planned && caught && idled ? 0 : 1;
}
