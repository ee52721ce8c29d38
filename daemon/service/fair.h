/* Fair shares of the queue and of the workers, by user. Part of the state machine in jobs.h: pure, no I/O.
 *
 * Turns. Each user has an account: the seconds that their jobs ran, a job of n users counted as one n-th for each. The
 * next job for a free worker is one of the user with the smallest account, and of theirs the oldest (behind those, what
 * lost a turn). Who comes back after a pause starts at the virtual time, which is the account of whoever was served
 * last as it was then: a pause saves nothing up, and costs nothing (start-time fair queueing, Goyal, Vin and Cheng
 * 1996, with equal weights).
 *
 * The end of a turn. A worker has one job, and it cannot be interrupted and continued: a job that yields is given back
 * and begins anew later. So it yields only when another user waits whose account is smaller by a slice (cfg.job_slice)
 * or more, and when it has run for a slice in this turn; two slices when it has lost one turn, four after two, eight
 * after three or more, so that a long job comes to its end although others post short ones for ever. Hence a user who
 * uses less than the others waits for at most one slice of a job that has lost no turn, and for at most eight of any.
 * The time limit of a job counts all its turns.
 *
 * The queue. A user who waits alone may fill it, up to the last eighth. While others wait, each of n users may have one
 * part in n + 1 of it. In its last eighth a user may have no more jobs than there are free places, so that there is one
 * for whoever comes new. These shares bind new jobs only: joining a job that is there, hits, and jobs given back are
 * not counted.
 */
#ifndef DTD_FAIR_H
#define DTD_FAIR_H

#include "daemon/service/jobs.h"

struct dtd_user {
    unsigned uid;
    double used;             /* seconds; compared with dtd_jobs.clock */
    unsigned queued, active; /* as of the last count */
    struct dtd_user *next;
};

struct dtd_user *dtd_fair_user(struct dtd_jobs *js, unsigned uid); /* the account, made when new; NULL: out of memory */
void dtd_fair_charge(struct dtd_jobs *js);                         /* accounts are up to now */
void dtd_fair_begin(struct dtd_jobs *js, struct dtd_job *j);       /* its turn begins */
int dtd_fair_admit(struct dtd_jobs *js, unsigned uid, struct dt_err *e); /* one more job? 0, DT_E_BUSY, DT_E_SHARE */
/* Whose turn it is: of the queued jobs that `may` takes, and that no user of `except` wants (NULL: all). NULL: none. */
struct dtd_job *dtd_fair_next(struct dtd_jobs *js, const struct dtd_job *except,
                              bool (*may)(const struct dtd_job *j, const void *user), const void *user);
/* Seconds until `running` must yield to `waiting`: 0 now, negative never (as things are). */
double dtd_fair_yields(struct dtd_jobs *js, const struct dtd_job *running, const struct dtd_job *waiting);
/* Whose account is larger: of two running jobs the one that yields first. */
bool dtd_fair_ahead(struct dtd_jobs *js, const struct dtd_job *a, const struct dtd_job *b);
/* Seconds after which this user may try again, from the mean time of a job and what is before them: 1 to 600. */
unsigned dtd_fair_retry_after(struct dtd_jobs *js, unsigned uid, unsigned workers);
void dtd_fair_done(struct dtd_jobs *js);

#endif
