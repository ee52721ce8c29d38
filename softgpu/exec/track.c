/* What a launch touched, for modelled time: sectors of 32 bytes, as each warp coalesces them, and which sectors were
 * touched at all. Also, lane by lane, what the race detector sees.
 *
 * Each CPU thread marks sectors in bitmaps of its own. It has two for an allocation, one a direction, made at the first
 * access. `dirty` says which groups of 64 words have bits at all, so that a small launch in large memory pays only for
 * what it touches. sg_track_sum joins the bitmaps of all threads.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "softgpu/exec/exec-priv.h"

#define GROUP 64 /* words of a bitmap behind one byte of `dirty` */

static uint64_t words_of(const struct sg_range *r) { return (r->end - r->base + 63) / 32 / 64 + 2; }

static bool new_map(struct sg_worker *wk, const struct sg_range *r, struct sg_map *map)
{
    uint64_t words = words_of(r);
    map->bits = dt_calloc(words + (words / GROUP + 8) / 8, 8);
    if (!map->bits) {
        __atomic_store_n(&wk->run->stop, 3, __ATOMIC_RELAXED); /* memory is out */
        return false;
    }
    map->dirty = (uint8_t *)(map->bits + words);
    return true;
}

/* Sectors [s, s + n), counted from the allocation's first. */
static inline void track_mark(struct sg_worker *wk, const struct sg_range *r, bool write, uint64_t s, uint64_t n)
{
    if (!wk->map)
        return;
    struct sg_map *map = &wk->map[2 * r->index + write];
    if (__builtin_expect(!map->bits, 0) && !new_map(wk, r, map))
        return;
    while (n) {
        uint64_t at = s & 63, k = n < 64 - at ? n : 64 - at;
        map->bits[s >> 6] |= (k == 64 ? ~0ull : (1ull << k) - 1) << at;
        map->dirty[s / 64 / GROUP] = 1;
        s += k;
        n -= k;
    }
}

void sg_track_range(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t lo, uint64_t bytes,
                    enum sg_access how)
{
    uint64_t s = (lo >> 5) - (r->base >> 5), n = ((lo + bytes - 1) >> 5) - (lo >> 5) + 1;
    struct sg_worker *wk = w->wk;
    if (how != SG_WRITE) {
        wk->sectors[0] += n;
        track_mark(wk, r, false, s, n);
    }
    if (how != SG_READ) {
        wk->sectors[1] += n;
        track_mark(wk, r, true, s, n);
    }
    if (wk->race && !r->read_only && !sg_race_whole(w, r, lo, bytes, how)) {
        uint64_t step = (uint64_t)op->size * op->n;
        for (uint64_t at = lo; at < lo + bytes; at += step ? step : bytes) {
            unsigned lane = step && bytes > step ? (unsigned)((at - lo) / step) : (unsigned)__builtin_ctz(w->mask);
            sg_race_check(w, op, r, lane, at, step ? step : bytes, how);
        }
    }
}

/* The sectors of one warp access, each counted once: a table of the last counted ones, cleared by a new generation. */
static inline bool first_time(struct sg_worker *wk, uint64_t s)
{
    unsigned h = (unsigned)((s * 0x9E3779B97F4A7C15u) >> 56);
    while (wk->met[h].generation == wk->generation) {
        if (wk->met[h].sector == s)
            return false;
        h = (h + 1) & 255;
    }
    wk->met[h].generation = wk->generation;
    wk->met[h].sector = s;
    return true;
}

void sg_track_lanes(struct sg_warp *w, const struct sg_op *op, const uint64_t *addr, uint32_t mask, unsigned bytes,
                    enum sg_access how)
{
    struct sg_worker *wk = w->wk;
    uint64_t n = 0;
    if (!++wk->generation)
        memset(wk->met, 0, sizeof wk->met), wk->generation = 1;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t lo = addr[l], s = lo >> 5, e = (lo + bytes - 1) >> 5;
        const struct sg_range *r = wk->site[op->site];
        if (lo < r->base || lo >= r->end)
            r = sg_find_range(w, op, lo, bytes);
        if (!r)
            continue; /* shared or local, through a generic address */
        for (uint64_t k = s; k <= e; k++)
            n += first_time(wk, k);
        if (how != SG_WRITE)
            track_mark(wk, r, false, s - (r->base >> 5), e - s + 1);
        if (how != SG_READ)
            track_mark(wk, r, true, s - (r->base >> 5), e - s + 1);
        if (wk->race)
            sg_race_check(w, op, r, l, lo, bytes, how);
    }
    if (how != SG_WRITE)
        wk->sectors[0] += n;
    if (how != SG_READ)
        wk->sectors[1] += n;
}

