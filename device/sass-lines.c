/* Which line an instruction was made of: line programs of DWARF 2 (ptxas up to 13.0) and 3 (13.5, with three opcodes
 * more, which move nothing), as ptxas writes them with -lineinfo; of 4, which has one byte more in the header, as well.
 *
 * .debug_line       what `.file` and `.loc` of the PTX say; without any in the PTX it is empty
 * .nv_debug_line_sass   the line of the PTX text itself, without file names
 *
 * dev_assemble_lines puts the file's number into the upper bits of the line; here they are taken off again.
 *
 * A program is a header (lengths, smallest step, line base and range, names of files) and opcodes that move an address
 * and a line along. Its start address is relocated: the section of code that it is about is that of the relocation's
 * symbol. A row says where a line begins; it lasts to the next row's address.
 */
#include "device/machine-priv.h"

#include <string.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

struct reader {
    const uint8_t *p;
    uint64_t at, end;
    bool bad;
};

static uint64_t fixed(struct reader *r, unsigned n)
{
    uint64_t v = 0;
    if (r->end - r->at < n) {
        r->bad = true;
        r->at = r->end;
        return 0;
    }
    for (unsigned k = 0; k < n; k++)
        v |= (uint64_t)r->p[r->at++] << (8 * k);
    return v;
}

static uint64_t leb(struct reader *r, bool is_signed)
{
    uint64_t v = 0;
    unsigned shift = 0;
    uint8_t b;
    do {
        b = (uint8_t)fixed(r, 1);
        if (shift < 64)
            v |= (uint64_t)(b & 127) << shift;
        shift += 7;
    } while ((b & 128) && !r->bad);
    if (is_signed && shift < 64 && (b & 64))
        v |= ~UINT64_C(0) << shift;
    return v;
}

struct rows {
    struct code *c;
    const struct code_text *here; /* this sequence is about this code of ours; NULL: it is not */
    bool any, functions;
    uint64_t from; /* address of the last row */
    uint32_t file, line;
    bool open, posted;
};

/* The last row lasts to `to`. */
static void sass_lines_fill(struct rows *w, uint64_t to)
{
    for (uint64_t a = w->from; w->here && w->open && a + 16 <= to && a / 16 < w->here->n; a += 16) {
        w->c->file[w->here->first + a / 16] = w->file;
        w->c->line[w->here->first + a / 16] = w->line;
        w->any |= w->here == w->c->text;
    }
}

static void row(struct rows *w, uint64_t address, uint64_t file, int64_t line)
{
    sass_lines_fill(w, address);
    w->from = address;
    w->file = file < UINT32_MAX ? (uint32_t)file : 0;
    w->line = line > 0 && line < UINT32_MAX ? (uint32_t)line & (w->posted ? UINT32_MAX : (1U << DEV_LINE_BITS) - 1) : 0;
    w->open = true;
}

static int sass_lines_names(struct code *c, struct reader *r, uint32_t *ret_base)
{
    while (!r->bad && r->at < r->end && r->p[r->at]) /* directories */
        while (fixed(r, 1) && !r->bad)
            ;
    fixed(r, 1);
    *ret_base = c->nfiles;
    while (!r->bad && r->at < r->end && r->p[r->at]) {
        const char *name = (const char *)r->p + r->at;
        size_t n = strnlen(name, r->end - r->at);
        void *p = dt_reallocarray(c->files, c->nfiles + 1, sizeof *c->files);
        if (!p)
            return DT_E_NOMEM;
        c->files = p;
        snprintf(c->files[c->nfiles++].name, sizeof c->files[0].name, "%.*s", n < 79 ? (int)n : 79, name);
        r->at += n < r->end - r->at ? n + 1 : n;
        for (int k = 0; k < 3; k++)
            leb(r, false);
    }
    fixed(r, 1);
    return 0;
}

static const struct code_text *sass_lines_text(const struct rows *w, unsigned section)
{
    for (unsigned k = 0; k < (w->functions ? w->c->ntext : 1); k++)
        if (w->c->text[k].section == section)
            return &w->c->text[k];
    return NULL;
}

