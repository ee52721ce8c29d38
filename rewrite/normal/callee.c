/* Callee: the text of device functions in the place of their calls.
 *
 *   before                                    after
 *   st.param.f32 [param0], %f1;               mov.b32 P, %f1;              P: a register for each piece of param0
 *   @%p call (retval0), f, (param0);          @!%p bra SKIP;
 *                                             xor.b32 A, P, zero;          what the callee sees of it
 *     f: ld.param.f32 %f1, [f_param_0];       mov.b32 F1, A;               registers, labels and .local variables of
 *        mul.f32 %f2, %f1, %f1;               mul.f32 F2, F1, F1;          f are new ones for each call
 *        st.param.f32 [func_retval0], %f2;    mov.b32 R, F2;
 *        ret;                                 bra END;
 *                                             END: xor.b32 V, R, zero;     SKIP:
 *   ld.param.f32 %f3, [retval0];              mov.b32 %f3, V;
 *
 * `zero` is a parameter that is 0 whenever the kernel runs, as at the joints of level `register` (inline/inline.c). A
 * value that may meet an instruction of floating point where it is taken passes the `xor`, so that nothing is combined
 * there that was not in the posted code (crossing.c); addresses do not, so that it stays known where they lead.
 *
 * Parameters are bytes. All views of one parameter (and of the variables that calls give to it) that are equal or apart
 * make pieces, each with a register. Other views, and a parameter whose address is taken, need memory: rows of
 * legal.def refuse them (calls.c). Nothing else is asked here.
 *
 * A function's own variables become the entry's: of local memory one for each place, of shared memory one for all.
 */
#include "rewrite/normal/calls-priv.h"

#include "rewrite/facts/hooks.h"

#include <stdio.h>
#include <string.h>

static int callee_nomem(const struct callee *c) { return dt_err_set(c->e, DT_E_NOMEM, "out of memory"); }

/* ---- parameters as pieces ---------------------------------------------------------------------------------------- */

static uint32_t class_of(const struct callee *c, const struct ptx_var *v)
{
    for (uint32_t k = 0; k < c->nparam; k++)
        if (c->param[k].var == v) {
            while (c->param[k].up != k)
                k = c->param[k].up;
            return k;
        }
    return UINT32_MAX;
}

static bool param_add(struct callee *c, const struct ptx_var *v)
{
    if (!c->param)
        c->param = dt_new_array(&c->m->arena, struct call_param, CALL_PARAMS);
    if (!c->param)
        return false;
    if (c->nparam < CALL_PARAMS)
        c->param[c->nparam] = (struct call_param){.var = v, .up = c->nparam};
    c->nparam++;
    return true;
}

static void join(struct callee *c, const struct ptx_var *a, const struct ptx_var *b)
{
    uint32_t x = class_of(c, a), y = class_of(c, b);
    if (x < y)
        c->param[y].up = x;
    else if (y < x)
        c->param[x].up = y;
}

const struct ptx_var *callee_access(const struct callee *c, const struct ptx_inst *i, int64_t *ret_offset)
{
    if ((i->op != PTX_OP_LD && i->op != PTX_OP_ST) || (i->space != PTX_PARAM && i->space != PTX_PARAM_FUNC))
        return NULL;
    const struct ptx_opnd *o = &i->opnd[i->op == PTX_OP_LD ? 1 : 0];
    *ret_offset = o->off;
    return o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR && class_of(c, o->var) != UINT32_MAX ? o->var : NULL;
}

struct call_piece *callee_piece(const struct callee *c, const struct ptx_var *v, int64_t at)
{
    struct call_param *p = &c->param[class_of(c, v)];
    for (uint32_t k = 0; k < p->npiece; k++)
        if (p->piece[k].at == at)
            return &p->piece[k];
    return NULL;
}

/* The piece of [at, at + size) of a class; it is made if it is not there. NULL: memory, or views that overlap, which
 * `clash` says. */
