/* PTX as data: modules, functions, instructions, operands.
 *
 * Source: PTX ISA 9.0 (sections named below). One arena per module owns everything that hangs off it; pointers stay
 * valid until ptx_module_free(). Nothing here is thread-safe for writing; a parsed module may be read by many threads.
 *
 * What the IR is: per function a flat vector of instructions. Labels, pragmas and branch-target lists are instructions
 * of their own (PTX_OP_LABEL …), so that inserting code never moves a label. Nested `{ }` scopes are flattened: names
 * that a scope shadows are renamed at parse. Each instruction keeps its line; .loc and .file are kept beside the code
 * (ptx_source_of) and not printed: the .loc that an emitted module prints say which posted text its instructions come
 * from (origin.c). An instruction that `ops.def` does not know is kept verbatim as PTX_OP_OPAQUE with its text: it
 * prints back unchanged, analysis must treat it as reading and writing everything, the executor refuses it by name and
 * line.
 */
#ifndef DT_PTX_PTX_H
#define DT_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* ---- types (§5.2) -------------------------------------------------------------------------------------------- */
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

/* ---- state spaces (§5.1) ------------------------------------------------------------------------------------- */
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

/* ---- modifiers: one row each in mods.def; canonical print order is row order --------------------------------- */
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
    PTX_MC_RELU,
    PTX_MC_SATFINITE,
    PTX_MC_OOB,
    PTX_MC_CC,
    PTX_MC_DIM,
    PTX_MC_TILE,
    PTX_MC_ACC,
    PTX_MC_RESTRICT,
    PTX_MC_FIELD,
    PTX_MC_VEC,
};
const char *ptx_mod_text(enum ptx_mod m); /* "rn", without the dot */
enum ptx_mod_class ptx_mod_class(enum ptx_mod m);

/* ---- operations: one row per mnemonic and shape in ops.def --------------------------------------------------- */
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

/* ---- special registers (§10) --------------------------------------------------------------------------------- */
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

/* ---- operands ------------------------------------------------------------------------------------------------ */
enum ptx_opnd_kind {
    PTX_O_NONE,
    PTX_O_REG, /* reg; comp; neg: `!p` */
    /* bits, imm_type: an integer is sign- or zero-extended to 64 bits, PTX_F32: bits of 0f, PTX_F64: bits of 0d */
    PTX_O_IMM,
    PTX_O_SREG, /* sreg, comp */
    PTX_O_VAR,  /* address of var, + off (mov %r, sym+8) */
    PTX_O_FUNC, /* func: call target or function address */
    /* [base + off]: base_kind REG (reg), VAR (var), or NONE (absolute). [reg, {…}]: coordinates in elem[0..n) */
    PTX_O_ADDR,
    PTX_O_VEC,   /* elem[0..n) */
    PTX_O_SINK,  /* _ */
    PTX_O_LABEL, /* label */
};

struct ptx_opnd {
    uint8_t kind;      /* enum ptx_opnd_kind */
    uint8_t neg;       /* predicate negated, or arithmetic minus where the shape allows it */
    int8_t comp;       /* 0…3 for .x .y .z .w; -1 none */
    uint8_t base_kind; /* PTX_O_ADDR: PTX_O_REG, PTX_O_VAR or PTX_O_NONE */
    uint8_t imm_type;  /* PTX_S64 or PTX_U64 (integer), PTX_F32, PTX_F64 */
    uint8_t n;         /* PTX_O_VEC */
    uint32_t reg;      /* index into ptx_function.reg */
    uint32_t label;    /* index into ptx_function.label */
    uint16_t sreg;     /* enum ptx_sreg */
    int64_t off;
    union {
        uint64_t bits;
        struct ptx_var *var;
        struct ptx_function *func;
        struct ptx_opnd *elem;
    };
};

/* ---- instructions -------------------------------------------------------------------------------------------- */
#define PTX_NO_REG UINT32_MAX
#define PTX_MAX_MODS 10
#define PTX_MAX_TYPES 4

