/* Random kernels as PTX. */
#include "kernels.h"

struct text {
    const struct kernel *k;
    struct dt_str s;
    unsigned r, d, p, l, bar; /* numbers taken; an mbarrier for each load */
};
#define EMIT(t, ...) dt_str_addf(&(t)->s, __VA_ARGS__)

static unsigned print_expr(struct text *t, const struct expr *e)
{
    static const char *const leaves[] = {
        [TIDX] = "%tid.x", [TIDY] = "%tid.y", [CTAX] = "%ctaid.x", [CTAY] = "%ctaid.y", [CTAZ] = "%ctaid.z"};
    static const char *const ops[] = {
        [ADD] = "add.u32", [SUB] = "sub.u32", [MUL] = "mul.lo.u32", [AND] = "and.b32", [OR] = "or.b32",
        [XOR] = "xor.b32", [SHL] = "shl.b32", [SHR] = "shr.u32",    [MIN] = "min.u32", [MAX] = "max.u32",
        [REM] = "rem.u32", [DIV] = "div.u32", [HIGH] = "mul.hi.u32"};
    unsigned r = ++t->r;
    if (e->op == LEAF) {
        switch (e->leaf) {
        case CONST: EMIT(t, "mov.u32 %%r%u, %u;\n", r, e->k); break;
        case LINEAR: EMIT(t, "mov.u32 %%r%u, %%lin;\n", r); break;
        case BLOCK: EMIT(t, "mov.u32 %%r%u, %%blk;\n", r); break;
        case VAR: EMIT(t, "mov.u32 %%r%u, %%v%u;\n", r, e->k); break;
        case COUNTER: EMIT(t, "mov.u32 %%r%u, %%c%u;\n", r, e->k); break;
        case SCALAR: EMIT(t, "mov.u32 %%r%u, %%n;\n", r); break;
        case RANK: EMIT(t, "mov.u32 %%r%u, %%cluster_ctarank;\n", r); break;
        case LOWBITS:
            EMIT(t, "cvt.u32.u64 %%r%u, %%q%u;\nand.b32 %%r%u, %%r%u, %u;\n", r, e->k % PARAMS, r, r,
                 e->k < PARAMS ? 2047 : 15);
            break;
        default: EMIT(t, "mov.u32 %%r%u, %s;\n", r, leaves[e->leaf]);
        }
        return r;
    }
    unsigned a = print_expr(t, e->a), b = print_expr(t, e->b);
    if (e->op == PICK) {
        unsigned c = print_expr(t, e->c), d = print_expr(t, e->d), p = ++t->p;
        EMIT(t, "setp.lt.u32 %%p%u, %%r%u, %%r%u;\nselp.b32 %%r%u, %%r%u, %%r%u, %%p%u;\n", p, a, b, r, c, d, p);
    } else if (e->op == EXTRACT) {
        EMIT(t, "bfe.u32 %%r%u, %%r%u, %u, %u;\n", r, a, e->b->k, e->c->k);
    } else if (e->op == COUNT || e->op == ZEROS) {
        EMIT(t, "%s.b32 %%r%u, %%r%u;\n", e->op == COUNT ? "popc" : "clz", r, a);
    } else {
        EMIT(t, "%s %%r%u, %%r%u, %%r%u;\n", ops[e->op], r, a, b);
    }
    return r;
}

static unsigned print_cond(struct text *t, const struct cond *c)
{
    static const char *const cmp[] = {"lt", "le", "eq", "ne", "ge"};
    unsigned a = print_expr(t, c->a), b = print_expr(t, c->b), p = ++t->p;
    EMIT(t, "setp.%s.u32 %%p%u, %%r%u, %%r%u;\n", cmp[c->cmp], p, a, b);
    if (c->join != LAST)
        EMIT(t, "%s.pred %%p%u, %%p%u, %%p%u;\n", c->join == ALSO ? "and" : "or", p, p, print_cond(t, c->next));
    return p;
}

/* The address of element `e` of the statement's parameter. */
static unsigned print_address(struct text *t, const struct stmt *s, const struct expr *e)
{
    unsigned q = 0, i = print_expr(t, e), d;
    if (s->select) {
        unsigned p = print_cond(t, s->c);
        q = ++t->d;
        EMIT(t, "selp.b64 %%d%u, %%q%u, %%q%u, %%p%u;\n", q, s->param, s->other, p);
    }
    d = ++t->d;
    EMIT(t, "mul.wide.u32 %%d%u, %%r%u, %u;\n", d, i, s->width);
    if (s->select)
        EMIT(t, "add.s64 %%d%u, %%d%u, %%d%u;\n", d, d, q);
    else
        EMIT(t, "add.s64 %%d%u, %%q%u, %%d%u;\n", d, s->param, d);
    return d;
}

