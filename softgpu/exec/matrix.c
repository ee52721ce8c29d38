/* Matrices held by a warp: mma, wmma.mma, ldmatrix, stmatrix, movmatrix (wmma.load and wmma.store: wmma.c).
 *
 * Fragments. A matrix of M x K (A), K x N (B) or M x N (C, D) lies in some registers of each of the 32 lanes. With g =
 * lane / 4, q = lane % 4, and E elements in a 32-bit register (32 / bits; 1 for tf32, f32, s32 and f64), element e of
 * register r is
 *
 *     A   row g + 8 * (t % (M / 8)),  column q * E + e + 4 * E * (t / (M / 8))       t = r % number of tiles of 8 x 4E
 *     B   column g + 8 * (t % (N / 8)),  row q * E + e + 4 * E * (t / (N / 8))
 *     C   row g + 8 * (t % (M / 8)),  column 8 * (t / (M / 8)) + q * 2 + i % 2       i = r * E + e,  t = i / 2
 *
 * Each figure of PTX ISA 9.0 §9.7.14.5 but that of m8n8k4 with f16 is a case of it: tiles below each other first, then
 * the next ones along K. The manual leaves the layout of wmma's fragments open; here they follow the same formula, with
 * more tiles. f16 fragments of wmma have 8 registers whatever their size: the tiles repeat, so operations on all
 * elements of a fragment keep the copies equal.
 *
 * m8n8k4 of f16 is four products, one for each quad pair: lanes 4p … 4p + 3 and 16 + 4p … 16 + 4p + 3 (§9.7.14.5.1);
 * see mma_quads().
 *
 * Arithmetic. D = A * B + C, k ascending from C. Floats: one fused multiply-add in f32 each k, rounded to nearest even;
 * rounded to f16 once at the end where D is f16. Subnormals count, any NaN gives the canonical one. f64: the same in
 * f64, in the rounding mode asked for. Integers: exact sum, then cut to 32 bits, or clamped with .satfinite. The manual
 * leaves order, rounding and intermediate precision of floats open, and tensor cores differ from each other there;
 * docs/CHOICES.md. matrix.inc does the products, matrix-blocks.inc those of floats by AVX-512.
 *
 * All 32 lanes must be there (the operation before is a bar.warp.sync of all): less is undefined in PTX, and a fault
 * here.
 */
#include "softgpu/exec/exec-priv.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "softgpu/exec/bits.h"

enum { MAX_N = 1024, MAX_SUMS = 512 }; /* elements of B, of C, in one instruction */

bool sg_whole_warp(struct sg_warp *w, const struct sg_op *op)
{
    if (w->mask == SG_ALL)
        return true;
    sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(w->mask), 0, 0,
                "a matrix operation by %d threads of a warp instead of 32", __builtin_popcount(w->mask));
    return false;
}

unsigned sg_matrix_bits(enum ptx_type t)
{
    switch (t) {
    case PTX_F16:
    case PTX_BF16: return 16;
    case PTX_TF32:
    case PTX_F32:
    case PTX_S32: return 32;
    case PTX_F64: return 64;
    case PTX_S8:
    case PTX_U8:
    case PTX_E4M3:
    case PTX_E5M2: return 8;
    case PTX_S4:
    case PTX_U4: return 4;
    case PTX_B1: return 1;
    default: return 0;
    }
}

static unsigned per_register(enum ptx_type t)
{
    unsigned bits = sg_matrix_bits(t);
    return bits >= 32 ? 1 : 32 / bits;
}

/* Where element e of register r of a lane lies: the formula of the head comment. */
static inline void matrix_place(const struct sg_fragment *f, unsigned lane, unsigned r, unsigned e, unsigned *row,
                                unsigned *col)
{
    unsigned per = f->per, g = lane >> 2, q = lane & 3;
    if (f->role == SG_MAT_C) {
        unsigned i = r * per + e, t = i >> 1, high = f->rows / 8;
        *row = g + 8 * (t % high);
        *col = 8 * (t / high) + q * 2 + (i & 1);
        return;
    }
    unsigned outer = f->role == SG_MAT_A ? f->rows : f->cols, inner = f->role == SG_MAT_A ? f->cols : f->rows,
             high = outer / 8;
    unsigned t = r % (high * (inner / (4 * per))), o = g + 8 * (t % high), k = q * per + e + 4 * per * (t / high);
    *row = f->role == SG_MAT_A ? o : k;
    *col = f->role == SG_MAT_A ? k : o;
}

