/* Does the order of a plan keep every hazard? This is a static check, of plans that are made here and of plans that
 * come from elsewhere.
 *
 * Three moments of a launch count: its start S, the moment W at which griddepcontrol.wait lets it go on (S if it is not
 * programmatic), and its end E, with S <= W <= E. An ordinary edge a -> b says E(a) <= S(b). A programmatic edge says
 * S(a) <= S(b) and E(a) <= W(b). W(b) <= E(b) needs that every thread of b waits on every path before it exits. So,
 * over all edges (device/order.c), in order:
 *
 *     before(b) = what has ended at S(b) = for ordinary a: {a} + waited(a)
 *                                          for programmatic a: before(a), or waited(a) if a triggers late
 *     waited(b) = what has ended at W(b) = before(b) + for programmatic a: {a} + waited(a)
 *
 * A kernel triggers late if every path to griddepcontrol.launch_dependents passes griddepcontrol.wait: then W(a) <=
 * S(b). A kernel without a trigger lets its dependents start when its blocks have exited; they see its memory only
 * after they wait.
 *
 * Checked:
 *   covered      every hazard edge a -> b of the analysis has a in waited(b). An edge may be missing because a launch
 *                between writes the byte for certain; the two edges through that launch imply it
 *   waits        a programmatic launch reaches griddepcontrol.wait on every path before it exits
 *   independent  before it waits, a programmatic launch touches no byte in conflict with a launch that may still run
 *                then: any launch that is not in before(b), back to the last ordinary edge. The bytes come from the
 *                analysis of the kernel cut off at the wait. If that faults, nothing is known, and the plan is refused
 *                with the fault
 *   read-only    no launch, and no function that it calls, loads by .nc (or ldu) what an overlapping launch, or itself,
 *                writes
 *   barriers     barrier numbers are below 16, thread counts are whole warps and no more than the block has
 *   flags        of a launch whose blocks wait for each other (emit/flow.h): every flag gets the signals that are
 *                waited for, from blocks with lower tickets. One memset that it waits for clears its scratch, which
 *                nothing else touches
 *   clusters     the blocks of a cluster meet at each of its barriers, and none exits while others use its shared
 *                memory (facts/meets.c). Not asked of a posted kernel that keeps to other rules, nor of what is made of
 *                it alone
 *
 * An edge always goes to an earlier launch, so the order has no cycle and no launch waits for ever. A waiting block
 * takes room on an SM only after all blocks of the launch that it waits for have started, so it keeps none of them out.
 * dev_prog_new checks that each launch fits an SM by itself, and that clusters fit the device.
 *
 * A launch that the original has too, by name, entry and text, is not checked for `barriers`, `clusters`, or
 * `read-only` within itself.
 */
#include "ptx/reach.h"
#include "rewrite/emit/flow.h"
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

struct waits {
    struct dev_device *dev;
    const struct dev_prog *prog, *original;
    const struct ana_result *ana;
    struct ana_result *own; /* made here if the caller has none */
    struct dev_order order;
    size_t words;
    uint64_t *before, *waited; /* by launch, bits by launch */
    bool overlap;              /* some launch may run beside an earlier one */
    struct dt_arena arena;
    /* what programmatic launches do before they wait */
    json_t *doc;
    struct dt_graph *graph;
    struct dev_prog *cut;
    struct ana_result *early;
    uint32_t *early_at; /* by launch: its number in `early`, UINT32_MAX: none */
};

static bool waits_has(const struct waits *w, const uint64_t *set, uint32_t b, uint32_t a)
{
    return set[b * w->words + a / 64] >> a % 64 & 1;
}

static void waits_put(struct waits *w, uint64_t *set, uint32_t b, uint32_t a)
{
    set[b * w->words + a / 64] |= UINT64_C(1) << a % 64;
}

static void waits_merge(struct waits *w, uint64_t *to, uint32_t b, const uint64_t *from, uint32_t a)
{
    for (size_t k = 0; k < w->words; k++)
        to[b * w->words + k] |= from[a * w->words + k];
}

