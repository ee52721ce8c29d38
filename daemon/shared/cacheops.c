/* Operations on the cache: a table of them by name.
 *
 * Arguments come from a query or from a request frame. Their types, ranges and the spelling of signatures are checked
 * here, once. Permission is not: the service asks dtd_peer_admin() first, and a worker acts for the user who started
 * it.
 */
#include "daemon/shared/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/str.h"

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

/* The text that a member is, NULL where it is missing. */
static int text_of(const json_t *args, const char *name, const char **ret, struct dt_err *e)
{
    const json_t *v = json_object_get(args, name);
    if (v && (!json_is_string(v) || !json_string_length(v)))
        return dt_err_set(e, DT_E_USAGE, "%s takes a text", name);
    *ret = json_string_value(v);
    return 0;
}

#define MAX_SIGNATURES 256
/* `signature`: one, or a list of them. */
static int signatures_of(const json_t *args, const char *list[MAX_SIGNATURES], size_t *ret, struct dt_err *e)
{
    const json_t *v = json_object_get(args, "signature");
    size_t n = json_is_array(v) ? json_array_size(v) : v != NULL;
    if (n > MAX_SIGNATURES)
        return dt_err_set(e, DT_E_USAGE, "at most %d signatures may be selected", MAX_SIGNATURES);
    for (size_t i = 0; i < n; i++) {
        list[i] = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        if (!list[i] || !dt_sha256_ok(list[i]))
            return dt_err_set(e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
    }
    *ret = n;
    return 0;
}

static int op_export(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    const char *list[MAX_SIGNATURES];
    struct cache_select s = {.signature = list};
    json_int_t newer = -1, used = -1, hits = 0;
    unsigned uid = 0;
    char *bytes;
    size_t n;
    int own = uid_of(args, &uid, e), r = own < 0 ? own : signatures_of(args, list, &s.nsignature, e);
    if (r >= 0)
        r = text_of(args, "device", &s.device, e);
    if (r >= 0)
        r = cacheops_whole(args, "newer_than", -1, &newer, e);
    if (r >= 0)
        r = cacheops_whole(args, "used_within", -1, &used, e);
    if (r >= 0)
        r = cacheops_whole(args, "min_hits", 0, &hits, e);
    if (r < 0)
        return r;
    s.uid = own ? &uid : NULL;
    s.newer_than = newer;
    s.used_within = used;
    s.min_hits = hits;
    r = cache_export(c, &s, &bytes, &n, e);
    if (r < 0)
        return r;
    struct dt_str text = {0};
    dt_base64_encode((const uint8_t *)bytes, n, &text);
    free(bytes);
    *ret = text.failed ? NULL : json_pack("{s:s#}", "bundle", text.s, (int)text.len);
    dt_str_done(&text);
    return *ret ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
}

/* What is taken, of the members of `args`. *ret_signers is the caller's to free. */
static int intake_of(const json_t *args, struct cache_intake *how, struct sign_signers **ret_signers, struct dt_err *e)
{
    const char *file = NULL;
    json_int_t age = -1, bytes = 0;
    int r = text_of(args, "signers", &file, e);
    if (r >= 0)
        r = text_of(args, "require", &how->demand.signer, e);
    if (r >= 0)
        r = cacheops_whole(args, "max_age", -1, &age, e);
    if (r >= 0)
        r = cacheops_whole(args, "max_bytes", 0, &bytes, e);
    if (r >= 0 && file)
        r = sign_signers_read(file, ret_signers, e);
    if (r < 0)
        return r;
    how->require = how->demand.signer || json_is_true(json_object_get(args, "require_any"));
    if (!file && how->require)
        return dt_err_set(e, DT_E_USAGE, "a signer is required, and no file of signers says whom to believe");
    if (how->demand.signer && !sign_signers_has(*ret_signers, how->demand.signer))
        return dt_err_set(e, DT_E_USAGE, "%s is not among the signers of %s", how->demand.signer, file);
    how->demand.signers = *ret_signers;
    how->demand.now = time(NULL);
    how->demand.max_age = age;
    how->max_text = bytes && bytes < SIGN_BUNDLE_TEXT ? (size_t)bytes : SIGN_BUNDLE_TEXT;
    return 0;
}

static int op_import(struct cache *c, const json_t *args, json_t **ret, struct dt_err *e)
{
    const json_t *v = json_object_get(args, "bundle");
    const size_t n = json_string_length(v);
    struct cache_intake how = {0};
    struct sign_signers *signers = NULL;
    char origin[32];
    json_int_t uid = 0;
    int r = cacheops_whole(args, "uid", (json_int_t)getuid(), &uid, e);
    dt_free_ uint8_t *bytes = json_is_string(v) ? dt_malloc(dt_base64_room(n) + 1) : NULL;
    long len = bytes ? dt_base64_decode(json_string_value(v), n, bytes) : -1;
    if (r >= 0)
        r = len < 0 ? dt_err_set(e, DT_E_JSON, "the bundle is refused: it did not come as base64")
                    : intake_of(args, &how, &signers, e);
    snprintf(origin, sizeof origin, "uid %lld", (long long)uid);
    how.origin = origin;
    if (r >= 0)
        r = cache_import(c, (const char *)bytes, (size_t)len, &how, ret, e);
    sign_signers_free(signers);
    return r;
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
