/* Crossing: does floating-point arithmetic meet floating-point arithmetic across a call?
 *
 *   mul.f32 %f3, %f1, %f2;             a product is given to a function, which halves it. An assembler that sees the
 *   call (r), half, (%f3);             whole program moves the product into a copy of the function, and makes one
 *     half: mul.f32 %f2, %f1, 0.5      FMUL.D2 of both (ptxas 13.0, sm_80 and sm_90: tests/machine/calls.py). One that
 *                                      assembles for linking, as nvJitLink always does, calls the function
 *
 * So of such a kernel nobody can say here what runs, and no text that is made of it has the same bits for sure. Where
 * nothing crosses, both assemblers have the same arithmetic.
 *
 * A piece of a parameter (callee.c) is `made` if a value that is stored to it may come out of an instruction of
 * floating point, or be a number in the text, by way of whatever else but memory; `hidden` if what is loaded from it
 * may get into one. Both at once: it crosses. Values go through parameters of parameters, so this is done until
 * nothing new is made. What an instruction that is not of floating point makes of such a value counts as the value.
 *
 * A function that is given the address of its caller's local memory counts as one that values cross into: what lies
 * there is not followed. Neither are parameters in registers and those whose address is taken: rw_calls_cross (calls.c)
 * says that they cross.
 */
#include "rewrite/normal/calls-priv.h"

#include <string.h>

struct made {
    const struct ptx_function *f;
    uint8_t *mark;
    bool local; /* asked for are addresses of local memory */
    bool reads, more;
};

static void made_read(uint32_t reg, bool write, void *user)
{
    struct made *m = user;
    m->reads |= !write && m->mark[reg];
}

static void made_write(uint32_t reg, bool write, void *user)
{
    struct made *m = user;
    if (write && !m->mark[reg] && m->f->reg[reg].type != PTX_PRED)
        m->mark[reg] = m->more = true;
}

static bool has_number(const struct ptx_inst *i)
{
    bool any = false;
    for (unsigned k = 0; k < i->nopnd; k++)
        any |= i->opnd[k].kind == PTX_O_IMM;
    return any;
}

static bool loads_made(const struct callee *c, const struct ptx_inst *i)
{
    int64_t at;
    const struct ptx_var *v = callee_access(c, i, &at);
    bool any = false;
    for (unsigned k = 0; v && k < (i->opnd[0].kind == PTX_O_VEC ? i->opnd[0].n : 1u); k++) {
        const struct call_piece *p = callee_piece(c, v, at + (int64_t)k * ptx_type_bytes(i->type[0]));
        any |= p && p->made;
    }
    return any;
}

static bool has_local(const struct ptx_inst *i)
{
    bool any = false;
    for (unsigned k = 0; k < i->nopnd; k++) {
        const struct ptx_opnd *o = &i->opnd[k];
        any |= (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) &&
               o->var->space == PTX_LOCAL;
    }
    return any;
}

/* Does the instruction make a value that ptxas could combine? A number that is moved is one, too. Or, if that is asked
 * for, an address of local memory? */
static bool makes(const struct callee *c, const struct made *m, const struct ptx_inst *i)
{
    if (m->local)
        return i->op != PTX_OP_LD && has_local(i);
    if (i->op == PTX_OP_LD)
        return loads_made(c, i);
    return callee_arithmetic(i) || ((i->op == PTX_OP_MOV || i->op == PTX_OP_SELP) && has_number(i));
}

/* Marks the registers of f that may hold a made value. */
static void mark_made(struct callee *c, const struct ptx_function *f, struct made *m)
{
    memset(m->mark, 0, f->nreg);
    m->f = f;
    do {
        m->more = false;
        c->work += f->ninst;
        for (uint32_t n = 0; n < f->ninst; n++) {
            const struct ptx_inst *i = &f->inst[n];
            if (callee_no_code(i) || i->op == PTX_OP_CALL || i->op == PTX_OP_ST)
                continue;
            m->reads = false;
            if (i->op != PTX_OP_LD)
                ptx_inst_regs(i, made_read, m);
            if (m->reads || makes(c, m, i))
                ptx_inst_regs(i, made_write, m);
        }
    } while (m->more && c->work <= CALL_WORK);
}

/* Stores to parameters: *more where a piece is made that was not. Where addresses are asked for: crosses. */
static void made_stores(struct callee *c, const struct ptx_function *f, const struct made *m, bool *more)
{
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        int64_t at;
        const struct ptx_var *v = callee_no_code(i) || i->op != PTX_OP_ST ? NULL : callee_access(c, i, &at);
        unsigned parts = !v ? 0 : i->opnd[1].kind == PTX_O_VEC ? i->opnd[1].n : 1;
        for (unsigned k = 0; k < parts; k++) {
            const struct ptx_opnd *x = i->opnd[1].kind == PTX_O_VEC ? &i->opnd[1].elem[k] : &i->opnd[1];
            struct call_piece *p = callee_piece(c, v, at + (int64_t)k * ptx_type_bytes(i->type[0]));
            bool gives = x->kind == PTX_O_REG ? m->mark[x->reg] : !m->local;
            if (p && gives && m->local && !c->crosses.var) {
                c->crosses.var = v;
                c->crosses.line = i->line;
            }
            if (p && gives && !m->local && !p->made) {
                p->made = *more = true;
                p->line = i->line;
            }
        }
    }
}

int callee_cross(struct callee *c)
{
    uint32_t most = 0;
    struct made m = {0};
    bool more = true;
    for (uint32_t k = 0; k < c->reach.n; k++)
        most = c->reach.func[k]->nreg > most ? c->reach.func[k]->nreg : most;
    if (!(m.mark = dt_arena_alloc(&c->m->arena, (size_t)most + 1)))
        return dt_err_set(c->e, DT_E_NOMEM, "out of memory");
    m.local = true;
    for (uint32_t k = 0; k < c->reach.n; k++) {
        mark_made(c, c->reach.func[k], &m);
        made_stores(c, c->reach.func[k], &m, &more);
    }
    m.local = false;
    while (more && c->work <= CALL_WORK) {
        more = false;
        for (uint32_t k = 0; k < c->reach.n; k++) {
            mark_made(c, c->reach.func[k], &m);
            made_stores(c, c->reach.func[k], &m, &more);
        }
    }
    for (uint32_t k = 0; k < c->nparam; k++)
        for (uint32_t q = 0; q < c->param[k].npiece; q++) {
            const struct call_piece *p = &c->param[k].piece[q];
            if (c->crosses.var || (c->work <= CALL_WORK && !(p->made && p->hidden)))
                continue;
            c->crosses.var = c->param[k].var;
            c->crosses.line = p->line;
        }
    return 0;
}
