/* Programmatic launch: a launch starts while the one before it still runs, and waits where it first needs it.
 *
 *   before                  after
 *   a<<<…>>>(x, h)          a: griddepcontrol.launch_dependents; …    lets b in as soon as all blocks of a run
 *   b<<<…>>>(h, w, y)       b<<<…, programmatic>>>: index arithmetic, loads of w; griddepcontrol.wait; loads of h …
 *
 * A candidate is a run of kernels, one behind the other on a stream; or, where the whole run did not gain, two of them.
 *
 * Where b waits: before its first access that is in conflict with a (RAW, WAR, WAW, by bytes of the launches'
 * footprints). Of the places that every path to such an access passes, outside any loop, it is the latest. Paths that
 * do not come by there wait before they exit. Loads by .nc of what a writes become plain ones. A kernel with a trigger
 * of its own is not made to wait: it might let its successor in first (`unwaited`).
 *
 * Where a triggers: at its beginning; if it waits itself, behind that wait; if it waits only before it exits, nowhere:
 * its exit lets b in. So nothing that came before a still runs when b starts, and what b does before it waits need be
 * independent of a alone. To trigger early is safe, since griddepcontrol.wait waits for the end of a and for its
 * memory, not for the trigger.
 *
 * What could break it: an access before the wait that is in conflict after all, or a path without a wait. gate/waits.c
 * looks for both again, in the emitted text.
 */
#include "ptx/reach.h"
#include "rewrite/emit/emit.h"
#include "rewrite/emit/solo.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#define WAIT "griddepcontrol.wait;"
#define TRIGGER "griddepcontrol.launch_dependents;"

/* next[a]: the launch that comes next on a's stream and may start early there; UINT32_MAX: there is none. Of streams
 * that the search made, only what also comes next in the document. */
static void followers(const struct dt_graph *g, uint32_t *next)
{
    uint32_t last[DT_STREAMS];
    memset(last, 0xFF, sizeof last);
    for (uint32_t b = 0; b < g->nlaunch; b++) {
        const struct dt_launch *l = &g->launch[b];
        uint32_t a = last[l->stream];
        next[b] = UINT32_MAX;
        if (a != UINT32_MAX && (g->streams ? !l->nafter : b == a + 1) && g->launch[a].kind == DT_KERNEL &&
            l->kind == DT_KERNEL && !l->programmatic)
            next[a] = b;
        last[l->stream] = b;
    }
}

