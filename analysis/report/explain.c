/* Reasons: the instructions that gave an edge its class and its evidence, with their PTX line and, where the PTX has
 * .loc, their source line.
 *
 * Works on a program and an analysis document of it, which may come from a cache: lines are those of the caller's own
 * text, and therefore never stored. Every edge gets "reasons", a list of
 *
 *   {"of": "evidence" | "class", "side": "producer" | "consumer", "access": "read" | "write" | "atomic", "buffer": …,
 *    "kernel": …, "ptx_line": …, "instruction": …, "source": {"module" or "file", "line", "inlined_at": {the same}},
 *    "loop": true | false,
 *    "why": "address" | "guard" | "not-followed",     of evidence only
 *    "from": {"ptx_line", "instruction", "source", "buffer"}}
 *
 * A reason of "evidence" is an access to one of the edge's buffers, of the kind that its hazards need (raw: the
 * producer's writes, the consumer's reads), whose address or guard depends on data as badly as the edge says; "from" is
 * the nearest instruction that the data came through (taint/origin.c). Reasons of "class" are given for edges that are
 * not one-to-one: the consumer's reads, then the producer's writes, of these buffers. A memset or copy step has "step"
 * in place of kernel and lines. At most ANA_REASONS_MAX of an edge are listed; "reasons_left_out" counts the others.
 *
 * Not told apart is which of several reads of one buffer spans most blocks. A data-dependent edge without reasons means
 * that the run found the dependence (shared memory that nothing wrote).
 */
#include "analysis/taint/taint.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define INST_MOST 160

struct tainted_launch { /* one entry with one way of arguments */
    const struct ptx_function *entry;
    const struct dt_launch *l;
    bool *constant, *pointer;
    struct ana_tainted t;
    struct tainted_launch *next;
};

struct explainer {
    const struct dev_prog *p;
    const struct dt_graph *g;
    struct dt_arena a;
    struct tainted_launch *known;
    uint8_t **var; /* per module: enum ana_var */
    struct dt_err *e;
};

/* ---- taint of a launch's entry ----------------------------------------------------------------------------------- */
static const uint8_t *vars_of(struct explainer *x, uint32_t module)
{
    const struct ptx_module *m = x->p->module[module].ir;
    if (x->var[module])
        return x->var[module];
    uint8_t *v = dt_new_array(&x->a, uint8_t, (size_t)m->nvar + 1);
    uint32_t *buffer = dt_new_array(&x->a, uint32_t, (size_t)m->nvar + 1);
    if (!v || !buffer || ana_graph_vars(x->g, module, m, v, buffer, x->e))
        return NULL;
    return x->var[module] = v;
}

static struct tainted_launch *taint_of(struct explainer *x, uint32_t launch)
{
    const struct dt_launch *l = &x->g->launch[launch];
    struct tainted_launch *n = dt_new_array(&x->a, struct tainted_launch, 1);
    bool *both = dt_new_array(&x->a, bool, 2 * (size_t)l->narg + 2);
    const uint8_t *var = vars_of(x, l->module);
    if (!n || !both || !var)
        return NULL;
    *n = (struct tainted_launch){
        .entry = x->p->step[launch].entry, .l = l, .constant = both, .pointer = both + l->narg + 1};
    ana_arg_kinds(x->g, l, n->pointer, n->constant);
    for (struct tainted_launch *o = x->known; o; o = o->next)
        if (o->entry == n->entry && o->l->narg == l->narg && !memcmp(o->constant, n->constant, l->narg) &&
            !memcmp(o->pointer, n->pointer, l->narg) && ana_same_places(o->l->arg, l->arg, l->narg))
            return o;
    struct ana_taint_in in = {n->constant, n->pointer, l->narg, l->arg, var};
    if (ana_taint_run(n->entry, &in, &n->t, x->e))
        return NULL;
    n->next = x->known;
    return x->known = n;
}

/* ---- what a site touches ----------------------------------------------------------------------------------------- */
static bool touches(struct explainer *x, const struct dt_launch *l, const struct ana_site *s, uint32_t buffer)
{
    bool named = s->nparams || s->nvars;
    for (uint32_t i = 0; i < l->narg; i++) {
        bool mine = !named;
        for (uint32_t k = 0; k < s->nparams; k++)
            mine |= s->params[k] == i;
        for (uint32_t k = 0; mine && k < arg_buffers(&l->arg[i], NULL, 0); k++)
            if (arg_buffer(&l->arg[i], k) == buffer)
                return true;
    }
    const struct dt_buffer *b = &x->g->buffer[buffer];
    for (uint32_t k = 0; k < s->nvars; k++)
        if (b->module == (int)l->module && !strcmp(b->variable, s->vars[k]->name))
            return true;
    return !named && b->module == (int)l->module;
}

