/* GET /metrics: figures in the Prometheus text format, version 0.0.4.
 *
 * A metric is a HELP and a TYPE line, then its samples. Names end as Prometheus wants it: counters in _total, times in
 * _seconds, sizes in _bytes. A histogram has cumulative buckets, a sum and a count; the bounds are those of jobs that
 * take from milliseconds to an hour. docs/OPERATE.md says what an operator reads from each, and a test compares the
 * two.
 *
 * The size of the store is read on a thread of libuv's pool, since the disk may be slow; nothing here takes a lock.
 */
#include "daemon/service/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "daemon/service/hits.h"
#include "daemon/service/journal.h"
#include "daemon/service/night.h"
#include "daemon/service/service.h"
#include "daemon/service/share.h"

/* ---- counting ---------------------------------------------------------------------------------------------------- */
static const double bounds[DTD_BUCKETS - 1] = {0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800};
static const char *const bound_text[DTD_BUCKETS] = {"0.001", "0.01", "0.05", "0.1", "0.5",  "1",
                                                    "5",     "10",   "60",   "300", "1800", "+Inf"};
static const char *const stage_text[DTD_NSTAGES] = {"other", "compile", "analysis", "planning", "run"};
static const char *const factor_text[DTD_NFACTORS] = {"graph", "device", "toolchain", "policy", "uncached"};

void dtd_observe(struct dtd_histogram *h, double seconds)
{
    int i = 0;
    if (seconds < 0) /* no clock may take a sum down */
        seconds = 0;
    while (i < DTD_BUCKETS - 1 && seconds > bounds[i])
        i++;
    h->bucket[i]++;
    h->count++;
    h->sum += seconds;
}

enum dtd_stage dtd_stage_of(const char *stage)
{
    static const struct {
        const char *name;
        enum dtd_stage stage;
    } of[] = {{"compile", DTD_STAGE_COMPILE},  {"analyze", DTD_STAGE_ANALYSIS}, {"maps", DTD_STAGE_ANALYSIS},
              {"rewrite", DTD_STAGE_PLANNING}, {"run", DTD_STAGE_RUN},          {"time", DTD_STAGE_RUN}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!strcmp(of[i].name, stage))
            return of[i].stage;
    return DTD_STAGE_OTHER;
}

void dtd_spent_enter(struct dtd_spent *t, enum dtd_stage s, uint64_t now_ns)
{
    if (t->since_ns)
        t->s[t->now] += (double)(now_ns - t->since_ns) / 1e9;
    t->now = s;
    t->since_ns = now_ns;
}

void dtd_spent_end(struct dtd_spent *t, struct dtd_metrics *m, uint64_t now_ns)
{
    dtd_spent_enter(t, DTD_STAGE_OTHER, now_ns);
    for (int i = 0; i < DTD_NSTAGES; i++)
        if (t->s[i] > 0)
            dtd_observe(&m->stage[i], t->s[i]);
    *t = (struct dtd_spent){0};
}