struct ptx_inst {
    uint16_t op;    /* enum ptx_op */
    uint16_t nopnd; /* in source order: destinations first */
    uint8_t nmod;
    uint8_t ntype;
    /* enum ptx_space of the memory operand (ld st atom red cvta isspacep prefetch …); PTX_GENERIC if not written */
    uint8_t space;
    uint8_t space2; /* second space: cp.async .shared.global: space = PTX_SHARED, space2 = PTX_GLOBAL */
    uint8_t vec;    /* 1, 2, 4 or 8: elements of ld/st .vN */
    uint8_t dst2;   /* opnd[1] is a second destination written with `|` */
    uint8_t pred_neg;
    uint32_t pred;               /* register of @p, PTX_NO_REG if unpredicated */
    uint16_t mod[PTX_MAX_MODS];  /* canonical order; see ptx_has() */
    uint8_t type[PTX_MAX_TYPES]; /* in source order: cvt.rn.f32.s32 has {F32, S32} */
    uint32_t line, col;          /* in the PTX text, from 1; 0 if made by a rewrite */
    uint32_t from_line;          /* of which line of a posted text it is (origin.c); 0: of none */
    uint64_t from;               /* that text: ptx_origin_text */
    struct ptx_opnd *opnd;       /* owned by the module's arena */
    const char *text;            /* OPAQUE, PRAGMA, CALLPROTO */
};

static inline bool ptx_has(const struct ptx_inst *i, enum ptx_mod m)
{
    for (unsigned k = 0; k < i->nmod; k++)
        if (i->mod[k] == m)
            return true;
    return false;
}
/* The operand of a cp.async that says how many bytes are read (an integer), or whether none is (a predicate): NULL
 * without one. The operand behind the size may also be a cache policy, and is nothing of the kind then. */
/* Does PTX leave bits of the result open? Of the rows of ops.def that say so, where type[0] is of floating point:
 * approximations, sums of matrices in any order; whatever is .approx or .full, or a division or root without a
 * rounding; and cvt to tf32, whose low bits are nobody's. */
bool ptx_is_open(const struct ptx_inst *i);

/* Does it read the carry flag, which an earlier instruction with .cc set? */
static inline bool ptx_reads_carry(const struct ptx_inst *i)
{
    return i->op == PTX_OP_ADDC || i->op == PTX_OP_SUBC || i->op == PTX_OP_MADC;
}

static inline const struct ptx_opnd *ptx_cp_async_source(const struct ptx_inst *i)
{
    return i->op == PTX_OP_CP_ASYNC && i->nopnd > 3 + ptx_has(i, PTX_M_L2_HINT) ? &i->opnd[3] : NULL;
}
/* The instruction's modifier of class c, PTX_M_NONE if it has none: ptx_mod_of(i, PTX_MC_RND) is PTX_M_RN, … */
enum ptx_mod ptx_mod_of(const struct ptx_inst *i, enum ptx_mod_class c);
/* Set or clear a modifier; keeps canonical order. False if there is no room. */
bool ptx_set_mod(struct ptx_inst *i, enum ptx_mod m);
void ptx_clear_mod(struct ptx_inst *i, enum ptx_mod m);

/* ---- video instructions, video.c ------------------------------------------------------------------------------ */
/* Their selectors (`d.h10`, `a.b7654`) are one constant, the last operand: 16 bits for each of d, a, b, d's lowest. Of
 * these, 0: not written; else three bits for each digit, the last written lowest, the number of digits from bit 12 on,
 * PTX_SEL_HALF: .h and not .b. */
enum { PTX_SELS = 3, PTX_SEL_HALF = 0x8000 };
unsigned ptx_video_lanes(enum ptx_op op); /* 2, 4; 0: no video instruction */
/* With the defaults put in, of an instruction that ptx_verify takes: mask: bit k: d has lane k; from[0][k], from[1][k]:
 * the lane of a and b, counted through a and then b, that lane k of the operation has on either side. */
struct ptx_video {
    unsigned lanes;
    uint8_t mask, from[2][4];
};
struct ptx_video ptx_video_of(const struct ptx_inst *i);

/* ---- variables, registers, labels, functions, modules -------------------------------------------------------- */
struct ptx_var {
    const char *name;
    uint8_t space; /* GLOBAL CONST SHARED LOCAL PARAM */
    uint8_t type;  /* element type */
    uint8_t vec;   /* 1, 2, 4 */
    bool is_extern, visible, weak, common;
    /* .param .ptr: of ptr_space (PTX_GENERIC where not written), to data aligned to ptr_align (0: not said) */
    bool is_ptr;
    uint8_t ptr_space;
    uint32_t ptr_align;
    const char *attribute;      /* text inside .attribute(…), or NULL */
    uint32_t align;             /* bytes; natural alignment where not written */
    uint64_t bytes;             /* whole size; 0 for `extern .shared x[]` */
    struct ptx_function *owner; /* whose scope it is in; NULL: module scope */
    uint32_t index;             /* place among its owner's vars or params; free for the owner's passes */
    bool is_array;
    uint32_t ndim; /* array dimensions as written */
    uint64_t *dim;
    uint8_t *init; /* `bytes` bytes, or NULL */
    struct ptx_reloc {
        uint64_t at; /* offset in init: 8 bytes get the address of target + addend (generic address if `generic`) */
        struct ptx_var *var;
        struct ptx_function *func;
        int64_t addend;
        bool generic;
    } * reloc;
    uint32_t nreloc;
};