struct sg_fragment sg_fragment(enum sg_mat_role role, enum ptx_type t, unsigned rows, unsigned cols)
{
    struct sg_fragment f = {.role = role, .type = t, .rows = rows, .cols = cols, .per = per_register(t)};
    f.regs = rows * cols / SG_LANES / f.per;
    return f;
}

/* f->at: [register][element][lane], row * cols + column of each */
bool sg_fragment_table(struct dt_arena *arena, struct sg_fragment *f)
{
    uint16_t *at = dt_new_array(arena, uint16_t, f->regs * f->per * SG_LANES);
    if (!at)
        return false;
    f->at = at;
    for (unsigned r = 0; r < f->regs; r++)
        for (unsigned e = 0; e < f->per; e++)
            for (unsigned l = 0; l < SG_LANES; l++) {
                unsigned row, col;
                matrix_place(f, l, r, e, &row, &col);
                *at++ = (uint16_t)(row * f->cols + col);
            }
    return true;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
static void rows_of(const struct sg_warp *w, const uint32_t *ref, unsigned n, uint32_t **ret)
{
    for (unsigned r = 0; r < n; r++)
        ret[r] = SG_P(uint32_t, ref[r]);
}

/* Where the elements of a sparse A belong (§9.7.14.6): place[row][x] is the column of element x. In each row, a chunk
 * of 4 elements (tf32: 2, of which one is; s4 and u4: 8, in pairs) is there by half, and 4 bits of metadata give the
 * places of the two, or two pairs: for tf32 0100 or
 * 1110. Where a row's metadata lies in the registers of its four lanes:
 *
 *     f16, bf16, tf32   lane `selector`, or lanes 2 * selector and 2 * selector + 1 for 4 chunks each; row g below bit
 *                       16, row g + 8 above
 *     8 and 4 bits      row g in lane 2 * selector, row g + 8 in the next one, 8 chunks; the 8 after those in the two
 *                       lanes after these
 */
static bool places(struct sg_warp *w, const struct sg_op *op, const struct sg_mma *s, const uint32_t *ref,
                   uint8_t place[16][64])
{
    const unsigned bits = sg_matrix_bits(s->a.type), unit = bits == 4 ? 2 : 1, chunk = bits == 32 ? 2 : 4 * unit,
                   n = s->b.rows / chunk;
    const uint32_t *meta = SG_P(uint32_t, ref[s->at_c + s->c.regs]);
    for (unsigned row = 0; row < 16; row++)
        for (unsigned c = 0; c < n; c++) {
            unsigned high = row / 8, wide = bits >= 16, lane = row % 8 * 4;
            lane += !wide ? 2 * s->selector + high + c / 8 * 2 : n > 4 ? 2 * s->selector + c / 4 : s->selector;
            unsigned e = meta[lane] >> (wide ? 16 * high + c % 4 * 4 : c % 8 * 4) & 15, at[2] = {e & 3, e >> 2};
            bool fine = bits == 32 ? e == 4 || e == 14 : s->ordered ? at[0] < at[1] : at[0] != at[1];
            if (!fine) {
                sg_fault_at(w, op, DT_E_TRAP, lane, 0, 0,
                            "metadata 0x%x of row %u, columns %u to %u of a sparse matrix", e, row, c * chunk,
                            c * chunk + chunk - 1);
                return false;
            }
            if (bits == 32)
                at[0] /= 2;
            for (unsigned i = 0; i < chunk / 2; i++)
                place[row][c * chunk / 2 + i] = (uint8_t)(c * chunk + at[i / unit] * unit + i % unit);
        }
    return true;
}

/* Floats: what is not there takes no part, so infinities of B do not meet a zero. */
static void sparse_float(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref, uint8_t place[16][64])
{
    const struct sg_products *p = sg_isa_products();
    const unsigned k = s->b.rows, half = k / 2;
    /* A's fragments look like those of a B with 16 columns */
    const struct sg_tiles as_b = {.b = s->tiles.a, .wide = 2, .steps = s->tiles.steps / 2, .per = s->tiles.per};
    uint32_t *row[SG_MMA_REGS];
    float a[MAX_N], b[MAX_N], acc[MAX_SUMS];
    rows_of(w, ref, s->at_c + s->c.regs, row);
    p->lay_f(&as_b, (const uint32_t *const *)row + s->at_a, a);
    p->lay_f(&s->tiles, (const uint32_t *const *)row + s->at_b, b);
    p->take_f(s->c.type == PTX_F16, 2, (const uint32_t *const *)row + s->at_c, acc);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned x = 0; x < half; x++) {
            unsigned y = x; /* ascending columns: the two of a chunk may stand the other way round */
            if (s->tiles.per > 1)
                y = place[i][x | 1] < place[i][x & ~1u] ? x ^ 1 : x;
            float v = a[(i / 8 * half + y) * 8 + i % 8 / 2 + i % 2 * 4];
            for (unsigned j = 0; j < 8; j++) {
                float *c = &acc[(i / 8 * 2 + j % 2) * SG_LANES + i % 8 * 4 + j / 2];
                *c = fmaf(v, b[place[i][y] * 8 + j / 2 + j % 2 * 4], *c);
            }
        }
    p->give_f(s->d.type == PTX_F16, 2, acc, row);
}