static struct call_piece *piece_of(struct callee *c, uint32_t cls, int64_t at, unsigned size, bool *clash)
{
    struct call_param *p = &c->param[cls];
    for (uint32_t k = 0; k < p->npiece; k++) {
        if (p->piece[k].at == at && p->piece[k].size == size)
            return &p->piece[k];
        *clash |= at < p->piece[k].at + p->piece[k].size && p->piece[k].at < at + (int64_t)size;
    }
    if (*clash || p->npiece == CALL_PIECES) {
        *clash = true;
        return NULL;
    }
    if (!p->piece && !(p->piece = dt_new_array(&c->m->arena, struct call_piece, CALL_PIECES)))
        return NULL;
    p->piece[p->npiece] = (struct call_piece){.at = at, .size = (uint8_t)size};
    return &p->piece[p->npiece++];
}

/* ---- which pieces meet floating point ---------------------------------------------------------------------------- */

struct meets {
    const struct ptx_function *f;
    uint8_t *mark;
    bool reads, more;
};

static void meets_read(uint32_t reg, bool write, void *user)
{
    struct meets *w = user;
    w->reads |= !write && w->mark[reg];
}

static void meets_write(uint32_t reg, bool write, void *user)
{
    struct meets *w = user;
    if (write && !w->mark[reg] && w->f->reg[reg].type != PTX_PRED)
        w->mark[reg] = w->more = true;
}

bool callee_no_code(const struct ptx_inst *i)
{
    return i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
           i->op == PTX_OP_CALLPROTO;
}

bool callee_arithmetic(const struct ptx_inst *i)
{
    bool any = false;
    for (unsigned t = 0; t < i->ntype; t++)
        any |= ptx_type_is_float(i->type[t]);
    return any && i->op != PTX_OP_LD && i->op != PTX_OP_ST && i->op != PTX_OP_MOV && i->op != PTX_OP_SELP;
}

/* May what is in a marked register reach an instruction of floating point? What a load finds at an address is another
 * value, and so is what another call gives back. */
static bool meets_float(struct meets *w, uint64_t *work)
{
    do {
        w->more = false;
        *work += w->f->ninst;
        for (uint32_t k = 0; k < w->f->ninst; k++) {
            const struct ptx_inst *i = &w->f->inst[k];
            w->reads = false;
            if (callee_no_code(i) || i->op == PTX_OP_CALL)
                continue;
            if (i->op == PTX_OP_ST && (i->space == PTX_PARAM || i->space == PTX_PARAM_FUNC))
                continue; /* it meets what it meets behind the next joint */
            ptx_inst_regs(i, meets_read, w);
            if (!w->reads || (i->op == PTX_OP_LD))
                continue;
            if (callee_arithmetic(i))
                return true;
            ptx_inst_regs(i, meets_write, w);
        }
    } while (w->more);
    return false;
}

static const struct ptx_opnd *callee_element(const struct ptx_opnd *v, unsigned k)
{
    return v->kind == PTX_O_VEC ? &v->elem[k] : v;
}

/* Pieces of every access in f; of the loaded ones, whether they meet floating point. */
static int find_pieces(struct callee *c, const struct ptx_function *f)
{
    struct meets w = {.f = f, .mark = dt_arena_alloc(&c->m->arena, (size_t)f->nreg + 1)};
    if (!w.mark)
        return callee_nomem(c);
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        int64_t at;
        const struct ptx_var *v = callee_no_code(i) || i->op == PTX_OP_OPAQUE ? NULL : callee_access(c, i, &at);
        const struct ptx_opnd *value = v ? &i->opnd[i->op == PTX_OP_LD ? 0 : 1] : NULL;
        unsigned size = v ? ptx_type_bytes(i->type[0]) : 0, parts = v && value->kind == PTX_O_VEC ? value->n : 1;
        for (unsigned k = 0; v && k < parts; k++) {
            bool clash = false;
            struct call_piece *p = piece_of(c, class_of(c, v), at + (int64_t)k * size, size, &clash);
            const struct ptx_opnd *x = callee_element(value, k);
            if (clash && !c->clash.var)
                c->clash.var = v, c->clash.line = i->line;
            if (!p)
                return clash ? 0 : callee_nomem(c);
            if (i->op == PTX_OP_ST || x->kind != PTX_O_REG || p->hidden || size < 2)
                continue;
            memset(w.mark, 0, f->nreg);
            w.mark[x->reg] = true;
            p->hidden = c->work > CALL_WORK || meets_float(&w, &c->work);
        }
    }
    return 0;
}

