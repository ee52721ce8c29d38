/* Races between blocks (SG_CHECK_BLOCKS; check/check.h has the other modes). A shadow of global memory holds the last
 * writing block and the reading block, or "several". It has an entry for every word, or for every byte where less than
 * a word is touched. A block that writes what another block read or wrote, or reads what another block wrote, is a
 * race, unless both accesses are atomics.
 *
 * The only order between blocks that it knows is that of a cluster's barriers: fences and flags do not excuse a race.
 * An access is recorded with the number of barriers of its cluster that are over (`phase`). It comes before barrier
 * phase + 1, or before barrier phase + 2 if its thread has arrived at phase + 1 already. It comes behind barrier
 * `phase`, or behind barrier phase - 1 if its thread has not waited yet.
 *
 * Most accesses are of whole words that no other block has touched: those are taken a warp's access at a time.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdio.h>
#include <sys/mman.h>

#define SHADOW_MANY UINT32_MAX
#define SHADOW_CLUSTER (UINT32_C(1) << 31)

static bool same_cluster(const struct sg_cluster *cl, uint32_t who)
{
    return cl->size > 1 && who != SHADOW_MANY && ((who & ~SHADOW_CLUSTER) - 1) / cl->size == cl->index;
}

/* Did the access, before barrier phase + 1 of the cluster, happen before what comes behind barrier `behind`? */
static bool ordered(const struct sg_cluster *cl, uint32_t who, uint8_t phase, uint32_t behind)
{
    return same_cluster(cl, who) && phase < behind && phase < UINT8_MAX;
}

static uint8_t at_most(uint32_t phase) { return phase < UINT8_MAX ? (uint8_t)phase : UINT8_MAX; }

static uint32_t block_number(const struct sg_warp *w, uint32_t who)
{
    uint32_t size = w->blk->cl->size;
    return size == 1 ? who - 1 : (uint32_t)sg_cluster_block(w->wk->run, (who - 1) / size, (who - 1) % size);
}

struct touch { /* an access, as the shadow takes it */
    struct sg_warp *w;
    const struct sg_op *op;
    enum sg_access how;
    unsigned lane;
    uint32_t me, behind, before; /* block number + 1; barrier phases of the cluster */
    uint64_t lo, bytes;
};

/* A race that is found ends the launch: the fault is set, and the warp stops at its next basic block
 * (sg_out_of_fuel). */
static bool raced(const struct touch *t, const struct sg_shadow *s, uint64_t at, uint32_t other)
{
    char who[32] = "several blocks";
    if (!(other & SHADOW_CLUSTER))
        snprintf(who, sizeof who, "block %u", block_number(t->w, other));
    sg_fault_at(t->w, t->op, DT_E_RACE, t->lane, at, (uint32_t)t->bytes,
                "the byte at 0x%llx is also %s by %s, in no order", (unsigned long long)at,
                s->writer && s->writer != t->me ? "written" : "read", who);
    t->w->fuel = 0;
    return true;
}

/* What is at `at`, a byte or a word, is touched; does that race with what was there before? */
static inline bool access_touch(const struct touch *t, struct sg_shadow *s, uint64_t at)
{
    const struct sg_cluster *cl = t->w->blk->cl;
    bool read_before = s->reader && ordered(cl, s->reader, s->rphase, t->behind);
    if (s->writer && s->writer != t->me && !ordered(cl, s->writer, s->wphase, t->behind) &&
        !(t->how == SG_ATOMIC && s->atomic))
        return raced(t, s, at, s->writer);
    if (t->how != SG_READ && s->reader && s->reader != t->me && !read_before)
        return raced(t, s, at, s->reader);
    if (t->how == SG_READ) {
        bool mine = s->reader == t->me, first = !s->reader || read_before;
        s->rphase = first || t->before > s->rphase ? at_most(t->before) : s->rphase;
        s->reader = mine || first ? t->me : same_cluster(cl, s->reader) ? SHADOW_CLUSTER | t->me : SHADOW_MANY;
    } else {
        /* atomics of several blocks: whoever touches the place otherwise has to come after all of them */
        bool more = t->how == SG_ATOMIC && s->writer && s->writer != t->me &&
                    !ordered(cl, s->writer, s->wphase, t->behind),
             mates = more && same_cluster(cl, s->writer);
        s->atomic = t->how == SG_ATOMIC && (!s->writer || s->atomic);
        s->wphase = mates && s->wphase > t->before ? s->wphase : at_most(t->before);
        s->writer = mates ? SHADOW_CLUSTER | t->me : more ? SHADOW_MANY : t->me;
    }
    return false;
}

/* Of the shadow of every byte. */
static uint64_t shadow_bytes(const struct sg_range *r) { return (r->end - r->base + 3) / 4 * 4 * sizeof *r->bytes; }

void sg_shadow_done(struct sg_range *r)
{
    if (r->shadow)
        munmap(r->shadow, shadow_bytes(r) / 4);
    if (r->bytes)
        munmap(r->bytes, shadow_bytes(r));
}

