/* Dead blocks: blocks whose results no later launch reads are not run.
 *
 *   before                                                           after
 *   scores<<<(8, 8), 256>>>(q, k, s)                                 scores<<<36, 256>>>(q, k, s)   the lower triangle,
 *   softmax<<<8, 128>>>(s, p)     reads rows up to the diagonal                                     from a table
 *   half<<<64, 256>>>(x, y)       y's reader needs its first half    half<<<32, 256>>>(x, y)
 *   memset(z)                     nobody reads z                     gone
 *
 * A byte is live behind a launch if it leaves the graph, or if a later launch reads it before one writes it for
 * certain. It leaves the graph in every buffer but intermediates and scratch: in outputs, but also in inputs that are
 * written and in module variables. A block is dead if it writes, surely or perhaps, no live byte. Reads count at their
 * widest: all blocks of the later launch count, and a data-dependent address counts as the whole buffer. Only a sure
 * write makes a byte dead. The last launches are tried first; what only they kept alive is found in later rounds.
 *
 * The live blocks are launched alone. If they are the first columns, rows and layers of the grid, and the kernel does
 * not look at its grid's size, the grid is made smaller. Else they are one body whose block numbers are affine in the
 * launch's, or read from a table (facts/comps.c, emit/join.c). If none is left, there is no launch.
 *
 * Legal when the rows below hold. What could break it: an effect that is not a write in the map (a trap, talk between
 * blocks, printing), which these rows rule out; a read that the map does not show.
 */
#include "rewrite/emit/join.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

static const struct rw_legal always[] = {
    RW_LEGAL_ROW(opaque),
    RW_LEGAL_ROW(side_effects),
    RW_LEGAL_ROW(functions),
    RW_LEGAL_ROW(nobody_reads),
};
static const struct rw_legal parted[] = {
    /* asked if some blocks stay */
    RW_LEGAL_ROW(plain_launches),
    RW_LEGAL_ROW(self_conflict),
    RW_LEGAL_ROW(ordered_access),
    RW_LEGAL_ROW(machine_registers),
};
static const struct rw_legal listed[] = {
    /* asked if block numbers change */
    RW_LEGAL_ROW(module_variables), RW_LEGAL_ROW(parameters),          RW_LEGAL_ROW(targets),
    RW_LEGAL_ROW(uniform_barriers), RW_LEGAL_ROW(uniform_collectives), RW_LEGAL_ROW(barrier_numbers),
    RW_LEGAL_ROW(thread_counts),    RW_LEGAL_ROW(active_mask),         RW_LEGAL_ROW(async),
    RW_LEGAL_ROW(constant_space),   RW_LEGAL_ROW(shared_space),
};
#define N(rows) (sizeof(rows) / sizeof(rows)[0])

/* ---- what is live ------------------------------------------------------------------------------------------------ */

static struct ana_set dead_whole(struct dt_arena *a, const struct dt_graph *g, uint32_t buffer)
{
    struct ana_set s = {dt_new_array(a, struct ana_interval, 1), 1};
    if (s.iv)
        s.iv[0] = (struct ana_interval){0, g->buffer[buffer].bytes};
    else
        s.n = 0; /* the arena says that it failed */
    return s;
}

static bool dead_leaves(const struct dt_buffer *b) { return !rw_passing(b); }

/* The bytes of the buffer that the launch reads, at its widest. */
static struct ana_set reads_of(struct dt_arena *a, const struct dt_graph *g, const struct ana_access *x)
{
    struct ana_set s = {0};
    if (x->widened && x->reads)
        return dead_whole(a, g, x->buffer);
    for (int k = 0; x->reads && k < ANA_EVIDENCES; k++)
        s = ana_set_union(a, s, x->read_by[k]);
    return s;
}

