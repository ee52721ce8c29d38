/* Launches: blocks over CPU threads, warps within a block, limits, faults and counters.
 *
 * A block is run by one CPU thread: its warps in turn, each until it waits or has spent its fuel (decoded operations).
 * So is a cluster: its blocks in turn (exec-cluster.c); without clusters each block is one of its own, and what is said
 * of blocks here holds for clusters. Kernels whose blocks cannot talk to each other run on DOVETAIL_SOFTGPU_THREADS
 * threads (default: one per CPU), started only when the launch has lasted HELP_AFTER; kernels with atomics, fences or
 * volatile accesses run on one thread, in block order, so that results are the same in every run. A block that keeps
 * spinning lets later ones in beside it. With a seed, the order of blocks is a permutation and several blocks take
 * turns after random amounts of work; more of them where the launch runs beside others (sg_beside), so that those begin
 * while this one's blocks are at work.
 *
 * The first fault in block order wins: blocks after it are not started, blocks before it run on. Cancellation and the
 * instruction limit are looked at between two helpings of fuel.
 *
 * Not here: what operations do (lanes.inc, exec-warp.c, exec-mem.c), decoding (decode.c), time (timing.c).
 */
#include "softgpu/check.h"

#include <fenv.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"

/* RESIDENT: clusters */
enum { FUEL = 20000, MAX_THREADS = 64, RESIDENT = 4, MAX_RESIDENT = 64, MAX_BESIDE = 512, SPINNING = 100 };
#define HELP_AFTER 100e-6
#define MAX_MEMORY (1ull << 30) /* registers, local and shared memory of the blocks of one CPU thread */

/* ---- refusals ------------------------------------------------------------------------------------------------------ */
/* A fault of the launch as a whole. */
static int refuse(const struct sg_launch *l, struct sg_fault *fault, int num, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static int refuse(const struct sg_launch *l, struct sg_fault *fault, int num, uint32_t line, const char *fmt, ...)
{
    *fault = (struct sg_fault){.num = num, .kernel = l->kernel ? l->kernel->info.name : NULL, .line = line};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fault->text, sizeof fault->text, fmt, ap);
    va_end(ap);
    return num;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
static void fill32(void *p, uint32_t v)
{
    for (unsigned l = 0; l < SG_LANES; l++)
        ((uint32_t *)p)[l] = v;
}

static void *aligned(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 128, n ? n : 128))
        return NULL;
    return p;
}

static uint64_t block_bytes(const struct sg_run *run)
{
    return run->nwarp * ((uint64_t)run->code->reg_bytes + SG_LANES * (uint64_t)run->local_bytes) + run->shared_bytes;
}

/* Take `bytes` from *p on, rounded up to lines. */
static uint8_t *cut(uint8_t **p, size_t bytes)
{
    uint8_t *r = *p;
    *p += (bytes + 127) & ~(size_t)127;
    return r;
}

/* Memory of a resident block, in one piece. What is in it does not matter: registers that are read before they are
 * written are cleared by block_start, and so is all else that a kernel can see. */
static int block_init(struct sg_worker *wk, struct sg_block *b)
{
    const struct sg_run *run = wk->run;
    const struct sg_code *c = run->code;
    const struct sg_launch *l = run->l;
    size_t threads = (size_t)run->nwarp * SG_LANES;
    b->wk = wk;
    b->nwarp = run->nwarp;
    b->bytes = block_bytes(run) + run->nwarp * sizeof *b->warp + SG_BLOCK_BYTES + 5 * 128;
    uint8_t *p = b->memory = sg_spare_get(run->device, &b->bytes);
    if (!p)
        return DT_E_NOMEM;
    b->warp = (struct sg_warp *)(void *)cut(&p, run->nwarp * sizeof *b->warp);
    b->regs = cut(&p, (size_t)run->nwarp * c->reg_bytes);
    b->shared = cut(&p, run->shared_bytes);
    b->local = cut(&p, threads * run->local_bytes);
    b->konst = cut(&p, SG_BLOCK_BYTES);
    uint32_t t[3] = {0};
    for (uint32_t i = 0; i < run->nwarp; i++) {
        struct sg_warp *w = &b->warp[i];
        memset(w, 0, offsetof(struct sg_warp, frag));
        uint8_t *r = b->regs + (size_t)i * c->reg_bytes;
        w->base[0] = r;
        w->base[1] = run->konst;
        w->base[2] = b->konst;
        w->base[3] = r;
        w->wk = wk;
        w->blk = b;
        w->code = c;
        w->index = i;
        w->shared = b->shared;
        w->shared_bytes = run->shared_bytes;
        w->local = b->local + (size_t)i * SG_LANES * run->local_bytes;
        w->local_bytes = run->local_bytes;
        for (unsigned lane = 0; lane < SG_LANES; lane++) {
            ((uint32_t *)(void *)(r + SG_REG_TIDX))[lane] = t[0];
            ((uint32_t *)(void *)(r + SG_REG_TIDY))[lane] = t[1];
            ((uint32_t *)(void *)(r + SG_REG_TIDZ))[lane] = t[2];
            if (++t[0] == l->block[0]) {
                t[0] = 0;
                if (++t[1] == l->block[1])
                    t[1] = 0, t[2]++;
            }
        }
        fill32(r + SG_REG_WARPID, i);
    }
    return 0;
}

