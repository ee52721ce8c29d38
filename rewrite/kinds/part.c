/* A joined launch as a part of an edit: its document, and its module's text.
 *
 * The arguments are those of all bodies, one after the other, without those that the entry does not take and those that
 * an earlier body has too. The geometry is the host's at level `register`; else the launch has one block, or one
 * cluster, for each component. Its name is that of the launches with `+` between.
 */
#include "rewrite/kinds/kinds-priv.h"

#include <string.h>

static bool kinds_part_put(json_t *o, const char *key, json_t *v) { return v && json_object_set_new(o, key, v) == 0; }

int rw_fuse_part(struct rw_cand *c, struct rw_edit *x, struct dt_err *e)
{
    const struct dt_graph *g = c->facts.prog->graph;
    const struct dt_launch *host = rw_inline_host(c);
    json_t *args = json_array(), *o = json_object();
    struct dt_str name = {0};
    bool ok = args && o;
    for (uint32_t s = 0; s < c->facts.nbody && ok; s++) {
        json_t *l = dt_launch_to_json(g, &g->launch[c->facts.launch[s]]);
        json_t *from = json_object_get(l, "args"), *a;
        size_t i;
        ok = l != NULL;
        json_array_foreach (from, i, a) {
            bool keep = i > 62 || ((c->made.arg_keep[s] >> i) & 1);
            if (keep && ok && !c->made.arg_same[s][i])
                ok = json_array_append(args, a) == 0;
        }
        json_decref(l);
        dt_str_addf(&name, "%s%s", s ? "+" : "", g->launch[c->facts.launch[s]].name);
    }
    ok = ok && (!c->made.zero_word || json_array_append_new(args, json_pack("{s:i}", "u32", 0)) == 0);
    ok = ok && !name.failed && kinds_part_put(o, "name", json_string(name.s)) &&
         kinds_part_put(o, "entry", json_string(c->made.entry)) && kinds_part_put(o, "args", json_incref(args));
    if (host)
        ok = ok &&
             kinds_part_put(o, "grid",
                            json_pack("[I,I,I]", (json_int_t)host->grid[0], (json_int_t)host->grid[1],
                                      (json_int_t)host->grid[2])) &&
             kinds_part_put(o, "block",
                            json_pack("[I,I,I]", (json_int_t)host->block[0], (json_int_t)host->block[1],
                                      (json_int_t)host->block[2])) &&
             kinds_part_put(o, "shared", json_integer(host->shared)) &&
             (!host->cluster[0] ||
              kinds_part_put(o, "cluster",
                             json_pack("[I,I,I]", (json_int_t)host->cluster[0], (json_int_t)host->cluster[1],
                                       (json_int_t)host->cluster[2])));
    else
        ok = ok && kinds_part_put(o, "grid", json_pack("[I,i,i]", (json_int_t)c->lists.n, 1, 1)) &&
             (!c->cluster || kinds_part_put(o, "cluster", json_pack("[I,i,i]", (json_int_t)c->cluster, 1, 1))) &&
             kinds_part_put(o, "block", json_pack("[I,i,i]", (json_int_t)c->threads, 1, 1)) &&
             kinds_part_put(o, "shared", json_integer(c->shared_dynamic ? c->shared_bytes : 0));
    json_decref(args);
    dt_str_done(&name);
    struct rw_part *part = ok ? rw_edit_add(x, o) : NULL;
    if (!ok)
        json_decref(o);
    if (!part)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    part->ptx = c->made.ptx;
    c->made.ptx = (struct dt_str){0};
    for (uint32_t k = 0; c->level != RW_LEVEL_GLOBAL && k < c->nredirect; k++) {
        const struct rw_redirect *d = &c->redirect[k];
        const struct ana_interval all = {0, g->buffer[d->buffer].bytes};
        struct ana_set gone = d->gone.n ? d->gone : (struct ana_set){(struct ana_interval *)&all, 1};
        struct rw_unread u = {d->buffer, {dt_new_array(&x->arena, struct ana_interval, gone.n), gone.n}};
        if (d->keep_global && !d->gone.n)
            continue;
        if (!u.bytes.iv || !dt_push(&x->unread, u))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        memcpy(u.bytes.iv, gone.iv, gone.n * sizeof *gone.iv);
    }
    return 0;
}

void rw_close_cand(struct rw_edit *x)
{
    if (x->mine)
        rw_cand_done(x->mine);
    free(x->mine);
    x->mine = NULL;
}
