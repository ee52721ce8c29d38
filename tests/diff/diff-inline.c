/* Level `register` against the original, on the software device: every edge of every graph is tried as epilogue (the
 * consumer inlined at the producer's stores) and as prologue (the producer at the consumer's loads), whether it brings
 * anything or not. What each must give, joined or refused and by which row of legal.def, is written beside it; what is
 * joined is held to the original byte by byte, under several inputs and block orders with the race detector. Last, each
 * graph is joined until nothing is left to join.
 */
#include "base/subject.h"
#include "graphs.h"

#define ZERO(b, n) "{\"name\": \"zero_" b "\", \"memset\": {\"buffer\": \"" b "\", \"bytes\": " #n ", \"value\": 0}}"

static const char cuda[] =
    /* 32 x 32 tiles, 2 x 2 results a thread: four stores */
    "extern \"C\" __global__ void gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ "
    "c, int n, int k) {\n"
    "  __shared__ float as[16][33], bs[16][32]; int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;\n"
    "  int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32; float s00 = 0, s01 = 0, s10 = 0, s11 = 0;\n"
    "  for (int k0 = 0; k0 < k; k0 += 16) {\n"
    "    for (int i = 0; i < 2; i++) { int e = threadIdx.x + i * 256;\n"
    "      as[e & 15][e >> 4] = a[(row0 + (e >> 4)) * k + k0 + (e & 15)]; bs[e >> 5][e & 31] = b[(k0 + (e >> 5)) * n + "
    "col0 + (e & 31)]; }\n"
    "    __syncthreads();\n"
    "    for (int q = 0; q < 16; q++) { float a0 = as[q][ty * 2], a1 = as[q][ty * 2 + 1], b0 = bs[q][tx], b1 = "
    "bs[q][tx + 16];\n"
    "      s00 += a0 * b0; s01 += a0 * b1; s10 += a1 * b0; s11 += a1 * b1; }\n"
    "    __syncthreads(); }\n"
    "  c[(row0 + ty * 2) * n + col0 + tx] = s00; c[(row0 + ty * 2) * n + col0 + tx + 16] = s01;\n"
    "  c[(row0 + ty * 2 + 1) * n + col0 + tx] = s10; c[(row0 + ty * 2 + 1) * n + col0 + tx + 16] = s11; }\n"
    /* stores in a loop, behind barriers of the next round */
    "extern \"C\" __global__ void sweep(const float *x, float *y, int n, int rows) {\n"
    "  __shared__ float s[64]; int c = blockIdx.x * 64 + threadIdx.x;\n"
    "#pragma unroll 1\n"
    "  for (int r = 0; r < rows; r++) { s[threadIdx.x] = c < n ? x[r * n + c] : 0.0f; __syncthreads();\n"
    "    if (c < n) y[r * n + c] = s[threadIdx.x ^ 1] + 1.0f; __syncthreads(); } }\n" K_BIAS
    "extern \"C\" __global__ void bias2d(const float *h, const float *b, float *y, int rows, int cols) {\n"
    "  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;\n"
    "  if (c < cols && r < rows) y[r * cols + c] = h[r * cols + c] + b[c]; }\n" K_GELU
    "extern \"C\" __global__ void add(const float *h, const float *r, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = h[i] + r[i]; }\n" K_SCALE
    "extern \"C\" __global__ void silu(const float *x, float *y, int n) {\n" /* reads it twice */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { y[i] = x[i] * 0.5f; y[n + i] = x[i] / (1.0f + "
    "expf(-x[i])); } }\n"
    "extern \"C\" __global__ void backwards(const float *x, float *y, int n) {\n"
    "  int i = n - 1 - (int)(blockIdx.x * blockDim.x + threadIdx.x); if (i >= 0) y[i] = x[i] - 3.0f; }\n"
    /* 32 of 96 columns */
    "extern \"C\" __global__ void third(const float *h, const float *b, float *y, int at, int rows) {\n"
    "  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;\n"
    "  if (r < rows) y[r * 32 + c] = h[r * 96 + at + c] + b[c]; }\n"
    "extern \"C\" __global__ void third_up(const float *h, const float *b, float *y, int at, int rows) {\n"
    "  int c = 31 - threadIdx.x, r = rows - 1 - (int)(blockIdx.y * blockDim.y + threadIdx.y);\n"
    "  if (r >= 0) y[r * 32 + c] = h[r * 96 + at + c] - b[c]; }\n"
    /* reads what it writes, as products with a beta do */
    "extern \"C\" __global__ void blend(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + 0.5f * y[i]; }\n"
    /* reads what its neighbour has written */
    "extern \"C\" __global__ void ripple(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] + 1.0f; __syncthreads();\n"
    "  if (y[i ^ 1] > 0.0f) y[n + i] = x[i] - 1.0f; else y[n + i] = x[i]; }\n"
    "extern \"C\" __global__ void mirror(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[n - 1 - i] - 3.0f; }\n" K_FLIP K_CUBE K_VEC4
        K_SOFTMAX
    /* several elements a thread */
    "#define GELU(v) (0.5f * (v) * (1.0f + tanhf(0.7978845608f * ((v) + 0.044715f * (v) * (v) * (v)))))\n"
    "extern \"C\" __global__ void gelu4(const float4 *h, const float4 *__restrict__ b, float4 *y, int n, int cols) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float4 v = h[i], w = b[i % cols];\n"
    "  v.x += w.x; v.y += w.y; v.z += w.z; v.w += w.w; y[i] = make_float4(GELU(v.x), GELU(v.y), GELU(v.z), GELU(v.w)); "
    "}\n"
    "extern \"C\" __global__ void residual4(const float4 *h, float4 *x, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float4 v = x[i], w = h[i]; v.x += w.x; v.y += w.y; "
    "v.z += w.z; v.w += w.w; x[i] = v; } }\n"
    "extern \"C\" __global__ void unrolled(const float *x, float *y, int n) {\n"
    "  int base = blockIdx.x * blockDim.x * 4 + threadIdx.x;\n"
    "#pragma unroll\n"
    "  for (int k = 0; k < 4; k++) { int i = base + k * blockDim.x; if (i < n) y[i] = GELU(x[i]); } }\n"
    "extern \"C\" __global__ void unrolled64(const float *x, float *y, int n) {\n"
    "  int base = blockIdx.x * 256 + threadIdx.x;\n"
    "#pragma unroll\n"
    "  for (int k = 0; k < 4; k++) { int i = base + k * 64; if (i < n) y[i] = GELU(x[i]); } }\n"
    /* each lane a loop of its own length */
    "extern \"C\" __global__ void newton(const float2 *x, float2 *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float2 v = x[i];\n"
    "  while (fabsf(v.x) > 0.3f) v.x *= 0.5f; while (fabsf(v.y) > 0.1f) v.y = v.y * 0.5f + 0.01f; y[i] = v; }\n"
    /* two vectors a thread, in place too */
    "extern \"C\" __global__ void tiled(const float4 *h, const float4 *r, float4 *y, int n) {\n"
    "  int i = blockIdx.x * 128 + threadIdx.x, k = i + 64; float4 v, w;\n"
    "  if (i < n) { v = h[i]; w = r[i]; v.x *= w.y; v.y *= w.z; v.z *= w.w; v.w *= w.x; y[i] = v; }\n"
    "  if (k < n) { v = h[k]; w = r[k]; v.x *= w.y; v.y *= w.z; v.z *= w.w; v.w *= w.x; y[k] = v; } }\n"
    "extern \"C\" __global__ void pairs(const float *x, float2 *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = make_float2(x[2 * i] + 1.0f, x[2 * i + 1] * "
    "2.0f); }\n"
    /* 32 of 96 columns */
    "extern \"C\" __global__ void third4(const float4 *h, const float *b, float4 *y, int at, int rows) {\n"
    "  int c = threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y; float4 v; if (r >= rows) return;\n"
    "  v = h[r * 24 + at + c]; v.x += b[c * 4]; v.y += b[c * 4 + 1]; v.z -= b[c * 4 + 2]; v.w -= b[c * 4 + 3]; y[r * 8 "
    "+ c] = v; }\n"
    "extern \"C\" __global__ void bits(const uint4 *h, uint4 *y, int n) {\n" /* two bfloat16 in each word */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; uint4 v = h[i]; unsigned *p = (unsigned "
    "*)&v;\n"
    "#pragma unroll\n"
    "  for (int k = 0; k < 4; k++) { float a = __uint_as_float(p[k] << 16) * 0.5f, b = __uint_as_float(p[k] & "
    "0xffff0000u) + 1.0f;\n"
    "    p[k] = __byte_perm(__float_as_uint(a), __float_as_uint(b), 0x7632); } y[i] = v; }\n"
    "extern \"C\" __global__ void norm4(const float4 *h, float4 *y) {\n" /* a lane needs all of them */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; float4 v = h[i]; float s = 1.0f / (v.x + v.y + v.z + v.w); v.x "
    "*= s; v.y *= s; v.z *= s; v.w *= s; y[i] = v; }\n"
    "extern \"C\" __global__ void halve4(const float4 *h, float4 *y) {\n" /* one lane decides for all */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; float4 v = h[i]; while (v.x > 0.2f) { v.x *= 0.5f; v.y *= 0.5f; "
    "v.z *= 0.5f; v.w *= 0.5f; } y[i] = v; }\n"
    "extern \"C\" __global__ void uneven(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float *q = y + 4 * i; const float *p = x + 4 * i; "
    "q[0] = p[0]; q[1] = p[1] + 1; q[3] = p[3] * 2; } }\n"
    "extern \"C\" __global__ void carry(const uint2 *h, uint2 *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; uint2 v = h[i], w;\n"
    "  asm(\"add.cc.u32 %0, %2, %2; addc.u32 %1, %3, 0;\" : \"=r\"(w.x), \"=r\"(w.y) : \"r\"(v.x), \"r\"(v.y)); y[i] = "
    "w; }\n"
    "extern \"C\" __global__ void sum(const unsigned *h, unsigned *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; unsigned v = h[i], w;\n"
    "  asm(\"{.reg .u32 t; add.cc.u32 t, %1, %1; addc.u32 %0, t, 0;}\" : \"=r\"(w) : \"r\"(v)); y[i] = w; }\n"
    /* the flag is set before the load and read after it */
    "extern \"C\" __global__ void between(const unsigned *h, unsigned *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; unsigned w;\n"
    "  asm volatile(\"{.reg .u32 t; and.b32 t, %1, 1; add.cc.u32 t, t, -1; ld.global.u32 t, [%2]; addc.u32 %0, t, "
    "0;}\" : \"=r\"(w) : \"r\"(i), \"l\"(h + i));\n"
    "  y[i] = w; }\n"
    /* reads what it has written back */
    "extern \"C\" __global__ void again(float *h, const float *same, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { h[i] = h[i] * 2.0f; y[i] = same[i] + 1.0f; } }\n"
    "extern \"C\" __global__ void again2(float2 *h, const float2 *same, float2 *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float2 v = h[i]; v.x *= 2.0f; v.y *= 3.0f; h[i] = "
    "v; y[i] = same[i]; } }\n"
    "extern \"C\" __global__ void crossed(const float2 *h, float2 *x, int n) {\n" /* another element's place */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { float2 v = h[i], w = x[i]; x[i] = make_float2(w.y + "
    "v.x, w.x + v.y); } }\n"
    /* into the middle of rows of 64, by divisions and by blocks; into the odd columns */
    "extern \"C\" __global__ void inside(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n * 60) y[(i / 60 + 2) * 64 + i % 60 + 2] = x[i] * "
    "2.0f; }\n"
    "extern \"C\" __global__ void inside2d(const float *x, float *y, int rows, int cols) {\n"
    "  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;\n"
    "  if (c < cols && r < rows) y[(r + 2) * 64 + c + 2] = x[r * cols + c] + 1.0f; }\n"
    "extern \"C\" __global__ void odd(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[2 * i + 1] = x[i] * 3.0f; }\n"
    /* sums of three neighbours in a row, and its elements with zeros around them */
    "extern \"C\" __global__ void near(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + (i > 0 ? x[i - 1] : 0.0f) + (i + 1 < n "
    "? x[i + 1] : 0.0f); }\n"
    "extern \"C\" __global__ void around(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x, r = i / n - 2, c = i % n - 2;\n"
    "  y[i] = r >= 0 && r < n - 4 && c >= 0 && c < n - 4 ? x[r * (n - 4) + c] * 2.0f : 0.0f; }\n"
    /* reads it once more, by some ways from the first time on */
    "extern \"C\" __global__ void peek(const float *h, const float *same, const float *b, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float v = h[i];\n"
    "  if (i & 1) { y[n + i] = b[0]; if (i & 2) y[2 * n + i] = same[i] * b[i & 63]; }\n"
    "  if (i & 4) y[i] = v * same[i]; else y[i] = v; }\n"
    /* rounds of a loop */
    "extern \"C\" __global__ void stride4(const float4 *h, float4 *x, int n) {\n" /* onto what is there */
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {\n"
    "    float4 v = x[i], w = h[i]; v.x += w.x; v.y += w.y; v.z += w.z; v.w += w.w; x[i] = v; } }\n"
    /* pointers, a counter, a column */
    "extern \"C\" __global__ void walk(const float *h, const float *b, float *y, int n, int cols) {\n"
    "  const float *p = h + blockIdx.x * n + threadIdx.x; float *q = y + blockIdx.x * n + threadIdx.x; int c = "
    "threadIdx.x;\n"
    "#pragma unroll 1\n"
    "  for (int k = 0; k < n / 32; k++, p += 32, q += 32, c += 32) *q = *p * 0.5f + b[c % cols] + (float)k; }\n"
    "extern \"C\" __global__ void down(const float *h, float *y, int n) {\n"
    "#pragma unroll 1\n"
    "  for (int i = n - 1 - (int)(blockIdx.x * blockDim.x + threadIdx.x); i >= 0; i -= 512) y[i] = GELU(h[i]); }\n"
    "extern \"C\" __global__ void even(const float *h, float *y, int n) {\n" /* each thread has as many rounds */
    "#pragma unroll 1\n"
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 512) y[i] = h[i] + 2.0f; }\n"
    "extern \"C\" __global__ void carried(const float *h, float *y, int n) {\n"
    "  float f = 0.1f;\n"
    "#pragma unroll 1\n"
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 512) { y[i] = h[i] * f; f = f * f + 0.3f; } }\n"
    "extern \"C\" __global__ void behind(const float *h, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "#pragma unroll 1\n"
    "  for (; i < n; i += 512) y[i] = h[i] * 0.3f; if (i < n + 32) y[i] = 7.0f; }\n"
    /* the compiler makes four rounds one, and some before */
    "extern \"C\" __global__ void fours(const float *h, float *y, int n) {\n"
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 512) y[i] = h[i] * 0.3f; }\n"
    "extern \"C\" __global__ void nested(const float *h, float *y, int rows) {\n"
    "#pragma unroll 1\n"
    "  for (int r = blockIdx.x; r < rows; r += gridDim.x)\n"
    "#pragma unroll 1\n"
    "    for (int c = threadIdx.x; c < 128; c += 32) y[r * 128 + c] = h[r * 128 + c] - 1.0f; }\n"
    "extern \"C\" __global__ void skips(const float *h, float *y, int n) {\n" /* no element in the first round */
    "  int t = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "#pragma unroll 1\n"
    "  for (int k = 0; k < 5; k++) { int i = t + 512 * (k - 1); if (i >= 0 && i < n) y[i] = h[i] + (float)k; } }\n"
    "extern \"C\" __global__ void late(float *h, const float *same, float *y, int n) {\n"
    "#pragma unroll 1\n"
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 512) { h[i] = h[i] * 2.0f; y[i] = same[i] + "
    "1.0f; } }\n"
    /* a matrix of 64 x 96 by heads of 32 columns: [3][64][32]; three rounds in one, vectors, a loop in place */
    "#define HEADS(i) ((i) % 2048 / 32 * 96 + (i) / 2048 * 32 + (i) % 32)\n"
    "extern \"C\" __global__ void heads(const float *h, const float *__restrict__ b, float *y, int n) {\n"
    "  int t = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "#pragma unroll\n"
    "  for (int k = 0; k < 3; k++) { int i = t + k * 2048; if (i < n) y[i] = (h[HEADS(i)] + b[HEADS(i) % 96]) * "
    "0.125f; } "
    "}\n"
    "extern \"C\" __global__ void heads4(const float4 *h, float4 *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; float4 v = h[i % 512 / 8 * 24 + i / 512 * 8 + i % 8];\n"
    "  v.x += 1.0f; v.y *= 2.0f; v.z -= 3.0f; v.w *= v.w; y[i] = v; }\n"
    "extern \"C\" __global__ void heads_on(const float *h, float *x, int n) {\n"
    "#pragma unroll 1\n"
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 1024) x[i] += h[HEADS(i)]; }\n"
    "extern \"C\" __global__ void heads_out(const float *x, float *h) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; h[HEADS(i)] = x[i] - 2.0f; }\n"
    /* [3][32][64]; together again, by threads whose blocks divide nothing */
    "extern \"C\" __global__ void upright(const float *h, float *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[i % 64 * 96 + i / 64] + 1.0f; }\n"
    "extern \"C\" __global__ void together(const float *h, float *y, int n) {\n"
    "  int t = blockIdx.x * 200 + threadIdx.x;\n"
    "#pragma unroll\n"
    "  for (int k = 0; k < 5; k++) { int i = t + k * 1400; if (i < n) y[i] = h[i % 96 / 32 * 2048 + i / 96 * 32 + i % "
    "32]; "
    "} }\n"
    /* 32 of the 96 columns, by heads of 16 */
    "extern \"C\" __global__ void lot(const float *h, const float *b, float *y, int at, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x, c = at + i / 1024 * 16 + i % 16;\n"
    "  if (i < n) y[i] = h[i % 1024 / 16 * 96 + c] + b[c]; }\n"
    /* every third column, upright */
    "extern \"C\" __global__ void comb(const float *h, float *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[i % 64 * 96 + i / 64 * 3 + 1] * 3.0f; }\n"
    /* each row turned by its number: no digits; one element for two threads */
    "extern \"C\" __global__ void skew(const float *h, float *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[i / 32 * 32 + (i + i / 32) % 32] - 1.0f; }\n"
    "extern \"C\" __global__ void heads_twice(const float *h, float *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[HEADS(i / 2)]; }\n"
    /* rows that overlap; columns of vectors */
    "extern \"C\" __global__ void overlap(const float *h, float *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[i / 96 * 64 + i % 96] - 1.0f; }\n"
    "extern \"C\" __global__ void columns2(const float2 *h, float2 *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; float2 v = h[i % 32 * 32 + i / 32]; v.x += 1.0f; v.y -= 1.0f; "
    "y[i] = "
    "v; }\n"
    /* what must be refused */
    K_SHIFT
    "extern \"C\" __global__ void twice(const float *x, float *y, int n) {\n" /* zero, barrier, then the value */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = 0; __syncthreads(); if (i < n) y[i] = x[i] * 2.0f; }\n"
    "extern \"C\" __global__ void rounds(const float *x, float *y, int n, int k) {\n" /* one place, k times */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; float a = 0;\n"
    "#pragma unroll 1\n"
    "  for (int q = 0; q < k; q++) { a += x[i]; __syncthreads(); y[i] = a; } }\n"
    "extern \"C\" __global__ void perhaps(const float *x, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (x[i] > 0) y[i] = x[i]; }\n"
    "extern \"C\" __global__ void pad(const float *x, float *y, int n, int m) {\n" /* writes where it has no element */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] + 1.0f; else if (i < m) y[i] = 0; }\n"
    "extern \"C\" __global__ void spread(const float *x, float *y, int n) {\n" /* two threads have one element */
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 2 * n) y[i] = x[i / 2]; }\n"
    "extern \"C\" __global__ void stride(const float *x, float *y, int n) {\n" /* several elements a thread */
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] + 1.0f; }\n"
    "extern \"C\" __global__ void blur(const float *x, float *h, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) h[i] = x[i] + x[i ? i - 1 : i] + x[i < n - 1 ? i + 1 "
    ": i]; }\n"
    "extern \"C\" __global__ void into(const float *h, float *x, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = h[i] * 0.5f; }\n"
    "extern \"C\" __global__ void both(const float *x, float *h, float *g, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { h[i] = x[i] + 1.0f; g[i] = x[i] - 1.0f; } }\n"
    "extern \"C\" __global__ void count(const float *h, float *y, unsigned *n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[i]; atomicAdd(n, 1u); }\n"
    "extern \"C\" __global__ void table(const float *h, const int *t, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = h[t[i]]; }\n"
    "extern \"C\" __global__ void warp(const float *h, float *y) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[i] + __shfl_xor_sync(~0u, h[i], 1); }\n"
    /* another lane has the element elsewhere */
    "extern \"C\" __global__ void lane(const float *h, float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x, l; asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(l)); if (i < n) y[i] = "
    "h[i] + (float)l; }\n"
    "extern \"C\" __global__ void shorts(const short *h, int *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = h[i]; }\n"
    "extern \"C\" __global__ void narrow(const float *x, short *h, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) h[i] = (short)(x[i] * 99.0f); }\n";

