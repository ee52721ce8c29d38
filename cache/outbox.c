/* The outbox (table outbox): recipes of plans, with their keys, that wait to be sent to the cluster.
 *
 *              with its entry             sent
 *   (none) ───────────────────▶ waiting ────────▶ (gone)
 *                                 │   ▲
 *             refused for the     │   │ refused, and tried again later
 *             third time          ▼   │
 *                               parked        kept with the reason; the others are sent all the same
 *
 * A finished plan is written by a worker, which has no network and does not wait for one. What other hosts need of it
 * goes into this table in the same transaction: after a crash either both are there or neither is. From then on the row
 * stands for itself, so that the entry may be evicted before the row is sent. There is one row for a key. A newer
 * result takes its place under a new number, so that the answer to the older one, which may be on its way, does not
 * remove it.
 *
 * The table is bounded: over ROWS rows or BYTES bytes the parked ones go first, then the oldest. That is counted: such
 * a result is not lost, since this host has its entry, but the others must find it themselves. The facts' member
 * `factors` is for people (dovetail explain): it is left out where the row would be too large with it, and where the
 * table has half of its bytes.
 *
 * Not here: when to send, and what the answers mean (daemon/service/drain.c).
 */
#include "cache/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cache-priv.h"

#define ROWS "50000"
#define BYTES "67108864" /* of bodies */
#define LARGEST (4u << 20)
#define REASON_MAX 500
/* seconds that a row may have to wait; what has more was written before the clock was set back */
#define FARTHEST 60

static int outbox_sum(const char *const key[4], const char *digest, const char *body, const char *facts,
                      char sum[DT_SHA256_TEXT])
{
    const char *text[] = {key[0], key[1], key[2], key[3], digest, body, facts};
    return cache_row_sum(text, 7, sum);
}

/* Over the bound: a sixteenth of the rows, so that this is not done for each row. */
static int outbox_trim(struct cache *c)
{
    if (!cache_number(c, "SELECT count(*) > " ROWS " OR sum(bytes) > " BYTES " FROM outbox"))
        return SQLITE_OK;
    int rc = cache_run(c,
                       "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY state = 'waiting', id LIMIT "
                       "(SELECT max(1, count(*) / 16) FROM outbox))",
                       NULL, 0);
    int gone = rc == SQLITE_OK ? sqlite3_changes(c->db) : 0;
    char sql[200];
    snprintf(sql, sizeof sql,
             "INSERT INTO counter (want, name, n) VALUES ('', 'outbox_dropped', %d) ON CONFLICT DO UPDATE SET n = n + "
             "%d",
             gone, gone);
    return rc == SQLITE_OK ? cache_run(c, sql, NULL, 0) : rc;
}

