/* Arrays, textures and surfaces through the driver API: descriptions and what is wrong with them, copies of every kind,
 * references of a module, what the checks see, and what becomes of objects whose memory or context goes. What a fetch
 * gives is in tests/ptx/texture.ptx.
 */
#include "tests/unit/driver-fixture.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* references are */

/* out[i] = texel i of the reference `ref`, and of the texture t; a surface s gets i at element i */
static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .texref ref;\n.visible .global .surfref sref;\n"
    ".visible .entry named(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<9>;\n"
    "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1;\n"
    "tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [ref, {%f1, %f1}];\n"
    "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.f32 [%rd3], %f2; ret; }\n"
    ".visible .entry fetch(.param .u64 t, .param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<9>;\n"
    "ld.param.u64 %rd4, [t]; ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;\n"
    "tex.1d.v4.f32.s32 {%f2, %f3, %f4, %f5}, [%rd4, {%r1}];\n"
    "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.f32 [%rd3], %f2; ret; }\n"
    ".visible .entry put(.param .u64 s) { .reg .b32 %r<9>; .reg .b64 %rd<5>;\n"
    "ld.param.u64 %rd4, [s]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; sust.b.1d.b32.trap [%rd4, {%r2}], {%r1};\n"
    "sust.b.1d.b32.trap [sref, {%r2}], {%r1}; ret; }\n"
    ".visible .entry clash(.param .u64 s) { .reg .b32 %r<9>; .reg .b64 %rd<5>;\n"
    "ld.param.u64 %rd4, [s]; mov.u32 %r1, %tid.x; sust.b.1d.b32.trap [%rd4, {0}], {%r1}; ret; }\n";

struct world {
    CUmodule m;
    CUdeviceptr out;
};

static int start(void **state)
{
    static struct world w;
    fresh();
    OK(F(cuModuleLoadData)(&w.m, ptx));
    OK(F(cuMemAlloc)(&w.out, 64));
    *state = &w;
    return 0;
}
static int stop(void **state) { return F(cuDevicePrimaryCtxReset)(0) || F(cuDevicePrimaryCtxRelease)(0); }

static CUresult launch(struct world *w, const char *name, unsigned n, void **args)
{
    CUfunction f;
    OK(F(cuModuleGetFunction)(&f, w->m, name));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, n, 1, 1, 0, NULL, args, NULL));
    return F(cuCtxSynchronize)();
}

static CUarray array(size_t width, size_t height, size_t depth, unsigned flags)
{
    CUarray a;
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = width,
                                 .Height = height,
                                 .Depth = depth,
                                 .Format = CU_AD_FORMAT_FLOAT,
                                 .NumChannels = 1,
                                 .Flags = flags};
    OK(F(cuArray3DCreate)(&a, &d));
    return a;
}

