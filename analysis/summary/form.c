/* Forms: what a register is in every thread, in every block of a box of blocks, and in every round of the loops that
 * are being walked.
 *
 * A form is, for each thread, a base and a step for each dimension: the block number in x, y and z, and the number of
 * the round in each loop. Example: `i = blockIdx.x * 256 + threadIdx.x` has base threadIdx.x and step 256 in x. In
 * `for (j = 0; …; j++) sum += a[i * n + j]`, with n = 1000, the index has step 256000 in x and step 1 in the loop.
 *
 * Sums, differences and products with a number that does not move are exact modulo two to the width of the register, so
 * they need no proof. Whatever takes a register for an integer (widening, comparing, dividing, shifting right) needs
 * that the form does not wrap. Then counts, the numbers of blocks and rounds that the form stands for, are *lowered*
 * until it does not: a form that is right for all k below a count is right below a smaller one. Lowering is the only
 * means of proof here, and it is always allowed, because blocks and rounds that were cut off are walked on their own
 * later (summary.c). Where several counts could be lowered, a loop goes first, the one with the largest term (a loop
 * whose end was not met yet has 2^31 rounds), then the block number.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/summary/summary-priv.h"

void ana_form_init(struct ana_sum *s, struct ana_form *f)
{
    if (!(f->base = dt_new_array(&s->a, int64_t, s->n)))
        s->oom = true;
}

int64_t *ana_form_step(struct ana_sum *s, struct ana_form *f, unsigned d)
{
    static _Thread_local int64_t nowhere[1024];
    bool there = f->dims >> d & 1;
    if (!f->step[d] && !(f->step[d] = dt_new_array(&s->a, int64_t, s->n))) {
        s->oom = true;
        return nowhere;
    }
    int64_t v = there ? f->step[d][0] : 0, *to = f->step[d];
    for (uint32_t l = 0; (!there || f->flat >> d & 1) && l < s->n; l++)
        to[l] = v;
    f->dims |= (uint8_t)(1u << d);
    f->flat &= (uint8_t) ~(1u << d);
    return f->step[d];
}

void ana_form_flat(struct ana_sum *s, struct ana_form *f, unsigned d, int64_t v)
{
    if (!f->step[d] && !(f->step[d] = dt_new_array(&s->a, int64_t, s->n))) {
        s->oom = true;
        return;
    }
    f->step[d][0] = v;
    f->flat |= (uint8_t)(1u << d);
    if (v)
        f->dims |= (uint8_t)(1u << d);
    else
        f->dims &= (uint8_t) ~(1u << d);
}

uint32_t *ana_form_mem(struct ana_sum *s, struct ana_form *f)
{
    static _Thread_local uint32_t nowhere[1024];
    if (!f->mem && !(f->mem = dt_new_array(&s->a, uint32_t, s->n))) {
        s->oom = true;
        return nowhere;
    }
    if (!f->points)
        memset(f->mem, 0, s->n * sizeof *f->mem);
    f->points = true;
    return f->mem;
}

void ana_form_number(struct ana_form *f)
{
    f->dims = 0;
    f->points = false;
}

void ana_form_copy(struct ana_sum *s, struct ana_form *to, const struct ana_form *x)
{
    ana_form_number(to);
    memcpy(to->base, x->base, s->n * sizeof *x->base);
    for (unsigned d = 0; d < ANA_DIMS; d++)
        if (x->dims >> d & x->flat >> d & 1)
            ana_form_flat(s, to, d, x->step[d][0]);
        else if (x->dims >> d & 1)
            memcpy(ana_form_step(s, to, d), x->step[d], s->n * sizeof *x->base);
    if (x->points)
        memcpy(ana_form_mem(s, to), x->mem, s->n * sizeof *x->mem);
}

static void put_numbers(const struct ana_sum *s, int64_t *to, const int64_t *from, unsigned bits)
{
    const uint32_t n = s->n; /* the compiler takes every store for one that may change s */
    const uint8_t *mask = s->mask;
    if (s->full && bits == 32)
        for (uint32_t l = 0; l < n; l++)
            to[l] = (int32_t)from[l];
    else if (s->full && bits == 64)
        memmove(to, from, n * sizeof *to);
    else if (s->full)
        for (uint32_t l = 0; l < n; l++)
            to[l] = ana_canon((uint64_t)from[l], bits);
    else if (bits == 32)
        for (uint32_t l = 0; l < n; l++)
            to[l] ^= (to[l] ^ (int32_t)from[l]) & -(int64_t)mask[l];
    else
        for (uint32_t l = 0; l < n; l++)
            to[l] ^= (to[l] ^ ana_canon((uint64_t)from[l], bits)) & -(int64_t)mask[l];
}

