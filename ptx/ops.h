/* The words of PTX: types, state spaces, modifiers, instructions, special registers.
 *
 * Source: PTX ISA 9.0 (sections named below). Each is a row of a table (types.def, mods.def, ops.def, sregs.def), from
 * which its number here, its text and its properties come; ops.c answers questions about them. ptx.h has the data that
 * uses them.
 */
#ifndef DT_PTX_OPS_H
#define DT_PTX_OPS_H

#include <stdbool.h>
#include <stdint.h>

/* ---- types (§5.2) ------------------------------------------------------------------------------------------------ */
enum ptx_type {
    PTX_T_NONE,
#define TYPE(NAME, text, bytes, kind) PTX_##NAME,
/* PTX_B8 PTX_B16 PTX_B32 PTX_B64 PTX_B128 PTX_U8… PTX_S8… PTX_F16 PTX_F16X2 PTX_BF16 PTX_BF16X2 PTX_TF32 PTX_F32
 * PTX_F64 PTX_PRED … */
#include "ptx/types.def"
#undef TYPE
    PTX_T_COUNT
};
unsigned ptx_type_bytes(enum ptx_type t);   /* 0 for .pred and none; sub-byte types count as 1 */
const char *ptx_type_text(enum ptx_type t); /* "f32", without the dot */
bool ptx_type_is_float(enum ptx_type t);
bool ptx_type_is_signed(enum ptx_type t); /* .sN only */
bool ptx_type_is_bits(enum ptx_type t);   /* .bN only */

/* ---- state spaces (§5.1) ----------------------------------------------------------------------------------------- */
enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_SHARED_CLUSTER,
    PTX_LOCAL,
    PTX_CONST,
    PTX_PARAM,
    PTX_PARAM_FUNC,
    PTX_REG,
    PTX_SPACE_COUNT
};

/* ---- modifiers: one row each in mods.def; canonical print order is row order ------------------------------------- */
enum ptx_mod {
    PTX_M_NONE,
#define MOD(NAME, text, class) PTX_M_##NAME,
/* PTX_M_LO, PTX_M_HI, PTX_M_WIDE, PTX_M_RN, PTX_M_FTZ, PTX_M_SAT, PTX_M_V2, PTX_M_NC, PTX_M_LT, … */
#include "ptx/mods.def"
#undef MOD
    PTX_M_COUNT
};
/* Classes of modifiers: an instruction has at most one of a class. `.lo` and `.hi` are HALF in setp too, `.and .or
 * .xor` BOOL in atom too, `.uni` is UNI in vote too. */
enum ptx_mod_class {
    PTX_MC_VOTE,
    PTX_MC_SYNC,
    PTX_MC_ALIGNED,
    PTX_MC_UNI,
    PTX_MC_SHFL,
    PTX_MC_CMP,
    PTX_MC_MMIO,
    PTX_MC_SEM,
    PTX_MC_SCOPE,
    PTX_MC_PROXY,
    PTX_MC_SHAPE,
    PTX_MC_LAYOUT,
    PTX_MC_COUNT,
    PTX_MC_TRANS,
    PTX_MC_TO,
    PTX_MC_NC,
    PTX_MC_COP,
    PTX_MC_LEVEL,
    PTX_MC_L1,
    PTX_MC_L2,
    PTX_MC_HINT,
    PTX_MC_L2SIZE,
    PTX_MC_ATOM,
    PTX_MC_BOOL,
    PTX_MC_POPC,
    PTX_MC_NOFTZ,
    PTX_MC_TX,
    PTX_MC_MULTICAST,
    PTX_MC_CP_MASK,
    PTX_MC_NOINC,
    PTX_MC_PARITY,
    PTX_MC_READ,
    PTX_MC_HALF,
    PTX_MC_SHIFT,
    PTX_MC_WRAP,
    PTX_MC_SHIFTAMT,
    PTX_MC_PRMT,
    PTX_MC_TESTP,
    PTX_MC_APPROX,
    PTX_MC_RND,
    PTX_MC_FTZ,
    PTX_MC_NANP,
    PTX_MC_XORSIGN,
    PTX_MC_ABS,
    PTX_MC_SAT,
    PTX_MC_PO,
    PTX_MC_VSCALE,
    PTX_MC_RELU,
    PTX_MC_SATFINITE,
    PTX_MC_OOB,
    PTX_MC_CC,
    PTX_MC_DIM,
    PTX_MC_GEOM,
    PTX_MC_COMP,
    PTX_MC_EDGE,
    PTX_MC_QUERY,
    PTX_MC_TILE,
    PTX_MC_ACC,
    PTX_MC_RESTRICT,
    PTX_MC_FIELD,
    PTX_MC_VEC,
};
const char *ptx_mod_text(enum ptx_mod m); /* "rn", without the dot */
enum ptx_mod_class ptx_mod_class(enum ptx_mod m);

