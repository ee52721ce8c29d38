/* What a followed block's accesses ask of the memory: passes over shared memory's banks, lines of the L1 and which of
 * them are there, sectors of the L2, atomics that meet.
 *
 * The L1 is a list of lines in the order of use, found by a hash; the one that was not used for longest goes. A line
 * that another load asked for is there when that one has it.
 *
 * Not here: when an access begins, and what waits for it (profile.c).
 */
#include "softgpu/exec/profile-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "softgpu/exec/exec-priv.h"

static unsigned parts_of(unsigned bytes) { return bytes <= 4 ? 1 : bytes == 8 ? 2 : 4; }

/* Lanes [from, from + n) have words in a line, whole ones. */
static bool in_line(const uint64_t *addr, unsigned from, unsigned n, unsigned bytes)
{
    uint64_t off = addr[from] & 3;
    for (unsigned l = 0; l < n; l++)
        off |= addr[from + l] ^ (addr[from] + (uint64_t)l * bytes);
    return !off;
}

/* Elements of 4, 8 or 16 bytes that are aligned: each has 1, 2 or 4 banks of its own, as those have that share one of
 * them. False: they are not. */
static bool banks_aligned(const uint64_t *addr, uint32_t mask, unsigned parts, unsigned *ret_passes, unsigned *words)
{
    unsigned shift = parts == 1   ? 2
                     : parts == 2 ? 3
                                  : 4,
             lanes = SG_LANES / parts, groups = 32 / parts, passes = 0, count = 0;
    uint64_t odd = 0;
    for (uint32_t m = mask; m; m &= m - 1)
        odd |= addr[__builtin_ctz(m)];
    if (odd & (parts * 4 - 1))
        return false;
    for (unsigned q = 0; q < parts; q++) {
        /* of each group of banks its elements, each with the one before it */
        uint32_t element[SG_LANES], used = 0, m = mask >> (q * lanes) & (lanes == 32 ? SG_ALL : (1u << lanes) - 1);
        uint8_t last[32], before[SG_LANES], many[32];
        unsigned n = 0, most = 0;
        uint64_t same = UINT64_MAX;
        for (; m; m &= m - 1) {
            uint64_t a = addr[q * lanes + (unsigned)__builtin_ctz(m)];
            if (a == same)
                continue;
            same = a;
            uint32_t x = (uint32_t)(a >> 2) >> (shift - 2);
            unsigned g = x & (groups - 1), i = used >> g & 1 ? last[g] : SG_LANES;
            many[g] = used >> g & 1 ? many[g] : 0;
            used |= 1u << g;
            before[n] = (uint8_t)i;
            while (i < SG_LANES && element[i] != x)
                i = before[i];
            if (i < SG_LANES)
                continue;
            element[n] = x;
            last[g] = (uint8_t)n++;
            most = ++many[g] > most ? many[g] : most;
        }
        passes += most;
        count += n * parts;
    }
    if (words)
        *words += count;
    *ret_passes = passes ? passes : 1;
    return true;
}

unsigned sg_profile_banks(const uint64_t *addr, uint32_t mask, unsigned bytes, unsigned *words)
{
    unsigned parts = parts_of(bytes), passes = 0, lanes = SG_LANES / parts;
    if (mask == SG_ALL && (bytes == 4 || bytes == 8 || bytes == 16) && in_line(addr, 0, SG_LANES, bytes)) {
        if (words) /* each part has a word of every bank */
            *words += SG_LANES * parts;
        return parts;
    }
    if ((bytes == 4 || bytes == 8 || bytes == 16) && banks_aligned(addr, mask, parts, &passes, words))
        return passes;
    for (unsigned q = 0; q < parts; q++) {
        /* the words of each bank: only those of its own can be equal to a new one */
        uint32_t word[32][SG_LANES * 4], n[32], used = 0; /* used: banks that have some */
        uint32_t m = mask >> (q * lanes) & (lanes == 32 ? SG_ALL : (1u << lanes) - 1);
        unsigned count = 0, most = 0;
        uint64_t before = UINT64_MAX; /* what the lane before asked for, this one need not */
        for (; m; m &= m - 1) {
            uint64_t a = addr[q * lanes + (unsigned)__builtin_ctz(m)];
            if (a == before)
                continue;
            before = a;
            for (uint64_t at = a >> 2; at <= (a + bytes - 1) >> 2 && count < SG_LANES * 4; at++) {
                unsigned bank = at & 31, i = 0;
                n[bank] = used >> bank & 1 ? n[bank] : 0;
                used |= 1u << bank;
                while (i < n[bank] && word[bank][i] != (uint32_t)at)
                    i++;
                if (i == n[bank]) {
                    word[bank][i] = (uint32_t)at;
                    count++;
                    if (++n[bank] > most)
                        most = n[bank];
                }
            }
        }
        passes += most;
        if (words)
            *words += count;
    }
    return passes ? passes : 1;
}

