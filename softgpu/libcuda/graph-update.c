/* Updating an instantiated graph from another graph of the same shape, and drawing a graph.
 *
 * Nodes are paired by the order in which they were added, as NVIDIA documents for graphs made by the same calls. Types,
 * edges and the context of kernels must agree; everything else is taken over. A node that does not fit leaves the exec
 * as it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

CUgraphExecUpdateResult cu_graph_compare(const struct CUgraph_st *from, const struct CUgraph_st *to,
                                         struct CUgraphNode_st **ret_node)
{
    if (from->node.n != to->node.n)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < to->node.n; i++)
        from->node.p[i]->mark = to->node.p[i]->mark = (uint32_t)i;
    for (size_t i = 0; i < to->node.n; i++) {
        const struct CUgraphNode_st *a = from->node.p[i], *b = to->node.p[i];
        CUgraphExecUpdateResult r = CU_GRAPH_EXEC_UPDATE_SUCCESS;
        if (a->type != b->type)
            r = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        else if (a->dep.n != b->dep.n)
            r = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t k = 0; k < a->dep.n && r == CU_GRAPH_EXEC_UPDATE_SUCCESS; k++)
            if (a->dep.p[k]->mark != b->dep.p[k]->mark || memcmp(&a->edge.p[k], &b->edge.p[k], sizeof a->edge.p[k]))
                r = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (r == CU_GRAPH_EXEC_UPDATE_SUCCESS && a->type == CU_GRAPH_NODE_TYPE_KERNEL &&
            (cu_launch_stale(&a->launch) || cu_launch_stale(&b->launch) ||
             a->launch.f->mod->ctx != b->launch.f->mod->ctx))
            r = CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        if (r == CU_GRAPH_EXEC_UPDATE_SUCCESS && a->type == CU_GRAPH_NODE_TYPE_KERNEL &&
            a->launch.cooperative != b->launch.cooperative)
            r = CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
        if (r == CU_GRAPH_EXEC_UPDATE_SUCCESS && (a->memory != b->memory || a->free != b->free))
            r = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        if (r == CU_GRAPH_EXEC_UPDATE_SUCCESS && a->child)
            r = cu_graph_compare(a->child, b->child, ret_node);
        else if (r != CU_GRAPH_EXEC_UPDATE_SUCCESS && ret_node)
            *ret_node = to->node.p[i];
        if (r != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            return r;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult cu_graph_take(struct CUgraph_st *to, const struct CUgraph_st *from)
{
    for (size_t i = 0; i < to->node.n; i++) {
        struct CUgraphNode_st *n = to->node.p[i];
        CU_TRY(cu_node_copy(n, from->node.p[i]));
        n->original = from->node.p[i]->original;
        if (n->child)
            CU_TRY(cu_graph_take(n->child, from->node.p[i]->child));
    }
    return CUDA_SUCCESS;
}

/* The live node that has this id, for an answer to the program. */
static CUgraphNode with_id(const struct CUgraph_st *g, uint64_t id)
{
    for (size_t i = 0; i < g->node.n; i++) {
        CUgraphNode in = g->node.p[i]->id == id ? g->node.p[i]
                         : g->node.p[i]->child  ? with_id(g->node.p[i]->child, id)
                                                : NULL;
        if (in)
            return in;
    }
    return NULL;
}

CUresult cuGraphExecUpdate(CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info)
{
    CU_CONTEXT(c);
    CU_REQUIRE(info && cu_is(x, CU_EXEC) && cu_is(g, CU_GRAPH) && !g->capturing, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!x->busy, CUDA_ERROR_ILLEGAL_STATE);
    struct CUgraph_st *fresh;
    struct CUgraphNode_st *at = NULL;
    memset(info, 0, sizeof *info);
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    CU_TRY(cu_graph_clone(g, true, &fresh));
    info->result = cu_graph_compare(x->graph, fresh, &at);
    if (at)
        info->errorNode = with_id(g, at->original);
    CUresult r = info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? cu_graph_take(x->graph, fresh)
                                                              : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    cu_graph_free(fresh);
    return r;
}

/* ---- a picture in the language of graphviz ---- */
static const char *type_name(CUgraphNodeType t)
{
    switch (t) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY: return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET: return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST: return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH: return "CHILD GRAPH";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "EVENT RECORD";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return "EVENT WAIT";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "MEM ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "MEM FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "BATCH MEM OP";
    default: return "EMPTY";
    }
}

static void draw(FILE *f, const struct CUgraph_st *g, bool verbose)
{
    fprintf(f, "subgraph cluster_%u {\nlabel=\"graph_%u\"\n", g->id, g->id);
    for (size_t i = 0; i < g->node.n; i++) {
        const struct CUgraphNode_st *n = g->node.p[i];
        fprintf(f, "\"graph_%u_node_%zu\"[shape=box label=\"%zu\\n%s", g->id, i, i, type_name(n->type));
        if (n->type == CU_GRAPH_NODE_TYPE_KERNEL && !cu_launch_stale(&n->launch)) {
            fprintf(f, "\\n%s", n->launch.f->info->name);
            if (verbose)
                fprintf(f, "\\ngrid %u %u %u block %u %u %u shared %u", n->launch.grid[0], n->launch.grid[1],
                        n->launch.grid[2], n->launch.block[0], n->launch.block[1], n->launch.block[2],
                        n->launch.shared);
        }
        fprintf(f, "\"]\n");
        g->node.p[i]->mark = (uint32_t)i;
    }
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t k = 0; k < g->node.p[i]->dep.n; k++)
            fprintf(f, "\"graph_%u_node_%u\" -> \"graph_%u_node_%zu\"\n", g->id, g->node.p[i]->dep.p[k]->mark, g->id,
                    i);
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.p[i]->child)
            draw(f, g->node.p[i]->child, verbose);
    fprintf(f, "}\n");
}

CUresult cuGraphDebugDotPrint(CUgraph g, const char *path, unsigned flags)
{
    CU_READY();
    CU_REQUIRE(path && cu_is(g, CU_GRAPH), CUDA_ERROR_INVALID_VALUE);
    FILE *f = fopen(path, "we");
    CU_REQUIRE(f, CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(f, "digraph dot {\n");
    draw(f, g, flags & (CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE | CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS));
    fprintf(f, "}\n");
    bool ok = !ferror(f);
    return fclose(f) || !ok ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
