/* The PTX of every kernel that is launched, and what no graph can have.
 *
 * PTX text is itself; of a fat binary the best PTX for the device is taken; a cubin has none. Triton and Inductor keep
 * NAME.ptx beside NAME.cubin in their caches: where a file there has the cubin's bytes, its neighbour is the text that
 * it was assembled from. Any other machine code stays machine code, and its launches become CUT.
 *
 * A module's variables in global memory become memory without an address, so that they can be buffers MODULE::name;
 * those that the host asked for (a copy to a symbol) have one. Managed variables, and initial content with addresses in
 * it, are left to the module.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "capture/capture-priv.h"
#include "ptx/ptx.h"
#include "softgpu/sg.h"

#define MAX_PTX ((size_t)64 << 20)
#define DEPTH 8

/* ---- caches ---- */
static _Thread_local struct cap_trace *looking; /* nftw has no argument for it */

static int module_look_at(const char *path, const struct stat *st, int type, struct FTW *at)
{
    size_t n = strlen(path), len = 0;
    if (at->level > DEPTH || type != FTW_F || n < 6 || strcmp(path + n - 6, ".cubin") != 0)
        return 0;
    for (size_t i = 0; i < looking->image.n; i++) {
        struct cap_image *x = &looking->image.p[i];
        dt_free_ char *data = NULL, *ptx = NULL, *beside = NULL;
        if (x->form != CAP_CUBIN || x->ptx || (uint64_t)st->st_size != x->len ||
            dt_read_file(path, x->len + 1, &data, &len, NULL) < 0 || len != x->len || memcmp(data, x->data, len) != 0 ||
            asprintf(&beside, "%.*s.ptx", (int)(n - 6), path) < 0 ||
            dt_read_file(beside, MAX_PTX, &ptx, &len, NULL) < 0)
            continue;
        x->ptx = dt_arena_strndup(&looking->arena, ptx, len);
    }
    return 0;
}

static void module_look(struct cap_trace *t, const char *const *folder)
{
    bool any = false;
    for (size_t i = 0; i < t->image.n; i++)
        any = any || t->image.p[i].form == CAP_CUBIN;
    looking = t;
    for (; any && folder && *folder; folder++)
        nftw(*folder, module_look_at, 32, FTW_PHYS);
    looking = NULL;
}

/* ---- images ---- */
static int image_text(struct cap_trace *t, struct cap_image *x)
{
    char *text = NULL;
    size_t len;
    if (x->form == CAP_PTX)
        x->ptx = dt_arena_strndup(&t->arena, (const char *)x->data, strnlen((const char *)x->data, x->len));
    else if (x->form == CAP_FATBIN && x->len >= 16 && sg_fatbin_is(x->data)) {
        int r = sg_fatbin_ptx(x->data, x->len, t->cc ? t->cc : 90, &text, &len);
        if (!r)
            x->ptx = dt_arena_strndup(&t->arena, text, len);
        free(text);
        if (r == DT_E_NOMEM)
            return r;
    }
    if (!x->ptx)
        x->why = x->form == CAP_CUBIN ? "machine code alone, and no compiler's cache has its PTX"
                                      : "its fat binary has machine code alone, or PTX for later devices only";
    return 0;
}

static void image_parse(struct cap_trace *t, struct cap_image *x)
{
    struct dt_err e = {0};
    if (x->ptx && !x->module && !x->why && ptx_parse(x->ptx, strlen(x->ptx), &x->module, &e) < 0)
        x->why = dt_arena_strdup(&t->arena, e.detail ? e.detail : "its PTX is not understood");
    dt_err_done(&e);
}

static int module_variables(struct cap_trace *t, uint32_t image)
{
    struct cap_image *x = &t->image.p[image];
    for (uint32_t i = 0; i < x->module->nvar; i++) {
        const struct ptx_var *v = x->module->var[i];
        size_t k = 0;
        while (k < t->memory.n && !(t->memory.p[k].image == image && !strcmp(t->memory.p[k].name, v->name)))
            k++;
        if ((v->space != PTX_GLOBAL && v->space != PTX_CONST) || v->is_extern || !v->bytes || v->nreloc ||
            (v->attribute && strstr(v->attribute, "managed")) || (k == t->memory.n && v->space == PTX_CONST))
            continue; /* what nobody writes needs no buffer */
        struct cap_memory m = {.at = UINT64_MAX, .bytes = v->bytes, .image = image, .name = v->name, .died = CAP_NONE};
        if (k == t->memory.n && !dt_push(&t->memory, m))
            return DT_E_NOMEM;
        t->memory.p[k].born = 0;
        t->memory.p[k].died = CAP_NONE;
        t->memory.p[k].bytes = v->bytes;
        t->memory.p[k].constant = v->space == PTX_CONST;
        t->memory.p[k].init = v->init;
    }
    return 0;
}

