/* Matrices held by a warp: mma, wmma.mma, wmma.load/store, ldmatrix, stmatrix, movmatrix.
 *
 * Fragments. A matrix of M x K (A), K x N (B) or M x N (C, D) lies in some registers of each of the 32 lanes. With g = lane / 4,
 * q = lane % 4, and E elements in a 32-bit register (32 / bits; 1 for tf32, f32, s32 and f64), element e of register r is
 *
 *     A   row g + 8 * (t % (M / 8)),  column q * E + e + 4 * E * (t / (M / 8))       t = r % number of tiles of 8 x 4E
 *     B   column g + 8 * (t % (N / 8)),  row q * E + e + 4 * E * (t / (N / 8))
 *     C   row g + 8 * (t % (M / 8)),  column 8 * (t / (M / 8)) + q * 2 + i % 2       i = r * E + e,  t = i / 2
 *
 * Each figure of PTX ISA 9.0 §9.7.14.5 but that of m8n8k4 with f16 is a case of it: tiles below each other first, then the next ones
 * along K. The manual leaves the layout of wmma's fragments open; here they follow the same formula, with more tiles. f16 fragments of wmma
 * have 8 registers whatever their size: the tiles repeat, so operations on all elements of a fragment keep the copies equal.
 *
 * Arithmetic. D = A * B + C, k ascending from C. Floats: product and sum in double, rounded to f32 after each k, to f16 once at the
 * end where D is f16. f64: one fused multiply-add each k. Integers: exact sum, then cut to 32 bits, or clamped with .satfinite.
 *
 * All 32 lanes must be there (the operation before is a bar.warp.sync of all): less is undefined in PTX, and a fault here.
 */
#include "softgpu/exec.h"

#include <math.h>
#include <string.h>

#include "softgpu/bits.h"

enum { MAX_OUTER = 32, MAX_K = 256 };

static bool whole(struct sg_warp *w, const struct sg_op *op)
{
    if (w->mask == SG_ALL)
        return true;
    sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(w->mask), 0, 0, "a matrix operation by %d threads of a warp instead of 32",
                __builtin_popcount(w->mask));
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
static inline void place(const struct sg_fragment *f, unsigned lane, unsigned r, unsigned e, unsigned *row, unsigned *col)
{
    unsigned per = f->per, g = lane >> 2, q = lane & 3;
    if (f->role == SG_MAT_C) {
        unsigned i = r * per + e, t = i >> 1, high = f->rows / 8;
        *row = g + 8 * (t % high);
        *col = 8 * (t / high) + q * 2 + (i & 1);
        return;
    }
    unsigned outer = f->role == SG_MAT_A ? f->rows : f->cols, inner = f->role == SG_MAT_A ? f->cols : f->rows, high = outer / 8;
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
                place(f, l, r, e, &row, &col);
                *at++ = (uint16_t)(row * f->cols + col);
            }
    return true;
}

/* ---- products --------------------------------------------------------------------------------------------------------- */
static float e4m3(uint32_t v)
{
    uint32_t e = v >> 3 & 15, m = v & 7;
    if (e == 15 && m == 7)
        return sg_float(SG_NAN32);
    float x = e ? sg_float((e + 120) << 23 | m << 20) : (float)m * 0x1p-9f;
    return v & 0x80 ? -x : x;
}

/* Element e of each lane's register */
static void row_f(const uint32_t *p, unsigned e, enum ptx_type t, float *out)
{
    switch (t) {
    case PTX_F16:
        for (unsigned l = 0; l < SG_LANES; l++)
            out[l] = sg_float(sg_f16_to_f32(p[l] >> 16 * e & 0xFFFF));
        break;
    case PTX_BF16:
        for (unsigned l = 0; l < SG_LANES; l++)
            out[l] = sg_float(sg_bf16_to_f32(p[l] >> 16 * e & 0xFFFF));
        break;
    case PTX_TF32: /* the low 13 bits do not count */
        for (unsigned l = 0; l < SG_LANES; l++)
            out[l] = sg_float(sg_nan_bits(p[l]) ? SG_NAN32 : p[l] & ~0x1FFFu);
        break;
    case PTX_E4M3:
        for (unsigned l = 0; l < SG_LANES; l++)
            out[l] = e4m3(p[l] >> 8 * e & 0xFF);
        break;
    case PTX_E5M2:
        for (unsigned l = 0; l < SG_LANES; l++)
            out[l] = sg_float(sg_f16_to_f32((p[l] >> 8 * e & 0xFF) << 8));
        break;
    default:
        for (unsigned l = 0; l < SG_LANES; l++)
            out[l] = sg_float(p[l]);
    }
}

