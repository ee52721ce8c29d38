/* Cubins as ELF files: sections by name, and relocations.
 *
 * Every offset is checked before it is followed: a cubin may come from anywhere. It knows nothing of machine code.
 */
#include "device/machine-priv.h"

#include <elf.h>
#include <string.h>

bool elf_section(const struct elf_file *f, unsigned i, struct elf_section *ret)
{
    Elf64_Shdr s;
    uint64_t at = f->shoff + (uint64_t)i * sizeof s;
    if (f->shoff > f->n || i >= f->nsection || at > f->n || f->n - at < sizeof s)
        return false;
    memcpy(&s, f->p + at, sizeof s);
    bool bytes = s.sh_type != SHT_NOBITS;
    if (bytes && (s.sh_offset > f->n || s.sh_size > f->n - s.sh_offset))
        return false;
    *ret = (struct elf_section){.name = s.sh_name < f->nnames ? f->names + s.sh_name : "",
                                .p = bytes ? f->p + s.sh_offset : NULL,
                                .size = s.sh_size,
                                .type = s.sh_type,
                                .link = s.sh_link,
                                .info = s.sh_info};
    return true;
}

bool elf_open(struct elf_file *f, const void *p, size_t n)
{
    Elf64_Ehdr h;
    struct elf_section s;
    memset(f, 0, sizeof *f);
    f->p = p;
    f->n = n;
    if (!p || n < sizeof h)
        return false;
    memcpy(&h, p, sizeof h);
    f->shoff = h.e_shoff;
    f->nsection = h.e_shnum;
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_shentsize != sizeof(Elf64_Shdr) || !elf_section(f, h.e_shstrndx, &s) || !s.p || !s.size || s.p[s.size - 1])
        return false;
    f->names = (const char *)s.p;
    f->nnames = s.size;
    return true;
}

unsigned elf_find(const struct elf_file *f, const char *name, struct elf_section *ret)
{
    struct elf_section s;
    for (unsigned i = 1; i < f->nsection; i++)
        if (elf_section(f, i, &s) && !strcmp(s.name, name)) {
            *ret = s;
            return i;
        }
    return 0;
}

bool elf_target(const struct elf_file *f, unsigned section, uint64_t at, unsigned *ret_section, uint64_t *ret_offset)
{
    struct elf_section r, symbols;
    for (unsigned i = 1; i < f->nsection; i++) {
        if (!elf_section(f, i, &r) || (r.type != SHT_RELA && r.type != SHT_REL) || r.info != section || !r.p)
            continue;
        size_t one = r.type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
        for (uint64_t k = 0; k + one <= r.size; k += one) {
            Elf64_Rela a = {0};
            Elf64_Sym s;
            memcpy(&a, r.p + k, one);
            if (a.r_offset != at)
                continue;
            uint64_t sym = ELF64_R_SYM(a.r_info) * sizeof s;
            if (!elf_section(f, r.link, &symbols) || !symbols.p || sym > symbols.size || symbols.size - sym < sizeof s)
                return false;
            memcpy(&s, symbols.p + sym, sizeof s);
            *ret_section = s.st_shndx;
            *ret_offset = s.st_value + (uint64_t)a.r_addend;
            return true;
        }
    }
    return false;
}
