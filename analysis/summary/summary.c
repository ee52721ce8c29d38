/* A launch's footprints without running it: its slice, walked once for many blocks and many rounds of its loops.
 *
 * Every register is a form (form.c): in each thread of a block a number that moves by constants with the block number
 * and with the rounds of the loops that are being walked. All threads of a block are walked side by side under a mask,
 * the lowest basic block first, as the executor does. An instruction may need something to hold for *all* blocks and
 * rounds at hand. Then their number is lowered until it holds, so that nothing is guessed and nothing taken back:
 *
 *   blocks   The grid begins as one box of blocks. Where a branch or a mask would differ between blocks, or an address
 *            would not move evenly with the block number, the box shrinks; the blocks that were cut off are walked
 *            later. Where it moves evenly with every third block (rows of three blocks each), every third is a box.
 *   loops    The first round of a loop is walked alone. The second is walked with what the first changed each register
 *            by as its step, for as many rounds as it takes until something differs: a branch that goes the other way
 *            ends the rounds before it does. If afterwards each register is what it was plus its step, this one walk
 *            stands for all of these rounds (induction); else for the first of them. The walk goes on with the round
 *            after. So a loop of n rounds costs three walks, more where its body changes on the way, n where nothing
 *            moves evenly.
 *
 * Example: `for (k = 0; k < 512; k++) s += a[row * 512 + k]`. Round 0 is walked; k grew by 1. The second walk has k = 1
 * with step 1. The branch back goes the other way in the last round, so this walk stands for rounds 1 to 510, and the
 * last round is walked alone. Its records become one run of bytes for each thread (shape.c).
 *
 * There is no summary where an instruction is not known to form-inst.c, memory that the kernel writes is read back,
 * threads exchange values, an address leaves its buffer or is misaligned (running the kernel says what is wrong), or
 * where all this would take longer than running it. The launch is recorded on the device instead.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/summary/summary-priv.h"

#define ENDLESS (INT64_C(1) << 31) /* rounds of a loop whose end was not met yet */

/* ---- loops of the flow graph ------------------------------------------------------------------------------------- */
static struct ana_loop_info *loop_at(struct ana_sum *s, uint32_t header)
{
    if (s->loop_of[header])
        return &s->loop[s->loop_of[header] - 1];
    struct ana_loop_info *k = &s->loop[s->nloop++];
    s->loop_of[header] = s->nloop;
    k->header = header;
    k->in = dt_new_array(&s->a, bool, (size_t)s->code->cfg->nblock + 1);
    s->oom |= !k->in;
    return k;
}

static void find_loops(struct ana_sum *s)
{
    const struct ptx_cfg *c = s->code->cfg;
    uint32_t *stack = dt_new_array(&s->a, uint32_t, (size_t)c->nblock + 1);
    s->loop = dt_new_array(&s->a, struct ana_loop_info, (size_t)c->nblock + 1);
    s->loop_of = dt_new_array(&s->a, uint32_t, (size_t)c->nblock + 1);
    s->oom |= !stack || !s->loop || !s->loop_of;
    for (uint32_t b = 0; b < c->nblock && !s->oom; b++)
        for (uint32_t k = 0; c->block[b].reachable && k < c->block[b].nsucc && !s->oom; k++) {
            uint32_t h = c->block[b].succ[k];
            struct ana_loop_info *l = ptx_dominates(c, h, b) ? loop_at(s, h) : NULL;
            if (l && !s->oom)
                ptx_mark_loop(c, h, b, l->in, stack);
        }
}

struct defined {
    uint8_t *by;
};

static void define(uint32_t r, bool write, void *user)
{
    if (write)
        ((struct defined *)user)->by[r] = 1;
}

