/* The same work for many indices, on several cores.
 *
 * fn(user, i) is called once for every i in [0, n), in no particular order, by the calling thread and up to `threads` -
 * 1 others; when dt_parallel returns, all calls have. What fn writes must belong to i alone (or to a lock); what it
 * leaves must not depend on the order: results are then the same for any number of threads. Where a thread cannot be
 * started, fewer do the work.
 */
#ifndef DT_BASE_PARALLEL_H
#define DT_BASE_PARALLEL_H

#include <stddef.h>

void dt_parallel(unsigned threads, size_t n, void (*fn)(void *user, size_t i), void *user);
unsigned dt_cores(void); /* that this process may run on, at least 1 */

#endif
