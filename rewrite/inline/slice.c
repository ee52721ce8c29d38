/* Slices: the part of a guest's text that one of its elements needs.
 *
 * A thread of a guest may have several elements: a vector's components, the rounds of an unrolled loop, a tile of
 * Triton's. Each element that it can have is a slot (threads.c). Where the host passes an element on, the guest's text
 * runs for that slot alone:
 *
 *     ld.global.v4.f32 {a, b, c, d}, [h+i];                    mov c, element;
 *     ld.global.v4.f32 {e, f, g, k}, [w+j];        slot 2:     ld.global.f32 g, [w+j+8];
 *     add a, a, e; … add d, d, k;                              add c, c, g;
 *     st.global.v4.f32 [y+i], {a, b, c, d};                    st.global.f32 [y+i+8], c;
 *
 * A slice is a program with the same effect on what it stores. It has these stores, every definition of a register that
 * something in it reads, and each branch that does not lead to where falling through leads (among the instructions that
 * stay). A branch whose two ways meet at one instruction may be dropped, as the guest is known to end. Memory and the
 * carry flag carry nothing from slot to slot: guests with local memory, calls or `.cc` have no slices, and what a guest
 * writes is read only by the slot that writes it, and before (threads.c). A branch to the next round of the loop that
 * the elements are in ends the slice (loop.c). So each store belongs to one slot, that of the element that it needs; a
 * store that needs two elements, or none, refuses.
 *
 * A branch that no thread takes on its way to the slot's element is left out (ways.c), and what only it needed. So a
 * thread of one element has a slice, too, where its text can be sliced; where it cannot, all of it stays.
 */
#include "rewrite/inline/inline-priv.h"

#include <string.h>

#include "base/subject.h"

#define LARGE 8000 /* most instructions of a guest that is sliced */

struct slicer {
    const struct rw_inline *n;
    const struct rw_body *g;
    uint8_t *parts; /* per instruction: rw_access_parts; 0 of what is none */
    uint8_t *mask;  /* per instruction: components that stay, 1 where it has none; 0: dropped */
    bool *need;     /* per register: read by what stays */
    uint32_t *next; /* per instruction: the first one from there on that stays */
    uint32_t *label;
    bool *never; /* per instruction: a branch that no thread takes on its way to the slot's element (ways.c) */
    bool more;
};

static void slice_on_read(uint32_t reg, bool write, void *user)
{
    struct slicer *s = user;
    if (!write)
        s->need[reg] = true;
}

static void slice_take(struct slicer *s, uint32_t at, unsigned bits)
{
    const struct ptx_inst *i = &s->g->f->inst[at];
    if ((s->mask[at] & bits) == bits)
        return;
    s->more = true;
    s->mask[at] |= (uint8_t)bits;
    if (s->parts[at] == 1) {
        ptx_inst_regs(i, slice_on_read, s);
        return;
    }
    if (i->pred != PTX_NO_REG)
        s->need[i->pred] = true;
    for (unsigned k = 0; k < i->nopnd; k++) {
        const struct ptx_opnd *o = &i->opnd[k];
        if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
            s->need[o->reg] = true;
        for (unsigned j = 0; o->kind == PTX_O_VEC && i->op == PTX_OP_ST && j < o->n; j++)
            if ((bits >> j & 1) && o->elem[j].kind == PTX_O_REG)
                s->need[o->elem[j].reg] = true;
    }
}

struct defines {
    const bool *need;
    bool hit;
};

static void slice_on_write(uint32_t reg, bool write, void *user)
{
    struct defines *d = user;
    d->hit |= write && d->need[reg];
}

