/* Webs: a register that holds one thing after the other becomes several, one for each.
 *
 *   cvt.s64.s32   %a, %i                    cvt.s64.s32   %a, %i
 *   mad.lo.s64    %a, %a, 4, %base          mad.lo.s64    %a$1, %a, 4, %base
 *   ld.global.f32 %x, [%a]                  ld.global.f32 %x, [%a$1]
 *
 * What is asked about a register, as which buffer its value points into, is asked of all its values at once; and some
 * generators use one register for an index and for the address that it becomes, or over again in each part of a kernel.
 * A web is what belongs together: the values that may reach one use, and all uses of these. A write under a predicate
 * keeps the old value in some lanes, so it belongs to the web that it may leave.
 *
 * Each register with several writes is looked at by itself, in the order of the text: a union-find over its writes and
 * the beginnings of the blocks in which it is live. The text does the same as before, so nothing else need know. Left
 * as they are: functions with a statement that is not understood, registers of which parts are named (%a.x), and what
 * would take too long.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "ptx/ptx-priv.h"

#define WORK (UINT64_C(1) << 26) /* registers by blocks */

struct webs {
    struct ptx_function *f;
    struct ptx_cfg cfg;
    struct ptx_live live;
    uint32_t nreg;   /* before */
    uint32_t *write; /* by register: instructions that write it; UINT32_MAX: it stays */
    uint32_t *first; /* by register, and one more: its first place in `at` */
    uint32_t *at;    /* instructions that name it, ascending */
    uint32_t *up;    /* union-find of the register that is looked at: blocks, then its places */
    uint32_t *to;    /* by node of it: the register of its web */
    struct dt_names names;
};

static uint32_t web_of(struct webs *w, uint32_t n)
{
    for (; w->up[n] != n; n = w->up[n])
        w->up[n] = w->up[w->up[n]];
    return n;
}

static void web_join(struct webs *w, uint32_t a, uint32_t b)
{
    a = web_of(w, a);
    b = web_of(w, b);
    w->up[a > b ? a : b] = a > b ? b : a;
}

/* ---- which registers, and where they are named ------------------------------------------------------------------- */
struct count {
    struct webs *w;
    uint32_t inst, *last; /* by register: the instruction that named it last, + 1 */
    bool place;
};

static void count_reg(uint32_t reg, bool write, void *user)
{
    struct count *c = user;
    (void)write;
    if (c->last[reg] == c->inst + 1)
        return;
    c->last[reg] = c->inst + 1;
    if (c->place)
        c->w->at[c->w->first[reg]++] = c->inst;
    else
        c->w->first[reg + 1]++;
}

static void count_write(uint32_t reg, bool write, void *user)
{
    struct webs *w = user;
    if (write && w->write[reg] != UINT32_MAX)
        w->write[reg]++;
}

static bool has_list(const struct ptx_opnd *o)
{
    return o->kind == PTX_O_VEC || o->kind == PTX_O_ADDR || o->kind == PTX_O_TEXTURE;
}

static void keep_parts(struct webs *w, const struct ptx_opnd *o)
{
    for (unsigned k = 0; k < o->n && has_list(o); k++)
        keep_parts(w, &o->elem[k]);
    if (o->kind == PTX_O_REG && o->comp >= 0)
        w->write[o->reg] = UINT32_MAX;
}

