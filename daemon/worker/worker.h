/* The worker process: the only one that touches kernels and the device. Private to this room. */
#ifndef DTD_WORKER_H
#define DTD_WORKER_H

#include <jansson.h>

#include "cache/cache.h"
#include "daemon/shared/shared.h"
#include "device/device.h"
#include "graph/graph.h"

enum wrk_confine { WRK_CONFINE_OFF, WRK_CONFINE_TRY, WRK_CONFINE_REQUIRE, WRK_CONFINE_ENFORCE }; /* confine.c */

struct wrk {
    const char *spec;       /* --device */
    const char *cache_path; /* --cache or NULL */
    struct dev_device *dev; /* NULL until wrk_open */
    struct cache *cache;    /* NULL: cannot be used, work goes on without */
    struct wrk_memo *memo;  /* memo.c */
    enum wrk_confine confine;
    const char *files, *calls; /* what is in force: enforced, logged, off, unavailable; NULL: not yet confined */
    unsigned memory_mb;        /* it may have; 0: three quarters of the machine's */
    unsigned beat_ms;          /* milliseconds between signs of life, 0: none */
    json_t *devices;           /* of the machine, from before it was confined; NULL: not asked yet */
    bool print;                /* what kernels of `run` print goes to stderr */
    bool calibrated;           /* the software device has the figures of a stored calibration */
    char key[192], toolchain[256];
    char driver[64];                  /* which build of it */
    char calibration[DT_SHA256_TEXT]; /* of the figures in force when they are not the model's own, else "" */
    int in, out;                      /* frames come and go here */
    uint32_t number;                  /* of the request that they answer */
    uint64_t last_progress_us;
    char last_stage[32];
    uint64_t until_us; /* dt_now_us() by which the present request should be answered; 0: any time */
    bool afresh;       /* the present request: no plan is carried over, and one that was is none */
    bool carried;      /* its plan is one that was carried over */
    /* share.c: of the present request */
    bool shared;                  /* the service asks the cluster for it */
    bool asked;                   /* a question is not yet answered */
    bool by_cluster;              /* its plan was made by a recipe of the cluster */
    unsigned away;                /* measurements that were asked for in vain, one after the other */
    int64_t token;                /* of the lease under which it plans, or 0 */
    char refused[DT_SHA256_TEXT]; /* digest of the recipe of the cluster that did not hold for this job, or "" */
    char instead[DT_SHA256_TEXT]; /* digest of the row of the cluster that is not believed, or "" */
    /* confine.c */
    bool netless;        /* --netless: the service has a network, which this process must not have */
    const char *network; /* what came of it: namespace, unavailable; NULL: not asked for */
};

/* Footprints of launches and trials of rewrites, kept from job to job and from worker to worker (memo.c). */
const struct ana_memo *wrk_memo(struct wrk *w, enum cache_kept kind); /* NULL: out of memory */
void wrk_memo_flush(struct wrk *w);                                   /* what is new goes to the cache's file */
void wrk_memo_done(struct wrk *w);

struct ana_result;
struct rw_options;
/* recipe.c. 1: *ret_plan was made by the imported recipe of the key, which is *ret_recipe (new references); 0:
 * there is none, or it does not hold; negative: error. */
int wrk_plan_by_recipe(struct wrk *w, const struct cache_key *k, struct dt_graph *g, const struct dev_prog *p,
                       const struct ana_result *a, const struct rw_options *o, json_t **ret_plan, json_t **ret_recipe,
                       struct dt_err *e);

/* share.c: ask what the cluster has under the key of a plan; nobody waits. */
void wrk_share_find(struct wrk *w, const struct cache_key *k);
/* Make the plan by a recipe, if there is one here or in the cluster: `by` does it (1, 0, negative as
 * wrk_plan_by_recipe), as often as there is another one to try. 0: search for it; w->token has the lease. */
