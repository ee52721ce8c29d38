/* A launch and its tensor maps in the structures of cuda.h, for callers of a driver: device/ and libdovetail
 * (client/).
 *
 * Functions of a header only: graph/ itself is built without cuda.h, and calls no driver. What the structures say
 * beyond a launch's own numbers (the function, its parameters, edges) is the caller's.
 */
#ifndef DT_GRAPH_CUDA_LAUNCH_H
#define DT_GRAPH_CUDA_LAUNCH_H

#include <cuda.h>

#include "graph/graph.h"

/* Grid, block and shared memory; no function and no parameters. */
static inline CUDA_KERNEL_NODE_PARAMS dt_cuda_node(const struct dt_launch *l)
{
    return (CUDA_KERNEL_NODE_PARAMS){.gridDimX = l->grid[0],
                                     .gridDimY = l->grid[1],
                                     .gridDimZ = l->grid[2],
                                     .blockDimX = l->block[0],
                                     .blockDimY = l->block[1],
                                     .blockDimZ = l->block[2],
                                     .sharedMemBytes = l->shared};
}

/* The same for a launch into a stream; attributes and stream are the caller's. */
static inline CUlaunchConfig dt_cuda_config(const struct dt_launch *l)
{
    return (CUlaunchConfig){.gridDimX = l->grid[0],
                            .gridDimY = l->grid[1],
                            .gridDimZ = l->grid[2],
                            .blockDimX = l->block[0],
                            .blockDimY = l->block[1],
                            .blockDimZ = l->block[2],
                            .sharedMemBytes = l->shared};
}

#define DT_CUDA_ATTRIBUTES 2
/* Cluster, if the launch has one, first; then programmatic launch, if it has that. How many. */
static inline unsigned dt_cuda_attributes(const struct dt_launch *l, CUlaunchAttribute attr[DT_CUDA_ATTRIBUTES])
{
    unsigned n = 0;
    if (l->cluster[0]) {
        attr[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
        attr[n].value.clusterDim.x = l->cluster[0];
        attr[n].value.clusterDim.y = l->cluster[1];
        attr[n++].value.clusterDim.z = l->cluster[2];
    }
    if (l->programmatic) {
        attr[n] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
        attr[n++].value.programmaticStreamSerializationAllowed = 1;
    }
    return n;
}

/* The descriptor of a tensor that lies at `address`. `encode`: the driver's cuTensorMapEncodeTiled. */
static inline CUresult dt_cuda_tensor_map(const struct dt_tensor_map *m, uint64_t address,
                                          __typeof__(&cuTensorMapEncodeTiled) encode, CUtensorMap *ret)
{
    cuuint64_t dim[5], stride[5] = {0};
    cuuint32_t box[5], step[5];
    for (int i = 0; i < 5; i++) {
        dim[i] = m->dim[i];
        box[i] = m->box[i];
        step[i] = m->step[i];
        if (i)
            stride[i - 1] = m->stride[i];
    }
    return encode(ret, (CUtensorMapDataType)m->type, m->rank, (void *)(uintptr_t)address, dim, stride, box, step,
                  (CUtensorMapInterleave)m->interleave, (CUtensorMapSwizzle)m->swizzle, (CUtensorMapL2promotion)m->l2,
                  (CUtensorMapFloatOOBfill)m->fill);
}

#endif