static int waits_bad(const struct waits *w, struct dt_err *e, uint32_t launch, const char *what)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/launches/%u", launch);
    return dt_err_at(e, DT_E_GRAPH, pointer, "the plan's order is wrong: launch '%.200s' %s",
                     w->prog->graph->launch[launch].name, what);
}

/* The error "launch 'b' BEFORE 'a' BEHIND". */
static int bad2(const struct waits *w, struct dt_err *e, uint32_t launch, uint32_t other, const char *before,
                const char *behind)
{
    struct dt_str s = {0};
    dt_str_addf(&s, "%s \001l%.200s\002%s", before, w->prog->graph->launch[other].name, behind);
    int r = waits_bad(w, e, launch, s.s ? s.s : before);
    dt_str_done(&s);
    return r;
}

/* ---- what has ended when a launch starts, and when it goes on ---------------------------------------------------- */

static int close_order(struct waits *w, struct dt_err *e)
{
    uint32_t n = w->prog->graph->nlaunch;
    w->words = n / 64 + 1;
    w->before = dt_calloc(n * w->words + 1, sizeof *w->before);
    w->waited = dt_calloc(n * w->words + 1, sizeof *w->waited);
    if (!w->before || !w->waited || dev_order_new(w->prog->graph, &w->order) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t b = 0; b < n; b++) {
        for (int late = 0; late < 2; late++) /* all of `before` first */
            for (uint32_t k = w->order.at[b]; k < w->order.at[b + 1]; k++) {
                uint32_t a = w->order.after[k];
                uint64_t *set = late ? w->waited : w->before;
                if (!late && w->order.early[k]) {
                    struct rw_paths paths;
                    int r = rw_paths_without_wait(w->prog->step[a].entry, &paths, e);
                    if (r < 0)
                        return r;
                    waits_merge(w, set, b, paths.triggers ? w->before : w->waited, a);
                } else if (late == w->order.early[k]) {
                    waits_merge(w, set, b, w->waited, a);
                    waits_put(w, set, b, a);
                }
            }
        waits_merge(w, w->waited, b, w->before, b);
        for (uint32_t a = 0; a < b; a++)
            w->overlap |= !waits_has(w, w->before, b, a);
    }
    return 0;
}

static bool is_early(const struct waits *w, uint32_t b)
{
    for (uint32_t k = w->order.at[b]; k < w->order.at[b + 1]; k++)
        if (w->order.early[k])
            return true;
    return false;
}

/* ---- what is done before the wait -------------------------------------------------------------------------------- */

/* Is the launch, or its kernel, made for clusters? */
static bool has_clusters(const struct dt_launch *l, const struct ptx_function *f)
{
    return l->cluster[0] || (f && (f->reqnctapercluster[0] || (f->extra && strstr(f->extra, "cluster"))));
}

static void drop_early(struct waits *w)
{
    ana_free(w->early);
    dev_prog_free(w->cut);
    dt_graph_free(w->graph);
    json_decref(w->doc);
    free(w->early_at);
    w->early = NULL, w->cut = NULL, w->graph = NULL, w->doc = NULL, w->early_at = NULL;
}

