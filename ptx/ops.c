/* The tables behind ops.def, mods.def, types.def and sregs.def, and the small questions asked of them.
 *
 * TY_* are sets of types (bit t is enum ptx_type t) and MC(X) sets of modifier classes, for the columns of ops.def.
 * They live here because only this table needs them: everybody else reads struct ptx_op_info. Not here: the look-up
 * from text, which the parser owns (words.c).
 */
#include "ptx/ptx.h"

#define T(x) (UINT64_C(1) << PTX_##x)
#define MC(x) (UINT64_C(1) << PTX_MC_##x)

#define TY_B32 T(B32)
#define TY_B64 T(B64)
#define TY_B16 T(B16)
#define TY_16 (T(U16) | T(S16))
#define TY_U32 T(U32)
#define TY_F32 T(F32)
#define TY_PRED T(PRED)
#define TY_BITS (T(B16) | T(B32) | T(B64))
#define TY_SINT (T(S16) | T(S32) | T(S64))
#define TY_INT (TY_SINT | T(U16) | T(U32) | T(U64))
#define TY_32 (T(U32) | T(S32))
#define TY_32_64 (T(U32) | T(U64))
#define TY_F32_64 (T(F32) | T(F64))
#define TY_FLOAT (TY_F32_64 | T(F16) | T(F16X2) | T(BF16) | T(BF16X2) | T(F32X2))
#define TY_WIDE (T(U64) | T(S64))
#define TY_BITS8 (TY_BITS | T(B8))
#define TY_TEXEL (TY_32 | TY_F32 | T(F16) | T(F16X2))
#define TY_COORD (T(S32) | T(F32))
#define TY_REF (T(TEXREF) | T(SAMPLERREF) | T(SURFREF))
#define TY_HALF (T(F16) | T(BF16))
#define TY_X2 (T(U16X2) | T(S16X2))
#define TY_BYTE (T(B8) | T(U8) | T(S8))
#define TY_MOV (TY_BITS | TY_INT | TY_F32_64 | T(F16) | T(F16X2) | T(BF16) | T(BF16X2) | T(PRED) | T(B128))
#define TY_MEM (TY_BITS | TY_INT | TY_BYTE | TY_F32_64 | T(F16) | T(F16X2) | T(BF16) | T(BF16X2) | T(B128))
#define TY_ATOM (TY_BITS | TY_INT | TY_FLOAT | T(B128))
#define TY_CVT                                                                                                         \
    (TY_INT | TY_BYTE | TY_BITS | TY_FLOAT | T(TF32) | T(E4M3X2) | T(E5M2X2) | T(E2M1X2) | T(E2M3X2) | T(E3M2X2) |     \
     T(UE8M0X2) | T(E4M3X4) | T(E5M2X4) | T(E2M1X4) | T(E2M3X4) | T(E3M2X4))

#define MC_CACHE (MC(COP) | MC(L1) | MC(L2) | MC(HINT) | MC(L2SIZE))
#define MC_ARITH (MC(RND) | MC(FTZ) | MC(SAT) | MC(RELU))

_Static_assert(PTX_T_COUNT <= 64, "a set of types is 64 bits");
_Static_assert(PTX_MC_VEC < 64, "a set of classes is 64 bits");
_Static_assert(PTX_M_COUNT <= 400, "the words of words.c, modifiers and types, fill half a table of 1024 at most");