/* Integers: zeros in the gaps. */
static void fill_gaps(const struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref, uint8_t place[16][64],
                      uint32_t dense[8][SG_LANES])
{
    const unsigned bits = sg_matrix_bits(s->a.type), per = s->a.per;
    memset(dense, 0, 8 * sizeof *dense);
    for (unsigned row = 0; row < 16; row++)
        for (unsigned x = 0; x < s->b.rows / 2; x++) {
            unsigned y = place[row][x], lane = row % 8 * 4, high = row / 8;
            uint32_t v = SG_P(uint32_t, ref[s->at_a + x / (4 * per) * 2 + high])[lane + x / per % 4] >> x % per * bits &
                         ((1u << bits) - 1);
            dense[y / (4 * per) * 2 + high][lane + y / per % 4] |= v << y % per * bits;
        }
}

static void mma_float(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref)
{
    const struct sg_products *p = sg_isa_products();
    uint32_t *row[SG_MMA_REGS];
    float lay[MAX_N], acc[MAX_SUMS];
    const unsigned tiles = s->tiles.high * s->tiles.wide;
    rows_of(w, ref, s->at_c + s->c.regs, row);
    p->lay_f(&s->tiles, (const uint32_t *const *)row + s->at_b, lay);
    if (p->blocks && s->c.type == s->d.type &&
        p->blocks(&s->tiles, s->c.type == PTX_F16, true, (const uint32_t *const *)row + s->at_a, lay,
                  (const uint32_t *const *)row + s->at_c, row))
        return;
    p->take_f(s->c.type == PTX_F16, tiles, (const uint32_t *const *)row + s->at_c, acc);
    p->product_f(&s->tiles, (const uint32_t *const *)row + s->at_a, lay, acc);
    p->give_f(s->d.type == PTX_F16, tiles, acc, row);
}

static void mma_integer(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref, uint8_t place[16][64])
{
    const struct sg_products *p = sg_isa_products();
    uint32_t *row[SG_MMA_REGS];
    int32_t lay[MAX_N], acc[MAX_SUMS] = {0};
    rows_of(w, ref, s->at_c + s->c.regs, row);
    p->lay_i(&s->tiles, (const uint32_t *const *)row + s->at_b, lay);
    uint32_t dense[8][SG_LANES], *to_dense[8];
    if (s->sparse)
        fill_gaps(w, s, ref, place, dense);
    for (unsigned r = 0; r < 8; r++)
        to_dense[r] = dense[r];
    p->product_i(&s->tiles, (const uint32_t *const *)(s->sparse ? to_dense : row + s->at_a), lay, acc);
    for (unsigned r = 0; r < s->c.regs; r++)
        sg_sum_i(s->saturate, row[s->at_c + r], acc + r * SG_LANES);
    for (unsigned r = 0; r < s->d.regs; r++)
        memcpy(row[r], acc + r * SG_LANES, SG_LANES * sizeof *acc);
}

