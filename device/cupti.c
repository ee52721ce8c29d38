/* CUPTI: opened by dlopen; and tracing of kernels, memsets and copies. Kernels are traced by kind CONCURRENT_KERNEL,
 * which does not serialise them.
 *
 * The order is that of the manual's samples: subscribe, register the buffer callbacks, enable kinds; launch;
 * synchronise, flush, disable, unsubscribe. A process has one subscriber; error 39 means that a debugger or profiler is
 * it. Driver API records are enabled because only they carry external ids. CUPTI calls back from a thread of its own
 * and without a user pointer: hence the static state, under a lock.
 *
 * Buffers are 1 MB each, at most 64 at a time. Where no buffer can be had, CUPTI drops records, and the trace says how
 * many.
 *
 * libcupti opens "libcuda.so.1" by itself. Where the software device is loaded, the dynamic linker would give it that
 * library. So a process that has opened the software device never opens CUPTI for tracing. The host's part of the
 * counters opens no driver and may be used anywhere.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cupti-priv.h"
#include "device/profile.h"

#define BUFFER_BYTES (1u << 20)
#define MAX_BUFFERS 64
#define OLDEST 18 /* CUDA 12.0 */

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           CUPTI_ACTIVITY_KIND_DRIVER,
                                           CUPTI_ACTIVITY_KIND_OVERHEAD,
                                           CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
enum { KINDS = sizeof kinds / sizeof *kinds };

static struct {
    pthread_mutex_t lock; /* of all of this */
    struct dev_cupti cupti;
    bool tracing;
    unsigned buffers;
    struct dev_trace trace;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct dev_tracer {
    struct dev_device *dev;
    CUpti_SubscriberHandle subscriber;
    unsigned enabled;
    bool marked;
};

int dev_cupti_error(const struct dev_cupti *c, CUptiResult r, const char *what, bool *ret_retry, struct dt_err *e)
{
    const char *name = NULL, *why = "";
    if (r == CUPTI_SUCCESS)
        return 0;
    switch (r) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
        why = ": another profiler or a debugger has this process";
        break;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
        why = ": this user may not read the counters (the driver's parameter NVreg_RestrictProfilingToAdminUsers)";
        break;
    case CUPTI_ERROR_HARDWARE_BUSY: why = ": another process, DCGM perhaps, has the counters now"; break;
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED: why = ": not on a MIG slice"; break;
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED: why = ": not on a virtual GPU"; break;
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_UNKNOWN: why = ": CUPTI finds no driver that it can use"; break;
    default: break;
    }
    if (ret_retry)
        *ret_retry = r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || r == CUPTI_ERROR_HARDWARE_BUSY;
    c->cuptiGetResultString(r, &name);
    return dt_err_set(e, DT_E_PROFILER, "%s: %s (%d)%s", what, name ? name : "unknown error", (int)r, why);
}

