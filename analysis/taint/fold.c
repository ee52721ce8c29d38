/* Copies of constants.
 *
 * A compiler begins a counter and a sum with one zero:
 *     mov %s, 0; mov %i, %s; L: add %s, %s, %x; add %i, %i, 1; …
 * Taint is kept for a register, whatever the place in the text. So the data that is summed into %s later would taint
 * the counter %i as well. This file finds such copies, within the straight text from one label to the next: the second
 * `mov` copies the number of the first. taint.c and instrument/ then take it for `mov %i, 0`.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/taint/taint.h"
#include "base/alloc.h"

static void fold_forget(uint32_t r, bool write, void *user)
{
    if (write)
        ((uint32_t *)user)[r] = 0;
}

int ana_fold(const struct ptx_function *f, uint32_t *from)
{
    /* instruction + 1 that gave the register its number */
    uint32_t *known = dt_calloc((size_t)f->nreg + 1, sizeof *known);
    if (!known)
        return DT_E_NOMEM;
    for (uint32_t at = 0; at < f->ninst; at++) {
        const struct ptx_inst *i = &f->inst[at];
        from[at] = 0;
        if (i->op < PTX_OP_OPAQUE) {
            memset(known, 0, f->nreg * sizeof *known);
            continue;
        }
        bool move = i->op == PTX_OP_MOV && i->nopnd == 2 && i->opnd[0].kind == PTX_O_REG;
        if (move && i->opnd[1].kind == PTX_O_REG && !i->opnd[1].neg && known[i->opnd[1].reg] &&
            f->inst[known[i->opnd[1].reg] - 1].type[0] == i->type[0])
            from[at] = known[i->opnd[1].reg];
        ptx_inst_regs(i, fold_forget, known);
        if (move && i->pred == PTX_NO_REG && (from[at] || i->opnd[1].kind == PTX_O_IMM))
            known[i->opnd[0].reg] = from[at] ? from[at] : at + 1;
    }
    free(known);
    return 0;
}
