/* Texture and surface objects: descriptions of memory, kept under a handle (sg_texture_add) that kernels take.
 *
 * What is described is checked, and turned into a struct sg_texture, here; what a program asked for is kept beside it,
 * to be given back. An object does not hold its memory: as with CUDA, a program destroys it first. A fetch through an
 * object whose memory is gone is a fault.
 *
 * A surface may be of any array: NVIDIA's sample bindlessTexture makes one without CUDA_ARRAY3D_SURFACE_LDST.
 *
 * Not offered (NOT_SUPPORTED): sRGB, seamless cubes (no formula says what comes out at their edges), views of another
 * size than what they view.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

struct cu_object {
    uint64_t handle;
    bool surface, viewed;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;
    struct cu_object *next;
};

static CUresult format_of(CUarray_format f, unsigned channels, struct sg_texture *t)
{
    CU_REQUIRE(cu_texel(f, &t->texel), f > CU_AD_FORMAT_FLOAT ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(channels == 1 || channels == 2 || channels == 4, CUDA_ERROR_INVALID_VALUE);
    t->channels = channels;
    return CUDA_SUCCESS;
}

static CUresult array_of(const struct CUarray_st *a, struct sg_texture *t)
{
    const CUDA_ARRAY3D_DESCRIPTOR *d = &a->desc;
    CU_TRY(format_of(d->Format, d->NumChannels, t));
    t->layered = d->Flags & CUDA_ARRAY3D_LAYERED;
    t->cube = d->Flags & CUDA_ARRAY3D_CUBEMAP;
    t->dims = !d->Height ? 1 : !d->Depth || t->layered || t->cube ? 2 : 3;
    t->nlevel = 1;
    t->level[0] = a->level;
    return CUDA_SUCCESS;
}

CUresult cu_texture_memory(struct CUctx_st *c, const CUDA_RESOURCE_DESC *r, struct sg_texture *t)
{
    CU_REQUIRE(!r->flags, CUDA_ERROR_INVALID_VALUE);
    switch (r->resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
        CUarray a = r->res.array.hArray;
        CU_REQUIRE(cu_is(a, CU_ARRAY) && a->ctx->dev == c->dev, CUDA_ERROR_INVALID_HANDLE);
        return array_of(a, t);
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
        CUmipmappedArray m = r->res.mipmap.hMipmappedArray;
        CU_REQUIRE(cu_is(m, CU_MIPMAP) && m->ctx->dev == c->dev, CUDA_ERROR_INVALID_HANDLE);
        CU_TRY(array_of(m->level[0], t));
        t->nlevel = m->nlevel;
        for (unsigned k = 0; k < m->nlevel; k++)
            t->level[k] = m->level[k]->level;
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
        CU_TRY(format_of(r->res.linear.format, r->res.linear.numChannels, t));
        size_t texel = (size_t)sg_texel_bytes(t->texel) * t->channels, n = r->res.linear.sizeInBytes / texel;
        CU_REQUIRE(r->res.linear.devPtr % 512 == 0 && n && n <= UINT64_C(1) << 28, CUDA_ERROR_INVALID_VALUE);
        CU_REQUIRE(sg_mem_ok(c->dev->sg, r->res.linear.devPtr, n * texel), CUDA_ERROR_INVALID_VALUE);
        t->memory = true;
        t->dims = t->nlevel = 1;
        t->level[0] = (struct sg_level){r->res.linear.devPtr, n * texel, n * texel, (uint32_t)n, 1, 1};
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
        CU_TRY(format_of(r->res.pitch2D.format, r->res.pitch2D.numChannels, t));
        size_t texel = (size_t)sg_texel_bytes(t->texel) * t->channels, pitch = r->res.pitch2D.pitchInBytes,
               w = r->res.pitch2D.width, h = r->res.pitch2D.height;
        CU_REQUIRE(r->res.pitch2D.devPtr % 512 == 0 && pitch % 32 == 0 && pitch <= 2097120 && w && h && w <= 131072 &&
                       h <= 65000 && w * texel <= pitch,
                   CUDA_ERROR_INVALID_VALUE);
        CU_REQUIRE(sg_mem_ok(c->dev->sg, r->res.pitch2D.devPtr, (h - 1) * pitch + w * texel), CUDA_ERROR_INVALID_VALUE);
        t->dims = 2;
        t->nlevel = 1;
        t->level[0] = (struct sg_level){r->res.pitch2D.devPtr, pitch, h * pitch, (uint32_t)w, (uint32_t)h, 1};
        return CUDA_SUCCESS;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cu_texture_sampler(const CUDA_TEXTURE_DESC *d, struct sg_texture *t)
{
    const unsigned known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                           CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
    CU_REQUIRE(!(d->flags & ~known) && (unsigned)d->filterMode <= CU_TR_FILTER_MODE_LINEAR &&
                   (unsigned)d->mipmapFilterMode <= CU_TR_FILTER_MODE_LINEAR,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(d->flags & (CU_TRSF_SRGB | CU_TRSF_SEAMLESS_CUBEMAP)), CUDA_ERROR_NOT_SUPPORTED);
    struct sg_sampler *s = &t->sampler;
    for (unsigned k = 0; k < 3; k++) {
        CU_REQUIRE((unsigned)d->addressMode[k] <= CU_TR_ADDRESS_MODE_BORDER, CUDA_ERROR_INVALID_VALUE);
        s->edge[k] = (enum sg_edge)d->addressMode[k];
    }
    bool integer = t->texel < SG_TEXEL_F16, wide = sg_texel_bytes(t->texel) == 4;
    t->integers = integer && (d->flags & CU_TRSF_READ_AS_INTEGER || wide);
    s->linear = d->filterMode == CU_TR_FILTER_MODE_LINEAR && !t->memory; /* ignored there, as cuda.h says */
    s->mip_linear = d->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    s->normalized = d->flags & CU_TRSF_NORMALIZED_COORDINATES;
    s->bias = d->mipmapLevelBias;
    s->least = d->minMipmapLevelClamp;
    s->most = d->maxMipmapLevelClamp;
    s->anisotropy = d->maxAnisotropy;
    memcpy(s->border, d->borderColor, sizeof s->border);
    if (t->memory)
        memset(s->border, 0, sizeof s->border);
    CU_REQUIRE(!s->linear || !t->integers, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(s->normalized || t->nlevel == 1, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* A view: the same texels in another format of their size, fewer levels and layers. */
static CUresult view_of(const CUDA_RESOURCE_VIEW_DESC *v, struct sg_texture *t)
{
    static const struct {
        CUarray_format format;
        unsigned first;
    } formats[] = {{CU_AD_FORMAT_UNSIGNED_INT8, CU_RES_VIEW_FORMAT_UINT_1X8},
                   {CU_AD_FORMAT_SIGNED_INT8, CU_RES_VIEW_FORMAT_SINT_1X8},
                   {CU_AD_FORMAT_UNSIGNED_INT16, CU_RES_VIEW_FORMAT_UINT_1X16},
                   {CU_AD_FORMAT_SIGNED_INT16, CU_RES_VIEW_FORMAT_SINT_1X16},
                   {CU_AD_FORMAT_UNSIGNED_INT32, CU_RES_VIEW_FORMAT_UINT_1X32},
                   {CU_AD_FORMAT_SIGNED_INT32, CU_RES_VIEW_FORMAT_SINT_1X32},
                   {CU_AD_FORMAT_HALF, CU_RES_VIEW_FORMAT_FLOAT_1X16},
                   {CU_AD_FORMAT_FLOAT, CU_RES_VIEW_FORMAT_FLOAT_1X32}};
    unsigned texel = sg_texel_bytes(t->texel) * t->channels, f = v->format;
    CU_REQUIRE(!t->memory && f <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(f < CU_RES_VIEW_FORMAT_UNSIGNED_BC1, CUDA_ERROR_NOT_SUPPORTED);
    for (size_t k = 0; f && k < sizeof formats / sizeof *formats; k++)
        if (f >= formats[k].first && f < formats[k].first + 3)
            CU_TRY(format_of(formats[k].format, 1u << (f - formats[k].first), t));
    CU_REQUIRE(sg_texel_bytes(t->texel) * t->channels == texel, CUDA_ERROR_INVALID_VALUE);
    struct sg_level *l = t->level;
    CU_REQUIRE(v->width == l->width && (t->dims < 2 || v->height == l->height) && (t->dims < 3 || v->depth == l->depth),
               CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(v->firstMipmapLevel <= v->lastMipmapLevel && v->lastMipmapLevel < t->nlevel, CUDA_ERROR_INVALID_VALUE);
    t->nlevel = v->lastMipmapLevel - v->firstMipmapLevel + 1;
    for (unsigned k = 0; k < t->nlevel; k++)
        l[k] = l[k + v->firstMipmapLevel];
    if (!t->layered)
        return CUDA_SUCCESS;
    CU_REQUIRE(v->firstLayer <= v->lastLayer && v->lastLayer < l->depth, CUDA_ERROR_INVALID_VALUE);
    unsigned layers = v->lastLayer - v->firstLayer + 1;
    CU_REQUIRE(!t->cube || (layers % 6 == 0 && v->firstLayer % 6 == 0), CUDA_ERROR_INVALID_VALUE);
    for (unsigned k = 0; k < t->nlevel; k++) {
        l[k].base += v->firstLayer * l[k].slice;
        l[k].depth = layers;
    }
    return CUDA_SUCCESS;
}

static CUresult texture_add(struct CUctx_st *c, const struct sg_texture *t, struct cu_object o, uint64_t *ret)
{
    struct cu_object *keep = dt_malloc(sizeof *keep);
    CUresult r = keep ? cu_from_dt(sg_texture_add(c->dev->sg, t, &o.handle)) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        free(keep);
        return r;
    }
    *keep = o;
    keep->next = c->objects;
    c->objects = keep;
    *ret = o.handle;
    return CUDA_SUCCESS;
}

/* Objects belong to contexts; all of a device share its addresses. */
static struct cu_object *texture_object(struct CUctx_st *c, uint64_t handle, bool surface)
{
    for (struct cu_object *o = c->objects; o; o = o->next)
        if (o->handle == handle && o->surface == surface)
            return o;
    return NULL;
}

static CUresult destroy(struct CUctx_st *c, uint64_t handle, bool surface)
{
    for (struct cu_object **at = &c->objects, *o; (o = *at); at = &o->next)
        if (o->handle == handle && o->surface == surface) {
            *at = o->next;
            sg_texture_remove(c->dev->sg, handle);
            free(o);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectCreate(CUtexObject *ret, const CUDA_RESOURCE_DESC *r, const CUDA_TEXTURE_DESC *d,
                           const CUDA_RESOURCE_VIEW_DESC *v)
{
    CU_CONTEXT(c);
    struct sg_texture t = {.kind = SG_REF_TEXTURE, .bound = true};
    uint64_t handle;
    CU_REQUIRE(ret && r && d, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_texture_memory(c, r, &t));
    if (v)
        CU_TRY(view_of(v, &t));
    CU_TRY(cu_texture_sampler(d, &t));
    struct cu_object o = {.resource = *r, .texture = *d, .viewed = v != NULL};
    if (v)
        o.view = *v;
    CU_TRY(texture_add(c, &t, o, &handle));
    *ret = handle;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject t)
{
    CU_CONTEXT(c);
    return destroy(c, t, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *ret, CUtexObject t)
{
    CU_CONTEXT(c);
    const struct cu_object *o = texture_object(c, t, false);
    CU_REQUIRE(ret && o, CUDA_ERROR_INVALID_VALUE);
    *ret = o->resource;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *ret, CUtexObject t)
{
    CU_CONTEXT(c);
    const struct cu_object *o = texture_object(c, t, false);
    CU_REQUIRE(ret && o, CUDA_ERROR_INVALID_VALUE);
    *ret = o->texture;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *ret, CUtexObject t)
{
    CU_CONTEXT(c);
    const struct cu_object *o = texture_object(c, t, false);
    CU_REQUIRE(ret && o && o->viewed, CUDA_ERROR_INVALID_VALUE);
    *ret = o->view;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *ret, const CUDA_RESOURCE_DESC *r)
{
    CU_CONTEXT(c);
    struct sg_texture t = {.kind = SG_REF_SURFACE, .bound = true};
    uint64_t handle;
    CU_REQUIRE(ret && r && r->resType == CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_texture_memory(c, r, &t));
    CU_TRY(texture_add(c, &t, (struct cu_object){.surface = true, .resource = *r}, &handle));
    *ret = handle;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject s)
{
    CU_CONTEXT(c);
    return destroy(c, s, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *ret, CUsurfObject s)
{
    CU_CONTEXT(c);
    const struct cu_object *o = texture_object(c, s, true);
    CU_REQUIRE(ret && o, CUDA_ERROR_INVALID_VALUE);
    *ret = o->resource;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *ret, CUarray_format f, unsigned channels, CUdevice dev)
{
    CU_READY();
    struct sg_texture t = {0};
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    CU_TRY(format_of(f, channels, &t));
    *ret = (size_t)1 << 28;
    return CUDA_SUCCESS;
}

void cu_objects_leave(struct CUctx_st *c)
{
    while (c->objects)
        destroy(c, c->objects->handle, c->objects->surface);
}
