/* Decoding of accesses to memory and of addresses: ld st atom red cp.async prefetch, cvta isspacep mapa getctarank.
 *
 * A parameter of the kernel read at a constant offset is a launch constant, so that ld.param costs a move. Shared and
 * global accesses of 1 to 8 bytes have lane loops; generic ones try the global loop first and fall back by address;
 * local memory, parameters at computed offsets and 16-byte elements go lane by lane.
 *
 * This file also decides whether blocks may talk to each other (code->ordered): by volatile, relaxed, acquire or
 * release accesses, by atomics, unless all of them are one commuting integer operation whose results nobody reads, and
 * by fences (sync.c).
 */
#include "softgpu/decode/inst.h"

static void set_ordered(struct sg_dec *d, unsigned space)
{
    if (space != PTX_SHARED && space != PTX_SHARED_CLUSTER && space != PTX_LOCAL && space != PTX_PARAM &&
        !ptx_has(d->i, PTX_M_CTA) && !ptx_has(d->i, PTX_M_CLUSTER)) /* a cluster is run by one CPU thread */
        d->c->ordered = true;
}

/* enum sg_sem of an access, for the checking modes. */
static uint16_t sem(const struct ptx_inst *i, bool atomic)
{
    bool acquire = ptx_has(i, PTX_M_ACQUIRE) || ptx_has(i, PTX_M_ACQ_REL),
         release = ptx_has(i, PTX_M_RELEASE) || ptx_has(i, PTX_M_ACQ_REL);
    bool strong = atomic || acquire || release || ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) ||
                  ptx_has(i, PTX_M_MMIO);
    return (uint16_t)((strong ? SG_SEM_STRONG : 0) | (acquire ? SG_SEM_ACQUIRE : 0) | (release ? SG_SEM_RELEASE : 0) |
                      (ptx_has(i, PTX_M_CTA) ? SG_SEM_CTA : 0) |
                      (i->op == PTX_OP_ST_ASYNC || i->op == PTX_OP_RED_ASYNC ? SG_SEM_ASYNC : 0));
}

/* Is it an acquire or release that other blocks may see? Then it goes lane by lane: exec/talk.c wants to know. */
static bool talks(struct sg_dec *d, unsigned space, bool is_atomic)
{
    unsigned s = sem(d->i, is_atomic);
    if ((space != PTX_GLOBAL && space != PTX_GENERIC) || s & SG_SEM_CTA || !(s & (SG_SEM_ACQUIRE | SG_SEM_RELEASE)))
        return false;
    d->c->acquires |= (s & SG_SEM_ACQUIRE) != 0;
    d->c->releases |= (s & SG_SEM_RELEASE) != 0;
    d->c->talks = d->c->acquires && d->c->releases;
    return true;
}

int sg_decode_address(struct sg_dec *d, const struct ptx_opnd *o, struct sg_address *ret)
{
    if (o->kind != PTX_O_ADDR || o->n)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "a memory operand of this kind");
    if (o->base_kind == PTX_O_REG) {
        const struct ptx_reg *r = &d->f->reg[o->reg];
        struct ptx_opnd reg = {.kind = PTX_O_REG, .reg = o->reg, .comp = o->comp};
        bool wide = sg_width((enum ptx_type)r->type) == 8;
        ret->a = sg_source(d, &reg, wide ? PTX_U64 : PTX_U32);
        ret->imm = o->off;
        ret->flags = wide ? SG_A64 : 0;
        return 0;
    }
    uint64_t at = 0;
    if (o->base_kind == PTX_O_VAR && sg_var_address(d, o->var, &at) < 0)
        return d->c->error;
    if (o->base_kind == PTX_O_VAR && sg_in_frame(d, o->var)) {
        ret->a = d->fp;
        ret->imm = (int64_t)at + o->off;
        ret->flags = SG_A64;
        return 0;
    }
    ret->a = sg_konst(d, at + (uint64_t)o->off, true);
    ret->imm = 0;
    ret->flags = SG_A64;
    return 0;
}

