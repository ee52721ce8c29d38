/* CUDA graphs: what a launch of one does, as the records of its nodes in an order that its edges allow.
 *
 * The nodes are read when the graph is instantiated, and again when it is updated (cuGraphExecUpdate, or a kernel
 * node's parameters). What the host gives to a copy is read at each launch. Memory that nodes allocate is an
 * allocation at the first launch. A node that no graph document can say (a host function, a conditional node) is named
 * in the trace at each launch.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/inject/inject.h"

#define NODES_MAX 65536u
#define DEPTH_MAX 16

struct op {
    CUgraphNode node;
    CUgraphNodeType type;
    struct inj_launch launch;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY3D copy;
    CUdeviceptr at;
    size_t bytes;
};
static struct exec {
    CUgraphExec exec;
    struct op *op;
    size_t nop;
    const char *spoiled; /* by this call: its nodes are not known any more */
} * execs;
static size_t nexec;

static struct exec *exec_at(CUgraphExec e)
{
    for (size_t i = 0; i < nexec; i++)
        if (execs[i].exec == e)
            return &execs[i];
    return NULL;
}

static void ops_free(struct exec *x)
{
    for (size_t i = 0; i < x->nop; i++)
        inj_launch_done(&x->op[i].launch);
    free(x->op);
    x->op = NULL;
    x->nop = 0;
}

static bool kernel_op(struct op *o, const CUDA_KERNEL_NODE_PARAMS *p)
{
    CUlaunchAttribute a[2] = {{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION}, {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE}};
    CUlaunchConfig cfg = {.gridDimX = p->gridDimX,
                          .gridDimY = p->gridDimY,
                          .gridDimZ = p->gridDimZ,
                          .blockDimX = p->blockDimX,
                          .blockDimY = p->blockDimY,
                          .blockDimZ = p->blockDimZ,
                          .sharedMemBytes = p->sharedMemBytes,
                          .attrs = a};
    for (unsigned i = 0; i < 2; i++)
        if (REAL(cuGraphKernelNodeGetAttribute, o->node, a[i].id, &a[i].value) == CUDA_SUCCESS)
            a[cfg.numAttrs++] = a[i];
    CUfunction f = p->func;
    if (!f && p->kern && REAL(cuKernelGetFunction, &f, p->kern) == CUDA_SUCCESS)
        inj_same(f, p->kern);
    inj_launch_done(&o->launch);
    return inj_launch_of(&cfg, f, p->kernelParams, p->extra, &o->launch);
}

static bool op_read(struct op *o)
{
    CUDA_KERNEL_NODE_PARAMS k = {0};
    CUDA_MEM_ALLOC_NODE_PARAMS a = {0};
    CUresult r = CUDA_SUCCESS;
    switch (o->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        r = REAL(cuGraphKernelNodeGetParams, o->node, &k);
        return r == CUDA_SUCCESS && kernel_op(o, &k);
    case CU_GRAPH_NODE_TYPE_MEMSET: r = REAL(cuGraphMemsetNodeGetParams, o->node, &o->set); break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: r = REAL(cuGraphMemcpyNodeGetParams, o->node, &o->copy); break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        r = REAL(cuGraphMemAllocNodeGetParams, o->node, &a);
        o->at = a.dptr;
        o->bytes = a.bytesize;
        break;
    default: break;
    }
    return r == CUDA_SUCCESS;
}

static bool op_add(struct exec *x, CUgraphNode node, CUgraphNodeType type)
{
    struct op *p = x->nop < NODES_MAX ? realloc(x->op, (x->nop + 1) * sizeof *p) : NULL;
    if (!p)
        return false;
    x->op = p;
    p[x->nop++] = (struct op){.node = node, .type = type};
    return op_read(&p[x->nop - 1]);
}

static bool list(struct exec *x, CUgraph g, unsigned depth);

