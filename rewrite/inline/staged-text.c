/* The guest's text at a copy of a tensor from shared memory (staged.c says when it may stand there).
 *
 *   @!%p bra END                       the predicates of the copy that are the same for all threads of the group
 *   v = %tid.x >> 5 + k << 5 | lane    counted in the group. 2^k warps make the copy, each of its own box; warp w works
 *                                      on that of w mod 2^k
 *   a = the box in shared memory;  o = offset of its first element in the buffer
 *   for 16 bytes number v, v + threads, … of the box, by the threads of the group:
 *       row = v / (16 bytes a row); column = v % …
 *       ld.shared.v4.b32 {…}, [swizzled(a + row * pitch + column * 16)]
 *       GUEST, for each unit of the 16 bytes, at offset o + row * stride + column * 16          (instance.c)
 *   END: fence, barrier.sync           nobody overwrites what another thread still reads, nor does a copy (the fence)
 *
 * Several rounds stand one after the other, so that the loads of all of them are under way together; the guests' stores
 * wait (later.c). Where a box may overhang its tensor, the text stands there twice: for boxes that are inside, and,
 * with a branch round each unit that is outside, for the others.
 *
 * Branches by which the other threads skipped the copy are left out (inline.c). The copy itself stays only where others
 * read the buffer, behind these branches.
 */
#include "rewrite/inline/site.h"

#define ROUNDS 8          /* that stand one after the other, at most */
#define INSTRUCTIONS 2048 /* of guests' texts in them, about */

struct box { /* registers; all are 32 bits wide */
    const struct rw_staged *d;
    const struct ptx_inst *copy;
    uint32_t v, shared, offset; /* the number of 16 bytes; address of the box, and its place in the buffer */
    uint32_t number, row, column, place, tmp; /* of the 16 bytes at hand */
    /* and their address. It shares no register with what places are made of: prov.c takes a register for all of the
     * kernel, and a place made of an address of shared memory would be nowhere */
    uint32_t at, twist;
    uint32_t out; /* predicate */
    uint32_t word[16];
    unsigned nword;
    bool inside; /* the text at hand is for boxes that do not overhang */
};

static unsigned log2_of(uint32_t v) { return (unsigned)__builtin_ctz(v); }

static int new_number(struct rw_site *s, uint32_t *ret, const char *hint)
{
    *ret = rw_site_reg(s->j, PTX_U32, hint);
    return *ret == PTX_NO_REG ? DT_E_NOMEM : 0;
}

static int make_registers(struct rw_site *s, struct box *b)
{
    uint32_t *all[] = {&b->v,      &b->shared, &b->offset, &b->number, &b->row,
                       &b->column, &b->place,  &b->tmp,    &b->at,     &b->twist};
    int r = 0;
    for (unsigned k = 0; k < sizeof all / sizeof *all && r == 0; k++)
        r = new_number(s, all[k], "dt_box");
    if (r == 0 && (b->out = rw_site_reg(s->j, PTX_PRED, "dt_out")) == PTX_NO_REG)
        r = DT_E_NOMEM;
    return r;
}

/* A coordinate of the copy as text: a register or a number. */
static const char *coordinate(struct rw_site *s, const struct box *b, unsigned d, char room[16])
{
    const struct ptx_opnd *o = &b->copy->opnd[0].elem[d];
    if (o->kind == PTX_O_REG)
        return rw_rname(s->j, o->reg);
    snprintf(room, 16, "%d", (int32_t)o->bits);
    return room;
}

static uint32_t staged_guard(const struct rw_site *s, const struct rw_staged_guard *g)
{
    return g->opnd ? s->host[g->inst].opnd[g->opnd].reg : s->host[g->inst].pred;
}

