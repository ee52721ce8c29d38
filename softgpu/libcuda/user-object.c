/* User objects: reference-counted things of the program that graphs keep alive. The program's destructor runs when the
 * last reference goes, without the lock.
 */
#include <stdlib.h>

#include "softgpu/libcuda/cu-priv.h"

void cu_user_object_drop(struct CUuserObject_st *o, unsigned n)
{
    o->refs -= n;
    if (o->refs)
        return;
    CUhostFn destroy = o->destroy;
    void *ptr = o->ptr;
    cu_handle_free(o);
    cu_call_host(destroy, ptr);
}

CUresult cuUserObjectCreate(CUuserObject *ret, void *ptr, CUhostFn destroy, unsigned refs, unsigned flags)
{
    CU_READY();
    CU_REQUIRE(ret && destroy && refs && refs <= INT32_MAX && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
               CUDA_ERROR_INVALID_VALUE);
    struct CUuserObject_st *o = dt_calloc(1, sizeof *o);
    if (!o || !cu_handle_add(o, CU_USER_OBJECT)) {
        free(o);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    o->destroy = destroy;
    o->ptr = ptr;
    o->refs = refs;
    *ret = o;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject o, unsigned n)
{
    CU_READY();
    CU_REQUIRE(cu_is(o, CU_USER_OBJECT) && n && n <= INT32_MAX - o->refs, CUDA_ERROR_INVALID_VALUE);
    o->refs += n;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject o, unsigned n)
{
    CU_READY();
    CU_REQUIRE(cu_is(o, CU_USER_OBJECT) && n && n <= o->refs, CUDA_ERROR_INVALID_VALUE);
    cu_user_object_drop(o, n);
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph g, CUuserObject o, unsigned n, unsigned flags)
{
    CU_READY();
    CU_REQUIRE(cu_is(g, CU_GRAPH) && cu_is(o, CU_USER_OBJECT) && n && n <= INT32_MAX - o->refs,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(flags & CU_GRAPH_USER_OBJECT_MOVE) || n <= o->refs, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(dt_reserve(&g->object, g->object.n + n), CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = 0; i < n; i++)
        g->object.p[g->object.n++] = o;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        o->refs += n;
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph g, CUuserObject o, unsigned n)
{
    CU_READY();
    CU_REQUIRE(cu_is(g, CU_GRAPH) && cu_is(o, CU_USER_OBJECT) && n, CUDA_ERROR_INVALID_VALUE);
    size_t mine = 0, at = 0;
    for (size_t i = 0; i < g->object.n; i++)
        mine += g->object.p[i] == o;
    CU_REQUIRE(n <= mine, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0, left = n; i < g->object.n; i++)
        if (left && g->object.p[i] == o)
            left--;
        else
            g->object.p[at++] = g->object.p[i];
    g->object.n = at;
    cu_user_object_drop(o, n);
    return CUDA_SUCCESS;
}
