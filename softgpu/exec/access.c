/* Accesses to memory, one lane at a time, where no lane loop does them: generic addresses, local and parameter memory,
 * atomics. Checks of bounds and alignment; races between blocks are shadow.c's.
 *
 * The bits of a generic address from 56 up name the window (state/code.h); 0 is global memory, which includes module
 * variables of the const space.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdio.h>
#include <string.h>

#include "softgpu/exec/bits.h"

uint64_t sg_address(const struct sg_warp *w, const struct sg_op *op, unsigned lane)
{
    if (op->flags & SG_A64)
        return SG_P(uint64_t, op->a)[lane] + (uint64_t)op->imm;
    return (uint32_t)(SG_P(uint32_t, op->a)[lane] + (uint32_t)op->imm);
}

const struct sg_range *sg_find_range(struct sg_warp *w, const struct sg_op *op, uint64_t lo, uint64_t bytes)
{
    const struct sg_run *run = w->wk->run;
    size_t a = 0, b = run->nrange;
    while (a < b) {
        size_t mid = a + (b - a) / 2;
        if (run->range[mid].end > lo)
            b = mid;
        else
            a = mid + 1;
    }
    if (a == run->nrange || run->range[a].base > lo || bytes > run->range[a].end - lo)
        return NULL;
    w->wk->site[op->site] = &run->range[a];
    return &run->range[a];
}

/* A wrong access to a space of the block or the thread, which has no buffers: in offsets from its start. */
void *sg_stray(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t at, unsigned bytes, const char *space,
               uint64_t limit)
{
    struct sg_fault *f = &w->wk->f;
    bool crooked = at & ((bytes & (0u - bytes)) - 1), first = !w->wk->fault;
    if (crooked)
        sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes, "%u bytes at a misaligned address: at offset %llu of %s",
                    bytes, (unsigned long long)at, space);
    else if (at <= limit && bytes <= limit - at)
        sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes, "%u bytes at offset %llu of %s", bytes, (unsigned long long)at,
                    space);
    else if (at < limit)
        sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes,
                    "%u bytes at offset %llu of %s, over the end of its %llu bytes", bytes, (unsigned long long)at,
                    space, (unsigned long long)limit);
    else
        sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes,
                    "%u bytes at offset %llu of %s: %llu bytes past the end of its %llu bytes", bytes,
                    (unsigned long long)at, space, (unsigned long long)(at - limit), (unsigned long long)limit);
    if (first) {
        f->misaligned = crooked;
        snprintf(f->place, sizeof f->place, "%s + %llu", space, (unsigned long long)at);
    }
    return NULL;
}

