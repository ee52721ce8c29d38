/* What this worker may still do once it handles graphs.
 *
 * It comes after the device is open and before the first graph is looked at, while there is one thread: another one
 * would keep its files. On the software device:
 *
 *   files    to read and run: the compiler child and what it loads; to read: CUDA's headers, the list of libraries (and
 *            these, where the software device is to compile kernels), how much memory and how many processors there
 *            are; to change: the folder of the cache, that of bundles, that of the checks' log. No other file, and no
 *            TCP.
 *   calls    the worker's list (confine/calls.def); another one ends the worker, and the job gets an error.
 *
 * NVIDIA's driver opens its compiler and CUPTI when it first needs them, and speaks to its kernel module by ioctl;
 * which files and calls that takes is known only where it ran. So with a real GPU files stay as they are, and calls
 * outside the list are logged by the kernel; `enforce` is there to try, with the paths that paths_of_driver() guesses.
 * CONFINE_CUDA_ENFORCED says whether that has been settled: it becomes true with a committed result of `./dev gpu` that
 * passed under DOVETAIL_CONFINE=enforce.
 *
 *   word      software device        real GPU               where the kernel cannot
 *   off       nothing                nothing                –
 *   try       files, calls           calls, logged only     goes on without
 *   require   files, calls           calls, logged only     the worker does not start
 *   enforce   files, calls           files, calls           the worker does not start
 *
 * A service that has a network (the cluster's) says so, and its worker goes into a network namespace of its own before
 * anything else, compilers with it: on every device, where the system lets it.
 *
 * The compiler child confines itself, whatever the word is (device/nvrtc-child.c).
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/vec.h"
#include "confine/confine.h"
#include "daemon/worker/worker.h"

#define CONFINE_CUDA_ENFORCED false
#define CALLS_S 5

struct paths {
    struct dt_vec(struct confine_path) v;
    bool failed;
};

static void paths_add(struct paths *p, const char *path, unsigned rights)
{
    char *copy = dt_strdup(path);
    if (!copy || !dt_push(&p->v, (struct confine_path){copy, rights})) {
        free(copy);
        p->failed = true;
    }
}

static void paths_done(struct paths *p)
{
    for (size_t i = 0; i < p->v.n; i++)
        free((char *)p->v.p[i].path);
    free(p->v.p);
}

static void add_compiler(const char *path, bool folder, void *user)
{
    paths_add(user, path, folder ? CONFINE_READ : CONFINE_READ | CONFINE_RUN);
}

/* The folder in which a file is made and replaced. It is made, so that it can be named. */
static void add_folder_of(struct paths *p, const char *file)
{
    dt_free_ char *dir = dt_strdup(strchr(file, '/') ? file : "./");
    char *slash = dir ? strrchr(dir, '/') : NULL;
    if (!slash) {
        p->failed = true;
        return;
    }
    slash[slash == dir] = 0;       /* the root stays */
    if (dt_mkdirs(dir, NULL) == 0) /* else it cannot be used anyhow */
        paths_add(p, dir, CONFINE_CHANGE);
}

static void paths_of(const struct wrk *w, struct paths *p)
{
    static const char *const given[] = {"DOVETAIL_BUNDLES", "DOVETAIL_CHECK_LOG"};
    static const char *const read[] = {
        "/etc/ld.so.cache",
        "/etc/localtime",
        "/proc/meminfo",
        "/sys/devices/system/cpu",
        "/dev/urandom",
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        "/proc" /* where its own memory and threads are */
#endif
    };
    dt_free_ char *cache = cache_path_of(w->cache_path);
    dev_compiler_paths(add_compiler, p);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        paths_add(p, read[i], CONFINE_READ);
    const char *jit = getenv("DOVETAIL_SOFTGPU_JIT");
    if (jit && strcmp(jit, "0")) { /* libLLVM and what it needs: the software device loads it when a kernel is hot */
        paths_add(p, "/usr/lib/x86_64-linux-gnu", CONFINE_READ);
        paths_add(p, "/usr/lib64", CONFINE_READ);
    }
    paths_add(p, "/dev/null", CONFINE_READ | CONFINE_CHANGE);
    if (cache)
        add_folder_of(p, cache);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const char *s = getenv(given[i]);
        if (s && *s)
            add_folder_of(p, s);
    }
}

/* A real GPU: where NVIDIA's driver finds its libraries, its device files, what it reads of the system. */
static void paths_of_driver(struct paths *p)
{
    static const struct confine_path known[] = {{"/usr", CONFINE_READ | CONFINE_RUN},
                                                {"/lib", CONFINE_READ | CONFINE_RUN},
                                                {"/lib64", CONFINE_READ | CONFINE_RUN},
                                                {"/opt", CONFINE_READ | CONFINE_RUN},
                                                {"/etc", CONFINE_READ},
                                                {"/proc", CONFINE_READ},
                                                {"/sys", CONFINE_READ},
                                                {"/dev", CONFINE_DEVICE},
                                                {"/dev/shm", CONFINE_CHANGE},
                                                {"/tmp", CONFINE_CHANGE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        paths_add(p, known[i].path, known[i].rights);
    for (const char *list = getenv("DOVETAIL_CUDA_LIBS"); list && *list;) {
        size_t n = strcspn(list, ":");
        dt_free_ char *dir = dt_strdup(list);
        if (dir && n) {
            dir[n] = 0;
            paths_add(p, dir, CONFINE_READ | CONFINE_RUN);
        }
        list += n + (list[n] == ':');
    }
}

static const char *const words[] = {
    [WRK_CONFINE_OFF] = "off",
    [WRK_CONFINE_TRY] = "try",
    [WRK_CONFINE_REQUIRE] = "require",
    [WRK_CONFINE_ENFORCE] = "enforce",
};

bool wrk_confine_word(const char *word, enum wrk_confine *ret)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], word)) {
            *ret = (enum wrk_confine)i;
            return true;
        }
    return false;
}