/* Turn live[] (by buffer) from the bytes live after a launch into those live before it. */
static void dead_pass(struct dt_arena *a, const struct rw_state *s, uint32_t launch, struct ana_set *live)
{
    const struct ana_launch *l = &s->ana->launch[launch];
    for (uint32_t k = 0; k < l->naccess; k++) {
        const struct ana_access *x = &l->access[k];
        if (x->writes)
            live[x->buffer] = ana_set_minus(a, live[x->buffer], x->must);
        if (x->reads)
            live[x->buffer] = ana_set_union(a, live[x->buffer], reads_of(a, s->graph, x));
    }
}

static struct ana_set *live_at_end(struct dt_arena *a, const struct dt_graph *g)
{
    struct ana_set *live = dt_new_array(a, struct ana_set, g->nbuffer + 1);
    for (uint32_t b = 0; live && b < g->nbuffer; b++)
        live[b] = dead_leaves(&g->buffer[b]) ? dead_whole(a, g, b) : (struct ana_set){0};
    return live;
}

/* Is the block live? In a kernel that prefetches, one that touches nothing may be there to prefetch (prefetch.c). */
static bool is_live(const struct ana_block *b, const struct ana_set *live, bool fetches)
{
    if (!b->ntouch && fetches)
        return true;
    for (uint32_t k = 0; k < b->ntouch; k++)
        if (ana_set_overlaps(live[b->touch[k].buffer], b->touch[k].must_write) ||
            ana_set_overlaps(live[b->touch[k].buffer], b->touch[k].may_write))
            return true;
    return false;
}

static uint32_t count_live(const struct ana_launch *l, const struct ana_set *live, bool fetches)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < l->nblock; b++)
        n += is_live(&l->block[b], live, fetches);
    return n;
}

