/* Verb run: runs a graph or a plan once, hashes its outputs, times it.
 *
 * Buffers get their fills (docs/CONTRACT.md §2; the seed is added to all but weights and constants). Every step is
 * launched once, and each output and inout buffer is read back and hashed before the timing replays touch it.
 *
 * A plan runs only if what it assumes holds here: the alignment of buffers, the content of constants, and streams and
 * `after` that keep every hazard (rewrite/gate/waits.c). Otherwise it is refused, and the error names the assumption.
 * On a real device the plan runs as machine code that was compared with the posted kernels, when it was planned or now
 * (rewrite/gate/machine-code.c). Where no comparison is possible, the posted launches run instead, with a warning, and
 * `fallback` in the answer says why.
 *
 * Options: `dump` adds the bytes of the outputs as base64; `check` (or the document's own member of that name) and
 * `schedule` are the software device's checking modes and order of blocks (docs/CHECKING.md).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/pointer.h"
#include "base/wire.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

#define REPS_REAL 20 /* a modelled time is the same every time */

static int broken(struct dt_err *e, const char *kind, const char *buffer, const char *what)
{
    struct dt_str at = {0};
    dt_str_add(&at, "/assumes");
    dt_pointer_add(&at, kind);
    dt_pointer_add(&at, buffer);
    int r = dt_err_at(e, DT_E_GRAPH, at.s ? at.s : "",
                      "the plan assumes something that does not hold for buffer %s: %s", buffer, what);
    dt_str_done(&at);
    return r;
}

/* Does what the plan assumes hold? */
static int check_assumes(const json_t *assumes, const struct dt_graph *g, struct dev_run *run, struct dt_err *e)
{
    const char *name;
    json_t *v;
    json_object_foreach (json_object_get(assumes, "align"), name, v) {
        uint32_t b = dt_graph_find_buffer(g, name);
        json_int_t align = json_integer_value(v);
        dev_ptr at = 0;
        if (b == DT_NAME_NONE)
            continue; /* of no use to this binding */
        if (align <= 0 || dev_run_buffer(run, b, &at) < 0 || at % (uint64_t)align)
            return broken(e, "align", name, "its alignment");
    }
    json_object_foreach (json_object_get(assumes, "constant"), name, v) {
        char text[DT_SHA256_TEXT];
        uint32_t b = dt_graph_find_buffer(g, name);
        if (b == DT_NAME_NONE)
            return broken(e, "constant", name, "there is no such buffer");
        uint8_t *p = dt_malloc(g->buffer[b].bytes + 1);
        if (!p)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        dt_fill_bytes(&g->buffer[b], 0, p);
        int r = dt_sha256_text(p, g->buffer[b].bytes, text);
        free(p);
        if (r < 0)
            return dt_err_set(e, r, "out of memory");
        if (!json_is_string(v) || strcmp(text, json_string_value(v)))
            return broken(e, "constant", name, "its content");
    }
    return 0;
}

/* Read back and hash one buffer. */
static int output(const struct dt_graph *g, uint32_t b, struct dev_run *run, bool dump, json_t *list, struct dt_err *e)
{
    const struct dt_buffer *buf = &g->buffer[b];
    char text[DT_SHA256_TEXT];
    uint8_t *p = dt_malloc(buf->bytes + 1);
    if (!p)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for buffer %s", buf->name);
    int r = dev_run_download(run, b, p, e);
    if (r >= 0 && (r = dt_sha256_text(p, buf->bytes, text)) < 0)
        dt_err_set(e, r, "out of memory");
    if (r >= 0) {
        json_t *o = json_pack("{s:s, s:s, s:I, s:s}", "buffer", buf->name, "role", dt_role_text(buf->role), "bytes",
                              (json_int_t)buf->bytes, "sha256", text);
        struct dt_str data = {0};
        if (dump && buf->bytes < DT_WIRE_MAX)
            dt_base64_encode(p, buf->bytes, &data);
        if (dump && (data.failed || buf->bytes >= DT_WIRE_MAX))
            r = dt_err_set(e, DT_E_TOO_LARGE, "buffer %s is too large to dump", buf->name);
        else if (dump)
            json_object_set_new(o, "data", json_stringn(data.len ? data.s : "", data.len));
        dt_str_done(&data);
        json_array_append_new(list, o);
    }
    free(p);
    return r;
}