/* Emit: away with threads whose copy is not made, or whose box is outside of its tensor. */
static int emit_none(struct rw_site *s, const struct box *b, uint32_t end)
{
    char room[16];
    int r = 0;
    for (unsigned k = 0; k < b->d->nguard && r == 0; k++)
        r = rw_emit_bra(s->j, end, staged_guard(s, &b->d->guard[k]), true);
    for (unsigned d = 0; d < b->d->map->rank && b->d->whole && r == 0; d++)
        if ((r = rw_emit(s->j, "setp.ge.u32 %s, %s, %u;", rw_rname(s->j, b->out), coordinate(s, b, d, room),
                         (uint32_t)b->d->map->dim[d])) == 0)
            r = rw_emit_bra(s->j, end, b->out, false);
    return r;
}

/* Emit: v, shared, offset. */
static int emit_begin(struct rw_site *s, const struct box *b)
{
    struct rw_join *j = s->j;
    const struct rw_staged *d = b->d;
    const struct ptx_opnd *from = &b->copy->opnd[1];
    const char *V = rw_rname(j, b->v), *T = rw_rname(j, b->tmp), *A = rw_rname(j, b->shared),
               *O = rw_rname(j, b->offset);
    unsigned lg = log2_of(d->warps);
    char room[16];
    int r = rw_emit(j, "mov.u32 %s, %%tid.x;", V);
    if (r == 0 && d->ngroup > 1)
        r = rw_emit(j, "and.b32 %s, %s, %u;", V, V, d->group - 1);
    else if (r == 0 && d->start[0])
        r = rw_emit(j, "sub.u32 %s, %s, %u;", V, V, d->start[0]);
    if (r == 0 && lg)
        r = rw_emit(j, "shr.u32 %s, %s, %u; shl.b32 %s, %s, 5; and.b32 %s, %s, 31; or.b32 %s, %s, %s;", T, V, 5 + lg, T,
                    T, V, V, V, V, T);
    if (r == 0 && from->base_kind == PTX_O_VAR)
        r = rw_emit(j, "mov.u32 %s, %s;", A, from->var->name);
    else if (r == 0)
        r = rw_emit(j,
                    ptx_type_bytes((enum ptx_type)j->f->reg[from->reg].type) == 8 ? "cvt.u32.u64 %s, %s;"
                                                                                  : "mov.b32 %s, %s;",
                    A, rw_rname(j, from->reg));
    if (r == 0 && from->off)
        r = rw_emit(j, "add.u32 %s, %s, %u;", A, A, (uint32_t)from->off);
    if (r == 0)
        r = rw_emit(j, "mov.u32 %s, %u;", O, (uint32_t)d->offset);
    for (unsigned k = 0; k < d->map->rank && r == 0; k++)
        r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %s;", O, coordinate(s, b, k, room),
                    (uint32_t)(k ? d->map->stride[k] : d->bytes), O);
    return r;
}

/* Emit: q = x / n, rest = x % n. */
static int emit_apart(struct rw_join *j, uint32_t q, uint32_t rest, uint32_t x, uint32_t n)
{
    const char *Q = rw_rname(j, q), *R = rw_rname(j, rest), *X = rw_rname(j, x);
    if ((n & (n - 1)) == 0)
        return rw_emit(j, "shr.u32 %s, %s, %u; and.b32 %s, %s, %u;", Q, X, log2_of(n), R, X, n - 1);
    return rw_emit(j, "div.u32 %s, %s, %u; rem.u32 %s, %s, %u;", Q, X, n, R, X, n);
}

/* Emit: row and column of 16 bytes, their address and their place. pos: registers with the number along each dimension,
 * for those who ask whether it is inside. */