static int programmatic_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                                struct dt_err *e)
{
    const struct dt_graph *g = s->graph;
    dt_free_ uint32_t *run = dt_calloc(2 * ((size_t)g->nlaunch + 1), sizeof *run);
    dt_free_ bool *seen = dt_calloc((size_t)g->nlaunch + 1, sizeof *seen);
    uint32_t *next = run ? run + g->nlaunch + 1 : NULL;
    int r = run && seen ? 0 : DT_E_NOMEM;
    if (r == 0)
        followers(g, next);
    for (uint32_t i = 0; i < g->nlaunch && r == 0; i++) {
        uint32_t n = 0;
        for (uint32_t k = i; !seen[i] && k != UINT32_MAX; k = next[k])
            run[n++] = k;
        for (uint32_t k = 0; k < n; k++)
            seen[run[k]] = true;
        for (uint32_t k = 0, m; k < n && r == 0; k += m) { /* a chain ends at a launch that is left alone */
            for (m = 1; k + m < n && rw_is_racy(s, run[k + m]) == rw_is_racy(s, run[k]); m++)
                ;
            if (m > 2)
                r = rw_propose(ret, run + k, m, 0, 0);
        }
        for (uint32_t k = 1; k < n && r == 0; k++)
            r = rw_propose(ret, run + k - 1, 2, 1, 0);
    }
    return r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

/* ---- where it waits ---------------------------------------------------------------------------------------------- */

struct place {
    const struct rw_solo *s;
    const struct ana_result *ana;
    const struct dt_graph *graph;
    uint32_t self, other;
    struct dt_arena *arena;
};

/* May the access be in conflict with the other launch, by the bytes of whole launches? *ret_reads: it reads what the
 * other launch writes. */
static bool conflicts(struct place *p, const struct ana_site *site, bool *ret_reads)
{
    const struct dt_launch *l = &p->graph->launch[p->self];
    *ret_reads = false;
    if (site->nvars && site->nparams == 0)
        return false; /* constant tables: `tables` */
    bool any = !site->nparams, found = any;
    for (uint32_t k = 0; k < site->nparams; k++)
        any |= site->params[k] > 61;
    for (uint32_t b = 0; b < p->graph->nbuffer; b++) {
        uint64_t args = rw_args_of(l, b);
        bool here = any;
        for (uint32_t k = 0; k < site->nparams && !here; k++)
            here = args >> site->params[k] & 1;
        if (!here)
            continue;
        struct ana_set theirs = rw_launch_bytes(p->arena, p->ana, p->other, b, true);
        if (site->reads && ana_set_overlaps(theirs, rw_launch_bytes(p->arena, p->ana, p->self, b, false)))
            found = *ret_reads = true;
        if (!site->writes)
            continue;
        struct ana_set mine = rw_launch_bytes(p->arena, p->ana, p->self, b, true);
        found = found || ana_set_overlaps(theirs, mine) ||
                ana_set_overlaps(rw_launch_bytes(p->arena, p->ana, p->other, b, false), mine);
    }
    return found;
}

/* Is it a volatile or ordered access, a fence or a trap? These communicate with other threads or with the host. */
static bool talks(const struct ptx_inst *i, void *user)
{
    (void)user;
    if (i->op <= PTX_OP_OPAQUE)
        return i->op == PTX_OP_OPAQUE;
    enum ptx_mod sem = ptx_mod_of(i, PTX_MC_SEM);
    return i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT || i->op == PTX_OP_PMEVENT || i->op == PTX_OP_FENCE ||
           i->op == PTX_OP_MEMBAR || (rw_is_global_access(i) && sem != PTX_M_NONE && sem != PTX_M_WEAK);
}

/* Remove .nc from a load, or from all loads in what a call calls. The functions are the copy's own. */
static int drop_nc(struct ptx_inst *i)
{
    struct ptx_reach all;
    const struct ptx_function *f = i->op == PTX_OP_CALL ? ptx_callee(i) : NULL;
    if (i->op > PTX_OP_OPAQUE && ptx_has(i, PTX_M_NC))
        rw_drop_hints(i);
    if (!f || !f->has_body)
        return 0;
    if (ptx_reach_build(f, &all) < 0)
        return DT_E_NOMEM;
    for (uint32_t n = 0; n < all.n; n++)
        for (uint32_t k = 0; k < all.func[n]->ninst; k++)
            if (all.func[n]->inst[k].op > PTX_OP_OPAQUE && ptx_has(&all.func[n]->inst[k], PTX_M_NC))
                rw_drop_hints(&all.func[n]->inst[k]);
    ptx_reach_done(&all);
    return 0;
}

/* May it reach a version (normal/versions.c)? Those share storage again in the end, perhaps with what the other launch
 * writes, and .nc counts by buffer (gate/waits.c). */
static bool versioned(const struct place *p, const struct ana_site *site)
{
    const struct dt_launch *l = &p->graph->launch[p->self];
    bool any = false;
    for (uint32_t b = 0; b < p->graph->nbuffer && !any; b++)
        for (uint32_t k = 0; k < site->nparams && p->graph->buffer[b].role == DT_SCRATCH && !any; k++)
            any = site->params[k] > 61 || rw_args_of(l, b) >> site->params[k] & 1;
    return any;
}

/* Find the instructions that must come after the wait; .nc loads of what the other launch writes lose their .nc. A call
 * counts as what it calls. */
static int needing(struct place *p, struct ptx_function *f, bool *need, struct dt_err *e)
{
    struct ana_sites sites;
    int r = ana_taint(f, NULL, 0, &sites, e);
    if (r < 0)
        return r;
    for (uint32_t k = 0; k < sites.nsite && r == 0; k++) {
        struct ptx_inst *i = &f->inst[sites.site[k].inst];
        bool reads;
        need[sites.site[k].inst] = conflicts(p, &sites.site[k], &reads);
        if (reads || !sites.site[k].nparams || versioned(p, &sites.site[k]))
            r = drop_nc(i);
    }
    ana_sites_done(&sites);
    for (uint32_t k = 0; k < f->ninst && r == 0; k++) {
        const struct ptx_inst *i = &f->inst[k];
        const struct ptx_function *to = i->op == PTX_OP_CALL ? ptx_callee(i) : NULL;
        r = to && to->has_body ? ptx_reach_any(to, talks, NULL) : talks(i, NULL);
        need[k] |= r > 0;
        r = r < 0 ? r : 0;
    }
    return r < 0 ? dt_err_set(e, r, "out of memory") : 0;
}

/* The instruction before which all of need[] is still to come, and the block of the place; UINT32_MAX: nothing needs to
 * wait. */
static int programmatic_place_of(const struct ptx_function *f, const struct ptx_cfg *c, const bool *need, uint32_t *ret,
                                 uint32_t *ret_block, struct dt_err *e)
{
    dt_free_ bool *seen = dt_calloc(c->nblock + 1, 1);
    dt_free_ uint32_t *stack = dt_calloc(c->nblock + 1, sizeof *stack);
    uint32_t d = UINT32_MAX;
    if (!seen || !stack)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t b = 0; b < c->nblock; b++)
        for (uint32_t k = c->block[b].first; c->block[b].reachable && k <= c->block[b].last; k++)
            if (need[k])
                d = d == UINT32_MAX ? b : ptx_common_dominator(c, d, b);
    *ret = *ret_block = UINT32_MAX;
    if (d == UINT32_MAX)
        return 0;
    while (c->block[d].idom != UINT32_MAX && ptx_in_cycle(c, d, seen, stack))
        d = c->block[d].idom;
    if (ptx_in_cycle(c, d, seen,
                     stack)) { /* the entry is in a loop: there is no place before it but its very beginning */
        *ret = *ret_block = 0;
        return 0;
    }
    *ret_block = d;
    const struct ptx_block *b = &c->block[d];
    for (uint32_t k = b->first; k <= b->last && *ret == UINT32_MAX; k++)
        if (need[k])
            *ret = k;
    if (*ret == UINT32_MAX) { /* needed further down, on several paths: at the end of the block, before it branches */
        unsigned flags = f->inst[b->last].op == PTX_OP_OPAQUE || f->inst[b->last].op == PTX_OP_LABEL
                             ? 0
                             : ptx_op_info(f->inst[b->last].op)->flags;
        *ret = flags & (PTX_F_BRANCH | PTX_F_TERMINATOR) ? b->last : b->last + 1;
    }
    return *ret < f->ninst ? 0 : dt_err_set(e, DT_E_UNSUPPORTED, "the entry's text runs off its end");
}

