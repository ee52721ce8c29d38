/* Graphs and capture of the driver API beyond the simple case: parameters, update, clones, memory, modes, what breaks a
 * capture. */
#include <pthread.h>

#include "driver-fixture.h"

static int called;
static void count(void *by) { called += (int)(intptr_t)by; }

static CUDA_KERNEL_NODE_PARAMS kernel(CUfunction f, void **args)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 32,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = args};
}

static unsigned first(CUdeviceptr p)
{
    unsigned v;
    OK(F(cuMemcpyDtoH)(&v, p, 4));
    return v;
}

static void parameters(void **state)
{
    CUmodule m;
    CUgraph g, clone, inner;
    CUgraphExec x;
    CUgraphNode set, k, host, child, found;
    CUdeviceptr p;
    unsigned n = 32, v = 5, on;
    fresh();
    CUfunction f = load_add(&m, "add");
    OK(F(cuMemAlloc)(&p, 128));
    void *args[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS kp = kernel(f, args), got;
    CUDA_MEMSET_NODE_PARAMS sp = {.dst = p, .elementSize = 4, .width = 32, .height = 1, .value = 10};
    CUDA_HOST_NODE_PARAMS hp = {count, (void *)1};
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddMemsetNode)(&set, g, NULL, 0, &sp, NULL));
    OK(F(cuGraphAddKernelNode)(&k, g, &set, 1, &kp));
    OK(F(cuGraphAddHostNode)(&host, g, &k, 1, &hp));
    IS(F(cuGraphAddEmptyNode)(&found, g, (CUgraphNode[]){k, k}, 2), CUDA_ERROR_INVALID_VALUE); /* twice the same */
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, NULL));
    assert_true(first(p) == 15 && called == 1);
    v = 7;
    OK(F(cuGraphExecKernelNodeSetParams)(x, k, &kp));
    sp.value = 20;
    OK(F(cuGraphExecMemsetNodeSetParams)(x, set, &sp, NULL));
    hp.userData = (void *)10;
    OK(F(cuGraphExecHostNodeSetParams)(x, host, &hp));
    OK(F(cuGraphLaunch)(x, NULL));
    assert_true(first(p) == 27 && called == 11);
    OK(F(cuGraphNodeSetEnabled)(x, k, 0));
    OK(F(cuGraphNodeGetEnabled)(x, k, &on));
    assert_int_equal(on, 0);
    OK(F(cuGraphLaunch)(x, NULL));
    assert_int_equal(first(p), 20);
    IS(F(cuGraphNodeSetEnabled)(x, host, 0), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuGraphExecKernelNodeSetParams)(x, set, &kp), CUDA_ERROR_INVALID_VALUE); /* another kind */
    OK(F(cuGraphKernelNodeGetParams)(k, &got));                                   /* the graph itself did not change */
    assert_int_equal(*(unsigned *)got.kernelParams[2], 5);

    OK(F(cuGraphClone)(&clone, g));
    OK(F(cuGraphNodeFindInClone)(&found, k, clone));
    OK(F(cuGraphKernelNodeSetParams)(found, &kp));
    OK(F(cuGraphKernelNodeGetParams)(k, &got));
    assert_int_equal(*(unsigned *)got.kernelParams[2], 5);
    OK(F(cuGraphAddChildGraphNode)(&child, g, &host, 1, clone));
    OK(F(cuGraphChildGraphNodeGetGraph)(child, &inner));
    IS(F(cuGraphDestroy)(inner), CUDA_ERROR_INVALID_VALUE); /* it belongs to its node */
    OK(F(cuGraphDestroy)(clone));
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, NULL)); /* memset 10, +5, then the child: memset 10, +7 */
    assert_int_equal(first(p), 17);
    OK(F(cuGraphExecDestroy)(x));

    /* a function, memory or event that is gone by the launch */
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuModuleUnload)(m));
    IS(F(cuGraphLaunch)(x, NULL), CUDA_ERROR_INVALID_HANDLE);
    CUgraphExec y;
    IS(F(cuGraphInstantiateWithFlags)(&y, g, 0), CUDA_ERROR_INVALID_HANDLE);
    OK(F(cuGraphExecDestroy)(x));
    IS(F(cuGraphLaunch)(x, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuGraphDestroy)(g));
    IS(F(cuGraphNodeGetType)(k, (CUgraphNodeType *)&on), CUDA_ERROR_INVALID_VALUE);
    drop();
}