/* Registers that a round of each loop hands to the next: defined in it, and live at its head. */
static int find_carried(struct ana_sum *s)
{
    const struct ana_code *c = s->code;
    struct ptx_live live = {0};
    struct ptx_function f = *c->f;
    f.inst = (struct ptx_inst *)c->inst;
    f.ninst = c->ninst;
    f.nreg = c->nreg;
    struct dt_err large = {0};
    int rc = s->nloop ? ptx_live_build(&f, c->cfg, &live, &large) : 0;
    for (uint32_t k = 0; k < s->nloop && !rc; k++) {
        struct ana_loop_info *l = &s->loop[k];
        struct defined d = {dt_new_array(&s->a, uint8_t, (size_t)c->nreg + 1)};
        l->reg = dt_new_array(&s->a, uint32_t, (size_t)c->nreg + 1);
        if (!d.by || !l->reg) {
            rc = DT_E_NOMEM;
            break;
        }
        for (uint32_t at = 0; at < c->ninst; at++)
            if (c->keep[at] && l->in[c->cfg->block_of[at]])
                ptx_inst_regs(&c->inst[at], define, &d);
        for (uint32_t r = 0; r < c->nreg; r++)
            if (d.by[r] && live.in[l->header][r / 64] >> r % 64 & 1)
                l->reg[l->n++] = r;
        l->round = dt_new_array(&s->a, struct ana_round, (size_t)l->n + 1);
        for (uint32_t q = 0; q < l->n && l->round; q++) {
            ana_form_init(s, &l->round[q].start);
            l->round[q].by = dt_new_array(&s->a, int64_t, s->n);
        }
        if (s->a.failed)
            rc = DT_E_NOMEM;
    }
    ptx_live_done(&live);
    dt_err_done(&large);
    if (rc == DT_E_TOO_LARGE)
        ana_cannot(s, "a kernel too large");
    return rc == DT_E_TOO_LARGE ? 0 : rc;
}

/* ---- lanes on their way ------------------------------------------------------------------------------------------ */
static bool any(const struct ana_sum *s, const uint8_t *lane) { return memchr(lane, 1, s->n) != NULL; }

static void set_mask(struct ana_sum *s, const uint8_t *lane)
{
    s->mask = lane;
    s->full = !memchr(lane, 0, s->n);
}

/* Lanes leave these loops: there is no round after this one. */
static void summary_leave(struct ana_sum *s, const struct ana_frame *f, const uint8_t *lane)
{
    for (uint32_t l = 0; f->dim >= 0 && l < s->n; l++)
        if (lane[l])
            s->count[f->dim][l] = 1;
}

static void arrive(struct ana_sum *s, uint32_t block, const uint8_t *lane)
{
    struct ana_frame *f = s->frame;
    if (!any(s, lane))
        return;
    for (; f && !s->loop[f->loop].in[block]; f = f->up)
        summary_leave(s, f, lane);
    uint8_t *to = f && s->loop[f->loop].header == block ? f->back : s->wait[block];
    if (!to && !(to = s->wait[block] = dt_new_array(&s->a, uint8_t, s->n))) {
        s->oom = true;
        return;
    }
    for (uint32_t l = 0, n = s->n; l < n; l++)
        to[l] |= lane[l];
    if (to == s->wait[block])
        s->waiting[block] = true;
}

/* out = lanes for which the predicate of i holds. */
static void predicate(const struct ana_sum *s, const struct ptx_inst *i, const uint8_t *lane, uint8_t *out)
{
    const int64_t *p = s->reg[i->pred].base;
    const uint8_t not = i->pred_neg;
    uint8_t *holds = s->pred;
    for (uint32_t l = 0, n = s->n; l < n; l++)
        holds[l] = p[l] != 0;
    for (uint32_t l = 0, n = s->n; l < n; l++)
        out[l] = lane[l] & (holds[l] ^ not );
}

static void summary_access(struct ana_sum *s, uint32_t site, const uint8_t *lane, uint8_t *mine)
{
    const struct ana_site *x = &s->code->sites.site[site];
    const struct ptx_inst *i = &s->code->inst[x->inst];
    const struct ptx_opnd *o = &i->opnd[x->opnd];
    const struct ana_form *f;
    if (x->span) {
        ana_cannot(s, "a bulk copy, a copy of a tensor or a matrix in memory");
        return;
    }
    memcpy(mine, lane, s->n);
    if (i->pred != PTX_NO_REG)
        predicate(s, i, lane, mine);
    set_mask(s, mine);
    const struct ptx_opnd *z = ptx_cp_async_source(i);
    if (z) { /* its source size, or whether to ignore it */
        bool pred = z->kind == PTX_O_REG && s->code->f->reg[z->reg].type == PTX_PRED;
        const struct ana_form *v = ana_operand(s, z, 32, 0);
        ana_hold(s, v);
        for (uint32_t l = 0; l < s->n; l++)
            mine[l] = mine[l] && (pred ? !v->base[l] : v->base[l] != 0);
        set_mask(s, mine);
    }
    if (o->kind != PTX_O_ADDR || o->base_kind == PTX_O_NONE) {
        ana_cannot(s, "an absolute address");
        return;
    }
    if (o->base_kind == PTX_O_REG) {
        f = &s->reg[o->reg];
    } else {
        struct ptx_opnd v = {.kind = PTX_O_VAR, .var = o->var};
        f = ana_operand(s, &v, 64, 0);
    }
    if (!s->no && any(s, mine))
        ana_rec_add(s, site, f, o->off);
}

