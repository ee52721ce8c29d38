/* What form-inst.c, operand.c and arithmetic.c share: what instructions do to forms. */
#ifndef DT_ANALYSIS_INST_PRIV_H
#define DT_ANALYSIS_INST_PRIV_H

#include "analysis/summary/summary-priv.h"

/* A statement for each lane l. */
#define LANES(...)                                                                                                     \
    for (uint32_t l = 0, n_ = s->n; l < n_; l++) {                                                                     \
        __VA_ARGS__;                                                                                                   \
    }
enum { A, B, C, OUT, OTHER }; /* places in ana_sum.tmp: operands, the result, a spare one */

/* The low bits of a canonical number. */
static inline uint64_t bits_of(int64_t v, unsigned bits) { return (uint64_t)v & (UINT64_MAX >> (64 - bits)); }

/* ---- operand.c --------------------------------------------------------------------------------------------------- */
/* x must be a number: the bits of an address end the summary. */
void ana_inst_number(struct ana_sum *s, const struct ana_form *x);
/* Operand o, a destination, becomes v. */
void ana_inst_put(struct ana_sum *s, const struct ptx_opnd *o, const struct ana_form *v);
/* From a canonical number to the integer of `bits` bits that it is. */
void ana_inst_extend(struct ana_sum *s, struct ana_form *v, unsigned bits, bool sign);
/* Steps as those of a number of `bits` bits. */
void ana_inst_cut_steps(struct ana_sum *s, struct ana_form *v, unsigned bits);
/* A number of type `bits`, `sign`, that is put into a wider register is extended. */
void ana_inst_put_extended(struct ana_sum *s, const struct ptx_opnd *o, struct ana_form *v, unsigned bits, bool sign);
/* A load of parameters, or of content that no launch changes. */
void ana_inst_load(struct ana_sum *s, const struct ptx_inst *i);

/* ---- arithmetic.c ------------------------------------------------------------------------------------------------ */
/* out = x + f * y; out may be x. */
void ana_inst_add(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y, int f);
/* out = x * y modulo two to the 64; one of them is made to stand still. wide: they are integers of `bits` bits. */
void ana_inst_multiply(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y,
                       bool wide, unsigned bits, bool sign);
/* out = x in the lanes of `first`, y in the others. */
void ana_inst_choose(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y,
                     const uint8_t *first);
/* The result of i, which takes the digits of x as y says (ana_inst_join: or, xor of numbers that share no bit),
 * into its destination. False: that cannot be done here. */
bool ana_inst_divide(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                     unsigned bits, bool sign);
bool ana_inst_shift_right(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x,
                          const struct ana_form *y, unsigned bits, bool sign);
bool ana_inst_mask(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                   unsigned bits);
bool ana_inst_join(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                   unsigned bits);
/* What prmt.b32 makes of 8 bytes. */
uint32_t ana_inst_prmt(uint64_t ab, uint32_t sel);
/* tmp[OUT] = what i makes of x[0..n), made to stand still, in each lane. */
void ana_inst_by_lane(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *const *x, unsigned n,
                      unsigned bits, bool sign);

#endif
