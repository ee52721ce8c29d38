/* From the intervals that each block touches to the footprint of a launch.
 *
 * Input: for each block and buffer, lists of intervals by kind (read, write, reduction) and evidence; and buffers that
 * are widened, that is, counted whole for every block, because a data-dependent address may reach any byte of them.
 * Output: struct ana_launch with
 *   read       = reads and reductions, widened or not
 *   must_write = writes and reductions whose evidence is not data-dependent
 *   may_write  = data-dependent writes, widened writes
 * and, for each buffer, the unions over all blocks that maps.c needs, and whether blocks of the launch are in conflict
 * with each other (self_conflict).
 *
 * Example: block 3 reads bytes 0 to 99 for certain, and writes, if x[3] > 0, bytes 40 to 43. Its read set is 0 to 99,
 * its must_write set is empty, its may_write set is 40 to 43.
 *
 * Equal lists of a launch are kept once (a table by content), so a tile that a thousand blocks read costs as much as
 * one, and strips.c can group blocks by pointer. Not here: where the intervals come from (summary/, record/).
 */
#include "analysis/footprint/footprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/radix.h"
#include "base/vec.h"

struct rec { /* one call of ana_foot_add */
    uint32_t block, buffer;
    uint8_t kind, ev;
    struct ana_set set;
};

struct interned {
    uint64_t hash;
    struct ana_set set;
};

struct ana_foot {
    struct dt_arena *a;
    uint32_t nblock, nbuffer;
    const uint64_t *bytes;
    struct dt_vec(struct rec) rec;
    struct interned *slot; /* n = 0: free */
    size_t nslot, nset;
    bool *wide[ANA_KINDS]; /* by buffer */
    struct ana_access **access;
};

struct ana_foot *ana_foot_new(struct dt_arena *a, uint32_t nblock, uint32_t nbuffer, const uint64_t *bytes)
{
    struct ana_foot *f = dt_calloc(1, sizeof *f);
    if (!f)
        return NULL;
    *f = (struct ana_foot){.a = a, .nblock = nblock, .nbuffer = nbuffer, .bytes = bytes};
    bool ok = true;
    for (unsigned k = 0; k < ANA_KINDS; k++)
        ok &= (f->wide[k] = dt_calloc((size_t)nbuffer + 1, sizeof(bool))) != NULL;
    ok &= (f->access = dt_calloc((size_t)nbuffer + 1, sizeof *f->access)) != NULL;
    if (ok)
        return f;
    ana_foot_free(f);
    return NULL;
}

void ana_foot_free(struct ana_foot *f)
{
    if (!f)
        return;
    for (unsigned k = 0; k < ANA_KINDS; k++)
        free(f->wide[k]);
    free(f->access);
    free(f->rec.p);
    free(f->slot);
    free(f);
}

struct ana_access *ana_foot_access(struct ana_foot *f, uint32_t buffer)
{
    if (!f->access[buffer]) {
        f->access[buffer] = dt_new(f->a, struct ana_access);
        if (f->access[buffer])
            f->access[buffer]->buffer = buffer;
    }
    return f->access[buffer];
}

static bool footprint_grow(struct ana_foot *f)
{
    size_t n = f->nslot ? f->nslot * 2 : 256;
    struct interned *s = dt_calloc(n, sizeof *s);
    if (!s)
        return false;
    for (size_t i = 0; i < f->nslot; i++) {
        if (!f->slot[i].set.n)
            continue;
        size_t k = f->slot[i].hash & (n - 1);
        while (s[k].set.n)
            k = (k + 1) & (n - 1);
        s[k] = f->slot[i];
    }
    free(f->slot);
    f->slot = s;
    f->nslot = n;
    return true;
}

static bool intern(struct ana_foot *f, const struct ana_interval *iv, uint32_t n, struct ana_set *ret)
{
    if (!n) {
        *ret = (struct ana_set){0};
        return true;
    }
    if ((f->nset + 1) * 2 > f->nslot && !footprint_grow(f))
        return false;
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = dt_splitmix64(h ^ iv[i].lo, iv[i].hi);
    size_t k = h & (f->nslot - 1);
    for (; f->slot[k].set.n; k = (k + 1) & (f->nslot - 1)) {
        struct interned *s = &f->slot[k];
        if (s->hash == h && s->set.n == n && !memcmp(s->set.iv, iv, n * sizeof *iv)) {
            *ret = s->set;
            return true;
        }
    }
    struct ana_set s = {dt_new_array(f->a, struct ana_interval, n), n};
    if (!s.iv)
        return false;
    memcpy(s.iv, iv, n * sizeof *iv);
    f->slot[k] = (struct interned){h, s};
    f->nset++;
    *ret = s;
    return true;
}

