/* The tables of predicates, and the functions that ask them.
 *
 * Each row of legal.def is a function of its own, so that a test can break it alone. They run in the order of the
 * table. The first that does not hold gives the reason, "NAME: sentence", with dashes in the name. The INLINE rows have
 * no functions of their own: rw_inline_look (inline/map.c) finds them out together.
 */
#include "rewrite/emit/emit.h"

#include "base/subject.h"
#include "rewrite/facts/hooks.h"

#include <string.h>

const struct rw_legal rw_legal[] = {
#define LEGAL(NAME, text) RW_LEGAL_ROW(NAME),
#define LEVEL(NAME, text) RW_LEGAL_ROW(NAME),
#include "rewrite/legal.def"
};
const unsigned rw_nlegal = sizeof rw_legal / sizeof rw_legal[0];

const struct rw_legal rw_cluster_legal[] = {
#define CLUSTER(NAME, text) RW_LEGAL_ROW(NAME),
#include "rewrite/legal.def"
};
const unsigned rw_ncluster_legal = sizeof rw_cluster_legal / sizeof rw_cluster_legal[0];

bool rw_legal_rows(const struct rw_legal *rows, unsigned n, const struct rw_cand *c, struct dt_str *why)
{
    for (unsigned k = 0; k < n; k++) {
        struct dt_str s = {0};
        bool ok = rw_off(rows[k].name) || (rows[k].facts ? rows[k].facts(&c->facts, &s) : rows[k].level(c, &s));
        if (!ok) {
            dt_add_row(why, rows[k].name);
            dt_str_addf(why, ": %s", s.s ? s.s : "it does not hold");
        }
        dt_str_done(&s);
        if (!ok)
            return false;
    }
    return true;
}

bool rw_legal_check(const struct rw_cand *c, struct dt_str *why) { return rw_legal_rows(rw_legal, rw_nlegal, c, why); }
