/* LLVM, loaded when the first kernel is worth compiling: text of its intermediate language in, machine code out.
 *
 * Nothing of LLVM is needed to build: libLLVM-19 and its neighbours are opened by name at run time, and the few dozen
 * functions of their C API that are used here are found by name. Where none is there, or it lacks one of them, there is
 * no compiled code, and sg_llvm_why() says why.
 *
 * Each text is compiled in a child of this process, with a deadline and limits of memory and time: what makes LLVM
 * loop, crash or eat memory costs that child. The child sends an object file back (object.h).
 */
#ifndef DT_SOFTGPU_LLVM_H
#define DT_SOFTGPU_LLVM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Is it there? Loads it at the first call. Any thread. */
bool sg_llvm_ready(void);
const char *sg_llvm_why(void); /* what is missing; NULL: nothing */

/* Compile `text`, a module, to an object file in *ret. False: it does not compile, and `why` has LLVM's words, or
 * that it took too long. One at a time: other callers wait. */
bool sg_llvm_compile(const char *text, size_t bytes, struct dt_str *ret, char *why, size_t why_bytes);

#endif
