/* Imported plans as recipes; owners of signatures.
 *
 * A plan that comes from elsewhere is a claim: its PTX may be anything, and running it shows mistakes but not malice,
 * since the PTX may wait for one particular input. So an import keeps two things of it and throws the rest away: the
 * recipe (which rewrites were made of which launches, rewrite/plan/recipe.c), and a digest of its modules and launches.
 * The worker that gets a graph of the key builds the plan anew out of the poster's kernels, by that recipe and through
 * the whole gate, and compares digests (daemon/worker/recipe.c). If they are equal, the plan becomes an entry like any
 * other, and the recipe is removed. If not, the request is a miss; the recipe stays with the reason, for people to see,
 * and is not tried again. A later import may replace a refused recipe, but not one that waits. A worker that is killed
 * over a recipe cannot refuse it, so it is refused after TRIES tries.
 *
 * The digest is over the document with canonical names (rename.c): launches in order, each with the PTX of its module
 * where that is used first, then other modules, then scratch buffers. Names of modules, times, words and machine code
 * have no part in it. The PTX of posted modules has: kernels that are equal except for their spelling have one
 * signature, and still the recipe does not hold for them.
 *
 * Owners are the users who posted a graph of a signature; an entry of several belongs to all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cache-priv.h"

#define RECIPE_MAX (4u << 20) /* bytes; more is kept aside unseen */
#define TRIES 3

/* ---- digests ----------------------------------------------------------------------------------------------------- */

static bool add_json(struct dt_sha256 *h, const json_t *v)
{
    dt_free_ char *text = dt_json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (text)
        dt_sha256_addstr(h, text);
    return text != NULL;
}

/* The module by number; its PTX where it has none yet. */
static bool add_module(struct dt_sha256 *h, const json_t *modules, json_t *seen, const char *name)
{
    const json_t *number = json_object_get(seen, name);
    if (number) {
        dt_sha256_addu64(h, (uint64_t)json_integer_value(number));
        return true;
    }
    const json_t *ptx = json_object_get(json_object_get(modules, name), "ptx");
    dt_sha256_addu64(h, json_object_size(seen));
    dt_sha256_addstr(h, json_is_string(ptx) ? json_string_value(ptx) : "");
    return json_object_set_new(seen, name, json_integer((json_int_t)json_object_size(seen))) == 0;
}

static bool add_plan(struct dt_sha256 *h, const json_t *plan)
{
    const json_t *modules = json_object_get(plan, "modules"), *scratch = json_object_get(plan, "scratch"), *v;
    json_t *seen = json_object(), *rest = json_object();
    const char *name;
    size_t i;
    bool ok = seen && rest;
    json_array_foreach (json_object_get(plan, "launches"), i, v) {
        json_t *l = ok && json_is_object(v) ? json_copy((json_t *)v) : NULL;
        const char *module = json_string_value(json_object_get(v, "module"));
        ok = ok && (l || !json_is_object(v));
        if (l && module)
            json_object_del(l, "module");
        ok = ok && add_json(h, l ? l : v) && (!module || add_module(h, modules, seen, module));
        json_decref(l);
    }
    json_object_foreach ((json_t *)modules, name, v) {
        const json_t *ptx = json_object_get(v, "ptx");
        if (ok && !json_object_get(seen, name))
            ok = json_object_set(rest, name, json_is_string(ptx) ? (json_t *)ptx : json_null()) == 0;
    }
    ok = ok && add_json(h, rest) && add_json(h, scratch ? scratch : rest);
    json_decref(seen);
    json_decref(rest);
    return ok;
}

