/* Dataflow fusion: launches with hazards run in one grid, and each block waits for just the blocks that it needs.
 *
 *   before                           after
 *   gemm0<<<(8, 32), 256>>>(x, h)    memset(t0, 0)                          on a stream of its own
 *   gemm1<<<(8, 32), 256>>>(h, y)    gemm0+gemm1<<<512, 256>>>(x, h, y, t0)
 *
 *   a block:  v = t0.ticket++              the virtual block number; bodies in program order, so producers come first
 *             for each flag f of v's list  wait until f has all its signals: ld.acquire.gpu, at most RW_FLOW_POLLS
 *                                          times, then an assertion that names f
 *             the body that v belongs to   as in parallel fusion
 *             barrier; fence.acq_rel.gpu; red.release.gpu flag(v) += 1
 *
 * A block waits only for blocks with lower tickets. Those tickets have been drawn, so their blocks are resident. The
 * unfinished block with the lowest ticket waits for no other, so it ends, however many blocks are resident and in
 * whatever order the hardware starts them.
 *
 * Flags. Blocks with the same consumers share a flag: a class of the partition that the rows of the block maps (RAW,
 * WAR and WAW, all pairs of launches) make of them. A row is then a union of whole classes. So a consumer waits for all
 * blocks of each class that its rows meet, and for no other block. A map that is a superset makes it wait for more.
 *
 * Ticket and flags are in a scratch buffer of their own. A memset of the plan, on another stream, clears it before each
 * run, so a replay begins with zeros even if the run before failed. Runs of one plan share its scratch as they
 * share its intermediates, and follow each other.
 *
 * Legal when the rows below hold: what parallel fusion asks of the bodies, no launch on a path between them (`order`),
 * all maps known pair by pair, and lists that hold what they promise (`flags`: asked again of the numbers that are
 * printed; gate/waits.c asks once more, of the plan's text). What could break it: a block that signals before its last
 * store is out (a barrier and a fence stand before); a count that is not reached (the spin is bounded); loads that may
 * return what was there before (.nc goes); blocks that talk already (refused). The blocks of the new launch
 * talk to each other, so no later rewrite moves, joins or leaves out its blocks. This kind is off unless it is allowed
 * by name.
 */
#include "rewrite/emit/flow.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define STREAM 2 /* of the memsets */
#define WINDOW 4 /* launches in a row that are proposed together, at most */

static const struct rw_legal rows[] = {
    RW_LEGAL_ROW(plain_launches),
    RW_LEGAL_ROW(clusters),
    RW_LEGAL_ROW(opaque),
    RW_LEGAL_ROW(order),
    RW_LEGAL_ROW(block_maps),
    RW_LEGAL_ROW(self_conflict),
    RW_LEGAL_ROW(ordered_access),
    RW_LEGAL_ROW(side_effects),
    RW_LEGAL_ROW(float_atomics),
    RW_LEGAL_ROW(machine_registers),
    RW_LEGAL_ROW(functions),
    RW_LEGAL_ROW(module_variables),
    RW_LEGAL_ROW(parameters),
    RW_LEGAL_ROW(targets),
    RW_LEGAL_ROW(uniform_barriers),
    RW_LEGAL_ROW(uniform_collectives),
    RW_LEGAL_ROW(barrier_numbers),
    RW_LEGAL_ROW(thread_counts),
    RW_LEGAL_ROW(surplus_lanes),
    RW_LEGAL_ROW(posted_lanes),
    RW_LEGAL_ROW(surplus_paths),
    RW_LEGAL_ROW(active_mask),
    RW_LEGAL_ROW(async),
    RW_LEGAL_ROW(flags),
    RW_LEGAL_ROW(constant_space),
    RW_LEGAL_ROW(shared_space),
};
#define NROWS (sizeof rows / sizeof rows[0])

bool rw_legal_block_maps(const struct rw_cand *c, struct dt_str *why)
{
    for (uint32_t t = 1; t < c->facts.nbody; t++)
        for (uint32_t s = 0; s < t; s++) {
            const struct ana_edge *x = ana_find_edge(c->facts.ana, c->facts.launch[s], c->facts.launch[t]);
            if (x && !ana_rows_kept(&x->any)) {
                dt_str_addf(why, "the map of " DT_LAUNCH " and " DT_LAUNCH " has %llu pairs, too many to keep",
                            c->facts.prog->graph->launch[c->facts.launch[s]].name,
                            c->facts.prog->graph->launch[c->facts.launch[t]].name, (unsigned long long)x->pairs);
                return false;
            }
        }
    return true;
}

