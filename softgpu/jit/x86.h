/* Machine code for x86-64 with AVX-512, an instruction a call. Nothing here knows what the code is for.
 *
 * A vector instruction is named by a constant (enum sg_x86_v) that says how it is encoded: opcode map, prefix, width of
 * an element, opcode, and how large an operand in memory is. All are on 512 bits. Addresses are base + displacement, or
 * base + index.
 */
#ifndef DT_SOFTGPU_JIT_X86_H
#define DT_SOFTGPU_JIT_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_x86 {
    uint8_t *p;
    size_t n, cap;
    bool failed; /* memory is out */
};

enum sg_x86_reg { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, NO_REG = 255 };
struct sg_x86_mem {
    uint8_t base, index; /* enum sg_x86_reg; index: NO_REG or one that is not scaled */
    int32_t disp;
};
#define SG_AT(b, d) ((struct sg_x86_mem){(b), NO_REG, (int32_t)(d)})
#define SG_AT2(b, i, d) ((struct sg_x86_mem){(b), (i), (int32_t)(d)})

/* map 1: 0F, 2: 0F38, 3: 0F3A; pp 0: none, 1: 66, 2: F3, 3: F2; w; opcode; t: log2 of the bytes of an operand in
 * memory */
#define SG_V(map, pp, w, op, t) ((t) << 16 | (map) << 12 | (pp) << 9 | (w) << 8 | (op))
enum sg_x86_v {
    V_LOAD32 = SG_V(1, 1, 0, 0x6F, 6), /* vmovdqa32; with a mask: a merge */
    V_LOAD64 = SG_V(1, 1, 1, 0x6F, 6),
    V_LOADU32 = SG_V(1, 2, 0, 0x6F, 6), /* vmovdqu32 */
    V_STOREU32 = SG_V(1, 2, 0, 0x7F, 6),
    V_ADD32 = SG_V(1, 1, 0, 0xFE, 6),
    V_ADD64 = SG_V(1, 1, 1, 0xD4, 6),
    V_SUB32 = SG_V(1, 1, 0, 0xFA, 6),
    V_SUB64 = SG_V(1, 1, 1, 0xFB, 6),
    V_MUL32 = SG_V(2, 1, 0, 0x40, 6),
    V_MUL64 = SG_V(2, 1, 1, 0x40, 6),
    V_MULU = SG_V(1, 1, 1, 0xF4, 6), /* vpmuludq */
    V_MULS = SG_V(2, 1, 1, 0x28, 6), /* vpmuldq */
    V_AND32 = SG_V(1, 1, 0, 0xDB, 6),
    V_AND64 = SG_V(1, 1, 1, 0xDB, 6),
    V_OR32 = SG_V(1, 1, 0, 0xEB, 6),
    V_OR64 = SG_V(1, 1, 1, 0xEB, 6),
    V_XOR32 = SG_V(1, 1, 0, 0xEF, 6),
    V_XOR64 = SG_V(1, 1, 1, 0xEF, 6),
    V_SHL32 = SG_V(2, 1, 0, 0x47, 6), /* by a count in each lane; counts past the end give 0, or signs */
    V_SHL64 = SG_V(2, 1, 1, 0x47, 6),
    V_SHR32 = SG_V(2, 1, 0, 0x45, 6),
    V_SHR64 = SG_V(2, 1, 1, 0x45, 6),
    V_SAR32 = SG_V(2, 1, 0, 0x46, 6),
    V_SAR64 = SG_V(2, 1, 1, 0x46, 6),
    V_SHI32 = SG_V(1, 1, 0, 0x72, 6), /* by an immediate: which shift is in the place of the register (enum below) */
    V_SHI64 = SG_V(1, 1, 1, 0x73, 6),
    V_SARI64 = SG_V(1, 1, 1, 0x72, 6),
    V_TERN32 = SG_V(3, 1, 0, 0x25, 6), /* vpternlogd */
    V_TERN64 = SG_V(3, 1, 1, 0x25, 6),
    V_CMPS32 = SG_V(3, 1, 0, 0x1F, 6), /* to a mask register */
    V_CMPU32 = SG_V(3, 1, 0, 0x1E, 6),
    V_CMPS64 = SG_V(3, 1, 1, 0x1F, 6),
    V_CMPU64 = SG_V(3, 1, 1, 0x1E, 6),
    V_CMPPS = SG_V(1, 0, 0, 0xC2, 6),
    V_CMPPD = SG_V(1, 1, 1, 0xC2, 6),
    V_TEST32 = SG_V(2, 1, 0, 0x27, 6),
    V_TESTN32 = SG_V(2, 2, 0, 0x27, 6),
    V_TEST64 = SG_V(2, 1, 1, 0x27, 6),
    V_MINU32 = SG_V(2, 1, 0, 0x3B, 6),
    V_MAXU32 = SG_V(2, 1, 0, 0x3F, 6),
    V_MINS32 = SG_V(2, 1, 0, 0x39, 6),
    V_MAXS32 = SG_V(2, 1, 0, 0x3D, 6),
    V_MINU64 = SG_V(2, 1, 1, 0x3B, 6),
    V_MAXU64 = SG_V(2, 1, 1, 0x3F, 6),
    V_MINS64 = SG_V(2, 1, 1, 0x39, 6),
    V_MAXS64 = SG_V(2, 1, 1, 0x3D, 6),
    V_ABS32 = SG_V(2, 1, 0, 0x1E, 6),
    V_LZ32 = SG_V(2, 1, 0, 0x44, 6), /* vplzcntd */
    V_ABS64 = SG_V(2, 1, 1, 0x1F, 6),
    V_ZX = SG_V(2, 1, 0, 0x35, 5),     /* vpmovzxdq */
    V_SX = SG_V(2, 1, 0, 0x25, 5),     /* vpmovsxdq */
    V_LOW = SG_V(2, 2, 0, 0x35, 5),    /* vpmovqd: from the register to the other operand */
    V_UPPER = SG_V(3, 1, 1, 0x3B, 5),  /* vextracti64x4: from the register to the other operand */
    V_JOIN = SG_V(3, 1, 1, 0x3A, 5),   /* vinserti64x4 */
    V_HALVES = SG_V(3, 1, 1, 0x43, 6), /* vshufi64x2; 0xEE: the upper halves of both */
    V_BLEND32 = SG_V(2, 1, 0, 0x64, 6),
    V_BLEND64 = SG_V(2, 1, 1, 0x64, 6),
    V_GATHER32 = SG_V(2, 1, 0, 0x90, 2), /* vpgatherdd: see sg_x86_gather */
    V_PERM32 = SG_V(2, 1, 0, 0x36, 6),   /* vpermd: by the second operand */
    V_PERM2 = SG_V(2, 1, 0, 0x7E, 6),    /* vpermt2d */
    V_PICK = SG_V(2, 1, 0, 0x76, 6),     /* vpermi2d: words of the second and third by the first, which they replace */
    V_SPREAD32 = SG_V(2, 1, 0, 0x58, 2), /* vpbroadcastd */
    V_SPREAD64 = SG_V(2, 1, 1, 0x59, 3),
    V_SPREADR32 = SG_V(2, 1, 0, 0x7C, 2), /* from a general register */
    V_SPREADR64 = SG_V(2, 1, 1, 0x7C, 3),
    V_SPREAD4 = SG_V(2, 1, 0, 0x5A, 4), /* vbroadcasti32x4 */
    V_ADDPS = SG_V(1, 0, 0, 0x58, 6),
    V_ADDPD = SG_V(1, 1, 1, 0x58, 6),
    V_MULPS = SG_V(1, 0, 0, 0x59, 6),
    V_MULPD = SG_V(1, 1, 1, 0x59, 6),
    V_SUBPS = SG_V(1, 0, 0, 0x5C, 6),
    V_SUBPD = SG_V(1, 1, 1, 0x5C, 6),
    V_MINPS = SG_V(1, 0, 0, 0x5D, 6), /* a < b ? a : b */
    V_MAXPS = SG_V(1, 0, 0, 0x5F, 6), /* a > b ? a : b */
    V_DIVPS = SG_V(1, 0, 0, 0x5E, 6),
    V_DIVPD = SG_V(1, 1, 1, 0x5E, 6),
    V_SQRTPS = SG_V(1, 0, 0, 0x51, 6),
    V_SQRTPD = SG_V(1, 1, 1, 0x51, 6),
    V_FMA231PS = SG_V(2, 1, 0, 0xB8, 6), /* d = a * b + d */
    V_FMA231PD = SG_V(2, 1, 1, 0xB8, 6),
    V_FMA213PS = SG_V(2, 1, 0, 0xA8, 6), /* d = a * d + b */
    V_FMA213PD = SG_V(2, 1, 1, 0xA8, 6),
    V_RANGEPS = SG_V(3, 1, 0, 0x50, 6),
    V_RANGEPD = SG_V(3, 1, 1, 0x50, 6),
    V_CVT_F_S = SG_V(1, 0, 0, 0x5B, 6), /* vcvtdq2ps */
    V_CVT_F_U = SG_V(1, 3, 0, 0x7A, 6), /* vcvtudq2ps */
    V_CVT_S_F = SG_V(1, 2, 0, 0x5B, 6), /* vcvttps2dq */
    V_CVT_U_F = SG_V(1, 0, 0, 0x78, 6), /* vcvttps2udq */
    V_RNDPS = SG_V(3, 1, 0, 0x08, 6),   /* vrndscaleps */
    V_RNDPD = SG_V(3, 1, 1, 0x09, 6),
    V_MINPD = SG_V(1, 1, 1, 0x5D, 6),
    V_MAXPD = SG_V(1, 1, 1, 0x5F, 6),
    V_PD_PS = SG_V(1, 0, 0, 0x5A, 5), /* vcvtps2pd: from the lower half of a register */
    V_PD_S = SG_V(1, 2, 0, 0xE6, 5),  /* vcvtdq2pd */
    V_PD_U = SG_V(1, 2, 0, 0x7A, 5),  /* vcvtudq2pd */
    V_PS_PD = SG_V(1, 1, 1, 0x5A, 6), /* vcvtpd2ps: to the lower half */
    V_S_PD = SG_V(1, 1, 1, 0xE6, 6),  /* vcvttpd2dq */
    V_U_PD = SG_V(1, 0, 1, 0x78, 6),  /* vcvttpd2udq */
    V_PS_H = SG_V(2, 1, 0, 0x13, 5),  /* vcvtph2ps */
    V_H_PS = SG_V(3, 1, 0, 0x1D, 5),  /* vcvtps2ph: from the register to the other operand */
    V_ZX16 = SG_V(2, 1, 0, 0x33, 5),  /* vpmovzxwd */
    V_LOW16 = SG_V(2, 2, 0, 0x33, 5), /* vpmovdw: from the register to the other operand */
    /* of words of 16 bits */
    V_SHI16 = SG_V(1, 1, 0, 0x71, 6),
    V_MINS16 = SG_V(1, 1, 0, 0xEA, 6),
    V_MAXS16 = SG_V(1, 1, 0, 0xEE, 6),
    V_CMPU16 = SG_V(3, 1, 1, 0x3E, 6),
    V_BLEND16 = SG_V(2, 1, 1, 0x66, 6),
};
enum { SHI_SHR = 2, SHI_SAR = 4, SHI_SHL = 6 };
enum { CMP_EQ, CMP_LT, CMP_LE, CMP_NE = 4, CMP_GE, CMP_GT };

