/* The linker: cuLink* joins PTX modules into one. What it gives back as the "cubin" is PTX text, which cuModuleLoadData
 * takes.
 *
 * One input is passed on as it is. Several inputs are parsed, and printed one after the other under one header (the
 * newest version, the highest target).
 *
 *   names that a module keeps to itself   get a number where another module has the same name
 *   `extern` declarations                 go if another module defines the name, or an earlier one declares it; of a
 *                                         function that a later one defines, it becomes a declaration as that one is
 *   weak and common definitions           the first one stays
 *   two strong definitions of a name      are an error
 *
 * Inputs are PTX and fat binaries with PTX. SASS, objects and libraries are CUDA_ERROR_NO_BINARY_FOR_GPU, NVVM is
 * CUDA_ERROR_NOT_SUPPORTED.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "softgpu/libcuda/cu-priv.h"

struct input {
    char *text;
    size_t len;
    struct ptx_module *ptx;
};

struct CUlinkState_st {
    struct CUctx_st *ctx;
    struct dt_vec(struct input) in;
    unsigned nopt;
    CUjit_option *opt;
    void **val; /* the caller's: lengths of logs are written there */
    char *out;
};

static void link_log(struct CUlinkState_st *l, const char *text)
{
    cu_write_log(l->nopt, l->opt, l->val, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, text);
}

CUresult cuLinkCreate(unsigned nopt, CUjit_option *opt, void **val, CUlinkState *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_jit_options(nopt, opt, val));
    struct CUlinkState_st *l = dt_calloc(1, sizeof *l);
    CUjit_option *own = nopt ? dt_memdup(opt, nopt * sizeof *opt) : NULL;
    if (!l || (nopt && !own) || !cu_handle_add(l, CU_LINK)) {
        free(own);
        free(l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    l->ctx = c;
    l->nopt = nopt;
    l->opt = own;
    l->val = val;
    *ret = l;
    return CUDA_SUCCESS;
}

static CUresult link_add(struct CUlinkState_st *l, CUjitInputType type, const void *data, size_t size, const char *name)
{
    struct input in = {0};
    struct dt_err e = {0};
    unsigned major, minor;
    switch (type) {
    case CU_JIT_INPUT_PTX:
    case CU_JIT_INPUT_FATBINARY: break;
    case CU_JIT_INPUT_CUBIN:
    case CU_JIT_INPUT_OBJECT:
    case CU_JIT_INPUT_LIBRARY: return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case CU_JIT_INPUT_NVVM: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    CU_REQUIRE(size <= PTX_MAX_BYTES, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_image_bytes(l->ctx->dev->model, data, size, &in.text, &in.len));
    CUresult r = cu_text_too_new(in.text, &major, &minor) ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        r = cu_from_dt(ptx_parse(in.text, in.len, &in.ptx, &e));
    if (r == CUDA_SUCCESS)
        r = cu_from_dt(ptx_verify(in.ptx, &e));
    if (r == CUDA_SUCCESS && !dt_push(&l->in, in))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        struct dt_str s = {0};
        dt_str_addf(&s, "%s: %s", name ? name : "input",
                    e.detail ? e.detail : "the PTX is of a version that is not known");
        link_log(l, s.s ? s.s : "");
        dt_str_done(&s);
        if (in.ptx)
            ptx_module_free(in.ptx);
        free(in.text);
    }
    dt_err_done(&e);
    return r;
}

#define CU_LINK_OF(c, l)                                                                                               \
    CU_CONTEXT(c);                                                                                                     \
    CU_REQUIRE(cu_is(l, CU_LINK) && l->ctx == c, CUDA_ERROR_INVALID_HANDLE)

CUresult cuLinkAddData(CUlinkState l, CUjitInputType type, void *data, size_t size, const char *name, unsigned nopt,
                       CUjit_option *opt, void **val)
{
    CU_LINK_OF(c, l);
    CU_REQUIRE(data && size, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_jit_options(nopt, opt, val));
    return link_add(l, type, data, size, name);
}

CUresult cuLinkAddFile(CUlinkState l, CUjitInputType type, const char *path, unsigned nopt, CUjit_option *opt,
                       void **val)
{
    CU_LINK_OF(c, l);
    char *data;
    size_t len;
    CU_REQUIRE(path, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_jit_options(nopt, opt, val));
    int r = dt_read_file(path, PTX_MAX_BYTES, &data, &len, NULL);
    CU_REQUIRE(!r, r == DT_E_NOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_FILE_NOT_FOUND);
    CUresult res = len ? link_add(l, type, data, len, path) : CUDA_ERROR_INVALID_IMAGE;
    free(data);
    return res;
}

/* ---- joining ---- */
struct names {
    struct dt_vec(const char *) strong, loose, declared; /* defined; defined weakly; only declared so far */
};

static bool link_has(const char *const *p, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(p[i], name))
            return true;
    return false;
}

