/* Opening a device, what it is, and what its errors mean.
 *
 * A real GPU and the software device share one code path. Whatever differs hangs on the extension entries, which only
 * the software device has. A device is used through its primary context. After a fault a CUDA context is dead (its
 * error is sticky), and dev_reset starts over. Errors of kernels are reported as DT_E_BOUNDS, DT_E_TRAP …; on the
 * software device with kernel, block, thread and PTX line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file.h"
#include "device/device-priv.h"

#define DEADLINE_MS 60000
#define SLOW 40000 /* thread-instructions a millisecond: fewer than the slowest checks run, on a machine of its own */
#define PRINTED_MOST (1u << 20) /* bytes of what a launch prints: the driver's default */

/* What an error means for a person, where its name does not say. */
static const char *hint(CUresult r)
{
    switch (r) {
    case CUDA_ERROR_STUB_LIBRARY: return "this libcuda.so.1 is the toolkit's stub, not a driver";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return "the GPU is in exclusive or prohibited mode, or another process has taken it";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "the driver's kernel module and its library differ: reboot or reinstall it";
    case CUDA_ERROR_SYSTEM_NOT_READY: return "the system is not ready, NVSwitch's fabric manager perhaps: try later";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: return "the CUDA compatibility package does not support this GPU";
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY: return "MPS is configured and its daemon does not answer";
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED: return "MPS has no room for another client";
    case CUDA_ERROR_NO_BINARY_FOR_GPU: return "the kernel is for another architecture";
    default: return NULL;
    }
}

int dev_use(struct dev_device *d, struct dt_err *e)
{
    if (d->hung)
        return dt_err_set(e, DT_E_TIMEOUT,
                          "a kernel on the device does not end: this process can do nothing with it any more");
    CUresult r = d->cu->cuCtxSetCurrent(d->ctx);
    return r == CUDA_SUCCESS ? 0 : dev_cu(d, r, "cuCtxSetCurrent", e);
}

static int device_code_of(CUresult r)
{
    switch (r) {
    case CUDA_ERROR_OUT_OF_MEMORY: return DT_E_NOMEM;
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_NO_BINARY_FOR_GPU: return DT_E_PTX;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE: return DT_E_BOUNDS;
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION: return DT_E_TRAP;
    case CUDA_ERROR_LAUNCH_TIMEOUT: return DT_E_TIMEOUT;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE: return DT_E_LAUNCH;
    case CUDA_ERROR_NOT_SUPPORTED: return DT_E_UNSUPPORTED;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
    case CUDA_ERROR_NOT_INITIALIZED: return DT_E_NO_DEVICE;
    default: return DT_E_DEVICE;
    }
}

static int cu_error(const struct dev_driver *cu, CUresult r, const char *what, struct dt_err *e)
{
    const char *name = NULL, *words = NULL;
    cu->cuGetErrorName(r, &name);
    cu->cuGetErrorString(r, &words);
    const char *more = hint(r);
    return dt_err_set(e, device_code_of(r), "%s: %s (%s)", what, name ? name : "unknown error",
                      more    ? more
                      : words ? words
                              : "no description");
}

int dev_cu(struct dev_device *d, CUresult r, const char *what, struct dt_err *e)
{
    struct dovetail_fault f;
    if (r == CUDA_SUCCESS)
        return 0;
    if (d->cu->soft && d->cu->dovetailGetFault(&f) == CUDA_SUCCESS && f.num)
        return dt_err_set(e, f.num, "%s", f.text);
    return cu_error(d->cu, r, what, e);
}

/* No attribute says it: A100, Hopper and Blackwell's B200 have two (white papers; softgpu/model/models.def has the
 * sources), others one. */
static unsigned l2_halves(unsigned major, unsigned minor)
{
    return (major == 8 && minor == 0) || major == 9 || major == 10 ? 2 : 1;
}

