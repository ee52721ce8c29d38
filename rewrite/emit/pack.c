/* Subblocks: several posted blocks side by side in one (kinds/pack.c), each with what a block has for itself.
 *
 *   before, block b of 64 threads        after, subblock g of a block of 256
 *   As:          48 bytes                dt_smem + g * 64                 shared memory, rounded up to its alignment
 *   bar.sync 0;                          barrier.sync 2 * g, 64;          a number for each that the kernel uses; the
 *   bar.red.popc.u32 %r1, 3, %p1;        barrier.red.popc.u32 %r1, 2 * g + 1, 64, %p1;         number is in a register
 *   bar.sync 0;    (of 32 threads)       bar.warp.sync -1;                the warp is the block
 *
 * Numbers of barriers and the place in shared memory are the same for all threads of a warp, as subblocks are whole
 * warps; nothing here makes threads of a warp part. Numbers in registers are only made here: a posted kernel that has
 * them is refused (`barrier_numbers`).
 *
 * Shared memory is used by name in an address ([As+4]) or in a move or addition that makes an address; the name becomes
 * the register that has the subblock's place. What else could be done with a name is refused (`subblock_memory`).
 *
 * The end of a block is not the end of a pack: a subblock that is done, or has no block, leaves its warps idle until
 * the others are done. No barrier is between subblocks.
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/join.h"

#include "base/subject.h"

#define WARP 32
#define NUMBERS 16

static int pack_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

/* Below sm_70 a warp's threads would have to come to its barrier together. */
bool rw_subblock_is_warp(const struct rw_body *b)
{
    return b->threads == WARP && rw_target_number(b->f->module->target) >= RW_PARTING;
}

uint32_t rw_subblock_numbers(const struct rw_body *b)
{
    uint32_t numbers = 0;
    for (uint32_t n = 0; n < b->f->ninst; n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        bool red = i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED;
        unsigned at = red ? 1 : 0;
        if (rw_is_block_barrier(i->op) && i->nopnd > at && i->opnd[at].kind == PTX_O_IMM &&
            i->opnd[at].bits < NUMBERS && (red || !rw_subblock_is_warp(b)))
            numbers |= 1u << i->opnd[at].bits;
    }
    return numbers;
}