static bool name_in(const struct ptx_module *m, const char *name)
{
    return ptx_find_function(m, name) || ptx_find_var(m, name);
}

/* A private name that any other module has too gets the number of its module. */
static int make_unique(struct CUlinkState_st *l, size_t which)
{
    struct ptx_module *m = l->in.p[which].ptx;
    for (uint32_t i = 0; i < m->nvar + m->nfunc; i++) {
        struct ptx_var *v = i < m->nvar ? m->var[i] : NULL;
        struct ptx_function *f = v ? NULL : m->func[i - m->nvar];
        if (v ? v->visible || v->is_extern || v->weak || v->common
              : f->visible || f->is_extern || f->weak || f->is_entry)
            continue;
        const char *name = v ? v->name : f->name;
        bool taken = false;
        for (size_t k = 0; k < l->in.n; k++)
            taken = taken || (k != which && name_in(l->in.p[k].ptx, name));
        if (!taken)
            continue;
        const char *fresh = dt_arena_printf(&m->arena, "%s$module%zu", name, which);
        if (!fresh)
            return DT_E_NOMEM;
        if (v)
            v->name = fresh;
        else
            for (uint32_t k = 0; k < m->nfunc; k++) /* prototypes too */
                if (!strcmp(m->func[k]->name, name))
                    m->func[k]->name = fresh;
    }
    return 0;
}

/* Does a name that is defined (strong, or loose: weak, common) or declared stay in the output? -1: defined twice; -2:
 * no memory. */
static int stays(struct names *n, const char *name, bool defined, bool loose)
{
    bool there = link_has(n->strong.p, n->strong.n, name) || link_has(n->loose.p, n->loose.n, name);
    if (!defined) {
        if (there || link_has(n->declared.p, n->declared.n, name))
            return 0;
        return dt_push(&n->declared, name) ? 1 : -2;
    }
    if (there)
        return loose ? 0 : -1;
    return (loose ? dt_push(&n->loose, name) : dt_push(&n->strong, name)) ? 1 : -2;
}

static CUresult join_one(struct CUlinkState_st *l, struct ptx_module *m, struct names *n)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < m->nvar; i++) {
        struct ptx_var *v = m->var[i];
        bool elsewhere = false; /* an extern variable whose definition another module brings is not declared at all */
        for (size_t k = 0; v->is_extern && k < l->in.n; k++) {
            const struct ptx_var *o = l->in.p[k].ptx == m ? NULL : ptx_find_var(l->in.p[k].ptx, v->name);
            elsewhere = elsewhere || (o && !o->is_extern);
        }
        int r = elsewhere ? 0 : stays(n, v->name, !v->is_extern, v->weak || v->common);
        CU_REQUIRE(r != -2, CUDA_ERROR_OUT_OF_MEMORY);
        if (r < 0) {
            link_log(l, v->name);
            return CUDA_ERROR_INVALID_IMAGE;
        }
        if (r)
            m->var[at++] = v;
    }
    m->nvar = at;
    at = 0;
    for (uint32_t i = 0; i < m->nfunc; i++) {
        struct ptx_function *f = m->func[i];
        for (size_t k = 0; f->is_extern && k < l->in.n; k++) { /* ptxas refuses to define what was called extern */
            const struct ptx_function *o = l->in.p[k].ptx == m ? NULL : ptx_find_function(l->in.p[k].ptx, f->name);
            if (o && o->has_body) {
                f->is_extern = false;
                f->visible = o->visible;
                f->weak = o->weak;
                break;
            }
        }
        int r = stays(n, f->name, f->has_body, f->weak);
        CU_REQUIRE(r != -2, CUDA_ERROR_OUT_OF_MEMORY);
        if (r < 0) {
            link_log(l, f->name);
            return CUDA_ERROR_INVALID_IMAGE;
        }
        if (r)
            m->func[at++] = f;
    }
    m->nfunc = at;
    return CUDA_SUCCESS;
}