static int emit_where(struct rw_site *s, const struct box *b, uint32_t pos[5])
{
    struct rw_join *j = s->j;
    const struct rw_staged *d = b->d;
    const char *ROW = rw_rname(j, b->row), *COL = rw_rname(j, b->column), *AT = rw_rname(j, b->at),
               *P = rw_rname(j, b->place), *T = rw_rname(j, b->twist);
    uint32_t left = b->row;
    int r = emit_apart(j, b->row, b->column, b->number, d->row / 16);
    if (r == 0)
        r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %s; mad.lo.u32 %s, %s, 16, %s; mad.lo.u32 %s, %s, 16, %s;", AT, ROW,
                    d->pitch, rw_rname(j, b->shared), AT, COL, AT, P, COL, rw_rname(j, b->offset));
    if (r == 0 && d->swizzle) /* 32, 64, 128 bytes: 2, 4, 8 pieces of 16 */
        r = rw_emit(j, "shr.u32 %s, %s, 7; and.b32 %s, %s, %u; shl.b32 %s, %s, 4; xor.b32 %s, %s, %s;", T, AT, T, T,
                    (1u << d->swizzle) - 1, T, T, AT, AT, T);
    for (unsigned k = 1; k < d->map->rank && r == 0; k++) {
        bool last = k + 1 == d->map->rank;
        uint32_t next = left;
        pos[k] = left;
        if (!last && (r = new_number(s, &next, "dt_box")) == 0 && (r = new_number(s, &pos[k], "dt_box")) == 0)
            r = emit_apart(j, next, pos[k], left, d->map->box[k]);
        if (r == 0)
            r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %s;", P, rw_rname(j, pos[k]), (uint32_t)d->map->stride[k], P);
        left = next;
    }
    return r;
}

/* Emit: a branch to `out` for the unit that begins so many bytes behind the 16 bytes, if it is outside. */
static int emit_outside(struct rw_site *s, const struct box *b, const uint32_t pos[5], unsigned bytes, uint32_t out)
{
    struct rw_join *j = s->j;
    const struct rw_staged *d = b->d;
    const char *T = rw_rname(j, b->tmp);
    char room[16];
    int r =
        rw_emit(j, "mad.lo.u32 %s, %s, %u, %s;", T, rw_rname(j, b->column), 16 / d->bytes, coordinate(s, b, 0, room));
    if (r == 0)
        r = rw_emit(j, "add.u32 %s, %s, %u;", T, T, bytes / d->bytes);
    for (unsigned k = 0; k < d->map->rank && r == 0; k++) {
        if (k)
            r = rw_emit(j, "add.u32 %s, %s, %s;", T, rw_rname(j, pos[k]), coordinate(s, b, k, room));
        if (r == 0)
            r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", rw_rname(j, b->out), T, (uint32_t)d->map->dim[k]);
        if (r == 0)
            r = rw_emit_bra(j, out, b->out, false);
    }
    return r;
}

/* Emit: 16 bytes as elements, in registers of their own. */
static int emit_load_box(struct rw_site *s, struct box *b)
{
    struct rw_join *j = s->j;
    unsigned elem = s->n->elem;
    uint32_t w[4];
    int r = 0;
    b->nword = 16 / elem;
    for (unsigned k = 0; k < b->nword; k++)
        if ((b->word[k] = rw_site_reg(j, elem == 8 ? PTX_B64 : elem == 4 ? PTX_B32 : PTX_B16, "dt_e")) == PTX_NO_REG)
            return DT_E_NOMEM;
    const char *AT = rw_rname(j, b->at);
    if (elem == 8)
        return rw_emit(j, "ld.shared.v2.b64 {%s, %s}, [%s];", rw_rname(j, b->word[0]), rw_rname(j, b->word[1]), AT);
    for (unsigned k = 0; k < 4; k++)
        if (elem == 4)
            w[k] = b->word[k];
        else if ((w[k] = rw_site_reg(j, PTX_B32, "dt_e")) == PTX_NO_REG)
            return DT_E_NOMEM;
    r = rw_emit(j, "ld.shared.v4.b32 {%s, %s, %s, %s}, [%s];", rw_rname(j, w[0]), rw_rname(j, w[1]), rw_rname(j, w[2]),
                rw_rname(j, w[3]), AT);
    for (unsigned k = 0; k < 4 && elem == 2 && r == 0; k++)
        r = rw_emit(j, "mov.b32 {%s, %s}, %s;", rw_rname(j, b->word[2 * k]), rw_rname(j, b->word[2 * k + 1]),
                    rw_rname(j, w[k]));
    return r;
}

