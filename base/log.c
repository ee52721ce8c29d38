/* Lines on stderr, for programs only: the contract is in log.h.
 *
 * A line is put together in one buffer and written by one write(2), so that lines of several processes on one pipe do
 * not mix. Where stderr is the journal it starts with the priority in angle brackets and the journal adds the time,
 * else with the time of day and the program's name. A message is cut at 2 KB.
 *
 * Fields follow as name=value. A value that is not made of plain characters stands between double quotes, with a dot
 * for every character that a terminal or a parser of lines could take for something else: a value may come from
 * outside.
 */
#include "base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *prog = "dovetail";
static enum dt_log_level limit = DT_LOG_INFO;
static bool (*log_sink)(enum dt_log_level, const char *, const struct dt_log_field *, size_t);

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

bool dt_log_is_journal(void)
{
    const char *env = getenv("JOURNAL_STREAM");
    char mine[64];
    struct stat st;
    if (!env || fstat(2, &st) < 0)
        return false;
    snprintf(mine, sizeof mine, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    return !strcmp(env, mine);
}

void dt_log_to(bool (*sink)(enum dt_log_level, const char *, const struct dt_log_field *, size_t)) { log_sink = sink; }

static bool plain_value(const char *v)
{
    if (!*v)
        return false;
    for (; *v; v++)
        if (!isalnum((unsigned char)*v) && !strchr("-_.:/+,", *v))
            return false;
    return true;
}

/* name=value at the end of the line; what does not fit is cut. */
static size_t add_field(char *line, size_t at, size_t cap, const struct dt_log_field *f)
{
    bool quoted = !plain_value(f->value);
    int n = snprintf(line + at, cap - at, " %s=%s", f->name, quoted ? "\"" : f->value);
    at += n < 0 ? 0 : (size_t)n;
    for (const char *v = quoted ? f->value : ""; *v && at < cap - 2; v++)
        line[at++] = isprint((unsigned char)*v) && *v != '"' && *v != '\\' ? *v : '.';
    if (quoted && at < cap - 1)
        line[at++] = '"';
    return at < cap - 1 ? at : cap - 1;
}

static void log_line(enum dt_log_level level, const char *message, const struct dt_log_field *f, size_t n)
{
    char line[4096], when[32];
    size_t at;
    if (log_sink && log_sink(level, message, f, n))
        return;
    if (dt_log_is_journal()) {
        at = (size_t)snprintf(line, sizeof line, "<%d>", (int)level);
    } else {
        time_t now = time(NULL);
        struct tm tm;
        strftime(when, sizeof when, "%H:%M:%S", localtime_r(&now, &tm));
        at = (size_t)snprintf(line, sizeof line, "%s %s: ", when, prog);
    }
    int m = snprintf(line + at, sizeof line - at, "%s", message);
    at += m < 0 ? 0 : (size_t)m;
    for (size_t i = 0; i < n && at < sizeof line - 2; i++)
        at = add_field(line, at, sizeof line - 1, &f[i]);
    line[at++] = '\n';
    if (write(2, line, at) < 0)
        return;
}

void dt_log(enum dt_log_level level, const char *fmt, ...)
{
    char message[2048];
    if (level > limit)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    log_line(level, message, NULL, 0);
}

void dt_log_fields(enum dt_log_level level, const struct dt_log_field *f, size_t n, const char *fmt, ...)
{
    char message[2048];
    if (level > limit)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    log_line(level, message, f, n);
}