static unsigned long target_number(const struct ptx_module *m)
{
    const char *p = strstr(m->target, "sm_");
    return p ? strtoul(p + 3, NULL, 10) : 0;
}

static CUresult link_join(struct CUlinkState_st *l, struct dt_str *out)
{
    const struct ptx_module *newest = l->in.p[0].ptx, *highest = newest;
    struct names n = {0};
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < l->in.n; i++) {
        const struct ptx_module *m = l->in.p[i].ptx;
        if (m->version_major * 100 + m->version_minor > newest->version_major * 100 + newest->version_minor)
            newest = m;
        if (target_number(m) > target_number(highest))
            highest = m;
        if (make_unique(l, i) < 0)
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    dt_str_addf(out, ".version %u.%u\n.target %s\n.address_size 64\n", newest->version_major, newest->version_minor,
                highest->target);
    /* Definitions of variables first, wherever they are: uses in earlier modules must see them. */
    for (size_t i = 0; i < l->in.n && r == CUDA_SUCCESS; i++)
        r = join_one(l, l->in.p[i].ptx, &n);
    for (int functions = 0; functions < 2; functions++)
        for (size_t i = 0; i < l->in.n && r == CUDA_SUCCESS; i++) {
            struct ptx_module *m = l->in.p[i].ptx, part = *m;
            struct dt_str text = {0};
            if (functions)
                part.nvar = 0;
            else
                part.nfunc = part.nalias = 0;
            if (ptx_print(&part, &text) < 0 || !text.s)
                r = CUDA_ERROR_OUT_OF_MEMORY;
            const char *body = text.s ? strstr(text.s, ".address_size") : NULL;
            body = body ? strchr(body, '\n') : NULL;
            if (body)
                dt_str_add(out, body);
            dt_str_done(&text);
        }
    free(n.strong.p);
    free(n.loose.p);
    free(n.declared.p);
    return r == CUDA_SUCCESS && out->failed ? CUDA_ERROR_OUT_OF_MEMORY : r;
}

CUresult cuLinkComplete(CUlinkState l, void **ret, size_t *ret_size)
{
    CU_LINK_OF(c, l);
    struct dt_str out = {0};
    struct dt_err e = {0};
    struct ptx_module *check;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(l->in.n && !l->out, CUDA_ERROR_INVALID_VALUE);
    CUresult r = CUDA_SUCCESS;
    if (l->in.n == 1)
        dt_str_addn(&out, l->in.p[0].text, l->in.p[0].len);
    else
        r = link_join(l, &out);
    if (r == CUDA_SUCCESS && out.failed)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS) {
        r = cu_from_dt(ptx_parse(out.s, out.len, &check, &e));
        if (r == CUDA_SUCCESS)
            ptx_module_free(check);
        else
            link_log(l, e.detail ? e.detail : "");
    }
    dt_err_done(&e);
    if (r != CUDA_SUCCESS) {
        dt_str_done(&out);
        return r;
    }
    size_t size = out.len + 1; /* the NUL belongs to it */
    l->out = dt_str_take(&out);
    *ret = l->out;
    if (ret_size)
        *ret_size = size;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState l)
{
    CU_READY();
    CU_REQUIRE(cu_is(l, CU_LINK), CUDA_ERROR_INVALID_HANDLE);
    for (size_t i = 0; i < l->in.n; i++) {
        ptx_module_free(l->in.p[i].ptx);
        free(l->in.p[i].text);
    }
    free(l->in.p);
    free(l->opt);
    free(l->out);
    cu_handle_free(l);
    return CUDA_SUCCESS;
}
