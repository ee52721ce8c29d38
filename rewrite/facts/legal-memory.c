/* Predicates on launches, block maps, atomics and space.
 *
 * What the analysis and the launch geometry say: order between launches, conflicts inside one, floating-point atomics,
 * room in constant and shared memory. The conditions themselves, and how to add one, are in legal.def.
 */
#include "rewrite/emit/flow.h"
#include "rewrite/facts/legal.h"

#include <string.h>

bool rw_legal_plain_launches(const struct rw_cand *c, struct dt_str *why)
{
    for (uint32_t s = 0; s < c->nbody; s++) {
        const struct dt_launch *l = &c->prog->graph->launch[c->launch[s]];
        if (l->kind != DT_KERNEL) {
            dt_str_addf(why, "'%s' is a %s", l->name, l->kind == DT_MEMSET ? "memset" : "copy");
            return false;
        }
        if (l->programmatic) {
            dt_str_addf(why, "'%s' has a programmatic edge", l->name);
            return false;
        }
        if (l->stream || l->nafter) {
            dt_str_addf(why, "'%s' is placed on a stream beside others", l->name);
            return false;
        }
        for (uint32_t k = 0; k < l->narg; k++)
            if (l->arg[k].kind == DT_ARG_TENSOR_MAP) {
                dt_str_addf(why, "'%s' takes a tensor map", l->name);
                return false;
            }
    }
    return true;
}

/* A body's own clusters. A host of level `register` stays as it is, but what is emitted is held to the simple rules of
 * facts/meets.c, so it must keep to them. */
bool rw_legal_clusters(const struct rw_cand *c, struct dt_str *why)
{
    const struct rw_comps *q = c->cluster ? &c->whole : &c->comps;
    uint32_t first = UINT32_MAX;
    for (uint32_t s = 0; s < c->nbody; s++) {
        const struct rw_body *b = &c->body[s];
        const struct rw_find *f = &b->find[RW_CLUSTER];
        const char *name = c->prog->graph->launch[c->launch[s]].name;
        if (!f->set)
            continue;
        if (!b->ranks) {
            dt_str_addf(why, "'%s' has `%.60s` (PTX line %u), and is not launched in clusters", name,
                        f->what ? f->what : "?", f->line);
            return false;
        }
        if (b->apart) {
            dt_str_addf(why, "'%s' %s", name, b->apart);
            return false;
        }
        if (c->level <= RW_LEVEL_PROLOGUE)
            continue;
        if (c->level != RW_LEVEL_CLUSTER) {
            dt_str_addf(why,
                        "'%s' uses its clusters of %u blocks: it may be joined at level cluster, or have others "
                        "inlined (`%.60s`, PTX line %u)",
                        name, b->ranks, f->what ? f->what : "?", f->line);
            return false;
        }
        if (first != UINT32_MAX && c->body[first].ranks != b->ranks) {
            dt_str_addf(why, "'%s' runs in clusters of %u blocks, '%s' of %u",
                        c->prog->graph->launch[c->launch[first]].name, c->body[first].ranks, name, b->ranks);
            return false;
        }
        first = s;
        if (q->list[s].max > b->ranks) {
            dt_str_addf(why, "a component has up to %u blocks of '%s', which runs in clusters of %u", q->list[s].max,
                        name, b->ranks);
            return false;
        }
    }
    return true;
}

bool rw_legal_order(const struct rw_cand *c, struct dt_str *why)
{
    uint32_t between;
    uint32_t *order = dt_calloc(c->prog->graph->nlaunch + 1, sizeof *order);
    bool ok = order && rw_order(c->ana, c->launch, c->nbody, order, &between);
    if (!ok && order && between != UINT32_MAX && c->nbody > 2)
        dt_str_addf(why, "'%s' depends on one of them, and another on it", c->prog->graph->launch[between].name);
    else if (!ok && order && between != UINT32_MAX)
        dt_str_addf(why, "'%s' depends on '%s' and '%s' depends on it", c->prog->graph->launch[between].name,
                    c->prog->graph->launch[c->launch[0]].name, c->prog->graph->launch[c->launch[1]].name);
    dt_freep_(&order);
    return ok;
}

