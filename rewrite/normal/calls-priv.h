/* Inside normal/: an entry whose calls are being written out (callee.c), and what may be (calls.c). */
#ifndef DT_REWRITE_CALLS_PRIV_H
#define DT_REWRITE_CALLS_PRIV_H

#include "ptx/reach.h"
#include "rewrite/emit/join.h"
#include "rewrite/normal/normal.h"

#define CALL_PIECES 64                /* of one parameter */
#define CALL_INSTS 100000             /* of the entry, with its functions in it */
#define CALL_TEXT 1000000             /* instructions and registers, each function as often as it is called */
#define CALL_ROOM (UINT64_C(1) << 28) /* bytes of what is kept of all calls */
#define CALL_PARAMS 1024              /* of all functions */
#define CALL_WORK (UINT64_C(1) << 27) /* instructions looked at for what is hidden; then everything is */

struct call_piece { /* bytes of a parameter that are always loaded and stored as one */
    int64_t at;
    uint8_t size;
    bool hidden; /* it may meet floating point where it is loaded */
};
struct call_param { /* a parameter, or a variable of a call; those that a call joins are one class */
    const struct ptx_var *var;
    uint32_t up;              /* in the class: its first one by way of these */
    struct call_piece *piece; /* of the first one */
    uint32_t npiece;
};
struct callee {
    struct ptx_module *m; /* a copy, which is changed */
    struct ptx_function *f;
    struct ptx_reach reach; /* of f: the entry first */
    struct call_param *param;
    uint32_t nparam;
    uint64_t work, room;
    struct {
        const struct ptx_var *var; /* views of it overlap */
        uint32_t line;
    } clash;
    bool hides; /* there is a piece that is hidden */
    uint32_t zero[3], nframe;
    struct dt_err *e;
};
/* Fill in param, clash and hides. */
int callee_params(struct callee *c);
/* Write the calls of c->f out. Nothing of it is called any more. */
int callee_write(struct callee *c);

#endif
