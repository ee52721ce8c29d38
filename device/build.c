/* Which build of a library this process has loaded.
 *
 * A version ("13.0", 13000) is not enough: NVIDIA ships several builds of one version, and another build may make other
 * code. The linker writes a number into a library that differs with its contents (the GNU build id, a note in its
 * program headers); that is taken, and of NVIDIA's driver also the number in its file's name (libcuda.so.580.65.06). A
 * library without a build id is known by its file's size and time.
 */
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "device/device-priv.h"

#define ID_BYTES 8 /* of the build id */

struct wanted {
    uintptr_t address;
    const unsigned char *id;
    size_t bytes;
};

static void find_note(struct wanted *w, const unsigned char *p, size_t n)
{
    while (n >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) h;
        memcpy(&h, p, sizeof h);
        size_t name = (h.n_namesz + 3u) & ~3u, desc = (h.n_descsz + 3u) & ~3u;
        if (name > n - sizeof h || desc > n - sizeof h - name)
            return;
        if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(p + sizeof h, "GNU", 4)) {
            w->id = p + sizeof h + name;
            w->bytes = h.n_descsz;
            return;
        }
        p += sizeof h + name + desc;
        n -= sizeof h + name + desc;
    }
}

static int look_at(struct dl_phdr_info *i, size_t size, void *user)
{
    struct wanted *w = user;
    bool here = false;
    for (int k = 0; k < i->dlpi_phnum; k++) {
        uintptr_t at = i->dlpi_addr + i->dlpi_phdr[k].p_vaddr;
        here |= i->dlpi_phdr[k].p_type == PT_LOAD && w->address >= at && w->address - at < i->dlpi_phdr[k].p_memsz;
    }
    for (int k = 0; here && !w->id && k < i->dlpi_phnum; k++)
        if (i->dlpi_phdr[k].p_type == PT_NOTE)
            find_note(w, (const unsigned char *)(i->dlpi_addr + i->dlpi_phdr[k].p_vaddr), i->dlpi_phdr[k].p_memsz);
    return here;
}

void dev_library_build(const void *inside, char *out, size_t n)
{
    struct wanted w = {.address = (uintptr_t)inside};
    Dl_info info = {0};
    struct stat st;
    char path[PATH_MAX], id[2 * ID_BYTES + 1] = "";
    dl_iterate_phdr(look_at, &w);
    bool named = dladdr(inside, &info) && info.dli_fname && realpath(info.dli_fname, path);
    const char *slash = named ? strrchr(path, '/') : NULL, *so = slash ? strstr(slash, ".so.") : NULL;
    const char *version = so && strchr(so + 4, '.') ? so + 4 : ""; /* not the "1" of libcuda.so.1 */
    for (size_t i = 0; i < ID_BYTES && i < w.bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", w.id[i]);
    if (*id)
        snprintf(out, n, "%.24s%s%s", version, *version ? "-" : "", id);
    else if (named && !stat(path, &st))
        snprintf(out, n, "%.24s%s%llx.%llx", version, *version ? "-" : "", (unsigned long long)st.st_size,
                 (unsigned long long)st.st_mtim.tv_sec);
    else
        snprintf(out, n, "unknown");
}