static void round_of(struct slicer *s)
{
    const struct ptx_function *f = s->g->f;
    s->next[f->ninst] = f->ninst;
    for (uint32_t at = f->ninst; at-- > 0;)
        s->next[at] = s->mask[at] ? at : s->next[at + 1];
    for (uint32_t at = f->ninst; at-- > 0;) { /* backwards: definitions stand before their uses, as a rule */
        const struct ptx_inst *i = &f->inst[at];
        unsigned parts = s->parts[at], flags = parts ? ptx_op_info(i->op)->flags : 0;
        struct defines d = {.need = s->need};
        if (!parts || (flags & PTX_F_WRITES) || s->never[at])
            continue;
        if (flags & (PTX_F_BRANCH | PTX_F_TERMINATOR)) {
            bool ends = i->op != PTX_OP_BRA || s->n->again[at];
            if (s->next[ends ? f->ninst : s->label[i->opnd[0].label]] != s->next[at + 1])
                slice_take(s, at, 1);
            continue;
        }
        for (unsigned k = 0; k < parts && parts > 1; k++)
            if (i->opnd[0].elem[k].kind == PTX_O_REG && s->need[i->opnd[0].elem[k].reg])
                slice_take(s, at, 1u << k);
        if (parts == 1)
            ptx_inst_regs(i, slice_on_write, &d);
        if (d.hit)
            slice_take(s, at, 1);
    }
}

/* Complete the slice: add all that the instructions in `mask` need. */
static void close_slice(struct slicer *s)
{
    const struct ptx_function *f = s->g->f;
    memset(s->need, 0, f->nreg);
    for (uint32_t at = 0; at < f->ninst; at++) { /* what they read */
        unsigned bits = s->mask[at];
        s->mask[at] = 0;
        if (bits)
            slice_take(s, at, bits);
    }
    do {
        s->more = false;
        round_of(s);
    } while (s->more);
}

/* The slots whose elements the slice reads, one bit each. */
static uint64_t elements(const struct slicer *s)
{
    const struct rw_inline *n = s->n;
    uint64_t m = 0;
    for (unsigned k = 0; k < n->njoint; k++)
        for (unsigned u = 0; u < n->joint[k].comps / n->unit; u++)
            if (s->mask[n->joint[k].inst] >> (u * n->unit) & ((1u << n->unit) - 1))
                m |= UINT64_C(1) << n->joint[k].slot[u];
    return m;
}

/* The first instruction that keeps the guest from being sliced; its number of instructions: there is none. */
static uint32_t unsliceable(const struct rw_inline *n)
{
    const struct rw_body *g = n->body[n->guest];
    for (uint32_t at = 0; at < g->f->ninst; at++) {
        const struct ptx_inst *i = &g->f->inst[at];
        if (i->op <= PTX_OP_OPAQUE)
            continue;
        unsigned flags = ptx_op_info(i->op)->flags;
        bool global = rw_is_global_access(i), memory = flags & (PTX_F_READS | PTX_F_WRITES);
        if ((flags & (PTX_F_CALL | PTX_F_ATOMIC)) || i->op == PTX_OP_BRX_IDX ||
            ptx_mod_of(i, PTX_MC_CC) != PTX_M_NONE || (memory && i->space == PTX_LOCAL) ||
            ((flags & PTX_F_WRITES) && (!global || i->op != PTX_OP_ST)) ||
            (memory && global && (rw_prov_of(g, i) & RW_PROV_LOCAL)))
            return at;
    }
    return g->f->ninst;
}

/* A thread of one element needs no slices; they only leave out what its element does not need. */
static bool one_element(const struct rw_inline *n) { return n->nslot < 2 && !n->loop; }

static bool sliceable(const struct rw_inline *n, struct rw_refusals *no)
{
    const struct ptx_function *f = n->body[n->guest]->f;
    uint32_t at = unsliceable(n);
    if (one_element(n) || no->any)
        return at == f->ninst && f->ninst <= LARGE && !no->any;
    if (f->ninst > LARGE)
        rw_no(no, RW_NO_own_ways, DT_LAUNCH " has over %d instructions", n->name[n->guest], LARGE);
    if (at < f->ninst)
        rw_no(no, RW_NO_own_ways, DT_LAUNCH " has `%s` between its elements (PTX line %u)", n->name[n->guest],
              ptx_op_info(f->inst[at].op)->mnemonic, f->inst[at].line);
    return !no->row[RW_NO_own_ways];
}