int ana_foot_keep(struct ana_foot *f, const struct ana_interval *iv, uint32_t n, struct ana_set *ret)
{
    return intern(f, iv, n, ret) ? 0 : DT_E_NOMEM;
}

int ana_foot_add_set(struct ana_foot *f, uint32_t block, uint32_t buffer, enum ana_kind k, enum ana_evidence ev,
                     struct ana_set set)
{
    if (!set.n)
        return 0;
    struct rec r = {block, buffer, (uint8_t)k, (uint8_t)ev, set};
    return ana_foot_access(f, buffer) && dt_push(&f->rec, r) ? 0 : DT_E_NOMEM;
}

int ana_foot_add(struct ana_foot *f, uint32_t block, uint32_t buffer, enum ana_kind k, enum ana_evidence ev,
                 const struct ana_interval *iv, uint32_t n)
{
    struct ana_set set;
    int rc = ana_foot_keep(f, iv, n, &set);
    return rc ? rc : ana_foot_add_set(f, block, buffer, k, ev, set);
}

void ana_foot_clear(struct ana_foot *f) { f->rec.n = 0; }

void ana_foot_clear_widened(struct ana_foot *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->rec.n; i++)
        if (f->rec.p[i].ev != ANA_DATA_DEPENDENT || !f->wide[f->rec.p[i].kind][f->rec.p[i].buffer])
            f->rec.p[n++] = f->rec.p[i];
    f->rec.n = n;
}

int ana_foot_widen(struct ana_foot *f, uint32_t buffer, enum ana_kind k)
{
    f->wide[k][buffer] = true;
    return ana_foot_access(f, buffer) ? 0 : DT_E_NOMEM;
}

DT_RADIX(by_plane, struct rec, x->kind * 4u + x->ev)
DT_RADIX(by_buffer_block, struct rec, (uint64_t)x->buffer << 32 | x->block) /* stable: planes stay in their order */
DT_RADIX(by_iv, struct ana_set, (uintptr_t)x->iv)
DT_RADIX(by_lo, struct ana_interval, x->lo)

/* The union of the sets of one plane over all blocks: equal sets are taken once. */
static struct ana_set plane(struct ana_foot *f, const struct rec *r, size_t n, enum ana_kind k, enum ana_evidence ev)
{
    struct dt_vec(struct ana_set) set = {0};
    struct dt_vec(struct ana_interval) all = {0};
    struct ana_set out = {0};
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        if (r[i].kind == k && r[i].ev == ev)
            ok = dt_push(&set, r[i].set);
    ok = ok && by_iv(set.p, set.n);
    for (size_t i = 0; i < set.n && ok; i++) {
        if (i && set.p[i].iv == set.p[i - 1].iv)
            continue;
        ok = dt_reserve(&all, all.n + set.p[i].n);
        if (ok)
            memcpy(all.p + all.n, set.p[i].iv, set.p[i].n * sizeof *all.p);
        all.n += ok ? set.p[i].n : 0;
    }
    if (!ok)
        f->a->failed = true;
    else if (all.n)
        out = ana_set_from(f->a, all.p, ana_intervals_normalise(all.p, all.n));
    free(set.p);
    free(all.p);
    return out;
}

/* x ∪ y, interned so that equal results share their intervals. */
static struct ana_set footprint_join(struct ana_foot *f, struct dt_arena *tmp, struct ana_set x, struct ana_set y)
{
    if (!x.n || !y.n || (x.iv == y.iv && x.n == y.n))
        return x.n ? x : y;
    struct ana_set u = ana_set_union(tmp, x, y), kept = {0};
    if (tmp->failed || !intern(f, u.iv, u.n, &kept))
        f->a->failed = true;
    return kept;
}

/* Strips of the union of the chosen kinds, per block. */
static int strips(struct ana_foot *f, struct dt_arena *tmp, const struct rec *r, size_t n, unsigned kinds,
                  struct ana_strips *ret, struct dt_err *e)
{
    struct ana_set *t = dt_new_array(tmp, struct ana_set, (size_t)f->nblock + 1);
    if (!t)
        return DT_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (kinds >> r[i].kind & 1)
            t[r[i].block] = footprint_join(f, tmp, t[r[i].block], r[i].set);
    return ana_strips_build(tmp, t, f->nblock, ret, e);
}

/* Has each block one record? They are sorted by block. */
static bool once(const struct rec *r, size_t n)
{
    size_t i = 1;
    while (i < n && r[i].block != r[i - 1].block)
        i++;
    return i >= n;
}