/* Put the waits, and a trigger after the first of them, into the copy. *ret_at: where the wait is; UINT32_MAX: only at
 * the exits. */
static int put_waits(struct rw_solo *s, struct place *p, bool trigger, uint32_t *ret_at, struct dt_err *e)
{
    struct ptx_function *f = s->f;
    struct ptx_cfg cfg;
    int r = ptx_cfg_build(f, &cfg, e);
    if (r < 0)
        return r;
    dt_free_ bool *need = dt_calloc(f->ninst + 1, 1);
    uint32_t home = UINT32_MAX;
    if (!need)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && (r = needing(p, f, need, e)) == 0)
        r = programmatic_place_of(f, &cfg, need, ret_at, &home, e);
    uint32_t n = f->ninst;
    for (uint32_t k = n; k-- > 0 && r >= 0;) { /* from the end, so that numbers stay good */
        const struct ptx_inst *i = &f->inst[k];
        bool exits = (i->op == PTX_OP_RET || i->op == PTX_OP_EXIT) && cfg.block[cfg.block_of[k]].reachable;
        bool waited = home != UINT32_MAX && ptx_dominates(&cfg, home, cfg.block_of[k]) &&
                      (cfg.block_of[k] != home || k >= *ret_at);
        if (exits && !waited) {
            struct dt_str text = {0};
            if (i->pred != PTX_NO_REG)
                dt_str_addf(&text, "@%s%s ", i->pred_neg ? "!" : "", f->reg[i->pred].name);
            dt_str_add(&text, WAIT);
            r = text.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : rw_solo_insert(s, k, text.s, e);
            dt_str_done(&text);
        }
        if (k == *ret_at && r >= 0)
            r = rw_solo_insert(s, k, trigger ? WAIT " " TRIGGER : WAIT, e);
    }
    ptx_cfg_done(&cfg);
    return r < 0 ? r : 0;
}

/* ---- the descriptor ---------------------------------------------------------------------------------------------- */

struct mine {
    struct rw_solo *solo; /* by launch of S */
    bool *waits;          /* by launch of S: it becomes a programmatic one */
    bool built;           /* the copies are changed */
};

/* Copy it once: in a chain each launch is asked as consumer and as producer. */
static int copied(struct rw_solo *s, struct dt_str *why, struct dt_err *e)
{
    return s->f ? 0 : rw_solo_copy(s, why, e);
}

static void programmatic_close_edit(struct rw_edit *x)
{
    struct mine *m = x->mine;
    for (uint32_t k = 0; m && m->solo && k < x->nlaunch; k++)
        rw_solo_done(&m->solo[k]);
    if (m) {
        free(m->solo);
        free(m->waits);
    }
    free(m);
    x->mine = NULL;
}

