/* The rows of a kernel's launch constants, and where its variables lie.
 *
 * Every operand that is a constant of the launch (an immediate, an address, a parameter read at a constant offset) is
 * one row of 32 equal lanes; equal ones are shared, by a hash table. The first rows are fixed: zeros, ones, lane
 * numbers, lane masks. Shared arrays of all functions come one behind the other as they are met, dynamic shared memory
 * behind the last of them; local and call-parameter variables have one place per function.
 */
#include "softgpu/decode/decode-priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- launch constants -------------------------------------------------------------------------------------------- */
static uint32_t konst_room(struct sg_dec *d, uint32_t bytes)
{
    size_t at = d->konst.n;
    if (at + bytes > 64u << 20 || !dt_reserve(&d->konst, at + bytes)) {
        d->nomem = true;
        return SG_K_ZERO64 | 1;
    }
    memset(d->konst.p + at, 0, bytes);
    d->konst.n += bytes;
    return (uint32_t)at | 1;
}

static struct konst_slot *kfind(struct konst_slot *t, uint32_t cap, uint64_t bits, bool wide)
{
    uint32_t h = (uint32_t)((bits * 0x9E3779B97F4A7C15u + wide) >> 32) & (cap - 1);
    while (t[h].used && (t[h].bits != bits || t[h].wide != wide))
        h = (h + 1) & (cap - 1);
    return &t[h];
}

uint32_t sg_konst(struct sg_dec *d, uint64_t bits, bool wide)
{
    if (!wide)
        bits &= 0xFFFFFFFF;
    if (d->kmap_n * 2 >= d->kmap_cap) {
        uint32_t cap = d->kmap_cap ? d->kmap_cap * 2 : 256;
        struct konst_slot *t = dt_calloc(cap, sizeof *t);
        if (!t) {
            d->nomem = true;
            return SG_K_ZERO64 | 1;
        }
        for (uint32_t i = 0; i < d->kmap_cap; i++)
            if (d->kmap[i].used)
                *kfind(t, cap, d->kmap[i].bits, d->kmap[i].wide) = d->kmap[i];
        free(d->kmap);
        d->kmap = t;
        d->kmap_cap = cap;
    }
    struct konst_slot *s = kfind(d->kmap, d->kmap_cap, bits, wide);
    if (s->used)
        return s->ref;
    uint32_t ref = konst_room(d, wide ? 256 : 128);
    if (d->nomem)
        return ref;
    for (unsigned l = 0; l < SG_LANES; l++)
        if (wide)
            memcpy(d->konst.p + (ref & ~3u) + l * 8, &bits, 8);
        else
            memcpy(d->konst.p + (ref & ~3u) + l * 4, &bits, 4);
    *s = (struct konst_slot){bits, ref, wide, true};
    d->kmap_n++;
    return ref;
}

int sg_fixed_konst(struct sg_dec *d)
{
    konst_room(d, SG_K_FIXED);
    if (d->nomem)
        return DT_E_NOMEM;
    uint32_t *k = (uint32_t *)d->konst.p;
    k[SG_K_TRUE / 4] = SG_ALL;
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint32_t eq = 1u << l, lt = eq - 1;
        k[SG_K_LANEID / 4 + l] = l;
        uint32_t v[5] = {eq, lt | eq, lt, ~lt, ~(lt | eq)};
        for (unsigned i = 0; i < 5; i++)
            k[(SG_K_LANEMASK + i * 128) / 4 + l] = v[i];
    }
    return 0;
}

/* ---- variables --------------------------------------------------------------------------------------------------- */
bool sg_is_kernel_param(const struct sg_dec *d, const struct ptx_var *v)
{
    for (uint32_t i = 0; i < d->k->f->nparam; i++)
        if (d->k->f->param[i] == v)
            return true;
    return false;
}

