/* Modules: parse, verify, place module variables in device memory, and hand out kernels.
 *
 * Variables of .global and .const space each get an allocation of their own (so that red zones catch overruns),
 * zero-filled or with their initialiser; addresses of other variables in initialisers are patched in once all are
 * placed. Kernels are decoded at first use, under the module's lock. Register counts are estimates from liveness until
 * sg_kernel_set_resources says better.
 */
#include "softgpu/decode/decode-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

uint64_t sg_function_address(const struct ptx_module *m, const struct ptx_function *f)
{
    const struct ptx_function *g = f->has_body ? f : ptx_find_function(m, f->name);
    for (uint32_t k = 0; g && g->has_body && k < m->nfunc; k++)
        if (m->func[k] == g)
            return 0x7Full << SG_WINDOW_SHIFT | (uint64_t)(k + 1) << 4;
    return 0;
}

uint64_t sg_module_var(const struct sg_module *m, const struct ptx_var *v)
{
    if (m->ptx->nvar == 0)
        return 0;
    for (uint32_t i = 0; i < m->ptx->nvar; i++)
        if (m->ptx->var[i] == v || (v->is_extern && m->var_addr[i] && !strcmp(m->ptx->var[i]->name, v->name)))
            return m->var_addr[i];
    return 0;
}

static enum sg_reference module_kind(const struct ptx_var *v)
{
    return v->type == PTX_TEXREF ? SG_REF_TEXTURE : v->type == PTX_SURFREF ? SG_REF_SURFACE : SG_REF_SAMPLER;
}

/* A variable that is a texture, sampler or surface: its address is its handle. Textures and surfaces are bound to
 * memory later (libcuda/texref.c); samplers are what they say. */
static int place_reference(struct sg_module *m, const struct ptx_var *v, uint64_t *ret)
{
    static const enum sg_edge edge[] = {SG_EDGE_WRAP, SG_EDGE_MIRROR, SG_EDGE_CLAMP, SG_EDGE_CLAMP, SG_EDGE_BORDER};
    static const char *const name[] = {"addr_mode_0", "addr_mode_1", "addr_mode_2"};
    struct sg_texture t = {.kind = module_kind(v), .bound = v->type == PTX_SAMPLERREF};
    for (unsigned k = 0; k < 3; k++) {
        int mode = ptx_texture_property(v, name[k]);
        t.sampler.edge[k] = mode < 0 ? SG_EDGE_CLAMP : edge[mode];
    }
    t.sampler.linear = ptx_texture_property(v, "filter_mode") == 1;
    t.sampler.normalized = ptx_texture_property(v, "force_unnormalized_coords") <= 0;
    t.sampler.most = SG_LEVELS;
    return sg_texture_add(m->device, &t, ret);
}

static int place_vars(struct sg_module *m, struct dt_err *e)
{
    struct ptx_module *p = m->ptx;
    m->var_addr = dt_calloc(p->nvar + 1, sizeof *m->var_addr);
    if (!m->var_addr)
        return DT_E_NOMEM;
    for (uint32_t i = 0; i < p->nvar; i++) {
        const struct ptx_var *v = p->var[i];
        if (v->type >= PTX_TEXREF && !v->is_extern) {
            if (place_reference(m, v, &m->var_addr[i]) < 0)
                return dt_err_set(e, DT_E_NOMEM, "no memory for %s", v->name);
            continue;
        }
        if ((v->space != PTX_GLOBAL && v->space != PTX_CONST) || v->is_extern || !v->bytes)
            continue;
        int r = sg_mem_alloc_as(m->device, v->bytes, v->space == PTX_CONST, &m->var_addr[i]);
        if (r < 0)
            return dt_err_set(e, r, "no memory for the module variable %s of %llu bytes", v->name,
                              (unsigned long long)v->bytes);
        sg_mem_name(m->device, m->var_addr[i], v->name);
        if (v->init)
            memcpy((void *)(uintptr_t)m->var_addr[i], v->init, v->bytes);
        else
            memset((void *)(uintptr_t)m->var_addr[i], 0, v->bytes);
    }
    for (uint32_t i = 0; i < p->nvar; i++)
        for (uint32_t k = 0; m->var_addr[i] && k < p->var[i]->nreloc; k++) {
            const struct ptx_reloc *r = &p->var[i]->reloc[k];
            uint64_t at = r->var ? sg_module_var(m, r->var) : r->func ? sg_function_address(p, r->func) : 0;
            if (!at)
                return dt_err_set(e, DT_E_UNSUPPORTED, "the initialiser of %s takes the address of %s", p->var[i]->name,
                                  r->func  ? r->func->name
                                  : r->var ? r->var->name
                                           : "?");
            at += (uint64_t)r->addend;
            if (r->at > p->var[i]->bytes || p->var[i]->bytes - r->at < 8)
                return dt_err_set(e, DT_E_PTX, "the initialiser of %s leaves it", p->var[i]->name);
            memcpy((uint8_t *)(uintptr_t)m->var_addr[i] + r->at, &at, 8);
        }
    return 0;
}

