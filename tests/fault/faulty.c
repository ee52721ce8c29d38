/* A library that is loaded before others (LD_PRELOAD) and makes the system fail: allocations, the disk, the clock.
 *
 * FAULTY names a file that is mapped here and in the test, which writes into it what shall go wrong (struct faulty);
 * FAULTY_PROGRAM names the programs that it is for, with a colon between them; others, such as children, are left
 * alone. Without both it does nothing.
 *
 *   allocations  count the calls of malloc, calloc, realloc and their kin, of whatever library; with fail_at set, the
 *                call of that number fails, and with fail_all every one after it
 *   disk         writes, growth and syncs of files whose path has the prefix fail with an error (ENOSPC, EIO, EROFS:
 *                then opening for writing, too), or take a while
 *   clock        the time of day is another; the monotonic clock is not touched
 *
 * The loader's own allocations pass through here like others, so the test begins to fail them when the program runs.
 */
#undef _FILE_OFFSET_BITS /* both names of each call are defined here */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faulty { /* tests/fault/faulty.py has the same */
    _Atomic int64_t count, fail_at, fail_all, failed;
    _Atomic int64_t disk_errno, disk_read_only, disk_slow_us, disk_hits;
    _Atomic int64_t clock_s;
    char prefix[256];
};

static struct faulty off, *now = &off;

/* Where it died, for addr2line: a test that only learns of a signal has nothing to look for. */
static void died(int sig)
{
    void *at[48];
    int n = backtrace(at, 48);
    backtrace_symbols_fd(at, n, 2);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Is it one of these names, which colons divide? */
static bool named(const char *name, const char *list)
{
    size_t n = strlen(name);
    for (size_t k; *list; list += k + (list[k] == ':')) {
        k = strcspn(list, ":");
        if (k == n && !memcmp(list, name, n))
            return true;
    }
    return false;
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("FAULTY"), *program = getenv("FAULTY_PROGRAM");
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!path || !program || n < 0)
        return;
    self[n] = 0;
    const char *name = strrchr(self, '/');
    if (!name || !named(name + 1, program))
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof off, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (p == MAP_FAILED)
        return;
    void *first[1];
    backtrace(first, 1); /* its first call loads a library */
    signal(SIGSEGV, died);
    signal(SIGBUS, died);
    signal(SIGABRT, died);
    signal(SIGALRM, died); /* a filter's library that goes round in circles (daemon/worker/confine.c) */
    now = p;
}

/* ---- allocations ----------------------------------------------------------------------------------------------- */

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static bool refuse(void)
{
    struct faulty *f = now;
    if (f == &off)
        return false;
    int64_t n = atomic_fetch_add(&f->count, 1) + 1, at = atomic_load(&f->fail_at);
    if (!at || n < at || (n > at && !atomic_load(&f->fail_all)))
        return false;
    atomic_fetch_add(&f->failed, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n) { return refuse() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return refuse() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return refuse() ? NULL : __libc_realloc(p, n); }
void *memalign(size_t align, size_t n) { return refuse() ? NULL : __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { return refuse() ? NULL : __libc_memalign(align, n); }

int posix_memalign(void **ret, size_t align, size_t n)
{
    void *p = refuse() ? NULL : __libc_memalign(align, n);
    if (p)
        *ret = p;
    return p ? 0 : ENOMEM;
}

/* ---- disk ------------------------------------------------------------------------------------------------------ */

static bool ours(int fd)
{
    char link[64], path[512];
    size_t n = strlen(now->prefix);
    if (now == &off || !n || !(now->disk_errno || now->disk_slow_us))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t k = readlink(link, path, sizeof path - 1);
    return k >= (ssize_t)n && !memcmp(path, now->prefix, n);
}

/* True: this fails, and errno is set. */
static bool broken(int fd)
{
    if (!ours(fd))
        return false;
    atomic_fetch_add(&now->disk_hits, 1);
    int64_t us = now->disk_slow_us;
    if (us)
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
    if (!now->disk_errno)
        return false;
    errno = (int)now->disk_errno;
    return true;
}

ssize_t write(int fd, const void *p, size_t n) { return broken(fd) ? -1 : syscall(SYS_write, fd, p, n); }
ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    return broken(fd) ? -1 : syscall(SYS_pwrite64, fd, p, n, at);
}
ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at)
{
    return broken(fd) ? -1 : syscall(SYS_pwrite64, fd, p, n, at);
}
int fsync(int fd) { return broken(fd) ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return broken(fd) ? -1 : (int)syscall(SYS_fdatasync, fd); }

int posix_fallocate(int fd, off_t at, off_t n)
{
    if (broken(fd))
        return errno;
    return syscall(SYS_fallocate, fd, 0, at, n) < 0 ? errno : 0;
}

static bool forbidden(const char *path, int flags)
{
    size_t n = strlen(now->prefix);
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
    if (now == &off || !now->disk_read_only || !writes || !n || strncmp(path, now->prefix, n))
        return false;
    errno = EROFS;
    return true;
}

#define MODE(flags, last)                                                                                              \
    ({                                                                                                                 \
        mode_t m_ = 0;                                                                                                 \
        if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                         \
            va_list ap_;                                                                                               \
            va_start(ap_, last);                                                                                       \
            m_ = va_arg(ap_, mode_t);                                                                                  \
            va_end(ap_);                                                                                               \
        }                                                                                                              \
        m_;                                                                                                            \
    })

int open(const char *path, int flags, ...)
{
    return forbidden(path, flags) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, MODE(flags, flags));
}
int open64(const char *path, int flags, ...)
{
    return forbidden(path, flags) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, MODE(flags, flags));
}

/* ---- clock ----------------------------------------------------------------------------------------------------- */

int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int r = real ? real(id, t) : (int)syscall(SYS_clock_gettime, id, t);
    if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        t->tv_sec += now->clock_s;
    return r;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec s;
    if (clock_gettime(CLOCK_REALTIME, &s) < 0)
        return -1;
    t->tv_sec = s.tv_sec;
    t->tv_usec = s.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec s;
    clock_gettime(CLOCK_REALTIME, &s);
    if (ret)
        *ret = s.tv_sec;
    return s.tv_sec;
}
