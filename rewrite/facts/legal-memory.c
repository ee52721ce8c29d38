/* Predicates on launches, block maps and atomics: LEGAL rows of legal.def, and OTHER rows of parallel fusion and
 * recompute.
 *
 * They ask what the analysis and the launches' documents say: the order of launches, conflicts inside one,
 * floating-point atomics. Room in constant and shared memory depends on the level (emit/legal-level.c).
 */
#include "rewrite/facts/legal.h"

#include <string.h>

#include "base/subject.h"

bool rw_legal_plain_launches(const struct rw_facts *facts, struct dt_str *why)
{
    for (uint32_t s = 0; s < facts->nbody; s++) {
        const struct dt_launch *l = &facts->prog->graph->launch[facts->launch[s]];
        if (l->kind != DT_KERNEL) {
            dt_str_addf(why, DT_LAUNCH " is a %s", l->name, l->kind == DT_MEMSET ? "memset" : "copy");
            return false;
        }
        if (l->programmatic) {
            dt_str_addf(why, DT_LAUNCH " has a programmatic edge", l->name);
            return false;
        }
        if (rw_is_placed(facts->prog->graph, facts->launch[s])) {
            dt_str_addf(why, DT_LAUNCH " is placed on a stream beside others", l->name);
            return false;
        }
    }
    return true;
}

bool rw_legal_order(const struct rw_facts *facts, struct dt_str *why)
{
    uint32_t between;
    uint32_t *order = dt_calloc(facts->prog->graph->nlaunch + 1, sizeof *order);
    bool all = facts->nset > 0; /* they stand together */
    bool ok = order &&
              rw_order(facts->ana, all ? facts->set : facts->launch, all ? facts->nset : facts->nbody, order, &between);
    if (!ok && order && between != UINT32_MAX && (all || facts->nbody > 2))
        dt_str_addf(why, DT_LAUNCH " depends on one of them, and another on it",
                    facts->prog->graph->launch[between].name);
    else if (!ok && order && between != UINT32_MAX)
        dt_str_addf(why, DT_LAUNCH " depends on " DT_LAUNCH " and " DT_LAUNCH " depends on it",
                    facts->prog->graph->launch[between].name, facts->prog->graph->launch[facts->launch[0]].name,
                    facts->prog->graph->launch[facts->launch[1]].name);
    dt_freep_(&order);
    return ok;
}

bool rw_legal_unordered(const struct rw_facts *facts, struct dt_str *why)
{
    uint32_t n = facts->prog->graph->nlaunch, first = UINT32_MAX, last = 0;
    bool *from = dt_calloc(n + 1, 1), ok = from != NULL;
    for (uint32_t s = 0; s < facts->nbody; s++) {
        first = facts->launch[s] < first ? facts->launch[s] : first;
        last = facts->launch[s] > last ? facts->launch[s] : last;
    }
    for (uint32_t s = 0; s < facts->nbody && ok; s++) { /* what follows launch s, up to the last of them */
        memset(from, 0, n);
        for (uint32_t x = facts->launch[s] + 1; x <= last; x++)
            for (uint32_t y = facts->launch[s]; y < x && !from[x]; y++)
                from[x] = (y == facts->launch[s] || from[y]) && ana_find_edge(facts->ana, y, x);
        for (uint32_t t = 0; t < facts->nbody && ok; t++)
            if (from[facts->launch[t]]) {
                dt_str_addf(
                    why, DT_LAUNCH " depends on " DT_LAUNCH "%s", facts->prog->graph->launch[facts->launch[t]].name,
                    facts->prog->graph->launch[facts->launch[s]].name,
                    ana_find_edge(facts->ana, facts->launch[s], facts->launch[t]) ? "" : " through other launches");
                ok = false;
            }
    }
    dt_freep_(&from);
    return ok;
}

bool rw_legal_block_map(const struct rw_facts *facts, struct dt_str *why)
{
    if (ana_rows_kept(&facts->edge->any))
        return true;
    dt_str_addf(why, "the block map has %llu pairs, too many to keep", (unsigned long long)facts->edge->pairs);
    return false;
}

bool rw_legal_self_conflict(const struct rw_facts *facts, struct dt_str *why)
{
    for (uint32_t s = 0; s < facts->nbody; s++)
        if (facts->ana->launch[facts->launch[s]].self_conflict &&
            (!facts->body[s].ranks || rw_cluster_conflict(facts, s))) {
            dt_str_addf(why, "two %s of " DT_LAUNCH " touch the same byte, one of them writing",
                        facts->body[s].ranks ? "clusters" : "blocks",
                        facts->prog->graph->launch[facts->launch[s]].name);
            return false;
        }
    return true;
}

bool rw_legal_float_atomics(const struct rw_facts *facts, struct dt_str *why)
{
    for (unsigned k = 0; k < facts->opt->nallow; k++)
        if (!strcmp(facts->opt->allow[k], "reorder-atomics"))
            return true;
    for (uint32_t s = 0; s < facts->nbody; s++) {
        const struct ana_launch *l = &facts->ana->launch[facts->launch[s]];
        for (uint32_t k = 0; k < l->naccess; k++)
            if (l->access[k].fp_atomics) {
                dt_str_addf(why,
                            DT_LAUNCH " adds floating point into " DT_BUFFER
                                      " atomically; another order of blocks rounds otherwise",
                            facts->prog->graph->launch[facts->launch[s]].name,
                            facts->prog->graph->buffer[l->access[k].buffer].name);
                return false;
            }
    }
    return true;
}

/* ---- recompute: body 0 is the producer, body 1 one of its consumers ---------------------------------------------- */

bool rw_legal_repeatable(const struct rw_facts *facts, struct dt_str *why)
{
    const struct ana_launch *p = &facts->ana->launch[facts->launch[0]];
    for (uint32_t k = 0; k < p->naccess; k++)
        if (p->access[k].atomics || (p->access[k].reads && p->access[k].writes)) {
            dt_str_addf(why, DT_LAUNCH " %s " DT_BUFFER, facts->prog->graph->launch[facts->launch[0]].name,
                        p->access[k].atomics ? "has atomics on" : "both reads and writes",
                        facts->prog->graph->buffer[p->access[k].buffer].name);
            return false;
        }
    return true;
}

bool rw_legal_inputs_stay(const struct rw_facts *facts, struct dt_str *why)
{
    const struct ana_launch *p = &facts->ana->launch[facts->launch[0]], *q = &facts->ana->launch[facts->launch[1]];
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
                dt_str_addf(why, DT_LAUNCH " writes " DT_BUFFER ", which " DT_LAUNCH " %s",
                            facts->prog->graph->launch[facts->launch[1]].name,
                            facts->prog->graph->buffer[q->access[i].buffer].name,
                            facts->prog->graph->launch[facts->launch[0]].name,
                            p->access[k].reads ? "would read again" : "writes");
                return false;
            }
        }
    return true;
}
