/* The table of jobs: rows that a service writes before it answers 202, and reads when it starts (jobs.c). */
#ifndef DT_CACHE_JOBS_H
#define DT_CACHE_JOBS_H

#include "cache/cache.h"

struct cache_job {
    const char *id;
    const char *post;    /* JSON; cache_job_change does not look at it */
    const char *request; /* NULL in cache_job_change: stays; "": the job has ended */
    const char *state;   /* JSON */
};

/* For a handle that does nothing but jobs: a commit is on the disk when it returns, and another process that holds the
 * file is waited for two seconds at most. */
void cache_jobs_settings(struct cache *c);
/* Several calls as one transaction; when ok is false, or the commit fails, none of them happened. DT_E_CACHE. */
int cache_jobs_begin(struct cache *c, struct dt_err *e);
int cache_jobs_end(struct cache *c, bool ok, struct dt_err *e);

int cache_job_put(struct cache *c, const char *service, const struct cache_job *j, struct dt_err *e);
int cache_job_change(struct cache *c, const struct cache_job *j, struct dt_err *e); /* no such row: nothing happens */
int cache_job_forget(struct cache *c, const char *id, struct dt_err *e);
/* Rows of one service, in the order in which they were put; a row that is damaged is removed. Rows of any service that
 * nothing has changed for max_age seconds are removed first. Texts are valid during the call. */
int cache_jobs_load(struct cache *c, const char *service, int64_t max_age,
                    void (*take)(void *user, const struct cache_job *j), void *user, struct dt_err *e);

#endif
