/* Selectors of the video instructions: which half-words or bytes of their operands they work on (PTX ISA, "Video
 * Instructions").
 *
 *     vadd2.s32.s32.s32  d.h0, a.h13, b.h02, c;      lane 0: half-word 3 of (a, b) + half-word 2; lane 1 of d is that
 *                                                    of c
 *
 * The selector of d is a mask: the lanes that are computed, from the highest on. The selectors of a and b name, for
 * each lane from the highest on, one of the lanes of a (0 to n - 1) and b (n to 2 n - 1). Where they are not written, d
 * has all lanes, a has .h10 or .b3210, and b has .h32 or .b7654. The constants of a row's shape letter `k` hold the
 * selectors (ptx.h), so that whoever copies or compares instructions by their operands has them too. What is legal here
 * was compared with ptxas.
 *
 *     vadd.s32.u32.s32.sat  d.b1, a.h0, b, c;        one value: a half-word of a, all of b, into a byte of c
 *
 * Not here: what the instructions compute (softgpu/exec/video.c).
 */
#include <string.h>

#include "ptx/ptx-priv.h"

#define DIGITS 4

static unsigned video_count(unsigned sel) { return sel >> 12 & 7; }
static unsigned digit(unsigned sel, unsigned k) { return sel >> 3 * k & 7; }
static uint16_t sel_of(const struct ptx_inst *i, unsigned k)
{
    return (uint16_t)(i->opnd[i->nopnd - 1].bits >> 16 * k);
}

unsigned ptx_video_lanes(enum ptx_op op)
{
    const struct ptx_op_info *info = ptx_op_info(op);
    size_t n = strlen(info->shape);
    char last = info->mnemonic[strlen(info->mnemonic) - 1];
    return !n || info->shape[n - 1] != 'k' ? 0 : last == '2' || last == '4' ? (unsigned)(last - '0') : 1;
}

uint16_t ptx_sel_parse(const char *s, size_t n)
{
    unsigned sel = 0;
    if (n < 2 || n > 1 + DIGITS || (*s != 'b' && *s != 'h'))
        return 0;
    for (size_t k = 1; k < n; k++) {
        if (s[k] < '0' || s[k] > '7')
            return 0;
        sel = sel << 3 | (unsigned)(s[k] - '0');
    }
    return (uint16_t)(sel | (unsigned)(n - 1) << 12 | (*s == 'h' ? PTX_SEL_HALF : 0));
}

struct ptx_opnd ptx_sel_opnd(const uint16_t sel[PTX_SELS])
{
    struct ptx_opnd o = {.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64};
    for (unsigned k = 0; k < PTX_SELS; k++)
        o.bits |= (uint64_t)sel[k] << 16 * k;
    return o;
}

void ptx_put_sel(struct dt_str *out, uint16_t sel)
{
    if (!sel)
        return;
    dt_str_add(out, sel & PTX_SEL_HALF ? ".h" : ".b");
    for (unsigned k = video_count(sel); k-- > 0;)
        dt_str_addc(out, (char)('0' + digit(sel, k)));
}

/* Digits that fall, below `lanes`; or one for each lane, below twice that. */
static bool video_fits(unsigned sel, unsigned lanes, bool mask)
{
    unsigned n = video_count(sel);
    if (!sel)
        return true;
    if (!!(sel & PTX_SEL_HALF) != (lanes == 2) || n == 0 || n > lanes || (!mask && n != lanes))
        return false;
    for (unsigned k = 0; k < n; k++)
        if (digit(sel, k) >= (mask ? lanes : 2 * lanes) || (mask && k && digit(sel, k) <= digit(sel, k - 1)))
            return false;
    return true;
}

struct ptx_part ptx_video_part(const struct ptx_inst *i, unsigned k)
{
    unsigned sel = sel_of(i, k);
    if (!sel)
        return (struct ptx_part){0, 32};
    unsigned bits = sel & PTX_SEL_HALF ? 16 : 8;
    return (struct ptx_part){(uint8_t)(digit(sel, 0) * bits), (uint8_t)bits};
}

