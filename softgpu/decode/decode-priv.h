/* Inside decode: the state of decoding one kernel, and what the files of decode use of each other. */
#ifndef DT_SOFTGPU_DECODE_PRIV_H
#define DT_SOFTGPU_DECODE_PRIV_H

#include "base/vec.h"
#include "softgpu/check/check.h"
#include "softgpu/decode/decode.h"
#include "softgpu/exec/exec.h"
#include "softgpu/jit/jit.h"

struct sg_fix { /* a branch whose target was not known yet; label UINT32_MAX: the end of the function instance */
    uint32_t op, ext, label; /* ext UINT32_MAX: op->imm, else index into ext, relative to op */
};

struct sg_place { /* where a shared, local or parameter variable lies */
    const struct ptx_var *var;
    uint64_t offset;
    bool frame; /* of a function that is not inlined: from the row `fp` on */
};

enum sg_use {
    SG_USE_READ = 1, /* some instruction reads it */
    SG_USE_ONCE = 2, /* one instruction writes it, and comes first, in the text and on every path */
};

struct sg_fn_regs { /* the registers of a function that occurs in the kernel */
    const struct ptx_function *f;
    uint32_t *ref;                   /* per register */
    uint8_t *use;                    /* per register: enum sg_use */
    bool active;                     /* being decoded */
    bool cycle;                      /* it can be active several times in a thread: not inlined (call.c) */
    uint32_t component, rows, entry; /* of the call graph; ext of what a call saves; first operation */
    uint64_t frame;
};

struct sg_dec {
    struct sg_kernel *k;
    const struct ptx_module *m;
    const sg_fn *h;
    struct sg_code *c;
    bool nomem;
    struct dt_vec(struct sg_op) op;
    struct dt_vec(struct sg_src) src;
    struct dt_vec(uint32_t) ext;
    struct dt_vec(struct sg_bb) bb;
    struct dt_vec(struct sg_mma) mma;
    struct dt_vec(uint8_t) konst;
    struct dt_vec(struct sg_param_copy) param;
    struct dt_vec(struct sg_place) place;
    struct dt_vec(struct sg_clear) clear;
    struct dt_vec(struct sg_fn_regs) fn;
    struct dt_vec(struct sg_fix) fix, callfix; /* of callfix, label is an index into fn */
    struct konst_slot {
        uint64_t bits;
        uint32_t ref;
        bool wide, used;
    } * kmap;
    uint32_t kmap_cap, kmap_n;
    uint64_t local, shared; /* bytes laid out so far */
    uint64_t dynamic_align; /* of the strictest `extern .shared` */
    uint32_t regs;          /* bytes of registers laid out so far */
    uint32_t temp, temp_next, ptemp, ptemp_next;
    uint32_t nsite;
    struct sg_commuting { /* what the kernel's global atomics have in common so far; bytes 0: none met */
        enum ptx_mod mod;
        unsigned bytes;
        bool sign;
    } commuting;
    bool need_bb;
    bool recursive;         /* some function is not inlined */
    struct sg_fn_regs *out; /* the one whose body is being decoded; NULL: the kernel's */
    uint32_t fp;            /* row: where a thread's frame lies in its local memory */
    size_t met;             /* where the warp met: d->bb.n in the basic block behind it, in which it stays whole */

    /* the instruction at hand */
    const struct ptx_function *f;
    const struct ptx_inst *i;
    struct sg_fn_regs *regs_of; /* invalid after a call */
    uint32_t *ref;
    bool checked; /* code for the checking modes */
    uint8_t *use;
    bool guarded; /* put its predicate on every operation */
    struct post { /* copies after it, into registers of another width */
        uint32_t d, a;
        uint16_t handler;
    } post[16];
    unsigned npost;
};

struct sg_address { /* [a + imm]; flags: SG_A64 */
    uint32_t a;
    int64_t imm;
    uint8_t flags;
};

#define SG_TEMPS 24  /* rows of 256 bytes */
#define SG_PTEMPS 16 /* temporary predicates */

