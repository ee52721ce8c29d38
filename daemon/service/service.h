/* The service process: what its parts share. One of these exists; everything runs on the loop's thread, except what
 * dtd_async() puts on a thread of libuv's pool (parsing a graph, the cache).
 *
 * The service never parses PTX and never loads CUDA: a worker does (daemon/worker/), one process per device.
 */
#ifndef DTD_SERVICE_H
#define DTD_SERVICE_H

#include <jansson.h>
#include <sys/types.h>
#include <uv.h>

#include "base/hash.h"
#include "base/log.h"
#include "daemon/service/config.h"
#include "daemon/service/http.h"
#include "daemon/service/jobs.h"
#include "daemon/service/metrics.h"
#include "daemon/service/pool.h"
#include "daemon/service/replies.h"

struct cache;
struct dtd_hits;
struct dtd_replies;
struct dtd_journal;
struct dtd_share;

/* ---- keys.c: posts that are sent again -------------------------------------------------------------------------- */
struct dtd_key;
struct dtd_keys {
    struct dtd_key *newest;
    unsigned n;
};
enum dtd_key_state { DTD_KEY_NEW, DTD_KEY_BUSY, DTD_KEY_KNOWN, DTD_KEY_OTHER, DTD_KEY_NOMEM };
/* What is known of a user's key; a new one is busy until it is answered. */
enum dtd_key_state dtd_keys_ask(struct dtd_keys *ks, unsigned uid, const char *name, const char *digest,
                                uint64_t now_ms, struct dtd_key **ret);
/* taken: the key stands for this post from now on, and for its job ("" none); else it is forgotten. */
void dtd_keys_answer(struct dtd_keys *ks, struct dtd_key *k, bool taken, const char *job);
void dtd_keys_done(struct dtd_keys *ks);

struct dtd_service {
    uv_loop_t *loop;
    struct dtd_config cfg;
    struct dtd_http *http;
    struct dtd_lane *lane;
    struct dtd_keys keys;
    struct dtd_jobs jobs;
    struct dtd_pool *pool;
    struct cache *cache; /* under cache_lock */
    uv_mutex_t cache_lock;
    struct dtd_replies *replies;       /* finished ones, in memory */
    struct dtd_hits *hits;             /* the reading side of the cache */
    uint64_t hits_from[3];             /* of posts, by enum dtd_hit_from */
    uint64_t not_modified;             /* replies 304 */
    struct dtd_journal *journal;       /* NULL: jobs are not stored */
    struct dtd_share *share;           /* the cluster; NULL: there is none */
    char *cache_path;                  /* of its file, NULL: there is none; does not change */
    uint64_t cache_hits, cache_misses; /* of posts */
    struct dtd_metrics metrics;
    uint64_t start_us;
    bool ready;    /* a worker has answered */
    bool draining; /* told to stop */
    bool passed;   /* the socket is the service manager's */
};

/* ---- async.c: work on a pool thread on behalf of a request ------------------------------------------------------ */
struct dtd_async {
    struct dtd_service *s;
    struct dtd_req *req; /* NULL in `after` when the client has gone */
    /* on a pool thread: must not touch req or the service, the cache (locked) and cfg excepted */
    void (*work)(struct dtd_async *a);
    void (*after)(struct dtd_async *a); /* on the loop's thread */
    void (*release)(struct dtd_async *a);
    uv_work_t handle;
    struct dtd_async *next; /* of the lane */
    struct dtd_hold hold;
    unsigned uid;
};
/* Queue `a`, usually the first member of something larger; `release` frees it. Without a request, `work` is skipped
 * where there is no thread. */
void dtd_async_start(struct dtd_async *a);
void dtd_async_end(struct dtd_async *a); /* for lane.c: it has worked */

/* Is this the first request with its Idempotency-Key, or has it none? False: it has been answered. */
bool dtd_key_first(struct dtd_service *s, struct dtd_req *r);

/* ---- lane.c ----------------------------------------------------------------------------------------------------- */
struct dtd_lane;
int dtd_lane_new(uv_loop_t *loop, struct dtd_lane **ret, struct dt_err *e);
void dtd_lane_add(struct dtd_lane *l, struct dtd_async *a);
void dtd_lane_close(struct dtd_lane *l);            /* on the loop */
struct dtd_lane *dtd_lane_free(struct dtd_lane *l); /* after the loop has run dry */
void dtd_memory_init(void);                         /* of the process: memory that is freed goes back */

/* Bytes of a posted graph that the loop's thread hashes itself (0.2 ms), and looks up before it is counted. */
#define DTD_HASH_HERE (256u << 10)

/* ---- routes.c --------------------------------------------------------------------------------------------------- */
void dtd_serve(struct dtd_req *r);
bool dtd_begin(struct dtd_req *r, struct dtd_body_rule *body);
bool dtd_vital(const struct dtd_req *r);
struct dtd_param { /* of a query */
    const char *name;
    enum { DTD_TEXT, DTD_WORD, DTD_INTEGER, DTD_NUMBER } kind;
    const char *words; /* WORD: those that it may be, | between */
    double min, max;   /* INTEGER, NUMBER */
};
struct dtd_route { /* made of schema/api/openapi.json */
    unsigned method;
    const char *path;
    void (*fn)(struct dtd_service *s, struct dtd_req *r);
    const char *summary;
    enum { DTD_BODY_NONE, DTD_BODY_GRAPH, DTD_BODY_BUNDLE } body;
    bool vital, admin, keyed;
    const struct dtd_param *params; /* ends with name NULL */
};
extern const struct dtd_route dtd_routes[]; /* ends with path NULL */

