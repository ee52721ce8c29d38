/* dovetail new FILE.cu|FILE.ptx [-o graph.json] [-- NVRTC-OPTION…]: a graph to begin with.
 *
 * A worker of the command line's own compiles the source and says what its kernels take (daemon/worker/new.c); no
 * service is asked. What comes back is put into a document that is read as it stands: every place that only the user
 * knows has a value that is an example, and a `comment` that says TODO. Those are listed on stderr, and whoever reads
 * the graph later warns of those that are left. A graph that is there already is never written over.
 *
 * The module is `{"file": …}`, relative to the graph's folder where the source lies in it, so that the source is edited
 * in one place; text from stdin stands in the graph.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "client/cli.h"
#include "graph/graph.h"

#define SOURCE_MOST (64u << 20)
#define TODO_MOST 1000 /* places that are listed */

static bool new_to_stdout(const struct cli *c) { return !c->output || !strcmp(c->output, "-"); }

/* The source as the graph's folder has it: what follows that folder in its path, else the whole path. */
static char *new_path(const char *file, const char *graph)
{
    const char *slash = graph ? strrchr(graph, '/') : NULL;
    if (!graph || (!slash && *file != '/'))
        return dt_strdup(file);
    dt_free_ char *dir = slash ? dt_strdup(graph) : dt_strdup("."), *real = realpath(file, NULL);
    if (slash && dir)
        dir[slash - graph + (slash == graph)] = 0;
    dt_free_ char *from = dir ? realpath(dir, NULL) : NULL;
    size_t n = from ? strlen(from) : 0;
    if (!real)
        return dt_strdup(file);
    if (n && !strncmp(real, from, n) && (real[n] == '/' || n == 1))
        return dt_strdup(real + n + (n > 1));
    return dt_strdup(*file == '/' ? file : real);
}

/* The file's name without folder and ending, as a name of a module. */
static char *new_name(const char *file)
{
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file, *dot = strrchr(base, '.');
    char *name = dt_strdup(strcmp(file, "-") ? base : "kernels");
    if (name && dot && dot != base)
        name[dot - base] = 0;
    for (char *p = name; p && *p; p++)
        if ((unsigned char)*p < 32 || *p == 127 || *p == ':')
            *p = '-';
    return name;
}

