/* What the environment says: the devices that cuInit makes, the seed and the checking modes of new contexts, the log of
 * findings; whether a real driver is loaded in the process; and the tool that is loaded into it.
 *
 * README.md has the list. Nothing else of the driver calls getenv. DOVETAIL_CHECK and DOVETAIL_CHECK_LOG are read again
 * for each fault; the others are read by cuInit or when a context is made.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

const char *cu_environment_checks(void)
{
    const char *s = getenv("DOVETAIL_CHECK");
    return s ? s : "";
}

const char *cu_environment_check_log(void)
{
    const char *s = getenv("DOVETAIL_CHECK_LOG");
    return s ? s : "";
}

uint64_t cu_environment_schedule(void)
{
    const char *s = getenv("DOVETAIL_SCHEDULE");
    return s ? strtoull(s, NULL, 0) : 0;
}

CUresult cu_environment_models(const struct sg_model *ret[CU_DEVICES])
{
    ret[0] = sg_model_find(getenv("DOVETAIL_SOFTGPU_MODEL"));
    CU_REQUIRE(ret[0], CUDA_ERROR_NO_DEVICE);
    unsigned checks;
    if (!sg_checks_parse(cu_environment_checks(), &checks)) {
        fprintf(stderr, "DOVETAIL_CHECK takes race, uninit, barrier, bounds, all or none, separated by commas\n");
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i + 1 < CU_DEVICES && sg_model_at(i); i++)
        ret[i + 1] = sg_model_at(i);
    const char *figures = cu_given_figures(), *at = NULL;
    if (!figures)
        figures = getenv("DOVETAIL_SOFTGPU_FIGURES");
    size_t of = figures ? strcspn(figures, ":=,") : 0;
    const char *only = figures && figures[of] == ':' ? figures : NULL; /* "h200:launch_us=…": of that model alone */
    figures = only ? only + of + 1 : figures;
    for (size_t i = 0; figures && *figures && i < CU_DEVICES && ret[i]; i++) {
        if (only && (strlen(ret[i]->id) != of || memcmp(ret[i]->id, only, of)))
            continue;
        static struct sg_model own[CU_DEVICES];
        static char id[CU_DEVICES][16];
        if (!sg_model_with(ret[i], figures, &own[i], &at)) {
            fprintf(stderr,
                    "DOVETAIL_SOFTGPU_FIGURES takes FIGURE=NUMBER with commas between (softgpu/model/models.def, "
                    "softgpu/constants.def); not \"%.60s\"\n",
                    at);
            return CUDA_ERROR_INVALID_VALUE;
        }
        /* FNV-1a: an id of its own, so that its times are not taken for the stock model's */
        uint32_t hash = 2166136261u;
        for (const char *p = figures; *p; p++)
            hash = (hash ^ (unsigned char)*p) * 16777619u;
        snprintf(id[i], sizeof id[i], "%.7s~%07x", own[i].id, hash & 0xfffffff);
        own[i].id = id[i];
        ret[i] = &own[i];
    }
    return CUDA_SUCCESS;
}

/* An object of the process that is called like a driver, and is not the one that this code is in. */
static int stranger_at(struct dl_phdr_info *info, size_t size, void *user)
{
    char *ret = user;
    Dl_info self;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash, "/libcuda.so", 11))
        return 0;
    if (dladdr((void *)stranger_at, &self) && (uintptr_t)self.dli_fbase == (uintptr_t)info->dlpi_addr)
        return 0;
    snprintf(ret, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

CUresult cu_environment_alone(void)
{
    char path[PATH_MAX];
    if (cu_figures_were_given() || !dl_iterate_phdr(stranger_at, path))
        return CUDA_SUCCESS;
    fprintf(stderr,
            "dovetail's libcuda.so.1: another CUDA driver is loaded in this process, and cannot be used beside the "
            "software device: %s\n",
            path);
    return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
}

/* As NVIDIA's driver does: a library that a tool names is loaded when CUDA starts, and its InitializeInjection called.
 * It may call the driver. One that cannot be loaded is told, and the program goes on. */
void cu_environment_inject(void)
{
    const char *path = secure_getenv("CUDA_INJECTION64_PATH");
    if (!path || !*path)
        return;
    void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!lib) {
        fprintf(stderr, "dovetail's libcuda.so.1: CUDA_INJECTION64_PATH: %s\n", dlerror());
        return;
    }
    int (*start)(void);
    *(void **)&start = dlsym(lib, "InitializeInjection");
    if (start)
        start();
}
