/* A unit of the template tier: basic blocks that are warm, each compiled for itself, with jumps between them.
 *
 * A block's code does what h_BB does (fuel, counters), then its operations, writes its rows back, and goes on: to
 * another block of a unit by a jump, else by the handler of the operation where it stands, which is the interpreter's
 * next step or another block's code. It stands for the BB operation: it is entered through a stub that makes sure of 32
 * active lanes and of a block that is not followed; inside these do not change. Masked code is for any lanes; at each
 * block it looks for other fragments of the warp, and whether the warp is whole again.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/jit/object.h"
#include "softgpu/jit/template-priv.h"

enum { MOST_OPS = 4000, MOST_BLOCK = 20000 };

static const struct sg_op *op_of(const struct template *m, uint32_t i) { return &m->c->op[i]; }
static bool begins(const struct sg_op *op) { return op->flags & SG_IS_BB; }

/* Operations behind which the warp is elsewhere, or may be. */
static bool stops(const struct sg_op *op)
{
    sg_fn f = op->fn == sg_guarded ? op->inner : op->fn;
    return f == sg_bar || f == sg_bar_result || f == sg_brx || f == sg_call || f == sg_return || f == sg_cluster_wait ||
           f == sg_wgmma || f == sg_mbarrier || f == sg_griddepcontrol || f == sg_bra || f == sg_exit || f == sg_trap;
}

/* Behind the last operation of the block that is compiled: one that stops is the last. */
static uint32_t end_of(const struct template *m, uint32_t from)
{
    uint32_t i = from + 1;
    while (i < m->c->nop && !begins(op_of(m, i)))
        if (stops(op_of(m, i++)))
            break;
    return i;
}

/* ---- which blocks ------------------------------------------------------------------------------------------------ */
static bool take(struct template *m, int64_t at, uint32_t warm)
{
    if (at < 0 || at >= m->c->nop || !begins(op_of(m, (uint32_t)at)))
        return true;
    uint32_t bb = op_of(m, (uint32_t)at)->x;
    const struct sg_template_bb *b = &m->bb[bb];
    if (m->in[bb] || b->fn || b->refused || __atomic_load_n(&b->visits, __ATOMIC_RELAXED) < warm)
        return true;
    if (!dt_push(&m->block, (uint32_t)at))
        return false;
    m->in[bb] = (uint32_t)m->block.n;
    return true;
}

/* Basic blocks from `op` on, breadth first. */
static bool unit_gather(struct template *m, uint32_t op, uint32_t warm)
{
    bool ok = take(m, op, 0);
    size_t n = 0;
    for (; ok && n < m->block.n; n++) {
        uint32_t from = m->block.p[n], end = end_of(m, from);
        if (m->ops && m->ops + end - from > MOST_OPS)
            break;
        m->ops += end - from;
        const struct sg_op *last = op_of(m, end - 1);
        if (last->fn == sg_bra)
            ok = take(m, (int64_t)end - 1 + last->imm, warm);
        bool through = !stops(last) ||
                       ((last->fn == sg_bra || last->fn == sg_exit || last->fn == sg_trap) && last->guard != SG_NONE);
        if (ok && through)
            ok = take(m, end, warm);
    }
    for (size_t k = n; k < m->block.n; k++)
        m->in[op_of(m, m->block.p[k])->x] = 0;
    m->block.n = n;
    return ok;
}

/* ---- ways out ---------------------------------------------------------------------------------------------------- */
static void back_to(struct template *m, size_t place) { sg_x86_set(&m->x, sg_x86_jcc(&m->x, CC_ALWAYS), place); }

static void unit_op(struct template *m, unsigned r, uint32_t i)
{
    sg_x86_mov_imm(&m->x, r, (uint64_t)(uintptr_t)op_of(m, i));
}

/* By the handler of operation i, whatever it is then. */
static void unit_leave(struct template *m, uint32_t i)
{
    unit_op(m, RSI, i);
    back_to(m, m->leave);
}

static void unit_go_to(struct template *m, int64_t i)
{
    if (i >= 0 && i < m->c->nop && begins(op_of(m, (uint32_t)i))) {
        uint32_t bb = op_of(m, (uint32_t)i)->x;
        if (m->in[bb]) {
            struct jump j = {sg_x86_jcc(&m->x, CC_ALWAYS), (uint32_t)i};
            if (!dt_push(&m->jump, j))
                m->failed = true;
            return;
        }
        if (m->bb[bb].inside) {
            sg_x86_mov_imm(&m->x, RAX, (uint64_t)(uintptr_t)m->bb[bb].inside);
            sg_x86_jump(&m->x, RAX);
            return;
        }
    }
    unit_leave(m, (uint32_t)i);
}

