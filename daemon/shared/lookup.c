/* Looking a document up, and storing one.
 *
 * An entry leaves out what belongs to one poster: names, and the `buffers` member of a plan (fills and data other than
 * constants are not part of the signature). Both come from the caller's graph when an entry is loaded.
 *
 * Warnings: an entry keeps those about kernels, geometry and arguments. Their source lines, instructions and places in
 * shared memory are those of the text that was analysed; `warnings_of` in the entry holds the digest of that graph. A
 * graph with another digest but the same signature gets the warnings without these places, and a plan that says so:
 * `text_of_other`, names in its kernels' text may be another poster's.
 */
#include "daemon/shared/shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/subject.h"

/* Put the graph's own buffers into a plan that has a `buffers` member. */
static int own_buffers(json_t *doc, const struct dt_graph *g)
{
    if (!json_object_get(doc, "buffers"))
        return 0;
    json_t *o = dt_graph_to_json(g), *b = o ? json_object_get(o, "buffers") : NULL;
    int r = b ? json_object_set(doc, "buffers", b) : -1;
    json_decref(o);
    return r < 0 ? DT_E_NOMEM : 0;
}

/* Footprints (analysis, with maps) name buffers too: by canonical number in an entry, by the caller's names outside, in
 * the order of its buffers. */
struct numbered {
    uint32_t buffer;
    json_t *v;
};

static int by_buffer(const void *a, const void *b)
{
    uint32_t x = ((const struct numbered *)a)->buffer, y = ((const struct numbered *)b)->buffer;
    return x < y ? -1 : x > y;
}

static int load_footprints(json_t *list, const struct dt_graph *g, const uint32_t *canon)
{
    size_t n = json_array_size(list), i;
    json_t *v;
    dt_free_ struct numbered *all = dt_calloc(n + 1, sizeof *all);
    if (!all)
        return DT_E_NOMEM;
    json_array_foreach (list, i, v) {
        const json_t *number = json_object_get(v, "buffer");
        uint32_t b = 0;
        while (b < g->nbuffer && (!json_is_integer(number) || canon[b] != json_integer_value(number)))
            b++;
        if (b == g->nbuffer || json_object_set_new(v, "buffer", json_string(g->buffer[b].name)) < 0)
            return DT_E_CACHE;
        all[i] = (struct numbered){b, v};
    }
    qsort(all, n, sizeof *all, by_buffer);
    for (i = 0; i < n; i++)
        json_incref(all[i].v);
    for (i = 0; i < n; i++)
        json_array_set_new(list, i, all[i].v);
    return 0;
}

static int store_footprints(json_t *list, const struct dt_graph *g, const uint32_t *canon)
{
    size_t i;
    json_t *v;
    json_array_foreach (list, i, v) {
        const char *name = json_string_value(json_object_get(v, "buffer"));
        uint32_t b = name ? dt_graph_find_buffer(g, name) : DT_NAME_NONE;
        if (b == DT_NAME_NONE || canon[b] == DT_NAME_NONE ||
            json_object_set_new(v, "buffer", json_integer(canon[b])) < 0)
            return DT_E_INTERNAL;
    }
    return 0;
}

static int footprints(json_t *doc, struct dt_graph *g, int (*fn)(json_t *, const struct dt_graph *, const uint32_t *))
{
    struct dt_canon canon;
    size_t i;
    json_t *l;
    bool some = false;
    json_array_foreach (json_object_get(doc, "launches"), i, l)
        some |= json_is_array(json_object_get(l, "footprints"));
    int r = some ? dt_graph_canon(g, &canon) : 0;
    json_array_foreach (json_object_get(doc, "launches"), i, l)
        if (r >= 0 && json_is_array(json_object_get(l, "footprints")))
            r = fn(json_object_get(l, "footprints"), g, canon.buffer);
    return r < 0 ? r : 0;
}

int dtd_warnings(json_t *doc, const struct dt_graph *g)
{
    struct dt_warnings w = {0};
    json_t *kernels = json_object_get(doc, "warnings"), *v;
    size_t i;
    dt_graph_warnings(g, &w);
    w.failed |= !w.list && !(w.list = json_array());
    json_array_foreach (kernels, i, v) {
        const char *name = json_string_value(json_object_get(v, "launch"));
        uint32_t l = name ? dt_graph_find_launch(g, name) : DT_NAME_NONE;
        if (l != DT_NAME_NONE && g->launch[l].kind == DT_KERNEL)
            w.failed |= json_object_set_new(v, "kernel", json_string(g->launch[l].entry)) < 0;
        w.failed |= json_array_append(w.list, v) < 0; /* each of the two kinds has its own limit */
    }
    w.left_out += (uint64_t)json_integer_value(json_object_get(doc, "warnings_left_out"));
    return dt_warnings_put(&w, doc);
}

