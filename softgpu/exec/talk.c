/* Blocks of one launch that wait for each other: who waited for whom, for the timing model.
 *
 * A wait is a load (or atomic) with .acquire at gpu or sys scope that finds what other blocks released there (.release
 * stores and atomics of the same scopes). A kernel with both is run block after block. So if a block draws its number
 * from a counter and waits only for lower numbers, it never spins: one poll finds all. What the poll found is recorded
 * as "the first n signals of this flag". If two blocks were resident at once, a block had to spin, and the order in
 * which blocks started is no order of waiting: then nothing is recorded, and the blocks of the launch count as alike.
 *
 *     depth of a block   0 where it waits for nobody, else one more than the deepest that it waits for
 *     part               blocks that start one after the other and are of one depth: counters of its own
 *
 * The result is a record (struct sg_talk; model/talk.c). Not followed: flags that are set by fences and relaxed
 * accesses.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { MAX_PARTS = 64, MAX_BLOCKS = 1 << 16 };

struct signal {
    uint32_t block, depth; /* of the deepest so far */
};

struct flag {
    uint64_t addr;
    struct dt_vec(struct signal) signal;
};

struct one { /* a block */
    struct sg_stats stats;
    uint32_t depth, wait_at;
};

struct sg_talker {
    bool lost;
    struct dt_vec(struct one) block;
    struct dt_vec(struct sg_talk_wait) wait;
    struct dt_vec(struct flag) flag;
    uint32_t *slot, nslot; /* addresses hashed: flag + 1 */
    struct sg_times *bb;   /* counters when the block began */
    uint64_t executed, sectors[2], fetched;
};

int sg_talk_start(struct sg_worker *wk)
{
    const struct sg_run *run = wk->run;
    if (!run->code->talks || run->l->seed || run->l->some.block || run->l->record || run->cluster_size != 1 ||
        run->nclusters > MAX_BLOCKS)
        return 0;
    struct sg_talker *t = wk->talk = dt_calloc(1, sizeof *t);
    if (!t || !(t->bb = dt_calloc(run->code->nbb + 1, sizeof *t->bb)))
        return DT_E_NOMEM;
    return 0;
}

void sg_talk_free(struct sg_worker *wk)
{
    struct sg_talker *t = wk->talk;
    for (size_t k = 0; t && k < t->flag.n; k++)
        free(t->flag.p[k].signal.p);
    if (t) {
        free(t->block.p);
        free(t->wait.p);
        free(t->flag.p);
        free(t->slot);
        free(t->bb);
    }
    free(t);
    wk->talk = NULL;
}

void sg_talk_block_start(struct sg_worker *wk, bool alone)
{
    struct sg_talker *t = wk->talk;
    if (!alone || t->lost || !dt_push(&t->block, (struct one){.wait_at = (uint32_t)t->wait.n})) {
        t->lost = true;
        return;
    }
    memcpy(t->bb, wk->bb, wk->run->code->nbb * sizeof *t->bb);
    t->executed = wk->executed;
    t->sectors[0] = wk->sectors[0], t->sectors[1] = wk->sectors[1];
    t->fetched = wk->fetched;
}

void sg_talk_block_end(struct sg_worker *wk, uint64_t longest)
{
    struct sg_talker *t = wk->talk;
    if (t->lost)
        return;
    struct sg_stats *s = &t->block.p[t->block.n - 1].stats;
    for (uint32_t k = 0; k < wk->run->code->nbb; k++)
        sg_count_bb(s, &wk->run->code->bb[k], wk->bb[k].lanes - t->bb[k].lanes);
    s->instructions = wk->executed - t->executed;
    s->global_read_bytes = (wk->sectors[0] - t->sectors[0]) * 32;
    s->global_write_bytes = (wk->sectors[1] - t->sectors[1]) * 32;
    s->prefetched_bytes = (wk->fetched - t->fetched) * 32;
    s->longest = s->before_wait = s->before_trigger = longest;
}

/* The flag at addr, made if it is not there; NULL: memory. */
static struct flag *flag_at(struct sg_talker *t, uint64_t addr)
{
    if (t->flag.n * 2 >= t->nslot) {
        uint32_t n = t->nslot ? t->nslot * 2 : 64, *slot = dt_calloc(n, sizeof *slot);
        if (!slot)
            return NULL;
        for (uint32_t k = 0; k < t->flag.n; k++) {
            uint32_t h = (uint32_t)((t->flag.p[k].addr * 0x9E3779B97F4A7C15u) >> 32);
            while (slot[h & (n - 1)])
                h++;
            slot[h & (n - 1)] = k + 1;
        }
        free(t->slot);
        t->slot = slot;
        t->nslot = n;
    }
    uint32_t h = (uint32_t)((addr * 0x9E3779B97F4A7C15u) >> 32);
    for (; t->slot[h & (t->nslot - 1)]; h++)
        if (t->flag.p[t->slot[h & (t->nslot - 1)] - 1].addr == addr)
            return &t->flag.p[t->slot[h & (t->nslot - 1)] - 1];
    if (!dt_push(&t->flag, (struct flag){.addr = addr}))
        return NULL;
    t->slot[h & (t->nslot - 1)] = (uint32_t)t->flag.n;
    return &t->flag.p[t->flag.n - 1];
}

