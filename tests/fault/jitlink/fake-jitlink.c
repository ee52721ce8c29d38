/* nvJitLink for the driver of fake-gpu.c: NVIDIA's own does the work, and the PTX goes along with the machine code in
 * one more section of the ELF file, so that a driver that cannot execute machine code can execute what it was made of.
 *
 * The library is opened by the confined compiler, whose environment has nothing of the tests': NVIDIA's is found where
 * the build has it. Without it this one answers as an nvJitLink that does not work.
 */
#include <dlfcn.h>
#include <elf.h>
#include <nvJitLink.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fault/fake-gpu.h"

#define EXPORT __attribute__((visibility("default")))
#define ERROR NVJITLINK_ERROR_INTERNAL

static void *real;
static char *ptx;
static size_t nptx;

__attribute__((constructor)) static void start(void)
{
    static const char *const places[] = {"targets/x86_64-linux/lib", "lib64", "lib"};
    for (size_t i = 0; i < 3 && !real; i++) {
        char path[4096] = DOVETAIL_CUDA_HOME "/";
        strcat(path, places[i]);
        strcat(path, "/libnvJitLink.so.13");
        real = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
}

/* The headers name these with their version; so does the library. */
#define REAL(name) ((__typeof__(&name))(real ? dlsym(real, #name) : NULL))
#define PASS(name, params, ...)                                                                                        \
    EXPORT nvJitLinkResult name params { return REAL(name) ? REAL(name)(__VA_ARGS__) : ERROR; }
PASS(nvJitLinkVersion, (unsigned *major, unsigned *minor), major, minor)
PASS(__nvJitLinkCreate_13_0, (nvJitLinkHandle * h, uint32_t n, const char *const *option), h, n, option)
PASS(__nvJitLinkComplete_13_0, (nvJitLinkHandle h), h)
PASS(__nvJitLinkGetErrorLogSize_13_0, (nvJitLinkHandle h, size_t *n), h, n)
PASS(__nvJitLinkGetErrorLog_13_0, (nvJitLinkHandle h, char *to), h, to)
PASS(__nvJitLinkGetInfoLogSize_13_0, (nvJitLinkHandle h, size_t *n), h, n)
PASS(__nvJitLinkGetInfoLog_13_0, (nvJitLinkHandle h, char *to), h, to)

EXPORT nvJitLinkResult __nvJitLinkAddData_13_0(nvJitLinkHandle h, nvJitLinkInputType type, const void *data, size_t n,
                                               const char *name)
{
    ptx = malloc(n);
    nptx = ptx ? n : 0; /* with the NUL */
    if (ptx)
        memcpy(ptx, data, n);
    return REAL(__nvJitLinkAddData_13_0) ? REAL(__nvJitLinkAddData_13_0)(h, type, data, n, name) : ERROR;
}

static size_t up(size_t n) { return (n + 7) / 8 * 8; }

EXPORT nvJitLinkResult __nvJitLinkGetLinkedCubinSize_13_0(nvJitLinkHandle h, size_t *ret)
{
    size_t n;
    nvJitLinkResult r =
        REAL(__nvJitLinkGetLinkedCubinSize_13_0) ? REAL(__nvJitLinkGetLinkedCubinSize_13_0)(h, &n) : ERROR;
    if (r == NVJITLINK_SUCCESS)
        *ret = up(n) + up(nptx) + 65536; /* room for the section headers, of which there are fewer than 1,000 */
    return r;
}

EXPORT nvJitLinkResult __nvJitLinkGetLinkedCubin_13_0(nvJitLinkHandle h, void *to)
{
    size_t n;
    if (!real || REAL(__nvJitLinkGetLinkedCubinSize_13_0)(h, &n) != NVJITLINK_SUCCESS)
        return ERROR;
    nvJitLinkResult r = REAL(__nvJitLinkGetLinkedCubin_13_0)(h, to);
    if (r != NVJITLINK_SUCCESS)
        return r;
    Elf64_Ehdr *e = to;
    char *at = to;
    Elf64_Shdr *s = (Elf64_Shdr *)(at + up(n) + up(nptx));
    if (e->e_shnum >= 1000)
        return ERROR;
    memset(at + n, 0, up(n) - n + up(nptx) + 65536);
    memcpy(at + up(n), ptx, nptx);
    memcpy(s, at + e->e_shoff, e->e_shnum * sizeof *s);
    s[e->e_shnum] = (Elf64_Shdr){.sh_type = FAKE_PTX_SECTION, .sh_offset = up(n), .sh_size = nptx, .sh_addralign = 8};
    e->e_shoff = up(n) + up(nptx);
    e->e_shnum++;
    return NVJITLINK_SUCCESS;
}
