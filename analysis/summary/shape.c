/* From the accesses of a walk to footprints: which bytes, exactly.
 *
 * A record is a site that was walked once: an address for each thread that took part, the steps by which it moves with
 * rounds of loops and with the block number, and how many rounds there are. Threads that move alike are taken together.
 * Their addresses become runs of bytes. Then each loop, smallest step first, either prolongs the runs (if its step is
 * no longer than they are) or repeats them. Example: 32 threads that load 4 bytes each side by side are one run of 128
 * bytes; a loop of 8 rounds with step 128 makes one run of 1024 bytes of it, with step 4096 eight runs of 128. Nothing
 * is rounded up: what comes out is the set of bytes touched, as intervals.
 *
 * Runs that move alike with the block number are gathered in a plane (memory, kind, evidence, steps), as block 0 of the
 * box has them. Each block's footprint is the union of its planes, moved; blocks that differ in a number by which
 * nothing moves share theirs.
 *
 * Held in `iv` of a plane is offset + BIAS, because blocks move the runs, and block 0's own offset may be negative.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/summary/summary-priv.h"
#include "base/radix.h"

#define BIAS (UINT64_C(1) << 63)
#define FAR ((__int128)1 << 60)
#define MOST (UINT64_C(1) << 25) /* intervals of a plane */

/* ---- records ----------------------------------------------------------------------------------------------------- */
void ana_rec_add(struct ana_sum *s, uint32_t site, const struct ana_form *x, int64_t off)
{
    struct ana_access_rec r = {.site = site};
    for (uint32_t l = 0; l < s->n; l++)
        r.n += s->mask[l];
    if (!r.n)
        return;
    if (!x->points) {
        ana_cannot(s, "an address that is not of a buffer");
        return;
    }
    if (s->rec_arena.used > UINT64_C(256) << 20) {
        ana_cannot(s, "too many accesses in a loop");
        return;
    }
    r.base = dt_new_array(&s->rec_arena, int64_t, r.n);
    r.mem = dt_new_array(&s->rec_arena, uint32_t, r.n);
    r.lane = dt_new_array(&s->rec_arena, uint16_t, (size_t)s->n + 1);
    for (unsigned d = 0; d < ANA_DIMS; d++)
        if (x->dims >> d & 1) {
            r.step[d] = dt_new_array(&s->rec_arena, int64_t, r.n);
            r.dims |= (uint8_t)(1u << d);
        }
    if (s->in->trace)
        r.times = dt_new_array(&s->rec_arena, int64_t, r.n);
    if (s->in->trace && s->frame) {
        r.loop = s->frame->up || s->frame->dim < 0 ? UINT32_MAX
                                                   : s->code->cfg->block[s->loop[s->frame->loop].header].first + 1;
        r.round = dt_new_array(&s->rec_arena, int64_t, r.n);
    }
    if (s->rec_arena.failed || !dt_reserve(&s->rec, s->rec.n + 1)) {
        s->oom = true;
        return;
    }
    bool astray = false;
    const uint8_t *mask = s->mask;
    for (uint32_t l = 0, k = 0, n = s->n; l < n; l++) { /* what lanes outside the mask have is written over */
        r.lane[k] = (uint16_t)l;
        k += mask[l];
    }
    for (uint32_t k = 0; k < r.n; k++) {
        uint32_t l = r.lane[k];
        astray |= !x->mem[l];
        r.base[k] = (int64_t)((uint64_t)x->base[l] + (uint64_t)off);
        r.mem[k] = x->mem[l] - 1;
        if (r.times)
            r.times[k] = 1;
        if (r.round)
            r.round[k] = s->frame->done[l];
    }
    for (unsigned d = 0; d < ANA_DIMS; d++)
        for (uint32_t k = 0; r.dims >> d & 1 && k < r.n; k++)
            r.step[d][k] = ana_step(x, d, r.lane[k]);
    if (astray)
        ana_cannot(s, "an address that is not of a buffer");
    s->rec.p[s->rec.n++] = r;
}

