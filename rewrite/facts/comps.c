/* From a block map to the fused grid: connected components, and the lists of blocks that each fused block runs.
 *
 * Two blocks are in one component if a chain of pairs (RAW, WAR or WAW: the union) joins them. A block without a pair
 * is a component of its own. Blocks of a cluster that a body uses are in one component. So a byte that blocks of one
 * component touch in conflict is touched by no other component, across the two launches; conflicts within one launch
 * are refused (`self-conflict`). Components are numbered by size, largest first, since a long one that starts last
 * would be a tail; then by their first producer, then by their first consumer.
 *
 * A phase's list is affine, col(k, j) = a + b k + c j, if it can be. Otherwise the kernel reads it from a table
 * (emit/data.c): `row` (n + 1 entries) if the components differ in size, then `col`, in 16 bits if all numbers fit.
 */
#include "rewrite/facts/facts.h"

#include <stdlib.h>
#include <string.h>

static uint32_t comps_find(uint32_t *up, uint32_t x)
{
    while (up[x] != x) {
        up[x] = up[up[x]];
        x = up[x];
    }
    return x;
}

struct comp {
    uint32_t root, size, first;
};

static int by_size(const void *x, const void *y)
{
    const struct comp *a = x, *b = y;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

void rw_list_fit(struct rw_list *l, uint32_t n)
{
    uint32_t m = n ? l->row[1] - l->row[0] : 0;
    bool even = true, narrow = true;
    l->max = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t c = l->row[k + 1] - l->row[k];
        even &= c == m;
        if (c > l->max)
            l->max = c;
    }
    for (uint32_t i = 0; i < l->row[n]; i++)
        narrow &= l->col[i] < 65536;
    l->m = even ? m : UINT32_MAX;
    l->narrow = narrow && l->row[n] < 65536;
    l->affine = even;
    if (even && m) {
        l->a = l->col[0];
        l->b = n > 1 ? l->col[m] - l->col[0] : 0;
        l->c = m > 1 ? l->col[1] - l->col[0] : 0;
        for (uint32_t k = 0; k < n && l->affine; k++)
            for (uint32_t j = 0; j < m; j++)
                if (l->col[(size_t)k * m + j] != l->a + l->b * k + l->c * j) {
                    l->affine = false;
                    break;
                }
    }
}

static void unite(uint32_t *up, uint32_t x, uint32_t y)
{
    x = comps_find(up, x);
    y = comps_find(up, y);
    if (x < y)
        up[y] = x;
    else
        up[x] = y;
}

/* Blocks of one cluster stay together. */
static void unite_clusters(uint32_t *up, uint32_t base, const struct rw_body *b, uint32_t n)
{
    for (uint32_t i = 0; i < n && b->ranks; i++) {
        uint32_t x = i % b->grid[0], y = i / b->grid[0] % b->grid[1], z = i / b->grid[0] / b->grid[1];
        unite(up, base + i,
              base + x - x % b->cluster[0] +
                  b->grid[0] * (y - y % b->cluster[1] + b->grid[1] * (z - z % b->cluster[2])));
    }
}

int rw_comps_build(struct dt_arena *a, const struct ana_rows *any, uint32_t producers, uint32_t consumers,
                   const struct rw_body *body, struct rw_comps *ret, struct dt_err *e)
{
    uint64_t total = (uint64_t)producers + consumers;
    if (total > (1u << 28))
        return dt_err_set(e, DT_E_TOO_LARGE, "too many blocks");
    uint32_t n = (uint32_t)total;
    uint32_t *up = dt_new_array(a, uint32_t, n + 1), *rank = dt_new_array(a, uint32_t, n + 1);
    uint32_t *size = dt_new_array(a, uint32_t, n + 1);
    if (!up || !rank || !size)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        up[i] = i;
    for (uint32_t c = 0; any->row && c < any->nrow && c < consumers; c++)
        for (uint32_t k = any->row[c]; k < any->row[c + 1]; k++) {
            if (any->col[k] >= producers)
                return dt_err_set(e, DT_E_INTERNAL, "the block map names a block that is not there");
            unite(up, any->col[k], producers + c);
        }
    if (body) {
        unite_clusters(up, 0, &body[0], producers);
        unite_clusters(up, producers, &body[1], consumers);
    }
    uint32_t ncomp = 0;
    for (uint32_t i = 0; i < n; i++) {
        size[comps_find(up, i)]++;
        ncomp += up[i] == i;
    }
    struct comp *comp = dt_new_array(a, struct comp, ncomp + 1);
    struct rw_comps out = {.n = ncomp};
    for (int s = 0; s < 2; s++) {
        out.list[s].row = dt_new_array(a, uint32_t, ncomp + 2);
        out.list[s].col = dt_new_array(a, uint32_t, (s ? consumers : producers) + 1);
    }
    if (dt_arena_failed(a))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        if (up[i] == i)
            comp[at++] = (struct comp){i, size[i], i}; /* roots are the smallest member: producers first */
    qsort(comp, ncomp, sizeof *comp, by_size);
    for (uint32_t k = 0; k < ncomp; k++)
        rank[comp[k].root] = k;
    for (uint32_t i = 0; i < n; i++)
        out.list[i >= producers].row[rank[comps_find(up, i)] + 1]++;
    for (int s = 0; s < 2; s++)
        for (uint32_t k = 0; k < ncomp; k++)
            out.list[s].row[k + 1] += out.list[s].row[k];
    memset(size, 0, sizeof *size * n);
    uint32_t *fill[2] = {dt_new_array(a, uint32_t, ncomp + 1), dt_new_array(a, uint32_t, ncomp + 1)};
    if (!fill[0] || !fill[1])
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        int s = i >= producers;
        uint32_t k = rank[comps_find(up, i)];
        out.list[s].col[out.list[s].row[k] + fill[s][k]++] = s ? i - producers : i;
    }
    for (int s = 0; s < 2; s++)
        rw_list_fit(&out.list[s], ncomp);
    *ret = out;
    return 0;
}
