/* Control within a warp: branches, divergence, exit, barriers, and operations in which lanes meet.
 *
 * A warp is one running fragment (position, mask) and the waiting ones in w->frag:
 *
 *     RUN  ── picked: lowest position first, equal positions merged ──▶ running
 *     running ── bar.sync ──▶ BAR ── barrier complete ──▶ RUN
 *     running ── barrier.cluster.wait ──▶ CLUSTER ── all threads of the cluster have arrived ──▶ RUN
 *     running ── collective with lanes missing ──▶ WARP ── they arrive, or exit ──▶ RUN or joint execution
 *
 * Lowest-first gives reconvergence without post-dominators. It alone would starve a fragment that the running one spins
 * for, so a fragment that waited for PATIENCE basic blocks (SPIN_PATIENCE when the running one does atomics) runs for
 * STICK of them.
 *
 * Barriers count threads. A counted barrier counts lanes that do not exist or have exited as arrived when their warp
 * arrives, as the hardware counts warps; a barrier of all threads waits for those that have not exited. Nothing here
 * knows `.aligned`: a barrier under divergence completes when its threads are there.
 *
 * Collectives (shfl, vote, match, redux, elect, bar.warp.sync) wait for all living lanes of the member mask. Lanes may
 * come from different places in the code (legal since sm_70): when nothing else can run, waiting fragments of the same
 * kind are executed jointly.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/bits.h"

enum { PATIENCE = 4096, SPIN_PATIENCE = 64, STICK = 256 };

void (*sg_print)(const char *text, size_t n);

void sg_park(struct sg_warp *w, const struct sg_op *op, uint32_t mask, enum sg_frag_state state, unsigned bar)
{
    for (uint32_t i = 0; i < w->nfrag; i++)
        if (w->frag[i].op == op && w->frag[i].state == state && w->frag[i].bar == bar) {
            w->frag[i].mask |= mask;
            return;
        }
    w->frag[w->nfrag++] = (struct sg_frag){op, mask, (uint8_t)state, (uint8_t)bar, w->tick};
}

static void unpark(struct sg_warp *w, uint32_t i) { w->frag[i] = w->frag[--w->nfrag]; }

/* Take fragment i as the running one, with every other runnable one at the same place. */
static const struct sg_op *take(struct sg_warp *w, uint32_t i)
{
    const struct sg_op *op = w->frag[i].op;
    uint32_t mask = 0;
    for (i = 0; i < w->nfrag;)
        if (w->frag[i].op == op && w->frag[i].state == SG_F_RUN) {
            mask |= w->frag[i].mask;
            unpark(w, i);
        } else {
            i++;
        }
    sg_set_mask(w, mask);
    return op;
}

const struct sg_op *sg_switch(struct sg_warp *w, const struct sg_op *bb)
{
    w->tick++;
    uint32_t mask = w->mask, lowest = UINT32_MAX, oldest = UINT32_MAX;
    for (uint32_t i = 0; i < w->nfrag;) {
        struct sg_frag *f = &w->frag[i];
        if (f->state == SG_F_RUN && f->op == bb) {
            mask |= f->mask;
            unpark(w, i);
        } else {
            i++;
        }
    }
    sg_set_mask(w, mask);
    for (uint32_t i = 0; i < w->nfrag; i++) {
        struct sg_frag *f = &w->frag[i];
        if (f->state != SG_F_RUN)
            continue;
        if (lowest == UINT32_MAX || f->op < w->frag[lowest].op)
            lowest = i;
        if (oldest == UINT32_MAX || w->tick - f->tick > w->tick - w->frag[oldest].tick)
            oldest = i;
    }
    if (lowest == UINT32_MAX)
        return bb;
    if (w->stick) {
        w->stick--;
        return bb;
    }
    uint32_t next = UINT32_MAX;
    if (w->tick - w->frag[oldest].tick > (w->spin ? SPIN_PATIENCE : PATIENCE)) {
        next = oldest;
        w->stick = STICK;
    } else if (w->frag[lowest].op < bb) {
        next = lowest;
    }
    if (next == UINT32_MAX)
        return bb;
    w->spin = false;
    sg_park(w, bb, w->mask, SG_F_RUN, 0);
    return take(w, next);
}

