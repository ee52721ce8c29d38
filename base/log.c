/* Lines on stderr, for programs only: the contract is in log.h.
 *
 * A line is put together in one buffer and written by one write(2), so that lines of several processes on one pipe do
 * not mix. Under systemd (JOURNAL_STREAM set) it starts with the priority in angle brackets and the journal adds the
 * time, else with the time of day and the program's name. A line over 2 KB is cut.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *prog = "dovetail";
static enum dt_log_level limit = DT_LOG_INFO;

void dt_log_init(const char *program, enum dt_log_level max)
{
    static const struct {
        const char *name;
        enum dt_log_level level;
    } names[] = {{"error", DT_LOG_ERROR}, {"warn", DT_LOG_WARN}, {"info", DT_LOG_INFO}, {"debug", DT_LOG_DEBUG}};
    const char *env = getenv("DOVETAIL_LOG");
    prog = program;
    limit = max;
    for (size_t i = 0; env && i < 4; i++)
        if (!strcmp(env, names[i].name))
            limit = names[i].level;
}

void dt_log(enum dt_log_level level, const char *fmt, ...)
{
    char line[2048], when[32];
    if (level > limit)
        return;
    size_t at = 0;
    if (getenv("JOURNAL_STREAM")) {
        at = (size_t)snprintf(line, sizeof line, "<%d>", (int)level);
    } else {
        time_t now = time(NULL);
        struct tm tm;
        strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now, &tm));
        at = (size_t)snprintf(line, sizeof line, "%s %s: ", when, prog);
    }
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line + at, sizeof line - at - 1, fmt, ap);
    va_end(ap);
    at += n < 0 ? 0 : (size_t)n;
    if (at > sizeof line - 2)
        at = sizeof line - 2;
    line[at++] = '\n';
    if (write(2, line, at) < 0)
        return;
}
