/* Prefetch: a launch pulls into the L2 what the next one reads and nobody writes.
 *
 *   before                           after
 *   p<<<…>>>(x, h)                   p: thread i of all: prefetch.global.L2 of line i of w, i + T, …; then what it did
 *   c<<<…>>>(h, w, y)                c: as it is
 *
 * What: bytes of c's footprint that no launch before c writes and p does not read itself; without data-dependent addresses. At most RANGES ranges, the largest first,
 * and no more than the budget: half the L2, a quarter where it has two halves, as a line may be kept in both. Each range is a parameter more of p:
 * the buffer at the range's beginning. The last address lies inside the range, so nothing outside the buffer is named.
 * Where: at p's beginning, by all its threads; what p itself waits for comes later (programmatic.c).
 *
 * A prefetch changes no byte, so it is legal whatever it names; the conditions are those of changing a kernel at all. It gains only where the graph does not
 * fit the L2, and where p leaves DRAM idle: the model says (docs/TIMING.md), or the measurement. Where all launches together fit the L2 nothing is proposed.
 */
#include "rewrite/rewrite-priv.h"

#include <stdlib.h>
#include <string.h>

#define RANGES 4
#define LINE 128

struct range {
    uint32_t buffer;
    uint64_t lo, hi;
};
struct mine {
    struct rw_solo solo;
    struct range range[RANGES];
    unsigned n;
};

/* What the model counts against the L2, too: bytes of every launch. */
static uint64_t footprint(struct dt_arena *a, const struct rw_state *s)
{
    uint64_t n = 0;
    for (uint32_t l = 0; l < s->graph->nlaunch; l++)
        for (uint32_t k = 0; k < s->ana->launch[l].naccess; k++) {
            uint32_t b = s->ana->launch[l].access[k].buffer;
            n += ana_set_bytes(rw_launch_bytes(a, s->ana, l, b, false)) + ana_set_bytes(rw_launch_bytes(a, s->ana, l, b, true));
        }
    return n;
}

/* Bytes of the buffer that c reads, nobody before it writes and p does not read. */
static struct ana_set independent(struct dt_arena *a, const struct rw_state *s, uint32_t p, uint32_t c, uint32_t buffer)
{
    struct ana_set set = {0};
    for (uint32_t k = 0; k < s->ana->launch[c].naccess; k++)
        if (s->ana->launch[c].access[k].buffer == buffer && s->ana->launch[c].access[k].reads)
            set = ana_set_union(a, set, s->ana->launch[c].access[k].exact_read);
    for (uint32_t l = 0; l < c && set.n; l++)
        set = ana_set_minus(a, set, rw_launch_bytes(a, s->ana, l, buffer, true));
    return set.n ? ana_set_minus(a, set, rw_launch_bytes(a, s->ana, p, buffer, false)) : set;
}

