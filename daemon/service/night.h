/* The night: stored graphs that have no up-to-date plan are planned, one after the other, below the jobs of users. On
 * the loop's thread.
 *
 * night.c         what comes next, and when; the job that is under way
 * night-queue.c   the cluster's queue: each graph is planned by one host
 * night-report.c  what came of it: kept, as JSON and HTML, and in figures
 * night-resume.c  a night that the end of a service ended goes on in the next one
 */
#ifndef DTD_NIGHT_H
#define DTD_NIGHT_H

#include <jansson.h>
#include <stdbool.h>

#include "cluster/cluster.h"
#include "daemon/service/service.h"

struct dtd_night_work {
    unsigned uid;     /* who asked for it */
    char options[40]; /* of the jobs, JSON */
    char device[80];  /* as in the configuration */
    char arch[16], key[192], toolchain[256];
    bool shares;       /* of what users share: the cluster's queue may be used */
    bool all;          /* graphs of all users, else those of `uid` */
    json_t *due;       /* as cache_overdue gives it; borrowed by dtd_night_begin */
    json_t *former;    /* the report of a night that goes on, borrowed; NULL: this one is new */
    int64_t former_id; /* its number in the store */
};
/* budget_s: nothing begins, and nothing goes on, later than that; 0: no bound. False: a night is under way (or there is
 * no memory), and nothing was begun. It ends by itself, also when the service drains. */
bool dtd_night_begin(struct dtd_service *s, const struct dtd_night_work *w, double budget_s);
void dtd_night_look(void); /* a user's job was posted: give way to it now */
void dtd_night_stop(void); /* the service drains; before the cluster is closed */

/* ---- night-resume.c ---------------------------------------------------------------------------------------------- */

/* The service answers, and knows its default device: a night of the one before it goes on. */
void dtd_night_resume(struct dtd_service *s);

/* ---- night-queue.c ----------------------------------------------------------------------------------------------- */

/* One entry, or one graph of this host alone. */
struct dtd_night_item {
    char graph[DT_SHA256_TEXT];
    json_int_t rank;
    char reason[16];
    int64_t token;                /* of the queue's lease; 0: it is not of the queue */
    uint64_t held_ms, renewed_ms; /* the lease holds from then on; when it was renewed last: uv_now */
    bool lost;                    /* the lease: somebody else has it */
};
struct dtd_night_queue;
enum dtd_taken {
    DTD_TAKEN,      /* *ret has it */
    DTD_TAKEN_NONE, /* there is nothing (more) to do */
    DTD_TAKEN_WAIT, /* not now: others hold what is left, or an answer is on its way */
    DTD_TAKEN_AWAY  /* the cluster does not answer */
};
/* NULL: memory. */
struct dtd_night_queue *dtd_night_queue_open(struct dtd_service *s, const struct dtd_night_work *w);
/* More of what is due goes in; to be called again and again, also while this host has no time itself. */
void dtd_night_queue_fill(struct dtd_night_queue *q);
/* Asks, and says what came; to be called again and again. */
enum dtd_taken dtd_night_queue_take(struct dtd_night_queue *q, struct dtd_night_item *ret);
/* The lease of what was taken is renewed in time; `lost` is set when it is not held any more. */
void dtd_night_queue_hold(struct dtd_night_queue *q, struct dtd_night_item *item);
enum dtd_given { DTD_GIVEN_DONE, DTD_GIVEN_FAILED, DTD_GIVEN_BACK, DTD_GIVEN_FOREIGN };
/* Done; failed, for `why`; given back as it was; given back for good, since this host cannot make it. */
void dtd_night_queue_give(struct dtd_night_queue *q, const struct dtd_night_item *item, enum dtd_given how,
                          const char *why);
/* It goes when the answers that it waits for have come. */
void dtd_night_queue_close(struct dtd_night_queue *q);

/* ---- night-report.c ---------------------------------------------------------------------------------------------- */

enum dtd_night_outcome {
    DTD_NIGHT_FASTER, /* than what was used until now: the former plan for this device, else the posted launches */
    DTD_NIGHT_SLOWER,
    DTD_NIGHT_UNCHANGED,
    DTD_NIGHT_FAILED,
    DTD_NIGHT_OUTCOMES
};
struct dtd_night_row {
    const struct dtd_night_item *item;
    const char *signature, *failure; /* "": none */
    double before_us, former_us, after_us, seconds;
    bool shared; /* made by the recipe of another host */
};
enum dtd_night_count { DTD_NIGHT_GAVE_WAY, DTD_NIGHT_GPU_BUSY, DTD_NIGHT_COUNTS };

/* The figures of all nights of this process, for /metrics. */
struct dtd_night_figures {
    bool under_way;
    uint64_t graph[DTD_NIGHT_OUTCOMES], count[DTD_NIGHT_COUNTS], nights;
    double seconds;
};
extern struct dtd_night_figures dtd_night_figures;
extern const char *const dtd_night_outcomes[DTD_NIGHT_OUTCOMES], *const dtd_night_counts[DTD_NIGHT_COUNTS];

void dtd_night_report_begin(struct dtd_service *s, const struct dtd_night_work *w, double budget_s, bool queue);
void dtd_night_report_opened(void); /* the window has been open */
void dtd_night_report_turn(void);   /* to be called again and again: what is new is saved */
void dtd_night_report_row(const struct dtd_night_row *row);
void dtd_night_report_count(enum dtd_night_count what);
/* state: "done", "budget", "window", "stopped" */
void dtd_night_report_end(const char *state);
void dtd_night_report_done(void); /* at the end of the service */

#endif
