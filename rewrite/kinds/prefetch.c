/* Prefetch: a launch loads into the L2 what the next launch reads and no launch before that one writes.
 *
 *   before                after
 *   p<<<100>>>(x, h)      p<<<132>>>: blocks 100 to 131 do cp.async.bulk.prefetch.L2 of the pieces of w
 *   c<<<…>>>(h, w, y)     c: as it is
 *
 * What: bytes of c's footprint, without data-dependent addresses, that no launch before c writes and that p does not
 * read itself. At most RANGES ranges, the largest first, and no more than the budget: half the L2, or a quarter if it
 * has two halves, as a line may be kept in both. Each range is one more parameter of p: the buffer at the range's
 * beginning.
 *
 * How: in pieces of 4 KB by cp.async.bulk.prefetch.L2, if the device has it (sm_90) and the range is worth it; else by
 * lines, prefetch.global.L2. Pieces lie at multiples of 16 from the first one inside the range on, wherever the buffer
 * is bound. A whole piece, or the address of a line, lies inside the range, so no address outside the buffer is used.
 *
 * Who: if p's last wave leaves slots idle, spare blocks behind p's own, in whole rows or layers of the grid; p's own
 * blocks see the grid that they had, and pay only for a branch. Else all of p's threads, at its beginning; what p
 * itself waits for comes later (programmatic.c). All threads do it for a programmatic p too: every block of one waits,
 * and a spare block must not.
 *
 * A prefetch changes no byte, so it is legal whatever it names; the conditions are those of changing a kernel at all.
 * It gains only if the graph does not fit the L2 and p leaves DRAM idle: the model says (docs/TIMING.md), or the
 * measurement. If all launches together fit the L2, nothing is proposed.
 */
#include "ptx/reach.h"
#include "rewrite/emit/solo.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define RANGES 4
#define LINE 128
#define SECTOR 32
#define PIECE 4096
#define WORTH 1024 /* bytes of a range from which on pieces take fewer instructions than its lines */
#define SHARE 32   /* pieces, or lines, of a spare block */

struct range {
    uint32_t buffer;
    uint64_t lo, hi;
};
struct mine {
    struct rw_solo solo;
    struct range range[RANGES];
    unsigned n;
    uint64_t bytes; /* of the ranges, those that c reads, in sectors */
    /* spare blocks: the grid grows by `more` in this direction, each a layer of `layer` blocks; 0: leading
     * instructions */
    unsigned dim;
    uint32_t more, layer;
};

static bool is_prefetch(const struct ptx_inst *i, void *user)
{
    (void)user;
    return i->op == PTX_OP_PREFETCH || i->op == PTX_OP_CP_ASYNC_BULK_PREFETCH ||
           i->op == PTX_OP_CP_ASYNC_BULK_PREFETCH_TENSOR;
}

bool rw_prefetches(const struct ptx_function *f) { return f && ptx_reach_any(f, is_prefetch, NULL) != 0; }

/* The bytes that all launches touch, which the model too compares with the size of the L2. */
static uint64_t prefetch_footprint(struct dt_arena *a, const struct rw_state *s)
{
    uint64_t n = 0;
    for (uint32_t l = 0; l < s->graph->nlaunch; l++)
        for (uint32_t k = 0; k < s->ana->launch[l].naccess; k++) {
            uint32_t b = s->ana->launch[l].access[k].buffer;
            n += ana_set_bytes(rw_launch_bytes(a, s->ana, l, b, false)) +
                 ana_set_bytes(rw_launch_bytes(a, s->ana, l, b, true));
        }
    return n;
}

/* The bytes of the buffer that c reads, that no launch before c writes and that p does not read. */
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