void dtd_missed(struct dtd_metrics *m, const char *factor)
{
    int i = DTD_MISS_UNCACHED;
    for (int k = 0; factor && k < DTD_NFACTORS; k++)
        if (!strcmp(factor_text[k], factor))
            i = k;
    m->missed[i]++;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */
static void head(struct dt_str *o, const char *name, const char *type, const char *help)
{
    dt_str_addf(o, "# HELP dovetail_%s %s\n# TYPE dovetail_%s %s\n", name, help, name, type);
}

static void counter(struct dt_str *o, const char *name, const char *help, uint64_t v)
{
    head(o, name, "counter", help);
    dt_str_addf(o, "dovetail_%s %llu\n", name, (unsigned long long)v);
}

static void gauge(struct dt_str *o, const char *name, const char *help, double v)
{
    head(o, name, "gauge", help);
    dt_str_addf(o, "dovetail_%s %.17g\n", name, v);
}

/* One sample of a counter with a label. */
static void labelled(struct dt_str *o, const char *name, const char *label, const char *value, uint64_t v)
{
    dt_str_addf(o, "dovetail_%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)v);
}

/* `label`: "name=\"value\"," or "". */
static void histogram(struct dt_str *o, const char *name, const char *label, const struct dtd_histogram *h)
{
    uint64_t sum = 0;
    for (int i = 0; i < DTD_BUCKETS; i++) {
        sum += h->bucket[i];
        dt_str_addf(o, "dovetail_%s_bucket{%sle=\"%s\"} %llu\n", name, label, bound_text[i], (unsigned long long)sum);
    }
    int n = (int)strlen(label);
    const char *open = n ? "{" : "", *end = n ? "}" : "";
    n -= n > 0; /* without its comma */
    dt_str_addf(o, "dovetail_%s_sum%s%.*s%s %.9g\n", name, open, n, label, end, h->sum);
    dt_str_addf(o, "dovetail_%s_count%s%.*s%s %llu\n", name, open, n, label, end, (unsigned long long)h->count);
}

static void add_service(struct dt_str *o, const struct dtd_service *s)
{
    head(o, "info", "gauge", "Version of the service.");
    dt_str_addf(o, "dovetail_info{version=\"%s\"} 1\n", DOVETAIL_VERSION);
    gauge(o, "uptime_seconds", "Seconds since start.", (double)(dt_now_us() - s->start_us) / 1e6);
    gauge(o, "ready", "1 while the service takes jobs, 0 while it starts or drains.", s->ready && !s->draining);
    head(o, "config_reloads_total", "counter", "Configurations that SIGHUP loaded, by result.");
    labelled(o, "config_reloads_total", "result", "taken", s->metrics.reloads);
    labelled(o, "config_reloads_total", "result", "refused", s->metrics.reloads_failed);
}

static void add_http(struct dt_str *o, const struct dtd_http_counts *h)
{
    head(o, "http_responses_total", "counter", "Replies by class of status.");
    for (int i = 2; i < 6; i++)
        dt_str_addf(o, "dovetail_http_responses_total{class=\"%dxx\"} %llu\n", i, (unsigned long long)h->by_class[i]);
    counter(o, "http_requests_total", "Complete requests.", h->requests);
    gauge(o, "http_connections", "Open connections.", h->connections);
    counter(o, "http_connections_total", "Connections accepted.", h->accepted);
    gauge(o, "http_held_bytes", "Bytes of bodies and of replies that are not yet taken.", (double)h->held_bytes);
    counter(o, "http_over_share_total", "Requests refused because their user holds a share already.", h->over_share);
    counter(o, "http_turned_away_total", "Connections over the limit.", h->turned_away);
}

static void add_jobs(struct dt_str *o, const struct dtd_service *s)
{
    const struct dtd_metrics *m = &s->metrics;
    head(o, "jobs_total", "counter", "Jobs that entered a state.");
    for (int i = 0; i < DTD_NSTATES; i++)
        labelled(o, "jobs_total", "state", dtd_state_text(i), s->jobs.total[i]);
    head(o, "jobs", "gauge", "Jobs in a state now.");
    for (int i = 0; i < DTD_NSTATES; i++)
        labelled(o, "jobs", "state", dtd_state_text(i), s->jobs.count[i]);
    counter(o, "jobs_shared_total", "Posts that joined a job under way.", s->jobs.shared);
    counter(o, "job_turns_lost_total", "Jobs that went back to the queue for another user.", s->jobs.turns_lost);
    counter(o, "job_rows_failed_total", "Writes of jobs' rows that failed.", dtd_journal_failures(s->journal));
    head(o, "job_run_seconds_total", "counter", "Seconds that finished jobs ran.");
    dt_str_addf(o, "dovetail_job_run_seconds_total %.9g\n", s->jobs.run_seconds);
    gauge(o, "job_result_bytes", "Bytes of results that are remembered.", (double)s->jobs.result_bytes);
    head(o, "job_queue_seconds", "histogram", "Seconds that jobs waited for a worker.");
    histogram(o, "job_queue_seconds", "", &m->queue);
    head(o, "job_seconds", "histogram", "Seconds that jobs were with a worker.");
    histogram(o, "job_seconds", "", &m->job);
    head(o, "job_stage_seconds", "histogram", "Seconds of a job in a stage: compile, analysis, planning, run, other.");
    for (int i = 0; i < DTD_NSTAGES; i++) {
        char label[40];
        snprintf(label, sizeof label, "stage=\"%s\",", stage_text[i]);
        histogram(o, "job_stage_seconds", label, &m->stage[i]);
    }
}

/* How the cache's file fares, as the service sees it. */
static void add_store(struct dt_str *o, struct cache *c)
{
    struct cache_figures f;
    cache_figures(c, &f);
    gauge(o, "store_open", "1: the cache's file is open.", f.open);
    gauge(o, "store_writable", "1: the last write to the cache's file was one.", f.open && f.writable);
    gauge(o, "store_checking", "1: the cache's file was not closed, and is being checked.", f.checking);
    gauge(o, "store_bytes", "Bytes of the cache's file that are in use.", (double)f.bytes);
    counter(o, "store_damaged_rows_total", "Damaged rows that the service set aside.", f.damaged_rows);
    counter(o, "store_damaged_files_total", "Damaged files that the service set aside.", f.damaged_files);
    counter(o, "store_saved_rows_total", "Sound rows that were taken over from damaged files.", f.saved_rows);
    counter(o, "store_evicted_total", "Steps in which the least recently used rows went.", f.evicted);
}

static void add_cache(struct dt_str *o, const struct dtd_service *s, const struct dtd_pool_counts *p, uint64_t bytes)
{
    struct cache_counts n;
    cache_counts(&n);
    counter(o, "cache_hits_total", "Posts answered from the cache at once.", s->cache_hits);
    head(o, "reply_hits_total", "counter", "Posts answered from the cache, by where the reply was found.");
    for (int i = 0; i < DTD_HIT_FROMS; i++)
        labelled(o, "reply_hits_total", "from", dtd_hit_names[i], s->hits_from[i]);
    counter(o, "replies_not_modified_total", "Replies 304.", s->not_modified);
    uint64_t replies, reply_bytes;
    dtd_replies_size(s->replies, &replies, &reply_bytes);
    gauge(o, "replies", "Finished replies in memory.", (double)replies);
    gauge(o, "reply_bytes", "Bytes of finished replies in memory.", (double)reply_bytes);
    counter(o, "cache_misses_total", "Posts that became or joined a job.", s->cache_misses);
    head(o, "cache_misses_by_factor_total", "counter",
         "Posts that missed, by the first factor of the key that differs.");
    for (int i = 0; i < DTD_NFACTORS; i++)
        labelled(o, "cache_misses_by_factor_total", "factor", factor_text[i], s->metrics.missed[i]);
    gauge(o, "cache_bytes", "Bytes of the cache's file and its log on the disk.", (double)bytes);
    counter(o, "cache_damaged_total", "Damaged rows and files of the cache that were met.", n.damaged + p->damaged);
    counter(o, "cache_failed_writes_total", "Writes to the cache that failed.", n.failed_writes + p->failed_writes);
    add_store(o, s->cache);
}

/* The cluster, or zeros where there is none. */
static void add_cluster(struct dt_str *o, const struct dtd_share *sh)
{
    static const struct dtd_share none;
    json_t *doc = dtd_share_json(sh);
    const json_t *outbox = json_object_get(doc, "outbox");
    gauge(o, "cluster_up", "1: the cluster answers.", !strcmp(dt_json_text(doc, "state"), "ok"));
    gauge(o, "cluster_breaker_open", "1: the cluster is not asked for a while, since it did not answer.",
          !strcmp(dt_json_text(doc, "breaker"), "open"));
    gauge(o, "cluster_lag_rows", "Results that wait to be sent.",
          (double)json_integer_value(json_object_get(outbox, "waiting")));
    gauge(o, "cluster_lag_seconds", "Age of the oldest of them.",
          (double)json_integer_value(json_object_get(outbox, "lag_s")));
    gauge(o, "cluster_parked_rows", "Results that the cluster refused, and that are not sent any more.",
          (double)json_integer_value(json_object_get(outbox, "parked")));
    gauge(o, "cluster_leases", "Plans that this host makes under a lease.",
          (double)json_integer_value(json_object_get(doc, "leases")));
    json_decref(doc);
    sh = sh ? sh : &none;
    counter(o, "cluster_sent_total", "Results that the cluster took, or has better.", sh->sent);
    counter(o, "cluster_dropped_total", "Results that went unsent because too many waited.",
            (uint64_t)sh->size.dropped);
    counter(o, "cluster_waits_total", "Plans that waited for another host to make them.", sh->waits);
    head(o, "cluster_answers_total", "counter", "Questions of workers, by what they were told.");
    for (int i = 0; i < DTD_NTOLD; i++)
        labelled(o, "cluster_answers_total", "say", dtd_told_names[i], sh->told[i]);
    head(o, "cluster_untrusted_total", "counter", "Rows of the cluster that were not taken, by what of their seal.");
    for (int i = SIGN_GOOD + 1; i < DTD_VERDICTS; i++)
        labelled(o, "cluster_untrusted_total", "seal", dtd_verdict_names[i], sh->trust.turned[i]);
    head(o, "cluster_calls_total", "counter", "Calls to the cluster, by what came of them.");
    for (int i = 0; i < DTD_NCALLS; i++)
        for (int k = 0; k < CLUSTER_OUTCOMES; k++)
            dt_str_addf(o, "dovetail_cluster_calls_total{call=\"%s\",outcome=\"%s\"} %llu\n", dtd_call_names[i],
                        cluster_outcome_text(k), (unsigned long long)sh->calls[i][k]);
    head(o, "cluster_lookup_seconds", "histogram", "Seconds that look-ups in the cluster took.");
    histogram(o, "cluster_lookup_seconds", "", &sh->lookup);
}

static void add_nights(struct dt_str *o)
{
    const struct dtd_night_figures *f = &dtd_night_figures;
    gauge(o, "night_under_way", "1 while stored graphs are planned again.", f->under_way);
    counter(o, "nights_total", "Times that planning again began.", f->nights);
    head(o, "night_graphs_total", "counter", "Graphs that were planned again, by what came of it.");
    for (int i = 0; i < DTD_NIGHT_OUTCOMES; i++)
        labelled(o, "night_graphs_total", "outcome", dtd_night_outcomes[i], f->graph[i]);
    head(o, "night_put_off_total", "counter", "Times that planning again was put off, by cause.");
    for (int i = 0; i < DTD_NIGHT_COUNTS; i++)
        labelled(o, "night_put_off_total", "cause", dtd_night_counts[i], f->count[i]);
    head(o, "night_seconds_total", "counter", "Seconds that planning again took.");
    dt_str_addf(o, "dovetail_night_seconds_total %.9g\n", f->seconds);
}

/* 1 for what is in force: of the default device's worker and its compilers, files and system calls. */
static void add_confinement(struct dt_str *o, const struct dtd_service *s)
{
    static const char *const who[] = {"worker", "compiler"}, *const what[] = {"files", "calls"};
    const struct dtd_device *d = dtd_pool_device(s->pool, s->cfg.device);
    head(o, "confined", "gauge", "1: the kernel enforces what a process of the default device may do.");
    for (int i = 0; i < 4; i++) {
        const json_t *of = d ? json_object_get(d->confinement, who[i / 2]) : NULL;
        dt_str_addf(o, "dovetail_confined{process=\"%s\",what=\"%s\"} %d\n", who[i / 2], what[i % 2],
                    !strcmp(dt_json_text(of, what[i % 2]), "enforced"));
    }
}

static void add_workers(struct dt_str *o, const struct dtd_pool_counts *p)
{
    gauge(o, "workers", "Worker processes.", p->alive);
    gauge(o, "workers_busy", "Worker processes with a job.", p->busy);
    counter(o, "workers_started_total", "Worker processes started.", p->started);
    counter(o, "workers_lost_total", "Worker processes that ended badly.", p->lost);
    counter(o, "workers_killed_total", "Worker processes killed: deadline, cancel, protocol.", p->killed);
    counter(o, "workers_over_limits_total", "Worker processes killed for memory or CPU time.", p->over_limits);
    head(o, "worker_restarts_total", "counter", "Worker processes that ended before their time, by cause.");
    for (int i = DTD_END_NONE + 1; i < DTD_NENDS; i++)
        labelled(o, "worker_restarts_total", "cause", dtd_end_text(i), p->ends[i]);
}

struct scrape {
    struct dtd_async a; /* first */
    char *path;         /* of the cache, NULL: there is none */
    uint64_t bytes;
};

static void scrape_work(struct dtd_async *a)
{
    struct scrape *c = (struct scrape *)a;
    if (c->path)
        c->bytes = cache_disk_bytes(c->path);
}

static void scrape_after(struct dtd_async *a)
{
    struct dtd_service *s = a->s;
    struct dt_str o = {0};
    if (!a->req)
        return;
    const struct dtd_pool_counts *p = dtd_pool_counts(s->pool);
    add_service(&o, s);
    add_http(&o, dtd_http_counts(s->http));
    add_jobs(&o, s);
    add_cache(&o, s, p, ((struct scrape *)a)->bytes);
    add_cluster(&o, s->share);
    add_nights(&o);
    add_workers(&o, p);
    add_confinement(&o, s);
    size_t n = o.len;
    dtd_reply_take(a->req, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, dt_str_take(&o), n);
}

static void scrape_release(struct dtd_async *a)
{
    free(((struct scrape *)a)->path);
    free(a);
}

void api_metrics(struct dtd_service *s, struct dtd_req *r)
{
    struct scrape *c = dt_calloc(1, sizeof *c);
    if (!c) {
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
        return;
    }
    c->path = s->cache_path ? dt_strdup(s->cache_path) : NULL;
    c->a = (struct dtd_async){.s = s, .req = r, .work = scrape_work, .after = scrape_after, .release = scrape_release};
    dtd_async_start(&c->a);
}