int callee_params(struct callee *c)
{
    bool ok = true;
    for (uint32_t k = 0; k < c->reach.n && ok; k++) {
        const struct ptx_function *f = c->reach.func[k];
        for (uint32_t i = 0; i < f->nvar && ok; i++)
            ok = f->var[i]->space != PTX_PARAM || param_add(c, f->var[i]);
        for (uint32_t i = 0; k && i < f->nparam && ok; i++)
            ok = param_add(c, f->param[i]);
        for (uint32_t i = 0; k && i < f->nret && ok; i++)
            ok = param_add(c, f->ret[i]);
    }
    if (ok && c->nparam > CALL_PARAMS)
        return dt_err_set(c->e, DT_E_TOO_LARGE, "its functions have more than %d parameters", CALL_PARAMS);
    for (uint32_t k = 0; k < c->reach.n && ok; k++)
        for (uint32_t n = 0; n < c->reach.func[k]->ninst; n++) {
            const struct ptx_inst *i = &c->reach.func[k]->inst[n];
            const struct ptx_function *to = i->op == PTX_OP_CALL ? ptx_callee(i) : NULL;
            for (unsigned q = 0; to && q < to->nret; q++)
                join(c, i->opnd[0].elem[q].var, to->ret[q]);
            for (unsigned q = 0; to && q < to->nparam; q++)
                join(c, i->opnd[2].elem[q].var, to->param[q]);
        }
    int r = ok ? 0 : callee_nomem(c);
    for (uint32_t k = 0; k < c->reach.n && r == 0; k++)
        r = find_pieces(c, c->reach.func[k]);
    for (uint32_t k = 0; k < c->nparam; k++)
        for (uint32_t q = 0; q < c->param[k].npiece; q++)
            c->hides |= c->param[k].piece[q].hidden;
    return r == 0 ? callee_cross(c) : r;
}

/* ---- one call, or the entry -------------------------------------------------------------------------------------- */

static struct ptx_var *own_memory(struct callee *c, const struct ptx_var *v)
{
    char name[32];
    do
        snprintf(name, sizeof name, v->space == PTX_SHARED ? "dt_shared%u" : "dt_frame%u", c->nframe++);
    while (ptx_find_var(c->m, name) || ptx_find_function(c->m, name));
    return ptx_var_new(c->m, c->f, name, v->space, PTX_B8, v->bytes, v->align ? v->align : 1);
}

/* The entry's variable for a shared variable of a function: a block has one of it, however often and from wherever the
 * function is called. */
static struct ptx_var *block_memory(struct callee *c, const struct ptx_var *v)
{
    for (uint32_t k = 0; k < c->nshared; k++)
        if (c->shared[2 * k] == v)
            return c->shared[2 * k + 1];
    struct ptx_var **list = dt_new_array(&c->m->arena, struct ptx_var *, 2 * (size_t)c->nshared + 2);
    struct ptx_var *own = list ? own_memory(c, v) : NULL;
    if (!own)
        return NULL;
    if (c->nshared)
        memcpy(list, c->shared, 2 * (size_t)c->nshared * sizeof(*list));
    list[2 * (size_t)c->nshared] = (struct ptx_var *)v;
    list[2 * (size_t)c->nshared++ + 1] = own;
    c->shared = list;
    return own;
}

