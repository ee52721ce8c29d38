/* A copy of one launch's kernel, alone in a module, that a rewrite can change.
 *
 * The copy has the entry and what it uses. Its arithmetic is in a form that ptxas cannot contract otherwise, whatever
 * instructions are added (device/identity.c). Instructions are put in as text that uses the names of the copy. Version
 * and target are raised to what the new instructions need, and no further. The text is checked in the end (text.c).
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/solo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

int rw_solo_init(struct rw_solo *s, const struct dev_info *dev, const struct dev_prog *p, uint32_t launch,
                 struct dt_err *e)
{
    memset(s, 0, sizeof *s);
    s->dev = dev;
    s->prog = p;
    s->launch = launch;
    return p->step[launch].entry ? rw_body_init(&s->arena, p, launch, NULL, &s->body, e) : 0;
}

void rw_solo_done(struct rw_solo *s)
{
    ptx_module_free(s->own);
    ptx_module_free(s->m);
    dt_arena_done(&s->arena);
    memset(s, 0, sizeof *s);
}

int rw_solo_copy(struct rw_solo *s, struct dt_str *why, struct dt_err *e)
{
    const struct ptx_function *f = s->body.f;
    enum dev_identity id = s->own ? DEV_IDENTICAL : dev_identity(f->module, f->name, s->dev->arch);
    if (id == DEV_CONTRACTED && (s->own = dev_explicit(f->module, f->name, s->dev->arch)))
        id = DEV_IDENTICAL;
    if (id != DEV_IDENTICAL && id != DEV_OPEN) {
        dt_str_addf(why,
                    DT_ROW("arithmetic-identity") ": " DT_LAUNCH
                                                  " leaves multiply-adds for ptxas to contract; changed, they could be "
                                                  "contracted otherwise",
                    s->prog->graph->launch[s->launch].name);
        return 1;
    }
    ptx_module_free(s->m);
    s->m = NULL;
    int r = ptx_clone(s->own ? s->own : f->module, f->name, &s->m, e);
    if (r < 0)
        return r;
    s->f = ptx_find_function(s->m, f->name);
    if (!s->f)
        return dt_err_set(e, DT_E_INTERNAL, "entry %s is not in its own copy", f->name);
    for (uint32_t k = 0; k < s->m->nfunc && id != DEV_OPEN; k++)
        dev_round_muls(s->m->func[k]);
    s->again = 0; /* names of the text that will be put in: %dt_i, or %dt1_i, … */
    for (uint32_t k = 0; k < s->f->nreg; k++)
        if (!strncmp(s->f->reg[k].name, "%dt", 3)) {
            char *end;
            unsigned long n = strtoul(s->f->reg[k].name + 3, &end, 10);
            if (*end == '_' && n < 1000000 && n >= s->again)
                s->again = (unsigned)n + 1;
        }
    return 0;
}

/* The text with %dt_ and $dt_ as %dt1_ and $dt1_, say. */
static void rename_text(const struct rw_solo *s, const char *text, struct dt_str *out)
{
    for (const char *p = text; *p; p++) {
        dt_str_addc(out, *p);
        if (s->again && (*p == '%' || *p == '$') && !strncmp(p + 1, "dt_", 3)) {
            dt_str_addf(out, "dt%u", s->again);
            p += 2;
        }
    }
}

uint32_t rw_solo_reg(const struct rw_solo *s, const char *name)
{
    struct dt_str mine = {0};
    uint32_t found = PTX_NO_REG;
    rename_text(s, name, &mine);
    for (uint32_t k = 0; mine.s && k < s->f->nreg; k++)
        if (!strcmp(s->f->reg[k].name, mine.s))
            found = k;
    dt_str_done(&mine);
    return found;
}

int rw_insert(struct ptx_function *f, uint32_t at, const char *text, struct dt_err *e)
{
    uint32_t before = f->ninst;
    int r = ptx_append_text(f, e, "%s", text);
    if (r < 0)
        return r;
    uint32_t n = f->ninst - before;
    struct ptx_inst *keep = n ? dt_memdup(f->inst + before, n * sizeof *keep) : NULL;
    if (!n)
        return 0;
    if (!keep)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memmove(f->inst + at + n, f->inst + at, (before - at) * sizeof *keep);
    memcpy(f->inst + at, keep, n * sizeof *keep);
    free(keep);
    return (int)n;
}

int rw_solo_insert(struct rw_solo *s, uint32_t at, const char *text, struct dt_err *e)
{
    struct dt_str mine = {0};
    rename_text(s, text, &mine);
    int r = mine.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : rw_insert(s->f, at, mine.s ? mine.s : "", e);
    dt_str_done(&mine);
    return r;
}

/* ---- block numbers ----------------------------------------------------------------------------------------------- */

