/* Buffers out of allocations: which bytes belong together, from when until when.
 *
 * Each memory is cut into strips where any operation's bytes begin or end. A strip has values one after another: a new
 * one begins where an operation surely overwrites all of it and does not read it. What one operation reaches through
 * one address must lie together, so these values are joined (an access belongs to the last address at or before it;
 * one that runs on past another address joins the two). What is joined in the end is a buffer: the same memory used
 * again for something else is another buffer, and neighbours that nothing reaches together are apart. Variables of
 * modules stay whole.
 *
 * Whoever reads before anything of the range has surely written needs content from before. After the range the rest of
 * the trace is looked through: what is read while it still holds a value of the range has an outside reader. A launch
 * that is like one of the range touches what that one does; of any other, every memory that it is given counts as read.
 * A value is final where nothing of its buffer overwrites it: the copies to the host that find it there need no step.
 * A copy from the host is its buffer's content where nothing touched these bytes of the buffer before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture-priv.h"

#define MAX_VALUES (64u << 20)
#define MOST_CONTENT (192u << 20) /* as base64 it is all that a document may have */
#define MOST_PIECES 2048u         /* a document has 4,096 buffers at most, those of copies among them */
enum { READ = 1, WRITE = 2, MAY = 4, GIVEN = 8, TAKEN = 16 };

struct value {
    uint32_t up, mem; /* up: union-find */
    uint64_t lo, hi;
    bool initial, outside;
    uint32_t piece; /* of a root */
};
struct event {
    uint32_t strip, value, op, how, root;
};
struct reach { /* of one operation: a strip, through an address */
    uint32_t strip, slot, how;
};
struct pieces {
    struct cap_trace *t;
    const struct cap_range *r;
    struct dt_vec(uint64_t) * cut; /* by memory: ends of strips */
    uint32_t *first;               /* by memory: its first strip */
    uint32_t *now;                 /* by strip: its value, CAP_NONE */
    uint32_t *before, *last;       /* by strip: a value from before the range, and the one that is left; CAP_NONE */
    uint32_t *variable;            /* by memory: a value of a module's variable, which is one buffer */
    uint32_t nstrip;
    struct dt_vec(struct value) value;
    struct dt_vec(struct event) event;
    struct dt_vec(struct reach) reach;
    uint32_t **of;
    bool whole; /* memory that is used again stays one buffer */
    bool nomem;
};

/* ---- strips ---- */
static void cut_at(struct pieces *s, uint32_t mem, uint64_t at)
{
    if (at <= s->t->memory.p[mem].bytes && !dt_push(&s->cut[mem], at))
        s->nomem = true;
}

static int piece_by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void cut_set(struct pieces *s, uint32_t mem, const struct cap_set_of *x)
{
    for (size_t i = 0; i < x->n; i++) {
        cut_at(s, mem, x->p[i].lo);
        cut_at(s, mem, x->p[i].hi);
    }
}

static bool cut_all(struct pieces *s)
{
    for (uint32_t i = s->r->begin; i < s->r->end; i++) {
        const struct cap_op *o = &s->t->op.p[i];
        for (uint32_t k = 0; k < o->ntouch; k++) {
            cut_set(s, o->touch[k].mem, &o->touch[k].read);
            cut_set(s, o->touch[k].mem, &o->touch[k].write);
            cut_set(s, o->touch[k].mem, &o->touch[k].may);
        }
        for (uint32_t k = 0; k < o->npoint; k++) {
            cut_at(s, o->point[k].mem, o->point[k].off);
            cut_at(s, o->point[k].mem, o->point[k].off + 1);
        }
    }
    uint64_t total = 0;
    for (size_t m = 0; m < s->t->memory.n; m++) {
        size_t n = 0;
        uint64_t *p = s->cut[m].p;
        if (s->cut[m].n)
            qsort(p, s->cut[m].n, sizeof *p, piece_by_number);
        for (size_t i = 0; i < s->cut[m].n; i++)
            if (!n || p[i] != p[n - 1])
                p[n++] = p[i];
        s->cut[m].n = n;
        s->first[m] = (uint32_t)total;
        total += n ? n - 1 : 0;
    }
    s->nstrip = (uint32_t)total;
    s->now = total <= MAX_VALUES ? dt_malloc(3 * (total + 1) * sizeof *s->now) : NULL;
    if (!s->now)
        return false;
    s->before = s->now + total + 1;
    s->last = s->before + total + 1;
    for (size_t i = 0; i < 3 * (total + 1); i++)
        s->now[i] = CAP_NONE;
    return !s->nomem;
}

