/* Modules and libraries from PTX text, functions and kernels by name, module variables.
 *
 * A CUmodule is one sg_module of one context; a CUlibrary keeps its text and is loaded into a context when a kernel of it is first used there.
 * SASS (ELF, fat binaries) is refused with CUDA_ERROR_NO_BINARY_FOR_GPU: this device executes PTX. JIT options: the two log buffers are
 * honoured, the others accepted and ignored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "softgpu/libcuda/cu-priv.h"

CUresult cu_image_text(const void *image, const char **ret, size_t *ret_len)
{
    const unsigned char *p = image;
    CU_REQUIRE(image, CUDA_ERROR_INVALID_VALUE);
    if (!memcmp(p, "\177ELF", 4) || !memcmp(p, "\x50\xed\x55\xba", 4) || !memcmp(p, "\xb1\x43\x62\x46", 4))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *ret = image;
    *ret_len = strlen(image);
    return CUDA_SUCCESS;
}

/* `.target sm_NN` above what the device is. */
static bool too_new(const char *ptx, size_t len, const struct sg_model *m)
{
    const char *p = memmem(ptx, len, ".target", 7);
    p = p ? memmem(p, len - (size_t)(p - ptx), "sm_", 3) : NULL;
    return p && strtoul(p + 3, NULL, 10) > m->cc_major * 10 + m->cc_minor;
}

static void write_log(unsigned nopt, const CUjit_option *opt, void **val, CUjit_option buffer, CUjit_option size,
                      const char *text)
{
    char *to = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < nopt; i++)
        if (opt[i] == buffer)
            to = val[i];
        else if (opt[i] == size)
            room = (size_t)(uintptr_t)val[i];
    if (to && room)
        snprintf(to, room, "%s", text);
    for (unsigned i = 0; i < nopt; i++)
        if (opt[i] == size)
            val[i] = (void *)(uintptr_t)(strlen(text) < room ? strlen(text) : room);
}

/* What this device cannot run is named here, not when it is launched: a line an entry in the error log. A module of which no entry can run is refused;
 * else the others can be had, and cuModuleGetFunction of one that cannot fails. */