void ana_rec_close(struct ana_sum *s, size_t from, unsigned d)
{
    for (size_t i = from; i < s->rec.n; i++) {
        struct ana_access_rec *r = &s->rec.p[i];
        bool some = false;
        for (uint32_t k = 0; r->times && k < r->n; k++)
            r->times[k] *= s->count[d][r->lane[k]];
        for (uint32_t k = 0; r->dims >> d & 1 && k < r->n && !some; k++)
            some = r->step[d][k] && s->count[d][r->lane[k]] > 1;
        if (!some) {
            r->dims &= (uint8_t) ~(1u << d);
            continue;
        }
        r->count[d] = dt_new_array(&s->rec_arena, int64_t, r->n);
        if (!r->count[d]) {
            s->oom = true;
            return;
        }
        for (uint32_t k = 0; k < r->n; k++)
            r->count[d][k] = s->count[d][r->lane[k]];
    }
}

/* ---- one group of lanes to runs ---------------------------------------------------------------------------------- */
struct runs dt_vec(struct ana_interval);

static void shape_append(struct ana_sum *s, struct runs *r, uint64_t lo, uint64_t hi)
{
    if (r->n && lo <= r->p[r->n - 1].hi && lo >= r->p[r->n - 1].lo) {
        if (hi > r->p[r->n - 1].hi)
            r->p[r->n - 1].hi = hi;
    } else if (!dt_push(r, (struct ana_interval){lo, hi})) {
        s->oom = true;
    }
}

static void tidy(struct runs *r)
{
    size_t k = 1;
    while (k < r->n && r->p[k - 1].hi < r->p[k].lo)
        k++;
    if (k < r->n)
        r->n = ana_intervals_normalise(r->p, r->n);
}

/* r, and r moved by step, 2 * step … (count - 1) * step. */
static void repeat(struct ana_sum *s, struct runs *r, int64_t step, int64_t count)
{
    __int128 way = (__int128)step * (count - 1);
    if (!step || count < 2 || !r->n)
        return;
    if (way > FAR || way < -FAR) {
        ana_cannot(s, "an access that goes too far");
        return;
    }
    for (size_t i = 0; step < 0 && i < r->n; i++)
        r->p[i].lo += (uint64_t)way, r->p[i].hi += (uint64_t)way;
    uint64_t by = step < 0 ? (uint64_t)0 - (uint64_t)step : (uint64_t)step, all = by * (uint64_t)(count - 1);
    size_t n = r->n, longer = 0;
    bool apart = r->p[n - 1].hi - r->p[0].lo <= by;
    for (size_t i = 0; i < n; i++)
        longer += by <= r->p[i].hi - r->p[i].lo;
    if (longer < n && (uint64_t)(n - longer) * (uint64_t)count > MOST) {
        ana_cannot(s, "an access of too many pieces");
        return;
    }
    struct runs out = {0};
    if (!dt_reserve(&out, longer + (n - longer) * (size_t)count)) {
        s->oom = true;
        return;
    }
    if (!longer && apart) {
        for (uint64_t k = 0; k < (uint64_t)count; k++)
            for (size_t i = 0; i < n; i++)
                shape_append(s, &out, r->p[i].lo + k * by, r->p[i].hi + k * by);
    } else {
        for (size_t i = 0; i < n; i++) {
            bool fold = by <= r->p[i].hi - r->p[i].lo;
            for (uint64_t k = 0; k < (fold ? 1 : (uint64_t)count); k++)
                out.p[out.n++] = (struct ana_interval){r->p[i].lo + k * by, r->p[i].hi + k * by + (fold ? all : 0)};
        }
        tidy(&out);
    }
    free(r->p);
    *r = out;
}