/* The strips of [lo, hi) of a memory: *from to *to. */
static void piece_strips(const struct pieces *s, uint32_t mem, uint64_t lo, uint64_t hi, uint32_t *from, uint32_t *to)
{
    const uint64_t *p = s->cut[mem].p;
    size_t n = s->cut[mem].n, a = 0, b = n;
    while (a < b) { /* the first cut behind lo */
        size_t mid = (a + b) / 2;
        if (p[mid] > lo)
            b = mid;
        else
            a = mid + 1;
    }
    *from = *to = s->first[mem] + (uint32_t)(a ? a - 1 : 0);
    for (size_t i = a ? a - 1 : 0; i + 1 < n && p[i] < hi; i++)
        *to = s->first[mem] + (uint32_t)i + 1;
}

static uint64_t strip_lo(const struct pieces *s, uint32_t mem, uint32_t strip)
{
    return s->cut[mem].p[strip - s->first[mem]];
}
static uint64_t strip_hi(const struct pieces *s, uint32_t mem, uint32_t strip)
{
    return s->cut[mem].p[strip - s->first[mem] + 1];
}

/* ---- values ---- */
static uint32_t root_of(struct pieces *s, uint32_t v)
{
    while (s->value.p[v].up != v)
        v = s->value.p[v].up = s->value.p[s->value.p[v].up].up;
    return v;
}

static uint32_t piece_join(struct pieces *s, uint32_t a, uint32_t b)
{
    if (a == CAP_NONE)
        return b;
    a = root_of(s, a);
    b = root_of(s, b);
    struct value *x = &s->value.p[a], *y = &s->value.p[b];
    if (a == b)
        return a;
    y->up = a;
    x->lo = y->lo < x->lo ? y->lo : x->lo;
    x->hi = y->hi > x->hi ? y->hi : x->hi;
    x->initial |= y->initial;
    x->outside |= y->outside;
    return a;
}

static uint32_t value_new(struct pieces *s, uint32_t mem, uint64_t lo, uint64_t hi, bool initial)
{
    uint32_t v = (uint32_t)s->value.n;
    if (v >= MAX_VALUES || !dt_push(&s->value, (struct value){v, mem, lo, hi, initial, false, CAP_NONE})) {
        s->nomem = true;
        return CAP_NONE;
    }
    return v;
}

/* ---- one operation ---- */
struct slot { /* an address of the operation in the memory */
    uint64_t off;
    uint32_t up, value;
};

static uint32_t slot_root(struct slot *p, uint32_t i)
{
    while (p[i].up != i)
        i = p[i].up;
    return i;
}

static void piece_reach(struct pieces *s, uint32_t mem, const struct cap_set_of *x, uint32_t how, struct slot *slot,
                        uint32_t n)
{
    for (size_t i = 0; i < x->n; i++) {
        uint32_t k = 0, from, to;
        while (k + 1 < n && slot[k + 1].off <= x->p[i].lo)
            k++;
        for (uint32_t j = k + 1; j < n && slot[j].off < x->p[i].hi; j++)
            slot[slot_root(slot, j)].up = slot_root(slot, k);
        piece_strips(s, mem, x->p[i].lo, x->p[i].hi, &from, &to);
        for (; from < to; from++)
            if (!dt_push(&s->reach, (struct reach){from, k, how}))
                s->nomem = true;
    }
}

