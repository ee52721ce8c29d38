/* The CUDA driver for programs that bind plans: libcuda.so.1, NVIDIA's or the software device, opened by dlopen (most
 * programs have it loaded already).
 *
 * The software device is recognised by an entry that no other driver has (softgpu/libcuda/extension.h), asked for by
 * cuGetProcAddress. A driver that is too old is refused by its version, and one that lacks an entry by the entry's
 * name. The library stays open: drivers do not survive dlclose.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/plan-priv.h"

static struct {
    pthread_mutex_t lock;
    bool open, soft;
    struct plan_driver table;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define OLDEST_DRIVER 12030 /* as device/symbols.c has it */
#define TEXT(x) #x
#define SYMBOL(name) TEXT(name) /* with the suffix that cuda.h's macros give it */

static int plan_driver_fill(struct plan_driver *t, struct dt_err *e)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return dt_err_set(e, DT_E_NO_DEVICE, "%s", dlerror());
    CUresult (*version)(int *) = (CUresult(*)(int *))dlsym(lib, "cuDriverGetVersion");
    int v = 0;
    if (version && version(&v) == CUDA_SUCCESS && v < OLDEST_DRIVER)
        return dt_err_set(e, DT_E_NO_DEVICE, "the driver is of CUDA %d.%d: %d.%d or later is needed", v / 1000,
                          v % 1000 / 10, OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10);
#define SYM(name)                                                                                                      \
    t->name = (__typeof__(&name))dlsym(lib, SYMBOL(name));                                                             \
    if (!t->name)                                                                                                      \
        return dt_err_set(e, DT_E_NO_DEVICE, "libcuda.so.1 has no " SYMBOL(name) ": the driver is too old");
    PLAN_DRIVER(SYM)
#undef SYM
    CUresult (*look)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) = (CUresult(*)(
        const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))dlsym(lib, SYMBOL(cuGetProcAddress));
    void *extension = NULL;
    driver.soft = look && look("dovetailDeviceModel", &extension, CUDA_VERSION, 0, NULL) == CUDA_SUCCESS && extension;
    return plan_cu(t, t->cuInit(0), "cuInit", e);
}

int plan_driver(const struct plan_driver **ret, struct dt_err *e)
{
    int r = 0;
    pthread_mutex_lock(&driver.lock);
    if (!driver.open)
        r = plan_driver_fill(&driver.table, e);
    driver.open = r == 0;
    pthread_mutex_unlock(&driver.lock);
    if (r == 0)
        *ret = &driver.table;
    return r;
}

bool plan_soft(void) { return driver.soft; }

int plan_cu(const struct plan_driver *cu, CUresult r, const char *what, struct dt_err *e)
{
    const char *name = NULL;
    if (r == CUDA_SUCCESS)
        return 0;
    if (cu->cuGetErrorName(r, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    return dt_err_set(e, r == CUDA_ERROR_OUT_OF_MEMORY ? DT_E_NOMEM : DT_E_DEVICE, "%s: %s", what, name);
}

int plan_enter(const struct dovetail_plan *p, struct dt_err *e)
{
    return plan_cu(p->cu, p->cu->cuCtxPushCurrent(p->ctx), "cuCtxPushCurrent", e);
}

void plan_leave(const struct dovetail_plan *p)
{
    CUcontext c;
    p->cu->cuCtxPopCurrent(&c);
}

int plan_failed(struct dt_err *e, char **ret_problem)
{
    int code = e->num == DT_E_NOMEM                                ? DOVETAIL_E_MEMORY
               : e->num == DT_E_DEVICE || e->num == DT_E_NO_DEVICE ? DOVETAIL_E_DRIVER
                                                                   : DOVETAIL_E_REFUSED;
    if (ret_problem) {
        char *s = NULL;
        if (e->pointer && asprintf(&s, "%s: %s", e->pointer, e->detail ? e->detail : dt_err_text(e->num)) < 0)
            s = NULL;
        else if (!e->pointer && asprintf(&s, "%s", e->detail ? e->detail : dt_err_text(e->num)) < 0)
            s = NULL;
        *ret_problem = s;
    }
    dt_err_done(e);
    return code;
}
