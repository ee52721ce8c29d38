/* Options of dovetaild, from defaults, a file and the command line; config.def is the master copy.
 *
 * The file has lines `name = value`; blank lines and `#` comments are skipped. An unknown name or a bad value is an
 * error that names the line: a misspelt limit must not be ignored in silence. Later settings win, and the command line
 * comes after the file. Nothing is opened or created here, so that --check-config has no effect on the machine.
 */
#include "daemon/service/config.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/nearest.h"
#include "daemon/service/config-live.h"

enum kind { STRING, NUMBER };

static const struct row {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *text; /* default of a string */
    long num, min, max;
} rows[] = {
#define STR(n, def, doc) {#n, STRING, offsetof(struct dtd_config, n), def, 0, 0, 0},
#define NUM(n, def, lo, hi, doc) {#n, NUMBER, offsetof(struct dtd_config, n), NULL, def, lo, hi},
#include "daemon/service/config.def"
#undef STR
#undef NUM
};
#define NROWS (sizeof rows / sizeof *rows)

static void *config_member(struct dtd_config *c, const struct row *r) { return (char *)c + r->offset; }

int dtd_config_init(struct dtd_config *c, struct dt_err *e)
{
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < NROWS; i++) {
        if (rows[i].kind == NUMBER)
            *(long *)config_member(c, &rows[i]) = rows[i].num;
        else if (rows[i].text && !(*(char **)config_member(c, &rows[i]) = dt_strdup(rows[i].text)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

void dtd_config_done(struct dtd_config *c)
{
    for (size_t i = 0; i < NROWS; i++)
        if (rows[i].kind == STRING)
            free(*(char **)config_member(c, &rows[i]));
    memset(c, 0, sizeof *c);
}

int dtd_config_set(struct dtd_config *c, const char *name, const char *value, struct dt_err *e)
{
    for (size_t i = 0; i < NROWS; i++) {
        const struct row *r = &rows[i];
        if (strcmp(r->name, name))
            continue;
        if (r->kind == STRING) {
            if (!*value)
                return dt_err_set(e, DT_E_USAGE, "%s needs a value", name);
            char *s = dt_strdup(value);
            if (!s)
                return dt_err_set(e, DT_E_NOMEM, "out of memory");
            free(*(char **)config_member(c, r));
            *(char **)config_member(c, r) = s;
            return 0;
        }
        char *end;
        errno = 0;
        long v = strtol(value, &end, 10);
        if (errno || end == value || *end || v < r->min || v > r->max)
            return dt_err_set(e, DT_E_USAGE, "%s = %s is not a number from %ld to %ld", name, value, r->min, r->max);
        *(long *)config_member(c, r) = v;
        return 0;
    }
    struct dt_nearest like = dt_nearest_of(name, strlen(name));
    for (size_t i = 0; i < NROWS; i++)
        dt_nearest_try(&like, rows[i].name, strlen(rows[i].name));
    return like.best ? dt_err_set(e, DT_E_USAGE, "there is no option %s; did you mean %s?", name, like.best)
                     : dt_err_set(e, DT_E_USAGE, "there is no option %s", name);
}

static char *trim(char *s, char *end)
{
    while (s < end && isspace((unsigned char)*s))
        s++;
    while (end > s && isspace((unsigned char)end[-1]))
        end--;
    *end = 0;
    return s;
}

int dtd_config_parse(struct dtd_config *c, const char *text, const char *where, struct dt_err *e)
{
    unsigned line = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        char buf[4352];
        line++;
        if (n >= sizeof buf)
            return dt_err_set(e, DT_E_USAGE, "%s:%u: the line is too long", where, line);
        memcpy(buf, p, n);
        buf[n] = 0;
        p += n + (p[n] == '\n');
        buf[strcspn(buf, "#")] = 0;
        char *s = trim(buf, buf + strlen(buf));
        if (!*s)
            continue;
        char *eq = strchr(s, '=');
        if (!eq)
            return dt_err_set(e, DT_E_USAGE, "%s:%u: expected NAME = VALUE", where, line);
        struct dt_err why = {0};
        char *value = trim(eq + 1, eq + 1 + strlen(eq + 1));
        int r = dtd_config_set(c, trim(s, eq), value, &why);
        if (r < 0) {
            dt_err_set(e, r, "%s:%u: %s", where, line, why.detail ? why.detail : dt_err_text(r));
            dt_err_done(&why);
            return r;
        }
    }
    return 0;
}

int dtd_config_load(struct dtd_config *c, const char *path, struct dt_err *e)
{
    dt_free_ char *text = NULL;
    int r = dt_read_file(path, 1 << 20, &text, NULL, e);
    return r < 0 ? r : dtd_config_parse(c, text, path, e);
}

int dtd_device_normal(const char *spec, char *out, size_t n, struct dt_err *e)
{
    if (!spec || !*spec)
        spec = "auto";
    const char *rest = strchr(spec, ':');
    size_t kind = rest ? (size_t)(rest - spec) : strlen(spec);
    bool ok = strlen(spec) < n && strlen(spec) < 64;
    rest = rest ? rest + 1 : NULL;
    for (const char *p = rest; p && *p; p++)
        ok = ok && (isalnum((unsigned char)*p) || *p == '-' || *p == '_' || *p == '.');
    if (ok && kind == 4 && !strncmp(spec, "auto", 4) && !rest)
        snprintf(out, n, "auto");
    else if (ok && kind == 4 && !strncmp(spec, "soft", 4) && (!rest || *rest))
        snprintf(out, n, "soft:%s", rest ? rest : "h200");
    else if (ok && kind == 4 && !strncmp(spec, "cuda", 4) &&
             (!rest || (*rest && strspn(rest, "0123456789") == strlen(rest))))
        snprintf(out, n, "cuda:%s", rest ? rest : "0");
    else
        return dt_err_set(e, DT_E_USAGE, "the device must be auto, cuda[:N] or soft[:MODEL]");
    return 0;
}

/* A uid or gid in n bytes of text; (unsigned)-1 is no id. */
static bool id_of(const char *s, size_t n, unsigned *ret)
{
    uint64_t v = 0;
    bool ok = n > 0 && n <= 10;
    for (size_t i = 0; i < n && ok; i++) {
        ok = isdigit((unsigned char)s[i]);
        v = v * 10 + (uint64_t)(s[i] - '0');
    }
    *ret = (unsigned)v;
    return ok && v < UINT32_MAX;
}

/* The socket gets the service's group. Its members may connect, and are not admins because of that. */
static int admins(struct dtd_config *c, struct dt_err *e)
{
    struct dtd_admins *a = &c->admins;
    *a = (struct dtd_admins){0};
    if (c->admin_group) {
        bool number = id_of(c->admin_group, strlen(c->admin_group), &a->gid);
        const struct group *g = number ? NULL : getgrnam(c->admin_group);
        if (!number && !g)
            return dt_err_set(e, DT_E_USAGE, "admin_group: there is no group %s", c->admin_group);
        if (g)
            a->gid = g->gr_gid;
        if (a->gid == getegid())
            return dt_err_set(
                e, DT_E_USAGE,
                "admin_group = %s is the group that the socket will have: whoever may connect would be an admin",
                c->admin_group);
        a->has_group = true;
    }
    for (const char *p = c->admin_uids ? c->admin_uids : ""; *p;) {
        size_t skip = strspn(p, ", \t"), n = strcspn(p + skip, ", \t");
        p += skip;
        if (!n)
            break;
        if (a->nuid == DTD_MAX_ADMINS)
            return dt_err_set(e, DT_E_USAGE,
                              "admin_uids: more than %d users; make a group of them and give admin_group",
                              DTD_MAX_ADMINS);
        if (!id_of(p, n, &a->uid[a->nuid]))
            return dt_err_set(e, DT_E_USAGE, "admin_uids: %.*s is no uid", (int)n, p);
        a->nuid++;
        p += n;
    }
    return 0;
}

/* HH:MM as minutes of the day; -1: it is none. */
static int clock_read(const char *s)
{
    static const char form[] = "00:00";
    for (int i = 0; i < 5; i++)
        if (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i])
            return -1;
    int h = (s[0] - '0') * 10 + s[1] - '0', m = (s[3] - '0') * 10 + s[4] - '0';
    return h < 24 && m < 60 ? h * 60 + m : -1;
}

/* HH:MM-HH:MM */
static bool window_read(const char *text, unsigned minute[2])
{
    int from = clock_read(text), to = from < 0 || text[5] != '-' ? -1 : clock_read(text + 6);
    if (to < 0 || text[11] || from == to)
        return false;
    minute[0] = (unsigned)from;
    minute[1] = (unsigned)to;
    return true;
}

bool dtd_window_ok(const char *text)
{
    unsigned minute[2];
    return window_read(text, minute);
}

bool dtd_window_has(const char *text, unsigned now)
{
    unsigned m[2];
    if (!window_read(text, m))
        return false;
    return m[0] < m[1] ? now >= m[0] && now < m[1] : now >= m[0] || now < m[1];
}

int dtd_config_finish(struct dtd_config *c, struct dt_err *e)
{
    char spec[80];
    int r = dtd_device_normal(c->device, spec, sizeof spec, e);
    if (r >= 0)
        r = dtd_config_set(c, "device", spec, e);
    if (r >= 0 && strcmp(c->share, "host") && strcmp(c->share, "uid"))
        r = dt_err_set(e, DT_E_USAGE, "share = %s is neither host nor uid", c->share);
    c->share_uid = r >= 0 && !strcmp(c->share, "uid");
    if (r >= 0 && strcmp(c->shared_graphs, "yes") && strcmp(c->shared_graphs, "no"))
        r = dt_err_set(e, DT_E_USAGE, "shared_graphs = %s is neither yes nor no", c->shared_graphs);
    c->share_graphs = r >= 0 && !strcmp(c->shared_graphs, "yes");
    if (r >= 0 && (strlen(c->shared_namespace) > 64 ||
                   c->shared_namespace[strspn(c->shared_namespace, "abcdefghijklmnopqrstuvwxyz0123456789._-")]))
        r = dt_err_set(e, DT_E_USAGE, "shared_namespace takes up to 64 of a-z, 0-9, '.', '_' and '-'");
    if (r >= 0 && c->confine && strcmp(c->confine, "off") && strcmp(c->confine, "try") &&
        strcmp(c->confine, "require") && strcmp(c->confine, "enforce"))
        r = dt_err_set(e, DT_E_USAGE, "confine is off, try, require or enforce, not %s", c->confine);
    if (r >= 0 && c->reprofile_window && *c->reprofile_window && !dtd_window_ok(c->reprofile_window))
        r = dt_err_set(e, DT_E_USAGE, "reprofile_window is HH:MM-HH:MM, not %s", c->reprofile_window);
    if (r >= 0)
        r = admins(c, e);
    if (r < 0)
        return r;
    if (!c->socket) {
        const char *dir = getenv("XDG_RUNTIME_DIR");
        if (asprintf(&c->socket, "%s", dir && *dir ? dir : "/run/dovetail") < 0 || !c->socket)
            goto oom;
        char *full;
        if (asprintf(&full, "%s/dovetail.sock", c->socket) < 0)
            goto oom;
        free(c->socket);
        c->socket = full;
    }
    if (strlen(c->socket) > 107)
        return dt_err_set(e, DT_E_USAGE, "the socket's path is longer than 107 bytes: %s", c->socket);
    if (!c->worker) {
        const char *env = getenv("DOVETAIL_WORKER");
        if (!env || !*env)
            return dt_beside_self("dovetail-worker", &c->worker, e);
        if (!(c->worker = dt_strdup(env)))
            goto oom;
    }
    return 0;
oom:
    return dt_err_set(e, DT_E_NOMEM, "out of memory");
}

static void value_text(const struct dtd_config *c, const struct row *r, char *out, size_t n)
{
    const void *at = (const char *)c + r->offset;
    if (r->kind == NUMBER)
        snprintf(out, n, "%ld", *(const long *)at);
    else
        snprintf(out, n, "%s", *(char *const *)at ? *(char *const *)at : "(none)");
}

void dtd_config_take(struct dtd_config *c, struct dtd_config *fresh,
                     void (*differs)(const char *name, const char *was, const char *is, bool taken))
{
    for (size_t i = 0; i < NROWS; i++) {
        char was[4400], is[4400];
        void *mine = config_member(c, &rows[i]), *theirs = config_member(fresh, &rows[i]);
        bool live = dtd_option_is_live(rows[i].name);
        value_text(c, &rows[i], was, sizeof was);
        value_text(fresh, &rows[i], is, sizeof is);
        if (!strcmp(was, is))
            continue;
        if (live && rows[i].kind == NUMBER) {
            *(long *)mine = *(long *)theirs;
        } else if (live) { /* the old text goes with `fresh` */
            char *old = *(char **)mine;
            *(char **)mine = *(char **)theirs;
            *(char **)theirs = old;
        }
        if (!strcmp(rows[i].name, "shared")) { /* a password may be in it, though it should not */
            snprintf(was, sizeof was, "(not shown)");
            snprintf(is, sizeof is, "(not shown)");
        }
        differs(rows[i].name, was, is, live);
    }
    c->admins = fresh->admins;
}