static bool joint(struct sg_warp *w);

const struct sg_op *sg_pick(struct sg_warp *w)
{
    do {
        uint32_t lowest = UINT32_MAX;
        for (uint32_t i = 0; i < w->nfrag; i++)
            if (w->frag[i].state == SG_F_RUN && (lowest == UINT32_MAX || w->frag[i].op < w->frag[lowest].op))
                lowest = i;
        if (lowest != UINT32_MAX)
            return take(w, lowest);
    } while (joint(w));
    w->mask = 0;
    w->full = 0;
    w->ready = 0;
    w->stop = w->alive ? SG_BLOCKED : SG_DONE;
    return NULL;
}

const struct sg_op *sg_out_of_fuel(struct sg_warp *w, const struct sg_op *bb)
{
    sg_park(w, bb, w->mask, SG_F_RUN, 0);
    w->stop = w->wk->fault ? SG_FAULT : SG_YIELD;
    return NULL;
}

static inline uint32_t guard(const struct sg_warp *w, const struct sg_op *op)
{
    if (op->guard == SG_NONE)
        return w->mask;
    uint32_t p = *SG_P(uint32_t, op->guard);
    return w->mask & (op->flags & SG_GUARD_NOT ? ~p : p);
}

/* An operation behind a predicate: run it with the mask narrowed. */
const struct sg_op *sg_guarded(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t m = guard(w, op), mask = w->mask, full = w->full;
    if (m == mask)
        return op->inner(w, op);
    if (!m)
        return op + 1;
    w->mask = m;
    w->full = 0;
    const struct sg_op *next = op->inner(w, op);
    w->mask = mask;
    w->full = full;
    return next;
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */
const struct sg_op *sg_bra(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t m = w->mask, t = guard(w, op);
    if (t == m)
        return op + op->imm;
    if (!t)
        return op + 1;
    sg_park(w, op + op->imm, t, SG_F_RUN, 0);
    sg_set_mask(w, m & ~t);
    return op + 1;
}

/* brx.idx: ext[x] is the number of targets, their distances follow. An index past the end is undefined in PTX; here a
 * fault. */
const struct sg_op *sg_brx(struct sg_warp *w, const struct sg_op *op)
{
    const uint32_t *ext = w->code->ext + op->x, *index = SG_P(uint32_t, op->a);
    uint32_t m = w->mask;
    for (uint32_t r = m; r; r &= r - 1) {
        unsigned l = (unsigned)__builtin_ctz(r);
        if (index[l] >= ext[0])
            return sg_fault_at(w, op, DT_E_TRAP, l, 0, 0, "index %u into %u branch targets", index[l], ext[0]);
        sg_park(w, op + (int32_t)ext[1 + index[l]], 1u << l, SG_F_RUN, 0);
    }
    return sg_pick(w);
}

/* bar.red's result, for lanes that wait at the barrier, as it completes: before they go on others may use the same
 * barrier again. */
static void give_result(struct sg_warp *w, struct sg_frag *f, const struct sg_barrier *bar)
{
    const struct sg_op *op = f->op;
    if (op->fn != sg_bar_result && (op->fn != sg_guarded || op->inner != sg_bar_result))
        return;
    for (uint32_t m = f->mask; m && op->sub == SG_BAR_POPC; m &= m - 1)
        SG_P(uint32_t, op->d)[__builtin_ctz(m)] = bar->count;
    if (op->sub != SG_BAR_POPC) {
        uint32_t *p = SG_P(uint32_t, op->d);
        *p = (*p & ~f->mask) | ((op->sub == SG_BAR_AND ? bar->all : bar->any) ? f->mask : 0);
    }
    f->op++;
}

/* ---- exit, trap -------------------------------------------------------------------------------------------------- */
static void complete(struct sg_block *b, unsigned n)
{
    struct sg_barrier *bar = &b->bar[n];
    bool done = bar->expected ? bar->arrived >= bar->expected : bar->blocked && bar->arrived >= b->alive;
    if (!done)
        return;
    if (b->check && n < SG_BARRIERS)
        sg_check_complete(b, n);
    const struct sg_barrier was = *bar;
    *bar = (struct sg_barrier){.all = 1};
    for (uint32_t i = 0; i < b->nwarp; i++) {
        struct sg_warp *w = &b->warp[i];
        for (uint32_t k = 0; k < w->nfrag; k++)
            if (w->frag[k].state == SG_F_BAR && w->frag[k].bar == n) {
                give_result(w, &w->frag[k], &was);
                w->frag[k].state = SG_F_RUN;
                w->frag[k].bar = 0;
                w->frag[k].tick = w->tick;
                w->ready = 1;
            }
    }
}

const struct sg_op *sg_exit(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t t = guard(w, op), m = w->mask;
    if (!t)
        return op + 1;
    struct sg_block *b = w->blk;
    if (b->check)
        sg_check_exit(w, t);
    w->alive &= ~t;
    b->alive -= (uint32_t)__builtin_popcount(t);
    for (unsigned n = 0; n < SG_BARRIERS; n++)
        if (b->bar[n].blocked && !b->bar[n].expected)
            complete(b, n);
    sg_cluster_leave(w, t);
    for (uint32_t i = 0; i < w->nfrag; i++)
        if (w->frag[i].state == SG_F_WARP)
            w->frag[i].state = SG_F_RUN;
    if (t == m)
        return sg_pick(w);
    sg_set_mask(w, m & ~t);
    return op + 1;
}

const struct sg_op *sg_trap(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t t = guard(w, op);
    if (!t)
        return op + 1;
    return sg_fault_at(
        w, op, DT_E_TRAP, (unsigned)__builtin_ctz(t), 0, 0,
        op->sub
            ? "an indirect call of an address that is no function with these parameters, or is one that runs already"
            : "trap");
}

/* A string at a generic address, for messages. */
static void text_at(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, char *out, size_t n)
{
    size_t i = 0;
    struct sg_op byte = *op;
    byte.space = PTX_GENERIC;
    if (addr >> SG_WINDOW_SHIFT == 0 && !sg_find_range(w, op, addr, 1))
        n = 1;
    for (; i + 1 < n; i++) {
        if (addr >> SG_WINDOW_SHIFT == 0 && !sg_find_range(w, op, addr + i, 1))
            break;
        const uint8_t *p = sg_resolve(w, &byte, lane, addr + i, 1, false);
        if (!p || !*p)
            break;
        out[i] = (char)*p;
    }
    out[i] = 0;
}

uint8_t *sg_call_param(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned k)
{
    uint32_t at = w->code->ext[op->x + k];
    return w->local + lane * w->local_bytes + (at & ~SG_IN_FRAME) +
           (at & SG_IN_FRAME ? SG_P(uint64_t, w->code->fp)[lane] : 0);
}

static uint64_t call_param(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned k, unsigned bytes)
{
    uint64_t v = 0;
    memcpy(&v, sg_call_param(w, op, lane, k), bytes);
    return v;
}

/* __assertfail(message, file, line, function, char size) */
const struct sg_op *sg_assertfail(struct sg_warp *w, const struct sg_op *op)
{
    unsigned l = (unsigned)__builtin_ctz(w->mask);
    char what[96], file[64], fn[64];
    text_at(w, op, l, call_param(w, op, l, 0, 8), what, sizeof what);
    text_at(w, op, l, call_param(w, op, l, 1, 8), file, sizeof file);
    text_at(w, op, l, call_param(w, op, l, 3, 8), fn, sizeof fn);
    return sg_fault_at(w, op, DT_E_TRAP, l, 0, 0, "assertion `%s` failed in %s, %s:%u", what, fn, file,
                       (unsigned)call_param(w, op, l, 2, 4));
}

/* vprintf(format, arguments): each conversion takes 4 bytes (int) or 8 (long, double, pointer), aligned. */
const struct sg_op *sg_vprintf(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_op arg = *op;
    arg.space = PTX_GENERIC;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        char fmt[1024], out[4096], spec[32];
        size_t n = 0;
        text_at(w, op, l, call_param(w, op, l, 0, 8), fmt, sizeof fmt);
        uint64_t at = call_param(w, op, l, 1, 8);
        uint32_t count = 0;
        for (const char *p = fmt; *p && n + 64 < sizeof out;) {
            if (*p != '%' || p[1] == '%') {
                out[n++] = *p;
                p += *p == '%' ? 2 : 1;
                continue;
            }
            size_t s = 0, longs = 0;
            spec[s++] = *p++;
            while (*p && strchr("-+ #0123456789.", *p) && s < 16)
                spec[s++] = *p++;
            for (; *p && strchr("hlLzjt", *p); p++)
                longs += strchr("lzjt", *p) != NULL;
            char c = *p ? *p++ : 'd';
            bool wide = longs || strchr("sp", c) || strchr("eEfFgGaA", c);
            unsigned bytes = wide ? 8 : 4;
            at = (at + bytes - 1) & ~(uint64_t)(bytes - 1);
            const uint8_t *q = sg_resolve(w, &arg, l, at, bytes, false);
            if (!q)
                return NULL;
            uint64_t v = 0;
            memcpy(&v, q, bytes);
            at += bytes;
            count++;
            char one[256] = "";
            if (strchr("eEfFgGaA", c)) {
                double d;
                memcpy(&d, &v, 8);
                spec[s++] = c, spec[s] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(one, sizeof one, spec, d);
            } else if (c == 's') {
                text_at(w, op, l, v, one, sizeof one);
            } else if (strchr("diuxXoc", c)) {
                if (c != 'c')
                    spec[s++] = 'l', spec[s++] = 'l';
                spec[s++] = c, spec[s] = 0;
                int64_t sv = wide ? (int64_t)v : c == 'd' || c == 'i' ? (int64_t)(int32_t)v : (int64_t)v;
                if (c == 'c')
                    snprintf(one, sizeof one, spec, (int)sv);
                else
                    snprintf(one, sizeof one, spec, (long long)sv);
#pragma GCC diagnostic pop
            } else if (c == 'p') {
                snprintf(one, sizeof one, "0x%llx", (unsigned long long)v);
            }
            size_t k = strlen(one);
            if (k > sizeof out - n - 64)
                k = sizeof out - n - 64;
            memcpy(out + n, one, k);
            n += k;
        }
        if (sg_print)
            sg_print(out, n);
        memcpy(sg_call_param(w, op, l, 2), &count, 4);
    }
    return op + 1;
}

