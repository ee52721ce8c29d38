/* dovetail-nvrtc: one compile or link job on hostile text, confined, then gone. Protocol: child.c.
 *
 * Confinement, in order: dies with its parent; no core, no file growth, limited CPU time, memory and descriptors; no
 * new privileges. Then the libraries are opened, NVRTC's built-ins too, wherever they lie. From there on Landlock
 * leaves the include directories of the toolkit, to read, and no other file, not even the libraries; what is not below
 * them looks as if it were not there (confine/hide.c); and a filter leaves the system calls of a compiler: no program
 * is started, no socket opened, no other process touched. Only then the text is compiled.
 *
 * A kernel without Landlock (< 5.13): a source that could name a file outside the toolkit is refused by its text
 * (could_read_files). A kernel without filters: a network namespace of its own, where the kernel lets it have one.
 *
 * It does not decide what options are fine: options.c did. It adds the include paths of the toolkit that it found.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <nvJitLink.h>
#include <nvrtc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/wire.h"
#include "confine/confine.h"
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
    (void)!chdir("/"); /* a name without a folder is in none of ours */
}

/* Leaves these folders to read, and a compiler's system calls. False: no Landlock here, so files are not confined. An
 * error of what the kernel does have ends the process: nothing is compiled half confined. */
static bool confine_late(const struct opts *dirs)
{
    struct confine_path *p = dt_calloc(dirs->n + 1, sizeof *p);
    bool files = confine_landlock() > 0, hidden = files && confine_hide();
    if (!p)
        _exit(1);
    for (size_t i = 0; i < dirs->n; i++)
        p[i] = (struct confine_path){dirs->p[i], CONFINE_READ};
    if (files && confine_files(p, dirs->n, NULL) < 0)
        _exit(1);
    free(p);
    if (!confine_seccomp()) {
        if (unshare(CLONE_NEWNET) < 0)
            (void)!unshare(CLONE_NEWUSER | CLONE_NEWNET); /* best effort */
    } else if (confine_calls(hidden ? CONFINE_COMPILER : CONFINE_COMPILER_PATHS, false, NULL) < 0) {
        _exit(1);
    }
    return files;
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

/* The system's: more lies there than a toolkit's headers. */
static bool is_system(const char *dir) { return !strcmp(dir, "/usr/include") || !strcmp(dir, "/usr/local/include"); }

static void add_folder(struct opts *dirs, const char *real)
{
    for (size_t i = 0; i < dirs->n; i++)
        if (!strcmp(dirs->p[i], real))
            return;
    dt_push(dirs, dt_strdup(real));
}

/* The include directories around the library, of a toolkit or of the wheels, into `dirs`, and as options. */
static void around(void *symbol, struct opts *dirs, struct opts *include)
{
    static const char *const rel[] = {"/../include", "/../../include", "/../../../include",
                                      "/../../cuda_runtime/include", "/../../cuda_cccl/include"};
    Dl_info info;
    char lib[PATH_MAX], path[PATH_MAX + 64], real[PATH_MAX];
    if (!dladdr(symbol, &info) || !realpath(info.dli_fname, lib))
        return;
    *strrchr(lib, '/') = 0;
    for (size_t i = 0; i < sizeof rel / sizeof *rel; i++) {
        snprintf(path, sizeof path, "%s%s/cuda_fp16.h", lib, rel[i]);
        if (access(path, R_OK))
            snprintf(path, sizeof path, "%s%s/cuda/std/cassert", lib, rel[i]);
        if (access(path, R_OK))
            continue;
        /* where its headers really are, if they are links: conda's are */
        char *slash = realpath(path, real) ? strstr(real, "/cuda_fp16.h") : NULL;
        if (slash)
            *slash = 0;
        if (slash && !is_system(real))
            add_folder(dirs, real);
        snprintf(path, sizeof path, "%s%s", lib, rel[i]);
        if (!realpath(path, real) || is_system(real))
            continue;
        add_folder(dirs, real);
        char *o = NULL;
        if (asprintf(&o, "--include-path=%s", real) >= 0)
            dt_push(include, o);
        if (asprintf(&o, "--include-path=%s/cccl", real) >= 0)
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

static int nvrtc(const char *source, struct opts *option)
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
    struct opts dirs = {0};
    preload_builtins((void *)p_nvrtcVersion, major, minor);
    around((void *)p_nvrtcVersion, &dirs, option);
    if (!confine_late(&dirs) && could_read_files(source))
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

static int jitlink(const char *ptx, size_t len, struct opts *option)
{
    void *h = dev_find_library(link_names);
    nvJitLinkResult (*version)(unsigned *, unsigned *) = h ? dlsym(h, "nvJitLinkVersion") : NULL;
    unsigned major = 0, minor = 0;
    if (!version || version(&major, &minor) != NVJITLINK_SUCCESS)
        return say_str('N', "libnvJitLink is not on this machine");
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
    confine_late(&(struct opts){0}); /* it reads no files */
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

/* Every file that is mapped here: this program, the loader, libraries. */
static void nvrtc_child_mapped(struct dt_str *out)
{
    char *line = NULL, last[PATH_MAX] = "";
    size_t cap = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && getline(&line, &cap, f) > 0) {
        char *path = strchr(line, '/');
        if (!path)
            continue;
        path[strcspn(path, "\n")] = 0;
        if (strcmp(path, last) && strlen(path) < sizeof last) {
            memcpy(last, path, strlen(path) + 1);
            dt_str_addf(out, "file %s\n", path);
        }
    }
    free(line);
    if (f)
        fclose(f);
}

/* Job 'V': which compilers there are, and what a process that may start them must leave to them. A line each: `nvrtc`
 * or `nvjitlink` and its version, `file` and `folder` with a path. */
static int survey(void)
{
    struct dt_str s = {0};
    struct opts dirs = {0}, unused = {0};
    int major = 0, minor = 0;
    unsigned umajor = 0, uminor = 0;
    char build[64];
    void *h = dev_find_library(nvrtc_names);
    __typeof__(&nvrtcVersion) compiler = h ? (__typeof__(&nvrtcVersion))dlsym(h, "nvrtcVersion") : NULL;
    if (compiler && compiler(&major, &minor) == NVRTC_SUCCESS) {
        dev_library_build((const void *)compiler, build, sizeof build);
        dt_str_addf(&s, "nvrtc %d.%d %s\n", major, minor, build);
        preload_builtins((void *)compiler, major, minor);
        around((void *)compiler, &dirs, &unused);
    }
    h = dev_find_library(link_names);
    nvJitLinkResult (*linker)(unsigned *, unsigned *) = h ? dlsym(h, "nvJitLinkVersion") : NULL;
    if (linker && linker(&umajor, &uminor) == NVJITLINK_SUCCESS) {
        dev_library_build((const void *)linker, build, sizeof build);
        dt_str_addf(&s, "nvjitlink %u.%u %s\n", umajor, uminor, build);
    }
    for (size_t i = 0; i < dirs.n; i++)
        dt_str_addf(&s, "folder %s\n", dirs.p[i]);
    nvrtc_child_mapped(&s);
    return s.failed ? 1 : nvrtc_child_say('R', s.s ? s.s : "", s.len);
}

int main(int argc, char **argv)
{
    struct opts option = {0};
    char *body, type;
    uint32_t number;
    size_t len;
    confine_early(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 60000);
    if (argc > 2) /* before there is a job: most of what it takes to start */
        dev_find_library(link_names);
    while (dt_wire_read(0, &type, &number, &body, &len, NULL) == 0) {
        switch (type) {
        case 'O':
            if (!dt_push(&option, body))
                _exit(1);
            break;
        /* _exit: what is left to free goes with the process; no library's destructors, no leak check that may not trace
         * us */
        case 'V': _exit(survey());
        case 'N': _exit(nvrtc(body, &option));
        case 'J': _exit(jitlink(body, len, &option));
        default: _exit(1);
        }
    }
    _exit(1);
}