/* The space in which an access really happens: .param of a device function, or of a call, is thread-local. */
unsigned sg_real_space(struct sg_dec *d, const struct ptx_opnd *o, unsigned space)
{
    if (space == PTX_GENERIC && o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR) {
        unsigned s = o->var->space; /* ld.u32 %r, [sym]: the variable's own space */
        return s == PTX_PARAM && !sg_is_kernel_param(d, o->var) ? PTX_LOCAL : s;
    }
    if (space != PTX_PARAM && space != PTX_PARAM_FUNC)
        return space;
    if (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)
        return sg_is_kernel_param(d, o->var) ? PTX_PARAM : PTX_LOCAL;
    return d->f->is_entry ? PTX_PARAM : PTX_LOCAL;
}

static uint32_t param_row(struct sg_dec *d, uint32_t from, uint32_t bytes, bool sign, bool wide, bool narrow)
{
    for (size_t i = 0; i < d->param.n; i++) {
        const struct sg_param_copy *p = &d->param.p[i];
        if (p->from == from && p->bytes == bytes && p->sign == sign && p->wide == wide && p->narrow == narrow)
            return p->to | 1;
    }
    size_t at = d->konst.n, n = wide ? 256 : 128;
    if (!dt_reserve(&d->konst, at + n)) {
        d->nomem = true;
        return SG_K_ZERO64 | 1;
    }
    for (size_t i = 0; i < n; i++)
        d->konst.p[at + i] = 0;
    d->konst.n += n;
    if (!dt_push(&d->param, (struct sg_param_copy){from, bytes, (uint32_t)at, sign, wide, narrow}))
        d->nomem = true;
    return (uint32_t)at | 1;
}

uint32_t sg_param_row(struct sg_dec *d, uint32_t from, uint32_t bytes)
{
    return param_row(d, from, bytes, false, bytes == 8, false);
}

static const struct ptx_opnd *element(const struct ptx_opnd *o, unsigned e)
{
    return o->kind == PTX_O_VEC ? &o->elem[e] : o;
}

static unsigned reg_bytes(const struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t)
{
    unsigned n = o->kind == PTX_O_REG ? ptx_type_bytes((enum ptx_type)d->f->reg[o->reg].type) : ptx_type_bytes(t);
    return n;
}

static uint32_t any_dest(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t)
{
    enum ptx_type as = o->kind == PTX_O_REG ? (enum ptx_type)d->f->reg[o->reg].type : t;
    if (as == PTX_PRED) {
        sg_dec_error(d, DT_E_UNSUPPORTED, "a load into a predicate");
        return d->temp;
    }
    return sg_dest(d, o, as);
}

static unsigned lane_handler(unsigned base8, unsigned bytes)
{
    return base8 + (bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3);
}