/* ---- handlers --------------------------------------------------------------------------------------------------- */
void api_root(struct dtd_service *s, struct dtd_req *r); /* api-status.c */
void api_healthz(struct dtd_service *s, struct dtd_req *r);
void api_metrics(struct dtd_service *s, struct dtd_req *r); /* metrics.c */
void api_devices(struct dtd_service *s, struct dtd_req *r);
void api_post_job(struct dtd_service *s, struct dtd_req *r); /* api-post.c */
void api_jobs(struct dtd_service *s, struct dtd_req *r);     /* api-jobs.c */
void api_job(struct dtd_service *s, struct dtd_req *r);
void api_cancel(struct dtd_service *s, struct dtd_req *r);
void api_result(struct dtd_service *s, struct dtd_req *r);
void api_events(struct dtd_service *s, struct dtd_req *r); /* api-events.c */
void api_plan(struct dtd_service *s, struct dtd_req *r);   /* api-docs.c */
void api_report(struct dtd_service *s, struct dtd_req *r);
void api_trace(struct dtd_service *s, struct dtd_req *r);
void api_analysis(struct dtd_service *s, struct dtd_req *r);
void api_cache(struct dtd_service *s, struct dtd_req *r);

void api_cache_entries(struct dtd_service *s, struct dtd_req *r); /* api-cache.c */
void api_cache_verify(struct dtd_service *s, struct dtd_req *r);
void api_cache_gc(struct dtd_service *s, struct dtd_req *r);
void api_cache_export(struct dtd_service *s, struct dtd_req *r);
void api_cache_import(struct dtd_service *s, struct dtd_req *r);
void api_cache_nearest(struct dtd_service *s, struct dtd_req *r);

void api_reprofile(struct dtd_service *s, struct dtd_req *r);    /* api-reprofile.c */
void api_night_report(struct dtd_service *s, struct dtd_req *r); /* night-report.c */
/* api-reprofile.c: the options of jobs that plan again for this user, JSON. */
void dtd_reprofile_options(const struct dtd_service *s, unsigned uid, char *ret, size_t n);
/* api-docs.c: give out a finished reply, compressed if the client takes that. To a GET: with its ETag, or 304 if the
 * client has it already. To a post: as a hit, or as stale. */
void dtd_reply_finished(struct dtd_service *s, struct dtd_req *r, struct dtd_reply *f);
void dtd_reply_hit(struct dtd_req *r, struct dtd_reply *f, bool stale);
/* api-post.c: equal for posts that may share a job. */
int dtd_share_key(const json_t *graph, const char *want, const char *device, const char *options,
                  char share[DT_SHA256_TEXT], struct dt_err *e);

/* accept.c: make the post a job, or join one, and answer it. Takes p->request. The job if it is new, else NULL; it is
 * given to a worker by the next dtd_pool_kick. */
struct dtd_job *dtd_accept(struct dtd_service *s, struct dtd_req *r, const struct dtd_post *p);
/* 202 with where the job is; `o` is taken, NULL: out of memory. */
void dtd_reply_accepted(struct dtd_req *r, const struct dtd_job *j, json_t *o);

/* own.c: write the job's posters down as owners of the signature's entries, keep the finished reply to what was posted,
 * then report the job as done. Takes `document`. generation: of its row in the cache, or "". */
void dtd_finish(struct dtd_service *s, struct dtd_job *j, const char *cache, const char *signature, const char *digest,
                const char *generation, char *document, size_t len);

/* api-jobs.c: the job that the path names; NULL: it is not there, or not for this user; answered with 404. */
struct dtd_job *dtd_asked_job(struct dtd_service *s, struct dtd_req *r);
/* The job has ended, or will not end before this service does. */
static inline bool dtd_waited_enough(const struct dtd_service *s, const struct dtd_job *j)
{
    return dtd_state_final(j->state) || (s->draining && j->state == DTD_QUEUED);
}

/* joblog.c: a line about a job; digest: of its graph, NULL or "" where it is not known. */
void dtd_log_job(enum dt_log_level level, const struct dtd_job *j, const char *digest, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* watchdog.c: tell the service manager that all is well, while it is; nothing where it does not watch. */
void dtd_watchdog_start(struct dtd_service *s);
void dtd_watchdog_stop(void);
/* api-status.c: while no worker has answered yet, and while the service drains, no job is taken: true, and the request
 * is answered (503 with Retry-After). */
bool dtd_closed(struct dtd_service *s, struct dtd_req *r);

/* stale.c: what was served is of an older toolchain; plan it again while the service is idle. graph: its name, for the
 * log. Takes p->request and keep. */
void dtd_requeue(struct dtd_service *s, const struct dtd_post *p, const char *digest, const char *graph,
                 struct dtd_keep *keep);
void dtd_requeue_look(void); /* a user's job was posted: give way to it now */
void dtd_requeue_stop(void); /* the service drains */

/* ---- peer.c ----------------------------------------------------------------------------------------------------- */
uid_t dtd_peer_uid(const struct dtd_req *r); /* (uid_t)-1: not known */
/* root, the service's user, or a user that the configuration names */
bool dtd_peer_admin(const struct dtd_service *s, const struct dtd_req *r);
bool dtd_peer_sees(const struct dtd_service *s, const struct dtd_req *r, const struct dtd_job *j); /* owner or admin */
#define DTD_ADMINS_ONLY                                                                                                \
    "only root, the service's user and those whom admin_group or admin_uids of its configuration names may "

void dtd_reply_json(struct dtd_req *r, int status, const char *headers, json_t *o); /* takes o; NULL: out of memory */

#endif