static int read_info(const struct dev_driver *cu, CUdevice dev, struct dev_info *ret, struct dt_err *e)
{
    struct dev_info i = {0};
    int major = 0, minor = 0;
    const char *model = NULL;
    CUresult r = cu->cuDeviceGetName(i.name, sizeof i.name, dev);
#define ATTR(to, name)                                                                                                 \
    if (r == CUDA_SUCCESS)                                                                                             \
    r = cu->cuDeviceGetAttribute((int *)&(to), CU_DEVICE_ATTRIBUTE_##name, dev)
    ATTR(major, COMPUTE_CAPABILITY_MAJOR);
    ATTR(minor, COMPUTE_CAPABILITY_MINOR);
    ATTR(i.sms, MULTIPROCESSOR_COUNT);
    ATTR(i.max_threads_sm, MAX_THREADS_PER_MULTIPROCESSOR);
    ATTR(i.max_blocks_sm, MAX_BLOCKS_PER_MULTIPROCESSOR);
    ATTR(i.regs_sm, MAX_REGISTERS_PER_MULTIPROCESSOR);
    ATTR(i.shared_sm, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    ATTR(i.shared_block, MAX_SHARED_MEMORY_PER_BLOCK);
    ATTR(i.shared_block_optin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    ATTR(i.shared_reserved, RESERVED_SHARED_MEMORY_PER_BLOCK);
    ATTR(i.l2_bytes, L2_CACHE_SIZE);
#undef ATTR
    if (r == CUDA_SUCCESS)
        r = cu->cuDriverGetVersion(&i.driver_version);
    if (r == CUDA_SUCCESS && cu->soft)
        r = cu->dovetailDeviceModel(&model, dev);
    if (r == CUDA_SUCCESS && cu->soft)
        r = cu->dovetailDeviceL2Halves(&i.l2_halves, dev);
    if (r != CUDA_SUCCESS)
        return cu_error(cu, r, "reading the device's attributes", e);
    /* A MIG slice has a name of its own ("NVIDIA H200 MIG 1g.18gb") and its own number of SMs; a slice may be an MPS
     * server's too. */
    int mps = 0;
    /* a driver that does not know it */
    if (cu->cuDeviceGetAttribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, dev) != CUDA_SUCCESS)
        mps = 0;
    snprintf(i.sharing, sizeof i.sharing, "%s", strstr(i.name, " MIG ") ? "mig" : mps > 0 ? "mps" : "");
    i.cc_major = (unsigned)major;
    i.cc_minor = (unsigned)minor;
    if (!cu->soft)
        i.l2_halves = l2_halves(i.cc_major, i.cc_minor);
    snprintf(i.arch, sizeof i.arch, "sm_%d%d", major, minor);
    i.soft = cu->soft;
    snprintf(i.model, sizeof i.model, "%s", model ? model : "");
    *ret = i;
    return 0;
}

static int find_real(unsigned ordinal, const struct dev_driver **ret_cu, CUdevice *ret, struct dt_err *e)
{
    int count = 0;
    int r = dev_driver_open(false, NULL, ret_cu, e);
    if (r < 0)
        return r;
    CUresult c = (*ret_cu)->cuDeviceGetCount(&count);
    if (c != CUDA_SUCCESS)
        return cu_error(*ret_cu, c, "cuDeviceGetCount", e);
    if (ordinal >= (unsigned)count)
        return dt_err_set(e, DT_E_NO_DEVICE, "there is no CUDA device %u: this machine has %d", ordinal, count);
    c = (*ret_cu)->cuDeviceGet(ret, (int)ordinal);
    return c == CUDA_SUCCESS ? 0 : cu_error(*ret_cu, c, "cuDeviceGet", e);
}

static int find_soft(const char *model, const char *figures, const struct dev_driver **ret_cu, CUdevice *ret,
                     struct dt_err *e)
{
    int r = dev_driver_open(true, figures, ret_cu, e);
    if (r < 0)
        return r;
    if ((*ret_cu)->dovetailDeviceByModel(ret, model) != CUDA_SUCCESS)
        return dt_err_set(e, DT_E_NO_DEVICE, "the software device has no model \"%.40s\"", model);
    return 0;
}

static int device_find(const char *spec, const char *figures, const struct dev_driver **ret_cu, CUdevice *ret,
                       struct dt_err *e)
{
    if (!spec || !*spec || !strcmp(spec, "auto"))
        return !find_real(0, ret_cu, ret, NULL) ? 0 : find_soft("h200", figures, ret_cu, ret, e);
    if (!strcmp(spec, "soft"))
        return find_soft("h200", figures, ret_cu, ret, e);
    if (!strncmp(spec, "soft:", 5) && spec[5])
        return find_soft(spec + 5, figures, ret_cu, ret, e);
    if (!strcmp(spec, "cuda"))
        return find_real(0, ret_cu, ret, e);
    if (!strncmp(spec, "cuda:", 5) && spec[5] && strlen(spec + 5) < 4 &&
        strspn(spec + 5, "0123456789") == strlen(spec + 5))
        return find_real((unsigned)strtoul(spec + 5, NULL, 10), ret_cu, ret, e);
    return dt_err_set(e, DT_E_NO_DEVICE, "\"%.40s\" is no device: auto, cuda, cuda:N, soft or soft:MODEL", spec);
}

/* Of the software device's launches. Those whose instructions are limited end by that, the same on every machine; the
 * default deadline must not be sooner, however slow the checks are. */
static unsigned soft_deadline(const struct dev_device *d)
{
    uint64_t ms = d->limit / SLOW;
    return d->deadline_given || ms <= d->deadline_ms ? d->deadline_ms : ms < UINT32_MAX ? (unsigned)ms : UINT32_MAX;
}

/* A fresh context gets this device's settings. */
static int settle(struct dev_device *d, struct dt_err *e)
{
    CUresult r = d->cu->cuDevicePrimaryCtxRetain(&d->ctx, d->dev);
    if (r != CUDA_SUCCESS) {
        d->ctx = NULL;
        return cu_error(d->cu, r, "cuDevicePrimaryCtxRetain", e);
    }
    int err = dev_use(d, e);
    CUexecAffinityParam part = {0};
    if (!err && d->cu->cuCtxGetExecAffinity &&
        d->cu->cuCtxGetExecAffinity(&part, CU_EXEC_AFFINITY_TYPE_SM_COUNT) == CUDA_SUCCESS &&
        /* an MPS client that gets a part of the GPU */
        part.param.smCount.val && part.param.smCount.val < d->info.sms) {
        d->info.sms = part.param.smCount.val;
        snprintf(d->info.sharing, sizeof d->info.sharing, "mps");
    }
    if (!err && d->cu->soft)
        err = dev_cu(d, d->cu->dovetailSetDeadline(soft_deadline(d)), "dovetailSetDeadline", e);
    if (!err && d->cu->soft)
        err = dev_cu(d, d->cu->dovetailSetLimit(d->limit), "dovetailSetLimit", e);
    if (!err && d->cu->soft)
        err = dev_cu(d, d->cu->dovetailSetFollow(!d->unfollowed), "dovetailSetFollow", e);
    if (!err && d->cu->soft)
        err = dev_cu(d, d->cu->dovetailSetSchedule(d->seed, d->race_check), "dovetailSetSchedule", e);
    if (!err && d->cu->soft)
        dev_set_print(d, d->prints);
    return err;
}

int dev_open(const char *spec, struct dev_device **ret, struct dt_err *e)
{
    return dev_open_figures(spec, NULL, ret, e);
}

int dev_open_figures(const char *spec, const char *figures, struct dev_device **ret, struct dt_err *e)
{
    struct dev_device *d = dt_calloc(1, sizeof *d);
    if (!d)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    const char *ms = getenv("DOVETAIL_KERNEL_TIMEOUT_MS");
    d->deadline_given = ms && *ms && strspn(ms, "0123456789") == strlen(ms);
    d->deadline_ms = d->deadline_given ? (unsigned)strtoul(ms, NULL, 10) : DEADLINE_MS;
    int r = device_find(spec, figures, &d->cu, &d->dev, e);
    if (!r)
        r = read_info(d->cu, d->dev, &d->info, e);
    if (!r && (d->info.cc_major * 10 + d->info.cc_minor) < 75)
        r = dt_err_set(e, DT_E_NO_DEVICE, "%s is %s: sm_75 or later is needed", d->info.name, d->info.arch);
    if (!r)
        r = settle(d, e);
    if (r < 0)
        dev_close(d);
    else
        *ret = d;
    return r;
}

struct dev_device *dev_close(struct dev_device *d)
{
    dev_compilers_rest();
    if (d && d->ctx && !d->hung) { /* else releasing would wait for ever */
        d->cu->cuCtxSetCurrent(NULL);
        d->cu->cuDevicePrimaryCtxRelease(d->dev);
    }
    free(d);
    return NULL;
}

bool dev_hung(const struct dev_device *d) { return d && d->hung; }

const struct dev_info *dev_info(const struct dev_device *d) { return &d->info; }

int dev_reset(struct dev_device *d, struct dt_err *e)
{
    d->generation++;
    if (d->hung)
        return dev_use(d, e);
    CUresult r = d->cu->cuDevicePrimaryCtxReset(d->dev);
    if (r != CUDA_SUCCESS)
        return cu_error(d->cu, r, "cuDevicePrimaryCtxReset", e);
    d->cu->cuDevicePrimaryCtxRelease(d->dev); /* what settle() retains again */
    return settle(d, e);
}

void dev_set_print(struct dev_device *d, bool on)
{
    d->prints = on;
    if (d->cu->soft && !dev_use(d, NULL))
        d->cu->cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, on ? PRINTED_MOST : 0);
}

void dev_set_deadline(struct dev_device *d, unsigned ms)
{
    d->deadline_ms = ms;
    d->deadline_given = true;
    if (d->cu->soft && !dev_use(d, NULL))
        d->cu->dovetailSetDeadline(soft_deadline(d));
}

void dev_set_limit(struct dev_device *d, uint64_t instructions)
{
    d->limit = instructions;
    if (d->cu->soft && !dev_use(d, NULL)) {
        d->cu->dovetailSetLimit(instructions);
        d->cu->dovetailSetDeadline(soft_deadline(d));
    }
}

void dev_set_follow(struct dev_device *d, bool on)
{
    d->unfollowed = !on;
    if (d->cu->soft && !dev_use(d, NULL))
        d->cu->dovetailSetFollow(on);
}

void dev_set_schedule(struct dev_device *d, uint64_t seed, bool race_check)
{
    d->seed = seed;
    d->race_check = race_check;
    if (d->cu->soft && !dev_use(d, NULL))
        d->cu->dovetailSetSchedule(seed, race_check);
}

int dev_set_checks(struct dev_device *d, const char *modes, struct dt_err *e)
{
    int r = dev_use(d, e);
    if (r < 0 || (!d->cu->soft && !modes))
        return r;
    if (!d->cu->soft)
        return dt_err_set(e, DT_E_UNSUPPORTED, "the checking modes need the software device");
    CUresult c = d->cu->dovetailSetChecks(modes);
    if (c == CUDA_ERROR_INVALID_VALUE)
        return dt_err_set(e, DT_E_USAGE, "the checking modes are race, uninit, barrier, all and none; not \"%.60s\"",
                          modes ? modes : "");
    return dev_cu(d, c, "dovetailSetChecks", e);
}

static struct dev_finding finding(const struct dovetail_fault *f)
{
    struct dev_finding x = {.is = f->num != 0,
                            .line = f->line,
                            .bytes = f->bytes,
                            .address = f->address,
                            .has_other = f->has_other,
                            .other_line = f->other_line};
    memcpy(x.block, f->block, sizeof x.block);
    memcpy(x.thread, f->thread, sizeof x.thread);
    memcpy(x.other_block, f->other_block, sizeof x.other_block);
    memcpy(x.other_thread, f->other_thread, sizeof x.other_thread);
    snprintf(x.place, sizeof x.place, "%s", f->place);
    return x;
}

int dev_findings(struct dev_device *d, struct dev_finding *ret_race, struct dev_finding *ret_uninit, struct dt_err *e)
{
    struct dovetail_fault f[3];
    if (!d->cu->soft)
        return dt_err_set(e, DT_E_UNSUPPORTED, "the checking modes need the software device");
    int r = dev_use(d, e);
    if (r < 0 || (r = dev_cu(d, d->cu->dovetailGetFindings(f), "dovetailGetFindings", e)) < 0)
        return r;
    *ret_race = finding(&f[0]);
    *ret_uninit = finding(&f[1]);
    return 0;
}

bool dev_records(const struct dev_device *d) { return d->cu->soft; }

int dev_record(struct dev_device *d, struct dovetail_recorder *rec, struct dt_err *e)
{
    if (!d->cu->soft)
        return rec ? dt_err_set(e, DT_E_UNSUPPORTED, "recording launches needs the software device") : 0;
    int r = dev_use(d, e);
    if (rec)
        return r < 0 ? r : dev_cu(d, d->cu->dovetailRecord(rec), "dovetailRecord", e);
    if (!r)
        d->cu->dovetailRecord(NULL); /* a context that has faulted refuses this, and every launch too */
    return 0;
}

int dev_count_lines(struct dev_device *d, struct dovetail_line *line, uint32_t n, struct dt_err *e)
{
    if (!d->cu->soft)
        return line ? dt_err_set(e, DT_E_UNSUPPORTED, "counting lines of PTX needs the software device") : 0;
    int r = dev_use(d, e);
    if (line)
        return r < 0 ? r : dev_cu(d, d->cu->dovetailCountLines(line, n), "dovetailCountLines", e);
    if (!r)
        d->cu->dovetailCountLines(NULL, 0);
    return 0;
}

int dev_wait_event(struct dev_device *d, CUevent ev, struct dt_err *e)
{
    uint64_t start = dt_now_us();
    long nap = 1000;
    CUresult r;
    while ((r = d->cu->cuEventQuery(ev)) == CUDA_ERROR_NOT_READY) {
        if (d->deadline_ms && dt_now_us() - start > (uint64_t)d->deadline_ms * 1000) {
            d->hung = true;
            return dt_err_set(e, DT_E_TIMEOUT, "the device did not finish in %u ms", d->deadline_ms);
        }
        nanosleep(&(struct timespec){0, nap}, NULL);
        nap = nap < 1000000 ? nap * 2 : nap;
    }
    return dev_cu(d, r, "waiting for the device", e);
}

int dev_sync(struct dev_device *d, struct dt_err *e)
{
    CUevent ev = NULL;
    int r = dev_use(d, e);
    if (r < 0)
        return r;
    if (d->cu->soft || !d->deadline_ms)
        return dev_cu(d, d->cu->cuCtxSynchronize(), "cuCtxSynchronize", e);
    r = dev_cu(d, d->cu->cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING), "cuEventCreate", e);
    if (!r)
        r = dev_cu(d, d->cu->cuEventRecord(ev, NULL), "cuEventRecord", e);
    if (!r)
        r = dev_wait_event(d, ev, e);
    if (!r)
        r = dev_cu(d, d->cu->cuCtxSynchronize(), "cuCtxSynchronize", e);
    if (ev)
        d->cu->cuEventDestroy(ev);
    return r;
}

