/* Tensor maps (PTX §5.5.8): what a cp.async.bulk.tensor copies, as numbers.
 *
 * A tensor map is an opaque object of 128 bytes. NVIDIA's layout is unknown; the software device has this one, and
 * whoever holds the fields (a graph document's `tensor_map` argument) needs no bytes at all: box rows come from
 * ptx_tensormap_row either way. Little-endian:
 *
 *      0  u64  address of element (0, …, 0)          64  u16[5]  box: elements from first to last along each dimension
 *      8  u32[5]  elements of each dimension, less 1  74  u8[5]   step along each dimension, less 1
 *     28  u32  0x4D544744                            79  u8      rank, less 1
 *     32  u64[4]  bytes between neighbours along     80  u8      element type, in the numbering of CUtensorMapDataType
 *                 dimension 1, 2, 3, 4               81  u8      interleave   82 u8 swizzle   83 u8 atoms of swizzle
 *                                                    84  u8      L2 promotion 85 u8 fill      86 … 127  0
 *
 * Pure functions, no state; safe from any thread.
 */
#ifndef DT_PTX_TENSORMAP_H
#define DT_PTX_TENSORMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ptx.h"

#define PTX_TENSORMAP_BYTES 128

/* CUtensorMapDataType */
enum ptx_tm_type {
    PTX_TM_U8,
    PTX_TM_U16,
    PTX_TM_U32,
    PTX_TM_S32,
    PTX_TM_U64,
    PTX_TM_S64,
    PTX_TM_F16,
    PTX_TM_F32,
    PTX_TM_F64,
    PTX_TM_BF16,
    PTX_TM_F32_FTZ,
    PTX_TM_TF32,
    PTX_TM_TF32_FTZ,
    PTX_TM_B4,
    PTX_TM_B4_P64,
    PTX_TM_B6_P32,
    PTX_TM_TYPES
};
enum { PTX_TM_SWIZZLE_NONE, PTX_TM_SWIZZLE_32B, PTX_TM_SWIZZLE_64B, PTX_TM_SWIZZLE_128B };
enum { PTX_TM_ATOM_16B, PTX_TM_ATOM_32B, PTX_TM_ATOM_32B_FLIP_8B, PTX_TM_ATOM_64B };

struct ptx_tensormap {
    uint64_t address;
    uint64_t dim[5];          /* elements; dimension 0 is contiguous. 1 from `rank` on */
    uint64_t stride[5];       /* bytes; [0] is not used (the element) */
    uint32_t box[5], step[5]; /* 1 from `rank` on */
    uint8_t rank, type;
    uint8_t interleave; /* 0 none, 1 16 bytes, 2 32 bytes */
    uint8_t swizzle, atom;
    uint8_t l2, fill; /* fill 1: the NaN pattern where the box leaves the tensor, else zeros */
};

/* NULL: cuTensorMapEncodeTiled takes it (requirements of cuda.h); else which requirement fails. */
const char *ptx_tensormap_check(const struct ptx_tensormap *m);
void ptx_tensormap_encode(const struct ptx_tensormap *m, uint8_t out[PTX_TENSORMAP_BYTES]);
/* False: these bytes are no tensor map. The fields may still be nonsense (tensormap.replace changes one at a time):
 * check them. */
bool ptx_tensormap_decode(const uint8_t in[PTX_TENSORMAP_BYTES], struct ptx_tensormap *ret);

/* A unit is one element, or 16 of a packed type: bytes in global memory, and in shared memory (which may have a gap at
 * its end). */
void ptx_tensormap_unit(enum ptx_tm_type t, unsigned *ret_elements, unsigned *ret_global, unsigned *ret_shared);
enum ptx_type ptx_tensormap_type(enum ptx_tm_type t); /* what reductions compute with; PTX_T_NONE: packed */

/* Rows of the box: all dimensions but the first. */
uint32_t ptx_tensormap_rows(const struct ptx_tensormap *m);
struct ptx_tm_row {
    uint64_t address; /* of the first unit that is inside the tensor */
    uint32_t skip;    /* units before it that are outside */
    uint32_t inside;  /* units inside, 0: none (address is then meaningless) */
};
/* Row `row` of the box at `coord`. Units, not elements: coord[0] of a packed type must be a multiple of its unit. */
struct ptx_tm_row ptx_tensormap_row(const struct ptx_tensormap *m, const int32_t coord[5], uint32_t row);
uint32_t ptx_tensormap_row_units(const struct ptx_tensormap *m); /* of every row, inside or not */
uint32_t ptx_tensormap_row_pitch(const struct ptx_tensormap *m); /* bytes from row to row in shared memory */
/* what a load tells its mbarrier; UINT32_MAX if more */
uint32_t ptx_tensormap_box_bytes(const struct ptx_tensormap *m);
/* Where a byte of a row lands: `at` is its shared address if there were no swizzle. Whole 8-byte pieces stay together,
 * 16 without flip. */
uint32_t ptx_tensormap_swizzled(const struct ptx_tensormap *m, uint32_t at);

#endif
