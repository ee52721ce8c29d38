/* A program that runs plans by libdovetail and the driver API, for test-bind.py: everything that a caller may do wrong
 * or differently is an option.
 *
 *     bind PLAN [--seed N] [--shift BUFFER BYTES] [--omit BUFFER] [--twice BUFFER] [--overlap A B] [--small BUFFER]
 *          [--change BUFFER] [--extra NAME] [--graph | --capture | --threads N] [--times N] [--together N] [--count]
 *          [--own]
 *
 * Buffers start as `dovetail run` starts them (graph/fill.c). Prints one JSON document: {"fallback": null or why,
 * "outputs": {BUFFER: "sha256:…"}} or {"error": code, "problem": "…"}. With threads each has memory of its own and a
 * binding of its own, and all must agree; together, all launch one binding at once. --count adds what libdovetail
 * allocated, {"allocations": {"load": N, "bind": N, "launch": N}}: calls of malloc and its like from its code, directly
 * or through the C library, without what the driver allocates. "device" is by how many bytes binding, launching and
 * making graphs reduced the free device memory. --own: bindings with memory of their own, to which no intermediate is
 * given; with --capture a second one, made while the stream is being captured.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "client/dovetail.h"
#include "graph/graph.h"

enum { MAX_BUFFER = 256, MAX_THREAD = 16 };

static struct {
    const char *shift, *omit, *twice, *overlap[2], *small, *change, *extra;
    unsigned long long by, seed;
    int graph, capture, threads, times, together, count, own;
} opt = {.times = 1};
static struct dt_graph *graph;
static CUcontext ctx;

#define CU(call)                                                                                                       \
    do {                                                                                                               \
        CUresult r_ = call;                                                                                            \
        if (r_ != CUDA_SUCCESS) {                                                                                      \
            fprintf(stderr, "bind.c:%d: %s: %d\n", __LINE__, #call, (int)r_);                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- counting ---------------------------------------------------------------------------------------------------- */
enum { NOT, LOAD, BIND, LAUNCH, PHASES };
static _Thread_local int phase;
static unsigned long allocations[PHASES];

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

/* Whose code asked? The first caller that is neither this program nor the C library. */
static _Thread_local int inside;
static void asked(void)
{
    void *at[12];
    Dl_info info;
    if (phase == NOT || inside)
        return;
    inside = 1;
    for (int i = 1, n = backtrace(at, 12); i < n; i++)
        if (dladdr(at[i], &info) && info.dli_fname && !strstr(info.dli_fname, "/bind") &&
            !strstr(info.dli_fname, "libc.so")) {
            allocations[phase] += strstr(info.dli_fname, "libdovetail") != NULL;
            break;
        }
    inside = 0;
}
__attribute__((visibility("default"))) void *malloc(size_t n)
{
    asked();
    return __libc_malloc(n);
}
__attribute__((visibility("default"))) void *calloc(size_t n, size_t m)
{
    asked();
    return __libc_calloc(n, m);
}
__attribute__((visibility("default"))) void *realloc(void *p, size_t n)
{
    asked();
    return __libc_realloc(p, n);
}
#endif

static void from_now(int what) { phase = opt.count ? what : NOT; }

static size_t free_bytes(void)
{
    size_t n = 0, all;
    CU(cuMemGetInfo(&n, &all));
    return n;
}

static int is(const char *a, const char *b) { return a && !strcmp(a, b); }

static int failed(json_t *out, int code, char *problem)
{
    json_object_set_new(out, "error", json_integer(code));
    json_object_set_new(out, "problem", problem ? json_string(problem) : json_null());
    free(problem);
    return 0;
}

static pthread_barrier_t all_there;
static void *launcher(void *arg)
{
    char *problem = NULL;
    CUstream s;
    CU(cuCtxSetCurrent(ctx));
    CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    pthread_barrier_wait(&all_there);
    for (int k = 0; k < opt.times; k++)
        if (dovetail_plan_launch(arg, s, &problem) < 0) {
            fprintf(stderr, "%s\n", problem ? problem : "out of memory");
            exit(1);
        }
    CU(cuStreamSynchronize(s));
    CU(cuStreamDestroy(s));
    return NULL;
}