/* %clock, %clock64, %globaltimer: thread-instructions that this CPU thread executed so far; grows, and is the same in
 * every run. */
const struct sg_op *sg_clock(struct sg_warp *w, const struct sg_op *op)
{
    uint64_t t = w->wk->executed + ++w->wk->ticks;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (op->flags & SG_D64)
            SG_P(uint64_t, op->d)[l] = t;
        else
            SG_P(uint32_t, op->d)[l] = (uint32_t)(t >> op->imm);
    }
    return op + 1;
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */
const struct sg_op *sg_bar(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t m = w->mask;
    unsigned first = (unsigned)__builtin_ctz(m);
    uint32_t n = SG_P(uint32_t, op->a)[first], count = op->b == SG_NONE ? 0 : SG_P(uint32_t, op->b)[first];
    struct sg_block *b = w->blk;
    if (n >= SG_BARRIERS)
        return sg_fault_at(w, op, DT_E_TRAP, first, 0, 0, "there is no barrier %u", n);
    if (op->b != SG_NONE && (!count || count % SG_LANES || count > b->nwarp * SG_LANES))
        return sg_fault_at(w, op, DT_E_DEADLOCK, first, 0, 0, "barrier %u for %u threads in a block of %u", n, count,
                           b->wk->run->threads);
    struct sg_barrier *bar = &b->bar[n];
    uint32_t lanes = (uint32_t)__builtin_popcount(m), add = lanes;
    if (count && m >> __builtin_ctz(w->alive) & 1)
        add += (uint32_t)__builtin_popcount(~w->alive);
    if (b->check && !sg_check_arrive(w, op, n, m, count))
        return NULL;
    bar->expected = count;
    bar->arrived += add;
    if (op->sub != SG_BAR_ARRIVE) {
        if (op->sub != SG_BAR_SYNC) {
            uint32_t p = *SG_P(uint32_t, op->c) ^ (op->flags & SG_C_NOT ? SG_ALL : 0);
            bar->count += (uint32_t)__builtin_popcount(p & m);
            bar->any |= (p & m) != 0;
            bar->all &= (p & m) == m;
        }
        bar->blocked += lanes;
        sg_park(w, op + 1, m, SG_F_BAR, n);
    }
    complete(b, n);
    return op->sub == SG_BAR_ARRIVE ? op + 1 : sg_pick(w);
}

