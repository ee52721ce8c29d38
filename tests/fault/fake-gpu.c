/* A GPU and its libraries, for tests of what only happens beside a real driver.
 *
 * One shared object under three names, libcuda.so.1, libcupti.so.13 and libnvidia-ml.so.1. As a driver it is the
 * software device (FAKE_GPU_BEHIND: its path) with the extensions hidden, so that dovetail takes it for NVIDIA's:
 * everything works, in modelled time. Machine code is refused unless it is for sm_90, and then the PTX that came with
 * it is executed (fake-jitlink.c). As CUPTI it writes activity records of the launches that went through it, laid out
 * as cupti_activity.h says, in an order of its own; as NVML it reports a calm GPU.
 *
 * FAKE_GPU lists what goes wrong, words with commas between:
 *   stub no-device mismatch   cuInit answers 34, 100, 803         old         a driver of CUDA 11.4
 *   exclusive                 the context cannot be had (46)      mps-down    likewise (805)
 *   mps-part                  a context of 33 SMs                 mig         the name of a MIG slice
 *   mps                       contexts are an MPS server's        new-arch    sm_130, which nvJitLink does not know
 *   oom                       every allocation fails              noarch      no module loads (209)
 *   no-cubin cubin-only       machine code is refused (209); PTX is (218)
 *   old-ptx                   PTX over 8.4 is refused (222)       bad-ptx     every module is refused, with a log (218)
 *   newer                     a driver of CUDA 13.1
 *   sticky                    after the third launch every call answers 700
 *   hang                      after a launch no event is ever reached, and freeing or synchronising never returns
 *   cupti-busy cupti-none cupti-privileges    subscribing fails (39, 999); counters are refused (35)
 *   cupti-crash count-crash   tracing, counting ends the process (SIGABRT)
 *   cupti-lost cupti-lost-streams cupti-drop  no record comes; none of kernels outside graphs; CUPTI says that it
 *                                             dropped 7
 *   images                    what is loaded is told on stderr: "image machine code", "image ptx"
 *   named                     the name that the driver gives an H200       tell    each launch of a graph is told on
 *                             stderr
 *   hot crowd clock load      NVML: slowed down by heat; three processes; an SM clock that wanders; utilisation 87 %
 * FAKE_GPU=@FILE: the words are in that file, read anew at each call. x86-64 only (trampolines).
 */
#include <cuda.h>
#include <cupti_target.h>
#include <cupti.h>
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fault/fake-gpu.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static bool fault(const char *word)
{
    const char *f = getenv("FAKE_GPU");
    size_t n = strlen(word);
    char text[256] = "";
    if (f && *f == '@') {
        FILE *file = fopen(f + 1, "r");
        f = file && fgets(text, sizeof text, file) ? text : "";
        if (file)
            fclose(file);
    }
    for (; f && *f; f += strcspn(f, ",") + (f[strcspn(f, ",")] == ','))
        if (strcspn(f, ",") == n && !strncmp(f, word, n))
            return true;
    return false;
}

/* ---- trampolines ------------------------------------------------------------------------------------------------- */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define JUMP(name) JUMP_(name)
#define JUMP_(name)                                                                                                    \
    HIDDEN void *to_##name;                                                                                            \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n\tjmp *to_" #name "(%rip)\n.size " #name \
            ", .-" #name "\n");
#define SYM(name) JUMP(name)
#define OPT(name) JUMP(name)
#include "device/cuda.def"
#undef OPT
/* what libdovetail and the program of tests/e2e/bind.c want besides */
/* clang-format off */
#define MORE(SYM)                                                                                                      \
    SYM(cuCtxGetCurrent) SYM(cuCtxPushCurrent) SYM(cuCtxPopCurrent) SYM(cuFuncGetParamInfo)                            \
    SYM(cuMemGetAddressRange) SYM(cuPointerGetAttribute) SYM(cuGraphAddEmptyNode) SYM(cuStreamBeginCapture)            \
    SYM(cuStreamEndCapture) SYM(cuStreamSynchronize) SYM(cuThreadExchangeStreamCaptureMode)
/* clang-format on */
MORE(SYM)
#undef SYM

static void *behind;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* REAL(name): the software device's entry of this cuda.h name. */
#define REAL(name) ((__typeof__(&name))dlsym(behind, TEXT(name)))

