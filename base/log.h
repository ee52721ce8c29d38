/* Lines on stderr, for programs only (libraries never log). With journal prefixes <3> … <7> under systemd. */
#ifndef DT_BASE_LOG_H
#define DT_BASE_LOG_H

enum dt_log_level { DT_LOG_ERROR = 3, DT_LOG_WARN = 4, DT_LOG_INFO = 6, DT_LOG_DEBUG = 7 };

void dt_log_init(const char *program, enum dt_log_level max); /* DOVETAIL_LOG=debug|info|warn|error overrides `max` */
void dt_log(enum dt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
