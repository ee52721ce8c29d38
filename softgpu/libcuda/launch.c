/* Launches: what they may ask for, the parameter block, the deadline, and what a fault becomes.
 *
 * A launch runs inside the call. A fault does not fail the call: as on hardware it shows at the next call that waits,
 * and then always (c->sticky). Codes: out of bounds 700, misaligned 716, assert 710, trap and race 719, deadlock and
 * deadline 702; the whole story is in dovetailGetFault. The deadline is a watchdog thread that sets the executor's
 * cancel flag. On a busy machine it waits until this process has had as much CPU time, too, but no longer than PATIENCE
 * times the deadline.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "softgpu/libcuda/cu-priv.h"

void cu_launch_done(struct cu_launch *l)
{
    free(l->params);
    l->params = NULL;
}

bool cu_launch_stale(const struct cu_launch *l) { return !cu_is(l->f, CU_FUNC) || l->f->serial != l->serial; }

CUresult cu_launch_attribute(struct cu_launch *l, const CUlaunchAttribute *a)
{
    switch (a->id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
        uint32_t size[3] = {a->value.clusterDim.x, a->value.clusterDim.y, a->value.clusterDim.z};
        CU_REQUIRE(size[0] && size[1] && size[2], CUDA_ERROR_INVALID_CLUSTER_SIZE);
        CU_TRY(cu_cluster_check(l->f, l->grid, size));
        memcpy(l->cluster, size, sizeof size);
        return CUDA_SUCCESS;
    }
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: l->cooperative = a->value.cooperative != 0; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        l->programmatic = a->value.programmaticStreamSerializationAllowed != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: l->priority = a->value.priority; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: l->window = a->value.accessPolicyWindow; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        CU_REQUIRE(a->value.sharedMemCarveout <= 100, CUDA_ERROR_INVALID_VALUE);
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_IGNORE: /* these change no result */
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cu_launch_get_attribute(const struct cu_launch *l, CUlaunchAttributeID id, CUlaunchAttributeValue *ret)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        ret->clusterDim.x = l->cluster[0];
        ret->clusterDim.y = l->cluster[1];
        ret->clusterDim.z = l->cluster[2];
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: ret->cooperative = l->cooperative; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: ret->priority = l->priority; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: ret->accessPolicyWindow = l->window; return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult launch_check(const struct CUctx_st *c, const struct cu_launch *l)
{
    const struct sg_model *m = c->dev->model;
    const struct sg_kernel_info *k = l->f->info;
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    for (int i = 0; i < 3; i++)
        CU_REQUIRE(l->grid[i] && l->block[i], CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(l->grid[0] <= INT32_MAX && l->grid[1] <= 65535 && l->grid[2] <= 65535, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(l->block[0] <= 1024 && l->block[1] <= 1024 && l->block[2] <= 64 && threads <= 1024,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE((uint64_t)l->grid[0] * l->grid[1] * l->grid[2] <= UINT32_MAX, CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(threads <= k->max_threads, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(l->shared <= (unsigned)l->f->max_dynamic, CUDA_ERROR_INVALID_VALUE);
    uint64_t resident =
        sg_occupancy(m, (uint32_t)threads, cu_registers(l->f, threads), l->shared + k->shared_static).blocks_per_sm;
    CU_REQUIRE(resident, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    if (l->cooperative) { /* all blocks must be there at once */
        uint64_t most = resident * m->sms;
        CU_REQUIRE((uint64_t)l->grid[0] * l->grid[1] * l->grid[2] <= most, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    return CUDA_SUCCESS;
}

static CUresult copy_params(const struct sg_kernel_info *k, void **params, void **extra, uint8_t **ret)
{
    uint8_t *p = dt_calloc(k->param_total + 1, 1);
    CUresult r = CUDA_SUCCESS;
    CU_REQUIRE(p, CUDA_ERROR_OUT_OF_MEMORY);
    if (params && extra) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else if (params) {
        for (unsigned i = 0; i < k->nparam && r == CUDA_SUCCESS; i++)
            if (params[i])
                memcpy(p + k->param_offset[i], params[i], k->param_bytes[i]);
            else
                r = CUDA_ERROR_INVALID_VALUE;
    } else if (extra) {
        const void *buf = NULL;
        size_t n = 0;
        void **x = extra;
        for (; *x == CU_LAUNCH_PARAM_BUFFER_POINTER || (*x == CU_LAUNCH_PARAM_BUFFER_SIZE && x[1]); x += 2)
            if (*x == CU_LAUNCH_PARAM_BUFFER_POINTER)
                buf = x[1];
            else
                n = *(const size_t *)x[1];
        if (*x != CU_LAUNCH_PARAM_END || (k->nparam && !buf) || n < k->param_total)
            r = CUDA_ERROR_INVALID_VALUE;
        else if (buf)
            memcpy(p, buf, k->param_total);
    } else if (k->nparam) {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r != CUDA_SUCCESS)
        free(p);
    else
        *ret = p;
    return r;
}

CUresult cu_launch_make(struct CUctx_st *c, CUfunction f, const CUlaunchConfig *cfg, void **params, void **extra,
                        struct cu_launch *ret)
{
    struct cu_launch l = {.handle = f,
                          .grid = {cfg->gridDimX, cfg->gridDimY, cfg->gridDimZ},
                          .block = {cfg->blockDimX, cfg->blockDimY, cfg->blockDimZ},
                          .shared = cfg->sharedMemBytes};
    CU_TRY(cu_function(c, f, &l.f));
    l.serial = l.f->serial;
    l.param_total = l.f->info->param_total;
    CU_REQUIRE(!cfg->numAttrs || cfg->attrs, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < cfg->numAttrs; i++)
        CU_TRY(cu_launch_attribute(&l, &cfg->attrs[i]));
    CU_TRY(launch_check(c, &l));
    CU_TRY(cu_cluster_check(l.f, l.grid, l.cluster));
    CU_TRY(copy_params(l.f->info, params, extra, &l.params));
    *ret = l;
    return CUDA_SUCCESS;
}

/* ---- the watchdog: one thread a launch that has a deadline ---- */
#define PATIENCE 10 /* times the deadline that the clock may take, if the process got no CPU time */

struct watch {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    volatile int cancel;
    struct timespec until;
    uint64_t began_ms, ran_ms, ms; /* the clock and the process's CPU time at its start; the deadline */
};

static uint64_t watch_clock(clockid_t id)
{
    struct timespec t = {0};
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void watch_for(struct watch *w, uint64_t ms)
{
    clock_gettime(CLOCK_MONOTONIC, &w->until);
    w->until.tv_sec += (time_t)(ms / 1000);
    w->until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (w->until.tv_nsec >= 1000000000)
        w->until.tv_sec++, w->until.tv_nsec -= 1000000000;
}

/* Is there more to wait? Then w->until is when to look again. */
static bool watch_more(struct watch *w)
{
    uint64_t ran = watch_clock(CLOCK_PROCESS_CPUTIME_ID) - w->ran_ms;
    if (ran >= w->ms || watch_clock(CLOCK_MONOTONIC) - w->began_ms >= PATIENCE * w->ms)
        return false;
    watch_for(w, w->ms - ran);
    return true;
}

static void *watch(void *arg)
{
    struct watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->done && (pthread_cond_timedwait(&w->cond, &w->lock, &w->until) != ETIMEDOUT || watch_more(w)))
        ;
    if (!w->done)
        w->cancel = 1;
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static bool watch_start(struct watch *w, unsigned ms, pthread_t *ret)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->cond, &a);
    pthread_condattr_destroy(&a);
    w->ms = ms;
    w->began_ms = watch_clock(CLOCK_MONOTONIC);
    w->ran_ms = watch_clock(CLOCK_PROCESS_CPUTIME_ID);
    watch_for(w, ms);
    return pthread_create(ret, NULL, watch, w) == 0;
}

static void watch_stop(struct watch *w, pthread_t t)
{
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
    pthread_join(t, NULL);
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->lock);
}

static CUresult launch_code_of(const struct sg_fault *f)
{
    if (f->kind && !strcmp(f->kind, "stack"))
        return CUDA_ERROR_HARDWARE_STACK_ERROR;
    if (f->kind)
        return CUDA_ERROR_LAUNCH_FAILED;
    switch (f->num) {
    case DT_E_BOUNDS: return f->misaligned ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    case DT_E_TRAP: return f->asserted ? CUDA_ERROR_ASSERT : CUDA_ERROR_LAUNCH_FAILED;
    case DT_E_DEADLOCK:
    case DT_E_TIMEOUT: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case DT_E_UNSUPPORTED: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case DT_E_NOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_LAUNCH_FAILED;
    }
}

static void put_text(FILE *f, const char *name, const char *s)
{
    fprintf(f, ",\"%s\":\"", name);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 32)
            fprintf(f, "\\u%04x", *s);
        else
            fputc(*s, f);
    fputc('"', f);
}

/* What a fault is called on stderr. */
static const char *launch_kind_of(const struct dovetail_fault *f)
{
    if (f->kind[0])
        return f->kind;
    switch (f->num) {
    case DT_E_BOUNDS: return f->misaligned ? "misaligned" : "bounds";
    case DT_E_DEADLOCK: return "barrier";
    default: return dt_err_code(f->num);
    }
}

/* A fault for people on stderr, where DOVETAIL_CHECK asked for checks, with the lines of the source that the PTX names
 * (-lineinfo); and as a line of JSON at the end of DOVETAIL_CHECK_LOG. */
static void launch_report(const struct dovetail_fault *f, const struct sg_module *m)
{
    char at[2048] = "", other[2048] = "";
    const char *path = cu_environment_check_log(), *asked = cu_environment_checks();
    FILE *log = *path ? fopen(path, "ae") : NULL;
    sg_module_source(m, f->line, at, sizeof at);
    if (f->has_other)
        sg_module_source(m, f->other_line, other, sizeof other);
    if (*asked && strcmp(asked, "none")) {
        fprintf(stderr, "dovetail: %s: %s\n", launch_kind_of(f), f->text);
        if (*at)
            fprintf(stderr, "dovetail:     at %s%s%s\n", at, *other ? "; the earlier access at " : "", other);
    }
    if (!log)
        return;
    fprintf(log, "{\"kind\":\"%s\",\"code\":\"%s\"", f->kind, dt_err_code(f->num));
    put_text(log, "kernel", f->kernel);
    fprintf(log, ",\"block\":[%u,%u,%u],\"thread\":[%u,%u,%u],\"line\":%u,\"bytes\":%u", f->block[0], f->block[1],
            f->block[2], f->thread[0], f->thread[1], f->thread[2], f->line, f->bytes);
    if (*at)
        put_text(log, "source", at);
    put_text(log, "place", f->place);
    if (f->has_other) {
        fprintf(log, ",\"other\":{\"block\":[%u,%u,%u],\"thread\":[%u,%u,%u],\"line\":%u", f->other_block[0],
                f->other_block[1], f->other_block[2], f->other_thread[0], f->other_thread[1], f->other_thread[2],
                f->other_line);
        if (*other)
            put_text(log, "source", other);
        fputc('}', log);
    }
    put_text(log, "text", f->text);
    fputs("}\n", log);
    fclose(log);
}

static void launch_told(const struct sg_fault *f, struct dovetail_fault *ret)
{
    *ret = (struct dovetail_fault){.num = f->num, .line = f->line, .bytes = f->bytes, .address = f->address};
    snprintf(ret->kernel, sizeof ret->kernel, "%s", f->kernel ? f->kernel : "");
    memcpy(ret->block, f->block, sizeof f->block);
    memcpy(ret->thread, f->thread, sizeof f->thread);
    sg_fault_text(f, ret->text, sizeof ret->text);
    ret->where = sg_fault_where(f, sizeof ret->text);
    ret->misaligned = f->misaligned;
    snprintf(ret->kind, sizeof ret->kind, "%s", f->kind ? f->kind : "");
    snprintf(ret->place, sizeof ret->place, "%s", f->place);
    ret->has_other = f->has_other;
    memcpy(ret->other_block, f->other_block, sizeof f->other_block);
    memcpy(ret->other_thread, f->other_thread, sizeof f->other_thread);
    ret->other_line = f->other_line;
}

static void stick(struct CUctx_st *c, const struct sg_fault *f, const struct sg_module *m)
{
    c->sticky = launch_code_of(f);
    launch_told(f, &c->fault);
    launch_report(&c->fault, m);
}

/* Findings that did not end the launch. */
static void launch_found(struct CUctx_st *c, const struct sg_fault *f, const struct sg_module *m)
{
    memset(c->found, 0, sizeof c->found);
    for (int k = 0; c->checks & SG_CHECK_TELL && k < SG_FOUND; k++)
        if (f[k].num) {
            launch_told(&f[k], &c->found[k]);
            launch_report(&c->found[k], m);
        }
}

/* What a kernel printed, on stdout: no later than the synchronisation that CUDA promises. Takes the text over. */
static void launch_print(struct dt_str *s, size_t most)
{
    size_t n = s->failed ? 0 : s->len < most ? s->len : most;
    if (n) {
        fwrite(s->s + s->len - n, 1, n, stdout);
        fflush(stdout);
    }
    dt_str_done(s);
}

CUresult cu_launch_run(struct CUctx_st *c, const struct cu_launch *l, struct sg_stats *stats)
{
    struct watch w = {0};
    pthread_t thread;
    struct sg_fault fault = {0}, findings[SG_FOUND] = {0};
    struct sg_launch x = {.kernel = l->f->kernel,
                          .shared_dynamic = l->shared,
                          .params = l->params,
                          .seed = c->seed,
                          .stack_bytes = c->limit[CU_LIMIT_STACK_SIZE] < SG_STACK_MAX
                                             ? (uint32_t)c->limit[CU_LIMIT_STACK_SIZE]
                                             : SG_STACK_MAX,
                          .heap_bytes = c->limit[CU_LIMIT_MALLOC_HEAP_SIZE],
                          .checks = c->checks | (c->race_check ? SG_CHECK_BLOCKS : 0u),
                          .max_instructions = c->max_instructions,
                          .cancel = &w.cancel,
                          .beside = l->beside,
                          .together = l->cooperative,
                          .unfollowed = c->unfollowed,
                          .record = c->record,
                          .line = c->line,
                          .nline = c->nline};
    struct dt_str printed = {0};
    x.print = &printed;
    x.print_bytes = c->limit[CU_LIMIT_PRINTF_FIFO_SIZE];
    x.found = c->checks & SG_CHECK_TELL ? findings : NULL;
    x.some = c->some;
    memset(&c->some, 0, sizeof c->some);
    memcpy(x.grid, l->grid, sizeof x.grid);
    memcpy(x.block, l->block, sizeof x.block);
    memcpy(x.cluster, l->cluster, sizeof x.cluster);
    bool watched = c->deadline_ms && watch_start(&w, c->deadline_ms, &thread);
    if (c->deadline_ms && !watched)
        free((void *)x.some.block);
    CU_REQUIRE(!c->deadline_ms || watched, CUDA_ERROR_OPERATING_SYSTEM);
    memset(stats, 0, sizeof *stats);
    int r = sg_execute(c->dev->sg, &x, stats, &fault);
    free((void *)x.some.block);
    if (watched)
        watch_stop(&w, thread);
    c->last = *stats;
    launch_print(&printed, x.print_bytes);
    launch_found(c, findings, l->f->mod->sg);
    if (r < 0 && !(l->beside && l->beside->stopped)) { /* else another one failed */
        if (!fault.num)                                /* it could not start */
            fault.num = r, fault.kernel = l->f->info->name;
        stick(c, &fault, l->f->mod->sg);
    }
    return CUDA_SUCCESS;
}

struct sg_work cu_launch_work(const struct cu_launch *l, const struct sg_stats *stats)
{
    return (struct sg_work){.kind = SG_WORK_KERNEL,
                            .blocks = l->grid[0] * l->grid[1] * l->grid[2],
                            .threads = l->block[0] * l->block[1] * l->block[2],
                            .registers = cu_registers(l->f, (uint64_t)l->block[0] * l->block[1] * l->block[2]),
                            .shared_bytes = l->shared + l->f->info->shared_static,
                            .cluster = l->cluster[0] * l->cluster[1] * l->cluster[2],
                            .stats = *stats};
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *cfg, CUfunction f, void **params, void **extra)
{
    CU_CONTEXT(c);
    struct cu_launch l;
    struct sg_stats stats;
    CU_REQUIRE(cfg, CUDA_ERROR_INVALID_VALUE);
    struct CUstream_st *s = cu_stream(c, cfg->hStream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_launch_make(c, f, cfg, params, extra, &l));
    CUresult r = cu_capture_legacy(c, s);
    if (r == CUDA_SUCCESS)
        r = s->capture ? cu_capture_launch(s, &l) : cu_launch_run(c, &l, &stats);
    if (r == CUDA_SUCCESS && !s->capture) {
        c->last_work = cu_launch_work(&l, &stats);
        r = cu_log_kernel(s, c->last_work, l.programmatic);
    }
    cu_launch_done(&l);
    return r;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **params, void **extra)
{
    CUlaunchConfig cfg = {.gridDimX = gx,
                          .gridDimY = gy,
                          .gridDimZ = gz,
                          .blockDimX = bx,
                          .blockDimY = by,
                          .blockDimZ = bz,
                          .sharedMemBytes = shared,
                          .hStream = stream};
    return cuLaunchKernelEx(&cfg, f, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void **params)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig cfg = {.gridDimX = gx,
                          .gridDimY = gy,
                          .gridDimZ = gz,
                          .blockDimX = bx,
                          .blockDimY = by,
                          .blockDimZ = bz,
                          .sharedMemBytes = shared,
                          .hStream = stream,
                          .attrs = &a,
                          .numAttrs = 1};
    return cuLaunchKernelEx(&cfg, f, params, NULL);
}
