/* CUDA C++ to PTX, by NVRTC in a confined child (child.c).
 *
 * Options are checked against the allow-list (options.c), the target is the device's. What the compiler says comes back
 * as the log of a DT_E_COMPILE. Equal source, options, target and compiler version give the same PTX, so results are
 * kept (memo.c). Does not look at the PTX: it is as hostile as the source (inline asm passes unchecked) and goes
 * through the parser like any other.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/vec.h"
#include "device/device-priv.h"

/* What the compiler child said about itself (survey() in nvrtc-child.c), asked once: lines, each NUL-terminated. */
static struct {
    pthread_mutex_t lock;
    char version[2][32], build[2][96]; /* "13.0"; "13.0-65be0db342ad51a0" */
    char *text;
    size_t len;
    bool asked;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What follows a name in a line; NULL: the line has another name. */
static const char *survey_value(const char *line, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(line, name, n) && line[n] == ' ' ? line + n + 1 : NULL;
}

static void survey_take(char *text, size_t len)
{
    static const char *const name[2] = {"nvrtc", "nvjitlink"};
    known.text = text;
    known.len = len;
    for (char *p = text; (p = strchr(p, '\n')); p++)
        *p = 0;
    for (const char *line = text; line < text + len; line += strlen(line) + 1)
        for (int k = 0; k < 2; k++) {
            const char *v = survey_value(line, name[k]);
            size_t n = v ? strcspn(v, " ") : 0;
            if (!v)
                continue;
            snprintf(known.version[k], sizeof known.version[k], "%.*s", (int)n, v);
            snprintf(known.build[k], sizeof known.build[k], "%.*s%s%s", (int)n, v, v[n] ? "-" : "",
                     v[n] ? v + n + 1 : "");
        }
}

static void survey_ask(void)
{
    pthread_mutex_lock(&known.lock);
    if (!known.asked) {
        struct dev_reply r = {0};
        if (!dev_child('V', NULL, 0, "", 0, 20000, &r, NULL) && r.result) {
            survey_take(r.result, r.result_len);
            r.result = NULL;
        }
        dev_reply_done(&r);
        known.asked = true;
    }
    pthread_mutex_unlock(&known.lock);
}

const char *dev_nvrtc_version(void)
{
    survey_ask();
    return *known.version[0] ? known.version[0] : NULL;
}

const char *dev_nvjitlink_version(void)
{
    survey_ask();
    return *known.version[1] ? known.version[1] : NULL;
}

void dev_compiler_paths(void (*fn)(const char *path, bool folder, void *user), void *user)
{
    survey_ask();
    for (const char *line = known.text; line && line < known.text + known.len; line += strlen(line) + 1) {
        const char *file = survey_value(line, "file"), *folder = survey_value(line, "folder");
        if (file || folder)
            fn(file ? file : folder, folder != NULL, user);
    }
}

const char *dev_nvrtc_build(void) { return dev_nvrtc_version() ? known.build[0] : NULL; }

const char *dev_nvjitlink_build(void) { return dev_nvjitlink_version() ? known.build[1] : NULL; }

/* With -lineinfo the PTX names the source as a file of the current folder. It is no file, and equal input gives equal
 * PTX: "kernel.cu". */
static size_t plain_file_name(char *ptx, size_t len)
{
    static const char end[] = "/" DEV_SOURCE_NAME "\"";
    for (char *at = ptx; (at = strstr(at, end));) {
        char *from = at;
        while (from > ptx && from[-1] != '"' && from[-1] != '\n')
            from--;
        if (from > ptx && from[-1] == '"') {
            memmove(from, at + 1, len - (size_t)(at + 1 - ptx) + 1);
            len -= (size_t)(at + 1 - from);
            at = from;
        } else {
            at++;
        }
    }
    return len;
}

/* NVRTC's log does not say what to do about a file that was written for nvcc. */
static const char *for_the_host(const char *log)
{
    bool host = log && (strstr(log, "cannot open source file") || strstr(log, "host functions are not allowed") ||
                        strstr(log, "__host__ function is not"));
    return host ? "; a module is the device's code alone: take out what is for the host (its headers, main), or post "
                  "the PTX of `nvcc -ptx`"
                : "";
}

static int compile(const char *source, size_t len, const char *const *option, unsigned noption, bool debug,
                   const char *arch, unsigned timeout_ms, char **ret_ptx, size_t *ret_len, struct dt_err *e)
{
    char target[64], key[DT_SHA256_TEXT];
    struct dt_vec(const char *) all = {0};
    struct dev_reply reply = {0};
    struct dt_sha256 h;

    if (!dev_arch_ok(arch))
        return dt_err_set(e, DT_E_USAGE, "\"%.40s\" is no architecture", arch ? arch : "");
    if (strlen(source) != len)
        return dt_err_set(e, DT_E_COMPILE, "the source has a zero byte in it");
    int r = dev_check_options(option, noption, e);
    if (r < 0)
        return r;
    snprintf(target, sizeof target, "--gpu-architecture=compute_%s", arch + 3);
    if (!dt_push(&all, target) || (debug && !dt_push(&all, "--device-debug"))) {
        free(all.p);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    for (unsigned i = 0; i < noption; i++)
        if (!dt_push(&all, option[i])) {
            free(all.p);
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
    const char *version = dev_nvrtc_version();
    if (!version) {
        free(all.p);
        return dt_err_set(e, DT_E_NO_COMPILER,
                          "NVRTC is not on this machine: CUDA C++ cannot be compiled, PTX can be posted");
    }
    r = dt_sha256_init(&h);
    if (r < 0) {
        free(all.p);
        return dt_err_set(e, r, "out of memory");
    }
    dt_sha256_addstr(&h, "nvrtc");
    dt_sha256_addstr(&h, dev_nvrtc_build());
    for (size_t i = 0; i < all.n; i++)
        dt_sha256_addstr(&h, all.p[i]);
    dt_sha256_addstr(&h, source);
    dt_sha256_final(&h, key);
    if (dev_memo_get(key, ret_ptx, ret_len)) {
        free(all.p);
        return 0;
    }
    r = dev_child('N', all.p, (unsigned)all.n, source, len, timeout_ms, &reply, e);
    free(all.p);
    if (r < 0)
        return r;
    if (reply.result) {
        reply.result_len = plain_file_name(reply.result, reply.result_len);
        dev_memo_put(key, reply.result, reply.result_len);
        *ret_ptx = reply.result;
        *ret_len = reply.result_len;
        reply.result = NULL;
    } else {
        r = dt_err_set(e, reply.missing ? DT_E_NO_COMPILER : DT_E_COMPILE, "NVRTC %s: %s%s", version, reply.error,
                       for_the_host(reply.log));
        if (reply.log)
            dt_err_log(e, reply.log);
    }
    dev_reply_done(&reply);
    return r;
}

int dev_compile_cuda(const char *source, size_t len, const char *const *option, unsigned noption, const char *arch,
                     unsigned timeout_ms, char **ret_ptx, size_t *ret_len, struct dt_err *e)
{
    return compile(source, len, option, noption, false, arch, timeout_ms, ret_ptx, ret_len, e);
}

int dev_compile_debug(const char *source, size_t len, const char *const *option, unsigned noption, const char *arch,
                      unsigned timeout_ms, char **ret_ptx, size_t *ret_len, struct dt_err *e)
{
    return compile(source, len, option, noption, true, arch, timeout_ms, ret_ptx, ret_len, e);
}
