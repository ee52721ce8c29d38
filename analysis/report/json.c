/* The analysis document of docs/CONTRACT.md §3, from a result.
 *
 * Members are written in the order of the contract. A launch's waves are ceil(blocks / (SMs × blocks per SM)), its
 * idle slots the share of block slots of these waves that stay empty. A memset or copy step is a launch of one block
 * of one thread.
 *
 * With `maps`, every edge has "map". A relation too large to be kept (ANA_MAX_PAIRS) is null there; its counts are
 * exact. And every launch has "footprints": by buffer, what each block reads, surely writes and perhaps writes,
 *
 *   [{"buffer": "h", "read": [[block, [range, …]], …], "write": …, "may_write": …}, …]
 *
 * blocks ascending, those that touch nothing left out. A range is [lo, hi], bytes lo to hi - 1 of the buffer, or
 * [lo, hi, step, count]: count such ranges, each step bytes after the one before. null where a launch has more than
 * MAX_RANGES ranges. And "decides": by number, the arguments whose memory decides what the launch touches
 * (taint/deciders.c); null where that is not known.
 *
 * `pictures` are those of picture.c.
 *
 * `warnings` are those of warnings.c; what the posted document alone shows is put before them by whoever has it
 * (daemon/shared/lookup.c).
 */
#include "analysis/report/picture.h"
#include "analysis/taint/taint.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

#define MAX_RANGES (1u << 20) /* of one launch */

static json_t *launch_json(const struct dev_step *s, const struct dt_launch *l, const struct dev_info *dev)
{
    bool kernel = l->kind == DT_KERNEL;
    uint64_t blocks = kernel ? s->blocks : 1, threads = kernel ? s->threads : 1;
    uint64_t per_sm = kernel && s->blocks_per_sm ? s->blocks_per_sm : 1;
    uint64_t slots = (dev->sms ? dev->sms : 1) * per_sm, waves = (blocks + slots - 1) / slots;
    double idle = waves ? 1.0 - (double)blocks / ((double)waves * (double)slots) : 0.0;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "name", l->name, "blocks", (json_int_t)blocks,
                     "threads", (json_int_t)threads, "registers", (json_int_t)(kernel ? s->res.registers : 0),
                     "shared_bytes", (json_int_t)(kernel ? (uint64_t)s->res.shared_static + l->shared : 0),
                     "blocks_per_sm", (json_int_t)per_sm, "waves", (json_int_t)waves, "idle_slots",
                     round(idle * 1e6) / 1e6);
}

/* ---- footprints -------------------------------------------------------------------------------------------------- */
/* The intervals as ranges: as many as possible of equal length at equal distance in one. */
static json_t *ranges(struct ana_set s, uint32_t *left)
{
    json_t *a = json_array();
    for (uint32_t i = 0, n; i < s.n; i += n) {
        const struct ana_interval *v = &s.iv[i];
        uint64_t bytes = v->hi - v->lo, step = i + 1 < s.n ? v[1].lo - v->lo : 0;
        for (n = 1; i + n < s.n && v[n].hi - v[n].lo == bytes && v[n].lo - v[n - 1].lo == step;)
            n++;
        if (n < 3) /* two of a kind are said as they are */
            n = 1;
        json_t *r =
            n > 1 ? json_pack("[I, I, I, I]", (json_int_t)v->lo, (json_int_t)v->hi, (json_int_t)step, (json_int_t)n)
                  : json_pack("[I, I]", (json_int_t)v->lo, (json_int_t)v->hi);
        if (!*left || json_array_append_new(a, r) < 0) {
            json_decref(a);
            return NULL;
        }
        --*left;
    }
    return a;
}

enum { READ, WRITE, MAY_WRITE };

static const struct ana_set *set_of(const struct ana_block *b, uint32_t buffer, int which)
{
    for (uint32_t i = 0; i < b->ntouch; i++)
        if (b->touch[i].buffer == buffer)
            return which == READ    ? &b->touch[i].read
                   : which == WRITE ? &b->touch[i].must_write
                                    : &b->touch[i].may_write;
    return NULL;
}

