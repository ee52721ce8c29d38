/* Work aside: in a copy of this process, on another core, while the process itself goes on.
 *
 * For work that wants a whole process (the software device runs one launch at a time), leaves nothing but a few bytes,
 * and may be done again here if the copy cannot be made or ends early: a copy that fails says nothing, and the caller
 * does the work itself. The copy shares memory until one of the two writes; it has no thread but this one, so fn must
 * not wait for others, nor use what they share (pipes, databases). It ends with its parent.
 */
#ifndef DT_BASE_ASIDE_H
#define DT_BASE_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct dt_aside { /* one piece of work; zeroed: none */
    pid_t pid;
    int fd;
};

/* Start fn(user, ret) in a copy; it writes its answer, `bytes` bytes (up to 512), to ret, and returns whether there is
 * one. False: there is no copy, and dt_aside_wait will say so, too. */
bool dt_aside_start(struct dt_aside *a, bool (*fn)(void *user, void *ret), void *user, size_t bytes);
/* Its answer, after waiting for it; false: there is none, and ret is undefined. Then there is no work. */
bool dt_aside_wait(struct dt_aside *a, void *ret, size_t bytes);
/* Nobody wants the answer: end it. */
void dt_aside_drop(struct dt_aside *a);

#endif
