/* dovetaild: options, start, stop.
 *
 * Start: options, cache, the default device's worker. Only when that worker has answered is the socket created, so that
 * a client that can connect is served. Stop (SIGTERM, SIGINT): no new connections, the socket file goes, queued jobs
 * are cancelled unless they are stored, running ones get drain_timeout seconds, replies under way are finished; a
 * second signal ends the wait.
 *
 * Exit status: 0 stopped by a signal, 2 wrong usage or configuration, 4 no device, no cache, or the socket cannot be
 * created.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cache/cache.h"
#include "daemon/service/hits.h"
#include "daemon/service/journal.h"
#include "daemon/service/service.h"

static struct dtd_service svc;
static uv_signal_t sigs[2];
static uv_timer_t drain;
static uv_prepare_t settle;
static int exit_status;
static bool stopping;

static void shut(void)
{
    /* last step: everything that still keeps the loop alive goes */
    if (uv_is_closing((uv_handle_t *)&drain))
        return;
    dtd_http_drop(svc.http);
    dtd_lane_close(svc.lane);
    uv_close((uv_handle_t *)&drain, NULL);
    uv_close((uv_handle_t *)&settle, NULL);
    dtd_hits_close(svc.hits);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&sigs[i], NULL);
}

/* A job that is stored goes on after the next start: whoever waits for it is told, and it is not cancelled. */
static bool goes_on(struct dtd_job *j, bool all)
{
    if (!j->durable || dtd_state_final(j->state))
        return false;
    if (j->state == DTD_RUNNING && all)
        dtd_pool_give_back(svc.pool, j);
    if (j->state == DTD_QUEUED)
        dtd_job_poke(j);
    return j->state == DTD_QUEUED;
}

/* Cancel queued jobs, and running ones too when `all`. Cancelling may forget other jobs, so each round begins anew. */
static void cancel_jobs(bool all)
{
    for (struct dtd_job *j = svc.jobs.head; j;) {
        if (dtd_state_final(j->state) || goes_on(j, all) || (j->state == DTD_RUNNING && !all)) {
            j = j->next;
            continue;
        }
        dtd_pool_cancel(svc.pool, j);
        dtd_job_cancel(&svc.jobs, j, "the service stops");
        j = svc.jobs.head;
    }
}

static void on_drained(uv_timer_t *t)
{
    cancel_jobs(true);
    dtd_pool_stop(svc.pool, true);
}

/* Runs once a turn of the loop while stopping: over when the workers are gone and the replies are out. */
static void on_settle(uv_prepare_t *p)
{
    static uint64_t since;
    if (!dtd_pool_empty(svc.pool))
        return;
    if (!since) {
        since = uv_now(svc.loop);
        uv_timer_start(&drain, on_drained, 100, 100); /* keep turning */
    }
    if (!dtd_http_counts(svc.http)->connections || uv_now(svc.loop) - since > 2000)
        shut();
}

