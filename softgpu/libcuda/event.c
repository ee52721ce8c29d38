/* Events. All work before one has run when it is recorded; its time is the timeline's, in modelled microseconds. */
#include <stdlib.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult cuEventCreate(CUevent *ret, unsigned flags)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    struct CUevent_st *e = dt_calloc(1, sizeof *e);
    CU_REQUIRE(e, CUDA_ERROR_OUT_OF_MEMORY);
    e->magic = CU_EVENT;
    e->ctx = c;
    e->flags = flags;
    *ret = e;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent e)
{
    CU_READY();
    CU_REQUIRE(CU_IS(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    if (e->ctx && cu_context_live(e->ctx))
        cu_log_forget(e->ctx, e);
    e->magic = 0;
    free(e->tail.p);
    free(e);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent e, CUstream stream, unsigned flags)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s && CU_IS(e, CU_EVENT) && e->ctx == c, CUDA_ERROR_INVALID_HANDLE);
    if (s->capture)
        return cu_capture_record(s, e);
    e->capture = NULL;
    return cu_log(s, (struct sg_work){.kind = SG_WORK_EVENT}, e);
}

CUresult cuEventRecord(CUevent e, CUstream stream)
{
    return cuEventRecordWithFlags(e, stream, 0);
}

CUresult cuEventQuery(CUevent e)
{
    CU_CONTEXT(c);
    CU_REQUIRE(CU_IS(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!e->capture, CUDA_ERROR_CAPTURED_EVENT);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent e)
{
    CU_CONTEXT(c);
    CU_REQUIRE(CU_IS(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!e->capture, CUDA_ERROR_CAPTURED_EVENT);
    return e->timed ? CUDA_SUCCESS : cu_log_flush(c);
}

CUresult cuEventElapsedTime(float *ret, CUevent from, CUevent to)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(from, CU_EVENT) && CU_IS(to, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(from->recorded && to->recorded, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
    if (!from->timed || !to->timed)
        CU_TRY(cu_log_flush(c));
    *ret = (float)((to->time_us - from->time_us) / 1000);
    return CUDA_SUCCESS;
}
