/* What an operator wants to know of the store, without the store: figures of this process, the size of the file on the
 * disk, whether the file answers, and which factor of a key made it miss.
 *
 * The figures count since the start of the process, in all threads, over all files that it opened: they go into the
 * metrics, where a counter that falls means a restart. What is counted over the life of the file is in its table
 * `counter` (cache_stats).
 *
 * cache_answers() opens the file by itself, reads, and closes it: it waits for no lock of ours, and WAL lets it read
 * beside a writer. What it finds does not matter, damage included; that it comes back does. A disk that hangs does not.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "cache-priv.h"

static _Atomic uint64_t count_unwritten, count_damaged;

void cache_count_unwritten(void) { atomic_fetch_add_explicit(&count_unwritten, 1, memory_order_relaxed); }
void cache_count_damaged(void) { atomic_fetch_add_explicit(&count_damaged, 1, memory_order_relaxed); }

void cache_counts(struct cache_counts *ret)
{
    ret->failed_writes = atomic_load_explicit(&count_unwritten, memory_order_relaxed);
    ret->damaged = atomic_load_explicit(&count_damaged, memory_order_relaxed);
}

const char *cache_path(const struct cache *c) { return c ? c->path : NULL; }

uint64_t cache_disk_bytes(const char *path)
{
    static const char *const beside[] = {"", "-wal"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        char name[4200];
        struct stat st;
        snprintf(name, sizeof name, "%s%s", path, beside[i]);
        if (stat(name, &st) == 0)
            sum += (uint64_t)st.st_size;
    }
    return sum;
}

void cache_answers(const char *path)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX, NULL) == SQLITE_OK)
        sqlite3_exec(db, "SELECT count(*) FROM counter", NULL, NULL, NULL);
    sqlite3_close(db);
}

/* Of the entries under a signature, the one that shares most of the key: the first factor in which it differs. */
const char *cache_missed(struct cache *c, const struct cache_key *k)
{
    static const char *const factor[] = {"graph", "device", "toolchain", "policy"};
    const char *text[] = {k->want, k->signature, k->device, k->toolchain};
    sqlite3_stmt *s;
    int best = 0;
    if (!*k->signature || cache_prepare(c,
                                        "SELECT max(CASE WHEN device <> ?3 THEN 1 WHEN toolchain <> ?4 THEN 2 ELSE 3 "
                                        "END) FROM entry WHERE want = ?1 AND signature = ?2",
                                        text, 4, &s) != SQLITE_OK)
        return factor[0];
    if (sqlite3_step(s) == SQLITE_ROW)
        best = sqlite3_column_int(s, 0); /* NULL, no entry: 0 */
    sqlite3_finalize(s);
    return factor[best];
}