static void restore(struct template *m)
{
    static const uint8_t saved[] = {R15, R14, R13, R12, RBP, RBX};
    sg_x86_zero_upper(&m->x);
    sg_x86_load(&m->x, RSP, SG_AT(RSP, SAVED_SP), true);
    for (unsigned i = 0; i < sizeof saved; i++)
        sg_x86_pop(&m->x, saved[i]);
}

static void frame(struct template *m)
{
    struct sg_x86 *x = &m->x;
    static const uint8_t saved[] = {RBX, RBP, R12, R13, R14, R15};
    m->prologue = x->n; /* rcx: where to go on */
    for (unsigned i = 0; i < sizeof saved; i++)
        sg_x86_push(x, saved[i]);
    sg_x86_mov(x, RAX, RSP, true);
    sg_x86_alu_imm(x, X_SUB, RSP, FRAME, true);
    sg_x86_alu_imm(x, X_AND, RSP, -64, true);
    sg_x86_store(x, SG_AT(RSP, SAVED_SP), RAX, true);
    sg_x86_mov(x, RBX, RDI, true);
    sg_x86_load(x, RBP, SG_AT(RDI, offsetof(struct sg_warp, base)), true);
    sg_x86_alu_imm(x, X_ADD, RBP, m->t->bias, true);
    sg_x86_load(x, R12, SG_AT(RDI, offsetof(struct sg_warp, base) + sizeof(void *)), true);
    sg_x86_alu_imm(x, X_ADD, R12, TEMPLATE_BIAS, true);
    sg_x86_mov_imm(x, R13, (uint64_t)(uintptr_t)&sg_template_table);
    sg_x86_load(x, R14, SG_AT(RDI, offsetof(struct sg_warp, wk)), true);
    sg_x86_load(x, R15, SG_AT(RDI, offsetof(struct sg_warp, shared)), true);
    sg_x86_load(x, RAX, SG_AT(RDI, offsetof(struct sg_warp, shared_bytes)), true);
    sg_x86_alu_imm(x, X_SUB, RAX, 4, true);
    sg_x86_store(x, SG_AT(RSP, LIMIT_WORD_AT), RAX, false);
    for (unsigned i = 0; i < 3; i++) { /* shared bytes - 64 n + 1, or 0 */
        sg_x86_load(x, RAX, SG_AT(RDI, offsetof(struct sg_warp, shared_bytes)), true);
        sg_x86_alu_imm(x, X_SUB, RAX, (64 << i) - 1, true);
        size_t room = sg_x86_jcc(x, CC_AE);
        sg_x86_alu(x, X_XOR, RAX, RAX, false);
        sg_x86_here(x, room);
        sg_x86_store(x, SG_AT(RSP, LIMIT_AT + 8 * (int32_t)i), RAX, true);
    }
    sg_x86_jump(x, RCX);
    m->leave = x->n; /* rsi: an operation; its handler goes on */
    sg_x86_mov(x, RDI, RBX, true);
    restore(m);
    sg_x86_jump_mem(x, SG_AT(RSI, offsetof(struct sg_op, fn)));
    m->leave_returned = x->n; /* rax: what a handler returned */
    restore(m);
    sg_x86_ret(x);
}

/* ---- a block ----------------------------------------------------------------------------------------------------- */
static void unit_handler(struct template *m, uint32_t i)
{
    sg_x86_mov(&m->x, RDI, RBX, true);
    unit_op(m, RSI, i);
    sg_x86_zero_upper(&m->x);
    sg_x86_call_mem(&m->x, SG_AT(RSI, offsetof(struct sg_op, fn)));
    unit_op(m, RCX, i + 1);
    sg_x86_alu(&m->x, X_CMP, RAX, RCX, true);
    sg_x86_set(&m->x, sg_x86_jcc(&m->x, CC_NE), m->leave_returned);
}

/* mma that follow each other: one call. The last of them; 0: none is such. */
static uint32_t unit_products(struct template *m, uint32_t i, uint32_t end)
{
    struct sg_mma_plan p = {0};
    if (!m->masked)
        p = sg_mma_plan(m->c, op_of(m, i), op_of(m, end));
    if (!p.n)
        return 0;
    sg_x86_mov(&m->x, RDI, RBX, true);
    unit_op(m, RSI, i);
    sg_x86_mov_imm(&m->x, RDX, p.n | (uint64_t)p.same << 16 | (uint64_t)p.pair << 32 | (uint64_t)p.fresh << 48);
    sg_x86_mov_imm(&m->x, RCX, p.lay);
    sg_x86_zero_upper(&m->x);
    sg_x86_mov_imm(&m->x, RAX, (uint64_t)(uintptr_t)sg_mma_some);
    sg_x86_call(&m->x, RAX);
    return i + p.n - 1;
}

