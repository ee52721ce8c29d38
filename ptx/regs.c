/* The registers that an instruction reads and writes.
 *
 *   destinations      opnd[0], and opnd[1] where dst2, unless the row says PTX_F_NODST; a vector destination writes its
 *                     elements
 *   PTX_F_DST_READ    opnd[0] is read too: the accumulators of wgmma, also where its scale-d says that they are not
 *                     added
 *   reads             address bases, handles, coordinates and all other operands
 *   reads and writes  a predicated destination, and a component of a register
 *   calls             write what their list of returns names
 *   opaque            the statement reads and writes every register that it names
 */
#include "ptx/ptx.h"

static void visit(const struct ptx_opnd *o, bool write, bool also_read, void (*fn)(uint32_t, bool, void *), void *user)
{
    switch (o->kind) {
    case PTX_O_REG:
        if (!write || also_read || o->comp >= 0)
            fn(o->reg, false, user);
        if (write)
            fn(o->reg, true, user);
        break;
    case PTX_O_ADDR:
        if (o->base_kind == PTX_O_REG) {
            fn(o->reg, false, user);
            for (unsigned k = 0; k < o->n; k++)
                visit(&o->elem[k], false, false, fn, user);
        }
        break;
    case PTX_O_TEXTURE:
        for (unsigned k = 0; k < o->n; k++)
            visit(&o->elem[k], false, false, fn, user);
        break;
    case PTX_O_VEC:
        for (unsigned k = 0; k < o->n; k++)
            visit(&o->elem[k], write, also_read, fn, user);
        break;
    }
}

void ptx_inst_regs(const struct ptx_inst *i, void (*fn)(uint32_t reg, bool write, void *user), void *user)
{
    const struct ptx_op_info *info = ptx_op_info(i->op);
    bool guarded = i->pred != PTX_NO_REG;
    unsigned ndst = info->flags & PTX_F_NODST ? 0 : i->dst2 ? 2 : 1;
    if (i->op == PTX_OP_CALL)
        ndst = 1;
    if (guarded)
        fn(i->pred, false, user);
    for (unsigned k = ndst; k < i->nopnd; k++)
        visit(&i->opnd[k], i->op == PTX_OP_OPAQUE, true, fn, user);
    for (unsigned k = 0; k < ndst && k < i->nopnd; k++)
        visit(&i->opnd[k], true, guarded || (k == 0 && info->flags & PTX_F_DST_READ), fn, user);
}
