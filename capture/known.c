/* What memory holds where a step begins, without running what came before it: bytes that copies from the host, memsets
 * and copies on the device left there, and no kernel touched since. A launch that is like one of the step wrote what
 * that one writes; any other may have written all of every memory that it was given.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture-priv.h"

#define MOST ((uint64_t)1 << 30) /* bytes of a memory whose content is followed */

/* The memories that the range names. */
static int follow(struct cap_trace *t, const struct cap_range *r)
{
    for (uint32_t i = 0; i < r->begin; i++)
        for (uint32_t k = 0; k < t->op.p[i].npoint; k++) {
            struct cap_memory *m = &t->memory.p[t->op.p[i].point[k].mem];
            if (m->content || m->bytes > MOST || (m->died != CAP_NONE && m->died <= r->begin))
                continue;
            m->content = dt_calloc(1, m->bytes);
            m->valid = dt_calloc(1, m->bytes);
            if (!m->content || !m->valid)
                return DT_E_NOMEM;
            if (m->image != CAP_NONE) {
                memcpy(m->content, m->init ? m->init : m->content, m->bytes);
                memset(m->valid, 1, m->bytes);
            }
        }
    return 0;
}

static void known_written(struct cap_trace *t, const struct cap_set_of *x, uint32_t mem)
{
    for (size_t i = 0; i < x->n && t->memory.p[mem].valid; i++)
        memset(t->memory.p[mem].valid + x->p[i].lo, 0, x->p[i].hi - x->p[i].lo);
}

static void known_kernel(struct cap_trace *t, const struct cap_range *r, const struct cap_op *o)
{
    for (uint32_t i = r->begin; i < r->end; i++) {
        const struct cap_op *s = &t->op.p[i];
        if (!cap_same_launch(s, o))
            continue;
        for (uint32_t k = 0; k < s->ntouch; k++)
            if (cap_names_memory(t, o, s->touch[k].mem)) {
                known_written(t, &s->touch[k].write, s->touch[k].mem);
                known_written(t, &s->touch[k].may, s->touch[k].mem);
            }
        for (uint32_t k = 0; k < o->npoint; k++) /* another's address then */
            if (!cap_names_memory(t, s, o->point[k].mem) && t->memory.p[o->point[k].mem].valid)
                memset(t->memory.p[o->point[k].mem].valid, 0, t->memory.p[o->point[k].mem].bytes);
        return;
    }
    for (uint32_t k = 0; k < o->npoint; k++)
        if (t->memory.p[o->point[k].mem].valid)
            memset(t->memory.p[o->point[k].mem].valid, 0, t->memory.p[o->point[k].mem].bytes);
    for (size_t v = 0; v < t->variable.n; v++) {
        struct cap_memory *x = &t->memory.p[t->variable.p[v]];
        if (x->image == t->entry.p[o->launch.function].image && !x->constant && x->valid)
            memset(x->valid, 0, x->bytes);
    }
}

static void known_plain(struct cap_trace *t, const struct cap_op *o)
{
    struct cap_memory *m = o->npoint ? &t->memory.p[o->point[0].mem] : NULL;
    if (!m || !m->valid || o->kind == CAP_TAKE)
        return;
    uint64_t at = o->point[0].off;
    const struct cap_memory *from = o->kind == CAP_DEVICE_COPY ? &t->memory.p[o->point[1].mem] : NULL;
    bool known = o->kind == CAP_MEMSET || o->data || (from && from->valid);
    if (o->kind == CAP_MEMSET)
        memset(m->content + at, o->value, o->bytes);
    else if (o->kind == CAP_GIVE && o->data)
        memcpy(m->content + at, o->data, o->bytes);
    else if (from && from->valid)
        memmove(m->content + at, from->content + o->point[1].off, o->bytes);
    if (from && from->valid)
        memmove(m->valid + at, from->valid + o->point[1].off, o->bytes);
    else
        memset(m->valid + at, known, o->bytes);
}

int cap_known(struct cap_trace *t, const struct cap_range *r, struct dt_err *e)
{
    if (follow(t, r) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < r->begin; i++) {
        const struct cap_op *o = &t->op.p[i];
        if (o->kind == CAP_KERNEL)
            known_kernel(t, r, o);
        else if (o->kind != CAP_CUT)
            known_plain(t, o);
        else
            for (size_t m = 0; m < t->memory.n; m++)
                if (t->memory.p[m].valid)
                    memset(t->memory.p[m].valid, 0, t->memory.p[m].bytes);
    }
    return 0;
}
