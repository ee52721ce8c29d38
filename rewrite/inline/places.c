/* Places: where a guest's elements would lie in the order of its threads, if they lie otherwise in the buffer.
 *
 * threads.c takes the byte offset of an element apart into thread, block, slot and round. That works where each of them
 * moves the offset by one step. A kernel that transposes or takes a matrix apart by heads computes its offsets by
 * divisions and remainders:
 *
 *     i = tid + 256 ctaid + 65536 round                      the thread's number i
 *     reads x[(i % 8192 / 64) * 768 + i / 8192 * 64 + i % 64]
 *
 * No sum of steps of tid and ctaid gives that, but a sum of steps of digits of i does: with i = d0 + 64 d1 + 8192 d2
 * the offset is d0 + 768 d1 + 64 d2. So the offset gives the digits, largest step first, and these give i, the place:
 *
 *     offset ──digits──▶ place ──steps (threads.c)──▶ thread, block, slot, round
 *
 * No division of the text is read. The offsets of all threads' accesses are listed by the threads' numbers, and the
 * list is taken apart: a run of equal steps, then runs of such runs, and so on. Then every offset of the list is held
 * against the digits. How numbers of thread, slot, block and round follow each other in i is tried in a few orders, as
 * compilers have them; any order that gives digits is right.
 *
 * From here on the guest's trace is seen through the places: rw_inline_trace hands out its accesses to the shared
 * buffer with places instead of offsets, each block and each round by itself. So all that threads.c proves of offsets
 * it proves of places.
 *
 * Not done: steps that go down; vectors of different lengths; offsets that are no digits at all (a skewed or swizzled
 * layout). These stay refused.
 */
#include "rewrite/inline/inline-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define MOST (1u << 22) /* numbers in a list */
#define NOWHERE INT64_MIN

/* What a list is made of: how many numbers of each kind, and which accesses are which slot. */
struct list {
    struct rw_inline *n;
    uint32_t of[6], rounds, slots;
    bool bad;
    /* by joint instruction: slot + 1, and the access that it was first seen with */
    struct first {
        uint32_t slot, thread, lo[3];
        int64_t base, round;
    } * first;
    int64_t *at; /* [round][slot][block][thread]; NULL: they are counted only */
};

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* An access that another instruction was first seen with is one slot with it. */
static void slot_of(struct list *w, struct first *f, const struct ana_trace_box *b, const struct ana_trace *t)
{
    struct first x = {w->slots + 1, t->thread[0], {b->lo[0], b->lo[1], b->lo[2]}, t->base[0], t->round ? *t->round : 0};
    for (const struct first *o = w->first; o < w->first + w->n->njoint; o++)
        if (o->slot && o->thread == x.thread && o->base == x.base && o->round == x.round &&
            !memcmp(o->lo, x.lo, sizeof x.lo))
            x.slot = o->slot;
    if (x.slot > w->slots)
        w->slots++;
    *f = x;
}

static void raise_to(uint32_t *most, int64_t n)
{
    if (n > *most)
        *most = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static int on_count(const struct ana_trace_box *b, void *user)
{
    struct list *w = user;
    const struct rw_inline *n = w->n;
    uint32_t x[3];
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        uint32_t j = rw_inline_joint_of(n, t);
        if (j == UINT32_MAX || !t->n)
            continue;
        if (!w->first[j].slot)
            slot_of(w, &w->first[j], b, t);
        w->bad |= t->evidence != ANA_PROVED || n->joint[j].comps != n->joint[0].comps;
        for (uint32_t k = 0; k < t->n; k++) {
            rw_inline_coords(n, t->thread[k], x);
            w->bad |= t->times[k] > 1 && !(t->round && t->by);
            raise_to(&w->rounds, (t->round ? t->round[k] : 0) + t->times[k]);
            for (unsigned d = 0; d < 3; d++) {
                raise_to(&w->of[d], (int64_t)x[d] + 1);
                raise_to(&w->of[3 + d], (int64_t)b->lo[d] + (int64_t)(b->ext[d] - 1) * b->stride[d] + 1);
            }
        }
    }
    return 0;
}

