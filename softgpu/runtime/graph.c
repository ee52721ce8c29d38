/* Graphs: those of their functions that are one of the driver's, and nodes of every kind but kernels and copies
 * (graph-node.c).
 *
 * Handles are the driver's. Edge data, parameters of memsets, host functions and allocations have one layout in both
 * APIs (asserted here), and pass through.
 */
#include "softgpu/runtime/rt-priv.h"

SAME_SIZE(struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS);
SAME_SIZE(struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME_SIZE(struct cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_SIZE(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
SAME_SIZE(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);

#define AFTER cudaGraphNode_t *ret, cudaGraph_t g, const cudaGraphNode_t *dep, size_t ndep

static CUcontext context(void)
{
    CUcontext c = NULL;
    dtrt_drv.cuCtxGetCurrent(&c);
    return c;
}

PASS(cudaGraphCreate, (cudaGraph_t * ret, unsigned flags), cuGraphCreate(ret, flags))
PASS(cudaGraphClone, (cudaGraph_t * ret, cudaGraph_t g), cuGraphClone(ret, g))
PASS(cudaGraphDestroy, (cudaGraph_t g), cuGraphDestroy(g))
PASS(cudaGraphDebugDotPrint, (cudaGraph_t g, const char *path, unsigned flags), cuGraphDebugDotPrint(g, path, flags))
PASS(cudaGraphGetNodes, (cudaGraph_t g, cudaGraphNode_t *node, size_t *n), cuGraphGetNodes(g, node, n))
PASS(cudaGraphGetRootNodes, (cudaGraph_t g, cudaGraphNode_t *node, size_t *n), cuGraphGetRootNodes(g, node, n))
PASS(cudaGraphGetEdges, (cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edge, size_t *n),
     cuGraphGetEdges(g, from, to, (CUgraphEdgeData *)edge, n))
PASS(cudaGraphAddDependencies,
     (cudaGraph_t g, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edge, size_t n),
     cuGraphAddDependencies(g, from, to, (const CUgraphEdgeData *)edge, n))
PASS(cudaGraphRemoveDependencies,
     (cudaGraph_t g, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edge, size_t n),
     cuGraphRemoveDependencies(g, from, to, (const CUgraphEdgeData *)edge, n))
PASS(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *dep, cudaGraphEdgeData *edge, size_t *n),
     cuGraphNodeGetDependencies(node, dep, (CUgraphEdgeData *)edge, n))
PASS(cudaGraphNodeGetDependentNodes, (cudaGraphNode_t node, cudaGraphNode_t *dep, cudaGraphEdgeData *edge, size_t *n),
     cuGraphNodeGetDependentNodes(node, dep, (CUgraphEdgeData *)edge, n))
PASS(cudaGraphNodeFindInClone, (cudaGraphNode_t * ret, cudaGraphNode_t node, cudaGraph_t clone),
     cuGraphNodeFindInClone(ret, node, clone))
PASS(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *ret),
     cuGraphNodeGetType(node, (CUgraphNodeType *)ret))
PASS(cudaGraphDestroyNode, (cudaGraphNode_t node), cuGraphDestroyNode(node))

PASS(cudaGraphAddMemsetNode, (AFTER, const struct cudaMemsetParams *p),
     cuGraphAddMemsetNode(ret, g, dep, ndep, (const CUDA_MEMSET_NODE_PARAMS *)p, context()))
PASS(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, struct cudaMemsetParams *p),
     cuGraphMemsetNodeGetParams(node, (CUDA_MEMSET_NODE_PARAMS *)p))
PASS(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t node, const struct cudaMemsetParams *p),
     cuGraphMemsetNodeSetParams(node, (const CUDA_MEMSET_NODE_PARAMS *)p))
PASS(cudaGraphExecMemsetNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t node, const struct cudaMemsetParams *p),
     cuGraphExecMemsetNodeSetParams(e, node, (const CUDA_MEMSET_NODE_PARAMS *)p, context()))
PASS(cudaGraphAddHostNode, (AFTER, const struct cudaHostNodeParams *p),
     cuGraphAddHostNode(ret, g, dep, ndep, (const CUDA_HOST_NODE_PARAMS *)p))
PASS(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, struct cudaHostNodeParams *p),
     cuGraphHostNodeGetParams(node, (CUDA_HOST_NODE_PARAMS *)p))
PASS(cudaGraphHostNodeSetParams, (cudaGraphNode_t node, const struct cudaHostNodeParams *p),
     cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)p))
PASS(cudaGraphExecHostNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t node, const struct cudaHostNodeParams *p),
     cuGraphExecHostNodeSetParams(e, node, (const CUDA_HOST_NODE_PARAMS *)p))
PASS(cudaGraphAddChildGraphNode, (AFTER, cudaGraph_t child), cuGraphAddChildGraphNode(ret, g, dep, ndep, child))
PASS(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *ret),
     cuGraphChildGraphNodeGetGraph(node, ret))
PASS(cudaGraphExecChildGraphNodeSetParams, (cudaGraphExec_t e, cudaGraphNode_t node, cudaGraph_t child),
     cuGraphExecChildGraphNodeSetParams(e, node, child))
