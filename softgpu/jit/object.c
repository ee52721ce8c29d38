/* Placing an object file: sections, symbols, relocations (System V ABI, AMD64 supplement, table 4.10). See object.h.
 *
 * A region refers to nothing but its own constants: handlers are called by address, and what LLVM would call of the C
 * library for such code is nothing. So the relocations are those within the file; anything else is refused.
 */
#include "softgpu/jit/object.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

struct sg_object {
    uint8_t *memory;
    size_t bytes;
};

struct file {
    const uint8_t *p;
    size_t n;
    const Elf64_Shdr *section;
    unsigned sections;
    uint64_t *at; /* by section: offset in memory; UINT64_MAX: it is not there */
};

static bool object_inside(const struct file *f, uint64_t at, uint64_t n) { return at <= f->n && n <= f->n - at; }

static bool is_loaded(const Elf64_Shdr *s)
{
    return s->sh_flags & SHF_ALLOC && s->sh_type != SHT_X86_64_UNWIND && s->sh_size;
}

static const char *sections(struct file *f, size_t *ret_bytes)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)f->p;
    if (f->n < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_machine != EM_X86_64 || h->e_type != ET_REL ||
        h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff % 8 ||
        !object_inside(f, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return "not an object file of this machine";
    f->section = (const Elf64_Shdr *)(const void *)(f->p + h->e_shoff);
    f->sections = h->e_shnum;
    if (!(f->at = dt_calloc(f->sections + 1, sizeof *f->at)))
        return "memory is out";
    size_t bytes = 0;
    for (unsigned i = 0; i < f->sections; i++) {
        const Elf64_Shdr *s = &f->section[i];
        f->at[i] = UINT64_MAX;
        if (!is_loaded(s))
            continue;
        uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
        if ((s->sh_type != SHT_NOBITS && !object_inside(f, s->sh_offset, s->sh_size)) || align > 4096 ||
            s->sh_size > 64u << 20)
            return "a section that is out of bounds";
        bytes = (bytes + align - 1) / align * align;
        f->at[i] = bytes;
        bytes += s->sh_size;
    }
    *ret_bytes = bytes;
    return bytes ? NULL : "no code";
}

static const Elf64_Sym *symbol(const struct file *f, const Elf64_Shdr *table, uint64_t i)
{
    if (table->sh_type != SHT_SYMTAB || table->sh_offset % 8 || !object_inside(f, table->sh_offset, table->sh_size) ||
        i >= table->sh_size / sizeof(Elf64_Sym))
        return NULL;
    return (const Elf64_Sym *)(const void *)(f->p + table->sh_offset) + i;
}

static const char *relocate(const struct file *f, const Elf64_Shdr *s, uint8_t *memory)
{
    if (s->sh_type == SHT_REL)
        return "relocations of another kind";
    if (s->sh_type != SHT_RELA || s->sh_info >= f->sections || f->at[s->sh_info] == UINT64_MAX)
        return NULL;
    if (s->sh_link >= f->sections || s->sh_offset % 8 || !object_inside(f, s->sh_offset, s->sh_size))
        return "relocations that are out of bounds";
    const Elf64_Rela *r = (const Elf64_Rela *)(const void *)(f->p + s->sh_offset);
    for (uint64_t i = 0; i < s->sh_size / sizeof *r; i++) {
        const Elf64_Sym *y = symbol(f, &f->section[s->sh_link], ELF64_R_SYM(r[i].r_info));
        if (!y || !y->st_shndx || y->st_shndx >= f->sections || f->at[y->st_shndx] == UINT64_MAX)
            return "it calls what is not in it";
        uint64_t size = f->section[s->sh_info].sh_size, width = ELF64_R_TYPE(r[i].r_info) == R_X86_64_64 ? 8 : 4;
        if (r[i].r_offset > size || width > size - r[i].r_offset)
            return "a relocation that is out of bounds";
        uint8_t *where = memory + f->at[s->sh_info] + r[i].r_offset;
        uint64_t to = (uint64_t)(uintptr_t)memory + f->at[y->st_shndx] + y->st_value + (uint64_t)r[i].r_addend;
        int64_t far = (int64_t)(to - (uint64_t)(uintptr_t)where);
        switch (ELF64_R_TYPE(r[i].r_info)) {
        case R_X86_64_64: memcpy(where, &to, 8); break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32: {
            int32_t v = (int32_t)far;
            if (v != far)
                return "a relocation that does not reach";
            memcpy(where, &v, 4);
            break;
        }
        default: return "a relocation that is not known here";
        }
    }
    return NULL;
}

static void *find(const struct file *f, const char *name, uint8_t *memory)
{
    for (unsigned k = 0; k < f->sections; k++) {
        const Elf64_Shdr *t = &f->section[k];
        if (t->sh_type != SHT_SYMTAB || t->sh_link >= f->sections)
            continue;
        const Elf64_Shdr *names = &f->section[t->sh_link];
        const Elf64_Sym *y;
        for (uint64_t i = 0; (y = symbol(f, t, i)); i++) {
            size_t n = strlen(name) + 1;
            if (y->st_shndx && y->st_shndx < f->sections && f->at[y->st_shndx] != UINT64_MAX &&
                y->st_name < names->sh_size && n <= names->sh_size - y->st_name &&
                object_inside(f, names->sh_offset, names->sh_size) &&
                !memcmp(f->p + names->sh_offset + y->st_name, name, n) && y->st_value < f->section[y->st_shndx].sh_size)
                return memory + f->at[y->st_shndx] + y->st_value;
        }
    }
    return NULL;
}

void *sg_object_load(const void *file, size_t bytes, const char *function, struct sg_object **ret, const char **ret_why)
{
    struct file f = {.p = file, .n = bytes};
    struct sg_object *o = dt_calloc(1, sizeof *o);
    void *at = NULL;
    *ret = NULL;
    const char *why = o ? sections(&f, &o->bytes) : "memory is out";
    if (!why) {
        o->memory = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (o->memory == MAP_FAILED) {
            o->memory = NULL;
            why = "no memory for code";
        }
    }
    for (unsigned i = 0; !why && i < f.sections; i++)
        if (f.at[i] != UINT64_MAX && f.section[i].sh_type != SHT_NOBITS)
            memcpy(o->memory + f.at[i], f.p + f.section[i].sh_offset, f.section[i].sh_size);
    for (unsigned i = 0; !why && i < f.sections; i++)
        why = relocate(&f, &f.section[i], o->memory);
    if (!why && !(at = find(&f, function, o->memory)))
        why = "the function is not in it";
    if (!why && mprotect(o->memory, o->bytes, PROT_READ | PROT_EXEC))
        why = "this process may not make memory executable";
    free(f.at);
    *ret_why = why;
    if (why) {
        sg_object_free(o);
        return NULL;
    }
    *ret = o;
    return at;
}

uint8_t *sg_object_code(const void *code, size_t bytes, struct sg_object **ret)
{
    struct sg_object *o = dt_calloc(1, sizeof *o);
    *ret = NULL;
    if (!o)
        return NULL;
    o->bytes = bytes;
    o->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (o->memory == MAP_FAILED)
        o->memory = NULL;
    if (o->memory)
        memcpy(o->memory, code, bytes);
    if (!o->memory || mprotect(o->memory, bytes, PROT_READ | PROT_EXEC)) {
        sg_object_free(o);
        return NULL;
    }
    *ret = o;
    return o->memory;
}

void sg_object_free(struct sg_object *o)
{
    if (o && o->memory)
        munmap(o->memory, o->bytes);
    free(o);
}
