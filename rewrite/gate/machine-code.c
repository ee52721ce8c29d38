/* Machine code: every kernel whose text a rewrite changed is compared with the posted kernels that it was made of, as
 * the assembler leaves them (device/arithmetic.c).
 *
 * The assembler combines arithmetic that meets in one kernel, and the software device cannot see that. So the new
 * kernel is assembled with line tables; its `.loc` (ptx/origin.c) lead to lines of posted texts; and every posted text
 * is assembled by itself. What cannot be matched is refused as DT_ROW("machine-code") ": …", whatever was changed, also
 * if the kernel only got a programmatic launch or a prefetch. Without nvJitLink nothing can be compared, and nothing is
 * changed.
 *
 * Once in a planning, on the first posted module that is looked at, it is checked that line tables change no code. Not
 * checked: the driver's assembler may make other code of the same text, and its code cannot be had; so a plan carries
 * the code that was compared.
 *
 * If a plan runs beside another assembler than its own (rw_carried), its document is compared in the same way once
 * more. The posted texts are those in the plan (`original`). The planner knows which posted kernels a new one was
 * made of. In a document they are all posted entries of which the new text's `.loc` names a line. A document that was
 * altered by hand may name fewer. Then arithmetic that it lost is not missed, but all that it has must still be posted
 * arithmetic.
 */
#include "rewrite/emit/emit.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"
#include "rewrite/normal/normal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#include "device/machine.h"

struct posted { /* the kernels of which one launch of T was made */
    struct dev_part *part;
    char (*file)[32];
    void **cubin;
    unsigned n;
};

static int posted_new(struct posted *o, uint32_t most, struct dt_err *e)
{
    *o = (struct posted){.part = dt_calloc(most + 1, sizeof *o->part),
                         .file = dt_calloc(most + 1, sizeof *o->file),
                         .cubin = dt_calloc(most + 1, sizeof *o->cubin)};
    return o->part && o->file && o->cubin ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

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

/* The name that `.file` gives a posted text. */
static int file_of(const char *ptx, size_t len, char file[32], struct dt_err *e)
{
    char digest[DT_SHA256_TEXT];
    int r = dt_sha256_text(ptx, len, digest);
    if (r < 0)
        return dt_err_set(e, r, "out of memory");
    snprintf(file, 32, "posted-%.12s", digest + strlen("sha256:"));
    return 0;
}

static int same_without_lines(const char *ptx, size_t len, const char *arch, const void *lines, size_t nlines,
                              struct dt_err *e)
{
    dt_free_ void *plain = NULL;
    size_t n = 0;
    int r = dev_assemble(ptx, len, arch, &plain, &n, e);
    return r < 0 || dev_same_code(plain, n, lines, nlines)
               ? r
               : dt_err_set(e, DT_E_INTERNAL, "line tables change the code that the assembler makes");
}

/* Add a posted kernel, assembled by itself, if it is not there yet. *checked: line tables change no code. */
static int machine_code_add(struct posted *o, const char *file, const char *ptx, size_t len, const char *entry,
                            const char *arch, bool *checked, struct dt_err *e)
{
    size_t n = 0;
    if (there(o, file, entry))
        return 0;
    int r = dev_assemble_lines(ptx, len, arch, &o->cubin[o->n], &n, e);
    if (r < 0)
        return r;
    memcpy(o->file[o->n], file, sizeof o->file[0]);
    o->part[o->n] = (struct dev_part){.file = o->file[o->n], .cubin = o->cubin[o->n], .len = n, .entry = entry};
    o->n++;
    if (!*checked && (r = same_without_lines(ptx, len, arch, o->cubin[o->n - 1], n, e)) == 0)
        *checked = true;
    return r;
}

/* ---- of a candidate ---------------------------------------------------------------------------------------------- */

static struct rw_piece *piece_of(const struct rw_gate *g, const char *ptx, const char *entry)
{
    for (size_t k = 0; k < g->piece.n; k++)
        if (g->piece.p[k]->ptx == ptx && !strcmp(g->piece.p[k]->entry, entry))
            return g->piece.p[k];
    return NULL;
}

/* The piece of a posted launch, not yet assembled. Launches of one kernel, as layers have them, are one piece. */
static int piece_for(struct rw_gate *g, uint32_t launch, struct rw_piece **ret, struct dt_err *e)
{
    const struct dt_launch *l = &g->texts->graph->launch[launch];
    const struct dev_module *m = &g->texts->module[l->module];
    if ((*ret = piece_of(g, m->ptx, l->entry)))
        return 0;
    struct rw_piece *v = dt_calloc(1, sizeof *v);
    int r = v ? file_of(m->ptx, m->len, v->file, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && (r = rw_calls_cross(m->ir, l->entry, &v->crosses, e)) > 0)
        r = 0;
    if (r == 0 && !dt_push(&g->piece, v))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r < 0) {
        if (v)
            dt_str_done(&v->crosses);
        free(v);
        return r;
    }
    v->ptx = m->ptx;
    v->ptx_len = m->len;
    v->entry = l->entry;
    *ret = v;
    return 0;
}

