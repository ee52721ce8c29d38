/* Collectives: shfl, vote, match, redux, elect, bar.warp.sync.
 *
 * A collective waits for all living lanes of the member mask. Lanes may come from different places in the code (legal
 * since sm_70). So when nothing else of the warp can run, waiting fragments of the same kind are executed jointly
 * (sg_joint).
 *
 * Operands: d the result; a the value; b, c shfl's lane and clamp; ext[x] the member mask (SG_NONE: active lanes),
 * ext[x + 1] the second result.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

#include "softgpu/exec/bits.h"

struct source {
    uint64_t v[SG_LANES];
    uint32_t p;
};

static void read_source(const struct sg_warp *w, const struct sg_op *op, uint32_t mask, struct source *s)
{
    if (op->sub >= SG_VOTE_ALL && op->sub <= SG_VOTE_BALLOT) {
        uint32_t p = *SG_P(uint32_t, op->a) ^ (op->flags & SG_C_NOT ? SG_ALL : 0);
        s->p = (s->p & ~mask) | (p & mask);
    } else if (op->sub != SG_SYNC && op->sub != SG_ELECT) {
        for (unsigned l = 0; l < SG_LANES; l++)
            if (mask >> l & 1)
                s->v[l] = op->flags & SG_A64 ? SG_P(uint64_t, op->a)[l] : SG_P(uint32_t, op->a)[l];
    }
}

static inline uint32_t collective_members(const struct sg_warp *w, const struct sg_op *op, unsigned l)
{
    uint32_t ref = w->code->ext[op->x];
    return ref == SG_NONE ? SG_ALL : SG_P(uint32_t, ref)[l];
}

static bool shfl_lane(unsigned kind, unsigned l, uint32_t b, uint32_t c, unsigned *ret)
{
    unsigned seg = c >> 8 & 31, clamp = c & 31, max = (l & seg) | (clamp & ~seg & 31), min = l & seg;
    b &= 31;
    int j;
    bool ok;
    switch (kind) {
    case SG_SHFL_UP:
        j = (int)l - (int)b;
        ok = j >= (int)max;
        break;
    case SG_SHFL_DOWN:
        j = (int)(l + b);
        ok = j <= (int)max;
        break;
    case SG_SHFL_BFLY:
        j = (int)(l ^ b);
        ok = j <= (int)max;
        break;
    default: j = (int)(min | (b & ~seg & 31)); ok = j <= (int)max;
    }
    *ret = ok ? (unsigned)j : l;
    return ok;
}

/* The lanes with lane l's value. */
static uint32_t same_source(const struct source *s, unsigned l)
{
    const uint64_t v = s->v[l];
    uint32_t r = 0;
    for (unsigned k = 0; k < SG_LANES; k++)
        r |= (uint32_t)(s->v[k] == v) << k;
    return r;
}

static uint32_t reduce(const struct sg_op *op, const struct source *s, uint32_t group)
{
    bool sign = op->flags & SG_SIGNED, first = true;
    uint32_t r = 0;
    for (uint32_t m = group; m; m &= m - 1) {
        uint32_t v = (uint32_t)s->v[__builtin_ctz(m)];
        if (op->sub == SG_REDUX_FMIN || op->sub == SG_REDUX_FMAX) {
            v = op->rnd & SG_REDUX_ABS ? v & 0x7FFFFFFF : v;
            bool nan = sg_nan_bits(v) || (!first && (op->rnd & SG_NANP) && sg_nan_bits(r));
            if (nan)
                r = first || op->rnd & SG_NANP ? SG_NAN32 : r;
            else
                r = first ? v : op->sub == SG_REDUX_FMIN ? sg_fmin(r, v) : sg_fmax(r, v);
            first = false;
            continue;
        }
        if (first) {
            r = v;
            first = false;
            continue;
        }
        bool less = sign ? (int32_t)v < (int32_t)r : v < r;
        switch (op->sub) {
        case SG_REDUX_ADD: r += v; break;
        case SG_REDUX_MIN: r = less ? v : r; break;
        case SG_REDUX_MAX: r = less ? r : v; break;
        case SG_REDUX_AND: r &= v; break;
        case SG_REDUX_OR: r |= v; break;
        default: r ^= v; break;
        }
    }
    return r;
}

