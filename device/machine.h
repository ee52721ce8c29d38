/* Machine code of NVIDIA GPUs as ptxas writes it: a reader of our own (sass.c, sass-ops.def), where values come from
 * (sass-flow.c), which line of PTX an instruction was made of (sass-lines.c), what it costs (sass-control.c), and
 * whether the float arithmetic of one kernel is that of others (arithmetic.c). No disassembler is needed. */
#ifndef DT_DEVICE_MACHINE_H
#define DT_DEVICE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* In code of dev_assemble_lines a line's number in .debug_line has so many bits; above them is its file's. */
#define DEV_LINE_BITS 20

/* One posted module by itself: its cubin (assembled with -lineinfo), the entry in it, and the name that `.file` gives
 * its text in the changed kernel. */
struct dev_part {
    const char *file;
    const void *cubin;
    size_t len;
    const char *entry;
};

/* Is the float arithmetic of `entry` in `cubin` that of the parts it was made of? Both have line tables (-lineinfo). In
 * the changed kernel `.loc` leads from each instruction to a line of a part's PTX. `ptx` (may be NULL) is the changed
 * kernel's text: a line of it whose value nobody needs may be missing from the machine code. 1: the same. 0: not the
 * same, or not known; `why` names the instruction, the posted line and what differs. */
int dev_arithmetic(const void *cubin, size_t len, const char *entry, const char *ptx, size_t nptx,
                   const struct dev_part *part, unsigned nparts, struct dt_str *why, struct dt_err *e);

/* ---- the reader -------------------------------------------------------------------------------------------------- */

enum sass_class {
    /* to who knows where */
    SASS_OTHER,
    SASS_FLOAT,
    SASS_MOVE,
    SASS_SELECT,
    SASS_IMAD,
    SASS_CS2R,
    SASS_ATOMIC,
    SASS_CALL,
    SASS_BRANCH,
    SASS_RETURN,
    SASS_EXIT,
    SASS_JUMP,
    SASS_NAMED /* known by name alone: code that has it is refused */
};
enum sass_kind { SASS_NONE, SASS_REG, SASS_UREG, SASS_IMM, SASS_CONST };
#define SASS_RZ 255
#define SASS_URZ 255 /* of Turing to Hopper 63 in the instruction */
#define SASS_PT 7

struct sass_op {
    uint16_t code; /* bits 0-8; 9-11 say where the operands are */
    uint8_t since; /* which generations: sass-ops.def */
    const char *name;
    uint8_t cls;
    const char *dst, *src, *mods;
};

struct sass_opnd {
    uint8_t kind, width; /* in registers of 32 bits */
    bool neg, abs;
    uint8_t swizzle; /* of halves: 0 H1_H0, 1 F32, 2 H0_H0, 3 H1_H1; of pairs: 0 both, 1 turned round, 2 one twice */
    bool upper_neg;  /* of pairs: the upper one's sign is turned once more */
    uint8_t bank;
    uint16_t reg;
    uint32_t value, upper; /* IMM: bits, of 64 the upper 32 apart; CONST: offset */
};

struct sass_inst {
    uint64_t lo, hi;
    uint8_t sm;
    const struct sass_op *op; /* NULL: not in the table */
    uint8_t guard;            /* predicate, SASS_PT: always */
    bool guard_not;
    uint8_t dst_kind, dst, dst_width; /* REG or UREG; NONE */
    uint8_t more, more_width;         /* registers of a second place */
    uint8_t nsrc;
    uint8_t pwrite[2]; /* predicates written, SASS_PT: none */
    struct sass_opnd src[4];
    uint64_t mods[2]; /* what is no operand, sign, guard or predicate: how it computes; bits in place */
};

/* Turing to Hopper ("sm_75" to "sm_90a") and Blackwell ("sm_100", "sm_103", "sm_120", "sm_121" and their kinds). */
bool sass_knows(unsigned sm);
/* False: the table does not have it for that architecture; ret->op is NULL then. */
bool sass_decode(const uint64_t word[2], unsigned sm, struct sass_inst *ret);
/* As a disassembler has it, for people and for tests: of a float instruction everything but reuse; immediates as
 * bits. */
void sass_print(const struct sass_inst *i, struct dt_str *out);
/* Where a branch or call at `at` (bytes from the section's start) goes. */
uint64_t sass_target(const struct sass_inst *i, uint64_t at, unsigned sm);
bool sass_is(const struct sass_inst *i, const char *name);
/* Two operations of 32 bits in one instruction: FADD2, FMUL2, FFMA2. */
bool sass_pairs(const struct sass_inst *i);

