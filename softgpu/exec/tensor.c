/* Copies of tensors in tiled mode (PTX §5.5, §9.7.9.27), and changes of tensor maps.
 *
 * The map is read and checked at each copy: it may lie in a parameter, in const or in global memory, and
 * tensormap.replace may have changed it. A copy goes row by row of the box (ptx/tensormap.h). A row is made complete
 * beside the tensor: what is outside the tensor is filled (loads) or left out (stores). Then the row is put into shared
 * memory piece by piece, as the swizzle wants. A load takes the whole box off the tx-count, filled parts included.
 * Loads of tf32 round to nearest, ties away, as cvt.rna does. The NaN of fill mode 1 is 0x7FF7 in every 16 bits.
 *
 * Shared addresses are multiples of 128. Faults: a map that is none or breaks a requirement, another number of
 * dimensions than the instruction's, coordinates of packed types that split a unit, interleaved layouts (not run).
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

#include "ptx/tensormap.h"

enum { ROW_MAX = 256 * 16 };

static bool read_map(struct sg_warp *w, const struct sg_op *op, unsigned lane, struct ptx_tensormap *ret)
{
    struct sg_op from = sg_bulk_part(w, op, SG_BULK_FROM, PTX_GENERIC);
    uint64_t at = sg_address(w, &from, lane);
    uint8_t raw[PTX_TENSORMAP_BYTES];
    for (unsigned k = 0; k < PTX_TENSORMAP_BYTES; k += 64) {
        const uint8_t *p = sg_resolve(w, &from, lane, at + k, 64, false);
        if (!p)
            return false;
        if (w->wk->track && at >> SG_WINDOW_SHIFT == 0) {
            uint64_t ad[SG_LANES];
            ad[lane] = at + k;
            sg_track_lanes(w, &from, ad, 1u << lane, 64, SG_READ);
        }
        memcpy(raw + k, p, 64);
    }
    if (!ptx_tensormap_decode(raw, ret)) {
        sg_fault_at(w, op, DT_E_TRAP, lane, at, 128, "there is no tensor map at 0x%llx", (unsigned long long)at);
        return false;
    }
    const char *why = ptx_tensormap_check(ret);
    uint32_t rank = w->code->ext[op->x + SG_BULK_COORDS];
    if (!why && ret->interleave)
        why = "the software device cannot run interleaved layouts";
    if (why)
        sg_fault_at(w, op, DT_E_TRAP, lane, at, 128, "the tensor map: %s", why);
    else if (ret->rank != rank)
        sg_fault_at(w, op, DT_E_TRAP, lane, at, 128, "a tensor map of %u dimensions with %u coordinates", ret->rank,
                    rank);
    return !why && ret->rank == rank;
}

static bool coordinates(struct sg_warp *w, const struct sg_op *op, unsigned lane, const struct ptx_tensormap *m,
                        int32_t ret[5])
{
    const uint32_t *ext = w->code->ext + op->x;
    for (unsigned k = 0; k < 5; k++)
        ret[k] = k < ext[SG_BULK_COORDS] ? (int32_t)SG_P(uint32_t, ext[SG_BULK_COORD + k])[lane] : 0;
    unsigned elements, global, shared;
    ptx_tensormap_unit((enum ptx_tm_type)m->type, &elements, &global, &shared);
    if (ret[0] % (int32_t)elements) {
        sg_fault_at(w, op, DT_E_TRAP, lane, 0, 0, "coordinate %d of a packed type is no multiple of %u", ret[0],
                    elements);
        return false;
    }
    return true;
}

/* The shared memory that a box takes; NULL: fault. */
static uint8_t *box_at(struct sg_warp *w, const struct sg_op *part, unsigned lane, uint64_t at,
                       const struct ptx_tensormap *m, enum sg_access how)
{
    uint64_t n = (uint64_t)ptx_tensormap_rows(m) * ptx_tensormap_row_pitch(m);
    if (at % 128) {
        bool first = !w->wk->fault;
        sg_fault_at(w, part, DT_E_BOUNDS, lane, at, 128,
                    "the box in shared memory at 0x%llx is misaligned: multiples of 128", (unsigned long long)at);
        w->wk->f.misaligned |= first;
        return NULL;
    }
    if (n > w->shared_bytes) {
        sg_fault_at(w, part, DT_E_BOUNDS, lane, at, 0, "a box of %llu bytes and %llu of shared memory",
                    (unsigned long long)n, (unsigned long long)w->shared_bytes);
        return NULL;
    }
    return sg_bulk_reach(w, part, lane, at, (uint32_t)n, how);
}