static void block_start(struct sg_block *b, uint64_t linear)
{
    const struct sg_run *run = b->wk->run;
    const struct sg_code *c = run->code;
    const uint32_t *grid = run->l->grid;
    b->linear = linear;
    b->id[0] = (uint32_t)(linear % grid[0]);
    b->id[1] = (uint32_t)(linear / grid[0] % grid[1]);
    b->id[2] = (uint32_t)(linear / grid[0] / grid[1]);
    fill32(b->konst + SG_BLOCK_CTAIDX, b->id[0]);
    fill32(b->konst + SG_BLOCK_CTAIDY, b->id[1]);
    fill32(b->konst + SG_BLOCK_CTAIDZ, b->id[2]);
    const struct sg_model *m = sg_device_model(run->device);
    fill32(b->konst + SG_BLOCK_SMID, (uint32_t)(linear % (m && m->sms ? m->sms : 1)));
    sg_cluster_block_konst(b);
    memset(b->shared, 0xFF, run->shared_bytes);
    memset(b->local, 0xFF, (size_t)run->nwarp * SG_LANES * run->local_bytes);
    for (unsigned i = 0; i < SG_BARRIERS + SG_GROUPS; i++)
        b->bar[i] = (struct sg_barrier){.all = 1};
    b->alive = run->threads;
    b->next = 0;
    b->live = true;
    b->executed = 0;
    b->waits = b->triggers = false;
    for (uint32_t i = 0; i < b->nwarp; i++) {
        struct sg_warp *w = &b->warp[i];
        uint32_t left = run->threads - i * SG_LANES;
        w->alive = left >= SG_LANES ? SG_ALL : (1u << left) - 1;
        for (uint32_t k = 0; k < c->nclear; k++)
            memset(w->base[0] + c->clear[k].at, 0, c->clear[k].bytes);
        for (unsigned l = 0; c->fp && l < SG_LANES; l++)
            SG_P(uint64_t, c->fp)[l] = c->local_bytes;
        sg_calls_reset(w);
        w->frag[0] = (struct sg_frag){.op = c->op, .mask = w->alive, .state = SG_F_RUN};
        w->nfrag = 1;
        w->issued = 0;
        w->waited = false;
        w->ready = 1;
        w->tick = w->stick = w->cc = 0;
        w->arrived = w->passed = 0;
        w->spin = false;
        w->stop = SG_GO;
    }
}

