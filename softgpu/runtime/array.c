/* Arrays and mipmaps, and copies of whole bytes and rows from and to them; copies of boxes are copy.c's.
 *
 * The driver's formats are the runtime's channel descriptions in other words; flags have the same numbers. cudaMemcpy…
 * of arrays without a pitch, which CUDA 13 still has, count bytes along the rows: they become up to three boxes.
 */
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

SAME_SIZE(struct cudaArrayMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS);
_Static_assert(cudaArrayLayered == CUDA_ARRAY3D_LAYERED && cudaArraySurfaceLoadStore == CUDA_ARRAY3D_SURFACE_LDST &&
                   cudaArrayCubemap == CUDA_ARRAY3D_CUBEMAP && cudaArrayTextureGather == CUDA_ARRAY3D_TEXTURE_GATHER,
               "flags");

cudaError_t dtrt_format(const struct cudaChannelFormatDesc *d, CUarray_format *ret, unsigned *ret_channels)
{
    unsigned n = d->w ? 4 : d->z ? 3 : d->y ? 2 : 1;
    bool even = (!d->y || d->y == d->x) && (!d->z || d->z == d->x) && (!d->w || d->w == d->x);
    if (n == 3 || !even || (d->w && (!d->y || !d->z)))
        return cudaErrorInvalidChannelDescriptor;
    *ret_channels = n;
    switch (d->f) {
    case cudaChannelFormatKindUnsigned:
        *ret = d->x == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
               : d->x == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
                            : CU_AD_FORMAT_UNSIGNED_INT32;
        return d->x == 8 || d->x == 16 || d->x == 32 ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
    case cudaChannelFormatKindSigned:
        *ret = d->x == 8    ? CU_AD_FORMAT_SIGNED_INT8
               : d->x == 16 ? CU_AD_FORMAT_SIGNED_INT16
                            : CU_AD_FORMAT_SIGNED_INT32;
        return d->x == 8 || d->x == 16 || d->x == 32 ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
    case cudaChannelFormatKindFloat:
        *ret = d->x == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
        return d->x == 16 || d->x == 32 ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
    default: return (cudaError_t)dtrt_refuse("an array of this format", "integers and floats only");
    }
}

struct cudaChannelFormatDesc dtrt_channels(CUarray_format f, unsigned channels)
{
    int bits = f == CU_AD_FORMAT_UNSIGNED_INT8 || f == CU_AD_FORMAT_SIGNED_INT8                               ? 8
               : f == CU_AD_FORMAT_UNSIGNED_INT16 || f == CU_AD_FORMAT_SIGNED_INT16 || f == CU_AD_FORMAT_HALF ? 16
                                                                                                              : 32;
    enum cudaChannelFormatKind kind = f == CU_AD_FORMAT_HALF || f == CU_AD_FORMAT_FLOAT ? cudaChannelFormatKindFloat
                                      : f >= CU_AD_FORMAT_SIGNED_INT8                   ? cudaChannelFormatKindSigned
                                                                                        : cudaChannelFormatKindUnsigned;
    return (struct cudaChannelFormatDesc){bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0,
                                          channels > 3 ? bits : 0, kind};
}

static cudaError_t describe(const struct cudaChannelFormatDesc *d, struct cudaExtent e, unsigned flags,
                            CUDA_ARRAY3D_DESCRIPTOR *ret)
{
    unsigned channels = 0;
    *ret = (CUDA_ARRAY3D_DESCRIPTOR){.Width = e.width, .Height = e.height, .Depth = e.depth, .Flags = flags};
    if (!d)
        return cudaErrorInvalidValue;
    cudaError_t r = dtrt_format(d, &ret->Format, &channels);
    ret->NumChannels = channels;
    return r;
}

cudaError_t cudaMalloc3DArray(cudaArray_t *ret, const struct cudaChannelFormatDesc *d, struct cudaExtent e,
                              unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR a;
    DTRT_CONTEXT();
    DTRT_TRY(describe(d, e, flags, &a));
    return dtrt_is(dtrt_drv.cuArray3DCreate((CUarray *)ret, &a));
}

