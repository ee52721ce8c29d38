/* The header of a request: its lines, its fields, and whether they may be believed.
 *
 * llhttp parses leniently in places where two readers of the same bytes may disagree about where a request ends. So its
 * input goes through dtd_lines_take first, which finds the end of the header by itself and refuses
 *   a line that ends in LF alone, or has a CR inside;
 *   a line that begins with a blank, which is a folded field (obs-fold) or a field before the first (RFC 9112, 5.2).
 * Empty lines before a request are skipped, as RFC 9112, 2.2 asks.
 *
 * Fields are kept as they come, at most DTD_MAX_FIELDS of them; their bytes are bounded by the header's. A field that
 * occurs again is joined to the first with ", " (RFC 9110, 5.3), except where two can only be a mistake or an attack:
 * those are refused. Nothing here knows a socket: all is pure.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "daemon/service/http-priv.h"

enum { LINES_BEGIN, LINES_BEGIN_CR, LINES_IN, LINES_CR, LINES_NEXT, LINES_END_CR, LINES_END };

static int lines_step(int at, char c, const char **why)
{
    switch (at) {
    case LINES_BEGIN:
        if (c != '\r' && c != '\n')
            return LINES_IN;
        break;
    case LINES_NEXT:
        if (c == ' ' || c == '\t')
            *why = "a line of the header begins with a blank: folded fields are not taken";
        if (c != '\r' && c != '\n')
            return LINES_IN;
        break;
    case LINES_IN:
        if (c != '\r' && c != '\n')
            return LINES_IN;
        break;
    default:
        if (c != '\n')
            *why = "a CR in the header is not followed by LF";
        return at == LINES_BEGIN_CR ? LINES_BEGIN : at == LINES_CR ? LINES_NEXT : LINES_END;
    }
    if (c == '\n')
        *why = "a line of the header ends in LF without CR";
    return at + 1;
}

size_t dtd_lines_take(struct dtd_lines *l, const char *p, size_t n, const char **why)
{
    size_t i = 0;
    for (*why = NULL; i < n && l->at != LINES_END && l->bytes < DTD_HEADER_MAX && !*why; i++) {
        l->at = lines_step(l->at, p[i], why);
        l->bytes++;
    }
    return i;
}

bool dtd_lines_ended(const struct dtd_lines *l) { return l->at == LINES_END; }

/* ---- fields ----------------------------------------------------------------------------------------------------- */
void dtd_fields_done(struct dtd_fields *f)
{
    dt_str_done(&f->text);
    *f = (struct dtd_fields){0};
}

void dtd_fields_name(struct dtd_fields *f, const char *p, size_t n)
{
    if (!f->open && f->n < DTD_MAX_FIELDS) {
        f->field[f->n].name = (unsigned)f->text.len;
        f->open = true;
    }
    dt_str_addn(&f->text, p, n);
}

void dtd_fields_between(struct dtd_fields *f)
{
    dt_str_addc(&f->text, 0);
    if (f->n < DTD_MAX_FIELDS)
        f->field[f->n].value = (unsigned)f->text.len;
}

void dtd_fields_value(struct dtd_fields *f, const char *p, size_t n) { dt_str_addn(&f->text, p, n); }

static int find_field(const struct dtd_fields *f, const char *name)
{
    for (unsigned i = 0; i < f->n; i++)
        if (!strcasecmp(f->text.s + f->field[i].name, name))
            return (int)i;
    return -1;
}

/* Two of these have no meaning together. */
static bool single(const char *name)
{
    static const char *const names[] = {"host",         "content-length", "transfer-encoding", "idempotency-key",
                                        "content-type", "last-event-id",  "traceparent"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(names[i], name))
            return true;
    return false;
}

bool dtd_fields_end(struct dtd_fields *f, const char **why)
{
    f->open = false;
    while (f->n < DTD_MAX_FIELDS && f->text.len > f->field[f->n].value && strchr(" \t", f->text.s[f->text.len - 1]))
        f->text.len--;
    dt_str_addc(&f->text, 0);
    if (f->text.failed)
        *why = "out of memory";
    else if (f->n == DTD_MAX_FIELDS)
        *why = "the header has more than 100 fields";
    if (f->text.failed || f->n == DTD_MAX_FIELDS)
        return false;
    unsigned name = f->field[f->n].name, value = f->field[f->n].value;
    int old = find_field(f, f->text.s + name);
    if (old < 0) {
        f->n++;
        return true;
    }
    if (single(f->text.s + name)) {
        *why = "a field that may be given once is there twice: Host, Content-Length, Transfer-Encoding, Content-Type, "
               "Idempotency-Key, traceparent, Last-Event-ID";
        return false;
    }
    /* OLD, NEW behind all that is there; the bytes of both stay unused until the request ends */
    struct dt_str both = {0};
    unsigned joined = (unsigned)f->text.len;
    dt_str_addf(&both, "%s, %s", f->text.s + f->field[old].value, f->text.s + value);
    dt_str_addn(&f->text, both.s ? both.s : "", both.len + 1);
    f->field[old].value = joined;
    f->text.failed |= both.failed;
    dt_str_done(&both);
    if (f->text.failed || f->text.len > 4 * DTD_HEADER_MAX) {
        *why = f->text.failed ? "out of memory" : "a field of the header is repeated too often";
        return false;
    }
    return true;
}

const char *dtd_fields_get(const struct dtd_fields *f, const char *name)
{
    int i = find_field(f, name);
    return i < 0 ? NULL : f->text.s + f->field[i].value;
}

/* ---- what must be there, and how -------------------------------------------------------------------------------- */
static bool host_ok(const char *s)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("-._~!$&'()*+,;=%:[]", *s))
            return false;
    return true;
}

int dtd_fields_check(const struct dtd_fields *f, unsigned minor, const char **why)
{
    const char *host = dtd_fields_get(f, "host"), *te = dtd_fields_get(f, "transfer-encoding");
    const char *expect = dtd_fields_get(f, "expect");
    int status = 400;
    if (!host && minor)
        *why = "the field Host is missing";
    else if (host && !host_ok(host))
        *why = "the field Host is no host";
    else if (te && !minor)
        *why = "HTTP/1.0 has no Transfer-Encoding";
    else if (te && dtd_fields_get(f, "content-length"))
        *why = "a request has Content-Length or Transfer-Encoding, not both";
    else if (te && strcasecmp(te, "chunked")) {
        *why = "the only Transfer-Encoding that is taken here is chunked";
        status = 501;
    } else if (expect && strcasecmp(expect, "100-continue")) {
        *why = "the only Expect that is taken here is 100-continue";
        status = 417;
    } else
        return 0;
    return status;
}
