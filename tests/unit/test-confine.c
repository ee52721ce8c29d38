/* Confined processes try what they may not do. Each case is a child that confines itself and tries one thing; its exit
 * status says what came of it. Where the kernel has Landlock and filters nothing is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "confine/confine.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* The file in the folder `in` may be read, the one in `out` not; in/link leads to that; `work` may be changed. */
static char dir[64], in[96], out[96], through[96], above[96], nothing[96], beside[96], work[96];

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int make_files(void **state)
{
    char path[128];
    snprintf(dir, sizeof dir, "/tmp/dovetail-confine-XXXXXX");
    assert_non_null(mkdtemp(dir));
    static const char *const folders[] = {"in", "out", "work"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(in, sizeof in, "%s/in/a.h", dir);
    snprintf(out, sizeof out, "%s/out/b.h", dir);
    snprintf(through, sizeof through, "%s/in/link", dir);
    snprintf(above, sizeof above, "%s/in/../out/b.h", dir);
    snprintf(nothing, sizeof nothing, "%s/out/nothing", dir);
    snprintf(beside, sizeof beside, "%s/in/nothing", dir);
    snprintf(work, sizeof work, "%s/work", dir);
    put(in, "in");
    put(out, "out");
    assert_int_equal(symlink(out, through), 0);
    return 0;
}

static int remove_files(void **state)
{
    char path[160];
    static const char *const names[] = {"in/a.h", "in/link", "out/b.h", "work/new", "in", "out", "work", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        remove(path);
    }
    return 0;
}

static void confine_as(enum confine_who who)
{
    char folder[96];
    snprintf(folder, sizeof folder, "%s/in", dir);
    struct confine_path p[] = {
        {folder, CONFINE_READ},
        {work, CONFINE_CHANGE},
        {"/nonexistent", CONFINE_READ},
#if SANITIZED
        {"/proc", CONFINE_READ}
#endif
    };
    if (who == CONFINE_COMPILER && !confine_hide())
        _exit(99);
    if (confine_files(p, sizeof p / sizeof *p, NULL) < 0 || confine_calls(who, false, NULL) < 0)
        _exit(98);
}

/* Status of a child that confines itself and does `fn`: its exit status, or 1000 and the signal that ended it. */
static int outcome(enum confine_who who, int (*fn)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        confine_as(who);
        _exit(fn());
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define ENDED (1000 + SIGSYS)

/* ---- files, seen by a compiler --------------------------------------------------------------------------------- */

static int tried(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    return fd < 0 ? errno : (close(fd), 0);
}

static int reads_in(void)
{
    struct stat st;
    char text[8] = "";
    int fd = open(in, O_RDONLY);
    if (fd < 0 || read(fd, text, 2) != 2 || strcmp(text, "in") || fstat(fd, &st) || st.st_size != 2)
        return 1;
    close(fd);
    return stat(in, &st) || st.st_size != 2 || access(in, R_OK) || faccessat(AT_FDCWD, in, R_OK, 0);
}

static int opens_out(void) { return tried(out, O_RDONLY); }
static int opens_link(void) { return tried(through, O_RDONLY); }
static int opens_above(void) { return tried(above, O_RDONLY); }
static int opens_nothing(void) { return tried(nothing, O_RDONLY); }
static int opens_beside(void) { return tried(beside, O_RDONLY); }
static int opens_passwd(void) { return tried("/etc/passwd", O_RDONLY); }
static int opens_folder(void) { return tried("/etc", O_RDONLY | O_DIRECTORY); }
static int writes_in(void) { return tried(in, O_WRONLY); }
static int makes_in(void) { return tried(beside, O_WRONLY | O_CREAT); }
static int truncates_in(void) { return tried(in, O_RDONLY | O_TRUNC); }

static int stats_out(void)
{
    struct stat st;
    return stat(out, &st) ? errno : 0;
}

static int stats_link(void)
{
    struct stat st;
    return lstat(through, &st) ? errno : 0;
}

static int asks_out(void) { return access(out, F_OK) ? errno : 0; }

static int follows_link(void)
{
    char to[64];
    return readlink(through, to, sizeof to) < 0 ? errno : 0;
}

/* The way of the handler itself, without it: Landlock, and not the handler's good will, keeps the file. */
static int opens_out_directly(void)
{
    struct open_how how = {.flags = O_RDONLY};
    return syscall(SYS_openat2, AT_FDCWD, out, &how, sizeof how) < 0 ? errno : 0;
}

static int changes_out_directly(void)
{
    struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 0600};
    return syscall(SYS_openat2, AT_FDCWD, nothing, &how, sizeof how) < 0 ? errno : 0;
}

static void compiler_files(void **state)
{
    static int (*const hidden[])(void) = {opens_out,    opens_link,   opens_above,  opens_nothing,
                                          opens_beside, opens_passwd, opens_folder, stats_out,
                                          stats_link,   asks_out,     follows_link};
    assert_int_equal(outcome(CONFINE_COMPILER, reads_in), 0);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        assert_int_equal(outcome(CONFINE_COMPILER, hidden[i]), ENOENT);
    assert_int_equal(outcome(CONFINE_COMPILER, writes_in), EACCES);
    assert_int_equal(outcome(CONFINE_COMPILER, makes_in), EACCES);
    assert_int_equal(outcome(CONFINE_COMPILER, truncates_in), EACCES);
    assert_int_equal(outcome(CONFINE_COMPILER, opens_out_directly), EACCES);
    assert_int_equal(outcome(CONFINE_COMPILER, changes_out_directly), EACCES);
    assert_int_equal(access(nothing, F_OK), -1);
}

/* ---- everything else ------------------------------------------------------------------------------------------- */

static int executes(void)
{
    char *argv[] = {(char *)"true", NULL};
    execv("/bin/true", argv);
    return errno;
}

static int opens_socket(void) { return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0; }
static int opens_unix(void) { return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0; }
static int signals_parent(void) { return kill(getppid(), 0) < 0 ? errno : 0; }
static int traces_parent(void) { return ptrace(PTRACE_ATTACH, getppid(), 0, 0) < 0 ? errno : 0; }
static int unshares(void) { return unshare(CLONE_NEWUSER) < 0 ? errno : 0; }
static int mounts(void) { return syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL) < 0 ? errno : 0; }