/* A dense row from or to the pieces that the swizzle makes of it; `base`: where the box begins, `at`: its address. */
static void scatter(const struct ptx_tensormap *m, uint8_t *base, uint32_t at, uint32_t off, uint8_t *row, uint32_t n,
                    bool store)
{
    uint32_t piece = !m->swizzle ? n : m->atom == PTX_TM_ATOM_32B_FLIP_8B ? 8 : 16;
    for (uint32_t k = 0; k < n; k += piece) {
        uint32_t to = ptx_tensormap_swizzled(m, at + off + k) - at, part = n - k < piece ? n - k : piece;
        if (store)
            memcpy(row + k, base + to, part);
        else
            memcpy(base + to, row + k, part);
    }
}

/* Units between their two forms; a padded one has a gap in shared memory. */
static void spread(uint8_t *to, unsigned to_step, const uint8_t *from, unsigned from_step, uint32_t n, unsigned bytes)
{
    if (to_step == from_step) {
        memcpy(to, from, (size_t)n * bytes);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        memcpy(to + (size_t)k * to_step, from + (size_t)k * from_step, bytes);
}

static void tf32(uint8_t *p, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t v;
        memcpy(&v, p + 4 * k, 4);
        if ((v & 0x7FFFFFFF) > 0x7F800000)
            v = 0x7FFFE000;
        else if ((v & 0x7F800000) != 0x7F800000)
            v = (v + 0x1000) & ~0x1FFFu;
        memcpy(p + 4 * k, &v, 4);
    }
}

/* Part of a row in global memory: any number of bytes from an element on. */
static uint8_t *tensor_span(struct sg_warp *w, const struct sg_op *part, unsigned lane, uint64_t addr, uint32_t n,
                            enum sg_access how)
{
    const struct sg_range *r = sg_find_range(w, part, addr, n);
    if (r && !(r->read_only && how != SG_READ)) {
        if (w->wk->track) {
            uint32_t mask = w->mask;
            w->mask = 1u << lane;
            sg_track_range(w, part, r, addr, n, how);
            w->mask = mask;
        }
        if (w->wk->check && !sg_check_async(w, part, lane, (uint8_t *)(uintptr_t)addr, n, how))
            return NULL;
        return (uint8_t *)(uintptr_t)addr;
    }
    for (uint32_t k = 0; k < n; k++)
        if (!sg_resolve(w, part, lane, addr + k, 1, how != SG_READ))
            break;
    return NULL;
}

static bool tensor_load(struct sg_warp *w, const struct sg_op *op, unsigned lane)
{
    struct ptx_tensormap m;
    int32_t coord[5];
    struct sg_op to = sg_bulk_part(w, op, SG_BULK_TO, op->space), bar = sg_bulk_part(w, op, SG_BULK_BAR, op->space),
                 from = sg_bulk_part(w, op, SG_BULK_FROM, PTX_GLOBAL);
    if (!read_map(w, op, lane, &m) || !coordinates(w, op, lane, &m, coord))
        return false;
    uint64_t dst[SG_MAX_CLUSTER], signal[SG_MAX_CLUSTER];
    uint8_t *base[SG_MAX_CLUSTER];
    int n = sg_bulk_targets(w, op, lane, sg_address(w, &to, lane), sg_address(w, &bar, lane), dst, signal);
    for (int i = 0; i < n; i++)
        if (!(base[i] = box_at(w, &to, lane, dst[i], &m, SG_WRITE)))
            return false;
    unsigned elements, global, shared;
    ptx_tensormap_unit((enum ptx_tm_type)m.type, &elements, &global, &shared);
    uint32_t rows = n > 0 ? ptx_tensormap_rows(&m) : 0, units = ptx_tensormap_row_units(&m),
             pitch = ptx_tensormap_row_pitch(&m);
    uint8_t row[ROW_MAX];
    for (uint32_t r = 0; r < rows; r++) {
        struct ptx_tm_row in = ptx_tensormap_row(&m, coord, r);
        if (in.inside < units)
            for (uint32_t k = 0; k < units * shared; k += 2)
                row[k] = m.fill ? SG_OOB_NAN & 0xFF : 0, row[k + 1] = m.fill ? SG_OOB_NAN >> 8 : 0;
        if (in.inside) {
            const uint8_t *q = tensor_span(w, &from, lane, in.address, in.inside * global, SG_READ);
            if (!q)
                return false;
            spread(row + (size_t)in.skip * shared, shared, q, global, in.inside, global);
            if (m.type == PTX_TM_TF32 || m.type == PTX_TM_TF32_FTZ)
                tf32(row + (size_t)in.skip * 4, in.inside);
        }
        for (int i = 0; i < n; i++)
            scatter(&m, base[i], (uint32_t)dst[i] & ((1u << SG_RANK_SHIFT) - 1), r * pitch, row, units * shared, false);
    }
    for (int i = 0; i < n; i++)
        if (!sg_mbarrier_complete(w, &bar, lane, signal[i], ptx_tensormap_box_bytes(&m)))
            return false;
    return n >= 0;
}

