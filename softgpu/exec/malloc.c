/* malloc and free in kernels, on the heap of the device (memory/heap.c).
 *
 * malloc gives 0 when there is no room, and for 0 bytes. To free what is not allocated, or no longer, is undefined in
 * CUDA: a fault (trap) here.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

const struct sg_op *sg_malloc(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t bytes = 0, given = 0, at;
        memcpy(&bytes, sg_call_param(w, op, l, 0), 8);
        at = sg_heap_take(w->wk->run->device, bytes, &given);
        memcpy(sg_call_param(w, op, l, 1), &at, 8);
        if (at && w->wk->check)
            sg_check_fresh(w, (const uint8_t *)(uintptr_t)at, given);
    }
    return op + 1;
}

const struct sg_op *sg_free(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at = 0;
        memcpy(&at, sg_call_param(w, op, l, 0), 8);
        const char *bad = at ? sg_heap_give(w->wk->run->device, at) : NULL;
        if (bad)
            return sg_fault_at(w, op, DT_E_TRAP, l, at, 0, "free of 0x%llx, %s", (unsigned long long)at, bad);
    }
    return op + 1;
}