static void arrays(void **state)
{
    CUarray a;
    CUDA_ARRAY_DESCRIPTOR d = {.Width = 4, .Height = 2, .Format = CU_AD_FORMAT_UNSIGNED_INT16, .NumChannels = 2}, back;
    CUDA_ARRAY3D_DESCRIPTOR d3 = {.Width = 4, .Height = 4, .Depth = 6, .Format = CU_AD_FORMAT_HALF, .NumChannels = 1},
                            back3;
    OK(F(cuArrayCreate)(&a, &d));
    OK(F(cuArrayGetDescriptor)(&back, a));
    assert_true(back.Width == 4 && back.Height == 2 && back.Format == CU_AD_FORMAT_UNSIGNED_INT16 &&
                back.NumChannels == 2);
    OK(F(cuArray3DGetDescriptor)(&back3, a));
    assert_int_equal(back3.Depth, 0);
    OK(F(cuArrayDestroy)(a));
    IS(F(cuArrayDestroy)(a), CUDA_ERROR_INVALID_HANDLE);
    IS(F(cuArrayGetDescriptor)(&back, a), CUDA_ERROR_INVALID_HANDLE);
    for (int k = 0; k < 5; k++) {
        CUDA_ARRAY_DESCRIPTOR bad = d;
        k == 0   ? (void)(bad.Width = 0)
        : k == 1 ? (void)(bad.NumChannels = 3)
        : k == 2 ? (void)(bad.Width = 200000)
        : k == 3 ? (void)(bad.Format = (CUarray_format)5)
                 : (void)(bad.Height = 70000);
        IS(F(cuArrayCreate)(&a, &bad), CUDA_ERROR_INVALID_VALUE);
    }
    d.Format = CU_AD_FORMAT_NV12;
    IS(F(cuArrayCreate)(&a, &d), CUDA_ERROR_NOT_SUPPORTED);
    d3.Flags = CUDA_ARRAY3D_CUBEMAP;
    OK(F(cuArray3DCreate)(&a, &d3));
    OK(F(cuArrayDestroy)(a));
    d3.Depth = 5;
    IS(F(cuArray3DCreate)(&a, &d3), CUDA_ERROR_INVALID_VALUE);
    d3.Flags = CUDA_ARRAY3D_SPARSE;
    IS(F(cuArray3DCreate)(&a, &d3), CUDA_ERROR_NOT_SUPPORTED);

    CUmipmappedArray m;
    d3.Flags = 0, d3.Depth = 0, d3.Width = 5, d3.Height = 3;
    OK(F(cuMipmappedArrayCreate)(&m, &d3, 9));
    OK(F(cuMipmappedArrayGetLevel)(&a, m, 2));
    OK(F(cuArray3DGetDescriptor)(&back3, a));
    assert_true(back3.Width == 1 && back3.Height == 1);
    IS(F(cuMipmappedArrayGetLevel)(&a, m, 3), CUDA_ERROR_INVALID_VALUE); /* as many as there can be */
    IS(F(cuArrayDestroy)(a), CUDA_ERROR_INVALID_HANDLE);
    OK(F(cuMipmappedArrayDestroy)(m));
    IS(F(cuMipmappedArrayDestroy)(m), CUDA_ERROR_INVALID_HANDLE);
}

static void copies(void **state)
{
    const float in[6] = {1, 2, 3, 4, 5, 6};
    float out[6] = {0};
    CUarray a = array(3, 2, 0, 0), b = array(3, 2, 0, 0);
    CUdeviceptr p;
    CUstream s;
    OK(F(cuMemAlloc)(&p, sizeof in));
    OK(F(cuStreamCreate)(&s, 0));
    OK(F(cuMemcpyHtoA)(a, 0, in, sizeof in));
    OK(F(cuMemcpyAtoA)(b, 4, a, 0, 8)); /* 1 2 to places 1 and 2 */
    OK(F(cuMemcpyAtoA)(b, 12, a, 12, 12));
    OK(F(cuMemcpyAtoD)(p, b, 12, 12));
    OK(F(cuMemcpyDtoA)(b, 0, p, 4));
    OK(F(cuMemcpyAtoHAsync)(out, b, 0, 12, s));
    OK(F(cuMemcpyAtoHAsync)(out + 3, b, 12, 12, s));
    OK(F(cuStreamSynchronize)(s));
    assert_memory_equal(out, ((const float[]){4, 1, 2, 4, 5, 6}), sizeof out);
    OK(F(cuMemcpyHtoAAsync)(b, 20, in, 4, s));
    IS(F(cuMemcpyHtoA)(a, 4, in, sizeof in), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuMemcpyHtoA)(a, 0, in, 13), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuMemcpyHtoA)(a, 24, in, 4), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuMemcpyHtoA)(NULL, 0, in, 4), CUDA_ERROR_INVALID_HANDLE);
    IS(F(cuMemcpyAtoA)(a, 0, (CUarray)p, 0, 4), CUDA_ERROR_INVALID_HANDLE);

    /* a box, to a column of the other; by a graph, too */
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                       .srcArray = a,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = b,
                       .dstXInBytes = 8,
                       .WidthInBytes = 4,
                       .Height = 2,
                       .Depth = 1};
    CUgraph g;
    CUgraphExec e;
    CUgraphNode n;
    OK(F(cuGraphCreate)(&g, 0));
    OK(F(cuGraphAddMemcpyNode)(&n, g, NULL, 0, &c, fresh()));
    OK(F(cuGraphInstantiate)(&e, g, 0));
    OK(F(cuGraphLaunch)(e, NULL));
    OK(F(cuMemcpyAtoH)(out, b, 0, sizeof out));
    assert_true(out[2] == 1 && out[5] == 4);
    c.dstXInBytes = 12;
    IS(F(cuMemcpy3D)(&c), CUDA_ERROR_INVALID_VALUE);
    c.dstXInBytes = 2;
    IS(F(cuMemcpy3D)(&c), CUDA_ERROR_INVALID_VALUE);
    c.dstXInBytes = 0, c.Height = 3;
    IS(F(cuMemcpy3D)(&c), CUDA_ERROR_INVALID_VALUE);
    c.Height = 2;
    OK(F(cuArrayDestroy)(b));
    IS(F(cuMemcpy3D)(&c), CUDA_ERROR_INVALID_HANDLE);
    drop();
}