static struct ana_plane *find_plane(struct ana_sum *s, uint32_t mem, unsigned kind, unsigned ev, const int64_t *step)
{
    for (size_t i = s->plane.n; i-- > 0;) {
        struct ana_plane *p = &s->plane.p[i];
        if (p->mem == mem && p->kind == kind && p->ev == ev && !memcmp(p->step, step, sizeof p->step))
            return p;
    }
    struct ana_plane p = {.mem = mem, .kind = (uint8_t)kind, .ev = (uint8_t)ev};
    memcpy(p.step, step, sizeof p.step);
    if (!dt_push(&s->plane, p)) {
        s->oom = true;
        return NULL;
    }
    return &s->plane.p[s->plane.n - 1];
}

static void tidy_plane(struct ana_plane *p)
{
    if (p->iv.n != p->tidy) {
        size_t k = 1;
        while (k < p->iv.n && p->iv.p[k - 1].hi < p->iv.p[k].lo)
            k++;
        if (k < p->iv.n)
            p->iv.n = ana_intervals_normalise(p->iv.p, p->iv.n);
    }
    p->tidy = p->iv.n;
}

static void add_runs(struct ana_sum *s, const struct ana_access_rec *r, uint32_t mem, const int64_t *step,
                     const struct runs *v)
{
    unsigned kinds = s->code->kinds[r->site];
    uint32_t bytes = s->code->sites.site[r->site].bytes;
    for (unsigned q = 0; q < ANA_KINDS; q++) {
        if (!(kinds >> q & 1))
            continue;
        struct ana_plane *p = find_plane(s, mem, q, s->code->evidence[r->site * ANA_KINDS + q], step);
        if (!p || !dt_reserve(&p->iv, p->iv.n + v->n)) {
            s->oom = true;
            return;
        }
        if (bytes > p->width)
            p->width = bytes;
        memcpy(p->iv.p + p->iv.n, v->p, v->n * sizeof *v->p);
        p->iv.n += v->n;
        if (p->iv.n > 2 * p->tidy + 4096)
            tidy_plane(p);
        if (p->iv.n > 2 * MOST)
            ana_cannot(s, "a footprint of too many pieces");
    }
}

struct lanes {
    const struct ana_access_rec *r;
    uint32_t k;
};

static bool same_numbers(const int64_t *v, uint32_t n)
{
    int64_t differ = 0;
    for (uint32_t k = 0; k < n; k++)
        differ |= v[k] ^ v[0];
    return !differ;
}

/* Are all lanes of the record in one memory, and do they move alike? */
static bool all_alike(const struct ana_access_rec *r)
{
    uint32_t differ = 0;
    for (uint32_t k = 0; k < r->n; k++)
        differ |= r->mem[k] ^ r->mem[0];
    bool alike = !differ;
    for (unsigned d = 0; d < ANA_DIMS && alike; d++)
        if (r->dims >> d & 1)
            alike = same_numbers(r->step[d], r->n) && (d < ANA_BLOCK_DIMS || same_numbers(r->count[d], r->n));
    return alike;
}

static int64_t count_of(const struct ana_access_rec *r, unsigned d, uint32_t k)
{
    return d >= ANA_BLOCK_DIMS && r->dims >> d & 1 ? r->count[d][k] : 1;
}

static int compare_lanes(const struct ana_access_rec *r, uint32_t a, uint32_t b)
{
    if (r->mem[a] != r->mem[b])
        return r->mem[a] < r->mem[b] ? -1 : 1;
    for (unsigned d = 0; d < ANA_DIMS; d++) {
        if (!(r->dims >> d & 1))
            continue;
        if (r->step[d][a] != r->step[d][b])
            return r->step[d][a] < r->step[d][b] ? -1 : 1;
        if (count_of(r, d, a) != count_of(r, d, b))
            return count_of(r, d, a) < count_of(r, d, b) ? -1 : 1;
    }
    return 0;
}

DT_RADIX(by_base, struct lanes, (uint64_t)x->r->base[x->k] ^ BIAS)

static int by_move(const void *a, const void *b)
{
    const struct lanes *x = a, *y = b;
    int c = compare_lanes(x->r, x->k, y->k);
    return c ? c : x->r->base[x->k] < y->r->base[y->k] ? -1 : x->r->base[x->k] > y->r->base[y->k];
}