static CUresult name_refused(struct sg_module *m, struct dt_str *log)
{
    unsigned n = sg_module_kernels(m), bad = 0;
    char why[512];
    for (unsigned i = 0; i < n; i++)
        if (sg_kernel_refused(sg_module_kernel_at(m, i), why, sizeof why))
            dt_str_addf(log, "%s%s", bad++ ? "\n" : "", why);
    return bad && bad == n ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult cu_module_new(struct CUctx_st *c, const char *ptx, size_t len, unsigned nopt, const CUjit_option *opt, void **val,
                       struct CUmod_st **ret)
{
    struct dt_err e = {0};
    CU_REQUIRE(!nopt || (opt && val), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!too_new(ptx, len, c->dev->model), CUDA_ERROR_NO_BINARY_FOR_GPU);
    struct CUmod_st *m = dt_calloc(1, sizeof *m);
    CU_REQUIRE(m, CUDA_ERROR_OUT_OF_MEMORY);
    struct dt_str refused = {0};
    CUresult r = cu_from_dt(sg_module_load(c->dev->sg, ptx, len, &m->sg, &e));
    if (r == CUDA_SUCCESS)
        r = name_refused(m->sg, &refused);
    write_log(nopt, opt, val, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, e.detail ? e.detail : refused.s ? refused.s : "");
    dt_str_done(&refused);
    write_log(nopt, opt, val, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
    dt_err_done(&e);
    m->magic = CU_MODULE;
    m->ctx = c;
    if (r == CUDA_SUCCESS && !dt_push(&c->module, m))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        sg_module_free(m->sg);
        free(m);
        return r;
    }
    *ret = m;
    return CUDA_SUCCESS;
}

void cu_module_free(struct CUmod_st *m)
{
    struct CUctx_st *c = m->ctx;
    for (size_t i = 0; i < c->module.n; i++)
        if (c->module.p[i] == m)
            c->module.p[i] = c->module.p[--c->module.n];
    for (size_t i = 0; m->lib && i < m->lib->loaded.n; i++)
        if (m->lib->loaded.p[i] == m)
            m->lib->loaded.p[i] = m->lib->loaded.p[--m->lib->loaded.n];
    for (size_t i = 0; i < m->func.n; i++) {
        m->func.p[i]->magic = 0;
        free(m->func.p[i]);
    }
    free(m->func.p);
    sg_module_free(m->sg);
    m->magic = 0;
    free(m);
}

CUresult cu_module_function(struct CUmod_st *m, const char *name, struct CUfunc_st **ret)
{
    for (size_t i = 0; i < m->func.n; i++)
        if (!strcmp(m->func.p[i]->info->name, name)) {
            *ret = m->func.p[i];
            return CUDA_SUCCESS;
        }
    struct sg_kernel *k = sg_module_kernel(m->sg, name);
    char why[512];
    CU_REQUIRE(k, CUDA_ERROR_NOT_FOUND);
    if (sg_kernel_refused(k, why, sizeof why)) {
        m->ctx->refused = (struct dovetail_fault){.num = DT_E_UNSUPPORTED};
        snprintf(m->ctx->refused.kernel, sizeof m->ctx->refused.kernel, "%s", name);
        snprintf(m->ctx->refused.text, sizeof m->ctx->refused.text, "%s", why);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct CUfunc_st *f = dt_calloc(1, sizeof *f);
    CU_REQUIRE(f, CUDA_ERROR_OUT_OF_MEMORY);
    f->magic = CU_FUNC;
    f->mod = m;
    f->kernel = k;
    f->info = sg_kernel_info(k);
    f->carveout = -1;
    for (int i = 0; i < 3; i++)
        f->cluster[i] = (int)f->info->cluster[i];
    f->cluster_required = f->info->explicit_cluster;
    const struct sg_model *model = m->ctx->dev->model;
    f->max_dynamic = f->info->shared_static < model->shared_block ? (int)(model->shared_block - f->info->shared_static) : 0;
    if (!dt_push(&m->func, f)) {
        free(f);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = f;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *ret, const void *image, unsigned nopt, CUjit_option *opt, void **val)
{
    CU_CONTEXT(c);
    const char *text;
    size_t len;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_image_text(image, &text, &len));
    return cu_module_new(c, text, len, nopt, opt, val, ret);
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
    return cuModuleLoadDataEx(ret, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *ret, const void *image)
{
    return cuModuleLoadDataEx(ret, image, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *ret, const char *path)
{
    char *text = NULL;
    size_t len;
    CU_CONTEXT(c);
    CU_REQUIRE(ret && path, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!dt_read_file(path, PTX_MAX_BYTES, &text, &len, NULL), CUDA_ERROR_FILE_NOT_FOUND);
    CUresult r = cuModuleLoadDataEx(ret, text, 0, NULL, NULL);
    free(text);
    return r;
}

CUresult cuModuleUnload(CUmodule m)
{
    CU_CONTEXT(c);
    CU_REQUIRE(CU_IS(m, CU_MODULE) && m->ctx == c, CUDA_ERROR_INVALID_HANDLE);
    cu_module_free(m);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule m, const char *name)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && name, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(m, CU_MODULE), CUDA_ERROR_INVALID_HANDLE);
    return cu_module_function(m, name, ret);
}

CUresult cuModuleGetFunctionCount(unsigned *ret, CUmodule m)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(m, CU_MODULE), CUDA_ERROR_INVALID_HANDLE);
    *ret = sg_module_kernels(m->sg);
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *ret, unsigned n, CUmodule m)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(m, CU_MODULE), CUDA_ERROR_INVALID_HANDLE);
    for (unsigned i = 0; i < n && i < sg_module_kernels(m->sg); i++)
        CU_TRY(cu_module_function(m, sg_kernel_info(sg_module_kernel_at(m->sg, i))->name, &ret[i]));
    return CUDA_SUCCESS;
}

static CUresult global_of(struct CUmod_st *m, const char *name, CUdeviceptr *ret, size_t *ret_bytes)
{
    uint64_t addr = 0, bytes = 0;
    CU_REQUIRE(name, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!sg_module_global(m->sg, name, &addr, &bytes), CUDA_ERROR_NOT_FOUND);
    if (ret)
        *ret = addr;
    if (ret_bytes)
        *ret_bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr *ret, size_t *bytes, CUmodule m, const char *name)
{
    CU_CONTEXT(c);
    CU_REQUIRE(CU_IS(m, CU_MODULE), CUDA_ERROR_INVALID_HANDLE);
    return global_of(m, name, ret, bytes);
}

