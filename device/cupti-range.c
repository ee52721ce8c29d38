/* Hardware counters of one range, by CUPTI's range profiler: what was moved and how busy the SMs were.
 *
 * Two parts work together:
 *
 *   host     needs no GPU: chip name, host object, metrics added, config image, number of passes
 *   target   a range profiler object on the context, counter data image, SetConfig; then {Start, PushRange, launch,
 *            PopRange, Stop} until all passes are in (the six metrics need one on the chips named in profile.h); then
 *            DecodeData, and evaluation by the host object
 *
 * Ranges are user ranges with user replay. CUPTI then saves and restores nothing and serialises nothing, so kernels
 * that wait for each other are safe. If more than one pass is needed, what is launched must be fit to run again.
 *
 * Most machines give counters to privileged users only. Any refusal is DT_E_PROFILER with the reason: the caller goes
 * on with times alone.
 *
 * <cupti_profiler_host.h> includes <string> without need, and C has no such header: the build puts an empty file of
 * that name on this folder's path.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cupti-priv.h"
#include "device/profile.h"

#define MAX_PASSES 8

const char *const dev_counter_name[DEV_COUNTERS] = {
    "gpu__time_duration.sum", "sm__cycles_active.avg", "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram__bytes_read.sum",   "dram__bytes_write.sum", "lts__t_sectors_lookup_miss.sum"};

struct range {
    const struct dev_cupti *c;
    CUpti_Profiler_Host_Object *host;
    CUpti_RangeProfiler_Object *profiler;
    uint8_t *config, *data;
    size_t nconfig, ndata, passes;
    bool initialized;
};

#define PARAMS(type, ...)                                                                                              \
    (type) { .structSize = type##_STRUCT_SIZE, __VA_ARGS__ }
/* CALL(function's name without cupti, its parameters): into err */
#define CALL(name, p) err = dev_cupti_error(c, c->cupti##name(p), "cupti" #name, ret_retry, e)

static int host_part(struct range *r, const char *chip, const uint8_t *available, const char *const *metric, size_t n,
                     bool *ret_retry, struct dt_err *e)
{
    const struct dev_cupti *c = r->c;
    const char **names = (const char **)(uintptr_t)metric;
    int err;
    CUpti_Profiler_Host_Initialize_Params init =
        PARAMS(CUpti_Profiler_Host_Initialize_Params, .profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER,
               .pChipName = chip, .pCounterAvailabilityImage = available);
    CALL(ProfilerHostInitialize, &init);
    if (err < 0)
        return err;
    r->host = init.pHostObject;
    CUpti_Profiler_Host_ConfigAddMetrics_Params add = PARAMS(
        CUpti_Profiler_Host_ConfigAddMetrics_Params, .pHostObject = r->host, .ppMetricNames = names, .numMetrics = n);
    CALL(ProfilerHostConfigAddMetrics, &add);
    CUpti_Profiler_Host_GetConfigImageSize_Params size =
        PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, .pHostObject = r->host);
    if (!err)
        CALL(ProfilerHostGetConfigImageSize, &size);
    if (err < 0)
        return err;
    r->nconfig = size.configImageSize;
    r->config = dt_calloc(1, r->nconfig + 1);
    if (!r->config)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the counters' configuration");
    CUpti_Profiler_Host_GetConfigImage_Params image =
        PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, .pHostObject = r->host, .configImageSize = r->nconfig,
               .pConfigImage = r->config);
    CALL(ProfilerHostGetConfigImage, &image);
    CUpti_Profiler_Host_GetNumOfPasses_Params passes =
        PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, .configImageSize = r->nconfig, .pConfigImage = r->config);
    if (!err)
        CALL(ProfilerHostGetNumOfPasses, &passes);
    r->passes = passes.numOfPasses;
    return err;
}