/* ---- what was launched ------------------------------------------------------------------------------------------- */
enum { MANY = 4096, RECORDS = 65536 };
static struct {
    CUfunction f;
    char name[64];
} function[MANY];
static struct node {
    CUgraph graph;
    uint64_t id;
    CUDA_KERNEL_NODE_PARAMS k;
    size_t bytes;
} node[MANY];
static struct {
    CUgraphExec exec;
    CUgraph graph;
} exec[MANY];
static unsigned nfunction, nnode, nexec;
static struct event {
    int kind;
    uint64_t start, end, graph_node, external, bytes;
    uint32_t correlation;
    char name[64];
    unsigned grid[3], block[3], shared;
} * event;
static unsigned nevent;
static bool tracing;
static uint64_t external, now_ns = 1000000, next_id = 500;
static uint32_t correlation = 100;
static unsigned launches;

static const char *name_of(CUfunction f)
{
    for (unsigned i = nfunction; i--;)
        if (function[i].f == f)
            return function[i].name;
    return "?";
}

static struct event *ran(int kind, uint64_t ns)
{
    static struct event none;
    now_ns += 200;
    struct event *e = tracing && event && nevent < RECORDS ? &event[nevent++] : &none;
    *e = (struct event){
        .kind = kind, .start = now_ns, .end = now_ns + ns, .external = external, .correlation = correlation};
    now_ns += ns;
    return e;
}

static void ran_kernel(const char *name, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, uint64_t id)
{
    struct event *e = ran(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 1000 + 10ull * gx * gy * gz);
    snprintf(e->name, sizeof e->name, "%s", name);
    memcpy(e->grid, (unsigned[]){gx, gy, gz}, sizeof e->grid);
    memcpy(e->block, (unsigned[]){bx, by, bz}, sizeof e->block);
    e->shared = shared;
    e->graph_node = id;
}

