/* Tensor maps of a graph (graph/tensormap.c): held to what cuTensorMapEncodeTiled requires before anything runs, and
 * encoded by it where the buffer's address is known. The 128 bytes are the driver's own; nobody else reads them.
 */
#include <string.h>

#include "device/device-priv.h"
#include "graph/cuda-launch.h"

void dev_tensor_map_fields(const struct dt_arg *a, dev_ptr buffer, struct ptx_tensormap *ret)
{
    const struct dt_tensor_map *g = a->map;
    struct ptx_tensormap m = {.address = buffer + a->offset,
                              .rank = g->rank,
                              .type = g->type,
                              .interleave = g->interleave,
                              .l2 = g->l2,
                              .fill = g->fill};
    m.swizzle = g->swizzle > CU_TENSOR_MAP_SWIZZLE_128B ? PTX_TM_SWIZZLE_128B : g->swizzle;
    m.atom = g->swizzle > CU_TENSOR_MAP_SWIZZLE_128B ? g->swizzle - CU_TENSOR_MAP_SWIZZLE_128B : PTX_TM_ATOM_16B;
    for (unsigned i = 0; i < 5; i++) {
        m.dim[i] = g->dim[i];
        m.stride[i] = g->stride[i];
        m.box[i] = g->box[i];
        m.step[i] = i || g->interleave ? g->step[i] : 1; /* the first is not looked at */
    }
    *ret = m;
}

const char *dev_tensor_map_check(const struct dt_arg *a)
{
    struct ptx_tensormap m;
    dev_tensor_map_fields(a, UINT64_C(1) << 20 /* buffers begin at such multiples (run.c) */, &m);
    return ptx_tensormap_check(&m);
}

int dev_tensor_map_encode(struct dev_device *d, const struct dt_arg *a, dev_ptr buffer, uint8_t out[128],
                          struct dt_err *e)
{
    CUtensorMap map;
    int r = dev_use(d, e);
    if (r < 0)
        return r;
    r = dev_cu(d, dt_cuda_tensor_map(a->map, buffer + a->offset, d->cu->cuTensorMapEncodeTiled, &map),
               "cuTensorMapEncodeTiled", e);
    if (!r)
        memcpy(out, &map, sizeof map);
    return r;
}
