/* Warnings about what kernels do that the footprints show, without running anything: the member `warnings` of an
 * analysis, and part of a plan's.
 *
 *   race           two blocks touch a byte, one writing, for certain on every input, and the kernel has no atomic,
 *                  fence or ordered access that could put one before the other
 *   uninitialised  bytes of an intermediate or output are read for certain, that no launch before writes, nor the
 *                  launch itself. A fill counts for nothing: it is not part of the repeated work (docs/CONTRACT.md §2)
 *   written-input  a launch writes, or may write, a buffer whose role is input
 *   idle-blocks    most of many blocks write nothing: the grid looks like a number of threads
 *   no-effect      no block writes anything
 *
 * They depend on kernels, geometry and arguments alone, so that a cache may keep them: names stand only in `launch` and
 * `buffer` (cache/rename.c puts the caller's in), lines and instructions in members of their own, which hold for the
 * text that was analysed.
 *
 * Not found here: races of threads within a block, shared memory that nobody wrote, whatever data decides
 * (rewrite/gate/original.c runs the launches for that), races between launches (they are in order on one stream).
 */
#include "analysis/footprint/footprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define CONFLICT_MOST (1u << 22) /* intervals of one buffer that are looked at for a certain race */
/* idle blocks, of which there are also three times as many as others: "a grid of threads" */
#define IDLE_LEAST 16
#define INST_MOST 160

/* ---- one warning ------------------------------------------------------------------------------------------------- */

static json_t *line_of(const struct ptx_function *f, const struct ptx_inst *i)
{
    struct ptx_source at;
    if (!ptx_source_of(f, i, &at))
        return NULL;
    return at.at_file ? json_sprintf("%s:%u, inlined at %s:%u", at.file, at.line, at.at_file, at.at_line)
                      : json_sprintf("%s:%u", at.file, at.line);
}

json_t *ana_warning(const struct dev_prog *p, uint32_t launch, const char *code, uint32_t buffer,
                    const struct ptx_function *f, const struct ptx_inst *i, const char *message)
{
    json_t *line = i ? line_of(f, i) : NULL, *o;
    struct dt_str at = {0}, text = {0};
    dt_str_addf(&at, "/launches/%u", launch);
    if (i)
        ptx_print_inst(f, i, &text);
    const char *s = text.s ? text.s + strspn(text.s, " \t") : "";
    size_t n = strcspn(s, ";");
    json_t *inst = i ? json_sprintf("PTX line %u: %.*s", i->line, n < INST_MOST ? (int)n : INST_MOST, s) : NULL;
    o = at.failed || text.failed
            ? NULL
            : json_pack("{s:s, s:s, s:s, s:s, s:s*, s:o*, s:o*}", "code", code, "message", message, "pointer", at.s,
                        "launch", p->graph->launch[launch].name, "buffer",
                        buffer == UINT32_MAX ? NULL : p->graph->buffer[buffer].name, "line", line, "instruction", inst);
    dt_str_done(&at);
    dt_str_done(&text);
    return o;
}

/* The first instruction of the launch's kernel that may write, or read, the buffer; NULL: not known. */
static const struct ptx_inst *site_of(const struct dev_prog *p, uint32_t launch, uint32_t buffer, bool writes)
{
    const struct dt_launch *l = &p->graph->launch[launch];
    const struct ptx_function *f = p->step[launch].posted;
    struct ana_sites s;
    const struct ptx_inst *found = NULL;
    if (!f || ana_taint(f, NULL, l->narg, &s, NULL) < 0)
        return NULL;
    for (uint32_t k = 0; k < s.nsite && !found; k++)
        for (uint32_t i = 0; i < s.site[k].nparams && !found && (writes ? s.site[k].writes : s.site[k].reads); i++)
            if (s.site[k].params[i] < l->narg && l->arg[s.site[k].params[i]].kind == DT_ARG_BUFFER &&
                l->arg[s.site[k].params[i]].buffer == buffer)
                found = &f->inst[s.site[k].inst];
    ana_sites_done(&s);
    return found;
}

/* ---- races ------------------------------------------------------------------------------------------------------- */

/* Could anything in the kernel put accesses of two blocks in order, or are there accesses that do not race with each
 * other? */
static bool may_order(const struct dt_launch *l, const struct ptx_function *f)
{
    if (l->cluster[0] || f->reqnctapercluster[0])
        return true;
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        if (i->op == PTX_OP_LABEL)
            continue;
        enum ptx_mod sem = ptx_mod_of(i, PTX_MC_SEM);
        if (i->op == PTX_OP_OPAQUE || i->op == PTX_OP_MEMBAR || i->op == PTX_OP_FENCE ||
            (sem != PTX_M_NONE && sem != PTX_M_WEAK) || ptx_op_info(i->op)->flags & (PTX_F_ATOMIC | PTX_F_CALL) ||
            ptx_has(i, PTX_M_MMIO))
            return true;
    }
    return false;
}

