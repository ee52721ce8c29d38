/* Bytes of shared memory that a part still loads and nobody writes any more: they are zeroed when the part begins.
 *
 * A load that is kept is made whole, and by all threads, also where only some need it: the two matrices of an ldmatrix
 * that nobody takes, warps whose columns are another part's. What it finds there nobody sees, but a check of what is
 * read before it is written would (`dovetail run --check all`, and others'). So
 *
 *   zeroed     what kept loads touch, a posted store that they can see (reach-order.c) writes, and no kept one does
 *   when       before the body. Barriers of the body's own lie between: such a load, or a kept store to these bytes, is
 *              none of what is reached from the beginning without one. Otherwise there is no such part
 */
#include "rewrite/emit/part-priv.h"

#include <stdlib.h>
#include <string.h>

struct zero {
    const struct rw_body *b;
    const struct rw_reach *r;
    struct rw_share *part;
    uint32_t bytes;             /* of a set of bytes, as bits */
    uint8_t *set, *seen, *lost; /* at hand; by class: what kept stores write that it sees, what the others do */
    uint8_t *zero;
};

/* The bytes that the threads that make the instruction may touch. */
static void zero_touched(const struct zero *z, uint32_t n, struct rw_threads who)
{
    const struct rw_reach *r = z->r;
    memset(z->set, 0, z->bytes);
    for (uint32_t k = 0; !r->span[n] && k < z->bytes; k++)
        z->set[k] = r->touched[n][k];
    for (uint32_t k = 0; r->span[n] && k < r->nspan[n]; k++) {
        const struct rw_span *s = &r->span[n][k];
        for (uint32_t q = s->at; rw_is_among(who, s->thread) && q < s->at + (uint32_t)s->width; q++)
            z->set[q / 8] |= (uint8_t)(1u << (q % 8));
    }
}

static void zero_stores(const struct zero *z, uint32_t n)
{
    const struct rw_reach *r = z->r;
    struct rw_threads all = {0}, who = z->part->only[n];
    for (unsigned kept = 0; kept < 2; kept++) {
        if (kept && !z->part->keep[n])
            return;
        zero_touched(z, n, kept ? who : all);
        for (uint32_t c = 0; c < r->nclass; c++)
            for (uint32_t k = 0; k < z->bytes && r->sight[c][n] != RW_SEES_NOTHING; k++)
                (kept ? z->seen : z->lost)[(size_t)c * z->bytes + k] |= z->set[k];
    }
}

/* False: it comes too early. */
static bool zero_load(const struct zero *z, uint32_t n)
{
    size_t at = (size_t)z->r->class_of[n] * z->bytes;
    uint8_t some = 0;
    zero_touched(z, n, z->part->only[n]);
    for (uint32_t k = 0; k < z->bytes; k++) {
        uint8_t missing = z->set[k] & z->lost[at + k] & (uint8_t)~z->seen[at + k];
        z->zero[k] |= missing;
        some |= missing;
    }
    return !some || !z->r->first[n];
}

/* May a store that is kept write one of these bytes before the first barrier? */
static bool zero_early(const struct zero *z, uint32_t n)
{
    const struct ptx_inst *i = &z->b->f->inst[n];
    bool writes = ptx_op_info(i->op)->flags & (PTX_F_WRITES | PTX_F_ATOMIC);
    if (!z->part->keep[n] || !z->r->first[n] || !writes)
        return false;
    if (i->space == PTX_GENERIC)
        return true;
    if (i->space != PTX_SHARED)
        return false;
    if (z->r->anywhere[n] || !z->r->touched[n])
        return true;
    zero_touched(z, n, z->part->only[n]);
    for (uint32_t k = 0; k < z->bytes; k++)
        if (z->set[k] & z->zero[k])
            return true;
    return false;
}

/* The set as ranges. False: they are too many. */
static bool zero_ranges(const struct zero *z)
{
    struct rw_share *p = z->part;
    uint32_t stores = 0;
    p->nzero = 0;
    for (uint32_t k = 0; k < z->r->size; k++) {
        if (!(z->zero[k / 8] >> (k % 8) & 1))
            continue;
        struct rw_zero *last = p->nzero ? &p->zero[p->nzero - 1] : NULL;
        if (last && last->at + last->bytes == k)
            last->bytes++;
        else if (p->nzero == RW_ZEROS)
            return false;
        else
            p->zero[p->nzero++] = (struct rw_zero){k, 1};
    }
    for (uint32_t k = 0; k < p->nzero; k++)
        stores += p->zero[k].bytes / rw_zero_width(&p->zero[k]) / z->b->threads + 1;
    return stores <= RW_ZEROS;
}

static bool zero_find(const struct zero *z)
{
    bool good = true, some = false;
    uint32_t n = z->b->f->ninst;
    z->part->nzero = 0;
    for (uint32_t k = 0; k < n; k++)
        if (rw_is_shared_store(&z->b->f->inst[k]) && z->r->touched[k] && !z->r->anywhere[k])
            zero_stores(z, k);
    for (uint32_t k = 0; k < n && good; k++)
        if (z->part->keep[k] && rw_may_read_shared(&z->b->f->inst[k]) && z->r->touched[k] && !z->r->anywhere[k])
            good = zero_load(z, k);
    for (uint32_t k = 0; k < z->bytes; k++)
        some |= z->zero[k] != 0;
    for (uint32_t k = 0; k < n && good && some; k++)
        good = !zero_early(z, k);
    return good && zero_ranges(z);
}

int rw_part_zero(const struct rw_body *b, const struct rw_reach *r, struct rw_share *part, struct dt_err *e)
{
    struct zero z = {.b = b, .r = r, .part = part, .bytes = r->size / 8 + 1};
    part->nzero = 0;
    if (!r->span) /* every access may touch everything: nothing is left out */
        return 0;
    uint8_t *room = dt_calloc((size_t)z.bytes * (2 + 2 * RW_REACH_CLASSES), 1);
    if (!room)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    z.set = room;
    z.zero = room + z.bytes;
    z.seen = room + 2 * (size_t)z.bytes;
    z.lost = z.seen + (size_t)z.bytes * RW_REACH_CLASSES;
    bool good = zero_find(&z);
    free(room);
    return good ? 0 : 1;
}
