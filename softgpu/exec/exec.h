/* The executor: the operations that decoded code is made of, and what a launch does with the state of its blocks.
 *
 * An operation is a handler (sg_handler) in op->fn; the decoder chooses it and fills in the fields that are named here.
 * Handlers check what they access, and end the launch by sg_fault_at. Those that may have to wait park their lanes in
 * w->frag and return NULL.
 *
 * Most operations are lane loops: rows of lanes.def, one function for 32 lanes. They are compiled three times, for
 * x86-64 of levels 1, 3 and 4; sg_isa() gives the table for this CPU, indexed by SG_H_*.
 */
#ifndef DT_SOFTGPU_EXEC_H
#define DT_SOFTGPU_EXEC_H

#include "softgpu/state/state.h"

/* ---- lane loops (lanes.def) -------------------------------------------------------------------------------------- */
enum sg_lane_op { /* lanes.inc; one table per instruction set */
#define A1(NAME, ...) SG_H_##NAME,
#define A2(NAME, ...) SG_H_##NAME,
#define A3(NAME, ...) SG_H_##NAME,
#define C2(NAME, ...) SG_H_##NAME,
#define M(NAME, ...) SG_H_##NAME,
#include "softgpu/exec/lanes.def"
#undef A1
#undef A2
#undef A3
#undef C2
#undef M
                  SG_H_COUNT
};
const sg_fn *sg_isa(void);

/* ---- control (warp.c, call.c) ------------------------------------------------------------------------------------ */
sg_handler sg_guarded; /* op->inner for the lanes whose guard predicate holds */
sg_handler sg_bra, sg_brx, sg_exit, sg_trap;
sg_handler sg_call, sg_return; /* of functions that are not inlined */
sg_handler sg_setmaxnreg, sg_activemask, sg_clock;
sg_handler sg_griddepcontrol; /* op->sub: 0 wait, 1 launch_dependents */
/* Functions without a body: vprintf, __assertfail, malloc, free, __dovetail_touch (offset in op->imm, site in op->x,
 * how in op->sub; record.h). */
sg_handler sg_vprintf, sg_assertfail, sg_malloc, sg_free, sg_touch;

/* ---- barriers and collectives (warp.c, collective.c): op->sub says which ----------------------------------------- */
sg_handler sg_bar, sg_bar_result, sg_collective;
enum sg_collective {
    SG_SYNC,
    SG_SHFL_UP,
    SG_SHFL_DOWN,
    SG_SHFL_BFLY,
    SG_SHFL_IDX,
    SG_VOTE_ALL,
    SG_VOTE_ANY,
    SG_VOTE_UNI,
    SG_VOTE_BALLOT,
    SG_MATCH_ANY,
    SG_MATCH_ALL,
    SG_REDUX_ADD,
    SG_REDUX_MIN,
    SG_REDUX_MAX,
    SG_REDUX_AND,
    SG_REDUX_OR,
    SG_REDUX_XOR,
    SG_REDUX_FMIN,
    SG_REDUX_FMAX,
    SG_ELECT
};
enum { SG_REDUX_ABS = 1 }; /* in op->rnd, with SG_NANP */
enum sg_bar_kind { SG_BAR_SYNC, SG_BAR_ARRIVE, SG_BAR_POPC, SG_BAR_AND, SG_BAR_OR };

/* ---- clusters (cluster.c) ---------------------------------------------------------------------------------------- */
sg_handler sg_cluster_arrive, sg_cluster_wait, sg_mapa, sg_getctarank, sg_isspacep_cta, sg_same_block;

/* ---- memory (access.c, track.c) ---------------------------------------------------------------------------------- */
sg_handler sg_load_slow, sg_store_slow; /* any space, type and size; the lane loops' loads and stores leave to these */
sg_handler sg_atomic, sg_cp_async;
sg_handler sg_prefetch; /* of a line into the L2 */

