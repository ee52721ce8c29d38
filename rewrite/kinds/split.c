/* Split: full waves and tail of a launch as two launches, so that consumer blocks that need only the full waves run
 * beside the tail.
 *
 *   before                         after, on two streams
 *   p<<<140>>>(x, h)               0: p.full<<<132>>>    c.full<<<n>>>             d
 *   c<<<140>>>(h, y)               1: p.tail<<<8>>>      c.tail<<<140 - n>>>       (d after c.tail)
 *   d<<<…>>>(y, z)
 *
 * A wave is as many blocks as the device holds at once. p.full has the first blocks, as many as whole waves have, and
 * p.tail the rest; the hardware places them in this order anyway. A consumer's block goes to c.full if the block map
 * (RAW, WAR, WAW) names only blocks of p.full for it, else to c.tail. c.tail waits for p.tail, and for p.full if it
 * needs blocks of that too. Consumers are the launches right behind p that have a hazard with p and none among each
 * other. The launch behind them waits for all parts, and so does whatever comes later; at the end of the graph, its end
 * does. Block numbers are read from an affine map or a table (emit/solo.c), and the kernel sees the old grid.
 *
 * What could break it: blocks of one launch that talk or touch a byte in conflict (`no-talk`); a map that is not known
 * pair by pair; a later launch that waits for one part only. The new launches are analysed like any, and gate/waits.c
 * checks that the streams keep every hazard between them.
 */
#include "rewrite/emit/solo.h"
#include "rewrite/kinds/kinds.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define CONSUMERS 4
#define TAIL_STREAM 1

struct mine {
    uint32_t n; /* producer and consumers: the first of S */
    struct rw_solo solo[1 + CONSUMERS];
    uint32_t *part[1 + CONSUMERS][2], count[1 + CONSUMERS][2]; /* blocks of .full and .tail */
    bool both[1 + CONSUMERS];                                  /* .tail needs blocks of p.full as well */
};

/* The number of blocks in full waves; 0: there is no full wave, or no tail. */
static uint32_t full_waves(const struct dev_step *s)
{
    uint32_t full = s->wave ? s->blocks / s->wave * s->wave : 0;
    return full == s->blocks ? 0 : full;
}

static bool split_plain(const struct dt_graph *g, uint32_t l)
{
    return g->launch[l].kind == DT_KERNEL && !g->launch[l].stream && !g->launch[l].nafter && !g->launch[l].programmatic;
}

/* The number of launches in the group: p, and the consumers right behind it. */
static uint32_t split_group(const struct rw_state *s, uint32_t p)
{
    uint32_t n = 1;
    for (uint32_t c = p + 1; c < s->graph->nlaunch && n <= CONSUMERS && split_plain(s->graph, p) &&
                             split_plain(s->graph, c) && ana_find_edge(s->ana, p, c);
         c++) {
        for (uint32_t k = p + 1; k < c; k++)
            if (ana_find_edge(s->ana, k, c))
                return n;
        n++;
    }
    return n;
}

static int split_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                         struct dt_err *e)
{
    const struct dt_graph *g = s->graph;
    int r = 0;
    for (uint32_t p = 0; p + 1 < g->nlaunch && r == 0 && !g->streams; p++) { /* it has streams of its own */
        uint32_t set[CONSUMERS + 2], n = split_group(s, p);
        if (n == 1 || !full_waves(&s->prog->step[p]) || (p + n < g->nlaunch && g->launch[p + n].stream))
            continue;
        n += p + n < g->nlaunch; /* the next one will wait for all parts */
        for (uint32_t k = 0; k < n; k++)
            set[k] = p + k;
        r = rw_propose(ret, set, n, n, 0);
    }
    return r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

static void split_close_edit(struct rw_edit *x)
{
    struct mine *m = x->mine;
    for (uint32_t k = 0; m && k < m->n; k++) {
        rw_solo_done(&m->solo[k]);
        free(m->part[k][0]);
        free(m->part[k][1]);
    }
    free(m);
    x->mine = NULL;
}

/* Which consumer blocks need only blocks below `full`. */
static int split_divide(struct mine *m, uint32_t k, uint32_t blocks, const struct ana_rows *any, uint32_t full,
                        struct dt_err *e)
{
    for (int part = 0; part < 2; part++)
        if (!(m->part[k][part] = dt_calloc((size_t)blocks + 1, sizeof **m->part[k])))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t b = 0; b < blocks; b++) {
        bool tail = any ? false : b >= full, early = false;
        for (uint32_t i = any && b < any->nrow ? any->row[b] : 0; any && b < any->nrow && i < any->row[b + 1]; i++) {
            tail = tail || any->col[i] >= full;
            early = early || any->col[i] < full;
        }
        m->both[k] = m->both[k] || (tail && early);
        m->part[k][tail][m->count[k][tail]++] = b;
    }
    return 0;
}

