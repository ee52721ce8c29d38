/* Allocation with a switch that makes it fail: the contract is in alloc.h.
 *
 * Every call counts itself in one atomic counter; when dt_alloc_fail_after() has set a limit and the count has passed
 * it, the call gives NULL as if memory were out. Products are checked for overflow before they reach malloc. There is
 * no pool and no header: what these return is released with plain free().
 */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long fail_at; /* count at which allocations start to fail; 0 never */
static atomic_long count;
static atomic_long failed; /* small ones that gave NULL */

#define SMALL (1 << 20)
#define HUGE_FROM ((size_t)4 << 20) /* bytes from which memory is in huge pages where there are some */

static int alloc_refuse(void)
{
    long n = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    long f = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return f && n >= f;
}

static void *alloc_tell(void *p, size_t n)
{
    if (!p && n < SMALL)
        atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed);
    return p;
}

void dt_alloc_fail_after(long n) { atomic_store(&fail_at, n > 0 ? atomic_load(&count) + n : 0); }
long dt_alloc_count(void) { return atomic_load(&count); }
long dt_alloc_failed(void) { return atomic_load(&failed); }
void dt_alloc_lost(void) { atomic_fetch_add_explicit(&failed, 1, memory_order_relaxed); }

/* Large ones are written from end to end soon: half of that time would be page faults. */
static void *alloc_large(void *p, size_t n)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) / page * page;
    if (p && n >= HUGE_FROM)
        (void)madvise((void *)from, ((uintptr_t)p + n - from) / page * page, MADV_HUGEPAGE);
    return p;
}

void *dt_malloc(size_t n) { return alloc_tell(alloc_refuse() ? NULL : alloc_large(malloc(n ? n : 1), n), n); }
void *dt_realloc(void *p, size_t n) { return alloc_tell(alloc_refuse() ? NULL : realloc(p, n ? n : 1), n); }

void *dt_calloc(size_t n, size_t size)
{
    void *p = alloc_refuse() ? NULL : calloc(n ? n : 1, size ? size : 1);
    return p || (size && n >= SMALL / size) ? p : alloc_tell(NULL, 0);
}

void *dt_reallocarray(void *p, size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    return dt_realloc(p, total);
}

void *dt_memdup(const void *p, size_t n)
{
    void *q = dt_malloc(n);
    if (q && n)
        memcpy(q, p, n);
    return q;
}

char *dt_strdup(const char *s) { return dt_memdup(s, strlen(s) + 1); }