/* One datagram to the service manager (sd_notify(3)), when there is one that wants it. */
static void notify(const char *state)
{
    const char *to = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = to ? strlen(to) : 0;
    if (n < 2 || n >= sizeof a.sun_path || (*to != '/' && *to != '@'))
        return;
    memcpy(a.sun_path, to, n);
    if (*to == '@')
        a.sun_path[0] = 0; /* abstract */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
        dt_log(DT_LOG_WARN, "the service manager cannot be told: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void stop(int status)
{
    if (stopping)
        return;
    stopping = true;
    exit_status = status;
    notify("STOPPING=1");
    svc.draining = true;
    dtd_http_stop(svc.http);
    cancel_jobs(false);
    dtd_pool_stop(svc.pool, false);
    uv_timer_start(&drain, on_drained, (uint64_t)svc.cfg.drain_timeout * 1000, 0);
    uv_prepare_start(&settle, on_settle);
}

static void on_signal(uv_signal_t *s, int num)
{
    dt_log(DT_LOG_INFO, "signal %d: stopping", num);
    if (stopping)
        on_drained(&drain);
    else
        stop(0);
}

static void on_ready(struct dtd_service *s, struct dt_err *why)
{
    struct dt_err e = {0};
    if (stopping)
        return;
    if (why) {
        dt_log(DT_LOG_ERROR, "no worker, no service: %s", why->detail ? why->detail : dt_err_text(why->num));
        stop(4);
        return;
    }
    if (dtd_http_listen(s->http, s->cfg.socket, &e) < 0) {
        dt_log(DT_LOG_ERROR, "%s", e.detail ? e.detail : dt_err_text(e.num));
        stop(dt_err_exit(e.num));
    } else {
        dtd_journal_resume(s->journal);
        dtd_pool_kick(s->pool);
        notify("READY=1");
        dt_log(DT_LOG_INFO, "dovetaild %s answers on %s, device %s", DOVETAIL_VERSION, s->cfg.socket, s->cfg.device);
    }
    dt_err_done(&e);
}

static const char usage[] = "usage: dovetaild [--socket PATH] [--device auto|cuda[:N]|soft[:MODEL]] [--cache FILE] "
                            "[--config FILE] [--check-config]\n"
                            "                 [--help] [--version]\n";

static void print_help(void)
{
    printf("%s\nA configuration file holds lines NAME = VALUE:\n\n", usage);
#define STR(name, def, doc) printf("  %-18s %s\n", #name, doc);
#define NUM(name, def, min, max, doc) printf("  %-18s %s; default %ld\n", #name, doc, (long)(def));
#include "daemon/service/config.def"
#undef STR
#undef NUM
}

/* 0 go on, 1 done (exit 0), negative: error. */
static int options(int argc, char **argv, struct dtd_config *c, struct dt_err *e)
{
    static const struct option longs[] = {
        {"socket", 1, NULL, 's'},       {"device", 1, NULL, 'd'}, {"cache", 1, NULL, 'c'},   {"config", 1, NULL, 'f'},
        {"check-config", 0, NULL, 'k'}, {"help", 0, NULL, 'h'},   {"version", 0, NULL, 'v'}, {0}};
    const char *over[3] = {NULL, NULL, NULL}, *config = NULL;
    static const char *const names[3] = {"socket", "device", "cache"};
    bool check = false;
    for (int o; (o = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (o) {
        case 's': over[0] = optarg; break;
        case 'd': over[1] = optarg; break;
        case 'c': over[2] = optarg; break;
        case 'f': config = optarg; break;
        case 'k': check = true; break;
        case 'h': print_help(); return 1;
        case 'v': printf("dovetaild %s\n", DOVETAIL_VERSION); return 1;
        default: return dt_err_set(e, DT_E_USAGE, "wrong usage; see dovetaild --help");
        }
    }
    if (optind < argc)
        return dt_err_set(e, DT_E_USAGE, "unexpected argument %s", argv[optind]);
    int r = dtd_config_init(c, e);
    const char *env = getenv("DOVETAIL_DEVICE");
    if (r >= 0 && env && *env)
        r = dtd_config_set(c, "device", env, e);
    if (r >= 0 && config)
        r = dtd_config_load(c, config, e);
    for (int i = 0; i < 3 && r >= 0; i++)
        if (over[i])
            r = dtd_config_set(c, names[i], over[i], e);
    if (r >= 0)
        r = dtd_config_finish(c, e);
    if (r >= 0 && check) {
        printf("the configuration is right: socket %s, device %s; admins besides root and the service's user: group "
               "%s, users %s\n",
               c->socket, c->device, c->admin_group ? c->admin_group : "none", c->admin_uids ? c->admin_uids : "none");
        return 1;
    }
    return r;
}

static int setup(struct dt_err *e)
{
    svc.loop = uv_default_loop();
    svc.start_us = dt_now_us();
    const struct dtd_config *c = &svc.cfg;
    struct dtd_http_limits l = {.max_body = (size_t)c->max_body_mb << 20,
                                .max_bodies = (size_t)c->max_bodies_mb << 20,
                                .max_connections = (unsigned)c->max_connections,
                                .request_ms = (unsigned)c->request_timeout * 1000,
                                .idle_ms = (unsigned)c->idle_timeout * 1000};
    dtd_jobs_init(&svc.jobs, (unsigned)c->max_queued, (unsigned)c->max_finished, (size_t)c->max_finished_mb << 20);
    if (uv_mutex_init(&svc.cache_lock) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    svc.replies = dtd_replies_new((size_t)c->replies_mb << 20);
    svc.hits = dtd_hits_new(&svc);
    if (!svc.replies || !svc.hits)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = cache_open(c->cache, &svc.cache, e);
    if (r >= 0)
        svc.journal = dtd_journal_open(&svc);
    if (r >= 0)
        r = dtd_pool_new(&svc, &svc.pool, e);
    if (r >= 0)
        r = dtd_http_new(svc.loop, &l, dtd_serve, &svc, &svc.http, e);
    if (r >= 0)
        dtd_http_hook(svc.http, &(struct dtd_http_hooks){.begin = dtd_begin, .vital = dtd_vital});
    if (r >= 0)
        r = dtd_lane_new(svc.loop, &svc.lane, e);
    if (r < 0)
        return r;
    uv_timer_init(svc.loop, &drain);
    uv_prepare_init(svc.loop, &settle);
    static const int nums[2] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        uv_signal_init(svc.loop, &sigs[i]);
        uv_signal_start(&sigs[i], on_signal, nums[i]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct dt_err e = {0};
    signal(SIGPIPE, SIG_IGN);
    dt_log_init("dovetaild", DT_LOG_INFO);
    dtd_memory_init();
    int r = options(argc, argv, &svc.cfg, &e);
    if (r == 0)
        r = setup(&e);
    if (r < 0)
        fprintf(stderr, "dovetaild: %s\n", e.detail ? e.detail : dt_err_text(e.num));
    if (r) {
        int status = r < 0 ? dt_err_exit(e.num) : 0;
        if (e.num == DT_E_IO) /* a configuration file that cannot be read */
            status = 2;
        dt_err_done(&e);
        dtd_config_done(&svc.cfg);
        return status;
    }
    dtd_pool_start(svc.pool, on_ready);
    uv_run(svc.loop, UV_RUN_DEFAULT);
    svc.pool = dtd_pool_free(svc.pool);
    svc.lane = dtd_lane_free(svc.lane);
    svc.http = dtd_http_free(svc.http);
    dtd_jobs_done(&svc.jobs);
    svc.hits = dtd_hits_free(svc.hits);
    svc.replies = dtd_replies_free(svc.replies);
    svc.journal = dtd_journal_close(svc.journal);
    cache_close(svc.cache);
    uv_mutex_destroy(&svc.cache_lock);
    uv_loop_close(svc.loop);
    dtd_config_done(&svc.cfg);
    dt_log(DT_LOG_INFO, "stopped");
    return exit_status;
}