uint8_t *sg_resolve(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, unsigned bytes, bool write)
{
    static const char *const name[] = {"", "shared memory", "local memory", "parameter memory"};
    unsigned window = 0;
    uint64_t at = addr;
    switch (op->space) {
    case PTX_SHARED:
    case PTX_SHARED_CLUSTER: window = 1; break;
    case PTX_LOCAL:
    case PTX_PARAM_FUNC: window = 2; break;
    case PTX_PARAM: window = 3; break;
    case PTX_GLOBAL:
    case PTX_CONST: break;
    default: window = (unsigned)(addr >> SG_WINDOW_SHIFT); at = addr & ((1ull << SG_WINDOW_SHIFT) - 1);
    }
    unsigned align = bytes & (0u - bytes);
    if (addr & (align - 1)) {
        if (window >= 1 && window <= 3 && !(window == 1 && at >> SG_RANK_SHIFT))
            return sg_stray(w, op, lane, at, bytes, name[window],
                            window == 1   ? w->shared_bytes
                            : window == 2 ? w->local_bytes
                                          : w->code->param_total);
        bool first = !w->wk->fault;
        sg_fault_at(w, op, DT_E_BOUNDS, lane, addr, bytes, "address 0x%llx is misaligned for %u bytes",
                    (unsigned long long)addr, bytes);
        w->wk->f.misaligned |= first;
        return NULL;
    }
    switch (window) {
    case 0: {
        const struct sg_range *r = w->wk->site[op->site];
        if (at < r->base || at > r->end || bytes > r->end - at)
            r = sg_find_range(w, op, at, bytes);
        if (!r) {
            char where[160];
            const struct sg_run *run = w->wk->run;
            sg_mem_describe(run->alloc, run->nrange, at, where, sizeof where);
            sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes, "%u bytes at 0x%llx are outside every allocation (%s)",
                        bytes, (unsigned long long)at, where);
            return NULL;
        }
        if (write && r->read_only) {
            sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes, "%u bytes at 0x%llx are read-only", bytes,
                        (unsigned long long)at);
            return NULL;
        }
        return (uint8_t *)(uintptr_t)at;
    }
    case 1:
        if (at >> SG_RANK_SHIFT)
            return sg_cluster_resolve(w, op, lane, at, bytes);
        if (at > w->shared_bytes || bytes > w->shared_bytes - at)
            return sg_stray(w, op, lane, at, bytes, name[1], w->shared_bytes);
        return w->shared + at;
    case 2:
        if (at > w->local_bytes || bytes > w->local_bytes - at)
            return sg_stray(w, op, lane, at, bytes, name[2], w->local_bytes);
        return w->local + lane * w->local_bytes + at;
    case 3: {
        uint64_t n = w->code->param_total;
        if (at > n || bytes > n - at)
            return sg_stray(w, op, lane, at, bytes, name[3], n);
        if (write)
            return sg_stray(w, op, lane, at, bytes, "parameter memory, which is read-only", n);
        return (uint8_t *)(uintptr_t)w->wk->run->l->params + at;
    }
    default:
        sg_fault_at(w, op, DT_E_BOUNDS, lane, addr, bytes, "%u bytes at 0x%llx are outside every allocation", bytes,
                    (unsigned long long)addr);
        return NULL;
    }
}

/* ---- loads and stores by lane ----------------------------------------------------------------------------------- */
static bool is_global(const struct sg_op *op, uint64_t addr)
{
    return op->space == PTX_GLOBAL || op->space == PTX_CONST ||
           (op->space == PTX_GENERIC && !(addr >> SG_WINDOW_SHIFT));
}

static void access_get(struct sg_warp *w, unsigned bytes, uint32_t ref, unsigned lane, uint8_t *p);

/* Lanes of a store, one for each place. Lanes that store to one place must store the same: else a race is reported, and
 * 0 returned. */
static uint32_t places(struct sg_warp *w, const struct sg_op *op, uint8_t *const at[SG_LANES])
{
    uint32_t mask = w->mask;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        for (uint32_t o = m & (m - 1) & mask; o; o &= o - 1) {
            unsigned k = (unsigned)__builtin_ctz(o);
            if (at[k] != at[l])
                continue;
            mask &= ~(1u << k);
            for (unsigned e = 0; e < op->n; e++) {
                uint32_t ref = op->n == 1 ? op->b : w->code->ext[op->x + e];
                uint8_t x[16], y[16];
                access_get(w, op->size, ref, l, x);
                access_get(w, op->size, ref, k, y);
                if (memcmp(x, y, op->size) && !sg_check_same_place(w, op, k, l, at[l] + e * op->size, op->size))
                    return 0;
            }
        }
    }
    return mask;
}

/* Of the lanes in `mask`, those that store what is in memory already. */
static uint32_t same_again(struct sg_warp *w, const struct sg_op *op, uint8_t *const at[SG_LANES], uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        for (unsigned e = 0; e < op->n; e++) {
            uint8_t x[16];
            access_get(w, op->size, op->n == 1 ? op->b : w->code->ext[op->x + e], l, x);
            if (memcmp(x, at[l] + e * op->size, op->size))
                mask &= ~(1u << l);
        }
    }
    return mask;
}

