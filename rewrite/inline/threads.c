/* Which thread of the guest has which element of the shared buffer, and which of the thread's elements it is.
 *
 * Both are computed from the byte offset at which the host accesses the element. Each access of the guest to the shared
 * buffer is taken from the guest's trace (analysis/record/trace.c: exact, for every thread of every block). Every unit
 * of it must be at
 *
 *     offset = at[slot] + sx tid.x + sy tid.y + sz tid.z + bx ctaid.x + by ctaid.y + bz ctaid.z
 *
 * with the same steps (sx … bz) for all threads. Units at the same distance from the thread's place are one slot,
 * whichever instructions move them. The at[] themselves must be sums of digits: the components of a vector, several
 * vectors at even distances. All these numbers together are the digits of the offset. They are sorted by step, and each
 * step must be larger than anything that the smaller digits add up to in any thread that has the access. Then the
 * offset divided by the largest step gives that digit, the remainder gives the next one, and so on. So no two threads
 * have one element, and the element gives block, thread and slot. Steps are taken from the lanes and boxes of the
 * records; none is guessed. A guest that does not fit is refused.
 *
 * If the accesses are in a loop (a grid stride), there is one more digit, the round. All accesses must then be in this
 * one loop, every round must have them, and what a round adds to the offset is the digit's step. (inline/loop.c makes
 * the guest's text that of one round.)
 *
 * Not here: whether every access of every thread is where the digits say (check.c).
 */
#include "rewrite/inline/inline-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define TRIES 32 /* lanes for which a second lane is looked for */

/* The first lane of a box. Two of them give the step of a block number that is the same all over each box. */
struct corner {
    uint32_t lo[3], thread, inst;
    int64_t base;
};

/* What is collected of the steps, over the guest's trace. */
struct walk {
    struct rw_inline *n;
    struct rw_refusals *no;
    bool known[6];         /* n->step[] */
    bool by_known, uneven; /* uneven: it is no sum of steps */
    uint32_t rounds;
    struct dt_vec(struct corner) corner;
    bool *have;     /* per joint instruction: its at[] is known */
    int64_t *at;    /* per joint instruction: the offset of its first unit, less the steps */
    uint32_t of[6]; /* 1 + the largest number that occurs */
};

int rw_inline_trace(const struct rw_inline *n, int side, ana_trace_fn fn, void *user, enum rw_inline_no row,
                    struct rw_refusals *no, struct dt_err *e)
{
    const char *why = NULL;
    struct rw_inline_view view = {.n = n, .fn = fn, .user = user};
    bool through = n->places && side == n->guest;
    int r = ana_trace_launch(n->facts->prog, n->facts->launch[side], through ? rw_inline_on_view : fn,
                             through ? &view : user, &why, e);
    dt_arena_done(&view.arena);
    if (view.lost)
        rw_no(no, row, "elements of " DT_LAUNCH " have no place", n->name[side]);
    if (r == 0)
        rw_no(no, row, DT_LAUNCH " cannot be followed thread by thread: %s", n->name[side], why ? why : "?");
    return r < 0 ? r : 0;
}

void rw_inline_coords(const struct rw_inline *n, uint32_t thread, uint32_t at[3])
{
    const uint32_t *b = n->body[n->guest]->block;
    at[0] = thread % b[0];
    at[1] = thread / b[0] % b[1];
    at[2] = thread / b[0] / b[1];
}

int64_t rw_inline_step(const struct ana_trace *t, unsigned d, uint32_t k) { return t->step[d] ? t->step[d][k] : 0; }