static int piece_assemble(struct rw_gate *g, struct rw_piece *v, const char *arch, struct dt_err *e)
{
    int r = v->cubin ? 0 : dev_assemble_lines(v->ptx, v->ptx_len, arch, &v->cubin, &v->len, e);
    if (r == 0 && !g->lines_checked && (r = same_without_lines(v->ptx, v->ptx_len, arch, v->cubin, v->len, e)) == 0)
        g->lines_checked = true;
    return r;
}

/* By posted launch: is `launch` of s made of it? */
static bool made_of(const struct rw_gate *g, const struct rw_state *s, uint32_t launch, uint32_t posted)
{
    const uint64_t *member = s->member + launch * rw_member_words(g);
    return g->texts->graph->launch[posted].kind == DT_KERNEL && member[posted / 64] >> (posted % 64) & 1;
}

int rw_machine_code_closed(struct rw_gate *g, const struct rw_state *now, const uint32_t *launch, uint32_t nlaunch,
                           struct dt_str *why, struct dt_err *e)
{
    int r = 0;
    for (uint32_t k = 0; k < nlaunch && r == 0; k++)
        for (uint32_t l = 0; l < g->texts->graph->nlaunch && r == 0; l++) {
            struct rw_piece *v = NULL;
            if (!made_of(g, now, launch[k], l) || (r = piece_for(g, l, &v, e)) < 0 || !v->crosses.len ||
                rw_off("calls_apart"))
                continue;
            dt_str_addf(why, DT_ROW("machine-code") ": %s", v->crosses.s);
            r = 1;
        }
    return r;
}

void rw_pieces_done(struct rw_gate *g)
{
    for (size_t k = 0; k < g->piece.n; k++) {
        dt_str_done(&g->piece.p[k]->crosses);
        free(g->piece.p[k]->cubin);
        free(g->piece.p[k]);
    }
    free(g->piece.p);
}

int rw_machine_code_of(struct rw_gate *g, const char *arch, const struct rw_state *next, uint32_t at,
                       struct dt_str *why, struct dt_err *e)
{
    const struct dev_prog *first = g->texts;
    const struct dt_launch *l = &next->graph->launch[at];
    const struct dev_module *m = &next->prog->module[l->module];
    dt_free_ struct rw_piece **piece = dt_calloc(first->graph->nlaunch + 1, sizeof *piece);
    dt_free_ struct dev_part *part = dt_calloc(first->graph->nlaunch + 1, sizeof *part);
    unsigned n = 0;
    void *cubin = NULL;
    size_t len = 0;
    struct dt_str no = {0};
    int r = part && piece ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < first->graph->nlaunch && r == 0; k++)
        if (made_of(g, next, at, k) && (r = piece_for(g, k, &piece[n], e)) == 0) {
            unsigned i = 0;
            while (i < n && (strcmp(piece[i]->file, piece[n]->file) || strcmp(piece[i]->entry, piece[n]->entry)))
                i++;
            if (i == n && piece[n]->crosses.len && !no.len)
                dt_str_add(&no, piece[n]->crosses.s);
            n += i == n;
        }
    bool known = r == 0 && (!no.len || rw_off("calls_apart"));
    if (known) {
        dt_str_done(&no);
        no = (struct dt_str){0};
    }
    for (unsigned k = 0; k < n && known && r == 0; k++)
        if ((r = piece_assemble(g, piece[k], arch, e)) == 0)
            part[k] = (struct dev_part){
                .file = piece[k]->file, .cubin = piece[k]->cubin, .len = piece[k]->len, .entry = piece[k]->entry};
    if (r == 0 && known)
        r = dev_assemble_lines(m->ptx, m->len, arch, &cubin, &len, e);
    if (r == 0 && known)
        r = dev_arithmetic(cubin, len, l->entry, m->ptx, m->len, part, n, &no, e);
    if (r == 0) {
        dt_str_addf(why, DT_ROW("machine-code") ": %s", no.s ? no.s : "?");
        rw_bundle_kernel(first, m->ptx, why->s ? why->s : "");
    }
    dt_str_done(&no);
    free(cubin);
    return r < 0 ? r : !r;
}

