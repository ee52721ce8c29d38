/* Process-wide state: the lock, the devices, contexts and the current-context stack of each thread.
 *
 * Device 0 is the model that DOVETAIL_SOFTGPU_MODEL names (default h200); that is the one device an ordinary program
 * counts. Ordinals 1, 2, … are all the models in the order of models.def, reached through dovetailDeviceByModel only. A
 * device's memory exists from its first context to its last. Contexts of one device share its address space (a real
 * device separates them).
 *
 * The lock is recursive. It is released while a host function of the program runs (cu_call_host), so that the function
 * may wait for another thread that uses the driver. A child of fork() has no device: every entry is
 * CUDA_ERROR_NOT_INITIALIZED there, as with NVIDIA's.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "softgpu/libcuda/cu-priv.h"

#define STACK 64

unsigned char cu_initialised;

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t leaving; /* its destructor takes an ending thread's streams along */
static bool forked;           /* this is a child of a process that used the driver */
static _Thread_local unsigned held;
static _Thread_local uint64_t self; /* number of this thread, 0: not needed yet */
static struct cu_device device[CU_DEVICES];
static struct dt_vec(struct CUctx_st *) live;
static _Thread_local struct CUctx_st *stack[STACK];
static _Thread_local unsigned depth;

static void make_lock(void)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    pthread_mutexattr_destroy(&a);
}

static void in_child(void)
{
    forked = forked || cu_initialised;
    held = 0;
    make_lock(); /* whoever held it is not here */
}

/* A thread ended: its per-thread default streams go. */
static void thread_ends(void *number)
{
    CU_LOCK();
    for (size_t i = 0; i < live.n && !forked; i++)
        for (struct CUstream_st *s = live.p[i]->streams, *next; s; s = next) {
            next = s->next;
            if (s->owner == (uint64_t)(uintptr_t)number) {
                cu_log_flush(live.p[i]);
                cu_stream_free(s);
            }
        }
}

static void state_start(void)
{
    make_lock();
    pthread_key_create(&leaving, thread_ends);
    pthread_atfork(NULL, NULL, in_child);
}

int cu_lock(void)
{
    pthread_once(&once, state_start);
    pthread_mutex_lock(&lock);
    held++;
    return 0;
}

void cu_unlock(const int *unused)
{
    held--;
    pthread_mutex_unlock(&lock);
}

uint64_t cu_thread(void)
{
    static uint64_t last;
    if (!self) {
        self = ++last;
        pthread_setspecific(leaving, (void *)(uintptr_t)self);
    }
    return self;
}

void cu_call_host(CUhostFn fn, void *user)
{
    unsigned n = held;
    bool was = cu_per_thread;
    cu_per_thread = false;
    for (unsigned i = 0; i < n; i++)
        cu_unlock(NULL);
    fn(user);
    for (unsigned i = 0; i < n; i++)
        cu_lock();
    cu_per_thread = was;
}

CUresult dovetailFork(int inside)
{
    if (inside)
        forked = false;
    CU_CONTEXT(c);
    if (!inside)
        cu_spare_drop(c);
    return CUDA_SUCCESS;
}

static void inject(void *unused) { cu_environment_inject(); }

