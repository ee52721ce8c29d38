/* Texture and surface references: the .texref and .surfref variables of a module, bound to memory by calls of before
 * CUDA 5, which cuda.h still declares.
 *
 * A reference is a handle of the device from the time its module is loaded on (decode/module.c). Each call here changes
 * what it is to be; when that can be a texture, the device has it from then on, and else a fetch is a fault. A
 * reference that cuTexRefCreate makes belongs to no module, and is only remembered.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

enum { TEXTURE_ALIGN = 512 };

static void update(struct CUtexref_st *r)
{
    struct sg_texture t = {.kind = SG_REF_TEXTURE};
    if (!r->handle)
        return;
    t.bound = r->has && cu_texture_memory(r->ctx, &r->resource, &t) == CUDA_SUCCESS &&
              cu_texture_sampler(&r->desc, &t) == CUDA_SUCCESS;
    sg_texture_set(r->ctx->dev->sg, r->handle, &t);
}

static struct CUtexref_st *new_reference(struct CUctx_st *c, struct CUmod_st *m, uint64_t handle, const char *name)
{
    struct CUtexref_st *r = dt_calloc(1, sizeof *r);
    char *copy = name ? strdup(name) : NULL;
    if (!r || (name && !copy) || !cu_handle_add(r, CU_TEXREF)) {
        free(copy);
        free(r);
        return NULL;
    }
    *r = (struct CUtexref_st){.ctx = c, .mod = m, .handle = handle, .name = copy};
    r->resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    r->resource.res.linear.numChannels = 1;
    r->desc.maxMipmapLevelClamp = SG_LEVELS;
    return r;
}

CUresult cuModuleGetTexRef(CUtexref *ret, CUmodule m, const char *name)
{
    CU_CONTEXT(c);
    uint64_t handle;
    CU_REQUIRE(cu_is(m, CU_MODULE), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret && name, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < m->texref.n; i++)
        if (!strcmp(m->texref.p[i]->name, name)) {
            *ret = m->texref.p[i];
            return CUDA_SUCCESS;
        }
    CU_REQUIRE(!sg_module_reference(m->sg, name, SG_REF_TEXTURE, &handle), CUDA_ERROR_NOT_FOUND);
    struct CUtexref_st *r = new_reference(m->ctx, m, handle, name);
    CU_REQUIRE(r, CUDA_ERROR_OUT_OF_MEMORY);
    if (!dt_push(&m->texref, r)) {
        free(r->name);
        cu_handle_free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = r;
    return CUDA_SUCCESS;
}

CUresult cuTexRefCreate(CUtexref *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    struct CUtexref_st *r = new_reference(c, NULL, 0, NULL);
    CU_REQUIRE(r, CUDA_ERROR_OUT_OF_MEMORY);
    *ret = r;
    return CUDA_SUCCESS;
}

#define CU_TEXREF_OF(c, r)                                                                                             \
    CU_CONTEXT(c);                                                                                                     \
    CU_REQUIRE(cu_is(r, CU_TEXREF), CUDA_ERROR_INVALID_HANDLE)

CUresult cuTexRefDestroy(CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(!r->mod, CUDA_ERROR_INVALID_HANDLE);
    cu_handle_free(r);
    return CUDA_SUCCESS;
}

/* Bind what `want` says; nothing changes where it cannot be bound. */
static CUresult bind(struct CUtexref_st *r, const CUDA_RESOURCE_DESC *want)
{
    struct sg_texture t = {.kind = SG_REF_TEXTURE};
    CU_TRY(cu_texture_memory(r->ctx, want, &t));
    r->resource = *want;
    r->has = true;
    update(r);
    return CUDA_SUCCESS;
}

CUresult cuTexRefSetArray(CUtexref r, CUarray a, unsigned flags)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(flags == CU_TRSA_OVERRIDE_FORMAT, CUDA_ERROR_INVALID_VALUE);
    return bind(r, &(CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a});
}

CUresult cuTexRefSetMipmappedArray(CUtexref r, CUmipmappedArray m, unsigned flags)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(flags == CU_TRSA_OVERRIDE_FORMAT, CUDA_ERROR_INVALID_VALUE);
    return bind(r, &(CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = m});
}

