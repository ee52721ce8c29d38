/* What a pointwise guest is to its host: the buffer they share, which thread of the guest has which element, and what else they touch.
 *
 * The guest's threads are found from the byte offset that the host is at. Each access of the guest to the shared buffer is taken from its
 * trace (analysis/trace.c: exact, for every thread of every block), and all of them must be
 *
 *     offset = origin + sx tid.x + sy tid.y + sz tid.z + bx ctaid.x + by ctaid.y + bz ctaid.z
 *
 * with one set of numbers. Sorted by step, each larger than anything that the smaller ones add up to in any thread that has the access, they are
 * the digits of the offset: division by the largest step gives its number, the rest the next. So no two threads have one element, and the element
 * gives the thread. Steps come from the records' own lanes and boxes, nothing is guessed: what does not fit refuses.
 *
 * Epilogue (the guest consumes): the bytes that the guest's threads read are among those that the host stores, each by one store of one thread; so
 * each of these threads runs once, with a value nobody changes any more. Where the host stores more, an element is the guest's if its digits are numbers of
 * threads: one that has none by its own guard does nothing, then as before. Prologue (the guest produces): bytes that the host reads are bytes that
 * the guest surely stores, each once; a thread runs as often as the host loads, which nobody sees, since it writes nothing else.
 *
 * Bystanders. The guest now runs among the host's threads: whatever else one of the two writes, the other does not touch (bytes, over all
 * blocks). What the guest reads and writes itself must be private to each of its threads: then their order does not matter. A host that reads the shared
 * buffer too (a product with a beta) keeps its loads and its stores, and the guest may not write there.
 */
#include "rewrite/inline-priv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 1024

static struct rw_inline *no(struct rw_cand *c, enum rw_inline_no k, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static struct rw_inline *no(struct rw_cand *c, enum rw_inline_no k, const char *fmt, ...)
{
    static const char *const row[] = {
#define INLINE(NAME, text) #NAME,
#include "rewrite/legal.def"
    };
    struct dt_str s = {0};
    va_list ap;
    (void)row;
    if (rw_off(row[k]))
        return c->in;
    va_start(ap, fmt);
    dt_str_addfv(&s, fmt, ap);
    va_end(ap);
    if (!c->in->no[k])
        c->in->no[k] = dt_arena_strdup(&c->arena, s.s ? s.s : "out of memory");
    dt_str_done(&s);
    return c->in;
}

static bool refused(const struct rw_inline *n)
{
    for (unsigned k = 0; k < RW_NO_COUNT; k++)
        if (n->no[k])
            return true;
    return false;
}

static const char *name(const struct rw_cand *c, int side) { return c->prog->graph->launch[c->launch[side]].name; }

/* ---- what the guest is ----------------------------------------------------------------------------------------------- */

static void pointwise(struct rw_cand *c)
{
    const struct rw_body *b = &c->body[c->in->guest];
    static const enum rw_fact never[] = {RW_ASYNC, RW_SIDE, RW_ORDERED, RW_MACHINE, RW_ACTIVEMASK, RW_BARRIER_REG, RW_BARRIER_SPLIT};
    const char *n = name(c, c->in->guest);
    if (b->barriers)
        no(c, RW_NO_pointwise, "'%s' has barriers", n);
    else if (b->shared_used || b->shared_bytes)
        no(c, RW_NO_pointwise, "'%s' has shared memory", n);
    else if (b->convergent || b->cp_async)
        no(c, RW_NO_pointwise, "threads of '%s' talk to each other", n);
    for (unsigned k = 0; k < sizeof never / sizeof *never; k++)
        if (b->find[never[k]].set)
            no(c, RW_NO_pointwise, "'%s' has `%.60s` (PTX line %u)", n, b->find[never[k]].what ? b->find[never[k]].what : "?",
               b->find[never[k]].line);
    for (uint32_t k = 0; k < c->ana->launch[c->launch[c->in->guest]].naccess; k++)
        if (c->ana->launch[c->launch[c->in->guest]].access[k].atomics)
            no(c, RW_NO_pointwise, "'%s' has atomics", n);
}

/* ---- bytes ----------------------------------------------------------------------------------------------------------- */

struct uses { /* of one buffer by one launch */
    struct ana_set read, write, must;
    uint32_t width;
};

static struct uses uses_of(const struct rw_cand *c, int side, uint32_t buffer, struct dt_arena *a)
{
    const struct ana_launch *l = &c->ana->launch[c->launch[side]];
    struct uses u = {0};
    for (uint32_t k = 0; k < l->naccess; k++) {
        const struct ana_access *x = &l->access[k];
        if (x->buffer != buffer)
            continue;
        u.must = x->must;
        u.write = x->must;
        for (unsigned v = 0; v < ANA_EVIDENCES; v++) {
            u.read = ana_set_union(a, u.read, x->read_by[v]);
            u.write = ana_set_union(a, u.write, x->write_by[v]);
        }
        if (x->widened) {
            struct ana_set all = {dt_new_array(a, struct ana_interval, 1), 1};
            if (all.iv)
                all.iv[0] = (struct ana_interval){0, c->prog->graph->buffer[buffer].bytes};
            else
                all.n = 0;
            u.read = x->reads ? all : u.read;
            u.write = x->writes ? all : u.write;
        }
    }
    return u;
}

static bool same_set(struct ana_set x, struct ana_set y) { return ana_set_contains(x, y) && ana_set_contains(y, x); }

static void buffers(struct rw_cand *c, struct dt_arena *a)
{
    struct rw_inline *n = c->in;
    const struct dt_graph *g = c->prog->graph;
    n->buffer = UINT32_MAX;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        struct uses p = uses_of(c, 0, b, a), q = uses_of(c, 1, b, a);
        if (!ana_set_overlaps(p.write, q.read))
            continue;
        if (n->buffer != UINT32_MAX)
            no(c, RW_NO_one_buffer, "data flows through '%s' and '%s'", g->buffer[n->buffer].name, g->buffer[b].name);
        n->buffer = b;
    }
    if (n->buffer == UINT32_MAX)
        no(c, RW_NO_one_buffer, "no data flows from '%s' to '%s'", name(c, 0), name(c, 1));
    else if (g->buffer[n->buffer].bytes > UINT32_MAX)
        no(c, RW_NO_one_buffer, "'%s' is larger than 4 GiB", g->buffer[n->buffer].name);
}