static void put(struct list *w, uint32_t slot, uint32_t block, uint32_t thread, int64_t round, int64_t at)
{
    uint64_t threads = (uint64_t)w->of[0] * w->of[1] * w->of[2], blocks = (uint64_t)w->of[3] * w->of[4] * w->of[5];
    int64_t *x = &w->at[(((uint64_t)round * w->slots + slot) * blocks + block) * threads + thread];
    w->bad |= *x != NOWHERE && *x != at;
    *x = at;
}

static int on_put(const struct ana_trace_box *b, void *user)
{
    struct list *w = user;
    const struct rw_inline *n = w->n;
    uint32_t x[3], c[3], q[3];
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        uint32_t j = rw_inline_joint_of(n, t);
        for (uint32_t k = 0; j != UINT32_MAX && k < t->n; k++) {
            rw_inline_coords(n, t->thread[k], x);
            uint32_t thread = x[0] + w->of[0] * (x[1] + w->of[1] * x[2]);
            for (c[2] = 0; c[2] < b->ext[2]; c[2]++)
                for (c[1] = 0; c[1] < b->ext[1]; c[1]++)
                    for (c[0] = 0; c[0] < b->ext[0]; c[0]++) {
                        int64_t at = t->base[k];
                        for (unsigned d = 0; d < 3; d++) {
                            q[d] = b->lo[d] + c[d] * b->stride[d];
                            at += t->step[d] ? t->step[d][k] * c[d] : 0;
                        }
                        for (int64_t r = 0; r < t->times[k]; r++)
                            put(w, w->first[j].slot - 1, q[0] + w->of[3] * (q[1] + w->of[4] * q[2]), thread,
                                (t->round ? t->round[k] : 0) + r, at + r * (t->by ? t->by[k] : 0));
                    }
        }
    }
    return 0;
}

/* ---- its digits -------------------------------------------------------------------------------------------------- */

enum { THREAD, SLOT, BLOCK, ROUND, KINDS };
static const uint8_t orders[][KINDS] = {
    {THREAD, BLOCK, SLOT, ROUND}, /* a stride over all threads, unrolled or a loop */
    {THREAD, SLOT, BLOCK, ROUND}, /* each block has a run of its own */
    {SLOT, THREAD, BLOCK, ROUND}, /* each thread has */
    {THREAD, BLOCK, ROUND, SLOT},
};

struct view { /* the list in one of the orders */
    const struct list *w;
    uint64_t n[KINDS], step[KINDS]; /* in the order: how many; how far apart in the list */
    uint64_t count;
};

static struct view view_of(const struct list *w, const uint8_t order[KINDS])
{
    uint64_t threads = (uint64_t)w->of[0] * w->of[1] * w->of[2], blocks = (uint64_t)w->of[3] * w->of[4] * w->of[5];
    const uint64_t n[KINDS] = {threads, w->slots, blocks, w->rounds},
                   step[KINDS] = {1, threads * blocks, threads, threads * blocks * w->slots};
    struct view v = {.w = w, .count = 1};
    for (unsigned k = 0; k < KINDS; k++) {
        v.n[k] = n[order[k]];
        v.step[k] = step[order[k]];
        v.count *= v.n[k];
    }
    return v;
}

static int64_t number(const struct view *v, uint64_t i)
{
    uint64_t at = 0;
    for (unsigned k = 0; k < KINDS; k++) {
        at += i % v->n[k] * v->step[k];
        i /= v->n[k];
    }
    return v->w->at[at];
}

