/* Entries as older cuda.h declared them, under the names that programs built with those headers look up.
 *
 * A program links the suffixed name of its own header (cuEventElapsedTime, cuCtxCreate_v2 …), so both shapes must
 * exist. The assembler name is given explicitly because today's cuda.h turns the plain name into the newest one.
 */
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

#define OLD(ret, fn, symbol, params)                                                                                   \
    __attribute__((visibility("default"))) ret fn params __asm__(symbol);                                              \
    ret fn params

OLD(CUresult, old_event_elapsed, "cuEventElapsedTime", (float *ret, CUevent from, CUevent to))
{
    return cuEventElapsedTime(ret, from, to);
}

OLD(CUresult, old_ctx_create, "cuCtxCreate_v2", (CUcontext * ret, unsigned flags, CUdevice dev))
{
    return cuCtxCreate(ret, NULL, flags, dev);
}

OLD(CUresult, old_ctx_create3, "cuCtxCreate_v3",
    (CUcontext * ret, CUexecAffinityParam *p, int n, unsigned flags, CUdevice dev))
{
    return n ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate(ret, NULL, flags, dev);
}

OLD(CUresult, old_primary_release, "cuDevicePrimaryCtxRelease", (CUdevice dev))
{
    return cuDevicePrimaryCtxRelease(dev);
}

OLD(CUresult, old_primary_reset, "cuDevicePrimaryCtxReset", (CUdevice dev)) { return cuDevicePrimaryCtxReset(dev); }

OLD(CUresult, old_primary_flags, "cuDevicePrimaryCtxSetFlags", (CUdevice dev, unsigned flags))
{
    return cuDevicePrimaryCtxSetFlags(dev, flags);
}

OLD(CUresult, old_uuid, "cuDeviceGetUuid", (CUuuid * ret, CUdevice dev)) { return cuDeviceGetUuid(ret, dev); }

OLD(CUresult, old_host_register, "cuMemHostRegister", (void *p, size_t n, unsigned flags))
{
    return cuMemHostRegister(p, n, flags);
}

OLD(CUresult, old_instantiate, "cuGraphInstantiate_v2",
    (CUgraphExec * ret, CUgraph g, CUgraphNode *node, char *log, size_t n))
{
    if (node)
        *node = NULL;
    if (log && n)
        *log = 0;
    return cuGraphInstantiateWithFlags(ret, g, 0);
}

/* CUDA_KERNEL_NODE_PARAMS_v1 is how the present struct begins; the rest is only looked at where func is NULL. */
OLD(CUresult, old_add_kernel, "cuGraphAddKernelNode",
    (CUgraphNode * ret, CUgraph g, const CUgraphNode *dep, size_t n, const CUDA_KERNEL_NODE_PARAMS_v1 *p))
{
    CU_READY();
    CU_REQUIRE(p && p->func, CUDA_ERROR_INVALID_VALUE);
    return cuGraphAddKernelNode(ret, g, dep, n, (const CUDA_KERNEL_NODE_PARAMS *)(const void *)p);
}

OLD(CUresult, old_add_dependencies, "cuGraphAddDependencies",
    (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n))
{
    return cuGraphAddDependencies(g, from, to, NULL, n);
}

OLD(CUresult, old_remove_dependencies, "cuGraphRemoveDependencies",
    (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n))
{
    return cuGraphRemoveDependencies(g, from, to, NULL, n);
}

OLD(CUresult, old_dependencies, "cuGraphNodeGetDependencies", (CUgraphNode node, CUgraphNode *out, size_t *n))
{
    return cuGraphNodeGetDependencies(node, out, NULL, n);
}

OLD(CUresult, old_dependents, "cuGraphNodeGetDependentNodes", (CUgraphNode node, CUgraphNode *out, size_t *n))
{
    return cuGraphNodeGetDependentNodes(node, out, NULL, n);
}

OLD(CUresult, old_edges, "cuGraphGetEdges", (CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n))
{
    return cuGraphGetEdges(g, from, to, NULL, n);
}