static int by_strip(const void *a, const void *b)
{
    const struct reach *x = a, *y = b;
    return x->strip < y->strip ? -1 : x->strip > y->strip;
}

static uint32_t value_at(struct pieces *s, uint32_t mem, uint32_t strip, bool fresh)
{
    bool fixed = s->t->memory.p[mem].image != CAP_NONE, first = s->now[strip] == CAP_NONE;
    if (first || (fresh && !fixed && !s->whole))
        s->now[strip] = value_new(s, mem, strip_lo(s, mem, strip), strip_hi(s, mem, strip), !fresh || fixed);
    if (first && !fresh)
        s->before[strip] = s->now[strip];
    if (fixed && s->now[strip] != CAP_NONE)
        s->variable[mem] = piece_join(s, s->variable[mem], s->now[strip]);
    return s->now[strip];
}

static void operate_on(struct pieces *s, uint32_t op, uint32_t mem, struct slot *slot, uint32_t n)
{
    struct cap_op *o = &s->t->op.p[op];
    uint32_t extra = o->kind == CAP_GIVE ? GIVEN : o->kind == CAP_TAKE ? TAKEN : 0;
    s->reach.n = 0;
    for (uint32_t k = 0; k < o->ntouch; k++)
        if (o->touch[k].mem == mem) {
            piece_reach(s, mem, &o->touch[k].read, READ, slot, n);
            piece_reach(s, mem, &o->touch[k].write, WRITE, slot, n);
            piece_reach(s, mem, &o->touch[k].may, MAY, slot, n);
        }
    if (s->reach.n)
        qsort(s->reach.p, s->reach.n, sizeof *s->reach.p, by_strip);
    for (size_t i = 0, j; i < s->reach.n && !s->nomem; i = j) {
        uint32_t how = 0, k = slot_root(slot, s->reach.p[i].slot), strip = s->reach.p[i].strip;
        for (j = i; j < s->reach.n && s->reach.p[j].strip == strip; j++) {
            how |= s->reach.p[j].how;
            slot[slot_root(slot, s->reach.p[j].slot)].up = k;
        }
        uint32_t v = value_at(s, mem, strip, how == WRITE);
        if (v == CAP_NONE || !dt_push(&s->event, (struct event){strip, v, op, how | extra, 0})) {
            s->nomem = true;
            return;
        }
        /* what the host takes piece by piece need not lie together */
        if (o->kind != CAP_TAKE && o->kind != CAP_GIVE)
            slot[k].value = piece_join(s, slot[k].value, v);
    }
    for (uint32_t k = 0; k < n && !s->nomem && o->kind != CAP_TAKE && o->kind != CAP_GIVE; k++) {
        struct slot *x = &slot[slot_root(slot, k)];
        uint32_t from, to;
        if (x->value == CAP_NONE) { /* nothing is reached through it */
            piece_strips(s, mem, slot[k].off, slot[k].off + 1, &from, &to);
            bool had = s->now[from] != CAP_NONE;
            uint32_t v = value_at(s, mem, from, false);
            if (v != CAP_NONE && !had)
                s->value.p[v].initial = false;
            x->value = v;
        }
    }
}