/* Memory for the blocks of a cluster, block by block as needed. */
static int cluster_init(struct sg_worker *wk, struct sg_cluster *cl)
{
    const struct sg_run *run = wk->run;
    if (block_bytes(run) * run->cluster_size > MAX_MEMORY ||
        !(cl->block = dt_calloc(run->cluster_size, sizeof *cl->block)))
        return DT_E_NOMEM;
    cl->size = run->cluster_size;
    for (uint32_t i = 0; i < cl->size; i++) {
        cl->block[i].cl = cl;
        cl->block[i].rank = i;
        int r = block_init(wk, &cl->block[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static void cluster_start(const struct sg_run *run, struct sg_cluster *cl, uint64_t place, uint64_t linear)
{
    for (uint32_t i = 0; i < cl->size; i++)
        block_start(&cl->block[i], cl->size == 1 ? linear : sg_cluster_block(run, linear, i));
    cl->place = place;
    cl->live = cl->size;
    cl->alive = cl->size * run->threads;
    cl->arrived = cl->next = cl->passes = cl->phase = 0;
    cl->index = linear;
    cl->relaxed = false;
}

static void deadlock(struct sg_block *b)
{
    for (uint32_t i = 0; i < b->nwarp; i++)
        for (uint32_t k = 0; k < b->warp[i].nfrag; k++) {
            const struct sg_frag *f = &b->warp[i].frag[k];
            unsigned lane = (unsigned)__builtin_ctz(f->mask);
            if (f->state == SG_F_BAR) {
                const struct sg_barrier *bar = &b->bar[f->bar];
                if (f->bar >= SG_BARRIERS) {
                    sg_fault_at(&b->warp[i], f->op - 1, DT_E_DEADLOCK, lane, 0, 0,
                                "waits for ever for its warpgroup, of which %u of 128 threads are here", bar->arrived);
                    return;
                }
                sg_fault_at(&b->warp[i], f->op - 1, DT_E_DEADLOCK, lane, 0, 0,
                            "waits for ever at barrier %u, where %u of %u threads are", f->bar, bar->arrived,
                            bar->expected ? bar->expected : b->alive);
            } else if (f->state == SG_F_CLUSTER) {
                sg_fault_at(&b->warp[i], f->op - 1, DT_E_DEADLOCK, lane, 0, 0,
                            "waits for ever at the cluster's barrier, where %u of %u threads are", b->cl->arrived,
                            b->cl->alive);
            } else {
                sg_fault_at(&b->warp[i], f->op, DT_E_DEADLOCK, lane, 0, 0,
                            "waits for ever for lanes of its member mask (lanes 0x%x are here)", f->mask);
            }
            return;
        }
}

/* One helping of fuel for each warp that can run. SG_YIELD, SG_DONE, SG_FAULT, or SG_BLOCKED: none can. */
static enum sg_stop block_turn(struct sg_block *b, int64_t fuel)
{
    bool ran = false;
    struct sg_worker *wk = b->wk;
    uint64_t seed = wk->run->l->seed, r = 0;
    if (seed) {
        r = dt_splitmix64(seed, wk->rng++);
        b->next = (uint32_t)(r >> 32) % b->nwarp; /* another warp first, and each for another while */
    }
    for (uint32_t i = 0; i < b->nwarp; i++) {
        struct sg_warp *w = &b->warp[b->next];
        b->next = b->next + 1 == b->nwarp ? 0 : b->next + 1;
        if (!w->ready)
            continue;
        ran = true;
        w->fuel = seed ? 1 + fuel * (int64_t)(dt_splitmix64(r, i) % 256) / 128 : fuel;
        const struct sg_op *op = sg_pick(w);
        while (op)
            op = op->fn(w, op);
        if (w->stop == SG_FAULT || wk->fault)
            return SG_FAULT;
    }
    if (!b->alive)
        return SG_DONE;
    return ran ? SG_YIELD : SG_BLOCKED;
}

static void block_done(struct sg_worker *wk, struct sg_block *b)
{
    uint64_t longest = 0;
    struct sg_beside *beside = wk->run->l->beside;
    b->live = false;
    b->cl->live--;
    if (beside && !b->triggers)
        beside->let_go++;
    sg_record_block(b);
    if (b->executed > wk->heaviest)
        wk->heaviest = b->executed;
    unsigned weight = 63u - (unsigned)__builtin_clzll(b->executed | 1);
    wk->weight[0][weight]++;
    wk->weight[1][weight] += b->executed;
    for (uint32_t i = 0; i < b->nwarp; i++)
        if (b->warp[i].issued > longest)
            longest = b->warp[i].issued;
    if (wk->talk)
        sg_talk_block_end(wk, longest);
    wk->longest += longest;
    wk->before_wait += b->waits ? b->waited : longest;
    wk->before_trigger += b->triggers ? b->triggered : longest;
}

/* A turn of each block. SG_YIELD, SG_DONE (all blocks are) or SG_FAULT. */
static enum sg_stop cluster_turn(struct sg_worker *wk, struct sg_cluster *cl, int64_t fuel)
{
    bool ran = false;
    for (uint32_t i = 0; i < cl->size; i++) {
        struct sg_block *b = &cl->block[(cl->next + i) % cl->size];
        if (!b->live)
            continue;
        uint64_t before = wk->executed;
        enum sg_stop stop = block_turn(b, fuel);
        b->executed += wk->executed - before;
        ran |= stop != SG_BLOCKED;
        if (stop == SG_FAULT)
            return stop;
        if (stop == SG_DONE)
            block_done(wk, b);
    }
    if (!cl->live)
        return SG_DONE;
    for (uint32_t i = 0; i < cl->size && !ran; i++)
        if (cl->block[i].live) {
            deadlock(&cl->block[i]);
            return SG_FAULT;
        }
    return SG_YIELD;
}

/* ---- order of blocks
 * ---------------------------------------------------------------------------------------------------- A permutation of
 * [0, n): a 4-round Feistel network over the next even power of two, walked until it lands inside. */
static uint64_t permute(uint64_t i, uint64_t n, uint64_t seed)
{
    unsigned half = 1;
    while (half < 32 && 1ull << (2 * half) < n)
        half++;
    uint64_t mask = (1ull << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (unsigned r = 0; r < 4; r++) {
            uint64_t t = left ^ (dt_splitmix64(seed ^ right << 8, r) & mask);
            left = right;
            right = t;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

static bool next_cluster(struct sg_worker *wk, uint64_t *ret_place, uint64_t *ret_linear)
{
    struct sg_run *run = wk->run;
    if (__atomic_load_n(&run->stop, __ATOMIC_RELAXED))
        return false;
    if (wk->place == wk->place_end) {
        /* several at once, so that threads with short blocks do not fight for the counter; towards the end one by
         * one */
        uint64_t left = run->nclusters - __atomic_load_n(&run->next, __ATOMIC_RELAXED), n = left / (16 * run->nworker);
        n = run->nworker == 1 || left > run->nclusters || !n ? 1 : n > 16 ? 16 : n;
        wk->place = __atomic_fetch_add(&run->next, n, __ATOMIC_RELAXED);
        wk->place_end = wk->place + n;
    }
    uint64_t i = wk->place;
    if (i >= run->nclusters || i > __atomic_load_n(&run->fault_cluster, __ATOMIC_RELAXED))
        return false;
    wk->place++;
    *ret_place = i;
    i = run->l->seed ? permute(i, run->nclusters, run->l->seed) : i;
    *ret_linear = run->l->some.block ? run->l->some.block[i] : i;
    return true;
}

/* Between two turns: the cancel flag and the instruction limit. False: stop. */
static bool go_on(struct sg_worker *wk)
{
    struct sg_run *run = wk->run;
    if (run->l->max_instructions) {
        uint64_t sum = __atomic_add_fetch(&run->executed, wk->executed - wk->flushed, __ATOMIC_RELAXED);
        wk->flushed = wk->executed;
        if (sum > run->l->max_instructions)
            __atomic_store_n(&run->stop, 1, __ATOMIC_RELAXED);
    }
    if (run->l->cancel && __atomic_load_n(run->l->cancel, __ATOMIC_RELAXED))
        __atomic_store_n(&run->stop, 2, __ATOMIC_RELAXED);
    return !__atomic_load_n(&run->stop, __ATOMIC_RELAXED);
}

static void record_fault(struct sg_run *run, struct sg_worker *wk, uint64_t place)
{
    wk->fault_place = place;
    uint64_t old = __atomic_load_n(&run->fault_cluster, __ATOMIC_RELAXED);
    while (place < old &&
           !__atomic_compare_exchange_n(&run->fault_cluster, &old, place, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void start_helpers(struct sg_run *run);

/* Run clusters until there are none left, or a stop, or a fault in one of ours. */
static void work(struct sg_worker *wk)
{
    struct sg_run *run = wk->run;
    struct sg_beside *beside = run->l->beside;
    uint32_t target = beside ? MAX_BESIDE : run->l->seed ? RESIDENT : 1, live = 0, turn = 0, idle = 0;
    while (target > RESIDENT && target * block_bytes(run) * run->cluster_size > MAX_MEMORY)
        target--;
    fenv_t env;
    feholdexcept(&env);
    fesetround(FE_TONEAREST);
    bool more = true;
    struct timespec t0;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    while (!wk->fault && go_on(wk)) {
        if (wk == run->first && !run->helping) {
            struct timespec t1;
            clock_gettime(CLOCK_MONOTONIC, &t1);
            if ((double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec) > HELP_AFTER)
                start_helpers(run);
        }
        for (uint32_t i = 0; more && live < target && i < target; i++) {
            struct sg_cluster *cl = &wk->cluster[i];
            if (cl->live)
                continue;
            uint64_t place, linear;
            more = next_cluster(wk, &place, &linear);
            if (!more)
                break;
            if (i >= wk->ncluster) {
                int r = cluster_init(wk, cl);
                wk->ncluster = i + 1;
                if (r < 0) {
                    __atomic_store_n(&run->stop, 3, __ATOMIC_RELAXED);
                    goto out;
                }
            }
            cluster_start(run, cl, place, linear);
            if (wk->talk)
                sg_talk_block_start(wk, !live);
            for (uint32_t k = 0; wk->check && k < cl->size; k++)
                if (sg_check_block_start(&cl->block[k]) < 0) {
                    __atomic_store_n(&run->stop, 3, __ATOMIC_RELAXED);
                    goto out;
                }
            live++;
        }
        if (!live)
            break;
        struct sg_cluster *cl;
        int64_t fuel = FUEL;
        if (run->l->seed) {
            uint64_t r = dt_splitmix64(run->l->seed, wk->rng++);
            fuel = 20 + (int64_t)(r >> 32) % 2000;
            turn = (uint32_t)r;
        }
        do
            cl = &wk->cluster[turn++ % wk->ncluster];
        while (!cl->live);
        /* rather one that has not begun: all must, before others may */
        for (uint32_t k = 0; beside && cl->passes && turn % 4 && k < wk->ncluster; k++)
            if (wk->cluster[k].live && !wk->cluster[k].passes)
                cl = &wk->cluster[k];
        cl->next = run->l->seed ? turn % cl->size : 0;
        wk->held = false;
        enum sg_stop stop = cluster_turn(wk, cl, fuel);
        if (stop == SG_FAULT) {
            record_fault(run, wk, cl->place);
            break;
        }
        for (uint32_t k = 0; wk->check && stop == SG_DONE && k < cl->size; k++)
            sg_check_block_end(&cl->block[k]);
        if (stop == SG_DONE)
            live--;
        cl->passes += stop != SG_DONE;
        if (beside) {
            idle = wk->held && stop != SG_DONE ? idle + 1 : 0;
            beside->stuck = idle > 4 * live;
            if (!beside->turn(beside->user)) {
                beside->stopped = true;
                __atomic_store_n(&run->stop, 2, __ATOMIC_RELAXED);
            }
        }
        if (stop != SG_DONE && cl->passes % SPINNING == 0 && live == target && target < MAX_RESIDENT &&
            run->code->ordered && (target + 1) * block_bytes(run) * cl->size < MAX_MEMORY)
            target++;
    }
out:
    fesetenv(&env);
}

static void *work_thread(void *p)
{
    work(p);
    return NULL;
}

static int worker_init(struct sg_run *run, struct sg_worker *wk, bool track)
{
    static const struct sg_range nothing; /* of no bytes */
    bool race = run->l->checks & SG_CHECK_BLOCKS;
    track = track && !run->l->record;
    *wk = (struct sg_worker){.run = run, .track = track || race, .race = race};
    wk->bb = dt_calloc(run->code->nbb + 1, sizeof *wk->bb);
    wk->site = dt_calloc(run->code->nsite + 1, sizeof *wk->site);
    wk->cluster = dt_calloc(run->l->beside ? MAX_BESIDE : MAX_RESIDENT, sizeof *wk->cluster);
    if (!wk->bb || !wk->site || !wk->cluster)
        return DT_E_NOMEM;
    for (uint32_t i = 0; i <= run->code->nsite; i++)
        wk->site[i] = &nothing;
    int r = track ? sg_track_init(wk) : 0;
    if (r == 0 && track)
        r = sg_talk_start(wk);
    if (r == 0)
        r = sg_record_start(wk);
    return r == 0 && run->l->checks & SG_CHECK_ALL ? sg_check_start(run, wk) : r;
}

static void worker_done(struct sg_worker *wk)
{
    for (uint32_t i = 0; wk->cluster && i < wk->ncluster; i++) {
        for (uint32_t k = 0; wk->cluster[i].block && k < wk->cluster[i].size; k++) {
            sg_check_block_free(&wk->cluster[i].block[k]);
            sg_record_free(&wk->cluster[i].block[k]);
            for (uint32_t n = 0; wk->cluster[i].block[k].memory && n < wk->cluster[i].block[k].nwarp; n++)
                sg_calls_free(&wk->cluster[i].block[k].warp[n]);
            if (wk->cluster[i].block[k].memory)
                sg_spare_put(wk->run->device, wk->cluster[i].block[k].memory, wk->cluster[i].block[k].bytes);
        }
        free(wk->cluster[i].block);
    }
    free(wk->cluster);
    sg_check_end(wk);
    sg_record_end(wk);
    sg_talk_free(wk);
    free(wk->bb);
    free(wk->site);
    sg_track_done(wk);
}

static void start_helpers(struct sg_run *run)
{
    run->helping = true;
    uint64_t left = run->nclusters - __atomic_load_n(&run->next, __ATOMIC_RELAXED);
    if (__atomic_load_n(&run->next, __ATOMIC_RELAXED) >= run->nclusters)
        return;
    for (uint32_t i = 1; i < run->nworker && left-- > 0; i++)
        if (worker_init(run, &run->first[i], run->first->map != NULL) == 0) {
            run->first[i].rng = (uint64_t)i << 32;
            if (pthread_create(&run->first[i].thread, NULL, work_thread, &run->first[i]) == 0)
                run->first[i].started = true;
        }
}

static uint32_t thread_count(void)
{
    const char *s = getenv("DOVETAIL_SOFTGPU_THREADS");
    long n = s && *s ? strtol(s, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (uint32_t)n;
}

/* ---- one launch -------------------------------------------------------------------------------------------------- */
static void fill_konst(struct sg_run *run)
{
    const struct sg_code *c = run->code;
    const struct sg_launch *l = run->l;
    uint8_t *k = run->konst;
    memcpy(k, c->konst, c->konst_bytes);
    for (unsigned i = 0; i < 3; i++) {
        fill32(k + SG_K_NTID + i * 128, l->block[i]);
        fill32(k + SG_K_NCTAID + i * 128, l->grid[i]);
    }
    fill32(k + SG_K_NWARPID, run->nwarp);
    sg_cluster_konst(run, k);
    const struct sg_model *m = sg_device_model(run->device);
    fill32(k + SG_K_NSMID, m ? m->sms : 1);
    fill32(k + SG_K_DYNSMEM, l->shared_dynamic);
    fill32(k + SG_K_TOTSMEM, run->shared_bytes);
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

static void collect(struct sg_run *run, struct sg_stats *s)
{
    *s = (struct sg_stats){0};
    uint64_t heaviest = 0;
    for (uint32_t i = 0; i < run->nworker; i++) {
        const struct sg_worker *wk = &run->first[i];
        if (!wk->bb)
            continue;
        for (uint32_t b = 0; b < run->code->nbb; b++)
            sg_count_bb(s, &run->code->bb[b], wk->bb[b]);
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
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            *all[i] =
                run->nclusters ? (uint64_t)((double)*all[i] / (double)run->nclusters * (double)run->nblocks + 0.5) : 0;
        s->unique_read_bytes = run->l->some.unique_read_bytes;
        s->unique_write_bytes = run->l->some.unique_write_bytes;
    }
    s->max_block_share = s->instructions ? (double)heaviest * (double)run->nblocks / (double)s->instructions : 1;
    s->talk = sg_talk_finish(run->first, s);
}

static int check(const struct sg_device *d, const struct sg_launch *l, const struct sg_code *c, struct sg_fault *fault,
                 struct sg_run *run)
{
    if (c->error)
        return refuse(l, fault, c->error, c->error_line, "%s", c->error_text);
    uint64_t threads = (uint64_t)l->block[0] * l->block[1], blocks = (uint64_t)l->grid[0] * l->grid[1];
    if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !l->block[0] || !l->block[1] || !l->block[2])
        return refuse(l, fault, DT_E_LAUNCH, 0, "a grid or block dimension is 0");
    if (l->grid[0] > INT32_MAX || l->grid[1] > 65535 || l->grid[2] > 65535)
        return refuse(l, fault, DT_E_LAUNCH, 0, "grid (%u,%u,%u) is too large", l->grid[0], l->grid[1], l->grid[2]);
    if (l->block[2] > 64 || threads > 1024 || threads * l->block[2] > l->kernel->info.max_threads)
        return refuse(l, fault, DT_E_LAUNCH, 0, "block (%u,%u,%u) is over the kernel's limit of %u threads",
                      l->block[0], l->block[1], l->block[2], l->kernel->info.max_threads);
    const struct sg_model *m = sg_device_model(d);
    uint32_t limit = m && m->shared_block_optin ? m->shared_block_optin : 227 << 10;
    if (c->shared_static > limit || l->shared_dynamic > limit - c->shared_static)
        return refuse(l, fault, DT_E_LAUNCH, 0, "%u + %u bytes of shared memory are over the device's %u",
                      c->shared_static, l->shared_dynamic, limit);
    const char *misfit = sg_cluster_shape(l, run->cluster, &run->explicit_cluster);
    if (misfit)
        return refuse(l, fault, DT_E_LAUNCH, 0, "%s", misfit);
    if (c->param_total && !l->params)
        return refuse(l, fault, DT_E_ARGS, 0, "no parameters given");
    run->nblocks = blocks * l->grid[2];
    run->cluster_size = run->cluster[0] * run->cluster[1] * run->cluster[2];
    run->nclusters = run->nblocks / run->cluster_size;
    if (l->some.block) {
        if (run->cluster_size != 1)
            return refuse(l, fault, DT_E_UNSUPPORTED, 0, "some of the blocks of a launch with clusters");
        for (uint32_t i = 0; i < l->some.n; i++)
            if (l->some.block[i] >= run->nblocks || (i && l->some.block[i] <= l->some.block[i - 1]))
                return refuse(l, fault, DT_E_LAUNCH, 0,
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
        return refuse(l, fault, DT_E_NOMEM, 0, "memory is out");
    struct sg_run run = {
        .device = d, .l = l, .code = c, .fault_cluster = UINT64_MAX, .recording = PTHREAD_MUTEX_INITIALIZER};
    if (l->record)
        l->record->stray.found = 0;
    int r = check(d, l, c, fault, &run);
    if (r < 0)
        return r;
    if (l->checks && run.nblocks >= INT32_MAX)
        return refuse(l, fault, DT_E_TOO_LARGE, 0, "too many blocks for the race detector");
    run.local_bytes = c->local_bytes + (c->fp ? (l->stack_bytes ? l->stack_bytes : 1024u) & ~15u : 0);
    run.nwarp = (run.threads + SG_LANES - 1) / SG_LANES;
    run.shared_bytes = l->shared_dynamic ? c->shared_dynamic_at + l->shared_dynamic : c->shared_static;

    size_t nalloc;
    if (c->heap && (r = sg_heap_make(d, l->heap_bytes ? l->heap_bytes : 8u << 20)) < 0)
        return refuse(l, fault, r, 0, "no memory for the heap of %llu bytes", (unsigned long long)l->heap_bytes);
    if (c->prefetches && stats && (r = sg_mem_fetch_maps(d)) < 0)
        return refuse(l, fault, r, 0, "memory is out");
    r = sg_mem_pin(d, !(l->checks & SG_CHECK_UNINIT), !l->beside, &run.alloc, &nalloc);
    if (r < 0)
        return refuse(l, fault, r, 0, "memory is out");
    run.nworker = c->ordered || l->checks || l->beside ? 1 : thread_count();
    if (run.nworker > run.nclusters)
        run.nworker = run.nclusters ? (uint32_t)run.nclusters : 1;
    run.helping = run.nworker == 1;
    run.first = dt_calloc(run.nworker, sizeof *run.first);
    run.konst = aligned(c->konst_bytes);
    r = !run.first || !run.konst ? DT_E_NOMEM : make_ranges(&run, run.alloc, nalloc);
    if (r == 0)
        r = worker_init(&run, run.first, stats != NULL);
    if (r == 0) {
        fill_konst(&run);
        work(run.first);
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
            r = refuse(l, fault, DT_E_TIMEOUT, 0, "over the limit of %llu thread-instructions",
                       (unsigned long long)l->max_instructions);
        } else if (run.stop == 2) {
            r = refuse(l, fault, DT_E_TIMEOUT, 0, "the launch was cancelled");
        } else if (run.stop) {
            r = DT_E_NOMEM;
        }
        if (stats)
            collect(&run, stats);
    }
    if (r == DT_E_NOMEM)
        refuse(l, fault, r, 0, "memory is out");
    for (uint32_t i = 0; run.first && i < run.nworker; i++)
        worker_done(&run.first[i]);
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
