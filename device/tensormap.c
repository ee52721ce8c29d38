/* Tensor maps of a graph (graph/tensormap.c): held to what cuTensorMapEncodeTiled requires before anything runs, and
 * encoded by it where the buffer's address is known. The 128 bytes are the driver's own; nobody else reads them.
 */
#include <string.h>

#include "device/device-priv.h"

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
    const struct dt_tensor_map *g = a->map;
    CUtensorMap map;
    cuuint64_t dim[5], stride[5] = {0};
    cuuint32_t box[5], step[5];
    for (unsigned i = 0; i < 5; i++) {
        dim[i] = g->dim[i];
        box[i] = g->box[i];
        step[i] = g->step[i];
        if (i)
            stride[i - 1] = g->stride[i];
    }
    int r = dev_use(d, e);
    if (r < 0)
        return r;
    r = dev_cu(d,
               d->cu->cuTensorMapEncodeTiled(&map, (CUtensorMapDataType)g->type, g->rank,
                                             (void *)(uintptr_t)(buffer + a->offset), dim, stride, box, step,
                                             (CUtensorMapInterleave)g->interleave, (CUtensorMapSwizzle)g->swizzle,
                                             (CUtensorMapL2promotion)g->l2, (CUtensorMapFloatOOBfill)g->fill),
               "cuTensorMapEncodeTiled", e);
    if (!r)
        memcpy(out, &map, sizeof map);
    return r;
}
