/* What each lane loop (exec/lanes.def) reads and writes: the operands of struct sg_op that it uses, and their widths.
 *
 * A handler that compiled code calls finds what it reads in memory, and what it writes is read from there again, so
 * what is said here must be what its row does; unknown ones are called with everything in memory (struct rows, all).
 */
#include <pthread.h>

#include "softgpu/jit/jit-priv.h"

const struct lane_row sg_jit_lane_rows_of[SG_H_COUNT] = {
#define A1(N, D, A, ...) [SG_H_##N] = {1, L_##D, L_##A, 0, 0},
#define A2(N, D, A, B, ...) [SG_H_##N] = {2, L_##D, L_##A, L_##B, 0},
#define A3(N, D, A, B, C, ...) [SG_H_##N] = {3, L_##D, L_##A, L_##B, L_##C},
#define C2(N, T, ...) [SG_H_##N] = {4, 0, L_##T, L_##T, 0},
#define M(N, ...)
#include "softgpu/exec/lanes.def"
#undef A1
#undef A2
#undef A3
#undef C2
#undef M
};

static enum var_kind kind_of(enum lane_type t) { return t == L_u64 || t == L_s64 || t == L_f64 ? ROW64 : ROW32; }

/* By a table with the handlers' addresses, made once. */
enum { NUMBERS = 1024 };
static struct {
    sg_fn fn;
    int h;
} number[NUMBERS];
static pthread_once_t numbered = PTHREAD_ONCE_INIT;

static unsigned number_at(sg_fn fn)
{
    unsigned i = (unsigned)((uint64_t)(uintptr_t)fn * 0x9E3779B97F4A7C15u >> 54);
    while (number[i].fn && number[i].fn != fn)
        i = (i + 1) % NUMBERS;
    return i;
}

static void number_all(void)
{
    const sg_fn *t = sg_isa();
    for (int h = SG_H_COUNT; h-- > 0;) {
        unsigned i = number_at(t[h]);
        number[i].fn = t[h];
        number[i].h = h;
    }
}

int sg_jit_lane_number(sg_fn fn)
{
    pthread_once(&numbered, number_all);
    unsigned i = number_at(fn);
    return number[i].fn ? number[i].h : -1;
}

static void reads(struct rows *r, uint32_t ref, enum var_kind k)
{
    r->read[r->reads] = ref;
    r->read_kind[r->reads++] = (uint8_t)k;
}
static void lanes_writes(struct rows *r, uint32_t ref, enum var_kind k)
{
    r->write[r->writes] = ref;
    r->write_kind[r->writes++] = (uint8_t)k;
}

/* Loads, stores and reductions: 8 16 32 64 bits, of global and shared memory. */
static bool memory_rows(int h, const struct sg_op *op, const struct sg_code *c, struct rows *r)
{
    bool load = h >= SG_H_LD_GLOBAL_8 && h <= SG_H_LD_SHARED_64,
         store = h >= SG_H_ST_GLOBAL_8 && h <= SG_H_ST_SHARED_64;
    if (!load && !store && h < SG_H_RED_GLOBAL_32)
        return false;
    unsigned bytes = load    ? 1u << (h - SG_H_LD_GLOBAL_8) % 4
                     : store ? 1u << (h - SG_H_ST_GLOBAL_8) % 4
                             : 4u << (h - SG_H_RED_GLOBAL_32) % 2;
    enum var_kind k = bytes == 8 || (load && op->flags & SG_D64) ? ROW64 : ROW32;
    reads(r, op->a, op->flags & SG_A64 ? ROW64 : ROW32);
    if (!load && !store) {
        reads(r, op->b, k);
        return true;
    }
    for (unsigned e = 0; e < op->n && e < 8; e++) {
        uint32_t ref = op->n == 1 ? load ? op->d : op->b : c->ext[op->x + e];
        if (load)
            lanes_writes(r, ref, k);
        else
            reads(r, ref, k);
    }
    return true;
}

void sg_jit_lane_rows(int h, const struct sg_op *op, const struct sg_code *c, struct rows *r)
{
    const struct lane_row *l = &sg_jit_lane_rows_of[h];
    if (memory_rows(h, op, c, r))
        return;
    switch (h) {
    case SG_H_BFI_u32:
    case SG_H_BFI_u64: {
        enum var_kind k = h == SG_H_BFI_u32 ? ROW32 : ROW64;
        reads(r, op->a, k), reads(r, op->b, k), reads(r, op->c, ROW32), reads(r, op->x, ROW32),
            lanes_writes(r, op->d, k);
        return;
    }
    case SG_H_SELP_u32:
    case SG_H_SELP_u64: {
        enum var_kind k = h == SG_H_SELP_u32 ? ROW32 : ROW64;
        reads(r, op->a, k), reads(r, op->b, k), reads(r, op->c, PRED), lanes_writes(r, op->d, k);
        return;
    }
    case SG_H_SHFL:
        reads(r, op->a, ROW32), reads(r, op->b, ROW32), reads(r, op->c, ROW32), lanes_writes(r, op->d, ROW32);
        reads(r, c->ext[op->x], ROW32); /* the mask */
        if (c->ext[op->x + 1] != SG_NONE)
            lanes_writes(r, c->ext[op->x + 1], PRED);
        return;
    case SG_H_PMOV:
    case SG_H_PNOT: reads(r, op->a, PRED), lanes_writes(r, op->d, PRED); return;
    case SG_H_PAND:
    case SG_H_POR:
    case SG_H_PXOR: reads(r, op->a, PRED), reads(r, op->b, PRED), lanes_writes(r, op->d, PRED); return;
    case SG_H_FMA_RZ_f32:
    case SG_H_FMA_RM_f32:
    case SG_H_FMA_RP_f32: reads(r, op->c, ROW32); /* fall through */
    case SG_H_FADD_RZ_f32:
    case SG_H_FADD_RM_f32:
    case SG_H_FADD_RP_f32:
    case SG_H_FMUL_RZ_f32:
    case SG_H_FMUL_RM_f32:
    case SG_H_FMUL_RP_f32: reads(r, op->a, ROW32), reads(r, op->b, ROW32), lanes_writes(r, op->d, ROW32); return;
    default: break;
    }
    if (!l->sources) {
        r->all = true;
        return;
    }
    if (l->sources == 4) {
        reads(r, op->a, kind_of(l->a)), reads(r, op->b, kind_of(l->b));
        if (op->sub)
            reads(r, op->c, PRED);
        lanes_writes(r, op->d, PRED);
        if (op->flags & SG_HAS_Q)
            lanes_writes(r, op->x, PRED);
        return;
    }
    reads(r, op->a, kind_of(l->a));
    if (l->sources > 1)
        reads(r, op->b, kind_of(l->b));
    if (l->sources > 2)
        reads(r, op->c, kind_of(l->c));
    lanes_writes(r, op->d, kind_of(l->d));
}
