/* Parameters of graph nodes: set, read back, copied.
 *
 * Everything goes through cu_node_set, whose CUgraphNodeParams names every kind of node; the entries for single kinds
 * wrap it. A node in an exec is found by the node of the original graph (cu_graph_find) and set in the same way.
 * Conditional nodes and nodes of external semaphores are CUDA_ERROR_NOT_SUPPORTED.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult cu_node_set_launch(struct CUgraphNode_st *n, struct cu_launch *l)
{
    const struct sg_kernel_info *k = l->f->info;
    void **ptr = dt_reallocarray(NULL, k->nparam + 1, sizeof *ptr);
    CU_REQUIRE(ptr, CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = 0; i < k->nparam; i++)
        ptr[i] = l->params + k->param_offset[i];
    cu_launch_done(&n->launch);
    free(n->param_ptr);
    n->param_ptr = ptr;
    n->launch = *l;
    l->params = NULL;
    return CUDA_SUCCESS;
}

static CUresult set_kernel(struct CUctx_st *c, struct CUgraphNode_st *n, const CUDA_KERNEL_NODE_PARAMS_v3 *p)
{
    struct cu_launch l = {0};
    CUlaunchConfig cfg = {.gridDimX = p->gridDimX,
                          .gridDimY = p->gridDimY,
                          .gridDimZ = p->gridDimZ,
                          .blockDimX = p->blockDimX,
                          .blockDimY = p->blockDimY,
                          .blockDimZ = p->blockDimZ,
                          .sharedMemBytes = p->sharedMemBytes};
    CU_TRY(cu_launch_make(c, p->func ? p->func : (CUfunction)(void *)p->kern, &cfg, p->kernelParams, p->extra, &l));
    CUresult r = CUDA_SUCCESS;
    if (n->launch.params) { /* other parameters for a node that has some: its attributes stay */
        uint32_t cluster[3];
        memcpy(cluster, l.cluster[0] ? l.cluster : n->launch.cluster, sizeof cluster);
        r = cu_cluster_check(l.f, l.grid, cluster);
        memcpy(l.cluster, cluster, sizeof cluster);
        l.programmatic = n->launch.programmatic, l.cooperative = n->launch.cooperative;
        l.priority = n->launch.priority, l.window = n->launch.window;
    }
    if (r == CUDA_SUCCESS)
        r = cu_node_set_launch(n, &l);
    cu_launch_done(&l);
    return r;
}