static int memory_load(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    const struct ptx_opnd *to = &i->opnd[0], *from = &i->opnd[1];
    enum ptx_type t = (enum ptx_type)i->type[0];
    unsigned space = sg_real_space(d, from, i->space), bytes = ptx_type_bytes(t), n = to->kind == PTX_O_VEC ? to->n : 1;
    if (n != (i->vec ? i->vec : 1u) || !bytes || n > 8)
        return sg_dec_error(d, DT_E_PTX, "ld with %u destinations", n);
    if (ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) || ptx_has(i, PTX_M_ACQUIRE) || ptx_has(i, PTX_M_MMIO))
        set_ordered(d, space);
    const struct ptx_opnd *e0 = element(to, 0);
    unsigned have = reg_bytes(d, e0, t);
    bool sign = ptx_type_is_signed(t), wide = have == 8 && bytes < 8, narrow = have <= 2 && bytes < 2;
    for (unsigned e = 1; e < n; e++)
        if (element(to, e)->kind == PTX_O_REG && e0->kind == PTX_O_REG && reg_bytes(d, element(to, e), t) != have)
            return sg_dec_error(d, DT_E_UNSUPPORTED, "a vector of registers of different widths");
    if (e0->kind == PTX_O_SINK)
        for (unsigned e = 0; e < n; e++)
            if (element(to, e)->kind == PTX_O_REG) {
                have = reg_bytes(d, element(to, e), t);
                wide = have == 8 && bytes < 8;
                narrow = have <= 2 && bytes < 2;
            }
    if (have < bytes)
        return sg_dec_error(d, DT_E_PTX, "ld into a register narrower than its type");

    if (space == PTX_PARAM && from->base_kind == PTX_O_VAR && bytes <= 8) {
        uint64_t at;
        sg_var_address(d, from->var, &at);
        at += (uint64_t)from->off;
        uint64_t total = d->k->info.param_total;
        if (at > total || (uint64_t)bytes * n > total - at)
            return sg_dec_error(d, DT_E_BOUNDS, "ld.param at offset %llu of %llu parameter bytes",
                                (unsigned long long)at, (unsigned long long)total);
        for (unsigned e = 0; e < n; e++) {
            uint32_t a = param_row(d, (uint32_t)at + e * bytes, bytes, sign, wide || bytes == 8, narrow);
            if (sg_alias(d, element(to, e), wide || bytes == 8 ? PTX_U64 : PTX_U32, a))
                continue;
            uint32_t dst = any_dest(d, element(to, e), t);
            struct sg_op *op = sg_emit_h(d, wide || bytes == 8 ? SG_H_MOV_u64 : SG_H_MOV_u32);
            op->d = dst;
            op->a = a;
        }
        return 0;
    }
    struct sg_address ad;
    int r = sg_decode_address(d, from, &ad);
    if (r < 0)
        return r;
    uint32_t dst = SG_NONE, x = (uint32_t)d->ext.n;
    if (n == 1)
        dst = any_dest(d, e0, t);
    else
        for (unsigned e = 0; e < n; e++)
            sg_ext(d, any_dest(d, element(to, e), t));
    sg_fn fn = sg_load_slow;
    bool slow = d->checked || talks(d, space, false);
    uint16_t sinks = 0;
    for (unsigned e = 0; e < n; e++)
        sinks |= (uint16_t)((element(to, e)->kind == PTX_O_SINK) << e);
    if (bytes <= 8 && space == PTX_SHARED && !d->checked)
        fn = d->h[lane_handler(SG_H_LD_SHARED_8, bytes)];
    else if (bytes <= 8 && !slow && (space == PTX_GLOBAL || space == PTX_CONST || space == PTX_GENERIC))
        fn = d->h[lane_handler(SG_H_LD_GLOBAL_8, bytes)];
    struct sg_op *op = sg_emit(d, fn);
    op->d = dst;
    op->a = ad.a;
    op->imm = ad.imm;
    op->flags |= (uint8_t)(ad.flags | (sign ? SG_SIGNED : 0) | (wide ? SG_D64 : 0));
    op->x = x;
    op->site = d->nsite++;
    op->size = (uint8_t)bytes;
    op->n = (uint8_t)n;
    op->space = (uint8_t)space;
    op->type = narrow ? 2 : 0;
    op->rnd = (uint16_t)(sem(i, false) | sinks << 8);
    return 0;
}