static json_t *blocks_of(const struct ana_launch *l, uint32_t buffer, int which, uint32_t *left)
{
    json_t *a = json_array();
    for (uint32_t k = 0; k < l->nblock && a; k++) {
        const struct ana_set *s = set_of(&l->block[k], buffer, which);
        if (!s || !s->n)
            continue;
        json_t *r = ranges(*s, left);
        if (!r || json_array_append_new(a, json_pack("[I, o]", (json_int_t)k, r)) < 0) {
            json_decref(a);
            a = NULL;
        }
    }
    return a;
}

static json_t *footprints(const struct ana_launch *l, const struct dt_graph *g)
{
    uint32_t left = MAX_RANGES;
    json_t *list = json_array();
    for (uint32_t i = 0; i < l->naccess; i++) {
        uint32_t b = l->access[i].buffer;
        json_t *part[3] = {0};
        for (int w = 0; w < 3; w++)
            part[w] = blocks_of(l, b, w, &left);
        json_t *o = json_pack("{s:s, s:o*, s:o*, s:o*}", "buffer", g->buffer[b].name, "read", part[READ], "write",
                              part[WRITE], "may_write", part[MAY_WRITE]);
        if (!o || json_object_size(o) != 4 || json_array_append(list, o) < 0) {
            json_decref(o);
            json_decref(list);
            return json_null();
        }
        json_decref(o);
    }
    return list;
}

/* The numbers of the arguments that decide what launch `launch` touches; as for an earlier launch of the same entry
 * with addresses in the same places. Null: not known. */
static json_t *decides(const struct dev_prog *p, uint32_t launch, const json_t *launches)
{
    const struct dt_launch *l = &p->graph->launch[launch], *was = p->graph->launch;
    bool known = false, *yes = dt_calloc((size_t)l->narg + 1, sizeof *yes);
    json_t *list = json_array();
    for (uint32_t k = launch; k-- > 0 && l->kind == DT_KERNEL;)
        if (was[k].kind == DT_KERNEL && p->step[k].entry == p->step[launch].entry && was[k].narg == l->narg &&
            ana_same_places(was[k].arg, l->arg, l->narg)) {
            free(yes);
            json_decref(list);
            return json_incref(json_object_get(json_array_get(launches, k), "decides"));
        }
    if (!yes || !list || ana_deciders(p, launch, yes, &known, NULL) < 0)
        known = false;
    for (uint32_t i = 0; known && i < l->narg; i++)
        if (yes[i])
            json_array_append_new(list, json_integer(i));
    free(yes);
    if (known)
        return list;
    json_decref(list);
    return json_null();
}

static json_t *json_names(const struct ana_edge *e, const struct dt_graph *g)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < e->nbuffer; i++)
        json_array_append_new(a, json_string(g->buffer[e->buffer[i]].name));
    return a;
}

static json_t *hazards(const struct ana_edge *e)
{
    json_t *a = json_array();
    if (e->raw.npairs)
        json_array_append_new(a, json_string("raw"));
    if (e->war.npairs)
        json_array_append_new(a, json_string("war"));
    if (e->waw.npairs)
        json_array_append_new(a, json_string("waw"));
    return a;
}

static json_t *classes(const struct ana_edge *e)
{
    static const struct {
        unsigned bit;
        const char *text;
    } name[] = {{ANA_ONE_TO_ONE, "one-to-one"},
                {ANA_MANY_TO_MANY, "many-to-many"},
                {ANA_FULL_INDEPENDENCE, "full-independence"},
                {ANA_PARTIAL_INDEPENDENCE, "partial-independence"}};
    json_t *a = json_array();
    for (unsigned i = 0; i < sizeof name / sizeof *name; i++)
        if (e->classes & name[i].bit)
            json_array_append_new(a, json_string(name[i].text));
    return a;
}

