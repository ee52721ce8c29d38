/* Checking machine code before a driver gets it: machine code is an ELF file, and a driver is given a pointer without a
 * length, so headers that lie would make it read outside. */
#ifndef DT_BASE_ELF_FILE_H
#define DT_BASE_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Do headers, sections and segments of this 64-bit ELF file lie within its n bytes? */
bool dt_elf_whole(const void *p, size_t n);

#endif
