/* How a value crosses from one posted kernel's text into the other's: hidden from the assembler.
 *
 *   the guest's text:   mov.b32 %x, %f7;       what the host would have stored
 *                       xor.b32 %y, %x, %z;    %z: the zero word
 *                       mov.b32 %f2, %y;       what the guest would have loaded
 *
 * `zero` is a parameter of this joint that is 0 whenever the kernel runs. Where the posted kernels had a store and a
 * load, ptxas would now combine what meets (division and add, two negations, min and max …). It combines nothing across
 * an `xor` with a value that it does not know. Each joint has a parameter of its own, found again by its name
 * (rw_is_zero_word), since two `xor` with one word cancel. A store that goes away was a use of its value: the `xor`
 * takes its place as a use.
 *
 * Not here: where values cross (guest.c, instance.c).
 */
#include "rewrite/inline/site.h"

#include <stdlib.h>

int rw_site_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

uint32_t rw_site_reg(struct rw_join *j, enum ptx_type t, const char *hint)
{
    uint32_t r = ptx_reg_new(j->f, t, hint);
    if (r == PTX_NO_REG)
        rw_site_nomem(j);
    return r;
}

/* rw_fuse_part gives it its argument. */
int rw_site_zero_word(struct rw_join *j)
{
    static const struct ptx_var like = {.name = RW_ZERO_WORD, .type = PTX_U32, .bytes = 4, .align = 4};
    j->zero = rw_new_param(j, &like);
    return j->zero ? 0 : rw_site_nomem(j);
}

int rw_site_move(struct rw_join *j, unsigned elem, struct ptx_opnd to, struct ptx_opnd from, uint8_t type,
                 uint32_t pred, bool neg)
{
    struct ptx_opnd two[2] = {to, from};
    struct ptx_inst i = {
        .op = PTX_OP_MOV, .nopnd = 2, .ntype = 1, .pred = pred, .pred_neg = neg, .vec = 1, .opnd = two};
    i.type[0] = (uint8_t)(elem == 8 ? PTX_B64 : elem == 4 ? PTX_B32 : PTX_B16);
    if (from.kind == PTX_O_IMM) { /* of the type that it was written for */
        uint32_t r = rw_site_reg(j, (enum ptx_type)type, "dt_c");
        if (r == PTX_NO_REG)
            return DT_E_NOMEM;
        two[0] = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = r};
        i.type[0] = type;
        i.pred = PTX_NO_REG;
        if (!ptx_append(j->f, i))
            return rw_site_nomem(j);
        return rw_site_move(j, elem, to, two[0], type, pred, neg);
    }
    return ptx_append(j->f, i) ? 0 : rw_site_nomem(j);
}

/* to = from, as a value crosses from one posted body into the other: by way of `xor` with the joint's zero word, so
 * that ptxas does not combine what made it with what it goes into. On bits: .f32 is no type of xor. Where the guest has
 * a predicate, it is the last move's alone: else a register would keep what it had in the round before, a float
 * perhaps, and the machine code would not say that nobody sees it. */
int rw_site_cross(const struct rw_site *s, struct ptx_opnd to, struct ptx_opnd from, uint8_t type, uint32_t pred,
                  bool neg)
{
    struct rw_join *j = s->j;
    unsigned elem = s->n->elem;
    enum ptx_type bits = elem == 8 ? PTX_B64 : elem == 4 ? PTX_B32 : PTX_B16;
    struct ptx_opnd x = {.kind = PTX_O_REG, .comp = -1, .reg = rw_site_reg(j, bits, "dt_x")}, y = x,
                    zero = {.kind = PTX_O_REG, .comp = -1, .reg = s->zero};
    y.reg = rw_site_reg(j, bits, "dt_x"); /* of its own: no register holds both */
    struct ptx_opnd three[3] = {y, x, zero};
    struct ptx_inst i = {
        .op = PTX_OP_XOR, .nopnd = 3, .ntype = 1, .pred = PTX_NO_REG, .vec = 1, .opnd = three, .type = {(uint8_t)bits}};
    if (x.reg == PTX_NO_REG || y.reg == PTX_NO_REG)
        return DT_E_NOMEM;
    int r = rw_site_move(j, elem, x, from, type, PTX_NO_REG, false);
    if (r == 0 && !ptx_append(j->f, i))
        r = rw_site_nomem(j);
    return r < 0 ? r : rw_site_move(j, elem, to, y, type, pred, neg);
}

/* The zero word in a register of an element's size. */
int rw_site_zero(struct rw_site *s)
{
    struct rw_join *j = s->j;
    unsigned elem = s->n->elem;
    uint32_t word = rw_site_reg(j, PTX_U32, "dt_z");
    if (word == PTX_NO_REG)
        return DT_E_NOMEM;
    s->zero = elem == 4 ? word : rw_site_reg(j, elem == 8 ? PTX_B64 : PTX_U16, "dt_z");
    if (s->zero == PTX_NO_REG)
        return DT_E_NOMEM;
    const char *W = rw_rname(j, word), *Z = rw_rname(j, s->zero);
    int r = rw_emit(j, "ld.param.u32 %s, [%s];", W, j->zero->name);
    if (r == 0 && elem != 4)
        r = elem == 8 ? rw_emit(j, "mov.b64 %s, {%s, %s};", Z, W, W) : rw_emit(j, "cvt.u16.u32 %s, %s;", Z, W);
    return r;
}

struct ptx_opnd rw_site_part(const struct ptx_opnd *o, unsigned k) { return o->kind == PTX_O_VEC ? o->elem[k] : *o; }
