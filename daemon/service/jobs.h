/* Jobs: what was posted, how far it is, what came of it. No I/O here: the pool moves jobs along, the HTTP side watches
 * them.
 *
 *              post                start                done
 *     (none) ───────▶ queued ────────────────▶ running ───────▶ done
 *                       │  │ ◀── give back ───── │  │     (another user's turn; the service stops)
 *                       │  └── fail ─▶ failed ◀──┘  │   (no device; refused; worker lost; time limit)
 *                       └───── cancel ─▶ cancelled ◀┘   (DELETE; the service stops and the job is not stored)
 *
 * done, failed and cancelled are final. Only transitions in the table in jobs.c happen; anything else is a bug (assert)
 * or, for cancel, answered with "already final".
 *
 * A job belongs to the users who posted it (owners). Who gets a worker next, and who may queue one more, is in fair.h.
 */
#ifndef DTD_JOBS_H
#define DTD_JOBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

enum dtd_state { DTD_QUEUED, DTD_RUNNING, DTD_DONE, DTD_FAILED, DTD_CANCELLED, DTD_NSTATES };
const char *dtd_state_text(enum dtd_state s);
static inline bool dtd_state_final(enum dtd_state s) { return s >= DTD_DONE; }

struct dtd_event {
    uint64_t seq;
    enum { DTD_EV_STATE, DTD_EV_PROGRESS } kind;
    char *json; /* one object without line breaks, owned */
};
#define DTD_MAX_EVENTS 1024 /* of one job; older ones are forgotten */

struct dtd_user;
struct dtd_owner {
    unsigned uid;
    bool posted, written;  /* the graph is theirs, not one that was stored; own.c has written that down */
    bool left;             /* cancelled it, and others wanted it: sees it still, counts for nothing */
    struct dtd_user *user; /* fair.c: the account; valid while the job is active */
};

/* Under which key the job's document is to be kept as a finished reply; NULL in a job: it is not. free() it. */
struct dtd_keep {
    char key[72], device[72]; /* dtd_reply_key, dtd_device_key at the time of the post */
    char policy[];
};

struct dtd_job;
struct dtd_watch { /* called after every event; zero-initialise; owned by the watcher */
    void (*fn)(struct dtd_watch *w, struct dtd_job *j);
    struct dtd_watch *next;
    struct dtd_job *job; /* NULL: not watching */
};

struct dtd_job {
    char id[40];
    char trace[56]; /* W3C trace context of the post that made it, "": none */
    char share[72]; /* equal: same graph, options, device, want */
    char want[16], device[80];
    enum dtd_state state;
    unsigned posts;                               /* how many posts share it */
    struct dt_vec(struct dtd_owner) owner;        /* who may see and cancel it */
    struct dtd_user *nobody;                      /* fair.c: the account of posters whom the kernel did not name */
    double timeout;                               /* seconds, 0: the service's */
    unsigned tries;                               /* workers that were dead when they were given the job */
    unsigned turns;                               /* turns that it lost to other users (fair.h) */
    unsigned kills;                               /* workers that died with it, services too (journal.c) */
    bool durable, written;                        /* its row is stored; the journal knows it */
    uint64_t created_ms, started_ms, finished_ms; /* since 1970 */
    uint64_t turn_us, charged_us;                 /* running, monotonic: begin of the turn; paid for until then */
    uint64_t ran_us;                              /* in turns before this one */
    uint64_t posted_ns, begun_ns;                 /* uv_hrtime(): when it was posted, and given to a worker */
    char graph[64];                               /* the posted graph's name, cut; for the log */
    bool drains, seen; /* it ran when the service was told to stop; somebody has asked for what came of it */
    char *request;     /* body of the request frame; given to the worker at start */
    size_t request_len;
    bool aside; /* of the service's own, below users' (stale.c, night.c): see pool.h */
    struct dtd_keep *keep;
    char *head;              /* of a job of an earlier service: its request without the graph, and the store's key */
    char *progress;          /* JSON object or NULL */
    struct dtd_event *event; /* ring */
    unsigned nevent, first;
    uint64_t seq;
    /* final */
    char *result; /* the document's text; NULL in a job of an earlier service: the cache may have it (api-jobs.c) */
    size_t result_len;
    char cache[8], signature[72], digest[72];
    char *problem; /* problem document */
    struct dtd_watch *watch;
    struct dtd_job *prev, *next;   /* all jobs, oldest first */
    struct dtd_job *aprev, *anext; /* queued and running ones, oldest first */
};