/* Analyse the programmatic launches alone, cut off at the wait, as a graph of its own. */
static int analyse_cut(struct waits *w, bool meet, struct dt_err *e)
{
    const struct dt_graph *g = w->prog->graph;
    uint32_t n = 0;
    int r = 0;
    drop_early(w);
    w->doc = rw_graph_ptx(w->prog);
    json_t *list = json_array(), *all = json_object_get(w->doc, "launches"),
           *modules = json_object_get(w->doc, "modules");
    const char **entry = dt_calloc(g->nlaunch + 1, sizeof *entry);
    w->early_at = dt_calloc(g->nlaunch + 1, sizeof *w->early_at);
    if (!w->doc || !list || !entry || !w->early_at)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; r == 0 && i < g->nlaunch; i++) {
        w->early_at[i] = UINT32_MAX;
        if (!is_early(w, i))
            continue;
        json_t *l = json_array_get(all, i);
        json_object_del(l, "stream");
        json_object_del(l, "after");
        json_object_del(l, "programmatic");
        w->early_at[i] = n++;
        if (json_array_append(list, l) < 0)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    for (uint32_t m = 0; r == 0 && m < g->nmodule; m++) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < g->nlaunch; i++)
            if (w->early_at[i] != UINT32_MAX && g->launch[i].module == m)
                entry[k++] = g->launch[i].entry;
        if (!k)
            continue;
        struct dt_str text = {0};
        r = rw_cut_at_wait(w->prog->module[m].ptx, w->prog->module[m].len, entry, k, meet, &text, e);
        if (r == 0 && json_object_set_new(modules, g->module[m].name, json_pack("{s:s%}", "ptx", text.s, text.len)) < 0)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        dt_str_done(&text);
    }
    free(entry);
    if (r == 0 && json_object_set(w->doc, "launches", list) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    json_decref(list);
    if (r == 0 && (r = dt_graph_from_json(w->doc, &w->graph, e)) == 0 &&
        (r = dev_prog_derive(w->dev, w->graph, w->prog, NULL, NULL, &w->cut, e)) == 0)
        r = ana_run(w->dev, w->cut, NULL, &w->early, e);
    return r;
}

static int analyse_early(struct waits *w, struct dt_err *e)
{
    struct dt_err mine = {0};
    bool clusters = false;
    for (uint32_t b = 0; b < w->prog->graph->nlaunch; b++)
        clusters |= is_early(w, b) && has_clusters(&w->prog->graph->launch[b], w->prog->step[b].entry);
    int r = rw_recover(w->dev, analyse_cut(w, false, &mine), &mine);
    if (clusters && (r == DT_E_BOUNDS || r == DT_E_TRAP)) {
        dt_err_done(&mine);
        r = rw_recover(w->dev, analyse_cut(w, true, &mine), &mine);
    }
    dt_err_move(e, &mine);
    return r;
}

/* ---- footprints of launches -------------------------------------------------------------------------------------- */

/* The bytes of a buffer that the launch touches. By the buffer's name, since two results may number buffers
 * differently. */
static struct ana_set touched(struct waits *w, const struct ana_result *a, uint32_t launch, const char *buffer,
                              bool writes)
{
    return rw_launch_bytes(&w->arena, a, launch, dt_graph_find_buffer(a->prog->graph, buffer), writes);
}

/* Do the two launches touch a byte in conflict? *ret: its buffer. */
static bool conflict(struct waits *w, const struct ana_result *ra, uint32_t a, const struct ana_result *rb, uint32_t b,
                     const char **ret)
{
    for (uint32_t k = 0; k < rb->launch[b].naccess; k++) {
        *ret = rb->prog->graph->buffer[rb->launch[b].access[k].buffer].name;
        struct ana_set aw = touched(w, ra, a, *ret, true), ar = touched(w, ra, a, *ret, false);
        struct ana_set bw = touched(w, rb, b, *ret, true), br = touched(w, rb, b, *ret, false);
        if (ana_set_overlaps(aw, br) || ana_set_overlaps(aw, bw) || ana_set_overlaps(ar, bw))
            return true;
    }
    return false;
}

static bool is_read_only(const struct ptx_inst *i, void *user)
{
    return i->op > PTX_OP_OPAQUE && (ptx_has(i, PTX_M_NC) || i->op == PTX_OP_LDU);
}

/* Does the instruction, or what it calls, load by .nc or ldu? 1, 0, negative: error. */
static int reads_only(const struct ptx_inst *i)
{
    const struct ptx_function *f = i->op == PTX_OP_CALL ? ptx_callee(i) : NULL;
    if (i->op != PTX_OP_CALL)
        return is_read_only(i, NULL);
    return f && f->has_body ? ptx_reach_any(f, is_read_only, NULL) : 1;
}