/* Lanes at[0..n) move alike. */
static void shape_group(struct ana_sum *s, const struct ana_access_rec *r, const struct lanes *at, uint32_t n)
{
    const uint64_t bytes = s->code->sites.site[r->site].bytes;
    uint32_t first = at[0].k;
    int64_t block[ANA_BLOCK_DIMS] = {0};
    struct runs v = {0};
    unsigned order[ANA_DIMS], nloop = 0;
    for (uint32_t k = 0; k < n && !s->no; k++) {
        int64_t lo = r->base[at[k].k];
        if (lo > FAR || lo < -FAR)
            ana_cannot(s, "an address that is too far");
        else if (lo % (int64_t)bytes)
            ana_cannot(s, "a misaligned address");
        shape_append(s, &v, (uint64_t)lo + BIAS, (uint64_t)lo + BIAS + bytes);
    }
    for (unsigned d = 0; d < ANA_DIMS; d++) {
        if (!(r->dims >> d & 1) || !r->step[d][first])
            continue;
        if (d < ANA_BLOCK_DIMS) {
            block[d] = r->step[d][first];
            continue;
        }
        if (r->count[d][first] < 2)
            continue;
        if (r->step[d][first] % (int64_t)bytes)
            ana_cannot(s, "a misaligned address");
        unsigned k = nloop++;
        for (; k && llabs(r->step[order[k - 1]][first]) > llabs(r->step[d][first]); k--)
            order[k] = order[k - 1];
        order[k] = d;
    }
    for (unsigned k = 0; k < nloop && !s->no && !s->oom; k++)
        repeat(s, &v, r->step[order[k]][first], r->count[order[k]][first]);
    if (!s->no && !s->oom)
        add_runs(s, r, r->mem[first], block, &v);
    free(v.p);
}

void ana_rec_flush(struct ana_sum *s)
{
    struct lanes *at = dt_reallocarray(NULL, (size_t)s->n + 1, sizeof *at);
    s->oom |= !at;
    for (size_t i = s->flushed; i < s->rec.n && !s->no && !s->oom; i++) {
        const struct ana_access_rec *r = &s->rec.p[i];
        bool alike = all_alike(r), sorted = true;
        for (uint32_t k = 0; k < r->n; k++)
            at[k] = (struct lanes){r, k};
        if (alike) {
            s->oom |= !by_base(at, r->n);
            shape_group(s, r, at, r->n);
            continue;
        }
        for (uint32_t k = 1; k < r->n && sorted; k++)
            sorted = by_move(&at[k - 1], &at[k]) <= 0;
        if (!sorted)
            qsort(at, r->n, sizeof *at, by_move);
        for (uint32_t k = 0; k < r->n;) {
            uint32_t end = k + 1;
            while (end < r->n && !compare_lanes(r, at[k].k, at[end].k))
                end++;
            shape_group(s, r, at + k, end - k);
            k = end;
        }
    }
    free(at);
    if (s->in->trace) {
        s->flushed = s->rec.n;
        return;
    }
    s->rec.n = 0;
    dt_arena_done(&s->rec_arena);
}

/* ---- planes to footprints ---------------------------------------------------------------------------------------- */
void ana_planes_drop(struct ana_sum *s)
{
    for (size_t i = 0; i < s->plane.n; i++)
        free(s->plane.p[i].iv.p);
    s->plane.n = 0;
}

static int by_plane(const void *a, const void *b)
{
    const struct ana_plane *x = a, *y = b;
    if (x->mem != y->mem)
        return x->mem < y->mem ? -1 : 1;
    return x->kind * ANA_EVIDENCES + x->ev - (y->kind * ANA_EVIDENCES + y->ev);
}