static void end_of_block(struct ana_sum *s, uint32_t b, const uint8_t *lane, uint8_t *go, uint8_t *stay)
{
    const struct ana_code *c = s->code;
    const struct ptx_inst *i = &c->inst[c->cfg->block[b].last];
    unsigned flags = ptx_op_info(i->op)->flags;
    uint32_t at = c->cfg->block[b].last, next = at + 1 < c->ninst ? c->cfg->block_of[at + 1] : UINT32_MAX;
    memcpy(go, lane, s->n);
    memset(stay, 0, s->n);
    if (c->cut[at]) {
        arrive(s, c->cut[at] - 1, lane);
        return;
    }
    bool ends = flags & (PTX_F_BRANCH | PTX_F_TERMINATOR);
    if (ends && i->pred != PTX_NO_REG) {
        predicate(s, i, lane, go);
        for (uint32_t l = 0, n = s->n; l < n; l++)
            stay[l] = lane[l] & (uint8_t)!go[l];
    } else if (!ends) {
        memcpy(stay, lane, s->n);
        memset(go, 0, s->n);
    }
    if (i->op == PTX_OP_BRA)
        arrive(s, s->label[i->opnd[0].label], go);
    else if (flags & PTX_F_BRANCH)
        ana_cannot(s, "an indexed branch");
    else
        for (const struct ana_frame *f = s->frame; f; f = f->up) /* return, exit */
            summary_leave(s, f, go);
    if (next != UINT32_MAX)
        arrive(s, next, stay);
    else
        for (const struct ana_frame *f = s->frame; f; f = f->up)
            summary_leave(s, f, stay);
}

static void run_block(struct ana_sum *s, uint32_t b, const uint8_t *lane, uint8_t *scratch)
{
    const struct ana_code *c = s->code;
    const struct ana_sites *v = &c->sites;
    uint32_t site = s->first_site[b];
    s->work += s->n / 4; /* so that an empty loop ends too */
    for (uint32_t at = c->cfg->block[b].first; at <= c->cfg->block[b].last && !s->no && !s->oom; at++) {
        const struct ptx_inst *i = &c->inst[at];
        for (; site < v->nsite && v->site[site].inst == at; site++)
            summary_access(s, site, lane, scratch);
        if (!c->keep[at] || i->op < PTX_OP_OPAQUE || ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR))
            continue;
        if (i->pred != PTX_NO_REG)
            predicate(s, i, lane, scratch);
        set_mask(s, i->pred != PTX_NO_REG ? scratch : lane);
        if (!s->no && any(s, s->mask))
            ana_inst_run(s, i);
    }
    if (!s->no && !s->oom)
        end_of_block(s, b, lane, scratch, scratch + s->n);
    if (s->work > s->most)
        ana_cannot(s, "walking it takes longer than running it");
}

static void run_loop(struct ana_sum *s, uint32_t loop, const uint8_t *lane);

/* Blocks of the loop (all, where it is NULL) that lanes wait for, until there are none. */
static void run_waiting(struct ana_sum *s, const struct ana_loop_info *in)
{
    uint8_t *lane = dt_malloc(3 * (size_t)s->n);
    s->oom |= !lane;
    for (uint32_t b = 0; b < s->code->cfg->nblock && !s->no && !s->oom;) {
        if (!s->waiting[b] || (in && !in->in[b])) {
            b++;
            continue;
        }
        memcpy(lane, s->wait[b], s->n);
        memset(s->wait[b], 0, s->n);
        s->waiting[b] = false;
        if (s->loop_of[b])
            run_loop(s, s->loop_of[b] - 1, lane);
        else
            run_block(s, b, lane, lane + s->n);
        b = 0;
    }
    free(lane);
}

/* ---- a loop ------------------------------------------------------------------------------------------------------ */
static bool same_steps(const struct ana_form *x, const struct ana_form *y, uint32_t l, int but)
{
    for (int d = 0; d < ANA_DIMS; d++) {
        int64_t p = x->dims >> d & 1 ? ana_step(x, (unsigned)d, l) : 0,
                q = y->dims >> d & 1 ? ana_step(y, (unsigned)d, l) : 0;
        if (d != but && p != q)
            return false;
    }
    return (x->points ? x->mem[l] : 0) == (y->points ? y->mem[l] : 0);
}

