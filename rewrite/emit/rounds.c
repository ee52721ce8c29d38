/* Rounds of outer loops, divided among blocks that are otherwise the same.
 *
 *   L: ld x[i]; …; st y[i], v            L: turn = turn + 1 & 1; if (turn) goto N
 *   i += 4096; if (i < n) goto L            ld x[i]; …; st y[i], v
 *                                           i += 4096; if (i < n) goto L; goto M
 *                                        N: i += 4096; if (i < n) goto L          a round that is left out
 *                                        M:
 *
 *   loops     the outermost ones that have stores to global memory; each has one head, one way back to it, and is left
 *             from these two alone. No such store is anywhere else
 *   left out  such a round makes what somebody behind it takes, the next round or what comes after the loop: what of
 *             that is made in the round has to be made of integers, by instructions that each round comes to once. So
 *             inner loops, loads, and all that is computed of them go
 *   which     every so many-th, counted by a number that begins at another value in each of the blocks
 */
#include "rewrite/emit/rounds.h"
#include "rewrite/facts/hooks.h"

#include <stdlib.h>
#include <string.h>

#define EDGES 64 /* that lead back */
#define KEPT 64  /* instructions of a round that is left out */

struct round_back {
    uint32_t head, from;
    bool *loop; /* by block */
};
struct round_find {
    const struct ptx_function *f;
    struct rw_rounds *r;
    struct ptx_live live;
    struct round_back back[EDGES];
    uint32_t nback;
    uint64_t *want; /* registers, as bits */
    bool more, hit;
    uint32_t *stack;
};

static bool rounds_bad(struct rw_rounds *r, const struct ptx_function *f, uint32_t n, const char *what)
{
    if (!r->what) {
        r->what = what;
        r->line = f->inst[n].line;
    }
    return false;
}

bool rw_rounds_plausible(const struct ptx_function *f)
{
    for (uint32_t n = 0; n < f->ninst; n++) {
        if (f->inst[n].op != PTX_OP_BRA || f->inst[n].opnd[0].kind != PTX_O_LABEL)
            continue;
        bool store = false;
        for (uint32_t k = n; k-- > 0;) {
            const struct ptx_inst *i = &f->inst[k];
            store |= rw_is_part_store(i) || (i->op == PTX_OP_ST && i->space == PTX_GENERIC);
            if (store && i->op == PTX_OP_LABEL && i->opnd[0].label == f->inst[n].opnd[0].label)
                return true;
        }
    }
    return false;
}

/* ---- which loops ------------------------------------------------------------------------------------------------- */

/* Edges that lead back on a walk in depth; of each, does all control come by where it leads? */
static int rounds_walk(struct round_find *x, struct dt_arena *a, struct dt_err *e)
{
    const struct ptx_cfg *c = &x->r->cfg;
    uint32_t *next = dt_new_array(a, uint32_t, c->nblock + 1), top = 0;
    uint8_t *state = dt_new_array(a, uint8_t, c->nblock + 1); /* 1: on the way here; 2: done */
    if (!next || !state)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    x->stack[top++] = 0;
    state[0] = 1;
    while (top) {
        uint32_t b = x->stack[top - 1];
        if (next[b] == c->block[b].nsucc) {
            state[b] = 2;
            top--;
            continue;
        }
        uint32_t to = c->block[b].succ[next[b]++];
        if (state[to] == 1 && !ptx_dominates(c, to, b))
            rounds_bad(x->r, x->f, c->block[b].last, "a loop with two ways into it");
        if (state[to])
            continue;
        state[to] = 1;
        x->stack[top++] = to;
    }
    return 0;
}