OLD(CUresult, old_add_node, "cuGraphAddNode",
    (CUgraphNode * ret, CUgraph g, const CUgraphNode *dep, size_t n, CUgraphNodeParams *p))
{
    return cuGraphAddNode(ret, g, dep, NULL, n, p);
}

OLD(CUresult, old_get_proc_address, "cuGetProcAddress", (const char *name, void **ret, int version, cuuint64_t flags))
{
    return cuGetProcAddress(name, ret, version, flags, NULL);
}

/* ---- the same shape under an older name ---- */
OLD(CUresult, old_ctx_create1, "cuCtxCreate", (CUcontext * ret, unsigned flags, CUdevice dev))
{
    return cuCtxCreate(ret, NULL, flags, dev);
}

OLD(CUresult, old_ctx_destroy, "cuCtxDestroy", (CUcontext c)) { return cuCtxDestroy(c); }

OLD(CUresult, old_ctx_pop, "cuCtxPopCurrent", (CUcontext * ret)) { return cuCtxPopCurrent(ret); }

OLD(CUresult, old_ctx_push, "cuCtxPushCurrent", (CUcontext c)) { return cuCtxPushCurrent(c); }

OLD(CUresult, old_stream_destroy, "cuStreamDestroy", (CUstream s)) { return cuStreamDestroy(s); }

OLD(CUresult, old_event_destroy, "cuEventDestroy", (CUevent e)) { return cuEventDestroy(e); }

OLD(CUresult, old_link_create, "cuLinkCreate", (unsigned n, CUjit_option *opt, void **val, CUlinkState *ret))
{
    return cuLinkCreate(n, opt, val, ret);
}

OLD(CUresult, old_link_data, "cuLinkAddData",
    (CUlinkState l, CUjitInputType type, void *data, size_t size, const char *name, unsigned n, CUjit_option *opt,
     void **val))
{
    return cuLinkAddData(l, type, data, size, name, n, opt, val);
}

OLD(CUresult, old_link_file, "cuLinkAddFile",
    (CUlinkState l, CUjitInputType type, const char *path, unsigned n, CUjit_option *opt, void **val))
{
    return cuLinkAddFile(l, type, path, n, opt, val);
}

OLD(CUresult, old_wait32, "cuStreamWaitValue32", (CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags))
{
    return cuStreamWaitValue32(s, p, v, flags);
}

OLD(CUresult, old_wait64, "cuStreamWaitValue64", (CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags))
{
    return cuStreamWaitValue64(s, p, v, flags);
}

OLD(CUresult, old_write32, "cuStreamWriteValue32", (CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags))
{
    return cuStreamWriteValue32(s, p, v, flags);
}

OLD(CUresult, old_write64, "cuStreamWriteValue64", (CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags))
{
    return cuStreamWriteValue64(s, p, v, flags);
}

OLD(CUresult, old_memop, "cuStreamBatchMemOp", (CUstream s, unsigned n, CUstreamBatchMemOpParams *op, unsigned flags))
{
    return cuStreamBatchMemOp(s, n, op, flags);
}