/* As Triton and LLVM write: predicated vector accesses of bits, contractions left open. p: x, h; c: h, r, y; 4 elements
 * a thread. */
static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry p(.param .u64 .ptr .global .align 16 p_0, .param .u64 .ptr .global .align 16 p_1, .param .u32 "
    "p_2)\n{\n"
    ".reg .pred %p<4>;\n.reg .b32 %r<24>;\n.reg .f32 %f<12>;\n.reg .b64 %rd<8>;\n"
    "ld.param.u64 %rd1, [p_0];\nld.param.u64 %rd2, [p_1];\nld.param.u32 %r1, [p_2];\n"
    "mov.u32 %r2, %ctaid.x;\nshl.b32 %r3, %r2, 9;\nmov.u32 %r4, %tid.x;\nshl.b32 %r5, %r4, 2;\nor.b32 %r6, %r3, %r5;\n"
    "setp.lt.s32 %p1, %r6, %r1;\nmul.wide.s32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\n"
    "mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nmov.u32 %r12, 0;\nmov.u32 %r13, 0;\n"
    "@%p1 ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd4 + 0];\n"
    "mov.b32 %f1, %r10;\nmov.b32 %f2, %r11;\nmov.b32 %f3, %r12;\nmov.b32 %f4, %r13;\n"
    "mul.f32 %f5, %f1, %f1;\nmul.f32 %f6, %f2, 0f3FC00000;\nadd.f32 %f7, %f3, 0f3F800000;\nneg.f32 %f8, %f4;\n"
    "mov.b32 %r14, %f5;\nmov.b32 %r15, %f6;\nmov.b32 %r16, %f7;\nmov.b32 %r17, %f8;\n"
    "@%p1 st.global.v4.b32 [%rd5 + 0], {%r14, %r15, %r16, %r17};\nret;\n}\n"
    ".visible .entry c(.param .u64 .ptr .global .align 16 c_0, .param .u64 .ptr .global .align 16 c_1, .param .u64 "
    ".ptr .global .align 16 c_2, "
    ".param .u32 c_3)\n{\n"
    ".reg .pred %p<4>;\n.reg .b32 %r<32>;\n.reg .f32 %f<16>;\n.reg .b64 %rd<12>;\n"
    "ld.param.u64 %rd1, [c_0];\nld.param.u64 %rd2, [c_1];\nld.param.u64 %rd6, [c_2];\nld.param.u32 %r1, [c_3];\n"
    "mov.u32 %r2, %ctaid.x;\nshl.b32 %r3, %r2, 8;\nmov.u32 %r4, %tid.x;\nshl.b32 %r5, %r4, 2;\nor.b32 %r6, %r3, %r5;\n"
    "setp.lt.s32 %p1, %r6, %r1;\nmul.wide.s32 %rd3, %r6, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, "
    "%rd3;\nadd.s64 %rd7, %rd6, %rd3;\n"
    "mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nmov.u32 %r12, 0;\nmov.u32 %r13, 0;\nmov.u32 %r20, 0;\nmov.u32 %r21, "
    "0;\nmov.u32 %r22, 0;\nmov.u32 %r23, 0;\n"
    "@%p1 ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd4 + 0];\n@%p1 ld.global.L1::evict_last.v4.b32 {%r20, %r21, "
    "%r22, %r23}, [%rd5 + 0];\n"
    "mov.b32 %f1, %r10;\nmov.b32 %f2, %r11;\nmov.b32 %f3, %r12;\nmov.b32 %f4, %r13;\n"
    "mov.b32 %f5, %r20;\nmov.b32 %f6, %r21;\nmov.b32 %f7, %r22;\nmov.b32 %f8, %r23;\n"
    "add.f32 %f9, %f1, %f5;\nadd.f32 %f10, %f2, %f6;\nadd.f32 %f11, %f3, %f7;\nadd.f32 %f12, %f4, %f8;\n"
    "mov.b32 %r24, %f9;\nmov.b32 %r25, %f10;\nmov.b32 %r26, %f11;\nmov.b32 %r27, %f12;\n"
    "@%p1 st.global.v4.b32 [%rd7 + 0], {%r24, %r25, %r26, %r27};\nret;\n}\n"
    /* as people write: each register by a name, in no order, and some that are never used */
    ".visible .entry named(.param .u64 named_0, .param .u64 named_1, .param .u32 named_2)\n{\n"
    ".reg .b64 to, spare, from, there, far, at;\n.reg .b32 none, x, block, size, n, i;\n.reg .pred p, in;\n.reg .f32 "
    "w, v;\n"
    "ld.param.u64 from, [named_0];\nld.param.u64 to, [named_1];\nld.param.u32 n, [named_2];\n"
    "mov.u32 block, %ctaid.x;\nmov.u32 size, %ntid.x;\nmov.u32 x, %tid.x;\nmad.lo.s32 i, block, size, x;\n"
    "setp.ge.s32 in, i, n;\n@in bra END;\nmul.wide.s32 at, i, 4;\nadd.s64 far, from, at;\n"
    "ld.global.f32 v, [far];\nmul.rn.f32 v, v, 0f3FC00000;\nadd.s64 there, to, at;\nst.global.f32 [there], v;\n"
    "END: ret;\n}\n"
    /* each block by a table, of which the assembler makes a table, too */
    ".visible .entry tabled(.param .u64 tabled_0, .param .u64 tabled_1)\n{\n"
    ".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<9>;\n.shared .align 4 .b8 s[512];\n"
    "ld.param.u64 %rd1, [tabled_0];\nld.param.u64 %rd2, [tabled_1];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\n"
    "mad.lo.s32 %r3, %r1, 128, %r2;\nmul.wide.s32 %rd3, %r3, 4;\nadd.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, "
    "%rd3;\n"
    "ld.global.f32 %f1, [%rd4];\nmov.u64 %rd6, s;\nmul.wide.u32 %rd7, %r2, 4;\nadd.s64 %rd7, %rd6, %rd7;\n"
    "and.b32 %r4, %r1, 7;\nsetp.gt.u32 %p1, %r4, 4;\n@%p1 bra E;\nT: .branchtargets A, B, C, D, A;\n"
    "brx.idx %r4, T;\nA: mul.rn.f32 %f1, %f1, 0f40400000;\nbra E;\nB: add.rn.f32 %f1, %f1, 0f40400000;\nbra E;\n"
    "C: fma.rn.f32 %f1, %f1, %f1, 0f40400000;\nbra E;\nD: sqrt.rn.f32 %f1, %f1;\n"
    "E: st.shared.f32 [%rd7], %f1;\nbar.sync 0;\nld.shared.f32 %f2, [%rd7];\nst.global.f32 [%rd5], %f2;\nret;\n}\n";

#define YES NULL
#define OTHER "" /* refused, no matter why */
struct want {
    const char *first, *second;
    const char *epilogue, *prologue; /* YES, or the row of legal.def that refuses */
};
struct graph {
    const char *name, *buffers, *launches;
    struct want want[6];
    unsigned left; /* launches after all has been joined */
};

#define P(name, entry, grid, block, args) LM("t", name, entry, grid, block, 0, args)
#define POINT "pointwise"

/* clang-format off */
/* clang-format off */
static const struct graph graphs[] = {
    {"gemm with four stores, bias, gelu, residual: other shapes each",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 384, "weight") "," F("r", 24576, "input") ","
     I("h", 24576) ","
     I("g", 24576) "," I("u", 24576) "," O("y", 24576),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("bias", "bias", "[48,1,1]", "[128,1,1]", B("h") "," B("b") "," B("g") "," N(6144) "," N(96)) ","
     L("gelu", "gelu", "[24,1,1]", "[256,1,1]", B("g") "," B("u") "," N(6144)) ","
     L("add", "add", "[6,1,1]", "[1024,1,1]", B("u") "," B("r") "," B("y") "," N(6144)),
     {{"gemm", "bias", YES, POINT}, {"bias", "gelu", YES, YES}, {"gelu", "add", YES, YES}},
     1},
    {"tiles in two dimensions that do not fit the matrix",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 384, "weight") "," I("h", 24576) "," O("y", 24576),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("bias", "bias2d", "[3,10,1]", "[40,7,1]", B("h") "," B("b") "," B("y") "," N(64) "," N(96)),
     {{"gemm", "bias", YES, POINT}},
     1},
    {"a store in a loop with barriers, at an offset, a tail",
     F("x", 6720, "input") "," F("b", 840, "weight") "," I("h", 7744) "," O("y", 6720),
     L("sweep", "sweep", "[4,1,1]", "[64,1,1]", B("x") "," BO("h", 1024) "," N(210) "," N(8)) ","
     L("bias", "bias", "[14,1,1]", "[128,1,1]", BO("h", 1024) "," B("b") "," B("y") "," N(1680) "," N(210)),
     {{"sweep", "bias", YES, POINT}},
     1},
    {"others need the element too: another reader, the caller",
     F("x", 6720, "input") "," F("b", 840, "weight") "," I("h", 6720) "," O("g", 6720) "," O("y", 6720) ","
     O("z", 6720),
     L("sweep", "sweep", "[4,1,1]", "[64,1,1]", B("x") "," B("h") "," N(210) "," N(8)) ","
     L("bias", "bias", "[14,1,1]", "[128,1,1]", B("h") "," B("b") "," B("g") "," N(1680) "," N(210)) ","
     L("gelu", "gelu", "[7,1,1]", "[256,1,1]", B("g") "," B("y") "," N(1680)) ","
     L("add", "add", "[7,1,1]", "[256,1,1]", B("h") "," B("g") "," B("z") "," N(1680)),
     {{"sweep", "bias", YES, POINT}, {"bias", "gelu", YES, "no-other-reader"}, {"bias", "add", YES, "no-other-reader"},
      {"sweep", "add", "order", "order"}},
     2},
    {"in place: the element is written back",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," I("h", 16384) "," O("y", 16384),
     L("gemm", "gemm", "[2,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(64) "," N(64)) ","
     L("scale", "scale", "[16,1,1]", "[256,1,1]", B("h") ",{\"f32\": 1.5}," N(4096)) ","
     L("gelu", "gelu", "[32,1,1]", "[128,1,1]", B("h") "," B("y") "," N(4096)),
     {{"gemm", "scale", YES, POINT}, {"scale", "gelu", YES, "plain-sites"}},
     1},
    {"a producer that reads what it writes, and what its neighbour wrote",
     F("x", 16384, "input") "," F("a", 16384, "input") "," I("h", 16384) "," I("u", 32768) "," O("y", 16384) ","
     O("z", 32768),
     L("first", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("blend", "blend", "[16,1,1]", "[256,1,1]", B("a") "," B("h") "," N(4096)) ","
     L("c", "backwards", "[16,1,1]", "[256,1,1]", B("h") "," B("y") "," N(4096)) ","
     L("p", "ripple", "[32,1,1]", "[128,1,1]", B("a") "," B("u") "," N(4096)) ","
     L("d", "gelu", "[64,1,1]", "[128,1,1]", B("u") "," B("z") "," N(8192)),
     {{"first", "blend", YES, "bystanders"}, {"blend", "c", YES, "plain-sites"}, {"p", "d", YES, POINT}},
     2},
    {"into the residual, which nobody reads meanwhile; into what the producer reads",
     F("a", 16384, "input") "," F("w", 16384, "weight") "," F("x", 16384, "inout") "," I("h", 16384) "," I("g", 16384),
     L("gemm", "gemm", "[2,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(64) "," N(64)) ","
     L("add", "add", "[16,1,1]", "[256,1,1]", B("h") "," B("x") "," B("x") "," N(4096)) ","
     L("blur", "blur", "[16,1,1]", "[256,1,1]", B("x") "," B("g") "," N(4096)) ","
     L("into", "into", "[16,1,1]", "[256,1,1]", B("g") "," B("x") "," N(4096)),
     {{"gemm", "add", YES, POINT}, {"blur", "into", "bystanders", "bystanders"}, {"add", "into", "order", "order"}},
     3},
    {"vectors into vectors and into single elements, backwards, in three dimensions",
     F("x", 16384, "input") "," I("h", 16384) "," I("g", 16384) "," I("u", 16384) "," I("v", 16384) "," O("y", 16384),
     L("v1", "vec4", "[16,1,1]", "[64,1,1]", B("x") "," B("h")) ","
     L("v2", "vec4", "[4,1,1]", "[256,1,1]", B("h") "," B("g")) ","
     L("back", "backwards", "[33,1,1]", "[128,1,1]", B("g") "," B("u") "," N(4096)) ","
     L("cube", "cube", "[4,2,4]", "[8,4,4]", B("u") "," B("v")) ","
     L("mirror", "mirror", "[11,1,1]", "[384,1,1]", B("v") "," B("y") "," N(4096)),
     {{"v1", "v2", YES, YES}, {"v2", "back", YES, YES}, {"back", "cube", YES, YES}, {"cube", "mirror", YES, YES}},
     1},
    {"single elements into vectors",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     L("gelu", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("v", "vec4", "[16,1,1]", "[64,1,1]", B("h") "," B("y")),
     {{"gelu", "v", YES, YES}},
     1},
    {"tiles transposed on the way",
     F("x", 16384, "input") "," I("h", 16384) "," I("g", 16384) "," O("y", 16384),
     L("p", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("f", "flip", "[4,4,1]", "[16,16,1]", B("h") "," B("g") "," N(64)) ","
     L("c", "gelu", "[32,1,1]", "[128,1,1]", B("g") "," B("y") "," N(4096)),
     {{"p", "f", YES, YES}, {"f", "c", YES, YES}},
     1},
    {"a prologue computed again at every load",
     F("x", 16384, "input") "," F("w", 24576, "weight") "," F("b", 256, "weight") "," I("h", 16384) "," O("y", 24576),
     L("bias", "bias", "[32,1,1]", "[128,1,1]", B("x") "," B("b") "," B("h") "," N(4096) "," N(64)) ","
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("h") "," B("w") "," B("y") "," N(96) "," N(64)),
     {{"bias", "gemm", POINT, YES}},
     1},
    {"a prologue in a reduction, with loads of the same argument on both sides",
     F("x", 16384, "input") "," F("r", 16384, "input") "," I("h", 16384) "," I("g", 16384) "," O("y", 16384),
     L("add", "add", "[32,1,1]", "[128,1,1]", B("x") "," B("r") "," B("h") "," N(4096)) ","
     LM("m", "soft", "softmax", "[32,1,1]", "[64,1,1]", 256, B("h") "," B("g") "," N(128)) ","
     L("res", "add", "[16,1,1]", "[256,1,1]", B("g") "," B("x") "," B("y") "," N(4096)),
     {{"add", "soft", POINT, YES}, {"soft", "res", YES, POINT}},
     1},
    {"predicated vectors of bits, a tail",
     F("x", 16000, "input") "," F("r", 16000, "input") "," I("h", 16000) "," O("y", 16000),
     P("p", "p", "[8,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4000)) ","
     P("c", "c", "[16,1,1]", "[64,1,1]", B("h") "," B("r") "," B("y") "," N(4000)),
     {{"p", "c", YES, YES}},
     1},
    {"bits and floats",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     P("p", "p", "[8,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "gelu", "[16,1,1]", "[256,1,1]", B("h") "," B("y") "," N(4096)),
     {{"p", "c", YES, YES}},
     1},
    {"registers by name, not all of them used",
     F("x", 8192, "input") "," I("g", 8192) "," I("h", 8192) "," O("y", 8192),
     L("a", "gelu", "[8,1,1]", "[256,1,1]", B("x") "," B("g") "," N(2000)) ","
     P("p", "named", "[16,1,1]", "[128,1,1]", B("g") "," B("h") "," N(2000)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2000)),
     {{"a", "p", YES, YES}, {"p", "c", YES, YES}},
     1},
    {"a host that branches by a table",
     F("x", 8192, "input") "," I("h", 8192) "," O("y", 8192),
     P("p", "tabled", "[16,1,1]", "[128,1,1]", B("x") "," B("h")) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)),
     {{"p", "c", YES, POINT}},
     1},
    {"halves of a register",
     F("x", 16384, "input") "," I("h", 8192) "," O("y", 16384),
     L("p", "narrow", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "shorts", "[32,1,1]", "[128,1,1]", B("h") "," B("y") "," N(4096)),
     {{"p", "c", OTHER, OTHER}},
     2},
    {"read twice, written in two places",
     F("x", 8192, "input") "," I("h", 8192) "," O("y", 16384),
     L("p", "sweep", "[8,1,1]", "[64,1,1]", B("x") "," B("h") "," N(512) "," N(4)) ","
     L("c", "silu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)),
     {{"p", "c", YES, POINT}},
     1},
    {"each third of the columns is another consumer's, one backwards; a tail",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 128, "weight") "," I("h", 24576) ","
     O("q", 8192) "," O("k", 8192) "," O("v", 7680),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("q", "third", "[1,16,1]", "[32,4,1]", B("h") "," B("b") "," B("q") "," N(0) "," N(64)) ","
     L("k", "third", "[4,8,1]", "[8,8,1]", B("h") "," B("b") "," B("k") "," N(32) "," N(64)) ","
     L("v", "third_up", "[1,9,1]", "[32,7,1]", B("h") "," B("b") "," B("v") "," N(64) "," N(60)),
     {{"gemm", "q", YES, POINT}, {"gemm", "k", YES, POINT}, {"gemm", "v", YES, POINT}},
     1},
    {"ways that part behind the element, and lead to it again",
     F("x", 8192, "input") "," F("b", 256, "input") "," I("h", 8192) "," Z("y", 24576),
     L("p", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "peek", "[16,1,1]", "[128,1,1]", B("h") "," B("h") "," B("b") "," B("y") "," N(2048)),
     {{"p", "c", YES, YES}},
     1},
    {"neighbours' elements",
     F("x", 8192, "input") "," I("h", 8192) "," O("y", 8192),
     L("p", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "shift", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)),
     {{"p", "c", "own-ways", YES}},
     1},
    {"stored twice, and once more each round",
     F("x", 8192, "input") "," I("h", 8192) "," I("g", 8192) "," I("u", 8192) "," O("y", 8192),
     L("p", "twice", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("g") "," N(2048)) ","
     L("q", "rounds", "[16,1,1]", "[128,1,1]", B("g") "," B("u") "," N(2048) "," N(5)) ","
     L("d", "gelu", "[16,1,1]", "[128,1,1]", B("u") "," B("y") "," N(2048)),
     {{"p", "c", "stored-once", POINT}, {"c", "q", POINT, YES}, {"q", "d", "stored-once", POINT}},
     3},
    {"stored perhaps",
     F("x", 8192, "input") "," Z("h", 8192) "," O("y", 8192),
     L("p", "perhaps", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)),
     {{"p", "c", "stored-once", OTHER}},
     2},
    {"more elements than the producer stores, fewer, threads without one",
     F("x", 8192, "input") "," Z("h", 8192) "," O("y", 8192) "," O("z", 4096) "," O("u", 9216),
     L("p", "gelu", "[12,1,1]", "[128,1,1]", B("x") "," B("h") "," N(1536)) ","
     L("more", "gelu", "[16,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)) ","
     L("less", "gelu", "[8,1,1]", "[128,1,1]", B("h") "," B("z") "," N(1024)) ","
     L("pad", "pad", "[18,1,1]", "[128,1,1]", B("h") "," B("u") "," N(1536) "," N(2304)),
     {{"p", "more", "same-elements", OTHER}, {"p", "less", YES, "no-other-reader"},
     {"p", "pad", "same-elements", OTHER}},
     3},
    {"zeros around a copy: what is not the copy's is read where it was",
     F("x", 14400, "input") "," F("w", 24576, "weight") "," I("h", 16384) "," O("y", 24576),
     ZERO("h", 16384) "," L("p", "inside", "[29,1,1]", "[128,1,1]", B("x") "," B("h") "," N(60)) ","
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("h") "," B("w") "," B("y") "," N(96) "," N(64)),
     {{"p", "gemm", POINT, YES}},
     2},
    {"the same by blocks, with a tail, into vectors; into the odd columns, and into neighbours",
     F("x", 14400, "input") "," I("h", 16384) "," I("g", 16384) "," F("u", 8192, "input") "," O("y", 16384)
     "," O("z", 16384),
     ZERO("h", 16384) "," L("p", "inside2d", "[2,8,1]", "[32,8,1]", B("x") "," B("h") "," N(60) "," N(60)) ","
     L("v", "vec4", "[16,1,1]", "[64,1,1]", B("h") "," B("y")) ","
     ZERO("g", 16384) "," L("o", "odd", "[16,1,1]", "[128,1,1]", B("u") "," B("g") "," N(2048)) ","
     L("near", "near", "[32,1,1]", "[128,1,1]", B("g") "," B("z") "," N(4096)),
     {{"p", "v", "same-elements", YES}, {"o", "near", "same-elements", YES}},
     4},
    {"two halves of what is read, from one launch each; zeros that a launch itself puts around",
     F("x", 8192, "input") "," F("u", 8192, "input") "," F("t", 14400, "input") "," F("w", 24576, "weight") ","
     I("h", 16384) "," I("g", 16384) "," O("y", 16384) "," O("z", 24576),
     L("p", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("q", "backwards", "[16,1,1]", "[128,1,1]", B("u") "," BO("h", 8192) "," N(2048)) ","
     L("near", "near", "[32,1,1]", "[128,1,1]", B("h") "," B("y") "," N(4096)) ","
     L("a", "around", "[32,1,1]", "[128,1,1]", B("t") "," B("g") "," N(64)) ","
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("g") "," B("w") "," B("z") "," N(96) "," N(64)),
     {{"p", "near", "same-elements", YES}, {"q", "near", "same-elements", YES}, {"a", "gemm", POINT, YES}},
     2},
    {"several threads to an element, several elements to a thread",
     F("x", 8192, "input") "," I("h", 8192) "," I("g", 16384) "," O("y", 16384),
     L("p", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "spread", "[32,1,1]", "[128,1,1]", B("h") "," B("g") "," N(2048)) ","
     L("d", "stride", "[8,1,1]", "[128,1,1]", B("g") "," B("y") "," N(4096)),
     {{"p", "c", "thread-map", YES}, {"c", "d", YES, YES}},
     1},
    {"vectors' lanes one by one: after tiles, bias, GELU, a residual in place",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 384, "weight") "," F("x", 24576, "inout") ","
     I("h", 24576) "," I("g", 24576) "," O("y", 24000),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("gelu", "gelu4", "[6,1,1]", "[256,1,1]", B("h") "," B("b") "," B("g") "," N(1536) "," N(24)) ","
     L("res", "residual4", "[13,1,1]", "[128,1,1]", B("g") "," B("x") "," N(1536)) ","
     L("back", "gelu4", "[24,1,1]", "[64,1,1]", B("x") "," B("b") "," B("y") "," N(1500) "," N(24)),
     {{"gemm", "gelu", YES, POINT}, {"gelu", "res", YES, YES}, {"res", "back", YES, "plain-sites"}},
     1},
    {"unrolled, with a tail; pairs; loops of each lane's own",
     F("x", 6720, "input") "," I("h", 6720) "," I("g", 6720) "," I("u", 6720) "," O("y", 6720),
     L("sweep", "sweep", "[4,1,1]", "[64,1,1]", B("x") "," B("h") "," N(210) "," N(8)) ","
     L("p", "unrolled", "[5,1,1]", "[96,1,1]", B("h") "," B("g") "," N(1680)) ","
     L("q", "pairs", "[8,1,1]", "[128,1,1]", B("g") "," B("u") "," N(840)) ","
     L("c", "newton", "[9,1,1]", "[96,1,1]", B("u") "," B("y") "," N(840)),
     {{"sweep", "p", YES, POINT}, {"p", "q", YES, YES}, {"q", "c", YES, YES}},
     1},
    {"two vectors a thread, of other lanes of another input; a prologue of them",
     F("x", 16384, "input") "," F("r", 16384, "input") "," F("w", 24576, "weight") "," I("h", 16384) ","
     I("g", 16384) "," O("y", 24576),
     L("p", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("t", "tiled", "[8,1,1]", "[64,1,1]", B("h") "," B("r") "," B("g") "," N(1024)) ","
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("g") "," B("w") "," B("y") "," N(96) "," N(64)),
     {{"p", "t", YES, YES}, {"t", "gemm", POINT, YES}},
     1},
    {"thirds of the columns in vectors, a tail",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 128, "weight") "," I("h", 24576) ","
     O("q", 8192) "," O("k", 7680),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("q", "third4", "[1,16,1]", "[8,4,1]", B("h") "," B("b") "," B("q") "," N(8) "," N(64)) ","
     L("k", "third4", "[1,9,1]", "[8,7,1]", B("h") "," B("b") "," B("k") "," N(16) "," N(60)),
     {{"gemm", "q", YES, POINT}, {"gemm", "k", YES, POINT}},
     1},
    {"words of two halves each",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 16384),
     L("p", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "bits", "[9,1,1]", "[128,1,1]", B("h") "," B("y") "," N(1024)),
     {{"p", "c", YES, YES}},
     1},
    {"lanes that need each other",
     F("x", 16384, "input") "," I("h", 16384) "," I("g", 16384) "," I("u", 16384) "," I("v", 16384) ","
     O("w", 16384) "," O("z", 16384) "," O("y", 16384),
     L("p", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "norm4", "[16,1,1]", "[64,1,1]", B("h") "," B("g")) ","
     L("d", "halve4", "[16,1,1]", "[64,1,1]", B("g") "," B("z")) ","
     L("p2", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("v") "," N(4096)) ","
     L("d2", "halve4", "[16,1,1]", "[64,1,1]", B("v") "," B("w")) ","
     L("q", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("u") "," N(4096)) ","
     L("e", "carry", "[16,1,1]", "[128,1,1]", B("u") "," B("y")),
     {{"p", "c", "own-ways", YES}, {"c", "d", YES, YES}, {"p2", "d2", "own-ways", YES}, {"q", "e", "own-ways", YES}},
     3},
    {"a guest between what sets the carry flag and what reads it",
     F("x", 16384, "input") "," I("h", 16384) "," I("g", 16384) "," O("z", 16384) "," O("y", 16384),
     L("p", "sum", "[32,1,1]", "[128,1,1]", B("x") "," B("h")) ","
     L("c", "between", "[32,1,1]", "[128,1,1]", B("h") "," B("y")) ","
     L("q", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("g") "," N(4096)) ","
     L("d", "between", "[32,1,1]", "[128,1,1]", B("g") "," B("z")),
     {{"p", "c", POINT, POINT}, {"q", "d", YES, YES}},
     3},
    {"elements at uneven distances; another element's place",
     F("x", 16384, "input") "," I("h", 16384) "," Z("g", 16384) "," I("u", 16384) "," Z("y", 16384),
     L("p", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "uneven", "[8,1,1]", "[128,1,1]", B("h") "," B("g") "," N(1024)) ","
     L("q", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("u") "," N(4096)) ","
     L("d", "crossed", "[16,1,1]", "[128,1,1]", B("u") "," B("y") "," N(2048)),
     {{"p", "c", "thread-map", YES}, {"q", "d", "bystanders", YES}},
     2},
    {"it reads what it has written back",
     F("x", 8192, "input") "," I("h", 8192) "," I("g", 8192) "," O("y", 8192) "," O("z", 8192),
     L("p", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "again", "[16,1,1]", "[128,1,1]", B("h") "," B("h") "," B("y") "," N(2048)) ","
     L("q", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("g") "," N(2048)) ","
     L("d", "again2", "[16,1,1]", "[64,1,1]", B("g") "," B("g") "," B("z") "," N(1024)),
     {{"p", "c", "bystanders", "bystanders"}, {"q", "d", "bystanders", "bystanders"}},
     4},
    {"grid strides: vectors in place behind tiles, pointers, backwards; a prologue of them",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 384, "weight") "," F("x", 24576, "inout") ","
     I("h", 24576) "," I("g", 24576) "," I("u", 24576) "," O("y", 24576),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("res", "stride4", "[7,1,1]", "[96,1,1]", B("h") "," B("x") "," N(1536)) ","
     L("p", "walk", "[6,1,1]", "[32,1,1]", B("x") "," B("b") "," B("g") "," N(1024) "," N(96)) ","
     L("c", "down", "[4,1,1]", "[128,1,1]", B("g") "," B("u") "," N(6144)) ","
     LM("m", "soft", "softmax", "[48,1,1]", "[64,1,1]", 256, B("u") "," B("y") "," N(128)),
     {{"gemm", "res", YES, POINT}, {"res", "p", YES, "plain-sites"}, {"p", "c", YES, YES}, {"c", "soft", POINT, YES}},
     2},
    {"rounds: more elements than the consumer has, in all threads alike or not",
     F("x", 16384, "input") "," I("h", 16384) "," O("y", 8192) "," O("z", 8000),
     L("p", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c", "even", "[4,1,1]", "[128,1,1]", B("h") "," B("y") "," N(2048)) ","
     L("d", "even", "[4,1,1]", "[128,1,1]", B("h") "," B("z") "," N(2000)),
     {{"p", "c", YES, "no-other-reader"}, {"p", "d", "thread-map", "no-other-reader"}},
     2},
    {"rounds that need each other, stores behind them, loops in loops, rounds left out, read after it was written",
     F("x", 16384, "input") "," I("h", 16384) "," I("g", 16384) "," I("u", 16384) "," I("v", 16384) ","
     I("w", 16384) "," I("k", 16384) "," O("t", 16384) "," O("y", 16384) "," O("z", 16640) ","
     O("q", 16384) "," O("r", 16384) "," O("s", 16384),
     L("p1", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("h") "," N(4096)) ","
     L("c1", "carried", "[4,1,1]", "[128,1,1]", B("h") "," B("y") "," N(4096)) ","
     L("p2", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("g") "," N(4096)) ","
     L("c2", "behind", "[4,1,1]", "[128,1,1]", B("g") "," B("z") "," N(4096)) ","
     L("p3", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("u") "," N(4096)) ","
     L("c3", "nested", "[8,1,1]", "[32,1,1]", B("u") "," B("q") "," N(32)) ","
     L("p4", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("v") "," N(2048)) ","
     L("c4", "skips", "[4,1,1]", "[128,1,1]", B("v") "," B("r") "," N(2048)) ","
     L("p6", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("k") "," N(4096)) ","
     L("c6", "fours", "[4,1,1]", "[128,1,1]", B("k") "," B("t") "," N(4096)) ","
     L("p5", "gelu", "[32,1,1]", "[128,1,1]", B("x") "," B("w") "," N(4096)) ","
     L("c5", "late", "[4,1,1]", "[128,1,1]", B("w") "," B("w") "," B("s") "," N(4096)),
     {{"p1", "c1", "own-ways", YES}, {"p2", "c2", "own-ways", YES}, {"p3", "c3", "thread-map", YES},
     {"p4", "c4", "thread-map", YES},
      {"p5", "c5", "bystanders", "bystanders"}, {"p6", "c6", "own-ways", YES}},
     7},
    {"by heads behind tiles, and together again; blocks that divide nothing",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 384, "weight") "," I("h", 24576) ","
     I("g", 24576) "," I("u", 24576) "," O("y", 24576),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("q", "heads", "[16,1,1]", "[128,1,1]", B("h") "," B("b") "," B("g") "," N(6144)) ","
     L("o", "together", "[7,1,1]", "[200,1,1]", B("g") "," B("u") "," N(6144)) ","
     L("t", "upright", "[48,1,1]", "[128,1,1]", B("u") "," B("y")),
     {{"gemm", "q", YES, POINT}, {"q", "o", YES, YES}, {"o", "t", YES, YES}},
     1},
    {"by heads in vectors, and onto what is there in a loop",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("x", 24576, "inout") "," I("h", 24576) ","
     I("g", 24576) "," I("u", 24576) "," O("y", 24576),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("v", "heads4", "[12,1,1]", "[128,1,1]", B("h") "," B("g")) ","
     L("res", "heads_on", "[8,1,1]", "[128,1,1]", B("g") "," B("x") "," N(6144)) ","
     L("out", "heads_out", "[48,1,1]", "[128,1,1]", B("x") "," B("u")) ","
     LM("m", "soft", "softmax", "[48,1,1]", "[64,1,1]", 256, B("u") "," B("y") "," N(128)),
     {{"gemm", "v", YES, POINT}, {"v", "res", YES, YES}, {"res", "out", YES, "plain-sites"},
      {"out", "soft", POINT, YES}},
     2},
    {"each third of the columns by heads, a tail; every third column",
     F("a", 16384, "input") "," F("w", 24576, "weight") "," F("b", 384, "weight") "," I("h", 24576) ","
     O("q", 8192) "," O("k", 8192) "," O("v", 8000) "," O("c", 8192),
     L("gemm", "gemm", "[3,2,1]", "[256,1,1]", B("a") "," B("w") "," B("h") "," N(96) "," N(64)) ","
     L("q", "lot", "[16,1,1]", "[128,1,1]", B("h") "," B("b") "," B("q") "," N(0) "," N(2048)) ","
     L("k", "lot", "[21,1,1]", "[100,1,1]", B("h") "," B("b") "," B("k") "," N(32) "," N(2048)) ","
     L("v", "lot", "[16,1,1]", "[128,1,1]", B("h") "," B("b") "," B("v") "," N(64) "," N(2000)) ","
     L("c", "comb", "[16,1,1]", "[128,1,1]", B("h") "," B("c")),
     {{"gemm", "q", YES, POINT}, {"gemm", "k", YES, POINT}, {"gemm", "v", YES, POINT}, {"gemm", "c", YES, POINT}},
     1},
    {"turned rows, two threads to an element of a head, rows that overlap; columns of vectors",
     F("x", 24576, "input") "," I("h", 24576) "," I("g", 24576) "," I("u", 24576) "," I("w", 24576) ","
     O("y", 24576) "," O("z", 49152) "," O("v", 24576) "," O("s", 8192),
     L("p", "gelu", "[48,1,1]", "[128,1,1]", B("x") "," B("h") "," N(6144)) ","
     L("c", "skew", "[48,1,1]", "[128,1,1]", B("h") "," B("y")) ","
     L("p2", "gelu", "[48,1,1]", "[128,1,1]", B("x") "," B("g") "," N(6144)) ","
     L("c2", "heads_twice", "[96,1,1]", "[128,1,1]", B("g") "," B("z")) ","
     L("p3", "gelu", "[48,1,1]", "[128,1,1]", B("x") "," B("u") "," N(6144)) ","
     L("c3", "overlap", "[48,1,1]", "[128,1,1]", B("u") "," B("v")) ","
     L("p4", "gelu", "[48,1,1]", "[128,1,1]", B("x") "," B("w") "," N(6144)) ","
     L("c4", "columns2", "[8,1,1]", "[128,1,1]", B("w") "," B("s")),
     {{"p", "c", "thread-map", YES}, {"p2", "c2", "thread-map", YES}, {"p3", "c3", "thread-map", YES},
      {"p4", "c4", YES, YES}},
     4},
    {"two buffers between them, and a second output",
     F("x", 8192, "input") "," I("h", 8192) "," I("g", 8192) "," O("u", 8192) "," I("v", 8192) "," O("y", 8192),
     L("p", "both", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," B("g") "," N(2048)) ","
     L("c", "add", "[16,1,1]", "[128,1,1]", B("h") "," B("g") "," B("y") "," N(2048)) ","
     L("q", "both", "[16,1,1]", "[128,1,1]", B("x") "," B("v") "," B("u") "," N(2048)) ","
     L("d", "gelu", "[16,1,1]", "[128,1,1]", B("v") "," B("y") "," N(2048)),
     {{"p", "c", "one-buffer", "one-buffer"}, {"q", "d", YES, "bystanders"}},
     3},
    {"atomics, shuffles, tables",
     F("x", 8192, "input") "," I("h", 8192) "," I("g", 8192) "," I("u", 8192) "," O("y", 8192) "," Z("n", 4) ","
     Z("t", 8192),
     L("p", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "count", "[16,1,1]", "[128,1,1]", B("h") "," B("g") "," B("n")) ","
     L("d", "warp", "[16,1,1]", "[128,1,1]", B("g") "," B("u")) ","
     L("e", "table", "[16,1,1]", "[128,1,1]", B("u") "," B("t") "," B("y") "," N(2048)),
     {{"p", "c", POINT, YES}, {"c", "d", POINT, POINT}, {"d", "e", OTHER, POINT}},
     3},
    {"lane numbers", F("x", 8192, "input") "," I("h", 8192) "," I("g", 8192) "," O("y", 8192),
     L("p", "gelu", "[16,1,1]", "[128,1,1]", B("x") "," B("h") "," N(2048)) ","
     L("c", "lane", "[43,1,1]", "[48,1,1]", B("h") "," B("g") "," N(2048)) ","
     L("d", "gelu", "[16,1,1]", "[128,1,1]", B("g") "," B("y") "," N(2048)),
     {{"p", "c", POINT, YES}, {"c", "d", YES, POINT}},
     1},
};
/* clang-format on */
/* clang-format on */

