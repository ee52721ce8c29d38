/* The ALSO and INLINE rows of legal.def: what is asked before one kernel is inlined into another.
 *
 * map.c finds out whether the INLINE rows hold; until it has looked, they all do.
 */
#include "rewrite/inline/inline-priv.h"

#define INLINE(NAME, text)                                                                                             \
    static bool rw_legal_##NAME(const struct rw_cand *c, struct dt_str *why)                                           \
    {                                                                                                                  \
        const char *no = c->in ? c->in->no[RW_NO_##NAME] : NULL;                                                       \
        if (no)                                                                                                        \
            dt_str_add(why, no);                                                                                       \
        return !no;                                                                                                    \
    }
#include "rewrite/legal.def"

const struct rw_legal rw_inline_legal[] = {
#define ALSO(NAME) RW_LEGAL_ROW(NAME),
#define INLINE(NAME, text) ALSO(NAME)
#include "rewrite/legal.def"
};
const unsigned rw_ninline_legal = sizeof rw_inline_legal / sizeof rw_inline_legal[0];

bool rw_legal_inline_check(const struct rw_cand *c, struct dt_str *why)
{
    return rw_legal_rows(rw_inline_legal, rw_ninline_legal, c, why);
}
