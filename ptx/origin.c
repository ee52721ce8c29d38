/* Origins: the posted text and line that an instruction comes from, and how an emitted text says so.
 *
 *   .file 1 "dovetail"                         what a rewrite put between: line 1
 *   .file 2 "posted-0123456789ab"              the first 12 hex digits of the SHA-256 of a posted module's PTX text
 *   …
 *   .loc 2 17 0                                what follows is line 17 of it
 *   mul.f32 %p3, %p1, %p2;
 *
 * So an assembler's line table (-lineinfo) leads from machine code to the posted instruction. An instruction carries
 * its origin: a posted module's are marked when it is made ready (ptx_origin_text), copies keep them, from module to
 * module (ptx_append, ptx_clone), and a module that a rewrite emits (ptx_module.origins) prints them. Read again
 * (ptx_origin_read) they name the posted text, not the text read: what was fused twice still says where it came from. A
 * posted text's own .loc has nothing to do with this (debug.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

#define POSTED "posted-"
#define DIGITS 12

void ptx_origin_text(struct ptx_module *m, uint64_t text)
{
    for (uint32_t k = 0; k < m->nfunc; k++)
        for (uint32_t n = 0; n < m->func[k]->ninst; n++) {
            struct ptx_inst *i = &m->func[k]->inst[n];
            i->from = text;
            i->from_line = i->line;
        }
}

/* A text's number, by its file name. 1: "dovetail", 0: another name. */
static int text_of(const char *name, uint64_t *ret)
{
    char *end;
    if (!strcmp(name, PTX_ORIGIN_GLUE))
        return 1;
    const char *hex = name + strlen(POSTED);
    if (strncmp(name, POSTED, strlen(POSTED)) || strlen(hex) != DIGITS || strspn(hex, "0123456789abcdef") != DIGITS)
        return 0;
    *ret = strtoull(hex, &end, 16);
    return 2;
}

static int file_of(const struct ptx_module *m, uint32_t number, uint64_t *ret)
{
    for (uint32_t k = 0; k < m->nfile; k++)
        if (m->file[k].number == number)
            return text_of(m->file[k].name, ret);
    return 0;
}

bool ptx_origin_read(struct ptx_module *m)
{
    uint64_t text = 0;
    bool any = false;
    for (uint32_t k = 0; k < m->nfile; k++)
        any |= text_of(m->file[k].name, &text) == 1;
    for (uint32_t k = 0; any && k < m->nfunc; k++) {
        struct ptx_function *f = m->func[k];
        uint32_t at = 0, line = 0;
        for (uint32_t n = 0; n < f->ninst; n++) {
            struct ptx_inst *i = &f->inst[n];
            for (;
                 at < f->nloc && (f->loc[at].line < i->line || (f->loc[at].line == i->line && f->loc[at].col < i->col));
                 at++)
                line = file_of(m, f->loc[at].file, &text) == 2 ? f->loc[at].src_line : 0;
            i->from = line ? text : 0;
            i->from_line = line;
        }
    }
    return any;
}

void ptx_origin_copy(const struct ptx_module *m, struct ptx_module *to)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < to->nfunc; k++) {
        struct ptx_function *f = to->func[k];
        if (!f->has_body)
            continue;
        while (at < m->nfunc && (!m->func[at]->has_body || strcmp(m->func[at]->name, f->name)))
            at++;
        for (uint32_t n = 0; at < m->nfunc && m->func[at]->ninst == f->ninst && n < f->ninst; n++) {
            f->inst[n].from = m->func[at]->inst[n].from;
            f->inst[n].from_line = m->func[at]->inst[n].from_line;
        }
    }
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static bool is_code(const struct ptx_inst *i)
{
    return i->op != PTX_OP_LABEL && i->op != PTX_OP_PRAGMA && i->op != PTX_OP_BRANCHTARGETS &&
           i->op != PTX_OP_CALLPROTO;
}

static uint32_t origin_number(const struct ptx_origins *o, uint64_t text)
{
    uint32_t k = 0;
    while (k < o->n && o->text[k] != text)
        k++;
    return k;
}

int ptx_put_origins(struct dt_str *out, const struct ptx_module *m, struct ptx_origins *o)
{
    for (uint32_t k = 0; m->origins && k < m->nfunc; k++)
        for (uint32_t n = 0; n < m->func[k]->ninst; n++) {
            const struct ptx_inst *i = &m->func[k]->inst[n];
            if (!is_code(i) || !i->from_line || origin_number(o, i->from) < o->n)
                continue;
            if (!PTX_GROW(&o->arena, o->text, o->n, o->cap))
                return DT_E_NOMEM;
            o->text[o->n++] = i->from;
        }
    if (m->origins)
        dt_str_add(out, ".file 1 \"" PTX_ORIGIN_GLUE "\"\n");
    for (uint32_t k = 0; k < o->n; k++)
        dt_str_addf(out, ".file %u \"" POSTED "%012llx\"\n", k + 2, (unsigned long long)o->text[k]);
    return 0;
}

void ptx_put_loc(struct dt_str *out, const struct ptx_origins *o, const struct ptx_inst *i,
                 const struct ptx_inst **last)
{
    const struct ptx_inst *was = *last;
    if (!is_code(i) || (was && was->from_line == i->from_line && (was->from == i->from || !i->from_line)))
        return;
    *last = i;
    dt_str_addf(out, "\t.loc %u %u 0\n", i->from_line ? origin_number(o, i->from) + 2 : 1,
                i->from_line ? i->from_line : 1);
}
