/* Tensor maps: bytes, requirements, rows of a box, swizzle.
 *
 * Swizzle (PTX §5.5.7) exchanges atoms within a span of shared memory: the number of the atom in its span is
 * exclusive-ored with the address bits from 7 up. So the pattern depends on the address, not on where the box begins. A
 * row that is shorter than the span still takes a whole span. 32B+8B-flip also exchanges the two 8-byte halves of 16
 * bytes wherever bit 7 is set.
 *
 * Not here: im2col, and rows of interleaved layouts (ptx_tensormap_check knows their requirements only).
 */
#include "ptx/tensormap.h"

#include <string.h>

#define MAGIC 0x4D544744u

void ptx_tensormap_unit(enum ptx_tm_type t, unsigned *ret_elements, unsigned *ret_global, unsigned *ret_shared)
{
    static const uint8_t bytes[PTX_TM_TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 8, 8, 12};
    *ret_elements = t >= PTX_TM_B4 ? 16 : 1;
    *ret_global = bytes[t];
    *ret_shared = t >= PTX_TM_B4_P64 ? 16 : bytes[t];
}

enum ptx_type ptx_tensormap_type(enum ptx_tm_type t)
{
    static const uint8_t type[PTX_TM_TYPES] = {PTX_U8,  PTX_U16, PTX_U32,  PTX_S32, PTX_U64, PTX_S64, PTX_F16,
                                               PTX_F32, PTX_F64, PTX_BF16, PTX_F32, PTX_F32, PTX_F32};
    return (enum ptx_type)type[t];
}

static uint32_t span(const struct ptx_tensormap *m) { return m->swizzle ? 16u << m->swizzle : 0; }

const char *ptx_tensormap_check(const struct ptx_tensormap *m)
{
    if (m->type >= PTX_TM_TYPES || m->interleave > 2 || m->swizzle > PTX_TM_SWIZZLE_128B || m->atom > PTX_TM_ATOM_64B ||
        m->l2 > 3 || m->fill > 1)
        return "a field has no such value";
    if (m->rank < 1 || m->rank > 5)
        return "the rank is not 1 to 5";
    if (m->interleave && m->rank < 3)
        return "an interleaved layout has at least 3 dimensions";
    bool padded = m->type == PTX_TM_B4_P64 || m->type == PTX_TM_B6_P32;
    unsigned elements, global, shared, align = m->interleave == 2 || padded ? 32 : 16;
    ptx_tensormap_unit((enum ptx_tm_type)m->type, &elements, &global, &shared);
    if (!m->address || m->address % align)
        return "the global address is not aligned";
    for (unsigned i = 0; i < m->rank; i++) {
        if (!m->dim[i] || m->dim[i] > UINT64_C(1) << 32)
            return "a dimension of the tensor is not 1 to 2^32";
        if (i && (m->stride[i] % align || m->stride[i] >= UINT64_C(1) << 40))
            return "a stride is no multiple of 16 (32) bytes below 2^40";
        if (!m->box[i] || m->box[i] > 256)
            return "a dimension of the box is not 1 to 256";
        if ((!m->step[i] || m->step[i] > 8) && (i || m->interleave))
            return "an element stride is not 1 to 8";
    }
    if (padded && (m->dim[0] % 128 || m->box[0] != 128))
        return "the packed type wants dimension 0 in multiples of 128 and a box of 128";
    if (m->type == PTX_TM_B4 && m->dim[0] % 2)
        return "the packed type wants an even dimension 0";
    if (!m->interleave) {
        uint64_t bits = (uint64_t)m->box[0] * global * 8 / elements;
        if (padded ? m->box[0] % 16 : bits % 128)
            return "a row of the box is no multiple of 16 bytes";
        if (m->swizzle && (uint64_t)m->box[0] * shared / elements > span(m))
            return "a row of the box is longer than the swizzle's span";
    }
    if (m->interleave == 2 && m->swizzle != PTX_TM_SWIZZLE_32B)
        return "interleave 32B wants swizzle 32B";
    if (m->atom && m->swizzle != PTX_TM_SWIZZLE_128B)
        return "only a swizzle of 128 bytes has other atoms";
    if (m->type == PTX_TM_B6_P32 && m->interleave)
        return "6-bit elements have no interleaved layout";
    if (padded && m->swizzle && m->swizzle != PTX_TM_SWIZZLE_128B)
        return "the packed type does not go with this swizzle";
    if (padded && (m->atom == PTX_TM_ATOM_32B_FLIP_8B || (m->atom == PTX_TM_ATOM_64B && m->type == PTX_TM_B4_P64)))
        return "the packed type does not go with this swizzle";
    if (m->fill && (m->type < PTX_TM_F16 || m->type >= PTX_TM_B4))
        return "only floating-point types are filled with NaN";
    return NULL;
}