static int run_one(struct wrk *w, const struct dt_graph *g, const struct dev_prog *prog, const json_t *doc,
                   const struct dtd_options *o, json_t **ret, struct dt_err *e)
{
    struct dev_run *dr = NULL;
    struct dev_time t = {0};
    json_t *outputs = json_array();
    const char *check = o->check[0] ? o->check : json_string_value(json_object_get(doc, "check"));
    int r = check ? dev_set_checks(w->dev, check, e) : 0;
    if (o->schedule)
        dev_set_schedule(w->dev, o->schedule, false);
    if (r >= 0)
        r = dev_run_new(w->dev, prog, &dr, e);
    if (r >= 0)
        r = g->is_plan ? check_assumes(json_object_get(doc, "assumes"), g, dr, e) : 0;
    if (r >= 0)
        r = dev_run_fill(dr, o->seed, -1, e);
    if (r >= 0) {
        dev_set_print(w->dev, w->print);
        wrk_progress("run", g->is_plan ? "running the plan" : "running the graph", 0, 1, w);
        r = dev_run_once(dr, e);
        dev_set_print(w->dev, false);
    }
    for (uint32_t b = 0; r >= 0 && b < g->nbuffer; b++)
        if (g->buffer[b].role == DT_OUTPUT || g->buffer[b].role == DT_INOUT)
            r = output(g, b, dr, o->dump, outputs, e);
    if (check && r >= 0) /* what is timed has been checked */
        r = dev_set_checks(w->dev, NULL, e);
    if (o->schedule)
        dev_set_schedule(w->dev, 0, false);
    if (r >= 0) {
        wrk_progress("time", "timing", 0, 1, w);
        r = dev_run_time(dr, dev_info(w->dev)->soft ? 1 : REPS_REAL, &t, NULL, e);
    }
    dev_run_free(dr);
    if (check && r < 0)
        dev_set_checks(w->dev, NULL, NULL); /* a context with a fault has none anyway */
    if (r < 0) {
        json_decref(outputs);
        return r;
    }
    *ret = json_pack("{s:s, s:s, s:o, s:f, s:f, s:s, s:i, s:I, s:o}", "name", g->name ? g->name : "", "kind",
                     g->is_plan ? "plan" : "graph", "outputs", outputs, "time_us", t.time_us, "ci95_us", t.ci95_us,
                     "method", t.method, "launches", (int)t.launches, "seed", (json_int_t)o->seed, "device",
                     dev_info_to_json(dev_info(w->dev)));
    return *ret ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* The plan's posted launches; *ret NULL: it changed nothing. */
static int posted(json_t *doc, struct dt_graph **ret, struct dt_err *e)
{
    if (!json_is_object(json_object_get(doc, "original")))
        return 0;
    json_t *old = dt_plan_posted(doc);
    int r = old ? dt_graph_from_json(old, ret, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    json_decref(old);
    return r;
}

/* On a real device: what runs must be code that was compared. 1: the plan may run; 0: its posted launches may,
 * *ret_old, `why`. */
static int may_run(const struct wrk *w, struct dt_graph *g, json_t *doc, struct dt_graph **ret_old, struct dt_str *why,
                   struct dt_err *e)
{
    int r = g->is_plan && !dev_info(w->dev)->soft ? posted(doc, ret_old, e) : 0;
    if (r < 0 || !*ret_old)
        return r < 0 ? r : 1;
    return rw_carried(w->dev, g, *ret_old, why, e);
}

/* The answer of posted launches that ran for a plan. */
static int say_fallback(json_t *doc, const char *why, struct dt_err *e)
{
    struct dt_warnings w = {.list = json_incref(json_object_get(doc, "warnings"))};
    dt_warn(&w, json_pack("{s:s, s:o, s:s}", "code", "fallback", "message",
                          json_sprintf("the posted launches ran, not the plan's: %s", why), "pointer", "/original"));
    bool ok = dt_warnings_put(&w, doc) == 0 && json_object_set_new(doc, "fallback", json_string(why)) == 0;
    return ok ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

int wrk_warn(json_t *doc, const struct dt_warnings *more)
{
    struct dt_warnings w = {.failed = more->failed};
    json_t *v;
    size_t i;
    if (!more->list && !w.failed)
        return 0;
    w.list = json_incref(json_object_get(doc, "warnings"));
    w.left_out = more->left_out + (uint64_t)json_integer_value(json_object_get(doc, "warnings_left_out"));
    json_array_foreach (more->list, i, v)
        dt_warn(&w, json_incref(v));
    return dt_warnings_put(&w, doc);
}

/* What a posted graph on several streams leaves open is put in order by its document, as for a plan. */
static int order_graph(struct wrk *w, struct dt_graph *g, const struct dev_prog *prog, struct dt_warnings *ret,
                       struct dt_err *e)
{
    struct ana_result *a = NULL;
    int r = ana_run(w->dev, prog, NULL, &a, e);
    if (r >= 0)
        r = rw_order_posted(g, a, ret, e);
    ana_free(a);
    return r;
}

int wrk_run(struct wrk *w, json_t *graph, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    struct dt_graph *g = NULL, *old = NULL;
    struct dev_prog *prog = NULL;
    struct dt_str why = {0};
    struct dt_warnings unordered = {0};
    int r = dt_graph_from_json(graph, &g, e);
    if (r >= 0)
        r = wrk_open(w, e);
    if (r >= 0)
        r = may_run(w, g, graph, &old, &why, e);
    struct dt_graph *run_it = r == 0 ? old : g;
    if (r >= 0)
        r = dev_prog_new(w->dev, run_it, wrk_progress, w, &prog, e);
    if (r >= 0 && run_it->is_plan)
        r = rw_waits_check(w->dev, prog, NULL, NULL, e);
    else if (r >= 0 && run_it->streams)
        r = order_graph(w, run_it, prog, &unordered, e);
    if (r >= 0)
        r = run_one(w, run_it, prog, graph, o, &a->document, e);
    if (r >= 0 && (wrk_warn(a->document, &unordered) < 0 || dtd_warnings(a->document, g) < 0))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0 && run_it == old)
        r = say_fallback(a->document, why.s ? why.s : "?", e);
    json_decref(unordered.list);
    dt_str_done(&why);
    dev_prog_free(prog);
    dt_graph_free(old);
    dt_graph_free(g);
    return r;
}
