/* Copies and memsets. Every copy becomes a CUDA_MEMCPY3D, every memset a cu_set. They run at once; how long they take
 * is the timeline's. An array (array.c) is one side of a copy, in which rows and slices are its own.
 *
 * The device side of a copy must lie inside one allocation. A side of CU_MEMORYTYPE_UNIFIED that the device does not
 * know is host memory.
 */
#include <string.h>
#include <sys/mman.h>

#include "softgpu/libcuda/cu-priv.h"

struct side {
    char *p;
    size_t pitch, height;
    bool device;
};

/* Bytes from the first to behind the last that a box touches; false on overflow. */
static bool extent(size_t pitch, size_t height, const CUDA_MEMCPY3D *c, size_t *ret)
{
    size_t rows = 0, n = 0;
    if (__builtin_mul_overflow(c->Depth - 1, height, &rows) || __builtin_add_overflow(rows, c->Height - 1, &rows) ||
        __builtin_mul_overflow(rows, pitch, &n) || __builtin_add_overflow(n, c->WidthInBytes, &n))
        return false;
    *ret = n;
    return true;
}

/* Is there host memory at all of it? A pointer that the device does not know may be one to device memory that was
 * freed. */
static bool is_mapped(const char *p, size_t n)
{
    unsigned char vec[256];
    uintptr_t at = (uintptr_t)p / 4096 * 4096, end = (uintptr_t)p + n;
    for (; end >= (uintptr_t)p && at < end; at += sizeof vec * 4096) {
        size_t room = end - at < sizeof vec * 4096 ? end - at : sizeof vec * 4096;
        if (mincore((void *)at, room, vec))
            return false;
    }
    return end >= (uintptr_t)p;
}