/* ---- flags from block maps --------------------------------------------------------------------------------------- */

/* Split the classes of the blocks [base, …) by a row, into blocks that are in the row and blocks that are not. */
struct parts {
    uint32_t *of, *size, *met, *to; /* by block: its class; by class: blocks; of the row; where the row's go */
    uint32_t n;
};

static void split(struct parts *p, uint32_t base, const uint32_t *col, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        p->met[p->of[base + col[i]]]++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = p->of[base + col[i]];
        if (p->met[c] && p->met[c] < p->size[c]) { /* part of it: a new class */
            p->to[c] = p->n++;
            p->size[p->to[c]] = p->met[c];
            p->size[c] -= p->met[c];
        } else if (p->met[c]) {
            p->to[c] = c;
        }
        p->met[c] = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        p->of[base + col[i]] = p->to[p->of[base + col[i]]];
}

static const struct ana_rows *rows_of(const struct rw_cand *c, uint32_t s, uint32_t t)
{
    const struct ana_edge *x = ana_find_edge(c->facts.ana, c->facts.launch[s], c->facts.launch[t]);
    return x && x->any.row ? &x->any : NULL;
}

/* Builds for tests only. */
static void spoil(struct rw_flow *f)
{
    (void)f;
    if (RW_SPOILT("wait")) /* the last block waits for nobody */
        f->wait_at[f->n] = f->wait_at[f->n - 1];
    if (RW_SPOILT("count")) /* of a signal that nobody sends */
        f->count[f->nflag - 1]++;
    if (RW_SPOILT("late")) /* the last block waits for itself */
        f->count[f->signal[f->n - 1] = f->wait[f->wait_at[f->n] - 1]]++;
}