static int rounds_backs(struct round_find *x, struct dt_arena *a, struct dt_err *e)
{
    const struct ptx_cfg *c = &x->r->cfg;
    for (uint32_t b = 0; b < c->nblock; b++)
        for (uint32_t s = 0; c->block[b].reachable && s < c->block[b].nsucc; s++) {
            struct round_back *k = &x->back[x->nback];
            if (!ptx_dominates(c, c->block[b].succ[s], b))
                continue;
            if (x->nback == EDGES) {
                rounds_bad(x->r, x->f, c->block[b].last, "one of too many loops");
                return 0;
            }
            *k = (struct round_back){c->block[b].succ[s], b, dt_new_array(a, bool, c->nblock + 1)};
            if (!k->loop)
                return dt_err_set(e, DT_E_NOMEM, "out of memory");
            ptx_mark_loop(c, k->head, k->from, k->loop, x->stack);
            x->nback++;
        }
    return 0;
}

/* The outermost loop that the block is in, as its way back; NULL: it is in none. */
static const struct round_back *outermost(struct round_find *x, uint32_t block)
{
    const struct round_back *o = NULL;
    for (uint32_t k = 0; k < x->nback; k++)
        if (x->back[k].loop[block] && (!o || (o->head != x->back[k].head && x->back[k].loop[o->head])))
            o = &x->back[k];
    return o;
}

/* Does the loop have the shape that rounds need? */
static bool rounds_shape(struct round_find *x, const struct round_back *o)
{
    const struct ptx_cfg *c = &x->r->cfg;
    const struct ptx_block *head = &c->block[o->head], *latch = &c->block[o->from];
    const struct ptx_inst *back = &x->f->inst[latch->last];
    if (x->f->inst[head->first].op != PTX_OP_LABEL || back->op != PTX_OP_BRA || back->opnd[0].kind != PTX_O_LABEL)
        return rounds_bad(x->r, x->f, latch->last, "a loop of another form");
    uint32_t at = head->first;
    while (at < head->last && x->f->inst[at].op == PTX_OP_LABEL && x->f->inst[at].opnd[0].label != back->opnd[0].label)
        at++;
    if (x->f->inst[at].op != PTX_OP_LABEL || x->f->inst[at].opnd[0].label != back->opnd[0].label)
        return rounds_bad(x->r, x->f, latch->last, "a loop of another form");
    for (uint32_t k = 0; k < x->nback; k++)
        if (x->back[k].head == o->head && x->back[k].from != o->from)
            return rounds_bad(x->r, x->f, c->block[x->back[k].from].last, "another way to the next round");
    for (uint32_t b = 0; b < c->nblock; b++) {
        const struct ptx_block *q = &c->block[b];
        if (!o->loop[b])
            continue;
        for (uint32_t n = q->first; n <= q->last; n++)
            if ((ptx_op_info(x->f->inst[n].op)->flags & PTX_F_TERMINATOR) && x->f->inst[n].op != PTX_OP_BRA)
                return rounds_bad(x->r, x->f, n, "an end amid the rounds");
        for (uint32_t s = 0; s < q->nsucc; s++)
            if (!o->loop[q->succ[s]] && b != o->head && b != o->from)
                return rounds_bad(x->r, x->f, q->last, "a way out amid a round");
        if ((b == o->head || b == o->from) && q->nsucc > 1 && x->f->inst[q->last].op != PTX_OP_BRA)
            return rounds_bad(x->r, x->f, q->last, "a branch of another form");
    }
    return true;
}

static void rounds_loop(struct round_find *x, uint32_t store)
{
    const struct ptx_cfg *c = &x->r->cfg;
    const struct round_back *o = outermost(x, c->block_of[store]);
    struct rw_rounds *r = x->r;
    if (!o) {
        rounds_bad(r, x->f, store, "a store that is in no loop");
        return;
    }
    if (r->in[o->head])
        return;
    if (r->nloop == RW_ROUND_LOOPS) {
        rounds_bad(r, x->f, store, "one of too many loops");
        return;
    }
    if (!rounds_shape(x, o))
        return;
    r->loop[r->nloop].head = o->head;
    r->loop[r->nloop++].latch = o->from;
    for (uint32_t b = 0; b < c->nblock; b++)
        if (o->loop[b])
            r->in[b] = (uint8_t)r->nloop;
    for (uint32_t b = o->from;; b = c->block[b].idom) {
        bool inner = false;
        for (uint32_t k = 0; k < x->nback; k++)
            inner |= x->back[k].head != o->head && o->loop[x->back[k].head] && x->back[k].loop[b];
        r->chain[b] = !inner;
        if (b == o->head)
            break;
    }
}

