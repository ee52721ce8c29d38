/* Which launches the race detector need not see, since it has seen an equal one.
 *
 * Blocks of a steady launch (analysis/taint/steady.c) touch the same bytes of its buffers whatever memory holds, and a
 * buffer is an allocation of its own. So launches that are equal but for the names of their buffers, as the layers of a
 * model have them, race all or none. Equal: kernel, geometry, arguments, offsets, sizes of buffers, and which of them
 * are the same one (rw_add_launch). What is not steady is looked at each time.
 *
 * Under the race detector a launch runs on one CPU thread and takes several times as long; so this is most of the first
 * run of a large graph.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

int rw_checked_step(const struct rw_checked_once *o, struct dev_run *run, uint32_t launch, struct dt_err *e)
{
    bool off = o && o->dev && o->again[launch];
    if (off)
        dev_set_schedule(o->dev, 0, false);
    int r = dev_run_step(run, launch, e);
    if (off)
        dev_set_schedule(o->dev, 0, true);
    return r;
}

int rw_check_once(struct dev_device *d, const struct dev_prog *p, struct rw_checked_once *ret, struct dt_err *e)
{
    uint32_t n = p->graph->nlaunch;
    dt_free_ char(*key)[DT_SHA256_TEXT] = dt_calloc((size_t)n + 1, sizeof *key);
    dt_free_ uint32_t *number = dt_calloc((size_t)p->graph->nbuffer + 1, sizeof *number);
    dt_free_ bool *steady = dt_calloc((size_t)n + 1, sizeof *steady);
    bool *again = dt_calloc((size_t)n + 1, sizeof *again);
    int r = key && number && steady && again ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t l = 0, m = 0; l < n && r == 0; l++, m = 0) {
        struct dt_sha256 h;
        uint32_t k = 0;
        memset(number, 0xFF, p->graph->nbuffer * sizeof *number);
        if (dt_sha256_init(&h) < 0) {
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
            break;
        }
        rw_add_launch(&h, p, l, true, number, &m);
        dt_sha256_final(&h, key[l]);
        while (k < l && strcmp(key[k], key[l]) != 0)
            k++;
        if (k == l)
            r = p->graph->launch[l].kind == DT_KERNEL ? ana_steady(p, l, &steady[l], e) : 0;
        again[l] = k < l && steady[k];
    }
    if (r < 0) {
        free(again);
        return r;
    }
    *ret = (struct rw_checked_once){d, again};
    return 0;
}
