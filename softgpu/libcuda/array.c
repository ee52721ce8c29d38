/* CUDA arrays and mipmaps: memory that kernels see through textures and surfaces only.
 *
 * An array is an allocation of the device in which rows lie beside each other without gaps, then slices or layers, then
 * levels: as sg_level says. Copies reach it as one side of a CUDA_MEMCPY3D (copy.c). A mipmap is one allocation; its
 * levels are arrays of their own, made with it.
 *
 * Not offered: compressed, planar and other formats than integers and floats of 8, 16 and 32 bits, sparse and deferred
 * arrays, arrays for graphics.
 */
#include <stdlib.h>

#include "softgpu/libcuda/cu-priv.h"

bool cu_texel(CUarray_format f, enum sg_texel *ret)
{
    switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8: *ret = SG_TEXEL_U8; return true;
    case CU_AD_FORMAT_UNSIGNED_INT16: *ret = SG_TEXEL_U16; return true;
    case CU_AD_FORMAT_UNSIGNED_INT32: *ret = SG_TEXEL_U32; return true;
    case CU_AD_FORMAT_SIGNED_INT8: *ret = SG_TEXEL_S8; return true;
    case CU_AD_FORMAT_SIGNED_INT16: *ret = SG_TEXEL_S16; return true;
    case CU_AD_FORMAT_SIGNED_INT32: *ret = SG_TEXEL_S32; return true;
    case CU_AD_FORMAT_HALF: *ret = SG_TEXEL_F16; return true;
    case CU_AD_FORMAT_FLOAT: *ret = SG_TEXEL_F32; return true;
    default: return false;
    }
}

size_t cu_array_texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    enum sg_texel t = SG_TEXEL_U8;
    return cu_texel(d->Format, &t) ? (size_t)sg_texel_bytes(t) * d->NumChannels : 0;
}