/* What liveness and declarations say, before anything runs. */
static int module_describe(struct sg_kernel *k, struct dt_arena *a)
{
    struct ptx_function *f = k->f;
    struct sg_kernel_info *i = &k->info;
    uint32_t *off = dt_new_array(a, uint32_t, f->nparam + 1), *bytes = dt_new_array(a, uint32_t, f->nparam + 1);
    if (!off || !bytes)
        return DT_E_NOMEM;
    uint64_t at = 0;
    for (uint32_t p = 0; p < f->nparam; p++) {
        uint64_t align = f->param[p]->align ? f->param[p]->align : 1;
        at = (at + align - 1) / align * align;
        if (at > 65536 || f->param[p]->bytes > 65536)
            return DT_E_TOO_LARGE;
        off[p] = (uint32_t)at;
        bytes[p] = (uint32_t)f->param[p]->bytes;
        at += f->param[p]->bytes;
    }
    i->name = f->name;
    i->nparam = f->nparam;
    i->param_offset = off;
    i->param_bytes = bytes;
    i->param_total = (uint32_t)at;
    i->registers_estimated = true;
    i->max_threads = 1024;
    const uint32_t *limit = f->reqntid[0] ? f->reqntid : f->maxntid;
    if (limit[0]) {
        uint64_t n = limit[0];
        n *= limit[1] ? limit[1] : 1;
        n = n > 1024 ? 1024 : n * (limit[2] ? limit[2] : 1);
        i->max_threads = n > 1024 ? 1024 : (uint32_t)n;
    }
    for (int c = 0; c < 3; c++)
        i->cluster[c] = f->reqnctapercluster[c];
    const char *rank = f->extra ? strstr(f->extra, ".maxclusterrank ") : NULL;
    i->max_cluster = rank ? (uint32_t)strtoul(rank + strlen(".maxclusterrank "), NULL, 10) : 0;
    i->explicit_cluster = i->cluster[0] || (f->extra && strstr(f->extra, ".explicitcluster"));
    i->ptx_version = k->module->ptx->version_major * 10 + k->module->ptx->version_minor;
    for (uint32_t v = 0; v < k->module->ptx->nvar; v++)
        if (k->module->ptx->var[v]->space == PTX_CONST)
            i->const_bytes += (uint32_t)k->module->ptx->var[v]->bytes;
    return 0;
}

/* From liveness, and no more than the directives allow: as ptxas does, a block of .maxntid threads must fit the
 * register file. */
