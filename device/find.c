/* Finds files: our own helpers, and NVIDIA's libraries. Nothing here is linked against.
 *
 * Our own files are the software libcuda and the compiler child. They are never looked up through LD_LIBRARY_PATH or
 * PATH. An environment variable names one for tests; else they lie where the build or the package put them, relative to
 * the running program. Every parent directory is tried, so that a test program deep in a build tree finds the same file
 * as build/daemon/dovetaild.
 *
 * NVIDIA's libraries are looked for in this order:
 *
 *   1. DOVETAIL_CUDA_LIBS (directories, separated by ':'; the wheels in a virtual environment)
 *   2. CUDA_HOME
 *   3. the toolkit that the build used
 *   4. what the dynamic linker finds by soname
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/device-priv.h"

char *dev_find_ours(const char *env, const char *folder, const char *name)
{
    const char *named = getenv(env);
    if (named && *named)
        return dt_strdup(named);
    char self[PATH_MAX], path[PATH_MAX + 256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return NULL;
    self[n] = 0;
    for (char *slash; (slash = strrchr(self, '/'));) {
        *slash = 0;
        snprintf(path, sizeof path, "%s/%s/%s", self, folder, name);
        if (!access(path, R_OK))
            return dt_strdup(path);
        snprintf(path, sizeof path, "%s/lib/dovetail/%s", self, name);
        if (!access(path, R_OK))
            return dt_strdup(path);
    }
    return NULL;
}

static void *open_in(const char *dir, size_t len, const char *soname)
{
    char path[PATH_MAX];
    if (!len || (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)len, dir, soname) >= sizeof path ||
        access(path, R_OK))
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_home(const char *home, const char *soname)
{
    static const char *const sub[] = {"targets/x86_64-linux/lib", "lib64", "lib", "extras/CUPTI/lib64"};
    char dir[PATH_MAX];
    void *h = NULL;
    for (size_t i = 0; home && *home && i < sizeof sub / sizeof *sub && !h; i++) {
        int n = snprintf(dir, sizeof dir, "%s/%s", home, sub[i]);
        if (n > 0 && (size_t)n < sizeof dir)
            h = open_in(dir, (size_t)n, soname);
    }
    return h;
}

void *dev_find_library(const char *const *soname)
{
    void *h = NULL;
    for (const char *list = getenv("DOVETAIL_CUDA_LIBS"); list && *list;) {
        size_t n = strcspn(list, ":");
        for (const char *const *s = soname; *s; s++)
            if ((h = open_in(list, n, *s)))
                return h;
        list += n + (list[n] == ':');
    }
    const char *homes[] = {getenv("CUDA_HOME"), DOVETAIL_CUDA_HOME};
    for (size_t i = 0; i < 2; i++)
        for (const char *const *s = soname; *s; s++)
            if ((h = open_home(homes[i], *s)))
                return h;
    for (const char *const *s = soname; *s; s++)
        if ((h = dlopen(*s, RTLD_NOW | RTLD_LOCAL)))
            return h;
    return NULL;
}
