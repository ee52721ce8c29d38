/* What compiled programs register before main: fat binaries, kernels, variables.
 *
 * nvcc writes a constructor for each translation unit that hands over its fat binary (a wrapper struct that begins
 * with the magic 0x466243b1) and then, by addresses of the host, its kernels (the address of a stub) and variables
 * (the address of a shadow). Nothing is loaded before something of a fat binary is first used; then it becomes a
 * CUlibrary of the driver, whose kernels can be launched in any context.
 *
 * Code of separate compilation (nvcc -rdc=true) comes as one wrapper of version 2 with a list of fat binaries, one a
 * translation unit. NVIDIA's linker has joined their machine code; here the driver's linker joins their PTX.
 *
 * A __managed__ variable is a pointer on the host, which is set when its fat binary is loaded (__cudaInitModule comes
 * before its first use).
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

#pragma GCC visibility push(default)
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device, const char *name, int thread_limit,
                            void *tid, void *bid, void *block, void *grid, int *warp);
void __cudaRegisterVar(void **handle, char *shadow, char *device, const char *name, int ext, size_t size, int constant,
                       int global);
void __cudaRegisterManagedVar(void **handle, void **shadow, char *device, const char *name, int ext, size_t size,
                              int constant, int global);
void __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size);
void __cudaRegisterUnifiedTable(void **handle, void *table);
char __cudaInitModule(void **handle);
cudaError_t __cudaGetKernel(cudaKernel_t *ret, const void *stub);
#pragma GCC visibility pop

struct wrapper { /* as nvcc writes it */
    int magic, version;
    const void *data;
    const void *const *parts; /* version 2: fat binaries of separate compilation, NULL at the end */
};

struct binary {
    const struct wrapper *wrapper;
    CUlibrary lib;
    CUresult failed;
    bool tried, managed;
};

struct thing { /* a kernel or a variable */
    const void *host;
    struct binary *of;
    const char *name;
    bool variable, managed;
    CUkernel kernel;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thing *things; /* open addressing by `host` */
static size_t nthing, room;

static size_t slot_of(const struct thing *t, size_t n, const void *host)
{
    size_t i = (size_t)((uintptr_t)host >> 2) * 0x9E3779B97F4A7C15u;
    for (i ^= i >> 29, i &= n - 1; t[i].host && t[i].host != host; i = (i + 1) & (n - 1))
        ;
    return i;
}

static struct thing *thing_find(const void *host)
{
    size_t i = room && host ? slot_of(things, room, host) : 0;
    return room && host && things[i].host ? &things[i] : NULL;
}

static void thing_add(struct thing add)
{
    pthread_mutex_lock(&lock);
    if (nthing * 2 >= room) {
        size_t n = room ? room * 2 : 256;
        struct thing *t = calloc(n, sizeof *t);
        if (!t) {
            fputs("dovetail's libcudart: out of memory for registered kernels\n", stderr);
            abort(); /* before main, and CUDA has no way to say so */
        }
        for (size_t i = 0; i < room; i++)
            if (things[i].host)
                t[slot_of(t, n, things[i].host)] = things[i];
        free(things);
        things = t;
        room = n;
    }
    struct thing *t = &things[slot_of(things, room, add.host)];
    nthing += !t->host;
    *t = add;
    pthread_mutex_unlock(&lock);
}

static void say(const char *what, CUresult r)
{
    const char *text = NULL;
    dtrt_drv.cuGetErrorString(r, &text);
    fprintf(stderr, "dovetail's libcudart: %s: %s\n", what, text ? text : "?");
}

static void say_log(const char *what, const char *log)
{
    if (*log)
        fprintf(stderr, "dovetail's libcudart: %s: %s\n", what, log);
}

static CUresult link_parts(const struct wrapper *w, CUlibrary *ret)
{
    char log[4096] = "";
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {log, (void *)(uintptr_t)sizeof log}, *image;
    CUlinkState l;
    size_t bytes;
    CUresult r = dtrt_drv.cuLinkCreate(2, opt, val, &l);
    if (r != CUDA_SUCCESS)
        return r;
    for (const void *const *p = w->parts; *p && r == CUDA_SUCCESS; p++)
        r = dtrt_drv.cuLinkAddData(l, CU_JIT_INPUT_FATBINARY, (void *)(uintptr_t)*p,
                                   16 + (size_t)((const uint64_t *)*p)[1], "part", 0, NULL, NULL);
    if (r == CUDA_SUCCESS)
        r = dtrt_drv.cuLinkComplete(l, &image, &bytes);
    if (r == CUDA_SUCCESS)
        r = dtrt_drv.cuLibraryLoadData(ret, image, NULL, NULL, 0, NULL, NULL, 0);
    else
        say_log("linking code of separate compilation", log);
    dtrt_drv.cuLinkDestroy(l);
    return r;
}

/* Set the host's pointers to managed variables. */
static void set_managed(struct binary *b)
{
    for (size_t i = 0; i < room; i++) {
        CUdeviceptr p;
        size_t bytes;
        if (things[i].host && things[i].of == b && things[i].managed &&
            dtrt_drv.cuLibraryGetGlobal(&p, &bytes, b->lib, things[i].name) == CUDA_SUCCESS)
            *(void **)(uintptr_t)things[i].host = (void *)p;
    }
}

/* With the lock held, a context current. */
static CUresult binary_load(struct binary *b)
{
    if (b->tried)
        return b->failed;
    char log[4096] = "";
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {log, (void *)(uintptr_t)sizeof log};
    b->tried = true;
    if (b->wrapper->version == 2 && b->wrapper->parts)
        b->failed = link_parts(b->wrapper, &b->lib);
    else
        b->failed = dtrt_drv.cuLibraryLoadData(&b->lib, b->wrapper, opt, val, 2, NULL, NULL, 0);
    if (b->failed == CUDA_ERROR_NO_BINARY_FOR_GPU)
        say("a fat binary has no PTX that this device runs (compile with -arch=sm_80, or -gencode with "
            "code=compute_80)",
            b->failed);
    else if (b->failed != CUDA_SUCCESS) {
        say("a fat binary cannot be loaded", b->failed);
        say_log("loading", log);
    } else if (b->managed)
        set_managed(b);
    return b->failed;
}

void **__cudaRegisterFatBinary(void *wrapper)
{
    struct binary *b = calloc(1, sizeof *b);
    if (b)
        b->wrapper = wrapper;
    return (void **)b;
}

void __cudaRegisterFatBinaryEnd(void **handle) {}

/* At exit, when others may still use what they have: it goes with the process. */
void __cudaUnregisterFatBinary(void **handle) {}

void __cudaRegisterFunction(void **handle, const char *stub, char *device, const char *name, int thread_limit,
                            void *tid, void *bid, void *block, void *grid, int *warp)
{
    if (handle && stub && name)
        thing_add((struct thing){.host = stub, .of = (struct binary *)handle, .name = name});
}

void __cudaRegisterVar(void **handle, char *shadow, char *device, const char *name, int ext, size_t size, int constant,
                       int global)
{
    if (handle && shadow && name)
        thing_add((struct thing){.host = shadow, .of = (struct binary *)handle, .name = name, .variable = true});
}

void __cudaRegisterManagedVar(void **handle, void **shadow, char *device, const char *name, int ext, size_t size,
                              int constant, int global)
{
    if (!handle || !shadow || !name)
        return;
    ((struct binary *)handle)->managed = true;
    thing_add(
        (struct thing){.host = shadow, .of = (struct binary *)handle, .name = name, .variable = true, .managed = true});
}

void __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size) {}

