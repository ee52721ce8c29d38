/* Inside jit: the text of a region under construction, and what its files use of each other.
 *
 * A value is the number of an SSA name (%tN) of LLVM's language. A row of 32-bit lanes is <32 x i32>, of 64-bit lanes
 * <32 x i64>, a predicate an i32 with a bit per lane. While a region runs, each row that it uses is a variable
 * (alloca) that LLVM keeps where it likes; `flush` writes those that changed back to the warp's registers, which is
 * where handlers, and whatever runs next, look for them.
 */
#ifndef DT_SOFTGPU_JIT_PRIV_H
#define DT_SOFTGPU_JIT_PRIV_H

#include "base/str.h"
#include "base/vec.h"
#include "softgpu/exec/exec.h"
#include "softgpu/jit/jit.h"

typedef unsigned val; /* 0: none */

enum vt { I32, I64, F32, F64, B1 }; /* 32 of each */
enum raw { CLEAN, RAW, BY_FLAG };
enum var_kind { ROW32, ROW64, PRED, KINDS };

struct var {
    uint32_t at; /* in the warp's registers */
    uint8_t kind;
    /* somewhere in the region: written; with NaNs of the CPU's own */
    bool written, ever_raw;
    /* at the place at hand */
    uint8_t raw;      /* enum raw: it may have such NaNs */
    bool dirty;       /* it may differ from the row in memory */
    unsigned version; /* counts writes */
};

/* What is known of half of the warp's addresses in shared memory: of a row as it is now, for `step` bytes a lane. */
struct shape {
    uint32_t at;
    unsigned version, half, step;
    bool store;
    val first;      /* i32: of the first lane */
    val same, fits; /* i1: all lanes there; of a shape that can be done here, and aligned if op->imm is */
    val near;       /* <16 x i32>: word of each lane from the first one's on, where one load has all */
};
enum { SHAPES = 16 };

struct emit {
    struct dt_str s, head; /* the function's text; what of it is computed at its entry */
    struct dt_vec(struct constant {
        uint64_t bits;
        enum vt t;
        val v;
    }) constant;
    const struct sg_code *code;
    uint32_t entry;                 /* operation where the region begins */
    bool masked;                    /* some lanes may be inactive; else all 32 are active */
    bool back;                      /* something in the region goes back to its entry */
    bool scan;                      /* no text: only find out which rows are used and written */
    unsigned n;                     /* names so far */
    unsigned labels;                /* and labels */
    uint8_t *in;                    /* by basic block: it is in the region */
    struct dt_vec(uint32_t) blocks; /* their first operations, in order */
    struct dt_vec(struct var) var;
    uint32_t *find[KINDS];      /* by register offset / 4: number of the variable + 1 */
    uint8_t *filled;            /* by constant's offset / 4: filled in at launch */
    val only;                   /* B1: lanes that the operation at hand may write; 0: all */
    val only_bits;              /* the same as i32 */
    struct shape shape[SHAPES]; /* the last ones */
    unsigned shapes;
};

