/* The entries of the driver that programs call: each calls the driver's own, and then records what was asked for. How
 * programs come to call these is find.c's.
 *
 * A call that fails is not recorded, nor one on a stream that is being captured: its work comes with the graph.
 */
#include "capture/inject/inject.h"

static CUstream stream_of(CUstream s, bool own) { return !s && own ? CU_STREAM_PER_THREAD : s; }

static bool capturing(CUstream s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return REAL(cuStreamIsCapturing, s, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A hook: `record` is done with the lock where the driver's own was a success. P and A in parentheses. */
#define OPEN(...) __VA_ARGS__
#define FIND(symbol)                                                                                                   \
    static void *real_;                                                                                                \
    if (!real_)                                                                                                        \
        real_ = inj_symbol(#symbol);                                                                                   \
    if (!real_)                                                                                                        \
    return CUDA_ERROR_NOT_FOUND
#define ENTRY(symbol, P, A, record)                                                                                    \
    CUresult symbol P;                                                                                                 \
    __attribute__((visibility("default"))) CUresult symbol P                                                           \
    {                                                                                                                  \
        FIND(symbol);                                                                                                  \
        CUresult r_ = ((CUresult(*) P)real_)A;                                                                         \
        if (r_ == CUDA_SUCCESS && inj_on()) {                                                                          \
            INJ_LOCK();                                                                                                \
            record;                                                                                                    \
        }                                                                                                              \
        return r_;                                                                                                     \
    }
/* The same with a stream `s` in P: what is captured is not recorded. before: done ahead of the call. */
#define ON_STREAM_(symbol, own, s, P, A, before, record)                                                               \
    CUresult symbol P;                                                                                                 \
    __attribute__((visibility("default"))) CUresult symbol P                                                           \
    {                                                                                                                  \
        FIND(symbol);                                                                                                  \
        CUstream at = stream_of(s, own);                                                                               \
        bool wanted = inj_on() && !capturing(at);                                                                      \
        if (wanted) {                                                                                                  \
            INJ_LOCK();                                                                                                \
            before;                                                                                                    \
        }                                                                                                              \
        CUresult r_ = ((CUresult(*) P)real_)A;                                                                         \
        if (r_ == CUDA_SUCCESS && wanted) {                                                                            \
            INJ_LOCK();                                                                                                \
            record;                                                                                                    \
        }                                                                                                              \
        return r_;                                                                                                     \
    }
#define ON_STREAM(symbol, suffix, s, P, A, before, record)                                                             \
    ON_STREAM_(symbol, false, s, P, A, before, record)                                                                 \
    ON_STREAM_(symbol##suffix, true, s, P, A, before, record)

/* ---- modules ---- */
ENTRY(cuModuleLoad, (CUmodule * m, const char *path), (m, path), inj_image_file(*m, false, path))
ENTRY(cuModuleLoadData, (CUmodule * m, const void *image), (m, image), inj_image(*m, false, image))
ENTRY(cuModuleLoadDataEx, (CUmodule * m, const void *image, unsigned n, CUjit_option *o, void **v), (m, image, n, o, v),
      inj_image(*m, false, image))
ENTRY(cuModuleLoadFatBinary, (CUmodule * m, const void *image), (m, image), inj_image(*m, false, image))
ENTRY(cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name), (f, m, name), inj_function(*f, m, name))
ENTRY(cuLibraryLoadData,
      (CUlibrary * l, const void *code, CUjit_option *o, void **v, unsigned n, CUlibraryOption *lo, void **lv,
       unsigned ln),
      (l, code, o, v, n, lo, lv, ln), inj_image(*l, true, code))
ENTRY(cuLibraryLoadFromFile,
      (CUlibrary * l, const char *path, CUjit_option *o, void **v, unsigned n, CUlibraryOption *lo, void **lv,
       unsigned ln),
      (l, path, o, v, n, lo, lv, ln), inj_image_file(*l, true, path))
ENTRY(cuLibraryGetKernel, (CUkernel * k, CUlibrary l, const char *name), (k, l, name), inj_function(*k, l, name))
ENTRY(cuLibraryGetModule, (CUmodule * m, CUlibrary l), (m, l), inj_same(*m, l))
ENTRY(cuKernelGetFunction, (CUfunction * f, CUkernel k), (f, k), inj_same(*f, k))

static void hook_variable(const void *of, const char *name, CUdeviceptr *at, size_t *bytes)
{
    if (at && bytes)
        inj_variable(of, name, *at, *bytes);
}
/* A size that the caller does not ask for is asked for here. */
#define VARIABLE(symbol, handle)                                                                                       \
    CUresult symbol(CUdeviceptr *at, size_t *bytes, handle h, const char *name);                                       \
    __attribute__((visibility("default"))) CUresult symbol(CUdeviceptr *at, size_t *bytes, handle h, const char *name) \
    {                                                                                                                  \
        FIND(symbol);                                                                                                  \
        size_t n = 0;                                                                                                  \
        CUdeviceptr p = 0;                                                                                             \
        CUresult r = ((CUresult(*)(CUdeviceptr *, size_t *, handle, const char *))real_)(&p, &n, h, name);             \
        if (r != CUDA_SUCCESS)                                                                                         \
            return r;                                                                                                  \
        if (at)                                                                                                        \
            *at = p;                                                                                                   \
        if (bytes)                                                                                                     \
            *bytes = n;                                                                                                \
        if (inj_on()) {                                                                                                \
            INJ_LOCK();                                                                                                \
            hook_variable(h, name, &p, &n);                                                                            \
        }                                                                                                              \
        return r;                                                                                                      \
    }
VARIABLE(cuModuleGetGlobal_v2, CUmodule)
VARIABLE(cuLibraryGetGlobal, CUlibrary)
ENTRY(cuLibraryGetManaged, (CUdeviceptr * at, size_t *bytes, CUlibrary l, const char *name), (at, bytes, l, name),
      inj_untaken("the managed variable %s", name))

/* ---- memory ---- */
ENTRY(cuMemAlloc_v2, (CUdeviceptr * p, size_t n), (p, n), inj_alloc(*p, n, CAP_DEVICE_MEMORY))
ENTRY(cuMemAllocPitch_v2, (CUdeviceptr * p, size_t *pitch, size_t w, size_t h, unsigned e), (p, pitch, w, h, e),
      inj_alloc(*p, *pitch *h, CAP_DEVICE_MEMORY))
ENTRY(cuMemAllocManaged, (CUdeviceptr * p, size_t n, unsigned flags), (p, n, flags), inj_alloc(*p, n, CAP_MANAGED))
ENTRY(cuMemAllocHost_v2, (void **p, size_t n), (p, n), inj_alloc((CUdeviceptr)*p, n, CAP_HOST))
ENTRY(cuMemHostAlloc, (void **p, size_t n, unsigned flags), (p, n, flags), inj_alloc((CUdeviceptr)*p, n, CAP_HOST))
ENTRY(cuMemHostRegister_v2, (void *p, size_t n, unsigned flags), (p, n, flags), inj_alloc((CUdeviceptr)p, n, CAP_HOST))
ENTRY(cuMemMap, (CUdeviceptr p, size_t n, size_t at, CUmemGenericAllocationHandle h, unsigned long long flags),
      (p, n, at, h, flags), inj_alloc(p, n, CAP_DEVICE_MEMORY))
ENTRY(cuMemUnmap, (CUdeviceptr p, size_t n), (p, n), inj_free(p))
ENTRY(cuMemFree_v2, (CUdeviceptr p), (p), inj_free(p))
ENTRY(cuMemFreeHost, (void *p), (p), inj_free((CUdeviceptr)p))
ENTRY(cuMemHostUnregister, (void *p), (p), inj_free((CUdeviceptr)p))
ON_STREAM(cuMemAllocAsync, _ptsz, s, (CUdeviceptr * p, size_t n, CUstream s), (p, n, s), (void)0,
          inj_alloc(*p, n, CAP_DEVICE_MEMORY))
ON_STREAM(cuMemAllocFromPoolAsync, _ptsz, s, (CUdeviceptr * p, size_t n, CUmemoryPool pool, CUstream s),
          (p, n, pool, s), (void)0, inj_alloc(*p, n, CAP_DEVICE_MEMORY))
ON_STREAM(cuMemFreeAsync, _ptsz, s, (CUdeviceptr p, CUstream s), (p, s), (void)0, inj_free(p))

/* ---- the beginning ---- */
/* Once, at cuInit, or at the first launch where that was over. */
static void device(void)
{
    static bool told;
    struct cap_device c = {0};
    int major = 0, minor = 0, driver = 0;
    CUdevice d = 0;
    if (told || REAL(cuDeviceGet, &d, 0) != CUDA_SUCCESS)
        return;
    told = true;
    REAL(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    REAL(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
    REAL(cuDriverGetVersion, &driver);
    c.cc = (uint32_t)(10 * major + minor);
    c.driver = (uint32_t)driver;
    inj_record(CAP_DEVICE, &c, sizeof c, NULL, 0, NULL, 0);
}
/* ---- launches ---- */
static void launched(const CUlaunchConfig *cfg, CUfunction f, void **params, void **extra)
{
    struct inj_launch l;
    if (!inj_launch_of(cfg, f, params, extra, &l))
        return;
    inj_launch_write(&l);
    inj_launch_done(&l);
}

static CUlaunchConfig with_stream(const CUlaunchConfig *cfg, CUstream s)
{
    CUlaunchConfig c = *cfg;
    c.hStream = s;
    return c;
}

/* Before a launch: pinned memory that it is given is watched from now on. */
static void launching(const CUlaunchConfig *cfg, CUfunction f, void **params, void **extra)
{
    struct inj_launch l;
    device();
    inj_objects();
    if (inj_pinned_unwatched() && inj_launch_of(cfg, f, params, extra, &l)) {
        inj_pinned_given(&l);
        inj_launch_done(&l);
    }
    inj_host_memory();
}

#define SHAPE                                                                                                          \
    &(CUlaunchConfig)                                                                                                  \
    {                                                                                                                  \
        .gridDimX = gx, .gridDimY = gy, .gridDimZ = gz, .blockDimX = bx, .blockDimY = by, .blockDimZ = bz,             \
        .sharedMemBytes = shared, .hStream = at                                                                        \
    }
static CUlaunchAttribute together = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
ON_STREAM(cuLaunchKernel, _ptsz, s,
          (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
           CUstream s, void **params, void **extra),
          (f, gx, gy, gz, bx, by, bz, shared, s, params, extra), launching(SHAPE, f, params, extra),
          launched(SHAPE, f, params, extra))
ON_STREAM(cuLaunchKernelEx, _ptsz, cfg ? cfg->hStream : NULL,
          (const CUlaunchConfig *cfg, CUfunction f, void **params, void **extra), (cfg, f, params, extra),
          launching(cfg, f, params, extra), CUlaunchConfig c = with_stream(cfg, at);
          launched(&c, f, params, extra))
ON_STREAM(cuLaunchCooperativeKernel, _ptsz, s,
          (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
           CUstream s, void **params),
          (f, gx, gy, gz, bx, by, bz, shared, s, params), launching(SHAPE, f, params, NULL),
          CUlaunchConfig c = *(SHAPE);
          c.attrs = &together; c.numAttrs = 1; launched(&c, f, params, NULL))
ON_STREAM(cuLaunchHostFunc, _ptsz, s, (CUstream s, CUhostFn f, void *user), (s, f, user), (void)0,
          inj_untaken("a host function on a stream"))

/* ---- memsets and copies ---- */
#define SETS(bits, bytes, type)                                                                                        \
    ON_STREAM(cuMemsetD##bits##_v2, _ptds, NULL, (CUdeviceptr p, type v, size_t n), (p, v, n), (void)0,                \
              inj_set(at, p, 0, v, bytes, n, 1))                                                                       \
    ON_STREAM(cuMemsetD##bits##Async, _ptsz, s, (CUdeviceptr p, type v, size_t n, CUstream s), (p, v, n, s), (void)0,  \
              inj_set(at, p, 0, v, bytes, n, 1))                                                                       \
    ON_STREAM(cuMemsetD2D##bits##_v2, _ptds, NULL, (CUdeviceptr p, size_t pitch, type v, size_t w, size_t h),          \
              (p, pitch, v, w, h), (void)0, inj_set(at, p, pitch, v, bytes, w, h))                                     \
    ON_STREAM(cuMemsetD2D##bits##Async, _ptsz, s,                                                                      \
              (CUdeviceptr p, size_t pitch, type v, size_t w, size_t h, CUstream s), (p, pitch, v, w, h, s), (void)0,  \
              inj_set(at, p, pitch, v, bytes, w, h))
SETS(8, 1, unsigned char)
SETS(16, 2, unsigned short)
SETS(32, 4, unsigned)

#define ANY CU_MEMORYTYPE_UNIFIED
#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define COPIES(name, tail, to, to_type, from, from_type)                                                               \
    ON_STREAM(name##tail, _ptds, NULL, (to d, from q, size_t n), (d, q, n), (void)0,                                   \
              inj_copied(inj_copy(at, to_type, (uint64_t)d, 0, from_type, (uint64_t)q, 0, n, 1), true))                \
    ON_STREAM(name##Async##tail, _ptsz, s, (to d, from q, size_t n, CUstream s), (d, q, n, s), (void)0,                \
              inj_copy(at, to_type, (uint64_t)d, 0, from_type, (uint64_t)q, 0, n, 1))
COPIES(cuMemcpy, , CUdeviceptr, ANY, CUdeviceptr, ANY)
COPIES(cuMemcpyHtoD, _v2, CUdeviceptr, DEVICE, const void *, HOST)
COPIES(cuMemcpyDtoH, _v2, void *, HOST, CUdeviceptr, DEVICE)
COPIES(cuMemcpyDtoD, _v2, CUdeviceptr, DEVICE, CUdeviceptr, DEVICE)
ON_STREAM(cuMemcpyPeer, _ptds, NULL, (CUdeviceptr d, CUcontext dc, CUdeviceptr q, CUcontext qc, size_t n),
          (d, dc, q, qc, n), (void)0, inj_copy(at, DEVICE, d, 0, DEVICE, q, 0, n, 1))
ON_STREAM(cuMemcpyPeerAsync, _ptsz, s, (CUdeviceptr d, CUcontext dc, CUdeviceptr q, CUcontext qc, size_t n, CUstream s),
          (d, dc, q, qc, n, s), (void)0, inj_copy(at, DEVICE, d, 0, DEVICE, q, 0, n, 1))

static uint64_t copy_2d(CUstream s, const CUDA_MEMCPY2D *p)
{
    CUDA_MEMCPY3D c = {.srcXInBytes = p->srcXInBytes,
                       .srcY = p->srcY,
                       .srcMemoryType = p->srcMemoryType,
                       .srcHost = p->srcHost,
                       .srcDevice = p->srcDevice,
                       .srcPitch = p->srcPitch,
                       .dstXInBytes = p->dstXInBytes,
                       .dstY = p->dstY,
                       .dstMemoryType = p->dstMemoryType,
                       .dstHost = p->dstHost,
                       .dstDevice = p->dstDevice,
                       .dstPitch = p->dstPitch,
                       .WidthInBytes = p->WidthInBytes,
                       .Height = p->Height,
                       .Depth = 1};
    return inj_copy_3d(s, &c);
}
ON_STREAM(cuMemcpy2D_v2, _ptds, NULL, (const CUDA_MEMCPY2D *p), (p), (void)0, inj_copied(copy_2d(at, p), true))
ON_STREAM(cuMemcpy2DUnaligned_v2, _ptds, NULL, (const CUDA_MEMCPY2D *p), (p), (void)0, inj_copied(copy_2d(at, p), true))
ON_STREAM(cuMemcpy2DAsync_v2, _ptsz, s, (const CUDA_MEMCPY2D *p, CUstream s), (p, s), (void)0, copy_2d(at, p))
ON_STREAM(cuMemcpy3D_v2, _ptds, NULL, (const CUDA_MEMCPY3D *p), (p), (void)0, inj_copied(inj_copy_3d(at, p), true))
ON_STREAM(cuMemcpy3DAsync_v2, _ptsz, s, (const CUDA_MEMCPY3D *p, CUstream s), (p, s), (void)0, inj_copy_3d(at, p))

static void copy_batch(CUstream s, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        inj_copy(s, ANY, to[i], 0, ANY, from[i], 0, bytes[i], 1);
}
ON_STREAM(cuMemcpyBatchAsync_v2, _ptsz, s,
          (CUdeviceptr * d, CUdeviceptr *q, size_t *n, size_t count, CUmemcpyAttributes *a, size_t *ai, size_t na,
           CUstream s),
          (d, q, n, count, a, ai, na, s), (void)0, copy_batch(at, d, q, n, count))
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
ON_STREAM(cuMemcpyBatchAsync, _ptsz, s,
          (CUdeviceptr * d, CUdeviceptr *q, size_t *n, size_t count, CUmemcpyAttributes *a, size_t *ai, size_t na,
           size_t *failed, CUstream s),
          (d, q, n, count, a, ai, na, failed, s), (void)0, copy_batch(at, d, q, n, count))

/* ---- what no graph can say: named, and others may have read and written anything ---- */
#define UNTAKEN(symbol, what, P, A) ENTRY(symbol, P, A, inj_untaken("%s (%s)", what, #symbol))
#define UNTAKEN_BOTH(symbol, suffix, what, P, A) UNTAKEN(symbol, what, P, A) UNTAKEN(symbol##suffix, what, P, A)
UNTAKEN_BOTH(cuMemcpy3DBatchAsync_v2, _ptsz, "a batch of copies",
             (size_t n, CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream s), (n, op, flags, s))
UNTAKEN_BOTH(cuMemcpy3DBatchAsync, _ptsz, "a batch of copies",
             (size_t n, CUDA_MEMCPY3D_BATCH_OP *op, size_t *failed, unsigned long long flags, CUstream s),
             (n, op, failed, flags, s))
UNTAKEN_BOTH(cuMemcpy3DPeer, _ptds, "a copy between devices", (const CUDA_MEMCPY3D_PEER *p), (p))
UNTAKEN_BOTH(cuMemcpy3DPeerAsync, _ptsz, "a copy between devices", (const CUDA_MEMCPY3D_PEER *p, CUstream s), (p, s))
UNTAKEN_BOTH(cuMemcpyDtoA_v2, _ptds, "a copy of an array", (CUarray a, size_t at, CUdeviceptr q, size_t n),
             (a, at, q, n))
UNTAKEN_BOTH(cuMemcpyAtoD_v2, _ptds, "a copy of an array", (CUdeviceptr d, CUarray a, size_t at, size_t n),
             (d, a, at, n))
UNTAKEN_BOTH(cuStreamWriteValue32_v2, _ptsz, "a value written by a stream",
             (CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags), (s, p, v, flags))
UNTAKEN_BOTH(cuStreamWriteValue64_v2, _ptsz, "a value written by a stream",
             (CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags), (s, p, v, flags))
UNTAKEN_BOTH(cuStreamBatchMemOp_v2, _ptsz, "values that a stream writes or waits for",
             (CUstream s, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags), (s, n, p, flags))
UNTAKEN(cuLaunch, "a launch of before CUDA 4", (CUfunction f), (f))
UNTAKEN(cuLaunchGrid, "a launch of before CUDA 4", (CUfunction f, int x, int y), (f, x, y))
UNTAKEN(cuLaunchGridAsync, "a launch of before CUDA 4", (CUfunction f, int x, int y, CUstream s), (f, x, y, s))
UNTAKEN(cuIpcGetMemHandle, "memory of another process", (CUipcMemHandle * h, CUdeviceptr p), (h, p))
UNTAKEN(cuIpcOpenMemHandle_v2, "memory of another process", (CUdeviceptr * p, CUipcMemHandle h, unsigned flags),
        (p, h, flags))
UNTAKEN(cuMemExportToShareableHandle, "memory of another process",
        (void *h, CUmemGenericAllocationHandle m, CUmemAllocationHandleType type, unsigned long long flags),
        (h, m, type, flags))
UNTAKEN(cuExternalMemoryGetMappedBuffer, "memory of another process",
        (CUdeviceptr * p, CUexternalMemory m, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *d), (p, m, d))
UNTAKEN_BOTH(cuGraphicsMapResources, _ptsz, "memory of graphics", (unsigned n, CUgraphicsResource *r, CUstream s),
             (n, r, s))

/* ---- order ---- */
ON_STREAM(cuEventRecord, _ptsz, s, (CUevent e, CUstream s), (e, s), (void)0, inj_order(at, e, CAP_RECORD))
ON_STREAM(cuEventRecordWithFlags, _ptsz, s, (CUevent e, CUstream s, unsigned flags), (e, s, flags), (void)0,
          inj_order(at, e, CAP_RECORD))
ON_STREAM(cuStreamWaitEvent, _ptsz, s, (CUstream s, CUevent e, unsigned flags), (s, e, flags), (void)0,
          inj_order(at, e, CAP_WAIT))
ON_STREAM(cuStreamSynchronize, _ptsz, s, (CUstream s), (s), (void)0, inj_order(at, NULL, CAP_SYNC_STREAM))
ENTRY(cuEventSynchronize, (CUevent e), (e), inj_order(NULL, e, CAP_SYNC_EVENT))
ENTRY(cuCtxSynchronize, (void), (), inj_order(NULL, NULL, CAP_SYNC_ALL))
ENTRY(cuStreamDestroy_v2, (CUstream s), (s), inj_order(s, NULL, CAP_GONE))
ENTRY(cuEventDestroy_v2, (CUevent e), (e), inj_order(NULL, e, CAP_GONE))

/* ---- graphs ---- */
ENTRY(cuGraphInstantiateWithFlags, (CUgraphExec * x, CUgraph g, unsigned long long flags), (x, g, flags),
      inj_graph_list(*x, g))
ENTRY(cuGraphInstantiate_v2, (CUgraphExec * x, CUgraph g, CUgraphNode *e, char *log, size_t n), (x, g, e, log, n),
      inj_graph_list(*x, g))
ENTRY(cuGraphInstantiateWithParams, (CUgraphExec * x, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (x, g, p),
      inj_graph_list(*x, g))
ENTRY(cuGraphInstantiateWithParams_ptsz, (CUgraphExec * x, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (x, g, p),
      inj_graph_list(*x, g))
ON_STREAM(cuGraphLaunch, _ptsz, s, (CUgraphExec x, CUstream s), (x, s), inj_graph_launch(x, at), (void)0)
ENTRY(cuGraphExecUpdate_v2, (CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info), (x, g, info),
      inj_graph_list(x, g))
ENTRY(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p), (x, n, p),
      inj_graph_kernel(x, n, p))
ENTRY(cuGraphExecMemcpyNodeSetParams, (CUgraphExec x, CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext c), (x, n, p, c),
      inj_graph_spoiled(x, "cuGraphExecMemcpyNodeSetParams"))
ENTRY(cuGraphExecMemsetNodeSetParams, (CUgraphExec x, CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c),
      (x, n, p, c), inj_graph_spoiled(x, "cuGraphExecMemsetNodeSetParams"))
ENTRY(cuGraphExecChildGraphNodeSetParams, (CUgraphExec x, CUgraphNode n, CUgraph g), (x, n, g),
      inj_graph_spoiled(x, "cuGraphExecChildGraphNodeSetParams"))
ENTRY(cuGraphExecNodeSetParams, (CUgraphExec x, CUgraphNode n, CUgraphNodeParams *p), (x, n, p),
      inj_graph_spoiled(x, "cuGraphExecNodeSetParams"))
ENTRY(cuGraphNodeSetEnabled, (CUgraphExec x, CUgraphNode n, unsigned on), (x, n, on),
      inj_graph_spoiled(x, "cuGraphNodeSetEnabled"))
ENTRY(cuGraphExecDestroy, (CUgraphExec x), (x), inj_graph_drop(x))

/* ---- tensor maps ---- */
ENTRY(cuTensorMapEncodeTiled,
      (CUtensorMap * m, CUtensorMapDataType type, cuuint32_t rank, void *p, const cuuint64_t *dim,
       const cuuint64_t *stride, const cuuint32_t *box, const cuuint32_t *step, CUtensorMapInterleave interleave,
       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill),
      (m, type, rank, p, dim, stride, box, step, interleave, swizzle, l2, fill), struct cap_map c = {0};
      c.at = (uint64_t)(uintptr_t)p; c.type = type; c.rank = rank; c.interleave = interleave; c.swizzle = swizzle;
      c.l2 = l2; c.fill = fill; inj_map(m, &c, dim, stride, box, step))

ENTRY(cuInit, (unsigned flags), (flags), device())
