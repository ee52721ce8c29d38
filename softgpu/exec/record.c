/* Recording which bytes each block touches (record.h): calls of __dovetail_touch.
 *
 * A resident block has a bitmap for each plane of each range, with a bit for each granule, made at the first access.
 * `dirty` has a bit for each group of 64 words that may have bits at all, so the end of a block costs only what the
 * block touched. When a block ends, its bits become intervals and are cleared, and the memory serves the next block.
 *
 * The threads of a warp mostly touch one place, or places in a line. Then one comparison of all addresses is enough,
 * and the access is one run of bits. Otherwise runs are joined from thread to thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "softgpu/exec/exec-priv.h"

#define GROUP 64 /* words of a bitmap behind one bit of `dirty` */

struct sg_touch_map {
    uint64_t *bits, *dirty;
};

static uint64_t granules(const struct dovetail_recorder *r, const struct dovetail_touch_range *x)
{
    return ((x->bytes + x->base % 32) >> r->shift) + 33;
}

static uint64_t words_of(const struct dovetail_recorder *r, const struct dovetail_touch_range *x)
{
    return granules(r, x) / 64 + 1;
}

bool sg_record_ok(const struct dovetail_recorder *r)
{
    if (!r->touched || (r->nsite && !r->site) || (r->nrange && !r->range) || r->nplane > DOVETAIL_TOUCH_PLANES ||
        r->shift > 5)
        return false;
    for (uint32_t k = 0; k < r->nsite; k++) {
        const struct dovetail_touch_site *x = &r->site[k];
        if (!x->bytes || x->bytes > 32 || x->bytes & (x->bytes - 1) || (uint64_t)x->planes >> r->nplane ||
            (x->planes && x->bytes >> r->shift == 0))
            return false;
    }
    for (uint32_t k = 0; k < r->nrange; k++)
        if (r->range[k].base + r->range[k].bytes < r->range[k].base ||
            r->range[k].base + r->range[k].bytes > UINT64_MAX - 64)
            return false;
    return true;
}

int sg_record_start(struct sg_worker *wk)
{
    const struct dovetail_recorder *r = wk->run->l->record;
    wk->touched = r ? dt_calloc((size_t)r->nsite + 1, sizeof *wk->touched) : NULL;
    return r && !wk->touched ? DT_E_NOMEM : 0;
}

static void *out_of_memory(struct sg_warp *w)
{
    __atomic_store_n(&w->wk->run->stop, 3, __ATOMIC_RELAXED);
    return NULL;
}

/* The bitmap of a plane of a range; NULL: memory is out. */
static struct sg_touch_map *record_map_of(struct sg_warp *w, uint32_t range, uint32_t plane)
{
    const struct dovetail_recorder *r = w->wk->run->l->record;
    struct sg_block *b = w->blk;
    if (!b->touched && !(b->touched = dt_calloc((size_t)r->nrange * r->nplane, sizeof *b->touched)))
        return out_of_memory(w);
    struct sg_touch_map *m = &b->touched[(size_t)range * r->nplane + plane];
    if (!m->bits) {
        uint64_t words = words_of(r, &r->range[range]);
        m->bits = dt_calloc(words + words / GROUP / 64 + 1, 8);
        if (!m->bits)
            return out_of_memory(w);
        m->dirty = m->bits + words;
    }
    return m;
}

static inline void record_mark(struct sg_touch_map *m, uint64_t at, uint64_t n)
{
    while (n) {
        uint64_t k = n < 64 - at % 64 ? n : 64 - at % 64;
        m->bits[at / 64] |= (k == 64 ? ~0ull : (1ull << k) - 1) << at % 64;
        m->dirty[at / 64 / GROUP / 64] |= 1ull << at / 64 / GROUP % 64;
        at += k;
        n -= k;
    }
}