/* May the launch load from the buffer by .nc or ldu? */
static int loads_read_only(const struct waits *w, uint32_t launch, uint32_t buffer, bool *ret, struct dt_err *e)
{
    const struct dt_graph *g = w->prog->graph;
    const struct ptx_function *f = w->prog->step[launch].entry;
    const struct dt_launch *l = &g->launch[launch];
    uint64_t args = rw_args_of(l, buffer);
    struct ana_sites sites;
    *ret = false;
    if (!f)
        return 0;
    int r = ana_taint(f, NULL, 0, &sites, e);
    if (r < 0)
        return r;
    for (uint32_t k = 0; k < sites.nsite && !*ret; k++) {
        const struct ana_site *s = &sites.site[k];
        int only = reads_only(&f->inst[s->inst]);
        if (only < 0)
            r = dt_err_set(e, only, "out of memory");
        if (only <= 0)
            continue;
        bool one = !s->nparams && !s->nvars;
        for (uint32_t q = 0; q < s->nparams; q++)
            one = one || s->params[q] > 61 || (args >> s->params[q] & 1);
        for (uint32_t q = 0; q < s->nvars; q++)
            one = one ||
                  (g->buffer[buffer].module == (int)l->module && !strcmp(g->buffer[buffer].variable, s->vars[q]->name));
        *ret = one;
    }
    ana_sites_done(&sites);
    return r;
}

/* ---- the checks -------------------------------------------------------------------------------------------------- */

static bool is_original(const struct waits *w, uint32_t launch)
{
    const struct dt_launch *l = &w->prog->graph->launch[launch];
    uint32_t k = w->original ? dt_graph_find_launch(w->original->graph, l->name) : DT_NAME_NONE;
    if (k == DT_NAME_NONE || w->original->graph->launch[k].kind != DT_KERNEL ||
        strcmp(w->original->graph->launch[k].entry, l->entry))
        return false;
    const struct dev_module *a = &w->prog->module[l->module],
                            *b = &w->original->module[w->original->graph->launch[k].module];
    return a->ptx == b->ptx || (a->len == b->len && !memcmp(a->ptx, b->ptx, a->len));
}

static int check_covered(struct waits *w, struct dt_err *e)
{
    for (uint32_t k = 0; k < w->ana->nedge; k++) {
        const struct ana_edge *x = &w->ana->edge[k];
        if (x->nbuffer && !waits_has(w, w->waited, x->consumer, x->producer))
            return bad2(w, e, x->consumer, x->producer, "does not wait for",
                        ", with which it shares bytes that one of the two writes");
    }
    return 0;
}

static int check_waits(struct waits *w, struct dt_err *e)
{
    for (uint32_t b = 0; b < w->prog->graph->nlaunch; b++) {
        struct rw_paths paths = {0};
        int r = is_early(w, b) ? rw_paths_without_wait(w->prog->step[b].entry, &paths, e) : 0;
        if (r < 0)
            return r;
        if (paths.exits)
            return waits_bad(w, e, b, "is programmatic, but need not reach griddepcontrol.wait before it exits");
    }
    return 0;
}

static int check_independent(struct waits *w, struct dt_err *e)
{
    bool any = false;
    for (uint32_t b = 0; b < w->prog->graph->nlaunch; b++)
        any |= is_early(w, b);
    int r = any ? analyse_early(w, e) : 0;
    for (uint32_t b = 0; any && r == 0 && b < w->prog->graph->nlaunch; b++)
        for (uint32_t a = 0; w->early_at[b] != UINT32_MAX && a < b; a++) {
            const char *buffer;
            if (!waits_has(w, w->before, b, a) && conflict(w, w->ana, a, w->early, w->early_at[b], &buffer))
                return bad2(w, e, b, a, "touches, before it waits, bytes in conflict with", ", which may still run");
        }
    return r;
}

static bool writes_it(const struct ana_launch *l, uint32_t buffer)
{
    for (uint32_t k = 0; k < l->naccess; k++)
        if (l->access[k].buffer == buffer && l->access[k].writes)
            return true;
    return false;
}

