/* A program on a device: buffers, modules, one pass over the launches.
 *
 * All buffers lie in one arena, each at a multiple of 512 bytes with at least 512 bytes of nothing behind it (and
 * before the first), so that a recorder can number bytes by one subtraction. On the software device only the buffers
 * themselves may be touched: an overrun faults. On a real one red zones are only distance. A buffer MODULE::name is the
 * module's variable and lies where the module was loaded.
 *
 * A pass launches each step on its stream, in the order of the document; `after` becomes an event wait. Otherwise
 * streams do not block each other. A pass begins when all earlier work is done and ends with a wait.
 *
 * On the software device with a schedule, a pass runs as a graph (dev_run_beside): launches that may run side by side
 * on a GPU do so there too, and blocks of one run between blocks of the other. If only samples of blocks run, the
 * launches run one after the other, in another order that streams and `after` allow.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/run-priv.h"
#include "graph/cuda-launch.h"

#define RED 512u
#define ALIGN 512u

static int run_place(struct dev_run *r, struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    uint64_t at = RED;
    for (uint32_t i = 0; i < g->nbuffer; i++) {
        if (g->buffer[i].module >= 0)
            continue;
        r->addr[i] = at;
        if (g->buffer[i].bytes > DT_MAX_TOTAL_BYTES - at)
            return dt_err_set(e, DT_E_TOO_LARGE, "the buffers are over %llu bytes together",
                              (unsigned long long)DT_MAX_TOTAL_BYTES);
        at = (at + g->buffer[i].bytes + RED + ALIGN - 1) / ALIGN * ALIGN;
    }
    r->arena_bytes = at;
    struct dev_device *d = r->dev;
    CUdeviceptr base = 0;
    CUresult c = d->cu->soft ? d->cu->dovetailArenaAlloc(&base, at) : d->cu->cuMemAlloc(&base, at);
    if (c == CUDA_ERROR_OUT_OF_MEMORY)
        return dt_err_set(e, DT_E_NOMEM, "the buffers need %llu bytes, more than %s has free", (unsigned long long)at,
                          d->info.name);
    int err = dev_cu(d, c, "allocating the buffers", e);
    if (err < 0)
        return err;
    r->arena = base;
    for (uint32_t i = 0; i < g->nbuffer && !err; i++) {
        if (g->buffer[i].module >= 0)
            continue;
        r->addr[i] += base;
        if (d->cu->soft && g->buffer[i].bytes)
            err = dev_cu(d, d->cu->dovetailArenaAllow(r->addr[i], g->buffer[i].bytes), "dovetailArenaAllow", e);
        if (!err && d->cu->soft && g->buffer[i].bytes)
            err = dev_cu(d, d->cu->dovetailNameMemory(r->addr[i], g->buffer[i].name), "dovetailNameMemory", e);
    }
    return err;
}

static int run_load(struct dev_run *r, const bool *wanted, struct dt_err *e)
{
    const struct dev_prog *p = r->prog;
    const struct dt_graph *g = p->graph;
    struct dev_device *d = r->dev;
    int err = 0;
    for (uint32_t i = 0; i < g->nmodule && !err; i++) {
        bool used = false;
        for (uint32_t k = 0; k < g->nlaunch && !used; k++)
            used = g->launch[k].kind == DT_KERNEL && g->launch[k].module == i && (!wanted || wanted[k]);
        for (uint32_t k = 0; k < g->nbuffer && !used; k++)
            used = g->buffer[k].module == (int)i;
        if (used)
            err = dev_module_load_of(d, &p->module[i], &r->module[i], e);
    }
    for (uint32_t i = 0; i < g->nlaunch && !err; i++) {
        const struct dt_launch *l = &g->launch[i];
        if (l->kind != DT_KERNEL || (wanted && !wanted[i]))
            continue;
        err = dev_function(d, r->module[l->module]->mod, l->entry, l->shared, &r->function[i], e);
        if (!err && d->cu->soft && !p->step[i].res.estimated)
            err = dev_cu(d, d->cu->dovetailFuncSetResources(r->function[i], p->step[i].res.registers),
                         "dovetailFuncSetResources", e);
        uint64_t cluster = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
        if (!err && cluster > 8)
            err = dev_cu(
                d, d->cu->cuFuncSetAttribute(r->function[i], CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                "cuFuncSetAttribute", e);
    }
    for (uint32_t i = 0; i < g->nbuffer && !err; i++) {
        const struct dt_buffer *b = &g->buffer[i];
        uint64_t bytes = 0;
        if (b->module < 0)
            continue;
        err = dev_module_variable(d, r->module[b->module], b->variable, &r->addr[i], &bytes, e);
        if (!err && bytes != b->bytes)
            err = dt_err_set(e, DT_E_GRAPH, "buffer %.200s has %llu bytes, the variable has %llu", b->name,
                             (unsigned long long)b->bytes, (unsigned long long)bytes);
    }
    return err;
}

/* Streams and events that `after` needs. */
static int order(struct dev_run *r, struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    struct dev_device *d = r->dev;
    int err = 0;
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        if (g->launch[i].stream >= DT_STREAMS)
            return dt_err_set(e, DT_E_GRAPH, "launch %.200s: a plan may use streams 0 to %d", g->launch[i].name,
                              DT_STREAMS - 1);
        if (g->launch[i].stream >= r->nstream)
            r->nstream = g->launch[i].stream + 1;
    }
    r->stream = dt_calloc(r->nstream + 1, sizeof *r->stream);
    if (!r->stream)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < r->nstream && !err; i++)
        err = dev_cu(d, d->cu->cuStreamCreate(&r->stream[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate", e);
    for (uint32_t i = 0; i < g->nlaunch && !err; i++)
        for (uint32_t k = 0; k < g->launch[i].nafter && !err; k++) {
            uint32_t j = g->launch[i].after_at[k];
            if (!r->event[j])
                err = dev_cu(d, d->cu->cuEventCreate(&r->event[j], CU_EVENT_DISABLE_TIMING), "cuEventCreate", e);
        }
    return err;
}

int dev_run_new(struct dev_device *d, const struct dev_prog *p, struct dev_run **ret, struct dt_err *e)
{
    return dev_run_new_for(d, p, NULL, ret, e);
}

int dev_run_new_for(struct dev_device *d, const struct dev_prog *p, const bool *wanted, struct dev_run **ret,
                    struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    struct dev_run *r = dt_calloc(1, sizeof *r);
    int err = dev_use(d, e);
    if (err < 0 || !r) {
        free(r);
        return err < 0 ? err : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    r->dev = d;
    r->prog = p;
    r->generation = d->generation;
    r->addr = dt_calloc(g->nbuffer + 1, sizeof *r->addr);
    r->kept = dt_calloc(g->nbuffer + 1, sizeof *r->kept);
    r->module = dt_calloc(g->nmodule + 1, sizeof *r->module);
    r->function = dt_calloc(g->nlaunch + 1, sizeof *r->function);
    r->event = dt_calloc(g->nlaunch + 1, sizeof *r->event);
    if (!r->addr || !r->kept || !r->module || !r->function || !r->event)
        err = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!err)
        err = run_place(r, e);
    if (!err)
        err = run_load(r, wanted, e);
    if (!err)
        err = order(r, e);
    if (err < 0)
        dev_run_free(r);
    else
        *ret = r;
    return err;
}

struct dev_run *dev_run_free(struct dev_run *r)
{
    if (!r)
        return NULL;
    struct dev_device *d = r->dev;
    const struct dt_graph *g = r->prog->graph;
    bool alive = r->generation == d->generation && !dev_use(d, NULL);
    if (alive)
        dev_run_forget_graph(r);
    for (uint32_t i = 0; alive && r->event && i < g->nlaunch; i++)
        if (r->event[i])
            d->cu->cuEventDestroy(r->event[i]);
    for (uint32_t i = 0; alive && r->stream && i < r->nstream; i++)
        if (r->stream[i])
            d->cu->cuStreamDestroy(r->stream[i]);
    for (uint32_t i = 0; r->module && i < g->nmodule; i++)
        dev_module_unload(d, r->module[i]);
    if (alive && r->arena)
        (void)(d->cu->soft ? d->cu->dovetailArenaFree(r->arena) : d->cu->cuMemFree(r->arena));
    free(r->addr);
    free(r->kept);
    free(r->module);
    free(r->function);
    free(r->event);
    free(r->stream);
    free(r->node);
    free(r);
    return NULL;
}

int dev_run_live(const struct dev_run *r, struct dt_err *e)
{
    if (r->generation != r->dev->generation)
        return dt_err_set(e, DT_E_DEVICE, "the run was lost when the device was reset");
    return dev_use(r->dev, e);
}

void dev_run_arena(const struct dev_run *r, dev_ptr *ret_base, uint64_t *ret_bytes)
{
    *ret_base = r->arena;
    *ret_bytes = r->arena_bytes;
}

int dev_run_buffer(struct dev_run *r, uint32_t buffer, dev_ptr *ret_addr)
{
    if (buffer >= r->prog->graph->nbuffer)
        return DT_E_USAGE;
    *ret_addr = r->addr[buffer];
    return 0;
}

int dev_run_protect(struct dev_run *r, uint32_t buffer, bool on, struct dt_err *e)
{
    int err = dev_run_live(r, e);
    if (err < 0 || !r->dev->cu->soft)
        return err;
    if (buffer >= r->prog->graph->nbuffer)
        return dt_err_set(e, DT_E_USAGE, "there is no buffer %u", buffer);
    const struct dt_buffer *b = &r->prog->graph->buffer[buffer];
    if (b->module >= 0 || !b->bytes)
        return 0;
    return dev_cu(r->dev, r->dev->cu->dovetailArenaProtect(r->addr[buffer], on), "dovetailArenaProtect", e);
}

int dev_run_upload(struct dev_run *r, uint32_t buffer, const void *p, struct dt_err *e)
{
    int err = dev_run_live(r, e);
    if (!err && buffer >= r->prog->graph->nbuffer)
        err = dt_err_set(e, DT_E_USAGE, "there is no buffer %u", buffer);
    if (!err)
        r->kept[buffer] = false;
    return err < 0 ? err : dev_upload(r->dev, r->addr[buffer], p, r->prog->graph->buffer[buffer].bytes, e);
}

int dev_run_download_part(struct dev_run *r, uint32_t buffer, uint64_t from, uint64_t bytes, void *p, struct dt_err *e)
{
    int err = dev_run_live(r, e);
    if (!err && buffer >= r->prog->graph->nbuffer)
        err = dt_err_set(e, DT_E_USAGE, "there is no buffer %u", buffer);
    uint64_t all = err ? 0 : r->prog->graph->buffer[buffer].bytes;
    if (!err && (from > all || bytes > all - from))
        err = dt_err_set(e, DT_E_USAGE, "buffer %u has no %llu bytes from %llu on", buffer, (unsigned long long)bytes,
                         (unsigned long long)from);
    return err < 0 ? err : dev_download(r->dev, p, r->addr[buffer] + from, bytes, e);
}

int dev_run_download(struct dev_run *r, uint32_t buffer, void *p, struct dt_err *e)
{
    uint64_t bytes = buffer < r->prog->graph->nbuffer ? r->prog->graph->buffer[buffer].bytes : 0;
    return dev_run_download_part(r, buffer, 0, bytes, p, e);
}

static int run_fill(struct dev_run *r, uint32_t i, uint64_t seed_add, int poison, struct dt_err *e)
{
    const struct dt_buffer *b = &r->prog->graph->buffer[i];
    bool scratch = b->role == DT_SCRATCH && b->fill.kind == DT_FILL_NONE;
    bool poisoned = poison >= 0 && (b->role == DT_INTERMEDIATE || b->role == DT_OUTPUT || scratch);
    if (!b->bytes || r->kept[i])
        return 0;
    if (poisoned || b->fill.kind == DT_FILL_ZERO || b->fill.kind == DT_FILL_NONE) {
        int err = dev_set(r->dev, r->addr[i],
                          poisoned                       ? (uint8_t)poison
                          : b->fill.kind == DT_FILL_ZERO ? 0
                                                         : 0xff,
                          b->bytes, e);
        /* a pattern that shows reads before writes is no content; with poison the buffers have it that nobody fills
         * from outside */
        if (!err && r->dev->cu->soft && b->module < 0 && (poison >= 0 ? poisoned : b->fill.kind == DT_FILL_NONE))
            err = dev_cu(r->dev, r->dev->cu->dovetailForget(r->addr[i], b->bytes), "dovetailForget", e);
        return err;
    }
    dt_free_ uint8_t *p = dt_malloc(b->bytes);
    if (!p)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for %llu bytes of buffer %.200s", (unsigned long long)b->bytes,
                          b->name);
    dt_fill_bytes(b, seed_add, p);
    int err = dev_upload(r->dev, r->addr[i], p, b->bytes, e);
    r->kept[i] = !err && (b->role == DT_WEIGHT || b->constant); /* no launch may write it */
    return err;
}

int dev_run_fill_buffer(struct dev_run *r, uint32_t buffer, uint64_t seed_add, int poison, struct dt_err *e)
{
    int err = dev_run_live(r, e);
    if (!err && buffer >= r->prog->graph->nbuffer)
        err = dt_err_set(e, DT_E_USAGE, "there is no buffer %u", buffer);
    if (!err)
        err = run_fill(r, buffer, seed_add, poison, e);
    return err < 0 ? err : dev_sync(r->dev, e);
}

int dev_run_fill(struct dev_run *r, uint64_t seed_add, int poison, struct dt_err *e)
{
    int err = dev_run_live(r, e);
    for (uint32_t i = 0; i < r->prog->graph->nbuffer && !err; i++)
        err = run_fill(r, i, seed_add, poison, e);
    return err < 0 ? err : dev_sync(r->dev, e);
}

int dev_run_params(struct dev_run *r, uint32_t step, uint8_t *out)
{
    if (step >= r->prog->graph->nlaunch || !r->prog->step[step].entry)
        return DT_E_USAGE;
    const struct dev_step *s = &r->prog->step[step];
    memset(out, 0, s->param_total);
    for (uint32_t i = 0; i < s->launch->narg; i++) {
        const struct dt_arg *a = &s->launch->arg[i];
        uint8_t *to = out + s->param_offset[i];
        uint64_t v;
        switch (a->kind) {
        case DT_ARG_BUFFER:
            v = r->addr[a->buffer] + a->offset;
            memcpy(to, &v, 8);
            break;
        case DT_ARG_SCALAR: memcpy(to, &a->bits, dt_dtype_bytes(a->dtype)); break;
        case DT_ARG_BYTES:
            memcpy(to, a->bytes, a->nbytes);
            for (uint32_t k = 0; k < a->npointer; k++) {
                v = r->addr[a->pointer[k].buffer] + a->pointer[k].offset;
                memcpy(to + a->pointer[k].at, &v, 8);
            }
            break;
        case DT_ARG_TENSOR_MAP: {
            int err = dev_tensor_map_encode(r->dev, a, r->addr[a->buffer], to, NULL);
            if (err < 0)
                return err;
        }
        }
    }
    return 0;
}

static int launch_step(struct dev_run *r, uint32_t i, struct dt_err *e)
{
    const struct dt_launch *l = &r->prog->graph->launch[i];
    const struct dev_step *s = &r->prog->step[i];
    struct dev_device *d = r->dev;
    CUstream stream = r->stream[l->stream];
    if (l->kind == DT_MEMSET)
        return dev_cu(d, d->cu->cuMemsetD8Async(r->addr[l->dst] + l->dst_offset, l->value, l->bytes, stream), l->name,
                      e);
    if (l->kind == DT_COPY)
        return dev_cu(d,
                      d->cu->cuMemcpyDtoDAsync(r->addr[l->dst] + l->dst_offset, r->addr[l->src] + l->src_offset,
                                               l->bytes, stream),
                      l->name, e);
    size_t n = s->param_total;
    dt_free_ uint8_t *params = dt_malloc(n + 1);
    if (!params)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int err = dev_run_params(r, i, params);
    if (err < 0)
        return dt_err_set(e, err, "launch %.200s: its arguments cannot be bound", l->name);
    if (r->some && r->some[i].block) {
        const struct dev_some *some = &r->some[i];
        err = dev_cu(d,
                     d->cu->dovetailNextBlocks(some->block, some->n, some->unique_read_bytes, some->unique_write_bytes),
                     "dovetailNextBlocks", e);
        if (err < 0)
            return err;
    }
    CUlaunchAttribute attr[DT_CUDA_ATTRIBUTES];
    CUlaunchConfig cfg = dt_cuda_config(l);
    cfg.hStream = stream;
    cfg.attrs = attr;
    cfg.numAttrs = dt_cuda_attributes(l, attr);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &n, CU_LAUNCH_PARAM_END};
    return dev_cu(d, d->cu->cuLaunchKernelEx(&cfg, r->function[i], NULL, n ? extra : NULL), l->name, e);
}

