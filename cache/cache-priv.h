/* Inside cache/: the database handle. */
#ifndef DT_CACHE_PRIV_H
#define DT_CACHE_PRIV_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "cache/cache.h"

#define CACHE_APPLICATION_ID 0x446f7674 /* "Dovt" in the file's header: a database of ours */
#define CACHE_BUSY_MS 5000
#define CACHE_JOBS_BUSY_MS 2000
#define CACHE_RESERVE ".reserve" /* beside the file: room that gc releases on a full disk */

struct cache_keeper;

/* What the handle that a program holds and the keeper's own handle have in common; under `lock`. */
struct cache_state {
    pthread_mutex_t lock;
    struct cache_figures f;
    unsigned replaced;  /* how often a bad file was moved aside here: other handles look at the path then */
    uint64_t failed_us; /* when a write failed last */
    bool opened;        /* once, at least */
    bool unclean;       /* the file that was opened first had a log left beside it */
    dev_t bad_dev;      /* the file that was moved last */
    ino_t bad_ino;
    char *bad; /* where a damaged file was moved, until its sound rows are taken over */
    cache_tell *tell;
    void *user;
};

struct cache {
    sqlite3 *db;
    char *path;
    dev_t dev; /* of the file that is open: another process may have moved it aside and made a new one */
    ino_t ino;
    int64_t last_id; /* of cache_last_row */
    char last_sum[DT_SHA256_TEXT];
    /* of a reader only (reader.c) */
    bool reader;
    bool wal;                      /* it keeps a log */
    sqlite3_stmt *version;         /* PRAGMA data_version */
    struct timespec changed, when; /* the file; the connection was opened (monotonic) */
    off_t bytes;
    uint32_t opened;             /* which of all openings in this process */
    const _Atomic uint32_t *log; /* the head of the index of the log, in shared memory; NULL: not used */
    uint32_t log_seen[24];       /* it, before `told` was read */
    uint64_t told;               /* the last version, 0: none */
    struct cache_state *state;
    struct cache_keeper *keeper; /* or NULL */
    bool hold;                   /* try again to open it (cache_hold) */
    bool jobs;                   /* cache_jobs_settings */
    bool keeps;                  /* it is the keeper's own */
    unsigned seen;               /* state->replaced */
    uint64_t retry_us;           /* when to try to open it again */
};

/* Open or create at c->path, bring the schema up to date. A file that is no database, or damaged, is moved aside;
 * another program's is an error. */
int cache_db_open(struct cache *c, struct dt_err *e);
/* Before each statement: is the file that is open still the one at the path? If not, open that. False: none is open. */
bool cache_db_ready(struct cache *c);
void cache_db_close(struct cache *c);
void cache_db_settings(struct cache *c); /* of the connection, after it is open: those of a handle for jobs */
/* True when rc says that the file is damaged. */
bool cache_db_damaged(int rc);
/* After damage was met in use: move the file aside (unless another process did) and open a new one. */
int cache_db_replace(struct cache *c, struct dt_err *e);
/* False: the document of an entry says that it is of another signature. */
bool cache_document_of(const json_t *doc, const char *want, const char *signature);
/* DT_E_CACHE with SQLite's words. */
int cache_unreadable(struct cache *c, struct dt_err *e);
int cache_unwritable(struct cache *c, struct dt_err *e);
int cache_pragma(sqlite3 *db, const char *sql, int *ret); /* first column of the first row, if there is one */

/* ---- state.c ---- */
struct cache_state *cache_state_new(void);
struct cache_state *cache_state_free(struct cache_state *st);
void cache_state_tell(struct cache_state *st, bool bad, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void cache_state_opened(struct cache *c, const char *why); /* NULL: it is open */
void cache_state_wrote(struct cache *c, int rc);           /* a write came to this */
void cache_state_damaged(struct cache *c, const char *table, const char *key);

/* ---- entries.c ---- */
/* Find the damaged rows: [{table, key}], and how many rows there are. */
int cache_check_rows(struct cache *c, json_t *damaged, json_int_t *ret_rows, struct dt_err *e);
bool cache_drop_row(struct cache *c, const char *table, const char *key); /* as cache_row_aside */

/* ---- keeper.c, rescue.c, collect.c ---- */
struct cache_keeper *cache_keeper_stop(struct cache_keeper *k);
/* Delete a few rows, those used least recently: a transaction that is over soon. 1 done, 0 there are none, negative:
 * SQLite's code, negated. */
int cache_evict(struct cache *c);
int64_t cache_used_bytes(struct cache *c);        /* of the file, without free pages; -1: cannot be read */
void cache_give_back(struct cache *c, int pages); /* free pages to the disk, at most so many */
/* Rows of a damaged file that match their checksums, into c. Stops when *stop becomes true. How many. */
uint64_t cache_rescue(struct cache *c, const char *bad, const atomic_bool *stop);

/* ---- row.c: statements -------------------------------------------------------------------------------------------
 * text[0..n) are the statement's parameters ?1 … ?n. */
/* An SQLite code. The caller finalizes *ret. */
int cache_prepare(struct cache *c, const char *sql, const char *const *text, int n, sqlite3_stmt **ret);
int cache_run(struct cache *c, const char *sql, const char *const *text, int n); /* a statement that gives no rows */
/* End a transaction, if there is one. Where that cannot be said, for want of memory, the connection ends, and begins
 * anew with the next call: a lock that stays would stop all who write. */
void cache_rollback(struct cache *c);
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
/* Set a damaged row aside and delete it; `where` is over text[0..n). False: it cannot be deleted now. */
bool cache_row_aside(struct cache *c, const char *table, const char *where, const char *const *text, int n);
/* Keep what came from elsewhere and was not taken, for people to look at; its first 64 KB. */
void cache_aside_put(struct cache *c, const char *table, const char *key, const char *body, size_t n);
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

/* ---- outbox.c ---- */
/* Within the transaction that puts the plan. */
int cache_outbox_put(struct cache *c, const struct cache_key *k, const json_t *plan, const struct cache_out *out,
                     struct dt_err *e);

/* ---- kept.c ---- */
int cache_kept_trim(struct cache *c, enum cache_kept kept, int64_t bytes); /* an SQLite code */
void cache_kept_size(struct cache *c, enum cache_kept kept, int64_t *ret_rows, int64_t *ret_bytes);

/* ---- reply.c ---- */
int cache_reply_trim(struct cache *c, int64_t max_bytes); /* an SQLite code */
void cache_reply_size(struct cache *c, int64_t *ret_rows, int64_t *ret_bytes);

#endif
