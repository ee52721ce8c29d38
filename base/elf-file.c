/* Does an ELF file lie within its bytes?
 *
 * cuModuleLoadDataEx takes an image without its length and trusts the offsets in it. So a file that somebody else wrote
 * is checked first: its tables, and what they point to, must lie within the bytes that are there. What the sections
 * hold is left to the driver.
 */
#include "base/elf-file.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

static bool within(uint64_t at, uint64_t bytes, size_t n) { return at <= n && bytes <= n - at; }

bool dt_elf_whole(const void *p, size_t n)
{
    const uint8_t *b = p;
    Elf64_Ehdr h;
    if (n < sizeof h)
        return false;
    memcpy(&h, b, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
        (h.e_shnum && h.e_shentsize != sizeof(Elf64_Shdr)) || (h.e_phnum && h.e_phentsize != sizeof(Elf64_Phdr)) ||
        !h.e_shnum || h.e_shstrndx >= h.e_shnum || !within(h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr), n) ||
        !within(h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr), n))
        return false;
    for (unsigned i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, b + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_NOBITS && !within(s.sh_offset, s.sh_size, n))
            return false;
    }
    for (unsigned i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr s;
        memcpy(&s, b + h.e_phoff + i * sizeof s, sizeof s);
        if (!within(s.p_offset, s.p_filesz, n))
            return false;
    }
    return true;
}