/* Emit: the guest, for each unit of the 16 bytes that were loaded. */
static int emit_units(struct rw_site *s, const struct box *b, const uint32_t pos[5])
{
    struct rw_join *j = s->j;
    unsigned unit = s->n->unit, elem = s->n->elem;
    struct ptx_opnd word[16], two[2] = {{.kind = PTX_O_ADDR, .comp = -1, .base_kind = PTX_O_REG, .reg = b->place},
                                        {.kind = PTX_O_VEC, .comp = -1, .n = (uint8_t)b->nword, .elem = word}};
    struct ptx_inst store = {.op = PTX_OP_ST,
                             .nopnd = 2,
                             .ntype = 1,
                             .space = PTX_GLOBAL,
                             .vec = (uint8_t)b->nword,
                             .pred = PTX_NO_REG,
                             .opnd = two};
    int r = 0;
    store.type[0] = (uint8_t)(elem == 8 ? PTX_B64 : elem == 4 ? PTX_B32 : PTX_B16);
    for (unsigned k = 0; k < b->nword; k++)
        word[k] = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = b->word[k]};
    for (unsigned k = 0; k < b->nword && r == 0; k += unit) {
        uint32_t out = PTX_NO_REG;
        if (!b->inside) {
            if ((out = ptx_label_new(j->f, "GOUT")) == UINT32_MAX)
                return rw_site_nomem(j);
            if ((r = emit_outside(s, b, pos, k * elem, out)) < 0)
                return r;
        }
        r = rw_site_unit(s, &store, k);
        if (r == 0 && out != PTX_NO_REG && (r = rw_later_flush(j, &s->later)) == 0)
            r = rw_emit_label(j, out);
    }
    return r;
}

struct rounds {
    uint32_t threads, pieces; /* of a box */
    unsigned each, loops;     /* rounds in the text, and how often */
    bool even;                /* every round has a piece for every thread */
};

static struct rounds divide_box(const struct rw_site *s, const struct rw_staged *d)
{
    const struct rw_inline *n = s->n;
    struct rounds k = {.threads = d->group / d->warps, .pieces = d->rows * (d->row / 16)};
    uint32_t all = (k.pieces + k.threads - 1) / k.threads,
             text = (n->body[n->guest]->f->ninst + 1) * (16 / n->elem / n->unit), most = INSTRUCTIONS / text;
    k.even = k.pieces % k.threads == 0;
    k.each = most > ROUNDS ? ROUNDS : most ? most : 1;
    if (k.each > all)
        k.each = all;
    while (k.even && all % k.each)
        k.each--;
    k.loops = (all + k.each - 1) / k.each;
    return k;
}

