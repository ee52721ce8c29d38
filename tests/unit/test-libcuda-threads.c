/* Eight threads use contexts, modules, streams, events, memory and graphs of one device at once, destroy what others
 * use, and fork. Built a second time with ThreadSanitizer (tests/driver/meson.build).
 */
#include <pthread.h>
#include <sys/wait.h>

#include "driver-fixture.h"

enum { THREADS = 8, ROUNDS = 12, WORDS = 96 };

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        CUresult r_ = (call);                                                                                          \
        if (r_ != CUDA_SUCCESS) {                                                                                      \
            fprintf(stderr, "%s: %d\n", #call, (int)r_);                                                               \
            return (void *)1;                                                                                          \
        }                                                                                                              \
    } while (0)

static struct {
    __typeof__(&cuCtxCreate) ctx_create;
    __typeof__(&cuCtxDestroy) ctx_destroy;
    __typeof__(&cuCtxSetCurrent) set_current;
    __typeof__(&cuCtxPushCurrent) push;
    __typeof__(&cuCtxPopCurrent) pop;
    __typeof__(&cuCtxSynchronize) sync;
    __typeof__(&cuModuleLoadData) load;
    __typeof__(&cuModuleUnload) unload;
    __typeof__(&cuModuleGetFunction) function;
    __typeof__(&cuMemAllocAsync) alloc;
    __typeof__(&cuMemFreeAsync) free;
    __typeof__(&cuMemsetD32Async) set;
    __typeof__(&cuMemcpyDtoHAsync) fetch;
    __typeof__(&cuStreamCreate) stream;
    __typeof__(&cuStreamDestroy) stream_destroy;
    __typeof__(&cuStreamSynchronize) stream_sync;
    __typeof__(&cuStreamWaitEvent) wait;
    __typeof__(&cuEventCreate) event;
    __typeof__(&cuEventDestroy) event_destroy;
    __typeof__(&cuEventRecord) record;
    __typeof__(&cuEventElapsedTime) elapsed;
    __typeof__(&cuLaunchKernel) launch;
    __typeof__(&cuLaunchHostFunc) host;
    __typeof__(&cuStreamBeginCapture) begin;
    __typeof__(&cuStreamEndCapture) end;
    __typeof__(&cuGraphInstantiateWithFlags) instantiate;
    __typeof__(&cuGraphLaunch) graph_launch;
    __typeof__(&cuGraphExecDestroy) exec_destroy;
    __typeof__(&cuGraphDestroy) graph_destroy;
} cu;

static void look_up(void)
{
#define GET(member, name) cu.member = F(name)
    GET(ctx_create, cuCtxCreate), GET(ctx_destroy, cuCtxDestroy), GET(set_current, cuCtxSetCurrent),
        GET(push, cuCtxPushCurrent);
    GET(pop, cuCtxPopCurrent), GET(sync, cuCtxSynchronize), GET(load, cuModuleLoadData), GET(unload, cuModuleUnload);
    GET(function, cuModuleGetFunction), GET(alloc, cuMemAllocAsync), GET(free, cuMemFreeAsync),
        GET(set, cuMemsetD32Async);
    GET(fetch, cuMemcpyDtoHAsync), GET(stream, cuStreamCreate), GET(stream_destroy, cuStreamDestroy),
        GET(stream_sync, cuStreamSynchronize);
    GET(wait, cuStreamWaitEvent), GET(event, cuEventCreate), GET(event_destroy, cuEventDestroy),
        GET(record, cuEventRecord);
    GET(elapsed, cuEventElapsedTime), GET(launch, cuLaunchKernel), GET(host, cuLaunchHostFunc),
        GET(begin, cuStreamBeginCapture);
    GET(end, cuStreamEndCapture), GET(instantiate, cuGraphInstantiateWithFlags), GET(graph_launch, cuGraphLaunch);
    GET(exec_destroy, cuGraphExecDestroy), GET(graph_destroy, cuGraphDestroy);
}

static CUcontext shared;

static void bump(void *p) { ++*(int *)p; }