static void row_i(const uint32_t *p, unsigned e, enum ptx_type t, int32_t *out)
{
    unsigned bits = sg_matrix_bits(t), left = 32 - bits * (e + 1);
    bool sign = ptx_type_is_signed(t);
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint32_t x = p[l] << left;
        out[l] = sign ? (int32_t)x >> (32 - bits) : (int32_t)(x >> (32 - bits));
    }
}

static void row_d(const uint64_t *p, unsigned e, enum ptx_type t, double *out)
{
    for (unsigned l = 0; l < SG_LANES; l++)
        out[l] = sg_double(p[l]);
}

/* A as [row][k], B as [k][column], C as [row][column] */
#define GATHER(NAME, T, REG, ROW)                                                                                                    \
    static void NAME(const struct sg_warp *w, const struct sg_fragment *f, const uint32_t *ref, T *out)                                \
    {                                                                                                                                \
        const uint16_t *at = f->at;                                                                                                  \
        for (unsigned r = 0; r < f->regs; r++)                                                                                        \
            for (unsigned e = 0; e < f->per; e++, at += SG_LANES) {                                                                   \
                T row[SG_LANES];                                                                                                     \
                ROW(SG_P(REG, ref[r]), e, f->type, row);                                                                              \
                for (unsigned l = 0; l < SG_LANES; l++)                                                                               \
                    out[at[l]] = row[l];                                                                                             \
            }                                                                                                                        \
    }
GATHER(gather_f, float, uint32_t, row_f)
GATHER(gather_i, int32_t, uint32_t, row_i)
GATHER(gather_d, double, uint64_t, row_d)

static inline void multiply(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k)
{
    for (unsigned i = 0; i < m; i++, c += n, a += k)
        for (unsigned x = 0; x < k; x++) {
            double v = a[x];
            for (unsigned j = 0; j < n; j++)
                c[j] = (float)((double)c[j] + v * (double)b[x * n + j]);
        }
}

static void mma_float(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref)
{
    float a[MAX_OUTER * MAX_K], b[MAX_OUTER * MAX_K], c[MAX_OUTER * MAX_OUTER];
    unsigned m = s->c.rows, n = s->c.cols, k = s->a.cols;
    gather_f(w, &s->a, ref + s->at_a, a);
    gather_f(w, &s->b, ref + s->at_b, b);
    gather_f(w, &s->c, ref + s->at_c, c);
    if (n == 8) /* known widths make better loops */
        multiply(a, b, c, m, 8, k);
    else if (n == 16)
        multiply(a, b, c, m, 16, k);
    else
        multiply(a, b, c, m, n, k);
    const uint16_t *at = s->d.at;
    for (unsigned r = 0; r < s->d.regs; r++, at += s->d.per * SG_LANES) {
        uint32_t *d = SG_P(uint32_t, ref[r]);
        for (unsigned l = 0; l < SG_LANES; l++) {
            uint32_t v = sg_bits(c[at[l]]);
            d[l] = s->d.type == PTX_F16 ? sg_f32_to_f16(v) | sg_f32_to_f16(sg_bits(c[at[l + SG_LANES]])) << 16 : sg_nan_bits(v) ? SG_NAN32 : v;
        }
    }
}

