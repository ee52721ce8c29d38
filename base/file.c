/* Files and time: the contract is in file.h.
 *
 * Reading is bounded by the caller before anything is allocated. Writing goes to a temporary beside the target and is
 * then renamed, so that no reader sees half a file; a device or a pipe (/dev/null, /dev/stdout) is written to as it is
 * and never replaced. Full reads and writes go on after EINTR and short counts. A file is not synced: what must survive
 * a power cut is in the cache's database.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"

int dt_read_file(const char *path, size_t max, char **ret, size_t *ret_len, struct dt_err *e)
{
    struct dt_str s = {0};
    char buf[65536];
    int fd = !strcmp(path, "-") ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return dt_err_set(e, DT_E_IO, "%s: %s", path, strerror(errno));
    ssize_t n;
    while ((n = read(fd, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        if (s.len + (size_t)n > max) {
            close(fd);
            dt_str_done(&s);
            return dt_err_set(e, DT_E_TOO_LARGE, "%s is larger than %zu bytes", path, max);
        }
        dt_str_addn(&s, buf, (size_t)n);
    }
    int err = errno;
    close(fd);
    if (n < 0) {
        dt_str_done(&s);
        return dt_err_set(e, DT_E_IO, "%s: %s", path, strerror(err));
    }
    size_t len = s.len;
    char *p = dt_str_take(&s);
    if (!p)
        return dt_err_set(e, DT_E_NOMEM, "out of memory while reading %s", path);
    *ret = p;
    if (ret_len)
        *ret_len = len;
    return 0;
}

int dt_write_full(int fd, const void *p, size_t n)
{
    const char *b = p;
    while (n) {
        ssize_t w = write(fd, b, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return DT_E_IO;
        b += w;
        n -= (size_t)w;
    }
    return 0;
}

int dt_read_full(int fd, void *p, size_t n)
{
    char *b = p;
    size_t got = 0;
    while (got < n) {
        ssize_t r = read(fd, b + got, n - got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r == 0)
            return got ? DT_E_IO : 1;
        if (r < 0)
            return DT_E_IO;
        got += (size_t)r;
    }
    return 0;
}

int dt_write_file(const char *path, const void *p, size_t n, struct dt_err *e)
{
    struct stat st;
    dt_free_ char *tmp = NULL, *real = realpath(path, NULL); /* behind symbolic links, which stay */
    const char *at = real ? real : path;
    bool beside = stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
    if (beside && asprintf(&tmp, "%s.%ld.tmp", at, (long)getpid()) < 0) {
        tmp = NULL;
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (beside)
        unlink(tmp); /* of a process with this number that died */
    int fd = beside ? open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return dt_err_set(e, DT_E_IO, "%s: %s", path, strerror(errno));
    int r = dt_write_full(fd, p, n), err = r == 0 ? 0 : errno ? errno : EIO;
    if (close(fd) < 0 && !err)
        err = errno;
    if (!err && beside && rename(tmp, at) < 0)
        err = errno;
    if (err && beside)
        unlink(tmp);
    return err ? dt_err_set(e, DT_E_IO, "%s: %s", path, strerror(err)) : 0;
}

int dt_mkdirs(const char *path, struct dt_err *e)
{
    dt_free_ char *s = dt_strdup(path);
    if (!s)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (char *p = s + 1;; p++) {
        char c = *p;
        if (c && c != '/')
            continue;
        *p = 0;
        if (mkdir(s, 0755) < 0 && errno != EEXIST)
            return dt_err_set(e, DT_E_IO, "%s: %s", s, strerror(errno));
        *p = c;
        if (!c)
            return 0;
    }
}

uint64_t dt_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int dt_beside_self(const char *rel, char **ret, struct dt_err *e)
{
    char self[4096], *out;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return dt_err_set(e, DT_E_IO, "/proc/self/exe, by which a program finds what is installed beside it: %s",
                          strerror(errno));
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    if (asprintf(&out, "%s/%s", self, rel) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *ret = out;
    return 0;
}
