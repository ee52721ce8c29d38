/* The driver's entries, by dlopen and dlsym; the software device's extensions by cuGetProcAddress.
 *
 * dlsym takes the very symbol that this cuda.h declares (cuMemAlloc_v2). cuGetProcAddress at this cuda.h's version
 * would not: since 13.0 it answers `cuCtxSynchronize` and `cuCtxGetDevice` with shapes that have one parameter more
 * than the header's macros say.
 *
 * NVIDIA's driver is `libcuda.so.1` as the dynamic linker finds it; ours is opened by path (DOVETAIL_SOFTGPU, else
 * beside the program), so that both can be open in one process and neither hides the other (RTLD_LOCAL). The table is
 * cuda.def. A driver that is too old is refused by its version before anything is asked of it, and one that lacks an
 * entry with the entry's name. The toolkit's stub library answers CUDA_ERROR_STUB_LIBRARY to cuInit and so is no
 * device. A library, once open, stays: drivers do not survive dlclose.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device-priv.h"

static struct {
    pthread_mutex_t lock;
    struct dev_driver real, soft;
} drivers = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define OLDEST_DRIVER 12030 /* edges of graphs with data: cuGraphAddDependencies_v2 */
#define TEXT(x) #x
#define SYMBOL(name) TEXT(name) /* with the suffix that cuda.h's macros give it */

typedef CUresult (*get_proc)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static int symbols_fill(struct dev_driver *d, void *lib, const char *path, struct dt_err *e)
{
    get_proc get = (get_proc)dlsym(lib, "cuGetProcAddress_v2");
    CUresult (*version)(int *) = (CUresult(*)(int *))dlsym(lib, "cuDriverGetVersion"); /* may be called before cuInit */
    int v = 0;
    void *p;
    if (version && version(&v) == CUDA_SUCCESS && v < OLDEST_DRIVER)
        return dt_err_set(e, DT_E_NO_DEVICE, "the driver (%s) is of CUDA %d.%d: %d.%d or later is needed", path,
                          v / 1000, v % 1000 / 10, OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10);
    if (!get)
        return dt_err_set(e, DT_E_NO_DEVICE, "%s: no cuGetProcAddress_v2: it is no driver, or one too old", path);
#define SYM(name)                                                                                                      \
    p = dlsym(lib, SYMBOL(name));                                                                                      \
    if (!p)                                                                                                            \
        return dt_err_set(e, DT_E_NO_DEVICE, "%s: no " #name ": the driver is too old", path);                         \
    d->name = (__typeof__(&name))p;
#define OPT(name) d->name = (__typeof__(&name))dlsym(lib, SYMBOL(name));
#include "device/cuda.def"
#undef SYM
#undef OPT
    if (!d->cuEventElapsedTime) /* _v2 came with 12.8, and has the same parameters */
        d->cuEventElapsedTime = (__typeof__(&cuEventElapsedTime))dlsym(lib, "cuEventElapsedTime");
    if (!d->cuEventElapsedTime)
        return dt_err_set(e, DT_E_NO_DEVICE, "%s: no cuEventElapsedTime: the driver is too old", path);
    d->soft = true;
#define EXT(name, params)                                                                                              \
    p = NULL;                                                                                                          \
    if (get(#name, &p, CUDA_VERSION, 0, NULL) != CUDA_SUCCESS)                                                         \
        p = NULL;                                                                                                      \
    d->name = (name##_t)p;                                                                                             \
    d->soft = d->soft && p;
    DOVETAIL_EXTENSIONS(EXT)
#undef EXT
    return 0;
}

static int open_driver(struct dev_driver *d, bool soft, const char *figures, struct dt_err *e)
{
    struct dev_driver n = {0};
    dt_free_ char *path =
        soft ? dev_find_ours("DOVETAIL_SOFTGPU", "softgpu", "libcuda.so.1") : dt_strdup("libcuda.so.1");
    if (!path)
        return dt_err_set(e, DT_E_NO_DEVICE,
                          "the software device (softgpu/libcuda.so.1) is not where dovetail is installed");
    n.lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!n.lib)
        return dt_err_set(e, DT_E_NO_DEVICE, "%s", dlerror());
    int r = symbols_fill(&n, n.lib, path, e);
    if (!r && soft && !n.soft)
        r = dt_err_set(e, DT_E_NO_DEVICE, "%s is not dovetail's software device", path);
    CUresult c = r || !soft ? CUDA_SUCCESS : n.dovetailSetFigures(figures);
    if (!r && c == CUDA_SUCCESS)
        c = n.cuInit(0);
    if (c != CUDA_SUCCESS) {
        const char *name = NULL;
        n.cuGetErrorName(c, &name);
        r = dt_err_set(e, DT_E_NO_DEVICE, "%s: cuInit: %s%s", path, name ? name : "unknown error",
                       c == CUDA_ERROR_STUB_LIBRARY             ? " (the toolkit's stub, not a driver)"
                       : c == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH ? " (the driver's kernel module and its library differ)"
                       : c == CUDA_ERROR_SYSTEM_NOT_READY       ? " (the fabric manager is not ready: try later)"
                       : c == CUDA_ERROR_NO_DEVICE              ? " (there is no GPU, or CUDA_VISIBLE_DEVICES hides it)"
                                                                : "");
    }
    if (r < 0)
        dlclose(n.lib);
    else
        *d = n;
    return r;
}

bool dev_driver_is_open(bool soft)
{
    pthread_mutex_lock(&drivers.lock);
    bool is = soft ? drivers.soft.lib : drivers.real.lib;
    pthread_mutex_unlock(&drivers.lock);
    return is;
}

int dev_driver_open(bool soft, const char *figures, const struct dev_driver **ret, struct dt_err *e)
{
    struct dev_driver *d = soft ? &drivers.soft : &drivers.real;
    pthread_mutex_lock(&drivers.lock);
    int r = d->lib ? 0 : open_driver(d, soft, figures, e);
    pthread_mutex_unlock(&drivers.lock);
    if (!r)
        *ret = d;
    return r;
}
