/* Graphs: nodes, edges, parameters. What runs them is graph-exec.c.
 *
 * A node owns copies of everything it was given (parameter blocks included). Edges are kept as each node's list of predecessors; they must
 * not form a circle (checked when a graph is instantiated). Conditional, memory, semaphore and batch nodes are CUDA_ERROR_NOT_SUPPORTED.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

struct CUgraph_st *cu_graph_new(void)
{
    struct CUgraph_st *g = dt_calloc(1, sizeof *g);
    if (g)
        g->magic = CU_GRAPH;
    return g;
}

static void node_free(struct CUgraphNode_st *n)
{
    cu_launch_done(&n->launch);
    if (n->child)
        cu_graph_free(n->child);
    free(n->param_ptr);
    free(n->dep.p);
    free(n->edge.p);
    n->magic = 0;
    free(n);
}

void cu_graph_free(struct CUgraph_st *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->node.n; i++)
        node_free(g->node.p[i]);
    free(g->node.p);
    g->magic = 0;
    free(g);
}

CUresult cu_node_depend(struct CUgraphNode_st *n, struct CUgraphNode_st *on, const CUgraphEdgeData *edge)
{
    static const CUgraphEdgeData zero;
    const CUgraphEdgeData e = edge ? *edge : zero;
    bool programmatic = e.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    CU_REQUIRE(!e.to_port && !memcmp(e.reserved, zero.reserved, sizeof e.reserved), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(programmatic ? e.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC || e.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
                            : e.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && !e.from_port,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!programmatic || (n->type == CU_GRAPH_NODE_TYPE_KERNEL && on->type == CU_GRAPH_NODE_TYPE_KERNEL), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(dt_reserve(&n->edge, n->edge.n + 1) && dt_push(&n->dep, on), CUDA_ERROR_OUT_OF_MEMORY);
    n->edge.p[n->edge.n++] = e;
    return CUDA_SUCCESS;
}

CUresult cu_node_new(struct CUgraph_st *g, CUgraphNodeType type, const CUgraphNode *dep, size_t ndep,
                     struct CUgraphNode_st **ret)
{
    CU_REQUIRE(!ndep || dep, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < ndep; i++)
        CU_REQUIRE(CU_IS(dep[i], CU_NODE) && dep[i]->graph == g, CUDA_ERROR_INVALID_VALUE);
    struct CUgraphNode_st *n = dt_calloc(1, sizeof *n);
    CU_REQUIRE(n, CUDA_ERROR_OUT_OF_MEMORY);
    n->magic = CU_NODE;
    n->graph = g;
    n->type = type;
    bool ok = dt_push(&g->node, n);
    for (size_t i = 0; i < ndep && ok; i++)
        ok = cu_node_depend(n, dep[i], NULL) == CUDA_SUCCESS;
    if (!ok) {
        if (g->node.n && g->node.p[g->node.n - 1] == n)
            g->node.n--;
        node_free(n);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = n;
    return CUDA_SUCCESS;
}

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

/* Depth-first: predecessors first, in the order they were added. False: a circle. */
static bool visit(struct CUgraphNode_st *n, struct CUgraphNode_st **out, size_t *at)
{
    if (n->mark == 2)
        return true;
    if (n->mark == 1)
        return false;
    n->mark = 1;
    for (size_t i = 0; i < n->dep.n; i++)
        if (!visit(n->dep.p[i], out, at))
            return false;
    n->mark = 2;
    out[(*at)++] = n;
    return true;
}

CUresult cu_graph_clone(const struct CUgraph_st *g, bool sorted, struct CUgraph_st **ret)
{
    struct CUgraph_st *c = cu_graph_new();
    struct CUgraphNode_st **order = dt_reallocarray(NULL, g->node.n + 1, sizeof *order), *n;
    size_t at = 0;
    CUresult r = c && order ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->node.n; i++)
        g->node.p[i]->mark = 0;
    for (size_t i = 0; i < g->node.n && r == CUDA_SUCCESS; i++)
        if (sorted && !visit(g->node.p[i], order, &at))
            r = CUDA_ERROR_INVALID_VALUE;
        else if (!sorted)
            order[i] = g->node.p[i];
    for (size_t i = 0; i < g->node.n && r == CUDA_SUCCESS; i++) {
        struct CUgraphNode_st *o = order[i];
        r = cu_node_new(c, o->type, NULL, 0, &n);
        if (r != CUDA_SUCCESS)
            break;
        o->mark = (uint32_t)i;
        n->original = o;
        n->set = o->set, n->copy = o->copy, n->host = o->host, n->event = o->event;
        if (o->type == CU_GRAPH_NODE_TYPE_KERNEL) {
            struct cu_launch l = o->launch;
            l.params = dt_memdup(o->launch.params, o->launch.f->info->param_total + 1);
            r = l.params ? cu_node_set_launch(n, &l) : CUDA_ERROR_OUT_OF_MEMORY;
            cu_launch_done(&l);
        }
        if (o->child && r == CUDA_SUCCESS)
            r = cu_graph_clone(o->child, sorted, &n->child);
    }
    for (size_t i = 0; i < g->node.n && r == CUDA_SUCCESS; i++)
        for (size_t k = 0; k < order[i]->dep.n; k++)
            if (cu_node_depend(c->node.p[i], c->node.p[order[i]->dep.p[k]->mark], &order[i]->edge.p[k]) != CUDA_SUCCESS)
                r = CUDA_ERROR_OUT_OF_MEMORY;
    free(order);
    if (r != CUDA_SUCCESS)
        cu_graph_free(c);
    else
        *ret = c;
    return r;
}