/* The sectors of all lanes; inactive ones have an active one's address. */
static void track_offsets(struct sg_worker *wk, const struct sg_range *r, uint64_t base, const uint32_t *at,
                          enum sg_access how)
{
    struct sg_map *map = wk->map ? &wk->map[2 * r->index + (how == SG_WRITE)] : NULL;
    if (map && __builtin_expect(!map->bits, 0) && !new_map(wk, r, map))
        return;
    /* Aligned elements of at most 32 bytes: one sector each. Nearly always they ascend, then a change is a new one. */
    const uint64_t low = base & 31, from = (base >> 5) - (r->base >> 5);
    uint32_t s[SG_LANES], down = 0, n = 1;
    for (unsigned l = 0; l < SG_LANES; l++)
        s[l] = (uint32_t)((at[l] + low) >> 5);
    for (unsigned l = 1; l < SG_LANES; l++) {
        down |= s[l] < s[l - 1];
        n += s[l] != s[l - 1];
    }
    if (down) {
        if (!++wk->generation)
            memset(wk->met, 0, sizeof wk->met), wk->generation = 1;
        n = 0;
        for (unsigned l = 0; l < SG_LANES; l++)
            n += first_time(wk, s[l]);
    }
    for (unsigned l = 0; map && l < SG_LANES;) { /* those of one word at once */
        const uint64_t word = (from + s[l]) >> 6;
        uint64_t bits = 0;
        for (; l < SG_LANES && (from + s[l]) >> 6 == word; l++)
            bits |= 1ull << ((from + s[l]) & 63);
        map->bits[word] |= bits;
        map->dirty[word / GROUP] = 1;
    }
    wk->sectors[how == SG_WRITE] += n;
}

void sg_track_offsets(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t base,
                      const uint32_t *at, unsigned bytes, enum sg_access how)
{
    struct sg_worker *wk = w->wk;
    bool race = wk->race && !r->read_only;
    if (race)
        sg_race_lanes(w, op, r, base, at, bytes, how);
    if (!wk->map && !race)
        return;
    if (how != SG_WRITE)
        track_offsets(wk, r, base, at, SG_READ);
    if (how != SG_READ)
        track_offsets(wk, r, base, at, SG_WRITE);
}

void sg_track_halves(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t base,
                     const uint32_t *at, unsigned bytes, bool line0, bool line1, enum sg_access how)
{
    struct sg_worker *wk = w->wk;
    if (wk->race || !wk->map) {
        sg_track_offsets(w, op, r, base, at, bytes, how);
        return;
    }
    const uint64_t first = r->base >> 5, a = base + at[0], b = base + at[16];
    const uint64_t a0 = (a >> 5) - first, a1 = ((a + (line0 ? 16 * bytes : bytes) - 1) >> 5) - first;
    const uint64_t b0 = (b >> 5) - first, b1 = ((b + (line1 ? 16 * bytes : bytes) - 1) >> 5) - first;
    /* sectors of both halves count once */
    const uint64_t lo = a0 > b0 ? a0 : b0, hi = a1 < b1 ? a1 : b1,
                   n = a1 - a0 + 1 + b1 - b0 + 1 - (hi >= lo ? hi - lo + 1 : 0);
    for (unsigned write = 0; write < 2; write++) {
        if (how == (write ? SG_READ : SG_WRITE))
            continue;
        wk->sectors[write] += n;
        track_mark(wk, r, write, a0, a1 - a0 + 1);
        track_mark(wk, r, write, b0, b1 - b0 + 1);
    }
}

SG_GENERAL_ONLY bool sg_track_quick(struct sg_worker *wk, const struct sg_range *r, unsigned write, uint64_t a,
                                    uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    const uint64_t first = r->base >> 5;
    uint64_t from[2] = {(a >> 5) - first, (b >> 5) - first},
             last[2] = {((a + a_bytes - 1) >> 5) - first, ((b + b_bytes - 1) >> 5) - first};
    const uint64_t lo = from[0] > from[1] ? from[0] : from[1], hi = last[0] < last[1] ? last[0] : last[1];
    struct sg_map *map = wk->map ? &wk->map[2 * r->index + write] : NULL;
    if (map && !map->bits)
        return false;
    wk->sectors[write] += last[0] - from[0] + 1 + last[1] - from[1] + 1 - (hi >= lo ? hi - lo + 1 : 0);
    for (unsigned i = 0; i < 2 && map; i++)
        for (uint64_t s = from[i]; s <= last[i];) {
            uint64_t at = s & 63, left = last[i] - s + 1, k = left < 64 - at ? left : 64 - at;
            map->bits[s >> 6] |= (k == 64 ? ~0ull : (1ull << k) - 1) << at;
            map->dirty[s / 64 / GROUP] = 1;
            s += k;
        }
    return true;
}

/* The sector's first time in this access, by the table of first_time(). */
SG_GENERAL_INLINE uint64_t plain_first(struct sg_worker *wk, uint64_t s)
{
    unsigned h = (unsigned)((s * 0x9E3779B97F4A7C15u) >> 56);
    for (; wk->met[h].generation == wk->generation; h = (h + 1) & 255)
        if (wk->met[h].sector == s)
            return 0;
    wk->met[h].generation = wk->generation;
    wk->met[h].sector = s;
    return 1;
}