static void objects(void **state)
{
    struct world *w = *state;
    CUdeviceptr p;
    CUtexObject t;
    float in[4] = {1, 2, 3, 4}, out[6];
    OK(F(cuMemAlloc)(&p, 1024));
    OK(F(cuMemcpyHtoD)(p, in, sizeof in));
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_LINEAR}, rb;
    CUDA_TEXTURE_DESC d = {.filterMode = CU_TR_FILTER_MODE_LINEAR, .borderColor = {9}}, db;
    CUDA_RESOURCE_VIEW_DESC vb;
    r.res.linear.devPtr = p;
    r.res.linear.format = CU_AD_FORMAT_FLOAT;
    r.res.linear.numChannels = 1;
    r.res.linear.sizeInBytes = sizeof in;
    OK(F(cuTexObjectCreate)(&t, &r, &d, NULL));
    OK(F(cuTexObjectGetResourceDesc)(&rb, t));
    assert_int_equal(rb.res.linear.devPtr, p);
    OK(F(cuTexObjectGetTextureDesc)(&db, t));
    assert_memory_equal(&db, &d, sizeof d);
    IS(F(cuTexObjectGetResourceViewDesc)(&vb, t), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuSurfObjectDestroy)(t), CUDA_ERROR_INVALID_VALUE);
    OK(launch(w, "fetch", 6, (void *[]){&t, &w->out}));
    OK(F(cuMemcpyDtoH)(out, w->out, sizeof out));
    assert_memory_equal(out, ((const float[]){1, 2, 3, 4, 0, 0}), sizeof out);
    OK(F(cuTexObjectDestroy)(t));
    IS(F(cuTexObjectDestroy)(t), CUDA_ERROR_INVALID_VALUE);

    CUarray a = array(4, 0, 0, 0);
    CUsurfObject s;
    r.res.linear.devPtr = p + 4; /* not aligned */
    IS(F(cuTexObjectCreate)(&t, &r, &d, NULL), CUDA_ERROR_INVALID_VALUE);
    r.res.linear.devPtr = p;
    r.res.linear.sizeInBytes = 4096; /* more than there is */
    IS(F(cuTexObjectCreate)(&t, &r, &d, NULL), CUDA_ERROR_INVALID_VALUE);
    r = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    OK(F(cuSurfObjectCreate)(&s, &r)); /* without CUDA_ARRAY3D_SURFACE_LDST, too */
    OK(F(cuSurfObjectDestroy)(s));
    d.flags = CU_TRSF_SRGB;
    IS(F(cuTexObjectCreate)(&t, &r, &d, NULL), CUDA_ERROR_NOT_SUPPORTED);
    d.flags = 0x1000;
    IS(F(cuTexObjectCreate)(&t, &r, &d, NULL), CUDA_ERROR_INVALID_VALUE);
    d.flags = 0;
    CUDA_RESOURCE_VIEW_DESC v = {.format = CU_RES_VIEW_FORMAT_UINT_2X16, .width = 4};
    d.filterMode = CU_TR_FILTER_MODE_POINT;
    OK(F(cuTexObjectCreate)(&t, &r, &d, &v));
    OK(F(cuTexObjectGetResourceViewDesc)(&vb, t));
    assert_int_equal(vb.format, v.format);
    v.format = CU_RES_VIEW_FORMAT_UINT_4X16;
    IS(F(cuTexObjectCreate)(&t, &r, &d, &v), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuMemcpyHtoA)(a, 0, in, sizeof in));
    OK(F(cuArrayDestroy)(a)); /* its texture is still there */
    IS(launch(w, "fetch", 1, (void *[]){&t, &w->out}), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void references(void **state)
{
    struct world *w = *state;
    CUtexref t;
    CUarray a = array(4, 4, 0, 0), b;
    float in[16], out[3];
    CUfilter_mode filter;
    CUaddress_mode mode;
    CUarray_format format;
    int channels;
    CUdeviceptr p;
    for (int k = 0; k < 16; k++)
        in[k] = (float)k;
    OK(F(cuMemcpyHtoA)(a, 0, in, sizeof in));
    IS(F(cuModuleGetTexRef)(&t, w->m, "sref"), CUDA_ERROR_NOT_FOUND);
    IS(F(cuModuleGetGlobal)(&p, NULL, w->m, "ref"), CUDA_ERROR_NOT_FOUND);
    OK(F(cuModuleGetTexRef)(&t, w->m, "ref"));
    OK(F(cuTexRefSetFilterMode)(t, CU_TR_FILTER_MODE_LINEAR));
    OK(F(cuTexRefSetAddressMode)(t, 0, CU_TR_ADDRESS_MODE_BORDER));
    OK(F(cuTexRefSetAddressMode)(t, 1, CU_TR_ADDRESS_MODE_CLAMP));
    OK(F(cuTexRefSetArray)(t, a, CU_TRSA_OVERRIDE_FORMAT));
    OK(F(cuTexRefGetFilterMode)(&filter, t));
    OK(F(cuTexRefGetAddressMode)(&mode, t, 0));
    OK(F(cuTexRefGetArray)(&b, t));
    OK(F(cuTexRefGetFormat)(&format, &channels, t));
    assert_true(filter == CU_TR_FILTER_MODE_LINEAR && mode == CU_TR_ADDRESS_MODE_BORDER && b == a && channels == 1);
    IS(F(cuTexRefGetAddress)(&p, t), CUDA_ERROR_INVALID_VALUE);
    OK(launch(w, "named", 3, (void *[]){&w->out}));
    OK(F(cuMemcpyDtoH)(out, w->out, sizeof out));
    /* (0,0): half of texel 0 and half of the border; (1,1): between 0, 1, 4, 5; (2,2) */
    assert_memory_equal(out, ((const float[]){0, 2.5f, 7.5f}), sizeof out);
    OK(F(cuTexRefSetFilterMode)(t, CU_TR_FILTER_MODE_POINT));
    OK(launch(w, "named", 3, (void *[]){&w->out}));
    OK(F(cuMemcpyDtoH)(out, w->out, sizeof out));
    assert_memory_equal(out, ((const float[]){0, 5, 10}), sizeof out);

    CUdeviceptr q;
    CUDA_ARRAY_DESCRIPTOR d = {.Width = 2, .Height = 2, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    OK(F(cuMemAlloc)(&q, 128));
    OK(F(cuMemcpyHtoD)(q, in, sizeof in));
    OK(F(cuTexRefSetAddress2D)(t, &d, q, 32));
    OK(F(cuTexRefGetAddress)(&p, t));
    assert_int_equal(p, q);
    OK(launch(w, "named", 2, (void *[]){&w->out}));
    OK(F(cuMemcpyDtoH)(out, w->out, sizeof out));
    assert_true(out[0] == 0 && out[1] == 9);
    size_t offset;
    IS(F(cuTexRefSetAddress)(NULL, t, q + 4, 16), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuTexRefSetAddress)(&offset, t, q + 4, 16));
    assert_int_equal(offset, 4);
    IS(launch(w, "named", 1, (void *[]){&w->out}), CUDA_ERROR_ILLEGAL_ADDRESS); /* of one dimension now */
}

static void surfaces(void **state)
{
    struct world *w = *state;
    CUarray a = array(4, 0, 0, CUDA_ARRAY3D_SURFACE_LDST), b = array(4, 0, 0, CUDA_ARRAY3D_SURFACE_LDST), c;
    CUsurfObject s;
    CUsurfref r;
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a}, back;
    int out[4];
    OK(F(cuSurfObjectCreate)(&s, &d));
    OK(F(cuSurfObjectGetResourceDesc)(&back, s));
    assert_ptr_equal(back.res.array.hArray, a);
    OK(F(cuModuleGetSurfRef)(&r, w->m, "sref"));
    IS(F(cuSurfRefGetArray)(&c, r), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuSurfRefSetArray)(r, b, 0));
    OK(F(cuSurfRefGetArray)(&c, r));
    assert_ptr_equal(c, b);
    OK(launch(w, "put", 4, (void *[]){&s}));
    for (int k = 0; k < 2; k++) {
        OK(F(cuMemcpyAtoH)(out, k ? b : a, 0, sizeof out));
        assert_memory_equal(out, ((const int[]){0, 1, 2, 3}), sizeof out);
    }
    IS(launch(w, "put", 5, (void *[]){&s}), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Unwritten texels are found where a fetch reads them, and stores of two threads to one place. */
static void checked(void **state)
{
    struct world *w = *state;
    struct dovetail_fault f;
    float one = 1;
    OK(X(dovetailSetChecks)("uninit"));
    CUarray a = array(4, 0, 0, CUDA_ARRAY3D_SURFACE_LDST);
    CUtexObject t;
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    CUDA_TEXTURE_DESC td = {0};
    OK(F(cuMemcpyHtoA)(a, 0, &one, 4));
    OK(F(cuTexObjectCreate)(&t, &d, &td, NULL));
    OK(launch(w, "fetch", 1, (void *[]){&t, &w->out}));
    IS(launch(w, "fetch", 2, (void *[]){&t, &w->out}), CUDA_ERROR_LAUNCH_FAILED);
    OK(X(dovetailGetFault)(&f));
    assert_int_equal(f.thread[0], 1);
    assert_non_null(strstr(f.text, "tex.1d"));
}

static void raced(void **state)
{
    struct world *w = *state;
    struct dovetail_fault f;
    OK(X(dovetailSetChecks)("race"));
    CUarray a = array(4, 0, 0, CUDA_ARRAY3D_SURFACE_LDST);
    CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = a};
    CUsurfObject s;
    OK(F(cuSurfObjectCreate)(&s, &d));
    IS(launch(w, "clash", 2, (void *[]){&s}), CUDA_ERROR_LAUNCH_FAILED);
    OK(X(dovetailGetFault)(&f));
    assert_non_null(strstr(f.text, "sust.b"));
}