static CUresult array_side(struct CUctx_st *c, const CUDA_MEMCPY3D *p, bool dst, struct side *ret)
{
    CUarray a = dst ? p->dstArray : p->srcArray;
    size_t x = dst ? p->dstXInBytes : p->srcXInBytes, y = dst ? p->dstY : p->srcY, z = dst ? p->dstZ : p->srcZ;
    CU_REQUIRE(cu_is(a, CU_ARRAY) && a->ctx->dev == c->dev, CUDA_ERROR_INVALID_HANDLE);
    const struct sg_level *l = &a->level;
    size_t texel = cu_array_texel_bytes(&a->desc);
    CU_REQUIRE(!(dst ? p->dstLOD : p->srcLOD) && x % texel == 0 && p->WidthInBytes % texel == 0,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(x <= l->pitch && p->WidthInBytes <= l->pitch - x && y <= l->height && p->Height <= l->height - y &&
                   z <= l->depth && p->Depth <= l->depth - z,
               CUDA_ERROR_INVALID_VALUE);
    *ret = (struct side){.p = (char *)(uintptr_t)(l->base + z * l->slice + y * l->pitch + x),
                         .pitch = l->pitch,
                         .height = l->height,
                         .device = true};
    return CUDA_SUCCESS;
}

/* `later`: it runs in a graph, where memory may be allocated by then. */
static CUresult side_of(struct CUctx_st *c, const CUDA_MEMCPY3D *p, bool dst, bool later, struct side *ret)
{
    CUmemorytype type = dst ? p->dstMemoryType : p->srcMemoryType;
    CUdeviceptr dev = dst ? p->dstDevice : p->srcDevice;
    const void *host = dst ? p->dstHost : p->srcHost;
    size_t pitch = dst ? p->dstPitch : p->srcPitch, height = dst ? p->dstHeight : p->srcHeight, n = 0, at = 0;
    size_t x = dst ? p->dstXInBytes : p->srcXInBytes, y = dst ? p->dstY : p->srcY, z = dst ? p->dstZ : p->srcZ;
    pitch = pitch ? pitch : p->WidthInBytes;
    height = height ? height : p->Height;
    CU_REQUIRE(p->Height == 1 && p->Depth == 1 ? true : pitch >= p->WidthInBytes, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(extent(pitch, height, p, &n), CUDA_ERROR_INVALID_VALUE);
    if (__builtin_mul_overflow(z, height, &at) || __builtin_add_overflow(at, y, &at) ||
        __builtin_mul_overflow(at, pitch, &at) || __builtin_add_overflow(at, x, &at))
        return CUDA_ERROR_INVALID_VALUE;
    ret->pitch = pitch;
    ret->height = height;
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        ret->p = (char *)(uintptr_t)host + at;
        ret->device = false;
        break;
    case CU_MEMORYTYPE_DEVICE:
        ret->p = (char *)(uintptr_t)dev + at;
        ret->device = true;
        CU_REQUIRE(sg_mem_ok(c->dev->sg, dev + at, n) || (later && cu_graph_memory_holds(dev + at, n)),
                   CUDA_ERROR_INVALID_VALUE);
        break;
    case CU_MEMORYTYPE_UNIFIED: {
        uint64_t base, bytes;
        ret->p = (char *)(uintptr_t)dev + at;
        if (later && cu_graph_memory_holds(dev + at, n)) {
            ret->device = true;
            break;
        }
        ret->device = sg_mem_find(c->dev->sg, dev + at, &base, &bytes);
        CU_REQUIRE(ret->device ? sg_mem_ok(c->dev->sg, dev + at, n) : is_mapped(ret->p, n), CUDA_ERROR_INVALID_VALUE);
        break;
    }
    case CU_MEMORYTYPE_ARRAY: return array_side(c, p, dst, ret);
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    CU_REQUIRE(ret->p, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cu_copy_check(struct CUctx_st *c, const CUDA_MEMCPY3D *p)
{
    struct side s, d;
    if (!p->WidthInBytes || !p->Height || !p->Depth)
        return CUDA_SUCCESS;
    CU_TRY(side_of(c, p, false, true, &s));
    return side_of(c, p, true, true, &d);
}

CUresult cu_copy_run(struct CUctx_st *c, const CUDA_MEMCPY3D *p)
{
    struct side s, d;
    if (!p->WidthInBytes || !p->Height || !p->Depth)
        return CUDA_SUCCESS;
    CU_TRY(side_of(c, p, false, false, &s));
    CU_TRY(side_of(c, p, true, false, &d));
    for (size_t z = 0; z < p->Depth; z++)
        for (size_t y = 0; y < p->Height; y++) {
            char *to = d.p + (z * d.height + y) * d.pitch, *from = s.p + (z * s.height + y) * s.pitch;
            memmove(to, from, p->WidthInBytes);
            if (d.device && s.device)
                sg_mem_copied(c->dev->sg, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, p->WidthInBytes);
            else if (d.device)
                sg_mem_written(c->dev->sg, (uint64_t)(uintptr_t)to, p->WidthInBytes);
        }
    return CUDA_SUCCESS;
}

struct sg_work cu_copy_work(const CUDA_MEMCPY3D *p)
{
    uint64_t n = (uint64_t)p->WidthInBytes * p->Height * p->Depth;
    bool inside = (p->srcMemoryType == CU_MEMORYTYPE_DEVICE || p->srcMemoryType == CU_MEMORYTYPE_ARRAY) &&
                  (p->dstMemoryType == CU_MEMORYTYPE_DEVICE || p->dstMemoryType == CU_MEMORYTYPE_ARRAY);
    /* within the device: read and written at DRAM speed */
    return (struct sg_work){.kind = inside ? SG_WORK_SET : SG_WORK_COPY, .bytes = inside ? 2 * n : n};
}

static CUDA_MEMCPY3D flat(CUmemorytype to, uint64_t dst, CUmemorytype from, uint64_t src, size_t n)
{
    CUDA_MEMCPY3D p = {.WidthInBytes = n, .Height = 1, .Depth = 1, .srcMemoryType = from, .dstMemoryType = to};
    if (from == CU_MEMORYTYPE_HOST)
        p.srcHost = (const void *)(uintptr_t)src;
    else
        p.srcDevice = src;
    if (to == CU_MEMORYTYPE_HOST)
        p.dstHost = (void *)(uintptr_t)dst;
    else
        p.dstDevice = dst;
    return p;
}

static CUresult copy(const CUDA_MEMCPY3D *p, CUstream stream, bool wait)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_legacy(c, s));
    if (wait)
        CU_TRY(cu_capture_unsafe(c));
    if (s->capture) {
        CU_REQUIRE(!wait, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        CU_TRY(cu_copy_check(c, p));
        return cu_capture_copy(s, p);
    }
    CU_TRY(cu_copy_run(c, p));
    CU_TRY(cu_log(s, cu_copy_work(p), NULL));
    return wait ? cu_log_wait(c, s) : CUDA_SUCCESS;
}

#define H CU_MEMORYTYPE_HOST
#define D CU_MEMORYTYPE_DEVICE
#define U CU_MEMORYTYPE_UNIFIED
#define ASYNC(name, dtype, dkind, stype, skind)                                                                        \
    CUresult name(dtype dst, stype src, size_t n, CUstream s)                                                          \
    {                                                                                                                  \
        CUDA_MEMCPY3D p = flat(dkind, (uint64_t)(uintptr_t)dst, skind, (uint64_t)(uintptr_t)src, n);                   \
        return copy(&p, s, false);                                                                                     \
    }
#define COPY(name, dtype, dkind, stype, skind)                                                                         \
    CUresult name(dtype dst, stype src, size_t n)                                                                      \
    {                                                                                                                  \
        CUDA_MEMCPY3D p = flat(dkind, (uint64_t)(uintptr_t)dst, skind, (uint64_t)(uintptr_t)src, n);                   \
        return copy(&p, NULL, true);                                                                                   \
    }
COPY(cuMemcpyHtoD, CUdeviceptr, D, const void *, H)
COPY(cuMemcpyDtoH, void *, H, CUdeviceptr, D)
COPY(cuMemcpyDtoD, CUdeviceptr, D, CUdeviceptr, D)
COPY(cuMemcpy, CUdeviceptr, U, CUdeviceptr, U)
ASYNC(cuMemcpyHtoDAsync, CUdeviceptr, D, const void *, H)
ASYNC(cuMemcpyDtoHAsync, void *, H, CUdeviceptr, D)
ASYNC(cuMemcpyDtoDAsync, CUdeviceptr, D, CUdeviceptr, D)
ASYNC(cuMemcpyAsync, CUdeviceptr, U, CUdeviceptr, U)

/* ---- arrays: bytes of the rows of one, one behind the other; at most to the end of the row where they begin, or whole
 * rows from the start of one */
static CUresult rows(struct CUctx_st *c, CUarray a, size_t at, size_t n, bool dst, CUDA_MEMCPY3D *p)
{
    CU_REQUIRE(cu_is(a, CU_ARRAY) && a->ctx->dev == c->dev, CUDA_ERROR_INVALID_HANDLE);
    size_t pitch = a->level.pitch, x = at % pitch, y = at / pitch;
    CU_REQUIRE(n <= pitch - x || (!x && n % pitch == 0), CUDA_ERROR_INVALID_VALUE);
    p->WidthInBytes = n <= pitch - x ? n : pitch;
    p->Height = n <= pitch - x ? 1 : n / pitch;
    if (dst)
        p->dstArray = a, p->dstXInBytes = x, p->dstY = y, p->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    else
        p->srcArray = a, p->srcXInBytes = x, p->srcY = y, p->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    return CUDA_SUCCESS;
}

static CUresult copy_rows(CUarray to, size_t to_at, CUarray from, size_t from_at, CUDA_MEMCPY3D p, size_t n, CUstream s,
                          bool wait)
{
    CU_CONTEXT(c);
    if (to)
        CU_TRY(rows(c, to, to_at, n, true, &p));
    CUDA_MEMCPY3D q = p;
    if (from)
        CU_TRY(rows(c, from, from_at, n, false, &p));
    CU_REQUIRE(!to || !from || (q.WidthInBytes == p.WidthInBytes && q.Height == p.Height), CUDA_ERROR_INVALID_VALUE);
    return copy(&p, s, wait);
}

#define NOT_NULL(a) CU_REQUIRE(a, CUDA_ERROR_INVALID_HANDLE)
CUresult cuMemcpyHtoA(CUarray to, size_t at, const void *from, size_t n)
{
    CU_READY();
    NOT_NULL(to);
    return copy_rows(to, at, NULL, 0, flat(D, 0, H, (uint64_t)(uintptr_t)from, n), n, NULL, true);
}
CUresult cuMemcpyAtoH(void *to, CUarray from, size_t at, size_t n)
{
    CU_READY();
    NOT_NULL(from);
    return copy_rows(NULL, 0, from, at, flat(H, (uint64_t)(uintptr_t)to, D, 0, n), n, NULL, true);
}
CUresult cuMemcpyDtoA(CUarray to, size_t at, CUdeviceptr from, size_t n)
{
    CU_READY();
    NOT_NULL(to);
    return copy_rows(to, at, NULL, 0, flat(D, 0, D, from, n), n, NULL, true);
}
CUresult cuMemcpyAtoD(CUdeviceptr to, CUarray from, size_t at, size_t n)
{
    CU_READY();
    NOT_NULL(from);
    return copy_rows(NULL, 0, from, at, flat(D, to, D, 0, n), n, NULL, true);
}
CUresult cuMemcpyAtoA(CUarray to, size_t to_at, CUarray from, size_t from_at, size_t n)
{
    CU_READY();
    NOT_NULL(to && from);
    return copy_rows(to, to_at, from, from_at, flat(D, 0, D, 0, n), n, NULL, true);
}
CUresult cuMemcpyHtoAAsync(CUarray to, size_t at, const void *from, size_t n, CUstream s)
{
    CU_READY();
    NOT_NULL(to);
    return copy_rows(to, at, NULL, 0, flat(D, 0, H, (uint64_t)(uintptr_t)from, n), n, s, false);
}
CUresult cuMemcpyAtoHAsync(void *to, CUarray from, size_t at, size_t n, CUstream s)
{
    CU_READY();
    NOT_NULL(from);
    return copy_rows(NULL, 0, from, at, flat(H, (uint64_t)(uintptr_t)to, D, 0, n), n, s, false);
}

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *q)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = q->srcXInBytes,
                           .srcY = q->srcY,
                           .srcMemoryType = q->srcMemoryType,
                           .srcHost = q->srcHost,
                           .srcDevice = q->srcDevice,
                           .srcArray = q->srcArray,
                           .srcPitch = q->srcPitch,
                           .dstXInBytes = q->dstXInBytes,
                           .dstY = q->dstY,
                           .dstArray = q->dstArray,
                           .dstMemoryType = q->dstMemoryType,
                           .dstHost = q->dstHost,
                           .dstDevice = q->dstDevice,
                           .dstPitch = q->dstPitch,
                           .WidthInBytes = q->WidthInBytes,
                           .Height = q->Height,
                           .Depth = 1};
}

