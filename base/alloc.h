/* The one allocator hook: tests make the Nth allocation fail through it.
 *
 * Libraries allocate through these (or through an arena, which does); they return NULL when memory is out and never
 * abort. Memory from them is released with free(). dt_alloc_fail_after(n): the n-th call from now (1 = next) and every
 * later one fails; 0 switches it off. Not for production use; thread-safe.
 */
#ifndef DT_BASE_ALLOC_H
#define DT_BASE_ALLOC_H

#include <stddef.h>

void *dt_malloc(size_t n);
void *dt_calloc(size_t n, size_t size);
void *dt_realloc(void *p, size_t n);
/* n * size with overflow check. */
void *dt_reallocarray(void *p, size_t n, size_t size);
void *dt_memdup(const void *p, size_t n);
char *dt_strdup(const char *s);

void dt_alloc_fail_after(long n);
long dt_alloc_count(void); /* allocations since start, for fault tests */
/* How many of less than a MiB gave NULL since the start: not that something was too large, but that memory is out. Who
 * keeps what was found for others looks here first: "could not be tried" is then not told from "was refused". */
long dt_alloc_failed(void);
void dt_alloc_lost(void); /* memory was out in a library's call: count that, too */

/* Scope-exit clean-up in the manner of systemd: `dt_free_ char *s = …;` */
static inline void dt_freep_(void *p)
{
    extern void free(void *);
    free(*(void **)p);
}
#define dt_free_ __attribute__((cleanup(dt_freep_)))

#endif