uint32_t rw_inline_joint_of(const struct rw_inline *n, const struct ana_trace *t)
{
    for (uint32_t k = 0; k < n->njoint; k++)
        if (n->joint[k].inst == t->inst)
            return k;
    return UINT32_MAX;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The steps that this record shows: of block numbers by its own steps, of thread numbers by two lanes that differ in
 * one number. */
static void find_steps(struct walk *w, const struct ana_trace_box *b, const struct ana_trace *t)
{
    struct rw_inline *n = w->n;
    uint32_t x[3], y[3];
    for (unsigned d = 0; d < 3; d++)
        for (uint32_t k = 0; n->body[n->guest]->block[d] > 1 && k < t->n && k < TRIES && !w->known[d]; k++)
            for (uint32_t q = k + 1; q < t->n && !w->known[d]; q++) {
                rw_inline_coords(n, t->thread[k], x);
                rw_inline_coords(n, t->thread[q], y);
                if (t->round && (t->round[k] || t->round[q]))
                    continue;
                int64_t way = t->base[q] - t->base[k], by = (int64_t)y[d] - x[d];
                if (!by || x[(d + 1) % 3] != y[(d + 1) % 3] || x[(d + 2) % 3] != y[(d + 2) % 3] || way % by)
                    continue;
                n->step[d] = way / by;
                w->known[d] = true;
            }
    for (unsigned d = 0; d < 3; d++)
        if (!w->known[3 + d] && b->ext[d] > 1 && t->n && rw_inline_step(t, d, 0) % b->stride[d] == 0) {
            n->step[3 + d] = rw_inline_step(t, d, 0) / b->stride[d];
            w->known[3 + d] = true;
        }
}

/* What a round adds: from the record, or from it and the record of the thread's first round. */
static void find_round(struct walk *w, const struct ana_trace_box *b, uint32_t i)
{
    struct rw_inline *n = w->n;
    const struct ana_trace *t = &b->access[i], *o = b->access;
    for (uint32_t k = 0; k < t->n && !w->by_known; k++)
        if (t->by && t->times[k] > 1) {
            n->by = t->by[k];
            w->by_known = true;
        }
    for (; o < t && !w->by_known && t->n && t->round && t->round[0]; o++)
        for (uint32_t k = 0; o->inst == t->inst && o->round && k < o->n && !w->by_known; k++)
            if (o->thread[k] == t->thread[0] && !o->round[k] && (t->base[0] - o->base[k]) % t->round[0] == 0) {
                n->by = (t->base[0] - o->base[k]) / t->round[0];
                w->by_known = true;
            }
}

/* Does the corner differ from the first one in just one number? */
static bool useful(const struct walk *w, const struct corner *x)
{
    const struct corner *v = w->corner.p;
    unsigned differ = 0;
    for (unsigned k = 0; k < 3 && w->corner.n; k++)
        differ += v->lo[k] != x->lo[k];
    return !w->corner.n || (differ == 1 && x->inst == v->inst && w->corner.n < 4096);
}

static int on_steps(const struct ana_trace_box *b, void *user)
{
    struct walk *w = user;
    struct rw_inline *n = w->n;
    int r = 0;
    for (uint32_t k = 0; k < b->n && r == 0; k++) {
        const struct ana_trace *t = &b->access[k];
        if (!t->n || rw_inline_joint_of(n, t) == UINT32_MAX)
            continue;
        if (n->loop == UINT32_MAX)
            n->loop = t->loop;
        if (t->loop != n->loop || t->loop == UINT32_MAX)
            rw_no(w->no, RW_NO_thread_map, "the elements that a thread of " DT_LAUNCH " has are not all in one loop",
                  n->name[n->guest]);
        find_steps(w, b, t);
        find_round(w, b, k);
        struct corner x = {{b->lo[0], b->lo[1], b->lo[2]}, t->thread[0], t->inst, t->base[0]};
        if (!(t->round && t->round[0]) && useful(w, &x) && !dt_push(&w->corner, x))
            r = DT_E_NOMEM;
    }
    return r;
}

/* Steps of block numbers that are the same all over each box: from pairs of boxes. */
static void more_steps(struct walk *w)
{
    struct rw_inline *n = w->n;
    const struct corner *v = w->corner.p;
    for (size_t i = 1; i < w->corner.n; i++) {
        unsigned differ = 0, d = 0;
        uint32_t x[3], y[3];
        for (unsigned k = 0; k < 3; k++)
            if (v[i].lo[k] != v[0].lo[k] && !w->known[3 + k]) {
                differ++;
                d = k;
            }
        if (differ != 1 || v[i].inst != v[0].inst)
            continue;
        int64_t way = v[i].base - v[0].base;
        rw_inline_coords(n, v[0].thread, x);
        rw_inline_coords(n, v[i].thread, y);
        for (unsigned k = 0; k < 3; k++) {
            way -= n->step[k] * ((int64_t)y[k] - x[k]);
            if (k != d)
                way -= n->step[3 + k] * ((int64_t)v[i].lo[k] - v[0].lo[k]);
        }
        int64_t by = (int64_t)v[i].lo[d] - v[0].lo[d];
        if (way % by == 0) {
            n->step[3 + d] = way / by;
            w->known[3 + d] = true;
        }
    }
}

/* ---- where each instruction begins ------------------------------------------------------------------------------- */

int64_t rw_inline_sum(const struct rw_inline *n, const struct ana_trace_box *b, const uint32_t x[3])
{
    int64_t at = 0;
    for (unsigned d = 0; d < 3; d++)
        at += n->step[d] * x[d] + n->step[3 + d] * b->lo[d];
    return at;
}

static int on_begin(const struct ana_trace_box *b, void *user)
{
    struct walk *w = user;
    struct rw_inline *n = w->n;
    uint32_t x[3];
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        uint32_t j = rw_inline_joint_of(n, t);
        for (uint32_t k = 0; j != UINT32_MAX && k < t->n; k++) {
            rw_inline_coords(n, t->thread[k], x);
            int64_t round = t->round ? t->round[k] : 0, at = t->base[k] - rw_inline_sum(n, b, x) - round * n->by;
            bool good = (!w->have[j] || at == w->at[j]) &&
                        (t->round ? t->times[k] == 1 || (t->by && t->by[k] == n->by) : !t->moves && t->times[k] == 1);
            if (good && round + t->times[k] > w->rounds)
                w->rounds = round + t->times[k] > UINT32_MAX ? UINT32_MAX : (uint32_t)(round + t->times[k]);
            w->at[j] = at;
            w->have[j] = true;
            for (unsigned d = 0; d < 3; d++) {
                uint32_t last = b->lo[d] + (b->ext[d] - 1) * b->stride[d];
                good &= b->ext[d] < 2 || rw_inline_step(t, d, k) == n->step[3 + d] * b->stride[d];
                if (x[d] + 1 > w->of[d])
                    w->of[d] = x[d] + 1;
                if (last + 1 > w->of[3 + d])
                    w->of[3 + d] = last + 1;
            }
            if (t->buffer[k] != n->buffer)
                rw_no(w->no, RW_NO_plain_sites, "an access of " DT_LAUNCH " reaches another buffer", n->name[n->guest]);
            if (!good) {
                w->uneven = true;
                rw_no(w->no, RW_NO_thread_map,
                      "%s of " DT_LAUNCH " to thread numbers is not one sum of steps (thread %u of block %u,%u,%u)",
                      n->host ? "what each thread writes" : "what each thread reads", n->name[n->guest], t->thread[k],
                      b->lo[0], b->lo[1], b->lo[2]);
                return 0;
            }
        }
    }
    return 0;
}

