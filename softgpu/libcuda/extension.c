/* The entries that only this device has (extension.h). */
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult dovetailDeviceByModel(CUdevice *ret, const char *id)
{
    CU_READY();
    CU_REQUIRE(ret && id, CUDA_ERROR_INVALID_VALUE);
    const struct sg_model *m = sg_model_find(id);
    CU_REQUIRE(m, CUDA_ERROR_NOT_FOUND);
    for (CUdevice i = 0; cu_device_at(i); i++)
        if (cu_device_at(i)->model == m) {
            *ret = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult dovetailDeviceModel(const char **ret, CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *ret = cu_device_at(dev)->model->id;
    return CUDA_SUCCESS;
}

CUresult dovetailSetSchedule(uint64_t seed, int race_check)
{
    CU_CONTEXT(c);
    c->seed = seed;
    c->race_check = race_check != 0;
    return CUDA_SUCCESS;
}

CUresult dovetailSetDeadline(unsigned ms)
{
    CU_CONTEXT(c);
    c->deadline_ms = ms;
    return CUDA_SUCCESS;
}

CUresult dovetailGetFault(struct dovetail_fault *ret)
{
    CU_READY();
    CUcontext c;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cuCtxGetCurrent(&c));
    CU_REQUIRE(c && cu_context_live(c), CUDA_ERROR_INVALID_CONTEXT);
    *ret = c->fault;
    return CUDA_SUCCESS;
}

CUresult dovetailFuncSetResources(CUfunction handle, unsigned registers)
{
    CU_CONTEXT(c);
    struct CUfunc_st *f;
    CU_TRY(cu_function(c, handle, &f));
    CU_REQUIRE(registers && registers <= 255, CUDA_ERROR_INVALID_VALUE);
    sg_kernel_set_resources(f->kernel, registers);
    return CUDA_SUCCESS;
}

CUresult dovetailLastStats(struct dovetail_launch_stats *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    const struct sg_stats *s = &c->last;
    *ret = (struct dovetail_launch_stats){
        .instructions = s->instructions, .fp32 = s->fp32, .fp64 = s->fp64, .integer = s->integer, .sfu = s->sfu,
        .memory = s->memory, .barriers = s->barriers, .tensor_flops = s->tensor_flops, .global_read_bytes = s->global_read_bytes,
        .global_write_bytes = s->global_write_bytes, .shared_bytes = s->shared_bytes,
        .unique_read_bytes = s->unique_read_bytes, .unique_write_bytes = s->unique_write_bytes};
    return CUDA_SUCCESS;
}