CUresult cuTexRefSetAddress(size_t *ret_offset, CUtexref r, CUdeviceptr p, size_t bytes)
{
    CU_TEXREF_OF(c, r);
    size_t offset = p % TEXTURE_ALIGN;
    CU_REQUIRE(ret_offset || !offset, CUDA_ERROR_INVALID_VALUE);
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_LINEAR};
    d.res.linear.devPtr = p - offset;
    d.res.linear.format = r->format ? r->format : CU_AD_FORMAT_FLOAT;
    d.res.linear.numChannels = r->channels ? r->channels : 1;
    d.res.linear.sizeInBytes = bytes + offset;
    CU_TRY(bind(r, &d));
    if (ret_offset)
        *ret_offset = offset;
    return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddress2D(CUtexref r, const CUDA_ARRAY_DESCRIPTOR *a, CUdeviceptr p, size_t pitch)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(a, CUDA_ERROR_INVALID_VALUE);
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    d.res.pitch2D.devPtr = p;
    d.res.pitch2D.format = a->Format;
    d.res.pitch2D.numChannels = a->NumChannels;
    d.res.pitch2D.width = a->Width;
    d.res.pitch2D.height = a->Height;
    d.res.pitch2D.pitchInBytes = pitch;
    return bind(r, &d);
}

CUresult cuTexRefSetFormat(CUtexref r, CUarray_format f, int channels)
{
    CU_TEXREF_OF(c, r);
    enum sg_texel t;
    CU_REQUIRE(cu_texel(f, &t) && (channels == 1 || channels == 2 || channels == 4), CUDA_ERROR_INVALID_VALUE);
    r->format = f;
    r->channels = (unsigned)channels;
    if (r->has && r->resource.resType == CU_RESOURCE_TYPE_LINEAR) {
        r->resource.res.linear.format = f;
        r->resource.res.linear.numChannels = (unsigned)channels;
    }
    update(r);
    return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddressMode(CUtexref r, int dim, CUaddress_mode mode)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(dim >= 0 && dim < 3 && (unsigned)mode <= CU_TR_ADDRESS_MODE_BORDER, CUDA_ERROR_INVALID_VALUE);
    r->desc.addressMode[dim] = mode;
    update(r);
    return CUDA_SUCCESS;
}

/* A member of the description. */
#define TEXREF_SET(r, ok, member, value)                                                                               \
    CU_TEXREF_OF(c, r);                                                                                                \
    CU_REQUIRE(ok, CUDA_ERROR_INVALID_VALUE);                                                                          \
    (r)->desc.member = (value);                                                                                        \
    update(r);                                                                                                         \
    return CUDA_SUCCESS
#define TEXREF_GET(r, ret, value)                                                                                      \
    CU_TEXREF_OF(c, r);                                                                                                \
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);                                                                         \
    *(ret) = (value);                                                                                                  \
    return CUDA_SUCCESS
static bool filter_ok(CUfilter_mode v) { return (unsigned)v <= CU_TR_FILTER_MODE_LINEAR; }
CUresult cuTexRefSetFilterMode(CUtexref r, CUfilter_mode v) { TEXREF_SET(r, filter_ok(v), filterMode, v); }
CUresult cuTexRefSetMipmapFilterMode(CUtexref r, CUfilter_mode v) { TEXREF_SET(r, filter_ok(v), mipmapFilterMode, v); }
CUresult cuTexRefSetMipmapLevelBias(CUtexref r, float v) { TEXREF_SET(r, v == v, mipmapLevelBias, v); }
CUresult cuTexRefSetMaxAnisotropy(CUtexref r, unsigned v) { TEXREF_SET(r, v <= 16, maxAnisotropy, v); }
CUresult cuTexRefSetFlags(CUtexref r, unsigned v) { TEXREF_SET(r, !(v & ~0x73u), flags, v); }
CUresult cuTexRefGetFilterMode(CUfilter_mode *ret, CUtexref r) { TEXREF_GET(r, ret, r->desc.filterMode); }
CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode *ret, CUtexref r) { TEXREF_GET(r, ret, r->desc.mipmapFilterMode); }
CUresult cuTexRefGetMipmapLevelBias(float *ret, CUtexref r) { TEXREF_GET(r, ret, r->desc.mipmapLevelBias); }
CUresult cuTexRefGetMaxAnisotropy(int *ret, CUtexref r) { TEXREF_GET(r, ret, (int)r->desc.maxAnisotropy); }
CUresult cuTexRefGetFlags(unsigned *ret, CUtexref r) { TEXREF_GET(r, ret, r->desc.flags); }

CUresult cuTexRefSetMipmapLevelClamp(CUtexref r, float least, float most)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(least <= most, CUDA_ERROR_INVALID_VALUE);
    r->desc.minMipmapLevelClamp = least;
    r->desc.maxMipmapLevelClamp = most;
    update(r);
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmapLevelClamp(float *least, float *most, CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(least && most, CUDA_ERROR_INVALID_VALUE);
    *least = r->desc.minMipmapLevelClamp;
    *most = r->desc.maxMipmapLevelClamp;
    return CUDA_SUCCESS;
}