int rw_machine_code(struct rw_gate *g, const struct rw_edit *x, const struct rw_state *next, uint32_t first,
                    struct dt_str *why, struct dt_err *e)
{
    int r = 0;
    for (size_t k = 0; k < x->part.n && r == 0; k++) {
        if (!x->part.p[k].ptx.len)
            continue;
        if (!dev_nvjitlink_version()) {
            dt_str_add(why, DT_ROW("machine-code") ": without nvJitLink nobody can say what the assembler makes of a "
                                                   "changed kernel");
            return 1;
        }
        r = rw_machine_code_of(g, x->dev->arch, next, first + (uint32_t)k, why, e);
    }
    return r;
}

/* ---- of a plan document ------------------------------------------------------------------------------------------ */

struct again { /* a plan and its posted launches, read from the document; by posted module its IR, marked as posted */
    struct dt_graph *plan;
    const struct dt_graph *original;
    struct ptx_module **ir;
    char (*file)[32];
    const char *arch;
    bool lines_checked;
};

static void again_done(struct again *a)
{
    for (uint32_t k = 0; a->ir && k < a->original->nmodule; k++)
        ptx_module_free(a->ir[k]);
    free(a->ir);
    free(a->file);
}

static int again_new(struct again *a, struct dt_err *e)
{
    const struct dt_graph *g = a->original;
    int r = 0;
    a->ir = dt_calloc(g->nmodule + 1, sizeof *a->ir);
    a->file = dt_calloc(g->nmodule + 1, sizeof *a->file);
    if (!a->ir || !a->file)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < g->nmodule && r == 0; k++) {
        const struct dt_module *m = &g->module[k];
        if (!m->is_ptx)
            continue; /* no text of the plan names it */
        if ((r = file_of(m->source, m->len, a->file[k], e)) == 0 &&
            (r = ptx_parse(m->source, m->len, &a->ir[k], e)) == 0)
            ptx_origin_text(a->ir[k], strtoull(a->file[k] + strlen("posted-"), NULL, 16));
    }
    return r;
}

/* Does `entry` of the new text, or a function that it may call, name a line of the posted one? */
static bool machine_code_names(const struct ptx_module *text, const char *entry, const struct ptx_function *posted)
{
    const struct ptx_inst *first = &posted->inst[0], *last = &posted->inst[posted->ninst - 1];
    for (uint32_t k = 0; k < text->nfunc && posted->ninst; k++) {
        const struct ptx_function *f = text->func[k];
        for (uint32_t n = 0; (!f->is_entry || !strcmp(f->name, entry)) && n < f->ninst; n++)
            if (f->inst[n].from == first->from && f->inst[n].from_line >= first->line &&
                f->inst[n].from_line <= last->line)
                return true;
    }
    return false;
}

/* 1, 0, negative: one entry of the plan's module, assembled with lines. */
static int entry_again(struct again *a, const struct dt_module *m, const struct ptx_module *text, const char *entry,
                       const void *cubin, size_t len, struct dt_str *why, struct dt_err *e)
{
    const struct dt_graph *g = a->original;
    struct posted o = {0};
    int r = posted_new(&o, g->nlaunch, e);
    for (uint32_t k = 0; k < g->nlaunch && r == 0; k++) {
        const struct dt_launch *l = &g->launch[k];
        const struct ptx_function *f =
            l->kind == DT_KERNEL && a->ir[l->module] ? ptx_find_function(a->ir[l->module], l->entry) : NULL;
        if (f && f->has_body && machine_code_names(text, entry, f))
            r = machine_code_add(&o, a->file[l->module], g->module[l->module].source, g->module[l->module].len,
                                 l->entry, a->arch, &a->lines_checked, e);
    }
    if (r == 0)
        r = dev_arithmetic(cubin, len, entry, m->source, m->len, o.part, o.n, why, e);
    posted_done(&o);
    return r;
}

