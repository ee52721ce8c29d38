/* The state of the GPU while it is measured: clocks, what slows it down, who else uses it. By NVML, opened with dlopen.
 * Without NVML the state is not known, and a measurement is judged by its own spread alone.
 *
 * nvml.h is no part of the CUDA wheels, so the few entries are declared here, as NVIDIA's NVML API reference has them;
 * their binary interface is versioned (_v2, _v3) and stable. The GPU is found by its PCI bus id, since NVML ignores
 * CUDA_VISIBLE_DEVICES and numbers GPUs in its own order.
 *
 * These disturb a measurement: slowdown by hardware, heat or power brake; the software's power cap if it moved the SM
 * clock; a clock that moved by over 5 %; another process with a context. In a container the process ids are those of
 * the host, so ours cannot be recognised: one process is taken to be us, and a second one to be the MPS server where
 * the device is shared by MPS. On a MIG slice only that slice's processes count, found by the UUID that CUDA gives it;
 * other slices share power and clocks, which are watched.
 *
 * A GPU is idle when no other process has a context on it, its utilisation is next to nothing, and nobody holds its
 * counters, as DCGM does while it profiles (dev_idle). The last is found by counting over nothing, which CUPTI refuses
 * as busy; where it refuses for another reason, such as privileges, or because this process has opened the software
 * device, that says nothing. Not tried beside a real DCGM.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/device-priv.h"
#include "device/measure.h"
#include "device/profile.h"

typedef struct nvmlDevice_st *nvmlDevice_t;
struct nvml_process { /* nvmlProcessInfo_t of _v2 and _v3 */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};
enum { SM_CLOCK = 1, MEM_CLOCK = 2 };
/* nvmlClocksEventReason… */
enum { SW_POWER_CAP = 0x4, HW_SLOWDOWN = 0x8, SW_THERMAL = 0x20, HW_THERMAL = 0x40, HW_POWER_BRAKE = 0x80 };
enum { INSUFFICIENT_SIZE = 7 };
struct nvml_utilization {
    unsigned gpu, memory; /* percent of the last sampling period */
};
#define IDLE_PERCENT 5
#define IDLE_LOOKS 20 /* what this process did itself shows for a second */
#define IDLE_LOOK_US 100000
#define MOVED 0.05

/* ENTRY(member, symbol, parameters): all return 0 for success */
#define ENTRIES(ENTRY)                                                                                                 \
    ENTRY(init, nvmlInit_v2, (void))                                                                                   \
    ENTRY(by_uuid, nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *))                                          \
    ENTRY(by_bus, nvmlDeviceGetHandleByPciBusId_v2, (const char *, nvmlDevice_t *))                                    \
    ENTRY(clock, nvmlDeviceGetClockInfo, (nvmlDevice_t, int, unsigned *))                                              \
    ENTRY(max_clock, nvmlDeviceGetMaxClockInfo, (nvmlDevice_t, int, unsigned *))                                       \
    ENTRY(temperature, nvmlDeviceGetTemperature, (nvmlDevice_t, int, unsigned *))                                      \
    ENTRY(power, nvmlDeviceGetPowerUsage, (nvmlDevice_t, unsigned *))                                                  \
    ENTRY(reasons, nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t, unsigned long long *))                       \
    ENTRY(old_reasons, nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t, unsigned long long *))                \
    ENTRY(processes, nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned *, struct nvml_process *))       \
    ENTRY(utilization, nvmlDeviceGetUtilizationRates, (nvmlDevice_t, struct nvml_utilization *))                       \
    ENTRY(mig, nvmlDeviceGetMigMode, (nvmlDevice_t, unsigned *, unsigned *))

static struct {
    pthread_once_t once;
    bool there;
#define ENTRY(member, symbol, params) int(*member) params;
    ENTRIES(ENTRY)
#undef ENTRY
} nvml = {.once = PTHREAD_ONCE_INIT};

static void watch_load(void)
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return;
#define ENTRY(member, symbol, params) nvml.member = (int(*) params)dlsym(lib, #symbol);
    ENTRIES(ENTRY)
#undef ENTRY
    nvml.there = nvml.init && nvml.by_bus && !nvml.init();
}

/* The MIG slice itself: clocks are asked of the whole GPU, processes of the slice. */
static bool slice(struct dev_device *d, nvmlDevice_t *ret)
{
    CUuuid u;
    char text[64] = "MIG-";
    size_t n = 4;
    if (!nvml.by_uuid || !d->cu->cuDeviceGetUuid || d->cu->cuDeviceGetUuid(&u, d->dev) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                              (unsigned char)u.bytes[i]);
    return !nvml.by_uuid(text, ret);
}

