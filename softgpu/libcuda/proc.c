/* cuGetProcAddress: entries by name and version.
 *
 * entries.def has a row for every shape that an entry ever had, with the version of CUDA that brought it. A program
 * asks by the plain name and gets the newest shape that its version knows; a name with its suffix (cuMemAlloc_v2) names
 * one shape. With CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM the shape with _ptds or _ptsz is taken where there is
 * one. Extensions are found here and only here.
 */
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

#define ENTRY(name, symbol, since, file) extern CUresult at_##symbol(void) __asm__(#symbol);
#define REFUSED(name, symbol, since, why) ENTRY(name, symbol, since, why)
#define EXTENSION(name, file)
#include "softgpu/libcuda/entries.def"
#undef ENTRY
#undef EXTENSION

static const struct row {
    const char *name, *symbol; /* plain; with suffixes */
    int since;
    void *fn;
} row[] = {
#define ENTRY(name, symbol, since, file) {#name, #symbol, since, (void *)at_##symbol},
#define EXTENSION(name, file) {#name, #name, 0, (void *)name},
#include "softgpu/libcuda/entries.def"
};

static bool per_thread(const char *symbol)
{
    size_t n = strlen(symbol);
    return n > 5 && (!strcmp(symbol + n - 5, "_ptds") || !strcmp(symbol + n - 5, "_ptsz"));
}

CUresult cuGetProcAddress(const char *name, void **ret, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status)
{
    const cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    CU_REQUIRE(name && ret && !(flags & ~known) && flags != known, CUDA_ERROR_INVALID_VALUE);
    const struct row *best = NULL;
    bool too_old = false;
    for (const struct row *r = row; r < row + sizeof row / sizeof *row; r++) {
        bool plain = !strcmp(name, r->name), exact = !strcmp(name, r->symbol), own = per_thread(r->symbol);
        if (exact && !plain) {
            best = r;
            break;
        }
        if (!plain || (own && !(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
            continue;
        too_old = too_old || r->since > version;
        if (r->since <= version && (!best || r->since > best->since || (r->since == best->since && own)))
            best = r;
    }
    if (status)
        *status = best      ? CU_GET_PROC_ADDRESS_SUCCESS
                  : too_old ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *ret = best ? best->fn : NULL;
    return best ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
