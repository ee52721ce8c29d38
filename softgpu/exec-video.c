/* Video instructions on two half-words or four bytes, lane by lane as the manual's pseudocode says (PTX ISA, "Video
 * Instructions").
 *
 * Lanes are extended by their operand's sign, so that operands of different types meet as numbers. The result of a lane
 * is cut to its width, after .sat has clamped it to what the destination's type can hold; .add sums whole results,
 * whatever the width. vavrg rounds halves away from zero. op->sub is what a lane computes; op->imm has the mask, three
 * bits for each lane's place on either side, and what the names below say.
 */
#include "softgpu/decode.h"

enum { FROM_AT = 4, LANES_AT = 28, SIGN_AT = 32, ADD_AT = 35, SAT_AT = 36 };
enum kind { ADD, SUB, AVRG, ABSDIFF, MIN, MAX, EQ, NE, LT, LE, GT, GE };

static int64_t lane(uint32_t a, uint32_t b, unsigned from, unsigned width, bool sign)
{
    uint32_t x = (uint32_t)(((uint64_t)b << 32 | a) >> from * width) & ((1u << width) - 1);
    return sign && x >> (width - 1) ? (int64_t)x - (INT64_C(1) << width) : (int64_t)x;
}

static int64_t result(enum kind kind, int64_t x, int64_t y)
{
    switch (kind) {
    case ADD: return x + y;
    case SUB: return x - y;
    case AVRG: return (x + y + (x + y >= 0)) >> 1;
    case ABSDIFF: return x < y ? y - x : x - y;
    case MIN: return x < y ? x : y;
    case MAX: return x > y ? x : y;
    case EQ: return x == y;
    case NE: return x != y;
    case LT: return x < y;
    case LE: return x <= y;
    case GT: return x > y;
    default: return x >= y;
    }
}

static const struct sg_op *video(struct sg_warp *w, const struct sg_op *op)
{
    uint64_t imm = (uint64_t)op->imm;
    unsigned lanes = imm >> LANES_AT & 7, width = 32 / lanes, mask = imm & 15;
    bool sd = imm >> SIGN_AT & 1, sa = imm >> (SIGN_AT + 1) & 1, sb = imm >> (SIGN_AT + 2) & 1, add = imm >> ADD_AT & 1,
         sat = imm >> SAT_AT & 1;
    int64_t max = (INT64_C(1) << (width - sd)) - 1, min = sd ? -max - 1 : 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t a = SG_P(uint32_t, op->a)[l], b = SG_P(uint32_t, op->b)[l], d = SG_P(uint32_t, op->c)[l];
        for (unsigned k = 0; k < lanes; k++) {
            if (!(mask >> k & 1))
                continue;
            int64_t x = lane(a, b, imm >> (FROM_AT + 3 * k) & 7, width, sa),
                    y = lane(a, b, imm >> (FROM_AT + 12 + 3 * k) & 7, width, sb);
            int64_t t = result((enum kind)op->sub, x, y);
            if (sat)
                t = t > max ? max : t < min ? min : t;
            uint32_t field = ((1u << width) - 1) << k * width;
            d = add ? d + (uint32_t)t : (d & ~field) | ((uint32_t)t << k * width & field);
        }
        SG_P(uint32_t, op->d)[l] = d;
    }
    return op + 1;
}

static enum kind kind_of(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_VADD2:
    case PTX_OP_VADD4: return ADD;
    case PTX_OP_VSUB2:
    case PTX_OP_VSUB4: return SUB;
    case PTX_OP_VAVRG2:
    case PTX_OP_VAVRG4: return AVRG;
    case PTX_OP_VABSDIFF2:
    case PTX_OP_VABSDIFF4: return ABSDIFF;
    case PTX_OP_VMIN2:
    case PTX_OP_VMIN4: return MIN;
    case PTX_OP_VMAX2:
    case PTX_OP_VMAX4: return MAX;
    default: return (enum kind)(EQ + ptx_mod_of(i, PTX_MC_CMP) - PTX_M_EQ);
    }
}

int sg_decode_video(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    struct ptx_video v = ptx_video_of(i);
    uint64_t imm = v.mask | (uint64_t)v.lanes << LANES_AT | (uint64_t)ptx_has(i, PTX_M_ADD) << ADD_AT |
                   (uint64_t)ptx_has(i, PTX_M_SAT) << SAT_AT;
    for (unsigned side = 0; side < 2; side++)
        for (unsigned k = 0; k < v.lanes; k++)
            imm |= (uint64_t)v.from[side][k] << (FROM_AT + 12 * side + 3 * k);
    for (unsigned k = 0; k < i->ntype; k++) /* signs of d, a, b; vset has those of a, b */
        imm |= (uint64_t)ptx_type_is_signed((enum ptx_type)i->type[k]) << (SIGN_AT + k + (i->ntype == 2));
    uint32_t a = sg_source(d, &i->opnd[1], PTX_B32), b = sg_source(d, &i->opnd[2], PTX_B32),
             c = sg_source(d, &i->opnd[3], PTX_B32);
    uint32_t to = sg_dest(d, &i->opnd[0], PTX_B32);
    struct sg_op *op = sg_emit(d, video);
    op->d = to;
    op->a = a;
    op->b = b;
    op->c = c;
    op->sub = (uint8_t)kind_of(i);
    op->imm = (int64_t)imm;
    return 0;
}
