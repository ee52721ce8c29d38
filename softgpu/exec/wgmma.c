/* wgmma.mma_async: products of a warpgroup (4 warps, the first a multiple of 4), PTX ISA 9.0 §9.7.15.
 *
 * D (64 x N) = A * B + D, or A * B where scale-d is false. Each warp holds 16 rows of D, and of A if A is in registers,
 * as fragments of mma with more tiles along N (§9.7.15.5.1.1). B, and A otherwise, lie in shared memory as a descriptor
 * says (§9.7.15.5.1.2):
 *
 *     bits 0-13    start                                      without its low 4 bits
 *     bits 16-29   leading dimension byte offset L            without its low 4 bits
 *     bits 32-45   stride dimension byte offset S             without its low 4 bits
 *     bits 49-51   base offset
 *     bits 62-63   swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
 *
 * in chunks of 16 bytes. K is always 32 bytes, two chunks. W is the swizzle's width in chunks (1 for none). Chunk c of
 *
 *     K-major      row r    (r % 8) * 16 W + (r / 8) * S + c * (16, or L without a swizzle)
 *     MN-major     row k of K, 8 elements of M or N a chunk
 *                           (k % 8) * 16 W + (c % W) * 16 + (c / W) * L + (k / 8) * S
 *                           without a swizzle L and S change places; 16-bit types only
 *
 * from the start. Then bits 4 … 6 of the address are exchanged: they are xored with bits 7 … 9, as many bits as W has,
 * counted from the base offset. So 8 chunks along one direction and a step along the other are a register of a
 * fragment, as they stand or transposed.
 *
 * Time. The instruction is asynchronous and may run at any moment up to wgmma.wait_group; here it runs when the last
 * warp of the group gets to it. A program that reads D too early, or writes A, B or shared memory too early, is wrong
 * on a GPU and goes unnoticed here; so does a missing wgmma.fence or fence.proxy.async. Checked: 128 threads at the
 * same instruction, with the same descriptors and scale-d; bounds. Rounding is that of mma.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

struct source {                               /* a matrix in shared memory */
    uint32_t start, lead, stride, base, wide; /* wide: W */
    bool turned;
};

static struct source source_of(uint64_t desc, bool turned)
{
    static const uint8_t wide[] = {1, 8, 4, 2};
    return (struct source){.start = (uint32_t)(desc & 0x3FFF) << 4,
                           .lead = (uint32_t)(desc >> 16 & 0x3FFF) << 4,
                           .stride = (uint32_t)(desc >> 32 & 0x3FFF) << 4,
                           .base = desc >> 49 & 7,
                           .wide = wide[desc >> 62],
                           .turned = turned};
}

/* Rows 8 * tile … of the tile, step t along K, as a register of a fragment. */
static bool wgmma_load(struct sg_warp *w, const struct sg_op *op, const struct source *s, unsigned tile, unsigned t,
                       uint32_t *out)
{
    const uint8_t *row[8];
    const uint32_t wide = s->wide;
    uint32_t from = s->start, at[8], top = 0;
    if (!s->turned)
        from += tile * s->stride + t * (wide == 1 ? s->lead : 16);
    else if (wide == 1)
        from += tile * s->stride + t * s->lead;
    else
        from += tile % wide * 16 + tile / wide * s->lead + t * s->stride;
    for (unsigned i = 0; i < 8; i++) {
        uint32_t x = from + i * 16 * wide;
        x ^= (((x >> 7) - s->base) & (wide - 1)) << 4;
        top = x > top ? x : top;
        at[i] = x; /* a multiple of 16 */
    }
    for (unsigned i = 0; i < 8; i++)
        row[i] = w->shared + at[i];
    const bool stray = (uint64_t)top + 16 > w->shared_bytes;
    for (unsigned i = 0; (stray || w->wk->check) && i < 8; i++) {
        if ((uint64_t)at[i] + 16 > w->shared_bytes && !(row[i] = sg_resolve(w, op, 0, at[i], 16, false)))
            return false;
        if (w->wk->check && !sg_check_wgmma(w, op, row[i], 16))
            return false;
    }
    const struct sg_products *p = sg_isa_products();
    if (p->matrices_get)
        p->matrices_get(row, 1, s->turned, &out);
    else if (s->turned)
        sg_turn(row, out);
    else
        for (unsigned i = 0; i < 8; i++)
            memcpy(out + 4 * i, row[i], 16);
    return true;
}

/* The operands that all 128 threads must agree on. */
struct common {
    uint64_t a, b;
    bool add;
};