int rw_subblock_begin(struct rw_join *j, struct rw_phase *p, uint32_t group)
{
    const struct rw_cand *c = j->c;
    uint32_t numbers = rw_subblock_numbers(&c->facts.body[p->side]), each = (uint32_t)__builtin_popcount(numbers),
             k = 0;
    int r = 0;
    p->sub.shared = PTX_NO_REG;
    if (j->smem) {
        if ((p->sub.shared = ptx_reg_new(j->f, PTX_B32, "dt_own")) == PTX_NO_REG)
            return pack_nomem(j);
        const char *own = rw_rname(j, p->sub.shared);
        if ((r = rw_emit(j, "mov.u32 %s, %s;", own, j->smem->name)) < 0 ||
            (r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %s;", own, rw_rname(j, group), c->pack_step, own)) < 0)
            return r;
    }
    for (unsigned id = 0; id < NUMBERS && r == 0; id++) {
        p->sub.barrier[id] = PTX_NO_REG;
        if (!(numbers >> id & 1))
            continue;
        if ((p->sub.barrier[id] = ptx_reg_new(j->f, PTX_B32, "dt_bar")) == PTX_NO_REG)
            return pack_nomem(j);
        r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %u;", rw_rname(j, p->sub.barrier[id]), rw_rname(j, group), each, k++);
    }
    return r;
}

/* A register of the operation's width with the address that the name stands for. */
static int pack_name(struct rw_join *j, const struct rw_phase *p, const struct ptx_inst *i, struct ptx_opnd *o)
{
    bool wide = ptx_type_bytes(i->type[0]) == 8;
    uint32_t reg = ptx_reg_new(j->f, wide ? PTX_B64 : PTX_B32, "dt_at");
    int r;
    if (reg == PTX_NO_REG)
        return pack_nomem(j);
    const char *to = rw_rname(j, reg), *own = rw_rname(j, p->sub.shared);
    r = rw_emit(j, wide ? "cvt.u64.u32 %s, %s;" : "mov.b32 %s, %s;", to, own);
    if (r == 0 && o->off)
        r = rw_emit(j, wide ? "add.s64 %s, %s, %lld;" : "add.s32 %s, %s, %lld;", to, to, (long long)o->off);
    *o = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = reg};
    return r;
}

int rw_subblock_operands(struct rw_join *j, const struct rw_phase *p, struct ptx_inst *i)
{
    int r = 0;
    for (unsigned k = 0; k < i->nopnd && r == 0 && j->smem; k++) {
        struct ptx_opnd *o = &i->opnd[k];
        if (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR && o->var == j->smem) {
            o->base_kind = PTX_O_REG;
            o->reg = p->sub.shared;
            o->var = NULL;
        } else if (o->kind == PTX_O_VAR && o->var == j->smem) {
            r = pack_name(j, p, i, o);
        }
    }
    return r;
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

bool rw_legal_whole_warps(const struct rw_cand *c, struct dt_str *why)
{
    const struct rw_body *b = &c->facts.body[0];
    if (b->threads % WARP == 0)
        return true;
    dt_str_addf(why, DT_LAUNCH " has %u threads, not whole warps", b->step->launch->name, b->threads);
    return false;
}

bool rw_legal_subblock_barriers(const struct rw_cand *c, struct dt_str *why)
{
    const struct rw_body *b = &c->facts.body[0];
    unsigned each = (unsigned)__builtin_popcount(rw_subblock_numbers(b));
    if (each * c->pack <= NUMBERS)
        return true;
    dt_str_addf(why, "%u blocks of " DT_LAUNCH " with %u barriers each: a block has %d", c->pack, b->step->launch->name,
                each, NUMBERS);
    return false;
}

static bool is_shared(const struct ptx_opnd *o)
{
    return (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) &&
           o->var->space == PTX_SHARED;
}

/* Is a name of shared memory used as rw_subblock_operands can replace it? */
static bool pack_plain_use(const struct ptx_inst *i, const struct ptx_opnd *o)
{
    unsigned bytes = ptx_type_bytes(i->type[0]);
    if (o->kind == PTX_O_VEC) {
        for (unsigned k = 0; k < o->n; k++)
            if (is_shared(&o->elem[k]))
                return false;
        return true;
    }
    if (!is_shared(o))
        return true;
    if (o->kind == PTX_O_ADDR)
        return i->space == PTX_SHARED;
    return (i->op == PTX_OP_MOV || i->op == PTX_OP_CVTA || i->op == PTX_OP_ADD || i->op == PTX_OP_SUB) &&
           (bytes == 4 || bytes == 8);
}

bool rw_legal_subblock_memory(const struct rw_cand *c, struct dt_str *why)
{
    const struct rw_body *b = &c->facts.body[0];
    if (c->shared_bytes && c->pack_step < b->shared_bytes) { /* it is laid out */
        dt_str_addf(why, "%u bytes of " DT_LAUNCH " in %u", b->shared_bytes, b->step->launch->name, c->pack_step);
        return false;
    }
    for (uint32_t n = 0; n < b->f->ninst; n++)
        for (unsigned k = 0; k < b->f->inst[n].nopnd; k++)
            if (!pack_plain_use(&b->f->inst[n], &b->f->inst[n].opnd[k])) {
                dt_str_addf(why, DT_LAUNCH ", PTX line %u: a name of shared memory in `%s`", b->step->launch->name,
                            b->f->inst[n].line, ptx_op_info(b->f->inst[n].op)->mnemonic);
                return false;
            }
    return true;
}
