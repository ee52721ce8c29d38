/* Every access of the guest against its slots and digits (threads.c), and against what inlining takes for granted: an
 * element is one thread's, is stored once, and is read where it is written.
 *
 * The guest's trace is gone through once more, record by record. An access to the shared buffer is of a slot, at the
 * offset that the digits give; the smaller digits of no thread add up to the step of a larger one. What all threads
 * have is counted, and so are their stores.
 *
 * A buffer that the guest both reads and writes must be accessed by each element at a place of its own. With one slot
 * and no loop: each thread is at one place of the buffer, and no two threads are at the same. Otherwise: the place is
 * the element's own offset, scaled by the sizes of the elements, plus a constant.
 */
#include "rewrite/inline/inline-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define THREADS 1024

struct cell { /* the place of one lane in one buffer */
    bool set, written;
    int64_t base, step[3];
};

struct own { /* of a buffer that a guest of several slots reads and writes: place = delta + offset * bytes / elem */
    bool set;
    int64_t bytes, delta;
};

/* What is counted while each record is held against slots and digits. */
struct check {
    const struct rw_inline *n;
    struct rw_refusals *no;
    uint64_t units;            /* units that threads have */
    uint64_t lower[RW_DIGITS]; /* by place in digit[]: the most that the smaller digits add up to */
    uint64_t joint_bytes;      /* bytes of joint accesses, each time counted */
    uint64_t *cells, *stores;  /* by buffer: bytes of the threads' own places; bytes of stores */
    struct cell *cell;         /* [nbuffer][THREADS], for one box */
    struct own *own;           /* by buffer */
    bool *use;                 /* by buffer: the guest reads and writes it */
    /* with a loop, for one box, by thread and slot: rounds in which it has the slot; in which it writes for it */
    int64_t (*had)[RW_SLOTS], (*wrote)[RW_SLOTS];
    /* for one box, by thread: slots that it has; that it stores for; that it stores for in the shared buffer */
    uint64_t joint[THREADS], writes[THREADS], back[THREADS];
};

static uint64_t blocks_in(const struct ana_trace_box *b) { return (uint64_t)b->ext[0] * b->ext[1] * b->ext[2]; }

static const struct ptx_inst *inst_of(const struct rw_inline *n, const struct ana_trace *t)
{
    return &n->body[n->guest]->f->inst[t->inst];
}

/* For each digit, the most that the smaller ones add up to. The box's first or last block has the most. */
static void bound(struct check *w, const struct ana_trace_box *b, const uint32_t x[3], unsigned slot, int64_t round,
                  int64_t times)
{
    const struct rw_inline *n = w->n;
    uint64_t sum = 0;
    for (unsigned q = n->ndigit; q-- > 0;) {
        const struct rw_digit *y = &n->digit[q];
        uint32_t first = y->of == RW_SLOT    ? slot / y->weight % y->n
                         : y->of == RW_ROUND ? (uint32_t)round
                         : y->of == RW_TID   ? x[y->comp]
                                             : b->lo[y->comp];
        uint32_t last = first;
        if (y->of == RW_CTAID)
            last += (b->ext[y->comp] - 1) * b->stride[y->comp];
        else if (y->of == RW_ROUND)
            last += (uint32_t)times - 1;
        if (sum > w->lower[q])
            w->lower[q] = sum;
        sum += y->step * (y->down ? y->n - 1 - first : last);
    }
}

static void on_unit(struct check *w, const struct ana_trace_box *b, const struct ana_trace *t, uint32_t k,
                    unsigned slot)
{
    const struct rw_inline *n = w->n;
    uint32_t x[3], thread = t->thread[k];
    int64_t round = t->round ? t->round[k] : 0;
    rw_inline_coords(n, thread, x);
    if (t->round || !(w->joint[thread] >> slot & 1))
        w->units += blocks_in(b) * (uint64_t)t->times[k];
    w->joint[thread] |= UINT64_C(1) << slot;
    w->joint_bytes += blocks_in(b) * n->unit * n->elem * (uint64_t)t->times[k];
    bound(w, b, x, slot, round, t->times[k]);
    if (w->had && w->had[thread][slot] != round)
        rw_no(w->no, RW_NO_thread_map, DT_LAUNCH " does not have its elements once in each round of its loop",
              n->name[n->guest]);
    if (w->had)
        w->had[thread][slot] = round + t->times[k];
}

