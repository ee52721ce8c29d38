/* Inside the template tier: a unit of machine code under construction, and what its files use of each other.
 *
 * Registers of the CPU. rbx: the warp; rbp: its rows, r12: the launch's constants, both some bytes further on (the
 * code's `bias`, TEMPLATE_BIAS), so that more of them have a displacement of 8 bits; r13: sg_template_table; r14: the
 * worker; r15: shared memory. All other general registers, zmm28 to zmm31 and the masks are for the operation at hand,
 * but that zmm31 has PTX's NaN where `nan` says so. zmm0 to zmm27 hold pieces of rows.
 *
 * A piece is 64 bytes of the warp's rows or of the constants: 16 lanes of 32 bits or 8 of 64. Its key is its offset
 * divided by 64, and the number of its base, as in a ref. What a piece has in a register may be newer than what is in
 * memory (dirty), and may have NaNs of the CPU's own (raw) where memory has only PTX's; a piece that gives way for a
 * while, and comes again before any handler, is put by as it is (struct piece).
 */
#ifndef DT_SOFTGPU_JIT_TEMPLATE_PRIV_H
#define DT_SOFTGPU_JIT_TEMPLATE_PRIV_H

#include <stddef.h>

#include "base/vec.h"
#include "softgpu/jit/jit-priv.h"
#include "softgpu/jit/x86.h"

enum { TEMPLATE_BIAS = 8192, SLOTS = 28, T0 = 28, T1 = 29, T2 = 30, ZNAN = 31, NO_KEY = -1 };
enum raw_kind { NOT_RAW, RAW32, RAW64 };

struct slot {
    int32_t key; /* NO_KEY: free */
    bool dirty;
    uint8_t raw;     /* enum raw_kind */
    uint32_t pinned; /* by this operation: its number + 1 */
};

struct piece {     /* by base and offset / 64 */
    int8_t slot;   /* or -1 */
    bool dead;     /* next it is written whole: behind operation `seen`, what it holds is nobody's */
    uint8_t raw;   /* enum raw_kind of what is in memory, where no register has it: it comes again in the block */
    uint32_t seen; /* the last operation that touched it */
    uint32_t next; /* the next operation of the block that touches it, as far as is known; UINT32_MAX: none, or it goes
                      to memory before */
};

/* What operation i of the block at hand touches; its occurrences are in order. */
struct occurrence {
    int32_t key;
    bool whole, dead; /* written, and nothing of it read before; see struct piece */
    uint32_t next;
};

struct jump {
    size_t at;
    uint32_t bb; /* operation where the basic block begins */
};

/* Behind the unit's blocks: where an access was not simple. First lane by lane (template-plain.c), which takes what it
 * reads from memory and leaves vector registers alone; else the operation's handler, registers as they were. */
enum { SLOW_JUMPS = 20 };
struct slow {
    bool plain;
    size_t from[SLOW_JUMPS], to; /* jumps, and where to go on */
    unsigned jumps;
    uint32_t op;
    struct slot slot[SLOTS]; /* before; what is to be written is not dirty */
    bool nan;
};

/* What the stack has of the addresses in a row, found earlier in the block (template-access.c). */
enum { FACTS = 6, FACT_BYTES = 192 };
struct fact {
    int32_t key; /* of its first piece; NO_KEY: none */
    bool wide, near;
    uint8_t step;
};
enum {                    /* the stack frame, from rsp on; the first word is for calls */
       LIMIT_WORD_AT = 8, /* 32 bits: shared bytes - 4 */
       ROWS_AT =
           12, /* masked, 32 bits: the lanes that operations on rows write: all, where no living one is inactive */
       KEEP_AT = 16,
       SAVED_SP = 32,
       LIMIT_AT = 40, /* of shared memory: where 64, 128, 256 bytes begin no more */
       FACTS_AT = 64,
       SPARE_AT = FACTS_AT + FACTS * FACT_BYTES, /* two registers' places, for the operation at hand */
       FRAME = SPARE_AT + 128 + 64
};

