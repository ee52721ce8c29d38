// Programs for `dovetail capture`: captured WHAT FILE. What the device gave back goes to FILE, in the order of the copies.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        cudaError_t e_ = (call);                                                                                       \
        if (e_ != cudaSuccess) {                                                                                       \
            printf("%s: %s\n", #call, cudaGetErrorName(e_));                                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

constexpr int N = 1000;
static FILE *out;
__device__ float bias = 0.5f;

__global__ void scale(const float *x, float *y, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] * by + bias;
}
__global__ void add(const float *x, const float *y, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = x[i] + y[i];
}
__global__ void gather(const float *x, const int *at, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[at[i]];
}
// takes as long as one says
__global__ void work(const float *x, float *y, int rounds, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int k = 0; k < rounds; k++)
        v = v * 0.999f + 0.125f;
    if (i < n)
        y[i] = v;
}
// whole numbers that nothing is decided by
__global__ void count(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i] + 1;
}
// places out of lengths; places out of scores; a mask
__global__ void runs(const int *length, int *at, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        at[i] = length[i] + length[n - 1 - i];
}
__global__ void chosen(const float *score, int *at, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        at[i] = score[i] > 0.0f ? i : n - 1;
}
__global__ void masked(const float *x, const unsigned char *m, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 0.0f;
    if (i < n && m[i])
        y[i] = x[i];
}
struct Pair {
    const float *x;
    float *y;
    int n;
};
__global__ void pair(Pair p)
{
    __shared__ float s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < p.n ? p.x[i] : 0;
    __syncthreads();
    if (i < p.n)
        p.y[i] = s[threadIdx.x ^ 1];
}

static std::vector<float> numbers(int seed)
{
    std::vector<float> v(N);
    for (int i = 0; i < N; i++)
        v[i] = (float)((i * 7919 + seed * 104729) % 2001) / 1000.0f - 1.0f;
    return v;
}
static float *device(const std::vector<float> &v)
{
    float *p;
    TRY(cudaMalloc(&p, N * sizeof *p));
    TRY(cudaMemcpy(p, v.data(), N * sizeof *p, cudaMemcpyHostToDevice));
    return p;
}
static float *device()
{
    float *p;
    TRY(cudaMalloc(&p, N * sizeof *p));
    return p;
}
static void give(const void *p, size_t bytes)
{
    std::vector<char> v(bytes);
    TRY(cudaMemcpy(v.data(), p, bytes, cudaMemcpyDeviceToHost));
    fwrite(v.data(), 1, bytes, out);
}
static const int G = (N + 127) / 128;

