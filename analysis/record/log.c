/* From the log of spans to bytes of buffers (instrument/span.c writes the log).
 *
 * Entries come in any order, and the same copy once for each time that it was done. They are sorted by block; each
 * becomes intervals, which go to the footprint as the recorder's bitmaps do. Where the log was too short, a tensor map
 * is not where it should be, or a layout has no rows in ptx/tensormap.h, *over is set, and launch.c widens every site
 * of this kind.
 */
#include "analysis/record/record-priv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define BATCH (1u << 20) /* intervals held before they go to the footprint */

struct piece {
    uint32_t buffer;
    uint8_t kind, ev;
    struct ana_interval iv;
};

struct reader {
    const struct ana_log_in *in;
    struct dt_vec(struct piece) piece;
    uint32_t block;
};

static int by_block(const void *a, const void *b)
{
    const struct ana_logged *x = a, *y = b;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    return memcmp(&x->address, &y->address, sizeof *x - offsetof(struct ana_logged, address) - sizeof x->tid);
}

static bool same_copy(const struct ana_logged *x, const struct ana_logged *y) { return !by_block(x, y); }

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    if (x->kind != y->kind || x->ev != y->ev)
        return (x->kind - y->kind) * 4 + x->ev - y->ev;
    return x->iv.lo < y->iv.lo ? -1 : x->iv.lo > y->iv.lo;
}

static int log_flush(struct reader *r)
{
    struct piece *p = r->piece.p;
    struct ana_interval *iv = dt_reallocarray(NULL, r->piece.n + 1, sizeof *iv);
    int rc = iv ? 0 : DT_E_NOMEM;
    if (r->piece.n)
        qsort(p, r->piece.n, sizeof *p, by_place);
    for (size_t i = 0, n; i < r->piece.n && !rc; i += n) {
        for (n = 0; i + n < r->piece.n && p[i + n].buffer == p[i].buffer && p[i + n].kind == p[i].kind &&
                    p[i + n].ev == p[i].ev;
             n++)
            iv[n] = p[i + n].iv;
        rc = ana_foot_add(r->in->foot, r->block, p[i].buffer, (enum ana_kind)p[i].kind, (enum ana_evidence)p[i].ev, iv,
                          ana_intervals_normalise(iv, n));
    }
    free(iv);
    r->piece.n = 0;
    return rc;
}

/* Bytes [lo, hi) of the buffer, by what the site does. */
static int log_add(struct reader *r, uint32_t site, uint32_t buffer, uint64_t lo, uint64_t hi)
{
    const struct ana_code *c = r->in->code;
    if (lo >= hi)
        return 0;
    for (unsigned q = 0; q < ANA_KINDS; q++) {
        struct piece p = {buffer, (uint8_t)q, c->evidence[site * ANA_KINDS + q], {lo, hi}};
        if (c->kinds[site] >> q & 1 && !dt_push(&r->piece, p))
            return DT_E_NOMEM;
    }
    return r->piece.n < BATCH ? 0 : log_flush(r);
}

static int bulk(struct reader *r, const struct ana_logged *e, bool *outside)
{
    const struct ana_log_in *in = r->in;
    uint32_t n = e->value[0];
    bool found = !n;
    int rc = 0;
    *outside = n && (e->address % 16 || n % 16);
    for (uint32_t t = 0; t < in->ntab && !*outside && !found; t++) {
        const struct ana_tab *b = &in->tab[t];
        uint64_t at = e->address - b->base;
        if (at >= b->bytes || n > b->bytes - at)
            continue;
        found = true;
        *outside = b->fixed && in->code->sites.site[e->site].writes;
        if (in->buffer_of[t] == UINT32_MAX || *outside) /* a variable that nothing writes */
            continue;
        rc = log_add(r, e->site, in->buffer_of[t], at, at + n);
    }
    *outside |= !found;
    return rc;
}

static int tensor(struct reader *r, struct ana_logged *e, bool *over, bool *outside)
{
    const struct ana_log_in *in = r->in;
    const struct ana_site *x = &in->code->sites.site[e->site];
    const struct ptx_inst *i = &in->code->inst[x->inst];
    const struct dt_arg *a = &in->l->arg[x->params[0]];
    struct ptx_tensormap m;
    unsigned elements, global, shared;
    int32_t coord[5] = {0};
    int rc = 0;
    dev_tensor_map_fields(a, 0, &m);
    ptx_tensormap_unit((enum ptx_tm_type)m.type, &elements, &global, &shared);
    *over |= e->address || m.interleave || i->opnd[x->opnd].n != m.rank || (int32_t)e->value[0] % (int32_t)elements;
    if (*over)
        return 0;
    for (unsigned k = 0; k < m.rank; k++)
        coord[k] = (int32_t)e->value[k];
    for (uint32_t row = 0, rows = ptx_tensormap_rows(&m); row < rows && !rc; row++) {
        struct ptx_tm_row v = ptx_tensormap_row(&m, coord, row);
        uint64_t bytes = in->bytes[a->buffer], hi = v.address + (uint64_t)v.inside * global;
        for (uint32_t t = 0; t < in->ntab && v.inside && x->writes; t++)
            if (in->buffer_of[t] == a->buffer && in->tab[t].fixed) {
                e->address = in->tab[t].base;
                *outside = true;
                return 0;
            }
        if (v.inside) /* the tensor lies in the buffer; a last unit of a packed type may be half of one */
            rc = log_add(r, e->site, a->buffer, v.address, hi < bytes ? hi : bytes);
    }
    return rc;
}

int ana_log_read(const struct ana_log_in *in, struct ana_logged *e, uint64_t n, bool *ret_over,
                 const struct ana_logged **ret_outside)
{
    struct reader r = {.in = in};
    const struct ana_sites *v = &in->code->sites;
    int rc = 0;
    if (n)
        qsort(e, n, sizeof *e, by_block);
    for (uint64_t k = 0; k < n && !rc && !*ret_outside; k++) {
        bool outside = false;
        if (e[k].site >= v->nsite || (k && same_copy(&e[k], &e[k - 1])))
            continue;
        if (e[k].block != r.block) {
            rc = log_flush(&r);
            r.block = e[k].block;
        }
        if (rc)
            break;
        rc = v->site[e[k].site].span == ANA_SPAN_TENSOR ? tensor(&r, &e[k], ret_over, &outside)
                                                        : bulk(&r, &e[k], &outside);
        if (outside && !in->code->ahead[e[k].site])
            *ret_outside = &e[k];
    }
    if (!rc)
        rc = log_flush(&r);
    free(r.piece.p);
    return rc;
}
