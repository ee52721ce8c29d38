/* The last run of a large plan: which launches run side by side, in a shuffled order of blocks.
 *
 * Such a run shows in the bytes what the order of a plan leaves open. The software device gives each block its turn by
 * the seed, on one CPU thread at a time, so it takes as long as all launches together on one core. A plan of a model
 * repeats its layers; so what stands in a neighbourhood that was there before, the same launches WINDOW before and
 * behind with the same buffers, streams and edges between them, runs as usual and on all cores. Everything runs, on the
 * posted input and on the final layout, and every byte of the outputs is compared. That the order holds for all
 * launches is shown without a run (waits.c).
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 8

static int window_key(const struct dev_prog *p, uint32_t launch, uint32_t *number, char key[DT_SHA256_TEXT])
{
    const struct dt_graph *g = p->graph;
    uint32_t first = launch > WINDOW ? launch - WINDOW : 0,
             last = launch + WINDOW < g->nlaunch ? launch + WINDOW : g->nlaunch - 1, n = 0;
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    memset(number, 0xFF, g->nbuffer * sizeof *number);
    dt_sha256_addu64(&h, launch - first);
    for (uint32_t l = first; l <= last; l++) {
        const struct dt_launch *x = &g->launch[l];
        rw_add_launch(&h, p, l, false, number, &n);
        dt_sha256_addu64(&h, x->stream);
        dt_sha256_addu64(&h, x->programmatic);
        dt_sha256_addu64(&h, x->nafter);
        for (uint32_t k = 0; k < x->nafter; k++)
            dt_sha256_addu64(&h, launch - x->after_at[k]);
    }
    dt_sha256_final(&h, key);
    return 0;
}

int rw_beside_seen(const struct dev_prog *p, bool **ret, struct dt_err *e)
{
    uint32_t n = p->graph->nlaunch;
    dt_free_ char(*key)[DT_SHA256_TEXT] = dt_calloc((size_t)n + 1, sizeof *key);
    dt_free_ uint32_t *number = dt_calloc((size_t)p->graph->nbuffer + 1, sizeof *number);
    bool *seen = dt_calloc((size_t)n + 1, sizeof *seen);
    int r = key && number && seen ? 0 : DT_E_NOMEM;
    for (uint32_t l = 0; l < n && r == 0; l++) {
        r = window_key(p, l, number, key[l]);
        for (uint32_t k = 0; k < l && !seen[l] && r == 0; k++)
            seen[l] = !strcmp(key[k], key[l]);
    }
    if (r < 0) {
        free(seen);
        return dt_err_set(e, r, "out of memory");
    }
    *ret = seen;
    return 0;
}

int rw_beside_run(struct dev_device *d, struct dev_run *run, const struct dev_prog *p, uint64_t seed, struct dt_err *e)
{
    bool *seen = NULL;
    uint32_t n = p->graph->nlaunch;
    int r = rw_beside_seen(p, &seen, e);
    dev_set_follow(d, false);
    for (uint32_t l = 0, m = 1; l < n && r == 0; l += m) {
        for (m = 1; l + m < n && seen[l + m] == seen[l]; m++)
            ;
        dev_set_schedule(d, seen[l] ? 0 : seed, false);
        if (!seen[l])
            r = dev_run_part(run, l, m, e);
        for (uint32_t k = l; seen[l] && k < l + m && r == 0; k++)
            r = dev_run_step(run, k, e);
    }
    dev_set_schedule(d, 0, false);
    dev_set_follow(d, true);
    free(seen);
    return r;
}
