/* Machine code of NVIDIA GPUs as ptxas writes it: a reader of our own (sass.c, sass-ops.def), where values come from
 * (sass-flow.c), which line of PTX an instruction was made of (sass-lines.c), and whether the float arithmetic of one
 * kernel is that of others (arithmetic.c). No disassembler is needed. */
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
    SASS_JUMP
};
enum sass_kind { SASS_NONE, SASS_REG, SASS_UREG, SASS_IMM, SASS_CONST };
#define SASS_RZ 255
#define SASS_URZ 63
#define SASS_PT 7

struct sass_op {
    uint16_t code; /* bits 0-8; 9-11 say where the operands are */
    const char *name;
    uint8_t cls;
    const char *dst, *src, *mods;
};

struct sass_opnd {
    uint8_t kind, width; /* in registers of 32 bits */
    bool neg, abs;
    uint8_t swizzle; /* of halves: 0 H1_H0, 1 F32, 2 H0_H0, 3 H1_H1 */
    uint8_t bank;
    uint16_t reg;
    uint32_t value; /* IMM: bits; CONST: offset */
};

struct sass_inst {
    uint64_t lo, hi;
    const struct sass_op *op; /* NULL: not in the table */
    uint8_t guard;            /* predicate, SASS_PT: always */
    bool guard_not;
    uint8_t dst_kind, dst, dst_width; /* REG or UREG; NONE */
    uint8_t nsrc;
    uint8_t pwrite[2]; /* predicates written, SASS_PT: none */
    struct sass_opnd src[4];
    uint64_t mods[2]; /* what is no operand, sign, guard or predicate: how it computes; bits in place */
};

/* "sm_75" "sm_80" "sm_86" "sm_89" "sm_90" "sm_90a" are known. */
bool sass_knows(unsigned sm);
/* False: the opcode is not in the table; ret->op is NULL then. */
bool sass_decode(const uint64_t word[2], struct sass_inst *ret);
/* As a disassembler has it, for people and for tests: of a float instruction everything but reuse; immediates as
 * bits. */
void sass_print(const struct sass_inst *i, struct dt_str *out);
/* Where a branch or call at `at` (bytes from the section's start) goes. */
uint64_t sass_target(const struct sass_inst *i, uint64_t at, unsigned sm);
bool sass_is(const struct sass_inst *i, const char *name);
static inline bool sass_always(const struct sass_inst *i) { return i->guard == SASS_PT && !i->guard_not; }

#endif
