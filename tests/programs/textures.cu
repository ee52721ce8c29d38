// Arrays, textures and surfaces: filters, edges, layers, a volume, a cube, levels, linear memory, copies, graphs.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                        \
        if (error_ != cudaSuccess) {                                                                                       \
            printf("%s: %s\n", #call, cudaGetErrorString(error_));                                                        \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

__global__ void linear(cudaTextureObject_t t, float *out)
{
    const float x[4] = {1.0f, 1.75f, 0.0f, 3.9f}, y[4] = {1.0f, 0.75f, 0.0f, 9.0f};
    out[threadIdx.x] = tex2D<float>(t, x[threadIdx.x], y[threadIdx.x]);
}

__global__ void wrapped(cudaTextureObject_t t, float *out)
{
    float4 v = tex2D<float4>(t, 1.25f + threadIdx.x, -0.25f);
    out[4 * threadIdx.x] = v.x, out[4 * threadIdx.x + 1] = v.y;
    out[4 * threadIdx.x + 2] = v.z, out[4 * threadIdx.x + 3] = v.w;
}

__global__ void fetched(cudaTextureObject_t t, int *out)
{
    int2 v = tex1Dfetch<int2>(t, (int)threadIdx.x - 1);
    out[2 * threadIdx.x] = v.x, out[2 * threadIdx.x + 1] = v.y;
}

__global__ void layers(cudaTextureObject_t t, float *out)
{
    out[threadIdx.x] = tex2DLayered<float>(t, 1.5f, 0.5f, threadIdx.x);
}

__global__ void volume(cudaTextureObject_t t, float *out) { out[0] = tex3D<float>(t, 0.5f, 0.5f, 0.5f); }

__global__ void faces(cudaTextureObject_t t, float *out)
{
    float d[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
    const float *v = d[threadIdx.x];
    out[threadIdx.x] = texCubemap<float>(t, v[0], v[1], v[2]);
}

__global__ void levels(cudaTextureObject_t t, float *out)
{
    out[0] = tex2DLod<float>(t, 0.5f, 0.5f, 0.0f);
    out[1] = tex2DLod<float>(t, 0.5f, 0.5f, 0.5f);
    out[2] = tex2DLod<float>(t, 0.5f, 0.5f, 2.0f);
    out[3] = tex2DGrad<float>(t, 0.5f, 0.5f, make_float2(0.5f, 0), make_float2(0, 0.25f));
    float4 g = tex2Dgather<float4>(t, 0.5f, 0.5f, 0);
    out[4] = g.x + g.y + g.z + g.w;
}

__global__ void write(cudaSurfaceObject_t s, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h)
        surf2Dwrite(make_short2(x, 10 * y), s, x * sizeof(short2), y);
}

__global__ void read(cudaSurfaceObject_t s, int *out)
{
    short2 v = surf2Dread<short2>(s, threadIdx.x * sizeof(short2), 2);
    short2 none = surf2Dread<short2>(s, 1000, 2, cudaBoundaryModeZero);
    short2 last = surf2Dread<short2>(s, 1000, 2, cudaBoundaryModeClamp);
    out[threadIdx.x] = v.x + v.y + 1000 * none.x + 100 * last.x;
}

__global__ void stack(cudaSurfaceObject_t s, int *out)
{
    surf2DLayeredwrite(7, s, 4, 1, 2);
    out[0] = surf2DLayeredread<int>(s, 4, 1, 2);
}

static cudaTextureObject_t texture(cudaArray_t a, bool smooth, bool normalized, cudaTextureAddressMode edge,
                                   bool floats = true, cudaMipmappedArray_t m = nullptr)
{
    cudaResourceDesc r = {};
    cudaTextureDesc d = {};
    cudaTextureObject_t t = 0;
    r.resType = m ? cudaResourceTypeMipmappedArray : cudaResourceTypeArray;
    if (m)
        r.res.mipmap.mipmap = m;
    else
        r.res.array.array = a;
    d.addressMode[0] = d.addressMode[1] = d.addressMode[2] = edge;
    d.filterMode = d.mipmapFilterMode = smooth ? cudaFilterModeLinear : cudaFilterModePoint;
    d.readMode = floats ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
    d.normalizedCoords = normalized;
    d.maxMipmapLevelClamp = 9;
    cudaError_t e = cudaCreateTextureObject(&t, &r, &d, nullptr);
    if (e != cudaSuccess)
        printf("texture: %s\n", cudaGetErrorString(e));
    return t;
}

static void show(const char *name, const float *dev, int n)
{
    float h[16] = {};
    cudaError_t e = cudaMemcpy(h, dev, n * sizeof *h, cudaMemcpyDeviceToHost);
    printf("%s", name);
    for (int k = 0; k < n && e == cudaSuccess; k++)
        printf(" %g", h[k]);
    printf("%s\n", e == cudaSuccess ? "" : cudaGetErrorString(e));
}

static void show_ints(const char *name, const int *dev, int n)
{
    int h[16] = {};
    cudaError_t e = cudaMemcpy(h, dev, n * sizeof *h, cudaMemcpyDeviceToHost);
    printf("%s", name);
    for (int k = 0; k < n && e == cudaSuccess; k++)
        printf(" %d", h[k]);
    printf("%s\n", e == cudaSuccess ? "" : cudaGetErrorString(e));
}

int main()
{
    float *out;
    int *ints;
    OK(cudaMalloc(&out, 64 * sizeof *out));
    OK(cudaMalloc(&ints, 64 * sizeof *ints));
    cudaChannelFormatDesc one = cudaCreateChannelDesc<float>();

    const float image[2][3] = {{1, 2, 3}, {10, 20, 30}};
    cudaArray_t a;
    OK(cudaMallocArray(&a, &one, 3, 2));
    OK(cudaMemcpy2DToArray(a, 0, 0, image, sizeof image[0], sizeof image[0], 2, cudaMemcpyHostToDevice));
    cudaTextureObject_t t = texture(a, true, false, cudaAddressModeClamp);
    linear<<<1, 4>>>(t, out);
    show("linear", out, 4);
    cudaResourceDesc back;
    cudaTextureDesc how;
    OK(cudaGetTextureObjectResourceDesc(&back, t));
    OK(cudaGetTextureObjectTextureDesc(&how, t));
    printf("back %d %d\n", back.res.array.array == a, how.filterMode == cudaFilterModeLinear);
    OK(cudaDestroyTextureObject(t));
    float row[3];
    OK(cudaMemcpy2DFromArray(row, sizeof row, a, 0, 1, sizeof row, 1, cudaMemcpyDeviceToHost));
    printf("row %g %g %g\n", row[0], row[1], row[2]);
    OK(cudaFreeArray(a));

    cudaChannelFormatDesc bytes = cudaCreateChannelDesc<uchar4>();
    const unsigned char pixels[2][2][4] = {{{255, 0, 51, 0}, {0, 255, 0, 0}}, {{1, 2, 3, 4}, {255, 255, 255, 102}}};
    OK(cudaMallocArray(&a, &bytes, 2, 2));
    OK(cudaMemcpyToArray(a, 0, 0, pixels, sizeof pixels, cudaMemcpyHostToDevice));
    t = texture(a, false, true, cudaAddressModeWrap, false);
    wrapped<<<1, 1>>>(t, out);
    show("wrapped", out, 4);
    OK(cudaDestroyTextureObject(t));
    OK(cudaFreeArray(a));

    int2 *line, pairs[4] = {{1, -1}, {2, -2}, {3, -3}, {4, -4}};
    OK(cudaMalloc(&line, sizeof pairs));
    OK(cudaMemcpy(line, pairs, sizeof pairs, cudaMemcpyHostToDevice));
    cudaResourceDesc r = {};
    cudaTextureDesc d = {};
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = line;
    r.res.linear.desc = cudaCreateChannelDesc<int2>();
    r.res.linear.sizeInBytes = sizeof pairs;
    OK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    fetched<<<1, 6>>>(t, ints);
    show_ints("fetched", ints, 12);
    OK(cudaDestroyTextureObject(t));

    size_t pitch;
    float *plane;
    OK(cudaMallocPitch(&plane, &pitch, 3 * sizeof(float), 2));
    OK(cudaMemcpy2D(plane, pitch, image, sizeof image[0], sizeof image[0], 2, cudaMemcpyHostToDevice));
    r = {};
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = plane;
    r.res.pitch2D.desc = one;
    r.res.pitch2D.width = 3, r.res.pitch2D.height = 2, r.res.pitch2D.pitchInBytes = pitch;
    d.filterMode = cudaFilterModeLinear;
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeBorder;
    OK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    linear<<<1, 4>>>(t, out);
    show("pitched", out, 4);
    OK(cudaDestroyTextureObject(t));

    float many[24];
    for (int k = 0; k < 24; k++)
        many[k] = (float)k;
    cudaMemcpy3DParms p = {};
    OK(cudaMalloc3DArray(&a, &one, make_cudaExtent(2, 2, 3), cudaArrayLayered));
    p.srcPtr = make_cudaPitchedPtr(many, 2 * sizeof(float), 2, 2);
    p.dstArray = a, p.extent = make_cudaExtent(2, 2, 3), p.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&p));
    t = texture(a, false, false, cudaAddressModeClamp);
    layers<<<1, 4>>>(t, out);
    show("layers", out, 4);
    OK(cudaDestroyTextureObject(t));
    OK(cudaFreeArray(a));

    OK(cudaMalloc3DArray(&a, &one, make_cudaExtent(2, 2, 2)));
    p.dstArray = a, p.extent = make_cudaExtent(2, 2, 2);
    OK(cudaMemcpy3D(&p));
    t = texture(a, true, true, cudaAddressModeClamp);
    volume<<<1, 1>>>(t, out);
    show("volume", out, 1);
    OK(cudaDestroyTextureObject(t));
    OK(cudaFreeArray(a));

    OK(cudaMalloc3DArray(&a, &one, make_cudaExtent(2, 2, 6), cudaArrayCubemap));
    p.dstArray = a, p.extent = make_cudaExtent(2, 2, 6);
    OK(cudaMemcpy3D(&p));
    t = texture(a, true, true, cudaAddressModeClamp);
    faces<<<1, 6>>>(t, out);
    show("faces", out, 6);
    OK(cudaDestroyTextureObject(t));
    OK(cudaFreeArray(a));

    cudaMipmappedArray_t m;
    OK(cudaMallocMipmappedArray(&m, &one, make_cudaExtent(4, 4, 0), 3));
    for (unsigned k = 0; k < 3; k++) {
        float same[16];
        for (int j = 0; j < 16; j++)
            same[j] = (float)(1 << k);
        size_t w = (4 >> k) * sizeof(float);
        OK(cudaGetMipmappedArrayLevel(&a, m, k));
        OK(cudaMemcpy2DToArray(a, 0, 0, same, w, w, 4 >> k, cudaMemcpyHostToDevice));
    }
    t = texture(nullptr, true, true, cudaAddressModeClamp, true, m);
    levels<<<1, 1>>>(t, out);
    show("levels", out, 5);
    OK(cudaDestroyTextureObject(t));
    OK(cudaFreeMipmappedArray(m));

    cudaChannelFormatDesc shorts = cudaCreateChannelDesc<short2>();
    cudaSurfaceObject_t s;
    OK(cudaMallocArray(&a, &shorts, 5, 3, cudaArraySurfaceLoadStore));
    r = {};
    r.resType = cudaResourceTypeArray, r.res.array.array = a;
    OK(cudaCreateSurfaceObject(&s, &r));
    write<<<dim3(2, 3), 4>>>(s, 5, 3);
    read<<<1, 5>>>(s, ints);
    show_ints("surface", ints, 5);
    short2 whole[3][5];
    cudaStream_t stream;
    cudaGraph_t g;
    cudaGraphExec_t e;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    write<<<dim3(2, 3), 4, 0, stream>>>(s, 5, 3);
    OK(cudaMemcpy2DFromArrayAsync(whole, sizeof whole[0], a, 0, 0, sizeof whole[0], 3, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamEndCapture(stream, &g));
    OK(cudaGraphInstantiate(&e, g, 0));
    memset(whole, 0, sizeof whole);
    OK(cudaGraphLaunch(e, stream));
    OK(cudaStreamSynchronize(stream));
    printf("graph %d %d\n", whole[2][4].x, whole[2][4].y);
    OK(cudaDestroySurfaceObject(s));
    OK(cudaFreeArray(a));

    cudaChannelFormatDesc words = cudaCreateChannelDesc<int>();
    OK(cudaMalloc3DArray(&a, &words, make_cudaExtent(2, 2, 3), cudaArrayLayered | cudaArraySurfaceLoadStore));
    r.res.array.array = a;
    OK(cudaCreateSurfaceObject(&s, &r));
    stack<<<1, 1>>>(s, ints);
    show_ints("stack", ints, 1);
    cudaExtent size;
    unsigned flags;
    OK(cudaArrayGetInfo(&words, &size, &flags, a));
    printf("info %d %zu %zu %zu %u\n", words.x, size.width, size.height, size.depth, flags);
    OK(cudaDestroySurfaceObject(s));
    OK(cudaFreeArray(a));

    // a texture that is gone
    OK(cudaMallocArray(&a, &one, 3, 2));
    t = texture(a, false, false, cudaAddressModeClamp);
    printf("twice %s\n", cudaGetErrorName((cudaDestroyTextureObject(t), cudaDestroyTextureObject(t))));
    linear<<<1, 4>>>(t, out);
    printf("gone %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