static void operate(struct pieces *s, uint32_t op)
{
    struct cap_op *o = &s->t->op.p[op];
    uint32_t *of = s->of[op - s->r->begin];
    struct slot *slot = dt_malloc((o->npoint + 1) * sizeof *slot);
    if (!slot) {
        s->nomem = true;
        return;
    }
    for (uint32_t i = 0; i < o->npoint + o->ntouch && !s->nomem; i++) {
        uint32_t mem = i < o->npoint ? o->point[i].mem : o->touch[i - o->npoint].mem, n = 0;
        bool done = false;
        for (uint32_t k = 0; k < i; k++)
            done = done || (k < o->npoint ? o->point[k].mem : o->touch[k - o->npoint].mem) == mem;
        if (done)
            continue;
        for (uint32_t k = 0; k < o->npoint; k++) { /* by offset, each once */
            if (o->point[k].mem != mem)
                continue;
            uint32_t at = n;
            while (at && slot[at - 1].off > o->point[k].off)
                at--;
            if (at && slot[at - 1].off == o->point[k].off)
                continue;
            memmove(slot + at + 1, slot + at, (n - at) * sizeof *slot);
            slot[at].off = o->point[k].off;
            n++;
        }
        if (!n) /* a variable, which the kernel names itself */
            slot[n++].off = 0;
        for (uint32_t k = 0; k < n; k++)
            slot[k].up = k, slot[k].value = CAP_NONE;
        operate_on(s, op, mem, slot, n);
        for (uint32_t k = 0; k < o->npoint; k++)
            for (uint32_t j = 0; j < n && o->point[k].mem == mem; j++)
                if (slot[j].off == o->point[k].off)
                    of[k] = slot[slot_root(slot, j)].value;
    }
    free(slot);
}

/* ---- what comes after the range ---- */
static void after_read(struct pieces *s, uint32_t mem, uint64_t lo, uint64_t hi)
{
    uint32_t from, to;
    if (!s->cut[mem].n)
        return;
    for (piece_strips(s, mem, lo, hi, &from, &to); from < to; from++)
        if (s->now[from] != CAP_NONE && strip_hi(s, mem, from) > lo)
            s->value.p[root_of(s, s->now[from])].outside = true;
}

static void after_write(struct pieces *s, uint32_t mem, uint64_t lo, uint64_t hi)
{
    uint32_t from, to;
    if (!s->cut[mem].n)
        return;
    for (piece_strips(s, mem, lo, hi, &from, &to); from < to; from++)
        if (strip_lo(s, mem, from) >= lo && strip_hi(s, mem, from) <= hi)
            s->now[from] = CAP_NONE;
}

static const struct cap_op *piece_alike(const struct pieces *s, uint32_t op)
{
    const struct cap_range *r = s->r;
    const struct cap_op *o = &s->t->op.p[op],
                        *guess = r->period ? &s->t->op.p[r->begin + (op - r->begin) % r->period] : NULL;
    if (guess && guess < &s->t->op.p[r->end] && cap_same_launch(guess, o))
        return guess;
    for (uint32_t i = r->begin; i < r->end; i++)
        if (cap_same_launch(&s->t->op.p[i], o))
            return &s->t->op.p[i];
    return NULL;
}

static void after_touch(struct pieces *s, const struct cap_touch *x)
{
    for (size_t i = 0; i < x->read.n; i++)
        after_read(s, x->mem, x->read.p[i].lo, x->read.p[i].hi);
    for (size_t i = 0; i < x->may.n; i++)
        after_read(s, x->mem, x->may.p[i].lo, x->may.p[i].hi);
    for (size_t i = 0; i < x->write.n; i++)
        after_write(s, x->mem, x->write.p[i].lo, x->write.p[i].hi);
}