int sg_var_address(struct sg_dec *d, const struct ptx_var *v, uint64_t *ret)
{
    if (sg_is_kernel_param(d, v)) {
        for (uint32_t i = 0; i < d->k->f->nparam; i++)
            if (d->k->f->param[i] == v)
                *ret = d->k->info.param_offset[i];
        return 0;
    }
    if (v->space == PTX_GLOBAL || v->space == PTX_CONST) {
        *ret = sg_module_var(d->k->module, v);
        return *ret ? 0
                    : sg_dec_error(d, DT_E_UNSUPPORTED, "the external variable %s is not defined in this module",
                                   v->name);
    }
    if (v->space == PTX_SHARED && v->is_extern) {
        *ret = UINT64_MAX; /* dynamic shared memory: behind all static arrays, which are not all known yet */
        for (size_t i = 0; i < d->place.n; i++)
            if (d->place.p[i].var == v)
                *ret = d->place.p[i].offset;
        return 0;
    }
    for (size_t i = 0; i < d->place.n; i++)
        if (d->place.p[i].var == v) {
            *ret = d->place.p[i].offset;
            return 0;
        }
    uint64_t *total = v->space == PTX_SHARED ? &d->shared : &d->local, align = v->align ? v->align : 1;
    uint64_t limit = v->space == PTX_SHARED ? 16 << 20 : SG_MAX_LOCAL;
    uint64_t at = (*total + align - 1) / align * align;
    if (v->bytes > limit || at > limit - v->bytes)
        return sg_dec_error(d, DT_E_TOO_LARGE, "%s memory of the kernel is over %llu bytes",
                            v->space == PTX_SHARED ? "shared" : "local", (unsigned long long)limit);
    *total = at + v->bytes;
    if (!dt_push(&d->place, (struct sg_place){v, at}))
        d->nomem = true;
    *ret = at;
    return 0;
}

static bool each_var(const struct ptx_function *f, bool (*fn)(struct sg_dec *, const struct ptx_var *),
                     struct sg_dec *d)
{
    for (uint32_t i = 0; i < f->ninst; i++)
        for (uint32_t k = 0; k < f->inst[i].nopnd; k++) {
            const struct ptx_opnd *o = &f->inst[i].opnd[k];
            if ((o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) && !fn(d, o->var))
                return false;
            for (uint32_t e = 0; o->kind == PTX_O_VEC && e < o->n; e++)
                if (o->elem[e].kind == PTX_O_VAR && !fn(d, o->elem[e].var))
                    return false;
        }
    return true;
}

uint64_t sg_dynamic_at(const struct sg_dec *d)
{
    return (d->shared + d->dynamic_align - 1) / d->dynamic_align * d->dynamic_align;
}

static bool dynamic_align(struct sg_dec *d, const struct ptx_var *v)
{
    if (v->space == PTX_SHARED && v->is_extern && v->align > d->dynamic_align)
        d->dynamic_align = v->align;
    return true;
}

static bool place_static(struct sg_dec *d, const struct ptx_var *v)
{
    uint64_t at;
    return !(v->space == PTX_SHARED && !v->is_extern) || sg_var_address(d, v, &at) >= 0;
}

static bool place_dynamic(struct sg_dec *d, const struct ptx_var *v)
{
    if (v->space != PTX_SHARED || !v->is_extern)
        return true;
    for (size_t i = 0; i < d->place.n; i++)
        if (d->place.p[i].var == v)
            return true;
    if (!dt_push(&d->place, (struct sg_place){v, sg_dynamic_at(d)}))
        d->nomem = true;
    return true;
}

int sg_place_vars(struct sg_dec *d)
{
    for (size_t i = 0; i < d->fn.n; i++)
        if (!each_var(d->fn.p[i].f, place_static, d))
            return d->c->error;
    d->dynamic_align = 16;
    for (size_t i = 0; i < d->fn.n; i++)
        each_var(d->fn.p[i].f, dynamic_align, d);
    for (size_t i = 0; i < d->fn.n; i++)
        each_var(d->fn.p[i].f, place_dynamic, d);
    return 0;
}
