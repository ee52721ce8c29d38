/* Inside device/: one function of a kernel as a net of flows, and what the lines of PTX say of its blocks. Of it
 * sass-blocks.c makes how often each block ran.
 *
 * Calls of sass-net.c and sass-says.c in the order in which they are made; each fills in some of the net. All give 0,
 * 1 where the function is too large, or DT_E_NOMEM. What they allocate is freed by sass-blocks.c.
 */
#ifndef DT_DEVICE_SASS_NET_H
#define DT_DEVICE_SASS_NET_H

#include "device/machine-priv.h"

#define SASS_CHORDS 384 /* most of them */
#define SASS_OUTSIDE 0  /* as a node: before the start, behind each end; block k of the function is node k + 1 */
#define SASS_PLACES 64  /* of one line, most */

struct sass_edge {
    uint32_t from, to, chord; /* chord: its number, CODE_NONE for the tree's; 0: the start */
};
struct sass_net {
    const struct code *c;
    const struct dev_line *line;
    uint32_t nline;
    double *lanes; /* by block of the kernel: the result */
    uint32_t f;
    uint32_t *block, nblock; /* the function's */
    uint32_t *node;          /* by block of the kernel: node, 0: none of this function */
    struct sass_edge *edge;
    uint32_t nedge, nchord;
    double *coef;        /* by edge: nchord coefficients */
    double *pass;        /* by node: those of what goes through it */
    const bool *odd;     /* by function: for odd operands of floats */
    uint32_t *loop;      /* by node: innermost loop's head, 0: none */
    uint32_t *copies;    /* by node: of the loop's body */
    double *share;       /* by node: what its lines say */
    bool *slow, *sure;   /* by node */
    double *a, *b, *row; /* least squares: normal equations */
    double *flow;        /* by chord; 0: what comes in at the start */
    double *middle;      /* by node: median of its lines' counts */
    double *trust;       /* by line in a list of them: weight of its anchor */
    double most;         /* of the lines' counts */
};

struct sass_doms { /* who dominates whom: every way there from the start goes by it */
    uint32_t *order, n, *number,
        *idom; /* nodes in reverse postorder; by node: its number there, from 1; its dominator */
    uint64_t steps;
};

struct sass_at { /* the n instructions of one line in one block */
    uint32_t line, node, n;
    uint32_t copies; /* of the line, 0: not known */
    bool off;        /* some stand under a predicate and PTX's does not: it may run where the line does not */
};

/* ---- sass-net.c -------------------------------------------------------------------------------------------------- */

int sass_net_edges(struct sass_net *n);
int sass_net_tree(struct sass_net *n);   /* nchord, and which edges are chords */
int sass_net_cycles(struct sass_net *n); /* coef, pass */
int sass_net_dominators(const struct sass_net *n, struct sass_doms *d);
bool sass_net_dominates(struct sass_doms *d, uint32_t x, uint32_t y);
int sass_net_loops(struct sass_net *n, struct sass_doms *d); /* loop */

/* ---- sass-says.c ------------------------------------------------------------------------------------------------- */

/* List the lines of each block, by line, and from that the copies of loops' bodies: copies, share, middle, most, sure.
 */
int sass_net_lines(struct sass_net *n, struct sass_at **ret, uint32_t *ret_n);
/* The part of a PTX instruction that machine instruction k does; 0: it is no anchor. */
double sass_net_part(const struct sass_net *n, uint32_t k);
/* Has the block anchors, and all of lines that were not executed? */
bool sass_net_never_ran(const struct sass_net *n, const struct code_block *b);

#endif
