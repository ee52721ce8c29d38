/* The distance of two words: letters put in, left out, changed, or swapped with their neighbour (optimal string
 * alignment), case counting nothing. Words are like each other if that is at most a third of the shorter one, or one. A
 * word that begins the other one is like it, too, from three letters on (`out` for `output`).
 */
#include "base/nearest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
    unsigned row[3][DT_NEAREST_MOST + 1]; /* of i - 2, i - 1, i, taken in turn */
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *now = row[i % 3], *before = row[(i + 2) % 3], *two = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            unsigned best = before[j - 1] + (x != y);
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && tolower((unsigned char)a[i - 2]) == y &&
                two[j - 2] + 1 < best)
                best = two[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

struct dt_nearest dt_nearest_of(const char *word, size_t len)
{
    return (struct dt_nearest){.word = word, .len = len, .distance = UINT_MAX};
}

void dt_nearest_try(struct dt_nearest *n, const char *candidate, size_t len)
{
    if (!n->len || !len || n->len > DT_NEAREST_MOST || len > DT_NEAREST_MOST)
        return;
    size_t shorter = n->len < len ? n->len : len;
    unsigned d = distance(n->word, n->len, candidate, len), most = shorter < 6 ? 1 : (unsigned)shorter / 3;
    if (shorter >= 3 && !strncasecmp(n->word, candidate, shorter))
        d = d < most ? d : most;
    if (d > most || d >= n->distance || (shorter < 2 && d))
        return;
    n->distance = d;
    n->best = candidate;
    n->best_len = len;
}

const char *dt_nearest_in(const char *word, const char *list, size_t *ret_len)
{
    struct dt_nearest n = dt_nearest_of(word, strlen(word));
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ", ");
        dt_nearest_try(&n, at, len);
        at += len;
        at += strspn(at, ", ");
    }
    *ret_len = n.best_len;
    return n.best;
}