/* Every access of every block of the box inside its memory, aligned, and allowed? */
static bool shape_fits(struct ana_sum *s, const struct ana_plane *p)
{
    const struct ana_mem *m = &s->in->mem[p->mem];
    __int128 lo = (__int128)p->iv.p[0].lo - BIAS, hi = (__int128)p->iv.p[p->iv.n - 1].hi - BIAS;
    for (unsigned d = 0; d < ANA_BLOCK_DIMS; d++) {
        __int128 way = (__int128)p->step[d] * (s->ext[d] - 1);
        *(way < 0 ? &lo : &hi) += way;
        if (way && p->step[d] % (int64_t)p->width)
            return false;
    }
    return lo >= 0 && hi <= (__int128)m->bytes && p->width <= m->align && (p->kind == ANA_READ || !m->fixed);
}

/* The block at place x of the box of planes p[0..n): its bytes into v. */
static bool move(const struct ana_plane *p, size_t n, const uint32_t *x, struct runs *v)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += p[i].iv.n;
    v->n = 0;
    if (!dt_reserve(v, all))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t by = (uint64_t)0 - BIAS;
        for (unsigned d = 0; d < ANA_BLOCK_DIMS; d++)
            by += (uint64_t)p[i].step[d] * x[d];
        for (size_t k = 0; k < p[i].iv.n; k++)
            v->p[v->n++] = (struct ana_interval){p[i].iv.p[k].lo + by, p[i].iv.p[k].hi + by};
    }
    if (n > 1)
        tidy(v);
    return true;
}

/* The linear number of the block at place a, b, c of the box. */
static uint32_t shape_number(const struct ana_sum *s, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t *g = s->in->grid;
    return s->lo[0] + a * s->stride[0] + g[0] * (s->lo[1] + b * s->stride[1] + g[1] * (s->lo[2] + c * s->stride[2]));
}

int ana_planes_add(struct ana_sum *s, struct ana_foot *foot)
{
    struct runs v = {0};
    int rc = 0;
    for (size_t i = 0; i < s->plane.n; i++) {
        tidy_plane(&s->plane.p[i]);
        if (!shape_fits(s, &s->plane.p[i])) {
            ana_cannot(s, "an access outside its buffer, misaligned, or a write to what nothing may write");
            return 0;
        }
    }
    if (s->plane.n)
        qsort(s->plane.p, s->plane.n, sizeof *s->plane.p, by_plane);
    for (size_t i = 0, j; i < s->plane.n && !rc; i = j) {
        const struct ana_plane *p = &s->plane.p[i];
        uint32_t n[ANA_BLOCK_DIMS] = {1, 1, 1}, x[ANA_BLOCK_DIMS], buffer = s->in->mem[p->mem].buffer;
        for (j = i; j < s->plane.n && !by_plane(p, &s->plane.p[j]); j++)
            for (unsigned d = 0; d < ANA_BLOCK_DIMS; d++)
                if (s->plane.p[j].step[d])
                    n[d] = s->ext[d];
        if (buffer == UINT32_MAX)
            continue;
        for (x[2] = 0; x[2] < n[2] && !rc; x[2]++)
            for (x[1] = 0; x[1] < n[1] && !rc; x[1]++)
                for (x[0] = 0; x[0] < n[0] && !rc; x[0]++) {
                    struct ana_set set;
                    rc = move(p, j - i, x, &v) ? ana_foot_keep(foot, v.p, (uint32_t)v.n, &set) : DT_E_NOMEM;
                    /* all blocks that differ from this one only where nothing moves */
                    for (uint32_t c = x[2]; c < (n[2] > 1 ? x[2] + 1 : s->ext[2]) && !rc; c++)
                        for (uint32_t b = x[1]; b < (n[1] > 1 ? x[1] + 1 : s->ext[1]) && !rc; b++)
                            for (uint32_t a = x[0]; a < (n[0] > 1 ? x[0] + 1 : s->ext[0]) && !rc; a++)
                                rc = ana_foot_add_set(foot, shape_number(s, a, b, c), buffer, (enum ana_kind)p->kind,
                                                      (enum ana_evidence)p->ev, set);
                }
    }
    free(v.p);
    return rc;
}
