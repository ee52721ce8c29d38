/* A growing byte string: the contract is in str.h.
 *
 * Growth is by doubling; the string is NUL-terminated after every call. When memory is out the string keeps what it has
 * and a flag stays set, so that a printer of thousands of pieces checks once at its end; dt_str_take() then gives NULL.
 * Not for secrets: old copies are not wiped.
 */
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool str_room(struct dt_str *s, size_t more)
{
    if (s->failed)
        return false;
    if (s->cap - s->len > more)
        return true;
    size_t cap = s->cap ? s->cap : 64;
    while (cap - s->len <= more)
        cap *= 2;
    char *p = dt_realloc(s->s, cap);
    if (!p) {
        s->failed = true;
        return false;
    }
    s->s = p;
    s->cap = cap;
    return true;
}

void dt_str_done(struct dt_str *s)
{
    free(s->s);
    *s = (struct dt_str){0};
}

void dt_str_addn(struct dt_str *s, const void *p, size_t n)
{
    if (!str_room(s, n))
        return;
    if (n)
        memcpy(s->s + s->len, p, n);
    s->len += n;
    s->s[s->len] = 0;
}

void dt_str_add(struct dt_str *s, const char *text) { dt_str_addn(s, text, strlen(text)); }
void dt_str_addc(struct dt_str *s, char c) { dt_str_addn(s, &c, 1); }

/* Into the room that there is; only where it does not suffice, once more. */
void dt_str_addfv(struct dt_str *s, const char *fmt, va_list ap)
{
    va_list ap2;
    if (!str_room(s, 0))
        return;
    size_t room = s->cap - s->len;
    va_copy(ap2, ap);
    int n = vsnprintf(s->s + s->len, room, fmt, ap2);
    va_end(ap2);
    if (n >= 0 && (size_t)n < room) {
        s->len += (size_t)n;
        return;
    }
    s->s[s->len] = 0;
    if (n < 0 || !str_room(s, (size_t)n)) {
        s->failed = true;
        return;
    }
    vsnprintf(s->s + s->len, (size_t)n + 1, fmt, ap);
    s->len += (size_t)n;
}

void dt_str_addf(struct dt_str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(s, fmt, ap);
    va_end(ap);
}

char *dt_str_take(struct dt_str *s)
{
    char *p = s->s;
    if (s->failed) {
        dt_str_done(s);
        return NULL;
    }
    if (!p)
        p = dt_strdup("");
    *s = (struct dt_str){0};
    return p;
}

size_t dt_utf8(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t n = *p < 0x80                 ? *p != 0
               : *p >= 0xC2 && *p < 0xE0 ? 2
               : *p >= 0xE0 && *p < 0xF0 ? 3
               : *p >= 0xF0 && *p < 0xF5 ? 4
                                         : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    /* longer than need be, surrogates, beyond U+10FFFF */
    bool odd = n > 2 && ((*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] >= 0xA0) || (*p == 0xF0 && p[1] < 0x90) ||
                         (*p == 0xF4 && p[1] >= 0x90));
    return odd ? 0 : n;
}