/* Check lane k's place in a buffer that a guest of one slot reads and writes. */
static void in_cell(struct check *w, const struct ana_trace_box *b, const struct ana_trace *t, uint32_t k)
{
    const struct rw_inline *n = w->n;
    struct cell *z = &w->cell[(size_t)t->buffer[k] * THREADS + t->thread[k]], here = {true, false, t->base[k], {0}};
    for (unsigned d = 0; d < 3; d++)
        here.step[d] = b->ext[d] > 1 ? rw_inline_step(t, d, k) : 0;
    if (t->moves || t->times[k] != 1 ||
        (z->set && (z->base != here.base || memcmp(z->step, here.step, sizeof here.step) || (t->writes && z->written))))
        rw_no(w->no, RW_NO_bystanders,
              "a thread of " DT_LAUNCH " is at several places of " DT_BUFFER ", which it writes, or writes one twice",
              n->name[n->guest], n->graph->buffer[t->buffer[k]].name);
    if (!z->set)
        w->cells[t->buffer[k]] += blocks_in(b) * t->bytes;
    here.written = t->writes || (z->set && z->written);
    *z = here;
}

/* The same for several slots or a loop: the place must be the element's own. */
static void in_own(struct check *w, const struct ana_trace_box *b, const struct ana_trace *t, uint32_t k)
{
    const struct rw_inline *n = w->n;
    struct own *o = &w->own[t->buffer[k]];
    uint32_t x[3], parts = rw_access_parts(inst_of(n, t));
    int64_t bytes = t->bytes / parts;
    bool good = n->loop ? t->loop == n->loop : !t->moves && t->times[k] == 1;
    int64_t round = good && t->round ? t->round[k] : 0;
    rw_inline_coords(n, t->thread[k], x);
    if (good && t->times[k] > 1)
        good = t->by && t->by[k] % bytes == 0 && n->by % n->elem == 0 && t->by[k] / bytes == n->by / n->elem;
    for (unsigned s = 0; s < n->nslot && good; s++) {
        unsigned mask = n->slice[s][t->inst], first = mask ? (unsigned)__builtin_ctz(mask) : 0;
        if (!mask)
            continue;
        int64_t offset = n->at[s] + rw_inline_sum(n, b, x) + round * n->by, place = t->base[k] + first * bytes,
                scaled = offset / n->elem * bytes;
        good &= offset % n->elem == 0 && mask >> first == (1u << n->unit) - 1 &&
                (!o->set || (o->bytes == bytes && o->delta == place - scaled));
        for (unsigned d = 0; d < 3; d++)
            good &= b->ext[d] < 2 ||
                    (rw_inline_step(t, d, k) % bytes == 0 && n->step[3 + d] * b->stride[d] % n->elem == 0 &&
                     rw_inline_step(t, d, k) / bytes == n->step[3 + d] * b->stride[d] / n->elem);
        *o = (struct own){true, bytes, place - scaled};
    }
    if (!good)
        rw_no(w->no, RW_NO_bystanders,
              "a thread of " DT_LAUNCH " is not at its elements' own places of " DT_BUFFER ", which it writes",
              n->name[n->guest], n->graph->buffer[t->buffer[k]].name);
}

static int on_check(const struct ana_trace_box *b, void *user)
{
    struct check *w = user;
    const struct rw_inline *n = w->n;
    uint32_t nbuffer = n->graph->nbuffer;
    memset(w->joint, 0, sizeof w->joint);
    memset(w->writes, 0, sizeof w->writes);
    memset(w->back, 0, sizeof w->back);
    if (w->had) {
        memset(w->had, 0, THREADS * sizeof *w->had);
        memset(w->wrote, 0, THREADS * sizeof *w->wrote);
    }
    for (uint32_t k = 0; k < nbuffer; k++)
        if (w->use[k])
            memset(&w->cell[(size_t)k * THREADS], 0, THREADS * sizeof *w->cell);
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        uint32_t j = rw_inline_joint_of(n, t);
        uint64_t whose = n->nslot < 2;
        if (t->evidence != ANA_PROVED)
            rw_no(w->no, RW_NO_thread_map, DT_LAUNCH " takes addresses from what a buffer holds", n->name[n->guest]);
        for (unsigned s = 0; n->slice && s < n->nslot; s++)
            whose |= (uint64_t)(n->slice[s][t->inst] != 0) << s;
        for (uint32_t k = 0; k < t->n; k++) {
            uint32_t buffer = t->buffer[k];
            if (t->writes)
                w->writes[t->thread[k]] |= whose;
            for (unsigned s = 0; w->had && t->writes && s < n->nslot; s++)
                if (whose >> s & 1) { /* a write outside the loop's rounds counts as beyond all rounds */
                    int64_t end = t->round && t->loop == n->loop ? t->round[k] + t->times[k] : INT64_MAX;
                    if (end > w->wrote[t->thread[k]][s])
                        w->wrote[t->thread[k]][s] = end;
                }
            if (t->writes && buffer == n->buffer)
                w->back[t->thread[k]] |= whose;
            if (buffer < nbuffer && t->writes)
                w->stores[buffer] += blocks_in(b) * t->bytes * (uint64_t)t->times[k];
            if (buffer < nbuffer && w->use[buffer] && (n->nslot > 1 || n->loop))
                in_own(w, b, t, k);
            else if (buffer < nbuffer && w->use[buffer])
                in_cell(w, b, t, k);
            if (j == UINT32_MAX)
                continue;
            bool again = n->host == 0 && (w->back[t->thread[k]] & whose) && !w->had;
            /* earlier rounds wrote other elements */
            for (unsigned s = 0; w->had && n->host == 0 && s < n->nslot; s++)
                again |= (w->back[t->thread[k]] & whose & UINT64_C(1) << s) &&
                         w->wrote[t->thread[k]][s] > (t->round ? t->round[k] : 0);
            if (again)
                rw_no(w->no, RW_NO_bystanders,
                      DT_LAUNCH " reads an element of " DT_BUFFER " again (PTX line %u) that it has written itself",
                      n->name[n->guest], n->graph->buffer[n->buffer].name, inst_of(n, t)->line);
            for (unsigned u = 0; u < n->joint[j].comps / n->unit; u++)
                on_unit(w, b, t, k, n->joint[j].slot[u]);
        }
    }
    for (uint32_t k = 0; k < THREADS; k++) {
        bool less = w->writes[k] & ~w->joint[k];
        for (unsigned s = 0; w->had && s < n->nslot; s++)
            less |= w->wrote[k][s] > w->had[k][s];
        if (less)
            rw_no(w->no, RW_NO_same_elements,
                  "thread %u of " DT_LAUNCH " writes something without having an element of " DT_BUFFER, k,
                  n->name[n->guest], n->graph->buffer[n->buffer].name);
    }
    return 0;
}

