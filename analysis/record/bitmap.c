/* Bitmaps: what an instrumented launch touched, from bits to intervals.
 *
 * A bit stands for a granule of a buffer, in a plane (kind and evidence) of a block. Where all bitmaps fit into the
 * memory that the recorder may use, one pass fills them. Else they are paged: a pass with coarse bitmaps, in which a
 * bit stands for a page, shows which pages each block touches; then these pages alone have memory, for as many blocks
 * at a time as fit, and each such window of blocks is a pass.
 */
#include "analysis/record/launch-priv.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/subject.h"

#define WHOLE (UINT64_C(128) << 20) /* bitmaps over this are paged */

struct runs { /* of set bits, by number in the plane */
    struct ana_interval *iv;
    size_t n, cap;
};

/* Append the runs of set bits in [from, to); w[0] holds bit `base` (a multiple of 32) and the next. */
static int scan(struct runs *r, const uint32_t *w, uint64_t base, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to;) {
        uint32_t v = w[(at - base) / 32] >> at % 32;
        if (!v) {
            at = (at / 32 + 1) * 32;
            continue;
        }
        at += (uint64_t)__builtin_ctz(v);
        uint64_t first = at;
        while (at < to) {
            v = ~(w[(at - base) / 32] >> at % 32);
            unsigned run = v ? (unsigned)__builtin_ctz(v) : 32, left = 32 - at % 32;
            if (run < left) {
                at += run;
                break;
            }
            at += left;
        }
        if (at > to)
            at = to;
        if (first >= to)
            break;
        if (r->n && r->iv[r->n - 1].hi == first) { /* from the page before */
            r->iv[r->n - 1].hi = at;
            continue;
        }
        if (!dt_vec_grow_((void **)&r->iv, &r->cap, r->n + 1, sizeof *r->iv))
            return DT_E_NOMEM;
        r->iv[r->n++] = (struct ana_interval){first, at};
    }
    return 0;
}

/* Runs of buffer i of the job, as bytes of the buffer, into the footprint. */
static int bitmap_flush(struct ana_rec *s, struct ana_job *j, struct runs *r, uint32_t i, uint32_t block, unsigned k,
                        unsigned ev)
{
    uint32_t b = j->buffer[i];
    uint64_t bytes = s->bytes[b], pad = s->addr[b] % 32;
    unsigned shift = j->v->code.shift;
    size_t n = 0;
    for (size_t q = 0; q < r->n; q++) {
        uint64_t lo = (r->iv[q].lo - j->bit[i]) << shift, hi = ((r->iv[q].hi - j->bit[i]) << shift) - pad;
        lo = lo < pad ? 0 : lo - pad;
        hi = hi > bytes ? bytes : hi;
        if (lo < hi)
            r->iv[n++] = (struct ana_interval){lo, hi};
    }
    r->n = 0;
    if (n && k != ANA_READ && protected_buffer(s, b))
        return refuse_write(s, j->l, b);
    return n ? ana_foot_add(j->foot, block, b, k, ev, r->iv, (uint32_t)n) : 0;
}

static uint64_t bits_of(const struct ana_rec *s, const struct ana_job *j, uint32_t i)
{
    return ((s->bytes[j->buffer[i]] + s->addr[j->buffer[i]] % 32) >> j->v->code.shift) + 1;
}

/* One plane of one block. Whole: `word` is the plane. Paged: dir[p] is the number of page p among the pages at `word`,
 * 0: none. */
static int read_plane(struct ana_rec *s, struct ana_job *j, struct runs *r, const uint32_t *word, const uint32_t *dir,
                      unsigned page_shift, uint32_t block, unsigned k, unsigned ev)
{
    int rc = 0;
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++) {
        uint64_t lo = j->bit[i], hi = lo + bits_of(s, j, i);
        if (!dir)
            rc = scan(r, word, 0, lo, hi);
        for (uint64_t p = lo >> page_shift; dir && p << page_shift < hi && !rc; p++) {
            uint64_t from = p << page_shift, to = (p + 1) << page_shift;
            if (dir[p])
                rc = scan(r, word + ((uint64_t)dir[p] << page_shift) / 32, from, lo > from ? lo : from,
                          hi < to ? hi : to);
        }
        if (!rc)
            rc = bitmap_flush(s, j, r, i, block, k, ev);
    }
    return rc;
}

