/* Options of the service: a struct member per row of config.def. Strings are owned by the struct. */
#ifndef DTD_CONFIG_H
#define DTD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define DTD_MAX_ADMINS 64

struct dtd_admins { /* admin_group and admin_uids, looked up; root and the service's own user are not in it */
    bool has_group;
    unsigned gid, uid[DTD_MAX_ADMINS], nuid;
};

struct dtd_config {
#define STR(name, def, doc) char *name;
#define NUM(name, def, min, max, doc) long name;
#include "daemon/service/config.def"
#undef STR
#undef NUM
    bool share_uid;           /* share = uid; from dtd_config_finish */
    bool share_graphs;        /* shared_graphs says yes */
    struct dtd_admins admins; /* from dtd_config_finish */
};

int dtd_config_init(struct dtd_config *c, struct dt_err *e); /* defaults */
void dtd_config_done(struct dtd_config *c);
/* DT_E_USAGE: no such option, or a value that is no number or out of range. */
int dtd_config_set(struct dtd_config *c, const char *name, const char *value, struct dt_err *e);
/* Lines NAME = VALUE; `where` names the file in errors. The first wrong line stops, with its number. */
int dtd_config_parse(struct dtd_config *c, const char *text, const char *where, struct dt_err *e);
int dtd_config_load(struct dtd_config *c, const char *path, struct dt_err *e);
/* Fill in what depends on the surroundings (socket, worker, admins), and check the device's spelling. DT_E_USAGE: there
 * is no such group, it is the one that the socket will have, or a uid is no number. */
int dtd_config_finish(struct dtd_config *c, struct dt_err *e);
/* Take over from `fresh`, which is finished, what may change while the service runs (LIVE in config.def). `differs` is
 * called for each option whose value is another one: taken, or left until a restart. Loop's thread. */
void dtd_config_take(struct dtd_config *c, struct dtd_config *fresh,
                     void (*differs)(const char *name, const char *was, const char *is, bool taken));
/* check.c: what the configuration names is there: the worker can be run, the socket's folder (not when the socket was
 * passed) and the cache's can be written, the cache is ours, and a worker opens the device. DT_E_USAGE, or the worker's
 * error. Changes nothing on the machine; takes up to start_timeout seconds. */
int dtd_config_check(const struct dtd_config *c, bool passed, struct dt_err *e);
/* "soft" -> "soft:h200", "cuda" -> "cuda:0", NULL or "" -> "auto"; the rest as it is. DT_E_USAGE when it is no device
 * spec. */
int dtd_device_normal(const char *spec, char *out, size_t n, struct dt_err *e);

/* Is `text` "HH:MM-HH:MM"? With `now`: is that time of day (minutes) in it? It may go over midnight. */
bool dtd_window_ok(const char *text);
bool dtd_window_has(const char *text, unsigned now);

#endif
