/* Jobs of services, as rows (table job).
 *
 * What was posted and how far the job is are two texts with a checksum each, so that a change of state does not read
 * the request again. A row is believed only when both match, and when the request, if it is still there, has the digest
 * that the row says; any other row is set aside when it is met.
 *
 * Not here: what the texts mean, and which rows are still of use (daemon/service/journal.c).
 */
#include "cache/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "cache-priv.h"

void cache_jobs_settings(struct cache *c)
{
    c->jobs = true;
    cache_db_settings(c);
}

int cache_jobs_begin(struct cache *c, struct dt_err *e)
{
    int rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0);
    if (cache_db_damaged(rc)) {
        int r = cache_db_replace(c, e);
        if (r < 0)
            return r;
        rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0);
    }
    return rc == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

int cache_jobs_end(struct cache *c, bool ok, struct dt_err *e)
{
    if (ok && cache_run(c, "COMMIT", NULL, 0) == SQLITE_OK)
        return 0;
    int r = cache_unwritable(c, e);
    cache_rollback(c);
    return r;
}

static int sum_of(const char *a, const char *b, char sum[DT_SHA256_TEXT])
{
    const char *text[] = {a, b};
    return cache_row_sum(text, 2, sum);
}

int cache_job_put(struct cache *c, const char *service, const struct cache_job *j, struct dt_err *e)
{
    char body[DT_SHA256_TEXT], sum[DT_SHA256_TEXT], state[DT_SHA256_TEXT];
    const char *fixed[] = {j->id, service, j->post, body};
    if (cache_row_sum(&j->request, 1, body) < 0 || cache_row_sum(fixed, 4, sum) < 0 ||
        sum_of(j->id, j->state, state) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    const char *text[] = {j->id, service, j->post, j->request, body, sum, j->state, state};
    int rc = cache_run(c,
                       "INSERT OR REPLACE INTO job (id, service, post, request, request_sha256, sha256, state, "
                       "state_sha256, changed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, unixepoch())",
                       text, 8);
    return rc == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

int cache_job_change(struct cache *c, const struct cache_job *j, struct dt_err *e)
{
    char state[DT_SHA256_TEXT];
    const char *text[] = {j->id, j->state, state};
    if (sum_of(j->id, j->state, state) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int rc = cache_run(c,
                       j->request ? "UPDATE job SET state = ?2, state_sha256 = ?3, changed = unixepoch(), request = '' "
                                    "WHERE id = ?1"
                                  : "UPDATE job SET state = ?2, state_sha256 = ?3, changed = unixepoch() WHERE id = ?1",
                       text, 3);
    return rc == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

int cache_job_forget(struct cache *c, const char *id, struct dt_err *e)
{
    return cache_run(c, "DELETE FROM job WHERE id = ?1", &id, 1) == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

/* 1: the row that `s` stands on is sound; 0, DT_E_NOMEM. */
static int sound(sqlite3_stmt *s)
{
    const char *fixed[] = {cache_column(s, 0), cache_column(s, 1), cache_column(s, 2), cache_column(s, 4),
                           cache_column(s, 5)};
    const char *state[] = {fixed[0], cache_column(s, 6), cache_column(s, 7)};
    const char *request[] = {cache_column(s, 3), cache_column(s, 4)};
    int r = cache_row_check(fixed, 4);
    if (r == 1)
        r = cache_row_check(state, 2);
    return r == 1 && *request[0] ? cache_row_check(request, 1) : r;
}

int cache_jobs_load(struct cache *c, const char *service, int64_t max_age,
                    void (*take)(void *user, const struct cache_job *j), void *user, struct dt_err *e)
{
    char sql[120];
    sqlite3_stmt *s;
    struct dt_vec(char *)
        bad = {0}; /* deleted behind the loop: one that reads cannot write what others changed since */
    int rc, r = 0;
    snprintf(sql, sizeof sql, "DELETE FROM job WHERE unixepoch() - changed > %lld", (long long)max_age);
    cache_run(c, sql, NULL, 0);
    if (cache_prepare(c,
                      "SELECT id, service, post, request, request_sha256, sha256, state, state_sha256 FROM job WHERE "
                      "service = ?1 ORDER BY rowid",
                      &service, 1, &s) != SQLITE_OK)
        return cache_unreadable(c, e);
    while (r >= 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        struct cache_job j = {cache_column(s, 0), cache_column(s, 2), cache_column(s, 3), cache_column(s, 6)};
        r = sound(s);
        if (r == 1)
            take(user, &j);
        char *id = r == 0 ? dt_strdup(j.id) : NULL;
        if (r == 0 && (!id || !dt_push(&bad, id))) {
            free(id);
            r = DT_E_NOMEM;
        }
    }
    sqlite3_finalize(s);
    for (size_t i = 0; i < bad.n; i++) {
        cache_row_aside(c, "job", "id = ?1", (const char *const *)&bad.p[i], 1);
        free(bad.p[i]);
    }
    free(bad.p);
    return r < 0 ? dt_err_set(e, r, "out of memory") : rc == SQLITE_DONE ? 0 : cache_unreadable(c, e);
}
