/* Strips: a buffer cut where the set of blocks that touch it changes.
 *
 * Example: block 0 touches bytes 0 to 99, block 1 bytes 80 to 179. The strips are 0 to 79 touched by {0}, 80 to 99 by
 * {0, 1}, 100 to 179 by {1}. Two launches are compared strip by strip instead of byte by byte or block by block: a
 * tiled GEMM of a thousand blocks has a few dozen different strip sets. Steps:
 *   1. Group the blocks with the same footprint, so that a tile that a whole row of blocks reads is swept once. Equal
 *      sets share their intervals (footprint.c): comparing pointers is enough.
 *   2. Sweep over the ends of the groups' intervals in order of address. The groups that are active are kept as a list,
 *      and as the exclusive-or of one 128-bit random number for each group; under that sum a set that was seen before
 *      is found again.
 *   3. Write the blocks of each set out once, sorted.
 * Two different sets would need equal 128-bit sums to be confused. The random numbers are fixed: results are
 * reproducible.
 *
 * Not here: comparing launches (maps.c), and evidence.
 */
#include "analysis/footprint/footprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/radix.h"
#include "base/vec.h"

struct key {
    uint64_t a, b;
};

struct order { /* block, sorted by footprint */
    const struct ana_interval *iv;
    uint32_t n, block;
};

struct event {
    uint64_t at;
    uint32_t group : 31, end : 1;
};

struct slot {
    struct key key;
    uint32_t set; /* + 1 */
};

DT_RADIX(by_footprint, struct order, (uintptr_t)x->iv) /* blocks stay ascending */
DT_RADIX(by_place, struct event, x->at)                /* groups too */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

struct sweep {
    struct order *order;
    uint32_t *first; /* of each group, in order; ngroup + 1 */
    uint32_t ngroup;
    uint32_t *active, *place, nactive; /* groups; where each is in `active` */
    struct slot *slot;
    uint32_t nslot; /* power of two */
    struct dt_vec(struct ana_strip) strip;
    struct dt_vec(uint32_t) off;
    struct dt_vec(uint32_t) block;
};

static bool grow_slots(struct sweep *w)
{
    uint32_t n = w->nslot ? w->nslot * 2 : 64;
    struct slot *s = dt_calloc(n, sizeof *s);
    if (!s)
        return false;
    for (uint32_t i = 0; i < w->nslot; i++) {
        if (!w->slot[i].set)
            continue;
        uint32_t k = (uint32_t)w->slot[i].key.a & (n - 1);
        while (s[k].set)
            k = (k + 1) & (n - 1);
        s[k] = w->slot[i];
    }
    free(w->slot);
    w->slot = s;
    w->nslot = n;
    return true;
}

/* The number of the set of active groups, made if new. */
static bool find_set(struct sweep *w, struct key key, uint32_t *ret)
{
    if ((w->off.n + 1) * 2 > w->nslot && !grow_slots(w))
        return false;
    uint32_t k = (uint32_t)key.a & (w->nslot - 1);
    for (; w->slot[k].set; k = (k + 1) & (w->nslot - 1))
        if (w->slot[k].key.a == key.a && w->slot[k].key.b == key.b) {
            *ret = w->slot[k].set - 1;
            return true;
        }
    size_t total = 0;
    for (uint32_t i = 0; i < w->nactive; i++)
        total += w->first[w->active[i] + 1] - w->first[w->active[i]];
    if (w->block.n + total > UINT32_MAX || !dt_reserve(&w->block, w->block.n + total))
        return false;
    uint32_t *to = w->block.p + w->block.n;
    for (uint32_t i = 0; i < w->nactive; i++)
        for (uint32_t j = w->first[w->active[i]]; j < w->first[w->active[i] + 1]; j++)
            *to++ = w->order[j].block;
    if (w->nactive > 1)
        qsort(w->block.p + w->block.n, total, sizeof *to, by_number);
    *ret = (uint32_t)w->off.n;
    if (!dt_push(&w->off, (uint32_t)w->block.n))
        return false;
    w->block.n += total;
    w->slot[k] = (struct slot){key, *ret + 1};
    return true;
}

