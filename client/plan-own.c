/* Memory of a binding's own: scratch buffers, filled as the plan says, and the intermediates that the caller does not
 * bind. With it, launches of two bindings of one plan may be in flight at once.
 *
 * A stream may be being captured meanwhile. Allocating, and waiting, would then end the capture with an error, unless
 * the thread says that it knows what it does (cuThreadExchangeStreamCaptureMode); and nothing may touch the default
 * stream, which the captured one may be ordered with. So the fills go into a stream of their own that is ordered with
 * no other, and are waited for there.
 *
 * Module variables are not scratch: all bindings share them, as all launches of the posted kernels do.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "client/plan-priv.h"

static int plan_own_fill(const struct plan_driver *cu, const struct dt_buffer *x, CUdeviceptr at, CUstream stream,
                         struct dt_err *e)
{
    dt_free_ uint8_t *fill = dt_malloc(x->bytes);
    if (!fill)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_fill_bytes(x, 0, fill);
    int r = plan_cu(cu, cu->cuMemcpyHtoDAsync(at, fill, x->bytes, stream), x->name, e);
    int w = plan_cu(cu, cu->cuStreamSynchronize(stream), x->name, r ? NULL : e);
    return r ? r : w;
}

static int plan_own_all(struct dovetail_bound *b, CUstream stream, struct dt_err *e)
{
    const struct dovetail_plan *p = b->plan;
    const struct dt_graph *g = p->side[PLAN_NEW].graph;
    int r = 0;
    for (uint32_t k = 0; k < g->nbuffer && r == 0; k++) {
        const struct dt_buffer *x = &g->buffer[k];
        bool scratch = k >= p->nbuffer;
        bool used = (p->side[PLAN_NEW].used && p->side[PLAN_NEW].used[k]) ||
                    (!scratch && p->side[PLAN_OLD].used && p->side[PLAN_OLD].used[k]);
        if (!x->bytes || !used || (!scratch && (b->at[k] || x->role != DT_INTERMEDIATE)))
            continue;
        if ((r = plan_cu(p->cu, p->cu->cuMemAlloc(&b->own[k], x->bytes), x->name, e)) < 0)
            break;
        b->at[k] = b->own[k];
        if (scratch)
            r = plan_own_fill(p->cu, x, b->own[k], stream, e);
    }
    return r;
}

int plan_own_make(struct dovetail_bound *b, struct dt_err *e)
{
    const struct plan_driver *cu = b->plan->cu;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstream stream;
    b->own = dt_calloc(b->plan->side[PLAN_NEW].graph->nbuffer + 1, sizeof *b->own);
    if (!b->own)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = plan_cu(cu, cu->cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode", e);
    if (r < 0)
        return r;
    if ((r = plan_cu(cu, cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate", e)) == 0) {
        r = plan_own_all(b, stream, e);
        cu->cuStreamDestroy(stream);
    }
    cu->cuThreadExchangeStreamCaptureMode(&mode);
    return r;
}

void plan_own_free(struct dovetail_bound *b)
{
    const struct dovetail_plan *p = b->plan;
    if (!b->own)
        return;
    if (plan_enter(p, NULL) == 0) { /* a context that is gone took all of it along */
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        p->cu->cuThreadExchangeStreamCaptureMode(&mode);
        for (uint32_t k = 0; k < p->side[PLAN_NEW].graph->nbuffer; k++)
            if (b->own[k])
                p->cu->cuMemFree(b->own[k]);
        p->cu->cuThreadExchangeStreamCaptureMode(&mode);
        plan_leave(p);
    }
    free(b->own);
}
