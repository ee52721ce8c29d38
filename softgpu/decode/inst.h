/* Inside decode: families of instructions. Each decodes d->i, or returns SG_ELSEWHERE where it belongs to another one.
 * Below are the forms that most instructions that compute have, for arith.c, compare.c, logic.c and move.c.
 */
#ifndef DT_SOFTGPU_DECODE_INST_H
#define DT_SOFTGPU_DECODE_INST_H

#include "softgpu/decode/decode-priv.h"

/* The lane loops of an operation by the width of its type, unsigned and signed: indexed by sg_by_width(). */
#define W3(N)                                                                                                          \
    {                                                                                                                  \
        SG_H_##N##_u16, SG_H_##N##_u32, SG_H_##N##_u64                                                                 \
    }
#define S3(N)                                                                                                          \
    {                                                                                                                  \
        SG_H_##N##_s16, SG_H_##N##_s32, SG_H_##N##_s64                                                                 \
    }
static inline unsigned sg_by_width(enum ptx_type t)
{
    return ptx_type_bytes(t) == 8 ? 2 : ptx_type_bytes(t) == 4 ? 1 : 0;
}

enum { SG_ELSEWHERE = 1 }; /* the instruction is decoded in another file */
int sg_decode_arith(struct sg_dec *d);
int sg_decode_compare(struct sg_dec *d);
int sg_decode_logic(struct sg_dec *d);
int sg_decode_move(struct sg_dec *d);
int sg_decode_memory(struct sg_dec *d);
int sg_decode_sync(struct sg_dec *d);
int sg_decode_texture(struct sg_dec *d);
/* The row of a parameter of 4 or 8 bytes. */
uint32_t sg_param_row(struct sg_dec *d, uint32_t from, uint32_t bytes);

/* The instruction's rounding mode and modifiers as enum sg_rnd. */
unsigned sg_dec_rounding(const struct ptx_inst *i);
/* Emit lane loop h with operands 0, 1 … of the instruction as destination (type td) and one, two or three sources. */
struct sg_op *sg_dec_un(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta);
struct sg_op *sg_dec_bin(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta, enum ptx_type tb);
struct sg_op *sg_dec_tri(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta, enum ptx_type tb,
                         enum ptx_type tc);
/* Emit lane loop h on these rows. */
struct sg_op *sg_dec_put(struct sg_dec *d, unsigned h, uint32_t dst, uint32_t a, uint32_t b);
/* Emit an operation of exec/slow.c: on these rows, or on n sources of the instruction's type. */
struct sg_op *sg_dec_slow_op(struct sg_dec *d, sg_fn fn, unsigned sub, const uint32_t s[3]);
struct sg_op *sg_dec_slow(struct sg_dec *d, sg_fn fn, unsigned sub, unsigned n);
/* The row of a half operand (f16 or bf16) converted to f32. */
uint32_t sg_dec_half(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t, bool ftz);
/* The error of an instruction that cannot be run, which names it. */
int sg_dec_unsupported(struct sg_dec *d);

#endif
