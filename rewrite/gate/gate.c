/* The gate's memory of one planning: made empty, and released with all that the files of this room have put there. */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

bool rw_fatal(int r)
{
    return r == DT_E_NOMEM || r == DT_E_DEVICE || r == DT_E_NO_DEVICE || r == DT_E_CANCELLED || r == DT_E_WORKER_LOST;
}

void rw_gate_init(struct rw_gate *g, struct dev_device *dev, const struct rw_options *opt,
                  const struct dev_prog *posted)
{
    *g = (struct rw_gate){.dev = dev, .opt = opt, .posted = posted, .texts = posted, .orders = RW_TRIAL_ORDERS};
}

void rw_gate_done(struct rw_gate *g)
{
    rw_pieces_done(g);
    rw_original_done(&g->original);
    rw_regions_done(&g->regions);
    rw_reference_free(g->ref);
    rw_snaps_free(g->snaps);
    rw_sample_free(g->sample);
    free(g->sampled_cost);
    for (size_t k = 0; k < g->tried.n; k++)
        free(g->tried.p[k].cost);
    free(g->tried.p);
    for (size_t k = 0; k < g->glanced.n; k++)
        free(g->glanced.p[k].cost);
    free(g->glanced.p);
    dt_large_let_go();
    memset(g, 0, sizeof *g);
}
