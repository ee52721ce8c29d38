/* A network namespace of its own: the process, and all that it starts, has no network but a loopback device that is
 * down, whatever the process that started it has. Sockets that are open already stay.
 *
 * Who may (root with CAP_SYS_ADMIN) leaves only the network. Anybody else needs a user namespace for it, in which the
 * user and the group are mapped to themselves, so that files look as before, and all capabilities in it are given up.
 * A user namespace cannot be left again, and one whose maps cannot be written would show every file as nobody's: so
 * this is tried by a child first.
 *
 * Not here: which sockets may be made (filter.c refuses them all to a worker of the software device), and Unix sockets
 * that are files, which no network namespace keeps apart (landlock.c does).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine/confine.h"

static bool network_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* The two of them, the maps, and no capabilities. */
static bool network_as_user(void)
{
    char user[40], group[40];
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    snprintf(user, sizeof user, "%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    snprintf(group, sizeof group, "%u %u 1", (unsigned)getegid(), (unsigned)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && network_write("/proc/self/setgroups", "deny") &&
           network_write("/proc/self/uid_map", user) && network_write("/proc/self/gid_map", group) &&
           syscall(SYS_capset, &head, none) == 0;
}

static bool network_tried(void)
{
    int status = 0;
    pid_t pid = fork();
    if (!pid)
        _exit(network_as_user() ? 0 : 1);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int confine_network(struct dt_err *e)
{
    if (unshare(CLONE_NEWNET) == 0 || (network_tried() && network_as_user()))
        return 0;
    return dt_err_set(e, DT_E_UNSUPPORTED, "this system gives a process no network namespace of its own");
}