/* acc += c */
void sg_sum_i(bool saturate, const uint32_t *c, int32_t *acc)
{
    for (unsigned l = 0; l < SG_LANES; l++)
        acc[l] = saturate ? sg_sat_s32((int64_t)(int32_t)c[l] + acc[l]) : (int32_t)(c[l] + (uint32_t)acc[l]);
}

static void mma_double(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref)
{
    static const int host[] = {
        [SG_RN] = FE_TONEAREST, [SG_RZ] = FE_TOWARDZERO, [SG_RM] = FE_DOWNWARD, [SG_RP] = FE_UPWARD};
    const uint64_t *row[SG_MMA_REGS];
    double acc[MAX_SUMS];
    for (unsigned r = s->at_a; r < s->at_c; r++)
        row[r] = SG_P(uint64_t, ref[r]);
    for (unsigned r = 0; r < s->c.regs; r++)
        memcpy(acc + r * SG_LANES, SG_P(uint64_t, ref[s->at_c + r]), SG_LANES * sizeof *acc);
    if (s->rnd != SG_RN)
        fesetround(host[s->rnd]);
    sg_isa_products()->product_d(&s->tiles, row + s->at_a, row + s->at_b, acc);
    if (s->rnd != SG_RN)
        fesetround(FE_TONEAREST);
    for (unsigned r = 0; r < s->d.regs; r++)
        memcpy(SG_P(uint64_t, ref[r]), acc + r * SG_LANES, SG_LANES * sizeof *acc);
}

/* m8n8k4 of f16. In a quad pair, lane t = 0 … 3 of its low half and 4 … 7 of its high half; element i of
 *     A   row t, column i       (.col: row i + 4 * (t / 4), column t % 4)
 *     B   column t, row i       (.row: column i + 4 * (t / 4), row t % 4)
 *     C   f16: row t, column i   f32: row (t & 1) + (i & 2) + 4 * (t / 4), column (i & 4) + (t & 2) + (i & 1) */
static void quad_c(bool half, unsigned t, unsigned i, unsigned *row, unsigned *col)
{
    *row = half ? t : (t & 1) + (i & 2) + (t & 4);
    *col = half ? i : (i & 4) + (t & 2) + (i & 1);
}

static void mma_quads(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref)
{
    uint32_t out[8][SG_LANES] = {{0}};
    bool half_c = s->c.type == PTX_F16, half_d = s->d.type == PTX_F16;
    for (unsigned pair = 0; pair < 4; pair++) {
        uint32_t a[8][4], b[4][8], c[8][8]; /* bits of f32 */
        for (unsigned t = 0; t < 8; t++) {
            unsigned lane = 4 * pair + (t & 3) + 4 * (t & 4), row, col;
            for (unsigned i = 0; i < 4; i++) {
                unsigned k = t & 3, o = i + (t & 4);
                uint32_t x = sg_f16_to_f32(SG_P(uint32_t, ref[s->at_a + i / 2])[lane] >> 16 * (i & 1) & 0xFFFF);
                uint32_t y = sg_f16_to_f32(SG_P(uint32_t, ref[s->at_b + i / 2])[lane] >> 16 * (i & 1) & 0xFFFF);
                *(s->col_a ? &a[o][k] : &a[t][i]) = x;
                *(s->col_b ? &b[i][t] : &b[k][o]) = y;
            }
            for (unsigned i = 0; i < 8; i++) {
                quad_c(half_c, t, i, &row, &col);
                c[row][col] = half_c
                                  ? sg_f16_to_f32(SG_P(uint32_t, ref[s->at_c + i / 2])[lane] >> 16 * (i & 1) & 0xFFFF)
                                  : SG_P(uint32_t, ref[s->at_c + i])[lane];
            }
        }
        for (unsigned i = 0; i < 8; i++)
            for (unsigned j = 0; j < 8; j++)
                for (unsigned k = 0; k < 4; k++)
                    c[i][j] = sg_bits(fmaf(sg_float(a[i][k]), sg_float(b[k][j]), sg_float(c[i][j])));
        for (unsigned t = 0; t < 8; t++)
            for (unsigned i = 0; i < 8; i++) {
                unsigned lane = 4 * pair + (t & 3) + 4 * (t & 4), row, col;
                quad_c(half_d, t, i, &row, &col);
                uint32_t v = c[row][col];
                if (half_d)
                    out[i / 2][lane] |= sg_f32_to_f16(v) << 16 * (i & 1);
                else
                    out[i][lane] = sg_nan_bits(v) ? SG_NAN32 : v;
            }
    }
    for (unsigned r = 0; r < s->d.regs; r++)
        memcpy(SG_P(uint32_t, ref[r]), out[r], sizeof out[r]);
}

