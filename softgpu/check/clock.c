/* What happened before what: vector clocks of the threads of checked launches.
 *
 * Each thread has a clock. For every thread of its block (and for what copies asynchronously on behalf of that thread)
 * the clock has a stamp: that thread's accesses up to the stamp happened before. Of other blocks it has only what came
 * by release and acquire. Clocks are shared while they are equal; after a barrier they are equal for the whole block.
 *
 *     bar.sync, bar.red     all that arrive, and threads that have exited, before all that wait; bar.arrive only the
 *                           former
 *     bar.warp.sync         among its members. shfl, vote, match, redux and elect order nothing (the manual gives them
 *                           no memory order)
 *     fence, membar         what was known at the fence goes into the location of each strong write after it; what lay
 *                           in the locations of strong reads before it becomes known
 *     .release, .acquire    the same, of the operation itself
 *     atomics               keep what lies in their location (a release sequence); a strong store replaces it
 *     mbarrier              arrivals before waits that are over; complete_tx of a bulk copy: the copied bytes only
 *     cp.async, bulk        done for their own thread at wait_group, for others by a barrier or an mbarrier after it
 *     wgmma                 is one operation of its warpgroup: done, the part of all four warps, for each thread of the
 *                           group at its own wait_group
 *
 * Scope .cta reaches threads of the same block only. Not here: proxies (fence.proxy.async), kernels that run beside
 * each other.
 */
#include "softgpu/check/check-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static size_t length(const struct sg_check *k) { return sg_vec_group(k, k->threads - 1) + 1; }

/* ---- vectors ----------------------------------------------------------------------------------------------------- */
static struct sg_vec *vec_ref(struct sg_vec *v)
{
    if (v)
        v->refs++;
    return v;
}

static void vec_drop(struct sg_check *k, struct sg_vec *v)
{
    if (v && !--v->refs) {
        v->next = k->idle;
        k->idle = v;
    }
}

static struct sg_vec *vec_new(struct sg_check *k, const struct sg_vec *from)
{
    struct sg_vec *v = k->idle;
    if (v)
        k->idle = v->next;
    else if (!(v = dt_malloc(sizeof *v + length(k) * sizeof v->v[0])))
        return NULL;
    v->refs = 1;
    if (from)
        memcpy(v->v, from->v, length(k) * sizeof v->v[0]);
    else
        memset(v->v, 0, length(k) * sizeof v->v[0]);
    return v;
}

/* *v becomes a vector that nobody else has. */
static bool vec_own(struct sg_check *k, struct sg_vec **v)
{
    if (*v && (*v)->refs == 1)
        return true;
    struct sg_vec *n = vec_new(k, *v);
    if (!n)
        return false;
    vec_drop(k, *v);
    *v = n;
    return true;
}

static bool vec_join(struct sg_check *k, struct sg_vec **to, struct sg_vec *from)
{
    if (!from || *to == from)
        return true;
    if (!*to) {
        *to = vec_ref(from);
        return true;
    }
    size_t n = length(k), less = 0, more = 0;
    for (size_t i = 0; i < n; i++) {
        less += (*to)->v[i] < from->v[i];
        more += (*to)->v[i] > from->v[i];
    }
    if (!less)
        return true;
    if (!more) {
        vec_drop(k, *to);
        *to = vec_ref(from);
        return true;
    }
    if (!vec_own(k, to))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((*to)->v[i] < from->v[i])
            (*to)->v[i] = from->v[i];
    return true;
}

/* ---- knowledge of other blocks ----------------------------------------------------------------------------------- */
static struct sg_far *far_ref(struct sg_far *f)
{
    if (f)
        f->refs++;
    return f;
}

static void far_drop(struct sg_check *k, struct sg_far *f)
{
    if (!f || --f->refs)
        return;
    for (uint32_t i = 0; i < f->n; i++)
        vec_drop(k, f->e[i].vec);
    free(f);
}