/* Made where it is needed first: few allocations of a device are touched by a launch, fewer in parts of words. */
static bool there(struct sg_warp *w, struct sg_shadow **s, uint64_t bytes)
{
    if (!*s && !(*s = sg_pages(bytes)))
        __atomic_store_n(&w->wk->run->stop, 3, __ATOMIC_RELAXED); /* memory is out */
    return *s;
}

/* Most accesses: whole words are read, nobody but this block has written them, and blocks are in no clusters. False:
 * the words have to be looked at one by one. */
static inline bool only_read(struct sg_range *r, uint32_t me, uint64_t at, uint64_t end)
{
    struct sg_shadow *s = &r->shadow[at / 4], *last = &r->shadow[end / 4];
    for (; s < last && !s->split && (!s->writer || s->writer == me); s++)
        s->reader = !s->reader || s->reader == me ? me : SHADOW_MANY;
    return s == last;
}

/* The same of words that are written, which nobody else has read either. Atomics are not. */
static inline bool only_written(struct sg_range *r, uint32_t me, uint64_t at, uint64_t end, uint8_t phase)
{
    struct sg_shadow *s = &r->shadow[at / 4], *last = &r->shadow[end / 4];
    for (; s < last && !s->split && (!s->writer || s->writer == me) && (!s->reader || s->reader == me); s++) {
        s->writer = me;
        s->atomic = 0;
        s->wphase = phase;
    }
    return s == last;
}

/* Where it fails, what it has done is done again by who looks word by word, and comes to the same. */
static inline bool shadow_quick(struct sg_warp *w, struct sg_range *r, uint64_t from, uint64_t bytes,
                                enum sg_access how)
{
    const struct sg_cluster *cl = w->blk->cl;
    uint32_t me = (uint32_t)cl->index + 1;
    if (cl->size != 1 || (from | bytes) & 3)
        return false;
    if (how == SG_READ)
        return only_read(r, me, from, from + bytes);
    return how == SG_WRITE && !w->arrived && only_written(r, me, from, from + bytes, at_most(cl->phase));
}

bool sg_race_whole(struct sg_warp *w, const struct sg_range *range, uint64_t lo, uint64_t bytes, enum sg_access how)
{
    struct sg_range *r = &w->wk->run->range[range->index];
    return r->read_only || w->wk->fault || !there(w, &r->shadow, shadow_bytes(r) / 4) ||
           shadow_quick(w, r, lo - r->base, bytes, how);
}

void sg_race_lanes(struct sg_warp *w, const struct sg_op *op, const struct sg_range *range, uint64_t base,
                   const uint32_t *at, uint64_t bytes, enum sg_access how)
{
    struct sg_range *r = &w->wk->run->range[range->index];
    uint64_t before = UINT64_MAX;
    if (r->read_only || w->wk->fault || !there(w, &r->shadow, shadow_bytes(r) / 4))
        return;
    for (uint32_t m = w->mask; m && !w->wk->fault; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t lo = base + at[l];
        if (lo == before)
            continue;
        if (shadow_quick(w, r, lo - r->base, bytes, how))
            before = lo;
        else
            sg_race_check(w, op, range, l, lo, bytes, how);
    }
}

/* Words that were only touched whole have one shadow; a part of one gives each of its bytes its own. */
void sg_race_check(struct sg_warp *w, const struct sg_op *op, const struct sg_range *range, unsigned lane, uint64_t lo,
                   uint64_t bytes, enum sg_access how)
{
    struct sg_range *r = &w->wk->run->range[range->index];
    if (r->read_only || w->wk->fault || !there(w, &r->shadow, shadow_bytes(r) / 4))
        return;
    const struct sg_cluster *cl = w->blk->cl;
    uint64_t from = lo - r->base;
    if (shadow_quick(w, r, from, bytes, how))
        return;
    struct touch t = {w,         op,        how, lane, (uint32_t)(cl->index * cl->size + w->blk->rank) + 1,
                      cl->phase, cl->phase, lo,  bytes};
    if (w->arrived >> lane & 1) {
        t.before += !(w->passed >> lane & 1);
        t.behind -= w->passed >> lane & 1 && t.behind;
    }
    for (uint64_t at = lo - r->base, end = at + bytes, next; at < end; at = next) {
        struct sg_shadow *s = &r->shadow[at / 4];
        next = at / 4 * 4 + 4 < end ? at / 4 * 4 + 4 : end;
        if (next - at == 4 && !s->split) {
            if (access_touch(&t, s, r->base + at))
                return;
            continue;
        }
        if (!there(w, &r->bytes, shadow_bytes(r)))
            return;
        for (unsigned k = 0; k < 4 && !s->split; k++)
            r->bytes[at / 4 * 4 + k] = *s;
        s->split = 1;
        for (; at < next; at++)
            if (access_touch(&t, &r->bytes[at], r->base + at))
                return;
    }
}
