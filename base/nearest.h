/* "Did you mean": of some words the one that is most like a word that nobody knows. */
#ifndef DT_BASE_NEAREST_H
#define DT_BASE_NEAREST_H

#include <stddef.h>

#define DT_NEAREST_MOST 64 /* bytes of a word; longer ones are like nothing */

struct dt_nearest {
    const char *word;
    size_t len;
    const char *best; /* NULL: none yet */
    size_t best_len;
    unsigned distance;
};

/* dt_nearest_try() all candidates; `best` is the first of those with the least distance. */
struct dt_nearest dt_nearest_of(const char *word, size_t len);
void dt_nearest_try(struct dt_nearest *n, const char *candidate, size_t len);
/* All of "a, b, c", at once. *ret_len: of the word that is returned, which does not end there. NULL: none is like
 * it. */
const char *dt_nearest_in(const char *word, const char *list, size_t *ret_len);

#endif