static const char *const way[] = {"epilogue", "prologue"};

static void every_edge(const struct graph *g, const struct made *m)
{
    unsigned seen = 0, want = 0;
    while (want < 6 && g->want[want].first)
        want++;
    for (uint32_t k = 0; k < m->a->nedge; k++) {
        const struct ana_edge *x = &m->a->edge[k];
        const char *p = m->g->launch[x->producer].name, *c = m->g->launch[x->consumer].name;
        const struct want *w = NULL;
        for (unsigned i = 0; i < want; i++)
            if (!strcmp(g->want[i].first, p) && !strcmp(g->want[i].second, c))
                w = &g->want[i];
        seen += w != NULL;
        for (int l = RW_LEVEL_EPILOGUE; l <= RW_LEVEL_PROLOGUE; l++) {
            struct dt_str why = {0};
            json_t *doc = NULL;
            const char *expect = w ? l ? w->prologue : w->epilogue : OTHER;
            bool joined = join(m, x->producer, x->consumer, (enum rw_level)l, &doc, &why, 0);
            if (getenv("SHOW"))
                printf("%s: %s -> %s as %s: %s\n", g->name, p, c, way[l], joined ? "joined" : why.s);
            if (w && joined != (expect == YES))
                fail_msg("%s: %s -> %s as %s: %s %s", g->name, p, c, way[l], joined ? "joined" : "refused",
                         why.s ? dt_plain(why.s) : "");
            if (w && !joined &&
                (strncmp(dt_plain(why.s), expect, strlen(expect)) || (*expect && why.s[strlen(expect)] != ':')))
                fail_msg("%s: %s -> %s as %s: wanted '%s', got '%s'", g->name, p, c, way[l], expect, dt_plain(why.s));
            if (joined)
                hold_joined(m, doc, g->name);
            json_decref(doc);
            dt_str_done(&why);
        }
    }
    assert_int_equal(seen, want);
}

