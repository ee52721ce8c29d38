/* dovetail-nvrtc: one compile or link job on hostile text, confined, then gone. Protocol: child.c.
 *
 * Confinement, in order: dies with its parent; no core, no file growth, limited CPU time, memory and descriptors; no
 * new privileges; a network namespace of its own where the kernel lets it have one; then the library is opened, and
 * Landlock leaves read access to the toolkit's library and include directories and to the system's libraries, nothing
 * else. On a kernel without Landlock (< 5.13) a source that could name a file outside the toolkit is refused by its
 * text (could_read_files).
 *
 * It does not decide what options are fine: options.c did. It adds the include paths of the toolkit that it found.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <nvJitLink.h>
#include <nvrtc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "base/wire.h"
#include "device/device-priv.h"
#include "device/headers.h"

struct opts dt_vec(char *);

#ifdef __SANITIZE_ADDRESS__ /* the confined child may not look into /proc, and leaves everything to its end */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#endif

static int nvrtc_child_say(char type, const char *text, size_t len)
{
    return dt_wire_write(1, type, 0, text, len) < 0 ? 1 : 0;
}

static int say_str(char type, const char *text) { return nvrtc_child_say(type, text, strlen(text)); }

static void limit(int what, rlim_t v)
{
    struct rlimit r = {v, v};
    setrlimit(what, &r);
}

static void confine_early(unsigned timeout_ms)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NOFILE, 64);
    limit(RLIMIT_CPU, timeout_ms / 1000 + 2);
#ifndef __SANITIZE_ADDRESS__ /* its shadow is 16 TiB of address space */
    limit(RLIMIT_AS, (rlim_t)4 << 30);
#endif
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (unshare(CLONE_NEWNET) < 0)
        (void)!unshare(CLONE_NEWUSER | CLONE_NEWNET); /* best effort */
}

static void allow(int rules, const char *dir)
{
    struct landlock_path_beneath_attr a = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE |
                                                             LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE};
    a.parent_fd = open(dir, O_PATH | O_CLOEXEC);
    if (a.parent_fd < 0)
        return;
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
    close(a.parent_fd);
}

/* Every file system right that this kernel's version knows is taken away, but for reading these. False: no Landlock
 * here. */
static bool confine_files(const struct opts *dirs)
{
    static const char *const system_dirs[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64"};
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
    if (abi < 1)
        return false;
    struct {
        uint64_t fs, net;
    } attr = {abi >= 5 ? 0xffff : abi >= 3 ? 0x7fff : abi == 2 ? 0x3fff : 0x1fff, abi >= 4 ? 3 : 0 /* bind, connect */};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, abi >= 4 ? sizeof attr : sizeof attr.fs, 0);
    if (rules < 0)
        return false;
    for (size_t i = 0; i < sizeof system_dirs / sizeof *system_dirs; i++)
        allow(rules, system_dirs[i]);
    for (size_t i = 0; i < dirs->n; i++)
        allow(rules, dirs->p[i]);
    bool ok = syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    close(rules);
    return ok;
}

/* Used only where there is no Landlock, and strict for that reason: an include must be `#include <name>` in plain
 * sight, below the toolkit's directories; spellings that hide a directive (line splices, digraphs, trigraphs) and
 * __has_include refuse the source. */
static bool could_read_files(const char *s)
{
    if (strstr(s, "\\\n") || strstr(s, "\\\r") || strstr(s, "??") || strstr(s, "%:") || strstr(s, "__has_"))
        return true;
    for (const char *p = s; (p = strstr(p, "include"));) {
        p += 7;
        p += strspn(p, " \t");
        size_t n = strcspn(p, "\n>");
        if (*p != '<' || p[1] == '/' || memmem(p, n, "..", 2))
            return true;
    }
    return false;
}

/* The directories around the library: its own, and the include directories of a toolkit or of the wheels. */
static void around(void *symbol, struct opts *dirs, struct opts *include)
{
    static const char *const rel[] = {"",
                                      "/../include",
                                      "/../../include",
                                      "/../../../include",
                                      "/../../cuda_runtime/include",
                                      "/../../cuda_cccl/include"};
    Dl_info info;
    char lib[PATH_MAX], path[PATH_MAX + 64], real[PATH_MAX];
    if (!dladdr(symbol, &info) || !realpath(info.dli_fname, lib))
        return;
    *strrchr(lib, '/') = 0;
    for (size_t i = 0; i < sizeof rel / sizeof *rel; i++) {
        snprintf(path, sizeof path, "%s%s%s", lib, rel[i], i ? "/cuda_fp16.h" : "");
        if (i && access(path, R_OK)) {
            snprintf(path, sizeof path, "%s%s/cuda/std/cassert", lib, rel[i]);
            if (access(path, R_OK))
                continue;
        }
        snprintf(path, sizeof path, "%s%s", lib, rel[i]);
        /* not the system's */
        if (!realpath(path, real) || !strcmp(real, "/usr/include") || !strcmp(real, "/usr/local/include"))
            continue;
        dt_push(dirs, dt_strdup(real));
        char *o = NULL;
        if (i && asprintf(&o, "--include-path=%s", real) >= 0)
            dt_push(include, o);
        if (i && asprintf(&o, "--include-path=%s/cccl", real) >= 0)
            dt_push(include, o);
    }
}

