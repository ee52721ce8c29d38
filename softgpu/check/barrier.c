/* Barrier misuse: what PTX leaves undefined, or lets hang, at bar, barrier and the .sync operations of a warp.
 *
 *     missing threads       a barrier of all threads is complete although some have left the kernel without it; a
 *                           counted one, with lanes of a warp that is in it
 *     divergent barrier     an .aligned barrier (all of bar.*) that lanes of one warp reach by different instructions,
 *                           or that some of them are not in when it is complete
 *     different counts      two arrivals at one barrier before it is complete, with different numbers of threads
 *     no member             a .sync operation by a thread that its own member mask leaves out
 *
 * Always found, without this mode: barriers at which threads wait for ever, a count that is no multiple of 32 or more
 * than the block has, barrier numbers over 15 (exec/warp.c). Warps may reach one barrier by different instructions:
 * that is legal and not reported.
 */
#include <stdio.h>
#include <string.h>

#include "softgpu/check/check-priv.h"

static bool barrier_report(struct sg_warp *w, const struct sg_op *op, unsigned lane, const char *what,
                           const struct sg_entry *other, const char *then)
{
    struct sg_finding f = {.kind = "barrier", .num = DT_E_BARRIER, .what = what, .other = other, .then = then};
    return sg_check_report(w, op, lane, &f);
}

static bool on(const struct sg_worker *wk) { return wk->check->modes & SG_CHECK_BARRIER; }

/* Before the barrier counts the arrival. `count` 0: all threads. */
bool sg_barrier_arrive(struct sg_warp *w, const struct sg_op *op, unsigned n, uint32_t mask, uint32_t count)
{
    struct sg_check_block *c = w->blk->check;
    struct sg_check_bar *bar = &c->bar[n];
    unsigned lane = (unsigned)__builtin_ctz(mask);
    char what[96];
    if (!on(w->wk))
        return true;
    if (!count) /* written out or not, it is the same */
        count = w->blk->nwarp * SG_LANES;
    struct sg_entry other = {c->id, 0, (uint16_t)bar->first_thread, 0, bar->first ? bar->first->src : 0};
    if (bar->open && bar->count != count) {
        snprintf(what, sizeof what, "barrier %u for %u threads, which is one for %u threads", n, count, bar->count);
        return barrier_report(w, op, lane, what, &other, " by");
    }
    if (!bar->open) {
        bar->open = true;
        bar->count = count;
        bar->first = op;
        bar->first_thread = w->index * SG_LANES + lane;
    }
    if (bar->mask[w->index] && bar->op[w->index] != op && op->rnd) {
        unsigned o = (unsigned)__builtin_ctz(bar->mask[w->index]);
        other.thread = (uint16_t)(w->index * SG_LANES + o);
        other.src = bar->op[w->index]->src;
        snprintf(what, sizeof what, "barrier %u (aligned), which lanes of this warp reach by another instruction", n);
        return barrier_report(w, op, lane, what, &other, ":");
    }
    bar->mask[w->index] |= mask;
    bar->op[w->index] = op;
    return true;
}

/* When it is complete, before its threads go on. */
bool sg_barrier_complete(struct sg_block *b, unsigned n)
{
    struct sg_check_bar *bar = &b->check->bar[n];
    if (!on(b->wk))
        return true;
    bool whole = bar->count == b->nwarp * SG_LANES, good = true;
    uint32_t threads = b->wk->run->threads;
    char what[128];
    for (uint32_t i = 0; i < b->nwarp && good; i++) {
        struct sg_warp *w = &b->warp[i];
        uint32_t m = bar->mask[i], left = threads - i * SG_LANES, exist = left >= SG_LANES ? SG_ALL : (1u << left) - 1;
        if (m && w->alive & ~m && bar->op[i]->rnd) {
            snprintf(what, sizeof what, "barrier %u (aligned) with lanes 0x%x of the warp, without lanes 0x%x", n, m,
                     w->alive & ~m);
            good = barrier_report(w, bar->op[i], (unsigned)__builtin_ctz(m), what, NULL, NULL);
        } else if ((m || whole) && exist & ~w->alive & ~m) {
            uint32_t gone = exist & ~w->alive & ~m;
            struct sg_warp *by = m                                         ? w
                                 : bar->first_thread / SG_LANES < b->nwarp ? &b->warp[bar->first_thread / SG_LANES]
                                                                           : w;
            unsigned lane = m ? (unsigned)__builtin_ctz(m) : bar->first_thread % SG_LANES;
            snprintf(what, sizeof what, "barrier %u is complete without thread %u of the block%s", n,
                     i * SG_LANES + (unsigned)__builtin_ctz(gone), ", which has left the kernel");
            good = barrier_report(by, m ? bar->op[i] : bar->first, lane, what, NULL, NULL);
        }
    }
    bar->open = false;
    memset(bar->mask, 0, b->nwarp * sizeof *bar->mask);
    return good;
}

bool sg_barrier_members(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t ref = w->code->ext[op->x];
    if (!on(w->wk) || ref == SG_NONE)
        return true;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t members = SG_P(uint32_t, ref)[l];
        char what[96];
        if (members >> l & 1)
            continue;
        snprintf(what, sizeof what, "lane %u is no member of its own mask 0x%x", l, members);
        return barrier_report(w, op, l, what, NULL, NULL);
    }
    return true;
}
