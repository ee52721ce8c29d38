/* The lane loops for x86-64 level 4: AVX-512. See lanes.inc and matrix.inc; chosen by sg_isa() in isa.c. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define SG_TABLE sg_lanes_v4
#define SG_PRODUCTS sg_products_v4
#define SG_MATRIX_BLOCKS blocks_f, run_f, matrices_at, matrices_get, matrices_put
#include "softgpu/exec/lanes.inc"
#include "softgpu/exec/matrix.inc"
#else
#include "softgpu/exec/exec-priv.h"
const sg_fn sg_lanes_v4[SG_H_COUNT]; /* never chosen */
const struct sg_products sg_products_v4;
#endif