/* ---- slots and digits -------------------------------------------------------------------------------------------- */

static void add_digit(struct rw_inline *n, struct rw_digit x)
{
    unsigned at = n->ndigit++;
    for (; at && n->digit[at - 1].step < x.step; at--)
        n->digit[at] = n->digit[at - 1];
    n->digit[at] = x;
}

/* Make the slots: the distances of the units from their threads' places, each once. */
static bool make_slots(struct walk *w)
{
    struct rw_inline *n = w->n;
    int64_t bytes = (int64_t)n->elem * n->unit;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t j = 0; j < n->njoint; j++)
            for (unsigned u = 0; w->have[j] && u < n->joint[j].comps / n->unit; u++) {
                int64_t at = w->at[j] + u * bytes;
                unsigned k = 0, q = n->nslot;
                while (k < n->nslot && n->at[k] < at)
                    k++;
                if (pass) {
                    n->joint[j].slot[u] = (uint8_t)k;
                    continue;
                }
                if (k < n->nslot && n->at[k] == at)
                    continue;
                if (n->nslot == RW_SLOTS)
                    return false;
                for (n->nslot++; q > k; q--)
                    n->at[q] = n->at[q - 1];
                n->at[k] = at;
            }
    uint32_t m = 0;
    for (uint32_t j = 0; j < n->njoint; j++) /* drop those that no thread reaches */
        if (w->have[j])
            n->joint[m++] = n->joint[j];
    n->njoint = m;
    return n->nslot;
}

