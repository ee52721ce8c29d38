/* dovetaild: options, start, reload, stop.
 *
 * Start: options, cache, the default device's worker. A socket of the service's own is created only when that worker
 * has answered, so that a client that can connect is served. A socket that the service manager passed is listened on
 * at once; until the worker answers, health and posts get 503 with Retry-After. What lies at its path is never
 * removed, and nothing about it decides what a client may do.
 *
 * Reload (SIGHUP): the configuration is read again, with the same command line. What may change while the service runs
 * changes; for the rest a line says that it waits for a restart. A wrong file changes nothing.
 *
 * Stop (SIGTERM, SIGINT): new posts get 503 with Retry-After, queued jobs are cancelled unless they are stored, running
 * ones get drain_timeout seconds. The socket stays till then, so that clients can wait for their jobs and fetch what
 * came of them; when every result of a job that ran has been fetched, it is over sooner. Then no new connections, the
 * service's own socket file goes, and replies under way are finished. A second signal ends the wait.
 *
 * Exit status: 0 stopped by a signal, 2 wrong usage or configuration, 4 no device, or the socket cannot be created.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "cache/cache.h"
#include "daemon/service/hits.h"
#include "daemon/service/journal.h"
#include "daemon/service/manager.h"
#include "daemon/service/night.h"
#include "daemon/service/service.h"
#include "daemon/service/share.h"

static struct dtd_service svc;
static struct { /* of the command line; a reload reads them again */
    const char *config, *over[4];
} given;
static int passed_fd = -1; /* the manager's socket, until it is listened on */
static char passed_path[109];
static uv_signal_t sigs[3];
#define GRACE_MS 500 /* after the last result is fetched */
#define NSIGS (sizeof sigs / sizeof *sigs)
static uv_timer_t drain;
static uv_prepare_t settle;
static int exit_status;
static bool stopping, drained; /* drained: the time for running jobs is over */

static void shut(void)
{
    /* last step: everything that still keeps the loop alive goes */
    if (uv_is_closing((uv_handle_t *)&drain))
        return;
    dtd_http_drop(svc.http);
    dtd_share_close(svc.share);
    dtd_lane_close(svc.lane);
    uv_close((uv_handle_t *)&drain, NULL);
    uv_close((uv_handle_t *)&settle, NULL);
    dtd_hits_close(svc.hits);
    for (size_t i = 0; i < NSIGS; i++)
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
    drained = true;
    cancel_jobs(true);
    dtd_pool_stop(svc.pool, true);
}

/* A job that ran when the service was told to stop is over, and nobody has asked what came of it. */
static bool unfetched(void)
{
    for (const struct dtd_job *j = svc.jobs.head; j; j = j->next)
        if (j->drains && !j->seen && j->state != DTD_CANCELLED)
            return true;
    return false;
}

static void on_grace(uv_timer_t *t) { drained = true; }

/* Did a job run when the service was told to stop? Who fetched its result may have a question more. */
static bool grace(void)
{
    static bool begun;
    struct dtd_job *j = svc.jobs.head;
    while (j && !j->drains)
        j = j->next;
    if (j && !drained && !begun)
        uv_timer_start(&drain, on_grace, GRACE_MS, 0);
    begun = true;
    return j && !drained;
}

/* Runs once a turn of the loop while stopping: over when the workers are gone, and the results and replies are out. */
static void on_settle(uv_prepare_t *p)
{
    static uint64_t since;
    if (!dtd_pool_empty(svc.pool) || (unfetched() && !drained) || grace())
        return;
    if (!since) {
        since = uv_now(svc.loop);
        dtd_http_stop(svc.http);
        dtd_watchdog_stop();
        uv_timer_start(&drain, on_drained, 100, 100); /* keep turning */
    }
    bool over = !dtd_http_counts(svc.http)->connections && !dtd_share_sending(svc.share);
    if (over || uv_now(svc.loop) - since > 2000)
        shut();
}

