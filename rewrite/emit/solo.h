/* One launch's kernel alone in a module of its own, to be changed (solo.c), and when that is legal (legal-solo.c). */
#ifndef DT_REWRITE_SOLO_H
#define DT_REWRITE_SOLO_H

#include "rewrite/facts/facts.h"

struct rw_solo {
    struct dt_arena arena;
    const struct dev_info *dev;
    const struct dev_prog *prog;
    uint32_t launch;
    bool behind;            /* there is a launch before it that it is to wait for */
    bool self_conflict;     /* of its analysis */
    bool atomics;           /* the same; asked where its blocks become narrower */
    struct rw_body body;    /* facts of the launch's kernel; body.f NULL: it has none */
    struct ptx_module *own; /* its explicit form, where it needs one */
    struct ptx_module *m;   /* the copy */
    struct ptx_function *f; /* and its entry, under the same name */
    /* how often text was put into it by rewrites before: names of another time are left alone */
    unsigned again;
};
enum rw_solo_kind {
    RW_SOLO_WAITS = 1,
    RW_SOLO_TRIGGERS = 2,
    RW_SOLO_MOVES = 4 /* its blocks are numbered anew */,
    RW_SOLO_FETCHES = 8 /* it prefetches for the next one */,
    RW_SOLO_SPARES = 16 /* in more blocks, which do nothing else */,
    RW_SOLO_NARROWS = 32 /* its blocks become several, a part of the warps each */,
    RW_SOLO_ALL = 63
};

int rw_solo_init(struct rw_solo *s, const struct dev_info *dev, const struct dev_prog *p, uint32_t launch,
                 struct dt_err *e);
void rw_solo_done(struct rw_solo *s);
/* False with the first condition that does not hold, of those that the kinds ask for. */
bool rw_solo_legal(const struct rw_solo *s, unsigned kinds, struct dt_str *why);
/* A fresh copy. 1: its arithmetic cannot be kept, `why` says so. */
int rw_solo_copy(struct rw_solo *s, struct dt_str *why, struct dt_err *e);
/* Put instructions before instruction `at` of the copy. How many. Registers %dt_… and labels $dt_… of the text are new
 * ones, whatever was put in before. */
int rw_solo_insert(struct rw_solo *s, uint32_t at, const char *text, struct dt_err *e);
/* the register that a text called so, "%dt_n"; PTX_NO_REG */
uint32_t rw_solo_reg(const struct rw_solo *s, const char *name);
/* The copy's blocks are `block[0..n)` of the launch's grid, linear numbers: launched on a grid of n blocks, it sees the
 * old numbers and grid. */
int rw_solo_renumber(struct rw_solo *s, const uint32_t *block, uint32_t n, struct dt_err *e);
void rw_solo_needs(struct rw_solo *s, unsigned version, unsigned sm); /* 708: .version 7.8 at least */
/* The copy as text; verified, and printed and parsed to itself. */
int rw_solo_text(struct rw_solo *s, struct dt_str *out, struct dt_err *e);

#endif
