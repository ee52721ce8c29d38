/* What is due: stored graphs without an up-to-date plan for a device and toolchain, in the order in which planning them
 * promises most; the times of their plans; reports of nights.
 *
 * Up to date is a plan under the very device and toolchain that was searched for there. One that was carried over from
 * another toolchain (its recipe was made and verified anew, nothing was searched; daemon/worker/plan.c) serves, and is
 * due all the same.
 *
 * The order is uses times savings: how often plans of the graph, for whatever device, were asked for, and how many
 * microseconds the best of them saves. What is not known of a plan counts as nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cache-priv.h"

#define NIGHTS 30 /* reports that are kept of a service */

/* CROSS JOIN: from the graph to its signatures to their plans, and not through all plans there are. */
#define FRESH                                                                                                          \
    "EXISTS (SELECT 1 FROM known k CROSS JOIN entry n ON n.signature = k.signature WHERE k.digest = graph.digest AND " \
    "k.arch = ?1 AND n.want = 'plan' AND n.device = ?2 AND n.toolchain = ?3 AND n.carried = 0)"
#define STALE                                                                                                          \
    "EXISTS (SELECT 1 FROM known k CROSS JOIN entry n ON n.signature = k.signature WHERE k.digest = graph.digest AND " \
    "n.want = 'plan' AND n.device = ?2 AND (n.toolchain <> ?3 OR n.carried = 1))"

static json_t *digest_json(sqlite3_stmt *s) { return json_string(cache_column(s, 0)); }

int cache_stale(struct cache *c, const char *arch, const char *device, const char *toolchain, bool stale,
                const unsigned *uid, unsigned limit, json_t **ret, struct dt_err *e)
{
    const char *text[] = {arch, device, toolchain};
    char sql[1200], own[CACHE_OWN_MAX];
    cache_own_sql("k", uid, own);
    snprintf(sql, sizeof sql,
             "SELECT digest FROM graph WHERE NOT " FRESH " AND (%d OR " STALE ") AND (%d OR EXISTS (SELECT 1 FROM "
             "known k WHERE k.digest = graph.digest AND %s)) ORDER BY created DESC, digest LIMIT %u",
             !stale, !uid, own, limit);
    return cache_rows(c, sql, text, 3, digest_json, ret, e);
}

static json_t *due_json(sqlite3_stmt *s)
{
    return json_pack("{s:s, s:I, s:s}", "graph", cache_column(s, 0), "rank", (json_int_t)sqlite3_column_int64(s, 1),
                     "reason", sqlite3_column_int(s, 2) ? "stale" : "missing");
}

int cache_overdue(struct cache *c, const char *arch, const char *device, const char *toolchain, const unsigned *uid,
                  unsigned limit, json_t **ret, struct dt_err *e)
{
    const char *text[] = {arch, device, toolchain};
    char sql[1600], own[CACHE_OWN_MAX];
    cache_own_sql("k", uid, own);
    snprintf(
        sql, sizeof sql,
        "SELECT graph.digest, CAST(u.uses * (1 + u.saves) * 100 AS INTEGER) AS rank, " STALE
        " FROM graph JOIN (SELECT k.digest AS digest, sum(n.hits) + 1 AS uses, max(0, max(n.before_us - n.after_us)) "
        "AS saves FROM known k JOIN entry n ON n.signature = k.signature WHERE n.want = 'plan' AND (%d OR %s) "
        "GROUP BY k.digest) u ON u.digest = graph.digest WHERE NOT " FRESH
        " ORDER BY rank DESC, graph.created DESC, graph.digest LIMIT %u",
        !uid, own, limit);
    return cache_rows(c, sql, text, 3, due_json, ret, e);
}

int cache_times(struct cache *c, const struct cache_due *d, bool former, struct cache_times *ret)
{
    const char *text[] = {d->graph, d->arch, d->device, d->toolchain};
    sqlite3_stmt *s;
    *ret = (struct cache_times){0};
    if (cache_prepare(c,
                      former ? "SELECT n.before_us, n.after_us, k.signature FROM known k JOIN entry n ON n.signature = "
                               "k.signature WHERE k.digest = ?1 AND k.arch = ?2 AND n.want = 'plan' AND n.device = ?3 "
                               "AND (n.toolchain <> ?4 OR n.carried = 1) ORDER BY n.created DESC, n.id DESC LIMIT 1"
                             : "SELECT n.before_us, n.after_us, k.signature FROM known k JOIN entry n ON n.signature = "
                               "k.signature WHERE k.digest = ?1 AND k.arch = ?2 AND n.want = 'plan' AND n.device = ?3 "
                               "AND n.toolchain = ?4 ORDER BY n.created DESC, n.id DESC LIMIT 1",
                      text, 4, &s) != SQLITE_OK)
        return 0;
    int found = sqlite3_step(s) == SQLITE_ROW;
    if (found) {
        ret->before_us = sqlite3_column_double(s, 0);
        ret->after_us = sqlite3_column_double(s, 1);
        snprintf(ret->signature, sizeof ret->signature, "%s", cache_column(s, 2));
    }
    sqlite3_finalize(s);
    return found;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

int cache_night_put(struct cache *c, const char *service, int64_t id, const char *body, int64_t *ret_id,
                    struct dt_err *e)
{
    char number[24], sum[DT_SHA256_TEXT], sql[200];
    const char *text[] = {service, body, sum, number};
    snprintf(number, sizeof number, "%lld", (long long)id);
    if (cache_row_sum(text, 2, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int rc = cache_run(c,
                       id ? "UPDATE night SET body = ?2, sha256 = ?3 WHERE service = ?1 AND id = CAST(?4 AS INTEGER)"
                          : "INSERT INTO night (service, body, sha256) VALUES (?1, ?2, ?3)",
                       text, id ? 4 : 3);
    if (rc != SQLITE_OK)
        return cache_unwritable(c, e);
    *ret_id = id ? id : sqlite3_last_insert_rowid(c->db);
    snprintf(sql, sizeof sql,
             "DELETE FROM night WHERE service = ?1 AND id <= (SELECT id FROM night WHERE service = ?1 ORDER BY id DESC "
             "LIMIT 1 OFFSET %d)",
             NIGHTS);
    cache_run(c, sql, text, 1);
    return 0;
}

struct stored_night {
    json_t *doc;
    int64_t id;
};

static int take_night(sqlite3_stmt *s, void *user)
{
    struct stored_night *n = user;
    const char *text[] = {cache_column(s, 0), cache_column(s, 1), cache_column(s, 2)};
    int r = cache_row_check(text, 2);
    n->id = sqlite3_column_int64(s, 3);
    return r == 1 && dt_json_load(text[1], strlen(text[1]), &n->doc, NULL) < 0 ? 0 : r;
}

int cache_night_get(struct cache *c, const char *service, json_t **ret, int64_t *ret_id, struct dt_err *e)
{
    struct stored_night n = {0};
    *ret = NULL;
    int r = cache_one(c, "SELECT service, body, sha256, id FROM night WHERE service = ?1 ORDER BY id DESC LIMIT 1",
                      &service, 1, take_night, &n, e);
    if (r != 1)
        return r == CACHE_UNSOUND ? 0 : r;
    *ret = n.doc;
    *ret_id = n.id;
    return 1;
}
