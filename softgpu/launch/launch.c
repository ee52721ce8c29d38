/* A launch: its limits, its constants and parameters, running it, and what is counted of it.
 *
 * A block is run by one CPU thread: its warps in turn, each until it waits or has spent its fuel (block.c). Which
 * thread runs which blocks is in worker.c. A launch works on a snapshot of the table of allocations; the counters of
 * all threads are added up at its end.
 *
 * Not here: what operations do (exec/lanes.inc, exec/warp.c, exec/access.c), decoding (decode/decode.c), time
 * (model/timing.c).
 */
#include "softgpu/exec/profile.h"
#include "softgpu/launch/launch-priv.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A fault of the launch as a whole. */
static int launch_refuse(const struct sg_launch *l, struct sg_fault *fault, int num, uint32_t line, const char *fmt,
                         ...) __attribute__((format(printf, 5, 6)));
static int launch_refuse(const struct sg_launch *l, struct sg_fault *fault, int num, uint32_t line, const char *fmt,
                         ...)
{
    *fault = (struct sg_fault){.num = num, .kernel = l->kernel ? l->kernel->info.name : NULL, .line = line};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fault->text, sizeof fault->text, fmt, ap);
    va_end(ap);
    return num;
}

static void *launch_aligned(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 128, n ? n : 128))
        return NULL;
    return p;
}

static void fill_konst(struct sg_run *run)
{
    const struct sg_code *c = run->code;
    const struct sg_launch *l = run->l;
    uint8_t *k = run->konst;
    memcpy(k, c->konst, c->konst_bytes);
    for (unsigned i = 0; i < 3; i++) {
        sg_fill32(k + SG_K_NTID + i * 128, l->block[i]);
        sg_fill32(k + SG_K_NCTAID + i * 128, l->grid[i]);
    }
    sg_fill32(k + SG_K_NWARPID, run->nwarp);
    sg_cluster_konst(run, k);
    const struct sg_model *m = sg_device_model(run->device);
    sg_fill32(k + SG_K_NSMID, m ? m->sms : 1);
    sg_fill32(k + SG_K_DYNSMEM, l->shared_dynamic);
    sg_fill32(k + SG_K_TOTSMEM, run->shared_bytes);
    for (uint32_t i = 0; i < c->nparam; i++) {
        const struct sg_param_copy *p = &c->param[i];
        uint64_t v = 0;
        memcpy(&v, l->params + p->from, p->bytes);
        if (p->sign && p->bytes < 8)
            v = (uint64_t)((int64_t)(v << (64 - 8 * p->bytes)) >> (64 - 8 * p->bytes));
        for (unsigned lane = 0; lane < SG_LANES; lane++)
            if (p->wide)
                ((uint64_t *)(k + p->to))[lane] = v;
            else
                ((uint32_t *)(k + p->to))[lane] = (uint32_t)v & (p->narrow ? 0xFFFFu : SG_ALL);
    }
}

static int make_ranges(struct sg_run *run, const struct sg_alloc *a, size_t n)
{
    run->range = dt_calloc(n + 1, sizeof *run->range);
    if (!run->range)
        return DT_E_NOMEM;
    run->nrange = n;
    for (size_t i = 0; i < n; i++)
        run->range[i] =
            (struct sg_range){.base = a[i].base, .end = a[i].end, .index = (uint32_t)i, .read_only = a[i].read_only};
    return 0;
}

/* How often the first instruction of each line was executed, in all its inlined copies. */
static void collect_lines(const struct sg_run *run)
{
    const struct sg_code *c = run->code;
    for (uint32_t k = 0; k < c->nsrc; k++) {
        const struct sg_src *s = &c->src[k];
        uint32_t line = s->f->inst[s->inst].line;
        if (s->bb == SG_NONE || line >= run->l->nline || (s->inst && s->f->inst[s->inst - 1].line == line))
            continue;
        for (uint32_t i = 0; i < run->nworker; i++)
            if (run->first[i].bb) {
                run->l->line[line].lanes += run->first[i].bb[s->bb].lanes;
                run->l->line[line].warps += run->first[i].bb[s->bb].warps;
            }
    }
}

