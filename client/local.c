/* --local: one request to a worker that the command line starts itself, without the service. The worker is
 * $DOVETAIL_WORKER, else the one beside the command line (../daemon/dovetail-worker in the build tree, dovetail-worker
 * in the same folder when installed).
 *
 * A timer keeps the time limit: its signal kills the worker's process group, and reading then meets the end of the
 * pipe. A worker that ends without an answer is the error `worker-lost`; one that reached the limit is `time-limit`.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "base/wire.h"
#include "client/cli.h"

#define LIMIT_S 600.0
#define END_S 5
#define REQUEST 1 /* a worker gets one request here */

static volatile sig_atomic_t worker_pid, late;

static void on_alarm(int sig)
{
    late = 1;
    if (worker_pid > 0 && kill(-worker_pid, SIGKILL) < 0)
        kill(worker_pid, SIGKILL);
}

static int find_worker(char **ret, struct dt_err *e)
{
    const char *env = getenv("DOVETAIL_WORKER");
    if (env && *env)
        return (*ret = dt_strdup(env)) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = dt_beside_self("../daemon/dovetail-worker", ret, e);
    if (!r && access(*ret, X_OK) < 0) {
        free(*ret);
        *ret = NULL;
        r = dt_beside_self("dovetail-worker", ret, e);
    }
    return r;
}

/* Start the worker; its stdin and stdout into *in and *out. Its pid, or an error. */
static int local_start(struct cli *c, int *in, int *out, struct dt_err *e)
{
    dt_free_ char *path = NULL;
    int to[2] = {-1, -1}, from[2] = {-1, -1}, r = find_worker(&path, e);
    if (r < 0)
        return r;
    if (access(path, X_OK) < 0)
        return dt_err_set(e, DT_E_WORKER_LOST, "%s: %s", path, strerror(errno));
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) {
        dt_err_set(e, DT_E_IO, "pipe: %s", strerror(errno));
        if (to[0] >= 0) {
            close(to[0]);
            close(to[1]);
        }
        return DT_E_IO;
    }
    char *args[] = {path,
                    (char *)"--print",
                    (char *)"--device",
                    (char *)(c->device ? c->device : "auto"),
                    (char *)"--cache",
                    (char *)c->cache,
                    NULL};
    if (!c->cache)
        args[4] = NULL;
    pid_t pid = fork();
    if (!pid) {
        setpgid(0, 0);
        signal(SIGPIPE, SIG_DFL);
        if (dup2(to[0], 0) >= 0 && dup2(from[1], 1) >= 0)
            execv(path, args);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    if (pid < 0) {
        close(to[1]);
        close(from[0]);
        return dt_err_set(e, DT_E_IO, "fork: %s", strerror(errno));
    }
    setpgid(pid, pid);
    *in = to[1];
    *out = from[0];
    return (int)pid;
}

static void take_answer(const char *body, size_t len, struct outcome *ret, struct dt_err *e)
{
    json_t *o = json_loadb(body, len, 0, NULL), *doc = json_object_get(o, "document");
    ret->text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    ret->len = ret->text ? strlen(ret->text) : 0;
    snprintf(ret->cache, sizeof ret->cache, "%s", dt_json_text(o, "cache"));
    snprintf(ret->signature, sizeof ret->signature, "%s", dt_json_text(o, "signature"));
    snprintf(ret->digest, sizeof ret->digest, "%s", dt_json_text(o, "digest"));
    if (!ret->text)
        dt_err_set(e, DT_E_INTERNAL, "the worker's answer has no document");
    json_decref(o);
}

/* Read frames until the answer. */
static void converse(struct cli *c, int out, struct outcome *ret, struct dt_err *e)
{
    for (;;) {
        char type, *body;
        uint32_t number;
        size_t len;
        struct dt_err lost = {0};
        int r = dt_wire_read(out, &type, &number, &body, &len, &lost);
        dt_err_done(&lost);
        if (r) {
            dt_err_set(e, late ? DT_E_TIMEOUT : DT_E_WORKER_LOST,
                       late ? "the job's time limit passed" : "the worker ended without an answer");
            return;
        }
        if (number != REQUEST || (type != 'P' && type != 'E' && type != 'R')) {
            dt_err_set(e, DT_E_WORKER_LOST, "the worker answered what nobody asked");
            free(body);
            return;
        }
        if (type == 'P') {
            json_t *o = json_loadb(body, len, 0, NULL);
            progress(c, dt_json_text(o, "stage"), dt_json_text(o, "message"), (long)jnum(o, "done"),
                     (long)jnum(o, "of"));
            json_decref(o);
            free(body);
            continue;
        }
        if (type == 'E') {
            ret->failed = true;
            ret->text = body;
            ret->len = len;
            return;
        }
        take_answer(body, len, ret, e);
        free(body);
        return;
    }
}

void local_request(struct cli *c, const char *verb, const char *members, const char *name, const char *value,
                   size_t len, struct outcome *ret)
{
    struct dt_err e = {0};
    struct dt_str q = {0};
    int in = -1, out = -1, status = 0;
    memset(ret, 0, sizeof *ret);
    json_t *oj = options_json(c);
    dt_free_ char *options = json_dumps(oj, JSON_COMPACT);
    json_decref(oj);
    double limit = c->timeout && strtod(c->timeout, NULL) > 0 ? strtod(c->timeout, NULL) : LIMIT_S;
    dt_str_addf(&q, "{\"limit_s\":%.3f,\"verb\":\"%s\",\"options\":%s", limit, verb, options ? options : "{}");
    if (members)
        dt_str_addf(&q, ",%s", members);
    if (name) {
        dt_str_addf(&q, ",\"%s\":", name);
        dt_str_addn(&q, value, len);
    }
    dt_str_addc(&q, '}');
    int pid = q.failed ? dt_err_set(&e, DT_E_NOMEM, "out of memory") : local_start(c, &in, &out, &e);
    if (pid > 0) {
        struct itimerval t = {.it_value = {(time_t)limit, (suseconds_t)((limit - (double)(time_t)limit) * 1e6)}};
        if (!t.it_value.tv_sec && !t.it_value.tv_usec)
            t.it_value.tv_usec = 1; /* nothing would be no limit */
        worker_pid = pid;
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
        setitimer(ITIMER_REAL, &t, NULL);
        dt_wire_write(in, 'Q', REQUEST, q.s, q.len); /* a failure shows as an answer that does not come */
        converse(c, out, ret, &e);
        close(in);
        close(out);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {END_S, 0}}, NULL); /* it should end by itself now */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
        worker_pid = 0;
        if (e.num == DT_E_WORKER_LOST && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
            dt_err_done(&e);
            dt_err_set(&e, DT_E_WORKER_LOST,
                       "the worker was ended: it made a system call that it may not make (SIGSYS)");
        }
    }
    dt_str_done(&q);
    if (e.num)
        outcome_error(ret, &e);
}