static int check_read_only(struct waits *w, struct dt_err *e)
{
    const struct dt_graph *g = w->prog->graph;
    for (uint32_t b = 0; b < g->nlaunch; b++)
        for (uint32_t k = 0; k < w->ana->launch[b].naccess; k++) {
            const struct ana_access *x = &w->ana->launch[b].access[k];
            struct ana_set read =
                x->reads ? touched(w, w->ana, b, g->buffer[x->buffer].name, false) : (struct ana_set){0};
            for (uint32_t a = 0; a <= b && read.n; a++) {
                bool nc = false;
                if (!writes_it(&w->ana->launch[a], x->buffer) ||
                    (a == b ? is_original(w, b) : waits_has(w, w->before, b, a)))
                    continue;
                if (!ana_set_overlaps(touched(w, w->ana, a, g->buffer[x->buffer].name, true), read))
                    continue;
                int r = loads_read_only(w, b, x->buffer, &nc, e);
                if (r < 0)
                    return r;
                if (nc)
                    return bad2(w, e, b, a, "loads by .nc what", " writes while it runs");
                break;
            }
        }
    return 0;
}

/* Must an entry of this name keep to the rules of facts/meets.c? Not if the original has an entry of this name with
 * clusters that does not: a kernel that is made from one launch keeps its name (emit/solo.c), and one that is made from
 * several is made only of kernels that keep to the rules (legal.def, `clusters`). */
static int by_the_rules(struct waits *w, const char *name, bool *ret, struct dt_err *e)
{
    int r = 0;
    *ret = w->original != NULL;
    for (uint32_t l = 0; *ret && r == 0 && l < w->original->graph->nlaunch; l++) {
        const struct ptx_function *f = w->original->step[l].entry;
        const char *wrong = NULL;
        if (f && has_clusters(&w->original->graph->launch[l], f) && !strcmp(f->name, name))
            r = rw_cluster_meets(f, NULL, NULL, &wrong, e);
        *ret = !wrong;
    }
    return r;
}

/* What is wrong with the barriers of a function, in blocks of `most` threads (whole warps); NULL: nothing. */
static const char *wrong_barrier(const struct ptx_function *f, uint32_t most)
{
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        if (!rw_is_block_barrier(i->op))
            continue;
        bool red = i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED;
        unsigned at = red ? 1 : 0, count = at + 1;
        if (i->nopnd > at && i->opnd[at].kind == PTX_O_IMM && i->opnd[at].bits > 15)
            return "uses a barrier above number 15";
        bool counted = i->nopnd > count + (red ? 1u : 0u);
        if (counted && i->opnd[count].kind == PTX_O_IMM &&
            (!i->opnd[count].bits || i->opnd[count].bits % 32 || i->opnd[count].bits > most))
            return "has a barrier for a number of threads that is no whole number of its warps";
    }
    return NULL;
}

