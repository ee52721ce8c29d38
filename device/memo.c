/* Results of the compilers kept for the life of the process, by SHA-256 of everything that went in.
 *
 * Compiling is pure: the same text, options, target and compiler give the same bytes. A worker sees the same module
 * several times (the analysis, the baseline, each candidate that keeps it). A ring of a fixed number of entries and of
 * 256 MiB, the oldest replaced first; an entry over 8 MiB is not kept. Out of memory is a miss. Not for sharing between
 * processes: cache/ does that.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "device/device-priv.h"

#define ENTRIES 256
#define MAX_BYTES (8u << 20)
#define MAX_TOTAL (256u << 20)

static struct {
    pthread_mutex_t lock;
    struct {
        char key[DT_SHA256_TEXT];
        char *p;
        size_t len;
    } e[ENTRIES];
    unsigned next;
    size_t total;
} memo = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool dev_memo_get(const char *key, char **ret, size_t *ret_len)
{
    char *p = NULL;
    pthread_mutex_lock(&memo.lock);
    for (unsigned i = 0; i < ENTRIES && !p; i++)
        if (memo.e[i].p && !strcmp(memo.e[i].key, key)) {
            p = dt_memdup(memo.e[i].p, memo.e[i].len + 1);
            *ret_len = p ? memo.e[i].len : *ret_len;
        }
    pthread_mutex_unlock(&memo.lock);
    if (p)
        *ret = p;
    return p;
}

static void memo_drop(unsigned i)
{
    memo.total -= memo.e[i].len;
    free(memo.e[i].p);
    memo.e[i].p = NULL;
    memo.e[i].len = 0;
}

void dev_memo_put(const char *key, const void *p, size_t len)
{
    char *copy = len <= MAX_BYTES ? dt_malloc(len + 1) : NULL;
    if (!copy)
        return;
    memcpy(copy, p, len);
    copy[len] = 0;
    pthread_mutex_lock(&memo.lock);
    unsigned i = memo.next++ % ENTRIES;
    memo_drop(i);
    memo.total += len;
    for (unsigned k = i; memo.total > MAX_TOTAL;)
        memo_drop(++k % ENTRIES);
    memo.e[i].p = copy;
    memo.e[i].len = len;
    strncpy(memo.e[i].key, key, sizeof memo.e[i].key - 1);
    pthread_mutex_unlock(&memo.lock);
}
