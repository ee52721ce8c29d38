/* Documents by key; graphs and signatures by digest.
 *
 * Every call is a transaction of its own. Writers of several processes wait for each other, up to five seconds. A row
 * carries the SHA-256 of all its columns, key included (row.c). A row that does not match, whose body is no JSON, or
 * whose document names another signature, is set aside and is a miss; so is one that a caller finds to be of another
 * graph. When SQLite finds the file itself damaged, the file is moved aside, a new one begins, and the
 * call goes on as a miss. Counting hits is best effort: a busy or read-only file never turns a hit into an error.
 *
 * Not here: what a document means, names (rename.c), when to evict (entries.c).
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "cache-priv.h"

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* Never in a folder that another user may have made: without a home there is no cache. */
static char *default_path(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const struct passwd *own = home && *home ? NULL : getpwuid(geteuid());
    char *s = NULL;
    int n = xdg && *xdg == '/' ? asprintf(&s, "%s/dovetail/cache.db", xdg)
                               : asprintf(&s, "%s/.cache/dovetail/cache.db",
                                          own             ? own->pw_dir
                                          : home && *home ? home
                                                          : "/nonexistent");
    return n < 0 ? NULL : s;
}

char *cache_path_of(const char *path) { return path && *path ? dt_strdup(path) : default_path(); }