static int prefetch_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                            struct dt_err *e)
{
    const struct dt_graph *g = s->graph;
    struct dt_arena a = {0};
    int r = 0;
    bool large = RW_FORCED || (s->prog->l2_bytes && prefetch_footprint(&a, s) > s->prog->l2_bytes);
    for (uint32_t p = 0; large && p + 1 < g->nlaunch && r == 0; p++) {
        uint32_t pair[2] = {p, p + 1};
        uint64_t bytes = 0;
        if (g->launch[p].kind != DT_KERNEL || g->launch[p + 1].kind != DT_KERNEL ||
            g->launch[p].stream != g->launch[p + 1].stream)
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

static void prefetch_close_edit(struct rw_edit *x)
{
    struct mine *m = x->mine;
    if (m)
        rw_solo_done(&m->solo);
    free(m);
    x->mine = NULL;
}

static uint64_t budget(const struct dev_info *d) { return d->l2_bytes / 2 / (d->l2_halves ? d->l2_halves : 1); }

/* Choose the largest ranges, in the order of buffers. The last one is cut where the budget ends. */
static void choose(struct mine *m, struct dt_arena *a, const struct rw_state *s, uint32_t p, uint32_t c, uint64_t left)
{
    for (uint32_t b = 0; b < s->graph->nbuffer; b++) {
        struct ana_set set = s->graph->buffer[b].module < 0 ? independent(a, s, p, c, b) : (struct ana_set){0};
        for (uint32_t k = 0; k < set.n; k++) {
            struct range v = {b, set.iv[k].lo, set.iv[k].hi};
            while (k + 1 < set.n && set.iv[k + 1].lo - v.hi < LINE) /* join rows with little between them */
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

static uint64_t read_inside(const struct rw_state *s, uint32_t c, const struct range *v)
{
    uint64_t all = 0;
    for (uint32_t k = 0; k < s->ana->launch[c].naccess; k++) {
        const struct ana_access *a = &s->ana->launch[c].access[k];
        for (uint32_t i = 0; a->buffer == v->buffer && a->reads && i < a->exact_read.n; i++) {
            uint64_t lo = a->exact_read.iv[i].lo, hi = a->exact_read.iv[i].hi;
            lo = lo > v->lo ? lo : v->lo;
            hi = hi < v->hi ? hi : v->hi;
            all += lo < hi ? (hi + SECTOR - 1) / SECTOR * SECTOR - lo / SECTOR * SECTOR : 0;
        }
    }
    return all;
}

/* ---- who: spare blocks ------------------------------------------------------------------------------------------- */

static bool by_pieces(const struct dev_info *d, const struct range *v)
{
    return d->cc_major >= 9 && v->hi - v->lo >= WORTH;
}
/* bytes of all pieces, wherever the range begins */
static uint64_t inside(const struct range *v) { return (v->hi - v->lo - 15) & ~UINT64_C(15); }

static uint64_t prefetch_units(const struct dev_info *d, const struct range *v)
{
    return by_pieces(d, v) ? (inside(v) + PIECE - 1) / PIECE : (v->hi - v->lo + LINE - 1) / LINE;
}

/* of lines and pieces, where the ranges begin with one */
static uint64_t prefetch_bytes(const struct dev_info *d, const struct mine *m)
{
    uint64_t all = 0;
    for (unsigned k = 0; k < m->n; k++) {
        const struct range *v = &m->range[k];
        all += by_pieces(d, v) ? (inside(v) + SECTOR - 1) / SECTOR * SECTOR : prefetch_units(d, v) * LINE;
    }
    return all;
}

/* Does the last wave leave slots idle, for whole layers of the grid? */
static void spare(struct mine *m, const struct rw_edit *x)
{
    const struct dt_launch *l = &x->now->graph->launch[x->launch[0]];
    const struct dev_step *step = &x->now->prog->step[x->launch[0]];
    struct dt_str no = {0};
    uint64_t want = 0, idle = step->wave ? step->wave - 1 - (step->blocks - 1) % step->wave : 0;
    m->more = m->dim = 0;
    for (unsigned d = 1; d < 3; d++)
        if (l->grid[d] > 1)
            m->dim = d;
    m->layer = (uint32_t)(step->blocks / l->grid[m->dim]);
    for (unsigned k = 0; k < m->n; k++)
        want += prefetch_units(x->dev, &m->range[k]);
    want = (want + SHARE - 1) / SHARE;
    if (want > idle)
        want = idle;
    uint64_t most = (m->dim ? 65535u : (uint32_t)INT32_MAX) - l->grid[m->dim],
             more = want < m->layer && idle >= m->layer ? 1 : want / m->layer;
    if (!l->programmatic && more && more <= most && rw_solo_legal(&m->solo, RW_SOLO_SPARES, &no))
        m->more = (uint32_t)more;
    dt_str_done(&no);
}

/* Let the kernel's own blocks see the grid that it had: changes the copy's original text, which begins at `from`. */
static int keep_grid(struct rw_solo *s, const struct mine *m, uint32_t from, struct dt_err *e)
{
    uint32_t reg = rw_solo_reg(s, "%dt_n");
    for (uint32_t i = from; i < s->f->ninst; i++)
        for (unsigned k = 0; k < s->f->inst[i].nopnd; k++) {
            struct ptx_opnd *o = &s->f->inst[i].opnd[k];
            if (o->kind != PTX_O_SREG || o->sreg != PTX_SR_NCTAID || o->comp != (int)m->dim)
                continue;
            if (reg == PTX_NO_REG)
                return dt_err_set(e, DT_E_UNSUPPORTED, "the grid's size cannot be replaced");
            *o = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = reg};
        }
    return 0;
}

static int prefetch_open_edit(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
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
    for (unsigned k = 0; k < m->n; k++)
        m->bytes += read_inside(x->now, x->launch[1], &m->range[k]);
    if (!m->n)
        dt_str_add(why, DT_ROW("budget") ": the device's L2 has no room");
    else
        spare(m, x);
    return m->n ? rw_solo_copy(&m->solo, why, e) : 1;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static void linear(struct dt_str *s, const char *reg, const char *sreg, const uint32_t size[3])
{
    static const char xyz[] = "xyz";
    dt_str_addf(s, "mov.u32 %s, 0;\n", reg);
    for (int d = 2; d >= 0; d--)
        if (size[d] > 1)
            dt_str_addf(s, "mov.u32 %%dt_i, %s.%c;\nmad.lo.u32 %s, %s, %u, %%dt_i;\n", sreg, xyz[d], reg, reg, size[d]);
}

/* Emit dt_g = the number of the thread among those that fetch; neighbours are in different blocks. Returns how many
 * threads fetch. */
static uint64_t thread_number(const struct mine *m, const struct dt_launch *l, struct dt_str *s)
{
    static const char xyz[] = "xyz";
    uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], first = m->more ? blocks : 0;
    uint32_t grid[3] = {l->grid[0], l->grid[1], l->grid[2]};
    if (m->more) {
        grid[m->dim] += m->more;
        blocks = (uint64_t)m->more * m->layer;
        dt_str_addf(s,
                    "mov.u32 %%dt_n, %u;\nmov.u32 %%dt_i, %%ctaid.%c;\nsetp.lt.u32 %%dt_p, %%dt_i, %%dt_n;\n@%%dt_p "
                    "bra $dt_own;\n",
                    l->grid[m->dim], xyz[m->dim]);
    }
    linear(s, "%dt_b", "%ctaid", grid);
    if (first)
        dt_str_addf(s, "sub.u32 %%dt_b, %%dt_b, %llu;\n", (unsigned long long)first);
    linear(s, "%dt_g", "%tid", l->block);
    dt_str_addf(s, "mad.lo.u32 %%dt_g, %%dt_g, %llu, %%dt_b;\n", (unsigned long long)blocks);
    return blocks * l->block[0] * l->block[1] * l->block[2];
}

/* Emit the fetch of units i, i + threads, … of the range at the parameter; i is the thread's number. */
static void prefetch_fetch(const struct dev_info *d, const struct range *v, unsigned k, const char *param,
                           uint64_t threads, struct dt_str *s)
{
    bool pieces = by_pieces(d, v);
    uint64_t n = prefetch_units(d, v);
    dt_str_addf(s, "ld.param.u64 %%dt_q, [%s];\ncvta.to.global.u64 %%dt_q, %%dt_q;\n", param);
    if (pieces)
        dt_str_add(s, "add.s64 %dt_q, %dt_q, 15;\nand.b64 %dt_q, %dt_q, -16;\n");
    dt_str_add(s, "mov.u32 %dt_i, %dt_g;\n");
    if (n > threads)
        dt_str_addf(s, "$dt_next%u:\n", k);
    dt_str_addf(s,
                "setp.ge.u32 %%dt_p, %%dt_i, %llu;\n@%%dt_p bra $dt_done%u;\nmul.wide.u32 %%dt_o, %%dt_i, %d;\nadd.s64 "
                "%%dt_o, %%dt_q, %%dt_o;\n",
                (unsigned long long)n, k, pieces ? PIECE : LINE);
    if (pieces)
        dt_str_addf(s,
                    "mul.lo.u32 %%dt_b, %%dt_i, %d;\nsub.u32 %%dt_b, %llu, %%dt_b;\nmin.u32 %%dt_b, %%dt_b, "
                    "%d;\ncp.async.bulk.prefetch.L2.global [%%dt_o], %%dt_b;\n",
                    PIECE, (unsigned long long)inside(v), PIECE);
    else
        dt_str_add(s, "prefetch.global.L2 [%dt_o];\n");
    if (n > threads)
        dt_str_addf(s, "add.u32 %%dt_i, %%dt_i, %llu;\nbra $dt_next%u;\n", (unsigned long long)threads, k);
    dt_str_addf(s, "$dt_done%u:\n", k);
}

/* Make p's new document, with more parameters and blocks, and the text that goes in front. */
static int prefetch_describe(struct mine *m, const struct rw_edit *x, json_t *launch, struct dt_str *text)
{
    const struct dt_graph *g = x->now->graph;
    const struct dt_launch *l = &g->launch[x->launch[0]];
    json_t *args = json_object_get(launch, "args"), *grid = json_object_get(launch, "grid");
    bool ok = args && grid;
    dt_str_add(text, ".reg .pred %dt_p;\n.reg .b32 %dt_g, %dt_i, %dt_b, %dt_n;\n.reg .b64 %dt_q, %dt_o;\n");
    uint64_t threads = thread_number(m, l, text);
    for (unsigned k = 0; k < m->n && ok; k++) {
        const struct range *v = &m->range[k];
        char name[32];
        snprintf(name, sizeof name, "dt_fetch_%u", m->solo.f->nparam);
        ok = ptx_param_new(m->solo.f, name, PTX_U64, 8, 8) != NULL &&
             json_array_append_new(
                 args, json_pack("{s:s, s:I}", "buffer", g->buffer[v->buffer].name, "offset", (json_int_t)v->lo)) == 0;
        prefetch_fetch(x->dev, v, k, name, threads, text);
        if (by_pieces(x->dev, v))
            rw_solo_needs(&m->solo, 800, 90);
    }
    if (m->more)
        dt_str_add(text, "ret;\n$dt_own:\n");
    json_object_del(launch, "module");
    if (ok && m->more)
        ok = json_array_set_new(grid, m->dim, json_integer((json_int_t)l->grid[m->dim] + m->more)) == 0;
    return ok && !text->failed ? 0 : DT_E_NOMEM;
}

static int prefetch_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine;
    struct rw_solo *s = &m->solo;
    const struct dt_graph *g = x->now->graph;
    struct dt_str text = {0};
    int r = rw_solo_copy(s, why, e);
    if (r != 0)
        return r;
    json_t *launch = dt_launch_to_json(g, &g->launch[x->launch[0]]);
    if (!launch || prefetch_describe(m, x, launch, &text) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    else if ((r = rw_solo_insert(s, 0, text.s, e)) >= 0)
        r = m->more ? keep_grid(s, m, (uint32_t)r, e) : 0;
    dt_str_done(&text);
    struct rw_part *p = r < 0 ? NULL : rw_edit_add(x, launch);
    if (r < 0)
        json_decref(launch);
    if (!p)
        return r < 0 ? r : dt_err_set(e, DT_E_NOMEM, "out of memory");
    p->of = 1;
    p->heavy = m->more ? x->now->prog->step[x->launch[0]].blocks : 0;
    p->prefetches = prefetch_bytes(x->dev, m);
    if ((r = rw_solo_text(s, &p->ptx, e)) < 0)
        return r;
    p = rw_edit_add(x, dt_launch_to_json(g, &g->launch[x->launch[1]]));
    if (!p)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    p->of = 2;
    p->same = x->launch[1];
    p->fetched = m->bytes;
    return 0;
}

const struct rw_rewrite rw_prefetch = {
    .name = "prefetch",
    .needs = "a launch that reads bytes which no launch before it writes, in a graph larger than the L2",
    .keeps = "a prefetch changes no byte, and names addresses inside the buffer only",
    .on = true,
    .same_code = true,
    .propose = prefetch_propose,
    .open = prefetch_open_edit,
    .build = prefetch_build,
    .close = prefetch_close_edit,
};