static int propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret, struct dt_err *e)
{
    const struct dt_graph *g = s->graph;
    struct dt_arena a = {0};
    int r = 0;
    bool large = s->prog->l2_bytes && footprint(&a, s) > s->prog->l2_bytes;
    for (uint32_t p = 0; large && p + 1 < g->nlaunch && r == 0; p++) {
        uint32_t pair[2] = {p, p + 1};
        uint64_t bytes = 0;
        if (g->launch[p].kind != DT_KERNEL || g->launch[p + 1].kind != DT_KERNEL || g->launch[p].stream != g->launch[p + 1].stream)
            continue;
        for (uint32_t b = 0; b < g->nbuffer; b++)
            bytes += ana_set_bytes(independent(&a, s, p, p + 1, b));
        if (bytes >= LINE)
            r = rw_propose(ret, pair, 2, 0, bytes);
    }
    if (dt_arena_failed(&a))
        r = DT_E_NOMEM;
    dt_arena_done(&a);
    return r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

static void close_edit(struct rw_edit *x)
{
    struct mine *m = x->mine;
    if (m)
        rw_solo_done(&m->solo);
    free(m);
    x->mine = NULL;
}

static uint64_t budget(const struct dev_info *d)
{
    bool halves = d->cc_major >= 9 || (d->cc_major == 8 && !d->cc_minor); /* chips whose L2 has two */
    return d->l2_bytes / (halves ? 4 : 2);
}

/* The largest ranges, in the order of buffers; the last one is cut where the budget ends. */
static void choose(struct mine *m, struct dt_arena *a, const struct rw_state *s, uint32_t p, uint32_t c, uint64_t left)
{
    for (uint32_t b = 0; b < s->graph->nbuffer; b++) {
        struct ana_set set = s->graph->buffer[b].module < 0 ? independent(a, s, p, c, b) : (struct ana_set){0};
        for (uint32_t k = 0; k < set.n; k++) {
            struct range v = {b, set.iv[k].lo, set.iv[k].hi};
            while (k + 1 < set.n && set.iv[k + 1].lo - v.hi < LINE) /* rows with little between them */
                v.hi = set.iv[++k].hi;
            unsigned least = 0;
            for (unsigned i = 1; i < m->n; i++)
                if (m->range[i].hi - m->range[i].lo < m->range[least].hi - m->range[least].lo)
                    least = i;
            if (m->n < RANGES)
                m->range[m->n++] = v;
            else if (v.hi - v.lo > m->range[least].hi - m->range[least].lo)
                m->range[least] = v;
        }
    }
    unsigned n = 0;
    for (unsigned i = 0; i < m->n && left >= LINE; i++) {
        struct range v = m->range[i];
        if (v.hi - v.lo > left)
            v.hi = v.lo + left;
        left -= v.hi - v.lo;
        m->range[n++] = v;
    }
    m->n = n;
}

static int open_edit(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine = dt_calloc(1, sizeof *m);
    *ret_verdict = RW_REFUSED;
    if (!m)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_solo_init(&m->solo, x->dev, x->now->prog, x->launch[0], e);
    if (r < 0)
        return r;
    if (!rw_solo_legal(&m->solo, RW_SOLO_FETCHES, why))
        return 1;
    choose(m, &x->arena, x->now, x->launch[0], x->launch[1], budget(x->dev));
    if (!m->n)
        dt_str_add(why, "budget: the device's L2 has no room");
    return m->n ? rw_solo_copy(&m->solo, why, e) : 1;
}

/* dt_g = number of the thread among all of the launch. */
static void thread_number(const struct dt_launch *l, struct dt_str *s)
{
    static const char xyz[] = "xyz";
    dt_str_add(s, "mov.u32 %dt_g, 0;\n");
    for (int d = 2; d >= 0; d--)
        if (l->grid[d] > 1)
            dt_str_addf(s, "mov.u32 %%dt_i, %%ctaid.%c;\nmad.lo.u32 %%dt_g, %%dt_g, %u, %%dt_i;\n", xyz[d], l->grid[d]);
    for (int d = 2; d >= 0; d--)
        if (l->block[d] > 1)
            dt_str_addf(s, "mov.u32 %%dt_i, %%tid.%c;\nmad.lo.u32 %%dt_g, %%dt_g, %u, %%dt_i;\n", xyz[d], l->block[d]);
}

static int build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine;
    struct rw_solo *s = &m->solo;
    const struct dt_graph *g = x->now->graph;
    const struct dt_launch *l = &g->launch[x->launch[0]];
    const struct dev_step *step = &x->now->prog->step[x->launch[0]];
    uint64_t threads = (uint64_t)step->blocks * step->threads;
    struct dt_str text = {0};
    int r = rw_solo_copy(s, why, e);
    if (r != 0)
        return r;
    json_t *launch = dt_launch_to_json(g, l), *args = json_object_get(launch, "args");
    bool ok = launch && args;
    dt_str_add(&text, ".reg .pred %dt_p;\n.reg .b32 %dt_g, %dt_i;\n.reg .b64 %dt_q, %dt_o;\n");
    thread_number(l, &text);
    for (unsigned k = 0; k < m->n && ok; k++) {
        const struct range *v = &m->range[k];
        uint64_t lines = (v->hi - v->lo + LINE - 1) / LINE;
        char name[32];
        snprintf(name, sizeof name, "dt_fetch_%u", s->f->nparam);
        ok = ptx_param_new(s->f, name, PTX_U64, 8, 8) != NULL &&
             json_array_append_new(args, json_pack("{s:s, s:I}", "buffer", g->buffer[v->buffer].name, "offset", (json_int_t)v->lo)) == 0;
        dt_str_addf(&text, "ld.param.u64 %%dt_q, [%s];\ncvta.to.global.u64 %%dt_q, %%dt_q;\nmov.u32 %%dt_i, %%dt_g;\n", name);
        if (lines > threads)
            dt_str_addf(&text, "$dt_next%u:\n", k);
        dt_str_addf(&text, "setp.ge.u32 %%dt_p, %%dt_i, %llu;\n@%%dt_p bra $dt_done%u;\nmul.wide.u32 %%dt_o, %%dt_i, %d;\nadd.s64 %%dt_o, %%dt_q, %%dt_o;\n"
                           "prefetch.global.L2 [%%dt_o];\n", (unsigned long long)lines, k, LINE);
        if (lines > threads)
            dt_str_addf(&text, "add.u32 %%dt_i, %%dt_i, %llu;\nbra $dt_next%u;\n", (unsigned long long)threads, k);
        dt_str_addf(&text, "$dt_done%u:\n", k);
    }
    r = ok && !text.failed ? rw_solo_insert(s, 0, text.s, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_str_done(&text);
    json_object_del(launch, "module");
    struct rw_part *p = r < 0 ? NULL : rw_edit_add(x, launch);
    if (r < 0)
        json_decref(launch);
    if (!p)
        return r < 0 ? r : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if ((r = rw_solo_text(s, &p->ptx, e)) < 0)
        return r;
    /* the same launch, at another cost: no `same` */
    return rw_edit_add(x, dt_launch_to_json(g, &g->launch[x->launch[1]])) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

const struct rw_rewrite rw_prefetch = {
    .name = "prefetch",
    .needs = "a launch that reads bytes which no launch before it writes, in a graph larger than the L2",
    .keeps = "a prefetch changes no byte, and names addresses inside the buffer only",
    .on = true,
    .propose = propose,
    .open = open_edit,
    .build = build,
    .close = close_edit,
};
