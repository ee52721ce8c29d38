/* Copies and memsets: linear, pitched, of three dimensions, of variables.
 *
 * cudaMemcpyDefault lets the driver see which side is whose. The other kinds are taken at their word, as the driver's
 * entries of that kind do, so that a pointer of the wrong side is an error. Where an array takes part, the extent and
 * places in arrays are in texels, and places in memory in bytes.
 */
#include <stdint.h>
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

SAME_SIZE(struct cudaMemcpyAttributes, CUmemcpyAttributes);
SAME_SIZE(struct cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP);

static CUresult linear(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    CUdeviceptr d = (CUdeviceptr)to, s = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice: return dtrt_drv.cuMemcpyHtoD(d, from, n);
    case cudaMemcpyDeviceToHost: return dtrt_drv.cuMemcpyDtoH(to, s, n);
    case cudaMemcpyDeviceToDevice: return dtrt_drv.cuMemcpyDtoD(d, s, n);
    default: return dtrt_drv.cuMemcpy(d, s, n);
    }
}

static CUresult linear_async(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUdeviceptr d = (CUdeviceptr)to, s = (CUdeviceptr)from;
    switch (kind) {
    case cudaMemcpyHostToDevice: return dtrt_drv.cuMemcpyHtoDAsync(d, from, n, stream);
    case cudaMemcpyDeviceToHost: return dtrt_drv.cuMemcpyDtoHAsync(to, s, n, stream);
    case cudaMemcpyDeviceToDevice: return dtrt_drv.cuMemcpyDtoDAsync(d, s, n, stream);
    default: return dtrt_drv.cuMemcpyAsync(d, s, n, stream);
    }
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    DTRT_CONTEXT();
    DTRT_REQUIRE((unsigned)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
    return n ? dtrt_is(linear(to, from, n, kind)) : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s)
{
    DTRT_CONTEXT();
    DTRT_REQUIRE((unsigned)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
    return n ? dtrt_is(linear_async(to, from, n, kind, s)) : cudaSuccess;
}

static cudaError_t peer(void *to, int to_device, const void *from, int from_device, size_t n, cudaStream_t s,
                        bool async)
{
    CUcontext a, b;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_primary(to_device, &a));
    DTRT_TRY(dtrt_primary(from_device, &b));
    return dtrt_is(async ? dtrt_drv.cuMemcpyPeerAsync((CUdeviceptr)to, a, (CUdeviceptr)from, b, n, s)
                         : dtrt_drv.cuMemcpyPeer((CUdeviceptr)to, a, (CUdeviceptr)from, b, n));
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t n)
{
    return peer(to, to_device, from, from_device, n, NULL, false);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t n, cudaStream_t s)
{
    return peer(to, to_device, from, from_device, n, s, true);
}

/* ---- variables --------------------------------------------------------------------------------------------------- */
static cudaError_t copy_inside(const void *symbol, size_t n, size_t offset, CUdeviceptr *ret)
{
    size_t bytes;
    cudaError_t e = dtrt_symbol(symbol, ret, &bytes);
    if (e == cudaSuccess && (offset > bytes || n > bytes - offset))
        return cudaErrorInvalidValue;
    *ret += e == cudaSuccess ? offset : 0;
    return e;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t n, size_t offset, enum cudaMemcpyKind kind)
{
    CUdeviceptr p;
    DTRT_CONTEXT();
    DTRT_TRY(copy_inside(symbol, n, offset, &p));
    return cudaMemcpy((void *)p, from, n, kind);
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset, enum cudaMemcpyKind kind)
{
    CUdeviceptr p;
    DTRT_CONTEXT();
    DTRT_TRY(copy_inside(symbol, n, offset, &p));
    return cudaMemcpy(to, (void *)p, n, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t n, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t s)
{
    CUdeviceptr p;
    DTRT_CONTEXT();
    DTRT_TRY(copy_inside(symbol, n, offset, &p));
    return cudaMemcpyAsync((void *)p, from, n, kind, s);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t n, size_t offset, enum cudaMemcpyKind kind,
                                      cudaStream_t s)
{
    CUdeviceptr p;
    DTRT_CONTEXT();
    DTRT_TRY(copy_inside(symbol, n, offset, &p));
    return cudaMemcpyAsync(to, (void *)p, n, kind, s);
}

/* ---- pitched, and of three dimensions ---------------------------------------------------------------------------- */
bool dtrt_copy_1d(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, struct cudaMemcpy3DParms *ret)
{
    *ret =
        (struct cudaMemcpy3DParms){.srcPtr = {.ptr = (void *)(unsigned long)from, .pitch = n, .xsize = n, .ysize = 1},
                                   .dstPtr = {.ptr = to, .pitch = n, .xsize = n, .ysize = 1},
                                   .extent = {.width = n, .height = 1, .depth = 1},
                                   .kind = kind};
    return n != 0;
}

cudaError_t dtrt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret)
{
    if (!p || (unsigned)p->kind > cudaMemcpyDefault)
        return p ? cudaErrorInvalidMemcpyDirection : cudaErrorInvalidValue;
    size_t texel = 1, from_texel = 1, to_texel = 1;
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t e = p->srcArray ? dtrt_array(p->srcArray, &d, &from_texel) : cudaSuccess;
    if (e == cudaSuccess && p->dstArray)
        e = dtrt_array(p->dstArray, &d, &to_texel);
    if (e != cudaSuccess)
        return e;
    texel = p->srcArray ? from_texel : to_texel;
    if (p->extent.width > SIZE_MAX / 16)
        return cudaErrorInvalidValue;
    bool any = p->kind == cudaMemcpyDefault;
    bool from_host = p->kind == cudaMemcpyHostToDevice || p->kind == cudaMemcpyHostToHost;
    bool to_host = p->kind == cudaMemcpyDeviceToHost || p->kind == cudaMemcpyHostToHost;
    *ret = (CUDA_MEMCPY3D){.srcXInBytes = p->srcPos.x * from_texel,
                           .srcY = p->srcPos.y,
                           .srcZ = p->srcPos.z,
                           .srcArray = (CUarray)p->srcArray,
                           .srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY
                                            : any       ? CU_MEMORYTYPE_UNIFIED
                                            : from_host ? CU_MEMORYTYPE_HOST
                                                        : CU_MEMORYTYPE_DEVICE,
                           .srcHost = p->srcPtr.ptr,
                           .srcDevice = (CUdeviceptr)p->srcPtr.ptr,
                           .srcPitch = p->srcPtr.pitch,
                           .srcHeight = p->srcPtr.ysize,
                           .dstXInBytes = p->dstPos.x * to_texel,
                           .dstY = p->dstPos.y,
                           .dstZ = p->dstPos.z,
                           .dstArray = (CUarray)p->dstArray,
                           .dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY
                                            : any       ? CU_MEMORYTYPE_UNIFIED
                                            : to_host   ? CU_MEMORYTYPE_HOST
                                                        : CU_MEMORYTYPE_DEVICE,
                           .dstHost = p->dstPtr.ptr,
                           .dstDevice = (CUdeviceptr)p->dstPtr.ptr,
                           .dstPitch = p->dstPtr.pitch,
                           .dstHeight = p->dstPtr.ysize,
                           .WidthInBytes = p->extent.width * texel,
                           .Height = p->extent.height,
                           .Depth = p->extent.depth};
    return cudaSuccess;
}

void dtrt_copy_3d_back(const CUDA_MEMCPY3D *p, struct cudaMemcpy3DParms *ret)
{
    bool fa = p->srcMemoryType == CU_MEMORYTYPE_ARRAY, ta = p->dstMemoryType == CU_MEMORYTYPE_ARRAY;
    bool fh = p->srcMemoryType == CU_MEMORYTYPE_HOST, th = p->dstMemoryType == CU_MEMORYTYPE_HOST;
    bool any = p->srcMemoryType == CU_MEMORYTYPE_UNIFIED || p->dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    size_t from_texel = 1, to_texel = 1;
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (fa && dtrt_array((cudaArray_const_t)p->srcArray, &d, &from_texel) != cudaSuccess)
        from_texel = 1;
    if (ta && dtrt_array((cudaArray_const_t)p->dstArray, &d, &to_texel) != cudaSuccess)
        to_texel = 1;
    *ret = (struct cudaMemcpy3DParms){
        .srcPos = {.x = p->srcXInBytes / from_texel, .y = p->srcY, .z = p->srcZ},
        .dstPos = {.x = p->dstXInBytes / to_texel, .y = p->dstY, .z = p->dstZ},
        .extent = {.width = p->WidthInBytes / (fa ? from_texel : to_texel), .height = p->Height, .depth = p->Depth},
        .kind = any  ? cudaMemcpyDefault
                : fh ? th ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice
                : th ? cudaMemcpyDeviceToHost
                     : cudaMemcpyDeviceToDevice};
    if (fa)
        ret->srcArray = (cudaArray_t)p->srcArray;
    else
        ret->srcPtr = (struct cudaPitchedPtr){.ptr = fh ? (void *)(unsigned long)p->srcHost : (void *)p->srcDevice,
                                              .pitch = p->srcPitch,
                                              .xsize = p->WidthInBytes,
                                              .ysize = p->srcHeight};
    if (ta)
        ret->dstArray = (cudaArray_t)p->dstArray;
    else
        ret->dstPtr = (struct cudaPitchedPtr){.ptr = th ? p->dstHost : (void *)p->dstDevice,
                                              .pitch = p->dstPitch,
                                              .xsize = p->WidthInBytes,
                                              .ysize = p->dstHeight};
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_copy_3d(p, &c));
    return dtrt_is(dtrt_drv.cuMemcpy3D(&c));
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t s)
{
    CUDA_MEMCPY3D c;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_copy_3d(p, &c));
    return dtrt_is(dtrt_drv.cuMemcpy3DAsync(&c, s));
}

