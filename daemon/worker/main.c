/* dovetail-worker: one process per device, started by the service or by the command line with --local.
 *
 * --netless: the service has a network, and this process is to have none (confine.c).
 * --print lets kernels of the verb `run` print (stderr); the command line gives it, the service does not.
 *
 * It reads request frames from fd 0 and answers on fd 1 (base/wire.h). At start both are moved to other numbers: fd 0
 * becomes /dev/null and fd 1 the log (stderr), so that what a kernel, a compiler or a driver prints cannot get between
 * the frames.
 *
 * Protection: it dies with its parent, and leaves no core file; once its device is open it is confined (confine.c). A
 * job that hangs is killed from outside. After an error that may leave the device's context unusable
 * (dtd_error_ends_worker) it answers and ends; the service then starts a new worker. It also ends after a ping whose
 * synchronisation gave any error at all: a fault that came late, or a device that is gone.
 *
 * Exit status: 0 end of requests or such an error, 2 wrong usage, 4 the pipe is broken.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

/* Bundles of refused plans go beside the cache, unless the environment names a folder. */
static void bundles_beside(const char *cache)
{
    const char *end = cache ? strrchr(cache, '/') : NULL;
    struct dt_str dir = {0};
    if (end)
        dt_str_addf(&dir, "%.*s/bundles", (int)(end - cache), cache);
    if (end && !dir.failed)
        rw_bundles_in(dir.s);
    dt_str_done(&dir);
}

/* SQLite's temporary files go where the cache is: a confined worker can write nowhere else. */
static void temporary_beside(const char *cache)
{
    dt_free_ char *path = cache_path_of(cache);
    char *end = path ? strrchr(path, '/') : NULL;
    if (end && end != path) {
        *end = 0;
        setenv("SQLITE_TMPDIR", path, 0);
    }
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"device", 1, NULL, 'd'}, {"cache", 1, NULL, 'c'}, {"print", 0, NULL, 'p'},   {"confine", 1, NULL, 'f'},
        {"memory", 1, NULL, 'm'}, {"beat", 1, NULL, 'b'},  {"netless", 0, NULL, 'n'}, {0}};
    struct wrk w = {.spec = "auto"};
    const char *confine = getenv("DOVETAIL_CONFINE");
    dt_log_init("dovetail-worker", DT_LOG_INFO);
    for (int o; (o = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (o == 'd')
            w.spec = optarg;
        else if (o == 'c')
            w.cache_path = optarg;
        else if (o == 'p')
            w.print = true;
        else if (o == 'f')
            confine = optarg;
        else if (o == 'm')
            w.memory_mb = (unsigned)strtoul(optarg, NULL, 10);
        else if (o == 'n')
            w.netless = true;
        else if (o == 'b')
            w.beat_ms = (unsigned)strtoul(optarg, NULL, 10);
        else
            return 2;
    }
    if (!wrk_confine_word(confine && *confine ? confine : "try", &w.confine)) {
        fprintf(stderr, "dovetail-worker: confinement is off, try, require or enforce, not %s\n", confine);
        return 2;
    }
    if (optind < argc) {
        fprintf(stderr, "dovetail-worker: unexpected argument %s\n", argv[optind]);
        return 2;
    }
    if (w.netless)
        wrk_leave_network(&w);
    bundles_beside(w.cache_path);
    temporary_beside(w.cache_path);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    w.in = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    w.out = fcntl(1, F_DUPFD_CLOEXEC, 3);
    if (w.in < 0 || w.out < 0 || null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0) {
        fprintf(stderr, "dovetail-worker: fds 0, 1 and 2 must be open: %s\n", strerror(errno));
        return 4;
    }
    close(null);
    int r = 0;
    while (!r) {
        char type, *body;
        size_t len;
        struct dt_err e = {0};
        r = dt_wire_read(w.in, &type, &w.number, &body, &len, &e);
        dt_err_done(&e);
        if (r)
            break;
        wrk_beat_at(w.number);
        if (type != DT_WIRE_TELL) /* the answer to a question that nobody waits for any more */
            r = type == 'Q' ? wrk_request(&w, body, len) : DT_E_IO;
        wrk_beat_at(0);
        free(body);
        /* only now, after the first request: a thread from before the worker is confined would keep its rights */
        if (!r && w.beat_ms && w.beat_ms <= 60000 && wrk_beat(&w, w.beat_ms) < 0)
            r = DT_E_NOMEM;
        w.beat_ms = 0;
    }
    wrk_memo_done(&w);
    json_decref(w.devices);
    cache_close(w.cache);
    /* the driver's own clean-up would wait for the kernel; the end of the process takes it off the device */
    if (dev_hung(w.dev))
        _exit(4);
    dev_close(w.dev);
    return r < 0 ? 4 : 0;
}