const struct sg_op *sg_meet_group(struct sg_warp *w, const struct sg_op *op, bool *ret_last)
{
    struct sg_block *b = w->blk;
    unsigned n = SG_BARRIERS + w->index / 4, first = w->index & ~3u;
    *ret_last = false;
    if (first + 4 > b->nwarp || w->mask != SG_ALL)
        return sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(w->mask), 0, 0,
                           "a warpgroup of less than 128 threads");
    struct sg_barrier *bar = &b->bar[n];
    if (bar->arrived && bar->op != op)
        return sg_fault_at(w, op, DT_E_TRAP, 0, 0, 0,
                           "another warp of the warpgroup is at another instruction, on line %u",
                           w->code->src[bar->op->src].f->inst[w->code->src[bar->op->src].inst].line);
    bar->op = op;
    bar->expected = 4 * SG_LANES;
    bar->arrived += SG_LANES;
    if (bar->arrived < bar->expected) {
        sg_park(w, op + 1, w->mask, SG_F_BAR, n);
        return sg_pick(w);
    }
    complete(b, n);
    *ret_last = true;
    return op + 1;
}

/* Second half of bar.red. It never runs: give_result() has done it. */
const struct sg_op *sg_bar_result(struct sg_warp *w, const struct sg_op *op) { return op + 1; }