/* v in the lanes of the mask. */
static void form_fill(const struct ana_sum *s, int64_t *to, int64_t v)
{
    const uint8_t *mask = s->mask;
    for (uint32_t l = 0, n = s->n; l < n; l++)
        to[l] ^= (to[l] ^ v) & -(int64_t)mask[l];
}

void ana_form_put(struct ana_sum *s, struct ana_form *to, const struct ana_form *from, unsigned bits)
{
    uint8_t had = to->dims;
    if (to == from)
        return;
    if (s->full)
        ana_form_number(to);
    put_numbers(s, to->base, from->base, bits);
    for (unsigned d = 0; d < ANA_DIMS; d++) {
        bool there = from->dims >> d & 1, some = false;
        if (there && (from->flat >> d & 1 || (s->full && ana_uniform(s, from->step[d])))) {
            int64_t v = ana_canon((uint64_t)from->step[d][0], bits);
            bool same = !s->full && had >> d & to->flat >> d & 1 && to->step[d][0] == v;
            some = v != 0;
            if (s->full)
                ana_form_flat(s, to, d, v);
            else if (some && !same)
                form_fill(s, ana_form_step(s, to, d), v);
        } else if (there) {
            int64_t all = 0;
            const int64_t *p = from->step[d];
            for (uint32_t l = 0, n = s->n; l < n; l++)
                all |= p[l] & -(int64_t)s->mask[l];
            some = all != 0;
            if (some)
                put_numbers(s, ana_form_step(s, to, d), from->step[d], bits);
        }
        if (!some && !s->full && had >> d & 1)
            form_fill(s, ana_form_step(s, to, d), 0);
    }
    if (from->points || to->points) {
        uint32_t *mem = ana_form_mem(s, to);
        for (uint32_t l = 0; l < s->n; l++)
            if (s->mask[l])
                mem[l] = from->points ? from->mem[l] : 0;
    }
}

static void lower(struct ana_sum *s, unsigned d, uint32_t l, int64_t to)
{
    if (d < ANA_BLOCK_DIMS)
        s->ext[d] = (uint32_t)to;
    else
        s->count[d][l] = to;
}

/* Least and most of b + sum of step * k. False: they do not fit. */
static bool form_reach(const struct ana_sum *s, uint32_t l, int64_t b, const int64_t *step, unsigned dims,
                       int64_t *least, int64_t *most)
{
    int64_t term;
    *least = *most = b;
    for (unsigned m = dims; m; m &= m - 1) {
        unsigned d = (unsigned)__builtin_ctz(m);
        if (__builtin_mul_overflow(step[d], ana_count(s, d, l) - 1, &term) ||
            (term < 0 ? __builtin_add_overflow(*least, term, least) : __builtin_add_overflow(*most, term, most)))
            return false;
    }
    return true;
}

/* As below, where numbers are small and one dimension is at fault: nearly always. False: it is not so. */
static bool bound_one(struct ana_sum *s, uint32_t l, int64_t b, const int64_t *step, unsigned dims, int64_t lo,
                      int64_t hi)
{
    int64_t least, most, room;
    if (!form_reach(s, l, b, step, dims, &least, &most))
        return false;
    if (least >= lo && most <= hi)
        return true;
    if (dims & (dims - 1) || b < lo || b > hi)
        return false;
    unsigned d = (unsigned)__builtin_ctz(dims);
    if (step[d] == INT64_MIN || __builtin_sub_overflow(step[d] < 0 ? b : hi, step[d] < 0 ? lo : b, &room))
        return false;
    lower(s, d, l, room / llabs(step[d]) + 1);
    return true;
}

