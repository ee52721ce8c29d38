/* What the service counts beyond its parts' own counters; GET /metrics (metrics.c) prints all of them. All on the
 * loop's thread. Times are in seconds.
 */
#ifndef DTD_METRICS_H
#define DTD_METRICS_H

#include <stdint.h>

#define DTD_BUCKETS 12 /* upper bounds are in metrics.c; the last is infinite */

struct dtd_histogram {
    uint64_t bucket[DTD_BUCKETS], count; /* bucket: not cumulative */
    double sum;
};

/* What a worker does with a job, by the stages of its progress. */
enum dtd_stage {
    DTD_STAGE_OTHER,
    DTD_STAGE_COMPILE,
    DTD_STAGE_ANALYSIS,
    DTD_STAGE_PLANNING,
    DTD_STAGE_RUN,
    DTD_NSTAGES
};
enum dtd_stage dtd_stage_of(const char *stage);

/* Why a post was not answered from the store: cache_missed()'s words, and uncached: it was not looked for, because runs
 * and explanations are not stored or because the device is not known yet. */
enum dtd_factor {
    DTD_MISS_GRAPH,
    DTD_MISS_DEVICE,
    DTD_MISS_TOOLCHAIN,
    DTD_MISS_POLICY,
    DTD_MISS_UNCACHED,
    DTD_NFACTORS
};

struct dtd_metrics {
    struct dtd_histogram queue, job, stage[DTD_NSTAGES];
    uint64_t missed[DTD_NFACTORS];
    uint64_t reloads, reloads_failed;
};

/* The time that one job has spent in each stage, while it runs. */
struct dtd_spent {
    enum dtd_stage now;
    uint64_t since_ns;
    double s[DTD_NSTAGES];
};
void dtd_spent_enter(struct dtd_spent *t, enum dtd_stage s, uint64_t now_ns);
/* The job is over: stages that it was in go into the histograms, and t is empty. */
void dtd_spent_end(struct dtd_spent *t, struct dtd_metrics *m, uint64_t now_ns);

void dtd_observe(struct dtd_histogram *h, double seconds);
void dtd_missed(struct dtd_metrics *m, const char *factor); /* NULL: not looked for */

#endif
