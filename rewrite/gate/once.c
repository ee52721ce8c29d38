/* Launches that are equal to one before them, and of which the run of the original need not find out the same again.
 *
 * Blocks of a launch whose addresses do not hang on data (analysis/taint/steady.c) touch the same bytes of its buffers
 * whatever memory holds, and a buffer is an allocation of its own. So launches that are equal but for the names of
 * their buffers, as the layers of a model have them, race all or none; and where they execute the same instructions,
 * too, they cost the same. Equal: kernel, geometry, arguments, offsets, sizes of buffers, and which of them are the
 * same one (rw_add_launch). Others are looked at each time.
 *
 * What a launch only reads is not followed by the race detector; nor is a large launch of whose blocks the map has
 * proved that no two touch a byte in conflict (settled.c).
 *
 * Under the race detector a launch runs on one CPU thread and takes several times as long, and following its blocks for
 * their costs takes half as long again; so this is most of the first run of a large graph.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

bool rw_again(const struct rw_once *o, uint32_t launch) { return o && o->like && o->like[launch] != launch; }

/* What the launch only reads, by its footprints, cannot race: if it writes there all the same, it faults. */
static int only_reads(const struct rw_once *o, struct dev_run *run, uint32_t launch, bool on, struct dt_err *e)
{
    const struct ana_launch *l = &o->ana->launch[launch];
    int r = 0;
    for (uint32_t k = 0; k < l->naccess && r == 0; k++)
        if (!l->access[k].writes && !l->access[k].atomics)
            r = dev_run_protect(run, l->access[k].buffer, on, e);
    return r;
}

int rw_once_step(const struct rw_once *o, struct dev_run *run, uint32_t launch, struct dev_cost *cost, struct dt_err *e)
{
    bool again = rw_again(o, launch), known = again && o->steady[launch];
    int settled = o && o->races && o->ana && !again ? rw_settled(o->ana->prog, o->ana, launch, e) : 0;
    if (settled < 0)
        return settled;
    bool off = o && o->races && (again || settled);
    if (off)
        dev_set_schedule(o->dev, 0, false);
    if (known)
        dev_set_follow(o->dev, false);
    bool reads = o && o->races && o->ana && !off && o->ana->prog->graph->launch[launch].kind == DT_KERNEL;
    int r = reads ? only_reads(o, run, launch, true, e) : 0;
    r = r < 0 ? r : dev_run_step(run, launch, e);
    r = r == 0 && reads ? only_reads(o, run, launch, false, e) : r;
    if (known) {
        dev_set_follow(o->dev, true);
        cost[launch] = cost[o->like[launch]];
    }
    if (off)
        dev_set_schedule(o->dev, 0, true);
    return r == 0 && !cost[launch].known ? dev_run_cost(run, launch, &cost[launch], e) : r;
}

void rw_once_done(struct rw_once *o)
{
    free(o->like);
    free(o->steady);
    free(o->same);
    *o = (struct rw_once){0};
}

int rw_once_new(struct dev_device *d, const struct dev_prog *p, struct rw_once *ret, struct dt_err *e)
{
    uint32_t n = p->graph->nlaunch;
    dt_free_ char(*key)[DT_SHA256_TEXT] = dt_calloc((size_t)n + 1, sizeof *key);
    dt_free_ uint32_t *number = dt_calloc((size_t)p->graph->nbuffer + 1, sizeof *number);
    bool *steady = dt_calloc((size_t)n + 1, sizeof *steady), *same = dt_calloc((size_t)n + 1, sizeof *same);
    uint32_t *like = dt_calloc((size_t)n + 1, sizeof *like);
    int r = key && number && steady && same && like ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
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
            r = p->graph->launch[l].kind == DT_KERNEL ? ana_steady(p, l, &steady[l], &same[l], e) : 0;
        steady[l] = steady[k];
        same[l] = same[k];
        like[l] = same[k] ? k : l;
    }
    *ret = (struct rw_once){.dev = d, .like = like, .steady = steady, .same = same};
    if (r < 0)
        rw_once_done(ret);
    return r;
}