/* ---- emit.c: pieces of text -------------------------------------------------------------------------------------- */
void sg_jit_line(struct emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
val sg_jit_let(struct emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* %tN = … */
extern const char *const sg_jit_type[];
val sg_jit_bin(struct emit *e, const char *what, enum vt t, val a, val b);
val sg_jit_cmp(struct emit *e, const char *what, enum vt t, val a, val b);
val sg_jit_select(struct emit *e, val cond, enum vt t, val a, val b);
val sg_jit_cast(struct emit *e, const char *what, enum vt from, val a, enum vt to);
val sg_jit_call1(struct emit *e, const char *f, enum vt t, val a);
val sg_jit_splat(struct emit *e, enum vt t, uint64_t bits);          /* of a float: its bits */
val sg_jit_spread(struct emit *e, enum vt t, val scalar);            /* a scalar to all lanes */
val sg_jit_lanes(struct emit *e, val bits);                          /* i32 to B1 */
val sg_jit_canon(struct emit *e, enum vt t, val bits, val raw_flag); /* I32 or I64: NaNs become the canonical one */

/* ---- rows.c: registers ------------------------------------------------------------------------------------------- */
bool sg_jit_known(const struct emit *e, uint32_t ref, bool wide,
                  uint64_t *ret);                                /* a constant that is the same in every launch */
val sg_jit_row(struct emit *e, uint32_t ref, enum vt t);         /* I32 I64: canonical bits; F32 F64: NaNs may be any */
val sg_jit_row_any(struct emit *e, uint32_t ref, enum vt t);     /* I32 I64: NaNs may be any, too */
val sg_jit_pred(struct emit *e, uint32_t ref);                   /* i32 */
void sg_jit_put(struct emit *e, uint32_t ref, enum vt t, val v); /* for the lanes of e->only; F32 F64: NaNs are any */
void sg_jit_put_pred(struct emit *e, uint32_t ref, val bits);
void sg_jit_copy(struct emit *e, uint32_t to, uint32_t from, bool wide); /* a move */
val sg_jit_address_of(struct emit *e, uint32_t ref);                     /* where the row is in memory: ptr */

enum { MOST_ROWS = 40 };
struct rows { /* what a handler reads and writes; all: it is not known */
    uint32_t read[MOST_ROWS], write[MOST_ROWS];
    uint8_t read_kind[MOST_ROWS], write_kind[MOST_ROWS];
    unsigned reads, writes;
    bool all;
};
void sg_jit_rows(const struct emit *e, const struct sg_op *op, struct rows *ret);
void sg_jit_flush(struct emit *e, const struct rows *r); /* what a handler reads, or everything */
void sg_jit_save_all(struct emit *e);                    /* everything that the region writes anywhere */
struct var *sg_jit_variable(struct emit *e, uint32_t ref, enum var_kind k);
void sg_jit_settle(struct emit *e); /* before a jump inside the region */
void sg_jit_reload(struct emit *e, const struct rows *r);
/* Call the operation's handler; leaves the region if it does not come back to the next one. */
void sg_jit_handler(struct emit *e, const struct sg_op *op);

/* ---- lanes.c, access.c: operations; false: none of theirs, sg_jit_handler() does it
 * ------------------------------- */
/* What follows is done where %t<ok> holds; sg_jit_fast_end: otherwise by the handler of op. Then both ways go on. */
struct fork {
    unsigned slow, join;
};
struct fork sg_jit_fast(struct emit *e, val ok);
void sg_jit_fast_end(struct emit *e, const struct fork *f, const struct sg_op *op);
enum lane_type { L_none, L_u16, L_s16, L_u32, L_s32, L_u64, L_s64, L_f32, L_z32, L_f64 };
struct lane_row {
    uint8_t sources, d, a, b, c; /* sources: 0: written out in lanes.inc; 4: a comparison */
};
extern const struct lane_row sg_jit_lane_rows_of[SG_H_COUNT]; /* lanes-rows.c */
int sg_jit_lane_number(sg_fn fn);                             /* SG_H_*, or -1 */
void sg_jit_lane_rows(int h, const struct sg_op *op, const struct sg_code *c, struct rows *ret);
bool sg_jit_lane(struct emit *e, const struct sg_op *op, int h);
bool sg_jit_access(struct emit *e, const struct sg_op *op, int h);
val sg_jit_half(struct emit *e, const char *element, val v, unsigned h); /* 16 lanes of 32 */
val sg_jit_whole(struct emit *e, const char *element, val a, val b);     /* of two halves */

/* ---- tier.c ------------------------------------------------------------------------------------------------------ */
const struct sg_op *sg_jit_bb(struct sg_warp *w, const struct sg_op *op); /* BB of code that is watched */

/* ---- template.c: the tier below ---------------------------------------------------------------------------------- */
const struct sg_op *sg_template_visit(struct sg_warp *w, const struct sg_op *op); /* BB of code that is watched */
void sg_template_forget_code(struct sg_code *c);

/* ---- region.c ---------------------------------------------------------------------------------------------------- */
/* The text of the region that begins with operation `op`, with the function sg_region; false: memory is out. */
bool sg_jit_region(const struct sg_code *c, uint32_t op, bool masked, struct dt_str *ret);

#endif