/* ---- collectives
 * ------------------------------------------------------------------------------------------------------ d: result; a:
 * value; b, c: shfl's lane and clamp; ext[x]: member mask (SG_NONE: active lanes), ext[x + 1]: second result. */
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

static inline uint32_t members(const struct sg_warp *w, const struct sg_op *op, unsigned l)
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
        uint32_t group = members(w, op, l) & part;
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
            uint32_t same = 0;
            for (uint32_t g = group; g; g &= g - 1) {
                unsigned k = (unsigned)__builtin_ctz(g);
                same |= (uint32_t)(s->v[k] == s->v[l]) << k;
            }
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
        if (!(members(w, op, l) & w->alive & ~mask))
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
        uint32_t group = members(w, op, (unsigned)__builtin_ctz(lanes)) & lanes;
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
                unpark(w, i);
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

/* Nothing can run: execute waiting collectives of one kind together if that completes any. Their fragments move on. */
static bool joint(struct sg_warp *w)
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
                unpark(w, k);
            else
                k++;
        return true;
    }
    return false;
}

const struct sg_op *sg_activemask(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1)
        SG_P(uint32_t, op->d)[__builtin_ctz(m)] = w->mask;
    return op + 1;
}

const struct sg_op *sg_setmaxnreg(struct sg_warp *w, const struct sg_op *op)
{
    if (w->mask != w->alive)
        return sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(w->mask), 0, 0,
                           "lanes 0x%x of the warp do not execute it", w->alive & ~w->mask);
    return op + 1;
}

/* Where kernels run one after the other, what a kernel waits for is complete. Noted for the timing model: how much
 * comes before. */
const struct sg_op *sg_griddepcontrol(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_block *b = w->blk;
    struct sg_beside *beside = w->wk->run->l->beside;
    if (op->sub) {
        if (!b->triggers) {
            b->triggered = w->issued;
            if (beside)
                beside->let_go++;
        }
        b->triggers = true;
        if (!beside)
            return op + 1;
        sg_park(w, op + 1, w->mask, SG_F_RUN, 0); /* the others may begin now: let them */
        w->stop = SG_YIELD;
        return NULL;
    }
    if (beside && !beside->may_pass(beside->user)) { /* again when it has the turn again */
        sg_park(w, op, w->mask, SG_F_RUN, 0);
        w->stop = SG_YIELD;
        w->wk->held = true;
        return NULL;
    }
    if (!w->waited && (!b->waits || w->issued > b->waited))
        b->waited = w->issued;
    w->waited = b->waits = true;
    return op + 1;
}
