/* Inside device/: one kernel's machine code with its flow, its lines and what its float instructions are. */
#ifndef DT_DEVICE_MACHINE_PRIV_H
#define DT_DEVICE_MACHINE_PRIV_H

#include <string.h>

#include "device/machine.h"

#define CODE_NONE UINT32_MAX
#define CODE_TEXTS 64 /* most sections of code of one kernel */

struct code_block { /* instructions first … last */
    uint32_t first, last, func;
    uint32_t pred, npred; /* code.pred[pred …] */
};
struct code_func { /* 0 the entry, others what CALL leads to */
    uint32_t first;
    uint32_t ret, nret; /* code.ret[ret …]: blocks that end in RET */
    uint32_t args[8];   /* registers in which a value comes from the caller to a float instruction, one bit each */
    uint64_t shape;     /* what it computes, without registers and lines */
    bool posted;        /* a function of the PTX, with lines of its own; not what the assembler put there */
};

struct code {
    struct sass_inst *inst;
    uint32_t n, nentry; /* the entry's own come first, then those of sections that are called */
    struct code_text {  /* which these are; 0 the entry's */
        unsigned section;
        uint32_t first, n;
    } text[CODE_TEXTS];
    unsigned ntext;
    unsigned sm;
    const uint8_t *bank2; /* constants that the assembler put there */
    size_t nbank2;
    uint32_t *block_of; /* by instruction */
    struct code_block *block;
    uint32_t nblock;
    uint32_t *pred;
    struct code_func *func;
    uint32_t nfunc;
    uint32_t *ret, nrets;
    uint32_t *to; /* by instruction: where a branch or CALL leads, CODE_NONE */
    struct code_jump {
        uint32_t at, first, n; /* a branch by a table: way[first …], instructions */
    } * jump;
    uint32_t njump, *way, nway;
    uint32_t *call; /* by instruction: the function that a CALL leads to, CODE_NONE */
    struct code_ctx {
        uint32_t call, parent; /* through which CALL a search went in, and what was before */
        uint32_t depth;
    } * ctx;
    uint32_t nctx, ctx_cap;
    uint32_t *file, *line; /* by instruction; line 0: none */
    struct {
        char name[80];
    } * files; /* of the line table, from 1 */
    uint32_t nfiles;
    uint64_t steps; /* of searches; bounded */
    struct seen {
        uint64_t *key;
        uint32_t *stamp, now;
        uint32_t cap, used;
    } seen;
};

/* Where a value comes from. */
enum origin_kind { FROM_FLOAT, FROM_CONST, FROM_ELSEWHERE, FROM_CALLER };
struct origin {
    uint8_t kind, half; /* half: 1, the upper register of a pair */
    bool neg, abs;      /* a sign on the way, of a select */
    uint32_t value;     /* FROM_FLOAT: instruction; FROM_CONST: bits */
};
struct origins {
    struct origin *p;
    uint32_t n, cap;
    bool failed;
};

/* Read .text.ENTRY of a cubin. 0, or an error; 1 and `why`: there is something that this reader does not know. */
int code_read(struct code *c, const void *cubin, size_t len, const char *entry, struct dt_str *why, struct dt_err *e);
void code_done(struct code *c);
/* The origins of register reg, an operand of the instruction `at`, searched through moves and selects. 0; 1: too much
 * to say; DT_E_NOMEM. */
int code_origins(struct code *c, uint32_t at, bool uniform, unsigned reg, unsigned half, struct origins *out);
/* The lines of every instruction of the entry, and (functions) of the functions that it calls, from .nv_debug_line_sass
 * (posted: of the PTX itself) or .debug_line. 0, DT_E_NOMEM, 1: there is none. */
struct elf_file;
int code_lines(struct code *c, const struct elf_file *f, bool posted, bool functions);

/* How many threads ran each block (ret[nblock], 0 before): `lanes` began the kernel. 0; 1: some function's are by lines
 * alone; 2: too many functions; DT_E_NOMEM. */
int code_blocks(const struct code *c, const struct dev_line *line, uint32_t nline, double lanes, double *ret);

/* ---- float instructions (shapes.c) ------------------------------------------------------------------------------- */
struct use { /* one origin of one operand */
    uint32_t inst;
    uint8_t slot, kind, half, sign; /* sign: 1 negated, 2 absolute value */
    uint8_t lane;                   /* of an instruction that is two operations: which of them */
    uint32_t value;
    uint64_t key, loose; /* loose: as if it came from elsewhere */
    uint64_t folded;     /* of a converted integer, or a constant that may be one: as if it were any; else 0 */
};
struct side { /* a kernel's float instructions and what feeds them (shapes.c), and sets of it (arithmetic.c) */
    struct code c;
    const struct dev_part *part;
    unsigned group; /* the first part of the same file: their lines are one text's */
    struct use *use;
    uint32_t nuse, cap;
    uint32_t *first; /* by instruction: its uses are use[first[i]] … use[first[i + 1]] */
    uint64_t *shape; /* by instruction, 0: not float */
    /* sorted: (line, shape), (line, shape, use), (shape, use) */
    uint64_t *at, *used, *any;
    uint32_t nat, nused, nany;
    uint64_t *line_of; /* by instruction, changed kernel: part and line */
};

static inline uint64_t machine_mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9E3779B97F4A7C15) + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94D049BB133111EB);
    return h ^ (h >> 31);
}

/* Is it that instruction, of a lane or (U…) of the whole warp? */
static inline bool machine_is(const struct sass_inst *i, const char *name)
{
    return i->op && (!strcmp(i->op->name, name) || (i->op->name[0] == 'U' && !strcmp(i->op->name + 1, name)));
}

/* Shapes, uses, lines. 0, an error, or 1 and `why`: something is not known. Pair with side_done in every case. */
int side_read(struct side *s, const struct dev_part *p, bool posted, struct dt_str *why, struct dt_err *e);
void side_done(struct side *s);
/* Is instruction k the entry's, or a function's of its PTX? */
bool machine_own(const struct code *c, uint32_t k);
unsigned machine_idle(const struct sass_inst *i);
int machine_order(const void *a, const void *b); /* of uint64_t, for qsort */

/* ---- ELF (elf.c) ------------------------------------------------------------------------------------------------- */
struct elf_file {
    const uint8_t *p;
    size_t n;
    uint64_t shoff;
    unsigned nsection;
    const char *names;
    size_t nnames;
};
struct elf_section {
    const char *name;
    const uint8_t *p; /* NULL: no bytes in the file */
    uint64_t size;
    uint32_t type, link, info;
};
bool elf_open(struct elf_file *f, const void *p, size_t n);
bool elf_section(const struct elf_file *f, unsigned i, struct elf_section *ret);
/* The number of the section of that name, 0: none. */
unsigned elf_find(const struct elf_file *f, const char *name, struct elf_section *ret);
/* The section and the offset in it that the relocation of `section` at `at` leads to. */
bool elf_target(const struct elf_file *f, unsigned section, uint64_t at, unsigned *ret_section, uint64_t *ret_offset);

#endif
