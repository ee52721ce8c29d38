/* What a module image is: PTX text, or a fat binary with PTX in it (a container, or the wrapper struct that nvcc puts
 * into programs).
 *
 * SASS alone is refused with CUDA_ERROR_NO_BINARY_FOR_GPU: this device executes PTX. An image has no length in this
 * API: text ends at its NUL, a container says its own size.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "softgpu/libcuda/cu-priv.h"

static bool starts(const unsigned char *p, const char *with, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (unsigned char)with[i])
            return false;
    return true;
}

static CUresult from_container(const void *data, size_t bytes, unsigned cc, char **ret, size_t *ret_len)
{
    switch (sg_fatbin_ptx(data, bytes, cc, ret, ret_len)) {
    case 0: return CUDA_SUCCESS;
    case DT_E_NOT_FOUND: return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case DT_E_NOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_INVALID_IMAGE;
    }
}

static CUresult from_fatbin(const void *data, unsigned cc, char **ret, size_t *ret_len)
{
    return from_container(data, sg_fatbin_bytes(data), cc, ret, ret_len);
}

/* What may be PTX: it begins with a directive or a comment. */
static CUresult copy_text(const char *text, size_t len, char **ret, size_t *ret_len)
{
    size_t at = 0;
    len = strnlen(text, len);
    while (at < len && strchr(" \t\r\n\f\v", text[at]))
        at++;
    CU_REQUIRE(at < len && (text[at] == '.' || text[at] == '/'), CUDA_ERROR_INVALID_IMAGE);
    char *copy = dt_malloc(len + 1);
    CU_REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(copy, text, len);
    copy[len] = 0;
    *ret = copy;
    *ret_len = len;
    return CUDA_SUCCESS;
}

CUresult cu_image_text(const struct sg_model *m, const void *image, char **ret, size_t *ret_len)
{
    const unsigned char *p = image;
    CU_REQUIRE(image, CUDA_ERROR_INVALID_VALUE);
    unsigned cc = m->cc_major * 10 + m->cc_minor;
    if (starts(p, "\177ELF", 4))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (starts(p, "\xb1\x43\x62\x46", 4)) { /* __fatDeviceText: magic, version, the container, a file name */
        struct {
            uint32_t magic, version;
            const void *data, *file;
        } w;
        memcpy(&w, p, sizeof w);
        CU_REQUIRE(w.version == 1 && w.data && sg_fatbin_is(w.data), CUDA_ERROR_INVALID_IMAGE);
        return from_fatbin(w.data, cc, ret, ret_len);
    }
    if (sg_fatbin_is(image))
        return from_fatbin(image, cc, ret, ret_len);
    return copy_text(image, strnlen(image, PTX_MAX_BYTES), ret, ret_len);
}

CUresult cu_image_bytes(const struct sg_model *m, const void *image, size_t bytes, char **ret, size_t *ret_len)
{
    CU_REQUIRE(image && bytes, CUDA_ERROR_INVALID_VALUE);
    if (bytes >= 4 && starts(image, "\177ELF", 4))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (bytes >= 4 && sg_fatbin_is(image))
        return from_container(image, bytes, m->cc_major * 10 + m->cc_minor, ret, ret_len);
    return copy_text(image, bytes, ret, ret_len);
}

CUresult cu_image_file(const struct sg_model *m, const char *path, char **ret, size_t *ret_len)
{
    char *data = NULL;
    size_t len;
    int r = dt_read_file(path, PTX_MAX_BYTES, &data, &len, NULL);
    CU_REQUIRE(!r, r == DT_E_NOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_FILE_NOT_FOUND);
    CUresult res = cu_image_bytes(m, data, len, ret, ret_len);
    free(data);
    return res;
}

bool cu_text_too_new(const char *ptx, unsigned *major, unsigned *minor)
{
    const char *p = strstr(ptx, ".version");
    char *end;
    if (!p)
        return false;
    unsigned long a = strtoul(p + 8, &end, 10), b = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    *major = a > 999 ? 999 : (unsigned)a;
    *minor = b > 999 ? 999 : (unsigned)b;
    return a > PTX_NEWEST_MAJOR || (a == PTX_NEWEST_MAJOR && b > PTX_NEWEST_MINOR);
}