/* Records of a block each: do two of them share a byte? */
static int overlap(const struct rec *r, size_t n, bool *ret)
{
    struct dt_vec(struct ana_interval) all = {0};
    struct dt_vec(struct ana_set) set = {0};
    bool ok = dt_reserve(&set, n);
    for (size_t i = 0; i < n && ok; i++)
        set.p[set.n++] = r[i].set;
    ok = ok && by_iv(set.p, set.n);
    for (size_t i = 0; i < set.n && ok && !*ret; i++) {
        *ret = i && set.p[i].iv == set.p[i - 1].iv;
        if (!*ret && (ok = dt_reserve(&all, all.n + set.p[i].n))) {
            memcpy(all.p + all.n, set.p[i].iv, set.p[i].n * sizeof *all.p);
            all.n += set.p[i].n;
        }
    }
    ok = ok && (*ret || by_lo(all.p, all.n));
    for (size_t i = 1; i < all.n && ok && !*ret; i++)
        *ret = all.p[i].lo < all.p[i - 1].hi;
    free(set.p);
    free(all.p);
    return ok ? 0 : DT_E_NOMEM;
}

/* Is a byte in both where the two sets are not one and the same single block? */
static bool clash(const struct ana_strips *x, const struct ana_strips *y)
{
    for (uint32_t i = 0, j = 0; i < x->nstrip && j < y->nstrip;) {
        const struct ana_strip *p = &x->strip[i], *q = &y->strip[j];
        if (p->lo < q->hi && q->lo < p->hi) {
            uint32_t np = x->off[p->set + 1] - x->off[p->set], nq = y->off[q->set + 1] - y->off[q->set];
            if (np > 1 || nq > 1 || x->block[x->off[p->set]] != y->block[y->off[q->set]])
                return true;
        }
        if (p->hi < q->hi)
            i++;
        else
            j++;
    }
    return false;
}

static int conflict(struct ana_foot *f, const struct rec *r, size_t n, uint32_t buffer, bool *ret, struct dt_err *e)
{
    unsigned has = 0;
    for (size_t i = 0; i < n; i++)
        has |= 1u << r[i].kind;
    for (unsigned k = 0; k < ANA_KINDS; k++)
        if (f->wide[k][buffer])
            has |= 1u << k | 8u << k;
    const unsigned R = 1u << ANA_READ, W = 1u << ANA_WRITE, D = 1u << ANA_RED;
    if (f->nblock < 2 || *ret)
        return 0;
    if (has & W << 3 || (has & R << 3 && has & (W | D)) || (has & D << 3 && has & (W | R))) {
        *ret = true;
        return 0;
    }
    if (!(has & (R | D)) && once(r, n))
        return overlap(r, n, ret);
    struct dt_arena tmp = {0};
    struct ana_strips x = {0}, y = {0};
    int rc = 0;
    if (has & W) {
        rc = strips(f, &tmp, r, n, W, &x, e);
        if (!rc)
            rc = strips(f, &tmp, r, n, W | R | D, &y, e);
        *ret |= !rc && clash(&x, &y);
    }
    if (!rc && !*ret && has & D && has & R) {
        rc = strips(f, &tmp, r, n, D, &x, e);
        if (!rc)
            rc = strips(f, &tmp, r, n, R, &y, e);
        *ret |= !rc && clash(&x, &y);
    }
    dt_arena_done(&tmp);
    return rc;
}

/* Fill the access record of `buffer` from its records r[0..n). */
static int footprint_sum(struct ana_foot *f, const struct rec *r, size_t n, uint32_t buffer, struct dt_err *e)
{
    struct ana_access *x = f->access[buffer];
    const bool *const wide[] = {f->wide[0], f->wide[1], f->wide[2]};
    bool wr = wide[ANA_READ][buffer] || wide[ANA_RED][buffer], ww = wide[ANA_WRITE][buffer] || wide[ANA_RED][buffer];
    struct dt_arena *a = f->a;
    for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++) {
        struct ana_set red = plane(f, r, n, ANA_RED, ev);
        x->read_by[ev] = ana_set_union(a, plane(f, r, n, ANA_READ, ev), red);
        x->write_by[ev] = ana_set_union(a, plane(f, r, n, ANA_WRITE, ev), red);
        x->exact_read = ana_set_union(a, x->exact_read, x->read_by[ev]);
        if (ev != ANA_DATA_DEPENDENT)
            x->must = ana_set_union(a, x->must, x->write_by[ev]);
    }
    struct ana_set all = wr || ww ? ana_set_range(a, 0, f->bytes[buffer]) : (struct ana_set){0};
    if (wr)
        x->read_by[ANA_DATA_DEPENDENT] = all;
    if (ww)
        x->write_by[ANA_DATA_DEPENDENT] = all;
    x->widened |= wr || ww;
    for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++) {
        if (x->read_by[ev].n) {
            x->reads = true;
            x->read = ev;
        }
        if (x->write_by[ev].n) {
            x->writes = true;
            x->write = ev;
        }
    }
    return a->failed ? dt_err_set(e, DT_E_NOMEM, "no memory for the footprints of a launch") : 0;
}