/* ---- launches ---- */
/* The parameters of a block that was given whole, by the layout of PTX. */
static bool module_lay_out(struct cap_trace *t, struct cap_op *o, const struct ptx_function *f, uint32_t op)
{
    struct cap_param *p = dt_new_array(&t->arena, struct cap_param, f->nparam + 1);
    struct cap_point *pt = dt_new_array(&t->arena, struct cap_point, o->launch.total / 8 + 1);
    uint64_t at = 0;
    if (!p || !pt)
        return false;
    o->npoint = 0;
    for (uint32_t i = 0; i < f->nparam; i++) {
        uint64_t align = f->param[i]->align ? f->param[i]->align : 1;
        at = (at + align - 1) / align * align;
        if (at > o->launch.total || f->param[i]->bytes > o->launch.total - at)
            return false;
        p[i] = (struct cap_param){(uint32_t)at, (uint32_t)f->param[i]->bytes};
        for (uint32_t k = 0; k + 8 <= p[i].bytes; k += 8) {
            uint64_t v;
            memcpy(&v, o->block + at + k, 8);
            uint32_t mem = cap_memory_at(t, v, op);
            if (mem != CAP_NONE)
                pt[o->npoint++] = (struct cap_point){v - t->memory.p[mem].at, 1, i, k, mem, CAP_NONE};
        }
        at += f->param[i]->bytes;
    }
    o->param = p;
    o->point = pt;
    o->launch.nparam = f->nparam;
    return true;
}

/* Bytes from its address to its end; 0: more than any memory has. */
static uint64_t map_span(const struct cap_map *m)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    const uint64_t most = UINT64_C(1) << 38;
    uint64_t span = 0;
    if (m->type > 15 || m->dim[0] > most)
        return 0;
    /* from 13 on 16 elements are a unit of 8 or 16 bytes */
    span = m->type < sizeof bytes ? m->dim[0] * bytes[m->type] : (m->dim[0] + 15) / 16 * (m->type == 13 ? 8 : 16);
    for (uint32_t i = 1; i < m->rank; i++) {
        if (!m->dim[i] || m->dim[i] > UINT64_C(1) << 32 || m->stride[i] > most || span > most ||
            (m->stride[i] && m->dim[i] - 1 > most / m->stride[i]))
            return 0;
        span += (m->dim[i] - 1) * m->stride[i];
    }
    return span;
}

/* A parameter that is a tensor map: the addresses that its bits may look like are none, and it is one. */
static bool map_taken(struct cap_trace *t, struct cap_op *o, uint32_t op, uint32_t param)
{
    size_t i = t->map.n;
    while (i > 0 && memcmp(t->map.p[i - 1].map, o->block + o->param[param].at, 128) != 0)
        i--;
    const struct cap_map *m = i ? &t->map.p[i - 1] : NULL;
    uint32_t mem = m ? cap_memory_at(t, m->at, op) : CAP_NONE, n = 0;
    uint64_t span = m ? map_span(m) : 0;
    struct cap_point *p = dt_new_array(&t->arena, struct cap_point, o->npoint + 1);
    if (mem == CAP_NONE || !p || !span || span > t->memory.p[mem].bytes - (m->at - t->memory.p[mem].at))
        return false;
    for (uint32_t k = 0; k < o->npoint; k++)
        if (o->point[k].param != param)
            p[n++] = o->point[k];
    p[n++] = (struct cap_point){m->at - t->memory.p[mem].at, span, param, 0, mem, (uint32_t)(i - 1)};
    t->memory.p[mem].used = true;
    o->point = p;
    o->npoint = n;
    return true;
}

