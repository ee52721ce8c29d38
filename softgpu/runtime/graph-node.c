/* Graph nodes whose parameters differ between the two APIs: kernels, copies, and cudaGraphAddNode for all.
 *
 * A kernel is the address of its stub here and a handle there; a copy is cudaMemcpy3DParms or one of its short forms
 * (one dimension, to and from a variable).
 */
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

#define AFTER cudaGraphNode_t *ret, cudaGraph_t g, const cudaGraphNode_t *dep, size_t ndep

SAME_SIZE(struct cudaGraphNodeParams, CUgraphNodeParams);

static CUcontext context(void)
{
    CUcontext c = NULL;
    dtrt_drv.cuCtxGetCurrent(&c);
    return c;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
static cudaError_t kernel_params(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *ret)
{
    CUkernel k;
    if (!p)
        return cudaErrorInvalidValue;
    cudaError_t e = dtrt_kernel(p->func, &k);
    *ret = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)(void *)k,
                                     .gridDimX = p->gridDim.x,
                                     .gridDimY = p->gridDim.y,
                                     .gridDimZ = p->gridDim.z,
                                     .blockDimX = p->blockDim.x,
                                     .blockDimY = p->blockDim.y,
                                     .blockDimZ = p->blockDim.z,
                                     .sharedMemBytes = p->sharedMemBytes,
                                     .kernelParams = p->kernelParams,
                                     .extra = p->extra};
    return e;
}

cudaError_t cudaGraphAddKernelNode(AFTER, const struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS q;
    DTRT_CONTEXT();
    DTRT_TRY(kernel_params(p, &q));
    return dtrt_is(dtrt_drv.cuGraphAddKernelNode(ret, g, dep, ndep, &q));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS q;
    DTRT_CONTEXT();
    DTRT_REQUIRE(p, cudaErrorInvalidValue);
    DTRT_TRY((cudaError_t)dtrt_drv.cuGraphKernelNodeGetParams(node, &q));
    const void *f = q.func ? (const void *)q.func : (const void *)q.kern;
    *p = (struct cudaKernelNodeParams){.func = (void *)(unsigned long)dtrt_stub(f),
                                       .gridDim = {q.gridDimX, q.gridDimY, q.gridDimZ},
                                       .blockDim = {q.blockDimX, q.blockDimY, q.blockDimZ},
                                       .sharedMemBytes = q.sharedMemBytes,
                                       .kernelParams = q.kernelParams,
                                       .extra = q.extra};
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS q;
    DTRT_CONTEXT();
    DTRT_TRY(kernel_params(p, &q));
    return dtrt_is(dtrt_drv.cuGraphKernelNodeSetParams(node, &q));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS q;
    DTRT_CONTEXT();
    DTRT_TRY(kernel_params(p, &q));
    return dtrt_is(dtrt_drv.cuGraphExecKernelNodeSetParams(e, node, &q));
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
cudaError_t cudaGraphAddMemcpyNode(AFTER, const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_copy_3d(p, &c));
    return dtrt_is(dtrt_drv.cuGraphAddMemcpyNode(ret, g, dep, ndep, &c, context()));
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    DTRT_CONTEXT();
    DTRT_REQUIRE(p, cudaErrorInvalidValue);
    DTRT_TRY((cudaError_t)dtrt_drv.cuGraphMemcpyNodeGetParams(node, &c));
    dtrt_copy_3d_back(&c, p);
    return cudaSuccess;
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_copy_3d(p, &c));
    return dtrt_is(dtrt_drv.cuGraphMemcpyNodeSetParams(node, &c));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node, const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_copy_3d(p, &c));
    return dtrt_is(dtrt_drv.cuGraphExecMemcpyNodeSetParams(e, node, &c, context()));
}

static cudaError_t symbol_at(const void *symbol, size_t n, size_t offset, void **ret)
{
    CUdeviceptr p = 0;
    size_t bytes = 0;
    cudaError_t e = dtrt_symbol(symbol, &p, &bytes);
    *ret = (void *)(p + offset);
    return e == cudaSuccess && (offset > bytes || n > bytes - offset) ? cudaErrorInvalidValue : e;
}

