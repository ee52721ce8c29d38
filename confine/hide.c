/* A path that may not be read looks as if nothing were there.
 *
 * Landlock refuses to open a file, but it lets anybody ask whether the file exists: by stat, or by the error of an open
 * (EACCES, not ENOENT). A compiler that prints either tells a stranger which files the machine has. Therefore the
 * compiler's list of system calls hands over those that take a path: the kernel stops them with SIGSYS, and the handler
 * here answers in its place. It opens the path for reading with openat2, which the list allows and no C library calls
 * by itself; so Landlock decides. What cannot be opened is ENOENT, whatever the reason. stat and access are answered
 * from the descriptor, and nothing is opened for writing.
 *
 * This is for a compiler that does what its libraries do. Code that an attacker brought into the process can call
 * openat2 too, and learn from its error whether a path exists; it reads no more than Landlock allows.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "confine/confine.h"

/* The number and arguments of the call, and where its answer goes. */
#if defined(__x86_64__)
#define ARG(u, n) ((long)(u)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10}[n]])
#define ANSWER(u) ((u)->uc_mcontext.gregs[REG_RAX])
#define CAN 1
#elif defined(__aarch64__)
#define ARG(u, n) ((long)(u)->uc_mcontext.regs[n])
#define ANSWER(u) ((u)->uc_mcontext.regs[0])
#define CAN 1
#else
#define CAN 0
#endif

#if CAN
/* A descriptor, or a negative errno that does not say why. */
static long opened(long dir, long path, long flags)
{
    struct open_how how = {.flags = (uint64_t)(flags & (O_CLOEXEC | O_DIRECTORY | O_NOCTTY | O_NONBLOCK))};
    if ((flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC | O_APPEND))
        return -EACCES;
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
    if (fd >= 0)
        return fd;
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : -ENOENT;
}

static long stat_of(long dir, long path, long to, long flags)
{
    if (flags & AT_EMPTY_PATH && (!path || !*(const char *)path))
        return syscall(SYS_fstat, dir, to) ? -errno : 0;
    long fd = opened(dir, path, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fd;
    long r = syscall(SYS_fstat, fd, to) ? -errno : 0;
    close((int)fd);
    return r;
}

static long access_of(long dir, long path, long mode)
{
    long fd = opened(dir, path, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fd;
    close((int)fd);
    return mode & ~R_OK ? -EACCES : 0;
}

static void on_call(int sig, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    int saved = errno;
    long r = -ENOENT; /* readlink, statx … : glibc has another way, or does without */
    switch (info->si_syscall) {
    case SYS_openat: r = opened(ARG(u, 0), ARG(u, 1), ARG(u, 2)); break;
    case SYS_newfstatat: r = stat_of(ARG(u, 0), ARG(u, 1), ARG(u, 2), ARG(u, 3)); break;
    case SYS_faccessat:
#ifdef SYS_faccessat2
    case SYS_faccessat2:
#endif
        r = access_of(ARG(u, 0), ARG(u, 1), ARG(u, 2));
        break;
#ifdef SYS_open
    case SYS_open: r = opened(AT_FDCWD, ARG(u, 0), ARG(u, 1)); break;
    case SYS_stat:
    case SYS_lstat: r = stat_of(AT_FDCWD, ARG(u, 0), ARG(u, 1), 0); break;
    case SYS_access: r = access_of(AT_FDCWD, ARG(u, 0), ARG(u, 1)); break;
#endif
    case SYS_statx: r = -ENOSYS; break;
    default: break;
    }
    ANSWER(u) = r;
    errno = saved;
}
#endif

bool confine_hide(void)
{
#if CAN
    struct sigaction a = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    sigemptyset(&a.sa_mask);
    return sigaction(SIGSYS, &a, NULL) == 0;
#else
    return false;
#endif
}