void __cudaRegisterUnifiedTable(void **handle, void *table) {}

char __cudaInitModule(void **handle)
{
    CUresult r = CUDA_ERROR_NOT_INITIALIZED;
    if (handle && dtrt_ready() == cudaSuccess) {
        pthread_mutex_lock(&lock);
        r = binary_load((struct binary *)handle);
        pthread_mutex_unlock(&lock);
    }
    return r == CUDA_SUCCESS;
}

cudaError_t dtrt_kernel(const void *stub, CUkernel *ret)
{
    CUresult r = CUDA_SUCCESS;
    const char *name;
    pthread_mutex_lock(&lock);
    struct thing *t = thing_find(stub);
    if (t && t->variable)
        t = NULL;
    if (t && !t->kernel) {
        r = binary_load(t->of);
        if (r == CUDA_SUCCESS)
            r = dtrt_drv.cuLibraryGetKernel(&t->kernel, t->of->lib, t->name);
    }
    *ret = t ? t->kernel : NULL;
    pthread_mutex_unlock(&lock);
    if (t || !stub)
        return !stub || r == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : (cudaError_t)r;
    /* a cudaKernel_t, which stands for a function anywhere; the driver knows which handles there are */
    *ret = (CUkernel)(uintptr_t)stub;
    return dtrt_drv.cuKernelGetName(&name, *ret) == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

const void *dtrt_stub(const void *kernel)
{
    const void *stub = kernel;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < room && stub == kernel; i++) {
        CUfunction f = NULL; /* of the current context: what captured launches say */
        if (things[i].host && things[i].kernel &&
            (things[i].kernel == kernel ||
             (dtrt_drv.cuKernelGetFunction(&f, things[i].kernel) == CUDA_SUCCESS && f == kernel)))
            stub = things[i].host;
    }
    pthread_mutex_unlock(&lock);
    return stub;
}

cudaError_t dtrt_symbol(const void *shadow, CUdeviceptr *ret, size_t *bytes)
{
    CUresult r = CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&lock);
    struct thing *t = thing_find(shadow);
    if (t && t->variable) {
        r = binary_load(t->of);
        if (r == CUDA_SUCCESS)
            r = dtrt_drv.cuLibraryGetGlobal(ret, bytes, t->of->lib, t->name);
    }
    pthread_mutex_unlock(&lock);
    return r == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : (cudaError_t)r;
}

cudaError_t __cudaGetKernel(cudaKernel_t *ret, const void *stub)
{
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    *ret = (cudaKernel_t)(uintptr_t)stub; /* programs ask once: where it fails, each launch says why (launch.c) */
    DTRT_CONTEXT();
    CUkernel k;
    DTRT_TRY(dtrt_kernel(stub, &k));
    *ret = (cudaKernel_t)k;
    return cudaSuccess;
}

cudaError_t cudaGetKernel(cudaKernel_t *ret, const void *stub) { return __cudaGetKernel(ret, stub); }

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *ret, const void *stub)
{
    CUkernel k;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY(dtrt_kernel(stub, &k));
    return dtrt_is(dtrt_drv.cuKernelGetFunction((CUfunction *)ret, k));
}

cudaError_t cudaGetSymbolAddress(void **ret, const void *symbol)
{
    size_t bytes;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    return dtrt_fail(dtrt_symbol(symbol, (CUdeviceptr *)ret, &bytes));
}

cudaError_t cudaGetSymbolSize(size_t *ret, const void *symbol)
{
    CUdeviceptr p;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    return dtrt_fail(dtrt_symbol(symbol, &p, ret));
}