/* Neither side touches what else the other writes. */
static void bystanders(struct rw_cand *c, struct dt_arena *a)
{
    struct rw_inline *n = c->in;
    const struct dt_graph *g = c->prog->graph;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        struct uses p = uses_of(c, 0, b, a), q = uses_of(c, 1, b, a);
        if (b == n->buffer) {
            n->in_place = q.write.n != 0;
            if (p.read.n && (n->host == 1 || q.write.n)) /* what a host reads of it stays as it is, if nobody writes there meanwhile */
                no(c, RW_NO_bystanders, "'%s' reads '%s' too", name(c, 0), g->buffer[b].name);
            if (q.write.n && n->host == 1)
                no(c, RW_NO_bystanders, "'%s' writes '%s' too", name(c, 1), g->buffer[b].name);
            continue;
        }
        if (ana_set_overlaps(p.read, q.write) || ana_set_overlaps(p.write, q.write))
            no(c, RW_NO_bystanders, "'%s' writes bytes of '%s' that '%s' %s, and the two would run at one time", name(c, 1), g->buffer[b].name,
               name(c, 0), ana_set_overlaps(p.read, q.write) ? "reads" : "writes");
        if (n->host == 1 && p.write.n)
            no(c, RW_NO_bystanders, "'%s' writes '%s' too, and would do so more than once", name(c, 0), g->buffer[b].name);
    }
}

/* Does anybody but the consumer need what the producer leaves in the buffer? */
static void readers(struct rw_cand *c, struct dt_arena *a)
{
    struct rw_inline *n = c->in;
    bool need = c->prog->graph->buffer[n->buffer].role != DT_INTERMEDIATE;
    const char *who = "the graph's caller";
    for (uint32_t k = 0; k < c->ana->nedge && !need; k++) {
        const struct ana_edge *x = &c->ana->edge[k];
        if (x->producer != c->launch[0] || x->consumer == c->launch[1] || !ana_rows_pairs(&x->raw))
            continue;
        for (uint32_t j = 0; j < x->nbuffer; j++)
            need |= x->buffer[j] == n->buffer;
        who = c->prog->graph->launch[x->consumer].name;
    }
    if (need && n->host == 1)
        no(c, RW_NO_no_other_reader, "'%s' is needed by %s%s%s as well", c->prog->graph->buffer[n->buffer].name, *who == 't' ? "" : "'", who,
           *who == 't' ? "" : "'");
    struct uses p = uses_of(c, 0, n->buffer, a), q = uses_of(c, 1, n->buffer, a);
    n->keep_store = need || p.read.n; /* a host that reads it too may read what another of its threads stored */
    if (n->in_place) /* what it writes back stands there in the end, if it is everything */
        n->keep_store = !same_set(p.must, q.must);
    n->drop_arg = !n->keep_store && !n->in_place && rw_only_addresses(&c->body[n->guest], n->args[n->guest]);
}