static void extended(const struct elf_file *f, unsigned section, struct reader *r, struct rows *w, uint64_t *address)
{
    uint64_t n = leb(r, false), start = r->at;
    unsigned op = (unsigned)fixed(r, 1), where = 0;
    uint64_t offset = 0;
    if (op == 2) { /* set address */
        w->here = elf_target(f, section, r->at, &where, &offset) ? sass_lines_text(w, where) : NULL;
        *address = offset + fixed(r, 8);
        w->open = false;
    } else if (op == 1) { /* end of sequence */
        sass_lines_fill(w, *address);
        w->open = false;
        w->here = NULL;
    }
    if (n > r->end - start)
        r->bad = true;
    else
        r->at = start + n;
}

/* One unit: header and program. */
static int unit(struct code *c, const struct elf_file *f, unsigned section, struct reader *r, struct rows *w)
{
    uint64_t length = fixed(r, 4);
    struct reader u = {r->p, r->at, r->end, false};
    if (r->bad || length > r->end - r->at)
        return 1;
    u.end = r->at + length;
    r->at = u.end;
    uint32_t base = 0;
    unsigned version = (unsigned)fixed(&u, 2);
    uint64_t header = fixed(&u, 4), program = u.at + header;
    unsigned step = (unsigned)fixed(&u, 1);
    fixed(&u, version > 3 ? 2 : 1);
    int line_base = (int8_t)fixed(&u, 1);
    unsigned range = (unsigned)fixed(&u, 1), first = (unsigned)fixed(&u, 1);
    uint8_t operands[256] = {0};
    for (unsigned k = 1; k < first; k++)
        operands[k] = (uint8_t)fixed(&u, 1);
    if (u.bad || version < 2 || version > 4 || !range || program > u.end)
        return 1;
    if (sass_lines_names(c, &u, &base) < 0)
        return DT_E_NOMEM;
    u.at = program;
    uint64_t address = 0, file = 1;
    int64_t line = 1;
    w->open = false;
    w->here = NULL;
    while (!u.bad && u.at < u.end) {
        unsigned op = (unsigned)fixed(&u, 1);
        if (op >= first) {
            address += (uint64_t)((op - first) / range) * step;
            line += line_base + (int)((op - first) % range);
            row(w, address, base + file, line);
            continue;
        }
        switch (op) {
        case 0:
            extended(f, section, &u, w, &address);
            if (!w->open && !w->here) {
                file = 1;
                line = 1;
            }
            break;
        case 1: row(w, address, base + file, line); break;
        case 2: address += leb(&u, false) * step; break;
        case 3: line += (int64_t)leb(&u, true); break;
        case 4: file = leb(&u, false); break;
        case 8: address += (uint64_t)((255 - first) / range) * step; break;
        case 9: address += fixed(&u, 2); break;
        default:
            for (unsigned k = 0; k < operands[op]; k++)
                leb(&u, false);
        }
    }
    return u.bad ? 1 : 0;
}

/* A function of the PTX begins its section, and has lines. */
static void posted_functions(struct code *c)
{
    for (unsigned t = 1; t < c->ntext; t++)
        for (uint32_t f = 1; f < c->nfunc; f++)
            c->func[f].posted |= c->func[f].first == c->text[t].first && c->line[c->text[t].first];
}

int code_lines(struct code *c, const struct elf_file *f, bool posted, bool functions)
{
    struct elf_section s;
    unsigned section = elf_find(f, posted ? ".nv_debug_line_sass" : ".debug_line", &s);
    struct rows w = {.c = c, .posted = posted, .functions = functions};
    if (!section || !s.p)
        return 1;
    struct reader r = {s.p, 0, s.size, false};
    int bad = 0;
    while (!bad && r.at < r.end)
        bad = unit(c, f, section, &r, &w);
    if (!bad && functions)
        posted_functions(c);
    return bad ? bad : !w.any;
}
