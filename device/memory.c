/* Memory, modules and single launches: thin calls over the driver API, with errors as DT_E_*.
 *
 * The recorder and tests use them; whole graphs go through run.c. A launch is asynchronous, and dev_sync() reports its
 * fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device-priv.h"

int dev_alloc(struct dev_device *d, uint64_t bytes, dev_ptr *ret, struct dt_err *e)
{
    CUdeviceptr p = 0;
    int r = dev_use(d, e);
    if (!r)
        r = dev_cu(d, d->cu->cuMemAlloc(&p, bytes ? bytes : 1), "cuMemAlloc", e);
    if (!r)
        *ret = p;
    return r;
}

void dev_free(struct dev_device *d, dev_ptr p)
{
    if (p && !dev_use(d, NULL))
        d->cu->cuMemFree(p); /* of an older context: an error that does not matter */
}

void dev_aside(struct dev_device *d)
{
    if (d->cu->soft && !dev_use(d, NULL))
        d->cu->dovetailFork(0);
}

int dev_aside_begun(struct dev_device *d, struct dt_err *e)
{
    dev_child_forget();
    return d->cu->soft
               ? dev_cu(d, d->cu->dovetailFork(1), "dovetailFork", e)
               : dt_err_set(e, DT_E_UNSUPPORTED, "only the software device can be used on both sides of a fork");
}

int dev_upload(struct dev_device *d, dev_ptr to, const void *from, uint64_t bytes, struct dt_err *e)
{
    int r = dev_use(d, e);
    return r < 0 || !bytes ? r : dev_cu(d, d->cu->cuMemcpyHtoD(to, from, bytes), "cuMemcpyHtoD", e);
}

int dev_download(struct dev_device *d, void *to, dev_ptr from, uint64_t bytes, struct dt_err *e)
{
    int r = dev_use(d, e);
    return r < 0 || !bytes ? r : dev_cu(d, d->cu->cuMemcpyDtoH(to, from, bytes), "cuMemcpyDtoH", e);
}

int dev_set(struct dev_device *d, dev_ptr to, uint8_t value, uint64_t bytes, struct dt_err *e)
{
    int r = dev_use(d, e);
    return r < 0 || !bytes ? r : dev_cu(d, d->cu->cuMemsetD8Async(to, value, bytes, NULL), "cuMemsetD8Async", e);
}

static int memory_load(struct dev_device *d, const char *ptx, size_t len, bool by_driver,
                       struct dev_module_handle **ret, struct dt_err *e)
{
    int r = dev_use(d, e);
    if (r < 0)
        return r;
    if (strnlen(ptx, len + 1) != len)
        return dt_err_set(e, DT_E_PTX, "the PTX has a zero byte in it");
    struct dev_module_handle *m = dt_calloc(1, sizeof *m);
    if (!m)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    m->generation = d->generation;
    r = by_driver ? dev_image_ptx(d, ptx, len, &m->mod, e) : dev_image_load(d, ptx, len, &m->mod, &m->cubin, e);
    if (r < 0)
        free(m);
    else
        *ret = m;
    return r;
}

int dev_module_load(struct dev_device *d, const char *ptx, size_t len, struct dev_module_handle **ret, struct dt_err *e)
{
    return memory_load(d, ptx, len, false, ret, e);
}

int dev_module_load_of(struct dev_device *d, const struct dev_module *m, struct dev_module_handle **ret,
                       struct dt_err *e)
{
    int r = dev_use(d, e);
    if (!m->cubin || d->cu->soft || r < 0)
        return r < 0 ? r : memory_load(d, m->ptx, m->len, false, ret, e);
    struct dev_module_handle *h = dt_calloc(1, sizeof *h);
    if (!h)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    h->generation = d->generation;
    h->cubin = true;
    if ((r = dev_image_carried(d, m, &h->mod, e)) < 0)
        free(h);
    else
        *ret = h;
    return r;
}

int dev_module_load_ptx(struct dev_device *d, const char *ptx, size_t len, struct dev_module_handle **ret,
                        struct dt_err *e)
{
    return memory_load(d, ptx, len, true, ret, e);
}

bool dev_module_is_cubin(const struct dev_module_handle *m) { return m->cubin; }