/* Elements that are aligned: how many meet in a bank depends on how far they are from each other. */
unsigned sg_profile_passes(struct sg_profiler *p, const struct sg_op *op, const uint64_t *addr, uint32_t mask,
                           unsigned bytes, unsigned *words)
{
    uint32_t at[SG_LANES];
    uint64_t bits = addr[0] & (bytes - 1), far = 0;
    if (!op || mask != SG_ALL || (bytes != 4 && bytes != 8 && bytes != 16))
        return sg_profile_banks(addr, mask, bytes, words);
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint64_t d = addr[l] - addr[0];
        far |= (d + (1u << 30)) >> 31;
        at[l] = (uint32_t)d;
    }
    for (unsigned l = 0; l < SG_LANES; l++)
        bits |= at[l] & (bytes - 1);
    if (bits || far)
        return sg_profile_banks(addr, mask, bytes, words);
    struct pattern *x = &p->pattern[op->site % p->npattern];
    if (x->op != op || x->bytes != bytes || memcmp(x->at, at, sizeof at) != 0) {
        *x = (struct pattern){.op = op, .bytes = bytes};
        x->passes = sg_profile_banks(addr, mask, bytes, &x->words);
        memcpy(x->at, at, sizeof at);
    }
    if (words)
        *words += x->words;
    return x->passes;
}

static uint64_t hash_of(uint64_t x) { return (x * 0x9E3779B97F4A7C15u) >> 48; }

static bool seen_grow(struct sectors *s)
{
    uint32_t cap = 4 * s->cap;
    uint64_t *old = s->at, *t = dt_calloc(cap, sizeof *t);
    if (!t)
        return false;
    for (uint32_t i = 0; i < s->cap; i++)
        if (old[i]) {
            uint64_t h = hash_of(old[i]);
            while (t[h & (cap - 1)])
                h++;
            t[h & (cap - 1)] = old[i];
        }
    free(old);
    s->at = t;
    s->cap = cap;
    return true;
}

