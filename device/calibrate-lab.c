/* Calibrating: works between two events, and the difference of two of them.
 *
 * A work is one launch, several, a chain of them as a graph, or a copy. dev_lab_difference() times two works in turns,
 * so that a drift of the clocks meets both alike, and hands out what the one takes beyond the other: whatever both have
 * (an event's own time, the first launch's way to the device) is not in it. dev_lab_add() makes a figure of it, the
 * median of the repetitions. On a real device each work runs once before, so that code and TLBs are there.
 *
 * Which works tell which figure is in calibrate.c, calibrate-memory.c and calibrate-order.c. Disturbances are not
 * looked for as device/measure.c does: least and most stand beside the median.
 */
#include <math.h>
#include <string.h>

#include "device/calibrate-priv.h"

int dev_lab_launch(struct dev_lab *l, const struct dev_lab_work *w, struct dt_err *e)
{
    struct dev_device *d = l->d;
    if (!w->entry)
        return dev_cu(d,
                      w->host ? d->cu->cuMemcpyHtoDAsync(l->mem, w->host, w->bytes, l->stream)
                              : d->cu->cuMemcpyDtoDAsync(l->mem, w->from, w->bytes, l->stream),
                      "a copy", e);
    CUfunction f = NULL;
    int err = dev_function(d, l->mod->mod, w->entry, 0, &f, e);
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig c = {.gridDimX = w->blocks,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = w->threads,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .hStream = l->stream,
                        .attrs = w->programmatic ? &early : NULL,
                        .numAttrs = w->programmatic};
    size_t n = w->nparams;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)w->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &n,
                     CU_LAUNCH_PARAM_END};
    return err < 0 ? err : dev_cu(d, d->cu->cuLaunchKernelEx(&c, f, NULL, n ? extra : NULL), w->entry, e);
}

static int lab_chain(struct dev_lab *l, const struct dev_lab_work *w, CUgraphExec *ret, struct dt_err *e)
{
    struct dev_device *d = l->d;
    CUgraph g = NULL;
    CUgraphNode node = NULL, last;
    size_t n = w->nparams;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)w->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &n,
                     CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = w->blocks,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = w->threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .extra = n ? extra : NULL};
    int err = dev_function(d, l->mod->mod, w->entry, 0, &p.func, e);
    if (!err)
        err = dev_cu(d, d->cu->cuGraphCreate(&g, 0), "cuGraphCreate", e);
    for (unsigned i = 0; i < w->times && !err; i++) {
        last = node;
        err = dev_cu(d, d->cu->cuGraphAddKernelNode(&node, g, i ? &last : NULL, i ? 1 : 0, &p), "cuGraphAddKernelNode",
                     e);
    }
    if (!err)
        err = dev_cu(d, d->cu->cuGraphInstantiateWithFlags(ret, g, 0), "cuGraphInstantiate", e);
    if (g)
        d->cu->cuGraphDestroy(g);
    return err;
}

static int lab_timed(struct dev_lab *l, const struct dev_lab_work *w, CUgraphExec x, CUevent extra, double *ret_us,
                     struct dt_err *e)
{
    struct dev_device *d = l->d;
    float ms = 0;
    int err = dev_cu(d, d->cu->cuEventRecord(l->ev[0], l->stream), "cuEventRecord", e);
    if (w->first && !err)
        err = dev_lab_launch(l, w->first, e);
    if (w->graph && !err)
        err = dev_cu(d, d->cu->cuGraphLaunch(x, l->stream), "cuGraphLaunch", e);
    for (unsigned i = 0; i < w->times && !w->graph && !err; i++) {
        err = dev_lab_launch(l, w, e);
        if (!err && w->events)
            err = dev_cu(d, d->cu->cuEventRecord(extra, l->stream), "cuEventRecord", e);
    }
    if (!err)
        err = dev_cu(d, d->cu->cuEventRecord(l->ev[1], l->stream), "cuEventRecord", e);
    if (!err)
        err = dev_wait_event(d, l->ev[1], e);
    if (!err)
        err = dev_cu(d, d->cu->cuEventElapsedTime(&ms, l->ev[0], l->ev[1]), "cuEventElapsedTime", e);
    *ret_us = ms * 1000.0;
    return err;
}

int dev_lab_difference(struct dev_lab *l, const struct dev_lab_work *less, const struct dev_lab_work *more,
                       double us[DEV_LAB_REPEATS], struct dt_err *e)
{
    const struct dev_lab_work *w[2] = {less, more};
    CUgraphExec x[2] = {NULL, NULL};
    CUevent extra = NULL;
    double t[2];
    int err = dev_cu(l->d, l->d->cu->cuEventCreate(&extra, CU_EVENT_DEFAULT), "cuEventCreate", e);
    for (int k = 0; k < 2 && !err; k++)
        if (w[k]->graph)
            err = lab_chain(l, w[k], &x[k], e);
    for (int i = l->repeats > 1 ? -1 : 0; i < l->repeats && !err; i++) {
        for (int k = 0; k < 2 && !err; k++)
            err = lab_timed(l, w[k], x[k], extra, &t[k], e);
        if (i >= 0)
            us[i] = t[1] - t[0];
    }
    for (int k = 0; k < 2; k++)
        if (x[k])
            l->d->cu->cuGraphExecDestroy(x[k]);
    if (extra)
        l->d->cu->cuEventDestroy(extra);
    return err;
}

void dev_lab_add(struct dev_calibration *c, const char *field, const double us[DEV_LAB_REPEATS], double a, double b,
                 double rate)
{
    struct dev_stats s;
    double v[DEV_LAB_REPEATS];
    for (unsigned i = 0; i < c->repeats; i++)
        v[i] = rate > 0 ? us[i] > 0 ? rate / us[i] : 0 : a + b * us[i];
    dev_stats(v, c->repeats, &s);
    if (s.median > 0 && isfinite(s.median) && c->n < DEV_FIGURES)
        c->figure[c->n++] = (struct dev_figure){field, s.median, s.min, s.max, false};
}

void dev_lab_last_is(struct dev_calibration *c, const char *field, bool whole, bool beside)
{
    struct dev_figure *f = c->n ? &c->figure[c->n - 1] : NULL;
    if (!f || strcmp(f->field, field))
        return; /* it was not added */
    f->beside = beside;
    if (whole)
        f->value = f->value < 1 ? 1 : floor(f->value + 0.5);
}

double dev_lab_figure(const struct dev_calibration *c, const char *field)
{
    for (unsigned i = 0; i < c->n; i++)
        if (!strcmp(c->figure[i].field, field))
            return c->figure[i].value;
    return 0;
}
