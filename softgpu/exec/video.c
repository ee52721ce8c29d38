/* Video instructions on two half-words or four bytes, lane by lane as the manual's pseudocode says (PTX ISA, "Video
 * Instructions").
 *
 * Lanes are extended according to the sign of their operand, so that operands of different types meet as numbers. The
 * result of a lane is clamped to what the destination's type can hold where .sat asks for it, and then cut to its
 * width. .add sums whole results, whatever their width. vavrg rounds halves away from zero.
 *
 * Those with one lane are at the end. The manual's text, not the machine code of ptxas 13.5, which differs where .sat
 * meets a value over the top of .u32, or a byte or half-word of d; and in vmad of .u32 operands from 2^31 on.
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
    case SG_V_GE: return x >= y;
    default: return 0; /* of one lane */
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

/* ---- one lane ---------------------------------------------------------------------------------------------------- */
static int64_t part(uint32_t x, uint64_t field, bool sign)
{
    unsigned at = field & 31, bits = field >> 5 & 63;
    int64_t v = (int64_t)((uint64_t)x >> at & ((UINT64_C(1) << bits) - 1));
    return sign && v >> (bits - 1) ? v - (INT64_C(1) << bits) : v;
}

static int64_t shifted(enum sg_video_kind kind, int64_t x, uint32_t by, bool wrap)
{
    by = wrap ? by & 31 : by > 32 ? 32 : by;
    return kind == SG_V_SHR ? x >> by : (int64_t)((uint64_t)x << by);
}

/* a * b + c of up to 66 bits, scaled and clamped by the sign of the result, which the operands say. */
static uint32_t mad(int64_t x, int64_t y, uint32_t c, uint64_t imm, bool sat)
{
    bool neg = imm >> SG_VIDEO1_NEG_AT & 1, neg_c = imm >> SG_VIDEO1_NEG_C_AT & 1;
    bool sign = (imm >> (SG_VIDEO1_SIGN_AT + 1) & 3) || neg || neg_c;
    __int128 t = (__int128)x * y, add = sign ? (__int128)(int32_t)(neg_c ? ~c : c) : (__int128)c;
    if (neg)
        t = ~t;
    t += add + (neg || neg_c || (imm >> SG_VIDEO1_PO_AT & 1));
    t >>= imm >> SG_VIDEO1_SHIFT_AT & 15;
    __int128 max = sign ? INT32_MAX : UINT32_MAX, min = sign ? INT32_MIN : 0;
    return (uint32_t)(sat ? t > max ? max : t < min ? min : t : t);
}

const struct sg_op *sg_video1(struct sg_warp *w, const struct sg_op *op)
{
    uint64_t imm = (uint64_t)op->imm;
    enum sg_video_kind kind = (enum sg_video_kind)op->sub;
    unsigned at = imm & 31, bits = imm >> 5 & 63, second = imm >> SG_VIDEO1_SECOND_AT & 3;
    bool sd = imm >> SG_VIDEO1_SIGN_AT & 1, sa = imm >> (SG_VIDEO1_SIGN_AT + 1) & 1,
         sb = imm >> (SG_VIDEO1_SIGN_AT + 2) & 1, sat = imm >> SG_VIDEO1_SAT_AT & 1;
    int64_t max = (INT64_C(1) << (bits - sd)) - 1, min = sd ? -max - 1 : 0;
    uint32_t field = bits == 32 ? UINT32_MAX : ((1u << bits) - 1) << at;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t c = SG_P(uint32_t, op->c)[l], d;
        int64_t x = part(SG_P(uint32_t, op->a)[l], imm >> 11, sa), y = part(SG_P(uint32_t, op->b)[l], imm >> 22, sb);
        if (kind == SG_V_MAD) {
            d = mad(x, y, c, imm, sat);
        } else {
            int64_t t = kind == SG_V_SHL || kind == SG_V_SHR
                            ? shifted(kind, x, (uint32_t)y, imm >> SG_VIDEO1_WRAP_AT & 1)
                            : result(kind, x, y);
            if (sat)
                t = t > max ? max : t < min ? min : t;
            uint32_t r = (uint32_t)t;
            bool less = sd ? (int32_t)r < (int32_t)c : r < c;
            d = second == 1   ? r + c
                : second == 2 ? (less ? r : c)
                : second == 3 ? (less ? c : r)
                              : (c & ~field) | (r << at & field);
        }
        SG_P(uint32_t, op->d)[l] = d;
    }
    return op + 1;
}
