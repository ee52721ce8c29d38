/* The driver: dovetail's libcuda.so.1, and no other.
 *
 * It is looked for beside this library where that is a shared one (both lie in one private folder), then where
 * `dovetail soft` says (DOVETAIL_SOFTGPU), then by the dynamic linker, which is how a program with the static library
 * finds it. What is found must know dovetail's extensions: a real driver is refused by its path. So is a process in
 * which a real driver or NVIDIA's runtime is loaded, whichever came first: objects are counted by the dynamic linker,
 * and looked through again whenever something was loaded (dtrt_strangers).
 *
 * Entries are found by dlsym under the very names that cuda.h's macros make.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softgpu/runtime/rt-priv.h"

struct dtrt_driver dtrt_drv;
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static int driver_state; /* 0: not tried, 1: open, -1: driver_error */
static cudaError_t driver_error;
static char driver_path[PATH_MAX];
static unsigned long long driver_seen; /* objects that had been loaded when they were looked through */

typedef CUresult (*get_proc)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

#define TEXT(x) #x
#define SYMBOL(name) TEXT(name)

static cudaError_t driver_say(cudaError_t e, const char *what, const char *path)
{
    fprintf(stderr, "dovetail's libcudart: %s%s%s\n", what, path ? ": " : "", path ? path : "");
    return e;
}

enum { CANDIDATES = 16 };
struct look {
    char path[CANDIDATES][PATH_MAX]; /* objects that are called like a driver or a runtime */
    unsigned n;
    unsigned long long adds;
};

static int count_at(struct dl_phdr_info *info, size_t size, void *user)
{
    *(unsigned long long *)user = size >= offsetof(struct dl_phdr_info, dlpi_subs) ? info->dlpi_adds : 0;
    return 1;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
    struct look *l = user;
    count_at(info, size, &l->adds);
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (slash && l->n < CANDIDATES && (strstr(slash, "/libcuda.so") || strstr(slash, "/libcudart.so")))
        snprintf(l->path[l->n++], PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

/* Ours are told by what they export. */
static bool driver_ours(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_NOLOAD), *p = NULL;
    if (!lib)
        return true; /* it is gone */
    get_proc get;
    *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
    bool ours = dlsym(lib, "dovetailCudart") ||
                (get && get("dovetailGetFault", &p, CUDA_VERSION, 0, NULL) == CUDA_SUCCESS && p);
    dlclose(lib);
    return ours;
}

/* Another driver or runtime in this process: refused by its path. */
static cudaError_t driver_strangers(void)
{
    struct look *l = calloc(1, sizeof *l);
    cudaError_t e = l ? cudaSuccess : cudaErrorMemoryAllocation;
    if (l)
        dl_iterate_phdr(look_at, l);
    for (unsigned i = 0; l && i < l->n && e == cudaSuccess; i++)
        if (!driver_ours(l->path[i]))
            e = driver_say(cudaErrorSystemDriverMismatch,
                           "another CUDA driver or runtime is loaded in this process, and cannot be used beside the "
                           "software device",
                           l->path[i]);
    if (l)
        __atomic_store_n(&driver_seen, l->adds, __ATOMIC_RELAXED);
    free(l);
    return e;
}

static void *driver_find(void)
{
    Dl_info self;
    char path[PATH_MAX];
    const char *named = getenv("DOVETAIL_SOFTGPU"), *slash;
    void *lib = NULL;
    if (dladdr((void *)driver_find, &self) && self.dli_fname && (slash = strrchr(self.dli_fname, '/')) &&
        strstr(slash, "libcudart.so") &&
        snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)(slash - self.dli_fname), self.dli_fname) <
            (int)sizeof path &&
        !access(path, R_OK))
        lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!lib && named && *named)
        lib = dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    return lib ? lib : dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
}

static cudaError_t driver_fill(void *lib)
{
    get_proc get;
    void *p = NULL;
    Dl_info of;
    *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
    if (get && dladdr(*(void **)&get, &of) && !realpath(of.dli_fname, driver_path))
        snprintf(driver_path, sizeof driver_path, "%s", of.dli_fname);
    if (!get || get("dovetailSetFollow", &p, CUDA_VERSION, 0, NULL) != CUDA_SUCCESS || !p)
        return driver_say(cudaErrorSystemDriverMismatch,
                          "this driver is not the software device, which is all that it serves",
                          *driver_path ? driver_path : "libcuda.so.1");
    dtrt_drv.dovetailSetFollow = (dovetailSetFollow_t)p;
#define DRV(name)                                                                                                      \
    *(void **)&dtrt_drv.name = dlsym(lib, SYMBOL(name));                                                               \
    if (!dtrt_drv.name)                                                                                                \
        return driver_say(cudaErrorInsufficientDriver, "the software device is of another version, and lacks " #name,  \
                          driver_path);
#include "softgpu/runtime/driver.def"
#undef DRV
    cudaError_t e = driver_strangers();
    return e == cudaSuccess ? (cudaError_t)dtrt_drv.cuInit(0) : e;
}

static cudaError_t driver_open(void)
{
    void *lib = driver_find();
    if (!lib)
        return driver_say(cudaErrorInsufficientDriver,
                          "no software device; run the program by `dovetail soft -- PROGRAM`", dlerror());
    return driver_fill(lib);
}

cudaError_t dtrt_open(void)
{
    int state = __atomic_load_n(&driver_state, __ATOMIC_ACQUIRE);
    if (state > 0) {
        unsigned long long adds = 0;
        dl_iterate_phdr(count_at, &adds);
        if (adds == __atomic_load_n(&driver_seen, __ATOMIC_RELAXED))
            return cudaSuccess;
    }
    pthread_mutex_lock(&driver_lock);
    if (!driver_state) {
        driver_error = driver_open();
        __atomic_store_n(&driver_state, driver_error == cudaSuccess ? 1 : -1, __ATOMIC_RELEASE);
    } else if (driver_state > 0) {
        driver_error = driver_strangers();
        if (driver_error != cudaSuccess)
            __atomic_store_n(&driver_state, -1, __ATOMIC_RELEASE);
    }
    cudaError_t e = driver_error;
    pthread_mutex_unlock(&driver_lock);
    return e;
}