/* What a context has goes with it. */
static void left(void **state)
{
    size_t before, after, all;
    for (int k = 0; k < 2; k++) {
        CUtexObject t;
        CUtexref r;
        CUmipmappedArray m;
        CUDA_ARRAY3D_DESCRIPTOR d3 = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
        CUDA_TEXTURE_DESC td = {.flags = CU_TRSF_NORMALIZED_COORDINATES};
        OK(F(cuMemGetInfo)(k ? &after : &before, &all));
        OK(F(cuMipmappedArrayCreate)(&m, &d3, 4));
        CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = m};
        OK(F(cuTexObjectCreate)(&t, &d, &td, NULL));
        OK(F(cuTexRefCreate)(&r));
        OK(F(cuTexRefDestroy)(r));
        td.flags = 0;
        IS(F(cuTexObjectCreate)(&t, &d, &td, NULL), CUDA_ERROR_INVALID_VALUE); /* levels want normalised coordinates */
        OK(F(cuDevicePrimaryCtxReset)(0));
        start(state);
    }
    assert_int_equal(before, after);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, start, stop)
    const struct CMUnitTest tests[] = {TEST(arrays),   TEST(copies),  TEST(objects), TEST(references),
                                       TEST(surfaces), TEST(checked), TEST(raced),   TEST(left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
