/* Records of which block of a launch waited for which, or of two kinds of blocks (struct sg_talk), by number.
 *
 * Records are kept for good, equal ones once, so that a work that is copied about (libcuda/extension.h) needs no owner.
 * They have a limit together; past it, a new record is not kept.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "softgpu/sg.h"

#define MAX_KEPT (UINT64_C(256) << 20) /* bytes of all records */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dt_vec(struct sg_talk *) kept;
static uint64_t kept_bytes;

#define BLOCKS(t) ((t)->apart ? 0 : (t)->nblock)
#define WAITS(t) ((t)->wait_at[BLOCKS(t)])
#define SIGNALS(t) ((t)->signal_at[(t)->nflag])

static bool same(const struct sg_talk *a, const struct sg_talk *b)
{
    return a->nblock == b->nblock && a->apart == b->apart && a->npart == b->npart && a->nflag == b->nflag &&
           WAITS(a) == WAITS(b) && SIGNALS(a) == SIGNALS(b) && !memcmp(a->part, b->part, a->npart * sizeof *a->part) &&
           !memcmp(a->share, b->share, BLOCKS(a) * sizeof *a->share) &&
           !memcmp(a->wait_at, b->wait_at, BLOCKS(a) * sizeof *a->wait_at) &&
           !memcmp(a->wait, b->wait, WAITS(a) * sizeof *a->wait) &&
           !memcmp(a->signal_at, b->signal_at, a->nflag * sizeof *a->signal_at) &&
           !memcmp(a->signal, b->signal, SIGNALS(a) * sizeof *a->signal);
}

static void *talk_put(uint8_t **at, const void *from, size_t bytes)
{
    void *p = *at;
    memcpy(p, from, bytes);
    *at += (bytes + 7) & ~(size_t)7;
    return p;
}

uint32_t sg_talk_keep(const struct sg_talk *t)
{
    uint32_t id = 0;
    size_t bytes = sizeof *t + t->npart * sizeof *t->part + BLOCKS(t) * sizeof *t->share +
                   (BLOCKS(t) + 1) * sizeof *t->wait_at + WAITS(t) * sizeof *t->wait +
                   (t->nflag + 1) * sizeof *t->signal_at + SIGNALS(t) * sizeof *t->signal + 64;
    pthread_mutex_lock(&lock);
    for (uint32_t k = 0; k < kept.n && !id; k++)
        id = same(kept.p[k], t) ? k + 1 : 0;
    uint8_t *p = !id && kept_bytes + bytes <= MAX_KEPT ? dt_malloc(bytes) : NULL;
    if (p) {
        uint8_t *at = p;
        struct sg_talk *n = talk_put(&at, t, sizeof *t);
        n->part = talk_put(&at, t->part, t->npart * sizeof *t->part);
        n->share = talk_put(&at, t->share, BLOCKS(t) * sizeof *t->share);
        n->wait_at = talk_put(&at, t->wait_at, (BLOCKS(t) + 1) * sizeof *t->wait_at);
        n->wait = talk_put(&at, t->wait, WAITS(t) * sizeof *t->wait);
        n->signal_at = talk_put(&at, t->signal_at, (t->nflag + 1) * sizeof *t->signal_at);
        n->signal = talk_put(&at, t->signal, SIGNALS(t) * sizeof *t->signal);
        if (dt_push(&kept, n)) {
            id = (uint32_t)kept.n;
            kept_bytes += bytes;
        } else {
            free(p);
        }
    }
    pthread_mutex_unlock(&lock);
    return id;
}

const struct sg_talk *sg_talk_find(uint32_t id)
{
    pthread_mutex_lock(&lock);
    const struct sg_talk *t = id && id <= kept.n ? kept.p[id - 1] : NULL;
    pthread_mutex_unlock(&lock);
    return t;
}