static int memory_store(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    const struct ptx_opnd *to = &i->opnd[0], *from = &i->opnd[1];
    enum ptx_type t = (enum ptx_type)i->type[0];
    unsigned space = sg_real_space(d, to, i->space), bytes = ptx_type_bytes(t),
             n = from->kind == PTX_O_VEC ? from->n : 1;
    if (n != (i->vec ? i->vec : 1u) || !bytes || n > 8)
        return sg_dec_error(d, DT_E_PTX, "st with %u sources", n);
    if (ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) || ptx_has(i, PTX_M_RELEASE) || ptx_has(i, PTX_M_MMIO))
        set_ordered(d, space);
    struct sg_address ad;
    int r = sg_decode_address(d, to, &ad);
    if (r < 0)
        return r;
    uint32_t src[8];
    for (unsigned e = 0; e < n; e++)
        src[e] = sg_source(d, element(from, e), t);
    uint32_t x = (uint32_t)d->ext.n;
    for (unsigned e = 0; n > 1 && e < n; e++)
        sg_ext(d, src[e]);
    sg_fn fn = sg_store_slow;
    bool slow = d->checked || talks(d, space, false);
    if (bytes <= 8 && space == PTX_SHARED && !d->checked)
        fn = d->h[lane_handler(SG_H_ST_SHARED_8, bytes)];
    else if (bytes <= 8 && !slow && (space == PTX_GLOBAL || space == PTX_GENERIC))
        fn = d->h[lane_handler(SG_H_ST_GLOBAL_8, bytes)];
    struct sg_op *op = sg_emit(d, fn);
    op->b = src[0];
    op->a = ad.a;
    op->imm = ad.imm;
    op->flags |= ad.flags;
    op->x = x;
    op->site = d->nsite++;
    op->size = (uint8_t)bytes;
    op->n = (uint8_t)n;
    op->space = (uint8_t)space;
    op->rnd = sem(i, false);
    return 0;
}

/* A hint, but the timing model wants to know what is fetched into the L2. */
static int prefetch(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    unsigned space = sg_real_space(d, &i->opnd[0], i->space);
    if ((!ptx_has(i, PTX_M_L2) && !ptx_has(i, PTX_M_L2_LAST) && !ptx_has(i, PTX_M_L2_NORMAL)) ||
        (space != PTX_GLOBAL && space != PTX_GENERIC))
        return 0;
    struct sg_address ad;
    int r = sg_decode_address(d, &i->opnd[0], &ad);
    if (r < 0)
        return r;
    struct sg_op *op = sg_emit(d, sg_prefetch);
    op->a = ad.a;
    op->imm = ad.imm;
    op->flags |= ad.flags;
    op->space = (uint8_t)space;
    d->c->prefetches = true;
    return 0;
}

static bool memory_commutes(enum ptx_mod m)
{
    return m == PTX_M_ADD || m == PTX_M_MIN || m == PTX_M_MAX || m == PTX_M_AND || m == PTX_M_OR || m == PTX_M_XOR;
}

/* Are all global atomics of the kernel so far the same integer operation? Then, their results unused, the order of
 * blocks cannot show in what they leave behind, and blocks may run at once. */
static bool in_common(struct sg_dec *d, enum ptx_mod m, unsigned bytes, bool sign)
{
    struct sg_commuting *c = &d->commuting;
    sign = sign && (m == PTX_M_MIN || m == PTX_M_MAX);
    if (!c->bytes)
        *c = (struct sg_commuting){m, bytes, sign};
    return c->mod == m && c->bytes == bytes && c->sign == sign;
}

