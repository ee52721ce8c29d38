/* Deciders: arguments whose memory decides, by what it holds, which bytes a launch touches or which way it goes.
 *
 * The list of rows of a gather does, the table that it gathers from does not; in `if (x[i] > 0)` x does, where the
 * branch has something to skip. The taint pass knows data from what does not change (taint.c), and takes arguments for
 * one or the other as it is told. So it is asked once with all memory as data: nothing depends on that, and no argument
 * decides. Else once for each argument with that one's memory alone as data. What depends on data even with none so
 * (variables of modules, bits that PTX leaves open, calls, memory of a tile that is read past its barriers) has another
 * source, and of that nobody says which argument it was: the answer is then not known.
 *
 * It is about this launch alone: who computed what an argument points to is not asked.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/taint/taint-priv.h"
#include "base/alloc.h"

/* 1: something depends on data, or nobody can say; 0: nothing does. */
static int depends(const struct ptx_function *f, const struct ana_taint_in *in, struct dt_err *e)
{
    struct ana_tainted t;
    int r = ana_taint_run(f, in, &t, e);
    if (r)
        return r;
    bool data = t.sites.opaque;
    for (uint32_t k = 0; k < t.sites.nsite; k++)
        data |= t.sites.site[k].address == ANA_DATA_DEPENDENT || t.sites.site[k].guard == ANA_DATA_DEPENDENT;
    for (uint32_t k = 0; k < t.cfg.nblock; k++)
        data |= t.block[k] == ANA_DATA_DEPENDENT;
    ana_tainted_done(&t);
    return data;
}

static int deciders_find(const struct dev_prog *p, uint32_t launch, bool *pointer, bool *constant, bool *ret,
                         bool *ret_known, struct dt_err *e)
{
    const struct dt_launch *l = &p->graph->launch[launch];
    const struct ptx_function *f = p->step[launch].entry;
    struct ana_taint_in in = {.constant_param = constant, .pointer_param = pointer, .nparam = l->narg, .arg = l->arg};
    for (uint32_t i = 0; i < l->narg; i++)
        pointer[i] = arg_buffers(&l->arg[i], NULL, 0) > 0;
    int r = depends(f, &in, e);
    *ret_known = r == 0;
    if (r <= 0)
        return r;
    memcpy(constant, pointer, l->narg * sizeof *constant);
    r = depends(f, &in, e);
    *ret_known = r == 0;
    for (uint32_t i = 0; r == 0 && i < l->narg; i++) {
        if (!pointer[i])
            continue;
        constant[i] = false;
        int d = depends(f, &in, e);
        constant[i] = true;
        if (d < 0)
            return d;
        ret[i] = d;
    }
    return r < 0 ? r : 0;
}

int ana_deciders(const struct dev_prog *p, uint32_t launch, bool *ret, bool *ret_known, struct dt_err *e)
{
    const struct dt_launch *l = &p->graph->launch[launch];
    memset(ret, 0, l->narg * sizeof *ret);
    *ret_known = true;
    if (l->kind != DT_KERNEL)
        return 0;
    bool *pointer = dt_calloc(2 * (size_t)l->narg + 1, sizeof *pointer);
    if (!pointer)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = deciders_find(p, launch, pointer, pointer + l->narg, ret, ret_known, e);
    free(pointer);
    return r;
}