static int open_range(bool host, struct range *r, struct dt_err *e)
{
    bool *ret_retry = NULL;
    int err = dev_cupti_open(host, &r->c, e);
    if (err < 0)
        return err;
    const struct dev_cupti *c = r->c;
    if (c->no_range)
        return dt_err_set(e, DT_E_PROFILER, "this CUPTI has no range profiler (%s); CUDA 12.6 or later has",
                          c->no_range);
    if (host) /* it would look for a driver */
        return 0;
    CUpti_Profiler_Initialize_Params init = PARAMS(CUpti_Profiler_Initialize_Params, .pPriv = NULL);
    CALL(ProfilerInitialize, &init);
    r->initialized = !err;
    return err;
}

static void close_range(struct range *r)
{
    const struct dev_cupti *c = r->c;
    if (r->profiler)
        c->cuptiRangeProfilerDisable(&PARAMS(CUpti_RangeProfiler_Disable_Params, .pRangeProfilerObject = r->profiler));
    if (r->host)
        c->cuptiProfilerHostDeinitialize(&PARAMS(CUpti_Profiler_Host_Deinitialize_Params, .pHostObject = r->host));
    if (r->initialized)
        c->cuptiProfilerDeInitialize(&PARAMS(CUpti_Profiler_DeInitialize_Params, .pPriv = NULL));
    free(r->config);
    free(r->data);
}

int dev_count_passes(const char *chip, const char *const *metric, size_t n, size_t *ret_passes, struct dt_err *e)
{
    struct range r = {0};
    int err = open_range(true, &r, e);
    if (!err)
        err = host_part(&r, chip, NULL, metric, n, NULL, e);
    if (!err)
        *ret_passes = r.passes;
    close_range(&r);
    return err;
}

/* The profiler object and the image that receives the counters. */
static int target_part(struct range *r, struct dev_device *d, bool *ret_retry, struct dt_err *e)
{
    const struct dev_cupti *c = r->c;
    int err;
    CUpti_RangeProfiler_Enable_Params enable = PARAMS(CUpti_RangeProfiler_Enable_Params, .ctx = d->ctx);
    CALL(RangeProfilerEnable, &enable);
    if (err < 0)
        return err;
    r->profiler = enable.pRangeProfilerObject;
    CUpti_RangeProfiler_GetCounterDataSize_Params size =
        PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, .pRangeProfilerObject = r->profiler,
               .pMetricNames = (const char **)(uintptr_t)dev_counter_name, .numMetrics = DEV_COUNTERS,
               .maxNumOfRanges = 1, .maxNumRangeTreeNodes = 1);
    CALL(RangeProfilerGetCounterDataSize, &size);
    if (err < 0)
        return err;
    r->ndata = size.counterDataSize;
    r->data = dt_calloc(1, r->ndata + 1);
    if (!r->data)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the counters");
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params init =
        PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, .pRangeProfilerObject = r->profiler,
               .counterDataSize = r->ndata, .pCounterData = r->data);
    CALL(RangeProfilerCounterDataImageInitialize, &init);
    return err;
}

