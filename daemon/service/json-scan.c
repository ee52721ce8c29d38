/* The limits of a posted graph or plan, checked on each piece of the body as it comes in.
 *
 * A parsed document takes up to a hundred times the memory of its text (`[[],[],…`), so a limit on bytes alone is none.
 * The scanner counts values, depth, and the members of the lists that graph/ bounds, without storing anything: an
 * excess ends the request at its first byte, long before a parser would see it. A short body that may be a hit is
 * scanned in one piece once it is there, and only if it is none (dtd_req_scan).
 *
 * It is no parser. It knows strings, brackets, commas and colons, and takes all else for scalars. Where it meets what
 * can be no JSON (a bracket that closes nothing, or the wrong kind) it stops looking: the parser stops there too, and
 * has then built no more than was counted. A list whose name is written with escapes is not recognised; graph/ bounds
 * it once it is parsed, and until then the number of values does.
 */
#include "daemon/service/json-scan.h"

#include <string.h>

#include "graph/graph.h"

static const struct {
    const char *pointer;
    unsigned most;
} lists[] = {{"/modules", DT_MAX_MODULES},
             {"/buffers", DT_MAX_BUFFERS},
             {"/scratch", DT_MAX_BUFFERS},
             {"/launches", DT_MAX_LAUNCHES}};

/* A value begins. */
static int value(struct dtd_scan *s, struct dt_err *e)
{
    if (++s->values > DTD_SCAN_VALUES)
        return dt_err_set(e, DT_E_TOO_LARGE, "the document has more than %u values", DTD_SCAN_VALUES);
    if (!s->section || s->depth != 2 || ++s->count <= lists[s->section - 1].most)
        return 0;
    const char *pointer = lists[s->section - 1].pointer;
    return dt_err_at(e, DT_E_TOO_LARGE, pointer, "more than %u %s", lists[s->section - 1].most, pointer + 1);
}

static int open_(struct dtd_scan *s, bool object, struct dt_err *e)
{
    int r = value(s, e);
    if (r < 0)
        return r;
    if (s->depth == DTD_SCAN_DEPTH)
        return dt_err_set(e, DT_E_TOO_LARGE, "the document is nested more than %d deep", DTD_SCAN_DEPTH);
    if (s->depth == 1)
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            if (!strcmp(s->name, lists[i].pointer + 1)) {
                s->section = (int)i + 1;
                s->count = 0;
            }
    uint64_t bit = UINT64_C(1) << s->depth++;
    s->objects = object ? s->objects | bit : s->objects & ~bit;
    s->want_name = object;
    return 0;
}

static bool in_object(const struct dtd_scan *s) { return s->depth && s->objects >> (s->depth - 1) & 1; }

static void close_(struct dtd_scan *s, bool object)
{
    if (!s->depth || in_object(s) != object) {
        s->lost = true;
        return;
    }
    s->depth--;
    s->want_name = false;
    if (s->depth < 2)
        s->section = 0;
}

/* A byte within a string. */
static int text(struct dtd_scan *s, char c, struct dt_err *e)
{
    if (!s->escaped && c == '"') {
        s->in_string = false;
        return 0;
    }
    s->escaped = !s->escaped && c == '\\';
    if (!s->is_name)
        return 0;
    if (s->depth == 1) {
        bool fits = s->len + 1 < sizeof s->name && c != '\\' && (s->len == 0 || *s->name);
        s->name[fits ? s->len : 0] = fits ? c : 0;
        s->name[fits ? s->len + 1 : 0] = 0;
    }
    if (++s->len > DTD_SCAN_NAME)
        return dt_err_set(e, DT_E_TOO_LARGE, "a member's name is longer than %u bytes", DTD_SCAN_NAME);
    return 0;
}

static int begin_string(struct dtd_scan *s, struct dt_err *e)
{
    s->in_string = true;
    s->is_name = s->want_name;
    s->want_name = false;
    s->len = 0;
    if (s->is_name && s->depth == 1)
        *s->name = 0;
    return s->is_name ? 0 : value(s, e);
}

static int scalar(struct dtd_scan *s, struct dt_err *e)
{
    if (!s->in_scalar) {
        s->in_scalar = true;
        s->len = 0;
        return value(s, e);
    }
    if (++s->len > DTD_SCAN_SCALAR)
        return dt_err_set(e, DT_E_TOO_LARGE, "a number is longer than %u bytes", DTD_SCAN_SCALAR);
    return 0;
}

static int step(struct dtd_scan *s, char c, struct dt_err *e)
{
    bool go_on = s->in_scalar;
    s->in_scalar = false;
    switch (c) {
    case ' ':
    case '\t':
    case '\n':
    case '\r': return 0;
    case '"': return begin_string(s, e);
    case '{': return open_(s, true, e);
    case '[': return open_(s, false, e);
    case '}': close_(s, true); return 0;
    case ']': close_(s, false); return 0;
    case ',': s->want_name = in_object(s); return 0;
    case ':': return 0;
    default: s->in_scalar = go_on; return scalar(s, e);
    }
}

/* How many bytes of p[0..n) come before a quote or a backslash; eight at a time. */
static size_t plain(const char *p, size_t n)
{
    const uint64_t one = UINT64_C(0x0101010101010101), high = one << 7;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t v, q, b;
        memcpy(&v, p + i, 8);
        q = v ^ one * '"';
        b = v ^ one * '\\';
        if (((q - one) & ~q & high) | ((b - one) & ~b & high)) /* a byte of one of them is 0 */
            break;
    }
    while (i < n && p[i] != '"' && p[i] != '\\')
        i++;
    return i;
}

int dtd_scan_feed(struct dtd_scan *s, const char *p, size_t n, struct dt_err *e)
{
    for (size_t i = 0; i < n && !s->lost; i++) {
        if (s->in_string && !s->is_name && !s->escaped) { /* most bytes are the text of modules */
            i += plain(p + i, n - i);
            if (i == n)
                break;
        }
        int r = s->in_string ? text(s, p[i], e) : step(s, p[i], e);
        if (r < 0)
            return r;
    }
    return 0;
}
