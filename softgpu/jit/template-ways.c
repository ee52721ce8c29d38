/* Which lane loops (exec/lanes.def) have a template, and which: one instruction where that is all (its name, how it is
 * used), else a function of template-lanes.c. Rows that are not here are done by their handlers.
 */
#include "softgpu/jit/template-priv.h"

enum {
    EQ_OQ = 0,
    LT_OQ = 17,
    LE_OQ = 18,
    GT_OQ = 30,
    GE_OQ = 29,
    NE_OQ = 12,
    EQ_UQ = 8,
    NE_UQ = 4,
    NGE_UQ = 25,
    NGT_UQ = 26,
    NLE_UQ = 22,
    NLT_UQ = 21,
    ORD = 7,
    UNORD = 3
};
enum { ROUND_TO = 8 }; /* vrndscaleps: no exceptions; to nearest, down, up, to zero */

#define AT(member) offsetof(struct sg_template_table, member)
/* clang-format off */
const struct sg_template_way sg_template_ways[SG_H_COUNT] = {
#define INT(N, v32, v64) [SG_H_##N##_u32] = {v32, BIN, 0, 0, 0}, [SG_H_##N##_u64] = {v64, BIN, 0, 1, 0}
#define SIG(N, v32, v64) [SG_H_##N##_s32] = {v32, BIN, 0, 0, 0}, [SG_H_##N##_s64] = {v64, BIN, 0, 1, 0}
#define FLT(N, ps, pd) [SG_H_##N##_f32] = {ps, BIN, RAW32, 0, 0}, [SG_H_##N##_f64] = {pd, BIN, RAW64, 1, 0}, \
                       [SG_H_##N##_z32] = {ps, FLUSHED, RAW32, 0, 0}
    INT(ADD, V_ADD32, V_ADD64), INT(SUB, V_SUB32, V_SUB64), INT(MUL, V_MUL32, V_MUL64),
    INT(AND, V_AND32, V_AND64), INT(OR, V_OR32, V_OR64), INT(XOR, V_XOR32, V_XOR64),
    INT(MIN, V_MINU32, V_MINU64), INT(MAX, V_MAXU32, V_MAXU64), SIG(MIN, V_MINS32, V_MINS64),
    SIG(MAX, V_MAXS32, V_MAXS64),
    [SG_H_ADD_u16] = {V_ADD32, BIN16, 0, 0, 0}, [SG_H_SUB_u16] = {V_SUB32, BIN16, 0, 0, 0},
    [SG_H_MUL_u16] = {V_MUL32, BIN16, 0, 0, 0},
    [SG_H_AND_u16] = {V_AND32, BIN16, 0, 0, 0}, [SG_H_OR_u16] = {V_OR32, BIN16, 0, 0, 0},
    [SG_H_XOR_u16] = {V_XOR32, BIN16, 0, 0, 0},
    [SG_H_ABS_s32] = {V_ABS32, UN, 0, 0, 0}, [SG_H_ABS_s64] = {V_ABS64, UN, 0, 1, 0},
    [SG_H_CLZ_u32] = {V_LZ32, UN, 0, 0, 0},
    [SG_H_SHL_u32] = {V_SHL32, BIN, 0, 0, 0}, [SG_H_SHR_u32] = {V_SHR32, BIN, 0, 0, 0},
    [SG_H_SHR_s32] = {V_SAR32, BIN, 0, 0, 0},
    [SG_H_LOP3] = {V_TERN32, TERN, 0, 0, 0},
    [SG_H_ZX8_u32] = {V_AND32, CONSTANT, 0, 0, AT(low8)}, [SG_H_ZX16_u32] = {V_AND32, CONSTANT, 0, 0, AT(low16)},
    [SG_H_LO_u32] = {V_AND32, CONSTANT, 0, 0, AT(low16)},
    [SG_H_FNEG_f64] = {V_XOR64, CONSTANT, 0, 1, AT(sign64)},
    [SG_H_FABS_f64] = {V_AND64, CONSTANT, 0, 1, AT(magnitude64)},
    FLT(FADD, V_ADDPS, V_ADDPD), FLT(FSUB, V_SUBPS, V_SUBPD), FLT(FMUL, V_MULPS, V_MULPD),
    FLT(FDIV, V_DIVPS, V_DIVPD),
    [SG_H_SQRT_f32] = {V_SQRTPS, UN, RAW32, 0, 0}, [SG_H_SQRT_f64] = {V_SQRTPD, UN, RAW64, 1, 0},
    [SG_H_RCP_f32] = {V_DIVPS, ONE_BY, RAW32, 0, AT(one_f)}, [SG_H_RCP_f64] = {V_DIVPD, ONE_BY, RAW64, 1, AT(one_d)},
    [SG_H_FMA_f32] = {V_FMA231PS, FMA, RAW32, 0, 0}, [SG_H_FMA_f64] = {V_FMA231PD, FMA, RAW64, 1, 0},
    [SG_H_FMA_z32] = {V_FMA231PS, FMA_Z, RAW32, 0, 0},
    [SG_H_FMA_RZ_f32] = {V_FMA231PS, FMA_ROUND, RAW32, 0, 3},
    [SG_H_FMA_RM_f32] = {V_FMA231PS, FMA_ROUND, RAW32, 0, 1},
    [SG_H_FMA_RP_f32] = {V_FMA231PS, FMA_ROUND, RAW32, 0, 2},
    [SG_H_FADD_RZ_f32] = {V_ADDPS, ROUND, RAW32, 0, 3}, [SG_H_FADD_RM_f32] = {V_ADDPS, ROUND, RAW32, 0, 1},
    [SG_H_FADD_RP_f32] = {V_ADDPS, ROUND, RAW32, 0, 2},
    [SG_H_FMUL_RZ_f32] = {V_MULPS, ROUND, RAW32, 0, 3}, [SG_H_FMUL_RM_f32] = {V_MULPS, ROUND, RAW32, 0, 1},
    [SG_H_FMUL_RP_f32] = {V_MULPS, ROUND, RAW32, 0, 2},
    [SG_H_FMIN_f32] = {V_RANGEPS, MINMAX, RAW32, 0, 4}, [SG_H_FMAX_f32] = {V_RANGEPS, MINMAX, RAW32, 0, 5},
    [SG_H_CVT_f32_s32] = {V_CVT_F_S, UN, 0, 0, 0}, [SG_H_CVT_f32_u32] = {V_CVT_F_U, UN, 0, 0, 0},
#define HALF_OPS(T, P, B)                                                                                              \
    [SG_H_HADD_##T] = {V_ADDPS, HALF, 0, 0, (P) | (B)}, [SG_H_HSUB_##T] = {V_SUBPS, HALF, 0, 0, (P) | (B)},           \
    [SG_H_HMUL_##T] = {V_MULPS, HALF, 0, 0, (P) | (B)}, [SG_H_HFMA_##T] = {V_FMA231PS, HALF_FMA, 0, 0, (P) | (B)},    \
    [SG_H_HMIN_##T] = {V_MINS16, HALF_CHOOSE, 0, 0, (P) | (B)},                                                        \
    [SG_H_HMAX_##T] = {V_MAXS16, HALF_CHOOSE, 0, 0, (P) | (B)},                                                        \
    [SG_H_HMINN_##T] = {V_MINS16, HALF_CHOOSE, 0, 0, (P) | (B) | SG_NAN_WINS},                                         \
    [SG_H_HMAXN_##T] = {V_MAXS16, HALF_CHOOSE, 0, 0, (P) | (B) | SG_NAN_WINS},                                         \
    [SG_H_HNEG_##T] = {V_XOR32, HALF_SIGN, 0, 0, (P) | (B)}, [SG_H_HABS_##T] = {V_AND32, HALF_SIGN, 0, 0, (P) | (B)}
    HALF_OPS(f16, 0, 0), HALF_OPS(f16x2, SG_PAIR, 0), HALF_OPS(bf16, 0, SG_BF16), HALF_OPS(bf16x2, SG_PAIR, SG_BF16),
#define INTEGRAL(N, i) \
    [SG_H_##N##_f32] = {V_RNDPS, STEPS, RAW32, 0, SG_STEP_INTEGRAL | (i)},                                             \
    [SG_H_##N##_z32] = {V_RNDPS, STEPS, RAW32, 0, SG_STEP_INTEGRAL | SG_STEP_FLUSH | (i)},                             \
    [SG_H_##N##_f64] = {V_RNDPD, INTEGRAL64, RAW64, 1, ROUND_TO | (i)}
    INTEGRAL(RNI, 0), INTEGRAL(RMI, 1), INTEGRAL(RPI, 2), INTEGRAL(RZI, 3),
    [SG_H_SQRT_z32] = {V_SQRTPS, STEPS, RAW32, 0, SG_STEP_FLUSH},
    [SG_H_RCP_z32] = {V_DIVPS, STEPS, RAW32, 0, SG_STEP_ONE_BY | SG_STEP_FLUSH},
    [SG_H_FADD_SAT_f32] = {V_ADDPS, STEPS, 0, 0, SG_STEP_TWO | SG_STEP_SATURATE},
    [SG_H_FMUL_SAT_f32] = {V_MULPS, STEPS, 0, 0, SG_STEP_TWO | SG_STEP_SATURATE},
    [SG_H_FMA_SAT_z32] = {V_FMA231PS, STEPS, 0, 0, SG_STEP_THREE | SG_STEP_FLUSH | SG_STEP_SATURATE},
    [SG_H_DIVA_f32] = {V_DIVPS, QUOTIENT, RAW32, 0, 0}, [SG_H_DIVA_z32] = {V_DIVPS, QUOTIENT, RAW32, 0, SG_STEP_FLUSH},
    [SG_H_FNEG_z32] = {V_XOR32, SIGN_Z, RAW32, 0, 0}, [SG_H_FABS_z32] = {V_AND32, SIGN_Z, RAW32, 0, 0},
    [SG_H_FMIN_z32] = {V_RANGEPS, MINMAX_Z, RAW32, 0, 4}, [SG_H_FMAX_z32] = {V_RANGEPS, MINMAX_Z, RAW32, 0, 5},
    [SG_H_CVT_s32_f32_rn] = {0, S32_F32, 0, 0, ROUND_TO}, [SG_H_CVT_s32_f32_rm] = {0, S32_F32, 0, 0, ROUND_TO | 1},
    [SG_H_CVT_s32_f32_rp] = {0, S32_F32, 0, 0, ROUND_TO | 2}, [SG_H_CVT_s32_f32_rz] = {0, S32_F32, 0, 0, 0},
    [SG_H_CVT_u32_f32_rn] = {0, U32_F32, 0, 0, ROUND_TO}, [SG_H_CVT_u32_f32_rz] = {0, U32_F32, 0, 0, 0},
    [SG_H_CVT_f64_s32] = {V_PD_S, F64_NARROW, 0, 1, 0}, [SG_H_CVT_f64_u32] = {V_PD_U, F64_NARROW, 0, 1, 0},
    [SG_H_CVT_f64_f32] = {V_PD_PS, F64_NARROW, RAW64, 1, 0}, [SG_H_CVT_f64_z32] = {V_PD_PS, F64_NARROW, RAW64, 1, 1},
    [SG_H_CVT_f32_f64] = {V_PS_PD, F32_F64, RAW32, 0, 0}, [SG_H_CVT_z32_f64] = {V_PS_PD, Z32_F64, RAW32, 0, 0},
    [SG_H_CVT_s32_f64_rz] = {V_S_PD, NARROW_F64, 0, 0, 0}, [SG_H_CVT_s32_f64_rn] = {V_S_PD, NARROW_F64, 0, 0, ROUND_TO},
    [SG_H_CVT_s32_f64_rm] = {V_S_PD, NARROW_F64, 0, 0, ROUND_TO | 1},
    [SG_H_CVT_s32_f64_rp] = {V_S_PD, NARROW_F64, 0, 0, ROUND_TO | 2},
    [SG_H_CVT_u32_f64_rz] = {V_U_PD, NARROW_F64, 0, 0, 0},
    [SG_H_CVT_f32_f16] = {V_PS_H, F32_HALF, RAW32, 0, 0}, [SG_H_CVT_f32_bf16] = {0, F32_HALF, 0, 0, SG_BF16},
    [SG_H_CVT_f16_f32] = {V_H_PS, HALF_F32, 0, 0, 0}, [SG_H_CVT_bf16_f32] = {0, HALF_F32, 0, 0, SG_BF16},
    [SG_H_CVT_f16x2_f32] = {V_H_PS, PAIR_F32, 0, 0, 0}, [SG_H_CVT_bf16x2_f32] = {0, PAIR_F32, 0, 0, SG_BF16},
    [SG_H_CVT_f32_u8] = {0, F32_SMALL, 0, 0, 8}, [SG_H_CVT_f32_s8] = {0, F32_SMALL, 0, 0, 8 | SG_SIGN},
    [SG_H_CVT_f32_u16] = {0, F32_SMALL, 0, 0, 16}, [SG_H_CVT_f32_s16] = {0, F32_SMALL, 0, 0, 16 | SG_SIGN},
#define C(N, T, vec, w, r, i) [SG_H_##N##_##T] = {vec, COMPARE, r, w, i}
#define C4(T, v, wide) C(LT, T, v, wide, 0, CMP_LT), C(LE, T, v, wide, 0, CMP_LE), C(GT, T, v, wide, 0, CMP_GT), \
                       C(GE, T, v, wide, 0, CMP_GE)
    C(EQ, u32, V_CMPU32, 0, 0, CMP_EQ), C(NE, u32, V_CMPU32, 0, 0, CMP_NE), C(EQ, u64, V_CMPU64, 1, 0, CMP_EQ),
    C(NE, u64, V_CMPU64, 1, 0, CMP_NE),
    C4(u32, V_CMPU32, 0), C4(u64, V_CMPU64, 1), C4(s32, V_CMPS32, 0), C4(s64, V_CMPS64, 1),
#define CF(N, i) C(N, f32, V_CMPPS, 0, RAW32, i), C(N, f64, V_CMPPD, 1, RAW64, i), \
              [SG_H_##N##_z32] = {V_CMPPS, COMPARE_Z, RAW32, 0, i}
    CF(EQ, EQ_OQ), CF(NE, NE_OQ), CF(LT, LT_OQ), CF(LE, LE_OQ), CF(GT, GT_OQ), CF(GE, GE_OQ), CF(EQU, EQ_UQ),
    CF(NEU, NE_UQ),
    CF(LTU, NGE_UQ), CF(LEU, NGT_UQ), CF(GTU, NLE_UQ), CF(GEU, NLT_UQ), CF(NUM, ORD), CF(NAN, UNORD),
#define S(N) [SG_H_##N] = {0, SPECIAL, 0, 0, 0}
    S(MOV_u32), S(MOV_u64), S(MAD_u32), S(MAD_u64), S(MULW_u32), S(MULW_s32), S(MADW_u32), S(MADW_s32), S(MULHI_u32),
    S(MULHI_s32), S(SHF_L_WRAP), S(SHF_L_CLAMP), S(SHF_R_WRAP), S(SHF_R_CLAMP), S(BFE_u32),
    S(NEG_s32), S(NEG_s64), S(NOT_u32), S(NOT_u64),
    S(SHL_u64), S(SHR_u64), S(SHR_s64), S(ZX_u64), S(SX_u64), S(LO_u64), S(HI_u64), S(PACK_u64), S(HI_u32),
    S(PACK_u32), S(SX16_u32), S(SX8_u32), S(SELP_u32), S(SELP_u64),
    S(FNEG_f32), S(FABS_f32), S(SAT_f32), S(FMA_SAT_f32),
    S(SHFL), S(PMOV), S(PAND), S(POR), S(PXOR), S(PNOT)
};
/* clang-format on */