// a chain: x -> h -> y; h is nobody's business
static void chain()
{
    float *x = device(numbers(1)), *h = device(), *y = device();
    scale<<<G, 128>>>(x, h, 2.0f, N);
    pair<<<G, 128>>>(Pair{h, y, N});
    give(y, N * sizeof(float));
}
// two streams, one waits for the other
static void streams()
{
    float *x = device(numbers(1)), *w = device(numbers(2)), *a = device(), *b = device(), *c = device();
    cudaStream_t s, t;
    cudaEvent_t e, f;
    TRY(cudaStreamCreate(&s));
    TRY(cudaStreamCreate(&t));
    TRY(cudaEventCreate(&e));
    TRY(cudaEventCreate(&f));
    TRY(cudaEventRecord(e, s));
    TRY(cudaStreamWaitEvent(t, e, 0));
    scale<<<G, 128, 0, s>>>(x, a, 3.0f, N);
    scale<<<G, 128, 0, t>>>(w, b, -1.0f, N);
    TRY(cudaEventRecord(f, t));
    TRY(cudaStreamWaitEvent(s, f, 0));
    add<<<G, 128, 0, s>>>(a, b, c, N);
    TRY(cudaStreamSynchronize(s));
    give(c, N * sizeof(float));
}
// two streams side by side, and a third launch that needs both
static void beside()
{
    float *x = device(numbers(1)), *w = device(numbers(2)), *a = device(), *b = device(), *c = device();
    cudaStream_t s, t;
    cudaEvent_t f;
    TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    TRY(cudaEventCreate(&f));
    TRY(cudaDeviceSynchronize());
    work<<<G, 128, 0, s>>>(x, a, 300, N);
    work<<<G, 128, 0, t>>>(w, b, 300, N);
    TRY(cudaEventRecord(f, t));
    TRY(cudaStreamWaitEvent(s, f, 0));
    add<<<G, 128, 0, s>>>(a, b, c, N);
    TRY(cudaStreamSynchronize(s));
    give(c, N * sizeof(float));
}
// the same as a CUDA graph, twice, the second behind the first
static void branches()
{
    float *x = device(numbers(1)), *w = device(numbers(2)), *a = device(), *b = device(), *c = device();
    cudaStream_t s, t;
    cudaEvent_t e, f;
    cudaGraph_t g;
    cudaGraphExec_t exec;
    TRY(cudaStreamCreate(&s));
    TRY(cudaStreamCreate(&t));
    TRY(cudaEventCreate(&e));
    TRY(cudaEventCreate(&f));
    TRY(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    TRY(cudaEventRecord(e, s));
    TRY(cudaStreamWaitEvent(t, e, 0));
    work<<<G, 128, 0, s>>>(x, a, 300, N);
    work<<<G, 128, 0, t>>>(w, b, 300, N);
    TRY(cudaEventRecord(f, t));
    TRY(cudaStreamWaitEvent(s, f, 0));
    add<<<G, 128, 0, s>>>(a, b, c, N);
    TRY(cudaStreamEndCapture(s, &g));
    TRY(cudaGraphInstantiate(&exec, g, 0));
    TRY(cudaGraphLaunch(exec, s));
    TRY(cudaGraphLaunch(exec, s));
    TRY(cudaStreamSynchronize(s));
    give(c, N * sizeof(float));
}
// what the default stream, the host and a stream that is gone order: 1 follows 0 by the host, 2 nothing but the copies,
// 3 (default) all but 2, 4 follows 3, and 5 is on a stream whose handle may be the one that went
static void orders()
{
    float *x = device(numbers(1)), *y[6];
    cudaStream_t s, t, apart;
    TRY(cudaStreamCreate(&s));
    TRY(cudaStreamCreate(&t));
    TRY(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    for (float *&p : y)
        p = device();
    work<<<G, 128, 0, s>>>(x, y[0], 10, N);
    work<<<G, 128, 0, apart>>>(x, y[2], 10, N);
    TRY(cudaStreamSynchronize(s));
    work<<<G, 128, 0, t>>>(x, y[1], 10, N);
    work<<<G, 128>>>(x, y[3], 10, N);
    work<<<G, 128, 0, t>>>(x, y[4], 10, N);
    TRY(cudaStreamDestroy(apart));
    TRY(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    work<<<G, 128, 0, apart>>>(x, y[5], 10, N);
    TRY(cudaDeviceSynchronize());
    for (float *p : y)
        give(p, N * sizeof *p);
}
// memsets, copies on the device, copies from the host in between, a result that is overwritten later
static void mixed()
{
    float *x = device(numbers(1)), *y = device(), *z = device();
    std::vector<float> later = numbers(5);
    TRY(cudaMemset(y, 0, N * sizeof *y));
    scale<<<G, 128>>>(x, y, 2.0f, N - 10);
    TRY(cudaMemcpy(z, y, N * sizeof *z, cudaMemcpyDeviceToDevice));
    give(z, N * sizeof *z);
    TRY(cudaMemcpy(x, later.data(), N * sizeof *x, cudaMemcpyHostToDevice));
    add<<<G, 128>>>(x, y, z, N);
    TRY(cudaMemset((char *)z + 4 * 100, 0, 4 * 50));
    float b = 2.0f;
    TRY(cudaMemcpyToSymbol(bias, &b, sizeof b));
    scale<<<G, 128>>>(z, z, 0.5f, N);
    give(z, N * sizeof *z);
}
// one allocation for everything, as allocators of frameworks have it; its parts are used again; an index buffer
static void arena()
{
    char *p;
    TRY(cudaMalloc(&p, 1 << 20));
    float *x = (float *)p, *h = (float *)(p + 4096), *y = (float *)(p + 8192), *other = (float *)(p + 65536);
    int *at = (int *)(p + 32768);
    std::vector<int> order(N);
    for (int i = 0; i < N; i++)
        order[i] = (i * 31) % N;
    std::vector<float> v = numbers(3), w = numbers(4);
    TRY(cudaMemcpy(x, v.data(), N * sizeof *x, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(other, w.data(), N * sizeof *x, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(at, order.data(), N * sizeof *at, cudaMemcpyHostToDevice));
    scale<<<G, 128>>>(x, h, 2.0f, N);
    scale<<<G, 128>>>(h, y, 2.0f, N);
    scale<<<G, 128>>>(other, h, 4.0f, N); // h again
    add<<<G, 128>>>(h, y, x, N);          // x again
    give(x, N * sizeof *x);
}
static void indices()
{
    float *x = device(numbers(3)), *y = device();
    std::vector<int> order(N);
    for (int i = 0; i < N; i++)
        order[i] = (i * 31) % N;
    int *at;
    TRY(cudaMalloc(&at, N * sizeof *at));
    TRY(cudaMemcpy(at, order.data(), N * sizeof *at, cudaMemcpyHostToDevice));
    gather<<<G, 128>>>(x, at, y, N);
    give(y, N * sizeof *y);
}
static void places()
{
    float *score = device(numbers(3)), *x = device(), *y = device(), *z = device();
    std::vector<int> count_of(N, 5), length(N);
    std::vector<unsigned char> mask(N);
    for (int i = 0; i < N; i++) {
        length[i] = i;
        mask[i] = i % 3 != 1;
    }
    int *c, *d, *l, *at, *best;
    unsigned char *m;
    TRY(cudaMalloc(&c, N * sizeof *c));
    TRY(cudaMalloc(&d, N * sizeof *d));
    TRY(cudaMalloc(&l, N * sizeof *l));
    TRY(cudaMalloc(&at, N * sizeof *at));
    TRY(cudaMalloc(&best, N * sizeof *best));
    TRY(cudaMalloc(&m, N));
    TRY(cudaMemcpy(c, count_of.data(), N * sizeof *c, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(l, length.data(), N * sizeof *l, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(m, mask.data(), N, cudaMemcpyHostToDevice));
    count<<<G, 128>>>(c, d, N);
    runs<<<G, 128>>>(l, at, N);
    gather<<<G, 128>>>(score, at, x, N);
    chosen<<<G, 128>>>(score, best, N);
    gather<<<G, 128>>>(x, best, y, N);
    masked<<<G, 128>>>(y, m, z, N);
    give(d, N * sizeof *d);
    give(z, N * sizeof *z);
}
// a warm-up, then five equal steps on a state
static void steps()
{
    float *x = device(numbers(1)), *state = device(numbers(2)), *h = device(), *y = device();
    pair<<<G, 128>>>(Pair{x, h, N});
    for (int i = 0; i < 5; i++) {
        scale<<<G, 128>>>(state, h, 0.25f, N);
        add<<<G, 128>>>(h, x, state, N);
        scale<<<G, 128>>>(state, y, 8.0f, N);
        give(y, N * sizeof *y);
    }
}
// a CUDA graph, captured from a stream, launched twice
static void graph()
{
    float *x = device(numbers(1)), *h = device(), *y = device();
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t exec;
    TRY(cudaStreamCreate(&s));
    TRY(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    TRY(cudaMemsetAsync(h, 0, N * sizeof *h, s));
    scale<<<G, 128, 0, s>>>(x, h, 2.0f, N - 1);
    add<<<G, 128, 0, s>>>(h, x, y, N);
    TRY(cudaMemcpyAsync(x, y, N * sizeof *x, cudaMemcpyDeviceToDevice, s));
    TRY(cudaStreamEndCapture(s, &g));
    TRY(cudaGraphInstantiate(&exec, g, 0));
    TRY(cudaGraphLaunch(exec, s));
    TRY(cudaGraphLaunch(exec, s));
    TRY(cudaStreamSynchronize(s));
    give(y, N * sizeof *y);
}
// memory of a pool, given back and had again
static void pool()
{
    cudaStream_t s;
    TRY(cudaStreamCreate(&s));
    float *x = device(numbers(6)), *y = device(), *h;
    for (int i = 0; i < 2; i++) {
        TRY(cudaMallocAsync(&h, N * sizeof *h, s));
        scale<<<G, 128, 0, s>>>(x, h, 1.5f, N);
        add<<<G, 128, 0, s>>>(h, x, y, N);
        TRY(cudaFreeAsync(h, s));
        TRY(cudaMemcpyAsync(x, y, N * sizeof *x, cudaMemcpyDeviceToDevice, s));
    }
    TRY(cudaStreamSynchronize(s));
    give(y, N * sizeof *y);
}
// managed memory: the host writes and reads without a call
static void managed()
{
    float *x, *y;
    TRY(cudaMallocManaged(&x, N * sizeof *x));
    TRY(cudaMallocManaged(&y, N * sizeof *y));
    for (int round = 0; round < 2; round++) {
        std::vector<float> v = numbers(7 + round);
        memcpy(x, v.data(), N * sizeof *x);
        scale<<<G, 128>>>(x, y, 2.0f, N);
        TRY(cudaDeviceSynchronize());
    }
    fwrite(y, 1, N * sizeof *y, out);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)();
    } what[] = {{"chain", chain},     {"streams", streams}, {"mixed", mixed},       {"arena", arena},
                {"indices", indices}, {"steps", steps},     {"graph", graph},       {"pool", pool},
                {"managed", managed}, {"beside", beside},   {"branches", branches}, {"orders", orders},
                {"places", places}};
    out = argc == 3 ? fopen(argv[2], "wb") : nullptr;
    for (auto &w : what)
        if (out && !strcmp(argv[1], w.name)) {
            w.run();
            fclose(out);
            return 0;
        }
    return 2;
}
