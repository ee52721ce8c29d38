/* Memory of the driver API: pools, virtual memory, pitch and boxes, host memory, attributes of pointers, values of
 * streams. */
#include <pthread.h>

#include "driver-fixture.h"

static void pools(void **state)
{
    CUmemoryPool def, pool, now;
    CUdeviceptr p, q;
    CUstream s;
    cuuint64_t v;
    fresh();
    OK(F(cuStreamCreate)(&s, 0));
    OK(F(cuDeviceGetDefaultMemPool)(&def, 0));
    OK(F(cuDeviceGetMemPool)(&now, 0));
    assert_ptr_equal(now, def);
    IS(F(cuMemPoolDestroy)(def), CUDA_ERROR_INVALID_VALUE);
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .maxSize = 4096};
    OK(F(cuMemPoolCreate)(&pool, &props));
    OK(F(cuDeviceSetMemPool)(0, pool));
    OK(F(cuMemAllocAsync)(&p, 1000, s));
    OK(F(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
    assert_int_equal(v, 1000);
    OK(F(cuPointerGetAttribute)(&now, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p + 10));
    assert_ptr_equal(now, pool);
    IS(F(cuMemAllocFromPoolAsync)(&q, 4000, pool, s), CUDA_ERROR_OUT_OF_MEMORY); /* over maxSize */
    OK(F(cuMemAllocFromPoolAsync)(&q, 2000, pool, s));
    OK(F(cuMemsetD8)(q, 1, 2000));
    OK(F(cuMemPoolDestroy)(pool)); /* it lives on until its memory is freed */
    IS(F(cuMemAllocFromPoolAsync)(&q, 8, pool, s), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuDeviceGetMemPool)(&now, 0));
    assert_ptr_equal(now, def);
    OK(F(cuMemFreeAsync)(p, s));
    IS(F(cuMemFreeAsync)(p, s), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemFree)(q)); /* pool memory may be freed so */
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    IS(F(cuMemPoolCreate)(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
    drop();
}

static void virtual_memory(void **state)
{
    CUmemGenericAllocationHandle h[2], again;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t g;
    CUdeviceptr p;
    CUmodule m;
    unsigned long long flags;
    fresh();
    OK(F(cuMemGetAllocationGranularity)(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    IS(F(cuMemAddressReserve)(&p, g + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemAddressReserve)(&p, 3 * g, 0, 0, 0));
    assert_int_equal(p % g, 0);
    OK(F(cuMemCreate)(&h[0], g, &prop, 0));
    OK(F(cuMemCreate)(&h[1], g, &prop, 0));
    OK(F(cuMemMap)(p, g, 0, h[0], 0));
    IS(F(cuMemMap)(p, g, 0, h[1], 0), CUDA_ERROR_INVALID_VALUE); /* taken */
    OK(F(cuMemMap)(p + g, g, 0, h[1], 0));
    IS(F(cuMemsetD8)(p, 0, 4), CUDA_ERROR_INVALID_VALUE); /* no access yet */
    OK(F(cuMemSetAccess)(p, 2 * g, &access, 1));
    OK(F(cuMemGetAccess)(&flags, &access.location, p + g));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(F(cuMemRelease)(h[1])); /* the mapping keeps it */
    IS(F(cuMemRelease)(h[1]), CUDA_ERROR_INVALID_VALUE);
    CUfunction f = load_add(&m, "add");
    OK(F(cuMemsetD32)(p, 40, 2 * g / 4)); /* across the two */
    CUdeviceptr middle = p + g - 64;
    unsigned n = 32, two = 2, out[32];
    void *args[] = {&middle, &n, &two};
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
    OK(F(cuMemcpyDtoH)(out, middle, sizeof out));
    assert_true(out[0] == 42 && out[31] == 42);
    OK(F(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)(p + g)));
    IS(F(cuMemAddressFree)(p, 3 * g), CUDA_ERROR_INVALID_VALUE); /* mapped */
    OK(F(cuMemUnmap)(p, 2 * g));
    IS(F(cuMemcpyDtoH)(out, middle, 4), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemMap)(p + 2 * g, g, 0, again, 0)); /* its content stayed */
    OK(F(cuMemSetAccess)(p + 2 * g, g, &access, 1));
    OK(F(cuMemcpyDtoH)(out, p + 2 * g, 4));
    assert_int_equal(out[0], 42);
    OK(F(cuMemUnmap)(p + 2 * g, g));
    OK(F(cuMemRelease)(again));
    OK(F(cuMemRelease)(h[0]));
    OK(F(cuMemAddressFree)(p, 3 * g));
    drop();
}

static void boxes(void **state)
{
    CUdeviceptr p;
    size_t pitch;
    unsigned char src[6][10], dst[6][10];
    unsigned short row[4];
    fresh();
    OK(F(cuMemAllocPitch)(&p, &pitch, 10, 6, 4));
    assert_true(pitch >= 10 && pitch % 4 == 0);
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 10; x++)
            src[y][x] = (unsigned char)(16 * y + x), dst[y][x] = 0;
    CUDA_MEMCPY2D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = src,
                        .srcPitch = 10,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = pitch,
                        .WidthInBytes = 10,
                        .Height = 6};
    OK(F(cuMemcpy2D)(&to));
    CUDA_MEMCPY3D from = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .srcPitch = pitch,
                          .srcHeight = 3,
                          .srcXInBytes = 2,
                          .srcY = 1,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = dst,
                          .dstPitch = 10,
                          .dstHeight = 2,
                          .WidthInBytes = 4,
                          .Height = 2,
                          .Depth = 2};
    OK(F(cuMemcpy3D)(&from)); /* two layers of three rows, rows 1 and 2 of each, columns 2 to 5 */
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 4; x++)
                assert_int_equal(dst[2 * z + y][x], 16 * (3 * z + 1 + y) + 2 + x);
    from.srcY = 6;
    IS(F(cuMemcpy3D)(&from), CUDA_ERROR_INVALID_VALUE); /* past the end */
    to.srcPitch = 5;
    IS(F(cuMemcpy2D)(&to), CUDA_ERROR_INVALID_VALUE); /* rows overlap */
    OK(F(cuMemsetD2D16)(p, pitch, 0xABCD, 3, 2));
    OK(F(cuMemcpyDtoH)(row, p + pitch, 8));
    assert_true(row[0] == 0xABCD && row[2] == 0xABCD && row[3] == 0x1716);
    IS(F(cuMemsetD16)(p + 1, 0, 1), CUDA_ERROR_INVALID_VALUE); /* not aligned */
    IS(F(cuMemsetD2D8)(p, 4, 0, 8, 2), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuMemsetD32)(p, 0, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemsetD32)(p, 0, 0));
    IS(F(cuMemAllocPitch)(&p, &pitch, SIZE_MAX - 100, 2, 4), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuMemAlloc)(&p, (size_t)1 << 46), CUDA_ERROR_OUT_OF_MEMORY);
    IS(F(cuMemAllocHost)((void **)&p, (size_t)1 << 46), CUDA_ERROR_OUT_OF_MEMORY);
    drop();
}