/* Masks: k 0: none; z: lanes without get 0. `round` 0: the CPU's mode; 1 down, 2 up, 3 to zero. imm < 0: none. */
void sg_x86_v(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, unsigned b, int imm);
void sg_x86_vk(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, unsigned b, int imm, unsigned k, bool z);
void sg_x86_vround(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, unsigned b, unsigned round);
void sg_x86_vm(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, struct sg_x86_mem m, int imm);
/* the same element of memory for all lanes */
void sg_x86_vmb(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, struct sg_x86_mem m, int imm);
void sg_x86_vmk(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, struct sg_x86_mem m, int imm, unsigned k,
                bool z, bool spread);

/* d = 16 words at base + the lanes of vector register i, for the lanes of mask k, which becomes empty. */
void sg_x86_gather(struct sg_x86 *x, unsigned d, unsigned base, unsigned i, unsigned k);
/* The first element of vector register v in general register r; wide: of 64 bits. */
void sg_x86_first(struct sg_x86 *x, unsigned r, unsigned v, bool wide);

/* ---- mask registers */
void sg_x86_k_load(struct sg_x86 *x, unsigned k, struct sg_x86_mem m, bool wide); /* kmovw, kmovd */
void sg_x86_k_from(struct sg_x86 *x, unsigned k, unsigned r, bool wide);
void sg_x86_k_to(struct sg_x86 *x, unsigned r, unsigned k, bool wide);
void sg_x86_k_join(struct sg_x86 *x, unsigned k, unsigned high, unsigned low); /* kunpckwd */
void sg_x86_k_shr(struct sg_x86 *x, unsigned k, unsigned from, unsigned by);   /* kshiftrd */
void sg_x86_k_ones(struct sg_x86 *x, unsigned k);                              /* kxnorw: 16 ones */
void sg_x86_k_or_test(struct sg_x86 *x, unsigned a, unsigned b);               /* kortestw */
void sg_x86_k_or(struct sg_x86 *x, unsigned d, unsigned a, unsigned b);        /* korw */