bool rw_legal_unordered(const struct rw_cand *c, struct dt_str *why)
{
    uint32_t n = c->prog->graph->nlaunch, first = UINT32_MAX, last = 0;
    bool *from = dt_calloc(n + 1, 1), ok = from != NULL;
    for (uint32_t s = 0; s < c->nbody; s++) {
        first = c->launch[s] < first ? c->launch[s] : first;
        last = c->launch[s] > last ? c->launch[s] : last;
    }
    for (uint32_t s = 0; s < c->nbody && ok; s++) { /* what follows launch s, up to the last of them */
        memset(from, 0, n);
        for (uint32_t x = c->launch[s] + 1; x <= last; x++)
            for (uint32_t y = c->launch[s]; y < x && !from[x]; y++)
                from[x] = (y == c->launch[s] || from[y]) && ana_find_edge(c->ana, y, x);
        for (uint32_t t = 0; t < c->nbody && ok; t++)
            if (from[c->launch[t]]) {
                dt_str_addf(why, "'%s' depends on '%s'%s", c->prog->graph->launch[c->launch[t]].name,
                            c->prog->graph->launch[c->launch[s]].name,
                            ana_find_edge(c->ana, c->launch[s], c->launch[t]) ? "" : " through other launches");
                ok = false;
            }
    }
    dt_freep_(&from);
    return ok;
}

bool rw_legal_block_map(const struct rw_cand *c, struct dt_str *why)
{
    if (ana_rows_kept(&c->edge->any))
        return true;
    dt_str_addf(why, "the block map has %llu pairs, too many to keep", (unsigned long long)c->edge->pairs);
    return false;
}

bool rw_legal_self_conflict(const struct rw_cand *c, struct dt_str *why)
{
    for (uint32_t s = 0; s < c->nbody; s++)
        if (c->ana->launch[c->launch[s]].self_conflict && (!c->body[s].ranks || rw_cluster_conflict(c, s))) {
            dt_str_addf(why, "two %s of '%s' touch the same byte, one of them writing",
                        c->body[s].ranks ? "clusters" : "blocks", c->prog->graph->launch[c->launch[s]].name);
            return false;
        }
    return true;
}

bool rw_legal_float_atomics(const struct rw_cand *c, struct dt_str *why)
{
    for (unsigned k = 0; k < c->opt->nallow; k++)
        if (!strcmp(c->opt->allow[k], "reorder-atomics"))
            return true;
    for (uint32_t s = 0; s < c->nbody; s++) {
        const struct ana_launch *l = &c->ana->launch[c->launch[s]];
        for (uint32_t k = 0; k < l->naccess; k++)
            if (l->access[k].fp_atomics) {
                dt_str_addf(
                    why, "'%s' adds floating point into '%s' atomically; another order of blocks rounds otherwise",
                    c->prog->graph->launch[c->launch[s]].name, c->prog->graph->buffer[l->access[k].buffer].name);
                return false;
            }
    }
    return true;
}

#define CONST_SPACE 65536

/* Is the body's k-th table one that a body before it names too? Bodies of one module share it (join.c). */
static bool counted(const struct rw_cand *c, uint32_t s, uint32_t k)
{
    for (uint32_t t = 0; t < s; t++)
        for (uint32_t i = 0; i < c->body[t].nconst; i++)
            if (c->body[t].const_var[i] == c->body[s].const_var[k])
                return true;
    return false;
}

bool rw_legal_constant_space(const struct rw_cand *c, struct dt_str *why)
{
    uint64_t tables = 0, lists = 0;
    for (uint32_t s = 0; s < c->nbody; s++) {
        for (uint32_t k = 0; k < c->body[s].nconst; k++) {
            const struct ptx_var *v = c->body[s].const_var[k];
            uint64_t align = v->align ? v->align : 1;
            if (!counted(c, s, k))
                tables = (tables + align - 1) / align * align + v->bytes;
        }
        lists += c->comps.list[s].table_bytes;
    }
    lists += c->flow ? c->flow->table_bytes : 0;
    for (uint32_t k = 0; rw_in_shared(c) && k < c->nredirect; k++)
        if (!c->redirect[k].base_affine)
            lists += 4 * (uint64_t)c->comps.n;
    if (tables + lists > CONST_SPACE) {
        dt_str_addf(
            why, "the kernels' tables take %llu bytes of constant memory, irregular lists of blocks %llu; there are %u",
            (unsigned long long)tables, (unsigned long long)lists, CONST_SPACE);
        return false;
    }
    return true;
}

bool rw_legal_shared_space(const struct rw_cand *c, struct dt_str *why)
{
    if (c->shared_bytes > c->dev->shared_block_optin) {
        dt_str_addf(why, "a block would need %u bytes of shared memory, the device allows %u", c->shared_bytes,
                    c->dev->shared_block_optin);
        return false;
    }
    return true;
}

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

bool rw_legal_cluster_device(const struct rw_cand *c, struct dt_str *why)
{
    if (c->dev->cc_major >= 9)
        return true;
    dt_str_addf(why, "%s has no thread-block clusters", c->dev->name);
    return false;
}