static const char *launch_cut(struct cap_trace *t, uint32_t op)
{
    struct cap_op *o = &t->op.p[op];
    if (o->launch.function >= t->entry.n)
        return "a kernel that is not known";
    struct cap_entry *x = &t->entry.p[o->launch.function];
    struct cap_image *i = x->image < t->image.n ? &t->image.p[x->image] : NULL;
    if (!i)
        return dt_arena_printf(&t->arena, "kernel %.200s: how its module was loaded was not seen", x->name);
    image_parse(t, i);
    if (!i->module)
        return dt_arena_printf(&t->arena, "kernel %.200s: %.300s", x->name,
                               i->why ? i->why : "its PTX is not understood");
    x->f = ptx_find_function(i->module, x->name);
    if (!x->f || !x->f->is_entry)
        return dt_arena_printf(&t->arena, "kernel %.200s: its module's PTX has no such entry", x->name);
    const struct ptx_inst *fetch = NULL;
    if (ptx_texture_used(x->f, &fetch)) /* memory is out: nothing is known */
        return dt_arena_printf(&t->arena, "kernel %.200s: a graph has no textures and no surfaces (`%s`, PTX line %u)",
                               x->name, fetch ? ptx_op_info((enum ptx_op)fetch->op)->mnemonic : "?",
                               fetch ? fetch->line : 0);
    if (o->launch.flags & CAP_COOPERATIVE)
        return dt_arena_printf(&t->arena, "kernel %.200s: cooperative launches are not supported", x->name);
    if (o->launch.flags & CAP_BLOCK && !module_lay_out(t, o, x->f, op))
        return dt_arena_printf(&t->arena, "kernel %.200s: its parameters are too short", x->name);
    if (o->launch.nparam != x->f->nparam)
        return dt_arena_printf(&t->arena, "kernel %.200s: its module's PTX has other parameters", x->name);
    for (uint32_t k = 0; k < x->f->nparam; k++) {
        const struct ptx_var *v = x->f->param[k];
        if (v->bytes != o->param[k].bytes)
            return dt_arena_printf(&t->arena, "kernel %.200s: its module's PTX has other parameters", x->name);
        if (v->is_array && v->bytes == 128 && v->align >= 64 && !map_taken(t, o, op, k))
            return dt_arena_printf(&t->arena, "kernel %.200s: parameter %u is no tensor map of cuTensorMapEncodeTiled",
                                   x->name, k);
    }
    return NULL;
}

int cap_modules(struct cap_trace *t, const char *const *folder, struct dt_err *e)
{
    module_look(t, folder);
    for (size_t i = 0; i < t->image.n; i++)
        if (!t->image.p[i].ptx && image_text(t, &t->image.p[i]) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < t->op.n; i++)
        if (t->op.p[i].kind == CAP_KERNEL) {
            const char *why = launch_cut(t, i);
            if (why)
                t->op.p[i] = (struct cap_op){.kind = CAP_CUT, .why = why};
        }
    for (size_t i = 0; i < t->memory.n; i++)
        if (t->memory.p[i].image != CAP_NONE && t->memory.p[i].used)
            image_parse(t, &t->image.p[t->memory.p[i].image]);
    for (uint32_t i = 0; i < t->image.n; i++)
        if (t->image.p[i].module && module_variables(t, i) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < t->memory.n; i++)
        if (t->memory.p[i].image != CAP_NONE && !dt_push(&t->variable, i))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return dt_arena_failed(&t->arena) ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

struct cap_trace *cap_trace_free(struct cap_trace *t)
{
    if (!t)
        return NULL;
    for (size_t i = 0; i < t->image.n; i++)
        ptx_module_free(t->image.p[i].module);
    for (size_t i = 0; i < t->op.n; i++)
        for (uint32_t k = 0; k < t->op.p[i].ntouch; k++) {
            free(t->op.p[i].touch[k].read.p);
            free(t->op.p[i].touch[k].write.p);
            free(t->op.p[i].touch[k].may.p);
        }
    for (size_t i = 0; i < t->memory.n; i++) {
        free(t->memory.p[i].content);
        free(t->memory.p[i].valid);
    }
    free(t->memory.p);
    free(t->variable.p);
    free(t->op.p);
    free(t->image.p);
    free(t->entry.p);
    free(t->event.p);
    free(t->map.p);
    free(t->file);
    dt_arena_done(&t->arena);
    free(t);
    return NULL;
}
