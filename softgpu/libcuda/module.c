/* Modules: from PTX text or a fat binary; functions by name, module variables.
 *
 * A CUmodule is one sg_module of one context. Of the JIT options the two log buffers have an effect; the others are
 * accepted and ignored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "softgpu/libcuda/cu-priv.h"

void cu_write_log(unsigned nopt, const CUjit_option *opt, void **val, CUjit_option buffer, CUjit_option size,
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

/* What this device cannot run is named here, not when it is launched: a line an entry in the error log. A module of
 * which no entry can run is refused; else the others can be had, and cuModuleGetFunction of one that cannot fails. */
static CUresult name_refused(struct sg_module *m, struct dt_str *log)
{
    unsigned n = sg_module_kernels(m), bad = 0;
    char why[512];
    for (unsigned i = 0; i < n; i++)
        if (sg_kernel_refused(sg_module_kernel_at(m, i), why, sizeof why))
            dt_str_addf(log, "%s%s", bad++ ? "\n" : "", why);
    return bad && bad == n ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult cu_jit_options(unsigned nopt, const CUjit_option *opt, void **val)
{
    CU_REQUIRE(!nopt || (opt && val), CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < nopt; i++)
        CU_REQUIRE((unsigned)opt[i] < CU_JIT_NUM_OPTIONS, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cu_module_new(struct CUctx_st *c, const char *ptx, size_t len, unsigned nopt, const CUjit_option *opt,
                       void **val, struct CUmod_st **ret)
{
    struct dt_err e = {0};
    const struct sg_model *model = c->dev->model;
    struct dt_str why = {0};
    unsigned major, minor;
    struct sg_module *sg = NULL;
    CUresult r = CUDA_SUCCESS;
    if (cu_text_too_new(ptx, &major, &minor)) {
        dt_str_addf(&why, "PTX version %u.%u is newer than this driver knows", major, minor);
        r = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    } else if (!sg_target_fits(ptx, len, model->cc_major * 10 + model->cc_minor)) {
        dt_str_addf(&why, "the .target is not for this device, sm_%u%u", model->cc_major, model->cc_minor);
        r = CUDA_ERROR_NO_BINARY_FOR_GPU;
    } else {
        r = cu_from_dt(sg_module_load(c->dev->sg, ptx, len, &sg, &e));
    }
    if (r == CUDA_SUCCESS)
        r = name_refused(sg, &why);
    cu_write_log(nopt, opt, val, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                 e.detail ? e.detail
                 : why.s  ? why.s
                          : "");
    cu_write_log(nopt, opt, val, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
    dt_str_done(&why);
    dt_err_done(&e);
    if (r != CUDA_SUCCESS) {
        sg_module_free(sg);
        return r;
    }
    struct CUmod_st *m = dt_calloc(1, sizeof *m);
    if (!m || !cu_handle_add(m, CU_MODULE) || !dt_push(&c->module, m)) {
        cu_handle_free(m);
        sg_module_free(sg);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->ctx = c;
    m->sg = sg;
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
        free(m->func.p[i]->legacy);
        cu_handle_free(m->func.p[i]);
    }
    free(m->func.p);
    cu_references_leave(m);
    sg_module_free(m->sg);
    cu_handle_free(m);
}

CUresult cu_module_function(struct CUmod_st *m, const char *name, struct CUfunc_st **ret)
{
    static uint64_t serial;
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
    f->serial = ++serial;
    f->mod = m;
    f->kernel = k;
    f->info = sg_kernel_info(k);
    f->carveout = -1;
    for (int i = 0; i < 3; i++)
        f->cluster[i] = (int)f->info->cluster[i];
    f->cluster_required = f->info->explicit_cluster;
    const struct sg_model *model = m->ctx->dev->model;
    f->max_dynamic =
        f->info->shared_static < model->shared_block ? (int)(model->shared_block - f->info->shared_static) : 0;
    if (!cu_handle_add(f, CU_FUNC) || !dt_push(&m->func, f)) {
        cu_handle_free(f);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = f;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *ret, const void *image, unsigned nopt, CUjit_option *opt, void **val)
{
    CU_CONTEXT(c);
    char *text;
    size_t len;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_jit_options(nopt, opt, val));
    CU_TRY(cu_image_text(c->dev->model, image, &text, &len));
    CUresult r = cu_module_new(c, text, len, nopt, opt, val, ret);
    free(text);
    return r;
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image) { return cuModuleLoadDataEx(ret, image, 0, NULL, NULL); }

CUresult cuModuleLoadFatBinary(CUmodule *ret, const void *image)
{
    return cuModuleLoadDataEx(ret, image, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *ret, const char *path)
{
    char *text;
    size_t len;
    CU_CONTEXT(c);
    CU_REQUIRE(ret && path, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_image_file(c->dev->model, path, &text, &len));
    CUresult r = cu_module_new(c, text, len, 0, NULL, NULL, ret);
    free(text);
    return r;
}

CUresult cuModuleUnload(CUmodule m)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(m, CU_MODULE) && m->ctx == c && !m->lib, CUDA_ERROR_INVALID_HANDLE);
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

#define CU_MODULE_OF(c, m)                                                                                             \
    CU_CONTEXT(c);                                                                                                     \
    CU_REQUIRE(cu_is(m, CU_MODULE), CUDA_ERROR_INVALID_HANDLE)

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule m, const char *name)
{
    CU_MODULE_OF(c, m);
    CU_REQUIRE(ret && name, CUDA_ERROR_INVALID_VALUE);
    return cu_module_function(m, name, ret);
}

CUresult cuModuleGetFunctionCount(unsigned *ret, CUmodule m)
{
    CU_MODULE_OF(c, m);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = sg_module_kernels(m->sg);
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *ret, unsigned n, CUmodule m)
{
    CU_MODULE_OF(c, m);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n && i < sg_module_kernels(m->sg); i++)
        CU_TRY(cu_module_function(m, sg_kernel_info(sg_module_kernel_at(m->sg, i))->name, &ret[i]));
    return CUDA_SUCCESS;
}

CUresult cu_module_global(struct CUmod_st *m, const char *name, CUdeviceptr *ret, size_t *ret_bytes)
{
    uint64_t addr = 0, bytes = 0;
    CU_REQUIRE(name && (ret || ret_bytes), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!sg_module_global(m->sg, name, &addr, &bytes), CUDA_ERROR_NOT_FOUND);
    if (ret)
        *ret = addr;
    if (ret_bytes)
        *ret_bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr *ret, size_t *bytes, CUmodule m, const char *name)
{
    CU_MODULE_OF(c, m);
    return cu_module_global(m, name, ret, bytes);
}
