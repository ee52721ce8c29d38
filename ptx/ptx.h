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
 *
 * ops.h has the words that all of this is made of, flow.h the control flow of a function; both come with this header.
 */
#ifndef DT_PTX_PTX_H
#define DT_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "ptx/flow.h"
#include "ptx/ops.h"

/* ---- operands ---------------------------------------------------------------------------------------------------- */
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
    /* [a, b, {c}] of textures and surfaces (texture.c): a, then the sampler b where base_kind is not PTX_O_NONE, then
     * coordinates, in elem[0..n) */
    PTX_O_TEXTURE,
};

struct ptx_opnd {
    uint8_t kind;      /* enum ptx_opnd_kind */
    uint8_t neg;       /* predicate negated, or arithmetic minus where the shape allows it */
    int8_t comp;       /* 0…3 for .x .y .z .w; -1 none */
    uint8_t base_kind; /* PTX_O_ADDR: PTX_O_REG, PTX_O_VAR or PTX_O_NONE */
    uint8_t imm_type;  /* PTX_S64 or PTX_U64 (integer), PTX_F32, PTX_F64 */
    uint8_t n;         /* PTX_O_VEC, PTX_O_TEXTURE */
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

/* ---- instructions ------------------------------------------------------------------------------------------------ */
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
/* Does PTX leave bits of the result open? Only rows of ops.def that say so can, and only if type[0] is of floating
 * point: approximations, and sums of matrices in any order; whatever is .approx or .full; a division or root without a
 * rounding; and cvt to tf32, which does not fix the low bits. */
bool ptx_is_open(const struct ptx_inst *i);

/* Does it read the carry flag, which an earlier instruction with .cc set? */
static inline bool ptx_reads_carry(const struct ptx_inst *i)
{
    return i->op == PTX_OP_ADDC || i->op == PTX_OP_SUBC || i->op == PTX_OP_MADC;
}

/* The operand of a cp.async that says how many bytes are read (an integer), or that none is read (a predicate). NULL:
 * it has no such operand. The operand behind the size may also be a cache policy, which is not returned. */
static inline const struct ptx_opnd *ptx_cp_async_source(const struct ptx_inst *i)
{
    return i->op == PTX_OP_CP_ASYNC && i->nopnd > 3 + ptx_has(i, PTX_M_L2_HINT) ? &i->opnd[3] : NULL;
}
/* May it touch anything: no row, or a texture, sampler or surface, of which no operand says what memory it is? */
static inline bool ptx_is_opaque(const struct ptx_inst *i)
{
    return i->op == PTX_OP_OPAQUE || ptx_op_info((enum ptx_op)i->op)->flags & PTX_F_TEXTURE;
}
/* The instruction's modifier of class c, PTX_M_NONE if it has none: ptx_mod_of(i, PTX_MC_RND) is PTX_M_RN, … */
enum ptx_mod ptx_mod_of(const struct ptx_inst *i, enum ptx_mod_class c);
/* Set or clear a modifier; keeps canonical order. False if there is no room. */
bool ptx_set_mod(struct ptx_inst *i, enum ptx_mod m);
void ptx_clear_mod(struct ptx_inst *i, enum ptx_mod m);

/* ---- textures and surfaces, texture.c ---------------------------------------------------------------------------- */
struct ptx_texture { /* the operands of an instruction that ptx_verify takes; NULL: there is none */
    const struct ptx_opnd *name, *sampler, *coord; /* coord: behind the layer's number */
    const struct ptx_opnd *layer, *lod, *dx, *dy, *offset, *compare;
    unsigned dims; /* of a layer: 1 to 3; of a cube 3, the direction; 0: the instruction has no coordinates */
    bool cube, samples;
};
struct ptx_texture ptx_texture_of(const struct ptx_function *f, const struct ptx_inst *i);
/* The value of a property of a .samplerref; -1: it is not said. In the order of the manual: addr_mode_N wrap, mirror,
 * clamp_ogl, clamp_to_edge, clamp_to_border; filter_mode nearest, linear. */
int ptx_texture_property(const struct ptx_var *v, const char *name);
/* Has the function, or what it may call, an instruction with PTX_F_TEXTURE? 1 and the first one, 0 or DT_E_NOMEM. */
int ptx_texture_used(const struct ptx_function *f, const struct ptx_inst **ret);

/* ---- video instructions, video.c --------------------------------------------------------------------------------- */
/* The selectors of an instruction (`d.h10`, `a.b7654`) are one constant, its last operand: 16 bits for each of d, a and
 * b, those of d lowest. 0: the selector is not written. Else it has three bits for each digit, the digit that is
 * written last lowest; the number of digits from bit 12 on; and PTX_SEL_HALF for .h instead of .b. */
enum { PTX_SELS = 3, PTX_SEL_HALF = 0x8000 };
/* behind the selectors: a minus before a, b, c (vmad) */
enum { PTX_SEL_NEG_A = 48, PTX_SEL_NEG_B, PTX_SEL_NEG_C, PTX_SEL_END };
unsigned ptx_video_lanes(enum ptx_op op); /* 1, 2, 4; 0: no video instruction */
/* The lanes of an instruction that ptx_verify takes, with the defaults put in. Bit k of mask: d has lane k. from[0][k]
 * and from[1][k]: the two lanes that lane k of the operation works on, counted through the lanes of a and then those of
 * b. */
struct ptx_video {
    unsigned lanes;
    uint8_t mask, from[2][4];
};
struct ptx_video ptx_video_of(const struct ptx_inst *i);
/* Of an instruction with one lane, the bits of operand k (0: d) that it takes: from where on, and how many. */
struct ptx_part {
    uint8_t at, bits;
} ptx_video_part(const struct ptx_inst *i, unsigned k);

/* ---- variables, registers, labels, functions, modules ------------------------------------------------------------ */
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
    const char *properties; /* of a .texref, .samplerref or .surfref: "addr_mode_0=wrap,filter_mode=linear", or NULL */
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

/* ---- where instructions come from (origin.c) --------------------------------------------------------------------- */
#define PTX_ORIGIN_GLUE "dovetail" /* .file of what rewrites put between */
/* Mark every instruction of the module as one of the posted text that the module was parsed from. `text`: the first 12
 * hex digits of the posted text's SHA-256, as a number. */
void ptx_origin_text(struct ptx_module *m, uint64_t text);
/* Read the origins that an emitted text has in its .loc. False: the text has none, and nothing is changed. */
bool ptx_origin_read(struct ptx_module *m);

/* ---- parse, print, verify ---------------------------------------------------------------------------------------- */
/* The newest language that is understood, of CUDA 13.5; what is written in it and not known is refused by its name */
#define PTX_NEWEST_MAJOR 9
#define PTX_NEWEST_MINOR 5
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
/* Print one function as the signature hashes it: registers are renamed %r0 %r1 … and labels L0 L1 … by first
 * appearance; the function's own name and those of its params are left out; the module variables and device functions
 * that it uses (transitively) stand before it, renamed in the same way. */
int ptx_print_canonical(const struct ptx_function *entry, struct dt_str *out);

/* A module with everything copied (by print and parse), or only `entry` and what it uses when `entry` is not NULL. */
int ptx_clone(const struct ptx_module *m, const char *entry, struct ptx_module **ret, struct dt_err *e);

/* The text that `m` was parsed from, without the functions that none of the n entries needs. Every line keeps its
 * place. Returns 1 (and leaves *ret untouched) if there is nothing to leave out, or if one of the entries does not
 * exist. *ret ends with a NUL, and the caller frees it. */
int ptx_narrow(const struct ptx_module *m, const char *text, size_t len, const char *const *entry, size_t n, char **ret,
               size_t *ret_len);

/* Check types, operand shapes, register classes, that labels are defined, and that special registers stand only in mov
 * and cvt (§ of each). DT_E_PTX with the line. */
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

#endif