struct touched {
    uint64_t lo, hi;
    uint32_t block;
    bool writes;
};

static int by_place(const void *a, const void *b)
{
    const struct touched *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->writes - y->writes;
}

/* What reaches furthest so far, and what does of the other blocks. */
struct reach {
    const struct touched *a, *b;
};

static void extend(struct reach *r, const struct touched *t)
{
    if (!r->a || r->a->block == t->block) {
        if (!r->a || t->hi > r->a->hi)
            r->a = t;
    } else if (t->hi > r->a->hi) {
        r->b = r->a;
        r->a = t;
    } else if (!r->b || t->hi > r->b->hi) {
        r->b = t;
    }
}

static const struct touched *warnings_meets(const struct reach *r, const struct touched *t)
{
    const struct touched *x = r->a && r->a->block == t->block ? r->b : r->a;
    return x && x->hi > t->lo ? x : NULL;
}

/* All that blocks surely do to the buffer, as a list; n 0: too much of it, or nothing. */
static struct touched *certain(const struct ana_launch *l, const struct ana_access *x, size_t *ret_n)
{
    bool reads = x->reads && x->read != ANA_DATA_DEPENDENT && !x->widened;
    struct touched *all = NULL;
    size_t n = 0;
    *ret_n = 0;
    for (int fill = 0; fill < 2; fill++) {
        if (fill && (n > CONFLICT_MOST || !(all = dt_calloc(n + 1, sizeof *all))))
            return NULL;
        n = 0;
        for (uint32_t b = 0; b < l->nblock; b++)
            for (uint32_t k = 0; k < l->block[b].ntouch; k++) {
                const struct ana_touch *t = &l->block[b].touch[k];
                const struct ana_set set[] = {t->must_write, reads ? t->read : (struct ana_set){0}};
                for (int s = 0; s < 2 && t->buffer == x->buffer; s++)
                    for (uint32_t i = 0; i < set[s].n; i++, n++)
                        if (fill)
                            all[n] = (struct touched){set[s].iv[i].lo, set[s].iv[i].hi, b, s == 0};
            }
    }
    *ret_n = n;
    return all;
}