static void after(struct pieces *s)
{
    struct cap_trace *t = s->t;
    bool ended = t->ended;
    for (uint32_t i = s->r->end; i < t->op.n && ended; i++) {
        const struct cap_op *o = &t->op.p[i], *same = o->kind == CAP_KERNEL ? piece_alike(s, i) : NULL;
        for (uint32_t k = 0; same && k < same->ntouch; k++)
            if (cap_names_memory(t, o, same->touch[k].mem))
                after_touch(s, &same->touch[k]);
        for (uint32_t k = 0; same && k < o->npoint; k++) /* another's address then */
            if (!cap_names_memory(t, same, o->point[k].mem))
                after_read(s, o->point[k].mem, 0, t->memory.p[o->point[k].mem].bytes);
        for (uint32_t k = 0; !same && k < o->npoint; k++) {
            uint32_t mem = o->point[k].mem;
            bool reads = o->kind == CAP_TAKE || (o->kind == CAP_DEVICE_COPY && k == 1);
            if (o->kind == CAP_KERNEL)
                after_read(s, mem, 0, t->memory.p[mem].bytes);
            else if (reads)
                after_read(s, mem, o->point[k].off, o->point[k].off + o->bytes);
        }
        for (uint32_t k = 0; !same && o->kind != CAP_KERNEL && o->kind != CAP_TAKE && k < o->npoint && k < 1; k++)
            after_write(s, o->point[k].mem, o->point[k].off, o->point[k].off + o->bytes);
        for (size_t v = 0; !same && o->kind == CAP_KERNEL && v < t->variable.n; v++)
            if (t->memory.p[t->variable.p[v]].image == t->entry.p[o->launch.function].image)
                after_read(s, t->variable.p[v], 0, t->memory.p[t->variable.p[v]].bytes);
        ended = o->kind != CAP_CUT;
    }
    for (uint32_t m = 0; m < t->memory.n; m++)
        if (!ended || t->memory.p[m].how != CAP_DEVICE_MEMORY)
            after_read(s, m, 0, t->memory.p[m].bytes);
}

/* A step is repeated: its own next pass reads what it leaves, whether the trace has one or not. */
static void again(struct pieces *s)
{
    memcpy(s->now, s->last, s->nstrip * sizeof *s->now);
    for (uint32_t i = s->r->begin; i < s->r->end && s->r->period; i++)
        for (uint32_t k = 0; k < s->t->op.p[i].ntouch; k++)
            after_touch(s, &s->t->op.p[i].touch[k]);
}

/* The state of a step that is repeated: where a value from before was, and one stays that others read. */
static void states(struct pieces *s)
{
    for (uint32_t i = 0; i < s->nstrip && s->r->period; i++)
        if (s->before[i] != CAP_NONE && s->last[i] != CAP_NONE && s->value.p[root_of(s, s->last[i])].outside)
            piece_join(s, s->before[i], s->last[i]);
}

/* ---- the buffers ---- */
static int piece_by_place(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->root != y->root)
        return x->root < y->root ? -1 : 1;
    if (x->strip != y->strip)
        return x->strip < y->strip ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static uint32_t piece_numbered(struct pieces *s, struct cap_pieces *ret, uint32_t root)
{
    struct value *v = &s->value.p[root];
    if (v->piece != CAP_NONE)
        return v->piece;
    const struct cap_memory *m = &s->t->memory.p[v->mem];
    bool variable = m->image != CAP_NONE;
    uint64_t lo = variable ? 0 : v->lo - (v->lo + m->at) % 256 * (v->lo >= (v->lo + m->at) % 256);
    struct cap_piece p = {.mem = v->mem,
                          .root = root,
                          .lo = lo,
                          .hi = variable ? m->bytes : v->hi,
                          .initial = v->initial,
                          .outside = v->outside};
    p.name = variable ? dt_arena_printf(&s->t->arena, "%s::%s", cap_image_name(s->t, m->image), m->name)
                      : dt_arena_printf(&s->t->arena, "b%zu", ret->piece.n);
    v->piece = (uint32_t)ret->piece.n;
    if (!dt_push(&ret->piece, p))
        s->nomem = true;
    return v->piece;
}

static void extra_add(struct pieces *s, struct cap_pieces *ret, const struct event *e, uint32_t mem, bool as_it_is)
{
    uint64_t lo = strip_lo(s, mem, e->strip), hi = strip_hi(s, mem, e->strip);
    struct cap_extra x = {.op = e->op,
                          .piece = s->value.p[e->root].piece,
                          .lo = lo,
                          .hi = hi,
                          .folded = e->how & GIVEN && as_it_is,
                          .final = e->how & TAKEN && as_it_is};
    if (!dt_push(&ret->extra, x))
        s->nomem = true;
}

