/* The service manager's watchdog, and what it is told: this process is fine.
 *
 * Four times in the time that the manager gives (WatchdogSec=), three questions are asked. The loop has answered by
 * running this timer. The store answers when a read of its file comes back, from a thread of its own (a disk that
 * hangs would stop the threads that requests use; that they are stopped too is what the manager then ends). The
 * workers answer when each has been heard lately and the default one answers a ping, or is busy within its time. Only
 * when the last two came back is the manager told that the service is alive; an answer that is late counts when it
 * comes.
 *
 * A worker that is stopped is killed by the pool after worker_silence seconds and replaced; that is shorter than the
 * manager's patience, so it costs a job and not the service. What is left for the manager: a loop that does not turn, a
 * disk that does not answer, a device on which no worker starts any more.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cache/cache.h"
#include "daemon/service/manager.h"
#include "daemon/service/service.h"

static struct {
    struct dtd_service *s;
    uv_timer_t timer;
    uv_async_t store_back; /* from the store's thread */
    struct dtd_ping ping;  /* first answer pending while `pinging` */
    bool on, pinging, reading, store_ok, worker_ok;
} dog;

static void feed(void)
{
    if (!dog.store_ok || !dog.worker_ok || !dtd_pool_heard(dog.s->pool))
        return;
    dog.store_ok = dog.worker_ok = false;
    dtd_manager_alive();
}

static void on_ping(struct dtd_ping *p, bool ok, const char *what)
{
    dog.pinging = false;
    dog.worker_ok |= ok;
    if (!ok && !dog.s->draining)
        dt_log(DT_LOG_WARN, "watchdog: %s", what);
    feed();
}

static void on_store_back(uv_async_t *a)
{
    dog.reading = false;
    dog.store_ok = true;
    feed();
}

static void *read_store(void *path)
{
    cache_answers(path);
    free(path);
    uv_async_send(&dog.store_back);
    return NULL;
}

static void ask_store(void)
{
    pthread_t t;
    char *path = dog.s->cache_path ? dt_strdup(dog.s->cache_path) : NULL;
    if (!dog.s->cache_path) { /* it serves without a store */
        dog.store_ok = true;
        return;
    }
    if (!path || pthread_create(&t, NULL, read_store, path)) {
        free(path);
        dt_log(DT_LOG_WARN, "watchdog: no thread to ask the store");
        return;
    }
    pthread_detach(t);
    dog.reading = true;
}

static void on_watch(uv_timer_t *t)
{
    if (!dog.reading)
        ask_store();
    if (!dog.pinging) {
        dog.pinging = true; /* the answer may come at once */
        dtd_pool_ping(dog.s->pool, &dog.ping);
    }
}

void dtd_watchdog_start(struct dtd_service *s)
{
    uint64_t us = dtd_manager_watchdog();
    if (!us)
        return;
    dog.s = s;
    dog.on = true;
    dog.ping.fn = on_ping;
    uv_timer_init(s->loop, &dog.timer);
    uv_async_init(s->loop, &dog.store_back, on_store_back);
    uv_unref((uv_handle_t *)&dog.timer);
    uv_unref((uv_handle_t *)&dog.store_back);
    uv_timer_start(&dog.timer, on_watch, 0, us / 4000 ? us / 4000 : 1);
    dt_log(DT_LOG_INFO, "watchdog: every %.1f s", (double)us / 1e6);
}

void dtd_watchdog_stop(void)
{
    if (!dog.on)
        return;
    dog.on = false;
    if (dog.pinging)
        dtd_pool_unping(dog.s->pool, &dog.ping);
    uv_close((uv_handle_t *)&dog.timer, NULL);
    if (!dog.reading) /* else its thread still holds it: the process ends before anything else uses the memory */
        uv_close((uv_handle_t *)&dog.store_back, NULL);
}