void dev_module_unload(struct dev_device *d, struct dev_module_handle *m)
{
    if (m && m->generation == d->generation && !dev_use(d, NULL))
        d->cu->cuModuleUnload(m->mod);
    free(m);
}

int dev_module_variable(struct dev_device *d, struct dev_module_handle *m, const char *name, dev_ptr *ret,
                        uint64_t *ret_bytes, struct dt_err *e)
{
    CUdeviceptr p = 0;
    size_t n = 0;
    int r = dev_use(d, e);
    if (r < 0)
        return r;
    CUresult c = d->cu->cuModuleGetGlobal(&p, &n, m->mod, name);
    if (c == CUDA_ERROR_NOT_FOUND)
        return dt_err_set(e, DT_E_NOT_FOUND, "the module has no variable \"%.200s\"", name);
    r = dev_cu(d, c, "cuModuleGetGlobal", e);
    if (r < 0)
        return r;
    *ret = p;
    if (ret_bytes)
        *ret_bytes = n;
    return 0;
}

/* A function that may be launched with so much dynamic shared memory. */
int dev_function(struct dev_device *d, CUmodule m, const char *entry, uint32_t shared, CUfunction *ret,
                 struct dt_err *e)
{
    CUfunction f = NULL;
    int now = 0, r;
    CUresult c = d->cu->cuModuleGetFunction(&f, m, entry);
    if (c == CUDA_ERROR_NOT_FOUND)
        return dt_err_set(e, DT_E_NO_ENTRY, "the module has no entry \"%.200s\"", entry);
    r = dev_cu(d, c, "cuModuleGetFunction", e);
    if (!r && shared)
        r = dev_cu(d, d->cu->cuFuncGetAttribute(&now, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f),
                   "cuFuncGetAttribute", e);
    if (!r && shared > (uint32_t)now &&
        d->cu->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared) != CUDA_SUCCESS)
        r = dt_err_set(e, DT_E_LAUNCH, "%u bytes of dynamic shared memory are more than %s allows", shared,
                       d->info.name);
    if (!r)
        *ret = f;
    return r;
}

int dev_function_resources(struct dev_device *d, CUfunction f, struct dev_resources *ret, struct dt_err *e)
{
    int regs = 0, shared = 0, local = 0;
    int r = dev_cu(d, d->cu->cuFuncGetAttribute(&regs, CU_FUNC_ATTRIBUTE_NUM_REGS, f), "cuFuncGetAttribute", e);
    if (!r)
        r = dev_cu(d, d->cu->cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f), "cuFuncGetAttribute",
                   e);
    if (!r)
        r = dev_cu(d, d->cu->cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f), "cuFuncGetAttribute",
                   e);
    if (!r)
        *ret = (struct dev_resources){
            .registers = (uint32_t)regs, .shared_static = (uint32_t)shared, .stack_bytes = (uint32_t)local};
    return r;
}

int dev_launch(struct dev_device *d, struct dev_module_handle *m, const char *entry, const uint32_t grid[3],
               const uint32_t block[3], const uint32_t cluster[3], uint32_t shared, const void *params, size_t nparams,
               struct dt_err *e)
{
    CUfunction f;
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    CUlaunchConfig cfg = {grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, NULL, &attr, 0};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params, CU_LAUNCH_PARAM_BUFFER_SIZE, &nparams,
                     CU_LAUNCH_PARAM_END};
    int r = dev_use(d, e);
    if (r < 0)
        return r;
    if (m->generation != d->generation)
        return dt_err_set(e, DT_E_DEVICE, "the module was lost when the device was reset");
    r = dev_function(d, m->mod, entry, shared, &f, e);
    if (r < 0)
        return r;
    if (cluster && (uint64_t)cluster[0] * cluster[1] * cluster[2] > 8) {
        r = dev_cu(d, d->cu->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                   "cuFuncSetAttribute", e);
        if (r < 0)
            return r;
    }
    if (cluster && cluster[0]) {
        attr.value.clusterDim.x = cluster[0];
        attr.value.clusterDim.y = cluster[1];
        attr.value.clusterDim.z = cluster[2];
        cfg.numAttrs = 1;
    }
    return dev_cu(d, d->cu->cuLaunchKernelEx(&cfg, f, NULL, nparams ? extra : NULL), "cuLaunchKernelEx", e);
}