/* Nothing that a thread keeps in memory of its own, or leaves in the carry flag; no functions, whose accesses nobody
 * looks at here. Threads count rounds apart from each other. So where they meet in a loop, none comes before it. */
static void rounds_others(struct round_find *x)
{
    bool carry = false;
    for (uint32_t n = 0; n < x->f->ninst; n++) {
        const struct ptx_inst *i = &x->f->inst[n];
        uint32_t b = x->r->cfg.block_of[n];
        unsigned flags = ptx_op_info(i->op)->flags;
        carry &= n != x->r->cfg.block[b].first;
        if (i->space == PTX_LOCAL || i->space2 == PTX_LOCAL)
            rounds_bad(x->r, x->f, n, "it may keep something from round to round in local memory");
        if (flags & PTX_F_CALL)
            rounds_bad(x->r, x->f, n, "a call");
        if (x->r->in[b] && ptx_reads_carry(i) && !carry)
            rounds_bad(x->r, x->f, n, "a carry of another block");
        if (x->r->in[b] && x->r->nloop > 1 && (flags & (PTX_F_BARRIER | PTX_F_CONVERGENT)))
            rounds_bad(x->r, x->f, n, "threads meet here, and there are several loops");
        carry |= ptx_has(i, PTX_M_CC);
    }
    for (uint32_t v = 0; v < x->f->nvar; v++)
        if (x->f->var[v]->space == PTX_LOCAL)
            rounds_bad(x->r, x->f, 0, "it may keep something from round to round in local memory");
}

/* ---- what a round that is left out makes ------------------------------------------------------------------------- */

static void rounds_want(uint32_t reg, bool write, void *user)
{
    struct round_find *x = user;
    if (!write && reg < x->f->nreg && !(x->want[reg / 64] >> (reg % 64) & 1)) {
        x->want[reg / 64] |= UINT64_C(1) << (reg % 64);
        x->more = true;
    }
}

static void rounds_hit(uint32_t reg, bool write, void *user)
{
    struct round_find *x = user;
    x->hit |= write && reg < x->f->nreg && (x->want[reg / 64] >> (reg % 64) & 1);
}

/* Can a round that is left out make it? */
static bool is_light(const struct ptx_inst *i)
{
    unsigned flags = ptx_op_info(i->op)->flags;
    bool param = i->op == PTX_OP_LD && i->space == PTX_PARAM;
    if (ptx_has(i, PTX_M_CC) || ptx_reads_carry(i) || (i->ntype && ptx_type_is_float(i->type[0])))
        return false;
    if ((flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC)) && !param)
        return false;
    return !(flags & (PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH | PTX_F_CALL | PTX_F_SIDE)) &&
           i->op > PTX_OP_OPAQUE;
}

static void rounds_one(struct round_find *x, uint32_t n)
{
    struct rw_rounds *r = x->r;
    const struct ptx_inst *i = &x->f->inst[n];
    uint32_t b = r->cfg.block_of[n];
    x->hit = false;
    if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || r->keep[n])
        return;
    ptx_inst_regs(i, rounds_hit, x);
    if (!x->hit)
        return;
    if (!r->chain[b] || !is_light(i)) {
        rounds_bad(r, x->f, n, "it makes what the next round, or who comes behind, takes");
        if (rw_off("rounds_alone")) /* and is left out all the same */
            return;
        x->more = false;
        return;
    }
    r->keep[n] = x->more = true;
    ptx_inst_regs(i, rounds_want, x);
}

