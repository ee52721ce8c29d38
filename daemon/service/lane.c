/* The lane of large bodies: threads of its own, so that parsing some hundred thousand values never keeps the threads
 * of libuv's pool, on which hits are looked up, from small posts.
 *
 * Two threads, at a lower priority than the loop's and the pool's. The next in turn is of the user for whom the fewest
 * run, and of theirs the oldest: four large bodies of one user leave a thread to another's. What waits here is bounded
 * by the bytes that its users may hold (http-account.c).
 *
 * A large document leaves memory behind that malloc keeps. When the lane is empty it is given back to the system
 * (malloc_trim), so that the service's size returns to what it was.
 */
#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/json.h"
#include "daemon/service/service.h"

#define THREADS 2
#define NICE 5

struct dtd_lane {
    uv_mutex_t lock; /* of all below */
    uv_cond_t wake;
    struct dtd_async *waiting, *done; /* by `next` */
    struct dtd_async *running[THREADS];
    bool stop, trim;
    uv_thread_t thread[THREADS];
    unsigned nthread;
    uv_async_t news; /* something is done */
};

static unsigned running_of(const struct dtd_lane *l, unsigned uid)
{
    unsigned n = 0;
    for (int i = 0; i < THREADS; i++)
        n += l->running[i] && l->running[i]->uid == uid;
    return n;
}

/* Takes whose turn it is off the list; NULL: nobody waits. */
static struct dtd_async *next_turn(struct dtd_lane *l)
{
    struct dtd_async **best = NULL;
    for (struct dtd_async **p = &l->waiting; *p; p = &(*p)->next)
        if (!best || running_of(l, (*p)->uid) < running_of(l, (*best)->uid))
            best = p;
    struct dtd_async *a = best ? *best : NULL;
    if (a)
        *best = a->next;
    return a;
}

static bool idle(const struct dtd_lane *l)
{
    for (int i = 0; i < THREADS; i++)
        if (l->running[i])
            return false;
    return !l->waiting;
}

struct seat { /* which of the threads this is */
    struct dtd_lane *lane;
    unsigned n;
};

static void lane_thread(void *arg)
{
    struct dtd_lane *l = ((struct seat *)arg)->lane;
    unsigned seat = ((struct seat *)arg)->n;
    free(arg);
    setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone, on Linux */
    uv_mutex_lock(&l->lock);
    while (!l->stop) {
        struct dtd_async *a = next_turn(l);
        if (a) {
            l->running[seat] = a;
            uv_mutex_unlock(&l->lock);
            dt_json_fresh();
            a->work(a);
            uv_mutex_lock(&l->lock);
            l->running[seat] = NULL;
            a->next = l->done;
            l->done = a;
            uv_async_send(&l->news);
        } else if (l->trim && idle(l)) {
            l->trim = false;
            uv_mutex_unlock(&l->lock);
            malloc_trim(0);
            uv_mutex_lock(&l->lock);
        } else {
            uv_cond_wait(&l->wake, &l->lock);
        }
    }
    uv_mutex_unlock(&l->lock);
}

static void on_news(uv_async_t *h)
{
    struct dtd_lane *l = h->data;
    uv_mutex_lock(&l->lock);
    struct dtd_async *a = l->done;
    l->done = NULL;
    uv_mutex_unlock(&l->lock);
    for (struct dtd_async *next; a; a = next) {
        next = a->next;
        dtd_async_end(a);
    }
    uv_mutex_lock(&l->lock);
    l->trim = true;
    uv_cond_signal(&l->wake);
    uv_mutex_unlock(&l->lock);
}

void dtd_lane_add(struct dtd_lane *l, struct dtd_async *a)
{
    uv_mutex_lock(&l->lock);
    struct dtd_async **p = &l->waiting;
    while (*p)
        p = &(*p)->next;
    a->next = NULL;
    *p = a;
    uv_cond_signal(&l->wake);
    uv_mutex_unlock(&l->lock);
}

int dtd_lane_new(uv_loop_t *loop, struct dtd_lane **ret, struct dt_err *e)
{
    struct dtd_lane *l = dt_calloc(1, sizeof *l);
    if (!l || uv_mutex_init(&l->lock) < 0 || uv_cond_init(&l->wake) < 0 || uv_async_init(loop, &l->news, on_news) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    l->news.data = l;
    uv_unref((uv_handle_t *)&l->news);
    for (; l->nthread < THREADS; l->nthread++) {
        struct seat *s = dt_malloc(sizeof *s);
        if (s)
            *s = (struct seat){l, l->nthread};
        if (!s || uv_thread_create(&l->thread[l->nthread], lane_thread, s) < 0)
            return dt_err_set(e, DT_E_NOMEM, "a thread cannot be started");
    }
    *ret = l;
    return 0;
}

void dtd_lane_close(struct dtd_lane *l) { uv_close((uv_handle_t *)&l->news, NULL); }

struct dtd_lane *dtd_lane_free(struct dtd_lane *l)
{
    uv_mutex_lock(&l->lock);
    l->stop = true;
    uv_cond_broadcast(&l->wake);
    uv_mutex_unlock(&l->lock);
    for (unsigned i = 0; i < l->nthread; i++)
        uv_thread_join(&l->thread[i]);
    for (struct dtd_async *next, **list = &l->waiting;; list = &l->done) {
        for (struct dtd_async *a = *list; a; a = next) { /* their clients are gone */
            struct dtd_hold hold = a->hold;
            next = a->next;
            a->release(a);
            dtd_hold_drop(&hold);
        }
        if (list == &l->done)
            break;
    }
    uv_cond_destroy(&l->wake);
    uv_mutex_destroy(&l->lock);
    free(l);
    return NULL;
}

void dtd_memory_init(void)
{
    mallopt(M_ARENA_MAX, 4);
    mallopt(M_MMAP_THRESHOLD, 512 << 10); /* fixed: what is larger goes back when it is freed */
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
}
