/* What products of warp groups (wgmma) read in shared memory, for the walk of reach.c.
 *
 *   shfl.sync.idx w, warp, 0       the first lane's value, as compilers make a number uniform for a warp
 *   shr.u32 a, place, 4            a place in sixteenths: the walk goes on with it, masks that change nothing included
 *   or.b64 desc, a, 0x400…         and with what a descriptor has above it
 *   wgmma … desc-a, desc-b         the bytes that both name
 *
 * A product is one instruction of a whole group. What it reads is told of the group's first thread: whoever needs it in
 * one of its threads needs it in all (faint-threads.c). Which bytes those are is as in softgpu/exec/wgmma.c, chunk by
 * chunk; where chunks are exchanged within a line of 32, 64 or 128 bytes, the line counts. Lines are known because a
 * body with such products begins at a multiple of 1024 bytes (facts/body.c). Whatever else a descriptor may be is not
 * known.
 */
#include "rewrite/emit/part-priv.h"
#include "rewrite/emit/reach-priv.h"

#include <string.h>

enum { GROUP = 128, UNITS = 1 << 14 }; /* threads; chunks of 16 bytes that a descriptor can name */

struct group_matrix {
    uint32_t start, lead, stride, wide; /* wide: of a line, in chunks */
    unsigned tiles;                     /* eight rows each */
    bool turned;                        /* the rows are K's */
};

bool rw_is_group_product(const struct ptx_inst *i) { return i->op == PTX_OP_WGMMA_MMA_ASYNC; }

bool rw_is_group_order(const struct ptx_inst *i)
{
    return i->op == PTX_OP_WGMMA_FENCE || i->op == PTX_OP_WGMMA_COMMIT || i->op == PTX_OP_WGMMA_WAIT;
}

/* How many columns D has, and whether K is 32 bytes, as it always is; 0: not known. */
static unsigned columns(const struct ptx_inst *i)
{
    static const char first[] = "m64n";
    enum ptx_mod s = ptx_mod_of(i, PTX_MC_SHAPE);
    const char *p = s == PTX_M_NONE ? "" : ptx_mod_text(s);
    unsigned n = 0;
    if (strncmp(p, first, strlen(first)) != 0)
        return 0;
    for (p += strlen(first); *p >= '0' && *p <= '9' && n < 1000; p++)
        n = n * 10 + (unsigned)(*p - '0');
    return n % 8 == 0 && n <= 256 && *p == 'k' ? n : 0;
}

/* Is the matrix turned, as the immediate says that is the last but `back` ones? Types of 16 bits alone have those. */
static bool turned(const struct ptx_inst *i, unsigned back, bool *ret)
{
    unsigned want = i->opnd[1].kind == PTX_O_VEC ? 7 : 8;
    *ret = false;
    if (i->ntype < 2 || (i->type[1] != PTX_F16 && i->type[1] != PTX_BF16))
        return true;
    if (i->nopnd != want || i->opnd[want - 1 - back].kind != PTX_O_IMM)
        return false;
    *ret = i->opnd[want - 1 - back].bits != 0;
    return true;
}

static bool group_matrix_of(const struct rw_walk *w, const struct rw_path *p, const struct ptx_opnd *o, unsigned rows,
                            struct group_matrix *ret)
{
    static const uint8_t wide[] = {1, 8, 4, 2};
    if (o->kind != PTX_O_REG || o->reg >= w->f->nreg || !w->slot[o->reg])
        return false;
    struct rw_value v = p->reg[w->slot[o->reg] - 1];
    if (v.mem == RW_REACH_UNKNOWN || !(v.mem & RW_REACH_SIXTEENTHS) || (v.v & 0xC000) || (v.v >> 49 & 7))
        return false;
    ret->start = w->b->shared_at[(v.mem & ~RW_REACH_SIXTEENTHS) - 1] + (uint32_t)(v.v & (UNITS - 1)) * 16;
    ret->lead = (uint32_t)(v.v >> 16 & (UNITS - 1)) * 16;
    ret->stride = (uint32_t)(v.v >> 32 & (UNITS - 1)) * 16;
    ret->wide = wide[v.v >> 62];
    ret->tiles = rows / 8;
    return true;
}

/* Its chunks, or their lines, as units of 16 bytes. False: they are not all in shared memory. */
static bool chunks(const struct group_matrix *m, uint32_t size, uint8_t *unit)
{
    for (unsigned tile = 0; tile < m->tiles; tile++)
        for (unsigned t = 0; t < 2; t++)
            for (unsigned i = 0; i < 8; i++) {
                uint32_t at = m->start + i * 16 * m->wide, line = 16 * m->wide;
                if (!m->turned)
                    at += tile * m->stride + t * (m->wide == 1 ? m->lead : 16);
                else if (m->wide == 1)
                    at += tile * m->stride + t * m->lead;
                else
                    at += tile % m->wide * 16 + tile / m->wide * m->lead + t * m->stride;
                at = at / line * line;
                if (at + line > size || at + line > UNITS * 16)
                    return false;
                for (uint32_t k = at / 16; k < (at + line) / 16; k++)
                    unit[k / 8] |= (uint8_t)(1u << (k % 8));
            }
    return true;
}