/* x: number in code->mma; ext[imm …]: refs of D, A, B, C */
const struct sg_op *sg_mma(struct sg_warp *w, const struct sg_op *op)
{
    if (!sg_whole_warp(w, op))
        return NULL;
    const struct sg_mma *s = &w->code->mma[op->x];
    const uint32_t *ref = w->code->ext + op->imm;
    uint8_t place[16][64];
    if (s->sparse && !places(w, op, s, ref, place))
        return NULL;
    if (s->quads)
        mma_quads(w, s, ref);
    else if (s->c.type == PTX_S32)
        mma_integer(w, s, ref, place);
    else if (s->sparse)
        sparse_float(w, s, ref, place);
    else if (s->c.type == PTX_F64)
        mma_double(w, s, ref);
    else
        mma_float(w, s, ref);
    return op + 1;
}

/* ---- mma one after the other, for compiled code ------------------------------------------------------------------ */
static bool among(const uint32_t *ref, unsigned n, uint32_t one)
{
    for (unsigned i = 0; i < n; i++)
        if (ref[i] == one)
            return true;
    return false;
}

/* Does mma `a` write what `b` reads from its rows `from` on? */
static bool feeds(const struct sg_mma *s, const uint32_t *a, const uint32_t *b, unsigned from, unsigned end)
{
    for (unsigned r = 0; r < s->d.regs; r++)
        if (among(b + from, end - from, a[r]))
            return true;
    return false;
}

/* All in the warp's own rows, which are 32 lanes of 32 bits? */
static bool plain_refs(const uint32_t *ref, unsigned n)
{
    for (unsigned r = 0; r < n; r++)
        if (ref[r] & 3)
            return false;
    return true;
}

struct sg_mma_plan sg_mma_plan(const struct sg_code *c, const struct sg_op *op, const struct sg_op *end)
{
    struct sg_mma_plan p = {0};
    if (op->fn != sg_mma || !sg_isa_products()->run)
        return p;
    const struct sg_mma *s = &c->mma[op->x];
    const unsigned rows = s->at_c + s->c.regs, nb = s->at_c - s->at_b;
    if (s->sparse || s->quads || s->tiles.high != 2 || s->tiles.wide != 1 || s->c.type != s->d.type ||
        (s->c.type != PTX_F32 && s->c.type != PTX_F16) || rows > 16)
        return p;
    const uint32_t *held = NULL, *laid[SG_MMA_RUN]; /* whose A is converted, whose B is laid out, and as it was */
    unsigned slots = 0, n = 0;
    for (; n < SG_MMA_RUN && op + n < end && op[n].fn == sg_mma && op[n].x == op->x; n++) {
        const uint32_t *ref = c->ext + op[n].imm, *before = n ? c->ext + op[n - 1].imm : NULL;
        if (!plain_refs(ref, rows))
            break;
        if (held && !memcmp(held + s->at_a, ref + s->at_a, (s->at_b - s->at_a) * sizeof *ref))
            p.same |= (uint16_t)(1u << n);
        else
            held = ref;
        unsigned slot = 0;
        while (slot < slots && !(laid[slot] && !memcmp(laid[slot] + s->at_b, ref + s->at_b, nb * sizeof *ref)))
            slot++;
        if (slot == slots) {
            laid[slots++] = ref;
            p.fresh |= (uint16_t)(1u << n);
        }
        p.lay |= (uint64_t)slot << 4 * n;
        if (before && p.same >> n & 1 && !(n > 1 && p.pair >> (n - 2) & 1) && !feeds(s, before, ref, s->at_b, rows))
            p.pair |= (uint16_t)(1u << (n - 1));
        if (feeds(s, ref, ref, s->at_a, s->at_b))
            held = NULL;
        for (unsigned i = 0; i < slots; i++)
            if (laid[i] && feeds(s, ref, laid[i], s->at_b, s->at_c))
                laid[i] = NULL;
    }
    p.n = (uint16_t)n;
    return p;
}