/* ---- operations: one row per mnemonic and shape in ops.def ------------------------------------------------------- */
enum ptx_op {
    PTX_OP_LABEL,         /* opnd[0]: LABEL, defined here */
    PTX_OP_PRAGMA,        /* text */
    PTX_OP_BRANCHTARGETS, /* opnd[0]: LABEL (name of the list), opnd[1…]: LABELs; FUNCs if it is a .calltargets list */
    PTX_OP_CALLPROTO,     /* opnd[0]: LABEL (name), text: `.callprototype …`, verbatim */
    /* text: the statement without predicate and `;`, white space folded; opnd: the registers, variables and functions
     * that it names, in order of appearance (so that they stay declared and can be renamed) */
    PTX_OP_OPAQUE,
#define OP(NAME, mnemonic, ...) PTX_OP_##NAME,
#include "ptx/ops.def" /* PTX_OP_ADD, PTX_OP_LD, PTX_OP_ST, PTX_OP_ATOM, PTX_OP_RED, PTX_OP_BAR_SYNC, PTX_OP_BRA, … */
#undef OP
    PTX_OP_COUNT
};

enum ptx_op_flags {
    PTX_F_READS = 1 << 0,   /* reads memory */
    PTX_F_WRITES = 1 << 1,  /* writes memory */
    PTX_F_ATOMIC = 1 << 2,  /* atom, red */
    PTX_F_BARRIER = 1 << 3, /* waits for, or signals, other threads of the block */
    /* result depends on which other threads take part: shfl, vote, match, activemask, mma … */
    PTX_F_CONVERGENT = 1 << 4,
    PTX_F_BRANCH = 1 << 5,     /* bra, brx */
    PTX_F_TERMINATOR = 1 << 6, /* ret, exit, trap: control does not fall through when unpredicated */
    PTX_F_CALL = 1 << 7,
    PTX_F_SIDE = 1 << 8,  /* other effect that may not be dropped or duplicated: trap, brkpt, nanosleep, fence … */
    PTX_F_NODST = 1 << 9, /* opnd[0] is not a destination */
    PTX_F_DST2 = 1 << 10, /* setp p|q, shfl d|p …: second destination is opnd[1] when inst->dst2 */
    PTX_F_DST_READ = 1 << 11, /* opnd[0] is read as well as written */
    /* PTX leaves open the bits of a result of floating point: another device may give others; see ptx_is_open() */
    PTX_F_OPEN = 1 << 12,
    /* reads or writes through, or asks about, a texture, sampler or surface: what it touches no operand says */
    PTX_F_TEXTURE = 1 << 13,
    PTX_F_SPACE = 1 << 16,   /* takes a state space; the rest is for parser and printer: */
    PTX_F_SPACE2 = 1 << 17,  /* takes two */
    PTX_F_CTA = 1 << 18,     /* .shared prints as .shared::cta */
    PTX_F_ORDERED = 1 << 19, /* modifiers keep source order */
};

struct ptx_op_info {
    const char *mnemonic; /* "add", "bar.sync" */
    unsigned flags;       /* PTX_F_* */
    int addr_opnd;        /* index of the memory operand, -1 if none; of the first where there are two (cp.async) */
    const char *shape;    /* operand shape, see ops.def's head */
    int ntype;            /* number of types; -n: one to n */
    uint64_t types0, types1, mods; /* bits of enum ptx_type allowed (0: any), bits of enum ptx_mod_class allowed */
};
const struct ptx_op_info *ptx_op_info(enum ptx_op op);

/* ---- special registers (§10) ------------------------------------------------------------------------------------- */
enum ptx_sreg {
    PTX_SR_NONE,
#define SREG(NAME, text, type, flags) PTX_SR_##NAME,
/* PTX_SR_TID PTX_SR_NTID PTX_SR_CTAID PTX_SR_NCTAID (component in opnd.comp), PTX_SR_LANEID PTX_SR_WARPID
 * PTX_SR_CLOCK64 … */
#include "ptx/sregs.def"
#undef SREG
    PTX_SR_COUNT
};
enum ptx_sreg_flags {
    PTX_SRF_VECTOR = 1, /* has .x .y .z */
    /* a function of launch geometry, block and thread only: tid ntid ctaid nctaid laneid lanemask_* */
    PTX_SRF_GEOMETRY = 2,
    /* machine register of docs/LEGALITY.md §2.7: smid nsmid warpid nwarpid gridid clock* globaltimer envreg* … */
    PTX_SRF_MACHINE = 4,
};
const char *ptx_sreg_text(enum ptx_sreg r); /* "tid" */
unsigned ptx_sreg_flags(enum ptx_sreg r);
enum ptx_type ptx_sreg_type(enum ptx_sreg r); /* of one component */

#endif