static void print_access(struct text *t, const struct stmt *s)
{
    static const char *const type[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "v2.u32", [16] = "v4.u32"};
    unsigned a = print_address(t, s, s->e), r = t->r + 1, v;
    const char *space = s->flavour == 0 ? "" : s->flavour == 1 && s->width <= 4 ? ".volatile.global" : ".global";
    bool input = t->k->buffer[s->param] < OUT0 && (!s->select || t->k->buffer[s->other] < OUT0);
    if (s->kind == LOAD && s->flavour == 2 && input)
        space = ".global.nc";
    switch (s->kind) {
    case LOAD:
        t->r += 4;
        if (s->width <= 4)
            EMIT(t, "ld%s.%s %%r%u, [%%d%u];\n", space, type[s->width], r, a);
        else if (s->width == 8)
            EMIT(t, "ld%s.%s {%%r%u, %%r%u}, [%%d%u];\n", space, type[s->width], r, r + 1, a);
        else
            EMIT(t, "ld%s.%s {%%r%u, %%r%u, %%r%u, %%r%u}, [%%d%u];\n", space, type[s->width], r, r + 1, r + 2, r + 3,
                 a);
        EMIT(t, "mov.u32 %%v%u, %%r%u;\n", s->var, r);
        break;
    case STORE:
        v = print_expr(t, s->v);
        if (s->width <= 4)
            EMIT(t, "st%s.%s [%%d%u], %%r%u;\n", space, type[s->width], a, v);
        else if (s->width == 8)
            EMIT(t, "st%s.%s [%%d%u], {%%r%u, %%r%u};\n", space, type[s->width], a, v, v);
        else
            EMIT(t, "st%s.%s [%%d%u], {%%r%u, %%r%u, %%r%u, %%r%u};\n", space, type[s->width], a, v, v, v, v);
        break;
    case ATOMIC:
        v = print_expr(t, s->v);
        EMIT(t, "atom.global.%s %%v%u, [%%d%u], %%r%u;\n", s->flavour & 1 ? "add.u32" : "exch.b32", s->var, a, v);
        break;
    default:
        v = print_expr(t, s->v);
        EMIT(t, "red.global.%s [%%d%u], %%r%u;\n", s->flavour & 1 ? "add.u32" : "max.u32", a, v);
    }
}

/* The generic or local address of a word of local memory. */
static unsigned print_local(struct text *t, const struct expr *e, bool generic)
{
    unsigned i = print_expr(t, e), r = ++t->r, d = t->d += 2;
    EMIT(t, "and.b32 %%r%u, %%r%u, %u;\nmul.wide.u32 %%d%u, %%r%u, 4;\nadd.s64 %%d%u, %%depot, %%d%u;\n", r, i,
         LOCALS - 1, d - 1, r, d, d - 1);
    if (generic)
        EMIT(t, "cvta.local.u64 %%d%u, %%d%u;\n", ++t->d, d);
    return t->d;
}

static void print_local_memory(struct text *t, const struct stmt *s)
{
    const char *space = s->flavour ? ".local" : "";
    unsigned d = print_local(t, s->e, !s->flavour), v = print_expr(t, s->v), p;
    if (s->c) {
        p = print_cond(t, s->c);
        EMIT(t, "@%%p%u st%s.u32 [%%d%u], %%r%u;\n", p, space, d, v);
    } else {
        EMIT(t, "st%s.u32 [%%d%u], %%r%u;\n", space, d, v);
    }
    d = print_local(t, s->w, !s->flavour);
    EMIT(t, "ld%s.u32 %%v%u, [%%d%u];\n", space, s->var, d);
}

static void print_call(struct text *t, const struct stmt *s)
{
    unsigned r = print_expr(t, s->e);
    EMIT(t,
         "{ .param .b32 pa; .param .b64 pp; .param .b32 pr;\nst.param.b32 [pa], %%r%u;\nst.param.b64 [pp], "
         "%%q%u;\ncall.uni (pr), f%u, (pa, pp);\n"
         "ld.param.b32 %%v%u, [pr]; }\n",
         r, s->param, s->flavour, s->var);
}

