/* Words that an instruction's row allows and that do not go together, as ptxas judges them: comparisons and types of
 * set and setp, modifiers of arithmetic, words that matrix instructions must have. tests/ptx/beside.py measures what is
 * still looser here than there: most of it conversions, atomics and caching words of loads.
 */
#include "ptx/ptx-priv.h"

static bool flushes(unsigned t) { return t == PTX_F32 || t == PTX_F16 || t == PTX_F16X2 || t == PTX_F32X2; }
static bool is_half(unsigned t) { return t == PTX_F16 || t == PTX_F16X2 || t == PTX_BF16 || t == PTX_BF16X2; }
static bool is_word(unsigned t) { return t == PTX_U32 || t == PTX_S32; }
static bool is_float(unsigned t) { return ptx_type_is_float((enum ptx_type)t); }

/* What set may make of a comparison of t. */
static bool set_makes(unsigned to, unsigned t)
{
    bool word = is_word(to), wide = word || to == PTX_F32 || to == PTX_F16 || to == PTX_BF16;
    switch (t) {
    case PTX_F16: return word || to == PTX_F16 || to == PTX_BF16 || to == PTX_U16 || to == PTX_S16;
    case PTX_BF16: return word || to == PTX_BF16 || to == PTX_U16 || to == PTX_S16;
    case PTX_F16X2:
    case PTX_BF16X2: return word || to == t;
    default: return wide;
    }
}

static const char *compare_wrong(const struct ptx_inst *i)
{
    bool set = i->op == PTX_OP_SET;
    unsigned t = i->type[set];
    enum ptx_mod m = ptx_mod_of(i, PTX_MC_CMP);
    bool plain = m >= PTX_M_EQ && m <= PTX_M_GE;
    bool by_sign = m == PTX_M_NONE || m == PTX_M_LS || m == PTX_M_HS; /* .lo and .hi are of another class */
    bool fits = is_float(t)                            ? !by_sign
                : ptx_type_is_bits(t)                  ? m == PTX_M_EQ || m == PTX_M_NE
                : ptx_type_is_signed((enum ptx_type)t) ? plain
                                                       : plain || by_sign;
    if (!fits)
        return "a comparison that the type does not have";
    if (ptx_has(i, PTX_M_FTZ) && (!flushes(t) || (set && i->type[0] == PTX_BF16)))
        return "only .f32 and .f16 are flushed";
    return set && !set_makes(i->type[0], t) ? "set does not make this type of that one" : NULL;
}

static const char *arithmetic_wrong(const struct ptx_inst *i)
{
    unsigned t = i->type[0];
    bool integer = !is_float(t) && t != PTX_F32X2;
    if (ptx_has(i, PTX_M_FTZ) && !flushes(t))
        return "only .f32 and .f16 are flushed";
    if (ptx_mod_of(i, PTX_MC_HALF) != PTX_M_NONE && is_float(t))
        return "halves are of integers";
    switch (i->op) {
    case PTX_OP_MIN:
    case PTX_OP_MAX:
        if (integer && (ptx_has(i, PTX_M_NANP) || ptx_mod_of(i, PTX_MC_XORSIGN) != PTX_M_NONE || ptx_has(i, PTX_M_ABS)))
            return "integers have no .NaN and no .xorsign.abs";
        return ptx_has(i, PTX_M_RELU) && t != PTX_S32 && t != PTX_S16X2 ? "relu is of .s32 and .s16x2" : NULL;
    case PTX_OP_FMA: return ptx_has(i, PTX_M_RELU) && !is_half(t) ? "relu is of .f16 and .bf16" : NULL;
    case PTX_OP_ABS:
    case PTX_OP_NEG: return NULL;
    default: return ptx_has(i, PTX_M_RELU) ? "only fma, min and max have .relu" : NULL;
    }
}

const char *ptx_words_wrong(const struct ptx_inst *i)
{
    const struct ptx_op_info *info = ptx_op_info(i->op);
    switch (i->op) {
    case PTX_OP_SET:
    case PTX_OP_SETP: return compare_wrong(i);
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_MUL:
    case PTX_OP_MAD:
    case PTX_OP_FMA:
    case PTX_OP_MIN:
    case PTX_OP_MAX:
    case PTX_OP_ABS:
    case PTX_OP_NEG: return arithmetic_wrong(i);
    case PTX_OP_MAD24:
        return ptx_has(i, PTX_M_SAT) && (i->type[0] != PTX_S32 || !ptx_has(i, PTX_M_HI)) ? ".sat is of .hi.s32" : NULL;
    case PTX_OP_ATOM:
    case PTX_OP_RED:
        return ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_WEAK) ? "atomics are not .volatile and not .weak" : NULL;
    default: break;
    }
    /* what all threads of a warp do together; wmma had no .aligned before PTX 6.3 */
    bool old = i->op >= PTX_OP_WMMA_LOAD_A && i->op <= PTX_OP_WMMA_MMA;
    if (info->mods >> PTX_MC_ALIGNED & 1 && info->mods >> PTX_MC_SYNC & 1 && !(info->flags & PTX_F_BARRIER) &&
        !(ptx_has(i, PTX_M_SYNC) && (old || ptx_has(i, PTX_M_ALIGNED))))
        return ".sync.aligned is wanted";
    return NULL;
}
