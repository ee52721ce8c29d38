/* Can two launches become one: order and convexity on the hazard edges.
 *
 * Launch x lies between p and c when a chain of edges leads from p to x and from x to c. Then no order of whole launches puts p
 * and c side by side. Otherwise every launch between them in program order that depends on p goes behind the fused launch, the
 * others stay before it: each hazard between two launches keeps its direction (if y must follow x, and x follows p, so does y).
 * The edges are all hazards (RAW, WAR, WAW), memsets and copies included. An edge that is missing because a launch between
 * overwrites the byte for certain is replaced by the two edges through that launch.
 */
#include "rewrite/rewrite-priv.h"

#include <stdlib.h>

bool rw_order(const struct ana_result *r, uint32_t p, uint32_t c, uint32_t *order, uint32_t *ret_between)
{
    uint32_t n = r->prog->graph->nlaunch, at = 0;
    bool *from = dt_calloc(n + 1, 1), *to = dt_calloc(n + 1, 1);
    bool ok = from && to;
    *ret_between = UINT32_MAX;
    for (uint32_t x = p + 1; ok && x < c; x++)
        for (uint32_t y = p; y < x; y++)
            if ((y == p || from[y]) && ana_find_edge(r, y, x))
                from[x] = true;
    for (uint32_t x = c; ok && x-- > p + 1;)
        for (uint32_t y = x + 1; y <= c; y++)
            if ((y == c || to[y]) && ana_find_edge(r, x, y))
                to[x] = true;
    for (uint32_t x = p + 1; ok && x < c; x++)
        if (from[x] && to[x]) {
            *ret_between = x;
            ok = false;
        }
    if (ok) {
        for (uint32_t x = 0; x < c; x++)
            if (x != p && !(x > p && from[x]))
                order[at++] = x;
        order[at++] = p;
        for (uint32_t x = p + 1; x < n; x++)
            if (x != c && (x > c || from[x]))
                order[at++] = x;
    }
    free(from);
    free(to);
    return ok;
}
