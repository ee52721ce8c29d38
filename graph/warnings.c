/* Warnings: what a document says that is probably a mistake. Each is an object as in docs/CONTRACT.md §4: code,
 * message, pointer, and `launch` where it is about one.
 *
 * This file makes those that the document alone shows. They are made anew for every post, since pointers and names are
 * the poster's:
 *
 *   unknown-member   a member that dovetail does not read, at any level: `smem` for `shared`. Which members are known
 *                    depends on the object: a memset has no `grid`, an i32 no `offset`
 *   todo             a comment says TODO: something is not filled in yet (todo.c); one warning, of the first place
 *   no-output        no buffer is an output or inout: nothing that the graph computes is looked at, and nothing can be
 *                    compared
 *   streams          the program that was captured had launches on streams that nothing orders, so they may have run
 *                    side by side, and the document, of an older capture, has them one after another
 *
 * Warnings about what kernels do are made by analysis/report/warnings.c and by the gate. A list holds DT_MAX_WARNINGS
 * at most and counts the others, so that the answer to a hostile document is no larger than the document. Plans have no
 * such warnings: they are not written by hand, and other versions may put more members into them.
 *
 * The document has been parsed before (parse.c): the types of known members are right.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/pointer.h"
#include "graph-priv.h"

#define KEY_SHOWN 64       /* bytes of a member's name that a message repeats, and */
#define POINTER_SHOWN 1024 /* of a pointer: beyond that it ends at the object */
#define TODO_SHOWN 160

void dt_warn(struct dt_warnings *w, json_t *warning)
{
    if (!warning)
        w->failed = true;
    else if (w->failed || json_array_size(w->list) >= (w->most ? w->most : DT_MAX_WARNINGS))
        w->left_out += !w->failed;
    else if ((!w->list && !(w->list = json_array())) || json_array_append(w->list, warning) < 0)
        w->failed = true;
    json_decref(warning);
}

int dt_warnings_put(struct dt_warnings *w, json_t *doc)
{
    bool bad = w->failed || json_object_set_new(doc, "warnings", w->list ? json_incref(w->list) : json_array()) < 0;
    if (!bad && w->left_out)
        bad = json_object_set_new(doc, "warnings_left_out", json_integer((json_int_t)w->left_out)) < 0;
    json_decref(w->list);
    memset(w, 0, sizeof *w);
    return bad ? DT_E_NOMEM : 0;
}

/* The bytes of s up to `most` that are whole characters. */
static size_t whole_characters(const char *s, size_t most)
{
    size_t n = 0;
    for (size_t k; s && s[n] && (k = dt_utf8(s + n)) > 0 && n + k <= most;)
        n += k;
    return n;
}

static bool known(const char *list, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = list; n && (at = strstr(at, key)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ',') && !strpbrk(key, ", "))
            return true;
    return false;
}

static json_t *unknown(const struct g_at *at, const char *key, const char *what, const char *list, const char *launch)
{
    struct dt_str where = {0}, text = {0};
    size_t near_len;
    const char *near = dt_nearest_in(key, list, &near_len);
    g_at_text(at, &where);
    size_t n = where.len;
    dt_pointer_add(&where, key);
    if (where.s && where.len > POINTER_SHOWN)
        where.s[n] = 0;
    if (strlen(key) <= KEY_SHOWN)
        dt_str_addf(&text, "%s has no member \"%s\": it is ignored (known: %s)", what, key, list);
    else
        dt_str_addf(&text, "%s has no such member: it is ignored (known: %s)", what, list);
    if (near)
        dt_str_addf(&text, "; did you mean \"%.*s\"?", (int)near_len, near);
    json_t *o = where.failed || text.failed ? NULL
                                            : json_pack("{s:s, s:s, s:s, s:s*}", "code", "unknown-member", "message",
                                                        text.s, "pointer", where.s ? where.s : "", "launch", launch);
    dt_str_done(&where);
    dt_str_done(&text);
    return o;
}

/* The members of `o` that are not on the list, "a, b, c"; a comment may stand anywhere. */
static void warnings_members(struct dt_warnings *w, json_t *o, const struct g_at *at, const char *what,
                             const char *list, const char *launch)
{
    const char *key;
    json_t *v;
    json_object_foreach (o, key, v) {
        if (known(list, key) || !strcmp(key, "comment"))
            continue;
        if (json_array_size(w->list) < DT_MAX_WARNINGS)
            dt_warn(w, unknown(at, key, what, list, launch));
        else
            w->left_out++;
    }
}

static void warnings_argument(struct dt_warnings *w, json_t *o, const struct g_at *at, const char *launch)
{
    enum dt_dtype t;
    const char *key;
    json_t *v, *p;
    size_t i;
    if ((v = json_object_get(o, "buffer"))) {
        warnings_members(w, o, at, "a buffer argument", "buffer, offset", launch);
    } else if ((v = json_object_get(o, "bytes"))) {
        warnings_members(w, o, at, "a bytes argument", "bytes, pointers", launch);
        json_array_foreach (json_object_get(o, "pointers"), i, p)
            warnings_members(w, p, G_INDEX(G_KEY(at, "pointers"), i), "a pointer in bytes", "at, buffer, offset",
                             launch);
    } else if ((v = json_object_get(o, "tensor_map"))) {
        warnings_members(w, o, at, "a tensor_map argument", "tensor_map", launch);
        warnings_members(
            w, v, G_KEY(at, "tensor_map"), "a tensor map",
            "buffer, offset, tensorDataType, tensorRank, globalDim, globalStrides, boxDim, elementStrides, "
            "interleave, swizzle, l2Promotion, oobFill",
            launch);
    } else {
        json_object_foreach (o, key, v)
            if (g_dtype(key, &t)) {
                warnings_members(w, o, at, "a scalar argument", key, launch);
                break;
            }
    }
}

