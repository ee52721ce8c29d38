/* What a pointwise guest is to its host: the buffer they share, and what else they touch.
 *
 * Units. What passes from one to the other is the largest vector that all their accesses are made of. What the host
 * moves at once is some units, and so is what a thread of the guest has (threads.c). The guest's text runs once for
 * each unit.
 *
 * Epilogue (the guest consumes). The bytes that the guest's threads read are among those that the host stores, each by
 * one store of one thread. So each of these threads runs once, with a value that nobody changes any more. If the host
 * stores more, an element is the guest's if its digits are numbers of threads; a thread that its own guard leaves
 * without an element does nothing, as before.
 *
 * Prologue (the guest produces). The bytes that the host reads are bytes that the guest surely stores, each once. A
 * thread runs as often as the host loads, which nobody sees, since it writes nothing else.
 *
 * Bystanders. The guest now runs among the host's threads. So whatever else one of the two writes, the other does not
 * touch (bytes, over all blocks). What the guest reads and writes itself must be private to each of its elements, so
 * that their order does not matter. A host that reads the shared buffer too (a product with a beta) keeps its loads and
 * its stores, and the guest may not write there.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/inline/inline-priv.h"

#include <stdarg.h>
#include <string.h>

#include "base/subject.h"

void rw_no(struct rw_cand *c, enum rw_inline_no k, const char *fmt, ...)
{
    static const char *const row[] = {
#define INLINE(NAME, text) #NAME,
#include "rewrite/legal.def"
    };
    struct dt_str s = {0};
    va_list ap;
    (void)row;
    if (rw_off(row[k]))
        return;
    va_start(ap, fmt);
    dt_str_addfv(&s, fmt, ap);
    va_end(ap);
    if (!c->in->no[k])
        c->in->no[k] = dt_arena_strdup(&c->arena, s.s ? s.s : "out of memory");
    dt_str_done(&s);
}

bool rw_refused(const struct rw_inline *n)
{
    for (unsigned k = 0; k < RW_NO_COUNT; k++)
        if (n->no[k])
            return true;
    return false;
}

const char *rw_launch_name(const struct rw_cand *c, int side)
{
    return c->facts.prog->graph->launch[c->facts.launch[side]].name;
}

int rw_inline_trace(struct rw_cand *c, int side, enum rw_inline_no k, ana_trace_fn fn, void *user, struct dt_err *e)
{
    const char *why = NULL;
    int r = ana_trace_launch(c->facts.prog, c->facts.launch[side], fn, user, &why, e);
    if (r == 0)
        rw_no(c, k, DT_LAUNCH " cannot be followed thread by thread: %s", rw_launch_name(c, side), why ? why : "?");
    return r < 0 ? r : 0;
}

/* ---- what the guest is ------------------------------------------------------------------------------------------- */