/* Take at[] apart into digits: a run of equal steps, then runs of such runs, and so on. False: it is no such sum. */
static bool slot_digits(struct rw_inline *n)
{
    int64_t v[RW_SLOTS];
    unsigned m = n->nslot, weight = 1;
    memcpy(v, n->at, sizeof v);
    while (m > 1) {
        int64_t step = v[1] - v[0];
        unsigned run = 1, k = 0;
        while (run < m && v[run] == v[0] + (int64_t)run * step)
            run++;
        if (m % run || n->ndigit + 7 >= RW_DIGITS)
            return false;
        while (k < m && v[k] == v[k - k % run] + (int64_t)(k % run) * step)
            k++;
        if (k < m)
            return false;
        add_digit(n, (struct rw_digit){.of = RW_SLOT, .weight = weight, .step = (uint64_t)step, .n = run});
        for (k = 0; k < m / run; k++)
            v[k] = v[k * run];
        m /= run;
        weight *= run;
    }
    return true;
}

static void make_digits(struct walk *w, struct rw_refusals *no)
{
    struct rw_inline *n = w->n;
    const char *name = n->name[n->guest];
    if (!make_slots(w)) {
        rw_no(no, RW_NO_thread_map, "threads of " DT_LAUNCH " have %s", name,
              n->nslot ? "too many elements each" : "none");
        n->nslot = n->nslot ? n->nslot : 1;
    } else if (!slot_digits(n)) {
        w->uneven = true;
        rw_no(no, RW_NO_thread_map, "the elements that a thread of " DT_LAUNCH " has do not lie at even distances",
              name);
    }
    n->origin = n->at[0];
    for (int d = 0; d < 7; d++) {
        int64_t step = d < 6 ? n->step[d] : n->by;
        struct rw_digit x = {.of = d < 3   ? RW_TID
                                   : d < 6 ? RW_CTAID
                                           : RW_ROUND,
                             .comp = d % 3,
                             .step = (uint64_t)llabs(step),
                             .down = step < 0,
                             .n = d < 6 ? w->of[d] : w->rounds};
        if (x.n <= 1)
            continue;
        if (x.down)
            n->origin += step * (int64_t)(x.n - 1);
        add_digit(n, x);
    }
    uint64_t span = 0;
    for (unsigned k = 0; k < n->ndigit && span <= UINT32_MAX; k++)
        span = n->digit[k].step > UINT32_MAX ? UINT64_MAX : span + n->digit[k].step * (n->digit[k].n - 1);
    /* offsets from the origin are 32 bits wide, also those below it */
    if (span > UINT32_MAX || (n->partial && span + n->graph->buffer[n->buffer].bytes > UINT32_MAX))
        rw_no(no, RW_NO_thread_map, "what " DT_LAUNCH " touches is over 4 GiB long", name);
}

static int find_digits(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, bool *ret_uneven,
                       struct dt_err *e)
{
    struct walk w = {.n = n, .no = no};
    w.have = dt_new_array(a, bool, n->njoint + 1);
    w.at = dt_new_array(a, int64_t, n->njoint + 1);
    if (dt_arena_failed(a))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    n->loop = UINT32_MAX;
    int r = rw_inline_trace(n, n->guest, on_steps, &w, RW_NO_thread_map, no, e);
    if (n->loop == UINT32_MAX)
        n->loop = 0;
    if (r == 0 && !no->any) {
        more_steps(&w);
        r = rw_inline_trace(n, n->guest, on_begin, &w, RW_NO_thread_map, no, e);
    }
    if (r == 0 && !no->any)
        make_digits(&w, no);
    free(w.corner.p);
    *ret_uneven = w.uneven;
    return r;
}

int rw_inline_threads(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e)
{
    struct rw_inline before = *n;
    struct rw_refusals none = {.arena = no->arena};
    bool uneven = false;
    int r = find_digits(n, no, a, &uneven, e);
    if (r < 0 || !uneven)
        return r;
    if ((r = rw_inline_places(&before, &none, a, e)) < 0 || !before.places)
        return r;
    *n = before;
    *no = none;
    return find_digits(n, no, a, &uneven, e);
}
