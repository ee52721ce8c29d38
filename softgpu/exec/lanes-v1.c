/* The lane loops for any x86-64, and every other architecture. See lanes.inc and matrix.inc; chosen by sg_isa() in
 * isa.c. */
#define SG_TABLE sg_lanes_v1
#define SG_PRODUCTS sg_products_v1
#define SG_MATRIX_BLOCKS NULL, NULL, NULL, NULL, NULL
#include "softgpu/exec/lanes.inc"
#include "softgpu/exec/matrix.inc"
