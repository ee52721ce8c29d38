/* Video instructions on two half-words or four bytes, lane by lane as the manual's pseudocode says (PTX ISA, "Video
 * Instructions").
 *
 * Lanes are extended according to the sign of their operand, so that operands of different types meet as numbers. The
 * result of a lane is clamped to what the destination's type can hold where .sat asks for it, and then cut to its
 * width. .add sums whole results, whatever their width. vavrg rounds halves away from zero.
 */
#include "softgpu/exec/exec-priv.h"

static int64_t lane(uint32_t a, uint32_t b, unsigned from, unsigned width, bool sign)
{
    uint32_t x = (uint32_t)(((uint64_t)b << 32 | a) >> from * width) & ((1u << width) - 1);
    return sign && x >> (width - 1) ? (int64_t)x - (INT64_C(1) << width) : (int64_t)x;
}

static int64_t result(enum sg_video_kind kind, int64_t x, int64_t y)
{
    switch (kind) {
    case SG_V_ADD: return x + y;
    case SG_V_SUB: return x - y;
    case SG_V_AVRG: return (x + y + (x + y >= 0)) >> 1;
    case SG_V_ABSDIFF: return x < y ? y - x : x - y;
    case SG_V_MIN: return x < y ? x : y;
    case SG_V_MAX: return x > y ? x : y;
    case SG_V_EQ: return x == y;
    case SG_V_NE: return x != y;
    case SG_V_LT: return x < y;
    case SG_V_LE: return x <= y;
    case SG_V_GT: return x > y;
    default: return x >= y;
    }
}

const struct sg_op *sg_video(struct sg_warp *w, const struct sg_op *op)
{
    uint64_t imm = (uint64_t)op->imm;
    unsigned lanes = imm >> SG_VIDEO_LANES_AT & 7, width = 32 / lanes, mask = imm & 15;
    bool sd = imm >> SG_VIDEO_SIGN_AT & 1, sa = imm >> (SG_VIDEO_SIGN_AT + 1) & 1,
         sb = imm >> (SG_VIDEO_SIGN_AT + 2) & 1, add = imm >> SG_VIDEO_ADD_AT & 1, sat = imm >> SG_VIDEO_SAT_AT & 1;
    int64_t max = (INT64_C(1) << (width - sd)) - 1, min = sd ? -max - 1 : 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t a = SG_P(uint32_t, op->a)[l], b = SG_P(uint32_t, op->b)[l], d = SG_P(uint32_t, op->c)[l];
        for (unsigned k = 0; k < lanes; k++) {
            if (!(mask >> k & 1))
                continue;
            int64_t x = lane(a, b, imm >> (SG_VIDEO_FROM_AT + 3 * k) & 7, width, sa),
                    y = lane(a, b, imm >> (SG_VIDEO_FROM_AT + 12 + 3 * k) & 7, width, sb);
            int64_t t = result((enum sg_video_kind)op->sub, x, y);
            if (sat)
                t = t > max ? max : t < min ? min : t;
            uint32_t field = ((1u << width) - 1) << k * width;
            d = add ? d + (uint32_t)t : (d & ~field) | ((uint32_t)t << k * width & field);
        }
        SG_P(uint32_t, op->d)[l] = d;
    }
    return op + 1;
}