/* A warp some of whose lanes are inactive: others may have to run first, or meet it here. A whole one is elsewhere. */
static void unit_meet(struct template *m, uint32_t at)
{
    struct sg_x86 *x = &m->x;
    sg_x86_mem_imm(x, X_CMP, SG_AT(RBX, offsetof(struct sg_warp, nfrag)), 0, false);
    size_t none = sg_x86_jcc(x, CC_E);
    sg_x86_mov(x, RDI, RBX, true);
    unit_op(m, RSI, at);
    sg_x86_lea(x, RDX, SG_AT(RSP, KEEP_AT), true);
    sg_x86_zero_upper(x);
    sg_x86_mov_imm(x, RAX, (uint64_t)(uintptr_t)sg_template_switch);
    sg_x86_call(x, RAX);
    sg_x86_test(x, RAX, RAX, true);
    size_t leave = sg_x86_jcc(x, CC_E);
    sg_x86_jump(x, RAX);
    sg_x86_here(x, leave);
    sg_x86_load(x, RAX, SG_AT(RSP, KEEP_AT), true);
    back_to(m, m->leave_returned);
    sg_x86_here(x, none);
    if (sg_jit_mode() == SG_JIT_TEMPLATES_MASKED)
        return;
    sg_x86_mem_imm(x, X_CMP, SG_AT(RBX, offsetof(struct sg_warp, mask)), -1, false);
    size_t part = sg_x86_jcc(x, CC_NE);
    unit_leave(m, at);
    sg_x86_here(x, part);
}

static void count(struct template *m, uint32_t at)
{
    struct sg_x86 *x = &m->x;
    const struct sg_bb *b = &m->c->bb[op_of(m, at)->x];
    struct sg_x86_mem fuel = SG_AT(RBX, offsetof(struct sg_warp, fuel));
    int32_t times = (int32_t)(op_of(m, at)->x * sizeof(struct sg_times));
    sg_x86_mem_imm(x, X_CMP, fuel, 0, true);
    size_t some = sg_x86_jcc(x, CC_G);
    sg_x86_mov(x, RDI, RBX, true);
    unit_op(m, RSI, at);
    sg_x86_zero_upper(x);
    sg_x86_mov_imm(x, RAX, (uint64_t)(uintptr_t)sg_out_of_fuel);
    sg_x86_call(x, RAX);
    back_to(m, m->leave_returned);
    sg_x86_here(x, some);
    sg_x86_mem_imm(x, X_SUB, fuel, (int32_t)b->ops, true);
    sg_x86_load(x, RAX, SG_AT(R14, offsetof(struct sg_worker, bb)), true);
    struct sg_x86_mem lanes = SG_AT(RAX, times + (int32_t)offsetof(struct sg_times, lanes)),
                      executed = SG_AT(R14, offsetof(struct sg_worker, executed));
    sg_x86_mem_imm(x, X_ADD, SG_AT(RAX, times + (int32_t)offsetof(struct sg_times, warps)), 1, true);
    if (m->masked) {
        sg_x86_load(x, RCX, SG_AT(RBX, offsetof(struct sg_warp, mask)), false);
        sg_x86_mov(x, RDX, RCX, false);
        sg_x86_mem_imm(x, X_CMP, SG_AT(RBX, offsetof(struct sg_warp, full)), 0, false);
        size_t some_inactive = sg_x86_jcc(x, CC_E);
        sg_x86_mov_imm(x, RDX, SG_ALL);
        sg_x86_here(x, some_inactive);
        sg_x86_store(x, SG_AT(RSP, ROWS_AT), RDX, false);
        sg_x86_popcnt(x, RCX, RCX);
        sg_x86_alu_to(x, X_ADD, lanes, RCX, true);
        sg_x86_times(x, RCX, RCX, (int32_t)b->instructions);
        sg_x86_alu_to(x, X_ADD, executed, RCX, true);
    } else {
        sg_x86_mem_imm(x, X_ADD, lanes, SG_LANES, true);
        sg_x86_mem_imm(x, X_ADD, executed, (int32_t)(SG_LANES * b->instructions), true);
    }
    sg_x86_mem_imm(x, X_ADD, SG_AT(RBX, offsetof(struct sg_warp, issued)), (int32_t)b->instructions, true);
}

