/* Narrow blocks: a launch of few wide blocks whose warps need nothing of each other becomes one of more, narrower ones.
 *
 *   before                                    after
 *   fold<<<6, 256>>>(x, r)   a thread a row   fold<<<48, 32>>>(x, r)   block k: warp k % 8 of the posted block k / 8
 *
 * Generators cut work without barriers into blocks of one size, 256 threads say, however few blocks that gives: 1,536
 * rows, a thread a row, are six blocks on six SMs, and 126 idle ones. The hardware needs no such blocks: warps that do
 * not meet may be anywhere. Besides, narrower blocks touch fewer rows each, so that block fusion finds smaller
 * components.
 *
 * The kernel stays as it is; numbers of thread and block, and their counts, are replaced by those that the posted
 * launch has. A narrow block is so many whole warps of a posted one, so lanes and collectives stay as they are.
 * The width is the largest that gives every SM a block, or else one warp.
 *
 * Legal when the rows of legal-solo.def for it hold; of its own is
 *   warps_apart   whole warps; no barrier, no shared memory, no asynchronous work, no atomics: warps of a block neither
 *                 wait for each other nor pass anything on
 * What could break it: warps of one block that talk through global memory without a barrier. Such a launch races
 * (`racy`), or has ordered accesses (`no-talk`).
 */
#include "rewrite/emit/solo.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define WARP 32
#define LEAST_US 2.0 /* a launch that takes less is not worth a look */

struct mine {
    struct rw_solo solo;
    uint32_t width; /* threads of a narrow block */
};

static uint32_t threads_of(const struct dt_launch *l) { return l->block[0] * l->block[1] * l->block[2]; }

/* Does the launch take long enough? Where there are no times yet, it may. */
static bool worth(const struct rw_state *s, uint32_t k) { return !s->step_us || s->step_us[k] >= LEAST_US; }

/* A cheap guess at whether its warps need something of each other, as those of most kernels do; `warps_apart`
 * decides. */
static bool meets(const struct ptx_function *f)
{
    for (uint32_t n = 0; f && n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (i->op > PTX_OP_OPAQUE && ((ptx_op_info(i->op)->flags & (PTX_F_BARRIER | PTX_F_ATOMIC)) ||
                                      i->space == PTX_SHARED || i->space2 == PTX_SHARED))
            return true;
    }
    return false;
}