static bool sweep_events(struct sweep *w, const struct event *ev, size_t n)
{
    struct key key = {0};
    for (size_t i = 0; i < n;) {
        uint64_t at = ev[i].at;
        for (; i < n && ev[i].at == at; i++) {
            uint32_t g = ev[i].group;
            key.a ^= dt_splitmix64(0x646f7665, g);
            key.b ^= dt_splitmix64(0x7461696c, g);
            if (!ev[i].end) {
                w->place[g] = w->nactive;
                w->active[w->nactive++] = g;
            } else {
                uint32_t last = w->active[--w->nactive];
                w->active[w->place[g]] = last;
                w->place[last] = w->place[g];
            }
        }
        if (!w->nactive)
            continue;
        struct ana_strip s = {at, ev[i].at, 0}; /* an end follows: i < n */
        if (!find_set(w, key, &s.set))
            return false;
        struct ana_strip *prev = w->strip.n ? &w->strip.p[w->strip.n - 1] : NULL;
        if (prev && prev->hi == s.lo && prev->set == s.set)
            prev->hi = s.hi;
        else if (!dt_push(&w->strip, s))
            return false;
    }
    return true;
}

static void *strips_keep(struct dt_arena *a, const void *p, size_t n, size_t size)
{
    void *to = dt_arena_array(a, n ? n : 1, size);
    if (to && n)
        memcpy(to, p, n * size);
    return to;
}

int ana_strips_build(struct dt_arena *a, const struct ana_set *touch, uint32_t nblock, struct ana_strips *ret,
                     struct dt_err *e)
{
    struct sweep w = {0};
    struct event *ev = NULL;
    int r = DT_E_NOMEM;
    uint32_t n = 0;
    size_t nev = 0;
    w.order = dt_reallocarray(NULL, (size_t)nblock + 1, sizeof *w.order);
    w.first = dt_reallocarray(NULL, (size_t)nblock + 1, sizeof *w.first);
    w.active = dt_reallocarray(NULL, (size_t)nblock + 1, sizeof *w.active);
    w.place = dt_reallocarray(NULL, (size_t)nblock + 1, sizeof *w.place);
    if (!w.order || !w.first || !w.active || !w.place || nblock > INT32_MAX)
        goto out;
    for (uint32_t b = 0; b < nblock; b++)
        if (touch[b].n)
            w.order[n++] = (struct order){touch[b].iv, touch[b].n, b};
    if (!by_footprint(w.order, n))
        goto out;
    for (uint32_t i = 0; i < n; i++)
        if (!i || w.order[i].iv != w.order[i - 1].iv || w.order[i].n != w.order[i - 1].n) {
            w.first[w.ngroup++] = i;
            nev += 2 * (size_t)w.order[i].n;
        }
    w.first[w.ngroup] = n;
    ev = dt_reallocarray(NULL, nev + 1, sizeof *ev);
    if (!ev)
        goto out;
    nev = 0;
    for (uint32_t g = 0; g < w.ngroup; g++) {
        const struct order *o = &w.order[w.first[g]];
        for (uint32_t k = 0; k < o->n; k++) {
            ev[nev++] = (struct event){o->iv[k].lo, g, false};
            ev[nev++] = (struct event){o->iv[k].hi, g, true};
        }
    }
    if ((w.ngroup > 1 && !by_place(ev, nev)) || !sweep_events(&w, ev, nev))
        goto out;
    uint32_t nset = (uint32_t)w.off.n;
    if (!dt_push(&w.off, (uint32_t)w.block.n))
        goto out;
    struct ana_strips s = {.strip = strips_keep(a, w.strip.p, w.strip.n, sizeof *w.strip.p),
                           .nstrip = (uint32_t)w.strip.n,
                           .off = strips_keep(a, w.off.p, w.off.n, sizeof *w.off.p),
                           .block = strips_keep(a, w.block.p, w.block.n, sizeof *w.block.p),
                           .nset = nset};
    if (s.strip && s.off && s.block) {
        *ret = s;
        r = 0;
    }
out:
    free(w.order), free(w.first), free(w.active), free(w.place), free(w.slot), free(ev);
    free(w.strip.p), free(w.off.p), free(w.block.p);
    return r ? dt_err_set(e, r, "no memory for the strips of a launch of %u blocks", nblock) : 0;
}