static void update(void **state)
{
    CUmodule m;
    CUgraph g, h;
    CUgraphExec x;
    CUgraphNode a, b;
    CUdeviceptr p;
    unsigned n = 32, v = 1, w = 100;
    CUgraphExecUpdateResultInfo info;
    fresh();
    CUfunction f = load_add(&m, "add");
    OK(F(cuMemAlloc)(&p, 128));
    OK(F(cuMemsetD32)(p, 0, 32));
    void *av[] = {&p, &n, &v}, *aw[] = {&p, &n, &w};
    CUDA_KERNEL_NODE_PARAMS kv = kernel(f, av), kw = kernel(f, aw);
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddKernelNode)(&a, g, NULL, 0, &kv));
    OK(F(cuGraphAddKernelNode)(&b, g, &a, 1, &kv));
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphCreate)(&h, 0));
    OK(F(cuGraphAddKernelNode)(&a, h, NULL, 0, &kw));
    OK(F(cuGraphAddKernelNode)(&b, h, NULL, 0, &kw));
    IS(F(cuGraphExecUpdate)(x, h, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    assert_ptr_equal(info.errorNode, b);
    OK(F(cuGraphAddDependencies)(h, &a, &b, NULL, 1));
    IS(F(cuGraphAddDependencies)(h, &a, &b, NULL, 1), CUDA_ERROR_INVALID_VALUE); /* there already */
    OK(F(cuGraphExecUpdate)(x, h, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(F(cuGraphLaunch)(x, NULL));
    assert_int_equal(first(p), 200);
    kw.kernelParams = av; /* after the update the exec goes by the nodes of h */
    OK(F(cuGraphExecKernelNodeSetParams)(x, b, &kw));
    OK(F(cuGraphLaunch)(x, NULL));
    assert_int_equal(first(p), 301);
    OK(F(cuGraphDestroyNode)(b));
    IS(F(cuGraphExecUpdate)(x, h, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    OK(F(cuGraphAddDependencies)(g, NULL, NULL, NULL, 0));
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphDestroy)(g));
    OK(F(cuGraphDestroy)(h));
    drop();
}

static void memory(void **state)
{
    CUgraph g;
    CUgraphExec x;
    CUgraphNode a, s, c, f;
    CUdeviceptr out;
    cuuint64_t used;
    CUstream st;
    fresh();
    OK(F(cuMemAlloc)(&out, 64));
    CUDA_MEM_ALLOC_NODE_PARAMS ap = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 64};
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddMemAllocNode)(&a, g, NULL, 0, &ap));
    IS(F(cuMemsetD8)(ap.dptr, 0, 1), CUDA_ERROR_INVALID_VALUE); /* not allocated before the graph runs */
    CUDA_MEMSET_NODE_PARAMS sp = {.dst = ap.dptr, .elementSize = 4, .width = 16, .height = 1, .value = 77};
    OK(F(cuGraphAddMemsetNode)(&s, g, &a, 1, &sp, NULL));
    CUDA_MEMCPY3D cp = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = ap.dptr,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = out,
                        .WidthInBytes = 64,
                        .Height = 1,
                        .Depth = 1};
    OK(F(cuGraphAddMemcpyNode)(&c, g, &s, 1, &cp, NULL));
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, NULL));
    assert_int_equal(first(out), 77);
    IS(F(cuGraphLaunch)(x, NULL), CUDA_ERROR_INVALID_VALUE); /* allocated already */
    assert_int_equal(first(ap.dptr), 77);
    OK(F(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, 64);
    OK(F(cuMemFree)(ap.dptr));
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphAddMemFreeNode)(&f, g, &c, 1, ap.dptr));
    IS(F(cuGraphAddMemFreeNode)(&f, g, &c, 1, out), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, NULL));
    OK(F(cuGraphLaunch)(x, NULL));
    IS(F(cuMemFree)(ap.dptr), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphDestroy)(g));

    /* the same from a capture */
    CUdeviceptr p;
    OK(F(cuStreamCreate)(&st, CU_STREAM_NON_BLOCKING));
    OK(F(cuStreamBeginCapture)(st, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(F(cuMemAllocAsync)(&p, 64, st));
    OK(F(cuMemsetD32Async)(p, 5, 16, st));
    OK(F(cuMemcpyDtoDAsync)(out, p, 64, st));
    OK(F(cuMemFreeAsync)(p, st));
    OK(F(cuStreamEndCapture)(st, &g));
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphLaunch)(x, st));
    assert_int_equal(first(out), 5);
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphDestroy)(g));
    OK(F(cuDeviceGetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &used));
    assert_int_equal(used, 0);
    drop();
}

