/* An NVRTC that an attacker has taken over: inside the compiler child, after it has confined itself, it tries what a
 * comment of the source tells it: `// try WHAT`. What came of it is the compile log: "WHAT: 0", or an errno. It never
 * compiles anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <nvrtc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static char what[64], said[128];

EXPORT nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcCreateProgram(nvrtcProgram *prog, const char *src, const char *name, int n,
                                      const char *const *headers, const char *const *names)
{
    const char *at = strstr(src, "// try ");
    *prog = NULL;
    snprintf(what, sizeof what, "%.*s", at ? (int)strcspn(at + 7, "\n") : 0, at ? at + 7 : "");
    return NVRTC_SUCCESS;
}

static int opens(const char *path, unsigned long long flags)
{
    struct open_how how = {.flags = flags, .mode = flags & O_CREAT ? 0600 : 0};
    return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how) < 0 ? errno : 0;
}

static int attempt(void)
{
    static char *argv[] = {(char *)"true", NULL};
    if (!strcmp(what, "exec"))
        return execv("/bin/true", argv) < 0 ? errno : 0;
    if (!strcmp(what, "fork"))
        return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) < 0 ? errno : 0;
    if (!strcmp(what, "socket"))
        return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
    if (!strcmp(what, "kill"))
        return kill(getppid(), SIGKILL) < 0 ? errno : 0;
    if (!strncmp(what, "read ", 5))
        return opens(what + 5, O_RDONLY);
    if (!strncmp(what, "write ", 6))
        return opens(what + 6, O_WRONLY | O_CREAT);
    if (!strcmp(what, "memory"))
        for (size_t n = 0;; n++) {
            volatile char *p = malloc(1 << 20);
            for (size_t i = 0; p && i < 1 << 20; i += 4096)
                p[i] = 1;
            if (!p) /* at a limit of its own: stays there */
                usleep(1000);
        }
    return -1;
}

EXPORT nvrtcResult nvrtcCompileProgram(nvrtcProgram prog, int n, const char *const *option)
{
    snprintf(said, sizeof said, "%s: %d", what, attempt());
    return NVRTC_ERROR_COMPILATION;
}

EXPORT nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram prog, size_t *n)
{
    *n = strlen(said) + 1;
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetProgramLog(nvrtcProgram prog, char *to)
{
    memcpy(to, said, strlen(said) + 1);
    return NVRTC_SUCCESS;
}

EXPORT nvrtcResult nvrtcGetPTXSize(nvrtcProgram prog, size_t *n) { return NVRTC_ERROR_INVALID_PROGRAM; }
EXPORT nvrtcResult nvrtcGetPTX(nvrtcProgram prog, char *to) { return NVRTC_ERROR_INVALID_PROGRAM; }
EXPORT const char *nvrtcGetErrorString(nvrtcResult r) { return "NVRTC_ERROR_COMPILATION"; }