/* ---- sites ----------------------------------------------------------------------------------------------------------- */

bool rw_inline_joint(const struct rw_cand *c, int side, const struct ptx_inst *i)
{
    if ((i->op != PTX_OP_LD && i->op != PTX_OP_ST) || !rw_is_global_access(i))
        return false;
    return i->op == (side == 0 ? PTX_OP_ST : PTX_OP_LD) && (rw_prov_of(&c->body[side], i) & c->in->args[side]);
}

/* Registers that hold the components are as wide as these. */
static bool exact(const struct rw_body *b, const struct ptx_inst *i, unsigned elem)
{
    const struct ptx_opnd *o = &i->opnd[i->op == PTX_OP_LD ? 0 : 1];
    unsigned n = o->kind == PTX_O_VEC ? o->n : 1;
    for (unsigned k = 0; k < n; k++) {
        const struct ptx_opnd *x = o->kind == PTX_O_VEC ? &o->elem[k] : o;
        if (x->kind == PTX_O_REG ? ptx_type_bytes(b->f->reg[x->reg].type) != elem || x->neg
                                 : x->kind != PTX_O_IMM && !(x->kind == PTX_O_SINK && i->op == PTX_OP_LD))
            return false;
    }
    return true;
}

static void sites(struct rw_cand *c)
{
    struct rw_inline *n = c->in;
    for (int s = 0; s < 2; s++) {
        struct dt_str why = {0};
        uint32_t width = 0;
        n->args[s] = rw_args_of(c->body[s].step->launch, n->buffer);
        if (!rw_sites_alone(&c->body[s], n->args[s], s == 0 && n->host == 1, &width, &why))
            no(c, RW_NO_plain_sites, "%s", why.s ? why.s : "?");
        dt_str_done(&why);
    }
    for (int s = 0; s < 2 && !n->no[RW_NO_plain_sites]; s++) {
        int side = s ? n->host : n->guest; /* the guest's width first */
        const struct rw_body *b = &c->body[side];
        for (uint32_t k = 0; k < b->f->ninst; k++) {
            const struct ptx_inst *i = &b->f->inst[k];
            if (i->op < PTX_OP_OPAQUE || !rw_inline_joint(c, side, i))
                continue;
            uint32_t elem = ptx_type_bytes(i->type[0]), comps = i->vec ? i->vec : 1;
            if (i->opnd[i->op == PTX_OP_LD ? 1 : 0].base_kind != PTX_O_REG)
                no(c, RW_NO_plain_sites, "'%s' touches it at no register's address (PTX line %u)", name(c, side), i->line);
            if (side == n->guest && !n->elem) {
                n->elem = elem;
                n->comps = comps;
            }
            if (elem != n->elem || (side == n->guest ? comps != n->comps : comps % n->comps != 0))
                no(c, RW_NO_same_widths, "'%s' moves %u times %u bytes at once (PTX line %u), '%s' %u times %u", name(c, side), comps, elem, i->line,
                   name(c, n->guest), n->comps, n->elem);
            else if (!exact(b, i, elem))
                no(c, RW_NO_same_widths, "'%s' has %u bytes in a register of another size (PTX line %u)", name(c, side), elem, i->line);
        }
    }
    if (!n->no[RW_NO_plain_sites] && !rw_only_addresses(&c->body[n->host], n->args[n->host])) /* inline.c follows it by its additions */
        no(c, RW_NO_plain_sites, "'%s' does more with the buffer's address than add to it", name(c, n->host));
    if (!n->elem)
        no(c, RW_NO_plain_sites, "'%s' touches it at no instruction of its own", name(c, n->guest));
}

/* ---- the guest's trace -------------------------------------------------------------------------------------------------- */

struct cell { /* where one lane is in one buffer */
    bool set, written;
    int64_t base, step[3];
};