static uint32_t estimate_registers(const struct ptx_function *f, const struct sg_device *d)
{
    const struct sg_model *model = sg_device_model(d);
    const uint32_t *limit = f->reqntid[0] ? f->reqntid : f->maxntid;
    uint64_t threads = (uint64_t)limit[0] * (limit[1] ? limit[1] : 1) * (limit[2] ? limit[2] : 1), most = 255;
    if (threads && threads <= 1024 && model && model->regs_block / ((threads + 127) / 128 * 128) / 8 * 8 < most)
        most = model->regs_block / ((threads + 127) / 128 * 128) / 8 * 8; /* warps live in quarters of the SM */
    if (f->maxnreg && f->maxnreg < most)
        most = f->maxnreg;
    struct ptx_cfg cfg;
    struct ptx_live live;
    uint32_t n = 32;
    if (ptx_cfg_build(f, &cfg, NULL) < 0)
        return n;
    if (ptx_live_build(f, &cfg, &live, NULL) == 0) {
        n = live.max_pressure_bytes / 4 + 8; /* addresses and parameters in flight */
        n = n < 16 ? 16 : n > most ? (uint32_t)most : n;
        ptx_live_done(&live);
    }
    ptx_cfg_done(&cfg);
    return n;
}

int sg_module_load(struct sg_device *d, const char *ptx, size_t len, struct sg_module **ret, struct dt_err *e)
{
    struct sg_module *m = dt_calloc(1, sizeof *m);
    if (!m)
        return dt_err_set(e, DT_E_NOMEM, "memory is out");
    m->device = d;
    pthread_mutex_init(&m->lock, NULL);
    int r = ptx_parse(ptx, len, &m->ptx, e);
    if (r >= 0)
        r = ptx_verify(m->ptx, e);
    if (r >= 0 && m->ptx->address_size != 64)
        r = dt_err_set(e, DT_E_UNSUPPORTED, "32-bit addresses");
    if (r >= 0)
        r = place_vars(m, e);
    if (r >= 0) {
        for (uint32_t i = 0; i < m->ptx->nfunc; i++)
            m->nkernel += m->ptx->func[i]->is_entry && m->ptx->func[i]->has_body;
        m->kernel = dt_calloc(m->nkernel + 1, sizeof *m->kernel);
        r = m->kernel ? 0 : DT_E_NOMEM;
        unsigned n = 0;
        for (uint32_t i = 0; r >= 0 && i < m->ptx->nfunc; i++)
            if (m->ptx->func[i]->is_entry && m->ptx->func[i]->has_body) {
                struct sg_kernel *k = &m->kernel[n++];
                k->module = m;
                k->f = m->ptx->func[i];
                r = module_describe(k, &m->ptx->arena);
            }
    }
    if (r < 0) {
        sg_module_free(m);
        return dt_err_set(e, r, "%s", dt_err_text(r)); /* the first one set stays */
    }
    *ret = m;
    return 0;
}

uint64_t sg_grid_workspace(struct sg_module *m)
{
    if (!m->workspace && sg_mem_alloc_as(m->device, 64, false, &m->workspace) == 0)
        memset((void *)(uintptr_t)m->workspace, 0, 64);
    return m->workspace;
}

struct sg_module *sg_module_free(struct sg_module *m)
{
    if (!m)
        return NULL;
    for (unsigned i = 0; m->kernel && i < m->nkernel; i++)
        sg_code_free(m->kernel[i].code), sg_code_free(m->kernel[i].checked);
    for (uint32_t i = 0; m->var_addr && i < m->ptx->nvar; i++)
        if (m->var_addr[i] && m->ptx->var[i]->type >= PTX_TEXREF)
            sg_texture_remove(m->device, m->var_addr[i]);
        else if (m->var_addr[i])
            sg_mem_free(m->device, m->var_addr[i]);
    if (m->workspace)
        sg_mem_free(m->device, m->workspace);
    free(m->kernel);
    free(m->var_addr);
    if (m->ptx)
        ptx_module_free(m->ptx);
    pthread_mutex_destroy(&m->lock);
    free(m);
    return NULL;
}

