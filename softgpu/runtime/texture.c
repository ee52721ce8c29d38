/* Texture and surface objects: the runtime's descriptions in the driver's words, and back.
 *
 * The two have the same members and numbers, but for flags and the format of a texel (array.c). Nothing is kept here:
 * the driver gives back what it was told.
 */
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

_Static_assert((int)cudaResourceTypeArray == CU_RESOURCE_TYPE_ARRAY &&
                   (int)cudaResourceTypePitch2D == CU_RESOURCE_TYPE_PITCH2D &&
                   (int)cudaAddressModeBorder == CU_TR_ADDRESS_MODE_BORDER &&
                   (int)cudaFilterModeLinear == CU_TR_FILTER_MODE_LINEAR &&
                   (int)cudaResViewFormatUnsignedBlockCompressed7 == CU_RES_VIEW_FORMAT_UNSIGNED_BC7,
               "numbers");

static cudaError_t resource(const struct cudaResourceDesc *r, CUDA_RESOURCE_DESC *ret)
{
    unsigned channels = 0;
    cudaError_t e = cudaSuccess;
    *ret = (CUDA_RESOURCE_DESC){.resType = (CUresourcetype)r->resType};
    switch (r->resType) {
    case cudaResourceTypeArray: ret->res.array.hArray = (CUarray)r->res.array.array; break;
    case cudaResourceTypeMipmappedArray:
        ret->res.mipmap.hMipmappedArray = (CUmipmappedArray)r->res.mipmap.mipmap;
        break;
    case cudaResourceTypeLinear:
        ret->res.linear.devPtr = (CUdeviceptr)r->res.linear.devPtr;
        ret->res.linear.sizeInBytes = r->res.linear.sizeInBytes;
        e = dtrt_format(&r->res.linear.desc, &ret->res.linear.format, &channels);
        ret->res.linear.numChannels = channels;
        break;
    case cudaResourceTypePitch2D:
        ret->res.pitch2D.devPtr = (CUdeviceptr)r->res.pitch2D.devPtr;
        ret->res.pitch2D.width = r->res.pitch2D.width;
        ret->res.pitch2D.height = r->res.pitch2D.height;
        ret->res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
        e = dtrt_format(&r->res.pitch2D.desc, &ret->res.pitch2D.format, &channels);
        ret->res.pitch2D.numChannels = channels;
        break;
    default: return cudaErrorInvalidValue;
    }
    return e;
}

static void resource_back(const CUDA_RESOURCE_DESC *r, struct cudaResourceDesc *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->resType = (enum cudaResourceType)r->resType;
    switch (r->resType) {
    case CU_RESOURCE_TYPE_ARRAY: ret->res.array.array = (cudaArray_t)r->res.array.hArray; break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        ret->res.mipmap.mipmap = (cudaMipmappedArray_t)r->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        ret->res.linear.devPtr = (void *)r->res.linear.devPtr;
        ret->res.linear.desc = dtrt_channels(r->res.linear.format, r->res.linear.numChannels);
        ret->res.linear.sizeInBytes = r->res.linear.sizeInBytes;
        break;
    default:
        ret->res.pitch2D.devPtr = (void *)r->res.pitch2D.devPtr;
        ret->res.pitch2D.desc = dtrt_channels(r->res.pitch2D.format, r->res.pitch2D.numChannels);
        ret->res.pitch2D.width = r->res.pitch2D.width;
        ret->res.pitch2D.height = r->res.pitch2D.height;
        ret->res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
        break;
    }
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *ret, const struct cudaResourceDesc *r,
                                    const struct cudaTextureDesc *t, const struct cudaResourceViewDesc *v)
{
    CUDA_RESOURCE_DESC rd;
    CUDA_RESOURCE_VIEW_DESC vd;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret && r && t, cudaErrorInvalidValue);
    DTRT_TRY(resource(r, &rd));
    CUDA_TEXTURE_DESC td = {.filterMode = (CUfilter_mode)t->filterMode,
                            .flags = (t->readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0u) |
                                     (t->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0u) |
                                     (t->sRGB ? CU_TRSF_SRGB : 0u) |
                                     (t->disableTrilinearOptimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0u) |
                                     (t->seamlessCubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0u),
                            .maxAnisotropy = t->maxAnisotropy,
                            .mipmapFilterMode = (CUfilter_mode)t->mipmapFilterMode,
                            .mipmapLevelBias = t->mipmapLevelBias,
                            .minMipmapLevelClamp = t->minMipmapLevelClamp,
                            .maxMipmapLevelClamp = t->maxMipmapLevelClamp};
    for (int k = 0; k < 3; k++)
        td.addressMode[k] = (CUaddress_mode)t->addressMode[k];
    memcpy(td.borderColor, t->borderColor, sizeof td.borderColor);
    if (v)
        vd = (CUDA_RESOURCE_VIEW_DESC){.format = (CUresourceViewFormat)v->format,
                                       .width = v->width,
                                       .height = v->height,
                                       .depth = v->depth,
                                       .firstMipmapLevel = v->firstMipmapLevel,
                                       .lastMipmapLevel = v->lastMipmapLevel,
                                       .firstLayer = v->firstLayer,
                                       .lastLayer = v->lastLayer};
    CUtexObject o;
    DTRT_TRY((cudaError_t)dtrt_drv.cuTexObjectCreate(&o, &rd, &td, v ? &vd : NULL));
    *ret = o;
    return cudaSuccess;
}