/* The block at hand waits for what is there. */
static bool wait_for(struct sg_talker *t, const struct flag *f)
{
    uint32_t me = (uint32_t)t->block.n - 1, flag = (uint32_t)(f - t->flag.p), n = (uint32_t)f->signal.n;
    struct one *b = &t->block.p[me];
    if (n && f->signal.p[n - 1].block == me)
        n--; /* its own */
    if (!n)
        return true;
    if (b->depth <= f->signal.p[n - 1].depth)
        b->depth = f->signal.p[n - 1].depth + 1;
    for (size_t k = b->wait_at; k < t->wait.n; k++)
        if (t->wait.p[k].flag == flag) {
            t->wait.p[k].count = n;
            return true;
        }
    return dt_push(&t->wait, (struct sg_talk_wait){flag, n});
}

static bool talk_signal(struct sg_talker *t, struct flag *f)
{
    uint32_t me = (uint32_t)t->block.n - 1, depth = t->block.p[me].depth;
    const struct signal *last = f->signal.n ? &f->signal.p[f->signal.n - 1] : NULL;
    if (last && last->block == me)
        return true;
    if (last && last->depth > depth)
        depth = last->depth;
    return dt_push(&f->signal, (struct signal){me, depth}); /* which may move `last` */
}

void sg_talk_access(struct sg_warp *w, unsigned sem, const uint64_t *addr, uint32_t mask, enum sg_access how)
{
    struct sg_talker *t = w->wk->talk;
    for (uint32_t m = t->lost ? 0 : mask; m; m &= m - 1) {
        struct flag *f = flag_at(t, addr[__builtin_ctz(m)]);
        if (!f || (how != SG_WRITE && sem & SG_SEM_ACQUIRE && !wait_for(t, f)) ||
            (how != SG_READ && sem & SG_SEM_RELEASE && !talk_signal(t, f)))
            t->lost = true;
    }
}

/* ---- from the run to the record ---------------------------------------------------------------------------------- */
static void talk_sum(struct sg_stats *to, const struct sg_stats *x)
{
    to->instructions += x->instructions, to->fp32 += x->fp32, to->fp64 += x->fp64, to->integer += x->integer,
        to->sfu += x->sfu;
    to->memory += x->memory, to->barriers += x->barriers, to->tensor_flops += x->tensor_flops,
        to->shared_bytes += x->shared_bytes;
    to->global_read_bytes += x->global_read_bytes, to->global_write_bytes += x->global_write_bytes;
    to->prefetched_bytes += x->prefetched_bytes, to->longest += x->longest;
    to->before_wait += x->before_wait, to->before_trigger += x->before_trigger;
}

static uint64_t part_of(uint64_t all, uint64_t mine, uint64_t of)
{
    return of ? (uint64_t)((double)all * (double)mine / (double)of + 0.5) : 0;
}

/* Distinct bytes are known of the whole launch: in proportion to what the part's warps touch. */
static void finish_part(struct sg_talk_part *p, const struct sg_stats *all, const struct one *b, double *share)
{
    double mean = (double)p->stats.instructions / p->blocks;
    p->stats.unique_read_bytes = part_of(all->unique_read_bytes, p->stats.global_read_bytes, all->global_read_bytes);
    p->stats.unique_write_bytes =
        part_of(all->unique_write_bytes, p->stats.global_write_bytes, all->global_write_bytes);
    p->stats.max_block_share = 1;
    for (uint32_t k = p->first; k < p->first + p->blocks; k++) {
        share[k] = mean > 0 ? (double)b[k].stats.instructions / mean : 1;
        if (share[k] > p->stats.max_block_share)
            p->stats.max_block_share = share[k];
    }
}

uint32_t sg_talk_finish(const struct sg_worker *wk, const struct sg_stats *all)
{
    const struct sg_talker *t = wk->talk;
    if (!t || t->lost || !t->wait.n || t->block.n != wk->run->nclusters)
        return 0;
    uint32_t n = (uint32_t)t->block.n, nflag = (uint32_t)t->flag.n, nsignal = 0, id = 0;
    for (uint32_t k = 0; k < nflag; k++)
        nsignal += (uint32_t)t->flag.p[k].signal.n;
    struct sg_talk_part *part = dt_calloc(MAX_PARTS, sizeof *part);
    double *share = dt_calloc(n, sizeof *share);
    uint32_t *wait_at = dt_calloc(n + 1, sizeof *wait_at), *signal_at = dt_calloc(nflag + 1, sizeof *signal_at);
    uint32_t *who = dt_calloc(nsignal + 1, sizeof *who), npart = 0;
    bool ok = part && share && wait_at && signal_at && who;
    for (uint32_t k = 0; k < n && ok; k++) {
        if (!k || t->block.p[k].depth != t->block.p[k - 1].depth) {
            if (!(ok = npart < MAX_PARTS))
                break;
            part[npart++].first = k;
        }
        part[npart - 1].blocks++;
        talk_sum(&part[npart - 1].stats, &t->block.p[k].stats);
        wait_at[k] = t->block.p[k].wait_at;
    }
    for (uint32_t k = 0; k < npart && ok; k++)
        finish_part(&part[k], all, t->block.p, share);
    for (uint32_t k = 0, at = 0; k < nflag && ok; k++) {
        for (size_t i = 0; i < t->flag.p[k].signal.n; i++)
            who[at++] = t->flag.p[k].signal.p[i].block;
        signal_at[k + 1] = at;
    }
    if (ok) {
        wait_at[n] = (uint32_t)t->wait.n;
        id = sg_talk_keep(&(struct sg_talk){.nblock = n,
                                            .npart = npart,
                                            .nflag = nflag,
                                            .part = part,
                                            .share = share,
                                            .wait_at = wait_at,
                                            .wait = t->wait.p,
                                            .signal_at = signal_at,
                                            .signal = who});
    }
    free(part);
    free(share);
    free(wait_at);
    free(signal_at);
    free(who);
    return id;
}
