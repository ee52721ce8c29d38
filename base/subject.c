/* Marked sentences: finding their subjects, making text of them.
 *
 * What looks like a mark and is none (a byte 1 without a letter of a kind, or without an end) stays as it is: a
 * document from a damaged cache may hold anything. Giving a subject another name is cache/rename.c's.
 */
#include "base/subject.h"

#include <string.h>

const char *dt_subject(const char *s, const char **ret_mark, char *ret_kind, const char **ret_name, size_t *ret_len)
{
    for (const char *mark = strchr(s, 1); mark; mark = strchr(mark + 1, 1)) {
        const char *end = mark[1] && strchr("lnbmr", mark[1]) ? strpbrk(mark + 2, "\001\002") : NULL;
        if (!end || *end == 1)
            continue;
        *ret_mark = mark;
        *ret_kind = mark[1];
        *ret_name = mark + 2;
        *ret_len = (size_t)(end - mark - 2);
        return end + 1;
    }
    return NULL;
}

bool dt_quoted(char kind) { return kind != 'r' && kind != 'n'; }

char *dt_plain(char *s)
{
    const char *from = s, *mark, *name, *next;
    char *to = s, kind;
    size_t n;
    while (from && (next = dt_subject(from, &mark, &kind, &name, &n))) {
        memmove(to, from, (size_t)(mark - from));
        to += mark - from;
        if (dt_quoted(kind))
            *to++ = '\'';
        memmove(to, name, n);
        to += n;
        if (dt_quoted(kind))
            *to++ = '\'';
        from = next;
    }
    if (from)
        memmove(to, from, strlen(from) + 1);
    return s;
}

bool dt_has_row(const char *s, const char *row)
{
    const char *mark, *name;
    char kind;
    size_t n;
    return s && dt_subject(s, &mark, &kind, &name, &n) && mark == s && kind == 'r' && n == strlen(row) &&
           !memcmp(name, row, n);
}

void dt_add_row(struct dt_str *to, const char *name)
{
    dt_str_add(to, "\001r");
    for (; *name; name++)
        dt_str_addc(to, *name == '_' ? '-' : *name);
    dt_str_addc(to, '\002');
}
