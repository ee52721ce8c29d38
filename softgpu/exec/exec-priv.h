/* Inside exec: what its files use of each other. */
#ifndef DT_SOFTGPU_EXEC_PRIV_H
#define DT_SOFTGPU_EXEC_PRIV_H

#include "softgpu/check/check.h"
#include "softgpu/exec/exec.h"

/* ---- isa.c, lanes-v1.c, lanes-v3.c, lanes-v4.c ------------------------------------------------------------------- */
extern const sg_fn sg_lanes_v1[SG_H_COUNT], sg_lanes_v3[SG_H_COUNT], sg_lanes_v4[SG_H_COUNT];
struct sg_lines { /* a matrix in memory: bytes from a row to the next one, from a column, of an element */
    uint8_t *base;
    uint32_t row, col, size;
};
/* The elements of a register lie beside each other. */
static inline bool sg_lines_beside(const struct sg_fragment *f, const struct sg_lines *m)
{
    return f->per == 1 || (f->role == SG_MAT_B ? m->row : m->col) == m->size;
}
struct sg_mma_run { /* of mma of one kind: `rows` refs each, and where those of A, B and C begin; sg_mma_plan */
    uint8_t *base;
    const uint32_t *ref[SG_MMA_RUN];
    unsigned rows, at_a, at_b, at_c, n, same, pair, fresh;
    uint64_t lay;
};
struct sg_products { /* matrix.inc, per instruction set; `lay` is what lay_f or lay_i make of B */
    void (*lay_f)(const struct sg_tiles *s, const uint32_t *const *b, void *lay);
    void (*lay_i)(const struct sg_tiles *s, const uint32_t *const *b, void *lay);
    void (*product_f)(const struct sg_tiles *s, const uint32_t *const *a, const float *lay, float *acc);
    void (*product_i)(const struct sg_tiles *s, const uint32_t *const *a, const int32_t *lay, int32_t *acc);
    void (*product_d)(const struct sg_tiles *s, const uint64_t *const *a, const uint64_t *const *b, double *acc);
    void (*take_f)(bool half, unsigned tiles, const uint32_t *const *c, float *acc);
    void (*give_f)(bool half, unsigned tiles, const float *acc, uint32_t *const *d);
    /* wmma.c: element i % per of register i / per, in bytes from the first element; all registers */
    void (*offsets)(const struct sg_fragment *f, const struct sg_lines *m, unsigned i, uint32_t *off);
    void (*fetch)(const struct sg_fragment *f, const struct sg_lines *m, void *const *reg);
    void (*put)(const struct sg_fragment *f, const struct sg_lines *m, void *const *reg);
    /* matrix-blocks.inc, or all NULL. The product of floats, with what take_f and give_f do; add: not from zero; false:
     * nothing is done. Some mma of one kind. ldmatrix and stmatrix of n matrices: where rows are in shared memory
     * (false: one is not, or misaligned); rows to registers, and back. */
    bool (*blocks)(const struct sg_tiles *s, bool half, bool add, const uint32_t *const *a, const float *lay,
                   const uint32_t *const *c, uint32_t *const *d);
    void (*run)(const struct sg_tiles *s, bool half, const struct sg_mma_run *m);
    bool (*matrices_at)(const uint32_t *a, uint32_t off, unsigned n, uint8_t *shared, uint64_t bytes, uint8_t **at);
    void (*matrices_get)(const uint8_t *const *row, unsigned n, bool turned, uint32_t *const *d);
    void (*matrices_put)(uint8_t *const *row, unsigned n, bool turned, const uint32_t *const *v);
};
extern const struct sg_products sg_products_v1, sg_products_v3, sg_products_v4;
const struct sg_products *sg_isa_products(void); /* those for this CPU */

/* ---- warp.c ------------------------------------------------------------------------------------------------------ */
static inline void sg_unpark(struct sg_warp *w, uint32_t i) { w->frag[i] = w->frag[--w->nfrag]; }
void sg_park(struct sg_warp *w, const struct sg_op *op, uint32_t mask, enum sg_frag_state state, unsigned bar);
/* The warp waits at `op` for the other warps of its warpgroup, and goes on behind it. *ret_last: it is the last one,
 * and does the work of all. If it is not, return what this returns. It is a fault if the warps meet at different
 * instructions. */
const struct sg_op *sg_meet_group(struct sg_warp *w, const struct sg_op *op, bool *ret_last);

/* ---- collective.c ------------------------------------------------------------------------------------------------ */
/* Nothing of the warp can run: execute waiting collectives of one kind together, if that completes any; their fragments
 * move on. False: it does not. */
bool sg_joint(struct sg_warp *w);

/* ---- extern.c ---------------------------------------------------------------------------------------------------- */

/* ---- access.c ---------------------------------------------------------------------------------------------------- */
uint64_t sg_address(const struct sg_warp *w, const struct sg_op *op, unsigned lane);
/* The host address of `bytes` at `addr` in op->space for one lane; NULL with the fault set. */
uint8_t *sg_resolve(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, unsigned bytes,
                    bool write);
/* The fault of an access to "shared memory" or the like that is misaligned or outside its `limit` bytes; NULL. */
void *sg_stray(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t at, unsigned bytes, const char *space,
               uint64_t limit);