/* Is every step larger than all that the smaller digits and an item add up to? */
static bool apart(const struct rw_places *p)
{
    uint64_t lower = p->item;
    for (unsigned k = p->n; k-- > 0;) {
        if (p->digit[k].step < lower)
            return false;
        lower += (uint64_t)p->digit[k].step * (p->digit[k].n - 1);
    }
    return lower <= UINT32_MAX;
}

/* Take the list apart: count numbers, of which those behind the last element are not there. False: it is no such
 * sum. */
static bool digits(const struct view *v, uint64_t item, struct rw_places *ret)
{
    uint64_t count = v->count, weight = 1;
    *ret = (struct rw_places){.item = (uint32_t)item};
    while (count && number(v, count - 1) == NOWHERE)
        count--;
    for (uint64_t i = 0; i < count; i++)
        if (number(v, i) == NOWHERE)
            return false;
    if (count < 2)
        return false;
    ret->origin = number(v, 0);
    for (uint64_t left = count; left > 1; left = (count + weight - 1) / weight) {
        int64_t step = number(v, weight) - ret->origin;
        uint64_t run = 1;
        while (run < left && number(v, run * weight) == ret->origin + (int64_t)run * step)
            run++;
        if (step <= 0 || (uint64_t)step > UINT32_MAX || ret->n == RW_DIGITS)
            return false;
        unsigned k = ret->n++;
        for (; k && ret->digit[k - 1].step < (uint64_t)step; k--) /* largest step first */
            ret->digit[k] = ret->digit[k - 1];
        ret->digit[k] = (struct rw_place){(uint32_t)step, (uint32_t)run, weight * item};
        weight *= run;
    }
    for (uint64_t i = 0; i < count; i++)
        if (rw_inline_place(ret, number(v, i)) != (int64_t)(i * item))
            return false;
    return apart(ret);
}

/* The place of an offset, which must be that of an item or of a part of one; below 0: it has none. */
int64_t rw_inline_place(const struct rw_places *p, int64_t offset)
{
    int64_t rest = offset - p->origin, place = 0;
    if (rest < 0)
        return -1;
    for (unsigned k = 0; k < p->n; k++) {
        int64_t q = rest / p->digit[k].step;
        if (q >= p->digit[k].n)
            return -1;
        rest -= q * p->digit[k].step;
        place += q * (int64_t)p->digit[k].weight;
    }
    return rest < p->item ? place + rest : -1;
}

/* Places are computed in 32 bits, of offsets before the first and behind the last one too. */
static bool fits(const struct rw_inline *n, const struct rw_places *p)
{
    uint64_t span = (uint64_t)p->digit[0].step * p->digit[0].n + n->graph->buffer[n->buffer].bytes;
    return p->origin >= 0 && span <= UINT32_MAX;
}