struct ptx_reg {
    const char *name; /* "%r12" */
    uint8_t type;
    uint8_t vec; /* 1 ordinarily */
};

struct ptx_label {
    const char *name;
};

struct ptx_function {
    struct ptx_module *module;
    const char *name;
    bool is_entry, is_extern, visible, weak, noreturn;
    bool has_body;
    struct ptx_var **param; /* .param in declaration order */
    uint32_t nparam;
    struct ptx_var **ret; /* return params of a .func */
    uint32_t nret;
    uint32_t maxntid[3], reqntid[3], minnctapersm, maxnreg, reqnctapercluster[3]; /* 0: not given */
    const char *extra; /* other directives (.explicitcluster, .maxclusterrank 8, …) as text, or NULL */
    struct ptx_reg *reg;
    uint32_t nreg, reg_cap;
    struct ptx_label *label;
    uint32_t nlabel, label_cap;
    struct ptx_var **var; /* shared, local, param variables declared inside */
    uint32_t nvar, var_cap;
    struct ptx_inst *inst;
    uint32_t ninst, inst_cap;
    uint32_t line;
    size_t at, end;  /* where its text was: from the first word of it up to what follows */
    struct ptx_loc { /* .loc at this place of the text (debug.c) */
        uint32_t line, col, file, src_line, at_file, at_line;
    } * loc;
    uint32_t nloc, loc_cap;
    struct ptx_scope *scope; /* names for ptx_append_text, private */
};

struct ptx_module {
    struct dt_arena arena;
    unsigned version_major, version_minor;
    const char *target; /* "sm_90", with options: "sm_90, texmode_independent" */
    unsigned address_size;
    struct ptx_var **var; /* module-scope .global .const .shared, in order */
    uint32_t nvar, var_cap;
    /* entries, functions, prototypes, in order; operands point to the one with the body if there is one */
    struct ptx_function **func;
    uint32_t nfunc, func_cap;
    struct ptx_alias {
        struct ptx_function *name, *target;
    } * alias;
    uint32_t nalias, alias_cap;
    struct ptx_file {
        uint32_t number;
        const char *name;
    } * file; /* .file */
    uint32_t nfile, file_cap;
    const char *pragma; /* module-scope .pragma directives as text, or NULL */
    bool origins;       /* printing says where its instructions come from */
};

struct ptx_source {      /* where an instruction comes from, if the text says so (-lineinfo) */
    const char *file;    /* as in .file */
    uint32_t line;       /* from 1 */
    const char *at_file; /* inlined there, or NULL */
    uint32_t at_line;
};
/* false: not known */
bool ptx_source_of(const struct ptx_function *f, const struct ptx_inst *i, struct ptx_source *ret);

/* ---- where instructions come from (origin.c) ------------------------------------------------------------------- */
#define PTX_ORIGIN_GLUE "dovetail" /* .file of what rewrites put between */
/* Every instruction is of the posted text that the module was parsed from, `text`: the first 12 hex digits of its
 * SHA-256 as a number. */
void ptx_origin_text(struct ptx_module *m, uint64_t text);
/* Origins as an emitted text has them in its .loc. False, and nothing is done: it is no such text. */
bool ptx_origin_read(struct ptx_module *m);

/* ---- parse, print, verify ------------------------------------------------------------------------------------ */
#define PTX_MAX_BYTES (64u << 20) /* larger text is refused before anything is allocated */

/* Parse `len` bytes of text. On a syntax error DT_E_PTX with "line L, column C: …". *ret is untouched on failure. */
int ptx_parse(const char *text, size_t len, struct ptx_module **ret, struct dt_err *e);
void ptx_module_free(struct ptx_module *m);

/* Canonical text, appended to `out`. ptx_parse(ptx_print(m)) is the same module: printing it again gives the same
 * bytes. */