static int destroyed;
static void destroy(void *p) { destroyed++; }

static void shapes(void **state)
{
    enum { N = 200000 };
    CUgraph g, outer;
    CUgraphExec x;
    CUgraphNode n, last;
    CUuserObject o;
    fresh();
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddEmptyNode)(&last, g, NULL, 0));
    CUgraphNode head = last;
    for (int i = 0; i < N; i++) { /* a long chain: no recursion along it */
        OK(F(cuGraphAddEmptyNode)(&n, g, &last, 1));
        last = n;
    }
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphAddDependencies)(g, &last, &head, NULL, 1)); /* a circle */
    IS(F(cuGraphInstantiateWithFlags)(&x, g, 0), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuGraphDestroy)(g));
    OK(F(cuGraphCreate)(&g, 0));
    int depth = 0;
    for (;; depth++) { /* nesting ends with an error, not with the stack */
        OK(F(cuGraphCreate)(&outer, 0));
        CUresult r = F(cuGraphAddChildGraphNode)(&n, outer, NULL, 0, g);
        OK(F(cuGraphDestroy)(g));
        g = outer;
        if (r != CUDA_SUCCESS) {
            IS(r, CUDA_ERROR_INVALID_VALUE);
            break;
        }
    }
    assert_in_range(depth, 8, 1000);
    OK(F(cuUserObjectCreate)(&o, NULL, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(F(cuGraphRetainUserObject)(g, o, 1, 0));
    OK(F(cuUserObjectRelease)(o, 1));
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    OK(F(cuGraphDestroy)(g));
    assert_int_equal(destroyed, 0); /* the exec holds it */
    OK(F(cuGraphExecDestroy)(x));
    assert_int_equal(destroyed, 1);
    IS(F(cuUserObjectRelease)(o, 1), CUDA_ERROR_INVALID_VALUE);
    drop();
}

static CUcontext shared_context;
static CUresult from_thread;
static void *allocate(void *unused)
{
    CUdeviceptr p;
    F(cuCtxSetCurrent)(shared_context);
    from_thread = F(cuMemAlloc)(&p, 16);
    if (from_thread == CUDA_SUCCESS)
        F(cuMemFree)(p);
    return NULL;
}

static void *end_capture(void *stream)
{
    CUgraph g;
    F(cuCtxSetCurrent)(shared_context);
    from_thread = F(cuStreamEndCapture)(stream, &g);
    return NULL;
}

static void run(void *(*fn)(void *), void *arg)
{
    pthread_t t;
    pthread_create(&t, NULL, fn, arg);
    pthread_join(t, NULL);
}

static void modes(void **state)
{
    CUstream s, t;
    CUgraph g;
    CUevent e;
    CUdeviceptr p;
    CUstreamCaptureStatus st;
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    shared_context = fresh();
    OK(F(cuStreamCreate)(&s, 0));
    OK(F(cuStreamCreate)(&t, 0));
    OK(F(cuEventCreate)(&e, 0));
    OK(F(cuMemAlloc)(&p, 16));
    /* global: nobody may allocate */
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    run(allocate, NULL);
    IS(from_thread, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(F(cuStreamIsCapturing)(s, &st));
    assert_int_equal(st, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    IS(F(cuMemsetD8Async)(p, 0, 16, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    IS(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(g);
    /* thread-local: other threads may */
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    run(allocate, NULL);
    OK(from_thread);
    run(end_capture, s);
    IS(from_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(F(cuThreadExchangeStreamCaptureMode)(&relaxed)); /* this one exempts itself */
    assert_int_equal(relaxed, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr q;
    OK(F(cuMemAlloc)(&q, 16));
    OK(F(cuThreadExchangeStreamCaptureMode)(&relaxed));
    IS(F(cuMemAlloc)(&q, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* relaxed: everybody may, and any thread may end it */
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    OK(F(cuMemAlloc)(&q, 16));
    run(end_capture, s);
    OK(from_thread);
    /* the legacy stream waits for blocking streams: not while one captures */
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(F(cuMemsetD8)(p, 0, 16), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    IS(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    IS(F(cuStreamBeginCapture)(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    /* an event from outside; waits of the host; a stream that was not joined; one that is no origin */
    OK(F(cuEventRecord)(e, t));
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(F(cuStreamWaitEvent)(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    IS(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(F(cuStreamSynchronize)(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    IS(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(F(cuEventRecord)(e, s));
    IS(F(cuEventQuery)(e), CUDA_ERROR_CAPTURED_EVENT);
    OK(F(cuStreamWaitEvent)(t, e, 0));
    OK(F(cuMemsetD8Async)(p, 0, 16, t));
    IS(F(cuStreamEndCapture)(t, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    IS(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    IS(F(cuStreamEndCapture)(s, &g), CUDA_ERROR_ILLEGAL_STATE);
    /* a stream that was joined may be destroyed meanwhile; one that was not is missed */
    for (int joined = 0; joined < 2; joined++) {
        CUstream gone;
        OK(F(cuStreamCreate)(&gone, CU_STREAM_NON_BLOCKING));
        OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(F(cuEventRecord)(e, s));
        OK(F(cuStreamWaitEvent)(gone, e, 0));
        OK(F(cuMemsetD8Async)(p, 0, 16, gone));
        OK(F(cuEventRecord)(e, gone));
        if (joined)
            OK(F(cuStreamWaitEvent)(s, e, 0));
        OK(F(cuStreamDestroy)(gone));
        IS(F(cuStreamEndCapture)(s, &g), joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
    OK(F(cuGraphDestroy)(g));
    /* two captures do not merge */
    OK(F(cuStreamBeginCapture)(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(F(cuStreamBeginCapture)(t, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(F(cuEventRecord)(e, s));
    IS(F(cuStreamWaitEvent)(t, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    IS(F(cuStreamEndCapture)(t, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(F(cuStreamDestroy)(s)); /* in mid-capture */
    IS(F(cuStreamWaitEvent)(t, e, 0), CUDA_ERROR_CAPTURED_EVENT);
    OK(F(cuStreamDestroy)(t));
    drop();
}

static void into_graph(void **state)
{
    CUgraph g, same;
    CUgraphNode n, all[4];
    CUgraphExec x;
    CUdeviceptr p;
    CUstreamCaptureStatus st;
    const CUgraphNode *dep;
    size_t count_ = 0;
    cuuint64_t id;
    fresh();
    OK(F(cuMemAlloc)(&p, 16));
    CUDA_MEMSET_NODE_PARAMS sp = {.dst = p, .elementSize = 4, .width = 4, .height = 1, .value = 1};
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddMemsetNode)(&n, g, NULL, 0, &sp, NULL));
    OK(F(cuStreamBeginCaptureToGraph)(CU_STREAM_PER_THREAD, g, &n, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(F(cuGraphDestroy)(g), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemsetD32Async)(p, 9, 4, CU_STREAM_PER_THREAD));
    OK(F(cuStreamGetCaptureInfo)(CU_STREAM_PER_THREAD, &st, &id, &same, &dep, NULL, &count_));
    assert_true(st == CU_STREAM_CAPTURE_STATUS_ACTIVE && same == g && count_ == 1);
    OK(F(cuGraphAddEmptyNode)(&n, g, dep, 1));
    OK(F(cuStreamUpdateCaptureDependencies)(CU_STREAM_PER_THREAD, &n, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    OK(F(cuLaunchHostFunc)(CU_STREAM_PER_THREAD, count, (void *)1000));
    OK(F(cuStreamEndCapture)(CU_STREAM_PER_THREAD, &same));
    assert_ptr_equal(same, g);
    count_ = 4;
    OK(F(cuGraphGetNodes)(g, all, &count_));
    assert_int_equal(count_, 4);
    OK(F(cuGraphInstantiateWithFlags)(&x, g, 0));
    called = 0;
    OK(F(cuGraphLaunch)(x, NULL));
    assert_true(called == 1000 && first(p) == 9);
    OK(F(cuGraphExecDestroy)(x));
    OK(F(cuGraphDestroy)(g));
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters), cmocka_unit_test(update),
                                       cmocka_unit_test(memory),     cmocka_unit_test(shapes),
                                       cmocka_unit_test(modes),      cmocka_unit_test(into_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