static const struct sg_vec *far_find(const struct sg_far *f, uint32_t block)
{
    uint32_t lo = 0, hi = f ? f->n : 0;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (f->e[mid].block < block)
            lo = mid + 1;
        else
            hi = mid;
    }
    return f && lo < f->n && f->e[lo].block == block ? f->e[lo].vec : NULL;
}

/* Merge the entries of `from` but that of block `without`. */
static bool far_join(struct sg_check *k, struct sg_far **to, const struct sg_far *from, uint32_t without)
{
    if (!from || *to == from)
        return true;
    bool inside = true; /* nothing new, or new vectors for blocks that are there */
    for (uint32_t i = 0; i < from->n && inside; i++)
        inside = from->e[i].block == without || far_find(*to, from->e[i].block) == from->e[i].vec;
    if (inside)
        return true;
    uint32_t have = *to ? (*to)->n : 0, a = 0, b = 0;
    struct sg_far *n = dt_malloc(sizeof *n + ((size_t)have + from->n) * sizeof n->e[0]);
    if (!n)
        return false;
    n->refs = 1;
    n->n = 0;
    bool ok = true;
    while (a < have || b < from->n) {
        if (b < from->n && from->e[b].block == without) {
            b++;
            continue;
        }
        struct sg_far_entry *e = &n->e[n->n++];
        uint32_t x = a < have ? (*to)->e[a].block : UINT32_MAX, y = b < from->n ? from->e[b].block : UINT32_MAX;
        if (x <= y) {
            *e = (struct sg_far_entry){x, vec_ref((*to)->e[a++].vec)};
            if (x == y)
                ok &= vec_join(k, &e->vec, from->e[b++].vec);
        } else {
            *e = (struct sg_far_entry){y, vec_ref(from->e[b++].vec)};
        }
    }
    far_drop(k, *to);
    *to = n;
    return ok;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------ */
void sg_clock_drop(struct sg_check *k, struct sg_clock *c)
{
    vec_drop(k, c->vec);
    far_drop(k, c->far);
    *c = (struct sg_clock){NULL, NULL};
}

static void clock_set(struct sg_check *k, struct sg_clock *to, const struct sg_clock *from)
{
    struct sg_clock c = {vec_ref(from->vec), far_ref(from->far)};
    sg_clock_drop(k, to);
    *to = c;
}

static bool clock_join(struct sg_check *k, struct sg_clock *to, const struct sg_clock *from)
{
    return vec_join(k, &to->vec, from->vec) && far_join(k, &to->far, from->far, 0);
}

static void raise(uint32_t *at, uint32_t stamp)
{
    if (*at < stamp)
        *at = stamp;
}

/* All that thread t did and knew up to `stamp`, where `c` is what it knew, joined into `to`; th: and what it has waited
 * for. */
static bool contribute(struct sg_check *k, struct sg_clock *to, const struct sg_clock *c, uint32_t t,
                       const struct sg_check_thread *th, uint32_t stamp)
{
    if (!clock_join(k, to, c) || !vec_own(k, &to->vec))
        return false;
    raise(&to->vec->v[t], stamp);
    if (th) {
        raise(&to->vec->v[t + k->threads], th->async);
        raise(&to->vec->v[sg_vec_group(k, t)], th->group);
    }
    return true;
}

void sg_thread_done(struct sg_check *k, struct sg_check_thread *t)
{
    sg_clock_drop(k, &t->known);
    for (int all = 0; all < 2; all++) {
        sg_clock_drop(k, &t->fence[all]);
        sg_clock_drop(k, &t->pending[all]);
    }
    *t = (struct sg_check_thread){.async = 0};
}

bool sg_ordered(const struct sg_check *k, const struct sg_check_block *b, uint32_t t, const struct sg_entry *e)
{
    const struct sg_check_thread *th = &b->thread[t];
    if (e->block != b->id) {
        const struct sg_vec *v = far_find(th->known.far, e->block);
        return v && v->v[e->thread] >= e->stamp;
    }
    if (e->thread == t || (e->thread == t + k->threads && th->async >= e->stamp) ||
        (e->thread == sg_vec_group(k, t) && th->group >= e->stamp))
        return true;
    return th->known.vec && th->known.vec->v[e->thread] >= e->stamp;
}

/* The next stamp; a launch ends before they do. */
static bool tick(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_check *k = w->wk->check;
    if (k->now < UINT32_MAX - 1) {
        k->now++;
        return true;
    }
    sg_fault_at(w, op, DT_E_TOO_LARGE, 0, 0, 0, "too long a launch for the race detector");
    return false;
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */
static bool contribute_lanes(struct sg_warp *w, struct sg_clock *to, uint32_t mask)
{
    struct sg_check *k = w->wk->check;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t t = w->index * SG_LANES + (uint32_t)__builtin_ctz(m);
        const struct sg_check_thread *th = &w->blk->check->thread[t];
        if (!contribute(k, to, &th->known, t, th, k->now))
            return false;
    }
    return true;
}

bool sg_clock_arrive(struct sg_warp *w, const struct sg_op *op, unsigned n, uint32_t mask)
{
    return contribute_lanes(w, &w->blk->check->bar[n].clock, mask) ? tick(w, op) : sg_check_nomem(w, op);
}

static void learn(struct sg_warp *w, const struct sg_clock *c, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1)
        clock_set(w->wk->check, &w->blk->check->thread[w->index * SG_LANES + (uint32_t)__builtin_ctz(m)].known, c);
}