struct dtd_jobs {
    struct dtd_job *head, *tail;
    struct dtd_job *active, *active_tail;
    struct dtd_user *users; /* fair.c */
    double clock;           /* fair.c: virtual time, seconds */
    double slice;           /* seconds of one turn while others wait; 0: turns have no end */
    uint64_t (*now_us)(void);
    /* told after each change of state, owners or result, and (gone) before a job is forgotten; or NULL */
    void (*changed)(void *user, struct dtd_job *j, bool gone);
    void *changed_user;
    unsigned count[DTD_NSTATES]; /* jobs remembered, by state */
    uint64_t total[DTD_NSTATES]; /* entered since start, by state */
    uint64_t shared;             /* posts that joined an existing job */
    uint64_t turns_lost;         /* of all jobs */
    double run_seconds;          /* sum over finished jobs that ran */
    size_t result_bytes;
    unsigned max_queued, max_finished;
    size_t max_result_bytes;
    uint32_t boot;
    uint64_t next_id;
    const char *trace; /* of the request that is being answered, NULL: none */
};

void dtd_jobs_init(struct dtd_jobs *js, unsigned max_queued, unsigned max_finished, size_t max_result_bytes);
void dtd_jobs_done(struct dtd_jobs *js);
struct dtd_job *dtd_jobs_find(struct dtd_jobs *js, const char *id);

struct dtd_post {
    unsigned uid; /* who posts; UINT_MAX: not known */
    bool posted;  /* the graph is theirs */
    const char *share, *want, *device;
    double timeout; /* seconds, 0: the service's */
    char *request;  /* body of the request frame, taken in any case */
    size_t len;
    bool aside; /* nobody waits for it */
};
/* A new job, or the active one with the same share key (then 1, and `request` is freed); the user owns it.
 * DT_E_BUSY: the queue is full; DT_E_SHARE: this user's share of it is. */
int dtd_jobs_post(struct dtd_jobs *js, const struct dtd_post *p, struct dtd_job **ret, struct dt_err *e);
/* A job of an earlier service, with its id; `made` milliseconds since 1970; its events are numbered from era * 2^20 on.
 * NULL: out of memory. No limit holds for it. It is queued, and nobody's; dtd_job_end puts it where it was. Takes
 * `request`. */
struct dtd_job *dtd_jobs_restore(struct dtd_jobs *js, const char *id, uint64_t made, uint64_t era,
                                 const struct dtd_post *p);
void dtd_job_end(struct dtd_jobs *js, struct dtd_job *j, enum dtd_state final, uint64_t finished_ms);

void dtd_job_own(struct dtd_jobs *js, struct dtd_job *j, unsigned uid, bool posted); /* this user wants it */
bool dtd_job_owned(const struct dtd_job *j, unsigned uid); /* they posted it, though they may have left it */
/* This user no longer wants it; false: no other user does. */
bool dtd_job_disown(struct dtd_jobs *js, struct dtd_job *j, unsigned uid);

/* Transitions. Strings are taken. */
void dtd_job_start(struct dtd_jobs *js, struct dtd_job *j);
void dtd_job_give_back(struct dtd_jobs *js, struct dtd_job *j, bool turn); /* running to queued; turn: it lost one */
void dtd_job_progress(struct dtd_jobs *js, struct dtd_job *j, const char *stage, const char *message, unsigned done,
                      unsigned of);
void dtd_job_finish(struct dtd_jobs *js, struct dtd_job *j, const char *cache, const char *signature,
                    const char *digest, char *result, size_t len);
void dtd_job_fail(struct dtd_jobs *js, struct dtd_job *j, char *problem);
void dtd_job_fail_err(struct dtd_jobs *js, struct dtd_job *j, struct dt_err *e); /* empties e */
bool dtd_job_cancel(struct dtd_jobs *js, struct dtd_job *j, const char *why);    /* false: already final */

/* A watched job is not forgotten. */
void dtd_job_watch(struct dtd_job *j, struct dtd_watch *w);
void dtd_job_unwatch(struct dtd_jobs *js, struct dtd_watch *w);
void dtd_job_poke(struct dtd_job *j); /* call its watchers although nothing happened: the service stops */
const struct dtd_event *dtd_job_event_after(const struct dtd_job *j, uint64_t seq); /* the first with a larger number */

/* Why it failed or was cancelled, or NULL. A failed job always has one. */
const char *dtd_job_problem(const struct dtd_job *j);
json_t *dtd_job_json(const struct dtd_job *j); /* what GET /v1/jobs/ID answers */

#endif