static bool tensor_store(struct sg_warp *w, const struct sg_op *op, unsigned lane)
{
    struct ptx_tensormap m;
    int32_t coord[5];
    struct sg_op smem = sg_bulk_part(w, op, SG_BULK_TO, op->sub), to = sg_bulk_part(w, op, SG_BULK_FROM, PTX_GLOBAL);
    enum ptx_mod reduce = (enum ptx_mod)w->code->ext[op->x + SG_BULK_OP];
    if (!read_map(w, op, lane, &m) || !coordinates(w, op, lane, &m, coord))
        return false;
    enum ptx_type t = ptx_tensormap_type((enum ptx_tm_type)m.type);
    if (reduce && (t == PTX_F64 || !sg_bulk_reduces(reduce, t, true))) {
        sg_fault_at(w, op, DT_E_TRAP, lane, 0, 0, "this reduction of elements of the tensor map's type %u", m.type);
        return false;
    }
    if (m.type == PTX_TM_B4_P64) {
        sg_fault_at(w, op, DT_E_TRAP, lane, 0, 0, "a store of b4x16_p64");
        return false;
    }
    uint64_t at = sg_address(w, &smem, lane);
    uint8_t *base = box_at(w, &smem, lane, at, &m, SG_READ), row[ROW_MAX], old[ROW_MAX];
    if (!base)
        return false;
    unsigned elements, global, shared;
    ptx_tensormap_unit((enum ptx_tm_type)m.type, &elements, &global, &shared);
    uint32_t rows = ptx_tensormap_rows(&m), units = ptx_tensormap_row_units(&m), pitch = ptx_tensormap_row_pitch(&m);
    for (uint32_t r = 0; r < rows; r++) {
        struct ptx_tm_row in = ptx_tensormap_row(&m, coord, r);
        if (!in.inside)
            continue;
        scatter(&m, base, (uint32_t)at & ((1u << SG_RANK_SHIFT) - 1), r * pitch, row, units * shared, true);
        uint8_t *q = tensor_span(w, &to, lane, in.address, in.inside * global, reduce ? SG_ATOMIC : SG_WRITE);
        if (!q)
            return false;
        if (reduce) {
            memcpy(old, row + (size_t)in.skip * shared, (size_t)in.inside * shared);
            sg_bulk_reduce(w, op, q, old, in.inside * global, t, true);
        } else {
            spread(q, global, row + (size_t)in.skip * shared, shared, in.inside, global);
        }
    }
    return true;
}

const struct sg_op *sg_tensor_load(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1)
        if (!tensor_load(w, op, (unsigned)__builtin_ctz(m)))
            return NULL;
    return op + 1;
}

const struct sg_op *sg_tensor_store(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1)
        if (!tensor_store(w, op, (unsigned)__builtin_ctz(m)))
            return NULL;
    return op + 1;
}

const struct sg_op *sg_tensor_prefetch(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        struct ptx_tensormap map;
        if (!read_map(w, op, (unsigned)__builtin_ctz(m), &map))
            return NULL;
    }
    return op + 1;
}

/* ---- tensormap.* ------------------------------------------------------------------------------------------------- */
/* 128 zeros are a map whose fields are zero, or the least that they can be: kernels that make maps start from it. */
static bool blank(const uint8_t raw[PTX_TENSORMAP_BYTES], struct ptx_tensormap *ret)
{
    static const uint8_t zero[PTX_TENSORMAP_BYTES];
    if (memcmp(raw, zero, sizeof zero))
        return false;
    *ret = (struct ptx_tensormap){.dim = {1, 1, 1, 1, 1}, .box = {1, 1, 1, 1, 1}, .step = {1, 1, 1, 1, 1}, .rank = 1};
    return true;
}