int rw_inline_places(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e)
{
    struct list w = {.n = n};
    struct rw_places *p = dt_new(n->arena, struct rw_places);
    w.first = dt_new_array(a, struct first, n->njoint + 1);
    if (!p || !w.first)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_inline_trace(n, n->guest, on_count, &w, RW_NO_thread_map, no, e);
    uint64_t count = (uint64_t)w.rounds * w.slots;
    for (unsigned d = 0; d < 6 && count <= MOST; d++)
        count *= w.of[d];
    if (r < 0 || no->any || w.bad || !count || count > MOST)
        return r;
    if (!(w.at = malloc(count * sizeof *w.at)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint64_t k = 0; k < count; k++)
        w.at[k] = NOWHERE;
    r = rw_inline_trace(n, n->guest, on_put, &w, RW_NO_thread_map, no, e);
    for (unsigned k = 0; k < sizeof orders / sizeof *orders && r == 0 && !no->any && !w.bad && !n->places; k++) {
        struct view v = view_of(&w, orders[k]);
        if (digits(&v, (uint64_t)n->elem * n->joint[0].comps, p) && fits(n, p))
            n->places = p;
    }
    free(w.at);
    return r;
}

/* ---- the trace seen through them --------------------------------------------------------------------------------- */

/* Rounds of an access, each as an access of its own. */
static unsigned rounds_of(const struct rw_inline *n, const struct ana_trace *t)
{
    int64_t most = 1;
    for (uint32_t k = 0; rw_inline_joint_of(n, t) != UINT32_MAX && k < t->n; k++)
        if (t->times[k] > most)
            most = t->times[k];
    return (unsigned)most;
}

/* Access t in the box's block c; of a joint, round r of those that it stands for. */
static void one_access(struct rw_inline_view *x, const struct ana_trace *t, const uint32_t c[3], int64_t r, bool joint,
                       struct ana_trace *ret)
{
    int64_t *base = dt_new_array(&x->arena, int64_t, t->n + 1), *times = NULL, *round = NULL;
    uint16_t *thread = dt_new_array(&x->arena, uint16_t, t->n + 1);
    uint32_t *buffer = dt_new_array(&x->arena, uint32_t, t->n + 1);
    *ret = *t;
    ret->n = 0;
    ret->step[0] = ret->step[1] = ret->step[2] = NULL;
    times = dt_new_array(&x->arena, int64_t, t->n + 1);
    round = dt_new_array(&x->arena, int64_t, t->n + 1);
    int64_t *by = dt_new_array(&x->arena, int64_t, t->n + 1);
    if (dt_arena_failed(&x->arena))
        return;
    for (uint32_t k = 0; k < t->n; k++) {
        int64_t at = t->base[k];
        if (joint && r >= t->times[k])
            continue;
        for (unsigned d = 0; d < 3; d++)
            at += t->step[d] ? t->step[d][k] * c[d] : 0;
        if (joint) {
            at = rw_inline_place(x->n->places, at + r * (t->by ? t->by[k] : 0));
            x->lost |= at < 0;
        }
        thread[ret->n] = t->thread[k];
        buffer[ret->n] = t->buffer[k];
        base[ret->n] = at;
        times[ret->n] = joint ? 1 : t->times[k];
        round[ret->n] = (t->round ? t->round[k] : 0) + (joint ? r : 0);
        by[ret->n++] = t->by ? t->by[k] : 0;
    }
    ret->thread = thread;
    ret->buffer = buffer;
    ret->base = base;
    ret->times = times;
    ret->round = t->round ? round : NULL;
    ret->by = t->by && !joint ? by : NULL;
}

static int one_block(struct rw_inline_view *x, const struct ana_trace_box *b, const uint32_t c[3])
{
    struct ana_trace_box one = {.ext = {1, 1, 1}, .stride = {1, 1, 1}};
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        n += rounds_of(x->n, &b->access[i]);
    struct ana_trace *list = dt_new_array(&x->arena, struct ana_trace, n + 1);
    for (unsigned d = 0; d < 3; d++)
        one.lo[d] = b->lo[d] + c[d] * b->stride[d];
    for (uint32_t i = 0; i < b->n && list; i++) {
        bool joint = rw_inline_joint_of(x->n, &b->access[i]) != UINT32_MAX;
        unsigned rounds = rounds_of(x->n, &b->access[i]);
        for (unsigned r = 0; r < rounds; r++)
            one_access(x, &b->access[i], c, r, joint, &list[one.n++]);
    }
    one.access = list;
    int rc = dt_arena_failed(&x->arena) ? DT_E_NOMEM : x->fn(&one, x->user);
    dt_arena_done(&x->arena);
    return rc;
}

int rw_inline_on_view(const struct ana_trace_box *b, void *user)
{
    uint32_t c[3];
    int r = 0;
    for (c[2] = 0; c[2] < b->ext[2] && r == 0; c[2]++)
        for (c[1] = 0; c[1] < b->ext[1] && r == 0; c[1]++)
            for (c[0] = 0; c[0] < b->ext[0] && r == 0; c[0]++)
                r = one_block(user, b, c);
    return r;
}
