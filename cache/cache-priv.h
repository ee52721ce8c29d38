/* Inside cache/: the database handle. */
#ifndef DT_CACHE_PRIV_H
#define DT_CACHE_PRIV_H

#include <sqlite3.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "cache/cache.h"

#define CACHE_APPLICATION_ID 0x446f7674 /* "Dovt" in the file's header: a database of ours */
#define CACHE_BUSY_MS 5000

struct cache {
    sqlite3 *db;
    char *path;
    dev_t dev; /* of the file that is open: another process may have moved it aside and made a new one */
    ino_t ino;
    int64_t last_id; /* of cache_last_row */
    char last_sum[DT_SHA256_TEXT];
    /* of a reader only (reader.c) */
    bool reader;
    sqlite3_stmt *version;         /* PRAGMA data_version */
    struct timespec changed, when; /* the file; the connection was opened (monotonic) */
    off_t bytes;
    uint32_t opened; /* how often */
};

/* Open or create at c->path, bring the schema up to date. A file that is no database, damaged, or another program's is
 * moved aside. */
int cache_db_open(struct cache *c, struct dt_err *e);
void cache_db_close(struct cache *c);
/* True when rc says that the file is damaged. */
bool cache_db_damaged(int rc);
/* After damage was met in use: move the file aside (unless another process did) and open a new one. */
int cache_db_replace(struct cache *c, struct dt_err *e);
/* DT_E_CACHE with SQLite's words. */
int cache_unreadable(struct cache *c, struct dt_err *e);
int cache_unwritable(struct cache *c, struct dt_err *e);

/* ---- row.c: statements -------------------------------------------------------------------------------------------
 * text[0..n) are the statement's parameters ?1 … ?n. */
/* An SQLite code. The caller finalizes *ret. */
int cache_prepare(struct cache *c, const char *sql, const char *const *text, int n, sqlite3_stmt **ret);
int cache_run(struct cache *c, const char *sql, const char *const *text, int n); /* a statement that gives no rows */
int64_t cache_number(struct cache *c, const char *sql); /* first column of the first row; 0 when it cannot be read */
const char *cache_column(sqlite3_stmt *s, int i);       /* "" for NULL */

/* ---- row.c: rows ------------------------------------------------------------------------------------------------- */
int cache_row_sum(const char *const *text, int n, char sum[DT_SHA256_TEXT]); /* SHA-256 of a row's texts */
int cache_row_check(const char *const *text, int n); /* is text[n] that of text[0..n)? 1, 0, or DT_E_NOMEM */
/* Takes what it needs of the row that `s` stands on. 1: done; 0: the row is damaged; DT_E_NOMEM. */
typedef int cache_take(sqlite3_stmt *s, void *user);
#define CACHE_UNSOUND 2
/* The first row of a query. 1: `take` has it; 0: there is none, or the file was damaged and a new one begins;
 * CACHE_UNSOUND: there is one, and it is damaged (the caller deletes it); negative: error. */
int cache_one(struct cache *c, const char *sql, const char *const *text, int n, cache_take *take, void *user,
              struct dt_err *e);
/* All rows of a query, each as `make` gives it (NULL: out of memory). *ret: a new list. */
int cache_rows(struct cache *c, const char *sql, const char *const *text, int n, json_t *(*make)(sqlite3_stmt *s),
               json_t **ret, struct dt_err *e);
/* The row that `s` stands on as an object: from column `first` on `names` strings, then `figures` whole numbers. NULL:
 * memory. */
json_t *cache_row_json(sqlite3_stmt *s, int first, const char *const *name, int names, const char *const *figure,
                       int figures);

/* ---- counts.c ---- */
void cache_count_unwritten(void);
void cache_count_damaged(void);

/* ---- recipe.c ---- */
/* A condition on `table`.signature: it is one of the user's; "1" when uid is NULL. */
#define CACHE_OWN_MAX 120
void cache_own_sql(const char *table, const unsigned *uid, char out[CACHE_OWN_MAX]);
/* Keep the recipe that the plan's document has, and its digest. 1 it is new, 0 the key is there. */
int cache_recipe_put(struct cache *c, const struct cache_key *k, const json_t *plan, const char *origin,
                     struct dt_err *e);

/* ---- kept.c ---- */
int cache_kept_trim(struct cache *c, enum cache_kept kept, int64_t bytes); /* an SQLite code */
void cache_kept_size(struct cache *c, enum cache_kept kept, int64_t *ret_rows, int64_t *ret_bytes);

/* ---- reply.c ---- */
int cache_reply_trim(struct cache *c, int64_t max_bytes); /* an SQLite code */
void cache_reply_size(struct cache *c, int64_t *ret_rows, int64_t *ret_bytes);

#endif
