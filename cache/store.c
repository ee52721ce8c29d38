/* Documents by key, graphs and signatures by digest.
 *
 * Every call is its own transaction; writers of several processes wait for each other up to five seconds. A row carries
 * the SHA-256 of all it says, key included (row_sum): one that does not match, or whose body is no JSON, is deleted and
 * is a miss. When SQLite finds the file itself damaged, it is moved aside, a new one begins, and the call goes on as a
 * miss. Counting hits is best effort: a busy or read-only file never turns a hit into an error.
 *
 * Not here: what a document means, names (rename.c), when to evict.
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
#include "cache-priv.h"

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* Never in a folder that anybody may have made before: who has no home has no cache. */
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

int cache_open(const char *path, struct cache **ret, struct dt_err *e)
{
    struct cache *c = dt_calloc(1, sizeof *c);
    int r = 0;
    if (c)
        c->path = path && *path ? dt_strdup(path) : default_path();
    if (!c || !c->path) {
        free(c);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (strlen(c->path) > 4000)
        r = dt_err_set(e, DT_E_CACHE, "the path of the cache is too long");
    char *slash = strrchr(c->path, '/');
    if (r == 0 && slash && slash != c->path) {
        *slash = 0;
        r = dt_mkdirs(c->path, e);
        *slash = '/';
    }
    if (r == 0)
        r = cache_db_open(c, e);
    if (r < 0) {
        cache_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct cache *cache_close(struct cache *c)
{
    if (c) {
        cache_db_close(c);
        free(c->path);
        free(c);
    }
    return NULL;
}

/* ---- statements ---------------------------------------------------------------------------------------------- */

static int bind(sqlite3_stmt *s, const char *const *text, int n)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < n && rc == SQLITE_OK; i++)
        rc = sqlite3_bind_text64(s, i + 1, text[i], strlen(text[i]), SQLITE_STATIC, SQLITE_UTF8);
    return rc;
}

int cache_prepare(struct cache *c, const char *sql, const char *const *text, int n, sqlite3_stmt **ret)
{
    sqlite3_stmt *s = NULL;
    if (!c->db)
        return SQLITE_CANTOPEN;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = bind(s, text, n);
    if (rc != SQLITE_OK) {
        sqlite3_finalize(s);
        return rc;
    }
    *ret = s;
    return SQLITE_OK;
}

/* Run a statement that gives no rows. */
int cache_run(struct cache *c, const char *sql, const char *const *text, int n)
{
    sqlite3_stmt *s;
    int rc = cache_prepare(c, sql, text, n, &s);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(s);
    sqlite3_finalize(s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

const char *cache_column(sqlite3_stmt *s, int i)
{
    const unsigned char *t = sqlite3_column_text(s, i);
    return t ? (const char *)t : "";
}

static void count(struct cache *c, const char *want, const char *what)
{
    const char *text[] = {want, what};
    cache_run(c, "INSERT INTO counter (want, name, n) VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE SET n = n + 1", text, 2);
}

int cache_row_sum(const char *const *text, int n, char sum[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    for (int i = 0; i < n; i++)
        dt_sha256_addstr(&h, text[i]);
    dt_sha256_final(&h, sum);
    return 0;
}

/* Damage met: begin a new file. Returns 0 (go on as a miss) or the error. */
static int damaged(struct cache *c, struct dt_err *e) { return cache_db_replace(c, e); }

/* ---- documents ----------------------------------------------------------------------------------------------- */

#define COLUMNS "id, want, signature, device, toolchain, policy, digest, body, factors, sha256"

static bool delete_row(struct cache *c, sqlite3_int64 id)
{
    sqlite3_stmt *s;
    if (cache_prepare(c, "DELETE FROM entry WHERE id = ?1", NULL, 0, &s) != SQLITE_OK)
        return false;
    sqlite3_bind_int64(s, 1, id);
    int rc = sqlite3_step(s);
    sqlite3_finalize(s);
    return rc == SQLITE_DONE;
}

static void touch(struct cache *c, sqlite3_int64 id)
{
    sqlite3_stmt *s;
    if (cache_prepare(c, "UPDATE entry SET hits = hits + 1, used = unixepoch() WHERE id = ?1", NULL, 0, &s) !=
        SQLITE_OK)
        return;
    sqlite3_bind_int64(s, 1, id);
    sqlite3_step(s);
    sqlite3_finalize(s);
}

/* The document of the row that `s` stands on, without its recipe: 1 and *ret, or 0 when the row is damaged. */
static int row_document(sqlite3_stmt *s, json_t **ret, struct dt_err *e)
{
    const char *text[8];
    char sum[DT_SHA256_TEXT];
    json_t *doc;
    for (int i = 0; i < 8; i++)
        text[i] = cache_column(s, i + 1);
    if (cache_row_sum(text, 8, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (strcmp(sum, cache_column(s, 9)) || dt_json_load(text[6], strlen(text[6]), &doc, NULL) < 0)
        return 0;
    json_object_del(doc, "recipe");
    *ret = doc;
    return 1;
}

/* First sound row of a query over COLUMNS; damaged ones are deleted. 1, 0 or an error. */
static int first(struct cache *c, const char *want, const char *sql, const char *const *text, int n, json_t **ret,
                 sqlite3_int64 *ret_id, struct dt_err *e)
{
    for (;;) {
        sqlite3_stmt *s;
        int r = 0, rc = cache_prepare(c, sql, text, n, &s);
        sqlite3_int64 id = 0;
        if (rc == SQLITE_OK) {
            rc = sqlite3_step(s);
            if (rc == SQLITE_ROW) {
                id = sqlite3_column_int64(s, 0);
                r = row_document(s, ret, e);
            }
            sqlite3_finalize(s);
        }
        if (rc == SQLITE_DONE)
            return 0;
        if (cache_db_damaged(rc))
            return damaged(c, e);
        if (rc != SQLITE_ROW)
            return cache_db_error(c, "cannot be read", e);
        if (r != 0) {
            if (r > 0)
                *ret_id = id;
            return r;
        }
        count(c, want, "damaged");
        if (!delete_row(c, id))
            return 0; /* it cannot be deleted now: a miss all the same */
    }
}

int cache_get(struct cache *c, const struct cache_key *k, json_t **ret, struct dt_err *e)
{
    const char *text[] = {k->want, k->signature, k->device, k->toolchain, k->policy};
    sqlite3_int64 id;
    int r = first(c, k->want,
                  "SELECT " COLUMNS " FROM entry WHERE want = ?1 AND signature = ?2 AND device = ?3 AND toolchain = ?4 "
                  "AND policy = ?5",
                  text, 5, ret, &id, e);
    if (r > 0)
        touch(c, id);
    if (r >= 0)
        count(c, k->want, r ? "hits" : "misses");
    return r;
}

int cache_find(struct cache *c, const char *want, const char *signature, const char *device, json_t **ret,
               struct dt_err *e)
{
    const char *text[] = {want, signature, device ? device : ""};
    sqlite3_int64 id;
    return first(c, want,
                 device ? "SELECT " COLUMNS " FROM entry WHERE want = ?1 AND signature = ?2 AND device = ?3 "
                          "ORDER BY created DESC, id DESC LIMIT 1"
                        : "SELECT " COLUMNS " FROM entry WHERE want = ?1 AND signature = ?2 "
                          "ORDER BY created DESC, id DESC LIMIT 1",
                 text, device ? 3 : 2, ret, &id, e);
}

/* Run an insert; when the file proves damaged, once more in a new one. */
static int insert(struct cache *c, const char *sql, const char *const *text, int n, struct dt_err *e)
{
    int rc = cache_run(c, sql, text, n);
    if (cache_db_damaged(rc)) {
        int r = damaged(c, e);
        if (r < 0)
            return r;
        rc = cache_run(c, sql, text, n);
    }
    return rc == SQLITE_OK ? 0 : cache_db_error(c, "cannot be written", e);
}

/* JSON text that dt_json_load will take back. */
static int dump(json_t *doc, char **ret, struct dt_err *e)
{
    char *s = json_dumps(doc, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!s)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (strlen(s) > DT_MAX_DOCUMENT) {
        free(s);
        return dt_err_set(e, DT_E_TOO_LARGE, "the document is over %u bytes and is not kept", DT_MAX_DOCUMENT);
    }
    *ret = s;
    return 0;
}

int cache_put(struct cache *c, const struct cache_key *k, const char *digest, json_t *doc, json_t *factors,
              struct dt_err *e)
{
    dt_free_ char *body = NULL, *why = NULL;
    char sum[DT_SHA256_TEXT];
    int r;
    if ((r = dump(doc, &body, e)) < 0 || (factors && (r = dump(factors, &why, e)) < 0))
        return r;
    const char *text[] = {k->want, k->signature, k->device, k->toolchain, k->policy, digest, body, why ? why : "", sum};
    if (cache_row_sum(text, 8, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return insert(
        c,
        "INSERT INTO entry (want, signature, device, toolchain, policy, digest, body, factors, sha256, created, used) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, unixepoch(), unixepoch()) "
        "ON CONFLICT DO UPDATE SET digest = excluded.digest, body = excluded.body, factors = excluded.factors, "
        "sha256 = excluded.sha256, created = excluded.created, used = excluded.used",
        text, 9, e);
}

/* ---- digests ------------------------------------------------------------------------------------------------- */

int cache_digest_get(struct cache *c, const char *digest, const char *arch, char signature[DT_SHA256_TEXT],
                     struct dt_err *e)
{
    const char *text[] = {digest, arch};
    char sum[DT_SHA256_TEXT], found[DT_SHA256_TEXT] = "";
    sqlite3_stmt *s;
    bool sound = false;
    int rc = cache_prepare(c, "SELECT signature, sha256 FROM known WHERE digest = ?1 AND arch = ?2", text, 2, &s);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW) {
            const char *row[] = {digest, arch, cache_column(s, 0)};
            sound = dt_sha256_ok(row[2]) && cache_row_sum(row, 3, sum) == 0 && !strcmp(sum, cache_column(s, 1));
            if (sound)
                memcpy(found, row[2], DT_SHA256_TEXT);
        }
        sqlite3_finalize(s);
    }
    if (rc == SQLITE_DONE)
        return 0;
    if (cache_db_damaged(rc))
        return damaged(c, e);
    if (rc != SQLITE_ROW)
        return cache_db_error(c, "cannot be read", e);
    if (!sound) {
        cache_run(c, "DELETE FROM known WHERE digest = ?1 AND arch = ?2", text, 2);
        return 0;
    }
    memcpy(signature, found, DT_SHA256_TEXT);
    return 1;
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

int cache_graph_get(struct cache *c, const char *digest, json_t **ret, struct dt_err *e)
{
    const char *text[] = {digest};
    char sum[DT_SHA256_TEXT];
    sqlite3_stmt *s;
    json_t *doc = NULL;
    int rc = cache_prepare(c, "SELECT body, sha256 FROM graph WHERE digest = ?1", text, 1, &s);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW) {
            const char *row[] = {digest, cache_column(s, 0)};
            if (cache_row_sum(row, 2, sum) == 0 && !strcmp(sum, cache_column(s, 1)))
                dt_json_load(row[1], strlen(row[1]), &doc, NULL);
        }
        sqlite3_finalize(s);
    }
    if (rc == SQLITE_DONE)
        return 0;
    if (cache_db_damaged(rc))
        return damaged(c, e);
    if (rc != SQLITE_ROW)
        return cache_db_error(c, "cannot be read", e);
    if (!doc) {
        cache_run(c, "DELETE FROM graph WHERE digest = ?1", text, 1);
        return 0;
    }
    *ret = doc;
    return 1;
}

/* ---- figures ------------------------------------------------------------------------------------------------- */

static json_t *member(json_t *obj, const char *key)
{
    json_t *v = json_object_get(obj, key);
    if (!v)
        json_object_set_new(
            obj, key,
            v = json_pack("{s:i, s:i, s:i, s:i, s:i}", "entries", 0, "bytes", 0, "hits", 0, "misses", 0, "damaged", 0));
    return v;
}

static void add(json_t *obj, const char *key, sqlite3_int64 n)
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
        add(all, keys[i], 0);
    member(by, "analysis");
    member(by, "plan");
    if (cache_prepare(c, "SELECT want, count(*), sum(length(CAST(body AS BLOB))) FROM entry GROUP BY want", NULL, 0,
                      &s) == SQLITE_OK) {
        while (sqlite3_step(s) == SQLITE_ROW) {
            add(member(by, cache_column(s, 0)), "entries", sqlite3_column_int64(s, 1));
            add(member(by, cache_column(s, 0)), "bytes", sqlite3_column_int64(s, 2));
        }
        sqlite3_finalize(s);
    }
    if (cache_prepare(c, "SELECT want, name, n FROM counter", NULL, 0, &s) == SQLITE_OK) {
        while (sqlite3_step(s) == SQLITE_ROW)
            add(member(by, cache_column(s, 0)), cache_column(s, 1), sqlite3_column_int64(s, 2));
        sqlite3_finalize(s);
    }
    json_object_foreach (by, want, v)
        for (size_t i = 0; i < 5; i++)
            add(all, keys[i], json_integer_value(json_object_get(v, keys[i])));
    if (cache_prepare(c, "SELECT count(*) FROM graph", NULL, 0, &s) == SQLITE_OK) {
        if (sqlite3_step(s) == SQLITE_ROW)
            add(all, "graphs", sqlite3_column_int64(s, 0));
        sqlite3_finalize(s);
    }
    for (enum cache_kept k = 0; k < CACHE_KEPT; k++) {
        int64_t rows, bytes;
        cache_kept_size(c, k, &rows, &bytes);
        json_object_set_new(all, k == CACHE_TRIALS ? "trials" : "footprints",
                            json_pack("{s:I, s:I}", "rows", (json_int_t)rows, "bytes", (json_int_t)bytes));
    }
    json_object_set_new(all, "path", json_string(c->path));
    json_object_set_new(all, "by_want", by);
    return all;
}
