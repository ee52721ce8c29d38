/* What buffers hold: the type of their elements, and whether their values may decide addresses, trip counts or
 * branches.
 *
 * The type. A buffer with a fill has the fill's type. Otherwise the kernels tell. A load of a float type gives that
 * type. What is loaded as bits or as an unsigned number has the type that it is used as: registers are followed
 * backwards, from the instructions that compute, through moves, selections and shuffles (types()). 16 bits that become
 * an f32 are a bf16. What goes through shared memory has the types that are loaded from there. A tensor map names its
 * type. If float types disagree, or nothing is found, the type is unknown.
 *
 * What values decide. For each register of an entry there is a set of arguments: those whose contents may have gone
 * into the register's value. The sets are flow-insensitive, as those of facts/prov.c are for addresses. A load brings
 * the contents of what its address may reach. Shared and local memory are one cell. A call or an unknown instruction
 * mixes everything, and its operands count as addresses. The arguments of a register that is used as an address decide
 * addresses. Those of a branch's condition decide branches, and also trip counts if the branch is in a loop, which is
 * any stretch from a backward branch's target to that branch. What one launch stores is contents for others. So the
 * flags are carried from buffer to buffer over the whole graph, in any order of launches, until nothing changes.
 *
 * Control is not followed: where a branch chooses between numbers, the result is one of those numbers, and does not
 * count as made of the condition.
 */
#include "rewrite/gate/special.h"

#include <stdlib.h>
#include <string.h>

#define BITS 64 /* bits of a set: arguments 0 … 61, RW_PROV_LOCAL (module variables), RW_PROV_OTHER */

struct facts { /* about an entry, for launches whose arguments are alike */
    const struct ptx_function *f;
    const struct dt_launch *like;
    uint64_t address, trip, branch; /* arguments whose contents may reach one */
    uint64_t into[BITS];            /* by argument: the arguments whose contents may be stored there */
    uint32_t kind[BITS];            /* by argument: bits of enum rw_kind that its elements are used as */
};

struct reader {
    const struct ptx_function *f;
    struct rw_body body; /* for rw_prov_of */
    struct facts *out;
    uint64_t *value; /* by register: arguments whose contents may have gone into its value */
    uint32_t *used;  /* by register: bits of enum rw_kind that its value is used as */
    uint64_t cell;   /* the same for shared and local memory */
    uint32_t shared; /* what is loaded from shared and local memory is used as */
    bool *loop;      /* by instruction: it is in a loop */
    /* of the instruction that is looked at */
    uint64_t in, give;
    uint32_t in_kind, give_kind;
    bool changed, giving;
};

static uint32_t bit(enum rw_kind k) { return UINT32_C(1) << k; }
#define FLOATS                                                                                                         \
    (bit(RW_KIND_F64) | bit(RW_KIND_F32) | bit(RW_KIND_F16) | bit(RW_KIND_BF16) | bit(RW_KIND_E4M3) | bit(RW_KIND_E5M2))

unsigned rw_kind_bytes(enum rw_kind k)
{
    static const uint8_t size[RW_KINDS] = {8, 8, 4, 2, 2, 1, 1, 8, 4, 2, 1};
    return size[k];
}

static uint32_t kind_of_type(unsigned t)
{
    switch (t) {
    case PTX_F64: return bit(RW_KIND_F64);
    case PTX_F32:
    case PTX_TF32:
    case PTX_F32X2: return bit(RW_KIND_F32);
    case PTX_F16:
    case PTX_F16X2: return bit(RW_KIND_F16);
    case PTX_BF16:
    case PTX_BF16X2: return bit(RW_KIND_BF16);
    case PTX_E4M3:
    case PTX_E4M3X2:
    case PTX_E4M3X4: return bit(RW_KIND_E4M3);
    case PTX_E5M2:
    case PTX_E5M2X2:
    case PTX_E5M2X4: return bit(RW_KIND_E5M2);
    case PTX_U64:
    case PTX_S64: return bit(RW_KIND_I64);
    case PTX_U32:
    case PTX_S32: return bit(RW_KIND_I32);
    case PTX_U16:
    case PTX_S16:
    case PTX_U16X2:
    case PTX_S16X2: return bit(RW_KIND_I16);
    case PTX_U8:
    case PTX_S8: return bit(RW_KIND_I8);
    default: return 0;
    }
}

