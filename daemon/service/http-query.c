/* Pure helpers of the HTTP side: percent decoding, walking a query, matching a path against a route. Their input comes
 * from clients: lengths are checked, and a NUL or a broken escape refuses all of it.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/service/http.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool dtd_url_decode(const char *s, size_t n, bool plus, char *out, size_t cap)
{
    size_t o = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)s[i];
        if (c == '%') {
            int hi = i + 2 < n ? hex(s[i + 1]) : -1, lo = i + 2 < n ? hex(s[i + 2]) : -1;
            if (hi < 0 || lo < 0)
                return false;
            c = hi * 16 + lo;
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (!c || o + 1 >= cap)
            return false;
        out[o++] = (char)c;
    }
    if (!cap)
        return false;
    out[o] = 0;
    return true;
}

int dtd_query_next(const char **pos, char *name, size_t nname, char *value, size_t nvalue)
{
    const char *p = *pos;
    while (*p == '&')
        p++;
    if (!*p)
        return 0;
    size_t n = strcspn(p, "&"), eq = strcspn(p, "=&");
    if (!dtd_url_decode(p, eq, true, name, nname))
        return DT_E_USAGE;
    if (eq == n)
        *value = 0;
    else if (!dtd_url_decode(p + eq + 1, n - eq - 1, true, value, nvalue))
        return DT_E_USAGE;
    *pos = p + n;
    return 1;
}

bool dtd_path_match(const char *pattern, const char *path, char *buf, size_t nbuf, const char *param[DTD_MAX_PARAMS])
{
    unsigned np = 0;
    while (*pattern) {
        if (*pattern != '*') {
            if (*pattern++ != *path++)
                return false;
            continue;
        }
        size_t n = strcspn(path, "/");
        if (!n || n + 1 > nbuf || np == DTD_MAX_PARAMS)
            return false;
        memcpy(buf, path, n);
        buf[n] = 0;
        param[np++] = buf;
        buf += n + 1;
        nbuf -= n + 1;
        path += n;
        pattern++;
    }
    return !*path;
}

const char *dtd_http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "Unknown";
}

/* "; q=0.000" of a list's member s[0..n): 0 refuses. A parameter that is broken refuses as well. */
static bool weight_is_zero(const char *s, size_t n)
{
    const char *q = memchr(s, ';', n);
    if (!q)
        return false;
    const char *end = s + n;
    for (q++; q < end && (*q == ' ' || *q == '\t'); q++)
        ;
    if (end - q < 3 || (q[0] != 'q' && q[0] != 'Q') || q[1] != '=' || (q[2] != '0' && q[2] != '1'))
        return true;
    for (const char *p = q + 2; p < end && *p != ' ' && *p != '\t' && *p != ';'; p++)
        if (*p >= '1' && *p <= '9')
            return false;
    return true;
}

bool dtd_takes_encoding(const char *accept, const char *coding)
{
    size_t nc = strlen(coding);
    int named = -1, any = -1;
    for (const char *p = accept ? accept : ""; *p;) {
        p += strspn(p, ", \t");
        size_t n = strcspn(p, ","), name = strcspn(p, "; \t,");
        bool ok = n && !weight_is_zero(p, n);
        if (name == nc && !strncasecmp(p, coding, nc))
            named = ok;
        else if (name == 1 && *p == '*')
            any = ok;
        p += n;
    }
    return named >= 0 ? named : any > 0;
}

bool dtd_tag_matches(const char *list, const char *etag)
{
    size_t n = strlen(etag);
    for (const char *p = list ? list : ""; *p;) {
        p += strspn(p, ", \t");
        if (*p == '*')
            return true;
        if (p[0] == 'W' && p[1] == '/')
            p += 2;
        if (!strncmp(p, etag, n) && (!p[n] || strchr(", \t", p[n])))
            return true;
        if (*p == '"') /* a tag may hold commas */
            p += 1 + strcspn(p + 1, "\"");
        p += strcspn(p, ",");
    }
    return false;
}