int ptx_print(const struct ptx_module *m, struct dt_str *out);
int ptx_print_function(const struct ptx_function *f, struct dt_str *out);
/* one line, without newline */
int ptx_print_inst(const struct ptx_function *f, const struct ptx_inst *i, struct dt_str *out);
/* Print one function with registers renamed %r0 %r1 … and labels L0 L1 … by first appearance, its own name and those of
 * its params left out, and the module variables and device functions that it uses (transitively) before it, so renamed
 * too: what the signature hashes. */
int ptx_print_canonical(const struct ptx_function *entry, struct dt_str *out);

/* A module with everything copied (by print and parse), or only `entry` and what it uses when `entry` is not NULL. */
int ptx_clone(const struct ptx_module *m, const char *entry, struct ptx_module **ret, struct dt_err *e);

/* `text`, which `m` was parsed from, without the functions that none of the n entries needs; every line stays where it
 * is. 1 (and *ret untouched) when there is nothing to leave out, or one of the entries does not exist. *ret ends with a
 * NUL and is the caller's to free. */
int ptx_narrow(const struct ptx_module *m, const char *text, size_t len, const char *const *entry, size_t n, char **ret,
               size_t *ret_len);

/* Types, operand shapes, register classes, labels defined, special registers only in mov and cvt (§ of each). DT_E_PTX
 * + line. */
int ptx_verify(const struct ptx_module *m, struct dt_err *e);

struct ptx_function *ptx_find_function(const struct ptx_module *m, const char *name);
struct ptx_var *ptx_find_var(const struct ptx_module *m, const char *name);

/* ---- building (used by instrumenters and rewrites). NULL / PTX_NO_REG when memory is out; the arena remembers ---- */
struct ptx_module *ptx_module_new(unsigned major, unsigned minor, const char *target);
struct ptx_function *ptx_function_new(struct ptx_module *m, const char *name, bool entry);
struct ptx_var *ptx_var_new(struct ptx_module *m, struct ptx_function *owner, const char *name, enum ptx_space space,
                            enum ptx_type type, uint64_t count, uint32_t align); /* owner NULL: module scope; adds it */
struct ptx_var *ptx_param_new(struct ptx_function *f, const char *name, enum ptx_type type, uint64_t bytes,
                              uint32_t align);
/* fresh unique name from hint, e.g. "dt_r" */
uint32_t ptx_reg_new(struct ptx_function *f, enum ptx_type type, const char *hint);
uint32_t ptx_label_new(struct ptx_function *f, const char *hint);
struct ptx_inst *ptx_append(struct ptx_function *f, struct ptx_inst i); /* copies i and its operands into the arena */
/* Parse instruction text ("add.s32 %dt_r0, %r1, 4; @%p1 bra L;") against f's names and append: the simplest way to emit
 * code. Also takes `.reg .b32 %x;`, `.shared …;` and labels. */
int ptx_append_text(struct ptx_function *f, struct dt_err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- flow (cfg.c, flow.c) ------------------------------------------------------------------------------------ */
struct ptx_block { /* basic block: instructions [first, last] */
    uint32_t first, last;
    uint32_t nsucc, npred;
    uint32_t *succ, *pred;
    uint32_t ipdom; /* immediate post-dominator, UINT32_MAX: the exit */
    uint32_t idom;  /* immediate dominator, UINT32_MAX for the entry block and unreachable ones */
    bool reachable;
};
struct ptx_cfg {
    struct dt_arena arena;
    struct ptx_block *block;
    uint32_t nblock;
    uint32_t *block_of; /* per instruction */
};
int ptx_cfg_build(const struct ptx_function *f, struct ptx_cfg *cfg, struct dt_err *e);
void ptx_cfg_done(struct ptx_cfg *cfg);

/* Registers an instruction reads and writes (predicate included in reads). Calls `fn(reg, is_write, user)`. A
 * predicated write is both a write and a read (the old value may survive). */
void ptx_inst_regs(const struct ptx_inst *i, void (*fn)(uint32_t reg, bool write, void *user), void *user);

/* Live registers before each block as bit sets of nreg bits. */
struct ptx_live {
    struct dt_arena arena;
    uint32_t words; /* 64-bit words per set */
    uint64_t **in, **out;
    uint32_t max_pressure_bytes; /* most bytes live at once: the estimate of registers is this / 4 */
};
int ptx_live_build(const struct ptx_function *f, const struct ptx_cfg *cfg, struct ptx_live *l, struct dt_err *e);
void ptx_live_done(struct ptx_live *l);

#endif