/* All planes of `count` blocks whose bitmaps lie one after the other at `word`, or are paged through `dir`. */
static int read_blocks(struct ana_rec *s, struct ana_job *j, const uint32_t *word, const uint32_t *dir, uint64_t pages,
                       unsigned page_shift, uint32_t first, uint32_t count)
{
    const struct ana_code *c = &j->v->code;
    struct runs r = {0};
    int rc = 0;
    for (uint64_t b = 0; b < count && !rc; b++)
        for (unsigned k = 0; k < ANA_KINDS; k++)
            for (unsigned ev = 0; ev < ANA_EVIDENCES && !rc; ev++) {
                if (c->plane[k][ev] < 0)
                    continue;
                uint64_t plane = b * c->nplane + (unsigned)c->plane[k][ev];
                rc = read_plane(s, j, &r, dir ? word : word + plane * j->plane_bytes / 4,
                                dir ? dir + plane * pages : NULL, page_shift, first + (uint32_t)b, k, ev);
            }
    free(r.iv);
    return rc;
}

/* All blocks at once, whole bitmaps. */
static int bitmap_whole(struct ana_rec *s, struct ana_job *j, uint64_t stride)
{
    uint32_t blocks = j->step->blocks;
    uint64_t bytes = stride * blocks;
    int rc = ana_job_need(s, &s->arena, &s->arena_bytes, bytes + 16);
    bool logs = j->v->code.logs;
    if (!rc && logs)
        rc = ana_job_clear_log(s);
    struct ana_ctl ctl = {.rec = s->arena,
                          .stride = stride,
                          .plane = j->plane_bytes,
                          .count = bytes || logs ? blocks : 0,
                          .mask = ~0u,
                          .log = logs ? s->log : 0};
    if (!rc)
        rc = ana_job_pass(s, j, ctl, s->arena, bytes, NULL);
    uint32_t *word = rc || !bytes ? NULL : dt_malloc(bytes);
    if (!rc && bytes)
        rc = word ? dev_download(s->d, word, s->arena, bytes, s->e) : DT_E_NOMEM;
    if (!rc && bytes)
        rc = read_blocks(s, j, word, NULL, 0, 0, 0, blocks);
    free(word);
    return rc;
}

/* Blocks [first, first + count) with the pages that coarse bits (of these blocks, one after the other) say they touch.
 */
static int fine(struct ana_rec *s, struct ana_job *j, const uint32_t *coarse, uint64_t coarse_words, uint64_t pages,
                unsigned ps, uint32_t first, uint32_t count, uint64_t npage)
{
    unsigned nplane = j->v->code.nplane;
    uint64_t dir_bytes = count * nplane * pages * 4, page_bytes = (UINT64_C(1) << ps) / 8,
             at = (dir_bytes + 511) / 512 * 512;
    uint64_t bytes = (npage + 1) * page_bytes;
    uint32_t *dir = dt_calloc(dir_bytes ? dir_bytes : 1, 1), *word = dt_malloc(bytes), number = 0;
    int rc = dir && word && npage < UINT32_MAX ? 0 : DT_E_NOMEM;
    for (uint64_t q = 0; q < (uint64_t)count * nplane && !rc; q++)
        for (uint64_t w = 0; w < coarse_words; w++)
            for (uint32_t v = coarse[q * coarse_words + w]; v; v &= v - 1)
                dir[q * pages + w * 32 + (unsigned)__builtin_ctz(v)] = ++number;
    if (!rc)
        rc = ana_job_need(s, &s->arena, &s->arena_bytes, at + bytes);
    if (!rc)
        rc = dev_upload(s->d, s->arena, dir, dir_bytes, s->e);
    if (!rc && j->v->code.logs)
        rc = ana_job_clear_log(s);
    struct ana_ctl ctl = {.rec = s->arena,
                          .log = j->v->code.logs ? s->log : 0,
                          .stride = nplane * pages * 4,
                          .plane = pages * 4,
                          .first = first,
                          .count = count,
                          .mask = ~0u,
                          .page_shift = ps,
                          .pages = s->arena + at};
    if (!rc)
        rc = ana_job_pass(s, j, ctl, s->arena + at, bytes, NULL);
    if (!rc)
        rc = dev_download(s->d, word, s->arena + at, bytes, s->e);
    /* page 0 catches what the first pass did not see; what is widened in the end may differ */
    for (uint64_t k = 0; k < page_bytes / 4 && !rc && !j->over; k++)
        if (word[k])
            rc = dt_err_set(s->e, DT_E_RACE,
                            "launch " DT_LAUNCH_BARE " touches other bytes when it is run again on the same data",
                            j->l->name);
    if (!rc)
        rc = read_blocks(s, j, word, dir, pages, ps, first, count);
    free(dir);
    free(word);
    return rc;
}

