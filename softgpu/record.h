/* Recording: which bytes of given memory each block of a launch touches, as the kernel itself says. Types only, for the
 * executor (exec/record.c), the driver's extension (libcuda/extension.h) and those who use it through device/.
 *
 * A kernel that is to be recorded calls a function without a body, which no real device has, with operands in registers
 * or immediate:
 *
 *     .extern .func __dovetail_touch (.param .b64 address, .param .b64 offset, .param .b32 site, .param .b32 how);
 *     @p call __dovetail_touch, (%rd1, 16, 3, 0);
 *
 * `address` is the only register; the other three are numbers. For every active thread, the bytes [address + offset, +
 * site[3].bytes) are looked up in the ranges, which are disjoint. `how` says what then becomes of them:
 *     DOVETAIL_TOUCH_RECORD  they join what this block touches, in every plane of the site; outside the ranges they are
 *                            a stray
 *     DOVETAIL_TOUCH_BOUNDS  outside the ranges they are a stray, and so is a write (site.writes) to a range that is
 *                            `fixed`
 *     DOVETAIL_TOUCH_AHEAD   they join, or are passed over outside the ranges: the access may never happen
 * with, added:
 *     DOVETAIL_TOUCH_GENERIC  addresses of shared and local memory, and of parameters, are passed over
 *     DOVETAIL_TOUCH_ALIGNED  an address that is no multiple of site.bytes is a stray
 *
 * What a block touched in a plane of a range is given out when the block ends, as ascending intervals of bytes that
 * neither overlap nor touch, counted in granules of 1 << shift bytes from the multiple of 32 at or before the range's
 * base (so an access that is aligned to its width is exact). The first stray in the order of blocks ends the launch,
 * which is no fault of the device.
 */
#ifndef DT_SOFTGPU_RECORD_H
#define DT_SOFTGPU_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define DOVETAIL_TOUCH "__dovetail_touch"
enum {
    DOVETAIL_TOUCH_RECORD,
    DOVETAIL_TOUCH_BOUNDS,
    DOVETAIL_TOUCH_AHEAD,
    DOVETAIL_TOUCH_HOW = 3, /* mask of these */
    DOVETAIL_TOUCH_GENERIC = 4,
    DOVETAIL_TOUCH_ALIGNED = 8,
    DOVETAIL_TOUCH_PLANES = 32
};

struct dovetail_touch_site { /* an access in the kernel */
    uint32_t bytes;          /* 1 to 32, a power of two; at least a granule where it is recorded */
    uint32_t planes;         /* bits: the planes that it is recorded in */
    uint32_t writes;         /* 0 or 1 */
};
struct dovetail_touch_range {
    uint64_t base, bytes;
    uint32_t recorded; /* 0: it may be touched, and is not recorded */
    uint32_t fixed;    /* 1: see DOVETAIL_TOUCH_BOUNDS */
};
struct dovetail_stray {
    uint32_t found; /* 0: there was none */
    uint32_t site, thread[3];
    uint64_t block, address; /* block: x + grid.x * (y + grid.y * z) */
};
struct dovetail_recorder {
    const struct dovetail_touch_site *site;
    const struct dovetail_touch_range *range;
    uint32_t nsite, nrange, nplane, shift; /* shift: at most 5 */
    /* Block `block` touched bytes [run[i][0], run[i][1]) of range `range`, counted from its base, n > 0 of them: once a
     * block, range and plane. Called inside the launch, from any thread, one call at a time, blocks in any order; it
     * may not call the driver. */
    void (*touched)(void *user, uint64_t block, uint32_t range, uint32_t plane, const uint64_t (*run)[2], size_t n);
    void *user;
    struct dovetail_stray stray; /* out, of the last launch */
};

struct dovetail_line { /* a line of PTX: executions by threads, and by warps for some of theirs */
    uint64_t lanes, warps;
};

#endif