int dev_run_select(struct dev_run *r, const struct dev_some *some, struct dt_err *e)
{
    if (some && !r->dev->cu->soft)
        return dt_err_set(e, DT_E_UNSUPPORTED, "only the software device runs some of a launch's blocks");
    r->some = some;
    return 0;
}

int dev_run_step(struct dev_run *r, uint32_t step, struct dt_err *e)
{
    int err = dev_run_live(r, e);
    if (!err &&
        (step >= r->prog->graph->nlaunch || (r->prog->graph->launch[step].kind == DT_KERNEL && !r->function[step])))
        err = dt_err_set(e, DT_E_USAGE, "step %u is not loaded", step);
    if (!err)
        err = launch_step(r, step, e);
    return err < 0 ? err : dev_run_fault(r, step, dev_sync(r->dev, e), e);
}

int dev_run_issue(struct dev_run *r, struct dt_err *e)
{
    int err = r->nstream > 1 ? dt_err_set(e, DT_E_UNSUPPORTED, "the plan uses several streams") : 0;
    for (uint32_t i = 0; i < r->prog->graph->nlaunch && !err; i++)
        err = launch_step(r, i, e);
    return err;
}

/* Are there two of these launches that need not come one after the other? */
static bool overlaps(const struct dt_graph *g, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++)
        if (i > first && (g->launch[i].stream != g->launch[i - 1].stream || g->launch[i].programmatic))
            return true;
    return false;
}

