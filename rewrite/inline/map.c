/* What a pointwise guest is to its host: the buffer they share, and what else they touch.
 *
 * Units. What passes from one to the other is the largest vector that all their accesses are made of. What the host
 * moves at once is some units, and so is what a thread of the guest has (threads.c). The guest's text runs once for
 * each unit.
 *
 * Epilogue (the guest consumes). The bytes that the guest's threads read are among those that the host stores, each by
 * one store of one thread. So each of these threads runs once, with a value that nobody changes any more. Of a host
 * that has no trace (copies of tensors, say) that is not known; then running again must do no harm (idempotent). If
 * the host stores more, an element is the guest's if its digits are numbers of threads; a thread that its own guard
 * leaves without an element does nothing, as before.
 *
 * Prologue (the guest produces). The bytes that the host reads are bytes that the guest surely stores, each once. A
 * thread runs as often as the host loads, which nobody sees, since it writes nothing else. If the host reads more (what
 * a memset left around a copy), the element's digits and the guest's guards say whether it is the guest's; if it is
 * not, the host's load stays.
 *
 * Bystanders. The guest now runs among the host's threads. So whatever else one of the two writes, the other does not
 * touch (bytes, over all blocks). What the guest reads and writes itself must be private to each of its elements, so
 * that their order does not matter. A host that reads the shared buffer too (a product with a beta) keeps its loads and
 * its stores, and the guest may not write there.
 */
#include "rewrite/inline/inline-priv.h"

#include "base/subject.h"

/* ---- what the guest is ------------------------------------------------------------------------------------------- */

static void pointwise(const struct rw_inline *n, struct rw_refusals *no)
{
    const struct rw_body *b = n->body[n->guest];
    static const enum rw_fact never[] = {RW_ASYNC, RW_CLUSTER,    RW_SIDE,        RW_ORDERED,      RW_MACHINE,
                                         RW_LANE,  RW_ACTIVEMASK, RW_BARRIER_REG, RW_BARRIER_SPLIT};
    const struct ana_launch *l = &n->facts->ana->launch[n->facts->launch[n->guest]];
    const char *name = n->name[n->guest];
    if (b->barriers)
        rw_no(no, RW_NO_pointwise, DT_LAUNCH " has barriers", name);
    else if (b->shared_used || b->shared_bytes)
        rw_no(no, RW_NO_pointwise, DT_LAUNCH " has shared memory", name);
    else if (b->convergent || b->cp_async)
        rw_no(no, RW_NO_pointwise, "threads of " DT_LAUNCH " talk to each other", name);
    else if (b->sets_carry && n->body[n->host]->reads_carry) /* between what sets it there and what reads it */
        rw_no(no, RW_NO_pointwise, DT_LAUNCH " sets the carry flag, and " DT_LAUNCH " reads it", name,
              n->name[n->host]);
    for (unsigned k = 0; k < sizeof never / sizeof *never; k++)
        if (b->find[never[k]].set)
            rw_no(no, RW_NO_pointwise, DT_LAUNCH " has `%.60s` (PTX line %u)", name,
                  b->find[never[k]].what ? b->find[never[k]].what : "?", b->find[never[k]].line);
    for (uint32_t k = 0; k < l->naccess; k++)
        if (l->access[k].atomics)
            rw_no(no, RW_NO_pointwise, DT_LAUNCH " has atomics", name);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* What side `side` does to the buffer, over all its blocks. */
static struct rw_uses uses_of(const struct rw_inline *n, int side, uint32_t buffer, struct dt_arena *a)
{
    const struct ana_launch *l = &n->facts->ana->launch[n->facts->launch[side]];
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
                all.iv[0] = (struct ana_interval){0, n->graph->buffer[buffer].bytes};
            else
                all.n = 0;
            u.read = x->reads ? all : u.read;
            u.write = x->writes ? all : u.write;
        }
    }
    return u;
}

static void find_uses(struct rw_inline *n, struct dt_arena *a)
{
    for (int s = 0; s < 2; s++) {
        n->uses[s] = dt_new_array(a, struct rw_uses, n->graph->nbuffer + 1);
        for (uint32_t b = 0; b < n->graph->nbuffer && n->uses[s]; b++)
            n->uses[s][b] = uses_of(n, s, b, a);
    }
}

static bool same_set(struct ana_set x, struct ana_set y) { return ana_set_contains(x, y) && ana_set_contains(y, x); }

