/* --check-config, second half: is what the configuration names there? (The first half, whether it can be read, is
 * config.c's.)
 *
 * The worker must be a file that this user may execute. The folder of the socket must be there and writable; a passed
 * socket has its folder already. The cache's file must be a file of this user's that only this user writes, or its
 * folder (or the folder where that would be made) must be writable. The device is tried out: a worker is started on it
 * and asked for it, as the service would, with a store in memory; so nothing is left behind, and an answer here means
 * that the service will start.
 *
 * What cannot be seen from here: whether the disk has room, and what another user would find.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/wire.h"
#include "cache/cache.h"
#include "daemon/service/config.h"
#include "daemon/service/trust.h"

extern char **environ;

static int check_worker(const char *path, struct dt_err *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return dt_err_set(e, DT_E_USAGE, "worker = %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
        return dt_err_set(e, DT_E_USAGE, "worker = %s is no program that this user may run", path);
    return 0;
}

/* The folder of `path` is there and may be written; make: or one above it, in which it would be made. */
static int check_folder(const char *name, const char *path, bool make, struct dt_err *e)
{
    dt_free_ char *dir = dt_strdup(path);
    struct stat st;
    if (!dir)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (;;) {
        char *slash = strrchr(dir, '/');
        if (!slash)
            snprintf(dir, strlen(dir) + 1, ".");
        else if (slash == dir)
            dir[1] = 0;
        else
            *slash = 0;
        if (stat(dir, &st) == 0 || errno != ENOENT || !make || !slash || slash == dir)
            break;
    }
    if (stat(dir, &st) < 0)
        return dt_err_set(e, DT_E_USAGE, "%s = %s: the folder %s: %s", name, path, dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return dt_err_set(e, DT_E_USAGE, "%s = %s: %s is no folder", name, path, dir);
    if (access(dir, W_OK | X_OK) < 0)
        return dt_err_set(e, DT_E_USAGE, "%s = %s: this user may not write into %s", name, path, dir);
    return 0;
}

static int check_cache(const char *path, struct dt_err *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return check_folder("cache", path, true, e);
    if (!S_ISREG(st.st_mode))
        return dt_err_set(e, DT_E_USAGE, "cache = %s is no file", path);
    if (st.st_uid && st.st_uid != geteuid())
        return dt_err_set(e, DT_E_USAGE, "cache = %s belongs to user %u; the service refuses it", path,
                          (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return dt_err_set(e, DT_E_USAGE, "cache = %s may be written by others; the service refuses it", path);
    return check_folder("cache", path, false, e);
}

/* ---- device ------------------------------------------------------------------------------------------------------ */
static int worker_start(const struct dtd_config *c, int *ret_in, int *ret_out, pid_t *ret_pid, struct dt_err *e)
{
    char *args[] = {c->worker, (char *)"--device", c->device, (char *)"--cache", (char *)":memory:", NULL};
    int to[2] = {-1, -1}, from[2] = {-1, -1}, r = EMFILE;
    posix_spawn_file_actions_t a;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&a);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP); /* its compilers end with it */
    if (pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0) {
        posix_spawn_file_actions_adddup2(&a, to[0], 0);
        posix_spawn_file_actions_adddup2(&a, from[1], 1);
        r = posix_spawn(ret_pid, c->worker, &a, &attr, args, environ);
    }
    posix_spawn_file_actions_destroy(&a);
    posix_spawnattr_destroy(&attr);
    if (to[0] >= 0)
        close(to[0]);
    if (from[1] >= 0)
        close(from[1]);
    *ret_in = to[1];
    *ret_out = from[0];
    return r ? dt_err_set(e, DT_E_USAGE, "worker = %s: %s", c->worker, strerror(r)) : 0;
}

/* Its answer to `devices`: 0, or the error that it gave. */
static int read_answer(int fd, long seconds, const char *device, struct dt_err *e)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char type, *body = NULL;
    uint32_t number;
    size_t len;
    if (poll(&p, 1, (int)seconds * 1000) <= 0)
        return dt_err_set(e, DT_E_NO_DEVICE, "device = %s: the worker did not open it in %ld seconds", device, seconds);
    int r = dt_wire_read(fd, &type, &number, &body, &len, NULL);
    if (r)
        return dt_err_set(e, DT_E_NO_DEVICE, "device = %s: the worker ended without an answer", device);
    if (type != 'R') {
        json_t *o = json_loadb(body, len, 0, NULL);
        int num = dt_err_from_code(dt_json_text(o, "code"));
        r = dt_err_set(e, num < 0 ? num : DT_E_NO_DEVICE, "device = %s: %s", device, dt_json_text(o, "detail"));
        json_decref(o);
    }
    free(body);
    return r;
}

static int check_device(const struct dtd_config *c, struct dt_err *e)
{
    static const char ask[] = "{\"verb\":\"devices\"}";
    int in = -1, out = -1, r;
    pid_t pid = 0;
    r = worker_start(c, &in, &out, &pid, e);
    if (r == 0) {
        dt_wire_write(in, 'Q', 1, ask, sizeof ask - 1); /* a failure shows as an answer that does not come */
        r = read_answer(out, c->start_timeout, c->device, e);
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return r;
}

int dtd_config_check(const struct dtd_config *c, bool passed, struct dt_err *e)
{
    dt_free_ char *cache = cache_path_of(c->cache);
    int r = check_worker(c->worker, e);
    if (r == 0 && !passed)
        r = check_folder("socket", c->socket, false, e);
    if (r == 0)
        r = cache ? check_cache(cache, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0)
        r = dtd_trust_check(c, e);
    return r < 0 ? r : check_device(c, e);
}