/* Wait for what has been loaded into shared memory. Threads that load at the same time have mbarriers of their own. */
static void print_wait(struct text *t, bool load, unsigned l)
{
    unsigned p = ++t->p, bar = 8 * t->bar++;
    if (load)
        EMIT(t,
             "L%u: mbarrier.try_wait.parity.shared.b64 %%p%u, [%%bar+%u], 0;\n@!%%p%u bra "
             "L%u;\nmbarrier.inval.shared.b64 [%%bar+%u];\n",
             l, p, bar, p, l, bar);
    else
        EMIT(t, "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n");
}

static void print_bulk(struct text *t, const struct stmt *s, unsigned l)
{
    struct stmt unit = {.param = s->param, .width = 16};
    unsigned p = ++t->p, a, n = ++t->r, m;
    EMIT(t, "setp.ne.u32 %%p%u, %%lin, %u;\n@%%p%u bra L%u;\n", p, s->counter, p, l);
    a = print_address(t, &unit, s->e);
    m = print_expr(t, s->v);
    EMIT(t, "and.b32 %%r%u, %%r%u, %u;\nadd.u32 %%r%u, %%r%u, 1;\nshl.b32 %%r%u, %%r%u, 4;\n", n, m, BULK_UNITS - 1, n,
         n, n, n);
    if (s->flavour == 0)
        EMIT(
            t,
            "mbarrier.init.shared.b64 [%%bar+%u], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [%%bar+%u], %%r%u;\n"
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%bulk], [%%d%u], %%r%u, [%%bar+%u];\n",
            8 * t->bar, 8 * t->bar, n, a, n, 8 * t->bar);
    else if (s->flavour == 3)
        EMIT(t, "cp.async.bulk.prefetch.L2.global [%%d%u], %%r%u;\n", a, n);
    else
        EMIT(t, "cp%s.async.bulk.global.shared::cta.bulk_group%s [%%d%u], [%%bulk], %%r%u;\n",
             s->flavour == 2 ? ".reduce" : "", s->flavour == 2 ? ".add.u32" : "", a, n);
    print_wait(t, s->flavour == 0, l + 1);
    EMIT(t, "L%u:\n", l);
}

static void print_tensor(struct text *t, const struct stmt *s, unsigned l)
{
    unsigned p = ++t->p, x, y, r = t->r += 2;
    bool to = s->flavour == 1 || s->flavour == 2;
    EMIT(t, "setp.ne.u32 %%p%u, %%lin, %u;\n@%%p%u bra L%u;\n", p, s->counter, p, l);
    x = print_expr(t, s->e);
    y = print_expr(t, s->v);
    EMIT(t,
         "and.b32 %%r%u, %%r%u, 63;\nsub.s32 %%r%u, %%r%u, 16;\nand.b32 %%r%u, %%r%u, 31;\nsub.s32 %%r%u, %%r%u, 8;\n",
         r - 1, x, r - 1, r - 1, r, y, r, r);
    if (s->flavour == 0)
        EMIT(t,
             "mbarrier.init.shared.b64 [%%bar+%u], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [%%bar+%u], %u;\n"
             "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%%bulk], [%%tile0, {%%r%u, "
             "%%r%u}], [%%bar+%u];\n",
             8 * t->bar, 8 * t->bar, 64 / tiles[0].step, r - 1, r, 8 * t->bar);
    else if (s->flavour == 3)
        EMIT(t, "cp.async.bulk.prefetch.tensor.2d.L2.global [%%tile%d, {%%r%u, %%r%u}];\n", to, r - 1, r);
    else
        EMIT(t, "cp%s.async.bulk.tensor.2d.global.shared::cta%s.bulk_group [%%tile1, {%%r%u, %%r%u}], [%%bulk];\n",
             s->flavour == 2 ? ".reduce" : "", s->flavour == 2 ? ".add" : "", r - 1, r);
    print_wait(t, s->flavour == 0, l + 1);
    EMIT(t, "L%u:\n", l);
}

static void print_matrix(struct text *t, const struct stmt *s)
{
    struct stmt unit = {.param = s->param, .width = 32};
    unsigned a = print_address(t, &unit, s->e);
    const char *f =
        s->flavour ? "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}" : "{%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}";
    if (s->flavour)
        EMIT(t, "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%%d%u], %s, %u;\n", a, f, s->count);
    else
        EMIT(t, "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 %s, [%%d%u], %u;\n", f, a, s->count);
}

static void print_vote(struct text *t, const struct stmt *s)
{
    unsigned p = print_cond(t, s->c), q = ++t->p;
    if (s->flavour == 0)
        EMIT(t, "vote.sync.ballot.b32 %%v%u, %%p%u, 0xffffffff;\n", s->var, p);
    else if (s->flavour == 3)
        EMIT(t, "bar.red.popc.u32 %%v%u, 0, %%p%u;\n", s->var, p);
    else
        EMIT(t, "vote.sync.%s.pred %%p%u, %%p%u, 0xffffffff;\nselp.u32 %%v%u, 1, 0, %%p%u;\n",
             s->flavour == 1 ? "any" : "all", q, p, s->var, q);
}