/* ---- general registers; wide: 64 bits */
enum sg_x86_alu { X_ADD, X_OR, X_AND = 4, X_SUB, X_XOR, X_CMP };
void sg_x86_load(struct sg_x86 *x, unsigned r, struct sg_x86_mem m, bool wide);
void sg_x86_store(struct sg_x86 *x, struct sg_x86_mem m, unsigned r, bool wide);
void sg_x86_mov(struct sg_x86 *x, unsigned d, unsigned r, bool wide);
void sg_x86_mov_imm(struct sg_x86 *x, unsigned r, uint64_t v);
void sg_x86_lea(struct sg_x86 *x, unsigned r, struct sg_x86_mem m, bool wide);
void sg_x86_alu(struct sg_x86 *x, enum sg_x86_alu op, unsigned d, unsigned r, bool wide);
void sg_x86_alu_to(struct sg_x86 *x, enum sg_x86_alu op, struct sg_x86_mem m, unsigned r, bool wide);
void sg_x86_alu_imm(struct sg_x86 *x, enum sg_x86_alu op, unsigned d, int32_t v, bool wide);
void sg_x86_alu_mem(struct sg_x86 *x, enum sg_x86_alu op, unsigned d, struct sg_x86_mem m, bool wide);
void sg_x86_mem_imm(struct sg_x86 *x, enum sg_x86_alu op, struct sg_x86_mem m, int32_t v, bool wide);
void sg_x86_mem_imm8(struct sg_x86 *x, enum sg_x86_alu op, struct sg_x86_mem m, int8_t v); /* of a byte */
void sg_x86_test(struct sg_x86 *x, unsigned a, unsigned b, bool wide);
void sg_x86_test_imm(struct sg_x86 *x, unsigned r, int32_t v);
void sg_x86_not(struct sg_x86 *x, unsigned r);
void sg_x86_popcnt(struct sg_x86 *x, unsigned d, unsigned r);
void sg_x86_times(struct sg_x86 *x, unsigned d, unsigned r, int32_t v); /* imul of 64 bits */
void sg_x86_shl(struct sg_x86 *x, unsigned r, unsigned by);
void sg_x86_zero_upper(struct sg_x86 *x); /* vzeroupper */
void sg_x86_push(struct sg_x86 *x, unsigned r);
void sg_x86_pop(struct sg_x86 *x, unsigned r);
void sg_x86_call(struct sg_x86 *x, unsigned r);
void sg_x86_call_mem(struct sg_x86 *x, struct sg_x86_mem m);
void sg_x86_jump(struct sg_x86 *x, unsigned r);
void sg_x86_jump_mem(struct sg_x86 *x, struct sg_x86_mem m);
void sg_x86_ret(struct sg_x86 *x);
enum sg_x86_cc { CC_B = 2, CC_AE, CC_E, CC_NE, CC_BE, CC_A, CC_LE = 14, CC_G, CC_ALWAYS = 16 };
/* Jumps with a distance of 32 bits: returns where it stands, for sg_x86_here, which sets it to the end of the code. */
size_t sg_x86_jcc(struct sg_x86 *x, enum sg_x86_cc cc);
void sg_x86_set(struct sg_x86 *x, size_t jump, size_t to);
static inline void sg_x86_here(struct sg_x86 *x, size_t jump) { sg_x86_set(x, jump, x->n); }
size_t sg_x86_lea_code(struct sg_x86 *x, unsigned r); /* the address of a place in the code, set as a jump's */

#endif