static int programmatic_open_edit(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine = dt_calloc(1, sizeof *m);
    struct dt_str first = {0};
    uint32_t count = 0;
    int r = 0;
    *ret_verdict = RW_REFUSED;
    if (!m || !(m->solo = dt_calloc(x->nlaunch, sizeof *m->solo)) || !(m->waits = dt_calloc(x->nlaunch, 1)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < x->nlaunch && r == 0; k++) {
        r = rw_solo_init(&m->solo[k], x->dev, x->now->prog, x->launch[k], e);
        m->solo[k].behind = k > 0;
        struct dt_str text = {0};
        if (r == 0 && k && rw_solo_legal(&m->solo[k], RW_SOLO_WAITS, &text) &&
            rw_solo_legal(&m->solo[k - 1], RW_SOLO_TRIGGERS, &text) && (r = copied(&m->solo[k], &text, e)) == 0 &&
            (r = copied(&m->solo[k - 1], &text, e)) == 0) {
            m->waits[k] = true;
            count++;
        }
        r = r == 1 ? 0 : r;
        if (text.len && !first.len)
            dt_str_addf(&first, "%s", text.s);
        dt_str_done(&text);
    }
    if (r == 0 && !count) {
        dt_str_addf(why, "%s", first.s ? first.s : "nothing to do");
        r = 1;
    }
    dt_str_done(&first);
    return r;
}

static bool is_trigger(const struct ptx_inst *i, void *user)
{
    (void)user;
    return i->op == PTX_OP_GRIDDEPCONTROL_LAUNCH;
}

static int programmatic_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine;
    const struct dt_graph *g = x->now->graph;
    int r = 0;
    for (uint32_t k = 0; k < x->nlaunch && r == 0; k++) {
        struct rw_solo *s = &m->solo[k];
        bool lets = k + 1 < x->nlaunch && m->waits[k + 1] && ptx_reach_any(s->body.f, is_trigger, NULL) == 0;
        uint32_t at = UINT32_MAX;
        if (!m->waits[k] && !lets) {
            struct rw_part *part = rw_edit_add(x, dt_launch_to_json(g, &g->launch[x->launch[k]]));
            if (!part)
                return dt_err_set(e, DT_E_NOMEM, "out of memory");
            part->same = x->launch[k];
            part->of = k + 1;
            continue;
        }
        if ((r = m->built ? rw_solo_copy(s, why, e) : copied(s, why, e)) != 0)
            return r;
        struct place p = {s, x->now->ana, g, x->launch[k], k ? x->launch[k - 1] : 0, &x->arena};
        if (m->waits[k] && (r = put_waits(s, &p, lets, &at, e)) < 0)
            return r;
        if (lets && !m->waits[k]) {
            /* behind its own wait, if it has one that every path passes; else at once. One that now waits at its exits
             * alone lets b in by exiting. */
            uint32_t own = 0;
            for (uint32_t i = 0; i < s->f->ninst && !own; i++)
                if (s->f->inst[i].op == PTX_OP_GRIDDEPCONTROL_WAIT && s->f->inst[i].pred == PTX_NO_REG)
                    own = i + 1;
            r = rw_solo_insert(s, own, TRIGGER, e);
        }
        rw_solo_needs(s, 708, 90);
        json_t *l = dt_launch_to_json(g, &g->launch[x->launch[k]]);
        json_object_del(l, "module");
        if (l && m->waits[k])
            json_object_set_new(l, "programmatic", json_true());
        struct rw_part *part = r < 0 ? NULL : rw_edit_add(x, l);
        if (!part)
            return r < 0 ? r : dt_err_set(e, DT_E_NOMEM, "out of memory");
        part->of = k + 1;
        r = rw_solo_text(s, &part->ptx, e);
    }
    m->built = true;
    return r;
}

bool rw_overlaps(const struct ptx_function *f)
{
    for (uint32_t n = 0; f && n < f->ninst; n++)
        if (f->inst[n].op == PTX_OP_GRIDDEPCONTROL_WAIT || f->inst[n].op == PTX_OP_GRIDDEPCONTROL_LAUNCH)
            return true;
    return false;
}

const struct rw_rewrite rw_programmatic = {
    .name = "programmatic-launch",
    .needs = "kernels one behind the other on a stream, sm_90 and later",
    .keeps = "every access in conflict stands behind griddepcontrol.wait, which every path passes",
    .on = true,
    .runs = true,
    .same_code = true,
    .propose = programmatic_propose,
    .open = programmatic_open_edit,
    .build = programmatic_build,
    .close = programmatic_close_edit,
};
