/* Large blocks that are needed again and again, each for a short while: contents of buffers, to be looked at.
 *
 * malloc() gives large blocks back to the system, so that each is made of zeroed pages anew, which takes longer than
 * what they are for. Here some of them are kept until the next one is wanted. What is in a block is left over. Not for
 * what stays. Thread-safe.
 */
#ifndef DT_BASE_LARGE_H
#define DT_BASE_LARGE_H

#include <stddef.h>

/* NULL: out of memory. */
void *dt_large_get(size_t bytes);
/* Of dt_large_get(), or NULL. */
void dt_large_put(void *p);
/* Give back to the system what is kept: the work is done. */
void dt_large_let_go(void);

static inline void dt_largep_(void *p) { dt_large_put(*(void **)p); }
#define dt_large_ __attribute__((cleanup(dt_largep_)))

#endif