struct sg_template_bb { /* of a basic block */
    sg_fn fn;           /* atomic: its code as a handler */
    void *inside;       /* the same, from another block */
    void *behind;       /* atomic: the same, when sg_switch has chosen the block */
    uint32_t visits;    /* atomic */
    bool refused;
};

struct sg_template {
    pthread_mutex_t lock; /* compiling */
    struct dt_vec(struct sg_object *) object;
    size_t bytes; /* of machine code */
    int32_t bias; /* the rows with a displacement of 8 bits are those from 0 to 2 * TEMPLATE_BIAS, or others where more
                     is touched there */
    bool denied;  /* this process gets no memory that is executable */
    uint32_t nbb;
    struct sg_template_bb bb[]; /* for whole warps; then as many for warps some of whose lanes are inactive */
};

struct template
{
    struct sg_x86 x;
    const struct sg_code *c;
    struct sg_template *t;
    struct sg_template_bb *bb; /* of the kind at hand */
    bool masked;               /* for any lanes: each operation is for those in the warp's mask */
    struct slot slot[SLOTS];
    struct piece *piece[3];
    uint32_t pieces[3];
    struct dt_vec(struct occurrence) occ;
    struct dt_vec(uint32_t) occ_of;  /* by operation - first: where its occurrences begin; and the end */
    struct dt_vec(int16_t) number;   /* by operation - first: SG_H_*; -1: no lane loop */
    struct dt_vec(uint32_t) block;   /* of the unit: their first operations */
    struct dt_vec(size_t) place;     /* by block: where its code begins */
    struct dt_vec(size_t) behind;    /* masked: by block, where it goes on when sg_switch has been asked */
    struct dt_vec(struct jump) jump; /* between blocks */
    struct dt_vec(struct slow) slow;
    struct fact fact[FACTS];
    unsigned facts;
    uint32_t *in;                           /* by basic block: number in the unit + 1 */
    uint32_t first, at;                     /* of the block; the operation at hand */
    size_t leave, leave_returned, prologue; /* places */
    unsigned guard;                         /* the operation is for the lanes in k1 (and k2 …): 1; 0: for all */
    bool nan, failed;
    unsigned put_by; /* pieces that are raw in memory */
    uint32_t ops;    /* compiled */
};

/* Constants that code reads. */
struct sg_template_table {
    uint32_t nan32, sign, magnitude, exponent, low16, low8, one_f, large_f; /* 2^126 */
    /* of pairs of halves; the upper half; 1; a little less than half of a bf16's last place; a NaN */
    uint32_t magnitude16, sign16, inf_f16, inf_bf16, high16, one, below_half, nan_bf16;
    uint32_t limit_f, limit_s;                                   /* 2^31; 2^31 - 1 */
    uint32_t far, three, low5, bits32;                           /* all bits but those of 60; 3; 31; 32 */
    uint32_t lane[32];                                           /* 0, 1, 2, … */
    uint64_t far64, high64;                                      /* the same of 64 bits; the upper half */
    uint64_t nan64, sign64, magnitude64, one_d, most_s, top_bit; /* 2^31 - 1; 2^31 */
    _Alignas(64) uint32_t ramp[3][16];                           /* 0, 4, 8, …; 8 and 16 bytes a lane */
    uint64_t wide_ramp[3][32];                                   /* the same for 32 lanes */
    /* which of two vectors' 32 words: by element, of elements of two; two elements of eight lanes, of those of four */
    uint32_t take2[2][16], take4[2][16];
};
extern const struct sg_template_table sg_template_table; /* template-table.c */
#define TABLE(member) SG_AT(R13, offsetof(struct sg_template_table, member))

/* ---- template-rows.c --------------------------------------------------------------------------------------------- */
int32_t sg_template_bias(const struct sg_code *c);
bool sg_template_scan(struct template *m, uint32_t from, uint32_t end); /* occurrences of a basic block's operations */
void sg_template_begin(struct template *m, uint32_t op);                /* an operation */
int32_t sg_template_key(uint32_t ref, unsigned piece);
struct sg_x86_mem sg_template_place(struct template *m,
                                    int32_t key); /* in memory; of the block's constants: rax is used */
