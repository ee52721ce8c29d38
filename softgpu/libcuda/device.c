/* Devices and their attributes, from the model.
 *
 * attributes.def is the list. Attributes that name something this device does not offer are 0.
 */
#include <stdio.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

#define CU_DEVICE(d, ordinal)                                                                                          \
    CU_READY();                                                                                                        \
    struct cu_device *d = cu_device_at(ordinal);                                                                       \
    CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE)

CUresult cuDeviceGetCount(int *n)
{
    CU_READY();
    CU_REQUIRE(n, CUDA_ERROR_INVALID_VALUE);
    *n = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *ret, int ordinal)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(ordinal == 0, CUDA_ERROR_INVALID_DEVICE);
    *ret = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    CU_DEVICE(d, dev);
    CU_REQUIRE(name && len > 0, CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)len, "%s", d->model->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *ret, CUdevice dev)
{
    CU_DEVICE(d, dev);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = d->model->dram_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    CU_DEVICE(d, dev);
    CU_REQUIRE(major && minor, CUDA_ERROR_INVALID_VALUE);
    *major = (int)d->model->cc_major;
    *minor = (int)d->model->cc_minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *ret, CUdevice dev)
{
    CU_DEVICE(d, dev);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    memset(ret, 0, sizeof *ret);
    memcpy(ret->bytes, "dovetail", 8);
    strncpy(ret->bytes + 8, d->model->id, 8);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *ret, int len, CUdevice dev)
{
    CU_DEVICE(d, dev);
    CU_REQUIRE(ret && len > 12, CUDA_ERROR_INVALID_VALUE);
    snprintf(ret, (size_t)len, "0000:01:%02X.0", (unsigned)dev);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *ret, const char *id)
{
    CU_READY();
    CU_REQUIRE(ret && id, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!strcmp(id, "0000:01:00.0"), CUDA_ERROR_INVALID_DEVICE);
    *ret = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *ret, CUdevice a, CUdevice b)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(a) && cu_device_at(b), CUDA_ERROR_INVALID_DEVICE);
    *ret = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *ret, CUdevice_P2PAttribute a, CUdevice from, CUdevice to)
{
    CU_READY();
    CU_REQUIRE(ret && a >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
                   a <= CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(from) && cu_device_at(to) && from != to, CUDA_ERROR_INVALID_DEVICE);
    *ret = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *ret, CUexecAffinityType type, CUdevice dev)
{
    CU_DEVICE(d, dev);
    CU_REQUIRE(ret && (unsigned)type < CU_EXEC_AFFINITY_TYPE_MAX, CUDA_ERROR_INVALID_VALUE);
    *ret = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *ret, CUdevice dev)
{
    CU_DEVICE(d, dev);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = (CUdevprop){.maxThreadsPerBlock = 1024,
                       .maxThreadsDim = {1024, 1024, 64},
                       .maxGridSize = {INT32_MAX, 65535, 65535},
                       .sharedMemPerBlock = (int)d->model->shared_block,
                       .totalConstantMemory = 65536,
                       .SIMDWidth = 32,
                       .memPitch = INT32_MAX,
                       .regsPerBlock = (int)d->model->regs_block,
                       .clockRate = (int)d->model->clock_khz,
                       .textureAlign = 512};
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *ret, CUdevice_attribute a, CUdevice dev)
{
    CU_DEVICE(d, dev);
    const struct sg_model *m = d->model;
    CU_REQUIRE(ret && a > 0 && a < CU_DEVICE_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    switch (a) {
#define ROW(name, value)                                                                                               \
    case CU_DEVICE_ATTRIBUTE_##name:                                                                                   \
        *ret = (int)(value);                                                                                           \
        break;
#include "softgpu/libcuda/attributes.def"
#undef ROW
    default: *ret = 0; break;
    }
    return CUDA_SUCCESS;
}