/* The threads of `lanes` touch `bytes` bytes at a[lane] + off, all inside range `number`. */
static void record(struct sg_warp *w, const struct dovetail_touch_site *site, uint32_t number, const uint64_t *a,
                   uint64_t off, uint32_t lanes)
{
    const struct dovetail_recorder *r = w->wk->run->l->record;
    const struct dovetail_touch_range *x = &r->range[number];
    struct sg_touch_map *map[DOVETAIL_TOUCH_PLANES];
    const uint64_t key = x->base - x->base % 32 - off, n = site->bytes >> r->shift;
    unsigned planes = 0;
    for (uint32_t p = site->planes; p; p &= p - 1)
        if (!(map[planes++] = record_map_of(w, number, (uint32_t)__builtin_ctz(p))))
            return;
    uint64_t same = 0, line = 0;
    for (unsigned l = 0; l < SG_LANES && lanes == SG_ALL; l++) {
        uint64_t d = a[l] - a[0];
        same |= d;
        line |= d ^ (uint64_t)l * site->bytes;
    }
    uint64_t low = (a[0] + off) % site->bytes, at = (a[0] - key) >> r->shift;
    if (lanes == SG_ALL && !low && (!same || !line)) {
        for (unsigned p = 0; p < planes; p++)
            record_mark(map[p], at, same ? n * SG_LANES : n);
        return;
    }
    uint64_t from = 0, to = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        at = (a[__builtin_ctz(m)] - key) >> r->shift;
        uint64_t end = at + (n < 32 - at % 32 ? n : 32 - at % 32); /* one that is misaligned never happens */
        if (at <= to && at >= from) {
            to = end > to ? end : to;
            continue;
        }
        for (unsigned p = 0; p < planes && to > from; p++)
            record_mark(map[p], from, to - from);
        from = at, to = end;
    }
    for (unsigned p = 0; p < planes; p++)
        record_mark(map[p], from, to - from);
}

static const struct sg_op *stray(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr,
                                 uint32_t bytes)
{
    if (!w->wk->fault)
        w->wk->stray_site = op->x + 1;
    return sg_fault_at(w, op, DT_E_BOUNDS, lane, addr, bytes, "%u bytes at 0x%llx are in none of the recorder's ranges",
                       bytes, (unsigned long long)addr);
}

const struct sg_op *sg_touch(struct sg_warp *w, const struct sg_op *op)
{
    const struct dovetail_recorder *r = w->wk->run->l->record;
    const uint64_t *a = SG_P(uint64_t, op->a), off = (uint64_t)op->imm;
    const unsigned how = op->sub & DOVETAIL_TOUCH_HOW;
    uint32_t left = w->mask;
    if (!r || op->x >= r->nsite)
        return sg_fault_at(w, op, DT_E_UNSUPPORTED, (unsigned)__builtin_ctz(left), 0, 0,
                           "there is nothing that records it");
    const struct dovetail_touch_site *site = &r->site[op->x];
    const uint64_t n = site->bytes;
    if (op->sub & DOVETAIL_TOUCH_GENERIC)
        for (unsigned l = 0; l < SG_LANES; l++)
            left &= ~((uint32_t)((a[l] + off) >> SG_WINDOW_SHIFT != 0) << l);
    if (op->sub & DOVETAIL_TOUCH_ALIGNED)
        for (uint32_t m = left; m; m &= m - 1)
            if ((a[__builtin_ctz(m)] + off) & (n - 1))
                return stray(w, op, (unsigned)__builtin_ctz(m), a[__builtin_ctz(m)] + off, site->bytes);
    uint32_t *last = &w->wk->touched[op->x];
    while (left) {
        uint32_t in = 0;
        if (*last < r->nrange && r->range[*last].bytes >= n) {
            const uint64_t from = r->range[*last].base - off, most = r->range[*last].bytes - n;
            for (unsigned l = 0; l < SG_LANES; l++)
                in |= (uint32_t)(a[l] - from <= most) << l;
            in &= left;
        }
        if (!in) { /* another range */
            unsigned lane = (unsigned)__builtin_ctz(left);
            uint64_t at = a[lane] + off;
            uint32_t k = 0;
            while (k < r->nrange &&
                   (at - r->range[k].base >= r->range[k].bytes || n > r->range[k].bytes - (at - r->range[k].base)))
                k++;
            if (k < r->nrange)
                *last = k;
            else if (how != DOVETAIL_TOUCH_AHEAD)
                return stray(w, op, lane, at, site->bytes);
            else
                left &= left - 1;
            continue;
        }
        left &= ~in;
        const struct dovetail_touch_range *x = &r->range[*last];
        if (how == DOVETAIL_TOUCH_BOUNDS && site->writes && x->fixed)
            return stray(w, op, (unsigned)__builtin_ctz(in), a[__builtin_ctz(in)] + off, site->bytes);
        if (how != DOVETAIL_TOUCH_BOUNDS && x->recorded && site->planes)
            record(w, site, *last, a, off, in);
    }
    return op + 1;
}

