/* What a worker takes while it has a job: memory and CPU time, its compilers included, held to the configured limits.
 *
 * The kernel's own limits cannot do this alone: with NVIDIA's driver in it a process maps far more address space than
 * it uses, and a limit of CPU time counts a process, not a job. So the service looks, every WATCH_MS while the worker
 * is busy, at what /proc says of the worker and of its children: resident pages, and user and system time. A job that
 * is over a limit costs its worker and fails with the code `limits`; the next job gets a new worker.
 *
 * Between two looks a job may take more. On the software device the worker's own limit of data (RLIMIT_DATA) stops a
 * single large allocation before it is made. Pages that processes share are counted in each, but of a copy of the
 * worker (base/aside.h), which shares nearly all of them, those that are its own. A child that /proc hides (hidepid) is
 * not seen; its own limits hold (device/nvrtc-child.c).
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/service/pool-priv.h"

#define WATCH_MS 100

struct watch_use {
    uint64_t bytes; /* resident */
    double cpu_s;
};

/* A file of /proc/PID, NUL-terminated; 0: there is none. */
static size_t watch_read(pid_t pid, const char *name, char *buf, size_t n)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *f = fopen(path, "re");
    size_t len = f ? fread(buf, 1, n - 1, f) : 0;
    buf[len] = 0;
    if (f)
        fclose(f);
    return len;
}

/* Resident pages that no other process has. False: the kernel does not say. */
static bool watch_own(pid_t pid, uint64_t *ret)
{
    static const char *const name[] = {"\nPrivate_Clean:", "\nPrivate_Dirty:"};
    char buf[4096];
    if (!watch_read(pid, "smaps_rollup", buf, sizeof buf))
        return false;
    *ret = 0;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        const char *at = strstr(buf, name[i]);
        if (!at)
            return false;
        *ret += strtoull(at + strlen(name[i]), NULL, 10) << 10;
    }
    return true;
}

/* Is it a copy of the worker? Compilers have another name. */
static bool watch_copy(pid_t pid, pid_t worker)
{
    char mine[32], its[32];
    return pid != worker && watch_read(worker, "comm", mine, sizeof mine) && watch_read(pid, "comm", its, sizeof its) &&
           !strcmp(mine, its);
}

/* Adds one process. Of its children that it has waited for, the CPU time. */
static void watch_add(pid_t pid, pid_t worker, struct watch_use *use)
{
    char buf[4096], *at;
    uint64_t own;
    if (watch_copy(pid, worker) && watch_own(pid, &own))
        use->bytes += own;
    else if (watch_read(pid, "statm", buf, sizeof buf) && (at = strchr(buf, ' ')))
        use->bytes += strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    /* the name in brackets may hold anything; from behind it the state is field 3, the times are 14 to 17 */
    if (!watch_read(pid, "stat", buf, sizeof buf) || !(at = strrchr(buf, ')')))
        return;
    uint64_t ticks = 0;
    for (int field = 2; *at && field < 17; at++)
        if (*at == ' ' && ++field >= 14)
            ticks += strtoull(at, NULL, 10);
    use->cpu_s += (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static struct watch_use watch_of(pid_t pid)
{
    struct watch_use use = {0};
    char path[64], name[288], list[4096];
    watch_add(pid, pid, &use);
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (const struct dirent *t; d && (t = readdir(d));) { /* each thread has the children that it started */
        if (*t->d_name == '.')
            continue;
        snprintf(name, sizeof name, "task/%s/children", t->d_name);
        watch_read(pid, name, list, sizeof list);
        char *end;
        for (char *at = list;; at = end) {
            long child = strtol(at, &end, 10);
            if (end == at)
                break;
            watch_add((pid_t)child, pid, &use);
        }
    }
    if (d)
        closedir(d);
    return use;
}

uint64_t worker_resident(pid_t pid) { return watch_of(pid).bytes; }

/* Megabytes that a worker may have. */
static uint64_t watch_memory_mb(const struct dtd_config *c)
{
    if (c->worker_memory_mb)
        return (uint64_t)c->worker_memory_mb;
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4 * 3 >> 20;
}

static void on_watch(uv_timer_t *t)
{
    struct dtd_worker *w = t->data;
    const struct dtd_config *c = &w->pool->service->cfg;
    if (w->state != WORKER_BUSY || w->exited)
        return;
    struct watch_use use = watch_of(w->process.pid);
    uint64_t mb = watch_memory_mb(c), has = use.bytes >> 20;
    double took = use.cpu_s - w->cpu_before;
    if (has > mb)
        snprintf(w->over, sizeof w->over, "the job took %llu MB of memory; the limit is %llu MB (worker_memory_mb)",
                 (unsigned long long)has, (unsigned long long)mb);
    else if (c->job_cpu && took > (double)c->job_cpu)
        snprintf(w->over, sizeof w->over, "the job took %.0f s of CPU time; the limit is %ld s (job_cpu)", took,
                 c->job_cpu);
    else
        return;
    w->pool->count.over_limits++;
    w->why_num = DT_E_LIMITS;
    worker_kill(w, DTD_END_LIMITS, w->over);
}

void worker_watch(struct dtd_worker *w)
{
    w->cpu_before = watch_of(w->process.pid).cpu_s;
    uv_timer_start(&w->watch, on_watch, WATCH_MS, WATCH_MS);
}
