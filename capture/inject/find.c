/* How the program comes to call our entries, and we the driver's.
 *
 * The library is preloaded. Who links libcuda.so.1 finds our entries first; who opens it (every CUDA runtime does)
 * finds them through dlsym, which is ours too, and through cuGetProcAddress, which picks the shape of an entry by the
 * version of CUDA that the program knows: entries.def of the software device has all shapes. Nothing else is changed:
 * a name that is not in hooks.def, and every name where nothing is captured, is the driver's own.
 *
 * InitializeInjection is for a driver that finds the library by CUDA_INJECTION64_PATH. Callers have the driver's
 * addresses by then: takeover.c changes them. With the preload it has nothing left to do.
 */
#include <dlfcn.h>
#include <string.h>

#include "capture/inject/inject.h"

typedef void *dlsym_t(void *, const char *);
typedef CUresult proc_t(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

#undef cuGetProcAddress
#pragma GCC visibility push(default)
void *dlsym(void *restrict handle, const char *restrict name);
int InitializeInjection(void);
CUresult cuGetProcAddress(const char *name, void **ret, int version, cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char *name, void **ret, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status);
#pragma GCC visibility pop

#define BOTH(symbol, suffix) HOOK(symbol) HOOK(symbol##suffix)
#define HOOK(symbol) extern CUresult at_##symbol(void) __asm__(#symbol);
#include "capture/inject/hooks.def"
#undef HOOK
static const struct hook {
    const char *symbol;
    void *hook;
} hooks[] = {
#define HOOK(symbol) {#symbol, (void *)at_##symbol},
#include "capture/inject/hooks.def"
};

static const struct shape {
    const char *name, *symbol; /* plain; with suffixes */
    int since;
} shapes[] = {
#define ENTRY(name, symbol, since, file) {#name, #symbol, since},
#define REFUSED(name, symbol, since, why) {#name, #symbol, since},
#define EXTENSION(name, file)
#include "softgpu/libcuda/entries.def"
};

static dlsym_t *real_dlsym(void)
{
    static dlsym_t *p;
    static const char *const version[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t i = 0; !p && i < sizeof version / sizeof *version; i++)
        *(void **)&p = dlvsym(RTLD_NEXT, "dlsym", version[i]);
    return p;
}

void *inj_symbol(const char *symbol)
{
    void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    dlsym_t *f = real_dlsym();
    void *p = lib && f ? f(lib, symbol) : NULL;
    if (lib)
        dlclose(lib);
    return p;
}

/* Ours in place of the driver's. */
static void *hooked(const char *symbol, void *real)
{
    for (size_t i = 0; real && i < sizeof hooks / sizeof *hooks && inj_on(); i++)
        if (!strcmp(symbol, hooks[i].symbol))
            return hooks[i].hook;
    return real;
}

/* Which shape cuGetProcAddress gives for a name: the newest that `version` knows, with flags its form for per-thread
 * default streams. */
static const char *shape_of(const char *name, int version, cuuint64_t flags)
{
    const struct shape *best = NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        size_t n = strlen(s->symbol);
        bool own = n > 5 && (!strcmp(s->symbol + n - 5, "_ptds") || !strcmp(s->symbol + n - 5, "_ptsz"));
        if (!strcmp(name, s->symbol) && strcmp(name, s->name) != 0)
            return s->symbol;
        if (strcmp(name, s->name) != 0 || s->since > version ||
            (own && !(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
            continue;
        if (!best || s->since > best->since || (s->since == best->since && own))
            best = s;
    }
    return best ? best->symbol : name;
}

CUresult cuGetProcAddress_v2(const char *name, void **ret, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    proc_t *real;
    *(void **)&real = inj_symbol("cuGetProcAddress_v2");
    CUresult r = real ? real(name, ret, version, flags, status) : CUDA_ERROR_NOT_FOUND;
    if (r == CUDA_SUCCESS && ret)
        *ret = hooked(shape_of(name, version, flags), *ret);
    return r;
}

CUresult cuGetProcAddress(const char *name, void **ret, int version, cuuint64_t flags)
{
    CUresult (*real)(const char *, void **, int, cuuint64_t);
    *(void **)&real = inj_symbol("cuGetProcAddress");
    CUresult r = real ? real(name, ret, version, flags) : CUDA_ERROR_NOT_FOUND;
    if (r == CUDA_SUCCESS && ret)
        *ret = hooked(shape_of(name, version, flags), *ret);
    return r;
}

/* The last call is a jump: RTLD_NEXT and RTLD_DEFAULT are about who called. */
__attribute__((optimize("O2"), noinline)) void *dlsym(void *restrict handle, const char *restrict name)
{
    dlsym_t *f = real_dlsym();
    if (name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z')
        return hooked(name, f(handle, name));
    return f(handle, name);
}

/* The driver's own addresses, and ours. An entry may have two: as dlsym finds it, and as cuGetProcAddress gives it. */
const struct inj_swap *inj_swaps(size_t *ret_n)
{
    static struct inj_swap all[2 * (sizeof hooks / sizeof *hooks) + 3];
    size_t n = 0;
    proc_t *get;
    dlsym_t *mine = dlsym;
    CUresult (*old)(const char *, void **, int, cuuint64_t) = cuGetProcAddress;
    proc_t *proc = cuGetProcAddress_v2;
    *(void **)&get = inj_symbol("cuGetProcAddress_v2");
    struct inj_swap more[] = {{"cuGetProcAddress_v2", *(void **)&get, *(void **)&proc},
                              {"cuGetProcAddress", inj_symbol("cuGetProcAddress"), *(void **)&old},
                              {"dlsym", (void *)real_dlsym(), *(void **)&mine}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i].from)
            all[n++] = more[i];
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        void *real = inj_symbol(hooks[i].symbol), *given = NULL;
        size_t k = 0;
        while (k < sizeof shapes / sizeof *shapes && strcmp(shapes[k].symbol, hooks[i].symbol) != 0)
            k++;
        if (get && k < sizeof shapes / sizeof *shapes) {
            size_t len = strlen(hooks[i].symbol);
            bool own =
                len > 5 && (!strcmp(hooks[i].symbol + len - 5, "_ptds") || !strcmp(hooks[i].symbol + len - 5, "_ptsz"));
            if (get(shapes[k].name, &given, shapes[k].since,
                    own ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                    NULL) != CUDA_SUCCESS)
                given = NULL;
        }
        if (real)
            all[n++] = (struct inj_swap){hooks[i].symbol, real, hooks[i].hook};
        if (real && given && given != real)
            all[n++] = (struct inj_swap){NULL, given, hooks[i].hook};
    }
    *ret_n = n;
    return n && all[0].from ? all : NULL;
}

static bool alone; /* there by CUDA_INJECTION64_PATH, without the preload */

void inj_objects(void)
{
    if (alone)
        inj_take_over();
}

int InitializeInjection(void)
{
    dlsym_t *f = dlsym;
    alone = real_dlsym()(RTLD_DEFAULT, "dlsym") != *(void **)&f && inj_on();
    inj_objects();
    return 1;
}
