/* Order of launches: which can be brought side by side.
 *
 * Launch x lies between two of a set if a chain of edges leads from one of them to x, and another from x to one of
 * them. Then no order of whole launches brings the set together. Otherwise every launch between them in program order
 * that depends on one of the set goes behind what stands in the set's place, and the others stay before it. So each
 * hazard between two launches keeps its direction: if y must follow x, and x follows the set, so does y.
 *
 * The edges are all hazards (RAW, WAR, WAW), memsets and copies included. An edge may be missing because a launch
 * between overwrites the byte for certain; the two edges through that launch replace it. Whether streams keep the
 * hazards is checked in gate/waits.c.
 */
#include "rewrite/facts/facts.h"

#include <stdlib.h>

bool rw_order(const struct ana_result *r, const uint32_t *launch, uint32_t m, uint32_t *order, uint32_t *ret_between)
{
    uint32_t n = r->prog->graph->nlaunch, at = 0, p = launch[0], c = launch[m - 1];
    bool *in = dt_calloc(n + 1, 1), *from = dt_calloc(n + 1, 1), *to = dt_calloc(n + 1, 1);
    bool ok = in && from && to;
    *ret_between = UINT32_MAX;
    for (uint32_t k = 0; ok && k < m; k++)
        in[launch[k]] = true;
    for (uint32_t x = p + 1; ok && x < c; x++)
        for (uint32_t y = p; y < x; y++)
            if (!in[x] && (in[y] || from[y]) && ana_find_edge(r, y, x))
                from[x] = true;
    for (uint32_t x = c; ok && x-- > p + 1;)
        for (uint32_t y = x + 1; y <= c; y++)
            if (!in[x] && (in[y] || to[y]) && ana_find_edge(r, x, y))
                to[x] = true;
    for (uint32_t x = p + 1; ok && x < c; x++)
        if (from[x] && to[x]) {
            *ret_between = x;
            ok = false;
        }
    if (ok) {
        for (uint32_t x = 0; x < c; x++)
            if (!in[x] && !(x > p && from[x]))
                order[at++] = x;
        order[at++] = p;
        for (uint32_t x = p + 1; x < n; x++)
            if (!in[x] && (x > c || from[x]))
                order[at++] = x;
    }
    free(in);
    free(from);
    free(to);
    return ok;
}
