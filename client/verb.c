/* What verbs share: post a graph and show its document; write an answer to the file of -o.
 *
 * A graph that is refused and whose comments still say TODO gets a line that says so: what is wrong may be an example.
 * Not here: what a document looks like, which each verb knows.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "client/cli.h"
#include "graph/graph.h"

/* A graph that `dovetail new` wrote was refused: what it still has of examples may be why. */
static void verb_todo(const char *graph, size_t len)
{
    json_t *doc = json_loadb(graph, len, 0, NULL);
    size_t n = dt_graph_todo(doc, 0, NULL, NULL);
    json_decref(doc);
    if (n)
        fprintf(stderr,
                "dovetail: %zu of the graph's comments say TODO: sizes, geometry and numbers there are examples\n", n);
}

int post_graph(struct cli *c, const char *want, keep_fn *keep, human_fn *human)
{
    struct dt_err e = {0};
    struct outcome o;
    dt_free_ char *graph = NULL;
    size_t len;
    if (graph_read(c->arg[0], &graph, &len, &e) < 0)
        return fail(c, &e);
    backend_submit(c, want, graph, len, &o);
    if (o.failed)
        verb_todo(graph, len);
    if (keep && !o.failed) {
        json_t *doc = json_loadb(o.text, o.len, 0, NULL);
        int r = doc ? keep(c, doc, &e) : dt_err_set(&e, DT_E_INTERNAL, "the answer is not JSON");
        if (r > 0)
            outcome_set(&o, json_incref(doc));
        json_decref(doc);
        if (r < 0) {
            outcome_done(&o);
            return fail(c, &e);
        }
    }
    return finish(c, &o, human);
}

static int written(struct cli *c, const json_t *doc, const struct outcome *o)
{
    fputs("written to ", stdout);
    print_clean(stdout, c->output);
    fputc('\n', stdout);
    return 0;
}

int save_answer(struct cli *c, const char *member, bool bytes, struct outcome *o)
{
    struct dt_err e = {0};
    if (o->failed)
        return finish(c, o, written);
    json_t *doc = c->local && member ? json_loadb(o->text, o->len, 0, NULL) : NULL, *m = json_object_get(doc, member);
    const char *text = doc ? json_string_value(m) : c->local && member ? NULL : o->text;
    size_t n = doc ? json_string_length(m) : o->len;
    bool to_stdout = !strcmp(c->output, "-");
    int r = 0;
    if (!text)
        r = dt_err_set(&e, DT_E_INTERNAL, "the worker's answer has no %s", member);
    else if (to_stdout)
        fwrite(text, 1, n, stdout); /* main looks whether it could */
    else
        r = dt_write_file(c->output, text, n, &e);
    json_decref(doc);
    if (r < 0 || to_stdout)
        outcome_done(o);
    if (r < 0)
        return fail(c, &e);
    if (to_stdout)
        return 0;
    doc = json_pack("{s:s}", "file", c->output);
    if (bytes)
        json_object_set_new(doc, "bytes", json_integer((json_int_t)n));
    outcome_set(o, doc);
    return finish(c, o, written);
}