PASS(cudaGraphAddEmptyNode, (AFTER), cuGraphAddEmptyNode(ret, g, dep, ndep))
PASS(cudaGraphAddEventRecordNode, (AFTER, cudaEvent_t e), cuGraphAddEventRecordNode(ret, g, dep, ndep, e))
PASS(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *ret),
     cuGraphEventRecordNodeGetEvent(node, ret))
PASS(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t e), cuGraphEventRecordNodeSetEvent(node, e))
PASS(cudaGraphExecEventRecordNodeSetEvent, (cudaGraphExec_t x, cudaGraphNode_t node, cudaEvent_t e),
     cuGraphExecEventRecordNodeSetEvent(x, node, e))
PASS(cudaGraphAddEventWaitNode, (AFTER, cudaEvent_t e), cuGraphAddEventWaitNode(ret, g, dep, ndep, e))
PASS(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *ret), cuGraphEventWaitNodeGetEvent(node, ret))
PASS(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t e), cuGraphEventWaitNodeSetEvent(node, e))
PASS(cudaGraphExecEventWaitNodeSetEvent, (cudaGraphExec_t x, cudaGraphNode_t node, cudaEvent_t e),
     cuGraphExecEventWaitNodeSetEvent(x, node, e))
PASS(cudaGraphAddMemAllocNode, (AFTER, struct cudaMemAllocNodeParams *p),
     cuGraphAddMemAllocNode(ret, g, dep, ndep, (CUDA_MEM_ALLOC_NODE_PARAMS *)p))
PASS(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, struct cudaMemAllocNodeParams *p),
     cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)p))
PASS(cudaGraphAddMemFreeNode, (AFTER, void *p), cuGraphAddMemFreeNode(ret, g, dep, ndep, (CUdeviceptr)p))
PASS(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *ret),
     cuGraphMemFreeNodeGetParams(node, (CUdeviceptr *)ret))
PASS(cudaDeviceGraphMemTrim, (int device), cuDeviceGraphMemTrim(device))
PASS(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType a, void *v),
     cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)a, v))
PASS(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType a, void *v),
     cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)a, v))

PASS(cudaGraphInstantiate, (cudaGraphExec_t * ret, cudaGraph_t g, unsigned long long flags),
     cuGraphInstantiate(ret, g, flags))
PASS(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * ret, cudaGraph_t g, unsigned long long flags),
     cuGraphInstantiate(ret, g, flags))
PASS(cudaGraphInstantiateWithParams, (cudaGraphExec_t * ret, cudaGraph_t g, cudaGraphInstantiateParams *p),
     cuGraphInstantiateWithParams(ret, g, (CUDA_GRAPH_INSTANTIATE_PARAMS *)p))
PASS(cudaGraphExecGetFlags, (cudaGraphExec_t e, unsigned long long *ret), cuGraphExecGetFlags(e, (cuuint64_t *)ret))
PASS(cudaGraphExecUpdate, (cudaGraphExec_t e, cudaGraph_t g, cudaGraphExecUpdateResultInfo *ret),
     cuGraphExecUpdate(e, g, (CUgraphExecUpdateResultInfo *)ret))
PASS(cudaGraphNodeSetEnabled, (cudaGraphExec_t e, cudaGraphNode_t node, unsigned on),
     cuGraphNodeSetEnabled(e, node, on))
PASS(cudaGraphNodeGetEnabled, (cudaGraphExec_t e, cudaGraphNode_t node, unsigned *ret),
     cuGraphNodeGetEnabled(e, node, ret))
PASS(cudaGraphUpload, (cudaGraphExec_t e, cudaStream_t s), cuGraphUpload(e, s))
PASS(cudaGraphLaunch, (cudaGraphExec_t e, cudaStream_t s), cuGraphLaunch(e, s))
PASS(cudaGraphExecDestroy, (cudaGraphExec_t e), cuGraphExecDestroy(e))

PASS(cudaUserObjectCreate, (cudaUserObject_t * ret, void *p, cudaHostFn_t destroy, unsigned refs, unsigned flags),
     cuUserObjectCreate(ret, p, destroy, refs, flags))
PASS(cudaUserObjectRetain, (cudaUserObject_t o, unsigned n), cuUserObjectRetain(o, n))
PASS(cudaUserObjectRelease, (cudaUserObject_t o, unsigned n), cuUserObjectRelease(o, n))
PASS(cudaGraphRetainUserObject, (cudaGraph_t g, cudaUserObject_t o, unsigned n, unsigned flags),
     cuGraphRetainUserObject(g, o, n, flags))
PASS(cudaGraphReleaseUserObject, (cudaGraph_t g, cudaUserObject_t o, unsigned n), cuGraphReleaseUserObject(g, o, n))

PASS(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t to, cudaGraphNode_t from),
     cuGraphKernelNodeCopyAttributes(to, from))
PASS(cudaGraphKernelNodeGetAttribute, (cudaGraphNode_t n, cudaLaunchAttributeID a, cudaLaunchAttributeValue *v),
     cuGraphKernelNodeGetAttribute(n, (CUkernelNodeAttrID)a, (CUkernelNodeAttrValue *)v))
PASS(cudaGraphKernelNodeSetAttribute, (cudaGraphNode_t n, cudaLaunchAttributeID a, const cudaLaunchAttributeValue *v),
     cuGraphKernelNodeSetAttribute(n, (CUkernelNodeAttrID)a, (const CUkernelNodeAttrValue *)v))