static CUresult copy_2d(const CUDA_MEMCPY2D *q, CUstream s, bool wait)
{
    CUDA_MEMCPY3D p = q ? from_2d(q) : (CUDA_MEMCPY3D){0};
    return copy(q ? &p : NULL, s, wait);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *q) { return copy_2d(q, NULL, true); }

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *q) { return copy_2d(q, NULL, true); }

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *q, CUstream s) { return copy_2d(q, s, false); }

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *p) { return copy(p, NULL, true); }

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *p, CUstream s) { return copy(p, s, false); }

/* ---- between contexts: all of a device share its addresses ---- */
static CUresult peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream s, bool wait)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(to, CU_CTX) && cu_is(from, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_REQUIRE(to->dev == c->dev && from->dev == c->dev, CUDA_ERROR_NOT_SUPPORTED);
    CUDA_MEMCPY3D p = flat(CU_MEMORYTYPE_DEVICE, dst, CU_MEMORYTYPE_DEVICE, src, n);
    return copy(&p, s, wait);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n)
{
    return peer(dst, to, src, from, n, NULL, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream s)
{
    return peer(dst, to, src, from, n, s, false);
}

static CUresult peer_3d(const CUDA_MEMCPY3D_PEER *q, CUstream s, bool wait)
{
    CU_CONTEXT(c);
    CU_REQUIRE(q, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(q->srcMemoryType != CU_MEMORYTYPE_DEVICE || cu_is(q->srcContext, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_REQUIRE(q->dstMemoryType != CU_MEMORYTYPE_DEVICE || cu_is(q->dstContext, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CUDA_MEMCPY3D p = {.srcXInBytes = q->srcXInBytes,
                       .srcY = q->srcY,
                       .srcZ = q->srcZ,
                       .srcLOD = q->srcLOD,
                       .srcMemoryType = q->srcMemoryType,
                       .srcHost = q->srcHost,
                       .srcDevice = q->srcDevice,
                       .srcArray = q->srcArray,
                       .srcPitch = q->srcPitch,
                       .srcHeight = q->srcHeight,
                       .dstXInBytes = q->dstXInBytes,
                       .dstY = q->dstY,
                       .dstZ = q->dstZ,
                       .dstLOD = q->dstLOD,
                       .dstMemoryType = q->dstMemoryType,
                       .dstHost = q->dstHost,
                       .dstDevice = q->dstDevice,
                       .dstArray = q->dstArray,
                       .dstPitch = q->dstPitch,
                       .dstHeight = q->dstHeight,
                       .WidthInBytes = q->WidthInBytes,
                       .Height = q->Height,
                       .Depth = q->Depth};
    return copy(&p, s, wait);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *q) { return peer_3d(q, NULL, true); }

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *q, CUstream s) { return peer_3d(q, s, false); }

/* ---- batches ---- */
CUresult cuMemcpyBatchAsync(CUdeviceptr *dst, CUdeviceptr *src, size_t *n, size_t count, CUmemcpyAttributes *attr,
                            size_t *index, size_t nattr, CUstream stream)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_stream(c, stream), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(stream && stream != CU_STREAM_LEGACY && dst && src && n && count && attr && index && nattr &&
                   nattr <= count && !index[0],
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!cu_stream(c, stream)->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (size_t i = 0; i < nattr; i++)
        CU_REQUIRE(attr[i].srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
                       attr[i].srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY && index[i] < count &&
                       (!i || index[i] > index[i - 1]),
                   CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        CUDA_MEMCPY3D p = flat(U, dst[i], U, src[i], n[i]);
        CU_REQUIRE(n[i], CUDA_ERROR_INVALID_VALUE);
        CU_TRY(cu_copy_check(c, &p));
    }
    for (size_t i = 0; i < count; i++)
        CU_TRY(cuMemcpyAsync(dst[i], src[i], n[i], stream));
    return CUDA_SUCCESS;
}

/* One operand of a 3D batch as the source or destination side; arrays are not offered. */
static CUresult copy_operand(const CUmemcpy3DOperand *o, size_t element_rows, CUdeviceptr *p, size_t *pitch,
                             size_t *height)
{
    CU_REQUIRE(o->type == CU_MEMCPY_OPERAND_TYPE_POINTER, CUDA_ERROR_NOT_SUPPORTED);
    *p = o->op.ptr.ptr;
    *pitch = o->op.ptr.rowLength;
    *height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : element_rows;
    return CUDA_SUCCESS;
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_stream(c, stream), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(stream && stream != CU_STREAM_LEGACY && op && count && !flags, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!cu_stream(c, stream)->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    for (int run = 0; run < 2; run++)
        for (size_t i = 0; i < count; i++) {
            CUDA_MEMCPY3D p = {.WidthInBytes = op[i].extent.width,
                               .Height = op[i].extent.height,
                               .Depth = op[i].extent.depth,
                               .srcMemoryType = U,
                               .dstMemoryType = U};
            CU_REQUIRE(p.WidthInBytes && p.Height && p.Depth, CUDA_ERROR_INVALID_VALUE);
            CU_TRY(copy_operand(&op[i].src, p.Height, &p.srcDevice, &p.srcPitch, &p.srcHeight));
            CU_TRY(copy_operand(&op[i].dst, p.Height, &p.dstDevice, &p.dstPitch, &p.dstHeight));
            CU_TRY(run ? cuMemcpy3DAsync(&p, stream) : cu_copy_check(c, &p));
        }
    return CUDA_SUCCESS;
}

/* ---- memset ---- */
CUresult cu_set_check(struct CUctx_st *c, const struct cu_set *s, bool later)
{
    size_t width, n;
    CU_REQUIRE(s->element == 1 || s->element == 2 || s->element == 4, CUDA_ERROR_INVALID_VALUE);
    if (!s->width || !s->height)
        return CUDA_SUCCESS;
    CU_REQUIRE(!__builtin_mul_overflow(s->width, s->element, &width), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(s->height == 1 || s->pitch >= width, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!__builtin_mul_overflow(s->height - 1, s->pitch, &n) && !__builtin_add_overflow(n, width, &n),
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(s->dst % s->element == 0 &&
                   (sg_mem_ok(c->dev->sg, s->dst, n) || (later && cu_graph_memory_holds(s->dst, n))),
               CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

void cu_set_run(struct CUctx_st *c, const struct cu_set *s)
{
    for (size_t y = 0; y < s->height; y++) {
        char *row = (char *)(uintptr_t)s->dst + y * s->pitch;
        if (s->element == 1)
            memset(row, (int)s->value, s->width);
        for (size_t x = 0; x < s->width && s->element == 2; x++)
            ((uint16_t *)(void *)row)[x] = (uint16_t)s->value;
        for (size_t x = 0; x < s->width && s->element == 4; x++)
            ((uint32_t *)(void *)row)[x] = s->value;
        sg_mem_written(c->dev->sg, (uint64_t)(uintptr_t)row, s->width * s->element);
    }
}

struct sg_work cu_set_work(const struct cu_set *s)
{
    return (struct sg_work){.kind = SG_WORK_SET, .bytes = (uint64_t)s->width * s->element * s->height};
}

static CUresult copy_set(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
                         CUstream stream)
{
    CU_CONTEXT(c);
    struct cu_set p = {dst, pitch, width, height, value, element};
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_capture_legacy(c, s));
    CU_TRY(cu_set_check(c, &p, s->capture != NULL));
    if (s->capture)
        return cu_capture_set(s, &p);
    cu_set_run(c, &p);
    return cu_log(s, cu_set_work(&p), NULL);
}

#define SET_ALL(bits, type, element)                                                                                   \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr dst, type v, size_t n)                                                   \
    {                                                                                                                  \
        return copy_set(dst, 0, v, element, n, 1, NULL);                                                               \
    }                                                                                                                  \
    CUresult cuMemsetD##bits##Async(CUdeviceptr dst, type v, size_t n, CUstream s)                                     \
    {                                                                                                                  \
        return copy_set(dst, 0, v, element, n, 1, s);                                                                  \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type v, size_t w, size_t h)                         \
    {                                                                                                                  \
        return copy_set(dst, pitch, v, element, w, h, NULL);                                                           \
    }                                                                                                                  \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type v, size_t w, size_t h, CUstream s)           \
    {                                                                                                                  \
        return copy_set(dst, pitch, v, element, w, h, s);                                                              \
    }
SET_ALL(8, unsigned char, 1)
SET_ALL(16, unsigned short, 2)
SET_ALL(32, unsigned, 4)