static int atomic(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    bool red = i->op != PTX_OP_ATOM;
    const struct ptx_opnd *to = &i->opnd[red ? 0 : 1], *b = to + 1;
    enum ptx_type t = (enum ptx_type)i->type[0];
    unsigned bytes = ptx_type_bytes(t), n = b->kind == PTX_O_VEC ? b->n : 1;
    enum ptx_mod m = ptx_mod_of(i, PTX_MC_ATOM);
    if (m == PTX_M_NONE)
        m = ptx_mod_of(i, PTX_MC_BOOL);
    bool flt = ptx_type_is_float(t), ok = m != PTX_M_NONE && bytes && n <= 8 && to + 1 < i->opnd + i->nopnd;
    if (flt && m != PTX_M_ADD && m != PTX_M_EXCH &&
        !((m == PTX_M_MIN || m == PTX_M_MAX) && t != PTX_F32 && t != PTX_F64))
        ok = false;
    if (bytes == 16 && m != PTX_M_EXCH && m != PTX_M_CAS)
        ok = false;
    if (m == PTX_M_CAS && (n != 1 || b + 1 >= i->opnd + i->nopnd))
        ok = false;
    if (!ok)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "this form of %s", red ? "red" : "atom");
    bool unused = red || (n == 1 && (i->opnd[0].kind == PTX_O_SINK ||
                                     (i->opnd[0].kind == PTX_O_REG && !(d->use[i->opnd[0].reg] & SG_USE_READ))));
    bool plain = unused && n == 1 && !flt && (bytes == 4 || bytes == 8) && memory_commutes(m);
    if (i->space != PTX_SHARED && i->space != PTX_SHARED_CLUSTER &&
        !(plain && in_common(d, m, bytes, ptx_type_is_signed(t))))
        d->c->ordered = true;
    struct sg_address ad;
    int r = sg_decode_address(d, to, &ad);
    if (r < 0)
        return r;
    uint32_t src[8], dst[8], cas = SG_NONE;
    for (unsigned e = 0; e < n; e++) {
        src[e] = sg_source(d, element(b, e), t);
        if (!unused) {
            const struct ptx_opnd *o = element(&i->opnd[0], e);
            dst[e] = sg_dest(d, o, t);
        }
    }
    if (m == PTX_M_CAS)
        cas = sg_source(d, b + 1, t);
    uint32_t x = sg_ext(d, cas);
    for (unsigned e = 0; n > 1 && e < n; e++)
        sg_ext(d, unused ? SG_NONE : dst[e]);
    for (unsigned e = 0; n > 1 && e < n; e++)
        sg_ext(d, src[e]);
    sg_fn fn = sg_atomic;
    bool slow = d->checked || talks(d, i->space, true);
    if (plain && !d->checked && i->space == PTX_SHARED)
        fn = d->h[bytes == 4 ? SG_H_RED_SHARED_32 : SG_H_RED_SHARED_64];
    else if (plain && !slow && (i->space == PTX_GLOBAL || i->space == PTX_GENERIC))
        fn = d->h[bytes == 4 ? SG_H_RED_GLOBAL_32 : SG_H_RED_GLOBAL_64];
    struct sg_op *op = sg_emit(d, fn);
    op->d = unused ? SG_NONE : dst[0];
    op->a = ad.a;
    op->b = src[0];
    op->imm = ad.imm;
    op->flags |= (uint8_t)(ad.flags | (unused ? SG_NO_RESULT : 0) | (plain && ptx_type_is_signed(t) ? SG_SIGNED : 0));
    op->x = x;
    op->site = d->nsite++;
    op->size = (uint8_t)bytes;
    op->n = (uint8_t)n;
    op->space = i->space;
    op->sub = (uint8_t)(m - PTX_M_ADD); /* sg_atomic() adds it again: modifiers have more than 8 bits */
    op->type = (uint8_t)t;
    op->rnd = sem(i, true);
    return 0;
}

/* st.async, red.async: the access, and its bytes off the mbarrier's tx-count. The forms on global memory have no
 * mbarrier. */
static int async(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    bool tx = ptx_has(i, PTX_M_COMPLETE_TX);
    if (tx != (i->nopnd > 2) || tx != (i->space != PTX_GLOBAL))
        return sg_dec_error(d, DT_E_PTX, "an mbarrier goes with shared memory and .mbarrier::complete_tx::bytes");
    int r = i->op == PTX_OP_ST_ASYNC ? memory_store(d) : atomic(d);
    if (r < 0 || i->nopnd < 3)
        return r;
    struct sg_address to, bar;
    if ((r = sg_decode_address(d, &i->opnd[0], &to)) < 0 || (r = sg_decode_address(d, &i->opnd[2], &bar)) < 0)
        return r;
    uint32_t n = sg_konst(d, ptx_type_bytes((enum ptx_type)i->type[0]) * (i->vec ? i->vec : 1u), false),
             x = sg_ext(d, to.a);
    sg_ext(d, to.flags);
    sg_ext(d, (uint32_t)to.imm); /* ranks are above the low 24 bits: an offset cannot be so large */
    struct sg_op *op = sg_emit(d, sg_same_block);
    op->a = bar.a;
    op->imm = bar.imm;
    op->flags |= bar.flags;
    op->x = x;
    op->space = i->space;
    op = sg_emit(d, sg_mbarrier);
    op->a = bar.a;
    op->imm = bar.imm;
    op->flags |= bar.flags;
    op->b = n;
    op->d = SG_NONE;
    op->sub = SG_MB_COMPLETE_TX;
    op->site = d->nsite++;
    op->size = 8;
    op->n = 2; /* of an asynchronous operation */
    op->space = i->space;
    return 0;
}

/* cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size or ignore-src}{, policy}; */
static int cp_async(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    const struct ptx_opnd *size = &i->opnd[2];
    if (i->nopnd < 3 || size->kind != PTX_O_IMM || (size->bits != 4 && size->bits != 8 && size->bits != 16))
        return sg_dec_error(d, DT_E_UNSUPPORTED, "cp.async of this size");
    struct sg_address to, from;
    int r = sg_decode_address(d, &i->opnd[0], &to);
    if (r < 0 || (r = sg_decode_address(d, &i->opnd[1], &from)) < 0)
        return r;
    if (!(from.flags & SG_A64) || from.imm != (int32_t)from.imm)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "cp.async from a 32-bit address");
    uint32_t src_size = SG_NONE;
    const struct ptx_opnd *o = ptx_cp_async_source(i);
    if (o) {
        if (o->kind == PTX_O_REG && d->f->reg[o->reg].type == PTX_PRED) { /* ignore-src: nothing is read */
            bool neg;
            uint32_t p = sg_pred(d, o, &neg), t = sg_temp(d), zero = sg_konst(d, 0, false),
                     all = sg_konst(d, size->bits, false);
            struct sg_op *op = sg_emit_h(d, SG_H_SELP_u32);
            op->d = t;
            op->a = neg ? all : zero;
            op->b = neg ? zero : all;
            op->c = p;
            src_size = t;
        } else {
            src_size = sg_source(d, o, PTX_U32);
        }
    }
    uint32_t x = sg_ext(d, src_size);
    sg_ext(d, (uint32_t)(int32_t)from.imm);
    struct sg_op *op = sg_emit(d, sg_cp_async);
    op->a = to.a;
    op->imm = to.imm;
    op->flags |= to.flags;
    op->b = from.a;
    op->x = x;
    op->site = d->nsite++;
    op->size = (uint8_t)size->bits;
    op->space = PTX_SHARED;
    return 0;
}

static uint64_t window(unsigned space)
{
    return space == PTX_SHARED || space == PTX_SHARED_CLUSTER ? SG_WINDOW_SHARED
           : space == PTX_LOCAL                               ? SG_WINDOW_LOCAL
           : space == PTX_PARAM || space == PTX_PARAM_FUNC    ? SG_WINDOW_PARAM
                                                              : 0;
}

static int cvta(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint64_t win = window(i->space);
    if (ptx_type_bytes((enum ptx_type)i->type[0]) != 8)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "32-bit addresses");
    if (!d->f->is_entry && win == SG_WINDOW_PARAM)
        win = SG_WINDOW_LOCAL;
    uint32_t a = sg_source(d, &i->opnd[1], PTX_U64);
    if (!win && sg_alias(d, &i->opnd[0], PTX_U64, a))
        return 0;
    uint32_t dst = sg_dest(d, &i->opnd[0], PTX_U64), b = win ? sg_konst(d, win, true) : 0;
    struct sg_op *op = sg_emit_h(d, !win ? SG_H_MOV_u64 : ptx_has(i, PTX_M_TO) ? SG_H_SUB_u64 : SG_H_ADD_u64);
    op->d = dst;
    op->a = a;
    op->b = b;
    return 0;
}

