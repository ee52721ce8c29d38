/* Our entries in place of the driver's, in a program that is running already.
 *
 * A driver that finds the library by CUDA_INJECTION64_PATH alone loads it in cuInit, when who calls the driver has its
 * addresses: in the tables of the linker, for what is linked with libcuda.so.1, and in tables of its own, for what
 * looked them up, as a CUDA runtime does before it calls cuInit. So in every loaded object but the driver, this library
 * and the vDSO
 *
 *   slots of the linker   for one of the names in hooks.def, dlsym or cuGetProcAddress get ours, bound or not
 *   data                  (.data, .bss) aligned words that are the address of one of the driver's entries, as dlsym or
 *                         cuGetProcAddress gives it, become ours: a number that is such an address by chance is not
 *                         to be thought of
 *
 * From then on what is looked up goes through ours, too. Objects that come later are gone through when a module is
 * loaded or something launched next. What is not seen: addresses that a program keeps in memory of its heap, and what
 * was called before.
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/inject/inject.h"

#define MOST_BYTES ((uint64_t)256 << 20) /* of one object's data */
#define CHUNK 4096u
#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#endif

struct taken {
    const struct inj_swap *swap;
    size_t n;
    uintptr_t driver, mine; /* an address in each */
    int mem;                /* /proc/self/mem: what cannot be read is an error, no fault */
};
static unsigned long long seen; /* objects that were ever loaded, when they were gone through */

static bool in_object(const struct dl_phdr_info *o, uintptr_t at)
{
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_LOAD && at - o->dlpi_addr - o->dlpi_phdr[i].p_vaddr < o->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

/* Is it in the part that the linker protects once it is done? */
static bool protected_after(const struct dl_phdr_info *o, uintptr_t at)
{
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_GNU_RELRO &&
            at - o->dlpi_addr - o->dlpi_phdr[i].p_vaddr < o->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static void store(const struct dl_phdr_info *o, uintptr_t at, void *to)
{
    uintptr_t page = at & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
    if (mprotect((void *)page, at + sizeof to - page, PROT_READ | PROT_WRITE) < 0)
        return;
    __atomic_store_n((void **)at, to, __ATOMIC_RELEASE);
    if (protected_after(o, at))
        mprotect((void *)page, at + sizeof to - page, PROT_READ);
}

static void slots(const struct taken *t, const struct dl_phdr_info *o, const ElfW(Dyn) * d)
{
    uintptr_t symbols = 0, names = 0, slot = 0;
    size_t bytes = 0;
    for (; d->d_tag != DT_NULL; d++) {
        uintptr_t p = d->d_un.d_ptr < o->dlpi_addr ? o->dlpi_addr + d->d_un.d_ptr : d->d_un.d_ptr;
        symbols = d->d_tag == DT_SYMTAB ? p : symbols;
        names = d->d_tag == DT_STRTAB ? p : names;
        slot = d->d_tag == DT_JMPREL ? p : slot;
        bytes = d->d_tag == DT_PLTRELSZ ? d->d_un.d_val : bytes;
    }
    const ElfW(Rela) *r = (const ElfW(Rela) *)slot;
    for (size_t k = 0; symbols && names && slot && k < bytes / sizeof *r; k++) {
        const ElfW(Sym) *s = (const ElfW(Sym) *)symbols + ELF64_R_SYM(r[k].r_info);
        const char *name = (const char *)names + s->st_name;
        for (size_t i = 0; i < t->n && ELF64_R_TYPE(r[k].r_info) == JUMP_SLOT; i++)
            if (t->swap[i].name && !strcmp(name, t->swap[i].name)) {
                store(o, o->dlpi_addr + r[k].r_offset, t->swap[i].to);
                break;
            }
    }
}

static void data(const struct taken *t, const struct dl_phdr_info *o, const ElfW(Phdr) * h)
{
    uintptr_t word[CHUNK / sizeof(uintptr_t)], from = (o->dlpi_addr + h->p_vaddr + 7) & ~(uintptr_t)7;
    uintptr_t end = o->dlpi_addr + h->p_vaddr + (h->p_memsz < MOST_BYTES ? h->p_memsz : MOST_BYTES);
    for (uintptr_t at = from; at < end;) {
        size_t want = CHUNK - at % CHUNK; /* a page at a time */
        want = want < end - at ? want : end - at;
        ssize_t got = pread(t->mem, word, want, (off_t)at);
        for (size_t k = 0; got > 0 && k < (size_t)got / sizeof *word; k++)
            for (size_t i = 0; i < t->n && word[k] > CHUNK; i++)
                if (word[k] == (uintptr_t)t->swap[i].from) {
                    store(o, at + k * sizeof *word, t->swap[i].to);
                    break;
                }
        at += want;
    }
}

static int object(struct dl_phdr_info *o, size_t size, void *user)
{
    const struct taken *t = user;
    seen = o->dlpi_adds;
    if (in_object(o, t->driver) || in_object(o, t->mine) || strstr(o->dlpi_name, "linux-vdso"))
        return 0;
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &o->dlpi_phdr[i];
        if (h->p_type == PT_DYNAMIC)
            slots(t, o, (const ElfW(Dyn) *)(o->dlpi_addr + h->p_vaddr));
        else if (h->p_type == PT_LOAD && h->p_flags & PF_W)
            data(t, o, h);
    }
    return 0;
}

static int newest(struct dl_phdr_info *o, size_t size, void *user)
{
    *(unsigned long long *)user = o->dlpi_adds;
    return 1;
}

void inj_take_over(void)
{
    unsigned long long now = 0;
    struct taken t = {.mine = (uintptr_t)inj_take_over};
    dl_iterate_phdr(newest, &now);
    if (seen && now == seen)
        return;
    t.swap = inj_swaps(&t.n);
    t.driver = t.swap ? (uintptr_t)t.swap[0].from : 0;
    t.mem = t.driver ? open("/proc/self/mem", O_RDONLY | O_CLOEXEC) : -1;
    if (t.mem < 0)
        return;
    dl_iterate_phdr(object, &t);
    close(t.mem);
}
