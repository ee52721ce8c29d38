// gemm.ptx is what
//     nvcc -ptx -arch=sm_80 -o gemm.ptx gemm.cu
// makes of this file: C = A * B (f16 row-major A and B, f32 C) by nvcuda::wmma, and by mma.sync with ldmatrix and cp.async.
// tests/unit/test-softgpu-gemm.c compares both with plain C.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

// One warp per 32 x 32 tile of C, 16 x 16 fragments; scaled at the end, element by element.
extern "C" __global__ void gemm_wmma(const half *a, const half *b, float *c, int m, int n, int k, float scale)
{
    using namespace nvcuda;
    int i0 = blockIdx.y * 32, j0 = blockIdx.x * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);
    for (int x = 0; x < k; x += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
        for (int i = 0; i < 2; i++) {
            wmma::load_matrix_sync(fa[i], a + (i0 + 16 * i) * k + x, k);
            wmma::load_matrix_sync(fb[i], b + x * n + j0 + 16 * i, n);
        }
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            for (int e = 0; e < acc[i][j].num_elements; e++)
                acc[i][j].x[e] *= scale;
            wmma::store_matrix_sync(c + (i0 + 16 * i) * n + j0 + 16 * j, acc[i][j], n, wmma::mem_row_major);
        }
}

// Four warps per 64 x 64 tile, each 32 x 32; slices of 32 along k copied by cp.async into two buffers in turn.
extern "C" __global__ void __launch_bounds__(128) gemm_mma(const half *a, const half *b, float *c, int m, int n, int k, float scale)
{
    enum { PITCH_A = 40, PITCH_B = 72 };
    __shared__ __align__(16) half sa[2][64 * PITCH_A], sb[2][32 * PITCH_B];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, i0 = blockIdx.y * 64, j0 = blockIdx.x * 64, wi = warp / 2 * 32, wj = warp % 2 * 32;
    float acc[2][4][4] = {};
    auto copy = [](half *to, const half *from) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from) : "memory");
    };
    auto stage = [&](int s, int x) {
        for (int p = t; p < 256; p += 128) {
            copy(&sa[s][p / 4 * PITCH_A + p % 4 * 8], a + (i0 + p / 4) * k + x + p % 4 * 8);
            copy(&sb[s][p / 8 * PITCH_B + p % 8 * 8], b + (x + p / 8) * n + j0 + p % 8 * 8);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    stage(0, 0);
    for (int x = 0, s = 0; x < k; x += 32, s ^= 1) {
        if (x + 32 < k) {
            stage(s ^ 1, x + 32);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        for (int kk = 0; kk < 32; kk += 16) {
            uint32_t fa[2][4], fb[4][2];
            for (int i = 0; i < 2; i++) {
                uint32_t at = (uint32_t)__cvta_generic_to_shared(&sa[s][(wi + 16 * i + lane % 16) * PITCH_A + kk + lane / 16 * 8]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(at) : "memory");
            }
            for (int j = 0; j < 4; j++) {
                uint32_t at = (uint32_t)__cvta_generic_to_shared(&sb[s][(kk + lane % 16) * PITCH_B + wj + 8 * j]);
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(fb[j][0]), "=r"(fb[j][1]) : "r"(at) : "memory");
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                                 : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int e = 0; e < 4; e++)
                c[(i0 + wi + 16 * i + lane / 4 + 8 * (e / 2)) * n + j0 + wj + 8 * j + lane % 4 * 2 + e % 2] = acc[i][j][e] * scale;
}