/* ---- exact arithmetic, lane by lane: all types and rounding modes ------------------------------------------------ */
sg_handler sg_slow_float; /* op->sub */
sg_handler sg_sincos;     /* the same, for SG_S_SIN and SG_S_COS of f32 */
enum sg_slow {
    SG_S_ADD,
    SG_S_SUB,
    SG_S_MUL,
    SG_S_FMA,
    SG_S_DIV,
    SG_S_RCP,
    SG_S_SQRT,
    SG_S_RSQRT,
    SG_S_SIN,
    SG_S_COS,
    SG_S_LG2,
    SG_S_EX2,
    SG_S_TANH,
    SG_S_MIN,
    SG_S_MAX,
    SG_S_ABS,
    SG_S_NEG,
    SG_S_MIN3,
    SG_S_MAX3
};
sg_handler sg_testp; /* op->sub */
enum sg_testp { SG_T_FINITE, SG_T_INFINITE, SG_T_NUMBER, SG_T_NAN, SG_T_NORMAL, SG_T_SUBNORMAL };
sg_handler sg_f32x2, sg_fma_oob; /* as sg_slow_float: of two floats; fma.oob */
/* Integers that the lane loops do not have, by op->sub. sg_carry: a op b (op c), with w->cc in (SG_CC_IN) and out
 * (SG_CC_OUT), in op->imm. */
sg_handler sg_carry, sg_odd_int;
enum sg_int { SG_I_ADD, SG_I_SUB, SG_I_MADLO, SG_I_MADHI, SG_I_FNS, SG_I_DP2A, SG_I_CVT_PACK, SG_I_X2 };
enum { SG_CC_IN = 1, SG_CC_OUT = 2 };
sg_handler sg_cvt, sg_cvt_x2, sg_cvt_narrow; /* op->type from, op->sub to, op->rnd */
/* value = (-1)^sign * mant * 2^exp, plus something smaller than the last place if `sticky`; rounded into a float type's
 * bits */
struct sg_parts {
    bool sign, nan, inf, sticky;
    uint64_t mant;
    int exp;
};
struct sg_parts sg_parts_of(uint64_t bits, enum ptx_type t);
uint64_t sg_parts_round(struct sg_parts p, enum ptx_type t, unsigned rnd);
sg_handler sg_video, sg_video1; /* op->sub says what a lane computes, op->imm where the lanes are */
enum sg_video_kind {
    SG_V_ADD,
    SG_V_SUB,
    SG_V_AVRG,
    SG_V_ABSDIFF,
    SG_V_MIN,
    SG_V_MAX,
    SG_V_EQ,
    SG_V_NE,
    SG_V_LT,
    SG_V_LE,
    SG_V_GT,
    SG_V_GE,
    SG_V_SHL,
    SG_V_SHR,
    SG_V_MAD
};
/* The first bit of each field: the write mask (0); the places of the four lanes of a and of b, three bits each; the
 * number of lanes; the signs of d, a, b; .add; .sat. */
enum sg_video_imm {
    SG_VIDEO_FROM_AT = 4,
    SG_VIDEO_LANES_AT = 28,
    SG_VIDEO_SIGN_AT = 32,
    SG_VIDEO_ADD_AT = 35,
    SG_VIDEO_SAT_AT = 36
};
/* Of those with one lane: for d, a and b the first bit (5 bits) and the number of bits (6); the signs of d, a, b; .sat;
 * the second operation (0 none, 1 .add, 2 .min, 3 .max); .wrap; .po; a minus before the product, before c; bits to
 * shift the result. */
enum sg_video1_imm {
    SG_VIDEO1_SIGN_AT = 33,
    SG_VIDEO1_SAT_AT = 36,
    SG_VIDEO1_SECOND_AT,
    SG_VIDEO1_WRAP_AT = 39,
    SG_VIDEO1_PO_AT,
    SG_VIDEO1_NEG_AT,
    SG_VIDEO1_NEG_C_AT,
    SG_VIDEO1_SHIFT_AT
};

/* ---- matrices (matrix.c, wgmma.c): op->x is the index of a struct sg_mma ----------------------------------------- */
unsigned sg_matrix_bits(enum ptx_type t); /* of an element; 0: no type of matrices */
struct sg_fragment sg_fragment(enum sg_mat_role role, enum ptx_type t, unsigned rows, unsigned cols);
bool sg_fragment_table(struct dt_arena *arena, struct sg_fragment *f); /* false: memory is out */
sg_handler sg_mma, sg_wmma_load, sg_wmma_store, sg_ldmatrix, sg_stmatrix, sg_movmatrix, sg_wgmma;