void ana_bound(struct ana_sum *s, uint32_t l, __int128 b, const int64_t *step, unsigned dims, __int128 lo, __int128 hi)
{
    if (b >= INT64_MIN && b <= INT64_MAX &&
        bound_one(s, l, (int64_t)b, step, dims, lo < INT64_MIN ? INT64_MIN : (int64_t)lo,
                  hi > INT64_MAX ? INT64_MAX : (int64_t)hi))
        return;
    for (;;) {
        __int128 term[ANA_DIMS], least = b, most = b, worst = 0;
        int pick = -1;
        for (unsigned m = dims; m; m &= m - 1) {
            unsigned d = (unsigned)__builtin_ctz(m);
            term[d] = (__int128)step[d] * (ana_count(s, d, l) - 1);
            *(term[d] < 0 ? &least : &most) += term[d];
        }
        if (least >= lo && most <= hi)
            return;
        for (int d = ANA_DIMS - 1; d >= 0; d--) {
            if (!(dims >> d & 1))
                continue;
            __int128 size = term[d] < 0 ? -term[d] : term[d];
            bool harm = term[d] < 0 ? least < lo : term[d] > 0 && most > hi;
            if (harm && (d >= ANA_BLOCK_DIMS || pick < ANA_BLOCK_DIMS) && size > worst)
                pick = d, worst = size;
        }
        if (pick < 0) { /* b itself is outside: a bug of the caller */
            ana_cannot(s, "a bound that nothing keeps");
            return;
        }
        __int128 room = term[pick] > 0 ? hi - (most - term[pick]) : least - term[pick] - lo;
        __int128 by = step[pick] < 0 ? -(__int128)step[pick] : step[pick];
        lower(s, (unsigned)pick, l, room < 0 ? 1 : (int64_t)(room / by) + 1);
    }
}

struct range {
    __int128 lo, hi;
};

/* Least and most of v (flat: of v[0]) in the lanes of the mask; *lo and *hi are taken in. */
static void extremes(const struct ana_sum *s, const int64_t *v, bool flat, int64_t *lo, int64_t *hi)
{
    int64_t least = *lo, most = *hi;
    if (flat || ana_uniform(s, v)) {
        least = v[0] < least ? v[0] : least;
        most = v[0] > most ? v[0] : most;
    } else {
        const uint8_t *mask = s->mask;
        for (uint32_t l = 0, n = s->n; l < n; l++) {
            least = mask[l] && v[l] < least ? v[l] : least;
            most = mask[l] && v[l] > most ? v[l] : most;
        }
    }
    *lo = least, *hi = most;
}

/* Numbers that x - y (y may be NULL) lies between in all lanes of the mask; no closer than that. */
static struct range range_of(const struct ana_sum *s, const struct ana_form *x, const struct ana_form *y, unsigned bits,
                             bool sign)
{
    struct range r = {0, -1};
    bool narrow = bits < 64;
    uint64_t cut = narrow ? (UINT64_C(1) << bits) - 1 : 0;
    if (narrow) {
        int64_t lo = INT64_MAX, hi = INT64_MIN;
        const int64_t *p = x->base, *q = y ? y->base : NULL;
        const uint64_t keep = sign ? UINT64_MAX : cut;
        const uint8_t *mask = s->mask;
        for (uint32_t l = 0, n = s->n; l < n; l++) {
            int64_t v = (int64_t)((uint64_t)p[l] & keep) - (q ? (int64_t)((uint64_t)q[l] & keep) : 0);
            lo = mask[l] && v < lo ? v : lo;
            hi = mask[l] && v > hi ? v : hi;
        }
        r = (struct range){lo, hi};
    } else {
        bool first = true;
        for (uint32_t l = 0; l < s->n; l++) {
            if (!s->mask[l])
                continue;
            __int128 v = ana_value(x->base[l], bits, sign) - (y ? ana_value(y->base[l], bits, sign) : 0);
            r.lo = first || v < r.lo ? v : r.lo;
            r.hi = first || v > r.hi ? v : r.hi;
            first = false;
        }
    }
    for (unsigned k = 0; k < 2; k++) {
        const struct ana_form *f = k ? y : x;
        for (unsigned m = f ? f->dims : 0; m; m &= m - 1) {
            unsigned d = (unsigned)__builtin_ctz(m);
            int64_t lo = 0, hi = 0, least = 1, most = d < ANA_BLOCK_DIMS ? (int64_t)s->ext[d] : 1;
            extremes(s, f->step[d], f->flat >> d & 1, &lo, &hi);
            if (d >= ANA_BLOCK_DIMS)
                extremes(s, s->count[d], false, &least, &most);
            r.lo += (__int128)(k ? -(__int128)hi : lo) * (most - 1);
            r.hi += (__int128)(k ? -(__int128)lo : hi) * (most - 1);
        }
    }
    return r;
}

