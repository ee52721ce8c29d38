/* Why a guest is not inlined: sentences by condition, noted where they are found out.
 *
 * Several may be noted in one look. The one that is told is the first in the order of legal.def, whatever was found
 * first. The sentence of a condition is the one that was noted first.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/inline/inline-priv.h"

#include <stdarg.h>

#include "base/subject.h"

static const char *const names[] = {
#define INLINE(NAME, text) #NAME,
#include "rewrite/legal.def"
};

void rw_no(struct rw_refusals *no, enum rw_inline_no row, const char *fmt, ...)
{
    struct dt_str s = {0};
    va_list ap;
    if (no->row[row] || rw_off(names[row]))
        return;
    va_start(ap, fmt);
    dt_str_addfv(&s, fmt, ap);
    va_end(ap);
    no->row[row] = dt_arena_strdup(no->arena, s.s ? s.s : "out of memory");
    no->any = true;
    dt_str_done(&s);
}

void rw_tell_refusal(const struct rw_refusals *no, struct dt_str *why)
{
    for (unsigned k = 0; k < RW_NO_COUNT && !why->len; k++)
        if (no->row[k]) {
            dt_add_row(why, names[k]);
            dt_str_addf(why, ": %s", no->row[k]);
        }
}