static bool contents_plain(const struct ptx_inst *i)
{
    return i->op != PTX_OP_LABEL && i->op != PTX_OP_PRAGMA && i->op != PTX_OP_BRANCHTARGETS &&
           i->op != PTX_OP_CALLPROTO;
}

/* ---- what registers are used as ---------------------------------------------------------------------------------- */

static bool passes(const struct ptx_inst *i)
{
    return i->op == PTX_OP_MOV || i->op == PTX_OP_SELP || i->op == PTX_OP_SHFL || i->op == PTX_OP_PRMT ||
           i->op == PTX_OP_SLCT || i->op == PTX_OP_MOVMATRIX;
}

static bool matrix(const struct ptx_inst *i)
{
    return i->op == PTX_OP_MMA || i->op == PTX_OP_MMA_SP || i->op == PTX_OP_MMA_SP_ORDERED ||
           i->op == PTX_OP_WMMA_MMA || i->op == PTX_OP_WGMMA_MMA_ASYNC;
}

/* The kind that the instruction uses operand `at` as. */
static uint32_t operand_kind(const struct ptx_inst *i, unsigned at)
{
    if (!i->ntype)
        return 0;
    if (matrix(i)) { /* operands d a b c; with fewer than three types a and b are f16 */
        if (i->ntype < 3)
            return at == 1 || at == 2 ? bit(RW_KIND_F16) : kind_of_type(i->type[i->ntype - 1]);
        return at < i->ntype ? kind_of_type(i->type[at]) : 0;
    }
    const char *shape = ptx_op_info(i->op)->shape;
    for (unsigned k = 0; *shape; shape++) {
        if (*shape == '?' || (*shape == 'q' && !i->dst2))
            continue;
        if (k++ == at)
            return *shape == 't' || *shape == 'z'                 ? kind_of_type(i->type[i->ntype - 1])
                   : strchr("suydxwWDR", *shape) && *shape != 'u' ? kind_of_type(i->type[0])
                                                                  : 0;
    }
    return 0;
}

static void use(struct reader *r, uint32_t reg, uint32_t kind)
{
    if (reg < r->f->nreg && (r->used[reg] | kind) != r->used[reg]) {
        r->used[reg] |= kind;
        r->changed = true;
    }
}

static void use_operand(struct reader *r, const struct ptx_opnd *o, uint32_t kind)
{
    if (o->kind == PTX_O_REG)
        use(r, o->reg, kind);
    for (unsigned k = 0; o->kind == PTX_O_VEC && k < o->n; k++)
        use_operand(r, &o->elem[k], kind);
}

static void kind_of_reg(uint32_t reg, bool write, void *user)
{
    struct reader *r = user;
    if (reg >= r->f->nreg)
        return;
    if (!r->giving && write)
        r->in_kind |= r->used[reg];
    else if (r->giving && !write && r->f->reg[reg].type != PTX_PRED)
        use(r, reg, r->in_kind);
}

static bool through_shared(const struct ptx_inst *i)
{
    return i->space == PTX_SHARED || i->space == PTX_SHARED_CLUSTER || i->space == PTX_LOCAL || i->space == PTX_GENERIC;
}