/* Own context in odd threads, the shared one in even ones; everything else is the thread's own. */
static void *work(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg, out[WORDS], n = WORDS, one = 1;
    int called = 0;
    float ms;
    CUcontext c = shared, popped;
    if (me % 2)
        CHECK(cu.ctx_create(&c, NULL, 0, 0));
    else
        CHECK(cu.set_current(c));
    for (unsigned round = 0; round < ROUNDS; round++) {
        CUmodule m;
        CUfunction f;
        CUstream s, t;
        CUevent a, b;
        CUdeviceptr p;
        CUgraph g;
        CUgraphExec x;
        CHECK(cu.push(c));
        CHECK(cu.load(&m, add_ptx));
        CHECK(cu.function(&f, m, "add"));
        CHECK(cu.stream(&s, CU_STREAM_NON_BLOCKING));
        CHECK(cu.stream(&t, CU_STREAM_NON_BLOCKING));
        CHECK(cu.event(&a, 0));
        CHECK(cu.event(&b, 0));
        CHECK(cu.alloc(&p, sizeof out, s));
        CHECK(cu.set(p, me, WORDS, s));
        CHECK(cu.record(a, s));
        void *args[] = {&p, &n, &one};
        CHECK(cu.launch(f, 3, 1, 1, 32, 1, 1, 0, s, args, NULL));
        CHECK(cu.record(b, s));
        CHECK(cu.wait(t, b, 0));
        CHECK(cu.launch(f, 3, 1, 1, 32, 1, 1, 0, t, args, NULL));
        CHECK(cu.begin(t, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(cu.launch(f, 3, 1, 1, 32, 1, 1, 0, t, args, NULL));
        CHECK(cu.host(t, bump, &called));
        CHECK(cu.end(t, &g));
        CHECK(cu.instantiate(&x, g, 0));
        CHECK(cu.graph_launch(x, t));
        CHECK(cu.fetch(out, p, sizeof out, t));
        CHECK(cu.stream_sync(t));
        CHECK(cu.elapsed(&ms, a, b));
        for (unsigned i = 0; i < WORDS; i++)
            if (out[i] != me + 3)
                return (void *)2;
        CHECK(cu.exec_destroy(x));
        CHECK(cu.graph_destroy(g));
        CHECK(cu.free(p, s));
        CHECK(cu.event_destroy(a));
        CHECK(cu.event_destroy(b));
        CHECK(cu.stream_destroy(s));
        CHECK(cu.stream_destroy(t));
        CHECK(cu.unload(m));
        CHECK(cu.pop(&popped));
        if (popped != c)
            return (void *)3;
    }
    if (me % 2)
        CHECK(cu.ctx_destroy(c));
    return called == ROUNDS ? NULL : (void *)4;
}

static void at_once(void **state)
{
    pthread_t t[THREADS];
    shared = fresh();
    look_up();
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *r;
        pthread_join(t[i], &r);
        assert_null(r);
    }
    drop();
}

/* Objects that other threads destroy in mid-use: every answer is allowed but a crash. */
static CUstream stream;
static CUevent event;
static CUfunction function;
static CUgraphExec exec;
static int stop;

static void *use(void *unused)
{
    cu.set_current(shared);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        CUstream s = __atomic_load_n(&stream, __ATOMIC_RELAXED);
        cu.record(__atomic_load_n(&event, __ATOMIC_RELAXED), s);
        cu.launch(__atomic_load_n(&function, __ATOMIC_RELAXED), 1, 1, 1, 32, 1, 1, 0, s, NULL, NULL);
        cu.graph_launch(__atomic_load_n(&exec, __ATOMIC_RELAXED), s);
        cu.wait(s, __atomic_load_n(&event, __ATOMIC_RELAXED), 0);
        cu.stream_sync(s);
    }
    return NULL;
}