struct walk {
    struct rw_cand *c;
    bool have;             /* coefficients are there */
    int64_t origin, step[6]; /* tid.x y z, ctaid.x y z */
    bool known[6];
    int pass;              /* 0: find steps, 1: extents, 2: check */
    uint32_t n[6];         /* 1 + largest number that occurs */
    uint64_t threads;      /* that have the access */
    uint64_t lower[6];     /* by place in digit[]: most that the smaller ones add up to */
    uint64_t joint_bytes;  /* stored, every time counted */
    uint64_t *cells, *stores; /* by buffer: bytes of threads' own places; of stores */
    struct cell *cell;     /* [nbuffer][THREADS], of a box */
    bool *use;             /* by buffer: the guest reads and writes it */
    uint8_t joint[THREADS], writes[THREADS];
};

static void coords(const struct rw_cand *c, int side, uint32_t thread, uint32_t at[3])
{
    const uint32_t *b = c->body[side].block;
    at[0] = thread % b[0];
    at[1] = thread / b[0] % b[1];
    at[2] = thread / b[0] / b[1];
}

static uint64_t blocks_in(const struct ana_trace_box *b) { return (uint64_t)b->ext[0] * b->ext[1] * b->ext[2]; }

static int64_t step_of(const struct ana_trace *t, unsigned d, uint32_t k) { return t->step[d] ? t->step[d][k] : 0; }

/* Steps as far as this record shows them: blocks by its own steps, threads by two lanes that differ in one number. */
static void find_steps(struct walk *w, const struct ana_trace_box *b, const struct ana_trace *t)
{
    const struct rw_cand *c = w->c;
    int32_t *at = dt_malloc(THREADS * sizeof *at);
    uint32_t x[3], stride[3] = {1, c->body[c->in->guest].block[0], c->body[c->in->guest].block[0] * c->body[c->in->guest].block[1]};
    if (!at)
        return;
    for (uint32_t k = 0; k < THREADS; k++)
        at[k] = -1;
    for (uint32_t k = 0; k < t->n; k++)
        at[t->thread[k]] = (int32_t)k;
    for (unsigned d = 0; d < 3; d++)
        for (uint32_t k = 0; k < t->n && !w->known[d]; k++) {
            coords(c, c->in->guest, t->thread[k], x);
            if (x[d] + 1 < c->body[c->in->guest].block[d] && at[t->thread[k] + stride[d]] >= 0) {
                w->step[d] = t->base[at[t->thread[k] + stride[d]]] - t->base[k];
                w->known[d] = true;
            }
        }
    for (unsigned d = 0; d < 3; d++)
        if (!w->known[3 + d] && b->ext[d] > 1 && t->n && step_of(t, d, 0) % b->stride[d] == 0) {
            w->step[3 + d] = step_of(t, d, 0) / b->stride[d];
            w->known[3 + d] = true;
        }
    free(at);
}

/* A step that no box shows within itself: from the origins of two boxes that differ in that block number. */
struct corner {
    bool set;
    uint32_t lo[3], thread;
    int64_t base;
};

static int on_steps(const struct ana_trace_box *b, void *user)
{
    struct walk *w = user;
    for (uint32_t k = 0; k < b->n; k++)
        if (rw_inline_joint(w->c, w->c->in->guest, &w->c->body[w->c->in->guest].f->inst[b->access[k].inst]))
            find_steps(w, b, &b->access[k]);
    return 0;
}

/* Steps of block numbers that no box has twice: pairs of boxes. */
struct corners {
    struct walk *w;
    struct dt_vec(struct corner) v;
    bool oom;
};

static int on_corners(const struct ana_trace_box *b, void *user)
{
    struct corners *s = user;
    for (uint32_t k = 0; k < b->n; k++) {
        const struct ana_trace *t = &b->access[k];
        if (!t->n || !rw_inline_joint(s->w->c, s->w->c->in->guest, &s->w->c->body[s->w->c->in->guest].f->inst[t->inst]))
            continue;
        struct corner x = {true, {b->lo[0], b->lo[1], b->lo[2]}, t->thread[0], t->base[0]};
        if (s->v.n < 4096 && !dt_push(&s->v, x))
            return DT_E_NOMEM;
    }
    return 0;
}