void sg_clock_go_on(struct sg_warp *w, unsigned n, uint32_t mask) { learn(w, &w->blk->check->bar[n].clock, mask); }

/* Threads that exited count as arrived where all are waited for. */
bool sg_clock_complete(struct sg_block *b, unsigned n)
{
    return b->bar[n].expected || clock_join(b->wk->check, &b->check->bar[n].clock, &b->check->exited);
}

bool sg_clock_exit(struct sg_warp *w, uint32_t mask)
{
    return contribute_lanes(w, &w->blk->check->exited, mask) || sg_check_nomem(w, NULL);
}

bool sg_clock_warp(struct sg_warp *w, const struct sg_op *op, uint32_t mask)
{
    struct sg_clock c = {NULL, NULL};
    bool ok = contribute_lanes(w, &c, mask);
    if (ok)
        learn(w, &c, mask);
    sg_clock_drop(w->wk->check, &c);
    return ok ? tick(w, op) : sg_check_nomem(w, op);
}

/* ---- locations that carry releases ------------------------------------------------------------------------------- */
static struct sg_sync *sync_find(struct sg_syncs *s, uint64_t addr)
{
    if (!s->cap)
        return NULL;
    for (uint32_t h = (uint32_t)((addr * 0x9E3779B97F4A7C15u) >> 32);; h++) {
        struct sg_sync *x = &s->slot[h & (s->cap - 1)];
        if (!x->addr || x->addr == addr)
            return x->addr ? x : NULL;
    }
}

static struct sg_sync *sync_get(struct sg_syncs *s, uint64_t addr)
{
    struct sg_sync *x = sync_find(s, addr);
    if (x)
        return x;
    if (s->n * 2 >= s->cap) {
        struct sg_syncs bigger = {.cap = s->cap ? s->cap * 2 : 16, .n = s->n};
        if (!(bigger.slot = dt_calloc(bigger.cap, sizeof *bigger.slot)))
            return NULL;
        for (uint32_t i = 0; i < s->cap; i++)
            if (s->slot[i].addr)
                for (uint32_t h = (uint32_t)((s->slot[i].addr * 0x9E3779B97F4A7C15u) >> 32);; h++)
                    if (!bigger.slot[h & (bigger.cap - 1)].addr) {
                        bigger.slot[h & (bigger.cap - 1)] = s->slot[i];
                        break;
                    }
        free(s->slot);
        *s = bigger;
    }
    s->n++;
    for (uint32_t h = (uint32_t)((addr * 0x9E3779B97F4A7C15u) >> 32);; h++)
        if (!s->slot[h & (s->cap - 1)].addr) {
            s->slot[h & (s->cap - 1)].addr = addr;
            return &s->slot[h & (s->cap - 1)];
        }
}