static void destroyed_in_use(void **state)
{
    pthread_t t[4];
    shared = fresh();
    look_up();
    stop = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, use, NULL);
    for (int i = 0; i < 60; i++) {
        CUstream s;
        CUevent e;
        CUmodule m;
        CUfunction f;
        CUgraph g;
        CUgraphExec x;
        CUdeviceptr p;
        unsigned n = 0, v = 0;
        void *args[] = {&p, &n, &v};
        OK(cu.stream(&s, CU_STREAM_NON_BLOCKING));
        OK(cu.event(&e, 0));
        OK(cu.load(&m, add_ptx));
        OK(cu.function(&f, m, "add"));
        OK(cu.begin(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        p = 0;
        OK(cu.launch(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
        OK(cu.end(s, &g));
        OK(cu.instantiate(&x, g, 0));
        OK(cu.graph_destroy(g));
        __atomic_store_n(&stream, s, __ATOMIC_RELAXED);
        __atomic_store_n(&event, e, __ATOMIC_RELAXED);
        __atomic_store_n(&function, f, __ATOMIC_RELAXED);
        __atomic_store_n(&exec, x, __ATOMIC_RELAXED);
        usleep(500);
        OK(cu.exec_destroy(x));
        OK(cu.unload(m));
        OK(cu.event_destroy(e));
        OK(cu.stream_destroy(s));
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    drop();
}

/* A child has no device, and says so; the parent's goes on. */
static void forks(void **state)
{
    int status;
    fresh();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int n;
        CUcontext c;
        _exit(F(cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED && F(cuDeviceGetCount)(&n) == CUDA_ERROR_NOT_INITIALIZED &&
                      F(cuCtxGetCurrent)(&c) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(F(cuCtxSynchronize)());
    drop();
}

/* But dovetailFork lets it go on with what there is, on memory of its own. */
static void forks_on(void **state)
{
    int status;
    CUdeviceptr p, arena;
    unsigned char byte = 0;
    fresh();
    OK(F(cuMemAlloc)(&p, 4096));
    OK(F(cuMemsetD8)(p, 7, 4096));
    OK(X(dovetailArenaAlloc)(&arena, 1 << 20));
    OK(X(dovetailArenaFree)(arena));
    OK(X(dovetailFork)(0));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(F(cuMemsetD8)(p, 9, 1) == CUDA_ERROR_NOT_INITIALIZED && X(dovetailFork)(1) == CUDA_SUCCESS &&
                      F(cuMemcpyDtoH)(&byte, p, 1) == CUDA_SUCCESS && byte == 7 &&
                      F(cuMemsetD8)(p, 9, 4096) == CUDA_SUCCESS &&
                      X(dovetailArenaAlloc)(&arena, 1 << 20) == CUDA_SUCCESS
                  ? 0
                  : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(F(cuMemcpyDtoH)(&byte, p + 4095, 1));
    assert_int_equal(byte, 7);
    OK(F(cuMemFree)(p));
    drop();
}

/* A context that is current in another thread goes. */
static pthread_barrier_t turn; /* it is current; it has gone */

static void *orphan(void *c)
{
    CUdeviceptr p;
    int current = cu.set_current(c) == CUDA_SUCCESS;
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    return (void *)(uintptr_t)(current && cu.sync() == CUDA_ERROR_CONTEXT_IS_DESTROYED &&
                                       cu.alloc(&p, 4, NULL) == CUDA_ERROR_CONTEXT_IS_DESTROYED
                                   ? 0
                                   : 1);
}

static void orphans(void **state)
{
    CUcontext c;
    pthread_t t;
    void *r;
    fresh();
    look_up();
    OK(cu.ctx_create(&c, NULL, 0, 0));
    assert_int_equal(pthread_barrier_init(&turn, NULL, 2), 0);
    pthread_create(&t, NULL, orphan, c);
    pthread_barrier_wait(&turn);
    CUresult gone = cu.ctx_destroy(c);
    pthread_barrier_wait(&turn);
    pthread_join(t, &r);
    pthread_barrier_destroy(&turn);
    OK(gone);
    assert_null(r);
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_once), cmocka_unit_test(destroyed_in_use),
                                       cmocka_unit_test(forks), cmocka_unit_test(forks_on), cmocka_unit_test(orphans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
