/* dovetail soft -- PROGRAM [ARG…]: run a CUDA program on the software device. It needs no service.
 *
 * The software device's libcuda.so.1 and libcudart.so.13 lie in a private folder that is on no library path
 * (build/softgpu; lib/dovetail of an installation). This verb puts the folder in front of LD_LIBRARY_PATH, says by
 * variables of the environment which GPU is modelled and what is checked (docs/PROGRAMS.md), and becomes the program.
 * `dovetail soft --flags` prints what nvcc needs so that a program finds the folder by itself.
 *
 * It cannot help a program that has NVIDIA's static runtime in it, or the path of NVIDIA's runtime in its own RPATH:
 * the device says so when such a program starts.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "client/cli.h"

/* Beside the build's or the installation's `dovetail`. */
static int soft_folder(char **ret, struct dt_err *e)
{
    static const char *const at[] = {"../softgpu", "../lib/dovetail"};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        dt_free_ char *p = NULL;
        char real[PATH_MAX], lib[PATH_MAX + 32];
        int r = dt_beside_self(at[i], &p, e);
        if (r < 0)
            return r;
        if (!realpath(p, real))
            continue;
        snprintf(lib, sizeof lib, "%s/libcudart.so.13", real);
        if (!access(lib, R_OK))
            return (*ret = dt_strdup(real)) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return dt_err_set(e, DT_E_NO_DEVICE,
                      "the software device (libcuda.so.1, libcudart.so.13) is not where dovetail is installed");
}

/* The model of --device soft:MODEL, or of such a DOVETAIL_DEVICE; NULL: none is named. */
static int soft_model(const struct cli *c, const char **ret, struct dt_err *e)
{
    const char *d = c->device;
    *ret = NULL;
    if (!d || (!c->device_given && strncmp(d, "soft", 4)))
        return 0;
    if (strncmp(d, "soft", 4) || (d[4] && d[4] != ':'))
        return dt_err_set(e, DT_E_USAGE, "dovetail soft runs on the software device: --device soft[:MODEL], not %s", d);
    *ret = d[4] ? d + 5 : NULL;
    return 0;
}

static int soft_flags(struct cli *c, const char *dir)
{
    for (const char *p = dir; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("/._-+~", *p))) {
            struct dt_err e = {0};
            dt_err_set(&e, DT_E_IO, "%s: flags cannot name a folder with such a character", dir);
            return fail(c, &e);
        }
    printf("-L%s -Xlinker -rpath=%s -lineinfo\n", dir, dir);
    return 0;
}

/* In this process: what makes the programs that it starts, or becomes, use the software device. */
int soft_environment(struct cli *c, struct dt_err *e)
{
    const char *model, *old = getenv("LD_LIBRARY_PATH");
    dt_free_ char *dir = NULL;
    int r = soft_folder(&dir, e);
    r = r ? r : soft_model(c, &model, e);
    if (r < 0)
        return r;
    size_t n = strlen(dir) + (old ? strlen(old) : 0) + 2;
    dt_free_ char *path = dt_malloc(n);
    if (!path)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    snprintf(path, n, "%s%s%s", dir, old && *old ? ":" : "", old && *old ? old : "");
    if (setenv("LD_LIBRARY_PATH", path, 1) || (model && setenv("DOVETAIL_SOFTGPU_MODEL", model, 1)) ||
        (c->check && setenv("DOVETAIL_CHECK", c->check, 1)) ||
        (c->schedule && setenv("DOVETAIL_SCHEDULE", c->schedule, 1)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return 0;
}

int cmd_soft(struct cli *c)
{
    struct dt_err e = {0};
    const char *model;
    dt_free_ char *dir = NULL;
    int r = 0;
    if (c->flags == (c->narg > 0))
        r = dt_err_set(&e, DT_E_USAGE, "usage: dovetail soft -- PROGRAM [ARG…], or dovetail soft --flags");
    else if (!c->flags)
        r = soft_environment(c, &e);
    else if (!(r = soft_folder(&dir, &e)))
        r = soft_model(c, &model, &e);
    if (r < 0)
        return fail(c, &e);
    if (dir)
        return soft_flags(c, dir);
    signal(SIGPIPE, SIG_DFL);
    execvp(c->arg[0], c->arg);
    dt_err_set(&e, DT_E_IO, "%s: %s", c->arg[0], strerror(errno));
    return fail(c, &e);
}