int dev_list(void (*fn)(const char *spec, const struct dev_info *i, void *user), void *user, struct dt_err *e)
{
    const struct dev_driver *cu;
    struct dev_info i;
    char spec[48];
    int count = 0;
    if (!dev_driver_open(false, NULL, &cu, NULL) && !cu->soft && cu->cuDeviceGetCount(&count) == CUDA_SUCCESS)
        for (int k = 0; k < count; k++) {
            CUdevice dev;
            snprintf(spec, sizeof spec, "cuda:%d", k);
            if (cu->cuDeviceGet(&dev, k) == CUDA_SUCCESS && !read_info(cu, dev, &i, NULL))
                fn(spec, &i, user);
        }
    int r = dev_driver_open(true, NULL, &cu, e);
    if (r < 0)
        return count ? 0 : r;
    const char *model;
    for (CUdevice dev = 1; cu->dovetailDeviceModel(&model, dev) == CUDA_SUCCESS; dev++) /* 0 is one of them again */
        if (!read_info(cu, dev, &i, NULL)) {
            snprintf(spec, sizeof spec, "soft:%s", model);
            fn(spec, &i, user);
        }
    return 0;
}

void dev_driver_build(const struct dev_device *d, char *out, size_t n)
{
    dev_library_build((const void *)d->cu->cuInit, out, n);
}