static void buffers(struct rw_inline *n, struct rw_refusals *no)
{
    const struct dt_graph *g = n->graph;
    n->buffer = UINT32_MAX;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        struct rw_uses p = n->uses[0][b], q = n->uses[1][b];
        if (!ana_set_overlaps(p.write, q.read))
            continue;
        if (n->buffer != UINT32_MAX)
            rw_no(no, RW_NO_one_buffer, "data flows through " DT_BUFFER " and " DT_BUFFER, g->buffer[n->buffer].name,
                  g->buffer[b].name);
        n->buffer = b;
    }
    if (n->buffer == UINT32_MAX)
        rw_no(no, RW_NO_one_buffer, "no data flows from " DT_LAUNCH " to " DT_LAUNCH, n->name[0], n->name[1]);
    else if (g->buffer[n->buffer].bytes > UINT32_MAX)
        rw_no(no, RW_NO_one_buffer, DT_BUFFER " is larger than 4 GiB", g->buffer[n->buffer].name);
}

/* Check that neither side touches what the other writes besides the shared buffer. */
static void bystanders(struct rw_inline *n, struct rw_refusals *no)
{
    const struct dt_graph *g = n->graph;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        struct rw_uses p = n->uses[0][b], q = n->uses[1][b];
        if (b == n->buffer) {
            n->in_place = q.write.n != 0;
            /* what a host reads of it stays as it is, if nobody writes there meanwhile */
            if (p.read.n && (n->host == 1 || q.write.n))
                rw_no(no, RW_NO_bystanders, DT_LAUNCH " reads " DT_BUFFER " too", n->name[0], g->buffer[b].name);
            if (q.write.n && n->host == 1)
                rw_no(no, RW_NO_bystanders, DT_LAUNCH " writes " DT_BUFFER " too", n->name[1], g->buffer[b].name);
            continue;
        }
        if (ana_set_overlaps(p.read, q.write) || ana_set_overlaps(p.write, q.write))
            rw_no(no, RW_NO_bystanders,
                  DT_LAUNCH " writes bytes of " DT_BUFFER " that " DT_LAUNCH " %s, and the two would run at one time",
                  n->name[1], g->buffer[b].name, n->name[0], ana_set_overlaps(p.read, q.write) ? "reads" : "writes");
        if (n->host == 1 && p.write.n)
            rw_no(no, RW_NO_bystanders, DT_LAUNCH " writes " DT_BUFFER " too, and would do so more than once",
                  n->name[0], g->buffer[b].name);
    }
}

/* Has the launch the producer's text as well, in the edit that this is of? */
static bool gets_it_too(const struct rw_inline *n, uint32_t launch)
{
    for (uint32_t k = 0; n->host == 1 && k < n->facts->nset; k++)
        if (n->facts->set[k] == launch)
            return true;
    return false;
}

/* Does anything but the consumer need what the producer leaves in the buffer? */
static void readers(struct rw_inline *n, struct rw_refusals *no)
{
    bool need = !rw_passing(&n->graph->buffer[n->buffer]);
    const char *who = NULL; /* the reader; NULL: the graph's caller */
    for (uint32_t k = 0; k < n->facts->ana->nedge && !need; k++) {
        const struct ana_edge *x = &n->facts->ana->edge[k];
        if (x->producer != n->facts->launch[0] || x->consumer == n->facts->launch[1] || !ana_rows_pairs(&x->raw) ||
            gets_it_too(n, x->consumer))
            continue;
        for (uint32_t j = 0; j < x->nbuffer; j++)
            need |= x->buffer[j] == n->buffer;
        who = n->graph->launch[x->consumer].name;
    }
    if (need && n->host == 1 && who)
        rw_no(no, RW_NO_no_other_reader, DT_BUFFER " is needed by " DT_LAUNCH " as well",
              n->graph->buffer[n->buffer].name, who);
    else if (need && n->host == 1)
        rw_no(no, RW_NO_no_other_reader, DT_BUFFER " is needed by the graph's caller as well",
              n->graph->buffer[n->buffer].name);
    struct rw_uses p = n->uses[0][n->buffer], q = n->uses[1][n->buffer];
    n->keep_store = need || p.read.n; /* a host that reads it too may read what another of its threads stored */
    if (n->in_place)                  /* what it writes back stands there in the end, if it is everything */
        n->keep_store = !same_set(p.must, q.must);
    n->drop_arg = !n->keep_store && !n->in_place && rw_args_whole(n->facts, n->args) &&
                  rw_only_addresses(n->body[n->guest], n->args[n->guest]);
}

/* ---- sites ------------------------------------------------------------------------------------------------------- */