/* 0: done, or not to be had and not required. Want of memory passes, and is no reason to go on without. */
static int refused(struct wrk *w, int r, struct dt_err *why, struct dt_err *e)
{
    if (r < 0 && w->confine >= WRK_CONFINE_REQUIRE)
        r = dt_err_set(e, DT_E_NO_DEVICE, "%s; a worker that is not confined must not start (confine = %s)",
                       why->detail ? why->detail : dt_err_text(r), words[w->confine]);
    else if (r == DT_E_NOMEM)
        dt_err_set(e, r, "out of memory to confine the worker");
    else if (r < 0) {
        dt_log(DT_LOG_WARN, "not confined: %s", why->detail ? why->detail : dt_err_text(r));
        r = 0;
    }
    dt_err_done(why);
    return r;
}

static unsigned threads(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *t; d && (t = readdir(d));)
        n += *t->d_name != '.';
    if (d)
        closedir(d);
    return n;
}

static int confine_worker_files(struct wrk *w, struct dt_err *e)
{
    struct paths p = {0};
    struct dt_err why = {0};
    bool soft = dev_info(w->dev)->soft;
    if (soft && threads() > 1) { /* NVIDIA's driver has some as soon as it is open */
        w->files = "unavailable";
        return refused(w, dt_err_set(&why, DT_E_INTERNAL, "threads were started before files were taken away"), &why,
                       e);
    }
    paths_of(w, &p);
    if (!soft)
        paths_of_driver(&p);
    int r = p.failed ? dt_err_set(&why, DT_E_NOMEM, "out of memory") : confine_files(p.v.p, p.v.n, &why);
    paths_done(&p);
    w->files = r < 0 ? "unavailable" : "enforced";
    return refused(w, r, &why, e);
}

/* What libseccomp lacked memory for it writes to, and frees twice: whatever touches the heap after that may be stopped
 * by malloc, or go wrong. So the answer is a text that is there, and the process ends without putting things away. */
static _Noreturn void starved_calls(struct wrk *w)
{
    static const char text[] = "{\"type\":\"about:blank\",\"title\":\"out of memory\",\"status\":503,"
                               "\"code\":\"out-of-memory\",\"detail\":\"out of memory to confine the worker\"}";
    wrk_send(w, 'E', text, sizeof text - 1);
    _exit(4);
}

static int confine_worker_calls(struct wrk *w, bool soft, bool log_only, struct dt_err *e)
{
    struct dt_err why = {0};
    alarm(CALLS_S); /* libseccomp without memory may search its rules for ever */
    int r = confine_calls(soft ? CONFINE_WORKER : CONFINE_DRIVER, log_only, &why);
    alarm(0);
    if (r == DT_E_NOMEM)
        starved_calls(w);
    w->calls = r < 0 ? "unavailable" : log_only ? "logged" : "enforced";
    return refused(w, r, &why, e);
}

int wrk_confine(struct wrk *w, struct dt_err *e)
{
    if (w->files) /* it is for ever */
        return 0;
    bool soft = dev_info(w->dev)->soft, enforced = soft || CONFINE_CUDA_ENFORCED || w->confine == WRK_CONFINE_ENFORCE;
    int r = 0;
    if (w->confine >= WRK_CONFINE_REQUIRE && (!confine_landlock() || !confine_seccomp()))
        r = dt_err_set(
            e, DT_E_NO_DEVICE, "this kernel has no %s; a worker that is not confined must not start (confine = %s)",
            confine_landlock() ? "filters of system calls" : "Landlock, or it is switched off", words[w->confine]);
    w->files = w->calls = "off";
    if (!r && w->confine != WRK_CONFINE_OFF && enforced)
        r = confine_worker_files(w, e);
    if (!r && w->confine != WRK_CONFINE_OFF)
        r = confine_worker_calls(w, soft, !enforced, e);
    if (r < 0)
        w->files = w->calls = NULL;
    return r;
}

/* What it starts has no network either. */
void wrk_leave_network(struct wrk *w)
{
    struct dt_err why = {0};
    if (w->confine != WRK_CONFINE_OFF)
        w->network = confine_network(&why) < 0 ? "unavailable" : "namespace";
    if (why.num)
        dt_log(DT_LOG_WARN,
               "the service has a network, and so has its worker, sockets that it may not make excepted: %s",
               why.detail);
    dt_err_done(&why);
}

json_t *wrk_confinement(const struct wrk *w)
{
    return json_pack("{s:s, s:i, s:{s:s, s:s, s:s*}, s:{s:s, s:s, s:s*}}", "mode", words[w->confine], "landlock",
                     confine_landlock(), "worker", "files", w->files ? w->files : "off", "calls",
                     w->calls ? w->calls : "off", "network", w->network, "compiler", "files",
                     confine_landlock() ? "enforced" : "unavailable", "calls",
                     confine_seccomp() ? "enforced" : "unavailable", "network", w->network);
}
