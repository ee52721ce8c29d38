/* What a real GPU did, by CUPTI: when each kernel ran (tracing, cupti.c) and what it moved (counters, cupti-range.c).
 *
 * CUPTI is found by dlopen and binds to the one libcuda.so.1 of the process, so it is never loaded where the software
 * device is open. All of this can be missing: no CUPTI, an old one, another subscriber, no privileges, a MIG slice.
 * Each is DT_E_PROFILER with the reason in words; whoever asked goes on without, and says so. Sources: CUPTI 13.0
 * manual, "Activity API", "Range Profiling API"; cupti_activity.h, cupti_range_profiler.h.
 */
#ifndef DT_DEVICE_PROFILE_H
#define DT_DEVICE_PROFILE_H

#include "device/device.h"

/* ---- tracing: one at a time in a process ------------------------------------------------------------------------ */
enum dev_activity { DEV_ACT_KERNEL, DEV_ACT_MEMSET, DEV_ACT_COPY };
struct dev_record { /* a kernel, memset or copy that ran on the device */
    enum dev_activity what;
    uint64_t start_ns, end_ns; /* CUPTI's clock; 0 and 0: the device could not say */
    uint64_t external;         /* what dev_trace_mark() said when it was launched; 0: nothing */
    uint64_t graph_node;       /* 0: not from a graph */
    uint64_t bytes;            /* of memsets and copies */
    uint32_t correlation, stream, graph, registers, local_bytes;
    uint32_t shared_static, shared_dynamic, grid[3], block[3], cluster[3];
    char name[128]; /* of a kernel, cut */
};
struct dev_trace {
    struct dev_record *record; /* by start */
    size_t nrecord;
    uint64_t dropped;     /* records that CUPTI had no room for, or that memory was out for */
    uint64_t odd;         /* records of kinds nobody asked for: skipped */
    uint64_t overhead_ns; /* of CUPTI's own: buffers, instrumentation, resources */
    uint64_t loading_ns;  /* of the driver: JIT, lazy loading, full command buffers */
    uint32_t version;     /* cuptiGetVersion */
};
struct dev_tracer;

/* Is there a CUPTI that could be used? Its version (cuptiGetVersion); DT_E_PROFILER: why not. */
int dev_cupti_there(uint32_t *ret_version, struct dt_err *e);
/* Start. DT_E_PROFILER: why not; retry tells whether it may go another time (somebody else has CUPTI now). Nothing may
 * be in flight. */
int dev_trace_begin(struct dev_device *d, struct dev_tracer **ret, bool *ret_retry, struct dt_err *e);
/* What is launched from now on, by this thread, has this `external` (0: none again). */
int dev_trace_mark(struct dev_tracer *t, uint64_t external, struct dt_err *e);
/* Waits for the device, stops, gives what was seen (dev_trace_done frees it). Frees t in any case. */
int dev_trace_end(struct dev_tracer *t, struct dev_trace *ret, struct dt_err *e);
struct dev_tracer *dev_trace_cancel(struct dev_tracer *t); /* stop and forget */
void dev_trace_done(struct dev_trace *t);

/* ---- decoding, without CUPTI (cupti-activity.c) ----------------------------------------------------------------- */
/* One record as CUPTI lays it out; those of kinds that are not wanted only count. DT_E_NOMEM. */
int dev_activity_add(struct dev_trace *t, const void *record);
/* All records are there: join external ids by correlation, sort by start. */
int dev_activity_finish(struct dev_trace *t);
/* Of records [from, to), in microseconds: first start to last end; time in which none of them ran; the sum of their
 * times. */
struct dev_span {
    double span_us, idle_us, sum_us;
    size_t n;
};
struct dev_span dev_activity_span(const struct dev_trace *t, uint64_t external);

/* ---- counters: one pass, a range around what is launched ------------------------------------------------------- */
enum { DEV_COUNTERS = 6 };
/* metric names, of which one pass is enough on GA100, GH100, AD10x, GB100 */
extern const char *const dev_counter_name[DEV_COUNTERS];
struct dev_counters {
    /* time ns, active cycles, warps active % of peak, DRAM bytes read, written, L2 sector misses */
    double value[DEV_COUNTERS];
};
/* Launches `fn(user)` between the range's ends as often as passes are needed (1) and waits. DT_E_PROFILER where
 * counters cannot be had: privileges (the driver's RmProfilingAdminOnly), MIG, a busy chip (*ret_retry). Kernels are
 * not serialised or replayed. */
int dev_count(struct dev_device *d, int (*fn)(void *user, struct dt_err *e), void *user, struct dev_counters *ret,
              bool *ret_retry, struct dt_err *e);
/* How many passes these metrics take on a chip ("GH100"): the host's part, needs no GPU. DT_E_PROFILER: CUPTI or the
 * metric is not there. */
int dev_count_passes(const char *chip, const char *const *metric, size_t n, size_t *ret_passes, struct dt_err *e);

#endif