static void launch_collect(struct sg_run *run, struct sg_stats *s)
{
    *s = (struct sg_stats){0};
    uint64_t heaviest = 0;
    for (uint32_t i = 0; i < run->nworker; i++) {
        const struct sg_worker *wk = &run->first[i];
        if (!wk->bb)
            continue;
        for (uint32_t b = 0; b < run->code->nbb; b++)
            sg_count_bb(s, &run->code->bb[b], wk->bb[b].lanes);
        s->instructions += wk->executed;
        s->longest += wk->longest;
        s->before_wait += wk->before_wait;
        s->before_trigger += wk->before_trigger;
        s->prefetched_bytes += wk->fetched * 32;
        s->global_read_bytes += wk->sectors[0] * 32;
        s->global_write_bytes += wk->sectors[1] * 32;
        if (wk->heaviest > heaviest)
            heaviest = wk->heaviest;
    }
    for (unsigned k = 0; k + 4 < 64u - (unsigned)__builtin_clzll(heaviest | 1) && heaviest; k++)
        for (uint32_t i = 0; i < run->nworker; i++) {
            s->light_blocks += run->first[i].weight[0][k];
            s->light_instructions += run->first[i].weight[1][k];
        }
    if (run->l->line)
        collect_lines(run);
    uint64_t unique[2];
    sg_track_sum(run, unique, &s->fetched_read_bytes);
    s->unique_read_bytes = unique[0];
    s->unique_write_bytes = unique[1];
    if (run->l->some.block) {
        uint64_t *const all[] = {&s->fp32,
                                 &s->fp64,
                                 &s->integer,
                                 &s->sfu,
                                 &s->memory,
                                 &s->barriers,
                                 &s->tensor_flops,
                                 &s->shared_bytes,
                                 &s->instructions,
                                 &s->longest,
                                 &s->before_wait,
                                 &s->before_trigger,
                                 &s->light_blocks,
                                 &s->light_instructions,
                                 &s->global_read_bytes,
                                 &s->global_write_bytes};
        uint64_t light[2];
        double scale = sg_behind_scale(run, s->light_blocks, light),
               clusters = (double)(run->nblocks / run->cluster_size);
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            double whole = run->nclusters ? (double)*all[i] / (double)run->nclusters * clusters : 0;
            *all[i] = (uint64_t)((scale > 0 ? (double)*all[i] * scale : whole) + 0.5);
        }
        if (light[0])
            s->light_blocks = light[0], s->light_instructions = light[1];
        s->unique_read_bytes = run->l->some.unique_read_bytes;
        s->unique_write_bytes = run->l->some.unique_write_bytes;
    }
    s->max_block_share = s->instructions ? (double)heaviest * (double)run->nblocks / (double)s->instructions : 1;
    s->talk = sg_talk_finish(run->first, s);
    sg_profile_sum(run, s);
    s->talk = s->talk ? s->talk : sg_behind(run, s);
}

static int launch_check(const struct sg_device *d, const struct sg_launch *l, const struct sg_code *c,
                        struct sg_fault *fault, struct sg_run *run)
{
    if (c->error)
        return launch_refuse(l, fault, c->error, c->error_line, "%s", c->error_text);
    uint64_t threads = (uint64_t)l->block[0] * l->block[1], blocks = (uint64_t)l->grid[0] * l->grid[1];
    if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !l->block[0] || !l->block[1] || !l->block[2])
        return launch_refuse(l, fault, DT_E_LAUNCH, 0, "a grid or block dimension is 0");
    if (l->grid[0] > INT32_MAX || l->grid[1] > 65535 || l->grid[2] > 65535)
        return launch_refuse(l, fault, DT_E_LAUNCH, 0, "grid (%u,%u,%u) is too large", l->grid[0], l->grid[1],
                             l->grid[2]);
    if (l->block[2] > 64 || threads > 1024 || threads * l->block[2] > l->kernel->info.max_threads)
        return launch_refuse(l, fault, DT_E_LAUNCH, 0, "block (%u,%u,%u) is over the kernel's limit of %u threads",
                             l->block[0], l->block[1], l->block[2], l->kernel->info.max_threads);
    const struct sg_model *m = sg_device_model(d);
    uint32_t limit = m && m->shared_block_optin ? m->shared_block_optin : 227 << 10;
    if (c->shared_static > limit || l->shared_dynamic > limit - c->shared_static)
        return launch_refuse(l, fault, DT_E_LAUNCH, 0, "%u + %u bytes of shared memory are over the device's %u",
                             c->shared_static, l->shared_dynamic, limit);
    const char *misfit = sg_cluster_shape(l, run->cluster, &run->explicit_cluster);
    if (misfit)
        return launch_refuse(l, fault, DT_E_LAUNCH, 0, "%s", misfit);
    if (c->param_total && !l->params)
        return launch_refuse(l, fault, DT_E_ARGS, 0, "no parameters given");
    run->nblocks = blocks * l->grid[2];
    run->cluster_size = run->cluster[0] * run->cluster[1] * run->cluster[2];
    run->nclusters = run->nblocks / run->cluster_size;
    if (l->some.block) {
        for (uint32_t i = 0; i < l->some.n; i++)
            if (l->some.block[i] >= run->nclusters || (i && l->some.block[i] <= l->some.block[i - 1]))
                return launch_refuse(l, fault, DT_E_LAUNCH, 0,
                                     "the blocks to run are not ascending numbers of blocks of the grid");
        run->nclusters = l->some.n;
    }
    run->threads = (uint32_t)(threads * l->block[2]);
    return 0;
}