static void run_one(void **state)
{
    const struct graph *g = *state;
    struct made m = {0};
    char *text = graph_text(cuda, ptx, g->buffers, g->launches);
    make(text, NULL, &m);
    every_edge(g, &m);
    chain(g->name, text, RW_LEVEL_EPILOGUE, RW_LEVEL_PROLOGUE, g->left);
    made_done(&m);
    free(text);
}

/* How many texts of the guest stand at a store, where its elements differ in constants alone, and where they do not. */
static void test_texts(void **state)
{
    static const struct {
        const char *guest, *grid, *block, *args;
        unsigned texts;
    } row[] = {
        {"gelu4", "[16,1,1]", "[64,1,1]", B("h") "," B("b") "," B("y") "," N(1024) "," N(24), 1},
        {"unrolled64", "[16,1,1]", "[64,1,1]", B("h") "," B("y") "," N(4000), 1},
        {"unrolled", "[16,1,1]", "[64,1,1]", B("h") "," B("y") "," N(4000), 4}, /* so many times a register */
        {"residual4", "[16,1,1]", "[64,1,1]", B("h") "," B("y") "," N(1024), 1},
        {"vec4", "[16,1,1]", "[64,1,1]", B("h") "," B("y"), 4},
        /* two vectors; the last lane takes the first one of the other input */
        {"tiled", "[8,1,1]", "[64,1,1]", B("h") "," B("x") "," B("y") "," N(1024), 2},
    };
    for (unsigned k = 0; k < sizeof row / sizeof *row; k++) {
        struct dt_str launches = {0}, why = {0};
        struct made m = {0};
        json_t *doc = NULL;
        unsigned next = 1;
        dt_str_addf(&launches, "%s,", L("p", "sweep", "[8,1,1]", "[64,1,1]", B("x") "," B("h") "," N(512) "," N(8)));
        dt_str_addf(&launches,
                    "{\"name\": \"c\", \"module\": \"m\", \"entry\": \"%s\", \"grid\": %s, \"block\": %s, \"shared\": "
                    "0, \"args\": [%s]}",
                    row[k].guest, row[k].grid, row[k].block, row[k].args);
        char *text =
            graph_text(cuda, NULL, F("x", 16384, "input") "," F("b", 384, "weight") "," I("h", 16384) "," Z("y", 16384),
                       launches.s);
        make(text, NULL, &m);
        if (!join(&m, 0, 1, RW_LEVEL_EPILOGUE, &doc, &why, 0))
            fail_msg("%s: %s", row[k].guest, dt_plain(why.s));
        const char *ptx_text =
            json_string_value(json_object_get(json_object_get(json_object_get(doc, "modules"), "f0"), "ptx"));
        for (const char *at = ptx_text; (at = strstr(at, "\nGNEXT")); at++)
            next++;
        if (next != row[k].texts)
            fail_msg("%s: %u texts, wanted %u", row[k].guest, next, row[k].texts);
        hold_joined(&m, doc, row[k].guest);
        json_decref(doc);
        made_done(&m);
        free(text);
        dt_str_done(&launches);
        dt_str_done(&why);
    }
}

int main(void)
{
    enum { N = sizeof graphs / sizeof graphs[0] };
    struct CMUnitTest tests[N + 1];
    for (size_t k = 0; k < N; k++)
        tests[k] = (struct CMUnitTest){graphs[k].name, run_one, NULL, NULL, (void *)&graphs[k]};
    tests[N] = (struct CMUnitTest)cmocka_unit_test(test_texts);
    return run_all("inline", tests, N + 1);
}