/* Has an earlier launch the same entry? */
static bool machine_code_before(const struct dt_graph *g, uint32_t launch)
{
    const struct dt_launch *l = &g->launch[launch];
    for (uint32_t k = 0; k < launch; k++)
        if (g->launch[k].kind == DT_KERNEL && g->launch[k].module == l->module && !strcmp(g->launch[k].entry, l->entry))
            return true;
    return false;
}

/* Module `at` of the plan, of which the assembler here makes `code`. 1: it takes the place of what is carried. */
static int module_again(struct again *a, uint32_t at, const void *code, size_t ncode, struct dt_str *why,
                        struct dt_err *e)
{
    struct dt_module *m = &a->plan->module[at];
    struct ptx_module *text = NULL;
    dt_free_ void *lines = NULL;
    size_t len = 0;
    int r = ptx_parse(m->source, m->len, &text, e);
    if (r == 0)
        r = dev_assemble_lines(m->source, m->len, a->arch, &lines, &len, e);
    if (r == 0 && !dev_same_code(code, ncode, lines, len))
        r = dt_err_set(e, DT_E_INTERNAL, "line tables change the code that the assembler makes");
    bool says = r == 0 && ptx_origin_read(text);
    if (r == 0 && !says)
        dt_str_addf(why, "the text of module " DT_MODULE " does not say which posted lines it was made of", m->name);
    r = r < 0 ? r : says;
    for (uint32_t k = 0; k < a->plan->nlaunch && r == 1; k++) {
        const struct dt_launch *l = &a->plan->launch[k];
        if (l->kind == DT_KERNEL && l->module == at && !machine_code_before(a->plan, k))
            r = entry_again(a, m, text, l->entry, lines, len, why, e);
    }
    ptx_module_free(text);
    uint8_t *copy = r == 1 ? dt_arena_alloc(&a->plan->arena, ncode) : NULL;
    if (r == 1 && !copy)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (copy) {
        memcpy(copy, code, ncode);
        m->cubin = copy;
        m->cubin_len = ncode;
    }
    return r;
}

/* Is it launched, and not posted? */
static bool changed(const struct again *a, uint32_t at)
{
    const struct dt_module *m = &a->plan->module[at];
    bool runs = false, posted = false;
    for (uint32_t k = 0; k < a->plan->nlaunch && !runs; k++)
        runs = a->plan->launch[k].kind == DT_KERNEL && a->plan->launch[k].module == at;
    for (uint32_t k = 0; k < a->original->nmodule && !posted; k++)
        posted = a->original->module[k].len == m->len && !memcmp(a->original->module[k].source, m->source, m->len);
    return runs && !posted;
}

int rw_carried(struct dev_device *d, struct dt_graph *plan, const struct dt_graph *original, struct dt_str *why,
               struct dt_err *e)
{
    struct again a = {.plan = plan, .original = original, .arch = dev_info(d)->arch};
    int r = 1;
    for (uint32_t k = 0; k < plan->nmodule && r == 1; k++) {
        dt_free_ void *code = NULL;
        struct dt_str is = {0}, no = {0};
        size_t n = 0;
        if (!changed(&a, k))
            continue;
        r = dev_carried(d, &plan->module[k], &code, &n, &is, e);
        if (r == 0 && code) {
            r = a.ir ? 0 : again_new(&a, e);
            r = r < 0 ? r : module_again(&a, k, code, n, &no, e);
        }
        if (r == 0)
            dt_str_addf(why, "%s%s%s", is.s ? is.s : "?", no.s ? "; compared here, they differ: " : "",
                        no.s ? no.s : "");
        dt_str_done(&is);
        dt_str_done(&no);
    }
    again_done(&a);
    return r;
}