/* Does the element pass through this instruction of the side? */
static bool passes(const struct rw_inline *n, int side, const struct ptx_inst *i)
{
    if ((i->op != PTX_OP_LD && i->op != PTX_OP_ST) || !rw_is_global_access(i))
        return false;
    return i->op == (side == 0 ? PTX_OP_ST : PTX_OP_LD) && (rw_prov_of(n->body[side], i) & n->args[side]);
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
static void inline_map_units(struct rw_inline *n, struct rw_refusals *no, int side)
{
    const struct rw_body *b = n->body[side];
    for (uint32_t k = 0; k < b->f->ninst; k++) {
        const struct ptx_inst *i = &b->f->inst[k];
        if (!passes(n, side, i))
            continue;
        n->joins[side][k] = true;
        uint32_t elem = ptx_type_bytes(i->type[0]), comps = i->vec ? i->vec : 1;
        if (i->opnd[i->op == PTX_OP_LD ? 1 : 0].base_kind != PTX_O_REG)
            rw_no(no, RW_NO_plain_sites, DT_LAUNCH " touches it at no register's address (PTX line %u)", n->name[side],
                  i->line);
        if (!n->elem)
            n->elem = elem;
        if (elem != n->elem)
            rw_no(no, RW_NO_same_widths, DT_LAUNCH " moves %u bytes at once (PTX line %u), " DT_LAUNCH " %u",
                  n->name[side], elem, i->line, n->name[n->guest], n->elem);
        else if (!exact(b, i, elem))
            rw_no(no, RW_NO_same_widths, DT_LAUNCH " has %u bytes in a register of another size (PTX line %u)",
                  n->name[side], elem, i->line);
        n->unit = common(comps, n->unit);
        if (side == n->guest)
            n->joint[n->njoint++] = (struct rw_joint){.inst = k, .comps = (uint8_t)comps};
    }
}

static void sites(struct rw_inline *n, struct rw_refusals *no)
{
    for (int s = 0; s < 2; s++) {
        struct dt_str why = {0};
        uint32_t width = 0;
        n->args[s] = rw_args_of(n->body[s]->step->launch, n->buffer);
        if (s == 0 && rw_inline_has_maps(n))
            rw_inline_staged_sites(n, no);
        else if (!rw_sites_alone(n->body[s], n->args[s], s == 0 && n->host == 1, &width, &why))
            rw_no(no, RW_NO_plain_sites, "%s", why.s ? why.s : "?");
        dt_str_done(&why);
        n->joins[s] = dt_new_array(n->arena, bool, n->body[s]->f->ninst + 1);
    }
    n->joint = dt_new_array(n->arena, struct rw_joint, n->body[n->guest]->f->ninst + 1);
    for (int s = 0; s < 2 && n->joint && n->joins[0] && n->joins[1] && !no->row[RW_NO_plain_sites]; s++)
        if (s && n->nstaged && n->unit)
            rw_inline_staged_units(n, no);
        else if (!s || !n->nstaged)
            inline_map_units(n, no, s ? n->host : n->guest);
    /* inline.c follows it by its additions */
    if (!no->row[RW_NO_plain_sites] && !n->nstaged && !rw_only_addresses(n->body[n->host], n->args[n->host]))
        rw_no(no, RW_NO_plain_sites, DT_LAUNCH " does more with the buffer's address than add to it", n->name[n->host]);
    if (!n->njoint)
        rw_no(no, RW_NO_plain_sites, DT_LAUNCH " touches it at no instruction of its own", n->name[n->guest]);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

struct stores {
    const struct rw_inline *n;
    struct rw_refusals *no;
    uint64_t bytes;
};

static int on_store(const struct ana_trace_box *b, void *user)
{
    struct stores *s = user;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct ana_trace *t = &b->access[i];
        for (uint32_t k = 0; k < t->n; k++)
            if (t->writes && t->buffer[k] == s->n->buffer) {
                s->bytes += (uint64_t)b->ext[0] * b->ext[1] * b->ext[2] * t->bytes * (uint64_t)t->times[k];
                if (t->evidence != ANA_PROVED)
                    rw_no(s->no, RW_NO_stored_once, DT_LAUNCH " takes addresses from what a buffer holds",
                          s->n->name[s->n->host]);
            }
    }
    return 0;
}

/* A host that may store an element more than once: in later rounds of a loop, behind a barrier, or from two threads the
 * same. Then the guest is there each time, in the same threads and order, and what it leaves last is right, if it
 * computes it from the element and from what nobody writes: not from what it has written before. */
static void idempotent(const struct rw_inline *n, const char *why, struct rw_refusals *no)
{
    const struct ana_launch *l = &n->facts->ana->launch[n->facts->launch[0]];
    for (uint32_t k = 0; k < l->naccess; k++) {
        const struct ana_access *x = &l->access[k];
        for (unsigned v = 0; v < ANA_EVIDENCES && x->buffer == n->buffer; v++)
            if ((v != ANA_PROVED && x->write_by[v].n) || (x->widened && x->writes))
                rw_no(no, RW_NO_stored_once, DT_LAUNCH " takes addresses from what a buffer holds", n->name[0]);
    }
    for (uint32_t b = 0; b < n->graph->nbuffer; b++) {
        struct rw_uses u = n->uses[1][b];
        if (b == n->buffer ? n->in_place && n->keep_store : ana_set_overlaps(u.read, u.write))
            rw_no(no, RW_NO_stored_once,
                  DT_LAUNCH " reads " DT_BUFFER ", which it writes, and " DT_LAUNCH " may store an element twice: %s",
                  n->name[1], n->graph->buffer[b].name, n->name[0], why);
    }
}

/* Compare the bytes that the host accesses with those of the guest. */
static int host_map(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *tmp, struct dt_err *e)
{
    struct rw_uses p = n->uses[0][n->buffer], q = n->uses[1][n->buffer];
    const char *buffer = n->graph->buffer[n->buffer].name;
    if (n->host == 1) {
        n->partial = !ana_set_contains(p.must, q.read);
        if (n->partial && !same_set(p.write, p.must))
            rw_no(no, RW_NO_same_elements,
                  DT_LAUNCH " reads bytes of " DT_BUFFER " that " DT_LAUNCH " does not write for certain", n->name[1],
                  buffer, n->name[0]);
        n->keep_store |= n->partial; /* what others wrote is read where it was */
        n->drop_arg &= !n->partial;
        return 0;
    }
    if (!same_set(p.write, p.must))
        rw_no(no, RW_NO_stored_once, DT_LAUNCH " writes some bytes of " DT_BUFFER " only perhaps", n->name[0], buffer);
    else if (!ana_set_contains(p.must, q.read))
        rw_no(no, RW_NO_same_elements, DT_LAUNCH " reads bytes of " DT_BUFFER " that " DT_LAUNCH " does not write",
              n->name[1], buffer, n->name[0]);
    n->partial = !same_set(p.must, q.read);
    if (no->any)
        return 0;
    if (n->nstaged) {
        idempotent(n, "it copies boxes", no);
        return rw_inline_staged(n, no, tmp, e);
    }
    struct rw_refusals lost = {.arena = no->arena}, seen = lost;
    struct stores s = {n, &seen, 0};
    int r = rw_inline_trace(n, n->host, on_store, &s, RW_NO_stored_once, &lost, e);
    if (r == 0 && lost.any) /* what the trace gave counts for nothing */
        idempotent(n, lost.row[RW_NO_stored_once], no);
    else if (r == 0 && seen.any)
        *no = seen;
    else if (r == 0 && s.bytes != ana_set_bytes(p.must))
        rw_no(no, RW_NO_stored_once,
              DT_LAUNCH " stores some byte of " DT_BUFFER " more than once: a later value counts", n->name[0], buffer);
    return r;
}

/* ---- the conditions in order ------------------------------------------------------------------------------------- */

/* The steps; the first that refuses something is the last. `tmp` is there while they run. */
static int look(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *tmp, struct dt_err *e)
{
    int r = 0;
    pointwise(n, no);
    if (no->any)
        return 0;
    find_uses(n, tmp);
    if (dt_arena_failed(tmp))
        return 0;
    buffers(n, no);
    if (!no->any)
        sites(n, no);
    if (!no->any)
        bystanders(n, no);
    if (!no->any)
        readers(n, no);
    if (!no->any)
        r = host_map(n, no, tmp, e);
    if (r == 0 && !no->any)
        r = rw_inline_threads(n, no, tmp, e);
    if (r == 0 && !no->any)
        r = rw_inline_loop(n, no, tmp, e);
    if (r == 0 && !no->any)
        r = rw_inline_slices(n, no, tmp, e);
    if (r == 0 && !no->any && n->slice)
        r = rw_inline_merge(n, tmp, e);
    if (r == 0 && !no->any)
        r = rw_inline_check(n, no, tmp, e);
    return r;
}

int rw_inline_look(const struct rw_facts *facts, int host, struct dt_arena *keep, struct rw_inline **ret,
                   struct dt_err *e)
{
    struct dt_arena tmp = {0};
    struct rw_refusals no = {.arena = &tmp};
    struct dt_str why = {0};
    struct rw_inline *n = dt_new(keep, struct rw_inline);
    if (!n)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *n = (struct rw_inline){.facts = facts, .graph = facts->prog->graph, .arena = keep, .host = host, .guest = !host};
    for (int s = 0; s < 2; s++) {
        n->body[s] = &facts->body[s];
        n->name[s] = n->graph->launch[facts->launch[s]].name;
    }
    int r = look(n, &no, &tmp, e);
    rw_tell_refusal(&no, &why);
    if (no.any)
        n->refusal = dt_arena_strdup(keep, why.s ? why.s : "out of memory");
    if (r == 0 && (dt_arena_failed(&tmp) || dt_arena_failed(keep)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    n->uses[0] = n->uses[1] = NULL;
    dt_str_done(&why);
    dt_arena_done(&tmp);
    if (r == 0)
        *ret = n;
    return r;
}