bool rw_groups_touch(struct rw_walk *w, const struct rw_path *p, uint32_t n)
{
    const struct ptx_inst *i = &w->f->inst[n];
    struct group_matrix m[2];
    uint8_t unit[UNITS / 8] = {0};
    unsigned had = 0, wide = columns(i);
    if (!wide || i->nopnd < 3 || w->b->shared_align < 1024 || w->b->threads % GROUP)
        return false;
    if (w->thread % GROUP) /* its group's first thread tells */
        return true;
    if (i->opnd[1].kind != PTX_O_VEC) {
        if (!group_matrix_of(w, p, &i->opnd[1], 64, &m[had]) || !turned(i, 1, &m[had].turned))
            return false;
        had++;
    }
    if (!group_matrix_of(w, p, &i->opnd[2], wide, &m[had]) || !turned(i, 0, &m[had].turned))
        return false;
    for (unsigned k = 0; k <= had; k++)
        if (!chunks(&m[k], w->ret->size, unit))
            return false;
    for (uint32_t k = 0, from; k < UNITS; k++) {
        for (from = k; k < UNITS && (unit[k / 8] >> (k % 8) & 1) && k - from < UNITS / 8; k++) {
            w->ret->touched[n][k * 2] = 0xFF;
            w->ret->touched[n][k * 2 + 1] = 0xFF;
        }
        if (k > from && w->spans)
            rw_reach_span(w, n, from * 16, (k - from) * 16);
        k -= k > from; /* it is looked at again */
    }
    return true;
}

/* Room of the variable, from its beginning on. */
uint64_t rw_value_room(const struct rw_walk *w, uint32_t mem)
{
    const struct ptx_var *var = w->b->shared_var[mem - 1];
    return var->is_extern || !var->bytes ? w->b->shared_bytes - w->b->shared_at[mem - 1] : var->bytes;
}

struct rw_value rw_value_sixteenths(const struct rw_walk *w, struct rw_value x)
{
    if (!x.mem || x.mem == RW_REACH_UNKNOWN || (x.mem & RW_REACH_SIXTEENTHS))
        return rw_value_unknown();
    uint32_t at = (uint32_t)x.v; /* shared addresses have 32 bits */
    if (at % 16 || w->b->shared_at[x.mem - 1] % 16 || at > rw_value_room(w, x.mem))
        return rw_value_unknown();
    return (struct rw_value){at / 16, x.mem | RW_REACH_SIXTEENTHS};
}

/* Nothing above the place, and the place in the variable: then the whole is less than UNITS, as all shared memory has
 * less than 256 KB. */
static bool is_low(const struct rw_walk *w, struct rw_value x, unsigned bits)
{
    return x.mem != RW_REACH_UNKNOWN && (x.mem & RW_REACH_SIXTEENTHS) &&
           rw_low_bits(x.v, bits) * 16 <= rw_value_room(w, x.mem & ~RW_REACH_SIXTEENTHS);
}

struct rw_value rw_value_masked(const struct rw_walk *w, struct rw_value x, uint64_t mask, unsigned bits)
{
    uint64_t some = UNITS - 1; /* of these, no bit may go that is not known: the body begins at a multiple of 1024 */
    if (w->b->shared_align >= 1024)
        some &= ~UINT64_C(63);
    if (!is_low(w, x, bits) || (mask & some) != some)
        return rw_value_unknown();
    uint64_t before = w->b->shared_at[(x.mem & ~RW_REACH_SIXTEENTHS) - 1] / 16,
             v = ((rw_low_bits(x.v, bits) + before) & (mask | ~UINT64_C(63)));
    return v < before ? rw_value_unknown() : (struct rw_value){v - before, x.mem};
}

struct rw_value rw_value_topped(const struct rw_walk *w, struct rw_value x, uint64_t top, unsigned bits)
{
    if (!is_low(w, x, bits) || (top & (UNITS - 1)))
        return rw_value_unknown();
    return (struct rw_value){rw_low_bits(x.v, bits) + rw_low_bits(top, bits), x.mem};
}

/* ---- the first lane's value -------------------------------------------------------------------------------------- */

static bool operand_is(const struct rw_walk *w, const struct rw_path *p, const struct ptx_opnd *o, uint32_t v)
{
    if (o->kind == PTX_O_IMM)
        return (uint32_t)o->bits == v;
    if (o->kind != PTX_O_REG || o->reg >= w->f->nreg || !w->slot[o->reg])
        return false;
    const struct rw_value *x = &p->reg[w->slot[o->reg] - 1];
    return !x->mem && (uint32_t)x->v == v;
}

/* Of one of all 32 lanes: the first. */
static bool is_of_first_lane(const struct rw_walk *w, const struct rw_path *p, const struct ptx_inst *i)
{
    const struct ptx_opnd *o = i->opnd + (i->dst2 ? 2 : 1);
    return i->nopnd == (i->dst2 ? 6 : 5) && ptx_has(i, PTX_M_IDX) && i->opnd[0].kind == PTX_O_REG &&
           o[0].kind == PTX_O_REG && o[0].reg < w->f->nreg && operand_is(w, p, &o[1], 0) &&
           operand_is(w, p, &o[2], 31) && operand_is(w, p, &o[3], UINT32_MAX);
}

struct rw_value rw_value_of_first_lane(struct rw_walk *w, const struct rw_path *p, uint32_t n)
{
    struct rw_told *t = &w->told[n];
    const struct ptx_inst *i = &w->f->inst[n];
    const struct ptx_opnd *o = &i->opnd[i->dst2 ? 2 : 1];
    if (!is_of_first_lane(w, p, i))
        return rw_value_unknown();
    if (w->thread % 32)
        return t->some ? t->v : rw_value_unknown();
    struct rw_value v = w->slot[o->reg] ? p->reg[w->slot[o->reg] - 1] : rw_value_unknown();
    if (!t->some)
        *t = (struct rw_told){.some = true, .v = v};
    else if (t->v.v != v.v || t->v.mem != v.mem)
        t->v = rw_value_unknown();
    return v;
}