static cudaError_t peer_3d(const struct cudaMemcpy3DPeerParms *p, cudaStream_t s, bool async)
{
    CUDA_MEMCPY3D c;
    CUcontext to, from;
    DTRT_CONTEXT();
    DTRT_REQUIRE(p, cudaErrorInvalidValue);
    struct cudaMemcpy3DParms q = {.srcArray = p->srcArray,
                                  .srcPos = p->srcPos,
                                  .srcPtr = p->srcPtr,
                                  .dstArray = p->dstArray,
                                  .dstPos = p->dstPos,
                                  .dstPtr = p->dstPtr,
                                  .extent = p->extent,
                                  .kind = cudaMemcpyDeviceToDevice};
    DTRT_TRY(dtrt_primary(p->dstDevice, &to));
    DTRT_TRY(dtrt_primary(p->srcDevice, &from));
    DTRT_TRY(dtrt_copy_3d(&q, &c));
    CUDA_MEMCPY3D_PEER d = {.srcXInBytes = c.srcXInBytes,
                            .srcY = c.srcY,
                            .srcZ = c.srcZ,
                            .srcMemoryType = c.srcMemoryType,
                            .srcDevice = c.srcDevice,
                            .srcArray = c.srcArray,
                            .srcContext = from,
                            .srcPitch = c.srcPitch,
                            .srcHeight = c.srcHeight,
                            .dstXInBytes = c.dstXInBytes,
                            .dstY = c.dstY,
                            .dstZ = c.dstZ,
                            .dstMemoryType = c.dstMemoryType,
                            .dstDevice = c.dstDevice,
                            .dstArray = c.dstArray,
                            .dstContext = to,
                            .dstPitch = c.dstPitch,
                            .dstHeight = c.dstHeight,
                            .WidthInBytes = c.WidthInBytes,
                            .Height = c.Height,
                            .Depth = c.Depth};
    return dtrt_is(async ? dtrt_drv.cuMemcpy3DPeerAsync(&d, s) : dtrt_drv.cuMemcpy3DPeer(&d));
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p) { return peer_3d(p, NULL, false); }

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t s) { return peer_3d(p, s, true); }