static void pointwise(struct rw_cand *c)
{
    const struct rw_body *b = &c->facts.body[c->in->guest];
    static const enum rw_fact never[] = {RW_ASYNC, RW_CLUSTER,    RW_SIDE,        RW_ORDERED,      RW_MACHINE,
                                         RW_LANE,  RW_ACTIVEMASK, RW_BARRIER_REG, RW_BARRIER_SPLIT};
    const char *n = rw_launch_name(c, c->in->guest);
    if (b->barriers)
        rw_no(c, RW_NO_pointwise, DT_LAUNCH " has barriers", n);
    else if (b->shared_used || b->shared_bytes)
        rw_no(c, RW_NO_pointwise, DT_LAUNCH " has shared memory", n);
    else if (b->convergent || b->cp_async)
        rw_no(c, RW_NO_pointwise, "threads of " DT_LAUNCH " talk to each other", n);
    else if (b->sets_carry && c->facts.body[c->in->host].reads_carry) /* between what sets it there and what reads it */
        rw_no(c, RW_NO_pointwise, DT_LAUNCH " sets the carry flag, and " DT_LAUNCH " reads it", n,
              rw_launch_name(c, c->in->host));
    for (unsigned k = 0; k < sizeof never / sizeof *never; k++)
        if (b->find[never[k]].set)
            rw_no(c, RW_NO_pointwise, DT_LAUNCH " has `%.60s` (PTX line %u)", n,
                  b->find[never[k]].what ? b->find[never[k]].what : "?", b->find[never[k]].line);
    for (uint32_t k = 0; k < c->facts.ana->launch[c->facts.launch[c->in->guest]].naccess; k++)
        if (c->facts.ana->launch[c->facts.launch[c->in->guest]].access[k].atomics)
            rw_no(c, RW_NO_pointwise, DT_LAUNCH " has atomics", n);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

struct rw_uses rw_inline_uses(const struct rw_cand *c, int side, uint32_t buffer, struct dt_arena *a)
{
    const struct ana_launch *l = &c->facts.ana->launch[c->facts.launch[side]];
    struct rw_uses u = {0};
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
                all.iv[0] = (struct ana_interval){0, c->facts.prog->graph->buffer[buffer].bytes};
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
    const struct dt_graph *g = c->facts.prog->graph;
    n->buffer = UINT32_MAX;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        struct rw_uses p = rw_inline_uses(c, 0, b, a), q = rw_inline_uses(c, 1, b, a);
        if (!ana_set_overlaps(p.write, q.read))
            continue;
        if (n->buffer != UINT32_MAX)
            rw_no(c, RW_NO_one_buffer, "data flows through " DT_BUFFER " and " DT_BUFFER, g->buffer[n->buffer].name,
                  g->buffer[b].name);
        n->buffer = b;
    }
    if (n->buffer == UINT32_MAX)
        rw_no(c, RW_NO_one_buffer, "no data flows from " DT_LAUNCH " to " DT_LAUNCH, rw_launch_name(c, 0),
              rw_launch_name(c, 1));
    else if (g->buffer[n->buffer].bytes > UINT32_MAX)
        rw_no(c, RW_NO_one_buffer, DT_BUFFER " is larger than 4 GiB", g->buffer[n->buffer].name);
}

/* Check that neither side touches what the other writes besides the shared buffer. */
static void bystanders(struct rw_cand *c, struct dt_arena *a)
{
    struct rw_inline *n = c->in;
    const struct dt_graph *g = c->facts.prog->graph;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        struct rw_uses p = rw_inline_uses(c, 0, b, a), q = rw_inline_uses(c, 1, b, a);
        if (b == n->buffer) {
            n->in_place = q.write.n != 0;
            /* what a host reads of it stays as it is, if nobody writes there meanwhile */
            if (p.read.n && (n->host == 1 || q.write.n))
                rw_no(c, RW_NO_bystanders, DT_LAUNCH " reads " DT_BUFFER " too", rw_launch_name(c, 0),
                      g->buffer[b].name);
            if (q.write.n && n->host == 1)
                rw_no(c, RW_NO_bystanders, DT_LAUNCH " writes " DT_BUFFER " too", rw_launch_name(c, 1),
                      g->buffer[b].name);
            continue;
        }
        if (ana_set_overlaps(p.read, q.write) || ana_set_overlaps(p.write, q.write))
            rw_no(c, RW_NO_bystanders,
                  DT_LAUNCH " writes bytes of " DT_BUFFER " that " DT_LAUNCH " %s, and the two would run at one time",
                  rw_launch_name(c, 1), g->buffer[b].name, rw_launch_name(c, 0),
                  ana_set_overlaps(p.read, q.write) ? "reads" : "writes");
        if (n->host == 1 && p.write.n)
            rw_no(c, RW_NO_bystanders, DT_LAUNCH " writes " DT_BUFFER " too, and would do so more than once",
                  rw_launch_name(c, 0), g->buffer[b].name);
    }
}