/* What is running: the entry, or a function in one place of its calls. */
struct active {
    const struct ptx_function *f;
    uint32_t *reg, *label;          /* of f: in the entry; NULL: the same */
    struct ptx_var **local;         /* by f's var: the entry's, of local and shared memory */
    uint32_t (*piece)[CALL_PIECES]; /* by parameter of c: registers, PTX_NO_REG where there is none yet */
    uint32_t end;                   /* label */
};

static enum ptx_type piece_type(unsigned size) { return size == 8 ? PTX_B64 : size == 4 ? PTX_B32 : PTX_B16; }

static uint32_t piece_reg(struct callee *c, struct active *a, const struct ptx_var *v, int64_t at, unsigned size)
{
    uint32_t cls = class_of(c, v), k = 0, own = 0;
    while (c->param[own].var != v)
        own++;
    while (k < c->param[cls].npiece && (c->param[cls].piece[k].at != at || c->param[cls].piece[k].size != size))
        k++;
    if (k == c->param[cls].npiece)
        return PTX_NO_REG;
    if (a->piece[own][k] == PTX_NO_REG)
        a->piece[own][k] = ptx_reg_new(c->f, piece_type(size), "dt_a");
    return a->piece[own][k];
}

static struct ptx_opnd of_reg(uint32_t reg) { return (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = reg}; }

static int append(struct callee *c, struct ptx_inst i)
{
    i.line = i.col = 0;
    return ptx_append(c->f, i) ? 0 : callee_nomem(c);
}

static int append_two(struct callee *c, const struct ptx_inst *like, enum ptx_op op, uint8_t to, uint8_t from,
                      struct ptx_opnd d, struct ptx_opnd s)
{
    struct ptx_opnd two[2] = {d, s};
    struct ptx_inst i = {.op = (uint16_t)op,
                         .nopnd = 2,
                         .ntype = op == PTX_OP_CVT ? 2 : 1,
                         .pred = PTX_NO_REG,
                         .vec = 1,
                         .type = {to, from},
                         .opnd = two};
    if (like) {
        i.pred = like->pred;
        i.pred_neg = like->pred_neg;
        i.from = like->from;
        i.from_line = like->from_line;
    }
    return append(c, i);
}

static unsigned width(const struct callee *c, const struct ptx_opnd *o)
{
    return o->kind == PTX_O_REG ? ptx_type_bytes(c->f->reg[o->reg].type) : 0;
}

/* st.param of an element: the piece's register has the bytes that are stored, and perhaps more above them. */
static int put_piece(struct callee *c, const struct ptx_inst *i, uint32_t reg, struct ptx_opnd x)
{
    unsigned size = ptx_type_bytes(i->type[0]), wide = size < 2 ? 2 : size, has = width(c, &x);
    uint8_t bits = (uint8_t)piece_type(wide);
    if (x.kind == PTX_O_IMM)
        return append_two(c, i, PTX_OP_MOV, size == 1 ? PTX_B16 : i->type[0], 0, of_reg(reg), x);
    if (has == wide)
        return append_two(c, i, PTX_OP_MOV, bits, 0, of_reg(reg), x);
    return append_two(c, i, PTX_OP_CVT, wide == 2 ? PTX_U16 : PTX_U32, has == 8 ? PTX_U64 : PTX_U32, of_reg(reg), x);
}

/* ld.param of an element: its bytes, filled up as the type says. */
static int get_piece(struct callee *c, const struct ptx_inst *i, uint32_t reg, struct ptx_opnd x)
{
    unsigned size = ptx_type_bytes(i->type[0]), has = width(c, &x);
    bool sign = ptx_type_is_signed(i->type[0]);
    if (x.kind == PTX_O_SINK)
        return 0;
    if (has == size)
        return append_two(c, i, PTX_OP_MOV, (uint8_t)piece_type(size), 0, x, of_reg(reg));
    uint8_t to = (uint8_t)(has == 8   ? (sign ? PTX_S64 : PTX_U64)
                           : has == 4 ? (sign ? PTX_S32 : PTX_U32)
                                      : (sign ? PTX_S16 : PTX_U16));
    uint8_t from = (uint8_t)(size == 4   ? (sign ? PTX_S32 : PTX_U32)
                             : size == 2 ? (sign ? PTX_S16 : PTX_U16)
                                         : (sign ? PTX_S8 : PTX_U8));
    return append_two(c, i, PTX_OP_CVT, to, from, x, of_reg(reg));
}

