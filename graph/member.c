/* What every part of the parser needs: places as JSON pointers, and members checked for presence, type and range.
 *
 * A wrong or missing member is DT_E_GRAPH with the RFC 6901 pointer of that member (of where it should be, when it is
 * missing) and a sentence that says what was expected and what was found. Whole numbers may also be written as reals
 * (1e3) while a double holds them exactly.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pointer.h"
#include "graph-priv.h"

void g_at_text(const struct g_at *at, struct dt_str *out)
{
    if (!at)
        return;
    g_at_text(at->up, out);
    if (at->key)
        dt_pointer_add(out, at->key);
    else
        dt_str_addf(out, "/%zu", at->index);
}

int g_bad(struct g_parser *p, int num, const struct g_at *at, const char *fmt, ...)
{
    struct dt_str ptr = {0}, text = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(&text, fmt, ap);
    va_end(ap);
    g_at_text(at, &ptr);
    dt_err_at(p->e, num, ptr.s ? ptr.s : "", "%s", text.s ? text.s : dt_err_text(num));
    dt_str_done(&ptr);
    dt_str_done(&text);
    return num;
}

const char *g_hint(char out[G_HINT], const struct dt_nearest *n)
{
    if (n->best)
        snprintf(out, G_HINT, "; did you mean '%.*s'?", (int)n->best_len, n->best);
    else
        *out = 0;
    return out;
}

int g_nomem(struct g_parser *p) { return dt_err_set(p->e, DT_E_NOMEM, "out of memory while reading the graph"); }

static const char *type_text(json_t *v)
{
    switch (v ? (int)json_typeof(v) : -1) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    case JSON_NULL: return "null";
    default: return "nothing";
    }
}

int g_object(struct g_parser *p, json_t *v, const struct g_at *at)
{
    return json_is_object(v) ? 0 : g_bad(p, DT_E_GRAPH, at, "expected an object, found %s", type_text(v));
}

int g_need(struct g_parser *p, json_t *obj, const struct g_at *at, const char *key, json_t **ret)
{
    json_t *v = json_object_get(obj, key);
    if (!v) {
        struct dt_nearest n = dt_nearest_of(key, strlen(key));
        const char *other;
        json_object_foreach (obj, other, v)
            dt_nearest_try(&n, other, strlen(other));
        return n.best ? g_bad(p, DT_E_GRAPH, G_KEY(at, key), "member '%s' is missing; is it '%.*s' by mistake?", key,
                              (int)n.best_len, n.best)
                      : g_bad(p, DT_E_GRAPH, G_KEY(at, key), "member '%s' is missing", key);
    }
    *ret = v;
    return 0;
}

int g_string(struct g_parser *p, json_t *v, const struct g_at *at, const char **ret)
{
    if (!json_is_string(v))
        return g_bad(p, DT_E_GRAPH, at, "expected a string, found %s", type_text(v));
    const char *s = json_string_value(v);
    if (strlen(s) != json_string_length(v))
        return g_bad(p, DT_E_GRAPH, at, "a string may not contain the character NUL");
    *ret = s;
    return 0;
}

int g_bool(struct g_parser *p, json_t *v, const struct g_at *at, bool *ret)
{
    if (!json_is_boolean(v))
        return g_bad(p, DT_E_GRAPH, at, "expected true or false, found %s", type_text(v));
    *ret = json_is_true(v);
    return 0;
}

int g_number(struct g_parser *p, json_t *v, const struct g_at *at, uint64_t lo, uint64_t hi, int over, uint64_t *ret)
{
    uint64_t u;
    if (json_is_integer(v)) {
        json_int_t i = json_integer_value(v);
        if (i < 0)
            return g_bad(p, DT_E_GRAPH, at, "%lld is negative; the range is %llu to %llu", (long long)i,
                         (unsigned long long)lo, (unsigned long long)hi);
        u = (uint64_t)i;
    } else if (json_is_real(v)) {
        double d = json_real_value(v);
        if (!(d >= 0) || d != floor(d))
            return g_bad(p, DT_E_GRAPH, at, "%g is not a whole number from %llu to %llu", d, (unsigned long long)lo,
                         (unsigned long long)hi);
        if (d > 0x1p53 && d > (double)hi)
            return g_bad(p, over, at, "%g is over the limit of %llu", d, (unsigned long long)hi);
        if (d > 0x1p53)
            return g_bad(p, DT_E_GRAPH, at, "%g is no exact whole number; write all its digits", d);
        u = (uint64_t)d;
    } else if (!dt_json_big(v, &u)) {
        return g_bad(p, DT_E_GRAPH, at, "expected a whole number, found %s", type_text(v));
    }
    if (u < lo)
        return g_bad(p, DT_E_GRAPH, at, "%llu is too small; the range is %llu to %llu", (unsigned long long)u,
                     (unsigned long long)lo, (unsigned long long)hi);
    if (u > hi)
        return g_bad(p, over, at, "%llu is over the limit of %llu", (unsigned long long)u, (unsigned long long)hi);
    *ret = u;
    return 0;
}

int g_buffer_ref(struct g_parser *p, json_t *v, const struct g_at *at, uint32_t *ret)
{
    const char *name = NULL;
    int r = g_string(p, v, at, &name);
    if (r < 0)
        return r;
    uint32_t i = dt_names_get(&p->buffers, name, strlen(name));
    if (i == DT_NAME_NONE) {
        char hint[G_HINT];
        struct dt_nearest n = dt_nearest_of(name, strlen(name));
        for (uint32_t b = 0; b < p->g->nbuffer; b++)
            dt_nearest_try(&n, p->g->buffer[b].name, strlen(p->g->buffer[b].name));
        return g_bad(p, DT_E_GRAPH, at, "there is no buffer '%s'%s", name, g_hint(hint, &n));
    }
    *ret = i;
    return 0;
}