static void types(struct reader *r)
{
    const struct ptx_function *f = r->f;
    do {
        r->changed = false;
        for (uint32_t n = f->ninst; n-- > 0;) {
            const struct ptx_inst *i = &f->inst[n];
            unsigned flags = ptx_op_info(i->op)->flags;
            if (!contents_plain(i) || i->op == PTX_OP_OPAQUE || flags & PTX_F_CALL)
                continue;
            if (passes(i)) {
                r->in_kind = 0;
                r->giving = false;
                ptx_inst_regs(i, kind_of_reg, r);
                r->giving = true;
                ptx_inst_regs(i, kind_of_reg, r);
            }
            for (unsigned k = flags & PTX_F_NODST ? 0 : 1 + i->dst2; k < i->nopnd; k++)
                use_operand(r, &i->opnd[k], operand_kind(i, k));
            if (i->op == PTX_OP_WGMMA_MMA_ASYNC && i->ntype > 2)
                r->shared |= kind_of_type(i->type[1]) | kind_of_type(i->type[2]);
            if (flags & PTX_F_READS && through_shared(i)) {
                r->in_kind = i->ntype ? kind_of_type(i->type[0]) & FLOATS : 0;
                r->giving = false;
                ptx_inst_regs(i, kind_of_reg, r);
                r->shared |= r->in_kind;
            }
        }
    } while (r->changed);
}

/* ---- what goes into registers ------------------------------------------------------------------------------------ */

static void value_of_reg(uint32_t reg, bool write, void *user)
{
    struct reader *r = user;
    if (reg >= r->f->nreg)
        return;
    if (!r->giving && !write)
        r->in |= r->value[reg];
    if (r->giving && write && (r->value[reg] | r->give) != r->value[reg]) {
        r->value[reg] |= r->give;
        r->changed = true;
    }
}

static uint64_t read_value(const struct reader *r, const struct ptx_opnd *o)
{
    uint64_t m = 0;
    if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        m |= o->reg < r->f->nreg ? r->value[o->reg] : 0;
    for (unsigned k = 0; (o->kind == PTX_O_VEC || o->kind == PTX_O_ADDR) && k < o->n; k++)
        m |= read_value(r, &o->elem[k]);
    return m;
}

static void contents_join(struct reader *r, uint64_t *to, uint64_t from)
{
    if ((*to | from) != *to) {
        *to |= from;
        r->changed = true;
    }
}

static void contents_store(struct reader *r, uint64_t where, uint64_t what)
{
    for (unsigned b = 0; b < BITS; b++)
        if (where >> b & 1)
            contents_join(r, &r->out->into[b], what);
}

static bool own_param(const struct reader *r, const struct ptx_inst *i)
{
    const struct ptx_opnd *o = i->nopnd > 1 ? &i->opnd[1] : NULL;
    for (uint32_t k = 0; o && o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR && k < r->f->nparam; k++)
        if (r->f->param[k] == o->var)
            return true;
    return false;
}

/* ld, ldu, st, atom, red: follow what is loaded and what is stored. */
static void simple(struct reader *r, const struct ptx_inst *i, unsigned flags)
{
    uint64_t values = 0, loaded = 0;
    bool far = i->space == PTX_GLOBAL || i->space == PTX_GENERIC || i->space == PTX_CONST,
         near = i->space != PTX_GLOBAL && i->space != PTX_CONST;
    uint64_t where = far ? rw_prov_of(&r->body, i) : 0;
    for (unsigned k = 0; k < i->nopnd; k++) {
        if (i->opnd[k].kind == PTX_O_ADDR)
            contents_join(r, &r->out->address, read_value(r, &i->opnd[k]));
        else if (k || flags & PTX_F_NODST)
            values |= read_value(r, &i->opnd[k]);
    }
    if (flags & PTX_F_READS)
        loaded = i->space == PTX_PARAM && own_param(r, i) ? 0 : (far ? where : 0) | (near ? r->cell : 0);
    if (flags & (PTX_F_WRITES | PTX_F_ATOMIC)) {
        if (near)
            contents_join(r, &r->cell, values);
        contents_store(r, where, values);
    }
    r->give = loaded;
    if (flags & PTX_F_ATOMIC)
        r->give |= values;
}