static int make_flags(struct rw_cand *c, struct dt_err *e)
{
    struct rw_flow *f = c->flow;
    uint32_t n = c->beside[c->facts.nbody], pairs = 0;
    struct dt_arena tmp = {0};
    struct parts p = {.of = dt_new_array(&tmp, uint32_t, n + 1)};
    uint32_t *seen = dt_new_array(&tmp, uint32_t, n + 1),
             *number = dt_new_array(&tmp, uint32_t, n + c->facts.nbody + 1);
    p.size = dt_new_array(&tmp, uint32_t, n + c->facts.nbody + 1);
    p.met = dt_new_array(&tmp, uint32_t, n + c->facts.nbody + 1);
    p.to = dt_new_array(&tmp, uint32_t, n + c->facts.nbody + 1);
    f->n = n;
    f->signal = dt_new_array(&c->arena, uint32_t, n + 1);
    f->count = dt_new_array(&c->arena, uint32_t, n + 1);
    f->wait_at = dt_new_array(&c->arena, uint32_t, n + 2);
    if (!seen || !number || dt_arena_failed(&tmp) || dt_arena_failed(&c->arena))
        goto nomem;
    for (uint32_t s = 0; s < c->facts.nbody; s++) { /* blocks of different launches never share one */
        p.size[s] = c->facts.body[s].step->blocks;
        for (uint32_t b = c->beside[s]; b < c->beside[s + 1]; b++)
            p.of[b] = s;
    }
    p.n = c->facts.nbody;
    for (uint32_t t = 1; t < c->facts.nbody; t++)
        for (uint32_t s = 0; s < t; s++) {
            const struct ana_rows *r = rows_of(c, s, t);
            for (uint32_t b = 0; r && b < r->nrow; b++)
                split(&p, c->beside[s], r->col + r->row[b], r->row[b + 1] - r->row[b]);
            pairs += r ? r->row[r->nrow] : 0;
        }
    if (!(f->wait = dt_new_array(&c->arena, uint32_t, (size_t)pairs + 1)))
        goto nomem;
    /* number the classes that a block waits for, in the order of blocks */
    memset(number, 0xFF, (n + c->facts.nbody + 1) * sizeof *number);
    for (uint32_t t = 1; t < c->facts.nbody; t++)
        for (uint32_t s = 0; s < t; s++) {
            const struct ana_rows *r = rows_of(c, s, t);
            for (uint32_t k = 0; r && k < r->row[r->nrow]; k++)
                number[p.of[c->beside[s] + r->col[k]]] = 0;
        }
    for (uint32_t b = 0; b < n; b++)
        seen[b] = UINT32_MAX;
    memset(p.met, 0, (n + c->facts.nbody + 1) * sizeof *p.met);
    for (uint32_t b = 0; b < n; b++) {
        uint32_t k = p.of[b];
        if (number[k] == 0 && !p.met[k]) {
            p.met[k] = 1;
            f->count[f->nflag] = p.size[k];
            number[k] = f->nflag++;
        }
        f->signal[b] = number[k];
    }
    for (uint32_t t = 0, at = 0; t < c->facts.nbody; t++)
        for (uint32_t b = c->beside[t]; b < c->beside[t + 1]; b++) {
            uint32_t row = b - c->beside[t];
            for (uint32_t s = 0; s < t; s++) {
                const struct ana_rows *r = rows_of(c, s, t);
                for (uint32_t k = r && row < r->nrow ? r->row[row] : 0; r && row < r->nrow && k < r->row[row + 1];
                     k++) {
                    uint32_t flag = f->signal[c->beside[s] + r->col[k]];
                    if (seen[flag] != b) {
                        seen[flag] = b;
                        f->wait[at++] = flag;
                    }
                }
            }
            f->wait_at[b + 1] = at;
        }
    spoil(f);
    dt_arena_done(&tmp);
    return 0;
nomem:
    dt_arena_done(&tmp);
    return dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* Is every pair of the maps waited for, and can every wait be met? */
bool rw_legal_flags(const struct rw_cand *c, struct dt_str *why)
{
    const struct rw_flow *f = c->flow;
    if (!f || !f->n)
        return true; /* not made yet */
    if (f->nflag >= RW_FLOW_NONE) {
        dt_str_addf(why, "%u flags are too many", f->nflag);
        return false;
    }
    if (!rw_flow_sound(f, why))
        return false;
    for (uint32_t t = 1; t < c->facts.nbody; t++)
        for (uint32_t s = 0; s < t; s++) {
            const struct ana_rows *r = rows_of(c, s, t);
            for (uint32_t b = 0; r && b < r->nrow; b++)
                for (uint32_t k = r->row[b]; k < r->row[b + 1]; k++) {
                    uint32_t v = c->beside[t] + b, flag = f->signal[c->beside[s] + r->col[k]], i = f->wait_at[v];
                    while (i < f->wait_at[v + 1] && f->wait[i] != flag)
                        i++;
                    if (i == f->wait_at[v + 1]) {
                        dt_str_addf(why, "block %u of " DT_LAUNCH " does not wait for block %u of " DT_LAUNCH, b,
                                    c->facts.prog->graph->launch[c->facts.launch[t]].name, r->col[k],
                                    c->facts.prog->graph->launch[c->facts.launch[s]].name);
                        return false;
                    }
                }
        }
    return true;
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

static bool dataflow_plain(const struct rw_state *s, uint32_t launch)
{
    const struct dt_launch *l = &s->graph->launch[launch];
    return !s->graph->streams && l->kind == DT_KERNEL && !l->cluster[0] && !l->programmatic && !l->stream &&
           !l->nafter && !s->ana->launch[launch].self_conflict;
}

static bool hazard(const struct rw_state *s, uint32_t a, uint32_t b)
{
    const struct ana_edge *x = ana_find_edge(s->ana, a, b);
    return x && x->pairs;
}

/* Propose pairs with a hazard, and rows of up to WINDOW launches in which each has a hazard with an earlier one; long
 * rows first. */
static int dataflow_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                            struct dt_err *e)
{
    uint32_t n = s->graph->nlaunch;
    int r = 0;
    (void)o;
    for (uint32_t p = 0; p < n && r == 0; p++) {
        uint32_t set[WINDOW] = {p}, k = 1;
        for (uint32_t c = p + 1; c < n && dataflow_plain(s, p) && r == 0; c++) {
            const uint32_t pair[2] = {p, c};
            if (dataflow_plain(s, c) && hazard(s, p, c) && rw_propose(ret, pair, 2, RW_BODIES, 0) < 0)
                r = DT_E_NOMEM;
        }
        for (uint32_t c = p + 1; c < n && k < WINDOW && dataflow_plain(s, p) && dataflow_plain(s, c) && r == 0; c++) {
            bool linked = false;
            for (uint32_t i = 0; i < k; i++)
                linked |= hazard(s, set[i], c);
            if (!linked)
                break;
            set[k++] = c;
            if (k > 2 && rw_propose(ret, set, k, RW_BODIES - k, 0) < 0)
                r = DT_E_NOMEM;
        }
    }
    return r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

/* ---- one of them ------------------------------------------------------------------------------------------------- */

static int dataflow_open_edit(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = x->mine = dt_calloc(1, sizeof *c);
    uint64_t whole = x->opt->whole ? x->opt->whole : RW_WHOLE, all = 0;
    *ret_verdict = RW_REFUSED;
    if (!c)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_cand_open(c, x->dev, x->now->prog, x->now->ana, x->opt, x->launch, x->nlaunch, e);
    if (r < 0)
        return r;
    for (uint32_t k = 0; x->now->cost && k < x->now->graph->nlaunch; k++)
        all += x->now->cost[k].known ? x->now->cost[k].instructions : 0;
    if (all > whole)
        return dt_str_add(
                   why,
                   DT_ROW("sample") ": the graph is too large to be run whole, and blocks that wait for each other "
                                    "cannot run alone"),
               1;
    if (!(c->beside = dt_new_array(&c->arena, uint32_t, c->facts.nbody + 1)) ||
        !(c->flow = dt_new_array(&c->arena, struct rw_flow, 1)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    /* what the block takes, and the flags, are not known yet, and asked again */
    if (!rw_legal_rows(rows, NROWS, c, why))
        return 1;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        uint64_t end = (uint64_t)c->beside[s] + c->facts.body[s].step->blocks;
        if (end > INT32_MAX)
            return dt_str_add(why, DT_ROW("grid") ": the blocks of all are too many for one launch"), 1;
        c->beside[s + 1] = (uint32_t)end;
        c->lists.list[s] = (struct rw_list){.affine = true, .a = 0 - c->beside[s], .b = 1, .m = 1, .max = 1};
    }
    c->lists.n = c->beside[c->facts.nbody];
    return make_flags(c, e);
}

/* A name for the scratch buffer: t0, t1 … */
static void scratch_name(const struct dt_graph *g, char name[16])
{
    unsigned n = 0;
    do
        snprintf(name, 16, "t%u", n++);
    while (dt_graph_find_buffer(g, name) != DT_NAME_NONE);
}

static int dataflow_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = x->mine;
    struct dt_str name = {0};
    char scratch[16];
    int r;
    (void)level;
    if ((r = rw_join_beside(c, rows, NROWS, why, e)))
        return r;
    scratch_name(x->now->graph, scratch);
    dt_str_add(&name, "flags");
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        dt_str_addf(&name, "+%s", x->now->graph->launch[c->facts.launch[s]].name);
    json_t *clear =
        name.failed ? NULL
                    : json_pack("{s:s,s:i,s:{s:s,s:i,s:I,s:i}}", "name", name.s, "stream", STREAM, "memset", "buffer",
                                scratch, "offset", 0, "bytes", (json_int_t)rw_flow_scratch_bytes(c->flow), "value", 0);
    dt_str_done(&name);
    if (!rw_edit_add(x, clear) || rw_edit_scratch(x, scratch, rw_flow_scratch_bytes(c->flow)) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if ((r = rw_fuse_part(c, x, e)) < 0)
        return r;
    struct rw_part *t = &x->part.p[x->part.n - 1];
    t->follows = (uint32_t)x->part.n - 1; /* the memset */
    if (json_array_append_new(json_object_get(t->launch, "args"), json_pack("{s:s}", "buffer", scratch)) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return 0;
}

const struct rw_rewrite rw_dataflow_fusion = {
    .name = "dataflow-fusion",
    .needs = "launches with hazards, all of whose block maps are known; rows of rewrite/legal.def about what they "
             "contain; to be allowed by name",
    .keeps = "what every block computes; each pair of the block maps, by a flag",
    .on = false,
    .propose = dataflow_propose,
    .open = dataflow_open_edit,
    .build = dataflow_build,
    .close = rw_close_cand,
};