/* Resolve all active lanes; false when one faulted. */
static bool resolve_all(struct sg_warp *w, const struct sg_op *op, unsigned bytes, enum sg_access how,
                        uint8_t *at[SG_LANES])
{
    uint64_t ad[SG_LANES];
    uint32_t global = 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        ad[l] = sg_address(w, op, l);
        at[l] = sg_resolve(w, op, l, ad[l], bytes, how != SG_READ);
        if (!at[l])
            return false;
        if (is_global(op, ad[l]))
            global |= 1u << l;
    }
    if (global && w->wk->track)
        sg_track_lanes(w, op, ad, global, bytes, how);
    if (global && w->wk->talk && op->rnd & (SG_SEM_ACQUIRE | SG_SEM_RELEASE) && !(op->rnd & SG_SEM_CTA))
        sg_talk_access(w, op->rnd, ad, global, how);
    unsigned sinks = op->rnd >> 8;
    if (!w->wk->check)
        return true;
    if (how == SG_WRITE) {
        uint32_t mask = places(w, op, at);
        uint32_t same = same_again(w, op, at, mask);
        return mask && sg_check_lanes(w, op, at, mask & ~same, bytes, how, op->rnd) &&
               sg_check_lanes(w, op, at, same, bytes, how, op->rnd | SG_SEM_SAME);
    }
    if (!sinks)
        return sg_check_lanes(w, op, at, w->mask, bytes, how, op->rnd);
    for (unsigned e = 0; e < op->n; e++) {
        uint8_t *one[SG_LANES];
        for (uint32_t m = w->mask; m; m &= m - 1)
            one[__builtin_ctz(m)] = at[__builtin_ctz(m)] + e * op->size;
        if (!(sinks >> e & 1) && !sg_check_lanes(w, op, one, w->mask, op->size, how, op->rnd))
            return false;
    }
    return true;
}

bool sg_read_lanes(struct sg_warp *w, const struct sg_op *op, const uint64_t ad[SG_LANES], uint32_t mask,
                   unsigned bytes, uint8_t *at[SG_LANES])
{
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (!(at[l] = sg_resolve(w, op, l, ad[l], bytes, false)))
            return false;
    }
    if (mask && w->wk->track)
        sg_track_lanes(w, op, ad, mask, bytes, SG_READ);
    return !mask || !w->wk->check || sg_check_lanes(w, op, at, mask, bytes, SG_READ, 0);
}

static void access_put(struct sg_warp *w, const struct sg_op *op, uint32_t ref, unsigned lane, const uint8_t *p)
{
    unsigned bytes = op->size;
    if (bytes == 16) {
        memcpy(&SG_P(uint64_t, ref)[lane], p, 8);
        memcpy(&SG_P(uint64_t, ref)[lane + SG_LANES], p + 8, 8);
        return;
    }
    uint64_t v = 0;
    memcpy(&v, p, bytes);
    if (op->flags & SG_SIGNED && bytes < 8)
        v = (uint64_t)((int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes));
    if (bytes == 8 || op->flags & SG_D64)
        SG_P(uint64_t, ref)[lane] = v;
    else
        SG_P(uint32_t, ref)[lane] = (uint32_t)v & (op->type == 2 ? 0xFFFFu : SG_ALL);
}

static void access_get(struct sg_warp *w, unsigned bytes, uint32_t ref, unsigned lane, uint8_t *p)
{
    if (bytes == 16) {
        memcpy(p, &SG_P(uint64_t, ref)[lane], 8);
        memcpy(p + 8, &SG_P(uint64_t, ref)[lane + SG_LANES], 8);
    } else if (bytes == 8) {
        memcpy(p, &SG_P(uint64_t, ref)[lane], 8);
    } else {
        memcpy(p, &SG_P(uint32_t, ref)[lane], bytes);
    }
}

const struct sg_op *sg_load_slow(struct sg_warp *w, const struct sg_op *op)
{
    uint8_t *at[SG_LANES];
    if (!resolve_all(w, op, op->size * op->n, SG_READ, at))
        return NULL;
    for (unsigned e = 0; e < op->n; e++) {
        uint32_t ref = op->n == 1 ? op->d : w->code->ext[op->x + e];
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            access_put(w, op, ref, l, at[l] + e * op->size);
        }
    }
    return op + 1;
}