/* The text without `factors`, or NULL: no memory. */
static void facts_shorten(const json_t *facts, char **text)
{
    json_t *less = json_copy((json_t *)facts);
    free(*text);
    *text = NULL;
    if (less && json_object_get(less, "factors"))
        json_object_del(less, "factors");
    if (less)
        *text = dt_json_dumps(less, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(less);
}

int cache_outbox_put(struct cache *c, const struct cache_key *k, const json_t *plan, const struct cache_out *out,
                     struct dt_err *e)
{
    const json_t *recipe = json_object_get(plan, "recipe");
    const char *key[] = {k->signature, k->device, k->toolchain, k->policy};
    char digest[DT_SHA256_TEXT], sum[DT_SHA256_TEXT], token[24], bytes[24];
    if (!json_is_object(recipe))
        return 0; /* nothing was kept of it: there is nothing to send */
    dt_free_ char *body = dt_json_dumps(recipe, JSON_COMPACT);
    dt_free_ char *facts = dt_json_dumps(out->facts, JSON_COMPACT | JSON_SORT_KEYS);
    if (body && facts &&
        (strlen(body) + strlen(facts) > LARGEST || cache_number(c, "SELECT sum(bytes) > " BYTES " / 2 FROM outbox")))
        facts_shorten(out->facts, &facts);
    if (!body || !facts || cache_plan_digest(plan, digest) < 0 || outbox_sum(key, digest, body, facts, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a row of the outbox");
    const bool large = strlen(body) + strlen(facts) > LARGEST;
    if (large) { /* for people to see; the digest stays */
        free(body);
        if (!(body = dt_strdup("{}")) || outbox_sum(key, digest, body, facts, sum) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory for a row of the outbox");
    }
    snprintf(token, sizeof token, "%lld", (long long)out->token);
    snprintf(bytes, sizeof bytes, "%zu", strlen(body) + strlen(facts));
    const char *text[] = {key[0],
                          key[1],
                          key[2],
                          key[3],
                          digest,
                          body,
                          facts,
                          sum,
                          token,
                          bytes,
                          large ? "parked" : "waiting",
                          large ? "it has more bytes than any recipe" : ""};
    int rc = cache_run(c,
                       "INSERT OR REPLACE INTO outbox (signature, device, toolchain, policy, digest, body, facts, "
                       "sha256, token, bytes, created, due, refusals, state, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, "
                       "?7, ?8, CAST(?9 AS INTEGER), CAST(?10 AS INTEGER), unixepoch(), 0, 0, ?11, ?12)",
                       text, 12);
    if (rc == SQLITE_OK)
        rc = outbox_trim(c);
    return rc == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

void cache_outgoing_done(struct cache_outgoing *o)
{
    char **const text[] = {&o->signature, &o->device, &o->toolchain, &o->policy, &o->digest, &o->body, &o->facts};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        free(*text[i]);
        *text[i] = NULL;
    }
}

/* 1: *o is the row; 0: it is damaged; DT_E_NOMEM. */
static int outbox_take(sqlite3_stmt *s, struct cache_outgoing *o)
{
    const char *text[8];
    for (int i = 0; i < 8; i++)
        text[i] = cache_column(s, i + 3);
    int r = cache_row_check(text, 7);
    if (r != 1)
        return r;
    *o = (struct cache_outgoing){.id = sqlite3_column_int64(s, 0),
                                 .token = sqlite3_column_int64(s, 1),
                                 .created = sqlite3_column_int64(s, 2),
                                 .signature = dt_strdup(text[0]),
                                 .device = dt_strdup(text[1]),
                                 .toolchain = dt_strdup(text[2]),
                                 .policy = dt_strdup(text[3]),
                                 .digest = dt_strdup(text[4]),
                                 .body = dt_strdup(text[5]),
                                 .facts = dt_strdup(text[6])};
    if (o->signature && o->device && o->toolchain && o->policy && o->digest && o->body && o->facts)
        return 1;
    cache_outgoing_done(o);
    return DT_E_NOMEM;
}

static bool outbox_aside(struct cache *c, int64_t id)
{
    char number[24];
    const char *text[] = {number};
    snprintf(number, sizeof number, "%lld", (long long)id);
    return cache_row_aside(c, "outbox", "id = CAST(?1 AS INTEGER)", text, 1);
}

int cache_outbox_due(struct cache *c, unsigned max, struct cache_outgoing *ret, struct dt_err *e)
{
    char sql[300];
    sqlite3_stmt *s;
    int64_t damaged[16];
    unsigned n = 0, bad = 0;
    int rc, r = 1;
    snprintf(sql, sizeof sql,
             "SELECT id, token, created, signature, device, toolchain, policy, digest, body, facts, sha256 FROM outbox "
             "WHERE state = 'waiting' AND due NOT BETWEEN unixepoch() + 1 AND unixepoch() + %d ORDER BY id LIMIT %u",
             FARTHEST, max);
    if ((rc = cache_prepare(c, sql, NULL, 0, &s)) != SQLITE_OK) {
        if (cache_db_damaged(rc))
            return cache_db_replace(c, e);
        return cache_unreadable(c, e);
    }
    while (r >= 0 && bad < 16 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        r = outbox_take(s, &ret[n]);
        n += r == 1;
        if (r == 0)
            damaged[bad++] = sqlite3_column_int64(s, 0);
    }
    sqlite3_finalize(s);
    for (unsigned i = 0; i < bad; i++)
        outbox_aside(c, damaged[i]);
    if (r >= 0 && (rc == SQLITE_DONE || rc == SQLITE_ROW))
        return (int)n;
    while (n)
        cache_outgoing_done(&ret[--n]);
    if (r < 0)
        return dt_err_set(e, r, "out of memory for a row of the outbox");
    return cache_db_damaged(rc) ? cache_db_replace(c, e) : cache_unreadable(c, e);
}

/* ---- what became of it ------------------------------------------------------------------------------------------- */

static int outbox_change(struct cache *c, const char *sql, int64_t id, const char *reason, struct dt_err *e)
{
    char number[24], words[REASON_MAX];
    const char *text[] = {number, words};
    snprintf(number, sizeof number, "%lld", (long long)id);
    snprintf(words, sizeof words, "%s", reason ? reason : "");
    return cache_run(c, sql, text, reason ? 2 : 1) == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

int cache_outbox_sent(struct cache *c, int64_t id, struct dt_err *e)
{
    return outbox_change(c, "DELETE FROM outbox WHERE id = CAST(?1 AS INTEGER)", id, NULL, e);
}

int cache_outbox_unleased(struct cache *c, int64_t id, struct dt_err *e)
{
    return outbox_change(c, "UPDATE outbox SET token = 0, due = 0 WHERE id = CAST(?1 AS INTEGER)", id, NULL, e);
}

int cache_outbox_later(struct cache *c, int64_t id, struct dt_err *e)
{
    return outbox_change(c, "UPDATE outbox SET due = unixepoch() + 5 WHERE id = CAST(?1 AS INTEGER)", id, NULL, e);
}

#define STR(x) #x
#define TEXT(x) STR(x)

/* 1, 2, … seconds later. */
int cache_outbox_refused(struct cache *c, int64_t id, const char *reason, struct dt_err *e)
{
    char sql[120];
    int r = outbox_change(c,
                          "UPDATE outbox SET refusals = refusals + 1, reason = ?2, due = unixepoch() + 1 + refusals, "
                          "state = iif(refusals + 1 >= " TEXT(CACHE_OUTBOX_REFUSALS) ", 'parked', 'waiting') "
                                                                                     "WHERE id = CAST(?1 AS INTEGER)",
                          id, reason ? reason : "", e);
    if (r < 0)
        return r;
    snprintf(sql, sizeof sql, "SELECT state = 'parked' FROM outbox WHERE id = %lld", (long long)id);
    return cache_number(c, sql) != 0;
}

int cache_outbox_again(struct cache *c, struct dt_err *e)
{
    int rc = cache_run(c, "UPDATE outbox SET state = 'waiting', refusals = 0, due = 0 WHERE state = 'parked'", NULL, 0);
    return rc == SQLITE_OK ? sqlite3_changes(c->db) : cache_unwritable(c, e);
}

int cache_outbox_size(struct cache *c, struct cache_outbox_size *ret, struct dt_err *e)
{
    struct cache_outbox_size z = {0};
    sqlite3_stmt *s;
    int rc = cache_prepare(c,
                           "SELECT coalesce(sum(state = 'waiting'), 0), coalesce(sum(state = 'parked'), 0), "
                           "coalesce(sum(bytes), 0), coalesce(min(iif(state = 'waiting', created, NULL)), 0), "
                           "(SELECT coalesce(max(n), 0) FROM counter WHERE want = '' AND name = 'outbox_dropped') "
                           "FROM outbox INDEXED BY outbox_due",
                           NULL, 0, &s);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW)
            z = (struct cache_outbox_size){sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                                           sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3),
                                           sqlite3_column_int64(s, 4)};
        sqlite3_finalize(s);
    }
    if (rc != SQLITE_ROW)
        return cache_unreadable(c, e);
    *ret = z;
    return 0;
}