/* bra, exit and trap behind a predicate. */
static void parting(struct template *m, uint32_t i)
{
    const struct sg_op *op = op_of(m, i);
    struct sg_x86_mem mask = SG_AT(RBX, offsetof(struct sg_warp, mask));
    sg_x86_load(&m->x, RAX, sg_template_scalar(m, op->guard), false);
    if (op->flags & SG_GUARD_NOT)
        sg_x86_not(&m->x, RAX);
    if (m->masked)
        sg_x86_alu_mem(&m->x, X_AND, RAX, mask, false);
    sg_x86_test(&m->x, RAX, RAX, false);
    size_t some = sg_x86_jcc(&m->x, CC_NE);
    unit_go_to(m, (int64_t)i + 1);
    sg_x86_here(&m->x, some);
    if (op->fn == sg_bra) {
        if (m->masked)
            sg_x86_alu_mem(&m->x, X_CMP, RAX, mask, false);
        else
            sg_x86_alu_imm(&m->x, X_CMP, RAX, -1, false);
        size_t part = sg_x86_jcc(&m->x, CC_NE);
        unit_go_to(m, (int64_t)i + op->imm);
        sg_x86_here(&m->x, part);
    }
    unit_leave(m, i);
}

/* From operation i on the warp only exits: nobody looks at its rows any more. */
static bool unit_over(const struct template *m, int64_t i)
{
    if (m->masked || i < 0 || i >= m->c->nop)
        return false;
    i += begins(op_of(m, (uint32_t)i));
    return i < m->c->nop && op_of(m, (uint32_t)i)->fn == sg_exit && op_of(m, (uint32_t)i)->guard == SG_NONE;
}

static void unit_block(struct template *m, uint32_t from)
{
    uint32_t end = end_of(m, from);
    if (!sg_template_scan(m, from, end)) {
        m->failed = true;
        return;
    }
    sg_template_forget(m);
    if (m->masked)
        unit_meet(m, from);
    if (!dt_push(&m->behind, m->x.n))
        m->failed = true;
    count(m, from);
    for (uint32_t i = from + 1; i < end && !m->failed && !m->x.failed; i++) {
        const struct sg_op *op = op_of(m, i);
        sg_template_begin(m, i);
        if (stops(op)) {
            if (!unit_over(m, op->fn == sg_bra && op->guard == SG_NONE ? (int64_t)i + op->imm : (int64_t)i))
                sg_template_flush(m);
            if (op->fn == sg_bra && op->guard == SG_NONE)
                unit_go_to(m, (int64_t)i + op->imm);
            else if ((op->fn == sg_bra || op->fn == sg_exit || op->fn == sg_trap) && op->guard != SG_NONE)
                parting(m, i);
            else
                unit_leave(m, i);
            return;
        }
        int h = m->number.p[i - from];
        if (h >= 0 && h >= SG_H_LD_GLOBAL_8 && h <= SG_H_ST_SHARED_64) {
            sg_template_access(m, op, h);
        } else if (h < 0 || !sg_template_lane(m, op, h)) {
            sg_template_flush(m);
            sg_template_forget(m);
            uint32_t last = unit_products(m, i, end);
            if (!last)
                unit_handler(m, i);
            else
                i = last;
        }
    }
    if (!unit_over(m, end))
        sg_template_flush(m);
    unit_go_to(m, end);
}

/* Where an access was not simple: lane by lane, or all to memory, the handler, all back. */
static void unit_slow(struct template *m, const struct slow *s)
{
    for (unsigned i = 0; i < s->jumps; i++)
        sg_x86_here(&m->x, s->from[i]);
    m->nan = s->nan;
    if (s->plain)
        sg_template_plain(m, s);
    sg_template_save(m, s->slot, NO_KEY);
    unit_handler(m, s->op);
    for (unsigned i = 0; i < SLOTS; i++)
        if (s->slot[i].key != NO_KEY)
            sg_x86_vm(&m->x, V_LOADU32, i, 0, sg_template_place(m, s->slot[i].key), -1);
    m->nan = false;
    if (s->nan)
        sg_template_nan(m);
    sg_x86_set(&m->x, sg_x86_jcc(&m->x, CC_ALWAYS), s->to);
}