static bool common(struct sg_warp *w, const struct sg_op *op, struct common *ret)
{
    const struct sg_warp *first = &w->blk->warp[w->index & ~3u];
    uint32_t p = *(const uint32_t *)sg_ref(first, op->c) ^ (op->flags & SG_C_NOT ? SG_ALL : 0);
    *ret = (struct common){.a = op->a == SG_NONE ? 0 : *(const uint64_t *)sg_ref(first, op->a),
                           .b = *(const uint64_t *)sg_ref(first, op->b),
                           .add = p & 1};
    uint64_t differ = 0;
    for (unsigned i = 0; i < 4; i++) {
        const struct sg_warp *v = first + i;
        const uint64_t *b = sg_ref(v, op->b), *a = op->a == SG_NONE ? b : sg_ref(v, op->a),
                       x = op->a == SG_NONE ? ret->b : ret->a;
        for (unsigned l = 0; l < SG_LANES; l++)
            differ |= (a[l] ^ x) | (b[l] ^ ret->b);
        uint32_t q = *(const uint32_t *)sg_ref(v, op->c) ^ (op->flags & SG_C_NOT ? SG_ALL : 0);
        differ |= ret->add ? ~q : q;
    }
    if (!differ)
        return true;
    for (unsigned i = 0; i < 4; i++) { /* who? */
        const struct sg_warp *v = first + i;
        const uint64_t *a = op->a == SG_NONE ? NULL : sg_ref(v, op->a), *b = sg_ref(v, op->b);
        uint32_t q = *(const uint32_t *)sg_ref(v, op->c) ^ (op->flags & SG_C_NOT ? SG_ALL : 0),
                 other = ret->add ? ~q : q;
        for (unsigned l = 0; l < SG_LANES; l++)
            if ((a && a[l] != ret->a) || b[l] != ret->b || other >> l & 1) {
                sg_fault_at(&w->blk->warp[v->index], op, DT_E_TRAP, l, 0, 0, "threads of a warpgroup give different %s",
                            other >> l & 1 ? "scale-d" : "matrix descriptors");
                return false;
            }
    }
    return true;
}

static void product(const struct sg_mma *s, const uint32_t *const *a, const void *lay, bool add, uint32_t *const *d)
{
    const struct sg_products *p = sg_isa_products();
    const unsigned tiles = s->tiles.high * s->tiles.wide;
    if (s->d.type != PTX_S32 && p->blocks &&
        p->blocks(&s->tiles, s->d.type == PTX_F16, add, a, lay, (const uint32_t *const *)d, d))
        return;
    union {
        float f[16 * 256];
        int32_t i[16 * 256];
    } acc;
    if (s->d.type != PTX_S32) {
        if (add)
            p->take_f(s->d.type == PTX_F16, tiles, (const uint32_t *const *)d, acc.f);
        else
            memset(acc.f, 0, tiles * 2 * SG_LANES * sizeof *acc.f);
        p->product_f(&s->tiles, a, lay, acc.f);
        p->give_f(s->d.type == PTX_F16, tiles, acc.f, d);
        return;
    }
    memset(acc.i, 0, tiles * 2 * SG_LANES * sizeof *acc.i);
    p->product_i(&s->tiles, a, lay, acc.i);
    for (unsigned r = 0; r < s->d.regs; r++) {
        if (add)
            sg_sum_i(s->saturate, d[r], acc.i + r * SG_LANES);
        memcpy(d[r], acc.i + r * SG_LANES, SG_LANES * sizeof *acc.i);
    }
}

/* a, b: descriptors (a: SG_NONE in registers); c: scale-d; x: number in code->mma; ext[imm …]: refs of D and of A */
const struct sg_op *sg_wgmma(struct sg_warp *w, const struct sg_op *op)
{
    if (!sg_whole_warp(w, op))
        return NULL;
    bool last;
    const struct sg_op *next = sg_meet_group(w, op, &last);
    if (!last)
        return next;
    const struct sg_mma *s = &w->code->mma[op->x];
    const uint32_t *ref = w->code->ext + op->imm;
    struct common c;
    if (!common(w, op, &c))
        return NULL;
    uint32_t b[2 * 32][SG_LANES], a[4][SG_LANES], *row[SG_WGMMA_REGS];
    const uint32_t *to_b[2 * 32], *to_a[4];
    uint32_t lay[SG_TILE_B];
    const struct source sb = source_of(c.b, s->col_b), sa = source_of(c.a, s->col_a);
    const struct sg_products *p = sg_isa_products();
    for (unsigned t = 0; t < 2; t++)
        for (unsigned j = 0; j < s->tiles.wide; j++) {
            to_b[t * s->tiles.wide + j] = b[t * s->tiles.wide + j];
            if (!wgmma_load(w, op, &sb, j, t, b[t * s->tiles.wide + j]))
                return NULL;
        }
    (s->d.type == PTX_S32 ? p->lay_i : p->lay_f)(&s->tiles, to_b, lay);
    for (unsigned i = 0; i < 4; i++) {
        const struct sg_warp *v = &w->blk->warp[(w->index & ~3u) + i];
        for (unsigned r = 0; r < s->d.regs; r++)
            row[r] = sg_ref(v, ref[r]);
        for (unsigned r = 0; r < 4; r++) {
            to_a[r] = op->a == SG_NONE ? sg_ref(v, ref[s->at_a + r]) : a[r];
            if (op->a != SG_NONE && !wgmma_load(w, op, &sa, 2 * i + r % 2, r / 2, a[r]))
                return NULL;
        }
        product(s, to_a, lay, c.add, row);
    }
    return next;
}
