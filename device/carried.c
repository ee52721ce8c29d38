/* The machine code that a plan carries, on a device.
 *
 * A plan's kernels were compared, as machine code of one assembler, with the posted ones (docs, "bit for bit"). Another assembler, or another version of it,
 * may make other code of the same PTX, and the driver's compiler is one. So on a real device a module that carries code is
 *
 *   1. what nvJitLink makes of its PTX here, where that is byte for byte the code that is carried; it is that code, and no stranger's bytes go to the driver;
 *   2. the carried code, where no nvJitLink is at hand, if it is for this architecture and the driver takes it;
 *   3. refused, else. The posted launches run then.
 *
 * The software device executes PTX and looks at none of this. Not here: comparing what another assembler makes with what it makes of the posted modules.
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
static int assemble(const struct dev_device *d, const char *ptx, size_t len, void **ret, size_t *ret_len, struct dt_err *e)
{
    const char *at = dev_directive(ptx, len, ".target");
    char target[32], arch[16];
    snprintf(target, sizeof target, "%.*s", at ? (int)(strcspn(at, ", \t\r\n/") % 32) : 0, at ? at : "");
    int r = dev_arch_for(&d->info, target, arch, e);
    return r < 0 ? r : dev_assemble(ptx, len, arch, ret, ret_len, e);
}

static int other_code(const char *module, const void *theirs, size_t n, const void *ours, size_t k, struct dt_err *e)
{
    char then[32], now[32];
    bool known = dev_assembler_of(theirs, n, then);
    dev_assembler_of(ours, k, now);
    return dt_err_set(e, DT_E_UNSUPPORTED, "the plan's kernels were compared with the posted ones as nvJitLink %s made them; of module '%.100s' nvJitLink %s makes other code here, "
                      "which nobody has compared: plan again", known ? then : "of an unknown version", module, now);
}

int dev_carried(const struct dev_device *d, const struct dt_graph *plan, const bool *changed, struct dt_err *e)
{
    int r = 0;
    for (uint32_t i = 0; i < plan->nmodule && r == 0 && !d->cu->soft; i++) {
        const struct dt_module *m = &plan->module[i];
        void *mine = NULL;
        size_t n = 0;
        struct dt_err why = {0};
        if (!changed[i])
            continue;
        if (!m->cubin)
            return dt_err_set(e, DT_E_UNSUPPORTED, "the plan changed module '%.100s' and carries no machine code of it: nobody has compared what would run here with the posted kernels; plan again", m->name);
        r = assemble(d, m->source, m->len, &mine, &n, &why);
        if (r == 0 && (n != m->cubin_len || memcmp(mine, m->cubin, n)))
            r = other_code(m->name, m->cubin, m->cubin_len, mine, n, e);
        else if (r == DT_E_NO_COMPILER)
            r = 0; /* loading it says whether it is for this device */
        else if (r < 0)
            dt_err_move(e, &why);
        free(mine);
        dt_err_done(&why);
    }
    return r;
}

int dev_image_carried(struct dev_device *d, const struct dev_module *m, CUmodule *ret, struct dt_err *e)
{
    void *mine = NULL;
    size_t n = 0;
    struct dt_err why = {0};
    int r = assemble(d, m->ptx, m->len, &mine, &n, &why);
    const void *code = m->cubin;
    if (r == 0 && (n != m->cubin_len || memcmp(mine, m->cubin, n)))
        r = other_code("", m->cubin, m->cubin_len, mine, n, e);
    else if (r == DT_E_NO_COMPILER)
        r = dt_elf_whole(code, m->cubin_len) ? 0 : dt_err_set(e, DT_E_GRAPH, "the plan's machine code is no whole ELF file");
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