/* Lanes of `mask` read `bytes` of global memory at ad[]: checked and counted, at[] where they are. False: fault. */
bool sg_read_lanes(struct sg_warp *w, const struct sg_op *op, const uint64_t ad[SG_LANES], uint32_t mask,
                   unsigned bytes, uint8_t *at[SG_LANES]);
/* The allocation of these bytes of global memory. NULL without a fault when they are not accessible. */
const struct sg_range *sg_find_range(struct sg_warp *w, const struct sg_op *op, uint64_t lo, uint64_t bytes);
void sg_race_check(struct sg_warp *w, const struct sg_op *op, const struct sg_range *range, unsigned lane, uint64_t lo,
                   uint64_t bytes, enum sg_access how);
/* Nobody but this block has touched the bytes: true, and it is recorded; also where nothing is to be recorded. */
bool sg_race_whole(struct sg_warp *w, const struct sg_range *range, uint64_t lo, uint64_t bytes, enum sg_access how);
/* sg_race_check of all active lanes, at base + at[lane]. */
void sg_race_lanes(struct sg_warp *w, const struct sg_op *op, const struct sg_range *range, uint64_t base,
                   const uint32_t *at, uint64_t bytes, enum sg_access how);
/* One atomic operation (op->sub, op->type, op->size) on `old`; c: compare-and-swap's new value. */
uint64_t sg_atomic_value(const struct sg_op *op, uint64_t old, uint64_t b, uint64_t c, bool global);

/* ---- track.c ----------------------------------------------------------------------------------------------------- */
void sg_track_lanes(struct sg_warp *w, const struct sg_op *op, const uint64_t *addr, uint32_t mask, unsigned bytes,
                    enum sg_access how);
/* The addresses of all 32 lanes, base + at[l], within r: aligned elements of at most 32 bytes. Inactive lanes repeat
 * the address of another lane. */
void sg_track_offsets(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t base,
                      const uint32_t *at, unsigned bytes, enum sg_access how);
/* The same, where each half of the warp is one element, or 16 in a line. */
void sg_track_halves(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t base,
                     const uint32_t *at, unsigned bytes, bool line0, bool line1, enum sg_access how);
/* Bytes that a bulk prefetch names; false: they are not in one allocation. */
bool sg_fetch_bulk(struct sg_worker *wk, uint64_t at, uint32_t bytes);

/* ---- cluster.c --------------------------------------------------------------------------------------------------- */
/* sg_resolve for an offset in the shared window that names a block. */
uint8_t *sg_cluster_resolve(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t at, unsigned bytes);
void sg_cluster_leave(struct sg_warp *w, uint32_t lanes); /* they have exited */

/* ---- slow.c, cvt.c ----------------------------------------------------------------------------------------------- */
#define SG_OOB_NAN 0x7FF7u /* what tensor copies fill with, in every 16 bits */
/* one f32, f16 or bf16 of sg_slow_float */
uint64_t sg_slow_one(const struct sg_op *op, uint64_t a, uint64_t b, uint64_t c, enum ptx_type t);
uint64_t sg_get_lane(const struct sg_warp *w, uint32_t ref, enum ptx_type t, unsigned lane);
void sg_put_lane(const struct sg_warp *w, uint32_t ref, enum ptx_type t, unsigned lane, uint64_t v);

/* ---- texture.c --------------------------------------------------------------------------------------------------- */
/* What a lane's handle names, if it is of that kind and of the instruction's shape (SG_SHAPE_*); NULL: fault. */
const struct sg_texture *sg_reference_of(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t handle,
                                         enum sg_reference kind, uint32_t shape);

/* ---- matrix.c ---------------------------------------------------------------------------------------------------- */
bool sg_whole_warp(struct sg_warp *w, const struct sg_op *op); /* false with a fault: lanes are missing */
/* a register from 8 rows of 8 elements of 16 bits, transposed */
void sg_turn(const uint8_t *const row[8], uint32_t *out);
void sg_sum_i(bool saturate, const uint32_t *c, int32_t *acc); /* one register: acc += c */

/* ---- mbarrier.c, bulk.c ------------------------------------------------------------------------------------------ */
/* `bytes` less to come on the object at `addr` in op->space; false: fault. */
bool sg_mbarrier_complete(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, uint32_t bytes);
/* one address as an operation */
struct sg_op sg_bulk_part(const struct sg_warp *w, const struct sg_op *op, unsigned which, unsigned space);
/* `n` bytes, a multiple of 16, that lie together; NULL with the fault set. */
uint8_t *sg_bulk_reach(struct sg_warp *w, const struct sg_op *part, unsigned lane, uint64_t addr, uint32_t n,
                       enum sg_access how);
/* Where a copy to shared memory goes, and what it signals: as given, or in each block of the multicast mask. -1:
 * fault. */
int sg_bulk_targets(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t to, uint64_t bar,
                    uint64_t ret_to[SG_MAX_CLUSTER], uint64_t ret_bar[SG_MAX_CLUSTER]);
void sg_bulk_reduce(const struct sg_warp *w, const struct sg_op *op, uint8_t *to, const uint8_t *from, uint32_t n,
                    enum ptx_type t, bool global);

/* ---- talk.c: only where wk->talk is there ------------------------------------------------------------------------ */
/* sem: enum sg_sem */
void sg_talk_access(struct sg_warp *w, unsigned sem, const uint64_t *addr, uint32_t mask, enum sg_access how);

#endif