static void steps_of(const struct ana_form *x, uint32_t l, int64_t *step)
{
    for (unsigned m = x->dims; m; m &= m - 1)
        step[__builtin_ctz(m)] = ana_step(x, (unsigned)__builtin_ctz(m), l);
}

void ana_fit(struct ana_sum *s, const struct ana_form *x, unsigned bits, bool sign)
{
    const __int128 one = 1, lo = sign ? -(one << (bits - 1)) : 0, hi = (one << (bits - sign)) - 1;
    int64_t step[ANA_DIMS];
    if (!x->dims)
        return;
    struct range r = range_of(s, x, NULL, bits, sign);
    for (uint32_t l = 0; (r.lo < lo || r.hi > hi) && l < s->n; l++) {
        if (!s->mask[l])
            continue;
        steps_of(x, l, step);
        ana_bound(s, l, ana_value(x->base[l], bits, sign), step, x->dims, lo, hi);
    }
}

bool ana_moves(struct ana_sum *s, const struct ana_form *x)
{
    for (unsigned d = 0; x->dims && d < ANA_DIMS; d++)
        for (uint32_t l = 0; x->dims >> d & 1 && (d >= ANA_BLOCK_DIMS || s->ext[d] > 1) && l < s->n; l++)
            if (s->mask[l] && ana_step(x, d, l) && ana_count(s, d, l) > 1)
                return true;
    return false;
}

void ana_hold(struct ana_sum *s, const struct ana_form *x)
{
    for (unsigned d = 0; x->dims && d < ANA_DIMS; d++)
        for (uint32_t l = 0; x->dims >> d & 1 && l < s->n; l++)
            if (s->mask[l] && ana_step(x, d, l))
                lower(s, d, l, 1);
}

void ana_compare(struct ana_sum *s, const struct ana_form *x, const struct ana_form *y, unsigned bits, bool sign,
                 bool equal, uint8_t *ret)
{
    const __int128 far = (__int128)1 << 120;
    uint8_t dims = x->dims | y->dims;
    if (x->points || y->points) {
        for (uint32_t l = 0; l < s->n; l++) {
            if (s->mask[l] && (x->points ? x->mem[l] : 0) != (y->points ? y->mem[l] : 0))
                ana_cannot(s, "pointers into different memory are compared");
            else if (s->mask[l] && (llabs(x->base[l]) >> 46 || llabs(y->base[l]) >> 46))
                ana_cannot(s, "a far pointer is compared");
        }
    }
    if (x->points) { /* offsets from one base, which may be negative; addresses are far from where they would wrap */
        sign = true;
        bits = 48;
    }
    ana_fit(s, x, bits, sign);
    ana_fit(s, y, bits, sign);
    if (dims) {
        struct range r = range_of(s, x, y, bits, sign);
        if (equal ? r.lo > 0 || r.hi < 0 : r.lo >= 0 || r.hi < 0) { /* the same for all */
            memset(ret, !equal && r.hi < 0, s->n);
            return;
        }
    }
    const uint64_t cut = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    if (!dims) {
        const int64_t *p = x->base, *q = y->base;
        for (uint32_t l = 0, n = s->n; l < n; l++)
            ret[l] = equal  ? ((uint64_t)(p[l] ^ q[l]) & cut) == 0
                     : sign ? p[l] < q[l]
                            : ((uint64_t)p[l] & cut) < ((uint64_t)q[l] & cut);
        return;
    }
    for (uint32_t l = 0; l < s->n; l++) {
        if (!s->mask[l])
            continue;
        __int128 d;
        if (bits < 64)
            d = sign ? x->base[l] - y->base[l]
                     : (int64_t)((uint64_t)x->base[l] & cut) - (int64_t)((uint64_t)y->base[l] & cut);
        else
            d = ana_value(x->base[l], bits, sign) - ana_value(y->base[l], bits, sign);
        ret[l] = equal ? d == 0 : d < 0;
        int64_t p[ANA_DIMS];
        bool over = false;
        for (unsigned m = dims; m; m &= m - 1) {
            unsigned k = (unsigned)__builtin_ctz(m);
            over |= __builtin_sub_overflow(x->dims >> k & 1 ? ana_step(x, k, l) : 0,
                                           y->dims >> k & 1 ? ana_step(y, k, l) : 0, &p[k]);
        }
        if (over) {
            ana_cannot(s, "steps too large to compare");
            return;
        }
        if (equal)
            ana_bound(s, l, d, p, dims, d < 0 ? -far : d > 0 ? 1 : 0, d < 0 ? -1 : d > 0 ? far : 0);
        else
            ana_bound(s, l, d, p, dims, d < 0 ? -far : 0, d < 0 ? -1 : far);
    }
}