struct sg_x86_mem sg_template_scalar(struct template *m, uint32_t ref); /* a predicate */
/* The piece in a register. bits: without raw NaNs. */
unsigned sg_template_get(struct template *m, uint32_t ref, unsigned piece, bool bits);
/* The register for a piece that is written whole; keep: its old value is in it. */
unsigned sg_template_out(struct template *m, uint32_t ref, unsigned piece, enum raw_kind raw, bool keep);
/* Does it lie in a register, or is it needed again soon? Else it is best read from memory where it is used. */
bool sg_template_near(struct template *m, uint32_t ref, unsigned piece);
bool sg_template_is_raw(struct template *m, uint32_t ref, unsigned piece);
struct operand {
    bool in_register;
    unsigned slot;
    struct sg_x86_mem at;
};
/* The piece where an instruction reads it: before sg_template_out for the result, which may be the same row. */
struct operand sg_template_operand(struct template *m, uint32_t ref, unsigned piece, bool bits);
/* The register of piece `from`, which nobody reads behind this operation, becomes that of piece `to`, which is to be
 * written; false: there is none such. */
bool sg_template_become(struct template *m, uint32_t from, uint32_t to, unsigned piece, enum raw_kind raw,
                        unsigned *ret_slot);
void sg_template_op(struct template *m, enum sg_x86_v v, unsigned d, unsigned a, const struct operand *b, int imm);
void sg_template_nan(struct template *m);
void sg_template_canon(struct template *m, unsigned d, unsigned s, enum raw_kind raw); /* quiet NaNs become PTX's */
void sg_template_write_row(struct template *m, uint32_t ref, bool wide); /* to memory, where it is dirty */
void sg_template_drop_row(struct template *m, uint32_t ref, bool wide);  /* no register has it; memory will */
void sg_template_trim(struct template *m);   /* what does not come again in the block goes to memory, and gives way */
void sg_template_flush(struct template *m);  /* dirty pieces to memory; they stay */
void sg_template_forget(struct template *m); /* no register has anything */
/* Where piece p of the result is made: a temporary where it is merged afterwards, as sg_template_done does. */
unsigned sg_template_to(struct template *m, uint32_t ref, unsigned p, enum raw_kind raw);
void sg_template_done(struct template *m, uint32_t ref, unsigned p, enum raw_kind raw, bool wide);
void sg_template_made(struct template *m, uint32_t ref, unsigned p, enum raw_kind raw, bool wide); /* it is in T0 */
void sg_template_flushed(struct template *m, unsigned d, unsigned s); /* subnormals of s to zero, in d */
unsigned sg_template_quiet(struct template *m, unsigned t, uint32_t ref, unsigned p); /* in t, or where it is */
/* Dirty pieces of an earlier time; key: only those of one piece, or NO_KEY. */
void sg_template_save(struct template *m, const struct slot *slot, int32_t key);

