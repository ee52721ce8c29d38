/* Which intermediates of a pair can live in shared memory, and where in it.
 *
 * The footprint of buffer B in a component is every byte that the component's producer blocks write, surely or perhaps,
 * as recorded. A footprint is fitted as one run of bytes [base, base + width), or as rows of `width` bytes at a
 * constant `pitch`; the smaller of the two is taken. With rows, byte o of B is in the shared region at
 * ((o - base) / pitch) * width + (o - base) % pitch.
 *
 * Conditions, each checked on every recorded footprint:
 *
 *   reads       the component's consumers read only bytes that its own producers surely write (those bytes, not the
 *               fitted box)
 *   sites       every access that may reach B reaches B alone and is a plain ld or st, and no address of B is stored
 *   widths      base, pitch and width are multiples of the widest access, so that no access straddles a row
 *   addresses   no address depends on data (a widened access counts as the whole buffer)
 *   producers   they do not read B, and neither side has atomics on it
 *   consumers   if they write B, they write inside the footprint, and store to both places
 *
 * At level `cluster` there is a footprint for each rank: the bytes that the producer blocks on that rank write. If the
 * consumers of every rank read only their own rank's footprint, all is as without clusters (`own`). Otherwise they must
 * read inside the footprints of all ranks together, and cluster.c says whose shared memory has a byte.
 *
 * The producer's store to global memory stays (keep_global) unless B is an intermediate that no other launch reads. If
 * no access to B's buffer is left in the fused kernel, and its pointer only goes through additions, the argument is
 * dropped as well (drop_arg). An intermediate that does not fit stays in global memory; `no_redirect` says why.
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/flow.h"
#include "rewrite/facts/hooks.h"

#include <string.h>

#include "base/subject.h"

static const struct ana_touch *touch_of(const struct ana_launch *l, uint32_t block, uint32_t buffer)
{
    const struct ana_block *b = &l->block[block];
    for (uint32_t k = 0; k < b->ntouch; k++)
        if (b->touch[k].buffer == buffer)
            return &b->touch[k];
    return NULL;
}

static const struct ana_access *access_of(const struct ana_launch *l, uint32_t buffer)
{
    for (uint32_t k = 0; k < l->naccess; k++)
        if (l->access[k].buffer == buffer)
            return &l->access[k];
    return NULL;
}

/* The footprints of one component, or of one rank of a cluster. */
struct foot {
    struct ana_set box, must, read, again; /* again: what the consumer writes */
};

static struct foot fit_footprint(struct rw_cand *c, uint32_t k, uint32_t buffer, struct dt_arena *a)
{
    struct foot f = {0};
    const struct ana_launch *pl = &c->facts.ana->launch[c->facts.launch[0]],
                            *cl = &c->facts.ana->launch[c->facts.launch[1]];
    const struct rw_list *p = &c->lists.list[0], *q = &c->lists.list[1];
    for (uint32_t i = p->row[k]; i < p->row[k + 1]; i++) {
        const struct ana_touch *t = touch_of(pl, p->col[i], buffer);
        if (!t)
            continue;
        f.must = ana_set_union(a, f.must, t->must_write);
        f.box = ana_set_union(a, f.box, ana_set_union(a, t->must_write, t->may_write));
    }
    for (uint32_t i = q->row[k]; i < q->row[k + 1]; i++) {
        const struct ana_touch *t = touch_of(cl, q->col[i], buffer);
        if (!t)
            continue;
        f.read = ana_set_union(a, f.read, t->read);
        f.again = ana_set_union(a, f.again, ana_set_union(a, t->must_write, t->may_write));
    }
    return f;
}

/* Do the consumers of one component (f[0 .. n): its ranks) access only what its producers wrote? */
static bool own_bytes(const struct foot *f, uint32_t n, struct dt_arena *a, struct dt_str *why)
{
    struct foot all = {0};
    for (uint32_t i = 0; i < n; i++) {
        all.must = n == 1 ? f->must : ana_set_union(a, all.must, f[i].must);
        all.box = n == 1 ? f->box : ana_set_union(a, all.box, f[i].box);
    }
    for (uint32_t i = 0; i < n; i++)
        if (f[i].again.n && !ana_set_contains(all.box, f[i].again))
            return dt_str_add(why, "the consumer writes it outside what the producer wrote"), false;
    for (uint32_t i = 0; i < n; i++)
        if (!ana_set_contains(all.must, f[i].read))
            return dt_str_add(why,
                              "a consumer block reads bytes that its own producer blocks do not write for certain"),
                   false;
    return true;
}