/* Has the block not come to the sector yet? Of very many no more are told apart. */
static bool first_seen(struct sectors *s, uint64_t sector)
{
    uint64_t h = hash_of(sector);
    if (s->n > s->cap / 2 && (s->cap >= SEEN || !seen_grow(s)))
        return true;
    for (; s->at[h & (s->cap - 1)]; h++)
        if (s->at[h & (s->cap - 1)] == sector)
            return false;
    s->at[h & (s->cap - 1)] = sector;
    s->n++;
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void l1_unlink(struct sg_profiler *p, uint32_t i)
{
    struct line *x = &p->l1[i];
    *(x->newer == NO_LINE ? &p->newest : &p->l1[x->newer].older) = x->older;
    *(x->older == NO_LINE ? &p->oldest : &p->l1[x->older].newer) = x->newer;
}

static void l1_newest(struct sg_profiler *p, uint32_t i)
{
    p->l1[i].newer = NO_LINE;
    p->l1[i].older = p->newest;
    *(p->newest == NO_LINE ? &p->oldest : &p->l1[p->newest].newer) = i;
    p->newest = i;
}

static uint32_t *chain_of(struct sg_profiler *p, uint64_t line)
{
    return &p->chains[(line * 0x9E3779B97F4A7C15u) >> 53];
}

static void touch(struct sg_profiler *p, uint32_t line, bool missed)
{
    p->touched.line[p->touched.n] = line;
    p->touched.missed[p->touched.n++] = missed;
}

void sg_profile_under_way(struct sg_profiler *p, const int64_t at[CLOCKS], int64_t latency[CLOCKS])
{
    const int64_t miss[CLOCKS] = {p->l2_clocks, p->dram_clocks};
    for (uint32_t i = 0; i < p->touched.n; i++)
        for (unsigned k = 0; k < CLOCKS; k++) {
            int64_t *there = &p->l1[p->touched.line[i]].there[k], own = at[k] + miss[k];
            if (p->touched.missed[i] || own < *there)
                *there = own;
            if (*there - at[k] > latency[k])
                latency[k] = *there - at[k];
        }
}

/* A line is read; afterwards its sectors are there, and the line that was not used for longest is not. Returns those
 * that were missing. Which lines share a set is not modelled: times would depend on where buffers lie. */
static uint32_t l1_read(struct sg_profiler *p, uint64_t line, uint32_t sectors)
{
    uint32_t i = *chain_of(p, line), *at;
    while (i != NO_LINE && p->l1[i].tag != line)
        i = p->l1[i].chain;
    if (i != NO_LINE) {
        uint32_t missing = sectors & ~p->l1[i].sectors;
        p->l1[i].sectors |= sectors;
        l1_unlink(p, i);
        l1_newest(p, i);
        touch(p, i, missing != 0);
        return missing;
    }
    if (p->nline < p->lines) {
        i = p->nline++;
    } else {
        i = p->oldest;
        l1_unlink(p, i);
        for (at = chain_of(p, p->l1[i].tag); *at != i; at = &p->l1[*at].chain)
            ;
        *at = p->l1[i].chain;
    }
    at = chain_of(p, line);
    p->l1[i] = (struct line){.tag = line, .sectors = sectors, .chain = *at};
    *at = i;
    l1_newest(p, i);
    touch(p, i, true);
    return sectors;
}

void sg_profile_sort(struct sectors *s, uint32_t n)
{
    uint64_t *a = s->at, *b = n > 64 ? dt_malloc(n * sizeof *b) : NULL, differs = 0;
    for (uint32_t i = 1; i < n; i++)
        differs |= a[i] ^ a[0];
    if (!b) {
        qsort(a, n, sizeof *a, by_number);
        return;
    }
    for (unsigned shift = 0; shift < 64 && differs >> shift; shift += 8) { /* by the lowest digit first */
        uint32_t count[256] = {0}, sum = 0;
        if (!(differs >> shift & 0xFF))
            continue;
        for (uint32_t i = 0; i < n; i++)
            count[a[i] >> shift & 0xFF]++;
        for (unsigned k = 0; k < 256; k++) {
            uint32_t c = count[k];
            count[k] = sum;
            sum += c;
        }
        for (uint32_t i = 0; i < n; i++)
            b[count[a[i] >> shift & 0xFF]++] = a[i];
        uint64_t *t = a;
        a = b;
        b = t;
    }
    if (a != s->at) {
        memcpy(s->at, a, n * sizeof *a);
        b = a;
    }
    free(b);
}

bool sg_profile_global(struct sg_profiler *p, const struct sg_cost *c, const struct sg_op *op, const uint64_t *addr,
                       uint32_t mask, unsigned bytes, unsigned *ret_passes)
{
    uint64_t line[2 * SG_LANES];
    uint32_t sectors[2 * SG_LANES];
    unsigned n = 0, missing = 0, all = 0;
    uint64_t before = UINT64_MAX; /* the sector of the lane before, if it had one alone */
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t a = addr[__builtin_ctz(m)];
        if (a >> 5 == before && (a + bytes - 1) >> 5 == before)
            continue;
        before = (a + bytes - 1) >> 5 == a >> 5 ? a >> 5 : UINT64_MAX;
        for (uint64_t s = a >> 5; s <= (a + bytes - 1) >> 5; s++) {
            unsigned i = n ? n - 1 : 0;
            while (i < n && line[i] != s >> 2)
                i = i ? i - 1 : n;
            if (i >= n && n < 2 * SG_LANES) {
                i = n++;
                line[i] = s >> 2;
                sectors[i] = 0;
            }
            if (i < n)
                sectors[i] |= 1u << (s & 3);
        }
    }
    bool load = c->kind == SG_COST_LOAD || c->kind == SG_COST_COPY;
    for (unsigned i = 0; i < n; i++) {
        uint32_t miss = load && !c->bypass ? l1_read(p, line[i], sectors[i]) : sectors[i];
        all += (unsigned)__builtin_popcount(sectors[i]);
        missing += (unsigned)__builtin_popcount(miss);
        for (uint32_t s = miss; s; s &= s - 1) {
            bool first = first_seen(&p->seen[load ? READ : WRITTEN], (line[i] << 2 | (uint64_t)__builtin_ctz(s)) + 1);
            p->sum.again += load && !first;
        }
    }
    /* quarters of clocks: what meets in a bank, four lines' tags in a clock and a little more, the bytes */
    unsigned words = 0, banks = 4 * sg_profile_passes(p, op, addr, mask, bytes, &words),
             tags = n * p->costs->k->l1_line / 8, data = 4 * 4 * words / p->l1_bytes_clock;
    *ret_passes = banks > tags ? banks : tags;
    *ret_passes = data > *ret_passes ? data : *ret_passes;
    if (load)
        p->sum.l2_read += missing;
    else
        p->sum.l2_write += all;
    return !missing;
}

