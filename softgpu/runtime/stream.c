/* Streams, events, capture, functions of the host in a stream.
 *
 * Handles are the driver's, 0 is the legacy stream. Programs compiled for per-thread default streams call other names
 * (per-thread.c).
 */
#include "softgpu/runtime/rt-priv.h"

SAME_SIZE(cudaLaunchAttributeValue, CUlaunchAttributeValue);
SAME_SIZE(cudaGraphEdgeData, CUgraphEdgeData);

PASS(cudaStreamCreate, (cudaStream_t * s), cuStreamCreate(s, CU_STREAM_DEFAULT))
PASS(cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned flags), cuStreamCreate(s, flags))
PASS(cudaStreamCreateWithPriority, (cudaStream_t * s, unsigned flags, int priority),
     cuStreamCreateWithPriority(s, flags, priority))
PASS(cudaStreamGetPriority, (cudaStream_t s, int *ret), cuStreamGetPriority(s, ret))
PASS(cudaStreamGetFlags, (cudaStream_t s, unsigned *ret), cuStreamGetFlags(s, ret))
PASS(cudaStreamGetId, (cudaStream_t s, unsigned long long *ret), cuStreamGetId(s, ret))
PASS(cudaStreamGetDevice, (cudaStream_t s, int *ret), cuStreamGetDevice(s, ret))
PASS(cudaStreamCopyAttributes, (cudaStream_t to, cudaStream_t from), cuStreamCopyAttributes(to, from))
PASS(cudaStreamGetAttribute, (cudaStream_t s, cudaLaunchAttributeID a, cudaLaunchAttributeValue *v),
     cuStreamGetAttribute(s, (CUstreamAttrID)a, (CUstreamAttrValue *)v))
PASS(cudaStreamSetAttribute, (cudaStream_t s, cudaLaunchAttributeID a, const cudaLaunchAttributeValue *v),
     cuStreamSetAttribute(s, (CUstreamAttrID)a, (const CUstreamAttrValue *)v))
PASS(cudaStreamDestroy, (cudaStream_t s), cuStreamDestroy(s))
PASS(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), cuStreamWaitEvent(s, e, flags))
PASS(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t fn, void *user, unsigned flags),
     cuStreamAddCallback(s, (CUstreamCallback)fn, user, flags))
PASS(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t fn, void *user), cuLaunchHostFunc(s, fn, user))
PASS(cudaStreamSynchronize, (cudaStream_t s), cuStreamSynchronize(s))
PASS(cudaStreamQuery, (cudaStream_t s), cuStreamQuery(s))
PASS(cudaStreamAttachMemAsync, (cudaStream_t s, void *p, size_t n, unsigned flags),
     cuStreamAttachMemAsync(s, (CUdeviceptr)p, n, flags))

PASS(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode mode),
     cuStreamBeginCapture(s, (CUstreamCaptureMode)mode))
PASS(cudaStreamBeginCaptureToGraph,
     (cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t *dep, const cudaGraphEdgeData *edge, size_t n,
      enum cudaStreamCaptureMode mode),
     cuStreamBeginCaptureToGraph(s, g, dep, (const CUgraphEdgeData *)edge, n, (CUstreamCaptureMode)mode))
PASS(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
     cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
PASS(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *ret), cuStreamEndCapture(s, ret))
PASS(cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *ret),
     cuStreamIsCapturing(s, (CUstreamCaptureStatus *)ret))
PASS(cudaStreamGetCaptureInfo,
     (cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *g,
      const cudaGraphNode_t **dep, const cudaGraphEdgeData **edge, size_t *n),
     cuStreamGetCaptureInfo(s, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, g, dep,
                            (const CUgraphEdgeData **)edge, n))
PASS(cudaStreamUpdateCaptureDependencies,
     (cudaStream_t s, cudaGraphNode_t *dep, const cudaGraphEdgeData *edge, size_t n, unsigned flags),
     cuStreamUpdateCaptureDependencies(s, dep, (const CUgraphEdgeData *)edge, n, flags))

cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    DTRT_CONTEXT();
    if (!(flags & cudaEventDisableTiming))
        dtrt_timed();
    return dtrt_is(dtrt_drv.cuEventCreate(e, flags));
}

PASS(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), cuEventRecord(e, s))
PASS(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned flags), cuEventRecordWithFlags(e, s, flags))
PASS(cudaEventQuery, (cudaEvent_t e), cuEventQuery(e))
PASS(cudaEventSynchronize, (cudaEvent_t e), cuEventSynchronize(e))
PASS(cudaEventDestroy, (cudaEvent_t e), cuEventDestroy(e))
PASS(cudaEventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to), cuEventElapsedTime(ms, from, to))