static int cupti_range_collect(struct range *r, struct dev_device *d, int (*fn)(void *, struct dt_err *), void *user,
                               bool *ret_retry, struct dt_err *e)
{
    const struct dev_cupti *c = r->c;
    int err = 0;
    CUpti_RangeProfiler_SetConfig_Params set =
        PARAMS(CUpti_RangeProfiler_SetConfig_Params, .pRangeProfilerObject = r->profiler, .configSize = r->nconfig,
               .pConfig = r->config, .counterDataImageSize = r->ndata, .pCounterDataImage = r->data,
               .range = CUPTI_UserRange, .replayMode = CUPTI_UserReplay, .maxRangesPerPass = 1, .numNestingLevels = 1,
               .minNestingLevel = 1, .passIndex = 0, .targetNestingLevel = 1);
    CALL(RangeProfilerSetConfig, &set);
    bool all = false;
    for (size_t pass = 0; !err && !all; pass++) {
        if (pass == MAX_PASSES)
            return dt_err_set(e, DT_E_PROFILER, "the counters need over %d passes", MAX_PASSES);
        CALL(RangeProfilerStart, &PARAMS(CUpti_RangeProfiler_Start_Params, .pRangeProfilerObject = r->profiler));
        if (err < 0)
            break;
        CALL(RangeProfilerPushRange,
             &PARAMS(CUpti_RangeProfiler_PushRange_Params, .pRangeProfilerObject = r->profiler, .pRangeName = "pass"));
        if (!err)
            err = fn(user, e);
        if (!err)
            err = dev_sync(d, e);
        CUpti_RangeProfiler_PopRange_Params pop =
            PARAMS(CUpti_RangeProfiler_PopRange_Params, .pRangeProfilerObject = r->profiler);
        if (!err)
            CALL(RangeProfilerPopRange, &pop);
        CUpti_RangeProfiler_Stop_Params stop =
            PARAMS(CUpti_RangeProfiler_Stop_Params, .pRangeProfilerObject = r->profiler);
        CUptiResult stopped = c->cuptiRangeProfilerStop(&stop); /* also after an error */
        if (!err)
            err = dev_cupti_error(c, stopped, "cuptiRangeProfilerStop", ret_retry, e);
        all = stop.isAllPassSubmitted;
    }
    CUpti_RangeProfiler_DecodeData_Params decode =
        PARAMS(CUpti_RangeProfiler_DecodeData_Params, .pRangeProfilerObject = r->profiler);
    if (!err)
        CALL(RangeProfilerDecodeData, &decode);
    if (!err && decode.numOfRangeDropped)
        err = dt_err_set(e, DT_E_PROFILER, "CUPTI dropped the range");
    return err;
}

int dev_count(struct dev_device *d, int (*fn)(void *, struct dt_err *), void *user, struct dev_counters *ret,
              bool *ret_retry, struct dt_err *e)
{
    struct range r = {0};
    uint8_t *available = NULL;
    bool retry = false;
    if (!ret_retry)
        ret_retry = &retry;
    *ret_retry = false;
    if (d->cu->soft)
        return dt_err_set(e, DT_E_PROFILER, "the software device has no hardware counters");
    int err = open_range(false, &r, e);
    const struct dev_cupti *c = r.c;
    if (!err)
        err = dev_use(d, e);
    CUpti_Device_GetChipName_Params chip = PARAMS(CUpti_Device_GetChipName_Params, .deviceIndex = (size_t)d->dev);
    if (!err)
        CALL(DeviceGetChipName, &chip);
    /* What this user may count here: asked twice, for the size and for the image. Where it refuses, so would everything
     * later. */
    CUpti_Profiler_GetCounterAvailability_Params have =
        PARAMS(CUpti_Profiler_GetCounterAvailability_Params, .ctx = d->ctx);
    if (!err)
        CALL(ProfilerGetCounterAvailability, &have);
    if (!err && !(available = dt_calloc(1, have.counterAvailabilityImageSize + 1)))
        err = dt_err_set(e, DT_E_NOMEM, "out of memory for the counters");
    have.pCounterAvailabilityImage = available;
    if (!err)
        CALL(ProfilerGetCounterAvailability, &have);
    if (!err)
        err = host_part(&r, chip.pChipName, available, dev_counter_name, DEV_COUNTERS, ret_retry, e);
    if (!err)
        err = target_part(&r, d, ret_retry, e);
    if (!err)
        err = cupti_range_collect(&r, d, fn, user, ret_retry, e);
    struct dev_counters got = {0};
    CUpti_Profiler_Host_EvaluateToGpuValues_Params value = PARAMS(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params, .pHostObject = r.host, .pCounterDataImage = r.data,
        .counterDataImageSize = r.ndata, .rangeIndex = 0, .ppMetricNames = (const char **)(uintptr_t)dev_counter_name,
        .numMetrics = DEV_COUNTERS, .pMetricValues = got.value);
    if (!err)
        CALL(ProfilerHostEvaluateToGpuValues, &value);
    if (!err)
        *ret = got;
    close_range(&r);
    free(available);
    return err;
}