/* Of another text: without what is only true of that one. */
static void other_text(json_t *doc, const char *digest)
{
    const char *of = json_string_value(json_object_get(doc, "warnings_of"));
    json_t *v;
    size_t i;
    bool other = of ? strcmp(of, digest) != 0 : json_object_get(doc, "rewrites") != NULL;
    if (other) {
        if (json_object_get(doc, "rewrites"))
            json_object_set_new(doc, "text_of_other", json_true());
        json_array_foreach (json_object_get(doc, "warnings"), i, v) {
            json_object_del(v, "line");
            json_object_del(v, "instruction");
            json_object_del(v, "place");
        }
    }
    json_object_del(doc, "warnings_of");
}

int dtd_plain(json_t *doc)
{
    size_t i;
    json_t *v;
    json_array_foreach (json_object_get(doc, "rewrites"), i, v) {
        json_t *reason = json_object_get(v, "reason");
        if (!json_is_string(reason))
            continue;
        dt_free_ char *text = dt_strdup(json_string_value(reason));
        if (!text || json_string_set(reason, dt_plain(text)) < 0)
            return DT_E_NOMEM;
    }
    return 0;
}

int dtd_lookup_signature(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *digest,
                         const char *signature, json_t **ret)
{
    dt_free_ char *policy = dtd_policy(l->opt, l->want);
    json_t *doc = NULL;
    struct cache_key k = {l->want, signature, l->device, l->toolchain, policy, l->searched};
    if (!c || !policy || cache_get(c, &k, &doc, NULL) != 1)
        return 0;
    other_text(doc, digest);
    int r = cache_rename(doc, g, true, NULL);
    if (r >= 0)
        r = footprints(doc, g, load_footprints);
    if (r == DT_E_CACHE && l->computed) /* of the signature that it stands under it is not */
        cache_unfit(c, l->want);
    if (r < 0 || own_buffers(doc, g) < 0 || dtd_warnings(doc, g) < 0 || dtd_plain(doc) < 0) {
        json_decref(doc);
        return 0;
    }
    *ret = doc;
    return 1;
}

int dtd_graph_get(struct cache *c, const char *digest, json_t **ret, struct dt_err *e)
{
    struct dt_graph *g = NULL;
    char is[DT_SHA256_TEXT] = "";
    json_t *doc = NULL;
    int r = cache_graph_get(c, digest, &doc, e);
    if (r != 1)
        return r;
    r = dt_graph_from_json(doc, &g, NULL);
    if (r >= 0)
        r = g->is_plan ? DT_E_CACHE : dt_graph_digest(g, is, NULL);
    dt_graph_free(g);
    if (r >= 0 && !strcmp(is, digest)) {
        *ret = doc;
        return 1;
    }
    json_decref(doc);
    if (r == DT_E_NOMEM)
        return dt_err_set(e, r, "out of memory");
    cache_graph_unfit(c, digest);
    return 0;
}

int dtd_lookup(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, char digest[DT_SHA256_TEXT],
               char signature[DT_SHA256_TEXT], json_t **ret)
{
    signature[0] = 0;
    int r = dt_graph_digest(g, digest, NULL);
    if (r < 0)
        return r;
    if (!c || cache_digest_get(c, digest, l->arch, signature, NULL) != 1) {
        signature[0] = 0;
        return 0;
    }
    return dtd_lookup_signature(c, l, g, digest, signature, ret);
}

int dtd_store(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *digest,
              const char *signature, const json_t *doc, json_t *recipe, json_t *factors, bool carried,
              const struct cache_out *out, struct dt_err *e)
{
    dt_free_ char *policy = dtd_policy(l->opt, l->want);
    json_t *copy = json_deep_copy(doc), *gj = dt_graph_to_json(g);
    int r = policy && copy && gj ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0)
        r = cache_rename(copy, g, false, e);
    if (r >= 0 && footprints(copy, g, store_footprints) < 0)
        r = dt_err_set(e, DT_E_INTERNAL, "a footprint names a buffer that no launch uses");
    if (r >= 0 && recipe && json_object_set(copy, "recipe", recipe) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0 && carried && json_object_set_new(copy, "carried", json_true()) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0 && (json_array_size(json_object_get(copy, "warnings")) || json_object_get(copy, "rewrites")) &&
        json_object_set_new(copy, "warnings_of", json_string(digest)) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0) {
        struct cache_key k = {l->want, signature, l->device, l->toolchain, policy};
        r = cache_put_out(c, &k, digest, copy, factors, out, e);
    }
    if (r >= 0)
        r = cache_digest_put(c, digest, l->arch, signature, gj, e);
    json_decref(copy);
    json_decref(gj);
    return r;
}