static int split_open_edit(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    const struct rw_state *now = x->now;
    struct mine *m = x->mine = dt_calloc(1, sizeof *m);
    uint32_t p = x->launch[0], full = full_waves(&now->prog->step[p]), n = split_group(now, p);
    int r = m ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    *ret_verdict = RW_REFUSED;
    for (uint32_t k = 0; k < n && r == 0; k++) {
        const struct ana_edge *edge = k ? ana_find_edge(now->ana, p, x->launch[k]) : NULL;
        m->n = k + 1;
        if ((r = rw_solo_init(&m->solo[k], x->dev, now->prog, x->launch[k], e)) < 0)
            break;
        m->solo[k].self_conflict = now->ana->launch[x->launch[k]].self_conflict;
        if (!rw_solo_legal(&m->solo[k], RW_SOLO_MOVES, why) || (r = rw_solo_copy(&m->solo[k], why, e)) != 0)
            return r < 0 ? r : 1;
        if (edge && !ana_rows_kept(&edge->any)) {
            dt_str_addf(why,
                        DT_ROW("block-map") ": the map of " DT_LAUNCH " and " DT_LAUNCH " has more pairs than are kept",
                        now->graph->launch[p].name, now->graph->launch[x->launch[k]].name);
            return 1;
        }
        r = split_divide(m, k, now->prog->step[x->launch[k]].blocks, edge ? &edge->any : NULL, full, e);
    }
    uint32_t early = 0;
    for (uint32_t k = 1; r == 0 && k < m->n; k++)
        early += m->count[k][0];
    if (r == 0 && (!full || !early)) {
        dt_str_addf(why, "%s",
                    full ? DT_ROW("no-early-blocks") ": every consumer block needs a block of the tail"
                         : DT_ROW("no-tail") ": its blocks are whole waves");
        r = 1;
    }
    return r;
}

/* A name that no launch has. */
static char *name_of(struct rw_edit *x, uint32_t launch, int part)
{
    const struct dt_graph *g = x->now->graph;
    char *name = NULL;
    for (unsigned n = 1; n < 1000; n++) {
        name = n > 1 ? dt_arena_printf(&x->arena, "%.900s.%s~%u", g->launch[launch].name, part ? "tail" : "full", n)
                     : dt_arena_printf(&x->arena, "%.900s.%s", g->launch[launch].name, part ? "tail" : "full");
        if (!name || dt_graph_find_launch(g, name) == DT_NAME_NONE)
            break;
    }
    return name;
}

static bool also_after(json_t *launch, const char *name)
{
    json_t *after = json_object_get(launch, "after");
    if (!after && json_object_set_new(launch, "after", after = json_array()) < 0)
        return false;
    size_t i;
    json_t *v;
    json_array_foreach (after, i, v)
        if (!strcmp(json_string_value(v), name))
            return true;
    return json_array_append_new(after, json_string(name)) == 0;
}

static int split_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine;
    const struct dt_graph *g = x->now->graph;
    /* names: before p on its stream; parts of p; the newest on the tail's stream */
    const char *before = NULL, *first[2] = {NULL, NULL}, *last = NULL;
    int r = 0;
    for (uint32_t l = x->launch[0]; l-- > 0 && !before;)
        if (!g->launch[l].stream)
            before = g->launch[l].name;
    for (uint32_t k = 0; k < m->n && r == 0; k++)
        for (int part = 0; part < 2 && r == 0; part++) {
            struct rw_solo *s = &m->solo[k];
            uint32_t n = m->count[k][part];
            if (!n)
                continue;
            if ((r = rw_solo_copy(s, why, e)) != 0 || (r = rw_solo_renumber(s, m->part[k][part], n, e)) < 0)
                return r;
            json_t *l = dt_launch_to_json(g, &g->launch[x->launch[k]]);
            const char *name = name_of(x, x->launch[k], part);
            bool ok = l && name && json_object_set_new(l, "name", json_string(name)) == 0 &&
                      json_object_set_new(l, "grid", json_pack("[I,i,i]", (json_int_t)n, 1, 1)) == 0 &&
                      json_object_set_new(l, "stream", json_integer(part ? TAIL_STREAM : 0)) == 0;
            json_object_del(l, "module");
            if (part && !k && before)
                ok = ok && also_after(l, before);
            if (part && m->both[k])
                ok = ok && also_after(l, first[0]);
            struct rw_part *t = rw_edit_add(x, l);
            if (!ok || !t)
                return dt_err_set(e, DT_E_NOMEM, "out of memory");
            t->cut = k + 1;
            if (!k)
                first[part] = name;
            if (part)
                last = name;
            r = rw_solo_text(s, &t->ptx, e);
        }
    if (r == 0 && m->n < x->nlaunch) {
        json_t *l = dt_launch_to_json(g, &g->launch[x->launch[m->n]]);
        json_t *after = json_object_get(l, "after"); /* of those that are split it waits for all parts, in the end */
        for (size_t k = json_array_size(after); k-- > 0;)
            for (uint32_t i = 0; i < m->n; i++)
                if (!strcmp(json_string_value(json_array_get(after, k)), g->launch[x->launch[i]].name)) {
                    json_array_remove(after, k);
                    break;
                }
        bool ok = l && last && also_after(l, last);
        struct rw_part *t = rw_edit_add(x, l);
        if (!ok || !t)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        t->same = x->launch[m->n];
    }
    return r;
}

const struct rw_rewrite rw_split = {
    .name = "split",
    .needs = "a launch with full waves and a tail, and consumers right behind it with blocks that do not need the tail",
    .keeps = "every hazard between the parts, by streams and `after`",
    .on = true,
    .same_code = true,
    .propose = split_propose,
    .open = split_open_edit,
    .build = split_build,
    .close = split_close_edit,
};