static struct cudaMemcpy3DParms pitched(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                        size_t height, enum cudaMemcpyKind kind)
{
    return (struct cudaMemcpy3DParms){
        .srcPtr = {.ptr = (void *)(unsigned long)from, .pitch = from_pitch, .xsize = width, .ysize = height},
        .dstPtr = {.ptr = to, .pitch = to_pitch, .xsize = width, .ysize = height},
        .extent = {.width = width, .height = height, .depth = 1},
        .kind = kind};
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    DTRT_REQUIRE(width <= to_pitch && width <= from_pitch, cudaErrorInvalidPitchValue);
    struct cudaMemcpy3DParms p = pitched(to, to_pitch, from, from_pitch, width, height, kind);
    return width && height ? cudaMemcpy3D(&p) : cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t s)
{
    DTRT_REQUIRE(width <= to_pitch && width <= from_pitch, cudaErrorInvalidPitchValue);
    struct cudaMemcpy3DParms p = pitched(to, to_pitch, from, from_pitch, width, height, kind);
    return width && height ? cudaMemcpy3DAsync(&p, s) : cudaSuccess;
}

PASS(cudaMemcpyBatchAsync,
     (void *const *to, const void *const *from, const size_t *n, size_t count, struct cudaMemcpyAttributes *a,
      size_t *at, size_t na, cudaStream_t s),
     cuMemcpyBatchAsync((CUdeviceptr *)(void *)to, (CUdeviceptr *)(void *)from, (size_t *)(void *)n, count,
                        (CUmemcpyAttributes *)a, at, na, s))