int sg_execute(struct sg_device *d, const struct sg_launch *l, struct sg_stats *stats, struct sg_fault *fault)
{
    struct sg_fault dummy;
    if (!fault)
        fault = &dummy;
    struct sg_code *c = sg_kernel_code(l->kernel, l->checks & SG_CHECK_ALL);
    if (!c)
        return launch_refuse(l, fault, DT_E_NOMEM, 0, "memory is out");
    struct sg_run run = {
        .device = d, .l = l, .code = c, .fault_cluster = UINT64_MAX, .recording = PTHREAD_MUTEX_INITIALIZER};
    if (l->record)
        l->record->stray.found = 0;
    int r = launch_check(d, l, c, fault, &run);
    if (r < 0)
        return r;
    if (l->checks && run.nblocks >= INT32_MAX)
        return launch_refuse(l, fault, DT_E_TOO_LARGE, 0, "too many blocks for the race detector");
    run.local_bytes = c->local_bytes + (c->fp ? (l->stack_bytes ? l->stack_bytes : 1024u) & ~15u : 0);
    run.nwarp = (run.threads + SG_LANES - 1) / SG_LANES;
    run.shared_bytes = l->shared_dynamic ? c->shared_dynamic_at + l->shared_dynamic : c->shared_static;

    size_t nalloc;
    if (c->heap && (r = sg_heap_make(d, l->heap_bytes ? l->heap_bytes : 8u << 20)) < 0)
        return launch_refuse(l, fault, r, 0, "no memory for the heap of %llu bytes", (unsigned long long)l->heap_bytes);
    if (c->prefetches && stats && (r = sg_mem_fetch_maps(d)) < 0)
        return launch_refuse(l, fault, r, 0, "memory is out");
    r = sg_mem_pin(d, !(l->checks & SG_CHECK_UNINIT), !l->beside, &run.alloc, &nalloc);
    if (r < 0)
        return launch_refuse(l, fault, r, 0, "memory is out");
    run.nworker = c->ordered || l->checks || l->beside ? 1 : sg_worker_count();
    if (run.nworker > run.nclusters)
        run.nworker = run.nclusters ? (uint32_t)run.nclusters : 1;
    run.helping = run.nworker == 1;
    run.follow = stats && c->costs && !l->unfollowed && !l->beside && !l->record && sg_device_model(d);
    run.first = dt_calloc(run.nworker, sizeof *run.first);
    run.konst = launch_aligned(c->konst_bytes);
    r = !run.first || !run.konst ? DT_E_NOMEM : make_ranges(&run, run.alloc, nalloc);
    if (r == 0)
        r = sg_worker_init(&run, run.first, stats && !l->unfollowed);
    if (r == 0) {
        fill_konst(&run);
        sg_worker_run(run.first);
        for (uint32_t i = 1; i < run.nworker; i++)
            if (run.first[i].started)
                pthread_join(run.first[i].thread, NULL);
        const struct sg_worker *bad = NULL;
        for (uint32_t i = 0; i < run.nworker; i++)
            if (run.first[i].fault && (!bad || run.first[i].fault_place < bad->fault_place))
                bad = &run.first[i];
        if (bad && bad->stray_site) {
            sg_record_stray(l, bad);
        } else if (bad) {
            *fault = bad->f;
            r = bad->fault;
        } else if (run.stop == 1) {
            r = launch_refuse(l, fault, DT_E_TIMEOUT, 0, "over the limit of %llu thread-instructions",
                              (unsigned long long)l->max_instructions);
        } else if (run.stop == 2) {
            r = launch_refuse(l, fault, DT_E_TIMEOUT, 0, "the launch was cancelled");
        } else if (run.stop) {
            r = DT_E_NOMEM;
        }
        if (stats)
            launch_collect(&run, stats);
    }
    if (r == DT_E_NOMEM)
        launch_refuse(l, fault, r, 0, "memory is out");
    for (uint32_t i = 0; run.first && i < run.nworker; i++)
        sg_worker_done(&run.first[i]);
    for (size_t i = 0; i < run.nrange; i++)
        sg_shadow_done(&run.range[i]);
    free(run.range);
    free(run.first);
    free(run.konst);
    free(run.alloc);
    if (!l->beside)
        sg_mem_unpin(d);
    return r;
}