static int emit_rounds(struct rw_site *s, struct box *b)
{
    struct rw_join *j = s->j;
    struct rounds k = divide_box(s, b->d);
    const char *V = rw_rname(j, b->v);
    uint32_t again = k.loops > 1 ? ptx_label_new(j->f, "GBOX") : PTX_NO_REG;
    int r = 0;
    if (k.loops > 1 && (again == UINT32_MAX || (r = rw_emit_label(j, again)) < 0))
        return r < 0 ? r : rw_site_nomem(j);
    for (unsigned q = 0; q < k.each && r == 0; q++) {
        uint32_t none = PTX_NO_REG, pos[5] = {0};
        r = rw_emit(j, "add.u32 %s, %s, %u;", rw_rname(j, b->number), V, q * k.threads);
        if (r == 0 && !k.even) {
            if ((none = ptx_label_new(j->f, "GPIECE")) == UINT32_MAX)
                return rw_site_nomem(j);
            if ((r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", rw_rname(j, b->out), rw_rname(j, b->number), k.pieces)) == 0)
                r = rw_emit_bra(j, none, b->out, false);
        }
        if (r == 0 && (r = emit_where(s, b, pos)) == 0 && (r = emit_load_box(s, b)) == 0)
            r = emit_units(s, b, pos);
        if (r == 0 && none != PTX_NO_REG && (r = rw_later_flush(j, &s->later)) == 0)
            r = rw_emit_label(j, none);
    }
    if (r == 0 && (r = rw_later_flush(j, &s->later)) == 0 && k.loops > 1)
        r = rw_emit(j, "add.u32 %s, %s, %u; setp.lt.u32 %s, %s, %u;", V, V, k.each * k.threads, rw_rname(j, b->out), V,
                    k.pieces);
    return r == 0 && k.loops > 1 ? rw_emit_bra(j, again, b->out, false) : r;
}

/* Emit: a branch to `over` where the box overhangs. */
static int emit_over(struct rw_site *s, const struct box *b, uint32_t over)
{
    char room[16];
    int r = 0;
    for (unsigned k = 0; k < b->d->map->rank && r == 0; k++) {
        uint64_t dim = b->d->map->dim[k], box = b->d->map->box[k];
        if (box > dim)
            return rw_emit_bra(s->j, over, PTX_NO_REG, false);
        r = rw_emit(s->j, "setp.gt.u32 %s, %s, %u;", rw_rname(s->j, b->out), coordinate(s, b, k, room),
                    (uint32_t)(dim - box));
        if (r == 0)
            r = rw_emit_bra(s->j, over, b->out, false);
    }
    return r;
}

/* Emit: the copy itself, by the thread that made it. */
static int emit_copy(struct rw_site *s, const struct box *b)
{
    uint32_t skip = PTX_NO_REG;
    int r = 0;
    for (unsigned k = 0; k < b->d->nway && r == 0; k++) {
        const struct rw_staged_way *way = &b->d->way[k];
        const struct ptx_inst *i = &s->host[way->inst];
        if (!way->out)
            continue;
        if (skip == PTX_NO_REG && (skip = ptx_label_new(s->j->f, "GCOPY")) == UINT32_MAX)
            return rw_site_nomem(s->j);
        r = rw_emit_bra(s->j, skip, i->pred, way->taken != (bool)i->pred_neg);
    }
    if (r == 0 && !ptx_append(s->j->f, *b->copy))
        r = rw_site_nomem(s->j);
    return r == 0 && skip != PTX_NO_REG ? rw_emit_label(s->j, skip) : r;
}

/* Emit: all of the group have read the box, before anybody or a copy overwrites it. */
static int emit_end(struct rw_site *s, const struct box *b)
{
    struct rw_join *j = s->j;
    const struct ptx_inst *i = &s->host[b->d->barrier];
    int r = rw_emit(j, "fence.proxy.async.shared::cta;");
    if (r < 0)
        return r;
    if (i->nopnd == 1)
        return rw_emit(j, "barrier.sync %u; bar.warp.sync -1;", (unsigned)i->opnd[0].bits);
    if (i->opnd[0].kind == PTX_O_REG)
        return rw_emit(j, "barrier.sync %s, %u; bar.warp.sync -1;", rw_rname(j, i->opnd[0].reg), b->d->group);
    return rw_emit(j, "barrier.sync %u, %u; bar.warp.sync -1;", (unsigned)i->opnd[0].bits, b->d->group);
}

int rw_staged_emit(struct rw_site *s, const struct ptx_inst *i, uint32_t inst)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    struct box b = {.d = n->staged, .copy = i};
    uint32_t end = ptx_label_new(j->f, "GBOXEND"), over = PTX_NO_REG;
    while (b.d->inst != inst)
        b.d++;
    int r = end == UINT32_MAX ? rw_site_nomem(j) : n->keep_store ? emit_copy(s, &b) : 0;
    if (r < 0 || (r = make_registers(s, &b)) < 0)
        return r;
    if (r == 0 && (r = emit_none(s, &b, end)) == 0 && (r = emit_begin(s, &b)) == 0 && !b.d->whole)
        r = (over = ptx_label_new(j->f, "GOVER")) == UINT32_MAX ? rw_site_nomem(j) : emit_over(s, &b, over);
    b.inside = true;
    if (r == 0)
        r = emit_rounds(s, &b);
    b.inside = false;
    if (r == 0 && !b.d->whole && (r = rw_emit_bra(j, end, PTX_NO_REG, false)) == 0 && (r = rw_emit_label(j, over)) == 0)
        r = emit_rounds(s, &b);
    if (r == 0)
        r = rw_emit_label(j, end);
    return r == 0 ? emit_end(s, &b) : r;
}