static int cupti_fill(struct dev_cupti *c, struct dt_err *e)
{
    static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};
    static const char *const beside[][2] = {{"libnvperf_host.so", NULL}, {"libnvperf_target.so", NULL}};
    uint32_t version = 0;
    c->lib = dev_find_library(sonames);
    if (!c->lib)
        return dt_err_set(e, DT_E_PROFILER, "there is no CUPTI (libcupti.so.13) on this machine");
    /* It opens these by their names alone, which the linker does not find beside it (in NVIDIA's wheels); once open
     * they are found. They stay open. */
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        dev_find_library(beside[i]);
#define CUPTI(name)                                                                                                    \
    if (!(c->name = (__typeof__(&name))dlsym(c->lib, #name)))                                                          \
        return dt_err_set(e, DT_E_PROFILER, "libcupti has no " #name);
#define RANGE(name)                                                                                                    \
    if (!(c->name = (__typeof__(&name))dlsym(c->lib, #name)) && !c->no_range)                                          \
        c->no_range = #name;
#include "device/cupti.def"
#undef CUPTI
#undef RANGE
    CUptiResult r = c->cuptiGetVersion(&version);
    if (r == CUPTI_SUCCESS && version < OLDEST)
        return dt_err_set(e, DT_E_PROFILER, "libcupti is too old (version %u; CUDA 12.0 has %u)", version, OLDEST);
    return dev_cupti_error(c, r, "cuptiGetVersion", NULL, e);
}

int dev_cupti_open(bool host, const struct dev_cupti **ret, struct dt_err *e)
{
    const char *off = getenv("DOVETAIL_CUPTI");
    struct dev_cupti c = {0};
    int err = 0;
    if (!host && dev_driver_is_open(true))
        return dt_err_set(e, DT_E_PROFILER, "CUPTI is not used in a process that has the software device open");
    if (!host && off && !strcmp(off, "off"))
        return dt_err_set(e, DT_E_PROFILER, "CUPTI is switched off (DOVETAIL_CUPTI=off)");
    pthread_mutex_lock(&state.lock);
    if (!state.cupti.lib) {
        err = cupti_fill(&c, e);
        if (!err)
            state.cupti = c;
        else if (c.lib)
            dlclose(c.lib);
    }
    pthread_mutex_unlock(&state.lock);
    if (!err)
        *ret = &state.cupti;
    return err;
}

int dev_cupti_there(uint32_t *ret_version, struct dt_err *e)
{
    const struct dev_cupti *c;
    int r = dev_cupti_open(false, &c, e);
    if (r < 0)
        return r;
    CUptiResult got = c->cuptiGetVersion(ret_version);
    return dev_cupti_error(c, got, "cuptiGetVersion", NULL, e);
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */
static void CUPTIAPI ignore(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {}

static void CUPTIAPI wanted(uint8_t **buffer, size_t *size, size_t *max_records)
{
    pthread_mutex_lock(&state.lock);
    /* malloc'd memory that CUPTI writes: no hook */
    *buffer = state.buffers < MAX_BUFFERS ? aligned_alloc(64, BUFFER_BYTES) : NULL;
    state.buffers += *buffer != NULL;
    pthread_mutex_unlock(&state.lock);
    *size = *buffer ? BUFFER_BYTES : 0;
    *max_records = 0;
}

static void CUPTIAPI completed(CUcontext ctx, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    pthread_mutex_lock(&state.lock);
    while (valid && buffer &&
           state.cupti.cuptiActivityGetNextRecord(buffer, valid < size ? valid : size, &record) == CUPTI_SUCCESS)
        if (state.tracing && dev_activity_add(&state.trace, record) < 0)
            state.trace.dropped++;
    if (state.tracing && state.cupti.cuptiActivityGetNumDroppedRecords(ctx, stream, &dropped) == CUPTI_SUCCESS)
        state.trace.dropped += dropped;
    state.buffers -= buffer != NULL;
    pthread_mutex_unlock(&state.lock);
    free(buffer);
}

/* ---- tracing ----------------------------------------------------------------------------------------------------- */
static int stop(struct dev_tracer *t, bool keep, struct dev_trace *ret, struct dt_err *e)
{
    const struct dev_cupti *c = &state.cupti;
    CUptiResult r = CUPTI_SUCCESS;
    int err = keep ? dev_sync(t->dev, e) : 0;
    if (t->enabled)
        r = c->cuptiActivityFlushAll(err < 0 || !keep ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
    for (unsigned i = 0; i < t->enabled; i++)
        c->cuptiActivityDisable(kinds[i]);
    if (!err && keep)
        err = dev_cupti_error(c, r, "cuptiActivityFlushAll", NULL, e);
    if (t->subscriber)
        c->cuptiUnsubscribe(t->subscriber);
    pthread_mutex_lock(&state.lock);
    struct dev_trace trace = state.trace;
    state.trace = (struct dev_trace){0};
    state.tracing = false;
    pthread_mutex_unlock(&state.lock);
    if (!err && keep)
        err = dev_activity_finish(&trace);
    if (!err && keep) {
        c->cuptiGetVersion(&trace.version);
        *ret = trace;
    } else {
        dev_trace_done(&trace);
    }
    free(t);
    return err;
}

int dev_trace_begin(struct dev_device *d, struct dev_tracer **ret, bool *ret_retry, struct dt_err *e)
{
    const struct dev_cupti *c;
    if (ret_retry)
        *ret_retry = false;
    if (d->cu->soft)
        return dt_err_set(e, DT_E_PROFILER, "the software device's times are modelled: CUPTI has nothing to trace");
    int err = dev_cupti_open(false, &c, e);
    if (!err)
        err = dev_use(d, e);
    if (err < 0)
        return err;
    struct dev_tracer *t = dt_calloc(1, sizeof *t);
    if (!t)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    t->dev = d;
    pthread_mutex_lock(&state.lock);
    bool busy = state.tracing;
    state.tracing = true;
    pthread_mutex_unlock(&state.lock);
    if (busy) {
        free(t);
        if (ret_retry)
            *ret_retry = true;
        return dt_err_set(e, DT_E_PROFILER, "this process is tracing already");
    }
    CUptiResult r = c->cuptiSubscribe(&t->subscriber, ignore, NULL);
    const char *what = "cuptiSubscribe";
    if (r != CUPTI_SUCCESS)
        t->subscriber = NULL;
    if (r == CUPTI_SUCCESS) {
        what = "cuptiActivityRegisterCallbacks";
        r = c->cuptiActivityRegisterCallbacks(wanted, completed);
    }
    while (r == CUPTI_SUCCESS && t->enabled < KINDS) {
        what = "cuptiActivityEnable";
        r = c->cuptiActivityEnable(kinds[t->enabled]);
        t->enabled += r == CUPTI_SUCCESS;
    }
    if (r != CUPTI_SUCCESS) {
        err = dev_cupti_error(c, r, what, ret_retry, e);
        stop(t, false, NULL, NULL);
        return err;
    }
    *ret = t;
    return 0;
}

int dev_trace_mark(struct dev_tracer *t, uint64_t external, struct dt_err *e)
{
    const struct dev_cupti *c = &state.cupti;
    uint64_t last;
    CUptiResult r = CUPTI_SUCCESS;
    if (t->marked)
        r = c->cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
    t->marked = false;
    if (r == CUPTI_SUCCESS && external) {
        r = c->cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, external);
        t->marked = r == CUPTI_SUCCESS;
    }
    return dev_cupti_error(c, r, "an external correlation id", NULL, e);
}

int dev_trace_end(struct dev_tracer *t, struct dev_trace *ret, struct dt_err *e)
{
    if (t->marked)
        dev_trace_mark(t, 0, NULL);
    return stop(t, true, ret, e);
}

struct dev_tracer *dev_trace_cancel(struct dev_tracer *t)
{
    if (t)
        stop(t, false, NULL, NULL);
    return NULL;
}