static void contents_step(struct reader *r, uint32_t n)
{
    const struct ptx_inst *i = &r->f->inst[n];
    unsigned flags = i->op == PTX_OP_OPAQUE ? PTX_F_CALL : ptx_op_info(i->op)->flags;
    r->in = r->give = 0;
    r->giving = false;
    ptx_inst_regs(i, value_of_reg, r);
    if (flags & PTX_F_CALL) { /* everything may mix, and be an address */
        uint64_t where = ~UINT64_C(0);
        r->give = r->in | r->cell | where;
        contents_join(r, &r->cell, r->in | (i->op == PTX_OP_OPAQUE ? where : 0));
        contents_join(r, &r->out->address, r->in | r->cell);
        contents_store(r, r->body.stored_prov | RW_PROV_LOCAL, r->in | r->cell);
    } else if (flags & (PTX_F_BRANCH | PTX_F_TERMINATOR)) {
        contents_join(r, &r->out->branch, r->in);
        if (r->loop[n])
            contents_join(r, &r->out->trip, r->in);
    } else if (i->op == PTX_OP_LD || i->op == PTX_OP_LDU || i->op == PTX_OP_ST || i->op == PTX_OP_ATOM ||
               i->op == PTX_OP_RED) {
        simple(r, i, flags);
    } else if (flags & (PTX_F_READS | PTX_F_WRITES)) {
        /* copies, matrix loads and the like: operands other than data are places and sizes */
        uint64_t where = rw_prov_of(&r->body, i);
        contents_join(r, &r->out->address, r->in);
        contents_join(r, &r->cell, where | r->in);
        contents_store(r, where, r->cell);
        r->give = where | r->cell;
    } else {
        r->give = r->in;
    }
    r->giving = true;
    ptx_inst_regs(i, value_of_reg, r);
}