/* Two passes over windows of blocks: which pages each block touches, then these pages. */
static int paged(struct ana_rec *s, struct ana_job *j)
{
    unsigned ps = 5, nplane = j->v->code.nplane;
    uint64_t bits = j->plane_bytes * 8, blocks = j->step->blocks;
    while (ps < 20 && (UINT64_C(1) << 2 * ps) < 32 * bits) /* directory and one page of about the same size */
        ps++;
    uint64_t pages = (bits >> ps) + 1, words = (pages + 31) / 32, stride = nplane * words * 4;
    uint64_t per = s->limit / stride < 1 ? 1 : s->limit / stride < blocks ? s->limit / stride : blocks;
    uint64_t page_bytes = (UINT64_C(1) << ps) / 8, dir = nplane * pages * 4;
    uint32_t *coarse = dt_malloc(per * stride);
    int rc = coarse ? ana_job_take(s, j, &j->snap) : DT_E_NOMEM;
    for (uint64_t first = 0; first < blocks && !rc; first += per) {
        uint64_t n = blocks - first < per ? blocks - first : per;
        rc = ana_job_need(s, &s->arena, &s->arena_bytes, n * stride);
        struct ana_ctl ctl = {.rec = s->arena,
                              .stride = stride,
                              .plane = words * 4,
                              .first = (uint32_t)first,
                              .count = (uint32_t)n,
                              .coarse = ps,
                              .mask = 1};
        if (!rc)
            rc = ana_job_pass(s, j, ctl, s->arena, n * stride, NULL);
        if (!rc)
            rc = dev_download(s->d, coarse, s->arena, n * stride, s->e);
        for (uint64_t b = 0, from = 0, held = 0; b < n && !rc; b++) {
            uint64_t mine = 0;
            for (uint64_t w = 0; w < nplane * words; w++)
                mine += (unsigned)__builtin_popcount(coarse[b * nplane * words + w]);
            if (b > from && (b + 1 - from) * dir + (held + mine + 1) * page_bytes > s->limit) {
                rc = fine(s, j, coarse + from * nplane * words, words, pages, ps, (uint32_t)(first + from),
                          (uint32_t)(b - from), held);
                from = b;
                held = 0;
            }
            held += mine;
            if (b + 1 == n && !rc)
                rc = fine(s, j, coarse + from * nplane * words, words, pages, ps, (uint32_t)(first + from),
                          (uint32_t)(n - from), held);
        }
    }
    free(coarse);
    ana_job_drop(j, &j->snap);
    return rc;
}

int ana_job_bitmaps(struct ana_rec *s, struct ana_job *j)
{
    uint64_t stride = j->v->code.nplane * j->plane_bytes, most = s->limit < WHOLE ? s->limit : WHOLE;
    bool once = !stride || stride <= most / j->step->blocks;
    for (uint32_t i = 0; i < 2 * j->ntab; i++) {
        struct ana_tab *t = &j->tab[i];
        t->fast = once && t->bit != UINT64_MAX ? t->bytes : 0;
        t->key = t->base - t->pad - (t->bit << j->v->code.shift);
    }
    int rc = ana_job_need(s, &s->tab, &s->tab_bytes, 2 * j->ntab * sizeof *j->tab);
    if (!rc)
        rc = dev_upload(s->d, s->tab, j->tab, 2 * j->ntab * sizeof *j->tab, s->e);
    if (rc)
        return rc;
    return once ? bitmap_whole(s, j, stride) : paged(s, j);
}