/* A handle, not yet open. */
static int cache_new(const char *path, struct cache **ret, struct dt_err *e)
{
    struct cache *c = dt_calloc(1, sizeof *c);
    if (c) {
        c->path = cache_path_of(path);
        c->state = cache_state_new();
    }
    if (!c || !c->path || !c->state) {
        cache_close(c);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (strlen(c->path) > 4000) {
        cache_close(c);
        return dt_err_set(e, DT_E_CACHE, "the path of the cache is too long");
    }
    *ret = c;
    return 0;
}

int cache_open(const char *path, struct cache **ret, struct dt_err *e)
{
    struct cache *c = NULL;
    int r = cache_new(path, &c, e);
    if (r < 0 || (r = cache_db_open(c, e)) < 0) {
        cache_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

int cache_hold(const char *path, struct cache **ret, struct dt_err *why)
{
    struct cache *c = NULL;
    int r = cache_new(path, &c, why);
    if (r < 0)
        return r;
    c->hold = true;
    *ret = c;
    return cache_db_open(c, why) == 0;
}

struct cache *cache_close(struct cache *c)
{
    if (c) {
        cache_keeper_stop(c->keeper);
        sqlite3_finalize(c->version);
        cache_db_close(c);
        cache_state_free(c->state);
        free(c->path);
        free(c);
    }
    return NULL;
}

/* ---- documents ----------------------------------------------------------------------------------------------- */

static void store_count(struct cache *c, const char *want, const char *what)
{
    const char *text[] = {want, what};
    cache_run(c, "INSERT INTO counter (want, name, n) VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE SET n = n + 1", text, 2);
}

#define COLUMNS "id, want, signature, device, toolchain, policy, digest, body, factors, sha256"

static bool drop_entry(struct cache *c, sqlite3_int64 id)
{
    char number[24];
    const char *text[] = {number};
    snprintf(number, sizeof number, "%lld", (long long)id);
    return cache_row_aside(c, "entry", "id = CAST(?1 AS INTEGER)", text, 1);
}

static void store_touch(struct cache *c, sqlite3_int64 id)
{
    sqlite3_stmt *s;
    if (cache_prepare(c, "UPDATE entry SET hits = hits + 1, used = unixepoch() WHERE id = ?1", NULL, 0, &s) !=
        SQLITE_OK)
        return;
    sqlite3_bind_int64(s, 1, id);
    sqlite3_step(s);
    sqlite3_finalize(s);
}

struct document { /* of a row over COLUMNS */
    sqlite3_int64 id;
    json_t *doc; /* without its recipe */
    char sum[DT_SHA256_TEXT];
};

static void store_last(struct cache *c, sqlite3_int64 id, const char *sum)
{
    c->last_id = id;
    snprintf(c->last_sum, sizeof c->last_sum, "%s", sum);
}

bool cache_document_of(const json_t *doc, const char *want, const char *signature)
{
    const char *says = dt_json_text(doc, "signature");
    return (strcmp(want, "plan") && strcmp(want, "analysis")) || !dt_sha256_ok(says) || !strcmp(says, signature);
}

static int take_document(sqlite3_stmt *s, void *user)
{
    struct document *d = user;
    const char *text[9];
    for (int i = 0; i < 9; i++)
        text[i] = cache_column(s, i + 1);
    d->id = sqlite3_column_int64(s, 0);
    int r = cache_row_check(text, 8);
    int bad = r == 1 ? dt_json_load(text[6], strlen(text[6]), &d->doc, NULL) : 0;
    if (bad < 0)
        r = bad == DT_E_NOMEM ? bad : 0;
    if (r == 1 && !cache_document_of(d->doc, text[0], text[1])) {
        json_decref(d->doc);
        d->doc = NULL;
        r = 0;
    }
    if (r == 1) {
        json_object_del(d->doc, "recipe");
        json_object_del(d->doc, "carried");
        snprintf(d->sum, sizeof d->sum, "%s", text[8]);
    }
    return r;
}

/* First sound row of a query over COLUMNS; damaged ones are deleted. 1, 0 or an error. */
static int first(struct cache *c, const char *want, const char *sql, const char *const *text, int n,
                 struct document *ret, struct dt_err *e)
{
    for (;;) {
        int r = cache_one(c, sql, text, n, take_document, ret, e);
        if (r == 1)
            store_last(c, ret->id, ret->sum);
        if (r != CACHE_UNSOUND)
            return r;
        if (c->reader)
            return 0;
        store_count(c, want, "damaged");
        if (!drop_entry(c, ret->id))
            return 0; /* it cannot be deleted now: a miss all the same */
    }
}

int cache_get(struct cache *c, const struct cache_key *k, json_t **ret, struct dt_err *e)
{
    const char *text[] = {k->want, k->signature, k->device, k->toolchain, k->policy, k->searched ? "0" : "1"};
    struct document d;
    store_last(c, 0, "");
    int r = first(c, k->want,
                  "SELECT " COLUMNS " FROM entry WHERE want = ?1 AND signature = ?2 AND device = ?3 AND toolchain = ?4 "
                  "AND policy = ?5 AND carried <= CAST(?6 AS INTEGER)",
                  text, 6, &d, e);
    if (r > 0) {
        if (!c->reader)
            store_touch(c, d.id);
        *ret = d.doc;
    }
    if (r >= 0 && !c->reader)
        store_count(c, k->want, r ? "hits" : "misses");
    return r;
}

void cache_unfit(struct cache *c, const char *want)
{
    if (c->reader || !c->last_id)
        return;
    store_count(c, want, "damaged");
    drop_entry(c, c->last_id);
    store_last(c, 0, "");
}

void cache_graph_unfit(struct cache *c, const char *digest)
{
    if (!c->reader)
        cache_row_aside(c, "graph", "digest = ?1", &digest, 1);
}

int cache_find(struct cache *c, const char *want, const char *signature, const char *device, json_t **ret,
               struct dt_err *e)
{
    const char *text[] = {want, signature, device ? device : ""};
    struct document d;
    int r = first(c, want,
                  device ? "SELECT " COLUMNS " FROM entry WHERE want = ?1 AND signature = ?2 AND device = ?3 "
                           "ORDER BY created DESC, id DESC LIMIT 1"
                         : "SELECT " COLUMNS " FROM entry WHERE want = ?1 AND signature = ?2 "
                           "ORDER BY created DESC, id DESC LIMIT 1",
                  text, device ? 3 : 2, &d, e);
    if (r > 0)
        *ret = d.doc;
    return r;
}

static json_t *toolchain_json(sqlite3_stmt *s) { return json_string(cache_column(s, 0)); }

int cache_toolchains(struct cache *c, const struct cache_key *k, json_t **ret, struct dt_err *e)
{
    const char *text[] = {k->want, k->signature, k->device, k->policy, k->toolchain};
    return cache_rows(c,
                      "SELECT toolchain FROM entry WHERE want = ?1 AND signature = ?2 AND device = ?3 AND policy = ?4 "
                      "AND toolchain <> ?5 ORDER BY created DESC, id DESC LIMIT 16",
                      text, 5, toolchain_json, ret, e);
}

/* Run an insert; when the file proves damaged, once more in a new one. */
static int insert(struct cache *c, const char *sql, const char *const *text, int n, struct dt_err *e)
{
    int rc = cache_run(c, sql, text, n);
    if (cache_db_damaged(rc)) {
        int r = cache_db_replace(c, e);
        if (r < 0)
            return r;
        rc = cache_run(c, sql, text, n);
    }
    return rc == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

/* JSON text that dt_json_load will take back. */
static int dump(json_t *doc, char **ret, struct dt_err *e)
{
    char *s = dt_json_dumps(doc, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!s)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (strlen(s) > DT_MAX_DOCUMENT) {
        free(s);
        return dt_err_set(e, DT_E_TOO_LARGE, "the document is over %u bytes and is not kept", DT_MAX_DOCUMENT);
    }
    *ret = s;
    return 0;
}

/* The row of an entry; `sum` becomes its checksum. Times are beside the document, so that what is due can be put in
 * order without reading it. */
static int store_entry(struct cache *c, const struct cache_key *k, const char *digest, const json_t *doc,
                       const char *body, const char *why, char sum[DT_SHA256_TEXT], struct dt_err *e)
{
    char before[32], after[32];
    const char *text[] = {k->want,      k->signature,   k->device,
                          k->toolchain, k->policy,      digest,
                          body,         why ? why : "", sum,
                          before,       after,          json_is_true(json_object_get(doc, "carried")) ? "1" : "0"};
    snprintf(before, sizeof before, "%.9g",
             json_number_value(json_object_get(json_object_get(doc, "baseline"), "time_us")));
    snprintf(after, sizeof after, "%.9g",
             json_number_value(json_object_get(json_object_get(doc, "optimized"), "time_us")));
    if (cache_row_sum(text, 8, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return insert(
        c,
        "INSERT INTO entry (want, signature, device, toolchain, policy, digest, body, factors, sha256, created, used, "
        "before_us, after_us, carried) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, unixepoch(), unixepoch(), "
        "CAST(?10 AS REAL), CAST(?11 AS REAL), CAST(?12 AS INTEGER)) "
        "ON CONFLICT DO UPDATE SET digest = excluded.digest, body = excluded.body, factors = excluded.factors, "
        "sha256 = excluded.sha256, created = excluded.created, used = excluded.used, before_us = excluded.before_us, "
        "after_us = excluded.after_us, carried = excluded.carried",
        text, 12, e);
}

int cache_put_out(struct cache *c, const struct cache_key *k, const char *digest, json_t *doc, json_t *factors,
                  const struct cache_out *out, struct dt_err *e)
{
    dt_free_ char *body = NULL, *why = NULL;
    char sum[DT_SHA256_TEXT];
    int r;
    store_last(c, 0, "");
    if ((r = dump(doc, &body, e)) < 0 || (factors && (r = dump(factors, &why, e)) < 0))
        return r;
    if (out) {
        int rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0);
        if (cache_db_damaged(rc) && (r = cache_db_replace(c, e)) >= 0)
            rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0);
        if (rc != SQLITE_OK)
            return r < 0 ? r : cache_unwritable(c, e);
    }
    r = store_entry(c, k, digest, doc, body, why, sum, e);
    if (r >= 0 && out)
        r = cache_outbox_put(c, k, doc, out, e);
    /* a file that was replaced meanwhile has no transaction any more, and both rows */
    if (r >= 0 && out && !sqlite3_get_autocommit(c->db) && cache_run(c, "COMMIT", NULL, 0) != SQLITE_OK)
        r = cache_unwritable(c, e);
    if (r < 0 && out)
        cache_rollback(c);
    if (r >= 0)
        store_last(c, 0, sum);
    return r;
}

int cache_put(struct cache *c, const struct cache_key *k, const char *digest, json_t *doc, json_t *factors,
              struct dt_err *e)
{
    return cache_put_out(c, k, digest, doc, factors, NULL, e);
}

/* ---- digests ------------------------------------------------------------------------------------------------- */

struct known { /* a row of that table */
    const char *digest, *arch;
    char *signature;
};

static int take_signature(sqlite3_stmt *s, void *user)
{
    const struct known *k = user;
    const char *text[] = {k->digest, k->arch, cache_column(s, 0), cache_column(s, 1)};
    int r = dt_sha256_ok(text[2]) ? cache_row_check(text, 3) : 0;
    if (r == 1)
        memcpy(k->signature, text[2], DT_SHA256_TEXT);
    return r;
}

int cache_digest_get(struct cache *c, const char *digest, const char *arch, char signature[DT_SHA256_TEXT],
                     struct dt_err *e)
{
    const char *text[] = {digest, arch};
    struct known k = {digest, arch, signature};
    int r = cache_one(c, "SELECT signature, sha256 FROM known WHERE digest = ?1 AND arch = ?2", text, 2, take_signature,
                      &k, e);
    if (r != CACHE_UNSOUND)
        return r;
    cache_row_aside(c, "known", "digest = ?1 AND arch = ?2", text, 2);
    return 0;
}

int cache_digest_put(struct cache *c, const char *digest, const char *arch, const char *signature, json_t *graph,
                     struct dt_err *e)
{
    const char *row[] = {digest, arch, signature, NULL};
    char sum[DT_SHA256_TEXT];
    int r;
    if (!dt_sha256_ok(signature) || !dt_sha256_ok(digest))
        return dt_err_set(e, DT_E_INTERNAL, "a digest or signature that is no SHA-256");
    if (cache_row_sum(row, 3, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    row[3] = sum;
    r = insert(c, "INSERT OR REPLACE INTO known (digest, arch, signature, sha256) VALUES (?1, ?2, ?3, ?4)", row, 4, e);
    if (r < 0 || !graph)
        return r;
    dt_free_ char *body = NULL;
    if ((r = dump(graph, &body, e)) < 0)
        return r;
    const char *kept[] = {digest, body, sum};
    if (cache_row_sum(kept, 2, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return insert(c, "INSERT OR IGNORE INTO graph (digest, body, sha256, created) VALUES (?1, ?2, ?3, unixepoch())",
                  kept, 3, e);
}

struct graph { /* a row of that table */
    const char *digest;
    json_t *doc;
};

static int take_graph(sqlite3_stmt *s, void *user)
{
    struct graph *g = user;
    const char *text[] = {g->digest, cache_column(s, 0), cache_column(s, 1)};
    int r = cache_row_check(text, 2);
    int bad = r == 1 ? dt_json_load(text[1], strlen(text[1]), &g->doc, NULL) : 0;
    return bad < 0 ? bad == DT_E_NOMEM ? bad : 0 : r;
}

int cache_graph_get(struct cache *c, const char *digest, json_t **ret, struct dt_err *e)
{
    struct graph g = {.digest = digest};
    int r = cache_one(c, "SELECT body, sha256 FROM graph WHERE digest = ?1", &digest, 1, take_graph, &g, e);
    if (r == 1)
        *ret = g.doc;
    if (r != CACHE_UNSOUND)
        return r;
    cache_row_aside(c, "graph", "digest = ?1", &digest, 1);
    return 0;
}

/* ---- figures ------------------------------------------------------------------------------------------------- */

static json_t *store_member(json_t *obj, const char *key)
{
    json_t *v = json_object_get(obj, key);
    if (!v)
        json_object_set_new(
            obj, key,
            v = json_pack("{s:i, s:i, s:i, s:i, s:i}", "entries", 0, "bytes", 0, "hits", 0, "misses", 0, "damaged", 0));
    return v;
}

static void store_add(json_t *obj, const char *key, sqlite3_int64 n)
{
    json_object_set_new(obj, key, json_integer(json_integer_value(json_object_get(obj, key)) + n));
}

json_t *cache_stats(struct cache *c)
{
    static const char *const keys[] = {"entries", "bytes", "hits", "misses", "damaged"};
    json_t *all = json_object(), *by = json_object(), *v;
    const char *want;
    sqlite3_stmt *s;
    for (size_t i = 0; i < 5; i++)
        store_add(all, keys[i], 0);
    store_member(by, "analysis");
    store_member(by, "plan");
    if (cache_prepare(c, "SELECT want, count(*), sum(length(CAST(body AS BLOB))) FROM entry GROUP BY want", NULL, 0,
                      &s) == SQLITE_OK) {
        while (sqlite3_step(s) == SQLITE_ROW) {
            store_add(store_member(by, cache_column(s, 0)), "entries", sqlite3_column_int64(s, 1));
            store_add(store_member(by, cache_column(s, 0)), "bytes", sqlite3_column_int64(s, 2));
        }
        sqlite3_finalize(s);
    }
    if (cache_prepare(c, "SELECT want, name, n FROM counter WHERE want <> ''", NULL, 0, &s) == SQLITE_OK) {
        while (sqlite3_step(s) == SQLITE_ROW)
            store_add(store_member(by, cache_column(s, 0)), cache_column(s, 1), sqlite3_column_int64(s, 2));
        sqlite3_finalize(s);
    }
    json_object_foreach (by, want, v)
        for (size_t i = 0; i < 5; i++)
            store_add(all, keys[i], json_integer_value(json_object_get(v, keys[i])));
    store_add(all, "graphs", cache_number(c, "SELECT count(*) FROM graph"));
    for (enum cache_kept k = 0; k < CACHE_KEPT; k++) {
        int64_t rows, bytes;
        cache_kept_size(c, k, &rows, &bytes);
        json_object_set_new(all, k == CACHE_TRIALS ? "trials" : "footprints",
                            json_pack("{s:I, s:I}", "rows", (json_int_t)rows, "bytes", (json_int_t)bytes));
    }
    int64_t replies, reply_bytes;
    cache_reply_size(c, &replies, &reply_bytes);
    json_object_set_new(all, "replies",
                        json_pack("{s:I, s:I}", "rows", (json_int_t)replies, "bytes", (json_int_t)reply_bytes));
    json_object_set_new(all, "store", cache_figures_json(c));
    json_object_set_new(all, "path", json_string(c->path));
    json_object_set_new(all, "by_want", by);
    return all;
}
