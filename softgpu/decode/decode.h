/* From the text of a module to decoded kernels. The modules themselves (sg_module_load and so on) are in sg.h, for all.
 */
#ifndef DT_SOFTGPU_DECODE_H
#define DT_SOFTGPU_DECODE_H

#include "softgpu/state/code.h"

/* The code of a kernel, decoded at the first call, under its module's lock; `checked`: for the checking modes. NULL:
 * memory is out. What cannot be decoded is an error in the code (c->error). Owned by the kernel. */
struct sg_code *sg_kernel_code(struct sg_kernel *k, bool checked);

#endif