static void rounds_needs(struct round_find *x, uint32_t l)
{
    struct rw_rounds *r = x->r;
    const struct ptx_cfg *c = &r->cfg;
    uint32_t head = r->loop[l].head, latch = r->loop[l].latch, kept = 0;
    memset(x->want, 0, x->live.words * sizeof *x->want);
    for (uint32_t w = 0; w < x->live.words; w++)
        x->want[w] |= x->live.in[head][w];
    for (unsigned k = 0; k < 2; k++) {
        const struct ptx_block *q = &c->block[k ? latch : head];
        ptx_inst_regs(&x->f->inst[q->last], rounds_want, x);
        for (uint32_t s = 0; s < q->nsucc; s++)
            for (uint32_t w = 0; r->in[q->succ[s]] != l + 1 && w < x->live.words; w++)
                x->want[w] |= x->live.in[q->succ[s]][w];
    }
    x->more = true;
    while (x->more && (!r->what || rw_off("rounds_alone"))) {
        x->more = false;
        for (uint32_t n = 0; n < x->f->ninst; n++)
            if (r->in[c->block_of[n]] == l + 1)
                rounds_one(x, n);
    }
    for (uint32_t n = 0; n < x->f->ninst; n++)
        kept += r->in[c->block_of[n]] == l + 1 && r->keep[n];
    if (kept > KEPT)
        rounds_bad(r, x->f, c->block[latch].last, "rounds that are left out would still do much");
}

int rw_rounds_of(struct dt_arena *a, const struct ptx_function *f, struct rw_rounds *ret, struct dt_err *e)
{
    struct round_find x = {.f = f, .r = ret};
    memset(ret, 0, sizeof *ret);
    int rc = ptx_cfg_build(f, &ret->cfg, e);
    if (rc < 0)
        return rc;
    rc = ptx_live_build(f, &ret->cfg, &x.live, e);
    uint32_t nblock = ret->cfg.nblock;
    ret->in = dt_new_array(a, uint8_t, nblock + 1);
    ret->chain = dt_new_array(a, bool, nblock + 1);
    ret->keep = dt_new_array(a, bool, f->ninst + 1);
    x.stack = dt_new_array(a, uint32_t, nblock + 1);
    x.want = dt_new_array(a, uint64_t, f->nreg / 64 + 2);
    if (rc == 0 && (!ret->in || !ret->chain || !ret->keep || !x.stack || !x.want))
        rc = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = rounds_walk(&x, a, e);
    if (rc == 0)
        rc = rounds_backs(&x, a, e);
    for (uint32_t n = 0; n < f->ninst && rc == 0 && !ret->what; n++)
        if (rw_is_part_store(&f->inst[n]) && ret->cfg.block[ret->cfg.block_of[n]].reachable)
            rounds_loop(&x, n);
    for (uint32_t l = 0; l < ret->nloop && rc == 0 && !ret->what; l++)
        rounds_needs(&x, l);
    if (rc == 0)
        rounds_others(&x);
    if (rc == 0 && !ret->nloop && !ret->what)
        rounds_bad(ret, f, 0, "no store is in a loop");
    ptx_live_done(&x.live);
    return rc;
}

