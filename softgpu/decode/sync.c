/* Decoding of what threads do together: barriers, collectives, fences, groups of asynchronous copies, programmatic
 * dependencies.
 *
 * Asynchronous copies are done at once, and one CPU thread runs the threads of a block, so their fences and waits do
 * nothing but to be seen (sg_decode_check). A fence wider than the cluster says that blocks may talk to each
 * other (code->ordered).
 */
#include "softgpu/decode/inst.h"

static int barrier(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    bool red = i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED,
         arrive = i->op == PTX_OP_BAR_ARRIVE || i->op == PTX_OP_BARRIER_ARRIVE;
    unsigned k = red ? 1 : 0, sub = arrive ? SG_BAR_ARRIVE : SG_BAR_SYNC;
    bool has_count = red ? i->nopnd == 4 : i->nopnd > 1, neg = false;
    uint32_t a = sg_source(d, &i->opnd[k], PTX_U32), b = has_count ? sg_source(d, &i->opnd[k + 1], PTX_U32) : SG_NONE,
             p = 0, dst = 0;
    if (red) {
        sub = ptx_has(i, PTX_M_POPC) ? SG_BAR_POPC : ptx_has(i, PTX_M_AND) ? SG_BAR_AND : SG_BAR_OR;
        p = sg_pred(d, &i->opnd[i->nopnd - 1], &neg);
        dst = sub == SG_BAR_POPC ? sg_dest(d, &i->opnd[0], PTX_U32) : sg_pred_dest(d, &i->opnd[0]);
    }
    struct sg_op *op = sg_emit(d, sg_bar);
    op->a = a;
    op->b = b;
    op->c = p;
    op->sub = (uint8_t)sub;
    op->flags = neg ? SG_C_NOT : 0;
    op->rnd =
        i->op == PTX_OP_BAR_SYNC || i->op == PTX_OP_BAR_ARRIVE || i->op == PTX_OP_BAR_RED || ptx_has(i, PTX_M_ALIGNED);
    if (red) {
        op = sg_emit(d, sg_bar_result);
        op->a = a;
        op->d = dst;
        op->sub = (uint8_t)sub;
    }
    d->need_bb = true;
    return 0;
}

static int collective(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    unsigned at = i->dst2 ? 2 : 1, sub = SG_SYNC;
    uint32_t dst = SG_NONE, q = SG_NONE, a = 0, b = 0, c = 0, members = SG_NONE;
    uint8_t flags = 0;
    uint16_t rnd = 0;
    bool neg = false;
    if (i->dst2)
        q = sg_pred_dest(d, &i->opnd[1]);
    switch (i->op) {
    case PTX_OP_BAR_WARP_SYNC:
        members = sg_source(d, &i->opnd[0], PTX_U32);
        rnd = 1; /* it orders memory */
        break;
    case PTX_OP_SHFL:
        sub = ptx_has(i, PTX_M_UP)     ? SG_SHFL_UP
              : ptx_has(i, PTX_M_DOWN) ? SG_SHFL_DOWN
              : ptx_has(i, PTX_M_BFLY) ? SG_SHFL_BFLY
                                       : SG_SHFL_IDX;
        a = sg_source(d, &i->opnd[at], PTX_B32);
        b = sg_source(d, &i->opnd[at + 1], PTX_U32);
        c = sg_source(d, &i->opnd[at + 2], PTX_U32);
        if (i->nopnd > at + 3)
            members = sg_source(d, &i->opnd[at + 3], PTX_U32);
        dst = sg_dest(d, &i->opnd[0], PTX_B32);
        break;
    case PTX_OP_VOTE:
        sub = ptx_has(i, PTX_M_BALLOT) ? SG_VOTE_BALLOT
              : ptx_has(i, PTX_M_ALL)  ? SG_VOTE_ALL
              : ptx_has(i, PTX_M_ANY)  ? SG_VOTE_ANY
                                       : SG_VOTE_UNI;
        a = sg_pred(d, &i->opnd[1], &neg);
        flags = neg ? SG_C_NOT : 0;
        if (i->nopnd > 2)
            members = sg_source(d, &i->opnd[2], PTX_U32);
        dst = sub == SG_VOTE_BALLOT ? sg_dest(d, &i->opnd[0], PTX_B32) : sg_pred_dest(d, &i->opnd[0]);
        break;
    case PTX_OP_MATCH: {
        bool wide = ptx_type_bytes((enum ptx_type)i->type[0]) == 8;
        sub = ptx_has(i, PTX_M_ALL) ? SG_MATCH_ALL : SG_MATCH_ANY;
        a = sg_source(d, &i->opnd[at], wide ? PTX_B64 : PTX_B32);
        flags = wide ? SG_A64 : 0;
        members = sg_source(d, &i->opnd[at + 1], PTX_U32);
        dst = sg_dest(d, &i->opnd[0], PTX_B32);
        break;
    }
    case PTX_OP_REDUX: {
        enum ptx_mod m = ptx_mod_of(i, PTX_MC_ATOM);
        if (m == PTX_M_NONE)
            m = ptx_mod_of(i, PTX_MC_BOOL);
        sub = m == PTX_M_ADD   ? SG_REDUX_ADD
              : m == PTX_M_MIN ? SG_REDUX_MIN
              : m == PTX_M_MAX ? SG_REDUX_MAX
              : m == PTX_M_AND ? SG_REDUX_AND
              : m == PTX_M_OR  ? SG_REDUX_OR
                               : SG_REDUX_XOR;
        if (i->type[0] == PTX_F32) {
            if (sub != SG_REDUX_MIN && sub != SG_REDUX_MAX)
                return sg_dec_error(d, DT_E_UNSUPPORTED, "this redux of f32");
            sub = sub == SG_REDUX_MIN ? SG_REDUX_FMIN : SG_REDUX_FMAX;
            rnd = (uint16_t)((ptx_has(i, PTX_M_NANP) ? SG_NANP : 0) | (ptx_has(i, PTX_M_ABS) ? SG_REDUX_ABS : 0));
        }
        flags = ptx_type_is_signed((enum ptx_type)i->type[0]) ? SG_SIGNED : 0;
        a = sg_source(d, &i->opnd[1], PTX_B32);
        members = sg_source(d, &i->opnd[2], PTX_U32);
        dst = sg_dest(d, &i->opnd[0], PTX_B32);
        break;
    }
    default: /* elect.sync d|p, members */
        sub = SG_ELECT;
        members = sg_source(d, &i->opnd[i->nopnd - 1], PTX_U32);
        dst = sg_dest(d, &i->opnd[0], PTX_B32);
    }
    uint32_t x = sg_ext(d, members);
    sg_ext(d, q);
    struct sg_op *op = sg_emit(d, i->op == PTX_OP_SHFL && !d->checked ? d->h[SG_H_SHFL] : sg_collective);
    op->d = dst;
    op->a = a;
    op->b = b;
    op->c = c;
    op->x = x;
    op->sub = (uint8_t)sub;
    op->flags |= flags;
    op->rnd = rnd;
    d->need_bb = true;
    return 0;
}

