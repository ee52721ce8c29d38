/* Lines of the log that are about a job: its id, its first poster, the graph's name and digest, and how long it took go
 * along as fields (the journal's DOVETAIL_JOB, DOVETAIL_UID, DOVETAIL_GRAPH, DOVETAIL_DIGEST, DOVETAIL_TIME,
 * DOVETAIL_TRACE).
 *
 * A graph's name is the poster's text: it is never part of a message, and log.c takes what could forge a line out of
 * it.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "daemon/service/service.h"

void dtd_log_job(enum dt_log_level level, const struct dtd_job *j, const char *digest, const char *fmt, ...)
{
    struct dt_log_field f[6];
    char message[1024], uid[16], took[32];
    size_t n = 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    f[n++] = (struct dt_log_field){"job", j->id};
    if (j->owner.n && j->owner.p[0].uid != UINT_MAX) {
        snprintf(uid, sizeof uid, "%u", j->owner.p[0].uid);
        f[n++] = (struct dt_log_field){"uid", uid};
    }
    if (*j->graph)
        f[n++] = (struct dt_log_field){"graph", j->graph};
    if (digest && *digest)
        f[n++] = (struct dt_log_field){"digest", digest};
    if (j->begun_ns) {
        snprintf(took, sizeof took, "%.3f", (double)(uv_hrtime() - j->begun_ns) / 1e9);
        f[n++] = (struct dt_log_field){"time", took};
    }
    if (*j->trace)
        f[n++] = (struct dt_log_field){"trace", j->trace};
    dt_log_fields(level, f, n, "job %s: %s", j->id, message);
}
