/* Inside cache/: the database handle. */
#ifndef DT_CACHE_PRIV_H
#define DT_CACHE_PRIV_H

#include <sqlite3.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cache/cache.h"

#define CACHE_APPLICATION_ID 0x446f7674 /* "Dovt" in the file's header: a database of ours */
#define CACHE_BUSY_MS 5000

struct cache {
    sqlite3 *db;
    char *path;
    dev_t dev; /* of the file that is open: another process may have moved it aside and made a new one */
    ino_t ino;
};

/* Open or create at c->path, bring the schema up to date. A file that is no database, damaged, or somebody else's is
 * moved aside. */
int cache_db_open(struct cache *c, struct dt_err *e);
void cache_db_close(struct cache *c);
/* True when rc says that the file is damaged. */
bool cache_db_damaged(int rc);
/* After damage was met in use: move the file aside (unless another process did) and open a new one. */
int cache_db_replace(struct cache *c, struct dt_err *e);
/* DT_E_CACHE with SQLite's words. */
int cache_db_error(struct cache *c, const char *what, struct dt_err *e);

/* ---- store.c ---- */
/* an SQLite code */
int cache_prepare(struct cache *c, const char *sql, const char *const *text, int n, sqlite3_stmt **ret);
int cache_run(struct cache *c, const char *sql, const char *const *text, int n); /* a statement that gives no rows */
const char *cache_column(sqlite3_stmt *s, int i);                                /* "" for NULL */
int cache_row_sum(const char *const *text, int n, char sum[DT_SHA256_TEXT]);     /* SHA-256 of a row's texts */

/* ---- recipe.c ---- */
/* Keep the recipe that the plan's document has, and its digest. 1 it is new, 0 the key is there. */
int cache_recipe_put(struct cache *c, const struct cache_key *k, const json_t *plan, const char *origin,
                     struct dt_err *e);

/* ---- kept.c ---- */
int cache_kept_trim(struct cache *c, enum cache_kept kept, int64_t bytes); /* an SQLite code */
void cache_kept_size(struct cache *c, enum cache_kept kept, int64_t *ret_rows, int64_t *ret_bytes);

#endif