/* What has been done at once, or needs no doing, is an operation for the checking modes and for blocks that are
 * followed (exec/profile.c), which see where it stands. */
int sg_decode_check(struct sg_dec *d, enum sg_check_op sub, unsigned type, uint64_t imm)
{
    struct sg_op *op = sg_emit(d, sg_check_op);
    op->sub = (uint8_t)sub;
    op->type = (uint8_t)type;
    op->imm = imm > SG_COPY_GROUPS ? SG_COPY_GROUPS : (int64_t)imm;
    return 0;
}

int sg_decode_sync(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    switch (i->op) {
    case PTX_OP_BARRIER_CLUSTER_ARRIVE: sg_emit(d, sg_cluster_arrive)->sub = ptx_has(i, PTX_M_RELAXED); return 0;
    case PTX_OP_BARRIER_CLUSTER_WAIT:
        sg_emit(d, sg_cluster_wait);
        d->need_bb = true;
        return 0;
    case PTX_OP_MEMBAR:
    case PTX_OP_FENCE:
        if (!ptx_has(i, PTX_M_CTA) && !ptx_has(i, PTX_M_CLUSTER))
            d->c->ordered = true;
        return sg_decode_check(d, SG_CO_FENCE, ptx_has(i, PTX_M_CTA), 0);
    case PTX_OP_CP_ASYNC_COMMIT: return sg_decode_check(d, SG_CO_COMMIT, SG_BY_CP_ASYNC, 0);
    case PTX_OP_CP_ASYNC_WAIT_GROUP:
        return sg_decode_check(d, SG_CO_WAIT, SG_BY_CP_ASYNC,
                               i->nopnd && i->opnd[0].kind == PTX_O_IMM ? i->opnd[0].bits : 0);
    case PTX_OP_CP_ASYNC_WAIT_ALL: return sg_decode_check(d, SG_CO_WAIT_ALL, SG_BY_CP_ASYNC, 0);
    case PTX_OP_CP_ASYNC_BULK_COMMIT: return sg_decode_check(d, SG_CO_COMMIT, SG_BY_BULK, 0);
    case PTX_OP_CP_ASYNC_BULK_WAIT:
        return sg_decode_check(d, SG_CO_WAIT, SG_BY_BULK,
                               i->nopnd && i->opnd[0].kind == PTX_O_IMM ? i->opnd[0].bits : 0);
    /* waits for what has been done at once */
    case PTX_OP_NANOSLEEP:
    case PTX_OP_PMEVENT:
    case PTX_OP_FENCE_PROXY:
    case PTX_OP_MEMBAR_PROXY:
    case PTX_OP_FENCE_MBARRIER_INIT: return 0;
    case PTX_OP_GRIDDEPCONTROL_WAIT:
    case PTX_OP_GRIDDEPCONTROL_LAUNCH:
        sg_emit(d, sg_griddepcontrol)->sub = i->op == PTX_OP_GRIDDEPCONTROL_LAUNCH;
        d->need_bb = true; /* what comes after is not counted yet */
        return 0;
    case PTX_OP_SETMAXNREG_INC:
    /* registers are not scarce here; who executes it, and the count, are checked as ptxas and PTX want */
    case PTX_OP_SETMAXNREG_DEC:
        if (i->opnd[0].kind != PTX_O_IMM || i->opnd[0].bits < 24 || i->opnd[0].bits > 256 || i->opnd[0].bits % 8)
            return sg_dec_error(d, DT_E_PTX, "setmaxnreg wants a multiple of 8 from 24 to 256");
        sg_emit(d, sg_setmaxnreg);
        return 0;
    case PTX_OP_BAR_SYNC:
    case PTX_OP_BAR_ARRIVE:
    case PTX_OP_BAR_RED:
    case PTX_OP_BARRIER_SYNC:
    case PTX_OP_BARRIER_ARRIVE:
    case PTX_OP_BARRIER_RED: return barrier(d);
    case PTX_OP_BAR_WARP_SYNC:
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
    case PTX_OP_ELECT: return collective(d);
    case PTX_OP_ACTIVEMASK: {
        uint32_t t = sg_dest(d, &i->opnd[0], PTX_B32);
        sg_emit(d, sg_activemask)->d = t;
        return 0;
    }
    default: return SG_ELSEWHERE;
    }
}