static void more_steps(struct walk *w, const struct corner *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        unsigned differ = 0, d = 0;
        uint32_t x[3], y[3];
        for (unsigned k = 0; k < 3; k++)
            if (v[i].lo[k] != v[0].lo[k] && !w->known[3 + k]) {
                differ++;
                d = k;
            }
        if (differ != 1)
            continue;
        int64_t way = v[i].base - v[0].base;
        coords(w->c, w->c->in->guest, v[0].thread, x);
        coords(w->c, w->c->in->guest, v[i].thread, y);
        for (unsigned k = 0; k < 3; k++) {
            way -= w->step[k] * ((int64_t)y[k] - x[k]);
            if (k != d)
                way -= w->step[3 + k] * ((int64_t)v[i].lo[k] - v[0].lo[k]);
        }
        int64_t by = (int64_t)v[i].lo[d] - v[0].lo[d];
        if (way % by == 0) {
            w->step[3 + d] = way / by;
            w->known[3 + d] = true;
        }
    }
}

/* Every record against the steps; extents of the numbers; places of the guest's own. */
static int on_check(const struct ana_trace_box *b, void *user)
{
    struct walk *w = user;
    struct rw_cand *c = w->c;
    const struct rw_inline *n = c->in;
    const struct rw_body *g = &c->body[n->guest];
    uint32_t nbuffer = c->prog->graph->nbuffer, x[3];
    memset(w->joint, 0, sizeof w->joint);
    memset(w->writes, 0, sizeof w->writes);
    memset(w->cell, 0, (size_t)nbuffer * THREADS * sizeof *w->cell);
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        bool joint = rw_inline_joint(c, n->guest, &g->f->inst[t->inst]);
        if (t->evidence != ANA_PROVED)
            no(c, RW_NO_thread_map, "'%s' takes addresses from what a buffer holds", name(c, n->guest));
        for (uint32_t k = 0; k < t->n; k++) {
            uint32_t buffer = t->buffer[k], thread = t->thread[k];
            if (t->writes)
                w->writes[thread] = 1;
            if (joint && buffer != n->buffer)
                no(c, RW_NO_plain_sites, "an access of '%s' reaches another buffer", name(c, n->guest));
            if (buffer < nbuffer && t->writes)
                w->stores[buffer] += blocks_in(b) * t->bytes * (uint64_t)t->times[k];
            if (buffer < nbuffer && w->use[buffer]) {
                struct cell *z = &w->cell[(size_t)buffer * THREADS + thread], here = {true, false, t->base[k], {0}};
                for (unsigned d = 0; d < 3; d++)
                    here.step[d] = b->ext[d] > 1 ? step_of(t, d, k) : 0;
                if (t->moves || t->times[k] != 1 ||
                    (z->set && (z->base != here.base || memcmp(z->step, here.step, sizeof here.step) || (t->writes && z->written))))
                    no(c, RW_NO_bystanders, "a thread of '%s' is at several places of '%s', which it writes, or writes one twice",
                       name(c, n->guest), c->prog->graph->buffer[buffer].name);
                if (!z->set)
                    w->cells[buffer] += blocks_in(b) * t->bytes;
                here.written = t->writes || (z->set && z->written);
                *z = here;
            }
            if (!joint)
                continue;
            coords(c, n->guest, thread, x);
            int64_t at = w->origin;
            bool good = !t->moves && t->times[k] == 1;
            if (!w->joint[thread])
                w->threads += blocks_in(b);
            w->joint[thread] = 1;
            w->joint_bytes += blocks_in(b) * t->bytes;
            for (unsigned d = 0; d < 3; d++) {
                uint32_t last = b->lo[d] + (b->ext[d] - 1) * b->stride[d];
                at += w->step[d] * x[d] + w->step[3 + d] * b->lo[d];
                good &= b->ext[d] < 2 || step_of(t, d, k) == w->step[3 + d] * b->stride[d];
                if (x[d] + 1 > w->n[d])
                    w->n[d] = x[d] + 1;
                if (last + 1 > w->n[3 + d])
                    w->n[3 + d] = last + 1;
            }
            if (!w->have) {
                w->origin = t->base[k] - at;
                w->have = true;
                at = t->base[k];
            }
            if (!good || at != t->base[k])
                no(c, RW_NO_thread_map, "%s of '%s' to thread numbers is not one sum of steps (thread %u of block %u,%u,%u)",
                   n->host ? "what each thread writes" : "what each thread reads", name(c, n->guest), thread, b->lo[0], b->lo[1], b->lo[2]);
            /* what the smaller digits add up to: largest in the box's first or last block of each number */
            uint64_t sum = 0;
            for (unsigned q = n->ndigit; q-- > 0;) {
                const struct rw_digit *y = &n->digit[q];
                uint32_t last = y->block ? b->lo[y->comp] + (b->ext[y->comp] - 1) * b->stride[y->comp] : x[y->comp];
                uint32_t first = y->block ? b->lo[y->comp] : last;
                if (sum > w->lower[q])
                    w->lower[q] = sum;
                sum += y->step * (y->down ? y->n - 1 - first : last);
            }
        }
    }
    for (uint32_t k = 0; k < THREADS; k++)
        if (w->writes[k] && !w->joint[k])
            no(c, RW_NO_same_elements, "thread %u of '%s' writes something without having an element of '%s'", k, name(c, n->guest),
               c->prog->graph->buffer[n->buffer].name);
    return 0;
}