PASS(cudaDestroyTextureObject, (cudaTextureObject_t t), cuTexObjectDestroy(t))

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *ret, cudaTextureObject_t t)
{
    CUDA_RESOURCE_DESC r;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY((cudaError_t)dtrt_drv.cuTexObjectGetResourceDesc(&r, t));
    resource_back(&r, ret);
    return cudaSuccess;
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *ret, cudaTextureObject_t t)
{
    CUDA_TEXTURE_DESC d;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY((cudaError_t)dtrt_drv.cuTexObjectGetTextureDesc(&d, t));
    memset(ret, 0, sizeof *ret);
    for (int k = 0; k < 3; k++)
        ret->addressMode[k] = (enum cudaTextureAddressMode)d.addressMode[k];
    ret->filterMode = (enum cudaTextureFilterMode)d.filterMode;
    ret->readMode = d.flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
    ret->sRGB = (d.flags & CU_TRSF_SRGB) != 0;
    memcpy(ret->borderColor, d.borderColor, sizeof ret->borderColor);
    ret->normalizedCoords = (d.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    ret->maxAnisotropy = d.maxAnisotropy;
    ret->mipmapFilterMode = (enum cudaTextureFilterMode)d.mipmapFilterMode;
    ret->mipmapLevelBias = d.mipmapLevelBias;
    ret->minMipmapLevelClamp = d.minMipmapLevelClamp;
    ret->maxMipmapLevelClamp = d.maxMipmapLevelClamp;
    ret->disableTrilinearOptimization = (d.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
    ret->seamlessCubemap = (d.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
    return cudaSuccess;
}

cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *ret, cudaTextureObject_t t)
{
    CUDA_RESOURCE_VIEW_DESC v;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY((cudaError_t)dtrt_drv.cuTexObjectGetResourceViewDesc(&v, t));
    memset(ret, 0, sizeof *ret);
    ret->format = (enum cudaResourceViewFormat)v.format;
    ret->width = v.width;
    ret->height = v.height;
    ret->depth = v.depth;
    ret->firstMipmapLevel = v.firstMipmapLevel;
    ret->lastMipmapLevel = v.lastMipmapLevel;
    ret->firstLayer = v.firstLayer;
    ret->lastLayer = v.lastLayer;
    return cudaSuccess;
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *ret, const struct cudaResourceDesc *r)
{
    CUDA_RESOURCE_DESC rd;
    CUsurfObject o;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret && r, cudaErrorInvalidValue);
    DTRT_TRY(resource(r, &rd));
    DTRT_TRY((cudaError_t)dtrt_drv.cuSurfObjectCreate(&o, &rd));
    *ret = o;
    return cudaSuccess;
}

PASS(cudaDestroySurfaceObject, (cudaSurfaceObject_t s), cuSurfObjectDestroy(s))

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *ret, cudaSurfaceObject_t s)
{
    CUDA_RESOURCE_DESC r;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY((cudaError_t)dtrt_drv.cuSurfObjectGetResourceDesc(&r, s));
    resource_back(&r, ret);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *ret, const struct cudaChannelFormatDesc *d, int device)
{
    CUarray_format f;
    unsigned channels;
    DTRT_CONTEXT();
    DTRT_REQUIRE(d, cudaErrorInvalidValue);
    DTRT_TRY(dtrt_format(d, &f, &channels));
    return dtrt_is(dtrt_drv.cuDeviceGetTexture1DLinearMaxWidth(ret, f, channels, device));
}