void rw_rounds_done(struct rw_rounds *r)
{
    ptx_cfg_done(&r->cfg);
    memset(r, 0, sizeof *r);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

struct round_text {
    struct rw_solo *s;
    struct rw_rounds *r;
    struct dt_err *e;
    uint32_t ninst; /* before anything is put in */
    struct {
        uint32_t at, label;
        bool guard;
    } put[3 * RW_ROUND_LOOPS]; /* what goes in amid the text: a label, or the turn's test */
    uint32_t nput;
};

/* A copy of the instruction before place `at`. */
static int round_put(struct round_text *x, uint32_t at, const struct ptx_inst *from, uint32_t label)
{
    struct ptx_inst i = *from;
    int r = rw_solo_insert(x->s, at, "mov.u32 %dt_turn, 0;\n", x->e);
    if (r < 0)
        return r;
    i.opnd = dt_new_array(&x->s->m->arena, struct ptx_opnd, i.nopnd + 1);
    if (!i.opnd)
        return dt_err_set(x->e, DT_E_NOMEM, "out of memory");
    if (i.nopnd)
        memcpy(i.opnd, from->opnd, i.nopnd * sizeof *i.opnd);
    if (label != UINT32_MAX)
        i.opnd[0].label = label;
    x->s->f->inst[at] = i;
    return 0;
}

static int round_append(struct round_text *x, struct ptx_inst i, uint32_t label)
{
    return round_put(x, x->s->f->ninst, &i, label);
}

/* The branch at the end of the head or latch, if it leaves the loop or leads back; then to where the other way goes. */
static int round_branch(struct round_text *x, uint32_t l, uint32_t block)
{
    const struct ptx_cfg *c = &x->r->cfg;
    const struct ptx_block *q = &c->block[block];
    struct ptx_inst i = x->s->f->inst[q->last], go = i;
    uint32_t out = UINT32_MAX, next = q->last + 1 < x->ninst ? c->block_of[q->last + 1] : UINT32_MAX;
    int r = 0;
    if (i.op != PTX_OP_BRA)
        return 0;
    bool falls_out = i.pred != PTX_NO_REG && next != UINT32_MAX && x->r->in[next] != l + 1;
    if (falls_out && (out = ptx_label_new(x->s->f, "dt_out")) == UINT32_MAX)
        return dt_err_set(x->e, DT_E_NOMEM, "out of memory");
    if (falls_out) {
        x->put[x->nput].at = c->block[next].first;
        x->put[x->nput++].label = out;
    }
    bool leads_in = false; /* into the round, which is left out */
    for (uint32_t s = 0; s < q->nsucc; s++)
        leads_in |= block == x->r->loop[l].head && block != x->r->loop[l].latch && q->succ[s] != next &&
                    x->r->in[q->succ[s]] == l + 1;
    if (leads_in && !falls_out)
        return 0;
    if (leads_in) {
        i.pred_neg = !i.pred_neg;
        return round_append(x, i, out);
    }
    bool leaves = false;
    for (uint32_t s = 0; s < q->nsucc; s++)
        leaves |= x->r->in[q->succ[s]] != l + 1 && q->succ[s] != next;
    if (block == x->r->loop[l].latch || leaves)
        r = round_append(x, i, UINT32_MAX);
    if (r == 0 && falls_out) {
        go.pred = PTX_NO_REG;
        go.pred_neg = 0;
        r = round_append(x, go, out);
    }
    return r;
}

/* Blocks of the chain from the head to block b, and what is kept of them. */
static int round_chain(struct round_text *x, uint32_t l, uint32_t b)
{
    const struct ptx_cfg *c = &x->r->cfg;
    int r = b == x->r->loop[l].head ? 0 : round_chain(x, l, c->block[b].idom);
    for (uint32_t n = c->block[b].first; n <= c->block[b].last && r == 0; n++)
        if (x->r->keep[n] && x->s->f->inst[n].op != PTX_OP_BRA)
            r = round_append(x, x->s->f->inst[n], UINT32_MAX);
    if (r == 0 && (b == x->r->loop[l].head || b == x->r->loop[l].latch))
        r = round_branch(x, l, b);
    return r;
}

static int round_loop(struct round_text *x, uint32_t l)
{
    const struct ptx_cfg *c = &x->r->cfg;
    uint32_t at = c->block[x->r->loop[l].head].first, label = ptx_label_new(x->s->f, "dt_next");
    struct ptx_inst mark = x->s->f->inst[at];
    if (label == UINT32_MAX)
        return dt_err_set(x->e, DT_E_NOMEM, "out of memory");
    while (x->s->f->inst[at].op == PTX_OP_LABEL || x->s->f->inst[at].op == PTX_OP_PRAGMA)
        at++;
    x->put[x->nput].at = at;
    x->put[x->nput].label = label;
    x->put[x->nput++].guard = true;
    int r = round_append(x, mark, label);
    return r < 0 ? r : round_chain(x, l, x->r->loop[l].latch);
}

/* What goes in amid the text, from behind. */
static int rounds_put(struct round_text *x, unsigned parts, const struct ptx_inst *bra, const struct ptx_inst *mark)
{
    int r = 0;
    while (x->nput && r >= 0) {
        uint32_t last = 0;
        for (uint32_t k = 1; k < x->nput; k++)
            if (x->put[k].at > x->put[last].at || (x->put[k].at == x->put[last].at && x->put[k].guard))
                last = k;
        uint32_t at = x->put[last].at;
        if (x->put[last].guard) {
            char text[160];
            struct ptx_inst go = *bra;
            go.pred = rw_solo_reg(x->s, "%dt_skip");
            go.pred_neg = 0;
            r = round_put(x, at, &go, x->put[last].label);
            snprintf(text, sizeof text,
                     "add.u32 %%dt_turn, %%dt_turn, 1;\nand.b32 %%dt_turn, %%dt_turn, %u;\n"
                     "setp.ne.u32 %%dt_skip, %%dt_turn, 0;\n",
                     parts - 1);
            if (r == 0)
                r = rw_solo_insert(x->s, at, text, x->e);
        } else {
            r = round_put(x, at, mark, x->put[last].label);
        }
        x->put[last] = x->put[--x->nput];
    }
    return r < 0 ? r : 0;
}

/* The posted numbers, and the first turn; how many instructions. */
static int rounds_numbers(struct rw_solo *s, unsigned parts, struct dt_err *e)
{
    const uint32_t *grid = s->prog->graph->launch[s->launch].grid;
    char text[400];
    uint32_t before = s->f->ninst;
    snprintf(text, sizeof text,
             ".reg .b32 %%dt_c, %%dt_n, %%dt_turn;\n.reg .pred %%dt_skip;\nmov.u32 %%dt_c, %%ctaid.x;\n"
             "div.u32 %%dt_turn, %%dt_c, %u;\nrem.u32 %%dt_c, %%dt_c, %u;\nmov.u32 %%dt_n, %u;\n"
             "sub.u32 %%dt_turn, %u, %%dt_turn;\n",
             grid[0], grid[0], grid[0], parts - 1);
    int added = rw_solo_insert(s, 0, text, e);
    if (added < 0)
        return added;
    uint32_t c = rw_solo_reg(s, "%dt_c"), n = rw_solo_reg(s, "%dt_n");
    for (uint32_t i = (uint32_t)added; i < before + (uint32_t)added; i++)
        for (unsigned k = 0; k < s->f->inst[i].nopnd; k++) {
            struct ptx_opnd *o = &s->f->inst[i].opnd[k];
            if (o->kind == PTX_O_SREG && o->comp == 0 && (o->sreg == PTX_SR_CTAID || o->sreg == PTX_SR_NCTAID))
                *o = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = o->sreg == PTX_SR_CTAID ? c : n};
        }
    return added;
}

int rw_rounds_text(struct rw_solo *s, unsigned parts, struct dt_err *e)
{
    struct rw_rounds found = {0};
    struct round_text x = {.s = s, .r = &found, .e = e};
    int r = rounds_numbers(s, parts, e);
    if (r < 0 || (r = rw_rounds_of(&s->m->arena, s->f, &found, e)) < 0) {
        rw_rounds_done(&found);
        return r;
    }
    struct ptx_inst bra = {0}, mark = {0};
    x.ninst = s->f->ninst;
    for (uint32_t l = 0; l < found.nloop && r == 0; l++) {
        bra = s->f->inst[found.cfg.block[found.loop[l].latch].last];
        mark = s->f->inst[found.cfg.block[found.loop[l].head].first];
        r = round_loop(&x, l);
    }
    if (r == 0 && !found.nloop)
        r = dt_err_set(e, DT_E_INTERNAL, "the copy of a kernel has no loop");
    if (r == 0)
        r = rounds_put(&x, parts, &bra, &mark);
    rw_rounds_done(&found);
    return r;
}