static void stores(struct rw_inline *n, struct rw_refusals *no, struct slicer *s)
{
    const struct ptx_function *f = s->g->f;
    uint8_t *mask = s->mask;
    for (uint32_t at = 0; at < f->ninst && !no->row[RW_NO_own_ways]; at++) {
        const struct ptx_inst *i = &f->inst[at];
        if (i->op != PTX_OP_ST || !rw_is_global_access(i))
            continue;
        for (unsigned k = 0; k < s->parts[at]; k++) {
            memset(mask, 0, f->ninst);
            mask[at] = (uint8_t)(1u << k);
            close_slice(s);
            uint64_t m = one_element(n) ? 1 : elements(s);
            if (!m || (m & (m - 1))) {
                rw_no(no, RW_NO_own_ways,
                      "what " DT_LAUNCH " stores depends on %s of the elements that a thread has (PTX line %u)",
                      n->name[n->guest], m ? "several" : "none", i->line);
                if (!m || no->row[RW_NO_own_ways])
                    break;
            }
            n->slice[__builtin_ctzll(m)][at] |= (uint8_t)(1u << k);
        }
    }
}

/* All that the slice carries from round to round must be an induction. `need`: registers that it reads. */
static void take_inductions(struct rw_inline *n, struct rw_refusals *no, const bool *need)
{
    const struct ptx_function *f = n->body[n->guest]->f;
    for (uint32_t reg = 0; reg < f->nreg && !no->row[RW_NO_own_ways]; reg++) {
        uint32_t q = 0;
        if (!need[reg] || !n->carry[reg].on)
            continue;
        while (q < n->ninduction && n->induction[q].reg != reg)
            q++;
        if (q < n->ninduction)
            continue;
        if (n->carry[reg].steady)
            n->induction[n->ninduction++] = (struct rw_induction){reg, n->carry[reg].add};
        else
            rw_no(no, RW_NO_own_ways, DT_LAUNCH " carries %s from one round of its loop to the next", n->name[n->guest],
                  f->reg[reg].name);
    }
}

int rw_inline_slices(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e)
{
    struct slicer s = {.n = n, .g = n->body[n->guest]};
    const struct ptx_function *f = s.g->f;
    if (!sliceable(n, no))
        return 0;
    s.need = dt_new_array(a, bool, f->nreg + 1);
    s.next = dt_new_array(a, uint32_t, f->ninst + 1);
    s.label = dt_new_array(a, uint32_t, f->nlabel + 1);
    s.mask = dt_new_array(a, uint8_t, f->ninst + 1);
    s.parts = dt_new_array(a, uint8_t, f->ninst + 1);
    s.never = dt_new_array(a, bool, f->ninst + 1);
    n->slice = (uint8_t **)dt_new_array(n->arena, uint8_t *, n->nslot);
    for (unsigned k = 0; n->slice && k < n->nslot; k++)
        n->slice[k] = dt_new_array(n->arena, uint8_t, f->ninst + 1);
    if (dt_arena_failed(a) || dt_arena_failed(n->arena))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t at = 0; at < f->ninst; at++) {
        s.parts[at] = f->inst[at].op > PTX_OP_OPAQUE ? (uint8_t)rw_access_parts(&f->inst[at]) : 0;
        if (f->inst[at].op == PTX_OP_LABEL)
            s.label[f->inst[at].opnd[0].label] = at;
    }
    if (n->host == 0)
        stores(n, no, &s);
    for (unsigned k = 0; n->host == 1 && k < n->njoint; k++) /* what the host takes is all that a producer leaves */
        for (unsigned q = 0; q < n->joint[k].comps; q++)
            n->slice[n->joint[k].slot[q / n->unit]][n->joint[k].inst] |= (uint8_t)(1u << q);
    for (unsigned k = 0; k < n->nslot && !no->row[RW_NO_own_ways]; k++) {
        s.mask = n->slice[k];
        memset(s.never, 0, f->ninst);
        int r = rw_inline_ways(n, k, s.never, a, e);
        if (r < 0)
            return r;
        close_slice(&s);
        if (n->host == 0 && (elements(&s) & ~(UINT64_C(1) << k)))
            rw_no(no, RW_NO_own_ways, "stores of " DT_LAUNCH " share a branch on another element", n->name[n->guest]);
        if (n->loop)
            take_inductions(n, no, s.need);
    }
    return 0;
}