int cache_plan_digest(const json_t *plan, char digest[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    if (!add_plan(&h, plan)) {
        dt_sha256_done(&h);
        return DT_E_NOMEM;
    }
    dt_sha256_final(&h, digest);
    return 0;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
#define KEY "signature = ?1 AND device = ?2 AND toolchain = ?3 AND policy = ?4"

static int row_sum(const struct cache_key *k, const char *digest, const char *body, char sum[DT_SHA256_TEXT])
{
    const char *text[] = {k->signature, k->device, k->toolchain, k->policy, digest, body};
    return cache_row_sum(text, 6, sum);
}

/* 1 a row is there, 0 not, negative: an SQLite error. */
static int any(struct cache *c, const char *sql, const char *const *text)
{
    sqlite3_stmt *s;
    int rc = cache_prepare(c, sql, text, 4, &s);
    if (rc != SQLITE_OK)
        return -rc;
    rc = sqlite3_step(s);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -rc;
}

int cache_recipe_put(struct cache *c, const struct cache_key *k, const json_t *plan, const char *origin,
                     struct dt_err *e)
{
    char digest[DT_SHA256_TEXT];
    if (cache_plan_digest(plan, digest) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a recipe");
    return cache_recipe_take(c, k, json_object_get(plan, "recipe"), digest, origin, e);
}

bool cache_recipe_from(struct cache *c, const struct cache_key *k, const char *origin)
{
    const char *text[] = {k->signature, k->device, k->toolchain, k->policy, origin};
    sqlite3_stmt *s;
    if (cache_prepare(c, "SELECT 1 FROM recipe WHERE state = 'recipe' AND origin = ?5 AND " KEY, text, 5, &s) !=
        SQLITE_OK)
        return false;
    bool there = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return there;
}

int cache_recipe_take(struct cache *c, const struct cache_key *k, const json_t *recipe, const char *digest,
                      const char *origin, struct dt_err *e)
{
    char sum[DT_SHA256_TEXT];
    dt_free_ char *body = dt_json_dumps(recipe, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!body)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a recipe");
    const bool large = strlen(body) > RECIPE_MAX;
    const char *kept = large ? "{}" : body, *text[] = {k->signature,
                                                       k->device,
                                                       k->toolchain,
                                                       k->policy,
                                                       digest,
                                                       kept,
                                                       sum,
                                                       origin,
                                                       large ? "refused" : "recipe",
                                                       large ? "it has more bytes than any recipe" : ""};
    if (row_sum(k, digest, kept, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a recipe");
    int there = any(c, "SELECT 1 FROM entry WHERE want = 'plan' AND carried = 0 AND " KEY, text);
    if (there == 0 && cache_run(c,
                                "INSERT INTO recipe (signature, device, toolchain, policy, digest, body, sha256, "
                                "origin, state, reason, created, tried, tries) "
                                "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, unixepoch(), 0, 0) ON CONFLICT DO "
                                "UPDATE SET digest = excluded.digest, body = excluded.body, "
                                "sha256 = excluded.sha256, origin = excluded.origin, state = excluded.state, reason = "
                                "excluded.reason, created = excluded.created, tried = 0, tries = 0 "
                                "WHERE state = 'refused' AND sha256 <> excluded.sha256",
                                text, 10) != SQLITE_OK)
        there = -1;
    return there < 0 ? cache_unwritable(c, e) : there ? 0 : sqlite3_changes(c->db) > 0;
}

/* Of a plan that is carried over. */
struct carry {
    json_t *recipe;
    char digest[DT_SHA256_TEXT];
};

static int take_carry(sqlite3_stmt *s, void *user)
{
    struct carry *y = user;
    const char *text[9];
    json_t *doc = NULL;
    for (int i = 0; i < 9; i++)
        text[i] = cache_column(s, i);
    int r = cache_row_check(text, 8);
    if (r == 1 && dt_json_load(text[6], strlen(text[6]), &doc, NULL) == 0 && cache_plan_digest(doc, y->digest) >= 0)
        y->recipe = json_incref(json_object_get(doc, "recipe"));
    json_decref(doc);
    return r;
}

int cache_recipe_carry(struct cache *c, const struct cache_key *k)
{
    static const char driver[] = "; driver ";
    const char *end = strstr(k->device, driver);
    dt_free_ char *model = dt_strdup(k->device);
    const char *text[] = {k->signature, k->device, k->toolchain, k->policy, model};
    struct carry y = {NULL};
    if (!model)
        return 0;
    if (end)
        model[end - k->device + (long)strlen(driver)] = 0;
    int r =
        cache_one(c,
                  end ? "SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry "
                        "WHERE want = 'plan' AND signature = ?1 AND policy = ?4 AND substr(device, 1, length(?5)) = "
                        "?5 AND carried = 0 AND NOT (device = ?2 AND toolchain = ?3) ORDER BY created DESC, id DESC "
                        "LIMIT 1"
                      : "SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry "
                        "WHERE want = 'plan' AND signature = ?1 AND policy = ?4 AND device = ?2 AND carried = 0 AND "
                        "toolchain <> ?3 ORDER BY created DESC, id DESC LIMIT 1",
                  text, end ? 5 : 4, take_carry, &y, NULL);
    if (r == 1)
        r = json_is_object(y.recipe) && cache_recipe_take(c, k, y.recipe, y.digest, "carried", NULL) >= 0 &&
            cache_recipe_from(c, k, "carried");
    json_decref(y.recipe);
    return r == 1;
}

int cache_recipe_get(struct cache *c, const struct cache_key *k, json_t **ret, char digest[DT_SHA256_TEXT])
{
    const char *text[] = {k->signature, k->device, k->toolchain, k->policy};
    char sum[DT_SHA256_TEXT];
    sqlite3_stmt *s;
    json_t *doc = NULL;
    bool often = false;
    if (cache_prepare(c, "SELECT digest, body, sha256, tries FROM recipe WHERE state = 'recipe' AND " KEY, text, 4,
                      &s) != SQLITE_OK)
        return 0;
    if (sqlite3_step(s) == SQLITE_ROW) {
        const char *d = cache_column(s, 0), *body = cache_column(s, 1);
        often = sqlite3_column_int64(s, 3) >= TRIES;
        if (dt_sha256_ok(d) && row_sum(k, d, body, sum) == 0 && !strcmp(sum, cache_column(s, 2)) &&
            dt_json_load(body, strlen(body), &doc, NULL) == 0)
            memcpy(digest, d, DT_SHA256_TEXT);
    }
    sqlite3_finalize(s);
    if (doc && often)
        cache_recipe_done(c, k, "planning by it was begun several times and did not come to an end");
    if (!doc || often ||
        cache_run(c, "UPDATE recipe SET tries = tries + 1, tried = unixepoch() WHERE " KEY, text, 4) != SQLITE_OK) {
        json_decref(doc);
        return 0;
    }
    *ret = doc;
    return 1;
}

void cache_recipe_done(struct cache *c, const struct cache_key *k, const char *reason)
{
    const char *text[] = {k->signature, k->device, k->toolchain, k->policy, reason};
    if (reason)
        cache_run(c, "UPDATE recipe SET state = 'refused', reason = ?5, tried = unixepoch() WHERE " KEY, text, 5);
    else
        cache_run(c, "DELETE FROM recipe WHERE " KEY, text, 4);
}

static json_t *recipe_json(sqlite3_stmt *s)
{
    static const char *const name[] = {"signature", "device", "toolchain", "policy",
                                       "digest",    "origin", "state",     "reason"};
    static const char *const figure[] = {"bytes", "created", "tried"};
    json_t *o = cache_row_json(s, 0, name, 8, figure, 3);
    for (int i = 0; o && i < 8; i++)
        if (!*cache_column(s, i))
            json_object_del(o, name[i]);
    return o;
}

int cache_recipes(struct cache *c, const char *signature, const unsigned *uid, unsigned limit, json_t **ret,
                  struct dt_err *e)
{
    char sql[600], own[CACHE_OWN_MAX];
    cache_own_sql("recipe", uid, own);
    snprintf(sql, sizeof sql,
             "SELECT signature, device, toolchain, policy, digest, origin, state, reason, length(CAST(body AS BLOB)), "
             "created, tried FROM recipe WHERE %s AND %s "
             "ORDER BY created DESC, id DESC LIMIT %u",
             signature ? "signature = ?1" : "1", own, limit);
    return cache_rows(c, sql, &signature, signature != NULL, recipe_json, ret, e);
}

/* ---- owners ------------------------------------------------------------------------------------------------------ */

void cache_own(struct cache *c, const char *signature, unsigned uid)
{
    char number[16];
    const char *text[] = {signature, number};
    snprintf(number, sizeof number, "%u", uid);
    if (uid != UINT32_MAX && dt_sha256_ok(signature))
        cache_run(c, "INSERT OR IGNORE INTO owner (signature, uid) VALUES (?1, CAST(?2 AS INTEGER))", text, 2);
}

bool cache_owned(struct cache *c, const char *signature, unsigned uid)
{
    char number[16];
    const char *text[] = {signature, number};
    sqlite3_stmt *s;
    snprintf(number, sizeof number, "%u", uid);
    if (uid == UINT32_MAX || cache_prepare(c, "SELECT 1 FROM owner WHERE signature = ?1 AND uid = CAST(?2 AS INTEGER)",
                                           text, 2, &s) != SQLITE_OK)
        return false;
    bool there = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return there;
}

void cache_own_sql(const char *table, const unsigned *uid, char out[CACHE_OWN_MAX])
{
    if (uid)
        snprintf(out, CACHE_OWN_MAX, "%s.signature IN (SELECT signature FROM owner WHERE uid = %u)", table, *uid);
    else
        snprintf(out, CACHE_OWN_MAX, "1");
}
