/* Whether one kernel may be inlined into the other: the ALSO rows of legal.def, which other levels ask too, then the
 * INLINE rows, which rw_inline_look finds out.
 */
#include "rewrite/inline/inline-priv.h"

const struct rw_legal rw_inline_legal[] = {
#define ALSO(NAME) RW_LEGAL_ROW(NAME),
#include "rewrite/legal.def"
};
const unsigned rw_ninline_legal = sizeof rw_inline_legal / sizeof rw_inline_legal[0];

bool rw_legal_inline_check(const struct rw_cand *c, struct dt_str *why)
{
    return rw_legal_rows(rw_inline_legal, rw_ninline_legal, c, why);
}

int rw_inline_may(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e)
{
    int host = level == RW_LEVEL_EPILOGUE ? 0 : 1;
    c->level = level;
    c->nredirect = 0;
    c->in = NULL;
    if (!c->facts.body[0].f || !c->facts.body[1].f || !rw_legal_inline_check(c, why)) {
        if (!why->len)
            rw_legal_plain_launches(&c->facts, why);
        return 1;
    }
    if (!c->seen[host]) {
        int r = rw_inline_look(&c->facts, host, &c->arena, &c->seen[host], e);
        if (r < 0)
            return r;
    }
    c->in = c->seen[host];
    if (c->in->refusal)
        dt_str_add(why, c->in->refusal);
    return c->in->refusal != NULL;
}
