/* Libraries: modules that belong to no context, and their kernels.
 *
 * A CUlibrary keeps its text. It is loaded into a context when something of it is first used there. A CUkernel is a
 * name in a library; cast, it may be launched wherever a CUfunction may. A context that dies takes its modules along,
 * and the library stays.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

static void library_free(struct CUlib_st *l)
{
    while (l->loaded.n)
        cu_module_free(l->loaded.p[l->loaded.n - 1]); /* takes itself off the list */
    for (size_t i = 0; i < l->kernel.n; i++) {
        free(l->kernel.p[i]->name);
        cu_handle_free(l->kernel.p[i]);
    }
    if (l->parsed)
        ptx_module_free(l->parsed);
    free(l->loaded.p);
    free(l->kernel.p);
    free(l->ptx);
    cu_handle_free(l);
}

/* Takes `text`. */
static CUresult library_new(char *text, size_t len, unsigned nopt, CUjit_option *opt, void **val, struct CUlib_st **ret)
{
    struct dt_err e = {0};
    unsigned major, minor;
    struct CUlib_st *l = dt_calloc(1, sizeof *l);
    if (!l || !cu_handle_add(l, CU_LIBRARY)) {
        free(l);
        free(text);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    l->ptx = text;
    l->len = len;
    CUresult r = cu_text_too_new(text, &major, &minor) ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                       : cu_from_dt(ptx_parse(text, len, &l->parsed, &e));
    if (r == CUDA_SUCCESS)
        r = cu_from_dt(ptx_verify(l->parsed, &e));
    cu_write_log(nopt, opt, val, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, e.detail ? e.detail : "");
    cu_write_log(nopt, opt, val, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
    dt_err_done(&e);
    if (r != CUDA_SUCCESS)
        library_free(l);
    else
        *ret = l;
    return r;
}

/* The library's module in this context, loaded if need be. */
static CUresult cu_library_in(struct CUlib_st *l, struct CUctx_st *c, struct CUmod_st **ret)
{
    struct CUmod_st *m;
    for (size_t i = 0; i < l->loaded.n; i++)
        if (l->loaded.p[i]->ctx == c) {
            *ret = l->loaded.p[i];
            return CUDA_SUCCESS;
        }
    CU_TRY(cu_module_new(c, l->ptx, l->len, 0, NULL, NULL, &m));
    if (!dt_push(&l->loaded, m)) {
        cu_module_free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->lib = l;
    *ret = m;
    return CUDA_SUCCESS;
}

/* Where there is a current context, load it there now: what cannot be loaded is said here. */
static CUresult library_load(char *text, size_t len, unsigned nopt, CUjit_option *opt, void **val,
                             struct CUlib_st **ret)
{
    struct CUctx_st *c;
    struct CUmod_st *m;
    struct CUlib_st *l;
    CU_TRY(library_new(text, len, nopt, opt, val, &l));
    CUresult r = cu_current(&c);
    r = r == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : r == CUDA_SUCCESS ? cu_library_in(l, c, &m) : r;
    if (r != CUDA_SUCCESS)
        library_free(l);
    else
        *ret = l;
    return r;
}

static const struct sg_model *model_now(void)
{
    struct CUctx_st *c;
    return cu_current(&c) == CUDA_SUCCESS ? c->dev->model : cu_device_at(0)->model;
}

static CUresult check_options(CUjit_option *opt, void **val, unsigned nopt, CUlibraryOption *lopt, unsigned nlopt)
{
    CU_TRY(cu_jit_options(nopt, opt, val));
    CU_REQUIRE(!nlopt || lopt, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < nlopt; i++)
        CU_REQUIRE((unsigned)lopt[i] < CU_LIBRARY_NUM_OPTIONS, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *ret, const void *code, CUjit_option *opt, void **val, unsigned nopt,
                           CUlibraryOption *lopt, void **lval, unsigned nlopt)
{
    CU_READY();
    char *text;
    size_t len;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(check_options(opt, val, nopt, lopt, nlopt));
    CU_TRY(cu_image_text(model_now(), code, &text, &len));
    return library_load(text, len, nopt, opt, val, ret);
}

CUresult cuLibraryLoadFromFile(CUlibrary *ret, const char *path, CUjit_option *opt, void **val, unsigned nopt,
                               CUlibraryOption *lopt, void **lval, unsigned nlopt)
{
    CU_READY();
    char *text;
    size_t len;
    CU_REQUIRE(ret && path, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(check_options(opt, val, nopt, lopt, nlopt));
    CU_TRY(cu_image_file(model_now(), path, &text, &len));
    return library_load(text, len, nopt, opt, val, ret);
}

CUresult cuLibraryUnload(CUlibrary l)
{
    CU_READY();
    CU_REQUIRE(cu_is(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    library_free(l);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *ret, CUlibrary l)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    return cu_library_in(l, c, ret);
}

static CUresult kernel_of(struct CUlib_st *l, const char *name, struct CUkern_st **ret)
{
    for (size_t i = 0; i < l->kernel.n; i++)
        if (!strcmp(l->kernel.p[i]->name, name)) {
            *ret = l->kernel.p[i];
            return CUDA_SUCCESS;
        }
    const struct ptx_function *f = ptx_find_function(l->parsed, name);
    CU_REQUIRE(f && f->is_entry && f->has_body, CUDA_ERROR_NOT_FOUND);
    struct CUkern_st *k = dt_calloc(1, sizeof *k);
    if (!k || !(k->name = dt_strdup(name)) || !cu_handle_add(k, CU_KERNEL) || !dt_push(&l->kernel, k)) {
        free(k ? k->name : NULL);
        cu_handle_free(k);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    k->lib = l;
    *ret = k;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *ret, CUlibrary l, const char *name)
{
    CU_READY();
    CU_REQUIRE(cu_is(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret && name, CUDA_ERROR_INVALID_VALUE);
    return kernel_of(l, name, ret);
}

CUresult cuLibraryGetKernelCount(unsigned *ret, CUlibrary l)
{
    CU_READY();
    CU_REQUIRE(cu_is(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = 0;
    for (uint32_t i = 0; i < l->parsed->nfunc; i++)
        *ret += l->parsed->func[i]->is_entry && l->parsed->func[i]->has_body;
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *ret, unsigned n, CUlibrary l)
{
    CU_READY();
    CU_REQUIRE(cu_is(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    unsigned at = 0;
    for (uint32_t i = 0; i < l->parsed->nfunc && at < n; i++)
        if (l->parsed->func[i]->is_entry && l->parsed->func[i]->has_body)
            CU_TRY(kernel_of(l, l->parsed->func[i]->name, &ret[at++]));
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *ret, size_t *bytes, CUlibrary l, const char *name)
{
    CU_CONTEXT(c);
    struct CUmod_st *m;
    CU_REQUIRE(cu_is(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_library_in(l, c, &m));
    return cu_module_global(m, name, ret, bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr *ret, size_t *bytes, CUlibrary l, const char *name)
{
    CU_CONTEXT(c);
    struct CUmod_st *m;
    CU_REQUIRE(cu_is(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(name, CUDA_ERROR_INVALID_VALUE);
    const struct ptx_var *v = ptx_find_var(l->parsed, name);
    CU_REQUIRE(v && v->attribute && strstr(v->attribute, "managed"), CUDA_ERROR_NOT_FOUND);
    CU_TRY(cu_library_in(l, c, &m));
    return cu_module_global(m, name, ret, bytes);
}

CUresult cu_function(struct CUctx_st *c, CUfunction f, struct CUfunc_st **ret)
{
    if (cu_is(f, CU_KERNEL)) { /* a CUkernel, cast: allowed wherever a CUfunction is launched */
        struct CUkern_st *k = (struct CUkern_st *)(void *)f;
        struct CUmod_st *m;
        CU_TRY(cu_library_in(k->lib, c, &m));
        return cu_module_function(m, k->name, ret);
    }
    CU_REQUIRE(cu_is(f, CU_FUNC) && f->mod->ctx == c, CUDA_ERROR_INVALID_HANDLE);
    *ret = f;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *ret, CUkernel k)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    return cu_function(c, (CUfunction)(void *)k, ret);
}

CUresult cuKernelGetName(const char **ret, CUkernel k)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_is(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *ret = k->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *ret, CUkernel k)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_is(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *ret = k->lib;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *ret, CUfunction_attribute a, CUkernel k, CUdevice dev)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    return cuFuncGetAttribute(ret, a, (CUfunction)(void *)k);
}

CUresult cuKernelSetAttribute(CUfunction_attribute a, int v, CUkernel k, CUdevice dev)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    return cuFuncSetAttribute((CUfunction)(void *)k, a, v);
}

CUresult cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice dev)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    return cuFuncSetCacheConfig((CUfunction)(void *)k, config);
}

CUresult cuKernelGetParamInfo(CUkernel k, size_t i, size_t *offset, size_t *size)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    return cuFuncGetParamInfo((CUfunction)(void *)k, i, offset, size);
}
