/* Debug information in PTX text, read for one thing: what functions take (dwarf.h).
 *
 * PTX ISA §11.5 writes DWARF sections as lists of numbers, `.b8 1,2` `.b32 .debug_abbrev`. They are made bytes again: a
 * number has the width of the directive before it, a symbol is zeros of that width (nothing here follows one: both
 * sections begin at 0). Then, as DWARF 2 to 4 say (dwarfstd.org, §7.5), the entries of .debug_info are read in one pass
 * by the abbreviations of .debug_abbrev: tag, name, type, size, place in a structure, the entry above. Only what is
 * asked for is looked at; forms that are not known end the reading, and so does an offset that leads out: what has been
 * read until then counts.
 *
 * The text is anybody's. Sections are bounded to BYTES_MOST, entries to ENTRIES_MOST, members of a parameter to
 * MEMBERS_MOST and of all together to STEPS_MOST, names to NAME_MOST bytes, and types are followed DEPTH_MOST deep, so
 * that a type of itself ends.
 *
 * Not here: DWARF 5, lines (debug.c), locations, what templates are called.
 */
#include "ptx/dwarf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#define BYTES_MOST (64u << 20)
#define ENTRIES_MOST (1u << 18)
#define ABBREVIATIONS_MOST 4096u
#define MEMBERS_MOST 64u
#define STEPS_MOST (1u << 19)
#define DEPTH_MOST 16
#define NAME_MOST 200
#define SYMBOL_MOST 4096

enum {
    TAG_CLASS = 0x02,
    TAG_ENUM = 0x04,
    TAG_PARAMETER = 0x05,
    TAG_MEMBER = 0x0d,
    TAG_POINTER = 0x0f,
    TAG_REFERENCE = 0x10,
    TAG_UNIT = 0x11,
    TAG_STRUCT = 0x13,
    TAG_TYPEDEF = 0x16,
    TAG_UNION = 0x17,
    TAG_BASE = 0x24,
    TAG_CONST = 0x26,
    TAG_SUBPROGRAM = 0x2e,
    TAG_VOLATILE = 0x35,
    TAG_RESTRICT = 0x37,
    AT_NAME = 0x03,
    AT_SIZE = 0x0b,
    AT_ORIGIN = 0x31,
    AT_PLACE = 0x38,
    AT_ENCODING = 0x3e,
    AT_SPECIFICATION = 0x47,
    AT_TYPE = 0x49,
    AT_LINKAGE = 0x6e,
    AT_MIPS_LINKAGE = 0x2007,
};

struct bytes dt_vec(uint8_t);

struct entry {
    uint32_t at; /* in .debug_info */
    uint32_t tag, up;
    uint32_t type, origin; /* where that entry is; 0: not said */
    const char *name, *symbol;
    uint64_t size, place;
    uint8_t encoding;
};

struct dwarf {
    struct bytes info, abbrev;
    struct dt_vec(struct entry) entry;
    size_t at, end; /* reading .debug_info, to the end of its unit */
    bool bad;
    uint32_t steps; /* members that were looked at */
    struct ptx_c_source *out;
};

/* ---- text to bytes ----------------------------------------------------------------------------------------------- */

/* The section between its braces; NULL: there is none. */
static const char *dwarf_section(const char *text, const char *end, const char *name, const char **ret_end)
{
    static const char word[] = ".section";
    for (const char *p = text; (p = memmem(p, (size_t)(end - p), word, sizeof word - 1)); p++) {
        const char *q = p + sizeof word - 1;
        while (q < end && (*q == ' ' || *q == '\t'))
            q++;
        if ((size_t)(end - q) < strlen(name) || strncmp(q, name, strlen(name)))
            continue;
        q += strlen(name);
        while (q < end && isspace((unsigned char)*q))
            q++;
        const char *close = q < end && *q == '{' ? memchr(q, '}', (size_t)(end - q)) : NULL;
        if (close) {
            *ret_end = close;
            return q + 1;
        }
    }
    return NULL;
}

