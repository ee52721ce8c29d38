/* Workers: one process per device, started when needed, talked to in frames (base/wire.h), killed when they hang.
 *
 *          spawn              hello answered                job                answered
 *   (none) ─────▶ starting ─────────────────▶ idle ───────────────────▶ busy ───────────▶ idle
 *                    │                         │ ping ▶ pinging ▶ idle    │ error after which the context is unusable,
 *                    │ time, error, death      │ not needed, draining     │ time limit, cancel, turn over, death
 *                    └────────────────────────▶└──────────▶ ending ◀──────┘
 *                                                             │ process reaped and pipe at its end
 *                                                             ▼ (gone; the default device's worker is started again)
 */
#ifndef DTD_POOL_H
#define DTD_POOL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/hash.h"

struct dtd_service;
struct dtd_job;
struct dtd_pool;

/* What a worker said about its device; enough to look documents up in the cache. */
struct dtd_device {
    char arch[16], key[192], toolchain[256];
    char sound_since[16]; /* the oldest rewriter whose documents are right */
    char figures[16];     /* of its timing model: stock, calibrated, given; "" for a GPU */
    char driver[64], calibration[DT_SHA256_TEXT],
        settings[128];   /* its build; figures in force; what else changes plans */
    json_t *info;        /* the "device" member of documents */
    json_t *devices;     /* all devices of the machine */
    json_t *confinement; /* what its worker is confined to */
};

/* Why a worker ended. */
enum dtd_end {
    DTD_END_NONE,   /* not needed, or the service stops: no restart */
    DTD_END_CRASH,  /* a signal that the service did not send */
    DTD_END_EXIT,   /* by itself, with a status other than 0 */
    DTD_END_START,  /* its device was not opened, or not in time */
    DTD_END_DEVICE, /* after an error that may leave the device's context unusable, or a ping that its device failed */
    DTD_END_SILENT, /* no sign of life, or no answer to a ping */
    DTD_END_PROTOCOL,  /* it sent what it may not send */
    DTD_END_TIME,      /* its job's time limit */
    DTD_END_CANCELLED, /* its job was cancelled */
    DTD_END_LIMITS,    /* its job took more memory or CPU time than it may */
    DTD_END_TURN,      /* its job went back to the queue */
    DTD_NENDS
};
const char *dtd_end_text(enum dtd_end e);

struct dtd_pool_counts {
    uint64_t started, lost, killed, over_limits;
    uint64_t ends[DTD_NENDS];
    uint64_t failed_writes, damaged; /* of the store, as workers met them */
    unsigned alive, busy;
};

int dtd_pool_new(struct dtd_service *s, struct dtd_pool **ret, struct dt_err *e);
/* Start the default device's worker; `ready` is called once: err NULL when it answers, else why it never will. */
void dtd_pool_start(struct dtd_pool *p, void (*ready)(struct dtd_service *s, struct dt_err *err));
void dtd_pool_kick(struct dtd_pool *p); /* give queued jobs to workers */
/* the job is no longer wanted: its worker, if any, is killed */
void dtd_pool_cancel(struct dtd_pool *p, struct dtd_job *j);
/* A GPU's worker that is idle is ended, and the next one started: only a process that has not opened the software
 * device yet can ask CUPTI who has the counters (device/watch.c). */
void dtd_pool_fresh(struct dtd_pool *p, const char *device);
/* the service stops: a running job that is stored goes back to the queue, and its worker is ended */
void dtd_pool_give_back(struct dtd_pool *p, struct dtd_job *j);
const struct dtd_device *dtd_pool_device(const struct dtd_pool *p, const char *spec); /* NULL: not known yet */

/* Every worker is alive and has been heard within the last cfg.worker_silence seconds. */
bool dtd_pool_heard(const struct dtd_pool *p);

/* Ask the default worker for a sign of life. fn is called once, perhaps at once; ok: it answered, or is busy within its
 * time. */
struct dtd_ping {
    void (*fn)(struct dtd_ping *p, bool ok, const char *what);
    struct dtd_ping *next;
};
void dtd_pool_ping(struct dtd_pool *p, struct dtd_ping *ping);
void dtd_pool_unping(struct dtd_pool *p, struct dtd_ping *ping);

void dtd_pool_stop(struct dtd_pool *p, bool kill_busy); /* no new workers; idle ones end, busy ones after their job */
bool dtd_pool_empty(const struct dtd_pool *p);
struct dtd_pool *dtd_pool_free(struct dtd_pool *p);
const struct dtd_pool_counts *dtd_pool_counts(struct dtd_pool *p);
json_t *dtd_pool_json(const struct dtd_pool *p); /* workers, for GET /healthz and /v1/devices */

#endif