/* Mark the instructions from the target of a backward branch to that branch: every loop lies in such stretches. */
static int loops(struct reader *r, struct dt_arena *a, struct dt_err *e)
{
    struct ptx_cfg cfg;
    int x = ptx_cfg_build(r->f, &cfg, e);
    if (x < 0)
        return x;
    int32_t *edge = dt_new_array(a, int32_t, (size_t)cfg.nblock + 1), depth = 0;
    for (uint32_t b = 0; edge && b < cfg.nblock; b++)
        for (uint32_t k = 0; k < cfg.block[b].nsucc; k++)
            if (cfg.block[b].succ[k] <= b) {
                edge[cfg.block[b].succ[k]]++;
                edge[b + 1]--;
            }
    for (uint32_t b = 0; edge && b < cfg.nblock; b++) {
        depth += edge[b];
        for (uint32_t n = cfg.block[b].first; n <= cfg.block[b].last; n++)
            r->loop[n] = depth > 0;
    }
    ptx_cfg_done(&cfg);
    return edge ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

static uint32_t whole_of(unsigned bytes)
{
    return bytes == 8   ? bit(RW_KIND_I64)
           : bytes == 4 ? bit(RW_KIND_I32)
           : bytes == 2 ? bit(RW_KIND_I16)
           : bytes == 1 ? bit(RW_KIND_I8)
                        : 0;
}

/* The kinds that accesses to global memory use its bytes as. */
static void kinds(struct reader *r)
{
    for (uint32_t n = 0; n < r->f->ninst; n++) {
        const struct ptx_inst *i = &r->f->inst[n];
        unsigned flags = i->op == PTX_OP_OPAQUE ? 0 : ptx_op_info(i->op)->flags;
        if (!contents_plain(i) || !(flags & (PTX_F_READS | PTX_F_WRITES)) || !rw_is_global_access(i))
            continue;
        uint64_t where = rw_prov_of(&r->body, i);
        uint32_t own = i->ntype ? kind_of_type(i->type[0]) : 0, kind = own & FLOATS;
        if (!kind && (i->op == PTX_OP_LD || i->op == PTX_OP_LDU)) {
            r->in_kind = 0;
            r->giving = false;
            ptx_inst_regs(i, kind_of_reg, r);
            kind = r->in_kind & FLOATS;
            if (!kind && r->in_kind)
                kind = own ? own : whole_of(ptx_type_bytes(i->type[0]));
            if (kind == bit(RW_KIND_F32) && ptx_type_bytes(i->type[0]) == 2)
                kind = bit(RW_KIND_BF16); /* the kernel makes an f32 of its bits and 16 zeros */
        } else if (!kind && i->op != PTX_OP_ST) {
            kind = flags & PTX_F_ATOMIC ? own : r->shared;
        }
        for (unsigned b = 0; b < BITS - 1; b++) /* an unknown address says nothing about any buffer */
            if (where != ~UINT64_C(0) && where >> b & 1)
                r->out->kind[b] |= kind;
    }
}

static int read_entry(const struct dev_step *s, struct facts *out, struct dt_err *e)
{
    struct dt_arena a = {0};
    struct reader r = {.f = s->entry, .out = out, .body = {.f = s->entry, .step = s}};
    r.value = dt_new_array(&a, uint64_t, (size_t)r.f->nreg + 1);
    r.used = dt_new_array(&a, uint32_t, (size_t)r.f->nreg + 1);
    r.loop = dt_new_array(&a, bool, (size_t)r.f->ninst + 1);
    int x = r.value && r.used && r.loop ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (x == 0 && (x = rw_prov(&a, &r.body, e)) == 0 && (x = loops(&r, &a, e)) == 0) {
        types(&r);
        do {
            r.changed = false;
            for (uint32_t n = 0; n < r.f->ninst; n++)
                if (contents_plain(&r.f->inst[n]))
                    contents_step(&r, n);
        } while (r.changed);
        kinds(&r);
    }
    dt_arena_done(&a);
    return x;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static bool contents_alike(const struct dt_launch *a, const struct dt_launch *b)
{
    if (a->narg != b->narg)
        return false;
    for (uint32_t k = 0; k < a->narg; k++)
        if (a->arg[k].kind != b->arg[k].kind || a->arg[k].npointer != b->arg[k].npointer ||
            (a->arg[k].npointer &&
             memcmp(a->arg[k].pointer, b->arg[k].pointer, a->arg[k].npointer * sizeof *a->arg[k].pointer)))
            return false;
    return true;
}

typedef void (*on_buffer)(uint32_t buffer, void *user);

/* The buffers of the arguments in the set. */
static void each_buffer(const struct dt_graph *g, const struct dt_launch *l, uint64_t set, on_buffer fn, void *user)
{
    for (uint32_t k = 0; k < l->narg; k++) {
        const struct dt_arg *a = &l->arg[k];
        if (!(set & (k < 62 ? UINT64_C(1) << k : RW_PROV_OTHER)) && !(set & RW_PROV_OTHER))
            continue;
        if (a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP)
            fn(a->buffer, user);
        for (uint32_t i = 0; a->kind == DT_ARG_BYTES && i < a->npointer; i++)
            fn(a->pointer[i].buffer, user);
    }
    for (uint32_t k = 0; set & (RW_PROV_LOCAL | RW_PROV_OTHER) && k < g->nbuffer; k++)
        if (g->buffer[k].module >= 0)
            fn(k, user);
}

struct pass {
    struct rw_contents *c;
    uint32_t *kind;
    struct rw_contents now;
    uint32_t now_kind;
    bool changed;
};

static void take_flags(uint32_t k, void *user)
{
    struct pass *p = user;
    p->now.addresses |= p->c[k].addresses;
    p->now.trips |= p->c[k].trips;
    p->now.branches |= p->c[k].branches;
}

static void give_flags(uint32_t k, void *user)
{
    struct pass *p = user;
    struct rw_contents *c = &p->c[k], was = *c;
    c->addresses |= p->now.addresses;
    c->trips |= p->now.trips;
    c->branches |= p->now.branches;
    p->changed |= was.addresses != c->addresses || was.trips != c->trips || was.branches != c->branches;
}

static void give_kind(uint32_t k, void *user)
{
    struct pass *p = user;
    p->kind[k] |= p->now_kind;
}

static void launch_facts(struct pass *p, const struct dt_graph *g, const struct dt_launch *l, const struct facts *x)
{
    static const struct rw_contents address = {.addresses = true}, trip = {.trips = true}, branch = {.branches = true};
    const struct rw_contents *what[] = {&address, &trip, &branch};
    const uint64_t set[] = {x->address, x->trip, x->branch};
    for (int k = 0; k < 3; k++) {
        p->now = *what[k];
        each_buffer(g, l, set[k], give_flags, p);
    }
    for (unsigned b = 0; b < BITS; b++) {
        p->now_kind = x->kind[b];
        if (p->now_kind)
            each_buffer(g, l, UINT64_C(1) << b, give_kind, p);
        p->now = (struct rw_contents){0};
        if (x->into[b]) {
            each_buffer(g, l, UINT64_C(1) << b, take_flags, p);
            each_buffer(g, l, x->into[b], give_flags, p);
        }
    }
    for (uint32_t k = 0; k < l->narg; k++)
        if (l->arg[k].kind == DT_ARG_TENSOR_MAP && l->arg[k].map->type < DT_TENSOR_PACKED)
            p->kind[l->arg[k].buffer] |= kind_of_type(ptx_tensormap_type((enum ptx_tm_type)l->arg[k].map->type));
}

static enum rw_kind decide(const struct dt_buffer *b, uint32_t kind)
{
    static const enum rw_kind fill[] = {
        [DT_I8] = RW_KIND_I8,   [DT_I16] = RW_KIND_I16,   [DT_I32] = RW_KIND_I32, [DT_I64] = RW_KIND_I64,
        [DT_U8] = RW_KIND_I8,   [DT_U16] = RW_KIND_I16,   [DT_U32] = RW_KIND_I32, [DT_U64] = RW_KIND_I64,
        [DT_F16] = RW_KIND_F16, [DT_BF16] = RW_KIND_BF16, [DT_F32] = RW_KIND_F32, [DT_F64] = RW_KIND_F64};
    if (b->fill.kind == DT_FILL_UNIFORM)
        return fill[b->fill.dtype];
    uint32_t one = kind & FLOATS ? kind & FLOATS : kind;
    for (int k = 1; k < RW_KINDS; k++)
        if (one == bit((enum rw_kind)k) && b->bytes % rw_kind_bytes((enum rw_kind)k) == 0)
            return (enum rw_kind)k;
    return RW_KIND_UNKNOWN;
}

int rw_contents(const struct dev_prog *p, struct rw_contents *ret, struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    struct dt_vec(struct facts) facts = {0};
    uint32_t *of = dt_calloc((size_t)g->nlaunch + 1, sizeof *of),
             *kind = dt_calloc((size_t)g->nbuffer + 1, sizeof *kind);
    struct rw_contents *c = dt_calloc((size_t)g->nbuffer + 1, sizeof *c);
    int r = of && kind && c ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t l = 0; r == 0 && l < g->nlaunch; l++) {
        struct facts x = {.f = p->step[l].entry, .like = &g->launch[l]};
        if (!x.f)
            continue;
        while (of[l] < facts.n && (facts.p[of[l]].f != x.f || !contents_alike(facts.p[of[l]].like, x.like)))
            of[l]++;
        if (of[l] == facts.n && (r = read_entry(&p->step[l], &x, e)) == 0 && !dt_push(&facts, x))
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    struct pass s = {.c = c, .kind = kind};
    do {
        s.changed = false;
        for (uint32_t l = g->nlaunch; r == 0 && l-- > 0;) {
            const struct dt_launch *x = &g->launch[l];
            if (p->step[l].entry) {
                launch_facts(&s, g, x, &facts.p[of[l]]);
            } else if (x->kind == DT_COPY) {
                s.now = c[x->dst];
                give_flags(x->src, &s);
                kind[x->src] |= kind[x->dst];
            }
        }
    } while (s.changed);
    for (uint32_t k = 0; r == 0 && k < g->nbuffer; k++) {
        c[k].kind = decide(&g->buffer[k], kind[k]);
        ret[k] = c[k];
    }
    free(facts.p);
    free(of);
    free(kind);
    free(c);
    return r;
}
