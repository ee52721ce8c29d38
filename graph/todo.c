/* What the writer of a graph has still to fill in: places whose `comment` says TODO, as `dovetail new` leaves them.
 *
 * Comments may stand in every object of the document and hold any text, or a list of texts; nothing else reads them.
 * The document's own comment is not looked at: it may speak of the word. Depth is bounded by the parser's.
 */
#include <string.h>

#include "graph-priv.h"

static const char *todo_text(json_t *comment)
{
    size_t i;
    json_t *v;
    const char *s = json_string_value(comment);
    if (s)
        return strstr(s, "TODO") ? s : NULL;
    json_array_foreach (comment, i, v)
        if ((s = json_string_value(v)) && strstr(s, "TODO"))
            return s;
    return NULL;
}

struct todo {
    size_t n, most;
    void (*fn)(const char *pointer, const char *text, void *user);
    void *user;
};

static void todo_in(json_t *o, const struct g_at *at, struct todo *t)
{
    const char *key, *text = at ? todo_text(json_object_get(o, "comment")) : NULL;
    size_t i;
    json_t *v;
    if (text && t->n++ < t->most) { /* a place has any length: it is made for few */
        struct dt_str where = {0};
        g_at_text(at, &where);
        if (!where.failed)
            t->fn(where.s, text, t->user);
        dt_str_done(&where);
    }
    json_object_foreach (o, key, v)
        todo_in(v, G_KEY(at, key), t);
    json_array_foreach (o, i, v)
        todo_in(v, G_INDEX(at, i), t);
}

size_t dt_graph_todo(json_t *doc, size_t most, void (*fn)(const char *pointer, const char *text, void *user),
                     void *user)
{
    struct todo t = {.most = most, .fn = fn, .user = user};
    todo_in(doc, NULL, &t);
    return t.n;
}