/* Results for the active lanes, out of the sources of `part`. */
static void apply(struct sg_warp *w, const struct sg_op *op, const struct source *s, uint32_t part)
{
    uint32_t q = 0, result = 0, *d32 = op->d == SG_NONE ? NULL : SG_P(uint32_t, op->d);
    bool q_given = w->code->ext[op->x + 1] != SG_NONE;
    uint32_t out[SG_LANES] = {0};
    uint32_t last_group = 0, last_value = 0; /* lanes of a warp mostly share one member mask */
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m), j;
        uint32_t group = collective_members(w, op, l) & part;
        switch (op->sub) {
        case SG_SYNC: return;
        case SG_SHFL_UP:
        case SG_SHFL_DOWN:
        case SG_SHFL_BFLY:
        case SG_SHFL_IDX:
            q |= (uint32_t)shfl_lane(op->sub, l, SG_P(uint32_t, op->b)[l], SG_P(uint32_t, op->c)[l], &j) << l;
            out[l] = part >> j & 1 ? (uint32_t)s->v[j] : SG_P(uint32_t, op->a)[j];
            break;
        case SG_VOTE_ALL: result |= (uint32_t)((s->p & group) == group) << l; break;
        case SG_VOTE_ANY: result |= (uint32_t)((s->p & group) != 0) << l; break;
        case SG_VOTE_UNI: result |= (uint32_t)((s->p & group) == group || !(s->p & group)) << l; break;
        case SG_VOTE_BALLOT: out[l] = s->p & group; break;
        case SG_MATCH_ANY:
        case SG_MATCH_ALL: {
            uint32_t same = same_source(s, l) & group;
            if (op->sub == SG_MATCH_ALL) {
                q |= (uint32_t)(same == group) << l;
                same = same == group ? group : 0;
            }
            out[l] = same;
            break;
        }
        case SG_ELECT:
            out[l] = (uint32_t)__builtin_ctz(group);
            q |= (uint32_t)(out[l] == l) << l;
            break;
        default:
            if (group != last_group) {
                last_group = group;
                last_value = reduce(op, s, group);
            }
            out[l] = last_value;
        }
    }
    if (op->sub >= SG_VOTE_ALL && op->sub <= SG_VOTE_UNI) {
        *d32 = (*d32 & ~w->mask) | result;
    } else if (d32) {
        for (unsigned l = 0; l < SG_LANES; l++)
            d32[l] = w->mask >> l & 1 ? out[l] : d32[l];
    }
    if (q_given) {
        uint32_t *p = SG_P(uint32_t, w->code->ext[op->x + 1]);
        *p = (*p & ~w->mask) | q;
    }
}

/* Lanes of `mask` whose members are all in `mask`, or gone. */
static uint32_t satisfied(const struct sg_warp *w, const struct sg_op *op, uint32_t lanes, uint32_t mask)
{
    uint32_t ok = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (!(collective_members(w, op, l) & w->alive & ~mask))
            ok |= 1u << l;
    }
    return ok;
}

/* bar.warp.sync (rnd: not just a meeting before a matrix instruction) orders the members that are here. */
static bool check_sync(struct sg_warp *w, const struct sg_op *op, uint32_t lanes)
{
    if (!w->wk->check || op->sub != SG_SYNC || !op->rnd || !(w->wk->run->l->checks & SG_CHECK_RACE))
        return true;
    while (lanes) {
        uint32_t group = collective_members(w, op, (unsigned)__builtin_ctz(lanes)) & lanes;
        if (!sg_clock_warp(w, op, group | (lanes & (0u - lanes))))
            return false;
        lanes &= ~group & (lanes - 1);
    }
    return true;
}

const struct sg_op *sg_collective(struct sg_warp *w, const struct sg_op *op)
{
    if (w->wk->check && !sg_barrier_members(w, op))
        return NULL;
    if (w->mask != w->alive && w->code->ext[op->x] != SG_NONE) {
        for (uint32_t i = 0; i < w->nfrag;)
            if (w->frag[i].op == op && (w->frag[i].state == SG_F_RUN || w->frag[i].state == SG_F_WARP)) {
                w->mask |= w->frag[i].mask;
                sg_unpark(w, i);
            } else {
                i++;
            }
        sg_set_mask(w, w->mask);
        uint32_t m = w->mask, ok = satisfied(w, op, m, m);
        if (ok != m)
            sg_park(w, op, m & ~ok, SG_F_WARP, 0);
        if (!ok)
            return sg_pick(w);
        sg_set_mask(w, ok);
    }
    struct source s = {.p = 0};
    read_source(w, op, w->mask, &s);
    apply(w, op, &s, w->mask);
    return check_sync(w, op, w->mask) ? op + 1 : NULL;
}

bool sg_joint(struct sg_warp *w)
{
    for (uint32_t i = 0; i < w->nfrag; i++) {
        if (w->frag[i].state != SG_F_WARP)
            continue;
        unsigned kind = w->frag[i].op->sub;
        uint32_t mask = 0, done = 0;
        for (uint32_t k = 0; k < w->nfrag; k++)
            if (w->frag[k].state == SG_F_WARP && w->frag[k].op->sub == kind)
                mask |= w->frag[k].mask;
        struct source s = {.p = 0};
        for (uint32_t k = 0; k < w->nfrag; k++)
            if (w->frag[k].state == SG_F_WARP && w->frag[k].op->sub == kind) {
                done |= satisfied(w, w->frag[k].op, w->frag[k].mask, mask);
                read_source(w, w->frag[k].op, w->frag[k].mask, &s);
            }
        if (!done)
            continue;
        if (kind == SG_SYNC && w->wk->check && w->frag[i].op->rnd && w->wk->run->l->checks & SG_CHECK_RACE)
            sg_clock_warp(w, w->frag[i].op, done);
        uint32_t n = w->nfrag;
        for (uint32_t k = 0; k < n; k++) {
            struct sg_frag *f = &w->frag[k];
            if (f->state != SG_F_WARP || f->op->sub != kind || !(f->mask & done))
                continue;
            w->mask = f->mask & done;
            apply(w, f->op, &s, mask);
            const struct sg_op *next = f->op + 1;
            uint32_t go = f->mask & done;
            f->mask &= ~done;
            sg_park(w, next, go, SG_F_RUN, 0);
        }
        for (uint32_t k = 0; k < w->nfrag;)
            if (!w->frag[k].mask)
                sg_unpark(w, k);
            else
                k++;
        return true;
    }
    return false;
}
