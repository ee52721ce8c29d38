/* The head of a .npy file (numpy.lib.format): `\x93NUMPY`, version, length, then a dictionary of Python with `descr`,
 * `fortran_order`, `shape`, and blanks. Elements follow, as they lie in memory.
 *
 * It is read word by word, by what numpy writes: quotes of either kind, members in any order, each once. Taken are
 * elements of a fixed size whose bytes are in this machine's order (little): numbers, bool, and void (`|V2`, which is
 * how bfloat16 is saved). Refused by name are objects (pickles: they are programs), big-endian and structured elements,
 * text, dates, and arrays in Fortran's order, whose bytes are not in the order that a graph's buffer means.
 */
#include "client/npy.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define HEAD_MOST (1u << 16)
#define DIMENSIONS_MOST 64

struct reader {
    const char *s, *end;
};

bool npy_is(const void *p, size_t n) { return n >= 6 && !memcmp(p, MAGIC, 6); }

static bool next_is(struct reader *r, char c)
{
    while (r->s < r->end && isspace((unsigned char)*r->s))
        r->s++;
    if (r->s == r->end || *r->s != c)
        return false;
    r->s++;
    return true;
}

/* A text in quotes without escapes, into out. */
static bool text(struct reader *r, char *out, size_t room)
{
    char quote = next_is(r, '\'') ? '\'' : next_is(r, '"') ? '"' : 0;
    const char *close = quote ? memchr(r->s, quote, (size_t)(r->end - r->s)) : NULL;
    if (!close || (size_t)(close - r->s) >= room || memchr(r->s, '\\', (size_t)(close - r->s)))
        return false;
    memcpy(out, r->s, (size_t)(close - r->s));
    out[close - r->s] = 0;
    r->s = close + 1;
    return true;
}

static bool word(struct reader *r, const char *w)
{
    size_t n = strlen(w);
    while (r->s < r->end && isspace((unsigned char)*r->s))
        r->s++;
    if ((size_t)(r->end - r->s) < n || memcmp(r->s, w, n))
        return false;
    r->s += n;
    return true;
}

/* "(3, 4)", "(3,)", "()": *ret = the product. 1: it has more than one dimension that is not 1; 0; -1: it is none; -2:
 * it is too large. */
static int shape(struct reader *r, uint64_t *ret)
{
    int wide = 0, n = 0;
    bool empty = false, large = false;
    *ret = 1;
    if (!next_is(r, '('))
        return -1;
    while (!next_is(r, ')')) {
        uint64_t v = 0;
        if (r->s == r->end || !isdigit((unsigned char)*r->s) || ++n > DIMENSIONS_MOST)
            return -1;
        for (; r->s < r->end && isdigit((unsigned char)*r->s); r->s++)
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (unsigned)(*r->s - '0'), &v))
                return -2;
        next_is(r, 'L'); /* of Python 2 */
        wide += v > 1;
        empty |= !v;
        large |= __builtin_mul_overflow(*ret, v, ret);
        if (!next_is(r, ',') && (r->s == r->end || *r->s != ')'))
            return -1;
    }
    if (empty)
        *ret = 0;
    return large && !empty ? -2 : wide > 1;
}

static int npy_element(struct npy *a, struct dt_err *e)
{
    const char *d = a->descr;
    char *end = NULL;
    if (strlen(d) >= 2 && strchr("<>|=", *d)) {
        unsigned long size = isdigit((unsigned char)d[2]) ? strtoul(d + 2, &end, 10) : 0;
        a->kind = d[1];
        a->size = end && !*end && size <= 65536 ? (unsigned)size : 0;
    }
    if (a->kind == 'O')
        return dt_err_set(e, DT_E_GRAPH, "its elements are Python objects, which are not read");
    if (!a->size || !strchr("biufcV", a->kind))
        return dt_err_set(e, DT_E_GRAPH, "elements '%s' are not taken: numbers are, bool, and void", d);
    if (*d == '>' && a->size > 1)
        return dt_err_set(e, DT_E_GRAPH, "its elements ('%s') are big-endian: save a.astype('<%s')", d, d + 1);
    return 0;
}

int npy_head(const void *p, size_t n, struct npy *ret, struct dt_err *e)
{
    const uint8_t *b = p;
    struct npy a = {0};
    bool fortran = false;
    unsigned seen = 0;
    uint64_t count = 0;
    int many = 0;
    unsigned wide = n >= 8 && b[6] == 1 ? 2 : 4;
    if (!npy_is(p, n) || n < 8 + wide || b[6] < 1 || b[6] > 3)
        return dt_err_set(e, DT_E_GRAPH, "this is no .npy file of version 1 to 3");
    size_t len = b[8] | (size_t)b[9] << 8 | (wide == 4 ? (size_t)b[10] << 16 | (size_t)b[11] << 24 : 0);
    a.at = 8 + wide + len;
    if (len > HEAD_MOST || a.at > n)
        return dt_err_set(e, DT_E_GRAPH, "its head is cut off, or has over %u bytes", HEAD_MOST);
    struct reader r = {(const char *)b + 8 + wide, (const char *)b + a.at};
    bool ok = next_is(&r, '{');
    while (ok && !next_is(&r, '}')) {
        char key[32];
        unsigned bit = 0;
        ok = text(&r, key, sizeof key) && next_is(&r, ':');
        if (ok && !strcmp(key, "descr")) {
            bit = 1;
            if (r.s < r.end && (next_is(&r, '[') || next_is(&r, '(')))
                return dt_err_set(e, DT_E_GRAPH, "its elements are structures, which are not taken: save one field");
            ok = text(&r, a.descr, sizeof a.descr);
        } else if (ok && !strcmp(key, "fortran_order")) {
            bit = 2;
            fortran = word(&r, "True");
            ok = fortran || word(&r, "False");
        } else if (ok && !strcmp(key, "shape")) {
            bit = 4;
            many = shape(&r, &count);
            ok = many >= 0;
            if (many == -2)
                return dt_err_set(e, DT_E_GRAPH, "its shape is larger than any file");
        }
        ok = ok && bit && !(seen & bit);
        seen |= bit;
        if (ok && !next_is(&r, ','))
            ok = r.s < r.end && *r.s == '}';
    }
    if (!ok || seen != 7)
        return dt_err_set(e, DT_E_GRAPH, "its head is not what numpy writes");
    int got = npy_element(&a, e);
    if (got < 0)
        return got;
    if (fortran && many)
        return dt_err_set(e, DT_E_GRAPH, "it is stored in Fortran's order: save numpy.ascontiguousarray(a)");
    if (__builtin_mul_overflow(count, (uint64_t)a.size, &a.bytes))
        return dt_err_set(e, DT_E_GRAPH, "its shape is larger than any file");
    *ret = a;
    return 0;
}

bool npy_fits(const struct npy *a, const char *dtype)
{
    unsigned bits = (unsigned)strtoul(dtype + strcspn(dtype, "0123456789"), NULL, 10);
    if (bits != a->size * 8)
        return false;
    if (!strncmp(dtype, "bf", 2)) /* numpy has no word for it: its bits */
        return a->kind == 'V' || a->kind == 'u';
    switch (*dtype) {
    case 'f': return a->kind == 'f';
    case 'i': return a->kind == 'i' || (a->kind == 'b');
    case 'u': return a->kind == 'u' || (a->kind == 'b');
    }
    return false;
}