struct meet *sg_profile_meeting(const struct sg_profiler *p, uint64_t line)
{
    uint64_t h = hash_of(line);
    while (p->meet[h & (2 * MEET - 1)].count && p->meet[h & (2 * MEET - 1)].line != line)
        h++;
    return &p->meet[h & (2 * MEET - 1)];
}

static void profile_meet(struct sg_profiler *p, uint64_t line, unsigned n)
{
    if (!p->meet && !(p->meet = dt_calloc(2 * MEET, sizeof *p->meet)))
        return;
    struct meet *x = sg_profile_meeting(p, line);
    if (!x->count && p->nmeet++ >= MEET)
        return; /* the block has met too many to keep */
    x->line = line;
    x->count += n;
}

void sg_profile_atomics(struct sg_profiler *p, const struct sg_cost *c, const struct sg_op *op, const uint64_t *addr,
                        uint32_t mask)
{
    /* ptxas adds integers of a warp together first, where it sees that the address is the same and nobody wants the old
     * value */
    const struct sg_constants *con = p->costs->k;
    bool joined = c->uniform && c->kind == SG_COST_RED && op->sub + PTX_M_ADD == PTX_M_ADD &&
                  !ptx_type_is_float((enum ptx_type)op->type) && mask & (mask - 1);
    for (uint32_t m = mask & (mask - 1); m && joined; m &= m - 1)
        joined = addr[__builtin_ctz(m)] == addr[__builtin_ctz(mask)];
    mask = joined ? mask & (0u - mask) : mask;
    while (mask) {
        uint64_t line = addr[__builtin_ctz(mask)] / LINE;
        unsigned lanes[LINE / 32] = {0}, equals[LINE / 32] = {0}, most[LINE / 32] = {0}, clocks = 0;
        uint32_t mine = 0;
        for (uint32_t m = mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m), equal = 0;
            if (addr[l] / LINE != line)
                continue;
            mine |= 1u << l;
            unsigned i = addr[l] % LINE / 32;
            lanes[i]++;
            for (uint32_t o = mask; o; o &= o - 1)
                equal += addr[__builtin_ctz(o)] == addr[l];
            most[i] = equal > most[i] ? equal : most[i];
            equals[i] += equal > 1;
        }
        for (unsigned i = 0; i < LINE / 32; i++) {
            clocks += most[i];
            p->sum.atomics += (!lanes[i]      ? 0
                               : lanes[i] < 3 ? con->atomic_few
                                              : con->atomic_lane * lanes[i]) +
                              con->atomic_same * equals[i];
        }
        profile_meet(p, line, clocks);
        mask &= ~mine;
    }
}