static CUresult dead(void) { return fault("sticky") && launches >= 3 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS; }
static bool hung; /* a kernel called `spin` does not end; it is not run at all */
static void hang(void)
{
    while (hung || (fault("hang") && launches))
        pause();
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */
static CUresult my_init(unsigned flags)
{
    return fault("stub")        ? CUDA_ERROR_STUB_LIBRARY
           : fault("no-device") ? CUDA_ERROR_NO_DEVICE
           : fault("mismatch")  ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
                                : REAL(cuInit)(flags);
}
static CUresult my_version(int *v)
{
    *v = fault("old") ? 11040 : fault("old-ptx") ? 12040 : fault("newer") ? 13010 : 13000;
    return CUDA_SUCCESS;
}
static CUresult my_device_name(char *name, int n, CUdevice d)
{
    snprintf(name, (size_t)n,
             fault("mig")     ? "NVIDIA H200 MIG 1g.18gb"
             : fault("named") ? "NVIDIA H200"
                              : "NVIDIA H200 (fake)");
    return CUDA_SUCCESS;
}
static CUresult my_retain(CUcontext *c, CUdevice d)
{
    return fault("exclusive")  ? CUDA_ERROR_DEVICE_UNAVAILABLE
           : fault("mps-down") ? CUDA_ERROR_MPS_CONNECTION_FAILED
                               : REAL(cuDevicePrimaryCtxRetain)(c, d);
}
static CUresult my_release(CUdevice d)
{
    hang();
    return REAL(cuDevicePrimaryCtxRelease)(d);
}
static CUresult my_affinity(CUexecAffinityParam *p, CUexecAffinityType t)
{
    if (!fault("mps-part"))
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    p->type = t;
    p->param.smCount.val = 33;
    return CUDA_SUCCESS;
}
static CUresult my_alloc(CUdeviceptr *p, size_t n)
{
    return fault("oom") ? CUDA_ERROR_OUT_OF_MEMORY : dead() ? dead() : REAL(cuMemAlloc)(p, n);
}
static CUresult my_free(CUdeviceptr p)
{
    hang();
    return dead() ? dead() : REAL(cuMemFree)(p);
}
/* The PTX that a cubin for this sm_90 was made of (fake-jitlink.c), NULL: it is for another architecture, or broken. By
 * LLVM's BinaryFormat/ELF.h a cubin of ABI version 8 has the architecture in bits 8 to 15 of the header's flags;
 * whether ptxas was asked for sm_90a is in its note, .nv.tkinfo. */
static const char *ptx_of(const void *image)
{
    const Elf64_Ehdr *h = image;
    const Elf64_Shdr *s = (const Elf64_Shdr *)((const char *)image + h->e_shoff);
    const char *ptx = NULL, *target = NULL;
    size_t n = 0;
    if (h->e_machine != EM_CUDA || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_ABIVERSION] != 8 ||
        (h->e_flags >> 8 & 0xff) != 90)
        return NULL;
    for (unsigned i = 0; i < h->e_shnum; i++)
        if (s[i].sh_type == FAKE_PTX_SECTION)
            ptx = (const char *)image + (n = s[i].sh_offset);
    for (const char *p = ptx; p && (p = strstr(p, ".target sm_")); p += 11) /* the last in the text */
        target = p + 11;
    return target && !strncmp(target, "90a", 3) == !!memmem(image, n, "-arch sm_90a", 12) ? ptx : NULL;
}
static CUresult my_attribute(int *v, CUdevice_attribute a, CUdevice d)
{
    CUresult r = REAL(cuDeviceGetAttribute)(v, a, d);
    if (r == CUDA_SUCCESS && a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR && fault("new-arch"))
        *v = 13;
    if (a == CU_DEVICE_ATTRIBUTE_MPS_ENABLED && fault("mps"))
        *v = 1;
    return r;
}
/* The words of a driver's compiler go into the caller's buffer. */
static void jit_log(unsigned n, const CUjit_option *o, void **v, const char *text)
{
    for (unsigned i = 0; i < n; i++)
        if (o[i] == CU_JIT_ERROR_LOG_BUFFER)
            snprintf(v[i], 200, "%s", text);
}
static CUresult my_load(CUmodule *m, const void *image, unsigned n, CUjit_option *o, void **v)
{
    bool cubin = !memcmp(image, ELFMAG, SELFMAG);
    if (fault("images"))
        fprintf(stderr, "image %s\n", cubin ? "machine code" : "ptx");
    if (cubin && (fault("no-cubin") || !(image = ptx_of(image))))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!cubin && fault("cubin-only")) {
        jit_log(n, o, v, "the driver's compiler was asked");
        return CUDA_ERROR_INVALID_PTX;
    }
    const char *version = cubin ? NULL : strstr(image, ".version");
    if (fault("noarch"))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (fault("old-ptx") && version && strtod(version + 8, NULL) > 8.4)
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (fault("bad-ptx"))
        jit_log(n, o, v, "ptxas application ptx input, line 7; error   : Unknown symbol 'nonsense'");
    return fault("bad-ptx") ? CUDA_ERROR_INVALID_PTX : REAL(cuModuleLoadDataEx)(m, image, n, o, v);
}
static CUresult my_unload(CUmodule m)
{
    hang();
    return REAL(cuModuleUnload)(m);
}
static CUresult my_function(CUfunction *f, CUmodule m, const char *name)
{
    CUresult r = REAL(cuModuleGetFunction)(f, m, name);
    pthread_mutex_lock(&lock);
    if (r == CUDA_SUCCESS) {
        function[nfunction % MANY].f = *f;
        snprintf(function[nfunction++ % MANY].name, 64, "%s", name);
        nfunction = nfunction < MANY ? nfunction : MANY - 1;
    }
    pthread_mutex_unlock(&lock);
    return r;
}
static CUresult my_launch(const CUlaunchConfig *c, CUfunction f, void **p, void **extra)
{
    launches++;
    hung = hung || !strcmp(name_of(f), "spin");
    /* a fault shows at the next call that waits */
    CUresult r = dead() || hung ? CUDA_SUCCESS : REAL(cuLaunchKernelEx)(c, f, p, extra);
    correlation++;
    if (r == CUDA_SUCCESS && !fault("cupti-lost-streams"))
        ran_kernel(name_of(f), c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                   c->sharedMemBytes, 0);
    return r;
}
static CUresult my_memset(CUdeviceptr p, unsigned char v, size_t n, CUstream s)
{
    correlation++;
    ran(CUPTI_ACTIVITY_KIND_MEMSET, 500)->bytes = n;
    return dead() ? dead() : REAL(cuMemsetD8Async)(p, v, n, s);
}
static CUresult my_sync(void)
{
    hang();
    return dead() ? dead() : REAL(cuCtxSynchronize)();
}
static CUresult my_query(CUevent e)
{
    return hung || (fault("hang") && launches) ? CUDA_ERROR_NOT_READY : dead() ? dead() : REAL(cuEventQuery)(e);
}
static CUresult my_graph_create(CUgraph *g, unsigned flags)
{
    CUresult r = REAL(cuGraphCreate)(g, flags);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < nnode; i++) /* a handle may be used again */
        if (node[i].graph == *g)
            node[i].graph = NULL;
    return r;
}
static CUresult my_kernel_node(CUgraphNode *n, CUgraph g, const CUgraphNode *dep, size_t ndep,
                               const CUDA_KERNEL_NODE_PARAMS *k)
{
    CUresult r = REAL(cuGraphAddKernelNode)(n, g, dep, ndep, k);
    if (r == CUDA_SUCCESS)
        node[nnode++ % MANY] = (struct node){g, next_id++, *k, 0};
    return r;
}
static CUresult my_memset_node(CUgraphNode *n, CUgraph g, const CUgraphNode *dep, size_t ndep,
                               const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c)
{
    CUresult r = REAL(cuGraphAddMemsetNode)(n, g, dep, ndep, p, c);
    if (r == CUDA_SUCCESS)
        node[nnode++ % MANY] = (struct node){.graph = g, .id = next_id++, .bytes = p->width};
    return r;
}
static CUresult my_instantiate(CUgraphExec *x, CUgraph g, unsigned long long flags)
{
    CUresult r = REAL(cuGraphInstantiateWithFlags)(x, g, flags);
    if (r == CUDA_SUCCESS) {
        exec[nexec % MANY].exec = *x;
        exec[nexec++ % MANY].graph = g;
    }
    return r;
}
static CUresult my_graph_launch(CUgraphExec x, CUstream s)
{
    if (fault("tell"))
        fprintf(stderr, "graph %p\n", (void *)x);
    launches++;
    correlation++;
    for (unsigned i = nexec < MANY ? nexec : MANY; i--;)
        if (exec[i].exec == x) {
            for (unsigned k = 0; k < nnode && k < MANY; k++)
                if (node[k].graph == exec[i].graph && node[k].bytes)
                    ran(CUPTI_ACTIVITY_KIND_MEMSET, 500)->bytes = node[k].bytes;
                else if (node[k].graph == exec[i].graph)
                    ran_kernel(name_of(node[k].k.func), node[k].k.gridDimX, node[k].k.gridDimY, node[k].k.gridDimZ,
                               node[k].k.blockDimX, node[k].k.blockDimY, node[k].k.blockDimZ, node[k].k.sharedMemBytes,
                               node[k].id);
            break;
        }
    return dead() ? CUDA_SUCCESS : REAL(cuGraphLaunch)(x, s);
}
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **p, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    if (!strncmp(name, "dovetail", 8)) {
        *p = NULL;
        return CUDA_ERROR_NOT_FOUND;
    }
    return ((CUresult(*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))dlsym(
        behind, "cuGetProcAddress_v2"))(name, p, version, flags, status);
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("FAKE_GPU_BEHIND");
    behind = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!behind) {
        fprintf(stderr, "fake-gpu: FAKE_GPU_BEHIND: %s\n", path ? dlerror() : "not set");
        return;
    }
    /* what is behind a driver knows that there is another one: this one */
    CUresult (*figures)(const char *) = NULL;
    CUresult (*find)(const char *, void *, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
        (__typeof__(find))dlsym(behind, "cuGetProcAddress_v2");
    find("dovetailSetFigures", &figures, 12000, 0, NULL);
    if (figures)
        figures(NULL);
    event = calloc(RECORDS, sizeof *event);
#define SYM(name) JUMP2(name)
#define OPT(name) JUMP2(name)
#define JUMP2(name) to_##name = dlsym(behind, #name);
#include "device/cuda.def"
#undef OPT
    MORE(SYM)
#undef SYM
#define MINE(name, function) MINE_(name, function)
#define MINE_(name, function) to_##name = (void *)function;
    MINE(cuInit, my_init)
    MINE(cuDriverGetVersion, my_version)
    MINE(cuDeviceGetName, my_device_name)
    MINE(cuDeviceGetAttribute, my_attribute)
    MINE(cuDevicePrimaryCtxRetain, my_retain)
    MINE(cuDevicePrimaryCtxRelease, my_release)
    MINE(cuCtxGetExecAffinity, my_affinity)
    MINE(cuMemAlloc, my_alloc)
    MINE(cuMemFree, my_free)
    MINE(cuModuleLoadDataEx, my_load)
    MINE(cuModuleUnload, my_unload)
    MINE(cuModuleGetFunction, my_function)
    MINE(cuLaunchKernelEx, my_launch)
    MINE(cuMemsetD8Async, my_memset)
    MINE(cuCtxSynchronize, my_sync)
    MINE(cuEventQuery, my_query)
    MINE(cuGraphCreate, my_graph_create)
    MINE(cuGraphAddKernelNode, my_kernel_node)
    MINE(cuGraphAddMemsetNode, my_memset_node)
    MINE(cuGraphInstantiateWithFlags, my_instantiate)
    MINE(cuGraphLaunch, my_graph_launch)
}