static int map(struct callee *c, const struct active *a, struct ptx_opnd *o)
{
    const struct ptx_var *v =
        o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR) ? o->var : NULL;
    if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        o->reg = a->reg ? a->reg[o->reg] : o->reg;
    if (o->kind == PTX_O_LABEL)
        o->label = a->label ? a->label[o->label] : o->label;
    if (v && v->owner == a->f && a->local && v->space != PTX_PARAM)
        o->var = a->local[v->index];
    if (o->kind != PTX_O_VEC && !(o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG && o->n))
        return 0;
    struct ptx_opnd *e = dt_new_array(&c->m->arena, struct ptx_opnd, (size_t)o->n + 1);
    if (!e)
        return callee_nomem(c);
    if (o->n) /* a list may be empty */
        memcpy(e, o->elem, o->n * sizeof *e);
    o->elem = e;
    int r = 0;
    for (unsigned k = 0; k < o->n && r == 0; k++)
        r = map(c, a, &e[k]);
    return r;
}

/* Operands and guard as they are called in the entry. */
static int mapped(struct callee *c, const struct active *a, const struct ptx_inst *from, struct ptx_inst *i)
{
    *i = *from;
    i->opnd = dt_new_array(&c->m->arena, struct ptx_opnd, (size_t)i->nopnd + 1);
    if (!i->opnd)
        return callee_nomem(c);
    if (i->nopnd)
        memcpy(i->opnd, from->opnd, i->nopnd * sizeof *i->opnd);
    int r = 0;
    for (unsigned k = 0; k < i->nopnd && r == 0; k++)
        r = map(c, a, &i->opnd[k]);
    if (a->reg && i->pred != PTX_NO_REG)
        i->pred = a->reg[i->pred];
    return r;
}

static int append_branch(struct callee *c, uint32_t label, uint32_t pred, bool neg)
{
    struct ptx_opnd o = {.kind = PTX_O_LABEL, .comp = -1, .label = label};
    return append(c,
                  (struct ptx_inst){.op = PTX_OP_BRA, .nopnd = 1, .vec = 1, .pred = pred, .pred_neg = neg, .opnd = &o});
}

static int append_label(struct callee *c, uint32_t label)
{
    struct ptx_opnd o = {.kind = PTX_O_LABEL, .comp = -1, .label = label};
    return append(c, (struct ptx_inst){.op = PTX_OP_LABEL, .nopnd = 1, .vec = 1, .pred = PTX_NO_REG, .opnd = &o});
}

