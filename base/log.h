/* Lines on stderr, for programs only (libraries never log). With journal prefixes <3> … <7> under systemd, or into the
 * journal itself where the program says how (dt_log_to). */
#ifndef DT_BASE_LOG_H
#define DT_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum dt_log_level { DT_LOG_ERROR = 3, DT_LOG_WARN = 4, DT_LOG_INFO = 6, DT_LOG_DEBUG = 7 };

struct dt_log_field { /* what a line is about; name: lower-case letters and _ */
    const char *name, *value;
};

void dt_log_init(const char *program, enum dt_log_level max); /* DOVETAIL_LOG=debug|info|warn|error overrides `max` */
void dt_log(enum dt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* With fields: on stderr they follow the message as name=value (quoted where the value is not plain). */
void dt_log_fields(enum dt_log_level level, const struct dt_log_field *f, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Is stderr connected to the journal (JOURNAL_STREAM of systemd.exec(5))? */
bool dt_log_is_journal(void);
/* From now on lines go to `sink`; those for which it says false go to stderr all the same. NULL: none. */
void dt_log_to(bool (*sink)(enum dt_log_level level, const char *message, const struct dt_log_field *f, size_t n));

#endif