CUresult cuTexRefSetBorderColor(CUtexref r, float *color)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(color, CUDA_ERROR_INVALID_VALUE);
    memcpy(r->desc.borderColor, color, sizeof r->desc.borderColor);
    update(r);
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetBorderColor(float *ret, CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    memcpy(ret, r->desc.borderColor, sizeof r->desc.borderColor);
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *ret, CUtexref r, int dim)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(ret && dim >= 0 && dim < 3, CUDA_ERROR_INVALID_VALUE);
    *ret = r->desc.addressMode[dim];
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetAddress(CUdeviceptr *ret, CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CUresourcetype t = r->resource.resType;
    CU_REQUIRE(ret && r->has && (t == CU_RESOURCE_TYPE_LINEAR || t == CU_RESOURCE_TYPE_PITCH2D),
               CUDA_ERROR_INVALID_VALUE);
    *ret = t == CU_RESOURCE_TYPE_LINEAR ? r->resource.res.linear.devPtr : r->resource.res.pitch2D.devPtr;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetArray(CUarray *ret, CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(ret && r->has && r->resource.resType == CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
    *ret = r->resource.res.array.hArray;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *ret, CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(ret && r->has && r->resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, CUDA_ERROR_INVALID_VALUE);
    *ret = r->resource.res.mipmap.hMipmappedArray;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetFormat(CUarray_format *ret, int *channels, CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(ret || channels, CUDA_ERROR_INVALID_VALUE);
    if (ret)
        *ret = r->format ? r->format : CU_AD_FORMAT_FLOAT;
    if (channels)
        *channels = r->channels ? (int)r->channels : 1;
    return CUDA_SUCCESS;
}

CUresult cuParamSetTexRef(CUfunction f, int unit, CUtexref r)
{
    CU_TEXREF_OF(c, r);
    CU_REQUIRE(cu_is(f, CU_FUNC), CUDA_ERROR_INVALID_HANDLE);
    return unit == CU_PARAM_TR_DEFAULT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- surfaces ---------------------------------------------------------------------------------------------------- */
CUresult cuModuleGetSurfRef(CUsurfref *ret, CUmodule m, const char *name)
{
    CU_CONTEXT(c);
    uint64_t handle;
    CU_REQUIRE(cu_is(m, CU_MODULE), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret && name, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < m->surfref.n; i++)
        if (!strcmp(m->surfref.p[i]->name, name)) {
            *ret = m->surfref.p[i];
            return CUDA_SUCCESS;
        }
    CU_REQUIRE(!sg_module_reference(m->sg, name, SG_REF_SURFACE, &handle), CUDA_ERROR_NOT_FOUND);
    struct CUsurfref_st *r = dt_calloc(1, sizeof *r);
    char *copy = strdup(name);
    if (!r || !copy || !cu_handle_add(r, CU_SURFREF) || !dt_push(&m->surfref, r)) {
        free(copy);
        cu_handle_free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *r = (struct CUsurfref_st){.ctx = m->ctx, .handle = handle, .name = copy};
    *ret = r;
    return CUDA_SUCCESS;
}

CUresult cuSurfRefSetArray(CUsurfref r, CUarray a, unsigned flags)
{
    CU_CONTEXT(c);
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    struct sg_texture t = {.kind = SG_REF_SURFACE, .bound = true};
    CU_REQUIRE(cu_is(r, CU_SURFREF), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!flags, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_texture_memory(r->ctx, &d, &t));
    CU_REQUIRE(a->desc.Flags & CUDA_ARRAY3D_SURFACE_LDST, CUDA_ERROR_INVALID_VALUE);
    r->array = a;
    return cu_from_dt(sg_texture_set(r->ctx->dev->sg, r->handle, &t));
}

CUresult cuSurfRefGetArray(CUarray *ret, CUsurfref r)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(r, CU_SURFREF), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret && r->array, CUDA_ERROR_INVALID_VALUE);
    *ret = r->array;
    return CUDA_SUCCESS;
}

void cu_references_leave(struct CUmod_st *m)
{
    for (size_t i = 0; i < m->texref.n; i++) {
        free(m->texref.p[i]->name);
        cu_handle_free(m->texref.p[i]);
    }
    for (size_t i = 0; i < m->surfref.n; i++) {
        free(m->surfref.p[i]->name);
        cu_handle_free(m->surfref.p[i]);
    }
    free(m->texref.p);
    free(m->surfref.p);
}