SG_GENERAL_ONLY bool sg_track_plain(struct sg_worker *wk, const struct sg_range *r, unsigned write,
                                    const uint64_t addr[SG_LANES], uint32_t mask)
{
    if (!wk->map)
        return true;
    struct sg_map *map = &wk->map[2 * r->index + write];
    if (!map->bits || wk->generation == UINT32_MAX)
        return false;
    const uint64_t first = r->base >> 5;
    uint64_t n = 0, before = UINT64_MAX, down = 0, word = 0, bits = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t s = (addr[__builtin_ctz(m)] >> 5) - first;
        if (s == before)
            continue;
        down |= (uint64_t)(before != UINT64_MAX && s < before);
        before = s;
        n++;
        if (s >> 6 != word && bits) {
            map->bits[word] |= bits;
            map->dirty[word / GROUP] = 1;
            bits = 0;
        }
        word = s >> 6;
        bits |= 1ull << (s & 63);
    }
    if (bits) {
        map->bits[word] |= bits;
        map->dirty[word / GROUP] = 1;
    }
    if (down) {
        wk->generation++;
        n = 0;
        for (uint32_t m = mask; m; m &= m - 1)
            n += plain_first(wk, addr[__builtin_ctz(m)] >> 5);
    }
    wk->sectors[write] += n;
    return true;
}

/* Prefetched sectors stay so until a launch reads or writes them, or the memory goes; the map belongs to the
 * allocation, all CPU threads mark in it. */
static void track_fetch(struct sg_worker *wk, const struct sg_alloc *a, uint64_t from, uint64_t to)
{
    if (from < a->base)
        from = a->base;
    if (to > a->end)
        to = a->end;
    for (uint64_t s = from >> 5; a->fetched && s <= (to - 1) >> 5; s++) {
        uint64_t k = s - (a->base >> 5), bit = 1ull << (k & 63);
        wk->fetched += !(__atomic_fetch_or(&a->fetched[k >> 6], bit, __ATOMIC_RELAXED) & bit);
    }
}

/* The line of each lane's address. A lane that points to no allocation prefetches nothing. */
const struct sg_op *sg_prefetch(struct sg_warp *w, const struct sg_op *op)
{
    const struct sg_run *run = w->wk->run;
    for (uint32_t m = w->wk->map ? w->mask : 0; m; m &= m - 1) {
        uint64_t at = sg_address(w, op, (unsigned)__builtin_ctz(m)) & ~127ull;
        const struct sg_alloc *a = sg_mem_search(run->alloc, run->nrange, at);
        if (!a)
            a = sg_mem_search(run->alloc, run->nrange, at + 127);
        if (a)
            track_fetch(w->wk, a, at, at + 128);
    }
    return op + 1;
}

bool sg_fetch_bulk(struct sg_worker *wk, uint64_t at, uint32_t bytes)
{
    const struct sg_run *run = wk->run;
    const struct sg_alloc *a = bytes ? sg_mem_search(run->alloc, run->nrange, at) : NULL;
    bool inside = a && bytes <= a->end - at;
    if (inside && wk->map)
        track_fetch(wk, a, at, at + bytes);
    return inside || !bytes;
}

void sg_track_sum(const struct sg_run *run, uint64_t ret_bytes[2], uint64_t *ret_fetched)
{
    ret_bytes[0] = ret_bytes[1] = *ret_fetched = 0;
    for (size_t i = 0; i < 2 * run->nrange; i++) {
        uint64_t words = words_of(&run->range[i / 2]), count = 0;
        const struct sg_map *map[64];
        unsigned n = 0;
        for (uint32_t k = 0; k < run->nworker && n < 64; k++)
            if (run->first[k].map && run->first[k].map[i].bits)
                map[n++] = &run->first[k].map[i];
        for (uint64_t g = 0; n && g <= words / GROUP; g++) {
            unsigned any = 0;
            for (unsigned k = 0; k < n; k++)
                any |= map[k]->dirty[g];
            for (uint64_t x = g * GROUP; any && x < words && x < (g + 1) * GROUP; x++) {
                uint64_t bits = 0;
                for (unsigned k = 0; k < n; k++)
                    bits |= map[k]->bits[x];
                count += (uint64_t)__builtin_popcountll(bits);
                uint64_t *fetched = run->alloc[i / 2].fetched;
                if (fetched && bits) {
                    *ret_fetched += i & 1 ? 0 : 32 * (uint64_t)__builtin_popcountll(bits & fetched[x]);
                    fetched[x] &= ~bits;
                }
            }
        }
        ret_bytes[i & 1] += 32 * count;
    }
}

int sg_track_init(struct sg_worker *wk)
{
    wk->map = dt_calloc(2 * wk->run->nrange + 1, sizeof *wk->map);
    return wk->map ? 0 : DT_E_NOMEM;
}

void sg_track_done(struct sg_worker *wk)
{
    for (size_t i = 0; wk->map && i < 2 * wk->run->nrange; i++)
        free(wk->map[i].bits);
    free(wk->map);
}