/* False: out of memory. */
static bool to_bytes(const char *p, const char *end, struct bytes *out)
{
    unsigned width = 1;
    while (p < end) {
        const char *q = p;
        while (q < end && !isspace((unsigned char)*q) && *q != ',')
            q++;
        size_t n = (size_t)(q - p);
        if (n && p[n - 1] != ':') { /* else a separator, or a label */
            if (n > 2 && n < 5 && p[0] == '.' && p[1] == 'b' && isdigit((unsigned char)p[2])) {
                width = (unsigned)strtoul(p + 2, NULL, 10) / 8;
                width = width == 1 || width == 2 || width == 4 || width == 8 ? width : 1;
            } else {
                bool number = isdigit((unsigned char)*p) || *p == '-';
                uint64_t v = !number ? 0 : *p == '-' ? (uint64_t)strtoll(p, NULL, 0) : strtoull(p, NULL, 0);
                if (out->n + width > BYTES_MOST)
                    return true;
                if (!dt_reserve(out, out->n + width))
                    return false;
                for (unsigned k = 0; k < width; k++)
                    out->p[out->n++] = (uint8_t)(v >> 8 * k);
            }
        }
        p = q + 1;
    }
    return true;
}

/* ---- bytes to entries -------------------------------------------------------------------------------------------- */

static uint64_t fixed(struct dwarf *d, unsigned n)
{
    uint64_t v = 0;
    if (d->end - d->at < n) {
        d->bad = true;
        d->at = d->end;
        return 0;
    }
    for (unsigned k = 0; k < n; k++)
        v |= (uint64_t)d->info.p[d->at++] << 8 * k;
    return v;
}

static uint64_t leb(const struct bytes *b, size_t *at, size_t end)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < end; shift += 7) {
        uint8_t c = b->p[(*at)++];
        if (shift < 64)
            v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            break;
    }
    return v;
}

/* One attribute: a number, or *ret_text of a string. A block is the number that its DW_OP_plus_uconst adds. */
static uint64_t attribute(struct dwarf *d, uint64_t form, const char **ret_text)
{
    uint64_t n;
    *ret_text = NULL;
    switch (form) {
    case 0x01: return fixed(d, 8); /* addr */
    case 0x0b:
    case 0x0c:
    case 0x11: return fixed(d, 1); /* data1, flag, ref1 */
    case 0x05:
    case 0x12: return fixed(d, 2);
    case 0x06:
    case 0x0e:
    case 0x10:
    case 0x13:
    case 0x17: return fixed(d, 4); /* data4, strp, ref_addr, ref4, sec_offset */
    case 0x07:
    case 0x14:
    case 0x20: return fixed(d, 8);
    case 0x0d:
    case 0x0f:
    case 0x15: return leb(&d->info, &d->at, d->end);
    case 0x19: return 1; /* flag_present */
    case 0x08: {
        const uint8_t *s = d->info.p + d->at, *nul = d->at < d->end ? memchr(s, 0, d->end - d->at) : NULL;
        if (!nul) {
            d->bad = true;
            return 0;
        }
        d->at += (size_t)(nul - s) + 1;
        *ret_text = (const char *)s;
        return 0;
    }
    case 0x0a:
    case 0x03:
    case 0x04:
    case 0x09:
    case 0x18: { /* blocks and expressions */
        n = form == 0x0a ? fixed(d, 1) : form == 0x03 ? fixed(d, 2) : form == 0x04 ? fixed(d, 4) : 0;
        n = form == 0x09 || form == 0x18 ? leb(&d->info, &d->at, d->end) : n;
        if (n > d->end - d->at) {
            d->bad = true;
            return 0;
        }
        size_t at = d->at + 1, end = d->at + (size_t)n;
        uint64_t v = n > 1 && d->info.p[d->at] == 0x23 ? leb(&d->info, &at, end) : 0;
        d->at = end;
        return v;
    }
    default: d->bad = true; return 0;
    }
}

/* Where the abbreviations are: by code, place behind it + 1 in .debug_abbrev; 0: none. */
static void abbreviations(const struct bytes *b, uint32_t *place)
{
    for (size_t at = 0; at < b->n;) {
        uint64_t code = leb(b, &at, b->n);
        if (!code)
            break; /* those of another unit follow; all that were met have one table */
        if (code < ABBREVIATIONS_MOST && !place[code])
            place[code] = (uint32_t)at + 1;
        leb(b, &at, b->n);
        at++; /* has children */
        while (at < b->n) {
            uint64_t name = leb(b, &at, b->n), form = leb(b, &at, b->n);
            if (!name && !form)
                break;
        }
    }
}