/* ---- the 128 bytes ----------------------------------------------------------------------------------------------- */
static void tensormap_put(uint8_t *p, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t tensormap_get(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

void ptx_tensormap_encode(const struct ptx_tensormap *m, uint8_t out[PTX_TENSORMAP_BYTES])
{
    memset(out, 0, PTX_TENSORMAP_BYTES);
    tensormap_put(out, m->address, 8);
    tensormap_put(out + 28, MAGIC, 4);
    for (unsigned i = 0; i < 5; i++) {
        tensormap_put(out + 8 + 4 * i, m->dim[i] - 1, 4);
        if (i)
            tensormap_put(out + 24 + 8 * i, m->stride[i], 8);
        tensormap_put(out + 64 + 2 * i, m->box[i], 2);
        out[74 + i] = (uint8_t)(m->step[i] - 1);
    }
    out[79] = (uint8_t)(m->rank - 1);
    out[80] = m->type;
    out[81] = m->interleave;
    out[82] = m->swizzle;
    out[83] = m->atom;
    out[84] = m->l2;
    out[85] = m->fill;
}

bool ptx_tensormap_decode(const uint8_t in[PTX_TENSORMAP_BYTES], struct ptx_tensormap *ret)
{
    if (tensormap_get(in + 28, 4) != MAGIC)
        return false;
    struct ptx_tensormap m = {.address = tensormap_get(in, 8),
                              .type = in[80],
                              .interleave = in[81],
                              .swizzle = in[82],
                              .atom = in[83],
                              .l2 = in[84],
                              .fill = in[85]};
    m.rank = (uint8_t)(in[79] < 254 ? in[79] + 1 : 255);
    for (unsigned i = 0; i < 5; i++) {
        m.dim[i] = tensormap_get(in + 8 + 4 * i, 4) + 1;
        m.stride[i] = i ? tensormap_get(in + 24 + 8 * i, 8) : 0;
        m.box[i] = (uint32_t)tensormap_get(in + 64 + 2 * i, 2);
        m.step[i] = in[74 + i] + 1u;
    }
    *ret = m;
    return true;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static uint32_t tensormap_count(const struct ptx_tensormap *m, unsigned i)
{
    return (m->box[i] + m->step[i] - 1) / m->step[i];
}

uint32_t ptx_tensormap_rows(const struct ptx_tensormap *m)
{
    uint64_t n = 1;
    for (unsigned i = 1; i < m->rank; i++)
        n *= tensormap_count(m, i);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

uint32_t ptx_tensormap_row_units(const struct ptx_tensormap *m)
{
    unsigned elements, global, shared;
    ptx_tensormap_unit((enum ptx_tm_type)m->type, &elements, &global, &shared);
    return m->box[0] / elements;
}

static uint32_t tensormap_row_bytes(const struct ptx_tensormap *m)
{
    unsigned elements, global, shared;
    ptx_tensormap_unit((enum ptx_tm_type)m->type, &elements, &global, &shared);
    return m->box[0] / elements * shared;
}

uint32_t ptx_tensormap_row_pitch(const struct ptx_tensormap *m)
{
    uint32_t row = tensormap_row_bytes(m);
    return row < span(m) ? span(m) : row;
}

uint32_t ptx_tensormap_box_bytes(const struct ptx_tensormap *m)
{
    uint64_t n = (uint64_t)tensormap_row_bytes(m) * ptx_tensormap_rows(m);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

struct ptx_tm_row ptx_tensormap_row(const struct ptx_tensormap *m, const int32_t coord[5], uint32_t row)
{
    struct ptx_tm_row r = {.address = m->address};
    unsigned elements, global, shared;
    ptx_tensormap_unit((enum ptx_tm_type)m->type, &elements, &global, &shared);
    for (unsigned i = 1; i < m->rank; i++) {
        uint32_t n = tensormap_count(m, i);
        int64_t at = (int64_t)coord[i] + (int64_t)(row % n) * m->step[i];
        row /= n;
        if (at < 0 || (uint64_t)at >= m->dim[i])
            return r;
        r.address += (uint64_t)at * m->stride[i];
    }
    int64_t first = coord[0] / (int64_t)elements, end = first + m->box[0] / elements,
            all = (int64_t)((m->dim[0] + elements - 1) / elements);
    int64_t lo = first < 0 ? 0 : first, hi = end < all ? end : all;
    if (lo >= hi)
        return r;
    r.skip = (uint32_t)(lo - first);
    r.inside = (uint32_t)(hi - lo);
    r.address += (uint64_t)lo * global;
    return r;
}

uint32_t ptx_tensormap_swizzled(const struct ptx_tensormap *m, uint32_t at)
{
    if (!m->swizzle)
        return at;
    uint32_t atom = m->atom == PTX_TM_ATOM_16B ? 16 : m->atom == PTX_TM_ATOM_64B ? 64 : 32, atoms = span(m) / atom;
    uint32_t to = at ^ (at >> 7 & (atoms - 1)) * atom;
    return m->atom == PTX_TM_ATOM_32B_FLIP_8B ? to ^ (at >> 4 & 8) : to;
}
