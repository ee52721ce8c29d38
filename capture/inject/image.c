/* Modules and functions: which image a module or library was loaded from, and whose entry a function is.
 *
 * An image goes into the trace when it is loaded, once for each content. Of a fat binary only the entries with PTX are
 * written (machine code for every GPU can have hundreds of megabytes); a cubin whole, so that the PTX beside its copy
 * in a compiler's cache can be found. The length of an image is its own word: text ends at its NUL, a container and an
 * ELF file say theirs.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/inject/inject.h"

enum { FATBIN_HEADER = 16, KIND_PTX = 1, WRAPPER = 0x466243b1, CONTAINER = (int)0xBA55ED50 };

struct known { /* a handle and what it stands for */
    const void *handle;
    bool library;
    uint32_t image, function; /* function: of functions only */
    char *name;
};
static struct known *known;
static size_t nknown, room;
static struct seen {
    uint64_t hash, bytes;
} * seen;
static uint32_t nseen, nfunction;

static struct known *known_at(const void *handle)
{
    for (size_t i = nknown; i-- > 0;) /* a handle may come again: the newest counts */
        if (known[i].handle == handle)
            return &known[i];
    return NULL;
}

static void known_add(struct known k)
{
    struct known *old = known_at(k.handle);
    if (old) {
        *old = k;
        return;
    }
    if (nknown == room) {
        struct known *p = realloc(known, (room ? room * 2 : 64) * sizeof *p);
        if (!p)
            return;
        known = p;
        room = room ? room * 2 : 64;
    }
    known[nknown++] = k;
}

static uint64_t hash_of(const uint8_t *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint32_t image_number(uint32_t form, const uint8_t *p, size_t n)
{
    uint64_t h = hash_of(p, n);
    for (uint32_t i = 0; i < nseen; i++)
        if (seen[i].hash == h && seen[i].bytes == n)
            return i;
    struct seen *more = realloc(seen, (nseen + 1) * sizeof *more);
    if (!more)
        return CAP_NO_IMAGE;
    seen = more;
    seen[nseen] = (struct seen){h, n};
    struct cap_image_head c = {.image = nseen, .form = form};
    inj_record(CAP_IMAGE, &c, sizeof c, p, n, NULL, 0);
    return nseen++;
}

static uint64_t image_field(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, bytes);
    return v;
}

/* The container with the entries that hold PTX alone. */
static uint32_t fatbin_number(const uint8_t *p)
{
    size_t head = image_field(p + 6, 2), total = image_field(p + 8, 8);
    if (head < FATBIN_HEADER || total > (size_t)4 << 30)
        return CAP_NO_IMAGE;
    uint8_t *copy = malloc(head + total);
    if (!copy)
        return CAP_NO_IMAGE;
    size_t n = head, at = 0;
    memcpy(copy, p, head);
    while (at + 64 <= total) {
        const uint8_t *e = p + head + at;
        uint64_t own = image_field(e + 4, 4), bytes = image_field(e + 8, 8);
        if (own < 64 || own > total - at || bytes > total - at - own)
            break;
        if (image_field(e, 2) == KIND_PTX) {
            memcpy(copy + n, e, own + bytes);
            n += own + bytes;
        }
        at += own + bytes;
    }
    uint64_t left = n - head;
    memcpy(copy + 8, &left, sizeof left);
    uint32_t i = image_number(CAP_FATBIN, copy, n);
    free(copy);
    return i;
}

static size_t elf_bytes(const uint8_t *p)
{
    Elf64_Ehdr e;
    memcpy(&e, p, sizeof e);
    uint64_t end = e.e_shoff + (uint64_t)e.e_shnum * e.e_shentsize,
             more = e.e_phoff + (uint64_t)e.e_phnum * e.e_phentsize;
    end = more > end ? more : end;
    return e.e_ident[EI_CLASS] == ELFCLASS64 && end < (uint64_t)1 << 31 ? end : 0;
}

static uint32_t image_of(const uint8_t *p)
{
    int magic = (int)image_field(p, 4);
    if (magic == WRAPPER) { /* magic, version, the container */
        const uint8_t *inner;
        memcpy(&inner, p + 8, sizeof inner);
        return inner ? image_of(inner) : CAP_NO_IMAGE;
    }
    if (magic == CONTAINER)
        return fatbin_number(p);
    if (!memcmp(p, ELFMAG, SELFMAG)) {
        size_t n = elf_bytes(p);
        return n ? image_number(CAP_CUBIN, p, n) : CAP_NO_IMAGE;
    }
    return image_number(CAP_PTX, p, strlen((const char *)p));
}

void inj_image(const void *handle, bool library, const void *image)
{
    inj_objects();
    if (handle && image)
        known_add((struct known){.handle = handle, .library = library, .image = image_of(image)});
}

void inj_image_file(const void *handle, bool library, const char *path)
{
    struct stat st;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
        uint8_t *p = calloc(1, (size_t)st.st_size + 64); /* text ends in a NUL */
        if (p && read(fd, p, (size_t)st.st_size) == st.st_size)
            inj_image(handle, library, p);
        free(p);
    }
    if (fd >= 0)
        close(fd);
}

void inj_same(const void *handle, const void *of)
{
    struct known *k = known_at(of);
    if (k && handle) {
        struct known copy = *k;
        copy.handle = handle;
        copy.library = false;
        known_add(copy);
    }
}

void inj_function(const void *handle, const void *module, const char *name)
{
    struct known *m = known_at(module), *f = known_at(handle);
    uint32_t image = m ? m->image : CAP_NO_IMAGE;
    if (!handle || !name || (f && f->name && f->image == image && !strcmp(f->name, name)))
        return;
    struct cap_function c = {.function = nfunction, .image = image};
    inj_record(CAP_FUNCTION, &c, sizeof c, name, strlen(name), NULL, 0);
    known_add((struct known){.handle = handle, .image = image, .function = nfunction++, .name = strdup(name)});
}

void inj_variable(const void *module, const char *name, CUdeviceptr at, size_t bytes)
{
    struct known *m = known_at(module);
    struct cap_variable c = {.at = at, .bytes = bytes, .image = m ? m->image : CAP_NO_IMAGE};
    if (name)
        inj_record(CAP_VARIABLE, &c, sizeof c, name, strlen(name), NULL, 0);
}

/* A module that a library has in the current context, and that the program did not ask for. */
static void find_library(CUmodule m)
{
    CUmodule of;
    for (size_t i = 0; i < nknown && m && !known_at(m); i++)
        if (known[i].library && REAL(cuLibraryGetModule, &of, (CUlibrary)known[i].handle) == CUDA_SUCCESS && of == m)
            inj_same(m, known[i].handle);
}

uint32_t inj_function_number(CUfunction f)
{
    struct known *k = known_at(f);
    const char *name = NULL;
    CUmodule m = NULL;
    if (k && k->name)
        return k->function;
    /* one that the program got in another way: the driver knows */
    if (REAL(cuFuncGetName, &name, f) == CUDA_SUCCESS && name) {
        if (REAL(cuFuncGetModule, &m, f) != CUDA_SUCCESS)
            m = NULL;
        find_library(m);
        inj_function(f, m, name);
    }
    k = known_at(f);
    return k && k->name ? k->function : CAP_NO_IMAGE;
}
