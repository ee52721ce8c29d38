/* Operations on the cache: a table of them by name.
 *
 * Arguments come from a query or from a request frame. Their types, ranges and the spelling of signatures are checked
 * here, once. Permission is not: the service asks dtd_peer_admin() first, and a worker acts for the user who started
 * it.
 */
#include "daemon/shared/shared.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A whole number that is not negative, `none` where it is missing. */
static int cacheops_whole(const json_t *args, const char *name, json_int_t none, json_int_t *ret, struct dt_err *e)
{
    const json_t *v = json_object_get(args, name);
    if (v && (!json_is_integer(v) || json_integer_value(v) < 0))
        return dt_err_set(e, DT_E_USAGE, "%s takes a whole number", name);
    *ret = v ? json_integer_value(v) : none;
    return 0;
}

static int signature_of(const json_t *args, const char **ret, struct dt_err *e)
{
    const json_t *v = json_object_get(args, "signature");
    if (v && (!json_is_string(v) || !dt_sha256_ok(json_string_value(v))))
        return dt_err_set(e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
    *ret = json_string_value(v);
    return 0;
}

/* The member `uid`: 1 and the user, 0: there is none. */
static int uid_of(const json_t *args, unsigned *ret, struct dt_err *e)
{
    json_int_t given = 0;
    int r = cacheops_whole(args, "uid", 0, &given, e);
    *ret = (unsigned)given;
    return r < 0 ? r : json_object_get(args, "uid") != NULL;
}

static int op_stats(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    *ret = cache_stats(c);
    return *ret ? 0 : dt_err_set(e, DT_E_CACHE, "the cache cannot be read");
}

static int op_list(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    const char *sig = NULL;
    json_int_t limit = 0;
    unsigned uid = 0;
    int r = cacheops_whole(args, "limit", 1000, &limit, e), own = uid_of(args, &uid, e);
    if (r >= 0)
        r = signature_of(args, &sig, e);
    if (r < 0 || own < 0)
        return r < 0 ? r : own;
    r = cache_list(c, sig, own ? &uid : NULL, limit && limit <= 100000 ? (unsigned)limit : 1000, ret, e);
    if (r >= 0 && sig && !json_array_size(json_object_get(*ret, "entries")) &&
        !json_array_size(json_object_get(*ret, "recipes"))) {
        json_decref(*ret);
        *ret = NULL;
        r = dt_err_set(e, DT_E_NOT_FOUND, "there is no entry with this signature");
    }
    return r;
}

static int op_verify(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    return cache_verify(c, ret, e);
}

static int op_gc(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    json_int_t age = -1, bytes = -1;
    int r = cacheops_whole(args, "max_age", -1, &age, e);
    if (r >= 0)
        r = cacheops_whole(args, "max_bytes", -1, &bytes, e);
    return r < 0 ? r : cache_gc(c, age, bytes, ret, e);
}

static int op_export(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    char *text;
    size_t n;
    unsigned uid = 0;
    int r = uid_of(args, &uid, e);
    if (r < 0)
        return r;
    r = cache_export(c, r ? &uid : NULL, &text, &n, e);
    if (r < 0)
        return r;
    *ret = json_pack("{s:o}", "bundle", json_stringn_nocheck(text, n)); /* made of JSON: it is UTF-8 */
    free(text);
    return *ret ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
}

static int op_import(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    const json_t *v = json_object_get(args, "bundle");
    if (!json_is_string(v))
        return dt_err_set(e, DT_E_JSON, "the bundle is refused: it is no UTF-8 text");
    char origin[32];
    json_int_t uid = 0;
    int r = cacheops_whole(args, "uid", (json_int_t)getuid(), &uid, e);
    snprintf(origin, sizeof origin, "uid %lld", (long long)uid);
    return r < 0 ? r : cache_import(c, json_string_value(v), json_string_length(v), origin, ret, e);
}

static int op_nearest(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    const char *sig = NULL, *want = json_string_value(json_object_get(args, "want"));
    unsigned uid = 0;
    int r = signature_of(args, &sig, e), own = uid_of(args, &uid, e);
    if (r < 0 || own < 0)
        return r < 0 ? r : own;
    if (!sig)
        return dt_err_set(e, DT_E_USAGE, "nearest takes a signature");
    struct cache_key k = {.want = want && !strcmp(want, "analysis") ? "analysis" : "plan", .signature = sig};
    r = own && !cache_owned(c, sig, uid) ? 0 : cache_nearest(c, &k, NULL, own ? &uid : NULL, ret, e);
    return r == 0  ? dt_err_set(e, DT_E_NOT_FOUND, "there is no %s with this signature, or no other to compare it with",
                                k.want)
           : r < 0 ? r
                   : 0;
}

int dtd_cache_op(struct cache *c, const char *op, const json_t *args, json_t **ret, struct dt_err *e)
{
    static const struct {
        const char *name;
        int (*fn)(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e);
    } ops[] = {{"stats", op_stats},   {"list", op_list},     {"verify", op_verify},  {"gc", op_gc},
               {"export", op_export}, {"import", op_import}, {"nearest", op_nearest}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, op))
            return ops[i].fn(c, args, ret, e);
    return dt_err_set(e, DT_E_USAGE, "the cache cannot %s", op);
}