/* ---- CUPTI ------------------------------------------------------------------------------------------------------- */
static CUpti_BuffersCallbackRequestFunc want;
static CUpti_BuffersCallbackCompleteFunc done;
static bool subscribed;

EXPORT CUptiResult cuptiGetVersion(uint32_t *v)
{
    *v = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult r, const char **s)
{
    *s = "CUPTI_ERROR_FAKE";
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *h, CUpti_CallbackFunc f, void *user)
{
    if (fault("cupti-crash"))
        abort();
    if (fault("cupti-busy") || subscribed)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    if (fault("cupti-none"))
        return CUPTI_ERROR_UNKNOWN;
    subscribed = true;
    *h = (CUpti_SubscriberHandle)&subscribed;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle h)
{
    subscribed = tracing = false;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc a,
                                                  CUpti_BuffersCallbackCompleteFunc b)
{
    want = a;
    done = b;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind k)
{
    if (k == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        tracing = true;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind k) { return CUPTI_SUCCESS; }

static size_t bytes_of(CUpti_ActivityKind k)
{
    switch (k) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(CUpti_ActivityOverhead3);
    default: return 0;
    }
}
EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    uint8_t *p = *record ? (uint8_t *)*record + bytes_of((*record)->kind) : buffer;
    if (p >= buffer + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)p;
    return bytes_of((*record)->kind) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}
EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext c, uint32_t s, size_t *n)
{
    *n = fault("cupti-drop") ? 7 : 0;
    return CUPTI_SUCCESS;
}

static void put(uint8_t **buffer, size_t *used, size_t *size, const void *record, size_t n)
{
    if (*buffer && *used + n > *size) {
        done(NULL, 0, *buffer, *size, *used);
        *buffer = NULL;
    }
    if (!*buffer) {
        size_t most = 0;
        *used = 0;
        want(buffer, size, &most);
    }
    if (*buffer) {
        memcpy(*buffer + *used, record, n);
        *used += n;
    }
}
/* Every launch as an external correlation record and a kernel record: later launches first, correlations after their
 * kernels. */
EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    uint8_t *buffer = NULL;
    size_t used = 0, size = 0;
    for (unsigned i = nevent; i-- && !fault("cupti-lost");) {
        struct event *e = &event[i];
        if (e->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
            CUpti_ActivityMemset4 m = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                                       .bytes = e->bytes,
                                       .start = e->start,
                                       .end = e->end,
                                       .correlationId = e->correlation};
            put(&buffer, &used, &size, &m, sizeof m);
        } else {
            CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        .registersPerThread = 24,
                                        .start = e->start,
                                        .end = e->end,
                                        .gridX = (int)e->grid[0],
                                        .gridY = (int)e->grid[1],
                                        .gridZ = (int)e->grid[2],
                                        .blockX = (int)e->block[0],
                                        .blockY = (int)e->block[1],
                                        .blockZ = (int)e->block[2],
                                        .dynamicSharedMemory = (int)e->shared,
                                        .correlationId = e->correlation,
                                        .name = e->name,
                                        .graphNodeId = e->graph_node};
            put(&buffer, &used, &size, &k, sizeof k);
        }
        if (e->external) {
            CUpti_ActivityExternalCorrelation x = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                   .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                   .externalId = e->external,
                                                   .correlationId = e->correlation};
            put(&buffer, &used, &size, &x, sizeof x);
        }
    }
    if (buffer)
        done(NULL, 0, buffer, size, used);
    nevent = 0;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind k, uint64_t id)
{
    external = id;
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind k, uint64_t *id)
{
    if (!external)
        return CUPTI_ERROR_QUEUE_EMPTY;
    *id = external;
    external = 0;
    return CUPTI_SUCCESS;
}
/* The counters' entries are there and refuse; the order of the calls is checked by what refuses first. */
#define AS(name) __asm__(#name) /* the headers declare these with the types of their parameters */
EXPORT CUptiResult my_profiler_init(void *p) AS(cuptiProfilerInitialize);
EXPORT CUptiResult my_profiler_init(void *p)
{
    if (fault("count-crash"))
        abort();
    return fault("cupti-none") ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}