/* Does anything but the consumer need what the producer leaves in the buffer? */
static void readers(struct rw_cand *c, struct dt_arena *a)
{
    struct rw_inline *n = c->in;
    bool need = c->facts.prog->graph->buffer[n->buffer].role != DT_INTERMEDIATE;
    const char *who = NULL; /* the reader; NULL: the graph's caller */
    for (uint32_t k = 0; k < c->facts.ana->nedge && !need; k++) {
        const struct ana_edge *x = &c->facts.ana->edge[k];
        if (x->producer != c->facts.launch[0] || x->consumer == c->facts.launch[1] || !ana_rows_pairs(&x->raw))
            continue;
        for (uint32_t j = 0; j < x->nbuffer; j++)
            need |= x->buffer[j] == n->buffer;
        who = c->facts.prog->graph->launch[x->consumer].name;
    }
    if (need && n->host == 1 && who)
        rw_no(c, RW_NO_no_other_reader, DT_BUFFER " is needed by " DT_LAUNCH " as well",
              c->facts.prog->graph->buffer[n->buffer].name, who);
    else if (need && n->host == 1)
        rw_no(c, RW_NO_no_other_reader, DT_BUFFER " is needed by the graph's caller as well",
              c->facts.prog->graph->buffer[n->buffer].name);
    struct rw_uses p = rw_inline_uses(c, 0, n->buffer, a), q = rw_inline_uses(c, 1, n->buffer, a);
    n->keep_store = need || p.read.n; /* a host that reads it too may read what another of its threads stored */
    if (n->in_place)                  /* what it writes back stands there in the end, if it is everything */
        n->keep_store = !same_set(p.must, q.must);
    n->drop_arg = !n->keep_store && !n->in_place && rw_args_whole(&c->facts, n->args) &&
                  rw_only_addresses(&c->facts.body[n->guest], n->args[n->guest]);
}

/* ---- sites ------------------------------------------------------------------------------------------------------- */

bool rw_inline_joint(const struct rw_cand *c, int side, const struct ptx_inst *i)
{
    if ((i->op != PTX_OP_LD && i->op != PTX_OP_ST) || !rw_is_global_access(i))
        return false;
    return i->op == (side == 0 ? PTX_OP_ST : PTX_OP_LD) && (rw_prov_of(&c->facts.body[side], i) & c->in->args[side]);
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

static unsigned common(unsigned a, unsigned b) { return b ? common(b, a % b) : a; }

/* The guest's first, then the host's. */
static void inline_map_units(struct rw_cand *c, int side)
{
    struct rw_inline *n = c->in;
    const struct rw_body *b = &c->facts.body[side];
    for (uint32_t k = 0; k < b->f->ninst; k++) {
        const struct ptx_inst *i = &b->f->inst[k];
        if (i->op < PTX_OP_OPAQUE || !rw_inline_joint(c, side, i))
            continue;
        uint32_t elem = ptx_type_bytes(i->type[0]), comps = i->vec ? i->vec : 1;
        if (i->opnd[i->op == PTX_OP_LD ? 1 : 0].base_kind != PTX_O_REG)
            rw_no(c, RW_NO_plain_sites, DT_LAUNCH " touches it at no register's address (PTX line %u)",
                  rw_launch_name(c, side), i->line);
        if (!n->elem)
            n->elem = elem;
        if (elem != n->elem)
            rw_no(c, RW_NO_same_widths, DT_LAUNCH " moves %u bytes at once (PTX line %u), " DT_LAUNCH " %u",
                  rw_launch_name(c, side), elem, i->line, rw_launch_name(c, n->guest), n->elem);
        else if (!exact(b, i, elem))
            rw_no(c, RW_NO_same_widths, DT_LAUNCH " has %u bytes in a register of another size (PTX line %u)",
                  rw_launch_name(c, side), elem, i->line);
        n->unit = common(comps, n->unit);
        if (side == n->guest)
            n->joint[n->njoint++] = (struct rw_joint){.inst = k, .comps = (uint8_t)comps};
    }
}

static void sites(struct rw_cand *c)
{
    struct rw_inline *n = c->in;
    for (int s = 0; s < 2; s++) {
        struct dt_str why = {0};
        uint32_t width = 0;
        n->args[s] = rw_args_of(c->facts.body[s].step->launch, n->buffer);
        if (!rw_sites_alone(&c->facts.body[s], n->args[s], s == 0 && n->host == 1, &width, &why))
            rw_no(c, RW_NO_plain_sites, "%s", why.s ? why.s : "?");
        dt_str_done(&why);
    }
    n->joint = dt_new_array(&c->arena, struct rw_joint, c->facts.body[n->guest].f->ninst + 1);
    for (int s = 0; s < 2 && n->joint && !n->no[RW_NO_plain_sites]; s++)
        inline_map_units(c, s ? n->host : n->guest);
    /* inline.c follows it by its additions */
    if (!n->no[RW_NO_plain_sites] && !rw_only_addresses(&c->facts.body[n->host], n->args[n->host]))
        rw_no(c, RW_NO_plain_sites, DT_LAUNCH " does more with the buffer's address than add to it",
              rw_launch_name(c, n->host));
    if (!n->njoint)
        rw_no(c, RW_NO_plain_sites, DT_LAUNCH " touches it at no instruction of its own", rw_launch_name(c, n->guest));
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

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
                s->bytes += (uint64_t)b->ext[0] * b->ext[1] * b->ext[2] * t->bytes * (uint64_t)t->times[k];
                if (t->evidence != ANA_PROVED)
                    rw_no(s->c, RW_NO_stored_once, DT_LAUNCH " takes addresses from what a buffer holds",
                          rw_launch_name(s->c, s->c->in->host));
            }
    }
    return 0;
}