/* Nodes whose dependencies have all gone before, again and again. */
static bool list_ordered(struct exec *x, CUgraphNode *node, size_t n, CUgraphNode *from, CUgraphNode *to, size_t edges,
                         unsigned depth)
{
    for (size_t left = n, before = n + 1; left && left < before;) {
        before = left;
        for (size_t i = 0; i < n; i++) {
            bool ready = node[i] != NULL;
            for (size_t k = 0; ready && k < edges; k++)
                ready = !(to[k] == node[i] && from[k]);
            if (!ready)
                continue;
            CUgraphNodeType type;
            CUgraph child;
            if (REAL(cuGraphNodeGetType, node[i], &type) != CUDA_SUCCESS)
                return false;
            if (type == CU_GRAPH_NODE_TYPE_GRAPH
                    ? REAL(cuGraphChildGraphNodeGetGraph, node[i], &child) != CUDA_SUCCESS || !list(x, child, depth + 1)
                    : !op_add(x, node[i], type))
                return false;
            for (size_t k = 0; k < edges; k++)
                if (from[k] == node[i])
                    from[k] = NULL;
            node[i] = NULL;
            left--;
        }
    }
    return true;
}

static CUresult edges_of(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    CUresult r = REAL(cuGraphGetEdges_v2, g, from, to, NULL, n); /* with data, from CUDA 12.3 on */
    return r == CUDA_ERROR_LOSSY_QUERY ? CUDA_ERROR_NOT_SUPPORTED : r;
}

static bool list(struct exec *x, CUgraph g, unsigned depth)
{
    size_t n = 0, edges = 0;
    if (depth > DEPTH_MAX || REAL(cuGraphGetNodes, g, NULL, &n) != CUDA_SUCCESS || n > NODES_MAX ||
        edges_of(g, NULL, NULL, &edges) != CUDA_SUCCESS)
        return false;
    CUgraphNode *p = calloc(n + 2 * edges + 1, sizeof *p);
    CUgraphEdgeData *data = calloc(edges + 1, sizeof *data);
    bool ok = p && data && REAL(cuGraphGetNodes, g, p, &n) == CUDA_SUCCESS &&
              (!edges || REAL(cuGraphGetEdges_v2, g, p + n, p + n + edges, data, &edges) == CUDA_SUCCESS) &&
              list_ordered(x, p, n, p + n, p + n + edges, edges, depth);
    free(data);
    free(p);
    return ok;
}

void inj_graph_list(CUgraphExec exec, CUgraph g)
{
    struct exec *x = exec_at(exec);
    if (!x) {
        struct exec *p = realloc(execs, (nexec + 1) * sizeof *p);
        if (!p)
            return;
        execs = p;
        x = &execs[nexec++];
        *x = (struct exec){.exec = exec};
    }
    ops_free(x);
    x->spoiled = list(x, g, 0) ? NULL : "its nodes could not be read";
}

void inj_graph_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct exec *x = exec_at(exec);
    for (size_t i = 0; x && i < x->nop; i++)
        if (x->op[i].node == node && !kernel_op(&x->op[i], p))
            x->spoiled = "cuGraphExecKernelNodeSetParams";
}

void inj_graph_spoiled(CUgraphExec exec, const char *by)
{
    struct exec *x = exec_at(exec);
    if (x)
        x->spoiled = by;
}

static void op_write(struct exec *x, struct op *o, CUstream s)
{
    switch (o->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        o->launch.l.stream = (uint64_t)(uintptr_t)s;
        inj_launch_write(&o->launch);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        inj_set(s, o->set.dst, o->set.pitch, o->set.value, o->set.elementSize, o->set.width, o->set.height);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: inj_copy_3d(s, &o->copy); break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: inj_alloc(o->at, o->bytes, CAP_DEVICE_MEMORY); break;
    case CU_GRAPH_NODE_TYPE_HOST: inj_untaken("a host function in a CUDA graph"); break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: inj_untaken("a conditional node of a CUDA graph"); break;
    default: break; /* empty, events; memory that is freed is an allocation until another has its address */
    }
}

void inj_graph_launch(CUgraphExec exec, CUstream s)
{
    struct exec *x = exec_at(exec);
    if (!x || x->spoiled) {
        inj_untaken("a launch of a CUDA graph: %s", x ? x->spoiled : "how it was instantiated was not seen");
        return;
    }
    inj_host_memory();
    for (size_t i = 0; i < x->nop; i++)
        op_write(x, &x->op[i], s);
}

void inj_graph_drop(CUgraphExec exec)
{
    struct exec *x = exec_at(exec);
    if (x) {
        ops_free(x);
        *x = execs[--nexec];
    }
}