CUresult cu_node_set(struct CUctx_st *c, struct CUgraphNode_st *n, const CUgraphNodeParams *p)
{
    CU_REQUIRE(p && p->type == n->type, CUDA_ERROR_INVALID_VALUE);
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return set_kernel(c, n, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        CU_TRY(cu_copy_check(c, &p->memcpy.copyParams));
        n->copy = p->memcpy.copyParams;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        const CUDA_MEMSET_NODE_PARAMS_v2 *m = &p->memset;
        struct cu_set s = {m->dst, m->pitch, m->width, m->height, m->value, m->elementSize};
        CU_TRY(cu_set_check(c, &s, true));
        n->set = s;
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
        CU_REQUIRE(p->host.fn, CUDA_ERROR_INVALID_VALUE);
        n->host = (CUDA_HOST_NODE_PARAMS){p->host.fn, p->host.userData};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
        CUevent e = p->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? p->eventWait.event : p->eventRecord.event;
        CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
        n->event = e;
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        CU_REQUIRE(!n->memory, CUDA_ERROR_NOT_SUPPORTED); /* where it lies is decided once */
        CU_REQUIRE(p->alloc.bytesize && p->alloc.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                       p->alloc.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                       cu_device_at(p->alloc.poolProps.location.id),
                   CUDA_ERROR_INVALID_VALUE);
        CU_REQUIRE(p->alloc.poolProps.handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
        CU_TRY(cu_graph_memory_new(cu_device_at(p->alloc.poolProps.location.id), p->alloc.bytesize, &n->memory));
        n->alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){
            .poolProps = p->alloc.poolProps, .bytesize = p->alloc.bytesize, .dptr = cu_graph_memory_address(n->memory)};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        CU_REQUIRE(cu_graph_memory_starts(p->free.dptr), CUDA_ERROR_INVALID_VALUE);
        n->free = p->free.dptr;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CU_TRY(cu_memop_check(c, p->memOp.count, p->memOp.paramArray, p->memOp.flags));
        CUstreamBatchMemOpParams *op = dt_memdup(p->memOp.paramArray, p->memOp.count * sizeof *op);
        CU_REQUIRE(op, CUDA_ERROR_OUT_OF_MEMORY);
        free(n->op);
        n->op = op;
        n->nop = p->memOp.count;
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: /* its graph is cloned by who adds it */
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cu_node_copy(struct CUgraphNode_st *to, const struct CUgraphNode_st *from)
{
    to->set = from->set, to->copy = from->copy, to->host = from->host, to->event = from->event, to->free = from->free;
    if (from->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        struct cu_launch l = from->launch;
        CU_REQUIRE(!cu_launch_stale(&l), CUDA_ERROR_INVALID_HANDLE);
        l.params = dt_memdup(from->launch.params, l.param_total + 1);
        CU_REQUIRE(l.params, CUDA_ERROR_OUT_OF_MEMORY);
        CUresult r = cu_node_set_launch(to, &l);
        cu_launch_done(&l);
        return r;
    }
    if (from->memory != to->memory) {
        cu_graph_memory_drop(to->memory);
        to->memory = cu_graph_memory_share(from->memory);
        to->alloc = from->alloc;
    }
    if (from->nop) {
        CUstreamBatchMemOpParams *op = dt_memdup(from->op, from->nop * sizeof *op);
        CU_REQUIRE(op, CUDA_ERROR_OUT_OF_MEMORY);
        free(to->op);
        to->op = op;
        to->nop = from->nop;
    }
    return CUDA_SUCCESS;
}

static bool is(CUgraphNode n, CUgraphNodeType type) { return cu_is(n, CU_NODE) && n->type == type; }

/* The node of an exec that answers to `node`, if that is of the type. */
static CUresult in_exec(CUgraphExec x, CUgraphNode node, CUgraphNodeType type, struct CUgraphNode_st **ret)
{
    CU_REQUIRE(cu_is(x, CU_EXEC) && is(node, type), CUDA_ERROR_INVALID_VALUE);
    *ret = cu_graph_find(x->graph, node->id);
    CU_REQUIRE(*ret && (*ret)->type == type, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType *ret)
{
    CU_READY();
    CU_REQUIRE(ret && cu_is(n, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    *ret = n->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetParams(CUgraphNode n, CUgraphNodeParams *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p && cu_is(n, CU_NODE) && p->type != CU_GRAPH_NODE_TYPE_GRAPH, CUDA_ERROR_INVALID_VALUE);
    return cu_node_set(c, n, p);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraphNodeParams *p)
{
    CU_CONTEXT(c);
    struct CUgraphNode_st *n;
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(p->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && p->type != CU_GRAPH_NODE_TYPE_MEM_FREE,
               CUDA_ERROR_NOT_SUPPORTED);
    CU_TRY(in_exec(x, node, p->type, &n));
    return p->type == CU_GRAPH_NODE_TYPE_GRAPH ? cuGraphExecChildGraphNodeSetParams(x, node, p->graph.graph)
                                               : cu_node_set(c, n, p);
}

/* ---- entries of one kind each: in a graph and, behind EXEC, in an exec ---- */
#define NODE(kind) CU_REQUIRE(is(n, CU_GRAPH_NODE_TYPE_##kind), CUDA_ERROR_INVALID_VALUE)
#define EXEC(kind)                                                                                                     \
    CU_CONTEXT(c);                                                                                                     \
    struct CUgraphNode_st *n;                                                                                          \
    CU_TRY(in_exec(x, node, CU_GRAPH_NODE_TYPE_##kind, &n))

static CUgraphNodeParams graph_node_kernel(const CUDA_KERNEL_NODE_PARAMS *p)
{
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    q.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = p->func,
                                            .gridDimX = p->gridDimX,
                                            .gridDimY = p->gridDimY,
                                            .gridDimZ = p->gridDimZ,
                                            .blockDimX = p->blockDimX,
                                            .blockDimY = p->blockDimY,
                                            .blockDimZ = p->blockDimZ,
                                            .sharedMemBytes = p->sharedMemBytes,
                                            .kernelParams = p->kernelParams,
                                            .extra = p->extra,
                                            .kern = p->func ? NULL : p->kern};
    return q;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(KERNEL);
    const struct cu_launch *l = &n->launch;
    CU_REQUIRE(!cu_launch_stale(l), CUDA_ERROR_INVALID_HANDLE);
    *ret = (CUDA_KERNEL_NODE_PARAMS){.func = l->f,
                                     .gridDimX = l->grid[0],
                                     .gridDimY = l->grid[1],
                                     .gridDimZ = l->grid[2],
                                     .blockDimX = l->block[0],
                                     .blockDimY = l->block[1],
                                     .blockDimZ = l->block[2],
                                     .sharedMemBytes = l->shared,
                                     .kernelParams = n->param_ptr};
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    NODE(KERNEL);
    CUgraphNodeParams q = graph_node_kernel(p);
    return cu_node_set(c, n, &q);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec x, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    EXEC(KERNEL);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams q = graph_node_kernel(p);
    return cu_node_set(c, n, &q);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode n, CUDA_MEMCPY3D *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(MEMCPY);
    *ret = n->copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    NODE(MEMCPY);
    CU_TRY(cu_copy_check(c, p));
    n->copy = *p;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec x, CUgraphNode node, const CUDA_MEMCPY3D *p, CUcontext ctx)
{
    EXEC(MEMCPY);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!ctx || cu_is(ctx, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_TRY(cu_copy_check(c, p));
    n->copy = *p;
    return CUDA_SUCCESS;
}

static CUgraphNodeParams set_params(const CUDA_MEMSET_NODE_PARAMS *p)
{
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    q.memset = (CUDA_MEMSET_NODE_PARAMS_v2){p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, NULL};
    return q;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode n, CUDA_MEMSET_NODE_PARAMS *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(MEMSET);
    *ret =
        (CUDA_MEMSET_NODE_PARAMS){n->set.dst, n->set.pitch, n->set.value, n->set.element, n->set.width, n->set.height};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    NODE(MEMSET);
    CUgraphNodeParams q = set_params(p);
    return cu_node_set(c, n, &q);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec x, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p,
                                        CUcontext ctx)
{
    EXEC(MEMSET);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!ctx || cu_is(ctx, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CUgraphNodeParams q = set_params(p);
    return cu_node_set(c, n, &q);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode n, CUDA_HOST_NODE_PARAMS *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(HOST);
    *ret = n->host;
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p)
{
    CU_READY();
    CU_REQUIRE(p && p->fn, CUDA_ERROR_INVALID_VALUE);
    NODE(HOST);
    n->host = *p;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec x, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p)
{
    EXEC(HOST);
    CU_REQUIRE(p && p->fn, CUDA_ERROR_INVALID_VALUE);
    n->host = *p;
    return CUDA_SUCCESS;
}

#define EVENT_NODE(name, kind)                                                                                         \
    CUresult cuGraph##name##NodeGetEvent(CUgraphNode n, CUevent *ret)                                                  \
    {                                                                                                                  \
        CU_READY();                                                                                                    \
        CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);                                                                     \
        NODE(kind);                                                                                                    \
        *ret = n->event;                                                                                               \
        return CUDA_SUCCESS;                                                                                           \
    }                                                                                                                  \
    CUresult cuGraph##name##NodeSetEvent(CUgraphNode n, CUevent e)                                                     \
    {                                                                                                                  \
        CU_READY();                                                                                                    \
        NODE(kind);                                                                                                    \
        CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);                                                     \
        n->event = e;                                                                                                  \
        return CUDA_SUCCESS;                                                                                           \
    }                                                                                                                  \
    CUresult cuGraphExec##name##NodeSetEvent(CUgraphExec x, CUgraphNode node, CUevent e)                               \
    {                                                                                                                  \
        EXEC(kind);                                                                                                    \
        CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);                                                     \
        n->event = e;                                                                                                  \
        return CUDA_SUCCESS;                                                                                           \
    }
EVENT_NODE(EventRecord, EVENT_RECORD)
EVENT_NODE(EventWait, WAIT_EVENT)

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(GRAPH);
    *ret = n->child;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraph child)
{
    EXEC(GRAPH);
    CU_REQUIRE(cu_is(child, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    struct CUgraph_st *fresh;
    CU_REQUIRE(!x->busy, CUDA_ERROR_ILLEGAL_STATE);
    CU_TRY(cu_graph_clone(child, true, &fresh));
    CUgraphExecUpdateResult why = cu_graph_compare(n->child, fresh, NULL);
    if (why == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        why = cu_graph_take(n->child, fresh) == CUDA_SUCCESS ? why : CU_GRAPH_EXEC_UPDATE_ERROR;
    cu_graph_free(fresh);
    return why == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(MEM_ALLOC);
    *ret = n->alloc;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(MEM_FREE);
    *ret = n->free;
    return CUDA_SUCCESS;
}

static CUgraphNodeParams memop(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    q.memOp.count = p->count;
    q.memOp.paramArray = p->paramArray;
    q.memOp.flags = p->flags;
    return q;
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode n, CUDA_BATCH_MEM_OP_NODE_PARAMS *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(BATCH_MEM_OP);
    *ret = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.count = n->nop, .paramArray = n->op};
    return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    NODE(BATCH_MEM_OP);
    CUgraphNodeParams q = memop(p);
    return cu_node_set(c, n, &q);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec x, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    EXEC(BATCH_MEM_OP);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams q = memop(p);
    return cu_node_set(c, n, &q);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec x, CUgraphNode node, unsigned enabled)
{
    CU_READY();
    CU_REQUIRE(cu_is(x, CU_EXEC) && cu_is(node, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    struct CUgraphNode_st *n = cu_graph_find(x->graph, node->id);
    CU_REQUIRE(n && (n->type == CU_GRAPH_NODE_TYPE_KERNEL || n->type == CU_GRAPH_NODE_TYPE_MEMCPY ||
                     n->type == CU_GRAPH_NODE_TYPE_MEMSET),
               CUDA_ERROR_INVALID_VALUE);
    n->disabled = !enabled;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec x, CUgraphNode node, unsigned *ret)
{
    CU_READY();
    CU_REQUIRE(ret && cu_is(x, CU_EXEC) && cu_is(node, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    struct CUgraphNode_st *n = cu_graph_find(x->graph, node->id);
    CU_REQUIRE(n, CUDA_ERROR_INVALID_VALUE);
    *ret = !n->disabled;
    return CUDA_SUCCESS;
}

/* ---- attributes of kernel nodes ---- */
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode n, CUkernelNodeAttrID id, const CUkernelNodeAttrValue *v)
{
    CU_CONTEXT(c);
    CU_REQUIRE(v, CUDA_ERROR_INVALID_VALUE);
    NODE(KERNEL);
    CU_REQUIRE(!cu_launch_stale(&n->launch), CUDA_ERROR_INVALID_HANDLE);
    CUlaunchAttribute a = {.id = id, .value = *v};
    return cu_launch_attribute(&n->launch, &a);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode n, CUkernelNodeAttrID id, CUkernelNodeAttrValue *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    NODE(KERNEL);
    return cu_launch_get_attribute(&n->launch, id, ret);
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    CU_READY();
    CU_REQUIRE(is(to, CU_GRAPH_NODE_TYPE_KERNEL) && is(from, CU_GRAPH_NODE_TYPE_KERNEL), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 3; i++)
        CU_REQUIRE(!from->launch.cluster[i] || to->launch.grid[i] % from->launch.cluster[i] == 0,
                   CUDA_ERROR_INVALID_VALUE);
    memcpy(to->launch.cluster, from->launch.cluster, sizeof to->launch.cluster);
    to->launch.cooperative = from->launch.cooperative;
    to->launch.programmatic = from->launch.programmatic;
    to->launch.priority = from->launch.priority;
    to->launch.window = from->launch.window;
    return CUDA_SUCCESS;
}