const struct sg_op *sg_tensormap_replace(struct sg_warp *w, const struct sg_op *op)
{
    const uint32_t *ext = w->code->ext + op->x;
    struct sg_op at = sg_bulk_part(w, op, SG_BULK_TO, op->space);
    unsigned k = ext[SG_BULK_TYPE];
    for (uint32_t mask = w->mask; mask; mask &= mask - 1) {
        unsigned l = (unsigned)__builtin_ctz(mask);
        uint64_t a = sg_address(w, &at, l);
        uint8_t *p = sg_resolve(w, &at, l, a, 64, true), *q = p ? sg_resolve(w, &at, l, a + 64, 64, true) : NULL;
        struct ptx_tensormap m;
        uint8_t raw[PTX_TENSORMAP_BYTES];
        if (!q)
            return NULL;
        memcpy(raw, p, sizeof raw);
        if (!ptx_tensormap_decode(raw, &m) && !blank(raw, &m))
            return sg_fault_at(w, op, DT_E_TRAP, l, a, 128, "there is neither a tensor map nor 128 zeros at 0x%llx",
                               (unsigned long long)a);
        uint64_t v = ext[SG_BULK_COORDS] ? SG_P(uint64_t, ext[SG_BULK_SIZE])[l] : SG_P(uint32_t, ext[SG_BULK_SIZE])[l];
        uint8_t low = (uint8_t)(v < 255 ? v : 255);
        switch (ext[SG_BULK_OP]) {
        case PTX_M_GLOBAL_ADDRESS: m.address = v; break;
        case PTX_M_RANK: m.rank = (uint8_t)(v < 5 ? v + 1 : 255); break; /* PTX: one less than the rank */
        case PTX_M_BOX_DIM: m.box[k] = (uint32_t)(v <= 256 ? v : 0xFFFF); break;
        case PTX_M_GLOBAL_DIM: m.dim[k] = v ? v : UINT64_C(1) << 32; break;
        case PTX_M_GLOBAL_STRIDE: m.stride[k + 1] = v; break;
        case PTX_M_ELEMENT_STRIDE: m.step[k] = (uint32_t)(v && v <= 8 ? v : 256); break;
        case PTX_M_ELEMTYPE: {
            /* Table 33 of the PTX manual numbers types as CUtensorMapDataType does, but for f32.ftz, f64 and bf16 */
            static const uint8_t type[] = {PTX_TM_U8,       PTX_TM_U16, PTX_TM_U32,    PTX_TM_S32,
                                           PTX_TM_U64,      PTX_TM_S64, PTX_TM_F16,    PTX_TM_F32,
                                           PTX_TM_F32_FTZ,  PTX_TM_F64, PTX_TM_BF16,   PTX_TM_TF32,
                                           PTX_TM_TF32_FTZ, PTX_TM_B4,  PTX_TM_B4_P64, PTX_TM_B6_P32};
            m.type = v < sizeof type ? type[v] : 255;
            break;
        }
        case PTX_M_INTERLEAVE_LAYOUT: m.interleave = low; break;
        case PTX_M_SWIZZLE_MODE: m.swizzle = low; break;
        case PTX_M_SWIZZLE_ATOMICITY: m.atom = low; break;
        default: m.fill = low; break;
        }
        ptx_tensormap_encode(&m, raw);
        if (w->wk->track && (at.space == PTX_GLOBAL || (at.space == PTX_GENERIC && a >> SG_WINDOW_SHIFT == 0))) {
            uint64_t ad[SG_LANES];
            ad[l] = a;
            sg_track_lanes(w, &at, ad, 1u << l, 128, SG_WRITE);
        }
        memcpy(p, raw, sizeof raw);
    }
    return op + 1;
}

const struct sg_op *sg_tensormap_copy(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_op to = sg_bulk_part(w, op, SG_BULK_TO, op->space), from = sg_bulk_part(w, op, SG_BULK_FROM, op->sub);
    unsigned l = (unsigned)__builtin_ctz(w->mask); /* .aligned: all threads name the same map */
    uint64_t a = sg_address(w, &to, l), b = sg_address(w, &from, l);
    if ((a | b) % 128) {
        bool first = !w->wk->fault;
        sg_fault_at(w, op, DT_E_BOUNDS, l, a, 128, "a tensor map at 0x%llx or 0x%llx is misaligned",
                    (unsigned long long)a, (unsigned long long)b);
        w->wk->f.misaligned |= first;
        return NULL;
    }
    const uint8_t *q = sg_bulk_reach(w, &from, l, b, 128, SG_READ);
    uint8_t *p = q ? sg_bulk_reach(w, &to, l, a, 128, SG_WRITE) : NULL;
    if (!p)
        return NULL;
    memcpy(p, q, 128);
    return op + 1;
}
