/* Work for many indices: the contract is in parallel.h.
 *
 * Threads take the next index from one counter until there is none. They live for one call: starting one costs some ten
 * microseconds, so callers leave small work to one thread. Signals are blocked in them, so that handlers run where they
 * did before.
 */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define MOST 64

struct work {
    void (*fn)(void *, size_t);
    void *user;
    size_t n;
    atomic_size_t next;
};

static void *parallel_take(void *user)
{
    struct work *w = user;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;)
        w->fn(w->user, i);
    return NULL;
}

void dt_parallel(unsigned threads, size_t n, void (*fn)(void *user, size_t i), void *user)
{
    struct work w = {.fn = fn, .user = user, .n = n};
    pthread_t thread[MOST];
    unsigned started = 0;
    sigset_t all, before;
    if (threads > MOST)
        threads = MOST;
    if (threads > n)
        threads = (unsigned)n;
    if (threads > 1) {
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        while (started + 1 < threads && !pthread_create(&thread[started], NULL, parallel_take, &w))
            started++;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    parallel_take(&w);
    while (started)
        pthread_join(thread[--started], NULL);
}

unsigned dt_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return n > 1 ? (unsigned)n : 1;
}