/* ---- textures and surfaces (texture.c, surface.c) ---------------------------------------------------------------- */
sg_handler sg_fetch;         /* op->sub: enum sg_fetch_how; op->type: of the destination; op->n: channel to gather */
sg_handler sg_texture_query; /* of op->a; op->sub: the query less PTX_M_WIDTH; op->b: level, or SG_NONE; op->n: kinds */
sg_handler sg_texture_kind;  /* istypep: is the handle op->a one of kind op->sub? */
/* op->sub: enum sg_surface_how, op->a: a row for addresses; op->c: sub-operation of red; the rest as of ld, st, red */
sg_handler sg_surface_load, sg_surface_store, sg_surface_reduce;
enum sg_fetch_how { SG_FETCH_PLAIN, SG_FETCH_LEVEL, SG_FETCH_GRAD, SG_FETCH_GATHER };
enum sg_fetch_ext { /* of sg_fetch, in code->ext from op->x on: refs, or SG_NONE */
                    SG_FX_TEXTURE,
                    SG_FX_SAMPLER,
                    SG_FX_DST,                  /* 2 or 4 */
                    SG_FX_PRED = SG_FX_DST + 4, /* the second destination */
                    SG_FX_LAYER,
                    SG_FX_COORD, /* 3 of each that follows */
                    SG_FX_DX = SG_FX_COORD + 3,
                    SG_FX_DY = SG_FX_DX + 3,
                    SG_FX_OFFSET = SG_FX_DY + 3,
                    SG_FX_LOD = SG_FX_OFFSET + 3,
                    SG_FX_SHAPE, /* dimensions; SG_SHAPE_* */
                    SG_FX_COUNT
};
enum { SG_SHAPE_DIMS = 3, SG_SHAPE_CUBE = 4, SG_SHAPE_LAYERED = 8, SG_SHAPE_INTEGER = 16 };
enum sg_surface_how { SG_SURFACE_TRAP, SG_SURFACE_CLAMP, SG_SURFACE_ZERO, SG_SURFACE_HOW = 3, SG_SURFACE_SAMPLES = 4 };
enum sg_surface_ext { /* of sg_surface, in code->ext from op->imm on */
                      SG_SX_SURFACE,
                      SG_SX_LAYER,
                      SG_SX_COORD,
                      SG_SX_SHAPE = SG_SX_COORD + 3,
                      SG_SX_DATA, /* of sust.p: n and n refs */
                      SG_SX_COUNT = SG_SX_DATA + 5
};

/* ---- mbarriers, bulk copies, copies of tensors (mbarrier.c, bulk.c, tensor.c) ------------------------------------ */
sg_handler sg_mbarrier, sg_mbarrier_count; /* op->sub */
enum sg_mbarrier {
    SG_MB_INIT,
    SG_MB_INVAL,
    SG_MB_ARRIVE,
    SG_MB_DROP,
    SG_MB_ARRIVE_TX,
    SG_MB_DROP_TX,
    SG_MB_EXPECT_TX,
    SG_MB_COMPLETE_TX,
    SG_MB_WAIT,
    SG_MB_PARITY,
    SG_MB_NOTHING
};
/* Operands of copies: in code->ext from op->x on. */
enum sg_bulk_ext {                   /* an address is three words: ref, SG_A64 or 0, offset */
                   SG_BULK_TO = 0,   /* stores of tensors: the source; tensormap.*: the map */
                   SG_BULK_FROM = 3, /* copies of tensors: the map */
                   SG_BULK_BAR = 6,  /* SG_NONE: a bulk group */
                   SG_BULK_SIZE = 9, /* ref; tensormap.replace: the value */
                   SG_BULK_CTAS,     /* ref of the mask of multicast, or SG_NONE */
                   SG_BULK_BYTES,    /* ref of the byte mask, or SG_NONE */
                   SG_BULK_OP,       /* enum ptx_mod: the reduction, or 0; the field of tensormap.replace */
                   SG_BULK_TYPE,     /* enum ptx_type; the ordinal of tensormap.replace */
                   SG_BULK_COORDS,   /* number of coordinates; tensormap.replace: the value has 64 bits */
                   SG_BULK_COORD,    /* refs */
                   SG_BULK_EXT = SG_BULK_COORD + 5
};
bool sg_bulk_reduces(enum ptx_mod m, enum ptx_type t, bool global); /* PTX has this reduction */
sg_handler sg_bulk_copy, sg_bulk_prefetch;
sg_handler sg_tensor_load, sg_tensor_store, sg_tensor_prefetch, sg_tensormap_replace, sg_tensormap_copy;