cudaError_t cudaMallocArray(cudaArray_t *ret, const struct cudaChannelFormatDesc *d, size_t width, size_t height,
                            unsigned flags)
{
    return cudaMalloc3DArray(ret, d, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t cudaFreeArray(cudaArray_t a)
{
    DTRT_CONTEXT();
    return a ? dtrt_is(dtrt_drv.cuArrayDestroy((CUarray)a)) : cudaSuccess;
}

cudaError_t dtrt_array(cudaArray_const_t a, CUDA_ARRAY3D_DESCRIPTOR *ret, size_t *ret_texel)
{
    CUresult r = dtrt_drv.cuArray3DGetDescriptor(ret, (CUarray)(unsigned long)a);
    if (r == CUDA_SUCCESS && ret_texel)
        *ret_texel = (size_t)dtrt_channels(ret->Format, ret->NumChannels).x / 8 * ret->NumChannels;
    return (cudaError_t)r;
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *d, struct cudaExtent *e, unsigned *flags, cudaArray_t a)
{
    CUDA_ARRAY3D_DESCRIPTOR x;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_array(a, &x, NULL));
    if (d)
        *d = dtrt_channels(x.Format, x.NumChannels);
    if (e)
        *e = (struct cudaExtent){x.Width, x.Height, x.Depth};
    if (flags)
        *flags = x.Flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *ret, cudaArray_const_t a)
{
    DTRT_OPEN();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    return cudaArrayGetInfo(ret, NULL, NULL, (cudaArray_t)(unsigned long)a);
}

PASS(cudaArrayGetMemoryRequirements, (struct cudaArrayMemoryRequirements * ret, cudaArray_t a, int device),
     cuArrayGetMemoryRequirements((CUDA_ARRAY_MEMORY_REQUIREMENTS *)ret, (CUarray)a, device))
PASS(cudaMipmappedArrayGetMemoryRequirements,
     (struct cudaArrayMemoryRequirements * ret, cudaMipmappedArray_t m, int device),
     cuMipmappedArrayGetMemoryRequirements((CUDA_ARRAY_MEMORY_REQUIREMENTS *)ret, (CUmipmappedArray)m, device))
PASS(cudaGetMipmappedArrayLevel, (cudaArray_t * ret, cudaMipmappedArray_const_t m, unsigned level),
     cuMipmappedArrayGetLevel((CUarray *)ret, (CUmipmappedArray)(unsigned long)m, level))

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *ret, const struct cudaChannelFormatDesc *d,
                                     struct cudaExtent e, unsigned levels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR a;
    DTRT_CONTEXT();
    DTRT_TRY(describe(d, e, flags, &a));
    return dtrt_is(dtrt_drv.cuMipmappedArrayCreate((CUmipmappedArray *)ret, &a, levels));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t m)
{
    DTRT_CONTEXT();
    return m ? dtrt_is(dtrt_drv.cuMipmappedArrayDestroy((CUmipmappedArray)m)) : cudaSuccess;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
struct end { /* of a copy: an array, or memory */
    CUarray array;
    size_t x, y; /* bytes, rows */
    void *p;
    size_t pitch;
};

static CUmemorytype memory(const struct end *e, enum cudaMemcpyKind kind, bool dst)
{
    bool host = kind == cudaMemcpyHostToHost || kind == (dst ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);
    return e->array                    ? CU_MEMORYTYPE_ARRAY
           : kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
           : host                      ? CU_MEMORYTYPE_HOST
                                       : CU_MEMORYTYPE_DEVICE;
}

static cudaError_t array_box(struct end to, struct end from, size_t width, size_t height, enum cudaMemcpyKind kind,
                             cudaStream_t s, bool async)
{
    CUDA_MEMCPY2D c = {.srcXInBytes = from.x,
                       .srcY = from.y,
                       .srcMemoryType = memory(&from, kind, false),
                       .srcHost = from.p,
                       .srcDevice = (CUdeviceptr)from.p,
                       .srcArray = from.array,
                       .srcPitch = from.pitch,
                       .dstXInBytes = to.x,
                       .dstY = to.y,
                       .dstMemoryType = memory(&to, kind, true),
                       .dstHost = to.p,
                       .dstDevice = (CUdeviceptr)to.p,
                       .dstArray = to.array,
                       .dstPitch = to.pitch,
                       .WidthInBytes = width,
                       .Height = height};
    DTRT_CONTEXT();
    DTRT_REQUIRE((unsigned)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
    return dtrt_is(async ? dtrt_drv.cuMemcpy2DAsync(&c, s) : dtrt_drv.cuMemcpy2D(&c));
}

static struct end of_array(cudaArray_const_t a, size_t x, size_t y)
{
    return (struct end){.array = (CUarray)(unsigned long)a, .x = x, .y = y};
}
static struct end of_memory(const void *p, size_t pitch)
{
    return (struct end){.p = (void *)(unsigned long)p, .pitch = pitch};
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                size_t height, enum cudaMemcpyKind kind)
{
    return array_box(of_array(to, x, y), of_memory(from, pitch), width, height, kind, NULL, false);
}
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                     size_t height, enum cudaMemcpyKind kind, cudaStream_t s)
{
    return array_box(of_array(to, x, y), of_memory(from, pitch), width, height, kind, s, true);
}
cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                  size_t height, enum cudaMemcpyKind kind)
{
    return array_box(of_memory(to, pitch), of_array(from, x, y), width, height, kind, NULL, false);
}
cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                       size_t height, enum cudaMemcpyKind kind, cudaStream_t s)
{
    return array_box(of_memory(to, pitch), of_array(from, x, y), width, height, kind, s, true);
}
cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x,
                                     size_t y, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return array_box(of_array(to, to_x, to_y), of_array(from, x, y), width, height, kind, NULL, false);
}

