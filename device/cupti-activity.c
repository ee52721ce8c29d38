/* Activity records of CUPTI, decoded into struct dev_trace. Nothing here calls CUPTI: the records come from buffers, a
 * GPU's or a test's.
 *
 * Layouts are those of the newest version that this cupti_activity.h knows. CUPTI only appends to a record, and steps
 * from one record to the next by the record's own size. So records of older and newer libraries are read alike, as long
 * as the fields in use lie where they always did; the assertions below check this for the versions of CUDA 12 and 13.
 * Fields past the end of an older record are not read.
 *
 * An external id has a record of its own, that of the API call. A kernel and its call share the correlation id. One
 * graph launch is one call, so all nodes of the graph share one correlation id, and the graph node id tells them apart.
 * Records come in any order, across buffers too. They are joined and sorted at the end.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cupti_target.h>
#include <cupti.h>

#include "base/alloc.h"
#include "device/profile.h"

#define SAME(a, b, field)                                                                                              \
    _Static_assert(offsetof(a, field) == offsetof(b, field), #field " of " #a " lies elsewhere in " #b)
#define KERNEL(field) SAME(CUpti_ActivityKernel9, CUpti_ActivityKernel10, field)
KERNEL(registersPerThread);
KERNEL(start);
KERNEL(end);
KERNEL(streamId);
KERNEL(gridX);
KERNEL(blockX);
KERNEL(staticSharedMemory);
KERNEL(dynamicSharedMemory);
KERNEL(localMemoryPerThread);
KERNEL(correlationId);
KERNEL(name);
KERNEL(graphNodeId);
KERNEL(graphId);
KERNEL(clusterX);
SAME(CUpti_ActivityOverhead2, CUpti_ActivityOverhead3, start);
SAME(CUpti_ActivityOverhead2, CUpti_ActivityOverhead3, end);

static struct dev_record *more(struct dev_trace *t)
{
    if (!(t->nrecord & (t->nrecord - 1))) { /* room for a power of two */
        struct dev_record *p = dt_reallocarray(t->record, t->nrecord ? 2 * t->nrecord : 1, sizeof *p);
        if (!p)
            return NULL;
        t->record = p;
    }
    memset(&t->record[t->nrecord], 0, sizeof *t->record);
    return &t->record[t->nrecord++];
}

static int cupti_activity_kernel(struct dev_trace *t, const CUpti_ActivityKernel10 *k)
{
    struct dev_record *r = more(t);
    if (!r)
        return DT_E_NOMEM;
    *r = (struct dev_record){.what = DEV_ACT_KERNEL,
                             .start_ns = k->start,
                             .end_ns = k->end,
                             .graph_node = k->graphNodeId,
                             .correlation = k->correlationId,
                             .stream = k->streamId,
                             .graph = k->graphId,
                             .registers = k->registersPerThread,
                             .local_bytes = k->localMemoryPerThread,
                             .shared_static = (uint32_t)k->staticSharedMemory,
                             .shared_dynamic = (uint32_t)k->dynamicSharedMemory,
                             .grid = {(uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ},
                             .block = {(uint32_t)k->blockX, (uint32_t)k->blockY, (uint32_t)k->blockZ},
                             .cluster = {k->clusterX, k->clusterY, k->clusterZ}};
    if (k->name) {
        size_t n = strnlen(k->name, sizeof r->name - 1);
        memcpy(r->name, k->name, n);
    }
    return 0;
}

/* An API call with an external id is kept as a record of no duration until dev_activity_finish() has joined it. */
#define CALL 99

int dev_activity_add(struct dev_trace *t, const void *record)
{
    CUpti_ActivityKind kind;
    struct dev_record *r;
    memcpy(&kind, record, sizeof kind);
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return cupti_activity_kernel(t, record);
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const CUpti_ActivityMemset4 *m = record;
        if (!(r = more(t)))
            return DT_E_NOMEM;
        *r = (struct dev_record){.what = DEV_ACT_MEMSET,
                                 .start_ns = m->start,
                                 .end_ns = m->end,
                                 .bytes = m->bytes,
                                 .correlation = m->correlationId,
                                 .stream = m->streamId,
                                 .graph = m->graphId,
                                 .graph_node = m->graphNodeId};
        return 0;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const CUpti_ActivityMemcpy6 *m = record;
        if (!(r = more(t)))
            return DT_E_NOMEM;
        *r = (struct dev_record){.what = DEV_ACT_COPY,
                                 .start_ns = m->start,
                                 .end_ns = m->end,
                                 .bytes = m->bytes,
                                 .correlation = m->correlationId,
                                 .stream = m->streamId,
                                 .graph = m->graphId,
                                 .graph_node = m->graphNodeId};
        return 0;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const CUpti_ActivityExternalCorrelation *x = record;
        if (!(r = more(t)))
            return DT_E_NOMEM;
        r->what = CALL;
        r->external = x->externalId;
        r->correlation = x->correlationId;
        return 0;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
        const CUpti_ActivityOverhead3 *o = record;
        uint64_t ns = o->end > o->start ? o->end - o->start : 0;
        switch (o->overheadKind) {
        case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
        case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
        case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
        case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST: t->overhead_ns += ns; break;
        default: t->loading_ns += ns; break;
        }
        return 0;
    }
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME: return 0; /* only there so that external ids are written */
    default: t->odd++; return 0;
    }
}

static int by_call(const void *a, const void *b)
{
    const struct dev_record *x = a, *y = b;
    return x->correlation != y->correlation ? (x->correlation > y->correlation) - (x->correlation < y->correlation)
                                            : ((int)x->what == CALL ? 0 : 1) - ((int)y->what == CALL ? 0 : 1);
}

static int by_start(const void *a, const void *b)
{
    const struct dev_record *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns)
        return x->end_ns < y->end_ns ? -1 : 1;
    return (x->graph_node > y->graph_node) - (x->graph_node < y->graph_node);
}

int dev_activity_finish(struct dev_trace *t)
{
    size_t n = 0;
    if (!t->nrecord)
        return 0;
    qsort(t->record, t->nrecord, sizeof *t->record, by_call); /* a call comes before what it launched */
    const struct dev_record *call = NULL;
    struct dev_record last;
    for (size_t i = 0; i < t->nrecord; i++) {
        struct dev_record *r = &t->record[i];
        if ((int)r->what == CALL) {
            last = *r;
            call = &last;
            continue;
        }
        if (call && call->correlation == r->correlation)
            r->external = call->external;
        t->record[n++] = *r;
    }
    t->nrecord = n;
    qsort(t->record, n, sizeof *t->record, by_start);
    return 0;
}

struct dev_span dev_activity_span(const struct dev_trace *t, uint64_t external)
{
    struct dev_span s = {0};
    uint64_t first = 0, until = 0, idle = 0, sum = 0;
    for (size_t i = 0; i < t->nrecord; i++) {
        const struct dev_record *r = &t->record[i];
        if (r->external != external || r->end_ns < r->start_ns || !r->end_ns)
            continue;
        if (!s.n++)
            first = until = r->start_ns;
        if (r->start_ns > until)
            idle += r->start_ns - until;
        until = r->end_ns > until ? r->end_ns : until;
        sum += r->end_ns - r->start_ns;
    }
    s.span_us = (double)(until - first) / 1000;
    s.idle_us = (double)idle / 1000;
    s.sum_us = (double)sum / 1000;
    return s;
}

void dev_trace_done(struct dev_trace *t)
{
    free(t->record);
    memset(t, 0, sizeof *t);
}