/* Every how many blocks does step * k become a multiple of c? Where that is less than the boxes that a quotient by c
 * would be cut into, blocks that are so far apart are walked together (summary.c). */
static void period(struct ana_sum *s, unsigned d, int64_t step, int64_t c)
{
    uint64_t a = step < 0 ? (uint64_t)0 - (uint64_t)step : (uint64_t)step, x = a, y = (uint64_t)c;
    while (y) {
        uint64_t z = x % y;
        x = y;
        y = z;
    }
    uint64_t every = (uint64_t)c / x, run = (uint64_t)c / a ? (uint64_t)c / a : 1;
    if (every > 1 && every < s->ext[d] && run < s->ext[d] / every) {
        s->every[d] = (uint32_t)every;
        s->again = true;
        ana_cannot(s, "again");
    }
}

bool ana_digits(struct ana_sum *s, const struct ana_form *x, const int64_t *c, unsigned bits, bool sign,
                struct ana_form *quot, struct ana_form *rest)
{
    const __int128 far = (__int128)1 << 120;
    struct ana_form *const out[2] = {quot, rest};
    for (uint32_t l = 0; l < s->n; l++)
        if (s->mask[l] && ana_value(x->base[l], bits, sign) < 0)
            return false;
    ana_fit(s, x, bits, sign);
    bool below = sign && range_of(s, x, NULL, bits, sign).lo < 0;
    for (unsigned k = 0; k < 2; k++) {
        if (out[k])
            ana_form_number(out[k]);
        for (unsigned d = 0; d < ANA_DIMS && out[k]; d++)
            if (x->dims >> d & 1)
                ana_form_step(s, out[k], d);
    }
    for (uint32_t l = 0; l < s->n; l++) {
        if (!s->mask[l])
            continue;
        __int128 v = ana_value(x->base[l], bits, sign);
        int64_t step[ANA_DIMS], odd[ANA_DIMS] = {0};
        steps_of(x, l, step);
        unsigned some = 0, shift = (unsigned)__builtin_ctzll((uint64_t)c[l]);
        const bool pow = !(c[l] & (c[l] - 1));
        if (sign && below)
            ana_bound(s, l, v, step, x->dims, 0, far);
        for (unsigned m = x->dims; m; m &= m - 1) {
            unsigned d = (unsigned)__builtin_ctz(m);
            if (!(pow ? step[d] & (c[l] - 1) : step[d] % c[l]))
                continue;
            if (d < ANA_BLOCK_DIMS && s->ext[d] > 2)
                period(s, d, step[d], c[l]);
            odd[d] = step[d], step[d] = 0, some |= 1u << d;
        }
        uint64_t q = pow ? (uint64_t)(v >> shift) : bits < 64 ? (uint64_t)v / (uint64_t)c[l] : (uint64_t)(v / c[l]);
        uint64_t left = (uint64_t)v - q * (uint64_t)c[l];
        if (some)
            ana_bound(s, l, left, odd, some, 0, c[l] - 1);
        if (quot)
            quot->base[l] = (int64_t)q;
        if (rest)
            rest->base[l] = (int64_t)left;
        for (unsigned d = 0; d < ANA_DIMS; d++) {
            if (!(x->dims >> d & 1))
                continue;
            if (quot)
                quot->step[d][l] = pow ? step[d] >> shift : step[d] / c[l];
            if (rest)
                rest->step[d][l] = odd[d];
        }
    }
    return true;
}