static void mma_integer(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref)
{
    int32_t a[MAX_OUTER * MAX_K], b[MAX_OUTER * MAX_K], c[MAX_OUTER * MAX_OUTER];
    unsigned n = s->c.cols, k = s->a.cols;
    gather_i(w, &s->a, ref + s->at_a, a);
    gather_i(w, &s->b, ref + s->at_b, b);
    gather_i(w, &s->c, ref + s->at_c, c);
    for (unsigned r = 0; r < s->d.regs; r++)
        for (unsigned l = 0; l < SG_LANES; l++) {
            unsigned row = s->d.at[r * SG_LANES + l] / n, col = s->d.at[r * SG_LANES + l] % n;
            int64_t v = c[row * n + col];
            for (unsigned x = 0; x < k; x++) {
                int32_t p = a[row * k + x], q = b[x * n + col];
                v += s->bits == SG_MAT_XOR ? p ^ q : s->bits == SG_MAT_AND ? p & q : p * q;
            }
            SG_P(uint32_t, ref[r])[l] = s->saturate ? (uint32_t)sg_sat_s32(v) : (uint32_t)v;
        }
}

static void mma_double(struct sg_warp *w, const struct sg_mma *s, const uint32_t *ref)
{
    double a[16 * 16], b[16 * 8], c[16 * 8];
    unsigned n = s->c.cols, k = s->a.cols;
    gather_d(w, &s->a, ref + s->at_a, a);
    gather_d(w, &s->b, ref + s->at_b, b);
    gather_d(w, &s->c, ref + s->at_c, c);
    for (unsigned r = 0; r < s->d.regs; r++)
        for (unsigned l = 0; l < SG_LANES; l++) {
            unsigned row = s->d.at[r * SG_LANES + l] / n, col = s->d.at[r * SG_LANES + l] % n;
            double v = c[row * n + col];
            for (unsigned x = 0; x < k; x++)
                v = fma(a[row * k + x], b[x * n + col], v);
            SG_P(uint64_t, ref[r])[l] = v == v ? sg_bits64(v) : SG_NAN64;
        }
}

/* x: number in code->mma; ext[imm …]: refs of D, A, B, C */
const struct sg_op *sg_mma(struct sg_warp *w, const struct sg_op *op)
{
    if (!whole(w, op))
        return NULL;
    const struct sg_mma *s = &w->code->mma[op->x];
    const uint32_t *ref = w->code->ext + op->imm;
    if (s->c.type == PTX_S32)
        mma_integer(w, s, ref);
    else if (s->c.type == PTX_F64)
        mma_double(w, s, ref);
    else
        mma_float(w, s, ref);
    return op + 1;
}

/* ---- wmma.load, wmma.store: c holds the stride (in elements), x the number in code->mma (its `d` is the fragment), ext[b …] the refs ---- */
static const struct sg_op *wmma_memory(struct sg_warp *w, const struct sg_op *op, bool write)
{
    if (!whole(w, op))
        return NULL;
    const struct sg_mma *s = &w->code->mma[op->x];
    const struct sg_fragment *f = &s->d;
    const uint32_t *ref = w->code->ext + op->b;
    unsigned bytes = op->size;
    uint64_t at[SG_LANES] = {0};
    for (unsigned r = 0; r < f->regs; r++) {
        uint64_t value[SG_LANES] = {0};
        for (unsigned e = 0; e < f->per; e++) {
            uint32_t global = 0;
            for (unsigned l = 0; l < SG_LANES; l++) {
                uint64_t stride = op->c == SG_NONE ? (s->by_column ? f->rows : f->cols) : SG_P(uint32_t, op->c)[l];
                unsigned index = f->at[(r * f->per + e) * SG_LANES + l], row = index / f->cols, col = index % f->cols;
                at[l] = sg_address(w, op, l) + (s->by_column ? col * stride + row : row * stride + col) * bytes;
                uint8_t *p = sg_resolve(w, op, l, at[l], bytes, write);
                if (!p)
                    return NULL;
                if (op->space == PTX_GLOBAL || (op->space == PTX_GENERIC && !(at[l] >> SG_WINDOW_SHIFT)))
                    global |= 1u << l;
                if (write) {
                    uint64_t v = bytes == 8 ? SG_P(uint64_t, ref[r])[l] : SG_P(uint32_t, ref[r])[l] >> (8 * bytes * e);
                    memcpy(p, &v, bytes);
                } else {
                    uint64_t v = 0;
                    memcpy(&v, p, bytes);
                    value[l] |= v << 8 * bytes * e;
                }
            }
            if (global && w->wk->track && r < s->tiles)
                sg_track_lanes(w, op, at, global, bytes, write ? SG_WRITE : SG_READ);
        }
        for (unsigned l = 0; !write && l < SG_LANES; l++)
            if (bytes == 8)
                SG_P(uint64_t, ref[r])[l] = value[l];
            else
                SG_P(uint32_t, ref[r])[l] = (uint32_t)value[l];
    }
    return op + 1;
}
const struct sg_op *sg_wmma_load(struct sg_warp *w, const struct sg_op *op) { return wmma_memory(w, op, false); }
const struct sg_op *sg_wmma_store(struct sg_warp *w, const struct sg_op *op) { return wmma_memory(w, op, true); }