static int active_new(struct callee *c, const struct ptx_function *f, bool entry, struct active *a)
{
    struct dt_arena *m = &c->m->arena;
    *a = (struct active){.f = f, .end = PTX_NO_REG};
    c->room += (c->nparam + 1) * sizeof *a->piece + 32 * ((uint64_t)f->nreg + f->nlabel + f->nvar);
    if (c->room > CALL_ROOM)
        return dt_err_set(c->e, DT_E_TOO_LARGE, "its calls are too many");
    if (!(a->piece = dt_arena_alloc(m, (c->nparam + 1) * sizeof *a->piece)))
        return callee_nomem(c);
    memset(a->piece, 0xff, (c->nparam + 1) * sizeof *a->piece);
    if (entry)
        return 0;
    a->reg = dt_new_array(m, uint32_t, (size_t)f->nreg + 1);
    a->label = dt_new_array(m, uint32_t, (size_t)f->nlabel + 1);
    a->local = dt_new_array(m, struct ptx_var *, (size_t)f->nvar + 1);
    bool ok = a->reg && a->label && a->local && (a->end = ptx_label_new(c->f, "dt_END")) != PTX_NO_REG;
    for (uint32_t k = 0; k < f->nreg && ok; k++)
        ok = (a->reg[k] = ptx_reg_new(c->f, f->reg[k].type, "dt_c")) != PTX_NO_REG;
    for (uint32_t k = 0; k < f->nlabel && ok; k++)
        ok = (a->label[k] = ptx_label_new(c->f, "dt_L")) != PTX_NO_REG;
    for (uint32_t k = 0; k < f->nvar && ok; k++) {
        const struct ptx_var *v = f->var[k];
        if (v->space == PTX_LOCAL || v->space == PTX_SHARED)
            ok = (a->local[k] = v->space == PTX_LOCAL ? own_memory(c, v) : block_memory(c, v));
    }
    return ok ? 0 : callee_nomem(c);
}

/* The registers of variable `to`, of `b`, from those of `from`, of `a`: hidden where they meet floating point. */
static int hand_over(struct callee *c, struct active *a, const struct ptx_var *from, struct active *b,
                     const struct ptx_var *to)
{
    const struct call_param *p = &c->param[class_of(c, from)];
    int r = 0;
    for (uint32_t k = 0; k < p->npiece && r == 0; k++) {
        const struct call_piece *q = &p->piece[k];
        uint32_t x = piece_reg(c, a, from, q->at, q->size), y = piece_reg(c, b, to, q->at, q->size);
        uint8_t bits = (uint8_t)piece_type(q->size);
        if (x == PTX_NO_REG || y == PTX_NO_REG)
            return callee_nomem(c);
        struct ptx_opnd three[3] = {of_reg(y), of_reg(x), of_reg(c->zero[q->size == 8 ? 2 : q->size == 4])};
        r = q->hidden ? append(c, (struct ptx_inst){.op = PTX_OP_XOR,
                                                    .nopnd = 3,
                                                    .ntype = 1,
                                                    .vec = 1,
                                                    .pred = PTX_NO_REG,
                                                    .type = {bits},
                                                    .opnd = three})
                      : append_two(c, NULL, PTX_OP_MOV, bits, 0, of_reg(y), of_reg(x));
    }
    return r;
}

static int callee_text(struct callee *c, struct active *a, const struct ptx_inst *inst, uint32_t n);

static int copy_call(struct callee *c, struct active *a, const struct ptx_inst *call, const struct ptx_inst *i)
{
    const struct ptx_function *f = ptx_callee(call);
    struct active b;
    uint32_t skip = call->pred != PTX_NO_REG ? ptx_label_new(c->f, "dt_SKIP") : PTX_NO_REG;
    int r = active_new(c, f, false, &b);
    if (r < 0)
        return r;
    r = skip != PTX_NO_REG ? append_branch(c, skip, i->pred, !i->pred_neg) : 0;
    for (unsigned k = 0; k < f->nparam && r == 0; k++)
        r = hand_over(c, a, call->opnd[2].elem[k].var, &b, f->param[k]);
    if (r == 0)
        r = callee_text(c, &b, f->inst, f->ninst);
    if (r == 0)
        r = append_label(c, b.end);
    for (unsigned k = 0; k < f->nret && r == 0; k++)
        r = hand_over(c, &b, f->ret[k], a, call->opnd[0].elem[k].var);
    return r == 0 && skip != PTX_NO_REG ? append_label(c, skip) : r;
}