CUresult cuGraphCreate(CUgraph *ret, unsigned flags)
{
    CU_READY();
    CU_REQUIRE(ret && !flags, CUDA_ERROR_INVALID_VALUE);
    *ret = cu_graph_new();
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph g)
{
    CU_READY();
    CU_REQUIRE(CU_IS(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    cu_graph_free(g);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *ret, CUgraph g)
{
    CU_READY();
    CU_REQUIRE(ret && CU_IS(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    return cu_graph_clone(g, false, ret);
}

/* ---- nodes ---- */
#define CU_NEW_NODE(c, n, g, type)                                                                                                 \
    CU_CONTEXT(c);                                                                                                                 \
    struct CUgraphNode_st *n;                                                                                                      \
    CU_REQUIRE(ret && CU_IS(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);                                                               \
    CU_TRY(cu_node_new(g, type, dep, ndep, &n))

static void take_back(struct CUgraphNode_st *n)
{
    n->graph->node.n--; /* it is the last */
    node_free(n);
}

CUresult cu_node_kernel_params(struct CUctx_st *c, const CUDA_KERNEL_NODE_PARAMS *p, struct cu_launch *ret)
{
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CUlaunchConfig cfg = {.gridDimX = p->gridDimX, .gridDimY = p->gridDimY, .gridDimZ = p->gridDimZ, .blockDimX = p->blockDimX,
                          .blockDimY = p->blockDimY, .blockDimZ = p->blockDimZ, .sharedMemBytes = p->sharedMemBytes};
    return cu_launch_make(c, p->func ? p->func : (CUfunction)(void *)p->kern, &cfg, p->kernelParams, p->extra, ret);
}

CUresult cuGraphAddKernelNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, const CUDA_KERNEL_NODE_PARAMS *p)
{
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_KERNEL);
    struct cu_launch l = {0};
    CUresult r = cu_node_kernel_params(c, p, &l);
    if (r == CUDA_SUCCESS)
        r = cu_node_set_launch(n, &l);
    cu_launch_done(&l);
    if (r != CUDA_SUCCESS)
        take_back(n);
    else
        *ret = n;
    return r;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, const CUDA_MEMCPY3D *p,
                              CUcontext ctx)
{
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_MEMCPY);
    CUresult r = p ? cu_copy_check(c, p) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        take_back(n);
        return r;
    }
    n->copy = *p;
    *ret = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_MEMSET);
    if (p)
        n->set = (struct cu_set){p->dst, p->pitch, p->width, p->height, p->value, p->elementSize};
    CUresult r = p ? cu_set_check(c, &n->set) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        take_back(n);
        return r;
    }
    *ret = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, const CUDA_HOST_NODE_PARAMS *p)
{
    CU_REQUIRE(p && p->fn, CUDA_ERROR_INVALID_VALUE);
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_HOST);
    n->host = *p;
    *ret = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep)
{
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_EMPTY);
    *ret = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUevent e)
{
    CU_REQUIRE(CU_IS(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    n->event = e;
    *ret = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUevent e)
{
    CU_REQUIRE(CU_IS(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    n->event = e;
    *ret = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUgraph child)
{
    CU_REQUIRE(CU_IS(child, CU_GRAPH) && child != g, CUDA_ERROR_INVALID_VALUE);
    CU_NEW_NODE(c, n, g, CU_GRAPH_NODE_TYPE_GRAPH);
    CUresult r = cu_graph_clone(child, false, &n->child);
    if (r != CUDA_SUCCESS)
        take_back(n);
    else
        *ret = n;
    return r;
}

static CUresult add_node(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUgraphNodeParams *p)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
        CUDA_KERNEL_NODE_PARAMS q = {.func = k->func, .gridDimX = k->gridDimX, .gridDimY = k->gridDimY, .gridDimZ = k->gridDimZ,
                                     .blockDimX = k->blockDimX, .blockDimY = k->blockDimY, .blockDimZ = k->blockDimZ,
                                     .sharedMemBytes = k->sharedMemBytes, .kernelParams = k->kernelParams, .extra = k->extra,
                                     .kern = k->kern};
        return cuGraphAddKernelNode(ret, g, dep, ndep, &q);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphAddMemcpyNode(ret, g, dep, ndep, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS q = {p->memset.dst, p->memset.pitch, p->memset.value, p->memset.elementSize, p->memset.width,
                                     p->memset.height};
        return cuGraphAddMemsetNode(ret, g, dep, ndep, &q, p->memset.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS q = {p->host.fn, p->host.userData};
        return cuGraphAddHostNode(ret, g, dep, ndep, &q);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(ret, g, dep, ndep, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(ret, g, dep, ndep);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return cuGraphAddEventRecordNode(ret, g, dep, ndep, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return cuGraphAddEventWaitNode(ret, g, dep, ndep, p->eventWait.event);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* Edges with data are added behind the node: one that is not allowed takes the node back. */
CUresult cuGraphAddNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, const CUgraphEdgeData *edge, size_t ndep, CUgraphNodeParams *p)
{
    CU_REQUIRE(p && ret && CU_IS(g, CU_GRAPH) && (!ndep || dep), CUDA_ERROR_INVALID_VALUE);
    CU_TRY(add_node(ret, g, dep, edge ? 0 : ndep, p));
    for (size_t i = 0; edge && i < ndep; i++) {
        CUresult r = CU_IS(dep[i], CU_NODE) && dep[i]->graph == g ? cu_node_depend(*ret, dep[i], &edge[i]) : CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS) {
            cuGraphDestroyNode(*ret);
            return r;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode n)
{
    CU_READY();
    CU_REQUIRE(CU_IS(n, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    struct CUgraph_st *g = n->graph;
    size_t at = 0;
    for (size_t i = 0; i < g->node.n; i++) {
        struct CUgraphNode_st *o = g->node.p[i];
        size_t k = 0;
        for (size_t d = 0; d < o->dep.n; d++)
            if (o->dep.p[d] != n) {
                o->edge.p[k] = o->edge.p[d];
                o->dep.p[k++] = o->dep.p[d];
            }
        o->dep.n = o->edge.n = k;
        if (o != n)
            g->node.p[at++] = o;
    }
    g->node.n = at;
    node_free(n);
    return CUDA_SUCCESS;
}

/* ---- node parameters ---- */
CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType *ret)
{
    CU_READY();
    CU_REQUIRE(ret && CU_IS(n, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    *ret = n->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *ret)
{
    CU_READY();
    CU_REQUIRE(ret && CU_IS(n, CU_NODE) && n->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
    const struct cu_launch *l = &n->launch;
    *ret = (CUDA_KERNEL_NODE_PARAMS){.func = l->f, .gridDimX = l->grid[0], .gridDimY = l->grid[1], .gridDimZ = l->grid[2],
                                     .blockDimX = l->block[0], .blockDimY = l->block[1], .blockDimZ = l->block[2],
                                     .sharedMemBytes = l->shared, .kernelParams = n->param_ptr};
    return CUDA_SUCCESS;
}

CUresult cu_node_new_params(struct CUctx_st *c, struct CUgraphNode_st *n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct cu_launch l = {0};
    uint32_t cluster[3];
    CU_TRY(cu_node_kernel_params(c, p, &l));
    memcpy(cluster, l.cluster[0] ? l.cluster : n->launch.cluster, sizeof cluster);
    CUresult r = cu_cluster_check(l.f, l.grid, cluster);
    memcpy(l.cluster, cluster, sizeof cluster);
    l.programmatic = n->launch.programmatic;
    if (r == CUDA_SUCCESS)
        r = cu_node_set_launch(n, &l);
    cu_launch_done(&l);
    return r;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(CU_IS(n, CU_NODE) && n->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
    return cu_node_new_params(c, n, p);
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode n, CUkernelNodeAttrID id, const CUkernelNodeAttrValue *v)
{
    CU_READY();
    CU_REQUIRE(v && CU_IS(n, CU_NODE) && n->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
        struct cu_launch *l = &n->launch;
        uint32_t size[3] = {v->clusterDim.x, v->clusterDim.y, v->clusterDim.z};
        CU_REQUIRE(size[0] && size[1] && size[2], CUDA_ERROR_INVALID_CLUSTER_SIZE);
        CU_TRY(cu_cluster_check(l->f, l->grid, size));
        memcpy(l->cluster, size, sizeof size);
        return CUDA_SUCCESS;
    }
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: n->launch.programmatic = v->programmaticStreamSerializationAllowed != 0; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: return v->cooperative ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode n, CUkernelNodeAttrID id, CUkernelNodeAttrValue *ret)
{
    CU_READY();
    CU_REQUIRE(ret && CU_IS(n, CU_NODE) && n->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CUDA_ERROR_NOT_SUPPORTED);
    const uint32_t *c = n->launch.cluster;
    memset(ret, 0, sizeof *ret);
    ret->clusterDim.x = c[0], ret->clusterDim.y = c[1], ret->clusterDim.z = c[2];
    return CUDA_SUCCESS;
}

/* ---- edges ---- */
CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edge, size_t n)
{
    CU_READY();
    CU_REQUIRE(CU_IS(g, CU_GRAPH) && (!n || (from && to)), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        CU_REQUIRE(CU_IS(from[i], CU_NODE) && CU_IS(to[i], CU_NODE), CUDA_ERROR_INVALID_VALUE);
        CU_REQUIRE(from[i]->graph == g && to[i]->graph == g && from[i] != to[i], CUDA_ERROR_INVALID_VALUE);
    }
    for (size_t i = 0; i < n; i++)
        CU_TRY(cu_node_depend(to[i], from[i], edge ? &edge[i] : NULL));
    return CUDA_SUCCESS;
}

CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edge,
                                   size_t n)
{
    CU_READY();
    CU_REQUIRE(CU_IS(g, CU_GRAPH) && (!n || (from && to)), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        CU_REQUIRE(CU_IS(to[i], CU_NODE) && to[i]->graph == g, CUDA_ERROR_INVALID_VALUE);
        for (size_t k = 0; k < to[i]->dep.n; k++)
            if (to[i]->dep.p[k] == from[i]) {
                to[i]->dep.p[k] = to[i]->dep.p[--to[i]->dep.n];
                to[i]->edge.p[k] = to[i]->edge.p[--to[i]->edge.n];
                break;
            }
    }
    return CUDA_SUCCESS;
}

/* The usual way of lists: with `out` NULL only the number; else at most *n, the rest of the room NULL. */
static CUresult list(CUgraphNode *out, size_t *n, CUgraphNode *const *all, size_t count)
{
    CU_REQUIRE(n, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; out && i < *n; i++)
        out[i] = i < count ? (*all)[i] : NULL;
    if (!out || *n > count)
        *n = count;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *out, size_t *n)
{
    CU_READY();
    CU_REQUIRE(CU_IS(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    return list(out, n, &g->node.p, g->node.n);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edge, size_t *n)
{
    CU_READY();
    CU_REQUIRE(CU_IS(node, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; n && edge && i < *n && i < node->edge.n; i++)
        edge[i] = node->edge.p[i];
    return list(out, n, &node->dep.p, node->dep.n);
}

CUresult cuGraphGetRootNodes(CUgraph g, CUgraphNode *out, size_t *n)
{
    CU_READY();
    CU_REQUIRE(CU_IS(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    struct dt_vec(CUgraphNode) v = {0};
    for (size_t i = 0; i < g->node.n; i++)
        if (!g->node.p[i]->dep.n && !dt_push(&v, g->node.p[i])) {
            free(v.p);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    CUresult r = list(out, n, &v.p, v.n);
    free(v.p);
    return r;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edge, size_t *n)
{
    CU_READY();
    CU_REQUIRE(CU_IS(node, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    struct dt_vec(CUgraphNode) v = {0};
    for (size_t i = 0; i < node->graph->node.n; i++)
        for (size_t k = 0; k < node->graph->node.p[i]->dep.n; k++)
            if (node->graph->node.p[i]->dep.p[k] == node && !dt_push(&v, node->graph->node.p[i])) {
                free(v.p);
                return CUDA_ERROR_OUT_OF_MEMORY;
            }
    CUresult r = list(out, n, &v.p, v.n);
    free(v.p);
    return r;
}

CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edge, size_t *n)
{
    CU_READY();
    CU_REQUIRE(n && CU_IS(g, CU_GRAPH) && !from == !to, CUDA_ERROR_INVALID_VALUE);
    size_t count = 0;
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t k = 0; k < g->node.p[i]->dep.n; k++, count++)
            if (from && count < *n) {
                from[count] = g->node.p[i]->dep.p[k];
                to[count] = g->node.p[i];
                if (edge)
                    edge[count] = g->node.p[i]->edge.p[k];
            }
    *n = from && *n < count ? *n : count;
    return CUDA_SUCCESS;
}