/* The one buffer that a site can touch, or UINT32_MAX. */
static uint32_t only_buffer(struct explainer *x, const struct dt_launch *l, const struct ana_site *s)
{
    uint32_t one = UINT32_MAX;
    for (uint32_t b = 0; b < x->g->nbuffer; b++)
        if (touches(x, l, s, b)) {
            if (one != UINT32_MAX)
                return UINT32_MAX;
            one = b;
        }
    return one;
}

static uint8_t level_of(const struct ana_site *s) { return s->address > s->guard ? s->address : s->guard; }

/* ---- sentences' parts -------------------------------------------------------------------------------------------- */
static json_t *source_json(struct explainer *x, uint32_t module, const char *file, uint32_t line)
{
    bool own = !x->g->module[module].is_ptx && !strcmp(file, DEV_SOURCE_NAME); /* the source that the graph holds */
    return json_pack("{s:s, s:I}", own ? "module" : "file", own ? x->g->module[module].name : file, "line",
                     (json_int_t)line);
}

static void where(struct explainer *x, json_t *o, const struct dt_launch *l, const struct ptx_function *f,
                  const struct ptx_inst *i)
{
    struct dt_str text = {0};
    struct ptx_source at;
    ptx_print_inst(f, i, &text);
    const char *s = text.s ? text.s + strspn(text.s, " \t") : "";
    json_object_set_new(o, "ptx_line", json_integer(i->line));
    json_object_set_new(o, "instruction",
                        strlen(s) > INST_MOST ? json_sprintf("%.*s …", INST_MOST, s) : json_string(s));
    dt_str_done(&text);
    if (!ptx_source_of(f, i, &at))
        return;
    json_t *src = source_json(x, l->module, at.file, at.line);
    if (src && at.at_file)
        json_object_set_new(src, "inlined_at", source_json(x, l->module, at.at_file, at.at_line));
    json_object_set_new(o, "source", src);
}

static bool in_loop(const struct ptx_cfg *cfg, uint32_t at)
{
    struct dt_arena a = {0};
    bool *mark = dt_new_array(&a, bool, (size_t)cfg->nblock + 1);
    uint32_t *stack = dt_new_array(&a, uint32_t, (size_t)cfg->nblock + 1);
    bool again = !a.failed && ptx_in_cycle(cfg, cfg->block_of[at], mark, stack);
    dt_arena_done(&a);
    return again;
}

struct edge { /* the edge at hand */
    json_t *list;
    size_t left_out;
    bool raw, war, waw;
    uint8_t level;
};

/* A reason, or NULL when the edge has enough of them (or memory is out). */
static json_t *reason(struct edge *d, const char *of, bool producer, const char *access, const char *buffer)
{
    if (json_array_size(d->list) >= ANA_REASONS_MAX) {
        d->left_out++;
        return NULL;
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "of", of, "side", producer ? "producer" : "consumer", "access",
                          access, "buffer", buffer);
    json_array_append_new(d->list, o);
    return o;
}

static void explain_describe(struct explainer *x, json_t *o, const struct tainted_launch *k, const struct dt_launch *l,
                             const struct ana_site *s)
{
    json_object_set_new(o, "kernel", json_string(k->entry->name));
    where(x, o, l, k->entry, &k->entry->inst[s->inst]);
    json_object_set_new(o, "loop", json_boolean(in_loop(&k->t.cfg, s->inst)));
}

static void evidence(struct explainer *x, struct edge *d, const struct tainted_launch *k, const struct dt_launch *l,
                     const struct ana_site *s, json_t *o)
{
    bool guard = s->address < d->level;
    json_object_set_new(o, "why", json_string(!s->bytes && !s->span ? "not-followed" : guard ? "guard" : "address"));
    uint32_t at = s->bytes || s->span ? ana_origin(k->entry, &k->t, s, guard, d->level) : UINT32_MAX;
    if (at == UINT32_MAX)
        return;
    json_t *from = json_object();
    where(x, from, l, k->entry, &k->entry->inst[at]);
    for (uint32_t i = 0; i < k->t.sites.nsite; i++) {
        uint32_t b = k->t.sites.site[i].inst == at ? only_buffer(x, l, &k->t.sites.site[i]) : UINT32_MAX;
        if (b != UINT32_MAX)
            json_object_set_new(from, "buffer", json_string(x->g->buffer[b].name));
    }
    json_object_set_new(o, "from", from);
}

