/* See manager.h: libsystemd does the protocols (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3),
 * sd_journal_sendv(3)).
 *
 * A socket that was passed is the manager's: its path, mode and group say nothing that is believed here, and nothing at
 * its path is ever removed.
 *
 * The journal gets MESSAGE, PRIORITY, SYSLOG_IDENTIFIER, and a field DOVETAIL_NAME for each field of a line. Values may
 * hold any byte: the protocol gives lengths. A line that the journal does not take goes to stderr after all.
 */
#define SD_JOURNAL_SUPPRESS_LOCATION /* it would name this file for every line */
#include "daemon/service/manager.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>
#include <time.h>

#include "base/log.h"

int dtd_manager_socket(int *ret_fd, char *path, size_t n, struct dt_err *e)
{
    struct sockaddr_un a = {0};
    socklen_t len = sizeof a;
    int got = sd_listen_fds(1), fd = SD_LISTEN_FDS_START;
    *path = 0;
    if (got <= 0)
        return got < 0 ? dt_err_set(e, DT_E_USAGE, "LISTEN_FDS is wrong: %s", strerror(-got)) : 0;
    if (got > 1)
        return dt_err_set(e, DT_E_USAGE, "%d sockets were passed; this service listens on one", got);
    if (sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) <= 0)
        return dt_err_set(e, DT_E_USAGE, "what was passed is no listening Unix stream socket");
    if (getsockname(fd, (struct sockaddr *)&a, &len) == 0 && len > sizeof a.sun_family && a.sun_path[0])
        snprintf(path, n, "%.*s", (int)sizeof a.sun_path, a.sun_path);
    *ret_fd = fd;
    return 1;
}

static void tell(int r)
{
    if (r < 0)
        dt_log(DT_LOG_WARN, "the service manager cannot be told: %s", strerror(-r));
}

void dtd_manager_ready(const char *status) { tell(sd_notifyf(0, "READY=1\nSTATUS=%s", status)); }
void dtd_manager_status(const char *status) { tell(sd_notifyf(0, "STATUS=%s", status)); }
void dtd_manager_alive(void) { tell(sd_notify(0, "WATCHDOG=1")); }

void dtd_manager_reloading(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    tell(sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
                    (unsigned long long)t.tv_sec * 1000000 + (unsigned long long)t.tv_nsec / 1000));
}

void dtd_manager_stopping(unsigned seconds)
{
    tell(sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%llu", (unsigned long long)seconds * 1000000));
}

uint64_t dtd_manager_watchdog(void)
{
    uint64_t us;
    return sd_watchdog_enabled(0, &us) > 0 ? us : 0;
}

/* ---- journal ----------------------------------------------------------------------------------------------------- */
#define FIELDS 12

static const char *identifier;

static bool to_journal(enum dt_log_level level, const char *message, const struct dt_log_field *f, size_t n)
{
    char text[3 + FIELDS][1024];
    struct iovec v[3 + FIELDS];
    size_t k = 0;
    char whole[2560];
    v[k++] = (struct iovec){whole, (size_t)snprintf(whole, sizeof whole, "MESSAGE=%s", message)};
    if (v[0].iov_len >= sizeof whole)
        v[0].iov_len = sizeof whole - 1;
    snprintf(text[1], sizeof text[1], "PRIORITY=%d", (int)level);
    snprintf(text[2], sizeof text[2], "SYSLOG_IDENTIFIER=%s", identifier);
    for (k = 1; k < 3 + n && k < 3 + FIELDS; k++) {
        if (k >= 3) {
            size_t at = (size_t)snprintf(text[k], sizeof text[k], "DOVETAIL_");
            for (const char *p = f[k - 3].name; *p && at < sizeof text[k] - 2; p++)
                text[k][at++] = (char)toupper((unsigned char)*p);
            snprintf(text[k] + at, sizeof text[k] - at, "=%s", f[k - 3].value);
        }
        v[k] = (struct iovec){text[k], strlen(text[k])};
    }
    return sd_journal_sendv(v, (int)k) == 0;
}

void dtd_manager_journal(const char *program)
{
    identifier = program;
    if (dt_log_is_journal())
        dt_log_to(to_journal);
}
