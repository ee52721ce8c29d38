/* CUDA graphs: what a launch of one does, as the records of its nodes in an order that its edges allow.
 *
 * Each node's records come behind those of its number and of the nodes that it follows, so that branches stay apart.
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
    bool early;      /* a programmatic edge leads to it, and no other */
    uint32_t *after; /* nodes that it follows, by number; owned */
    size_t nafter;
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
    for (size_t i = 0; i < x->nop; i++) {
        inj_launch_done(&x->op[i].launch);
        free(x->op[i].after);
    }
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

struct nodes { /* numbers of nodes */
    uint32_t *p;
    size_t n;
};

static bool nodes_add(struct nodes *v, uint32_t node)
{
    uint32_t *p = v->n & (v->n - 1) || !v->n ? v->p : NULL; /* it grows at powers of two */
    if (!p || !v->n)
        p = realloc(v->p, (v->n ? 2 * v->n : 1) * sizeof *p);
    if (!p)
        return false;
    v->p = p;
    p[v->n++] = node;
    return true;
}

/* Takes `after` over. */
static bool op_add(struct exec *x, CUgraphNode node, CUgraphNodeType type, struct nodes *after)
{
    struct op *p = x->nop < NODES_MAX ? realloc(x->op, (x->nop + 1) * sizeof *p) : NULL;
    if (!p)
        return false;
    x->op = p;
    p[x->nop++] = (struct op){.node = node, .type = type, .after = after->p, .nafter = after->n};
    *after = (struct nodes){0};
    return op_read(&p[x->nop - 1]);
}

static bool list(struct exec *x, CUgraph g, unsigned depth, const struct nodes *outer);

/* The nodes of a child graph, and one that stands for all of them. */
static bool child_add(struct exec *x, CUgraphNode node, unsigned depth, struct nodes *after)
{
    CUgraph child;
    size_t first = x->nop;
    bool ok = REAL(cuGraphChildGraphNodeGetGraph, node, &child) == CUDA_SUCCESS && list(x, child, depth + 1, after);
    for (size_t i = first, n = x->nop; ok && i < n; i++)
        ok = nodes_add(after, (uint32_t)i);
    return ok && op_add(x, node, CU_GRAPH_NODE_TYPE_EMPTY, after);
}

/* A graph's nodes and edges, as they are gone through. */
struct shape {
    CUgraphNode *node, *from, *to; /* of an edge that is done with, from is NULL */
    CUgraphEdgeData *data;
    uint32_t *source, *at; /* by edge: the node that it comes from; by node: its number in the list */
    size_t n, edges;
};

/* The next node, number i of its graph, whose dependencies have all gone before. */
static bool list_node(struct exec *x, struct shape *s, size_t i, unsigned depth, const struct nodes *outer)
{
    CUgraphNodeType type;
    struct nodes after = {0};
    bool ok = REAL(cuGraphNodeGetType, s->node[i], &type) == CUDA_SUCCESS, some = false, early = false;
    for (size_t k = 0; ok && k < s->edges; k++)
        if (s->to[k] == s->node[i]) {
            ok = nodes_add(&after, s->at[s->source[k]]);
            early = !some && s->data[k].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
            some = true;
        }
    for (size_t k = 0; ok && !some && k < outer->n; k++)
        ok = nodes_add(&after, outer->p[k]);
    ok = ok && (type == CU_GRAPH_NODE_TYPE_GRAPH ? child_add(x, s->node[i], depth, &after)
                                                 : op_add(x, s->node[i], type, &after));
    free(after.p);
    if (ok)
        x->op[x->nop - 1].early = early;
    s->at[i] = (uint32_t)x->nop - 1;
    for (size_t k = 0; k < s->edges; k++)
        if (s->from[k] == s->node[i])
            s->from[k] = NULL;
    s->node[i] = NULL;
    return ok;
}

/* Nodes whose dependencies have all gone before, again and again. */
static bool list_ordered(struct exec *x, struct shape *s, unsigned depth, const struct nodes *outer)
{
    for (size_t k = 0; k < s->edges; k++)
        for (size_t i = 0; i < s->n; i++)
            if (s->node[i] == s->from[k])
                s->source[k] = (uint32_t)i;
    for (size_t left = s->n, before = s->n + 1; left && left < before;) {
        before = left;
        for (size_t i = 0; i < s->n; i++) {
            bool ready = s->node[i] != NULL;
            for (size_t k = 0; ready && k < s->edges; k++)
                ready = !(s->to[k] == s->node[i] && s->from[k]);
            if (ready && !list_node(x, s, i, depth, outer))
                return false;
            left -= ready;
        }
    }
    return true;
}

static CUresult edges_of(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    CUresult r = REAL(cuGraphGetEdges_v2, g, from, to, NULL, n); /* with data, from CUDA 12.3 on */
    return r == CUDA_ERROR_LOSSY_QUERY ? CUDA_ERROR_NOT_SUPPORTED : r;
}

static bool list(struct exec *x, CUgraph g, unsigned depth, const struct nodes *outer)
{
    struct shape s = {0};
    if (depth > DEPTH_MAX || REAL(cuGraphGetNodes, g, NULL, &s.n) != CUDA_SUCCESS || s.n > NODES_MAX ||
        edges_of(g, NULL, NULL, &s.edges) != CUDA_SUCCESS)
        return false;
    s.node = calloc(s.n + 2 * s.edges + 1, sizeof *s.node);
    s.at = calloc(s.n + s.edges + 1, sizeof *s.at);
    s.data = calloc(s.edges + 1, sizeof *s.data);
    bool ok = s.node && s.at && s.data && REAL(cuGraphGetNodes, g, s.node, &s.n) == CUDA_SUCCESS;
    if (ok) {
        s.from = s.node + s.n;
        s.to = s.from + s.edges;
        s.source = s.at + s.n;
        ok = (!s.edges || REAL(cuGraphGetEdges_v2, g, s.from, s.to, s.data, &s.edges) == CUDA_SUCCESS) &&
             list_ordered(x, &s, depth, outer);
    }
    free(s.data);
    free(s.node);
    free(s.at);
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
    x->spoiled = list(x, g, 0, &(struct nodes){0}) ? NULL : "its nodes could not be read";
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
        o->launch.l.flags |= o->early ? CAP_PROGRAMMATIC : 0;
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
    inj_order(s, NULL, CAP_GRAPH);
    for (size_t i = 0; i < x->nop; i++) {
        for (size_t k = 0; k < x->op[i].nafter; k++)
            inj_order(s, (CUevent)(uintptr_t)x->op[i].after[k], CAP_NODE_AFTER);
        inj_order(s, (CUevent)(uintptr_t)i, CAP_NODE);
        op_write(x, &x->op[i], s);
    }
    inj_order(s, NULL, CAP_GRAPH_END);
}

void inj_graph_drop(CUgraphExec exec)
{
    struct exec *x = exec_at(exec);
    if (x) {
        ops_free(x);
        *x = execs[--nexec];
    }
}