static int check_barriers(struct waits *w, struct dt_err *e)
{
    for (uint32_t l = 0; l < w->prog->graph->nlaunch; l++) {
        const struct ptx_function *f = w->prog->step[l].entry;
        if (!f || is_original(w, l))
            continue;
        const char *wrong = NULL;
        bool ours = false;
        struct ptx_reach all;
        int r = by_the_rules(w, f->name, &ours, e);
        if (r == 0 && ours)
            r = rw_cluster_meets(f, NULL, NULL, &wrong, e);
        if (r < 0 || wrong)
            return r < 0 ? r : waits_bad(w, e, l, wrong);
        if (ptx_reach_build(f, &all) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        for (uint32_t k = 0; k < all.n && !wrong; k++)
            wrong = wrong_barrier(all.func[k], (w->prog->step[l].threads + 31) / 32 * 32);
        ptx_reach_done(&all);
        if (wrong)
            return waits_bad(w, e, l, wrong);
    }
    return 0;
}

/* The step that clears the flags of launch l, which fill `buffer`. w->prog->graph->nlaunch: there is none, or another
 * step touches them. */
static uint32_t clears(const struct waits *w, uint32_t l, uint32_t buffer)
{
    const struct dt_graph *g = w->prog->graph;
    uint32_t found = g->nlaunch;
    for (uint32_t k = 0; k < g->nlaunch; k++) {
        const struct dt_launch *x = &g->launch[k];
        bool here = x->kind == DT_KERNEL ? rw_args_of(x, buffer) != 0
                                         : x->dst == buffer || (x->kind == DT_COPY && x->src == buffer);
        if (!here || k == l)
            continue;
        if (found < g->nlaunch || x->kind != DT_MEMSET || x->value || x->dst_offset ||
            x->bytes < g->buffer[buffer].bytes || !waits_has(w, w->waited, l, k))
            return g->nlaunch;
        found = k;
    }
    return found;
}

static int check_flags(struct waits *w, struct dt_err *e)
{
    const struct dt_graph *g = w->prog->graph;
    for (uint32_t l = 0; l < g->nlaunch; l++) {
        const struct ptx_function *entry = w->prog->step[l].entry;
        const struct dt_launch *x = &g->launch[l];
        struct rw_flow f;
        struct dt_str why = {0};
        int r = entry && !is_original(w, l) ? rw_flow_read(&w->arena, entry, &f) : 1;
        if (r == 1)
            continue;
        if (r < 0)
            return r == DT_E_NOMEM ? dt_err_set(e, r, "out of memory")
                                   : waits_bad(w, e, l, "has a table of flags that is none");
        if (!rw_flow_sound(&f, &why)) {
            r = waits_bad(w, e, l, why.s ? why.s : "has flags that do not fit each other");
            dt_str_done(&why);
            return r;
        }
        const struct dt_arg *a = x->narg ? &x->arg[x->narg - 1] : NULL;
        if (f.n != w->prog->step[l].blocks)
            return waits_bad(w, e, l, "has other blocks than its table of flags");
        if (!a || a->kind != DT_ARG_BUFFER || a->offset || g->buffer[a->buffer].role != DT_SCRATCH ||
            g->buffer[a->buffer].bytes < rw_flow_scratch_bytes(&f))
            return waits_bad(w, e, l, "has no scratch buffer for its flags");
        if (clears(w, l, a->buffer) == g->nlaunch)
            return waits_bad(w, e, l, "does not wait for a memset of all of its flags, or something else touches them");
    }
    return 0;
}

static void done(struct waits *w)
{
    drop_early(w);
    ana_free(w->own);
    dev_order_done(&w->order);
    dt_arena_done(&w->arena);
    free(w->before);
    free(w->waited);
}

int rw_waits_before(const struct dev_prog *plan, uint64_t **ret, size_t *ret_words, struct dt_err *e)
{
    struct waits w = {.prog = plan};
    int r = close_order(&w, e);
    if (r == 0) {
        *ret = w.before;
        *ret_words = w.words;
        w.before = NULL;
    }
    done(&w);
    return r;
}

int rw_waits_check(struct dev_device *d, const struct dev_prog *plan, const struct ana_result *a,
                   const struct dev_prog *original, struct dt_err *e)
{
    struct waits w = {.dev = d, .prog = plan, .original = original, .ana = a};
    int r = close_order(&w, e);
    if (r == 0)
        r = check_waits(&w, e);
    if (r == 0 && w.overlap && !w.ana && (r = ana_run(d, plan, NULL, &w.own, e)) == 0)
        w.ana = w.own;
    if (r == 0 && w.overlap)
        r = check_covered(&w, e);
    if (r == 0 && w.overlap)
        r = check_independent(&w, e);
    if (r == 0)
        r = check_barriers(&w, e);
    if (r == 0)
        r = check_flags(&w, e);
    if (r == 0 && w.ana)
        r = check_read_only(&w, e);
    if (r == 0 && w.arena.failed)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    done(&w);
    return r;
}