struct sg_code *sg_kernel_code(struct sg_kernel *k, bool checked)
{
    pthread_mutex_lock(&k->module->lock);
    if (checked && !k->checked && sg_decode(k, true, &k->checked) < 0)
        k->checked = NULL;
    if (!k->code) {
        struct sg_code *c;
        if (sg_decode(k, false, &c) == 0) {
            k->info.shared_static = c->shared_static;
            k->info.local_bytes = c->local_bytes;
            if (k->info.registers_estimated)
                k->info.registers = estimate_registers(k->f, k->module->device);
            k->code = c;
        }
    }
    struct sg_code *c = checked ? k->checked : k->code;
    pthread_mutex_unlock(&k->module->lock);
    return c;
}

bool sg_kernel_refused(const struct sg_kernel *k, char *ret, size_t n)
{
    const struct sg_code *c = sg_kernel_code((struct sg_kernel *)(uintptr_t)k, false);
    if (!c || !c->error)
        return false;
    snprintf(ret, n, "line %u: entry %s: %s", c->error_line, k->f->name, c->error_text);
    return true;
}

struct sg_kernel *sg_module_kernel(struct sg_module *m, const char *entry)
{
    for (unsigned i = 0; i < m->nkernel; i++)
        if (!strcmp(m->kernel[i].f->name, entry))
            return &m->kernel[i];
    return NULL;
}

unsigned sg_module_kernels(const struct sg_module *m) { return m->nkernel; }
struct sg_kernel *sg_module_kernel_at(struct sg_module *m, unsigned i) { return i < m->nkernel ? &m->kernel[i] : NULL; }

int sg_module_global(struct sg_module *m, const char *name, uint64_t *ret_addr, uint64_t *ret_bytes)
{
    for (uint32_t i = 0; i < m->ptx->nvar; i++)
        if (m->var_addr[i] && m->ptx->var[i]->type < PTX_TEXREF && !strcmp(m->ptx->var[i]->name, name)) {
            if (ret_addr)
                *ret_addr = m->var_addr[i];
            if (ret_bytes)
                *ret_bytes = m->ptx->var[i]->bytes;
            return 0;
        }
    return DT_E_NOT_FOUND;
}

int sg_module_reference(struct sg_module *m, const char *name, enum sg_reference kind, uint64_t *ret_handle)
{
    for (uint32_t i = 0; i < m->ptx->nvar; i++) {
        const struct ptx_var *v = m->ptx->var[i];
        if (m->var_addr[i] && v->type >= PTX_TEXREF && module_kind(v) == kind && !strcmp(v->name, name)) {
            *ret_handle = m->var_addr[i];
            return 0;
        }
    }
    return DT_E_NOT_FOUND;
}

const struct sg_kernel_info *sg_kernel_info(const struct sg_kernel *k)
{
    sg_kernel_code((struct sg_kernel *)k, false); /* static shared memory and registers are known once it is decoded */
    return &k->info;
}

void sg_kernel_set_resources(struct sg_kernel *k, uint32_t registers)
{
    pthread_mutex_lock(&k->module->lock);
    k->info.registers = registers;
    k->info.registers_estimated = false;
    pthread_mutex_unlock(&k->module->lock);
}

bool sg_module_source(const struct sg_module *m, uint32_t line, char *ret, size_t n)
{
    for (uint32_t i = 0; line && i < m->ptx->nfunc; i++) {
        const struct ptx_function *f = m->ptx->func[i];
        if (!f->ninst || f->inst[0].line > line || f->inst[f->ninst - 1].line < line)
            continue;
        struct ptx_source s;
        struct ptx_inst last = {.line = line, .col = UINT32_MAX}; /* of several in a line */
        if (!ptx_source_of(f, &last, &s))
            return false;
        if (s.at_file)
            snprintf(ret, n, "%s:%u, inlined at %s:%u", s.file, s.line, s.at_file, s.at_line);
        else
            snprintf(ret, n, "%s:%u", s.file, s.line);
        return true;
    }
    return false;
}