/* Fit one shape to all components: contiguous, or rows at a pitch. base[]: where each footprint begins. */
static bool fit_boxes(const struct ana_set *box, uint64_t *base, uint32_t n, uint32_t align, struct rw_redirect *r,
                      struct dt_str *why)
{
    uint64_t hull = 0, pitch = 0, width = 0, rows = 0;
    bool rowsfit = true;
    for (uint32_t k = 0; k < n; k++) {
        const struct ana_set *b = &box[k];
        if (!b->n)
            continue;
        base[k] = b->iv[0].lo / align * align;
        uint64_t span = b->iv[b->n - 1].hi - base[k];
        if (span > hull)
            hull = span;
        if (b->n > 1 && !pitch)
            pitch = b->iv[1].lo - b->iv[0].lo;
        for (uint32_t i = 0; i < b->n; i++)
            if (b->iv[i].hi - b->iv[i].lo > width)
                width = b->iv[i].hi - b->iv[i].lo;
    }
    hull = (hull + align - 1) / align * align;
    width = (width + align - 1) / align * align;
    if (hull > (1u << 30)) {
        dt_str_add(why, "its footprint in one component spans over 1 GiB");
        return false;
    }
    rowsfit = pitch && pitch % align == 0 && width <= pitch;
    for (uint32_t k = 0; k < n && rowsfit; k++) {
        const struct ana_set *b = &box[k];
        for (uint32_t i = 0; i < b->n && rowsfit; i++) {
            uint64_t o = b->iv[i].lo - base[k];
            rowsfit = o % pitch + (b->iv[i].hi - b->iv[i].lo) <= width;
            if (o / pitch + 1 > rows)
                rows = o / pitch + 1;
        }
    }
    if (rowsfit && rows * width < hull) {
        r->pitch = (uint32_t)pitch;
        r->width = (uint32_t)width;
        r->rows = (uint32_t)rows;
        r->bytes = (uint32_t)(rows * width);
    } else {
        r->pitch = 0;
        r->width = (uint32_t)hull;
        r->rows = 1;
        r->bytes = (uint32_t)hull;
    }
    return true;
}

/* Bases of n components of `ranks` ranks (1: no clusters); rank r's lies r * step behind its component's. */
static void fit_base(struct rw_redirect *r, const struct ana_set *box, const uint64_t *base, uint32_t n, uint32_t ranks)
{
    uint32_t k0 = UINT32_MAX, k1 = UINT32_MAX;
    for (uint32_t i = 0; i < n * ranks; i++)
        r->base[i] = (uint32_t)base[i];
    for (uint32_t k = 0; k < n; k++)
        if (box[k * ranks].n) {
            if (k0 == UINT32_MAX)
                k0 = k;
            else if (k1 == UINT32_MAX)
                k1 = k;
        }
    r->base_affine = true;
    if (k1 != UINT32_MAX) {
        r->base_affine = k1 == k0 + 1;
        r->base_b = r->base[k1 * ranks] - r->base[k0 * ranks];
    }
    if (k0 != UINT32_MAX)
        r->base_a = r->base[k0 * ranks] - r->base_b * k0;
    for (uint32_t i = 0; i < n * ranks && r->base_affine; i++)
        if (box[i].n && r->base[i] != r->base_a + r->base_b * (i / ranks) + r->step * (i % ranks))
            r->base_affine = false;
}