static int work(struct dovetail_plan *p, const struct dovetail_pointer *at, size_t n, struct dovetail_bound *b,
                CUstream s, char **problem)
{
    struct dovetail_bound *more = NULL;
    int r = 0;
    CUgraph g;
    CUgraphExec x;
    if (opt.together) {
        pthread_t id[MAX_THREAD];
        opt.together = opt.together < MAX_THREAD ? opt.together : MAX_THREAD;
        pthread_barrier_init(&all_there, NULL, (unsigned)opt.together);
        for (int k = 0; k < opt.together; k++)
            if (pthread_create(&id[k], NULL, launcher, b))
                exit(1);
        for (int k = 0; k < opt.together; k++)
            pthread_join(id[k], NULL);
        return 0;
    }
    if (!opt.graph && !opt.capture) {
        for (int k = 0; k < opt.times && r == 0; k++)
            r = dovetail_plan_launch(b, s, problem);
        CU(cuStreamSynchronize(s));
        return r;
    }
    if (opt.graph) {
        r = dovetail_plan_graph(b, &g, problem);
    } else {
        CU(cuStreamBeginCapture(s, opt.own ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        if (opt.own)
            r = dovetail_plan_bind_own(p, at, n, b, &more, problem);
        if (r == 0)
            r = dovetail_plan_launch(more ? more : b, s, problem);
        CU(cuStreamEndCapture(s, &g));
    }
    if (r < 0) {
        dovetail_bound_free(more);
        return r;
    }
    CU(cuGraphInstantiate(&x, g, 0));
    CU(cuGraphDestroy(g));
    for (int k = 0; k < opt.times; k++)
        CU(cuGraphLaunch(x, s));
    CU(cuStreamSynchronize(s));
    CU(cuGraphExecDestroy(x));
    dovetail_bound_free(more);
    return 0;
}

static int run(struct dovetail_plan *p, json_t *out)
{
    struct dovetail_pointer at[MAX_BUFFER + 2];
    CUdeviceptr mem[MAX_BUFFER];
    struct dovetail_plan_buffer info;
    struct dovetail_bound *b = NULL;
    char *problem = NULL;
    size_t n = 0;
    CUstream s;
    CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned k = 0; dovetail_plan_buffer(p, k, &info); k++) {
        const struct dt_buffer *x = &graph->buffer[dt_graph_find_buffer(graph, info.name)];
        unsigned long long var, extra = is(opt.shift, info.name) ? opt.by : 0, bytes = info.bytes;
        CUdeviceptr to;
        mem[k] = 0;
        if (k >= MAX_BUFFER)
            exit(1);
        if (dovetail_plan_variable(p, info.name, &var) == 0) {
            to = var;
        } else {
            CU(cuMemAlloc(&mem[k], bytes + extra + 1));
            to = mem[k] + extra;
        }
        uint8_t *fill = calloc(bytes + 1, 1);
        dt_fill_bytes(x, opt.seed, fill);
        if (is(opt.change, info.name))
            fill[0] ^= 1;
        CU(cuMemcpyHtoD(to, fill, bytes));
        free(fill);
        if (!mem[k] || is(opt.omit, info.name) || (opt.own && !strcmp(info.role, "intermediate")))
            continue;
        at[n++] = (struct dovetail_pointer){info.name, to + (is(opt.small, info.name) ? 16 : 0)};
        if (is(opt.twice, info.name))
            at[n] = at[n - 1], n++;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < n && is(opt.overlap[1], at[k].buffer); j++)
            if (is(opt.overlap[0], at[j].buffer))
                at[k].address = at[j].address;
    if (opt.extra)
        at[n++] = (struct dovetail_pointer){opt.extra, at[0].address};
    CU(cuCtxSynchronize());
    size_t before = opt.count ? free_bytes() : 0;
    from_now(BIND);
    int r = opt.own ? dovetail_plan_bind_own(p, at, n, NULL, &b, &problem) : dovetail_plan_bind(p, at, n, &b, &problem);
    from_now(LAUNCH);
    if (r == 0)
        r = work(p, at, n, b, s, &problem);
    from_now(NOT);
    if (opt.count)
        json_object_set_new(out, "device", json_integer((json_int_t)before - (json_int_t)free_bytes()));
    if (r < 0)
        failed(out, r, problem);
    json_t *outputs = json_object();
    for (uint32_t k = 0; r == 0 && k < graph->nbuffer; k++) {
        const struct dt_buffer *x = &graph->buffer[k];
        char text[DT_SHA256_TEXT];
        if (x->role != DT_OUTPUT && x->role != DT_INOUT)
            continue;
        uint8_t *copy = calloc(x->bytes + 1, 1);
        for (size_t j = 0; j < n; j++)
            if (is(at[j].buffer, x->name))
                CU(cuMemcpyDtoH(copy, at[j].address, x->bytes));
        dt_sha256_text(copy, x->bytes, text);
        json_object_set_new(outputs, x->name, json_string(text));
        free(copy);
    }
    json_object_set_new(out, "outputs", outputs);
    json_object_set_new(out, "fallback",
                        b && dovetail_bound_fallback(b) ? json_string(dovetail_bound_fallback(b)) : json_null());
    dovetail_bound_free(b);
    if (opt.count)
        json_object_set_new(out, "left", json_integer((json_int_t)before - (json_int_t)free_bytes()));
    for (unsigned k = 0; dovetail_plan_buffer(p, k, &info); k++)
        if (mem[k])
            CU(cuMemFree(mem[k]));
    CU(cuStreamDestroy(s));
    return 0;
}

struct thread {
    pthread_t id;
    struct dovetail_plan *plan;
    json_t *out;
};

static void *thread(void *arg)
{
    struct thread *t = arg;
    CU(cuCtxSetCurrent(ctx));
    run(t->plan, t->out);
    return NULL;
}

int main(int argc, char **argv)
{
    struct dovetail_plan *p = NULL;
    struct dt_err e = {0};
    char *text = NULL, *problem = NULL;
    size_t len = 0;
    CUdevice dev;
    json_t *out = json_object();
    if (argc < 2 || dt_read_file(argv[1], 1u << 28, &text, &len, &e) < 0)
        return 2;
    for (int i = 2; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : "";
        if (is(argv[i], "--graph"))
            opt.graph = 1;
        else if (is(argv[i], "--capture"))
            opt.capture = 1;
        else if (is(argv[i], "--count"))
            opt.count = 1;
        else if (is(argv[i], "--own"))
            opt.own = 1;
        else if (i++, is(argv[i - 1], "--seed"))
            opt.seed = strtoull(v, NULL, 10);
        else if (is(argv[i - 1], "--threads"))
            opt.threads = atoi(v);
        else if (is(argv[i - 1], "--together"))
            opt.together = atoi(v);
        else if (is(argv[i - 1], "--times"))
            opt.times = atoi(v);
        else if (is(argv[i - 1], "--omit"))
            opt.omit = v;
        else if (is(argv[i - 1], "--twice"))
            opt.twice = v;
        else if (is(argv[i - 1], "--small"))
            opt.small = v;
        else if (is(argv[i - 1], "--change"))
            opt.change = v;
        else if (is(argv[i - 1], "--extra"))
            opt.extra = v;
        else if (i + 1 < argc && is(argv[i - 1], "--shift"))
            opt.shift = v, opt.by = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && is(argv[i - 1], "--overlap"))
            opt.overlap[0] = v, opt.overlap[1] = argv[++i];
        else
            return 2;
    }
    CU(cuInit(0));
    CU(cuDeviceGet(&dev, 0));
    CU(cuDevicePrimaryCtxRetain(&ctx, dev));
    backtrace((void *[1]){NULL}, 1); /* loads what it needs */
    from_now(LOAD);
    int r = dovetail_plan_load(text, len, ctx, &p, &problem);
    from_now(NOT);
    if (r < 0) {
        failed(out, r, problem);
    } else {
        struct thread t[MAX_THREAD];
        if (dt_graph_parse(text, len, &graph, &e) < 0)
            return 1;
        CU(cuCtxSetCurrent(ctx));
        if (!opt.threads)
            run(p, out);
        for (int k = 0; k < opt.threads && k < MAX_THREAD; k++) {
            t[k] = (struct thread){.plan = p, .out = json_object()};
            if (pthread_create(&t[k].id, NULL, thread, &t[k]))
                return 1;
        }
        for (int k = 0; k < opt.threads && k < MAX_THREAD; k++) {
            pthread_join(t[k].id, NULL);
            if (k && !json_equal(t[k].out, t[0].out))
                return 1;
            if (!k)
                json_object_update(out, t[k].out);
        }
        for (int k = 0; k < opt.threads && k < MAX_THREAD; k++)
            json_decref(t[k].out);
    }
    if (opt.count)
        json_object_set_new(out, "allocations",
                            json_pack("{s:I, s:I, s:I}", "load", (json_int_t)allocations[LOAD], "bind",
                                      (json_int_t)allocations[BIND], "launch", (json_int_t)allocations[LAUNCH]));
    dovetail_plan_free(p);
    dt_graph_free(graph);
    json_dumpf(out, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(out);
    free(text);
    dt_err_done(&e);
    CU(cuDevicePrimaryCtxRelease(dev));
    return 0;
}