/* ---- another context than the current one ---- */
OLD(CUresult, ctx_get_device2, "cuCtxGetDevice_v2", (CUdevice * ret, CUcontext c))
{
    CU_READY();
    if (!c)
        return cuCtxGetDevice(ret);
    CU_REQUIRE(cu_is(c, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = cu_device_ordinal(c->dev);
    return CUDA_SUCCESS;
}

OLD(CUresult, ctx_synchronize2, "cuCtxSynchronize_v2", (CUcontext c))
{
    CU_READY();
    if (!c)
        return cuCtxSynchronize();
    CU_REQUIRE(cu_is(c, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_TRY(c->sticky);
    CU_TRY(cu_capture_unsafe(c));
    return cu_log_wait(c, NULL);
}

/* ---- graphs ---- */
OLD(CUresult, old_instantiate1, "cuGraphInstantiate",
    (CUgraphExec * ret, CUgraph g, CUgraphNode *node, char *log, size_t n))
{
    return old_instantiate(ret, g, node, log, n);
}

OLD(CUresult, old_get_kernel, "cuGraphKernelNodeGetParams", (CUgraphNode n, CUDA_KERNEL_NODE_PARAMS_v1 *ret))
{
    CUDA_KERNEL_NODE_PARAMS p;
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cuGraphKernelNodeGetParams(n, &p));
    memcpy(ret, &p, sizeof *ret);
    return CUDA_SUCCESS;
}

OLD(CUresult, old_set_kernel, "cuGraphKernelNodeSetParams", (CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1 *p))
{
    CU_READY();
    CU_REQUIRE(p && p->func, CUDA_ERROR_INVALID_VALUE);
    return cuGraphKernelNodeSetParams(n, (const CUDA_KERNEL_NODE_PARAMS *)(const void *)p);
}

OLD(CUresult, old_exec_set_kernel, "cuGraphExecKernelNodeSetParams",
    (CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v1 *p))
{
    CU_READY();
    CU_REQUIRE(p && p->func, CUDA_ERROR_INVALID_VALUE);
    return cuGraphExecKernelNodeSetParams(x, n, (const CUDA_KERNEL_NODE_PARAMS *)(const void *)p);
}

OLD(CUresult, old_update, "cuGraphExecUpdate",
    (CUgraphExec x, CUgraph g, CUgraphNode *node, CUgraphExecUpdateResult *ret))
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult r = cuGraphExecUpdate(x, g, &info);
    if (node)
        *node = info.errorNode;
    if (ret)
        *ret = info.result;
    return r;
}

/* ---- a device where the present shape has a location ---- */
static CUmemLocation compat_place_of(CUdevice dev)
{
    return dev == CU_DEVICE_CPU ? (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0}
                                : (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev};
}

OLD(CUresult, old_advise, "cuMemAdvise", (CUdeviceptr p, size_t n, CUmem_advise advice, CUdevice dev))
{
    return cuMemAdvise(p, n, advice, compat_place_of(dev));
}

OLD(CUresult, old_prefetch, "cuMemPrefetchAsync", (CUdeviceptr p, size_t n, CUdevice dev, CUstream s))
{
    return cuMemPrefetchAsync_v2(p, n, compat_place_of(dev), 0, s);
}

/* ---- batches that said which copy failed ---- */
OLD(CUresult, old_batch, "cuMemcpyBatchAsync",
    (CUdeviceptr * dst, CUdeviceptr *src, size_t *n, size_t count, CUmemcpyAttributes *attr, size_t *index,
     size_t nattr, size_t *failed, CUstream s))
{
    CUresult r = cuMemcpyBatchAsync(dst, src, n, count, attr, index, nattr, s);
    if (failed && r != CUDA_SUCCESS)
        *failed = SIZE_MAX; /* none in particular */
    return r;
}

OLD(CUresult, old_batch3d, "cuMemcpy3DBatchAsync",
    (size_t n, CUDA_MEMCPY3D_BATCH_OP *op, size_t *failed, unsigned long long flags, CUstream s))
{
    CUresult r = cuMemcpy3DBatchAsync(n, op, flags, s);
    if (failed && r != CUDA_SUCCESS)
        *failed = SIZE_MAX;
    return r;
}

/* ---- capture ---- */
OLD(CUresult, old_begin, "cuStreamBeginCapture", (CUstream s))
{
    return cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

OLD(CUresult, old_info1, "cuStreamGetCaptureInfo", (CUstream s, CUstreamCaptureStatus *ret, cuuint64_t *id))
{
    return cuStreamGetCaptureInfo(s, ret, id, NULL, NULL, NULL, NULL);
}

OLD(CUresult, old_info2, "cuStreamGetCaptureInfo_v2",
    (CUstream s, CUstreamCaptureStatus *ret, cuuint64_t *id, CUgraph *g, const CUgraphNode **dep, size_t *n))
{
    return cuStreamGetCaptureInfo(s, ret, id, g, dep, NULL, n);
}

OLD(CUresult, old_update_capture, "cuStreamUpdateCaptureDependencies",
    (CUstream s, CUgraphNode *dep, size_t n, unsigned flags))
{
    return cuStreamUpdateCaptureDependencies(s, dep, NULL, n, flags);
}
