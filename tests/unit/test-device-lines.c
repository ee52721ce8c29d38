/* Line programs of each version that an assembler has written (device/sass-lines.c): the same rows, in headers that
 * differ. The cubins are made here, with a section of code, its line program and the relocation of its start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>

#include "device/machine-priv.h"

enum { NONE, NAMES, TEXT, LINES, SYMBOLS, RELOCATIONS, SECTIONS };
#define INSTRUCTIONS 8

struct image {
    Elf64_Ehdr head;
    Elf64_Shdr section[SECTIONS];
    char names[64];
    uint8_t lines[128];
    Elf64_Sym symbol[2];
    Elf64_Rela relocation;
};

struct bytes {
    uint8_t *p;
    size_t n;
};

static void put(struct bytes *b, const void *p, size_t n)
{
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void put_byte(struct bytes *b, unsigned v) { put(b, &(uint8_t){(uint8_t)v}, 1); }

/* Two instructions of line 7, three of 9, the rest of 3 in the second file. Returns where its start address is. */
static size_t program(struct bytes *b, unsigned version, unsigned first, unsigned range)
{
    static const uint8_t operands[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    static const uint8_t tables[] = "\0a.cu\0\0\0\0b.cu\0\0\0\0";
    put(b, &(uint32_t){0}, 4);
    put(b, &(uint16_t){(uint16_t)version}, 2);
    put(b, &(uint32_t){0}, 4);
    size_t header = b->n;
    put_byte(b, 1); /* smallest step */
    if (version > 3)
        put_byte(b, 1); /* operations an instruction */
    put_byte(b, 1);
    put_byte(b, (unsigned)-5); /* line base */
    put_byte(b, range);
    put_byte(b, first);
    put(b, operands, first - 1);
    put(b, tables, sizeof tables);
    memcpy(b->p + header - 4, &(uint32_t){(uint32_t)(b->n - header)}, 4);
    put(b, "\0\x09\x02", 3);
    size_t at = b->n;
    put(b, &(uint64_t){0}, 8);
    put(b, "\3\6", 2); /* line + 6 */
    if (first > 10)
        put_byte(b, 10);             /* the prologue's end: it moves nothing */
    put_byte(b, 1);                  /* row */
    put(b, "\2\x20", 2);             /* two instructions on */
    put_byte(b, first + 5 + 2);      /* line + 2, row */
    put(b, "\2\x30\4\2\3\x7a\1", 7); /* three on, file 2, line - 6, row */
    put(b, "\2\x30\0\1\1", 5);       /* the end */
    memcpy(b->p, &(uint32_t){(uint32_t)(b->n - 4)}, 4);
    return at;
}

static void section(struct image *m, unsigned k, const char *name, unsigned type, const void *p, size_t n,
                    unsigned link, unsigned info)
{
    m->section[k] =
        (Elf64_Shdr){.sh_name = (uint32_t)((char *)memmem(m->names, sizeof m->names, name, strlen(name)) - m->names),
                     .sh_type = type,
                     .sh_offset = p ? (uint64_t)((const char *)p - (const char *)m) : 0,
                     .sh_size = n,
                     .sh_link = link,
                     .sh_info = info};
}

static void make(struct image *m, unsigned version, unsigned first, unsigned range)
{
    static const char names[] = "\0.shstrtab\0.text.f\0.rela.debug_line\0.symtab";
    memset(m, 0, sizeof *m);
    memcpy(m->names, names, sizeof names);
    struct bytes b = {m->lines, 0};
    size_t start = program(&b, version, first, range);
    memcpy(m->head.e_ident, ELFMAG, SELFMAG);
    m->head.e_ident[EI_CLASS] = ELFCLASS64;
    m->head.e_shoff = offsetof(struct image, section);
    m->head.e_shentsize = sizeof(Elf64_Shdr);
    m->head.e_shnum = SECTIONS;
    m->head.e_shstrndx = NAMES;
    section(m, NAMES, ".shstrtab", SHT_STRTAB, m->names, sizeof m->names, 0, 0);
    section(m, TEXT, ".text.f", SHT_NOBITS, NULL, 16 * INSTRUCTIONS, 0, 0);
    section(m, LINES, ".debug_line", SHT_PROGBITS, m->lines, b.n, 0, 0);
    section(m, SYMBOLS, ".symtab", SHT_SYMTAB, m->symbol, sizeof m->symbol, 0, 0);
    section(m, RELOCATIONS, ".rela.debug_line", SHT_RELA, &m->relocation, sizeof m->relocation, SYMBOLS, LINES);
    m->symbol[1].st_shndx = TEXT;
    m->relocation = (Elf64_Rela){.r_offset = start, .r_info = ELF64_R_INFO(1, 2)};
}

static void test_versions(void **state)
{
    static const struct {
        unsigned version, first, range;
        bool known;
    } x[] = {{2, 10, 14, true},  {3, 13, 14, true},  {4, 13, 14, true},
             {1, 10, 14, false}, {5, 13, 14, false}, {3, 13, 0, false}};
    for (size_t k = 0; k < sizeof x / sizeof *x; k++) {
        struct image m;
        struct elf_file f;
        uint32_t file[INSTRUCTIONS] = {0}, line[INSTRUCTIONS] = {0};
        struct code c = {.n = INSTRUCTIONS, .nentry = INSTRUCTIONS, .ntext = 1, .file = file, .line = line};
        c.text[0].section = TEXT;
        c.text[0].n = INSTRUCTIONS;
        make(&m, x[k].version, x[k].first, x[k].range);
        assert_true(elf_open(&f, &m, sizeof m));
        assert_int_equal(code_lines(&c, &f, false, false), x[k].known ? 0 : 1);
        for (unsigned i = 0; i < INSTRUCTIONS; i++) {
            assert_int_equal(line[i], !x[k].known ? 0 : i < 2 ? 7 : i < 5 ? 9 : 3);
            assert_int_equal(file[i], !x[k].known ? 0 : i < 5 ? 1 : 2);
        }
        if (x[k].known) {
            assert_int_equal(c.nfiles, 2);
            assert_string_equal(c.files[1].name, "b.cu");
        }
        free(c.files);
    }
}

/* Each of its bytes another: no bad read (under ASan), and no line where there is no instruction. */
static void test_damaged(void **state)
{
    for (unsigned version = 2; version <= 4; version++)
        for (size_t at = 0; at < 128; at++)
            for (unsigned v = 0; v < 256; v += 17) {
                struct image m;
                struct elf_file f;
                uint32_t file[INSTRUCTIONS] = {0}, line[INSTRUCTIONS] = {0};
                struct code c = {.n = INSTRUCTIONS, .nentry = INSTRUCTIONS, .ntext = 1, .file = file, .line = line};
                c.text[0].section = TEXT;
                c.text[0].n = INSTRUCTIONS;
                make(&m, version, version > 2 ? 13 : 10, 14);
                m.lines[at] = (uint8_t)v;
                assert_true(elf_open(&f, &m, sizeof m));
                int r = code_lines(&c, &f, false, false);
                assert_true(r == 0 || r == 1);
                free(c.files);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions), cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