void sg_mma_some(struct sg_warp *w, const struct sg_op *op, uint64_t how, uint64_t lay)
{
    const struct sg_mma *s = &w->code->mma[op->x];
    struct sg_mma_run m = {.base = w->base[0],
                           .rows = s->at_c + s->c.regs,
                           .at_a = s->at_a,
                           .at_b = s->at_b,
                           .at_c = s->at_c,
                           .n = how & 0xFFFF,
                           .same = how >> 16 & 0xFFFF,
                           .pair = how >> 32 & 0xFFFF,
                           .fresh = (unsigned)(how >> 48),
                           .lay = lay};
    for (unsigned i = 0; i < m.n; i++)
        m.ref[i] = w->code->ext + op[i].imm;
    sg_isa_products()->run(&s->tiles, s->c.type == PTX_F16, &m);
}

/* ---- ldmatrix, stmatrix: n matrices of 8 x 8 of 16 bits; row i of matrix j is 16 bytes at the address of lane 8 * j +
 * i. Register j of a lane holds the elements (g, 2q) and (g, 2q + 1) of matrix j; with .trans (2q, g) and (2q + 1,
 * g). */
static bool matrix_places(struct sg_warp *w, const struct sg_op *op, bool write, uint8_t *at[SG_LANES])
{
    const struct sg_products *p = sg_isa_products();
    if (p->matrices_at && op->space == PTX_SHARED && !(op->flags & SG_A64)) {
        if (p->matrices_at(SG_P(uint32_t, op->a), (uint32_t)op->imm, op->n, w->shared, w->shared_bytes, at))
            return true;
    } else if (op->space == PTX_SHARED && !(op->flags & SG_A64)) {
        const uint32_t *a = SG_P(uint32_t, op->a), off = (uint32_t)op->imm;
        uint32_t odd = 0, top = 0;
        for (unsigned l = 0; l < 8u * op->n; l++) {
            uint32_t x = a[l] + off;
            odd |= x;
            top = x > top ? x : top;
            at[l] = w->shared + x;
        }
        if (!(odd & 15) && (uint64_t)top + 16 <= w->shared_bytes)
            return true;
    }
    for (unsigned l = 0; l < 8u * op->n; l++) {
        uint64_t a = sg_address(w, op, l);
        if (op->space == PTX_GENERIC && a >> SG_WINDOW_SHIFT != SG_WINDOW_SHARED >> SG_WINDOW_SHIFT) {
            sg_fault_at(w, op, DT_E_BOUNDS, l, a, 16, "address 0x%llx of a matrix is not in shared memory",
                        (unsigned long long)a);
            return false;
        }
        at[l] = sg_resolve(w, op, l, a, 16, write);
        if (!at[l])
            return false;
    }
    return true;
}

static bool matrix_rows(struct sg_warp *w, const struct sg_op *op, bool write, uint8_t *at[SG_LANES])
{
    uint32_t mask = op->n == 4 ? SG_ALL : (1u << 8 * op->n) - 1;
    if (!matrix_places(w, op, write, at))
        return false;
    return !w->wk->check || sg_check_lanes(w, op, at, mask, 16, write ? SG_WRITE : SG_READ, 0);
}

/* 8 rows of 16 bytes as a register: lane 4 * i + q has bytes 4q … 4q + 3 of row i; or turned, in 16-bit elements. */
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef uint32_t v4w __attribute__((vector_size(16)));