static int forks(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (!pid)
        _exit(0);
    return pid < 0 ? errno : waitpid(pid, NULL, 0) != pid;
}

static int forks_apart(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER, 0, 0, 0, 0);
    if (!pid)
        _exit(0);
    return pid < 0 ? errno : 0;
}

static void *nothing_to_do(void *p) { return p; }

static int starts_thread(void)
{
    pthread_t t;
    void *got = NULL;
    return pthread_create(&t, NULL, nothing_to_do, dir) || pthread_join(t, &got) || got != dir;
}

static int maps_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? errno : 0;
}

static int makes_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return 1;
    return mprotect(p, 4096, PROT_READ | PROT_EXEC) ? errno : 0;
}

static int aborts(void)
{
    abort();
    return 0;
}

static void compiler_calls(void **state)
{
    assert_int_equal(outcome(CONFINE_COMPILER, starts_thread), 0);
    assert_int_equal(outcome(CONFINE_COMPILER, executes), ENDED);
    assert_int_equal(outcome(CONFINE_COMPILER, opens_socket), ENDED);
    assert_int_equal(outcome(CONFINE_COMPILER, opens_unix), ENDED);
    assert_int_equal(outcome(CONFINE_COMPILER, signals_parent), ENDED);
    assert_int_equal(outcome(CONFINE_COMPILER, unshares), ENDED);
    assert_int_equal(outcome(CONFINE_COMPILER, mounts), ENDED);
    assert_int_equal(outcome(CONFINE_COMPILER, forks_apart), ENDED);
    assert_int_equal(outcome(CONFINE_COMPILER, maps_code), EACCES);
    assert_int_equal(outcome(CONFINE_COMPILER, makes_code), EACCES);
    if (!SANITIZED) { /* a sanitizer's own need these */
        assert_int_equal(outcome(CONFINE_COMPILER, aborts), 1000 + SIGABRT);
        assert_int_equal(outcome(CONFINE_COMPILER, forks), ENDED);
        assert_int_equal(outcome(CONFINE_COMPILER, traces_parent), ENDED);
    }
}

