/* What an entry does before griddepcontrol.wait: the paths that have not passed one, and the kernel cut off there.
 *
 * rw_paths_without_wait walks from the entry along all edges, each path up to its first wait. rw_cut_at_wait makes the
 * entries of a module end at the wait, so that an analysis of the result has the bytes that are touched before it.
 * Which launches are asked about, and what must hold, is in waits.c.
 */
#include "ptx/reach.h"
#include "rewrite/emit/emit.h"
#include "rewrite/gate/gate-priv.h"

static bool is_wait(const struct ptx_inst *i) { return i->op == PTX_OP_GRIDDEPCONTROL_WAIT && i->pred == PTX_NO_REG; }

/* What a function that is called, or one that it calls, may do: end the thread, trigger. */
static int of_call(const struct ptx_inst *call, struct rw_paths *ret, struct dt_err *e)
{
    const struct ptx_function *f = ptx_callee(call);
    struct ptx_reach all = {.unknown = true};
    if (f && f->has_body && ptx_reach_build(f, &all) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t n = 0; n < all.n; n++)
        for (uint32_t k = 0; k < all.func[n]->ninst; k++) {
            unsigned op = all.func[n]->inst[k].op;
            ret->exits |= op == PTX_OP_EXIT || op == PTX_OP_OPAQUE;
            ret->triggers |= op == PTX_OP_GRIDDEPCONTROL_LAUNCH || op == PTX_OP_OPAQUE;
        }
    ret->exits |= all.unknown;
    ret->triggers |= all.unknown;
    ptx_reach_done(&all);
    return 0;
}

/* From the entry along all edges, each path up to its first wait. */
int rw_paths_without_wait(const struct ptx_function *f, struct rw_paths *ret, struct dt_err *e)
{
    struct ptx_cfg cfg;
    struct rw_paths p = {0};
    int r = ptx_cfg_build(f, &cfg, e);
    if (r < 0)
        return r;
    dt_free_ bool *seen = dt_calloc(cfg.nblock + 1, 1);
    dt_free_ uint32_t *stack = dt_calloc(cfg.nblock + 1, sizeof *stack);
    uint32_t n = 0;
    if (!seen || !stack)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    else if (cfg.nblock)
        seen[0] = true, stack[n++] = 0;
    else
        p.exits = true;
    while (n && r == 0) {
        const struct ptx_block *b = &cfg.block[stack[--n]];
        bool waits = false;
        for (uint32_t k = b->first; k <= b->last && !waits; k++) {
            const struct ptx_inst *i = &f->inst[k];
            waits = is_wait(i);
            bool ends = i->op == PTX_OP_EXIT || i->op == PTX_OP_RET;
            bool guarded = ends && i->pred != PTX_NO_REG && k > b->first &&
                           f->inst[k - 1].op == PTX_OP_GRIDDEPCONTROL_WAIT &&
                           /* @p wait; @p exit */
                           f->inst[k - 1].pred == i->pred && f->inst[k - 1].pred_neg == i->pred_neg;
            p.exits |= (ends && !guarded) || i->op == PTX_OP_OPAQUE;
            p.triggers |= i->op == PTX_OP_GRIDDEPCONTROL_LAUNCH || i->op == PTX_OP_OPAQUE;
            if (i->op == PTX_OP_CALL && r == 0)
                r = of_call(i, &p, e);
        }
        if (!waits && !b->nsucc && f->inst[b->last].op != PTX_OP_TRAP)
            p.exits = true; /* runs off the end */
        for (uint32_t k = 0; k < b->nsucc && !waits; k++)
            if (!seen[b->succ[k]])
                seen[b->succ[k]] = true, stack[n++] = b->succ[k];
    }
    ptx_cfg_done(&cfg);
    *ret = p;
    return r;
}

/* In front of each instruction for which `here` holds: all barriers of the cluster that a thread there has still to
 * pass, so that none of its blocks ends there while another uses its shared memory. Nothing where the cluster keeps to
 * other rules. */
static int leave_cluster(struct ptx_function *f, bool (*here)(const struct ptx_inst *), struct dt_err *e)
{
    const char *wrong;
    int all = 0;
    dt_free_ struct rw_arrivals *at = dt_calloc((size_t)f->ninst + 1, sizeof *at);
    int r = at ? rw_cluster_meets(f, at, &all, &wrong, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = f->ninst; k-- > 0 && r >= 0;) { /* from the end, so that numbers stay good */
        if (!here(&f->inst[k]))
            continue;
        struct dt_str text = {0};
        int left = wrong || at[k].done == RW_UNSEEN ? 0 : all - at[k].done;
        if (left > 0 && at[k].arrived)
            dt_str_add(&text, "barrier.cluster.wait;\n"), left--;
        for (; left > 0; left--)
            dt_str_add(&text, "barrier.cluster.arrive;\nbarrier.cluster.wait;\n");
        r = text.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : text.len ? rw_insert(f, k, text.s, e) : 0;
        dt_str_done(&text);
    }
    return r < 0 ? r : 0;
}

/* Blocks that end at the wait are gone for their cluster: one that has come to its wait would leave another, which
 * still reads its shared memory before that one's own, with a fault that the kernel has not. So, with `meet`, they
 * first pass the barriers behind which every block would have been there. But then threads of a block that do not come
 * by the wait may be kept from meeting at a barrier of the block: analyse_early() tries the other way first. */
int rw_cut_at_wait(const char *ptx, size_t len, const char *const *entry, uint32_t nentry, bool meet,
                   struct dt_str *out, struct dt_err *e)
{
    struct ptx_module *m = NULL;
    int r = ptx_parse(ptx, len, &m, e);
    for (uint32_t k = 0; r == 0 && k < nentry; k++) {
        struct ptx_function *f = ptx_find_function(m, entry[k]);
        r = f && meet ? leave_cluster(f, is_wait, e) : 0;
        for (uint32_t i = 0; f && i < f->ninst; i++)
            if (is_wait(&f->inst[i]))
                f->inst[i].op = PTX_OP_EXIT;
    }
    if (r == 0 && ((r = ptx_print(m, out)) < 0 || out->failed))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    ptx_module_free(m);
    return r;
}
