/* Arenas: a list of chunks, each twice the last up to 1 MiB; large requests get a chunk of their own.
 *
 * A request is rounded up to 16 bytes and cut from the newest chunk; memory comes zeroed from calloc. Nothing is ever
 * given back but all of it at once. Running out sets a sticky flag, so that a builder of many nodes can check once at
 * its end. Not thread-safe: an arena belongs to one module, request or analysis.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct dt_chunk {
    struct dt_chunk *next;
    size_t size, at;
    _Alignas(16) unsigned char mem[];
};

void dt_arena_done(struct dt_arena *a)
{
    for (struct dt_chunk *c = a->chunk, *n; c; c = n) {
        n = c->next;
        free(c);
    }
    *a = (struct dt_arena){0};
}

void dt_arena_adopt(struct dt_arena *a, struct dt_arena *from)
{
    struct dt_chunk *last = from->chunk;
    while (last && last->next)
        last = last->next;
    if (last && a->chunk) { /* what `a` was filling stays first */
        last->next = a->chunk->next;
        a->chunk->next = from->chunk;
    } else if (last) {
        a->chunk = from->chunk;
    }
    a->used += from->used;
    a->failed |= from->failed;
    *from = (struct dt_arena){0};
}

void *dt_arena_alloc(struct dt_arena *a, size_t n)
{
    if (n > ((size_t)1 << 46)) {
        a->failed = true;
        return NULL;
    }
    n = (n + 15) & ~(size_t)15;
    struct dt_chunk *c = a->chunk;
    if (!c || c->size - c->at < n) {
        size_t size = c ? c->size * 2 : 4096;
        if (size > (1 << 20))
            size = 1 << 20;
        if (size < n)
            size = n;
        struct dt_chunk *fresh = dt_calloc(1, sizeof *fresh + size);
        if (!fresh) {
            a->failed = true;
            return NULL;
        }
        fresh->size = size;
        if (c && n > c->size - c->at && size == n && n > (1 << 16)) {
            /* a large one of its own: keep filling the current chunk */
            fresh->at = n;
            fresh->next = c->next;
            c->next = fresh;
            a->used += n;
            return fresh->mem;
        }
        fresh->next = c;
        a->chunk = c = fresh;
    }
    void *p = c->mem + c->at;
    c->at += n;
    a->used += n;
    return p;
}

void *dt_arena_array(struct dt_arena *a, size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total)) {
        a->failed = true;
        return NULL;
    }
    return dt_arena_alloc(a, total);
}

char *dt_arena_strndup(struct dt_arena *a, const char *s, size_t n)
{
    char *p = dt_arena_alloc(a, n + 1);
    if (p)
        memcpy(p, s, n);
    return p;
}

char *dt_arena_strdup(struct dt_arena *a, const char *s) { return dt_arena_strndup(a, s, strlen(s)); }

char *dt_arena_printf(struct dt_arena *a, const char *fmt, ...)
{
    va_list ap, ap2;
    va_start(ap, fmt);
    va_copy(ap2, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : dt_arena_alloc(a, (size_t)n + 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, ap2);
    va_end(ap2);
    return p;
}
