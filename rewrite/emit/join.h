/* A kernel on its way: its frame (join.c), and the instructions of one body at a time (copy.c). For emit/ itself, and
 * for inline/, which has a frame of its own. */
#ifndef DT_REWRITE_JOIN_H
#define DT_REWRITE_JOIN_H

#include "rewrite/emit/emit.h"

struct rw_var_pair {
    const struct ptx_var *from;
    struct ptx_var *to;
    uint32_t offset; /* added to every use: places of static arrays in the one array */
    /* of which body: both may be the same entry, with the same variables; RW_ANY_SIDE: module variables */
    int side;
};

#define RW_ANY_SIDE (-1)

struct rw_join {
    struct rw_cand *c;
    struct ptx_module *m;
    struct ptx_function *f;
    struct dt_vec(struct rw_var_pair) vars;
    struct dt_vec(struct rw_func_pair {
        const struct ptx_function *from;
        struct ptx_function *to;
        bool open; /* products as they are: both forms may be there, for bodies that want either */
    }) funcs;
    bool far[RW_BODIES];   /* the body's tables are in global memory (tables.c) */
    struct ptx_var *smem;  /* the block's shared memory, NULL if none */
    struct ptx_var *table; /* constant data, NULL if none */
    struct ptx_var *zero;  /* inlining: the zero word of its joint */
    uint32_t t, k;         /* registers: linear thread number, component */
    /* what lists and tables go by: k, or with clusters k * cluster + rank; the block's rank, PTX_NO_REG without */
    uint32_t item, rank;
    struct dt_err *e;
    unsigned nunique;
};

/* What becomes of a body's instructions where it is inlined (inline/guest.c), asked by copy.c. `site`: rw_phase.site;
 * the instruction is number rw_phase.at of the body. */
struct rw_guest {
    /* Does the element pass through this posted instruction? */
    bool (*is_joint)(void *site, const struct ptx_inst *posted);
    /* That instruction, mapped: a move to or from the value that is passed on. */
    int (*joint)(void *site, const struct ptx_inst *mapped);
    /* The slot's constants, put into a mapped instruction. */
    int (*constants)(void *site, struct ptx_inst *mapped);
    /* Is it a branch to the next round of the loop that the elements are in? */
    bool (*is_again)(void *site);
    /* What stands behind a label: at the loop's header, its registers as they are in the round. */
    int (*label)(void *site);
};

struct rw_phase { /* one body on its way into the fused kernel */
    int side;     /* which body: 0 producer, 1 consumer …; RW_ANY_SIDE: a device function */
    bool open;    /* products stay without .rn (rw_facts.open) */
    uint32_t *reg, *label;
    uint32_t tid[3], ctaid[3]; /* registers, PTX_NO_REG where the body does not read them */
    /* the same, of a body in clusters: its block's place in the cluster, the cluster's in the grid */
    uint32_t in_cluster[3], cluster_of[3];
    uint32_t *base;           /* per redirection: register with what is subtracted from an address */
    uint32_t *origin;         /* and, with a pitch, register with the shared address of the region */
    uint32_t end;             /* label */
    struct rw_subblock {      /* of a pack (pack.c): what is its own; PTX_NO_REG: there is nothing */
        uint32_t shared;      /* register with the address of its shared memory */
        uint32_t barrier[16]; /* by posted number, a register with its own */
    } sub;
    unsigned barrier_count; /* threads that bar.sync waits for; 0: all of the fused block */
    struct {
        uint32_t from, to; /* address register -> register with its shared address, while both hold */
    } known[32];
    unsigned nknown;
    /* surplus lanes (surplus.c): per instruction, whether only the body's own threads make it, and the predicate that a
     * thread is one; NULL: there are none */
    const uint8_t *own_only;
    uint32_t own;
    /* per instruction: components that stay (inline/slice.c), or without a guest whether it stays (emit/faint.c); NULL:
     * all */
    const uint8_t *mask;
    /* per instruction: the threads that make it (part.h), and for each such set the predicate that a thread is in it;
     * NULL: all threads make all */
    const struct rw_threads *only;
    const uint32_t *run; /* part.h; in one, where it ends, and its label */
    uint32_t run_end, run_label;
    struct rw_among {
        struct rw_threads set;
        uint32_t pred;
    } * among;
    uint32_t namong;
    uint32_t at; /* number of the instruction at hand */
    /* inlined: what becomes of some of its instructions, and whose they are; NULL: nothing */
    const struct rw_guest *guest;
    void *site;
};

