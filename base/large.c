/* Large blocks that are kept: a list of up to KEPT of them and KEPT_BYTES together, from which the smallest that is
 * large enough is taken, if it is not much too large. Each has its size in front. Where there is no room for one more,
 * it goes back.
 */
#include "base/large.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"

#define KEPT 8
#define KEPT_BYTES ((size_t)512 << 20)
#define LARGER 4 /* times: what is small and stays long is no use for a block of the largest */

struct block {
    size_t bytes;
    _Alignas(max_align_t) unsigned char at[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *kept[KEPT];
static size_t kept_bytes;

static struct block *large_of(void *p) { return (struct block *)((unsigned char *)p - offsetof(struct block, at)); }

/* Take kept[k] out. */
static struct block *take(unsigned k)
{
    struct block *b = kept[k];
    kept[k] = NULL;
    kept_bytes -= b->bytes;
    return b;
}

void *dt_large_get(size_t bytes)
{
    struct block *b = NULL;
    unsigned best = KEPT;
    pthread_mutex_lock(&lock);
    for (unsigned k = 0; k < KEPT; k++)
        if (kept[k] && kept[k]->bytes >= bytes && kept[k]->bytes / LARGER <= bytes &&
            (best == KEPT || kept[k]->bytes < kept[best]->bytes))
            best = k;
    if (best < KEPT)
        b = take(best);
    pthread_mutex_unlock(&lock);
    if (b)
        return b->at;
    if (bytes > SIZE_MAX - sizeof *b || !(b = dt_malloc(sizeof *b + bytes)))
        return NULL;
    b->bytes = bytes;
    return b->at;
}

void dt_large_put(void *p)
{
    if (!p)
        return;
    struct block *b = large_of(p);
    pthread_mutex_lock(&lock);
    for (unsigned k = 0; k < KEPT; k++)
        if (!kept[k] && b->bytes <= KEPT_BYTES - kept_bytes) {
            kept[k] = b;
            kept_bytes += b->bytes;
            b = NULL;
            break;
        }
    pthread_mutex_unlock(&lock);
    free(b);
}

void dt_large_let_go(void)
{
    for (unsigned k = 0; k < KEPT; k++) {
        pthread_mutex_lock(&lock);
        struct block *b = kept[k] ? take(k) : NULL;
        pthread_mutex_unlock(&lock);
        free(b);
    }
}