/* The runs of set bits of a map, as bytes of its range; the bits are cleared. False: memory is out. */
static bool record_take(const struct dovetail_recorder *r, const struct dovetail_touch_range *x, struct sg_touch_map *m,
                        struct sg_runs *runs)
{
    const uint64_t words = words_of(r, x), pad = x->base % 32;
    runs->n = 0;
    for (uint64_t d = 0; d <= (words - 1) / GROUP / 64; d++)
        for (uint64_t dirty = m->dirty[d]; dirty; dirty &= dirty - 1) {
            uint64_t first = (d * 64 + (unsigned)__builtin_ctzll(dirty)) * GROUP,
                     last = first + GROUP < words ? first + GROUP : words;
            for (uint64_t i = first; i < last; i++) {
                uint64_t v = m->bits[i];
                for (unsigned at = 0; v;) {
                    unsigned zeros = (unsigned)__builtin_ctzll(v);
                    v >>= zeros;
                    unsigned ones = ~v ? (unsigned)__builtin_ctzll(~v) : 64;
                    uint64_t lo = i * 64 + at + zeros, hi = lo + ones;
                    if (runs->n && runs->p[runs->n - 1].run[1] == lo)
                        runs->p[runs->n - 1].run[1] = hi;
                    else if (!dt_push(runs, (struct sg_interval){{lo, hi}}))
                        return false;
                    at += zeros + ones;
                    v = ones < 64 ? v >> ones : 0;
                }
                m->bits[i] = 0;
            }
        }
    memset(m->dirty, 0, ((words - 1) / GROUP / 64 + 1) * sizeof *m->dirty);
    size_t n = 0;
    for (size_t i = 0; i < runs->n; i++) {
        uint64_t lo = runs->p[i].run[0] << r->shift, hi = (runs->p[i].run[1] << r->shift) - pad;
        lo = lo < pad ? 0 : lo - pad;
        hi = hi < x->bytes ? hi : x->bytes;
        if (lo < hi)
            runs->p[n++] = (struct sg_interval){{lo, hi}};
    }
    runs->n = n;
    return true;
}

void sg_record_block(struct sg_block *b)
{
    struct sg_run *run = b->wk->run;
    const struct dovetail_recorder *r = run->l->record;
    for (uint32_t x = 0; b->touched && x < r->nrange; x++)
        for (uint32_t p = 0; p < r->nplane; p++) {
            struct sg_touch_map *m = &b->touched[(size_t)x * r->nplane + p];
            if (!m->bits)
                continue;
            if (!record_take(r, &r->range[x], m, &b->wk->runs)) {
                __atomic_store_n(&run->stop, 3, __ATOMIC_RELAXED);
                return;
            }
            if (!b->wk->runs.n)
                continue;
            pthread_mutex_lock(&run->recording);
            r->touched(r->user, b->linear, x, p, (const uint64_t(*)[2])(const void *)b->wk->runs.p, b->wk->runs.n);
            pthread_mutex_unlock(&run->recording);
        }
}

void sg_record_free(struct sg_block *b)
{
    const struct dovetail_recorder *r = b->wk ? b->wk->run->l->record : NULL;
    for (size_t i = 0; r && b->touched && i < (size_t)r->nrange * r->nplane; i++)
        free(b->touched[i].bits);
    free(b->touched);
    b->touched = NULL;
}

void sg_record_end(struct sg_worker *wk)
{
    free(wk->touched);
    free(wk->runs.p);
}

void sg_record_stray(const struct sg_launch *l, const struct sg_worker *wk)
{
    const struct sg_fault *f = &wk->f;
    struct dovetail_stray *s = &l->record->stray;
    *s = (struct dovetail_stray){.found = 1, .site = wk->stray_site - 1, .address = f->address};
    memcpy(s->thread, f->thread, sizeof s->thread);
    s->block = f->block[0] + (uint64_t)l->grid[0] * (f->block[1] + (uint64_t)l->grid[1] * f->block[2]);
}
