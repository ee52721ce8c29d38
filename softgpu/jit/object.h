/* An object file of the compiler (ELF, x86-64, relocatable), made runnable: its sections side by side in memory of
 * their own, which is written first and executable after, never both. */
#ifndef DT_SOFTGPU_OBJECT_H
#define DT_SOFTGPU_OBJECT_H

#include <stddef.h>
#include <stdint.h>

struct sg_object; /* machine code in memory */

/* The address of `function` in the object file; *ret is what sg_object_free() takes. NULL: it is no such file, or
 * refers to what is not in it, and `why` says so. */
void *sg_object_load(const void *file, size_t bytes, const char *function, struct sg_object **ret,
                     const char **ret_why);
void sg_object_free(struct sg_object *o); /* nobody runs it any more; NULL is allowed */

/* Machine code that has no relocations, in memory of its own; NULL: there is none. */
uint8_t *sg_object_code(const void *code, size_t bytes, struct sg_object **ret);

#endif