/* Compare the bytes that the host accesses with those of the guest. */
static int host_map(struct rw_cand *c, struct dt_arena *a, struct dt_err *e)
{
    struct rw_inline *n = c->in;
    struct rw_uses p = rw_inline_uses(c, 0, n->buffer, a), q = rw_inline_uses(c, 1, n->buffer, a);
    const char *buffer = c->facts.prog->graph->buffer[n->buffer].name;
    if (n->host == 1) {
        if (!ana_set_contains(p.must, q.read))
            rw_no(c, RW_NO_same_elements,
                  DT_LAUNCH " reads bytes of " DT_BUFFER " that " DT_LAUNCH " does not write for certain",
                  rw_launch_name(c, 1), buffer, rw_launch_name(c, 0));
        return 0;
    }
    if (!same_set(p.write, p.must))
        rw_no(c, RW_NO_stored_once, DT_LAUNCH " writes some bytes of " DT_BUFFER " only perhaps", rw_launch_name(c, 0),
              buffer);
    else if (!ana_set_contains(p.must, q.read))
        rw_no(c, RW_NO_same_elements, DT_LAUNCH " reads bytes of " DT_BUFFER " that " DT_LAUNCH " does not write",
              rw_launch_name(c, 1), buffer, rw_launch_name(c, 0));
    n->partial = !same_set(p.must, q.read);
    if (rw_refused(n))
        return 0;
    struct stores s = {.c = c};
    int r = rw_inline_trace(c, n->host, RW_NO_stored_once, on_store, &s, e);
    if (r == 0 && !rw_refused(n) && s.bytes != ana_set_bytes(p.must))
        rw_no(c, RW_NO_stored_once, DT_LAUNCH " stores some byte of " DT_BUFFER " more than once: a later value counts",
              rw_launch_name(c, 0), buffer);
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
    if (!rw_refused(c->in))
        buffers(c, &tmp);
    if (!rw_refused(c->in))
        sites(c);
    if (!rw_refused(c->in))
        bystanders(c, &tmp);
    if (!rw_refused(c->in))
        readers(c, &tmp);
    if (!rw_refused(c->in))
        r = host_map(c, &tmp, e);
    if (r == 0 && !rw_refused(c->in))
        r = rw_inline_threads(c, &tmp, e);
    if (r == 0 && (dt_arena_failed(&tmp) || dt_arena_failed(&c->arena)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_arena_done(&tmp);
    return r;
}