/* Bytes along the rows of an array, from or to memory: the rest of a row, whole rows, the start of a row. */
static cudaError_t along(struct end a, struct end m, bool to, size_t n, enum cudaMemcpyKind kind, cudaStream_t s,
                         bool async)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    size_t texel;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_array((cudaArray_const_t)a.array, &d, &texel));
    size_t row = d.Width * texel;
    DTRT_REQUIRE(a.x < row || !n, cudaErrorInvalidValue);
    while (n) {
        size_t width = a.x || n < row ? (n < row - a.x ? n : row - a.x) : row;
        size_t height = a.x || n < row ? 1 : n / row;
        m.pitch = width;
        cudaError_t e =
            to ? array_box(a, m, width, height, kind, s, async) : array_box(m, a, width, height, kind, s, async);
        if (e != cudaSuccess)
            return e;
        m.p = (char *)m.p + width * height;
        n -= width * height;
        a.y += height;
        a.x = 0;
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t n, enum cudaMemcpyKind kind)
{
    return along(of_array(to, x, y), of_memory(from, 0), true, n, kind, NULL, false);
}
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t n,
                                   enum cudaMemcpyKind kind, cudaStream_t s)
{
    return along(of_array(to, x, y), of_memory(from, 0), true, n, kind, s, true);
}
cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t n,
                                enum cudaMemcpyKind kind)
{
    return along(of_array(from, x, y), of_memory(to, 0), false, n, kind, NULL, false);
}
cudaError_t cudaMemcpyFromArrayAsync(void *to, cudaArray_const_t from, size_t x, size_t y, size_t n,
                                     enum cudaMemcpyKind kind, cudaStream_t s)
{
    return along(of_array(from, x, y), of_memory(to, 0), false, n, kind, s, true);
}

cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x, size_t y,
                                   size_t n, enum cudaMemcpyKind kind)
{
    CUDA_ARRAY3D_DESCRIPTOR a, b;
    size_t ta, tb;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_array(to, &a, &ta));
    DTRT_TRY(dtrt_array(from, &b, &tb));
    size_t row = a.Width * ta, left = row - to_x < b.Width * tb - x ? row - to_x : b.Width * tb - x;
    if (n > left) { /* more than a row: of alike ones, from their starts */
        DTRT_REQUIRE(row == b.Width * tb && !to_x && !x && n % row == 0, cudaErrorInvalidValue);
        return array_box(of_array(to, 0, to_y), of_array(from, 0, y), row, n / row, kind, NULL, false);
    }
    return array_box(of_array(to, to_x, to_y), of_array(from, x, y), n, 1, kind, NULL, false);
}