void sg_syncs_done(struct sg_check *k, struct sg_syncs *s)
{
    for (uint32_t i = 0; i < s->cap; i++) {
        sg_clock_drop(k, &s->slot[i].clock);
        sg_clock_drop(k, &s->slot[i].next);
        sg_clock_drop(k, &s->slot[i].before);
        vec_drop(k, s->slot[i].passed);
    }
    free(s->slot);
    *s = (struct sg_syncs){NULL, 0, 0};
}

/* What a clock of block `id` is to everybody: all of it as knowledge of blocks. */
static bool outside(struct sg_check *k, struct sg_clock *to, const struct sg_clock *c, uint32_t id)
{
    struct sg_far *own = dt_malloc(sizeof *own + sizeof own->e[0]);
    if (!own)
        return false;
    own->refs = own->n = 1;
    own->e[0] = (struct sg_far_entry){id, vec_ref(c->vec)};
    bool ok = far_join(k, &to->far, c->far, 0) && far_join(k, &to->far, own, 0);
    far_drop(k, own);
    return ok;
}

/* A thread of block `id` learns c, in which knowledge of its own block may lie among that of the others. */
static bool take_in(struct sg_check *k, struct sg_clock *to, const struct sg_clock *c, uint32_t id)
{
    const struct sg_vec *own = far_find(c->far, id);
    return vec_join(k, &to->vec, c->vec) && far_join(k, &to->far, c->far, id) &&
           vec_join(k, &to->vec, (struct sg_vec *)(uintptr_t)own);
}

bool sg_clock_strong(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t key, bool shared,
                     enum sg_access how, unsigned sem)
{
    struct sg_check *k = w->wk->check;
    struct sg_check_block *b = w->blk->check;
    uint32_t t = w->index * SG_LANES + lane;
    struct sg_check_thread *th = &b->thread[t];
    bool ok = true, release = sem & SG_SEM_RELEASE;
    for (int all = 0; all < 2 && ok; all++) { /* threads of the block, of all blocks */
        struct sg_syncs *table = all ? &k->sync : &b->sync;
        if (all && (shared || sem & SG_SEM_CTA))
            break;
        struct sg_sync *s = sync_find(table, key);
        if (how != SG_WRITE && s)
            ok = take_in(k, sem & SG_SEM_ACQUIRE ? &th->known : &th->pending[all], &s->clock, b->id);
        if (how == SG_READ || !ok)
            continue;
        struct sg_clock c = {NULL, NULL};
        if (release)
            ok = contribute(k, &c, &th->known, t, th, k->now);
        else if (th->fence_at[all])
            ok = contribute(k, &c, &th->fence[all], t, NULL, th->fence_at[all]);
        if (how == SG_WRITE && s)
            sg_clock_drop(k, &s->clock);
        if (ok && c.vec)
            ok = (s = sync_get(table, key)) && (all ? outside(k, &s->clock, &c, b->id) : clock_join(k, &s->clock, &c));
        sg_clock_drop(k, &c);
    }
    if (ok && release && how != SG_READ)
        return tick(w, op);
    return ok || sg_check_nomem(w, op);
}

/* ---- fences, waits for copies ------------------------------------------------------------------------------------ */
static bool fence(struct sg_check *k, struct sg_check_thread *th, uint32_t t, bool cta)
{
    for (int all = 0; all < (cta ? 1 : 2); all++) {
        if (!clock_join(k, &th->known, &th->pending[all]))
            return false;
        sg_clock_drop(k, &th->pending[all]);
    }
    for (int all = 0; all < (cta ? 1 : 2); all++) {
        sg_clock_drop(k, &th->fence[all]);
        if (!contribute(k, &th->fence[all], &th->known, t, th, k->now))
            return false;
        th->fence_at[all] = k->now;
    }
    return true;
}

