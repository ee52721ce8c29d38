/* Graphs: nodes, edges, copies. Parameters of nodes are in graph-node.c; what runs them is graph-exec.c.
 *
 * A node owns copies of everything it was given (parameter blocks included). Edges are kept as each node's list of
 * predecessors; they must not form a circle (checked when a graph is instantiated). A node has a number for life (id),
 * by which its copies know it: a copy in an exec or a clone outlives the node, and another node may get its address.
 * Graphs nest at most 64 deep.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

#define NEST_MAX 64

struct CUgraph_st *cu_graph_new(void)
{
    static unsigned last;
    struct CUgraph_st *g = dt_calloc(1, sizeof *g);
    if (g && !cu_handle_add(g, CU_GRAPH)) {
        free(g);
        return NULL;
    }
    if (g)
        g->id = ++last;
    return g;
}

static void cu_node_free(struct CUgraphNode_st *n)
{
    cu_launch_done(&n->launch);
    if (n->child)
        cu_graph_free(n->child);
    cu_graph_memory_drop(n->memory);
    free(n->op);
    free(n->param_ptr);
    free(n->dep.p);
    free(n->edge.p);
    cu_handle_free(n);
}

void cu_graph_free(struct CUgraph_st *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->node.n; i++)
        cu_node_free(g->node.p[i]);
    for (size_t i = 0; i < g->object.n; i++)
        cu_user_object_drop(g->object.p[i], 1);
    free(g->object.p);
    free(g->node.p);
    cu_handle_free(g);
}

/* `edge` NULL: an ordinary one. Programmatic ones are between kernels. */
static CUresult cu_node_depend(struct CUgraphNode_st *n, struct CUgraphNode_st *on, const CUgraphEdgeData *edge)
{
    static const CUgraphEdgeData zero;
    const CUgraphEdgeData e = edge ? *edge : zero;
    bool programmatic = e.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    CU_REQUIRE(!e.to_port && !memcmp(e.reserved, zero.reserved, sizeof e.reserved), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(programmatic ? e.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                                  e.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
                            : e.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT && !e.from_port,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!programmatic || (n->type == CU_GRAPH_NODE_TYPE_KERNEL && on->type == CU_GRAPH_NODE_TYPE_KERNEL),
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(dt_reserve(&n->edge, n->edge.n + 1) && dt_push(&n->dep, on), CUDA_ERROR_OUT_OF_MEMORY);
    n->edge.p[n->edge.n++] = e;
    return CUDA_SUCCESS;
}

CUresult cu_node_new(struct CUgraph_st *g, CUgraphNodeType type, const CUgraphNode *dep, size_t ndep,
                     struct CUgraphNode_st **ret)
{
    static uint64_t last;
    static uint32_t tag = 1u << 31; /* above every number that `mark` holds otherwise */
    CU_REQUIRE(!ndep || dep, CUDA_ERROR_INVALID_VALUE);
    tag = tag == UINT32_MAX ? 1u << 31 : tag + 1;
    for (size_t i = 0; i < ndep; i++) {
        CU_REQUIRE(cu_is(dep[i], CU_NODE) && dep[i]->graph == g && dep[i]->mark != tag, CUDA_ERROR_INVALID_VALUE);
        dep[i]->mark = tag; /* twice the same is refused */
    }
    struct CUgraphNode_st *n = dt_calloc(1, sizeof *n);
    CU_REQUIRE(n, CUDA_ERROR_OUT_OF_MEMORY);
    n->graph = g;
    n->type = type;
    n->id = ++last;
    bool ok = cu_handle_add(n, CU_NODE);
    for (size_t i = 0; i < ndep && ok; i++)
        ok = cu_node_depend(n, dep[i], NULL) == CUDA_SUCCESS;
    if (!ok || !dt_push(&g->node, n)) {
        cu_node_free(n);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = n;
    return CUDA_SUCCESS;
}

/* Predecessors first, else in the order they were added, by depth-first search with a stack of its own (a chain may be
 * long). A circle: CUDA_ERROR_INVALID_VALUE. `out` has room for all. */
static CUresult sort(const struct CUgraph_st *g, struct CUgraphNode_st **out)
{
    struct frame {
        struct CUgraphNode_st *n;
        size_t next;
    } *stack = dt_reallocarray(NULL, g->node.n + 1, sizeof *stack);
    size_t at = 0, depth = 0;
    CU_REQUIRE(stack, CUDA_ERROR_OUT_OF_MEMORY);
    enum { NEW, OPEN, DONE };
    for (size_t i = 0; i < g->node.n; i++)
        g->node.p[i]->mark = NEW;
    for (size_t i = 0; i < g->node.n; i++) {
        if (g->node.p[i]->mark != NEW)
            continue;
        g->node.p[i]->mark = OPEN;
        stack[depth++] = (struct frame){g->node.p[i], 0};
        while (depth) {
            struct frame *f = &stack[depth - 1];
            if (f->next == f->n->dep.n) {
                f->n->mark = DONE;
                out[at++] = f->n;
                depth--;
                continue;
            }
            struct CUgraphNode_st *d = f->n->dep.p[f->next++];
            if (d->mark == OPEN) {
                free(stack);
                return CUDA_ERROR_INVALID_VALUE;
            }
            if (d->mark == NEW) {
                d->mark = OPEN;
                stack[depth++] = (struct frame){d, 0};
            }
        }
    }
    free(stack);
    return CUDA_SUCCESS;
}

CUresult cu_graph_clone(const struct CUgraph_st *g, bool sorted, struct CUgraph_st **ret)
{
    struct CUgraph_st *c = cu_graph_new();
    struct CUgraphNode_st **order = dt_reallocarray(NULL, g->node.n + 1, sizeof *order), *n;
    CUresult r = c && order ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && sorted)
        r = sort(g, order);
    for (size_t i = 0; i < g->node.n && r == CUDA_SUCCESS && !sorted; i++)
        order[i] = g->node.p[i];
    for (size_t i = 0; i < g->node.n && r == CUDA_SUCCESS; i++) {
        struct CUgraphNode_st *o = order[i];
        r = cu_node_new(c, o->type, NULL, 0, &n);
        if (r != CUDA_SUCCESS)
            break;
        o->mark = (uint32_t)i;
        n->original = o->id;
        n->disabled = o->disabled;
        r = cu_node_copy(n, o);
        if (o->child && r == CUDA_SUCCESS) {
            r = cu_graph_clone(o->child, sorted, &n->child);
            if (r == CUDA_SUCCESS)
                n->child->owner = n;
        }
    }
    for (size_t i = 0; i < g->node.n && r == CUDA_SUCCESS; i++)
        for (size_t k = 0; k < order[i]->dep.n; k++)
            if (cu_node_depend(c->node.p[i], c->node.p[order[i]->dep.p[k]->mark], &order[i]->edge.p[k]) != CUDA_SUCCESS)
                r = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->object.n && r == CUDA_SUCCESS; i++)
        if (dt_push(&c->object, g->object.p[i]))
            g->object.p[i]->refs++;
        else
            r = CUDA_ERROR_OUT_OF_MEMORY;
    free(order);
    for (size_t i = 0; sorted && c && i < c->node.n; i++)
        cu_handle_drop(c->node.p[i]); /* nothing of an exec is for the program */
    if (sorted)
        cu_handle_drop(c);
    if (r != CUDA_SUCCESS)
        cu_graph_free(c);
    else
        *ret = c;
    return r;
}

struct CUgraphNode_st *cu_graph_find(struct CUgraph_st *g, uint64_t id)
{
    for (size_t i = 0; i < g->node.n; i++) {
        struct CUgraphNode_st *n = g->node.p[i];
        if (n->original == id || n->id == id)
            return n;
        struct CUgraphNode_st *in = n->child ? cu_graph_find(n->child, id) : NULL;
        if (in)
            return in;
    }
    return NULL;
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
    CU_REQUIRE(cu_is(g, CU_GRAPH) && !g->owner && !g->capturing, CUDA_ERROR_INVALID_VALUE);
    cu_graph_free(g);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *ret, CUgraph g)
{
    CU_READY();
    CU_REQUIRE(ret && cu_is(g, CU_GRAPH) && !g->capturing, CUDA_ERROR_INVALID_VALUE);
    return cu_graph_clone(g, false, ret);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *ret, CUgraphNode node, CUgraph clone)
{
    CU_READY();
    CU_REQUIRE(ret && cu_is(node, CU_NODE) && cu_is(clone, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < clone->node.n; i++)
        if (clone->node.p[i]->original == node->id) {
            *ret = clone->node.p[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- nodes ---- */
static bool has_edge(const struct CUgraphNode_st *from, const struct CUgraphNode_st *to)
{
    for (size_t i = 0; i < to->dep.n; i++)
        if (to->dep.p[i] == from)
            return true;
    return false;
}

static unsigned height(const struct CUgraph_st *g)
{
    unsigned most = 0;
    for (size_t i = 0; i < g->node.n; i++) {
        unsigned h = g->node.p[i]->child ? height(g->node.p[i]->child) : 0;
        most = h > most ? h : most;
    }
    return most + 1;
}

/* A new node with the parameters p, unless they are wrong. */
static CUresult graph_add(struct CUctx_st *c, CUgraphNode *ret, struct CUgraph_st *g, const CUgraphNode *dep,
                          size_t ndep, const CUgraphNodeParams *p)
{
    struct CUgraphNode_st *n;
    CU_REQUIRE(ret && cu_is(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_node_new(g, p->type, dep, ndep, &n));
    CUresult r = cu_node_set(c, n, p);
    if (r == CUDA_SUCCESS && p->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        CUgraph child = p->graph.graph;
        unsigned above = 1;
        for (const struct CUgraph_st *a = g; a->owner; a = a->owner->graph)
            above++;
        r = !cu_is(child, CU_GRAPH) || child == g || child->capturing || above + height(child) > NEST_MAX
                ? CUDA_ERROR_INVALID_VALUE
                : cu_graph_clone(child, false, &n->child);
        if (r == CUDA_SUCCESS)
            n->child->owner = n;
    }
    if (r != CUDA_SUCCESS) {
        g->node.n--; /* it is the last */
        cu_node_free(n);
        return r;
    }
    *ret = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, const CUgraphEdgeData *edge, size_t ndep,
                        CUgraphNodeParams *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!ndep || dep, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(graph_add(c, ret, g, dep, edge ? 0 : ndep, p));
    for (size_t i = 0; edge && i < ndep; i++) { /* one that is not allowed takes the node back */
        CUresult r = cu_is(dep[i], CU_NODE) && dep[i]->graph == g && dep[i] != *ret && !has_edge(dep[i], *ret)
                         ? cu_node_depend(*ret, dep[i], &edge[i])
                         : CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS) {
            g->node.n--; /* it is the last */
            cu_node_free(*ret);
            *ret = NULL;
            return r;
        }
    }
    if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        p->alloc.dptr = (*ret)->alloc.dptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep,
                              const CUDA_KERNEL_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
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
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, const CUDA_MEMCPY3D *p,
                              CUcontext ctx)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!ctx || cu_is(ctx, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    q.memcpy.copyParams = *p;
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!ctx || cu_is(ctx, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    q.memset = (CUDA_MEMSET_NODE_PARAMS_v2){p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, c};
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddHostNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep,
                            const CUDA_HOST_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_HOST};
    q.host.fn = p->fn;
    q.host.userData = p->userData;
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep)
{
    CU_CONTEXT(c);
    return graph_add(c, ret, g, dep, ndep, &(CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY});
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUevent e)
{
    CU_CONTEXT(c);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
    q.eventRecord.event = e;
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUevent e)
{
    CU_CONTEXT(c);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};
    q.eventWait.event = e;
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUgraph child)
{
    CU_CONTEXT(c);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    q.graph.graph = child;
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep,
                                CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    q.alloc.poolProps = p->poolProps;
    q.alloc.bytesize = p->bytesize;
    CU_TRY(graph_add(c, ret, g, dep, ndep, &q));
    p->dptr = (*ret)->alloc.dptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep, CUdeviceptr p)
{
    CU_CONTEXT(c);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    q.free.dptr = p;
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *ret, CUgraph g, const CUgraphNode *dep, size_t ndep,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    q.memOp.count = p->count;
    q.memOp.paramArray = p->paramArray;
    q.memOp.flags = p->flags;
    return graph_add(c, ret, g, dep, ndep, &q);
}

CUresult cuGraphDestroyNode(CUgraphNode n)
{
    CU_READY();
    CU_REQUIRE(cu_is(n, CU_NODE) && !n->graph->capturing, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && n->type != CU_GRAPH_NODE_TYPE_MEM_FREE,
               CUDA_ERROR_NOT_SUPPORTED);
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
    cu_node_free(n);
    return CUDA_SUCCESS;
}

/* ---- edges ---- */
CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edge,
                                size_t n)
{
    CU_READY();
    CU_REQUIRE(cu_is(g, CU_GRAPH) && (!n || (from && to)), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        CU_REQUIRE(cu_is(from[i], CU_NODE) && cu_is(to[i], CU_NODE), CUDA_ERROR_INVALID_VALUE);
        CU_REQUIRE(from[i]->graph == g && to[i]->graph == g && from[i] != to[i], CUDA_ERROR_INVALID_VALUE);
        CU_REQUIRE(!has_edge(from[i], to[i]), CUDA_ERROR_INVALID_VALUE);
    }
    for (size_t i = 0; i < n; i++)
        CU_TRY(cu_node_depend(to[i], from[i], edge ? &edge[i] : NULL));
    return CUDA_SUCCESS;
}

CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edge, size_t n)
{
    CU_READY();
    CU_REQUIRE(cu_is(g, CU_GRAPH) && (!n || (from && to)), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        CU_REQUIRE(cu_is(to[i], CU_NODE) && to[i]->graph == g && has_edge(from[i], to[i]), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < to[i]->dep.n; k++)
            if (to[i]->dep.p[k] == from[i]) {
                to[i]->dep.p[k] = to[i]->dep.p[--to[i]->dep.n];
                to[i]->edge.p[k] = to[i]->edge.p[--to[i]->edge.n];
                break;
            }
    return CUDA_SUCCESS;
}

/* The usual way of lists: with `out` NULL only the number; else at most *n, the rest of the room NULL. */
static CUresult graph_list(CUgraphNode *out, size_t *n, CUgraphNode *const *all, size_t count)
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
    CU_REQUIRE(cu_is(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    return graph_list(out, n, &g->node.p, g->node.n);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edge, size_t *n)
{
    CU_READY();
    CU_REQUIRE(cu_is(node, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(n && (out || !edge), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; edge && i < *n && i < node->edge.n; i++)
        edge[i] = node->edge.p[i];
    return graph_list(out, n, &node->dep.p, node->dep.n);
}

CUresult cuGraphGetRootNodes(CUgraph g, CUgraphNode *out, size_t *n)
{
    CU_READY();
    CU_REQUIRE(cu_is(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    struct dt_vec(CUgraphNode) v = {0};
    for (size_t i = 0; i < g->node.n; i++)
        if (!g->node.p[i]->dep.n && !dt_push(&v, g->node.p[i])) {
            free(v.p);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    CUresult r = graph_list(out, n, &v.p, v.n);
    free(v.p);
    return r;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edge, size_t *n)
{
    CU_READY();
    CU_REQUIRE(cu_is(node, CU_NODE), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(n && (out || !edge), CUDA_ERROR_INVALID_VALUE);
    struct dt_vec(CUgraphNode) v = {0};
    for (size_t i = 0; i < node->graph->node.n; i++) {
        struct CUgraphNode_st *o = node->graph->node.p[i];
        for (size_t k = 0; k < o->dep.n; k++) {
            if (o->dep.p[k] != node)
                continue;
            if (edge && v.n < *n)
                edge[v.n] = o->edge.p[k];
            if (!dt_push(&v, o)) {
                free(v.p);
                return CUDA_ERROR_OUT_OF_MEMORY;
            }
        }
    }
    CUresult r = graph_list(out, n, &v.p, v.n);
    free(v.p);
    return r;
}

CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edge, size_t *n)
{
    CU_READY();
    CU_REQUIRE(n && cu_is(g, CU_GRAPH) && !from == !to, CUDA_ERROR_INVALID_VALUE);
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