static void stop(int status)
{
    if (stopping)
        return;
    stopping = true;
    exit_status = status;
    dtd_manager_stopping((unsigned)svc.cfg.drain_timeout + 5);
    svc.draining = true;
    dtd_night_stop();
    dtd_requeue_stop();
    for (struct dtd_job *j = svc.jobs.head; j; j = j->next)
        j->drains = j->state == DTD_RUNNING;
    cancel_jobs(false);
    dtd_pool_stop(svc.pool, false);
    uv_timer_start(&drain, on_drained, (uint64_t)svc.cfg.drain_timeout * 1000, 0);
    uv_prepare_start(&settle, on_settle);
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */
/* Defaults, environment, file, command line: the later one wins. */
static int configure(struct dtd_config *c, struct dt_err *e)
{
    static const char *const names[4] = {"socket", "device", "cache", "shared"};
    int r = dtd_config_init(c, e);
    const char *env = getenv("DOVETAIL_DEVICE"), *shared = getenv("DOVETAIL_SHARED");
    if (r >= 0 && env && *env)
        r = dtd_config_set(c, "device", env, e);
    if (r >= 0 && shared && *shared)
        r = dtd_config_set(c, "shared", shared, e);
    if (r >= 0 && given.config)
        r = dtd_config_load(c, given.config, e);
    for (int i = 0; i < 4 && r >= 0; i++)
        if (given.over[i])
            r = dtd_config_set(c, names[i], given.over[i], e);
    return r < 0 ? r : dtd_config_finish(c, e);
}

/* A passed socket that the admins' group may connect to would make everybody who may connect an admin. The group of the
 * file is asked for this refusal alone. */
static int passed_right(const struct dtd_config *c, struct dt_err *e)
{
    struct stat st;
    if (!svc.passed || !c->admins.has_group || !*passed_path || stat(passed_path, &st) < 0 ||
        st.st_gid != c->admins.gid)
        return 0;
    return dt_err_set(e, DT_E_USAGE,
                      "admin_group = %s is the group of the socket that was passed: whoever may connect would be an "
                      "admin",
                      c->admin_group);
}

static struct dtd_http_limits limits_of(const struct dtd_config *c)
{
    return (struct dtd_http_limits){.max_body = (size_t)c->max_body_mb << 20,
                                    .max_bodies = (size_t)c->max_bodies_mb << 20,
                                    .max_connections = (unsigned)c->max_connections,
                                    .request_ms = (unsigned)c->request_timeout * 1000,
                                    .idle_ms = (unsigned)c->idle_timeout * 1000};
}

static void on_differs(const char *name, const char *was, const char *is, bool taken)
{
    if (taken)
        dt_log(DT_LOG_INFO, "reload: %s is now %s, no longer %s", name, is, was);
    else
        dt_log(DT_LOG_WARN, "reload: %s = %s waits for a restart; it stays %s", name, is, was);
}

static void take_on(struct dtd_config *fresh)
{
    dtd_config_take(&svc.cfg, fresh, on_differs);
    struct dtd_http_limits l = limits_of(&svc.cfg);
    dtd_http_limit(svc.http, &l);
    svc.jobs.max_queued = (unsigned)svc.cfg.max_queued;
    svc.jobs.max_finished = (unsigned)svc.cfg.max_finished;
    svc.jobs.max_result_bytes = (size_t)svc.cfg.max_finished_mb << 20;
}

static void reload(void)
{
    struct dtd_config fresh = {0};
    struct dt_err e = {0};
    if (!given.config) {
        dt_log(DT_LOG_WARN, "reload: there is no configuration file (--config)");
        return;
    }
    if (svc.ready)
        dtd_manager_reloading();
    if (configure(&fresh, &e) < 0 || passed_right(&fresh, &e) < 0) {
        dt_log(DT_LOG_ERROR, "reload: nothing is taken: %s", e.detail ? e.detail : dt_err_text(e.num));
        svc.metrics.reloads_failed++;
    } else {
        take_on(&fresh);
        svc.metrics.reloads++;
        dt_log(DT_LOG_INFO, "reload: %s is in force", given.config);
    }
    dt_err_done(&e);
    dtd_config_done(&fresh);
    if (svc.ready)
        dtd_manager_ready("answering");
}

static void on_signal(uv_signal_t *s, int num)
{
    if (num == SIGHUP) {
        if (!stopping)
            reload();
        return;
    }
    dt_log(DT_LOG_INFO, "signal %d: stopping", num);
    if (stopping)
        on_drained(&drain);
    else
        stop(0);
}

/* ---- start ------------------------------------------------------------------------------------------------------- */
static const char *where(const struct dtd_service *s)
{
    return !s->passed ? s->cfg.socket : *passed_path ? passed_path : "the socket that was passed";
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
    if (!s->passed && dtd_http_listen(s->http, s->cfg.socket, &e) < 0) {
        dt_log(DT_LOG_ERROR, "%s", e.detail ? e.detail : dt_err_text(e.num));
        stop(dt_err_exit(e.num));
    } else {
        dtd_journal_resume(s->journal);
        dtd_night_resume(s);
        dtd_pool_kick(s->pool);
        s->ready = true;
        dtd_manager_ready("answering");
        dt_log(DT_LOG_INFO, "dovetaild %s answers on %s, device %s", DOVETAIL_VERSION, where(s), s->cfg.device);
    }
    dt_err_done(&e);
}

static const char usage[] = "usage: dovetaild [--socket PATH] [--device auto|cuda[:N]|soft[:MODEL]] [--cache FILE] "
                            "[--shared URL]\n"
                            "                 [--config FILE] [--check-config] [--help] [--version]\n";

static void print_help(void)
{
    printf("%s\nA configuration file holds lines NAME = VALUE:\n\n", usage);
#define STR(name, def, doc) printf("  %-18s %s\n", #name, doc);
#define NUM(name, def, min, max, doc) printf("  %-18s %s; default %ld\n", #name, doc, (long)(def));
#include "daemon/service/config.def"
#undef STR
#undef NUM
}

static int check(const struct dtd_config *c, struct dt_err *e)
{
    dt_free_ char *cache = cache_path_of(c->cache);
    int r = dtd_config_check(c, svc.passed, e);
    if (r >= 0)
        r = dtd_share_check(c, e);
    if (r < 0)
        return r;
    printf("the configuration is right: socket %s, device %s, cache %s, worker %s; admins besides root and the "
           "service's user: group %s, users %s; cluster: %s\n",
           svc.passed ? "passed" : c->socket, c->device, cache ? cache : "?", c->worker,
           c->admin_group ? c->admin_group : "none", c->admin_uids ? c->admin_uids : "none",
           c->shared ? c->shared_namespace : "none");
    return 1;
}

/* 0 go on, 1 done (exit 0), negative: error. */
static int options(int argc, char **argv, struct dtd_config *c, struct dt_err *e)
{
    static const struct option longs[] = {
        {"socket", 1, NULL, 's'}, {"device", 1, NULL, 'd'},  {"cache", 1, NULL, 'c'},
        {"config", 1, NULL, 'f'}, {"shared", 1, NULL, 'S'},  {"check-config", 0, NULL, 'k'},
        {"help", 0, NULL, 'h'},   {"version", 0, NULL, 'v'}, {0}};
    bool checks = false;
    for (int o; (o = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (o) {
        case 's': given.over[0] = optarg; break;
        case 'd': given.over[1] = optarg; break;
        case 'c': given.over[2] = optarg; break;
        case 'S': given.over[3] = optarg; break;
        case 'f': given.config = optarg; break;
        case 'k': checks = true; break;
        case 'h': print_help(); return 1;
        case 'v': printf("dovetaild %s\n", DOVETAIL_VERSION); return 1;
        default: return dt_err_set(e, DT_E_USAGE, "wrong usage; see dovetaild --help");
        }
    }
    if (optind < argc)
        return dt_err_set(e, DT_E_USAGE, "unexpected argument %s", argv[optind]);
    int r = dtd_manager_socket(&passed_fd, passed_path, sizeof passed_path, e);
    svc.passed = r > 0;
    if (r >= 0)
        r = configure(c, e);
    if (r >= 0)
        r = passed_right(c, e);
    return r >= 0 && checks ? check(c, e) : r;
}

static void store_says(void *user, bool bad, const char *text) { dt_log(bad ? DT_LOG_WARN : DT_LOG_INFO, "%s", text); }

/* The service goes on without its cache: a full disk or a damaged file costs what is stored, not the work. */
static int open_store(const struct dtd_config *c, struct dt_err *e)
{
    struct dt_err why = {0};
    int r = cache_hold(c->cache, &svc.cache, &why);
    if (r < 0) {
        dt_err_move(e, &why);
        return r;
    }
    if (r == 0)
        dt_log(DT_LOG_WARN, "working without a cache: %s", why.detail ? why.detail : dt_err_text(why.num));
    dt_err_done(&why);
    cache_told(svc.cache, store_says, NULL);
    return cache_keep(svc.cache, (int64_t)c->cache_max_mb << 20, e);
}

static int setup(struct dt_err *e)
{
    svc.loop = uv_default_loop();
    svc.start_us = dt_now_us();
    const struct dtd_config *c = &svc.cfg;
    struct dtd_http_limits l = limits_of(c);
    dtd_jobs_init(&svc.jobs, (unsigned)c->max_queued, (unsigned)c->max_finished, (size_t)c->max_finished_mb << 20);
    if (uv_mutex_init(&svc.cache_lock) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    svc.replies = dtd_replies_new((size_t)c->replies_mb << 20);
    svc.hits = dtd_hits_new(&svc);
    if (!svc.replies || !svc.hits)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = open_store(c, e);
    if (r >= 0 && !(svc.cache_path = dt_strdup(cache_path(svc.cache))))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0)
        svc.journal = dtd_journal_open(&svc);
    if (r >= 0)
        r = dtd_share_open(&svc, &svc.share, e);
    if (r >= 0)
        r = dtd_pool_new(&svc, &svc.pool, e);
    if (r >= 0)
        r = dtd_http_new(svc.loop, &l, dtd_serve, &svc, &svc.http, e);
    if (r >= 0)
        dtd_http_hook(svc.http, &(struct dtd_http_hooks){.begin = dtd_begin, .vital = dtd_vital});
    if (r >= 0)
        r = dtd_lane_new(svc.loop, &svc.lane, e);
    if (r >= 0 && svc.passed)
        r = dtd_http_listen_fd(svc.http, passed_fd, e);
    if (r < 0)
        return r;
    uv_timer_init(svc.loop, &drain);
    uv_prepare_init(svc.loop, &settle);
    static const int nums[NSIGS] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < NSIGS; i++) {
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
    dtd_manager_journal("dovetaild");
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
    dtd_watchdog_start(&svc);
    uv_run(svc.loop, UV_RUN_DEFAULT);
    svc.pool = dtd_pool_free(svc.pool);
    svc.lane = dtd_lane_free(svc.lane);
    svc.http = dtd_http_free(svc.http);
    dtd_jobs_done(&svc.jobs);
    dtd_keys_done(&svc.keys);
    svc.share = dtd_share_free(svc.share);
    dtd_night_report_done();
    svc.hits = dtd_hits_free(svc.hits);
    svc.replies = dtd_replies_free(svc.replies);
    svc.journal = dtd_journal_close(svc.journal);
    cache_close(svc.cache);
    free(svc.cache_path);
    uv_mutex_destroy(&svc.cache_lock);
    uv_loop_close(svc.loop);
    dtd_config_done(&svc.cfg);
    dt_log(DT_LOG_INFO, "stopped");
    return exit_status;
}