typedef int wrk_by_recipe(void *user);
int wrk_share_plan(struct wrk *w, const struct cache_key *k, wrk_by_recipe *by, void *user);
/* What the cluster has of the same signature that comes nearest to a key, as a member of explain's document:
 * {"state": "near", "none", "away"; "entry", "differs" of "near"}. NULL: the cluster is not asked for this job. */
json_t *wrk_share_near(struct wrk *w, const struct cache_key *k);
/* A measurement of another machine with this device, under a key of the performance library. True: *ret (free()). */
bool wrk_share_times(struct wrk *w, const char *key, void **ret, size_t *ret_len);
void wrk_share_timed(struct wrk *w, const struct cache_bytes *v, size_t n); /* tell them what was measured here */
/* For the outbox; factors: of its signature, or NULL. NULL: memory. */
json_t *wrk_share_facts(const struct wrk *w, const json_t *plan, json_t *factors);

/* What a verb gives back. */
struct wrk_answer {
    bool hit;
    bool shared;                                            /* made by a recipe of the cluster */
    char signature[DT_SHA256_TEXT], digest[DT_SHA256_TEXT]; /* "" where there is none */
    char generation[DT_SHA256_TEXT];                        /* of the row in the cache (cache_last_row), or "" */
    json_t *document;
};

int wrk_open(struct wrk *w, struct dt_err *e); /* device.c: the device, once; then the worker is confined */
/* device.c: what fn gives, by a process that ends with it: it may open drivers. NULL: no process is to be had, or it
 * failed. Before the device is open. */
json_t *wrk_apart(json_t *(*fn)(void));
json_t *wrk_list_devices(void);                                 /* all of this machine */
bool wrk_confine_word(const char *word, enum wrk_confine *ret); /* confine.c: false: no such word */
int wrk_confine(struct wrk *w, struct dt_err *e);               /* once, when the device is open */
json_t *wrk_confinement(const struct wrk *w);                   /* what is in force, as a document; NULL: memory */
void wrk_leave_network(struct wrk *w);                          /* confine.c: at the start, while there is one thread */
void wrk_open_cache(struct wrk *w);                             /* stored.c: the cache, once; without it work goes on */
int wrk_need_cache(struct wrk *w, struct dt_err *e);            /* the same for a verb that cannot do without */
/* beat.c: send a frame of the present request; and a sign of life every `ms` milliseconds from now on. */
int wrk_send(struct wrk *w, char type, const char *body, size_t len);
int wrk_beat(struct wrk *w, unsigned ms);
void wrk_beat_at(uint32_t number); /* of the request that the worker is at, for its beats; 0: it waits for one */
/* request.c: send progress of the present request (a dev_progress). */
void wrk_progress(const char *stage, const char *message, unsigned done, unsigned of, void *w);
/* Run one request and answer it. 0: go on; 1: answered, but the worker must end; DT_E_IO: the pipe is broken. */
int wrk_request(struct wrk *w, const char *body, size_t len);

/* Verbs: `in` is the request's graph, or for a verb that takes none the whole request. */
typedef int wrk_verb(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e);
wrk_verb wrk_analyze, wrk_optimize, wrk_explain, wrk_reprofile; /* plan.c */
/* run.c: warnings, of launches of a graph on several streams (rw_order_posted), into a document. DT_E_NOMEM. */
int wrk_warn(json_t *doc, const struct dt_warnings *more);
wrk_verb wrk_run;       /* run.c */
wrk_verb wrk_calibrate; /* calibrate.c */
wrk_verb wrk_new;       /* new.c */
wrk_verb wrk_doctor;    /* doctor.c */
/* Before a software device is opened: the figures of a calibration that the cache has of the GPU that it models, for
 * dev_open_figures. NULL: there is none, or the environment says which figures it has. Caller frees. */
char *wrk_stored_figures(struct wrk *w);
wrk_verb wrk_devices, wrk_ping;                                              /* device.c */
wrk_verb wrk_cache, wrk_find_analysis, wrk_find_plan, wrk_report, wrk_trace; /* stored.c */

#endif