/* After a walk: how many rounds it stands for; registers as they are after these; what the next round is likely to
 * add. */
static void end_of_walk(struct ana_sum *s, const struct ana_loop_info *k, struct ana_round *r, int dim,
                        const uint8_t *back, uint8_t *known)
{
    int64_t *count = dim < 0 ? NULL : s->count[dim];
    for (uint32_t q = 0; q < k->n && count; q++) {
        const struct ana_form *x = &s->reg[k->reg[q]];
        for (uint32_t l = 0; l < s->n; l++) {
            if (!back[l] || count[l] == 1)
                continue;
            int64_t step = x->dims >> dim & 1 ? ana_step(x, (unsigned)dim, l) : 0;
            bool good =
                same_steps(x, &r[q].start, l, dim) && step == r[q].by[l] &&
                x->base[l] == ana_canon((uint64_t)r[q].start.base[l] + (uint64_t)r[q].by[l], s->bits[k->reg[q]]);
            if (!good)
                count[l] = 1;
        }
    }
    for (uint32_t l = 0; l < s->n; l++)
        known[l] = back[l];
    for (uint32_t q = 0; q < k->n; q++) {
        struct ana_form *x = &s->reg[k->reg[q]];
        unsigned bits = s->bits[k->reg[q]];
        for (uint32_t l = 0; l < s->n; l++) {
            if (!back[l])
                continue;
            if (count && count[l] > 1) {
                x->base[l] = ana_canon((uint64_t)r[q].start.base[l] + (uint64_t)r[q].by[l] * (uint64_t)count[l], bits);
                continue;
            }
            r[q].by[l] = ana_canon((uint64_t)x->base[l] - (uint64_t)r[q].start.base[l], bits);
            known[l] &= same_steps(x, &r[q].start, l, dim);
        }
    }
}