/* The short forms: a copy of one dimension, to or from a variable. LEAD: parameters before; LONG: the long form. */
#define SHORT_FORMS(FRONT, LEAD, LONG)                                                                                 \
    cudaError_t FRONT##1D(LEAD, void *to, const void *from, size_t n, enum cudaMemcpyKind kind)                        \
    {                                                                                                                  \
        struct cudaMemcpy3DParms p;                                                                                    \
        DTRT_REQUIRE(dtrt_copy_1d(to, from, n, kind, &p), cudaErrorInvalidValue);                                      \
        return LONG;                                                                                                   \
    }                                                                                                                  \
    cudaError_t FRONT##ToSymbol(LEAD, const void *symbol, const void *from, size_t n, size_t offset,                   \
                                enum cudaMemcpyKind kind)                                                              \
    {                                                                                                                  \
        struct cudaMemcpy3DParms p;                                                                                    \
        void *at;                                                                                                      \
        DTRT_CONTEXT();                                                                                                \
        DTRT_TRY(symbol_at(symbol, n, offset, &at));                                                                   \
        DTRT_REQUIRE(dtrt_copy_1d(at, from, n, kind, &p), cudaErrorInvalidValue);                                      \
        return LONG;                                                                                                   \
    }                                                                                                                  \
    cudaError_t FRONT##FromSymbol(LEAD, void *to, const void *symbol, size_t n, size_t offset,                         \
                                  enum cudaMemcpyKind kind)                                                            \
    {                                                                                                                  \
        struct cudaMemcpy3DParms p;                                                                                    \
        void *at;                                                                                                      \
        DTRT_CONTEXT();                                                                                                \
        DTRT_TRY(symbol_at(symbol, n, offset, &at));                                                                   \
        DTRT_REQUIRE(dtrt_copy_1d(to, at, n, kind, &p), cudaErrorInvalidValue);                                        \
        return LONG;                                                                                                   \
    }
#define LEAD_SET cudaGraphNode_t node
#define LEAD_EXEC cudaGraphExec_t e, cudaGraphNode_t node
SHORT_FORMS(cudaGraphAddMemcpyNode, AFTER, cudaGraphAddMemcpyNode(ret, g, dep, ndep, &p))
SHORT_FORMS(cudaGraphMemcpyNodeSetParams, LEAD_SET, cudaGraphMemcpyNodeSetParams(node, &p))
SHORT_FORMS(cudaGraphExecMemcpyNodeSetParams, LEAD_EXEC, cudaGraphExecMemcpyNodeSetParams(e, node, &p))

/* ---- nodes of any kind ------------------------------------------------------------------------------------------- */
static cudaError_t node_params(const struct cudaGraphNodeParams *p, CUgraphNodeParams *ret)
{
    if (!p)
        return cudaErrorInvalidValue;
    memcpy(ret, p, sizeof *ret);
    if (p->type == cudaGraphNodeTypeConditional)
        return (cudaError_t)dtrt_refuse("a conditional node", "conditional nodes");
    if (p->type == cudaGraphNodeTypeKernel) {
        CUkernel k;
        cudaError_t e = dtrt_kernel(p->kernel.func, &k);
        memset(&ret->kernel, 0, sizeof ret->kernel);
        ret->kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = (CUfunction)(void *)k,
                                                   .gridDimX = p->kernel.gridDim.x,
                                                   .gridDimY = p->kernel.gridDim.y,
                                                   .gridDimZ = p->kernel.gridDim.z,
                                                   .blockDimX = p->kernel.blockDim.x,
                                                   .blockDimY = p->kernel.blockDim.y,
                                                   .blockDimZ = p->kernel.blockDim.z,
                                                   .sharedMemBytes = p->kernel.sharedMemBytes,
                                                   .kernelParams = p->kernel.kernelParams,
                                                   .extra = p->kernel.extra};
        return e;
    }
    if (p->type == cudaGraphNodeTypeMemcpy) {
        memset(&ret->memcpy, 0, sizeof ret->memcpy);
        ret->memcpy.copyCtx = context();
        return dtrt_copy_3d(&p->memcpy.copyParams, &ret->memcpy.copyParams);
    }
    if (p->type == cudaGraphNodeTypeMemset)
        ret->memset.ctx = context();
    return cudaSuccess;
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *ret, cudaGraph_t g, const cudaGraphNode_t *dep,
                             const cudaGraphEdgeData *edge, size_t ndep, struct cudaGraphNodeParams *p)
{
    CUgraphNodeParams q;
    DTRT_CONTEXT();
    DTRT_TRY(node_params(p, &q));
    CUresult r = dtrt_drv.cuGraphAddNode(ret, g, dep, (const CUgraphEdgeData *)edge, ndep, &q);
    if (r == CUDA_SUCCESS && p->type == cudaGraphNodeTypeMemAlloc)
        p->alloc.dptr = (void *)q.alloc.dptr;
    return dtrt_is(r);
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *p)
{
    CUgraphNodeParams q;
    DTRT_CONTEXT();
    DTRT_TRY(node_params(p, &q));
    return dtrt_is(dtrt_drv.cuGraphNodeSetParams(node, &q));
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node, struct cudaGraphNodeParams *p)
{
    CUgraphNodeParams q;
    DTRT_CONTEXT();
    DTRT_TRY(node_params(p, &q));
    return dtrt_is(dtrt_drv.cuGraphExecNodeSetParams(e, node, &q));
}