/* One side of an edge and one of its buffers. */
static int side(struct explainer *x, struct edge *d, uint32_t launch, uint32_t buffer, bool producer, bool of_class)
{
    const struct dt_launch *l = &x->g->launch[launch];
    const char *name = x->g->buffer[buffer].name;
    bool reads = producer ? d->war : d->raw, writes = producer ? d->raw || d->waw : d->war || d->waw;
    if (of_class)
        reads = !producer, writes = producer;
    if (l->kind != DT_KERNEL) {
        bool here = (writes && l->dst == buffer) || (reads && l->kind == DT_COPY && l->src == buffer);
        json_t *o =
            of_class && here ? reason(d, "class", producer, writes && l->dst == buffer ? "write" : "read", name) : NULL;
        if (o)
            json_object_set_new(o, "step", json_string(l->kind == DT_COPY ? "copy" : "memset"));
        return 0;
    }
    const struct tainted_launch *k = taint_of(x, launch);
    if (!k)
        return x->e && x->e->num ? x->e->num : DT_E_NOMEM;
    for (uint32_t i = 0; i < k->t.sites.nsite; i++) {
        const struct ana_site *s = &k->t.sites.site[i];
        if (!((reads && (s->reads || s->atomic)) || (writes && s->writes)) || !touches(x, l, s, buffer))
            continue;
        if (!of_class && level_of(s) < d->level)
            continue;
        json_t *o = reason(d, of_class ? "class" : "evidence", producer,
                           s->atomic             ? "atomic"
                           : writes && s->writes ? "write"
                                                 : "read",
                           name);
        if (!o)
            continue;
        explain_describe(x, o, k, l, s);
        if (!of_class)
            evidence(x, d, k, l, s, o);
    }
    return 0;
}

static bool explain_lists(const json_t *list, const char *what)
{
    size_t i;
    const json_t *v;
    json_array_foreach (list, i, v)
        if (json_is_string(v) && !strcmp(json_string_value(v), what))
            return true;
    return false;
}

/* The launch that a member of an edge names, or DT_NAME_NONE. */
static uint32_t launch_named(const struct dt_graph *g, const json_t *name)
{
    return json_is_string(name) ? dt_graph_find_launch(g, json_string_value(name)) : DT_NAME_NONE;
}

static int explain_edge(struct explainer *x, json_t *edge)
{
    const json_t *buffers = json_object_get(edge, "buffers"), *hazards = json_object_get(edge, "hazards"), *v;
    const char *ev = json_string_value(json_object_get(edge, "evidence")),
               *fan = json_string_value(json_object_get(edge, "fan"));
    uint32_t p = launch_named(x->g, json_object_get(edge, "producer"));
    uint32_t c = launch_named(x->g, json_object_get(edge, "consumer"));
    struct edge d = {.raw = explain_lists(hazards, "raw"),
                     .war = explain_lists(hazards, "war"),
                     .waw = explain_lists(hazards, "waw")};
    size_t i;
    int rc = 0;
    if (p == DT_NAME_NONE || c == DT_NAME_NONE || !ev || !fan)
        return dt_err_set(x->e, DT_E_INTERNAL, "an edge of the document names no launch of the graph");
    d.level = !strcmp(ev, "proved") ? ANA_PROVED : !strcmp(ev, "observed") ? ANA_OBSERVED : ANA_DATA_DEPENDENT;
    if (!(d.list = json_array()))
        return DT_E_NOMEM;
    bool spread = d.raw && strcmp(fan, "one-to-one") && strcmp(fan, "none");
    /* evidence, then class; the consumer first: it is the one that depends */
    for (int pass = 0; pass < 4 && !rc; pass++) {
        bool producer = pass & 1, of_class = pass >= 2;
        if (of_class ? !spread : d.level == ANA_PROVED)
            continue;
        json_array_foreach (buffers, i, v) {
            uint32_t b = dt_graph_find_buffer(x->g, json_string_value(v) ? json_string_value(v) : "");
            if (b != DT_NAME_NONE && !rc)
                rc = side(x, &d, producer ? p : c, b, producer, of_class);
        }
    }
    if (json_object_set_new(edge, "reasons", d.list) < 0 && !rc)
        rc = DT_E_NOMEM;
    if (d.left_out)
        json_object_set_new(edge, "reasons_left_out", json_integer((json_int_t)d.left_out));
    return rc;
}

int ana_explain(const struct dev_prog *p, json_t *analysis, struct dt_err *e)
{
    struct explainer x = {.p = p, .g = p->graph, .e = e};
    json_t *edge;
    size_t i;
    int rc = 0;
    x.var = dt_new_array(&x.a, uint8_t *, (size_t)p->graph->nmodule + 1);
    if (!x.var)
        rc = DT_E_NOMEM;
    json_array_foreach (json_object_get(analysis, "edges"), i, edge)
        if (!rc)
            rc = explain_edge(&x, edge);
    for (struct tainted_launch *k = x.known; k; k = k->next)
        ana_tainted_done(&k->t);
    rc = !rc && x.a.failed ? DT_E_NOMEM : rc;
    dt_arena_done(&x.a);
    return rc ? dt_err_set(e, rc, "the edges could not be explained") : 0;
}
