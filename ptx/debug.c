/* Debug information (PTX ISA §11.5): the part of it that is kept, and the source line of an instruction.
 *
 *   .file N "name"[, time, size]      names file N, anywhere in the module, often at its end
 *   .loc N line column[, function_name label[+n], inlined_at N line col]
 *                                     holds for the instructions that follow, up to the next .loc of the function
 *   .section NAME { … }               skipped
 *
 * It says nothing about what the code does: printing, cloning and signatures leave it out (the .loc of rewritten
 * functions are origin.c's). It is kept beside the instructions for messages: which line of the CUDA source is this PTX
 * line. A .loc with line 0 means "no line". Where a function was inlined, the place where that happened is kept too
 * (the innermost one).
 */
#include <string.h>

#include "ptx/ptx-priv.h"

#define MAX_NAME 4096u

static bool word_is(const struct ptx_tok *t, const char *s)
{
    return t->kind == PTX_TK_IDENT && t->len == strlen(s) && !memcmp(t->s, s, t->len);
}

/* Numbers in a row: the first `most` of them into v, the rest read and forgotten. How many of v are set. */
static unsigned numbers(struct ptx_parser *ps, uint64_t *v, unsigned most)
{
    unsigned n = 0;
    for (; ps->lx.t.kind == PTX_TK_NUM; ptx_next(ps))
        if (n < most)
            v[n++] = ps->lx.t.val;
    return n;
}

static uint32_t small(uint64_t v) { return v > UINT32_MAX ? 0 : (uint32_t)v; }

/* What may follow behind commas, of both directives. inlined_at's file and line into at[2]. */
static int tail(struct ptx_parser *ps, uint64_t *at)
{
    while (ptx_is(ps, ',')) {
        uint64_t ignored[1];
        ptx_next(ps);
        if (word_is(&ps->lx.t, "function_name")) {
            ptx_next(ps);
            if (ps->lx.t.kind != PTX_TK_IDENT)
                return ptx_unexpected(ps, "a label");
            ptx_next(ps);
            if (ptx_is(ps, '+'))
                ptx_next(ps);
            numbers(ps, ignored, 1);
        } else if (word_is(&ps->lx.t, "inlined_at")) {
            ptx_next(ps);
            if (numbers(ps, at, 2) < 2)
                at[0] = at[1] = 0;
        } else if (!numbers(ps, ignored, 1)) {
            return ptx_unexpected(ps, "a number");
        }
    }
    return 0;
}

static int file(struct ptx_parser *ps)
{
    struct ptx_module *m = ps->m;
    uint64_t n[1] = {0}, at[2] = {0};
    numbers(ps, n, 1);
    if (ps->lx.t.kind == PTX_TK_STRING) {
        uint32_t len = ps->lx.t.len < 2 ? 0 : ps->lx.t.len - 2;
        len = len > MAX_NAME ? MAX_NAME : len;
        if (!PTX_GROW(&m->arena, m->file, m->nfile, m->file_cap))
            return ptx_nomem(ps);
        m->file[m->nfile] = (struct ptx_file){small(n[0]), dt_arena_strndup(&m->arena, ps->lx.t.s + 1, len)};
        if (!m->file[m->nfile++].name)
            return ptx_nomem(ps);
        ptx_next(ps);
    }
    return tail(ps, at);
}

static int loc(struct ptx_parser *ps)
{
    struct ptx_loc l = {.line = ps->lx.t.line, .col = ps->lx.t.col};
    struct ptx_function *f = ps->f;
    uint64_t n[3] = {0}, at[2] = {0};
    ptx_next(ps);
    numbers(ps, n, 3);
    int r = tail(ps, at);
    if (r < 0 || !f)
        return r;
    l.file = small(n[0]), l.src_line = small(n[1]), l.at_file = small(at[0]), l.at_line = small(at[1]);
    if (!PTX_GROW(&ps->m->arena, f->loc, f->nloc, f->loc_cap))
        return ptx_nomem(ps);
    f->loc[f->nloc++] = l;
    return 0;
}

static int section(struct ptx_parser *ps)
{
    ptx_next(ps);
    if (ps->lx.t.kind != PTX_TK_DOT && ps->lx.t.kind != PTX_TK_IDENT)
        return ptx_unexpected(ps, "a section name");
    ptx_next(ps);
    int r = ptx_expect(ps, '{');
    if (r < 0)
        return r;
    while (!ptx_is(ps, '}')) {
        if (ps->lx.t.kind == PTX_TK_EOF || ps->lx.t.kind == PTX_TK_BAD || ptx_is(ps, '{'))
            return ptx_unexpected(ps, "'}'");
        ptx_next(ps);
    }
    ptx_next(ps);
    return 0;
}

int ptx_parse_debug(struct ptx_parser *ps, bool *ret_was)
{
    *ret_was = true;
    if (ptx_is_dot(ps, "loc"))
        return loc(ps);
    if (ptx_is_dot(ps, "file")) {
        ptx_next(ps);
        return file(ps);
    }
    if (ptx_is_dot(ps, "section"))
        return section(ps);
    *ret_was = false;
    return 0;
}

static const char *name_of(const struct ptx_module *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->nfile; i++)
        if (m->file[i].number == number)
            return m->file[i].name;
    return NULL;
}

bool ptx_source_of(const struct ptx_function *f, const struct ptx_inst *i, struct ptx_source *ret)
{
    uint32_t lo = 0, hi = f->nloc; /* .loc in the order of the text: the last one before i */
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        const struct ptx_loc *l = &f->loc[mid];
        if (l->line < i->line || (l->line == i->line && l->col < i->col))
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!i->line || !lo || !f->loc[lo - 1].src_line)
        return false;
    const struct ptx_loc *l = &f->loc[lo - 1];
    *ret = (struct ptx_source){name_of(f->module, l->file), l->src_line,
                               l->at_line ? name_of(f->module, l->at_file) : NULL, l->at_line};
    return ret->file && strcmp(ret->file, PTX_ORIGIN_GLUE) != 0;
}