/* ---- template-ways.c --------------------------------------------------------------------------------------------- */
/* How an operation is done. Pieces of 32-bit rows: 2, of 64-bit rows: 4. */
enum form {
    NOTHING,
    BIN,     /* d = v a, b */
    BIN16,   /* the same, and the low 16 bits */
    UN,      /* d = v a */
    FLUSHED, /* d = v a, b with subnormals flushed */
    FMA,
    FMA_Z,
    ROUND, /* ADD or MUL, rounded as `imm` says */
    FMA_ROUND,
    TERN,
    CONSTANT, /* with a constant of sg_template_table at imm: d = v a, constant */
    ONE_BY,   /* d = 1 / a */
    MINMAX,   /* of floats */
    COMPARE,
    COMPARE_Z,
    HALF, /* template-halves.c; imm: enum sg_half */
    HALF_FMA,
    HALF_CHOOSE, /* the smaller or the greater */
    HALF_SIGN,
    STEPS, /* template-convert.c; imm: enum sg_step and rounding */
    QUOTIENT,
    SIGN_Z,
    MINMAX_Z,
    S32_F32, /* imm: of vrndscaleps, or 0: to zero */
    U32_F32,
    INTEGRAL64,
    F64_NARROW, /* imm: with subnormals flushed */
    F32_F64,
    Z32_F64,
    NARROW_F64, /* imm: of vrndscalepd, or 0 */
    F32_HALF,
    HALF_F32,
    PAIR_F32,
    F32_SMALL, /* imm: bits, SG_SIGN */
    SPECIAL    /* in special() */
};
enum sg_half { SG_PAIR = 1, SG_BF16 = 2, SG_NAN_WINS = 4 };
enum sg_step {
    SG_STEP_INTEGRAL = 4,
    SG_STEP_FLUSH = 8,
    SG_STEP_TWO = 16, /* sources */
    SG_STEP_THREE = 32,
    SG_STEP_ONE_BY = 64,
    SG_STEP_SATURATE = 128
};
enum { SG_SIGN = 32 };

struct sg_template_way {
    uint32_t v;
    uint8_t form, raw; /* enum raw_kind of the result, and of sources that may be raw */
    uint8_t wide;      /* pieces are of 64-bit rows */
    uint16_t imm;
};

extern const struct sg_template_way sg_template_ways[SG_H_COUNT];
enum { SG_FCMP_GE = 29, SG_FCMP_UNORD = 3 }; /* of vcmpps */

/* ---- template-lanes.c, template-access.c: false: none of theirs -------------------------------------------------- */
bool sg_template_lane(struct template *m, const struct sg_op *op, int h);
bool sg_template_knows(const struct sg_op *op, int h); /* one of the two will do it */
bool sg_template_access(struct template *m, const struct sg_op *op, int h);
void sg_template_plain(struct template *m, const struct slow *s); /* see struct slow; falls through where it cannot */

/* ---- template-halves.c, template-convert.c ----------------------------------------------------------------------- */
void sg_template_halves(struct template *m, const struct sg_op *op, const struct sg_template_way *y);
void sg_template_convert(struct template *m, const struct sg_op *op, const struct sg_template_way *y);
/* The f32 in register t to halves in the low words of its lanes; `more` is used. how: enum sg_half. */
void sg_template_half_of(struct template *m, unsigned t, unsigned more, unsigned how);

/* ---- template-plain.c -------------------------------------------------------------------------------------------- */
/* Accesses of any shape by the lanes that the guard lets through. False: nothing is done, it is the handler's. */
SG_GENERAL_ONLY bool sg_template_load_shared(struct sg_warp *w, const struct sg_op *op);
SG_GENERAL_ONLY bool sg_template_load_global(struct sg_warp *w, const struct sg_op *op);
SG_GENERAL_ONLY bool sg_template_store_shared(struct sg_warp *w, const struct sg_op *op);
SG_GENERAL_ONLY bool sg_template_store_global(struct sg_warp *w, const struct sg_op *op);

/* ---- template-unit.c --------------------------------------------------------------------------------------------- */
struct sg_template_figures {
    size_t bytes;
    uint64_t ops, blocks;
};
/* Compiles what is warm from basic block `op` on, for whole warps or any; with t->lock held. False: that block was not
 * compiled. */
bool sg_template_unit(const struct sg_code *c, struct sg_template *t, uint32_t op, uint32_t warm, bool masked,
                      struct sg_template_figures *ret);

/* ---- template.c: called by code ---------------------------------------------------------------------------------- */
/* BB for a warp some of whose lanes are inactive. */
const struct sg_op *sg_template_part(struct sg_warp *w, const struct sg_op *op);
/* At a BB operation where other fragments wait: where code goes on, for the block that is chosen; NULL: the interpreter
 * goes on at *ret. */
void *sg_template_switch(struct sg_warp *w, const struct sg_op *op, const struct sg_op **ret);

#endif