void sg_turn(const uint8_t *const row[8], uint32_t *out)
{
    v4w x[4][2]; /* [q][half]: elements (2q, g), (2q + 1, g) for four g */
    for (unsigned q = 0; q < 4; q++) {
        v8h a, b;
        memcpy(&a, row[2 * q], sizeof a);
        memcpy(&b, row[2 * q + 1], sizeof b);
        x[q][0] = (v4w)SHUFFLE(v8h, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        x[q][1] = (v4w)SHUFFLE(v8h, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (unsigned h = 0; h < 2; h++, out += 16) {
        v4w lo = SHUFFLE(v4w, x[0][h], x[1][h], 0, 4, 1, 5), hi = SHUFFLE(v4w, x[0][h], x[1][h], 2, 6, 3, 7);
        v4w ll = SHUFFLE(v4w, x[2][h], x[3][h], 0, 4, 1, 5), hh = SHUFFLE(v4w, x[2][h], x[3][h], 2, 6, 3, 7);
        v4w r[4] = {SHUFFLE(v4w, lo, ll, 0, 1, 4, 5), SHUFFLE(v4w, lo, ll, 2, 3, 6, 7),
                    SHUFFLE(v4w, hi, hh, 0, 1, 4, 5), SHUFFLE(v4w, hi, hh, 2, 3, 6, 7)};
        memcpy(out, r, sizeof r);
    }
}

const struct sg_op *sg_ldmatrix(struct sg_warp *w, const struct sg_op *op)
{
    uint8_t *at[SG_LANES];
    if (!sg_whole_warp(w, op) || !matrix_rows(w, op, false, at))
        return NULL;
    const struct sg_products *p = sg_isa_products();
    uint32_t *row[4];
    rows_of(w, w->code->ext + op->x, op->n, row);
    if (p->matrices_get) {
        p->matrices_get((const uint8_t *const *)at, op->n, op->sub, row);
        return op + 1;
    }
    for (unsigned j = 0; j < op->n; j++) {
        uint32_t *d = row[j];
        if (op->sub)
            sg_turn((const uint8_t *const *)at + 8 * j, d);
        else
            for (unsigned i = 0; i < 8; i++)
                memcpy(d + 4 * i, at[8 * j + i], 16);
    }
    return op + 1;
}

const struct sg_op *sg_stmatrix(struct sg_warp *w, const struct sg_op *op)
{
    uint8_t *at[SG_LANES];
    if (!sg_whole_warp(w, op) || !matrix_rows(w, op, true, at))
        return NULL;
    const struct sg_products *p = sg_isa_products();
    uint32_t *from[4];
    rows_of(w, w->code->ext + op->x, op->n, from);
    if (p->matrices_put) {
        p->matrices_put(at, op->n, op->sub, (const uint32_t *const *)from);
        return op + 1;
    }
    for (unsigned j = 0; j < op->n; j++) {
        const uint32_t *v = from[j];
        for (unsigned l = 0; l < SG_LANES; l++)
            for (unsigned e = 0; e < 2; e++) {
                unsigned g = l >> 2, q = (l & 3) * 2 + e, row = op->sub ? q : g, col = op->sub ? g : q;
                memcpy(at[8 * j + row] + 2 * col, &(uint16_t){(uint16_t)(v[l] >> 16 * e)}, 2);
            }
    }
    return op + 1;
}

const struct sg_op *sg_movmatrix(struct sg_warp *w, const struct sg_op *op)
{
    if (!sg_whole_warp(w, op))
        return NULL;
    uint16_t x[8][8];
    const uint32_t *a = SG_P(uint32_t, op->a);
    for (unsigned l = 0; l < SG_LANES; l++)
        for (unsigned e = 0; e < 2; e++)
            x[l >> 2][(l & 3) * 2 + e] = (uint16_t)(a[l] >> 16 * e);
    for (unsigned l = 0; l < SG_LANES; l++)
        SG_P(uint32_t, op->d)[l] = x[(l & 3) * 2][l >> 2] | (uint32_t)x[(l & 3) * 2 + 1][l >> 2] << 16;
    return op + 1;
}