static int copy_access(struct callee *c, struct active *a, const struct ptx_inst *i, const struct ptx_var *v,
                       int64_t at)
{
    const struct ptx_opnd *value = &i->opnd[i->op == PTX_OP_LD ? 0 : 1];
    unsigned size = ptx_type_bytes(i->type[0]), parts = value->kind == PTX_O_VEC ? value->n : 1;
    int r = 0;
    for (unsigned k = 0; k < parts && r == 0; k++) {
        uint32_t reg = piece_reg(c, a, v, at + (int64_t)k * size, size);
        r = reg == PTX_NO_REG    ? dt_err_set(c->e, DT_E_INTERNAL, "no register has these bytes of %s", v->name)
            : i->op == PTX_OP_LD ? get_piece(c, i, reg, *callee_element(value, k))
                                 : put_piece(c, i, reg, *callee_element(value, k));
    }
    return r;
}

static int callee_text(struct callee *c, struct active *a, const struct ptx_inst *inst, uint32_t n)
{
    int r = 0;
    for (uint32_t k = 0; k < n && r == 0; k++) {
        struct ptx_inst i;
        int64_t at = 0;
        const struct ptx_var *v = callee_no_code(&inst[k]) ? NULL : callee_access(c, &inst[k], &at);
        if (c->f->ninst > CALL_INSTS)
            return dt_err_set(c->e, DT_E_TOO_LARGE, "the kernel is too long with its functions in it");
        if ((r = mapped(c, a, &inst[k], &i)) < 0)
            return r;
        if (RW_SPOILT("calls") && i.op == PTX_OP_ST && i.space == PTX_GLOBAL)
            i.opnd[0].off += 4;
        if (v)
            r = copy_access(c, a, &i, v, at);
        else if (i.op == PTX_OP_CALL)
            r = copy_call(c, a, &inst[k], &i);
        else if (i.op == PTX_OP_RET && a->end != PTX_NO_REG)
            r = k + 1 == n && i.pred == PTX_NO_REG ? 0 : append_branch(c, a->end, i.pred, i.pred_neg);
        else
            r = append(c, i);
    }
    return r;
}

/* The zero word in registers of 16, 32 and 64 bits. */
static int make_zero(struct callee *c)
{
    char name[32];
    bool taken = true;
    for (unsigned k = 0; taken; k++) {
        snprintf(name, sizeof name, RW_ZERO_WORD "%u", k);
        taken = false;
        for (uint32_t i = 0; i < c->f->nparam; i++)
            taken |= !strcmp(c->f->param[i]->name, name);
    }
    c->zero[0] = ptx_reg_new(c->f, PTX_B16, "dt_z");
    c->zero[1] = ptx_reg_new(c->f, PTX_B32, "dt_z");
    c->zero[2] = ptx_reg_new(c->f, PTX_B64, "dt_z");
    if (!ptx_param_new(c->f, name, PTX_U32, 4, 4) || c->zero[2] == PTX_NO_REG)
        return callee_nomem(c);
    const char *h = c->f->reg[c->zero[0]].name, *w = c->f->reg[c->zero[1]].name, *d = c->f->reg[c->zero[2]].name;
    return ptx_append_text(c->f, c->e, "ld.param.u32 %s, [%s];\ncvt.u16.u32 %s, %s;\nmov.b64 %s, {%s, %s};", w, name, h,
                           w, d, w, w);
}

int callee_write(struct callee *c)
{
    struct ptx_function *f = c->f;
    struct ptx_inst *inst = f->inst;
    uint32_t n = f->ninst;
    struct active a;
    f->inst = NULL;
    f->ninst = f->inst_cap = 0;
    int r = active_new(c, f, true, &a);
    if (r < 0)
        return r;
    r = c->hides ? make_zero(c) : 0;
    r = r == 0 ? callee_text(c, &a, inst, n) : r;
    if (r == 0 && dt_arena_failed(&c->m->arena))
        r = callee_nomem(c);
    uint32_t left = 0; /* variables of calls are gone */
    for (uint32_t k = 0; k < f->nvar; k++)
        if (f->var[k]->space != PTX_PARAM) {
            f->var[left] = f->var[k];
            f->var[left]->index = left;
            left++;
        }
    f->nvar = left;
    return r;
}