const struct sg_op *sg_store_slow(struct sg_warp *w, const struct sg_op *op)
{
    uint8_t *at[SG_LANES];
    if (!resolve_all(w, op, op->size * op->n, SG_WRITE, at))
        return NULL;
    for (unsigned e = 0; e < op->n; e++) {
        uint32_t ref = op->n == 1 ? op->b : w->code->ext[op->x + e];
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            access_get(w, op->size, ref, l, at[l] + e * op->size);
        }
    }
    return op + 1;
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */
static float fadd32(float a, float b, bool ftz)
{
    if (ftz)
        a = sg_flush(a), b = sg_flush(b);
    float r = a + b;
    if (r != r)
        return sg_float(SG_NAN32);
    return ftz ? sg_flush(r) : r;
}

static uint32_t fadd16(uint32_t a, uint32_t b, bool bf)
{
    if (bf)
        return sg_f32_to_bf16(sg_bits(sg_float(sg_bf16_to_f32(a)) + sg_float(sg_bf16_to_f32(b))));
    return sg_f32_to_f16(sg_bits(sg_float(sg_f16_to_f32(a)) + sg_float(sg_f16_to_f32(b))));
}
static uint32_t fminmax16(uint32_t a, uint32_t b, bool bf, bool max)
{
    uint32_t x = bf ? sg_bf16_to_f32(a) : sg_f16_to_f32(a), y = bf ? sg_bf16_to_f32(b) : sg_f16_to_f32(b);
    uint32_t r = max ? sg_fmax(x, y) : sg_fmin(x, y);
    return bf ? sg_f32_to_bf16(r) : sg_f32_to_f16(r);
}

/* One atomic operation (enum ptx_mod in `sub`, from PTX_M_ADD) on `old`, of PTX type `type`. */
uint64_t sg_atomic_value(const struct sg_op *op, uint64_t old, uint64_t b, uint64_t c, bool global)
{
    unsigned bits = op->size * 8u;
    uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
    int64_t so = (int64_t)(old << (64 - bits)) >> (64 - bits), sb = (int64_t)(b << (64 - bits)) >> (64 - bits);
    bool sign = ptx_type_is_signed((enum ptx_type)op->type);
    switch (op->sub + PTX_M_ADD) {
    case PTX_M_ADD:
        switch (op->type) {
        case PTX_F32:
            /* in global memory subnormals are flushed, in shared memory they are kept (§9.7.13.5) */
            return sg_bits(fadd32(sg_float((uint32_t)old), sg_float((uint32_t)b), global));
        case PTX_F64: {
            double r = sg_double(old) + sg_double(b);
            return r == r ? sg_bits64(r) : SG_NAN64;
        }
        case PTX_F16:
        case PTX_BF16: return fadd16((uint32_t)old, (uint32_t)b, op->type == PTX_BF16);
        case PTX_F16X2:
        case PTX_BF16X2: {
            bool bf = op->type == PTX_BF16X2;
            return fadd16(old & 0xFFFF, b & 0xFFFF, bf) | fadd16(old >> 16 & 0xFFFF, b >> 16 & 0xFFFF, bf) << 16;
        }
        default: return (old + b) & mask;
        }
    case PTX_M_INC: return old >= b ? 0 : old + 1;
    case PTX_M_DEC: return !old || old > b ? b : old - 1;
    case PTX_M_EXCH: return b;
    case PTX_M_CAS: return old == b ? c : old;
    case PTX_M_AND: return old & b;
    case PTX_M_OR: return old | b;
    case PTX_M_XOR: return old ^ b;
    case PTX_M_MIN:
    case PTX_M_MAX: {
        bool max = op->sub + PTX_M_ADD == PTX_M_MAX;
        switch (op->type) {
        case PTX_F16:
        case PTX_BF16: return fminmax16((uint32_t)old, (uint32_t)b, op->type == PTX_BF16, max);
        case PTX_F16X2:
        case PTX_BF16X2: {
            bool bf = op->type == PTX_BF16X2;
            return fminmax16(old & 0xFFFF, b & 0xFFFF, bf, max) |
                   fminmax16(old >> 16 & 0xFFFF, b >> 16 & 0xFFFF, bf, max) << 16;
        }
        default: break;
        }
        bool less = sign ? sb < so : b < old;
        return max ? (less ? old : b) : (less ? b : old);
    }
    default: return old;
    }
}