static int isspacep(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint32_t a = sg_source(d, &i->opnd[1], PTX_U64), t = sg_temp(d), p = sg_pred_dest(d, &i->opnd[0]);
    if (i->space == PTX_SHARED) {
        struct sg_op *own = sg_emit(d, sg_isspacep_cta);
        own->d = p;
        own->a = a;
        own->flags |= SG_A64;
        return 0;
    }
    uint64_t want = i->space == PTX_CONST ? 255 : window(i->space) >> SG_WINDOW_SHIFT;
    uint32_t shift = sg_konst(d, SG_WINDOW_SHIFT, false), k = sg_konst(d, want, true);
    struct sg_op *op = sg_emit_h(d, SG_H_SHR_u64);
    op->d = t;
    op->a = a;
    op->b = shift;
    op = sg_emit_h(d, SG_H_EQ_u64);
    op->d = p;
    op->a = t;
    op->b = k;
    /* the constants' window: the module's variables of that space, which lie in global memory (p: in none so far, in
     * one so far) */
    const struct ptx_module *m = d->k->module->ptx;
    bool constants = i->space == PTX_CONST;
    for (uint32_t v = 0; v < m->nvar && (constants || i->space == PTX_GLOBAL); v++) {
        uint64_t at = m->var[v]->space == PTX_CONST ? sg_module_var(d->k->module, m->var[v]) : 0;
        if (!at)
            continue;
        uint32_t base = sg_konst(d, at, true), size = sg_konst(d, m->var[v]->bytes, true), from = sg_temp(d);
        op = sg_emit_h(d, SG_H_SUB_u64);
        op->d = from;
        op->a = a;
        op->b = base;
        op = sg_emit_h(d, constants ? SG_H_LT_u64 : SG_H_GE_u64);
        op->d = op->c = p;
        op->a = from;
        op->b = size;
        op->sub = constants ? 2 : 1;
    }
    return 0;
}

int sg_decode_memory(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU: return memory_load(d);
    case PTX_OP_ST: return memory_store(d);
    case PTX_OP_ATOM:
    case PTX_OP_RED: return atomic(d);
    case PTX_OP_ST_ASYNC:
    case PTX_OP_RED_ASYNC: return async(d);
    case PTX_OP_CP_ASYNC: return cp_async(d);
    case PTX_OP_CVTA: return cvta(d);
    case PTX_OP_ISSPACEP: return isspacep(d);
    case PTX_OP_MAPA: {
        enum ptx_type t = (enum ptx_type)i->type[0];
        uint32_t a = sg_source(d, &i->opnd[1], t), b = sg_source(d, &i->opnd[2], PTX_U32),
                 dst = sg_dest(d, &i->opnd[0], t);
        struct sg_op *op = sg_emit(d, sg_mapa);
        op->d = dst;
        op->a = a;
        op->b = b;
        op->flags |= sg_width(t) == 8 ? SG_A64 : 0;
        return 0;
    }
    case PTX_OP_GETCTARANK: {
        uint32_t a = sg_source(d, &i->opnd[1], (enum ptx_type)i->type[0]), dst = sg_dest(d, &i->opnd[0], PTX_U32);
        struct sg_op *op = sg_emit(d, sg_getctarank);
        op->d = dst;
        op->a = a;
        op->flags |= sg_width((enum ptx_type)i->type[0]) == 8 ? SG_A64 : 0;
        return 0;
    }
    case PTX_OP_CREATEPOLICY_FRACTIONAL:
    case PTX_OP_CREATEPOLICY_RANGE:
    case PTX_OP_CREATEPOLICY_CVT: {
        uint32_t t = sg_dest(d, &i->opnd[0], PTX_B64);
        struct sg_op *op = sg_emit_h(d, SG_H_MOV_u64);
        op->d = t;
        op->a = SG_K_ZERO64 | 1;
        return 0;
    }
    case PTX_OP_PREFETCH: return prefetch(d);
    /* hints */
    case PTX_OP_PREFETCHU:
    case PTX_OP_APPLYPRIORITY:
    case PTX_OP_DISCARD: return 0;
    default: return SG_ELSEWHERE;
    }
}
