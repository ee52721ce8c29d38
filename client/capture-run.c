/* Runs a program for `dovetail capture`, with the library in it that writes down what it asks of CUDA
 * (capture/inject/).
 *
 * The library is preloaded, and CUDA_INJECTION64_PATH names it too; a program that the program starts is captured as
 * well, into a trace of its own. With --device soft[:MODEL] they find the software device. With --json the program's
 * stdout goes to stderr, since stdout is for the document.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "capture/trace.h"
#include "client/cli.h"

/* Beside the build's or the installation's `dovetail`. */
static int capture_library(char **ret, struct dt_err *e)
{
    static const char *const at[] = {"../capture/libdovetail-capture.so", "../lib/dovetail/libdovetail-capture.so"};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        dt_free_ char *p = NULL;
        char real[PATH_MAX];
        int r = dt_beside_self(at[i], &p, e);
        if (r < 0)
            return r;
        if (realpath(p, real) && !access(real, R_OK))
            return (*ret = dt_strdup(real)) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return dt_err_set(e, DT_E_IO, "libdovetail-capture.so is not where dovetail is installed");
}

static int capture_environment(struct cli *c, const char *dir, struct dt_err *e)
{
    dt_free_ char *lib = NULL, *preload = NULL;
    const char *old = getenv("LD_PRELOAD");
    int r = capture_library(&lib, e);
    if (r < 0)
        return r;
    if (strpbrk(lib, " :")) /* they part the names in LD_PRELOAD */
        return dt_err_set(e, DT_E_IO, "%s: a library with such a path cannot be preloaded", lib);
    if (asprintf(&preload, "%s%s%s", lib, old && *old ? ":" : "", old ? old : "") < 0)
        preload = NULL;
    if (!preload || setenv("LD_PRELOAD", preload, 1) || setenv("CUDA_INJECTION64_PATH", lib, 1) ||
        setenv(CAP_DIR, dir, 1) || setenv(CAP_DATA, c->data ? c->data : "indices", 1))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return c->device && !strncmp(c->device, "soft", 4) ? soft_environment(c, e) : 0;
}

static void capture_become(struct cli *c, const char *dir, mode_t mask)
{
    struct dt_err e = {0};
    umask(mask);
    if (c->json)
        dup2(2, 1);
    if (!capture_environment(c, dir, &e)) {
        signal(SIGPIPE, SIG_DFL);
        execvp(c->arg[0], c->arg);
        dt_err_set(&e, DT_E_IO, "%s: %s", c->arg[0], strerror(errno));
    }
    fprintf(stderr, "dovetail: %s\n", e.detail ? e.detail : "out of memory");
    _exit(127);
}

int capture_run(struct cli *c, const char *dir, struct dt_err *e)
{
    mode_t mask = umask(077);
    umask(mask);
    fflush(stdout);
    pid_t pid = fork();
    int status = 0, r;
    if (pid < 0)
        return dt_err_set(e, DT_E_IO, "fork: %s", strerror(errno));
    if (!pid)
        capture_become(c, dir, mask);
    /* an interrupt is for the program; what it did until then is taken */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, intr, quit;
    sigaction(SIGINT, &ignore, &intr);
    sigaction(SIGQUIT, &ignore, &quit);
    while ((r = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &intr, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    if (r < 0)
        return dt_err_set(e, DT_E_IO, "waitpid: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