static void done_up_to(struct sg_check_thread *th, unsigned ring, uint32_t stamp)
{
    raise(ring == SG_BY_WGMMA ? &th->group : &th->async, stamp);
}

/* imm: groups that may stay open; type: enum sg_copies, for fences 1 where the scope is .cta */
const struct sg_op *sg_check_op(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_check *k = w->wk->check;
    if (!k || !(k->modes & SG_CHECK_RACE))
        return op + 1;
    unsigned ring = op->type;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        uint32_t t = w->index * SG_LANES + (uint32_t)__builtin_ctz(m);
        struct sg_check_thread *th = &w->blk->check->thread[t];
        switch (op->sub) {
        case SG_CO_FENCE:
            if (!fence(k, th, t, op->type)) {
                sg_check_nomem(w, op);
                return NULL;
            }
            break;
        case SG_CO_COMMIT: th->commit[ring][th->ncommit[ring]++ % SG_COPY_GROUPS] = k->now; break;
        case SG_CO_WAIT:
            if (op->imm < SG_COPY_GROUPS && th->ncommit[ring] > (uint64_t)op->imm)
                done_up_to(th, ring, th->commit[ring][(th->ncommit[ring] - 1 - (uint32_t)op->imm) % SG_COPY_GROUPS]);
            break;
        default: done_up_to(th, ring, k->now);
        }
    }
    return tick(w, op) ? op + 1 : NULL;
}

/* ---- mbarriers --------------------------------------------------------------------------------------------------- */

/* Does thread t know all of that happened before, its own doings included? */
static bool knows(const struct sg_check *k, const struct sg_check_thread *th, uint32_t t, const struct sg_clock *c)
{
    const struct sg_vec *v = th->known.vec;
    for (size_t i = 0; c->vec && i < length(k); i++)
        if (c->vec->v[i] > (v ? v->v[i] : 0) && i != t && !(i == t + k->threads && c->vec->v[i] <= th->async) &&
            !(i == sg_vec_group(k, t) && c->vec->v[i] <= th->group))
            return false;
    return true;
}

/* SG_CHECK_PHASES: is it the same in every order of warps which phase an arrival counts for, and which one a wait sees
 * the end of? So it is where
 *     whoever arrives, or changes the count, knows all that made up the phase before
 *     whoever waits knows all that made up the one before that, and could not see its end instead
 *     a phase does not end before all who saw the end of the last one have had their part in what ends it
 * In one block alone, as in clusters nobody asks. */
static bool phases(struct sg_warp *w, const struct sg_op *op, unsigned lane, const uint8_t *at, struct sg_sync *s,
                   enum sg_mbarrier_event what)
{
    struct sg_check *k = w->wk->check;
    uint32_t t = w->index * SG_LANES + lane;
    const struct sg_check_thread *th = &w->blk->check->thread[t];
    const char *bad = NULL;
    if (what == SG_ME_ARRIVE || what == SG_ME_ASYNC || what == SG_ME_COUNT) {
        bad = knows(k, th, t, &s->clock) ? NULL : "an arrival that may count for the phase before";
    } else if (what == SG_ME_WAITED) {
        bad = knows(k, th, t, &s->before) ? NULL : "a wait that may see the end of an earlier phase";
        if (!vec_own(k, &s->passed))
            return sg_check_nomem(w, op);
        s->passed->v[t] = k->now;
    } else if (what == SG_ME_FLIP) {
        for (size_t i = 0; s->passed && i < length(k) && !bad; i++)
            bad = s->passed->v[i] <= (s->next.vec ? s->next.vec->v[i] : 0)
                      ? NULL
                      : "the end of a phase, which may come before a wait for the last one";
        vec_drop(k, s->passed);
        s->passed = NULL;
        clock_set(k, &s->before, &s->clock);
    }
    struct sg_finding f = {.kind = "race", .num = DT_E_RACE, .what = bad, .at = at, .bytes = 8};
    return !bad || sg_check_report(w, op, lane, &f);
}