/* Is there a register to look at? 1, 0; negative: error. */
static int web_places(struct webs *w, struct dt_err *e)
{
    struct ptx_function *f = w->f;
    bool any = false;
    for (uint32_t k = 0; k < f->ninst; k++) {
        if (f->inst[k].op == PTX_OP_OPAQUE)
            return 0;
        for (unsigned q = 0; q < f->inst[k].nopnd; q++)
            keep_parts(w, &f->inst[k].opnd[q]);
    }
    for (uint32_t k = 0; k < f->ninst; k++)
        ptx_inst_regs(&f->inst[k], count_write, w);
    for (uint32_t r = 0; r < w->nreg; r++) {
        if (w->write[r] < 2 || f->reg[r].vec > 1)
            w->write[r] = UINT32_MAX;
        any |= w->write[r] != UINT32_MAX;
    }
    if (!any)
        return 0;
    dt_free_ uint32_t *last = dt_calloc((size_t)w->nreg + 1, sizeof *last);
    struct count c = {.w = w, .last = last};
    if (!last)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (c.inst = 0; c.inst < f->ninst; c.inst++)
        ptx_inst_regs(&f->inst[c.inst], count_reg, &c);
    for (uint32_t r = 0; r < w->nreg; r++)
        w->first[r + 1] += w->first[r];
    if (!(w->at = dt_reallocarray(NULL, (size_t)w->first[w->nreg] + 1, sizeof *w->at)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(last, 0, ((size_t)w->nreg + 1) * sizeof *last);
    c.place = true;
    for (c.inst = 0; c.inst < f->ninst; c.inst++)
        ptx_inst_regs(&f->inst[c.inst], count_reg, &c);
    memmove(w->first + 1, w->first, w->nreg * sizeof *w->first);
    w->first[0] = 0;
    return 1;
}

/* ---- the webs of one register ------------------------------------------------------------------------------------ */
struct named { /* how an instruction has the register */
    uint32_t reg;
    bool reads, writes;
};

static void name_reg(uint32_t reg, bool write, void *user)
{
    struct named *n = user;
    n->reads |= reg == n->reg && !write;
    n->writes |= reg == n->reg && write;
}

/* Does a write of this instruction leave some of what was there? */
static bool web_leaves(const struct ptx_inst *i)
{
    return i->pred != PTX_NO_REG || ptx_op_info(i->op)->flags & PTX_F_DST_READ;
}

static bool live_in(const struct webs *w, uint32_t block, uint32_t reg)
{
    return w->live.in[block][reg / 64] >> reg % 64 & 1;
}

/* Blocks are all of the text, in its order. Nodes: the value that each block begins with, and that each place leaves.
 * Of a place that does not write, it is the one that it reads. */
static void find_webs(struct webs *w, uint32_t reg)
{
    uint32_t nblock = w->cfg.nblock, n = w->first[reg + 1] - w->first[reg], k = 0;
    const uint32_t *at = w->at + w->first[reg];
    for (uint32_t q = 0; q < nblock + n; q++)
        w->up[q] = q;
    for (uint32_t b = 0; b < nblock; b++) {
        uint32_t now = b;
        for (; k < n && at[k] <= w->cfg.block[b].last; k++) {
            struct named x = {.reg = reg};
            ptx_inst_regs(&w->f->inst[at[k]], name_reg, &x);
            if (!x.writes || web_leaves(&w->f->inst[at[k]]))
                web_join(w, now, nblock + k);
            now = nblock + k;
        }
        for (uint32_t s = 0; s < w->cfg.block[b].nsucc; s++)
            if (live_in(w, w->cfg.block[b].succ[s], reg))
                web_join(w, now, w->cfg.block[b].succ[s]);
    }
}

/* What a register of f may not be called. */
static int gather_names(struct webs *w)
{
    const struct ptx_function *f = w->f;
    const struct ptx_module *m = f->module;
    int r = 0;
    for (uint32_t k = 0; k < f->nreg && r >= 0; k++)
        r = dt_names_put(&w->names, f->reg[k].name, k);
    for (uint32_t k = 0; k < f->nlabel && r >= 0; k++)
        r = dt_names_put(&w->names, f->label[k].name, k);
    for (uint32_t k = 0; k < f->nvar && r >= 0; k++)
        r = dt_names_put(&w->names, f->var[k]->name, k);
    for (uint32_t k = 0; k < f->nparam && r >= 0; k++)
        r = dt_names_put(&w->names, f->param[k]->name, k);
    for (uint32_t k = 0; k < f->nret && r >= 0; k++)
        r = dt_names_put(&w->names, f->ret[k]->name, k);
    for (uint32_t k = 0; k < m->nvar && r >= 0; k++)
        r = dt_names_put(&w->names, m->var[k]->name, k);
    for (uint32_t k = 0; k < m->nfunc && r >= 0; k++)
        r = dt_names_put(&w->names, m->func[k]->name, k);
    return r;
}

/* Its name is the register's, a $ and a number. */
static int another_register(struct webs *w, uint32_t reg, unsigned *number, uint32_t *ret)
{
    struct ptx_function *f = w->f;
    const char *name = f->reg[reg].name;
    size_t room = strlen(name) + 16;
    char *own = dt_arena_alloc(&f->module->arena, room);
    int taken = own ? 1 : DT_E_NOMEM;
    while (taken == 1) {
        snprintf(own, room, "%s$%u", name, ++*number);
        taken = dt_names_put(&w->names, own, reg);
    }
    return taken < 0 ? taken : ptx_reg_add(f, own, f->reg[reg].type, 1, ret);
}

struct rename {
    struct webs *w;
    uint32_t from, read, write;
};

static int rename_opnd(const struct rename *x, struct ptx_opnd *o, bool write)
{
    if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        o->reg = o->reg != x->from ? o->reg : write ? x->write : x->read;
    if (o->n && has_list(o)) { /* two instructions may have one list */
        struct ptx_opnd *elem = dt_arena_alloc(&x->w->f->module->arena, o->n * sizeof *elem);
        if (!elem)
            return DT_E_NOMEM;
        memcpy(elem, o->elem, o->n * sizeof *elem);
        o->elem = elem;
        for (unsigned k = 0; k < o->n; k++)
            if (rename_opnd(x, &elem[k], write) < 0)
                return DT_E_NOMEM;
    }
    return 0;
}

static int rename_inst(const struct rename *x, struct ptx_inst *i)
{
    unsigned ndst = i->op == PTX_OP_CALL ? 1 : ptx_op_info(i->op)->flags & PTX_F_NODST ? 0 : i->dst2 ? 2 : 1;
    int r = 0;
    if (i->pred == x->from)
        i->pred = x->read;
    for (unsigned k = 0; k < i->nopnd && r >= 0; k++)
        r = rename_opnd(x, &i->opnd[k], k < ndst);
    return r;
}

static int give_registers(struct webs *w, uint32_t reg)
{
    uint32_t nblock = w->cfg.nblock, n = w->first[reg + 1] - w->first[reg], k = 0, first = UINT32_MAX;
    const uint32_t *at = w->at + w->first[reg];
    unsigned number = 0;
    int r = 0;
    for (uint32_t q = 0; q < nblock + n; q++)
        w->to[q] = UINT32_MAX;
    for (uint32_t b = 0; b < nblock && r >= 0; b++) {
        uint32_t now = b;
        for (; k < n && at[k] <= w->cfg.block[b].last && r >= 0; k++) {
            struct named x = {.reg = reg};
            ptx_inst_regs(&w->f->inst[at[k]], name_reg, &x);
            const uint32_t node[] = {web_of(w, now), web_of(w, nblock + k)};
            for (int s = x.reads ? 0 : 1; s < (x.writes ? 2 : 1) && r >= 0; s++)
                if (w->to[node[s]] == UINT32_MAX) {
                    if (first == UINT32_MAX)
                        first = w->to[node[s]] = reg;
                    else
                        r = another_register(w, reg, &number, &w->to[node[s]]);
                }
            if (r >= 0 && number)
                r = rename_inst(&(struct rename){w, reg, w->to[node[0]], w->to[node[1]]}, &w->f->inst[at[k]]);
            now = nblock + k;
        }
    }
    return r;
}

/* ---- */
static int web_split(struct webs *w, struct dt_err *e)
{
    int r = web_places(w, e);
    uint64_t work = 0;
    uint32_t most = 0;
    if (r <= 0 || (r = ptx_cfg_build(w->f, &w->cfg, e)) < 0)
        return r;
    for (uint32_t reg = 0; reg < w->nreg; reg++)
        if (w->write[reg] != UINT32_MAX) {
            uint32_t n = w->first[reg + 1] - w->first[reg];
            work += w->cfg.nblock + n;
            most = n > most ? n : most;
        }
    if (work > WORK)
        return 0;
    if ((r = ptx_live_build(w->f, &w->cfg, &w->live, e)) < 0)
        return r;
    w->up = dt_reallocarray(NULL, (size_t)w->cfg.nblock + most + 1, sizeof *w->up);
    w->to = dt_reallocarray(NULL, (size_t)w->cfg.nblock + most + 1, sizeof *w->to);
    if (!w->up || !w->to || gather_names(w) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t reg = 0; reg < w->nreg && r >= 0; reg++)
        if (w->write[reg] != UINT32_MAX) {
            find_webs(w, reg);
            r = give_registers(w, reg);
        }
    return r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

static int split_function(struct ptx_function *f, struct dt_err *e)
{
    struct webs w = {.f = f, .nreg = f->nreg};
    w.write = dt_calloc((size_t)f->nreg + 1, sizeof *w.write);
    w.first = dt_calloc((size_t)f->nreg + 2, sizeof *w.first);
    int r = w.write && w.first ? web_split(&w, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    free(w.write);
    free(w.first);
    free(w.at);
    free(w.up);
    free(w.to);
    dt_names_done(&w.names);
    ptx_live_done(&w.live);
    ptx_cfg_done(&w.cfg);
    return r;
}

int ptx_split_registers(struct ptx_module *m, struct dt_err *e)
{
    int r = 0;
    for (uint32_t k = 0; k < m->nfunc && r >= 0; k++)
        if (m->func[k]->has_body) {
            struct dt_err mine = {0};
            r = split_function(m->func[k], &mine);
            if (r == DT_E_TOO_LARGE || r == DT_E_PTX) /* it stays as it is, or whoever needs its flow will say so */
                r = 0;
            if (r < 0)
                dt_err_move(e, &mine);
            dt_err_done(&mine);
        }
    return r;
}
