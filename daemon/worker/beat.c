/* Signs of life: a thread of its own that sends a frame of type B every few milliseconds, whatever the worker is doing.
 *
 * A worker that computes for minutes, that waits for a compiler or writes a long answer still beats; one that is
 * stopped (SIGSTOP, a debugger, a frozen cgroup) does not, and the service notices. The body has figures that only
 * this process knows: {"failed_writes": N, "damaged": N, "request": N}, the first two since its start; the third is the
 * number of the request that it is at, 0: it waits for one. The answer to a request goes before the beats without it.
 *
 * Two threads write into one pipe, so every frame is written under a lock. A long answer holds it: the bytes themselves
 * are signs of life then. What this does not see: a worker whose main thread hangs. A job has its time limit for that,
 * and an idle worker is pinged.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/wire.h"
#include "daemon/worker/worker.h"

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static int beat_fd;
static atomic_uint beat_at;
static struct timespec beat_pause;

int wrk_send(struct wrk *w, char type, const char *body, size_t len)
{
    pthread_mutex_lock(&writing);
    int r = dt_wire_write(w->out, type, w->number, body, len);
    pthread_mutex_unlock(&writing);
    return r;
}

void wrk_beat_at(uint32_t number) { beat_at = number; }

static void *beat_run(void *unused)
{
    int r = 0;
    while (r >= 0) {
        char body[96];
        struct cache_counts n;
        cache_counts(&n);
        pthread_mutex_lock(&writing);
        int len = snprintf(body, sizeof body, "{\"failed_writes\":%llu,\"damaged\":%llu,\"request\":%u}",
                           (unsigned long long)n.failed_writes, (unsigned long long)n.damaged, beat_at);
        r = dt_wire_write(beat_fd, 'B', 0, body, (size_t)len);
        pthread_mutex_unlock(&writing);
        nanosleep(&beat_pause, NULL);
    }
    return unused; /* nobody listens any more: the main thread will notice */
}

int wrk_beat(struct wrk *w, unsigned ms)
{
    pthread_t t;
    pthread_attr_t a;
    sigset_t all, old;
    beat_fd = w->out;
    beat_pause = (struct timespec){ms / 1000, (long)(ms % 1000) * 1000000};
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
    int r = pthread_create(&t, &a, beat_run, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&a);
    return r ? DT_E_NOMEM : 0;
}