/* ---- the unit ---------------------------------------------------------------------------------------------------- */
/* rdi, rsi as a handler's. The stub of code for any lanes is called for blocks that are not followed. */
static void stub(struct template *m, size_t place)
{
    struct sg_x86 *x = &m->x;
    size_t no[2];
    if (m->masked) {
        sg_x86_set(x, sg_x86_lea_code(x, RCX), place);
        back_to(m, m->prologue);
        return;
    }
    sg_x86_mem_imm(x, X_CMP, SG_AT(RDI, offsetof(struct sg_warp, mask)), -1, false);
    no[0] = sg_x86_jcc(x, CC_NE);
    sg_x86_load(x, RAX, SG_AT(RDI, offsetof(struct sg_warp, blk)), true);
    sg_x86_mem_imm(x, X_CMP, SG_AT(RAX, offsetof(struct sg_block, follow)), 0, true);
    no[1] = sg_x86_jcc(x, CC_NE);
    sg_x86_set(x, sg_x86_lea_code(x, RCX), place);
    back_to(m, m->prologue);
    sg_fn other[2] = {sg_template_part, sg_isa()[SG_H_BB]};
    for (unsigned i = 0; i < 2; i++) {
        sg_x86_here(x, no[i]);
        sg_x86_mov_imm(x, RAX, (uint64_t)(uintptr_t)other[i]);
        sg_x86_jump(x, RAX);
    }
}

static void unit_write(struct template *m)
{
    frame(m);
    for (size_t i = 0; i < m->block.n && !m->failed; i++) {
        if (!dt_push(&m->place, m->x.n))
            m->failed = true;
        unit_block(m, m->block.p[i]);
    }
    for (size_t i = 0; i < m->slow.n && !m->failed; i++)
        unit_slow(m, &m->slow.p[i]);
    for (size_t i = 0; i < m->jump.n && !m->failed; i++)
        sg_x86_set(&m->x, m->jump.p[i].at, m->place.p[m->in[op_of(m, m->jump.p[i].bb)->x] - 1]);
}

static void unit_publish(struct template *m)
{
    struct dt_vec(size_t) entry = {0};
    for (size_t i = 0; i < m->block.n; i++) {
        if (!dt_push(&entry, m->x.n))
            m->failed = true;
        else
            stub(m, m->place.p[i]);
    }
    struct sg_object *o = NULL;
    uint8_t *at = m->failed || m->x.failed ? NULL : sg_object_code(m->x.p, m->x.n, &o);
    if (at && !dt_push(&m->t->object, o)) {
        sg_object_free(o);
        at = NULL;
    }
    if (at)
        m->t->bytes += m->x.n;
    else if (!m->failed && !m->x.failed)
        m->t->denied = true;
    for (size_t i = 0; at && i < m->block.n; i++) {
        struct sg_template_bb *b = &m->bb[op_of(m, m->block.p[i])->x];
        void *fn = at + entry.p[i];
        b->inside = at + m->place.p[i];
        __atomic_store_n(&b->behind, at + m->behind.p[i], __ATOMIC_RELEASE);
        __atomic_store_n((void **)(void *)&b->fn, fn, __ATOMIC_RELEASE);
    }
    free(entry.p);
}

bool sg_template_unit(const struct sg_code *c, struct sg_template *t, uint32_t op, uint32_t warm, bool masked,
                      struct sg_template_figures *ret)
{
    struct template m = {.c = c, .t = t, .bb = t->bb + (masked ? t->nbb : 0), .masked = masked};
    m.pieces[0] = c->reg_bytes / 64 + 2;
    m.pieces[1] = c->konst_bytes / 64 + 2;
    m.pieces[2] = SG_BLOCK_BYTES / 64 + 2;
    m.in = dt_calloc(c->nbb + 1, sizeof *m.in);
    m.failed = !m.in;
    for (unsigned b = 0; b < 3; b++) {
        m.piece[b] = dt_malloc(m.pieces[b] * sizeof *m.piece[b]);
        m.failed |= !m.piece[b];
        for (uint32_t i = 0; m.piece[b] && i < m.pieces[b]; i++)
            m.piece[b][i] = (struct piece){.slot = -1, .next = UINT32_MAX};
    }
    for (unsigned i = 0; i < SLOTS; i++)
        m.slot[i].key = NO_KEY;
    if (!m.failed && end_of(&m, op) - op < MOST_BLOCK && unit_gather(&m, op, warm) && m.block.n) {
        unit_write(&m);
        unit_publish(&m);
    }
    bool ok = m.bb[c->op[op].x].fn != NULL;
    *ret = (struct sg_template_figures){ok ? m.x.n : 0, ok ? m.ops : 0, ok ? m.block.n : 0};
    for (unsigned b = 0; b < 3; b++)
        free(m.piece[b]);
    free(m.in), free(m.x.p), free(m.occ.p), free(m.occ_of.p), free(m.number.p), free(m.block.p), free(m.place.p),
        free(m.behind.p), free(m.jump.p), free(m.slow.p);
    return ok;
}