/* ---- what the scheduler is told, and which part of an SM does it (sass-control.c, sass-pipes.def) ---------------- */
enum sass_pipe {
#define PIPE(id, ...) SASS_PIPE_##id,
#define U(...)
#define V(...)
#include "device/sass-pipes.def"
#undef PIPE
#undef U
#undef V
    SASS_PIPES
};
enum sass_way { /* how a result is waited for: stalls; else a barrier, and what its time depends on */
                SASS_WAY_FIXED,
                SASS_WAY_XU,
                SASS_WAY_FP64,
                SASS_WAY_SHARED,
                SASS_WAY_GLOBAL,
                SASS_WAY_LOCAL,
                SASS_WAY_CONSTANT,
                SASS_WAY_SPECIAL, /* special registers */
                SASS_WAY_SHUFFLE,
                SASS_WAY_FENCE,
                SASS_WAYS
};
struct sass_control {
    uint8_t stall; /* clocks; some that end a block say 0 */
    bool yield;
    uint8_t write, read; /* barriers, 7: none */
    uint8_t wait;        /* a bit a barrier */
};
struct sass_unit {
    uint8_t pipe, way;
};
struct sass_control sass_control(const struct sass_inst *i);
struct sass_unit sass_unit(const struct sass_inst *i, unsigned sm);
const char *sass_pipe_name(enum sass_pipe p); /* "alu" */
/* Lanes that an SM works off a clock. */
double sass_pipe_lanes(enum sass_pipe p, unsigned sm);
/* Clocks until such a result is there, for an SM that has nothing else to do: estimates. */
double sass_way_clocks(enum sass_way way, unsigned sm);

/* ---- what a launch costs by its machine code (sass-count.c, sass-blocks.c) --------------------------------------- */
struct ptx_module;
struct dev_line {          /* a line of PTX; where it has several instructions: of the one that ran most often */
    uint64_t lanes, warps; /* how often threads executed it; how often a warp issued it for some of them */
    uint16_t bytes;        /* of dev_machine_lines: it is a load or store of so many bytes a thread, or another
                            * instruction that stays one in machine code (1); 0: neither */
    bool guarded, call;
    bool single; /* other than these, and one instruction of the machine as a rule: float arithmetic */
};
/* What the module's text says of its lines: all but the counts. line[0 … n - 1], by line number, from 1. */
void dev_machine_lines(const struct ptx_module *m, struct dev_line *line, uint32_t n);
/* Where no assembler is: an estimate of what one execution of the instruction issues, by pipe (weights.c). False: it is
 * not in the table, and counts as one. Architectures that the table lacks have the nearest one's. */
struct ptx_inst;
bool dev_weight(const struct ptx_inst *i, unsigned sm, double pipe[SASS_PIPES]);
struct dev_machine_kernel {
    const void *cubin; /* of dev_assemble_lines, from the text that has these lines */
    size_t len;
    const char *entry;
    const struct dev_line *line; /* by line number */
    uint32_t nline;
    uint64_t lanes, warps; /* that the launch has */
    /* clocks[SASS_WAYS] of results that are waited for, with SASS_WAY_GLOBAL as L1, L2 and DRAM are mixed; 0 or NULL:
     * as sass_way_clocks() has it */
    const double *way;
};
struct dev_machine_cost {
    unsigned sm;
    double slots, pipe[SASS_PIPES];  /* instructions that warps issue, of the whole launch */
    double clocks;                   /* that one warp takes by itself, the mean of all */
    double local;                    /* of the slots: LDL and STL, which spills are, and arrays in local memory */
    double unknown;                  /* of the slots: those that no line of PTX stands for */
    uint32_t registers, local_bytes; /* a thread's, as the cubin says */
    bool by_lines;                   /* some function was too large to solve: its blocks have what their lines have */
};
/* 0, or an error; 1 and `why`: there is something that the reader of machine code does not know. Counts may be
 * anything. */
int dev_machine_count(const struct dev_machine_kernel *k, struct dev_machine_cost *ret, struct dt_str *why,
                      struct dt_err *e);

/* Lines of a text, and one more: how many counts dev_machine_launch takes. */
uint32_t dev_machine_nline(const char *ptx, size_t len);
struct dovetail_line;
/* dev_machine_count of a launch of `lanes` threads in `warps`, whose executor counted lines of `ptx`. */
int dev_machine_launch(const char *ptx, size_t len, const char *arch, const char *entry,
                       const struct dovetail_line *count, uint32_t n, uint64_t lanes, uint64_t warps,
                       struct dev_machine_cost *ret, struct dt_str *why, struct dt_err *e);

static inline bool sass_always(const struct sass_inst *i) { return i->guard == SASS_PT && !i->guard_not; }

#endif