int ana_foot_finish(struct ana_foot *f, struct ana_launch *ret, struct dt_err *e)
{
    struct ana_launch l = {.nblock = f->nblock};
    struct dt_arena *a = f->a, tmp = {0};
    uint32_t nb = 0;
    for (uint32_t b = 0; b < f->nbuffer; b++)
        nb += f->access[b] != NULL;
    l.access = dt_new_array(a, struct ana_access, (size_t)nb + 1);
    l.block = dt_new_array(a, struct ana_block, (size_t)f->nblock + 1);
    uint32_t *count = dt_calloc((size_t)f->nblock + 1, sizeof *count);
    int rc = DT_E_NOMEM;
    if (!l.access || !l.block || !count)
        goto out;
    if (!by_plane(f->rec.p, f->rec.n) || !by_buffer_block(f->rec.p, f->rec.n))
        goto out;
    /* how many buffers each block touches */
    uint32_t everywhere = 0;
    for (uint32_t b = 0; b < f->nbuffer; b++)
        everywhere += f->wide[0][b] || f->wide[1][b] || f->wide[2][b];
    for (size_t i = 0; i < f->rec.n; i++) {
        const struct rec *r = &f->rec.p[i], *q = i ? r - 1 : NULL;
        bool wide = f->wide[0][r->buffer] || f->wide[1][r->buffer] || f->wide[2][r->buffer];
        if (!wide && (!q || q->block != r->block || q->buffer != r->buffer))
            count[r->block]++;
    }
    for (uint32_t k = 0; k < f->nblock; k++) {
        if (!(count[k] + everywhere))
            continue;
        l.block[k].touch = dt_new_array(a, struct ana_touch, (size_t)count[k] + everywhere);
        if (!l.block[k].touch)
            goto out;
    }
    size_t at = 0;
    for (uint32_t b = 0; b < f->nbuffer; b++) {
        size_t end = at;
        while (end < f->rec.n && f->rec.p[end].buffer == b)
            end++;
        if (!f->access[b])
            continue;
        rc = conflict(f, f->rec.p + at, end - at, b, &l.self_conflict, e);
        if (!rc)
            rc = footprint_sum(f, f->rec.p + at, end - at, b, e);
        if (rc)
            goto out;
        l.access[l.naccess++] = *f->access[b];
        bool wr = f->wide[ANA_READ][b] || f->wide[ANA_RED][b], ww = f->wide[ANA_WRITE][b] || f->wide[ANA_RED][b];
        for (uint32_t k = 0; k < f->nblock && (at < end || wr || ww); k++) {
            bool some = wr || ww || (at < end && f->rec.p[at].block == k);
            if (!some)
                continue;
            struct ana_touch *t = &l.block[k].touch[l.block[k].ntouch++];
            t->buffer = b;
            for (; at < end && f->rec.p[at].block == k; at++) {
                const struct rec *r = &f->rec.p[at];
                if (r->kind != ANA_WRITE && !wr)
                    t->read = footprint_join(f, &tmp, t->read, r->set);
                if (r->kind == ANA_READ)
                    continue;
                if (r->ev == ANA_DATA_DEPENDENT)
                    t->may_write = footprint_join(f, &tmp, t->may_write, r->set);
                else
                    t->must_write = footprint_join(f, &tmp, t->must_write, r->set);
            }
            const struct ana_access *x = &l.access[l.naccess - 1];
            if (wr)
                t->read = x->read_by[ANA_DATA_DEPENDENT];
            if (ww)
                t->may_write = x->write_by[ANA_DATA_DEPENDENT];
        }
        at = end;
    }
    rc = a->failed ? DT_E_NOMEM : 0;
    if (!rc)
        *ret = l;
out:
    free(count);
    dt_arena_done(&tmp);
    return rc ? dt_err_set(e, rc, "no memory for the footprints of a launch of %u blocks", f->nblock) : 0;
}

static int by_touch(const void *a, const void *b)
{
    const struct ana_touch *x = a, *y = b;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static int by_access(const void *a, const void *b)
{
    const struct ana_access *x = a, *y = b;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

void ana_touch_sort(struct ana_touch *t, uint32_t n) { qsort(t, n, sizeof *t, by_touch); }

void ana_access_sort(struct ana_access *x, uint32_t n) { qsort(x, n, sizeof *x, by_access); }