/* Blocks of a cluster wait for each other, so all of them must find room at once. What there is for certain: 8 blocks
 * that fill an SM each, 16 where the kernel may be launched in more than is portable, and less where this is a part of
 * a GPU. The device is asked when the launch is made (device/prog.c). */
bool rw_legal_cluster_room(const struct rw_cand *c, struct dt_str *why)
{
    uint32_t warps = (c->threads + 31) / 32, each = (c->res.registers * 32 + 255) / 256 * 256, sms = c->dev->sms;
    uint32_t by_regs = each ? c->dev->regs_sm / 4 / each * 4 / warps : 32,
             by_shared = c->dev->shared_sm / (c->shared_bytes + c->dev->shared_reserved + 1);
    uint32_t by_threads = c->dev->max_threads_sm / (warps * 32), per_sm = by_regs < by_shared ? by_regs : by_shared;
    per_sm = by_threads < per_sm ? by_threads : per_sm;
    if (c->dev->sharing[0] && sms > 8)
        sms = 8;
    if (c->cluster <= RW_CLUSTER_MAX && (uint64_t)per_sm * (sms < RW_CLUSTER_MAX ? sms : RW_CLUSTER_MAX) >= c->cluster)
        return true;
    dt_str_addf(why,
                "a cluster would have %u blocks of %u threads, %u registers and %u bytes of shared memory; %u fit an "
                "SM, and %u SMs lie together",
                c->cluster, c->threads, c->res.registers, c->shared_bytes, per_sm,
                sms < RW_CLUSTER_MAX ? sms : RW_CLUSTER_MAX);
    return false;
}

/* ---- recompute: body 0 is the producer, body 1 one of its consumers ---------------------------------------------- */

bool rw_legal_repeatable(const struct rw_cand *c, struct dt_str *why)
{
    const struct ana_launch *p = &c->ana->launch[c->launch[0]];
    for (uint32_t k = 0; k < p->naccess; k++)
        if (p->access[k].atomics || (p->access[k].reads && p->access[k].writes)) {
            dt_str_addf(why, "'%s' %s '%s'", c->prog->graph->launch[c->launch[0]].name,
                        p->access[k].atomics ? "has atomics on" : "both reads and writes",
                        c->prog->graph->buffer[p->access[k].buffer].name);
            return false;
        }
    return true;
}

bool rw_legal_inputs_stay(const struct rw_cand *c, struct dt_str *why)
{
    const struct ana_launch *p = &c->ana->launch[c->launch[0]], *q = &c->ana->launch[c->launch[1]];
    for (uint32_t k = 0; k < p->naccess; k++)
        for (uint32_t i = 0; i < q->naccess; i++) {
            bool meet = false;
            if (!q->access[i].writes || q->access[i].buffer != p->access[k].buffer)
                continue;
            if (q->access[i].widened || p->access[k].widened)
                meet = true;
            for (int x = 0; x < ANA_EVIDENCES && !meet; x++)
                for (int y = 0; y < ANA_EVIDENCES && !meet; y++)
                    meet = ana_set_overlaps(q->access[i].write_by[x], p->access[k].read_by[y]) ||
                           ana_set_overlaps(q->access[i].write_by[x], p->access[k].write_by[y]);
            if (meet) {
                dt_str_addf(why, "'%s' writes '%s', which '%s' %s", c->prog->graph->launch[c->launch[1]].name,
                            c->prog->graph->buffer[q->access[i].buffer].name, c->prog->graph->launch[c->launch[0]].name,
                            p->access[k].reads ? "would read again" : "writes");
                return false;
            }
        }
    return true;
}

bool rw_legal_all_readers(const struct rw_cand *c, struct dt_str *why)
{
    const struct ana_launch *p = &c->ana->launch[c->launch[0]];
    for (uint32_t k = 0; k < p->naccess; k++) {
        const char *name = c->prog->graph->buffer[p->access[k].buffer].name;
        const struct rw_redirect *r = NULL;
        if (!p->access[k].writes)
            continue;
        for (uint32_t i = 0; i < c->nredirect; i++)
            if (c->redirect[i].buffer == p->access[k].buffer)
                r = &c->redirect[i];
        if (!r)
            dt_str_addf(why, "'%s' does not go through shared memory%s%s", name, c->no_redirect.len ? ": " : "",
                        c->no_redirect.s ? c->no_redirect.s : "");
        else if (r->keep_global)
            dt_str_addf(why, "'%s' leaves the graph, or somebody else reads it", name);
        if (!r || r->keep_global)
            return false;
    }
    return true;
}
