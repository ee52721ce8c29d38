/* Sound rows of a damaged file, taken over into the new one.
 *
 * A row carries the checksum of all that it says, so that whether to believe it does not depend on the file around it.
 * Tables are read in the order of their keys, from the beginning and, where that does not come to the end, from the end
 * backwards: what one bad page hides is lost, and no more. Rows that the new file has already stay. Taken over are
 * documents, graphs, signatures, recipes and the outbox; footprints and trials are made again in no time, and owners
 * have no checksum, so that they would have to be believed (who posts a graph again owns it again).
 *
 * Rows go in transactions of a few, with a pause between, so that nobody waits for long.
 */
#include <string.h>
#include <unistd.h>

#include "cache-priv.h"

#define ROWS 16
#define PAUSE_US 2000
#define COLUMNS 15

static const struct {
    const char *up, *down, *into;
    int sum, columns; /* the first `sum` have the next as their checksum */
} tables[] = {
#define FROM(columns, table, up, down)                                                                                 \
    "SELECT " columns " FROM " table " ORDER BY " up, "SELECT " columns " FROM " table " ORDER BY " down,              \
        "INSERT OR IGNORE INTO " table " (" columns ") VALUES "
    {FROM("want, signature, device, toolchain, policy, digest, body, factors, sha256, created, used, hits", "entry",
          "id", "id DESC") "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
     8, 12},
    {FROM("digest, body, sha256, created", "graph", "digest", "digest DESC") "(?1, ?2, ?3, ?4)", 2, 4},
    {FROM("digest, arch, signature, sha256", "known", "digest, arch", "digest DESC, arch DESC") "(?1, ?2, ?3, ?4)", 3,
     4},
    {FROM("signature, device, toolchain, policy, digest, body, sha256, origin, created, state, reason, tried, tries",
          "recipe", "id", "id DESC") "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
     6, 13},
    {FROM("signature, device, toolchain, policy, digest, body, facts, sha256, token, bytes, created, due, refusals, "
          "state, reason",
          "outbox", "id", "id DESC") "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
     7, 15},
};

/* One row, if it is sound: 1 taken, 0 not, negative: SQLite's code, negated. */
static int rescue_row(struct cache *c, size_t table, sqlite3_stmt *s)
{
    const char *text[COLUMNS];
    for (int i = 0; i < tables[table].columns; i++)
        text[i] = cache_column(s, i);
    if (cache_row_check(text, tables[table].sum) != 1)
        return 0;
    int rc = cache_run(c, tables[table].into, text, tables[table].columns);
    return rc == SQLITE_OK ? sqlite3_changes(c->db) > 0 : -rc;
}

/* Rows of a query until it ends or fails. True: it ended. */
static bool rescue_rows(struct cache *c, sqlite3 *from, size_t table, const char *sql, const atomic_bool *stop,
                        uint64_t *count)
{
    sqlite3_stmt *s;
    uint64_t taken = 0;
    int rc = sqlite3_prepare_v2(from, sql, -1, &s, NULL), r = 0, open = 0;
    if (rc != SQLITE_OK)
        return false;
    while (!*stop && r >= 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        if (!open && cache_run(c, "BEGIN IMMEDIATE", NULL, 0) != SQLITE_OK)
            break;
        if ((r = rescue_row(c, table, s)) > 0)
            taken++;
        if (++open < ROWS && r >= 0)
            continue;
        open = 0;
        if (r < 0 || cache_run(c, "COMMIT", NULL, 0) != SQLITE_OK)
            break;
        usleep(PAUSE_US);
    }
    if (r >= 0 && c->db && !sqlite3_get_autocommit(c->db))
        cache_run(c, "COMMIT", NULL, 0);
    cache_rollback(c);
    sqlite3_finalize(s);
    *count += taken;
    return rc == SQLITE_DONE;
}

uint64_t cache_rescue(struct cache *c, const char *bad, const atomic_bool *stop)
{
    sqlite3 *from = NULL;
    uint64_t count = 0;
    if (sqlite3_open_v2(bad, &from, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
        sqlite3_exec(from, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON", NULL, NULL, NULL);
        for (size_t t = 0; t < sizeof tables / sizeof *tables && !*stop; t++)
            if (!rescue_rows(c, from, t, tables[t].up, stop, &count) && !*stop)
                rescue_rows(c, from, t, tables[t].down, stop, &count);
    }
    sqlite3_close(from);
    return count;
}