static void make_digits(struct walk *w)
{
    struct rw_inline *n = w->c->in;
    n->ndigit = 0;
    int64_t origin = w->origin;
    for (int d = 0; d < 6; d++) {
        struct rw_digit x = {d >= 3, d % 3, (uint64_t)llabs(w->step[d]), w->step[d] < 0, w->n[d]};
        if (x.n <= 1)
            continue;
        if (x.down)
            origin += w->step[d] * (int64_t)(x.n - 1);
        unsigned at = n->ndigit++;
        for (; at && n->digit[at - 1].step < x.step; at--)
            n->digit[at] = n->digit[at - 1];
        n->digit[at] = x;
    }
    n->origin = origin;
    uint64_t span = 0;
    for (unsigned k = 0; k < n->ndigit && span <= UINT32_MAX; k++)
        span = n->digit[k].step > UINT32_MAX ? UINT64_MAX : span + n->digit[k].step * (n->digit[k].n - 1);
    if (span > UINT32_MAX || (n->partial && span + w->c->prog->graph->buffer[n->buffer].bytes > UINT32_MAX)) /* offsets from the origin are 32 bits wide, also below it */
        no(w->c, RW_NO_thread_map, "what '%s' touches is over 4 GiB long", name(w->c, n->guest));
}

static int trace(struct rw_cand *c, int side, ana_trace_fn fn, void *user, struct dt_err *e)
{
    const char *why = NULL;
    int r = ana_trace_launch(c->prog, c->launch[side], fn, user, &why, e);
    if (r == 0)
        no(c, side == c->in->guest ? RW_NO_thread_map : RW_NO_stored_once, "'%s' cannot be followed thread by thread: %s", name(c, side), why ? why : "?");
    return r < 0 ? r : 0;
}

static int guest_map(struct rw_cand *c, struct dt_arena *a, struct dt_err *e)
{
    struct rw_inline *n = c->in;
    const struct dt_graph *g = c->prog->graph;
    struct walk w = {.c = c};
    struct corners corners = {.w = &w};
    size_t nb = g->nbuffer + 1;
    w.cells = dt_new_array(a, uint64_t, nb);
    w.stores = dt_new_array(a, uint64_t, nb);
    w.use = dt_new_array(a, bool, nb);
    w.cell = dt_calloc(nb * THREADS, sizeof *w.cell);
    int r = w.cells && w.stores && w.use && w.cell ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t b = 0; b < g->nbuffer && r == 0; b++)
        w.use[b] = uses_of(c, n->guest, b, a).write.n && uses_of(c, n->guest, b, a).read.n;
    if (r == 0)
        r = trace(c, n->guest, on_steps, &w, e);
    if (r == 0 && !refused(n))
        r = trace(c, n->guest, on_corners, &corners, e);
    if (r == 0 && !refused(n)) {
        more_steps(&w, corners.v.p, corners.v.n);
        r = trace(c, n->guest, on_check, &w, e); /* the origin, and extents */
    }
    if (r == 0 && !refused(n)) {
        uint64_t *zero = w.cells;
        make_digits(&w);
        memset(zero, 0, nb * sizeof *zero);
        memset(w.stores, 0, nb * sizeof *w.stores);
        w.threads = w.joint_bytes = 0;
        r = trace(c, n->guest, on_check, &w, e);
    }
    for (unsigned q = 0; q < n->ndigit && r == 0 && !refused(n); q++)
        if (n->digit[q].step < (uint64_t)n->elem * n->comps + w.lower[q])
            no(c, RW_NO_thread_map, "several threads of '%s' may have one element of '%s'", name(c, n->guest), g->buffer[n->buffer].name);
    struct uses u = uses_of(c, n->guest, n->buffer, a);
    if (r == 0 && !refused(n) && w.threads * n->elem * n->comps != ana_set_bytes(n->host == 0 ? u.read : u.must))
        no(c, RW_NO_same_elements, "the threads of '%s' do not have each byte of '%s' once", name(c, n->guest), g->buffer[n->buffer].name);
    if (r == 0 && !refused(n) && n->host == 1 && (w.joint_bytes != ana_set_bytes(u.must) || !same_set(u.write, u.must)))
        no(c, RW_NO_stored_once, "'%s' stores some byte of '%s' more than once, or perhaps", name(c, n->guest), g->buffer[n->buffer].name);
    for (uint32_t b = 0; b < g->nbuffer && r == 0 && !refused(n); b++) {
        u = uses_of(c, n->guest, b, a);
        if (w.stores[b] != ana_set_bytes(u.write) || (w.use[b] && w.cells[b] != ana_set_bytes(ana_set_union(a, u.read, u.write))))
            no(c, RW_NO_bystanders, "two threads of '%s' meet in '%s', which it writes", name(c, n->guest), g->buffer[b].name);
    }
    free(w.cell);
    free(corners.v.p);
    return r;
}

