/* Decoding of mbarrier.* and cp.async.mbarrier.arrive; exec/mbarrier.c does them. */
#include "softgpu/decode/decode-priv.h"

static int mbarrier(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    bool token = false, wait = false;
    unsigned sub, mem = ptx_op_info((enum ptx_op)i->op)->addr_opnd >= 0
                            ? (unsigned)ptx_op_info((enum ptx_op)i->op)->addr_opnd
                            : 0;
    switch (i->op) {
    case PTX_OP_MBARRIER_INIT: sub = SG_MB_INIT; break;
    case PTX_OP_MBARRIER_INVAL: sub = SG_MB_INVAL; break;
    case PTX_OP_MBARRIER_EXPECT_TX: sub = SG_MB_EXPECT_TX; break;
    case PTX_OP_MBARRIER_COMPLETE_TX: sub = SG_MB_COMPLETE_TX; break;
    case PTX_OP_MBARRIER_ARRIVE:
        sub = SG_MB_ARRIVE;
        token = true;
        break;
    case PTX_OP_MBARRIER_ARRIVE_DROP:
        sub = SG_MB_DROP;
        token = true;
        break;
    case PTX_OP_MBARRIER_ARRIVE_EXPECT_TX:
        sub = SG_MB_ARRIVE_TX;
        token = true;
        break;
    case PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX:
        sub = SG_MB_DROP_TX;
        token = true;
        break;
    case PTX_OP_MBARRIER_TEST_WAIT:
    case PTX_OP_MBARRIER_TRY_WAIT:
        sub = ptx_has(i, PTX_M_PARITY) ? SG_MB_PARITY : SG_MB_WAIT;
        wait = true;
        break;
    /* cp.async.mbarrier.arrive: the copies are done */
    default: sub = ptx_has(i, PTX_M_NOINC) ? SG_MB_ARRIVE : SG_MB_NOTHING;
    }
    struct sg_address ad;
    int r = sg_decode_address(d, &i->opnd[mem], &ad);
    if (r < 0)
        return r;
    if (wait && i->nopnd <= mem + 1)
        return sg_dec_error(d, DT_E_PTX, "a wait without state or parity");
    uint32_t b = i->nopnd > mem + 1 ? sg_source(d, &i->opnd[mem + 1], sub == SG_MB_WAIT ? PTX_B64 : PTX_U32) : SG_NONE,
             dst = SG_NONE;
    if (wait)
        dst = sg_pred_dest(d, &i->opnd[0]);
    else if (token && i->opnd[0].kind != PTX_O_SINK)
        dst = sg_dest(d, &i->opnd[0], PTX_B64);
    struct sg_op *op = sg_emit(d, sg_mbarrier);
    op->a = ad.a;
    op->imm = ad.imm;
    op->flags |= (uint8_t)(ad.flags | (token && dst != SG_NONE ? SG_D64 : 0));
    op->b = b;
    op->d = dst;
    op->sub = (uint8_t)sub;
    op->site = d->nsite++;
    op->size = 8;
    op->n = i->op == PTX_OP_CP_ASYNC_MBARRIER_ARRIVE ? 2 : 1;
    op->space = (uint8_t)sg_real_space(d, &i->opnd[mem], i->space);
    if (wait)
        d->need_bb = true;
    return 0;
}

int sg_decode_mbarrier(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    if (i->op != PTX_OP_MBARRIER_PENDING_COUNT)
        return mbarrier(d);
    uint32_t a = sg_source(d, &i->opnd[1], PTX_B64), t = sg_dest(d, &i->opnd[0], PTX_U32);
    struct sg_op *op = sg_emit(d, sg_mbarrier_count);
    op->d = t;
    op->a = a;
    return 0;
}