static const char *fan(enum ana_fan f)
{
    static const char *const text[] = {"none", "one-to-one", "one-to-many", "many-to-one", "many-to-many"};
    return (unsigned)f < sizeof text / sizeof *text ? text[f] : "?";
}

static json_t *json_rows(const struct ana_rows *r)
{
    if (!ana_rows_kept(r))
        return json_null();
    json_t *a = json_array();
    for (uint32_t c = 0; r->row && c < r->nrow; c++) {
        if (r->row[c] == r->row[c + 1])
            continue;
        json_t *p = json_array();
        for (uint32_t k = r->row[c]; k < r->row[c + 1]; k++)
            json_array_append_new(p, json_integer(r->col[k]));
        json_array_append_new(a, json_pack("[I, o]", (json_int_t)c, p));
    }
    return a;
}

static json_t *edge_json(const struct ana_edge *e, const struct dt_graph *g, bool maps)
{
    json_t *ind = json_object();
    for (uint32_t i = 0; i < e->nindependent; i++)
        json_object_set_new(ind, g->buffer[e->independent[i].buffer].name,
                            json_integer((json_int_t)e->independent[i].bytes));
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:I, s:I, s:{s:I, s:I}, s:{s:I, s:I}, s:I, s:o}",
                          "producer", g->launch[e->producer].name, "consumer", g->launch[e->consumer].name, "buffers",
                          json_names(e, g), "hazards", hazards(e), "classes", classes(e), "fan", fan(e->fan),
                          "evidence", ana_evidence_text(e->evidence), "pairs", (json_int_t)e->pairs, "components",
                          (json_int_t)e->components, "producers_per_consumer", "min", (json_int_t)e->ppc_min, "max",
                          (json_int_t)e->ppc_max, "consumers_per_producer", "min", (json_int_t)e->cpp_min, "max",
                          (json_int_t)e->cpp_max, "independent_blocks", (json_int_t)e->independent_blocks,
                          "independent_bytes", ind);
    if (o && maps)
        json_object_set_new(o, "map",
                            json_pack("{s:o, s:o, s:o}", "raw", json_rows(&e->raw), "war", json_rows(&e->war), "waw",
                                      json_rows(&e->waw)));
    return o;
}

json_t *dev_info_to_json(const struct dev_info *i)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:I}", "name", i->name, "kind", dev_kind(i), "arch", i->arch, "sms",
                          (json_int_t)i->sms);
    if (o && *i->sharing)
        json_object_set_new(o, "sharing", json_string(i->sharing));
    return o;
}

json_t *ana_to_json(const struct ana_result *r, const struct dev_info *dev, const char *signature, bool maps)
{
    const struct dt_graph *g = r->prog->graph;
    json_t *launches = json_array(), *edges = json_array(), *o = json_object();
    int bad = 0;
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        json_t *l = launch_json(&r->prog->step[i], &g->launch[i], dev);
        if (l && maps) {
            bad |= json_object_set_new(l, "footprints", footprints(&r->launch[i], g));
            bad |= json_object_set_new(l, "decides", decides(r->prog, i, launches));
        }
        bad |= json_array_append_new(launches, l);
    }
    for (uint32_t i = 0; i < r->nedge; i++)
        bad |= json_array_append_new(edges, edge_json(&r->edge[i], g, maps));
    json_t *pictures = NULL;
    bad |= bad || ana_pictures(r, edges, &pictures) < 0;
    if (signature)
        bad |= json_object_set_new(o, "signature", json_string(signature));
    bad |= json_object_set_new(o, "device", dev_info_to_json(dev));
    bad |= json_object_set_new(o, "launches", launches);
    bad |= json_object_set_new(o, "edges", edges);
    bad |= !pictures || json_object_set_new(o, "pictures", pictures) < 0;
    struct dt_warnings w = {0};
    ana_warnings(r, &w, NULL);
    bad |= dt_warnings_put(&w, o) < 0;
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}