/* Launches that leave SMs without a block. */
static int narrow_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                          struct dt_err *e)
{
    int r = 0;
    (void)o;
    for (uint32_t k = 0; k < s->graph->nlaunch && r == 0; k++) {
        const struct dt_launch *l = &s->graph->launch[k];
        const struct dev_step *t = &s->prog->step[k];
        uint32_t sms = t->blocks_per_sm ? t->wave / t->blocks_per_sm : 0;
        if (l->kind == DT_KERNEL && threads_of(l) > WARP && !rw_overlaps(t->entry) &&
            (RW_FORCED || (t->blocks < sms && worth(s, k) && !meets(t->entry))))
            r = rw_propose(ret, &k, 1, 0, s->step_us ? (uint64_t)(s->step_us[k] * 1000) : 0);
    }
    return r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

/* The widest narrow block of whole warps that gives each SM one; a warp, if none does. */
static uint32_t width_of(uint32_t threads, uint32_t blocks, uint32_t sms)
{
    uint32_t warps = threads / WARP;
    for (uint32_t parts = 2; parts < warps; parts++)
        if (warps % parts == 0 && (uint64_t)blocks * parts >= sms)
            return warps / parts * WARP;
    return WARP;
}

static int narrow_open_edit(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine = dt_calloc(1, sizeof *m);
    uint32_t k = x->launch[0];
    const struct dev_step *t = &x->now->prog->step[k];
    *ret_verdict = RW_REFUSED;
    if (!m)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_solo_init(&m->solo, x->dev, x->now->prog, k, e);
    if (r < 0)
        return r;
    m->solo.self_conflict = x->now->ana->launch[k].self_conflict;
    m->solo.atomics = false;
    for (uint32_t i = 0; i < x->now->ana->launch[k].naccess; i++)
        m->solo.atomics |= x->now->ana->launch[k].access[i].atomics;
    if (!rw_solo_legal(&m->solo, RW_SOLO_NARROWS, why))
        return 1;
    m->width = width_of(threads_of(&x->now->graph->launch[k]), t->blocks, x->dev->sms);
    return 0;
}

/* Numbers of the posted launch, from those of the narrow one. */
static void narrow_numbers(const struct dt_launch *l, uint32_t width, struct dt_str *s)
{
    static const char *const of[] = {"%dt_t", "%dt_c"};
    const uint32_t *size[] = {l->block, l->grid};
    uint32_t parts = threads_of(l) / width;
    dt_str_addf(s,
                ".reg .b32 %%dt_i, %%dt_j, %%dt_t<3>, %%dt_c<3>, %%dt_m<3>, %%dt_n<3>;\n"
                "mov.u32 %%dt_j, %%ctaid.x;\nrem.u32 %%dt_i, %%dt_j, %u;\ndiv.u32 %%dt_j, %%dt_j, %u;\n"
                "mov.u32 %%dt_t0, %%tid.x;\nmad.lo.u32 %%dt_i, %%dt_i, %u, %%dt_t0;\n",
                parts, parts, width);
    for (int which = 0; which < 2; which++) {
        const char *from = which ? "%dt_j" : "%dt_i";
        uint32_t below = 1;
        for (int d = 0; d < 3; d++) {
            if (below > 1)
                dt_str_addf(s, "div.u32 %s%d, %s, %u;\n", of[which], d, from, below);
            else
                dt_str_addf(s, "mov.u32 %s%d, %s;\n", of[which], d, from);
            if (d < 2)
                dt_str_addf(s, "rem.u32 %s%d, %s%d, %u;\n", of[which], d, of[which], d, size[which][d]);
            dt_str_addf(s, "mov.u32 %%dt_%c%d, %u;\n", which ? 'n' : 'm', d, size[which][d]);
            below *= size[which][d];
        }
    }
}

/* The register that stands for the number; PTX_NO_REG: it is another one. */
static uint32_t stands_for(const struct rw_solo *s, const struct ptx_opnd *o)
{
    const char *name = o->sreg == PTX_SR_TID      ? "%dt_t"
                       : o->sreg == PTX_SR_CTAID  ? "%dt_c"
                       : o->sreg == PTX_SR_NTID   ? "%dt_m"
                       : o->sreg == PTX_SR_NCTAID ? "%dt_n"
                                                  : NULL;
    char full[12];
    if (!name || o->comp < 0 || o->comp > 2)
        return PTX_NO_REG;
    snprintf(full, sizeof full, "%s%d", name, o->comp);
    return rw_solo_reg(s, full);
}

static int renumber(struct rw_solo *s, const struct dt_launch *l, uint32_t width, struct dt_err *e)
{
    struct dt_str text = {0};
    narrow_numbers(l, width, &text);
    uint32_t before = s->f->ninst;
    int added = text.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : rw_solo_insert(s, 0, text.s, e);
    dt_str_done(&text);
    if (added < 0)
        return added;
    for (uint32_t i = (uint32_t)added; i < before + (uint32_t)added; i++)
        for (unsigned k = 0; k < s->f->inst[i].nopnd; k++) {
            struct ptx_opnd *o = &s->f->inst[i].opnd[k];
            uint32_t reg = o->kind == PTX_O_SREG ? stands_for(s, o) : PTX_NO_REG;
            if (reg != PTX_NO_REG)
                *o = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = reg};
        }
    for (int d = 0; d < 3; d++) {
        s->f->reqntid[d] = s->f->reqntid[d] ? (d ? 1 : width) : 0;
        s->f->maxntid[d] = s->f->maxntid[d] ? (d ? 1 : width) : 0;
    }
    s->f->minnctapersm = 0;
    return 0;
}

static int narrow_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine;
    const struct dt_graph *g = x->now->graph;
    const struct dt_launch *l = &g->launch[x->launch[0]];
    uint64_t blocks = (uint64_t)x->now->prog->step[x->launch[0]].blocks * (threads_of(l) / m->width);
    int r = rw_solo_copy(&m->solo, why, e);
    (void)level;
    if (r != 0 || (r = renumber(&m->solo, l, m->width, e)) < 0)
        return r;
    json_t *launch = dt_launch_to_json(g, l);
    json_object_del(launch, "module");
    bool ok = launch && json_object_set_new(launch, "grid", json_pack("[I,i,i]", (json_int_t)blocks, 1, 1)) == 0 &&
              json_object_set_new(launch, "block", json_pack("[I,i,i]", (json_int_t)m->width, 1, 1)) == 0;
    struct rw_part *p = ok ? rw_edit_add(x, launch) : NULL;
    if (!p) {
        if (!ok)
            json_decref(launch);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return rw_solo_text(&m->solo, &p->ptx, e);
}

static void narrow_close_edit(struct rw_edit *x)
{
    struct mine *m = x->mine;
    if (m)
        rw_solo_done(&m->solo);
    free(m);
    x->mine = NULL;
}

const struct rw_rewrite rw_narrow_blocks = {
    .name = "narrow-blocks",
    .needs = "a launch of fewer blocks than SMs, whose warps need nothing of each other",
    .keeps = "what every warp does, under the numbers that it had",
    .on = true,
    .same_code = true,
    .propose = narrow_propose,
    .open = narrow_open_edit,
    .build = narrow_build,
    .close = narrow_close_edit,
};