/* ---- ldmatrix, stmatrix: n matrices of 8 x 8 of 16 bits; row i of matrix j is 16 bytes at the address of lane 8 * j + i. Register j of a lane
 * holds the elements (g, 2q) and (g, 2q + 1) of matrix j; with .trans (2q, g) and (2q + 1, g). */
static bool rows(struct sg_warp *w, const struct sg_op *op, bool write, uint8_t *at[SG_LANES])
{
    for (unsigned l = 0; l < 8u * op->n; l++) {
        uint64_t a = sg_address(w, op, l);
        if (op->space == PTX_GENERIC && a >> SG_WINDOW_SHIFT != SG_WINDOW_SHARED >> SG_WINDOW_SHIFT) {
            sg_fault_at(w, op, DT_E_BOUNDS, l, a, 16, "address 0x%llx of a matrix is not in shared memory", (unsigned long long)a);
            return false;
        }
        at[l] = sg_resolve(w, op, l, a, 16, write);
        if (!at[l])
            return false;
    }
    return true;
}

static inline uint8_t *half(uint8_t *at[SG_LANES], const struct sg_op *op, unsigned j, unsigned l, unsigned e)
{
    unsigned g = l >> 2, q = (l & 3) * 2 + e, row = op->sub ? q : g, col = op->sub ? g : q;
    return at[8 * j + row] + 2 * col;
}

const struct sg_op *sg_ldmatrix(struct sg_warp *w, const struct sg_op *op)
{
    uint8_t *at[SG_LANES];
    if (!whole(w, op) || !rows(w, op, false, at))
        return NULL;
    for (unsigned j = 0; j < op->n; j++)
        for (unsigned l = 0; l < SG_LANES; l++) {
            uint16_t v[2];
            memcpy(&v[0], half(at, op, j, l, 0), 2);
            memcpy(&v[1], half(at, op, j, l, 1), 2);
            SG_P(uint32_t, w->code->ext[op->x + j])[l] = v[0] | (uint32_t)v[1] << 16;
        }
    return op + 1;
}

const struct sg_op *sg_stmatrix(struct sg_warp *w, const struct sg_op *op)
{
    uint8_t *at[SG_LANES];
    if (!whole(w, op) || !rows(w, op, true, at))
        return NULL;
    for (unsigned j = 0; j < op->n; j++)
        for (unsigned l = 0; l < SG_LANES; l++) {
            uint32_t v = SG_P(uint32_t, w->code->ext[op->x + j])[l];
            memcpy(half(at, op, j, l, 0), &(uint16_t){(uint16_t)v}, 2);
            memcpy(half(at, op, j, l, 1), &(uint16_t){(uint16_t)(v >> 16)}, 2);
        }
    return op + 1;
}

const struct sg_op *sg_movmatrix(struct sg_warp *w, const struct sg_op *op)
{
    if (!whole(w, op))
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