int dev_run_part(struct dev_run *r, uint32_t first, uint32_t n, struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    int err = dev_run_live(r, e);
    if (!err && (first > g->nlaunch || n > g->nlaunch - first))
        err = dt_err_set(e, DT_E_USAGE, "there are no %u launches from %u on", n, first);
    for (uint32_t i = first; i < first + n && !err; i++)
        if (g->launch[i].kind == DT_KERNEL && !r->function[i])
            err = dt_err_set(e, DT_E_USAGE, "step %u is not loaded", i);
    if (!err && r->dev->cu->soft && r->dev->seed && !r->some && overlaps(g, first, n))
        return dev_run_beside(r, first, n, e);
    for (uint32_t i = first; i < first + n && !err; i++)
        err = dev_run_step(r, i, e);
    return err;
}

int dev_run_once(struct dev_run *r, struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    struct dev_device *d = r->dev;
    if (d->cu->soft && d->seed && !r->some && overlaps(g, 0, g->nlaunch))
        return dev_run_part(r, 0, g->nlaunch, e);
    dt_free_ uint32_t *sequence = dt_calloc((size_t)g->nlaunch + 1, sizeof *sequence);
    struct dev_order o = {0};
    int err = dev_run_live(r, e);
    if (!err &&
        (!sequence || dev_order_new(g, &o) < 0 || dev_order_shuffle(g, &o, d->cu->soft ? d->seed : 0, sequence) < 0))
        err = dt_err_set(e, DT_E_NOMEM, "out of memory");
    dev_order_done(&o);
    for (uint32_t step = 0; step < g->nlaunch && !err; step++) {
        struct dovetail_fault f;
        uint32_t i = sequence[step];
        CUstream stream = r->stream[g->launch[i].stream];
        for (uint32_t k = 0; k < g->launch[i].nafter && !err; k++) {
            uint32_t j = g->launch[i].after_at[k];
            err = dev_cu(d, d->cu->cuStreamWaitEvent(stream, r->event[j], 0), "cuStreamWaitEvent", e);
        }
        if (!err)
            err = launch_step(r, i, e);
        if (!err && d->cu->soft && d->cu->dovetailGetFault(&f) == CUDA_SUCCESS && f.num)
            err = dt_err_set(e, f.num, "%s", f.text); /* it runs a launch at once: this one was it */
        if (err < 0)
            return dev_run_fault(r, i, err, e);
        if (!err && r->event[i])
            err = dev_cu(d, d->cu->cuEventRecord(r->event[i], stream), "cuEventRecord", e);
    }
    return err < 0 ? err : dev_sync(d, e);
}