PASS(cudaMemcpy3DBatchAsync, (size_t n, struct cudaMemcpy3DBatchOp *op, unsigned long long flags, cudaStream_t s),
     cuMemcpy3DBatchAsync(n, (CUDA_MEMCPY3D_BATCH_OP *)op, flags, s))

/* ---- memsets ----------------------------------------------------------------------------------------------------- */
cudaError_t cudaMemset(void *p, int value, size_t n)
{
    DTRT_CONTEXT();
    return n ? dtrt_is(dtrt_drv.cuMemsetD8((CUdeviceptr)p, (unsigned char)value, n)) : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s)
{
    DTRT_CONTEXT();
    return n ? dtrt_is(dtrt_drv.cuMemsetD8Async((CUdeviceptr)p, (unsigned char)value, n, s)) : cudaSuccess;
}

cudaError_t cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
    DTRT_CONTEXT();
    if (!width || !height)
        return cudaSuccess;
    return dtrt_is(dtrt_drv.cuMemsetD2D8((CUdeviceptr)p, pitch, (unsigned char)value, width, height));
}

cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height, cudaStream_t s)
{
    DTRT_CONTEXT();
    if (!width || !height)
        return cudaSuccess;
    return dtrt_is(dtrt_drv.cuMemsetD2D8Async((CUdeviceptr)p, pitch, (unsigned char)value, width, height, s));
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent e, cudaStream_t s)
{
    DTRT_CONTEXT();
    for (size_t z = 0; z < e.depth; z++)
        DTRT_TRY(cudaMemset2DAsync((char *)p.ptr + z * p.ysize * p.pitch, p.pitch, value, e.width, e.height, s));
    return cudaSuccess;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent e)
{
    return cudaMemset3DAsync(p, value, e, NULL);
}