/* Is it one that there can be? The limits are those of compute capability 7.5 and later. */
static CUresult array_check(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    const unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
                           CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_COLOR_ATTACHMENT | CUDA_ARRAY3D_DEPTH_TEXTURE |
                           CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
    enum sg_texel t;
    bool layered = d->Flags & CUDA_ARRAY3D_LAYERED, cube = d->Flags & CUDA_ARRAY3D_CUBEMAP,
         gather = d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER;
    CU_REQUIRE(!(d->Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_DEPTH_TEXTURE)),
               CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(cu_texel(d->Format, &t),
               d->Format > CU_AD_FORMAT_FLOAT ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(d->Width && (!layered || d->Depth), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(d->Depth == 0 || d->Height || layered, CUDA_ERROR_INVALID_VALUE);
    if (cube)
        CU_REQUIRE(d->Width == d->Height && (layered ? d->Depth % 6 == 0 : d->Depth == 6), CUDA_ERROR_INVALID_VALUE);
    if (gather)
        CU_REQUIRE(d->Height && !d->Depth && d->Width <= 32768 && d->Height <= 32768, CUDA_ERROR_INVALID_VALUE);
    if (layered || cube)
        CU_REQUIRE(d->Width <= 32768 && d->Height <= 32768 && d->Depth <= 2048, CUDA_ERROR_INVALID_VALUE);
    else if (d->Depth)
        CU_REQUIRE(d->Width <= 16384 && d->Height <= 16384 && d->Depth <= 16384, CUDA_ERROR_INVALID_VALUE);
    else
        CU_REQUIRE(d->Width <= 131072 && d->Height <= 65536, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static size_t at_least_1(size_t n) { return n ? n : 1; }

static size_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    return d->Width * at_least_1(d->Height) * at_least_1(d->Depth) * cu_array_texel_bytes(d);
}

/* An array whose memory is at `memory`. */
static struct CUarray_st *array_at(struct CUctx_st *c, const CUDA_ARRAY3D_DESCRIPTOR *d, uint64_t memory)
{
    struct CUarray_st *a = dt_calloc(1, sizeof *a);
    if (!a || !cu_handle_add(a, CU_ARRAY)) {
        free(a);
        return NULL;
    }
    size_t pitch = d->Width * cu_array_texel_bytes(d);
    a->ctx = c;
    a->desc = *d;
    a->level = (struct sg_level){.base = memory,
                                 .pitch = pitch,
                                 .slice = pitch * at_least_1(d->Height),
                                 .width = (uint32_t)d->Width,
                                 .height = (uint32_t)at_least_1(d->Height),
                                 .depth = (uint32_t)at_least_1(d->Depth)};
    return a;
}

static CUresult create(struct CUctx_st *c, const CUDA_ARRAY3D_DESCRIPTOR *d, CUarray *ret)
{
    uint64_t memory;
    CU_TRY(array_check(d));
    CU_TRY(cu_from_dt(sg_mem_alloc_for(c->dev->sg, bytes_of(d), c, &memory)));
    struct CUarray_st *a = array_at(c, d, memory);
    if (!a || !dt_push(&c->array, a)) {
        cu_handle_free(a);
        sg_mem_free(c->dev->sg, memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_mem_name(c->dev->sg, memory, "array");
    *ret = a;
    return CUDA_SUCCESS;
}

CUresult cuArray3DCreate(CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && d, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_unsafe(c));
    return create(c, d, ret);
}

CUresult cuArrayCreate(CUarray *ret, const CUDA_ARRAY_DESCRIPTOR *d)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && d, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_unsafe(c));
    CUDA_ARRAY3D_DESCRIPTOR all = {
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return create(c, &all, ret);
}

#define CU_ARRAY_OF(c, a)                                                                                              \
    CU_CONTEXT(c);                                                                                                     \
    CU_REQUIRE(cu_is(a, CU_ARRAY) && (a)->ctx->dev == c->dev, CUDA_ERROR_INVALID_HANDLE)

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray a)
{
    CU_ARRAY_OF(c, a);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = a->desc;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR *ret, CUarray a)
{
    CU_ARRAY_OF(c, a);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = (CUDA_ARRAY_DESCRIPTOR){
        .Width = a->desc.Width, .Height = a->desc.Height, .Format = a->desc.Format, .NumChannels = a->desc.NumChannels};
    return CUDA_SUCCESS;
}

static void array_free(struct CUarray_st *a)
{
    if (!a->of)
        sg_mem_free(a->ctx->dev->sg, a->level.base);
    cu_handle_free(a);
}

CUresult cuArrayDestroy(CUarray a)
{
    CU_ARRAY_OF(c, a);
    CU_REQUIRE(!a->of, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_capture_unsafe(c));
    struct CUctx_st *own = a->ctx;
    for (size_t i = 0; i < own->array.n; i++)
        if (own->array.p[i] == a)
            own->array.p[i] = own->array.p[--own->array.n];
    array_free(a);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, CUarray a, CUdevice dev)
{
    CU_ARRAY_OF(c, a);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = bytes_of(&a->desc), .alignment = 512};
    return CUDA_SUCCESS;
}

/* ---- mipmaps ----------------------------------------------------------------------------------------------------- */
static CUDA_ARRAY3D_DESCRIPTOR array_level(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned k)
{
    CUDA_ARRAY3D_DESCRIPTOR l = *d;
    bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    l.Width = at_least_1(d->Width >> k);
    l.Height = d->Height ? at_least_1(d->Height >> k) : 0;
    l.Depth = d->Depth && !layers ? at_least_1(d->Depth >> k) : d->Depth;
    return l;
}

static void mipmap_free(struct CUmipmappedArray_st *m)
{
    for (unsigned k = 0; k < m->nlevel; k++)
        if (m->level[k])
            array_free(m->level[k]);
    if (m->memory)
        sg_mem_free(m->ctx->dev->sg, m->memory);
    cu_handle_free(m);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *ret, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && d, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_unsafe(c));
    CU_TRY(array_check(d));
    bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    size_t most = d->Width > d->Height ? d->Width : d->Height, at[SG_LEVELS], bytes = 0;
    most = !layers && d->Depth > most ? d->Depth : most;
    unsigned n = 1;
    while (most >> n && n < SG_LEVELS)
        n++;
    n = levels < n ? levels : n; /* as many as there can be, at most */
    CU_REQUIRE(n, CUDA_ERROR_INVALID_VALUE);
    for (unsigned k = 0; k < n; k++) {
        CUDA_ARRAY3D_DESCRIPTOR l = array_level(d, k);
        at[k] = bytes;
        bytes += (bytes_of(&l) + 511) / 512 * 512;
    }
    struct CUmipmappedArray_st *m = dt_calloc(1, sizeof *m);
    if (!m || !cu_handle_add(m, CU_MIPMAP)) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->ctx = c;
    m->desc = *d;
    CUresult r = cu_from_dt(sg_mem_alloc_for(c->dev->sg, bytes, c, &m->memory));
    for (; r == CUDA_SUCCESS && m->nlevel < n; m->nlevel++) {
        CUDA_ARRAY3D_DESCRIPTOR l = array_level(d, m->nlevel);
        struct CUarray_st *a = m->level[m->nlevel] = array_at(c, &l, m->memory + at[m->nlevel]);
        r = a ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (a)
            a->of = m;
    }
    if (r == CUDA_SUCCESS && !dt_push(&c->mipmap, m))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        mipmap_free(m);
        return r;
    }
    sg_mem_name(c->dev->sg, m->memory, "mipmap");
    *ret = m;
    return CUDA_SUCCESS;
}

#define CU_MIPMAP_OF(c, m)                                                                                             \
    CU_CONTEXT(c);                                                                                                     \
    CU_REQUIRE(cu_is(m, CU_MIPMAP) && (m)->ctx->dev == c->dev, CUDA_ERROR_INVALID_HANDLE)

CUresult cuMipmappedArrayGetLevel(CUarray *ret, CUmipmappedArray m, unsigned level)
{
    CU_MIPMAP_OF(c, m);
    CU_REQUIRE(ret && level < m->nlevel, CUDA_ERROR_INVALID_VALUE);
    *ret = m->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray m)
{
    CU_MIPMAP_OF(c, m);
    CU_TRY(cu_capture_unsafe(c));
    struct CUctx_st *own = m->ctx;
    for (size_t i = 0; i < own->mipmap.n; i++)
        if (own->mipmap.p[i] == m)
            own->mipmap.p[i] = own->mipmap.p[--own->mipmap.n];
    mipmap_free(m);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, CUmipmappedArray m, CUdevice dev)
{
    CU_MIPMAP_OF(c, m);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    size_t bytes = 0;
    for (unsigned k = 0; k < m->nlevel; k++)
        bytes += (bytes_of(&m->level[k]->desc) + 511) / 512 * 512;
    *ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = bytes, .alignment = 512};
    return CUDA_SUCCESS;
}

void cu_arrays_leave(struct CUctx_st *c)
{
    for (size_t i = 0; i < c->array.n; i++)
        array_free(c->array.p[i]);
    for (size_t i = 0; i < c->mipmap.n; i++)
        mipmap_free(c->mipmap.p[i]);
    free(c->array.p);
    free(c->mipmap.p);
}
