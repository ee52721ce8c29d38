/* Calls of functions that can be active several times in a thread, and their returns; decode/call.c says what a call is
 * made of.
 *
 * The frames of a thread lie one behind the other in its local memory, behind what is static, and end where the
 * launch's stack ends. A call that does not fit is a fault (kind "stack"), so recursion without end always ends. What a
 * call saves (the place to return to, the caller's frame, the registers of the cycle) lies on a stack of the host, one
 * for each lane. It is not part of the thread's local memory and does not count for its limit.
 *
 * If lanes of a warp return to different places, the warp diverges, and the lanes meet again as after any branch.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MAX_SAVED (256u << 20) /* bytes of a warp */

struct saved { /* what was saved of lanes follows */
    const struct sg_op *call;
    uint64_t fp;
};

void sg_calls_reset(struct sg_warp *w)
{
    for (unsigned l = 0; w->calls && l < SG_LANES; l++)
        w->calls[l].n = 0;
}

void sg_calls_free(struct sg_warp *w)
{
    for (unsigned l = 0; w->calls && l < SG_LANES; l++)
        free(w->calls[l].p);
    free(w->calls);
    w->calls = NULL;
}

static uint8_t *call_place(const struct sg_warp *w, unsigned lane, uint32_t at, uint64_t fp)
{
    return w->local + lane * w->local_bytes + (at & ~SG_IN_FRAME) + (at & SG_IN_FRAME ? fp : 0);
}

static size_t saved_bytes(const uint32_t *rows)
{
    size_t n = sizeof(struct saved);
    for (uint32_t k = 0; k < rows[0]; k++)
        n += rows[2 + 2 * k] ? rows[2 + 2 * k] : 1;
    return (n + 7) & ~(size_t)7;
}

static bool call_push(struct sg_warp *w, const struct sg_op *op, unsigned lane, const uint32_t *rows, uint64_t fp)
{
    struct sg_calls *s = &w->calls[lane];
    size_t n = saved_bytes(rows);
    if (s->cap - s->n < n) {
        size_t cap = s->cap ? s->cap * 2 : 4096;
        while (cap - s->n < n)
            cap *= 2;
        uint8_t *p = cap <= MAX_SAVED / SG_LANES ? dt_realloc(s->p, cap) : NULL;
        if (!p) {
            sg_fault_at(w, op, DT_E_NOMEM, lane, 0, 0, "the calls of this thread are too deep for the software device");
            return false;
        }
        s->p = p;
        s->cap = cap;
    }
    uint8_t *to = s->p + s->n;
    memcpy(to, &(struct saved){op, fp}, sizeof(struct saved));
    to += sizeof(struct saved);
    for (uint32_t k = 0; k < rows[0]; k++) {
        const uint8_t *row = sg_ref(w, rows[1 + 2 * k]);
        uint32_t width = rows[2 + 2 * k];
        if (width)
            memcpy(to, row + lane * width, width);
        else
            *to = (uint8_t)(*(const uint32_t *)(const void *)row >> lane & 1);
        to += width ? width : 1;
    }
    s->n += n;
    return true;
}

const struct sg_op *sg_call(struct sg_warp *w, const struct sg_op *op)
{
    const uint32_t *x = w->code->ext + op->x, *rows = w->code->ext + op->c;
    uint64_t *fp = SG_P(uint64_t, w->code->fp);
    if (!w->calls && !(w->calls = dt_calloc(SG_LANES, sizeof *w->calls)))
        return sg_fault_at(w, op, DT_E_NOMEM, (unsigned)__builtin_ctz(w->mask), 0, 0, "memory is out");
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t old = fp[l], new = old + x[0];
        if (new > w->local_bytes || x[1] > w->local_bytes - new) {
            sg_fault_at(w, op, DT_E_BOUNDS, l, 0, x[1],
                        "the stack of %llu bytes is full: a frame of %u bytes does not fit behind %llu",
                        (unsigned long long)(w->local_bytes - w->code->local_bytes), x[1],
                        (unsigned long long)(new - w->code->local_bytes));
            w->wk->f.kind = "stack";
            return NULL;
        }
        if (!call_push(w, op, l, rows, old))
            return NULL;
        memset(call_place(w, l, SG_IN_FRAME, new), 0xFF, x[1]);
        for (uint32_t k = 0; k < x[2]; k++)
            memcpy(call_place(w, l, x[5 + 3 * k] | SG_IN_FRAME, new), call_place(w, l, x[4 + 3 * k], old),
                   x[6 + 3 * k]);
        fp[l] = new;
    }
    return op + op->imm;
}

const struct sg_op *sg_return(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t go = w->mask, stay;
    uint64_t *fp = SG_P(uint64_t, w->code->fp);
    if (op->guard != SG_NONE) {
        uint32_t p = *SG_P(uint32_t, op->guard);
        go &= op->flags & SG_GUARD_NOT ? ~p : p;
    }
    if (!go)
        return op + 1;
    stay = w->mask & ~go;
    for (uint32_t m = go; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        struct sg_calls *s = &w->calls[l];
        /* the newest record ends at n; its size follows from the call that made it, which is that of this body: its
         * rows are those of its cycle */
        const uint32_t *rows = w->code->ext + op->c;
        struct saved old;
        uint8_t *from = s->p + (s->n -= saved_bytes(rows));
        memcpy(&old, from, sizeof old);
        from += sizeof old;
        for (uint32_t k = 0; k < rows[0]; k++) {
            uint8_t *row = sg_ref(w, rows[1 + 2 * k]);
            uint32_t width = rows[2 + 2 * k], bit = 1u << l;
            if (width)
                memcpy(row + l * width, from, width);
            else
                *(uint32_t *)(void *)row = (*(uint32_t *)(void *)row & ~bit) | (*from ? bit : 0);
            from += width ? width : 1;
        }
        const uint32_t *x = w->code->ext + old.call->x, *result = x + 4 + 3 * x[2];
        for (uint32_t k = 0; k < x[3]; k++)
            memmove(call_place(w, l, result[3 * k], old.fp), call_place(w, l, result[3 * k + 1] | SG_IN_FRAME, fp[l]),
                    result[3 * k + 2]);
        fp[l] = old.fp;
        sg_park(w, old.call + 1, 1u << l, SG_F_RUN, 0);
    }
    if (!stay)
        return sg_pick(w);
    sg_set_mask(w, stay);
    return op + 1;
}
