/* The entries that only this device has (extension.h).
 *
 * dovetail reaches them through cuGetProcAddress. Two of them let times be computed without running anything.
 * dovetailLastWork hands out a launch's work in the model as it is, and dovetailTimeline makes a timeline from such
 * works. A work is numbers with a version in front, so that it may be kept in a file. dovetailCheckWork looks at a work
 * from a file before it is used.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "softgpu/libcuda/cu-priv.h"

#define ALONE 16 /* works whose timelines are faster than a thread */

CUresult dovetailDeviceByModel(CUdevice *ret, const char *id)
{
    CU_READY();
    CU_REQUIRE(ret && id, CUDA_ERROR_INVALID_VALUE);
    const struct sg_model *m = sg_model_find(id);
    CU_REQUIRE(m, CUDA_ERROR_NOT_FOUND);
    size_t n = strlen(m->id);
    for (CUdevice i = 0; cu_device_at(i); i++)
        /* with figures of its own: id~hash */
        if (!strncmp(cu_device_at(i)->model->id, m->id, n) && strchr("~", cu_device_at(i)->model->id[n])) {
            *ret = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult dovetailDeviceModel(const char **ret, CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *ret = cu_device_at(dev)->model->id;
    return CUDA_SUCCESS;
}

static char given_figures[2048]; /* dovetailSetFigures; "" for none */
static bool figures_given;       /* it was called: the program knows this device, and that there may be another */

CUresult dovetailSetFigures(const char *figures)
{
    CU_LOCK();
    /* the same again changes nothing */
    CU_REQUIRE(!cu_initialised || !strcmp(given_figures, figures ? figures : ""), CUDA_ERROR_NOT_PERMITTED);
    CU_REQUIRE(!figures || strlen(figures) < sizeof given_figures, CUDA_ERROR_INVALID_VALUE);
    snprintf(given_figures, sizeof given_figures, "%s", figures ? figures : "");
    figures_given = true;
    return CUDA_SUCCESS;
}

bool cu_figures_were_given(void) { return figures_given; }

const char *cu_given_figures(void) { return *given_figures ? given_figures : NULL; }

CUresult dovetailDeviceL2Halves(unsigned *ret, CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *ret = cu_device_at(dev)->model->l2_halves;
    return CUDA_SUCCESS;
}

CUresult dovetailSetSchedule(uint64_t seed, int race_check)
{
    CU_CONTEXT(c);
    c->seed = seed;
    c->race_check = race_check != 0;
    return CUDA_SUCCESS;
}

CUresult dovetailSetChecks(const char *modes)
{
    CU_CONTEXT(c);
    unsigned bits = 0;
    CU_REQUIRE(sg_checks_parse(modes ? modes : cu_environment_checks(), &bits), CUDA_ERROR_INVALID_VALUE);
    c->checks = bits;
    sg_mem_track(c->dev->sg, bits & SG_CHECK_UNINIT);
    return CUDA_SUCCESS;
}

CUresult dovetailNextBlocks(const uint32_t *block, unsigned n, uint64_t unique_read_bytes, uint64_t unique_write_bytes)
{
    CU_CONTEXT(c);
    CU_REQUIRE(block || !n, CUDA_ERROR_INVALID_VALUE);
    uint32_t *copy = dt_reallocarray(NULL, (size_t)n + 1, sizeof *copy);
    CU_REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    if (n)
        memcpy(copy, block, n * sizeof *copy);
    free((void *)c->some.block);
    c->some = (struct sg_some){copy, n, unique_read_bytes, unique_write_bytes};
    return CUDA_SUCCESS;
}

CUresult dovetailForget(CUdeviceptr p, size_t bytes)
{
    CU_CONTEXT(c);
    CU_REQUIRE(sg_mem_ok(c->dev->sg, p, bytes), CUDA_ERROR_INVALID_VALUE);
    sg_mem_forget(c->dev->sg, p, bytes);
    return CUDA_SUCCESS;
}

CUresult dovetailNameMemory(CUdeviceptr p, const char *name)
{
    CU_CONTEXT(c);
    CU_REQUIRE(sg_mem_ok(c->dev->sg, p, 1), CUDA_ERROR_INVALID_VALUE);
    sg_mem_name(c->dev->sg, p, name);
    return CUDA_SUCCESS;
}

CUresult dovetailSetDeadline(unsigned ms)
{
    CU_CONTEXT(c);
    c->deadline_ms = ms;
    return CUDA_SUCCESS;
}

CUresult dovetailSetLimit(uint64_t instructions)
{
    CU_CONTEXT(c);
    c->max_instructions = instructions;
    return CUDA_SUCCESS;
}

CUresult dovetailSetFollow(int on)
{
    CU_CONTEXT(c);
    c->unfollowed = !on;
    return CUDA_SUCCESS;
}

CUresult dovetailGetFault(struct dovetail_fault *ret)
{
    CU_READY();
    CUcontext c;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cuCtxGetCurrent(&c));
    CU_REQUIRE(c && cu_is(c, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    *ret = c->fault;
    if (!c->fault.num && c->refused.num) {
        *ret = c->refused;
        c->refused.num = 0;
    }
    return CUDA_SUCCESS;
}

CUresult dovetailGetFindings(struct dovetail_fault *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    memcpy(ret, c->found, sizeof c->found);
    return CUDA_SUCCESS;
}

CUresult dovetailFuncSetResources(CUfunction handle, unsigned registers)
{
    CU_CONTEXT(c);
    struct CUfunc_st *f;
    CU_TRY(cu_function(c, handle, &f));
    CU_REQUIRE(registers && registers <= 255, CUDA_ERROR_INVALID_VALUE);
    sg_kernel_set_resources(f->kernel, registers);
    return CUDA_SUCCESS;
}

CUresult dovetailRecord(struct dovetail_recorder *r)
{
    CU_CONTEXT(c);
    CU_REQUIRE(!r || sg_record_ok(r), CUDA_ERROR_INVALID_VALUE);
    c->record = r;
    return CUDA_SUCCESS;
}

CUresult dovetailCountLines(struct dovetail_line *line, unsigned n)
{
    CU_CONTEXT(c);
    c->line = line;
    c->nline = line ? n : 0;
    return CUDA_SUCCESS;
}

#define EVEN (1 + 1e-6) /* the heaviest block against the mean: counts of instructions are whole numbers */

CUresult dovetailLastStats(struct dovetail_launch_stats *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    const struct sg_stats *s = &c->last;
    *ret = (struct dovetail_launch_stats){.instructions = s->instructions,
                                          .fp32 = s->fp32,
                                          .fp64 = s->fp64,
                                          .integer = s->integer,
                                          .sfu = s->sfu,
                                          .memory = s->memory,
                                          .barriers = s->barriers,
                                          .tensor_flops = s->tensor_flops,
                                          .global_read_bytes = s->global_read_bytes,
                                          .global_write_bytes = s->global_write_bytes,
                                          .shared_bytes = s->shared_bytes,
                                          .unique_read_bytes = s->unique_read_bytes,
                                          .unique_write_bytes = s->unique_write_bytes};
    return CUDA_SUCCESS;
}

/* A work as numbers, in this order; doubles as their bits. */
enum { W_FORMAT, W_KIND, W_BLOCKS, W_THREADS, W_REGISTERS, W_SHARED, W_BYTES, W_SHARE, W_CLUSTER, W_COUNT };
static const size_t count_at[] = {
#define AT(name) offsetof(struct sg_stats, name)
    AT(instructions),
    AT(fp32),
    AT(fp64),
    AT(integer),
    AT(sfu),
    AT(memory),
    AT(barriers),
    AT(tensor_flops),
    AT(global_read_bytes),
    AT(global_write_bytes),
    AT(shared_bytes),
    AT(cluster_accesses),
    AT(cluster_bytes),
    AT(cluster_syncs),
    AT(unique_read_bytes),
    AT(unique_write_bytes),
    AT(prefetched_bytes),
    AT(fetched_read_bytes),
    AT(longest),
    AT(before_wait),
    AT(before_trigger),
    AT(talk),
    AT(light_blocks),
    AT(light_instructions),
#define SLOT(pipe) offsetof(struct sg_stats, profile.slots) + (pipe) * sizeof(uint64_t)
    SLOT(SG_PIPE_NONE),
    SLOT(SG_PIPE_ALU),
    SLOT(SG_PIPE_FMA),
    SLOT(SG_PIPE_IMAD),
    SLOT(SG_PIPE_FP64),
    SLOT(SG_PIPE_XU),
    SLOT(SG_PIPE_LSU),
    SLOT(SG_PIPE_TENSOR),
    AT(profile.shared_passes),
    AT(profile.l1_quarters),
    AT(profile.l2_read),
    AT(profile.l2_write),
    AT(profile.again),
    AT(profile.atomics),
    AT(profile.alone_near),
    AT(profile.alone_far),
    AT(profile.done_near),
    AT(profile.done_far),
    AT(profile.shared_part),
    AT(profile.pages),
    AT(profile.shared_pages),
    AT(profile.written),
    AT(profile.write_pages),
    AT(profile.shared_write_pages),
    AT(profile.tensor),
    AT(profile.hot),
    AT(profile.fences),
#undef SLOT
#undef AT
};
#define NCOUNT (sizeof count_at / sizeof *count_at)
_Static_assert(sizeof(struct sg_stats) == (NCOUNT + 1) * sizeof(uint64_t),
               "all counts, and the share of the heaviest block");
_Static_assert(W_COUNT + NCOUNT <= sizeof((struct dovetail_work *)0)->word / sizeof(uint64_t),
               "dovetail_work holds one sg_work");

static void wrap(struct dovetail_work *to, const struct sg_work *from)
{
    memset(to, 0, sizeof *to);
    to->word[W_FORMAT] = DOVETAIL_WORK;
    to->word[W_KIND] = from->kind;
    to->word[W_BLOCKS] = from->blocks;
    to->word[W_THREADS] = from->threads;
    to->word[W_REGISTERS] = from->registers;
    to->word[W_SHARED] = from->shared_bytes;
    to->word[W_BYTES] = from->bytes;
    to->word[W_CLUSTER] = from->cluster;
    memcpy(&to->word[W_SHARE], &from->stats.max_block_share, sizeof(double));
    for (size_t i = 0; i < NCOUNT; i++)
        memcpy(&to->word[W_COUNT + i], (const char *)&from->stats + count_at[i], sizeof(uint64_t));
}

/* False: no work that wrap made. */
static bool unwrap(struct sg_work *to, const struct dovetail_work *from)
{
    const uint64_t *w = from->word;
    if (w[W_FORMAT] != DOVETAIL_WORK || (w[W_KIND] != SG_WORK_KERNEL && w[W_KIND] != SG_WORK_SET))
        return false;
    *to = (struct sg_work){.kind = w[W_KIND] == SG_WORK_KERNEL ? SG_WORK_KERNEL : SG_WORK_SET, .bytes = w[W_BYTES]};
    if (to->kind == SG_WORK_SET)
        return true;
    if (!w[W_BLOCKS] || w[W_BLOCKS] > UINT32_MAX || !w[W_THREADS] || w[W_THREADS] > 1024 || w[W_REGISTERS] > 255 ||
        w[W_SHARED] > UINT32_C(1) << 24 || w[W_CLUSTER] > 16)
        return false;
    to->blocks = (uint32_t)w[W_BLOCKS];
    to->threads = (uint32_t)w[W_THREADS];
    to->registers = (uint32_t)w[W_REGISTERS];
    to->shared_bytes = (uint32_t)w[W_SHARED];
    to->cluster = (uint32_t)w[W_CLUSTER];
    memcpy(&to->stats.max_block_share, &w[W_SHARE], sizeof(double));
    for (size_t i = 0; i < NCOUNT; i++)
        memcpy((char *)&to->stats + count_at[i], &w[W_COUNT + i], sizeof(uint64_t));
    return to->stats.max_block_share >= 0 && to->stats.max_block_share <= 2.0 * UINT32_MAX;
}

CUresult dovetailLastWork(struct dovetail_work *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    wrap(ret, &c->last_work);
    return CUDA_SUCCESS;
}

CUresult dovetailWorkEven(const struct dovetail_work *work, int *even)
{
    struct sg_work w;
    CU_READY();
    CU_REQUIRE(work && even && unwrap(&w, work), CUDA_ERROR_INVALID_VALUE);
    *even = w.kind != SG_WORK_KERNEL || (w.stats.max_block_share <= EVEN && !w.stats.light_blocks);
    return CUDA_SUCCESS;
}

CUresult dovetailWorkFetched(const struct dovetail_work *work, uint64_t *prefetched, uint64_t *fetched)
{
    struct sg_work w;
    CU_READY();
    CU_REQUIRE(work && prefetched && fetched && unwrap(&w, work), CUDA_ERROR_INVALID_VALUE);
    *prefetched = w.stats.prefetched_bytes;
    *fetched = w.stats.fetched_read_bytes;
    return CUDA_SUCCESS;
}

CUresult dovetailWorkSetFetched(struct dovetail_work *work, uint64_t prefetched, uint64_t fetched)
{
    struct sg_work w;
    CU_READY();
    CU_REQUIRE(work && unwrap(&w, work), CUDA_ERROR_INVALID_VALUE);
    w.stats.prefetched_bytes = prefetched;
    w.stats.fetched_read_bytes = fetched < w.stats.unique_read_bytes ? fetched : w.stats.unique_read_bytes;
    wrap(work, &w);
    return CUDA_SUCCESS;
}

CUresult dovetailSetWork(struct dovetail_work *ret, size_t bytes, int is_copy)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    wrap(ret, &(struct sg_work){.kind = SG_WORK_SET, .bytes = is_copy ? 2 * bytes : bytes});
    return CUDA_SUCCESS;
}

CUresult dovetailSetDistinct(size_t bytes)
{
    CU_CONTEXT(c);
    c->distinct = (double)bytes;
    return CUDA_SUCCESS;
}

CUresult dovetailCheckWork(const struct dovetail_work *work, unsigned blocks, unsigned threads)
{
    CU_CONTEXT(c);
    struct sg_work w;
    CU_REQUIRE(work && unwrap(&w, work) && w.kind == SG_WORK_KERNEL && w.blocks == blocks && w.threads == threads,
               CUDA_ERROR_INVALID_VALUE);
    /* no launch here does more in a day; sums of times stay far from where doubles drop microseconds */
    for (size_t i = 0; i < NCOUNT; i++)
        CU_REQUIRE(work->word[W_COUNT + i] <= UINT64_C(1) << 48, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(w.stats.before_wait <= w.stats.longest && w.stats.before_trigger <= w.stats.longest,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(w.stats.light_blocks <= w.blocks && w.stats.light_instructions <= w.stats.instructions,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(w.stats.cluster_accesses <= w.stats.memory, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!w.stats.talk, CUDA_ERROR_INVALID_VALUE); /* that record is this process's */
    unsigned per_sm = sg_occupancy(c->dev->model, w.threads, w.registers, w.shared_bytes).blocks_per_sm;
    CU_REQUIRE(per_sm &&
                   (w.cluster < 2 || (w.blocks % w.cluster == 0 && sg_clusters(c->dev->model, per_sm, w.cluster))),
               CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult dovetailDoubt(unsigned doubt, const char **name, int *moot)
{
    CU_READY();
    CU_REQUIRE(name && moot, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(sg_doubt_at(doubt), CUDA_ERROR_NOT_FOUND);
    *name = sg_doubt_at(doubt)->name;
    *moot = sg_doubt_at(doubt)->late;
    return CUDA_SUCCESS;
}

_Static_assert(DOVETAIL_BURDENS == SG_BURDENS, "the same numbers");

CUresult dovetailBurden(const struct dovetail_work *work, double *burden, double *in_flight)
{
    CU_CONTEXT(c);
    struct sg_work w;
    CU_REQUIRE(work && burden && in_flight && unwrap(&w, work), CUDA_ERROR_INVALID_VALUE);
    sg_burden(c->dev->model, &w, burden, in_flight);
    return CUDA_SUCCESS;
}

CUresult dovetailBound(unsigned n, const struct dovetail_work *work, double bytes, double *us)
{
    CU_CONTEXT(c);
    CU_REQUIRE(n && work && us, CUDA_ERROR_INVALID_VALUE);
    struct sg_work *w = dt_calloc(n, sizeof *w);
    CU_REQUIRE(w, CUDA_ERROR_OUT_OF_MEMORY);
    bool ok = true;
    for (unsigned i = 0; i < n && ok; i++)
        ok = unwrap(&w[i], &work[i]);
    if (ok)
        *us = sg_bound(c->dev->model, w, n, bytes);
    free(w);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Works with what stands before each, as the model takes them. *ret: free(). */
static CUresult works_of(unsigned n, const struct dovetail_work *work, const unsigned *at, const unsigned *after,
                         const unsigned char *early, const unsigned char *made, struct sg_work **ret)
{
    CU_REQUIRE(n && work && at, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n; i++) {
        CU_REQUIRE(at[i] <= at[i + 1] && (after || at[i] == at[i + 1]), CUDA_ERROR_INVALID_VALUE);
        for (unsigned k = at[i]; k < at[i + 1]; k++)
            CU_REQUIRE(after[k] < i, CUDA_ERROR_INVALID_VALUE);
    }
    struct sg_work *w = dt_calloc(n, sizeof *w);
    CU_REQUIRE(w, CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = 0; i < n; i++) {
        if (!unwrap(&w[i], &work[i])) {
            free(w);
            return CUDA_ERROR_INVALID_VALUE;
        }
        w[i].in_graph = true;
        w[i].after = after + at[i];
        w[i].nafter = at[i + 1] - at[i];
        w[i].early = early ? early + at[i] : NULL;
        w[i].made = made && made[i];
    }
    *ret = w;
    return CUDA_SUCCESS;
}

CUresult dovetailTimeline(unsigned doubt, unsigned n, const struct dovetail_work *work, const unsigned *at,
                          const unsigned *after, const unsigned char *early, const unsigned char *made,
                          double *start_us, double *end_us, int *same)
{
    CU_CONTEXT(c);
    struct sg_work *w;
    CU_REQUIRE(sg_doubt_at(doubt) && start_us && end_us, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(works_of(n, work, at, after, early, made, &w));
    bool alike = same && doubt && !sg_doubt_matters(sg_doubt_at(doubt), w, n);
    if (same)
        *same = alike;
    int r = alike ? 0 : sg_timeline_of(c->dev->model, w, n, c->distinct, sg_doubt_at(doubt));
    for (unsigned i = 0; i < n && !r && !alike; i++) {
        start_us[i] = w[i].start_us;
        end_us[i] = w[i].end_us;
    }
    free(w);
    return cu_from_dt(r);
}

_Static_assert(sizeof(struct dovetail_span) == sizeof(struct sg_span) && DOVETAIL_SPANS(3) == SG_SPANS(3), "the same");

CUresult dovetailSpans(unsigned n, const struct dovetail_work *work, const unsigned *at, const unsigned *after,
                       const unsigned char *early, struct dovetail_span *span, unsigned *count)
{
    CU_CONTEXT(c);
    struct sg_work *w;
    size_t k = 0;
    CU_REQUIRE(span && count, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(works_of(n, work, at, after, early, NULL, &w));
    struct sg_span *s = dt_calloc(SG_SPANS(n), sizeof *s);
    int r = s ? sg_timeline_spans(c->dev->model, w, n, c->distinct, s, &k) : DT_E_NOMEM;
    for (size_t i = 0; i < k && !r; i++)
        span[i] = (struct dovetail_span){s[i].work, s[i].first_sm, s[i].last_sm, s[i].blocks,
                                         s[i].mean, s[i].begin_us, s[i].end_us};
    *count = r ? 0 : (unsigned)k;
    free(s);
    free(w);
    return cu_from_dt(r);
}

struct timelines {
    const struct sg_model *m;
    const struct sg_work *w; /* each has a copy */
    unsigned n;
    double distinct, *end_us; /* by doubt */
    _Atomic int r;
};

static void one_timeline(void *user, size_t doubt)
{
    struct timelines *x = user;
    const struct sg_doubt *d = sg_doubt_at((unsigned)doubt);
    x->end_us[doubt] = -1;
    if (doubt && !sg_doubt_matters(d, x->w, x->n))
        return;
    struct sg_work *w = dt_memdup(x->w, x->n * sizeof *w);
    int r = w ? sg_timeline_of(x->m, w, x->n, x->distinct, d) : DT_E_NOMEM;
    for (unsigned i = 0; i < x->n && !r; i++)
        x->end_us[doubt] = w[i].end_us > x->end_us[doubt] ? w[i].end_us : x->end_us[doubt];
    if (r)
        x->r = r;
    free(w);
}

CUresult dovetailTimelines(unsigned ndoubt, unsigned n, const struct dovetail_work *work, const unsigned *at,
                           const unsigned *after, const unsigned char *early, const unsigned char *made, double *end_us)
{
    CU_CONTEXT(c);
    struct sg_work *w;
    CU_REQUIRE(ndoubt && sg_doubt_at(ndoubt - 1) && end_us, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(works_of(n, work, at, after, early, made, &w));
    struct timelines x = {.m = c->dev->model, .w = w, .n = n, .distinct = c->distinct, .end_us = end_us};
    dt_parallel(n > ALONE ? sg_worker_count() : 1, ndoubt, one_timeline, &x);
    free(w);
    return cu_from_dt(x.r);
}