bool sg_clock_mbarrier(struct sg_warp *w, const struct sg_op *op, unsigned lane, const uint8_t *at,
                       enum sg_mbarrier_event what)
{
    struct sg_check *k = w->wk->check;
    struct sg_check_block *b = w->blk->check;
    struct sg_block *owner = k->modes & SG_CHECK_RACE ? sg_check_owner(w, at) : NULL;
    if (!owner)
        return true;
    /* one space of keys with the strong accesses of the block: those are addresses of the host too */
    struct sg_sync *s = sync_get(&owner->check->sync, (uint64_t)(uintptr_t)at);
    uint32_t t = w->index * SG_LANES + lane;
    struct sg_check_thread *th = &b->thread[t];
    struct sg_clock c = {NULL, NULL};
    bool ok = s != NULL;
    if (ok && k->modes & SG_CHECK_PHASES && !phases(w, op, lane, at, s, what))
        return false;
    switch (ok ? (int)what : -1) {
    case SG_ME_ARRIVE: ok = contribute(k, &c, &th->known, t, th, k->now); break;
    case SG_ME_ASYNC:
        if ((ok = vec_own(k, &c.vec)))
            c.vec->v[t + k->threads] = k->now;
        break;
    case SG_ME_FLIP:
        ok = clock_join(k, &s->clock, &s->next);
        sg_clock_drop(k, &s->next);
        break;
    case SG_ME_WAITED: ok = take_in(k, &th->known, &s->clock, b->id); break;
    case SG_ME_FORGET:
        sg_clock_drop(k, &s->clock);
        sg_clock_drop(k, &s->next);
        sg_clock_drop(k, &s->before);
        vec_drop(k, s->passed);
        s->passed = NULL;
        break;
    default: break;
    }
    if (ok && c.vec)
        ok = owner == w->blk ? clock_join(k, &s->next, &c) : outside(k, &s->next, &c, b->id);
    bool tock = !ok || !c.vec || tick(w, op);
    sg_clock_drop(k, &c);
    return tock && (ok || sg_check_nomem(w, op));
}

/* ---- barrier.cluster --------------------------------------------------------------------------------------------- */
bool sg_clock_cluster_arrive(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_check *k = w->wk->check;
    struct sg_clock c = {NULL, NULL};
    if (!(k->modes & SG_CHECK_RACE))
        return true;
    bool ok = contribute_lanes(w, &c, w->mask) &&
              outside(k, &w->blk->cl->block[0].check->cluster.next, &c, w->blk->check->id);
    sg_clock_drop(k, &c);
    return ok ? tick(w, op) : sg_check_nomem(w, op);
}

void sg_clock_cluster_complete(struct sg_cluster *cl)
{
    struct sg_check *k = cl->block[0].wk->check;
    struct sg_sync *s = &cl->block[0].check->cluster;
    if (!clock_join(k, &s->clock, &s->next))
        sg_check_nomem(&cl->block[0].warp[0], NULL);
    sg_clock_drop(k, &s->next);
}

void sg_clock_cluster_go_on(struct sg_warp *w, uint32_t mask)
{
    struct sg_check *k = w->wk->check;
    struct sg_check_block *b = w->blk->check;
    const struct sg_clock *c = &w->blk->cl->block[0].check->cluster.clock;
    for (uint32_t m = mask; m; m &= m - 1)
        if (!take_in(k, &b->thread[w->index * SG_LANES + (uint32_t)__builtin_ctz(m)].known, c, b->id))
            sg_check_nomem(w, NULL);
}
