/* The CPU threads of a launch: which clusters each of them runs, in which order, and when it stops.
 *
 * Kernels whose blocks cannot talk to each other run on DOVETAIL_SOFTGPU_THREADS threads (default: one per CPU),
 * started only when the launch has lasted HELP_AFTER; the others run on one thread, in block order, so that results are
 * the same in every run. A block that keeps spinning lets later ones in beside it. With a seed, the order of blocks is
 * a permutation and several blocks take turns after random amounts of work; more of them where the launch runs beside
 * others (sg_beside), so that those begin while this one's blocks are at work.
 *
 * The first fault in block order wins: blocks after it are not started, blocks before it run on. Cancellation and the
 * instruction limit are looked at between two turns.
 */
#include "softgpu/exec/profile.h"
#include "softgpu/launch/launch-priv.h"

#include <fenv.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"

/* RESIDENT: clusters */
enum {
    FUEL = 20000,
    MAX_THREADS = 64,
    RESIDENT = 4,
    MAX_RESIDENT = 64,
    MAX_BESIDE = 512,
    SPINNING = 100,
    TOGETHER_FUEL = 1000,
    LOOKS = 32 /* turns between two looks at the clock, where something may be worth compiling */
};
#define HELP_AFTER 100e-6
#define WORTH 1.0 /* seconds of interpreting for which compiled code pays: a region takes 0.1 to 0.5 to compile */

/* ---- order of blocks --------------------------------------------------------------------------------------------- */
/* A permutation of [0, n): a 4-round Feistel network over the next even power of two, walked until it lands inside. */
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

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Is what is left of the launch worth compiled code? It has run `ran` seconds, and what it ran before under this code
 * counts too. */
static void consider(struct sg_worker *wk, double ran)
{
    struct sg_run *run = wk->run;
    if (sg_jit_mode() < SG_JIT_ON || __atomic_load_n(&run->code->jit, __ATOMIC_ACQUIRE))
        return;
    uint64_t begun = __atomic_load_n(&run->next, __ATOMIC_RELAXED),
             left = begun < run->nclusters ? run->nclusters - begun : 0;
    double before = (double)run->code->ran_us * 1e-6;
    double rest = begun ? ran * (double)left / (double)begun : 0;
    if (ran + before > WORTH || rest > WORTH)
        sg_jit_watch((struct sg_code *)(uintptr_t)run->code);
}

/* A cooperative launch whose blocks talk: each may wait for all others, which must have begun. */
static bool run_together(const struct sg_run *run) { return run->l->together && run->code->ordered; }

/* Clusters that a worker has room for. */
static uint32_t most_resident(const struct sg_run *run)
{
    uint64_t all = run_together(run) && run->nclusters > MAX_RESIDENT ? run->nclusters : MAX_RESIDENT;
    return run->l->beside && all < MAX_BESIDE ? MAX_BESIDE : all > UINT32_MAX ? UINT32_MAX : (uint32_t)all;
}

void sg_worker_run(struct sg_worker *wk)
{
    struct sg_run *run = wk->run;
    struct sg_beside *beside = run->l->beside;
    uint32_t target = most_resident(run), live = 0, turn = 0, idle = 0;
    if (!beside && !run_together(run))
        target = run->l->seed ? RESIDENT : 1;
    while (target > RESIDENT && target * sg_block_bytes(run) * run->cluster_size > SG_MAX_RESIDENT_BYTES)
        target--;
    fenv_t env;
    feholdexcept(&env);
    fesetround(FE_TONEAREST);
    bool more = true;
    double begin = seconds();
    bool mine = wk == run->first && !run->l->checks; /* this thread looks whether to compile */
    uint32_t turns = 0;
    if (wk == run->first && !(run->l->checks & SG_CHECK_ALL) && sg_jit_mode() != SG_JIT_OFF &&
        sg_jit_mode() != SG_JIT_ALWAYS)
        sg_template_watch((struct sg_code *)(uintptr_t)run->code);
    if (mine && sg_jit_mode() == SG_JIT_ALWAYS)
        sg_jit_watch((struct sg_code *)(uintptr_t)run->code);
    while (!wk->fault && go_on(wk)) {
        if (mine && ++turns % LOOKS == 0)
            consider(wk, seconds() - begin);
        if (wk == run->first && !run->helping && seconds() - begin > HELP_AFTER)
            start_helpers(run);
        for (uint32_t i = 0; more && live < target && i < target; i++) {
            struct sg_cluster *cl = &wk->cluster[i];
            if (cl->live)
                continue;
            uint64_t place, linear;
            more = next_cluster(wk, &place, &linear);
            if (!more)
                break;
            if (i >= wk->ncluster) {
                int r = sg_cluster_init(wk, cl);
                wk->ncluster = i + 1;
                if (r < 0) {
                    __atomic_store_n(&run->stop, 3, __ATOMIC_RELAXED);
                    goto out;
                }
            }
            sg_cluster_start(run, cl, place, linear);
            if (wk->talk)
                sg_talk_block_start(wk, !live);
            if (sg_profile_wants(run, linear)) {
                double before = seconds();
                for (uint32_t k = 0; k < cl->size; k++)
                    if (sg_profile_block_start(&cl->block[k]) < 0) {
                        __atomic_store_n(&run->stop, 3, __ATOMIC_RELAXED);
                        goto out;
                    }
                begin += seconds() - before;
            }
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
        int64_t fuel = run_together(run) ? TOGETHER_FUEL : FUEL; /* those that wait spend theirs on looking */
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
        double before = cl->block->follow ? seconds() : 0;
        enum sg_stop stop = sg_cluster_turn(wk, cl, fuel);
        if (before > 0) /* to follow a block takes its time: that makes a launch no longer */
            begin += seconds() - before;
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
            run->code->ordered && (target + 1) * sg_block_bytes(run) * cl->size < SG_MAX_RESIDENT_BYTES)
            target++;
    }
out:
    if (mine)
        __atomic_fetch_add(&((struct sg_code *)(uintptr_t)run->code)->ran_us, (uint64_t)((seconds() - begin) * 1e6),
                           __ATOMIC_RELAXED);
    fesetenv(&env);
}

static void *work_thread(void *p)
{
    sg_worker_run(p);
    return NULL;
}

int sg_worker_init(struct sg_run *run, struct sg_worker *wk, bool track)
{
    static const struct sg_range nothing; /* of no bytes */
    bool race = run->l->checks & SG_CHECK_BLOCKS;
    track = track && !run->l->record;
    *wk = (struct sg_worker){.run = run, .track = track || race, .race = race};
    wk->bb = dt_calloc(run->code->nbb + 1, sizeof *wk->bb);
    wk->site = dt_calloc(run->code->nsite + 1, sizeof *wk->site);
    wk->cluster = dt_calloc(most_resident(run), sizeof *wk->cluster);
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

void sg_worker_done(struct sg_worker *wk)
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
    sg_profile_free(wk);
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
        if (sg_worker_init(run, &run->first[i], run->first->map != NULL) == 0) {
            run->first[i].rng = (uint64_t)i << 32;
            if (pthread_create(&run->first[i].thread, NULL, work_thread, &run->first[i]) == 0)
                run->first[i].started = true;
        }
}

uint32_t sg_worker_count(void)
{
    const char *s = getenv("DOVETAIL_SOFTGPU_THREADS");
    long n = s && *s ? strtol(s, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (uint32_t)n;
}