static void check_counts(const struct check *w, struct rw_refusals *no, struct dt_arena *a)
{
    const struct rw_inline *n = w->n;
    const struct dt_graph *g = n->graph;
    const char *name = n->name[n->guest], *shared = g->buffer[n->buffer].name;
    struct rw_uses u = n->uses[n->guest][n->buffer];
    for (unsigned q = 0; q < n->ndigit && !no->any; q++)
        if (n->digit[q].step < (uint64_t)n->elem * n->unit + w->lower[q])
            rw_no(no, RW_NO_thread_map, "several threads of " DT_LAUNCH " may have one element of " DT_BUFFER, name,
                  shared);
    uint64_t all = 1;
    for (unsigned q = 0; q < n->ndigit; q++)
        all *= n->digit[q].n;
    /* an element that no round has: its guard may be that of the first round */
    if (!no->any && n->loop && n->partial && w->units != all)
        rw_no(no, RW_NO_thread_map,
              "threads of " DT_LAUNCH " make different numbers of rounds, and " DT_LAUNCH " stores more than they have",
              name, n->name[n->host]);
    if (!no->any && w->units * n->elem * n->unit != ana_set_bytes(n->host == 0 ? u.read : u.must))
        rw_no(no, RW_NO_same_elements, "the threads of " DT_LAUNCH " do not have each byte of " DT_BUFFER " once", name,
              shared);
    if (!no->any && n->host == 1 && (w->joint_bytes != ana_set_bytes(u.must) || !ana_set_contains(u.must, u.write)))
        rw_no(no, RW_NO_stored_once, DT_LAUNCH " stores some byte of " DT_BUFFER " more than once, or perhaps", name,
              shared);
    for (uint32_t b = 0; b < g->nbuffer && !no->any; b++) {
        u = n->uses[n->guest][b];
        if (w->stores[b] != ana_set_bytes(u.write) ||
            (w->use[b] && n->nslot < 2 && !n->loop && w->cells[b] != ana_set_bytes(ana_set_union(a, u.read, u.write))))
            rw_no(no, RW_NO_bystanders, "two threads of " DT_LAUNCH " meet in " DT_BUFFER ", which it writes", name,
                  g->buffer[b].name);
    }
}

int rw_inline_check(const struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e)
{
    size_t nb = n->graph->nbuffer + 1;
    struct check w = {.n = n, .no = no};
    w.cells = dt_new_array(a, uint64_t, nb);
    w.stores = dt_new_array(a, uint64_t, nb);
    w.use = dt_new_array(a, bool, nb);
    w.own = dt_new_array(a, struct own, nb);
    w.cell = dt_calloc(nb * THREADS, sizeof *w.cell);
    w.had = n->loop ? dt_calloc(THREADS, sizeof *w.had) : NULL;
    w.wrote = n->loop ? dt_calloc(THREADS, sizeof *w.wrote) : NULL;
    bool room = !dt_arena_failed(a) && w.cell && (!n->loop || (w.had && w.wrote));
    for (uint32_t b = 0; b < n->graph->nbuffer && room; b++)
        w.use[b] = n->uses[n->guest][b].write.n && n->uses[n->guest][b].read.n;
    int r = room ? rw_inline_trace(n, n->guest, on_check, &w, RW_NO_thread_map, no, e)
                 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && !no->any)
        check_counts(&w, no, a);
    free(w.cell);
    free(w.had);
    free(w.wrote);
    return r;
}
