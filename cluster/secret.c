/* Passwords stay out of messages. What libpq and the server say may quote what they were given; every text that leaves
 * the room goes through secrets_hide. Where the address itself cannot be read, nothing of it is quoted (pool.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cluster-priv.h"

void secrets_add(struct secrets *s, const char *text)
{
    if (!text || !*text)
        return;
    for (int i = 0; i < SECRETS; i++) {
        if (s->text[i] && !strcmp(s->text[i], text))
            return;
        if (!s->text[i]) {
            s->text[i] = dt_strdup(text);
            return;
        }
    }
}

void secrets_done(struct secrets *s)
{
    for (int i = 0; i < SECRETS; i++) {
        free(s->text[i]);
        s->text[i] = NULL;
    }
}

/* Of the secrets that begin at p the longest. */
static size_t secret_at(const struct secrets *s, const char *p)
{
    size_t most = 0;
    for (int i = 0; i < SECRETS && s->text[i]; i++) {
        size_t n = strlen(s->text[i]);
        if (n > most && !strncmp(p, s->text[i], n))
            most = n;
    }
    return most;
}

void secrets_hide(const struct secrets *s, const char *from, char *to, size_t n)
{
    size_t at = 0;
    while (*from && *from != '\n' && at + 4 < n) {
        size_t hide = secret_at(s, from);
        if (hide) {
            memcpy(to + at, "***", 3);
            at += 3;
            from += hide;
            continue;
        }
        size_t bytes = dt_utf8(from);
        if (bytes > 1)
            memcpy(to + at, from, bytes);
        else
            to[at] = !bytes ? '?' : (unsigned char)*from < ' ' ? ' ' : *from;
        at += bytes ? bytes : 1;
        from += bytes ? bytes : 1;
    }
    to[at] = 0;
}