/* Of those with one lane. */
static const char *one_wrong(const struct ptx_inst *i)
{
    const struct ptx_opnd *k = &i->opnd[i->nopnd - 1];
    enum ptx_mod cmp = ptx_mod_of(i, PTX_MC_CMP), second = ptx_mod_of(i, PTX_MC_ATOM);
    unsigned neg = (unsigned)(k->bits >> PTX_SEL_NEG_A) & 7;
    bool c = i->nopnd == 5, into = sel_of(i, 0) != 0;
    if (k->bits >> PTX_SEL_END || (neg && i->op != PTX_OP_VMAD))
        return "selectors out of range";
    for (unsigned n = 0; n < PTX_SELS; n++) {
        unsigned sel = sel_of(i, n);
        if (sel && (video_count(sel) != 1 || digit(sel, 0) >= (sel & PTX_SEL_HALF ? 2 : 4)))
            return "a selector that does not fit";
    }
    if (second != PTX_M_NONE && second != PTX_M_ADD && second != PTX_M_MIN && second != PTX_M_MAX)
        return "the second operation is .add, .min or .max";
    if (into && (second != PTX_M_NONE || i->op == PTX_OP_VMAD))
        return "a selector of the destination excludes a second operation";
    if ((into || second != PTX_M_NONE) && !c)
        return "the operand to combine with is missing";
    if (i->op == PTX_OP_VMAD && (neg & 4) && (neg & 3) && (neg & 3) != 3)
        return "the product or c is negated, not both";
    if (ptx_has(i, PTX_M_PO) && neg)
        return ".po excludes a minus";
    if (i->op == PTX_OP_VSHL || i->op == PTX_OP_VSHR)
        return ptx_mod_of(i, PTX_MC_WRAP) == PTX_M_NONE ? ".clamp or .wrap is wanted"
               : i->type[2] != PTX_U32                  ? "the number of bits is .u32"
                                                        : NULL;
    if (i->op == PTX_OP_VSET && (cmp < PTX_M_EQ || cmp > PTX_M_GE))
        return "one comparison is wanted: .eq, .ne, .lt, .le, .gt or .ge";
    return NULL;
}

const char *ptx_video_wrong(const struct ptx_inst *i)
{
    unsigned lanes = ptx_video_lanes(i->op);
    if (lanes == 1)
        return one_wrong(i);
    enum ptx_mod cmp = ptx_mod_of(i, PTX_MC_CMP), second = ptx_mod_of(i, PTX_MC_ATOM);
    if (i->opnd[i->nopnd - 1].bits >> 16 * PTX_SELS)
        return "selectors out of range";
    for (unsigned k = 0; k < PTX_SELS; k++)
        if (!video_fits(sel_of(i, k), lanes, k == 0))
            return k ? "a selector that does not fit" : "a mask that does not fit";
    if (second != PTX_M_NONE && second != PTX_M_ADD)
        return "the second operation is .add";
    if (second != PTX_M_NONE && ptx_has(i, PTX_M_SAT))
        return ".sat and .add exclude each other";
    if ((i->op == PTX_OP_VSET2 || i->op == PTX_OP_VSET4) && (cmp < PTX_M_EQ || cmp > PTX_M_GE))
        return "one comparison is wanted: .eq, .ne, .lt, .le, .gt or .ge";
    return NULL;
}

struct ptx_video ptx_video_of(const struct ptx_inst *i)
{
    struct ptx_video v = {.lanes = ptx_video_lanes(i->op)};
    unsigned mask = sel_of(i, 0);
    for (unsigned k = 0; k < video_count(mask); k++)
        v.mask |= (uint8_t)(1u << digit(mask, k));
    if (!mask)
        v.mask = (uint8_t)((1u << v.lanes) - 1);
    for (unsigned side = 0; side < 2; side++)
        for (unsigned k = 0; k < v.lanes && k < DIGITS; k++)
            v.from[side][k] = (uint8_t)(sel_of(i, 1 + side) ? digit(sel_of(i, 1 + side), k) : k + side * v.lanes);
    return v;
}