/* ---- decode.c: a kernel; emitting operations --------------------------------------------------------------------- */
/* fails only with DT_E_NOMEM; other errors are in the code */
int sg_decode(struct sg_kernel *k, bool checked, struct sg_code **ret);
void sg_code_free(struct sg_code *c);
/* The first error stays, with the line of the instruction at hand; returns it. */
int sg_dec_error(struct sg_dec *d, int num, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* a fresh one, valid until the next call; a dummy when memory is out */
struct sg_op *sg_emit(struct sg_dec *d, sg_fn fn);
static inline struct sg_op *sg_emit_h(struct sg_dec *d, unsigned h) { return sg_emit(d, d->h[h]); }
uint32_t sg_ext(struct sg_dec *d, uint32_t v); /* append; returns its index */
/* A branch to a label of the function at hand; guard SG_NONE: always. */
void sg_decode_branch(struct sg_dec *d, uint32_t label, uint32_t guard, bool guard_not);
int sg_decode_function(struct sg_dec *d, const struct ptx_function *f); /* its body, here */
struct sg_fn_regs *sg_find_fn(struct sg_dec *d, const struct ptx_function *f);
/* may the indirect call i of f reach g? */
bool sg_may_reach(const struct ptx_function *f, const struct ptx_inst *i, const struct ptx_function *g);

/* ---- registers.c ------------------------------------------------------------------------------------------------- */
int sg_assign_registers(struct sg_dec *d, struct sg_fn_regs *fn);

/* ---- vars.c: constants and variables ----------------------------------------------------------------------------- */
uint32_t sg_konst(struct sg_dec *d, uint64_t bits, bool wide); /* the row of a constant */
int sg_fixed_konst(struct sg_dec *d);                          /* the rows that every kernel has */
uint64_t sg_dynamic_at(const struct sg_dec *d);                /* where dynamic shared memory begins */
int sg_place_vars(struct sg_dec *d);                           /* shared memory of all functions of the kernel */
/* Where `var` lies in its space (shared offset, local offset, parameter offset, or global address). */
int sg_var_address(struct sg_dec *d, const struct ptx_var *v, uint64_t *ret);
bool sg_is_kernel_param(const struct sg_dec *d, const struct ptx_var *v);

/* ---- operand.c: the row of an operand. A destination's value may be copied from it after the instruction --------- */
unsigned sg_width(enum ptx_type t);  /* of a register: 0 predicate, 4, 8, 16 */
uint32_t sg_temp(struct sg_dec *d);  /* a row of 32 64-bit lanes; two in a row for 128 bits */
uint32_t sg_ptemp(struct sg_dec *d); /* a predicate */
uint32_t sg_source(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t);
uint32_t sg_dest(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t);
uint32_t sg_pred(struct sg_dec *d, const struct ptx_opnd *o, bool *ret_not);
uint32_t sg_pred_dest(struct sg_dec *d, const struct ptx_opnd *o);
/* Row `a` never changes while a block runs and is all that register `o` will ever hold: then o is another name for it,
 * and true. */
bool sg_alias(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t, uint32_t a);

/* ---- inline.c, call.c: calls ------------------------------------------------------------------------------------- */
int sg_decode_call(struct sg_dec *d); /* the call at hand */
/* Move a register or constant of a call to (or, of a result, from) its place in local memory. */
int sg_move_param(struct sg_dec *d, const struct ptx_opnd *o, const struct ptx_var *p, uint64_t at, bool result);
int sg_find_cycles(struct sg_dec *d);   /* which functions are not inlined */
int sg_decode_bodies(struct sg_dec *d); /* of these, in front of the kernel */
int sg_call_body(struct sg_dec *d, struct sg_fn_regs *to);
void sg_fix_calls(struct sg_dec *d); /* the bodies' first operations are known now */
bool sg_in_frame(const struct sg_dec *d, const struct ptx_var *v);
/* vprintf, __assertfail, malloc, free, __dovetail_touch */
int sg_call_extern(struct sg_dec *d, const struct ptx_function *g);
bool sg_is_touch(const struct ptx_inst *i); /* a call of the last of these */

/* ---- inst.c, memory.c and the files of other families: d->i, which is neither label nor control nor call --------- */
int sg_decode_inst(struct sg_dec *d);
int sg_decode_video(struct sg_dec *d);
int sg_decode_matrix(struct sg_dec *d);
int sg_decode_mbarrier(struct sg_dec *d);
int sg_decode_bulk(struct sg_dec *d);
/* sync.c: emit an operation that only checking modes and followed blocks look at */
int sg_decode_check(struct sg_dec *d, enum sg_check_op sub, unsigned type, uint64_t imm);
int sg_decode_address(struct sg_dec *d, const struct ptx_opnd *o, struct sg_address *ret);
/* The space in which an access to `o` really happens. */
unsigned sg_real_space(struct sg_dec *d, const struct ptx_opnd *o, unsigned space);

/* ---- module.c ---------------------------------------------------------------------------------------------------- */
/* Where %envreg1 (high half) and %envreg2 (low half) say that a grid's barrier lies: 64 zeroed bytes a module. 0: no
 * memory. Under its lock. */
uint64_t sg_grid_workspace(struct sg_module *m);
/* What a function's address is: no memory (window 0x7F), so that only a call can use it. 0: it has no body. */
uint64_t sg_function_address(const struct ptx_module *m, const struct ptx_function *f);
/* The address of a module variable; 0: it is not in this module, or not in memory. */
uint64_t sg_module_var(const struct sg_module *m, const struct ptx_var *v);

#endif