static void print_stmt(struct text *t, const struct stmt *s)
{
    static const char *const shuffle[] = {"idx", "bfly", "up", "down"};
    unsigned r, p, l = t->l += 3;
    switch (s->kind) {
    case SET: r = print_expr(t, s->e), EMIT(t, "mov.u32 %%v%u, %%r%u;\n", s->var, r); break;
    case IF:
        p = print_cond(t, s->c);
        EMIT(t, "@!%%p%u bra L%u;\n", p, l);
        for (const struct stmt *x = s->body; x; x = x->next)
            print_stmt(t, x);
        EMIT(t, "bra L%u;\nL%u:\n", l + 1, l);
        for (const struct stmt *x = s->otherwise; x; x = x->next)
            print_stmt(t, x);
        EMIT(t, "L%u:\n", l + 1);
        break;
    case FOR:
        r = print_expr(t, s->e);
        EMIT(t, "mov.u32 %%c%u, 0;\nL%u:\n", s->counter, l);
        p = ++t->p;
        EMIT(t, "setp.ge.u32 %%p%u, %%c%u, %%r%u;\n@%%p%u bra L%u;\n", p, s->counter, r, p, l + 1);
        for (const struct stmt *x = s->body; x; x = x->next)
            print_stmt(t, x);
        EMIT(t, "add.u32 %%c%u, %%c%u, %u;\nbra L%u;\nL%u:\n", s->counter, s->counter, s->flavour, l, l + 1);
        break;
    case STAGE:
    case COPY:
        if (s->kind == STAGE) {
            unsigned v = print_expr(t, s->v);
            if (s->c) {
                p = print_cond(t, s->c);
                EMIT(t, "@%%p%u st.shared.u32 [%%mine], %%r%u;\n", p, v);
            } else {
                EMIT(t, "st.shared.u32 [%%mine], %%r%u;\n", v);
            }
        } else {
            unsigned a = print_address(t, s, s->v);
            EMIT(t, "cp.async.ca.shared.global [%%mine], [%%d%u], %u;\ncp.async.wait_all;\n", a, s->width);
        }
        EMIT(t, "bar.sync 0;\n");
        r = print_expr(t, s->e);
        EMIT(t, "mad.lo.u32 %%r%u, %%r%u, 16, %%base;\nld.shared.u32 %%v%u, [%%r%u];\nbar.sync 0;\n", r, r, s->var, r);
        break;
    case SHUFFLE:
        r = print_expr(t, s->e);
        EMIT(t, "shfl.sync.%s.b32 %%v%u, %%v%u, %%r%u, %u, 0xffffffff;\n", shuffle[s->flavour], s->var, s->other, r,
             s->flavour == 2 ? 0 : 31);
        break;
    case EXIT: p = print_cond(t, s->c), EMIT(t, "@%%p%u exit;\n", p); break;
    case LOCAL: print_local_memory(t, s); break;
    case CALL: print_call(t, s); break;
    case VOTE: print_vote(t, s); break;
    case BULK: print_bulk(t, s, l); break;
    case TENSOR: print_tensor(t, s, l); break;
    case MATRIX: print_matrix(t, s); break;
    default: print_access(t, s);
    }
}

