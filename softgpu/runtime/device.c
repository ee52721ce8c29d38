/* Devices: count, properties, attributes, bus ids, peers.
 *
 * The attributes of the two APIs have the same numbers. cudaDeviceProp is filled by a table (properties.def) of its
 * members and those numbers.
 */
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

cudaError_t cudaGetDeviceCount(int *ret)
{
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    *ret = 0;
    DTRT_OPEN();
    return dtrt_is(dtrt_drv.cuDeviceGetCount(ret));
}

static cudaError_t device_check(int device)
{
    int n = 0;
    CUresult r = dtrt_drv.cuDeviceGetCount(&n);
    return r != CUDA_SUCCESS ? (cudaError_t)r : device < 0 || device >= n ? cudaErrorInvalidDevice : cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *ret, enum cudaDeviceAttr a, int device)
{
    DTRT_OPEN();
    DTRT_TRY(device_check(device));
    return dtrt_is(dtrt_drv.cuDeviceGetAttribute(ret, (CUdevice_attribute)a, device));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *ret, int device)
{
    struct cudaDeviceProp p = {0};
    int v;
    DTRT_OPEN();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY(device_check(device));
    DTRT_TRY((cudaError_t)dtrt_drv.cuDeviceGetName(p.name, sizeof p.name, device));
    DTRT_TRY((cudaError_t)dtrt_drv.cuDeviceTotalMem(&p.totalGlobalMem, device));
    DTRT_TRY((cudaError_t)dtrt_drv.cuDeviceGetUuid((CUuuid *)&p.uuid, device));
#define PROPERTY(member, attribute)                                                                                    \
    if (dtrt_drv.cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_##attribute, device) == CUDA_SUCCESS)                    \
        p.member = (__typeof__(p.member))v;
#include "softgpu/runtime/properties.def"
#undef PROPERTY
    *ret = p;
    return cudaSuccess;
}

/* The one with most of what is asked for: of equal worth, the first. */
cudaError_t cudaChooseDevice(int *ret, const struct cudaDeviceProp *want)
{
    int n, best = -1;
    struct cudaDeviceProp p;
    DTRT_REQUIRE(ret && want, cudaErrorInvalidValue);
    DTRT_TRY(cudaGetDeviceCount(&n));
    for (int i = 0; i < n; i++) {
        DTRT_TRY(cudaGetDeviceProperties(&p, i));
        int worth = (p.major >= want->major) + (p.major > want->major || p.minor >= want->minor) +
                    (p.totalGlobalMem >= want->totalGlobalMem) + (p.multiProcessorCount >= want->multiProcessorCount);
        if (worth > best) {
            best = worth;
            *ret = i;
        }
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *ret, const char *id)
{
    DTRT_OPEN();
    return dtrt_is(dtrt_drv.cuDeviceGetByPCIBusId(ret, id));
}

cudaError_t cudaDeviceGetPCIBusId(char *ret, int n, int device)
{
    DTRT_OPEN();
    return dtrt_is(dtrt_drv.cuDeviceGetPCIBusId(ret, n, device));
}

cudaError_t cudaDeviceGetP2PAttribute(int *ret, enum cudaDeviceP2PAttr a, int from, int to)
{
    DTRT_OPEN();
    return dtrt_is(dtrt_drv.cuDeviceGetP2PAttribute(ret, (CUdevice_P2PAttribute)a, from, to));
}

cudaError_t cudaDeviceCanAccessPeer(int *ret, int device, int peer)
{
    DTRT_OPEN();
    return dtrt_is(dtrt_drv.cuDeviceCanAccessPeer(ret, device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    CUcontext c;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_primary(peer, &c));
    return dtrt_is(dtrt_drv.cuCtxEnablePeerAccess(c, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext c;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_primary(peer, &c));
    return dtrt_is(dtrt_drv.cuCtxDisablePeerAccess(c));
}

/* Nothing writes memory from outside, so nothing is to be waited for. */
cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                               enum cudaFlushGPUDirectRDMAWritesScope scope)
{
    DTRT_CONTEXT();
    return cudaSuccess;
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = f};
}