static void pointers(void **state)
{
    CUdeviceptr p, managed, base;
    void *host, *ptr;
    unsigned type, is;
    size_t n;
    CUcontext c = fresh(), owner;
    OK(F(cuMemAlloc)(&p, 100));
    OK(F(cuMemHostAlloc)(&host, 100, CU_MEMHOSTALLOC_PORTABLE));
    OK(F(cuMemAllocManaged)(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    OK(F(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(F(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(F(cuPointerGetAttribute)(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    assert_true(is);
    OK(F(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    assert_ptr_equal(owner, c);
    IS(F(cuPointerGetAttribute)(&ptr, CU_POINTER_ATTRIBUTE_HOST_POINTER, p), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuPointerGetAttribute)(&ptr, (CUpointer_attribute)99, p), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 16), CUDA_ERROR_INVALID_VALUE);
    int ordinal = 5;
    void *out[] = {&type, &ordinal};
    CUpointer_attribute ask[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    OK(F(cuPointerGetAttributes)(2, ask, out, 16)); /* unknown: zero and -2 */
    assert_true(type == 0 && ordinal == -2);
    OK(F(cuMemGetAddressRange)(&base, &n, p + 99));
    assert_true(base == p && n == 100);
    IS(F(cuMemGetAddressRange)(&base, &n, p + 100), CUDA_ERROR_NOT_FOUND);
    OK(F(cuMemHostGetFlags)(&is, host));
    assert_int_equal(is, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    IS(F(cuMemFreeHost)((char *)host + 1), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuMemHostUnregister)(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    IS(F(cuMemHostRegister)((char *)host + 10, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, 77};
    OK(F(cuMemPrefetchAsync)(managed, 100, here, 0, NULL));
    IS(F(cuMemPrefetchAsync)(managed, 100, nowhere, 0, NULL), CUDA_ERROR_INVALID_DEVICE);
    IS(F(cuMemPrefetchAsync)(p, 100, here, 0, NULL), CUDA_ERROR_INVALID_VALUE); /* not managed */
    IS(F(cuMemAdvise)(managed, 101, CU_MEM_ADVISE_SET_READ_MOSTLY, here), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemFree)(managed));
    OK(F(cuMemFreeHost)(host));
    OK(F(cuMemFree)(p));
    drop();
}

/* Memory goes with its context, and only with that one. A freed device address is no host memory. */
static void belongs(void **state)
{
    CUcontext a, b;
    CUdeviceptr p, q;
    size_t before, after, total;
    char byte;
    fresh();
    OK(F(cuMemAlloc)(&p, 4096));
    OK(F(cuCtxCreate)(&a, NULL, 0, 0));
    OK(F(cuMemGetInfo)(&before, &total));
    OK(F(cuMemAlloc)(&q, 1 << 20));
    OK(F(cuCtxPopCurrent)(&b));
    assert_ptr_equal(a, b);
    OK(F(cuCtxDestroy)(a));
    OK(F(cuMemGetInfo)(&after, &total));
    assert_int_equal(before, after);
    OK(F(cuMemsetD8)(p, 1, 4096));
    IS(F(cuMemsetD8)(q, 1, 1), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuMemcpy)((CUdeviceptr)(uintptr_t)&byte, q, 1), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuCtxSetCurrent)(a), CUDA_ERROR_INVALID_CONTEXT);
    drop();
}

static void *write_later(void *arg)
{
    usleep(20000);
    __atomic_store_n((unsigned *)arg, 3, __ATOMIC_SEQ_CST);
    return NULL;
}

static void values(void **state)
{
    CUdeviceptr p;
    CUstream s;
    void *flag;
    pthread_t t;
    uint64_t v[2];
    CUcontext c;
    OK(F(cuInit)(0));
    OK(F(cuCtxCreate)(&c, NULL, 0, 0));
    OK(F(cuStreamCreate)(&s, 0));
    OK(F(cuMemAlloc)(&p, 16));
    OK(F(cuStreamWriteValue32)(s, p, 5, 0));
    OK(F(cuStreamWriteValue64)(s, p + 8, UINT64_MAX - 1, 0));
    OK(F(cuMemcpyDtoH)(v, p, 16));
    assert_true((uint32_t)v[0] == 5 && v[1] == UINT64_MAX - 1);
    OK(F(cuStreamWaitValue32)(s, p, 4, CU_STREAM_WAIT_VALUE_GEQ));
    OK(F(cuStreamWaitValue32)(s, p, 5, CU_STREAM_WAIT_VALUE_EQ));
    OK(F(cuStreamWaitValue32)(s, p, 12, CU_STREAM_WAIT_VALUE_AND));
    OK(F(cuStreamWaitValue32)(s, p, 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ)); /* cyclic: 5 - 0xfffffff0 = 21 */
    OK(F(cuStreamWaitValue64)(s, p + 8, 0, CU_STREAM_WAIT_VALUE_NOR));
    IS(F(cuStreamWaitValue32)(s, p + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuStreamWaitValue64)(s, p + 12, 0, 0), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuStreamWriteValue32)(s, 64, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemAllocHost)(&flag, 4));
    *(unsigned *)flag = 0;
    pthread_create(&t, NULL, write_later, flag);
    OK(F(cuStreamWaitValue32)(s, (CUdeviceptr)(uintptr_t)flag, 3, CU_STREAM_WAIT_VALUE_EQ));
    pthread_join(t, NULL);
    OK(X(dovetailSetDeadline)(30)); /* nobody writes: the context fails like one whose kernel hangs */
    IS(F(cuStreamWaitValue32)(s, p, 6, CU_STREAM_WAIT_VALUE_EQ), CUDA_ERROR_LAUNCH_TIMEOUT);
    IS(F(cuCtxSynchronize)(), CUDA_ERROR_LAUNCH_TIMEOUT);
    OK(F(cuCtxDestroy)(c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pools),   cmocka_unit_test(virtual_memory),
                                       cmocka_unit_test(boxes),   cmocka_unit_test(pointers),
                                       cmocka_unit_test(belongs), cmocka_unit_test(values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