/* Check the same forwards: follow the bytes that the left-out blocks write through every later launch. */
bool rw_legal_nobody_reads(const struct rw_cand *c, struct dt_str *why)
{
    const struct dt_graph *g = c->facts.prog->graph;
    const struct ana_launch *l = &c->facts.ana->launch[c->facts.launch[0]];
    const struct rw_list *stay = &c->lists.list[0];
    struct dt_arena a = {0};
    struct ana_set *lost = dt_new_array(&a, struct ana_set, g->nbuffer + 1);
    bool ok = lost != NULL;
    for (uint32_t b = 0, k = 0; ok && b < l->nblock; b++) {
        if (k < c->lists.n && stay->col[k] == b) {
            k++;
            continue;
        }
        for (uint32_t t = 0; t < l->block[b].ntouch; t++) {
            const struct ana_touch *x = &l->block[b].touch[t];
            lost[x->buffer] = ana_set_union(&a, lost[x->buffer], ana_set_union(&a, x->must_write, x->may_write));
        }
    }
    for (uint32_t n = c->facts.launch[0] + 1; ok && n < g->nlaunch; n++)
        for (uint32_t k = 0; ok && k < c->facts.ana->launch[n].naccess; k++) {
            const struct ana_access *x = &c->facts.ana->launch[n].access[k];
            if (ana_set_overlaps(lost[x->buffer], reads_of(&a, g, x))) {
                dt_str_addf(why, DT_LAUNCH " reads of " DT_BUFFER " what they write", g->launch[n].name,
                            g->buffer[x->buffer].name);
                ok = false;
            }
            if (x->writes)
                lost[x->buffer] = ana_set_minus(&a, lost[x->buffer], x->must);
        }
    for (uint32_t b = 0; ok && b < g->nbuffer; b++)
        if (lost[b].n && dead_leaves(&g->buffer[b])) {
            dt_str_addf(why, "they write " DT_BUFFER ", which leaves the graph", g->buffer[b].name);
            ok = false;
        }
    ok = ok && !dt_arena_failed(&a);
    dt_arena_done(&a);
    return ok;
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

static int dead_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                        struct dt_err *e)
{
    struct dt_arena a = {0};
    struct ana_set *live = live_at_end(&a, s->graph);
    int r = live ? 0 : DT_E_NOMEM;
    (void)o;
    for (uint32_t k = s->graph->nlaunch; r == 0 && k-- > 0;) {
        const struct ana_launch *l = &s->ana->launch[k];
        uint32_t n = count_live(l, live, rw_prefetches(s->prog->step[k].entry));
        if (n < l->nblock) /* the later, the better */
            r = rw_propose(ret, &k, 1, s->graph->nlaunch - k, l->nblock - n);
        dead_pass(&a, s, k, live);
        if (dt_arena_failed(&a))
            r = DT_E_NOMEM;
    }
    dt_arena_done(&a);
    return r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

/* Make the list of the blocks that stay. */
static int list_live(struct rw_edit *x, struct rw_cand *c, struct dt_err *e)
{
    const struct rw_state *s = x->now;
    const struct ana_launch *l = &s->ana->launch[x->launch[0]];
    struct dt_arena a = {0};
    struct ana_set *live = live_at_end(&a, s->graph);
    struct rw_list *list = &c->lists.list[0];
    for (uint32_t k = s->graph->nlaunch; live && --k > x->launch[0];)
        dead_pass(&a, s, k, live);
    list->row = dt_new_array(&c->arena, uint32_t, l->nblock + 1);
    list->col = dt_new_array(&c->arena, uint32_t, l->nblock + 1);
    bool fetches = rw_prefetches(s->prog->step[x->launch[0]].entry),
         ok = live && list->row && list->col && !dt_arena_failed(&a);
    for (uint32_t b = 0; ok && b < l->nblock; b++)
        if (is_live(&l->block[b], live, fetches) && !(RW_SPOILT("live") && b == 0)) {
            list->col[c->lists.n++] = b;
            list->row[c->lists.n] = c->lists.n;
        }
    if (ok && c->lists.n)
        rw_list_fit(list, c->lists.n);
    dt_arena_done(&a);
    return ok ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

static int dead_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = x->mine = dt_calloc(1, sizeof *c);
    const struct dt_launch *l = &x->now->graph->launch[x->launch[0]];
    *ret_verdict = RW_REFUSED;
    if (!c)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_cand_open(c, x->dev, x->now->prog, x->now->ana, x->opt, x->launch, 1, e);
    if (r < 0 || (r = list_live(x, c, e)) < 0)
        return r;
    if (rw_is_placed(x->now->graph, x->launch[0]) || l->programmatic)
        return dt_str_addf(why, DT_ROW("plain-launches") ": " DT_LAUNCH " is placed among streams", l->name), 1;
    if (l->kind != DT_KERNEL) /* a step has nothing but its write */
        return !rw_legal_rows(&always[N(always) - 1], 1, c, why);
    if (!rw_legal_rows(always, N(always), c, why) || (c->lists.n && !rw_legal_rows(parted, N(parted), c, why)))
        return 1;
    if (c->lists.n && rw_cluster_shape(l, c->facts.body[0].f, (uint32_t[3]){0}) && !rw_off("clusters"))
        return dt_str_addf(why,
                           DT_ROW("clusters") ": " DT_LAUNCH " is launched in clusters, whose blocks start together",
                           l->name),
               1;
    return 0;
}

/* ---- the launch that is left ------------------------------------------------------------------------------------- */

/* Find the smallest grid from block 0 on that has all live blocks. True: it is smaller than the launch's grid, and the
 * kernel does not read its grid's size. */
static bool clip(const struct rw_cand *c, uint32_t grid[3], bool *ret_exact)
{
    const struct rw_body *b = &c->facts.body[0];
    bool less = false, seen = false;
    memset(grid, 0, 3 * sizeof *grid);
    for (uint32_t k = 0; k < c->lists.n; k++) {
        uint32_t n = c->lists.list[0].col[k];
        uint32_t at[3] = {n % b->grid[0], n / b->grid[0] % b->grid[1], n / b->grid[0] / b->grid[1]};
        for (int i = 0; i < 3; i++)
            if (at[i] >= grid[i])
                grid[i] = at[i] + 1;
    }
    for (int i = 0; i < 3; i++)
        if (grid[i] < b->grid[i]) {
            less = true;
            seen |= rw_reads_sreg(b->f, PTX_SR_NCTAID, i);
        }
    *ret_exact = (uint64_t)grid[0] * grid[1] * grid[2] == c->lists.n;
    return less && !seen;
}

/* Note the bytes that the left-out blocks wrote: the trial need not compare them. */
static int unread(struct rw_edit *x, const struct rw_cand *c, const uint32_t *grid)
{
    const struct ana_launch *l = &x->now->ana->launch[x->launch[0]];
    uint32_t nb = x->now->graph->nbuffer;
    struct ana_set *lost = dt_new_array(&x->arena, struct ana_set, nb + 1);
    for (uint32_t b = 0, k = 0; lost && b < l->nblock; b++) {
        bool stays = k < c->lists.n && c->lists.list[0].col[k] == b;
        k += stays;
        if (grid) { /* it is launched, dead or not */
            const uint32_t *g = c->facts.body[0].grid;
            stays |= b % g[0] < grid[0] && b / g[0] % g[1] < grid[1] && b / g[0] / g[1] < grid[2];
        }
        for (uint32_t t = 0; !stays && t < l->block[b].ntouch; t++) {
            const struct ana_touch *y = &l->block[b].touch[t];
            lost[y->buffer] =
                ana_set_union(&x->arena, lost[y->buffer], ana_set_union(&x->arena, y->must_write, y->may_write));
        }
    }
    for (uint32_t b = 0; lost && b < nb; b++) {
        struct rw_unread u = {b, lost[b]};
        if (u.bytes.n && !dt_push(&x->unread, u))
            return DT_E_NOMEM;
    }
    return lost && !dt_arena_failed(&x->arena) ? 0 : DT_E_NOMEM;
}

static int clipped(struct rw_edit *x, const struct rw_cand *c, const uint32_t grid[3], struct dt_err *e)
{
    json_t *l = dt_launch_to_json(x->now->graph, &x->now->graph->launch[x->launch[0]]);
    json_t *g = json_pack("[I,I,I]", (json_int_t)grid[0], (json_int_t)grid[1], (json_int_t)grid[2]);
    if (!l || !g || json_object_set(l, "grid", g) < 0) {
        json_decref(l);
        l = NULL;
    }
    json_decref(g);
    return rw_edit_add(x, l) && unread(x, c, grid) == 0 ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

static int dead_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = x->mine;
    struct dt_str no = {0};
    uint32_t grid[3], of = x->now->ana->launch[x->launch[0]].nblock;
    bool exact = false, clips = c->facts.body[0].f && c->lists.n && clip(c, grid, &exact);
    int r;
    (void)level;
    if (!c->lists.n)
        return dt_str_addf(why, "nobody reads what it writes"),
               unread(x, c, NULL) < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
    dt_str_addf(why, "%u of %u blocks write what somebody reads", c->lists.n, of);
    if (clips && exact)
        return clipped(x, c, grid, e);
    if (!rw_layout(c, &no)) {
        dt_str_done(&no);
        dt_str_add(&no, DT_ROW("shared-space") ": it does not fit");
        r = 1;
    } else if ((r = rw_legal_rows(listed, N(listed), c, &no) ? rw_identity(c, &no, e) : 1) == 0) {
        rw_name_entry(c);
        if ((r = rw_join(c, e)) == 0 && (r = rw_resources(c, &no, e)) == 0 && (r = rw_fuse_part(c, x, e)) == 0 &&
            unread(x, c, NULL) < 0)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (r == 1 && clips) /* the numbers of blocks cannot be changed: some dead ones stay */
        r = clipped(x, c, grid, e);
    else if (r == 1) {
        dt_str_done(why);
        dt_str_addf(why, "%s", no.s ? no.s : "");
    }
    dt_str_done(&no);
    return r;
}

const struct rw_rewrite rw_dead_blocks = {
    .name = "dead-blocks",
    .needs = "blocks that write nothing that a later launch reads and nothing that leaves the graph; no other effect",
    .keeps = "every byte that anybody reads",
    .on = true,
    .same_code = true,
    .propose = dead_propose,
    .open = dead_open,
    .build = dead_build,
    .close = rw_close_cand,
};
