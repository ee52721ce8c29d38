/* cuGetProcAddress: entries by name.
 *
 * Names are taken as cuda.h spells them, plain (`cuMemAlloc`: the newest form that the asked version knows) or with their suffix
 * (`cuMemAlloc_v2`). An entry that changed its shape over time is listed in `older` with the first version of the present shape.
 */
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static const struct {
    const char *name, *symbol; /* plain; with suffix */
    void *fn;
} entry[] = {
#define ENTRY(name) {#name, TEXT(name), (void *)name},
#include "softgpu/libcuda/entries.def"
#undef ENTRY
};

#define OLD(fn, symbol) extern CUresult fn(void) __asm__(symbol);
OLD(v1_event_elapsed, "cuEventElapsedTime")
OLD(v2_ctx_create, "cuCtxCreate_v2")
OLD(v3_ctx_create, "cuCtxCreate_v3")
OLD(v2_instantiate, "cuGraphInstantiate_v2")
OLD(v1_add_kernel, "cuGraphAddKernelNode")
OLD(v1_add_dependencies, "cuGraphAddDependencies")
OLD(v1_remove_dependencies, "cuGraphRemoveDependencies")
OLD(v1_dependencies, "cuGraphNodeGetDependencies")
OLD(v1_dependents, "cuGraphNodeGetDependentNodes")
OLD(v1_edges, "cuGraphGetEdges")
OLD(v1_add_node, "cuGraphAddNode")
OLD(v1_get_proc_address, "cuGetProcAddress")

static const struct {
    const char *name;
    int below; /* this shape for versions below */
    void *fn;
} older[] = {
    {"cuCtxCreate", 11040, (void *)v2_ctx_create},
    {"cuCtxCreate", 13000, (void *)v3_ctx_create},
    {"cuGraphInstantiate", 12000, (void *)v2_instantiate},
    {"cuGraphAddKernelNode", 12000, (void *)v1_add_kernel},
    {"cuGraphAddDependencies", 12030, (void *)v1_add_dependencies},
    {"cuGraphRemoveDependencies", 12030, (void *)v1_remove_dependencies},
    {"cuGraphNodeGetDependencies", 12030, (void *)v1_dependencies},
    {"cuGraphNodeGetDependentNodes", 12030, (void *)v1_dependents},
    {"cuGraphGetEdges", 12030, (void *)v1_edges},
    {"cuGraphAddNode", 12030, (void *)v1_add_node},
    {"cuGetProcAddress", 12000, (void *)v1_get_proc_address},
    {"cuEventElapsedTime", 12080, (void *)v1_event_elapsed},
};

/* Both are spelled "cuGraphInstantiate": the present shape is cuGraphInstantiateWithFlags. */
static const char *plain(const char *name)
{
    return !strcmp(name, "cuGraphInstantiate") ? "cuGraphInstantiateWithFlags" : name;
}

CUresult cuGetProcAddress(const char *name, void **ret, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    CU_REQUIRE(name && ret, CUDA_ERROR_INVALID_VALUE);
    void *fn = NULL;
    for (size_t i = 0; i < sizeof older / sizeof *older && !fn; i++)
        if (!strcmp(name, older[i].name) && version < older[i].below)
            fn = older[i].fn;
    for (size_t i = 0; i < sizeof entry / sizeof *entry && !fn; i++)
        if (!strcmp(plain(name), entry[i].name) || !strcmp(name, entry[i].symbol))
            fn = entry[i].fn;
    if (status)
        *status = fn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *ret = fn;
    return fn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