/* Other threads run blocks of this launch: then every global atomic is a commuting one of 4 or 8 bytes
 * (decode/memory.c). */
static void locked(const struct sg_op *op, void *p, uint64_t b)
{
    if (op->size == 4) {
        uint32_t old = __atomic_load_n((uint32_t *)p, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n((uint32_t *)p, &old, (uint32_t)sg_atomic_value(op, old, b, 0, true), false,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        return;
    }
    uint64_t old = __atomic_load_n((uint64_t *)p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n((uint64_t *)p, &old, sg_atomic_value(op, old, b, 0, true), false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* A word of 4 or 8 bytes a lane, no other thread at it: lanes in order. */
static void atomic_words(struct sg_warp *w, const struct sg_op *op, uint8_t *const at[SG_LANES])
{
    const bool wide = op->size == 8, cas = op->sub + PTX_M_ADD == PTX_M_CAS, generic = op->space == PTX_GENERIC;
    const bool global = is_global(op, 0), result = !(op->flags & SG_NO_RESULT);
    const uint32_t c = w->code->ext[op->x];
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t old = wide ? *(uint64_t *)(void *)at[l] : *(uint32_t *)(void *)at[l], vc = 0;
        uint64_t vb = wide ? SG_P(uint64_t, op->b)[l] : SG_P(uint32_t, op->b)[l];
        if (cas)
            vc = wide ? SG_P(uint64_t, c)[l] : SG_P(uint32_t, c)[l];
        uint64_t v = sg_atomic_value(op, old, vb, vc, generic ? is_global(op, sg_address(w, op, l)) : global);
        if (result)
            access_put(w, op, op->d, l, (const uint8_t *)&old);
        if (wide)
            *(uint64_t *)(void *)at[l] = v;
        else
            *(uint32_t *)(void *)at[l] = (uint32_t)v;
    }
}

/* Lanes in order. ext[x]: compare-and-swap's value; with n > 1 (.v2, .v4) ext[x + 1 …] hold destinations, then
 * sources. */
const struct sg_op *sg_atomic(struct sg_warp *w, const struct sg_op *op)
{
    uint8_t *at[SG_LANES];
    unsigned n = op->n;
    if (!resolve_all(w, op, op->size * n, SG_ATOMIC, at))
        return NULL;
    w->spin = true;
    if (n == 1 && (op->size == 4 || op->size == 8) && (w->wk->run->nworker == 1 || op->space == PTX_SHARED)) {
        atomic_words(w, op, at);
        return op + 1;
    }
    const uint32_t *ext = w->code->ext + op->x;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        for (unsigned e = 0; e < n; e++) {
            uint32_t d = n == 1 ? op->d : ext[1 + e], s = n == 1 ? op->b : ext[1 + n + e];
            uint8_t old[16], b[16], c[16], r[16];
            memcpy(old, at[l] + e * op->size, op->size);
            access_get(w, op->size, s, l, b);
            if (op->size == 16) { /* exch and cas of b128 */
                if (op->sub + PTX_M_ADD == PTX_M_CAS)
                    access_get(w, 16, ext[0], l, c);
                memcpy(r, op->sub + PTX_M_ADD == PTX_M_EXCH ? b : !memcmp(old, b, 16) ? c : old, 16);
            } else {
                uint64_t vo = 0, vb = 0, vc = 0;
                memcpy(&vo, old, op->size);
                memcpy(&vb, b, op->size);
                if (w->wk->run->nworker > 1 && is_global(op, sg_address(w, op, l))) {
                    locked(op, at[l], vb);
                    continue;
                }
                if (op->sub + PTX_M_ADD == PTX_M_CAS) {
                    access_get(w, op->size, ext[0], l, c);
                    memcpy(&vc, c, op->size);
                }
                uint64_t v = sg_atomic_value(op, vo, vb, vc, is_global(op, sg_address(w, op, l)));
                memcpy(r, &v, op->size);
            }
            if (!(op->flags & SG_NO_RESULT))
                access_put(w, op, d, l, old);
            memcpy(at[l] + e * op->size, r, op->size);
        }
    }
    return op + 1;
}
