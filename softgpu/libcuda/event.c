/* Events.
 *
 * When an event is recorded, all work before it has run. So every wait for an event ends at once. The time of an event
 * comes from the timeline, in modelled microseconds. An event belongs to its context and goes with it.
 */
#include <stdlib.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult cuEventCreate(CUevent *ret, unsigned flags)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && !(flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)),
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(flags & CU_EVENT_INTERPROCESS) || flags & CU_EVENT_DISABLE_TIMING, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED);
    struct CUevent_st *e = dt_calloc(1, sizeof *e);
    CU_REQUIRE(e, CUDA_ERROR_OUT_OF_MEMORY);
    if (!cu_handle_add(e, CU_EVENT)) {
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->ctx = c;
    e->flags = flags;
    e->next = c->events;
    e->link = &c->events;
    if (e->next)
        e->next->link = &e->next;
    c->events = e;
    *ret = e;
    return CUDA_SUCCESS;
}

void cu_event_free(struct CUevent_st *e)
{
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
    free(e->tail.p);
    cu_handle_free(e);
}

CUresult cuEventDestroy(CUevent e)
{
    CU_READY();
    CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    cu_log_forget(e->ctx, e);
    cu_event_free(e);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent e, CUstream stream, unsigned flags)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s && cu_is(e, CU_EVENT) && e->ctx == c, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_legacy(c, s));
    if (s->capture)
        return flags & CU_EVENT_RECORD_EXTERNAL ? cu_capture_event(s, CU_GRAPH_NODE_TYPE_EVENT_RECORD, e)
                                                : cu_capture_record(s, e);
    e->capture = NULL;
    return cu_log(s, (struct sg_work){.kind = SG_WORK_EVENT}, e);
}

CUresult cuEventRecord(CUevent e, CUstream stream) { return cuEventRecordWithFlags(e, stream, 0); }

CUresult cuEventQuery(CUevent e)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!e->capture, CUDA_ERROR_CAPTURED_EVENT);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent e)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!e->capture, CUDA_ERROR_CAPTURED_EVENT);
    return e->timed ? CUDA_SUCCESS : cu_log_flush(c);
}

CUresult cuEventElapsedTime(float *ret, CUevent from, CUevent to)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_is(from, CU_EVENT) && cu_is(to, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(from->recorded && to->recorded, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
    if (!from->timed || !to->timed)
        CU_TRY(cu_log_flush(c));
    *ret = (float)((to->time_us - from->time_us) / 1000);
    return CUDA_SUCCESS;
}
