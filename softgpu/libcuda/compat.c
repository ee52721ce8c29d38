/* Entries as older cuda.h declared them, under the names that programs built with those headers look up.
 *
 * A program links the suffixed name of its own header (cuEventElapsedTime, cuCtxCreate_v2 …), so both shapes must exist. The assembler
 * name is given explicitly because today's cuda.h turns the plain name into the newest one.
 */
#include "softgpu/libcuda/cu-priv.h"

#define OLD(ret, fn, symbol, params)                                                                                               \
    __attribute__((visibility("default"))) ret fn params __asm__(symbol);                                                          \
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

OLD(CUresult, old_primary_reset, "cuDevicePrimaryCtxReset", (CUdevice dev))
{
    return cuDevicePrimaryCtxReset(dev);
}

OLD(CUresult, old_primary_flags, "cuDevicePrimaryCtxSetFlags", (CUdevice dev, unsigned flags))
{
    return cuDevicePrimaryCtxSetFlags(dev, flags);
}

OLD(CUresult, old_uuid, "cuDeviceGetUuid", (CUuuid * ret, CUdevice dev))
{
    return cuDeviceGetUuid(ret, dev);
}

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
    CU_REQUIRE(p && p->func, CUDA_ERROR_INVALID_VALUE);
    return cuGraphAddKernelNode(ret, g, dep, n, (const CUDA_KERNEL_NODE_PARAMS *)(const void *)p);
}

OLD(CUresult, old_add_dependencies, "cuGraphAddDependencies", (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n))
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