static const struct ptx_op_info ops[PTX_OP_COUNT] = {
    [PTX_OP_LABEL] = {"", PTX_F_NODST, -1, "L", 0, 0, 0, 0},
    [PTX_OP_PRAGMA] = {".pragma", PTX_F_NODST, -1, "", 0, 0, 0, 0},
    [PTX_OP_BRANCHTARGETS] = {".branchtargets", PTX_F_NODST, -1, "L", 0, 0, 0, 0},
    [PTX_OP_CALLPROTO] = {".callprototype", PTX_F_NODST, -1, "L", 0, 0, 0, 0},
    [PTX_OP_OPAQUE] = {"", PTX_F_READS | PTX_F_WRITES | PTX_F_SIDE | PTX_F_CONVERGENT | PTX_F_NODST, -1, "", 0, 0, 0,
                       0},
#define OP(NAME, mnemonic, shape, ntype, T0, T1, MODS, FLAGS, ADDR)                                                    \
    [PTX_OP_##NAME] = {mnemonic, FLAGS, ADDR, shape, ntype, T0, T1, MODS},
#include "ptx/ops.def"
#undef OP
};

static const struct {
    const char *text;
    uint8_t bytes;
    char kind;
} types[PTX_T_COUNT] = {
    [PTX_T_NONE] = {"", 0, 0},
#define TYPE(NAME, text, bytes, kind) [PTX_##NAME] = {text, bytes, #kind[0]},
#include "ptx/types.def"
#undef TYPE
};

static const struct {
    const char *text;
    uint8_t class;
} mods[PTX_M_COUNT] = {
    [PTX_M_NONE] = {"", 0},
#define MOD(NAME, text, class) [PTX_M_##NAME] = {text, PTX_MC_##class},
#include "ptx/mods.def"
#undef MOD
};

static const struct {
    const char *text;
    uint8_t type, flags;
} sregs[PTX_SR_COUNT] = {
    [PTX_SR_NONE] = {"", 0, 0},
#define SREG(NAME, text, type, flags) [PTX_SR_##NAME] = {text, PTX_##type, flags},
#include "ptx/sregs.def"
#undef SREG
};

const struct ptx_op_info *ptx_op_info(enum ptx_op op) { return &ops[op < PTX_OP_COUNT ? op : PTX_OP_OPAQUE]; }

unsigned ptx_type_bytes(enum ptx_type t) { return t < PTX_T_COUNT ? types[t].bytes : 0; }
const char *ptx_type_text(enum ptx_type t) { return t < PTX_T_COUNT ? types[t].text : ""; }
bool ptx_type_is_float(enum ptx_type t) { return t < PTX_T_COUNT && types[t].kind == 'F'; }
bool ptx_type_is_signed(enum ptx_type t) { return t < PTX_T_COUNT && types[t].kind == 'S'; }
bool ptx_type_is_bits(enum ptx_type t) { return t < PTX_T_COUNT && types[t].kind == 'B'; }

const char *ptx_mod_text(enum ptx_mod m) { return m < PTX_M_COUNT ? mods[m].text : ""; }
enum ptx_mod_class ptx_mod_class(enum ptx_mod m) { return m < PTX_M_COUNT ? mods[m].class : 0; }

const char *ptx_sreg_text(enum ptx_sreg r) { return r < PTX_SR_COUNT ? sregs[r].text : ""; }
unsigned ptx_sreg_flags(enum ptx_sreg r) { return r < PTX_SR_COUNT ? sregs[r].flags : 0; }
enum ptx_type ptx_sreg_type(enum ptx_sreg r) { return r < PTX_SR_COUNT ? sregs[r].type : PTX_T_NONE; }

enum ptx_mod ptx_mod_of(const struct ptx_inst *i, enum ptx_mod_class c)
{
    for (unsigned k = 0; k < i->nmod; k++)
        if (mods[i->mod[k]].class == c)
            return i->mod[k];
    return PTX_M_NONE;
}

bool ptx_is_open(const struct ptx_inst *i)
{
    if (i->op <= PTX_OP_OPAQUE || !i->ntype || !ptx_type_is_float((enum ptx_type)i->type[0]))
        return false;
    if (ptx_op_info(i->op)->flags & PTX_F_OPEN || ptx_mod_of(i, PTX_MC_APPROX) != PTX_M_NONE)
        return true;
    bool rounded = i->op == PTX_OP_DIV || i->op == PTX_OP_RCP || i->op == PTX_OP_SQRT;
    return (rounded && ptx_mod_of(i, PTX_MC_RND) == PTX_M_NONE) || (i->op == PTX_OP_CVT && i->type[0] == PTX_TF32);
}

bool ptx_set_mod(struct ptx_inst *i, enum ptx_mod m)
{
    if (m == PTX_M_NONE || m >= PTX_M_COUNT)
        return false;
    if (ptx_has(i, m))
        return true;
    if (i->nmod == PTX_MAX_MODS)
        return false;
    unsigned at = i->nmod++;
    if (!(ptx_op_info(i->op)->flags & PTX_F_ORDERED))
        for (; at && i->mod[at - 1] > m; at--)
            i->mod[at] = i->mod[at - 1];
    i->mod[at] = m;
    return true;
}

void ptx_clear_mod(struct ptx_inst *i, enum ptx_mod m)
{
    unsigned to = 0;
    for (unsigned k = 0; k < i->nmod; k++)
        if (i->mod[k] != m)
            i->mod[to++] = i->mod[k];
    i->nmod = to;
}