/* ---- the host ------------------------------------------------------------------------------------------------------------ */

struct stores {
    struct rw_cand *c;
    uint64_t bytes;
};

static int on_store(const struct ana_trace_box *b, void *user)
{
    struct stores *s = user;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        for (uint32_t k = 0; k < t->n; k++)
            if (t->writes && t->buffer[k] == s->c->in->buffer) {
                s->bytes += blocks_in(b) * t->bytes * (uint64_t)t->times[k];
                if (t->evidence != ANA_PROVED)
                    no(s->c, RW_NO_stored_once, "'%s' takes addresses from what a buffer holds", name(s->c, s->c->in->host));
            }
    }
    return 0;
}

/* The host's bytes against the guest's. */
static int host_map(struct rw_cand *c, struct dt_arena *a, struct dt_err *e)
{
    struct rw_inline *n = c->in;
    struct uses p = uses_of(c, 0, n->buffer, a), q = uses_of(c, 1, n->buffer, a);
    const char *buffer = c->prog->graph->buffer[n->buffer].name;
    if (n->host == 1) {
        if (!ana_set_contains(p.must, q.read))
            no(c, RW_NO_same_elements, "'%s' reads bytes of '%s' that '%s' does not write for certain", name(c, 1), buffer, name(c, 0));
        return 0;
    }
    if (!same_set(p.write, p.must))
        no(c, RW_NO_stored_once, "'%s' writes some bytes of '%s' only perhaps", name(c, 0), buffer);
    else if (!ana_set_contains(p.must, q.read))
        no(c, RW_NO_same_elements, "'%s' reads bytes of '%s' that '%s' does not write", name(c, 1), buffer, name(c, 0));
    n->partial = !same_set(p.must, q.read);
    if (refused(n))
        return 0;
    struct stores s = {.c = c};
    int r = trace(c, n->host, on_store, &s, e);
    if (r == 0 && !refused(n) && s.bytes != ana_set_bytes(p.must))
        no(c, RW_NO_stored_once, "'%s' stores some byte of '%s' more than once: a later value counts", name(c, 0), buffer);
    return r;
}

int rw_inline_look(struct rw_cand *c, int host, struct dt_err *e)
{
    struct dt_arena tmp = {0};
    int r = 0;
    if ((c->in = c->seen[host]))
        return 0;
    c->in = c->seen[host] = dt_new(&c->arena, struct rw_inline);
    if (!c->in)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *c->in = (struct rw_inline){.host = host, .guest = !host};
    pointwise(c);
    if (!refused(c->in))
        buffers(c, &tmp);
    if (!refused(c->in))
        sites(c);
    if (!refused(c->in))
        bystanders(c, &tmp);
    if (!refused(c->in))
        readers(c, &tmp);
    if (!refused(c->in))
        r = host_map(c, &tmp, e);
    if (r == 0 && !refused(c->in))
        r = guest_map(c, &tmp, e);
    if (r == 0 && (dt_arena_failed(&tmp) || dt_arena_failed(&c->arena)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_arena_done(&tmp);
    return r;
}