/* One entry's attributes, by its abbreviation at `at`. Has it children? */
static bool entry_read(struct dwarf *d, size_t at, size_t unit, struct entry *x)
{
    const struct bytes *b = &d->abbrev;
    x->tag = (uint32_t)leb(b, &at, b->n);
    bool children = at < b->n && b->p[at];
    at++;
    while (at < b->n && !d->bad) {
        const char *text;
        uint64_t name = leb(b, &at, b->n), form = leb(b, &at, b->n);
        if (!name && !form)
            break;
        uint64_t v = attribute(d, form, &text);
        uint64_t to = form == 0x10 ? v : v + unit; /* ref_addr is from the section's beginning */
        switch (name) {
        case AT_NAME: x->name = text; break;
        case AT_LINKAGE:
        case AT_MIPS_LINKAGE: x->symbol = text; break;
        case AT_SIZE: x->size = v; break;
        case AT_PLACE: x->place = v; break;
        case AT_ENCODING: x->encoding = (uint8_t)v; break;
        case AT_TYPE: x->type = to < d->info.n ? (uint32_t)to : 0; break;
        case AT_ORIGIN:
        case AT_SPECIFICATION: x->origin = to < d->info.n ? (uint32_t)to : 0; break;
        }
    }
    return children;
}

/* All entries of all units, in order. False: out of memory. */
static bool entries(struct dwarf *d)
{
    uint32_t *place = dt_new_array(&d->out->arena, uint32_t, ABBREVIATIONS_MOST), up = UINT32_MAX;
    if (!place)
        return false;
    abbreviations(&d->abbrev, place);
    for (d->end = d->info.n; d->at < d->info.n && !d->bad;) {
        size_t unit = d->at;
        d->end = d->info.n;
        uint64_t n = fixed(d, 4);
        if (n > d->info.n - d->at)
            n = d->info.n - d->at; /* what is said is not what is there, as where labels are subtracted */
        d->end = d->at + (size_t)(n ? n : d->info.n - d->at);
        uint64_t version = fixed(d, 2);
        fixed(d, 4);
        if (version < 2 || version > 4 || fixed(d, 1) != 8)
            return true;
        up = UINT32_MAX;
        while (d->at < d->end && !d->bad && d->entry.n < ENTRIES_MOST) {
            struct entry x = {.at = (uint32_t)d->at, .up = up};
            uint64_t code = leb(&d->info, &d->at, d->end);
            if (!code) { /* the end of what is below `up` */
                up = up == UINT32_MAX ? up : d->entry.p[up].up;
                continue;
            }
            if (code >= ABBREVIATIONS_MOST || !place[code])
                return true;
            bool children = entry_read(d, place[code] - 1, unit, &x);
            if (d->bad)
                break;
            if (!dt_push(&d->entry, x))
                return false;
            if (children)
                up = (uint32_t)d->entry.n - 1;
        }
        d->at = d->end;
    }
    return true;
}

