/* Which copy of the lane loops and of the products of matrices this CPU runs: x86-64 of level 1, 3 or 4.
 *
 * DOVETAIL_SOFTGPU_ISA (v1, v3) asks for a lower level than the CPU has, for comparing them.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdlib.h>
#include <string.h>

const sg_fn *sg_isa(void)
{
#if defined(__x86_64__) && !defined(__clang__)
    static const sg_fn *chosen;
    const sg_fn *t = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (t)
        return t;
    const char *want = getenv("DOVETAIL_SOFTGPU_ISA");
    __builtin_cpu_init();
    t = sg_lanes_v1;
    if (__builtin_cpu_supports("x86-64-v3") && !(want && !strcmp(want, "v1")))
        t = sg_lanes_v3;
    if (__builtin_cpu_supports("x86-64-v4") && !(want && (!strcmp(want, "v1") || !strcmp(want, "v3"))))
        t = sg_lanes_v4;
    __atomic_store_n(&chosen, t, __ATOMIC_RELAXED);
    return t;
#else
    return sg_lanes_v1;
#endif
}

const struct sg_products *sg_isa_products(void)
{
    const sg_fn *t = sg_isa();
    return t == sg_lanes_v4 ? &sg_products_v4 : t == sg_lanes_v3 ? &sg_products_v3 : &sg_products_v1;
}