/* ---- for jit/: what compiled code leaves to the interpreter ------------------------------------------------------ */
const struct sg_op *sg_switch(struct sg_warp *w, const struct sg_op *bb); /* at a BB, with other fragments waiting */
const struct sg_op *sg_out_of_fuel(struct sg_warp *w, const struct sg_op *bb);
/* matrix.c: how many mma from `op` on, of one kind, sg_mma_some() does at once, of whole warps, and how; 0: that one it
 * does not. A bit each: A is that of the one before; done together with the next one; B is not laid out yet. */
enum { SG_MMA_RUN = 16 };
struct sg_mma_plan {
    uint16_t n, same, pair, fresh;
    uint64_t lay; /* 4 bits each: where B is laid out */
};
struct sg_mma_plan sg_mma_plan(const struct sg_code *c, const struct sg_op *op, const struct sg_op *end);
/* how: n, same, pair, fresh, from the low bits on */
void sg_mma_some(struct sg_warp *w, const struct sg_op *op, uint64_t how, uint64_t lay);
/* track.c: a warp read or wrote bytes [lo, lo + bytes) of an allocation */
void sg_track_range(struct sg_warp *w, const struct sg_op *op, const struct sg_range *r, uint64_t lo, uint64_t bytes,
                    enum sg_access how);
/* The same for two pieces, of `a_bytes` and `b_bytes`, that are counted once where they overlap; false: nothing is
 * done, a bitmap is to be made first. No vector register is touched. */
#if defined __x86_64__ && !defined __clang__
#define SG_GENERAL_ONLY                                                                                                \
    __attribute__((no_caller_saved_registers, target("general-regs-only"), no_sanitize("address,undefined,thread")))
#define SG_GENERAL_INLINE                                                                                              \
    static inline __attribute__((always_inline, target("general-regs-only"), no_sanitize("address,undefined,thread")))
#else
#define SG_GENERAL_ONLY
#define SG_GENERAL_INLINE static inline
#endif
SG_GENERAL_ONLY bool sg_track_quick(struct sg_worker *wk, const struct sg_range *r, unsigned write, uint64_t a,
                                    uint64_t a_bytes, uint64_t b, uint64_t b_bytes);
/* The same for one aligned element of at most 32 bytes a lane of `mask`. */
SG_GENERAL_ONLY bool sg_track_plain(struct sg_worker *wk, const struct sg_range *r, unsigned write,
                                    const uint64_t addr[SG_LANES], uint32_t mask);

/* ---- for launch/ ------------------------------------------------------------------------------------------------- */
/* The next fragment of a warp to run; NULL: none can, and w->stop is set. */
const struct sg_op *sg_pick(struct sg_warp *w);
void sg_calls_reset(struct sg_warp *w);
void sg_calls_free(struct sg_warp *w);
/* The cluster size of a launch: its own, or where that is (0,0,0) the kernel's, else one block. NULL: it fits; else the
 * reason why not. */
const char *sg_cluster_shape(const struct sg_launch *l, uint32_t ret[3], bool *ret_explicit);
/* Linear number of block `rank` of cluster `i`. */
uint64_t sg_cluster_block(const struct sg_run *run, uint64_t i, uint32_t rank);
void sg_cluster_konst(const struct sg_run *run, uint8_t *konst); /* the launch's constants about clusters */
void sg_cluster_block_konst(const struct sg_block *b);           /* the block's */
void sg_shadow_done(struct sg_range *r);
/* track.c: sectors that were touched */
int sg_track_init(struct sg_worker *wk);
void sg_track_done(struct sg_worker *wk);
/* distinct bytes read, written */
void sg_track_sum(const struct sg_run *run, uint64_t ret_bytes[2], uint64_t *ret_fetched);
/* record.c: nothing where the launch has no recorder */
int sg_record_start(struct sg_worker *wk);
void sg_record_block(struct sg_block *b); /* it has ended: give out what it touched */
void sg_record_free(struct sg_block *b);
void sg_record_end(struct sg_worker *wk);
void sg_record_stray(const struct sg_launch *l, const struct sg_worker *wk); /* its fault is one: tell the recorder */
/* talk.c: who waits for whom; only where wk->talk is there */
int sg_talk_start(struct sg_worker *wk);
void sg_talk_free(struct sg_worker *wk);
void sg_talk_block_start(struct sg_worker *wk, bool alone); /* alone: no other block is resident */
void sg_talk_block_end(struct sg_worker *wk, uint64_t longest);
uint32_t sg_talk_finish(const struct sg_worker *wk, const struct sg_stats *all); /* the record's number, or 0 */

#endif