static json_t *new_options(const struct cli *c)
{
    json_t *list = json_array();
    for (int i = 1; i < c->narg; i++)
        if (json_array_append_new(list, json_string(c->arg[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* The whole document of the worker's answer. NULL: out of memory. */
static json_t *new_document(const struct cli *c, const char *name, const char *text, bool ptx, const json_t *answer)
{
    dt_free_ char *path = new_path(c->arg[0], new_to_stdout(c) ? NULL : c->output);
    json_t *module = strcmp(c->arg[0], "-") ? json_pack("{s:s}", "file", path ? path : "")
                                            : json_pack("{s:s}", ptx ? "ptx" : "cuda", text),
           *options = new_options(c);
    if (json_array_size(options))
        json_object_set(module, "options", options);
    json_decref(options);
    json_t *doc = json_pack(
        "{s:i, s:s, s:[s,s,s], s:{s:o}, s:O, s:O}", "dovetail", 1, "name", name, "comment",
        "Written by `dovetail new`. Values beside a comment that says TODO are examples: put in yours, and take the "
        "comment away.",
        "Launches run in this order. Write one more for each further launch of a kernel; buffers connect them.",
        "Roles: input, weight (stays from run to run), intermediate (nobody outside reads it), output, inout.",
        "modules", name, module, "buffers", json_object_get(answer, "buffers"), "launches",
        json_object_get(answer, "launches"));
    return path ? doc : NULL;
}

static void new_told(const char *pointer, const char *text, void *user)
{
    json_t *list = user;
    json_array_append_new(list, json_pack("{s:s, s:s}", "pointer", pointer, "comment", text));
}

static int new_written(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *v;
    size_t i;
    if (new_to_stdout(c)) {
        print_json(stdout, doc);
        return 0;
    }
    fputs("written to ", stdout);
    print_clean(stdout, c->output);
    fputc('\n', stdout);
    json_array_foreach (json_object_get(doc, "todo"), i, v) {
        fputs(i ? "  " : "still to be filled in:\n  ", stdout);
        print_clean(stdout, dt_json_text(v, "pointer"));
        fputs("  ", stdout);
        print_clean(stdout, dt_json_text(v, "comment"));
        fputc('\n', stdout);
    }
    return 0;
}

/* Leave the document where it is wanted; *o becomes what is said of it. */
static int new_leave(struct cli *c, json_t *doc, struct outcome *o, struct dt_err *e)
{
    struct dt_str text = {0};
    if (new_to_stdout(c)) {
        outcome_set(o, json_incref(doc));
        return 0;
    }
    json_pretty(doc, &text);
    int r = text.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : dt_write_file(c->output, text.s, text.len, e);
    dt_str_done(&text);
    json_t *todo = json_array(), *said = json_pack("{s:s, s:o}", "file", c->output, "todo", todo);
    if (said)
        dt_graph_todo(doc, TODO_MOST, new_told, todo);
    outcome_set(o, said);
    return r;
}

static int new_read(struct cli *c, char **ret, size_t *len, struct dt_err *e)
{
    struct stat st;
    int r = 0;
    if (c->socket)
        r = dt_err_set(e, DT_E_USAGE, "dovetail new asks no service: it has no --socket");
    else if (!new_to_stdout(c) && !stat(c->output, &st) && S_ISREG(st.st_mode))
        r = dt_err_set(e, DT_E_USAGE, "%s is there already, and is not written over", c->output);
    else if (!new_to_stdout(c) && c->narg && !strcmp(c->arg[0], c->output))
        r = dt_err_set(e, DT_E_USAGE, "%s is the source", c->output);
    if (r >= 0)
        r = dt_read_file(c->arg[0], SOURCE_MOST, ret, len, e);
    if (e->num == DT_E_IO)
        e->num = r = DT_E_USAGE;
    return r;
}

int cmd_new(struct cli *c)
{
    struct dt_err e = {0};
    struct outcome o = {0};
    dt_free_ char *text = NULL, *name = new_name(c->arg[0]), *quoted = NULL, *members = NULL;
    const char *dot = strrchr(c->arg[0], '.');
    bool ptx = dot && !strcmp(dot, ".ptx");
    size_t len;
    if (new_read(c, &text, &len, &e) < 0)
        return fail(c, &e);
    if (ptx && c->narg > 1)
        dt_err_set(&e, DT_E_USAGE, "options are for NVRTC, and %s is PTX", c->arg[0]);
    json_t *source = e.num ? NULL : json_stringn(text, len),
           *more = json_pack("{s:b, s:s, s:o}", "ptx", ptx, "module", name ? name : "", "nvrtc", new_options(c));
    if (!e.num && !source)
        dt_err_set(&e, DT_E_USAGE, "%s is not UTF-8 text", c->arg[0]);
    if (source && more) {
        quoted = json_dumps(source, JSON_ENCODE_ANY);
        members = json_dumps(more, JSON_COMPACT);
    }
    json_decref(source);
    json_decref(more);
    if (!e.num && (!quoted || !members || strlen(members) < 2))
        dt_err_set(&e, DT_E_USAGE, "names and options of NVRTC are UTF-8 text");
    if (e.num)
        return fail(c, &e);
    members[strlen(members) - 1] = 0; /* without its braces */
    local_request(c, "new", members + 1, "source", quoted, strlen(quoted), &o);
    if (!o.failed) {
        json_t *answer = json_loadb(o.text, o.len, 0, NULL),
               *doc = answer ? new_document(c, name, text, ptx, answer) : NULL;
        int r = doc ? new_leave(c, doc, &o, &e) : dt_err_set(&e, DT_E_NOMEM, "out of memory");
        json_decref(answer);
        json_decref(doc);
        if (r < 0) {
            outcome_done(&o);
            return fail(c, &e);
        }
    }
    return finish(c, &o, new_written);
}