EXPORT CUptiResult my_profiler_done(void *p) AS(cuptiProfilerDeInitialize);
EXPORT CUptiResult my_profiler_done(void *p) { return CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *p)
{
    p->pChipName = "GH100";
    return CUPTI_SUCCESS;
}
EXPORT CUptiResult my_availability(void *p) AS(cuptiProfilerGetCounterAvailability);
EXPORT CUptiResult my_availability(void *p)
{
    return fault("cupti-privileges") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
           : fault("cupti-busy")     ? CUPTI_ERROR_HARDWARE_BUSY
                                     : CUPTI_ERROR_NOT_SUPPORTED;
}
#define REFUSES(name)                                                                                                  \
    EXPORT CUptiResult refused_##name(void *p) AS(name);                                                               \
    EXPORT CUptiResult refused_##name(void *p) { return CUPTI_ERROR_NOT_SUPPORTED; }
REFUSES(cuptiProfilerHostInitialize)
REFUSES(cuptiProfilerHostDeinitialize)
REFUSES(cuptiProfilerHostConfigAddMetrics)
REFUSES(cuptiProfilerHostGetConfigImageSize)
REFUSES(cuptiProfilerHostGetConfigImage)
REFUSES(cuptiProfilerHostGetNumOfPasses)
REFUSES(cuptiProfilerHostEvaluateToGpuValues)
REFUSES(cuptiRangeProfilerEnable)
REFUSES(cuptiRangeProfilerDisable)
REFUSES(cuptiRangeProfilerSetConfig)
REFUSES(cuptiRangeProfilerStart)
REFUSES(cuptiRangeProfilerStop)
REFUSES(cuptiRangeProfilerPushRange)
REFUSES(cuptiRangeProfilerPopRange)
REFUSES(cuptiRangeProfilerDecodeData)
REFUSES(cuptiRangeProfilerGetCounterDataSize)
REFUSES(cuptiRangeProfilerCounterDataImageInitialize)

/* ---- NVML -------------------------------------------------------------------------------------------------------- */
EXPORT int nvmlInit_v2(void) { return 0; }
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **d)
{
    *d = &launches;
    return !*bus;
}
EXPORT int nvmlDeviceGetClockInfo(void *d, int which, unsigned *mhz)
{
    static unsigned looks;
    *mhz = which == 1 ? fault("clock") && looks++ % 2 ? 1200 : 1980 : 3201;
    return 0;
}
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void *d, unsigned long long *r)
{
    *r = fault("hot") ? 0x40 : 0;
    return 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(void *d, unsigned *percent)
{
    percent[0] = percent[1] = fault("load") ? 87 : 2;
    return 0;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **d) /* "MIG-01234567-89ab-…" */
{
    *d = &nnode;
    return strlen(uuid) != 40 || strncmp(uuid, "MIG-", 4) != 0 || uuid[12] != '-' || uuid[27] != '-';
}
/* On a GPU in slices two other processes have slices of their own; where there is an MPS server it is a process too. */
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *p)
{
    *n = (fault("crowd") ? 3 : 1) + (fault("mps") ? 1 : 0) + (fault("mig") && d == &launches ? 2 : 0);
    return fault("crowd") ? 7 : 0; /* more than there was room for */
}