void kernel_print(struct dt_str *out, const struct kernel *k, unsigned number)
{
    struct text t = {.k = k};
    for (const struct stmt *s = k->first; s; s = s->next)
        print_stmt(&t, s);
    dt_str_addf(out, ".visible .entry k%u(", number);
    for (int p = 0; p < PARAMS; p++)
        dt_str_addf(out, ".param .u64 k%u_%d, ", number, p);
    dt_str_addf(out, ".param .align 64 .b8 k%u_t0[128], .param .align 64 .b8 k%u_t1[128], ", number, number);
    dt_str_addf(out,
                ".param .u32 k%u_n)\n{\n.shared .align 16 .b8 pool[%u];\n.reg .b32 %%r<%u>, %%v<%d>, %%c<%d>, %%lin, "
                "%%blk, %%n, %%base, %%mine, %%x, %%y;\n"
                ".reg .b64 %%d<%u>, %%q<%d>;\n.reg .pred %%p<%u>;\n"
                ".reg .b64 %%depot, %%tile0, %%tile1;\n.reg .b32 %%bulk, %%bar, %%h<8>;\n.reg .f32 %%f<8>;\n.local "
                ".align 16 .b8 depot[%u];\n"
                ".shared .align 128 .b8 bulk[%u];\n.shared .align 8 .b64 bar[%u];\n",
                number, SHARED, t.r + 5, VARS + 1, COUNTERS, t.d + 1, PARAMS, t.p + 1, 4 * LOCALS, BULK_BYTES,
                t.bar + 1);
    for (int p = 0; p < PARAMS; p++)
        dt_str_addf(out, "ld.param.u64 %%q%d, [k%u_%d];\n%s", p, number, p, "");
    dt_str_addf(out,
                "ld.param.u32 %%n, [k%u_n];\n"
                "mov.u32 %%x, %%tid.z;\nmov.u32 %%y, %%ntid.y;\nmov.u32 %%lin, %%tid.y;\nmad.lo.u32 %%lin, %%x, %%y, "
                "%%lin;\nmov.u32 %%y, %%ntid.x;\n"
                "mov.u32 %%x, %%tid.x;\nmad.lo.u32 %%lin, %%lin, %%y, %%x;\n"
                "mov.u32 %%x, %%ctaid.z;\nmov.u32 %%y, %%nctaid.y;\nmov.u32 %%blk, %%ctaid.y;\nmad.lo.u32 %%blk, %%x, "
                "%%y, %%blk;\n"
                "mov.u32 %%y, %%nctaid.x;\nmov.u32 %%x, %%ctaid.x;\nmad.lo.u32 %%blk, %%blk, %%y, %%x;\n"
                "mov.u32 %%base, pool;\nmad.lo.u32 %%mine, %%lin, 16, %%base;\n",
                number);
    dt_str_addf(out,
                "mov.u64 %%depot, depot;\nmov.u32 %%bulk, bulk;\nmov.u32 %%bar, bar;\nmov.b64 %%tile0, "
                "k%u_t0;\ncvta.param.u64 %%tile0, %%tile0;\n"
                "mov.b64 %%tile1, k%u_t1;\ncvta.param.u64 %%tile1, %%tile1;\n",
                number, number);
    for (int i = 0; i < 8; i++)
        dt_str_addf(out, "mov.f32 %%f%d, 0f00000000;\n", i);
    for (int i = 0; i < LOCALS && k->tidy; i++)
        dt_str_addf(out, "add.u32 %%x, %%lin, %d;\nst.local.u32 [%%depot+%d], %%x;\n", i, 4 * i);
    for (int v = 0; v <= VARS; v++)
        dt_str_addf(out, "mov.u32 %%v%d, %%lin;\n", v);
    for (int c = 0; c < COUNTERS; c++)
        dt_str_addf(out, "mov.u32 %%c%d, 0;\n", c);
    dt_str_addn(out, t.s.s, t.s.len);
    dt_str_add(out, "ret;\n}\n");
    dt_str_done(&t.s);
}

void kernel_head(struct dt_str *out)
{
    static const char head[] =
        "(.param .b32 ret) f%d(.param .b32 a, .param .b64 p)\n{\n.reg .b32 %%r<4>;\n.reg .b64 %%d<4>;\n"
        "ld.param.b32 %%r1, [a];\nld.param.b64 %%d1, [p];\n";
    static const char *const body[] = {
        "mul.lo.u32 %r2, %r1, 3;\nxor.b32 %r3, %r2, 5;\n",
        "and.b32 %r2, %r1, 127;\nmul.wide.u32 %d2, %r2, 4;\nadd.s64 %d3, %d1, %d2;\nld.global.u32 %r3, [%d3];\n",
        "and.b32 %r2, %r1, 127;\nmul.wide.u32 %d2, %r2, 4;\nadd.s64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r1;\nmov.u32 "
        "%r3, %r1;\n",
        "add.u32 %r2, %r1, 1;\n{ .param .b32 pa; .param .b64 pp; .param .b32 pr;\nst.param.b32 [pa], %r2;\n"
        "st.param.b64 [pp], %d1;\ncall.uni (pr), f1, (pa, pp);\nld.param.b32 %r3, [pr]; }\n"};
    dt_str_add(out, ".version 8.0\n.target sm_90\n.address_size 64\n");
    for (int i = 0; i < 4; i++) {
        dt_str_add(out, ".func ");
        dt_str_addf(out, head, i);
        dt_str_add(out, body[i]);
        dt_str_add(out, "st.param.b32 [ret], %r3;\nret;\n}\n");
    }
}
