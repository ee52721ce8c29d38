/* One compiler job in a confined child process (nvrtc-child.c): this file starts the child, feeds it, and waits for its
 * answer with a deadline.
 *
 * NVRTC and ptxas get text from strangers. They can hang, eat memory and crash, and NVRTC can read files. So each job
 * has a process of its own: it costs about 40 ms, and the deadline is real (SIGKILL). The parent never loads either
 * library.
 *
 * Parent and child talk over one socket pair, the child's fd 0 and 1, in frames as in base/wire.h.
 *
 *   to the child     'O' an option, any number of times; then the job's letter with the text: 'N' CUDA C++ to PTX,
 *                    'J' PTX to machine code, 'V' nothing: which compilers are there, and which files are theirs
 *   from the child   'L' the log; then one of 'R' the result, 'E' refused (words), 'N' no such library (words)
 *
 * The child gets none of our descriptors, and of our environment only what finding the libraries needs. Its answer is
 * hostile too, and is bounded. Several threads may run children at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/wire.h"
#include "device/device-priv.h"

#define MAX_REPLY (256u << 20)

void dev_reply_done(struct dev_reply *r)
{
    free(r->log);
    free(r->result);
    free(r->error);
    memset(r, 0, sizeof *r);
}

static const char *const pass[] = {"CUDA_HOME", "DOVETAIL_CUDA_LIBS", "LD_LIBRARY_PATH", "ASAN_OPTIONS"};

/* ahead: it loads nvJitLink before it has a job. */
static int spawn_child(const char *program, unsigned timeout_ms, bool ahead, int fd, pid_t *ret, struct dt_err *e)
{
    char *env[sizeof pass / sizeof *pass + 2] = {0}, ms[32];
    size_t n = 0;
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, all;
    int r = DT_E_NOMEM;

    /* Without one of these the child would find no library, which is not told from there being none. */
    if (!(env[n++] = dt_strdup("LC_ALL=C.UTF-8")))
        goto out;
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
        const char *v = getenv(pass[i]);
        if (!v)
            continue;
        if (asprintf(&env[n], "%s=%s", pass[i], v) < 0) {
            env[n] = NULL;
            dt_alloc_lost();
            goto out;
        }
        n++;
    }
    snprintf(ms, sizeof ms, "%u", timeout_ms);
    char *argv[] = {(char *)program, ms, ahead ? "J" : NULL, NULL};
    if (posix_spawn_file_actions_init(&fa))
        goto out;
    posix_spawnattr_init(&at);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &all);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int err = posix_spawn_file_actions_adddup2(&fa, fd, 0);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&fa, fd, 1);
    if (!err)
        err = posix_spawn_file_actions_addclosefrom_np(&fa, 3);
    if (!err)
        err = posix_spawn(ret, program, &fa, &at, argv, env);
    if (err == ENOMEM)
        dt_alloc_lost();
    r = err ? dt_err_set(e, err == ENOMEM ? DT_E_NOMEM : DT_E_NO_COMPILER, "%s: %s", program, strerror(err)) : 0;
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&at);
out:
    for (size_t i = 0; i < n; i++)
        free(env[i]);
    if (r == DT_E_NOMEM)
        dt_err_set(e, r, "out of memory for the compiler's process");
    return r;
}

static void add_frame(struct dt_str *s, char type, const char *p, size_t len)
{
    unsigned char head[DT_WIRE_HEAD];
    dt_wire_head(head, type, 0, len);
    dt_str_addn(s, head, sizeof head);
    dt_str_addn(s, p, len);
}

/* Write all of `out` and read until the child closes, both before `deadline`. */
static int talk(int fd, const struct dt_str *out, struct dt_str *in, uint64_t deadline, struct dt_err *e)
{
    size_t sent = 0;
    char buf[65536];
    for (;;) {
        uint64_t now = dt_now_us();
        if (now >= deadline)
            return dt_err_set(e, DT_E_TIMEOUT, "the compiler did not finish in its time limit");
        struct pollfd p = {fd, (short)(POLLIN | (sent < out->len ? POLLOUT : 0)), 0};
        if (poll(&p, 1, (int)((deadline - now) / 1000 + 1)) < 0 && errno != EINTR)
            return dt_err_set(e, DT_E_IO, "poll: %s", strerror(errno));
        if (p.revents & POLLOUT) {
            ssize_t n = send(fd, out->s + sent, out->len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n > 0)
                sent += (size_t)n;
            else if (n < 0 && errno != EAGAIN && errno != EINTR)
                sent = out->len; /* it has stopped listening: what it has to say comes next */
        }
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
            ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno == ECONNRESET))
                return in->failed ? dt_err_set(e, DT_E_NOMEM, "out of memory for the compiler's answer") : 0;
            if (n < 0 && errno != EAGAIN && errno != EINTR)
                return dt_err_set(e, DT_E_IO, "reading from the compiler: %s", strerror(errno));
            if (n > 0 && in->len + (size_t)n > MAX_REPLY)
                return dt_err_set(e, DT_E_TOO_LARGE, "the compiler's answer is over %u bytes", MAX_REPLY);
            if (n > 0)
                dt_str_addn(in, buf, (size_t)n);
        }
    }
}

static int child_take(char **to, const char *p, size_t len)
{
    char *s = dt_malloc(len + 1);
    if (!s)
        return DT_E_NOMEM;
    memcpy(s, p, len);
    s[len] = 0;
    free(*to);
    *to = s;
    return 0;
}