/* ---- libraries ---- */
CUresult cuLibraryLoadData(CUlibrary *ret, const void *code, CUjit_option *opt, void **val, unsigned nopt,
                           CUlibraryOption *lopt, void **lval, unsigned nlopt)
{
    CU_CONTEXT(c);
    const char *text;
    size_t len;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_image_text(code, &text, &len));
    struct CUlib_st *l = dt_calloc(1, sizeof *l);
    struct CUmod_st *m;
    CU_REQUIRE(l, CUDA_ERROR_OUT_OF_MEMORY);
    l->magic = CU_LIBRARY;
    l->ptx = dt_strdup(text);
    l->len = len;
    CUresult r = l->ptx ? cu_module_new(c, text, len, nopt, opt, val, &m) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && !dt_push(&l->loaded, m)) {
        cu_module_free(m);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS)
        m->lib = l;
    if (r != CUDA_SUCCESS) {
        free(l->ptx);
        free(l);
        return r;
    }
    *ret = l;
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary l)
{
    CU_READY();
    CU_REQUIRE(CU_IS(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    l->magic = 0;
    while (l->loaded.n)
        cu_module_free(l->loaded.p[l->loaded.n - 1]); /* takes itself off the list */
    for (size_t i = 0; i < l->kernel.n; i++) {
        free(l->kernel.p[i]->name);
        free(l->kernel.p[i]);
    }
    free(l->loaded.p);
    free(l->kernel.p);
    free(l->ptx);
    free(l);
    return CUDA_SUCCESS;
}

/* The library's module in this context. A context that died took its modules along. */
static CUresult in_context(struct CUlib_st *l, struct CUctx_st *c, struct CUmod_st **ret)
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

CUresult cuLibraryGetModule(CUmodule *ret, CUlibrary l)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    return in_context(l, c, ret);
}

CUresult cuLibraryGetKernel(CUkernel *ret, CUlibrary l, const char *name)
{
    CU_CONTEXT(c);
    struct CUmod_st *m;
    struct CUfunc_st *f;
    CU_REQUIRE(ret && name, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    for (size_t i = 0; i < l->kernel.n; i++)
        if (!strcmp(l->kernel.p[i]->name, name)) {
            *ret = l->kernel.p[i];
            return CUDA_SUCCESS;
        }
    CU_TRY(in_context(l, c, &m));
    CU_TRY(cu_module_function(m, name, &f));
    struct CUkern_st *k = dt_calloc(1, sizeof *k);
    if (!k || !(k->name = dt_strdup(name)) || !dt_push(&l->kernel, k)) {
        free(k ? k->name : NULL);
        free(k);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    k->magic = CU_KERNEL;
    k->lib = l;
    *ret = k;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *ret, size_t *bytes, CUlibrary l, const char *name)
{
    CU_CONTEXT(c);
    struct CUmod_st *m;
    CU_REQUIRE(CU_IS(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(in_context(l, c, &m));
    return global_of(m, name, ret, bytes);
}

CUresult cuLibraryGetKernelCount(unsigned *ret, CUlibrary l)
{
    CU_CONTEXT(c);
    struct CUmod_st *m;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(l, CU_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(in_context(l, c, &m));
    *ret = sg_module_kernels(m->sg);
    return CUDA_SUCCESS;
}

CUresult cu_function(struct CUctx_st *c, CUfunction f, struct CUfunc_st **ret)
{
    CU_REQUIRE(f, CUDA_ERROR_INVALID_HANDLE);
    if (f->magic == CU_KERNEL) { /* a CUkernel, cast: allowed wherever a CUfunction is launched */
        struct CUkern_st *k = (struct CUkern_st *)(void *)f;
        struct CUmod_st *m;
        CU_TRY(in_context(k->lib, c, &m));
        return cu_module_function(m, k->name, ret);
    }
    CU_REQUIRE(f->magic == CU_FUNC && f->mod->ctx == c, CUDA_ERROR_INVALID_HANDLE);
    *ret = f;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *ret, CUkernel k)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    return cu_function(c, (CUfunction)(void *)k, ret);
}

CUresult cuKernelGetName(const char **ret, CUkernel k)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *ret = k->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *ret, CUkernel k)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(CU_IS(k, CU_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *ret = k->lib;
    return CUDA_SUCCESS;
}
