/* A graph whose entry is of an older toolchain (daemon/shared/stale.c) was served; here it is queued to be planned
 * again, with the options of the post. The next post finds the new entry, or the old one again while the job waits.
 *
 * Each is queued once in the life of the service, as far as a table of a few hundred remembers: a graph that cannot be
 * planned any more would otherwise be planned at every post. When the queue is full it is not queued, and the next post
 * tries again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "daemon/service/journal.h"
#include "daemon/service/service.h"

#define REMEMBERED 256

static char tried[REMEMBERED][DT_SHA256_TEXT];
static unsigned next_place;

static bool was_tried(const char *share)
{
    for (unsigned i = 0; i < REMEMBERED; i++)
        if (!strcmp(tried[i], share))
            return true;
    return false;
}

struct dtd_job *dtd_requeue(struct dtd_service *s, const struct dtd_post *p, const char *digest)
{
    struct dtd_job *j = NULL;
    struct dt_err full = {0};
    if (s->draining || was_tried(p->share)) {
        free(p->request);
        return NULL;
    }
    int r = dtd_jobs_post(&s->jobs, p, &j, &full);
    dt_err_done(&full);
    if (r < 0)
        return NULL;
    snprintf(tried[next_place++ % REMEMBERED], DT_SHA256_TEXT, "%s", p->share);
    if (!r) {
        dtd_journal_put(s->journal, j);
        dtd_log_job(DT_LOG_INFO, j, digest, "%s on %s, queued: what is stored is of an older toolchain", j->want,
                    j->device);
    }
    dtd_pool_kick(s->pool);
    return r ? NULL : j;
}