static void warnings_step(struct dt_warnings *w, json_t *o, const struct g_at *at, const char *name)
{
    json_t *set = json_object_get(o, "memset"), *copy = json_object_get(o, "copy"), *a;
    size_t i;
    if (set) {
        warnings_members(w, o, at, "a memset step", "name, memset, stream, after", name);
        warnings_members(w, set, G_KEY(at, "memset"), "a memset", "buffer, offset, bytes, value", name);
    } else if (copy) {
        const struct g_at *here = G_KEY(at, "copy");
        warnings_members(w, o, at, "a copy step", "name, copy, stream, after", name);
        warnings_members(w, copy, here, "a copy", "from, to, bytes", name);
        warnings_members(w, json_object_get(copy, "from"), G_KEY(here, "from"), "a place", "buffer, offset", name);
        warnings_members(w, json_object_get(copy, "to"), G_KEY(here, "to"), "a place", "buffer, offset", name);
    } else {
        warnings_members(
            w, o, at, "a launch",
            "name, module, entry, grid, block, cluster, shared, args, cooperative, stream, after, programmatic", name);
        json_array_foreach (json_object_get(o, "args"), i, a)
            warnings_argument(w, a, G_INDEX(G_KEY(at, "args"), i), name);
    }
}

static void first_todo(const char *pointer, const char *text, void *user)
{
    char **first = user;
    first[0] = dt_strdup(pointer);
    first[1] = dt_strdup(text);
}

static void warnings_todo(struct dt_warnings *w, json_t *doc)
{
    char *first[2] = {NULL, NULL};
    struct dt_str text = {0};
    size_t n = dt_graph_todo(doc, 1, first_todo, first);
    if (n) {
        dt_str_addf(&text, "%zu place%s still to be filled in (the comment says TODO), first \"%.*s\"", n,
                    n == 1 ? " is" : "s are", (int)whole_characters(first[1], TODO_SHOWN), first[1] ? first[1] : "");
        dt_warn(w, text.failed || !first[0] ? NULL
                                            : json_pack("{s:s, s:s, s:s}", "code", "todo", "message", text.s, "pointer",
                                                        strlen(first[0]) > POINTER_SHOWN ? "" : first[0]));
    }
    free(first[0]);
    free(first[1]);
    dt_str_done(&text);
}

/* May launch i of `captured` have run beside the one before it? Not on one stream, nor where it waits for that one; no
 * third launch stands between the two that could order them. */
static bool side_by_side(const json_t *streams, const json_t *after, size_t i)
{
    size_t k;
    const json_t *one = json_array_get(streams, i - 1), *two = json_array_get(streams, i), *v;
    if (!json_is_integer(one) || !json_is_integer(two) || json_integer_value(one) == json_integer_value(two))
        return false;
    json_array_foreach (json_array_get(after, i), k, v)
        if (json_is_integer(v) && json_integer_value(v) == (json_int_t)i - 1)
            return false;
    return true;
}

static void warnings_streams(struct dt_warnings *w, const json_t *captured)
{
    const json_t *streams = json_object_get(captured, "streams"), *after = json_object_get(captured, "after");
    bool found = false;
    for (size_t i = 1; i < json_array_size(streams) && !found; i++)
        found = side_by_side(streams, after, i);
    if (found)
        dt_warn(w, json_pack("{s:s, s:s, s:s}", "code", "streams", "message",
                             "the program had launches on several streams, which may have run side by side; as posted "
                             "they run one after another, so the baseline may be longer than the program takes",
                             "pointer", "/captured/streams"));
}

void dt_graph_warnings(const struct dt_graph *g, struct dt_warnings *w)
{
    const struct g_at *modules = G_KEY(NULL, "modules"), *buffers = G_KEY(NULL, "buffers"),
                      *launches = G_KEY(NULL, "launches");
    const char *key;
    json_t *v;
    size_t i;
    bool out = false;
    if (g->is_plan)
        return;
    warnings_members(w, g->json, NULL, "a graph", "dovetail, name, modules, buffers, launches, check, captured", NULL);
    json_object_foreach (json_object_get(g->json, "modules"), key, v)
        warnings_members(w, v, G_KEY(modules, key), "a module",
                         json_object_get(v, "cuda") ? "cuda, options" : "ptx, options", NULL);
    json_object_foreach (json_object_get(g->json, "buffers"), key, v) {
        const struct g_at *at = G_KEY(buffers, key);
        json_t *fill = json_object_get(v, "fill");
        warnings_members(w, v, at, "a buffer", "bytes, role, constant, fill, data", NULL);
        warnings_members(w, fill, G_KEY(at, "fill"), "a fill",
                         json_object_get(fill, "zero") ? "zero" : "uniform, dtype, seed", NULL);
    }
    json_array_foreach (json_object_get(g->json, "launches"), i, v)
        warnings_step(w, v, G_INDEX(launches, i), g->launch[i].name);
    warnings_todo(w, g->json);
    if (!g->streams)
        warnings_streams(w, json_object_get(g->json, "captured"));
    for (uint32_t b = 0; b < g->nbuffer; b++)
        out |= g->buffer[b].role == DT_OUTPUT || g->buffer[b].role == DT_INOUT;
    if (!out)
        dt_warn(w, json_pack("{s:s, s:s, s:s}", "code", "no-output", "message",
                             "no buffer is an output or inout: nothing that the graph computes is looked at, and "
                             "nothing can be compared",
                             "pointer", "/buffers"));
}
