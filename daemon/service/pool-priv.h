/* Shared by pool.c (which worker gets which job), pool-worker.c (one process) and pool-frames.c (what it says). */
#ifndef DTD_POOL_PRIV_H
#define DTD_POOL_PRIV_H

#include <uv.h>

#include "base/str.h"
#include "cache/cache.h"
#include "daemon/service/service.h"

#define DTD_BEAT_MS 1000 /* between two signs of life of a worker */
#define RESTART_MIN_MS 100
#define RESTART_MAX_MS 10000

enum worker_state { WORKER_STARTING, WORKER_IDLE, WORKER_BUSY, WORKER_PINGING, WORKER_ENDING };

struct dtd_worker {
    struct dtd_pool *pool;
    struct dtd_worker *next;
    char device[80];
    enum worker_state state;
    uv_process_t process;
    uv_pipe_t in, out;                  /* its stdin and stdout */
    uv_timer_t timer;                   /* deadline of what it is doing */
    uv_timer_t watch;                   /* while it is busy: what it takes (watch.c) */
    unsigned handles;                   /* not yet closed */
    bool exited, at_end, killed, hello; /* hello: it has answered once */
    bool broke;                         /* killed because of what it sent: what it said last counts for nothing */
    int64_t exit_status;
    int signal;
    struct dtd_job *job;   /* BUSY; still queued until the worker's first frame */
    char *body;            /* its request: the job may have to go back to the queue */
    uint32_t number;       /* of the newest request, which its answers repeat */
    struct dt_str frame;   /* what has come of the next frame */
    const char *why;       /* it was killed */
    char over[128];        /* the limit that its job was over */
    double cpu_before;     /* seconds of CPU time it had taken when it got its job */
    int why_num;           /* the error the job gets, 0: worker-lost */
    struct dt_err refusal; /* STARTING: what the worker said */
    unsigned jobs;
    uint64_t heard;           /* uv_now() when bytes came last, 0: never */
    uint64_t apart;           /* BUSY: uv_now() when it first said that it is not at its request; 0: it has not */
    struct dtd_spent spent;   /* on its job, by stage */
    enum dtd_end end;         /* why it was killed */
    struct cache_counts said; /* in its last beat */
    struct dtd_ask *ask;      /* its question to the cluster that is not answered yet (share.c) */
    struct dtd_lease *lease;  /* under which it plans */
    bool shares;              /* its job asked the cluster for a plan */
    bool storeless;           /* the cache's file was not open when it started */
    bool aside;               /* it has jobs that nobody waits for (pool.c) */
    uint64_t idle;            /* aside: uv_now() when it became idle */
};

struct known {
    char spec[80];
    struct dtd_device device;
    struct known *next;
};

struct dtd_pool {
    struct dtd_service *service;
    struct dtd_worker *workers;
    unsigned nworkers;
    struct known *known;
    struct dtd_ping *pings;
    struct dtd_pool_counts count;
    uv_timer_t restart, turn;
    unsigned restart_ms;
    uint64_t alone;  /* uv_now() until which no worker is started aside, since one could not */
    uv_timer_t beat; /* looks for workers that have gone silent */
    uint64_t last_beat;
    bool stopping, kicking;
    void (*ready)(struct dtd_service *s, struct dt_err *err);
};

/* false: out of memory; else a worker, or its jobs have failed */
bool worker_spawn(struct dtd_pool *p, const char *device, bool aside);
void worker_give(struct dtd_worker *w, struct dtd_job *j); /* IDLE */
void worker_ping(struct dtd_worker *w);                    /* IDLE */
void worker_end(struct dtd_worker *w);                     /* IDLE: by closing its stdin */
void worker_kill(struct dtd_worker *w, enum dtd_end end, const char *why);
void worker_broke(struct dtd_worker *w, const char *why); /* what it sent is wrong: kill it */
void worker_begin(struct dtd_worker *w);                  /* BUSY: it has taken its request, and its job runs */
void worker_count(struct dtd_worker *w,
                  const struct dtd_job *j); /* done with it, one way or another: how long it took */

/* pool-frames.c */
void worker_take(struct dtd_worker *w, const char *p, size_t n); /* the next bytes that it sent */
/* Kill it when nothing came from it for cfg.worker_silence seconds. */
void worker_look(struct dtd_worker *w, uint64_t now);

/* Answer its question; takes `answer` (NULL: memory is out, and it is ended). */
void worker_tell(struct dtd_worker *w, json_t *answer);
uint64_t worker_left_ms(const struct dtd_worker *w); /* BUSY: until its job's time limit */

void worker_watch(struct dtd_worker *w); /* watch.c: BUSY; until the timer is stopped */
uint64_t worker_resident(pid_t pid);     /* bytes that a process and its children have in memory, as that counts them */

bool pool_store(const struct dtd_pool *p); /* is the cache's file open? */
int pool_learn(struct dtd_pool *p, const char *spec, const json_t *doc);
void pool_fail_queued(const struct dtd_worker *w, const char *problem);
void pool_worker_gone(struct dtd_pool *p, const char *device, bool failed_to_start);
void pool_answer_pings(struct dtd_pool *p, bool ok, const char *what);

#endif