static const struct entry *entry_at(const struct dwarf *d, uint32_t at)
{
    size_t lo = 0, hi = d->entry.n;
    while (at && lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (d->entry.p[mid].at == at)
            return &d->entry.p[mid];
        if (d->entry.p[mid].at < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static bool is_struct(uint32_t tag) { return tag == TAG_STRUCT || tag == TAG_CLASS || tag == TAG_UNION; }

static void type_text(const struct dwarf *d, const struct entry *x, int depth, struct dt_str *out)
{
    if (depth > DEPTH_MOST) {
        dt_str_add(out, "?");
    } else if (!x) {
        dt_str_add(out, "void");
    } else if (x->tag == TAG_POINTER || x->tag == TAG_REFERENCE) {
        type_text(d, entry_at(d, x->type), depth + 1, out);
        dt_str_add(out, out->len && out->s[out->len - 1] == '*' ? "" : " ");
        dt_str_addc(out, x->tag == TAG_POINTER ? '*' : '&');
    } else if (x->tag == TAG_RESTRICT) {
        type_text(d, entry_at(d, x->type), depth + 1, out);
    } else if (x->tag == TAG_CONST || x->tag == TAG_VOLATILE) {
        const struct entry *of = entry_at(d, x->type);
        const char *word = x->tag == TAG_CONST ? "const" : "volatile";
        bool behind = of && of->tag == TAG_POINTER;
        dt_str_addf(out, "%s", behind ? "" : word);
        dt_str_add(out, behind ? "" : " ");
        type_text(d, of, depth + 1, out);
        dt_str_add(out, behind ? word : "");
    } else {
        dt_str_addf(out, "%.*s", NAME_MOST, x->name && *x->name ? x->name : "?");
    }
}

/* Without typedef, const and the like. */
static const struct entry *bare(const struct dwarf *d, const struct entry *x, bool *ret_const)
{
    for (int depth = 0; x && depth < DEPTH_MOST; depth++) {
        if (x->tag == TAG_CONST)
            *ret_const = true;
        else if (x->tag != TAG_TYPEDEF && x->tag != TAG_VOLATILE && x->tag != TAG_RESTRICT)
            return x;
        x = entry_at(d, x->type);
    }
    return NULL;
}

/* False: out of memory. */
static bool type_of(struct dwarf *d, uint32_t at, struct ptx_c_type *ret, const struct entry **ret_bare)
{
    const struct entry *x = entry_at(d, at), *b = bare(d, x, &ret->is_const);
    struct dt_str text = {0};
    type_text(d, x, 0, &text);
    ret->text = text.failed || !text.s ? NULL : dt_arena_strdup(&d->out->arena, text.s);
    dt_str_done(&text);
    ret->kind = PTX_C_OTHER;
    *ret_bare = b;
    if (b && (b->tag == TAG_POINTER || b->tag == TAG_REFERENCE)) {
        ret->kind = PTX_C_POINTER;
        ret->bytes = 8;
    } else if (b && is_struct(b->tag)) {
        ret->kind = PTX_C_STRUCT;
        ret->bytes = b->size;
    } else if (b && (b->tag == TAG_BASE || b->tag == TAG_ENUM)) {
        /* DW_ATE_float is 4, signed 5, signed_char 6; boolean 2, unsigned 7, unsigned_char 8 */
        ret->kind = b->tag == TAG_ENUM || b->encoding == 5 || b->encoding == 6 ? PTX_C_SIGNED
                    : b->encoding == 4                                         ? PTX_C_FLOAT
                                                                               : PTX_C_UNSIGNED;
        ret->bytes = b->size;
    }
    return ret->text != NULL;
}

static bool value_of(struct dwarf *d, uint32_t type, struct ptx_c_value *ret, const struct entry **ret_bare)
{
    const struct entry *to;
    if (!type_of(d, type, &ret->type, ret_bare))
        return false;
    return ret->type.kind != PTX_C_POINTER || type_of(d, (*ret_bare)->type, &ret->to, &to);
}

/* What structure x has in it, appended to p. */
static bool dwarf_members(struct dwarf *d, const struct entry *x, const char *name, uint64_t at, int depth,
                          struct ptx_c_param *p)
{
    uint32_t self = (uint32_t)(x - d->entry.p);
    for (size_t i = self + 1; i < d->entry.n && p->nmember < MEMBERS_MOST && d->steps++ < STEPS_MOST; i++) {
        const struct entry *m = &d->entry.p[i], *b;
        if (m->up != self) {
            if (m->up == UINT32_MAX || m->up < self)
                break; /* behind it */
            continue;
        }
        if (m->tag != TAG_MEMBER)
            continue;
        struct ptx_c_value v = {.at = at + m->place};
        v.name = dt_arena_printf(&d->out->arena, "%s.%.*s", name, NAME_MOST, m->name ? m->name : "?");
        if (!v.name || !value_of(d, m->type, &v, &b))
            return false;
        if (v.type.kind == PTX_C_STRUCT) {
            if (depth < DEPTH_MOST && !dwarf_members(d, b, v.name, v.at, depth + 1, p))
                return false;
            continue;
        }
        d->steps += p->member ? 0 : MEMBERS_MOST;
        if (!p->member && !(p->member = dt_new_array(&d->out->arena, struct ptx_c_value, MEMBERS_MOST)))
            return false;
        if (p->nmember < MEMBERS_MOST)
            p->member[p->nmember++] = v;
    }
    return true;
}

/* A name or type that the entry has, or those that it refers to. */
static const struct entry *said(const struct dwarf *d, const struct entry *x)
{
    for (int depth = 0; depth < DEPTH_MOST && x && !x->name && x->origin; depth++)
        x = entry_at(d, x->origin);
    return x;
}

static const char *dwarf_text(struct dwarf *d, const char *s, size_t most)
{
    return dt_arena_strndup(&d->out->arena, s ? s : "", s ? strnlen(s, most) : 0);
}

static bool dwarf_function(struct dwarf *d, uint32_t self, struct ptx_c_function *f)
{
    const struct entry *x = &d->entry.p[self], *by = said(d, x), *b;
    const char *symbol = x->symbol ? x->symbol : by ? by->symbol : NULL;
    uint32_t n = 0;
    f->name = dwarf_text(d, by ? by->name : NULL, NAME_MOST);
    f->symbol = dwarf_text(d, symbol ? symbol : by ? by->name : NULL, SYMBOL_MOST);
    for (size_t i = self + 1; i < d->entry.n && d->entry.p[i].up != UINT32_MAX && d->entry.p[i].up >= self; i++)
        n += d->entry.p[i].up == self && d->entry.p[i].tag == TAG_PARAMETER;
    f->param = dt_new_array(&d->out->arena, struct ptx_c_param, n + 1);
    if (!f->name || !f->symbol || !f->param)
        return false;
    for (size_t i = self + 1; f->nparam < n; i++) {
        const struct entry *m = &d->entry.p[i], *named = said(d, m);
        if (m->up != self || m->tag != TAG_PARAMETER)
            continue;
        struct ptx_c_param *p = &f->param[f->nparam++];
        uint32_t type = m->type ? m->type : named ? named->type : 0;
        p->value.name = dwarf_text(d, named ? named->name : NULL, NAME_MOST);
        if (!p->value.name || !value_of(d, type, &p->value, &b) ||
            (p->value.type.kind == PTX_C_STRUCT && !dwarf_members(d, b, p->value.name, 0, 0, p)))
            return false;
    }
    return true;
}

static bool dwarf_functions(struct dwarf *d)
{
    uint32_t n = 0;
    for (size_t i = 0; i < d->entry.n; i++)
        n += d->entry.p[i].tag == TAG_SUBPROGRAM;
    d->out->function = dt_new_array(&d->out->arena, struct ptx_c_function, n + 1);
    for (uint32_t i = 0; d->out->function && i < d->entry.n; i++)
        if (d->entry.p[i].tag == TAG_SUBPROGRAM && !dwarf_function(d, i, &d->out->function[d->out->nfunction++]))
            return false;
    return d->out->function != NULL;
}

int ptx_c_read(const char *text, size_t len, struct ptx_c_source *ret, struct dt_err *e)
{
    struct dwarf d = {.out = ret};
    const char *end = text + len, *info_end, *abbrev_end, *info = dwarf_section(text, end, ".debug_info", &info_end),
               *abbrev = dwarf_section(text, end, ".debug_abbrev", &abbrev_end);
    bool ok = true;
    memset(ret, 0, sizeof *ret);
    if (info && abbrev)
        ok = to_bytes(info, info_end, &d.info) && to_bytes(abbrev, abbrev_end, &d.abbrev) && entries(&d) &&
             dwarf_functions(&d);
    free(d.info.p);
    free(d.abbrev.p);
    free(d.entry.p);
    if (ok)
        return 0;
    ptx_c_done(ret);
    return dt_err_set(e, DT_E_NOMEM, "out of memory while reading debug information");
}

void ptx_c_done(struct ptx_c_source *s)
{
    dt_arena_done(&s->arena);
    memset(s, 0, sizeof *s);
}

const struct ptx_c_function *ptx_c_find(const struct ptx_c_source *s, const char *symbol)
{
    for (uint32_t i = 0; i < s->nfunction; i++)
        if (!strcmp(s->function[i].symbol, symbol))
            return &s->function[i];
    return NULL;
}