/* NVRTC opens its built-ins by soname while it compiles: have them loaded before the files are gone. */
static void preload_builtins(void *symbol, int major, int minor)
{
    Dl_info info;
    char path[PATH_MAX + 64];
    if (!dladdr(symbol, &info) || !strrchr(info.dli_fname, '/'))
        return;
    int dir = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
    snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", dir, info.dli_fname, major, minor);
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
static const char *const link_names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so", NULL};

static int nvrtc(char job, const char *source, struct opts *option)
{
    void *h = dev_find_library(nvrtc_names);
    if (!h)
        return say_str('N', "libnvrtc is not on this machine");
#define SYM(name) __typeof__(&name) p_##name = (__typeof__(&name))dlsym(h, #name)
    SYM(nvrtcVersion);
    SYM(nvrtcCreateProgram);
    SYM(nvrtcCompileProgram);
    SYM(nvrtcGetProgramLogSize);
    SYM(nvrtcGetProgramLog);
    SYM(nvrtcGetPTXSize);
    SYM(nvrtcGetPTX);
    SYM(nvrtcGetErrorString);
    if (!p_nvrtcVersion || !p_nvrtcCreateProgram || !p_nvrtcCompileProgram || !p_nvrtcGetProgramLogSize ||
        !p_nvrtcGetProgramLog || !p_nvrtcGetPTXSize || !p_nvrtcGetPTX || !p_nvrtcGetErrorString)
        return say_str('N', "libnvrtc lacks a function that is needed");
    int major = 0, minor = 0;
    p_nvrtcVersion(&major, &minor);
    if (job == 'V') {
        char v[96], build[64];
        dev_library_build((const void *)p_nvrtcVersion, build, sizeof build);
        snprintf(v, sizeof v, "%d.%d %s", major, minor, build);
        return say_str('R', v);
    }
    struct opts dirs = {0};
    preload_builtins((void *)p_nvrtcVersion, major, minor);
    around((void *)p_nvrtcVersion, &dirs, option);
    if (!confine_files(&dirs) && could_read_files(source))
        return say_str('E', "this machine's kernel cannot confine the compiler: #include of a path is refused");
    nvrtcProgram prog;
    enum { HEADERS = sizeof dev_header / sizeof *dev_header };
    const char *name[HEADERS], *header[HEADERS];
    for (int i = 0; i < HEADERS; i++) {
        name[i] = dev_header[i].name;
        header[i] = dev_header[i].text;
    }
    nvrtcResult r = p_nvrtcCreateProgram(&prog, source, DEV_SOURCE_NAME, HEADERS, header, name);
    if (r != NVRTC_SUCCESS)
        return say_str('E', p_nvrtcGetErrorString(r));
    nvrtcResult c = p_nvrtcCompileProgram(prog, (int)option->n, (const char *const *)option->p);
    size_t n = 0;
    char *text = NULL;
    if (p_nvrtcGetProgramLogSize(prog, &n) == NVRTC_SUCCESS && n > 1 && (text = dt_malloc(n)) &&
        p_nvrtcGetProgramLog(prog, text) == NVRTC_SUCCESS && nvrtc_child_say('L', text, strnlen(text, n)))
        return 1;
    if (c != NVRTC_SUCCESS)
        return say_str('E', p_nvrtcGetErrorString(c));
    n = 0;
    r = p_nvrtcGetPTXSize(prog, &n);
    text = r == NVRTC_SUCCESS && n ? dt_malloc(n) : NULL;
    if (!text || (r = p_nvrtcGetPTX(prog, text)) != NVRTC_SUCCESS)
        return say_str('E', r != NVRTC_SUCCESS ? p_nvrtcGetErrorString(r) : "the compiler gave no PTX");
    return nvrtc_child_say('R', text, strnlen(text, n));
}

/* nvJitLink's functions carry their version in their names: __nvJitLinkCreate_13_0. */
static void *link_symbol(void *h, const char *name, unsigned major, unsigned minor)
{
    char s[96];
    for (int m = (int)minor; m >= 0; m--) {
        snprintf(s, sizeof s, "__nvJitLink%s_%u_%d", name, major, m);
        void *p = dlsym(h, s);
        if (p)
            return p;
    }
    return NULL;
}

static int jitlink(char job, const char *ptx, size_t len, struct opts *option)
{
    void *h = dev_find_library(link_names);
    nvJitLinkResult (*version)(unsigned *, unsigned *) = h ? dlsym(h, "nvJitLinkVersion") : NULL;
    unsigned major = 0, minor = 0;
    if (!version || version(&major, &minor) != NVJITLINK_SUCCESS)
        return say_str('N', "libnvJitLink is not on this machine");
    if (job == 'W') {
        char v[96], build[64];
        dev_library_build((const void *)version, build, sizeof build);
        snprintf(v, sizeof v, "%u.%u %s", major, minor, build);
        return say_str('R', v);
    }
#define LINK(var, name, ...) nvJitLinkResult (*var)(__VA_ARGS__) = link_symbol(h, name, major, minor)
    LINK(create, "Create", nvJitLinkHandle *, uint32_t, const char **);
    LINK(add, "AddData", nvJitLinkHandle, nvJitLinkInputType, const void *, size_t, const char *);
    LINK(complete, "Complete", nvJitLinkHandle);
    LINK(cubin_size, "GetLinkedCubinSize", nvJitLinkHandle, size_t *);
    LINK(cubin, "GetLinkedCubin", nvJitLinkHandle, void *);
    LINK(error_size, "GetErrorLogSize", nvJitLinkHandle, size_t *);
    LINK(error_log, "GetErrorLog", nvJitLinkHandle, char *);
    LINK(info_size, "GetInfoLogSize", nvJitLinkHandle, size_t *);
    LINK(info_log, "GetInfoLog", nvJitLinkHandle, char *);
    if (!create || !add || !complete || !cubin_size || !cubin || !error_size || !error_log || !info_size || !info_log)
        return say_str('N', "libnvJitLink lacks a function that is needed");
    struct opts dirs = {0}, unused = {0};
    around((void *)version, &dirs, &unused);
    confine_files(&dirs);
    nvJitLinkHandle link;
    if (create(&link, (uint32_t)option->n, (const char **)option->p) != NVJITLINK_SUCCESS)
        return say_str('N', "nvJitLink does not know this architecture"); /* the options are ours */
    /* A failed AddData can be followed by a Complete that returns 0: the first failure is the answer. */
    nvJitLinkResult r = add(link, NVJITLINK_INPUT_PTX, ptx, len + 1, "dovetail.ptx");
    if (r == NVJITLINK_SUCCESS)
        r = complete(link);
    size_t n = 0;
    char *text = NULL;
    if (r != NVJITLINK_SUCCESS) {
        if (error_size(link, &n) == NVJITLINK_SUCCESS && n && (text = dt_calloc(n + 1, 1)) &&
            error_log(link, text) == NVJITLINK_SUCCESS && *text)
            return say_str('E', text);
        return say_str('E', "nvJitLink refused the PTX without a word");
    }
    if (info_size(link, &n) == NVJITLINK_SUCCESS && n && (text = dt_calloc(n + 1, 1)) &&
        info_log(link, text) == NVJITLINK_SUCCESS && nvrtc_child_say('L', text, strlen(text)))
        return 1;
    n = 0;
    if (cubin_size(link, &n) != NVJITLINK_SUCCESS || !n || !(text = dt_malloc(n)) ||
        cubin(link, text) != NVJITLINK_SUCCESS)
        return say_str('E', "nvJitLink gave no cubin");
    return nvrtc_child_say('R', text, n);
}

int main(int argc, char **argv)
{
    struct opts option = {0};
    char *body, type;
    uint32_t number;
    size_t len;
    confine_early(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 60000);
    while (dt_wire_read(0, &type, &number, &body, &len, NULL) == 0) {
        switch (type) {
        case 'O':
            if (!dt_push(&option, body))
                _exit(1);
            break;
        /* _exit: what is left to free goes with the process; no library's destructors, no leak check that may not trace
         * us */
        case 'V':
        case 'N': _exit(nvrtc(type, body, &option));
        case 'W':
        case 'J': _exit(jitlink(type, body, len, &option));
        default: _exit(1);
        }
    }
    _exit(1);
}