static void run_loop(struct ana_sum *s, uint32_t loop, const uint8_t *lane)
{
    const struct ana_loop_info *k = &s->loop[loop];
    struct ana_frame f = {.up = s->frame, .loop = loop, .dim = s->frame ? s->frame->dim + 1 : ANA_BLOCK_DIMS};
    uint8_t *mem = dt_calloc(6, s->n), *now = mem, *known = mem + s->n, *scratch = mem + 3 * (size_t)s->n;
    struct ana_round *r = k->round;
    if ((s->frame && s->frame->dim < 0) || f.dim >= ANA_DIMS)
        f.dim = -1;
    f.done = s->in->trace ? dt_calloc(s->n, sizeof *f.done) : NULL;
    s->oom |= !mem || (s->in->trace && !f.done);
    if (!s->oom) {
        f.back = mem + 2 * (size_t)s->n;
        memcpy(now, lane, s->n);
    }
    s->frame = &f;
    while (!s->oom && !s->no && any(s, now)) {
        size_t from = s->rec.n;
        set_mask(s, now);
        bool all = true; /* lanes begin a walk of many rounds */
        for (uint32_t l = 0; f.dim >= 0 && l < s->n; l++) {
            s->count[f.dim][l] = now[l] && known[l] ? ENDLESS : 1;
            all &= now[l] && known[l];
        }
        for (uint32_t q = 0; q < k->n; q++) {
            struct ana_form *x = &s->reg[k->reg[q]];
            ana_form_copy(s, &r[q].start, x);
            bool some = false;
            for (uint32_t l = 0; f.dim >= 0 && l < s->n; l++)
                some |= now[l] && known[l] && r[q].by[l];
            if (some && all && ana_uniform(s, r[q].by)) {
                ana_form_flat(s, x, (unsigned)f.dim, r[q].by[0]);
                continue;
            }
            int64_t *step = some ? ana_form_step(s, x, (unsigned)f.dim) : NULL;
            for (uint32_t l = 0; some && l < s->n; l++)
                step[l] = now[l] && known[l] ? r[q].by[l] : 0;
        }
        memset(f.back, 0, s->n);
        run_block(s, k->header, now, scratch);
        run_waiting(s, k);
        if (s->no || s->oom)
            break;
        end_of_walk(s, k, r, f.dim, f.back, known);
        if (f.dim >= 0) {
            ana_rec_close(s, from, (unsigned)f.dim);
            for (uint32_t q = 0; q < s->code->nreg; q++)
                s->reg[q].dims &= (uint8_t) ~(1u << f.dim);
        }
        if (!f.up && s->rec.n)
            ana_rec_flush(s);
        for (uint32_t l = 0; f.done && l < s->n; l++)
            f.done[l] += now[l] ? f.dim < 0 ? 1 : s->count[f.dim][l] : 0;
        memcpy(now, f.back, s->n);
    }
    s->frame = f.up;
    free(f.done);
    free(mem);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */
static int summary_prepare(struct ana_sum *s)
{
    const struct ana_code *c = s->code;
    uint32_t nblock = c->cfg->nblock;
    s->reg = dt_new_array(&s->a, struct ana_form, (size_t)c->nreg + 1);
    s->bits = dt_new_array(&s->a, uint8_t, (size_t)c->nreg + 1);
    s->pred = dt_new_array(&s->a, uint8_t, s->n);
    s->wait = (uint8_t **)dt_new_array(&s->a, uint8_t *, (size_t)nblock + 1);
    s->waiting = dt_new_array(&s->a, bool, (size_t)nblock + 1);
    s->label = dt_new_array(&s->a, uint32_t, (size_t)c->f->nlabel + 1);
    s->first_site = dt_new_array(&s->a, uint32_t, (size_t)nblock + 1);
    if (s->a.failed)
        return DT_E_NOMEM;
    for (uint32_t r = 0; r < c->nreg; r++) {
        s->bits[r] = c->f->reg[r].type == PTX_PRED ? 8 : (uint8_t)(ptx_type_bytes(c->f->reg[r].type) * 8);
        if (s->bits[r] > 64)
            s->bits[r] = 64;
    }
    for (uint32_t at = 0; at < c->ninst; at++) {
        const struct ptx_inst *i = &c->inst[at];
        unsigned flags = ptx_op_info(i->op)->flags;
        if (i->op == PTX_OP_LABEL)
            s->label[i->opnd[0].label] = c->cfg->block_of[at];
        if (!c->keep[at] || i->op < PTX_OP_OPAQUE || !c->cfg->block[c->cfg->block_of[at]].reachable)
            continue;
        if (flags & (PTX_F_BRANCH | PTX_F_TERMINATOR) ? i->op == PTX_OP_BRX_IDX : !ana_inst_known(s, i))
            ana_cannot(s, ptx_op_info(i->op)->mnemonic);
        for (unsigned k = 0; k < i->nopnd; k++)
            if (i->opnd[k].kind == PTX_O_REG)
                s->bits[i->opnd[k].reg] |= 0x80;
            else if (i->opnd[k].kind == PTX_O_VEC)
                for (unsigned q = 0; q < i->opnd[k].n; q++)
                    if (i->opnd[k].elem[q].kind == PTX_O_REG)
                        s->bits[i->opnd[k].elem[q].reg] |= 0x80;
    }
    for (uint32_t k = 0, b = 0; b < nblock; b++) {
        while (k < c->sites.nsite && c->sites.site[k].inst < c->cfg->block[b].first)
            k++;
        s->first_site[b] = k;
    }
    for (uint32_t r = 0; r < c->nreg; r++) { /* only what the slice mentions has room; addresses may be read alone */
        bool used = s->bits[r] & 0x80;
        s->bits[r] &= 0x7f;
        for (uint32_t k = 0; k < c->sites.nsite && !used; k++) {
            const struct ptx_inst *i = &c->inst[c->sites.site[k].inst];
            const struct ptx_opnd *z = ptx_cp_async_source(i);
            used = i->opnd[c->sites.site[k].opnd].reg == r || i->pred == r || (z && z->reg == r);
        }
        if (used)
            ana_form_init(s, &s->reg[r]);
    }
    for (unsigned k = 0; k < sizeof s->tmp / sizeof *s->tmp; k++)
        ana_form_init(s, &s->tmp[k]);
    for (unsigned d = ANA_BLOCK_DIMS; d < ANA_DIMS; d++)
        s->oom |= !(s->count[d] = dt_new_array(&s->a, int64_t, s->n));
    const uint32_t *ext = s->in->block;
    for (unsigned d = 0; d < 3; d++)
        s->oom |= !(s->tid[d] = dt_new_array(&s->a, int64_t, s->n));
    for (uint32_t l = 0; l < s->n && !s->oom; l++)
        s->tid[0][l] = l % ext[0], s->tid[1][l] = l / ext[0] % ext[1], s->tid[2][l] = l / ext[0] / ext[1];
    find_loops(s);
    return s->oom ? DT_E_NOMEM : find_carried(s);
}

static void summary_walk(struct ana_sum *s)
{
    for (uint32_t b = 0; b < s->code->cfg->nblock; b++) { /* what a walk that was broken off has left */
        if (s->waiting[b])
            memset(s->wait[b], 0, s->n);
        s->waiting[b] = false;
    }
    s->rec.n = s->flushed = 0;
    dt_arena_done(&s->rec_arena);
    for (uint32_t r = 0; r < s->code->nreg; r++)
        ana_form_number(&s->reg[r]);
    uint8_t *all = dt_malloc(s->n);
    if (!all) {
        s->oom = true;
        return;
    }
    memset(all, 1, s->n);
    arrive(s, s->code->cfg->block_of[0], all);
    free(all);
    run_waiting(s, NULL);
    if (!s->no && !s->oom)
        ana_rec_flush(s);
}

struct box {
    uint32_t lo[ANA_BLOCK_DIMS], ext[ANA_BLOCK_DIMS], stride[ANA_BLOCK_DIMS];
};
typedef struct dt_vec(struct box) boxes;

/* What was cut off of box b. */
static bool cut_off(const struct ana_sum *s, struct box b, boxes *todo)
{
    bool ok = true;
    for (unsigned d = 0; d < ANA_BLOCK_DIMS && ok; d++) {
        struct box rest = b;
        if (s->ext[d] == b.ext[d])
            continue;
        rest.lo[d] += s->ext[d] * b.stride[d];
        rest.ext[d] -= s->ext[d];
        b.ext[d] = s->ext[d];
        ok = dt_push(todo, rest);
    }
    return ok;
}

/* Box b as boxes whose blocks lie further apart. */
static bool comb(const struct ana_sum *s, struct box b, boxes *todo)
{
    bool ok = true;
    for (unsigned d = 0; d < ANA_BLOCK_DIMS; d++) {
        uint32_t every = s->every[d];
        for (uint32_t k = 0; every && k < every && ok; k++) {
            struct box c = b;
            c.lo[d] += k * b.stride[d];
            c.stride[d] *= every;
            c.ext[d] = (b.ext[d] - k + every - 1) / every;
            ok = dt_push(todo, c);
        }
        if (every)
            break; /* one at a time */
    }
    return ok;
}

int ana_summarise(const struct ana_summary_in *in, struct ana_foot *foot, uint64_t *ret_work, const char **ret_why,
                  struct dt_err *e)
{
    struct ana_sum s = {.in = in, .code = in->code};
    boxes todo = {0};
    uint64_t threads = (uint64_t)in->block[0] * in->block[1] * in->block[2];
    *ret_why = "no slice";
    if (!in->code->sliced || !threads || threads > 1024 || !in->code->ninst)
        return 0;
    s.n = (uint32_t)threads;
    s.most = UINT64_C(1) << 33;
    int rc = summary_prepare(&s);
    if (!rc && !s.no && !dt_push(&todo, (struct box){{0}, {in->grid[0], in->grid[1], in->grid[2]}, {1, 1, 1}}))
        rc = DT_E_NOMEM;
    while (todo.n && !rc && !s.no) {
        struct box b = todo.p[--todo.n];
        memcpy(s.lo, b.lo, sizeof s.lo);
        memcpy(s.ext, b.ext, sizeof s.ext);
        memcpy(s.stride, b.stride, sizeof s.stride);
        memset(s.every, 0, sizeof s.every);
        summary_walk(&s);
        if (s.again) {
            s.again = false;
            s.no = NULL;
            rc = comb(&s, b, &todo) ? 0 : DT_E_NOMEM;
        } else if (!s.no && !s.oom) {
            rc = foot ? ana_planes_add(&s, foot) : 0;
            if (!rc && !s.no && in->trace)
                rc = ana_trace_give(&s);
            if (!rc && !s.no && !cut_off(&s, b, &todo))
                rc = DT_E_NOMEM;
        }
        ana_planes_drop(&s);
        if (s.oom)
            rc = DT_E_NOMEM;
    }
    free(todo.p);
    free(s.plane.p);
    free(s.rec.p);
    dt_arena_done(&s.rec_arena);
    dt_arena_done(&s.a);
    *ret_work = s.work;
    *ret_why = s.no;
    if (!rc && !s.no)
        return 1;
    if (foot)
        ana_foot_clear(foot);
    return rc ? dt_err_set(e, rc, "no memory for a summary of %u blocks", in->grid[0] * in->grid[1] * in->grid[2]) : 0;
}