static int by_op(const void *a, const void *b)
{
    const struct cap_extra *x = a, *y = b;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    if (x->piece != y->piece)
        return x->piece < y->piece ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Neighbours that are alike become one. */
static void extras_join(struct cap_pieces *ret)
{
    size_t n = 0;
    struct cap_extra *p = ret->extra.p;
    if (ret->extra.n)
        qsort(p, ret->extra.n, sizeof *p, by_op);
    for (size_t i = 0; i < ret->extra.n; i++)
        if (n && p[n - 1].op == p[i].op && p[n - 1].piece == p[i].piece && p[n - 1].hi == p[i].lo &&
            p[n - 1].folded == p[i].folded && p[n - 1].final == p[i].final)
            p[n - 1].hi = p[i].hi;
        else
            p[n++] = p[i];
    ret->extra.n = n;
}

static void events_read(struct pieces *s, struct cap_pieces *ret)
{
    struct event *p = s->event.p;
    size_t n = s->event.n;
    for (size_t i = 0; i < n; i++)
        p[i].root = root_of(s, p[i].value);
    for (uint32_t i = s->r->begin; i < s->r->end; i++) /* pieces are numbered by first use */
        for (uint32_t k = 0;
             k < s->t->op.p[i].npoint && s->t->op.p[i].kind != CAP_GIVE && s->t->op.p[i].kind != CAP_TAKE; k++)
            if (s->of[i - s->r->begin][k] != CAP_NONE)
                s->of[i - s->r->begin][k] = piece_numbered(s, ret, root_of(s, s->of[i - s->r->begin][k]));
    if (n)
        qsort(p, n, sizeof *p, piece_by_place);
    for (size_t i = 0, j; i < n && !s->nomem; i = j) {
        uint32_t piece = piece_numbered(s, ret, p[i].root), last = 0, mem = s->value.p[p[i].root].mem;
        if (s->nomem)
            return;
        struct cap_piece *q = &ret->piece.p[piece];
        for (j = i; j < n && p[j].root == p[i].root && p[j].strip == p[i].strip; j++)
            if (p[j].how & (WRITE | MAY))
                last = p[j].op;
        for (size_t k = i; k < j; k++) {
            bool folded = k == i && p[k].how & GIVEN, final = p[k].how & TAKEN && last <= p[k].op;
            q->written = q->written || (p[k].how & (WRITE | MAY) && !folded);
            q->needs = q->needs || folded;
            q->outside = q->outside || final;
            if (p[k].how & (GIVEN | TAKEN))
                extra_add(s, ret, &p[k], mem, folded || final);
        }
        q->needs = q->needs || q->initial;
    }
    extras_join(ret);
}

/* What a buffer holds where the range begins. */
static void content(struct pieces *s, struct cap_pieces *ret)
{
    for (size_t i = 0; i < ret->piece.n && !s->nomem; i++) {
        struct cap_piece *p = &ret->piece.p[i];
        const struct cap_memory *m = &s->t->memory.p[p->mem];
        const uint8_t *from = m->content ? m->content : m->init;
        if (!p->needs)
            continue;
        p->known = (!p->initial || from || m->image != CAP_NONE) && p->hi - p->lo <= MOST_CONTENT;
        for (uint64_t k = s->value.p[p->root].lo; k < p->hi && m->valid && p->initial && p->known; k++)
            p->known = m->valid[k];
        p->data = p->known ? dt_calloc(1, p->hi - p->lo) : NULL;
        s->nomem = s->nomem || (p->known && !p->data);
        p->module = m->image != CAP_NONE && !m->content;
        if (p->data && from && p->initial)
            memcpy(p->data, from + p->lo, p->hi - p->lo);
    }
    for (size_t i = 0; i < ret->extra.n && !s->nomem; i++) {
        const struct cap_extra *x = &ret->extra.p[i];
        struct cap_piece *p = &ret->piece.p[x->piece];
        const struct cap_op *o = &s->t->op.p[x->op];
        if (!x->folded)
            continue;
        p->module = false;
        if (o->data && p->data)
            memcpy(p->data + (x->lo - p->lo), o->data + (x->lo - o->point[0].off), x->hi - x->lo);
        else
            p->known = false;
    }
}

static int pieces_of(struct cap_trace *t, const struct cap_range *r, bool whole, struct cap_pieces *ret,
                     struct dt_err *e)
{
    struct pieces s = {.t = t, .r = r, .whole = whole};
    s.cut = dt_calloc(t->memory.n + 1, sizeof *s.cut);
    s.first = dt_calloc(t->memory.n + 1, sizeof *s.first);
    s.of = dt_new_array(&t->arena, uint32_t *, r->end - r->begin + 1);
    s.variable = dt_new_array(&t->arena, uint32_t, t->memory.n + 1);
    s.nomem = !s.cut || !s.first || !s.of || !s.variable;
    for (size_t m = 0; s.variable && m < t->memory.n; m++)
        s.variable[m] = CAP_NONE;
    for (uint32_t i = r->begin; i < r->end && !s.nomem; i++) {
        uint32_t n = t->op.p[i].npoint, *of = dt_new_array(&t->arena, uint32_t, n + 1);
        s.of[i - r->begin] = of;
        s.nomem = !of;
        for (uint32_t k = 0; of && k < n; k++)
            of[k] = CAP_NONE;
    }
    if (!s.nomem && !cut_all(&s))
        s.nomem = true;
    for (uint32_t i = r->begin; i < r->end && !s.nomem; i++)
        operate(&s, i);
    if (!s.nomem) {
        /* addresses are bytes of their buffers */
        for (uint32_t i = r->begin; i < r->end; i++)
            for (uint32_t k = 0; k < t->op.p[i].npoint; k++)
                if (s.of[i - r->begin][k] != CAP_NONE) {
                    struct value *v = &s.value.p[root_of(&s, s.of[i - r->begin][k])];
                    uint64_t off = t->op.p[i].point[k].off;
                    v->lo = off < v->lo ? off : v->lo;
                    uint64_t end = off + t->op.p[i].point[k].span;
                    v->hi = end > v->hi ? end : v->hi;
                }
        memcpy(s.last, s.now, s.nstrip * sizeof *s.now);
        after(&s);
        again(&s);
        states(&s);
        events_read(&s, ret);
        content(&s, ret);
        ret->of = s.of;
    }
    for (size_t m = 0; s.cut && m < t->memory.n; m++)
        free(s.cut[m].p);
    free(s.cut);
    free(s.first);
    free(s.now);
    free(s.value.p);
    free(s.event.p);
    free(s.reach.p);
    return s.nomem || dt_arena_failed(&t->arena) ? dt_err_set(e, DT_E_NOMEM, "out of memory, or the trace is too fine")
                                                 : 0;
}

void cap_pieces_done(struct cap_pieces *p)
{
    for (size_t i = 0; i < p->piece.n; i++)
        free(p->piece.p[i].data);
    free(p->piece.p);
    free(p->extra.p);
    memset(p, 0, sizeof *p);
}

int cap_pieces(struct cap_trace *t, const struct cap_range *r, struct cap_pieces *ret, struct dt_err *e)
{
    int err = pieces_of(t, r, false, ret, e);
    if (err < 0)
        cap_pieces_done(ret);
    if (err < 0 || ret->piece.n <= MOST_PIECES)
        return err;
    /* a long run uses its memory again very often */
    cap_pieces_done(ret);
    return pieces_of(t, r, true, ret, e);
}