static int changes_work(void)
{
    char from[128], to[128];
    snprintf(from, sizeof from, "%s/old", work);
    snprintf(to, sizeof to, "%s/new", work);
    int fd = open(from, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || ftruncate(fd, 0) || fsync(fd) || close(fd))
        return errno;
    return rename(from, to) || unlink(to) ? errno : 0;
}

static int pairs(void)
{
    int fd[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, fd) ? errno : 0;
}

static void worker(void **state)
{
    assert_int_equal(outcome(CONFINE_WORKER, reads_in), 0);
    assert_int_equal(outcome(CONFINE_WORKER, changes_work), 0);
    assert_int_equal(outcome(CONFINE_WORKER, starts_thread), 0);
    assert_int_equal(outcome(CONFINE_WORKER, forks), 0);
    assert_int_equal(outcome(CONFINE_WORKER, pairs), 0);
    assert_int_equal(outcome(CONFINE_WORKER, opens_out), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, opens_link), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, opens_above), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, opens_passwd), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, writes_in), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, makes_in), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, executes), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, opens_socket), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, opens_unix), EACCES);
    assert_int_equal(outcome(CONFINE_WORKER, unshares), ENDED);
    assert_int_equal(outcome(CONFINE_WORKER, mounts), ENDED);
    assert_int_equal(outcome(CONFINE_WORKER, forks_apart), ENDED);
    if (confine_landlock() >= 6)
        assert_int_equal(outcome(CONFINE_WORKER, signals_parent), EPERM);
    assert_int_equal(outcome(CONFINE_WORKER, traces_parent), SANITIZED ? EPERM : ENDED);
}

/* With a driver: what is outside the list is logged, and works. */
static void logged(void **state)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        if (confine_calls(CONFINE_DRIVER, true, NULL) < 0)
            _exit(98);
        char *argv[] = {(char *)"true", NULL};
        if (syscall(SYS_personality, 0xffffffff) < 0)
            _exit(97);
        execv("/bin/true", argv);
        _exit(96);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- no network ------------------------------------------------------------------------------------------------ */

/* Status of a child that leaves the network, as `uid`: 0; 77: it cannot be had here. */
static int left(uid_t uid, const struct sockaddr_in *to)
{
    char before[64] = "", after[64] = "";
    struct stat st;
    if (uid != geteuid() && (setgroups(0, NULL) || setgid(uid) || setuid(uid) || prctl(PR_SET_DUMPABLE, 1)))
        return 1;
    (void)!readlink("/proc/self/ns/net", before, sizeof before - 1);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) /* while there is one */
        return 2;
    close(fd);
    if (confine_network(NULL) < 0)
        return 77;
    (void)!readlink("/proc/self/ns/net", after, sizeof after - 1);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (!strcmp(before, after) || connect(fd, (const struct sockaddr *)to, sizeof *to) == 0)
        return 3;
    if (geteuid() != uid || stat("/proc/self", &st) < 0 || st.st_uid != uid)
        return 4;
    if (uid && sethostname("x", 1) == 0) /* no capability is left, in whatever namespace */
        return 5;
    return 0;
}

static void network(void **state)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof to;
    int server = socket(AF_INET, SOCK_STREAM, 0), status;
    assert_true(bind(server, (struct sockaddr *)&to, n) == 0 && listen(server, 8) == 0 &&
                getsockname(server, (struct sockaddr *)&to, &n) == 0);
    for (int other = 0; other < (geteuid() ? 1 : 2); other++) {
        fflush(NULL);
        pid_t pid = fork();
        if (!pid)
            _exit(left(other ? 65534 : geteuid(), &to));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            printf("this system gives no network namespace to %s\n", other ? "nobody" : "this user");
        else
            assert_int_equal(WEXITSTATUS(status), 0);
    }
    close(server);
}

int main(void)
{
    if (!confine_landlock() || !confine_seccomp()) {
        printf("this kernel has no %s: skipped\n", confine_landlock() ? "filters" : "Landlock");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiler_files), cmocka_unit_test(compiler_calls), cmocka_unit_test(worker),
        cmocka_unit_test(logged),         cmocka_unit_test(network),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
