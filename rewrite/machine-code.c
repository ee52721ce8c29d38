/* Machine code: every kernel whose text a rewrite changed is compared with the posted ones that it was made of, as the assembler leaves them (device/arithmetic.c).
 *
 * The assembler combines what meets in one kernel, and the software device cannot see it. So the new kernel is assembled with line tables, its `.loc` (ptx/origin.c) lead to lines of
 * posted texts, and every posted text is assembled by itself. What cannot be matched is refused as "machine-code: …", whatever was changed: a kernel that only got a programmatic
 * launch or a prefetch, too. Where nvJitLink is missing nothing can be compared, and nothing is changed.
 *
 * That line tables change no code is checked once a planning, on the first posted module that is looked at.
 * What it does not do: another assembler (the driver's) may make other code of the same text; a plan names the one that was asked.
 */
#include "rewrite/rewrite-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/machine.h"

struct posted { /* the kernels that stand behind one launch of T */
    struct dev_part *part;
    char (*file)[32];
    void **cubin;
    unsigned n;
};

static void posted_done(struct posted *o)
{
    for (unsigned k = 0; k < o->n; k++)
        free(o->cubin[k]);
    free(o->part);
    free(o->file);
    free(o->cubin);
    memset(o, 0, sizeof *o);
}

static bool there(const struct posted *o, const char *file, const char *entry)
{
    for (unsigned k = 0; k < o->n; k++)
        if (!strcmp(o->file[k], file) && !strcmp(o->part[k].entry, entry))
            return true;
    return false;
}

/* The posted kernel of launch k of the original, assembled by itself; nothing if it is there already. */
static int add(struct rw_planner *p, struct posted *o, uint32_t k, const char *arch, struct dt_err *e)
{
    const struct dev_prog *first = p->state.p[0].prog;
    const struct dt_launch *l = &first->graph->launch[k];
    char digest[DT_SHA256_TEXT], file[32];
    size_t len = 0;
    if (l->kind != DT_KERNEL)
        return 0;
    const struct dev_module *m = &first->module[l->module];
    int r = dt_sha256_text(m->ptx, m->len, digest);
    if (r < 0)
        return dt_err_set(e, r, "out of memory");
    snprintf(file, sizeof file, "posted-%.12s", digest + strlen("sha256:"));
    if (there(o, file, l->entry))
        return 0;
    r = dev_assemble_lines(m->ptx, m->len, arch, &o->cubin[o->n], &len, e);
    if (r < 0)
        return r;
    memcpy(o->file[o->n], file, sizeof file);
    o->part[o->n] = (struct dev_part){.file = o->file[o->n], .cubin = o->cubin[o->n], .len = len, .entry = l->entry};
    o->n++;
    if (p->lines_checked)
        return 0;
    void *plain = NULL;
    size_t nplain = 0;
    r = dev_assemble(m->ptx, m->len, arch, &plain, &nplain, e);
    if (r == 0 && !dev_same_code(plain, nplain, o->cubin[o->n - 1], len))
        r = dt_err_set(e, DT_E_INTERNAL, "line tables change the code that the assembler makes");
    free(plain);
    p->lines_checked = r == 0;
    return r;
}

/* Launch `at` of `next`, whose text is new. */
static int check(struct rw_planner *p, const struct rw_edit *x, const struct rw_state *next, uint32_t at, struct dt_str *why, struct dt_err *e)
{
    const struct dt_launch *l = &next->graph->launch[at];
    const struct dev_module *m = &next->prog->module[l->module];
    const uint64_t *member = next->member + at * rw_member_words(p);
    uint32_t n = p->state.p[0].graph->nlaunch;
    struct posted o = {.part = dt_calloc(n + 1, sizeof *o.part), .file = dt_calloc(n + 1, sizeof *o.file), .cubin = dt_calloc(n + 1, sizeof *o.cubin)};
    void *cubin = NULL;
    size_t len = 0;
    struct dt_str no = {0};
    int r = o.part && o.file && o.cubin ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < n && r == 0; k++)
        if (member[k / 64] >> (k % 64) & 1)
            r = add(p, &o, k, x->dev->arch, e);
    if (r == 0)
        r = dev_assemble_lines(m->ptx, m->len, x->dev->arch, &cubin, &len, e);
    if (r == 0)
        r = dev_arithmetic(cubin, len, l->entry, m->ptx, m->len, o.part, o.n, &no, e);
    if (r == 0) {
        dt_str_addf(why, "machine-code: %s", no.s ? no.s : "?");
        rw_bundle_kernel(p->state.p[0].prog, m->ptx, why->s ? why->s : "");
    }
    dt_str_done(&no);
    posted_done(&o);
    free(cubin);
    return r < 0 ? r : !r;
}

int rw_machine_code(struct rw_planner *p, const struct rw_edit *x, const struct rw_state *next, uint32_t first, struct dt_str *why, struct dt_err *e)
{
    int r = 0;
    for (size_t k = 0; k < x->part.n && r == 0; k++) {
        if (!x->part.p[k].ptx.len)
            continue;
        if (!dev_nvjitlink_version()) {
            dt_str_add(why, "machine-code: without nvJitLink nobody can say what the assembler makes of a changed kernel");
            return 1;
        }
        r = check(p, x, next, first + (uint32_t)k, why, e);
    }
    return r;
}