static bool race(struct dt_warnings *w, const struct ana_result *r, uint32_t launch, const struct ana_access *x)
{
    const struct dev_prog *p = r->prog;
    size_t n;
    dt_free_ struct touched *all = certain(&r->launch[launch], x, &n);
    struct reach any = {0}, wrote = {0};
    if (n)
        qsort(all, n, sizeof *all, by_place);
    for (size_t k = 0; k < n; k++) {
        const struct touched *t = &all[k], *o = warnings_meets(t->writes ? &any : &wrote, t);
        if (o) {
            const char *how = t->writes && o->writes ? "both write" : "touch, one of them writing,";
            dt_free_ char *text = NULL;
            uint32_t first = o->block < t->block ? o->block : t->block,
                     second = o->block < t->block ? t->block : o->block;
            if (asprintf(&text,
                         "blocks %u and %u %s byte %llu of the buffer, and nothing orders them: what the launch leaves "
                         "is a matter of luck",
                         first, second, how, (unsigned long long)t->lo) < 0)
                text = NULL;
            dt_warn(w, text ? ana_warning(p, launch, "race", x->buffer, p->step[launch].posted,
                                          site_of(p, launch, x->buffer, true), text)
                            : NULL);
            return true;
        }
        extend(&any, t);
        if (t->writes)
            extend(&wrote, t);
    }
    return false;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static struct ana_set written(struct dt_arena *a, const struct ana_access *x)
{
    struct ana_set s = {0};
    for (int k = 0; x->writes && k < ANA_EVIDENCES; k++)
        s = ana_set_union(a, s, x->write_by[k]);
    return s;
}

static void uninitialised(struct dt_warnings *w, const struct ana_result *r, uint32_t launch,
                          const struct ana_access *x, struct dt_arena *a, struct ana_set before)
{
    const struct dev_prog *p = r->prog;
    const struct dt_buffer *b = &p->graph->buffer[x->buffer];
    if (!x->reads || b->module >= 0 || (b->role != DT_INTERMEDIATE && b->role != DT_OUTPUT))
        return;
    struct ana_set known = ana_set_union(a, before, written(a, x));
    struct ana_set reads =
        x->widened ? (struct ana_set){0} : ana_set_union(a, x->read_by[ANA_PROVED], x->read_by[ANA_OBSERVED]);
    struct ana_set left = ana_set_minus(a, reads, known);
    dt_free_ char *text = NULL;
    if (!left.n)
        return;
    if (asprintf(&text,
                 "%llu bytes of the buffer, from byte %llu on, are read before anything in the graph writes them (a "
                 "fill is not part of the repeated work, "
                 "a memset step is)",
                 (unsigned long long)ana_set_bytes(left), (unsigned long long)left.iv[0].lo) < 0)
        text = NULL;
    dt_warn(w, text ? ana_warning(p, launch, "uninitialised", x->buffer, p->step[launch].posted,
                                  site_of(p, launch, x->buffer, false), text)
                    : NULL);
}

/* Blocks that write nothing, of a kernel without other effects; UINT32_MAX: it may have others. */
static uint32_t idle_blocks(const struct ana_result *r, uint32_t launch)
{
    const struct ana_launch *l = &r->launch[launch];
    struct ana_sites s;
    uint32_t n = 0;
    if (ana_taint(r->prog->step[launch].posted, NULL, r->prog->graph->launch[launch].narg, &s, NULL) < 0)
        return UINT32_MAX;
    bool other = s.opaque || s.side_effects;
    ana_sites_done(&s);
    for (uint32_t b = 0; b < l->nblock && !other; b++) {
        bool some = false;
        for (uint32_t k = 0; k < l->block[b].ntouch && !some; k++)
            some = l->block[b].touch[k].must_write.n || l->block[b].touch[k].may_write.n;
        n += !some;
    }
    return other ? UINT32_MAX : n;
}

static void idle(struct dt_warnings *w, const struct ana_result *r, uint32_t launch)
{
    const struct dev_prog *p = r->prog;
    const struct dt_launch *l = &p->graph->launch[launch];
    uint32_t all = r->launch[launch].nblock, n = p->step[launch].posted ? idle_blocks(r, launch) : UINT32_MAX;
    dt_free_ char *text = NULL;
    if (n == UINT32_MAX || !n)
        return;
    if (n == all)
        dt_warn(w,
                ana_warning(p, launch, "no-effect", UINT32_MAX, NULL, NULL, "no block of the launch writes anything"));
    else if (n >= IDLE_LEAST && n / 3 >= all - n) {
        if (asprintf(&text,
                     "%u of %u blocks write nothing: is the grid [%u, %u, %u] a number of threads? It is one of "
                     "blocks, of %u threads each",
                     n, all, l->grid[0], l->grid[1], l->grid[2], p->step[launch].threads) < 0)
            text = NULL;
        dt_warn(w, text ? ana_warning(p, launch, "idle-blocks", UINT32_MAX, NULL, NULL, text) : NULL);
    }
}

void ana_warnings(const struct ana_result *r, struct dt_warnings *w, bool *racy)
{
    const struct dt_graph *g = r->prog->graph;
    struct dt_arena a = {0}, tmp = {0};
    /* written by the launches so far, perhaps */
    struct ana_set *before = dt_new_array(&a, struct ana_set, g->nbuffer + 1);
    for (uint32_t l = 0; before && l < g->nlaunch; l++) {
        const struct ana_launch *x = &r->launch[l];
        bool plain =
            x->self_conflict && g->launch[l].kind == DT_KERNEL && !may_order(&g->launch[l], r->prog->step[l].posted);
        for (uint32_t k = 0; plain && k < x->naccess; k++)
            if (x->access[k].writes && !x->access[k].atomics && race(w, r, l, &x->access[k])) {
                if (racy)
                    racy[l] = true;
                break;
            }
        for (uint32_t k = 0; k < x->naccess; k++) {
            const struct ana_access *y = &x->access[k];
            uninitialised(w, r, l, y, &tmp, before[y->buffer]);
            if (y->writes && g->buffer[y->buffer].role == DT_INPUT)
                dt_warn(w, ana_warning(r->prog, l, "written-input", y->buffer, NULL, NULL,
                                       "the launch writes a buffer whose role is input: what is in it then is not "
                                       "compared, and the next run finds it; "
                                       "\"inout\" says so"));
        }
        idle(w, r, l);
        for (uint32_t k = 0; k < x->naccess; k++) {
            struct ana_set now = written(&tmp, &x->access[k]), *all = &before[x->access[k].buffer];
            if (!ana_set_contains(*all, now))
                *all = ana_set_union(&a, *all, ana_set_from(&a, now.iv, now.n));
        }
        w->failed |= tmp.failed;
        dt_arena_done(&tmp);
        tmp = (struct dt_arena){0};
    }
    w->failed |= !before || a.failed;
    dt_arena_done(&a);
}
