/* Work in a copy of the process: the contract is in aside.h.
 *
 * The answer comes over a pipe in one write, so it is there as a whole or not at all. malloc may be used in the copy
 * (glibc makes its locks usable across fork). No handlers of exit run in it.
 */
#include "base/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 512 /* POSIX's least PIPE_BUF */

static void aside_run(int fd, pid_t parent, bool (*fn)(void *, void *), void *user, size_t bytes)
{
    char answer[MOST] = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && fn(user, answer) && write(fd, answer, bytes) == (ssize_t)bytes)
        _exit(0);
    _exit(1);
}

bool dt_aside_start(struct dt_aside *a, bool (*fn)(void *user, void *ret), void *user, size_t bytes)
{
    int fd[2];
    pid_t parent = getpid();
    *a = (struct dt_aside){0};
    if (bytes > MOST || pipe2(fd, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (!pid)
        aside_run(fd[1], parent, fn, user, bytes);
    close(fd[1]);
    if (pid < 0)
        close(fd[0]);
    else
        *a = (struct dt_aside){pid, fd[0]};
    return pid > 0;
}

static void aside_end(struct dt_aside *a)
{
    close(a->fd);
    while (waitpid(a->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *a = (struct dt_aside){0};
}

bool dt_aside_wait(struct dt_aside *a, void *ret, size_t bytes)
{
    ssize_t n;
    if (a->pid <= 0)
        return false;
    while ((n = read(a->fd, ret, bytes)) < 0 && errno == EINTR)
        ;
    aside_end(a);
    return n == (ssize_t)bytes;
}

void dt_aside_drop(struct dt_aside *a)
{
    if (a->pid <= 0)
        return;
    kill(a->pid, SIGKILL);
    aside_end(a);
}
