/* A random kernel: a tree of statements. kernel-make.c makes it, kernel-print.c writes it as PTX, kernel-run.c executes
 * it. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"

#define BYTES 4096u  /* of every buffer */
#define WINDOW 2048u /* of a buffer, from a parameter's offset on */
#define THREADS 128
#define BLOCKS 12
#define VARS 6
#define SINK VARS /* the variable of values that may depend on the order of threads: only ever stored */
#define COUNTERS 8
#define PARAMS 5
#define TRACES 4
#define SHARED (THREADS * 16)
#define LOCALS 16      /* words of local memory of a thread */
#define BULK_BYTES 128 /* of shared memory for bulk copies */
#define BULK_UNITS 4   /* of 16 bytes, of the largest bulk copy */
#define TILE_BUFFER(to) ((to) ? OUT2 : IN)

enum { IN, TABLE, OUT0, OUT1, OUT2, BUFFERS };
enum leaf {
    CONST,
    TIDX,
    TIDY,
    CTAX,
    CTAY,
    CTAZ,
    LINEAR,
    BLOCK,
    VAR,
    COUNTER,
    SCALAR,
    LOWBITS,
    RANK /* in the cluster */
};
enum op {
    LEAF,
    ADD,
    SUB,
    MUL,
    AND,
    OR,
    XOR,
    SHL,
    SHR,
    MIN,
    MAX,
    REM,
    DIV,
    HIGH,
    EXTRACT /* c bits from bit b on */,
    COUNT,
    ZEROS,
    PICK,
    OPS
};

struct expr {
    enum op op;
    enum leaf leaf;
    uint32_t k;
    struct expr *a, *b, *c, *d; /* PICK: a < b ? c : d */
};
struct cond { /* comparisons joined by and, or */
    struct expr *a, *b;
    enum { LT, LE, EQ, NE, GE } cmp;
    enum { LAST, ALSO, ELSE } join;
    struct cond *next;
};
enum kind {
    SET,
    IF,
    FOR,
    LOAD,
    STORE,
    ATOMIC,
    RED,
    STAGE,
    SHUFFLE,
    EXIT,
    COPY,
    LOCAL,
    CALL,
    VOTE,
    BULK,
    TENSOR,
    MATRIX
};
struct stmt {
    enum kind kind;
    struct expr *e, *v, *w; /* index or value; value stored; index of what is loaded back */
    struct cond *c;
    uint32_t var, width, param, other, count, counter, flavour;
    bool select; /* of the two parameters the one that `c` picks */
    struct stmt *body, *otherwise, *next;
};
struct kernel {
    uint32_t grid[3], block[3], threads, blocks;
    uint32_t buffer[PARAMS], offset[PARAMS], scalar; /* parameters */
    bool pool;                                       /* warps are full: shuffles may be used */
    bool wild;  /* what comes from memory that is written may decide what is touched */
    bool tidy;  /* local memory has been written at the start */
    bool pairs; /* clusters of two blocks along x */
    struct stmt *first;
    struct dt_arena arena;
    uint64_t rng;
    unsigned depth, counters, size;
};

struct world { /* what may differ between two runs of a launch */
    uint8_t memory[BUFFERS][BYTES];
    uint64_t base[BUFFERS];
    uint32_t shared; /* what is in shared memory that nobody wrote: a number per word from this seed */
};
struct trace { /* one bit a byte */
    uint8_t read[BLOCKS][BUFFERS][BYTES / 8], written[BLOCKS][BUFFERS][BYTES / 8];
};

/* Two tensor maps of every launch: 4-byte elements, two dimensions, boxes of 4 × 4. */
static const struct tile {
    uint32_t offset, width, height, pitch, step;
} tiles[2] = {{0, 30, 12, 128, 2}, {64, 20, 15, 96, 1}};

void kernel_make(struct kernel *k, uint64_t seed);                              /* k->arena is its memory */
void kernel_print(struct dt_str *out, const struct kernel *k, unsigned number); /* entry k<number> */
/* what a module of kernels begins with */
void kernel_head(struct dt_str *out);
/* Variant 0 is the graph's own fill; the constant table is the same in all. align: what addresses are multiples of, at
 * least 16. */
void kernel_world(struct world *w, unsigned variant, const uint32_t align[BUFFERS]);
/* blocks in an order of this seed; 0: ascending */
void kernel_run(const struct kernel *k, struct world *w, struct trace *out, unsigned order);

#endif
