/* A module in the form that a driver takes. The software device takes the PTX. A real device gets
 *
 *   1. machine code that nvJitLink makes of the PTX for the device's own architecture ("sm_90a" if the module's .target
 *      is the device's with that suffix). The same assembler checked the module (prog.c), proved which contractions it
 *      makes (contract.c) and counted the reported registers; and it runs in a confined child with a deadline, which
 *      the driver's compiler does not.
 *   2. the PTX, if nvJitLink is missing, does not know the architecture or refuses, or if the driver does not take the
 *      machine code (an older driver, a newer toolkit). If the driver says that the text's PTX version is too new, it
 *      gets the text at the version that it knows.
 *
 * If neither works the error has both messages. If nvJitLink misses its deadline the module is refused, since the
 * driver's compiler could not be stopped either. Machine code is kept for the life of the process (memo.c), by a digest
 * of PTX, architecture and compiler; not on disk, where somebody might change it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device-priv.h"

#define LOG_BYTES 8192

int dev_arch_for(const struct dev_info *i, const char *target, char arch[16], struct dt_err *e)
{
    char word[16] = "", *end;
    size_t n = strcspn(target, ", \t\r\n");
    snprintf(word, sizeof word, "%.*s", n < 15 ? (int)n : 15, target);
    if (!dev_arch_ok(word))
        return dt_err_set(e, DT_E_PTX, "\".target %.40s\" is no architecture", target);
    unsigned want = (unsigned)strtoul(word + 3, &end, 10), have = i->cc_major * 10 + i->cc_minor;
    bool fits = *end == 'a' ? want == have : *end == 'f' ? want <= have && want / 10 == have / 10 : want <= have;
    if (!fits)
        return dt_err_set(e, DT_E_UNSUPPORTED, "the module is for %s, the device is %s", word, i->arch);
    snprintf(arch, 16, "sm_%u%s", have % 1000, *end == 'a' ? "a" : *end == 'f' ? "f" : "");
    return 0;
}

static CUresult image_load(struct dev_device *d, const void *image, char log[LOG_BYTES], CUmodule *ret)
{
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)};
    memset(log, 0, LOG_BYTES);
    return d->cu->cuModuleLoadDataEx(ret, image, 2, option, value);
}

/* Words about a refusal: the compiler's own where it has any. */
static int image_refused(struct dev_device *d, CUresult c, const char *log, struct dt_err *e)
{
    if (!*log || (c != CUDA_ERROR_INVALID_PTX && c != CUDA_ERROR_NOT_SUPPORTED))
        return dev_cu(d, c, "cuModuleLoadDataEx", e);
    int r = dt_err_set(e, c == CUDA_ERROR_INVALID_PTX ? DT_E_PTX : DT_E_UNSUPPORTED, "%s", log);
    dt_err_log(e, log);
    return r;
}

/* Is it the image that the driver does not like, rather than a context that is dead or memory that is out? */
static bool about_image(CUresult c)
{
    switch (c) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case CUDA_ERROR_NOT_SUPPORTED: return true;
    default: return false;
    }
}

int dev_image_ptx(struct dev_device *d, const char *ptx, size_t len, CUmodule *ret, struct dt_err *e)
{
    char log[LOG_BYTES];
    CUresult c = image_load(d, ptx, log, ret);
    if (c == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) { /* the driver's own: PTX 9.0 came with CUDA 13.0, 8.4 with 12.4 */
        char version[32];
        snprintf(version, sizeof version, "%d.%d", d->info.driver_version / 1000 - 4,
                 d->info.driver_version % 1000 / 10);
        dt_free_ char *older = dev_with_version(ptx, len, version);
        if (older)
            c = image_load(d, older, log, ret);
    }
    return c == CUDA_SUCCESS ? 0 : image_refused(d, c, log, e);
}

/* By nvJitLink alone; *ret_final: an error that the driver's compiler will not mend. */
static int image_cubin(struct dev_device *d, const char *ptx, size_t len, CUmodule *ret, bool *ret_final,
                       struct dt_err *e)
{
    const char *at = dev_directive(ptx, len, ".target");
    char target[32], arch[16], log[LOG_BYTES];
    void *cubin = NULL;
    size_t n = 0;
    *ret_final = false;
    snprintf(target, sizeof target, "%.*s", at ? (int)(strcspn(at, ", \t\r\n/") % 32) : 0, at ? at : "");
    int r = dev_arch_for(&d->info, target, arch, e);
    if (!r)
        r = dev_assemble(ptx, len, arch, &cubin, &n, e);
    if (r < 0) {
        *ret_final = r == DT_E_TIMEOUT || r == DT_E_NOMEM;
        return r;
    }
    CUresult c = image_load(d, cubin, log, ret);
    free(cubin);
    *ret_final = !about_image(c);
    return c == CUDA_SUCCESS ? 0 : image_refused(d, c, log, e);
}

int dev_image_load(struct dev_device *d, const char *ptx, size_t len, CUmodule *ret, bool *ret_cubin, struct dt_err *e)
{
    struct dt_err code = {0}, text = {0};
    bool final;
    *ret_cubin = false;
    if (d->cu->soft)
        return dev_image_ptx(d, ptx, len, ret, e);
    int r = image_cubin(d, ptx, len, ret, &final, &code);
    *ret_cubin = r == 0;
    if (r < 0 && !final) {
        r = dev_image_ptx(d, ptx, len, ret, &text);
        if (r < 0) {
            dt_err_set(e, r, "%s; as machine code by nvJitLink: %s", text.detail ? text.detail : dt_err_text(r),
                       code.detail ? code.detail : "no");
            if (text.log || code.log)
                dt_err_log(e, text.log ? text.log : code.log);
        }
    } else if (r < 0 && e) {
        dt_err_move(e, &code);
    }
    dt_err_done(&code);
    dt_err_done(&text);
    return r;
}
