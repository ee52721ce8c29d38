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
    bool hidden;   /* it may meet floating point where it is loaded */
    bool made;     /* it may come of floating point where it is stored, or be a number (crossing.c) */
    uint32_t line; /* of that store */
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
        const struct ptx_var *var; /* clash: views of it overlap; NULL: there is none */
        uint32_t line;
    } clash, crosses; /* crosses: a piece of it is made and hidden */
    bool hides;       /* there is a piece that is hidden */
    uint32_t zero[3], nframe;
    struct ptx_var **shared; /* pairs: a shared variable of a function, that of the entry in its place */
    uint32_t nshared;
    struct dt_err *e;
};
/* Fill in param, clash, hides and crosses. */
int callee_params(struct callee *c);
/* Write the calls of c->f out. Nothing of it is called any more. */
int callee_write(struct callee *c);

/* Marks pieces as made and fills in crosses: the last step of callee_params. */
int callee_cross(struct callee *c);
/* The parameter that a ld.param or st.param is about, unless it is one of the entry's; *ret_offset in it. */
const struct ptx_var *callee_access(const struct callee *c, const struct ptx_inst *i, int64_t *ret_offset);
/* The piece that begins there; NULL: none does. */
struct call_piece *callee_piece(const struct callee *c, const struct ptx_var *v, int64_t at);
bool callee_no_code(const struct ptx_inst *i); /* a label or the like */
/* Of floating point, and more than to bring a value from here to there? */
bool callee_arithmetic(const struct ptx_inst *i);

#endif