static int understand(const struct dt_str *in, struct dev_reply *ret, struct dt_err *e)
{
    int r = 0;
    for (size_t at = 0; at + DT_WIRE_HEAD <= in->len && !r;) {
        size_t n = dt_wire_frame_size((const unsigned char *)in->s + at);
        if (!n || n > in->len - at)
            break;
        const char *p = in->s + at + DT_WIRE_HEAD;
        size_t len = n - DT_WIRE_HEAD;
        switch (dt_wire_type((const unsigned char *)in->s + at)) {
        case 'L': r = child_take(&ret->log, p, len); break;
        case 'R':
            r = child_take(&ret->result, p, len);
            ret->result_len = len;
            break;
        case 'N': ret->missing = true; /* fall through */
        case 'E': r = child_take(&ret->error, p, len); break;
        default: break;
        }
        at += n;
    }
    return r ? dt_err_set(e, r, "out of memory for the compiler's answer") : 0;
}

struct child {
    pid_t pid;
    int fd;
};

static int child_start(const char *program, unsigned timeout_ms, bool ahead, struct child *ret, struct dt_err *e)
{
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        return dt_err_set(e, DT_E_IO, "socketpair: %s", strerror(errno));
    int r = spawn_child(program, timeout_ms, ahead, fd[1], &ret->pid, e);
    close(fd[1]);
    ret->fd = fd[0];
    if (r < 0)
        close(fd[0]);
    return r;
}

static int child_end(const struct child *c, bool kill_it)
{
    int status = 0;
    if (kill_it)
        kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(c->fd);
    return status;
}

/* ---- the spare child --------------------------------------------------------------------------------------------- */

static struct spare {
    pthread_mutex_t lock;
    bool there, used; /* used: there was a job that it could have been for */
    struct child child;
    unsigned timeout_ms;
    char *key; /* program and environment: with others it is no use */
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char *spare_key(const char *program)
{
    struct dt_str s = {0};
    dt_str_add(&s, program);
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
        const char *v = getenv(pass[i]);
        dt_str_addf(&s, "\n%s", v ? v : "");
    }
    return dt_str_take(&s);
}

static void spare_drop(void)
{
    if (spare.there)
        child_end(&spare.child, true);
    free(spare.key);
    spare.key = NULL;
    spare.there = false;
}

void dev_compilers_rest(void)
{
    pthread_mutex_lock(&spare.lock);
    spare_drop();
    spare.used = false;
    pthread_mutex_unlock(&spare.lock);
}

void dev_child_forget(void)
{
    if (spare.there)
        close(spare.child.fd);
    free(spare.key);
    spare.key = NULL;
    spare.there = false;
}

/* Is it still there, and silent? */
static bool waits_for_job(const struct child *c)
{
    struct pollfd p = {c->fd, POLLIN, 0};
    return poll(&p, 1, 0) == 0;
}

/* A child for the job: the spare one, or a new one; and the next spare one. */
static int child_for(char job, const char *program, unsigned timeout_ms, struct child *ret, struct dt_err *e)
{
    bool have = false;
    if (job != 'J')
        return child_start(program, timeout_ms, false, ret, e);
    pthread_mutex_lock(&spare.lock);
    char *key = spare_key(program);
    bool fits = spare.there && key && spare.timeout_ms == timeout_ms && !strcmp(spare.key, key);
    if (fits && waits_for_job(&spare.child)) {
        *ret = spare.child;
        have = true;
        spare.there = false;
    }
    spare_drop();
    int r = have ? 0 : child_start(program, timeout_ms, false, ret, e);
    if (r == 0 && spare.used && key && gettid() == getpid() &&
        child_start(program, timeout_ms, true, &spare.child, NULL) == 0) {
        spare.there = true;
        spare.timeout_ms = timeout_ms;
        spare.key = key;
        key = NULL;
    }
    spare.used = true;
    free(key);
    pthread_mutex_unlock(&spare.lock);
    return r;
}

/* ---- a job ------------------------------------------------------------------------------------------------------- */

int dev_child(char job, const char *const *option, unsigned noption, const char *text, size_t len, unsigned timeout_ms,
              struct dev_reply *ret, struct dt_err *e)
{
    if (len > DT_WIRE_MAX / 4)
        return dt_err_set(e, DT_E_TOO_LARGE, "the source is over %u bytes", DT_WIRE_MAX / 4);
    dt_free_ char *program = dev_find_ours("DOVETAIL_NVRTC", "device", "dovetail-nvrtc");
    if (!program)
        return dt_err_set(e, DT_E_NO_COMPILER, "dovetail-nvrtc is not where dovetail is installed");
    struct dt_str out = {0}, in = {0};
    struct dev_reply reply = {0};
    struct child child;
    int status = 0;

    for (unsigned i = 0; i < noption; i++)
        add_frame(&out, 'O', option[i], strlen(option[i]));
    add_frame(&out, job, text, len);
    if (out.failed) {
        dt_str_done(&out);
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the source");
    }
    int r = child_for(job, program, timeout_ms, &child, e);
    if (!r) {
        r = talk(child.fd, &out, &in, dt_now_us() + (uint64_t)timeout_ms * 1000, e);
        status = child_end(&child, r < 0);
    }
    if (!r)
        r = understand(&in, &reply, e);
    if (!r && !reply.result && !reply.error) {
        if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
            r = dt_err_set(e, DT_E_TIMEOUT, "the compiler was stopped at its time limit");
        else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
            r = dt_err_set(e, DT_E_COMPILE, "the compiler was ended: it made a system call that it may not make");
        else if (WIFSIGNALED(status))
            r = dt_err_set(e, DT_E_COMPILE, "the compiler crashed (%s)", strsignal(WTERMSIG(status)));
        else
            r = dt_err_set(e, DT_E_COMPILE, "the compiler ended without an answer (status %d)", WEXITSTATUS(status));
    }
    dt_str_done(&out);
    dt_str_done(&in);
    if (r < 0)
        dev_reply_done(&reply);
    else
        *ret = reply;
    return r;
}
