/* The machine code that a plan carries, on a device.
 *
 * A plan's kernels were compared with the posted ones as machine code of one assembler (docs/BITS.md). Another
 * assembler, or another version of it, may make other code of the same PTX; so may the driver's compiler. So on a real
 * device a module of a plan runs as the first of these that is possible:
 *
 *   1. the code that nvJitLink makes of its PTX here, if it equals the carried code byte for byte. Then the driver gets
 *      no bytes from a stranger.
 *   2. the code that nvJitLink makes here, if it differs from the carried code or the plan carries none, and if it has
 *      the same arithmetic as what the same nvJitLink makes of the posted modules. rw_carried of rewrite/ compares the
 *      two and puts this code in the place of the carried code.
 *   3. the carried code, if no nvJitLink is at hand, the code is for this architecture and the driver takes it.
 *   4. nothing: the posted launches run instead (verb `run` of the worker).
 *
 * The software device executes PTX and looks at none of this. libdovetail has no assembler: it loads the carried code
 * (client/plan-load.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/elf-file.h"
#include "device/device-priv.h"

bool dev_assembler_of(const void *cubin, size_t n, char version[32])
{
    static const char words[] = "Cuda compilation tools, release ";
    const char *end = (const char *)cubin + n, *p = memmem(cubin, n, words, sizeof words - 1);
    p = p ? memmem(p, (size_t)(end - p) < 80 ? (size_t)(end - p) : 80, ", V", 3) : NULL;
    size_t k = 0;
    for (p = p ? p + 3 : end; p + k < end && k < 31 && strchr("0123456789.", p[k]) && p[k]; k++)
        version[k] = p[k];
    version[k] = 0;
    return k > 0;
}

/* What the assembler here makes of it. DT_E_NO_COMPILER: there is none, or it does not know the device. */
static int assemble(const struct dev_device *d, const char *ptx, size_t len, void **ret, size_t *ret_len,
                    struct dt_err *e)
{
    const char *at = dev_directive(ptx, len, ".target");
    char target[32], arch[16];
    snprintf(target, sizeof target, "%.*s", at ? (int)(strcspn(at, ", \t\r\n/") % 32) : 0, at ? at : "");
    int r = dev_arch_for(&d->info, target, arch, e);
    return r < 0 ? r : dev_assemble(ptx, len, arch, ret, ret_len, e);
}

static void other_code(const struct dt_module *m, const void *ours, size_t n, struct dt_str *why)
{
    char then[32], now[32];
    bool known = dev_assembler_of(m->cubin, m->cubin_len, then);
    dev_assembler_of(ours, n, now);
    dt_str_addf(why,
                "the plan's kernels were compared with the posted ones as nvJitLink %s made them; of module '%s' "
                "nvJitLink %s makes other code here",
                known ? then : "of an unknown version", m->name, now);
}

/* Without an assembler: does the driver take the code that is carried? */
static int taken(struct dev_device *d, const struct dt_module *m, struct dt_str *why, struct dt_err *e)
{
    CUmodule mod = NULL;
    struct dt_err inner = {0};
    if (!dt_elf_whole(m->cubin, m->cubin_len))
        return dt_err_set(e, DT_E_GRAPH, "the plan's machine code is no whole ELF file");
    int r = dev_use(d, e);
    if (r < 0)
        return r;
    r = dev_cu(d, d->cu->cuModuleLoadDataEx(&mod, m->cubin, 0, NULL, NULL), "the machine code that was compared",
               &inner);
    if (r == 0)
        d->cu->cuModuleUnload(mod);
    else
        dt_str_addf(why, "module '%s': %s", m->name, inner.detail ? inner.detail : "the driver does not take it");
    dt_err_done(&inner);
    return r == 0;
}

int dev_carried(struct dev_device *d, const struct dt_module *m, void **ret, size_t *ret_len, struct dt_str *why,
                struct dt_err *e)
{
    void *mine = NULL;
    size_t n = 0;
    struct dt_err inner = {0};
    if (d->cu->soft)
        return 1;
    int r = m->is_ptx ? assemble(d, m->source, m->len, &mine, &n, &inner) : DT_E_NO_COMPILER;
    if (r < 0 && r != DT_E_NO_COMPILER) {
        dt_err_move(e, &inner);
        return r;
    }
    dt_err_done(&inner);
    if (r == 0 && m->cubin && n == m->cubin_len && !memcmp(mine, m->cubin, n)) {
        free(mine);
        return 1;
    }
    if (!m->cubin)
        dt_str_addf(why,
                    "the plan changed module '%s' and carries no machine code of it: nobody has compared what would "
                    "run here with the posted kernels",
                    m->name);
    else if (r == 0)
        other_code(m, mine, n, why);
    *ret = mine;
    *ret_len = n;
    return r == 0 || !m->cubin ? 0 : taken(d, m, why, e);
}

int dev_image_carried(struct dev_device *d, const struct dev_module *m, CUmodule *ret, struct dt_err *e)
{
    void *mine = NULL;
    size_t n = 0;
    struct dt_err why = {0};
    int r = assemble(d, m->ptx, m->len, &mine, &n, &why);
    const void *code = m->cubin;
    if (r == 0 && (n != m->cubin_len || memcmp(mine, m->cubin, n)))
        r = dt_err_set(e, DT_E_UNSUPPORTED, "the assembler here makes other machine code than was compared");
    else if (r == DT_E_NO_COMPILER)
        r = dt_elf_whole(code, m->cubin_len)
                ? 0
                : dt_err_set(e, DT_E_GRAPH, "the plan's machine code is no whole ELF file");
    else if (r < 0)
        dt_err_move(e, &why);
    else
        code = mine;
    if (r == 0)
        r = dev_cu(d, d->cu->cuModuleLoadDataEx(ret, code, 0, NULL, NULL), "the plan's machine code", e);
    free(mine);
    dt_err_done(&why);
    return r;
}
