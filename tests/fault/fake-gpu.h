/* What fake-jitlink.c and fake-gpu.c have in common. */
#ifndef DT_TESTS_FAULT_FAKE_GPU_H
#define DT_TESTS_FAULT_FAKE_GPU_H

#define FAKE_PTX_SECTION 0x8d0e7a11u /* type of the ELF section with the PTX, NUL at its end */

#endif
