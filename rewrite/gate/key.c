/* What equal trials share: the kernels of S and T, their geometry and arguments, with buffers by the order in which
 * they are named, and the bytes that nobody reads. No names: the layers of a model have equal ones.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

/* Its kernel alone, with registers and labels by number, where nothing else of the module matters to it; false: the
 * module's text. */
static bool add_entry(struct dt_sha256 *h, const struct dev_prog *p, uint32_t launch)
{
    const struct ptx_module *ir = p->module[p->graph->launch[launch].module].ir;
    struct dt_str text = {0};
    bool alone = p->step[launch].entry != NULL;
    for (uint32_t k = 0; k < ir->nvar && alone; k++)
        alone = ir->var[k]->space != PTX_GLOBAL && ir->var[k]->space != PTX_CONST;
    alone = alone && ptx_print_canonical(p->step[launch].entry, &text) == 0 && !text.failed;
    if (alone)
        dt_sha256_addstr(h, text.s ? text.s : "");
    dt_str_done(&text);
    return alone;
}

void rw_add_launch(struct dt_sha256 *h, const struct dev_prog *p, uint32_t launch, bool entry_alone, uint32_t *number,
                   uint32_t *n)
{
    const struct dt_graph *g = p->graph;
    const struct dt_launch *l = &g->launch[launch];
    dt_sha256_addu64(h, l->kind);
    if (l->kind != DT_KERNEL) {
        uint32_t place[2] = {l->dst, l->kind == DT_COPY ? l->src : l->dst};
        for (int q = 0; q < 2; q++) {
            if (number[place[q]] == UINT32_MAX)
                number[place[q]] = (*n)++;
            dt_sha256_addu64(h, number[place[q]]);
            dt_sha256_addu64(h, g->buffer[place[q]].bytes);
        }
        dt_sha256_addu64(h, l->dst_offset);
        dt_sha256_addu64(h, l->src_offset);
        dt_sha256_addu64(h, l->bytes);
        dt_sha256_addu64(h, l->value);
        return;
    }
    const struct dev_module *m = &p->module[l->module];
    if (!entry_alone || !add_entry(h, p, launch)) {
        dt_sha256_addstr(h, m->digest);
        dt_sha256_addstr(h, l->entry);
    }
    for (int i = 0; i < 3; i++) {
        dt_sha256_addu64(h, l->grid[i]);
        dt_sha256_addu64(h, l->block[i]);
        dt_sha256_addu64(h, l->cluster[i]);
    }
    dt_sha256_addu64(h, l->shared);
    for (uint32_t k = 0; k < l->narg; k++) {
        const struct dt_arg *a = &l->arg[k];
        uint32_t count = a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP ? 1
                         : a->kind == DT_ARG_BYTES                                ? a->npointer
                                                                                  : 0;
        dt_sha256_addu64(h, a->kind);
        if (a->kind == DT_ARG_SCALAR)
            dt_sha256_addu64(h, a->bits);
        if (a->kind == DT_ARG_TENSOR_MAP) {
            struct dt_str map = {0};
            dt_tensor_map_text(a->map, &map);
            dt_sha256_addstr(h, map.s ? map.s : "");
            dt_str_done(&map);
        }
        if (a->kind == DT_ARG_BYTES) {
            dt_sha256_addu64(h, a->nbytes);
            dt_sha256_add(h, a->bytes, a->nbytes);
        }
        for (uint32_t q = 0; q < count; q++) {
            uint32_t b = a->kind == DT_ARG_BYTES ? a->pointer[q].buffer : a->buffer;
            if (number[b] == UINT32_MAX)
                number[b] = (*n)++;
            dt_sha256_addu64(h, number[b]);
            dt_sha256_addu64(h, a->kind == DT_ARG_BYTES ? a->pointer[q].offset : a->offset);
            dt_sha256_addu64(h, a->kind == DT_ARG_BYTES ? a->pointer[q].at : 0);
            dt_sha256_addu64(h, g->buffer[b].bytes);
            dt_sha256_addu64(h, g->buffer[b].constant);
        }
    }
}

int rw_trial_key(const struct rw_trial *t, char key[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    uint32_t n = 0, *number = dt_calloc(t->next->graph->nbuffer + 1, sizeof *number);
    int r = number ? dt_sha256_init(&h) : DT_E_NOMEM;
    if (r == 0) {
        memset(number, 0xFF, t->next->graph->nbuffer * sizeof *number);
        dt_sha256_addu64(&h, t->x->nlaunch);
        dt_sha256_addu64(&h, t->n);
        for (uint32_t k = 0; k < t->x->nlaunch; k++)
            rw_add_launch(&h, t->now->prog, t->x->launch[k], false, number, &n);
        for (uint32_t k = 0; k < t->n; k++)
            rw_add_launch(&h, t->next->prog, t->first + k, false, number, &n);
        for (size_t k = 0; k < t->x->unread.n; k++) {
            const struct rw_unread *u = &t->x->unread.p[k];
            dt_sha256_addu64(&h, number[u->buffer]);
            for (uint32_t i = 0; i < u->bytes.n; i++) {
                dt_sha256_addu64(&h, u->bytes.iv[i].lo);
                dt_sha256_addu64(&h, u->bytes.iv[i].hi);
            }
        }
        dt_sha256_final(&h, key);
    }
    free(number);
    return r;
}