/* Text with names of registers in it, appended to the fused function. */
int rw_emit(struct rw_join *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *rw_rname(const struct rw_join *j, uint32_t reg);
int rw_emit_label(struct rw_join *j, uint32_t label);
int rw_emit_bra(struct rw_join *j, uint32_t label, uint32_t pred, bool neg);
int rw_emit_phase_barrier(struct rw_join *j, unsigned id); /* all threads of the block */
/* part-text.c: a predicate for each set of threads that alone make some instruction, and what is zeroed; t has the
 * thread's number. */
int rw_emit_among(struct rw_join *j, struct rw_phase *p, const struct ptx_function *f, uint32_t t);
int rw_emit_zeros(struct rw_join *j, int side, uint32_t t);
/* copy.c: the body's instructions, rewritten. */
int rw_copy_body(struct rw_join *j, struct rw_phase *p);
int rw_copy_function(struct rw_join *j, struct rw_phase *p, const struct ptx_function *f);
/* cluster.c: register s, an offset in the component's footprint of the intermediate, becomes the address of that byte
 * in the shared memory of the rank that has it. origin: of the block's own region. pred: the access's guard. */
int rw_cluster_address(struct rw_join *j, const struct rw_redirect *q, uint32_t s, uint32_t origin, uint32_t pred,
                       bool neg);
/* pack.c: registers of the subblock that `group` is the number of; the posted barrier `number` as a barrier of it; a
 * use of shared memory by name in its own memory. */
bool rw_subblock_is_warp(const struct rw_body *b); /* its barriers are those of a warp */
int rw_subblock_begin(struct rw_join *j, struct rw_phase *p, uint32_t group);
int rw_subblock_operands(struct rw_join *j, const struct rw_phase *p, struct ptx_inst *i);
bool rw_same_arg(const struct dt_arg *x, const struct dt_arg *y);
/* A parameter like `like` for the entry: named by its number, a zero word (inline/cross.c) as such, so that it is
 * known again. NULL: memory. */
struct ptx_var *rw_new_param(struct rw_join *j, const struct ptx_var *like);
/* and a number: a parameter that is 0 whenever the kernel runs, and that no rewrite merges with another or knows the
 * value of */
#define RW_ZERO_WORD "dt_zero_"
bool rw_is_zero_word(const struct ptx_var *v);
bool rw_reads_sreg(const struct ptx_function *f, unsigned sreg, int comp);
const char *rw_target_of(const char *a, const char *b); /* on which both run */
/* data.c: module variables and device functions that a body uses, into the module; its local variables, into the entry;
 * both. */
int rw_copy_module_data(struct rw_join *j, int side);
int rw_copy_local_data(struct rw_join *j, int side);
int rw_copy_data(struct rw_join *j, int side);
/* The entry's parameters, and c->made.arg_keep and arg_same; the block's shared memory. */
int rw_make_params(struct rw_join *j);
int rw_make_shared(struct rw_join *j);
/* `i`, a load of the body, as `o`: .nc and cache operators go if either side writes what it may reach. */
void rw_drop_hints_if_written(const struct rw_cand *c, int side, const struct ptx_inst *o, struct ptx_inst *i);
struct ptx_var *rw_map_var(struct rw_join *j, int side, const struct ptx_var *v, uint32_t *ret_offset);

#endif