/* 1: the buffer is redirected; 0: it is not, `why` says so; negative: error. */
static int try_buffer(struct rw_cand *c, uint32_t buffer, struct rw_redirect *ret, struct dt_str *why, struct dt_err *e)
{
    const struct ana_launch *pl = &c->facts.ana->launch[c->facts.launch[0]],
                            *cl = &c->facts.ana->launch[c->facts.launch[1]];
    const struct ana_access *pa = access_of(pl, buffer), *ca = access_of(cl, buffer);
    const struct dt_buffer *q = &c->facts.prog->graph->buffer[buffer];
    struct rw_redirect r = {.buffer = buffer};
    uint32_t align = 4;
    if (!pa || !ca || !pa->writes || !ca->reads)
        return 0; /* no data flows through it */
    if (pa->reads) {
        dt_str_add(why, "the producer reads it too");
        return 0;
    }
    if (pa->atomics || ca->atomics) {
        dt_str_add(why, "it is updated by atomics");
        return 0;
    }
    if (pa->widened || ca->widened) {
        dt_str_add(why, "an address in it depends on data");
        return 0;
    }
    for (int s = 0; s < 2; s++) {
        r.args[s] = rw_args_of(c->facts.body[s].step->launch, buffer);
        if (!rw_sites_alone(&c->facts.body[s], r.args[s], s == 0, &align, why))
            return 0;
    }
    uint32_t n = c->lists.n, ranks = c->cluster ? c->cluster : 1;
    struct dt_arena tmp = {0};
    struct foot *f = dt_new_array(&tmp, struct foot, n + 1);
    struct ana_set *box = dt_new_array(&tmp, struct ana_set, n + 1);
    uint64_t *base = dt_new_array(&tmp, uint64_t, n + 1);
    r.base = dt_new_array(&c->arena, uint32_t, n + 1);
    int out = 0;
    if (!f || !box || !base || !r.base) {
        out = dt_err_set(e, DT_E_NOMEM, "out of memory");
        goto done;
    }
    bool own = true;
    r.own = c->cluster != 0;
    for (uint32_t k = 0; k < n && own; k++) {
        struct dt_str no = {0};
        f[k] = fit_footprint(c, k, buffer, &tmp);
        box[k] = f[k].box;
        own = (k + 1) % ranks || own_bytes(&f[k + 1 - ranks], ranks, &tmp, why);
        r.own = r.own && own_bytes(&f[k], 1, &tmp, &no);
        dt_str_done(&no);
    }
    if (dt_arena_failed(&tmp)) {
        out = dt_err_set(e, DT_E_NOMEM, "out of memory");
        goto done;
    }
    if (!own || !fit_boxes(box, base, n, align, &r, why) ||
        (c->cluster && !r.own && !rw_cluster_owners(c, &r, box, base, align, why)))
        goto done;
    if (r.own && ranks > 1 && box[0].n && box[1].n && base[1] > base[0] && base[1] - base[0] < INT32_MAX)
        r.step = (uint32_t)(base[1] - base[0]);
    fit_base(&r, box, base, n / ranks, ranks);
    r.keep_global = !rw_passing(q);
    for (uint32_t k = 0; k < c->facts.ana->nedge && !r.keep_global; k++) {
        const struct ana_edge *x = &c->facts.ana->edge[k];
        bool served = x->consumer == c->facts.launch[1]; /* it reads from shared memory */
        for (uint32_t j = 0; j < c->facts.nset; j++)
            served |= x->consumer == c->facts.set[j];
        if (x->producer != c->facts.launch[0] || served || !ana_rows_pairs(&x->raw))
            continue;
        for (uint32_t j = 0; j < x->nbuffer; j++)
            r.keep_global |= x->buffer[j] == buffer;
    }
    r.drop_arg = !r.keep_global && !ca->writes && rw_args_whole(&c->facts, r.args) &&
                 rw_only_addresses(&c->facts.body[0], r.args[0]) && rw_only_addresses(&c->facts.body[1], r.args[1]);
    *ret = r;
    out = 1;
done:
    dt_arena_done(&tmp);
    return out;
}

int rw_fit(struct rw_cand *c, struct dt_err *e)
{
    c->redirect = dt_new_array(&c->arena, struct rw_redirect, c->facts.edge->nbuffer + 1);
    c->nredirect = 0;
    dt_str_done(&c->no_redirect);
    if (!c->redirect)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < c->facts.edge->nbuffer; k++) {
        struct dt_str why = {0};
        int r = try_buffer(c, c->facts.edge->buffer[k], &c->redirect[c->nredirect], &why, e);
        if (r == 1)
            c->nredirect++;
        else if (r == 0 && why.len)
            dt_str_addf(&c->no_redirect, "%s" DT_BUFFER " stays in global memory: %s", c->no_redirect.len ? "; " : "",
                        c->facts.prog->graph->buffer[c->facts.edge->buffer[k]].name, why.s);
        dt_str_done(&why);
        if (r < 0)
            return r;
    }
    return 0;
}

bool rw_layout(struct rw_cand *c, struct dt_str *why)
{
    uint64_t at = 0;
    rw_abreast(c);
    c->shared_align = 16;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        if (c->facts.body[s].shared_bytes > at)
            at = c->facts.body[s].shared_bytes;
        if (c->facts.body[s].shared_align > c->shared_align)
            c->shared_align = c->facts.body[s].shared_align;
    }
    if (c->pack) {
        c->pack_step = (uint32_t)((at + c->shared_align - 1) / c->shared_align * c->shared_align);
        at = (uint64_t)c->pack_step * c->pack;
        c->pack_step = RW_SPOILT("step") ? 0 : c->pack_step;
    }
    for (uint32_t k = 0; rw_in_shared(c) && k < c->nredirect; k++) {
        at = (at + 15) / 16 * 16;
        c->redirect[k].at = (uint32_t)at;
        at += c->redirect[k].bytes;
    }
    if (c->flow) {
        c->flow->slot_at = (uint32_t)(at + 15) / 16 * 16;
        at = c->flow->slot_at + 16;
    }
    if (at > c->facts.dev->shared_block_optin) {
        dt_str_addf(why, "it needs %llu bytes of shared memory, a block may have %u", (unsigned long long)at,
                    c->facts.dev->shared_block_optin);
        return false;
    }
    c->shared_bytes = (uint32_t)at;
    c->shared_dynamic = at > c->facts.dev->shared_block;
    return true;
}