/* dt_k = block[%ctaid.x]: affine where it can be, else from a table. */
static int solo_list(struct rw_solo *s, const uint32_t *block, uint32_t n, struct dt_str *text, struct dt_err *e)
{
    uint32_t step = n > 1 ? block[1] - block[0] : 0;
    bool affine = true, narrow = true;
    for (uint32_t k = 0; k < n; k++) {
        affine = affine && block[k] == block[0] + step * k;
        narrow = narrow && block[k] < 65536;
    }
    dt_str_add(text, "mov.u32 %dt_k, %ctaid.x;\n");
    if (affine) {
        if (step > 1)
            dt_str_addf(text, "mul.lo.u32 %%dt_k, %%dt_k, %u;\n", step);
        if (block[0])
            dt_str_addf(text, "add.u32 %%dt_k, %%dt_k, %u;\n", block[0]);
        return 0;
    }
    size_t width = narrow ? 2 : 4;
    char name[32];
    snprintf(name, sizeof name, s->again ? "dt%u_blocks" : "dt_blocks", s->again);
    struct ptx_var *v = rw_table_new(s->m, name, n * width, 0);
    if (!v)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < n; k++)
        for (size_t b = 0; b < width; b++)
            v->init[k * width + b] = (uint8_t)(block[k] >> (8 * b));
    dt_str_addf(text,
                ".reg .b64 %%dt_t<2>;\nmov.u64 %%dt_t0, %s;\nmul.wide.u32 %%dt_t1, %%dt_k, %zu;\nadd.s64 %%dt_t0, "
                "%%dt_t0, %%dt_t1;\n",
                name, width);
    dt_str_addf(text, "ld.%s.u%zu %%dt_k, [%%dt_t0];\n", rw_table_space(v), width * 8);
    return 0;
}

int rw_solo_renumber(struct rw_solo *s, const uint32_t *block, uint32_t n, struct dt_err *e)
{
    static const char xyz[] = "xyz";
    const uint32_t *grid = s->prog->graph->launch[s->launch].grid;
    struct ptx_function *f = s->f;
    struct dt_str text = {0};
    dt_str_add(&text, ".reg .b32 %dt_k, %dt_c<3>, %dt_n<3>;\n");
    int r = solo_list(s, block, n, &text, e);
    uint32_t below = 1;
    for (int d = 0; d < 3 && r == 0; d++) {
        if (below > 1)
            dt_str_addf(&text, "div.u32 %%dt_c%d, %%dt_k, %u;\n", d, below);
        else
            dt_str_addf(&text, "mov.u32 %%dt_c%d, %%dt_k;\n", d);
        if (d < 2)
            dt_str_addf(&text, "rem.u32 %%dt_c%d, %%dt_c%d, %u;\n", d, d, grid[d]);
        dt_str_addf(&text, "mov.u32 %%dt_n%d, %u;\n", d, grid[d]);
        below *= grid[d];
    }
    if (r == 0 && text.failed)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    uint32_t before = f->ninst;
    int added = r < 0 ? 0 : rw_solo_insert(s, 0, text.s, e);
    dt_str_done(&text);
    if (r < 0 || added < 0)
        return r < 0 ? r : added;
    uint32_t reg[2][3];
    for (int d = 0; d < 3; d++)
        for (int which = 0; which < 2; which++) {
            char name[8];
            snprintf(name, sizeof name, "%%dt_%c%d", which ? 'n' : 'c', d);
            reg[which][d] = rw_solo_reg(s, name);
        }
    for (uint32_t i = (uint32_t)added; i < before + (uint32_t)added; i++)
        for (unsigned k = 0; k < f->inst[i].nopnd; k++) {
            struct ptx_opnd *o = &f->inst[i].opnd[k];
            if (o->kind != PTX_O_SREG || (o->sreg != PTX_SR_CTAID && o->sreg != PTX_SR_NCTAID))
                continue;
            if (o->comp == 3) /* .w is 0 in every block */
                continue;
            if (o->comp < 0 || o->comp > 2 || reg[o->sreg == PTX_SR_NCTAID][o->comp] == PTX_NO_REG)
                return dt_err_set(e, DT_E_UNSUPPORTED, "a block number cannot be replaced: .%c",
                                  o->comp >= 0 && o->comp < 3 ? xyz[o->comp] : '?');
            *o = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = reg[o->sreg == PTX_SR_NCTAID][o->comp]};
        }
    return 0;
}

void rw_solo_needs(struct rw_solo *s, unsigned version, unsigned sm)
{
    if (s->m->version_major * 100 + s->m->version_minor < version) {
        s->m->version_major = version / 100;
        s->m->version_minor = version % 100;
    }
    if (rw_target_number(s->m->target) < sm) {
        char text[16];
        snprintf(text, sizeof text, "sm_%u", sm);
        s->m->target = dt_arena_strdup(&s->m->arena, text);
    }
}

int rw_solo_text(struct rw_solo *s, struct dt_str *out, struct dt_err *e)
{
    return s->m->target ? rw_text(s->m, s->prog, out, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
}
