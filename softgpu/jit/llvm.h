/* LLVM, loaded when the first kernel is worth compiling: text of its intermediate language in, machine code out.
 *
 * Nothing of LLVM is needed to build: libLLVM-19 and its neighbours are opened by name at run time, and the few dozen
 * functions of their C API that are used here are found by name. Where none is there, or it lacks one of them, there is
 * no compiled code, and sg_llvm_why() says why.
 *
 * The machine code is LLVM's own to place (ORC's LLJIT): pages are written first and executable after, never both.
 */
#ifndef DT_SOFTGPU_LLVM_H
#define DT_SOFTGPU_LLVM_H

#include <stdbool.h>
#include <stddef.h>

struct sg_llvm_code; /* machine code of one text */

/* Is it there? Loads it at the first call. Any thread. */
bool sg_llvm_ready(void);
const char *sg_llvm_why(void); /* what is missing; NULL: nothing */

/* Compile `text`, a module with the function `name`. Returns its address and in *ret_code what sg_llvm_free() takes;
 * NULL: it does not compile, and `why` has LLVM's words. One at a time: other callers wait. */
void *sg_llvm_compile(const char *text, size_t bytes, const char *name, struct sg_llvm_code **ret_code, char *why,
                      size_t why_bytes);
void sg_llvm_free(struct sg_llvm_code *code); /* nobody runs it any more; NULL is allowed */

#endif