/* The whole GPU. False: there is no NVML, or it does not know this one. */
static bool watch_device(struct dev_device *d, nvmlDevice_t *ret)
{
    char bus[32] = "";
    pthread_once(&nvml.once, watch_load);
    return !d->cu->soft && nvml.there && d->cu->cuDeviceGetPCIBusId &&
           d->cu->cuDeviceGetPCIBusId(bus, sizeof bus, d->dev) == CUDA_SUCCESS && !nvml.by_bus(bus, ret);
}

static int watch_nothing(void *user, struct dt_err *e) { return 0; }

/* Somebody else has the counters now. */
static bool watch_counted(struct dev_device *d)
{
    struct dev_counters c;
    struct dt_err e = {0};
    bool retry = false;
    int r = dev_count(d, watch_nothing, NULL, &c, &retry, &e);
    dt_err_done(&e);
    return r < 0 && retry;
}

bool dev_idle(struct dev_device *d, char *why, size_t n)
{
    struct dev_state s;
    nvmlDevice_t dev;
    struct nvml_utilization u = {0};
    dev_state(d, &s);
    if (s.others) {
        snprintf(why, n, "the GPU is in use: %u other process%s on it", s.others, s.others > 1 ? "es are" : " is");
        return false;
    }
    if (!d->cu->soft && watch_counted(d)) {
        snprintf(why, n, "the GPU is in use: another process, DCGM perhaps, has its counters");
        return false;
    }
    if (!watch_device(d, &dev) || !nvml.utilization)
        return true;
    for (int look = 0; look < IDLE_LOOKS; look++) {
        if (look)
            usleep(IDLE_LOOK_US);
        if (nvml.utilization(dev, &u) || u.gpu <= IDLE_PERCENT) /* MIG has none */
            return true;
    }
    snprintf(why, n, "the GPU is in use: its utilisation is %u %%", u.gpu);
    return false;
}

void dev_state(struct dev_device *d, struct dev_state *ret)
{
    struct dev_state s = {0};
    nvmlDevice_t dev;
    unsigned long long reasons = 0;
    unsigned pending = 0, now = 0;
    *ret = s;
    if (!watch_device(d, &dev))
        return;
    s.known = nvml.clock && !nvml.clock(dev, SM_CLOCK, &s.sm_mhz);
    if (nvml.clock)
        nvml.clock(dev, MEM_CLOCK, &s.mem_mhz);
    if (nvml.max_clock)
        nvml.max_clock(dev, SM_CLOCK, &s.max_sm_mhz);
    if (nvml.temperature)
        nvml.temperature(dev, 0, &s.celsius);
    if (nvml.power)
        nvml.power(dev, &s.milliwatts);
    if ((nvml.reasons && !nvml.reasons(dev, &reasons)) || (nvml.old_reasons && !nvml.old_reasons(dev, &reasons)))
        s.reasons = reasons;
    if (nvml.mig && !nvml.mig(dev, &now, &pending))
        s.mig = now == 1;
    enum { MOST = 64 };
    struct nvml_process p[MOST];
    unsigned n = MOST, ours = !strcmp(d->info.sharing, "mps") ? 2 : 1;
    if (!strcmp(d->info.sharing, "mig"))
        slice(d, &dev);
    int r = nvml.processes ? nvml.processes(dev, &n, p) : -1;
    if (!r || r == INSUFFICIENT_SIZE) /* n is their number either way */
        s.others = n > ours ? n - ours : 0;
    *ret = s;
}

const char *dev_disturbed(const struct dev_state *a, const struct dev_state *b, char *text, size_t n)
{
    uint64_t reasons = a->reasons | b->reasons;
    const char *why = reasons & (HW_SLOWDOWN | HW_THERMAL | HW_POWER_BRAKE) ? "the hardware slowed the chip down"
                      : reasons & SW_THERMAL ? "the driver slowed the chip down for its temperature"
                                             : NULL;
    if (!a->known || !b->known)
        return NULL;
    double lo = a->sm_mhz < b->sm_mhz ? a->sm_mhz : b->sm_mhz, hi = a->sm_mhz > b->sm_mhz ? a->sm_mhz : b->sm_mhz;
    if (why)
        snprintf(text, n, "%s (clock event reasons 0x%llx)", why, (unsigned long long)reasons);
    else if (hi > 0 && hi - lo > MOVED * hi)
        snprintf(text, n, "the SM clock went from %u to %u MHz%s", a->sm_mhz, b->sm_mhz,
                 reasons & SW_POWER_CAP ? " (power cap)" : "");
    else if (a->others || b->others)
        snprintf(text, n, "%u other process%s on this GPU", a->others > b->others ? a->others : b->others,
                 (a->others | b->others) > 1 ? "es are" : " is");
    else
        return NULL;
    return text;
}
