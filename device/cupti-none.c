/* This file replaces cupti.c, cupti-activity.c and cupti-range.c where the build had no CUPTI headers: every call says
 * so. */
#include "base/err.h"
#include "device/profile.h"

static int none(struct dt_err *e)
{
    return dt_err_set(e, DT_E_PROFILER, "this dovetail was built without CUPTI's headers");
}

int dev_cupti_there(uint32_t *ret_version, struct dt_err *e) { return none(e); }

int dev_trace_begin(struct dev_device *d, struct dev_tracer **ret, bool *ret_retry, struct dt_err *e)
{
    if (ret_retry)
        *ret_retry = false;
    return none(e);
}

int dev_trace_mark(struct dev_tracer *t, uint64_t external, struct dt_err *e) { return none(e); }
int dev_trace_end(struct dev_tracer *t, struct dev_trace *ret, struct dt_err *e) { return none(e); }
struct dev_tracer *dev_trace_cancel(struct dev_tracer *t) { return NULL; }
void dev_trace_done(struct dev_trace *t) {}
struct dev_span dev_activity_span(const struct dev_trace *t, uint64_t external) { return (struct dev_span){0}; }

int dev_count(struct dev_device *d, int (*fn)(void *, struct dt_err *), void *user, struct dev_counters *ret,
              bool *ret_retry, struct dt_err *e)
{
    if (ret_retry)
        *ret_retry = false;
    return none(e);
}

int dev_count_passes(const char *chip, const char *const *metric, size_t n, size_t *ret_passes, struct dt_err *e)
{
    return none(e);
}

const char *const dev_counter_name[DEV_COUNTERS];