CUresult cuInit(unsigned flags)
{
    CU_LOCK();
    CU_REQUIRE(!flags, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!forked, CUDA_ERROR_NOT_INITIALIZED);
    if (cu_initialised)
        return CUDA_SUCCESS;
    const struct sg_model *model[CU_DEVICES] = {0};
    CU_TRY(cu_environment_alone());
    CU_TRY(cu_environment_models(model));
    for (size_t i = 0; i < CU_DEVICES; i++)
        device[i].model = model[i];
    cu_initialised = 1;
    cu_call_host(inject, NULL); /* a child of fork() gets here no more */
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    CU_REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cu_ready(void) { return cu_initialised && !forked ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

struct cu_device *cu_device_at(CUdevice d) { return d >= 0 && d < CU_DEVICES && device[d].model ? &device[d] : NULL; }

CUdevice cu_device_ordinal(const struct cu_device *d) { return (CUdevice)(d - device); }

CUresult cu_from_dt(int r)
{
    switch (r) {
    case 0: return CUDA_SUCCESS;
    case DT_E_NOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
    case DT_E_PTX: return CUDA_ERROR_INVALID_PTX;
    case DT_E_UNSUPPORTED: return CUDA_ERROR_NOT_SUPPORTED;
    case DT_E_NOT_FOUND:
    case DT_E_NO_ENTRY: return CUDA_ERROR_NOT_FOUND;
    case DT_E_TOO_LARGE: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_UNKNOWN;
    }
}

CUresult cu_current(struct CUctx_st **ret)
{
    CU_TRY(cu_ready());
    CU_REQUIRE(depth && stack[depth - 1], CUDA_ERROR_INVALID_CONTEXT);
    CU_REQUIRE(cu_is(stack[depth - 1], CU_CTX), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CU_TRY(stack[depth - 1]->sticky);
    *ret = stack[depth - 1];
    return CUDA_SUCCESS;
}

static CUresult cu_context_new(struct cu_device *d, unsigned flags, bool primary, struct CUctx_st **ret)
{
    static uint64_t serial;
    struct CUctx_st *c = dt_calloc(1, sizeof *c);
    CU_REQUIRE(c, CUDA_ERROR_OUT_OF_MEMORY);
    c->id = ++serial;
    c->dev = d;
    c->flags = flags;
    c->primary = primary;
    c->seed = cu_environment_schedule();
    sg_checks_parse(cu_environment_checks(), &c->checks);
    c->limit[CU_LIMIT_STACK_SIZE] = 1024;
    c->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    c->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    CUresult r = CUDA_SUCCESS;
    if (!d->sg)
        r = cu_from_dt(sg_device_new(d->model, &d->sg));
    if (r == CUDA_SUCCESS && c->checks & SG_CHECK_UNINIT)
        sg_mem_track(d->sg, true);
    if (r == CUDA_SUCCESS)
        r = cu_stream_new(c, CU_STREAM_DEFAULT, 0, &c->null_stream);
    if (r == CUDA_SUCCESS && !(dt_push(&live, c) && cu_handle_add(c, CU_CTX)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    d->contexts++;
    if (r != CUDA_SUCCESS) {
        cu_context_free(c);
        return r;
    }
    *ret = c;
    return CUDA_SUCCESS;
}

/* Everything that belongs to it goes too; its device's memory with the last context. */
void cu_context_free(struct CUctx_st *c)
{
    for (size_t i = 0; i < live.n; i++)
        if (live.p[i] == c)
            live.p[i--] = live.p[--live.n];
    for (struct CUstream_st *s = c->streams, *next; s; s = next) {
        next = s->next;
        cu_stream_free(s);
    }
    for (size_t i = c->module.n; i-- > 0;)
        cu_module_free(c->module.p[i]);
    cu_log_done(c);
    while (c->events)
        cu_event_free(c->events);
    struct cu_device *d = c->dev;
    cu_objects_leave(c);
    cu_arrays_leave(c);
    cu_pool_leave(c);
    if (d->sg)
        sg_mem_free_owned(d->sg, c);
    for (size_t i = 0; i < c->range.n; i++)
        if (c->range.p[i].kind != CU_RANGE_ARENA && d->sg)
            sg_mem_unregister(d->sg, (void *)(uintptr_t)c->range.p[i].base);
    for (size_t i = 0; i < c->range.n; i++)
        if (c->range.p[i].kind == CU_RANGE_ARENA)
            munmap((void *)(uintptr_t)c->range.p[i].base, c->range.p[i].room);
        else
            free(c->range.p[i].host);
    cu_spare_drop(c);
    free(c->range.p);
    free((void *)c->some.block);
    free(c->module.p);
    cu_handle_free(c);
    if (!--d->contexts) {
        d->sg = sg_device_free(d->sg);
        cu_graph_memory_reset(d);
        cu_vmm_reset(d);
    }
}

/* ---- the current context ---- */
CUresult cuCtxSetCurrent(CUcontext c)
{
    CU_READY();
    CU_REQUIRE(!c || cu_is(c, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    if (!depth)
        depth = 1;
    stack[depth - 1] = c;
    if (!c)
        depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext c)
{
    CU_READY();
    CU_REQUIRE(c && cu_is(c, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_REQUIRE(depth < STACK, CUDA_ERROR_OUT_OF_MEMORY);
    stack[depth++] = c;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *ret)
{
    CU_READY();
    CU_REQUIRE(depth, CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (ret)
        *ret = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *ret, CUctxCreateParams *params, unsigned flags, CUdevice dev)
{
    CU_READY();
    struct cu_device *d = cu_device_at(dev);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(cu_flags_ok(flags), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!params || !params->numExecAffinityParams, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    CU_REQUIRE(!params || !params->cigParams, CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(depth < STACK, CUDA_ERROR_OUT_OF_MEMORY);
    CU_TRY(cu_context_new(d, flags, false, ret));
    stack[depth++] = *ret;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext c)
{
    CU_READY();
    CU_REQUIRE(c && cu_is(c, CU_CTX) && !c->primary, CUDA_ERROR_INVALID_CONTEXT);
    if (depth && stack[depth - 1] == c)
        depth--;
    cu_context_free(c);
    return CUDA_SUCCESS;
}

/* The usage count of before CUDA 4. */
CUresult cuCtxAttach(CUcontext *ret, unsigned flags)
{
    CU_READY();
    struct CUctx_st *c;
    CU_REQUIRE(ret && !flags, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_current(&c));
    CU_REQUIRE(!c->primary, CUDA_ERROR_INVALID_CONTEXT);
    c->attached++;
    *ret = c;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext c)
{
    CU_READY();
    CU_REQUIRE(cu_is(c, CU_CTX) && !c->primary && depth && stack[depth - 1] == c, CUDA_ERROR_INVALID_CONTEXT);
    if (!c->attached)
        return cuCtxDestroy(c);
    c->attached--;
    return CUDA_SUCCESS;
}

bool cu_flags_ok(unsigned flags)
{
    unsigned how = flags & CU_CTX_SCHED_MASK;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && !(how & (how - 1));
}

/* ---- primary contexts ---- */
CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice dev)
{
    CU_READY();
    struct cu_device *d = cu_device_at(dev);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE);
    if (!d->primary)
        CU_TRY(cu_context_new(d, d->primary_flags, true, &d->primary));
    d->primary_refs++;
    *ret = d->primary;
    return CUDA_SUCCESS;
}

static void drop_primary(struct cu_device *d)
{
    if (d->primary)
        cu_context_free(d->primary);
    d->primary = NULL;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    CU_READY();
    struct cu_device *d = cu_device_at(dev);
    CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(d->primary_refs, CUDA_ERROR_INVALID_CONTEXT);
    if (!--d->primary_refs)
        drop_primary(d);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    CU_READY();
    struct cu_device *d = cu_device_at(dev);
    CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE);
    drop_primary(d); /* what was retained stays to be released */
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags)
{
    CU_READY();
    struct cu_device *d = cu_device_at(dev);
    CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(cu_flags_ok(flags), CUDA_ERROR_INVALID_VALUE);
    d->primary_flags = flags;
    if (d->primary)
        d->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
    CU_READY();
    struct cu_device *d = cu_device_at(dev);
    CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(flags && active, CUDA_ERROR_INVALID_VALUE);
    *flags = d->primary_flags;
    *active = d->primary != NULL;
    return CUDA_SUCCESS;
}
